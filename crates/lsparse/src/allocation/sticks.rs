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
}
