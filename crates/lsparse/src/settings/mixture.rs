//! The settings of a mixture run: one plain struct for the library, the command and the bindings.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::likelihood::{Estimate, LikelihoodKind, PriorShape};
use crate::settings::{BestBy, History};
use crate::training::schedule::ScheduleKind;

/// How the first clusters are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Init {
    /// What is best for the family: for Gaussians with means a contest of k-means in the columns' own units, k-means in
    /// units of their standard deviations and Bregman seeds, judged by rows of the sample that were left out, after a step over the others;
    /// for the others Bregman seeds.
    Auto,
    /// Bregman k-means++: rows drawn in proportion to their divergence from the nearest seed, under the likelihood.
    Bregman,
    /// k-means++ with squared Euclidean distance.
    Kmeans,
    /// Rows drawn uniformly.
    Examples,
    /// Every row of the sample belongs to L clusters drawn at random.
    Responsibilities,
}

/// In which precision rows are held and weighed. Totals and the objective are always f64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Precision {
    /// The data's own.
    Auto,
    /// 32 bits: about twice as fast.
    F32,
    /// 64 bits.
    F64,
}

/// How a mixture is trained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MixtureMethod {
    /// L-sparse responsibilities: the method of this library.
    #[default]
    Lsparse,
    /// Dense responsibilities, of which only the largest are renewed in most laps (Neal and Hinton 1998).
    SparseEm,
    /// A selection function chooses clusters before weights are computed (Luecke and Eggert 2010).
    Truncation,
    /// Lloyd's algorithm with squared Euclidean distance.
    Kmeans,
    /// k-means that opens a cluster where a row is too far from all (Kulis and Jordan 2012).
    DpMeans,
    /// Every row in its best cluster alone, with point estimates.
    HardEm,
}

impl MixtureMethod {
    /// The name on the command line and in model files.
    pub fn name(self) -> &'static str {
        match self {
            MixtureMethod::Lsparse => "lsparse",
            MixtureMethod::SparseEm => "sparse-em",
            MixtureMethod::Truncation => "truncation",
            MixtureMethod::Kmeans => "kmeans",
            MixtureMethod::DpMeans => "dp-means",
            MixtureMethod::HardEm => "hard-em",
        }
    }

    /// Whether clusters are centres and nothing else.
    pub fn has_centres_alone(self) -> bool {
        matches!(self, MixtureMethod::Kmeans | MixtureMethod::DpMeans)
    }
}

/// How the L clusters of a row are found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SearchKind {
    /// Exact where it wins, dense elsewhere.
    #[default]
    Auto,
    /// Every weight of every row.
    Dense,
    /// The same clusters as dense, leaving out weights that a bound rules out.
    Exact,
    /// The best among a row's clusters, their neighbours and a few random ones: cost does not depend on K.
    Neighbours,
}

impl SearchKind {
    /// What is done for this family, K and number of columns: the one place that decides.
    pub fn settle(self, likelihood: LikelihoodKind, num_clusters: usize, dim: usize) -> SearchKind {
        match (self, likelihood.family().exact_pays) {
            (SearchKind::Auto, Some((columns, product))) if dim >= columns && num_clusters * dim >= product => {
                SearchKind::Exact
            }
            (SearchKind::Auto, _) | (SearchKind::Exact, None) => SearchKind::Dense,
            (chosen, _) => chosen,
        }
    }
}

/// The selection functions that need no programming.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BuiltInSelection {
    /// `Means` for Gaussians with a mean, `Products` for counts and zeros and ones.
    #[default]
    Auto,
    /// The clusters whose means are nearest by Euclidean distance.
    Means,
    /// The clusters whose probabilities have the largest product with the row: those that share its words.
    Products,
}

impl BuiltInSelection {
    /// The function for a family; an error where the family has nothing that it could look at.
    pub fn settle(self, likelihood: LikelihoodKind) -> Result<BuiltInSelection> {
        let has = |name: &str| likelihood.family().arrays.iter().any(|array| array.name == name);
        let fitting = match (has("means"), has("probabilities")) {
            (true, _) => BuiltInSelection::Means,
            (_, true) => BuiltInSelection::Products,
            _ => {
                let problem = "clusters with neither means nor probabilities leave nothing to choose by".into();
                let remedy = "choose another `likelihood`, or `method lsparse`".into();
                return Err(Error::Config { option: "selection-function", problem, remedy });
            }
        };
        if self != BuiltInSelection::Auto && self != fitting {
            let what = if self == BuiltInSelection::Means { "means" } else { "probabilities" };
            let problem = format!("{} clusters have no {what} to choose by", likelihood.name());
            return Err(Error::Config { option: "selection-function", problem, remedy: "leave it out".into() });
        }
        Ok(fitting)
    }
}

