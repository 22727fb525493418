//! Hidden Markov models: a chain of states over any likelihood, with seeds, the local step, the objective, training and
//! saved models.

mod local;
mod model;
mod sample;
mod saved;
mod seed;
mod steps;
mod train;

pub use model::*;
pub use sample::DrawnSteps;
pub use saved::{SequenceModel, StepScores};
pub use steps::Lacking;
pub(crate) use steps::{MayLack, Steps, lacking_rows};
pub use train::{SequenceFamily, SequenceInputs, fit_sequence, fit_sequence_with};
pub(crate) use train::{SettledSequence, measure_steps};
