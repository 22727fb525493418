//! A trained mixture as files hold it and users use it: save, load, score rows, assign rows.

use std::borrow::Cow;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::allocation::Frequencies;
use crate::backend::{DeviceChoice, Place};
use crate::clusters::device::Judge;
use crate::clusters::{check_rows, working_element};
use crate::data::{AtomicFile, ColumnUnits, Dealt, Element, RowSource, Scalar, Standardized, Thresholded};
use crate::error::{Error, Result};
use crate::likelihood::{Array, ClusterSummary, Extent, NamedArray, Prior, allow_missing};
use crate::mixture::growth::Learns;
use crate::mixture::local::device::demand_of_judging;
use crate::mixture::train::center_of;
use crate::mixture::{MOST_STRETCHES, Mixture, MixtureParams, Search};
use crate::runs::ModelFile;
use crate::settings::{DEFAULT_KAPPA, MixtureConfig};
use crate::store::model_file::{self, StoredArray};
use crate::system::check_result;
use crate::training::model::Model;
use crate::training::rules::TrainingRecord;

const KIND: &str = "mixture";

/// A trained mixture, independent of the precision it was trained in.
#[derive(Clone, Debug, PartialEq)]
pub struct MixtureModel {
    /// The settings it was trained with, as settled for the data.
    pub config: MixtureConfig,
    /// The prior, in the units that rows are worked on in.
    pub prior: Prior,
    /// Those units, where they are not the data's own (`standardize`).
    pub units: Option<ColumnUnits>,
    /// The names of the columns; none where they have none.
    pub columns: Vec<String>,
    /// How training went.
    pub training: TrainingRecord,
    /// pi_k: `E[pi_k]` under a posterior.
    pub weights: Vec<f64>,
    /// Point estimates of the clusters in the family's natural form and the data's own units, with what the predictive of
    /// a posterior needs.
    pub arrays: Vec<NamedArray>,
    /// The statistics of all data, in the units that rows are worked on in: what training needs to go on.
    pub total: ClusterSummary,
}

#[derive(Serialize, Deserialize)]
struct Metadata {
    config: MixtureConfig,
    prior: Prior,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    columns: Vec<String>,
    training: TrainingRecord,
    entropy: f64,
}

/// Log likelihoods of rows under a model.
#[derive(Clone, Debug)]
pub struct RowScores {
    /// log p(x_n) of every row, in the order of the source.
    pub log_density: Vec<f64>,
    /// Free parameters of the model.
    pub num_parameters: usize,
}

impl RowScores {
    /// The mean over rows.
    pub fn mean(&self) -> f64 {
        self.total() / self.log_density.len() as f64
    }

    /// The sum over rows.
    pub fn total(&self) -> f64 {
        self.log_density.iter().sum()
    }

    /// Bayesian information criterion: lower is better.
    pub fn bic(&self) -> f64 {
        self.num_parameters as f64 * (self.log_density.len() as f64).ln() - 2.0 * self.total()
    }

    /// Akaike information criterion: lower is better.
    pub fn aic(&self) -> f64 {
        2.0 * self.num_parameters as f64 - 2.0 * self.total()
    }
}

impl ModelFile for MixtureModel {
    fn to_bytes(&self) -> std::io::Result<Vec<u8>> {
        MixtureModel::to_bytes(self)
    }

    fn from_bytes(path: &Path, bytes: &[u8]) -> Result<Self> {
        MixtureModel::from_bytes(path, bytes)
    }
}

impl MixtureModel {
    /// K.
    pub fn num_clusters(&self) -> usize {
        self.weights.len()
    }

    /// Columns of the data.
    pub fn dim(&self) -> usize {
        self.prior.dim
    }

    /// An array by name.
    pub fn array(&self, name: &str) -> Option<&NamedArray> {
        self.arrays.iter().find(|a| a.name == name)
    }

    /// L, the number of clusters that a row keeps.
    pub fn sparsity(&self) -> usize {
        self.config.sparsity.within(self.num_clusters())
    }

    /// Which numbers of the prior are others than the usual ones, and were not learned.
    pub(super) fn asked_for(&self) -> Learns {
        let MixtureConfig { likelihood, clusters, prior_scale, kappa, nu, .. } = self.config;
        let usual = likelihood.default_prior_scale(self.dim(), clusters, self.training.observations);
        Learns {
            scale: prior_scale.is_some_and(|scale| scale != usual),
            kappa: kappa.is_some_and(|kappa| kappa != DEFAULT_KAPPA),
            nu: nu.is_some_and(|nu| nu != (likelihood.family().default_nu)(self.dim())),
        }
    }

