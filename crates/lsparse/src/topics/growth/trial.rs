//! What a lap gathers beside the statistics of topics, so that a change of their number can be judged at its end.

use serde::{Deserialize, Serialize};

use crate::topics::growth::concentration::Completed;
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

/// Changes of mass for each topic that may leave, word by word.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LeftWords {
    /// Where those of each word end.
    ends: Vec<u32>,
    /// (place of the topic that would leave, topic, change), in that order within a word.
    changes: Vec<(u32, u32, f32)>,
}

impl LeftWords {
    /// Those of a word.
    pub fn word(&self, v: usize) -> &[(u32, u32, f32)] {
        let end = |v: usize| self.ends.get(v).map_or(0, |&end| end as usize);
        &self.changes[v.checked_sub(1).map_or(0, end)..end(v)]
    }

    /// Those of all words, one after the other.
    pub fn all(&self) -> &[(u32, u32, f32)] {
        &self.changes
    }

    /// Add changes of so many words and topics, where so many topics may leave; those of the same are summed in their order.
    pub fn add<'a>(
        &mut self,
        (num_words, num_topics, num_leaving): (usize, usize, usize),
        lists: impl Iterator<Item = &'a [LeftWord]> + Clone,
    ) {
        // By place and then by word, so that within a word they are in the order of places.
        let by_place = in_groups(lists.flatten().copied(), num_leaving, |change| change.0).1;
        let (ends, by_word) = in_groups(by_place.iter().copied(), num_words, |change| change.1);
        let mut sums = Sums::new(num_topics);
        let before = std::mem::take(self);
        let mut from = 0;
        for (v, &end) in ends.iter().enumerate() {
            let (mut old, mut fresh) = (before.word(v), &by_word[from as usize..end as usize]);
            let places = |old: &[(u32, u32, f32)], fresh: &[LeftWord]| {
                old.first().map(|change| change.0).into_iter().chain(fresh.first().map(|change| change.0)).min()
            };
            while let Some(place) = places(old, fresh) {
                let num_old = old.iter().take_while(|change| change.0 == place).count();
                let num_fresh = fresh.iter().take_while(|change| change.0 == place).count();
                old[..num_old].iter().for_each(|change| sums.add(change.1, change.2));
                fresh[..num_fresh].iter().for_each(|change| sums.add(change.2, change.3));
                sums.drain(|topic, sum| self.changes.push((place, topic, sum as f32)));
                (old, fresh) = (&old[num_old..], &fresh[num_fresh..]);
            }
            self.ends.push(self.changes.len() as u32);
            from = end;
        }
    }
}

/// Entries in so many groups, each in the order that it had, and where each group ends.
fn in_groups<T: Copy + Default>(
    entries: impl Iterator<Item = T> + Clone,
    num: usize,
    group: impl Fn(&T) -> u32,
) -> (Vec<u32>, Vec<T>) {
    // Sizes stand one place behind, so that places are counted up from where each group starts to where it ends.
    let mut ends = vec![0u32; num + 1];
    entries.clone().for_each(|entry| ends[group(&entry) as usize + 1] += 1);
    (1..ends.len()).for_each(|at| ends[at] += ends[at - 1]);
    let mut sorted = vec![T::default(); ends[num] as usize];
    for entry in entries {
        let to = &mut ends[group(&entry) as usize];
        sorted[*to as usize] = entry;
        *to += 1;
    }
    ends.pop();
    (ends, sorted)
}

/// Mass by topic, with a bit for each topic that has been added to: they are found in order without sorting.
struct Sums {
    mass: Vec<f64>,
    there: Vec<u64>,
}

impl Sums {
    fn new(num_topics: usize) -> Self {
        Sums { mass: vec![0.0; num_topics], there: vec![0; num_topics.div_ceil(64)] }
    }

    fn add(&mut self, topic: u32, mass: impl Into<f64>) {
        self.mass[topic as usize] += mass.into();
        self.there[topic as usize / 64] |= 1 << (topic % 64);
    }

