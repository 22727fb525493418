//! Which clusters a row is weighed against: all of them, all that are not ruled out, or candidates.
//!
//! A search remembers the clusters that each row kept when it was last visited. Dense and exact search give the same
//! responsibilities bit for bit; candidate search gives the best L among a row's candidates.

mod candidates;
mod exact;
mod neighbours;
mod pairs;
mod partial;
mod sketch;
mod sparsity;

use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lsparse_kernels::Real;
use serde::{Deserialize, Serialize};

use super::local::{respond, respond_dense};
use crate::data::Rows;
use crate::error::Result;
use crate::likelihood::{Clusters, LikelihoodKind};
use crate::responsibilities::Responsibilities;
use crate::schedule::MemoPlace;

pub(super) use candidates::NONE;
use candidates::{CandidateSlots, Candidates};
use exact::{Bounds, Exact};
use neighbours::{Neighbours, keep_largest, mix};
pub(super) use pairs::Pairs;

/// How the L clusters of a row are found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SearchKind {
    /// Exact where it wins, dense elsewhere.
    #[default]
    Auto,
    /// Every weight of every row.
    Dense,
    /// The same clusters as dense, leaving out weights that a bound rules out.
    Exact,
    /// The best among a row's clusters, their neighbours and a few random ones: cost does not depend on K.
    Neighbours,
}

/// Rows of a panel for each cluster of a candidate search.
const ROWS_A_CLUSTER: usize = 4;

/// From how many columns on, and how many clusters times columns, exact search is the faster one for triangular forms:
/// with 64 columns it takes 1.1, 0.78 and 0.56 of the dense time for 50, 100 and 200 clusters, with 36 columns 1.1 and
/// 0.81 for 100 and 400.
const TRIANGULAR_PAYS: (usize, usize) = (32, 6400);
/// The same for diagonal forms: 1.1, 0.90, 0.76 and 0.67 for 200, 400, 800 and 1,600 clusters of 64 columns, 1.1 and
/// 0.74 for 400 and 800 of 36.
const DIAGONAL_PAYS: (usize, usize) = (32, 25_600);
/// Never: with 1,600 clusters of 64 columns a distance still takes no longer than its bound (1.0 of the dense time).
const SPHERICAL_PAYS: (usize, usize) = (usize::MAX, usize::MAX);

impl SearchKind {
    /// What is done for this family, K and number of columns: the one place that decides.
    pub fn settle(self, likelihood: LikelihoodKind, num_clusters: usize, dim: usize) -> SearchKind {
        let bound_pays = match likelihood {
            LikelihoodKind::ZeroMeanGauss | LikelihoodKind::Gauss => Some(TRIANGULAR_PAYS),
            LikelihoodKind::DiagGauss => Some(DIAGONAL_PAYS),
            LikelihoodKind::SphericalGauss => Some(SPHERICAL_PAYS),
            // A bound costs as much as the distance that a weight is.
            LikelihoodKind::TiedGauss => None,
            // A row's entries with each column's best cluster for those not added yet bound the weights of sparse rows.
            // On the KOS documents with K = 400, thresholds known and the most telling words first, 72 % of clusters are
            // left after half of the words: the 39 % of products saved do not pay for picking the rest one by one.
            LikelihoodKind::Multinomial | LikelihoodKind::Bernoulli => None,
        };
        match (self, bound_pays) {
            (SearchKind::Auto, Some((columns, product))) if dim >= columns && num_clusters * dim >= product => {
                SearchKind::Exact
            }
            (SearchKind::Auto, _) | (SearchKind::Exact, None) => SearchKind::Dense,
            (chosen, _) => chosen,
        }
    }
}

/// Work done since the last report, as sums that do not depend on the order of threads.
#[derive(Default)]
pub struct Work {
    /// Weights computed in full.
    weights: AtomicU64,
    /// Products of bounds.
    products: AtomicU64,
    /// Weights of the full table.
    table: AtomicU64,
}

impl Work {
    fn counters(&self) -> [&AtomicU64; 3] {
        [&self.weights, &self.products, &self.table]
    }

    fn add_weights(&self, count: usize) {
        self.weights.fetch_add(count as u64, Ordering::Relaxed);
    }

    fn add_products(&self, count: usize) {
        self.products.fetch_add(count as u64, Ordering::Relaxed);
    }
}

/// A search and what it remembers of a run.
pub struct Search<T> {
    kind: SearchKind,
    /// Largest mass that may be discarded; 0 leaves L as it is.
    tolerance: f64,
    panel_rows: usize,
    memory: Mutex<Memory<T>>,
    work: Work,
}

