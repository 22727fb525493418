//! A mixture as training sees it: parameters, local step, global step and objective.

use std::sync::Arc;
use std::time::Instant;

use lsparse_kernels::Real;
use serde::{Deserialize, Serialize};

use super::MixtureModel;
use super::growth::{Finding, Growth, GrowthState};
use super::local::device::Resident;
use super::local::methods::Frozen;
use super::local::search::{Bounds, KeptClusters, SearchBuffers, SearchState};
use crate::allocation::{Allocation, Frequencies};
use crate::clusters::Design;
use crate::data::{Ahead, Batch, Dealt, Layout, Rows, Scalar, Stretch};
use crate::error::{Error, Result};
use crate::likelihood::{ClusterSummary, Clusters, Estimate, Likelihood, Members, NamedArray};
use crate::training::model::{Model, Objective, Tally, Visited};
use crate::training::moves::Changes;
use crate::training::responsibilities::Responsibilities;
use crate::training::schedule::Kept;

/// A mixture model over rows of type `T`: a likelihood, how to estimate it, and how rows choose their clusters.
pub struct Mixture<T: Scalar> {
    /// The family of the clusters, with its prior.
    pub likelihood: Box<dyn Likelihood<T>>,
    /// Posterior, MAP or maximum likelihood.
    pub estimate: Estimate,
    /// Where frequencies of clusters come from.
    pub allocation: Allocation,
    /// Where K is to be found, what that takes.
    pub finding: Option<Finding<T>>,
    /// K, or what it is now.
    pub num_clusters: usize,
    /// L that a run starts with.
    pub sparsity: usize,
    /// How the clusters of a row are found, and what is made of them.
    pub step: Box<dyn LocalStep<T>>,
    /// What the log density of a row changes by from the units that rows are in to the data's own; 0 where they are those.
    pub units_change: f64,
}

/// Global parameters of a mixture.
pub struct MixtureParams<T: Real> {
    /// q(pi) or its point estimate.
    pub frequencies: Frequencies,
    /// The clusters.
    pub clusters: Box<dyn Clusters<T>>,
    /// What the search has learned of them.
    pub search: Arc<SearchState>,
    /// Where K is to be found, what is proposed.
    pub growth: Option<Arc<Growth<T>>>,
}

/// What of a mixture's parameters its statistics do not give.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CarriedClusters {
    pub(crate) search: Arc<SearchState>,
    /// Under maximum likelihood the shapes of clusters that have lost all rows, as the arrays of all.
    pub(crate) arrays: Option<Vec<(Vec<usize>, Vec<f64>)>>,
    /// Where K is to be found, what is proposed and was tried.
    pub(crate) growth: Option<GrowthState>,
}

/// What the rows of a batch remember of their last visit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum RowMemory {
    /// Nothing.
    #[default]
    Nothing,
    /// Each row its clusters.
    Kept(KeptClusters),
    /// Sparse EM: what is renewed, and what is frozen.
    Frozen(Frozen),
}

impl Kept for RowMemory {
    fn kept_bytes(&self) -> u64 {
        match self {
            RowMemory::Nothing => 0,
            RowMemory::Kept(kept) => kept.kept_bytes(),
            RowMemory::Frozen(frozen) => frozen.kept_bytes(),
        }
    }
}

/// Work done by visits of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MixtureTally {
    /// Weights computed in full.
    pub weights: u64,
    /// Products of bounds.
    pub products: u64,
    /// Weights of the full table.
    pub table: u64,
    /// Seconds of computing that went to looking at proposals, where K is to be found; in no file, whose bytes know no clock.
    #[serde(skip)]
    pub aside_seconds: f64,
}

impl Tally for MixtureTally {
    fn add(&mut self, other: &Self) {
        self.weights += other.weights;
        self.products += other.products;
        self.table += other.table;
        self.aside_seconds += other.aside_seconds;
    }

    fn aside_seconds(&self) -> f64 {
        self.aside_seconds
    }
}

/// What a visit of rows leaves behind.
pub type VisitedRows<T> = Visited<Mixture<T>>;

/// How the rows of a batch choose their clusters, and the parts of training that go with it: L-sparse search and its
/// siblings, the methods that it is compared with.
pub trait LocalStep<T: Scalar>: Send + Sync {
    /// Local step and statistics of one batch, and the L that its rows need; pure, as [`Model::local`] is.
    fn local(
        &self,
        mixture: &Mixture<T>,
        params: &MixtureParams<T>,
        batch: &Batch<'_>,
        memory: &RowMemory,
        worker: &mut MixtureWorker<T>,
    ) -> Result<VisitedRows<T>>;

