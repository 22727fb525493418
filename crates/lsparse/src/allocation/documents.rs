//! The topics of documents: Dirichlet(alpha_1, ..., alpha_K) with alphas as given or learned.

use lsparse_kernels::digamma;

use crate::allocation::hdp::{Stick, Tables};
use crate::choice::choices;

choices! {
    /// How alpha is treated.
    pub enum AlphaRule {
        /// It stays as given, alpha/K for every topic.
        Fixed = "fixed",
        /// One number for all topics is learned.
        Symmetric = "symmetric",
        /// A number a topic is learned.
        Asymmetric = "asymmetric",
        /// A share a topic is learned, of the concentration as given.
        Direction = "direction",
        /// A share a topic of the concentration as given, from a stick that documents share (a hierarchical Dirichlet
        /// process).
        Stick = "stick",
    }
}

/// alpha_k where the bound on the allocation term of documents, from its statistics (b, e, s), is largest:
/// sum_k b_k log alpha_k - (s + e_k) alpha_k, or that of a stick with its concentration gamma. It is one whatever the alphas are that each batch was worked
/// out under, so no step lowers the objective.
pub fn learned_alpha(rule: AlphaRule, (alpha, gamma): (f64, Option<f64>), said: Tables<'_>, old: &[f32]) -> Vec<f32> {
    let Tables { tables, slopes, slope } = said;
    let all: f64 = tables.iter().sum();
    if slope <= 0.0 || all <= 0.0 {
        return old.to_vec();
    }
    let best = |b: f64, slope: f64| (b / slope).clamp(LEAST_ALPHA, 1e3) as f32;
    match rule {
        AlphaRule::Fixed => old.to_vec(),
        AlphaRule::Symmetric => {
            let slopes = slope * tables.len() as f64 + slopes.iter().sum::<f64>();
            vec![best(all, slopes); tables.len()]
        }
        AlphaRule::Asymmetric => tables.iter().zip(slopes).map(|(&b, e)| best(b, slope + e)).collect(),
        AlphaRule::Direction => {
            let shares = |slope: f64| tables.iter().zip(slopes).map(move |(b, e)| (b / (slope + e)).max(LEAST_ALPHA));
            // The slope under which they sum to what is given, between 0 and what it would be with no e_k at all.
            let (mut low, mut high) = (0.0, all / alpha);
            for _ in 0..60 {
                let middle = 0.5 * (low + high);
                let too_many = shares(middle).sum::<f64>() > alpha;
                *(if too_many { &mut low } else { &mut high }) = middle;
            }
            let excess = shares(high).sum::<f64>() / alpha;
            shares(high).map(|a| (a / excess) as f32).collect()
        }
        AlphaRule::Stick => {
            let stick = Stick::best(alpha, gamma, said);
            stick.shares().into_iter().map(|share| (alpha * share).max(LEAST_ALPHA) as f32).collect()
        }
    }
}

/// alpha_k of a topic that no document has.
const LEAST_ALPHA: f64 = 1e-6;

/// What learning alpha remembers of a document that has `count` of a topic, under the topic's alpha: b and e of
/// ln G(n + alpha) - ln G(alpha) >= constant + b log alpha - e alpha, which are equal where alpha is this.
///
/// From 1 on the term is convex in log alpha (`minka2000dirichlet`); below, it is log alpha and a convex function of alpha.
pub fn alpha_bound(count: f64, alpha: f64) -> (f64, f64) {
    match count < 1.0 {
        true => (1.0, digamma(1.0 + alpha) - digamma(count + alpha)),
        false => (alpha * (digamma(count + alpha) - digamma(alpha)), 0.0),
    }
}
