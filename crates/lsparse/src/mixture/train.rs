//! Training a mixture from a configuration and a source of rows: prior, seeds, schedule, loop, best of several runs.

use std::sync::atomic::AtomicBool;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::saved::{scan_for, working_element};
use super::{Mixture, MixtureData, MixtureModel, MixtureParams, log_density};
use crate::config::{BestBy, MixtureConfig};
use crate::data::{Batches, Element, Moments, RowSource, Scalar};
use crate::error::{Error, Result};
use crate::fit::{self, Outcome, State, StopReason, StopRules, TrainingRecord, Watch};
use crate::init::initial_summary;
use crate::likelihood::Prior;
use crate::model::Model;
use crate::observe::{Observer, Stopwatch};
use crate::schedule::{Memoized, Schedule, ScheduleKind, Stochastic};
use crate::summary::ClusterSummary;

/// What a run has around it besides data and settings.
#[derive(Default)]
pub struct Surroundings<'a> {
    /// Rows to score at the end of every lap.
    pub heldout: Option<&'a dyn RowSource>,
    /// One weight a row, zero or more.
    pub row_weights: Option<&'a [f64]>,
    /// A model to start from instead of seeding.
    pub start: Option<&'a MixtureModel>,
    /// Told of every step.
    pub observer: Option<&'a mut dyn Observer>,
    /// Set from outside to stop after the current batch.
    pub interrupt: Option<&'a AtomicBool>,
}

/// A trained model and how its training went.
pub struct Fitted {
    /// The model.
    pub model: MixtureModel,
    /// How the best run ended.
    pub outcome: Outcome,
    /// Which run was kept, from 0.
    pub run: usize,
    /// Final objective and held-out score of every run.
    pub runs: Vec<(f64, Option<f64>)>,
}

/// Train a mixture on the rows of `source`.
///
/// ```
/// use lsparse::{MixtureConfig, data::MemoryRows, fit_mixture};
///
/// let rows: Vec<f64> = (0..200).map(|n| if n % 2 == 0 { 5.0 } else { -5.0 } + (n % 7) as f64 * 0.1).collect();
/// let source = MemoryRows::new("two groups", 1, rows)?;
/// let fitted = fit_mixture(&source, &MixtureConfig { clusters: 2, ..Default::default() })?;
/// let mut means = fitted.model.array("means").unwrap().values.clone();
/// means.sort_by(f64::total_cmp);
/// assert!((means[0] + 4.7).abs() < 0.1 && (means[1] - 5.3).abs() < 0.1);
/// # Ok::<(), lsparse::Error>(())
/// ```
pub fn fit_mixture(source: &dyn RowSource, config: &MixtureConfig) -> Result<Fitted> {
    fit_mixture_with(source, config, Surroundings::default())
}

/// Train a mixture with held-out rows, row weights, observers and so on.
pub fn fit_mixture_with(source: &dyn RowSource, config: &MixtureConfig, around: Surroundings<'_>) -> Result<Fitted> {
    let config = config.check(source.num_rows())?;
    match working_element(config.precision, source) {
        Element::F32 => train::<f32>(source, config, around),
        Element::F64 => train::<f64>(source, config, around),
    }
}

