//! Cluster frequencies of a Dirichlet process: pi_k = u_k prod_{j<k} (1 - u_j) with u_k ~ Beta(1, gamma), the posterior of
//! each stick a beta distribution.
//!
//! Clusters are broken off the stick by size, the largest first: of all orders that one has the highest bound (two
//! neighbours differ in ln(gamma + what comes after the first) alone). The order is worked out from the counts whenever it
//! is needed, so that clusters keep their numbers.

use lsparse_kernels::{digamma, ln_gamma};

use super::Frequencies;

/// gamma lies within these bounds where it is learned.
pub(super) const LEAST_GAMMA: f64 = 1e-3;
pub(super) const MOST_GAMMA: f64 = 1e3;

/// Steps to the best gamma at most, and the change of its logarithm that is the last: the term is flat there.
const MOST_STEPS: usize = 60;
const CLOSE: f64 = 1e-10;

/// Clusters from the largest to the smallest, with the count of all that come after each.
fn by_size(counts: &[f64]) -> Vec<(usize, f64)> {
    let mut order: Vec<usize> = (0..counts.len()).collect();
    order.sort_by(|&a, &b| counts[b].total_cmp(&counts[a]).then(a.cmp(&b)));
    let mut after = 0.0;
    let mut sticks: Vec<(usize, f64)> = order
        .into_iter()
        .rev()
        .map(|k| {
            let stick = (k, after);
            after += counts[k];
            stick
        })
        .collect();
    sticks.reverse();
    sticks
}

/// gamma for these counts.
pub(super) fn gamma(given: Option<f64>, counts: &[f64]) -> f64 {
    settle(given, counts, &by_size(counts))
}

/// gamma: as it is given, or the best for these counts under a prior Gamma(1, 1).
fn settle(gamma: Option<f64>, counts: &[f64], sticks: &[(usize, f64)]) -> f64 {
    gamma.unwrap_or_else(|| best_gamma(&sticks.iter().map(|&(k, after)| counts[k] + after).collect::<Vec<f64>>()))
}

/// The best gamma under a prior Gamma(1, 1), u integrated out, for sticks that so much is left of before each: all first.
pub(super) fn best_gamma(left: &[f64]) -> f64 {
    let total = left.first().copied().unwrap_or(0.0);
    // d/d ln gamma of the term, whose sum over sticks telescopes; it falls, so that a root is the maximum.
    let slope = |log: f64| {
        let gamma = log.exp();
        let of_sticks: f64 = left.iter().map(|left| 1.0 / (gamma + left)).sum();
        left.len() as f64 + gamma * (digamma(gamma) - digamma(gamma + total) - of_sticks - 1.0)
    };
    let (mut low, mut high) = (LEAST_GAMMA.ln(), MOST_GAMMA.ln());
    let (mut at_low, mut at_high) = (slope(low), slope(high));
    if at_low <= 0.0 || at_high >= 0.0 {
        return if at_low <= 0.0 { LEAST_GAMMA } else { MOST_GAMMA };
    }
    // Regula falsi, where an end that stays counts half (Illinois).
    let mut rose = None;
    for _ in 0..MOST_STEPS {
        let next = (low * at_high - high * at_low) / (at_high - at_low);
        let value = slope(next);
        let step = if value > 0.0 { next - low } else { high - next };
        if value > 0.0 {
            (low, at_low) = (next, value);
            at_high *= if rose == Some(true) { 0.5 } else { 1.0 };
        } else {
            (high, at_high) = (next, value);
            at_low *= if rose == Some(false) { 0.5 } else { 1.0 };
        }
        rose = Some(value > 0.0);
        if step < CLOSE || high - low < CLOSE {
            break;
        }
    }
    if rose == Some(true) { low.exp() } else { high.exp() }
}

/// `E[log pi_k]` and `E[pi_k]`, the latter as shares of what the clusters have together.
pub(super) fn frequencies(gamma: Option<f64>, counts: &[f64]) -> Frequencies {
    let sticks = by_size(counts);
    let gamma = settle(gamma, counts, &sticks);
    let (mut log_pi, mut pi) = (vec![0.0; counts.len()], vec![0.0; counts.len()]);
    // E[log prod_{j<k} (1 - u_j)], and prod E[1 - u_j].
    let (mut log_left, mut left) = (0.0, 1.0);
    for (k, after) in sticks {
        let (one, rest) = (1.0 + counts[k], gamma + after);
        let psi = digamma(one + rest);
        log_pi[k] = digamma(one) - psi + log_left;
        log_left += digamma(rest) - psi;
        pi[k] = left * one / (one + rest);
        left *= rest / (one + rest);
    }
    let sum: f64 = pi.iter().sum();
    pi.iter_mut().for_each(|p| *p /= sum);
    Frequencies { log_pi, pi }
}

