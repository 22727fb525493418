//! Proposals of splits: two groups of what documents have of a topic.

use std::sync::Arc;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use crate::topics::growth::fewer::changed;
use crate::topics::growth::trial::Example;
use crate::topics::growth::{AGAIN, GrowthState, Places, Proposal, REFINEMENTS, TRIES, Tried};
use crate::topics::local::halves::Halved;
use crate::topics::summary::TopicSummary;
use crate::training::moves::Part;

/// Documents that a split is looked for in, at least.
const LEAST_EXAMPLES: usize = 6;

/// Laps in which what a split gains is to rise above nothing, at the rate of the last, to be worked on.
const SOON: f64 = 5.0;

/// Starts of the two groups, and passes over the documents from each.
const STARTS: usize = 2;
const PASSES: usize = 5;

/// A pass takes the documents in so many parts, each looking at groups without it.
const SHARES: usize = 5;

/// Passes in which documents may have both groups, where any wants to.
const MIXED_PASSES: usize = 10;

/// What a half has of the topic's own frequencies, as a share of what documents have of the topic.
const SMOOTH: f64 = 0.1;

/// A half that has less than this share of a topic is none.
const LEAST_SHARE: f64 = 0.01;

/// Frequencies of the words of a topic, about.
struct Parent<'a> {
    total: &'a TopicSummary,
    topic: u32,
    lambda: f64,
    /// What documents have of its alpha.
    alpha: f64,
}

impl Parent<'_> {
    fn frequency(&self, v: u32) -> f64 {
        let (topics, mass) = self.total.total().word(v as usize);
        let own = topics.binary_search(&self.topic).map_or(0.0, |at| mass[at]);
        let room = self.lambda * self.total.vocab_size() as f64;
        (own + self.lambda) / (self.total.counts[self.topic as usize] + room)
    }
}

/// The proposal whose halves have these words: (word, mass of the first, mass of the second), words ascending; with how
/// often the topic has the word in each place of the list.
fn proposal(
    topic: u32,
    refined: u32,
    words: &[(u32, f64, f64)],
    mut frequency: impl FnMut(usize) -> f64,
) -> Option<Proposal> {
    let sum = |of: fn(&(u32, f64, f64)) -> f64| words.iter().map(of).sum::<f64>();
    let masses = [sum(|w| w.1), sum(|w| w.2)];
    let all = masses[0] + masses[1];
    if all <= 0.0 || masses.iter().any(|mass| *mass < LEAST_SHARE * all) {
        return None;
    }
    let smooth = SMOOTH * all;
    let base = ((masses[1] + smooth) / (masses[0] + smooth)).ln();
    let ratio = |(at, &(v, left, right)): (usize, &(u32, f64, f64))| {
        let own = smooth * frequency(at);
        (v, ((left + own) / (right + own)).ln() as f32)
    };
    let share = masses.map(|mass| (mass / all).clamp(0.05, 0.95));
    let share = share.map(|s| s / (share[0] + share[1]));
    let ratio = words.iter().enumerate().map(ratio).collect();
    Some(Proposal { topic, refined, base: base as f32, ratio, share, gain: None })
}

/// What documents have given to the halves of topics that are proposed for a split.
pub struct Halves {
    splits: Vec<u32>,
    /// (word, mass of the first, mass of the second) of each, words ascending.
    words: Vec<Vec<(u32, f64, f64)>>,
    /// How much that is.
    sizes: Vec<[f64; 2]>,
}

impl Halves {
    /// Of all batches.
    pub fn new(memos: &[Arc<TopicSummary>], vocab_size: usize) -> Self {
        let trials = || memos.iter().filter_map(|memo| memo.trial.as_ref());
        let splits = trials().next().map_or_else(Vec::new, |trial| trial.splits.clone());
        let mut words = vec![Vec::new(); splits.len()];
        let mut sizes = vec![[0.0; 2]; splits.len()];
        let (mut sums, mut there) = (vec![[0.0; 2]; splits.len()], Vec::new());
        for v in 0..if splits.is_empty() { 0 } else { vocab_size } {
            for trial in trials() {
                let (half, mass) = trial.halves.word(v);
                for (&half, &m) in half.iter().zip(mass) {
                    sums[half as usize / 2][half as usize % 2] += f64::from(m);
                    there.push(half / 2);
                }
            }
            there.sort_unstable();
            there.dedup();
            for slot in there.drain(..) {
                let sum = std::mem::take(&mut sums[slot as usize]);
                words[slot as usize].push((v as u32, sum[0], sum[1]));
                (0..2).for_each(|half| sizes[slot as usize][half] += sum[half]);
            }
        }
        Halves { splits, words, sizes }
    }

