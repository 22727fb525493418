//! Proposals of splits and merges: two groups of what documents have of a topic, and topics that are alike.

use std::sync::Arc;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use crate::topics::growth::trial::Example;
use crate::topics::growth::{CHANGE, GrowthState, LEAVING, MOST_LEAVING, Proposal, REFINEMENTS, TRIES, Tried};
use crate::topics::summary::TopicSummary;
use crate::training::moves::{Part, Remap};

/// Documents that a split is looked for in, at least.
const LEAST_EXAMPLES: usize = 6;

/// Starts of the two groups, and passes over the documents from each.
const STARTS: usize = 4;
const PASSES: usize = 8;

/// What a half has of the topic's own frequencies, as a share of what documents have of the topic.
const SMOOTH: f64 = 0.1;

/// A half that has less than this share of a topic is none.
const LEAST_SHARE: f64 = 0.01;

/// Topics that a topic may be merged with, those that are most like it.
const PARTNERS: usize = 4;

/// Topics of a word that likeness is measured by.
const TOPICS_A_WORD: usize = 32;

/// Topics that examples are wanted of at most.
const MOST_WANTED: usize = 64;

/// Frequencies of the words of a topic, about.
struct Parent<'a> {
    total: &'a TopicSummary,
    topic: u32,
    lambda: f64,
}

impl Parent<'_> {
    fn frequency(&self, v: u32) -> f64 {
        let (topics, mass) = self.total.total().word(v as usize);
        let own = topics.binary_search(&self.topic).map_or(0.0, |at| mass[at]);
        let room = self.lambda * self.total.vocab_size() as f64;
        (own + self.lambda) / (self.total.counts[self.topic as usize] + room)
    }
}

/// The proposal whose halves have these words: (word, mass of the first, mass of the second), words ascending.
fn proposal(topic: u32, refined: u32, words: &[(u32, f64, f64)], parent: &Parent<'_>) -> Option<Proposal> {
    let sum = |of: fn(&(u32, f64, f64)) -> f64| words.iter().map(of).sum::<f64>();
    let masses = [sum(|w| w.1), sum(|w| w.2)];
    let all = masses[0] + masses[1];
    if all <= 0.0 || masses.iter().any(|mass| *mass < LEAST_SHARE * all) {
        return None;
    }
    let smooth = SMOOTH * all;
    let base = ((masses[1] + smooth) / (masses[0] + smooth)).ln();
    let ratio = |&(v, left, right): &(u32, f64, f64)| {
        let own = smooth * parent.frequency(v);
        (v, ((left + own) / (right + own)).ln() as f32)
    };
    let share = masses.map(|mass| (mass / all).clamp(0.05, 0.95));
    let share = share.map(|s| s / (share[0] + share[1]));
    Some(Proposal { topic, refined, base: base as f32, ratio: words.iter().map(ratio).collect(), share })
}

/// Where each topic that stays as it was goes.
fn stayed(plan: &Remap, num_topics: usize) -> Vec<Option<u32>> {
    let mut places = vec![None; num_topics];
    for (to, parts) in plan.clusters.iter().enumerate() {
        if let [Part::Whole(k)] = parts[..] {
            places[k as usize] = Some(to as u32);
        }
    }
    places
}

/// Proposals that came to nothing yet, with halves as the documents have made them; counts what was tried in vain.
pub fn refined(
    state: &mut GrowthState,
    was: &[Tried],
    total: &TopicSummary,
    memos: &[Arc<TopicSummary>],
    lambda: f64,
    plan: &Remap,
) -> Vec<Proposal> {
    let places = stayed(plan, total.num_topics);
    state.tried = vec![Tried::default(); plan.clusters.len()];
    for (k, to) in places.iter().enumerate() {
        to.iter().for_each(|&to| state.tried[to as usize] = was[k]);
    }
    for &k in &state.leaving {
        places[k as usize].iter().for_each(|&to| state.tried[to as usize].left_size = total.counts[k as usize]);
    }
    let mut going_on = Vec::new();
    for (slot, split) in state.splits.iter().enumerate() {
        let Some(to) = places[split.topic as usize] else { continue };
        let again = (split.refined < REFINEMENTS).then(|| {
            let parent = Parent { total, topic: split.topic, lambda };
            proposal(to, split.refined + 1, &halves(memos, slot as u32, total.vocab_size()), &parent)
        });
        match again.flatten() {
            Some(proposal) => going_on.push(proposal),
            None => {
                let tried = &mut state.tried[to as usize];
                (tried.splits, tried.size) = (tried.splits + 1, total.counts[split.topic as usize]);
            }
        }
    }
    going_on
}

