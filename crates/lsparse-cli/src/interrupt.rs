//! Ctrl-C: the first asks work to stop at the next good moment, the second ends the program.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use lsparse::{Error, Result};

use crate::output::message;

static STOP: AtomicBool = AtomicBool::new(false);

/// Exit status of a program ended by Ctrl-C, as shells have it.
pub const ENDED_BY_INTERRUPT: u8 = 130;

/// Listen for Ctrl-C; the first sets the flag and, unless `quiet`, says what will happen.
pub fn listen(quiet: bool) -> &'static AtomicBool {
    let handler = move || {
        if STOP.swap(true, Ordering::Relaxed) {
            std::process::exit(ENDED_BY_INTERRUPT.into());
        }
        if !quiet {
            message("\nstopping after this batch; press Ctrl-C again to end at once");
        }
    };
    // Where no handler can be set Ctrl-C ends the program, as it would without this one.
    let _ = ctrlc::set_handler(handler);
    &STOP
}

/// An error once Ctrl-C was pressed, for work whose output is worth nothing unless it is whole: on the way out the
/// temporary file goes away, which it would not if the program just ended.
pub fn check(output: &Path) -> Result<()> {
    if STOP.load(Ordering::Relaxed) {
        let source = io::Error::from(io::ErrorKind::Interrupted);
        return Err(Error::Io { path: output.to_owned(), action: "finish", source });
    }
    Ok(())
}
