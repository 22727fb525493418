//! Mixture models, topic models and hidden Markov models whose responsibilities have at most L entries a row.
//!
//! A mixture gives each row a probability for each of its K clusters, though only a few of them matter. Keeping the L
//! largest is the best choice under the variational objective (`hughes2016sparse`), and every later step then costs
//! L, not K. Dense is L = K and hard assignment L = 1, in one code path.
//!
//! Everything is one loop, and a room is a part of it, in the order that they may know each other in:
//!
//! - [`data`] and [`corpus`]: rows from files and memory, dealt into batches; text made into counts. [`open`] tells them
//!   apart.
//! - [`training`]: the loop as a value. A [`Session`] hands batches out; the local step gives each observation its L
//!   clusters ([`training::responsibilities`]) and the additive statistics of the batch ([`training::summary`]); a
//!   [`training::schedule`] brings them into the total (full, memoized, stochastic, streaming); the global step of the
//!   [`training::model`] turns it into parameters. [`training::rules`] say when it is enough, [`training::trace`] and
//!   [`training::observe`] tell of it, [`training::exchange`] lets processes that share no memory train together.
//! - [`likelihood`] and [`allocation`]: what a cluster looks like, and how observations are shared out.
//! - [`settings`]: what may be asked of a run. [`store`]: checkpoints and model files. [`runs`]: from settings to the best
//!   model of several runs.
//! - [`clusters`]: priors and seeds of clusters, whatever they are for. [`mixture`], [`topics`] and [`sequence`] put the
//!   pieces together, in the same shape; [`increment`] goes on from data that keeps
//!   coming, [`any`] reads whatever a file holds, [`elsewhere`] is what processes
//!   do that fold nothing in, [`shared`] lets them meet in a folder, [`math::agreement`] compares clusters with known classes.

#![forbid(unsafe_code)]

pub mod allocation;
pub mod any;
pub mod backend;
pub mod choice;
pub mod clusters;
pub mod corpus;
pub mod data;
pub mod elsewhere;
pub mod error;
pub mod increment;
pub mod likelihood;
pub mod math;
pub mod mixture;
pub mod open;
pub mod runs;
pub mod sequence;
pub mod settings;
pub mod shared;
pub mod store;
pub mod synthetic;
pub mod system;
pub mod topics;
pub mod training;

pub use any::AnyModel;
pub use error::{Error, Result};
pub use likelihood::{Estimate, LikelihoodKind};
pub use mixture::{MixtureInputs, MixtureModel, fit_mixture, fit_mixture_with};
pub use runs::{Beside, Fitted};
pub use sequence::{SequenceInputs, SequenceModel, fit_sequence, fit_sequence_with};
pub use settings::{BestBy, History, Init, MixtureConfig, Precision, SequenceConfig, Sparsity};
pub use store::checkpoint::{Checkpointing, Storage};
pub use training::schedule::ScheduleKind;
pub use training::session::Session;

/// The examples of the documentation's page about the library are run with those of the code.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/library.md")]
struct PageOfTheLibrary;