/// The words of both halves of a proposal, of all batches.
fn halves(memos: &[Arc<TopicSummary>], slot: u32, vocab_size: usize) -> Vec<(u32, f64, f64)> {
    let mut sums = vec![(0.0, 0.0); vocab_size];
    for trial in memos.iter().filter_map(|memo| memo.trial.as_ref()) {
        for (v, sum) in sums.iter_mut().enumerate() {
            let (half, mass) = trial.halves.word(v);
            let from = half.partition_point(|&h| h < 2 * slot);
            for (&h, &m) in half[from..].iter().zip(&mass[from..]).take_while(|e| *e.0 <= 2 * slot + 1) {
                *(if h == 2 * slot { &mut sum.0 } else { &mut sum.1 }) += f64::from(m);
            }
        }
    }
    let there = sums.into_iter().enumerate().filter(|(_, sum)| sum.0 + sum.1 > 0.0);
    there.map(|(v, sum)| (v as u32, sum.0, sum.1)).collect()
}

/// Splits of topics that examples were wanted of.
pub fn fresh(
    state: &GrowthState,
    total: &TopicSummary,
    memos: &[Arc<TopicSummary>],
    lambda: f64,
    plan: &Remap,
) -> Vec<Proposal> {
    let places = stayed(plan, total.num_topics);
    let trials = || memos.iter().filter_map(|memo| memo.trial.as_ref());
    let of_slot = |(slot, &k): (usize, &u32)| {
        let to = places[k as usize]?;
        let examples: Vec<&Example> =
            trials().flat_map(|trial| &trial.examples).filter(|example| example.slot == slot as u32).collect();
        let seed = state.generation.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ state.ids_of(to);
        let parent = Parent { total, topic: k, lambda };
        let words = two_groups(&examples, &parent, &mut ChaCha8Rng::seed_from_u64(seed))?;
        proposal(to, 0, &words, &parent)
    };
    state.wanted.par_iter().enumerate().with_max_len(1).map(of_slot).collect::<Vec<_>>().into_iter().flatten().collect()
}

/// Two groups of examples, by passes in which each goes to the group that explains it better without it.
fn two_groups(examples: &[&Example], parent: &Parent<'_>, rng: &mut ChaCha8Rng) -> Option<Vec<(u32, f64, f64)>> {
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
    let own: Vec<f64> = words.iter().map(|&v| smooth * parent.frequency(v)).collect();
    // What a document scores in a group of these words, or in one that it is taken out of.
    let score = |n: usize, group: &[f64], size: f64, inside: bool| {
        let of_word = |&(w, c): &(u32, f64)| {
            let mass = group[w as usize] - if inside { c } else { 0.0 };
            c * ((mass.max(0.0) + own[w as usize]) / own[w as usize]).ln()
        };
        let size = size - if inside { length[n] } else { 0.0 };
        documents[n].iter().map(of_word).sum::<f64>() - length[n] * ((size.max(0.0) + smooth) / smooth).ln()
    };
    let mut best: Option<(f64, Vec<usize>)> = None;
    for _ in 0..STARTS {
        // One document, and of a few others the one that it explains worst.
        let first = rng.random_range(0..documents.len());
        let mut alone = vec![0.0; words.len()];
        documents[first].iter().for_each(|&(w, c)| alone[w as usize] = c);
        let badly = |n: usize| score(n, &alone, length[first], false) / length[n];
        let others: Vec<usize> = (0..6).map(|_| rng.random_range(0..documents.len())).collect();
        let second = others.into_iter().filter(|&n| n != first).min_by(|&a, &b| badly(a).total_cmp(&badly(b)))?;
        let mut groups = [alone.clone(), vec![0.0; words.len()]];
        documents[second].iter().for_each(|&(w, c)| groups[1][w as usize] = c);
        let mut sizes = [length[first], length[second]];
        let mut taken = vec![usize::MAX; documents.len()];
        (taken[first], taken[second]) = (0, 1);
        let mut value = 0.0;
        for _ in 0..PASSES {
            value = 0.0;
            let mut moved = false;
            for n in 0..documents.len() {
                let scores = [0, 1].map(|g| score(n, &groups[g], sizes[g], taken[n] == g));
                let to = usize::from(scores[1] > scores[0]);
                value += scores[to];
                if taken[n] != to {
                    moved = true;
                    for (g, sign) in [(taken[n], -1.0), (to, 1.0)] {
                        if g < 2 {
                            documents[n].iter().for_each(|&(w, c)| groups[g][w as usize] += sign * c);
                            sizes[g] += sign * length[n];
                        }
                    }
                    taken[n] = to;
                }
            }
            if !moved {
                break;
            }
        }
        let both = (0..2).all(|g| sizes[g] >= LEAST_SHARE * all);
        if both && best.as_ref().is_none_or(|best| value > best.0) {
            best = Some((value, taken));
        }
    }
    let (_, taken) = best?;
    let mut sums = vec![[0.0; 2]; words.len()];
    for (document, &group) in documents.iter().zip(&taken) {
        document.iter().for_each(|&(w, c)| sums[w as usize][group] += c);
    }
    Some(words.into_iter().zip(sums).map(|(v, sum)| (v, sum[0], sum[1])).collect())
}

