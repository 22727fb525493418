//! Finding K while topics train: topics are split and merged at the end of laps, whatever raises the leave-out objective.
//!
//! A lap gathers what its documents would do (`local/trial.rs`, kept by `trial.rs`), its end judges the proposals of the
//! lap before by what was remembered of batches (`judge.rs`) and makes the next (`propose.rs`). What is proposed and what
//! has been tried goes with the parameters, so that a run that is resumed, or whose batches are worked out elsewhere, is
//! the same run.

pub mod concentration;
mod fewer;
pub mod judge;
mod left_out;
mod optimism;
mod propose;
mod spare;
pub mod trial;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::likelihood::Estimate;
use crate::settings::TopicsConfig;
use crate::topics::local::document::DocumentOptions;
use crate::topics::summary::TopicSummary;
use crate::topics::{TopicParams, Topics};
use crate::training::moves::{Changes, Move, MoveKind, Part, Remap};

use concentration::Concentration;
use fewer::Alike;
use judge::Judge;
use optimism::Optimism;
use propose::Halves;
use trial::Trial;

/// Laps that the halves of a proposed split are worked on after the first, each time from what the documents made of them.
const REFINEMENTS: u32 = 1;

/// Splits of a topic that are tried before it is left alone.
const TRIES: u32 = 2;

/// What came to nothing is tried again when a size that it depends on has changed by this share, or after so many laps.
const CHANGE: f64 = 0.25;
const AGAIN: u64 = 20;

/// Topics of which a split is looked for in a lap: twice as many where a quarter of the splits before were made, half as
/// many where not.
const FIRST_SPLITS: usize = 8;
const MOST_SPLITS: usize = 64;
const LEAST_SPLITS: usize = 4;

/// Documents that are worked out again without a topic in a lap, as a share of all, by the same rule. Of more tokens than
/// `FEW_TOKENS` it is less at most, by the square of how many times more they are: what is tried takes its time from laps
/// that are long.
const MOST_LEAVING: f64 = 0.4;
const MOST_OF_MANY: f64 = 0.05;
const FEW_TOKENS: f64 = 160_000.0;
const FIRST_LEAVING: f64 = 0.1;
const LEAST_LEAVING: f64 = 0.02;

/// A start of no more topics than this begins with splits: that of many has its own groups, and shows first what they are
/// worth.
const FEW: usize = 16;

/// Laps that change less than one topic in a hundred after which what is still to be tried is no reason to go on.
const PATIENCE: u32 = 8;
const QUIET: usize = 100;

/// Laps from one that all pairs are judged in to the next, while topics are neither merged nor given up: what a merge gains
/// changes little then.
const PAIRS_EVERY: u64 = 3;

/// Examples of a topic that a split is looked for in, at most, and of all topics together where they are few.
const EXAMPLES: usize = 160;
const EXAMPLES_OF_FEW: usize = 2_000;

/// Tokens of a word that a topic has at least where it is one of its words.
const LEAST_WORD: f64 = 0.5;

/// What finding K needs besides documents and settings.
pub struct Finding {
    /// Topics at most.
    pub most: usize,
    /// Settings of the run.
    pub config: TopicsConfig,
}

impl Finding {
    /// Settings of the document step with so many topics.
    pub fn document(&self, num_topics: usize) -> DocumentOptions {
        DocumentOptions::of(&TopicsConfig { topics: num_topics, ..self.config.clone() })
    }
}

/// What was tried of a topic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Tried {
    /// Splits that came to nothing.
    splits: u32,
    /// The size that the topic had then, and when that was.
    size: f64,
    split_at: u64,
    /// The size at which giving it up came to nothing, that of its heir, and when that was.
    left_size: f64,
    heir_size: f64,
    left_at: u64,
}

