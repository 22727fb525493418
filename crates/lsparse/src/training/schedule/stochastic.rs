//! Stochastic training: a step of decaying length towards the statistics of one batch scaled up (`hoffman2013svi`).

use std::collections::VecDeque;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::training::moves::Remap;
use crate::training::schedule::{Schedule, ScheduleState, Snapshot};
use crate::training::summary::Summary;

/// Draws batches uniformly at random and moves the total towards each by rho_t = (delay + t)^-decay.
///
/// In a conjugate exponential family this is the natural-gradient step on the parameters.
pub struct Stochastic {
    shares: Vec<f64>,
    delay: f64,
    decay: f64,
    state: StochasticState,
}

/// Where a stochastic schedule is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StochasticState {
    /// Batches visited so far, t.
    visits: u64,
    /// Batches that are drawn and not folded in yet.
    drawn: VecDeque<usize>,
    rng: ChaCha8Rng,
}

impl Stochastic {
    /// `shares` is each batch's share of the data.
    pub fn new(shares: Vec<f64>, delay: f64, decay: f64, rng: ChaCha8Rng) -> Self {
        Stochastic::restore(shares, delay, decay, StochasticState { visits: 0, drawn: VecDeque::new(), rng })
    }

    /// Go on from where a schedule was.
    pub fn restore(shares: Vec<f64>, delay: f64, decay: f64, state: StochasticState) -> Self {
        Stochastic { shares, delay, decay, state }
    }

    /// rho_t for the next visit, t counted from one; never more than one.
    pub fn rate(&self) -> f64 {
        (self.delay + (self.state.visits + 1) as f64).powf(-self.decay).min(1.0)
    }
}

impl<S: Summary> Schedule<S> for Stochastic {
    fn next_batch(&mut self, ahead: usize) -> Option<usize> {
        let StochasticState { drawn, rng, .. } = &mut self.state;
        while drawn.len() <= ahead {
            drawn.push_back(rng.random_range(0..self.shares.len()));
        }
        Some(drawn[ahead])
    }

    fn place(&self) -> (usize, usize) {
        let num = self.shares.len();
        ((self.state.visits % num as u64) as usize, num)
    }

    fn fold(&mut self, total: &mut S, batch: usize, fresh: S) -> Result<bool> {
        let rate = self.rate();
        self.state.visits += 1;
        self.state.drawn.pop_front();
        // total = (1 - rho) total + rho (N / |batch|) fresh; a batch of zero weight teaches nothing.
        if self.shares[batch] > 0.0 {
            total.scale(1.0 - rate);
            total.add_scaled(&fresh, rate / self.shares[batch]);
        }
        Ok(self.state.visits.is_multiple_of(self.shares.len() as u64))
    }

    fn remap(&mut self, total: &mut S, plan: &Remap) -> Result<()> {
        total.remap(plan);
        Ok(())
    }

    fn remove_batch(&mut self, _total: &mut S, _batch: usize) -> Result<bool> {
        Err(Error::Config {
            setting: "forget-batch",
            problem: "a stochastic run does not remember what each batch gave".into(),
            remedy: "train with `schedule memoized`".into(),
        })
    }

    fn snapshot(&mut self) -> Snapshot<S> {
        Snapshot { state: ScheduleState::Stochastic(self.state.clone()), file: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::likelihood::ClusterSummary;
    use rand::SeedableRng;

    #[test]
    fn the_step_is_the_weighted_mean_of_old_and_scaled_new() {
        let one = |c: f64| ClusterSummary { counts: vec![c], stats: vec![c], width: 1, entropy: 0.0, trial: None };
        let rng = ChaCha8Rng::seed_from_u64(0);
        let mut schedule = Stochastic::new(vec![0.5, 0.5], 1.0, 0.5, rng);
        let mut total = one(10.0);
        let rho = 2f64.powf(-0.5);
        assert!(!schedule.fold(&mut total, 0, one(4.0)).unwrap());
        assert!((total.counts[0] - ((1.0 - rho) * 10.0 + rho * 8.0)).abs() < 1e-12);
        assert!(schedule.fold(&mut total, 1, one(4.0)).unwrap());
    }
}
