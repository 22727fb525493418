//! Where work runs: a pool of threads of a chosen size. Results never depend on how many there are.

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::error::{Error, Result};

/// The instruction set that kernels run with. The same seed gives the same bits on the same one alone.
pub fn instructions() -> &'static str {
    lsparse_kernels::level().name()
}

/// Refuse an instruction set that was asked for (the environment variable `LSPARSE_SIMD`) and is not known, or not one of
/// this machine.
pub fn check_instructions() -> Result<()> {
    lsparse_kernels::check_asked().map_err(|there| Error::Config {
        setting: "LSPARSE_SIMD",
        problem: "this environment variable names no instruction set that this machine has".into(),
        remedy: format!("set it to {}, or unset it", there.join(" or ")),
    })
}

/// Threads that can be asked for: starting many more than there are cores takes for ever.
pub const MOST_THREADS: usize = 1024;

/// A pool of `threads` threads (0 for one a core).
///
/// Parallel loops in this library are over fixed chunks whose results are merged in order, so the number of threads
/// changes the time and not a single bit of the result.
pub fn pool(threads: usize) -> Result<ThreadPool> {
    let refuse = |problem| Error::Config {
        setting: "threads",
        problem,
        remedy: format!("ask for fewer, at most {MOST_THREADS}"),
    };
    if threads > MOST_THREADS {
        return Err(refuse(format!("{threads} are more than a machine starts in good time")));
    }
    ThreadPoolBuilder::new().num_threads(threads).build().map_err(|e| refuse(e.to_string()))
}

/// Run `work` on a [`pool`] of `threads` threads.
pub fn with_threads<R: Send>(threads: usize, work: impl FnOnce() -> R + Send) -> Result<R> {
    Ok(pool(threads)?.install(work))
}
