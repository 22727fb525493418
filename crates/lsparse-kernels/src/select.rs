//! Select the L largest of K weights exactly, ties to the lower index.

use std::cell::RefCell;

use crate::candidates::{CANDIDATES, Candidates, Found, lane_maxima, largest_lane, lower_bound};
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

/// The most clusters of [`top_l_tile`], which a tile keeps near the processor, and the largest `l`.
const MOST_IN_TILE: (usize, usize) = (1024, 8);

/// The most of which each is put in its place among the largest: of more, candidates are looked for first.
const MOST_PUT_IN_PLACE: usize = 128;

/// Whether [`top_l_tile`] selects `l` of so many.
pub fn has_top_l_tile(clusters: usize, l: usize) -> bool {
    clusters <= MOST_IN_TILE.0 && l <= MOST_IN_TILE.1.min(clusters)
}

/// [`top_l`] for a tile of log weights, `tile[k * T::TILE + r]` of cluster `k` for row `r`: `index` and `value` receive `l`
/// entries for each of the first rows, as many as they have room for.
///
/// Rows are lanes, so that a weight finds its place among the largest so far in all of them at once. Returns false, with
/// the outputs unspecified, if a row has a NaN, fewer than `l` weights above minus infinity, or, with many clusters, more
/// equal ones than there is room for.
///
/// # Panics
/// If the lengths do not fit, or unless [`has_top_l_tile`].
pub fn top_l_tile<T: Real>(tile: &[T], l: usize, index: &mut [u32], value: &mut [T]) -> bool {
    assert_eq!(tile.len() % T::TILE, 0, "tile must hold TILE entries a cluster");
    assert!(0 < l && has_top_l_tile(tile.len() / T::TILE, l), "1 <= l <= {}", MOST_IN_TILE.1);
    assert!(index.len().is_multiple_of(l) && index.len() / l <= T::TILE, "at most TILE rows");
    assert_eq!(value.len(), index.len(), "value must hold l entries a row");
    assert!(u32::try_from(tile.len() / T::TILE).is_ok(), "indices are 32 bits");
    T::top_l_tile(TopLTile { tile, l, index, value })
}

/// Arguments of [`top_l_tile`], lengths checked.
pub struct TopLTile<'a, T> {
    tile: &'a [T],
    l: usize,
    index: &'a mut [u32],
    value: &'a mut [T],
}

impl<T: Real> Kernel<T> for TopLTile<'_, T> {
    type Output = bool;

    #[inline(always)]
    fn run<V: Vector<Elem = T>>(self) -> bool {
        if self.tile.len() > MOST_PUT_IN_PLACE * T::TILE {
            return match self.l {
                1 => self.candidates::<V, 1>(),
                2 => self.candidates::<V, 2>(),
                3 | 4 => self.candidates::<V, 4>(),
                _ => self.candidates::<V, 8>(),
            };
        }
        match self.l {
            1 => self.insert::<V, 1>(),
            2 => self.insert::<V, 2>(),
            3 | 4 => self.insert::<V, 4>(),
            _ => self.insert::<V, 8>(),
        }
    }
}

impl<T: Real> TopLTile<'_, T> {
    /// With the `N >= l` largest in registers.
    #[inline(always)]
    fn insert<V: Vector<Elem = T>, const N: usize>(self) -> bool {
        const { assert!(T::TILE.is_multiple_of(V::LANES) && V::LANES <= 16) };
        let (zero, one, lowest) = (V::splat(T::ZERO), V::splat(T::ONE), V::splat(T::NEG_INFINITY));
        let blocks = self.index.chunks_mut(V::LANES * self.l).zip(self.value.chunks_mut(V::LANES * self.l));
        let mut whole = true;
        for (block, (index, value)) in blocks.enumerate() {
            let (mut largest, mut places) = ([lowest; N], [zero; N]);
            let (mut number, mut poison) = (zero, zero);
            for of_cluster in self.tile.chunks_exact(T::TILE) {
                // SAFETY: a cluster has TILE entries, and there are no more blocks than LANES go into TILE.
                let w = unsafe { V::load(of_cluster.as_ptr().add(block * V::LANES)) };
                poison = V::select(w.unordered(w), w, poison);
                // Whatever it is larger than moves down by one; of equal ones the earlier stays.
                let (mut moved, mut place) = (w, number);
                for n in 0..N {
                    let above = w.gt(largest[n]);
                    let (before, at) = (largest[n], places[n]);
                    largest[n] = V::select(above, moved, before);
                    moved = V::select(above, before, moved);
                    places[n] = V::select(above, place, at);
                    place = V::select(above, at, place);
                }
                number = number.add(one);
            }
            let rows = index.len() / self.l;
            let (mut lanes, mut numbers) = ([T::ZERO; 16], [T::ZERO; 16]);
            for n in 0..self.l {
                // SAFETY: no vector has more than 16 lanes.
                unsafe {
                    largest[n].store(lanes.as_mut_ptr());
                    places[n].store(numbers.as_mut_ptr());
                }
                for r in 0..rows {
                    value[r * self.l + n] = lanes[r];
                    index[r * self.l + n] = numbers[r].to_f64() as u32;
                }
                whole &= lanes[..rows].iter().all(|&w| w > T::NEG_INFINITY);
            }
            // SAFETY: as above.
            unsafe { poison.store(lanes.as_mut_ptr()) };
            whole &= !lanes[..rows].iter().any(|w| w.is_nan());
        }
        whole
    }
}

