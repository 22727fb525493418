//! What is remembered of the steps of a fit, told while it runs, written to a file, and read from one.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use lsparse::Result;
use lsparse::training::observe::{Observer, Reached};
use lsparse::training::rules::Outcome;
use lsparse::training::trace::{Beginning, Ending, Line, StepInfo, Trace, TraceFile};
use lsparse_page::watch::Watched;
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::gate::run;
use crate::messages::of_remark;
use crate::saved::json;

/// Remembers every step, for `trace_` and for whoever watches.
#[derive(Clone, Default)]
pub struct Recorder(Arc<Mutex<Vec<StepInfo>>>);

impl Recorder {
    fn push(&self, info: &StepInfo) {
        self.0.lock().unwrap_or_else(|e| e.into_inner()).push(info.clone());
    }

    /// Tell a Python function of the steps from number `told` on, each as JSON. True if it wants the fit to end.
    pub fn tell(&self, py: Python<'_>, watch: &Py<PyAny>, told: &mut usize) -> PyResult<bool> {
        let steps = self.0.lock().unwrap_or_else(|e| e.into_inner())[*told..].to_vec();
        if steps.is_empty() {
            return Ok(false);
        }
        *told += steps.len();
        let lines = steps.iter().map(json).collect::<PyResult<Vec<String>>>()?;
        watch.call1(py, (lines,))?.is_truthy(py)
    }

    /// How a fit went: why it ended, its seconds of training, every step, and what is to be raised once that is kept.
    pub fn report<'py>(
        &self,
        py: Python<'py>,
        outcome: &Outcome,
        raised: Option<PyErr>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let report = PyDict::new(py);
        report.set_item("raised", raised.map(|error| error.into_value(py)))?;
        report.set_item("converged", outcome.reason.converged())?;
        report.set_item("reason", outcome.reason.to_string())?;
        report.set_item("heldout", outcome.heldout)?;
        report.set_item("seconds", outcome.seconds)?;
        let steps = self.0.lock().unwrap_or_else(|e| e.into_inner());
        report.set_item("trace", columns(py, &steps)?)?;
        Ok(report)
    }
}

/// Remembers, and writes to a file where one is wanted.
pub struct Watchers {
    pub recorder: Recorder,
    pub trace: Option<Trace<TraceFile>>,
    /// What is to be said of data and settings, and of where a training goes on from.
    pub notes: Vec<String>,
    /// Waits until a step was told of.
    pub knock: Option<Arc<dyn Fn() + Send + Sync>>,
    /// Shows the fit.
    pub page: Option<Watched>,
}

impl Watchers {
    /// Tell the page and the file, where there are such.
    fn each(&mut self, mut tell: impl FnMut(&mut dyn Observer) -> Result<()>) -> Result<()> {
        self.page.as_mut().map_or(Ok(()), |page| tell(page))?;
        self.trace.as_mut().map_or(Ok(()), |trace| tell(trace))
    }
}

impl Observer for Watchers {
    fn remark(&mut self, text: &str) {
        self.notes.push(of_remark(text));
    }

    fn begin(&mut self, beginning: &Beginning) -> Result<()> {
        self.each(|observer| observer.begin(beginning))
    }

    fn end(&mut self, ending: &Ending) -> Result<()> {
        self.each(|observer| observer.end(ending))
    }

    fn step(&mut self, info: &StepInfo) -> Result<()> {
        self.recorder.push(info);
        self.each(|observer| observer.step(info))?;
        if let Some(knock) = &self.knock {
            knock();
        }
        Ok(())
    }

    fn written(&self) -> u64 {
        self.trace.as_ref().map_or(0, Trace::written)
    }

    fn go_on_from(&mut self, reached: &Reached) -> Result<()> {
        self.notes.extend(reached.elsewhere());
        self.trace.as_mut().map_or(Ok(()), |trace| trace.go_on_from(reached))
    }
}

/// One array a column, one entry a step; what is not known at a step is NaN.
fn columns<'py>(py: Python<'py>, steps: &[StepInfo]) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let whole = |value: &dyn Fn(&StepInfo) -> i64| PyArray1::from_vec(py, steps.iter().map(value).collect());
    let real = |value: &dyn Fn(&StepInfo) -> f64| PyArray1::from_vec(py, steps.iter().map(value).collect());
    dict.set_item("run", whole(&|s| s.run as i64))?;
    dict.set_item("step", whole(&|s| s.step as i64))?;
    dict.set_item("batch", whole(&|s| s.batch as i64))?;
    dict.set_item("lap", real(&|s| s.lap))?;
    dict.set_item("seconds", real(&|s| s.seconds))?;
    dict.set_item("objective", real(&|s| s.objective.map_or(f64::NAN, |o| o.total())))?;
    dict.set_item("objective_data", real(&|s| s.objective.map_or(f64::NAN, |o| o.data)))?;
    dict.set_item("objective_entropy", real(&|s| s.objective.map_or(f64::NAN, |o| o.entropy)))?;
    dict.set_item("objective_alloc", real(&|s| s.objective.map_or(f64::NAN, |o| o.alloc)))?;
    if steps.iter().any(|s| s.heldout.is_some()) {
        dict.set_item("heldout", real(&|s| s.heldout.unwrap_or(f64::NAN)))?;
    }
    dict.set_item("rows_per_second", real(&|s| s.rows_per_second))?;
    dict.set_item("empty_components", whole(&|s| s.empty_clusters as i64))?;
    let names: BTreeSet<&String> = steps.iter().flat_map(|s| s.report.keys()).collect();
    for name in names {
        dict.set_item(name, real(&|s| s.report.get(name).copied().unwrap_or(f64::NAN)))?;
    }
    if steps.iter().any(|s| s.report.contains_key("moves_proposed")) {
        // K is found: a list a step of the changes that were made.
        let loads = py.import("json")?.getattr("loads")?;
        let moves = steps.iter().map(|s| Ok(loads.call1((json(&s.moves)?,))?.unbind()));
        dict.set_item("moves", PyArray1::from_vec(py, moves.collect::<PyResult<Vec<Py<PyAny>>>>()?))?;
    }
    Ok(dict)
}

/// How a trace begins, the columns of its steps, how its runs ended and what changes of K there were, all but the columns
/// as JSON.
type Read<'py> = (Option<String>, Bound<'py, PyDict>, Vec<String>, Vec<String>);

/// Read a trace that a fit or the command has written, or is writing.
#[pyfunction]
pub fn read_trace(py: Python<'_>, path: PathBuf) -> PyResult<Read<'_>> {
    let lines = run(py, 1, |_| lsparse::training::trace::read_trace(&path))?;
    let (mut beginning, mut steps, mut endings, mut moves) = (None, Vec::new(), Vec::new(), Vec::new());
    for line in lines {
        match line {
            Line::Begin(found) => beginning = Some(json(&found)?),
            Line::Step(info) => {
                for change in &info.moves {
                    moves.push(json(&(info.run, info.lap, change))?);
                }
                steps.push(info);
            }
            Line::End(found) => endings.push(json(&found)?),
        }
    }
    Ok((beginning, columns(py, &steps)?, endings, moves))
}