    /// N of a topic that is made of these parts.
    pub fn size_of(&self, parts: &[Part], total: &TopicSummary, memos: &[Arc<TopicSummary>]) -> f64 {
        let of_half = |k: u32, half: usize| {
            self.splits.iter().position(|&split| split == k).map_or(0.0, |slot| self.sizes[slot][half])
        };
        let of_part = |part: &Part| match *part {
            Part::Whole(k) => total.counts[k as usize],
            Part::Piece { of, at } => of_half(of, at as usize),
            Part::Inherited { from, .. } => memos.iter().map(|memo| memo.counts[from as usize]).sum(),
        };
        parts.iter().map(of_part).sum()
    }
}

/// Proposals that came to nothing yet, with halves as the documents have made them; counts what was tried in vain.
pub(super) fn refined(
    state: &mut GrowthState,
    halves: &Halves,
    total: &TopicSummary,
    lambda: f64,
    (places, gains): (&Places, &[f64]),
) -> Vec<Proposal> {
    let mut going_on = Vec::new();
    for (going, (split, words)) in state.splits.iter().zip(&halves.words).enumerate() {
        let Some(to) = places.stayed[split.topic as usize] else { continue };
        let parent = Parent { total, topic: split.topic, lambda, alpha: 0.0 };
        let gain = gains[going];
        // What rises as it does goes on, if it were worth having soon.
        let rises = split.gain.is_some_and(|before| gain > before && gain + SOON * (gain - before) > 0.0);
        let again = (split.refined < REFINEMENTS || rises)
            .then(|| proposal(to, split.refined + 1, words, |at| parent.frequency(words[at].0)));
        match again.flatten() {
            Some(proposal) => going_on.push(Proposal { gain: Some(gain), ..proposal }),
            None => {
                let tried = &mut state.tried[to as usize];
                (tried.splits, tried.size) = (tried.splits + 1, total.counts[split.topic as usize]);
                tried.split_at = state.generation;
            }
        }
    }
    going_on
}

/// Splits of topics that examples were wanted of, and of the halves that have come of such.
pub(super) fn fresh(
    state: &GrowthState,
    total: &TopicSummary,
    memos: &[Arc<TopicSummary>],
    (lambda, alpha): (f64, &[f32]),
    (places, going_on): (&Places, &[Proposal]),
) -> Vec<Proposal> {
    // Which topic, where it is now, and the half of it that is meant.
    let mut wanted: Vec<(u32, u32, u32, Option<u32>)> = Vec::new();
    for (slot, &k) in state.wanted.iter().enumerate() {
        let going_on = |to: u32| going_on.iter().any(|split| split.topic == to);
        let whole = places.stayed[k as usize].filter(|&to| !going_on(to));
        wanted.extend(whole.map(|to| (slot as u32, k, to, None)));
        for (half, to) in places.halves[k as usize].into_iter().flatten().enumerate() {
            wanted.push((slot as u32, k, to, Some(half as u32)));
        }
    }
    let trials = || memos.iter().filter_map(|memo| memo.trial.as_ref());
    let of_topic = |&(slot, k, to, half): &(u32, u32, u32, Option<u32>)| {
        let is_meant = |example: &&Example| example.slot == slot && (half.is_none() || example.half == half);
        let examples: Vec<&Example> = trials().flat_map(|trial| &trial.examples).filter(is_meant).collect();
        let seed = state.generation.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ state.ids_of(to);
        let share =
            half.and_then(|half| Some(state.splits.iter().find(|split| split.topic == k)?.share[half as usize]));
        let alpha = f64::from(alpha[k as usize]) * share.unwrap_or(1.0);
        let parent = Parent { total, topic: k, lambda, alpha };
        let (words, frequency) = two_groups(&examples, &parent, &mut ChaCha8Rng::seed_from_u64(seed))?;
        proposal(to, 0, &words, |at| frequency[at])
    };
    wanted.par_iter().with_max_len(1).map(of_topic).collect::<Vec<_>>().into_iter().flatten().collect()
}

