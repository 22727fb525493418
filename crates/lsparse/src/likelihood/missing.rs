//! Rows with missing values, which stand in them as NaN: where they are, and what a Gaussian expects in their place.
//!
//! A cluster completes a row by what it expects given the values that are there, q(x_missing | z = k), and then weighs it
//! like any other; what the missing part may be besides is its entropy. For point estimates the weight is so that of the
//! exact marginal density, and under a posterior that of the bound's best q.

use std::borrow::Cow;
use std::ops::Range;

use lsparse_kernels::{Real, dot_f64};

use super::LN_2PI;
use crate::data::Rows;

/// A row with missing values, and their columns.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hole {
    /// Ascending, so that rows that lack the same columns lie next to each other when sorted.
    pub columns: Vec<u32>,
    /// The row, counted from the first one looked at.
    pub row: usize,
}

/// The rows of `range` that have missing values, those that lack the same columns next to each other.
pub fn holes<T: Real>(rows: &Rows<T>, range: Range<usize>) -> Vec<Hole> {
    let first = range.start;
    let mut holes: Vec<Hole> = range
        .filter(|&n| lacks_values(rows, n))
        .map(|n| {
            let values = rows.dense_rows(n..n + 1).iter().zip(0u32..);
            Hole { columns: values.filter(|(x, _)| x.is_nan()).map(|(_, d)| d).collect(), row: n - first }
        })
        .collect();
    holes.sort();
    holes
}

/// Whether row n has a missing value.
pub fn lacks_values<T: Real>(rows: &Rows<T>, n: usize) -> bool {
    rows.dense_rows(n..n + 1).iter().any(|x| x.is_nan())
}

/// Rows with zeros for what is missing, whose shares are added to `lost`, column by column.
pub fn zero_filled<'a>(rows: &'a [f64], shares: &[f64], dim: usize, lost: &mut [f64]) -> Cow<'a, [f64]> {
    if !rows.iter().any(|x| x.is_nan()) {
        return Cow::Borrowed(rows);
    }
    let mut filled = rows.to_vec();
    for (row, share) in filled.chunks_exact_mut(dim).zip(shares) {
        for (x, lost) in row.iter_mut().zip(&mut *lost) {
            if x.is_nan() {
                (*x, *lost) = (0.0, *lost + share);
            }
        }
    }
    Cow::Owned(filled)
}

/// The rows that have column d, from those of a cluster and those of them that lack it.
pub fn observed(count: f64, lost: f64) -> f64 {
    let observed = count - lost;
    // What is left of a column that no row has is rounding.
    if observed > 1e-12 * count { observed } else { 0.0 }
}

/// What a Gaussian with precision Phi expects in certain columns, given the others.
pub struct Expectation<'a> {
    phi: &'a [f64],
    dim: usize,
    columns: &'a [u32],
    /// The lower Cholesky factor of Phi in these columns.
    factor: Vec<f64>,
}

/// Pivots of a precision are no less than this share of its diagonal but by rounding.
const LEAST_PIVOT: f64 = 1e-15;

impl<'a> Expectation<'a> {
    /// `phi` is `dim` x `dim`.
    pub fn new(phi: &'a [f64], dim: usize, columns: &'a [u32]) -> Self {
        let num = columns.len();
        let mut factor = vec![0.0; num * num];
        for i in 0..num {
            for j in 0..=i {
                let own = phi[columns[i] as usize * dim + columns[j] as usize];
                let (before, row) = factor.split_at_mut(i * num);
                if j < i {
                    let other = &before[j * num..j * num + num];
                    row[j] = (own - dot_f64(&row[..j], &other[..j])) / other[j];
                } else {
                    let least = (LEAST_PIVOT * own).max(f64::MIN_POSITIVE);
                    row[i] = (own - dot_f64(&row[..i], &row[..i])).max(least).sqrt();
                }
            }
        }
        Expectation { phi, dim, columns, factor }
    }

