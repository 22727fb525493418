//! A hidden Markov model as training sees it: parameters, local step, global step and objective.

use std::sync::Arc;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::local::{self, SequenceWorker};
use super::steps::Lacking;
use crate::allocation::{Allocation, Chain, ChainCounts, ChainPrior, chain_term};
use crate::clusters::Design;
use crate::data::{Batch, Scalar};
use crate::error::Result;
use crate::likelihood::{ClusterSummary, Clusters, Estimate, Likelihood, NamedArray};
use crate::training::model::{Model, Objective, Tally, Visited};
use crate::training::schedule::Kept;
use crate::training::summary::Summary;

/// A hidden Markov model over rows of type `T`: what a state looks like, how it is estimated, and how many states a step keeps.
#[derive(Clone)]
pub struct Sequence<T: Scalar> {
    /// The family of the states, with its prior.
    pub likelihood: Arc<dyn Likelihood<T>>,
    /// Posterior, MAP or maximum likelihood.
    pub estimate: Estimate,
    /// The prior of start and transitions.
    pub prior: ChainPrior,
    /// K.
    pub num_states: usize,
    /// L that a run starts with.
    pub sparsity: usize,
    /// Share that a step may lose on average before L rises; none where L is given.
    pub tolerance: Option<f64>,
    /// Whether steps look at the states that follow alone, once they have kept some.
    pub follows: bool,
    /// Which rows are steps without an observation; none where all are there.
    pub lacking: Option<Arc<Lacking>>,
    /// What statistics of a batch stand for, where the batch is a sample of the sequences.
    pub(crate) stands_for: Option<StandsFor>,
}

/// Rows and sequences that a sample stands for: the prior is to weigh as little beside it as it will beside them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct StandsFor {
    /// Rows.
    pub rows: f64,
    /// Sequences.
    pub sequences: f64,
}

impl StandsFor {
    /// Bring statistics of a sample to this scale.
    fn scale(&self, summary: &mut SequenceSummary) {
        let rows = summary.clusters.total_weight();
        summary.scale(self.rows / rows.max(f64::MIN_POSITIVE));
        let starts: f64 = summary.chain.start.iter().sum();
        summary.chain.start.iter_mut().for_each(|start| *start *= self.sequences / starts);
    }
}

/// Global parameters of a hidden Markov model.
pub struct SequenceParams<T> {
    /// Start and transitions.
    pub chain: Chain,
    /// The states.
    pub clusters: Box<dyn Clusters<T>>,
    /// L.
    pub sparsity: usize,
}

/// Statistics of sequences: those of the states' rows with the entropy of paths, and those of the chain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SequenceSummary {
    /// Of the rows, and the entropy of q(z).
    pub clusters: ClusterSummary,
    /// Starts and transitions.
    pub chain: ChainCounts,
}

impl Summary for SequenceSummary {
    fn add_scaled(&mut self, other: &Self, factor: f64) {
        self.clusters.add_scaled(&other.clusters, factor);
        self.chain.add_scaled(&other.chain, factor);
    }

    fn scale(&mut self, factor: f64) {
        self.clusters.scale(factor);
        self.chain.scale(factor);
    }

    fn counts(&self) -> &[f64] {
        &self.clusters.counts
    }

    fn resident_bytes(&self) -> usize {
        self.clusters.resident_bytes() + self.chain.resident_bytes()
    }
}

/// The states that the steps of a batch kept at their last visit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KeptStates {
    /// L at that visit.
    pub sparsity: usize,
    /// L of each step, those that there are not as [`NO_STATE`]; empty before the first visit.
    pub states: Vec<u32>,
}

/// The place of a state that a step does not have.
pub const NO_STATE: u32 = u32::MAX;

impl Kept for KeptStates {
    fn kept_bytes(&self) -> u64 {
        size_of_val(self.states.as_slice()) as u64
    }
}

/// What visits did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SequenceTally {
    /// Steps.
    pub steps: f64,
    /// Share of steps that was given to states which were then left out.
    pub lost: f64,
    /// Sequences that kept their old states, since the new ones were no better.
    pub stayed: u64,
}

impl Tally for SequenceTally {
    fn add(&mut self, other: &Self) {
        self.steps += other.steps;
        self.lost += other.lost;
        self.stayed += other.stayed;
    }
}

/// What of the parameters the statistics do not give.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CarriedStates {
    /// L.
    sparsity: usize,
    /// Under maximum likelihood the shapes of states that have lost all rows, as the arrays of all.
    arrays: Option<Vec<(Vec<usize>, Vec<f64>)>>,
}

