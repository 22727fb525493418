//! How observations are shared out among clusters: the distributions over clusters and topics.

mod dirichlet;
mod documents;
mod markov;
mod paths;

pub use dirichlet::{Frequencies, allocation_term};
pub use documents::{AlphaRule, alpha_bound, learned_alpha};
pub use markov::{Chain, ChainCounts, ChainPrior, PairSums, chain_term};
pub use paths::{Paths, Supports, best_path};
