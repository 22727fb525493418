//! Gaussian clusters with zero mean and full covariance under a Wishart prior: the paper's model of image patches.

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use lsparse_kernels::{Real, TriangularPack, weighted_gram};
use rayon::prelude::*;

use super::family::{Array, Family, OfMoments, Spread, add_second_moments, array, full_draw, planted_covariance};
use super::single_rows::OfSingleRows;
use super::student::Student;
use super::wishart::{Precision, Unchanged, WishartPrior, fingerprint, ln_wishart, pack};
use super::{
    Clusters, Divergences, Estimate, GATHERED_ROWS, LN_2PI, Likelihood, LikelihoodKind, NamedArray, Predictive, Prior,
    Quadratic, Scratch, find_array,
};
use crate::data::Rows;
use crate::error::Result;
use crate::math::linalg;

/// Zero means.
pub const FAMILY: Family = Family {
    name: "zero-mean-gauss",
    about: "zero mean, full covariance: image patches",
    has_means: false,
    allows_missing: false,
    wants_sparse_rows: false,
    of_categories: false,
    spread: Spread::AboutZero,
    takes_columns_alike: false,
    shares_covariance: false,
    default_nu: |dim| dim as f64 + 2.0,
    least_rows: |dim, clusters| dim * clusters,
    arrays: &[
        Array { name: "covariances", shape: |e| vec![e.clusters, e.dim, e.dim], of_posterior: false },
        Array::of_clusters("degrees"),
    ],
    of_moments: Some(OfMoments::Products(|_, second, stat| stat.copy_from_slice(second))),
    products: |dim| dim * (dim + 1) / 2,
    // With 64 columns exact search takes 1.1, 0.78 and 0.56 of the dense time for 50, 100 and 200 clusters, with 36 columns
    // 1.1 and 0.81 for 100 and 400.
    exact_pays: Some((32, 6400)),
    draws: |arrays, dim| {
        let covariances = array(arrays, "covariances")?.values.chunks_exact(dim * dim);
        covariances.enumerate().map(|(k, covariance)| full_draw(k, Vec::new(), covariance, dim)).collect()
    },
    plant: |clusters, dim, rng| {
        let values = (0..clusters).flat_map(|_| planted_covariance(dim, rng)).collect();
        vec![NamedArray::new("covariances", vec![clusters, dim, dim], values)]
    },
};

/// The family with its prior. Statistics: the packed lower triangle of sum r x x^T.
pub struct ZeroMeanGauss {
    prior: WishartPrior,
}

impl ZeroMeanGauss {
    pub fn new(prior: &Prior) -> Self {
        ZeroMeanGauss { prior: WishartPrior::new(prior) }
    }
}

/// The normaliser of the prior whose mode is the MAP estimate: a Wishart with one more degree of freedom.
fn map_normaliser(prior: &WishartPrior) -> f64 {
    ln_wishart(prior.nu + 1.0, prior.log_det_b(), prior.dim)
}

impl<T: Real> Likelihood<T> for ZeroMeanGauss {
    fn kind(&self) -> LikelihoodKind {
        LikelihoodKind::ZeroMeanGauss
    }

    fn dim(&self) -> usize {
        self.prior.dim
    }

    fn set_deadline(&mut self, until: Option<Instant>) {
        self.prior.until = until;
    }

    fn stat_width(&self) -> usize {
        linalg::packed_len(self.prior.dim)
    }

    fn rows_at_once(&self) -> Option<usize> {
        Some(GATHERED_ROWS)
    }

    fn accumulate(&self, rows: &Rows<T>, members: &[u32], resp: &[T], scratch: &mut Scratch<T>, stat: &mut [f64]) {
        scratch.gather(rows, members, resp, &[], |rows, shares, outer| {
            weighted_gram(rows, shares, self.prior.dim, outer, stat);
        });
    }

