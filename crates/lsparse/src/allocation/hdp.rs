//! The topics of documents under a hierarchical Dirichlet process: alpha_k = alpha beta_k, where beta is a stick that
//! all documents share, beta_k = u_k prod_{j<k} (1 - u_j) with u_k ~ Beta(1, gamma).
//!
//! What is remembered of batches bounds their allocation term by constant + sum_k b_k log alpha_k - (s + e_k) alpha_k
//! under any alphas (`alpha_bound`), which is linear in log beta and beta; both have expectations in closed form under
//! beta distributions of the u_k. So the bound of `hughes2015reliable` is needed no more: that of the batches is integrated
//! over q(u) as it stands, and without the e_k (documents with less than one token of a topic) the best q(u_k) is
//! Beta(1 + b_k, gamma + sum of the b_j that come later). A topic that nobody has costs nothing, so that the bound compares
//! one K with another; K fixed is the same with a stick that ends after K.

use lsparse_kernels::{digamma_slice, ln_gamma_slice};

use super::sticks::{LEAST_GAMMA, MOST_GAMMA, best_gamma};

/// Sweeps over the sticks at most, and what the last of them gains at most, as a share.
const MOST_SWEEPS: usize = 20;
const REST: f64 = 1e-11;

/// What is left of the allocation term of documents, besides its constant: b_k, e_k and s.
#[derive(Clone, Copy, Debug)]
pub struct Tables<'a> {
    /// b_k, expected tables of topic k in a restaurant a document.
    pub tables: &'a [f64],
    /// e_k.
    pub slopes: &'a [f64],
    /// s.
    pub slope: f64,
}

/// The posterior of the stick that is best for what documents say.
#[derive(Clone, Debug, PartialEq)]
pub struct Stick {
    /// Topics in the order in which they are broken off: the one with most tables first, which is the best order.
    order: Vec<usize>,
    /// q(u) = Beta(ones, rests), in that order.
    ones: Vec<f64>,
    rests: Vec<f64>,
    /// Concentration of the stick.
    pub gamma: f64,
    /// Whether it was learned, under a prior Gamma(1, 1).
    learned: bool,
}

impl Stick {
    /// The stick that maximises the bound, with documents of concentration alpha; gamma is learned where none is given.
    pub fn best(alpha: f64, gamma: Option<f64>, said: Tables<'_>) -> Self {
        let tables = said.tables;
        let mut order: Vec<usize> = (0..tables.len()).collect();
        order.sort_by(|&i, &j| tables[j].total_cmp(&tables[i]).then(i.cmp(&j)));
        let (ones, rests) = (vec![1.0; order.len()], vec![1.0; order.len()]);
        let mut stick = Stick { order, ones, rests, gamma: gamma.unwrap_or(1.0), learned: gamma.is_none() };
        if stick.learned {
            stick.settle_gamma(tables);
        }
        stick.break_plainly(tables);
        stick.settle(alpha, said);
        stick
    }

    /// The same where documents say a little else of as many topics: sweeps go on from what this one has of each.
    pub fn moved(&self, alpha: f64, said: Tables<'_>) -> Self {
        let tables = said.tables;
        let mut places = vec![0; tables.len()];
        self.order.iter().enumerate().for_each(|(i, &k)| places[k] = i);
        let mut order = self.order.clone();
        order.sort_by(|&i, &j| tables[j].total_cmp(&tables[i]).then(i.cmp(&j)));
        let of = |of: &[f64]| order.iter().map(|&k| of[places[k]]).collect::<Vec<f64>>();
        let (ones, rests) = (of(&self.ones), of(&self.rests));
        let mut stick = Stick { order, ones, rests, ..*self };
        stick.settle(alpha, said);
        stick
    }

    /// Sweep until the bound rests.
    fn settle(&mut self, alpha: f64, said: Tables<'_>) {
        let mut before = self.term(alpha, said);
        for _ in 0..MOST_SWEEPS {
            self.sweep(alpha, said);
            if self.learned {
                // d/d gamma of sum_k log gamma + (gamma - 1) E[log(1 - u_k)] - gamma
                self.gamma = (self.ones.len() as f64 / (1.0 - self.log_rests())).clamp(LEAST_GAMMA, MOST_GAMMA);
            }
            let now = self.term(alpha, said);
            if now - before <= REST * before.abs() {
                break;
            }
            before = now;
        }
    }

