//! Which clusters a row is weighed against: all of them, all that are not ruled out, or candidates.
//!
//! A search knows the clusters that each row kept when it was last visited. Dense and exact search give the same
//! responsibilities bit for bit; candidate search gives the best L among a row's candidates.

mod candidates;
mod exact;
mod neighbours;
mod pairs;
mod partial;
mod sketch;
mod sparsity;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lsparse_kernels::Real;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::data::{Batch, Rows, Scalar};
use crate::error::Result;
use crate::likelihood::ClusterSummary;
use crate::likelihood::Clusters;
use crate::likelihood::{Keep, accumulate_onto, respond_by};
use crate::mixture::local::trial::look_at;
use crate::mixture::{
    LocalStep, MOST_STRETCHES, Mixture, MixtureParams, MixtureTally, MixtureWorker, Panel, RowMemory, VisitedRows,
    stretch_rows,
};
use crate::settings::SearchKind;
use crate::training::model::Visited;
use crate::training::responsibilities::Responsibilities;

pub(in crate::mixture) use candidates::{KeptClusters, NONE};
pub(in crate::mixture) use exact::Bounds;
use exact::{Exact, Sorted};
use neighbours::{Neighbours, TASK, keep_largest, mix};
pub(in crate::mixture) use pairs::Pairs;

/// Rows of a stretch for each cluster of a candidate search.
const ROWS_A_CLUSTER: usize = 4;

/// Responsibilities of a panel at most, about: what rows keep is to take no more memory than the rows.
const MOST_KEPT: usize = 1 << 22;

/// Numbers that a task copies.
const KEPT_A_TASK: usize = 1 << 14;

/// Exact search that does more than this share of the dense work takes longer than dense search.
const MOST_WORK: f64 = 0.75;

/// Work of a visit, as sums that do not depend on the order of threads.
#[derive(Default)]
pub struct Work {
    /// Weights computed in full.
    weights: AtomicU64,
    /// Products of bounds.
    products: AtomicU64,
}

impl Work {
    fn add_weights(&self, count: usize) {
        self.weights.fetch_add(count as u64, Ordering::Relaxed);
    }

    fn add_products(&self, count: usize) {
        self.products.fetch_add(count as u64, Ordering::Relaxed);
    }
}

/// L-sparse training: every row keeps the L largest of the weights that a search looks at.
#[derive(Clone, Debug)]
pub struct Search {
    kind: SearchKind,
    /// Largest mass that may be discarded; 0 leaves L as it is.
    tolerance: f64,
    least_stretch_rows: usize,
    stretches_at_once: usize,
    seed: u64,
    /// Whether exact search makes way for dense search where bounds rule too little out.
    gives_way: bool,
}

/// What a search has learned of the clusters, which goes with the parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchState {
    /// L, which may only rise.
    pub sparsity: usize,
    neighbours: Neighbours,
    /// Laps that exact search makes way for dense search.
    idle_laps: u32,
    /// How many they were when they began, which doubles when the next try is no better.
    last_idle: u32,
}

impl SearchState {
    /// Rows keep `sparsity` clusters, and nothing is known of the clusters.
    pub(crate) fn of(sparsity: usize) -> Self {
        SearchState { sparsity, neighbours: Neighbours::new(0), idle_laps: 0, last_idle: 0 }
    }
}

impl Search {
    /// A search for `num_clusters` clusters, of which rows keep `sparsity`, or as many more as it takes for the mass
    /// that is discarded to be below `tolerance` (0: exactly so many).
    pub fn new(kind: SearchKind, num_clusters: usize, sparsity: usize, tolerance: f64) -> Self {
        // Rows that keep all clusters have nothing to be found, nor K clusters each to be remembered.
        let kind = if kind == SearchKind::Exact && sparsity == num_clusters { SearchKind::Dense } else { kind };
        let least_stretch_rows = if kind == SearchKind::Neighbours { ROWS_A_CLUSTER * num_clusters } else { 0 };
        let kept = sparsity.saturating_mul(stretch_rows::<u8>(1).max(least_stretch_rows)).max(1);
        let stretches_at_once = (MOST_KEPT / kept).clamp(1, MOST_STRETCHES);
        Search { kind, tolerance, least_stretch_rows, stretches_at_once, seed: 0, gives_way: false }
    }

    /// Whether exact search makes way for dense search where it does more work: the responsibilities are the same.
    pub fn giving_way(self, gives_way: bool) -> Self {
        Search { gives_way, ..self }
    }

    /// Candidates are drawn with this seed.
    pub fn with_seed(self, seed: u64) -> Self {
        Search { seed, ..self }
    }