impl<T: Scalar> Sequence<T> {
    /// What its first states are found for.
    pub fn design(&self) -> Design<'_, T> {
        Design {
            likelihood: self.likelihood.as_ref(),
            estimate: self.estimate,
            allocation: Allocation::Dirichlet { alpha: 10.0 },
            num_clusters: self.num_states,
            sparsity: self.sparsity,
        }
    }

    /// No statistics.
    pub fn no_statistics(&self) -> SequenceSummary {
        SequenceSummary {
            clusters: self.likelihood.no_statistics(self.num_states),
            chain: ChainCounts::zeros(self.num_states),
        }
    }
}

impl<T: Scalar> Model for Sequence<T> {
    type Params = SequenceParams<T>;
    type Carried = CarriedStates;
    type Summary = SequenceSummary;
    type Memory = KeptStates;
    type Found = usize;
    type Tally = SequenceTally;
    type Worker = SequenceWorker<T>;

    fn worker(&self) -> SequenceWorker<T> {
        SequenceWorker::new(self)
    }

    fn set_deadline(&mut self, until: Option<Instant>) {
        // (Others that hold the family are starts that were compared, and are gone.)
        if let Some(likelihood) = Arc::get_mut(&mut self.likelihood) {
            likelihood.set_deadline(until);
        }
    }

    fn local(
        &self,
        params: &SequenceParams<T>,
        batch: &Batch<'_>,
        memory: &KeptStates,
        worker: &mut SequenceWorker<T>,
    ) -> Result<Visited<Self>> {
        let mut visited = local::visit(self, params, batch, memory, worker)?;
        if let Some(whole) = &self.stands_for {
            whole.scale(&mut visited.summary);
        }
        Ok(visited)
    }

    fn take_up(&self, params: &mut SequenceParams<T>, _batch: usize, visited: &Visited<Self>) {
        params.sparsity = params.sparsity.max(visited.found).min(self.num_states);
    }

    fn global_step(&self, total: &SequenceSummary, previous: Option<&SequenceParams<T>>) -> Result<SequenceParams<T>> {
        let SequenceSummary { clusters, chain } = total;
        let old = previous.map(|params| params.clusters.as_ref());
        let chain = Chain::estimate(self.estimate, self.prior, chain);
        Ok(SequenceParams {
            chain: if self.follows { chain.with_leading() } else { chain },
            clusters: self.likelihood.global_step(self.estimate, &clusters.counts, &clusters.stats, old)?,
            sparsity: previous.map_or(self.sparsity, |params| params.sparsity),
        })
    }

    fn objective(&self, params: &SequenceParams<T>, total: &SequenceSummary) -> Objective {
        Objective {
            data: params.clusters.own_data_term(),
            entropy: total.clusters.entropy,
            alloc: chain_term(self.estimate, self.prior, &total.chain),
        }
    }

    fn carried(&self, params: &SequenceParams<T>) -> CarriedStates {
        let shapes = || params.clusters.arrays().into_iter().map(|a| (a.shape, a.values)).collect();
        let arrays = (self.estimate == Estimate::MaxLikelihood).then(shapes);
        CarriedStates { sparsity: params.sparsity, arrays }
    }

    fn restore(&mut self, total: &SequenceSummary, carried: CarriedStates) -> Result<Option<SequenceParams<T>>> {
        let CarriedStates { sparsity, arrays } = carried;
        let legal = (1..=self.num_states).contains(&sparsity) && total.chain.num_states() == self.num_states;
        if !legal || !total.chain.is_sound() {
            return Ok(None);
        }
        if self.estimate != Estimate::MaxLikelihood {
            let params = self.global_step(total, None)?;
            return Ok(Some(SequenceParams { sparsity, ..params }));
        }
        let Some(stored) = arrays else { return Ok(None) };
        let named = self.likelihood.kind().arrays(self.estimate).map(|array| array.name).zip(stored);
        let arrays: Vec<NamedArray> = named.map(|(name, (shape, values))| NamedArray { name, shape, values }).collect();
        let chain = Chain::estimate(self.estimate, self.prior, &total.chain);
        let previous = SequenceParams { chain, clusters: self.likelihood.clusters_of(&arrays)?, sparsity };
        self.global_step(total, Some(&previous)).map(Some)
    }

    fn keeps_rows(&self) -> bool {
        self.sparsity < self.num_states
    }

    fn report(&self, params: &SequenceParams<T>, tally: &SequenceTally) -> Vec<(&'static str, f64)> {
        let mut report = Vec::new();
        if tally.steps > 0.0 {
            report.push(("lost_share", tally.lost / tally.steps));
        }
        if self.tolerance.is_some() {
            report.push(("sparsity", params.sparsity as f64));
        }
        report
    }
}