/// A split that is proposed: by how much more a word is the first half's than the second's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Proposal {
    topic: u32,
    /// Laps that its halves have been worked on.
    refined: u32,
    /// log of the ratio of the halves' frequencies for words that are not listed.
    base: f32,
    /// The same for words that are, less that.
    ratio: Vec<(u32, f32)>,
    /// What share of the topic each half has.
    share: [f64; 2],
    /// What it would have gained, about, with the halves as they were before.
    gain: Option<f64>,
}

/// A topic that may be given up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Leaving {
    /// Which.
    pub topic: u32,
    /// The one that takes its place, with the words of both.
    pub heir: u32,
    /// Whether documents of the heir are worked out again too: those of twins are used to having two.
    pub twins: bool,
}

impl Leaving {
    /// Whether another cannot be tried beside it: one of the two would be the other's heir, or both are one.
    fn bars(&self, other: &Leaving) -> bool {
        [self.topic, self.heir].contains(&other.topic) || self.topic == other.heir
    }
}

/// What is proposed and what was tried.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GrowthState {
    /// Counts proposals, so that statistics of others are not taken for theirs.
    generation: u64,
    /// The lasting number of each topic.
    ids: Vec<u64>,
    next_id: u64,
    tried: Vec<Tried>,
    /// Topics that may be split, ascending.
    splits: Vec<Proposal>,
    /// Pairs that may be merged, ascending.
    pairs: Vec<(u32, u32)>,
    /// Topics that may be given up, ascending.
    leaving: Vec<Leaving>,
    /// Topics that examples are wanted of, to be split next; halves of those that are split now take theirs with them.
    wanted: Vec<u32>,
    /// How many of them there may be.
    most_wanted: usize,
    /// What share of the documents may be worked out again.
    leaving_share: f64,
    /// When topics were last given up or merged.
    fewer_at: u64,
    /// Laps with next to no change.
    quiet: u32,
    /// Batches, among which the examples are shared out.
    batches: usize,
    /// What the objective promises too much, and whether a batch is still listened to that says so.
    optimism: Optimism,
    /// The concentration of documents' topics.
    concentration: Concentration,
}

/// What is proposed, fit for documents to look at.
pub struct Proposals {
    /// Which these are.
    pub generation: u64,
    /// Topics that may be split.
    pub splits: Vec<u32>,
    /// For each topic its place among them.
    pub slot_of: Vec<Option<u32>>,
    /// What share of the topic each half has.
    pub share: Vec<[f64; 2]>,
    /// log of the ratio of the halves' frequencies for any word, less what `ratios` has.
    pub scale: Vec<f32>,
    /// V x splits.
    ratio: Vec<f32>,
    /// For each topic those with a higher number that it may be merged with, and the number of the pair.
    pub partners: Vec<Vec<(u32, u32)>>,
    /// Topics that may be given up.
    pub leaving: Vec<Leaving>,
    /// For each topic those among them whose documents include its own.
    pub concerns: Vec<Vec<u32>>,
    /// For each topic its place among them.
    pub leaving_slot: Vec<Option<u32>>,
    /// For each topic its place among those that examples are wanted of.
    pub wanted_slot: Vec<Option<u32>>,
    /// Whether some documents are only listened to.
    listens: bool,
    /// How the concentration is looked for.
    pub concentration: Concentration,
}

impl Proposals {
    /// Whether the document in this place of a panel is only listened to: topics are to have nothing of it.
    pub fn only_listens_to(&self, place: usize) -> bool {
        // (Of a handful none is spared.)
        self.listens && place % optimism::ONE_IN == optimism::ONE_IN / 2
    }

    /// Of a word, for each topic that may be split.
    pub fn ratios(&self, word: u32) -> &[f32] {
        let width = self.splits.len();
        &self.ratio[word as usize * width..(word as usize + 1) * width]
    }
}

/// What is proposed, in both forms.
pub struct Growth {
    state: GrowthState,
    proposals: Proposals,
}

