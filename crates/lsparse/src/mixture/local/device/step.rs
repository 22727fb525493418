//! The local step on a GPU. All else of a run is that of the search which it takes the place of.

use std::collections::HashMap;
use std::sync::{Arc, mpsc};

use lsparse_cuda::Device;
use lsparse_cuda::mixture::{
    Failure, Form, PANEL_ROWS, Rows as DeviceRows, Slot, Statistics as Found, Way, Work, bytes_of_rows, bytes_of_work,
};

use crate::backend::Trouble;
use crate::clusters::device::{add_shared, assign_rows, form_of, not_dense, sample, stage, take_statistics, whitening};
use crate::data::{Batch, DealId, Dealt, Rows, Scalar};
use crate::error::{Error, Result};
use crate::likelihood::{ClusterSummary, Likelihood, Trial};
use crate::mixture::local::search::SearchState;
use crate::mixture::local::trial::look_at;
use crate::mixture::{
    LocalStep, MOST_STRETCHES, Mixture, MixtureModel, MixtureParams, MixtureTally, MixtureWorker, Panel, RowMemory,
    VisitedRows,
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
    /// Slots for rows that do not stay, and their way, once there are such.
    passing: Option<(Vec<Slot<T>>, Way)>,
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

    /// Make ready for rows, by those of the first batch.
    fn begin(
        &self,
        mixture: &Mixture<T>,
        batch: &Batch<'_>,
        worker: &mut MixtureWorker<T>,
    ) -> std::result::Result<(), Trouble> {
        if worker.resident.is_some() {
            return Ok(());
        }
        let mut found = None;
        mixture.first_panel(batch, |rows| {
            if let Rows::Dense { values, .. } = rows {
                found =
                    Some((whitening(mixture.likelihood.kind(), values, &self.center), sample(values, &self.center)));
            }
        })?;
        let (whitening, sample) = found.ok_or_else(not_dense)?;
        let work = Work::new(Arc::clone(&self.device), &whitening)?;
        worker.resident = Some(Resident { work, deal: batch.data.id, batches: HashMap::new(), passing: None, sample });
        Ok(())
    }

    /// Bring the rows of a batch to the GPU, to stay there.
    fn bring(
        &self,
        mixture: &Mixture<T>,
        batch: &Batch<'_>,
        worker: &mut MixtureWorker<T>,
    ) -> std::result::Result<(), Trouble> {
        let MixtureWorker { panels, resident: Some(resident), .. } = worker else { return Err(not_dense().into()) };
        let likelihood = mixture.likelihood.as_ref();
        let (mut rows, mut weights) = (resident.work.rows(batch.num_rows(), None)?, Vec::new());
        let (mut shared, mut first) = (Shared::new(likelihood, batch), 0);
        // Errors of the GPU come out of the reading apart from its own.
        let mut trouble: std::result::Result<(), Trouble> = Ok(());
        mixture.for_each_panel(batch, panels, |panel| {
            let Rows::Dense { values, .. } = &panel.rows else { return Err(not_dense()) };
            if trouble.is_ok() {
                trouble = resident.work.put(&mut rows, first, values).map_err(Trouble::from);
            }
            weights.extend_from_slice(&panel.row_weights);
            shared.add(panel);
            first += panel.row_ids.len();
            Ok(())
        })?;
        trouble?;
        if shared.is_weighted {
            resident.work.set_weights(&mut rows, &weights)?;
        }
        resident.work.whiten(&mut rows)?;
        resident.batches.insert(batch.number, Held { rows, shared: shared.sums });
        Ok(())
    }

    /// The local step of rows that are there.
    fn visit_held(
        &self,
        params: &MixtureParams<T>,
        batch: &Batch<'_>,
        resident: &mut Resident<T>,
    ) -> std::result::Result<(Found, Vec<f64>), Trouble> {
        let Resident { work, batches, sample, .. } = resident;
        let Some(Held { rows, shared }) = batches.get(&batch.number) else { return Err(not_dense().into()) };
        let log_pi = &params.frequencies.log_pi;
        stage(work, params.clusters.as_ref(), sample, |k, constant| constant + log_pi[k])?;
        work.set_clusters()?;
        let found = work.summarize(rows, self.sparsity(params), T::EPSILON / 2.0);
        Ok((found.map_err(|failure| trouble_of(failure, batch))?, shared.clone()))
    }

    /// The same of rows for which there is no room: they are read while those before are worked on, and not kept.
    fn visit_passing(
        &self,
        mixture: &Mixture<T>,
        params: &MixtureParams<T>,
        batch: &Batch<'_>,
        worker: &mut MixtureWorker<T>,
    ) -> std::result::Result<(Found, Vec<f64>), Trouble> {
        let MixtureWorker { panels, resident: Some(Resident { work, sample, passing, .. }), .. } = worker else {
            return Err(not_dense().into());
        };
        let log_pi = &params.frequencies.log_pi;
        stage(work, params.clusters.as_ref(), sample, |k, constant| constant + log_pi[k])?;
        work.set_clusters()?;
        // Memory that the GPU reads by itself takes long to come by: slots serve again.
        let fits =
            |(slots, _): &(Vec<Slot<T>>, Way)| slots.len() == 2 && slots.iter().all(|slot| slot.fits(batch.num_rows()));
        let (slots, way) = match passing.take().filter(fits) {
            Some(passing) => passing,
            None => work.slots(batch.num_rows())?,
        };
        work.begin_sums()?;
        let mut shared = Shared::new(mixture.likelihood.as_ref(), batch);
        let sparsity = self.sparsity(params);
        let (to_reader, free) = mpsc::channel();
        let (to_worker, sent) = mpsc::channel::<Slot<T>>();
        slots.into_iter().for_each(|slot| drop(to_reader.send(slot)));
        let (read, found) = std::thread::scope(|scope| {
            let works = scope.spawn(move || {
                let mut weighed = 0;
                while let Ok(mut slot) = sent.recv() {
                    weighed += work.add_slot(&mut slot, sparsity, T::EPSILON / 2.0)?;
                    // (Nobody takes it if all has been read.)
                    drop(to_reader.send(slot));
                }
                Ok::<Found, Failure>(Found { entropy: work.end_sums()?, weighed })
            });
            let mut slot: Option<Slot<T>> = None;
            let mut trouble: std::result::Result<(), Trouble> = Ok(());
            let send = |slot: Option<Slot<T>>| -> lsparse_cuda::Result<()> {
                let Some(mut slot) = slot.filter(|slot| !slot.is_empty()) else { return Ok(()) };
                way.send(&mut slot)?;
                // (Nobody takes it if work has failed.)
                drop(to_worker.send(slot));
                Ok(())
            };
            let read = mixture.for_each_panel(batch, panels, |panel| {
                let Rows::Dense { values, .. } = &panel.rows else { return Err(not_dense()) };
                let (mut left, mut weights) = (&values[..], &panel.row_weights[..]);
                while !left.is_empty() && trouble.is_ok() {
                    let emptied = || {
                        let mut slot: Slot<T> = free.recv().ok()?;
                        slot.clear();
                        Some(slot)
                    };
                    let Some(here) = slot.take().or_else(emptied) else { break };
                    let here = slot.insert(here);
                    let step = here.take(left, weights).map(|num| {
                        left = &left[num * mixture.likelihood.dim()..];
                        weights = weights.get(num..).unwrap_or_default();
                        here.is_full()
                    });
                    trouble =
                        step.and_then(|full| if full { send(slot.take()) } else { Ok(()) }).map_err(Trouble::from);
                }
                shared.add(panel);
                Ok(())
            });
            let read = read.map_err(Trouble::from).and(trouble).and(send(slot.take()).map_err(Trouble::from));
            // Nothing more comes.
            drop(to_worker);
            (read, works.join())
        });
        read?;
        let found = found.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        *passing = Some((free.try_iter().collect(), way));
        Ok((found.map_err(|failure| trouble_of(failure, batch))?, shared.sums))
    }

    /// The local step there.
    fn visit(
        &self,
        mixture: &Mixture<T>,
        params: &MixtureParams<T>,
        batch: &Batch<'_>,
        worker: &mut MixtureWorker<T>,
    ) -> std::result::Result<VisitedRows<T>, Trouble> {
        // Rows of other data, or dealt otherwise, are none of these.
        worker.resident.take_if(|resident| resident.deal != batch.data.id);
        let is_there = |resident: &Resident<T>| resident.batches.contains_key(&batch.number);
        if !worker.resident.as_ref().is_some_and(is_there) {
            let stays = self.has_room(mixture.likelihood.as_ref(), batch, mixture.num_clusters, worker)?;
            self.begin(mixture, batch, worker)?;
            if stays {
                self.bring(mixture, batch, worker)?;
            }
        }
        let (found, shared) = match &mut worker.resident {
            Some(resident) if is_there(resident) => self.visit_held(params, batch, resident)?,
            _ => self.visit_passing(mixture, params, batch, worker)?,
        };
        let num = mixture.num_clusters;
        let MixtureWorker { resident: Some(Resident { work, .. }), spare, .. } = worker else {
            return Err(not_dense().into());
        };
        let spare = spare.take().filter(|spare| spare.num_clusters() == num);
        let mut summary = spare.unwrap_or_else(|| mixture.likelihood.no_statistics(num));
        take_statistics(mixture.likelihood.as_ref(), work.sums()?, &shared, &mut summary);
        summary.entropy = found.entropy;
        let (trial, aside_seconds) = self.gather(mixture, params, batch, worker)?;
        summary.trial = trial.map(Box::new);
        let table = (batch.num_rows() * num) as u64;
        let tally = MixtureTally { weights: found.weighed, products: 0, table, aside_seconds };
        Ok(Visited { summary, memory: RowMemory::Nothing, found: params.search.sparsity, tally })
    }

    /// What the rows make of clusters that might be, where some are proposed, and the seconds of computing that it took. That
    /// is so in few laps, and of few clusters: the GPU says which clusters rows keep, and the CPU sums.
    fn gather(
        &self,
        mixture: &Mixture<T>,
        params: &MixtureParams<T>,
        batch: &Batch<'_>,
        worker: &mut MixtureWorker<T>,
    ) -> std::result::Result<(Option<Trial>, f64), Trouble> {
        let mut trial = params.growth.as_ref().and_then(|growth| growth.trial(mixture.likelihood.stat_width()));
        if trial.is_none() {
            return Ok((None, 0.0));
        }
        let MixtureWorker { panels, resident: Some(Resident { work, .. }), .. } = worker else {
            return Err(not_dense().into());
        };
        let (dim, sparsity) = (mixture.likelihood.dim(), self.sparsity(params));
        let (stretch, mut seconds) = (mixture.stretch_rows(), 0.0);
        // Errors of the GPU come out of the reading apart from its own.
        let mut trouble: std::result::Result<(), Trouble> = Ok(());
        mixture.for_each_panel_of(MOST_STRETCHES, batch, panels, |panel| {
            let Rows::Dense { values, .. } = &panel.rows else { return Err(not_dense()) };
            if trouble.is_ok() {
                trouble = assign_rows(work, values, (dim, sparsity), &mut panel.resp);
            }
            if trouble.is_ok() {
                panel.members.regroup_by(mixture.num_clusters, &panel.resp, &panel.row_weights, stretch);
                seconds += look_at(mixture, params, panel, trial.as_mut());
            }
            Ok(())
        })?;
        trouble.map(|()| (trial, seconds))
    }

    fn sparsity(&self, params: &MixtureParams<T>) -> usize {
        self.keep.unwrap_or(params.search.sparsity)
    }

    /// Whether the rows of a batch can stay on the GPU besides those that are there: others pass through, so that as many
    /// as there is room for need not be read in every lap.
    fn has_room(
        &self,
        likelihood: &dyn Likelihood<T>,
        batch: &Batch<'_>,
        clusters: usize,
        worker: &MixtureWorker<T>,
    ) -> lsparse_cuda::Result<bool> {
        let (form, dim, rows) =
            (form_of(likelihood.kind()).unwrap_or(Form::Columns), likelihood.dim(), batch.num_rows());
        let weighted = batch.data.row_weights.is_some();
        let work = if worker.resident.is_none() { bytes_of_work(form, rows, dim, clusters) } else { 0 };
        let needed = bytes_of_rows::<T>(form, rows, dim, weighted) + work + SPARE_BYTES;
        // Rows on their way, of this batch or of others.
        let passing = 2 * bytes_of_rows::<T>(form, rows.min(PANEL_ROWS), dim, weighted);
        Ok(self.device.free_memory()? >= needed + passing)
    }
}

