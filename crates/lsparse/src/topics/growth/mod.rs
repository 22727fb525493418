//! Finding K while topics train: topics are split and merged at the end of laps, whatever raises the leave-out objective.
//!
//! A lap gathers what its documents would do (`local/trial.rs`, kept by `trial.rs`), its end judges the proposals of the
//! lap before by what was remembered of batches (`judge.rs`) and makes the next (`propose.rs`). What is proposed and what
//! has been tried goes with the parameters, so that a run that is resumed, or whose batches are worked out elsewhere, is
//! the same run.

pub mod judge;
mod propose;
pub mod trial;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::settings::TopicsConfig;
use crate::topics::local::document::DocumentOptions;
use crate::topics::summary::TopicSummary;
use crate::topics::{TopicParams, Topics};
use crate::training::moves::{Changes, MoveKind, Part, Remap};

use judge::Judge;
use trial::Trial;

/// Laps that the halves of a proposed split are worked on after the first, each time from what the documents made of them.
const REFINEMENTS: u32 = 1;

/// Splits of a topic that are tried before it is left alone.
const TRIES: u32 = 2;

/// A topic that was left alone is tried again when its size has changed by this share.
const CHANGE: f64 = 0.25;

/// One in so many topics may be given up in a lap, so many at most.
const LEAVING: usize = 4;
const MOST_LEAVING: usize = 24;

/// Examples of a topic that a split is looked for in, at most.
const EXAMPLES: usize = 160;

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
    /// The size that the topic had then.
    size: f64,
    /// The size at which giving it up came to nothing.
    left_size: f64,
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
    leaving: Vec<u32>,
    /// Topics that examples are wanted of, to be split next.
    wanted: Vec<u32>,
    /// Batches, among which the examples are shared out.
    batches: usize,
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
    /// Topics that may be given up, and for each topic its place among them.
    pub leaving: Vec<u32>,
    /// For each topic its place among them.
    pub leaving_slot: Vec<Option<u32>>,
    /// For each topic its place among those that examples are wanted of.
    pub wanted_slot: Vec<Option<u32>>,
}

impl Proposals {
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
    /// Before the first lap nothing is proposed, and examples are wanted of all.
    pub fn begin(num_topics: usize, vocab_size: usize) -> Self {
        let ids: Vec<u64> = (0..num_topics as u64).collect();
        let state = GrowthState {
            next_id: num_topics as u64,
            ids,
            tried: vec![Tried::default(); num_topics],
            wanted: (0..num_topics as u32).collect(),
            batches: 10,
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
            wanted_slot: vec![None; num],
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
        for (slot, &k) in state.leaving.iter().enumerate() {
            proposals.leaving_slot[k as usize] = Some(slot as u32);
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
        let most_examples = EXAMPLES.div_ceil(self.state.batches.max(1));
        Trial::new(self.state.generation, &self.proposals, &self.state.pairs, vocab_size, most_examples)
    }
}

impl GrowthState {
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
    let mut changes = Changes::default();
    // In the lap after a batch was taken out, say, there may be nothing to go by.
    if memos.is_empty() || !memos.iter().all(of_now) {
        return Ok(Some(changes));
    }
    let mut judge = Judge::new(topics, &params.alpha, total, memos, &state);
    changes.proposed = judge.consider();
    judge.accept(finding.most);
    let (plan, moves) = judge.finish(&mut state.ids, &mut state.next_id);
    let was = std::mem::take(&mut state.tried);
    let going_on = propose::refined(&mut state, &was, total, memos, topics.lambda, &plan);
    let fresh = propose::fresh(&state, total, memos, topics.lambda, &plan);
    state.splits = going_on;
    state.splits.extend(fresh);
    state.splits.sort_by_key(|split| split.topic);
    state.pairs = propose::pairs(total, &plan);
    let room = plan.clusters.len() < finding.most;
    if !room {
        state.splits.clear();
    }
    let sizes: Vec<f64> = plan.clusters.iter().map(|parts| judge::size_of(parts, total, memos)).collect();
    if moves.iter().any(|change| change.kind != MoveKind::Birth) {
        // With others gone, those that were worth having may not be any more.
        state.tried.iter_mut().for_each(|tried| tried.left_size = 0.0);
    }
    state.leaving = propose::leaving(&state, &sizes);
    state.wanted = propose::wanted(&state, &sizes, room);
    state.generation += 1;
    state.batches = memos.len();
    let idle = state.splits.is_empty() && state.wanted.is_empty() && state.leaving.is_empty();
    changes.restless = !(moves.is_empty() && idle);
    if !moves.is_empty() {
        params.alpha = plan.clusters.iter().map(|parts| alpha_of(parts, &params.alpha, &growth.proposals)).collect();
        changes.remap = Some(plan);
    }
    changes.moves = moves;
    params.growth = Some(Arc::new(Growth::of(state, topics.vocab_size)));
    Ok(Some(changes))
}

/// alpha of a topic made of these parts, until the documents have said better.
fn alpha_of(parts: &[Part], alpha: &[f32], proposals: &Proposals) -> f32 {
    let of_half = |k: u32, half: usize| {
        let slot = proposals.slot_of[k as usize].unwrap_or_default();
        alpha[k as usize] * proposals.share.get(slot as usize).map_or(0.5, |share| share[half]) as f32
    };
    let of_part = |part: &Part| match *part {
        Part::Whole(k) => alpha[k as usize],
        Part::Left(k) => of_half(k, 0),
        Part::Right(k) => of_half(k, 1),
        Part::Inherited { .. } => 0.0,
    };
    parts.iter().map(of_part).sum()
}

/// Topics as they were, each in its place.
pub(super) fn unchanged(num_topics: usize) -> Remap {
    Remap { clusters: (0..num_topics as u32).map(|k| vec![Part::Whole(k)]).collect() }
}
