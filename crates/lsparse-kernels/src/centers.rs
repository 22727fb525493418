//! The nearest of many centres for a tile of rows: the assignment of k-means, with no table of distances.

use crate::real::Real;
use crate::simd::{Kernel, Vector};

/// Centres of a register tile.
///
/// With 4 row vectors (AVX-512) or 2 (otherwise) the accumulators, the rows and one broadcast
/// coefficient fit the register file, and there are more multiplications than loads.
const COLS: usize = 6;

/// Centres in the order in which the kernel reads them: six at a time their -|c|^2 / 2, then six
/// coefficients a column. The last block is filled up with centres that are nearest to nothing.
///
/// Among centres the nearest to x is the one with the largest score x.c - |c|^2 / 2. In `T` a score
/// is rounded at |x| |c|: rows and centres are best taken about a point amid the data.
#[derive(Clone, Debug)]
pub struct CenterPack<T> {
    num: usize,
    dim: usize,
    data: Vec<T>,
}

impl<T: Real> CenterPack<T> {
    /// The most centres of a pack: their numbers travel in lanes of `T`, which must hold them exactly.
    pub const MOST: usize = 1 << 24;

    /// Packs `centers`, `dim` entries each.
    ///
    /// # Panics
    /// If `dim` is zero, `centers` does not hold whole centres, or holds more than [`MOST`](Self::MOST).
    pub fn new(centers: &[f64], dim: usize) -> Self {
        Self::scored(centers, dim, |center| center.iter().map(|v| v * v).sum::<f64>() * -0.5)
    }

    /// Packs coefficients in the place of centres, `dim` entries each, whose scores are x.c alone.
    ///
    /// # Panics
    /// As [`new`](Self::new).
    pub fn linear(coefficients: &[f64], dim: usize) -> Self {
        Self::scored(coefficients, dim, |_| 0.0)
    }

    /// Packs centres whose scores at x = 0 are what `at_zero` says.
    fn scored(centers: &[f64], dim: usize, at_zero: impl Fn(&[f64]) -> f64) -> Self {
        assert!(dim > 0, "dim must be positive");
        assert_eq!(centers.len() % dim, 0, "centers must hold whole centres");
        let num = centers.len() / dim;
        assert!(num <= Self::MOST, "{num} centres are more than {}", Self::MOST);
        let mut data = Vec::with_capacity(num.next_multiple_of(COLS) * (dim + 1));
        for block in centers.chunks(COLS * dim) {
            for c in 0..COLS {
                let score = |center: &[f64]| T::from_f64(at_zero(center));
                data.push(block.chunks_exact(dim).nth(c).map_or(T::NEG_INFINITY, score));
            }
            for d in 0..dim {
                for c in 0..COLS {
                    data.push(block.get(c * dim + d).map_or(T::ZERO, |&v| T::from_f64(v)));
                }
            }
        }
        Self { num, dim, data }
    }

    /// The number of centres.
    pub fn num(&self) -> usize {
        self.num
    }

    /// The length of a centre.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// For every row of a tile (see [`transpose_tile`](crate::transpose_tile)) the centre with the
    /// largest score, the first of equal ones, and that score. A row with no score above minus
    /// infinity (it overflowed, or there are no centres) has the centre `u32::MAX`.
    ///
    /// # Panics
    /// If the lengths do not fit.
    pub fn nearest(&self, tile: &[T], index: &mut [u32], score: &mut [T]) {
        assert_eq!(index.len(), T::TILE, "index must hold TILE entries");
        assert_eq!(score.len(), T::TILE, "score must hold TILE entries");
        assert_eq!(tile.len(), self.dim * T::TILE, "tile must hold dim * TILE entries");
        let mut lanes = [-T::ONE; 64];
        const { assert!(T::TILE <= 64) };
        score.fill(T::NEG_INFINITY);
        let found = &mut lanes[..T::TILE];
        T::nearest_center(NearestCenter { data: &self.data, dim: self.dim, tile, score, found });
        for (index, lane) in index.iter_mut().zip(found) {
            *index = if *lane < T::ZERO { u32::MAX } else { lane.to_f64() as u32 };
        }
    }

    /// The score of every centre for every row of a tile: `out[k * T::TILE + r]`, with room for the centres that fill
    /// up the last block: [`score_len`](Self::score_len) entries.
    ///
    /// # Panics
    /// If the lengths do not fit.
    pub fn scores(&self, tile: &[T], out: &mut [T]) {
        assert_eq!(tile.len(), self.dim * T::TILE, "tile must hold dim * TILE entries");
        assert_eq!(out.len(), self.score_len(), "out must hold score_len entries");
        T::center_scores(CenterScores { data: &self.data, dim: self.dim, tile, out });
    }

    /// Entries that [`scores`](Self::scores) writes.
    pub fn score_len(&self) -> usize {
        self.num.next_multiple_of(COLS) * T::TILE
    }
}

