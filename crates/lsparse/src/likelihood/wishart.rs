//! What the two full-covariance families share: the Wishart normaliser, its expectations, and K precision factors.

use std::sync::Arc;
use std::time::Instant;

use lsparse_kernels::{
    Real, TriangularPack, digamma, fill_factor, invert_cholesky_batch_while, ln_gamma, ln_gamma_slice,
};
use rayon::prelude::*;

use super::missing::precision_matrix;
use super::{Estimate, LN_2PI, Prior};
use crate::error::{Error, Result};
use crate::math::linalg;

/// Matrices that a thread factors together: enough to fill the lanes, and small enough to share between threads.
const AT_ONCE: usize = 8;

/// A matrix that has lost its definiteness to rounding is raised to its floor, then to ever more times the floor until
/// a factor exists, but to no more than this: what still has none holds something else than sums of squares.
const MOST_TIMES: f64 = 1e18;

/// What is gained by less is rounding.
const LEAST_GAIN: f64 = 1e-9;

/// Times that each column may change its prior.
const MOST_SWEEPS: usize = 8;

/// A covariance that was written down has lost the directions that are narrower than this share of the widest: one row at
/// 1e10 among others near 1 is enough. It is raised to that, and to no more than the second.
const ROUNDING: f64 = 1e-15;
const MOST_ROUNDING: f64 = 1e-9;

/// log normaliser of the Wishart: -nu D/2 log 2 - log G_D(nu/2) + nu/2 log |B|, with B the inverse scale.
pub fn ln_wishart(nu: f64, log_det_b: f64, dim: usize) -> f64 {
    ln_wishart_with(ln_gamma_d(nu, dim), nu, log_det_b, dim)
}

/// What log G_D has of pi.
fn of_pi(dim: usize) -> f64 {
    let d = dim as f64;
    0.25 * d * (d - 1.0) * std::f64::consts::PI.ln()
}

/// log G_D(nu/2), the sum of as many logarithms of gamma functions as there are columns.
fn ln_gamma_d(nu: f64, dim: usize) -> f64 {
    of_pi(dim) + (0..dim).map(|i| ln_gamma(0.5 * (nu - i as f64))).sum::<f64>()
}

/// [`ln_wishart`] where log G_D(nu/2) is known.
fn ln_wishart_with(ln_gamma_d: f64, nu: f64, log_det_b: f64, dim: usize) -> f64 {
    -0.5 * nu * dim as f64 * std::f64::consts::LN_2 - ln_gamma_d + 0.5 * nu * log_det_b
}

/// `E[log |Phi|]` under a Wishart with `nu` degrees of freedom and inverse scale B.
pub fn expected_log_det(nu: f64, log_det_b: f64, dim: usize) -> f64 {
    (0..dim).map(|i| digamma(0.5 * (nu - i as f64))).sum::<f64>() + dim as f64 * std::f64::consts::LN_2 - log_det_b
}

/// The Wishart prior on a precision matrix, with a diagonal B.
#[derive(Clone, Debug)]
pub struct WishartPrior {
    pub dim: usize,
    pub nu: f64,
    /// The diagonal of B, chosen so that the prior expects of the covariance the prior's variance in each column.
    pub b: Vec<f64>,
    log_det_b: f64,
    /// The same for the variance of each column that rows lack, zero for others; empty where there are none.
    own_b: Vec<f64>,
    /// log G_D(nu/2).
    ln_gamma_d: f64,
    /// One a column.
    pub variance_floor: Vec<f64>,
    /// When there is no more time for estimates.
    pub until: Option<Instant>,
}

impl WishartPrior {
    pub fn new(prior: &Prior) -> Self {
        let scaled = |v: &f64| v * (prior.nu - prior.dim as f64 - 1.0);
        let b: Vec<f64> = prior.variance.iter().map(scaled).collect();
        let own_b = prior.own_variance.iter().map(scaled).collect();
        let log_det_b = b.iter().map(|b| b.ln()).sum();
        let variance_floor = prior.variance_floor.clone();
        let ln_gamma_d = ln_gamma_d(prior.nu, prior.dim);
        WishartPrior { dim: prior.dim, nu: prior.nu, b, log_det_b, ln_gamma_d, own_b, variance_floor, until: None }
    }

    pub fn log_det_b(&self) -> f64 {
        self.log_det_b
    }

