//! A prior whose scale follows the clusters while K is found: it is what the objective is highest under.
//!
//! A prior that is far from what clusters look like costs hundreds of nats a cluster, so that too few are found, and what
//! they look like is not known before they are. So its scale is part of what is trained: at the end of a lap it takes a few
//! steps uphill. For statistics that stay, what clusters are worth under any prior is known in closed form, so that no step
//! lowers the objective.

use crate::data::Scalar;
use crate::likelihood::{ClusterSummary, Estimate, LikelihoodKind, Prior};

/// Factors that the scale is changed by, the coarse ones first.
const FACTORS: [f64; 3] = [4.0, 1.6, 1.15];

/// Steps by one factor in one lap at most.
const STEPS: usize = 6;

/// The prior's variances in units of the data's, at least and at most. (Rows that lie in a plane, as patches without their
/// mean do, would have them as small as they may be. One cluster that has all rows has them at about as many units as there
/// are columns where covariances are full: with so few degrees of freedom most that a prior draws are that much smaller
/// than what it expects. Were less allowed, five clusters of 60 rows of noise in 30 columns would be worth more than one.)
const SCALES: (f64, f64) = (1e-5, 1e4);

/// A scale that is another than it was by so much makes what was tried in vain worth another try.
pub const OTHER: f64 = 1.5;

/// A prior that is to be learned.
#[derive(Clone, Debug)]
pub struct Settled {
    /// As it was before the first lap.
    pub prior: Prior,
    /// Its variances in units of the data's.
    pub scale: f64,
}

impl Settled {
    /// The prior with its variances multiplied.
    pub fn times(&self, factor: f64) -> Prior {
        let variance = self.prior.variance.iter().map(|v| v * factor).collect();
        Prior { variance, ..self.prior.clone() }
    }

    /// The factor that these clusters are worth most under, uphill from the present one.
    pub fn learn<T: Scalar>(&self, kind: LikelihoodKind, now: f64, total: &ClusterSummary) -> f64 {
        let worth = |factor: f64| {
            let likelihood = kind.build::<T>(&self.times(factor));
            let worth = match kind.family().shares_covariance {
                true => {
                    let clusters = likelihood.global_step(Estimate::Posterior, &total.counts, &total.stats, None);
                    clusters.map(|clusters| clusters.own_data_term())
                }
                false => likelihood.evidence(&total.counts, &total.stats).map(|worths| worths.iter().sum()),
            };
            // What cannot be estimated is worth nothing.
            worth.unwrap_or(f64::NEG_INFINITY)
        };
        let (least, most) = ((SCALES.0 / self.scale).min(1.0), (SCALES.1 / self.scale).max(1.0));
        let mut best = (worth(now), now);
        for step in FACTORS {
            for step in [step, step.recip()] {
                let before = best.0;
                for _ in 0..STEPS {
                    let factor = (best.1 * step).clamp(least, most);
                    if factor == best.1 {
                        break;
                    }
                    let reached = worth(factor);
                    if reached <= best.0 || reached.is_nan() {
                        break;
                    }
                    best = (reached, factor);
                }
                if best.0 > before {
                    break;
                }
            }
        }
        best.1
    }
}
