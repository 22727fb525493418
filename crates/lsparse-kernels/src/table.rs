//! Sums of table rows picked by index: the log weights of topics given the words of a document.

use crate::real::Real;
use crate::simd::{Kernel, Vector};

/// `out += sum_u coeff[u] * table[index[u] * width ..][.. width]`.
///
/// A block of columns stays in registers while all rows are added, so `out` is read and written
/// once however many rows there are.
///
/// # Panics
/// If the lengths do not fit, or an index is beyond the table.
pub fn add_table_rows<T: Real>(table: &[T], width: usize, index: &[u32], coeff: &[T], out: &mut [T]) {
    assert_eq!(index.len(), coeff.len(), "one coefficient an index");
    assert_eq!(out.len(), width, "out must hold width entries");
    if width == 0 {
        return;
    }
    let largest = index.iter().fold(0, |largest, &i| largest.max(i));
    assert!(index.is_empty() || (largest as usize) < table.len() / width, "row {largest} of {}", table.len() / width);
    T::add_table_rows(AddTableRows { table, width, index, coeff, out });
}

/// Arguments of [`add_table_rows`], lengths and indices checked.
pub struct AddTableRows<'a, T> {
    table: &'a [T],
    width: usize,
    index: &'a [u32],
    coeff: &'a [T],
    out: &'a mut [T],
}

/// Vectors of columns at a time.
const COLS: usize = 8;

impl<T: Real> Kernel<T> for AddTableRows<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector<Elem = T>>(mut self) {
        let full = self.width / V::LANES;
        let tail = self.width % V::LANES;
        let mut v = 0;
        while full - v >= COLS {
            self.columns::<V, COLS>(v * V::LANES, 0);
            v += COLS;
        }
        let start = v * V::LANES;
        match full - v {
            0 => self.columns::<V, 0>(start, tail),
            1 => self.columns::<V, 1>(start, tail),
            2 => self.columns::<V, 2>(start, tail),
            3 => self.columns::<V, 3>(start, tail),
            4 => self.columns::<V, 4>(start, tail),
            5 => self.columns::<V, 5>(start, tail),
            6 => self.columns::<V, 6>(start, tail),
            _ => self.columns::<V, 7>(start, tail),
        }
    }
}

impl<T: Real> AddTableRows<'_, T> {
    /// `N` vectors of columns from `start` on and `tail` columns behind them.
    #[inline(always)]
    fn columns<V: Vector<Elem = T>, const N: usize>(&mut self, start: usize, tail: usize) {
        assert!(start + N * V::LANES + tail <= self.width);
        if tail > 0 {
            self.rows::<V, N, true>(start, tail);
        } else if N > 0 {
            self.rows::<V, N, false>(start, 0);
        }
    }

    #[inline(always)]
    fn rows<V: Vector<Elem = T>, const N: usize, const TAIL: bool>(&mut self, start: usize, tail: usize) {
        let zero = V::splat(T::ZERO);
        // SAFETY: `columns` checked that the columns are within `width`; the public function
        // checked that `out` and every indexed row of the table have `width` entries.
        unsafe {
            let out = self.out.as_mut_ptr().add(start);
            let mut acc = [zero; N];
            for n in 0..N {
                acc[n] = V::load(out.add(n * V::LANES));
            }
            let mut last = zero;
            if TAIL {
                last = V::load_part(out.add(N * V::LANES), tail, zero);
            }
            for (&i, &c) in self.index.iter().zip(self.coeff) {
                let row = self.table.as_ptr().add(i as usize * self.width + start);
                let c = V::splat(c);
                for n in 0..N {
                    acc[n] = c.fma(V::load(row.add(n * V::LANES)), acc[n]);
                }
                if TAIL {
                    last = c.fma(V::load_part(row.add(N * V::LANES), tail, zero), last);
                }
            }
            for n in 0..N {
                acc[n].store(out.add(n * V::LANES));
            }
            if TAIL {
                last.store_part(out.add(N * V::LANES), tail);
            }
        }
    }
}
