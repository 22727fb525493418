//! The local step over sequences: which states each step keeps, the paths through them, and the statistics they give.
//!
//! Three passes over a run of sequences that is one thread's task. Forward, a step's candidates are the L best by what the
//! steps so far predict times its own evidence, and the states that it kept at its last visit. All paths through the
//! candidates say which L of them matter; where these are no better than what was kept before, that stays, so that no visit
//! lowers the objective. Then all paths through the L states give responsibilities and transitions.
//!
//! A long sequence is worked on in windows: all steps of a window have a part in its paths, and its own alone in statistics.
//!
//! Statistics of states are summed cluster by cluster as those of mixtures are, and transitions task by task in order: the
//! bits are the same at any number of threads.

mod apply;
mod candidates;
mod choose;

use std::ops::Range;

use rayon::prelude::*;

use super::steps::Lacking;
use super::{KeptStates, NO_STATE, Sequence, SequenceParams, SequenceTally};
use crate::allocation::{Chain, LEAST_COUNT, PairSums, Paths, Stretch, Supports};
use crate::backend::with_buffers;
use crate::data::{Ahead, Batch, Panel, Rows, Scalar, Window};
use crate::error::{Error, Result};
use crate::likelihood::{Clusters, Members, Scratch, accumulate_onto};
use crate::training::model::{Tally, Visited};
use crate::training::responsibilities::Responsibilities;

pub(super) use apply::{best_paths, next_step_scores, smooth_states};
use candidates::Forward;

/// Rows of a task at least, but for the last of a panel: sequences are whole, and so are tasks.
const TASK_ROWS: usize = 256;

/// Bytes of rows and of what they keep that are worked on at once, where sequences are that short.
const PANEL_BYTES: usize = 8 << 20;

/// What works on sequences: buffers, of which no result depends on what is in them.
pub struct SequenceWorker<T> {
    ahead: Ahead<T>,
    resp: Responsibilities<T>,
    members: Members<T>,
}

impl<T: Scalar> SequenceWorker<T> {
    /// For this model.
    pub fn new(model: &Sequence<T>) -> Self {
        SequenceWorker {
            ahead: Ahead::new(model.likelihood.layout(), model.likelihood.dim()),
            resp: Responsibilities::default(),
            members: Members::default(),
        }
    }
}

/// Buffers of one thread.
#[derive(Default)]
struct TaskBuffers<T> {
    scratch: Scratch<T>,
    weights: Vec<T>,
    candidates: Supports,
    chosen: Supports,
    old: Supports,
    paths: Paths,
    path: Vec<usize>,
    forward: Forward,
}

/// How states are weighed and chosen.
#[derive(Clone, Copy)]
pub(super) struct Local<'a, T> {
    pub clusters: &'a dyn Clusters<T>,
    pub chain: &'a Chain,
    /// L.
    pub sparsity: usize,
    /// Which rows of the source are steps without an observation.
    pub lacking: Option<&'a Lacking>,
    /// Whether the shares of such steps are wanted too: they have no part in statistics.
    pub shares_all: bool,
    /// Where steps that have kept states look at those which follow alone: a number that tells visits apart.
    pub follow: Option<u64>,
    /// States that each step kept at its last visit.
    pub kept: usize,
    /// Whether what L leaves out is to be known well.
    pub judges: bool,
}

/// Some whole sequences of a batch, or windows of them.
pub(super) struct Sequences<'a, T> {
    pub rows: &'a Rows<T>,
    /// The numbers of the rows in the source.
    pub row_ids: &'a [usize],
    /// The rows of each.
    pub spans: &'a [Stretch],
}

/// A run of sequences that is one task, and the places for what comes of it.
struct Task<'a, T> {
    spans: &'a [Stretch],
    index: &'a mut [u32],
    value: &'a mut [T],
    kept: &'a mut [u32],
    old: &'a [u32],
}

/// What comes of a task besides responsibilities.
struct Outcome {
    pairs: PairSums,
    /// First states, with their shares.
    start: Vec<(u32, f64)>,
    /// log of all paths' weight less the expected log likelihood of the rows.
    log_weight: f64,
    tally: SequenceTally,
}

/// Some windows that are worked on at once.
pub(super) struct WindowPanel {
    /// Their rows within the batch.
    pub rows: Range<usize>,
    /// The windows, counted from the panel's first row.
    pub spans: Vec<Stretch>,
}

