//! Training a mixture from a configuration and a source of rows: prior, seeds, scores, the saved model.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::methods::{
    DpMeans, KMeans, Method, MethodMixture, MixtureMethod, Select, SparseEm, Truncation, farthest_first_penalty,
};
use super::saved::{array_names, scan_for, working_element};
use super::{Frequencies, Mixture, MixtureData, MixtureModel, MixtureParams, Search, SearchKind, log_density};
use crate::checkpoint::{Fingerprint, Sections, Storage, print_numbers, print_rows, print_settings};
use crate::config::{BestBy, MixtureConfig};
use crate::data::{Batches, Element, Moments, RowSource, Scalar};
use crate::error::{Error, Result};
use crate::fit::{Outcome, Patience, StopRules, TrainingRecord};
use crate::init::initial_summary;
use crate::likelihood::{Estimate, NamedArray, Prior};
use crate::model::Model;
use crate::observe::Observer;
use crate::summary::ClusterSummary;
use crate::train::{self, Around, Plan, Start, StateOf, Task, Trained};

/// What a run has around it besides data and settings.
#[derive(Default)]
pub struct Surroundings<'a> {
    /// Rows to score at the end of every lap.
    pub heldout: Option<&'a dyn RowSource>,
    /// Score them after every so many steps instead, and at the end of the run; 0 for laps.
    pub heldout_every: u64,
    /// One weight a row, zero or more.
    pub row_weights: Option<&'a [f64]>,
    /// A model to start from instead of seeding.
    pub start: Option<&'a MixtureModel>,
    /// Told of every step.
    pub observer: Option<&'a mut dyn Observer>,
    /// Set from outside to stop after the current batch.
    pub interrupt: Option<&'a AtomicBool>,
    /// Checkpoints, and the limit on memory for remembered statistics.
    pub storage: Storage,
    /// Chooses the clusters of a row under [`MixtureMethod::Truncation`], in place of a built-in function.
    pub select: Option<&'a Select<'a>>,
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
    let mut mixture = Mixture {
        likelihood: config.likelihood.build::<T>(&prior),
        estimate: config.estimate,
        alpha: config.alpha,
        num_clusters: config.clusters,
        sparsity: config.sparsity,
        search: Search::new(
            match config.missing {
                // Bounds are made for complete rows.
                true => SearchKind::Dense,
                false => config.search.settle(config.likelihood, config.clusters, source.dim()),
            },
            config.clusters,
            config.sparsity,
            config.sparsity_tolerance,
        ),
    };
    check_surroundings(&mixture, config.missing, source, &around)?;
    if config.best_by == BestBy::Heldout && around.heldout.is_none() {
        let problem = "there are no held-out rows to compare runs by".into();
        return Err(Error::Config { option: "best-by", problem, remedy: "give held-out rows".into() });
    }
    let Surroundings { heldout, heldout_every, row_weights, start, observer, interrupt, mut storage, select } = around;
    if mixture.search.remembers_rows() {
        let place = storage.share_with_rows();
        place.check()?;
        mixture.search = mixture.search.remember_in(place);
    }
    let held = heldout.map(MixtureData::in_order).transpose()?;
    let around = Around { heldout_every, observer, interrupt, storage };
    let Trained { model, outcome, run, runs } = match method_of::<T>(&config, &prior, source, select)? {
        None => {
            let mut task = MixtureTask { model: mixture, prior, config, source, row_weights, start, held };
            train::train(&mut task, around)?
        }
        Some(method) => {
            let model = MethodMixture { mixture, method };
            train::train(&mut MixtureTask { model, prior, config, source, row_weights, start, held }, around)?
        }
    };
    Ok(Fitted { model, outcome, run, runs })
}

