//! The data term of the leave-out objective: of topics as they are, and of what might become of them.
//!
//! All of it is sums of m log(what the other batches have + lambda), gathered word by word; the logarithms of a word are
//! worked out together.

use std::sync::Arc;

use rayon::prelude::*;

use crate::topics::Topics;
use crate::topics::growth::trial::{ROUNDING, Trial};
use crate::topics::summary::{SparseStats, TopicSummary, WordsHere};

/// Words of a parallel task.
pub const WORDS_A_TASK: usize = 64;

/// S of a batch.
pub fn batch_words(memo: &TopicSummary) -> &SparseStats<f32> {
    match memo.words.as_words() {
        WordsHere::Batch(stats) => stats,
        WordsHere::Total(_) => unreachable!("what is remembered of a batch is held as a batch's"),
    }
}

/// What batches gathered of proposals.
pub fn trials(memos: &[Arc<TopicSummary>]) -> impl Iterator<Item = &Trial> {
    memos.iter().filter_map(|memo| memo.trial.as_deref())
}

/// The data term with each batch left out.
pub struct LeaveOut {
    /// Of each topic that is asked for; the others' is not whole.
    pub topics: Vec<f64>,
    /// Of each half of a topic that is proposed for a split.
    pub halves: Vec<f64>,
    /// Of each pair that is proposed to be merged, less that of the two.
    pub pairs: Vec<f64>,
    /// Of all topics where one that may leave is gone, less what it is.
    pub left: Vec<f64>,
    /// Batch by batch what topics would have more of then, or less: of topic j as number i K + j for topic i of those that
    /// may leave.
    pub left_counts: Vec<Vec<f64>>,
}

impl LeaveOut {
    /// Of the topics that are asked for, of so many halves, of those that may leave where they are asked for, and of these
    /// pairs, whose topics must be among the former.
    pub fn new(
        topics: &Topics,
        memos: &[Arc<TopicSummary>],
        asked: &[bool],
        (num_halves, leaving): (usize, &[bool]),
        pairs: &[(u32, u32)],
    ) -> Self {
        let (num, lambda) = (asked.len(), topics.lambda);
        let chunks = topics.vocab_size.div_ceil(WORDS_A_TASK);
        let mut partners: Vec<Vec<(u32, u32)>> = vec![Vec::new(); num];
        pairs.iter().enumerate().for_each(|(at, &(a, b))| partners[a as usize].push((b, at as u32)));
        let zero = || LeaveOut {
            topics: vec![0.0; num],
            halves: vec![0.0; num_halves],
            pairs: vec![0.0; pairs.len()],
            left: vec![0.0; leaving.len()],
            left_counts: Vec::new(),
        };
        let is_asked = |slot: u32| leaving.get(slot as usize).is_some_and(|asked| *asked);
        let of_chunk = |chunk: usize| {
            let words = chunk * WORDS_A_TASK..((chunk + 1) * WORDS_A_TASK).min(topics.vocab_size);
            let mut of_topics = Column::new(num, memos.len());
            let mut of_halves = Column::new(num_halves, memos.len());
            let mut changes = Vec::new();
            let mut is_changed = vec![false; num];
            let mut out = zero();
            for v in words {
                changes_of(memos, v, is_asked, &mut changes);
                changes.iter().for_each(|change| is_changed[change.topic as usize] = true);
                let is_needed = |k: usize| asked[k] || is_changed[k];
                of_topics.fill(memos.iter().map(|memo| batch_words(memo).word(v)), is_needed, lambda);
                of_topics.add_to(&mut out.topics);
                of_topics.add_pairs(&partners, lambda, &mut out.pairs);
                of_topics.add_changes(&changes, lambda, &mut out.left);
                of_topics.clear();
                changes.iter().for_each(|change| is_changed[change.topic as usize] = false);
                if num_halves > 0 {
                    of_halves.fill(trials(memos).map(|trial| trial.halves.word(v)), |_| true, lambda);
                    of_halves.add_to(&mut out.halves);
                    of_halves.clear();
                }
            }
            out
        };
        let parts: Vec<LeaveOut> = (0..chunks).into_par_iter().with_max_len(1).map(of_chunk).collect();
        let mut sum = zero();
        for part in parts {
            let lists = [
                (&mut sum.topics, part.topics),
                (&mut sum.halves, part.halves),
                (&mut sum.pairs, part.pairs),
                (&mut sum.left, part.left),
            ];
            for (into, from) in lists {
                into.iter_mut().zip(from).for_each(|(a, b)| *a += b);
            }
        }
        sum.normalise(topics.lambda * topics.vocab_size as f64, memos, pairs);
        sum
    }

