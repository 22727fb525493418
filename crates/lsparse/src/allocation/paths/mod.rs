//! Paths through a chain where every step has a few states: forward and backward inside these supports, and the best path.
//!
//! Inside its supports q(z) is the exact conditional of the chain given the rows, so that no other distribution over paths
//! through them has a higher objective. Dense is the case where every step may be in any state.

mod all;

use std::ops::Range;

use super::{Chain, PairSums};
use all::OuterSums;

/// The states that each of a run of steps may be in, and the log likelihood of the step in each.
#[derive(Clone, Debug, Default)]
pub struct Supports {
    /// Where the entries of each step end.
    ends: Vec<usize>,
    /// States, ascending at each step; empty where every step may be in any state.
    state: Vec<u32>,
    /// `E[log F(x_t | phi_k)]` of each entry.
    pub log_lik: Vec<f64>,
    /// K, where every step may be in any state.
    all: Option<usize>,
    /// The weights of the transitions from the states of the step before, row by row, where steps have few states; those of
    /// each step end where `link_ends` says.
    link: Vec<f64>,
    link_ends: Vec<usize>,
}

impl Supports {
    /// No steps yet, of few states each.
    pub fn clear(&mut self) {
        self.ends.clear();
        self.state.clear();
        self.log_lik.clear();
        self.all = None;
        self.unlink();
    }

    fn unlink(&mut self) {
        self.link.clear();
        self.link_ends.clear();
    }

    /// So many steps, each of which may be in any of K states, with log likelihoods to be filled in.
    pub fn reset_all(&mut self, steps: usize, num: usize) {
        self.clear();
        self.log_lik.resize(steps * num, 0.0);
        self.all = Some(num);
    }

    /// One more step with these states, ascending.
    pub fn push(&mut self, entries: impl Iterator<Item = (u32, f64)>) {
        for (state, log_lik) in entries {
            self.state.push(state);
            self.log_lik.push(log_lik);
        }
        self.ends.push(self.state.len());
    }

    /// Some of the states of some steps of another, instead of what there was: `pick` gives the entries of a step.
    pub fn take_from(&mut self, other: &Supports, steps: Range<usize>, mut pick: impl FnMut(usize, &mut Vec<usize>)) {
        self.clear();
        let (mut before, mut now) = (Vec::new(), Vec::new());
        for step in steps.clone() {
            now.clear();
            pick(step, &mut now);
            self.push(now.iter().map(|&entry| (other.state[entry], other.log_lik[entry])));
            if !other.link_ends.is_empty() {
                if step > steps.start {
                    let (links, own, first) = (other.linked(step), other.of(step), other.of(step - 1).start);
                    for j in &before {
                        let row = &links[(j - first) * own.len()..];
                        self.link.extend(now.iter().map(|k| row[k - own.start]));
                    }
                }
                self.link_ends.push(self.link.len());
            }
            std::mem::swap(&mut before, &mut now);
        }
    }

    /// Look the weights of all transitions up once, where they are not too many to be held.
    pub fn link(&mut self, chain: &Chain) {
        self.unlink();
        let sizes = (1..self.len()).map(|step| self.of(step - 1).len() * self.of(step).len());
        if sizes.sum::<usize>() > MOST_LINKS {
            return;
        }
        for step in 0..self.len() {
            if step > 0 {
                let first = self.link.len();
                self.link.resize(first + self.of(step - 1).len() * self.of(step).len(), 0.0);
                let (before, own) = (self.of(step - 1), self.of(step));
                chain.weights_between(&self.state[before], &self.state[own], &mut self.link[first..]);
            }
            self.link_ends.push(self.link.len());
        }
    }

    fn linked(&self, step: usize) -> &[f64] {
        &self.link[step.checked_sub(1).map_or(0, |before| self.link_ends[before])..self.link_ends[step]]
    }

