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