    /// Take off what normalises: N^b log(N - N^b + lambda V).
    fn normalise(&mut self, room: f64, memos: &[Arc<TopicSummary>], pairs: &[(u32, u32)]) {
        let counts = |k: usize| -> Vec<f64> { memos.iter().map(|memo| memo.counts[k]).collect() };
        let of_topics: Vec<f64> = (0..self.topics.len()).map(|k| left_out(&counts(k), room)).collect();
        self.topics.iter_mut().zip(&of_topics).for_each(|(value, term)| *value -= term);
        let mut of_halves = vec![vec![0.0; memos.len()]; self.halves.len()];
        let num_halves = of_halves.len();
        for (b, trial) in trials(memos).enumerate().filter(|_| num_halves > 0) {
            let (half, mass) = (&trial.halves.topic, &trial.halves.mass);
            half.iter().zip(mass).for_each(|(&h, &m)| of_halves[h as usize][b] += f64::from(m));
        }
        self.halves.iter_mut().zip(of_halves).for_each(|(value, counts)| *value -= left_out(&counts, room));
        for (value, &(a, b)) in self.pairs.iter_mut().zip(pairs) {
            let [a, b] = [a, b].map(|k| k as usize);
            let both: Vec<f64> = counts(a).iter().zip(counts(b)).map(|(a, b)| a + b).collect();
            *value -= left_out(&both, room) - of_topics[a] - of_topics[b];
        }
        let (num, num_leaving) = (self.topics.len(), self.left.len());
        let of_batch = |trial: &Trial| {
            let mut change = vec![0.0; num * num_leaving];
            let all = trial.left.all().iter();
            all.for_each(|&(slot, k, m)| change[slot as usize * num + k as usize] += f64::from(m));
            change
        };
        if num_leaving > 0 {
            self.left_counts = trials(memos).collect::<Vec<_>>().into_par_iter().map(of_batch).collect();
        }
        let left_counts = &self.left_counts;
        let of_leaving = |(slot, value): (usize, &mut f64)| {
            for (k, of_topic) in of_topics.iter().enumerate() {
                let change = || left_counts.iter().map(|of_batch| of_batch[slot * num + k]);
                if change().any(|c| c != 0.0) {
                    let after: Vec<f64> = counts(k).iter().zip(change()).map(|(n, c)| (n + c).max(0.0)).collect();
                    *value -= left_out(&after, room) - of_topic;
                }
            }
        };
        self.left.par_iter_mut().enumerate().for_each(of_leaving);
    }
}

/// sum_b m_b log(sum of the others' + lambda).
pub fn left_out(masses: &[f64], lambda: f64) -> f64 {
    let all: f64 = masses.iter().sum();
    let of_batch = |&m: &f64| if m > 0.0 { m * ((all - m).max(0.0) + lambda).ln() } else { 0.0 };
    masses.iter().map(of_batch).sum()
}

/// Such sums, each under a number, whose logarithms are worked out together.
#[derive(Default)]
struct Sums {
    /// How many terms there are; behind them is room for more.
    len: usize,
    number: Vec<u32>,
    factor: Vec<f64>,
    log: Vec<f64>,
}

impl Sums {
    /// That of these masses, which come to `all`.
    fn push(&mut self, number: u32, masses: &[f64], all: f64, lambda: f64) {
        let room = self.len..self.len + masses.len();
        if self.factor.len() < room.end {
            self.number.resize(2 * room.end, 0);
            self.factor.resize(2 * room.end, 0.0);
            self.log.resize(2 * room.end, 0.0);
        }
        self.number[room.clone()].fill(number);
        let (factor, log) = (&mut self.factor[room.clone()], &mut self.log[room]);
        // Which batches have any is anybody's guess: what has none is written over.
        let mut there = 0;
        for &m in masses {
            (factor[there], log[there]) = (m, (all - m).max(0.0) + lambda);
            there += usize::from(m > 0.0);
        }
        self.len += there;
    }

    /// Add them to what is under their numbers, and have none.
    fn add_to(&mut self, into: &mut [f64]) {
        let len = std::mem::take(&mut self.len);
        lsparse_kernels::ln_slice(&mut self.log[..len]);
        for ((number, factor), log) in self.number[..len].iter().zip(&self.factor).zip(&self.log) {
            into[*number as usize] += factor * log;
        }
    }
}

/// One word in every topic and batch.
struct Column {
    batches: usize,
    /// Topic by topic.
    mass: Vec<f64>,
    sum: Vec<f64>,
    term: Vec<f64>,
    there: Vec<u32>,
    sums: Sums,
}

