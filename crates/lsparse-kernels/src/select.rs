//! Select the L largest of K weights exactly, ties to the lower index.

use std::cell::RefCell;

use crate::real::Real;
use crate::simd::{Kernel, Vector};

/// Finds the `l` largest weights: `value` in descending order and `index` where they are.
///
/// Among equal weights the one with the lower index comes first, and is the one selected.
/// Minus infinity is a weight like any other.
///
/// # Errors
/// The index of the first NaN, if there is one; the outputs are then unspecified.
///
/// # Panics
/// Unless `1 <= l <= weights.len()` and both outputs have `l` entries.
pub fn top_l<T: Real>(weights: &[T], l: usize, index: &mut [u32], value: &mut [T]) -> Result<(), usize> {
    assert!(0 < l && l <= weights.len(), "1 <= l <= {}", weights.len());
    assert!(u32::try_from(weights.len()).is_ok(), "indices are 32 bits");
    assert_eq!(index.len(), l, "index must hold l entries");
    assert_eq!(value.len(), l, "value must hold l entries");
    T::top_l(TopL { weights, l, index, value })
}

/// Arguments of [`top_l`], lengths checked.
pub struct TopL<'a, T> {
    weights: &'a [T],
    l: usize,
    index: &'a mut [u32],
    value: &'a mut [T],
}

/// The most candidates that are ranked by counting.
const CANDIDATES: usize = 64;
/// The most weights that are all ranked by counting.
const RANK_ALL: usize = 32;
/// The largest `l` for the lane-maximum method.
const MAX_L: usize = 32;
/// The most per-lane maxima.
const BUCKETS: usize = 256;

impl<T: Real> Kernel<T> for TopL<'_, T> {
    type Output = Result<(), usize>;

    #[inline(always)]
    fn run<V: Vector<Elem = T>>(self) -> Result<(), usize> {
        let (k, l) = (self.weights.len(), self.l);
        if l == 1 {
            self.largest::<V>()
        } else if k <= RANK_ALL {
            self.rank_all::<V>()
        } else if l > MAX_L || 2 * l > k {
            self.sort()
        } else if 2 * l <= 4 * V::LANES {
            self.lane_max::<V, 4>()
        } else if 2 * l <= 8 * V::LANES {
            self.lane_max::<V, 8>()
        } else if 2 * l <= 16 * V::LANES {
            self.lane_max::<V, 16>()
        } else {
            self.sort()
        }
    }
}

