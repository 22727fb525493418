//! Gaussian clusters with full covariance under a normal-Wishart prior.

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use lsparse_kernels::{ConditionalPack, Real, TriangularPack, weighted_gram, weighted_sum};
use rayon::prelude::*;

use super::family::{
    Array, Family, OfMoments, Spread, about, add_second_moments, array, full_draw, planted_covariance, planted_means,
};
use super::missing::{Hole, holes, lacking, precision_matrix};
use super::single_rows::OfSingleRows;
use super::student::Student;
use super::wishart::{Precision, Unchanged, WishartPrior, pack};
use super::zero_mean_gauss::{fingerprints, kept_or_prior, own_terms, previous_covariances};
use super::{
    Clusters, Divergences, Estimate, GATHERED_ROWS, LN_2PI, Likelihood, LikelihoodKind, NamedArray, Predictive, Prior,
    Quadratic, Scratch, find_array,
};
use crate::backend::with_buffers;
use crate::data::Rows;
use crate::error::Result;
use crate::math::linalg;

/// Means and full covariances.
pub const FAMILY: Family = Family {
    name: "gauss",
    about: "mean and full covariance",
    has_means: true,
    allows_missing: true,
    wants_sparse_rows: false,
    of_categories: false,
    spread: Spread::AboutMean,
    takes_columns_alike: false,
    shares_covariance: false,
    default_nu: |dim| dim as f64 + 2.0,
    least_rows: |dim, clusters| dim * clusters,
    arrays: &[
        Array::of_columns("means"),
        Array { name: "covariances", shape: |e| vec![e.clusters, e.dim, e.dim], of_posterior: false },
        Array::of_clusters("degrees"),
        Array::of_clusters("mean_counts"),
    ],
    of_moments: Some(OfMoments::Products(|first, second, stat| {
        stat[..first.len()].copy_from_slice(first);
        stat[first.len()..].copy_from_slice(second);
    })),
    products: |dim| dim * (dim + 1) / 2,
    // With 64 columns exact search takes 1.1, 0.78 and 0.56 of the dense time for 50, 100 and 200 clusters, with 36 columns
    // 1.1 and 0.81 for 100 and 400.
    exact_pays: Some((32, 6400)),
    draws: |arrays, dim| {
        let means = array(arrays, "means")?.values.chunks_exact(dim);
        let covariances = array(arrays, "covariances")?.values.chunks_exact(dim * dim);
        let shapes = means.zip(covariances).enumerate();
        shapes.map(|(k, (mean, covariance))| full_draw(k, mean.to_vec(), covariance, dim)).collect()
    },
    plant: |clusters, dim, rng| {
        let means = planted_means(clusters, dim, rng);
        let values = (0..clusters).flat_map(|_| planted_covariance(dim, rng)).collect();
        vec![means, NamedArray::new("covariances", vec![clusters, dim, dim], values)]
    },
};

/// The family with its prior. Statistics, with y = x - center: sum r y (dim numbers), then the packed lower triangle
/// of sum r y y^T. The prior mean is the center, so it is zero in these coordinates.
pub struct Gauss<T> {
    prior: WishartPrior,
    /// Whether values may be missing.
    missing: bool,
    kappa: f64,
    center: Vec<f64>,
    center_t: Vec<T>,
}

impl<T: Real> Gauss<T> {
    pub fn new(prior: &Prior) -> Self {
        Gauss {
            prior: WishartPrior::new(prior),
            missing: prior.missing,
            kappa: prior.kappa,
            center: prior.center.clone(),
            center_t: prior.center.iter().map(|&c| T::from_f64(c)).collect(),
        }
    }
}

/// Completed rows that are held at once.
const ROWS_COMPLETED: usize = 256;

