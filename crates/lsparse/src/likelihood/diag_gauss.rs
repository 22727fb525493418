//! Gaussian clusters with diagonal covariance under a normal-gamma prior on each column.

use std::any::Any;
use std::ops::Range;

use lsparse_kernels::{
    Real, diag_quad_forms, digamma, ln_gamma, ln_slice, weighted_moments, weighted_square_sum, weighted_sum,
};

use super::family::{
    Array, Extent, Family, OfMoments, Spread, about, array, diagonal_draw, planted_means, planted_variance,
};
use super::missing::{Hole, holes, lacking, observed, zero_filled};
use super::student::DiagStudent;
use super::{
    CLUSTERS_AT_ONCE, Clusters, Diagonal, Estimate, LN_2PI, Likelihood, LikelihoodKind, NamedArray, Predictive, Prior,
    Scratch, find_array,
};
use crate::data::Rows;
use crate::error::Result;

/// Means and a variance a column.
pub const FAMILY: Family = Family {
    name: "diag-gauss",
    about: "mean and one variance a column",
    has_means: true,
    allows_missing: true,
    wants_sparse_rows: false,
    of_categories: false,
    spread: Spread::AboutMean,
    takes_columns_alike: false,
    shares_covariance: false,
    // Each column has a prior of its own.
    default_nu: |_| 3.0,
    least_rows: |_, clusters| clusters,
    arrays: &[
        Array::of_columns("means"),
        Array::of_columns("variances"),
        Array { name: "degrees", shape: of_columns_where_missing, of_posterior: true },
        Array { name: "mean_counts", shape: of_columns_where_missing, of_posterior: true },
    ],
    of_moments: Some(OfMoments::Squares(|first, second, stat| {
        stat.iter_mut().zip(first.iter().chain(second)).for_each(|(to, from)| *to = *from);
    })),
    products: |dim| dim,
    // 1.1, 0.90, 0.76 and 0.67 of the dense time for 200, 400, 800 and 1,600 clusters of 64 columns, 1.1 and 0.74 for 400
    // and 800 of 36.
    exact_pays: Some((32, 25_600)),
    draws: |arrays, dim| {
        let means = array(arrays, "means")?.values.chunks_exact(dim);
        let variances = array(arrays, "variances")?.values.chunks_exact(dim);
        let draw = |(mean, variances): (&[f64], &[f64])| diagonal_draw(mean.to_vec(), variances.iter().copied());
        Ok(means.zip(variances).map(draw).collect())
    },
    plant: |clusters, dim, rng| {
        let means = planted_means(clusters, dim, rng);
        let values = (0..clusters * dim).map(|_| planted_variance(rng)).collect();
        vec![means, NamedArray::new("variances", vec![clusters, dim], values)]
    },
};

/// Where values may be missing, columns have counts of their own.
fn of_columns_where_missing(e: &Extent) -> Vec<usize> {
    if e.missing { vec![e.clusters, e.dim] } else { vec![e.clusters] }
}

/// The family with its prior: precision ~ Gamma(nu/2, rate beta/2), mean ~ N(center, 1/(kappa precision)).
/// Statistics, with y = x - center: sum r y, then sum r y^2; where values may be missing, then sum r over the rows that
/// lack the column, which counts for nothing there.
pub struct DiagGauss {
    prior: GammaPrior,
    center: Vec<f64>,
}

#[derive(Clone)]
struct GammaPrior {
    dim: usize,
    /// Whether values may be missing.
    missing: bool,
    nu: f64,
    /// One a column.
    beta: Vec<f64>,
    kappa: f64,
    /// One a column.
    variance_floor: Vec<f64>,
    /// log normaliser of each column's gamma.
    normaliser: Vec<f64>,
    /// The variance of each column that rows lack, zero for others; empty where there are none.
    own_variance: Vec<f64>,
}

/// The prior of one column in one cluster.
struct OfColumn {
    kappa: f64,
    beta: f64,
    normaliser: f64,
}

