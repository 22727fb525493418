//! Training a hidden Markov model from a configuration and sequences of rows: prior, seeds, scores, the saved model.

use std::marker::PhantomData;
use std::ops::Range;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::local::{Local, Sequences, next_step_scores, panel_rows, panels_of};
use super::seed::initial;
use super::steps::{MayLack, Steps, lacking_rows};
use super::{Sequence, SequenceModel, SequenceParams, SequenceSummary};
use crate::allocation::{Chain, ChainPrior};
use crate::clusters::{check_columns, scan_for, scan_part_for, working_element};
use crate::data::{
    Ahead, Batches, Dealt, Element, Groups, Measuring, Moments, PartialMoments, Picked, Pieces, RowSource, Scalar,
    Stretch, Window,
};
use crate::error::{Error, Result};
use crate::likelihood::{Clusters, Likelihood, Prior};
use crate::runs::{self, Beside, Family, Fitted};
use crate::settings::{BestBy, Checked, History, Plan, SequenceConfig, Sparsity, too_many};
use crate::store::checkpoint::{Fingerprint, print_numbers, print_rows, print_settings};
use crate::system::{OF_A_TRAINING, check_room};
use crate::training::exchange::Known;
use crate::training::model::Model;
use crate::training::rules::{Outcome, Patience, TrainingRecord};
use crate::training::schedule::ScheduleKind;
use crate::training::session::{Session, Start};
use crate::training::trace::Beginning;

/// What a hidden Markov model is trained with besides rows and settings.
#[derive(Clone, Default)]
pub struct SequenceInputs<'a> {
    /// Where sequences begin; one sequence of all rows where it is not said.
    pub groups: Option<&'a Groups>,
    /// Sequences to score at the end of every lap, with where they begin.
    pub heldout: Option<(&'a dyn RowSource, Option<&'a Groups>)>,
    /// A model to start from instead of seeding.
    pub start: Option<&'a SequenceModel>,
    /// The names of the columns, kept in the model.
    pub columns: Option<&'a [String]>,
}

/// Train a hidden Markov model on the rows of `source`, sequences of `groups`.
///
/// ```
/// use lsparse::data::{Groups, MemoryRows};
/// use lsparse::{SequenceConfig, fit_sequence};
///
/// // Two states that each stay for ten steps.
/// let value = |n: usize| if n / 10 % 2 == 0 { 5.0 } else { -5.0 } + (n % 7) as f64 * 0.1;
/// let source = MemoryRows::new("two states", 1, (0..400).map(value).collect())?;
/// let groups = Groups::of_lengths("lengths", &[100, 300], 400)?;
/// let fitted = fit_sequence(&source, &groups, &SequenceConfig { states: 2, ..Default::default() })?;
/// let transitions = fitted.model.transitions();
/// assert!((transitions[0] - 0.9).abs() < 0.05 && (transitions[3] - 0.9).abs() < 0.05);
/// # Ok::<(), lsparse::Error>(())
/// ```
pub fn fit_sequence(source: &dyn RowSource, groups: &Groups, config: &SequenceConfig) -> Result<Fitted<SequenceModel>> {
    let inputs = SequenceInputs { groups: Some(groups), ..Default::default() };
    fit_sequence_with(source, config, inputs, Beside::default())
}

/// Train a hidden Markov model with held-out sequences, observers and so on.
pub fn fit_sequence_with(
    source: &dyn RowSource,
    config: &SequenceConfig,
    inputs: SequenceInputs<'_>,
    beside: Beside<'_>,
) -> Result<Fitted<SequenceModel>> {
    match working_element(config.precision, source) {
        Element::F32 => SequenceFamily::<f32>::with(source, config, inputs, |family| runs::train(family, beside)),
        Element::F64 => SequenceFamily::<f64>::with(source, config, inputs, |family| runs::train(family, beside)),
    }
}