/// sum r (y - m)(y - m)^T + kappa m m^T from a packed sum r y y^T and sum r y, where `mean_count` = N + kappa.
fn center_packed(second: &mut [f64], first: &[f64], mean_count: f64, mean: &[f64]) {
    for i in 0..mean.len() {
        let row = &mut second[i * (i + 1) / 2..i * (i + 1) / 2 + i + 1];
        for (j, s) in row.iter_mut().enumerate() {
            *s += mean_count * mean[i] * mean[j] - first[i] * mean[j] - mean[i] * first[j];
        }
    }
}

/// The same of statistics in full, from packed ones.
fn scatter_about(second: &[f64], first: &[f64], mean_count: f64, mean: &[f64]) -> Vec<f64> {
    let mut packed = second.to_vec();
    center_packed(&mut packed, first, mean_count, mean);
    linalg::unpack(&packed, mean.len())
}

/// Scatter matrices of all clusters. Their memory stays with the thread that trains: fresh from the system it costs more than
/// they do.
#[derive(Default)]
struct Scatter(Vec<f64>);

impl<T: Real> Gauss<T> {
    /// The clusters of these statistics.
    fn estimate(
        &self,
        estimate: Estimate,
        counts: &[f64],
        stats: &[f64],
        previous: Option<&dyn Clusters<T>>,
        scatter: &mut Vec<f64>,
    ) -> Result<Box<dyn Clusters<T>>> {
        let dim = self.prior.dim;
        let (width, packed) = (Likelihood::<T>::stat_width(self), linalg::packed_len(dim));
        let kept = previous_covariances(estimate, counts, previous);
        let old_means = kept.as_ref().and_then(|arrays| arrays.iter().find(|a| a.name == "means"));
        let mut means = vec![0.0; counts.len() * dim];
        // All of it is written.
        scatter.resize(counts.len() * packed, 0.0);
        let clusters = means.par_chunks_mut(dim).zip(scatter.par_chunks_mut(packed));
        clusters.zip(stats.par_chunks(width)).zip(counts).enumerate().for_each(
            |(k, (((mean, scatter), stat), &count))| {
                let (first, second) = stat.split_at(dim);
                // m = (kappa m0 + sum r y) / (kappa + N), with m0 = 0 in these coordinates.
                let mean_count = if estimate == Estimate::MaxLikelihood { count } else { count + self.kappa };
                if mean_count > 0.0 {
                    mean.iter_mut().zip(first).for_each(|(m, s)| *m = s / mean_count);
                } else if let Some(old) = old_means {
                    (0..dim).for_each(|d| mean[d] = old.values[k * dim + d] - self.center[d]);
                }
                scatter.copy_from_slice(second);
                center_packed(scatter, first, mean_count, mean);
            },
        );
        let previous = previous.and_then(|p| p.as_any().downcast_ref::<GaussClusters<T>>());
        let fingerprints = fingerprints(estimate, counts, stats, width);
        let before = previous.map_or(&[][..], |p| &p.precisions);
        let kept = |k: usize| kept_or_prior(&kept, k, &self.prior);
        let precisions = Precision::estimate_all(&self.prior, estimate, counts, scatter, &fingerprints, before, kept)?;
        let unchanged = previous.map(|p| Unchanged { precisions: &p.precisions, pack: &p.pack });
        let mut clusters = GaussClusters::new(self, estimate, means, precisions, counts, unchanged.as_ref());
        let known = previous.map(|p| &p.own_terms[..]);
        clusters.own_terms = own_terms(counts, &clusters.precisions, unchanged, known, |k| {
            clusters.term(k, counts[k], clusters.precisions[k].own_trace)
        });
        Ok(Box::new(clusters))
    }
}

impl<T: Real> Likelihood<T> for Gauss<T> {
    fn kind(&self) -> LikelihoodKind {
        LikelihoodKind::Gauss
    }

    fn dim(&self) -> usize {
        self.prior.dim
    }

    fn set_deadline(&mut self, until: Option<Instant>) {
        self.prior.until = until;
    }

    fn stat_width(&self) -> usize {
        self.prior.dim + linalg::packed_len(self.prior.dim)
    }

