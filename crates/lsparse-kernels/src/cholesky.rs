//! Inverse Cholesky factors and determinants of many small matrices, one matrix a lane.

use std::marker::PhantomData;

use crate::aligned::aligned;
use crate::elementary::ln_positive;
use crate::real::Real;
use crate::simd::{Kernel, Vector, dispatch};

/// For each symmetric positive definite matrix `A = L L^T` computes `L^-1` and `ln det A`.
///
/// `packed` holds the lower triangles row by row, `dim * (dim + 1) / 2` entries a matrix; `inverse`
/// receives `dim * dim` entries a matrix, row by row, zero above the diagonal; `log_det` one entry a
/// matrix. What a matrix gives does not depend on its position or its neighbours.
///
/// # Errors
/// The index of the first matrix that has a pivot not above zero or not finite, and its first such
/// pivot. The matrices before it are done then; what was written for it and those after it is
/// unspecified.
///
/// # Panics
/// If `dim` is zero or the lengths do not fit.
pub fn invert_cholesky_batch(
    packed: &[f64],
    dim: usize,
    inverse: &mut [f64],
    log_det: &mut [f64],
) -> Result<(), (usize, f64)> {
    invert_cholesky_batch_while(packed, dim, inverse, log_det, &|| true).map(|_| ())
}

/// The same as long as `go_on` says so, which is asked now and then where matrices are large. Whether it was done.
///
/// # Errors
/// As [`invert_cholesky_batch`].
///
/// # Panics
/// As [`invert_cholesky_batch`].
pub fn invert_cholesky_batch_while(
    packed: &[f64],
    dim: usize,
    inverse: &mut [f64],
    log_det: &mut [f64],
    go_on: &dyn Fn() -> bool,
) -> Result<bool, (usize, f64)> {
    assert!(dim > 0, "dim must be positive");
    let num = log_det.len();
    let square = dim.checked_mul(dim).and_then(|square| square.checked_mul(num));
    assert_eq!(Some(inverse.len()), square, "inverse must hold dim * dim entries a matrix");
    assert_eq!(packed.len(), num * (dim * (dim + 1) / 2), "packed must hold a triangle a matrix");
    dispatch::<f64, _>(CholeskyBatch { packed, dim, inverse, log_det, go_on })
}

/// Matrices of this many rows take so long that a clock may be looked at between two blocks of them.
const LARGE: usize = 512;

/// Arguments of [`invert_cholesky_batch`], lengths checked.
struct CholeskyBatch<'a> {
    packed: &'a [f64],
    dim: usize,
    inverse: &'a mut [f64],
    log_det: &'a mut [f64],
    go_on: &'a dyn Fn() -> bool,
}

impl Kernel<f64> for CholeskyBatch<'_> {
    type Output = Result<bool, (usize, f64)>;

    #[inline(always)]
    fn run<V: Vector<Elem = f64>>(self) -> Self::Output {
        // A tile of accumulators and its two edges fill the registers.
        if V::REGISTERS >= 32 { self.groups::<V, 4>() } else { self.groups::<V, 3>() }
    }
}

