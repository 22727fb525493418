//! The local step on a GPU: rows stay there from lap to lap, clusters go there, statistics come back.
//!
//! What a row's clusters are and what they add up to is the same as on the CPU, in double precision. All else of a run is
//! that of the search which it takes the place of.

use std::collections::HashMap;
use std::sync::Arc;

use lsparse_cuda::Device;
use lsparse_cuda::mixture::{
    Failure, MOST_CLUSTERS, MOST_COLUMNS, Rows as DeviceRows, Whitening, Work, bytes_of_rows, bytes_of_work, width,
};
use lsparse_kernels::Real;
use rayon::prelude::*;

use crate::backend::Demand;
use crate::data::{Batch, Rows, Scalar};
use crate::error::{Error, Result};
use crate::likelihood::{ClusterSummary, Clusters, Likelihood};
use crate::math::linalg;
use crate::mixture::local::search::SearchState;
use crate::mixture::{LocalStep, Mixture, MixtureParams, MixtureTally, MixtureWorker, RowMemory, Search, VisitedRows};
use crate::settings::{MixtureConfig, MixtureMethod, SearchKind};
use crate::training::model::Visited;

/// What a lap over so many rows of type `T` would ask of a GPU.
pub fn demand<T: Scalar>(config: &MixtureConfig, rows: usize, dim: usize, weighted: bool) -> Demand {
    let family = config.likelihood.family();
    let products = (family.products)(dim) as f64 * rows as f64 * config.clusters as f64;
    // A batch at a time may be there, but not less.
    let batch = rows.div_ceil(config.batches.unwrap_or(1).max(1));
    let bytes = bytes_of_rows::<T>(batch, dim, weighted) + bytes_of_work(batch, dim, config.clusters);
    Demand { products, bytes, cannot: cannot(config, dim) }
}

/// Why the CPU has to do it.
fn cannot(config: &MixtureConfig, dim: usize) -> Option<String> {
    let family = config.likelihood.family();
    let no_kernel = |what: &str| Some(format!("there are no kernels for {what} on GPUs"));
    match config.method {
        MixtureMethod::Lsparse | MixtureMethod::HardEm => {}
        method => return no_kernel(&format!("`method {}`", method.name())),
    }
    if family.of_moments.is_none() {
        return no_kernel(&format!("`likelihood {}`", family.name));
    }
    if config.missing {
        return no_kernel("`missing` values");
    }
    if config.search == SearchKind::Neighbours {
        return no_kernel("`search neighbours`");
    }
    if config.sparsity_tolerance.is_some() {
        return no_kernel("an L that is chosen (`sparsity-tolerance`)");
    }
    if dim > MOST_COLUMNS {
        return no_kernel(&format!("more than {MOST_COLUMNS} columns"));
    }
    (config.clusters > MOST_CLUSTERS)
        .then(|| format!("there are no kernels for more than {MOST_CLUSTERS} clusters on GPUs"))
}

/// L-sparse training with the local step on a GPU.
pub struct OnDevice {
    device: Arc<Device>,
    search: Search,
    center: Vec<f64>,
}

/// What a worker has on the GPU: no result depends on it.
pub struct Resident<T> {
    work: Work,
    /// The rows of batches that are there.
    batches: HashMap<usize, DeviceRows<T>>,
    /// Numbers of rows on their way to the GPU.
    weights: Vec<f64>,
}

impl<T> Resident<T> {
    /// Measure from now on.
    pub fn measure(&mut self) {
        self.work.measure();
    }

    /// Seconds of each part.
    pub fn times(&self) -> Vec<(&'static str, f64)> {
        self.work.times().to_vec()
    }
}

impl OnDevice {
    /// Work there with the responsibilities of this search, which is to be dense or exact.
    /// Statistics are about the center.
    pub fn new(device: Arc<Device>, search: Search, center: Vec<f64>) -> Self {
        OnDevice { device, search, center }
    }