/// Pairs of topics that are most alike, as the plan numbers them; the halves of a split are alike.
pub fn pairs(total: &TopicSummary, plan: &Remap) -> Vec<(u32, u32)> {
    let num = total.num_topics;
    let stats = total.total();
    let mut alike = vec![0.0f32; num * num];
    let mut of_word: Vec<(u32, f32)> = Vec::new();
    for v in 0..stats.vocab_size() {
        let (topic, mass) = stats.word(v);
        of_word.clear();
        // sqrt(phi_a phi_b), the sum of which is 1 for the same.
        let root = |(&k, &m): (&u32, &f64)| (k, (m / total.counts[k as usize].max(1.0)).sqrt() as f32);
        of_word.extend(topic.iter().zip(mass).map(root));
        if of_word.len() > TOPICS_A_WORD {
            of_word.select_nth_unstable_by(TOPICS_A_WORD, |a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            of_word.truncate(TOPICS_A_WORD);
        }
        for &(a, x) in &of_word {
            of_word.iter().for_each(|&(b, y)| alike[a as usize * num + b as usize] += x * y);
        }
    }
    let mut places: Vec<Vec<u32>> = vec![Vec::new(); num];
    let mut found = Vec::new();
    for (to, parts) in plan.clusters.iter().enumerate() {
        for part in parts {
            let (Part::Whole(k) | Part::Left(k) | Part::Right(k)) = *part else { continue };
            places[k as usize].push(to as u32);
        }
    }
    for a in 0..num {
        let mut others: Vec<usize> = (0..num).filter(|&b| b != a).collect();
        let of = |b: usize| alike[a * num + b];
        others.sort_by(|&b, &c| of(c).total_cmp(&of(b)).then(b.cmp(&c)));
        for b in others.into_iter().take(PARTNERS).chain([a]) {
            for &x in &places[a] {
                found.extend(places[b].iter().filter(|&&y| y != x).map(|&y| (x.min(y), x.max(y))));
            }
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Whether a size is another than it was.
fn changed(now: f64, before: f64) -> bool {
    (now - before).abs() > CHANGE * before
}

/// The topics that may be given up next: the smallest that were not tried at their size.
pub fn leaving(state: &GrowthState, sizes: &[f64]) -> Vec<u32> {
    let num = sizes.len();
    let mut small: Vec<usize> = (0..num).filter(|&k| num > 1 && changed(sizes[k], state.tried[k].left_size)).collect();
    small.sort_by(|&a, &b| sizes[a].total_cmp(&sizes[b]).then(a.cmp(&b)));
    small.truncate(num.div_ceil(LEAVING).min(MOST_LEAVING));
    small.sort_unstable();
    small.into_iter().map(|k| k as u32).collect()
}

/// Topics that examples are wanted of: those that may be split and are not proposed, the largest first.
pub fn wanted(state: &GrowthState, sizes: &[f64], room: bool) -> Vec<u32> {
    if !room {
        return Vec::new();
    }
    let is_open = |&k: &usize| {
        let Tried { splits, size, .. } = state.tried[k];
        (splits < TRIES || changed(sizes[k], size)) && state.splits.iter().all(|split| split.topic as usize != k)
    };
    let mut open: Vec<usize> = (0..sizes.len()).filter(is_open).collect();
    open.sort_by(|&a, &b| sizes[b].total_cmp(&sizes[a]).then(a.cmp(&b)));
    open.truncate(MOST_WANTED);
    open.sort_unstable();
    open.into_iter().map(|k| k as u32).collect()
}

impl GrowthState {
    fn ids_of(&self, k: u32) -> u64 {
        self.ids.get(k as usize).copied().unwrap_or_default()
    }
}
