//! Gaussian clusters that share one full covariance, under a Wishart prior on it and a normal one on each mean.
//!
//! The scatter within clusters is the second moment of all rows less what the means explain, so the second moment is
//! gathered once a row, whatever clusters it belongs to, as statistics that all clusters share. Rows are turned once into
//! coordinates in which the covariance is the identity; a weight is then a squared distance.

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use lsparse_kernels::{Real, dot_f64, square_distances, triangular_product, weighted_gram, weighted_moments};
use rayon::prelude::*;

use super::family::{
    Array, Family, OfMoments, Spread, about, add_second_moments, array, full_draw, planted_covariance, planted_means,
};
use super::student::Student;
use super::wishart::{Precision, WishartPrior, fingerprint};
use super::{
    CLUSTERS_AT_ONCE, Clusters, Estimate, LN_2PI, Likelihood, LikelihoodKind, NamedArray, OfCluster, Predictive, Prior,
    Scratch, SharedForm, Together, add_by_distance, find_array,
};
use crate::data::Rows;
use crate::error::Result;
use crate::math::linalg;

/// Rows whose second moments are summed by one thread: a fixed number, so that threads change no bit.
const ROWS_A_TASK: usize = 2048;

/// Means, and one covariance for all.
pub const FAMILY: Family = Family {
    name: "tied-gauss",
    about: "mean, and one full covariance for all clusters",
    has_means: true,
    allows_missing: false,
    wants_sparse_rows: false,
    of_categories: false,
    spread: Spread::AboutMean,
    takes_columns_alike: false,
    shares_covariance: true,
    default_nu: |dim| dim as f64 + 2.0,
    // One covariance for all.
    least_rows: |dim, _| dim,
    arrays: &[
        Array::of_columns("means"),
        Array { name: "covariances", shape: |e| vec![e.dim, e.dim], of_posterior: false },
        Array::of_clusters("degrees"),
        Array::of_clusters("mean_counts"),
    ],
    of_moments: Some(OfMoments::Firsts),
    products: |dim| dim,
    // A bound costs as much as the distance that a weight is.
    exact_pays: None,
    draws: |arrays, dim| {
        let covariance = &array(arrays, "covariances")?.values;
        let means = array(arrays, "means")?.values.chunks_exact(dim);
        means.enumerate().map(|(k, mean)| full_draw(k, mean.to_vec(), covariance, dim)).collect()
    },
    plant: |clusters, dim, rng| {
        let means = planted_means(clusters, dim, rng);
        vec![means, NamedArray::new("covariances", vec![dim, dim], planted_covariance(dim, rng))]
    },
};

/// The family with its prior. Statistics, with y = x - center: sum r y of each cluster, then, shared, the packed lower
/// triangle of sum y y^T over all rows. The prior mean is the center, so it is zero in these coordinates.
pub struct TiedGauss {
    prior: WishartPrior,
    kappa: f64,
    center: Vec<f64>,
}

impl TiedGauss {
    pub fn new(prior: &Prior) -> Self {
        TiedGauss { prior: WishartPrior::new(prior), kappa: prior.kappa, center: prior.center.clone() }
    }

    /// kappa where the estimate has a prior.
    fn kappa(&self, estimate: Estimate) -> f64 {
        if estimate == Estimate::MaxLikelihood { 0.0 } else { self.kappa }
    }
}

/// The count that goes with the pooled scatter. The densities of all K means have a share in the mode of the precision,
/// where that of an untied cluster has its own alone: hence K - 1 more.
fn pooled_count(estimate: Estimate, counts: &[f64]) -> f64 {
    let raised = if estimate == Estimate::Map { counts.len() as f64 - 1.0 } else { 0.0 };
    counts.iter().sum::<f64>() + raised
}