    fn global_step(
        &self,
        estimate: Estimate,
        counts: &[f64],
        stats: &[f64],
        previous: Option<&dyn Clusters<T>>,
    ) -> Result<Box<dyn Clusters<T>>> {
        let kept = previous_covariances(estimate, counts, previous);
        let previous = previous.and_then(|p| p.as_any().downcast_ref::<ZeroMeanGaussClusters<T>>());
        let fingerprints = fingerprints(estimate, counts, stats, Likelihood::<T>::stat_width(self));
        let before = previous.map_or(&[][..], |p| &p.precisions);
        let kept = |k: usize| kept_or_prior(&kept, k, &self.prior);
        let precisions = Precision::estimate_all(&self.prior, estimate, counts, stats, &fingerprints, before, kept)?;
        Ok(Box::new(ZeroMeanGaussClusters::<T>::new(self.prior.clone(), estimate, precisions, counts, previous)))
    }

    fn evidence(&self, counts: &[f64], stats: &[f64]) -> Result<Vec<f64>> {
        Precision::evidence(&self.prior, counts, stats)
    }

    fn clusters_of(&self, arrays: &[NamedArray]) -> Result<Box<dyn Clusters<T>>> {
        let dim = self.prior.dim;
        let (_, covariances) = find_array(arrays, "covariances", &[dim, dim])?;
        let precisions = Precision::from_covariances(covariances, dim)?;
        let log_det: Vec<f64> = precisions.iter().map(|p| p.log_det).collect();
        let mut clusters = ZeroMeanGaussClusters::<T>::new(self.prior.clone(), Estimate::Map, precisions, &[], None);
        clusters.student = Student::find(arrays, &log_det, dim, true)?;
        Ok(Box::new(clusters))
    }

    fn statistics_of(&self, counts: &[f64], arrays: &[NamedArray]) -> Result<Option<Vec<f64>>> {
        let dim = self.prior.dim;
        let (_, covariances) = find_array(arrays, "covariances", &[dim, dim])?;
        let mut stats = vec![0.0; counts.len() * Likelihood::<T>::stat_width(self)];
        let packed = stats.chunks_exact_mut(Likelihood::<T>::stat_width(self));
        for (stat, (covariance, &count)) in packed.zip(covariances.chunks_exact(dim * dim).zip(counts)) {
            add_second_moments(count, &vec![0.0; dim], covariance, stat);
        }
        Ok(Some(stats))
    }

    fn own_score(&self, rows: &Rows<T>, range: Range<usize>, out: &mut [f64]) {
        let p = &self.prior;
        let d = p.dim as f64;
        let n = 1.0 + p.map_count();
        // Sigma = (x x^T + B)/n, so log |Phi| = D log n - log |B| - log(1 + x^T B^-1 x) and tr(Phi (x x^T + B)) = n D.
        let normaliser = map_normaliser(p);
        for (row, score) in range.zip(out) {
            let norm = p.norm(rows.dense_rows(row..row + 1).iter().map(|x| x.to_f64()));
            let log_det = d * n.ln() - p.log_det_b() - norm.ln_1p();
            *score = -0.5 * d * LN_2PI + normaliser + 0.5 * n * log_det - 0.5 * n * d;
        }
    }

    fn divergences<'a>(&'a self, rows: &'a Rows<T>) -> Option<Box<dyn Divergences + 'a>> {
        Some(Box::new(OfSingleRows::about_zero(&self.prior, rows)))
    }

    fn num_parameters(&self) -> usize {
        linalg::packed_len(self.prior.dim)
    }
}

/// The fingerprints of all clusters' statistics.
pub(super) fn fingerprints(estimate: Estimate, counts: &[f64], stats: &[f64], width: usize) -> Vec<u64> {
    let clusters = counts.par_iter().zip(stats.par_chunks(width));
    clusters.map(|(&count, stat)| fingerprint(estimate, count, stat)).collect()
}

/// The covariances of the clusters being replaced, where maximum likelihood will need them.
pub(super) fn previous_covariances<T: Real>(
    estimate: Estimate,
    counts: &[f64],
    previous: Option<&dyn Clusters<T>>,
) -> Option<Vec<NamedArray>> {
    let needed = estimate == Estimate::MaxLikelihood && counts.iter().any(|&n| n <= 0.0);
    previous.filter(|_| needed).map(|p| p.arrays())
}