/// Half of a column's own variance is that of the cluster's mean, half that within the cluster: what is expected of a value
/// where nothing is known has that of the column.
const OWN_KAPPA: f64 = 1.0;

/// Functions of N_kd that a posterior's terms are made of. They cost more than all else in a global step, so they are
/// evaluated once a cluster unless columns have counts of their own.
struct OfCount {
    /// psi(nu_kd / 2).
    digamma: f64,
    /// ln G(nu_kd / 2).
    ln_gamma: f64,
    /// ln(kappa / kappa_kd).
    ln_mean_share: f64,
}

impl GammaPrior {
    fn of_count(&self, count: f64, kappa: f64) -> OfCount {
        let half_nu = 0.5 * (self.nu + count);
        let ln_mean_share = (kappa / (count + kappa)).ln();
        OfCount { digamma: digamma(half_nu), ln_gamma: ln_gamma(half_nu), ln_mean_share }
    }

    /// The prior of a column: that of all clusters, or one in the column's own variance.
    fn column(&self, d: usize, is_own: bool) -> OfColumn {
        if !is_own {
            return OfColumn { kappa: self.kappa, beta: self.beta[d], normaliser: self.normaliser[d] };
        }
        let variance = self.own_variance[d] * OWN_KAPPA / (1.0 + OWN_KAPPA);
        let beta = variance * (self.nu - 2.0);
        OfColumn { kappa: OWN_KAPPA, beta, normaliser: gamma_normaliser(self.nu, beta) }
    }

    /// Whether what a cluster has seen of a column, sum r y, sum r y^2 and N_kd, is worth more under a prior in the
    /// column's own variance, which stands for clusters that have no such row. The better of the two is part of what the
    /// objective is a maximum over.
    fn wants_own(&self, estimate: Estimate, d: usize, (first, second, count): (f64, f64, f64)) -> bool {
        if self.own_variance.get(d).is_none_or(|variance| *variance <= 0.0) || estimate == Estimate::MaxLikelihood {
            return false;
        }
        let rows = count + if estimate == Estimate::Map { self.map_count() } else { self.nu };
        let worth = |prior: OfColumn| {
            let mean_count = count + prior.kappa;
            let scatter = scatter_about(second, first, mean_count, first / mean_count) + prior.beta;
            let of_mean = if estimate == Estimate::Map { prior.kappa } else { prior.kappa / mean_count };
            0.5 * (self.nu * prior.beta.ln() - rows * scatter.ln() + of_mean.ln())
        };
        count <= 0.0 || worth(self.column(d, true)) > worth(self.column(d, false))
    }

    /// log normaliser of a column's normal-gamma prior, whose joint mode is the MAP estimate.
    fn map_normaliser(&self, prior: &OfColumn) -> f64 {
        prior.normaliser + 0.5 * (prior.kappa.ln() - LN_2PI)
    }

    /// nu' of the MAP variance (S + beta) / (N + nu').
    fn map_count(&self) -> f64 {
        self.nu - 1.0
    }

    /// Numbers a cluster in the statistics.
    fn width(&self) -> usize {
        if self.missing { 3 * self.dim } else { 2 * self.dim }
    }

    /// Columns that share a count.
    fn step(&self) -> usize {
        if self.missing { 1 } else { self.dim }
    }

    /// sum r y, sum r y^2 and N_kd of column d, from the statistics of one cluster.
    fn of_column(&self, count: f64, stat: &[f64], d: usize) -> (f64, f64, f64) {
        let lost = if self.missing { stat[2 * self.dim + d] } else { 0.0 };
        (stat[d], stat[self.dim + d], observed(count, lost))
    }
}