/// sum_k [ sum r (y - m_k)(y - m_k)^T + kappa m_k m_k^T ], packed, from the statistics.
fn pooled_scatter(counts: &[f64], stats: &[f64], kappa: f64, means: &[f64], dim: usize) -> Vec<f64> {
    let (first, second) = stats.split_at(counts.len() * dim);
    let mut scatter = second.to_vec();
    let rows: Vec<(usize, &mut [f64])> = packed_rows(&mut scatter, dim).collect();
    // Rows of the matrix side by side, clusters in order within each.
    rows.into_par_iter().for_each(|(i, row)| {
        for ((mean, first), count) in means.chunks_exact(dim).zip(first.chunks_exact(dim)).zip(counts) {
            let (a, b) = ((count + kappa) * mean[i] - first[i], mean[i]);
            for (s, (m, f)) in row.iter_mut().zip(mean.iter().zip(first)) {
                *s += a * m - b * f;
            }
        }
    });
    scatter
}

/// The rows of a packed lower triangle, with their numbers.
fn packed_rows(mut packed: &mut [f64], dim: usize) -> impl Iterator<Item = (usize, &mut [f64])> {
    (0..dim).map(move |i| {
        let (row, rest) = std::mem::take(&mut packed).split_at_mut(i + 1);
        packed = rest;
        (i, row)
    })
}

impl<T: Real> Likelihood<T> for TiedGauss {
    fn kind(&self) -> LikelihoodKind {
        LikelihoodKind::TiedGauss
    }

    fn dim(&self) -> usize {
        self.prior.dim
    }

    fn set_deadline(&mut self, until: Option<Instant>) {
        self.prior.until = until;
    }

    fn stat_width(&self) -> usize {
        self.prior.dim
    }

    fn shared_width(&self) -> usize {
        linalg::packed_len(self.prior.dim)
    }

    fn accumulate(&self, rows: &Rows<T>, members: &[u32], resp: &[T], _scratch: &mut Scratch<T>, stat: &mut [f64]) {
        weighted_moments(rows.dense_rows(0..rows.len()), members, resp, &self.center, stat, &mut []);
    }

    fn accumulate_shared(&self, rows: &Rows<T>, members: &[u32], weights: &[f64], shared: &mut [f64]) {
        let dim = self.prior.dim;
        let tasks = members.par_chunks(ROWS_A_TASK).zip(weights.par_chunks(ROWS_A_TASK));
        let sums: Vec<Vec<f64>> = tasks
            .map(|(members, weights)| {
                let mut sum = vec![0.0; linalg::packed_len(dim)];
                Scratch::default().gather(rows, members, weights, &self.center, |rows, weights, outer| {
                    weighted_gram(rows, weights, dim, outer, &mut sum);
                });
                sum
            })
            .collect();
        for sum in sums {
            shared.iter_mut().zip(&sum).for_each(|(s, v)| *s += v);
        }
    }

    fn global_step(
        &self,
        estimate: Estimate,
        counts: &[f64],
        stats: &[f64],
        previous: Option<&dyn Clusters<T>>,
    ) -> Result<Box<dyn Clusters<T>>> {
        let dim = self.prior.dim;
        let previous = previous.filter(|_| estimate == Estimate::MaxLikelihood).map(|p| p.arrays());
        let old_means = previous.as_ref().and_then(|arrays| arrays.iter().find(|a| a.name == "means"));
        let kappa = self.kappa(estimate);
        let mut means = vec![0.0; counts.len() * dim];
        let clusters = means.chunks_exact_mut(dim).zip(stats.chunks_exact(dim)).zip(counts);
        for (k, ((mean, first), count)) in clusters.enumerate() {
            // m = (kappa m0 + sum r y) / (kappa + N), with m0 = 0 in these coordinates.
            if count + kappa > 0.0 {
                mean.iter_mut().zip(first).for_each(|(m, s)| *m = s / (count + kappa));
            } else if let Some(old) = old_means {
                (0..dim).for_each(|d| mean[d] = old.values[k * dim + d] - self.center[d]);
            }
        }
        let scatter = pooled_scatter(counts, stats, kappa, &means, dim);
        let count = pooled_count(estimate, counts);
        let print = fingerprint(estimate, count, &scatter);
        let kept = |_| kept_or_prior(&previous, &self.prior);
        let precisions = Precision::estimate_all(&self.prior, estimate, &[count], &scatter, &[print], &[], kept)?;
        let mut clusters = TiedGaussClusters::new(self, estimate, means, &precisions[0], counts);
        clusters.own_data_term = clusters.term(counts, clusters.precision.own_trace);
        Ok(Box::new(clusters))
    }

