//! What a model says of sequences that it is not trained on: scores of steps, states, best paths.

use lsparse_kernels::{exp_slice, ln_slice};
use rayon::prelude::*;

use super::{Local, Sequences, TASK_ROWS, TaskBuffers, tasks_of};
use crate::allocation::{Stretch, best_path};
use crate::backend::with_buffers;
use crate::data::Scalar;
use crate::error::{Error, Result};
use crate::sequence::NO_STATE;
use crate::training::responsibilities::Responsibilities;

/// log p(x_t | x_1 .. x_t-1) of every row of some sequences, over all states: what the steps before say of each. Steps without
/// an observation have none to score, 0. A sequence that goes on from the rows before these begins with `carried`, the shares
/// of the states after them; those after the last row take their place.
pub(in crate::sequence) fn next_step_scores<T: Scalar>(
    local: &Local<'_, T>,
    sequences: &Sequences<'_, T>,
    carried: &mut Vec<f64>,
) -> Result<Vec<f64>> {
    let num = local.clusters.num_clusters();
    let mut scores = vec![0.0; sequences.rows.len()];
    let runs = tasks_of(sequences.spans, TASK_ROWS);
    let mut left = &mut scores[..];
    let mut tasks = Vec::new();
    for run in runs {
        let is_last = run.end == sequences.spans.len();
        let spans = &sequences.spans[run];
        let rows = spans.iter().map(|span| span.steps.len()).sum();
        let (own, rest) = std::mem::take(&mut left).split_at_mut(rows);
        left = rest;
        tasks.push((spans, own, is_last));
    }
    let before = &carried[..];
    let of_task = |spans: &[Stretch], out: &mut [f64], buffers: &mut TaskBuffers<T>| -> Result<()> {
        let TaskBuffers { scratch, weights, forward, .. } = buffers;
        let (Some(first), Some(last)) = (spans.first(), spans.last()) else { return Ok(()) };
        let (first, last) = (&first.steps, &last.steps);
        let (share, predicted) = (&mut forward.share, &mut forward.predicted);
        predicted.resize(num, 0.0);
        let mut spans = spans.iter().peekable();
        for tile in (first.start..last.end).step_by(T::TILE) {
            let rows = tile..last.end.min(tile + T::TILE);
            weights.clear();
            weights.resize(rows.len() * num, T::ZERO);
            local.clusters.add_log_predictive(sequences.rows, rows.clone(), scratch, weights);
            for (row, weights) in rows.zip(weights.chunks_exact(num)) {
                let mut begun = None;
                while let Some(span) = spans.next_if(|span| span.steps.start == row) {
                    begun = Some(span);
                }
                match begun {
                    Some(span) if span.begins => predicted.copy_from_slice(&local.chain.start),
                    Some(_) => local.chain.predict_all(before, predicted),
                    None => local.chain.predict_all(share, predicted),
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
    let results: Vec<Result<Option<Vec<f64>>>> = tasks
        .into_par_iter()
        .with_max_len(1)
        .map(|(spans, out, is_last)| {
            with_buffers(|buffers: &mut TaskBuffers<T>| {
                of_task(spans, out, buffers)?;
                Ok(is_last.then(|| buffers.forward.share.clone()))
            })
        })
        .collect();
    let left = results.into_iter().collect::<Result<Vec<_>>>()?;
    *carried = left.into_iter().flatten().next_back().unwrap_or_default();
    Ok(scores)
}

/// The L most probable states of every row that is a span's own, the most probable first, and their shares.
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
        // Rounding has made more of some than all.
        let at_most_all = |r: T| if r.to_f64() > 1.0 { T::ONE } else { r };
        pairs
            .into_iter()
            .zip(index.iter_mut().zip(value))
            .for_each(|(pair, (k, r))| (*k, *r) = (pair.0, at_most_all(pair.1)));
    });
    let mut end = 0;
    for Stretch { own, .. } in sequences.spans {
        let (own, len) = (own.start * sparsity..own.end * sparsity, own.len() * sparsity);
        resp.index.copy_within(own.clone(), end);
        resp.value.copy_within(own, end);
        end += len;
    }
    resp.index.truncate(end);
    resp.value.truncate(end);
    Ok(())
}

/// The best path through every sequence, over all states: appends the state of every row, and adds up the weights. Of a
/// window its own steps count, and the transition from the last state before them.
pub(in crate::sequence) fn best_paths<T: Scalar>(
    local: &Local<'_, T>,
    sequences: &Sequences<'_, T>,
    states: &mut Vec<u32>,
) -> Result<f64> {
    let found: Vec<Result<(f64, Vec<u32>)>> = sequences
        .spans
        .par_iter()
        .with_max_len(1)
        .map(|span| {
            with_buffers(|buffers: &mut TaskBuffers<T>| {
                let TaskBuffers { scratch, weights, candidates, .. } = buffers;
                local.weigh_all(sequences, std::slice::from_ref(span), (scratch, weights), candidates)?;
                let mut path = Vec::with_capacity(span.steps.len());
                let whole = best_path(local.chain, candidates, &span.from_zero(), &mut path)
                    .ok_or_else(|| local.impossible(sequences, span))?;
                let own = span.from_zero().own;
                let states: Vec<u32> = path[own.clone()].iter().map(|&entry| candidates.state(entry)).collect();
                if span.own == span.steps {
                    return Ok((whole, states));
                }
                let rows: f64 = path[own].iter().map(|&entry| candidates.log_lik[entry]).sum();
                let moves: f64 = states.windows(2).map(|pair| local.chain.log_weight(pair[0], pair[1])).sum();
                let start = states.first().filter(|_| span.begins);
                Ok((rows + moves + start.map_or(0.0, |&k| local.chain.log_start[k as usize]), states))
            })
        })
        .collect();
    let mut sum = 0.0;
    for (found, span) in found.into_iter().zip(sequences.spans) {
        let (weight, path) = found?;
        sum += weight;
        if let (false, Some(&before), Some(&first)) = (span.begins, states.last(), path.first()) {
            sum += local.chain.log_weight(before, first);
        }
        states.extend(path);
    }
    Ok(sum)
}
