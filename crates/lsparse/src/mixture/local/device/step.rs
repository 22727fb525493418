//! The local step on a GPU. All else of a run is that of the search which it takes the place of.

use std::collections::HashMap;
use std::sync::Arc;

use lsparse_cuda::Device;
use lsparse_cuda::mixture::{Failure, Form, Rows as DeviceRows, Work, bytes_of_rows};

use super::form::{sample, stage, take_statistics, whitening};
use super::{form_of, not_dense};
use crate::backend::Trouble;
use crate::data::{Batch, DealId, Dealt, Rows, Scalar};
use crate::error::{Error, Result};
use crate::likelihood::{ClusterSummary, Likelihood};
use crate::mixture::local::search::SearchState;
use crate::mixture::{
    LocalStep, Mixture, MixtureModel, MixtureParams, MixtureTally, MixtureWorker, Panel, RowMemory, VisitedRows,
};
use crate::settings::MixtureMethod;
use crate::training::model::{Objective, Visited};

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
    batches: HashMap<usize, Held<T>>,
    /// Weights of rows on their way to the GPU.
    weights: Vec<f64>,
    /// Some rows about the center, where clusters turn rows.
    sample: Vec<f64>,
}

/// The rows of a batch.
struct Held<T> {
    rows: DeviceRows<T>,
    /// The statistics that do not depend on which clusters rows belong to.
    shared: Vec<f64>,
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
        let mut coming: Option<Held<T>> = None;
        let mut first = 0;
        let likelihood = mixture.likelihood.as_ref();
        let is_weighted = batch.data.row_weights.is_some();
        // Errors of the GPU come out of the reading apart from its own.
        let mut trouble = Ok(());
        let mut put = |panel: &Panel<T>| -> std::result::Result<(), Trouble> {
            let Rows::Dense { values, .. } = &panel.rows else { return Err(not_dense().into()) };
            let resident = match resident {
                Some(resident) => resident,
                None => {
                    let whitening = whitening(likelihood.kind(), values, &self.center);
                    let work = Work::new(Arc::clone(&self.device), &whitening)?;
                    let (batches, weights) = (HashMap::new(), Vec::new());
                    let sample = sample(values, &self.center);
                    resident.insert(Resident { work, deal, batches, weights, sample })
                }
            };
            let Held { rows, shared } = match &mut coming {
                Some(held) => held,
                None => {
                    make_room(resident, likelihood, num, is_weighted)?;
                    resident.weights.clear();
                    let shared = vec![0.0; likelihood.shared_width()];
                    coming.insert(Held { rows: resident.work.rows(num, None)?, shared })
                }
            };
            resident.work.put(rows, first, values)?;
            resident.weights.extend_from_slice(&panel.row_weights);
            if !shared.is_empty() {
                let all: Vec<u32> = (0..panel.rows.len() as u32).collect();
                let ones = vec![1.0; if is_weighted { 0 } else { all.len() }];
                let weights = if is_weighted { &panel.row_weights } else { &ones };
                likelihood.accumulate_shared(&panel.rows, &all, weights, shared);
            }
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
        if let (Some(mut held), Some(resident)) = (coming, resident) {
            if is_weighted {
                resident.work.set_weights(&mut held.rows, &resident.weights)?;
            }
            resident.work.whiten(&mut held.rows)?;
            resident.batches.insert(batch.number, held);
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
        let Some(Resident { work, batches, sample, .. }) = resident else { return Err(not_dense().into()) };
        let Some(Held { rows, shared }) = batches.get(&batch.number) else { return Err(not_dense().into()) };
        let log_pi = &params.frequencies.log_pi;
        stage(work, params.clusters.as_ref(), sample, |k, constant| constant + log_pi[k])?;
        let found = work.summarize(rows, sparsity, T::EPSILON / 2.0).map_err(|failure| match failure {
            Failure::NotANumber { row } => {
                let ids = batch.data.batches.row_ids(batch.number);
                Error::NanWeight { row: ids.get(row).copied().unwrap_or(row), cluster: 0 }.into()
            }
            Failure::Gpu(error) => Trouble::Device(error),
        })?;
        let spare = spare.take().filter(|spare| spare.num_clusters() == num);
        let mut summary = spare.unwrap_or_else(|| mixture.likelihood.no_statistics(num));
        take_statistics(mixture.likelihood.as_ref(), work.sums()?, shared, &mut summary);
        summary.entropy = found.entropy;
        let table = (batch.num_rows() * num) as u64;
        let tally = MixtureTally { weights: found.weighed, products: 0, table };
        Ok(Visited { summary, memory: RowMemory::Nothing, found: params.search.sparsity, tally })
    }
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