    /// The weights of the transitions to the states of a step from those of the step before, row by row: looked up before,
    /// or now.
    fn links<'a>(&'a self, chain: &Chain, step: usize, buffer: &'a mut Vec<f64>) -> &'a [f64] {
        if !self.link_ends.is_empty() {
            return self.linked(step);
        }
        let (before, own) = (self.states(step - 1), self.states(step));
        buffer.resize(before.len() * own.len(), 0.0);
        chain.weights_between(before, own, buffer);
        buffer
    }

    /// Steps there are.
    pub fn len(&self) -> usize {
        self.all.map_or(self.ends.len(), |num| self.log_lik.len() / num.max(1))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where the entries of a step are.
    #[inline]
    pub fn of(&self, step: usize) -> Range<usize> {
        match self.all {
            Some(num) => step * num..(step + 1) * num,
            None => step.checked_sub(1).map_or(0, |before| self.ends[before])..self.ends[step],
        }
    }

    /// Where the entries of several steps are.
    fn of_steps(&self, steps: &Range<usize>) -> Range<usize> {
        match steps.is_empty() {
            true => 0..0,
            false => self.of(steps.start).start..self.of(steps.end - 1).end,
        }
    }

    /// The state of an entry.
    #[inline]
    pub fn state(&self, entry: usize) -> u32 {
        match self.all {
            Some(num) => (entry % num) as u32,
            None => self.state[entry],
        }
    }

    /// The states of a step, where it has a few.
    pub fn states(&self, step: usize) -> &[u32] {
        &self.state[self.of(step)]
    }
}

/// Steps that are smoothed together: a sequence, or a window of a long one with what it is seen with on either side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// All of them.
    pub steps: Range<usize>,
    /// Those whose statistics are wanted.
    pub own: Range<usize>,
    /// Whether a sequence begins with the first.
    pub begins: bool,
}

impl Stretch {
    /// A whole sequence.
    pub fn whole(steps: Range<usize>) -> Self {
        Stretch { own: steps.clone(), steps, begins: true }
    }

    /// The same counted from this step on, which is none after its first.
    pub fn counted_from(&self, first: usize) -> Self {
        let from = |range: &Range<usize>| range.start - first..range.end - first;
        Stretch { steps: from(&self.steps), own: from(&self.own), begins: self.begins }
    }

    /// The same counted from its first step.
    pub fn from_zero(&self) -> Self {
        self.counted_from(self.steps.start)
    }
}

/// Weights of transitions that are held at most: 16 MB.
const MOST_LINKS: usize = 1 << 21;

/// Below this share of what a step might have, the next is worked out by logarithms.
const LEAST_NORM: f64 = 1e-200;

/// What smoothing leaves of a sequence, with its buffers.
#[derive(Debug, Default)]
pub struct Paths {
    /// q(z_t = k) of each entry of the sequence that was smoothed last.
    pub share: Vec<f64>,
    /// Filtered shares: those given the steps so far.
    ahead: Vec<f64>,
    /// exp(log likelihood), relative to the largest of a step and divided by what the step is normalised by.
    factor: Vec<f64>,
    /// Buffers: of a step, of a row of transitions, and of the states that paths go on through.
    back: Vec<f64>,
    next: Vec<f64>,
    row: Vec<f64>,
    outer: OuterSums,
    states: Vec<u32>,
    /// What own steps have of log sum over paths, as far as going forward tells.
    own_norm: f64,
}

impl Paths {
    /// log sum over paths of exp of their weight, and into `share` the probability of every entry; transitions into own steps
    /// are added to `pairs`. None where no path has any weight.
    ///
    /// Of a window it is what own steps have of it: with F_t = log F(x_t | z_t) the entropy of q(own steps | the step before)
    /// is that less the expectations of F_t and of log A over own steps and the transitions into them. It is
    /// sum log c_t over own steps - E[log b(last own step)] + E[log b(the step before the first)], b what backward has.
    pub fn smooth(
        &mut self,
        chain: &Chain,
        supports: &Supports,
        stretch: &Stretch,
        pairs: Option<&mut PairSums>,
    ) -> Option<f64> {
        if stretch.steps.is_empty() {
            self.share.clear();
            return Some(0.0);
        }
        match self.forward(chain, supports, stretch) {
            Some(_) => {
                let seams = self.backward(chain, supports, stretch, pairs);
                Some(self.own_norm + seams)
            }
            None => self.smooth_logs(chain, supports, stretch, pairs).map(|(_, own)| own),
        }
    }

