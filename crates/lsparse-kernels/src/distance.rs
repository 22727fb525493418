//! Rows of a tile turned by a triangular factor, and their squared distances from points: the log densities of Gaussians
//! of one variance, or of one covariance.

use crate::real::Real;
use crate::simd::{Kernel, Vector};

/// `out[k * T::TILE + r] = sum_d (x_rd - c_kd)^2` for every row of a tile and every point of `points`, which has `dim`
/// entries a point.
///
/// Differences are squared, rather than products subtracted: rows far from zero keep their digits. The bits of a distance
/// do not depend on what other points there are.
///
/// # Panics
/// If `dim` is zero or the lengths do not fit.
pub fn square_distances<T: Real>(tile: &[T], dim: usize, points: &[T], out: &mut [T]) {
    assert!(dim > 0, "dim must be positive");
    assert_eq!(tile.len(), dim * T::TILE, "tile must hold dim * TILE entries");
    assert_eq!(points.len() % dim, 0, "points must hold whole points");
    assert_eq!(out.len(), points.len() / dim * T::TILE, "out must hold TILE entries a point");
    T::square_distances(SquareDistances { tile, dim, points, out });
}

/// Arguments of [`square_distances`], lengths checked.
pub struct SquareDistances<'a, T> {
    tile: &'a [T],
    dim: usize,
    points: &'a [T],
    out: &'a mut [T],
}

impl<T: Real> Kernel<T> for SquareDistances<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector<Elem = T>>(self) {
        // Accumulators, rows and a broadcast entry fit the registers.
        if V::REGISTERS >= 32 { self.points::<V, 5, 4>() } else { self.points::<V, 3, 2>() }
    }
}

impl<T: Real> SquareDistances<'_, T> {
    /// `C` points and `R` vectors of rows at a time.
    #[inline(always)]
    fn points<V: Vector<Elem = T>, const C: usize, const R: usize>(self) {
        let Self { tile, dim, points, out } = self;
        let together = points.chunks_exact(C * dim);
        let (rest, done) = (together.remainder(), points.len() / dim / C * C);
        let (out, rest_out) = out.split_at_mut(done * T::TILE);
        for (points, out) in together.zip(out.chunks_exact_mut(C * T::TILE)) {
            some::<V, C, R>(tile, dim, points, out);
        }
        for (point, out) in rest.chunks_exact(dim).zip(rest_out.chunks_exact_mut(T::TILE)) {
            some::<V, 1, R>(tile, dim, point, out);
        }
    }
}

/// The distances of all rows from `C` points.
#[inline(always)]
fn some<V: Vector, const C: usize, const R: usize>(
    tile: &[V::Elem],
    dim: usize,
    points: &[V::Elem],
    out: &mut [V::Elem],
) {
    let tile_rows = <V::Elem as Real>::TILE;
    const { assert!(<V::Elem as Real>::TILE.is_multiple_of(R * V::LANES)) };
    assert!(tile.len() == dim * tile_rows && points.len() == C * dim && out.len() == C * tile_rows);
    for r0 in (0..tile_rows).step_by(R * V::LANES) {
        let mut sums = [[V::splat(V::Elem::ZERO); R]; C];
        for d in 0..dim {
            let mut x = [V::splat(V::Elem::ZERO); R];
            for r in 0..R {
                // SAFETY: entry d of the tile has TILE rows, a multiple of R vectors.
                x[r] = unsafe { V::load(tile.as_ptr().add(d * tile_rows + r0 + r * V::LANES)) };
            }
            for c in 0..C {
                // SAFETY: there are C points of `dim` entries.
                let point = V::splat(unsafe { *points.as_ptr().add(c * dim + d) });
                for r in 0..R {
                    let away = x[r].sub(point);
                    sums[c][r] = away.fma(away, sums[c][r]);
                }
            }
        }
        for c in 0..C {
            for r in 0..R {
                // SAFETY: `out` has TILE entries a point.
                unsafe { sums[c][r].store(out.as_mut_ptr().add(c * tile_rows + r0 + r * V::LANES)) };
            }
        }
    }
}

