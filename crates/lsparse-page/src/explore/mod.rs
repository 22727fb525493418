//! The page of a model: one self-contained file, for people who would rather look than read.
//!
//! Topics: [`SparseTopics`] is what a topic has above the probability that it gives to every word; [`Distances`] are those of
//! Hellinger; [`Ranking`] has the words that a topic is shown by under every weight of the slider, and the topics of words;
//! [`Shelf`] has documents that show topics best, with the topic of every word; [`topics_page`] packs all of that.
//!
//! Mixtures and sequences: [`ClusterSet`] asks of clusters of any family what they look like and how far they are apart;
//! [`Sampled`] has rows, how sure they are and how likely; [`clusters_page`] packs it.
//!
//! [`facets()`] are shares by columns of metadata, for both. Of distances come neighbours, a [`tree()`] and the [`layout()`] of the map, whatever they are between. The page is
//! hand-written, in `web/explore`, and makes no request.

mod clusters;
mod distances;
mod documents;
mod facets;
mod layout;
mod pack;
mod page;
mod ranking;
mod rows;
mod shapes;
mod sparse;
mod topics;
mod tree;

pub use clusters::{Picture, RowsReport, clusters_page};
pub use distances::{Distances, Neighbours, off_by};
pub use documents::{Reading, Shelf, ShownDocument, Token, choose_documents};
pub use facets::{Facet, Weighed, facets};
pub use layout::{Layout, layout, principal, scaled};
pub use ranking::{Ranking, RelevanceGrid, topics_of_words};
pub use rows::{Judge, Looked, Sampled, ShownRow, choose_rows};
pub use shapes::{ClusterSet, Profile, ProfileKind};
pub use sparse::SparseTopics;
pub use topics::{PageOptions, PageReport, topics_page};
pub use tree::{Merge, tree};