    fn together(&self, counts: &[f64], stats: &[f64]) -> Result<Option<Box<dyn Together>>> {
        let dim = self.prior.dim;
        let means: Vec<f64> = stats
            .chunks_exact(dim)
            .zip(counts)
            .flat_map(|(first, count)| first.iter().map(move |s| s / (count + self.kappa)))
            .collect();
        let (count, scatter) =
            (pooled_count(Estimate::Posterior, counts), pooled_scatter(counts, stats, self.kappa, &means, dim));
        let kept = |_| kept_or_prior(&None, &self.prior);
        let prior = &self.prior;
        let precisions = Precision::estimate_all(prior, Estimate::Posterior, &[count], &scatter, &[0], &[], kept)?;
        Ok(Some(Box::new(Pooled { dim, kappa: self.kappa, precision: Arc::clone(&precisions[0]) })))
    }

    fn clusters_of(&self, arrays: &[NamedArray]) -> Result<Box<dyn Clusters<T>>> {
        let dim = self.prior.dim;
        let (num, means) = find_array(arrays, "means", &[dim])?;
        let (_, covariance) = find_array(arrays, "covariances", &[dim])?;
        let precisions = Precision::from_covariances(covariance, dim)?;
        let means = means.iter().enumerate().map(|(i, m)| m - self.center[i % dim]).collect();
        let mut clusters = TiedGaussClusters::new(self, Estimate::Map, means, &precisions[0], &vec![0.0; num]);
        clusters.student = Student::find(arrays, &vec![precisions[0].log_det; num], dim, false)?;
        Ok(Box::new(clusters))
    }

    fn statistics_of(&self, counts: &[f64], arrays: &[NamedArray]) -> Result<Option<Vec<f64>>> {
        let dim = self.prior.dim;
        let (_, covariance) = find_array(arrays, "covariances", &[dim])?;
        let means = about(find_array(arrays, "means", &[dim])?.1, &self.center);
        let clusters = || means.chunks_exact(dim).zip(counts);
        let mut stats: Vec<f64> = clusters().flat_map(|(y, count)| y.iter().map(move |y| count * y)).collect();
        let mut shared = vec![0.0; linalg::packed_len(dim)];
        clusters().for_each(|(y, &count)| add_second_moments(count, y, covariance, &mut shared));
        stats.extend(shared);
        Ok(Some(stats))
    }

    fn own_score(&self, rows: &Rows<T>, range: Range<usize>, out: &mut [f64]) {
        let p = &self.prior;
        let d = p.dim as f64;
        let n = 1.0 + p.map_count();
        // The scatter of one row about the MAP mean y/(1 + kappa), with the prior's pull, is kappa/(1 + kappa) y y^T.
        let shrink = self.kappa / (1.0 + self.kappa);
        let normaliser = map_normaliser(p, self.kappa, 1);
        for (row, score) in range.zip(out) {
            let values = rows.dense_rows(row..row + 1);
            let norm = p.norm(values.iter().zip(&self.center).map(|(x, c)| x.to_f64() - c));
            let log_det = d * n.ln() - p.log_det_b() - (shrink * norm).ln_1p();
            *score = -0.5 * d * LN_2PI + normaliser + 0.5 * n * log_det - 0.5 * n * d;
        }
    }

    fn num_parameters(&self) -> usize {
        self.prior.dim
    }

    fn num_shared_parameters(&self) -> usize {
        linalg::packed_len(self.prior.dim)
    }
}

/// The pooled scatter W of all clusters, by which a change of a few is known: they have s s^T / (kappa + N) of it each, so
/// that log |W| changes by the determinant of a matrix of as many rows as there are clusters that go or come.
struct Pooled {
    dim: usize,
    kappa: f64,
    /// nu' W^-1 = M^T M.
    precision: Arc<Precision>,
}

