//! Forward and backward where every step may be in any state.
//!
//! Of hundreds of states few have a share to speak of once some steps are known. Those whose share given the steps so far is
//! next to nothing go no further, and no sum runs over them, unless what is left out might matter to the step that follows:
//! then it is worked out again with all.

use lsparse_kernels::{add_table_rows, dot_f64};

use super::{Chain, PairSums, Paths, Stretch, Supports, normalise, relative_to_most, times};

/// States with a smaller share, given the steps so far, go no further.
const LEAST_SHARE: f64 = 1e-20;

/// What that leaves out is at most this share of the step that follows.
const MOST_LEFT_OUT: f64 = 1e-14;

/// Steps whose products are summed at once.
const STEPS_AT_ONCE: usize = 16;

/// sum_t q(z_t-1 = j | so far) w_t(k) over pairs of all states, a few steps at a time: a row of sums is read and written
/// once for all of them.
#[derive(Debug, Default)]
pub(super) struct OuterSums {
    /// K x K.
    sums: Vec<f64>,
    /// w of some steps, one after the other, and where in `ahead` the states before each begin.
    waiting: Vec<f64>,
    before: Vec<usize>,
}

impl OuterSums {
    fn begin(&mut self, num: usize) {
        self.sums.clear();
        self.sums.resize(num * num, 0.0);
        self.waiting.clear();
        self.before.clear();
    }

    fn push(&mut self, weights: &[f64], before: usize, ahead: &[f64]) {
        self.waiting.extend_from_slice(weights);
        self.before.push(before);
        if self.before.len() == STEPS_AT_ONCE {
            self.settle(weights.len(), ahead);
        }
    }

    fn settle(&mut self, num: usize, ahead: &[f64]) {
        let (mut shares, mut steps) = ([0.0; STEPS_AT_ONCE], [0; STEPS_AT_ONCE]);
        for (j, sums) in self.sums.chunks_exact_mut(num.max(1)).enumerate() {
            let mut count = 0;
            for (step, before) in (0..).zip(&self.before) {
                let share = ahead[before + j];
                (shares[count], steps[count]) = (share, step);
                count += usize::from(share > 0.0);
            }
            if count > 0 {
                add_table_rows(&self.waiting, num, &steps[..count], &shares[..count], sums);
            }
        }
        self.waiting.clear();
        self.before.clear();
    }
}

impl Paths {
    /// Forward with numbers normalised at every step; none where they come too near to zero for that.
    pub(super) fn forward_all(&mut self, chain: &Chain, supports: &Supports, stretch: &Stretch) -> Option<f64> {
        let (num, entries) = (chain.num_states(), supports.of_steps(&stretch.steps));
        let own = stretch.from_zero().own;
        self.ahead.resize(entries.len(), 0.0);
        self.factor.resize(entries.len(), 0.0);
        // The states that go on, and their shares.
        let Paths { ahead, factor, states, next: shares, own_norm, .. } = self;
        let (mut log_norm, mut left_out) = (0.0, 0.0);
        *own_norm = 0.0;
        for (step, log_lik) in supports.log_lik[entries].chunks_exact(num).enumerate() {
            let (done, now) = ahead.split_at_mut(step * num);
            let (now, factor) = (&mut now[..num], &mut factor[step * num..(step + 1) * num]);
            let most = relative_to_most(log_lik, factor)?;
            // p_k = sum_j q(z_t-1 = j | so far) A_jk
            let norm = if step == 0 {
                now.copy_from_slice(chain.first(stretch.begins));
                times(now, factor)
            } else {
                let done = &mut done[(step - 1) * num..];
                chain.predict(states, shares, now);
                let norm = times(now, factor);
                if left_out <= MOST_LEFT_OUT * norm {
                    done.iter_mut().for_each(|share| *share = if *share < LEAST_SHARE { 0.0 } else { *share });
                    norm
                } else {
                    chain.predict_all(done, now);
                    times(now, factor)
                }
            };
            let log = most + normalise(norm, now, factor)?;
            log_norm += log;
            *own_norm += if own.contains(&step) { log } else { 0.0 };
            states.clear();
            shares.clear();
            left_out = 0.0;
            for (k, &share) in (0..).zip(&*now) {
                if share < LEAST_SHARE {
                    left_out += share;
                } else {
                    states.push(k);
                    shares.push(share);
                }
            }
        }
        Some(log_norm)
    }

    /// Backward after [`forward_all`](Self::forward_all); gives what the seams of a window have of its own steps' weight.
    pub(super) fn backward_all(
        &mut self,
        chain: &Chain,
        supports: &Supports,
        stretch: &Stretch,
        pairs: Option<&mut PairSums>,
    ) -> f64 {
        let (num, entries) = (chain.num_states(), supports.of_steps(&stretch.steps).len());
        let (stretch, mut seams) = (stretch.from_zero(), 0.0);
        self.share.resize(entries, 0.0);
        let Paths { share, ahead, factor, back, next, row, outer, .. } = self;
        if pairs.is_some() {
            outer.begin(num);
        }
        back.clear();
        back.resize(num, 1.0);
        next.clear();
        next.resize(num, 0.0);
        for step in stretch.steps.clone().rev() {
            let own = step * num..(step + 1) * num;
            let shares = share[own.clone()].iter_mut().zip(&ahead[own.clone()]).zip(&*back);
            shares.for_each(|((share, ahead), back)| *share = ahead * back);
            seams += stretch.seam(step, &share[own.clone()], back, f64::ln);
            if step == 0 {
                break;
            }
            // w_k = exp(log likelihood) q(what follows | z_t = k), and from it that of the step before.
            back.iter_mut().zip(&factor[own.clone()]).for_each(|(back, factor)| *back *= factor);
            let before = own.start - num;
            for (j, (sum, &share)) in next.iter_mut().zip(&ahead[before..own.start]).enumerate() {
                *sum = if share > 0.0 { dot_f64(chain.row_weights(j, row), back) } else { 0.0 };
            }
            if pairs.is_some() && stretch.own.contains(&step) {
                outer.push(back, before, ahead);
            }
            std::mem::swap(back, next);
        }
        if let Some(pairs) = pairs {
            outer.settle(num, ahead);
            for (j, outer) in outer.sums.chunks_exact(num.max(1)).enumerate() {
                let weights = chain.row_weights(j, row);
                pairs.add_row(num, j, outer.iter().zip(weights).map(|(outer, weight)| outer * weight));
            }
        }
        seams
    }
}
