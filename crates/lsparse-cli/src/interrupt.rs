//! Ctrl-C, and the signals that ask a program to end (SIGTERM) or tell it that its terminal is gone (SIGHUP): the first asks
//! work to stop at the next good moment, a Ctrl-C after it ends the program.

use std::process;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use lsparse::{Error, Result};

use crate::output::message;

static STOP: AtomicBool = AtomicBool::new(false);

/// The number of the signal that came first; that of Ctrl-C before there was any.
static SIGNAL: AtomicI32 = AtomicI32::new(CTRL_C);

const CTRL_C: i32 = 2;

/// Exit status of a program that was ended by a signal, as shells have it: 128 and the number of the signal.
pub fn status() -> u8 {
    (128 + SIGNAL.load(Ordering::Relaxed)) as u8
}

/// Listen for what asks to stop; the first sets the flag and, unless `quiet`, says what will happen.
///
/// Only Ctrl-C hurries: schedulers and terminals that close may send the others several times.
pub fn listen(quiet: bool) -> &'static AtomicBool {
    static LISTENING: Once = Once::new();
    LISTENING.call_once(|| {
        on_signal(move |signal| {
            if STOP.load(Ordering::Relaxed) {
                if signal == CTRL_C {
                    process::exit(status().into());
                }
                return;
            }
            SIGNAL.store(signal, Ordering::Relaxed);
            STOP.store(true, Ordering::Release);
            match signal {
                _ if quiet => {}
                CTRL_C => message("\nstopping after this batch; press Ctrl-C again to end at once"),
                _ => message("\nasked to end: stopping after this batch"),
            }
        });
    });
    &STOP
}

/// Make a file that must not grow (`ulimit -f`) an error as a full disk is, and not the end of the program.
#[cfg(unix)]
pub fn outlive_full_files() {
    use std::sync::Arc;
    // Any handler keeps the signal from ending the program; the write that met the limit then says so itself.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::new(AtomicBool::new(false)));
}

/// Other systems have no such limit.
#[cfg(not(unix))]
pub fn outlive_full_files() {}

/// Stop at the next good moment, as if a signal had asked for it.
pub fn stop() {
    STOP.store(true, Ordering::Release);
    message("\nstopping after this batch, as its page asks");
}

/// Call `handler` with the number of every signal that asks to stop, from a thread of its own. Where no handler can be
/// set signals end the program, as they would without one.
#[cfg(unix)]
fn on_signal(handler: impl Fn(i32) + Send + 'static) {
    use lsparse::system::ignores_signal;
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    use signal_hook::iterator::Signals;
    // What is ignored was to be: nohup is for runs that go on when the terminal is gone. Where that is not known,
    // a SIGHUP does what it always did.
    let wanted = [(SIGINT, false), (SIGTERM, false), (SIGHUP, true)];
    let wanted = wanted.into_iter().filter(|&(signal, unknown)| !ignores_signal(signal).unwrap_or(unknown));
    let Ok(mut signals) = Signals::new(wanted.map(|(signal, _)| signal)) else { return };
    // Where there is no memory for a thread the work is about to be refused for want of it.
    let _ = std::thread::Builder::new().spawn(move || signals.forever().for_each(handler));
}

/// Call `handler` at every Ctrl-C.
#[cfg(not(unix))]
fn on_signal(handler: impl Fn(i32) + Send + 'static) {
    let _ = ctrlc::set_handler(move || handler(CTRL_C));
}

/// An error once somebody asked to stop, for work whose output is worth nothing unless it is whole: on the way out the
/// temporary file goes away, which it would not if the program just ended.
pub fn check(during: &'static str) -> Result<()> {
    if STOP.load(Ordering::Acquire) { Err(Error::Interrupted { during }) } else { Ok(()) }
}