impl Column {
    fn new(num: usize, batches: usize) -> Self {
        let (mass, there) = (vec![0.0; num * batches], Vec::new());
        Column { batches, mass, sum: vec![0.0; num], term: vec![0.0; num], there, sums: Sums::default() }
    }

    fn fill<'a>(
        &mut self,
        batches: impl Iterator<Item = (&'a [u32], &'a [f32])>,
        is_needed: impl Fn(usize) -> bool,
        lambda: f64,
    ) {
        for (b, (topic, mass)) in batches.enumerate() {
            for (&k, &m) in topic.iter().zip(mass).filter(|(k, _)| is_needed(**k as usize)) {
                if self.sum[k as usize] == 0.0 {
                    self.there.push(k);
                }
                self.sum[k as usize] += f64::from(m);
                self.mass[k as usize * self.batches + b] = f64::from(m);
            }
        }
        for &k in &self.there {
            let masses = &self.mass[k as usize * self.batches..][..self.batches];
            self.sums.push(k, masses, self.sum[k as usize], lambda);
        }
        self.sums.add_to(&mut self.term);
    }

    /// What batches have of the word in a topic.
    fn of(&self, k: u32) -> &[f64] {
        &self.mass[k as usize * self.batches..][..self.batches]
    }

    fn add_to(&self, into: &mut [f64]) {
        self.there.iter().for_each(|&k| into[k as usize] += self.term[k as usize]);
    }

    /// What changes where two topics that both have the word are one.
    fn add_pairs(&mut self, partners: &[Vec<(u32, u32)>], lambda: f64, into: &mut [f64]) {
        let (mut sums, mut both) = (std::mem::take(&mut self.sums), Vec::new());
        for &a in &self.there {
            for &(b, at) in partners[a as usize].iter().filter(|(b, _)| self.sum[*b as usize] > 0.0) {
                both.clear();
                both.extend(self.of(a).iter().zip(self.of(b)).map(|(x, y)| x + y));
                sums.push(at, &both, self.sum[a as usize] + self.sum[b as usize], lambda);
                into[at as usize] -= self.term[a as usize] + self.term[b as usize];
            }
        }
        sums.add_to(into);
        self.sums = sums;
    }

    /// What changes where topics that may leave are gone, each by itself.
    fn add_changes(&mut self, changes: &[Change], lambda: f64, into: &mut [f64]) {
        let mut sums = std::mem::take(&mut self.sums);
        let mut after = Vec::new();
        for of_topic in changes.chunk_by(|x, y| (x.slot, x.topic) == (y.slot, y.topic)) {
            let Change { slot, topic, .. } = of_topic[0];
            after.clear();
            after.extend_from_slice(self.of(topic));
            of_topic.iter().for_each(|change| after[change.batch as usize] += f64::from(change.mass));
            after.iter_mut().for_each(|mass| *mass = left_of(*mass));
            sums.push(slot, &after, after.iter().sum(), lambda);
            into[slot as usize] -= self.term[topic as usize];
        }
        sums.add_to(into);
        self.sums = sums;
    }

    fn clear(&mut self) {
        for k in self.there.drain(..) {
            let k = k as usize;
            (self.sum[k], self.term[k]) = (0.0, 0.0);
            self.mass[k * self.batches..(k + 1) * self.batches].fill(0.0);
        }
    }
}

/// What a batch would have more of a word in a topic if one that may leave did, or less.
pub struct Change {
    /// Which would leave.
    pub slot: u32,
    /// The topic.
    pub topic: u32,
    /// The batch.
    pub batch: u32,
    /// How much.
    pub mass: f32,
}

/// All such changes of a word, in that order, of those that are meant.
pub fn changes_of(memos: &[Arc<TopicSummary>], v: usize, is_meant: impl Fn(u32) -> bool, into: &mut Vec<Change>) {
    into.clear();
    for (b, trial) in trials(memos).enumerate() {
        let meant = trial.left.word(v).iter().filter(|change| is_meant(change.0));
        into.extend(meant.map(|&(slot, topic, mass)| Change { slot, topic, batch: b as u32, mass }));
    }
    // (One list after the other, each in order, which a stable sort merges.)
    into.sort_by_key(|change| u64::from(change.slot) << 32 | u64::from(change.topic));
}

/// A mass that something was taken from: what rounding leaves of all is nothing.
pub fn left_of(mass: f64) -> f64 {
    if mass > ROUNDING { mass } else { 0.0 }
}
