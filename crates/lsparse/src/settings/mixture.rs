//! The settings of a mixture run.

use serde_json::Value;

use crate::allocation::Allocation;
use crate::backend::DeviceChoice;
use crate::choice::choices;
use crate::error::{Error, Result};
use crate::likelihood::{Estimate, LikelihoodKind, OfMoments, PriorShape};
use crate::settings::table::{Settings, settings};
use crate::settings::{
    BestBy, Checked, DEFAULT_SPARSITY, History, LARGEST_PRIOR, OF_COUNTS, OF_MEANS, OF_VARIANCES, Sparsity, WITH_PRIOR,
};
use crate::training::rules::StopRules;
use crate::training::schedule::{Pace, ScheduleKind};

choices! {
    /// How the first clusters are found.
    pub enum Init {
        /// The best of k-means, k-means in units of the columns' standard deviations and bregman, judged after some steps of
        /// training by rows that were left out; bregman where clusters have no means, k-means where they have nothing else.
        Auto = "auto",
        /// k-means++ under the likelihood's own divergence.
        Bregman = "bregman",
        /// k-means++ with Euclidean distance.
        Kmeans = "kmeans",
        /// Rows drawn at random.
        Examples = "examples",
        /// Every row of the sample belongs to L clusters drawn at random.
        Responsibilities = "responsibilities",
    }
}

choices! {
    /// In which precision rows are held and weighed. Totals and the objective are always f64.
    pub enum Precision {
        /// That of the data.
        Auto = "auto",
        /// 32 bits, about twice as fast.
        F32 = "f32",
        /// 64 bits.
        F64 = "f64",
    }
}

choices! {
    /// How a mixture is trained.
    pub enum MixtureMethod {
        /// L-sparse responsibilities.
        Lsparse = "lsparse",
        /// Dense responsibilities, of which most laps renew the L largest (Neal and Hinton 1998).
        SparseEm = "sparse-em",
        /// L clusters chosen before weights are computed (Luecke and Eggert 2010).
        Truncation = "truncation",
        /// Nearest centres; saved as diag-gauss clusters of one variance.
        Kmeans = "kmeans",
        /// k-means that opens clusters, at most K (Kulis and Jordan 2012).
        DpMeans = "dp-means",
        /// The best cluster alone, with point estimates.
        HardEm = "hard-em",
    }
}

impl MixtureMethod {
    /// Whether clusters are centres and nothing else.
    pub fn has_centres_alone(self) -> bool {
        matches!(self, MixtureMethod::Kmeans | MixtureMethod::DpMeans)
    }

    /// Whether a row belongs to one cluster alone.
    pub fn is_hard(self) -> bool {
        self == MixtureMethod::HardEm || self.has_centres_alone()
    }
}

choices! {
    /// How the L clusters of a row are found.
    pub enum SearchKind {
        /// Exact where it is faster, dense elsewhere.
        Auto = "auto",
        /// All weights of all rows.
        Dense = "dense",
        /// The same clusters as dense, by only those weights that a bound does not rule out (Gaussians but for tied ones;
        /// dense for the others).
        Exact = "exact",
        /// The row's last clusters, those near them and a few random ones: the cost does not grow with K.
        Neighbours = "neighbours",
    }
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

choices! {
    /// What truncation chooses the L clusters of a row by, where nothing is programmed.
    pub enum BuiltInSelection {
        /// Means for Gaussians with means, products for the others.
        Auto = "auto",
        /// The nearest means by Euclidean distance.
        Means = "means",
        /// The largest products of row and probabilities: clusters that share its words.
        Products = "products",
    }
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
                return Err(Error::Config { setting: "selection-function", problem, remedy });
            }
        };
        if self != BuiltInSelection::Auto && self != fitting {
            let what = if self == BuiltInSelection::Means { "means" } else { "probabilities" };
            let problem = format!("{} clusters have no {what} to choose by", likelihood.name());
            return Err(Error::Config { setting: "selection-function", problem, remedy: "leave it out".into() });
        }
        Ok(fitting)
    }
}

/// Methods whose clusters have a likelihood.
const FAMILIES: &[&str] = &["lsparse", "sparse-em", "truncation", "hard-em"];
/// Methods that start from seeds.
const SEEDED: &[&str] = &["lsparse", "sparse-em", "truncation", "hard-em", "kmeans"];

