//! Expected numbers of starts and transitions of a chain, and how they are summed over pairs of states.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;

use serde::{Deserialize, Serialize};

/// Expected numbers of starts and transitions: additive, and sparse as transitions are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChainCounts {
    /// Sequences that begin in each state.
    pub start: Vec<f64>,
    /// Transitions out of each state to anywhere, 1/K of them to each state: what is known before the first visit.
    pub spread: Vec<f64>,
    /// The entries of row j end here.
    pub ends: Vec<usize>,
    /// The states that follow, ascending in each row.
    pub to: Vec<u32>,
    /// How often.
    pub count: Vec<f64>,
}

/// What is left of a count is nothing but rounding below this share of it.
const RESIDUE: f64 = 1e-9;

/// Counts and shares below this are none: their quotients would be zero, and the logarithms of those no numbers.
pub(crate) const LEAST_COUNT: f64 = 1e-200;

/// A count, or nothing where it is too small to be one.
fn count_or_none(count: f64) -> f64 {
    if count < LEAST_COUNT { 0.0 } else { count }
}

impl ChainCounts {
    /// No sequences at all.
    pub fn zeros(num: usize) -> Self {
        let zeros = || vec![0.0; num];
        ChainCounts { start: zeros(), spread: zeros(), ends: vec![0; num], to: Vec::new(), count: Vec::new() }
    }

    /// K.
    pub fn num_states(&self) -> usize {
        self.start.len()
    }

    /// Where the entries of row j are.
    pub fn row(&self, j: usize) -> Range<usize> {
        j.checked_sub(1).map_or(0, |before| self.ends[before])..self.ends[j]
    }

    /// Whether the parts fit together, as they do unless they come from a damaged file.
    pub fn is_sound(&self) -> bool {
        let num = self.start.len();
        let rows = || (0..num).map(|j| self.row(j));
        let legal = |value: &f64| value.is_finite() && *value >= 0.0;
        self.spread.len() == num
            && self.ends.len() == num
            && self.ends.is_sorted()
            && self.ends.last().copied().unwrap_or(0) == self.to.len()
            && self.to.len() == self.count.len()
            && rows().all(|row| self.to[row].is_sorted_by(|a, b| a < b))
            && self.to.iter().all(|&k| (k as usize) < num)
            && self.start.iter().chain(&self.spread).chain(&self.count).all(legal)
    }

    /// Bytes of memory held.
    pub fn resident_bytes(&self) -> usize {
        let numbers = self.start.len() + self.spread.len() + self.count.len() + self.ends.len();
        numbers * size_of::<f64>() + self.to.len() * size_of::<u32>()
    }

    /// `self *= factor`.
    pub fn scale(&mut self, factor: f64) {
        let all = self.start.iter_mut().chain(&mut self.spread).chain(&mut self.count);
        all.for_each(|value| *value = count_or_none(*value * factor));
    }

    /// `self += factor * other`. Where all that there was is taken away nothing is left, not a trace of rounding.
    pub fn add_scaled(&mut self, other: &Self, factor: f64) {
        let sum = |own: f64, other: f64| {
            let sum = own + factor * other;
            if factor < 0.0 && other > 0.0 && sum <= RESIDUE * own { 0.0 } else { count_or_none(sum) }
        };
        for (own, other) in [(&mut self.start, &other.start), (&mut self.spread, &other.spread)] {
            own.iter_mut().zip(other).for_each(|(own, &other)| *own = sum(*own, other));
        }
        if self.ends == other.ends && self.to == other.to && factor >= 0.0 {
            self.count.iter_mut().zip(&other.count).for_each(|(own, &other)| *own = sum(*own, other));
            return;
        }
        let most = self.to.len() + other.to.len();
        let (mut to, mut count) = (Vec::with_capacity(most), Vec::with_capacity(most));
        let mut ends = Vec::with_capacity(self.ends.len());
        for j in 0..self.ends.len() {
            let (mut own, mut others) = (self.row(j), other.row(j));
            while !own.is_empty() || !others.is_empty() {
                let mine = self.to[own.clone()].first().copied().unwrap_or(u32::MAX);
                let theirs = other.to[others.clone()].first().copied().unwrap_or(u32::MAX);
                let (mut left, mut right) = (0.0, 0.0);
                if mine <= theirs {
                    left = self.count[own.start];
                    own.start += 1;
                }
                if theirs <= mine {
                    right = other.count[others.start];
                    others.start += 1;
                }
                let value = sum(left, right);
                if value > 0.0 {
                    to.push(mine.min(theirs));
                    count.push(value);
                }
            }
            ends.push(to.len());
        }
        (self.ends, self.to, self.count) = (ends, to, count);
    }
}

/// Up to so many states sums of pairs are a table.
const TABLE_STATES: usize = 256;

/// Sums over pairs of states: a table, or only those that there are.
pub enum PairSums {
    /// Row by row.
    Table(Vec<f64>),
    /// By from * K + to. The order that they are in has no part in any sum.
    Some(HashMap<u64, f64, BuildHasherDefault<PairHasher>>),
}

/// A hash of a number that is good enough for pairs, and fast.
#[derive(Default)]
pub struct PairHasher(u64);

impl Hasher for PairHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(u64::from(byte)));
    }

    fn write_u64(&mut self, pair: u64) {
        self.0 = (self.0 ^ pair).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_right(20);
    }
}

impl PairSums {
    /// Of K states; a table where `dense` or K is small.
    pub fn new(num: usize, dense: bool) -> Self {
        match dense || num <= TABLE_STATES {
            true => PairSums::Table(vec![0.0; num * num]),
            false => PairSums::Some(HashMap::default()),
        }
    }