    /// What is known of the clusters before any visit.
    fn state(&self, _num_clusters: usize, sparsity: usize) -> SearchState {
        SearchState::of(sparsity)
    }

    /// Rows whose statistics are best summed at once.
    fn least_stretch_rows(&self) -> usize {
        0
    }

    /// Stretches of rows that are best worked on at once.
    fn stretches_at_once(&self) -> usize {
        1
    }

    /// Whether rows remember something each.
    fn keeps_rows(&self) -> bool {
        false
    }

    /// Take up what a visit found: what rows remember, the L that they need, the work it took.
    fn take_up(&self, _mixture: &Mixture<T>, _params: &mut MixtureParams<T>, _visited: &VisitedRows<T>) {}

    /// A lap is over.
    fn end_lap(&self, _params: &mut MixtureParams<T>) {}

    /// The statistics to start from, where not from seeds.
    fn initial(&self, _mixture: &Mixture<T>, _data: &Dealt<'_>) -> Option<ClusterSummary> {
        None
    }

    /// The best parameters for these statistics.
    fn global_step(
        &self,
        mixture: &Mixture<T>,
        total: &ClusterSummary,
        previous: Option<&MixtureParams<T>>,
    ) -> Result<MixtureParams<T>> {
        let clusters = previous.map(|p| p.clusters.as_ref());
        Ok(MixtureParams {
            frequencies: mixture.allocation.frequencies(mixture.estimate, &total.counts),
            clusters: mixture.likelihood.global_step(mixture.estimate, &total.counts, &total.stats, clusters)?,
            search: mixture.search_state(previous),
            growth: mixture.growth(previous),
        })
    }

    /// What training raises.
    fn objective(&self, mixture: &Mixture<T>, params: &MixtureParams<T>, total: &ClusterSummary) -> Objective {
        Objective {
            data: params.clusters.own_data_term() + mixture.units_change * total.total_weight(),
            entropy: total.entropy,
            alloc: mixture.allocation.term(mixture.estimate, &total.counts),
        }
    }

    /// What there is to report of a lap.
    fn report(
        &self,
        _mixture: &Mixture<T>,
        _params: &MixtureParams<T>,
        _tally: &MixtureTally,
    ) -> Vec<(&'static str, f64)> {
        Vec::new()
    }

    /// Last changes to the model that is saved.
    fn finish(&self, _model: &mut MixtureModel) {}
}

/// Bytes of a stretch of rows, the unit that statistics are summed by.
pub(super) const STRETCH_BYTES: usize = 4 << 20;

/// Stretches of a panel at most, the unit that is read and worked on at a time: with more rows there are more tasks, and
/// threads wait for the last of them less often.
pub(crate) const MOST_STRETCHES: usize = 4;

/// Stretches of the first panel at most, which nothing else is worked on beside.
const FIRST_STRETCHES: usize = 2;

/// Clusters up to which rows of small data are held from lap to lap: with more of them a row is weighed far longer than it
/// is read, and the memory is worth more.
const MOST_HELD_CLUSTERS: usize = 64;

/// Rows of a stretch: a rule on the row's width alone, so that results do not depend on threads or memory.
pub(crate) fn stretch_rows<T>(dim: usize) -> usize {
    (STRETCH_BYTES / (dim * size_of::<T>()).max(1)).clamp(512, 16_384)
}

/// A panel of rows with its buffers, kept from batch to batch.
pub struct Panel<T> {
    pub(super) rows: Rows<T>,
    pub(super) row_ids: Vec<usize>,
    pub(super) row_weights: Vec<f64>,
    pub(super) resp: Responsibilities<T>,
    /// The entropy of each row.
    pub(super) entropy: Vec<f64>,
    pub(super) members: Members<T>,
}

impl<T: Real> Panel<T> {
    pub(super) fn new(layout: Layout, dim: usize) -> Self {
        Panel {
            rows: Rows::new(layout, dim),
            row_ids: Vec::new(),
            row_weights: Vec::new(),
            resp: Responsibilities::default(),
            entropy: Vec::new(),
            members: Members::default(),
        }
    }