/// What a search carries from batch to batch.
pub struct Memory<T> {
    /// L, which may only rise.
    sparsity: usize,
    seed: u64,
    /// The clusters that rows kept.
    candidates: Candidates,
    neighbours: Neighbours,
    bounds: Option<Bounds<T>>,
    pairs: Pairs<T>,
    batches_done: usize,
    /// The clusters have changed since they were bounded.
    bounds_due: bool,
    /// L is to be checked with the next rows.
    check_due: bool,
}

/// What a search remembers that results depend on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Remembered {
    sparsity: usize,
    seed: u64,
    candidates: CandidateSlots,
    neighbours: Neighbours,
    batches_done: usize,
    check_due: bool,
    /// Work done since the last report.
    work: [u64; 3],
}

impl<T: Real> Search<T> {
    /// A search for `num_clusters` clusters, of which rows keep `sparsity`, or as many more as it takes for the mass
    /// that is discarded to be below `tolerance` (0: exactly so many).
    pub fn new(kind: SearchKind, num_clusters: usize, sparsity: usize, tolerance: f64) -> Self {
        // Rows that keep all clusters have nothing to be found, nor K clusters each to be remembered.
        let kind = if kind == SearchKind::Exact && sparsity == num_clusters { SearchKind::Dense } else { kind };
        let memory = Memory {
            sparsity,
            seed: 0,
            candidates: Candidates::new(MemoPlace::default()),
            neighbours: Neighbours::new(if kind == SearchKind::Neighbours { num_clusters } else { 0 }),
            bounds: None,
            pairs: Pairs::default(),
            batches_done: 0,
            bounds_due: true,
            check_due: tolerance > 0.0,
        };
        let panel_rows = if kind == SearchKind::Neighbours { ROWS_A_CLUSTER * num_clusters } else { 0 };
        Search { kind, tolerance, panel_rows, memory: Mutex::new(memory), work: Work::default() }
    }

    /// Remember the clusters of rows in this place.
    pub fn remember_in(self, place: MemoPlace) -> Self {
        self.memory().candidates = Candidates::new(place);
        self
    }

    /// Whether it remembers the clusters of rows.
    pub fn remembers_rows(&self) -> bool {
        self.kind != SearchKind::Dense
    }

    /// Every weight of every row.
    pub fn dense(num_clusters: usize, sparsity: usize) -> Self {
        Search::new(SearchKind::Dense, num_clusters, sparsity, 0.0)
    }

    /// Forget everything: another run starts, with this seed.
    pub fn restart(&self, num_clusters: usize, sparsity: usize, seed: u64) {
        let mut memory = self.memory();
        let place = memory.candidates.place().clone();
        let fresh = Search::<T>::new(self.kind, num_clusters, sparsity, self.tolerance).remember_in(place).memory;
        *memory = fresh.into_inner().unwrap_or_else(PoisonError::into_inner);
        memory.seed = seed;
    }

    /// Rows that are best searched at once: candidates of a cluster are to fill whole tiles.
    pub(super) fn least_panel_rows(&self) -> usize {
        self.panel_rows
    }

    /// L as it is now.
    pub fn sparsity(&self) -> usize {
        self.memory().sparsity
    }

    /// A copy of what results depend on, for a checkpoint, and the file that must be on disk before it. (Bounds do not
    /// change results, and are made anew.)
    pub fn remembered(&self) -> (Remembered, Option<Arc<File>>) {
        let mut memory = self.memory();
        let file = memory.candidates.memos().begin_checkpoint();
        let remembered = Remembered {
            sparsity: memory.sparsity,
            seed: memory.seed,
            candidates: memory.candidates.slots(),
            neighbours: memory.neighbours.clone(),
            batches_done: memory.batches_done,
            check_due: memory.check_due,
            work: self.work.counters().map(|counter| counter.load(Ordering::Relaxed)),
        };
        (remembered, file)
    }

    /// The checkpoint with what was remembered last is on disk.
    pub fn remembered_is_safe(&self) {
        self.memory().candidates.memos().end_checkpoint();
    }

    /// Go on from what was remembered.
    pub fn recall(&self, remembered: Remembered) -> Result<()> {
        let Remembered { sparsity, seed, candidates, neighbours, batches_done, check_due, work } = remembered;
        self.work.counters().iter().zip(work).for_each(|(counter, value)| counter.store(value, Ordering::Relaxed));
        let mut memory = self.memory();
        let place = memory.candidates.place().clone();
        *memory = Memory {
            sparsity,
            seed,
            candidates: Candidates::restore(candidates, place)?,
            neighbours,
            bounds: None,
            pairs: Pairs::default(),
            batches_done,
            bounds_due: true,
            check_due,
        };
        Ok(())
    }