/// The old covariance of a cluster that lost all its rows, or the prior's when there never was one.
pub(super) fn kept_or_prior(kept: &Option<Vec<NamedArray>>, k: usize, prior: &WishartPrior) -> Vec<f64> {
    let dim = prior.dim;
    let old = kept.as_ref().and_then(|arrays| arrays.iter().find(|a| a.name == "covariances"));
    match old {
        Some(array) => array.values[k * dim * dim..(k + 1) * dim * dim].to_vec(),
        None => {
            let mut expected = vec![0.0; dim * dim];
            for (i, b) in prior.b.iter().enumerate() {
                expected[i * dim + i] = b / prior.map_count();
            }
            expected
        }
    }
}

/// The data term of each cluster for its own statistics; that of clusters that have not changed is known.
pub(super) fn own_terms<T: Real>(
    counts: &[f64],
    precisions: &[Arc<Precision>],
    unchanged: Option<Unchanged<'_, T>>,
    known: Option<&[f64]>,
    term: impl Fn(usize) -> f64 + Sync,
) -> Vec<f64> {
    let of = |k: usize| match (&unchanged, known) {
        (Some(unchanged), Some(known)) if unchanged.has(k, &precisions[k]) => known[k],
        _ => term(k),
    };
    (0..counts.len()).into_par_iter().map(of).collect()
}

/// K fitted clusters.
struct ZeroMeanGaussClusters<T: Real> {
    prior: WishartPrior,
    estimate: Estimate,
    precisions: Vec<Arc<Precision>>,
    pack: TriangularPack<T>,
    /// -D/2 log 2 pi + `E[log |Phi_k|]`/2.
    constant: Vec<T>,
    /// The predictive, of clusters made from the arrays of a posterior.
    student: Option<Student>,
    /// Each cluster's share of the data term for the statistics it was estimated from.
    own_terms: Vec<f64>,
}

impl<T: Real> ZeroMeanGaussClusters<T> {
    fn new(
        prior: WishartPrior,
        estimate: Estimate,
        precisions: Vec<Arc<Precision>>,
        counts: &[f64],
        previous: Option<&Self>,
    ) -> Self {
        let dim = prior.dim;
        let constant = precisions.iter().map(|p| T::from_f64(-0.5 * dim as f64 * LN_2PI + 0.5 * p.log_det)).collect();
        let unchanged = previous.map(|p| Unchanged { precisions: &p.precisions, pack: &p.pack });
        let pack = pack(&precisions, dim, unchanged.as_ref());
        let (student, own) = (None, Vec::new());
        let mut clusters =
            ZeroMeanGaussClusters { prior, estimate, precisions, pack, constant, student, own_terms: own };
        clusters.own_terms =
            own_terms(counts, &clusters.precisions, unchanged, previous.map(|p| &p.own_terms[..]), |k| {
                clusters.term(k, counts[k], clusters.precisions[k].own_trace)
            });
        clusters
    }

    /// One cluster's share of the data term.
    fn term(&self, k: usize, count: f64, trace: f64) -> f64 {
        self.precisions[k].data_term(&self.prior, self.estimate, count, trace, map_normaliser(&self.prior))
            - 0.5 * count * self.prior.dim as f64 * LN_2PI
    }
}

impl<T: Real> Clusters<T> for ZeroMeanGaussClusters<T> {
    fn num_clusters(&self) -> usize {
        self.precisions.len()
    }

    fn add_log_lik(&self, rows: &Rows<T>, range: Range<usize>, scratch: &mut Scratch<T>, weights: &mut [T]) {
        let num = self.num_clusters();
        let count = range.len();
        scratch.load_tile(rows, range);
        let half = T::from_f64(0.5);
        for k in 0..num {
            self.pack.quad_forms(k, &scratch.tile, None, &mut scratch.work, &mut scratch.column);
            // E[log F(x_n | Phi_k)] = -D/2 log 2 pi + E[log |Phi_k|]/2 - x_n^T E[Phi_k] x_n / 2
            for (r, &quad) in scratch.column[..count].iter().enumerate() {
                weights[r * num + k] += self.constant[k] - half * quad;
            }
        }
    }