impl DiagGauss {
    pub fn new(prior: &Prior) -> Self {
        let beta: Vec<f64> = prior.variance.iter().map(|v| v * (prior.nu - 2.0)).collect();
        DiagGauss {
            prior: GammaPrior {
                dim: prior.dim,
                missing: prior.missing,
                nu: prior.nu,
                normaliser: beta.iter().map(|&beta| gamma_normaliser(prior.nu, beta)).collect(),
                own_variance: prior.own_variance.clone(),
                beta,
                kappa: prior.kappa,
                variance_floor: prior.variance_floor.clone(),
            },
            center: prior.center.clone(),
        }
    }
}

/// log normaliser of Gamma(nu/2, rate beta/2).
fn gamma_normaliser(nu: f64, beta: f64) -> f64 {
    0.5 * nu * (0.5 * beta).ln() - ln_gamma(0.5 * nu)
}

/// sum r (y - m)^2 + kappa m^2 from the two moments, where `mean_count` = N + kappa.
fn scatter_about(second: f64, first: f64, mean_count: f64, mean: f64) -> f64 {
    (second + mean_count * mean * mean - 2.0 * first * mean).max(0.0)
}

impl<T: Real> Likelihood<T> for DiagGauss {
    fn kind(&self) -> LikelihoodKind {
        LikelihoodKind::DiagGauss
    }

    fn dim(&self) -> usize {
        self.prior.dim
    }

    fn stat_width(&self) -> usize {
        self.prior.width()
    }

    fn accumulate(&self, rows: &Rows<T>, members: &[u32], resp: &[T], scratch: &mut Scratch<T>, stat: &mut [f64]) {
        let dim = self.prior.dim;
        let (first, rest) = stat.split_at_mut(dim);
        let (second, lost) = rest.split_at_mut(dim);
        if lost.is_empty() {
            return weighted_moments(rows.dense_rows(0..rows.len()), members, resp, &self.center, first, second);
        }
        scratch.gather(rows, members, resp, &self.center, |rows, shares, _| {
            let rows = zero_filled(rows, shares, dim, lost);
            weighted_sum(&rows, shares, dim, first);
            weighted_square_sum(&rows, shares, dim, second);
        });
    }

    fn global_step(
        &self,
        estimate: Estimate,
        counts: &[f64],
        stats: &[f64],
        previous: Option<&dyn Clusters<T>>,
    ) -> Result<Box<dyn Clusters<T>>> {
        let p = &self.prior;
        let dim = p.dim;
        let empty_ml = |n: f64| estimate == Estimate::MaxLikelihood && n <= 0.0;
        let clusters = || counts.iter().zip(stats.chunks_exact(p.width()));
        let column_counts: Vec<f64> =
            clusters().flat_map(|(&n, stat)| (0..dim).map(move |d| p.of_column(n, stat, d).2)).collect();
        let old = previous.filter(|_| column_counts.iter().any(|&n| empty_ml(n))).map(|c| c.arrays());
        let mut means = vec![0.0; counts.len() * dim];
        let mut scales = vec![0.0; counts.len() * dim];
        let mut is_own = vec![false; if p.own_variance.is_empty() { 0 } else { counts.len() * dim }];
        for (k, (&count, stat)) in clusters().enumerate() {
            for d in 0..dim {
                let i = k * dim + d;
                let (first, second, count) = p.of_column(count, stat, d);
                if let Some(is_own) = is_own.get_mut(i) {
                    *is_own = p.wants_own(estimate, d, (first, second, count));
                }
                let prior = p.column(d, is_own.get(i) == Some(&true));
                if empty_ml(count) {
                    // It keeps its old shape, or the prior's or the column's when it never had one.
                    let own = p.own_variance.get(d).copied().filter(|variance| *variance > 0.0);
                    (means[i], scales[i]) = match &old {
                        Some(arrays) => (arrays[0].values[i] - self.center[d], arrays[1].values[i]),
                        None => (0.0, own.unwrap_or(p.beta[d] / p.map_count())),
                    };
                    continue;
                }
                let mean_count = count + if estimate == Estimate::MaxLikelihood { 0.0 } else { prior.kappa };
                means[i] = first / mean_count;
                let scatter = scatter_about(second, first, mean_count, means[i]);
                scales[i] = match estimate {
                    Estimate::Posterior => scatter + prior.beta,
                    Estimate::Map => (scatter + prior.beta) / (count + p.map_count()),
                    Estimate::MaxLikelihood => (scatter / count).max(p.variance_floor[d]),
                };
            }
        }
        let mut clusters = DiagGaussClusters::new(self, estimate, means, scales, column_counts, is_own);
        clusters.own_data_term = clusters.data_term(counts, stats);
        Ok(Box::new(clusters))
    }

