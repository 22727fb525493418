//! What the system says of this process and of the memory that it may have, read from the files of Linux; elsewhere
//! nothing is known, and nothing is said.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// Memory that this process can still get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Bytes.
    pub bytes: u64,
    /// Where they are left, to be read after "2 GB are left": "on this machine".
    pub left: &'static str,
}

/// Bytes that threads, and an allocator which gives little back, take however little is trained.
pub(crate) const OF_A_TRAINING: u64 = 4 << 20;

/// What no process has more of.
const ALL_ADDRESSES: Memory = Memory { bytes: isize::MAX as u64, left: "to any process" };

/// Refuse what would take more memory than there is, where that is known; `what` and `remedy` are for the message.
pub fn check_room(needed: u64, what: impl FnOnce() -> String, remedy: impl FnOnce() -> String) -> Result<()> {
    match available_memory().unwrap_or(ALL_ADDRESSES) {
        Memory { bytes: available, left } if needed > available => {
            Err(Error::TooLarge { what: what(), needed, available, left, remedy: remedy() })
        }
        _ => Ok(()),
    }
}

/// Refuse a result of so many `things` (rows, documents) of so many bytes each that there is no memory for: `what` is what
/// would be done, such as "drawing".
pub fn check_result(what: &str, count: usize, things: &str, bytes_each: u64) -> Result<()> {
    check_room(
        (count as u64).saturating_mul(bytes_each),
        || format!("{what} {count} {things}"),
        || format!("take fewer {things} at a time"),
    )
}

/// The same for a result whose size is known only when it is there: asked before so many `more` are put into `held`,
/// whose memory is asked for by doubling. (A few MB are there.)
pub fn check_growth<T>(what: impl FnOnce() -> String, held: &Vec<T>, more: usize, remedy: &str) -> Result<()> {
    if held.len() + more <= held.capacity() || held.capacity() < 1 << 20 {
        return Ok(());
    }
    check_room(2 * size_of_val(&held[..]) as u64, what, || remedy.to_owned())
}

/// Memory that this process can still get, where the system says so: the least of what the machine has, what its group of
/// processes may have (a container, a job of a scheduler), and what the limit on its addresses (`ulimit -v`) leaves.
pub fn available_memory() -> Option<Memory> {
    let machine = read("/proc/meminfo").and_then(|text| kilobytes(&text, "MemAvailable:"));
    let known = [
        (machine, "on this machine"),
        (group_memory(), "to this container or group of processes"),
        (addresses(), "to this process (ulimit -v)"),
    ];
    let known = known.into_iter().filter_map(|(bytes, left)| Some(Memory { bytes: bytes?, left }));
    known.min_by_key(|memory| memory.bytes)
}

/// Memory that this process has resident now, its program included; none where the system does not say.
pub fn resident_memory() -> u64 {
    read("/proc/self/status").and_then(|status| kilobytes(&status, "VmRSS:")).unwrap_or(0)
}

/// Most memory this process has had resident, where the system says so.
pub fn peak_memory_bytes() -> Option<u64> {
    kilobytes(&read("/proc/self/status")?, "VmHWM:")
}

/// The same as it was at most 20 ms ago: asked after every step of small work, the system would take as long to answer as
/// the step does.
pub(crate) fn recent_peak_memory_bytes() -> Option<u64> {
    const FRESH: Duration = Duration::from_millis(20);
    static LAST: Mutex<Option<(Instant, Option<u64>)>> = Mutex::new(None);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    match *last {
        Some((when, peak)) if when.elapsed() < FRESH => peak,
        _ => last.insert((Instant::now(), peak_memory_bytes())).1,
    }
}

/// Whether this process was started with a signal ignored, as nohup does with SIGHUP; none where that is not known.
pub fn ignores_signal(number: i32) -> Option<bool> {
    let status = read("/proc/self/status")?;
    let mask = u64::from_str_radix(field(&status, "SigIgn:")?, 16).ok()?;
    Some(mask >> (number - 1) & 1 == 1)
}

fn read(path: impl AsRef<Path>) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// The first word behind a name at the start of a line.
fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()
}

fn kilobytes(text: &str, name: &str) -> Option<u64> {
    field(text, name)?.parse::<u64>().ok()?.checked_mul(1024)
}

/// Name of the variable that says how many stores of addresses the system's allocator keeps.
pub const ARENAS: &str = "MALLOC_ARENA_MAX";

/// Bytes of addresses that this process may have, where there is a limit (`ulimit -v`).
pub fn address_limit() -> Option<u64> {
    // "unlimited" is no number.
    field(&read("/proc/self/limits")?, "Max address space")?.parse().ok()
}