    /// Its log normaliser, with this log |B|.
    pub fn ln_normaliser(&self, log_det_b: f64) -> f64 {
        ln_wishart_with(self.ln_gamma_d, self.nu, log_det_b, self.dim)
    }

    /// y^T B^-1 y.
    pub fn norm(&self, y: impl Iterator<Item = f64>) -> f64 {
        y.zip(&self.b).map(|(y, b)| y * y / b).sum()
    }

    /// B with the column's own variance for what a cluster expects, in the columns that rows lack, wherever this packed
    /// scatter matrix of so many rows is worth more under it; none where it nowhere is. What a cluster expects of a column
    /// that none of its rows has is what it expected before, so that without it such variances would shrink lap by lap to
    /// the prior's, which is far less than columns vary by.
    fn own_b_for(&self, scatter: &[f64], count: f64) -> Option<Vec<f64>> {
        if self.own_b.is_empty() {
            return None;
        }
        let few = self.climb(scatter, count, false)?;
        let many = self.climb(scatter, count, true)?;
        let (gain, b) = if many.0 > few.0 { many } else { few };
        (gain > 0.0 && b != self.b).then_some(b)
    }

    /// A choice of columns that no other column would gain by joining or leaving, from none of them or from all that rows
    /// lack, and what it gains over none. (What a column gains grows with those that are chosen already, so that the best
    /// choice lies between these two.)
    fn climb(&self, scatter: &[f64], count: f64, from_all: bool) -> Option<(f64, Vec<f64>)> {
        let dim = self.dim;
        let lacking: Vec<usize> = (0..dim).filter(|&d| self.own_b[d] > 0.0).collect();
        let mut factor = linalg::unpack(scatter, dim);
        (0..dim).for_each(|d| factor[d * dim + d] += self.b[d]);
        linalg::cholesky_in_place(&mut factor, dim).ok()?;
        let mut inverse = precision_matrix(&linalg::invert_lower(&factor, dim), dim);
        let (mut b, mut gain) = (self.b.clone(), 0.0);
        // log |B| changes by the column, log |S + B| by a matrix of rank one.
        let mut take = |d: usize, to: f64, anyhow: bool| {
            let more = to - b[d];
            let times = 1.0 + more * inverse[d * dim + d];
            let change = self.nu * (to / b[d]).ln() - (self.nu + count) * times.ln();
            let gains = change > LEAST_GAIN;
            if gains || anyhow {
                (b[d], gain) = (to, gain + change);
                let column: Vec<f64> = (0..dim).map(|i| inverse[i * dim + d]).collect();
                for (row, left) in inverse.chunks_exact_mut(dim).zip(&column) {
                    row.iter_mut().zip(&column).for_each(|(p, right)| *p -= more / times * left * right);
                }
            }
            gains
        };
        if from_all {
            lacking.iter().for_each(|&d| _ = take(d, self.own_b[d], true));
        }
        let mut is_own = vec![from_all; dim];
        for _ in 0..MOST_SWEEPS {
            let mut changed = false;
            for &d in &lacking {
                let to = if is_own[d] { self.b[d] } else { self.own_b[d] };
                if take(d, to, false) {
                    (is_own[d], changed) = (!is_own[d], true);
                }
            }
            if !changed {
                break;
            }
        }
        Some((gain, b))
    }

    /// nu' of the MAP covariance (S + B) / (N + nu').
    pub fn map_count(&self) -> f64 {
        self.nu - self.dim as f64
    }
}

/// One cluster's precision: Phi = M^T M (point estimates) or `E[Phi]` = M^T M (posterior).
#[derive(Clone)]
pub struct Precision {
    /// Lower-triangular M, row-major.
    pub factor: Vec<f64>,
    /// log |Phi| or `E[log |Phi|]`.
    pub log_det: f64,
    /// Posterior degrees of freedom; unused by point estimates.
    pub nu: f64,
    /// log |B| of the posterior; unused by point estimates.
    pub log_det_b: f64,
    /// tr(M (S [+ B]) M^T) for the statistics it was estimated from, known in closed form unless it was clipped.
    pub own_trace: f64,
    /// The fingerprint of what it was estimated from, if it was.
    source: Option<u64>,
    /// The diagonal of the prior's B, where it is this cluster's own.
    own_b: Option<Vec<f64>>,
}

