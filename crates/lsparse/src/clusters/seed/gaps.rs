//! Rows that lack values, where starts are looked for: distances over the columns that both sides have, and the first
//! statistics of groups of such rows.
//!
//! Means of columns in the place of what is missing would make a cluster of all rows that lack the same columns.

use lsparse_kernels::CenterPack;
use rayon::prelude::*;

use super::{Sample, space};
use crate::data::{Rows, Scalar};
use crate::likelihood::{Likelihood, Scratch, lacks_values};

/// Numbers that a column of a row is to the kernel: its value, whether there is one, and its square.
pub const PARTS: usize = 3;

/// What a row is to the kernel, from its values about the origin, with NaN where there is none.
pub fn features<T: Scalar>(row: impl Iterator<Item = f64> + Clone, out: &mut Vec<T>) {
    let part = |of: fn(f64) -> f64| row.clone().map(move |x| T::from_f64(if x.is_nan() { 0.0 } else { of(x) }));
    out.extend(part(|x| x).chain(part(|_| 1.0)).chain(part(|x| x * x)));
}

/// Centres as the kernel takes them, so that a score is less half of a squared distance: that of the columns which both
/// row and centre have. A column that the row alone has counts as `unknown`, what rows differ by in it; were it nothing,
/// centres that know least would be the nearest.
pub fn pack<T: Scalar>(centers: &[f64], unknown: &[f64]) -> CenterPack<T> {
    let mut coefficients = Vec::with_capacity(centers.len() * PARTS);
    for center in centers.chunks_exact(unknown.len()) {
        let part = |known: fn(f64) -> f64, other: fn(f64) -> f64| {
            let columns = center.iter().zip(unknown);
            columns.map(move |(&c, &unknown)| if c.is_nan() { other(unknown) } else { known(c) })
        };
        coefficients.extend(part(|c| c, |_| 0.0));
        coefficients.extend(part(|c| -0.5 * c * c, |unknown| -0.5 * unknown));
        coefficients.extend(part(|_| -0.5, |_| 0.0));
    }
    CenterPack::linear(&coefficients, unknown.len() * PARTS)
}

impl<T: Scalar> Sample<T> {
    /// Whether some rows lack values.
    pub(super) fn lacks_values(&self) -> bool {
        has_gaps(&self.rows)
    }
}

/// Whether some of these rows lack values.
pub fn has_gaps<T: Scalar>(rows: &Rows<T>) -> bool {
    const VALUES_A_TASK: usize = 1 << 16;
    let lacks = |values: &[T]| values.iter().any(|x| x.is_nan());
    rows.as_dense().is_some_and(|values| values.par_chunks(VALUES_A_TASK).any(lacks))
}

/// Groups of rows, some of which lack values, as statistics of a family that takes whole rows alone: in the place of what
/// is missing stands the mean of the group's values of that column, with their variance, or those of all rows where the
/// group has none. The first step from there has the expectations of clusters.
pub struct WholeRows<'a, T> {
    likelihood: &'a dyn Likelihood<T>,
    sample: &'a Sample<T>,
    /// Mean and variance of each column.
    columns: (Vec<f64>, Vec<f64>),
}

impl<'a, T: Scalar> WholeRows<'a, T> {
    /// None where rows are whole, or the family takes them as they are.
    pub fn new(likelihood: &'a dyn Likelihood<T>, sample: &'a Sample<T>) -> Option<Self> {
        let needed = likelihood.wants_whole_rows() && sample.lacks_values();
        needed.then(|| WholeRows { likelihood, sample, columns: space::moments(sample) })
    }

    /// Add a group's rows with their shares to its statistics.
    pub fn accumulate(&self, members: &[u32], shares: &[T], scratch: &mut Scratch<T>, stat: &mut [f64]) {
        let Sample { rows, .. } = self.sample;
        let dim = rows.dim();
        let row = |n: u32| rows.dense_rows(n as usize..n as usize + 1);
        let (mut weights, mut means, mut squares) = (vec![0.0; dim], vec![0.0; dim], vec![0.0; dim]);
        let observed = |add: &mut dyn FnMut(usize, f64, f64)| {
            for (&n, share) in members.iter().zip(shares) {
                let values = row(n).iter().enumerate().filter(|(_, x)| !x.is_nan());
                values.for_each(|(d, x)| add(d, share.to_f64(), x.to_f64()));
            }
        };
        observed(&mut |d, share, x| {
            weights[d] += share;
            means[d] += share * x;
        });
        for ((mean, weight), all) in means.iter_mut().zip(&weights).zip(&self.columns.0) {
            *mean = if *weight > 0.0 { *mean / weight } else { *all };
        }
        observed(&mut |d, share, x| squares[d] += share * (x - means[d]).powi(2));
        let mut whole = Rows::dense(dim);
        let mut lost = vec![0.0; dim];
        for (&n, share) in members.iter().zip(shares) {
            let values = row(n).iter().zip(&means);
            let filled: Vec<T> = values.map(|(&x, mean)| if x.is_nan() { T::from_f64(*mean) } else { x }).collect();
            whole.push_dense(&filled);
            if lacks_values(rows, n as usize) {
                lost.iter_mut().zip(row(n)).filter(|(_, x)| x.is_nan()).for_each(|(lost, _)| *lost += share.to_f64());
            }
        }
        let all: Vec<u32> = (0..members.len() as u32).collect();
        self.likelihood.accumulate(&whole, &all, shares, scratch, stat);
        for d in (0..dim).filter(|&d| lost[d] > 0.0) {
            let variance = if weights[d] > 0.0 { squares[d] / weights[d] } else { self.columns.1[d] };
            self.likelihood.widen(d, lost[d] * variance, stat);
        }
    }
}
