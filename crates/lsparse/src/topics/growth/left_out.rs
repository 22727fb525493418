//! The data term of the leave-out objective: of topics as they are, and of what might become of them.
//!
//! All of it is sums of m log(what the other batches have + lambda), gathered word by word; the logarithms of a word are
//! worked out together.

use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;

use crate::backend::with_buffers;
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
        let of_words = |words: Range<usize>, buffers: &mut Buffers| {
            let Buffers { of_topics, of_halves, changed, is_changed } = buffers;
            of_topics.begin(num, memos.len());
            of_halves.begin(num_halves, memos.len());
            changed.begin(leaving.len() * num);
            is_changed.resize(num, false);
            let mut out = zero();
            for v in words {
                let changes = || changes_in(memos, v).filter(|(_, change)| is_asked(change.0));
                changes().for_each(|(_, change)| is_changed[change.1 as usize] = true);
                let is_needed = |k: usize| asked[k] || is_changed[k];
                of_topics.fill(memos.iter().map(|memo| batch_words(memo).word(v)), is_needed, lambda);
                of_topics.add_to(&mut out.topics);
                of_topics.add_pairs(&partners, lambda, &mut out.pairs);
                of_topics.add_changes(changes(), changed, lambda, &mut out.left);
                of_topics.clear();
                changes().for_each(|(_, change)| is_changed[change.1 as usize] = false);
                if num_halves > 0 {
                    of_halves.fill(trials(memos).map(|trial| trial.halves.word(v)), |_| true, lambda);
                    of_halves.add_to(&mut out.halves);
                    of_halves.clear();
                }
            }
            out
        };
        let of_chunk = |chunk: usize| {
            let words = chunk * WORDS_A_TASK..((chunk + 1) * WORDS_A_TASK).min(topics.vocab_size);
            with_buffers(|buffers: &mut Buffers| of_words(words, buffers))
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

/// Sums that are worked out side by side.
const LANES: usize = 8;

/// Such sums, eight side by side: the masses of a batch in eight sums, then those of the next batch.
#[derive(Default)]
struct Sums {
    batches: usize,
    /// How many sums there are.
    len: usize,
    mass: Vec<f64>,
    log: Vec<f64>,
    value: Vec<f64>,
}

impl Sums {
    /// One more, of no mass yet.
    fn open(&mut self) -> usize {
        let (at, size) = (self.len, LANES * self.batches);
        if at.is_multiple_of(LANES) {
            let end = (at / LANES + 1) * size;
            if self.mass.len() < end {
                self.mass.resize(end, 0.0);
                self.log.resize(end, 0.0);
            }
            self.mass[end - size..end].fill(0.0);
        }
        self.len += 1;
        at
    }

    /// Where the mass of the first batch stands; the others follow in steps of `LANES`.
    fn place(&self, at: usize) -> usize {
        at / LANES * LANES * self.batches + at % LANES
    }

    /// The masses of a sum, batch by batch.
    fn masses(&self, at: usize) -> impl Iterator<Item = f64> + '_ {
        let place = self.place(at);
        (0..self.batches).map(move |b| self.mass[place + b * LANES])
    }

    /// Open one with these masses.
    fn push(&mut self, masses: impl Iterator<Item = f64>) -> usize {
        let at = self.open();
        let place = self.place(at);
        masses.enumerate().for_each(|(b, mass)| self.mass[place + b * LANES] = mass);
        at
    }

    /// Work them out. What rounding has left of a mass is nothing, where something was `taken`.
    fn work_out(&mut self, lambda: f64, taken: bool) {
        let size = LANES * self.batches;
        let used = self.len.div_ceil(LANES) * size;
        let (mass, log) = (&mut self.mass[..used], &mut self.log[..used]);
        for (mass, log) in mass.chunks_exact_mut(size.max(1)).zip(log.chunks_exact_mut(size.max(1))) {
            let mut all = [0.0; LANES];
            for of_batch in mass.chunks_exact_mut(LANES) {
                if taken {
                    of_batch.iter_mut().for_each(|mass| *mass = left_of(*mass));
                }
                all.iter_mut().zip(of_batch).for_each(|(all, mass)| *all += *mass);
            }
            for (of_batch, logs) in mass.chunks_exact(LANES).zip(log.chunks_exact_mut(LANES)) {
                let others = |((log, mass), all): ((&mut f64, &f64), &f64)| *log = (all - mass).max(0.0) + lambda;
                logs.iter_mut().zip(of_batch).zip(&all).for_each(others);
            }
        }
        lsparse_kernels::ln_slice(log);
        self.value.clear();
        for (mass, log) in mass.chunks_exact(size.max(1)).zip(log.chunks_exact(size.max(1))) {
            let mut sums = [0.0; LANES];
            for (of_batch, logs) in mass.chunks_exact(LANES).zip(log.chunks_exact(LANES)) {
                sums.iter_mut().zip(of_batch.iter().zip(logs)).for_each(|(sum, (mass, log))| *sum += mass * log);
            }
            self.value.extend_from_slice(&sums);
        }
    }
}

