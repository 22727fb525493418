//! The folder of a corpus: its arrays, how it is written, filtered and split.

pub(super) mod array;
pub(super) mod counts;
pub(super) mod filter;
pub(super) mod meta;
pub(super) mod metadata;
pub(super) mod split;
pub(super) mod staging;
pub(super) mod stats;
pub(super) mod store;
pub(super) mod write;