    fn evidence(&self, counts: &[f64], stats: &[f64]) -> Result<Vec<f64>> {
        let (p, dim) = (&self.prior, self.prior.dim);
        if p.missing {
            let worth = |(&count, stat): (&f64, &[f64])| -> Result<f64> {
                let one: Box<dyn Clusters<T>> = self.global_step(Estimate::Posterior, &[count], stat, None)?;
                Ok(one.own_data_term())
            };
            return counts.iter().zip(stats.chunks_exact(p.width())).map(worth).collect();
        }
        let priors: f64 = p.normaliser.iter().sum();
        let mut logs = vec![0.0; dim];
        let of = |(&count, stat): (&f64, &[f64])| {
            let (first, second) = stat.split_at(dim);
            let mean_count = count + p.kappa;
            for (log, ((first, second), beta)) in logs.iter_mut().zip(first.iter().zip(second).zip(&p.beta)) {
                *log = 0.5 * (scatter_about(*second, *first, mean_count, first / mean_count) + beta);
            }
            ln_slice(&mut logs);
            let OfCount { ln_gamma, ln_mean_share, .. } = p.of_count(count, p.kappa);
            let of_count = ln_gamma + 0.5 * (ln_mean_share - count * LN_2PI);
            priors - 0.5 * (p.nu + count) * logs.iter().sum::<f64>() + dim as f64 * of_count
        };
        Ok(counts.iter().zip(stats.chunks_exact(p.width())).map(of).collect())
    }

    fn clusters_of(&self, arrays: &[NamedArray]) -> Result<Box<dyn Clusters<T>>> {
        let dim = self.prior.dim;
        let (num, means) = find_array(arrays, "means", &[dim])?;
        let (_, variances) = find_array(arrays, "variances", &[dim])?;
        let student = DiagStudent::find(arrays, means, variances, dim)?;
        let means = means.iter().enumerate().map(|(i, m)| m - self.center[i % dim]).collect();
        let (variances, counts) = (variances.to_vec(), vec![0.0; num * dim]);
        let clusters = DiagGaussClusters::new(self, Estimate::Map, means, variances, counts, Vec::new());
        Ok(Box::new(DiagGaussClusters { student, ..clusters }))
    }

    fn statistics_of(&self, counts: &[f64], arrays: &[NamedArray]) -> Result<Option<Vec<f64>>> {
        let dim = self.prior.dim;
        let (_, variances) = find_array(arrays, "variances", &[dim])?;
        let means = about(find_array(arrays, "means", &[dim])?.1, &self.center);
        let mut stats = vec![0.0; counts.len() * self.prior.width()];
        for (k, (stat, count)) in stats.chunks_exact_mut(self.prior.width()).zip(counts).enumerate() {
            for d in 0..dim {
                let (y, variance) = (means[k * dim + d], variances[k * dim + d]);
                (stat[d], stat[dim + d]) = (count * y, count * (variance + y * y));
            }
        }
        Ok(Some(stats))
    }

