//! What is done with hidden Markov models: score sequences, assign states, look at the chain.

pub mod assign;
pub mod info;
pub mod score;
