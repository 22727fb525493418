//! The first statistics of a hidden Markov model: states as clusters of rows in any order, or what laps over a part of the
//! sequences make of that and of other starts.

mod contest;
mod excerpt;

use rand_chacha::ChaCha8Rng;

use crate::allocation::ChainCounts;
use crate::clusters::seed::initial_summary;
use crate::data::{Dealt, Groups, Scalar};
use crate::error::Result;
use crate::likelihood::ClusterSummary;
use crate::sequence::model::StandsFor;
use crate::sequence::steps::Steps;
use crate::sequence::{Sequence, SequenceSummary};
use crate::settings::{Init, SequenceConfig};
use crate::training::rules::Patience;

use contest::Contest;
use excerpt::Excerpt;

/// Statistics to take the first global step from, on the scale of all sequences. `trial` is the same model, for sequences
/// that are no part of the data.
pub fn initial<T: Scalar>(
    trial: &mut Sequence<T>,
    data: &Dealt<'_>,
    (steps, groups): (&Steps<'_>, &Groups),
    config: &SequenceConfig,
    rng: &mut ChaCha8Rng,
    patience: Patience<'_>,
) -> Result<SequenceSummary> {
    let num_sequences = groups.num_filled() as f64;
    let clusters = initial_summary(&trial.design(), data, &config.emissions(), rng, patience)?;
    let by_rows = in_any_order(clusters, num_sequences);
    let all = contest::takes_all(trial.num_states, groups.num_rows());
    let entrants = contest::entrants(trial.num_states, groups.num_rows(), all);
    if config.init != Init::Auto || entrants.is_empty() {
        return Ok(by_rows);
    }
    let Some(excerpt) = Excerpt::draw(trial, steps, groups, contest::sample_steps(trial.num_states), rng)? else {
        return Ok(by_rows);
    };
    if all {
        trial.sparsity = trial.num_states;
    }
    let whole = StandsFor { rows: data.total_weight(), sequences: num_sequences };
    Contest::new(trial, excerpt, whole, patience).hold(by_rows, &entrants, rng)
}

/// Clusters of rows as states. Sequences begin in, and go on to, any state alike but for how many rows it has: what the first
/// lap finds takes the place of that.
fn in_any_order(clusters: ClusterSummary, num_sequences: f64) -> SequenceSummary {
    let (num, rows) = (clusters.num_clusters(), clusters.total_weight().max(f64::MIN_POSITIVE));
    let start = clusters.counts.iter().map(|count| num_sequences * count / rows).collect();
    let spread = clusters.counts.iter().map(|count| (count - num_sequences * count / rows).max(0.0)).collect();
    let chain = ChainCounts { start, spread, ..ChainCounts::zeros(num) };
    SequenceSummary { clusters, chain }
}