impl Growth {
    /// Before the first lap nothing is proposed, and examples are wanted of all if they are few.
    pub fn begin((num_topics, vocab_size): (usize, usize), alpha: f64, estimate: Estimate) -> Self {
        let ids: Vec<u64> = (0..num_topics as u64).collect();
        let state = GrowthState {
            next_id: num_topics as u64,
            ids,
            tried: vec![Tried::default(); num_topics],
            wanted: (0..num_topics as u32).filter(|_| num_topics <= FEW).collect(),
            most_wanted: FIRST_SPLITS,
            leaving_share: FIRST_LEAVING,
            batches: 10,
            optimism: Optimism::begin(estimate),
            concentration: Concentration::begin(alpha),
            ..GrowthState::default()
        };
        Growth::of(state, vocab_size)
    }

    /// The same from what was saved.
    pub fn of(state: GrowthState, vocab_size: usize) -> Self {
        let num = state.ids.len();
        let width = state.splits.len();
        let mut proposals = Proposals {
            generation: state.generation,
            splits: state.splits.iter().map(|split| split.topic).collect(),
            slot_of: vec![None; num],
            share: state.splits.iter().map(|split| split.share).collect(),
            scale: state.splits.iter().map(|split| split.base).collect(),
            ratio: vec![0.0; vocab_size * width],
            partners: vec![Vec::new(); num],
            leaving: state.leaving.clone(),
            leaving_slot: vec![None; num],
            concerns: vec![Vec::new(); num],
            wanted_slot: vec![None; num],
            listens: state.optimism.listens(),
            concentration: state.concentration.clone(),
        };
        for (slot, split) in state.splits.iter().enumerate() {
            proposals.slot_of[split.topic as usize] = Some(slot as u32);
            for &(word, ratio) in &split.ratio {
                proposals.ratio[word as usize * width + slot] = ratio;
            }
        }
        for (at, &(a, b)) in state.pairs.iter().enumerate() {
            proposals.partners[a as usize].push((b, at as u32));
        }
        for (slot, leaving) in state.leaving.iter().enumerate() {
            proposals.leaving_slot[leaving.topic as usize] = Some(slot as u32);
            proposals.concerns[leaving.topic as usize].push(slot as u32);
            if leaving.twins {
                proposals.concerns[leaving.heir as usize].push(slot as u32);
            }
        }
        for (slot, &k) in state.wanted.iter().enumerate() {
            proposals.wanted_slot[k as usize] = Some(slot as u32);
        }
        Growth { state, proposals }
    }

    /// What documents are to look at.
    pub fn proposals(&self) -> &Proposals {
        &self.proposals
    }

    /// What is to be saved.
    pub fn state(&self) -> &GrowthState {
        &self.state
    }

    /// Room for what a visit gathers.
    pub fn trial(&self, vocab_size: usize) -> Trial {
        let of_topic = EXAMPLES.max(EXAMPLES_OF_FEW / self.state.wanted.len().max(1));
        let most_examples = of_topic.div_ceil(self.state.batches.max(1));
        Trial::new(self.state.generation, &self.proposals, &self.state.pairs, vocab_size, most_examples)
    }
}

impl GrowthState {
    /// The concentration of documents' topics.
    pub fn concentration(&self) -> f64 {
        self.concentration.now
    }

    /// How many topics it is of.
    pub fn num_topics(&self) -> usize {
        self.ids.len()
    }
}

