//! Judging changes of the number of topics by what the leave-out objective gains, and making those that gain.
//!
//! The objective of a MAP estimate is no measure: the density of a mode grows with every topic (kos: from -1.6 million
//! with 25 topics to 8 million with 200). The evidence lower bound is one, and it wants far fewer topics than predict best.
//! So the data term of each batch is taken under topics that do not hold what the batch itself has put there:
//!
//! J = sum_b sum_k sum_v S^b_kv log((S_kv - S^b_kv + lambda) / (N_k - N^b_k + lambda V)) + entropy + allocation term
//!     - cost K
//!
//! which is a function of what is remembered of batches, so that the gain of a move is known exactly before it is made.

use std::sync::Arc;

use rayon::prelude::*;

use crate::allocation::{Stick, Tables};
use crate::topics::Topics;
use crate::topics::growth::trial::{PairChange, ROUNDING, Said};
use crate::topics::growth::{GrowthState, unchanged};
use crate::topics::summary::{SparseStats, TopicSummary, WordStats};
use crate::training::moves::{Move, MoveKind, Part, Remap};

/// Words of a parallel task.
const WORDS_A_TASK: usize = 64;

/// S of a batch, or the halves that it gathered.
fn batch_words(memo: &TopicSummary) -> &SparseStats<f32> {
    match &memo.words {
        WordStats::Batch(stats) => stats,
        WordStats::Total(_) => unreachable!("what is remembered of a batch is held as a batch's"),
    }
}

/// The data term with each batch left out: of topics, of halves of topics and of pairs of topics that are one.
pub struct LeaveOut {
    /// Of each topic.
    pub topics: Vec<f64>,
    /// Of each half of a topic that is proposed for a split.
    pub halves: Vec<f64>,
    /// Of each pair that is proposed to be merged.
    pub pairs: Vec<f64>,
}

impl LeaveOut {
    /// Of the topics that batches have now, and those that are proposed.
    pub fn new(topics: &Topics, memos: &[Arc<TopicSummary>], num_halves: usize, pairs: &[(u32, u32)]) -> Self {
        let (num, lambda) = (memos[0].num_topics, topics.lambda);
        let chunks = topics.vocab_size.div_ceil(WORDS_A_TASK);
        let parts: Vec<LeaveOut> = (0..chunks)
            .into_par_iter()
            .with_max_len(1)
            .map(|chunk| {
                let words = chunk * WORDS_A_TASK..((chunk + 1) * WORDS_A_TASK).min(topics.vocab_size);
                let mut of_topics = Column::new(num, memos.len());
                let mut of_halves = Column::new(num_halves, memos.len());
                let mut out = LeaveOut::zero(num, num_halves, pairs.len());
                for v in words {
                    of_topics.fill(memos.iter().map(|memo| batch_words(memo).word(v)));
                    of_topics.add_to(lambda, &mut out.topics);
                    for (value, &(a, b)) in out.pairs.iter_mut().zip(pairs) {
                        *value += of_topics.together(a, b, lambda);
                    }
                    of_topics.clear();
                    if num_halves > 0 {
                        let halves = memos.iter().filter_map(|memo| memo.trial.as_ref());
                        of_halves.fill(halves.map(|trial| trial.halves.word(v)));
                        of_halves.add_to(lambda, &mut out.halves);
                        of_halves.clear();
                    }
                }
                out
            })
            .collect();
        let mut sum = LeaveOut::zero(num, num_halves, pairs.len());
        for part in parts {
            let lists = [(&mut sum.topics, part.topics), (&mut sum.halves, part.halves), (&mut sum.pairs, part.pairs)];
            for (into, from) in lists {
                into.iter_mut().zip(from).for_each(|(a, b)| *a += b);
            }
        }
        // What normalises: N^b log(N - N^b + lambda V).
        let room = lambda * topics.vocab_size as f64;
        let of_counts = |counts: &dyn Fn(usize) -> f64| {
            let all: f64 = (0..memos.len()).map(counts).sum();
            let of_batch = |b: usize| counts(b) * ((all - counts(b)).max(0.0) + room).ln();
            (0..memos.len()).map(of_batch).sum::<f64>()
        };
        let half_counts: Vec<Vec<f64>> = memos.iter().map(|memo| half_counts(memo, num_halves)).collect();
        for (k, value) in sum.topics.iter_mut().enumerate() {
            *value -= of_counts(&|b| memos[b].counts[k]);
        }
        for (h, value) in sum.halves.iter_mut().enumerate() {
            *value -= of_counts(&|b| half_counts[b][h]);
        }
        for (value, &(a, c)) in sum.pairs.iter_mut().zip(pairs) {
            *value -= of_counts(&|b| memos[b].counts[a as usize] + memos[b].counts[c as usize]);
        }
        sum
    }