    /// gamma where there are no slopes; the sweeps go on from here.
    fn settle_gamma(&mut self, tables: &[f64]) {
        let mut left: Vec<f64> = self.order.iter().map(|&k| tables[k]).collect();
        (1..left.len()).rev().for_each(|i| left[i - 1] += left[i]);
        self.gamma = best_gamma(&left);
    }

    /// The best q(u) where there are no slopes.
    fn break_plainly(&mut self, tables: &[f64]) {
        let mut after = 0.0;
        for i in (0..self.order.len()).rev() {
            (self.ones[i], self.rests[i]) = (1.0 + tables[self.order[i]], self.gamma + after);
            after += tables[self.order[i]];
        }
    }

    fn mean(&self, i: usize) -> f64 {
        self.ones[i] / (self.ones[i] + self.rests[i])
    }

    /// sum_k `E[log(1 - u_k)]`.
    fn log_rests(&self) -> f64 {
        let both = self.ones.iter().zip(&self.rests).map(|(a, b)| a + b);
        let mut psi: Vec<f64> = self.rests.iter().copied().chain(both).collect();
        digamma_slice(&mut psi);
        let (rests, both) = psi.split_at(self.rests.len());
        rests.iter().zip(both).map(|(rest, both)| rest - both).sum()
    }

    /// Bring every q(u_k) nearer to its best under the others; the bound never falls.
    fn sweep(&mut self, alpha: f64, said: Tables<'_>) {
        let num = self.order.len();
        // sum_{j>k} e_j E[beta_j], as a share of what is left of the stick after k.
        let mut later = vec![0.0; num];
        for i in (1..num).rev() {
            let (mean, e) = (self.mean(i), said.slopes[self.order[i]]);
            later[i - 1] = e * mean + (1.0 - mean) * later[i];
        }
        let mut after: f64 = said.tables.iter().sum();
        let mut left = 1.0;
        for i in 0..num {
            let k = self.order[i];
            after -= said.tables[k];
            let plain = (1.0 + said.tables[k], self.gamma + after.max(0.0));
            let weight = alpha * left * (said.slopes[k] - later[i]);
            (self.ones[i], self.rests[i]) = tilted((self.ones[i], self.rests[i]), plain, weight);
            left *= 1.0 - self.mean(i);
        }
    }

    /// `E[beta_k]` of each topic.
    pub fn shares(&self) -> Vec<f64> {
        let mut shares = vec![0.0; self.order.len()];
        let mut left = 1.0;
        for (i, &k) in self.order.iter().enumerate() {
            shares[k] = left * self.mean(i);
            left *= 1.0 - self.mean(i);
        }
        shares
    }

    /// The allocation term of documents but for its constant, with the prior and the entropy of the stick:
    /// sum_k b_k `E[log alpha_k]` - (s + e_k) `E[alpha_k]` - s `E[alpha_rest]` + `E[log p(u)]` - `E[log q(u)]`, and
    /// log p(gamma) where it is learned.
    pub fn term(&self, alpha: f64, said: Tables<'_>) -> f64 {
        let all: f64 = said.tables.iter().sum();
        let mut term = all * alpha.ln() - said.slope * alpha - if self.learned { self.gamma } else { 0.0 };
        term += self.order.len() as f64 * self.gamma.ln();
        // digamma and ln gamma of a, of b and of a + b.
        let both = self.ones.iter().zip(&self.rests).map(|(a, b)| a + b);
        let mut psi: Vec<f64> = self.ones.iter().chain(&self.rests).copied().chain(both).collect();
        let mut log = psi.clone();
        digamma_slice(&mut psi);
        ln_gamma_slice(&mut log);
        let num = self.order.len();
        let mut after = all;
        let mut left = 1.0;
        for (i, &k) in self.order.iter().enumerate() {
            after -= said.tables[k];
            let plain = (1.0 + said.tables[k], self.gamma + after.max(0.0));
            term += (plain.0 - self.ones[i]) * (psi[i] - psi[2 * num + i]);
            term += (plain.1 - self.rests[i]) * (psi[num + i] - psi[2 * num + i]);
            term += log[i] + log[num + i] - log[2 * num + i];
            term -= alpha * said.slopes[k] * left * self.mean(i);
            left *= 1.0 - self.mean(i);
        }
        term
    }
}

/// (A - 1) `E[log u]` + (B - 1) `E[log(1 - u)]` and the entropy of u ~ Beta(a, b), where (A, B) is `plain`.
fn of_stick((a, b): (f64, f64), plain: (f64, f64)) -> f64 {
    // (Several at once cost what one does.)
    let (mut psi, mut log) = ([a, b, a + b], [a, b, a + b]);
    digamma_slice(&mut psi);
    ln_gamma_slice(&mut log);
    (plain.0 - a) * (psi[0] - psi[2]) + (plain.1 - b) * (psi[1] - psi[2]) + log[0] + log[1] - log[2]
}

