//! Divergences of rows from full Gaussians of one row each, in closed form.

use std::borrow::Cow;
use std::ops::Range;

use lsparse_kernels::{Real, row_products};
use rayon::prelude::*;

use super::Divergences;
use super::wishart::WishartPrior;
use crate::data::Rows;

/// Of a divergence that is a smaller share of what it is a difference of than this, single precision leaves too few digits.
const FEW_DIGITS: f64 = 1e-3;

/// Divergences of rows from the MAP clusters of one row each.
///
/// Rows are about the prior's mean, the MAP mean of row x is g x with g = 1/(1 + kappa), and its scatter with the prior's pull
/// s x x^T with s = kappa/(1 + kappa); where means are known to be zero g = 0 and s = 1. With q = x^T B^-1 x, p = y^T B^-1 x
/// and n = 1 + nu', Phi_x = n (s x x^T + B)^-1 has log |Phi_x| = D log n - log |B| - log(1 + s q_x), and by Sherman and
/// Morrison v^T Phi_x v = n (v^T B^-1 v - s (v^T B^-1 x)^2/(1 + s q_x)): row y loses n/2 times
/// q_y - log(1 + s q_y) + log(1 + s q_x) + g^2 q_x - 2 g p - (s (p - g q_x)^2 + (s - kappa g^2) q_x)/(1 + s q_x),
/// which costs D and not D^2.
pub(super) struct OfSingleRows<'a, T: Clone> {
    prior: &'a WishartPrior,
    /// s, g and s - kappa g^2.
    pull: (f64, f64, f64),
    /// Rows about the prior's mean, one behind the other.
    rows: Cow<'a, [T]>,
    /// q and log(1 + s q) of each row.
    norm: Vec<(f64, f64)>,
}

impl<'a, T: Real> OfSingleRows<'a, T> {
    /// Of clusters whose means are zero.
    pub fn about_zero(prior: &'a WishartPrior, rows: &'a Rows<T>) -> Self {
        Self::new(prior, (1.0, 0.0, 1.0), Cow::Borrowed(rows.dense_rows(0..rows.len())))
    }

    /// Of clusters whose means have a prior about the center, worth `kappa` rows.
    pub fn about_means(prior: &'a WishartPrior, kappa: f64, center: &[f64], rows: &Rows<T>) -> Self {
        let values = rows.dense_rows(0..rows.len()).par_chunks_exact(prior.dim).with_min_len(1024);
        let about = values.flat_map_iter(|row| row.iter().zip(center).map(|(x, c)| T::from_f64(x.to_f64() - c)));
        let (s, g) = (kappa / (1.0 + kappa), 1.0 / (1.0 + kappa));
        Self::new(prior, (s, g, s - kappa * g * g), Cow::Owned(about.collect()))
    }

    fn new(prior: &'a WishartPrior, pull: (f64, f64, f64), rows: Cow<'a, [T]>) -> Self {
        let norm = |row: &[T]| {
            let norm = prior.norm(row.iter().map(|x| x.to_f64()));
            (norm, (pull.0 * norm).ln_1p())
        };
        let norm = rows.par_chunks_exact(prior.dim).with_min_len(1024).map(norm).collect();
        OfSingleRows { prior, pull, rows, norm }
    }

    fn rows(&self, range: Range<usize>) -> &[T] {
        &self.rows[range.start * self.prior.dim..range.end * self.prior.dim]
    }
}

impl<T: Real> Divergences for OfSingleRows<'_, T> {
    fn away_from(&self, seed: usize) -> Box<dyn Fn(Range<usize>, &mut [f64]) + Sync + '_> {
        let (prior, half, (of_seed, log_of_seed)) = (self.prior, 0.5 * (1.0 + self.prior.map_count()), self.norm[seed]);
        let (s, g, rest) = self.pull;
        let seed = self.rows(seed..seed + 1);
        let direction: Vec<T> = seed.iter().zip(&prior.b).map(|(x, b)| T::from_f64(x.to_f64() / b)).collect();
        let from = move |(norm, log): (f64, f64), product: f64| {
            let across = product - g * of_seed;
            let by_scatter = (s * across * across + rest * of_seed) / (1.0 + s * of_seed);
            norm - log + log_of_seed - by_scatter + g * (g * of_seed - 2.0 * product)
        };
        Box::new(move |range, out| {
            let rows = self.rows(range.clone());
            let mut products = vec![T::ZERO; out.len()];
            row_products(rows, &direction, &mut products);
            let rows = rows.chunks_exact(prior.dim).zip(products).zip(&self.norm[range]);
            for (((row, product), norm), out) in rows.zip(out) {
                let mut away = from(*norm, product.to_f64());
                // (What is no number is not above either.)
                if !(away > FEW_DIGITS * (norm.0 + g * of_seed) && away.is_finite()) {
                    let columns = row.iter().zip(seed).zip(&prior.b);
                    away = from(*norm, columns.map(|((y, x), b)| y.to_f64() * x.to_f64() / b).sum());
                }
                // Rounding may take a divergence of zero below it.
                *out = (half * away).max(0.0);
            }
        })
    }
}
