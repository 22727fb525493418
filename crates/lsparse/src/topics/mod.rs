//! LDA topic models: seeds, word table, document step, statistics, objective, training and saved models.

mod alike;
mod checks;
pub mod coherence;
pub mod gibbs;
pub mod growth;
mod held;
mod local;
mod model;
mod names;
mod pull;
mod sample;
mod saved;
pub mod score;
mod seed;
mod summary;
mod table;
mod train;
mod words;

pub(crate) use checks::{check_counts, scan_counts};
pub use checks::{memory_needed, memory_to_save};
pub use held::{Held, TopicTable};
pub use local::Explained;
pub use local::document::{Document, DocumentOptions, Tally};
pub use model::*;
pub use names::{read_names, read_topic_names};
pub use saved::TopicModel;
pub use seed::{initial_topics, random_topics};
pub use summary::{Entries, SparseStats, TopicSummary, WordStats, WordsHere};
pub use table::WordTable;
pub use train::{TopicFamily, TopicInputs, fit_topics, fit_topics_with};
pub use words::{Words, read_seed_words};
