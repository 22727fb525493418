//! What the test files share: running at every level, random data, and comparison.
#![allow(dead_code)]

use std::sync::Mutex;

use lsparse_kernels::{Level, Real, set_level};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The level is process-wide, so tests that set it take turns.
static TURN: Mutex<()> = Mutex::new(());

/// Runs a test at every level this machine has, with the name of the level.
pub fn at_every_level(mut test: impl FnMut(&str)) {
    // A test that failed has poisoned the lock, not the level: the next one sets it anew.
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    for level in Level::ALL {
        if set_level(level) == level {
            test(level.name());
        }
    }
}

pub fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

/// Numbers between -1 and 1.
pub fn random<T: Real>(rng: &mut ChaCha8Rng, len: usize) -> Vec<T> {
    (0..len).map(|_| T::from_f64(rng.random_range(-1.0..1.0))).collect()
}

/// Numbers between 0 and 1.
pub fn random_positive<T: Real>(rng: &mut ChaCha8Rng, len: usize) -> Vec<T> {
    random::<T>(rng, len).into_iter().map(T::abs).collect()
}

/// Fails unless `got` is within `ulps` rounding errors of `expected`, measured at `scale`.
#[track_caller]
pub fn assert_near<T: Real>(got: f64, expected: f64, ulps: f64, scale: f64, what: &str) {
    let bound = ulps * T::EPSILON * scale;
    assert!(
        (got - expected).abs() <= bound,
        "{what}: {got} instead of {expected}, off by {:e}, allowed {bound:e}",
        (got - expected).abs()
    );
}
