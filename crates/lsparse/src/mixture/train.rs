//! Training a mixture from a configuration and a source of rows: prior, seeds, scores, the saved model.

use std::marker::PhantomData;
use std::sync::Arc;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::data::{Batches, ColumnUnits, Dealt, Element, Moments, RowSource, Scalar, Standardized, scan_rows};
use crate::error::{Error, Result};
use crate::likelihood::{ClusterSummary, Prior, PriorShape, Spread};
use crate::mixture::local::methods::{DpMeans, KMeans, Select, SparseEm, Truncation, farthest_first_penalty};
use crate::mixture::memory::check_memory;
use crate::mixture::prior::is_constant;
use crate::mixture::saved::{scan_for, working_element};
use crate::mixture::seed::initial_summary;
use crate::mixture::{LocalStep, Mixture, MixtureModel, MixtureParams, Search, log_density};
use crate::runs::{self, Beside, Family, Fitted};
use crate::settings::{
    BestBy, BuiltInSelection, Checked, History, Init, MixtureConfig, MixtureMethod, Plan, SearchKind, Sparsity,
};
use crate::store::checkpoint::{Fingerprint, print_numbers, print_rows, print_settings};
use crate::training::model::Model;
use crate::training::rules::{Outcome, Patience, TrainingRecord};
use crate::training::schedule::ScheduleKind;
use crate::training::session::{Session, Start};
use crate::training::trace::Beginning;

/// What a mixture is trained with besides rows and settings.
#[derive(Clone, Default)]
pub struct MixtureInputs<'a> {
    /// Rows to score at the end of every lap.
    pub heldout: Option<&'a dyn RowSource>,
    /// One weight a row, zero or more.
    pub row_weights: Option<&'a [f64]>,
    /// A model to start from instead of seeding.
    pub start: Option<&'a MixtureModel>,
    /// The units that rows and held-out rows were put into, where settings say `standardize`; [`fit_mixture_with`] does so.
    pub units: Option<&'a ColumnUnits>,
    /// Chooses the clusters of a row under [`MixtureMethod::Truncation`], in place of a built-in function.
    pub select: Option<Arc<Select>>,
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
pub fn fit_mixture(source: &dyn RowSource, config: &MixtureConfig) -> Result<Fitted<MixtureModel>> {
    fit_mixture_with(source, config, MixtureInputs::default(), Beside::default())
}

/// Train a mixture with held-out rows, row weights, observers and so on.
pub fn fit_mixture_with(
    source: &dyn RowSource,
    config: &MixtureConfig,
    inputs: MixtureInputs<'_>,
    beside: Beside<'_>,
) -> Result<Fitted<MixtureModel>> {
    let checked = config.check(source.num_rows())?;
    check_memory(source, &checked, &beside.storage)?;
    let Some(units) = &settle_units(source, &checked, &inputs)? else {
        return fit_rows(source, config, inputs, beside);
    };
    let rows = Standardized::new(source, units);
    let held = inputs.heldout.map(|held| Standardized::new(held, units));
    let heldout = held.as_ref().map(|held| held as &dyn RowSource);
    fit_rows(&rows, config, MixtureInputs { heldout, units: Some(units), ..inputs }, beside)
}

/// The same with rows in the units that they are worked on in.
fn fit_rows(
    source: &dyn RowSource,
    config: &MixtureConfig,
    inputs: MixtureInputs<'_>,
    beside: Beside<'_>,
) -> Result<Fitted<MixtureModel>> {
    match working_element(config.precision, source) {
        Element::F32 => runs::train(&Mixtures::<f32>::new(source, config, inputs)?, beside),
        Element::F64 => runs::train(&Mixtures::<f64>::new(source, config, inputs)?, beside),
    }
}

/// The units to put rows into, where settings ask for it: those of the model to go on from, or of these rows.
fn settle_units(
    source: &dyn RowSource,
    config: &Checked<MixtureConfig>,
    inputs: &MixtureInputs<'_>,
) -> Result<Option<ColumnUnits>> {
    if !config.standardize || inputs.units.is_some() {
        return Ok(None);
    }
    if let Some(held) = inputs.heldout.filter(|held| held.dim() != source.dim()) {
        let (name, model, data) = (held.name().into(), source.dim(), held.dim());
        return Err(Error::DimensionMismatch { name, model, data });
    }
    match inputs.start {
        Some(start) if start.dim() != source.dim() => {
            Err(Error::DimensionMismatch { name: source.name().into(), model: start.dim(), data: source.dim() })
        }
        Some(start) => Ok(start.units.clone()),
        None => {
            let moments = scan_rows(source, Element::F64, false, None)?.without_far_values(source)?;
            Ok(Some(ColumnUnits::of(&moments, config.likelihood.family().spread)))
        }
    }
}