    fn zero(topics: usize, halves: usize, pairs: usize) -> Self {
        LeaveOut { topics: vec![0.0; topics], halves: vec![0.0; halves], pairs: vec![0.0; pairs] }
    }
}

/// N of the halves of a batch.
fn half_counts(memo: &TopicSummary, num_halves: usize) -> Vec<f64> {
    let mut counts = vec![0.0; num_halves];
    if let Some(trial) = memo.trial.as_ref().filter(|_| num_halves > 0) {
        trial.halves.topic.iter().zip(&trial.halves.mass).for_each(|(&h, &m)| counts[h as usize] += f64::from(m));
    }
    counts
}

/// One word in every topic and batch.
struct Column {
    num: usize,
    mass: Vec<f64>,
    sum: Vec<f64>,
    term: Vec<f64>,
    there: Vec<u32>,
}

impl Column {
    fn new(num: usize, batches: usize) -> Self {
        let (mass, there) = (vec![0.0; num * batches], Vec::new());
        Column { num, mass, sum: vec![0.0; num], term: vec![0.0; num], there }
    }

    fn fill<'a>(&mut self, batches: impl Iterator<Item = (&'a [u32], &'a [f32])>) {
        for (b, (topic, mass)) in batches.enumerate() {
            for (&k, &m) in topic.iter().zip(mass) {
                if self.sum[k as usize] == 0.0 {
                    self.there.push(k);
                }
                self.sum[k as usize] += f64::from(m);
                self.mass[b * self.num + k as usize] = f64::from(m);
            }
        }
    }

    fn batches(&self) -> usize {
        self.mass.len() / self.num.max(1)
    }

    fn add_to(&mut self, lambda: f64, into: &mut [f64]) {
        for &k in &self.there {
            let k = k as usize;
            let of_batch = |b: usize| match self.mass[b * self.num + k] {
                0.0 => 0.0,
                m => m * ((self.sum[k] - m).max(0.0) + lambda).ln(),
            };
            self.term[k] = (0..self.batches()).map(of_batch).sum();
            into[k] += self.term[k];
        }
    }

    /// The same of two topics as one.
    fn together(&self, a: u32, b: u32, lambda: f64) -> f64 {
        let (a, b) = (a as usize, b as usize);
        if self.sum[a] == 0.0 || self.sum[b] == 0.0 {
            return self.term[a] + self.term[b];
        }
        let all = self.sum[a] + self.sum[b];
        let of_batch = |at: usize| match self.mass[at * self.num + a] + self.mass[at * self.num + b] {
            0.0 => 0.0,
            m => m * ((all - m).max(0.0) + lambda).ln(),
        };
        (0..self.batches()).map(of_batch).sum()
    }

    fn clear(&mut self) {
        for k in self.there.drain(..) {
            let k = k as usize;
            (self.sum[k], self.term[k]) = (0.0, 0.0);
            (0..self.mass.len() / self.num).for_each(|b| self.mass[b * self.num + k] = 0.0);
        }
    }
}

