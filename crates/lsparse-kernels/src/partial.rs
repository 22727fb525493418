//! Partial sums of diagonal quadratic forms: which rows of a tile may still have a cluster.

use crate::real::Real;
use crate::simd::{Kernel, Vector};

/// Columns between two looks at the sums.
const COLUMNS: usize = 8;

/// For each of `num` clusters the terms precision (x - mean)^2 of all columns in an order of its own. No term is
/// negative, so that the sum of some is no more than the sum of all.
#[derive(Clone, Debug)]
pub struct PartialPack<T> {
    num: usize,
    dim: usize,
    /// `dim` terms and what fills the last stage, a cluster.
    terms: Vec<Term<T>>,
}

/// One column of a diagonal form.
#[derive(Clone, Copy, Debug)]
struct Term<T> {
    /// Less than `dim`.
    column: u32,
    mean: T,
    precision: T,
}

impl<T: Real> Term<T> {
    /// Adds nothing.
    const NONE: Self = Term { column: 0, mean: T::ZERO, precision: T::ZERO };
}

impl<T: Real> PartialPack<T> {
    /// Room for `num` clusters, all terms zero.
    ///
    /// # Panics
    /// If `dim` is zero.
    pub fn new(num: usize, dim: usize) -> Self {
        assert!(dim > 0, "dim must be positive");
        Self { num, dim, terms: vec![Term::NONE; num * dim.next_multiple_of(COLUMNS)] }
    }

    /// Take the terms of cluster `k` from a form with `dim` means and precisions, the columns in this order.
    ///
    /// # Panics
    /// If there is no cluster `k`, or a column is not below `dim`, or the lengths do not fit.
    pub fn set(&mut self, k: usize, order: &[u32], mean: &[T], precision: &[T]) {
        assert!(k < self.num, "cluster {k} of {}", self.num);
        assert!([order.len(), mean.len(), precision.len()] == [self.dim; 3], "one entry a column");
        let size = self.dim.next_multiple_of(COLUMNS);
        for (term, &column) in self.terms[k * size..].iter_mut().zip(order) {
            *term = Term { column, mean: mean[column as usize], precision: precision[column as usize] };
        }
    }

    /// The rows of a tile whose sum is not above `limit[r] + base`, row `r` as bit `r`: of all columns, or of those
    /// after which `few` rows or less were left, since so few are better looked at one by one. A sum that is not a
    /// number rules nothing out. Gives the number of terms that were added, too.
    ///
    /// # Panics
    /// If there is no cluster `k`, or the lengths do not fit.
    pub fn alive(&self, k: usize, tile: &[T], limit: &[T], base: T, few: u32) -> (u64, usize) {
        assert!(k < self.num, "cluster {k} of {}", self.num);
        assert_eq!(tile.len(), self.dim * T::TILE, "tile must hold dim * TILE entries");
        assert_eq!(limit.len(), T::TILE, "limit must hold TILE entries");
        let size = self.dim.next_multiple_of(COLUMNS);
        let terms = &self.terms[k * size..(k + 1) * size];
        T::partial_sums(PartialSums { terms, tile, limit, base, few })
    }
}

/// Arguments of [`PartialPack::alive`], lengths checked.
pub struct PartialSums<'a, T> {
    /// Their columns are below `dim`.
    terms: &'a [Term<T>],
    /// `dim * TILE` entries.
    tile: &'a [T],
    /// `TILE` entries.
    limit: &'a [T],
    base: T,
    few: u32,
}

impl<T: Real> Kernel<T> for PartialSums<'_, T> {
    type Output = (u64, usize);

    #[inline(always)]
    fn run<V: Vector<Elem = T>>(self) -> (u64, usize) {
        /// Vectors of rows at a time: enough to hide the latency of the additions.
        const ROWS: usize = 4;
        const { assert!(T::TILE.is_multiple_of(ROWS * V::LANES) && T::TILE <= 64) };
        let Self { terms, tile, limit, base, few } = self;
        let (mut alive, mut stages) = (0, 0);
        for r0 in (0..T::TILE).step_by(ROWS * V::LANES) {
            // SAFETY: columns are below `dim`, so the tile has TILE entries, a multiple of ROWS vectors, for each;
            // `limit` was checked to have as many.
            unsafe {
                let mut most = [V::splat(base); ROWS];
                for r in 0..ROWS {
                    most[r] = V::load(limit.as_ptr().add(r0 + r * V::LANES)).add(most[r]);
                }
                let mut sums = [V::splat(T::ZERO); ROWS];
                let mut bits = 0;
                for stage in terms.chunks_exact(COLUMNS) {
                    for term in stage {
                        let (m, p) = (V::splat(term.mean), V::splat(term.precision));
                        let column = tile.as_ptr().add(term.column as usize * T::TILE + r0);
                        for r in 0..ROWS {
                            let centred = V::load(column.add(r * V::LANES)).sub(m);
                            sums[r] = centred.mul(p).fma(centred, sums[r]);
                        }
                    }
                    stages += 1;
                    bits = 0;
                    for r in 0..ROWS {
                        let lanes = (1u64 << V::LANES) - 1;
                        bits |= (!V::bits(sums[r].gt(most[r])) & lanes) << (r * V::LANES);
                    }
                    if bits.count_ones() <= few {
                        break;
                    }
                }
                alive |= bits << r0;
            }
        }
        (alive, stages * COLUMNS * ROWS * V::LANES)
    }
}