    /// Take the rows that were read, or give them back.
    fn exchange(&mut self, read: &mut Stretch<T>) {
        std::mem::swap(&mut self.rows, &mut read.rows);
        std::mem::swap(&mut self.row_ids, &mut read.row_ids);
    }

    /// Take the rows that were read, with their weights.
    fn take(&mut self, read: &mut Stretch<T>, data: &Dealt<'_>) {
        self.exchange(read);
        self.row_weights.clear();
        if let Some(weights) = data.row_weights {
            self.row_weights.extend(self.row_ids.iter().map(|&n| weights[n - data.first_weight]));
        }
    }
}

/// The panel that is worked on, the one before it, and what reads the next one meanwhile.
pub struct Panels<T> {
    pub(super) ahead: Ahead<T>,
    pub(super) panel: Panel<T>,
    before: Panel<T>,
}

/// What works on rows: buffers, of which no result depends on what is in them.
pub struct MixtureWorker<T> {
    pub(super) panels: Option<Panels<T>>,
    /// Statistics whose memory is free: those of many clusters are large, and new memory from the system costs more than
    /// summing them.
    pub(super) spare: Option<ClusterSummary>,
    /// Bounds follow where rows lie from batch to batch: that changes the work, not the result.
    pub(super) bounds: Option<Bounds<T>>,
    /// What stretches of rows are searched with, one each.
    pub(super) buffers: Vec<SearchBuffers<T>>,
    /// Rows on a GPU.
    pub(super) resident: Option<Resident<T>>,
}

impl<T> MixtureWorker<T> {
    /// Measure where the time of local steps on a GPU goes, from now on; it must have done one.
    pub fn measure_device(&mut self) {
        self.resident.iter_mut().for_each(Resident::measure);
    }

    /// Seconds that each part of them took since.
    pub fn device_times(&self) -> Vec<(&'static str, f64)> {
        self.resident.as_ref().map_or_else(Vec::new, Resident::times)
    }
}

/// An error that counted rows within a panel, with the row's number in the source instead.
pub(super) fn with_source_row(error: Error, row_ids: &[usize]) -> Error {
    let id = |row: usize| row_ids.get(row).copied().unwrap_or(row);
    match error {
        Error::NanWeight { row, cluster } => Error::NanWeight { row: id(row), cluster },
        Error::RowOutOfRange { row } => Error::RowOutOfRange { row: id(row) },
        other => other,
    }
}

impl<T: Scalar> Mixture<T> {
    /// The layout that the likelihood wants its rows in.
    pub fn layout(&self) -> Layout {
        self.likelihood.layout()
    }

