//! What a lap gathers beside the statistics of topics, so that a change of their number can be judged at its end.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::topics::growth::{Leaving, Proposals};
use crate::topics::summary::{Entries, SparseStats, TopicSummary, WordStats, WordsHere};
use crate::training::moves::{Part, Remap};

/// What is said of alpha (see `TopicSummary::alpha_topic`): numbers of a bound, or changes of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Said {
    /// b.
    pub tables: f64,
    /// e.
    pub slope: f64,
    /// What the rest of the bound does not say.
    pub constant: f64,
}

impl Said {
    /// `self += factor * other`.
    pub fn add(&mut self, other: &Said, factor: f64) {
        self.tables += factor * other.tables;
        self.slope += factor * other.slope;
        self.constant += factor * other.constant;
    }
}

/// Documents that were worked out again without a topic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bounds {
    /// How many.
    pub documents: f64,
    /// What the bounds on their log likelihoods changed by.
    pub change: f64,
}

impl Bounds {
    /// `self += other`.
    pub fn add(&mut self, other: &Bounds) {
        self.documents += other.documents;
        self.change += other.change;
    }

    /// What that of one document changed by.
    pub fn mean(&self) -> f64 {
        self.change / self.documents.max(1.0)
    }
}

/// What changes where two topics become one, in documents that have both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PairChange {
    /// Of the entropy of responsibilities.
    pub entropy: f64,
    /// Of what documents say of alpha.
    pub said: Said,
}

impl PairChange {
    /// `self += other`.
    pub fn add(&mut self, other: &PairChange) {
        self.entropy += other.entropy;
        self.said.add(&other.said, 1.0);
    }
}

/// What a document has of a topic that is to be split.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Example {
    /// Which of the topics that examples are wanted of.
    pub slot: u32,
    /// Where the topic is proposed for a split, the half that the document would take.
    pub half: Option<u32>,
    /// Drawn by the document's words: the smallest are kept.
    pub key: u64,
    /// Words, ascending.
    pub words: Vec<u32>,
    /// How much of each.
    pub mass: Vec<f32>,
}

/// Changes of mass by word and topic, for each topic that may leave.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LeftWords {
    /// Where those of each end.
    ends: Vec<u32>,
    /// (word, topic, change), in that order.
    changes: Vec<(u32, u32, f32)>,
}

impl LeftWords {
    /// Those of one.
    pub fn entries(&self, slot: usize) -> &[(u32, u32, f32)] {
        let end = |slot: usize| self.ends.get(slot).map_or(0, |&end| end as usize);
        &self.changes[slot.checked_sub(1).map_or(0, end)..end(slot)]
    }

    /// The same one by one.
    pub fn of(&self, slot: usize) -> impl Iterator<Item = (u32, u32, f32)> + '_ {
        self.entries(slot).iter().copied()
    }

    /// Add changes of (topic that leaves, word, topic), where so many may leave; those of the same are summed in their
    /// order.
    pub fn add<'a>(&mut self, num_leaving: usize, lists: impl Iterator<Item = &'a [LeftWord]>) {
        let before = (0..self.ends.len()).flat_map(|slot| self.of(slot).map(move |(v, k, m)| (slot as u32, v, k, m)));
        let mut all: Vec<LeftWord> = before.collect();
        all.extend(lists.flatten());
        all.par_sort_by_key(|change| (change.0, change.1, change.2));
        self.ends = vec![0; num_leaving];
        self.changes.clear();
        for same in all.chunk_by(|x, y| (x.0, x.1, x.2) == (y.0, y.1, y.2)) {
            let sum: f64 = same.iter().map(|change| f64::from(change.3)).sum();
            self.changes.push((same[0].1, same[0].2, sum as f32));
            self.ends[same[0].0 as usize] = self.changes.len() as u32;
        }
        // Who has none ends where the one before does.
        for slot in 1..num_leaving {
            self.ends[slot] = self.ends[slot].max(self.ends[slot - 1]);
        }
    }
}

/// Which topic would leave, word, topic, change of mass.
pub type LeftWord = (u32, u32, u32, f32);

