//! A model of any family, from a file that says which.

use std::path::Path;

use crate::error::Result;
use crate::mixture::MixtureModel;
use crate::sequence::SequenceModel;
use crate::topics::TopicModel;

/// A model of any family.
pub enum AnyModel {
    /// A mixture.
    Mixture(Box<MixtureModel>),
    /// Topics.
    Topics(Box<TopicModel>),
    /// A hidden Markov model.
    Sequence(Box<SequenceModel>),
}

impl AnyModel {
    /// Read a model, whatever it is.
    pub fn load(path: &Path) -> Result<Self> {
        if TopicModel::is_model(path) {
            return Ok(AnyModel::Topics(Box::new(TopicModel::load(path)?)));
        }
        if SequenceModel::is_model(path) {
            return Ok(AnyModel::Sequence(Box::new(SequenceModel::load(path)?)));
        }
        Ok(AnyModel::Mixture(Box::new(MixtureModel::load(path)?)))
    }

    /// The name of its family, as files have it.
    pub fn kind(&self) -> &'static str {
        match self {
            AnyModel::Mixture(_) => "mixture",
            AnyModel::Topics(_) => "topics",
            AnyModel::Sequence(_) => "sequence",
        }
    }
}