/// Run `work` on rows as steps, with the weights of rows where some are missing.
pub(super) fn with_steps<R>(
    source: &dyn RowSource,
    config: &SequenceConfig,
    work: impl FnOnce(&Steps<'_>, Option<&[f64]>) -> Result<R>,
) -> Result<R> {
    let steps = match config.missing {
        true => Steps::of(source, MayLack::of(config.likelihood.family()))?,
        false => Steps::complete(source),
    };
    let weights = steps.weights();
    work(&steps, weights.as_deref())
}

/// Settings of a hidden Markov model with all that depends on its rows: what those who see a part of the rows need to know.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SettledSequence {
    /// The settings, checked.
    config: Checked<SequenceConfig>,
    /// The prior, in the units of the data.
    prior: Prior,
}

impl SettledSequence {
    /// Which of some rows are steps without an observation, where there may be such.
    pub fn lacking(&self, rows: &dyn RowSource) -> Result<Vec<bool>> {
        match self.config.missing {
            true => lacking_rows(rows, MayLack::of(self.config.likelihood.family())),
            false => Ok(Vec::new()),
        }
    }

    /// The windows of a piece whose sequences are these, among those of all pieces: of the others nothing is known here, and
    /// nobody asks. All sequences are here where rows do not lie in pieces.
    pub fn windows(&self, groups: &Groups, number: usize, ends: &[usize]) -> Vec<Window> {
        let own = self.config.windows(groups);
        let mut windows = Vec::new();
        for (piece, &end) in ends.iter().enumerate() {
            let first = piece.checked_sub(1).map_or(0, |before| ends[before]);
            let shift = |rows: Range<usize>| first + rows.start..first + rows.end;
            let whole = || Window { rows: first..end, own: first..end, begins: true };
            match piece == number {
                true => windows.extend(own.iter().cloned().map(|w| Window {
                    rows: shift(w.rows),
                    own: shift(w.own),
                    begins: w.begins,
                })),
                false => windows.push(whole()),
            }
        }
        if ends.is_empty() { own } else { windows }
    }
}

/// The moments of the steps of a piece that are there, every value checked.
pub(crate) fn measure_steps<T: Scalar>(rows: &dyn RowSource, config: &SequenceConfig) -> Result<PartialMoments> {
    let emissions = config.emissions();
    // Which values are allowed depends on the family alone, not on the numbers of its prior.
    let family = config.likelihood.build::<T>(&Prior::for_data(&emissions, &Moments::unknown(rows.dim())));
    with_steps(rows, config, |steps, weights| match weights {
        None => scan_part_for(family.as_ref(), steps, emissions.missing),
        Some(weights) if weights.iter().all(|weight| *weight == 0.0) => Ok(PartialMoments::new(rows.dim())),
        Some(weights) => {
            let found = scan_part_for(family.as_ref(), &present(steps, weights), emissions.missing);
            found.map_err(|error| in_source(error, Some(weights)))
        }
    })
}

/// Hidden Markov models of rows of type `T` with all that their training needs.
pub struct SequenceFamily<'a, T> {
    source: &'a Steps<'a>,
    /// One weight a row for seeding, where some are missing.
    row_weights: Option<&'a [f64]>,
    groups: Groups,
    /// The windows that sequences are worked on in.
    windows: Vec<Window>,
    config: Checked<SequenceConfig>,
    prior: Prior,
    inputs: SequenceInputs<'a>,
    held: Option<(&'a Steps<'a>, Groups)>,
    remarks: Vec<String>,
    number: PhantomData<T>,
}

impl<T: Scalar> SequenceFamily<'_, T> {
    /// Run `work` on hidden Markov models of these rows.
    pub fn with<R>(
        source: &dyn RowSource,
        config: &SequenceConfig,
        inputs: SequenceInputs<'_>,
        work: impl FnOnce(&SequenceFamily<'_, T>) -> Result<R>,
    ) -> Result<R> {
        // What is wrong with settings is said before rows are looked at.
        config.check(source.num_rows())?;
        with_steps(source, config, |source, weights| match inputs.heldout {
            None => work(&SequenceFamily::new(source, weights, config, inputs.clone(), None)?),
            Some((rows, groups)) => with_steps(rows, config, |held, _| {
                work(&SequenceFamily::new(source, weights, config, inputs.clone(), Some((held, groups)))?)
            }),
        })
    }
}

