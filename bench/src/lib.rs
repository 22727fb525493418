//! What the benchmarks share: medians, the rows they run on, and one JSON object a measurement.

pub mod corpus;

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

/// CPU seconds of this process, in ticks of 10 ms; on a busy machine these compare and wall seconds do not. NaN where
/// the system does not say.
pub fn cpu_seconds() -> f64 {
    const TICKS_A_SECOND: f64 = 100.0;
    let ticks = || {
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        // The name of the program is in parentheses and may hold anything; utime and stime are fields 14 and 15.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        Some(fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?)
    };
    ticks().map_or(f64::NAN, |ticks| ticks / TICKS_A_SECOND)
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
        let cpu = cpu_seconds();
        let (wall, result) = seconds(work);
        self.wall += wall;
        let cpu = cpu_seconds() - cpu;
        self.cpu += if cpu.is_nan() { wall } else { cpu };
        result
    }
}