/// Memory that serves task after task.
#[derive(Default)]
struct Buffers {
    of_topics: Column,
    of_halves: Column,
    changed: Places,
    is_changed: Vec<bool>,
}

/// Which sum is under a number, where there is one.
#[derive(Default)]
struct Places {
    place: Vec<u32>,
    there: Vec<u32>,
}

const NOWHERE: u32 = u32::MAX;

impl Places {
    /// Room for so many; none is there, as whoever fills it leaves it.
    fn begin(&mut self, num: usize) {
        self.place.resize(num, NOWHERE);
    }

    fn get(&self, number: u32) -> Option<usize> {
        Some(self.place[number as usize]).filter(|&at| at != NOWHERE).map(|at| at as usize)
    }

    fn put(&mut self, number: u32, at: usize) {
        self.place[number as usize] = at as u32;
        self.there.push(number);
    }

    fn clear(&mut self) {
        let Places { place, there } = self;
        there.drain(..).for_each(|number| place[number as usize] = NOWHERE);
    }
}

/// One word in every topic and batch.
#[derive(Default)]
struct Column {
    num: u32,
    topics: Places,
    own: Sums,
    /// What might become of them, and under which number.
    others: Sums,
    number: Vec<u32>,
}

impl Column {
    fn begin(&mut self, num: usize, batches: usize) {
        self.num = num as u32;
        self.topics.begin(num);
        (self.own.batches, self.others.batches) = (batches, batches);
    }

    fn fill<'a>(
        &mut self,
        batches: impl Iterator<Item = (&'a [u32], &'a [f32])>,
        is_needed: impl Fn(usize) -> bool,
        lambda: f64,
    ) {
        for (b, (topic, mass)) in batches.enumerate() {
            for (&k, &m) in topic.iter().zip(mass).filter(|(k, _)| is_needed(**k as usize)) {
                let at = self.topics.get(k).unwrap_or_else(|| {
                    let at = self.own.open();
                    self.topics.put(k, at);
                    at
                });
                let place = self.own.place(at) + b * LANES;
                self.own.mass[place] = f64::from(m);
            }
        }
        self.own.work_out(lambda, false);
    }

    fn add_to(&self, into: &mut [f64]) {
        self.topics.there.iter().zip(&self.own.value).for_each(|(&k, value)| into[k as usize] += value);
    }

    /// What changes where two topics that both have the word are one.
    fn add_pairs(&mut self, partners: &[Vec<(u32, u32)>], lambda: f64, into: &mut [f64]) {
        for (a, &k) in self.topics.there.iter().enumerate() {
            for &(other, number) in &partners[k as usize] {
                let Some(b) = self.topics.get(other) else { continue };
                self.others.push(self.own.masses(a).zip(self.own.masses(b)).map(|(x, y)| x + y));
                self.number.push(number);
                into[number as usize] -= self.own.value[a] + self.own.value[b];
            }
        }
        self.add_others(lambda, false, into);
    }

    /// What changes where topics that may leave are gone, each by itself: (batch, (which, topic, change of mass)).
    fn add_changes(
        &mut self,
        changes: impl Iterator<Item = (usize, (u32, u32, f32))>,
        changed: &mut Places,
        lambda: f64,
        into: &mut [f64],
    ) {
        for (b, (slot, topic, change)) in changes {
            let key = slot * self.num + topic;
            let at = changed.get(key).unwrap_or_else(|| {
                let own = self.topics.get(topic);
                let at = match own {
                    Some(own) => self.others.push(self.own.masses(own)),
                    None => self.others.open(),
                };
                changed.put(key, at);
                self.number.push(slot);
                into[slot as usize] -= own.map_or(0.0, |own| self.own.value[own]);
                at
            });
            let place = self.others.place(at) + b * LANES;
            self.others.mass[place] += f64::from(change);
        }
        changed.clear();
        self.add_others(lambda, true, into);
    }

    /// Add what might become of topics to what is under its number, and have none of it.
    fn add_others(&mut self, lambda: f64, taken: bool, into: &mut [f64]) {
        self.others.work_out(lambda, taken);
        self.number.drain(..).zip(&self.others.value).for_each(|(number, value)| into[number as usize] += value);
        self.others.len = 0;
    }

    fn clear(&mut self) {
        self.topics.clear();
        self.own.len = 0;
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

/// Such changes of a word, batch by batch.
fn changes_in(memos: &[Arc<TopicSummary>], v: usize) -> impl Iterator<Item = (usize, (u32, u32, f32))> + '_ {
    let lists = trials(memos).enumerate();
    lists.flat_map(move |(b, trial)| trial.left.word(v).iter().map(move |&change| (b, change)))
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