    fn add_log_lik_tile(&self, rows: &Rows<T>, range: Range<usize>, scratch: &mut Scratch<T>, tile: &mut [T]) -> bool {
        scratch.load_tile(rows, range);
        let Scratch { tile: rows, work, column, .. } = scratch;
        let half = T::from_f64(0.5);
        for (k, (weights, &constant)) in tile.chunks_exact_mut(T::TILE).zip(&self.constant).enumerate() {
            self.pack.quad_forms(k, rows, None, work, column);
            weights.iter_mut().zip(&*column).for_each(|(weight, &quad)| *weight += constant - half * quad);
        }
        true
    }

    fn add_log_predictive(&self, rows: &Rows<T>, range: Range<usize>, scratch: &mut Scratch<T>, weights: &mut [T]) {
        let Some(student) = &self.student else { return self.add_log_lik(rows, range, scratch, weights) };
        let (num, count) = (self.num_clusters(), range.len());
        scratch.load_tile(rows, range);
        let Scratch { tile, work, column, logs, .. } = scratch;
        for k in 0..num {
            self.pack.quad_forms(k, tile, None, work, column);
            student.log_density(k, &column[..count], logs);
            logs.iter().enumerate().for_each(|(r, &log)| weights[r * num + k] += T::from_f64(log));
        }
    }

    fn log_lik_of(&self, k: usize, rows: &Rows<T>, members: &[u32], scratch: &mut Scratch<T>, out: &mut [T]) {
        scratch.gather_tile(rows, members);
        let Scratch { tile, work, column, .. } = scratch;
        self.pack.quad_forms_of_first(members.len(), k, tile, None, work, column);
        let half = T::from_f64(0.5);
        for (out, &quad) in out.iter_mut().zip(&column[..members.len()]) {
            *out = self.constant[k] - half * quad;
        }
    }

    fn predictive(&self) -> Option<Predictive<'_>> {
        self.student.as_ref().map(|student| student.predictive(|_| 1.0))
    }

    fn quadratic(&self, k: usize) -> Option<Quadratic<'_, T>> {
        Some(Quadratic { constant: self.constant[k], factor: &self.precisions[k].factor, mean: &[], center: &[] })
    }

    fn data_term(&self, counts: &[f64], stats: &[f64]) -> f64 {
        let dim = self.prior.dim;
        let width = linalg::packed_len(dim);
        let term = |k: usize| {
            let scatter = linalg::unpack(&stats[k * width..(k + 1) * width], dim);
            self.term(k, counts[k], self.precisions[k].trace(&self.prior, self.estimate, scatter))
        };
        (0..counts.len()).map(term).sum()
    }

    fn own_data_term(&self) -> f64 {
        self.own_terms.iter().sum()
    }

    fn log_prior(&self) -> Vec<f64> {
        let zero = vec![0.0; self.prior.dim * self.prior.dim];
        let log_prior = |p: &Arc<Precision>| {
            let trace = p.trace(&self.prior, Estimate::Map, zero.clone());
            p.data_term(&self.prior, Estimate::Map, 0.0, trace, map_normaliser(&self.prior))
        };
        self.precisions.iter().map(log_prior).collect()
    }

    fn arrays(&self) -> Vec<NamedArray> {
        let dim = self.prior.dim;
        let values = self.precisions.par_iter().flat_map_iter(|p| p.covariance(self.estimate, dim)).collect();
        let num = self.num_clusters();
        let mut arrays = vec![NamedArray::new("covariances", vec![num, dim, dim], values)];
        if self.estimate == Estimate::Posterior {
            let degrees = self.precisions.iter().map(|p| p.nu).collect();
            arrays.push(NamedArray::new("degrees", vec![num], degrees));
        }
        arrays
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