/// The words of two groups, and how often the topic has each.
type TwoGroups = (Vec<(u32, f64, f64)>, Vec<f64>);

/// Two groups of examples, by passes in which each goes to the group that explains it better without it.
fn two_groups(examples: &[&Example], parent: &Parent<'_>, rng: &mut ChaCha8Rng) -> Option<TwoGroups> {
    if examples.len() < LEAST_EXAMPLES {
        return None;
    }
    let mut words: Vec<u32> = examples.iter().flat_map(|example| example.words.iter().copied()).collect();
    words.sort_unstable();
    words.dedup();
    let place = |v: &u32| words.binary_search(v).unwrap_or_default() as u32;
    let documents: Vec<Vec<(u32, f64)>> = examples
        .iter()
        .map(|e| e.words.iter().map(place).zip(e.mass.iter().map(|&m| f64::from(m))).collect())
        .collect();
    let length: Vec<f64> = documents.iter().map(|document| document.iter().map(|w| w.1).sum()).collect();
    let all: f64 = length.iter().sum();
    let smooth = SMOOTH * all;
    let frequency: Vec<f64> = words.iter().map(|&v| parent.frequency(v)).collect();
    let own: Vec<f64> = frequency.iter().map(|frequency| smooth * frequency).collect();
    let mut best: Option<(f64, Vec<usize>)> = None;
    for _ in 0..STARTS {
        // One document, and of a few others the one that it explains worst.
        let first = rng.random_range(0..documents.len());
        let mut groups = Groups::new(&documents, &length, &own);
        groups.put(first, 0, 1.0);
        groups.look();
        let badly = |n: usize| groups.score(n, 0) / length[n];
        let others: Vec<usize> = (0..6).map(|_| rng.random_range(0..documents.len())).collect();
        let second = others.into_iter().filter(|&n| n != first).min_by(|&a, &b| badly(a).total_cmp(&badly(b)))?;
        groups.put(second, 1, 1.0);
        let mut taken = vec![None; documents.len()];
        (taken[first], taken[second]) = (Some(0), Some(1));
        let mut value = 0.0;
        for pass in 0..PASSES {
            value = 0.0;
            let mut moved = false;
            for share in 0..SHARES {
                let members = || (share..documents.len()).step_by(SHARES);
                // (At first a group is one document, without which there is none.)
                if pass > 0 {
                    members().for_each(|n| taken[n].into_iter().for_each(|g| groups.put(n, g, -1.0)));
                }
                groups.look();
                for n in members() {
                    let scores = [0, 1].map(|g| groups.score(n, g));
                    let to = usize::from(scores[1] > scores[0]);
                    value += scores[to];
                    moved |= taken[n] != Some(to);
                    if pass == 0 {
                        taken[n].into_iter().for_each(|g| groups.put(n, g, -1.0));
                    }
                    taken[n] = Some(to);
                }
                members().for_each(|n| taken[n].into_iter().for_each(|g| groups.put(n, g, 1.0)));
            }
            if !moved {
                break;
            }
        }
        let both = groups.sizes.iter().all(|size| *size >= LEAST_SHARE * all);
        if both && best.as_ref().is_none_or(|best| value > best.0) {
            best = Some((value, taken.into_iter().map(Option::unwrap_or_default).collect()));
        }
    }
    let (_, taken) = best?;
    let mut groups = Groups::new(&documents, &length, &own);
    groups.mix(&taken, parent.alpha);
    let sums = groups.sums[0].iter().zip(&groups.sums[1]);
    let sums = words.into_iter().zip(sums).map(|(v, (first, second))| (v, first.max(0.0), second.max(0.0)));
    Some((sums.collect(), frequency))
}

/// Two groups of documents, and what their words come to.
struct Groups<'a> {
    documents: &'a [Vec<(u32, f64)>],
    length: &'a [f64],
    /// What a group has of each word before any document is in it.
    own: &'a [f64],
    sums: [Vec<f64>; 2],
    sizes: [f64; 2],
    /// How much more likely a word is in a group than in none, and all words together, as logarithms.
    logs: [Vec<f32>; 2],
    room: [f64; 2],
}

impl<'a> Groups<'a> {
    fn new(documents: &'a [Vec<(u32, f64)>], length: &'a [f64], own: &'a [f64]) -> Self {
        let (sums, logs) = ([(); 2].map(|()| vec![0.0; own.len()]), [(); 2].map(|()| vec![0.0; own.len()]));
        Groups { documents, length, own, sums, sizes: [0.0; 2], logs, room: [0.0; 2] }
    }