    /// Every weight of every row.
    pub fn dense(num_clusters: usize, sparsity: usize) -> Self {
        Search::new(SearchKind::Dense, num_clusters, sparsity, 0.0)
    }

    /// Whether rows are to remember their clusters.
    fn remembers_rows(&self) -> bool {
        self.kind != SearchKind::Dense
    }
}

/// Laps that exact search makes way for at most before it is tried again: clusters settle, and bounds with them.
const MOST_IDLE_LAPS: u32 = 16;

/// Work as a share of that of the full table.
fn work_share<T: Scalar>(mixture: &Mixture<T>, tally: &MixtureTally) -> f64 {
    // Products that a weight takes.
    let products = (mixture.likelihood.kind().family().products)(mixture.likelihood.dim());
    (tally.weights as f64 + tally.products as f64 / products as f64) / (tally.table as f64).max(1.0)
}

/// What a stretch of rows is searched with.
#[derive(Default)]
pub(in crate::mixture) struct SearchBuffers<T> {
    pairs: Pairs<T>,
    sorted: Sorted<T>,
}

impl<T> SearchBuffers<T> {
    /// The pairs of who works on a panel as a whole.
    pub(in crate::mixture) fn pairs(buffers: &mut Vec<Self>) -> &mut Pairs<T>
    where
        T: Default,
    {
        buffers.resize_with(buffers.len().max(1), SearchBuffers::default);
        &mut buffers[0].pairs
    }
}

/// Search the stretches of a panel side by side: while one of them waits for the last task of a pass, others go on.
fn side_by_side<T: Real>(
    buffers: &mut Vec<SearchBuffers<T>>,
    stretch: usize,
    sparsity: usize,
    (out, entropy): (&mut Responsibilities<T>, &mut Vec<f64>),
    search: impl Fn(Range<usize>, &mut SearchBuffers<T>, (&mut [u32], &mut [T], &mut [f64])) -> Result<()> + Sync,
) -> Result<()> {
    let num = entropy.len().div_ceil(stretch);
    buffers.resize_with(buffers.len().max(num), SearchBuffers::default);
    let size = stretch * sparsity;
    let places =
        out.index.par_chunks_mut(size).zip(out.value.par_chunks_mut(size)).zip(entropy.par_chunks_mut(stretch));
    let results: Vec<Result<()>> = places
        .zip(&mut buffers[..num])
        .enumerate()
        .with_max_len(1)
        .map(|(s, (((index, value), entropy), buffers))| {
            let rows = s * stretch..s * stretch + entropy.len();
            search(rows, buffers, (index, value, entropy))
        })
        .collect();
    // The first error by row, whichever stretch met its own first.
    results.into_iter().collect()
}

/// A batch being searched.
struct Visit<'v, T> {
    search: &'v Search,
    state: &'v SearchState,
    /// Seed of this visit.
    seed: u64,
    /// L, which may rise with the first rows of a lap.
    sparsity: usize,
    check_due: bool,
    /// Rows of a stretch; at most so many tell the L that is needed.
    stretch_rows: usize,
    /// What rows kept at the last visit, and what the first of them keep now.
    before: Cow<'v, KeptClusters>,
    now: Vec<u32>,
    rows_done: usize,
    /// Bounds are not yet those of these parameters.
    bounds_due: bool,
    bounds: &'v mut Option<Bounds<T>>,
    buffers: &'v mut Vec<SearchBuffers<T>>,
    work: Work,
    table: u64,
}

