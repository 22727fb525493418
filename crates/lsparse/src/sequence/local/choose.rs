//! Which of its candidates a step keeps: those that all paths through the candidates give most, or what it had.

use super::{Local, Sequences, Task, TaskBuffers};
use crate::allocation::{Stretch, best_path};
use crate::data::Scalar;
use crate::error::Result;
use crate::sequence::{NO_STATE, SequenceTally};

impl<T: Scalar> Local<'_, T> {
    /// The best path of all for a sequence whose candidates leave none, as transitions of maximum likelihood may.
    pub(super) fn rescue(
        &self,
        sequences: &Sequences<'_, T>,
        span: &Stretch,
        buffers: &mut TaskBuffers<T>,
    ) -> Result<()> {
        let TaskBuffers { scratch, weights, chosen, old, .. } = buffers;
        self.weigh_all(sequences, std::slice::from_ref(span), (scratch, weights), old)?;
        let mut path = Vec::with_capacity(span.steps.len());
        best_path(self.chain, old, &span.from_zero(), &mut path).ok_or_else(|| self.impossible(sequences, span))?;
        chosen.clear();
        path.iter().for_each(|&entry| chosen.push(std::iter::once((old.state(entry), old.log_lik[entry]))));
        Ok(())
    }

    /// The states that the steps of a sequence keep, of their candidates. False where no path leads through the candidates.
    pub(super) fn choose(
        &self,
        task: &Task<'_, T>,
        span: &Stretch,
        buffers: &mut TaskBuffers<T>,
        tally: &mut SequenceTally,
    ) -> bool {
        let (sparsity, steps) = (self.sparsity, &span.steps);
        let from_zero = span.from_zero();
        let TaskBuffers { candidates, chosen, old, paths, path, .. } = buffers;
        tally.steps += steps.len() as f64;
        if steps.is_empty() {
            chosen.clear();
            return true;
        }
        let first = candidates.of(steps.start).start;
        path.clear();
        if sparsity == 1 {
            // The best path, or none where the candidates leave none.
            best_path(self.chain, candidates, span, path);
            chosen.take_from(candidates, steps.clone(), |step, entries| {
                entries.push(path.get(step - steps.start).copied().unwrap_or(candidates.of(step).start));
            });
        } else {
            let smoothed = paths.smooth(self.chain, candidates, span, None).is_some();
            let share = |entry: usize| if smoothed { paths.share[entry - first] } else { 0.0 };
            chosen.take_from(candidates, steps.clone(), |step, entries| {
                entries.extend(candidates.of(step));
                if entries.len() > sparsity {
                    // The largest shares, of equal ones the lower states; then by state again.
                    entries.sort_by(|&a, &b| share(b).total_cmp(&share(a)));
                    tally.lost += entries[sparsity..].iter().map(|&entry| share(entry)).sum::<f64>();
                    entries.truncate(sparsity);
                    entries.sort_unstable();
                }
            });
        }
        let found = paths.log_norm(self.chain, chosen, &from_zero);
        // What was kept before, if that is better.
        if !task.old.is_empty() {
            old.take_from(candidates, steps.clone(), |step, entries| {
                let states = task.old[step * self.kept..(step + 1) * self.kept].iter().filter(|k| **k != NO_STATE);
                let own = candidates.of(step);
                entries.extend(states.filter_map(|k| Some(own.start + candidates.states(step).binary_search(k).ok()?)));
            });
            if paths.log_norm(self.chain, old, &from_zero) > found {
                std::mem::swap(chosen, old);
                tally.stayed += 1;
                return true;
            }
        }
        if found.is_some() {
            return true;
        }
        // Shares of single steps may be those of paths that part ways: the best path is one.
        path.clear();
        if best_path(self.chain, candidates, span, path).is_none() {
            return false;
        }
        chosen.take_from(candidates, steps.clone(), |step, entries| entries.push(path[step - steps.start]));
        true
    }
}
