//! A trained hidden Markov model as files hold it and users use it: save, load, score steps, smooth states, best paths.

use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::local::{Local, best_paths, smooth_states};
use super::steps::Lacking;
use super::train::{for_each_panel, groups_of, score_steps, with_steps};
use super::{Sequence, SequenceParams, SequenceSummary};
use crate::allocation::{Chain, ChainCounts, ChainPrior};
use crate::clusters::{check_rows, working_element};
use crate::data::{AtomicFile, Element, Groups, RowSource, Scalar};
use crate::error::{Error, Result};
use crate::likelihood::{Array, ClusterSummary, Extent, NamedArray, Prior, allow_missing};
use crate::runs::ModelFile;
use crate::settings::SequenceConfig;
use crate::store::model_file::{self, StoredArray};
use crate::system::check_result;
use crate::training::model::Model;
use crate::training::responsibilities::Responsibilities;
use crate::training::rules::TrainingRecord;

const KIND: &str = "sequence";

/// A trained hidden Markov model, independent of the precision it was trained in.
#[derive(Clone, Debug, PartialEq)]
pub struct SequenceModel {
    /// The settings it was trained with, as settled for the data.
    pub config: SequenceConfig,
    /// The prior of the states.
    pub prior: Prior,
    /// The names of the columns; none where they have none.
    pub columns: Vec<String>,
    /// How training went.
    pub training: TrainingRecord,
    /// Point estimates of the states in the family's natural form, with what the predictive of a posterior needs.
    pub arrays: Vec<NamedArray>,
    /// The statistics of all data: they give start and transitions, and what training needs to go on.
    pub total: SequenceSummary,
}

#[derive(Serialize, Deserialize)]
struct Metadata {
    config: SequenceConfig,
    prior: Prior,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    columns: Vec<String>,
    training: TrainingRecord,
    entropy: f64,
}

/// Log likelihoods of steps under a model.
#[derive(Clone, Debug)]
pub struct StepScores {
    /// log p(x_t | x_1 .. x_t-1) of every step, in the order of the rows; 0 for missing steps. The sum over a sequence is the
    /// log likelihood of the sequence.
    pub log_density: Vec<f64>,
    /// Steps that are there.
    pub observed: usize,
    /// Which are not; none where all are there.
    pub lacking: Option<Arc<Lacking>>,
    /// Free parameters of the model.
    pub num_parameters: usize,
}

impl StepScores {
    /// The log likelihood of all sequences.
    pub fn total(&self) -> f64 {
        self.log_density.iter().sum()
    }

    /// That of a step, on average.
    pub fn mean(&self) -> f64 {
        self.total() / self.observed.max(1) as f64
    }

    /// Whether a step is there.
    pub fn is_there(&self, row: usize) -> bool {
        !self.lacking.as_ref().is_some_and(|lacking| lacking.has(row))
    }

    /// Bayesian information criterion: lower is better.
    pub fn bic(&self) -> f64 {
        self.num_parameters as f64 * (self.observed.max(1) as f64).ln() - 2.0 * self.total()
    }

    /// Akaike information criterion: lower is better.
    pub fn aic(&self) -> f64 {
        2.0 * self.num_parameters as f64 - 2.0 * self.total()
    }
}

impl ModelFile for SequenceModel {
    fn to_bytes(&self) -> std::io::Result<Vec<u8>> {
        SequenceModel::to_bytes(self)
    }

    fn from_bytes(path: &Path, bytes: &[u8]) -> Result<Self> {
        SequenceModel::from_bytes(path, bytes)
    }
}

impl SequenceModel {
    /// K.
    pub fn num_states(&self) -> usize {
        self.total.clusters.num_clusters()
    }

    /// Columns of the data.
    pub fn dim(&self) -> usize {
        self.prior.dim
    }

    /// An array of the states by name.
    pub fn array(&self, name: &str) -> Option<&NamedArray> {
        self.arrays.iter().find(|a| a.name == name)
    }

    /// L, the number of states that a step keeps.
    pub fn sparsity(&self) -> usize {
        self.config.sparsity.within(self.num_states())
    }

    fn chain_prior(&self) -> ChainPrior {
        ChainPrior { alpha: self.config.alpha, stickiness: self.config.stickiness }
    }

    /// Start and transitions as the next state is predicted by: their expectations under a posterior.
    pub fn chain(&self) -> Chain {
        Chain::predictive(self.config.estimate, self.chain_prior(), &self.total.chain)
    }

