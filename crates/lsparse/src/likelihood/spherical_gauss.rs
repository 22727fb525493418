//! Gaussian clusters with one variance for all columns under a normal-gamma prior.

use std::any::Any;
use std::ops::Range;

use lsparse_kernels::{Real, digamma, ln_gamma, square_distances, weighted_moments};

use super::family::{Array, Family, OfMoments, Spread, about, array, diagonal_draw, planted_means, planted_variance};
use super::student::Student;
use super::{
    CLUSTERS_AT_ONCE, Clusters, Diagonal, Estimate, LN_2PI, Likelihood, LikelihoodKind, NamedArray, Predictive, Prior,
    Scratch, add_by_distance, average, find_array,
};
use crate::data::Rows;
use crate::error::Result;

/// Means and a variance.
pub const FAMILY: Family = Family {
    name: "spherical-gauss",
    about: "mean and one variance for all columns",
    has_means: true,
    allows_missing: false,
    wants_sparse_rows: false,
    of_categories: false,
    spread: Spread::AboutMean,
    takes_columns_alike: true,
    shares_covariance: false,
    // The prior is that of a single number.
    default_nu: |_| 3.0,
    least_rows: |_, clusters| clusters,
    arrays: &[
        Array::of_columns("means"),
        Array { name: "variances", shape: |e| vec![e.clusters], of_posterior: false },
        Array::of_clusters("degrees"),
        Array::of_clusters("mean_counts"),
    ],
    of_moments: Some(OfMoments::Squares(|first, second, stat| {
        stat[..first.len()].copy_from_slice(first);
        stat[first.len()] = second.iter().sum();
    })),
    products: |dim| dim,
    // Never: with 1,600 clusters of 64 columns a distance still takes no longer than its bound (1.0 of the dense time).
    exact_pays: Some((usize::MAX, usize::MAX)),
    draws: |arrays, dim| {
        let means = array(arrays, "means")?.values.chunks_exact(dim);
        let shapes = means.zip(&array(arrays, "variances")?.values);
        Ok(shapes.map(|(mean, &variance)| diagonal_draw(mean.to_vec(), std::iter::repeat_n(variance, dim))).collect())
    },
    plant: |clusters, dim, rng| {
        let means = planted_means(clusters, dim, rng);
        let values = (0..clusters).map(|_| planted_variance(rng)).collect();
        vec![means, NamedArray::new("variances", vec![clusters], values)]
    },
};

/// The family with its prior: precision ~ Gamma(nu/2, rate beta/2), mean ~ N(center, I/(kappa precision)).
/// Statistics, with y = x - center: sum r y (dim numbers), then sum r |y|^2.
pub struct SphericalGauss {
    prior: GammaPrior,
    center: Vec<f64>,
}

#[derive(Clone)]
struct GammaPrior {
    dim: usize,
    nu: f64,
    beta: f64,
    kappa: f64,
    variance_floor: f64,
}

impl GammaPrior {
    /// log normaliser of Gamma(nu/2, rate beta/2).
    fn ln_gamma_density(nu: f64, beta: f64) -> f64 {
        0.5 * nu * (0.5 * beta).ln() - ln_gamma(0.5 * nu)
    }

    /// log normaliser of the normal-gamma prior, whose joint mode is the MAP estimate.
    fn map_normaliser(&self) -> f64 {
        Self::ln_gamma_density(self.nu, self.beta) + 0.5 * self.dim as f64 * (self.kappa.ln() - LN_2PI)
    }

    /// nu' of the MAP variance (S + beta) / (N D + nu'): the mean's own density has a share of D.
    fn map_count(&self) -> f64 {
        self.nu - 2.0 + self.dim as f64
    }
}

impl SphericalGauss {
    pub fn new(prior: &Prior) -> Self {
        SphericalGauss {
            prior: GammaPrior {
                dim: prior.dim,
                nu: prior.nu,
                beta: average(&prior.variance) * (prior.nu - 2.0),
                kappa: prior.kappa,
                variance_floor: average(&prior.variance_floor),
            },
            center: prior.center.clone(),
        }
    }
}

/// sum r |y - m|^2 + kappa |m|^2 from the two moments, where `mean_count` = N + kappa.
fn scatter_about(second: f64, first: &[f64], mean_count: f64, mean: &[f64]) -> f64 {
    let pull: f64 = first.iter().zip(mean).map(|(s, m)| m * (mean_count * m - 2.0 * s)).sum();
    (second + pull).max(0.0)
}

impl<T: Real> Likelihood<T> for SphericalGauss {
    fn kind(&self) -> LikelihoodKind {
        LikelihoodKind::SphericalGauss
    }

    fn dim(&self) -> usize {
        self.prior.dim
    }