    pub(super) fn memory(&self) -> MutexGuard<'_, Memory<T>> {
        // A thread that panicked took the run with it.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A batch begins, one of `num_batches` in a lap, with `num_rows` rows.
    pub(super) fn begin_batch(
        &self,
        memory: &mut Memory<T>,
        num_batches: usize,
        batch: usize,
        num_rows: usize,
    ) -> Result<()> {
        memory.bounds_due = true;
        if self.remembers_rows() {
            memory.candidates.begin(num_batches, batch, num_rows, memory.sparsity)?;
        }
        Ok(())
    }

    /// The responsibilities of a panel of rows, and the entropy of each.
    pub(super) fn respond(
        &self,
        memory: &mut Memory<T>,
        clusters: &dyn Clusters<T>,
        (log_pi, log_pi_t): (&[f64], &[T]),
        (rows, row_ids): (&Rows<T>, &[usize]),
        out: &mut Responsibilities<T>,
    ) -> Result<Vec<f64>> {
        if std::mem::take(&mut memory.check_due) {
            let needed = sparsity::needed(clusters, log_pi_t, rows, self.tolerance)?;
            memory.sparsity = memory.sparsity.max(needed);
            memory.candidates.raise(memory.sparsity);
        }
        let sparsity = memory.sparsity;
        self.work.table.fetch_add((rows.len() * log_pi.len()) as u64, Ordering::Relaxed);
        let Memory { candidates, neighbours, bounds, pairs, .. } = memory;
        let (kept, of_batch) = candidates.next(rows.len());
        let entropy = match self.kind {
            // Nothing to find: all clusters are kept. (Exact search comes here where a chosen L has risen to K.)
            SearchKind::Dense | SearchKind::Exact if sparsity == log_pi.len() => {
                self.work.add_weights(rows.len() * sparsity);
                respond_dense(clusters, log_pi, rows, out)?
            }
            SearchKind::Exact if kept.know(of_batch.clone(), sparsity) => {
                let bounds = bounds.get_or_insert_with(|| Bounds::new(clusters, rows.dim()));
                if std::mem::take(&mut memory.bounds_due) {
                    bounds.update(clusters, log_pi_t, rows);
                }
                pairs.reset(rows.len(), sparsity);
                for (list, n) in pairs.cluster.chunks_exact_mut(sparsity).zip(of_batch) {
                    list.copy_from_slice(kept.row(n));
                }
                let exact = Exact { clusters, log_pi: log_pi_t, bounds, rows };
                exact.respond(pairs, sparsity, out, &self.work)?
            }
            SearchKind::Neighbours if kept.know(of_batch.clone(), 1) => {
                neighbours.propose(&kept, (of_batch, row_ids), mix(memory.seed ^ memory.batches_done as u64), pairs);
                pairs.weigh(clusters, log_pi_t, rows);
                self.work.add_weights(pairs.len());
                out.resize(rows.len(), sparsity);
                keep_largest(pairs, sparsity, out)?
            }
            _ => {
                self.work.add_weights(rows.len() * log_pi.len());
                respond(clusters, log_pi, rows, sparsity, out)?
            }
        };
        if self.remembers_rows() {
            candidates.keep(&out.index);
        }
        if self.kind == SearchKind::Neighbours {
            neighbours.observe(out);
        }
        Ok(entropy)
    }

    /// A batch is done, one of `num_batches` in a lap.
    pub(super) fn end_batch(&self, memory: &mut Memory<T>, num_batches: usize, batch: usize) -> Result<()> {
        if self.remembers_rows() {
            memory.candidates.end(batch, memory.sparsity)?;
        }
        memory.batches_done += 1;
        if memory.batches_done.is_multiple_of(num_batches) {
            memory.check_due = self.tolerance > 0.0;
            if self.kind == SearchKind::Neighbours {
                memory.neighbours.end_lap();
            }
        }
        Ok(())
    }

    /// What was done since the last report, for families whose weight takes `products` products.
    pub(super) fn report(&self, products: usize) -> Vec<(&'static str, f64)> {
        let take = |counter: &AtomicU64| counter.swap(0, Ordering::Relaxed) as f64;
        let (weights, bounds, table) = (take(&self.work.weights), take(&self.work.products), take(&self.work.table));
        let mut report = vec![("weights_evaluated", weights / table.max(1.0))];
        if self.kind == SearchKind::Exact {
            report.push(("search_work", (weights + bounds / products as f64) / table.max(1.0)));
        }
        if self.tolerance > 0.0 {
            report.push(("sparsity", self.sparsity() as f64));
        }
        report
    }
}
