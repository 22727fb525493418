//! Training a mixture from a configuration and a source of rows: prior, seeds, scores, the saved model.

use std::marker::PhantomData;
use std::sync::Arc;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::backend::Place;
use crate::clusters::seed::{Sample, initial_summary};
use crate::clusters::{Design, check_columns, is_constant, scan_for, working_element};
use crate::data::{
    Batches, ColumnUnits, Dealt, Element, Moments, RowSource, Scalar, Standardized, Thresholded, scan_rows,
};
use crate::error::{Error, Result};
use crate::likelihood::{ClusterSummary, Estimate, Extent, NamedArray, Prior, PriorShape, Spread, log_density};
use crate::mixture::local::device::{OnDevice, demand};
use crate::mixture::local::methods::{DpMeans, KMeans, Select, SparseEm, Truncation, farthest_first_penalty};
use crate::mixture::memory::check_memory;
use crate::mixture::{Finding, LocalStep, MOST_STRETCHES, Mixture, MixtureModel, MixtureParams, Search};
use crate::runs::{self, Beside, Family, Fitted};
use crate::settings::{
    BestBy, BuiltInSelection, Checked, History, Init, MixtureConfig, MixtureMethod, Plan, SearchKind, Sparsity,
};
use crate::store::checkpoint::{Fingerprint, print_numbers, print_rows, print_settings};
use crate::training::exchange::Known;
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
    /// The names of the columns, kept in the model.
    pub columns: Option<&'a [String]>,
    /// What is known of the first clusters.
    pub given: GivenStart,
    /// Numbers of the prior that are known.
    pub given_prior: GivenPrior,
    /// Chooses the clusters of a row under [`MixtureMethod::Truncation`], in place of a built-in function.
    pub select: Option<Arc<Select>>,
}

/// What is known of the clusters beforehand: it takes the place of what seeding finds.
#[derive(Clone, Debug, Default)]
pub struct GivenStart {
    /// Their frequencies.
    pub weights: Option<Vec<f64>>,
    /// Some of the family's arrays, as model files have them.
    pub arrays: Vec<NamedArray>,
}

impl GivenStart {
    fn is_empty(&self) -> bool {
        self.weights.is_none() && self.arrays.is_empty()
    }

    /// Every number as it is, for fingerprints.
    fn numbers(&self) -> Vec<f64> {
        self.weights.iter().flatten().chain(self.arrays.iter().flat_map(|array| &array.values)).copied().collect()
    }
}

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
    fn is_some(&self) -> bool {
        self.mean.is_some() || self.variance.is_some() || self.variance_floor.is_some()
    }
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
    on_working_rows(source, config, inputs, |source, inputs| match working_element(config.precision, source) {
        Element::F32 => runs::train(&Mixtures::<f32>::new(source, config, inputs)?, beside),
        Element::F64 => runs::train(&Mixtures::<f64>::new(source, config, inputs)?, beside),
    })
}

/// The mixture that a training would start from: no lap is done.
pub fn initial_mixture(
    source: &dyn RowSource,
    config: &MixtureConfig,
    inputs: MixtureInputs<'_>,
) -> Result<Fitted<MixtureModel>> {
    on_working_rows(source, config, inputs, |source, inputs| match working_element(config.precision, source) {
        Element::F32 => runs::start(&Mixtures::<f32>::new(source, config, inputs)?),
        Element::F64 => runs::start(&Mixtures::<f64>::new(source, config, inputs)?),
    })
}