/// Settings of a mixture run. An unknown key is an error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct MixtureConfig {
    /// How the mixture is trained.
    #[serde(skip_serializing_if = "is_default")]
    pub method: MixtureMethod,
    /// What a cluster looks like.
    pub likelihood: LikelihoodKind,
    /// Whether rows may have missing values (NaN), which full and diagonal Gaussians integrate out.
    #[serde(skip_serializing_if = "is_default")]
    pub missing: bool,
    /// Values above this number are ones and all others zeros, in training and whatever else; none where values count as
    /// they are.
    #[serde(skip_serializing_if = "is_default")]
    pub binarize: Option<f64>,
    /// K, the number of clusters.
    pub clusters: usize,
    /// L, the number of clusters a row keeps; 0 stands for 8, or K if that is smaller.
    pub sparsity: usize,
    /// Above 0, L is chosen: the smallest (from `sparsity` on, or from 1 if that is 0) for which rows lose less than
    /// this share of their responsibility, measured on a sample of rows before every lap; L may only rise.
    #[serde(skip_serializing_if = "is_zero")]
    pub sparsity_tolerance: f64,
    /// How the L clusters of a row are found. Model files do not tell dense and exact apart: they give the same model.
    #[serde(skip_serializing_if = "is_auto")]
    pub search: SearchKind,
    /// Posterior, MAP or maximum likelihood.
    pub estimate: Estimate,
    /// Concentration of the cluster frequencies, Dirichlet(alpha/K).
    pub alpha: f64,
    /// Pseudo-count of each category (multinomial) or outcome (Bernoulli).
    pub lambda: f64,
    /// Degrees of freedom of covariance priors, above dim + 1 (2 in each column of diagonal ones); 0 stands for one more.
    pub nu: f64,
    /// Pseudo-count of the prior mean.
    pub kappa: f64,
    /// Variance that the prior expects of a cluster, in units of the variance that the data has; 0 stands for a tenth,
    /// and less where clusters have rows enough to do without ([`LikelihoodKind::default_prior_scale`]).
    pub prior_scale: f64,
    /// Whether that is each column's own variance, or the average of all.
    pub prior_shape: PriorShape,
    /// Smallest variance under maximum likelihood, in the same units.
    pub variance_floor: f64,

    /// When statistics enter the total.
    pub schedule: ScheduleKind,
    /// Number of batches; 0 stands for one for every 2,000 rows, ten times K if that is more; at least 1, at most 20.
    pub batches: usize,
    /// Rows a batch instead of a number of batches; 0 for none.
    pub rows_per_batch: usize,
    /// delta of the stochastic rate (delta + t)^-kappa.
    pub delay: f64,
    /// kappa of the stochastic rate.
    pub decay: f64,

    /// Visits of a batch from one full step of sparse EM to the next.
    #[serde(skip_serializing_if = "is_default_refresh")]
    pub refresh: usize,
    /// Smallest responsibility that sparse EM renews, of a row's L largest.
    #[serde(skip_serializing_if = "is_zero")]
    pub threshold: f64,
    /// How truncation selects a row's L clusters.
    #[serde(skip_serializing_if = "is_default")]
    pub selection_function: BuiltInSelection,
    /// Squared distance from all centres at which DP-means opens a cluster; 0 for one that opens about K.
    #[serde(skip_serializing_if = "is_zero")]
    pub penalty: f64,

    /// How the first clusters are found.
    pub init: Init,
    /// Passes over the sample that assign rows to the nearest seed and re-estimate; 0 starts from the seeds alone. None
    /// stands for one, and for up to 10 of the k-means of [`Init::Auto`].
    pub init_lloyd: Option<usize>,
    /// Rows of the sample that seeding works on; 0 stands for 100 a cluster, at least 10,000, and where starts are
    /// compared for 250 a cluster, at least 50,000, but fewer where K or the columns are many.
    pub init_rows: usize,
    /// What becomes of what a model to go on from has counted.
    #[serde(skip_serializing_if = "is_default")]
    pub history: History,
    /// Runs from different seeds, of which the best is kept.
    pub runs: usize,
    /// What "best" means.
    pub best_by: BestBy,
    /// Seed of all randomness.
    pub seed: u64,

    /// Stop after this many laps (passes over the data).
    pub laps: usize,
    /// Stop when a row gains less than this in objective over a lap, in nats; 0 turns the rule off.
    pub tolerance: f64,
    /// Stop when no cluster's count changes by more than this over a lap; 0 turns the rule off.
    pub count_tolerance: f64,
    /// Stop after this many seconds of training; 0 turns the rule off.
    pub max_seconds: f64,
    /// Stop when held-out rows have not scored better for this many laps, and keep the model of the best lap; 0 turns the
    /// rule off.
    #[serde(skip_serializing_if = "is_default")]
    pub early_stopping: usize,

    /// Precision of rows and weights.
    pub precision: Precision,
}