    /// log sum over paths of exp of their weight, over all steps of a stretch.
    pub fn log_norm(&mut self, chain: &Chain, supports: &Supports, stretch: &Stretch) -> Option<f64> {
        if stretch.steps.is_empty() {
            return Some(0.0);
        }
        let by_logs = |paths: &mut Self| paths.smooth_logs(chain, supports, stretch, None).map(|(all, _)| all);
        self.forward(chain, supports, stretch).or_else(|| by_logs(self))
    }

    /// Forward with numbers normalised at every step; none where they come too near to zero for that.
    fn forward(&mut self, chain: &Chain, supports: &Supports, stretch: &Stretch) -> Option<f64> {
        if supports.all.is_some() {
            return self.forward_all(chain, supports, stretch);
        }
        let steps = &stretch.steps;
        let entries = supports.of_steps(steps);
        self.ahead.resize(entries.len(), 0.0);
        self.factor.resize(entries.len(), 0.0);
        let Paths { ahead, factor, row, own_norm, .. } = self;
        let mut log_norm = 0.0;
        *own_norm = 0.0;
        let mut before = 0;
        let first = chain.first(stretch.begins);
        for step in steps.clone() {
            let own = supports.of(step);
            let at = own.start - entries.start..own.end - entries.start;
            let (done, now) = ahead.split_at_mut(at.start);
            let now = &mut now[..at.len()];
            // p_k = sum_j q(z_t-1 = j | so far) A_jk
            if step == steps.start {
                let states = &supports.state[own.clone()];
                now.iter_mut().zip(states).for_each(|(p, &k)| *p = first[k as usize]);
            } else {
                now.fill(0.0);
                let links = supports.links(chain, step, row).chunks_exact(own.len().max(1));
                for (weights, &share) in links.zip(&done[before..]) {
                    now.iter_mut().zip(weights).for_each(|(p, weight)| *p += share * weight);
                }
            }
            before = at.start;
            let factor = &mut factor[at];
            let most = relative_to_most(&supports.log_lik[own.clone()], factor)?;
            let norm = times(now, factor);
            let log = most + normalise(norm, now, factor)?;
            log_norm += log;
            *own_norm += if stretch.own.contains(&step) { log } else { 0.0 };
        }
        Some(log_norm)
    }

    /// Backward after [`forward`](Self::forward); gives what the seams of a window have of its own steps' weight.
    fn backward(
        &mut self,
        chain: &Chain,
        supports: &Supports,
        stretch: &Stretch,
        mut pairs: Option<&mut PairSums>,
    ) -> f64 {
        if supports.all.is_some() {
            return self.backward_all(chain, supports, stretch, pairs);
        }
        let (steps, mut seams) = (&stretch.steps, 0.0);
        let (num, entries) = (chain.num_states(), supports.of_steps(steps));
        self.share.resize(entries.len(), 0.0);
        let Paths { share, ahead, factor, back, next, row, .. } = self;
        let last = supports.of(steps.end - 1);
        back.clear();
        back.resize(last.len(), 1.0);
        for step in steps.clone().rev() {
            let own = supports.of(step);
            let at = own.start - entries.start..own.end - entries.start;
            let shares = share[at.clone()].iter_mut().zip(&ahead[at.clone()]).zip(&*back);
            shares.for_each(|((share, ahead), back)| *share = ahead * back);
            seams += stretch.seam(step, &share[at.clone()], back, |back| back.ln());
            if step == steps.start {
                break;
            }
            let mut pairs = pairs.as_mut().filter(|_| stretch.own.contains(&step));
            // w_k = exp(log likelihood) q(what follows | z_t = k), and from it that of the step before.
            back.iter_mut().zip(&factor[at]).for_each(|(back, factor)| *back *= factor);
            let before = supports.of(step - 1);
            next.clear();
            next.resize(before.len(), 0.0);
            let ahead = &ahead[before.start - entries.start..before.end - entries.start];
            let links = supports.links(chain, step, row).chunks_exact(own.len().max(1));
            let states = &supports.state[own.clone()];
            for (((sum, &share), &j), weights) in next.iter_mut().zip(ahead).zip(&supports.state[before]).zip(links) {
                for ((&k, &back), weight) in states.iter().zip(&*back).zip(weights) {
                    let value = weight * back;
                    *sum += value;
                    if let Some(pairs) = &mut pairs {
                        pairs.add(num, j, k, share * value);
                    }
                }
            }
            std::mem::swap(back, next);
        }
        seams
    }

