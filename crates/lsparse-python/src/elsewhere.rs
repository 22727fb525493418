//! Rows that other processes have, and those processes as an engine: a Python object that takes questions to them.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use lsparse::data::{CsrRows, Element, Groups, MemoryRows, PartialMoments, Pieces, RowSource, Rows, natural_layout};
use lsparse::data::{Measuring, Scalar};
use lsparse::elsewhere::{Asked, Job, lacking_piece as lacking, measure_piece as measure, work_batch as work};
use lsparse::store::checkpoint::print_rows;
use lsparse::training::exchange::{Engine, Round, pack, unpack};
use lsparse::{Error, Result};
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::gate::{raise, run};
use crate::rows::{Braked, Held};
use crate::saved::{json, settings};

/// The sizes of rows that are elsewhere, as Python gives them.
#[derive(FromPyObject)]
struct Sizes {
    /// The row that each piece ends before.
    ends: Vec<usize>,
    columns: usize,
    double: bool,
    sparse: bool,
    batches_per_round: usize,
}

/// Rows that were brought here.
struct Brought {
    stretch: Range<usize>,
    rows: Box<dyn RowSource>,
}

/// Rows elsewhere; copies are of the same.
#[derive(Clone)]
pub struct Elsewhere(Arc<There>);

struct There {
    object: Py<PyAny>,
    sizes: Sizes,
    /// By where they start.
    brought: Mutex<Vec<Brought>>,
    /// What was raised over there, which says more than an error made of it.
    raised: Mutex<Option<PyErr>>,
    /// Gives what came of a round's tickets, one after the other.
    round: Mutex<Option<Py<PyAny>>>,
}

impl Elsewhere {
    /// Whether a Python object stands for rows elsewhere.
    pub fn is(object: &Bound<'_, PyAny>) -> PyResult<bool> {
        object.hasattr("batches_per_round")
    }

    /// The rows that an object stands for.
    pub fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (sizes, object) = (object.extract()?, object.clone().unbind());
        let (brought, raised, round) = Default::default();
        Ok(Elsewhere(Arc::new(There { object, sizes, brought, raised, round })))
    }

    /// What was raised by the object, if anything was.
    pub fn raised(&self) -> Option<PyErr> {
        self.0.raised.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Ask the object. No lock is held meanwhile, since others may wait for the interpreter with it.
    fn ask<R>(&self, ask: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<R>) -> Result<R> {
        Python::attach(|py| ask(self.0.object.bind(py))).map_err(|error| {
            let what = error.to_string();
            *self.0.raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            Error::Elsewhere { what }
        })
    }

    /// Read from what was brought here, if it was.
    fn read_here<T: Scalar>(&self, start: usize, count: usize, out: &mut Rows<T>) -> Option<Result<()>> {
        let brought = self.0.brought.lock().unwrap_or_else(PoisonError::into_inner);
        let after = brought.partition_point(|piece| piece.stretch.start <= start);
        let within = |piece: &&Brought| start + count <= piece.stretch.end;
        let piece = brought[..after].last().filter(within)?;
        Some(T::read(piece.rows.as_ref(), start - piece.stretch.start, count, out))
    }

    fn append<T: Scalar>(&self, start: usize, count: usize, out: &mut Rows<T>) -> Result<()> {
        if let Some(read) = self.read_here(start, count, out) {
            return read;
        }
        self.bring(std::slice::from_ref(&(start..start + count)))?;
        let missing = Error::Exchange { what: "the rows that were asked for" };
        self.read_here(start, count, out).unwrap_or(Err(missing))
    }
}

/// A copy of rows that Python holds.
fn copied(x: &Bound<'_, PyAny>) -> PyResult<Box<dyn RowSource>> {
    let held = Held::borrow(x)?;
    let source = held.rows()?;
    let source = source.as_ref();
    run(x.py(), 1, |_| {
        let (name, dim) = (source.name(), source.dim());
        let mut rows = Rows::<f64>::new(natural_layout(source), dim);
        source.read_f64(0, source.num_rows(), &mut rows)?;
        Ok(match rows {
            Rows::Dense { values, .. } => Box::new(MemoryRows::new(name, dim, values)?) as Box<dyn RowSource>,
            Rows::Sparse { indptr, index, value, .. } => Box::new(CsrRows::new(name, dim, indptr, index, value)?),
        })
    })
}

