//! Tiles, blocks of rows turned so that lanes are rows, and the diagonal quadratic form over one.

use crate::gather_tile::gather_tile;
use crate::real::Real;
use crate::simd::{Kernel, Vector};

/// Turns up to `T::TILE` rows into a tile: `tile[d * T::TILE + r]` is entry `d` of row `r`.
///
/// `rows` holds the rows one after the other, `dim` entries each; `tile` holds `dim * T::TILE`
/// entries, and those of missing rows become zero.
///
/// # Panics
/// If the lengths do not fit.
pub fn transpose_tile<T: Real>(rows: &[T], dim: usize, tile: &mut [T]) {
    assert!(dim > 0, "dim must be positive");
    assert_eq!(rows.len() % dim, 0, "rows must hold whole rows");
    let num = rows.len() / dim;
    assert!(num <= T::TILE, "more rows than a tile holds");
    assert_eq!(tile.len(), dim * T::TILE, "tile must hold dim * TILE entries");
    const { assert!(T::TILE <= 64) };
    let index: [u32; 64] = std::array::from_fn(|r| r as u32);
    gather_tile(rows, dim, &index[..num], tile);
    if num < T::TILE {
        tile.chunks_exact_mut(T::TILE).for_each(|column| column[num..].fill(T::ZERO));
    }
}

/// `out[r] = sum_d precision[d] * (x_rd - mean[d])^2` for every row of a tile.
///
/// # Panics
/// If the lengths do not fit.
pub fn diag_quad_forms<T: Real>(tile: &[T], dim: usize, mean: &[T], precision: &[T], out: &mut [T]) {
    assert_eq!(tile.len(), dim * T::TILE, "tile must hold dim * TILE entries");
    assert_eq!(mean.len(), dim, "mean must hold dim entries");
    assert_eq!(precision.len(), dim, "precision must hold dim entries");
    assert_eq!(out.len(), T::TILE, "out must hold TILE entries");
    T::diag_quad_forms(DiagQuadForms { tile, mean, precision, out });
}

/// Arguments of [`diag_quad_forms`], lengths checked.
pub struct DiagQuadForms<'a, T> {
    tile: &'a [T],
    mean: &'a [T],
    precision: &'a [T],
    out: &'a mut [T],
}

impl<T: Real> Kernel<T> for DiagQuadForms<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector<Elem = T>>(self) {
        /// Vectors of rows at a time: enough to hide the latency of the additions.
        const ROWS: usize = 4;
        let Self { tile, mean, precision, out } = self;
        const { assert!(T::TILE.is_multiple_of(ROWS * V::LANES)) };
        for r0 in (0..T::TILE).step_by(ROWS * V::LANES) {
            let mut sums = [V::splat(T::ZERO); ROWS];
            for d in 0..mean.len() {
                let (m, p) = (V::splat(mean[d]), V::splat(precision[d]));
                for r in 0..ROWS {
                    // SAFETY: row d of the tile has TILE entries, a multiple of ROWS vectors.
                    let x = unsafe { V::load(tile.as_ptr().add(d * T::TILE + r0 + r * V::LANES)) };
                    let centred = x.sub(m);
                    sums[r] = centred.mul(p).fma(centred, sums[r]);
                }
            }
            for r in 0..ROWS {
                // SAFETY: `out` has TILE entries.
                unsafe { sums[r].store(out.as_mut_ptr().add(r0 + r * V::LANES)) };
            }
        }
    }
}