    /// Forward and backward by logarithms: slower, and at no loss where steps are far apart in likelihood. Gives the weight of
    /// all steps, and what own ones have of it.
    fn smooth_logs(
        &mut self,
        chain: &Chain,
        supports: &Supports,
        stretch: &Stretch,
        mut pairs: Option<&mut PairSums>,
    ) -> Option<(f64, f64)> {
        let (steps, log_first) = (&stretch.steps, chain.log_first(stretch.begins));
        let (num, entries) = (chain.num_states(), supports.of_steps(steps));
        let place = |entry: usize| entry - entries.start;
        let mut ahead = vec![f64::NEG_INFINITY; entries.len()];
        let mut terms = Vec::new();
        for step in steps.clone() {
            for entry in supports.of(step) {
                let k = supports.state(entry);
                let predicted = match step == steps.start {
                    true => log_first[k as usize],
                    false => {
                        terms.clear();
                        let before = supports.of(step - 1);
                        terms.extend(before.map(|e| ahead[place(e)] + chain.log_weight(supports.state(e), k)));
                        log_sum(&terms)
                    }
                };
                ahead[place(entry)] = predicted + supports.log_lik[entry];
            }
        }
        let last = supports.of(steps.end - 1);
        let log_norm = log_sum(&ahead[place(last.start)..place(last.start) + last.len()]);
        if !log_norm.is_finite() {
            return None;
        }
        let mut back = vec![0.0; entries.len()];
        for step in steps.clone().rev().skip(1) {
            for entry in supports.of(step) {
                let j = supports.state(entry);
                let next = supports.of(step + 1);
                terms.clear();
                terms.extend(
                    next.clone().map(|e| chain.log_weight(j, supports.state(e)) + supports.log_lik[e] + back[place(e)]),
                );
                if let Some(pairs) = pairs.as_mut().filter(|_| stretch.own.contains(&(step + 1))) {
                    for (e, term) in next.zip(&terms) {
                        let value = (ahead[place(entry)] + term - log_norm).exp();
                        if value > 0.0 {
                            pairs.add(num, j, supports.state(e), value);
                        }
                    }
                }
                back[place(entry)] = log_sum(&terms);
            }
        }
        self.share.clear();
        self.share.extend(ahead.iter().zip(&back).map(|(a, b)| (a + b - log_norm).exp()));
        let mut own = if stretch.own.start == steps.start { log_norm } else { 0.0 };
        for step in steps.clone() {
            let at = supports.of(step);
            let at = place(at.start)..place(at.start) + at.len();
            own += stretch.seam(step, &self.share[at.clone()], &back[at], |back| back);
        }
        Some((log_norm, own))
    }
}

