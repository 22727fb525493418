//! What is done with topic models: read the topics, score, assign and compare documents.

pub mod assign;
pub mod info;
pub mod list;
pub mod score;
pub mod similar;
mod text_args;

use lsparse::corpus::Documents;
use lsparse::data::RowSource;
use lsparse::topics::TopicModel;
use lsparse::{Error, Result};

use crate::format::grouped;
use crate::output::message;
pub use text_args::TextArgs;

/// Say how many words are passed over, if any are.
pub fn mention_unknown(documents: &Documents) {
    if documents.unknown > 0 {
        let (unknown, all) = (documents.unknown as usize, (documents.known() + documents.unknown) as usize);
        let (name, unknown, all) = (documents.name(), grouped(unknown), grouped(all));
        message(&format!("{name}: {unknown} of {all} words are not in the vocabulary and are passed over"));
    }
}

/// Refuse the first option of these that is given, since the model is of another family than it is for.
pub fn refuse_given(options: &[(&'static str, bool)], model: &str) -> Result<()> {
    match options.iter().find(|option| option.1) {
        None => Ok(()),
        Some((option, _)) => Err(Error::Config {
            setting: option,
            problem: format!("it has no meaning for {model}"),
            remedy: "leave it out".to_owned(),
        }),
    }
}

/// The most probable words of a topic.
pub fn top_words(model: &TopicModel, topic: usize, count: usize) -> Vec<&str> {
    model.top_words(topic, count).iter().map(|&(word, _)| model.vocab[word as usize].as_str()).collect()
}

/// Topics by their share of all words, the most common first.
pub fn by_share(model: &TopicModel) -> Vec<(usize, f64)> {
    let mut order: Vec<(usize, f64)> = model.shares().into_iter().enumerate().collect();
    order.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    order
}