impl<T: Real> Visit<'_, T> {
    /// Rows keep `sparsity` clusters, if they kept fewer.
    fn raise(&mut self, sparsity: usize) {
        self.sparsity = self.sparsity.max(sparsity);
        if self.sparsity > self.before.sparsity() {
            self.before = Cow::Owned(self.before.raised(self.sparsity));
        }
    }

    /// The responsibilities of a panel of rows, and the entropy of each.
    fn respond(
        &mut self,
        clusters: &dyn Clusters<T>,
        (log_pi, log_pi_t): (&[f64], &[T]),
        (rows, row_ids): (&Rows<T>, &[usize]),
        (out, entropy): (&mut Responsibilities<T>, &mut Vec<f64>),
    ) -> Result<()> {
        if std::mem::take(&mut self.check_due) {
            let first = rows.len().min(self.stretch_rows);
            self.raise(sparsity::needed(clusters, log_pi_t, (rows, first), self.search.tolerance)?);
        }
        let sparsity = self.sparsity;
        self.table += (rows.len() * log_pi.len()) as u64;
        let stretch = self.stretch_rows;
        let Visit { search, before: kept, bounds, buffers, work, .. } = self;
        let of_batch = self.rows_done..self.rows_done + rows.len();
        self.rows_done = of_batch.end;
        match search.kind {
            // Nothing to find: all clusters are kept. (Exact search comes here where a chosen L has risen to K.)
            SearchKind::Dense | SearchKind::Exact if sparsity == log_pi.len() => {
                work.add_weights(rows.len() * sparsity);
                respond_by(Keep::All, clusters, log_pi, (rows, sparsity), out, entropy)?;
            }
            SearchKind::Exact if self.state.idle_laps == 0 && kept.know(of_batch.clone(), sparsity) => {
                if bounds.as_ref().is_some_and(|bounds| bounds.num_clusters() != log_pi.len()) {
                    **bounds = None;
                }
                let bounds = bounds.get_or_insert_with(|| Bounds::new(clusters, rows.dim()));
                if std::mem::take(&mut self.bounds_due) {
                    bounds.update(clusters, log_pi_t, rows);
                }
                let exact = Exact { clusters, log_pi: log_pi_t, bounds, rows };
                out.reshape(rows.len(), sparsity);
                entropy.resize(rows.len(), 0.0);
                side_by_side(
                    buffers,
                    stretch,
                    sparsity,
                    (out, entropy),
                    |range, SearchBuffers { pairs, sorted }, out| {
                        pairs.reshape(range.clone(), sparsity);
                        let lists = pairs.cluster.par_chunks_exact_mut(sparsity).zip(range.clone());
                        let kept = |n: usize| kept.row(of_batch.start + n);
                        lists.with_min_len(TASK).for_each(|(list, n)| list.copy_from_slice(kept(n)));
                        exact.respond((pairs, sorted), (range.start, sparsity), out, work)
                    },
                )?;
            }
            SearchKind::Neighbours if kept.know(of_batch.clone(), 1) => {
                let neighbours = &self.state.neighbours;
                out.reshape(rows.len(), sparsity);
                entropy.resize(rows.len(), 0.0);
                side_by_side(buffers, stretch, sparsity, (out, entropy), |range, SearchBuffers { pairs, .. }, out| {
                    let first = range.start;
                    neighbours.propose(kept, range, (of_batch.start, row_ids), self.seed, pairs);
                    pairs.weigh(clusters, log_pi_t, rows);
                    work.add_weights(pairs.len());
                    keep_largest(pairs, sparsity, first, out)
                })?;
            }
            _ => {
                work.add_weights(rows.len() * log_pi.len());
                respond_by(Keep::Largest, clusters, log_pi, (rows, sparsity), out, entropy)?;
            }
        }
        if self.search.remembers_rows() {
            // By many threads: memory that is fresh comes page by page.
            self.now.par_extend(out.index.par_iter().with_min_len(KEPT_A_TASK));
        }
        Ok(())
    }
}

/// Statistics of a panel whose responsibilities are known, added to a summary or put in the place of stale ones; returns
/// what the entropy has of values that rows lack.
fn sum_panel<T: Scalar>(
    mixture: &Mixture<T>,
    params: &MixtureParams<T>,
    panel: &mut Panel<T>,
    (summary, stale): (&mut ClusterSummary, bool),
) -> f64 {
    let Panel { rows, row_weights, resp, entropy, members, .. } = panel;
    let stretch = mixture.stretch_rows();
    members.regroup_by(mixture.num_clusters, resp, row_weights, stretch);
    let (likelihood, clusters) = (mixture.likelihood.as_ref(), Some(params.clusters.as_ref()));
    let completed = accumulate_onto(likelihood, clusters, rows, members, summary, stale);
    for (s, entropy) in entropy.chunks(stretch).enumerate() {
        summary.entropy += completed.get(s).unwrap_or(&0.0);
        summary.entropy += match row_weights.is_empty() {
            true => entropy.iter().sum::<f64>(),
            false => entropy.iter().zip(&row_weights[s * stretch..]).map(|(h, w)| h * w).sum(),
        };
    }
    completed.iter().sum()
}

impl<T: Scalar> LocalStep<T> for Search {
    fn state(&self, num_clusters: usize, sparsity: usize) -> SearchState {
        let counted = if self.kind == SearchKind::Neighbours { num_clusters } else { 0 };
        SearchState { neighbours: Neighbours::new(counted), ..SearchState::of(sparsity) }
    }

    fn least_stretch_rows(&self) -> usize {
        self.least_stretch_rows
    }

    fn stretches_at_once(&self) -> usize {
        self.stretches_at_once
    }

    fn keeps_rows(&self) -> bool {
        self.remembers_rows()
    }