    fn rows_at_once(&self) -> Option<usize> {
        Some(GATHERED_ROWS)
    }

    fn accumulate(&self, rows: &Rows<T>, members: &[u32], resp: &[T], scratch: &mut Scratch<T>, stat: &mut [f64]) {
        let dim = self.prior.dim;
        let (first, second) = stat.split_at_mut(dim);
        scratch.gather(rows, members, resp, &self.center, |rows, shares, outer| {
            weighted_sum(rows, shares, dim, first);
            weighted_gram(rows, shares, dim, outer, second);
        });
    }

    fn wants_whole_rows(&self) -> bool {
        self.missing
    }

    fn widen(&self, column: usize, amount: f64, stat: &mut [f64]) {
        stat[self.prior.dim + column * (column + 1) / 2 + column] += amount;
    }

    fn global_step(
        &self,
        estimate: Estimate,
        counts: &[f64],
        stats: &[f64],
        previous: Option<&dyn Clusters<T>>,
    ) -> Result<Box<dyn Clusters<T>>> {
        with_buffers(|Scatter(scatter): &mut Scatter| self.estimate(estimate, counts, stats, previous, scatter))
    }

    fn evidence(&self, counts: &[f64], stats: &[f64]) -> Result<Vec<f64>> {
        let (prior, dim) = (&self.prior, self.prior.dim);
        let mut scatter = Vec::with_capacity(counts.len() * linalg::packed_len(dim));
        for (&count, stat) in counts.iter().zip(stats.chunks_exact(Likelihood::<T>::stat_width(self))) {
            let (first, second) = stat.split_at(dim);
            let mean: Vec<f64> = first.iter().map(|s| s / (count + self.kappa)).collect();
            scatter.extend_from_slice(second);
            let own = scatter.len() - second.len();
            center_packed(&mut scatter[own..], first, count + self.kappa, &mean);
        }
        let worths = Precision::evidence(prior, counts, &scatter)?.into_iter().zip(counts);
        Ok(worths.map(|(worth, count)| worth + 0.5 * dim as f64 * (self.kappa / (count + self.kappa)).ln()).collect())
    }

    fn clusters_of(&self, arrays: &[NamedArray]) -> Result<Box<dyn Clusters<T>>> {
        let dim = self.prior.dim;
        let (num, covariances) = find_array(arrays, "covariances", &[dim, dim])?;
        let (_, means) = find_array(arrays, "means", &[dim])?;
        let precisions = Precision::from_covariances(covariances, dim)?;
        let means = means.iter().enumerate().map(|(i, m)| m - self.center[i % dim]).collect();
        let log_det: Vec<f64> = precisions.iter().map(|p| p.log_det).collect();
        let mut clusters = GaussClusters::new(self, Estimate::Map, means, precisions, &vec![0.0; num], None);
        clusters.student = Student::find(arrays, &log_det, dim, false)?;
        Ok(Box::new(clusters))
    }

    fn statistics_of(&self, counts: &[f64], arrays: &[NamedArray]) -> Result<Option<Vec<f64>>> {
        let dim = self.prior.dim;
        let (_, covariances) = find_array(arrays, "covariances", &[dim, dim])?;
        let means = about(find_array(arrays, "means", &[dim])?.1, &self.center);
        let mut stats = vec![0.0; counts.len() * Likelihood::<T>::stat_width(self)];
        let shapes = means.chunks_exact(dim).zip(covariances.chunks_exact(dim * dim)).zip(counts);
        for (stat, ((y, covariance), &count)) in stats.chunks_exact_mut(Likelihood::<T>::stat_width(self)).zip(shapes) {
            let (first, second) = stat.split_at_mut(dim);
            first.iter_mut().zip(y).for_each(|(s, y)| *s = count * y);
            add_second_moments(count, y, covariance, second);
        }
        Ok(Some(stats))
    }