/// A number that differs, but for one case in 2^64, where a cluster's count or statistics differ in any bit: clusters
/// that a batch did not touch are not estimated anew.
pub fn fingerprint(estimate: Estimate, count: f64, stat: &[f64]) -> u64 {
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
    let fold = |hash: u64, number: f64| {
        let product = u128::from(hash ^ number.to_bits()) * u128::from(FACTOR);
        product as u64 ^ (product >> 64) as u64 ^ hash.rotate_left(23)
    };
    // Four sums side by side, since each step waits for the one before it.
    let mut lanes = [1, 2, 3, 4u64].map(|lane| fold(lane << 8 | estimate as u64, count));
    let fours = stat.chunks_exact(4);
    let rest = fours.remainder();
    for four in fours {
        for (lane, &number) in lanes.iter_mut().zip(four) {
            *lane = fold(*lane, number);
        }
    }
    for (lane, &number) in lanes.iter_mut().zip(rest) {
        *lane = fold(*lane, number);
    }
    lanes.into_iter().fold(FACTOR, |hash, lane| fold(hash, f64::from_bits(lane)))
}

/// Whether a pivot of a packed covariance is below zero by no more than its numbers are rounded by.
fn is_rounding(packed: &[f64], dim: usize, pivot: f64) -> bool {
    let diagonal = (0..dim).map(|i| packed[linalg::packed_len(i) + i]);
    let (least, most) = diagonal.fold((f64::INFINITY, 0.0f64), |(least, most), v| (least.min(v), most.max(v)));
    // (What is no number is neither.)
    least > 0.0 && most.is_finite() && pivot.abs() <= MOST_ROUNDING * most
}

/// Raise a packed covariance to this share of its own variances.
fn raise(packed: &mut [f64], dim: usize, share: f64) {
    let mut full = linalg::unpack(packed, dim);
    let floor: Vec<f64> = (0..dim).map(|i| share * full[i * dim + i]).collect();
    linalg::clip_eigenvalues(&mut full, dim, &floor);
    linalg::pack(&full, dim, packed);
}

impl Precision {
    /// The precisions of all clusters from packed scatter matrices about their means. Those whose fingerprint is that
    /// of the `previous` ones are kept. `kept` gives the covariance (in full) of a cluster that has no estimate of its
    /// own: an empty one under maximum likelihood.
    pub fn estimate_all(
        prior: &WishartPrior,
        estimate: Estimate,
        counts: &[f64],
        scatter: &[f64],
        fingerprints: &[u64],
        previous: &[Arc<Precision>],
        kept: impl Fn(usize) -> Vec<f64> + Sync,
    ) -> Result<Vec<Arc<Self>>> {
        let width = linalg::packed_len(prior.dim);
        let unchanged = |k: usize| previous.get(k).filter(|p| p.source == Some(fingerprints[k]));
        let changed: Vec<usize> = (0..counts.len()).filter(|&k| unchanged(k).is_none()).collect();
        let of_changed: Vec<&[f64]> = changed.iter().map(|&k| &scatter[k * width..(k + 1) * width]).collect();
        let groups: Vec<Result<Vec<Self>>> = changed
            .par_chunks(AT_ONCE)
            .zip(of_changed.par_chunks(AT_ONCE))
            .map(|(numbers, scatter)| Self::estimate_some(prior, estimate, counts, (numbers, scatter), &kept))
            .collect();
        let mut fresh = Vec::with_capacity(changed.len());
        for group in groups {
            fresh.extend(group?);
        }
        let mut fresh = fresh.into_iter();
        let take = |k: usize| match unchanged(k) {
            Some(precision) => Some(precision.clone()),
            None => fresh.next().map(|p| Arc::new(Precision { source: Some(fingerprints[k]), ..p })),
        };
        Ok((0..counts.len()).map_while(take).collect())
    }

