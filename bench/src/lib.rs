//! What the benchmarks share: medians, the rows they run on, and one JSON object a measurement.

use std::time::Instant;

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