/// Bytes of addresses that the process may still ask for, less what the next thread takes: a stack, and what the system's
/// allocator puts by for it unless it is told not to.
fn addresses() -> Option<u64> {
    const PUT_BY: u64 = 64 << 20;
    const STACK: u64 = 4 << 20;
    let left = address_limit()?.saturating_sub(kilobytes(&read("/proc/self/status")?, "VmSize:")?);
    let puts_by = std::env::var_os(ARENAS).is_none() && left >= PUT_BY;
    Some(left.saturating_sub(STACK + if puts_by { PUT_BY } else { 0 }))
}

/// Bytes that the control groups of the process leave it, by version 2 or 1: the least of all groups around it.
fn group_memory() -> Option<u64> {
    let groups = read("/proc/self/cgroup")?;
    let of_version_2 = groups.lines().find_map(|line| line.strip_prefix("0::"));
    let of_version_1 =
        groups.lines().find_map(|line| line.split_once(':')?.1.strip_prefix("memory:")).map(|path| (path, true));
    let mut least = None;
    for (path, is_old) in of_version_1.into_iter().chain(of_version_2.map(|path| (path, false))) {
        let root = Path::new(if is_old { "/sys/fs/cgroup/memory" } else { "/sys/fs/cgroup" });
        // In a container the path may be that of the machine outside, whose folders are not there; the root then is
        // the group.
        let mut folder: PathBuf = root.join(path.trim_start_matches('/'));
        while folder.starts_with(root) {
            least = least.into_iter().chain(left_in_group(&folder, is_old)).min();
            if !folder.pop() {
                break;
            }
        }
    }
    least
}

/// Bytes that one group has left. What it holds of files counts as used but is given up when memory is asked for.
fn left_in_group(folder: &Path, is_old: bool) -> Option<u64> {
    let (limit, used, cached) = match is_old {
        true => ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        false => ("memory.max", "memory.current", "inactive_file"),
    };
    let number = |name: &str| read(folder.join(name))?.trim().parse::<u64>().ok();
    let (limit, used) = (number(limit)?, number(used)?);
    let cached = read(folder.join("memory.stat")).and_then(|stat| field(&stat, &format!("{cached} "))?.parse().ok());
    Some(limit.saturating_sub(used.saturating_sub(cached.unwrap_or(0))))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn groups_count_what_is_used_but_for_files() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        assert_eq!(left_in_group(folder.path(), false), None);
        write("memory.max", "max\n");
        write("memory.current", "700\n");
        assert_eq!(left_in_group(folder.path(), false), None);
        write("memory.max", "1000\n");
        assert_eq!(left_in_group(folder.path(), false), Some(300));
        write("memory.stat", "anon 300\ninactive_file 400\ntotal_inactive_file 100\n");
        assert_eq!(left_in_group(folder.path(), false), Some(700));
        write("memory.limit_in_bytes", "600");
        write("memory.usage_in_bytes", "650");
        assert_eq!(left_in_group(folder.path(), true), Some(50));
    }

    #[test]
    fn what_does_not_fit_is_refused_with_a_remedy() {
        let refused = check_room(u64::MAX, || "a cathedral".to_owned(), || "build a hut".to_owned()).unwrap_err();
        assert!(refused.is_bad_input());
        let message = refused.to_string();
        assert!(message.starts_with("a cathedral needs about 18446744074 GB of memory, and "), "{message}");
        assert!(message.contains(" are left ") && message.ends_with("; build a hut"), "{message}");
        assert!(check_room(1, String::new, String::new).is_ok());
        let message = check_result("drawing", usize::MAX, "rows", 8).unwrap_err().to_string();
        assert!(message.starts_with(&format!("drawing {} rows needs about ", usize::MAX)), "{message}");
        assert!(message.ends_with("; take fewer rows at a time"), "{message}");
        assert!(check_result("drawing", 10, "rows", 8).is_ok());
    }

    #[test]
    fn this_machine_has_memory_and_this_process_some_of_it() {
        assert!(available_memory().unwrap().bytes > 1 << 20);
        assert!(peak_memory_bytes().unwrap() > 1 << 20);
        assert!(resident_memory() > 1 << 20 && resident_memory() <= peak_memory_bytes().unwrap());
        assert_eq!(ignores_signal(11), Some(false));
        assert_eq!(field("Max address space         4096  unlimited  bytes", "Max address space"), Some("4096"));
    }
}
