//! The local step over sequences: which states each step keeps, the paths through them, and the statistics they give.
//!
//! Three passes over a run of sequences that is one thread's task. Forward, a step's candidates are the L best by what the
//! steps so far predict times its own evidence, and the states that it kept at its last visit. All paths through the
//! candidates say which L of them matter; where these are no better than what was kept before, that stays, so that no visit
//! lowers the objective. Then all paths through the L states give responsibilities and transitions.
//!
//! Statistics of states are summed cluster by cluster as those of mixtures are, and transitions task by task in order: the
//! bits are the same at any number of threads.

use std::ops::Range;

use lsparse_kernels::{exp_slice, ln_slice, top_l};
use rayon::prelude::*;

use super::{KeptStates, NO_STATE, Sequence, SequenceParams, SequenceTally};
use crate::allocation::{Chain, PairSums, Paths, Supports, best_path};
use crate::backend::with_buffers;
use crate::data::{Ahead, Batch, Panel, Rows, Scalar};
use crate::error::{Error, Result};
use crate::likelihood::{Clusters, Members, Scratch, accumulate_onto};
use crate::training::model::{Tally, Visited};
use crate::training::responsibilities::Responsibilities;

/// Rows of a task at least, but for the last of a panel: sequences are whole, and so are tasks.
const TASK_ROWS: usize = 256;

/// Bytes of rows and of what they keep that are worked on at once, where sequences are that short.
const PANEL_BYTES: usize = 8 << 20;

/// States that are tried for the one that a step keeps under L = 1.
const TRIED_FOR_ONE: usize = 16;

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
    pub lacking: Option<&'a [bool]>,
    /// Whether the shares of such steps are wanted too: they have no part in statistics.
    pub shares_all: bool,
    /// Where steps that have kept states look at those which follow alone: a number that tells visits apart.
    pub follow: Option<u64>,
    /// States that each step kept at its last visit.
    pub kept: usize,
    /// Whether what L leaves out is to be known well.
    pub judges: bool,
}

/// Some whole sequences of a batch.
pub(super) struct Sequences<'a, T> {
    pub rows: &'a Rows<T>,
    /// The numbers of the rows in the source.
    pub row_ids: &'a [usize],
    /// The rows of each sequence.
    pub ranges: &'a [Range<usize>],
}

/// A run of sequences that is one task, and the places for what comes of it.
struct Task<'a, T> {
    ranges: &'a [Range<usize>],
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

