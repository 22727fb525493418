//! A model of either family, from a file that says which.

use std::path::Path;

use crate::error::Result;
use crate::mixture::MixtureModel;
use crate::topics::TopicModel;

/// A model of either family.
pub enum AnyModel {
    /// A mixture.
    Mixture(Box<MixtureModel>),
    /// Topics.
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

    /// The name of its family, as files have it.
    pub fn kind(&self) -> &'static str {
        match self {
            AnyModel::Mixture(_) => "mixture",
            AnyModel::Topics(_) => "topics",
        }
    }
}
