//! Training a mixture from a configuration and a source of rows: checks, seeds, scores, the saved model.

use std::marker::PhantomData;
use std::sync::Arc;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::backend::Place;
use crate::clusters::device::{Gpu, Judge};
use crate::clusters::seed::initial_summary_at;
use crate::clusters::{scan_for, working_element};
use crate::data::{Batches, ColumnUnits, Dealt, Element, RowSource, Scalar, Standardized, Thresholded, scan_rows};
use crate::error::{Error, Result};
use crate::likelihood::{ClusterSummary, Estimate, LikelihoodKind, Prior};
use crate::mixture::given::{GivenStart, check_given};
use crate::mixture::growth::{Learns, Settled};
use crate::mixture::local::device::{OnDevice, demand};
use crate::mixture::local::methods::{DpMeans, KMeans, Select, SparseEm, Truncation, farthest_first_penalty};
use crate::mixture::memory::check_memory;
use crate::mixture::prior::{GivenPrior, print_prior, settle_prior, settle_scale, take_given_prior};
use crate::mixture::{Finding, LocalStep, MOST_STRETCHES, Mixture, MixtureModel, MixtureParams, Search};
use crate::runs::{self, Beside, Family, Fitted};
use crate::settings::{
    BestBy, BuiltInSelection, Checked, History, MixtureConfig, MixtureMethod, Plan, SearchKind, Sparsity,
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
    /// Which numbers of the prior are to follow the clusters while K is found.
    learns: Learns,
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
        let asked = config.sparsity;
        let mut config = config.check(source.num_rows())?;
        let clipped = asked.remark(config.clusters).filter(|_| !config.find_k);
        if let Some(start) = inputs.start.filter(|_| config.find_k && config.k_start.is_none()) {
            if start.num_clusters() > config.k_max() {
                let (start, most) = (start.num_clusters(), config.k_max());
                let problem = format!("the model to go on from has {start} clusters, and {most} is the most");
                return Err(Error::Config { setting: "k-max", problem, remedy: "give a larger one".into() });
            }
            config.clusters = start.num_clusters();
        }
        check_units(&config, &inputs)?;
        let family = config.likelihood.family();
        let asked = match inputs.start {
            Some(start) => start.asked_for(),
            None => {
                Learns { scale: config.prior_scale.is_some(), kappa: config.kappa.is_some(), nu: config.nu.is_some() }
            }
        };
        let may_learn = (config.find_k || config.trades) && !inputs.given_prior.is_some();
        let learns = Learns {
            scale: may_learn && !asked.scale && family.spread.is_of_variances(),
            kappa: may_learn && !asked.kappa && family.has_means && family.spread.is_of_variances(),
            nu: may_learn && !asked.nu && family.spread.is_of_variances(),
        };
        let (mut prior, mut config, mut remarks) = settle_prior::<T>(source, config, inputs.start)?;
        take_given_prior(&mut prior, &inputs)?;
        if config.find_k && learns.scale && inputs.start.is_none() {
            let seed = run_seed(&config, 0, Stream::Scale);
            remarks.extend(settle_scale::<T>(source, &mut config, &mut prior, seed)?);
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
        let mut mixtures = Mixtures::of(source, SettledMixture { config, prior, penalty, selection, learns }, inputs)?;
        if mixtures.settled.config.device.is_auto() {
            mixtures.place = mixtures.choose_place()?;
        }
        let weights = mixtures.remark_on_weights();
        let remarks = remarks.into_iter().chain(mixtures.place.remark.clone()).chain(clipped).chain(weights).collect();
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

    /// What is to be said of weights where K is found: evidence grows with them.
    fn remark_on_weights(&self) -> Option<String> {
        let weights = self.inputs.row_weights.filter(|_| self.settled.config.find_k)?;
        let mean = weights.iter().sum::<f64>() / weights.len().max(1) as f64;
        (mean - 1.0).abs().gt(&0.1).then(|| {
            format!(
                "rows weigh {mean:.3} on average: K is found as for so many times the rows; weights that are no counts \
                 should be 1 on average"
            )
        })
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

    /// How rows choose their clusters in a run.
    fn step(&self, run: usize) -> Box<dyn LocalStep<T>> {
        let config = &self.settled.config;
        match (config.method, &self.inputs.select) {
            (MixtureMethod::Truncation, Some(select)) => Box::new(Truncation::Given(Arc::clone(select))),
            (MixtureMethod::Truncation, None) => Box::new(Truncation::BuiltIn(self.settled.selection)),
            (MixtureMethod::SparseEm, _) => Box::new(SparseEm { refresh: config.refresh, threshold: config.threshold }),
            (MixtureMethod::Kmeans, _) => self.placed(Box::new(KMeans::new(&self.settled.prior))),
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
                self.placed(Box::new(search))
            }
        }
    }

    /// A step on the GPU, where that is its place.
    fn placed(&self, step: Box<dyn LocalStep<T>>) -> Box<dyn LocalStep<T>> {
        match &self.place.device {
            Some(device) => {
                let method = self.settled.config.method;
                let center = center_of(self.settled.config.likelihood, &self.settled.prior);
                Box::new(OnDevice::new(Arc::clone(device), step, method, center))
            }
            None => step,
        }
    }
}

/// How many times as much a lap must gain to count where clusters have as many variances as there are rows.
const WITH_MANY_VARIANCES: f64 = 10.0;

impl<T: Scalar> Mixtures<'_, T> {
    /// How many times its tolerance a lap must gain for the run to go on. Where clusters have as many variances and
    /// covariances of their own as there are rows, late laps teach them these rows by heart: the objective gains, and
    /// held-out rows as a rule do not.
    fn gains_count(&self) -> f64 {
        let SettledMixture { config, prior, .. } = &self.settled;
        let family = config.likelihood.family();
        if config.find_k || config.method != MixtureMethod::Lsparse || !family.spread.is_of_variances() {
            return 1.0;
        }
        let of_means = if family.has_means { self.source.dim() } else { 0 };
        let variances = config.likelihood.build::<T>(prior).stat_width().saturating_sub(of_means);
        let many = config.clusters.saturating_mul(variances) >= self.source.num_rows();
        if many { WITH_MANY_VARIANCES } else { 1.0 }
    }
}