impl<'a, T: Scalar> SequenceFamily<'a, T> {
    /// Check settings, rows and groups, and settle what depends on them.
    fn new(
        source: &'a Steps<'a>,
        row_weights: Option<&'a [f64]>,
        config: &SequenceConfig,
        inputs: SequenceInputs<'a>,
        held: Option<(&'a Steps<'a>, Option<&Groups>)>,
    ) -> Result<Self> {
        let mut remarks: Vec<String> = config.sparsity.remark(config.states).into_iter().collect();
        let mut config = config.check(source.num_rows())?;
        let groups = groups_of(source, inputs.groups)?;
        let refuse = |setting: &'static str, problem: String, remedy: &str| {
            Err(Error::Config { setting, problem, remedy: remedy.into() })
        };
        let windows = config.windows(&groups);
        let (filled, cut) = (groups.num_filled(), windows.len());
        if config.settings_batches().is_some_and(|batches| batches > cut) {
            let what = match (cut > filled, cut) {
                (true, _) => "stretches of sequences",
                (_, 1) => "sequence",
                _ => "sequences",
            };
            let problem = format!("{} batches for {cut} {what}", config.batches);
            return refuse("batches", problem, "ask for as many as there are sequences at most");
        }
        let batches = config.batches.min(cut);
        config.settle_batches(batches);
        // Who has asked for it knows.
        if cut > filled && config.cut.is_none() {
            remarks.push(format!(
                "long sequences are worked on in {cut} stretches, each with {} steps of its neighbours on either side \
                 (`cut`, `overlap`)",
                config.overlap
            ));
        }
        let there = row_weights.map_or(source.num_rows(), |weights| weights.iter().filter(|w| **w > 0.0).count());
        if there == 0 {
            let problem = format!("all {} steps of {} are missing", source.num_rows(), source.name());
            return refuse("missing", problem, "give sequences with steps that are there");
        }
        if there < config.states {
            return Err(too_many(config.states, there));
        }
        let prior = settle_prior::<T>(source, row_weights, &mut config, inputs.start)?;
        if prior.dim != source.dim() {
            return Err(Error::DimensionMismatch { name: source.name().into(), model: prior.dim, data: source.dim() });
        }
        let held = match held {
            None => None,
            Some((rows, groups)) => {
                if rows.dim() != source.dim() {
                    let (name, model, data) = (rows.name().into(), source.dim(), rows.dim());
                    return Err(Error::DimensionMismatch { name, model, data });
                }
                scan_for::<T>(config.likelihood.build::<T>(&prior).as_ref(), rows, prior.missing)?;
                Some((rows, groups_of(rows, groups)?))
            }
        };
        if let Some(columns) = inputs.columns.filter(|columns| columns.len() != source.dim()) {
            let problem = format!("{} names for {} columns", columns.len(), source.dim());
            return refuse("columns", problem, "give one name a column");
        }
        if config.best_by == BestBy::Heldout && held.is_none() {
            return refuse("best-by", "there is nothing held out to compare runs by".into(), "give held-out rows");
        }
        if config.early_stopping.is_some() && held.is_none() {
            return refuse("early-stopping", "there is nothing held out to stop by".into(), "give `heldout` too");
        }
        let number = PhantomData;
        let family =
            SequenceFamily { source, row_weights, groups, windows, config, prior, inputs, held, remarks, number };
        family.check_memory()?;
        Ok(family)
    }

    /// The same with what was settled elsewhere: the rows are not read.
    pub(crate) fn of(source: &'a Steps<'a>, settled: SettledSequence, windows: Vec<Window>) -> Self {
        let SettledSequence { config, prior } = settled;
        let (inputs, groups) = (SequenceInputs::default(), Groups::one(source.num_rows()));
        let (held, row_weights, remarks, number) = (None, None, Vec::new(), PhantomData);
        SequenceFamily { source, row_weights, groups, windows, config, prior, inputs, held, remarks, number }
    }

    /// Refuse what cannot fit into memory: statistics of batches, states, and where all states are kept the longest window.
    fn check_memory(&self) -> Result<()> {
        let (states, sparsity) = (self.config.states as u64, self.config.sparsity as u64);
        let likelihood = self.config.likelihood.build::<T>(&self.prior);
        let pairs = if sparsity == states { states.saturating_mul(states) } else { 0 };
        let statistics = 8 * (states.saturating_mul(likelihood.stat_width() as u64).saturating_add(pairs));
        let remembered = match self.config.schedule {
            ScheduleKind::Full | ScheduleKind::Memoized => self.config.batches as u64,
            ScheduleKind::Stochastic | ScheduleKind::Streaming => 0,
        };
        let longest = self.windows.iter().map(|window| window.rows.len()).max().unwrap_or(0) as u64;
        // Likelihoods, forward, backward and shares of each step's states.
        let paths = longest.saturating_mul(40 * sparsity.saturating_mul(if sparsity == states { 1 } else { 5 }));
        let rows = longest.saturating_mul((self.source.dim() * size_of::<T>()) as u64);
        let needed = statistics.saturating_mul(remembered + 4).saturating_add(paths).saturating_add(rows);
        let what = || format!("training {states} states of {}", self.config.likelihood.name());
        let remedy =
            || "keep fewer states a step (`sparsity`), ask for fewer states, or cut long sequences (`cut`)".to_owned();
        check_room(needed.saturating_add(OF_A_TRAINING), what, remedy)
    }

    fn chain_prior(&self) -> ChainPrior {
        ChainPrior { alpha: self.config.alpha, stickiness: self.config.stickiness }
    }

    /// The model to go on from whose statistics stay; stochastic steps let them fade.
    fn kept_start(&self) -> Option<&'a SequenceModel> {
        let SequenceConfig { history, schedule, .. } = *self.config;
        self.inputs.start.filter(|_| history == History::Keep && schedule != ScheduleKind::Stochastic)
    }
}