/// The q(u) = Beta(a, b) that maximises `of_stick` less `weight` x `E[u]`, from what it was: natural gradients, halved
/// until the value rises.
fn tilted(start: (f64, f64), plain: (f64, f64), weight: f64) -> (f64, f64) {
    let value = |(a, b): (f64, f64)| of_stick((a, b), plain) - weight * a / (a + b);
    let mut now = start;
    // (The next sweep goes on from where this ends.)
    for _ in 0..STEPS {
        let (a, b) = now;
        // The gradient is F (plain - (a, b)) - weight grad E[u], F the Fisher information: the step is F^-1 of it.
        let (i, j, both) = (trigamma(a), trigamma(b), trigamma(a + b));
        let sum = (a + b) * (a + b);
        let (up, down) = (b / sum, -a / sum);
        let det = (i - both) * (j - both) - both * both;
        let step = (((j - both) * up + both * down) / det, (both * up + (i - both) * down) / det);
        let change = (plain.0 - weight * step.0 - a, plain.1 - weight * step.1 - b);
        if change.0.abs() <= NEAR * a && change.1.abs() <= NEAR * b {
            break;
        }
        // Documents that have next to nothing of a topic have slopes that ask for steps far beyond what there is.
        let within = |v: f64, change: f64| if change < 0.0 { v / -change } else { 1.0 };
        let longest = within(a, change.0).min(within(b, change.1)).min(1.0);
        let (mut size, at) = (1.0, value(now));
        let better = loop {
            let next = (a + size * change.0, b + size * change.1);
            let value = if next.0 > 0.0 && next.1 > 0.0 { value(next) } else { f64::NEG_INFINITY };
            if value > at {
                break Some(next);
            }
            size *= 0.5;
            if size < 1e-3 * longest {
                break None;
            }
        };
        let Some(better) = better else { break };
        now = better;
    }
    now
}

/// Steps of a stick in one sweep.
const STEPS: usize = 1;

/// A step that is no more than this share of where it starts is none.
const NEAR: f64 = 1e-9;

/// psi'(x).
fn trigamma(mut x: f64) -> f64 {
    let mut sum = 0.0;
    while x < 12.0 {
        sum += 1.0 / (x * x);
        x += 1.0;
    }
    let y = 1.0 / (x * x);
    // 1/x + 1/(2 x^2) + sum of B_2n / x^(2n + 1)
    sum + 0.5 * y
        + (1.0 + y * (1.0 / 6.0 - y * (1.0 / 30.0 - y * (1.0 / 42.0 - y * (1.0 / 30.0 - y * 5.0 / 66.0))))) / x
}

#[cfg(test)]
mod tests {
    use lsparse_kernels::digamma;

    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    const SAID: Tables<'static> = Tables { tables: &[4.0, 9.5, 2.5, 0.0], slopes: &[0.7, 0.2, 3.0, 1.5], slope: 6.0 };

    /// The integral of f over (0, 1), by the midpoint rule after x = s^2 (3 - 2 s), which is flat at both ends.
    fn integral(f: impl Fn(f64) -> f64) -> f64 {
        const STEPS: usize = 100_000;
        let of = |i: usize| {
            let s = (i as f64 + 0.5) / STEPS as f64;
            f(s * s * (3.0 - 2.0 * s)) * 6.0 * s * (1.0 - s)
        };
        (0..STEPS).map(of).sum::<f64>() / STEPS as f64
    }

    #[test]
    fn trigamma_is_the_slope_of_digamma() {
        assert!((trigamma(1.0) - std::f64::consts::PI.powi(2) / 6.0).abs() < 1e-14);
        for x in [0.02, 0.3, 1.0, 2.5, 11.9, 40.0, 3e4] {
            let h = 1e-5 * x;
            let slope = (digamma(x + h) - digamma(x - h)) / (2.0 * h);
            assert!((trigamma(x) / slope - 1.0).abs() < 1e-7, "{x}");
        }
    }