    /// Bring the rows of a batch to the GPU, unless they are there.
    fn bring<T: Scalar>(&self, mixture: &Mixture<T>, batch: &Batch<'_>, worker: &mut MixtureWorker<T>) -> Result<()> {
        let MixtureWorker { panels, resident, .. } = worker;
        if resident.as_ref().is_some_and(|resident| resident.batches.contains_key(&batch.number)) {
            return Ok(());
        }
        let (num, dim) = (batch.num_rows(), mixture.likelihood.dim());
        let mut coming: Option<DeviceRows<T>> = None;
        let mut first = 0;
        let is_weighted = batch.data.row_weights.is_some();
        mixture.for_each_panel(batch, panels, |panel| {
            let Rows::Dense { values, .. } = &panel.rows else { return Err(not_dense()) };
            let resident = match resident {
                Some(resident) => resident,
                None => {
                    let whitening = whitening(values, dim, &self.center);
                    let work = Work::new(Arc::clone(&self.device), &whitening).map_err(Error::gpu)?;
                    resident.insert(Resident { work, batches: HashMap::new(), weights: Vec::new() })
                }
            };
            if coming.is_none() {
                make_room::<T>(resident, num, dim, is_weighted)?;
                coming = Some(resident.work.rows(num, None).map_err(Error::gpu)?);
                resident.weights.clear();
            }
            if let Some(rows) = &mut coming {
                resident.work.put(rows, first, values).map_err(Error::gpu)?;
            }
            resident.weights.extend_from_slice(&panel.row_weights);
            first += panel.row_ids.len();
            Ok(())
        })?;
        if let (Some(mut rows), Some(resident)) = (coming, resident) {
            if is_weighted {
                resident.work.set_weights(&mut rows, &resident.weights).map_err(Error::gpu)?;
            }
            resident.work.whiten(&mut rows).map_err(Error::gpu)?;
            resident.batches.insert(batch.number, rows);
        }
        Ok(())
    }
}

fn not_dense() -> Error {
    Error::Gpu { detail: "rows are not dense".into(), remedy: "choose `device cpu`".into() }
}

/// Bytes of a GPU's memory that are left alone: work grows with what is found.
const SPARE_BYTES: u64 = 2 << 30;

/// Let batches go where there is no room for another: they are read anew when it is their turn.
fn make_room<T: Scalar>(resident: &mut Resident<T>, rows: usize, dim: usize, weighted: bool) -> Result<()> {
    let needed = bytes_of_rows::<T>(rows, dim, weighted) + SPARE_BYTES;
    while !resident.batches.is_empty() && resident.work.device().free_memory().map_err(Error::gpu)? < needed {
        // Batches come in turn, so that the one that was used last is the one that is not needed for longest. Which goes
        // changes no result.
        if let Some(&last) = resident.batches.keys().max() {
            resident.batches.remove(&last);
        }
        resident.work.device().synchronize().map_err(Error::gpu)?;
    }
    Ok(())
}

/// Rows that the whitening is found from.
const WHITENING_ROWS: usize = 8192;

/// What makes some rows about as wide in all directions: the inverse of a Cholesky factor of their covariance about the
/// center. Where it is a poor choice clusters are ruled out less well, and nothing else.
fn whitening<T: Real>(values: &[T], dim: usize, center: &[f64]) -> Whitening {
    let rows = values.chunks_exact(dim).take(WHITENING_ROWS);
    let num = rows.len().max(1) as f64;
    let mut second = vec![0.0; dim * dim];
    for row in rows {
        let y: Vec<f64> = row.iter().zip(center).map(|(x, c)| x.to_f64() - c).collect();
        for i in 0..dim {
            for j in 0..=i {
                second[i * dim + j] += y[i] * y[j] / num;
            }
        }
    }
    let average = (0..dim).map(|d| second[d * dim + d]).sum::<f64>() / dim as f64;
    let average = if average > 0.0 && average.is_finite() { average } else { 1.0 };
    // A column that is a sum of others, or never varies, has next to no width of its own.
    for d in 0..dim {
        second[d * dim + d] = second[d * dim + d].max(1e-9 * average) * (1.0 + 1e-6);
    }
    if linalg::cholesky_in_place(&mut second, dim).is_err() || second.iter().any(|v| !v.is_finite()) {
        second.fill(0.0);
        (0..dim).for_each(|d| second[d * dim + d] = average.sqrt());
    }
    for i in 0..dim {
        second[i * dim + i + 1..(i + 1) * dim].fill(0.0);
    }
    Whitening { center: center.to_vec(), factor: linalg::invert_lower(&second, dim), inverse: second }
}