/// sum_b m_b log(sum of the others' + lambda).
fn left_out(masses: &[f64], lambda: f64) -> f64 {
    let all: f64 = masses.iter().sum();
    let of_batch = |&m: &f64| if m > 0.0 { m * ((all - m).max(0.0) + lambda).ln() } else { 0.0 };
    masses.iter().map(of_batch).sum()
}

/// J: what is remembered of batches, each scored under topics without it.
pub fn leave_out_objective(topics: &Topics, total: &TopicSummary, memos: &[Arc<TopicSummary>]) -> f64 {
    let words: f64 = LeaveOut::new(topics, memos, 0, &[]).topics.iter().sum();
    words + total.entropy + topics.allocation(&[], total) - cost_of(topics) * total.num_topics as f64
}

/// What a topic costs in nats: a prior exp(-cost K) on K. Without it a topic is worth having that a handful of documents
/// happen to like, since its share is learned from the same documents.
fn cost_of(topics: &Topics) -> f64 {
    topics.finding.as_ref().map_or(0.0, |finding| finding.config.topic_cost())
}

/// N of a topic that is made of these parts.
pub fn size_of(parts: &[Part], total: &TopicSummary, memos: &[Arc<TopicSummary>]) -> f64 {
    let of_half = |k: u32, half: u32| -> f64 {
        let of_memo = |memo: &Arc<TopicSummary>| {
            let trial = memo.trial.as_ref()?;
            let slot = trial.splits.iter().position(|&split| split == k)? as u32;
            let entries = trial.halves.topic.iter().zip(&trial.halves.mass);
            Some(entries.filter(|e| *e.0 == 2 * slot + half).map(|e| f64::from(*e.1)).sum::<f64>())
        };
        memos.iter().filter_map(of_memo).sum()
    };
    let of_part = |part: &Part| match *part {
        Part::Whole(k) => total.counts[k as usize],
        Part::Left(k) => of_half(k, 0),
        Part::Right(k) => of_half(k, 1),
        Part::Inherited { .. } => 0.0,
    };
    parts.iter().map(of_part).sum()
}

/// A change that might be made.
struct Candidate {
    kind: MoveKind,
    /// The topics that it changes: one that is split, two that become one, one that nobody has.
    touches: Vec<u32>,
    /// What it gains but for the stick.
    gain: f64,
    /// What documents say of what comes of it.
    said: Vec<Said>,
    /// Its gain under the alphas of now, by which candidates are put in order.
    about: f64,
}

/// The topics as they are to be.
pub struct Judge<'a> {
    topics: &'a Topics,
    alpha: &'a [f32],
    total: &'a TopicSummary,
    memos: &'a [Arc<TopicSummary>],
    /// What a topic costs.
    cost: f64,
    splits: Vec<u32>,
    pairs: Vec<(u32, u32)>,
    leaving: Vec<u32>,
    candidates: Vec<Candidate>,
    /// Each topic as it will be, with what documents say of it; none where it is gone. Those that are born come behind.
    clusters: Vec<Option<(Vec<Part>, Said)>>,
    made: Vec<(Move, Vec<u32>)>,
}

impl<'a> Judge<'a> {
    /// The topics as they are, and what is proposed of them.
    pub fn new(
        topics: &'a Topics,
        alpha: &'a [f32],
        total: &'a TopicSummary,
        memos: &'a [Arc<TopicSummary>],
        state: &GrowthState,
    ) -> Self {
        let said = |k: usize| Said { tables: total.alpha_topic[k], slope: total.alpha_slope[k], constant: 0.0 };
        let whole = unchanged(total.num_topics).clusters;
        let clusters = whole.into_iter().enumerate().map(|(k, parts)| Some((parts, said(k)))).collect();
        let splits = state.splits.iter().map(|split| split.topic).collect();
        let (candidates, made) = (Vec::new(), Vec::new());
        let (pairs, leaving) = (state.pairs.clone(), state.leaving.clone());
        let cost = cost_of(topics);
        Judge { topics, alpha, total, memos, cost, splits, pairs, leaving, candidates, clusters, made }
    }