/// Arguments of [`CenterPack::nearest`], lengths checked.
pub struct NearestCenter<'a, T> {
    /// Blocks of `(dim + 1) * COLS` entries.
    data: &'a [T],
    dim: usize,
    /// `dim * TILE` entries.
    tile: &'a [T],
    /// `TILE` entries: the best scores so far.
    score: &'a mut [T],
    /// `TILE` entries: whose they are.
    found: &'a mut [T],
}

impl<T: Real> Kernel<T> for NearestCenter<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector<Elem = T>>(self) {
        if V::REGISTERS >= 32 {
            self.all_rows::<V, 4>();
        } else if V::LANES > 2 {
            self.all_rows::<V, 2>();
        } else {
            // Two lanes are only met in plain Rust, where the compiler loses track of more.
            self.all_rows::<V, 1>();
        }
    }
}

impl<T: Real> NearestCenter<'_, T> {
    #[inline(always)]
    fn all_rows<V: Vector<Elem = T>, const R: usize>(self) {
        const { assert!(T::TILE.is_multiple_of(R * V::LANES)) };
        for r0 in (0..T::TILE).step_by(R * V::LANES) {
            let mut first = T::ZERO;
            for block in self.data.chunks_exact((self.dim + 1) * COLS) {
                // SAFETY: the block has COLS coefficients for each of `dim` columns and the norms; the tile, `score`
                // and `found` have TILE entries a row, a multiple of R vectors.
                unsafe {
                    let acc = block_scores::<V, R>(block, self.dim, self.tile.as_ptr().add(r0));
                    for r in 0..R {
                        let at = r0 + r * V::LANES;
                        let (best_at, found_at) = (self.score.as_mut_ptr().add(at), self.found.as_mut_ptr().add(at));
                        let (mut best, mut found) = (V::load(best_at), V::load(found_at));
                        let mut number = V::splat(first);
                        for c in 0..COLS {
                            // Strictly above: of equal scores the first stays.
                            let above = acc[c][r].gt(best);
                            best = V::select(above, acc[c][r], best);
                            found = V::select(above, number, found);
                            number = number.add(V::splat(T::ONE));
                        }
                        best.store(best_at);
                        found.store(found_at);
                    }
                }
                first += T::from_f64(COLS as f64);
            }
        }
    }
}

/// Arguments of [`CenterPack::scores`], lengths checked.
pub struct CenterScores<'a, T> {
    /// Blocks of `(dim + 1) * COLS` entries.
    data: &'a [T],
    dim: usize,
    /// `dim * TILE` entries.
    tile: &'a [T],
    /// `COLS * TILE` entries a block.
    out: &'a mut [T],
}

impl<T: Real> Kernel<T> for CenterScores<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector<Elem = T>>(self) {
        if V::REGISTERS >= 32 {
            self.all_rows::<V, 4>();
        } else if V::LANES > 2 {
            self.all_rows::<V, 2>();
        } else {
            self.all_rows::<V, 1>();
        }
    }
}

impl<T: Real> CenterScores<'_, T> {
    #[inline(always)]
    fn all_rows<V: Vector<Elem = T>, const R: usize>(self) {
        const { assert!(T::TILE.is_multiple_of(R * V::LANES)) };
        let blocks = self.data.chunks_exact((self.dim + 1) * COLS);
        for (block, out) in blocks.zip(self.out.chunks_exact_mut(COLS * T::TILE)) {
            for r0 in (0..T::TILE).step_by(R * V::LANES) {
                // SAFETY: as for the nearest centre; `out` has COLS rows of TILE entries.
                unsafe {
                    let acc = block_scores::<V, R>(block, self.dim, self.tile.as_ptr().add(r0));
                    for c in 0..COLS {
                        for r in 0..R {
                            acc[c][r].store(out.as_mut_ptr().add(c * T::TILE + r0 + r * V::LANES));
                        }
                    }
                }
            }
        }
    }
}

/// Scores of the centres of one block for `R` vectors of rows.
///
/// # Safety
/// `block` must hold `(dim + 1) * COLS` entries, and `R` vectors be readable at `tile` and at each of the next
/// `dim - 1` multiples of TILE from it.
#[inline(always)]
unsafe fn block_scores<V: Vector, const R: usize>(
    block: &[V::Elem],
    dim: usize,
    tile: *const V::Elem,
) -> [[V; R]; COLS] {
    let mut acc = [[V::splat(V::Elem::ZERO); R]; COLS];
    // SAFETY: the caller's promise.
    unsafe {
        let mut p = block.as_ptr();
        for c in 0..COLS {
            acc[c] = [V::splat(*p.add(c)); R];
        }
        p = p.add(COLS);
        let mut column = tile;
        for _ in 0..dim {
            let mut x = [V::splat(V::Elem::ZERO); R];
            for r in 0..R {
                x[r] = V::load(column.add(r * V::LANES));
            }
            for c in 0..COLS {
                let m = V::splat(*p.add(c));
                for r in 0..R {
                    acc[c][r] = m.fma(x[r], acc[c][r]);
                }
            }
            p = p.add(COLS);
            column = column.wrapping_add(<V::Elem as Real>::TILE);
        }
    }
    acc
}
