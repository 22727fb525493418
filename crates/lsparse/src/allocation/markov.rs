//! A Markov chain over K states: where sequences begin and which state follows which, each a Dirichlet posterior or a point
//! estimate.
//!
//! start ~ Dirichlet(alpha/K), and the row of transitions out of state j ~ Dirichlet(alpha/K + stickiness [k = j]). Most
//! pairs of states never follow each other: rows hold those that do, and one number stands for all others.

use std::ops::Range;

use lsparse_kernels::{add_table_rows, digamma, ln_gamma};

use crate::allocation::Frequencies;
use crate::allocation::chain_counts::ChainCounts;
use crate::allocation::dirichlet::allocation_term;
use crate::likelihood::Estimate;

/// The prior of a chain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChainPrior {
    /// Concentration of the start and of each row of transitions.
    pub alpha: f64,
    /// Pseudo-count of staying in a state.
    pub stickiness: f64,
}

/// States that follow a state and are remembered as those that do so most.
const LEADING: usize = 8;

/// Up to so many states the weights of all transitions are a table: 8 MB of them.
const MOST_DENSE: usize = 1024;

/// A chain as paths are weighed by it: start and transitions as exp of what the objective has of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Chain {
    /// exp `E[log start_k]`.
    pub start: Vec<f64>,
    /// `E[log start_k]`, or log start_k.
    pub log_start: Vec<f64>,
    /// How often a step in the middle of a sequence is in each state, and the logarithm: what a window of a long sequence
    /// begins with. Nothing is impossible there.
    amid: Vec<f64>,
    log_amid: Vec<f64>,
    ends: Vec<usize>,
    to: Vec<u32>,
    /// exp `E[log A_jk]` of the pairs that are held.
    weight: Vec<f64>,
    log_weight: Vec<f64>,
    /// The same of all other pairs of a row, none larger than those that are held.
    rest: Vec<f64>,
    log_rest: Vec<f64>,
    /// The weights of all pairs, where states are few.
    table: Option<Vec<f64>>,
    /// Every state.
    all: Vec<u32>,
    /// The states that follow each state most often, up to [`LEADING`] of them, where that is asked for.
    leading: Vec<Vec<u32>>,
}

/// What of a chain is wanted.
#[derive(Clone, Copy, PartialEq)]
enum Weights {
    /// exp E[log A], which the local step goes by.
    Expected,
    /// `E[A]`, which the next state is predicted by.
    Mean,
}

impl Chain {
    /// The best chain for these counts: `E[log A]` of a posterior, log A of a point estimate.
    pub fn estimate(estimate: Estimate, prior: ChainPrior, counts: &ChainCounts) -> Self {
        Chain::of(estimate, prior, counts, Weights::Expected)
    }

    /// The chain that predicts: `E[A]` of a posterior, and the same as [`estimate`](Self::estimate) of a point estimate.
    pub fn predictive(estimate: Estimate, prior: ChainPrior, counts: &ChainCounts) -> Self {
        Chain::of(estimate, prior, counts, Weights::Mean)
    }