    fn own_score(&self, rows: &Rows<T>, range: Range<usize>, out: &mut [f64]) {
        let p = &self.prior;
        let d = p.dim as f64;
        let n = 1.0 + p.map_count();
        // The scatter of one row about the MAP mean y/(1 + kappa), with the prior's pull, is kappa/(1 + kappa) y y^T.
        let shrink = self.kappa / (1.0 + self.kappa);
        let normaliser = map_normaliser(p, self.kappa);
        for (row, score) in range.zip(out) {
            let values = rows.dense_rows(row..row + 1);
            let norm = p.norm(values.iter().zip(&self.center).map(|(x, c)| x.to_f64() - c));
            let log_det = d * n.ln() - p.log_det_b() - (shrink * norm).ln_1p();
            *score = -0.5 * d * LN_2PI + normaliser + 0.5 * n * log_det - 0.5 * n * d;
        }
    }

    fn divergences<'a>(&'a self, rows: &'a Rows<T>) -> Option<Box<dyn Divergences + 'a>> {
        Some(Box::new(OfSingleRows::about_means(&self.prior, self.kappa, &self.center, rows)))
    }

    fn num_parameters(&self) -> usize {
        self.prior.dim + linalg::packed_len(self.prior.dim)
    }
}

/// log normaliser of the normal-Wishart prior, whose joint mode over mean and precision is the MAP estimate.
fn map_normaliser(prior: &WishartPrior, kappa: f64) -> f64 {
    prior.ln_normaliser(prior.log_det_b()) + 0.5 * prior.dim as f64 * (kappa.ln() - LN_2PI)
}

/// K fitted clusters.
struct GaussClusters<T: Real> {
    prior: WishartPrior,
    kappa: f64,
    estimate: Estimate,
    center: Vec<f64>,
    center_t: Vec<T>,
    /// K x dim, about the center.
    means: Vec<f64>,
    /// kappa + N_k under a posterior.
    mean_counts: Vec<f64>,
    precisions: Vec<Arc<Precision>>,
    /// Phi or its expectation and means in the data's coordinates, where values may be missing.
    completion: Option<ConditionalPack>,
    /// K x dim, in the data's coordinates.
    means_t: Vec<T>,
    pack: TriangularPack<T>,
    constant: Vec<T>,
    /// The predictive, of clusters made from the arrays of a posterior.
    student: Option<Student>,
    /// Each cluster's share of the data term for the statistics it was estimated from.
    own_terms: Vec<f64>,
}

impl<T: Real> GaussClusters<T> {
    fn new(
        family: &Gauss<T>,
        estimate: Estimate,
        means: Vec<f64>,
        precisions: Vec<Arc<Precision>>,
        counts: &[f64],
        unchanged: Option<&Unchanged<'_, T>>,
    ) -> Self {
        let dim = family.prior.dim;
        let mean_counts: Vec<f64> = counts.iter().map(|n| n + family.kappa).collect();
        let constant = precisions.iter().zip(&mean_counts).map(|(p, count)| {
            // The uncertainty of the mean costs D/(2 kappa_k) under a posterior.
            let spread = if estimate == Estimate::Posterior { dim as f64 / count } else { 0.0 };
            T::from_f64(-0.5 * dim as f64 * LN_2PI + 0.5 * p.log_det - 0.5 * spread)
        });
        GaussClusters {
            constant: constant.collect(),
            prior: family.prior.clone(),
            kappa: family.kappa,
            estimate,
            center: family.center.clone(),
            center_t: family.center_t.clone(),
            means_t: means.iter().enumerate().map(|(i, m)| T::from_f64(m + family.center[i % dim])).collect(),
            completion: family.missing.then(|| completion(&precisions, &means, &family.center)),
            means,
            mean_counts,
            pack: pack(&precisions, dim, unchanged),
            precisions,
            student: None,
            own_terms: Vec::new(),
        }
    }

