//! Which states a step is weighed in: going forward, the best by what the steps so far predict and by the step's own row.

use lsparse_kernels::{exp_slice, ln_slice, top_l};

use super::{Local, Sequences, Task, TaskBuffers};
use crate::allocation::Chain;
use crate::data::Scalar;
use crate::error::{Error, Result};
use crate::likelihood::Scratch;
use crate::sequence::NO_STATE;

/// States that are tried for the one that a step keeps under L = 1.
const TRIED_FOR_ONE: usize = 16;

impl<T: Scalar> Local<'_, T> {
    /// The candidates of every step of a task, going forward.
    pub(super) fn choose_candidates(
        &self,
        sequences: &Sequences<'_, T>,
        task: &Task<'_, T>,
        buffers: &mut TaskBuffers<T>,
    ) -> Result<()> {
        let (num, sparsity) = (self.clusters.num_clusters(), self.sparsity);
        // At the first visit there is nothing to choose from but what is found here, and what it leaves out hardly comes
        // back: with twice L in place of four times, fits with L = 4 were 0.11 % below dense ones
        // on eight real sets, and 0.04 % so.
        let width = match (sparsity, task.old.is_empty()) {
            (1, _) => TRIED_FOR_ONE,
            (_, true) => 4 * sparsity,
            (_, false) if self.judges => 2 * sparsity,
            (_, false) => sparsity,
        };
        if let Some(visit) = self.follow.filter(|_| !task.old.is_empty()) {
            return self.follow(sequences, task, (width.min(num), visit), buffers);
        }
        let TaskBuffers { scratch, weights, candidates, forward, .. } = buffers;
        candidates.clear();
        forward.begin(width.min(num));
        let (Some(first), Some(last)) = (task.spans.first(), task.spans.last()) else { return Ok(()) };
        let (first, last) = (&first.steps, &last.steps);
        let mut spans = task.spans.iter().peekable();
        for tile in (first.start..last.end).step_by(T::TILE) {
            let rows = tile..last.end.min(tile + T::TILE);
            self.weigh(sequences, rows.clone(), scratch, weights);
            for (row, weights) in rows.zip(weights.chunks_exact(num)) {
                let mut given = None;
                while let Some(span) = spans.next_if(|span| span.steps.start == row) {
                    given = Some(self.chain.first(span.begins));
                }
                let at = (row - first.start) * self.kept;
                let old = if task.old.is_empty() { &[][..] } else { &task.old[at..at + self.kept] };
                let chosen = forward.step(self.chain, weights, given, old);
                chosen.map_err(|cluster| Error::NanWeight { row: sequences.row_ids[row], cluster })?;
                candidates.push(forward.chosen.iter().map(|&k| (k, weights[k as usize].to_f64())));
            }
        }
        Ok(())
    }

    /// The log likelihood of a row in one state.
    fn weigh_in(
        &self,
        k: usize,
        sequences: &Sequences<'_, T>,
        row: usize,
        (scratch, weights): (&mut Scratch<T>, &mut [T]),
    ) -> T {
        if let Some(diagonal) = self.clusters.diagonal(k) {
            return diagonal.of_row(sequences.rows.dense_rows(row..row + 1));
        }
        self.clusters.log_lik_of(k, sequences.rows, &[row as u32], scratch, &mut weights[..1]);
        weights[0]
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
        let first = task.spans.first().map_or(0, |span| span.steps.start);
        for span in task.spans {
            for row in span.steps.clone() {
                let id = sequences.row_ids[row];
                let nan = |cluster: usize| Error::NanWeight { row: id, cluster };
                let old = &task.old[(row - first) * self.kept..(row - first + 1) * self.kept];
                if row == span.steps.start {
                    self.weigh(sequences, row..row + 1, scratch, weights);
                    forward.step(self.chain, weights, Some(self.chain.first(span.begins)), old).map_err(nan)?;
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
                        false => self.weigh_in(k, sequences, row, (scratch, weights)).to_f64(),
                    };
                    if log_lik.is_nan() {
                        return Err(nan(k));
                    }
                    forward.log_lik.push(log_lik);
                }
                forward.step_among(self.chain, old);
                let Forward { top, looked_at, log_lik, .. } = &*forward;
                candidates.push(top.iter().map(|&n| (looked_at[n as usize], log_lik[n as usize])));
            }
        }
        Ok(())
    }
}

/// Going forward through a sequence with a few states at a time.
#[derive(Default)]
pub(super) struct Forward {
    /// States that are taken from all at every step.
    width: usize,
    /// The states of this step, ascending.
    chosen: Vec<u32>,
    /// Their shares given the steps so far.
    pub(super) share: Vec<f64>,
    pub(super) predicted: Vec<f64>,
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
        predicted.resize(looked_at.len(), 0.0);
        for (&j, share) in chosen.iter().zip(&*share).filter(|(_, share)| **share >= FOLLOWED) {
            chain.each_weight(j, looked_at, |n, weight| predicted[n] += share * weight);
        }
        ln_slice(predicted);
        predicted.iter_mut().zip(&*log_lik).for_each(|(weight, log_lik)| *weight += log_lik);
        if predicted.iter().all(|weight| *weight == f64::NEG_INFINITY) {
            predicted.copy_from_slice(log_lik);
        }
        top.clear();
        top.extend(0..looked_at.len() as u32);
        top.sort_by(|&a, &b| predicted[b as usize].total_cmp(&predicted[a as usize]));
        let most = top.first().map_or(0.0, |&n| predicted[n as usize]);
        let is_kept = |n: u32| besides.contains(&looked_at[n as usize]);
        let mut rank = 0;
        top.retain(|&n| {
            rank += 1;
            (rank <= *width && predicted[n as usize] > f64::NEG_INFINITY) || is_kept(n)
        });
        // States that are looked at ascend.
        top.sort_unstable();
        chosen.clear();
        chosen.extend(top.iter().map(|&n| looked_at[n as usize]));
        share.clear();
        share.extend(top.iter().map(|&n| predicted[n as usize] - most));
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

    /// One step further: log likelihoods of all states, what a first step is predicted by, and states to be taken besides. A
    /// state whose likelihood is not a number is an error.
    fn step<T: Scalar>(
        &mut self,
        chain: &Chain,
        log_lik: &[T],
        given: Option<&[f64]>,
        besides: &[u32],
    ) -> std::result::Result<(), usize> {
        let Forward { width, chosen, share, predicted, top, top_weight, .. } = self;
        predicted.resize(log_lik.len(), 0.0);
        top.resize(*width, 0);
        match given {
            Some(given) => predicted.copy_from_slice(given),
            None => chain.predict(chosen, share, predicted),
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
