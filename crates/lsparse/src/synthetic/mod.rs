//! Seeded data with known truth: planted mixtures and chains of every family, documents about known themes, and images whose
//! patches look like natural ones.

mod chain;
mod dead_leaves;
mod planted;
mod themes;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::math::random::{categorical, dirichlet, gamma};

pub use chain::{ChainShape, PlantedChain, planted_chain};
pub use dead_leaves::dead_leaves;
pub use planted::{Planted, planted, planted_patches};
pub use themes::{ThemedCorpus, themed_corpus};

/// A generator for `seed`.
fn generator(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}