    fn stat_width(&self) -> usize {
        self.prior.dim + 1
    }

    fn accumulate(&self, rows: &Rows<T>, members: &[u32], resp: &[T], _scratch: &mut Scratch<T>, stat: &mut [f64]) {
        let dim = self.prior.dim;
        let (first, second) = stat.split_at_mut(dim);
        let mut squares = vec![0.0; dim];
        weighted_moments(rows.dense_rows(0..rows.len()), members, resp, &self.center, first, &mut squares);
        second[0] += squares.iter().sum::<f64>();
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
        let old = previous.filter(|_| counts.iter().any(|&n| empty_ml(n))).map(|c| c.arrays());
        let mut means = vec![0.0; counts.len() * dim];
        let mut scales = vec![0.0; counts.len()];
        let clusters = means.chunks_exact_mut(dim).zip(&mut scales).zip(stats.chunks_exact(dim + 1)).zip(counts);
        for (k, (((mean, scale), stat), &count)) in clusters.enumerate() {
            if empty_ml(count) {
                // It keeps its old shape, or the prior's when it never had one.
                *scale = old.as_ref().map_or(p.beta / p.map_count(), |arrays| arrays[1].values[k]);
                if let Some(arrays) = &old {
                    let old_mean = &arrays[0].values[k * dim..(k + 1) * dim];
                    mean.iter_mut().zip(old_mean.iter().zip(&self.center)).for_each(|(m, (o, c))| *m = o - c);
                }
                continue;
            }
            let (first, second) = stat.split_at(dim);
            let mean_count = count + if estimate == Estimate::MaxLikelihood { 0.0 } else { p.kappa };
            mean.iter_mut().zip(first).for_each(|(m, s)| *m = s / mean_count);
            let scatter = scatter_about(second[0], first, mean_count, mean);
            *scale = match estimate {
                Estimate::Posterior => scatter + p.beta,
                Estimate::Map => (scatter + p.beta) / (count * dim as f64 + p.map_count()),
                Estimate::MaxLikelihood => (scatter / (count * dim as f64)).max(p.variance_floor),
            };
        }
        let mut clusters = SphericalGaussClusters::new(self, estimate, means, scales, counts);
        clusters.own_data_term = clusters.data_term(counts, stats);
        Ok(Box::new(clusters))
    }

    fn clusters_of(&self, arrays: &[NamedArray]) -> Result<Box<dyn Clusters<T>>> {
        let dim = self.prior.dim;
        let (num, means) = find_array(arrays, "means", &[dim])?;
        let (_, variances) = find_array(arrays, "variances", &[])?;
        let means = means.iter().enumerate().map(|(i, m)| m - self.center[i % dim]).collect();
        let mut clusters = SphericalGaussClusters::new(self, Estimate::Map, means, variances.to_vec(), &vec![0.0; num]);
        clusters.student = Student::find_spherical(arrays, variances, dim)?;
        Ok(Box::new(clusters))
    }

    fn statistics_of(&self, counts: &[f64], arrays: &[NamedArray]) -> Result<Option<Vec<f64>>> {
        let dim = self.prior.dim;
        let (_, variances) = find_array(arrays, "variances", &[])?;
        let means = about(find_array(arrays, "means", &[dim])?.1, &self.center);
        let mut stats = Vec::with_capacity(counts.len() * (dim + 1));
        for ((y, variance), count) in means.chunks_exact(dim).zip(variances).zip(counts) {
            stats.extend(y.iter().map(|y| count * y));
            stats.push(count * (dim as f64 * variance + y.iter().map(|y| y * y).sum::<f64>()));
        }
        Ok(Some(stats))
    }

    fn own_score(&self, rows: &Rows<T>, range: Range<usize>, out: &mut [f64]) {
        let p = &self.prior;
        let n = p.dim as f64 + p.map_count();
        let shrink = p.kappa / (1.0 + p.kappa);
        let normaliser = p.map_normaliser();
        for (row, score) in range.zip(out) {
            let values = rows.dense_rows(row..row + 1);
            let norm: f64 = values.iter().zip(&self.center).map(|(x, c)| (x.to_f64() - c).powi(2)).sum();
            let variance = (shrink * norm + p.beta) / n;
            *score = normaliser - 0.5 * p.dim as f64 * LN_2PI - 0.5 * n * (variance.ln() + 1.0);
        }
    }

    fn num_parameters(&self) -> usize {
        self.prior.dim + 1
    }
}

