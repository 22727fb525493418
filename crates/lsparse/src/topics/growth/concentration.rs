//! The concentration of documents' topics while K is found, learned by what documents predict of their own words.
//!
//! Neither the bound nor the evidence says how much documents mix: both prefer a few topics a document under a small alpha,
//! whatever they were drawn from, and alpha that is learned from such documents stays small (ten topics with alpha 1 each:
//! of 0.5 in total, 0.2 are learned, and of 10, 10.3). With it goes what a topic is worth, so that documents which have
//! nearly all topics end with one. So in some documents a part of the words is set aside and predicted from the rest, under
//! the alphas as they are and under larger and smaller ones, by topics that do not hold the document's batch: that rises
//! and falls with one maximum, near the concentration that documents were drawn with.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::topics::growth::left_out::trials;
use crate::topics::summary::TopicSummary;

/// Concentrations are tried by this factor, and then by its root.
const FIRST_FACTOR: f64 = 4.0;
const LAST_FACTOR: f64 = 2.0;

/// Laps with a factor in which nothing was better, after which it is done with.
const LAPS: u32 = 3;

/// Standard errors that another concentration is better by.
const SURE: f64 = 2.0;

/// What it may come to.
const LEAST: f64 = 1e-3;
const MOST: f64 = 1e3;

/// Tokens of documents that are asked in a lap, as a share of all: one document in so many, and of more tokens than this
/// fewer.
const ONE_IN: f64 = 24.0;
const FEW_TOKENS: f64 = 160_000.0;

/// A change of the number of topics by this share is reason to look again.
const CHANGE: f64 = 0.25;

/// How much better documents predict under a smaller concentration and under a larger one, in nats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Completed {
    /// Documents.
    pub documents: f64,
    /// Sums over them.
    pub gain: [f64; 2],
    /// Of squares.
    pub square: [f64; 2],
}

impl Completed {
    /// One document more.
    pub fn push(&mut self, gain: [f64; 2]) {
        self.add(&Completed { documents: 1.0, gain, square: gain.map(|gain| gain * gain) }, 1.0);
    }

    /// `self += factor * other`.
    pub fn add(&mut self, other: &Completed, factor: f64) {
        self.documents += factor * other.documents;
        for i in 0..2 {
            self.gain[i] += factor * other.gain[i];
            self.square[i] += factor * other.square[i];
        }
    }

    /// The one that is surely better, if any.
    fn better(&self) -> Option<usize> {
        let is_sure = |&i: &usize| {
            let mean = self.gain[i] / self.documents.max(1.0);
            let variance = (self.square[i] - self.documents * mean * mean).max(0.0);
            self.gain[i] > 0.0 && self.gain[i] * self.gain[i] > SURE * SURE * variance
        };
        let more = |a: &usize, b: &usize| self.gain[*a].total_cmp(&self.gain[*b]);
        (0..2).filter(is_sure).max_by(more)
    }
}

/// The concentration, and how it is looked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Concentration {
    /// What it is now.
    pub now: f64,
    /// What it is multiplied and divided by on trial; 1 where nobody asks.
    factor: f64,
    /// Laps with this factor that changed nothing, what was heard in them, and how many topics there were.
    laps: u32,
    heard: Completed,
    topics: usize,
    /// One document in so many is asked, and which of them.
    every: usize,
    turn: usize,
}

impl Concentration {
    /// Before the first lap.
    pub fn begin(now: f64) -> Self {
        Concentration { now, factor: 1.0, every: 1, ..Concentration::default() }
    }

    /// The factors to be tried, smaller and larger, where any are.
    pub fn factors(&self) -> Option<[f64; 2]> {
        (self.factor > 1.0).then(|| [1.0 / self.factor, self.factor])
    }

    /// Whether the document in this place of a panel is asked.
    pub fn asks(&self, place: usize) -> bool {
        self.factor > 1.0 && place % self.every == self.turn % self.every
    }

    /// At the end of a lap with so many topics and tokens: take up what documents say; says whether the concentration has
    /// changed.
    pub fn hear(&mut self, memos: &[Arc<TopicSummary>], num_topics: usize, tokens: f64) -> bool {
        let begins = self.topics == 0 || (num_topics as f64 / self.topics as f64 - 1.0).abs() > CHANGE;
        trials(memos).for_each(|trial| self.heard.add(&trial.completed, 1.0));
        self.every = (ONE_IN * (tokens / FEW_TOKENS).max(1.0)) as usize;
        self.turn = (self.turn + 1) % self.every;
        let better = self.heard.better().filter(|_| self.factor > 1.0);
        let next = better.map(|i| (self.now * [1.0 / self.factor, self.factor][i]).clamp(LEAST, MOST));
        let changes = next.is_some_and(|next| next != self.now);
        self.now = next.unwrap_or(self.now);
        self.laps = if changes { 0 } else { self.laps + 1 };
        if changes || self.laps >= LAPS {
            self.heard = Completed::default();
        }
        if self.laps >= LAPS && self.factor > 1.0 {
            self.laps = 0;
            self.factor = if self.factor > LAST_FACTOR { LAST_FACTOR } else { 1.0 };
        }
        if begins && num_topics > 1 {
            // What the best was for other topics may not be the best for these.
            (self.topics, self.laps, self.heard) = (num_topics, 0, Completed::default());
            self.factor = if self.factor > 1.0 { self.factor } else { FIRST_FACTOR };
        }
        changes
    }
}
