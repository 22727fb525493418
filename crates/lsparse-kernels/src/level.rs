//! Which instruction set the kernels run with: detected once, lowered by the environment or by a test.

use std::sync::atomic::{AtomicU8, Ordering};

/// An instruction set the kernels are compiled for, from the plainest to the widest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Plain Rust on short arrays, with whatever the compiler target guarantees.
    Portable,
    /// NEON, of 64-bit ARM: 128-bit vectors.
    Neon,
    /// AVX2 and FMA: 256-bit vectors.
    Avx2,
    /// AVX-512 F, DQ, VL and BW: 512-bit vectors.
    Avx512,
}

impl Level {
    /// Every level, from the plainest to the widest.
    pub const ALL: [Level; 4] = [Level::Portable, Level::Neon, Level::Avx2, Level::Avx512];

    /// The name that the environment variable `LSPARSE_SIMD` takes.
    pub fn name(self) -> &'static str {
        match self {
            Level::Portable => "portable",
            Level::Neon => "neon",
            Level::Avx2 => "avx2",
            Level::Avx512 => "avx512",
        }
    }

    fn from_name(name: &str) -> Option<Level> {
        Level::ALL.into_iter().find(|level| level.name() == name)
    }

    /// Those that this CPU has, from the plainest to the widest.
    fn there() -> impl DoubleEndedIterator<Item = Level> {
        Level::ALL.into_iter().filter(|&level| is_there(level))
    }
}

/// No level has been chosen yet.
const UNSET: u8 = u8::MAX;

/// The level in use. Only [`set_level`] and the first look write it, and never more than the CPU has:
/// the safety of every kernel rests on that.
static CURRENT: AtomicU8 = AtomicU8::new(UNSET);

/// The level the kernels run at: what the CPU has, or less if `LSPARSE_SIMD` asks for less.
///
/// `LSPARSE_SIMD` is `portable`, `neon`, `avx2` or `avx512`; a value that is unknown or that the CPU does
/// not support is ignored here, see [`check_asked`].
#[inline]
pub fn level() -> Level {
    match CURRENT.load(Ordering::Relaxed) {
        0 => Level::Portable,
        1 => Level::Neon,
        2 => Level::Avx2,
        3 => Level::Avx512,
        _ => initial_level(),
    }
}

/// What is wrong with the value of `LSPARSE_SIMD`, if anything is: the names of the levels that there are.
pub fn check_asked() -> Result<(), Vec<&'static str>> {
    let Ok(asked) = std::env::var("LSPARSE_SIMD") else { return Ok(()) };
    if Level::there().any(|level| level.name() == asked) {
        return Ok(());
    }
    Err(Level::there().map(Level::name).collect())
}

/// Sets the level for the whole process, lowered to what the CPU has, and returns what was set.
///
/// For tests and benchmarks. Results may differ in the last bits between levels, so a program
/// that wants repeatable bits sets it once, before the first kernel, or not at all.
pub fn set_level(level: Level) -> Level {
    let level = Level::there().rfind(|&there| there <= level).unwrap_or(Level::Portable);
    CURRENT.store(level as u8, Ordering::Relaxed);
    level
}

#[cold]
fn initial_level() -> Level {
    let asked =
        std::env::var("LSPARSE_SIMD").ok().and_then(|name| Level::from_name(&name)).filter(|&level| is_there(level));
    let level = asked.or_else(|| Level::there().next_back()).unwrap_or(Level::Portable);
    // One that was set meanwhile stays.
    let _ = CURRENT.compare_exchange(UNSET, level as u8, Ordering::Relaxed, Ordering::Relaxed);
    self::level()
}

/// Whether this CPU has the instructions of a level.
#[cfg(target_arch = "x86_64")]
fn is_there(level: Level) -> bool {
    // The bit-counting extensions came before AVX2; they are asked for because the kernels use them.
    let avx2 = || {
        is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("lzcnt")
            && is_x86_feature_detected!("popcnt")
    };
    let avx512 = || {
        is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512bw")
    };
    match level {
        Level::Portable => true,
        Level::Neon => false,
        Level::Avx2 => avx2(),
        Level::Avx512 => avx2() && avx512(),
    }
}

/// Whether this CPU has the instructions of a level: all of 64-bit ARM has NEON.
#[cfg(not(target_arch = "x86_64"))]
fn is_there(level: Level) -> bool {
    level == Level::Portable || (cfg!(target_arch = "aarch64") && level == Level::Neon)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for level in Level::ALL {
            assert_eq!(Level::from_name(level.name()), Some(level));
        }
        assert_eq!(Level::from_name("sse9"), None);
    }

    #[test]
    fn the_level_never_exceeds_the_cpu() {
        assert!(is_there(level()));
        for asked in Level::ALL {
            let set = set_level(asked);
            assert!(is_there(set) && set <= asked && (set == asked || !is_there(asked)), "{asked:?}: {set:?}");
        }
        assert!(is_there(Level::Portable) && !(is_there(Level::Neon) && is_there(Level::Avx2)));
    }
}