impl WindowPanel {
    /// Its rows, to be read.
    pub fn of_batch(&self, batch: usize) -> Panel {
        Panel { batch, first: self.rows.start, count: self.rows.len() }
    }
}

/// Windows in panels. One that goes on from where another ended is the first of its panel.
pub(super) fn panels_of(windows: &[Window], most_rows: usize) -> Vec<WindowPanel> {
    let mut panels: Vec<WindowPanel> = Vec::new();
    let mut first = 0;
    for window in windows {
        let size = window.rows.len();
        let goes_on = !window.begins && window.own.start == window.rows.start;
        let fits = |panel: &&mut WindowPanel| panel.rows.len() + size <= most_rows && !goes_on;
        let span = |at: usize| {
            let own = at + (window.own.start - window.rows.start);
            Stretch { steps: at..at + size, own: own..own + window.own.len(), begins: window.begins }
        };
        match panels.last_mut().filter(fits) {
            Some(panel) => {
                panel.spans.push(span(panel.rows.len()));
                panel.rows.end += size;
            }
            None => panels.push(WindowPanel { rows: first..first + size, spans: vec![span(0)] }),
        }
        first += size;
    }
    panels
}

/// Rows that are worked on at once: a rule on widths alone.
pub(super) fn panel_rows<T>(dim: usize, sparsity: usize) -> usize {
    let bytes = dim * size_of::<T>() + sparsity * (size_of::<T>() + 2 * size_of::<u32>());
    (PANEL_BYTES / bytes.max(1)).clamp(512, 1 << 15)
}

/// Cut sequences into tasks.
fn tasks_of(spans: &[Stretch], least_rows: usize) -> Vec<Range<usize>> {
    let (mut tasks, mut first) = (Vec::new(), 0);
    for n in 0..spans.len() {
        if n + 1 == spans.len() || spans[n].steps.end - spans[first].steps.start >= least_rows {
            tasks.push(first..n + 1);
            first = n + 1;
        }
    }
    tasks
}

/// Local step and statistics of one batch.
pub fn visit<T: Scalar>(
    model: &Sequence<T>,
    params: &SequenceParams<T>,
    batch: &Batch<'_>,
    memory: &KeptStates,
    worker: &mut SequenceWorker<T>,
) -> Result<Visited<Sequence<T>>> {
    let (num, sparsity) = (model.num_states, params.sparsity);
    let dense = sparsity == num;
    let lacking = model.lacking.as_deref();
    let follow = model.follows.then_some(batch.visit);
    let local = Local {
        clusters: params.clusters.as_ref(),
        chain: &params.chain,
        sparsity,
        lacking,
        shares_all: false,
        follow,
        kept: memory.sparsity,
        judges: model.tolerance.is_some(),
    };
    let windows = batch.data.batches.windows(batch.number);
    let panels = panels_of(&windows, panel_rows::<T>(model.likelihood.dim(), sparsity));
    let cut = panels.iter().map(|panel| panel.of_batch(batch.number)).collect::<Vec<_>>();
    let mut summary = model.no_statistics();
    let places = if dense { 0 } else { batch.num_rows() * sparsity };
    let mut kept = KeptStates { sparsity, states: vec![NO_STATE; places] };
    let is_state = |k: &u32| *k == NO_STATE || (*k as usize) < num;
    let remembers = !dense
        && !memory.states.is_empty()
        && batch.num_rows().checked_mul(memory.sparsity) == Some(memory.states.len())
        && memory.states.iter().all(is_state);
    let (mut pairs, mut tally) = (PairSums::new(num, dense), SequenceTally::default());
    let (mut log_weight, mut completing) = (0.0, 0.0);
    let SequenceWorker { ahead, resp, members } = worker;
    let mut at = panels.iter();
    ahead.for_each_panel(batch.data, cut.into_iter(), |read| {
        let Some(WindowPanel { rows: places, spans }) = at.next() else { return Ok(()) };
        let sequences = Sequences { rows: &read.rows, row_ids: &read.row_ids, spans };
        resp.reshape(read.rows.len(), sparsity);
        let own = places.start * sparsity..places.end * sparsity;
        let of_old = places.start * memory.sparsity..places.end * memory.sparsity;
        let old = if remembers { &memory.states[of_old] } else { &[] };
        let kept = if dense { &mut [][..] } else { &mut kept.states[own] };
        for outcome in local.run(&sequences, resp, kept, old)? {
            pairs.merge(&outcome.pairs);
            outcome.start.iter().for_each(|&(k, share)| summary.chain.start[k as usize] += share);
            log_weight += outcome.log_weight;
            tally.add(&outcome.tally);
        }
        members.regroup(num, resp, &[]);
        let clusters = Some(params.clusters.as_ref());
        let likelihood = model.likelihood.as_ref();
        let entropies = accumulate_onto(likelihood, clusters, &read.rows, members, &mut summary.clusters, false);
        completing += entropies.iter().sum::<f64>();
        Ok(())
    })?;
    pairs.into_counts(num, &mut summary.chain);
    // H(q) = log sum of weights - E[log weight of a path]
    summary.clusters.entropy = log_weight - params.chain.log_weight_of(&summary.chain) + completing;
    let too_few = |tolerance: f64| tally.lost > tolerance * tally.steps;
    let found = if model.tolerance.is_some_and(too_few) { (2 * sparsity).min(num) } else { sparsity };
    Ok(Visited { summary, memory: kept, found, tally })
}