/// Settings of a mixture with all that depends on its rows: what those who see a part of the rows need to know.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SettledMixture {
    /// The settings, checked.
    pub config: Checked<MixtureConfig>,
    /// The prior, in the units of the data.
    pub prior: Prior,
    /// Squared distance at which DP-means opens a cluster.
    penalty: f64,
    /// What truncation selects by, where not by a function that is given.
    selection: BuiltInSelection,
}

/// Mixtures of rows of type `T` with all that their training needs.
pub struct Mixtures<'a, T> {
    source: &'a dyn RowSource,
    settled: SettledMixture,
    inputs: MixtureInputs<'a>,
    held: Option<Dealt<'a>>,
    remarks: Vec<String>,
    number: PhantomData<T>,
}

impl<'a, T: Scalar> Mixtures<'a, T> {
    /// Check settings and rows, and settle what depends on them.
    pub fn new(source: &'a dyn RowSource, config: &MixtureConfig, inputs: MixtureInputs<'a>) -> Result<Self> {
        let config = config.check(source.num_rows())?;
        check_units(&config, &inputs)?;
        let (prior, config, remarks) = settle_prior::<T>(source, config, inputs.start)?;
        if let Some(held) = inputs.heldout {
            if held.dim() != source.dim() {
                let (name, model, data) = (held.name().into(), source.dim(), held.dim());
                return Err(Error::DimensionMismatch { name, model, data });
            }
            scan_for::<T>(config.likelihood.build::<T>(&prior).as_ref(), held, config.missing)?;
        }
        check_row_weights(source, inputs.row_weights)?;
        if config.best_by == BestBy::Heldout && inputs.heldout.is_none() {
            let problem = "there are no held-out rows to compare runs by".into();
            return Err(Error::Config { option: "best-by", problem, remedy: "give held-out rows".into() });
        }
        if config.history == History::Keep && config.method.has_centres_alone() {
            let problem = format!("{} has no counts that could stay", config.method.name());
            return Err(Error::Config { option: "history", problem, remedy: "train with all rows".into() });
        }
        if inputs.select.is_some() && config.method != MixtureMethod::Truncation {
            let problem = format!("a selection function means nothing to {}", config.method.name());
            return Err(Error::Config { option: "method", problem, remedy: "choose truncation".into() });
        }
        let penalty = match (config.method, config.penalty) {
            (MixtureMethod::DpMeans, None) => farthest_first_penalty(source, &prior.center, config.clusters)?,
            (_, penalty) => penalty.unwrap_or(0.0),
        };
        let selection = match (config.method, &inputs.select) {
            (MixtureMethod::Truncation, None) => config.selection_function.settle(config.likelihood)?,
            _ => config.selection_function,
        };
        let mixtures = Mixtures::of(source, SettledMixture { config, prior, penalty, selection }, inputs)?;
        Ok(Mixtures { remarks, ..mixtures })
    }

    /// The same with what was settled elsewhere: the rows are not read.
    pub fn of(source: &'a dyn RowSource, settled: SettledMixture, inputs: MixtureInputs<'a>) -> Result<Self> {
        let held = inputs.heldout.map(Dealt::in_order).transpose()?;
        Ok(Mixtures { source, settled, inputs, held, remarks: Vec::new(), number: PhantomData })
    }

    /// What was settled.
    pub fn settled(&self) -> &SettledMixture {
        &self.settled
    }

    /// The model to go on from whose statistics stay; stochastic steps let them fade.
    fn kept(&self) -> Option<&'a MixtureModel> {
        let MixtureConfig { history, schedule, .. } = *self.settled.config;
        self.inputs.start.filter(|_| history == History::Keep && schedule != ScheduleKind::Stochastic)
    }

    /// What the log density of a row changes by to be in the data's own units.
    fn units_change(&self) -> f64 {
        self.inputs.units.map_or(0.0, ColumnUnits::log_density_change)
    }

    /// How rows choose their clusters in a run.
    fn step(&self, run: usize) -> Box<dyn LocalStep<T>> {
        let config = &self.settled.config;
        match (config.method, &self.inputs.select) {
            (MixtureMethod::Truncation, Some(select)) => Box::new(Truncation::Given(Arc::clone(select))),
            (MixtureMethod::Truncation, None) => Box::new(Truncation::BuiltIn(self.settled.selection)),
            (MixtureMethod::SparseEm, _) => Box::new(SparseEm { refresh: config.refresh, threshold: config.threshold }),
            (MixtureMethod::Kmeans, _) => Box::new(KMeans::new(&self.settled.prior)),
            (MixtureMethod::DpMeans, _) => Box::new(DpMeans::new(&self.settled.prior, self.settled.penalty)),
            (MixtureMethod::Lsparse | MixtureMethod::HardEm, _) => {
                let kind = match config.missing {
                    // Bounds are made for complete rows.
                    true => SearchKind::Dense,
                    false => config.search.settle(config.likelihood, config.clusters, self.source.dim()),
                };
                let tolerance = config.sparsity_tolerance.unwrap_or(0.0);
                let search = Search::new(kind, config.clusters, config.sparsity, tolerance)
                    .giving_way(config.search == SearchKind::Auto);
                Box::new(search.with_seed(run_seed(config, run, Stream::Search)))
            }
        }
    }
}