    fn of(estimate: Estimate, prior: ChainPrior, counts: &ChainCounts, weights: Weights) -> Self {
        let num = counts.num_states();
        let frequencies = Frequencies::estimate(estimate, prior.alpha, &counts.start);
        let (log_start, start): (Vec<f64>, Vec<f64>) = match weights {
            Weights::Expected => (frequencies.log_pi.clone(), frequencies.log_pi.iter().map(|l| l.exp()).collect()),
            Weights::Mean => (frequencies.pi.iter().map(|p| p.ln()).collect(), frequencies.pi.clone()),
        };
        // Without any sequence maximum likelihood has no opinion.
        let unknown = start.iter().any(|p| p.is_nan());
        let start = if unknown { vec![1.0 / num as f64; num] } else { start };
        let log_start = if unknown { vec![-(num as f64).ln(); num] } else { log_start };
        // Transitions out of a state, and one more.
        let left = |j: usize| 1.0 + counts.spread[j] + counts.count[counts.row(j)].iter().sum::<f64>();
        let all: f64 = (0..num).map(left).sum();
        let amid: Vec<f64> = (0..num).map(|j| left(j) / all).collect();
        let mut chain = Chain {
            start,
            log_start,
            log_amid: amid.iter().map(|p| p.ln()).collect(),
            amid,
            ends: Vec::with_capacity(num),
            to: Vec::with_capacity(counts.to.len() + num),
            weight: Vec::new(),
            log_weight: Vec::with_capacity(counts.to.len() + num),
            rest: Vec::new(),
            log_rest: Vec::with_capacity(num),
            table: None,
            all: (0..num as u32).collect(),
            leading: Vec::new(),
        };
        for j in 0..num {
            let row = Row::new(estimate, prior, counts, j);
            row.each(counts, |k, theta| {
                chain.to.push(k);
                chain.log_weight.push(row.log(theta, weights));
            });
            chain.ends.push(chain.to.len());
            chain.log_rest.push(row.log(row.rest, weights));
        }
        chain.weight = chain.log_weight.iter().map(|log| log.exp()).collect();
        chain.rest = chain.log_rest.iter().map(|log| log.exp()).collect();
        if num <= MOST_DENSE {
            let mut table = vec![0.0; num * num];
            for (j, row) in table.chunks_exact_mut(num.max(1)).enumerate() {
                row.fill(chain.rest[j]);
                chain.held(j).for_each(|(k, weight)| row[k as usize] = weight);
            }
            chain.table = Some(table);
        }
        chain
    }

    /// K.
    pub fn num_states(&self) -> usize {
        self.start.len()
    }

    /// What a first step is predicted by: where sequences begin, or where they are in their middle.
    pub fn first(&self, begins: bool) -> &[f64] {
        if begins { &self.start } else { &self.amid }
    }

    /// Its logarithm.
    pub fn log_first(&self, begins: bool) -> &[f64] {
        if begins { &self.log_start } else { &self.log_amid }
    }

    fn row(&self, j: usize) -> Range<usize> {
        j.checked_sub(1).map_or(0, |before| self.ends[before])..self.ends[j]
    }