/// Statistics of topics that might be, of one batch. They stay with what is remembered of the batch and are in no sum.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Which proposals these are of.
    pub generation: u64,
    /// The topics that are proposed for a split.
    pub splits: Vec<u32>,
    /// S of their halves, those of proposal i as topics 2 i and 2 i + 1.
    pub halves: SparseStats<f32>,
    /// What documents say of the halves; the constants are changes of that of the whole topic.
    pub said: Vec<Said>,
    /// The pairs of topics that are proposed to be merged, ascending.
    pub pairs: Vec<(u32, u32)>,
    /// What that changes.
    pub changes: Vec<PairChange>,
    /// The topics that may be given up, 64 at most.
    pub leaving: Vec<Leaving>,
    /// What documents that have any of them would have more of without it, and less.
    pub left: LeftWords,
    /// What is said of alpha would change by: of topic j as number i K + j for topic i of those that may leave.
    pub left_said: Vec<Said>,
    /// What the entropy would change by, for each that may leave.
    pub left_entropy: Vec<f64>,
    /// What the bounds of its documents would change by, under topics of which only the heir is another: of those that
    /// topics have, and of those that are only listened to.
    pub left_bounds: Vec<[Bounds; 2]>,
    /// By topic: what its documents lost when they were to do without it, infinite where some have no other.
    pub losses: Vec<f64>,
    /// For each that may leave, those that some document has besides, or would have instead, as bits.
    pub overlap: Vec<u64>,
    /// What documents have of topics that are to be split next, so many of each at most.
    pub examples: Vec<Example>,
    /// How many.
    pub most_examples: usize,
}

impl Trial {
    /// Nothing yet of these proposals.
    pub fn new(
        generation: u64,
        proposals: &Proposals,
        pairs: &[(u32, u32)],
        vocab_size: usize,
        most_examples: usize,
    ) -> Self {
        let (splits, leaving) = (&proposals.splits, &proposals.leaving);
        let num_topics = proposals.slot_of.len();
        Trial {
            generation,
            most_examples,
            leaving: leaving.clone(),
            left: LeftWords::default(),
            left_said: vec![Said::default(); leaving.len() * num_topics],
            left_entropy: vec![0.0; leaving.len()],
            left_bounds: vec![[Bounds::default(); 2]; leaving.len()],
            overlap: vec![0; leaving.len()],
            losses: vec![0.0; num_topics],
            splits: splits.to_vec(),
            halves: SparseStats::empty(vocab_size),
            said: vec![Said::default(); 2 * splits.len()],
            pairs: pairs.to_vec(),
            changes: vec![PairChange::default(); pairs.len()],
            examples: Vec::new(),
        }
    }

    /// Add entries of halves, document by document.
    pub fn add_halves(&mut self, lists: &[Entries<'_>]) {
        self.halves.add_lists(2 * self.splits.len(), lists);
    }

    /// Bytes of memory held.
    pub fn resident_bytes(&self) -> usize {
        let examples: usize = self.examples.iter().map(|e| 8 * e.words.len() + size_of::<Example>()).sum();
        let halves = 8 * (self.halves.topic.len() + self.halves.indptr.len());
        halves + size_of_val(self.left.changes.as_slice()) + size_of_val(self.left_said.as_slice()) + examples
    }
}

/// Mass that is no more than what rounding leaves.
pub const ROUNDING: f64 = 1e-5;

/// Where the parts of topics go.
struct Places {
    whole: Vec<Option<u32>>,
    /// By half: 2 i and 2 i + 1 of proposal i.
    half: Vec<Option<u32>>,
    /// Of those that may leave, the ones that do.
    leaves: Vec<bool>,
}

impl Places {
    fn of(plan: &Remap, num_topics: usize, splits: &[u32], leaving: &[Leaving]) -> Self {
        let (half, leaves) = (vec![None; 2 * splits.len()], vec![false; leaving.len()]);
        let mut places = Places { whole: vec![None; num_topics], half, leaves };
        let at = |k: u32| splits.iter().position(|&split| split == k);
        for (to, parts) in plan.clusters.iter().enumerate() {
            for part in parts {
                let to = Some(to as u32);
                match *part {
                    Part::Whole(k) => places.whole[k as usize] = to,
                    Part::Piece { of, at: half } => {
                        at(of).into_iter().for_each(|i| places.half[2 * i + half as usize] = to);
                    }
                    Part::Inherited { from, .. } => {
                        let left = leaving.iter().position(|leaves| leaves.topic == from);
                        left.into_iter().for_each(|i| places.leaves[i] = true);
                    }
                }
            }
        }
        places
    }

    /// Those that leave.
    fn leaving(&self) -> impl Iterator<Item = usize> + '_ {
        self.leaves.iter().enumerate().filter(|(_, leaves)| **leaves).map(|(slot, _)| slot)
    }
}