impl<T: Real> TopL<'_, T> {
    /// The index of the first NaN, which is known to exist.
    #[cold]
    fn first_nan(&self) -> usize {
        let nan = self.weights.iter().position(|w| w.is_nan());
        nan.expect("a vector comparison found a NaN")
    }

    /// `l = 1`: the maximum, then the first place where it is.
    #[inline(always)]
    fn largest<V: Vector<Elem = T>>(self) -> Result<(), usize> {
        let mut maxima = [T::NEG_INFINITY; BUCKETS];
        if lane_maxima::<V, 4>(self.weights, &mut maxima) {
            return Err(self.first_nan());
        }
        let mut top = maxima[0];
        for &m in &maxima[1..4 * V::LANES] {
            top = if m > top { m } else { top };
        }
        let first = Candidates::<V>::new(self.weights, top).next();
        let first = first.expect("the maximum is somewhere");
        self.index[0] = first as u32;
        self.value[0] = self.weights[first];
        Ok(())
    }

    /// The l-th largest of the per-lane maxima is a lower bound of the l-th largest weight, so the
    /// few weights at or above it contain the selection.
    #[inline(always)]
    fn lane_max<V: Vector<Elem = T>, const N: usize>(self) -> Result<(), usize> {
        let mut maxima = [T::NEG_INFINITY; BUCKETS];
        if lane_maxima::<V, N>(self.weights, &mut maxima) {
            return Err(self.first_nan());
        }
        let bound = lower_bound::<V, N>(&mut maxima, self.l);
        let mut values = [T::NEG_INFINITY; CANDIDATES];
        let mut indices = [0; CANDIDATES];
        let mut count = 0;
        for i in Candidates::<V>::new(self.weights, bound) {
            if count == CANDIDATES {
                self.insert_all(bound);
                return Ok(());
            }
            values[count] = self.weights[i];
            indices[count] = i as u32;
            count += 1;
        }
        self.rank::<V>(&values, &indices, count);
        Ok(())
    }

    #[inline(always)]
    fn rank_all<V: Vector<Elem = T>>(self) -> Result<(), usize> {
        let mut values = [T::NEG_INFINITY; CANDIDATES];
        let mut indices = [0; CANDIDATES];
        for (i, &w) in self.weights.iter().enumerate() {
            if w.is_nan() {
                return Err(i);
            }
            values[i] = w;
            indices[i] = i as u32;
        }
        let count = self.weights.len();
        self.rank::<V>(&values, &indices, count);
        Ok(())
    }

    /// Sorts candidates, which come in the order of their indices, without a branch: the place of
    /// each is the number of larger ones plus the number of equal ones before it.
    #[inline(always)]
    fn rank<V: Vector<Elem = T>>(self, values: &[T; CANDIDATES], indices: &[u32; CANDIDATES], count: usize) {
        let mut sorted_values = [T::ZERO; CANDIDATES];
        let mut sorted_indices = [0; CANDIDATES];
        for i in 0..count {
            let own = V::splat(values[i]);
            let (mut larger, mut equal) = (0u64, 0u64);
            for j in (0..count).step_by(V::LANES) {
                // SAFETY: `j` is a multiple of LANES below the 64 entries, which LANES divides.
                let other = unsafe { V::load(values.as_ptr().add(j)) };
                larger |= V::bits(other.gt(own)) << j;
                equal |= V::bits(other.eq(own)) << j;
            }
            // Entries beyond `count` are minus infinity: larger than none, and after all.
            let before = equal & ((1 << i) - 1);
            let rank = (larger.count_ones() + before.count_ones()) as usize % CANDIDATES;
            sorted_values[rank] = values[i];
            sorted_indices[rank] = indices[i];
        }
        self.value.copy_from_slice(&sorted_values[..self.l]);
        self.index.copy_from_slice(&sorted_indices[..self.l]);
    }

    /// Insertion for many candidates: with so many, most are ties and go no further than one
    /// comparison.
    #[cold]
    fn insert_all(self, bound: T) {
        let mut filled = 0;
        for (i, &w) in self.weights.iter().enumerate() {
            // Indices ascend, so an equal weight belongs behind those that are there.
            if w < bound || (filled == self.l && w <= self.value[self.l - 1]) {
                continue;
            }
            let at = self.value[..filled].partition_point(|&v| v >= w);
            filled = self.l.min(filled + 1);
            self.value.copy_within(at..filled - 1, at + 1);
            self.index.copy_within(at..filled - 1, at + 1);
            self.value[at] = w;
            self.index[at] = i as u32;
        }
    }

    /// For `l` large or close to `K`.
    fn sort(self) -> Result<(), usize> {
        thread_local! {
            static ORDER: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
        }
        let weights = self.weights;
        if let Some(nan) = weights.iter().position(|w| w.is_nan()) {
            return Err(nan);
        }
        let descending = |&a: &u32, &b: &u32| {
            let by_weight = weights[b as usize].partial_cmp(&weights[a as usize]);
            by_weight.expect("no NaN").then(a.cmp(&b))
        };
        ORDER.with_borrow_mut(|order| {
            order.clear();
            order.extend(0..weights.len() as u32);
            if self.l < weights.len() {
                order.select_nth_unstable_by(self.l - 1, descending);
                order.truncate(self.l);
            }
            order.sort_unstable_by(descending);
            self.index.copy_from_slice(order);
        });
        for (value, &i) in self.value.iter_mut().zip(&*self.index) {
            *value = weights[i as usize];
        }
        Ok(())
    }
}