impl<'a, T: Scalar> Family<'a> for Mixtures<'a, T> {
    type Model = Mixture<T>;
    type Saved = MixtureModel;

    fn plan(&self) -> Plan {
        let config = &self.settled.config;
        let mut plan = config.plan();
        if config.method.has_centres_alone() {
            // Squared distances are in the data's units; what a row of all data is away from their mean counts as a
            // hundred nats: a lap costs little, and ten times as much would rest up to 2 % above the least there is.
            let unit = self.settled.prior.variance.iter().sum::<f64>() / config.prior_scale.unwrap_or(1.0);
            plan.rules.tolerance = plan.rules.tolerance.map(|tolerance| 0.01 * tolerance * unit);
        }
        plan.rules.tolerance = plan.rules.tolerance.map(|tolerance| tolerance * self.gains_count());
        if config.method == MixtureMethod::SparseEm {
            // Between full laps most responsibilities are frozen: that nothing moves there says little.
            plan.rules.stride = config.refresh;
        }
        plan
    }

    fn beginning(&self) -> Beginning {
        let mut config = self.settled.config.clone();
        // What was asked for, so that these settings give the same run again.
        self.settled.learns.forget(&mut config);
        Beginning::new("mixture", self.source.num_rows(), self.source.dim(), &*config)
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
        let SettledMixture { config, prior, learns, .. } = &self.settled;
        let settled = || {
            let least_nu = (config.likelihood.family().default_nu)(prior.dim) - 1.0;
            Settled { prior: prior.clone(), scale: config.prior_scale.unwrap_or(1.0), learns: *learns, least_nu }
        };
        let seed = run_seed(config, run, Stream::Moves);
        let rest = config.tolerance.unwrap_or(USUAL_REST) * self.gains_count();
        let finding = match (config.find_k, config.trades) {
            (true, _) => Some(Finding::new(config.k_max(), config.sparsity, seed)),
            (false, true) => Some(Finding::trading(config.clusters, config.sparsity, seed, rest)),
            (false, false) => None,
        };
        let finding = finding.map(|finding| Finding { prior: learns.any().then(settled), ..finding });
        Mixture {
            likelihood: config.likelihood.build(prior),
            estimate: config.estimate,
            allocation: config.allocation(),
            finding,
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
                None => {
                    let SettledMixture { config, prior, .. } = &self.settled;
                    let center = center_of(config.likelihood, prior);
                    let gpu = Gpu { place: &self.place, center: &center };
                    initial_summary_at(&model.design(), data, config, gpu, &mut rng(Stream::Init), patience)?
                }
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
        let center = center_of(self.settled.config.likelihood, &self.settled.prior);
        self.held.as_ref().map(|held| mean_log_density(model, params, held, (&self.place, &center))).transpose()
    }

    fn saved(&self, session: &Session<'a, Mixture<T>>, outcome: &Outcome) -> MixtureModel {
        let (params, progress) = (session.params(), session.progress());
        let before = self.kept().map_or(0, |start| start.training.observations);
        let observations = before + self.source.num_rows() - progress.forgotten;
        let mut arrays = params.clusters.arrays();
        self.inputs.units.iter().for_each(|units| units.undo_arrays(&mut arrays));
        let mut config = MixtureConfig {
            sparsity: Sparsity::Of(params.search.sparsity),
            clusters: session.model().num_clusters,
            ..self.settled.config.of_record()
        };
        if config.find_k {
            // What was asked for, so that these settings give the same run again.
            config.k_start.get_or_insert(self.settled.config.clusters);
            if config.sparsity_tolerance.is_none() {
                config.sparsity = Sparsity::of_found(self.settled.config.sparsity, config.clusters);
            }
        }
        let mut prior = self.settled.prior.clone();
        if let Some(learned) = session.model().learned_prior(params) {
            self.settled.learns.forget(&mut config);
            prior = learned;
        }
        let mut model = MixtureModel {
            config,
            prior,
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

/// What a row gains over a lap at rest, where nothing is said of it: clusters are traded about then.
const USUAL_REST: f64 = 1e-3;

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

/// The point that a family's statistics are about.
pub(super) fn center_of(likelihood: LikelihoodKind, prior: &Prior) -> Vec<f64> {
    if likelihood.family().has_means { prior.center.clone() } else { vec![0.0; prior.dim] }
}

/// Mean held-out log density, as a saved model scores rows: log sum_k `E[pi_k]` p(x | cluster k).
fn mean_log_density<T: Scalar>(
    mixture: &Mixture<T>,
    params: &MixtureParams<T>,
    held: &Dealt<'_>,
    (place, center): (&Place, &[f64]),
) -> Result<f64> {
    let clusters = mixture.likelihood.clusters_of(&params.clusters.arrays())?;
    let log_pi: Vec<f64> = params.frequencies.pi.iter().map(|p| p.ln()).collect();
    let (mut total, stretch) = (0.0, mixture.stretch_rows());
    let mut judge = Judge::new(place, (mixture.likelihood.kind(), center), clusters.as_ref(), &log_pi);
    mixture.for_each_panel_of(MOST_STRETCHES, &held.batch(0), &mut None, |panel| {
        let densities = judge.log_density(&panel.rows)?;
        densities.chunks(stretch).for_each(|some| total += some.iter().sum::<f64>());
        Ok(())
    })?;
    Ok(total / held.source.num_rows() as f64 + mixture.units_change)
}