impl Default for MixtureConfig {
    fn default() -> Self {
        MixtureConfig {
            method: MixtureMethod::Lsparse,
            likelihood: LikelihoodKind::Gauss,
            missing: false,
            binarize: None,
            clusters: 10,
            sparsity: 0,
            sparsity_tolerance: 0.0,
            search: SearchKind::Auto,
            estimate: Estimate::Posterior,
            alpha: 10.0,
            lambda: 0.1,
            nu: 0.0,
            kappa: 1e-4,
            prior_scale: 0.0,
            prior_shape: PriorShape::Columns,
            variance_floor: 1e-6,
            schedule: ScheduleKind::Memoized,
            batches: 0,
            rows_per_batch: 0,
            delay: 1.0,
            decay: 0.55,
            refresh: DEFAULT_REFRESH,
            threshold: 0.0,
            selection_function: BuiltInSelection::Auto,
            penalty: 0.0,
            init: Init::Auto,
            init_lloyd: None,
            init_rows: 0,
            history: History::Replace,
            runs: 1,
            best_by: BestBy::Objective,
            seed: 0,
            laps: 100,
            tolerance: 1e-3,
            count_tolerance: 0.0,
            max_seconds: 0.0,
            early_stopping: 0,
            precision: Precision::Auto,
        }
    }
}

/// The mass that may be discarded when L is to be chosen and nothing else is said.
pub const DEFAULT_SPARSITY_TOLERANCE: f64 = 0.01;

/// Laps of sparse EM from one full lap to the next when nothing else is said.
const DEFAULT_REFRESH: usize = 5;

/// What L is when it is not given.
pub const DEFAULT_SPARSITY: usize = 8;