/// `E[log p(z | u)]` + `E[log p(u)]` - `E[log q(u)]` at the best q(u), and log p(gamma) where it is learned:
/// sum_k ln B(1 + N_k, gamma + N_{>k}) - ln B(1, gamma), where the functions of N_{>k} telescope to
/// ln Gamma(gamma) - ln Gamma(gamma + N) - sum_k ln(gamma + N_{>=k}).
pub(super) fn term(gamma: Option<f64>, counts: &[f64]) -> f64 {
    let (learned, sticks) = (gamma.is_none(), by_size(counts));
    let gamma = settle(gamma, counts, &sticks);
    let of = |&(k, after): &(usize, f64)| ln_gamma(1.0 + counts[k]) - (1.0 + (counts[k] + after) / gamma).ln();
    let total: f64 = counts.iter().sum();
    let of_all = ln_gamma(gamma) - ln_gamma(gamma + total);
    sticks.iter().map(of).sum::<f64>() + of_all - if learned { gamma } else { 0.0 }
}

/// What the term of some counts can rise by at most where a few of them become others, of the same sum: without sorting
/// and without a search for gamma.
///
/// The term is concave in ln gamma (its slope falls). So from the gamma that is best before, its best value after is no more
/// than what it is there, and the slope there all the way to the end that it rises to.
pub struct MostRise {
    learned: bool,
    gamma: f64,
    /// Counts from the largest on, with the numbers of their clusters.
    sorted: Vec<(f64, usize)>,
    total: f64,
    /// sum_k ln(gamma + N_{>=k}).
    logs: f64,
    /// psi(gamma) - psi(gamma + N) - 1.
    slope: f64,
}

/// Numbers up to 1e20 whose product has a logarithm.
const PRODUCTS: usize = 8;

impl MostRise {
    pub(super) fn new(gamma: Option<f64>, counts: &[f64]) -> Self {
        let (learned, sticks) = (gamma.is_none(), by_size(counts));
        let gamma = settle(gamma, counts, &sticks);
        let sorted: Vec<(f64, usize)> = sticks.into_iter().map(|(k, _)| (counts[k], k)).collect();
        let total = counts.iter().sum();
        let slope = digamma(gamma) - digamma(gamma + total) - 1.0;
        let (logs, _, _) = Self::left(gamma, total, sorted.iter().map(|of| of.0));
        MostRise { learned, gamma, sorted, total, logs, slope }
    }

    /// sum ln(gamma + left), sum 1/(gamma + left) and the number of sticks for counts from the largest on.
    fn left(gamma: f64, total: f64, counts: impl Iterator<Item = f64>) -> (f64, f64, usize) {
        let (mut left, mut logs, mut inverse, mut product, mut num) = (total, 0.0, 0.0, 1.0f64, 0);
        for count in counts {
            // (Rounding may leave less than nothing.)
            let of_stick = gamma + left.max(0.0);
            (product, inverse, left, num) = (product * of_stick, inverse + 1.0 / of_stick, left - count, num + 1);
            if num % PRODUCTS == 0 {
                (logs, product) = (logs + product.ln(), 1.0);
            }
        }
        (logs + product.ln(), inverse, num)
    }

