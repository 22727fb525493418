//! One iteration of the document step: mixture norms of the words, then expected counts of the topics.

use crate::aligned::aligned;
use crate::real::Real;
use crate::simd::{Kernel, Vector};

/// The stride of a block of weights is a multiple of this: whole vectors at every level.
pub const BLOCK_LANES: usize = 16;

/// A stride for the block of a document with that many words: the next multiple of [`BLOCK_LANES`], or
/// the one after it if the rows would then compete for the same places of the cache.
pub fn block_stride(words: usize) -> usize {
    let lanes = words.div_ceil(BLOCK_LANES);
    BLOCK_LANES * if lanes > 0 && lanes.is_multiple_of(16) { lanes + 1 } else { lanes }
}

/// One iteration of the document step over the rows of `block` listed in `rows`.
///
/// Row `a` of the block, at `block[a * stride]`, holds the weights of one topic for the words of a
/// document, filled up with zeros to `stride` (see [`gather_block`](crate::gather_block)). `prior[i]`
/// belongs to `rows[i]`, and `counts` to the words, zero where there is none.
///
/// - `norms[u] = sum_i prior[i] * block[rows[i] * stride + u]`;
/// - `out[i] = prior[i] * sum_u counts[u] / norms[u] * block[rows[i] * stride + u]`, without the words
///   whose count or norm is zero.
///
/// `scratch` is resized as needed and may be shared between calls of all kinds. A block that starts
/// at a cache line, as an [`AlignedVec`](crate::AlignedVec) does, is read at up to twice the speed.
///
/// # Panics
/// If `stride` is no multiple of [`BLOCK_LANES`], the lengths do not fit, or a row is beyond the block.
#[allow(clippy::too_many_arguments)]
pub fn block_step<T: Real>(
    block: &[T],
    stride: usize,
    rows: &[u32],
    prior: &[T],
    counts: &[T],
    norms: &mut [T],
    scratch: &mut Vec<T>,
    out: &mut [T],
) {
    assert_eq!(stride % BLOCK_LANES, 0, "stride must be a multiple of BLOCK_LANES");
    assert_eq!(prior.len(), rows.len(), "one prior a row");
    assert_eq!(out.len(), rows.len(), "one result a row");
    assert_eq!(counts.len(), stride, "counts must hold stride entries");
    assert_eq!(norms.len(), stride, "norms must hold stride entries");
    if stride == 0 {
        out.fill(T::ZERO);
        return;
    }
    let largest = rows.iter().fold(0, |largest, &i| largest.max(i));
    assert!(rows.is_empty() || (largest as usize) < block.len() / stride, "row {largest} of {}", block.len() / stride);
    let sums = aligned(scratch, rows.len() * BLOCK_LANES);
    T::block_step(BlockStep { block, stride, rows, prior, counts, norms, sums, out });
}

/// Arguments of [`block_step`], lengths and rows checked.
pub struct BlockStep<'a, T> {
    block: &'a [T],
    stride: usize,
    rows: &'a [u32],
    prior: &'a [T],
    counts: &'a [T],
    norms: &'a mut [T],
    /// One vector a row: the lanes of the results so far.
    sums: &'a mut [T],
    out: &'a mut [T],
}

/// Bytes of a chunk of columns that are still in the first-level cache when they are read again.
const NEAR: usize = 28 << 10;

impl<T: Real> Kernel<T> for BlockStep<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector<Elem = T>>(mut self) {
        // Both passes over a chunk of columns before the next chunk, so that the second pass finds
        // it in cache; but not with so few columns that what is done once a row takes longer.
        let vectors = self.stride / V::LANES;
        let near = NEAR / V::LANES / size_of::<T>() / self.rows.len().max(1);
        let widest = if V::REGISTERS >= 32 { 16 } else { 8 };
        let widest = if near >= 4 { near.min(widest) } else { widest };
        let mut start = 0;
        let mut chunks = vectors.div_ceil(widest);
        while start < vectors {
            macro_rules! columns {
                ($($small:literal)*; $($large:literal)*) => {
                    match (vectors - start).div_ceil(chunks) {
                        $($small => self.columns::<V, $small>(&mut start),)*
                        $($large if V::REGISTERS >= 32 => self.columns::<V, $large>(&mut start),)*
                        width => unreachable!("a chunk of {width} vectors"),
                    }
                };
            }
            columns!(1 2 3 4 5 6 7 8; 9 10 11 12 13 14 15 16);
            chunks -= 1;
        }
    }
}