    /// One cluster's share of the data term; `trace` is of the scatter about the cluster's own mean, prior included.
    fn term(&self, k: usize, count: f64, trace: f64) -> f64 {
        let dim = self.prior.dim as f64;
        let normaliser = map_normaliser(&self.prior, self.kappa);
        let mean_term = match self.estimate {
            // E[log N(mu | m0, (kappa Phi)^-1)] - E[log q(mu)] and the D/(2 kappa_k) of every row, without the parts
            // that the trace already holds.
            Estimate::Posterior => {
                let posterior_count = self.mean_counts[k];
                0.5 * dim * ((self.kappa / posterior_count).ln() + 1.0 - (count + self.kappa) / posterior_count)
            }
            _ => 0.0,
        };
        self.precisions[k].data_term(&self.prior, self.estimate, count, trace, normaliser) + mean_term
            - 0.5 * count * dim * LN_2PI
    }

    fn mean(&self, k: usize) -> &[f64] {
        &self.means[k * self.prior.dim..(k + 1) * self.prior.dim]
    }

    /// The rows of a range that lack values, where they may.
    fn holes(&self, rows: &Rows<T>, range: Range<usize>) -> Vec<Hole> {
        if self.completion.is_some() { holes(rows, range) } else { Vec::new() }
    }
}

/// What clusters complete rows by: precisions, and means (which are given about the center).
fn completion(precisions: &[Arc<Precision>], means: &[f64], center: &[f64]) -> ConditionalPack {
    let dim = center.len();
    let matrices: Vec<Vec<f64>> = precisions.par_iter().map(|p| precision_matrix(&p.factor, dim)).collect();
    let mut pack = ConditionalPack::new(precisions.len(), dim);
    for (k, (matrix, mean)) in matrices.iter().zip(means.chunks_exact(dim)).enumerate() {
        let mean: Vec<f64> = mean.iter().zip(center).map(|(m, c)| m + c).collect();
        pack.set(k, matrix, &mean);
    }
    pack
}

/// What the missing part of a row may be besides what is expected there, its integral: |M|/2 log 2 pi - log |Phi_MM|/2.
fn worth_of(hole: &Hole, log_det: f64) -> f64 {
    0.5 * (hole.columns.len() as f64 * LN_2PI - log_det)
}

impl<T: Real> Clusters<T> for GaussClusters<T> {
    fn num_clusters(&self) -> usize {
        self.precisions.len()
    }

    fn add_log_lik(&self, rows: &Rows<T>, range: Range<usize>, scratch: &mut Scratch<T>, weights: &mut [T]) {
        let (num, dim, first, count) = (self.num_clusters(), self.prior.dim, range.start, range.len());
        let holes = self.holes(rows, range.clone());
        scratch.load_tile(rows, range);
        let Scratch { tile, work, column, completed, .. } = scratch;
        let half = T::from_f64(0.5);
        for k in 0..num {
            if let Some(pack) = self.completion.as_ref().filter(|_| !holes.is_empty()) {
                let lane = k % ConditionalPack::WIDTH;
                if lane == 0 {
                    completed.by_group(pack, k / ConditionalPack::WIDTH, (rows, first), &holes);
                }
                completed.fill(lane, &holes, tile);
                for (hole, log_det) in holes.iter().zip(completed.log_dets(lane)) {
                    weights[hole.row * num + k] += T::from_f64(worth_of(hole, log_det));
                }
            }
            self.pack.quad_forms(k, tile, Some(&self.means_t[k * dim..(k + 1) * dim]), work, column);
            // E[log F] = -D/2 log 2 pi + E[log |Phi|]/2 - D/(2 kappa_k) - (x - m_k)^T E[Phi_k] (x - m_k) / 2
            for (r, &quad) in column[..count].iter().enumerate() {
                weights[r * num + k] += self.constant[k] - half * quad;
            }
        }
    }