impl Together for Pooled {
    fn gain(&self, gone: &[OfCluster<'_>], come: &[OfCluster<'_>]) -> f64 {
        let Pooled { dim, kappa, ref precision } = *self;
        let of_mean = |some: &[OfCluster<'_>]| -> f64 { some.iter().map(|(n, _)| (kappa / (n + kappa)).ln()).sum() };
        let turned = |(n, first): &OfCluster<'_>| -> Vec<f64> {
            let share = (precision.nu * (n + kappa)).sqrt().recip();
            let rows = precision.factor.chunks_exact(dim).enumerate();
            rows.map(|(i, row)| share * dot_f64(&row[..=i], &first[..=i])).collect()
        };
        let all: Vec<Vec<f64>> = gone.iter().chain(come).map(turned).collect();
        // I + C Z Z^T, where C takes away what comes.
        let num = all.len();
        let mut matrix = vec![0.0; num * num];
        for (i, left) in all.iter().enumerate() {
            let sign = if i < gone.len() { 1.0 } else { -1.0 };
            for (j, right) in all.iter().enumerate() {
                matrix[i * num + j] = sign * dot_f64(left, right) + f64::from(u8::from(i == j));
            }
        }
        let det = linalg::determinant(&mut matrix, num);
        // What rounding leaves nothing of is not known to lose.
        let of_scatter = if det > 0.0 { -0.5 * precision.nu * det.ln() } else { f64::INFINITY };
        of_scatter + 0.5 * dim as f64 * (of_mean(come) - of_mean(gone))
    }
}

/// log normaliser of the prior on one precision and `num` means, whose joint mode is the MAP estimate.
fn map_normaliser(prior: &WishartPrior, kappa: f64, num: usize) -> f64 {
    let of_means = 0.5 * (num * prior.dim) as f64 * (kappa.ln() - LN_2PI);
    prior.ln_normaliser(prior.log_det_b()) + of_means
}

/// The covariance there was before all rows were lost, or the prior's when there never was one.
fn kept_or_prior(previous: &Option<Vec<NamedArray>>, prior: &WishartPrior) -> Vec<f64> {
    let old = previous.as_ref().and_then(|arrays| arrays.iter().find(|a| a.name == "covariances"));
    old.map_or_else(|| super::zero_mean_gauss::kept_or_prior(&None, 0, prior), |array| array.values.clone())
}

/// K fitted clusters.
struct TiedGaussClusters<T: Real> {
    prior: WishartPrior,
    kappa: f64,
    estimate: Estimate,
    center: Vec<f64>,
    center_t: Vec<T>,
    /// K x dim, about the center.
    means: Vec<f64>,
    /// kappa + N_k under a posterior.
    mean_counts: Vec<f64>,
    /// The one precision, M^T M.
    precision: Arc<Precision>,
    factor_t: Vec<T>,
    /// K x dim, M m_k: where rows are compared with them.
    points: Vec<T>,
    constant: Vec<T>,
    /// The predictive, of clusters made from the arrays of a posterior.
    student: Option<Student>,
    own_data_term: f64,
}