    fn own_score(&self, rows: &Rows<T>, range: Range<usize>, out: &mut [f64]) {
        let p = &self.prior;
        let n = 1.0 + p.map_count();
        let shrink = p.kappa / (1.0 + p.kappa);
        let normalisers: Vec<f64> = (0..p.dim).map(|d| p.map_normaliser(&p.column(d, false))).collect();
        for (row, score) in range.zip(out) {
            let values = rows.dense_rows(row..row + 1);
            *score = values
                .iter()
                .zip(&self.center)
                .enumerate()
                .map(|(d, (x, c))| {
                    let variance = (shrink * (x.to_f64() - c).powi(2) + p.beta[d]) / n;
                    normalisers[d] - 0.5 * LN_2PI - 0.5 * n * (variance.ln() + 1.0)
                })
                .sum();
        }
    }

    fn num_parameters(&self) -> usize {
        2 * self.prior.dim
    }
}

/// K fitted clusters.
struct DiagGaussClusters<T: Real> {
    prior: GammaPrior,
    estimate: Estimate,
    center: Vec<f64>,
    /// K x dim, about the center.
    means: Vec<f64>,
    /// K x dim: beta_k under a posterior, the variance otherwise.
    scales: Vec<f64>,
    /// K x dim: N_kd, the rows that have column d, at the time of the global step.
    counts: Vec<f64>,
    /// K x dim: whose prior is in the column's own variance; empty where none is.
    is_own: Vec<bool>,
    /// Functions of the counts under a posterior: one a cluster, or K x dim where values may be missing.
    of_counts: Vec<OfCount>,
    /// K x dim: the log of the precision, or its expectation.
    log_precisions: Vec<f64>,
    means_t: Vec<T>,
    precisions_t: Vec<T>,
    constant: Vec<T>,
    /// K x dim: each column's share of the constant, where values may be missing.
    column_constants: Vec<f64>,
    /// The predictive, of clusters made from the arrays of a posterior.
    student: Option<DiagStudent>,
    own_data_term: f64,
}

impl<T: Real> DiagGaussClusters<T> {
    fn new(
        family: &DiagGauss,
        estimate: Estimate,
        means: Vec<f64>,
        scales: Vec<f64>,
        counts: Vec<f64>,
        is_own: Vec<bool>,
    ) -> Self {
        let dim = family.prior.dim;
        let kappa = |i: usize| if is_own.get(i) == Some(&true) { OWN_KAPPA } else { family.prior.kappa };
        let of_counts = match estimate {
            Estimate::Posterior => {
                let some = counts.iter().enumerate().step_by(family.prior.step());
                some.map(|(i, &n)| family.prior.of_count(n, kappa(i))).collect()
            }
            _ => Vec::new(),
        };
        let mut clusters = DiagGaussClusters {
            prior: family.prior.clone(),
            estimate,
            center: family.center.clone(),
            means_t: means.iter().enumerate().map(|(i, m)| T::from_f64(m + family.center[i % dim])).collect(),
            means,
            scales,
            counts,
            is_own,
            of_counts,
            log_precisions: Vec::new(),
            precisions_t: Vec::new(),
            constant: Vec::new(),
            column_constants: Vec::new(),
            student: None,
            own_data_term: 0.0,
        };
        // The uncertainty of a mean costs 1/(2 kappa_kd) under a posterior.
        let spread = |n: f64, kappa: f64| if estimate == Estimate::Posterior { 0.5 / (n + kappa) } else { 0.0 };
        for k in 0..clusters.counts.len() / dim {
            let counts = &clusters.counts[k * dim..(k + 1) * dim];
            let kappas: Vec<f64> = (k * dim..(k + 1) * dim).map(|i| clusters.kappa(i)).collect();
            let complete = counts.iter().all(|n| *n == counts[0]) && clusters.is_own.is_empty();
            let of_means = match complete {
                true if estimate == Estimate::Posterior => 0.5 * dim as f64 / (counts[0] + family.prior.kappa),
                true => 0.0,
                false => counts.iter().zip(&kappas).map(|(&n, &kappa)| spread(n, kappa)).sum(),
            };
            let mut constant = -0.5 * dim as f64 * LN_2PI - of_means;
            for d in 0..dim {
                let (precision, log_precision) = clusters.precision(k, d);
                constant += 0.5 * log_precision;
                clusters.log_precisions.push(log_precision);
                clusters.precisions_t.push(T::from_f64(precision));
                if family.prior.missing {
                    let of_mean = spread(clusters.counts[k * dim + d], kappas[d]);
                    let of_column = 0.5 * (log_precision - LN_2PI) - of_mean;
                    clusters.column_constants.push(of_column);
                }
            }
            clusters.constant.push(T::from_f64(constant));
        }
        clusters
    }

