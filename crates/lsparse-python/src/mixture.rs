//! Mixtures: training, and the trained model.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use lsparse::increment::Increment;
use lsparse::likelihood::NamedArray;
use lsparse::mixture::{GivenPrior, GivenStart, initial_mixture};
use lsparse::system::check_result;
use lsparse::{MixtureConfig, MixtureInputs, MixtureModel, fit_mixture_with};
use numpy::{PyArray1, PyArrayDyn, PyReadonlyArray1, PyReadonlyArrayDyn, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::around::{Around, Reported};
use crate::gate::{raise, run};
use crate::rows::{Braked, Held, array};

/// A trained mixture.
#[pyclass(frozen, module = "lsparse._core")]
pub struct Mixture {
    model: MixtureModel,
}

/// Settings from the JSON text that Python makes of its parameters.
pub fn settings<C: serde::de::DeserializeOwned>(json: &str) -> PyResult<C> {
    serde_json::from_str(json).map_err(|error| {
        raise(lsparse::Error::Config { setting: "config", problem: error.to_string(), remedy: "mend the value".into() })
    })
}

/// Clusters to start from and numbers of the prior that are given, every entry there; arrays by the names of model files.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Given<'py> {
    weights: Option<Vec<f64>>,
    arrays: HashMap<String, PyReadonlyArrayDyn<'py, f64>>,
    prior_mean: Option<Vec<f64>>,
    prior_variance: Option<Vec<f64>>,
    variance_floor: Option<f64>,
}

impl Given<'_> {
    fn start(&self, config: &MixtureConfig) -> PyResult<GivenStart> {
        let mut arrays = Vec::new();
        for array in config.likelihood.family().arrays {
            if let Some(values) = self.arrays.get(array.name) {
                arrays.push(NamedArray::new(array.name, values.shape().to_vec(), values.as_slice()?.to_vec()));
            }
        }
        Ok(GivenStart { weights: self.weights.clone(), arrays })
    }

    fn prior(&self) -> GivenPrior {
        GivenPrior {
            mean: self.prior_mean.clone(),
            variance: self.prior_variance.clone(),
            variance_floor: self.variance_floor,
        }
    }
}

/// Train a mixture; gives the model and a dict that says how it went. Without laps, the start of one.
#[pyfunction]
#[pyo3(signature = (x, config, around, *, columns=None, sample_weight=None, start=None, given=None, laps=true))]
#[allow(clippy::too_many_arguments)]
pub fn fit_mixture<'py>(
    py: Python<'py>,
    x: &Bound<'py, PyAny>,
    config: &str,
    around: Around<'py>,
    columns: Option<Vec<String>>,
    sample_weight: Option<PyReadonlyArray1<'py, f64>>,
    start: Option<&Bound<'py, Mixture>>,
    given: Option<Given<'py>>,
    laps: bool,
) -> PyResult<Reported<'py, Mixture>> {
    let config: MixtureConfig = settings(config)?;
    let (held, heldout) = (Held::borrow(x)?, around.heldout()?);
    let heldout = heldout.as_ref().map(Held::rows).transpose()?;
    let row_weights = sample_weight.as_ref().map(|weights| weights.as_slice()).transpose()?;
    let start = start.map(|start| &start.get().model);
    let given_prior = given.as_ref().map(Given::prior).unwrap_or_default();
    let given = given.map(|given| given.start(&config)).transpose()?.unwrap_or_default();
    let (model, report) = around.fit(py, &held, heldout.as_deref(), |rows, heldout, beside| {
        let columns = columns.as_deref();
        let inputs = MixtureInputs { heldout, row_weights, start, columns, given, given_prior, ..Default::default() };
        match laps {
            true => fit_mixture_with(rows, &config, inputs, beside),
            false => initial_mixture(rows, &config, inputs),
        }
    })?;
    Ok((Mixture { model }, report))
}