    /// gamma of the stick where K was found: as it was given, or as it was learned.
    pub fn gamma(&self) -> Option<f64> {
        self.config.allocation().gamma(&self.total.counts)
    }

    /// The mixture that this is a state of, for rows of type `T`.
    pub(crate) fn mixture<T: Scalar>(&self) -> Mixture<T> {
        Mixture {
            likelihood: self.config.likelihood.build(&self.prior),
            estimate: self.config.estimate,
            allocation: self.config.allocation(),
            finding: None,
            num_clusters: self.num_clusters(),
            sparsity: self.sparsity(),
            step: Box::new(Search::dense(self.num_clusters(), self.sparsity())),
            units_change: self.units.as_ref().map_or(0.0, ColumnUnits::log_density_change),
        }
    }

    /// Rows of the data as the model takes them: as they are, as zeros and ones, or in the units that they are worked on in.
    pub(crate) fn with_working_rows<R>(&self, source: &dyn RowSource, work: impl FnOnce(&dyn RowSource) -> R) -> R {
        match (self.config.binarize, &self.units) {
            (Some(threshold), _) => work(&Thresholded::new(source, threshold)),
            (None, Some(units)) => work(&Standardized::new(source, units)),
            (None, None) => work(source),
        }
    }

    /// The arrays in those units.
    pub(crate) fn working_arrays(&self) -> Cow<'_, [NamedArray]> {
        let Some(units) = &self.units else { return Cow::Borrowed(&self.arrays) };
        let mut arrays = self.arrays.clone();
        units.apply_arrays(&mut arrays, self.config.likelihood.family().takes_columns_alike);
        Cow::Owned(arrays)
    }

    /// The parameters that the statistics give, as those of a mixture: what training would use next.
    pub(crate) fn params_of<T: Scalar>(&self, mixture: &Mixture<T>) -> Result<MixtureParams<T>> {
        let clusters = mixture.likelihood.clusters_of(&self.working_arrays())?;
        if self.config.method.has_centres_alone() {
            return Ok(mixture.equal_params(clusters, None));
        }
        let frequencies = Frequencies { log_pi: Vec::new(), pi: self.weights.clone() };
        let previous = MixtureParams { frequencies, clusters, search: mixture.search_state(None), growth: None };
        self.mixture::<T>().global_step(&self.total, Some(&previous))
    }

    /// Write the model to `file`, which takes its name when all is written.
    pub fn save(&self, file: AtomicFile) -> Result<()> {
        model_file::write_model(file, self.to_bytes())
    }

    /// The model as a file has it.
    pub fn to_bytes(&self) -> std::io::Result<Vec<u8>> {
        let num = self.num_clusters();
        let units = self.units.iter();
        let units = units.flat_map(|units| [("column_shift", &units.shift), ("column_scale", &units.scale)]);
        let own = self.arrays.iter().map(|a| (a.name, a.shape.clone(), &a.values[..]));
        let stats = &self.total.stats[..num * self.total.width];
        let shared = Some(self.total.shared()).filter(|shared| !shared.is_empty());
        let all = own
            .chain([
                ("weights", vec![num], &self.weights[..]),
                ("total_counts", vec![num], &self.total.counts),
                ("total_stats", vec![num, self.total.width], stats),
            ])
            .chain(shared.map(|shared| ("total_shared", vec![shared.len()], shared)))
            .chain(units.map(|(name, values)| (name, vec![values.len()], &values[..])));
        let arrays: Vec<StoredArray> = all
            .map(|(name, shape, values)| StoredArray { name: name.into(), shape, values: values.to_vec() })
            .collect();
        let metadata = Metadata {
            config: self.config.clone(),
            prior: self.prior.clone(),
            columns: self.columns.clone(),
            training: self.training.clone(),
            entropy: self.total.entropy,
        };
        model_file::encode_model(KIND, &metadata, &arrays)
    }

    /// Write the model to a path, all or nothing.
    pub fn save_to(&self, path: &Path) -> Result<()> {
        self.save(AtomicFile::create(path)?)
    }

    /// Read a model.
    pub fn load(path: &Path) -> Result<Self> {
        Self::from_bytes(path, &model_file::read_bytes(path)?)
    }

    /// Read a model from the bytes of a file; `path` is for messages.
    pub fn from_bytes(path: &Path, bytes: &[u8]) -> Result<Self> {
        let bad = |detail: String| Error::ModelFormat {
            path: path.to_owned(),
            detail,
            remedy: "write the model again".into(),
        };
        let (metadata, mut stored) = model_file::decode_model::<Metadata>(path, bytes, KIND)?;
        model_file::check_finite(&stored).map_err(bad)?;
        let mut take = |name: &str| -> Result<StoredArray> {
            let at =
                stored.iter().position(|a| a.name == name).ok_or_else(|| bad(format!("array {name:?} is missing")))?;
            Ok(stored.swap_remove(at).stored())
        };
        let (weights, counts, mut stats) = (take("weights")?, take("total_counts")?, take("total_stats")?);
        let (num, dim) = (weights.values.len(), metadata.prior.dim);
        let (kind, missing) = (metadata.config.likelihood, metadata.prior.missing);
        let expected = || kind.arrays(metadata.config.estimate);
        let units = match metadata.config.standardize {
            true => Some(ColumnUnits { shift: take("column_shift")?.values, scale: take("column_scale")?.values }),
            false => None,
        };
        let arrays = expected()
            .map(|&Array { name, .. }| take(name).map(|a| NamedArray { name, shape: a.shape, values: a.values }))
            .collect::<Result<Vec<_>>>()?;
        // Arrays are as large as the file is; nothing is made by the numbers in its text before they agree.
        let extent = Extent { clusters: num, dim, missing };
        let agree = expected().zip(&arrays).all(|(expected, array)| {
            let mut shape = (expected.shape)(&extent);
            if units.is_some() && expected.name == "variances" {
                // One for all columns is none for all in their own units.
                shape = vec![num, dim];
            }
            array.shape == shape
        });
        let fit = |units: &ColumnUnits| {
            units.shift.len() == dim && units.scale.len() == dim && units.scale.iter().all(|&scale| scale > 0.0)
        };
        if !units.as_ref().is_none_or(fit) {
            return Err(bad("the units of its columns are damaged".into()));
        }
        if num == 0 || dim == 0 || metadata.config.clusters != num || !agree {
            return Err(bad("its arrays disagree in shape".into()));
        }
        metadata.config.check(usize::MAX).map_err(|error| bad(error.to_string()))?;
        if !metadata.columns.is_empty() && metadata.columns.len() != dim {
            return Err(bad("its columns are not as many as their names".into()));
        }
        if weights.values.iter().chain(&counts.values).any(|&value| value < 0.0) {
            return Err(bad("weights or counts are negative".into()));
        }
        let likelihood = kind.build::<f64>(&metadata.prior);
        let (width, shared_width) = (likelihood.stat_width(), likelihood.shared_width());
        if counts.values.len() != num || stats.shape != [num, width] {
            return Err(bad("its arrays disagree in shape".into()));
        }
        if shared_width > 0 {
            let shared = take("total_shared")?;
            if shared.shape != [shared_width] {
                return Err(bad("its arrays disagree in shape".into()));
            }
            stats.values.extend(shared.values);
        }
        let total = ClusterSummary {
            counts: counts.values,
            stats: stats.values,
            width,
            entropy: metadata.entropy,
            trial: None,
        };
        let model = MixtureModel {
            config: metadata.config,
            prior: metadata.prior,
            units,
            columns: metadata.columns,
            training: metadata.training,
            weights: weights.values,
            arrays,
            total,
        };
        // Shapes and positive definiteness are checked by building the clusters once.
        let likelihood = model.mixture::<f64>().likelihood;
        let clusters = likelihood.clusters_of(&model.working_arrays()).map_err(|e| bad(e.to_string()))?;
        if clusters.num_clusters() != num {
            return Err(bad("its arrays disagree in the number of clusters".into()));
        }
        Ok(model)
    }

    /// The same model for rows that may have missing values, whichever way it was trained: a marginal of a Gaussian needs
    /// nothing that training has not left. Counts that were one a cluster become one a column.
    pub fn allowing_missing(mut self) -> Result<Self> {
        if self.config.missing {
            return Ok(self);
        }
        let config = MixtureConfig { missing: true, ..self.config };
        config.check_missing()?;
        self.config = config;
        let MixtureConfig { likelihood, estimate, .. } = self.config;
        allow_missing(likelihood, estimate, &mut self.prior, &mut self.arrays, &mut self.total);
        Ok(self)
    }

    /// Where so many rows are best scored or assigned, by what is asked for.
    pub fn place(&self, choice: DeviceChoice, rows: usize) -> Result<Place> {
        Place::choose(choice, &demand_of_judging::<f64>(self, rows))
    }

    /// log p(x_n) = log sum_k pi_k p(x_n | cluster k) of every row: under the point estimates, and of Gaussian posteriors
    /// the predictive density, a Student t.
    pub fn score(&self, source: &dyn RowSource) -> Result<RowScores> {
        self.score_at(source, &Place::default())
    }

    /// The same at a [`place`](Self::place) of this model's.
    pub fn score_at(&self, source: &dyn RowSource, place: &Place) -> Result<RowScores> {
        self.with_working_rows(source, |rows| match working_element(self.config.precision, rows) {
            Element::F32 => self.score_as::<f32>(rows, place),
            Element::F64 => self.score_as::<f64>(rows, place),
        })
    }

    fn score_as<T: Scalar>(&self, source: &dyn RowSource, place: &Place) -> Result<RowScores> {
        let mixture = self.mixture::<T>();
        check_rows(mixture.likelihood.as_ref(), self.config.missing, source)?;
        let clusters = mixture.likelihood.clusters_of(&self.working_arrays())?;
        let log_pi: Vec<f64> = self.weights.iter().map(|p| p.ln()).collect();
        check_result("scoring", source.num_rows(), "rows", size_of::<f64>() as u64)?;
        let mut scores = Vec::with_capacity(source.num_rows());
        let center = center_of(self.config.likelihood, &self.prior);
        let mut judge = Judge::new(place, (self.config.likelihood, &center), clusters.as_ref(), &log_pi);
        mixture.for_each_panel_of(MOST_STRETCHES, &Dealt::in_order(source)?.batch(0), &mut None, |panel| {
            let densities = judge.log_density(&panel.rows)?;
            scores.extend(densities.iter().map(|density| density + mixture.units_change));
            Ok(())
        })?;
        Ok(RowScores { log_density: scores, num_parameters: self.num_parameters() })
    }

    /// Free parameters, for BIC and AIC.
    pub fn num_parameters(&self) -> usize {
        let (num, likelihood) = (self.num_clusters(), self.config.likelihood.build::<f64>(&self.prior));
        match self.config.method.has_centres_alone() {
            // Equal weights, and one variance for all.
            true => num * self.dim() + 1,
            false => num - 1 + num * likelihood.num_parameters() + likelihood.num_shared_parameters(),
        }
    }

    /// The L most probable clusters of every row, as training would assign them, handed to `visit` a panel at a time:
    /// clusters and responsibilities, L of each a row.
    pub fn assign(
        &self,
        source: &dyn RowSource,
        sparsity: usize,
        visit: &mut dyn FnMut(&[u32], &[f64]) -> Result<()>,
    ) -> Result<()> {
        self.assign_at(source, sparsity, &Place::default(), visit)
    }

    /// The same at a [`place`](Self::place) of this model's.
    pub fn assign_at(
        &self,
        source: &dyn RowSource,
        sparsity: usize,
        place: &Place,
        visit: &mut dyn FnMut(&[u32], &[f64]) -> Result<()>,
    ) -> Result<()> {
        if sparsity == 0 || sparsity > self.num_clusters() {
            return Err(Error::SparsityTooLarge { sparsity, clusters: self.num_clusters() });
        }
        self.with_working_rows(source, |rows| match working_element(self.config.precision, rows) {
            Element::F32 => self.assign_as::<f32>(rows, sparsity, place, visit),
            Element::F64 => self.assign_as::<f64>(rows, sparsity, place, visit),
        })
    }

    fn assign_as<T: Scalar>(
        &self,
        source: &dyn RowSource,
        sparsity: usize,
        place: &Place,
        visit: &mut dyn FnMut(&[u32], &[f64]) -> Result<()>,
    ) -> Result<()> {
        let mixture = self.mixture::<T>();
        check_rows(mixture.likelihood.as_ref(), self.config.missing, source)?;
        let params = self.params_of(&mixture)?;
        let mut values = Vec::new();
        let (center, log_pi) = (center_of(self.config.likelihood, &self.prior), &params.frequencies.log_pi);
        let mut judge = Judge::new(place, (self.config.likelihood, &center), params.clusters.as_ref(), log_pi);
        // A GPU wants many rows at once.
        let stretches = if place.device.is_some() { MOST_STRETCHES } else { 1 };
        mixture.for_each_panel_of(stretches, &Dealt::in_order(source)?.batch(0), &mut None, |panel| {
            judge.respond(&panel.rows, sparsity, &mut panel.resp)?;
            values.clear();
            values.extend(panel.resp.value.iter().map(|v| v.to_f64()));
            visit(&panel.resp.index, &values)
        })
    }
}