impl<'a, T: Scalar> Family<'a> for Mixtures<'a, T> {
    type Model = Mixture<T>;
    type Saved = MixtureModel;

    fn plan(&self) -> Plan {
        let config = &self.settled.config;
        let mut plan = config.plan();
        if config.method.has_centres_alone() {
            // Squared distances are in the data's units; what a row of all data is away from their mean is one nat here.
            let unit = self.settled.prior.variance.iter().sum::<f64>() / config.prior_scale.unwrap_or(1.0);
            plan.rules.tolerance = plan.rules.tolerance.map(|tolerance| tolerance * unit);
        }
        if config.method == MixtureMethod::SparseEm {
            // Between full laps most responsibilities are frozen: that nothing moves there says little.
            plan.rules.stride = config.refresh;
        }
        plan
    }

    fn beginning(&self) -> Beginning {
        Beginning::new("mixture", self.source.num_rows(), self.source.dim(), &self.settled.config)
    }

    fn remarks(&self) -> &[String] {
        &self.remarks
    }

    fn fingerprint(&self) -> Result<Fingerprint> {
        let MixtureInputs { heldout, row_weights, start, .. } = self.inputs;
        let mut print = vec![("model".into(), "mixture".into()), ("data".into(), print_rows(self.source)?)];
        if let Some(held) = heldout {
            print.push(("heldout".into(), print_rows(held)?));
        }
        if let Some(weights) = row_weights {
            print.push(("row-weights".into(), print_numbers(weights)));
        }
        if let Some(start) = start {
            print.push(("from".into(), print_numbers(&start.total.stats)));
        }
        print.extend(print_settings(&self.settled.config));
        Ok(print)
    }

    fn deal(&self, run: usize) -> Result<Dealt<'a>> {
        let seed = run_seed(&self.settled.config, run, Stream::Batches);
        let batches = Batches::new(self.source.num_rows(), self.settled.config.batches, seed)?;
        Ok(Dealt { source: self.source, batches, row_weights: self.inputs.row_weights })
    }

    fn model(&self, run: usize) -> Mixture<T> {
        Mixture {
            likelihood: self.settled.config.likelihood.build(&self.settled.prior),
            estimate: self.settled.config.estimate,
            alpha: self.settled.config.alpha,
            num_clusters: self.settled.config.clusters,
            sparsity: self.settled.config.sparsity,
            step: self.step(run),
            units_change: self.units_change(),
        }
    }

    fn start(
        &self,
        model: &mut Mixture<T>,
        data: &Dealt<'a>,
        run: usize,
        patience: Patience<'_>,
    ) -> Result<Start<Mixture<T>>> {
        model.set_deadline(patience.until());
        let rng = |stream| ChaCha8Rng::seed_from_u64(run_seed(&self.settled.config, run, stream));
        let start = self.inputs.start;
        let given = || model.step.initial(model, data);
        let total = match start.map(|start| start.total.clone()).or_else(given) {
            Some(total) => total,
            None => initial_summary(model, data, &self.settled.config, &mut rng(Stream::Init), patience)?,
        };
        let previous = start.map(|start| start.params_of(model)).transpose()?;
        let params = model.global_step(&total, previous.as_ref())?;
        Ok(Start { params, total, stays: self.kept().is_some(), rng: rng(Stream::Schedule) })
    }

    fn score(&self, model: &Mixture<T>, params: &MixtureParams<T>, _total: &ClusterSummary) -> Result<Option<f64>> {
        self.held.as_ref().map(|held| mean_log_density(model, params, held)).transpose()
    }

    fn saved(&self, session: &Session<'a, Mixture<T>>, outcome: &Outcome) -> MixtureModel {
        let (params, progress) = (session.params(), session.progress());
        let before = self.kept().map_or(0, |start| start.training.observations);
        let observations = before + self.source.num_rows() - progress.forgotten;
        let mut arrays = params.clusters.arrays();
        self.inputs.units.iter().for_each(|units| units.undo_arrays(&mut arrays));
        let mut model = MixtureModel {
            config: MixtureConfig { sparsity: Sparsity::Of(params.search.sparsity), ..self.settled.config.of_record() },
            prior: self.settled.prior.clone(),
            units: self.inputs.units.cloned(),
            training: TrainingRecord::new(observations, progress, outcome),
            weights: params.frequencies.pi.clone(),
            arrays,
            total: session.total().clone(),
        };
        session.model().step.finish(&mut model);
        model
    }
}