/// K fitted clusters.
struct SphericalGaussClusters<T: Real> {
    prior: GammaPrior,
    estimate: Estimate,
    center: Vec<f64>,
    /// K x dim, about the center.
    means: Vec<f64>,
    /// K: beta_k under a posterior, the variance otherwise.
    scales: Vec<f64>,
    /// N_k at the time of the global step.
    counts: Vec<f64>,
    means_t: Vec<T>,
    /// K x dim, the same number for all columns of a cluster: what bounds by columns are made from.
    precisions_t: Vec<T>,
    constant: Vec<T>,
    /// The predictive, of clusters made from the arrays of a posterior.
    student: Option<Student>,
    own_data_term: f64,
}

impl<T: Real> SphericalGaussClusters<T> {
    fn new(family: &SphericalGauss, estimate: Estimate, means: Vec<f64>, scales: Vec<f64>, counts: &[f64]) -> Self {
        let dim = family.prior.dim;
        let mut clusters = SphericalGaussClusters {
            prior: family.prior.clone(),
            estimate,
            center: family.center.clone(),
            means_t: means.iter().enumerate().map(|(i, m)| T::from_f64(m + family.center[i % dim])).collect(),
            means,
            scales,
            counts: counts.to_vec(),
            precisions_t: Vec::new(),
            constant: Vec::new(),
            student: None,
            own_data_term: 0.0,
        };
        for (k, count) in counts.iter().enumerate() {
            let (precision, log_precision) = clusters.precision(k);
            // The uncertainty of the mean costs D/(2 kappa_k) under a posterior.
            let spread = if estimate == Estimate::Posterior { 1.0 / (count + family.prior.kappa) } else { 0.0 };
            clusters.constant.push(T::from_f64(0.5 * dim as f64 * (log_precision - LN_2PI - spread)));
            clusters.precisions_t.resize((k + 1) * dim, T::from_f64(precision));
        }
        clusters
    }

    /// The precision and its log, or their expectations under a posterior.
    fn precision(&self, k: usize) -> (f64, f64) {
        let scale = self.scales[k];
        match self.estimate {
            Estimate::Posterior => {
                let nu = self.posterior_nu(k);
                (nu / scale, digamma(0.5 * nu) - (0.5 * scale).ln())
            }
            _ => (1.0 / scale, -scale.ln()),
        }
    }

    /// nu_k = nu + N_k D.
    fn posterior_nu(&self, k: usize) -> f64 {
        self.prior.nu + self.counts[k] * self.prior.dim as f64
    }

    /// One cluster's share of the data term; `scatter` is about the cluster's mean, prior pull included.
    fn term(&self, k: usize, count: f64, scatter: f64) -> f64 {
        let p = &self.prior;
        let dim = p.dim as f64;
        let (precision, log_precision) = self.precision(k);
        let own = match self.estimate {
            Estimate::Posterior => {
                let (nu, beta) = (self.posterior_nu(k), self.scales[k]);
                let mean_count = self.counts[k] + p.kappa;
                GammaPrior::ln_gamma_density(p.nu, p.beta) - GammaPrior::ln_gamma_density(nu, beta)
                    + 0.5 * (count * dim + p.nu - nu) * log_precision
                    - 0.5 * (scatter + p.beta - beta) * precision
                    + 0.5 * dim * ((p.kappa / mean_count).ln() + 1.0 - (count + p.kappa) / mean_count)
            }
            Estimate::Map => {
                p.map_normaliser() + 0.5 * (count * dim + p.map_count()) * log_precision
                    - 0.5 * (scatter + p.beta) * precision
            }
            Estimate::MaxLikelihood if count <= 0.0 => 0.0,
            Estimate::MaxLikelihood => 0.5 * count * dim * log_precision - 0.5 * scatter * precision,
        };
        own - 0.5 * count * dim * LN_2PI
    }

    fn mean(&self, k: usize) -> &[f64] {
        &self.means[k * self.prior.dim..(k + 1) * self.prior.dim]
    }

    /// `E[log F] = -D/2 log 2 pi + D/2 E[log tau] - D/(2 kappa_k) - E[tau] |x - m_k|^2 / 2`
    fn log_lik(&self, k: usize, distance: T) -> T {
        self.constant[k] - T::from_f64(0.5) * (self.precisions_t[k * self.prior.dim] * distance)
    }
}

impl<T: Real> Clusters<T> for SphericalGaussClusters<T> {
    fn num_clusters(&self) -> usize {
        self.counts.len()
    }

    fn add_log_lik(&self, rows: &Rows<T>, range: Range<usize>, scratch: &mut Scratch<T>, weights: &mut [T]) {
        let (num, dim) = (self.num_clusters(), self.prior.dim);
        scratch.load_tile(rows, range);
        scratch.work.resize(CLUSTERS_AT_ONCE * T::TILE, T::ZERO);
        for (group, means) in self.means_t.chunks(CLUSTERS_AT_ONCE * dim).enumerate() {
            let (first, together) = (group * CLUSTERS_AT_ONCE, means.len() / dim);
            let distances = &mut scratch.work[..together * T::TILE];
            square_distances(&scratch.tile, dim, means, distances);
            for (r, weights) in weights.chunks_exact_mut(num).enumerate() {
                for (c, weight) in weights[first..first + together].iter_mut().enumerate() {
                    *weight += self.log_lik(first + c, distances[c * T::TILE + r]);
                }
            }
        }
    }