impl Stretch {
    /// What a step has of the weight of own steps if it is at a seam: E[log b] of the step before the first, less that of the
    /// last.
    fn seam(&self, step: usize, share: &[f64], back: &[f64], log: impl Fn(f64) -> f64) -> f64 {
        let is_last = step + 1 == self.own.end && self.own.end < self.steps.end;
        let is_before = step + 1 == self.own.start && step >= self.steps.start;
        if !is_last && !is_before {
            return 0.0;
        }
        let there = share.iter().zip(back).filter(|(share, _)| **share > 0.0);
        let expected: f64 = there.map(|(share, &back)| share * log(back)).sum();
        if is_last { -expected } else { expected }
    }
}

/// exp of what each log likelihood is below the largest, and the largest; none where that is nothing.
fn relative_to_most(log_lik: &[f64], factor: &mut [f64]) -> Option<f64> {
    let most = log_lik.iter().fold(f64::NEG_INFINITY, |most, &l| most.max(l));
    factor.iter_mut().zip(log_lik).for_each(|(factor, l)| *factor = l - most);
    lsparse_kernels::exp_slice(factor);
    (most > f64::NEG_INFINITY).then_some(most)
}

/// Multiply, and sum.
fn times(now: &mut [f64], factor: &[f64]) -> f64 {
    now.iter_mut().zip(factor).for_each(|(p, factor)| *p *= factor);
    now.iter().sum()
}

/// Divide a step by its sum, of which it gives the logarithm; none where that is too near to zero.
fn normalise(norm: f64, now: &mut [f64], factor: &mut [f64]) -> Option<f64> {
    if norm.is_nan() || norm <= LEAST_NORM {
        return None;
    }
    let scale = 1.0 / norm;
    now.iter_mut().chain(factor).for_each(|value| *value *= scale);
    Some(norm.ln())
}

fn log_sum(terms: &[f64]) -> f64 {
    let most = terms.iter().fold(f64::NEG_INFINITY, |most, &term| most.max(term));
    if most == f64::NEG_INFINITY { most } else { most + terms.iter().map(|term| (term - most).exp()).sum::<f64>().ln() }
}