    /// Add to a pair.
    #[inline]
    pub fn add(&mut self, num: usize, from: u32, to: u32, value: f64) {
        let at = from as usize * num + to as usize;
        match self {
            PairSums::Table(sums) => sums[at] += value,
            PairSums::Some(sums) => *sums.entry(at as u64).or_insert(0.0) += value,
        }
    }

    /// Add to all pairs of a row.
    pub fn add_row(&mut self, num: usize, from: usize, values: impl Iterator<Item = f64>) {
        match self {
            PairSums::Table(sums) => {
                sums[from * num..(from + 1) * num].iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
            }
            PairSums::Some(_) => {
                let there = (0..).zip(values).filter(|(_, value)| *value > 0.0);
                there.for_each(|(to, value)| self.add(num, from as u32, to, value));
            }
        }
    }

    /// Add all of another.
    pub fn merge(&mut self, other: &Self) {
        match (self, other) {
            (PairSums::Table(sums), PairSums::Table(others)) => sums.iter_mut().zip(others).for_each(|(a, b)| *a += b),
            (PairSums::Some(sums), PairSums::Some(others)) => {
                others.iter().for_each(|(&pair, value)| *sums.entry(pair).or_insert(0.0) += value);
            }
            (PairSums::Table(sums), PairSums::Some(others)) => {
                others.iter().for_each(|(&pair, value)| sums[pair as usize] += value);
            }
            (PairSums::Some(sums), PairSums::Table(others)) => {
                let there = (0u64..).zip(others).filter(|(_, value)| **value > 0.0);
                there.for_each(|(pair, value)| *sums.entry(pair).or_insert(0.0) += value);
            }
        }
    }

    /// As the transitions of a chain of K states; what is too small to be a count is none.
    pub fn into_counts(self, num: usize, counts: &mut ChainCounts) {
        let mut pairs: Vec<(u64, f64)> = match self {
            PairSums::Table(sums) => (0..).zip(sums).filter(|(_, value)| *value >= LEAST_COUNT).collect(),
            PairSums::Some(sums) => sums.into_iter().filter(|(_, value)| *value >= LEAST_COUNT).collect(),
        };
        pairs.sort_unstable_by_key(|pair| pair.0);
        let mut ends = vec![0; num];
        for (pair, _) in &pairs {
            ends[*pair as usize / num.max(1)] += 1;
        }
        let mut end = 0;
        ends.iter_mut().for_each(|own| {
            end += *own;
            *own = end;
        });
        counts.ends = ends;
        counts.to = pairs.iter().map(|(pair, _)| (*pair as usize % num.max(1)) as u32).collect();
        counts.count = pairs.into_iter().map(|(_, value)| value).collect();
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn counts(pairs: &[(u32, u32, f64)], start: &[f64], spread: &[f64]) -> ChainCounts {
        let num = start.len();
        let mut sums = PairSums::new(num, false);
        pairs.iter().for_each(|&(j, k, n)| sums.add(num, j, k, n));
        let mut counts = ChainCounts { start: start.to_vec(), spread: spread.to_vec(), ..ChainCounts::zeros(num) };
        sums.into_counts(num, &mut counts);
        assert!(counts.is_sound());
        counts
    }

    pub(crate) fn some_counts() -> ChainCounts {
        let pairs = [(0, 0, 4.0), (0, 2, 1.5), (1, 0, 0.25), (2, 1, 3.0), (2, 2, 1.0)];
        counts(&pairs, &[1.0, 0.0, 2.0], &[0.0, 0.6, 0.0])
    }

    /// Rows written out in full.
    pub(crate) fn full(counts: &ChainCounts) -> Vec<Vec<f64>> {
        let num = counts.num_states();
        let row = |j: usize| {
            let mut row = vec![counts.spread[j] / num as f64; num];
            counts.row(j).for_each(|at| row[counts.to[at] as usize] += counts.count[at]);
            row
        };
        (0..num).map(row).collect()
    }

    #[test]
    fn counts_add_up_and_nothing_is_left_of_what_is_taken_away() {
        let a = some_counts();
        let b = counts(&[(0, 1, 2.0), (0, 2, 0.1), (1, 1, 1e-3)], &[0.0, 3.0, 0.0], &[1.0, 0.0, 0.0]);
        let mut sum = a.clone();
        sum.add_scaled(&b, 2.0);
        let (left, right, both) = (full(&a), full(&b), full(&sum));
        for j in 0..3 {
            for k in 0..3 {
                assert!((both[j][k] - left[j][k] - 2.0 * right[j][k]).abs() < 1e-14);
            }
        }
        assert!(sum.is_sound());
        sum.add_scaled(&b, -2.0);
        assert_eq!((&sum.ends, &sum.to), (&a.ends, &a.to));
        sum.add_scaled(&a, -1.0);
        assert_eq!(sum, ChainCounts::zeros(3));
        let mut half = a.clone();
        half.scale(0.5);
        half.add_scaled(&half.clone(), 1.0);
        assert_eq!(half, a);
    }

    #[test]
    fn pairs_of_many_states_are_those_of_a_table() {
        let num = 300;
        let (mut some, mut table) = (PairSums::new(num, false), PairSums::new(num, true));
        assert!(matches!((&some, &table), (PairSums::Some(_), PairSums::Table(_))));
        for n in 0..2000u32 {
            let (from, to) = (n * 7919 % 300, n * 104_729 % 300);
            [&mut some, &mut table].into_iter().for_each(|sums| sums.add(num, from, to, f64::from(n) * 0.1));
        }
        let (mut a, mut b) = (ChainCounts::zeros(num), ChainCounts::zeros(num));
        some.into_counts(num, &mut a);
        table.into_counts(num, &mut b);
        assert!(a.is_sound() && a.to.len() > 100);
        assert_eq!(a, b);
    }
}