    /// What its first clusters are found for.
    pub fn design(&self) -> Design<'_, T> {
        let Mixture { estimate, allocation, num_clusters, sparsity, .. } = *self;
        Design { likelihood: self.likelihood.as_ref(), estimate, allocation, num_clusters, sparsity }
    }

    /// Rows whose statistics are summed at once.
    pub(super) fn stretch_rows(&self) -> usize {
        stretch_rows::<T>(self.likelihood.dim()).max(self.step.least_stretch_rows())
    }

    /// Run `visit` over the panels of a batch, a stretch each: the rows, and their numbers in the source.
    pub fn for_each_panel(
        &self,
        batch: &Batch<'_>,
        panels: &mut Option<Panels<T>>,
        visit: impl FnMut(&mut Panel<T>) -> Result<()>,
    ) -> Result<()> {
        self.for_each_panel_of(1, batch, panels, visit)
    }

    /// Look at the rows of the first of these panels.
    pub(super) fn first_panel(&self, batch: &Batch<'_>, visit: impl FnOnce(&Rows<T>)) -> Result<()> {
        let (data, stretch, mut visit) = (batch.data, self.stretch_rows(), Some(visit));
        let cut = data.batches.growing_panels(batch.number, stretch, 1, 1);
        // A reader of its own, which does not take them for the whole batch.
        let mut ahead = Ahead::new(self.layout(), self.likelihood.dim()).holding(false);
        ahead.for_each_panel(data, cut.into_iter().take(1), |read| {
            visit.take().into_iter().for_each(|visit| visit(&read.rows));
            Ok(())
        })
    }

    /// The same with panels of several stretches at most.
    pub(super) fn for_each_panel_of(
        &self,
        stretches: usize,
        batch: &Batch<'_>,
        panels: &mut Option<Panels<T>>,
        mut visit: impl FnMut(&mut Panel<T>) -> Result<()>,
    ) -> Result<()> {
        let Panels { ahead, panel, .. } = panels.get_or_insert_with(|| self.new_panels());
        let (data, stretch) = (batch.data, self.stretch_rows());
        let cut = data.batches.growing_panels(batch.number, stretch, 1, stretches);
        ahead.for_each_panel(data, cut.into_iter(), |read| {
            panel.take(read, data);
            let result = visit(panel).map_err(|error| with_source_row(error, &panel.row_ids));
            panel.exchange(read);
            result
        })
    }

    fn new_panels(&self) -> Panels<T> {
        let (layout, dim) = (self.layout(), self.likelihood.dim());
        let ahead = Ahead::new(layout, dim).holding(self.num_clusters <= MOST_HELD_CLUSTERS);
        Panels { ahead, panel: Panel::new(layout, dim), before: Panel::new(layout, dim) }
    }

    /// The same in two stages, with as many stretches a panel as the local step wants: while `first` is at a panel, `then`
    /// is at the one before, so that no thread is idle while either waits for its last task. Both see the panels in order, and `then` all that `first` had no error with.
    pub(super) fn for_each_panel_in_stages(
        &self,
        batch: &Batch<'_>,
        panels: &mut Option<Panels<T>>,
        mut first: impl FnMut(&mut Panel<T>) -> Result<()> + Send,
        mut then: impl FnMut(&mut Panel<T>) + Send,
    ) -> Result<()> {
        let Panels { ahead, panel, before } = panels.get_or_insert_with(|| self.new_panels());
        let (data, stretch) = (batch.data, self.stretch_rows());
        // What a panel has to do with is more tasks; few threads have enough with a stretch each. No result depends on it.
        let at_once = self.step.stretches_at_once().min(rayon::current_num_threads());
        let cut = data.batches.growing_panels(batch.number, stretch, FIRST_STRETCHES.min(at_once), at_once);
        let (alone, mut waits) = (cut.len() == 1, false);
        ahead.for_each_panel(data, cut.into_iter(), |read| {
            panel.take(read, data);
            let result = match std::mem::take(&mut waits) {
                true => rayon::join(|| first(panel), || then(before)).0,
                false => first(panel),
            };
            if let Err(error) = result {
                let error = with_source_row(error, &panel.row_ids);
                panel.exchange(read);
                return Err(error);
            }
            if alone {
                then(panel);
            } else {
                // This one waits, and the reader is given the rows of the one before.
                std::mem::swap(panel, before);
                waits = true;
            }
            panel.exchange(read);
            Ok(())
        })?;
        if waits {
            then(before);
        }
        Ok(())
    }
}

impl<T: Scalar> Mixture<T> {
    /// What the search knows, with these parameters or before any.
    pub(super) fn search_state(&self, previous: Option<&MixtureParams<T>>) -> Arc<SearchState> {
        previous.map_or_else(|| self.step.state(self.num_clusters, self.sparsity).into(), |p| Arc::clone(&p.search))
    }

    /// There are so many clusters now.
    pub(super) fn resize(&mut self, num_clusters: usize) {
        self.num_clusters = num_clusters;
        if let Some(finding) = &self.finding {
            self.sparsity = finding.sparsity.min(num_clusters);
        }
    }

    /// What is proposed, with these parameters or before any.
    fn growth(&self, previous: Option<&MixtureParams<T>>) -> Option<Arc<Growth<T>>> {
        let begin = || self.finding.as_ref().map(|finding| Arc::new(Growth::begin(finding, self.num_clusters)));
        previous.and_then(|previous| previous.growth.clone()).or_else(begin)
    }

    /// Parameters under which the best cluster of a row is the one with the nearest centre.
    pub(super) fn equal_params(
        &self,
        clusters: Box<dyn Clusters<T>>,
        previous: Option<&MixtureParams<T>>,
    ) -> MixtureParams<T> {
        let num = clusters.num_clusters();
        let frequencies = Frequencies { log_pi: vec![-(num as f64).ln(); num], pi: vec![1.0 / num as f64; num] };
        MixtureParams { frequencies, clusters, search: self.search_state(previous), growth: None }
    }
}