    /// What posteriors of zero means are worth for these packed scatter matrices.
    pub fn evidence(prior: &WishartPrior, counts: &[f64], scatter: &[f64]) -> Result<Vec<f64>> {
        let (width, numbers) = (linalg::packed_len(prior.dim), (0..counts.len()).collect::<Vec<_>>());
        let of_group = |numbers: &[usize]| -> Result<Vec<f64>> {
            let scatter: Vec<&[f64]> = numbers.iter().map(|&k| &scatter[k * width..(k + 1) * width]).collect();
            let rows = |count: f64| 0.5 * count * prior.dim as f64 * LN_2PI;
            if let Some(log_dets) = Self::log_dets(prior, &scatter)? {
                let of = |(log_det, &k): (f64, &usize)| {
                    let nu = prior.nu + counts[k];
                    let mut gammas: Vec<f64> = (0..prior.dim).map(|i| 0.5 * (nu - i as f64)).collect();
                    ln_gamma_slice(&mut gammas);
                    let gammas = gammas.iter().sum::<f64>() + of_pi(prior.dim);
                    let own = ln_wishart_with(gammas, nu, log_det, prior.dim);
                    prior.ln_normaliser(prior.log_det_b()) - own - rows(counts[k])
                };
                return Ok(log_dets.into_iter().zip(numbers).map(of).collect());
            }
            let group = Self::estimate_some(prior, Estimate::Posterior, counts, (numbers, &scatter), &|_| Vec::new())?;
            let of = |(of, &k): (&Self, &usize)| {
                of.data_term(prior, Estimate::Posterior, counts[k], of.own_trace, 0.0) - rows(counts[k])
            };
            Ok(group.iter().zip(numbers).map(of).collect())
        };
        let groups: Vec<Result<Vec<f64>>> = numbers.par_chunks(AT_ONCE).map(of_group).collect();
        let groups: Vec<Vec<f64>> = groups.into_iter().collect::<Result<_>>()?;
        Ok(groups.concat())
    }

    /// log |S + B| of a few packed scatter matrices, where rounding left them all what B alone gives them and no cluster may
    /// have a B of its own.
    fn log_dets(prior: &WishartPrior, scatter: &[&[f64]]) -> Result<Option<Vec<f64>>> {
        if !prior.own_b.is_empty() {
            return Ok(None);
        }
        let mut packed = scatter.concat();
        let matrices = packed.chunks_exact_mut(linalg::packed_len(prior.dim));
        matrices.for_each(|matrix| add_packed_diagonal(matrix, &prior.b));
        match Self::invert_some(&packed, prior.dim, prior.until) {
            Ok(None) => Err(Error::out_of_time("a step was done")),
            Ok(Some(all)) if all.iter().all(|one| one.pivot_below(&prior.b, prior.dim).is_none()) => {
                Ok(Some(all.iter().map(|one| -one.log_det).collect()))
            }
            _ => Ok(None),
        }
    }

    /// The precisions of the clusters `numbers`, whose scatter matrices are given.
    fn estimate_some(
        prior: &WishartPrior,
        estimate: Estimate,
        counts: &[f64],
        (numbers, scatter): (&[usize], &[&[f64]]),
        kept: &impl Fn(usize) -> Vec<f64>,
    ) -> Result<Vec<Self>> {
        let dim = prior.dim;
        let mut packed = scatter.concat();
        let mut clipped = vec![false; numbers.len()];
        let mut own_b: Vec<Option<Vec<f64>>> = vec![None; numbers.len()];
        for (i, s) in packed.chunks_exact_mut(linalg::packed_len(dim)).enumerate() {
            let count = counts[numbers[i]];
            match estimate {
                Estimate::Posterior => {
                    own_b[i] = prior.own_b_for(s, count);
                    add_packed_diagonal(s, own_b[i].as_ref().unwrap_or(&prior.b));
                }
                Estimate::Map => {
                    add_packed_diagonal(s, &prior.b);
                    s.iter_mut().for_each(|v| *v /= count + prior.map_count());
                }
                Estimate::MaxLikelihood if count > 0.0 => {
                    let mut full = linalg::unpack(s, dim);
                    full.iter_mut().for_each(|v| *v /= count);
                    clipped[i] = linalg::clip_eigenvalues(&mut full, dim, &prior.variance_floor);
                    linalg::pack(&full, dim, s);
                }
                Estimate::MaxLikelihood => linalg::pack(&kept(numbers[i]), dim, s),
            }
        }
        // S is never negative, so that no direction of S + B has less than B alone gives: what has is rounding.
        let floor = |i: usize| match estimate {
            Estimate::Posterior => own_b[i].as_ref().unwrap_or(&prior.b).clone(),
            Estimate::Map => prior.b.iter().map(|b| b / (counts[numbers[i]] + prior.map_count())).collect(),
            Estimate::MaxLikelihood => prior.variance_floor.clone(),
        };
        let mut times = vec![1.0; numbers.len()];
        let mut precisions = loop {
            let (i, pivot) = match Self::invert_some(&packed, dim, prior.until) {
                Err(bad) => bad,
                Ok(None) => return Err(Error::out_of_time("a step was done")),
                Ok(Some(all)) => {
                    let below = |(i, p): (usize, &Self)| p.pivot_below(&floor(i), dim).map(|pivot| (i, pivot));
                    let kept = |(i, _): &(usize, &Self)| clipped[*i] || estimate == Estimate::MaxLikelihood;
                    match all.iter().enumerate().filter(|p| !kept(p)).find_map(below) {
                        Some(bad) => bad,
                        None => break all,
                    }
                }
            };
            if pivot.is_nan() || times[i] > MOST_TIMES {
                return Err(Error::NotPositiveDefinite { cluster: numbers[i], pivot });
            }
            let floor: Vec<f64> = floor(i).iter().map(|f| f * times[i]).collect();
            let packed = &mut packed[i * linalg::packed_len(dim)..(i + 1) * linalg::packed_len(dim)];
            let mut full = linalg::unpack(packed, dim);
            clipped[i] |= linalg::clip_eigenvalues(&mut full, dim, &floor);
            linalg::pack(&full, dim, packed);
            times[i] *= 16.0;
        };
        for (i, p) in precisions.iter_mut().enumerate() {
            let count = counts[numbers[i]];
            p.own_b = own_b[i].take();
            match estimate {
                // E[Phi] = nu B^-1 = M^T M with B = L L^T and M = sqrt(nu) L^-1.
                Estimate::Posterior => {
                    p.nu = prior.nu + count;
                    p.log_det_b = -p.log_det;
                    p.log_det = expected_log_det(p.nu, p.log_det_b, dim);
                    p.own_trace = p.nu * dim as f64;
                    let scale = p.nu.sqrt();
                    p.factor.iter_mut().for_each(|v| *v *= scale);
                }
                Estimate::Map => p.own_trace = (count + prior.map_count()) * dim as f64,
                Estimate::MaxLikelihood => p.own_trace = count * dim as f64,
            }
            if clipped[i] {
                p.own_trace = p.trace(prior, estimate, linalg::unpack(scatter[i], dim));
            }
        }
        Ok(precisions)
    }

