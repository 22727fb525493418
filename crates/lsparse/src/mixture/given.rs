//! Clusters that are known before training: what is given of them, and whether it can be.

use crate::error::{Error, Result};
use crate::likelihood::{Extent, NamedArray, Prior};
use crate::settings::MixtureConfig;

/// What is known of the clusters beforehand: it takes the place of what seeding finds.
#[derive(Clone, Debug, Default)]
pub struct GivenStart {
    /// Their frequencies.
    pub weights: Option<Vec<f64>>,
    /// Some of the family's arrays, as model files have them.
    pub arrays: Vec<NamedArray>,
}

impl GivenStart {
    pub(super) fn is_empty(&self) -> bool {
        self.weights.is_none() && self.arrays.is_empty()
    }

    /// Every number as it is, for fingerprints.
    pub(super) fn numbers(&self) -> Vec<f64> {
        self.weights.iter().flatten().chain(self.arrays.iter().flat_map(|array| &array.values)).copied().collect()
    }
}

/// Clusters that are given have the shapes of the family's, and frequencies that sum to one.
pub(super) fn check_given(config: &MixtureConfig, prior: &Prior, given: &GivenStart) -> Result<()> {
    let refuse = |problem: String, remedy: &str| Err(Error::Config { setting: "init", problem, remedy: remedy.into() });
    if given.is_empty() {
        return Ok(());
    }
    let family = config.likelihood.family();
    if !family.spread.is_of_variances() {
        let problem = format!("{} clusters cannot be given to start from", family.name);
        return refuse(problem, "leave them out, or choose a Gaussian family");
    }
    let extent = Extent { clusters: config.clusters, dim: prior.dim, missing: config.missing };
    for array in &given.arrays {
        let expected = family.arrays.iter().find(|known| known.name == array.name && !known.of_posterior);
        let Some(expected) = expected else {
            return refuse(format!("{} clusters have no {}", family.name, array.name), "leave them out");
        };
        let shape = (expected.shape)(&extent);
        if array.shape != shape || array.values.len() != shape.iter().product::<usize>() {
            let problem = format!("the {} have shape {:?}, expected {shape:?}", array.name, array.shape);
            return refuse(problem, "give them for each cluster and column");
        }
        if let Some(value) = array.values.iter().find(|value| !value.is_finite()) {
            return refuse(format!("the {} have {value}", array.name), "give finite numbers");
        }
    }
    if let Some(weights) = &given.weights {
        let legal = weights.iter().all(|weight| (0.0..=1.0).contains(weight));
        let sum: f64 = weights.iter().sum();
        if weights.len() != config.clusters || !legal || (sum - 1.0).abs() > 1e-6 {
            let problem = format!("{} weights with sum {sum} for {} clusters", weights.len(), config.clusters);
            return refuse(problem, "give a share to each cluster, with sum one");
        }
    }
    Ok(())
}
