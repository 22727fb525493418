//! What trained models of all families have in common: files, pickles, settings as JSON, most probable clusters.

use std::path::Path;

use lsparse::data::{AtomicFile, RowSource};
use lsparse::runs::ModelFile;
use lsparse::store::model_file::{read_bytes, write_model};
use lsparse::system::check_result;
use lsparse::{Error, Result};
use numpy::PyArrayDyn;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::gate::{LsparseError, raise, run};
use crate::rows::{Braked, Held, array};

/// What `__reduce__` gives: what makes the model anew, and what of.
pub type Pickled<'py> = (Bound<'py, PyAny>, (Bound<'py, PyBytes>,));

/// Takes clusters and their shares, some rows of them at a time.
pub type Visit<'a> = &'a mut dyn FnMut(&[u32], &[f64]) -> Result<()>;

/// Clusters of rows and their shares, one row of both a row.
pub type Assigned<'py> = (Bound<'py, PyArrayDyn<i32>>, Bound<'py, PyArrayDyn<f64>>);

/// A model from a file.
pub fn load<M: ModelFile + Send>(py: Python<'_>, path: &Path) -> PyResult<M> {
    run(py, 1, |_| M::from_bytes(path, &read_bytes(path)?))
}

/// Write a model to a file.
pub fn save<M: ModelFile + Sync>(py: Python<'_>, model: &M, path: &Path) -> PyResult<()> {
    run(py, 1, |_| write_model(AtomicFile::create(path)?, model.to_bytes()))
}

/// A model from the bytes of a file.
pub fn from_bytes<M: ModelFile + Send>(py: Python<'_>, bytes: &[u8]) -> PyResult<M> {
    run(py, 1, |_| M::from_bytes(Path::new("the pickled model"), bytes))
}

/// What a model of a class that has `from_bytes` is made anew of.
pub fn reduce<'py, M: ModelFile + Sync>(of: &Bound<'py, PyAny>, model: &M) -> PyResult<Pickled<'py>> {
    let unwritable = |source| Error::Unwritable { path: "the model".into(), source };
    let bytes = run(of.py(), 1, |_| model.to_bytes().map_err(unwritable))?;
    Ok((of.get_type().getattr("from_bytes")?, (PyBytes::new(of.py(), &bytes),)))
}

/// Settings from the JSON text that Python makes of its parameters.
pub fn settings<C: serde::de::DeserializeOwned>(json: &str) -> PyResult<C> {
    serde_json::from_str(json).map_err(|error| {
        raise(Error::Config { setting: "config", problem: error.to_string(), remedy: "mend the value".into() })
    })
}

/// Anything of the library as JSON.
pub fn json<T: serde::Serialize>(value: &T) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| LsparseError::new_err(error.to_string()))
}

/// The most probable clusters of every row and their shares, `sparsity` of each; `what` are rows or steps.
pub fn assigned<'py>(
    py: Python<'py>,
    x: &Bound<'py, PyAny>,
    sparsity: usize,
    what: &'static str,
    threads: Option<usize>,
    assign: impl FnOnce(&dyn RowSource, Visit<'_>) -> Result<()> + Send,
) -> PyResult<Assigned<'py>> {
    let held = Held::borrow(x)?;
    let rows = held.rows()?;
    let rows = rows.as_ref();
    let (index, value) = run(py, threads, |brake| {
        let (count, entry) = (rows.num_rows(), size_of::<i32>() + size_of::<f64>());
        check_result("assigning", count, what, (sparsity as u64).saturating_mul(entry as u64))?;
        let (mut index, mut value) = (Vec::with_capacity(count * sparsity), Vec::with_capacity(count * sparsity));
        assign(&Braked { rows, now: &brake.now }, &mut |clusters, shares| {
            index.extend(clusters.iter().map(|&k| k as i32));
            value.extend_from_slice(shares);
            Ok(())
        })?;
        Ok((index, value))
    })?;
    let count = value.len() / sparsity;
    Ok((array(py, &[count, sparsity], index)?, array(py, &[count, sparsity], value)?))
}