/// Put clusters where the GPU takes them from.
fn stage<T: Real>(work: &mut Work, clusters: &dyn Clusters<T>, log_pi: &[f64], dim: usize) -> Result<()> {
    let (factors, means, constants) = work.stage(log_pi.len()).map_err(Error::gpu)?;
    let places = factors.par_chunks_mut(linalg::packed_len(dim)).zip(means.par_chunks_mut(dim)).zip(constants);
    places.enumerate().for_each(|(k, ((factor, mean), constant))| {
        mean.fill(0.0);
        if let Some(form) = clusters.quadratic(k) {
            linalg::pack(form.factor, dim, factor);
            mean.iter_mut().zip(form.mean).for_each(|(to, from)| *to = from.to_f64());
            *constant = form.constant.to_f64() + log_pi[k];
        } else if let Some(form) = clusters.diagonal(k) {
            factor.fill(0.0);
            for d in 0..dim {
                factor[linalg::packed_len(d) + d] = form.precision[d].to_f64().sqrt();
                mean[d] = form.mean[d].to_f64();
            }
            *constant = form.constant.to_f64() + log_pi[k];
        }
    });
    work.set_clusters().map_err(Error::gpu)
}

/// Statistics as the family has them.
fn take_statistics<T: Real>(likelihood: &dyn Likelihood<T>, sums: &[f64], summary: &mut ClusterSummary) {
    let (dim, Some(of_moments)) = (likelihood.dim(), likelihood.kind().family().of_moments) else { return };
    let places = summary.counts.par_iter_mut().zip(summary.stats.par_chunks_mut(summary.width));
    places.zip(sums.par_chunks(width(dim))).for_each(|((count, stat), sums)| {
        *count = sums[0];
        of_moments(&sums[1..1 + dim], &sums[1 + dim..], stat);
    });
}

impl<T: Scalar> LocalStep<T> for OnDevice {
    fn local(
        &self,
        mixture: &Mixture<T>,
        params: &MixtureParams<T>,
        batch: &Batch<'_>,
        _memory: &RowMemory,
        worker: &mut MixtureWorker<T>,
    ) -> Result<VisitedRows<T>> {
        self.bring(mixture, batch, worker)?;
        let (num, sparsity) = (mixture.num_clusters, params.search.sparsity);
        let spare = worker.spare.take().filter(|spare| spare.num_clusters() == num);
        let mut summary = spare.unwrap_or_else(|| mixture.likelihood.no_statistics(num));
        let Some(resident) = &mut worker.resident else { return Err(not_dense()) };
        let Resident { work, batches, .. } = resident;
        let Some(rows) = batches.get(&batch.number) else { return Err(not_dense()) };
        stage(work, params.clusters.as_ref(), &params.frequencies.log_pi, mixture.likelihood.dim())?;
        let found = work.summarize(rows, sparsity, T::EPSILON / 2.0).map_err(|failure| match failure {
            Failure::NotANumber { row } => {
                let ids = batch.data.batches.row_ids(batch.number);
                Error::NanWeight { row: ids.get(row).copied().unwrap_or(row), cluster: 0 }
            }
            Failure::Gpu(error) => Error::gpu(error),
        })?;
        take_statistics(mixture.likelihood.as_ref(), work.sums().map_err(Error::gpu)?, &mut summary);
        summary.entropy = found.entropy;
        let table = (batch.num_rows() * num) as u64;
        let tally = MixtureTally { weights: found.weighed, products: 0, table };
        Ok(Visited { summary, memory: RowMemory::Nothing, found: sparsity, tally })
    }

    fn state(&self, num_clusters: usize, sparsity: usize) -> SearchState {
        LocalStep::<T>::state(&self.search, num_clusters, sparsity)
    }