/// Bytes of a GPU's memory that are left alone: work grows with what is found.
const SPARE_BYTES: u64 = 2 << 30;

/// What went wrong, with the row's number in the source.
fn trouble_of(failure: Failure, batch: &Batch<'_>) -> Trouble {
    match failure {
        Failure::NotANumber { row } => {
            let ids = batch.data.batches.row_ids(batch.number);
            Error::NanWeight { row: ids.get(row).copied().unwrap_or(row), cluster: 0 }.into()
        }
        Failure::Gpu(error) => Trouble::Device(error),
    }
}

/// The statistics that do not depend on which clusters rows belong to, as rows are read.
struct Shared<'a, T: Scalar> {
    likelihood: &'a dyn Likelihood<T>,
    is_weighted: bool,
    sums: Vec<f64>,
}

impl<'a, T: Scalar> Shared<'a, T> {
    fn new(likelihood: &'a dyn Likelihood<T>, batch: &Batch<'_>) -> Self {
        let is_weighted = batch.data.row_weights.is_some();
        Shared { likelihood, is_weighted, sums: vec![0.0; likelihood.shared_width()] }
    }

    fn add(&mut self, panel: &Panel<T>) {
        let weights = if self.is_weighted { &panel.row_weights[..] } else { &[] };
        add_shared(self.likelihood, &panel.rows, weights, &mut self.sums);
    }
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