    /// Whether the prior of a cluster's column (K x dim) is in the column's own variance.
    fn is_own(&self, i: usize) -> bool {
        self.is_own.get(i) == Some(&true)
    }

    fn kappa(&self, i: usize) -> f64 {
        if self.is_own(i) { OWN_KAPPA } else { self.prior.kappa }
    }

    /// The share of the columns that a row lacks in the constant.
    fn constant_of(&self, k: usize, hole: &Hole) -> f64 {
        let columns = &self.column_constants[k * self.prior.dim..(k + 1) * self.prior.dim];
        hole.columns.iter().map(|&d| columns[d as usize]).sum()
    }

    /// The precision and its log, or their expectations under a posterior.
    fn precision(&self, k: usize, d: usize) -> (f64, f64) {
        let i = k * self.prior.dim + d;
        let scale = self.scales[i];
        match self.estimate {
            Estimate::Posterior => {
                let nu = self.prior.nu + self.counts[i];
                (nu / scale, self.of_counts[i / self.prior.step()].digamma - (0.5 * scale).ln())
            }
            _ => (1.0 / scale, -scale.ln()),
        }
    }

    /// One column's share of one cluster's data term; `scatter` is about the cluster's mean, prior pull included.
    fn term(&self, k: usize, d: usize, count: f64, scatter: f64) -> f64 {
        let p = &self.prior;
        let i = k * p.dim + d;
        let log_precision = self.log_precisions[i];
        let prior = p.column(d, self.is_own(i));
        let own = match self.estimate {
            Estimate::Posterior => {
                let (posterior_count, beta) = (self.counts[i], self.scales[i]);
                let (nu, mean_count) = (p.nu + posterior_count, posterior_count + prior.kappa);
                let OfCount { digamma, ln_gamma, ln_mean_share } = &self.of_counts[i / p.step()];
                // E[log tau] = psi(nu/2) - ln(beta/2), which saves a logarithm.
                let own_normaliser = 0.5 * nu * (digamma - log_precision) - ln_gamma;
                prior.normaliser - own_normaliser + 0.5 * (count + p.nu - nu) * log_precision
                    - 0.5 * (scatter + prior.beta - beta) * (nu / beta)
                    + 0.5 * (ln_mean_share + 1.0 - (count + prior.kappa) / mean_count)
            }
            Estimate::Map => {
                p.map_normaliser(&prior) + 0.5 * (count + p.map_count()) * log_precision
                    - 0.5 * (scatter + prior.beta) / self.scales[i]
            }
            Estimate::MaxLikelihood if count <= 0.0 => 0.0,
            Estimate::MaxLikelihood => 0.5 * (count * log_precision - scatter / self.scales[i]),
        };
        own - 0.5 * count * LN_2PI
    }
}

/// A missing value is nowhere but at the mean, and its column has no share in the constant.
fn fill_by<T: Real>(mean: &[T], hole: &Hole, tile: &mut [T]) {
    hole.columns.iter().for_each(|&d| tile[d as usize * T::TILE + hole.row] = mean[d as usize]);
}

impl<T: Real> Clusters<T> for DiagGaussClusters<T> {
    fn num_clusters(&self) -> usize {
        self.constant.len()
    }