    fn add_log_lik_tile(&self, rows: &Rows<T>, range: Range<usize>, scratch: &mut Scratch<T>, tile: &mut [T]) -> bool {
        if self.completion.is_some() {
            return false;
        }
        scratch.load_tile(rows, range);
        let Scratch { tile: rows, work, column, .. } = scratch;
        let half = T::from_f64(0.5);
        let clusters = self.means_t.chunks_exact(self.prior.dim).zip(&self.constant).enumerate();
        for (weights, (k, (mean, &constant))) in tile.chunks_exact_mut(T::TILE).zip(clusters) {
            self.pack.quad_forms(k, rows, Some(mean), work, column);
            weights.iter_mut().zip(&*column).for_each(|(weight, &quad)| *weight += constant - half * quad);
        }
        true
    }

    fn add_log_predictive(&self, rows: &Rows<T>, range: Range<usize>, scratch: &mut Scratch<T>, weights: &mut [T]) {
        let Some(student) = &self.student else { return self.add_log_lik(rows, range, scratch, weights) };
        let (num, dim, first, count) = (self.num_clusters(), self.prior.dim, range.start, range.len());
        let holes = self.holes(rows, range.clone());
        scratch.load_tile(rows, range);
        let Scratch { tile, work, column, logs, completed, .. } = scratch;
        for k in 0..num {
            let lane = k % ConditionalPack::WIDTH;
            if let Some(pack) = self.completion.as_ref().filter(|_| !holes.is_empty()) {
                if lane == 0 {
                    completed.by_group(pack, k / ConditionalPack::WIDTH, (rows, first), &holes);
                }
                completed.fill(lane, &holes, tile);
            }
            self.pack.quad_forms(k, tile, Some(&self.means_t[k * dim..(k + 1) * dim]), work, column);
            student.log_density(k, &column[..count], logs);
            if !holes.is_empty() {
                for (hole, log_det) in holes.iter().zip(completed.log_dets(lane)) {
                    logs[hole.row] = student.log_marginal(k, column[hole.row].to_f64(), hole.columns.len(), log_det);
                }
            }
            logs.iter().enumerate().for_each(|(r, &log)| weights[r * num + k] += T::from_f64(log));
        }
    }

    fn log_lik_of(&self, k: usize, rows: &Rows<T>, members: &[u32], scratch: &mut Scratch<T>, out: &mut [T]) {
        let dim = self.prior.dim;
        scratch.gather_tile(rows, members);
        let Scratch { tile, work, column, completed, .. } = scratch;
        let lacking = self.completion.as_ref().and_then(|pack| Some((pack, lacking(rows, members)?)));
        let (group, lane) = (k / ConditionalPack::WIDTH, k % ConditionalPack::WIDTH);
        if let Some((pack, (rows, holes))) = &lacking {
            completed.by_group(pack, group, (rows, 0), holes);
            completed.fill(lane, holes, tile);
        }
        let mean = &self.means_t[k * dim..(k + 1) * dim];
        self.pack.quad_forms_of_first(members.len(), k, tile, Some(mean), work, column);
        let half = T::from_f64(0.5);
        for (out, &quad) in out.iter_mut().zip(&column[..members.len()]) {
            *out = self.constant[k] - half * quad;
        }
        for (hole, log_det) in lacking.iter().flat_map(|(_, (_, holes))| holes.iter().zip(completed.log_dets(lane))) {
            out[hole.row] += T::from_f64(worth_of(hole, log_det));
        }
    }

