//! The page of a topic model: one self-contained file, for people who would rather look than read.
//!
//! 1. [`SparseTopics`]: what a topic has above the probability that it gives to every word.
//! 2. [`Distances`]: Hellinger distances between all topics; of them come neighbours, a [`tree()`] and the [`layout()`] of
//!    the map.
//! 3. [`Ranking`]: the words that a topic is shown by under every weight of the slider, and the topics of words.
//! 4. [`Shelf`]: documents that show topics best, with the topic of every word.
//! 5. [`topics_page`] packs all of that into the hand-written page of `web/explore`, which makes no request.

mod distances;
mod documents;
mod layout;
mod pack;
mod page;
mod ranking;
mod sparse;
mod topics;
mod tree;

pub use distances::{Distances, Neighbours};
pub use documents::{Reading, Shelf, ShownDocument, Token, choose_documents};
pub use layout::{Layout, layout};
pub use ranking::{Ranking, RelevanceGrid, topics_of_words};
pub use sparse::SparseTopics;
pub use topics::{PageOptions, PageReport, topics_page};
pub use tree::{Merge, tree};