    /// Hand over what has come together, topics ascending, and start anew.
    fn drain(&mut self, mut take: impl FnMut(u32, f64)) {
        for (i, bits) in self.there.iter_mut().enumerate() {
            let mut left = std::mem::take(bits);
            while left != 0 {
                let k = i * 64 + left.trailing_zeros() as usize;
                left &= left - 1;
                take(k as u32, std::mem::take(&mut self.mass[k]));
            }
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
    /// What a split adds to the entropy of responsibilities, where documents have both halves.
    pub split_entropy: Vec<f64>,
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
    /// By topic: tokens of the documents that have it, as far as each of them counts among those.
    pub tokens: Vec<f64>,
    /// By topic: what its documents lost when they were to do without it, infinite where some have no other.
    pub losses: Vec<f64>,
    /// For each that may leave, those that some document has besides, or would have instead, as bits.
    pub overlap: Vec<u64>,
    /// How documents predict a part of their words under other concentrations.
    pub completed: Completed,
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
            tokens: vec![0.0; num_topics],
            losses: vec![0.0; num_topics],
            splits: splits.to_vec(),
            halves: SparseStats::empty(vocab_size),
            said: vec![Said::default(); 2 * splits.len()],
            split_entropy: vec![0.0; splits.len()],
            pairs: pairs.to_vec(),
            changes: vec![PairChange::default(); pairs.len()],
            completed: Completed::default(),
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
    let split = trial.split_entropy.iter().zip(places.half.chunks_exact(2)).filter(|(_, halves)| halves[0].is_some());
    out.entropy += split.map(|(change, _)| change).sum::<f64>();
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
    for &(slot, k, change) in trial.left.all() {
        if let Some(to) = places.whole[k as usize].filter(|_| places.leaves[slot as usize]) {
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
    let mut sums = Sums::new(num_topics);
    let has_halves = places.half.iter().any(Option::is_some);
    // Where no two become one, topics that stay are in the order that they were in.
    let in_order = places.whole.iter().flatten().is_sorted_by(|a, b| a < b);
    let entries = stats.topic.len() + if has_halves { trial.halves.topic.len() } else { 0 };
    SparseStats::by_word_with_room(stats.vocab_size(), entries, |v, row| {
        let halves = if has_halves { trial.halves.word(v) } else { (&[][..], &[][..]) };
        let is_plain = in_order && halves.0.iter().all(|&half| places.half[half as usize].is_none());
        if is_plain && !trial.left.word(v).iter().any(|change| places.leaves[change.0 as usize]) {
            let (topic, mass) = stats.word(v);
            let stays = topic.iter().zip(mass).filter_map(|(&k, &m)| Some((places.whole[k as usize]?, m)));
            row.extend(stays.filter(|entry| entry.1.into() > ROUNDING));
            return;
        }
        let mut add = |to: Option<u32>, mass: f64| to.into_iter().for_each(|to| sums.add(to, mass));
        let (topic, mass) = stats.word(v);
        topic.iter().zip(mass).for_each(|(&k, &m)| add(places.whole[k as usize], m.into()));
        let (half, mass) = halves;
        half.iter().zip(mass).for_each(|(&h, &m)| add(places.half[h as usize], m.into()));
        for &(_, k, change) in trial.left.word(v).iter().filter(|change| places.leaves[change.0 as usize]) {
            add(places.whole[k as usize], f64::from(change));
        }
        // What was taken away whole may leave a trace of rounding.
        sums.drain(|k, mass| row.extend((mass > ROUNDING).then(|| (k, M::from_f64(mass)))));
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Changes that come in two parts are those that sorting and summing give.
    #[test]
    fn changes_are_in_order_and_the_same_are_summed() {
        const SIZES: (usize, usize, usize) = (7, 70, 3);
        let of = |n: u32| (n * 5 % 3, n * 11 % 7, n * 29 % 70, 0.25 * n as f32 - 9.0);
        let all: Vec<LeftWord> = (0..400).map(of).collect();
        let mut words = LeftWords::default();
        words.add(SIZES, all[..150].chunks(40));
        words.add(SIZES, all[150..].chunks(60));
        let mut sorted = all.clone();
        sorted.sort_by_key(|change| (change.1, change.0, change.2));
        let mut expected: Vec<(u32, (u32, u32, f32))> = Vec::new();
        for same in sorted.chunk_by(|x, y| (x.0, x.1, x.2) == (y.0, y.1, y.2)) {
            expected.push((same[0].1, (same[0].0, same[0].2, same.iter().map(|change| change.3).sum())));
        }
        let found = (0..SIZES.0).flat_map(|v| words.word(v).iter().map(move |&change| (v as u32, change)));
        assert_eq!(found.collect::<Vec<_>>(), expected);
        assert_eq!(words.all().len(), expected.len());
    }
}