/// Clusters are put into twice as many groups as are kept, this many for each of them.
const GROUPS: usize = 2;
/// Vectors of rows whose largest weights are looked for at a time, so that none waits for itself.
const AT_ONCE: usize = 4;
/// The most vectors of a tile.
const MOST_VECTORS: usize = 32;

impl<T: Real> TopLTile<'_, T> {
    /// By a bound on the l-th largest of each row, with `N >= l`: that of the largest of `2 N` groups of clusters. The few
    /// weights at or above it contain the selection, and these are ranked row by row.
    #[inline(always)]
    fn candidates<V: Vector<Elem = T>, const N: usize>(self) -> bool {
        let Self { tile, l, index, value } = self;
        let (clusters, rows) = (tile.len() / T::TILE, index.len() / l);
        let mut bounds = [V::splat(T::ZERO); MOST_VECTORS];
        const { assert!(T::TILE.is_multiple_of(AT_ONCE * V::LANES) && T::TILE <= MOST_VECTORS * V::LANES) };
        const { assert!(T::TILE <= 64) };
        for (at, bounds) in bounds[..rows.div_ceil(V::LANES)].chunks_mut(AT_ONCE).enumerate() {
            let found = bounds_of::<V, N>(tile, at * AT_ONCE * V::LANES, l);
            bounds.iter_mut().zip(found).for_each(|(bound, found)| *bound = found);
        }
        let mut found: [Found<T>; 64] = std::array::from_fn(|_| Found::new());
        let mut counts = [0usize; 64];
        let of_rows = u64::MAX >> (64 - rows.clamp(1, 64));
        for (k, of_cluster) in tile.chunks_exact(T::TILE).enumerate() {
            let mut below = 0u64;
            for (v, bound) in bounds[..rows.div_ceil(V::LANES)].iter().enumerate() {
                // SAFETY: a cluster has TILE entries, and no fewer vectors.
                let w = unsafe { V::load(of_cluster.as_ptr().add(v * V::LANES)) };
                below |= V::bits(bound.gt(w)) << (v * V::LANES);
            }
            // A NaN is above no bound and below none.
            let mut here = !below & of_rows;
            while here != 0 {
                let r = here.trailing_zeros() as usize;
                here &= here - 1;
                if counts[r] == CANDIDATES {
                    return false;
                }
                found[r].set(counts[r], of_cluster[r], k);
                counts[r] += 1;
            }
        }
        debug_assert!(clusters >= l);
        let mut whole = true;
        let places = index.chunks_exact_mut(l).zip(value.chunks_exact_mut(l));
        for (((index, value), found), &count) in places.zip(&mut found).zip(&counts) {
            // SAFETY: so many slots have been set.
            whole &= unsafe { found.rank_numbers::<V>(count, index, value) };
            whole &= count >= l && value[l - 1] > T::NEG_INFINITY;
        }
        whole
    }
}

/// A bound on the l-th largest weight of each row from `first` on, for some vectors of rows.
#[inline(always)]
fn bounds_of<V: Vector, const N: usize>(tile: &[V::Elem], first: usize, l: usize) -> [V; AT_ONCE] {
    let rows = <V::Elem as Real>::TILE;
    let lowest = V::splat(V::Elem::NEG_INFINITY);
    let mut largest = [[lowest; AT_ONCE]; N];
    let group = (tile.len() / rows).div_ceil(GROUPS * N) * rows;
    for group in tile.chunks(group) {
        let mut top = [lowest; AT_ONCE];
        for of_cluster in group.chunks_exact(rows) {
            for (v, top) in top.iter_mut().enumerate() {
                // SAFETY: a cluster has TILE entries, and so many vectors from `first` on.
                let w = unsafe { V::load(of_cluster.as_ptr().add(first + v * V::LANES)) };
                *top = w.max(*top);
            }
        }
        for n in 0..N {
            for v in 0..AT_ONCE {
                let before = largest[n][v];
                largest[n][v] = before.max(top[v]);
                top[v] = before.min(top[v]);
            }
        }
    }
    // With fewer groups than `l` all weights are candidates.
    largest[l - 1]
}

/// Arguments of [`top_l`], lengths checked.
pub struct TopL<'a, T> {
    weights: &'a [T],
    l: usize,
    index: &'a mut [u32],
    value: &'a mut [T],
}

/// The most weights that are all ranked by counting.
const RANK_ALL: usize = 32;
/// The largest `l` for the lane-maximum method.
const MAX_L: usize = 32;

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
        let Some(maxima) = lane_maxima::<V, 4>(self.weights) else {
            return Err(self.first_nan());
        };
        let top = largest_lane(maxima[0].max(maxima[1]).max(maxima[2].max(maxima[3])));
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
        let Some(maxima) = lane_maxima::<V, N>(self.weights) else {
            return Err(self.first_nan());
        };
        let bound = lower_bound(&maxima, self.l);
        let mut found = Found::new();
        let mut count = 0;
        for i in Candidates::<V>::new(self.weights, bound) {
            if count == CANDIDATES {
                self.insert_all(bound);
                return Ok(());
            }
            found.set(count, self.weights[i], i);
            count += 1;
        }
        // SAFETY: `count` slots have been set.
        unsafe { found.rank::<V>(count, self.index, self.value) };
        Ok(())
    }

    #[inline(always)]
    fn rank_all<V: Vector<Elem = T>>(self) -> Result<(), usize> {
        let mut found = Found::new();
        for (i, &w) in self.weights.iter().enumerate() {
            if w.is_nan() {
                return Err(i);
            }
            found.set(i, w, i);
        }
        // SAFETY: a slot has been set for each weight.
        unsafe { found.rank::<V>(self.weights.len(), self.index, self.value) };
        Ok(())
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
