//! The one way from Python into the library: threads, the interpreter's lock, Ctrl-C, errors and panics.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lsparse::backend::pool;
use pyo3::prelude::*;

use crate::messages;

pyo3::import_exception!(lsparse._errors, LsparseError);

/// How often Ctrl-C is looked for and progress is shown. Work itself never waits for the interpreter.
const TICK: Duration = Duration::from_millis(100);

/// An error of the library as an exception that says it in Python's words.
pub fn raise(error: lsparse::Error) -> PyErr {
    LsparseError::new_err(messages::of_error(&error))
}

/// How work is asked to end early.
pub struct Brake {
    /// Soon, with what there is by then: after the current batch.
    pub soon: AtomicBool,
    /// At once, with nothing: rows are not read any more.
    pub now: AtomicBool,
    /// Have Ctrl-C looked for and progress shown, and wait until that is done: what is asked of the work there holds for
    /// its very next step.
    pub knock: Arc<dyn Fn() + Send + Sync>,
}

/// What the work has to say to who waits for it.
enum Word {
    /// Look after signals and progress, and answer.
    Knock,
    /// It has ended.
    Done,
}

/// Called every so often; true if the work is to end soon.
pub type Tick<'a> = &'a mut dyn FnMut(Python<'_>) -> PyResult<bool>;

/// Run `work` on `threads` threads, or one a core, while other Python threads go on. Ctrl-C, and whatever else a signal
/// handler raises, ends it at once where it looks at the brake.
pub fn run<R: Send>(
    py: Python<'_>,
    threads: impl Into<Option<usize>>,
    work: impl FnOnce(&Brake) -> lsparse::Result<R> + Send,
) -> PyResult<R> {
    let (result, raised) = enter(py, threads, None, work)?;
    raised.map_or(Ok(result), Err)
}

/// As [`run`], for work that has something to show for when it ends early: also gives what was raised meanwhile, which is
/// to be raised once the result is safe. A second press ends it at once.
pub fn run_watched<R: Send>(
    py: Python<'_>,
    threads: impl Into<Option<usize>>,
    tick: Tick<'_>,
    work: impl FnOnce(&Brake) -> lsparse::Result<R> + Send,
) -> PyResult<(R, Option<PyErr>)> {
    enter(py, threads, Some(tick), work)
}

fn enter<R: Send>(
    py: Python<'_>,
    threads: impl Into<Option<usize>>,
    mut tick: Option<Tick<'_>>,
    work: impl FnOnce(&Brake) -> lsparse::Result<R> + Send,
) -> PyResult<(R, Option<PyErr>)> {
    let pool = pool(threads).map_err(raise)?;
    let (sender, mut receiver) = sync_channel(1);
    let (answer, answered) = sync_channel(1);
    let (knocking, answered) = (sender.clone(), Mutex::new(answered));
    let knock = move || {
        let answered = answered.lock().unwrap_or_else(PoisonError::into_inner);
        // Who waits is there until the outcome has come.
        let _ = knocking.send(Word::Knock).map(|()| answered.recv());
    };
    let brake = Brake { soon: AtomicBool::new(false), now: AtomicBool::new(false), knock: Arc::new(knock) };
    let (braked, mut raised) = (&brake, None);
    let result = Mutex::new(None);
    let left = &result;
    // The work is done on the pool. This thread only waits: signals reach Python on the main thread alone.
    pool.in_place_scope(|scope| {
        scope.spawn(move |_| {
            // Nobody looks at what the work left behind if it panics.
            let outcome = catch_unwind(AssertUnwindSafe(|| work(braked)));
            *left.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
            let _ = sender.send(Word::Done);
        });
        loop {
            let waiting = &mut receiver;
            let knocked = match py.detach(move || waiting.recv_timeout(TICK)) {
                Ok(Word::Done) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(Word::Knock) => true,
                Err(RecvTimeoutError::Timeout) => false,
            };
            let seen = py.check_signals().and_then(|()| tick.as_mut().map_or(Ok(false), |tick| tick(py)));
            let ends_soon = *seen.as_ref().unwrap_or(&true);
            if let Err(error) = seen {
                if tick.is_none() || raised.is_some() {
                    brake.now.store(true, Ordering::Relaxed);
                }
                raised = Some(error);
            }
            if ends_soon {
                brake.soon.store(true, Ordering::Release);
            }
            if knocked {
                // The work waits for this.
                let _ = answer.send(());
            }
        }
    });
    match result.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(Ok(Ok(result))) => Ok((result, raised)),
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
    run(py, 2, |_| rayon::join(|| (), || panic!("asked for")).1)
}
