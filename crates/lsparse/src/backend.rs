//! Where work runs: a pool of threads of a chosen size. Results never depend on how many there are.

use rayon::ThreadPoolBuilder;

use crate::error::{Error, Result};

/// The instruction set that kernels run with. The same seed gives the same bits on the same one alone.
pub fn instructions() -> &'static str {
    lsparse_kernels::level().name()
}

/// Run `work` with `threads` threads (0 for one a core).
///
/// Parallel loops in this library are over fixed chunks whose results are merged in order, so the number of threads
/// changes the time and not a single bit of the result.
pub fn with_threads<R: Send>(threads: usize, work: impl FnOnce() -> R + Send) -> Result<R> {
    let pool = ThreadPoolBuilder::new().num_threads(threads).build().map_err(|e| Error::Config {
        option: "threads",
        problem: e.to_string(),
        remedy: "ask for fewer threads".into(),
    })?;
    Ok(pool.install(work))
}
