//! How observations are shared out among clusters: the distributions over clusters and topics.

mod dirichlet;
mod documents;
mod hdp;

pub use dirichlet::{Frequencies, allocation_term};
pub use documents::{AlphaRule, alpha_bound, learned_alpha};
pub use hdp::{Stick, Tables};