/// The method that takes the place of L-sparse training, if any does.
fn method_of<'f, T: Scalar>(
    config: &MixtureConfig,
    prior: &Prior,
    source: &dyn RowSource,
    select: Option<&'f Select<'f>>,
) -> Result<Option<Box<dyn Method<T> + 'f>>> {
    Ok(match (config.method, select) {
        (MixtureMethod::Truncation, Some(select)) => Some(Box::new(Truncation::given(select))),
        (_, Some(_)) => {
            let problem = format!("a selection function means nothing to {}", config.method.name());
            return Err(Error::Config { option: "method", problem, remedy: "choose truncation".into() });
        }
        (MixtureMethod::Truncation, None) => {
            Some(Box::new(Truncation::built_in(config.selection_function.settle(config.likelihood)?)))
        }
        (MixtureMethod::SparseEm, None) => Some(Box::new(SparseEm::new(config.refresh, config.threshold))),
        (MixtureMethod::Kmeans, None) => Some(Box::new(KMeans::new(prior))),
        (MixtureMethod::DpMeans, None) => {
            let penalty = match config.penalty {
                0.0 => farthest_first_penalty(source, &prior.center, config.clusters)?,
                penalty => penalty,
            };
            Some(Box::new(DpMeans::new(prior, penalty)))
        }
        (MixtureMethod::Lsparse | MixtureMethod::HardEm, None) => None,
    })
}

/// A mixture, and the method it is trained by where that is another.
trait MixtureStep {
    /// What rows are held in.
    type Number: Scalar;

    fn mixture(&self) -> &Mixture<Self::Number>;

    fn method(&self) -> Option<&dyn Method<Self::Number>> {
        None
    }
}

impl<T: Scalar> MixtureStep for Mixture<T> {
    type Number = T;

    fn mixture(&self) -> &Mixture<T> {
        self
    }
}

impl<T: Scalar> MixtureStep for MethodMixture<'_, T> {
    type Number = T;

    fn mixture(&self) -> &Mixture<T> {
        &self.mixture
    }

    fn method(&self) -> Option<&dyn Method<T>> {
        Some(self.method.as_ref())
    }
}

/// A mixture with all that its training needs.
struct MixtureTask<'a, M> {
    model: M,
    prior: Prior,
    config: MixtureConfig,
    source: &'a dyn RowSource,
    row_weights: Option<&'a [f64]>,
    start: Option<&'a MixtureModel>,
    held: Option<MixtureData<'a>>,
}

