//! How observations are shared out among clusters: the distributions over clusters and topics.

mod chain_counts;
mod dirichlet;
mod documents;
mod hdp;
mod markov;
mod paths;
mod sticks;

use serde::{Deserialize, Serialize};

use crate::likelihood::Estimate;

pub(crate) use chain_counts::LEAST_COUNT;
pub use chain_counts::{ChainCounts, PairSums};
pub use dirichlet::Frequencies;
pub use documents::{AlphaRule, alpha_bound, learned_alpha};
pub use hdp::{Stick, Tables};
pub use markov::{Chain, ChainPrior, chain_term};
pub use paths::{Paths, Stretch, Supports, best_path};
pub(crate) use sticks::MostRise;

/// The distribution that frequencies of clusters are drawn from.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Allocation {
    /// pi ~ Dirichlet(alpha/K): K is given.
    Dirichlet {
        /// Concentration.
        alpha: f64,
    },
    /// Sticks of a Dirichlet process: K is what the rows ask for. A posterior, whatever the clusters' estimate.
    Sticks {
        /// Concentration; learned where there is none.
        gamma: Option<f64>,
    },
}

impl Allocation {
    /// The best frequencies for counts N_k.
    pub fn frequencies(&self, estimate: Estimate, counts: &[f64]) -> Frequencies {
        match *self {
            Allocation::Dirichlet { alpha } => Frequencies::estimate(estimate, alpha, counts),
            Allocation::Sticks { gamma } => sticks::frequencies(gamma, counts),
        }
    }

    /// gamma of a stick, as it is given or as it is best for these counts.
    pub fn gamma(&self, counts: &[f64]) -> Option<f64> {
        match *self {
            Allocation::Dirichlet { .. } => None,
            Allocation::Sticks { gamma } => Some(sticks::gamma(gamma, counts)),
        }
    }

    /// The allocation term of the objective at the frequencies that are best for these counts.
    pub fn term(&self, estimate: Estimate, counts: &[f64]) -> f64 {
        match *self {
            Allocation::Dirichlet { alpha } => dirichlet::allocation_term(estimate, alpha, counts),
            Allocation::Sticks { gamma } => sticks::term(gamma, counts),
        }
    }

    /// What changes of these counts can raise the term by at most, where there is a cheaper way to know than the term.
    pub(crate) fn most_rise(&self, counts: &[f64]) -> Option<MostRise> {
        match *self {
            Allocation::Dirichlet { .. } => None,
            Allocation::Sticks { gamma } => Some(MostRise::new(gamma, counts)),
        }
    }
}