/// Run `work` on rows as settings take them: as they are, as zeros and ones, or in the units of their columns.
fn on_working_rows<R>(
    source: &dyn RowSource,
    config: &MixtureConfig,
    inputs: MixtureInputs<'_>,
    work: impl FnOnce(&dyn RowSource, MixtureInputs<'_>) -> Result<R>,
) -> Result<R> {
    if let Some(threshold) = config.binarize {
        let held = inputs.heldout.map(|held| Thresholded::new(held, threshold));
        let heldout = held.as_ref().map(|held| held as &dyn RowSource);
        return work(&Thresholded::new(source, threshold), MixtureInputs { heldout, ..inputs });
    }
    let Some(units) = &settle_units(source, config, &inputs)? else { return work(source, inputs) };
    let held = inputs.heldout.map(|held| Standardized::new(held, units));
    let heldout = held.as_ref().map(|held| held as &dyn RowSource);
    work(&Standardized::new(source, units), MixtureInputs { heldout, units: Some(units), ..inputs })
}

/// The units to put rows into, where settings ask for it: those of the model to go on from, or of these rows.
fn settle_units(
    source: &dyn RowSource,
    config: &MixtureConfig,
    inputs: &MixtureInputs<'_>,
) -> Result<Option<ColumnUnits>> {
    let config = config.check(source.num_rows())?;
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
    place: Place,
    number: PhantomData<T>,
}

impl<'a, T: Scalar> Mixtures<'a, T> {
    /// Check settings and rows, and settle what depends on them.
    pub fn new(source: &'a dyn RowSource, config: &MixtureConfig, inputs: MixtureInputs<'a>) -> Result<Self> {
        let mut config = config.check(source.num_rows())?;
        if let Some(start) = inputs.start.filter(|_| config.find_k && config.k_start.is_none()) {
            config.clusters = start.num_clusters();
        }
        check_units(&config, &inputs)?;
        let asked = config.prior_scale.is_some() || inputs.given_prior.is_some() || inputs.start.is_some();
        let (mut prior, mut config, remarks) = settle_prior::<T>(source, config, inputs.start)?;
        take_given_prior(&mut prior, &inputs)?;
        if config.find_k && !asked && config.likelihood.family().spread.is_of_variances() {
            settle_scale::<T>(source, &mut config, &mut prior)?;
        }
        check_given(&config, &prior, &inputs.given)?;
        if let Some(held) = inputs.heldout {
            if held.dim() != source.dim() {
                let (name, model, data) = (held.name().into(), source.dim(), held.dim());
                return Err(Error::DimensionMismatch { name, model, data });
            }
            scan_for::<T>(config.likelihood.build::<T>(&prior).as_ref(), held, config.missing)?;
        }
        check_row_weights(source, inputs.row_weights)?;
        if let Some(columns) = inputs.columns.filter(|columns| columns.len() != source.dim()) {
            let problem = format!("{} names for {} columns", columns.len(), source.dim());
            return Err(Error::Config { setting: "columns", problem, remedy: "give one name a column".into() });
        }
        if config.best_by == BestBy::Heldout && inputs.heldout.is_none() {
            let problem = "there are no held-out rows to compare runs by".into();
            return Err(Error::Config { setting: "best-by", problem, remedy: "give held-out rows".into() });
        }
        if config.early_stopping > None && inputs.heldout.is_none() {
            let problem = "there are no held-out rows to stop by".into();
            return Err(Error::Config { setting: "early-stopping", problem, remedy: "give `heldout` too".into() });
        }
        if config.history == History::Keep && config.method.has_centres_alone() {
            let problem = format!("{} has no counts that could stay", config.method.name());
            return Err(Error::Config { setting: "history", problem, remedy: "train with all rows".into() });
        }
        if inputs.select.is_some() && config.method != MixtureMethod::Truncation {
            let problem = format!("a selection function means nothing to {}", config.method.name());
            return Err(Error::Config { setting: "method", problem, remedy: "choose truncation".into() });
        }
        let penalty = match (config.method, config.penalty) {
            (MixtureMethod::DpMeans, None) => farthest_first_penalty(source, &prior.center, config.clusters)?,
            (_, penalty) => penalty.unwrap_or(0.0),
        };
        let selection = match (config.method, &inputs.select) {
            (MixtureMethod::Truncation, None) => config.selection_function.settle(config.likelihood)?,
            _ => config.selection_function,
        };
        let mut mixtures = Mixtures::of(source, SettledMixture { config, prior, penalty, selection }, inputs)?;
        if mixtures.settled.config.device.is_auto() {
            mixtures.place = mixtures.choose_place()?;
        }
        let remarks = remarks.into_iter().chain(mixtures.place.remark.clone()).collect();
        Ok(Mixtures { remarks, ..mixtures })
    }

    /// The same with what was settled elsewhere: the rows are not read. Processes that train together are to round alike
    /// whatever machines they are on, so that none takes a GPU by itself.
    pub fn of(source: &'a dyn RowSource, settled: SettledMixture, inputs: MixtureInputs<'a>) -> Result<Self> {
        let held = inputs.heldout.map(Dealt::in_order).transpose()?;
        let (remarks, place) = (Vec::new(), Place::default());
        let mut mixtures = Mixtures { source, settled, inputs, held, remarks, place, number: PhantomData };
        if !mixtures.settled.config.device.is_auto() {
            mixtures.place = mixtures.choose_place()?;
        }
        Ok(mixtures)
    }

    /// Where local steps are to run.
    fn choose_place(&self) -> Result<Place> {
        let (config, source) = (&self.settled.config, self.source);
        let demand = demand::<T>(config, source.num_rows(), source.dim(), self.inputs.row_weights.is_some());
        Place::choose(config.device, &demand)
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

    /// The statistics of clusters that are given, with what is not given from those that seeding found; none where
    /// something is left to be found.
    fn given_summary(&self, model: &Mixture<T>, found: Option<&ClusterSummary>) -> Result<Option<ClusterSummary>> {
        let GivenStart { weights, arrays: given } = &self.inputs.given;
        let found = found.map(|found| model.global_step(found, None)).transpose()?;
        let mut arrays = found.as_ref().map(|found| found.clusters.arrays()).unwrap_or_default();
        arrays.retain(|array| given.iter().all(|known| known.name != array.name));
        arrays.extend(given.iter().cloned());
        let weights = weights.as_ref().or_else(|| found.as_ref().map(|found| &found.frequencies.pi));
        let needed = self.settled.config.likelihood.arrays(Estimate::MaxLikelihood);
        let complete = needed.into_iter().all(|needed| arrays.iter().any(|array| array.name == needed.name));
        let Some(weights) = weights.filter(|_| complete) else { return Ok(None) };
        // Not positive definite, say.
        model.likelihood.clusters_of(&arrays)?;
        let rows = self.inputs.row_weights.map_or(self.source.num_rows() as f64, |weights| weights.iter().sum());
        let counts: Vec<f64> = weights.iter().map(|weight| weight * rows).collect();
        let Some(stats) = model.likelihood.statistics_of(&counts, &arrays)? else { return Ok(None) };
        Ok(Some(ClusterSummary { counts, stats, width: model.likelihood.stat_width(), entropy: 0.0, trial: None }))
    }

    /// The point that statistics are about.
    fn center(&self) -> Vec<f64> {
        let prior = &self.settled.prior;
        if self.settled.config.likelihood.family().has_means { prior.center.clone() } else { vec![0.0; prior.dim] }
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
                // Where K is found, the search is one for the many that there may be.
                let clusters = if config.find_k { config.k_max() } else { config.clusters };
                let kind = match config.missing || self.place.device.is_some() {
                    // Bounds are made for complete rows, and a GPU has its own.
                    true => SearchKind::Dense,
                    false => config.search.settle(config.likelihood, clusters, self.source.dim()),
                };
                let tolerance = config.sparsity_tolerance.unwrap_or(0.0);
                let search = Search::new(kind, clusters, config.sparsity, tolerance)
                    .giving_way(config.search == SearchKind::Auto);
                let search = search.with_seed(run_seed(config, run, Stream::Search));
                match &self.place.device {
                    Some(device) => Box::new(OnDevice::new(Arc::clone(device), search, self.center())),
                    None => Box::new(search),
                }
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
        Beginning::new("mixture", self.source.num_rows(), self.source.dim(), &*self.settled.config)
    }

    fn remarks(&self) -> &[String] {
        &self.remarks
    }

    fn backend(&self) -> String {
        self.place.name()
    }

    fn fingerprint(&self) -> Result<Fingerprint> {
        let MixtureInputs { heldout, row_weights, start, ref given, ref given_prior, .. } = self.inputs;
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
        if !given.is_empty() {
            print.push(("given clusters".into(), print_numbers(&given.numbers())));
        }
        if given_prior.is_some() {
            print.push(("given prior".into(), print_prior(&self.settled.prior)));
        }
        print.extend(print_settings(&*self.settled.config));
        Ok(print)
    }

    fn known(&self) -> Result<Known> {
        if self.settled.config.method == MixtureMethod::DpMeans {
            let problem = "dp-means looks at every row in its turn, which other processes cannot".into();
            return Err(Error::Config { setting: "method", problem, remedy: "choose another".into() });
        }
        let settings = (&self.settled, self.inputs.units);
        let settings = serde_json::to_string(&settings).map_err(|_| Error::Exchange { what: "settings" })?;
        let ends = self.source.pieces().map_or(Vec::new(), |pieces| pieces.ends().to_vec());
        Ok(Known { family: "mixture".into(), settings, double: T::ELEMENT == Element::F64, ends })
    }

    fn deal(&self, run: usize) -> Result<Dealt<'a>> {
        let seed = run_seed(&self.settled.config, run, Stream::Batches);
        let batches = Batches::of(self.source, self.settled.config.batches, seed)?;
        Ok(Dealt::new(self.source, batches).weighted(self.inputs.row_weights))
    }

    fn model(&self, run: usize) -> Mixture<T> {
        let config = &self.settled.config;
        Mixture {
            likelihood: config.likelihood.build(&self.settled.prior),
            estimate: config.estimate,
            allocation: config.allocation(),
            finding: config
                .find_k
                .then(|| Finding::new(config.k_max(), config.sparsity, run_seed(config, run, Stream::Moves))),
            num_clusters: config.clusters,
            sparsity: config.sparsity.min(config.clusters),
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
        let known = || model.step.initial(model, data);
        let total = match start.map(|start| start.total.clone()).or_else(known) {
            Some(total) => total,
            None => match self.given_summary(model, None)? {
                Some(total) => total,
                None => initial_summary(&model.design(), data, &self.settled.config, &mut rng(Stream::Init), patience)?,
            },
        };
        let total = match self.inputs.given.is_empty() || start.is_some() {
            true => total,
            false => self.given_summary(model, Some(&total))?.unwrap_or(total),
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
            config: MixtureConfig {
                sparsity: Sparsity::Of(params.search.sparsity),
                clusters: session.model().num_clusters,
                ..self.settled.config.of_record()
            },
            prior: self.settled.prior.clone(),
            units: self.inputs.units.cloned(),
            columns: self.inputs.columns.map(<[String]>::to_vec).unwrap_or_default(),
            training: TrainingRecord::new(observations, progress, outcome),
            weights: params.frequencies.pi.clone(),
            arrays,
            total: ClusterSummary { trial: None, ..session.total().clone() },
        };
        session.model().step.finish(&mut model);
        model
    }

    fn kept(&self, mut earlier: MixtureModel, outcome: &Outcome) -> MixtureModel {
        let MixtureConfig { laps, tolerance, count_tolerance, max_seconds, early_stopping, .. } = *self.settled.config;
        let rest = earlier.config;
        earlier.config = MixtureConfig { laps, tolerance, count_tolerance, max_seconds, early_stopping, ..rest };
        earlier.training.stopped_by = outcome.reason.rule().into();
        earlier
    }
}

/// Independent streams of randomness of one run.
enum Stream {
    Batches,
    Init,
    Schedule,
    Search,
    Moves,
    Scale,
}

fn run_seed(config: &MixtureConfig, run: usize, stream: Stream) -> u64 {
    // Runs and streams are far apart, so that seed 0 run 1 and seed 1 run 0 are not the same run.
    let salt = (run as u64) << 8 | stream as u64;
    config.seed ^ salt.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Rows are in units of their columns where settings say so, and the model to go on from has the same.
fn check_units(config: &MixtureConfig, inputs: &MixtureInputs<'_>) -> Result<()> {
    let refuse = |problem: &str, remedy: &str| {
        Err(Error::Config { setting: "standardize", problem: problem.into(), remedy: remedy.into() })
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
    // Which values are allowed depends on the family alone, not on the numbers of its prior.
    let family = config.likelihood.build::<T>(&Prior::for_data(&config, &Moments::unknown(source.dim())));
    let moments = scan_for::<T>(family.as_ref(), source, config.missing)?;
    check_columns::<T>(source, config.likelihood, &moments)?;
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

/// The prior's scale under which a few clusters explain rows best after some steps of training, where K is found: a prior
/// that is far from what clusters look like costs so much a cluster that too few are found.
fn settle_scale<T: Scalar>(
    source: &dyn RowSource,
    config: &mut Checked<MixtureConfig>,
    prior: &mut Prior,
) -> Result<()> {
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
    let mut rng = ChaCha8Rng::seed_from_u64(run_seed(config, 0, Stream::Scale));
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
    Ok(())
}

/// The prior with the numbers that are given.
fn take_given_prior(prior: &mut Prior, inputs: &MixtureInputs<'_>) -> Result<()> {
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

/// Clusters that are given have the shapes of the family's, and frequencies that sum to one.
fn check_given(config: &MixtureConfig, prior: &Prior, given: &GivenStart) -> Result<()> {
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

/// A checksum of the numbers of a prior.
fn print_prior(prior: &Prior) -> String {
    let numbers = prior.center.iter().chain(&prior.variance).chain(&prior.variance_floor);
    print_numbers(&numbers.copied().collect::<Vec<_>>())
}

/// One weight a row, none of them negative, some above zero.
pub(crate) fn check_row_weights(source: &dyn RowSource, row_weights: Option<&[f64]>) -> Result<()> {
    if let Some(weights) = row_weights {
        if weights.len() != source.num_rows() {
            let problem = format!("{} weights for {} rows", weights.len(), source.num_rows());
            return Err(Error::Config { setting: "row-weights", problem, remedy: "give one weight a row".into() });
        }
        if let Some(row) = weights.iter().position(|w| !(*w >= 0.0 && w.is_finite())) {
            let (value, need) = (weights[row], "a finite weight, zero or more");
            return Err(Error::BadValue { name: "the row weights".into(), row, column: 0, value, need });
        }
        if !weights.iter().any(|w| *w > 0.0) {
            let problem = "every weight is zero".into();
            return Err(Error::Config { setting: "row-weights", problem, remedy: "give some rows weight".into() });
        }
    }
    Ok(())
}

/// Mean held-out log density, as a saved model scores rows: log sum_k `E[pi_k]` p(x | cluster k).
fn mean_log_density<T: Scalar>(mixture: &Mixture<T>, params: &MixtureParams<T>, held: &Dealt<'_>) -> Result<f64> {
    let clusters = mixture.likelihood.clusters_of(&params.clusters.arrays())?;
    let log_pi: Vec<f64> = params.frequencies.pi.iter().map(|p| p.ln()).collect();
    let (mut total, stretch) = (0.0, mixture.stretch_rows());
    mixture.for_each_panel_of(MOST_STRETCHES, &held.batch(0), &mut None, |panel| {
        let densities = log_density(clusters.as_ref(), &log_pi, &panel.rows)?;
        densities.chunks(stretch).for_each(|some| total += some.iter().sum::<f64>());
        Ok(())
    })?;
    Ok(total / held.source.num_rows() as f64 + mixture.units_change)
}
