//! Ctrl-C: the first asks training to stop after the current batch, the second ends the program.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::output::message;

static STOP: AtomicBool = AtomicBool::new(false);

/// Exit status of a program ended by Ctrl-C, as shells have it.
const ENDED_BY_INTERRUPT: i32 = 130;

/// Listen for Ctrl-C; the flag is set by the first.
pub fn listen(quiet: bool) -> &'static AtomicBool {
    let handler = move || {
        if STOP.swap(true, Ordering::Relaxed) {
            std::process::exit(ENDED_BY_INTERRUPT);
        }
        if !quiet {
            message("\nstopping after this batch; press Ctrl-C again to end at once");
        }
    };
    // Where no handler can be set Ctrl-C ends the program, as it would without this one.
    let _ = ctrlc::set_handler(handler);
    &STOP
}
