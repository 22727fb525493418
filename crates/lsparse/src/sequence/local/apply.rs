//! What a model says of sequences that it is not trained on: scores of steps, states, best paths.

use std::ops::Range;

use lsparse_kernels::{exp_slice, ln_slice};
use rayon::prelude::*;

use super::{Local, Sequences, TASK_ROWS, TaskBuffers, tasks_of};
use crate::allocation::best_path;
use crate::backend::with_buffers;
use crate::data::Scalar;
use crate::error::{Error, Result};
use crate::sequence::NO_STATE;
use crate::training::responsibilities::Responsibilities;

/// log p(x_t | x_1 .. x_t-1) of every row of some sequences, over all states: what the steps before say of each. Steps without
/// an observation have none to score, 0.
pub(in crate::sequence) fn next_step_scores<T: Scalar>(
    local: &Local<'_, T>,
    sequences: &Sequences<'_, T>,
) -> Result<Vec<f64>> {
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
pub(in crate::sequence) fn smooth_states<T: Scalar>(
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
pub(in crate::sequence) fn best_paths<T: Scalar>(
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