/// The largest weight of each lane of `N` vectors that stride through the weights, and whether
/// there is a NaN.
#[inline(always)]
fn lane_maxima<V: Vector, const N: usize>(weights: &[V::Elem], maxima: &mut [V::Elem; BUCKETS]) -> bool {
    const { assert!(N.is_multiple_of(2) && N * V::LANES <= BUCKETS) };
    let lowest = V::splat(V::Elem::NEG_INFINITY);
    let mut top = [lowest; N];
    let mut nan = 0;
    let mut chunks = weights.chunks_exact(N * V::LANES);
    for chunk in &mut chunks {
        for n in (0..N).step_by(2) {
            // SAFETY: a chunk has N vectors.
            let (a, b) = unsafe {
                let a = chunk.as_ptr().add(n * V::LANES);
                (V::load(a), V::load(a.add(V::LANES)))
            };
            nan |= V::bits(a.unordered(b));
            top[n] = top[n].max(a);
            top[n + 1] = top[n + 1].max(b);
        }
    }
    for (n, part) in chunks.remainder().chunks(V::LANES).enumerate() {
        // SAFETY: `part` has as many entries as are read.
        let a = unsafe { V::load_upto(part.as_ptr(), part.len(), lowest) };
        nan |= V::bits(a.unordered(a));
        top[n] = top[n].max(a);
    }
    for n in 0..N {
        // SAFETY: the array holds N vectors.
        unsafe { top[n].store(maxima.as_mut_ptr().add(n * V::LANES)) };
    }
    nan != 0
}

/// The l-th largest of `N` vectors of maxima, or of half or a quarter of them if these are enough.
#[inline(always)]
fn lower_bound<V: Vector, const N: usize>(maxima: &mut [V::Elem; BUCKETS], l: usize) -> V::Elem {
    const { assert!(N * V::LANES <= BUCKETS) };
    let start = maxima.as_mut_ptr();
    let mut n = N;
    // Twice l maxima leave few candidates, and fewer are quicker to rank.
    while n > 1 && n / 2 * V::LANES >= 2 * l {
        n /= 2;
        for i in 0..n {
            // SAFETY: the array holds N vectors.
            unsafe {
                let a = V::load(start.add(i * V::LANES));
                let b = V::load(start.add((i + n) * V::LANES));
                a.max(b).store(start.add(i * V::LANES));
            }
        }
    }
    let mut bound = V::Elem::NEG_INFINITY;
    for i in 0..n * V::LANES {
        let own = maxima[i];
        let mut count = 0;
        for j in 0..n {
            // SAFETY: as above.
            let other = unsafe { V::load(maxima.as_ptr().add(j * V::LANES)) };
            count += V::bits(other.ge(V::splat(own))).count_ones() as usize;
        }
        if count >= l && own > bound {
            bound = own;
        }
    }
    bound
}

/// The indices of the weights at or above a bound, in ascending order.
struct Candidates<'a, V: Vector> {
    weights: &'a [V::Elem],
    bound: V,
    /// The first index that has not been compared.
    next: usize,
    /// Which of the 64 weights before `next` are still to be returned.
    word: u64,
}

impl<'a, V: Vector> Candidates<'a, V> {
    #[inline(always)]
    fn new(weights: &'a [V::Elem], bound: V::Elem) -> Self {
        Self { weights, bound: V::splat(bound), next: 0, word: 0 }
    }
}

impl<V: Vector> Iterator for Candidates<'_, V> {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        while self.word == 0 {
            let rest = self.weights.get(self.next..).filter(|rest| !rest.is_empty())?;
            let rest = &rest[..rest.len().min(64)];
            let mut word = 0;
            for (v, part) in rest.chunks(V::LANES).enumerate() {
                // SAFETY: `part` has as many entries as are read.
                let a = unsafe { V::load_upto(part.as_ptr(), part.len(), self.bound) };
                word |= V::bits(a.ge(self.bound)) << (v * V::LANES);
            }
            // What fills the last vector is no candidate.
            self.word = word & (u64::MAX >> (64 - rest.len()));
            self.next += 64;
        }
        let bit = self.word.trailing_zeros() as usize;
        self.word &= self.word - 1;
        Some(self.next - 64 + bit)
    }
}