fn train<T: Scalar>(source: &dyn RowSource, config: MixtureConfig, around: Surroundings<'_>) -> Result<Fitted> {
    let (prior, config) = settle_prior::<T>(source, config, &around)?;
    let mixture = Mixture {
        likelihood: config.likelihood.build::<T>(&prior),
        estimate: config.estimate,
        alpha: config.alpha,
        num_clusters: config.clusters,
        sparsity: config.sparsity,
    };
    check_surroundings(&mixture, source, &around)?;
    if config.best_by == BestBy::Heldout && around.heldout.is_none() {
        let problem = "there are no held-out rows to compare runs by".into();
        return Err(Error::Config { option: "best-by", problem, remedy: "give held-out rows".into() });
    }
    let held = around.heldout.map(MixtureData::in_order).transpose()?;
    let score = |params: &MixtureParams<T>, _: &ClusterSummary| match &held {
        Some(held) => mean_log_density(&mixture, params, held),
        None => Ok(f64::NAN),
    };
    let mut silent = ();
    let observer: &mut dyn Observer = match around.observer {
        Some(observer) => observer,
        None => &mut silent,
    };
    let mut best: Option<Fitted> = None;
    let mut runs = Vec::new();
    for run in 0..config.runs {
        let mut clock = Stopwatch::default();
        clock.start();
        let data = MixtureData {
            source,
            batches: Batches::new(source.num_rows(), config.batches, run_seed(&config, run, Stream::Batches))?,
            row_weights: around.row_weights,
        };
        let total = match around.start {
            Some(start) => start.total.clone(),
            None => {
                let mut rng = ChaCha8Rng::seed_from_u64(run_seed(&config, run, Stream::Init));
                initial_summary(&mixture, &data, &config, &mut rng)?
            }
        };
        let previous = around.start.map(|start| start.params::<T>()).transpose()?;
        let params = Model::<MixtureData<'_>>::global_step(&mixture, &total, previous.as_ref())?;
        let mut schedule = build_schedule(&mixture, &data, &config, &total, run);
        let mut state = State { params, total, step: 0, laps: 0 };
        let mut watch = Watch {
            score: held.as_ref().map(|_| &score as &dyn Fn(&MixtureParams<T>, &ClusterSummary) -> Result<f64>),
            observer: &mut *observer,
            interrupt: around.interrupt,
            run,
            clock,
        };
        let outcome = fit::run(&mixture, &data, schedule.as_mut(), &mut state, &StopRules::from(&config), &mut watch)?;
        runs.push((outcome.objective.total(), outcome.heldout));
        let better = best.as_ref().is_none_or(|b| quality(&config, &outcome) > quality(&config, &b.outcome));
        let interrupted = outcome.reason == StopReason::Interrupted;
        if better {
            let model = saved_model(&mixture, &config, &prior, source.num_rows(), state, &outcome);
            best = Some(Fitted { model, outcome, run, runs: Vec::new() });
        }
        if interrupted {
            break;
        }
    }
    let mut best = best.ok_or_else(|| Error::NoRows { name: source.name().into() })?;
    best.runs = runs;
    Ok(best)
}

/// What "best" compares.
fn quality(config: &MixtureConfig, outcome: &Outcome) -> f64 {
    match (config.best_by, outcome.heldout) {
        (BestBy::Heldout, Some(score)) => score,
        _ => outcome.objective.total(),
    }
}

/// Independent streams of randomness of one run.
enum Stream {
    Batches,
    Init,
    Schedule,
}