    /// Work out what every change that was proposed would gain; says how many they are.
    pub fn consider(&mut self) -> usize {
        let words = LeaveOut::new(self.topics, self.memos, 2 * self.splits.len(), &self.pairs);
        let now = |k: u32| self.clusters[k as usize].as_ref().map_or(Said::default(), |cluster| cluster.1);
        let mut candidates = Vec::new();
        let trials = || self.memos.iter().filter_map(|memo| memo.trial.as_deref());
        for (i, &k) in self.splits.iter().enumerate() {
            let mut said = vec![Said::default(); 2];
            for trial in trials() {
                (0..2).for_each(|half| said[half].add(&trial.said[2 * i + half], 1.0));
            }
            if said.iter().any(|said| said.tables <= 0.0) {
                continue;
            }
            let constant = said[0].constant + said[1].constant;
            let gain = words.halves[2 * i] + words.halves[2 * i + 1] - words.topics[k as usize] + constant;
            let a = f64::from(self.alpha[k as usize]);
            let share = said[0].tables / (said[0].tables + said[1].tables);
            let about = gain + worth(said[0], a * share) + worth(said[1], a * (1.0 - share)) - worth(now(k), a);
            candidates.push(Candidate { kind: MoveKind::Birth, touches: vec![k], gain, said, about });
        }
        for (i, &(a, b)) in self.pairs.iter().enumerate() {
            let mut change = PairChange::default();
            trials().for_each(|trial| change.add(&trial.changes[i]));
            let gain = words.pairs[i] - words.topics[a as usize] - words.topics[b as usize];
            let gain = gain + change.entropy + change.said.constant;
            let mut said = change.said;
            said.add(&now(a), 1.0);
            said.add(&now(b), 1.0);
            let alphas = [a, b].map(|k| f64::from(self.alpha[k as usize]));
            let about = gain + worth(said, alphas[0] + alphas[1]) - worth(now(a), alphas[0]) - worth(now(b), alphas[1]);
            candidates.push(Candidate { kind: MoveKind::Merge, touches: vec![a, b], gain, said: vec![said], about });
        }
        // Topics that nobody has go.
        for k in (0..self.total.num_topics).filter(|&k| self.total.counts[k] <= 0.0) {
            let (touches, said) = (vec![k as u32], Vec::new());
            candidates.push(Candidate { kind: MoveKind::Delete, touches, gain: 0.0, said, about: f64::INFINITY });
        }
        self.candidates = candidates;
        self.candidates.len()
    }

    /// What the stick makes of what documents say of these topics.
    fn stick(&self, clusters: &[Option<(Vec<Part>, Said)>]) -> f64 {
        self.stick_of(clusters.iter().flatten().map(|cluster| cluster.1))
    }

    fn stick_of(&self, said: impl Iterator<Item = Said>) -> f64 {
        let (tables, slopes): (Vec<f64>, Vec<f64>) =
            said.map(|said| (said.tables.max(0.0), said.slope.max(0.0))).unzip();
        let said = Tables { tables: &tables, slopes: &slopes, slope: self.total.alpha_total };
        Stick::best(self.topics.alpha, self.topics.gamma, said).term(self.topics.alpha, said)
    }