impl CholeskyBatch<'_> {
    /// All matrices, `LANES` at a time.
    #[inline(always)]
    fn groups<V: Vector<Elem = f64>, const B: usize>(self) -> Result<bool, (usize, f64)> {
        let (dim, triangle) = (self.dim, self.dim * (self.dim + 1) / 2);
        let size = dim.next_multiple_of(B);
        let mut scratch = Vec::new();
        let data = aligned(&mut scratch, size * (size + B) * V::LANES).as_mut_ptr();
        let mut group = Group::<V, B> { data, dim, size, failed: [None; 16], vectors: PhantomData };
        let packed = self.packed.chunks(V::LANES * triangle);
        let inverse = self.inverse.chunks_mut(V::LANES * dim * dim);
        let log_det = self.log_det.chunks_mut(V::LANES);
        for (g, ((packed, inverse), log_det)) in packed.zip(inverse).zip(log_det).enumerate() {
            let num = log_det.len();
            let mut sum = V::splat(0.0);
            for block in 0..size / B {
                if dim >= LARGE && !(self.go_on)() {
                    return Ok(false);
                }
                group.load(packed, block);
                sum = sum.add(group.factor(block));
                group.invert(block);
                group.store(inverse, block);
            }
            let mut lanes = [0.0; 16];
            // SAFETY: no vector has more than 16 lanes.
            unsafe { sum.store(lanes.as_mut_ptr()) };
            log_det.copy_from_slice(&lanes[..num]);
            for (lane, failed) in group.failed.iter().take(num).enumerate() {
                if let Some(pivot) = failed {
                    return Err((g * V::LANES + lane, *pivot));
                }
            }
        }
        Ok(true)
    }
}

/// `LANES` matrices that are worked on together, filled up with ones on the diagonal to a whole
/// number of blocks of `B` rows.
///
/// A panel belongs to a block. It first holds the rows of `L` in the block, column by column up to
/// the end of the block, with the inverse of the diagonal in place of the diagonal; then the columns
/// of `L^-1` in the block, row by row from the start of the block on. Either way the inner loops read
/// `B` vectors at a time from two panels, one behind the other.
struct Group<V, const B: usize> {
    /// `size / B` panels of `(size + B) * B` vectors, which nothing else refers to.
    data: *mut f64,
    dim: usize,
    /// `dim`, filled up.
    size: usize,
    /// For each lane the first pivot that was not above zero or not finite.
    failed: [Option<f64>; 16],
    vectors: PhantomData<V>,
}

impl<V: Vector<Elem = f64>, const B: usize> Group<V, B> {
    /// Where the vectors of a panel for column `k` of `L` start.
    ///
    /// # Safety
    /// There must be such a panel, and `k <= size`.
    #[inline(always)]
    unsafe fn factor_at(&self, block: usize, k: usize) -> *mut f64 {
        // SAFETY: the caller's promise.
        unsafe { self.data.add((block * (self.size + B) + k) * B * V::LANES) }
    }

    /// Where the vectors of a panel for row `k` of `L^-1` start.
    ///
    /// # Safety
    /// There must be such a panel, and `k <= size`.
    #[inline(always)]
    unsafe fn inverse_at(&self, block: usize, k: usize) -> *mut f64 {
        // SAFETY: the caller's promise.
        unsafe { self.factor_at(block, k + B) }
    }

    /// Reads the rows of a block from the triangles of up to `LANES` matrices; the last matrix
    /// stands in for those that are missing.
    #[inline(always)]
    fn load(&self, packed: &[f64], block: usize) {
        let triangle = self.dim * (self.dim + 1) / 2;
        let num = packed.len() / triangle;
        assert!(num > 0 && packed.len() == num * triangle && (block + 1) * B <= self.size);
        let mut from = [packed.as_ptr(); 16];
        for lane in 0..V::LANES {
            from[lane] = packed[lane.min(num - 1) * triangle..].as_ptr();
        }
        for a in 0..B {
            let i = block * B + a;
            for k in 0..(block + 1) * B {
                // SAFETY: the panel has B vectors for each of these columns, and entry (i, k) is
                // within each triangle if it is below `dim` and not above the diagonal.
                unsafe {
                    let to = self.factor_at(block, k).add(a * V::LANES);
                    if i >= self.dim || k > i {
                        V::splat(if i == k { 1.0 } else { 0.0 }).store(to);
                        continue;
                    }
                    let at = i * (i + 1) / 2 + k;
                    if V::LANES >= 4 {
                        for l in (0..V::LANES).step_by(4) {
                            V::copy_four([from[l], from[l + 1], from[l + 2], from[l + 3]], at, to.add(l));
                        }
                    } else {
                        for l in 0..V::LANES {
                            to.add(l).write(from[l].add(at).read());
                        }
                    }
                }
            }
        }
    }

