//! A tile of rows picked by index: what candidates of a cluster look like to the quadratic forms.

use crate::real::Real;
use crate::simd::{Kernel, Vector};

/// Turns the rows `index` of `rows` into a tile: `tile[d * T::TILE + r]` is entry `d` of row `index[r]`.
///
/// Like [`transpose_tile`](crate::transpose_tile), but the rows need not lie together, and what the tile holds for
/// missing rows is unspecified. Many tiles are gathered for one cluster each, so this must cost little next to a
/// quadratic form: squares of four by four numbers are turned in registers.
///
/// # Panics
/// If the lengths do not fit, or an index is beyond the rows.
pub fn gather_tile<T: Real>(rows: &[T], dim: usize, index: &[u32], tile: &mut [T]) {
    assert!(dim > 0, "dim must be positive");
    assert!(index.len() <= T::TILE, "more rows than a tile holds");
    assert_eq!(tile.len(), dim * T::TILE, "tile must hold dim * TILE entries");
    let largest = index.iter().fold(0, |largest, &i| largest.max(i));
    assert!(index.is_empty() || (largest as usize) < rows.len() / dim, "row {largest} of {}", rows.len() / dim);
    T::gather_tile(GatherTile { rows, dim, index, tile });
}

/// Arguments of [`gather_tile`], lengths and indices checked.
pub struct GatherTile<'a, T> {
    rows: &'a [T],
    dim: usize,
    index: &'a [u32],
    tile: &'a mut [T],
}

impl<T: Real> Kernel<T> for GatherTile<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector<Elem = T>>(self) {
        let Self { rows, dim, index, tile } = self;
        for (quarter, four) in index.chunks(4).enumerate() {
            // The last row stands in for those that are missing.
            let pick = |i: usize| four[i.min(four.len() - 1)] as usize * dim;
            let first = [0, 1, 2, 3].map(|i| rows[pick(i)..].as_ptr());
            let whole = dim - dim % 4;
            for d in (0..whole).step_by(4) {
                // SAFETY: the public function checked the indices, so each row has `dim > d + 3` entries; TILE is a
                // multiple of four, so the tile has four entries from `4 * quarter` on in each of its rows.
                unsafe {
                    let to = tile.as_mut_ptr().add(d * T::TILE + 4 * quarter);
                    V::transpose_four(first.map(|row| row.add(d)), to, T::TILE);
                }
            }
            for d in whole..dim {
                for i in 0..4 {
                    tile[d * T::TILE + 4 * quarter + i] = rows[pick(i) + d];
                }
            }
        }
    }
}
