//! What is done with topic models: read the topics, score, assign and compare documents.

pub mod assign;
mod documents;
pub mod info;
pub mod list;
pub mod score;
pub mod similar;
mod text_args;

use std::path::Path;

use lsparse::topics::TopicModel;
use lsparse::{Error, MixtureModel, Result};

pub use documents::Documents;
pub use text_args::TextArgs;

/// A model of either family.
pub enum AnyModel {
    Mixture(Box<MixtureModel>),
    Topics(Box<TopicModel>),
}

impl AnyModel {
    /// Read a model, whatever it is.
    pub fn load(path: &Path) -> Result<Self> {
        if TopicModel::is_model(path) {
            return Ok(AnyModel::Topics(Box::new(TopicModel::load(path)?)));
        }
        Ok(AnyModel::Mixture(Box::new(MixtureModel::load(path)?)))
    }
}

/// Refuse the first option of these that is given, since the model is of another family than it is for.
pub fn refuse_given(options: &[(&'static str, bool)], model: &str) -> Result<()> {
    match options.iter().find(|option| option.1) {
        None => Ok(()),
        Some((option, _)) => Err(Error::Config {
            option,
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