impl Pieces for Elsewhere {
    fn ends(&self) -> &[usize] {
        &self.0.sizes.ends
    }

    fn bring(&self, stretches: &[Range<usize>]) -> Result<()> {
        let mut wanted: Vec<Range<usize>> = stretches.iter().filter(|stretch| !stretch.is_empty()).cloned().collect();
        wanted.sort_unstable_by_key(|stretch| stretch.start);
        wanted.dedup();
        let pairs: Vec<(usize, usize)> = wanted.iter().map(|stretch| (stretch.start, stretch.end)).collect();
        let rows = self.ask(|object| {
            let rows: Vec<Bound<'_, PyAny>> = object.call_method1("bring", (pairs,))?.extract()?;
            rows.iter().map(copied).collect::<PyResult<Vec<_>>>()
        })?;
        let lengths = wanted.iter().map(Range::len);
        if !lengths.eq(rows.iter().map(|rows| rows.num_rows())) {
            return Err(Error::Exchange { what: "the rows that were asked for" });
        }
        let brought = wanted.into_iter().zip(rows).map(|(stretch, rows)| Brought { stretch, rows }).collect();
        *self.0.brought.lock().unwrap_or_else(PoisonError::into_inner) = brought;
        Ok(())
    }

    fn measure(&self, how: &Measuring) -> Result<Option<PartialMoments>> {
        let parts: Vec<Vec<u8>> = self.ask(|object| object.call_method1("measure", (json(how)?,))?.extract())?;
        let parts = parts.iter().map(|part| unpack(part, "moments of a piece")).collect::<Result<Vec<_>>>()?;
        PartialMoments::merged(self.0.sizes.columns, parts).map(Some)
    }

    fn lacking(&self, some_may_lack: bool) -> Result<Option<Vec<bool>>> {
        let parts: Vec<Vec<u8>> = self.ask(|object| object.call_method1("lacking", (some_may_lack,))?.extract())?;
        Ok(Some(parts.concat().into_iter().map(|flag| flag != 0).collect()))
    }

    fn print(&self) -> Result<Option<String>> {
        self.ask(|object| object.call_method0("print")?.extract()).map(Some)
    }
}

impl RowSource for Elsewhere {
    fn name(&self) -> &str {
        "X"
    }

    fn num_rows(&self) -> usize {
        self.0.sizes.ends.last().copied().unwrap_or(0)
    }

    fn dim(&self) -> usize {
        self.0.sizes.columns
    }

    fn element(&self) -> Element {
        if self.0.sizes.double { Element::F64 } else { Element::F32 }
    }

    fn is_sparse(&self) -> bool {
        self.0.sizes.sparse
    }

    fn pieces(&self) -> Option<&dyn Pieces> {
        Some(self)
    }

    fn read_f32(&self, start: usize, count: usize, out: &mut Rows<f32>) -> Result<()> {
        self.append(start, count, out)
    }

    fn read_f64(&self, start: usize, count: usize, out: &mut Rows<f64>) -> Result<()> {
        self.append(start, count, out)
    }
}

impl Engine for Elsewhere {
    fn batches_per_round(&self) -> usize {
        self.0.sizes.batches_per_round
    }

    fn begin(&mut self, known: &[u8], run: usize, round: Round) -> Result<()> {
        let begun = self.ask(|object| {
            let py = object.py();
            let tickets: Vec<_> = round.tickets.iter().map(|ticket| PyBytes::new(py, ticket)).collect();
            let (known, params) = (PyBytes::new(py, known), PyBytes::new(py, &round.params));
            let asked = (known, run, round.visit, params, round.batches.clone(), tickets);
            Ok(object.call_method1("work", asked)?.try_iter()?.into_any().unbind())
        })?;
        *self.0.round.lock().unwrap_or_else(PoisonError::into_inner) = Some(begun);
        Ok(())
    }

