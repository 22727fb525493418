//! What pulls words to topics: lists of seed words, and priors that are given word by word.

use crate::error::{Error, Result};
use crate::topics::Topics;
use crate::topics::summary::{SparseStats, TopicSummary};

/// The order of the first topics in which list k of seed words meets the topic that holds most of its words.
pub(super) fn seeded_order(first: &TopicSummary, lists: &[Vec<u32>]) -> Vec<usize> {
    let num = first.num_topics;
    let stats = first.total();
    let mut free: Vec<usize> = (0..num).collect();
    let mut order = Vec::with_capacity(num);
    for list in lists.iter().take(num) {
        // Shares of words rather than counts, so that one common word does not decide.
        let holds = |k: usize| -> f64 {
            let share = |&v: &u32| {
                let (topic, mass) = stats.word(v as usize);
                let own = topic.binary_search(&(k as u32)).map_or(0.0, |at| mass[at]);
                own / mass.iter().sum::<f64>().max(f64::MIN_POSITIVE)
            };
            list.iter().map(share).sum()
        };
        let best = (0..free.len()).max_by(|&a, &b| holds(free[a]).total_cmp(&holds(free[b])).then(b.cmp(&a)));
        order.extend(best.map(|at| free.remove(at)));
    }
    order.extend(free);
    order
}

/// What pseudo-counts of words in topics are above lambda.
pub(super) fn prior_pull(topics: &Topics, prior: &[f64]) -> SparseStats<f32> {
    SparseStats::by_word(topics.vocab_size, |v, row| {
        let above = (0..topics.num_topics).map(|k| (k as u32, prior[k * topics.vocab_size + v] - topics.lambda));
        row.extend(above.filter(|entry| entry.1 > 0.0).map(|(k, mass)| (k, mass as f32)));
    })
}

/// Pseudo-counts of seed words: a share of each word's count in the corpus, for its topic.
pub(super) fn seed_pull(
    topics: &Topics,
    initial: &TopicSummary,
    lists: &[Vec<u32>],
    weight: f64,
) -> Result<Option<SparseStats<f32>>> {
    if lists.iter().all(Vec::is_empty) {
        return Ok(None);
    }
    if lists.len() > topics.num_topics {
        let problem = format!("{} lists for {} topics", lists.len(), topics.num_topics);
        return Err(Error::Config { setting: "seed-words", problem, remedy: "give at most one list a topic".into() });
    }
    let stats = initial.total();
    let mut by_word: Vec<Vec<(u32, f32)>> = vec![Vec::new(); topics.vocab_size];
    for (k, list) in lists.iter().enumerate() {
        for &v in list {
            let total: f64 = stats.word(v as usize).1.iter().sum();
            by_word[v as usize].push((k as u32, (weight * total).max(1.0) as f32));
        }
    }
    let pull = SparseStats::by_word(topics.vocab_size, |v, row| row.append(&mut by_word[v]));
    Ok(Some(pull))
}