impl<T: Real> BlockStep<'_, T> {
    /// Both passes over the `N` vectors of columns from vector `start` on, which moves behind them.
    #[inline(always)]
    fn columns<V: Vector<Elem = T>, const N: usize>(&mut self, start: &mut usize) {
        let first = *start * V::LANES;
        *start += N;
        assert!(first + N * V::LANES <= self.stride);
        let zero = V::splat(T::ZERO);
        let mut norms = [zero; N];
        for (&row, &prior) in self.rows.iter().zip(self.prior) {
            let prior = V::splat(prior);
            // SAFETY: the row is within the block, and the columns within the row.
            unsafe {
                let from = self.block.as_ptr().add(row as usize * self.stride + first);
                for n in 0..N {
                    norms[n] = prior.fma(V::load(from.add(n * V::LANES)), norms[n]);
                }
            }
        }
        let mut ratios = norms;
        for n in 0..N {
            let at = first + n * V::LANES;
            // SAFETY: counts and norms have `stride` entries.
            unsafe {
                let count = V::load(self.counts.as_ptr().add(at));
                norms[n].store(self.norms.as_mut_ptr().add(at));
                let ratio = V::select(norms[n].eq(zero), zero, count.div(norms[n]));
                ratios[n] = V::select(count.eq(zero), zero, ratio);
            }
        }
        let mut i = 0;
        if V::REGISTERS >= 32 {
            while i + 8 <= self.rows.len() {
                self.dots::<V, N, 8>(first, i, &ratios);
                i += 8;
            }
        }
        while i + 4 <= self.rows.len() {
            self.dots::<V, N, 4>(first, i, &ratios);
            i += 4;
        }
        while i < self.rows.len() {
            self.dots::<V, N, 1>(first, i, &ratios);
            i += 1;
        }
    }

    /// Adds the products of the ratios with `R` rows from the i-th on to their sums, and takes the
    /// results from them if these are the last columns. Each row has a sum of its own, so its
    /// result does not depend on `R`.
    #[inline(always)]
    fn dots<V: Vector<Elem = T>, const N: usize, const R: usize>(&mut self, first: usize, i: usize, ratios: &[V; N]) {
        let zero = V::splat(T::ZERO);
        let rows: &[u32; R] = self.rows[i..].first_chunk().expect("R rows");
        let last = first + N * V::LANES == self.stride;
        let mut acc = [zero; R];
        // SAFETY: the rows are within the block, the columns within the rows, and there are
        // BLOCK_LANES sums a row.
        unsafe {
            let sums = self.sums.as_mut_ptr().add(i * V::LANES);
            let from = rows.map(|row| self.block.as_ptr().add(row as usize * self.stride + first));
            if first > 0 {
                for r in 0..R {
                    acc[r] = V::load(sums.add(r * V::LANES));
                }
            }
            for n in 0..N {
                for r in 0..R {
                    acc[r] = ratios[n].fma(V::load(from[r].add(n * V::LANES)), acc[r]);
                }
            }
            if !last {
                for r in 0..R {
                    acc[r].store(sums.add(r * V::LANES));
                }
                return;
            }
        }
        let prior: &[T; R] = self.prior[i..].first_chunk().expect("a prior a row");
        let out: &mut [T; R] = self.out[i..].first_chunk_mut().expect("a result a row");
        for r in (0..R).step_by(4) {
            // Constant indices, for the sums to stay in registers.
            let four: [V; 4] = std::array::from_fn(|k| if r + k < R { acc[r + k] } else { zero });
            let sums = V::sum_four(four);
            for k in 0..4.min(R - r) {
                out[r + k] = prior[r + k] * sums[k];
            }
        }
    }
}