    fn local(
        &self,
        mixture: &Mixture<T>,
        params: &MixtureParams<T>,
        batch: &Batch<'_>,
        memory: &RowMemory,
        worker: &mut MixtureWorker<T>,
    ) -> Result<VisitedRows<T>> {
        let MixtureWorker { panels, spare, bounds, buffers, .. } = worker;
        let spare = spare.take().filter(|spare| spare.num_clusters() == mixture.num_clusters);
        // A batch has a row at least, so that what is stale is cleared with its first panel. Fresh memory is cleared too:
        // pages that are read before they are written cost an interrupt of all other threads each.
        let mut stale = true;
        let mut trial = params.growth.as_ref().and_then(|growth| growth.trial(mixture.likelihood.stat_width()));
        let mut summary = match spare {
            Some(spare) => {
                ClusterSummary { counts: vec![0.0; mixture.num_clusters], entropy: 0.0, trial: None, ..spare }
            }
            None => mixture.likelihood.no_statistics(mixture.num_clusters),
        };
        let log_pi: Vec<T> = params.frequencies.log_pi.iter().map(|&v| T::from_f64(v)).collect();
        let before = match memory {
            // Other rows than last time have not been visited.
            RowMemory::Kept(kept) if kept.rows() == batch.num_rows() => Cow::Borrowed(kept),
            _ => Cow::default(),
        };
        let room = if self.remembers_rows() { batch.num_rows() * params.search.sparsity } else { 0 };
        let mut visit = Visit {
            search: self,
            state: &params.search,
            seed: mix(self.seed ^ batch.visit),
            sparsity: params.search.sparsity,
            check_due: self.tolerance > 0.0 && batch.begins_lap,
            stretch_rows: mixture.stretch_rows(),
            before,
            now: Vec::with_capacity(room),
            rows_done: 0,
            bounds_due: true,
            bounds,
            buffers,
            work: Work::default(),
            table: 0,
        };
        visit.raise(params.search.sparsity);
        let log_pi = (&params.frequencies.log_pi[..], &log_pi[..]);
        let respond = |panel: &mut Panel<T>| {
            let Panel { rows, row_ids, resp, entropy, .. } = panel;
            visit.respond(params.clusters.as_ref(), log_pi, (rows, row_ids), (resp, entropy))
        };
        let mut aside_seconds = 0.0;
        let sum = |panel: &mut Panel<T>| {
            let of_gaps = sum_panel(mixture, params, panel, (&mut summary, std::mem::take(&mut stale)));
            trial.iter_mut().for_each(|trial| trial.of_gaps += of_gaps);
            aside_seconds += look_at(mixture, params, panel, trial.as_mut());
        };
        mixture.for_each_panel_in_stages(batch, panels, respond, sum)?;
        let Visit { sparsity, now, work, table, .. } = visit;
        summary.trial = trial.map(Box::new);
        let memory = match self.remembers_rows() {
            true => RowMemory::Kept(KeptClusters::new(sparsity, now)),
            false => RowMemory::Nothing,
        };
        let (weights, products) = (work.weights.into_inner(), work.products.into_inner());
        let tally = MixtureTally { weights, products, table, aside_seconds };
        Ok(Visited { summary, memory, found: sparsity, tally })
    }

    fn take_up(&self, mixture: &Mixture<T>, params: &mut MixtureParams<T>, visited: &VisitedRows<T>) {
        let (memory, needed, tally) = (&visited.memory, visited.found, &visited.tally);
        let state = Arc::make_mut(&mut params.search);
        state.sparsity = state.sparsity.max(needed);
        if let (SearchKind::Neighbours, RowMemory::Kept(kept)) = (self.kind, memory) {
            state.neighbours.observe(kept);
        }
        if self.gives_way && tally.products > 0 {
            let too_much = work_share(mixture, tally) > MOST_WORK;
            state.last_idle = if too_much { (2 * state.last_idle).clamp(1, MOST_IDLE_LAPS) } else { 0 };
            state.idle_laps = state.last_idle;
        }
    }

    fn end_lap(&self, params: &mut MixtureParams<T>) {
        let state = Arc::make_mut(&mut params.search);
        state.idle_laps = state.idle_laps.saturating_sub(1);
        if self.kind == SearchKind::Neighbours {
            state.neighbours.end_lap();
        }
    }

    fn report(
        &self,
        mixture: &Mixture<T>,
        params: &MixtureParams<T>,
        tally: &MixtureTally,
    ) -> Vec<(&'static str, f64)> {
        let mut report = vec![("weights_evaluated", tally.weights as f64 / (tally.table as f64).max(1.0))];
        if self.kind == SearchKind::Exact {
            report.push(("search_work", work_share(mixture, tally)));
        }
        if self.tolerance > 0.0 {
            report.push(("sparsity", params.search.sparsity as f64));
        }
        report
    }
}