    /// The states that are known to follow state j, ascending, and their weights.
    pub fn held(&self, j: usize) -> impl Iterator<Item = (u32, f64)> + '_ {
        self.to[self.row(j)].iter().copied().zip(self.weight[self.row(j)].iter().copied())
    }

    /// The same with the logarithms of the weights.
    pub fn held_logs(&self, j: usize) -> impl Iterator<Item = (u32, f64)> + '_ {
        self.to[self.row(j)].iter().copied().zip(self.log_weight[self.row(j)].iter().copied())
    }

    /// The same chain that knows which states follow each state most often.
    pub fn with_leading(mut self) -> Self {
        self.leading = (0..self.num_states()).map(|j| self.leading_of(j)).collect();
        self
    }

    fn leading_of(&self, j: usize) -> Vec<u32> {
        let mut found: Vec<(u32, f64)> = self.held(j).collect();
        found.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        found.truncate(LEADING);
        found.into_iter().map(|(k, _)| k).collect()
    }

    /// The states that follow state j most often, the most frequent first; none where that was not asked for.
    pub fn leading(&self, j: u32) -> &[u32] {
        self.leading.get(j as usize).map_or(&[], |leading| leading)
    }

    /// The weight of every state that is not known to follow state j.
    pub fn rest(&self, j: usize) -> f64 {
        self.rest[j]
    }

    /// Its logarithm.
    pub fn log_rest(&self, j: usize) -> f64 {
        self.log_rest[j]
    }

    /// The weights of all transitions, row by row, where states are few.
    pub fn table(&self) -> Option<&[f64]> {
        self.table.as_deref()
    }

    /// The weight of one transition.
    #[inline]
    pub fn weight(&self, from: u32, to: u32) -> f64 {
        let (j, num) = (from as usize, self.start.len());
        match &self.table {
            Some(table) => table[j * num + to as usize],
            None => {
                let row = self.row(j);
                self.to[row.clone()].binary_search(&to).map_or(self.rest[j], |at| self.weight[row.start + at])
            }
        }
    }

    /// The weights of the transitions between some states, both ascending, row by row.
    pub fn weights_between(&self, from: &[u32], to: &[u32], out: &mut [f64]) {
        for (&j, out) in from.iter().zip(out.chunks_exact_mut(to.len().max(1))) {
            self.each_weight(j, to, |n, weight| out[n] = weight);
        }
    }

    /// The weight of the transition to each of some states, ascending, with its place among them.
    #[inline]
    pub fn each_weight(&self, from: u32, to: &[u32], mut visit: impl FnMut(usize, f64)) {
        let (j, num) = (from as usize, self.start.len());
        if let Some(table) = &self.table {
            let row = &table[j * num..(j + 1) * num];
            return to.iter().enumerate().for_each(|(n, &k)| visit(n, row[k as usize]));
        }
        let (row, rest) = (self.row(j), self.rest[j]);
        let (held, weights) = (&self.to[row.clone()], &self.weight[row]);
        let mut at = 0;
        // Both ascend: step by step where rows are short, by halves where they are long.
        let short = held.len() <= 4 * to.len();
        for (n, &k) in to.iter().enumerate() {
            match short {
                true => at += held[at..].iter().take_while(|&&other| other < k).count(),
                false => at += held[at..].partition_point(|&other| other < k),
            }
            visit(n, if held.get(at) == Some(&k) { weights[at] } else { rest });
        }
    }

    /// Its logarithm, which has no smallest number.
    pub fn log_weight(&self, from: u32, to: u32) -> f64 {
        let row = self.row(from as usize);
        let found = self.to[row.clone()].binary_search(&to);
        found.map_or(self.log_rest[from as usize], |at| self.log_weight[row.start + at])
    }

    /// The weights of all transitions out of a state.
    pub fn write_row(&self, j: usize, out: &mut [f64]) {
        out.fill(self.rest[j]);
        self.held(j).for_each(|(k, weight)| out[k as usize] = weight);
    }

    /// The same from the table, or else by way of a buffer.
    pub fn row_weights<'a>(&'a self, j: usize, buffer: &'a mut Vec<f64>) -> &'a [f64] {
        let num = self.num_states();
        if let Some(table) = &self.table {
            return &table[j * num..(j + 1) * num];
        }
        buffer.resize(num, 0.0);
        self.write_row(j, buffer);
        buffer
    }

    /// `out[k] = sum_j share_j A_jk` over these states j.
    pub fn predict(&self, states: &[u32], shares: &[f64], out: &mut [f64]) {
        if let Some(table) = &self.table {
            out.fill(0.0);
            add_table_rows(table, self.num_states(), states, shares, out);
            return;
        }
        let states = || states.iter().copied().zip(shares.iter().copied());
        out.fill(states().map(|(j, share)| share * self.rest[j as usize]).sum());
        for (j, share) in states() {
            let rest = self.rest[j as usize];
            self.held(j as usize).for_each(|(k, weight)| out[k as usize] += share * (weight - rest));
        }
    }

    /// The same over all states.
    pub fn predict_all(&self, shares: &[f64], out: &mut [f64]) {
        self.predict(&self.all, shares, out);
    }

    /// sum of counts times the logarithms that paths were weighed by: what the start and transitions of these counts have
    /// in the expected log weight of paths.
    pub fn log_weight_of(&self, counts: &ChainCounts) -> f64 {
        let product = |count: f64, log: f64| if count > 0.0 { count * log } else { 0.0 };
        let start: f64 = counts.start.iter().zip(&self.log_start).map(|(&n, &log)| product(n, log)).sum();
        let row = |j: usize| -> f64 {
            let mut at = self.row(j);
            let mut sum = 0.0;
            for n in counts.row(j) {
                // Both ascend.
                while at.start < at.end && self.to[at.start] < counts.to[n] {
                    at.start += 1;
                }
                let held = at.start < at.end && self.to[at.start] == counts.to[n];
                let log = if held { self.log_weight[at.start] } else { self.log_rest[j] };
                sum += product(counts.count[n], log);
            }
            sum
        };
        start + (0..self.num_states()).map(row).sum::<f64>()
    }
}

/// A row of transitions: what its counts and prior come to.
struct Row {
    estimate: Estimate,
    j: usize,
    num: usize,
    /// The pseudo-count of each state, and that of staying besides.
    pseudo: f64,
    sticky: f64,
    /// Counts to each state that are not held one by one.
    spread: f64,
    /// Counts and pseudo-counts of the row.
    total: f64,
    /// The parameter of every state that is not held.
    rest: f64,
}

