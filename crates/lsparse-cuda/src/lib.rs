//! Kernels for NVIDIA GPUs behind safe functions.
//!
//! Nothing of CUDA is needed to build this crate, or to run it where there is no GPU: the driver is looked for when
//! [`devices`] or [`Device::open`] is called, and kernels are compiled ahead (`cargo xtask cuda`) and held by the program.
//! The crate knows nothing of mixtures or topics: it takes slices and gives vectors back.
//!
//! - [`device`]: which GPUs there are, and what is done with one: memory, copies, launches.
//! - [`error`]: what can go wrong on the way.
//! - [`artefacts`]: the compiled kernels, and which of them a GPU takes.
//! - [`mixture`]: the local step of mixtures.
//! - [`centers`]: k-means over a sample of rows.
//! - [`topics`]: the document step of topics, sums of its statistics, topics written from them, and first topics.
//! - [`manifest`]: which source and which options they were made from.

pub mod artefacts;
pub mod centers;
pub mod device;
pub mod error;
pub mod manifest;
pub mod mixture;
pub mod topics;

pub use device::{Buffer, Device, Info, Plain, devices};
pub use error::{Error, Result};