    fn add_log_lik_tile(&self, rows: &Rows<T>, range: Range<usize>, scratch: &mut Scratch<T>, tile: &mut [T]) -> bool {
        scratch.load_tile(rows, range);
        let of_tile = (&scratch.tile[..], self.prior.dim);
        add_by_distance(of_tile, &self.means_t, &mut scratch.work, tile, |k, d| self.log_lik(k, d));
        true
    }

    fn add_log_predictive(&self, rows: &Rows<T>, range: Range<usize>, scratch: &mut Scratch<T>, weights: &mut [T]) {
        let Some(student) = &self.student else { return self.add_log_lik(rows, range, scratch, weights) };
        let (num, dim, count) = (self.num_clusters(), self.prior.dim, range.len());
        scratch.load_tile(rows, range);
        let Scratch { tile, column, logs, .. } = scratch;
        for (k, mean) in self.means_t.chunks_exact(dim).enumerate() {
            square_distances(tile, dim, mean, column);
            student.log_density(k, &column[..count], logs);
            logs.iter().enumerate().for_each(|(r, &log)| weights[r * num + k] += T::from_f64(log));
        }
    }

    fn log_lik_of(&self, k: usize, rows: &Rows<T>, members: &[u32], scratch: &mut Scratch<T>, out: &mut [T]) {
        let dim = self.prior.dim;
        scratch.gather_tile(rows, members);
        square_distances(&scratch.tile, dim, &self.means_t[k * dim..(k + 1) * dim], &mut scratch.column);
        for (out, &distance) in out.iter_mut().zip(&scratch.column[..members.len()]) {
            *out = self.log_lik(k, distance);
        }
    }

    fn predictive(&self) -> Option<Predictive<'_>> {
        let student = self.student.as_ref()?;
        // Its form is the squared distance, that of the cluster has a precision in it.
        Some(student.predictive(|k| self.precisions_t[k * self.prior.dim].to_f64().recip()))
    }

    fn diagonal(&self, k: usize) -> Option<Diagonal<'_, T>> {
        let of_k = k * self.prior.dim..(k + 1) * self.prior.dim;
        let (mean, precision) = (&self.means_t[of_k.clone()], &self.precisions_t[of_k]);
        Some(Diagonal { constant: self.constant[k], mean, precision })
    }

    fn data_term(&self, counts: &[f64], stats: &[f64]) -> f64 {
        let dim = self.prior.dim;
        let kappa = if self.estimate == Estimate::MaxLikelihood { 0.0 } else { self.prior.kappa };
        let term = |(k, (stat, &count)): (usize, (&[f64], &f64))| {
            let (first, second) = stat.split_at(dim);
            self.term(k, count, scatter_about(second[0], first, count + kappa, self.mean(k)))
        };
        stats.chunks_exact(dim + 1).zip(counts).enumerate().map(term).sum()
    }

    fn own_data_term(&self) -> f64 {
        self.own_data_term
    }

    fn log_prior(&self) -> Vec<f64> {
        let zero = vec![0.0; self.prior.dim];
        let pull = |k: usize| scatter_about(0.0, &zero, self.prior.kappa, self.mean(k));
        (0..self.num_clusters()).map(|k| self.term(k, 0.0, pull(k))).collect()
    }

    fn arrays(&self) -> Vec<NamedArray> {
        let (num, dim) = (self.num_clusters(), self.prior.dim);
        let means = self.means.iter().enumerate().map(|(i, m)| m + self.center[i % dim]).collect();
        let variance = |k: usize| match self.estimate {
            // E[1/precision] = beta_k / (nu_k - 2)
            Estimate::Posterior => self.scales[k] / (self.posterior_nu(k) - 2.0),
            _ => self.scales[k],
        };
        let mut arrays = vec![
            NamedArray::new("means", vec![num, dim], means),
            NamedArray::new("variances", vec![num], (0..num).map(variance).collect()),
        ];
        if self.estimate == Estimate::Posterior {
            let degrees = (0..num).map(|k| self.posterior_nu(k)).collect();
            arrays.push(NamedArray::new("degrees", vec![num], degrees));
            let mean_counts = self.counts.iter().map(|n| n + self.prior.kappa).collect();
            arrays.push(NamedArray::new("mean_counts", vec![num], mean_counts));
        }
        arrays
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