/// The path of the largest weight: appends the entry of each step to `path`, and gives the weight. None where no path has
/// any.
pub fn best_path(chain: &Chain, supports: &Supports, stretch: &Stretch, path: &mut Vec<usize>) -> Option<f64> {
    let (steps, log_first) = (stretch.steps.clone(), chain.log_first(stretch.begins));
    if steps.is_empty() {
        return Some(0.0);
    }
    let entries = supports.of_steps(&steps);
    // The best entry of the step before, for each.
    let mut from = vec![0usize; entries.len()];
    let (mut best, mut now): (Vec<f64>, Vec<f64>) = (Vec::new(), Vec::new());
    for step in steps.clone() {
        let own = supports.of(step);
        now.clear();
        if step == steps.start {
            now.extend(own.clone().map(|e| log_first[supports.state(e) as usize]));
        } else {
            let before = supports.of(step - 1);
            let from = &mut from[own.start - entries.start..own.end - entries.start];
            match supports.all {
                Some(_) => {
                    // Pairs that are held weigh no less than the rest of their row, whose best stands for all of it.
                    let rest = |j: usize| best[j] + chain.log_rest(j);
                    let top = (0..best.len()).fold(0, |top, j| if rest(j) > rest(top) { j } else { top });
                    now.resize(own.len(), rest(top));
                    from.fill(before.start + top);
                    for (j, &weight) in best.iter().enumerate().filter(|(_, weight)| **weight > f64::NEG_INFINITY) {
                        for (k, log) in chain.held_logs(j) {
                            let value = weight + log;
                            if value > now[k as usize] {
                                (now[k as usize], from[k as usize]) = (value, before.start + j);
                            }
                        }
                    }
                }
                None => {
                    for (e, from) in own.clone().zip(from) {
                        let k = supports.state(e);
                        let (mut most, mut arg) = (f64::NEG_INFINITY, before.start);
                        for (entry, weight) in before.clone().zip(&best) {
                            let value = weight + chain.log_weight(supports.state(entry), k);
                            if value > most {
                                (most, arg) = (value, entry);
                            }
                        }
                        now.push(most);
                        *from = arg;
                    }
                }
            }
        }
        now.iter_mut().zip(&supports.log_lik[own]).for_each(|(value, log_lik)| *value += log_lik);
        std::mem::swap(&mut best, &mut now);
    }
    let top = (0..best.len()).fold(0, |top, e| if best[e] > best[top] { e } else { top });
    let weight = best.get(top).copied().filter(|weight| weight.is_finite())?;
    let first = path.len();
    let mut entry = supports.of(steps.end - 1).start + top;
    for _ in steps {
        path.push(entry);
        entry = from[entry - entries.start];
    }
    path[first..].reverse();
    Some(weight)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocation::{ChainCounts, ChainPrior};
    use crate::likelihood::Estimate;

    fn noise(seed: &mut u64) -> f64 {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*seed >> 33) as f64 / (1u64 << 31) as f64
    }

    fn some_chain(num: usize, estimate: Estimate, seed: &mut u64) -> Chain {
        let mut counts = ChainCounts::zeros(num);
        counts.start.iter_mut().for_each(|n| *n = 5.0 * noise(seed));
        let mut sums = PairSums::new(num, false);
        for j in 0..num as u32 {
            for k in 0..num as u32 {
                // Some pairs never follow each other.
                let count = 10.0 * noise(seed) - 3.0;
                sums.add(num, j, k, if j == k { 4.0 } else { count.max(0.0) });
            }
        }
        sums.into_counts(num, &mut counts);
        Chain::estimate(estimate, ChainPrior { alpha: 2.0, stickiness: 0.5 }, &counts)
    }

    /// Every path through the supports, with its weight.
    fn all_paths(chain: &Chain, supports: &Supports, stretch: &Stretch) -> Vec<(Vec<usize>, f64)> {
        let (steps, log_first) = (stretch.steps.clone(), chain.log_first(stretch.begins));
        let mut paths = vec![(Vec::new(), 0.0)];
        for step in steps {
            let longer = |(path, weight): &(Vec<usize>, f64)| {
                let (path, weight) = (path.clone(), *weight);
                supports.of(step).map(move |e| {
                    let k = supports.state(e);
                    let into = match path.last() {
                        None => log_first[k as usize],
                        Some(&before) => chain.log_weight(supports.state(before), k),
                    };
                    let path: Vec<usize> = path.iter().copied().chain([e]).collect();
                    (path, weight + into + supports.log_lik[e])
                })
            };
            paths = paths.iter().flat_map(longer).collect();
        }
        paths
    }

    /// Supports of at most `most` of `num` states, or of all, over two sequences; the first steps belong to another.
    fn some_supports(num: usize, steps: usize, most: usize, spread: f64, seed: &mut u64) -> Supports {
        let mut supports = Supports::default();
        if most == num {
            supports.reset_all(steps, num);
            supports.log_lik.iter_mut().for_each(|l| *l = spread * noise(seed));
            return supports;
        }
        for _ in 0..steps {
            let mut states: Vec<u32> = (0..num as u32).collect();
            while states.len() > most {
                states.remove((noise(seed) * states.len() as f64) as usize);
            }
            let entries: Vec<(u32, f64)> = states.into_iter().map(|k| (k, spread * noise(seed))).collect();
            supports.push(entries.into_iter());
        }
        supports
    }

    /// q is the exact conditional over the paths through the supports, whatever the estimate, and so are its pairs; the best
    /// path is the best of all.
    #[test]
    fn shares_and_pairs_are_sums_over_all_paths() {
        let mut seed = 3;
        for estimate in [Estimate::Posterior, Estimate::Map, Estimate::MaxLikelihood] {
            for num in 1..=4 {
                for steps in 1..=7 {
                    for (most, spread) in [(1, 3.0), (2, 3.0), (3, 900.0), (num, 3.0), (num, 2000.0)] {
                        let most = most.min(num);
                        let chain = some_chain(num, estimate, &mut seed);
                        let supports = some_supports(num, steps + 2, most, spread, &mut seed);
                        check(&chain, &supports, 2..steps + 2, num);
                    }
                }
            }
        }
    }

    /// Whether weights of transitions were looked up before makes no difference.
    fn check(chain: &Chain, supports: &Supports, steps: Range<usize>, num: usize) {
        check_as_it_is(chain, supports, steps.clone(), num);
        if supports.all.is_none() {
            let mut linked = supports.clone();
            linked.link(chain);
            check_as_it_is(chain, &linked, steps.clone(), num);
            let mut taken = Supports::default();
            taken.take_from(&linked, steps.clone(), |step, entries| entries.extend(linked.of(step)));
            check_as_it_is(chain, &taken, 0..steps.len(), num);
        }
    }

    fn check_as_it_is(chain: &Chain, supports: &Supports, steps: Range<usize>, num: usize) {
        check_windows(chain, supports, &steps, num);
        let paths = all_paths(chain, supports, &Stretch::whole(steps.clone()));
        let most = paths.iter().fold(f64::NEG_INFINITY, |most, path| most.max(path.1));
        let mut found = Paths::default();
        let mut pairs = PairSums::new(num, true);
        let whole = Stretch::whole(steps.clone());
        let log_norm = found.smooth(chain, supports, &whole, Some(&mut pairs));
        let mut best = Vec::new();
        let best_weight = best_path(chain, supports, &whole, &mut best);
        if most == f64::NEG_INFINITY {
            assert_eq!((log_norm, best_weight), (None, None));
            return;
        }
        let sum: f64 = paths.iter().map(|(_, weight)| (weight - most).exp()).sum();
        let expected = most + sum.ln();
        let scale = expected.abs().max(1.0);
        assert!((log_norm.unwrap() - expected).abs() < 1e-12 * scale, "{log_norm:?} and {expected}");
        assert_eq!(found.log_norm(chain, supports, &whole), log_norm);
        assert!((best_weight.unwrap() - most).abs() < 1e-12 * scale);
        let chosen = paths.iter().find(|(path, _)| *path == best).unwrap();
        assert!((chosen.1 - most).abs() < 1e-12 * scale);
        let first = supports.of(steps.start).start;
        let mut shares = vec![0.0; found.share.len()];
        let mut expected_pairs = vec![0.0; num * num];
        for (path, weight) in &paths {
            let q = (weight - expected).exp();
            path.iter().for_each(|e| shares[e - first] += q);
            for pair in path.windows(2) {
                expected_pairs[supports.state(pair[0]) as usize * num + supports.state(pair[1]) as usize] += q;
            }
        }
        shares.iter().zip(&found.share).for_each(|(a, b)| assert!((a - b).abs() < 1e-11, "{a} and {b}"));
        let PairSums::Table(sums) = pairs else { unreachable!() };
        expected_pairs.iter().zip(&sums).for_each(|(a, b)| assert!((a - b).abs() < 1e-10, "{a} and {b}"));
    }

    /// Of a window: own transitions, and the entropy of own steps given the one before them, from sums over all paths.
    fn check_windows(chain: &Chain, supports: &Supports, steps: &Range<usize>, num: usize) {
        let (first, len) = (steps.start, steps.len());
        for (own, begins) in [(0..len.div_ceil(2), true), (len / 3..len, len < 3), (1..len.max(2) - 1, false)] {
            if own.is_empty() || own.end > len {
                continue;
            }
            let own = first + own.start..first + own.end;
            let stretch = Stretch { steps: steps.clone(), own: own.clone(), begins };
            let paths = all_paths(chain, supports, &stretch);
            let most = paths.iter().fold(f64::NEG_INFINITY, |most, path| most.max(path.1));
            let (mut found, mut pairs) = (Paths::default(), PairSums::new(num, true));
            let weight = found.smooth(chain, supports, &stretch, Some(&mut pairs));
            if most == f64::NEG_INFINITY {
                assert_eq!(weight, None);
                continue;
            }
            let norm = most + paths.iter().map(|(_, weight)| (weight - most).exp()).sum::<f64>().ln();
            // q of own steps with the one before them, and of that one alone.
            let before = own.start.max(first + 1) - 1 - first..own.end - first;
            let (mut joint, mut alone) = (std::collections::HashMap::new(), std::collections::HashMap::new());
            let (mut expected, mut expected_pairs) = (0.0, vec![0.0; num * num]);
            for (path, weight) in &paths {
                let q = (weight - norm).exp();
                *joint.entry(path[before.clone()].to_vec()).or_insert(0.0) += q;
                *alone.entry(path[before.start]).or_insert(0.0) += q;
                let state = |step: usize| supports.state(path[step - first]);
                let mut sum: f64 = own.clone().map(|step| supports.log_lik[path[step - first]]).sum();
                for step in own.clone().filter(|&step| step > first) {
                    sum += chain.log_weight(state(step - 1), state(step));
                    expected_pairs[state(step - 1) as usize * num + state(step) as usize] += q;
                }
                sum += if own.start == first { chain.log_first(begins)[state(first) as usize] } else { 0.0 };
                expected += if q > 0.0 { q * sum } else { 0.0 };
            }
            let entropy = |sums: Vec<f64>| -> f64 { sums.iter().filter(|q| **q > 0.0).map(|q| -q * q.ln()).sum() };
            let of_before = if own.start == first { 0.0 } else { entropy(alone.into_values().collect()) };
            let expected = expected + entropy(joint.into_values().collect()) - of_before;
            let (weight, scale) = (weight.unwrap(), most.abs().max(1.0));
            assert!((weight - expected).abs() < 1e-10 * scale, "{weight} and {expected}, {stretch:?}");
            let PairSums::Table(sums) = pairs else { unreachable!() };
            expected_pairs.iter().zip(&sums).for_each(|(a, b)| assert!((a - b).abs() < 1e-10, "{a} and {b}"));
        }
    }

    /// Steps so far apart in likelihood that no numbers but logarithms tell them apart.
    #[test]
    fn what_numbers_cannot_hold_logarithms_do() {
        let mut counts = ChainCounts { start: vec![1.0; 3], ..ChainCounts::zeros(3) };
        let mut sums = PairSums::new(3, true);
        [(0, 0), (0, 1), (1, 2), (2, 0)].into_iter().for_each(|(j, k)| sums.add(3, j, k, 1.0));
        sums.into_counts(3, &mut counts);
        let prior = ChainPrior { alpha: 1.0, stickiness: 0.0 };
        let chain = Chain::estimate(Estimate::MaxLikelihood, prior, &counts);
        let mut supports = Supports::default();
        // The only state that the second step may be in follows the worse of the first step's.
        let (j, other, k) = (0, 1, 2);
        assert!(chain.weight(j, k) == 0.0 && chain.weight(other, k) > 0.0);
        let mut first = [(j, 0.0), (other, -5000.0)];
        first.sort_by_key(|entry| entry.0);
        supports.push(first.into_iter());
        supports.push([(k, 0.0)].into_iter());
        check(&chain, &supports, 0..2, 3);
    }

    #[test]
    fn nothing_has_no_weight_and_one_step_is_its_start() {
        let mut seed = 5;
        let chain = some_chain(3, Estimate::Posterior, &mut seed);
        let supports = some_supports(3, 4, 3, 1.0, &mut seed);
        let mut paths = Paths::default();
        assert_eq!(paths.smooth(&chain, &supports, &Stretch::whole(2..2), None), Some(0.0));
        assert!(paths.share.is_empty());
        check(&chain, &supports, 1..2, 3);
    }
}
