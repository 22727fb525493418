//! The training loop as a value, and what goes round in it; nothing here knows a likelihood or a kind of model.

pub mod exchange;
pub mod model;
pub mod moves;
pub mod observe;
pub mod responsibilities;
pub mod rules;
pub mod schedule;
pub mod session;
pub mod summary;
pub mod trace;
