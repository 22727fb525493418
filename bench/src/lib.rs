//! What the benchmarks share: medians, the rows they run on, and one JSON object a measurement.

pub mod corpus;

use std::time::Instant;

use lsparse::training::observe::Stopwatch;

/// Seconds that `work` takes.
pub fn seconds<R>(work: impl FnOnce() -> R) -> (f64, R) {
    let start = Instant::now();
    let result = work();
    (start.elapsed().as_secs_f64(), result)
}

/// The middle of several measurements.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Wall and CPU seconds of what is timed, added up.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timer {
    /// Seconds by the clock.
    pub wall: f64,
    /// Seconds of computing, all threads together.
    pub cpu: f64,
}

impl Timer {
    /// Do `work` and add its time.
    pub fn time<R>(&mut self, work: impl FnOnce() -> R) -> R {
        let mut clock = Stopwatch::default();
        clock.start();
        let result = work();
        clock.halt();
        self.wall += clock.seconds();
        self.cpu += clock.cpu_seconds();
        result
    }
}
