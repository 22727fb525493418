//! Mixture models whose responsibilities have at most L entries a row.
//!
//! A mixture gives each row a probability for each of its K clusters, though only a few of them matter. Keeping the L
//! largest is the best choice under the variational objective (`hughes2016sparse`), and every later step then costs
//! L, not K. Dense is L = K and hard assignment L = 1, in one code path.
//!
//! Everything is one loop:
//!
//! 1. [`data`]: rows come from files or memory, dealt into batches.
//! 2. [`responsibilities`]: the local step gives each row its L clusters, weighed by the [`likelihood`].
//! 3. [`summary`]: the additive statistics of the batch.
//! 4. [`schedule`]: how they enter the total (full, memoized, stochastic, streaming).
//! 5. [`model`]: the global step turns the total into parameters (posterior, MAP or maximum likelihood).
//! 6. [`session`]: the loop as a value, which hands batches out and folds in what comes of them; [`train`] steps until one
//!    of the [`rules`] says stop and keeps the best of several runs, [`observe`] watches.
//!
//! [`exchange`] lets processes that share no memory train together. [`init`] finds the first clusters, [`mixture`] and [`topics`] put the pieces together, [`increment`] goes on from
//! data that keeps coming, [`agreement`] compares clusters with known classes, [`persist`] writes models, [`checkpoint`] lets a run go on after it was killed.

#![forbid(unsafe_code)]

pub mod agreement;
pub mod backend;
pub mod checkpoint;
pub mod config;
pub mod data;
pub mod error;
pub mod exchange;
pub mod increment;
pub mod init;
pub mod likelihood;
pub mod linalg;
pub mod mixture;
pub mod model;
mod nearest;
pub mod observe;
pub mod persist;
mod random;
pub mod responsibilities;
pub mod rules;
pub mod schedule;
pub mod session;
pub mod summary;
pub mod synthetic;
pub mod topics;
pub mod trace;
pub mod train;

pub use checkpoint::{Checkpointing, Storage};
pub use config::{BestBy, History, Init, MixtureConfig, Precision};
pub use error::{Error, Result};
pub use likelihood::{Estimate, LikelihoodKind};
pub use mixture::{MixtureInputs, MixtureModel, fit_mixture, fit_mixture_with};
pub use schedule::ScheduleKind;
pub use session::Session;
pub use train::{Beside, Fitted};