/// Groups as given, or one of all rows; they must be those of the rows.
pub(super) fn groups_of(source: &dyn RowSource, groups: Option<&Groups>) -> Result<Groups> {
    let Some(groups) = groups else { return Ok(Groups::one(source.num_rows())) };
    if groups.num_rows() != source.num_rows() {
        let lengths: Vec<usize> = groups.lengths().collect();
        return Groups::of_lengths("the groups", &lengths, source.num_rows());
    }
    Ok(groups.clone())
}

/// The prior: that of the model to go on from, or one in the units of the data. Checks every value on the way.
fn settle_prior<T: Scalar>(
    source: &Steps<'_>,
    row_weights: Option<&[f64]>,
    config: &mut Checked<SequenceConfig>,
    start: Option<&SequenceModel>,
) -> Result<Prior> {
    let refuse =
        |setting: &'static str, problem: String, remedy: String| Err(Error::Config { setting, problem, remedy });
    let family = config.likelihood.family();
    let usual = (family.default_nu)(source.dim());
    if start.is_none() && config.nu.is_some_and(|nu| nu <= usual - 1.0) && family.spread.is_of_variances() {
        let problem = format!("with {} degrees of freedom or fewer the prior expects no covariance", usual - 1.0);
        return refuse("nu", problem, format!("give more, or leave it out for {usual}"));
    }
    let scale = config.likelihood.default_prior_scale(source.dim(), config.states, source.num_rows());
    config.prior_scale.get_or_insert(scale);
    let emissions = config.emissions();
    let likelihood = config.likelihood.build::<T>(&Prior::for_data(&emissions, &Moments::unknown(source.dim())));
    // Steps that are missing have no part in moments: they are looked at where they are not zeros.
    let there = row_weights.map(|weights| present(source, weights));
    let scanned = there.as_ref().map_or(source as &dyn RowSource, |there| there);
    let moments = match row_weights.zip(source.pieces()) {
        Some((weights, pieces)) => {
            moments_in_pieces::<T>(likelihood.as_ref(), source, pieces, weights, emissions.missing)?
        }
        None => scan_for::<T>(likelihood.as_ref(), scanned, emissions.missing)
            .map_err(|error| in_source(error, row_weights))?,
    };
    check_columns::<T>(source, config.likelihood, &moments)?;
    let Some(start) = start else {
        let prior = Prior::for_data(&emissions, &moments.without_far_values(scanned)?);
        config.nu = Some(prior.nu);
        return Ok(prior);
    };
    let (old, new) = (&start.config, &**config);
    if old.likelihood != new.likelihood {
        let name = old.likelihood.name();
        return refuse("likelihood", format!("the model to start from is {name}"), format!("give `likelihood {name}`"));
    }
    if start.num_states() != new.states {
        let num = start.num_states();
        return refuse("states", format!("the model to start from has {num} states"), format!("give `states {num}`"));
    }
    if start.prior.missing != emissions.missing {
        let remedy = if start.prior.missing { "give `missing`" } else { "leave `missing` out" };
        return refuse("missing", "the model to start from is otherwise".into(), remedy.into());
    }
    config.lambda = start.config.lambda;
    config.kappa = start.config.kappa;
    config.prior_scale = start.config.prior_scale;
    config.prior_shape = start.config.prior_shape;
    config.variance_floor = start.config.variance_floor;
    config.nu = Some(start.prior.nu);
    Ok(start.prior.clone())
}

