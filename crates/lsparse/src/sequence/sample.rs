//! Sequences drawn from a trained hidden Markov model.

use std::sync::atomic::{AtomicBool, Ordering};

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::error::{Error, Result};
use crate::math::random::categorical;
use crate::sequence::SequenceModel;
use crate::system::check_result;

/// Steps drawn before somebody who wants to stop is heard.
const STRETCH: usize = 1 << 10;

/// One sequence drawn from a model, and the state of each step.
#[derive(Clone, Debug, PartialEq)]
pub struct DrawnSteps {
    /// All values, step by step.
    pub values: Vec<f64>,
    /// The state that each step was in.
    pub states: Vec<u32>,
}

impl SequenceModel {
    /// Draw a sequence under the point estimates, from the start or from the state after `after`. A row of counts has
    /// `trials` of them, where that is given, and else as many as the rows of the training data had on average.
    pub fn sample(&self, steps: usize, after: Option<u32>, trials: Option<usize>, seed: u64) -> Result<DrawnSteps> {
        self.sample_until(steps, after, trials, seed, &AtomicBool::new(false))
    }

    /// As [`sample`](Self::sample), until the flag is set from outside.
    pub fn sample_until(
        &self,
        steps: usize,
        after: Option<u32>,
        trials: Option<usize>,
        seed: u64,
        interrupt: &AtomicBool,
    ) -> Result<DrawnSteps> {
        let (dim, num) = (self.dim(), self.num_states());
        if let Some(state) = after.filter(|&state| state as usize >= num) {
            let problem = format!("there is no state {state} among {num}");
            return Err(Error::Config { setting: "after", problem, remedy: "give one that is there".into() });
        }
        self.config.likelihood.family().check_trials(trials)?;
        check_result("drawing", steps, "steps", (dim as u64).saturating_mul(8).saturating_add(12))?;
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let draws = (self.config.likelihood.family().draws)(&self.arrays, dim)?;
        let clusters = &self.total.clusters;
        let sum: f64 = clusters.stats.iter().sum();
        let usual = (sum / clusters.total_weight().max(f64::MIN_POSITIVE)).round().max(1.0) as usize;
        let trials = trials.unwrap_or(usual);
        let (chain, mut row) = (self.chain(), vec![0.0; num]);
        let mut drawn = DrawnSteps { values: vec![0.0; steps * dim], states: Vec::with_capacity(steps) };
        for stretch in drawn.values.chunks_mut(STRETCH * dim) {
            if interrupt.load(Ordering::Relaxed) {
                return Err(Error::Interrupted { during: "drawing steps" });
            }
            for values in stretch.chunks_exact_mut(dim) {
                match drawn.states.last().copied().or(after) {
                    Some(before) => chain.write_row(before as usize, &mut row),
                    None => row.copy_from_slice(&chain.start),
                }
                let state = categorical(&row, &mut rng);
                draws[state](&mut |_| trials, values, &mut rng);
                drawn.states.push(state as u32);
            }
        }
        Ok(drawn)
    }
}