    /// What J gains if these topics, which no document has two of, are given up, but for the stick; and what documents say
    /// of all topics then.
    fn without(&self, leave: &[usize]) -> (f64, Vec<Said>) {
        let num = self.total.num_topics;
        let mut said: Vec<Said> = self.clusters.iter().flatten().map(|cluster| cluster.1).collect();
        let mut gain = 0.0;
        // (word, topic, batch, change of mass)
        let mut changes: Vec<(u32, u32, u32, f64)> = Vec::new();
        for (b, trial) in self.memos.iter().filter_map(|memo| memo.trial.as_deref()).enumerate() {
            for (lists, sign) in [(&trial.gone, -1.0), (&trial.instead, 1.0)] {
                for v in 0..lists.vocab_size() {
                    let (number, mass) = lists.word(v);
                    for (&number, &m) in number.iter().zip(mass) {
                        if leave.contains(&(number as usize / num)) {
                            changes.push((v as u32, number % num as u32, b as u32, sign * f64::from(m)));
                        }
                    }
                }
            }
            for &i in leave {
                gain += trial.left_entropy[i];
                for (into, change) in said.iter_mut().zip(&trial.left_said[i * num..(i + 1) * num]) {
                    into.add(&Said { constant: 0.0, ..*change }, 1.0);
                    gain += change.constant;
                }
            }
        }
        changes.sort_by_key(|change| (change.0, change.1, change.2));
        let lambda = self.topics.lambda;
        let batches = self.memos.len();
        let mut of_counts = vec![0.0; num * batches];
        let (mut before, mut after) = (vec![0.0; batches], vec![0.0; batches]);
        for group in changes.chunk_by(|x, y| (x.0, x.1) == (y.0, y.1)) {
            let (v, k) = (group[0].0 as usize, group[0].1);
            for (b, memo) in self.memos.iter().enumerate() {
                let (topic, mass) = batch_words(memo).word(v);
                before[b] = topic.binary_search(&k).map_or(0.0, |at| f64::from(mass[at]));
            }
            after.copy_from_slice(&before);
            for &(_, _, b, change) in group {
                after[b as usize] += change;
                of_counts[k as usize * batches + b as usize] += change;
            }
            after.iter_mut().for_each(|mass| *mass = if *mass > ROUNDING { *mass } else { 0.0 });
            gain += left_out(&after, lambda) - left_out(&before, lambda);
        }
        let room = lambda * self.topics.vocab_size as f64;
        for k in 0..num {
            let change = &of_counts[k * batches..(k + 1) * batches];
            if change.iter().any(|c| *c != 0.0) {
                let before: Vec<f64> = self.memos.iter().map(|memo| memo.counts[k]).collect();
                let after: Vec<f64> = before.iter().zip(change).map(|(n, c)| (n + c).max(0.0)).collect();
                gain -= left_out(&after, room) - left_out(&before, room);
            }
        }
        // What leaves is nobody's any more.
        leave.iter().for_each(|&i| said[self.leaving[i] as usize] = Said::default());
        (gain, said)
    }

    /// Give topics up whose documents are better off without them, one after the other; says whether any was.
    fn give_up(&mut self) -> bool {
        let overlap = |i: usize| {
            let trials = self.memos.iter().filter_map(|memo| memo.trial.as_deref());
            trials.fold(0u64, |bits, trial| bits | trial.overlap[i])
        };
        let stick = |judge: &Self, said: &[Said]| judge.stick_of(said.iter().copied());
        let mut present = self.stick(&self.clusters);
        let mut alone: Vec<(f64, usize)> = (0..self.leaving.len())
            .filter(|&i| self.total.counts[self.leaving[i] as usize] > 0.0)
            .map(|i| {
                let (gain, said) = self.without(&[i]);
                (gain + stick(self, &said) - present + self.cost, i)
            })
            .filter(|alone| alone.0 > 0.0)
            .collect();
        alone.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let (mut leave, mut gained, mut taken) = (Vec::new(), 0.0, 0u64);
        let mut said_now = Vec::new();
        let mut made = Vec::new();
        for (_, i) in alone {
            if overlap(i) & taken != 0 || leave.len() + 1 >= self.total.num_topics {
                continue;
            }
            leave.push(i);
            let (gain, said) = self.without(&leave);
            let after = stick(self, &said);
            let change = gain - gained + after - present + self.cost;
            if change <= 0.0 {
                leave.pop();
                continue;
            }
            (gained, present, taken, said_now) = (gain, after, taken | 1 << i, said);
            made.push((
                Move { kind: MoveKind::Delete, from: Vec::new(), to: Vec::new(), gain: change },
                vec![self.leaving[i]],
            ));
        }
        for (k, said) in said_now.into_iter().enumerate() {
            if let Some(cluster) = &mut self.clusters[k] {
                let inherits = leave.iter().map(|&i| Part::Inherited { from: self.leaving[i], to: k as u32 });
                cluster.0.extend(inherits);
                cluster.1 = said;
            }
        }
        leave.iter().for_each(|&i| self.clusters[self.leaving[i] as usize] = None);
        let any = !made.is_empty();
        self.made.extend(made);
        any
    }

