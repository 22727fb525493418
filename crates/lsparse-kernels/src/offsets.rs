//! Rows less a point, column by column in units of their own: what a group of rows is cut in two by.

use crate::real::Real;
use crate::simd::{Kernel, Vector};

/// `out[m * dim + d] = (x_d - origin[d]) * scale[d]` for the rows x that `members` are of `rows`, `dim` entries each, worked
/// out in `f64`.
///
/// # Panics
/// If the lengths do not fit, or a member is beyond the rows.
pub fn row_offsets<T: Real>(rows: &[T], members: &[u32], (origin, scale): (&[f64], &[f64]), out: &mut [T]) {
    let dim = origin.len();
    assert!(dim > 0, "dim must be positive");
    assert_eq!(scale.len(), dim, "one scale a column");
    assert_eq!(Some(out.len()), members.len().checked_mul(dim), "out must hold dim entries a member");
    let largest = members.iter().fold(0, |largest, &m| largest.max(m));
    assert!(members.is_empty() || (largest as usize) < rows.len() / dim, "row {largest} of {}", rows.len() / dim);
    T::row_offsets(RowOffsets { rows, members, origin, scale, out });
}

/// Arguments of [`row_offsets`], lengths and members checked.
pub struct RowOffsets<'a, T> {
    rows: &'a [T],
    members: &'a [u32],
    origin: &'a [f64],
    scale: &'a [f64],
    out: &'a mut [T],
}

impl<T: Real> Kernel<f64> for RowOffsets<'_, T> {
    type Output = ();

    // No operation is fused, and lanes do not meet: plain loops are what vectors are made of here.
    #[inline(always)]
    fn run<V: Vector<Elem = f64>>(self) {
        let Self { rows, members, origin, scale, out } = self;
        let dim = origin.len();
        for (&m, out) in members.iter().zip(out.chunks_exact_mut(dim)) {
            let row = &rows[m as usize * dim..][..dim];
            for (out, (x, (origin, scale))) in out.iter_mut().zip(row.iter().zip(origin.iter().zip(scale))) {
                *out = T::from_f64((x.to_f64() - origin) * scale);
            }
        }
    }
}