fn run_seed(config: &MixtureConfig, run: usize, stream: Stream) -> u64 {
    // Runs and streams are far apart, so that seed 0 run 1 and seed 1 run 0 are not the same run.
    let salt = (run as u64) << 8 | stream as u64;
    config.seed ^ salt.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// The prior: that of the model to go on from, or one in the units of the data. Checks every value on the way.
fn settle_prior<T: Scalar>(
    source: &dyn RowSource,
    mut config: MixtureConfig,
    around: &Surroundings<'_>,
) -> Result<(Prior, MixtureConfig)> {
    let least = source.dim() as f64 + 2.0;
    if around.start.is_none() && config.nu > 0.0 && config.nu < least && !config.likelihood.wants_sparse_rows() {
        let problem = format!("{} is too few degrees of freedom for {} columns", config.nu, source.dim());
        return Err(Error::Config { option: "nu", problem, remedy: format!("give {least} or more, or 0 for {least}") });
    }
    let c = config.clone();
    let moments_prior = |moments: &Moments| {
        Prior::for_data(c.likelihood, moments, c.lambda, c.nu, c.kappa, c.prior_scale, c.variance_floor)
    };
    // Which values are allowed depends on the family alone, not on the numbers of its prior.
    let blank = moments_prior(&Moments {
        count: 0,
        mean: vec![0.0; source.dim()],
        variance: vec![1.0; source.dim()],
        second_moment: vec![1.0; source.dim()],
        nonzeros: 0,
    });
    let moments = scan_for::<T>(config.likelihood.build::<T>(&blank).as_ref(), source)?;
    let prior = match around.start {
        None => moments_prior(&moments),
        Some(start) => {
            if start.config.likelihood != config.likelihood {
                let problem = format!("the model to start from is {}", start.config.likelihood.name());
                let remedy = format!("give --likelihood {}", start.config.likelihood.name());
                return Err(Error::Config { option: "likelihood", problem, remedy });
            }
            if start.num_clusters() != config.clusters {
                let problem = format!("the model to start from has {} clusters", start.num_clusters());
                let remedy = format!("give -k {}", start.num_clusters());
                return Err(Error::Config { option: "clusters", problem, remedy });
            }
            // The prior goes on with the model, and so do the settings that made it.
            config.lambda = start.config.lambda;
            config.kappa = start.config.kappa;
            config.prior_scale = start.config.prior_scale;
            config.variance_floor = start.config.variance_floor;
            start.prior.clone()
        }
    };
    if prior.dim != source.dim() {
        return Err(Error::DimensionMismatch { name: source.name().into(), model: prior.dim, data: source.dim() });
    }
    config.nu = prior.nu;
    Ok((prior, config))
}

/// What is given around the rows must fit them.
fn check_surroundings<T: Scalar>(
    mixture: &Mixture<T>,
    source: &dyn RowSource,
    around: &Surroundings<'_>,
) -> Result<()> {
    if let Some(held) = around.heldout {
        if held.dim() != source.dim() {
            return Err(Error::DimensionMismatch { name: held.name().into(), model: source.dim(), data: held.dim() });
        }
        scan_for::<T>(mixture.likelihood.as_ref(), held)?;
    }
    check_row_weights(source, around.row_weights)
}

/// One weight a row, none of them negative, some above zero.
pub(super) fn check_row_weights(source: &dyn RowSource, row_weights: Option<&[f64]>) -> Result<()> {
    if let Some(weights) = row_weights {
        if weights.len() != source.num_rows() {
            let problem = format!("{} weights for {} rows", weights.len(), source.num_rows());
            return Err(Error::Config { option: "row-weights", problem, remedy: "give one weight a row".into() });
        }
        if let Some(row) = weights.iter().position(|w| !(*w >= 0.0 && w.is_finite())) {
            let (value, need) = (weights[row], "a finite weight, zero or more");
            return Err(Error::BadValue { name: "the row weights".into(), row, column: 0, value, need });
        }
        if !weights.iter().any(|w| *w > 0.0) {
            let problem = "every weight is zero".into();
            return Err(Error::Config { option: "row-weights", problem, remedy: "give some rows weight".into() });
        }
    }
    Ok(())
}

fn build_schedule<T: Scalar>(
    mixture: &Mixture<T>,
    data: &MixtureData<'_>,
    config: &MixtureConfig,
    initial: &ClusterSummary,
    run: usize,
) -> Box<dyn Schedule<ClusterSummary>> {
    let shares: Vec<f64> = (0..config.batches).map(|b| mixture.batch_share(data, b)).collect();
    let rng = ChaCha8Rng::seed_from_u64(run_seed(config, run, Stream::Schedule));
    match config.schedule {
        ScheduleKind::Full | ScheduleKind::Memoized => Box::new(Memoized::new(shares, initial.clone(), true, rng)),
        ScheduleKind::Streaming => Box::new(Memoized::new(shares, initial.clone(), false, rng)),
        ScheduleKind::Stochastic => Box::new(Stochastic::new(shares, config.delay, config.decay, rng)),
    }
}

/// Mean held-out log likelihood under point estimates: log sum_k `E[pi_k]` F(x | `E[phi_k]`).
fn mean_log_density<T: Scalar>(mixture: &Mixture<T>, params: &MixtureParams<T>, held: &MixtureData<'_>) -> Result<f64> {
    let clusters = mixture.likelihood.clusters_of(&params.clusters.arrays())?;
    let log_pi: Vec<f64> = params.frequencies.pi.iter().map(|p| p.ln()).collect();
    let mut total = 0.0;
    mixture.for_each_panel(held, 0, &mut None, |panel| {
        total += log_density(clusters.as_ref(), &log_pi, &panel.rows)?.iter().sum::<f64>();
        Ok(())
    })?;
    Ok(total / held.source.num_rows() as f64)
}

fn saved_model<T: Scalar>(
    mixture: &Mixture<T>,
    config: &MixtureConfig,
    prior: &Prior,
    rows: usize,
    state: State<MixtureParams<T>, ClusterSummary>,
    outcome: &Outcome,
) -> MixtureModel {
    debug_assert_eq!(mixture.num_clusters, config.clusters);
    MixtureModel {
        config: config.clone(),
        prior: prior.clone(),
        training: TrainingRecord::new(rows, &state, outcome),
        weights: state.params.frequencies.pi,
        arrays: state.params.clusters.arrays(),
        total: state.total,
    }
}