impl<T: Real> TiedGaussClusters<T> {
    fn new(
        family: &TiedGauss,
        estimate: Estimate,
        means: Vec<f64>,
        precision: &Arc<Precision>,
        counts: &[f64],
    ) -> Self {
        let dim = family.prior.dim;
        let mean_counts: Vec<f64> = counts.iter().map(|n| n + family.kappa).collect();
        let constant = mean_counts.iter().map(|count| {
            // The uncertainty of the mean costs D/(2 kappa_k) under a posterior.
            let spread = if estimate == Estimate::Posterior { dim as f64 / count } else { 0.0 };
            T::from_f64(0.5 * (precision.log_det - dim as f64 * LN_2PI - spread))
        });
        // Rows are turned about the center as `T` has it, and so are the means.
        let center_t: Vec<T> = family.center.iter().map(|&c| T::from_f64(c)).collect();
        let turned = |mean: &[f64]| -> Vec<T> {
            let mean: Vec<f64> =
                mean.iter().zip(family.center.iter().zip(&center_t)).map(|(m, (c, t))| m + (c - t.to_f64())).collect();
            let rows = precision.factor.chunks_exact(dim).enumerate();
            rows.map(|(i, row)| T::from_f64(dot_f64(&row[..=i], &mean[..=i]))).collect()
        };
        TiedGaussClusters {
            constant: constant.collect(),
            points: means.chunks_exact(dim).flat_map(turned).collect(),
            center_t,
            prior: family.prior.clone(),
            kappa: family.kappa,
            estimate,
            center: family.center.clone(),
            means,
            mean_counts,
            factor_t: precision.factor.iter().map(|&v| T::from_f64(v)).collect(),
            precision: Arc::clone(precision),
            student: None,
            own_data_term: 0.0,
        }
    }

    /// The data term for these counts; `trace` is of the pooled scatter about the clusters' means, prior included.
    fn term(&self, counts: &[f64], trace: f64) -> f64 {
        let (dim, num) = (self.prior.dim as f64, self.num_clusters());
        let pooled = pooled_count(self.estimate, counts);
        let normaliser = map_normaliser(&self.prior, self.kappa, num);
        let of_mean = |(&count, &posterior_count): (&f64, &f64)| match self.estimate {
            // As for clusters with a covariance of their own.
            Estimate::Posterior => {
                0.5 * dim * ((self.kappa / posterior_count).ln() + 1.0 - (count + self.kappa) / posterior_count)
            }
            _ => 0.0,
        };
        let of_means: f64 = counts.iter().zip(&self.mean_counts).map(of_mean).sum();
        self.precision.data_term(&self.prior, self.estimate, pooled, trace, normaliser) + of_means
            - 0.5 * counts.iter().sum::<f64>() * dim * LN_2PI
    }

    /// `scratch.tile` to `scratch.turned`: rows in the coordinates of the points.
    fn turn(&self, scratch: &mut Scratch<T>) {
        scratch.turned.reshape(scratch.tile.len());
        triangular_product(&self.factor_t, &scratch.tile, self.prior.dim, &self.center_t, &mut scratch.turned);
    }

    /// `E[log F] = -D/2 log 2 pi + E[log |Phi|]/2 - D/(2 kappa_k) - |M (x - center) - M m_k|^2 / 2`
    fn log_lik(&self, k: usize, distance: T) -> T {
        self.constant[k] - T::from_f64(0.5) * distance
    }
}

impl<T: Real> Clusters<T> for TiedGaussClusters<T> {
    fn num_clusters(&self) -> usize {
        self.mean_counts.len()
    }

    fn add_log_lik(&self, rows: &Rows<T>, range: Range<usize>, scratch: &mut Scratch<T>, weights: &mut [T]) {
        let (num, dim) = (self.num_clusters(), self.prior.dim);
        scratch.load_tile(rows, range);
        self.turn(scratch);
        scratch.work.resize(CLUSTERS_AT_ONCE * T::TILE, T::ZERO);
        for (group, points) in self.points.chunks(CLUSTERS_AT_ONCE * dim).enumerate() {
            let (first, together) = (group * CLUSTERS_AT_ONCE, points.len() / dim);
            let distances = &mut scratch.work[..together * T::TILE];
            square_distances(&scratch.turned, dim, points, distances);
            for (r, weights) in weights.chunks_exact_mut(num).enumerate() {
                for (c, weight) in weights[first..first + together].iter_mut().enumerate() {
                    *weight += self.log_lik(first + c, distances[c * T::TILE + r]);
                }
            }
        }
    }

    fn add_log_lik_tile(&self, rows: &Rows<T>, range: Range<usize>, scratch: &mut Scratch<T>, tile: &mut [T]) -> bool {
        scratch.load_tile(rows, range);
        self.turn(scratch);
        let of_tile = (&scratch.turned[..], self.prior.dim);
        add_by_distance(of_tile, &self.points, &mut scratch.work, tile, |k, d| self.log_lik(k, d));
        true
    }

