//! The one way from Python into the library: threads, the interpreter's lock, Ctrl-C, errors and panics.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use rayon::ThreadPoolBuilder;

use crate::messages;

pyo3::import_exception!(lsparse._errors, LsparseError);

/// How often Ctrl-C is looked for and progress is shown. Work itself never waits for the interpreter.
const TICK: Duration = Duration::from_millis(100);

/// An error of the library as an exception that says it in Python's words.
pub fn raise(error: lsparse::Error) -> PyErr {
    LsparseError::new_err(messages::of_error(&error))
}

/// Work that can be stopped early, and who watches it.
pub struct Watched<'a> {
    /// Set when Ctrl-C is pressed.
    pub interrupt: &'a AtomicBool,
    /// Called every so often.
    pub tick: &'a mut dyn FnMut(Python<'_>) -> PyResult<()>,
}

/// Run `work` on `threads` threads (0 for one a core) while other Python threads go on.
pub fn run<R: Send>(py: Python<'_>, threads: usize, work: impl FnOnce() -> lsparse::Result<R> + Send) -> PyResult<R> {
    let ended = enter(py, threads, None, work)?;
    match ended.raised {
        Some(error) => Err(error),
        None => Ok(ended.result),
    }
}

/// As [`run`], for work that stops early when `watched.interrupt` is set, which Ctrl-C does. Says whether it was
/// pressed. Pressed twice it is raised all the same, and so is whatever else a signal handler or the tick raises.
pub fn run_watched<R: Send>(
    py: Python<'_>,
    threads: usize,
    watched: Watched<'_>,
    work: impl FnOnce() -> lsparse::Result<R> + Send,
) -> PyResult<(R, bool)> {
    let ended = enter(py, threads, Some(watched), work)?;
    match ended.raised {
        Some(error) if ended.times > 1 || !error.is_instance_of::<PyKeyboardInterrupt>(py) => Err(error),
        raised => Ok((ended.result, raised.is_some())),
    }
}

/// How work ended.
struct Ended<R> {
    result: R,
    /// What was raised meanwhile, the latest.
    raised: Option<PyErr>,
    /// How often something was raised.
    times: usize,
}

fn enter<R: Send>(
    py: Python<'_>,
    threads: usize,
    mut watched: Option<Watched<'_>>,
    work: impl FnOnce() -> lsparse::Result<R> + Send,
) -> PyResult<Ended<R>> {
    let pool = ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = pool.map_err(|e| LsparseError::new_err(format!("threads: {e}; ask for fewer threads")))?;
    let (sender, mut receiver) = sync_channel(1);
    let (mut raised, mut times) = (None, 0);
    // The work is done on the pool. This thread only waits: signals reach Python on the main thread alone.
    let outcome = pool.in_place_scope(|scope| {
        scope.spawn(move |_| {
            // Nobody looks at what the work left behind if it panics.
            let _ = sender.send(catch_unwind(AssertUnwindSafe(work)));
        });
        loop {
            let waiting = &mut receiver;
            match py.detach(move || waiting.recv_timeout(TICK)) {
                Ok(outcome) => return Some(outcome),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {}
            }
            let tick = |watched: &mut Option<Watched<'_>>| watched.as_mut().map_or(Ok(()), |w| (w.tick)(py));
            if let Err(error) = py.check_signals().and_then(|()| tick(&mut watched)) {
                raised = Some(error);
                times += 1;
                if let Some(watched) = &watched {
                    watched.interrupt.store(true, Ordering::Relaxed);
                }
            }
        }
    });
    match outcome {
        Some(Ok(Ok(result))) => Ok(Ended { result, raised, times }),
        Some(Ok(Err(error))) => Err(raised.unwrap_or_else(|| raise(error))),
        Some(Err(panic)) => Err(broken(&message_of(panic.as_ref()))),
        None => Err(broken("the work ended without a result")),
    }
}

/// A panic is a bug of the library, but no reason to take the interpreter down.
fn broken(message: &str) -> PyErr {
    LsparseError::new_err(format!("internal error: {message}; please report it, with the call that led to it"))
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic".to_owned())
}

/// Panic within the gate, on a thread of the pool; for the tests.
#[pyfunction]
pub fn panic_for_test(py: Python<'_>) -> PyResult<()> {
    run(py, 2, || rayon::join(|| (), || panic!("asked for")).1)
}