/// The statistics of a batch for other topics, by what it gathered of them.
pub fn remapped(summary: &TopicSummary, plan: &Remap) -> TopicSummary {
    let none = Trial::default();
    let trial = summary.trial.as_deref().unwrap_or(&none);
    let places = Places::of(plan, summary.num_topics, &trial.splits, &trial.leaving);
    let num = plan.clusters.len();
    let words = match summary.words.as_words() {
        WordsHere::Batch(stats) => WordStats::Batch(moved(stats, trial, &places, num)),
        WordsHere::Total(stats) => WordStats::Total(moved(stats, trial, &places, num)),
    };
    let mut out = TopicSummary { words, ..TopicSummary::new(num, WordStats::Batch(SparseStats::default())) };
    (out.entropy, out.alloc, out.bound) = (summary.entropy, summary.alloc, summary.bound);
    (out.alpha_total, out.documents) = (summary.alpha_total, summary.documents);
    for (k, to) in places.whole.iter().enumerate().filter_map(|(k, to)| to.map(|to| (k, to as usize))) {
        out.counts[to] += summary.counts[k];
        out.alpha_topic[to] += summary.alpha_topic[k];
        out.alpha_slope[to] += summary.alpha_slope[k];
    }
    for (half, to) in places.half.iter().enumerate().filter_map(|(half, to)| to.map(|to| (half, to as usize))) {
        let said = &trial.said[half];
        out.alpha_topic[to] += said.tables;
        out.alpha_slope[to] += said.slope;
        out.alloc += said.constant;
    }
    for (&half, &mass) in trial.halves.topic.iter().zip(&trial.halves.mass) {
        if let Some(to) = places.half[half as usize] {
            out.counts[to as usize] += f64::from(mass);
        }
    }
    for i in places.leaving() {
        out.entropy += trial.left_entropy[i];
        let said = &trial.left_said[i * summary.num_topics..(i + 1) * summary.num_topics];
        for (said, to) in said.iter().zip(&places.whole) {
            // (What is said of the topic that leaves goes with it, but for the constant.)
            out.alloc += said.constant;
            if let Some(to) = to {
                out.alpha_topic[*to as usize] += said.tables;
                out.alpha_slope[*to as usize] += said.slope;
            }
        }
    }
    for (_, k, change) in places.leaving().flat_map(|slot| trial.left.of(slot)) {
        if let Some(to) = places.whole[k as usize] {
            out.counts[to as usize] += f64::from(change);
        }
    }
    out.counts.iter_mut().for_each(|count| *count = count.max(0.0));
    for (&(a, b), change) in trial.pairs.iter().zip(&trial.changes) {
        let (Some(to), other) = (places.whole[a as usize], places.whole[b as usize]) else { continue };
        if other == Some(to) {
            out.alpha_topic[to as usize] += change.said.tables;
            out.alpha_slope[to as usize] += change.said.slope;
            out.alloc += change.said.constant;
            out.entropy += change.entropy;
        }
    }
    out
}

/// S word by word for other topics.
fn moved<M: crate::topics::summary::Mass>(
    stats: &SparseStats<M>,
    trial: &Trial,
    places: &Places,
    num_topics: usize,
) -> SparseStats<M> {
    let mut sum = vec![0.0f64; num_topics];
    let mut there: Vec<u32> = Vec::new();
    let mut leaving: Vec<_> = places.leaving().map(|slot| trial.left.of(slot).peekable()).collect();
    SparseStats::by_word(stats.vocab_size(), |v, row| {
        let mut add = |to: Option<u32>, mass: f64| {
            if let Some(to) = to {
                there.push(to);
                sum[to as usize] += mass;
            }
        };
        let (topic, mass) = stats.word(v);
        topic.iter().zip(mass).for_each(|(&k, &m)| add(places.whole[k as usize], m.into()));
        if places.half.iter().any(Option::is_some) {
            let (half, mass) = trial.halves.word(v);
            half.iter().zip(mass).for_each(|(&h, &m)| add(places.half[h as usize], m.into()));
        }
        for changes in &mut leaving {
            while let Some((_, k, change)) = changes.next_if(|change| change.0 as usize == v) {
                add(places.whole[k as usize], f64::from(change));
            }
        }
        there.sort_unstable();
        there.dedup();
        // What was taken away whole may leave a trace of rounding.
        let masses = there.drain(..).map(|k| (k, std::mem::take(&mut sum[k as usize])));
        row.extend(masses.filter(|e| e.1 > ROUNDING).map(|(k, mass)| (k, M::from_f64(mass))));
    })
}
