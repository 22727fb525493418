//! Mixtures: training, and the trained model.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use lsparse::increment::Increment;
use lsparse::{Beside, MixtureConfig, MixtureInputs, MixtureModel, fit_mixture_with};
use numpy::{PyArray1, PyArrayDyn, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::gate::{Watched, raise, run, run_watched};
use crate::rows::{Held, array};
use crate::trace::Recorder;

/// A trained mixture.
#[pyclass(frozen, module = "lsparse._core")]
pub struct Mixture {
    model: MixtureModel,
}

/// Settings from the JSON text that Python makes of its parameters.
pub fn settings<C: serde::de::DeserializeOwned>(json: &str) -> PyResult<C> {
    serde_json::from_str(json).map_err(|error| {
        raise(lsparse::Error::Config { option: "config", problem: error.to_string(), remedy: "mend the value".into() })
    })
}

/// Train a mixture; gives the model and a dict that says how it went.
#[pyfunction]
#[pyo3(signature = (x, config, *, binarize=None, sample_weight=None, start=None, threads=0, progress=None))]
#[allow(clippy::too_many_arguments)]
pub fn fit_mixture<'py>(
    py: Python<'py>,
    x: &Bound<'py, PyAny>,
    config: &str,
    binarize: Option<f64>,
    sample_weight: Option<PyReadonlyArray1<'py, f64>>,
    start: Option<&Bound<'py, Mixture>>,
    threads: usize,
    progress: Option<Py<PyAny>>,
) -> PyResult<(Mixture, Bound<'py, PyDict>)> {
    let config: MixtureConfig = settings(config)?;
    let held = Held::borrow(x)?;
    let row_weights = sample_weight.as_ref().map(|weights| weights.as_slice()).transpose()?;
    let start = start.map(|start| &start.get().model);
    let (interrupt, recorder) = (AtomicBool::new(false), Recorder::default());
    let mut observer = recorder.clone();
    let mut tick = |py: Python<'_>| progress.as_ref().map_or(Ok(()), |progress| recorder.show(py, progress));
    let watched = Watched { interrupt: &interrupt, tick: &mut tick };
    let (fitted, interrupted) = held.with(binarize, |rows| {
        run_watched(py, threads, watched, || {
            let observer: &mut dyn lsparse::training::observe::Observer = &mut observer;
            let (observer, interrupt) = (Some(observer), Some(&interrupt));
            let inputs = MixtureInputs { row_weights, start, ..Default::default() };
            let beside = Beside { observer, interrupt, ..Default::default() };
            fit_mixture_with(rows, &config, inputs, beside)
        })
    })?;
    let report = recorder.report(py, &fitted.outcome, interrupted)?;
    Ok((Mixture { model: fitted.model }, report))
}

