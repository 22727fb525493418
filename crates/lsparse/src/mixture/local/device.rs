//! The local step on a GPU: rows stay there from lap to lap, clusters go there, statistics come back.
//!
//! What a row's clusters are and what they add up to is the same as on the CPU, in double precision. All else of a run is
//! that of the search which it takes the place of.

use std::collections::HashMap;
use std::sync::Arc;

use lsparse_cuda::Device;
use lsparse_cuda::mixture::{
    By, Failure, Form, MOST_CLUSTERS, Rows as DeviceRows, Whitening, Work, bytes_of_rows, bytes_of_work,
};
use lsparse_kernels::Real;
use rayon::prelude::*;

use crate::backend::{Demand, Trouble};
use crate::data::{Batch, DealId, Dealt, Rows, Scalar};
use crate::error::{Error, Result};
use crate::likelihood::{ClusterSummary, Clusters, Likelihood, LikelihoodKind, OfMoments};
use crate::math::linalg;
use crate::mixture::local::search::SearchState;
use crate::mixture::{
    LocalStep, Mixture, MixtureModel, MixtureParams, MixtureTally, MixtureWorker, Panel, RowMemory, VisitedRows,
};
use crate::settings::{MixtureConfig, MixtureMethod, SearchKind};
use crate::training::model::{Objective, Visited};

/// The form that a GPU has the clusters of a family in; none where it has no kernels for it.
fn form_of(kind: LikelihoodKind) -> Option<Form> {
    kind.family().of_moments.map(|of_moments| match of_moments {
        OfMoments::Products(_) => Form::Triangular,
        OfMoments::Squares(_) => Form::Columns,
    })
}

/// What a lap over so many rows of type `T` would ask of a GPU.
pub fn demand<T: Scalar>(config: &MixtureConfig, rows: usize, dim: usize, weighted: bool) -> Demand {
    let family = config.likelihood.family();
    let products = (family.products)(dim) as f64 * rows as f64 * config.clusters as f64;
    // A batch at a time may be there, but not less.
    let batch = rows.div_ceil(config.batches.unwrap_or(1).max(1));
    let form = form_of(config.likelihood).unwrap_or(Form::Columns);
    let bytes = bytes_of_rows::<T>(form, batch, dim, weighted) + bytes_of_work(form, batch, dim, config.clusters);
    Demand { products, bytes, cannot: cannot(config, dim) }
}