    /// Turns the rows of a block into rows of `L`; the earlier blocks must have been. Returns the sum
    /// of the logarithms of the pivots.
    #[inline(always)]
    fn factor(&mut self, block: usize) -> V {
        assert!((block + 1) * B <= self.size);
        let mut log_det = V::splat(0.0);
        for other in 0..=block {
            // SAFETY: `other <= block`, so both panels have these columns.
            unsafe {
                let own = self.factor_at(block, other * B);
                let tile = load_tile::<V, B>(own);
                let mut tile = subtract_products(tile, self.factor_at(block, 0), self.factor_at(other, 0), other * B);
                if other == block {
                    (tile, log_det) = self.factor_tile(tile);
                } else {
                    // Columns of the tile are solved from the left to the right.
                    let triangle = self.factor_at(other, other * B);
                    for b in 0..B {
                        for c in 0..b {
                            let l = V::load(triangle.add((c * B + b) * V::LANES));
                            for a in 0..B {
                                tile[b][a] = l.fnma(tile[c][a], tile[b][a]);
                            }
                        }
                        let reciprocal = V::load(triangle.add((b * B + b) * V::LANES));
                        for a in 0..B {
                            tile[b][a] = tile[b][a].mul(reciprocal);
                        }
                    }
                }
                store_tile(&tile, own);
            }
        }
        log_det
    }

    /// Factors a tile on the diagonal, of which column `c` is `tile[c]`, and returns the sum of the
    /// logarithms of its pivots with it.
    #[inline(always)]
    fn factor_tile(&mut self, mut tile: [[V; B]; B]) -> ([[V; B]; B], V) {
        let one = V::splat(1.0);
        let mut log_det = V::splat(0.0);
        for c in 0..B {
            let pivot = tile[c][c];
            let positive = pivot.gt(V::splat(0.0));
            let finite = V::splat(f64::INFINITY).gt(pivot);
            let good = V::bits(positive) & V::bits(finite);
            if good.trailing_ones() < V::LANES as u32 {
                self.fail(pivot, good);
            }
            let pivot = V::select(positive, V::select(finite, pivot, one), one);
            log_det = log_det.add(ln_positive(pivot));
            let reciprocal = one.div(pivot.sqrt());
            tile[c][c] = reciprocal;
            for a in c + 1..B {
                tile[c][a] = tile[c][a].mul(reciprocal);
            }
            for b in c + 1..B {
                for a in b..B {
                    tile[b][a] = tile[c][a].fnma(tile[c][b], tile[b][a]);
                }
            }
        }
        (tile, log_det)
    }

    /// Remembers the pivots of the lanes that are not good, unless one has failed before.
    #[inline(always)]
    fn fail(&mut self, pivot: V, good: u64) {
        let mut lanes = [0.0; 16];
        // SAFETY: no vector has more than 16 lanes.
        unsafe { pivot.store(lanes.as_mut_ptr()) };
        for lane in 0..V::LANES {
            if good >> lane & 1 == 0 {
                self.failed[lane].get_or_insert(lanes[lane]);
            }
        }
    }

    /// Computes the rows of `L^-1` in a block; its rows of `L` and the earlier blocks must be there.
    #[inline(always)]
    fn invert(&self, block: usize) {
        assert!((block + 1) * B <= self.size);
        for other in 0..=block {
            let mut tile = [[V::splat(0.0); B]; B];
            // SAFETY: `other <= block`, so both panels have these rows and columns.
            unsafe {
                if other == block {
                    for b in 0..B {
                        tile[b][b] = V::splat(1.0);
                    }
                } else {
                    let columns = (block - other) * B;
                    let (a, b) = (self.factor_at(block, other * B), self.inverse_at(other, other * B));
                    // Transposed: row `a` of the tile is `tile[a]`.
                    tile = subtract_products(tile, b, a, columns);
                }
                let triangle = self.factor_at(block, block * B);
                for a in 0..B {
                    for c in 0..a {
                        let l = V::load(triangle.add((c * B + a) * V::LANES));
                        for b in 0..B {
                            tile[a][b] = l.fnma(tile[c][b], tile[a][b]);
                        }
                    }
                    let reciprocal = V::load(triangle.add((a * B + a) * V::LANES));
                    for b in 0..B {
                        tile[a][b] = tile[a][b].mul(reciprocal);
                    }
                }
                store_tile(&tile, self.inverse_at(other, block * B));
            }
        }
    }

