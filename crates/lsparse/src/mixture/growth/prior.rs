//! A prior that follows the clusters while they train: it is what the objective is highest under.
//!
//! A prior that is far from what clusters look like costs hundreds of nats a cluster, so that too few are found, and what
//! they look like is not known before they are. So three of its numbers are part of what is trained: the scale of
//! variances, kappa, by which means spread, and nu, by which shapes do. At the end of a lap each takes a few steps uphill.
//! For statistics that stay, what clusters are worth under any prior is known in closed form, so that no step lowers the
//! objective. Where K stays, rows that are left out say first whether it is for the better (`trade.rs`).

use serde::{Deserialize, Serialize};

use crate::data::Scalar;
use crate::likelihood::{ClusterSummary, Estimate, LikelihoodKind, Prior};
use crate::settings::MixtureConfig;

/// Factors that a number is changed by, the coarse ones first.
const FACTORS: [f64; 3] = [4.0, 1.6, 1.15];

/// Steps by one factor at most, and how often each number has its turn in one lap.
const STEPS: usize = 6;
const ROUNDS: usize = 3;

/// The prior's variances in units of the data's, at least and at most. (Rows that lie in a plane, as patches without their
/// mean do, would have them as small as they may be. One cluster that has all rows has them at about as many units as there
/// are columns where covariances are full: with so few degrees of freedom most that a prior draws are that much smaller
/// than what it expects. Were less allowed, five clusters of 60 rows of noise in 30 columns would be worth more than one.)
const SCALES: (f64, f64) = (1e-5, 1e4);

/// kappa at least and at most: means spread no less than the rows of a cluster do. (Of one cluster, whose mean is that of
/// the data, no number would be too large.)
const KAPPAS: (f64, f64) = (1e-8, 1.0);

/// Degrees of freedom above those that no covariance is expected with, at least and at most.
const NUS: (f64, f64) = (0.1, 1e3);

/// A scale that is another than it was by so much makes what was tried in vain worth another try.
pub const OTHER: f64 = 1.5;

/// Which numbers of a prior are learned: those that were not asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Learns {
    pub scale: bool,
    pub kappa: bool,
    pub nu: bool,
}

impl Learns {
    /// Whether there is anything to be learned.
    pub fn any(self) -> bool {
        self.scale || self.kappa || self.nu
    }

    /// Leave out of the settings what was not asked for.
    pub fn forget(self, config: &mut MixtureConfig) {
        config.prior_scale = config.prior_scale.filter(|_| !self.scale);
        config.kappa = config.kappa.filter(|_| !self.kappa);
        config.nu = config.nu.filter(|_| !self.nu);
    }
}

/// What numbers of the settled prior are multiplied by.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Factors {
    /// Variances.
    pub scale: f64,
    /// The pseudo-count of the mean.
    pub kappa: f64,
    /// Degrees of freedom above those that no covariance is expected with.
    pub nu: f64,
}

impl Default for Factors {
    fn default() -> Self {
        Factors { scale: 1.0, kappa: 1.0, nu: 1.0 }
    }
}

impl Factors {
    /// How many times a number is another's at most, whichever is the larger one.
    pub fn ratio(self, other: Factors) -> f64 {
        let ratio = |a: f64, b: f64| (a / b).max(b / a);
        ratio(self.scale, other.scale).max(ratio(self.kappa, other.kappa)).max(ratio(self.nu, other.nu))
    }
}

/// A prior that is to be learned.
#[derive(Clone, Debug)]
pub struct Settled {
    /// As it was before the first lap.
    pub prior: Prior,
    /// Its variances in units of the data's.
    pub scale: f64,
    pub learns: Learns,
    /// Degrees of freedom that no covariance is expected with, or fewer.
    pub least_nu: f64,
}

impl Settled {
    /// The prior with its numbers multiplied.
    pub fn times(&self, factors: Factors) -> Prior {
        let variance = self.prior.variance.iter().map(|v| v * factors.scale).collect();
        let least = self.least_nu;
        let nu = least + factors.nu * (self.prior.nu - least);
        Prior { variance, kappa: self.prior.kappa * factors.kappa, nu, ..self.prior.clone() }
    }

    /// The factors that these clusters are worth most under, uphill from the present ones, one after the other.
    pub fn learn<T: Scalar>(&self, kind: LikelihoodKind, now: Factors, total: &ClusterSummary) -> Factors {
        self.climb::<T>(kind, now, total).1
    }

    /// The same for a single cluster, also from where a prior for it might be: as wide as the data, and sure of it. From
    /// afar there may be no way uphill, as where columns have priors of their own.
    pub fn learn_for_one<T: Scalar>(&self, kind: LikelihoodKind, now: Factors, total: &ClusterSummary) -> Factors {
        let to = |is_learned: bool, now: f64, number: f64, to: f64| if is_learned { to / number } else { now };
        let wide = Factors {
            scale: to(self.learns.scale, now.scale, self.scale, 1.0),
            kappa: to(self.learns.kappa, now.kappa, self.prior.kappa, KAPPAS.1),
            nu: to(self.learns.nu, now.nu, self.prior.nu - self.least_nu, NUS.1),
        };
        let [near, far] = [now, wide].map(|from| self.climb::<T>(kind, from, total));
        if far.0 > near.0 { far.1 } else { near.1 }
    }

    /// What the clusters are worth, and under which factors.
    fn climb<T: Scalar>(&self, kind: LikelihoodKind, now: Factors, total: &ClusterSummary) -> (f64, Factors) {
        let worth = |factors: Factors| {
            let likelihood = kind.build::<T>(&self.times(factors));
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
        let numbers: [(bool, fn(&mut Factors) -> &mut f64, (f64, f64)); 3] = [
            (self.learns.scale, |factors| &mut factors.scale, within(SCALES, self.scale)),
            (self.learns.kappa, |factors| &mut factors.kappa, within(KAPPAS, self.prior.kappa)),
            (self.learns.nu, |factors| &mut factors.nu, within(NUS, self.prior.nu - self.least_nu)),
        ];
        let mut best = (worth(now), now);
        for _ in 0..ROUNDS {
            let before = best.1;
            for (_, number, limits) in numbers.iter().filter(|(is_learned, ..)| *is_learned) {
                let (reached, mut factors) = best;
                let with = |value: f64| {
                    let mut factors = best.1;
                    *number(&mut factors) = value;
                    factors
                };
                let (reached, value) = uphill(|value| worth(with(value)), (reached, *number(&mut factors)), *limits);
                best = (reached, with(value));
            }
            if best.1 == before {
                break;
            }
        }
        best
    }
}

/// The factors that leave a number within limits, one among them.
fn within(limits: (f64, f64), number: f64) -> (f64, f64) {
    ((limits.0 / number).min(1.0), (limits.1 / number).max(1.0))
}

/// Steps to a factor that is worth more, from one with what that is worth.
fn uphill(worth: impl Fn(f64) -> f64, from: (f64, f64), (least, most): (f64, f64)) -> (f64, f64) {
    let mut best = from;
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
    best
}