/// The rows that are there, of rows of which some are missing: for moments alone.
fn present<'a>(source: &'a Steps<'a>, weights: &[f64]) -> Picked<'a> {
    Picked::new(source, (0..weights.len()).filter(|&row| weights[row] > 0.0).collect())
}

/// Moments of the steps that are there of rows in pieces, merged in the order of pieces as they are measured by who has them.
fn moments_in_pieces<T: Scalar>(
    likelihood: &dyn Likelihood<T>,
    source: &Steps<'_>,
    pieces: &dyn Pieces,
    weights: &[f64],
    missing: bool,
) -> Result<Moments> {
    if let Some(measured) = pieces.measure(&Measuring { target: T::ELEMENT, missing, threshold: None, units: None })? {
        return Ok(measured.finish());
    }
    let (mut parts, mut first) = (Vec::new(), 0);
    for &end in pieces.ends() {
        let there: Vec<usize> = (first..end).filter(|&row| weights[row] > 0.0).collect();
        if !there.is_empty() {
            let there = Picked::new(source, there);
            let measured = scan_part_for(likelihood, &there, missing).map_err(|mut error| {
                if let Error::NotFinite { row, .. } | Error::BadValue { row, .. } = &mut error {
                    *row = there.numbers().get(*row).copied().unwrap_or(*row);
                }
                error
            });
            parts.push(measured?);
        }
        first = end;
    }
    PartialMoments::merged(source.dim(), parts).map(PartialMoments::finish)
}

/// An error that counted rows that are there, with the row's number among all instead.
fn in_source(mut error: Error, weights: Option<&[f64]>) -> Error {
    if let (Error::NotFinite { row, .. } | Error::BadValue { row, .. }, Some(weights)) = (&mut error, weights) {
        *row = (0..weights.len()).filter(|&n| weights[n] > 0.0).nth(*row).unwrap_or(*row);
    }
    error
}