    fn add_log_predictive(&self, rows: &Rows<T>, range: Range<usize>, scratch: &mut Scratch<T>, weights: &mut [T]) {
        let Some(student) = &self.student else { return self.add_log_lik(rows, range, scratch, weights) };
        let (num, dim, count) = (self.num_clusters(), self.prior.dim, range.len());
        scratch.load_tile(rows, range);
        self.turn(scratch);
        let Scratch { turned, column, logs, .. } = scratch;
        for (k, point) in self.points.chunks_exact(dim).enumerate() {
            square_distances(turned, dim, point, column);
            student.log_density(k, &column[..count], logs);
            logs.iter().enumerate().for_each(|(r, &log)| weights[r * num + k] += T::from_f64(log));
        }
    }

    fn log_lik_of(&self, k: usize, rows: &Rows<T>, members: &[u32], scratch: &mut Scratch<T>, out: &mut [T]) {
        let dim = self.prior.dim;
        scratch.gather_tile(rows, members);
        self.turn(scratch);
        square_distances(&scratch.turned, dim, &self.points[k * dim..(k + 1) * dim], &mut scratch.column);
        for (out, &distance) in out.iter_mut().zip(&scratch.column[..members.len()]) {
            *out = self.log_lik(k, distance);
        }
    }

    fn shared_form(&self) -> Option<SharedForm<'_, T>> {
        Some(SharedForm { constants: &self.constant, factor: &self.precision.factor, means: &self.means })
    }

    fn predictive(&self) -> Option<Predictive<'_>> {
        self.student.as_ref().map(|student| student.predictive(|_| 1.0))
    }

    fn data_term(&self, counts: &[f64], stats: &[f64]) -> f64 {
        let dim = self.prior.dim;
        let kappa = if self.estimate == Estimate::MaxLikelihood { 0.0 } else { self.kappa };
        let scatter = pooled_scatter(counts, stats, kappa, &self.means, dim);
        self.term(counts, self.precision.trace(&self.prior, self.estimate, linalg::unpack(&scatter, dim)))
    }

    fn own_data_term(&self) -> f64 {
        self.own_data_term
    }

    /// What the one precision has in it is shared out among the clusters.
    fn log_prior(&self) -> Vec<f64> {
        let (dim, num) = (self.prior.dim, self.num_clusters());
        let (nothing, none) = (vec![0.0; linalg::packed_len(dim)], vec![0.0; dim]);
        let trace = self.precision.trace(&self.prior, Estimate::Map, linalg::unpack(&nothing, dim));
        let normaliser = map_normaliser(&self.prior, self.kappa, num);
        let count = pooled_count(Estimate::Map, &vec![0.0; num]);
        let shared = self.precision.data_term(&self.prior, Estimate::Map, count, trace, normaliser) / num as f64;
        let of_mean = |mean: &[f64]| {
            let pull = pooled_scatter(&[0.0], &[&none[..], &nothing].concat(), self.kappa, mean, dim);
            shared - 0.5 * linalg::trace_of_form(&self.precision.factor, &linalg::unpack(&pull, dim), dim)
        };
        self.means.chunks_exact(dim).map(of_mean).collect()
    }

    fn arrays(&self) -> Vec<NamedArray> {
        let (dim, num) = (self.prior.dim, self.num_clusters());
        let means = self.means.iter().enumerate().map(|(i, m)| m + self.center[i % dim]).collect();
        let mut arrays = vec![
            NamedArray::new("means", vec![num, dim], means),
            NamedArray::new("covariances", vec![dim, dim], self.precision.covariance(self.estimate, dim)),
        ];
        if self.estimate == Estimate::Posterior {
            // The same for all: the degrees of freedom are those of the one covariance.
            arrays.push(NamedArray::new("degrees", vec![num], vec![self.precision.nu; num]));
            arrays.push(NamedArray::new("mean_counts", vec![num], self.mean_counts.clone()));
        }
        arrays
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