settings! {
    /// Settings of a mixture run. An unknown key is an error.
    pub struct MixtureConfig {
        "Model" {
            /// How the mixture is trained.
            method: MixtureMethod = MixtureMethod::Lsparse;
            /// What a cluster looks like.
            likelihood: LikelihoodKind = LikelihoodKind::Gauss, only(FAMILIES), passed_on();
            /// Rows may have missing values (NaN; in text files also empty fields, NA, N/A, null and ?), which gauss and diag-gauss
            /// integrate out.
            missing: bool = false, passed_on();
            /// Values above this number are ones and all others zeros, now and whenever the model is used; without it
            /// values count as they are.
            binarize: Option<f64> = None, passed_on();
            /// Work on columns about their means in units of their standard deviations (root mean squares for
            /// zero-mean-gauss): spherical-gauss, kmeans and dp-means take all columns alike, so that those of large
            /// numbers would decide alone. The model keeps the units; means, covariances, drawn rows and log likelihoods
            /// are in those of the data.
            standardize: bool = false, passed_on();
            /// K, the number of clusters, or "auto" to find it while training.
            clusters: usize = 10, short('k'), placeholder("K"), least(1.0), otherwise("none, it must be given"), auto("find-k", "k-start"), passed_on();
            /// Find K while training, from `clusters` or `k-start` on: clusters are split, merged and given up at the end of
            /// laps, whatever raises the objective. The same as `clusters auto`.
            #[serde(skip_serializing_if = "std::ops::Not::not")]
            find_k: bool = false, only(&["lsparse"]);
            /// K that finding it starts from.
            #[serde(skip_serializing_if = "Option::is_none")]
            k_start: Option<usize> = None, least(1.0), otherwise("10, or 100 diagonal or spherical ones, at most one for twenty rows; or the clusters of the model to go on from"), only(&["lsparse"]),
                of_auto("find-k");
            /// K at most while it is found.
            #[serde(skip_serializing_if = "Option::is_none")]
            k_max: Option<usize> = None, least(1.0), otherwise("1,000"), only(&["lsparse"]), of_auto("find-k");
            /// L, the number of clusters that a row keeps, from 1 to K, "K" for all, or "auto" for as few as lose less
            /// than `sparsity-tolerance`.
            sparsity: Sparsity = Sparsity::Usual, short('l'), placeholder("L"), otherwise("8, or K up to 16"),
                only(&["lsparse", "sparse-em", "truncation"]), passed_on();
            /// Share of its responsibility that a row may lose on average under `sparsity auto`; L is checked on a sample
            /// of rows before every lap, and may only rise.
            sparsity_tolerance: Option<f64> = None, placeholder("SHARE"), otherwise("0.01"), above(0.0), below(1.0),
                advice("0.01 is a good choice"), only(&["lsparse"]);
            /// How the L clusters of a row are found; dense and exact give the same model.
            search: SearchKind = SearchKind::Auto, only(&["lsparse", "hard-em"]);
            /// How clusters are estimated.
            estimate: Estimate = Estimate::Posterior, only(FAMILIES), passed_on(), value_under("vb", "method", &["lsparse", "sparse-em", "truncation"]);
        }
        "Prior" {
            /// Concentration of the cluster frequencies, Dirichlet(alpha/K).
            alpha: f64 = 10.0, above(0.0), most(LARGEST_PRIOR), only(FAMILIES), passed_on(), under("estimate", WITH_PRIOR);
            /// Concentration of the sticks that frequencies are broken from while K is found, Beta(1, gamma).
            #[serde(skip_serializing_if = "Option::is_none")]
            gamma: Option<f64> = None, above(0.0), most(LARGEST_PRIOR), otherwise("learned"), only(&["lsparse"]),
                of_auto("find-k");
            /// Pseudo-count of each category (multinomial), outcome (bernoulli) or row (poisson).
            lambda: f64 = 0.1, above(0.0), most(LARGEST_PRIOR), only(FAMILIES), fixed(), under("likelihood", OF_COUNTS);
            /// Degrees of freedom of the covariance prior, more than columns + 1, or 2 for diag-gauss.
            nu: Option<f64> = None, above(0.0), most(LARGEST_PRIOR), otherwise("one more than that; learned where the scale is"), only(FAMILIES), fixed(), under("likelihood", OF_VARIANCES);
            /// Pseudo-count of the prior mean.
            kappa: Option<f64> = None, above(0.0), most(LARGEST_PRIOR), only(FAMILIES), fixed(),
                under("likelihood", OF_MEANS), otherwise("0.0001; learned where the scale is");
            /// Variance that the prior expects of a cluster, in units of the variance that the data has.
            prior_scale: Option<f64> = None, above(0.0), most(LARGEST_PRIOR), only(FAMILIES), fixed(),
                under("likelihood", OF_VARIANCES), otherwise(
                "0.1 where clusters have as many rows as columns or fewer, less where they have more, down to 0.0001; learned \
                 where K is found, or clusters are traded and rows that are left out gain by it");
            /// Which variance of the data that is.
            prior_shape: PriorShape = PriorShape::Columns, fixed(), under("likelihood", OF_VARIANCES);
            /// Smallest variance under `estimate ml`, in the same units.
            variance_floor: f64 = 1e-6, above(0.0), most(LARGEST_PRIOR), fixed(), under("likelihood", OF_VARIANCES), under("estimate", &["ml"]);
        }
        "Methods" {
            /// Laps of sparse-em from one full lap to the next.
            refresh: usize = 5, least(1.0), advice("give 1 for full steps only"), only(&["sparse-em"]);
            /// Smallest responsibility that sparse-em renews among the L largest; with `sparsity K`, all above it are
            /// renewed.
            threshold: f64 = 0.0, placeholder("SHARE"), least(0.0), most(1.0), only(&["sparse-em"]);
            /// What truncation chooses the L clusters of a row by.
            selection_function: BuiltInSelection = BuiltInSelection::Auto, only(&["truncation"]);
            /// Squared distance from all centres at which dp-means opens a cluster, with `standardize` in its units.
            penalty: Option<f64> = None, above(0.0), otherwise("one that opens about K"), only(&["dp-means"]),
                advice("every row would be a cluster of its own: give more, or leave it out");
        }
        "Schedule" {
            /// Number of batches.
            batches: Option<usize> = None, least(1.0), instead_of("rows-per-batch"),
                otherwise("one for every 2,000 rows, or 10 K if that is more; at most 20");
            /// Rows a batch, instead of a number of batches.
            rows_per_batch: Option<usize> = None, least(1.0), instead_of("batches");
            /// Whether clusters are traded when a run comes near to rest: one becomes two and two others become one, K staying
            /// what it is, where the objective rises by it (vb, schedules memoized and full, any search but
            /// neighbours). Off, it is the paper's algorithm.
            trades: bool = true, only(&["lsparse"]), value_under("on", "estimate", &["vb"]),
                value_under("on", "schedule", &["memoized", "full"]), value_under("on", "history", &["replace"]),
                value_under("on", "search", &["auto", "dense", "exact"]), value_under("on", "find-k", &["off"]);
        }
        "Start" {
            /// How the first clusters are found.
            init: Init = Init::Auto, only(SEEDED);
            /// Passes over the sample that gather rows around the seeds; 0 starts from the seeds alone.
            init_lloyd: Option<usize> = None, otherwise("1; up to 10 of the k-means of auto"), only(SEEDED);
            /// Rows of the sample that seeds are drawn from.
            init_rows: Option<usize> = None, least(1.0), only(SEEDED), otherwise(
                "100 a cluster, at least 10,000; for the contest of auto 250 a cluster, at least 6,000 (full covariances 10,000), fewer where K or \
                 the columns are many");
        }
    }
    laps 100, tolerance 1e-3, rows "rows", then {
        "Data" {
            /// Precision that rows are worked on in; sums are always 64 bits.
            precision: Precision = Precision::Auto, placeholder("TYPE");
        }
    }
}