impl<T: Scalar> Local<'_, T> {
    /// Responsibilities of all rows, the states that they keep, and what else comes of them, task by task.
    fn run(
        &self,
        sequences: &Sequences<'_, T>,
        resp: &mut Responsibilities<T>,
        kept: &mut [u32],
        old: &[u32],
    ) -> Result<Vec<Outcome>> {
        let (num, sparsity) = (self.clusters.num_clusters(), self.sparsity);
        let dense = sparsity == num;
        let runs = tasks_of(sequences.spans, if dense { TASK_ROWS.max(num) } else { TASK_ROWS });
        let (mut index, mut value, mut kept, mut old) = (&mut resp.index[..], &mut resp.value[..], kept, old);
        let mut tasks = Vec::with_capacity(runs.len());
        for run in runs {
            let spans = &sequences.spans[run];
            let places = spans.iter().map(|span| span.steps.len()).sum::<usize>() * sparsity;
            let (own_index, rest) = std::mem::take(&mut index).split_at_mut(places);
            index = rest;
            let (own_value, rest) = std::mem::take(&mut value).split_at_mut(places);
            value = rest;
            let (own_kept, rest) = std::mem::take(&mut kept).split_at_mut(if dense { 0 } else { places });
            kept = rest;
            let (own_old, rest) = old.split_at((places / sparsity * self.kept).min(old.len()));
            old = rest;
            tasks.push(Task { spans, index: own_index, value: own_value, kept: own_kept, old: own_old });
        }
        let results: Vec<Result<Outcome>> = tasks
            .into_par_iter()
            .with_max_len(1)
            .map(|task| with_buffers(|buffers: &mut TaskBuffers<T>| self.task(sequences, task, buffers)))
            .collect();
        // The first error by row, whichever thread met its own first.
        results.into_iter().collect()
    }

    /// No path through a sequence has any weight.
    fn impossible(&self, sequences: &Sequences<'_, T>, span: &Stretch) -> Error {
        Error::RowOutOfRange { row: sequences.row_ids[span.steps.start] }
    }

    /// Whether a row is a step without an observation.
    fn lacks(&self, sequences: &Sequences<'_, T>, row: usize) -> bool {
        self.lacking.is_some_and(|lacking| lacking.has(sequences.row_ids[row]))
    }

    /// The log likelihood of some rows in every state, nothing for steps without an observation.
    fn weigh(&self, sequences: &Sequences<'_, T>, rows: Range<usize>, scratch: &mut Scratch<T>, weights: &mut Vec<T>) {
        let num = self.clusters.num_clusters();
        weights.clear();
        weights.resize(rows.len() * num, T::ZERO);
        self.clusters.add_log_lik(sequences.rows, rows.clone(), scratch, weights);
        for (row, weights) in rows.zip(weights.chunks_exact_mut(num)) {
            if self.lacks(sequences, row) {
                weights.fill(T::ZERO);
            }
        }
    }

    fn task(&self, sequences: &Sequences<'_, T>, task: Task<'_, T>, buffers: &mut TaskBuffers<T>) -> Result<Outcome> {
        let num = self.clusters.num_clusters();
        let dense = self.sparsity == num;
        let mut outcome = Outcome {
            pairs: PairSums::new(num, dense),
            start: Vec::new(),
            log_weight: 0.0,
            tally: SequenceTally::default(),
        };
        let first = task.spans.first().map_or(0, |span| span.steps.start);
        if dense {
            let TaskBuffers { scratch, weights, candidates, .. } = buffers;
            self.weigh_all(sequences, task.spans, (scratch, weights), candidates)?;
        } else {
            self.choose_candidates(sequences, &task, buffers)?;
            buffers.candidates.link(self.chain);
        }
        let mut task = task;
        for span in task.spans {
            let in_task = span.counted_from(first);
            let in_supports = if dense { in_task.clone() } else { span.from_zero() };
            if !dense && !self.choose(&task, &in_task, buffers, &mut outcome.tally) {
                self.rescue(sequences, span, buffers)?;
            }
            let TaskBuffers { candidates, chosen, paths, .. } = buffers;
            let supports = if dense { &*candidates } else { &*chosen };
            let log_norm = paths
                .smooth(self.chain, supports, &in_supports, Some(&mut outcome.pairs))
                .ok_or_else(|| self.impossible(sequences, span))?;
            outcome.log_weight += log_norm;
            self.write(sequences, (span, &in_supports.steps), (supports, paths), (first, &mut task), &mut outcome);
        }
        Ok(outcome)
    }

    /// Write what smoothing has found of a sequence to its places. Steps that are not its own give nothing to statistics.
    fn write(
        &self,
        sequences: &Sequences<'_, T>,
        (span, steps): (&Stretch, &Range<usize>),
        (supports, paths): (&Supports, &Paths),
        (first, task): (usize, &mut Task<'_, T>),
        outcome: &mut Outcome,
    ) {
        let sparsity = self.sparsity;
        let Some(entries) = (!steps.is_empty()).then(|| supports.of(steps.start).start) else { return };
        for (row, step) in span.steps.clone().zip(steps.clone()) {
            let own = supports.of(step);
            let shares = &paths.share[own.start - entries..own.end - entries];
            let at = (row - first) * sparsity..(row - first + 1) * sparsity;
            if row == span.steps.start && span.begins {
                let starts = own.clone().zip(shares).filter(|(_, share)| **share >= LEAST_COUNT);
                outcome.start.extend(starts.map(|(entry, &share)| (supports.state(entry), share)));
            }
            let (index, value) = (&mut task.index[at.clone()], &mut task.value[at.clone()]);
            index.fill(0);
            value.fill(T::ZERO);
            if span.own.contains(&row) {
                let lacks = !self.shares_all && self.lacks(sequences, row);
                let mut expected = 0.0;
                for ((entry, &share), (index, value)) in own.clone().zip(shares).zip(index.iter_mut().zip(value)) {
                    *index = supports.state(entry);
                    *value = if lacks { T::ZERO } else { T::from_f64(share) };
                    if share > 0.0 {
                        expected += share * supports.log_lik[entry];
                    }
                }
                outcome.log_weight -= expected;
            }
            if !task.kept.is_empty() {
                let kept = &mut task.kept[at];
                kept.fill(NO_STATE);
                kept.iter_mut().zip(own).for_each(|(kept, entry)| *kept = supports.state(entry));
            }
        }
    }

    /// Every step may be in any state.
    fn weigh_all(
        &self,
        sequences: &Sequences<'_, T>,
        spans: &[Stretch],
        (scratch, weights): (&mut Scratch<T>, &mut Vec<T>),
        supports: &mut Supports,
    ) -> Result<()> {
        let num = self.clusters.num_clusters();
        let (Some(first), Some(last)) = (spans.first(), spans.last()) else { return Ok(()) };
        let (first, last) = (&first.steps, &last.steps);
        supports.reset_all(last.end - first.start, num);
        for tile in (first.start..last.end).step_by(T::TILE) {
            let rows = tile..last.end.min(tile + T::TILE);
            self.weigh(sequences, rows.clone(), scratch, weights);
            let at = (tile - first.start) * num;
            let out = &mut supports.log_lik[at..at + weights.len()];
            for (n, (out, weight)) in out.iter_mut().zip(&*weights).enumerate() {
                *out = weight.to_f64();
                if out.is_nan() {
                    return Err(Error::NanWeight { row: sequences.row_ids[tile + n / num], cluster: n % num });
                }
            }
        }
        Ok(())
    }
}
