//! Where work runs: a pool of threads of a chosen size, or a GPU. Results never depend on how many threads there are.

mod device;

use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::error::{Error, Result};

pub(crate) use device::{CPU, Trouble};
pub use device::{Demand, DeviceChoice, LARGE_WORK, Place};

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

/// A pool of `threads` threads, or of one a core where no number is given.
///
/// Parallel loops in this library are over fixed chunks whose results are merged in order, so the number of threads
/// changes the time and not a single bit of the result.
pub fn pool(threads: impl Into<Option<usize>>) -> Result<ThreadPool> {
    let refuse = |problem, remedy| Error::Config { setting: "threads", problem, remedy };
    let threads = threads.into();
    if threads == Some(0) {
        return Err(refuse("no thread would do the work".into(), "ask for at least 1".into()));
    }
    // (0 is rayon's word for one a core.)
    let threads = threads.unwrap_or(0);
    if threads > MOST_THREADS {
        let problem = format!("{threads} are more than a machine starts in good time");
        return Err(refuse(problem, format!("ask for fewer, at most {MOST_THREADS}")));
    }
    ThreadPoolBuilder::new().num_threads(threads).build().map_err(|e| {
        let problem = format!("they cannot be started with the memory that there is ({e})");
        refuse(problem, "ask for fewer, or allow this process more memory (ulimit -v)".into())
    })
}

/// Run `work` on a [`pool`] of `threads` threads.
pub fn with_threads<R: Send>(threads: impl Into<Option<usize>>, work: impl FnOnce() -> R + Send) -> Result<R> {
    Ok(pool(threads)?.install(work))
}

/// Do tasks on all threads, begun in their order, and give what comes of them in that order.
///
/// Parallel iterators hand out halves of halves. So of tasks in the order of their sizes a large one may be begun late, and
/// all threads wait for it; and a thread that waits for one loop may take half of another, and does not come back before that
/// is done. Here whoever is free takes the next task, and no more than that.
pub(crate) fn in_turn<W: Send, R: Send>(tasks: Vec<W>, work: impl Fn(W) -> R + Sync) -> Vec<R> {
    if rayon::current_num_threads() == 1 {
        return tasks.into_iter().map(work).collect();
    }
    let mut results: Vec<Option<R>> = Vec::new();
    results.resize_with(tasks.len(), || None);
    let num = tasks.len();
    let left = Mutex::new(tasks.into_iter().zip(&mut results));
    let take = || {
        // (Nothing but the taking is done under the lock.)
        let next = left.lock().unwrap_or_else(PoisonError::into_inner).next();
        next.into_iter().for_each(|(task, result)| *result = Some(work(task)));
    };
    rayon::scope(|scope| (0..num).for_each(|_| scope.spawn(|_| take())));
    drop(left);
    results.into_iter().flatten().collect()
}

thread_local! {
    /// Buffers of this thread by their type, each there while nobody has it.
    static BUFFERS: RefCell<HashMap<TypeId, Box<dyn Any>>> = RefCell::new(HashMap::new());
}

/// Lend `work` the buffers of a kind that this thread has, as they were left.
///
/// Parallel loops that are cut into many tasks, so that no thread waits for another's last one, would else make buffers
/// for each task; and memory that is fresh from the system costs more than most of what is done in it. They go with the
/// thread.
pub(crate) fn with_buffers<B: Default + 'static, R>(work: impl FnOnce(&mut B) -> R) -> R {
    let kind = TypeId::of::<B>();
    let idle = BUFFERS.with_borrow_mut(|buffers| buffers.remove(&kind));
    let mut buffers = idle.and_then(|idle| idle.downcast::<B>().ok()).unwrap_or_default();
    let result = work(&mut buffers);
    BUFFERS.with_borrow_mut(|all| all.insert(kind, buffers));
    result
}

/// What was done until now is not done again: give back the buffers of this thread, and those of the others of its pool as
/// each comes to be idle.
pub(crate) fn free_buffers() {
    let free = || drop(BUFFERS.with_borrow_mut(std::mem::take));
    free();
    rayon::spawn_broadcast(move |_| free());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_go_when_they_are_given_back() {
        let held = || rayon::broadcast(|_| with_buffers(|held: &mut Vec<u32>| held.len()));
        with_threads(3, || {
            rayon::broadcast(|_| with_buffers(|held: &mut Vec<u32>| held.push(1)));
            assert_eq!(held(), [1; 3]);
            free_buffers();
            // Threads that wait have nothing else to do.
            let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
            while held() != [0; 3] {
                assert!(std::time::Instant::now() < until, "{:?} are held", held());
            }
        })
        .unwrap();
    }

    #[test]
    fn tasks_are_begun_in_their_order_and_give_their_results_in_it() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
        let begun = [const { AtomicUsize::new(0) }; 20];
        // Each waits for the one beside it, which two threads come to together only if they take tasks in their order.
        let task = |n: usize| {
            begun[n / 2].fetch_add(1, Ordering::SeqCst);
            while begun[n / 2].load(Ordering::SeqCst) < 2 {
                assert!(std::time::Instant::now() < until, "task {n} is alone");
                std::thread::yield_now();
            }
            3 * n
        };
        let results = with_threads(2, || in_turn((0..40).collect(), task)).unwrap();
        assert_eq!(results, (0..40).map(|n| 3 * n).collect::<Vec<_>>());
    }

    #[test]
    fn there_is_a_thread_or_one_a_core() {
        assert!(with_threads(0, || ()).is_err() && with_threads(None, || ()).is_ok());
    }

    #[test]
    fn a_thread_has_one_set_of_buffers_of_a_kind_and_more_while_it_is_lent() {
        with_buffers(|outer: &mut Vec<u8>| {
            outer.push(1);
            // Somebody else asks while it is lent.
            with_buffers(|inner: &mut Vec<u8>| assert!(inner.is_empty()));
            with_buffers(|other: &mut Vec<u16>| assert!(other.is_empty()));
        });
        with_buffers(|again: &mut Vec<u8>| assert_eq!(*again, [1]));
        std::thread::spawn(|| with_buffers(|fresh: &mut Vec<u8>| assert!(fresh.is_empty()))).join().unwrap();
    }
}