    /// The probability of each state to begin a sequence.
    pub fn start(&self) -> Vec<f64> {
        let num = self.num_states();
        let counts = ChainCounts { start: self.total.chain.start.clone(), ..ChainCounts::zeros(num) };
        Chain::predictive(self.config.estimate, self.chain_prior(), &counts).start
    }

    /// The probabilities of transitions, K x K, row by row.
    pub fn transitions(&self) -> Vec<f64> {
        let (num, chain) = (self.num_states(), self.chain());
        let mut out = vec![0.0; num * num];
        out.chunks_exact_mut(num).enumerate().for_each(|(j, row)| chain.write_row(j, row));
        out
    }

    /// The model that this is a state of, for rows of type `T`.
    pub(crate) fn sequence<T: Scalar>(&self) -> Sequence<T> {
        Sequence {
            likelihood: self.config.likelihood.build(&self.prior).into(),
            estimate: self.config.estimate,
            prior: self.chain_prior(),
            num_states: self.num_states(),
            sparsity: self.sparsity(),
            tolerance: None,
            follows: false,
            lacking: None,
            stands_for: None,
        }
    }

    /// The parameters that the statistics give: what training would use next.
    pub(crate) fn params_of<T: Scalar>(&self, model: &Sequence<T>) -> Result<SequenceParams<T>> {
        let clusters = model.likelihood.clusters_of(&self.arrays)?;
        let chain = Chain::estimate(self.config.estimate, self.chain_prior(), &self.total.chain);
        model.global_step(&self.total, Some(&SequenceParams { chain, clusters, sparsity: self.sparsity() }))
    }

    /// Write the model to `file`, which takes its name when all is written.
    pub fn save(&self, file: AtomicFile) -> Result<()> {
        model_file::write_model(file, self.to_bytes())
    }

    /// Write the model to a path, all or nothing.
    pub fn save_to(&self, path: &Path) -> Result<()> {
        self.save(AtomicFile::create(path)?)
    }

    /// The model as a file has it. Start and transitions are there as counts; `start` is what they come to.
    pub fn to_bytes(&self) -> std::io::Result<Vec<u8>> {
        let (num, start) = (self.num_states(), self.start());
        let SequenceSummary { clusters, chain } = &self.total;
        let stats = &clusters.stats[..num * clusters.width];
        let shared = Some(clusters.shared()).filter(|shared| !shared.is_empty());
        let ends: Vec<f64> = chain.ends.iter().map(|&end| end as f64).collect();
        let to: Vec<f64> = chain.to.iter().map(|&k| f64::from(k)).collect();
        let own = self.arrays.iter().map(|a| (a.name, a.shape.clone(), &a.values[..]));
        let all = own
            .chain([
                ("start", vec![num], &start[..]),
                ("total_counts", vec![num], &clusters.counts[..]),
                ("total_stats", vec![num, clusters.width], stats),
                ("total_start", vec![num], &chain.start[..]),
                ("total_spread", vec![num], &chain.spread[..]),
                ("transition_ends", vec![num], &ends[..]),
                ("transition_to", vec![to.len()], &to[..]),
                ("transition_counts", vec![chain.count.len()], &chain.count[..]),
            ])
            .chain(shared.map(|shared| ("total_shared", vec![shared.len()], shared)));
        let arrays: Vec<StoredArray> = all
            .map(|(name, shape, values)| StoredArray { name: name.into(), shape, values: values.to_vec() })
            .collect();
        let metadata = Metadata {
            config: self.config.clone(),
            prior: self.prior.clone(),
            columns: self.columns.clone(),
            training: self.training.clone(),
            entropy: clusters.entropy,
        };
        model_file::encode_model(KIND, &metadata, &arrays)
    }

    /// Whether a file holds one, as far as its beginning tells.
    pub fn is_model(path: &Path) -> bool {
        model_file::kind_of(path).is_some_and(|kind| kind == KIND)
    }

    /// Read a model.
    pub fn load(path: &Path) -> Result<Self> {
        Self::from_bytes(path, &model_file::read_bytes(path)?)
    }