    /// The same where these clusters go and others of such counts come.
    pub fn of(&self, gone: &[u32], mut fresh: Vec<f64>) -> f64 {
        fresh.sort_unstable_by(|a, b| b.total_cmp(a));
        let stay = || self.sorted.iter().filter(|of| !gone.contains(&(of.1 as u32))).map(|of| of.0);
        let lost = self.sorted.iter().filter(|of| gone.contains(&(of.1 as u32))).map(|of| of.0);
        let of_sizes = |counts: &mut dyn Iterator<Item = f64>| counts.map(|count| ln_gamma(1.0 + count)).sum::<f64>();
        let sizes = of_sizes(&mut fresh.iter().copied()) - of_sizes(&mut lost.into_iter());
        let (mut old, mut new) = (stay().peekable(), fresh.iter().copied().peekable());
        let merged = std::iter::from_fn(|| match (old.peek(), new.peek()) {
            (Some(a), Some(b)) if a < b => new.next(),
            (None, _) => new.next(),
            _ => old.next(),
        });
        let (logs, inverse, num) = Self::left(self.gamma, self.total, merged);
        let fewer = self.sorted.len() as f64 - num as f64;
        let rise = sizes + self.logs - logs - fewer * self.gamma.ln();
        if !self.learned {
            return rise;
        }
        let (slope, log) = (num as f64 + self.gamma * (self.slope - inverse), self.gamma.ln());
        rise + (slope * (MOST_GAMMA.ln() - log)).max(slope * (LEAST_GAMMA.ln() - log))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The integral of f over (0, 1), by the midpoint rule after x = s^2 (3 - 2 s), which is flat at both ends.
    fn integral(f: impl Fn(f64) -> f64) -> f64 {
        const STEPS: usize = 200_000;
        let of = |i: usize| {
            let s = (i as f64 + 0.5) / STEPS as f64;
            f(s * s * (3.0 - 2.0 * s)) * 6.0 * s * (1.0 - s)
        };
        (0..STEPS).map(of).sum::<f64>() / STEPS as f64
    }

    #[test]
    fn the_term_is_the_evidence_of_counts_and_logarithms_are_those_of_beta_sticks() {
        // Rows of known clusters: log integral of prod u_k^N_k (1 - u_k)^N_{>k} under the prior, stick by stick.
        let (counts, gamma) = ([3.0, 7.5, 1.25], 1.7);
        let after = [1.25, 4.25, 0.0];
        let density = |u: f64, k: usize, power: f64| {
            gamma * (1.0 - u).powf(gamma - 1.0 + power * after[k]) * u.powf(power * counts[k])
        };
        let expected: f64 = (0..3).map(|k| integral(|u| density(u, k, 1.0)).ln()).sum();
        assert!((term(Some(gamma), &counts) - expected).abs() < 1e-6);
        let frequencies = frequencies(Some(gamma), &counts);
        let of = |k: usize, f: &dyn Fn(f64) -> f64| {
            integral(|u| density(u, k, 1.0) * f(u)) / integral(|u| density(u, k, 1.0))
        };
        let stick = |k: usize| of(k, &f64::ln);
        let rest = |k: usize| of(k, &|u| (1.0 - u).ln());
        let expected = [rest(1) + stick(0), stick(1), rest(1) + rest(0) + stick(2)];
        for (found, expected) in frequencies.log_pi.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-5, "{found} {expected}");
        }
        assert!((frequencies.pi.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        assert!(frequencies.pi[1] > frequencies.pi[0] && frequencies.pi[0] > frequencies.pi[2]);
    }

    #[test]
    fn no_order_of_sticks_is_better_and_no_gamma() {
        let counts = [4.0, 9.0, 2.5, 0.0];
        let best = term(Some(0.8), &counts);
        let in_order = |order: [usize; 4]| -> f64 {
            let after = |i: usize| order[i + 1..].iter().map(|&k| counts[k]).sum::<f64>();
            let of = |i: usize| {
                let (one, rest) = (1.0 + counts[order[i]], 0.8 + after(i));
                ln_gamma(one) + ln_gamma(rest) - ln_gamma(one + rest) + 0.8f64.ln()
            };
            (0..4).map(of).sum()
        };
        for order in [[0, 1, 2, 3], [1, 2, 0, 3], [3, 2, 0, 1], [2, 1, 3, 0]] {
            assert!(in_order(order) < best);
        }
        assert!((in_order([1, 0, 2, 3]) - best).abs() < 1e-12);
        for counts in [vec![1e6], vec![0.0; 5], vec![1e-3, 1e7, 3.0], (0..900).map(f64::from).collect()] {
            let found = settle(None, &counts, &by_size(&counts));
            let worth = |gamma: f64| term(Some(gamma), &counts) - gamma;
            let least = |factor: f64| worth((factor * found).clamp(LEAST_GAMMA, MOST_GAMMA)) <= worth(found) + 1e-9;
            assert!([0.5, 0.99, 0.9999, 1.0001, 1.01, 2.0].into_iter().all(least), "{found} of {counts:?}");
        }
        let counts: Vec<f64> = (1..40).map(|n| 1000.0 / f64::from(n)).collect();
        let learned = term(None, &counts);
        for gamma in [0.1, 0.5, 1.0, 3.0, 5.0, 6.0, 8.0, 20.0] {
            assert!(term(Some(gamma), &counts) - gamma <= learned + 1e-9);
        }
    }

    #[test]
    fn no_change_of_counts_raises_the_term_by_more_than_it_can() {
        let counts: Vec<f64> = (0..40).map(|k| 3e3 / f64::from(1 + k * k % 37) + f64::from(k % 3)).collect();
        for gamma in [None, Some(2.5)] {
            let (before, most, mut nearest) = (term(gamma, &counts), MostRise::new(gamma, &counts), f64::INFINITY);
            let mut changes: Vec<(Vec<u32>, Vec<f64>)> = Vec::new();
            for a in 0..40u32 {
                let of_a = counts[a as usize];
                changes.push((vec![a], vec![0.3 * of_a, 0.6 * of_a, 0.1 * of_a]));
                for b in a + 1..40 {
                    let both = of_a + counts[b as usize];
                    changes.push((vec![a, b], vec![both]));
                    changes.push((vec![a, b], vec![0.9 * both, 0.1 * both]));
                }
            }
            for (gone, fresh) in changes {
                let stay = (0..40u32).filter(|k| !gone.contains(k)).map(|k| counts[k as usize]);
                let after: Vec<f64> = stay.chain(fresh.iter().copied()).collect();
                let (rise, most) = (term(gamma, &after) - before, most.of(&gone, fresh));
                assert!(rise <= most + 1e-9 * before.abs(), "{gone:?}: {rise} is more than {most}");
                nearest = nearest.min(most - rise);
                assert!(most - rise < if gamma.is_some() { 1e-6 } else { 15.0 }, "{gone:?}: {rise} and {most}");
            }
            assert!(nearest < 1.0);
        }
    }
}