    /// The first pivot of the matrix that this is the inverse of that is below half of a floor: no matrix that is at
    /// least the diagonal matrix of the floor has one.
    fn pivot_below(&self, floor: &[f64], dim: usize) -> Option<f64> {
        let mut pivots = (0..dim).map(|i| self.factor[i * dim + i].powi(-2)).zip(floor);
        pivots.find(|(pivot, floor)| *pivot < 0.5 * **floor).map(|(pivot, _)| pivot)
    }

    /// Point estimates with these covariances (K x dim x dim).
    pub fn from_covariances(covariances: &[f64], dim: usize) -> Result<Vec<Arc<Self>>> {
        let width = linalg::packed_len(dim);
        let groups: Vec<Result<Vec<Self>>> = covariances
            .par_chunks(dim * dim * AT_ONCE)
            .enumerate()
            .map(|(group, covariances)| {
                let mut packed = vec![0.0; covariances.len() / (dim * dim) * width];
                for (full, packed) in covariances.chunks_exact(dim * dim).zip(packed.chunks_exact_mut(width)) {
                    linalg::pack(full, dim, packed);
                }
                let mut shares = [ROUNDING; AT_ONCE];
                loop {
                    let (k, pivot) = match Self::invert_some(&packed, dim, None) {
                        Ok(all) => return Ok(all.unwrap_or_default()),
                        Err(bad) => bad,
                    };
                    let (one, share) = (&mut packed[k * width..(k + 1) * width], &mut shares[k]);
                    if !is_rounding(one, dim, pivot) || *share > MOST_ROUNDING {
                        return Err(Error::NotPositiveDefinite { cluster: group * AT_ONCE + k, pivot });
                    }
                    raise(one, dim, *share);
                    *share *= 16.0;
                }
            })
            .collect();
        let mut all = Vec::new();
        for group in groups {
            all.extend(group?.into_iter().map(Arc::new));
        }
        Ok(all)
    }