impl<T: Scalar> Model for Mixture<T> {
    type Params = MixtureParams<T>;
    type Carried = CarriedClusters;
    type Summary = ClusterSummary;
    type Memory = RowMemory;
    type Found = usize;
    type Tally = MixtureTally;
    type Worker = MixtureWorker<T>;

    fn worker(&self) -> MixtureWorker<T> {
        MixtureWorker { panels: None, spare: None, bounds: None, buffers: Vec::new(), resident: None }
    }

    fn set_deadline(&mut self, until: Option<Instant>) {
        self.likelihood.set_deadline(until);
    }

    fn local(
        &self,
        params: &MixtureParams<T>,
        batch: &Batch<'_>,
        memory: &RowMemory,
        worker: &mut MixtureWorker<T>,
    ) -> Result<Visited<Self>> {
        self.step.local(self, params, batch, memory, worker)
    }

    fn reuse(&self, spent: ClusterSummary, worker: &mut MixtureWorker<T>) {
        worker.spare = Some(spent);
    }

    fn take_up(&self, params: &mut MixtureParams<T>, _batch: usize, visited: &Visited<Self>) {
        self.step.take_up(self, params, visited);
    }

    fn end_lap(&self, params: &mut MixtureParams<T>) {
        self.step.end_lap(params);
    }

    fn global_step(&self, total: &ClusterSummary, previous: Option<&MixtureParams<T>>) -> Result<MixtureParams<T>> {
        self.step.global_step(self, total, previous)
    }

    /// What the clusters before leave is freed by a thread that is idle: those of many clusters are many pieces of memory.
    fn update(&self, params: &mut MixtureParams<T>, total: &ClusterSummary) -> Result<()> {
        let before = std::mem::replace(params, self.global_step(total, Some(params))?);
        // (A thread that is alone would come to it at the end of the run.)
        match rayon::current_thread_index().filter(|_| rayon::current_num_threads() > 1) {
            Some(_) => rayon::spawn(move || drop(before)),
            None => drop(before),
        }
        Ok(())
    }

    fn objective(&self, params: &MixtureParams<T>, total: &ClusterSummary) -> Objective {
        self.step.objective(self, params, total)
    }

    fn carried(&self, params: &MixtureParams<T>) -> CarriedClusters {
        let shapes = || params.clusters.arrays().into_iter().map(|a| (a.shape, a.values)).collect();
        let arrays = (self.estimate == Estimate::MaxLikelihood).then(shapes);
        let growth = params.growth.as_ref().map(|growth| growth.state.clone());
        CarriedClusters { search: Arc::clone(&params.search), arrays, growth }
    }

    fn restore(&mut self, total: &ClusterSummary, carried: CarriedClusters) -> Result<Option<MixtureParams<T>>> {
        let CarriedClusters { search, arrays, growth } = carried;
        if self.estimate != Estimate::MaxLikelihood {
            if self.finding.is_some() {
                self.resize(total.num_clusters());
                growth.iter().for_each(|state| self.restore_prior(state));
            }
            let params = self.global_step(total, None)?;
            let growth = growth.map(|state| Growth::of(state, self.likelihood.as_ref()).map(Arc::new)).transpose()?;
            return Ok(Some(MixtureParams { search, growth, ..params }));
        }
        let Some(stored) = arrays else { return Ok(None) };
        let named = self.likelihood.kind().arrays(self.estimate).map(|array| array.name).zip(stored);
        let arrays: Vec<NamedArray> = named.map(|(name, (shape, values))| NamedArray { name, shape, values }).collect();
        let frequencies = Frequencies { log_pi: Vec::new(), pi: Vec::new() };
        let previous =
            MixtureParams { frequencies, clusters: self.likelihood.clusters_of(&arrays)?, search, growth: None };
        self.global_step(total, Some(&previous)).map(Some)
    }

    fn moves(
        &mut self,
        params: &mut MixtureParams<T>,
        total: &ClusterSummary,
        _memo: &dyn Fn(usize) -> Result<Option<Arc<ClusterSummary>>>,
        data: &Dealt<'_>,
        laps: usize,
    ) -> Result<Option<Changes>> {
        super::growth::moves(self, params, total, data, laps)
    }

    fn keeps_rows(&self) -> bool {
        self.step.keeps_rows()
    }

    fn report(&self, params: &MixtureParams<T>, tally: &MixtureTally) -> Vec<(&'static str, f64)> {
        self.step.report(self, params, tally)
    }
}
