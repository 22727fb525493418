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

/// `out[k * T::TILE + r] = sum_d precision[k][d] * (x_rd - mean[k][d])^2` for every row of a tile and every cluster, whose
/// means and precisions have `dim` entries each. The bits of a form do not depend on what other clusters there are.
///
/// # Panics
/// If `dim` is zero or the lengths do not fit.
pub fn diag_quad_forms<T: Real>(tile: &[T], dim: usize, mean: &[T], precision: &[T], out: &mut [T]) {
    assert!(dim > 0, "dim must be positive");
    assert_eq!(tile.len(), dim * T::TILE, "tile must hold dim * TILE entries");
    assert_eq!(mean.len() % dim, 0, "mean must hold dim entries a cluster");
    assert_eq!(precision.len(), mean.len(), "precision must hold dim entries a cluster");
    assert_eq!(out.len(), mean.len() / dim * T::TILE, "out must hold TILE entries a cluster");
    T::diag_quad_forms(DiagQuadForms { tile, dim, mean, precision, out });
}

/// Arguments of [`diag_quad_forms`], lengths checked.
pub struct DiagQuadForms<'a, T> {
    tile: &'a [T],
    dim: usize,
    mean: &'a [T],
    precision: &'a [T],
    out: &'a mut [T],
}

impl<T: Real> Kernel<T> for DiagQuadForms<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector<Elem = T>>(self) {
        // Eight sums at a time: fewer wait for themselves. All but the widest vectors are eight to a tile, and more.
        if T::TILE < 8 * V::LANES {
            self.clusters::<V, 2, 4>()
        } else if V::LANES > 2 {
            self.clusters::<V, 1, 8>()
        } else {
            // Two lanes are only met in plain Rust, where the compiler loses track of more.
            self.clusters::<V, 1, 4>()
        }
    }
}

impl<T: Real> DiagQuadForms<'_, T> {
    /// `C` clusters and `R` vectors of rows at a time.
    #[inline(always)]
    fn clusters<V: Vector<Elem = T>, const C: usize, const R: usize>(self) {
        let Self { tile, dim, mean, precision, out } = self;
        let (mut means, mut precisions) = (mean.chunks_exact(C * dim), precision.chunks_exact(C * dim));
        let mut outs = out.chunks_exact_mut(C * T::TILE);
        for ((mean, precision), out) in (&mut means).zip(&mut precisions).zip(&mut outs) {
            diag_forms::<V, C, R>(tile, dim, (mean, precision), out);
        }
        let rest = means.remainder().chunks_exact(dim).zip(precisions.remainder().chunks_exact(dim));
        for (shape, out) in rest.zip(outs.into_remainder().chunks_exact_mut(T::TILE)) {
            diag_forms::<V, 1, R>(tile, dim, shape, out);
        }
    }
}

/// The forms of all rows in `C` clusters.
#[inline(always)]
fn diag_forms<V: Vector, const C: usize, const R: usize>(
    tile: &[V::Elem],
    dim: usize,
    (mean, precision): (&[V::Elem], &[V::Elem]),
    out: &mut [V::Elem],
) {
    let rows = <V::Elem as Real>::TILE;
    // (Where a tile has fewer vectors than this there are no such calls.)
    let step = R * V::LANES;
    assert!(rows.is_multiple_of(step) && tile.len() == dim * rows && out.len() == C * rows);
    assert!(mean.len() == C * dim && precision.len() == C * dim);
    for r0 in (0..rows).step_by(step) {
        let mut sums = [[V::splat(V::Elem::ZERO); R]; C];
        for d in 0..dim {
            let mut x = [V::splat(V::Elem::ZERO); R];
            for r in 0..R {
                // SAFETY: row d of the tile has TILE entries, a multiple of R vectors.
                x[r] = unsafe { V::load(tile.as_ptr().add(d * rows + r0 + r * V::LANES)) };
            }
            for c in 0..C {
                // SAFETY: there are C clusters of `dim` entries.
                let (m, p) = unsafe {
                    (V::splat(*mean.as_ptr().add(c * dim + d)), V::splat(*precision.as_ptr().add(c * dim + d)))
                };
                for r in 0..R {
                    let centred = x[r].sub(m);
                    sums[c][r] = centred.mul(p).fma(centred, sums[c][r]);
                }
            }
        }
        for c in 0..C {
            for r in 0..R {
                // SAFETY: `out` has TILE entries a cluster.
                unsafe { sums[c][r].store(out.as_mut_ptr().add(c * rows + r0 + r * V::LANES)) };
            }
        }
    }
}