    /// M = L^-1 and log |M^T M| of a few packed covariances, if there is time; which one has which bad pivot, where one
    /// has.
    fn invert_some(
        packed: &[f64],
        dim: usize,
        until: Option<Instant>,
    ) -> std::result::Result<Option<Vec<Self>>, (usize, f64)> {
        let num = packed.len() / linalg::packed_len(dim);
        let (mut inverse, mut log_det) = (vec![0.0; num * dim * dim], vec![0.0; num]);
        let go_on = || until.is_none_or(|until| Instant::now() < until);
        if !invert_cholesky_batch_while(packed, dim, &mut inverse, &mut log_det, &go_on)? {
            return Ok(None);
        }
        let make = |(factor, log_det): (&[f64], &f64)| Precision {
            factor: factor.to_vec(),
            log_det: -log_det,
            nu: 0.0,
            log_det_b: 0.0,
            own_trace: 0.0,
            source: None,
            own_b: None,
        };
        Ok(Some(inverse.chunks_exact(dim * dim).zip(&log_det).map(make).collect()))
    }

    /// The point estimate of the covariance: `E[Sigma]` = B/(nu - D - 1) under a posterior, Phi^-1 otherwise.
    pub fn covariance(&self, estimate: Estimate, dim: usize) -> Vec<f64> {
        // (M^T M)^-1 = M^-1 M^-T
        let inverse = linalg::invert_lower(&self.factor, dim);
        let scale = match estimate {
            // M^T M = nu B^-1, so B = nu (M^T M)^-1.
            Estimate::Posterior => self.nu / (self.nu - dim as f64 - 1.0),
            _ => 1.0,
        };
        let mut covariance = vec![0.0; dim * dim];
        for i in 0..dim {
            for j in 0..=i {
                let v = scale
                    * lsparse_kernels::dot_f64(&inverse[i * dim..i * dim + j + 1], &inverse[j * dim..j * dim + j + 1]);
                covariance[i * dim + j] = v;
                covariance[j * dim + i] = v;
            }
        }
        covariance
    }

    /// tr(M (S + B) M^T), or tr(M S M^T) under maximum likelihood, for any scatter matrix S about the mean.
    pub fn trace(&self, prior: &WishartPrior, estimate: Estimate, mut scatter: Vec<f64>) -> f64 {
        if estimate != Estimate::MaxLikelihood {
            for (i, b) in self.own_b.as_ref().unwrap_or(&prior.b).iter().enumerate() {
                scatter[i * prior.dim + i] += b;
            }
        }
        linalg::trace_of_form(&self.factor, &scatter, prior.dim)
    }

    /// The precision's share of the data term for a count and the `trace` of its scatter matrix: everything but
    /// -N D/2 log 2 pi. `map_normaliser` is the log normaliser of the prior whose mode is the MAP estimate.
    pub fn data_term(
        &self,
        prior: &WishartPrior,
        estimate: Estimate,
        count: f64,
        trace: f64,
        map_normaliser: f64,
    ) -> f64 {
        let dim = prior.dim;
        match estimate {
            // c(nu, B) - c(nu_k, B_k) + (N + nu - nu_k)/2 E[log |Phi|] - tr((S + B - B_k) E[Phi])/2,
            // where tr(B_k E[Phi]) = nu_k D.
            Estimate::Posterior => {
                let own = self.own_b.as_ref().map(|b| b.iter().map(|b| b.ln()).sum());
                prior.ln_normaliser(own.unwrap_or(prior.log_det_b())) - ln_wishart(self.nu, self.log_det_b, dim)
                    + 0.5 * (count + prior.nu - self.nu) * self.log_det
                    - 0.5 * (trace - self.nu * dim as f64)
            }
            Estimate::Map => map_normaliser + 0.5 * (count + prior.map_count()) * self.log_det - 0.5 * trace,
            Estimate::MaxLikelihood if count <= 0.0 => 0.0,
            Estimate::MaxLikelihood => 0.5 * count * self.log_det - 0.5 * trace,
        }
    }
}

/// The clusters that are the very ones of before, with the pack that has them.
pub struct Unchanged<'a, T> {
    pub precisions: &'a [Arc<Precision>],
    pub pack: &'a TriangularPack<T>,
}

impl<T> Unchanged<'_, T> {
    /// Whether this cluster is.
    pub fn has(&self, k: usize, precision: &Arc<Precision>) -> bool {
        self.precisions.get(k).is_some_and(|before| Arc::ptr_eq(before, precision))
    }
}

/// The factors of all clusters in the layout of the kernel; those that have not changed are copied.
pub fn pack<T: Real>(
    clusters: &[Arc<Precision>],
    dim: usize,
    unchanged: Option<&Unchanged<'_, T>>,
) -> TriangularPack<T> {
    let mut pack = TriangularPack::new(clusters.len(), dim);
    let factors: Vec<&mut [T]> = pack.factors_mut().collect();
    let tasks = factors.into_par_iter().zip(clusters).enumerate().with_min_len(AT_ONCE);
    tasks.for_each(|(k, (packed, cluster))| match unchanged.filter(|unchanged| unchanged.has(k, cluster)) {
        Some(unchanged) => packed.copy_from_slice(unchanged.pack.factor(k)),
        None => fill_factor(packed, dim, &cluster.factor),
    });
    pack
}