impl Row {
    fn new(estimate: Estimate, prior: ChainPrior, counts: &ChainCounts, j: usize) -> Self {
        let num = counts.num_states();
        let has_prior = estimate != Estimate::MaxLikelihood;
        let pseudo = if has_prior { prior.alpha / num as f64 } else { 0.0 };
        let sticky = if has_prior { prior.stickiness } else { 0.0 };
        let spread = counts.spread[j] / num as f64;
        let own: f64 = counts.count[counts.row(j)].iter().sum();
        let total = own + counts.spread[j] + pseudo * num as f64 + sticky;
        Row { estimate, j, num, pseudo, sticky, spread, total, rest: spread + pseudo }
    }

    /// Every state whose parameter is not that of the rest, ascending, with its own.
    fn each(&self, counts: &ChainCounts, mut visit: impl FnMut(u32, f64)) {
        let own = self.j as u32;
        let mut waits = self.sticky > 0.0;
        for at in counts.row(self.j) {
            let k = counts.to[at];
            if waits && own < k {
                visit(own, self.rest + self.sticky);
            }
            waits &= own > k;
            let sticky = if k == own { self.sticky } else { 0.0 };
            visit(k, counts.count[at] + self.rest + sticky);
        }
        if waits {
            visit(own, self.rest + self.sticky);
        }
    }

    fn log(&self, theta: f64, weights: Weights) -> f64 {
        match (self.estimate, weights) {
            // E[log A_jk] = psi(theta_jk) - psi(sum theta_j)
            (Estimate::Posterior, Weights::Expected) => digamma(theta) - digamma(self.total),
            // A row that nothing is known of.
            _ if self.total == 0.0 => -(self.num as f64).ln(),
            _ => (theta / self.total).ln(),
        }
    }

    /// Its share of the objective at its best.
    fn objective(&self, counts: &ChainCounts) -> f64 {
        let (mut held, mut sum) = (0, 0.0);
        let prior_of = |k: u32| self.pseudo + if k as usize == self.j { self.sticky } else { 0.0 };
        match self.estimate {
            Estimate::Posterior => {
                let term = |theta: f64, prior: f64| ln_gamma(theta) - ln_gamma(prior);
                self.each(counts, |k, theta| (held, sum) = (held + 1, sum + term(theta, prior_of(k))));
                let others = (self.num - held) as f64;
                let rest = if self.spread > 0.0 && others > 0.0 { others * term(self.rest, self.pseudo) } else { 0.0 };
                let prior = self.pseudo * self.num as f64 + self.sticky;
                sum + rest + ln_gamma(prior) - ln_gamma(self.total)
            }
            // The prior's pseudo-counts are raised by one, so that the mode always exists.
            Estimate::Map => {
                let term = |theta: f64, prior: f64| theta * (theta / self.total).ln() - ln_gamma(prior + 1.0);
                self.each(counts, |k, theta| (held, sum) = (held + 1, sum + term(theta, prior_of(k))));
                let rest = (self.num - held) as f64 * term(self.rest, self.pseudo);
                let prior = (self.pseudo + 1.0) * self.num as f64 + self.sticky;
                sum + rest + ln_gamma(prior)
            }
            Estimate::MaxLikelihood => {
                let term = |theta: f64| if theta > 0.0 { theta * (theta / self.total).ln() } else { 0.0 };
                self.each(counts, |_, theta| (held, sum) = (held + 1, sum + term(theta)));
                sum + (self.num - held) as f64 * term(self.rest)
            }
        }
    }
}