    /// Make the changes that gain, the best first, none of what another has changed. Of equals the smaller number of
    /// topics. Where topics are given up, documents of all others change, and the rest waits for the next lap.
    pub fn accept(&mut self, most: usize) {
        let only_empty = self.give_up();
        if only_empty {
            self.candidates.retain(|candidate| candidate.kind == MoveKind::Delete);
        }
        let mut candidates = std::mem::take(&mut self.candidates);
        for candidate in &mut candidates {
            candidate.about += if candidate.kind == MoveKind::Birth { -self.cost } else { self.cost };
        }
        candidates.retain(|candidate| candidate.about > -SLACK);
        candidates.sort_by(|a, b| b.about.total_cmp(&a.about).then(a.touches.cmp(&b.touches)));
        let mut touched = vec![false; self.total.num_topics];
        let mut present = self.stick(&self.clusters);
        for candidate in candidates {
            let born = candidate.kind == MoveKind::Birth;
            let num = self.clusters.iter().flatten().count();
            let is_free = candidate.touches.iter().all(|&k| !touched[k as usize]);
            if !is_free || (born && num >= most) || (!born && num == 1) {
                continue;
            }
            let first = candidate.touches[0];
            let mut after = self.clusters.clone();
            match candidate.kind {
                MoveKind::Birth => {
                    after[first as usize] = Some((vec![Part::Left(first)], candidate.said[0]));
                    after.push(Some((vec![Part::Right(first)], candidate.said[1])));
                }
                MoveKind::Merge => {
                    let second = candidate.touches[1];
                    let parts = vec![Part::Whole(first), Part::Whole(second)];
                    after[first as usize] = Some((parts, candidate.said[0]));
                    after[second as usize] = None;
                }
                MoveKind::Delete => after[first as usize] = None,
            }
            let stick = self.stick(&after);
            let gain = candidate.gain + stick - present + if born { -self.cost } else { self.cost };
            if gain > 0.0 || (!born && gain > -1e-9 * present.abs()) {
                candidate.touches.iter().for_each(|&k| touched[k as usize] = true);
                let change = Move { kind: candidate.kind, from: Vec::new(), to: Vec::new(), gain };
                self.made.push((change, candidate.touches));
                (self.clusters, present) = (after, stick);
            }
        }
    }

    /// The topics in their new order, and the changes that were made, by lasting numbers.
    pub fn finish(self, ids: &mut Vec<u64>, next_id: &mut u64) -> (Remap, Vec<Move>) {
        let before = ids.clone();
        let mut born: Vec<u64> = Vec::new();
        let mut moves = Vec::new();
        for (mut change, touches) in self.made {
            change.from = touches.iter().map(|&k| before[k as usize]).collect();
            change.to = match change.kind {
                MoveKind::Birth => {
                    born.push(*next_id);
                    *next_id += 1;
                    vec![before[touches[0] as usize], *next_id - 1]
                }
                MoveKind::Merge => vec![before[touches[0] as usize]],
                MoveKind::Delete => Vec::new(),
            };
            moves.push(change);
        }
        let all = before.into_iter().chain(born).zip(&self.clusters);
        *ids = all.filter(|(_, cluster)| cluster.is_some()).map(|(id, _)| id).collect();
        (Remap { clusters: self.clusters.into_iter().flatten().map(|cluster| cluster.0).collect() }, moves)
    }
}

/// What the stick may bring beyond the alphas of now, about: candidates that fall short by more are not looked at.
const SLACK: f64 = 5.0;

/// b log alpha - e alpha.
fn worth(said: Said, alpha: f64) -> f64 {
    said.tables * alpha.max(1e-12).ln() - said.slope * alpha
}