#[pymethods]
impl Mixture {
    /// A model from a file.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        Ok(Mixture { model: run(py, 1, || MixtureModel::load(&path))? })
    }

    /// Write the model to a file.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        run(py, 1, || self.model.save_to(&path))
    }

    /// A model from the bytes of a file.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, bytes: &[u8]) -> PyResult<Self> {
        Ok(Mixture { model: run(py, 1, || MixtureModel::from_bytes(Path::new("the pickled model"), bytes))? })
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let model = &slf.get().model;
        let bytes = run(slf.py(), 1, || {
            model.to_bytes().map_err(|source| lsparse::Error::Unwritable { path: "the model".into(), source })
        })?;
        Ok((slf.get_type().getattr("from_bytes")?, (PyBytes::new(slf.py(), &bytes),)))
    }

    /// The settings it was trained with, as settled for the data, as JSON.
    #[getter]
    fn config(&self) -> PyResult<String> {
        json(&self.model.config)
    }

    /// How training went, as JSON.
    #[getter]
    fn training(&self) -> PyResult<String> {
        json(&self.model.training)
    }

    /// Columns of the data.
    #[getter]
    fn dim(&self) -> usize {
        self.model.dim()
    }

    /// Frequencies of the clusters, and their point estimates by name.
    fn arrays<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item("weights", PyArray1::from_slice(py, &self.model.weights))?;
        for named in &self.model.arrays {
            dict.set_item(named.name, array(py, &named.shape, named.values.clone())?)?;
        }
        Ok(dict)
    }

    /// The log density of every row, and the free parameters of the model.
    #[pyo3(signature = (x, *, binarize=None, threads=0))]
    fn score<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        binarize: Option<f64>,
        threads: usize,
    ) -> PyResult<(Bound<'py, PyArray1<f64>>, usize)> {
        let held = Held::borrow(x)?;
        let scores = held.with(binarize, |rows| run(py, threads, || self.model.score(rows)))?;
        Ok((PyArray1::from_vec(py, scores.log_density), scores.num_parameters))
    }

    /// The most probable clusters of every row and their responsibilities, `sparsity` of each.
    #[pyo3(signature = (x, sparsity, *, binarize=None, threads=0))]
    fn assign<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        sparsity: usize,
        binarize: Option<f64>,
        threads: usize,
    ) -> PyResult<(Bound<'py, PyArrayDyn<i32>>, Bound<'py, PyArrayDyn<f64>>)> {
        let held = Held::borrow(x)?;
        let (index, value) = held.with(binarize, |rows| {
            run(py, threads, || {
                let (mut index, mut value) = (Vec::new(), Vec::new());
                self.model.assign(rows, sparsity, &mut |clusters, shares| {
                    index.extend(clusters.iter().map(|&k| k as i32));
                    value.extend_from_slice(shares);
                    Ok(())
                })?;
                Ok((index, value))
            })
        })?;
        let count = value.len() / sparsity;
        Ok((array(py, &[count, sparsity], index)?, array(py, &[count, sparsity], value)?))
    }

    /// Rows drawn from the mixture, and their clusters.
    #[pyo3(signature = (rows, trials, seed))]
    fn sample<'py>(
        &self,
        py: Python<'py>,
        rows: usize,
        trials: Option<usize>,
        seed: u64,
    ) -> PyResult<(Bound<'py, PyArrayDyn<f64>>, Bound<'py, PyArray1<i64>>)> {
        let drawn = run(py, 1, || self.model.sample(rows, trials, seed))?;
        let clusters = drawn.clusters.iter().map(|&k| i64::from(k)).collect();
        Ok((array(py, &[rows, self.model.dim()], drawn.values)?, PyArray1::from_vec(py, clusters)))
    }

    /// The model after a step on rows that it has not seen: added to what was there, or blended in at a rate. The total
    /// then stands for `population` rows (their weight), or for those seen so far.
    #[pyo3(signature = (x, *, binarize=None, sample_weight=None, rate=None, population=None, threads=0))]
    #[allow(clippy::too_many_arguments)]
    fn update<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        binarize: Option<f64>,
        sample_weight: Option<PyReadonlyArray1<'py, f64>>,
        rate: Option<f64>,
        population: Option<f64>,
        threads: usize,
    ) -> PyResult<Self> {
        let held = Held::borrow(x)?;
        let weights = sample_weight.as_ref().map(|weights| weights.as_slice()).transpose()?;
        let seen = self.model.total.total_weight();
        let model = held.with(binarize, |rows| {
            let fresh = weights.map_or(rows.num_rows() as f64, |weights| weights.iter().sum());
            let how = increment(rate, population.unwrap_or(seen + fresh));
            run(py, threads, || self.model.update(rows, weights, how))
        })?;
        Ok(Mixture { model })
    }
}

/// Added without a rate, blended with one.
pub fn increment(rate: Option<f64>, population: f64) -> Increment {
    rate.map_or(Increment::Add, |rate| Increment::Blend { rate, population })
}

/// Anything of the library as JSON.
pub fn json<T: serde::Serialize>(value: &T) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| crate::gate::LsparseError::new_err(error.to_string()))
}