#[pymethods]
impl Mixture {
    /// A model from a file.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        Ok(Mixture { model: run(py, 1, |_| MixtureModel::load(&path))? })
    }

    /// Write the model to a file.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        run(py, 1, |_| self.model.save_to(&path))
    }

    /// A model from the bytes of a file.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, bytes: &[u8]) -> PyResult<Self> {
        Ok(Mixture { model: run(py, 1, |_| MixtureModel::from_bytes(Path::new("the pickled model"), bytes))? })
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let model = &slf.get().model;
        let bytes = run(slf.py(), 1, |_| {
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

    /// The prior, as settled for the data, as JSON.
    #[getter]
    fn prior(&self) -> PyResult<String> {
        json(&self.model.prior)
    }

    /// The names of the columns, where they have some.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.model.columns.clone()
    }

    /// Free parameters.
    #[getter]
    fn num_parameters(&self) -> usize {
        self.model.num_parameters()
    }

    /// Columns of the data.
    #[getter]
    fn dim(&self) -> usize {
        self.model.dim()
    }

    /// Frequencies of the clusters, the weight of their rows, and their point estimates by name.
    fn arrays<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item("weights", PyArray1::from_slice(py, &self.model.weights))?;
        dict.set_item("counts", PyArray1::from_slice(py, &self.model.total.counts))?;
        for named in &self.model.arrays {
            dict.set_item(named.name, array(py, &named.shape, named.values.clone())?)?;
        }
        Ok(dict)
    }

    /// The log density of every row.
    #[pyo3(signature = (x, *, threads=0))]
    fn score<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        threads: usize,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let held = Held::borrow(x)?;
        let rows = held.rows()?;
        let rows = rows.as_ref();
        let scores = run(py, threads, |brake| self.model.score(&Braked { rows, now: &brake.now }))?;
        Ok(PyArray1::from_vec(py, scores.log_density))
    }

    /// The most probable clusters of every row and their responsibilities, `sparsity` of each.
    #[pyo3(signature = (x, sparsity, *, threads=0))]
    fn assign<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        sparsity: usize,
        threads: usize,
    ) -> PyResult<(Bound<'py, PyArrayDyn<i32>>, Bound<'py, PyArrayDyn<f64>>)> {
        let held = Held::borrow(x)?;
        let rows = held.rows()?;
        let rows = rows.as_ref();
        let (index, value) = run(py, threads, |brake| {
            let (count, entry) = (rows.num_rows(), size_of::<i32>() + size_of::<f64>());
            check_result("assigning", count, "rows", (sparsity as u64).saturating_mul(entry as u64))?;
            let (mut index, mut value) = (Vec::with_capacity(count * sparsity), Vec::with_capacity(count * sparsity));
            self.model.assign(&Braked { rows, now: &brake.now }, sparsity, &mut |clusters, shares| {
                index.extend(clusters.iter().map(|&k| k as i32));
                value.extend_from_slice(shares);
                Ok(())
            })?;
            Ok((index, value))
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
        let drawn = run(py, 1, |brake| self.model.sample_until(rows, trials, seed, &brake.now))?;
        let clusters = drawn.clusters.iter().map(|&k| i64::from(k)).collect();
        Ok((array(py, &[rows, self.model.dim()], drawn.values)?, PyArray1::from_vec(py, clusters)))
    }

    /// The model after a step on rows that it has not seen: added to what was there, or blended in at a rate. The total
    /// then stands for `population` rows (their weight), or for those seen so far.
    #[pyo3(signature = (x, *, sample_weight=None, rate=None, population=None, threads=0))]
    fn update<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        sample_weight: Option<PyReadonlyArray1<'py, f64>>,
        rate: Option<f64>,
        population: Option<f64>,
        threads: usize,
    ) -> PyResult<Self> {
        let held = Held::borrow(x)?;
        let rows = held.rows()?;
        let rows = rows.as_ref();
        let weights = sample_weight.as_ref().map(|weights| weights.as_slice()).transpose()?;
        let fresh = weights.map_or(rows.num_rows() as f64, |weights| weights.iter().sum());
        let how = increment(rate, population.unwrap_or(self.model.total.total_weight() + fresh));
        let model = run(py, threads, |brake| self.model.update(&Braked { rows, now: &brake.now }, weights, how))?;
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
