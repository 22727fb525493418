//! Scalar products of many rows with one vector: how far rows are from a seed.

use crate::real::Real;
use crate::simd::{Kernel, Vector};

/// `out[n] = sum_d rows[n * dim + d] * vector[d]`, where `dim` is the length of the vector. The bits of a product do not
/// depend on what other rows there are.
///
/// # Panics
/// If the vector is empty or the lengths do not fit.
pub fn row_products<T: Real>(rows: &[T], vector: &[T], out: &mut [T]) {
    assert!(!vector.is_empty(), "the vector must have entries");
    assert_eq!(rows.len(), vector.len() * out.len(), "rows must hold as many entries as the vector, for each of out");
    T::row_products(RowProducts { rows, vector, out });
}

/// Arguments of [`row_products`], lengths checked.
pub struct RowProducts<'a, T> {
    rows: &'a [T],
    vector: &'a [T],
    out: &'a mut [T],
}

/// Rows at a time: their additions do not wait for one another.
const TOGETHER: usize = 4;

impl<T: Real> Kernel<T> for RowProducts<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector<Elem = T>>(self) {
        let Self { rows, vector, out } = self;
        for (rows, out) in rows.chunks(TOGETHER * vector.len()).zip(out.chunks_mut(TOGETHER)) {
            // (Where there are fewer, one of them several times.)
            let row = |n: usize| &rows[n.min(out.len() - 1) * vector.len()..][..vector.len()];
            let products = some::<V>([row(0), row(1), row(2), row(3)], vector);
            out.copy_from_slice(&products[..out.len()]);
        }
    }
}

/// The products of some rows.
#[inline(always)]
fn some<V: Vector>(rows: [&[V::Elem]; TOGETHER], vector: &[V::Elem]) -> [V::Elem; TOGETHER] {
    let (zero, dim) = (V::splat(V::Elem::ZERO), vector.len());
    assert!(rows.iter().all(|row| row.len() == dim));
    let mut sums = [zero; TOGETHER];
    for d in (0..dim).step_by(V::LANES) {
        // SAFETY: the vector and each row have `dim - d` entries from `d` on, and no more are read.
        unsafe {
            let y = V::load_upto(vector.as_ptr().add(d), dim - d, zero);
            for n in 0..TOGETHER {
                sums[n] = V::load_upto(rows[n].as_ptr().add(d), dim - d, zero).fma(y, sums[n]);
            }
        }
    }
    V::sum_four(sums)
}
