//! The prior of a mixture: that of the model to go on from, as it is given, or in the units of the rows.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::clusters::seed::{Sample, initial_summary};
use crate::clusters::{Design, check_columns, is_constant, reach, remarks_on_values, scan_for};
use crate::data::{Batches, Dealt, Moments, RowSource, Scalar};
use crate::error::{Error, Result};
use crate::likelihood::{Prior, PriorShape, Spread};
use crate::mixture::{MixtureInputs, MixtureModel};
use crate::settings::{Checked, DEFAULT_KAPPA, Init, MixtureConfig};
use crate::store::checkpoint::print_numbers;
use crate::training::rules::Patience;

/// Numbers of a prior in the units of the data, in place of those that the data's moments give.
#[derive(Clone, Debug, Default)]
pub struct GivenPrior {
    /// The prior mean.
    pub mean: Option<Vec<f64>>,
    /// The variance of each column that the prior expects.
    pub variance: Option<Vec<f64>>,
    /// Smallest variance under maximum likelihood.
    pub variance_floor: Option<f64>,
}

impl GivenPrior {
    pub(super) fn is_some(&self) -> bool {
        self.mean.is_some() || self.variance.is_some() || self.variance_floor.is_some()
    }
}

/// The prior: that of the model to go on from, or one in the units of the data. Checks every value on the way, and gives
/// what there is to say of the columns.
pub(super) fn settle_prior<T: Scalar>(
    source: &dyn RowSource,
    mut config: Checked<MixtureConfig>,
    start: Option<&MixtureModel>,
) -> Result<(Prior, Checked<MixtureConfig>, Vec<String>)> {
    if config.missing && source.is_sparse() {
        let problem = format!("{} holds sparse rows, in which what is not stored is zero", source.name());
        return Err(Error::Config { setting: "missing", problem, remedy: "give the rows in full".into() });
    }
    let usual = (config.likelihood.family().default_nu)(source.dim());
    if start.is_none()
        && config.nu.is_some_and(|nu| nu <= usual - 1.0)
        && config.likelihood.family().spread.is_of_variances()
    {
        let problem = format!("with {} degrees of freedom or fewer the prior expects no covariance", usual - 1.0);
        return Err(Error::Config {
            setting: "nu",
            problem,
            remedy: format!("give more, or leave it out for {usual}"),
        });
    }
    // Where K is found, the prior is not to depend on where that starts.
    let clusters = if config.find_k { MixtureConfig::default().clusters } else { config.clusters };
    let usual = config.likelihood.default_prior_scale(source.dim(), clusters, source.num_rows());
    config.prior_scale.get_or_insert(usual);
    config.kappa.get_or_insert(DEFAULT_KAPPA);
    // Which values are allowed depends on the family alone, not on the numbers of its prior.
    let family = config.likelihood.build::<T>(&Prior::for_data(&config, &Moments::unknown(source.dim())));
    let moments = scan_for::<T>(family.as_ref(), source, config.missing)?;
    check_columns::<T>(source, config.likelihood, &moments)?;
    let mut remarks = Vec::new();
    let prior = match start {
        None => {
            let moments = moments.without_far_values(source)?;
            if config.likelihood.family().shares_covariance && reach(&moments) > MOST_REACH {
                // Rounding in the squares of such a value is more than all others vary by.
                let problem =
                    "a covariance of all clusters cannot hold values as far from the others as there are here";
                let remedy = "drop the rows with values millions of times the usual ones, or choose `likelihood gauss`";
                return Err(Error::Config { setting: "likelihood", problem: problem.into(), remedy: remedy.into() });
            }
            remarks.extend(remark_on_scales(&config, &moments));
            Prior::for_data(&config, &moments)
        }
        Some(start) => {
            if start.config.likelihood != config.likelihood {
                let name = start.config.likelihood.name();
                let problem = format!("the model to start from is {name}");
                let remedy = match config.method.has_centres_alone() {
                    true => {
                        "start from centres (kmeans, dp-means) or diagonal Gaussians, or train without `from`".into()
                    }
                    false => format!("give `likelihood {name}`"),
                };
                return Err(Error::Config { setting: "likelihood", problem, remedy });
            }
            if start.num_clusters() != config.clusters {
                let problem = format!("the model to start from has {} clusters", start.num_clusters());
                let remedy = format!("give `clusters {}`", start.num_clusters());
                return Err(Error::Config { setting: "clusters", problem, remedy });
            }
            // The prior goes on with the model, and so do the settings that made it.
            if start.config.missing != config.missing {
                let problem = match start.config.missing {
                    true => "the model to start from allows missing values",
                    false => "the model to start from does not allow missing values",
                };
                let remedy = if start.config.missing { "give `missing`" } else { "leave `missing` out" };
                return Err(Error::Config { setting: "missing", problem: problem.into(), remedy: remedy.into() });
            }
            config.lambda = start.config.lambda;
            config.kappa = start.config.kappa;
            config.prior_scale = start.config.prior_scale;
            config.prior_shape = start.config.prior_shape;
            config.variance_floor = start.config.variance_floor;
            start.prior.clone()
        }
    };
    if prior.dim != source.dim() {
        return Err(Error::DimensionMismatch { name: source.name().into(), model: prior.dim, data: source.dim() });
    }
    config.nu = Some(prior.nu);
    Ok((prior, config, remarks))
}

/// How many times the variance of a column may be that of its usual values where clusters share a covariance: one value of 5e8
/// among 1,000 with deviations of 10 is that far and borne, and one of 1e9 leaves nothing of the rest.
const MOST_REACH: f64 = 3e12;