    /// log |Phi_MM|.
    pub fn log_det(&self) -> f64 {
        let num = self.columns.len();
        2.0 * (0..num).map(|i| self.factor[i * num + i].ln()).sum::<f64>()
    }

    /// The entropy of the missing part: |M|/2 (1 + log 2 pi) - log |Phi_MM| / 2.
    pub fn entropy(&self) -> f64 {
        0.5 * (self.columns.len() as f64 * (1.0 + LN_2PI) - self.log_det())
    }

    /// How far the missing columns are expected from their mean, -Phi_MM^-1 Phi_MO (x_O - m_O), given how far the others
    /// are from theirs, with zeros in the missing ones.
    pub fn deviation(&self, away: &[f64]) -> Vec<f64> {
        let of_phi = |d: &u32| &self.phi[*d as usize * self.dim..(*d as usize + 1) * self.dim];
        let mut out: Vec<f64> = self.columns.iter().map(|d| -dot_f64(of_phi(d), away)).collect();
        self.solve(&mut out);
        out
    }

    /// Phi_MM^-1 `out` in its place.
    fn solve(&self, out: &mut [f64]) {
        let num = out.len();
        for i in 0..num {
            let row = &self.factor[i * num..(i + 1) * num];
            out[i] = (out[i] - dot_f64(&row[..i], &out[..i])) / row[i];
        }
        for i in (0..num).rev() {
            let below: f64 = (i + 1..num).map(|j| self.factor[j * num + i] * out[j]).sum();
            out[i] = (out[i] - below) / self.factor[i * num + i];
        }
    }

    /// Add `share` times the covariance of the missing part, Phi_MM^-1, to a packed matrix of all columns.
    pub fn add_covariance(&self, share: f64, packed: &mut [f64]) {
        let num = self.columns.len();
        for j in 0..num {
            let mut column = vec![0.0; num];
            column[j] = 1.0;
            self.solve(&mut column);
            // Columns ascend, so that row i is the larger one.
            for i in j..num {
                let (row, other) = (self.columns[i] as usize, self.columns[j] as usize);
                packed[row * (row + 1) / 2 + other] += share * column[i];
            }
        }
    }
}

/// The precisions M^T M of lower-triangular factors, `dim` x `dim`, in full.
pub fn precision_matrix(factor: &[f64], dim: usize) -> Vec<f64> {
    let mut phi = vec![0.0; dim * dim];
    for row in 0..dim {
        let m = &factor[row * dim..row * dim + row + 1];
        for (i, &left) in m.iter().enumerate() {
            phi[i * dim..i * dim + row + 1].iter_mut().zip(m).for_each(|(p, right)| *p += left * right);
        }
    }
    phi
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two of three columns, against the conditional of a covariance written out.
    #[test]
    fn an_expectation_is_the_conditional_of_the_covariance() {
        let factor = [1.2, 0.0, 0.0, 0.4, 0.9, 0.0, -0.3, 0.5, 1.5];
        let phi = precision_matrix(&factor, 3);
        let expectation = Expectation::new(&phi, 3, &[0, 2]);
        let det = phi[0] * phi[8] - phi[2] * phi[6];
        let inverse = [phi[8] / det, -phi[2] / det, phi[0] / det];
        let away = [0.0, 0.7, 0.0];
        let right = [-phi[1] * 0.7, -phi[7] * 0.7];
        let expected = [inverse[0] * right[0] + inverse[1] * right[1], inverse[1] * right[0] + inverse[2] * right[1]];
        for (a, b) in expectation.deviation(&away).iter().zip(expected) {
            assert!((a - b).abs() < 1e-12, "{a} against {b}");
        }
        assert!((expectation.log_det() - det.ln()).abs() < 1e-12);
        let mut packed = [0.0; 6];
        expectation.add_covariance(2.0, &mut packed);
        for (at, value) in [(0, inverse[0]), (3, inverse[1]), (5, inverse[2])] {
            assert!((packed[at] - 2.0 * value).abs() < 1e-12);
        }
        assert_eq!([packed[1], packed[2], packed[4]], [0.0; 3]);
    }
}
