//! Clusters that change, in number or at a number that stays: what becomes of those that were, and what was gained by it.
//!
//! Moves are judged at the end of a lap by statistics that its visits gathered beside the usual ones, so that the change of
//! the objective is known without another look at the rows. A [`Remap`] then brings totals and what is remembered of
//! batches forward, each by its own statistics.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

/// What a cluster is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Part {
    /// A cluster as it was.
    Whole(u32),
    /// A piece of one that was proposed for a split.
    Piece {
        /// The one that was proposed.
        of: u32,
        /// Which of its pieces.
        at: u32,
    },
    /// What the observations of a cluster that is given up bring to another.
    Inherited {
        /// The one that is given up.
        from: u32,
        /// The one that takes them.
        to: u32,
    },
}

/// For each cluster that there will be, the parts it is the sum of; what is in none is gone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remap {
    /// One list a cluster.
    pub clusters: Vec<Vec<Part>>,
}

/// What kind of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MoveKind {
    /// One cluster became several.
    Birth,
    /// Two became one.
    Merge,
    /// One was given up, and others took its observations.
    Delete,
    /// One became two, and two others one or one that had no observations went: their number is the same.
    Trade,
}

/// A change that was made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Move {
    /// What it was.
    pub kind: MoveKind,
    /// The lasting numbers of the clusters that it was made of.
    pub from: Vec<u64>,
    /// Those of the clusters that came of it.
    pub to: Vec<u64>,
    /// What the objective gained.
    pub gain: f64,
}

/// Name of what steps report where K is found: 1 if there are as many clusters as there may be, so that no more were tried.
pub const K_MAX_REACHED: &str = "k_max_reached";

/// What the end of a lap did to the clusters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// What became of the clusters; none where they are as they were.
    pub remap: Option<Remap>,
    /// The changes, in the order in which they were made.
    pub moves: Vec<Move>,
    /// What of their gains the objective does not show: what it had promised too much.
    pub promised: f64,
    /// How many were proposed, where K is to be found.
    pub proposed: Option<usize>,
    /// Whether there are as many clusters as there may be.
    pub most_reached: bool,
    /// Whether there is more to be tried, so that the run is not at rest.
    pub restless: bool,
}

/// A change of a trained model that was considered.
#[derive(Clone, Debug, PartialEq)]
pub struct Suggestion {
    /// What it would be: two clusters or topics that become one, or one that is given up.
    pub kind: MoveKind,
    /// The clusters: the two, or the one and those that would take its observations.
    pub clusters: Vec<usize>,
    /// What the objective would gain by it alone; negative where it would lose.
    pub gain: f64,
}

/// What can be said of fewer clusters or topics of a trained model.
pub struct Fewer<M> {
    /// Every change of the model as it is that was considered, the best first.
    pub suggestions: Vec<Suggestion>,
    /// Those that were made one after the other until none gained, by the numbers that clusters had at first.
    pub made: Vec<Move>,
    /// The objective of the rows that it was judged by, before any change; none where that is not the one of training.
    pub objective: Option<f64>,
    /// The model with them made.
    pub model: M,
}

impl Suggestion {
    /// Changes with what each gains, the best first. Two that become one, and either of them given up to the other, are the
    /// same: the best stands for all.
    pub(crate) fn best_first(gains: impl IntoIterator<Item = (MoveKind, Vec<u32>, f64)>) -> Vec<Self> {
        let suggestion = |(kind, clusters, gain): (MoveKind, Vec<u32>, f64)| Suggestion {
            kind,
            clusters: clusters.into_iter().map(|k| k as usize).collect(),
            gain,
        };
        let mut found: Vec<Suggestion> = gains.into_iter().map(suggestion).collect();
        found.sort_by(|a, b| b.gain.total_cmp(&a.gain));
        let mut seen = HashSet::new();
        found.retain(|found| match found.clusters[..] {
            [a, b] => seen.insert((a.min(b), Some(a.max(b)))),
            [alone] => seen.insert((alone, None)),
            _ => true,
        });
        found
    }
}
