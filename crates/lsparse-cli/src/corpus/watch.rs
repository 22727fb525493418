//! Show how far work on a corpus has come, and end it when somebody asks for it.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use lsparse::Result;
use lsparse::corpus::Progress;

use crate::format::grouped;
use crate::interrupt;
use crate::output::message;

/// Plain lines come this often.
const LINE_EVERY: Duration = Duration::from_secs(2);

/// Shows a bar on a terminal, a line now and then elsewhere, nothing when quiet.
pub struct TaskProgress {
    quiet: bool,
    bar: Option<ProgressBar>,
    last: Instant,
}

impl TaskProgress {
    pub fn new(quiet: bool) -> Self {
        // Nobody waits for what a second Ctrl-C would end.
        interrupt::listen(true);
        let bar = (!quiet && io::stderr().is_terminal()).then(|| {
            let bar = ProgressBar::new(1);
            if let Ok(style) = ProgressStyle::with_template("{spinner} {bar:24} {percent:>3}%  {wide_msg}") {
                bar.set_style(style);
            }
            bar
        });
        TaskProgress { quiet, bar, last: Instant::now() }
    }

    /// Work has come so far.
    pub fn at(&mut self, progress: &Progress) -> Result<()> {
        interrupt::check(progress.task)?;
        let text = || format!("{}: {} documents", progress.task, grouped(progress.docs));
        if let Some(bar) = &self.bar {
            bar.set_length(progress.total.max(1));
            bar.set_position(progress.done);
            bar.set_message(text());
        } else if !self.quiet && self.last.elapsed() >= LINE_EVERY {
            let percent = 100 * progress.done / progress.total.max(1);
            message(&format!("{} ({percent}%)", text()));
            self.last = Instant::now();
        }
        Ok(())
    }
}

impl Drop for TaskProgress {
    /// A bar must not stay, least of all when an error ends the work.
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
