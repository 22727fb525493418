//! Finite mixtures: frequencies over any likelihood, with seeds, the local step, the objective, training and saved models.

mod given;
mod growth;
pub mod local;
mod memory;
mod model;
mod prior;
mod sample;
mod saved;
mod train;
mod units;

pub use crate::likelihood::{Members, accumulate, log_density, respond, respond_dense};
pub use given::GivenStart;
pub use growth::{Finding, GrowthState};
pub use local::search::{Search, SearchState};
pub use memory::{MemoryNeed, memory_needed};
pub use model::*;
pub use prior::GivenPrior;
pub use sample::DrawnRows;
pub use saved::{MixtureModel, RowScores};
pub(crate) use train::check_row_weights;
pub use train::{MixtureInputs, Mixtures, SettledMixture, fit_mixture, fit_mixture_with, initial_mixture};
