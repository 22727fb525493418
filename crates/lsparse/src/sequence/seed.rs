//! The first statistics of a hidden Markov model: states as clusters of rows in any order, and chains that know nothing.

use rand_chacha::ChaCha8Rng;

use crate::allocation::ChainCounts;
use crate::clusters::seed::initial_summary;
use crate::data::{Dealt, Scalar};
use crate::error::Result;
use crate::sequence::{Sequence, SequenceSummary};
use crate::settings::SequenceConfig;
use crate::training::rules::Patience;

/// Statistics to take the first global step from, on the scale of `num_sequences` sequences. Sequences begin in, and go on
/// to, any state alike but for how many rows it has: what the first lap finds takes the place of that.
pub fn initial<T: Scalar>(
    model: &Sequence<T>,
    data: &Dealt<'_>,
    num_sequences: usize,
    config: &SequenceConfig,
    rng: &mut ChaCha8Rng,
    patience: Patience<'_>,
) -> Result<SequenceSummary> {
    let clusters = initial_summary(&model.design(), data, &config.emissions(), rng, patience)?;
    let (num, rows) = (clusters.num_clusters(), clusters.total_weight().max(f64::MIN_POSITIVE));
    let starts = num_sequences as f64;
    let start = clusters.counts.iter().map(|count| starts * count / rows).collect();
    let spread = clusters.counts.iter().map(|count| (count - starts * count / rows).max(0.0)).collect();
    let chain = ChainCounts { start, spread, ..ChainCounts::zeros(num) };
    Ok(SequenceSummary { clusters, chain })
}