    /// Writes the rows of `L^-1` in a block for as many matrices as `inverse` has room for.
    #[inline(always)]
    fn store(&self, inverse: &mut [f64], block: usize) {
        let dim = self.dim;
        assert!((block + 1) * B <= self.size && inverse.len() <= V::LANES * dim * dim);
        for i in block * B..((block + 1) * B).min(dim) {
            for j in (0..=i).step_by(4) {
                // SAFETY: entry (i, k) is within its panel for all `k <= i`.
                let from = [0, 1, 2, 3].map(|c| {
                    let k = (j + c).min(i);
                    unsafe { self.inverse_at(k / B, i).add(k % B * V::LANES).cast_const() }
                });
                for (lane, matrix) in inverse.chunks_exact_mut(dim * dim).enumerate() {
                    let to = &mut matrix[i * dim + j..];
                    if j + 3 <= i {
                        // SAFETY: there are columns `j..j + 4`, and each place has a number a lane.
                        unsafe { V::copy_four(from, lane, to[..4].as_mut_ptr()) };
                    } else {
                        for c in 0..=i - j {
                            // SAFETY: each place has a number a lane.
                            to[c] = unsafe { from[c].add(lane).read() };
                        }
                    }
                }
            }
            for matrix in inverse.chunks_exact_mut(dim * dim) {
                matrix[i * dim + i + 1..(i + 1) * dim].fill(0.0);
            }
        }
    }
}

/// # Safety
/// `B * B` vectors must be readable at `from`.
#[inline(always)]
unsafe fn load_tile<V: Vector, const B: usize>(from: *const V::Elem) -> [[V; B]; B] {
    let mut tile = [[V::splat(V::Elem::ZERO); B]; B];
    for c in 0..B {
        for a in 0..B {
            // SAFETY: the caller's promise.
            tile[c][a] = unsafe { V::load(from.add((c * B + a) * V::LANES)) };
        }
    }
    tile
}

/// # Safety
/// `B * B` vectors must be writable at `to`.
#[inline(always)]
unsafe fn store_tile<V: Vector, const B: usize>(tile: &[[V; B]; B], to: *mut V::Elem) {
    for c in 0..B {
        for a in 0..B {
            // SAFETY: the caller's promise.
            unsafe { tile[c][a].store(to.add((c * B + a) * V::LANES)) };
        }
    }
}

/// `tile[y][x] - sum_k a_kx * b_ky`, with `B` vectors each of `a` and of `b` for each of `count` `k`.
///
/// # Safety
/// `count * B` vectors must be readable at `a` and at `b`.
#[inline(always)]
unsafe fn subtract_products<V: Vector, const B: usize>(
    mut tile: [[V; B]; B],
    mut a: *const V::Elem,
    mut b: *const V::Elem,
    count: usize,
) -> [[V; B]; B] {
    for _ in 0..count {
        // SAFETY: the caller's promise.
        unsafe {
            let mut column = [V::splat(V::Elem::ZERO); B];
            for x in 0..B {
                column[x] = V::load(a.add(x * V::LANES));
            }
            for y in 0..B {
                let factor = V::load(b.add(y * V::LANES));
                for x in 0..B {
                    tile[y][x] = factor.fnma(column[x], tile[y][x]);
                }
            }
            (a, b) = (a.add(B * V::LANES), b.add(B * V::LANES));
        }
    }
    tile
}