impl<'a, M> Task for MixtureTask<'a, M>
where
    M: MixtureStep + Model<MixtureData<'a>, Params = MixtureParams<M::Number>, Summary = ClusterSummary>,
{
    type Data = MixtureData<'a>;
    type Model = M;
    type Saved = MixtureModel;

    fn plan(&self) -> Plan {
        let config = &self.config;
        // Squared distances are in the data's units; what a row of all data is away from their mean is one nat here.
        let unit = match config.method.has_centres_alone() {
            true => self.prior.variance.iter().sum::<f64>() / config.prior_scale,
            false => 1.0,
        };
        Plan {
            runs: config.runs,
            best_by: config.best_by,
            rules: StopRules {
                laps: config.laps,
                tolerance: config.tolerance * unit,
                count_tolerance: config.count_tolerance,
                max_seconds: config.max_seconds,
                // Between full laps of sparse EM most responsibilities are frozen: that nothing moves there says little.
                stride: if config.method == MixtureMethod::SparseEm { config.refresh } else { 1 },
            },
            schedule: config.schedule,
            delay: config.delay,
            decay: config.decay,
            leave_out: false,
        }
    }

    fn model(&self) -> &M {
        &self.model
    }

    fn deal(&self, run: usize) -> Result<MixtureData<'a>> {
        let seed = run_seed(&self.config, run, Stream::Batches);
        let batches = Batches::new(self.source.num_rows(), self.config.batches, seed)?;
        Ok(MixtureData { source: self.source, batches, row_weights: self.row_weights })
    }

    fn start(
        &mut self,
        data: &MixtureData<'a>,
        run: usize,
        patience: Patience<'_>,
    ) -> Result<Start<MixtureParams<M::Number>, ClusterSummary>> {
        let config = &self.config;
        let mixture = self.model.mixture();
        mixture.search.restart(config.clusters, config.sparsity, run_seed(config, run, Stream::Search));
        let rng = |stream| ChaCha8Rng::seed_from_u64(run_seed(&self.config, run, stream));
        if let Some(method) = self.model.method() {
            method.begin_run(self.source);
        }
        let given = || self.model.method().and_then(|method| method.initial(mixture, data));
        let total = match self.start.map(|start| start.total.clone()).or_else(given) {
            Some(total) => total,
            None => initial_summary(mixture, data, &self.config, &mut rng(Stream::Init), patience)?,
        };
        let previous = self.start.map(|start| start.params::<M::Number>()).transpose()?;
        let params = self.model.global_step(&total, previous.as_ref())?;
        Ok(Start { params, total, stays: false, rng: rng(Stream::Schedule) })
    }

    fn score(&self) -> Option<Box<dyn Fn(&MixtureParams<M::Number>, &ClusterSummary) -> Result<f64> + '_>> {
        let held = self.held.as_ref()?;
        Some(Box::new(move |params, _| mean_log_density(self.model.mixture(), params, held)))
    }

    fn saved(&self, state: &StateOf<Self>, outcome: &Outcome) -> MixtureModel {
        let mut model = MixtureModel {
            config: MixtureConfig { sparsity: self.model.mixture().search.sparsity(), ..self.config.of_record() },
            prior: self.prior.clone(),
            training: TrainingRecord::new(self.source.num_rows() - state.progress.forgotten, state, outcome),
            weights: state.params.frequencies.pi.clone(),
            arrays: state.params.clusters.arrays(),
            total: state.total.clone(),
        };
        if let Some(method) = self.model.method() {
            method.finish(&mut model);
        }
        model
    }

    fn encode(&self, model: &MixtureModel) -> std::io::Result<Vec<u8>> {
        model.to_bytes()
    }

    fn decode(&self, path: &Path, bytes: &[u8]) -> Result<MixtureModel> {
        MixtureModel::from_bytes(path, bytes)
    }

    fn fingerprint(&self) -> Result<Fingerprint> {
        let mut print = vec![("model".into(), "mixture".into()), ("data".into(), print_rows(self.source)?)];
        if let Some(held) = &self.held {
            print.push(("heldout".into(), print_rows(held.source)?));
        }
        if let Some(weights) = self.row_weights {
            print.push(("row-weights".into(), print_numbers(weights)));
        }
        if let Some(start) = self.start {
            print.push(("from".into(), print_numbers(&start.total.stats)));
        }
        print.extend(print_settings(&self.config));
        Ok(print)
    }

    /// The total gives everything but the shapes of clusters that have lost all rows under maximum likelihood, and what
    /// the search remembers of rows.
    fn sections(&self, params: &MixtureParams<M::Number>, _data: &MixtureData<'a>) -> Sections {
        let mut sections = Sections::default();
        let (remembered, file) = self.model.mixture().search.remembered();
        sections.put("search", &remembered);
        sections.refer_to(file);
        if let Some(method) = self.model.method() {
            method.sections(&mut sections);
        }
        if self.config.estimate == Estimate::MaxLikelihood {
            let arrays = params.clusters.arrays();
            sections.put("arrays", &arrays.into_iter().map(|a| (a.shape, a.values)).collect::<Vec<_>>());
        }
        sections
    }

    fn sections_are_safe(&self) {
        self.model.mixture().search.remembered_is_safe();
    }

    fn restore(
        &mut self,
        total: &ClusterSummary,
        sections: &Sections,
        _data: &MixtureData<'a>,
    ) -> Result<Option<MixtureParams<M::Number>>> {
        let Some(remembered) = sections.get("search") else { return Ok(None) };
        self.model.mixture().search.recall(remembered)?;
        if self.model.method().is_some_and(|method| !method.restore(sections)) {
            return Ok(None);
        }
        let mut previous = None;
        if self.config.estimate == Estimate::MaxLikelihood {
            let Some(stored) = sections.get::<Vec<(Vec<usize>, Vec<f64>)>>("arrays") else { return Ok(None) };
            let named = array_names(self.config.likelihood, self.config.estimate).zip(stored);
            let arrays: Vec<NamedArray> =
                named.map(|(name, (shape, values))| NamedArray { name, shape, values }).collect();
            let frequencies = Frequencies { log_pi: Vec::new(), pi: Vec::new() };
            let clusters = self.model.mixture().likelihood.clusters_of(&arrays)?;
            previous = Some(MixtureParams { frequencies, clusters });
        }
        self.model.global_step(total, previous.as_ref()).map(Some)
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

/// The prior: that of the model to go on from, or one in the units of the data. Checks every value on the way.
fn settle_prior<T: Scalar>(
    source: &dyn RowSource,
    mut config: MixtureConfig,
    around: &Surroundings<'_>,
) -> Result<(Prior, MixtureConfig)> {
    if config.missing && source.is_sparse() {
        let problem = format!("{} holds sparse rows, in which what is not stored is zero", source.name());
        return Err(Error::Config { option: "missing", problem, remedy: "give the rows in full".into() });
    }
    let usual = config.likelihood.default_nu(source.dim());
    if around.start.is_none() && config.nu > 0.0 && config.nu <= usual - 1.0 && !config.likelihood.wants_sparse_rows() {
        let problem = format!("with {} degrees of freedom or fewer the prior expects no covariance", usual - 1.0);
        return Err(Error::Config { option: "nu", problem, remedy: format!("give more, or 0 for {usual}") });
    }
    if config.prior_scale == 0.0 {
        config.prior_scale = config.likelihood.default_prior_scale(source.dim(), config.clusters, source.num_rows());
    }
    // Which values are allowed depends on the family alone, not on the numbers of its prior.
    let blank = Moments {
        count: 0,
        mean: vec![0.0; source.dim()],
        variance: vec![1.0; source.dim()],
        second_moment: vec![1.0; source.dim()],
        nonzeros: 0,
    };
    let family = config.likelihood.build::<T>(&Prior::for_data(&config, &blank));
    let moments = scan_for::<T>(family.as_ref(), source, config.missing)?;
    let prior = match around.start {
        None => Prior::for_data(&config, &moments.without_far_values(source)?),
        Some(start) => {
            if start.config.likelihood != config.likelihood {
                let name = start.config.likelihood.name();
                let problem = format!("the model to start from is {name}");
                let remedy = match config.method.has_centres_alone() {
                    true => {
                        "start from centres (kmeans, dp-means) or diagonal Gaussians, or train without --from".into()
                    }
                    false => format!("give --likelihood {name}"),
                };
                return Err(Error::Config { option: "likelihood", problem, remedy });
            }
            if start.num_clusters() != config.clusters {
                let problem = format!("the model to start from has {} clusters", start.num_clusters());
                let remedy = format!("give -k {}", start.num_clusters());
                return Err(Error::Config { option: "clusters", problem, remedy });
            }
            // The prior goes on with the model, and so do the settings that made it.
            if start.config.missing != config.missing {
                let problem = match start.config.missing {
                    true => "the model to start from allows missing values",
                    false => "the model to start from does not allow missing values",
                };
                let remedy = if start.config.missing { "give --missing" } else { "leave --missing out" };
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
    config.nu = prior.nu;
    Ok((prior, config))
}

/// What is given around the rows must fit them.
fn check_surroundings<T: Scalar>(
    mixture: &Mixture<T>,
    missing: bool,
    source: &dyn RowSource,
    around: &Surroundings<'_>,
) -> Result<()> {
    if let Some(held) = around.heldout {
        if held.dim() != source.dim() {
            return Err(Error::DimensionMismatch { name: held.name().into(), model: source.dim(), data: held.dim() });
        }
        scan_for::<T>(mixture.likelihood.as_ref(), held, missing)?;
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

/// Mean held-out log density, as a saved model scores rows: log sum_k `E[pi_k]` p(x | cluster k).
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