fn add_packed_diagonal(packed: &mut [f64], diagonal: &[f64]) {
    for (i, value) in diagonal.iter().enumerate() {
        packed[i * (i + 1) / 2 + i] += value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_sees_every_number() {
        let stat: Vec<f64> = (0..11).map(|i| i as f64).collect();
        let whole = fingerprint(Estimate::Map, 3.0, &stat);
        assert_ne!(whole, fingerprint(Estimate::Posterior, 3.0, &stat));
        assert_ne!(whole, fingerprint(Estimate::Map, 3.0f64.next_up(), &stat));
        for i in 0..stat.len() {
            let mut other = stat.clone();
            other[i] = other[i].next_up();
            assert_ne!(whole, fingerprint(Estimate::Map, 3.0, &other));
        }
    }

    fn some_prior() -> WishartPrior {
        let (b, variance_floor) = (vec![0.5, 2e-8], vec![1e-6; 2]);
        let log_det_b = 1e-8f64.ln();
        let ln_gamma_d = ln_gamma_d(4.0, 2);
        WishartPrior { dim: 2, nu: 4.0, b, log_det_b, own_b: Vec::new(), ln_gamma_d, variance_floor, until: None }
    }

    /// Columns that rows lack have the prior that is best for all of them together, by a look at every choice.
    #[test]
    fn columns_that_rows_lack_have_the_best_choice_of_priors() {
        let (dim, nu) = (5, 7.0);
        let mut value = 0u64;
        let mut number = || {
            value = value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (value >> 40) as f64 / (1u64 << 24) as f64 - 0.5
        };
        let (mut missed, mut some) = (0, 0);
        for case in 0..400 {
            let count = [3.0, 8.0, 40.0, 400.0][case % 4];
            let b: Vec<f64> = (0..dim).map(|_| 0.01 * (1.0 + number())).collect();
            let own_b = b.iter().map(|b| b * [3.0, 30.0, 300.0][case % 3]).collect();
            let ln_gamma_d = ln_gamma_d(nu, dim);
            let log_det_b = b.iter().map(|b| b.ln()).sum();
            let prior = WishartPrior { dim, nu, b, log_det_b, own_b, ln_gamma_d, variance_floor: vec![], until: None };
            // Rows that lie near a line, some columns of which vary little.
            let mut full = vec![0.0; dim * dim];
            for _ in 0..count as usize {
                let along = number();
                let row: Vec<f64> =
                    (0..dim).map(|d| [0.02, 0.1, 1.0][(case + d) % 3] * (along + 0.5 * number())).collect();
                (0..dim * dim).for_each(|at| full[at] += row[at / dim] * row[at % dim]);
            }
            let mut packed = vec![0.0; linalg::packed_len(dim)];
            linalg::pack(&full, dim, &mut packed);
            let worth = |b: &[f64]| {
                let mut sum = full.clone();
                (0..dim).for_each(|d| sum[d * dim + d] += b[d]);
                linalg::cholesky_in_place(&mut sum, dim).unwrap();
                let log_det: f64 = (0..dim).map(|d| 2.0 * sum[d * dim + d].ln()).sum();
                nu * b.iter().map(|b| b.ln()).sum::<f64>() - (nu + count) * log_det
            };
            let choices = (0..1usize << dim).map(|chosen| {
                let of = |d: usize| if chosen >> d & 1 == 1 { prior.own_b[d] } else { prior.b[d] };
                worth(&(0..dim).map(of).collect::<Vec<_>>())
            });
            let best = choices.fold(f64::NEG_INFINITY, f64::max);
            let found = prior.own_b_for(&packed, count);
            some += usize::from(found.is_some());
            let found = worth(found.as_ref().unwrap_or(&prior.b));
            assert!(found < best + 1e-8 && found > worth(&prior.b) - 1e-8);
            missed += usize::from(found < best - 1e-6);
        }
        assert!(missed == 0 && (100..400).contains(&some), "{missed} missed, {some} with a prior of their own");
    }

    /// Rounding may leave a scatter matrix with a negative eigenvalue; S + B is at least B all the same.
    #[test]
    fn a_posterior_is_at_least_its_prior() {
        let prior = some_prior();
        // In the units of B: diag(0, -0.9), which leaves a pivot, and one with eigenvalues 3 and -7, which does not.
        let scatters = [[0.0, 0.0, -1.8e-8], [-1.0, 5.0 * 1e-4, -4e-8]];
        for estimate in [Estimate::Posterior, Estimate::Map] {
            for scatter in &scatters {
                let print = [fingerprint(estimate, 5.0, scatter)];
                let never = |_| unreachable!("no cluster is empty");
                let all = Precision::estimate_all(&prior, estimate, &[5.0], scatter, &print, &[], never).unwrap();
                // Phi in the units of B^-1: as much as B alone gives in the worst direction, and no more.
                let (limit, m) = (if estimate == Estimate::Posterior { 9.0 } else { 7.0 }, &all[0].factor);
                let (a, b) = (m[0] * 0.5f64.sqrt(), m[2] * 0.5f64.sqrt());
                let c = m[3] * 2e-8f64.sqrt();
                let (trace, det) = (a * a + b * b + c * c, (a * c).powi(2));
                let largest = 0.5 * (trace + (trace * trace - 4.0 * det).max(0.0).sqrt());
                assert!((largest / limit - 1.0).abs() < 1e-6, "{estimate:?}: {largest} against {limit}");
            }
        }
    }

    #[test]
    fn a_large_estimate_ends_when_the_time_is_over() {
        let dim = 600;
        let mut prior = WishartPrior {
            dim,
            nu: 602.0,
            b: vec![1.0; dim],
            ln_gamma_d: ln_gamma_d(602.0, dim),
            variance_floor: vec![1e-6; dim],
            ..some_prior()
        };
        let scatter = vec![0.0; linalg::packed_len(dim)];
        let estimate = |prior: &WishartPrior| {
            let never = |_| unreachable!("no cluster is empty");
            Precision::estimate_all(prior, Estimate::Posterior, &[5.0], &scatter, &[0], &[], never).map(|all| all.len())
        };
        prior.until = Some(Instant::now());
        assert!(estimate(&prior).unwrap_err().is_out_of_time());
        prior.until = None;
        assert_eq!(estimate(&prior).unwrap(), 1);
    }

    #[test]
    fn only_clusters_that_changed_are_estimated_anew() {
        let prior = some_prior();
        let counts = vec![5.0; 20];
        let mut scatter: Vec<f64> = (0..20).flat_map(|k| [2.0 + k as f64, 0.1, 1.0]).collect();
        let estimate = |scatter: &[f64], previous: &[Arc<Precision>]| {
            let prints: Vec<u64> = scatter.chunks(3).map(|s| fingerprint(Estimate::Posterior, 5.0, s)).collect();
            let never = |_| unreachable!("no cluster is empty");
            Precision::estimate_all(&prior, Estimate::Posterior, &counts, scatter, &prints, previous, never).unwrap()
        };
        let before = estimate(&scatter, &[]);
        scatter[3 * 7] = 100.0;
        let after = estimate(&scatter, &before);
        let afresh = estimate(&scatter, &[]);
        for k in 0..20 {
            assert_eq!(Arc::ptr_eq(&before[k], &after[k]), k != 7);
            assert_eq!((&after[k].factor, after[k].log_det), (&afresh[k].factor, afresh[k].log_det));
        }
    }

    /// A covariance of rows near 1 with one at 1e10 is singular as written; one that is wrong is refused.
    #[test]
    fn covariances_that_lost_directions_to_rounding_are_read() {
        let (dim, wide) = (5, 1e17);
        let covariance: Vec<f64> = (0..dim * dim).map(|i| wide + f64::from(u8::from(i % (dim + 1) == 0))).collect();
        let found = Precision::from_covariances(&covariance, dim).unwrap();
        assert!(found[0].log_det.is_finite() && found[0].factor.iter().all(|v| v.is_finite()));
        let wrong = [1.0, 2.0, 2.0, 1.0];
        assert!(matches!(Precision::from_covariances(&wrong, 2), Err(Error::NotPositiveDefinite { cluster: 0, .. })));
        assert!(Precision::from_covariances(&[1.0, 0.0, 0.0, f64::NAN], 2).is_err());
        assert!(Precision::from_covariances(&[1.0, 0.0, 0.0, -1e-12], 2).is_err());
    }
}
