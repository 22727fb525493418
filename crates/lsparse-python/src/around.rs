//! What a fit has around it besides rows and settings: held-out rows, files, threads, and who watches.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lsparse::data::RowSource;
use lsparse::training::exchange::Engine;
use lsparse::training::trace::Trace;
use lsparse::{Beside, Checkpointing, Fitted, Storage};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::elsewhere::Elsewhere;
use crate::gate::{raise, run_watched};
use crate::page::Page;
use crate::rows::{Braked, Held};
use crate::trace::{Recorder, Watchers};

/// As Python gives it, every entry there.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Around<'py> {
    /// Rows that are scored at the end of every lap.
    heldout: Option<Bound<'py, PyAny>>,
    checkpoint: Option<PathBuf>,
    /// Seconds between two checkpoints.
    checkpoint_every: f64,
    resume: bool,
    /// Bytes of memory for what is remembered of batches and rows.
    memo_memory: Option<u64>,
    trace: Option<PathBuf>,
    threads: Option<usize>,
    /// Told of steps; see [`Recorder::tell`].
    watch: Option<Py<PyAny>>,
    /// Whether training waits after every step for what is said of it; else steps are told a few at a time.
    waits: bool,
    /// A page that shows the fit, and can ask it to stop.
    page: Option<Py<Page>>,
}

/// The seed of the fit that this checkpoint is of, if it is there.
#[pyfunction]
pub fn checkpoint_seed(path: PathBuf) -> PyResult<Option<u64>> {
    Checkpointing { resume: true, ..Checkpointing::new(path) }.seed().map_err(raise)
}

/// A fit and the dict that says how it went.
pub type Reported<'py, M> = (M, Bound<'py, PyDict>);

impl<'py> Around<'py> {
    fn storage(&self) -> Storage {
        let checkpoint = self.checkpoint.as_ref().map(|path| Checkpointing {
            every: Duration::try_from_secs_f64(self.checkpoint_every).unwrap_or_default(),
            resume: self.resume,
            ..Checkpointing::new(path)
        });
        Storage { checkpoint, memo_memory: self.memo_memory }
    }

    /// Run a fit of the rows `x` and the held-out rows, which can be watched and ended early: the one way of all models.
    pub fn fit<M: Send>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        fit: impl FnOnce(&dyn RowSource, Option<&dyn RowSource>, Beside<'_>) -> lsparse::Result<Fitted<M>> + Send,
    ) -> PyResult<Reported<'py, M>> {
        let held = Held::borrow(x)?;
        let heldout = self.heldout.as_ref().map(|rows| Held::named("X_val", rows)).transpose()?;
        let heldout = heldout.as_ref().map(Held::rows).transpose()?;
        let heldout = heldout.as_deref();
        let trace = self.trace.as_deref().map(Trace::to_file).transpose().map_err(raise)?;
        let recorder = Recorder::default();
        let rows = held.rows()?;
        let rows = rows.as_ref();
        let mut watchers = Watchers { recorder: recorder.clone(), trace, notes: Vec::new(), knock: None, page: None };
        let mut asked: Option<Arc<AtomicBool>> = None;
        if let Some(page) = &self.page {
            let (watched, stop) = page.borrow(py).watch(rows.name());
            (watchers.page, asked) = (Some(watched), Some(stop));
        }
        let asked = || asked.as_ref().is_some_and(|asked| asked.load(Ordering::Acquire));
        let (mut told, mut broken) = (0, false);
        let mut tell = |py: Python<'_>| match &self.watch {
            // Who has raised something is not told of more.
            Some(watch) if !broken => {
                let ends = recorder.tell(py, watch, &mut told).inspect_err(|_| broken = true)?;
                Ok(ends || asked())
            }
            _ => Ok(asked()),
        };
        let (storage, waits, mut engine) = (self.storage(), self.waits, held.engine());
        let there = engine.clone();
        let fitted = run_watched(py, self.threads, &mut tell, |brake| {
            watchers.knock = waits.then(|| Arc::clone(&brake.knock));
            let rows = Braked { rows, now: &brake.now };
            let heldout = heldout.map(|rows| Braked { rows, now: &brake.now });
            let heldout = heldout.as_ref().map(|rows| rows as &dyn RowSource);
            let beside = Beside {
                observer: Some(&mut watchers),
                interrupt: Some(&brake.soon),
                storage,
                engine: engine.as_mut().map(|engine| engine as &mut dyn Engine),
                ..Default::default()
            };
            fit(&rows, heldout, beside)
        });
        let raised_there = || there.as_ref().and_then(Elsewhere::raised);
        let (fitted, raised) = fitted.map_err(|error| raised_there().unwrap_or(error))?;
        // What a watcher raises of the last steps is raised once the model is kept, too.
        let raised = tell(py).err().or(raised);
        let Fitted { model, outcome, .. } = fitted;
        let report = recorder.report(py, &outcome, raised)?;
        report.set_item("notes", watchers.notes)?;
        Ok((model, report))
    }
}