    /// Read a model from the bytes of a file; `path` is for messages.
    pub fn from_bytes(path: &Path, bytes: &[u8]) -> Result<Self> {
        let bad = |detail: &str| Error::ModelFormat {
            path: path.to_owned(),
            detail: detail.into(),
            remedy: "write the model again".into(),
        };
        let (metadata, mut stored) = model_file::decode_model::<Metadata>(path, bytes, KIND)?;
        model_file::check_finite(&stored).map_err(|detail| bad(&detail))?;
        let mut take = |name: &str| -> Result<StoredArray> {
            let found = stored.iter().position(|a| a.name == name);
            let at = found.ok_or_else(|| bad(&format!("array {name:?} is missing")))?;
            Ok(stored.swap_remove(at).stored())
        };
        let whole = |values: Vec<f64>| -> Result<Vec<usize>> {
            let legal = |value: &f64| *value >= 0.0 && value.fract() == 0.0 && *value <= f64::from(u32::MAX) * 1e6;
            match values.iter().all(legal) {
                true => Ok(values.into_iter().map(|value| value as usize).collect()),
                false => Err(bad("its transitions are damaged")),
            }
        };
        let (counts, mut stats) = (take("total_counts")?, take("total_stats")?);
        let (num, dim, kind) = (counts.values.len(), metadata.prior.dim, metadata.config.likelihood);
        let to = whole(take("transition_to")?.values)?;
        let chain = ChainCounts {
            start: take("total_start")?.values,
            spread: take("total_spread")?.values,
            ends: whole(take("transition_ends")?.values)?,
            to: to.iter().map(|&k| u32::try_from(k).unwrap_or(u32::MAX)).collect(),
            count: take("transition_counts")?.values,
        };
        if num == 0 || dim == 0 || metadata.config.states != num || chain.num_states() != num || !chain.is_sound() {
            return Err(bad("its arrays disagree in shape"));
        }
        let arrays = kind
            .arrays(metadata.config.estimate)
            .map(|&Array { name, .. }| take(name).map(|a| NamedArray { name, shape: a.shape, values: a.values }))
            .collect::<Result<Vec<_>>>()?;
        let extent = Extent { clusters: num, dim, missing: metadata.prior.missing };
        let mut expected = kind.arrays(metadata.config.estimate).zip(&arrays);
        if !expected.all(|(expected, array)| array.shape == (expected.shape)(&extent)) {
            return Err(bad("its arrays disagree in shape"));
        }
        metadata.config.check(usize::MAX).map_err(|error| bad(&error.to_string()))?;
        if !metadata.columns.is_empty() && metadata.columns.len() != dim {
            return Err(bad("its columns are not as many as their names"));
        }
        if counts.values.iter().any(|&value| value < 0.0) {
            return Err(bad("counts are negative"));
        }
        let likelihood = kind.build::<f64>(&metadata.prior);
        let (width, shared_width) = (likelihood.stat_width(), likelihood.shared_width());
        if stats.shape != [num, width] {
            return Err(bad("its arrays disagree in shape"));
        }
        if shared_width > 0 {
            let shared = take("total_shared")?;
            if shared.shape != [shared_width] {
                return Err(bad("its arrays disagree in shape"));
            }
            stats.values.extend(shared.values);
        }
        let clusters = ClusterSummary {
            counts: counts.values,
            stats: stats.values,
            width,
            entropy: metadata.entropy,
            trial: None,
        };
        // Shapes and positive definiteness are checked by building the states once.
        let built = likelihood.clusters_of(&arrays).map_err(|error| bad(&error.to_string()))?;
        if built.num_clusters() != num {
            return Err(bad("its arrays disagree in the number of states"));
        }
        Ok(SequenceModel {
            config: metadata.config,
            prior: metadata.prior,
            columns: metadata.columns,
            training: metadata.training,
            arrays,
            total: SequenceSummary { clusters, chain },
        })
    }

    /// The same model for sequences that may have missing steps, or where its family allows it values, whichever way it was
    /// trained.
    pub fn allowing_missing_steps(mut self) -> Self {
        self.config.missing = true;
        let SequenceConfig { likelihood, estimate, .. } = self.config;
        if likelihood.family().allows_missing && !self.prior.missing {
            allow_missing(likelihood, estimate, &mut self.prior, &mut self.arrays, &mut self.total.clusters);
        }
        self
    }

    /// log p(x_t | x_1 .. x_t-1) of every step over all states: under the point estimates, and of a posterior with the
    /// predictive densities of states and the expected start and transitions.
    pub fn score(&self, source: &dyn RowSource, groups: Option<&Groups>) -> Result<StepScores> {
        match working_element(self.config.precision, source) {
            Element::F32 => self.score_as::<f32>(source, groups),
            Element::F64 => self.score_as::<f64>(source, groups),
        }
    }