    #[test]
    fn the_term_is_what_integrals_over_the_stick_give() {
        let (alpha, gamma) = (0.8, 1.6);
        let stick = Stick::best(alpha, Some(gamma), SAID);
        // q(u) and the expectations of each stick, number by number.
        let mut expected = -alpha * SAID.slope;
        let (mut log_left, mut left) = (0.0, 1.0);
        for (i, &k) in stick.order.iter().enumerate() {
            let (a, b) = (stick.ones[i], stick.rests[i]);
            let plain = |u: f64| u.powf(a - 1.0) * (1.0 - u).powf(b - 1.0);
            let norm = integral(plain);
            let mean = |f: &dyn Fn(f64) -> f64| integral(|u| plain(u) * f(u)) / norm;
            let prior = |u: f64| gamma.ln() + (gamma - 1.0) * (1.0 - u).ln();
            expected += SAID.tables[k] * (alpha.ln() + log_left + mean(&f64::ln));
            expected -= alpha * SAID.slopes[k] * left * mean(&|u| u);
            expected += mean(&|u| prior(u) - (plain(u) / norm).ln());
            log_left += mean(&|u| (1.0 - u).ln());
            left *= 1.0 - mean(&|u| u);
        }
        let found = stick.term(alpha, SAID);
        assert!((found - expected).abs() < 1e-4, "{found} against {expected}");
        assert!((stick.shares().iter().sum::<f64>() + left - 1.0).abs() < 1e-6);
    }

    #[test]
    fn no_stick_near_the_best_is_better_and_without_slopes_it_is_known() {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        for gamma in [Some(1.3), None] {
            let best = Stick::best(0.5, gamma, SAID);
            let highest = best.term(0.5, SAID);
            for _ in 0..200 {
                let mut other = best.clone();
                let mut near = |value: f64| value * (1.0 + 0.2 * (rng.random::<f64>() - 0.5));
                other.ones.iter_mut().chain(&mut other.rests).for_each(|v| *v = near(*v));
                if other.learned {
                    other.gamma = near(other.gamma);
                }
                assert!(other.term(0.5, SAID) <= highest + 1e-9 * highest.abs());
            }
        }
        let plain = Tables { slopes: &[0.0; 4], ..SAID };
        let stick = Stick::best(0.5, Some(2.0), plain);
        assert_eq!(stick.order, [1, 0, 2, 3]);
        let close = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-9);
        assert!(close(&stick.ones, &[10.5, 5.0, 3.5, 1.0]) && close(&stick.rests, &[8.5, 4.5, 2.0, 2.0]), "{stick:?}");
        // No other order has a higher bound.
        for order in [[0, 1, 2, 3], [1, 2, 0, 3], [3, 2, 0, 1], [2, 1, 3, 0]] {
            let mut other = stick.clone();
            other.order = order.to_vec();
            other.break_plainly(plain.tables);
            assert!(other.term(0.5, plain) < stick.term(0.5, plain));
        }
    }

    #[test]
    fn a_stick_that_goes_on_from_another_comes_to_the_best() {
        let said = Tables { tables: &[4.5, 3.0, 8.0, 0.0], slopes: &[0.9, 0.4, 2.0, 0.0], slope: 6.0 };
        for gamma in [Some(1.3), None] {
            let (moved, best) = (Stick::best(0.5, gamma, SAID).moved(0.5, said), Stick::best(0.5, gamma, said));
            let terms = [&moved, &best].map(|stick| stick.term(0.5, said));
            assert!((terms[0] - terms[1]).abs() < 1e-6 * terms[1].abs(), "{terms:?}");
            assert_eq!(moved.order, best.order);
        }
    }

    /// Topics that nobody has change nothing, where gamma is as given: bounds compare one K with another.
    /// Documents that have next to nothing of a topic say that its share is next to nothing, in as many sweeps as others take.
    #[test]
    fn slopes_that_are_huge_move_the_stick() {
        let said = Tables { tables: &[100.0, 50.0], slopes: &[0.0, 1.6e6], slope: 10.0 };
        let stick = Stick::best(0.5, Some(1.0), said);
        let share = stick.shares()[1];
        assert!(0.5 * 1.6e6 * share < 1000.0 && share > 0.0, "{share}");
    }

    #[test]
    fn topics_that_nobody_has_cost_nothing() {
        let (few, more) = (Tables { tables: &[5.0, 3.0], slopes: &[0.4, 0.0], slope: 2.0 }, [5.0, 3.0, 0.0, 0.0]);
        let more = Tables { tables: &more, slopes: &[0.4, 0.0, 0.0, 0.0], slope: 2.0 };
        let term = |said: Tables<'_>| Stick::best(0.5, Some(1.5), said).term(0.5, said);
        assert!((term(few) - term(more)).abs() < 1e-9);
    }
}