impl<'a, T: Scalar> Family<'a> for SequenceFamily<'a, T> {
    type Model = Sequence<T>;
    type Saved = SequenceModel;

    fn plan(&self) -> Plan {
        self.config.plan()
    }

    fn beginning(&self) -> Beginning {
        Beginning::new("sequence", self.source.num_rows(), self.source.dim(), &*self.config)
    }

    fn remarks(&self) -> &[String] {
        &self.remarks
    }

    fn fingerprint(&self) -> Result<Fingerprint> {
        let lengths = |groups: &Groups| print_numbers(&groups.lengths().map(|n| n as f64).collect::<Vec<_>>());
        let mut print = vec![
            ("model".into(), "sequence".into()),
            ("data".into(), print_rows(self.source)?),
            ("groups".into(), lengths(&self.groups)),
        ];
        if let Some((held, groups)) = &self.held {
            print.push(("heldout".into(), format!("{}, {}", print_rows(*held)?, lengths(groups))));
        }
        if let Some(weights) = self.row_weights {
            print.push(("missing steps".into(), print_numbers(weights)));
        }
        if let Some(start) = self.inputs.start {
            print.push(("from".into(), print_numbers(&start.total.clusters.stats)));
        }
        print.extend(print_settings(&*self.config));
        Ok(print)
    }

    fn known(&self) -> Result<Known> {
        let settled = SettledSequence { config: self.config.clone(), prior: self.prior.clone() };
        let settings = serde_json::to_string(&settled).map_err(|_| Error::Exchange { what: "settings" })?;
        let ends = self.source.pieces().map_or(Vec::new(), |pieces| pieces.ends().to_vec());
        Ok(Known { family: "sequence".into(), settings, double: T::ELEMENT == Element::F64, ends })
    }

    fn deal(&self, run: usize) -> Result<Dealt<'a>> {
        let seed = run_seed(&self.config, run, Stream::Batches);
        let windows = self.windows.clone();
        let batches = match self.source.pieces() {
            Some(pieces) => Batches::of_windows_in(windows, pieces.ends())?,
            None => Batches::of_windows(windows, self.config.batches, seed)?,
        };
        Ok(Dealt::new(self.source, batches))
    }

    fn model(&self, _run: usize) -> Sequence<T> {
        Sequence {
            likelihood: self.config.likelihood.build(&self.prior).into(),
            estimate: self.config.estimate,
            prior: self.chain_prior(),
            num_states: self.config.states,
            sparsity: self.config.sparsity,
            tolerance: self.config.sparsity_tolerance,
            // What rows lack some values is worked out for all states at a time.
            follows: self.config.search.follows(self.config.states)
                && self.config.sparsity < self.config.states
                && !self.prior.missing,
            lacking: self.source.lacking(),
            stands_for: None,
        }
    }

    fn start(
        &self,
        model: &mut Sequence<T>,
        data: &Dealt<'a>,
        run: usize,
        patience: Patience<'_>,
    ) -> Result<Start<Sequence<T>>> {
        model.set_deadline(patience.until());
        let rng = |stream| ChaCha8Rng::seed_from_u64(run_seed(&self.config, run, stream));
        let (total, previous) = match self.inputs.start {
            Some(start) => (start.total.clone(), Some(start.params_of(model)?)),
            None => {
                let weighted = data.clone().weighted(self.row_weights);
                let mut trial = self.model(run);
                trial.set_deadline(patience.until());
                let sequences = (self.source, &self.groups);
                (initial(&mut trial, &weighted, sequences, &self.config, &mut rng(Stream::Init), patience)?, None)
            }
        };
        let params = model.global_step(&total, previous.as_ref())?;
        Ok(Start { params, total, stays: self.kept_start().is_some(), rng: rng(Stream::Schedule) })
    }

    fn score(&self, model: &Sequence<T>, params: &SequenceParams<T>, total: &SequenceSummary) -> Result<Option<f64>> {
        let Some((held, groups)) = &self.held else { return Ok(None) };
        let clusters = model.likelihood.clusters_of(&params.clusters.arrays())?;
        let chain = Chain::predictive(model.estimate, model.prior, &total.chain);
        let scores = score_steps(model.likelihood.as_ref(), clusters.as_ref(), &chain, held, groups)?;
        Ok(Some(scores.iter().sum::<f64>() / held.num_there().max(1) as f64))
    }

    fn saved(&self, session: &Session<'a, Sequence<T>>, outcome: &Outcome) -> SequenceModel {
        let (params, progress) = (session.params(), session.progress());
        let before = self.kept_start().map_or(0, |start| start.training.observations);
        let observations = before + self.source.num_rows() - progress.forgotten;
        SequenceModel {
            config: SequenceConfig { sparsity: Sparsity::Of(params.sparsity), ..self.config.of_record() },
            prior: self.prior.clone(),
            columns: self.inputs.columns.map(<[String]>::to_vec).unwrap_or_default(),
            training: TrainingRecord::new(observations, progress, outcome),
            arrays: params.clusters.arrays(),
            total: session.total().clone(),
        }
    }

    fn kept(&self, mut earlier: SequenceModel, outcome: &Outcome) -> SequenceModel {
        let SequenceConfig { laps, tolerance, count_tolerance, max_seconds, early_stopping, .. } = *self.config;
        let rest = earlier.config;
        earlier.config = SequenceConfig { laps, tolerance, count_tolerance, max_seconds, early_stopping, ..rest };
        earlier.training.stopped_by = outcome.reason.rule().into();
        earlier
    }
}