/// At the end of a lap: judge what was proposed, and make the next proposals.
pub fn moves(
    topics: &mut Topics,
    params: &mut TopicParams,
    total: &TopicSummary,
    memos: &[Arc<TopicSummary>],
) -> Result<Option<Changes>> {
    let (Some(growth), Some(finding)) = (params.growth.clone(), &topics.finding) else { return Ok(None) };
    let mut state = growth.state.clone();
    let of_now = |memo: &Arc<TopicSummary>| memo.trial.as_ref().is_some_and(|t| t.generation == state.generation);
    let most_reached = total.num_topics >= finding.most;
    let mut changes = Changes { proposed: Some(0), most_reached, ..Changes::default() };
    // In the lap after a batch was taken out, say, there may be nothing to go by.
    if memos.is_empty() || !memos.iter().all(of_now) {
        return Ok(Some(changes));
    }
    let promised = state.optimism.hear(memos, &words_of(total, &state.leaving));
    let mut judge = Judge::new(topics, &params.alpha, total, memos, &state, promised);
    changes.proposed = Some(judge.consider());
    let alike = Alike::new(total);
    let heirs = judge.heirs(&alike);
    let of_splits = judge.gains_of_splits();
    judge.accept(finding.most);
    let (promised, was_needed) = judge.made_up();
    changes.promised = promised;
    let (plan, moves) = judge.finish(&mut state.ids, &mut state.next_id);
    changes.most_reached = plan.clusters.len() >= finding.most;
    state.weigh_success(&moves, total.counts.iter().sum());
    if moves.iter().any(|change| change.kind != MoveKind::Birth) {
        // With others gone, those that were worth having may not be any more.
        state.fewer_at = state.generation;
    }
    let halves = Halves::new(memos, total.vocab_size());
    let sizes: Vec<f64> = plan.clusters.iter().map(|parts| halves.size_of(parts, total, memos)).collect();
    let places = Places::of(&plan, total.num_topics);
    state.note_what_failed(&places, total, &sizes);
    let going_on = propose::refined(&mut state, &halves, total, topics.lambda, (&places, &of_splits));
    let fresh = propose::fresh(&state, total, memos, (topics.lambda, &params.alpha), (&places, &going_on));
    state.splits = going_on;
    state.splits.extend(fresh);
    state.splits.sort_by_key(|split| split.topic);
    let room = plan.clusters.len() < finding.most;
    if !room {
        state.splits.clear();
    }
    let is_due = state.fewer_at == state.generation || state.generation.is_multiple_of(PAIRS_EVERY);
    state.pairs = if is_due { alike.pairs(&places) } else { Vec::new() };
    state.generation += 1;
    state.batches = memos.len();
    state.leaving =
        fewer::leaving(&state, &sizes, (total, memos), (&heirs, &alike), (&places, finding.config.topic_cost()));
    state.wanted = propose::wanted(&state, &sizes, room);
    let idle = state.splits.is_empty() && state.wanted.is_empty() && state.leaving.is_empty();
    state.quiet = if QUIET * moves.len() < sizes.len() { state.quiet + 1 } else { 0 };
    changes.restless = !(moves.is_empty() && idle) && state.quiet < PATIENCE;
    // Whoever was only listened to is to be heard before the end.
    changes.restless |= state.optimism.end((changes.restless, was_needed));
    let tokens = total.counts.iter().sum();
    if state.concentration.hear(memos, total.num_topics, tokens) {
        topics.alpha = state.concentration.now;
        changes.restless = true;
    }
    if !moves.is_empty() {
        params.alpha = plan.clusters.iter().map(|parts| alpha_of(parts, &params.alpha, &growth.proposals)).collect();
        changes.remap = Some(plan);
    }
    changes.moves = moves;
    params.growth = Some(Arc::new(Growth::of(state, topics.vocab_size)));
    Ok(Some(changes))
}

impl GrowthState {
    /// More of what paid, less of what did not, where documents have so many tokens.
    fn weigh_success(&mut self, moves: &[Move], tokens: f64) {
        let paid = |kind: MoveKind, proposed: usize| 4 * moves.iter().filter(|m| m.kind == kind).count() >= proposed;
        if !self.splits.is_empty() {
            let next =
                if paid(MoveKind::Birth, self.splits.len()) { 2 * self.most_wanted } else { self.most_wanted / 2 };
            self.most_wanted = next.clamp(LEAST_SPLITS, MOST_SPLITS);
        }
        if !self.leaving.is_empty() {
            let factor = if paid(MoveKind::Delete, self.leaving.len()) { 2.0 } else { 0.5 };
            self.leaving_share = (factor * self.leaving_share).clamp(LEAST_LEAVING, most_leaving(tokens));
        }
    }