impl MixtureConfig {
    /// Check every value against its range and against `num_rows` rows, and fill in what depends on them.
    pub fn check(&self, num_rows: usize) -> Result<MixtureConfig> {
        let mut config = self.clone();
        if config.clusters == 0 {
            return Err(bad("clusters", "must be at least 1", "give `clusters` 1 or more"));
        }
        if config.method == MixtureMethod::DpMeans {
            // K is what there is room for.
            config.clusters = config.clusters.min(num_rows);
        }
        if config.clusters > num_rows {
            return Err(Error::TooManyClusters { clusters: config.clusters, rows: num_rows });
        }
        config.settle_method()?;
        config.check_missing()?;
        if config.sparsity == 0 {
            let chosen = config.sparsity_tolerance > 0.0;
            config.sparsity = if chosen { 1 } else { DEFAULT_SPARSITY.min(config.clusters) };
        }
        if config.sparsity > config.clusters {
            return Err(Error::SparsityTooLarge { sparsity: config.sparsity, clusters: config.clusters });
        }
        positive("alpha", config.alpha)?;
        positive("lambda", config.lambda)?;
        positive("kappa", config.kappa)?;
        not_negative("prior-scale", config.prior_scale)?;
        positive("variance-floor", config.variance_floor)?;
        not_negative("nu", config.nu)?;
        if !(0.0..1.0).contains(&config.sparsity_tolerance) {
            let problem = format!("{} is not a share below 1", config.sparsity_tolerance);
            return Err(Error::Config {
                option: "sparsity-tolerance",
                problem,
                remedy: "0.01 is a good choice".into(),
            });
        }
        if let Some(threshold) = config.binarize.filter(|threshold| !threshold.is_finite()) {
            return Err(bad("binarize", &format!("{threshold} is not finite"), "give a number, or leave it out"));
        }
        not_negative("threshold", config.threshold)?;
        not_negative("penalty", config.penalty)?;
        if config.refresh == 0 {
            return Err(bad("refresh", "must be at least 1", "give 1 for full steps only"));
        }
        not_negative("delay", config.delay)?;
        not_negative("tolerance", config.tolerance)?;
        not_negative("count-tolerance", config.count_tolerance)?;
        not_negative("max-seconds", config.max_seconds)?;
        if !(config.decay > 0.5 && config.decay <= 1.0) {
            let problem = format!("{} is not above 0.5 and at most 1", config.decay);
            return Err(Error::Config { option: "decay", problem, remedy: "0.55 and 0.65 are good choices".into() });
        }
        if config.runs == 0 {
            return Err(bad("runs", "must be at least 1", "give 1 for a single run"));
        }
        if config.laps == 0
            && config.max_seconds == 0.0
            && config.tolerance == 0.0
            && config.count_tolerance == 0.0
            && config.early_stopping == 0
        {
            return Err(bad(
                "laps",
                "every rule that stops training is off",
                "set `laps`, `tolerance` or `max-seconds`",
            ));
        }
        config.batches = config.settle_batches(num_rows)?;
        config.rows_per_batch = 0;
        if config.schedule == ScheduleKind::Streaming {
            config.laps = 1;
        }
        Ok(config)
    }

    /// Settle what a method leaves no choice about, and refuse what it cannot do.
    fn settle_method(&mut self) -> Result<()> {
        let method = self.method;
        if method == MixtureMethod::Lsparse {
            return Ok(());
        }
        if self.sparsity_tolerance > 0.0 {
            return Err(bad("sparsity-tolerance", "L is chosen for `method lsparse` alone", "give L"));
        }
        if self.search != SearchKind::Auto && method != MixtureMethod::HardEm {
            return Err(bad("search", "it is for `method lsparse and hard-em` alone", "leave it out"));
        }
        let hard = method == MixtureMethod::HardEm || method.has_centres_alone();
        if hard && self.sparsity > 1 {
            return Err(bad("sparsity", "rows of this method belong to one cluster", "leave it out"));
        }
        if hard {
            self.sparsity = 1;
        }
        if method == MixtureMethod::HardEm && self.estimate == Estimate::Posterior {
            self.estimate = Estimate::Map;
        }
        if method.has_centres_alone() {
            // What is saved are Gaussians of one variance; their statistics are those of diagonal ones.
            (self.likelihood, self.estimate) = (LikelihoodKind::DiagGauss, Estimate::MaxLikelihood);
            if matches!(self.init, Init::Auto | Init::Bregman) {
                self.init = Init::Kmeans;
            }
        }
        if method == MixtureMethod::DpMeans && self.schedule == ScheduleKind::Stochastic {
            return Err(bad("schedule", "clusters that open must be counted in full", "leave it out"));
        }
        Ok(())
    }

    /// Missing values are for families and searches that can do without them.
    fn check_missing(&self) -> Result<()> {
        if !self.missing {
            return Ok(());
        }
        if !self.likelihood.family().allows_missing {
            let problem = format!("{} clusters cannot integrate missing values out", self.likelihood.name());
            let remedy = "choose `likelihood gauss or diag-gauss`, or fill the values in".into();
            return Err(Error::Config { option: "missing", problem, remedy });
        }
        if !matches!(self.method, MixtureMethod::Lsparse | MixtureMethod::HardEm) {
            let problem = format!("{} compares whole rows with clusters", self.method.name());
            let remedy = "choose `method lsparse or hard-em`, or fill the values in".into();
            return Err(Error::Config { option: "missing", problem, remedy });
        }
        if self.search == SearchKind::Neighbours {
            return Err(bad("search", "candidates are found for complete rows alone", "leave it out with `missing`"));
        }
        Ok(())
    }