/// Run `visit` over panels of windows of sequences, in the order of the source: rows, numbers of rows and windows.
pub(super) fn for_each_panel<T: Scalar>(
    likelihood: &dyn Likelihood<T>,
    source: &Steps<'_>,
    windows: Vec<Window>,
    sparsity: usize,
    mut visit: impl FnMut(&Sequences<'_, T>) -> Result<()>,
) -> Result<()> {
    let data = Dealt::new(source, Batches::of_windows(windows, 1, 0)?);
    let panels = panels_of(&data.batches.windows(0), panel_rows::<T>(likelihood.dim(), sparsity));
    let cut = panels.iter().map(|panel| panel.of_batch(0)).collect::<Vec<_>>();
    let mut at = panels.iter();
    let mut ahead = Ahead::new(likelihood.layout(), likelihood.dim());
    ahead.for_each_panel(&data, cut.into_iter(), |read: &mut Stretch<T>| match at.next() {
        Some(panel) => visit(&Sequences { rows: &read.rows, row_ids: &read.row_ids, spans: &panel.spans }),
        None => Ok(()),
    })
}

/// Steps of a sequence that are in memory at once while it is scored; the scores do not depend on it.
const SCORED_AT_ONCE: usize = 1 << 16;

/// log p(x_t | x_1 .. x_t-1) of every step under these states and this chain.
pub(super) fn score_steps<T: Scalar>(
    likelihood: &dyn Likelihood<T>,
    clusters: &dyn Clusters<T>,
    chain: &Chain,
    source: &Steps<'_>,
    groups: &Groups,
) -> Result<Vec<f64>> {
    let lacking = source.lacking();
    let lacking = lacking.as_deref();
    let sparsity = clusters.num_clusters();
    let local = Local { clusters, chain, sparsity, lacking, shares_all: true, follow: None, kept: 0, judges: false };
    let (mut scores, mut carried) = (Vec::with_capacity(source.num_rows()), Vec::new());
    for_each_panel(likelihood, source, groups.windows(|_| SCORED_AT_ONCE, 0), 1, |sequences| {
        scores.extend(next_step_scores(&local, sequences, &mut carried)?);
        Ok(())
    })?;
    Ok(scores)
}

/// Independent streams of randomness of one run.
enum Stream {
    Batches,
    Init,
    Schedule,
}

fn run_seed(config: &SequenceConfig, run: usize, stream: Stream) -> u64 {
    // Runs and streams are far apart, so that seed 0 run 1 and seed 1 run 0 are not the same run.
    let salt = (run as u64) << 8 | stream as u64;
    config.seed ^ salt.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}