    fn add_log_lik(&self, rows: &Rows<T>, range: Range<usize>, scratch: &mut Scratch<T>, weights: &mut [T]) {
        let (num, dim) = (self.num_clusters(), self.prior.dim);
        let count = range.len();
        let holes = if self.prior.missing { holes(rows, range.clone()) } else { Vec::new() };
        scratch.load_tile(rows, range);
        scratch.work.resize(CLUSTERS_AT_ONCE * T::TILE, T::ZERO);
        let half = T::from_f64(0.5);
        for first in (0..num).step_by(CLUSTERS_AT_ONCE) {
            let together = CLUSTERS_AT_ONCE.min(num - first);
            let of_group = first * dim..(first + together) * dim;
            let (means, precisions) = (&self.means_t[of_group.clone()], &self.precisions_t[of_group]);
            let quads = &mut scratch.work[..together * T::TILE];
            if holes.is_empty() {
                diag_quad_forms(&scratch.tile, dim, means, precisions, quads);
            } else {
                let shapes = means.chunks_exact(dim).zip(precisions.chunks_exact(dim));
                for (k, ((mean, precision), quad)) in (first..).zip(shapes.zip(quads.chunks_exact_mut(T::TILE))) {
                    for hole in &holes {
                        fill_by(mean, hole, &mut scratch.tile);
                        weights[hole.row * num + k] -= T::from_f64(self.constant_of(k, hole));
                    }
                    diag_quad_forms(&scratch.tile, dim, mean, precision, quad);
                }
            }
            let constant = &self.constant[first..first + together];
            for (r, weights) in weights.chunks_exact_mut(num).take(count).enumerate() {
                for (c, (weight, &constant)) in weights[first..first + together].iter_mut().zip(constant).enumerate() {
                    *weight += constant - half * scratch.work[c * T::TILE + r];
                }
            }
        }
    }

    fn add_log_lik_tile(&self, rows: &Rows<T>, range: Range<usize>, scratch: &mut Scratch<T>, tile: &mut [T]) -> bool {
        if self.prior.missing {
            return false;
        }
        scratch.load_tile(rows, range);
        let (dim, half) = (self.prior.dim, T::from_f64(0.5));
        let group = CLUSTERS_AT_ONCE * dim;
        let shapes = self.means_t.chunks(group).zip(self.precisions_t.chunks(group));
        let groups =
            tile.chunks_mut(CLUSTERS_AT_ONCE * T::TILE).zip(self.constant.chunks(CLUSTERS_AT_ONCE)).zip(shapes);
        for ((weights, constants), (mean, precision)) in groups {
            scratch.work.resize(weights.len(), T::ZERO);
            diag_quad_forms(&scratch.tile, dim, mean, precision, &mut scratch.work);
            let clusters = weights.chunks_exact_mut(T::TILE).zip(scratch.work.chunks_exact(T::TILE)).zip(constants);
            for ((weights, quads), &constant) in clusters {
                weights.iter_mut().zip(quads).for_each(|(weight, &quad)| *weight += constant - half * quad);
            }
        }
        true
    }

    fn add_log_predictive(&self, rows: &Rows<T>, range: Range<usize>, scratch: &mut Scratch<T>, weights: &mut [T]) {
        let Some(student) = &self.student else { return self.add_log_lik(rows, range, scratch, weights) };
        let count = range.len();
        let holes = if self.prior.missing { holes(rows, range.clone()) } else { Vec::new() };
        scratch.load_tile(rows, range);
        student.add_log_density(count, &holes, scratch, weights);
    }

    fn log_lik_of(&self, k: usize, rows: &Rows<T>, members: &[u32], scratch: &mut Scratch<T>, out: &mut [T]) {
        let dim = self.prior.dim;
        let of_k = k * dim..(k + 1) * dim;
        scratch.gather_tile(rows, members);
        let (mean, precision) = (&self.means_t[of_k.clone()], &self.precisions_t[of_k]);
        let lacking = if self.prior.missing { lacking(rows, members) } else { None };
        let holes = || lacking.iter().flat_map(|(_, holes)| holes);
        holes().for_each(|hole| fill_by(mean, hole, &mut scratch.tile));
        diag_quad_forms(&scratch.tile, dim, mean, precision, &mut scratch.column);
        let half = T::from_f64(0.5);
        for (out, &quad) in out.iter_mut().zip(&scratch.column[..members.len()]) {
            *out = self.constant[k] - half * quad;
        }
        holes().for_each(|hole| out[hole.row] -= T::from_f64(self.constant_of(k, hole)));
    }

