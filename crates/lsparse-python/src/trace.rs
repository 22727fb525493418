//! What is remembered of the steps of a fit, and shown while it runs.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use lsparse::Result;
use lsparse::training::observe::Observer;
use lsparse::training::rules::Outcome;
use lsparse::training::trace::StepInfo;
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::messages::of_remark;

/// Remembers every step, for `trace_` and for a progress bar, and what was said before the first.
#[derive(Clone, Default)]
pub struct Recorder(Arc<Mutex<Vec<StepInfo>>>, Arc<Mutex<Vec<String>>>);

impl Observer for Recorder {
    fn remark(&mut self, text: &str) {
        self.1.lock().unwrap_or_else(|e| e.into_inner()).push(of_remark(text));
    }

    fn step(&mut self, info: &StepInfo) -> Result<()> {
        self.0.lock().unwrap_or_else(|e| e.into_inner()).push(info.clone());
        Ok(())
    }
}

impl Recorder {
    /// Hand the latest step to a Python function.
    pub fn show(&self, py: Python<'_>, progress: &Py<PyAny>) -> PyResult<()> {
        let steps = self.0.lock().unwrap_or_else(|e| e.into_inner());
        // Not every step has an objective: the latest that is known.
        let objective = steps.iter().rev().find_map(|step| step.objective).map(|o| o.total());
        let latest = steps.last().map(|step| (step.run, step.lap, step.seconds, objective));
        drop(steps);
        if let Some(latest) = latest {
            progress.call1(py, latest)?;
        }
        Ok(())
    }

    /// How a fit went: why it ended, its seconds of training, and every step.
    pub fn report<'py>(&self, py: Python<'py>, outcome: &Outcome, interrupted: bool) -> PyResult<Bound<'py, PyDict>> {
        let report = PyDict::new(py);
        report.set_item("interrupted", interrupted)?;
        report.set_item("converged", outcome.reason.converged())?;
        report.set_item("reason", outcome.reason.to_string())?;
        report.set_item("seconds", outcome.seconds)?;
        report.set_item("remarks", self.1.lock().unwrap_or_else(|e| e.into_inner()).clone())?;
        report.set_item("trace", self.columns(py)?)?;
        Ok(report)
    }

    /// One array a column, one entry a step; what is not known at a step is NaN.
    fn columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let steps = self.0.lock().unwrap_or_else(|e| e.into_inner());
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
        dict.set_item("rows_per_second", real(&|s| s.rows_per_second))?;
        dict.set_item("empty_components", whole(&|s| s.empty_clusters as i64))?;
        let names: BTreeSet<&String> = steps.iter().flat_map(|s| s.report.keys()).collect();
        for name in names {
            dict.set_item(name, real(&|s| s.report.get(name).copied().unwrap_or(f64::NAN)))?;
        }
        Ok(dict)
    }
}
