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

use std::collections::HashMap;
use std::sync::Arc;

use rayon::prelude::*;

use crate::allocation::{Stick, Tables};
use crate::topics::Topics;
use crate::topics::growth::fewer::{Alike, Heir};
use crate::topics::growth::trial::{PairChange, ROUNDING, Said};
use crate::topics::growth::{GrowthState, Leaving, unchanged};
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
    /// Of each topic that is asked for; zero of the others.
    pub topics: Vec<f64>,
    /// Of each half of a topic that is proposed for a split.
    pub halves: Vec<f64>,
    /// Of each pair that is proposed to be merged, less that of the two.
    pub pairs: Vec<f64>,
}

impl LeaveOut {
    /// Of those topics that batches have now which are asked for, and of those that are proposed; the topics of pairs must
    /// be among the former.
    pub fn new(
        topics: &Topics,
        memos: &[Arc<TopicSummary>],
        asked: &[bool],
        num_halves: usize,
        pairs: &[(u32, u32)],
    ) -> Self {
        let (num, lambda) = (asked.len(), topics.lambda);
        let chunks = topics.vocab_size.div_ceil(WORDS_A_TASK);
        let mut partners: Vec<Vec<(u32, u32)>> = vec![Vec::new(); num];
        pairs.iter().enumerate().for_each(|(at, &(a, b))| partners[a as usize].push((b, at as u32)));
        let parts: Vec<LeaveOut> = (0..chunks)
            .into_par_iter()
            .with_max_len(1)
            .map(|chunk| {
                let words = chunk * WORDS_A_TASK..((chunk + 1) * WORDS_A_TASK).min(topics.vocab_size);
                let mut of_topics = Column::new(num, memos.len());
                let mut of_halves = Column::new(num_halves, memos.len());
                let mut out = LeaveOut::zero(num, num_halves, pairs.len());
                for v in words {
                    of_topics.fill(memos.iter().map(|memo| batch_words(memo).word(v)), |k| asked[k]);
                    of_topics.add_to(lambda, &mut out.topics);
                    of_topics.add_pairs(&partners, lambda, &mut out.pairs);
                    of_topics.clear();
                    if num_halves > 0 {
                        let halves = memos.iter().filter_map(|memo| memo.trial.as_ref());
                        of_halves.fill(halves.map(|trial| trial.halves.word(v)), |_| true);
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
        for (k, value) in sum.topics.iter_mut().enumerate().filter(|(k, _)| asked[*k]) {
            *value -= of_counts(&|b| memos[b].counts[k]);
        }
        for (h, value) in sum.halves.iter_mut().enumerate() {
            *value -= of_counts(&|b| half_counts[b][h]);
        }
        for (value, &(a, c)) in sum.pairs.iter_mut().zip(pairs) {
            let counts = |b: usize| [a, c].map(|k| memos[b].counts[k as usize]);
            *value -= of_counts(&|b| counts(b)[0] + counts(b)[1]);
            *value += of_counts(&|b| counts(b)[0]) + of_counts(&|b| counts(b)[1]);
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

    fn fill<'a>(&mut self, batches: impl Iterator<Item = (&'a [u32], &'a [f32])>, asked: impl Fn(usize) -> bool) {
        for (b, (topic, mass)) in batches.enumerate() {
            for (&k, &m) in topic.iter().zip(mass).filter(|(k, _)| asked(**k as usize)) {
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

    /// What changes where two topics that both have the word are one.
    fn add_pairs(&self, partners: &[Vec<(u32, u32)>], lambda: f64, into: &mut [f64]) {
        for &a in &self.there {
            for &(b, at) in partners[a as usize].iter().filter(|(b, _)| self.sum[*b as usize] > 0.0) {
                into[at as usize] += self.together(a as usize, b as usize, lambda);
            }
        }
    }

    fn together(&self, a: usize, b: usize, lambda: f64) -> f64 {
        let all = self.sum[a] + self.sum[b];
        let of_batch = |at: usize| match self.mass[at * self.num + a] + self.mass[at * self.num + b] {
            0.0 => 0.0,
            m => m * ((all - m).max(0.0) + lambda).ln(),
        };
        (0..self.batches()).map(of_batch).sum::<f64>() - self.term[a] - self.term[b]
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
    let words: f64 = LeaveOut::new(topics, memos, &vec![true; total.num_topics], 0, &[]).topics.iter().sum();
    words + total.entropy + topics.allocation(&[], total) - cost_of(topics) * total.num_topics as f64
}

/// What a topic costs in nats: a prior exp(-cost K) on K. Without it a topic is worth having that a handful of documents
/// happen to like, since its share is learned from the same documents.
fn cost_of(topics: &Topics) -> f64 {
    topics.finding.as_ref().map_or(0.0, |finding| finding.config.topic_cost())
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
    leaving: Vec<Leaving>,
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
        let mut asked = vec![false; self.total.num_topics];
        let of_pairs = self.pairs.iter().flat_map(|&(a, b)| [a, b]);
        self.splits.iter().copied().chain(of_pairs).for_each(|k| asked[k as usize] = true);
        let words = LeaveOut::new(self.topics, self.memos, &asked, 2 * self.splits.len(), &self.pairs);
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
            let gain = words.pairs[i] + change.entropy + change.said.constant;
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

    /// For each topic the one that would best take its place: the partner whose merge with it gains most with documents as
    /// they are, or the one that is most like it.
    pub(super) fn heirs(&self, alike: &Alike) -> Vec<Option<Heir>> {
        let most_like = |k: usize| alike.partners(k).next().map(|other| Heir { topic: other as u32, gain: None });
        let mut heirs: Vec<Option<Heir>> = (0..self.total.num_topics).map(most_like).collect();
        for candidate in self.candidates.iter().filter(|candidate| candidate.kind == MoveKind::Merge) {
            let (a, b) = (candidate.touches[0], candidate.touches[1]);
            for (k, other) in [(a, b), (b, a)] {
                let heir = Heir { topic: other, gain: Some(candidate.about) };
                let is_better = |now: &Heir| now.gain.is_none_or(|gain| gain < candidate.about);
                if heirs[k as usize].as_ref().is_none_or(is_better) {
                    heirs[k as usize] = Some(heir);
                }
            }
        }
        heirs
    }

    /// Give topics up whose documents are better off without them, one after the other; marks the topics that it changes.
    fn give_up(&mut self, touched: &mut [bool]) {
        if self.leaving.is_empty() {
            return;
        }
        let memos = self.memos;
        let overlap = |i: usize| {
            let trials = memos.iter().filter_map(|memo| memo.trial.as_deref());
            trials.fold(0u64, |bits, trial| bits | trial.overlap[i])
        };
        let mut said_now: Vec<Said> = self.clusters.iter().flatten().map(|cluster| cluster.1).collect();
        let mut present = self.stick_of(said_now.iter().copied());
        let left = self.what_leaves();
        let mut state = Left::new(self.topics, self.memos);
        let alone = |i: usize| {
            // Most are not worth a stick of their own.
            let is_near = self.about(&state, &left[i], &said_now) > -SLACK_OF_LEAVING;
            (if is_near { self.without(&state, &left[i], &said_now, present).0 } else { f64::NEG_INFINITY }, i)
        };
        let there = (0..left.len()).into_par_iter().filter(|&i| self.total.counts[left[i].topic as usize] > 0.0);
        let mut alone: Vec<(f64, usize)> = there.map(alone).filter(|alone| alone.0 > 0.0).collect();
        alone.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let (mut left_so_far, mut taken) = (0, 0u64);
        for (_, i) in alone {
            let leaves = &left[i];
            if overlap(i) & taken != 0 || left_so_far + 1 >= self.total.num_topics {
                continue;
            }
            let (change, said, after) = self.without(&state, leaves, &said_now, present);
            if change <= 0.0 {
                continue;
            }
            (said_now, present, taken, left_so_far) = (said, after, taken | 1 << i, left_so_far + 1);
            state.make(leaves);
            // (A document may say something of a topic that it has next to nothing of.)
            leaves.words.iter().for_each(|change| touched[change.1 as usize] = true);
            leaves.said.iter().for_each(|change| touched[change.0 as usize] = true);
            let made = Move { kind: MoveKind::Delete, from: Vec::new(), to: Vec::new(), gain: change };
            self.made.push((made, vec![leaves.topic]));
            if let Some(heir) = &mut self.clusters[leaves.heir as usize] {
                heir.0.push(Part::Inherited { from: leaves.topic, to: leaves.heir });
            }
            self.clusters[leaves.topic as usize] = None;
        }
        for (cluster, said) in self.clusters.iter_mut().zip(said_now) {
            cluster.iter_mut().for_each(|cluster| cluster.1 = said);
        }
    }

    /// What J gains if a topic is given up, about: under the alphas of now, that of the topic with the heir's.
    fn about(&self, state: &Left<'_>, leaves: &Leaves, now: &[Said]) -> f64 {
        let [topic, heir] = [leaves.topic, leaves.heir].map(|k| (k, f64::from(self.alpha[k as usize])));
        let said = leaves.said_with(now);
        let of_others = leaves.said.iter().filter(|change| change.0 != topic.0 && change.0 != heir.0);
        let mut change: f64 = of_others.map(|&(k, change)| worth(change, f64::from(self.alpha[k as usize]))).sum();
        change += worth(said[heir.0 as usize], heir.1 + topic.1) - worth(now[heir.0 as usize], heir.1);
        change -= worth(now[topic.0 as usize], topic.1);
        leaves.gain + state.gain(leaves) + change + self.cost
    }

    /// What J gains if one more topic is given up, what documents say of topics then, and what the stick makes of that;
    /// `present` is what it makes of what they say now.
    fn without(&self, state: &Left<'_>, leaves: &Leaves, now: &[Said], present: f64) -> (f64, Vec<Said>, f64) {
        let said = leaves.said_with(now);
        let after = self.stick_of(said.iter().copied());
        (leaves.gain + state.gain(leaves) + after - present + self.cost, said, after)
    }

    /// What changes with each topic that may be given up.
    fn what_leaves(&self) -> Vec<Leaves> {
        let num = self.total.num_topics;
        let of = |&Leaving { topic, heir, .. }: &Leaving| Leaves { topic, heir, ..Leaves::default() };
        let mut left: Vec<Leaves> = self.leaving.iter().map(of).collect();
        for (b, trial) in self.memos.iter().filter_map(|memo| memo.trial.as_deref()).enumerate() {
            for (lists, sign) in [(&trial.gone, -1.0), (&trial.instead, 1.0)] {
                for v in 0..lists.vocab_size() {
                    let (number, mass) = lists.word(v);
                    for (&number, &m) in number.iter().zip(mass) {
                        let change = (v as u32, number % num as u32, b as u32, sign * f64::from(m));
                        left[number as usize / num].words.push(change);
                    }
                }
            }
            for (i, leaves) in left.iter_mut().enumerate() {
                leaves.gain += trial.left_entropy[i];
                for (k, change) in trial.left_said[i * num..(i + 1) * num].iter().enumerate() {
                    if *change != Said::default() {
                        leaves.gain += change.constant;
                        leaves.said.push((k as u32, Said { constant: 0.0, ..*change }));
                    }
                }
            }
        }
        left.par_iter_mut().for_each(|leaves| leaves.words.sort_by_key(|change| (change.0, change.1, change.2)));
        left
    }

    /// Make the changes that gain, the best first, none of what another has changed. Of equals the smaller number of
    /// topics.
    pub fn accept(&mut self, most: usize) {
        let mut touched = vec![false; self.total.num_topics];
        self.give_up(&mut touched);
        let mut candidates = std::mem::take(&mut self.candidates);
        for candidate in &mut candidates {
            candidate.about += if candidate.kind == MoveKind::Birth { -self.cost } else { self.cost };
        }
        candidates.retain(|candidate| candidate.about > -SLACK);
        candidates.sort_by(|a, b| b.about.total_cmp(&a.about).then(a.touches.cmp(&b.touches)));
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
                    after[first as usize] = Some((vec![Part::Piece { of: first, at: 0 }], candidate.said[0]));
                    after.push(Some((vec![Part::Piece { of: first, at: 1 }], candidate.said[1])));
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

/// What changes where a topic is given up and its documents have others instead.
#[derive(Default)]
struct Leaves {
    topic: u32,
    heir: u32,
    /// (word, topic, batch, change of mass), in that order.
    words: Vec<(u32, u32, u32, f64)>,
    /// What documents say of topics changes by.
    said: Vec<(u32, Said)>,
    /// What J gains by all but words and the stick.
    gain: f64,
}

impl Leaves {
    /// What documents say of all topics without this one.
    fn said_with(&self, now: &[Said]) -> Vec<Said> {
        let mut said = now.to_vec();
        self.said.iter().for_each(|(k, change)| said[*k as usize].add(change, 1.0));
        // What leaves is nobody's any more.
        said[self.topic as usize] = Said::default();
        said
    }
}

/// What batches have, with those topics left that were given up so far.
struct Left<'a> {
    lambda: f64,
    room: f64,
    memos: &'a [Arc<TopicSummary>],
    /// By word and topic, and by topic: what each batch has, where it is not as remembered.
    words: HashMap<(u32, u32), Vec<f64>>,
    counts: HashMap<u32, Vec<f64>>,
}

impl<'a> Left<'a> {
    fn new(topics: &Topics, memos: &'a [Arc<TopicSummary>]) -> Self {
        let room = topics.lambda * topics.vocab_size as f64;
        Left { lambda: topics.lambda, room, memos, words: HashMap::new(), counts: HashMap::new() }
    }

    /// What batches have of a word in a topic.
    fn word(&self, v: u32, k: u32, into: &mut Vec<f64>) {
        into.clear();
        if let Some(changed) = self.words.get(&(v, k)) {
            into.extend_from_slice(changed);
            return;
        }
        into.extend(self.memos.iter().map(|memo| {
            let (topic, mass) = batch_words(memo).word(v as usize);
            topic.binary_search(&k).map_or(0.0, |at| f64::from(mass[at]))
        }));
    }

    fn count(&self, k: u32) -> Vec<f64> {
        let remembered = || self.memos.iter().map(|memo| memo.counts[k as usize]).collect();
        self.counts.get(&k).cloned().unwrap_or_else(remembered)
    }

    /// Each word and topic that changes: what batches have of it before and after. Then the same of topics as a whole.
    fn changes(
        &self,
        leaves: &Leaves,
        mut of_word: impl FnMut(u32, u32, &[f64], &[f64]),
        mut of_topic: impl FnMut(u32, &[f64], Vec<f64>),
    ) {
        let (mut before, mut after) = (Vec::new(), Vec::new());
        let mut counts: HashMap<u32, Vec<f64>> = HashMap::new();
        for group in leaves.words.chunk_by(|x, y| (x.0, x.1) == (y.0, y.1)) {
            let (v, k) = (group[0].0, group[0].1);
            self.word(v, k, &mut before);
            after.clone_from(&before);
            let count = counts.entry(k).or_insert_with(|| vec![0.0; self.memos.len()]);
            for &(_, _, b, change) in group {
                after[b as usize] += change;
                count[b as usize] += change;
            }
            after.iter_mut().for_each(|mass| *mass = if *mass > ROUNDING { *mass } else { 0.0 });
            of_word(v, k, &before, &after);
        }
        let mut counts: Vec<(u32, Vec<f64>)> = counts.into_iter().collect();
        counts.sort_unstable_by_key(|count| count.0);
        for (k, change) in counts {
            let before = self.count(k);
            let after = before.iter().zip(change).map(|(n, c)| (n + c).max(0.0)).collect();
            of_topic(k, &before, after);
        }
    }

    /// What the data term of J gains.
    fn gain(&self, leaves: &Leaves) -> f64 {
        let (mut of_words, mut of_topics) = (0.0, 0.0);
        self.changes(
            leaves,
            |_, _, before, after| of_words += left_out(after, self.lambda) - left_out(before, self.lambda),
            |_, before, after| of_topics -= left_out(&after, self.room) - left_out(before, self.room),
        );
        of_words + of_topics
    }

    /// Give it up.
    fn make(&mut self, leaves: &Leaves) {
        let (mut words, mut counts) = (Vec::new(), Vec::new());
        self.changes(
            leaves,
            |v, k, _, after| words.push(((v, k), after.to_vec())),
            |k, _, after| counts.push((k, after)),
        );
        self.words.extend(words);
        self.counts.extend(counts);
    }
}

/// What the stick may bring beyond the alphas of now, about: candidates that fall short by more are not looked at.
const SLACK: f64 = 5.0;

/// The same of a topic that may be given up: its own stick goes too.
const SLACK_OF_LEAVING: f64 = 40.0;

/// b log alpha - e alpha.
fn worth(said: Said, alpha: f64) -> f64 {
    said.tables * alpha.max(1e-12).ln() - said.slope * alpha
}