    fn next(&mut self) -> Result<Vec<u8>> {
        let missing = || Error::Exchange { what: "statistics of a batch" };
        let round = self.0.round.lock().unwrap_or_else(PoisonError::into_inner).take().ok_or_else(missing)?;
        let found = self.ask(|object| {
            let mut round = round.bind(object.py()).try_iter()?;
            round.next().transpose()?.map(|done| done.extract()).transpose()
        })?;
        *self.0.round.lock().unwrap_or_else(PoisonError::into_inner) = Some(round);
        found.ok_or_else(missing)
    }
}

/// Check every value of a piece and measure its columns, for training by these settings; rows are counted from `first` in
/// errors. Gives bytes for the one who trains.
#[pyfunction]
#[pyo3(signature = (x, first, asked, how, *, threads=1))]
pub fn measure_piece<'py>(
    py: Python<'py>,
    x: &Bound<'py, PyAny>,
    first: usize,
    asked: &str,
    how: &str,
    threads: usize,
) -> PyResult<Bound<'py, PyBytes>> {
    let (asked, how): (Asked, Measuring) = (settings(asked)?, settings(how)?);
    let held = Held::borrow(x)?;
    let rows = held.rows()?;
    let rows = rows.as_ref();
    let measured = run(py, threads, |brake| pack(&measure(&Braked { rows, now: &brake.now }, first, &asked, &how)?))?;
    Ok(PyBytes::new(py, &measured))
}

/// A piece in words, with a checksum.
#[pyfunction]
pub fn print_piece(py: Python<'_>, x: &Bound<'_, PyAny>) -> PyResult<String> {
    let held = Held::borrow(x)?;
    let rows = held.rows()?;
    let rows = rows.as_ref();
    run(py, 1, |brake| print_rows(&Braked { rows, now: &brake.now }))
}

/// Which rows of a piece are nothing but NaN, a byte for each; rows are counted from `first` in errors.
#[pyfunction]
pub fn lacking_piece<'py>(
    py: Python<'py>,
    x: &Bound<'py, PyAny>,
    first: usize,
    some_may_lack: bool,
) -> PyResult<Bound<'py, PyBytes>> {
    let held = Held::borrow(x)?;
    let rows = held.rows()?;
    let rows = rows.as_ref();
    let flags = run(py, 1, |brake| lacking(&Braked { rows, now: &brake.now }, first, some_may_lack))?;
    Ok(PyBytes::new(py, &flags.into_iter().map(u8::from).collect::<Vec<_>>()))
}

/// Work a ticket out whose batch is the piece of this number, whose sequences have these lengths; gives bytes for the one who
/// trains.
#[pyfunction]
#[pyo3(signature = (x, number, known, run, params, ticket, *, weights=None, lengths=None, threads=1))]
#[allow(clippy::too_many_arguments)]
pub fn work_piece<'py>(
    py: Python<'py>,
    x: &Bound<'py, PyAny>,
    number: usize,
    known: &[u8],
    run: usize,
    params: &[u8],
    ticket: &[u8],
    weights: Option<PyReadonlyArray1<'py, f64>>,
    lengths: Option<Vec<usize>>,
    threads: usize,
) -> PyResult<Bound<'py, PyBytes>> {
    let held = Held::borrow(x)?;
    let rows = held.rows()?;
    let rows = rows.as_ref();
    let weights = weights.as_ref().map(|weights| weights.as_slice()).transpose()?;
    let groups = lengths.map(|lengths| Groups::of_lengths("lengths", &lengths, rows.num_rows()));
    let groups = groups.transpose().map_err(raise)?;
    let groups = groups.as_ref();
    let job = Job { number, known, run, params, ticket, weights, groups, prints: None };
    let done = crate::gate::run(py, threads, |brake| work(&Braked { rows, now: &brake.now }, &job))?;
    Ok(PyBytes::new(py, &done))
}