/// Up to so many clusters a row keeps all: sorting them costs more than what the smallest add to the statistics.
pub const DENSE_CLUSTERS: usize = 16;

/// L where none is given.
fn default_sparsity(clusters: usize) -> usize {
    if clusters <= DENSE_CLUSTERS { clusters } else { DEFAULT_SPARSITY }
}

/// K that is begun with where it is found and clusters have a variance a column.
const SIMPLE_START: usize = 100;

/// Finding K starts with at most one cluster for so many rows.
const ROWS_A_START: usize = 20;

/// Pseudo-count of the prior mean where nothing is said.
pub const DEFAULT_KAPPA: f64 = 1e-4;

/// K at most where it is found and nothing is said.
pub const DEFAULT_K_MAX: usize = 1000;

/// The mass that may be discarded when L is to be chosen and nothing else is said.
pub const DEFAULT_SPARSITY_TOLERANCE: f64 = 0.01;

impl MixtureConfig {
    /// Methods that settings of schedules mean something to: all.
    const SCHEDULED: &'static [&'static str] = &[];
    const PACED: &'static [&'static str] = &[];
    const RESTING: &'static [&'static str] = &[];

    /// Check every value against its range and against `num_rows` rows, and fill in what depends on them.
    pub fn check(&self, num_rows: usize) -> Result<Checked<MixtureConfig>> {
        self.check_ranges()?;
        let mut config = self.clone();
        if config.method == MixtureMethod::DpMeans {
            // K is what there is room for.
            config.clusters = config.clusters.min(num_rows);
        }
        if config.find_k {
            config.settle_finding(num_rows)?;
        } else if let Some(setting) = config.asked_of_finding() {
            return Err(bad(setting, "it is for a K that is found", "give `clusters auto`, or leave it out"));
        }
        if config.clusters > num_rows {
            return Err(Error::TooManyClusters { clusters: config.clusters, rows: num_rows });
        }
        config.settle_method()?;
        config.check_stops()?;
        config.check_missing()?;
        config.check_standardize()?;
        if config.sparsity == Sparsity::Auto {
            config.sparsity_tolerance.get_or_insert(DEFAULT_SPARSITY_TOLERANCE);
        }
        let sparsity = match config.sparsity {
            Sparsity::Usual | Sparsity::Auto if config.sparsity_tolerance.is_some() => 1,
            // With the clusters there are while they are fewer.
            Sparsity::Of(sparsity) if config.find_k && sparsity > 0 => sparsity.min(config.k_max()),
            sparsity if config.find_k => sparsity.of(config.k_max(), DEFAULT_SPARSITY)?,
            sparsity => sparsity.of(config.clusters, default_sparsity(config.clusters))?,
        };
        config.sparsity = Sparsity::Of(sparsity);
        config.trades &= config.may_trade();
        let batches = config.settle_batches(num_rows)?;
        (config.batches, config.rows_per_batch) = (Some(batches), None);
        if config.schedule == ScheduleKind::Streaming {
            config.laps = Some(1);
        }
        Ok(Checked { settings: config, sparsity, batches })
    }

    /// Whether clusters can be traded: what a change gains must be known, and what rows remember be of use after it.
    fn may_trade(&self) -> bool {
        let trades = Self::table().iter().find(|setting| setting.name == "trades");
        trades.is_none_or(|trades| trades.unmet(&Value::Bool(true), &self.values()).is_none())
    }

    /// Where frequencies of clusters come from.
    pub(crate) fn allocation(&self) -> Allocation {
        match self.find_k {
            true => Allocation::Sticks { gamma: self.gamma },
            false => Allocation::Dirichlet { alpha: self.alpha },
        }
    }

    /// K at most, where it is found.
    pub fn k_max(&self) -> usize {
        self.k_max.unwrap_or(DEFAULT_K_MAX)
    }

    /// What means something to a K that is found alone, and is asked for.
    fn asked_of_finding(&self) -> Option<&'static str> {
        let asked =
            [("k-start", self.k_start.is_some()), ("k-max", self.k_max.is_some()), ("gamma", self.gamma.is_some())];
        asked.into_iter().find(|(_, is_asked)| *is_asked).map(|(name, _)| name)
    }

    /// Where finding K starts, and what it cannot do.
    fn settle_finding(&mut self, num_rows: usize) -> Result<()> {
        let refuse = |setting, problem: &str, remedy: &str| Err(bad(setting, problem, remedy));
        if self.method != MixtureMethod::Lsparse {
            return refuse("method", "K is found by `method lsparse` alone", "choose `method lsparse`, or give K");
        }
        if self.estimate != Estimate::Posterior {
            let problem = "a point estimate gains with every cluster, so that no K is best by its objective";
            return refuse(
                "estimate",
                problem,
                "choose `estimate vb` (also where the model to go on from has another), or give K",
            );
        }
        if !matches!(self.schedule, ScheduleKind::Full | ScheduleKind::Memoized) {
            let problem = "what a change of K gains is known where the statistics of all batches are";
            return refuse("schedule", problem, "choose `schedule memoized`, or give K");
        }
        if self.search == SearchKind::Neighbours {
            return refuse("search", "candidates are those of a K that stays", "leave it out, or give K");
        }
        if self.history == History::Keep {
            let problem = "what was counted before has no rows that could be dealt out anew";
            return refuse("history", problem, "leave it out, or give K");
        }
        if !matches!(self.device, DeviceChoice::Auto | DeviceChoice::Cpu) {
            return refuse("device", "K is found on the CPU", "leave it out, or give K");
        }
        if let Some(start) = self.k_start.filter(|&start| start > num_rows) {
            return refuse("k-start", &format!("{start} clusters for {num_rows} rows"), "ask for fewer");
        }
        // A few rows each: clusters of one or two are the surer of themselves the fewer they are, and stay.
        let asked = if self.clusters == MixtureConfig::default().clusters { self.usual_start() } else { self.clusters };
        let few = asked.min(self.k_max()).min(num_rows / ROWS_A_START).max(1);
        self.clusters = self.k_start.unwrap_or(few);
        if self.clusters > self.k_max() {
            let problem = format!("training would start with {}, and {} is the most", self.clusters, self.k_max());
            return refuse("k-max", &problem, "give a larger one, or a smaller `k-start`");
        }
        Ok(())
    }

    /// K that is begun with where nothing is said. Clusters with a variance a column come from many to what few never see:
    /// that several are one costs little to learn, and of a large one that is many a few cuts do not tell it.
    fn usual_start(&self) -> usize {
        match self.likelihood.family().of_moments {
            Some(OfMoments::Squares(_)) => SIMPLE_START,
            _ => MixtureConfig::default().clusters,
        }
    }

    /// Settle what a method leaves no choice about, and refuse what it cannot do.
    fn settle_method(&mut self) -> Result<()> {
        let method = self.method;
        if method == MixtureMethod::Lsparse {
            return Ok(());
        }
        if self.sparsity_tolerance.is_some() || self.sparsity == Sparsity::Auto {
            return Err(bad("sparsity-tolerance", "L is chosen for `method lsparse` alone", "give L"));
        }
        if self.search != SearchKind::Auto && method != MixtureMethod::HardEm {
            return Err(bad("search", "it is for `method lsparse and hard-em` alone", "leave it out"));
        }
        if method.is_hard() {
            if !matches!(self.sparsity, Sparsity::Usual | Sparsity::Of(1)) {
                return Err(bad("sparsity", "rows of this method belong to one cluster", "leave it out"));
            }
            self.sparsity = Sparsity::Of(1);
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
    pub(crate) fn check_missing(&self) -> Result<()> {
        if !self.missing {
            return Ok(());
        }
        if !self.likelihood.family().allows_missing {
            let problem = format!("{} clusters cannot integrate missing values out", self.likelihood.name());
            let remedy = "choose `likelihood gauss or diag-gauss`, or fill the values in".into();
            return Err(Error::Config { setting: "missing", problem, remedy });
        }
        if !matches!(self.method, MixtureMethod::Lsparse | MixtureMethod::HardEm) {
            let problem = format!("{} compares whole rows with clusters", self.method.name());
            let remedy = "choose `method lsparse or hard-em`, or fill the values in".into();
            return Err(Error::Config { setting: "missing", problem, remedy });
        }
        if self.search == SearchKind::Neighbours {
            return Err(bad("search", "candidates are found for complete rows alone", "leave it out with `missing`"));
        }
        Ok(())
    }

    /// Units are for columns that are measured, and are there already where each column has a spread of its own.
    fn check_standardize(&self) -> Result<()> {
        if self.standardize && !self.likelihood.family().spread.is_of_variances() {
            let problem = format!("the columns of {} clusters have no units to change", self.likelihood.name());
            let remedy = "leave it out, or choose `likelihood gauss or diag-gauss or spherical-gauss`".into();
            return Err(Error::Config { setting: "standardize", problem, remedy });
        }
        if self.standardize && self.missing {
            let problem = "clusters that allow missing values take each column in its own units as it is";
            return Err(bad("standardize", problem, "leave it out with `missing`"));
        }
        Ok(())
    }

    /// The settings as a model file has them: without those that cannot change a bit of the model.
    pub(crate) fn of_record(&self) -> MixtureConfig {
        let search = match self.search {
            SearchKind::Neighbours => SearchKind::Neighbours,
            SearchKind::Auto | SearchKind::Dense | SearchKind::Exact => SearchKind::Auto,
        };
        MixtureConfig { search, device: DeviceChoice::Auto, ..self.clone() }
    }

    fn settle_batches(&self, num_rows: usize) -> Result<usize> {
        if self.batches.is_some() && self.rows_per_batch.is_some() {
            return Err(bad("batches", "given together with rows-per-batch", "give one of the two"));
        }
        if self.schedule == ScheduleKind::Full {
            if self.batches.is_some_and(|batches| batches > 1)
                || self.rows_per_batch.is_some_and(|rows| rows < num_rows)
            {
                let remedy = "leave the batches out, or choose `schedule memoized`";
                return Err(bad("batches", "the full schedule has one batch", remedy));
            }
            return Ok(1);
        }
        match (self.batches, self.rows_per_batch) {
            (Some(batches), _) if batches > num_rows => Err(Error::Config {
                setting: "batches",
                problem: format!("{batches} batches for {num_rows} rows"),
                remedy: format!("ask for at most {num_rows}"),
            }),
            (Some(batches), _) => Ok(batches),
            (None, Some(rows)) => Ok(num_rows.div_ceil(rows)),
            // More steps a lap for the same work, as long as a batch has rows of every cluster.
            (None, None) => Ok((num_rows / 2000.max(10 * self.clusters)).clamp(1, 20)),
        }
    }
}

fn bad(setting: &'static str, problem: &str, remedy: &str) -> Error {
    Error::Config { setting, problem: problem.into(), remedy: remedy.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_settled_by_the_number_of_rows() {
        let config = MixtureConfig { clusters: 5, ..Default::default() }.check(25_000).unwrap();
        assert_eq!((config.sparsity, config.batches), (5, 12));
        let config = MixtureConfig { rows_per_batch: Some(300), ..Default::default() }.check(1000).unwrap();
        assert_eq!((config.sparsity, config.batches), (10, 4));
        let sparsity = |clusters| MixtureConfig { clusters, ..Default::default() }.check(1000).unwrap().sparsity;
        assert_eq!([16, 17].map(sparsity), [16, 8]);
    }

    #[test]
    fn bad_values_are_refused_by_name() {
        let refused = |config: MixtureConfig, word: &str| {
            let text = config.check(100).unwrap_err().to_string();
            assert!(text.contains(word), "{text}");
        };
        refused(MixtureConfig { clusters: 101, ..Default::default() }, "101 clusters");
        // More clusters than there are is all of them, and said.
        let all = MixtureConfig { clusters: 4, sparsity: Sparsity::Of(5), ..Default::default() };
        assert_eq!((all.check(100).unwrap().sparsity, Sparsity::Of(4).remark(4)), (4, None));
        assert_eq!(all.sparsity.remark(4).as_deref(), Some("`sparsity 5` is more than K = 4: all 4 are kept"));
        refused(MixtureConfig { sparsity: Sparsity::Of(0), ..Default::default() }, "at least 1");
        refused(MixtureConfig { alpha: 0.0, ..Default::default() }, "alpha");
        refused(MixtureConfig { alpha: f64::NAN, ..Default::default() }, "NaN is not above 0");
        refused(MixtureConfig { laps: Some(0), ..Default::default() }, "or none");
        refused(MixtureConfig { decay: 0.5, ..Default::default() }, "decay");
        refused(MixtureConfig { batches: Some(101), ..Default::default() }, "batches");
        refused(MixtureConfig { tolerance: Some(f64::NAN), ..Default::default() }, "tolerance");
        let full = MixtureConfig { schedule: ScheduleKind::Full, batches: Some(3), ..Default::default() };
        refused(full, "one batch");
    }

    #[test]
    fn where_a_model_was_trained_is_not_in_its_file() {
        let plain = MixtureConfig::default();
        let there: MixtureConfig = serde_json::from_str(r#"{"device": "cuda:1"}"#).unwrap();
        assert_eq!(there.device, DeviceChoice::Cuda(1));
        assert_eq!(there.of_record(), plain);
        // What says nothing of devices is as it was before there were any.
        assert!(!serde_json::to_string(&plain).unwrap().contains("device"));
        assert!(serde_json::to_string(&there).unwrap().contains(r#""device":"cuda:1""#));
        assert!(serde_json::from_str::<MixtureConfig>(r#"{"device": "gpu"}"#).is_err());
    }

    #[test]
    fn an_unknown_key_is_an_error() {
        let error = serde_json::from_str::<MixtureConfig>(r#"{"clusters": 3, "sparsty": 2}"#).unwrap_err();
        assert!(error.to_string().contains("sparsty"));
        let config: MixtureConfig = serde_json::from_str(r#"{"estimate": "map", "init": "kmeans"}"#).unwrap();
        assert_eq!(config.estimate, Estimate::Map);
    }
}