/// Panels of whole sequences: rows within the batch, and the sequences of each, counted from the panel's first row.
pub(super) fn panels_of(sizes: &[usize], most_rows: usize) -> Vec<(Range<usize>, Vec<Range<usize>>)> {
    let mut panels: Vec<(Range<usize>, Vec<Range<usize>>)> = Vec::new();
    let mut first = 0;
    for &size in sizes {
        match panels.last_mut() {
            Some((rows, sequences)) if rows.len() + size <= most_rows => {
                sequences.push(rows.len()..rows.len() + size);
                rows.end += size;
            }
            _ => panels.push((first..first + size, std::iter::once(0..size).collect())),
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
fn tasks_of(ranges: &[Range<usize>], least_rows: usize) -> Vec<Range<usize>> {
    let (mut tasks, mut first) = (Vec::new(), 0);
    for n in 0..ranges.len() {
        if n + 1 == ranges.len() || ranges[n].end - ranges[first].start >= least_rows {
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
    let lacking = model.lacking.as_ref().map(|lacking| &lacking[..]);
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
    let sizes = batch.data.batches.group_sizes(batch.number);
    let panels = panels_of(&sizes, panel_rows::<T>(model.likelihood.dim(), sparsity));
    let cut: Vec<Panel> =
        panels.iter().map(|(rows, _)| Panel { batch: batch.number, first: rows.start, count: rows.len() }).collect();
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
        let Some((places, ranges)) = at.next() else { return Ok(()) };
        let sequences = Sequences { rows: &read.rows, row_ids: &read.row_ids, ranges };
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
        let runs = tasks_of(sequences.ranges, if dense { TASK_ROWS.max(num) } else { TASK_ROWS });
        let (mut index, mut value, mut kept, mut old) = (&mut resp.index[..], &mut resp.value[..], kept, old);
        let mut tasks = Vec::with_capacity(runs.len());
        for run in runs {
            let ranges = &sequences.ranges[run];
            let places = ranges.iter().map(Range::len).sum::<usize>() * sparsity;
            let (own_index, rest) = std::mem::take(&mut index).split_at_mut(places);
            index = rest;
            let (own_value, rest) = std::mem::take(&mut value).split_at_mut(places);
            value = rest;
            let (own_kept, rest) = std::mem::take(&mut kept).split_at_mut(if dense { 0 } else { places });
            kept = rest;
            let (own_old, rest) = old.split_at((places / sparsity * self.kept).min(old.len()));
            old = rest;
            tasks.push(Task { ranges, index: own_index, value: own_value, kept: own_kept, old: own_old });
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
    fn impossible(&self, sequences: &Sequences<'_, T>, range: &Range<usize>) -> Error {
        Error::RowOutOfRange { row: sequences.row_ids[range.start] }
    }

    /// Whether a row is a step without an observation.
    fn lacks(&self, sequences: &Sequences<'_, T>, row: usize) -> bool {
        self.lacking.is_some_and(|lacking| lacking[sequences.row_ids[row]])
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
        let first = task.ranges.first().map_or(0, |range| range.start);
        if dense {
            let TaskBuffers { scratch, weights, candidates, .. } = buffers;
            self.weigh_all(sequences, task.ranges, (scratch, weights), candidates)?;
        } else {
            self.choose_candidates(sequences, &task, buffers)?;
        }
        let mut task = task;
        buffers.chosen.clear();
        for range in task.ranges {
            let steps = range.start - first..range.end - first;
            let step_of_chosen = match dense {
                true => steps.clone(),
                false => {
                    let step = buffers.chosen.len();
                    if !self.choose(&task, &steps, buffers, &mut outcome.tally) {
                        self.rescue(sequences, range, buffers)?;
                    }
                    step..step + steps.len()
                }
            };
            let TaskBuffers { candidates, chosen, paths, .. } = buffers;
            let supports = if dense { &*candidates } else { &*chosen };
            let log_norm = paths
                .smooth(self.chain, supports, step_of_chosen.clone(), Some(&mut outcome.pairs))
                .ok_or_else(|| self.impossible(sequences, range))?;
            outcome.log_weight += log_norm;
            self.write(sequences, (range, &step_of_chosen), (supports, paths), (first, &mut task), &mut outcome);
        }
        Ok(outcome)
    }

    /// Write what smoothing has found of a sequence to its places.
    fn write(
        &self,
        sequences: &Sequences<'_, T>,
        (range, steps): (&Range<usize>, &Range<usize>),
        (supports, paths): (&Supports, &Paths),
        (first, task): (usize, &mut Task<'_, T>),
        outcome: &mut Outcome,
    ) {
        let sparsity = self.sparsity;
        let Some(entries) = (!steps.is_empty()).then(|| supports.of(steps.start).start) else { return };
        for (row, step) in range.clone().zip(steps.clone()) {
            let own = supports.of(step);
            let shares = &paths.share[own.start - entries..own.end - entries];
            let at = (row - first) * sparsity..(row - first + 1) * sparsity;
            if row == range.start {
                let starts = own.clone().zip(shares).filter(|(_, share)| **share > 0.0);
                outcome.start.extend(starts.map(|(entry, &share)| (supports.state(entry), share)));
            }
            let (index, value) = (&mut task.index[at.clone()], &mut task.value[at.clone()]);
            let lacks = !self.shares_all && self.lacks(sequences, row);
            let mut expected = 0.0;
            index.fill(0);
            value.fill(T::ZERO);
            for ((entry, &share), (index, value)) in own.clone().zip(shares).zip(index.iter_mut().zip(value)) {
                *index = supports.state(entry);
                *value = if lacks { T::ZERO } else { T::from_f64(share) };
                if share > 0.0 {
                    expected += share * supports.log_lik[entry];
                }
            }
            outcome.log_weight -= expected;
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
        ranges: &[Range<usize>],
        (scratch, weights): (&mut Scratch<T>, &mut Vec<T>),
        supports: &mut Supports,
    ) -> Result<()> {
        let num = self.clusters.num_clusters();
        let (Some(first), Some(last)) = (ranges.first(), ranges.last()) else { return Ok(()) };
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

    /// The candidates of every step of a task, going forward.
    fn choose_candidates(
        &self,
        sequences: &Sequences<'_, T>,
        task: &Task<'_, T>,
        buffers: &mut TaskBuffers<T>,
    ) -> Result<()> {
        let (num, sparsity) = (self.clusters.num_clusters(), self.sparsity);
        // At the first visit there is nothing to choose from but what is found here.
        let width = match (sparsity, task.old.is_empty()) {
            (1, _) => TRIED_FOR_ONE,
            (_, true) => 2 * sparsity,
            (_, false) if self.judges => 2 * sparsity,
            (_, false) => sparsity,
        };
        if let Some(visit) = self.follow.filter(|_| !task.old.is_empty()) {
            return self.follow(sequences, task, (width.min(num), visit), buffers);
        }
        let TaskBuffers { scratch, weights, candidates, forward, .. } = buffers;
        candidates.clear();
        forward.begin(width.min(num));
        let (Some(first), Some(last)) = (task.ranges.first(), task.ranges.last()) else { return Ok(()) };
        let mut starts = task.ranges.iter().map(|range| range.start).peekable();
        for tile in (first.start..last.end).step_by(T::TILE) {
            let rows = tile..last.end.min(tile + T::TILE);
            self.weigh(sequences, rows.clone(), scratch, weights);
            for (row, weights) in rows.zip(weights.chunks_exact(num)) {
                let mut begins = false;
                while starts.next_if(|&start| start == row).is_some() {
                    begins = true;
                }
                let at = (row - first.start) * self.kept;
                let old = if task.old.is_empty() { &[][..] } else { &task.old[at..at + self.kept] };
                let chosen = forward.step(self.chain, weights, begins, old);
                chosen.map_err(|cluster| Error::NanWeight { row: sequences.row_ids[row], cluster })?;
                candidates.push(forward.chosen.iter().map(|&k| (k, weights[k as usize].to_f64())));
            }
        }
        Ok(())
    }

    /// The same where a step looks at the states that follow those before it most often, at those that it kept and at a few
    /// at random: what it costs does not grow with K. The first step of a sequence looks at all.
    fn follow(
        &self,
        sequences: &Sequences<'_, T>,
        task: &Task<'_, T>,
        (width, visit): (usize, u64),
        buffers: &mut TaskBuffers<T>,
    ) -> Result<()> {
        let num = self.clusters.num_clusters();
        let TaskBuffers { scratch, weights, candidates, forward, .. } = buffers;
        candidates.clear();
        forward.begin(width);
        let first = task.ranges.first().map_or(0, |range| range.start);
        for range in task.ranges {
            for row in range.clone() {
                let id = sequences.row_ids[row];
                let nan = |cluster: usize| Error::NanWeight { row: id, cluster };
                let old = &task.old[(row - first) * self.kept..(row - first + 1) * self.kept];
                if row == range.start {
                    self.weigh(sequences, row..row + 1, scratch, weights);
                    forward.step(self.chain, weights, true, old).map_err(nan)?;
                    candidates.push(forward.chosen.iter().map(|&k| (k, weights[k as usize].to_f64())));
                    continue;
                }
                let random = |n: u64| (mix(id as u64 ^ visit << 40 ^ n << 60) % num as u64) as u32;
                forward.look_at(self.chain, old, (0..AT_RANDOM).map(random));
                let lacks = self.lacks(sequences, row);
                weights.resize(weights.len().max(1), T::ZERO);
                for n in 0..forward.looked_at.len() {
                    let k = forward.looked_at[n] as usize;
                    let log_lik = match lacks {
                        true => 0.0,
                        false => {
                            self.clusters.log_lik_of(k, sequences.rows, &[row as u32], scratch, &mut weights[..1]);
                            weights[0].to_f64()
                        }
                    };
                    if log_lik.is_nan() {
                        return Err(nan(k));
                    }
                    forward.log_lik.push(log_lik);
                }
                forward.step_among(self.chain, old);
                let entries = forward.chosen.iter().map(|k| {
                    let at = forward.looked_at.binary_search(k).unwrap_or(0);
                    (*k, forward.log_lik[at])
                });
                candidates.push(entries);
            }
        }
        Ok(())
    }

    /// The best path of all for a sequence whose candidates leave none, as transitions of maximum likelihood may.
    fn rescue(&self, sequences: &Sequences<'_, T>, range: &Range<usize>, buffers: &mut TaskBuffers<T>) -> Result<()> {
        let TaskBuffers { scratch, weights, chosen, old, .. } = buffers;
        self.weigh_all(sequences, std::slice::from_ref(range), (scratch, weights), old)?;
        let mut path = Vec::with_capacity(range.len());
        best_path(self.chain, old, 0..range.len(), &mut path).ok_or_else(|| self.impossible(sequences, range))?;
        path.iter().for_each(|&entry| chosen.push(std::iter::once((old.state(entry), old.log_lik[entry]))));
        Ok(())
    }

    /// The states that the steps of a sequence keep, of their candidates: put behind those that are chosen already. False,
    /// and nothing put there, where no path leads through the candidates.
    fn choose(
        &self,
        task: &Task<'_, T>,
        steps: &Range<usize>,
        buffers: &mut TaskBuffers<T>,
        tally: &mut SequenceTally,
    ) -> bool {
        let sparsity = self.sparsity;
        let TaskBuffers { candidates, chosen, old, paths, .. } = buffers;
        tally.steps += steps.len() as f64;
        let Some(first) = (!steps.is_empty()).then(|| candidates.of(steps.start).start) else { return true };
        let (begin, mut order) = (chosen.len(), Vec::new());
        let mut path = Vec::new();
        if sparsity == 1 {
            // The best path, or none where the candidates leave none.
            best_path(self.chain, candidates, steps.clone(), &mut path);
            for (n, step) in steps.clone().enumerate() {
                let entry = path.get(n).copied().unwrap_or(candidates.of(step).start);
                chosen.push(std::iter::once((candidates.state(entry), candidates.log_lik[entry])));
            }
        } else {
            let smoothed = paths.smooth(self.chain, candidates, steps.clone(), None).is_some();
            for step in steps.clone() {
                let own = candidates.of(step);
                order.clear();
                order.extend(own.clone());
                if own.len() > sparsity {
                    // The largest shares, of equal ones the lower states; then by state again.
                    let share = |entry: usize| if smoothed { paths.share[entry - first] } else { 0.0 };
                    order.sort_by(|&a, &b| share(b).total_cmp(&share(a)));
                    tally.lost += order[sparsity..].iter().map(|&entry| share(entry)).sum::<f64>();
                    order.truncate(sparsity);
                    order.sort_unstable();
                }
                chosen.push(order.iter().map(|&entry| (candidates.state(entry), candidates.log_lik[entry])));
            }
        }
        let end = chosen.len();
        let found = paths.log_norm(self.chain, chosen, begin..end);
        // What was kept before, if that is better.
        old.clear();
        if !task.old.is_empty() {
            for step in steps.clone() {
                let states = task.old[step * self.kept..(step + 1) * self.kept].iter().filter(|k| **k != NO_STATE);
                let own = candidates.of(step);
                old.push(states.filter_map(|k| {
                    let at = candidates.states(step).binary_search(k).ok()?;
                    Some((*k, candidates.log_lik[own.start + at]))
                }));
            }
            let before = paths.log_norm(self.chain, old, 0..old.len());
            if before > found {
                chosen.truncate(begin);
                (0..old.len()).for_each(|step| chosen.push_of(old, step));
                tally.stayed += 1;
                return true;
            }
        }
        if found.is_some() {
            return true;
        }
        // Shares of single steps may be those of paths that part ways: the best path is one.
        chosen.truncate(begin);
        path.clear();
        if best_path(self.chain, candidates, steps.clone(), &mut path).is_none() {
            return false;
        }
        for &entry in &path {
            chosen.push(std::iter::once((candidates.state(entry), candidates.log_lik[entry])));
        }
        true
    }
}

/// Going forward through a sequence with a few states at a time.
#[derive(Default)]
struct Forward {
    /// States that are taken from all at every step.
    width: usize,
    /// The states of this step, ascending.
    chosen: Vec<u32>,
    /// Their shares given the steps so far.
    share: Vec<f64>,
    predicted: Vec<f64>,
    top: Vec<u32>,
    top_weight: Vec<f64>,
    /// States that a step looks at where it does not look at all, ascending, and its log likelihood in them.
    looked_at: Vec<u32>,
    log_lik: Vec<f64>,
}

/// States that a step looks at besides those that follow and those that it kept.
const AT_RANDOM: u64 = 2;

/// States with less than this are not followed.
const FOLLOWED: f64 = 1e-4;

/// A number without any pattern from one with (splitmix64).
fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ z >> 31
}

impl Forward {
    /// Choose the states that the next step looks at.
    fn look_at(&mut self, chain: &Chain, besides: &[u32], random: impl Iterator<Item = u32>) {
        let Forward { chosen, share, looked_at, log_lik, .. } = self;
        looked_at.clear();
        log_lik.clear();
        let followed = chosen.iter().zip(&*share).filter(|(_, share)| **share >= FOLLOWED);
        looked_at.extend(followed.flat_map(|(&j, _)| chain.leading(j)));
        looked_at.extend(besides.iter().filter(|k| **k != NO_STATE));
        looked_at.extend(random);
        looked_at.sort_unstable();
        looked_at.dedup();
    }

    /// One step further among the states that were looked at, of which `besides` are taken anyway.
    fn step_among(&mut self, chain: &Chain, besides: &[u32]) {
        let Forward { width, chosen, share, predicted, top, looked_at, log_lik, .. } = self;
        predicted.clear();
        for (&k, log_lik) in looked_at.iter().zip(&*log_lik) {
            let before = chosen.iter().zip(&*share).filter(|(_, share)| **share >= FOLLOWED);
            let sum: f64 = before.map(|(&j, share)| share * chain.weight(j, k)).sum();
            predicted.push(sum.ln() + log_lik);
        }
        if predicted.iter().all(|weight| *weight == f64::NEG_INFINITY) {
            predicted.copy_from_slice(log_lik);
        }
        top.clear();
        top.extend(0..looked_at.len() as u32);
        top.sort_by(|&a, &b| predicted[b as usize].total_cmp(&predicted[a as usize]));
        let most = top.first().map_or(0.0, |&n| predicted[n as usize]);
        let is_kept = |n: u32| besides.contains(&looked_at[n as usize]);
        let taken = top.iter().enumerate().filter(|(rank, n)| *rank < *width || is_kept(**n)).map(|(_, n)| *n);
        let taken: Vec<u32> = taken.filter(|&n| predicted[n as usize] > f64::NEG_INFINITY || is_kept(n)).collect();
        let mut pairs: Vec<(u32, f64)> =
            taken.into_iter().map(|n| (looked_at[n as usize], predicted[n as usize] - most)).collect();
        pairs.sort_unstable_by_key(|pair| pair.0);
        chosen.clear();
        chosen.extend(pairs.iter().map(|pair| pair.0));
        share.clear();
        share.extend(pairs.iter().map(|pair| pair.1));
        exp_slice(share);
        let sum: f64 = share.iter().sum();
        share.iter_mut().for_each(|share| *share /= sum);
    }

    fn begin(&mut self, width: usize) {
        self.width = width;
        self.chosen.clear();
        self.share.clear();
        self.top.resize(width, 0);
        self.top_weight.resize(width, 0.0);
    }

    /// One step further: log likelihoods of all states, and states to be taken besides. A state whose likelihood is not a
    /// number is an error.
    fn step<T: Scalar>(
        &mut self,
        chain: &Chain,
        log_lik: &[T],
        begins: bool,
        besides: &[u32],
    ) -> std::result::Result<(), usize> {
        let Forward { width, chosen, share, predicted, top, top_weight, .. } = self;
        predicted.resize(log_lik.len(), 0.0);
        top.resize(*width, 0);
        if begins {
            predicted.copy_from_slice(&chain.start);
        } else {
            chain.predict(chosen, share, predicted);
        }
        // log p_k + log F(x | phi_k)
        ln_slice(predicted);
        predicted.iter_mut().zip(log_lik).for_each(|(weight, log_lik)| *weight += log_lik.to_f64());
        top_l(predicted, *width, top, top_weight)?;
        if top_weight[0] == f64::NEG_INFINITY {
            // Nothing follows from the states so far: evidence alone, and whoever looks at whole paths finds out.
            predicted.iter_mut().zip(log_lik).for_each(|(weight, log_lik)| *weight = log_lik.to_f64());
            top_l(predicted, *width, top, top_weight)?;
        }
        chosen.clear();
        chosen.extend(top.iter().zip(&*top_weight).filter(|(_, w)| **w > f64::NEG_INFINITY).map(|(k, _)| *k));
        chosen.extend(besides.iter().filter(|k| **k != NO_STATE));
        if chosen.is_empty() {
            chosen.push(0);
        }
        chosen.sort_unstable();
        chosen.dedup();
        share.clear();
        share.extend(chosen.iter().map(|&k| predicted[k as usize] - top_weight[0]));
        exp_slice(share);
        let sum: f64 = share.iter().sum();
        share.iter_mut().for_each(|share| *share /= sum);
        Ok(())
    }
}

/// log p(x_t | x_1 .. x_t-1) of every row of some sequences, over all states: what the steps before say of each. Steps without
/// an observation have none to score, 0.
pub(super) fn next_step_scores<T: Scalar>(local: &Local<'_, T>, sequences: &Sequences<'_, T>) -> Result<Vec<f64>> {
    let num = local.clusters.num_clusters();
    let mut scores = vec![0.0; sequences.rows.len()];
    let runs = tasks_of(sequences.ranges, TASK_ROWS);
    let mut left = &mut scores[..];
    let mut tasks = Vec::new();
    for run in runs {
        let ranges = &sequences.ranges[run];
        let (own, rest) = std::mem::take(&mut left).split_at_mut(ranges.iter().map(Range::len).sum());
        left = rest;
        tasks.push((ranges, own));
    }
    let of_task = |ranges: &[Range<usize>], out: &mut [f64], buffers: &mut TaskBuffers<T>| -> Result<()> {
        let TaskBuffers { scratch, weights, forward, .. } = buffers;
        let (Some(first), Some(last)) = (ranges.first(), ranges.last()) else { return Ok(()) };
        let (share, predicted) = (&mut forward.share, &mut forward.predicted);
        predicted.resize(num, 0.0);
        let mut starts = ranges.iter().map(|range| range.start).peekable();
        for tile in (first.start..last.end).step_by(T::TILE) {
            let rows = tile..last.end.min(tile + T::TILE);
            weights.clear();
            weights.resize(rows.len() * num, T::ZERO);
            local.clusters.add_log_predictive(sequences.rows, rows.clone(), scratch, weights);
            for (row, weights) in rows.zip(weights.chunks_exact(num)) {
                let mut begins = false;
                while starts.next_if(|&start| start == row).is_some() {
                    begins = true;
                }
                match begins {
                    true => predicted.copy_from_slice(&local.chain.start),
                    false => local.chain.predict_all(share, predicted),
                }
                share.clear();
                share.extend_from_slice(predicted);
                if local.lacks(sequences, row) {
                    continue;
                }
                ln_slice(predicted);
                predicted.iter_mut().zip(weights).for_each(|(weight, log_lik)| *weight += log_lik.to_f64());
                let most = predicted.iter().fold(f64::NEG_INFINITY, |most, &weight| most.max(weight));
                if let Some(cluster) = weights.iter().position(|weight| weight.is_nan()) {
                    return Err(Error::NanWeight { row: sequences.row_ids[row], cluster });
                }
                out[row - first.start] = most;
                if most > f64::NEG_INFINITY {
                    predicted.iter_mut().for_each(|weight| *weight -= most);
                    exp_slice(predicted);
                    let sum: f64 = predicted.iter().sum();
                    out[row - first.start] = most + sum.ln();
                    share.iter_mut().zip(&*predicted).for_each(|(share, weight)| *share = weight / sum);
                }
            }
        }
        Ok(())
    };
    let results: Vec<Result<()>> = tasks
        .into_par_iter()
        .with_max_len(1)
        .map(|(ranges, out)| with_buffers(|buffers: &mut TaskBuffers<T>| of_task(ranges, out, buffers)))
        .collect();
    results.into_iter().collect::<Result<Vec<()>>>()?;
    Ok(scores)
}

/// The L most probable states of every row, the most probable first, and their shares.
pub(super) fn smooth_states<T: Scalar>(
    local: &Local<'_, T>,
    sequences: &Sequences<'_, T>,
    resp: &mut Responsibilities<T>,
) -> Result<()> {
    let sparsity = local.sparsity;
    resp.reshape(sequences.rows.len(), sparsity);
    let mut kept = vec![NO_STATE; if sparsity == local.clusters.num_clusters() { 0 } else { resp.index.len() }];
    Local { shares_all: true, ..*local }.run(sequences, resp, &mut kept, &[])?;
    let rows = resp.index.chunks_exact_mut(sparsity).zip(resp.value.chunks_exact_mut(sparsity));
    rows.for_each(|(index, value)| {
        let mut pairs: Vec<(u32, T)> = index.iter().copied().zip(value.iter().copied()).collect();
        pairs.sort_by(|a, b| b.1.to_f64().total_cmp(&a.1.to_f64()));
        pairs.into_iter().zip(index.iter_mut().zip(value)).for_each(|(pair, (k, r))| (*k, *r) = pair);
    });
    Ok(())
}

/// The best path through every sequence, over all states: appends the state of every row, and gives the sum of the weights.
pub(super) fn best_paths<T: Scalar>(
    local: &Local<'_, T>,
    sequences: &Sequences<'_, T>,
    states: &mut Vec<u32>,
) -> Result<f64> {
    let found: Vec<Result<(f64, Vec<u32>)>> = sequences
        .ranges
        .par_iter()
        .with_max_len(1)
        .map(|range| {
            with_buffers(|buffers: &mut TaskBuffers<T>| {
                let TaskBuffers { scratch, weights, candidates, .. } = buffers;
                local.weigh_all(sequences, std::slice::from_ref(range), (scratch, weights), candidates)?;
                let mut path = Vec::with_capacity(range.len());
                let weight = best_path(local.chain, candidates, 0..range.len(), &mut path)
                    .ok_or_else(|| local.impossible(sequences, range))?;
                Ok((weight, path.into_iter().map(|entry| candidates.state(entry)).collect()))
            })
        })
        .collect();
    let mut sum = 0.0;
    for found in found {
        let (weight, path) = found?;
        sum += weight;
        states.extend(path);
    }
    Ok(sum)
}