/// The allocation term of the objective at the chain that is best for these counts: `E[log p(z | start, A)]` and the priors,
/// less the posterior's `E[log q]`.
pub fn chain_term(estimate: Estimate, prior: ChainPrior, counts: &ChainCounts) -> f64 {
    let row = |j: usize| Row::new(estimate, prior, counts, j).objective(counts);
    allocation_term(estimate, prior.alpha, &counts.start) + (0..counts.num_states()).map(row).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::super::chain_counts::tests::{full, some_counts};
    use super::*;

    const PRIOR: ChainPrior = ChainPrior { alpha: 1.5, stickiness: 0.7 };

    #[test]
    fn rows_are_those_of_dirichlets_written_out() {
        let counts = some_counts();
        for estimate in [Estimate::Posterior, Estimate::Map, Estimate::MaxLikelihood] {
            let chain = Chain::estimate(estimate, PRIOR, &counts);
            let mean = Chain::predictive(estimate, PRIOR, &counts);
            for (j, row) in full(&counts).into_iter().enumerate() {
                let prior = |k: usize| match estimate {
                    Estimate::MaxLikelihood => 0.0,
                    _ => 0.5 + if j == k { 0.7 } else { 0.0 },
                };
                let theta: Vec<f64> = row.iter().enumerate().map(|(k, n)| n + prior(k)).collect();
                let total: f64 = theta.iter().sum();
                let mut out = vec![0.0; 3];
                mean.write_row(j, &mut out);
                assert!((out.iter().sum::<f64>() - 1.0).abs() < 1e-14);
                for k in 0..3u32 {
                    let mean_weight = theta[k as usize] / total;
                    assert!((mean.weight(j as u32, k) - mean_weight).abs() < 1e-15);
                    let expected = match estimate {
                        Estimate::Posterior => digamma(theta[k as usize]) - digamma(total),
                        _ => mean_weight.ln(),
                    };
                    let found = chain.log_weight(j as u32, k);
                    assert!(found == expected || (found - expected).abs() < 1e-13, "{found} and {expected}");
                    assert!((chain.weight(j as u32, k) - expected.exp()).abs() < 1e-14);
                }
            }
        }
    }

    /// With few states there is a table; without it weights and predictions are the same.
    #[test]
    fn a_chain_without_a_table_is_the_same_chain() {
        let chain = Chain::estimate(Estimate::Posterior, PRIOR, &some_counts());
        let sparse = Chain { table: None, ..chain.clone() };
        let (states, shares) = ([0, 2], [0.25, 0.75]);
        let (mut a, mut b) = (vec![0.0; 3], vec![0.0; 3]);
        chain.predict(&states, &shares, &mut a);
        sparse.predict(&states, &shares, &mut b);
        for k in 0..3 {
            assert!((a[k] - b[k]).abs() < 1e-15);
            (0..3).for_each(|j| assert_eq!(chain.weight(j, k as u32), sparse.weight(j, k as u32)));
        }
    }

    /// The term is c_Dir(prior) - c_Dir(posterior) row by row, the log density of the raised prior and the assignments at
    /// the mode, or the log likelihood of the assignments.
    #[test]
    fn the_term_is_that_of_rows_written_out() {
        let ln_c =
            |theta: &[f64]| ln_gamma(theta.iter().sum::<f64>()) - theta.iter().map(|t| ln_gamma(*t)).sum::<f64>();
        let counts = some_counts();
        let rows: Vec<(usize, Vec<f64>)> = full(&counts).into_iter().enumerate().collect();
        for estimate in [Estimate::Posterior, Estimate::Map, Estimate::MaxLikelihood] {
            let row_term = |j: usize, row: &[f64]| -> f64 {
                let prior: Vec<f64> = (0..3).map(|k| 0.5 + if j == k { 0.7 } else { 0.0 }).collect();
                let theta: Vec<f64> = row.iter().zip(&prior).map(|(n, p)| n + p).collect();
                let total: f64 = theta.iter().sum();
                match estimate {
                    Estimate::Posterior => ln_c(&prior) - ln_c(&theta),
                    Estimate::Map => {
                        let raised: Vec<f64> = prior.iter().map(|p| p + 1.0).collect();
                        ln_c(&raised) + theta.iter().map(|t| t * (t / total).ln()).sum::<f64>()
                    }
                    Estimate::MaxLikelihood => {
                        let total: f64 = row.iter().sum();
                        row.iter().filter(|n| **n > 0.0).map(|n| n * (n / total).ln()).sum()
                    }
                }
            };
            let expected = allocation_term(estimate, PRIOR.alpha, &counts.start)
                + rows.iter().map(|(j, row)| row_term(*j, row)).sum::<f64>();
            let found = chain_term(estimate, PRIOR, &counts);
            assert!((found - expected).abs() < 1e-12, "{estimate:?}: {found} and {expected}");
        }
    }
}
