//! The parts of the lane-maximum method of selection: a bound, who is above it, and in which order.

use std::mem::MaybeUninit;

use crate::real::Real;
use crate::simd::Vector;

/// The most candidates that are ranked by counting.
pub const CANDIDATES: usize = 64;
/// The most lanes of a vector.
const MAX_LANES: usize = 16;

/// The largest weight of each lane of `N` vectors that stride through the weights; none if there
/// is a NaN.
#[inline(always)]
pub fn lane_maxima<V: Vector, const N: usize>(weights: &[V::Elem]) -> Option<[V; N]> {
    const { assert!(N.is_multiple_of(2)) };
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
    // Constant bounds, or the maxima would not stay in registers above.
    let rest = chunks.remainder();
    for n in 0..N {
        if let Some(part @ [_, ..]) = rest.get(n * V::LANES..) {
            // SAFETY: `part` has as many entries as are read.
            let a = unsafe { V::load_upto(part.as_ptr(), part.len(), lowest) };
            nan |= V::bits(a.unordered(a));
            top[n] = top[n].max(a);
        }
    }
    (nan == 0).then_some(top)
}

/// The largest lane of a vector without NaN.
#[inline(always)]
pub fn largest_lane<V: Vector>(vector: V) -> V::Elem {
    let mut lanes = [V::Elem::ZERO; MAX_LANES];
    // SAFETY: no vector has more than MAX_LANES lanes.
    unsafe { vector.store(lanes.as_mut_ptr()) };
    let mut half = V::LANES / 2;
    while half > 0 {
        for i in 0..half {
            lanes[i] = if lanes[i] > lanes[i + half] { lanes[i] } else { lanes[i + half] };
        }
        half /= 2;
    }
    lanes[0]
}

/// The l-th largest lane of the maxima, or of a half or a quarter as many if these are enough:
/// twice `l` leave few candidates, and fewer are quicker to rank.
#[inline(always)]
pub fn lower_bound<V: Vector, const N: usize>(maxima: &[V; N], l: usize) -> V::Elem {
    if N == 4 && 2 * l <= V::LANES {
        lth_largest::<V, 1, 4>(&[maxima[0].max(maxima[1]).max(maxima[2].max(maxima[3]))], l)
    } else if N == 4 && 2 * l <= 2 * V::LANES {
        lth_largest::<V, 2, 2>(&[maxima[0].max(maxima[1]), maxima[2].max(maxima[3])], l)
    } else {
        lth_largest::<V, N, 1>(maxima, l)
    }
}

/// The l-th largest lane: the largest that `l` lanes are at or above. Counted in `TURNS` counters
/// a vector taken in turn, so that an addition need not wait for the one before it.
#[inline(always)]
fn lth_largest<V: Vector, const N: usize, const TURNS: usize>(vectors: &[V; N], l: usize) -> V::Elem {
    let one = V::splat(V::Elem::ONE);
    let mut counts = [[V::splat(V::Elem::ZERO); TURNS]; N];
    let mut lanes = [V::Elem::ZERO; MAX_LANES];
    for vector in vectors {
        // SAFETY: no vector has more than MAX_LANES lanes.
        unsafe { vector.store(lanes.as_mut_ptr()) };
        for (i, &other) in lanes[..V::LANES].iter().enumerate() {
            for n in 0..N {
                let count = counts[n][i % TURNS];
                let above = V::splat(other).ge(vectors[n]);
                counts[n][i % TURNS] = V::select(above, count.add(one), count);
            }
        }
    }
    let enough = V::splat(V::Elem::from_f64(l as f64));
    let lowest = V::splat(V::Elem::NEG_INFINITY);
    let mut largest = lowest;
    for n in 0..N {
        let mut count = counts[n][0];
        for turn in 1..TURNS {
            count = count.add(counts[n][turn]);
        }
        largest = largest.max(V::select(count.ge(enough), vectors[n], lowest));
    }
    largest_lane(largest)
}

/// Candidates in the order of their indices. Uninitialised beyond what was set: clearing the
/// memory would take longer than filling what is needed of it.
pub struct Found<T> {
    values: [MaybeUninit<T>; CANDIDATES + MAX_LANES],
    indices: [MaybeUninit<u32>; CANDIDATES],
}