/// `out = M (x - shift)` for every row of a tile, as a tile; `lower` is the lower-triangular M, row-major, and what lies
/// above its diagonal is ignored.
///
/// # Panics
/// If `dim` is zero or the lengths do not fit.
pub fn triangular_product<T: Real>(lower: &[T], tile: &[T], dim: usize, shift: &[T], out: &mut [T]) {
    assert!(dim > 0, "dim must be positive");
    assert_eq!(lower.len(), dim * dim, "lower must hold dim * dim entries");
    assert_eq!(tile.len(), dim * T::TILE, "tile must hold dim * TILE entries");
    assert_eq!(shift.len(), dim, "shift must hold dim entries");
    assert_eq!(out.len(), dim * T::TILE, "out must hold dim * TILE entries");
    T::triangular_product(TriangularProduct { lower, tile, dim, shift, out });
}

/// Arguments of [`triangular_product`], lengths checked.
pub struct TriangularProduct<'a, T> {
    lower: &'a [T],
    tile: &'a [T],
    dim: usize,
    shift: &'a [T],
    out: &'a mut [T],
}

impl<T: Real> Kernel<T> for TriangularProduct<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector<Elem = T>>(self) {
        if V::REGISTERS >= 32 { self.rows::<V, 4>() } else { self.rows::<V, 2>() }
    }
}

impl<T: Real> TriangularProduct<'_, T> {
    /// `R` vectors of rows at a time. Columns are taken from the last to the first, so that the product can stand where
    /// the shifted rows stood: column c of the product needs no column behind c.
    #[inline(always)]
    fn rows<V: Vector<Elem = T>, const R: usize>(self) {
        const { assert!(T::TILE.is_multiple_of(R * V::LANES)) };
        let Self { lower, tile, dim, shift, out } = self;
        for r0 in (0..T::TILE).step_by(R * V::LANES) {
            for d in 0..dim {
                for r in 0..R {
                    let at = d * T::TILE + r0 + r * V::LANES;
                    // SAFETY: entry d of both tiles has TILE rows, a multiple of R vectors.
                    unsafe { V::load(tile.as_ptr().add(at)).sub(V::splat(shift[d])).store(out.as_mut_ptr().add(at)) };
                }
            }
            let mut end = dim;
            while end > 0 {
                // SAFETY: columns up to `end` exist, and four of them where four are taken.
                unsafe {
                    if end >= 4 {
                        columns::<V, 4, R>(lower, dim, end - 4, out.as_mut_ptr().add(r0));
                        end -= 4;
                    } else {
                        columns::<V, 1, R>(lower, dim, end - 1, out.as_mut_ptr().add(r0));
                        end -= 1;
                    }
                }
            }
        }
    }
}

/// Columns `start..start + C` of the product take the place of those of the rows at `rows`.
///
/// # Safety
/// `lower` must hold `dim * dim` entries, `start + C` be at most `dim`, and `R` vectors be readable and writable at
/// `rows` in each of `dim` tile rows.
#[inline(always)]
unsafe fn columns<V: Vector, const C: usize, const R: usize>(
    lower: &[V::Elem],
    dim: usize,
    start: usize,
    rows: *mut V::Elem,
) {
    let tile_rows = <V::Elem as Real>::TILE;
    let mut sums = [[V::splat(V::Elem::ZERO); R]; C];
    // SAFETY: the caller's promise.
    unsafe {
        for d in 0..start + C {
            let mut x = [V::splat(V::Elem::ZERO); R];
            for r in 0..R {
                x[r] = V::load(rows.add(d * tile_rows + r * V::LANES));
            }
            for c in 0..C {
                if d <= start + c {
                    let m = V::splat(*lower.as_ptr().add((start + c) * dim + d));
                    for r in 0..R {
                        sums[c][r] = m.fma(x[r], sums[c][r]);
                    }
                }
            }
        }
        for c in 0..C {
            for r in 0..R {
                sums[c][r].store(rows.add((start + c) * tile_rows + r * V::LANES));
            }
        }
    }
}
