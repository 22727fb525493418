//! Hidden Markov models: training, and the trained model.

use std::path::PathBuf;

use lsparse::data::{Groups, RowSource};
use lsparse::{Result, SequenceConfig, SequenceInputs, SequenceModel, fit_sequence_with};
use numpy::{PyArray1, PyArrayDyn};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::around::{Around, Reported};
use crate::gate::run;
use crate::rows::{Braked, Held, array};
use crate::saved::{self, Assigned, Pickled, assigned, json, settings};

/// A trained hidden Markov model.
#[pyclass(frozen, module = "lsparse._core")]
pub struct Hmm {
    model: SequenceModel,
}

/// Where sequences begin; all rows are one where no lengths are given.
fn groups(lengths: Option<Vec<usize>>, rows: &dyn RowSource, name: &str) -> Result<Option<Groups>> {
    lengths.map(|lengths| Groups::of_lengths(name, &lengths, rows.num_rows())).transpose()
}

/// Train a hidden Markov model; gives the model and a dict that says how it went.
#[pyfunction]
#[pyo3(signature = (x, config, around, *, lengths=None, heldout_lengths=None, columns=None, start=None))]
#[allow(clippy::too_many_arguments)]
pub fn fit_sequence<'py>(
    py: Python<'py>,
    x: &Bound<'py, PyAny>,
    config: &str,
    around: Around<'py>,
    lengths: Option<Vec<usize>>,
    heldout_lengths: Option<Vec<usize>>,
    columns: Option<Vec<String>>,
    start: Option<&Bound<'py, Hmm>>,
) -> PyResult<Reported<'py, Hmm>> {
    let config: SequenceConfig = settings(config)?;
    let start = start.map(|start| &start.get().model);
    let (model, report) = around.fit(py, x, |rows, heldout, beside| {
        let own = groups(lengths, rows, "lengths")?;
        let held_groups = heldout.map(|rows| groups(heldout_lengths, rows, "lengths_val")).transpose()?.flatten();
        let heldout = heldout.map(|rows| (rows, held_groups.as_ref()));
        let inputs = SequenceInputs { groups: own.as_ref(), heldout, start, columns: columns.as_deref() };
        fit_sequence_with(rows, &config, inputs, beside)
    })?;
    Ok((Hmm { model }, report))
}

#[pymethods]
impl Hmm {
    /// A model from a file.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        Ok(Hmm { model: saved::load(py, &path)? })
    }

    /// Write the model to a file.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        saved::save(py, &self.model, &path)
    }

    /// A model from the bytes of a file.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, bytes: &[u8]) -> PyResult<Self> {
        Ok(Hmm { model: saved::from_bytes(py, bytes)? })
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Pickled<'py>> {
        saved::reduce(slf.as_any(), &slf.get().model)
    }

    /// The same model for sequences that may have missing steps; itself where it is one already.
    fn allowing_missing(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        let model = &slf.get().model;
        if model.config.missing {
            return Ok(slf);
        }
        let model = model.clone().allowing_missing_steps();
        Bound::new(slf.py(), Hmm { model })
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

    /// The prior of the states, as settled for the data, as JSON.
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

    /// Start and transitions, the weight of the states' rows, and their point estimates by name.
    fn arrays<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (dict, num) = (PyDict::new(py), self.model.num_states());
        dict.set_item("start", PyArray1::from_vec(py, self.model.start()))?;
        dict.set_item("transitions", array(py, &[num, num], self.model.transitions())?)?;
        dict.set_item("counts", PyArray1::from_slice(py, &self.model.total.clusters.counts))?;
        for named in &self.model.arrays {
            dict.set_item(named.name, array(py, &named.shape, named.values.clone())?)?;
        }
        Ok(dict)
    }

    /// log p(x_t | x_1 .. x_t-1) of every step.
    #[pyo3(signature = (x, lengths=None, *, threads=None))]
    fn score<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        lengths: Option<Vec<usize>>,
        threads: Option<usize>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let held = Held::borrow(x)?;
        let rows = held.rows()?;
        let rows = rows.as_ref();
        let scores = run(py, threads, |brake| {
            self.model.score(&Braked { rows, now: &brake.now }, groups(lengths, rows, "lengths")?.as_ref())
        })?;
        Ok(PyArray1::from_vec(py, scores.log_density))
    }

    /// The most probable states of every step given its sequence and their shares, `sparsity` of each.
    #[pyo3(signature = (x, lengths, sparsity, *, threads=None))]
    fn assign<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        lengths: Option<Vec<usize>>,
        sparsity: usize,
        threads: Option<usize>,
    ) -> PyResult<Assigned<'py>> {
        assigned(py, x, sparsity, "steps", threads, |rows, visit| {
            self.model.assign(rows, groups(lengths, rows, "lengths")?.as_ref(), sparsity, visit)
        })
    }

    /// The most probable path through every sequence, and the log weight of all of them.
    #[pyo3(signature = (x, lengths=None, *, threads=None))]
    fn best_paths<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        lengths: Option<Vec<usize>>,
        threads: Option<usize>,
    ) -> PyResult<(Bound<'py, PyArray1<i64>>, f64)> {
        let held = Held::borrow(x)?;
        let rows = held.rows()?;
        let rows = rows.as_ref();
        let found = run(py, threads, |brake| {
            self.model.best_paths(&Braked { rows, now: &brake.now }, groups(lengths, rows, "lengths")?.as_ref())
        })?;
        let states = found.0.iter().map(|&k| i64::from(k)).collect();
        Ok((PyArray1::from_vec(py, states), found.1))
    }

    /// A sequence drawn from the model, and its states.
    #[pyo3(signature = (steps, after, trials, seed))]
    fn sample<'py>(
        &self,
        py: Python<'py>,
        steps: usize,
        after: Option<u32>,
        trials: Option<usize>,
        seed: u64,
    ) -> PyResult<(Bound<'py, PyArrayDyn<f64>>, Bound<'py, PyArray1<i64>>)> {
        let drawn = run(py, 1, |brake| self.model.sample_until(steps, after, trials, seed, &brake.now))?;
        let states = drawn.states.iter().map(|&k| i64::from(k)).collect();
        Ok((array(py, &[steps, self.model.dim()], drawn.values)?, PyArray1::from_vec(py, states)))
    }
}