/// Independent streams of randomness of one run.
enum Stream {
    Batches,
    Init,
    Schedule,
    Search,
}

fn run_seed(config: &MixtureConfig, run: usize, stream: Stream) -> u64 {
    // Runs and streams are far apart, so that seed 0 run 1 and seed 1 run 0 are not the same run.
    let salt = (run as u64) << 8 | stream as u64;
    config.seed ^ salt.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Rows are in units of their columns where settings say so, and the model to go on from has the same.
fn check_units(config: &MixtureConfig, inputs: &MixtureInputs<'_>) -> Result<()> {
    let refuse = |problem: &str, remedy: &str| {
        Err(Error::Config { option: "standardize", problem: problem.into(), remedy: remedy.into() })
    };
    match inputs.start.map(|start| start.units.is_some()) {
        Some(true) if !config.standardize => refuse("the model to start from has it", "give `standardize`"),
        Some(false) if config.standardize => refuse("the model to start from does not have it", "leave it out"),
        _ if config.standardize != inputs.units.is_some() => {
            refuse("rows are not in the units that settings say", "put them there first, and give their units")
        }
        _ => Ok(()),
    }
}

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

/// The prior: that of the model to go on from, or one in the units of the data. Checks every value on the way, and gives
/// what there is to say of the columns.
fn settle_prior<T: Scalar>(
    source: &dyn RowSource,
    mut config: Checked<MixtureConfig>,
    start: Option<&MixtureModel>,
) -> Result<(Prior, Checked<MixtureConfig>, Vec<String>)> {
    if config.missing && source.is_sparse() {
        let problem = format!("{} holds sparse rows, in which what is not stored is zero", source.name());
        return Err(Error::Config { option: "missing", problem, remedy: "give the rows in full".into() });
    }
    let usual = (config.likelihood.family().default_nu)(source.dim());
    if start.is_none()
        && config.nu.is_some_and(|nu| nu <= usual - 1.0)
        && config.likelihood.family().spread.is_of_variances()
    {
        let problem = format!("with {} degrees of freedom or fewer the prior expects no covariance", usual - 1.0);
        return Err(Error::Config { option: "nu", problem, remedy: format!("give more, or leave it out for {usual}") });
    }
    let usual = config.likelihood.default_prior_scale(source.dim(), config.clusters, source.num_rows());
    config.prior_scale.get_or_insert(usual);
    // Which values are allowed depends on the family alone, not on the numbers of its prior.
    let family = config.likelihood.build::<T>(&Prior::for_data(&config, &Moments::blank(source.dim())));
    let moments = scan_for::<T>(family.as_ref(), source, config.missing)?;
    if config.likelihood.family().spread.is_of_variances() && moments.vanish() {
        return Err(Error::TooSmall { name: source.name().to_owned() });
    }
    let mut remarks = Vec::new();
    let prior = match start {
        None => {
            let moments = moments.without_far_values(source)?;
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
                return Err(Error::Config { option: "likelihood", problem, remedy });
            }
            if start.num_clusters() != config.clusters {
                let problem = format!("the model to start from has {} clusters", start.num_clusters());
                let remedy = format!("give `clusters {}`", start.num_clusters());
                return Err(Error::Config { option: "clusters", problem, remedy });
            }
            // The prior goes on with the model, and so do the settings that made it.
            if start.config.missing != config.missing {
                let problem = match start.config.missing {
                    true => "the model to start from allows missing values",
                    false => "the model to start from does not allow missing values",
                };
                let remedy = if start.config.missing { "give `missing`" } else { "leave `missing` out" };
                return Err(Error::Config { option: "missing", problem: problem.into(), remedy: remedy.into() });
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

/// One weight a row, none of them negative, some above zero.
pub(crate) fn check_row_weights(source: &dyn RowSource, row_weights: Option<&[f64]>) -> Result<()> {
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

/// Mean held-out log density, as a saved model scores rows: log sum_k `E[pi_k]` p(x | cluster k).
fn mean_log_density<T: Scalar>(mixture: &Mixture<T>, params: &MixtureParams<T>, held: &Dealt<'_>) -> Result<f64> {
    let clusters = mixture.likelihood.clusters_of(&params.clusters.arrays())?;
    let log_pi: Vec<f64> = params.frequencies.pi.iter().map(|p| p.ln()).collect();
    let mut total = 0.0;
    mixture.for_each_panel(&held.batch(0), &mut None, |panel| {
        total += log_density(clusters.as_ref(), &log_pi, &panel.rows)?.iter().sum::<f64>();
        Ok(())
    })?;
    Ok(total / held.source.num_rows() as f64 + mixture.units_change)
}