    fn put(&mut self, n: usize, group: usize, sign: f64) {
        self.documents[n].iter().for_each(|&(w, c)| self.sums[group][w as usize] += sign * c);
        self.sizes[group] += sign * self.length[n];
    }

    /// Bring what scores are made of to the groups as they are.
    fn look(&mut self) {
        let smooth = SMOOTH * self.length.iter().sum::<f64>();
        for group in 0..2 {
            let of_word = |(log, (sum, own)): (&mut f32, (&f64, &f64))| *log = ((sum.max(0.0) + own) / own) as f32;
            self.logs[group].iter_mut().zip(self.sums[group].iter().zip(self.own)).for_each(of_word);
            lsparse_kernels::ln_slice(&mut self.logs[group]);
            self.room[group] = ((self.sizes[group].max(0.0) + smooth) / smooth).ln();
        }
    }

    /// Sums of documents of which each may have both groups, from those in which it has one. Where none wants both they stay
    /// as they are.
    fn mix(&mut self, taken: &[usize], alpha: f64) {
        let (documents, mut shared): (_, Vec<Halved>) = (self.documents, Vec::new());
        for (n, &group) in taken.iter().enumerate() {
            self.put(n, group, 1.0);
            shared.push(Halved::of_one(documents[n].iter().map(|&(_, c)| c as f32), group));
        }
        for _ in 0..MIXED_PASSES {
            let all = self.sizes[0] + self.sizes[1];
            let alphas = self.sizes.map(|size| alpha * (size / all).clamp(0.05, 0.95));
            let mut mixes = false;
            for share in 0..SHARES {
                let members = || (share..documents.len()).step_by(SHARES);
                for n in members() {
                    put_shared(&mut self.sums, &mut self.sizes, (&documents[n], &shared[n]), -1.0);
                }
                self.look();
                for n in members() {
                    let halved = &mut shared[n];
                    halved.begin(0);
                    for &(w, c) in &documents[n] {
                        let [first, second] = [0, 1].map(|g| f64::from(self.logs[g][w as usize]) - self.room[g]);
                        halved.push(c as f32, (first - second) as f32);
                    }
                    halved.share_out(alphas, self.length[n]);
                    mixes |= halved.counts.iter().all(|count| *count > 0.0);
                }
                for n in members() {
                    put_shared(&mut self.sums, &mut self.sizes, (&documents[n], &shared[n]), 1.0);
                }
            }
            if !mixes {
                break;
            }
        }
    }

    /// What a document scores in a group.
    fn score(&self, n: usize, group: usize) -> f64 {
        let words = self.documents[n].iter().map(|&(w, c)| c * f64::from(self.logs[group][w as usize]));
        words.sum::<f64>() - self.length[n] * self.room[group]
    }
}

/// Give groups what a document shares out, or take it from them.
fn put_shared(sums: &mut [Vec<f64>; 2], sizes: &mut [f64; 2], (document, shared): (&[(u32, f64)], &Halved), sign: f64) {
    for (at, &(w, _)) in document.iter().enumerate() {
        for (half, mass) in shared.of_token(at).into_iter().enumerate() {
            sums[half][w as usize] += sign * f64::from(mass);
            sizes[half] += sign * f64::from(mass);
        }
    }
}

/// Topics that examples are wanted of, the largest first: those that may be split, and those that are proposed, whose
/// halves may be split at once.
pub(super) fn wanted(state: &GrowthState, sizes: &[f64], room: bool) -> Vec<u32> {
    if !room {
        return Vec::new();
    }
    let is_open = |&k: &usize| {
        let Tried { splits, size, split_at, .. } = state.tried[k];
        splits < TRIES || changed(sizes[k], size) || state.generation >= split_at + AGAIN
    };
    let mut open: Vec<usize> = (0..sizes.len()).filter(is_open).collect();
    open.sort_by(|&a, &b| sizes[b].total_cmp(&sizes[a]).then(a.cmp(&b)));
    open.truncate(state.most_wanted);
    open.sort_unstable();
    open.into_iter().map(|k| k as u32).collect()
}

impl GrowthState {
    fn ids_of(&self, k: u32) -> u64 {
        self.ids.get(k as usize).copied().unwrap_or_default()
    }
}