    /// The settings as a model file has them: without those that cannot change a bit of the model.
    pub(crate) fn of_record(&self) -> MixtureConfig {
        let search = match self.search {
            SearchKind::Neighbours => SearchKind::Neighbours,
            SearchKind::Auto | SearchKind::Dense | SearchKind::Exact => SearchKind::Auto,
        };
        MixtureConfig { search, ..self.clone() }
    }

    fn settle_batches(&self, num_rows: usize) -> Result<usize> {
        if self.batches > 0 && self.rows_per_batch > 0 {
            return Err(bad("batches", "given together with rows-per-batch", "give one of the two"));
        }
        if self.schedule == ScheduleKind::Full {
            if self.batches > 1 || (self.rows_per_batch > 0 && self.rows_per_batch < num_rows) {
                let remedy = "leave the batches out, or choose `schedule memoized`";
                return Err(bad("batches", "the full schedule has one batch", remedy));
            }
            return Ok(1);
        }
        if self.batches > num_rows {
            let problem = format!("{} batches for {num_rows} rows", self.batches);
            return Err(Error::Config { option: "batches", problem, remedy: format!("ask for at most {num_rows}") });
        }
        Ok(match (self.batches, self.rows_per_batch) {
            // More steps a lap for the same work, as long as a batch has rows of every cluster.
            (0, 0) => (num_rows / 2000.max(10 * self.clusters)).clamp(1, 20),
            (0, rows) => num_rows.div_ceil(rows),
            (batches, _) => batches,
        })
    }
}

pub(crate) fn is_default<V: Default + PartialEq>(value: &V) -> bool {
    *value == V::default()
}

fn is_default_refresh(laps: &usize) -> bool {
    *laps == DEFAULT_REFRESH
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

fn is_auto(search: &SearchKind) -> bool {
    *search == SearchKind::Auto
}

fn bad(option: &'static str, problem: &str, remedy: &str) -> Error {
    Error::Config { option, problem: problem.into(), remedy: remedy.into() }
}

fn positive(option: &'static str, value: f64) -> Result<()> {
    if value > 0.0 && value.is_finite() {
        return Ok(());
    }
    Err(Error::Config { option, problem: format!("{value} is not above 0"), remedy: "give a positive number".into() })
}

fn not_negative(option: &'static str, value: f64) -> Result<()> {
    if value >= 0.0 && value.is_finite() {
        return Ok(());
    }
    Err(Error::Config {
        option,
        problem: format!("{value} is not 0 or more"),
        remedy: "give 0 or a positive number".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_settled_by_the_number_of_rows() {
        let config = MixtureConfig { clusters: 5, ..Default::default() }.check(25_000).unwrap();
        assert_eq!((config.sparsity, config.batches), (5, 12));
        let config = MixtureConfig { rows_per_batch: 300, ..Default::default() }.check(1000).unwrap();
        assert_eq!((config.sparsity, config.batches), (8, 4));
    }

    #[test]
    fn bad_values_are_refused_by_name() {
        let refused = |config: MixtureConfig, word: &str| {
            let text = config.check(100).unwrap_err().to_string();
            assert!(text.contains(word), "{text}");
        };
        refused(MixtureConfig { clusters: 101, ..Default::default() }, "101 clusters");
        refused(MixtureConfig { clusters: 4, sparsity: 5, ..Default::default() }, "sparsity of 5");
        refused(MixtureConfig { alpha: 0.0, ..Default::default() }, "alpha");
        refused(MixtureConfig { decay: 0.5, ..Default::default() }, "decay");
        refused(MixtureConfig { batches: 101, ..Default::default() }, "batches");
        refused(MixtureConfig { tolerance: f64::NAN, ..Default::default() }, "tolerance");
        let full = MixtureConfig { schedule: ScheduleKind::Full, batches: 3, ..Default::default() };
        refused(full, "one batch");
    }

    #[test]
    fn an_unknown_key_is_an_error() {
        let error = serde_json::from_str::<MixtureConfig>(r#"{"clusters": 3, "sparsty": 2}"#).unwrap_err();
        assert!(error.to_string().contains("sparsty"));
        let config: MixtureConfig = serde_json::from_str(r#"{"estimate": "map", "init": "kmeans"}"#).unwrap();
        assert_eq!(config.estimate, Estimate::Map);
    }
}