/// Why the CPU has to do it.
fn cannot(config: &MixtureConfig, dim: usize) -> Option<String> {
    let family = config.likelihood.family();
    let no_kernel = |what: &str| Some(format!("there are no kernels for {what} on GPUs"));
    match config.method {
        MixtureMethod::Lsparse | MixtureMethod::HardEm | MixtureMethod::Kmeans => {}
        method => return no_kernel(&format!("`method {}`", method.name())),
    }
    let Some(form) = form_of(config.likelihood) else {
        return no_kernel(&format!("`likelihood {}`", family.name));
    };
    if config.find_k {
        return Some("K is found on the CPU".into());
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
    if dim > form.most_columns() {
        return no_kernel(&format!("more than {} columns and `likelihood {}`", form.most_columns(), family.name));
    }
    (config.clusters > MOST_CLUSTERS)
        .then(|| format!("there are no kernels for more than {MOST_CLUSTERS} clusters on GPUs"))
}

/// Training whose local step is on a GPU.
pub struct OnDevice<T> {
    device: Arc<Device>,
    /// What does all else, and the local step where the GPU has no memory for it.
    inner: Box<dyn LocalStep<T>>,
    /// Clusters that rows keep, where that is not for the search to say.
    keep: Option<usize>,
    center: Vec<f64>,
}

/// What a worker has on the GPU: no result depends on it.
pub struct Resident<T> {
    work: Work,
    /// Whose batches these are.
    deal: DealId,
    /// The rows of batches that are there.
    batches: HashMap<usize, DeviceRows<T>>,
    /// Weights of rows on their way to the GPU.
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

impl<T: Scalar> OnDevice<T> {
    /// Work there with the responsibilities of this step, which is to be that of dense search or k-means. Statistics are
    /// about the center.
    pub fn new(device: Arc<Device>, inner: Box<dyn LocalStep<T>>, method: MixtureMethod, center: Vec<f64>) -> Self {
        let keep = (method == MixtureMethod::Kmeans).then_some(1);
        OnDevice { device, inner, keep, center }
    }

    /// Bring the rows of a batch to the GPU, unless they are there.
    fn bring(
        &self,
        mixture: &Mixture<T>,
        batch: &Batch<'_>,
        worker: &mut MixtureWorker<T>,
    ) -> std::result::Result<(), Trouble> {
        let MixtureWorker { panels, resident, .. } = worker;
        // Rows of other data, or dealt otherwise, are none of these.
        let deal = batch.data.id;
        resident.take_if(|resident| resident.deal != deal);
        if resident.as_ref().is_some_and(|resident| resident.batches.contains_key(&batch.number)) {
            return Ok(());
        }
        let num = batch.num_rows();
        let mut coming: Option<DeviceRows<T>> = None;
        let mut first = 0;
        let is_weighted = batch.data.row_weights.is_some();
        // Errors of the GPU come out of the reading apart from its own.
        let mut trouble = Ok(());
        let mut put = |panel: &Panel<T>| -> std::result::Result<(), Trouble> {
            let Rows::Dense { values, .. } = &panel.rows else { return Err(not_dense().into()) };
            let resident = match resident {
                Some(resident) => resident,
                None => {
                    let whitening = whitening(mixture.likelihood.kind(), values, &self.center);
                    let work = Work::new(Arc::clone(&self.device), &whitening)?;
                    resident.insert(Resident { work, deal, batches: HashMap::new(), weights: Vec::new() })
                }
            };
            let rows = match &mut coming {
                Some(rows) => rows,
                None => {
                    make_room(resident, mixture.likelihood.as_ref(), num, is_weighted)?;
                    resident.weights.clear();
                    coming.insert(resident.work.rows(num, None)?)
                }
            };
            resident.work.put(rows, first, values)?;
            resident.weights.extend_from_slice(&panel.row_weights);
            first += panel.row_ids.len();
            Ok(())
        };
        let read = mixture.for_each_panel(batch, panels, |panel| {
            if trouble.is_ok() {
                trouble = put(panel);
            }
            Ok(())
        });
        read?;
        trouble?;
        if let (Some(mut rows), Some(resident)) = (coming, resident) {
            if is_weighted {
                resident.work.set_weights(&mut rows, &resident.weights)?;
            }
            resident.work.whiten(&mut rows)?;
            resident.batches.insert(batch.number, rows);
        }
        Ok(())
    }

    /// The local step there.
    fn visit(
        &self,
        mixture: &Mixture<T>,
        params: &MixtureParams<T>,
        batch: &Batch<'_>,
        worker: &mut MixtureWorker<T>,
    ) -> std::result::Result<VisitedRows<T>, Trouble> {
        self.bring(mixture, batch, worker)?;
        let (num, sparsity) = (mixture.num_clusters, self.keep.unwrap_or(params.search.sparsity));
        let MixtureWorker { resident, spare, .. } = worker;
        let Some(Resident { work, batches, .. }) = resident else { return Err(not_dense().into()) };
        let Some(rows) = batches.get(&batch.number) else { return Err(not_dense().into()) };
        stage(work, params.clusters.as_ref(), &params.frequencies.log_pi)?;
        let found = work.summarize(rows, sparsity, T::EPSILON / 2.0).map_err(|failure| match failure {
            Failure::NotANumber { row } => {
                let ids = batch.data.batches.row_ids(batch.number);
                Error::NanWeight { row: ids.get(row).copied().unwrap_or(row), cluster: 0 }.into()
            }
            Failure::Gpu(error) => Trouble::Device(error),
        })?;
        let spare = spare.take().filter(|spare| spare.num_clusters() == num);
        let mut summary = spare.unwrap_or_else(|| mixture.likelihood.no_statistics(num));
        take_statistics(mixture.likelihood.as_ref(), work.sums()?, &mut summary);
        summary.entropy = found.entropy;
        let table = (batch.num_rows() * num) as u64;
        let tally = MixtureTally { weights: found.weighed, products: 0, table };
        Ok(Visited { summary, memory: RowMemory::Nothing, found: params.search.sparsity, tally })
    }
}

fn not_dense() -> Error {
    Error::Gpu { detail: "rows are not dense".into(), remedy: "choose `device cpu`".into() }
}

/// Bytes of a GPU's memory that are left alone: work grows with what is found.
const SPARE_BYTES: u64 = 2 << 30;

/// Let batches go where there is no room for another: they are read anew when it is their turn.
fn make_room<T: Scalar>(
    resident: &mut Resident<T>,
    likelihood: &dyn Likelihood<T>,
    rows: usize,
    weighted: bool,
) -> lsparse_cuda::Result<()> {
    let form = form_of(likelihood.kind()).unwrap_or(Form::Columns);
    let needed = bytes_of_rows::<T>(form, rows, likelihood.dim(), weighted) + SPARE_BYTES;
    while !resident.batches.is_empty() && resident.work.device().free_memory()? < needed {
        // Batches come in turn, so that the one that was used last is the one that is not needed for longest. Which goes
        // changes no result.
        if let Some(&last) = resident.batches.keys().max() {
            resident.batches.remove(&last);
        }
        resident.work.device().synchronize()?;
    }
    Ok(())
}

/// Rows that the whitening is found from.
const WHITENING_ROWS: usize = 8192;

/// What makes some rows about as wide in all directions, or columns where clusters have no other directions. Where it is a
/// poor choice clusters are ruled out less well, and nothing else.
fn whitening<T: Real>(kind: LikelihoodKind, values: &[T], center: &[f64]) -> Whitening {
    let by = match form_of(kind) {
        Some(Form::Triangular) => whitening_factor(values, center),
        _ => By::Scales(scales(values, center)),
    };
    Whitening { center: center.to_vec(), by }
}

/// One over the width of each column; of one that never varies that of all.
fn scales<T: Real>(values: &[T], center: &[f64]) -> Vec<f64> {
    let dim = center.len();
    let mut squares = vec![0.0; dim];
    for row in values.chunks_exact(dim).take(WHITENING_ROWS) {
        squares.iter_mut().zip(row).zip(center).for_each(|((sum, x), c)| *sum += (x.to_f64() - c).powi(2));
    }
    let num = (values.len() / dim).clamp(1, WHITENING_ROWS) as f64;
    let average = squares.iter().sum::<f64>() / dim as f64;
    let average = if average > 0.0 && average.is_finite() { average } else { num };
    squares.iter().map(|square| (square.max(1e-9 * average) / num).sqrt().recip()).collect()
}

/// The inverse of a Cholesky factor of the covariance of rows about the center.
fn whitening_factor<T: Real>(values: &[T], center: &[f64]) -> By {
    let dim = center.len();
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
    By::Factor { factor: linalg::invert_lower(&second, dim), inverse: second }
}

/// Put clusters where the GPU takes them from.
fn stage<T: Real>(work: &mut Work, clusters: &dyn Clusters<T>, log_pi: &[f64]) -> lsparse_cuda::Result<()> {
    let num = log_pi.len();
    let (forms, means, constants) = work.stage(num)?;
    let (size, dim) = ((forms.len() / num).max(1), (means.len() / num).max(1));
    let places = forms.par_chunks_mut(size).zip(means.par_chunks_mut(dim)).zip(constants);
    places.enumerate().for_each(|(k, ((form, mean), constant))| {
        mean.fill(0.0);
        let copy = |from: &[T], to: &mut [f64]| to.iter_mut().zip(from).for_each(|(to, from)| *to = from.to_f64());
        if let Some(quadratic) = clusters.quadratic(k) {
            linalg::pack(quadratic.factor, dim, form);
            copy(quadratic.mean, mean);
            *constant = quadratic.constant.to_f64() + log_pi[k];
        } else if let Some(diagonal) = clusters.diagonal(k) {
            copy(diagonal.precision, form);
            copy(diagonal.mean, mean);
            *constant = diagonal.constant.to_f64() + log_pi[k];
        }
    });
    work.set_clusters()
}

/// Statistics as the family has them.
fn take_statistics<T: Real>(likelihood: &dyn Likelihood<T>, sums: &[f64], summary: &mut ClusterSummary) {
    let (dim, Some(of_moments)) = (likelihood.dim(), likelihood.kind().family().of_moments) else { return };
    let width = (sums.len() / summary.counts.len().max(1)).max(1);
    let places = summary.counts.par_iter_mut().zip(summary.stats.par_chunks_mut(summary.width));
    places.zip(sums.par_chunks(width)).for_each(|((count, stat), sums)| {
        *count = sums[0];
        of_moments.write(&sums[1..1 + dim], &sums[1 + dim..], stat);
    });
}

impl<T: Scalar> LocalStep<T> for OnDevice<T> {
    fn local(
        &self,
        mixture: &Mixture<T>,
        params: &MixtureParams<T>,
        batch: &Batch<'_>,
        memory: &RowMemory,
        worker: &mut MixtureWorker<T>,
    ) -> Result<VisitedRows<T>> {
        // Where memory does not suffice, what else is there goes; and where that is not enough, the CPU does this batch. Its
        // responsibilities are the same.
        for _ in 0..2 {
            match Trouble::settle(self.visit(mixture, params, batch, worker))? {
                Some(visited) => return Ok(visited),
                None => worker.resident = None,
            }
        }
        self.inner.local(mixture, params, batch, memory, worker)
    }

    fn state(&self, num_clusters: usize, sparsity: usize) -> SearchState {
        self.inner.state(num_clusters, sparsity)
    }

    fn initial(&self, mixture: &Mixture<T>, data: &Dealt<'_>) -> Option<ClusterSummary> {
        self.inner.initial(mixture, data)
    }

    fn global_step(
        &self,
        mixture: &Mixture<T>,
        total: &ClusterSummary,
        previous: Option<&MixtureParams<T>>,
    ) -> Result<MixtureParams<T>> {
        self.inner.global_step(mixture, total, previous)
    }

    fn objective(&self, mixture: &Mixture<T>, params: &MixtureParams<T>, total: &ClusterSummary) -> Objective {
        self.inner.objective(mixture, params, total)
    }

    fn report(
        &self,
        mixture: &Mixture<T>,
        params: &MixtureParams<T>,
        tally: &MixtureTally,
    ) -> Vec<(&'static str, f64)> {
        self.inner.report(mixture, params, tally)
    }

    fn finish(&self, model: &mut MixtureModel) {
        self.inner.finish(model);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::likelihood::{Prior, Scratch};
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
        let columns = MixtureConfig { likelihood: LikelihoodKind::DiagGauss, ..config.clone() };
        assert_eq!(cannot(&columns, 2048), None);
        refused(columns.clone(), 2049, "2048 columns");
        assert_eq!(cannot(&MixtureConfig { method: MixtureMethod::Kmeans, ..columns.clone() }, 64), None);
        refused(MixtureConfig { find_k: true, ..columns }, 64, "found on the CPU");
        refused(MixtureConfig { likelihood: LikelihoodKind::Poisson, ..config.clone() }, 64, "poisson");
        refused(MixtureConfig { method: MixtureMethod::DpMeans, ..config.clone() }, 64, "dp-means");
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
            let form = form_of(kind).unwrap();
            let mut sums = vec![0.0; form.width(dim)];
            for (row, r) in rows.chunks_exact(dim).zip(&share) {
                let y: Vec<f64> = row.iter().zip(about).map(|(x, c)| x - c).collect();
                sums[0] += r;
                for i in 0..dim {
                    sums[1 + i] += r * y[i];
                    match form {
                        Form::Triangular => {
                            (0..=i).for_each(|j| sums[1 + dim + linalg::packed_len(i) + j] += r * y[i] * y[j]);
                        }
                        Form::Columns => sums[1 + dim + i] += r * y[i] * y[i],
                    }
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
                own_variance: Vec::new(),
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

    fn scales_of_nothing() -> Vec<f64> {
        scales(&[5.0f32; 30], &[5.0; 3])
    }

    #[test]
    fn rows_are_whitened() {
        let dim = 3;
        let rows: Vec<f64> =
            (0..300).map(|n| f64::from(n * n % 17) * [1.0, 100.0, 0.01][n as usize % 3] + 5.0).collect();
        let center = [5.0; 3];
        let full = |rows: &[f64]| match whitening(LikelihoodKind::Gauss, rows, &center).by {
            By::Factor { factor, inverse } => (factor, inverse),
            By::Scales(_) => panic!("columns are not alone"),
        };
        let (factor, inverse) = full(&rows);
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
        let (factor, _) = full(&[5.0; 30]);
        assert!(factor.iter().all(|v| v.is_finite()) && factor[0] > 0.0);
        // Column by column, one of which never varies.
        let mut rows = rows;
        rows.iter_mut().skip(2).step_by(3).for_each(|x| *x = 5.0);
        let By::Scales(scales) = whitening(LikelihoodKind::DiagGauss, &rows, &center).by else { panic!("not alone") };
        for (d, scale) in scales.iter().enumerate() {
            let square: f64 = rows[d..].iter().step_by(3).map(|x| (scale * (x - 5.0)).powi(2)).sum();
            let expected = if d == 2 { 0.0 } else { 100.0 };
            assert!((square - expected).abs() < 1e-6 && scale.is_finite(), "{scales:?}");
        }
        assert!(scales_of_nothing().iter().all(|scale| scale.is_finite() && *scale > 0.0));
    }
}