/// Where the spread of one column is so many times that of another, methods that take columns alike see only some.
const SCALES_APART: f64 = 1e3;

/// What there is to say of columns whose scales are far apart, where it matters: measured on columns of scales 1e-4 to
/// 2,000, clusters that take columns alike find a third less of the classes (NMI .61 to .66 instead of .86) and lose more
/// than a hundred nats a row, an isotropic prior 60 and k-means seeds 5; the others are the same in any units.
fn remark_on_scales(config: &MixtureConfig, moments: &Moments) -> Option<String> {
    let family = config.likelihood.family();
    let spread = match family.spread {
        Spread::AboutMean => &moments.variance,
        Spread::AboutZero => &moments.second_moment,
        Spread::Means | Spread::Nothing => return None,
    };
    let what = match config.method.has_centres_alone() {
        true => config.method.name(),
        false if family.takes_columns_alike => family.name,
        false if config.prior_shape == PriorShape::Isotropic => "an isotropic prior",
        false if config.init == Init::Kmeans && family.has_means => "a start by k-means",
        false => return None,
    };
    let varying = (0..spread.len()).filter(|&d| !is_constant(spread[d], moments.second_moment[d]));
    let by_spread = |a: &usize, b: &usize| spread[*a].total_cmp(&spread[*b]);
    let (least, most) = (varying.clone().min_by(by_spread)?, varying.max_by(by_spread)?);
    let apart = (spread[most] / spread[least]).sqrt();
    let (least, most) = (least + 1, most + 1);
    (apart >= SCALES_APART).then(|| {
        format!(
            "column {most} spreads {apart:.0e} times as far as column {least}, and {what} takes columns alike: those of \
             large numbers decide alone; give `standardize`"
        )
    })
}

/// The prior's scale under which a few clusters explain rows best after some steps of training, where K is found: a prior
/// that is far from what clusters look like costs so much a cluster that too few are found. Gives what there is to say of
/// the columns of the rows that were looked at.
pub(super) fn settle_scale<T: Scalar>(
    source: &dyn RowSource,
    config: &mut Checked<MixtureConfig>,
    prior: &mut Prior,
    seed: u64,
) -> Result<Vec<String>> {
    const SCALES: [f64; 5] = [1e-4, 1e-3, 1e-2, 3e-2, 0.1];
    const ROWS: usize = 6000;
    const STEPS: usize = 6;
    let num = MixtureConfig::default().clusters.min(source.num_rows());
    let few = MixtureConfig { clusters: num, init_rows: None, ..MixtureConfig::clone(config) };
    let before = config.prior_scale.unwrap_or(1.0);
    let scaled = |scale: f64| {
        let variance = prior.variance.iter().map(|v| v * scale / before).collect();
        Prior { variance, ..prior.clone() }
    };
    let likelihood = few.likelihood.build::<T>(prior);
    let (estimate, allocation) = (few.estimate, few.allocation());
    let design = Design { likelihood: likelihood.as_ref(), estimate, allocation, num_clusters: num, sparsity: num };
    let data = Dealt::new(source, Batches::new(source.num_rows(), 1, 0)?);
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let start = initial_summary(&design, &data, &few, &mut rng, Patience::default())?;
    let sample = Sample::draw(&design, &data, ROWS, &mut rng)?;
    let mut best = (f64::NEG_INFINITY, before);
    for scale in SCALES {
        let likelihood = few.likelihood.build::<T>(&scaled(scale));
        let design = Design { likelihood: likelihood.as_ref(), ..design };
        let objective = sample.objective_after(&design, &start, data.total_weight(), STEPS);
        // What cannot be trained is no choice.
        if let Ok(objective) = objective
            && objective > best.0
        {
            best = (objective, scale);
        }
    }
    *prior = scaled(best.1);
    config.prior_scale = Some(best.1);
    Ok(remarks_on_values(&sample.rows))
}

/// The prior with the numbers that are given.
pub(super) fn take_given_prior(prior: &mut Prior, inputs: &MixtureInputs<'_>) -> Result<()> {
    let GivenPrior { mean, variance, variance_floor } = &inputs.given_prior;
    let refuse =
        |problem: String, remedy: &str| Err(Error::Config { setting: "prior", problem, remedy: remedy.into() });
    if inputs.start.is_some() {
        // The prior goes on with the model.
        return Ok(());
    }
    for (given, known, least) in [(mean, &mut prior.center, f64::NEG_INFINITY), (variance, &mut prior.variance, 0.0)] {
        let Some(given) = given else { continue };
        if given.len() != known.len() {
            let problem = format!("{} numbers are given where {} are needed", given.len(), known.len());
            return refuse(problem, "give one a column, to a family that has them");
        }
        if let Some(value) = given.iter().find(|value| !(value.is_finite() && **value > least)) {
            return refuse(format!("{value} cannot be in it"), "give finite means, and variances above zero");
        }
        known.clone_from(given);
    }
    if let Some(floor) = variance_floor {
        if !(floor.is_finite() && *floor >= 0.0) {
            return refuse(format!("{floor} is no smallest variance"), "give zero or more");
        }
        prior.variance_floor.fill(*floor);
    }
    Ok(())
}

/// A checksum of the numbers of a prior.
pub(super) fn print_prior(prior: &Prior) -> String {
    let numbers = prior.center.iter().chain(&prior.variance).chain(&prior.variance_floor);
    print_numbers(&numbers.copied().collect::<Vec<_>>())
}