impl<T: Real> Found<T> {
    #[inline(always)]
    pub fn new() -> Self {
        let (values, indices) = ([MaybeUninit::uninit(); CANDIDATES + MAX_LANES], [MaybeUninit::uninit(); CANDIDATES]);
        Self { values, indices }
    }

    #[inline(always)]
    pub fn set(&mut self, slot: usize, value: T, index: usize) {
        self.values[slot] = MaybeUninit::new(value);
        self.indices[slot] = MaybeUninit::new(index as u32);
    }

    /// [`rank`](Self::rank), unless one of the candidates is NaN. Returns whether none is.
    ///
    /// # Safety
    /// The first `count` slots must have been set.
    #[inline(always)]
    pub unsafe fn rank_numbers<V: Vector<Elem = T>>(
        &mut self,
        count: usize,
        index: &mut [u32],
        value: &mut [T],
    ) -> bool {
        // SAFETY: as the caller says.
        let numbers = self.values[..count].iter().all(|value| !unsafe { value.assume_init() }.is_nan());
        if numbers {
            // SAFETY: as the caller says.
            unsafe { self.rank::<V>(count, index, value) };
        }
        numbers
    }

    /// Writes the first candidates in descending order, without a comparison that is hard to
    /// predict: the place of each is the number of larger ones plus the number of equal ones
    /// before it.
    ///
    /// # Safety
    /// The first `count` slots must have been set.
    #[inline(always)]
    pub unsafe fn rank<V: Vector<Elem = T>>(&mut self, count: usize, index: &mut [u32], value: &mut [T]) {
        const { assert!(V::LANES <= MAX_LANES) };
        assert!(count <= CANDIDATES);
        let values = self.values.as_mut_ptr().cast::<T>();
        // Fill the last vector with what is larger than nothing, and behind all equal ones.
        // SAFETY: there are MAX_LANES entries beyond the last candidate.
        unsafe { V::splat(T::NEG_INFINITY).store(values.add(count)) };
        for i in 0..count {
            // SAFETY: the first `count` slots have been set.
            let (own, own_index) = unsafe { (*values.add(i), self.indices[i].assume_init()) };
            let (mut larger, mut equal) = (0u64, 0u64);
            for j in (0..count).step_by(V::LANES) {
                // SAFETY: these and those up to a full vector have been written.
                let other = unsafe { V::load(values.add(j)) };
                larger |= V::bits(other.gt(V::splat(own))) << j;
                equal |= V::bits(other.eq(V::splat(own))) << j;
            }
            let before = equal & ((1 << i) - 1);
            let rank = (larger.count_ones() + before.count_ones()) as usize;
            if rank < index.len().min(value.len()) {
                index[rank] = own_index;
                value[rank] = own;
            }
        }
    }
}

/// The indices of the weights at or above a bound, in ascending order.
pub struct Candidates<'a, V: Vector> {
    weights: &'a [V::Elem],
    bound: V,
    /// The first index that has not been compared.
    next: usize,
    /// Which of the 64 weights before `next` are still to be returned.
    word: u64,
}

impl<'a, V: Vector> Candidates<'a, V> {
    #[inline(always)]
    pub fn new(weights: &'a [V::Elem], bound: V::Elem) -> Self {
        Self { weights, bound: V::splat(bound), next: 0, word: 0 }
    }
}

impl<V: Vector> Iterator for Candidates<'_, V> {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        while self.word == 0 {
            let rest = self.weights.get(self.next..).filter(|rest| !rest.is_empty())?;
            self.next += 64;
            if let Some(full) = rest.get(..64) {
                for v in (0..64).step_by(V::LANES) {
                    // SAFETY: there are 64 entries.
                    let a = unsafe { V::load(full.as_ptr().add(v)) };
                    self.word |= V::bits(a.ge(self.bound)) << v;
                }
            } else {
                for (v, part) in rest.chunks(V::LANES).enumerate() {
                    // SAFETY: `part` has as many entries as are read.
                    let a = unsafe { V::load_upto(part.as_ptr(), part.len(), self.bound) };
                    self.word |= V::bits(a.ge(self.bound)) << (v * V::LANES);
                }
                // What fills the last vector is no candidate.
                self.word &= (1 << rest.len()) - 1;
            }
        }
        let bit = self.word.trailing_zeros() as usize;
        self.word &= self.word - 1;
        Some(self.next - 64 + bit)
    }
}