    fn report(
        &self,
        mixture: &Mixture<T>,
        params: &MixtureParams<T>,
        tally: &MixtureTally,
    ) -> Vec<(&'static str, f64)> {
        self.search.report(mixture, params, tally)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::likelihood::{LikelihoodKind, Prior, Scratch};
    use crate::settings::Sparsity;

    #[test]
    fn what_a_gpu_cannot_do_has_its_reason() {
        let config = MixtureConfig { likelihood: LikelihoodKind::Gauss, clusters: 100, ..Default::default() };
        assert_eq!(cannot(&config, 64), None);
        let refused = |config: MixtureConfig, dim, word: &str| {
            let why = cannot(&config, dim).unwrap_or_default();
            assert!(why.contains(word), "{why:?} does not say {word}");
        };
        refused(config.clone(), 129, "128 columns");
        refused(MixtureConfig { likelihood: LikelihoodKind::Poisson, ..config.clone() }, 64, "poisson");
        refused(MixtureConfig { method: MixtureMethod::Kmeans, ..config.clone() }, 64, "kmeans");
        refused(MixtureConfig { missing: true, ..config.clone() }, 64, "missing");
        refused(MixtureConfig { search: SearchKind::Neighbours, ..config.clone() }, 64, "neighbours");
        refused(MixtureConfig { clusters: 50_000, ..config.clone() }, 64, "40000 clusters");
        let chosen = MixtureConfig { sparsity: Sparsity::Auto, ..config };
        refused(MixtureConfig::clone(&chosen.check(1000).unwrap()), 64, "sparsity-tolerance");
    }

    #[test]
    fn a_batch_must_fit_and_not_all_rows() {
        let config = MixtureConfig { likelihood: LikelihoodKind::Gauss, clusters: 200, ..Default::default() };
        let bytes =
            |batches| demand::<f32>(&MixtureConfig { batches: Some(batches), ..config.clone() }, 4_000_000, 64, false);
        let (whole, tenth) = (bytes(1), bytes(10));
        assert_eq!(whole.products, tenth.products);
        assert!(whole.bytes > 4_000_000 * 64 * 6 && tenth.bytes < whole.bytes / 2, "{whole:?} {tenth:?}");
    }

    #[test]
    fn moments_become_the_statistics_of_every_family() {
        let dim = 4;
        let rows: Vec<f64> = (0..40).map(|n| f64::from(n * n % 23) - 7.0).collect();
        let share: Vec<f64> = (0..10).map(|n| 0.1 + 0.05 * f64::from(n)).collect();
        let mut held = Rows::<f64>::dense(dim);
        rows.chunks_exact(dim).for_each(|row| held.push_dense(row));
        let members: Vec<u32> = (0..10).collect();
        let center = [1.0, -2.0, 0.5, 3.0];
        for kind in LikelihoodKind::ALL.into_iter().filter(|kind| kind.family().of_moments.is_some()) {
            let about = if kind.family().has_means { center } else { [0.0; 4] };
            let mut sums = vec![0.0; width(dim)];
            for (row, r) in rows.chunks_exact(dim).zip(&share) {
                let y: Vec<f64> = row.iter().zip(about).map(|(x, c)| x - c).collect();
                sums[0] += r;
                for i in 0..dim {
                    sums[1 + i] += r * y[i];
                    (0..=i).for_each(|j| sums[1 + dim + linalg::packed_len(i) + j] += r * y[i] * y[j]);
                }
            }
            let prior = Prior {
                dim,
                lambda: 0.1,
                nu: 7.0,
                kappa: 0.1,
                variance: vec![1.0; dim],
                variance_floor: vec![1e-6; dim],
                missing: false,
                column_means: Vec::new(),
                center: about.to_vec(),
            };
            let likelihood = kind.build::<f64>(&prior);
            let (mut found, mut expected) = (likelihood.no_statistics(1), likelihood.no_statistics(1));
            take_statistics(likelihood.as_ref(), &sums, &mut found);
            likelihood.accumulate(&held, &members, &share, &mut Scratch::default(), &mut expected.stats);
            expected.counts[0] = share.iter().sum();
            for (a, b) in found.stats.iter().zip(&expected.stats).chain(found.counts.iter().zip(&expected.counts)) {
                assert!((a - b).abs() < 1e-9 * b.abs().max(1.0), "{}: {a} instead of {b}", kind.name());
            }
        }
    }

    #[test]
    fn rows_are_whitened() {
        let dim = 3;
        let rows: Vec<f64> =
            (0..300).map(|n| f64::from(n * n % 17) * [1.0, 100.0, 0.01][n as usize % 3] + 5.0).collect();
        let center = [5.0; 3];
        let Whitening { factor, inverse, .. } = whitening(&rows, dim, &center);
        let mut second = [0.0; 9];
        for row in rows.chunks_exact(dim) {
            let z = |i: usize| -> f64 { (0..=i).map(|j| factor[i * dim + j] * (row[j] - center[j])).sum() };
            (0..9).for_each(|at| second[at] += z(at / 3) * z(at % 3) / 100.0);
        }
        for at in 0..9 {
            let expected = if at / 3 == at % 3 { 1.0 } else { 0.0 };
            assert!((second[at] - expected).abs() < 1e-4, "{second:?}");
            let product: f64 = (0..3).map(|l| factor[at / 3 * 3 + l] * inverse[l * 3 + at % 3]).sum();
            assert!((product - expected).abs() < 1e-12);
        }
        // Rows that are all alike have no width; a basis is found all the same.
        let Whitening { factor, .. } = whitening(&[5.0f32; 30], dim, &center);
        assert!(factor.iter().all(|v| v.is_finite()) && factor[0] > 0.0);
    }
}
