//! The words that topics are shown by, whatever the weight of the slider, and the topics that words are in.

use lsparse::topics::{SparseStats, TopicModel};
use rayon::prelude::*;

use crate::explore::sparse::SparseTopics;

/// The weights that the slider of the page has.
pub struct RelevanceGrid;

impl RelevanceGrid {
    /// How many there are, from 0 (lift) to 1 (probability).
    pub const STEPS: usize = 11;

    /// Weight number `at`.
    pub fn weight(at: usize) -> f64 {
        at as f64 / (Self::STEPS - 1) as f64
    }
}

/// For every topic the words that are among its first under some weight of the slider, with their probabilities.
pub struct Ranking {
    /// Words that each weight is sure of.
    pub count: usize,
    /// Where the words of each topic start, and where the last one's end.
    pub starts: Vec<u32>,
    /// The words, most probable first.
    pub words: Vec<u32>,
    /// Their probabilities.
    pub values: Vec<f32>,
    /// How much the ten most probable words of each topic are its own: the mean of phi_kv / sum_j phi_jv.
    pub exclusivity: Vec<f64>,
    /// The ten most probable words of each topic.
    pub top: Vec<Vec<u32>>,
}

/// Words of a topic that coherence and exclusivity look at.
const TOP: usize = 10;

impl Ranking {
    /// Of all topics, `count` words for each weight. `overall` is the probability of every word under all topics.
    pub fn new(topics: &SparseTopics, overall: &[f64], count: usize) -> Self {
        let count = count.min(topics.vocab_size);
        let log_overall: Vec<f64> = overall.iter().map(|p| p.max(f64::MIN_POSITIVE).ln()).collect();
        // Words that a topic has never seen differ in their relevance only by how rare they are.
        let mut rarest: Vec<u32> = (0..topics.vocab_size as u32).collect();
        rarest.sort_by(|&a, &b| overall[a as usize].total_cmp(&overall[b as usize]).then(a.cmp(&b)));
        let by_number: Vec<u32> = (0..topics.vocab_size as u32).collect();
        let backgrounds: f64 = topics.background.iter().map(|&b| f64::from(b)).sum();
        // sum_j phi_jv
        let sums: Vec<f64> = (0..topics.vocab_size)
            .into_par_iter()
            .map(|v| {
                backgrounds
                    + topics
                        .word(v)
                        .iter()
                        .map(|&(k, p)| f64::from(p) - f64::from(topics.background[k as usize]))
                        .sum::<f64>()
            })
            .collect();
        let of_topic = |k: usize| {
            let (words, values) = topics.topic(k);
            let background = topics.background[k];
            let unseen = |order: &[u32]| -> Vec<u32> {
                order.iter().copied().filter(|v| words.binary_search(v).is_err()).take(count).collect()
            };
            let (rare, first) = (unseen(&rarest), unseen(&by_number));
            // log p of the words that may be chosen: those seen, and of the others those that come first.
            let log_of = |p: f32| f64::from(p).max(f64::MIN_POSITIVE).ln();
            let logs: Vec<[f64; 2]> =
                words.iter().zip(values).map(|(&v, &p)| [log_of(p), log_overall[v as usize]]).collect();
            let log_background = log_of(background);
            let mut chosen: Vec<(u32, f32)> = Vec::new();
            let mut all: Vec<(f64, u32, f32)> = Vec::new();
            for at in 0..RelevanceGrid::STEPS {
                // w log p + (1 - w) log(p / p_v)
                let weight = RelevanceGrid::weight(at);
                let relevance_of = |[log, overall]: [f64; 2]| weight * log + (1.0 - weight) * (log - overall);
                let relevance = |v: u32, log: f64| relevance_of([log, log_overall[v as usize]]);
                // As many as are wanted are at least as relevant as the least of those that the weight before has chosen.
                let least = match at > 0 && all.len() == count {
                    true => all.iter().map(|&(_, v, p)| relevance(v, log_of(p))).fold(f64::INFINITY, f64::min),
                    false => f64::NEG_INFINITY,
                };
                let unseen = if at + 1 == RelevanceGrid::STEPS { &first } else { &rare };
                all.clear();
                for (at, &logs) in logs.iter().enumerate() {
                    let relevance = relevance_of(logs);
                    if relevance >= least {
                        all.push((relevance, words[at], values[at]));
                    }
                }
                all.extend(unseen.iter().map(|&v| (relevance(v, log_background), v, background)));
                if count < all.len() {
                    all.select_nth_unstable_by(count, |a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
                    all.truncate(count);
                }
                chosen.extend(all.iter().map(|&(_, v, p)| (v, p)));
            }
            chosen.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            chosen.dedup();
            let top = &chosen[..TOP.min(chosen.len())];
            let own = top.iter().map(|&(v, p)| f64::from(p) / sums[v as usize]).sum::<f64>() / top.len().max(1) as f64;
            (chosen, own)
        };
        let found: Vec<(Vec<(u32, f32)>, f64)> = (0..topics.num_topics()).into_par_iter().map(of_topic).collect();
        let mut ranking = Ranking {
            count,
            starts: vec![0],
            words: Vec::new(),
            values: Vec::new(),
            exclusivity: found.iter().map(|topic| topic.1).collect(),
            top: Vec::new(),
        };
        for (chosen, _) in &found {
            ranking.words.extend(chosen.iter().map(|word| word.0));
            ranking.values.extend(chosen.iter().map(|word| word.1));
            ranking.starts.push(ranking.words.len() as u32);
            ranking.top.push(chosen.iter().take(TOP).map(|word| word.0).collect());
        }
        ranking
    }
}

/// For every word the `most` topics with most of its tokens, the most first: (topic, tokens).
pub fn topics_of_words(model: &TopicModel, most: usize) -> Vec<Vec<(u32, f64)>> {
    let stats: &SparseStats<f64> = model.total.total();
    let of_word = |v: usize| {
        let (topic, mass) = stats.word(v);
        let mut list: Vec<(u32, f64)> = topic.iter().copied().zip(mass.iter().copied()).filter(|e| e.1 > 0.0).collect();
        let more = |a: &(u32, f64), b: &(u32, f64)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
        if most < list.len() {
            list.select_nth_unstable_by(most, more);
            list.truncate(most);
        }
        list.sort_unstable_by(more);
        list
    };
    (0..model.vocab_size()).into_par_iter().map(of_word).collect()
}
