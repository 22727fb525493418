//! Hidden Markov models: training, and the trained model.

use std::path::{Path, PathBuf};

use lsparse::data::{Groups, RowSource};
use lsparse::system::check_result;
use lsparse::{SequenceConfig, SequenceInputs, SequenceModel, fit_sequence_with};
use numpy::{PyArray1, PyArrayDyn};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::around::{Around, Reported};
use crate::gate::{raise, run};
use crate::mixture::{json, settings};
use crate::rows::{Braked, Held, array};

/// A trained hidden Markov model.
#[pyclass(frozen, module = "lsparse._core")]
pub struct Hmm {
    model: SequenceModel,
}

/// Where sequences begin; all rows are one where no lengths are given.
fn groups(lengths: Option<Vec<usize>>, rows: &dyn RowSource, name: &str) -> PyResult<Option<Groups>> {
    lengths.map(|lengths| Groups::of_lengths(name, &lengths, rows.num_rows())).transpose().map_err(raise)
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
    let (held, heldout) = (Held::borrow(x)?, around.heldout()?);
    let heldout = heldout.as_ref().map(Held::rows).transpose()?;
    let own = groups(lengths, held.rows()?.as_ref(), "lengths")?;
    let held_groups = match &heldout {
        Some(rows) => groups(heldout_lengths, rows.as_ref(), "lengths_val")?,
        None => None,
    };
    let start = start.map(|start| &start.get().model);
    let (model, report) = around.fit(py, &held, heldout.as_deref(), |rows, heldout, beside| {
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
        Ok(Hmm { model: run(py, 1, |_| SequenceModel::load(&path))? })
    }

    /// Write the model to a file.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        run(py, 1, |_| self.model.save_to(&path))
    }

    /// A model from the bytes of a file.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, bytes: &[u8]) -> PyResult<Self> {
        Ok(Hmm { model: run(py, 1, |_| SequenceModel::from_bytes(Path::new("the pickled model"), bytes))? })
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
    #[pyo3(signature = (x, lengths=None, *, threads=0))]
    fn score<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        lengths: Option<Vec<usize>>,
        threads: usize,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let held = Held::borrow(x)?;
        let rows = held.rows()?;
        let (rows, groups) = (rows.as_ref(), groups(lengths, rows.as_ref(), "lengths")?);
        let scores = run(py, threads, |brake| self.model.score(&Braked { rows, now: &brake.now }, groups.as_ref()))?;
        Ok(PyArray1::from_vec(py, scores.log_density))
    }

    /// The most probable states of every step given its sequence and their shares, `sparsity` of each.
    #[pyo3(signature = (x, lengths, sparsity, *, threads=0))]
    fn assign<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        lengths: Option<Vec<usize>>,
        sparsity: usize,
        threads: usize,
    ) -> PyResult<(Bound<'py, PyArrayDyn<i32>>, Bound<'py, PyArrayDyn<f64>>)> {
        let held = Held::borrow(x)?;
        let rows = held.rows()?;
        let (rows, groups) = (rows.as_ref(), groups(lengths, rows.as_ref(), "lengths")?);
        let (index, value) = run(py, threads, |brake| {
            let (count, entry) = (rows.num_rows(), size_of::<i32>() + size_of::<f64>());
            check_result("assigning", count, "steps", (sparsity as u64).saturating_mul(entry as u64))?;
            let (mut index, mut value) = (Vec::with_capacity(count * sparsity), Vec::with_capacity(count * sparsity));
            let braked = Braked { rows, now: &brake.now };
            self.model.assign(&braked, groups.as_ref(), sparsity, &mut |states, shares| {
                index.extend(states.iter().map(|&k| k as i32));
                value.extend_from_slice(shares);
                Ok(())
            })?;
            Ok((index, value))
        })?;
        let count = value.len() / sparsity;
        Ok((array(py, &[count, sparsity], index)?, array(py, &[count, sparsity], value)?))
    }

    /// The most probable path through every sequence, and the log weight of all of them.
    #[pyo3(signature = (x, lengths=None, *, threads=0))]
    fn best_paths<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        lengths: Option<Vec<usize>>,
        threads: usize,
    ) -> PyResult<(Bound<'py, PyArray1<i64>>, f64)> {
        let held = Held::borrow(x)?;
        let rows = held.rows()?;
        let (rows, groups) = (rows.as_ref(), groups(lengths, rows.as_ref(), "lengths")?);
        let found =
            run(py, threads, |brake| self.model.best_paths(&Braked { rows, now: &brake.now }, groups.as_ref()))?;
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
