//! The settings of runs: what may be asked for, its defaults, and what it is checked against.

mod mixture;
mod topics;

use serde::{Deserialize, Serialize};

pub use mixture::*;
pub use topics::*;

/// What becomes of what a model that training goes on from has counted. A training is one of the rows it is given, so
/// that rows which were there before are not counted twice, unless it is asked to keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum History {
    /// It stays, and the new rows or documents come on top of it.
    Keep,
    /// It is where training starts; the new rows or documents take its place.
    #[default]
    Replace,
}

/// What decides between several runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BestBy {
    /// The training objective; where batches are left out and nothing is held out, the evidence of what was left out.
    Objective,
    /// The held-out score.
    Heldout,
}