    fn score_as<T: Scalar>(&self, source: &dyn RowSource, groups: Option<&Groups>) -> Result<StepScores> {
        let likelihood = self.config.likelihood.build::<T>(&self.prior);
        let groups = groups_of(source, groups)?;
        check_result("scoring", source.num_rows(), "steps", size_of::<f64>() as u64)?;
        with_steps(source, &self.config, |steps, _| {
            check_rows(likelihood.as_ref(), self.prior.missing, steps)?;
            let clusters = likelihood.clusters_of(&self.arrays)?;
            let log_density = score_steps(likelihood.as_ref(), clusters.as_ref(), &self.chain(), steps, &groups)?;
            let (observed, lacking) = (steps.num_there(), steps.lacking());
            Ok(StepScores { log_density, observed, lacking, num_parameters: self.num_parameters() })
        })
    }

    /// Free parameters, for BIC and AIC: states, start, and every transition.
    pub fn num_parameters(&self) -> usize {
        let (num, likelihood) = (self.num_states(), self.config.likelihood.build::<f64>(&self.prior));
        (num - 1) * (num + 1) + num * likelihood.num_parameters() + likelihood.num_shared_parameters()
    }

    /// The L most probable states of every step given its whole sequence, as training would keep them, handed to `visit` a
    /// few sequences at a time: states and shares, L of each a step, the most probable first.
    pub fn assign(
        &self,
        source: &dyn RowSource,
        groups: Option<&Groups>,
        sparsity: usize,
        visit: &mut dyn FnMut(&[u32], &[f64]) -> Result<()>,
    ) -> Result<()> {
        if sparsity == 0 || sparsity > self.num_states() {
            return Err(Error::SparsityTooLarge { sparsity, clusters: self.num_states() });
        }
        match working_element(self.config.precision, source) {
            Element::F32 => self.assign_as::<f32>(source, groups, sparsity, visit),
            Element::F64 => self.assign_as::<f64>(source, groups, sparsity, visit),
        }
    }

    fn assign_as<T: Scalar>(
        &self,
        source: &dyn RowSource,
        groups: Option<&Groups>,
        sparsity: usize,
        visit: &mut dyn FnMut(&[u32], &[f64]) -> Result<()>,
    ) -> Result<()> {
        let (mut resp, mut values) = (Responsibilities::default(), Vec::new());
        self.with_local::<T, _>(source, groups, sparsity, &mut |local, sequences| {
            smooth_states(local, sequences, &mut resp)?;
            values.clear();
            values.extend(resp.value.iter().map(|v| v.to_f64()));
            visit(&resp.index, &values)
        })
    }

    /// The most probable path through every sequence, over all states: the state of every step, and the log weight of all
    /// paths and rows together.
    pub fn best_paths(&self, source: &dyn RowSource, groups: Option<&Groups>) -> Result<(Vec<u32>, f64)> {
        check_result("assigning", source.num_rows(), "steps", size_of::<u32>() as u64)?;
        match working_element(self.config.precision, source) {
            Element::F32 => self.best_paths_as::<f32>(source, groups),
            Element::F64 => self.best_paths_as::<f64>(source, groups),
        }
    }

    fn best_paths_as<T: Scalar>(&self, source: &dyn RowSource, groups: Option<&Groups>) -> Result<(Vec<u32>, f64)> {
        let (mut states, mut weight) = (Vec::with_capacity(source.num_rows()), 0.0);
        let sparsity = self.num_states();
        self.with_local::<T, _>(source, groups, sparsity, &mut |local, sequences| {
            weight += best_paths(local, sequences, &mut states)?;
            Ok(())
        })?;
        Ok((states, weight))
    }

    /// Run `visit` over panels of sequences with what training would weigh them by.
    fn with_local<T: Scalar, F: FnMut(&Local<'_, T>, &super::local::Sequences<'_, T>) -> Result<()>>(
        &self,
        source: &dyn RowSource,
        groups: Option<&Groups>,
        sparsity: usize,
        visit: &mut F,
    ) -> Result<()> {
        let (model, groups) = (self.sequence::<T>(), groups_of(source, groups)?);
        with_steps(source, &self.config, |steps, _| {
            check_rows(model.likelihood.as_ref(), self.prior.missing, steps)?;
            let params = self.params_of(&model)?;
            let lacking = steps.lacking();
            let lacking = lacking.as_deref();
            let clusters = params.clusters.as_ref();
            let local = Local {
                clusters,
                chain: &params.chain,
                sparsity,
                lacking,
                shares_all: true,
                follow: None,
                kept: 0,
                judges: false,
            };
            let windows = self.config.windows(&groups);
            for_each_panel(model.likelihood.as_ref(), steps, windows, sparsity, |sequences| visit(&local, sequences))
        })
    }
}