    /// Bring what was tried to the new topics, and note which of those that might have been given up are there still.
    fn note_what_failed(&mut self, places: &Places, total: &TopicSummary, sizes: &[f64]) {
        let was = std::mem::take(&mut self.tried);
        self.tried = vec![Tried::default(); sizes.len()];
        for (k, tried) in was.into_iter().enumerate() {
            places.stayed[k].iter().for_each(|&to| self.tried[to as usize] = tried);
        }
        for &Leaving { topic: k, heir, .. } in &self.leaving {
            let Some(to) = places.stayed[k as usize] else { continue };
            let tried = &mut self.tried[to as usize];
            let size = |k: u32| total.counts[k as usize];
            (tried.left_size, tried.heir_size, tried.left_at) = (size(k), size(heir), self.generation);
        }
    }
}

/// How many words topics have that may be given up.
fn words_of(total: &TopicSummary, leaving: &[Leaving]) -> Vec<f64> {
    let mut words = vec![0.0; if leaving.is_empty() { 0 } else { total.num_topics }];
    let stats = total.total();
    if !leaving.is_empty() {
        let there = stats.topic.iter().zip(&stats.mass).filter(|(_, mass)| **mass >= LEAST_WORD);
        there.for_each(|(&k, _)| words[k as usize] += 1.0);
    }
    leaving.iter().map(|leaving| words[leaving.topic as usize]).collect()
}

/// What share of the documents may be worked out again at most, where they have so many tokens.
fn most_leaving(tokens: f64) -> f64 {
    (MOST_LEAVING * (FEW_TOKENS / tokens.max(1.0)).powi(2)).clamp(MOST_OF_MANY, MOST_LEAVING)
}

/// alpha of a topic made of these parts, until the documents have said better.
fn alpha_of(parts: &[Part], alpha: &[f32], proposals: &Proposals) -> f32 {
    let of_half = |k: u32, half: usize| {
        let slot = proposals.slot_of[k as usize].unwrap_or_default();
        alpha[k as usize] * proposals.share.get(slot as usize).map_or(0.5, |share| share[half]) as f32
    };
    let of_part = |part: &Part| match *part {
        Part::Whole(k) => alpha[k as usize],
        Part::Piece { of, at } => of_half(of, at as usize),
        Part::Inherited { from, .. } => alpha[from as usize],
    };
    parts.iter().map(of_part).sum()
}

/// Where topics go that were.
struct Places {
    /// Those that stay, whatever comes to them besides.
    stayed: Vec<Option<u32>>,
    /// The two that a topic was split into.
    halves: Vec<Option<[u32; 2]>>,
}

impl Places {
    fn of(plan: &Remap, num_topics: usize) -> Self {
        let mut places = Places { stayed: vec![None; num_topics], halves: vec![None; num_topics] };
        for (to, parts) in plan.clusters.iter().enumerate() {
            let own = parts.iter().filter(|part| !matches!(part, Part::Inherited { .. }));
            match own.collect::<Vec<_>>()[..] {
                [&Part::Whole(k)] => places.stayed[k as usize] = Some(to as u32),
                [&Part::Piece { of, at }] => {
                    places.halves[of as usize].get_or_insert_default()[at as usize] = to as u32;
                }
                _ => {}
            }
        }
        places
    }

    /// Where what there was of a topic is now.
    fn all(&self, k: usize) -> impl Iterator<Item = u32> + '_ {
        self.stayed[k].into_iter().chain(self.halves[k].into_iter().flatten())
    }
}

/// Topics as they were, each in its place.
pub(super) fn unchanged(num_topics: usize) -> Remap {
    Remap { clusters: (0..num_topics as u32).map(|k| vec![Part::Whole(k)]).collect() }
}
