//! Mixtures: training, and the trained model.

use std::collections::HashMap;
use std::path::PathBuf;

use lsparse::backend::DeviceChoice;
use lsparse::increment::Increment;
use lsparse::likelihood::NamedArray;
use lsparse::mixture::{GivenPrior, GivenStart, initial_mixture};
use lsparse::{MixtureConfig, MixtureInputs, MixtureModel, fit_mixture_with};
use numpy::{PyArray1, PyArrayDyn, PyReadonlyArray1, PyReadonlyArrayDyn, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::around::{Around, Reported};
use crate::gate::{raise, run};
use crate::rows::{Braked, Held, array};
use crate::saved::{self, Assigned, Pickled, assigned, json, settings};

/// A trained mixture.
#[pyclass(frozen, module = "lsparse._core")]
pub struct Mixture {
    model: MixtureModel,
}

/// What is to work on rows, by its name.
pub fn chosen(device: &str) -> PyResult<DeviceChoice> {
    DeviceChoice::parse(device).map_err(|remedy| {
        let problem = format!("{device} is none");
        raise(lsparse::Error::Config { setting: "device", problem, remedy })
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
    let row_weights = sample_weight.as_ref().map(|weights| weights.as_slice()).transpose()?;
    let start = start.map(|start| &start.get().model);
    let given_prior = given.as_ref().map(Given::prior).unwrap_or_default();
    let given = given.map(|given| given.start(&config)).transpose()?.unwrap_or_default();
    let (model, report) = around.fit(py, x, |rows, heldout, beside| {
        let columns = columns.as_deref();
        let inputs = MixtureInputs { heldout, row_weights, start, columns, given, given_prior, ..Default::default() };
        match laps {
            true => fit_mixture_with(rows, &config, inputs, beside),
            false => initial_mixture(rows, &config, inputs),
        }
    })?;
    let reached = (config.find_k && laps && model.num_clusters() >= config.k_max()).then(|| config.k_max());
    report.set_item("reached", reached)?;
    Ok((Mixture { model }, report))
}

#[pymethods]
impl Mixture {
    /// A model from a file.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        Ok(Mixture { model: saved::load(py, &path)? })
    }

    /// Write the model to a file.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        saved::save(py, &self.model, &path)
    }

    /// A model from the bytes of a file.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, bytes: &[u8]) -> PyResult<Self> {
        Ok(Mixture { model: saved::from_bytes(py, bytes)? })
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Pickled<'py>> {
        saved::reduce(slf.as_any(), &slf.get().model)
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
    #[pyo3(signature = (x, *, threads=None, device="cpu"))]
    fn score<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        threads: Option<usize>,
        device: &str,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let held = Held::borrow(x)?;
        let rows = held.rows()?;
        let rows = rows.as_ref();
        let device = chosen(device)?;
        let scores = run(py, threads, |brake| {
            let place = self.model.place(device, rows.num_rows())?;
            self.model.score_at(&Braked { rows, now: &brake.now }, &place)
        })?;
        Ok(PyArray1::from_vec(py, scores.log_density))
    }

    /// The most probable clusters of every row and their responsibilities, `sparsity` of each.
    #[pyo3(signature = (x, sparsity, *, threads=None, device="cpu"))]
    fn assign<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        sparsity: usize,
        threads: Option<usize>,
        device: &str,
    ) -> PyResult<Assigned<'py>> {
        let device = chosen(device)?;
        assigned(py, x, sparsity, "rows", threads, |rows, visit| {
            let place = self.model.place(device, rows.num_rows())?;
            self.model.assign_at(rows, sparsity, &place, visit)
        })
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
    #[pyo3(signature = (x, *, sample_weight=None, rate=None, population=None, threads=None))]
    fn update<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        sample_weight: Option<PyReadonlyArray1<'py, f64>>,
        rate: Option<f64>,
        population: Option<f64>,
        threads: Option<usize>,
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