    fn predictive(&self) -> Option<Predictive<'_>> {
        self.student.as_ref().and_then(DiagStudent::predictive)
    }

    fn diagonal(&self, k: usize) -> Option<Diagonal<'_, T>> {
        let of_k = k * self.prior.dim..(k + 1) * self.prior.dim;
        let (mean, precision) = (&self.means_t[of_k.clone()], &self.precisions_t[of_k]);
        Some(Diagonal { constant: self.constant[k], mean, precision })
    }

    fn draw_missing(&self, k: usize, row: &mut [T], _: &mut Scratch<T>, normal: &mut dyn FnMut() -> f64) {
        let of_k = k * row.len()..(k + 1) * row.len();
        let columns = self.means_t[of_k.clone()].iter().zip(&self.precisions_t[of_k]);
        for (x, (mean, precision)) in row.iter_mut().zip(columns).filter(|(x, _)| x.is_nan()) {
            *x = T::from_f64(mean.to_f64() + normal() / precision.to_f64().sqrt());
        }
    }

    fn data_term(&self, counts: &[f64], stats: &[f64]) -> f64 {
        let dim = self.prior.dim;
        let kappa = |i: usize| if self.estimate == Estimate::MaxLikelihood { 0.0 } else { self.kappa(i) };
        let mut total = 0.0;
        for (k, (&count, stat)) in counts.iter().zip(stats.chunks_exact(self.prior.width())).enumerate() {
            for d in 0..dim {
                let (first, second, count) = self.prior.of_column(count, stat, d);
                let i = k * dim + d;
                let scatter = scatter_about(second, first, count + kappa(i), self.means[i]);
                total += self.term(k, d, count, scatter);
            }
        }
        total
    }

    fn own_data_term(&self) -> f64 {
        self.own_data_term
    }

    fn log_prior(&self) -> Vec<f64> {
        let dim = self.prior.dim;
        let pull = |k: usize, d: usize| scatter_about(0.0, 0.0, self.kappa(k * dim + d), self.means[k * dim + d]);
        (0..self.num_clusters()).map(|k| (0..dim).map(|d| self.term(k, d, 0.0, pull(k, d))).sum()).collect()
    }

    fn arrays(&self) -> Vec<NamedArray> {
        let (num, dim) = (self.num_clusters(), self.prior.dim);
        let means = self.means.iter().enumerate().map(|(i, m)| m + self.center[i % dim]).collect();
        let variance = |i: usize| match self.estimate {
            // E[1/precision] = beta_k / (nu_k - 2)
            Estimate::Posterior => self.scales[i] / (self.prior.nu + self.counts[i] - 2.0),
            _ => self.scales[i],
        };
        let mut arrays = vec![
            NamedArray::new("means", vec![num, dim], means),
            NamedArray::new("variances", vec![num, dim], (0..num * dim).map(variance).collect()),
        ];
        if self.estimate == Estimate::Posterior {
            // Where values may be missing, columns have counts of their own.
            let shape = if self.prior.missing { vec![num, dim] } else { vec![num] };
            let counts = || self.counts.iter().enumerate().step_by(self.prior.step());
            let degrees = counts().map(|(_, n)| n + self.prior.nu).collect();
            arrays.push(NamedArray::new("degrees", shape.clone(), degrees));
            let mean_counts = counts().map(|(i, n)| n + self.kappa(i)).collect();
            arrays.push(NamedArray::new("mean_counts", shape, mean_counts));
        }
        arrays
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