    fn predictive(&self) -> Option<Predictive<'_>> {
        self.student.as_ref().map(|student| student.predictive(|_| 1.0))
    }

    fn quadratic(&self, k: usize) -> Option<Quadratic<'_, T>> {
        let mean = &self.means_t[k * self.prior.dim..(k + 1) * self.prior.dim];
        let factor = &self.precisions[k].factor;
        Some(Quadratic { constant: self.constant[k], factor, mean, center: &self.center_t })
    }

    fn completes_rows(&self) -> bool {
        self.completion.is_some()
    }

    /// `E[y]` is the row completed, and `E[y y^T]` its square and the covariance of what was missing.
    fn accumulate_expected(
        &self,
        k: usize,
        rows: &Rows<T>,
        members: &[u32],
        resp: &[T],
        scratch: &mut Scratch<T>,
        stat: &mut [f64],
    ) -> f64 {
        let dim = self.prior.dim;
        let (first, second) = stat.split_at_mut(dim);
        let mut alike: Vec<(Hole, f64)> = Vec::with_capacity(members.len());
        for (&m, share) in members.iter().zip(resp) {
            let found = holes(rows, m as usize..m as usize + 1);
            alike.extend(found.into_iter().map(|hole| (Hole { row: m as usize, ..hole }, share.to_f64())));
        }
        alike.sort_by(|a, b| a.0.cmp(&b.0));
        let Some(pack) = &self.completion else { return 0.0 };
        let Scratch { gathered, shares, outer, completed, .. } = scratch;
        let mut entropy = 0.0;
        for some in alike.chunks(ROWS_COMPLETED) {
            gathered.clear();
            shares.clear();
            for alike in some.chunk_by(|a, b| a.0.columns == b.0.columns) {
                let columns = &alike[0].0.columns;
                entropy += completed.alike(pack, k, rows, alike, second, |row, values, share| {
                    let at = gathered.len();
                    gathered.extend(row.iter().zip(&self.center).map(|(x, c)| x - c));
                    for (&d, value) in columns.iter().zip(values) {
                        gathered[at + d as usize] = value - self.center[d as usize];
                    }
                    shares.push(share);
                });
            }
            weighted_sum(gathered, shares, dim, first);
            weighted_gram(gathered, shares, dim, outer, second);
        }
        entropy
    }

    fn draw_missing(&self, k: usize, row: &mut [T], scratch: &mut Scratch<T>, normal: &mut dyn FnMut() -> f64) {
        if let Some(pack) = &self.completion {
            scratch.completed.draw(pack, k, row, normal);
        }
    }

    fn data_term(&self, counts: &[f64], stats: &[f64]) -> f64 {
        let dim = self.prior.dim;
        let width = dim + linalg::packed_len(dim);
        let term = |k: usize| {
            let stat = &stats[k * width..(k + 1) * width];
            let kappa = if self.estimate == Estimate::MaxLikelihood { 0.0 } else { self.kappa };
            let scatter = scatter_about(&stat[dim..], &stat[..dim], counts[k] + kappa, self.mean(k));
            self.term(k, counts[k], self.precisions[k].trace(&self.prior, self.estimate, scatter))
        };
        (0..counts.len()).map(term).sum()
    }

    fn own_data_term(&self) -> f64 {
        self.own_terms.iter().sum()
    }

    fn log_prior(&self) -> Vec<f64> {
        let dim = self.prior.dim;
        let zero = (vec![0.0; linalg::packed_len(dim)], vec![0.0; dim]);
        let log_prior = |k: usize| {
            let p = &self.precisions[k];
            let scatter = scatter_about(&zero.0, &zero.1, self.kappa, self.mean(k));
            let trace = p.trace(&self.prior, Estimate::Map, scatter);
            p.data_term(&self.prior, Estimate::Map, 0.0, trace, map_normaliser(&self.prior, self.kappa))
        };
        (0..self.num_clusters()).map(log_prior).collect()
    }

    fn arrays(&self) -> Vec<NamedArray> {
        let (dim, num) = (self.prior.dim, self.num_clusters());
        let means = self.means.iter().enumerate().map(|(i, m)| m + self.center[i % dim]).collect();
        let covariances = self.precisions.par_iter().flat_map_iter(|p| p.covariance(self.estimate, dim)).collect();
        let mut arrays = vec![
            NamedArray::new("means", vec![num, dim], means),
            NamedArray::new("covariances", vec![num, dim, dim], covariances),
        ];
        if self.estimate == Estimate::Posterior {
            let degrees = self.precisions.iter().map(|p| p.nu).collect();
            arrays.push(NamedArray::new("degrees", vec![num], degrees));
            arrays.push(NamedArray::new("mean_counts", vec![num], self.mean_counts.clone()));
        }
        arrays
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
