//! What a cluster looks like: one file a family, each with its conjugate prior and every term in closed form.
//!
//! A family is two types. The [`Likelihood`] is the family with its prior: it turns rows into statistics and
//! statistics into clusters. The [`Clusters`] are K fitted clusters: they weigh rows and know their share of the
//! objective. Neither knows what a mixture is. CONTRIBUTING.md walks through adding one.

pub(crate) mod by_cluster;
mod family;
mod missing;
mod single_rows;
mod sparse_table;
mod statistics;
mod student;
mod trial;
mod weigh;
mod wishart;

use std::any::Any;
use std::ops::Range;
use std::time::Instant;

use lsparse_kernels::{AlignedVec, Real};
use serde::{Deserialize, Serialize};

use crate::choice::{Choice, Name, choices};
use crate::data::{Layout, Rows};
use crate::error::{Error, Result};

pub use family::{Array, Draw, Extent, Family, OfMoments, Spread};
pub(crate) use missing::{allow_missing, lacks_values};
pub use statistics::ClusterSummary;
pub use trial::{Heir, Trial};
pub(crate) use weigh::{Keep, accumulate_completed, accumulate_onto, respond_by};
pub use weigh::{Members, accumulate, log_density, respond, respond_dense};

choices! {
    /// How the clusters' parameters are estimated from the statistics. Only the global step and the objective look at it:
    /// the local step uses log pi and log F under point estimates, `E[log pi]` and `E[log F]` under a posterior.
    pub enum Estimate {
        /// A full posterior (variational Bayes): the objective is the evidence lower bound.
        Posterior = "vb",
        /// Maximum a posteriori, under the prior whose pseudo-counts are raised by one, so that it always exists.
        Map = "map",
        /// Maximum likelihood (EM), with a floor on variances and probabilities.
        MaxLikelihood = "ml",
    }
}

/// Every family: its name here and its file. A family is added by a file and a line.
macro_rules! families {
    ($($(#[$about:meta])+ $kind:ident in $file:ident,)+) => {
        $(mod $file;)+

        /// The families that a configuration can name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum LikelihoodKind {
            $($(#[$about])+ $kind,)+
        }

        impl Choice for LikelihoodKind {
            const NAMES: &'static [Name] = &[$(($file::FAMILY.name, $file::FAMILY.about)),+];
        }

        impl LikelihoodKind {
            /// Every family, in the order of the documentation.
            pub const ALL: [LikelihoodKind; [$(stringify!($kind)),+].len()] = [$(LikelihoodKind::$kind),+];

            /// What is known of the family.
            pub fn family(self) -> &'static Family {
                match self {
                    $(LikelihoodKind::$kind => &$file::FAMILY,)+
                }
            }

            /// The family with its prior, for rows of type `T`.
            pub fn build<T: Real>(self, prior: &Prior) -> Box<dyn Likelihood<T>> {
                match self {
                    $(LikelihoodKind::$kind => Box::new($file::$kind::new(prior)),)+
                }
            }
        }
    };
}

families! {
    /// Gaussian with zero mean and full covariance, Wishart prior.
    ZeroMeanGauss in zero_mean_gauss,
    /// Gaussian with full covariance, normal-Wishart prior.
    Gauss in gauss,
    /// Gaussian with diagonal covariance, normal-gamma prior.
    DiagGauss in diag_gauss,
    /// Gaussian with one variance for all columns, normal-gamma prior.
    SphericalGauss in spherical_gauss,
    /// Gaussian with one full covariance for all clusters, Wishart prior on it and a normal one on each mean.
    TiedGauss in tied_gauss,
    /// Counts of words or other categories, Dirichlet prior.
    Multinomial in multinomial,
    /// Vectors of zeros and ones, beta prior.
    Bernoulli in bernoulli,
    /// Counts that are no text, each column by itself, gamma prior.
    Poisson in poisson,
}

impl LikelihoodKind {
    /// The name on the command line and in model files.
    pub fn name(self) -> &'static str {
        self.family().name
    }

    /// The prior's expected variance in units of the data's, where none is given: a tenth where a cluster has no more
    /// rows than a covariance has columns (one by one in diagonal ones), since only the prior tells the shape of such a
    /// cluster; less by the square where it has more, down to a ten thousandth, since clusters may be far tighter than the
    /// data.
    pub fn default_prior_scale(self, dim: usize, clusters: usize, rows: usize) -> f64 {
        let share = (self.family().least_rows)(dim, clusters) as f64 / rows.max(1) as f64;
        (0.1 * share * share).clamp(1e-4, 0.1)
    }

    /// The arrays of a model file under this estimate.
    pub fn arrays(self, estimate: Estimate) -> impl Iterator<Item = &'static Array> {
        let is_held = move |array: &&Array| estimate == Estimate::Posterior || !array.of_posterior;
        self.family().arrays.iter().filter(is_held)
    }
}

choices! {
    /// What the covariance that a prior expects looks like.
    pub enum PriorShape {
        /// Each column's own variance.
        Columns = "columns",
        /// The average over the columns, the same for all: as in the paper.
        Isotropic = "isotropic",
    }
}

/// The numbers every family's prior is made of, settled once from the configuration and the data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prior {
    /// Columns of the data.
    pub dim: usize,
    /// Pseudo-count of each category (multinomial) and of each outcome (Bernoulli).
    pub lambda: f64,
    /// Degrees of freedom of Wishart and gamma priors.
    pub nu: f64,
    /// Pseudo-count of the prior mean.
    pub kappa: f64,
    /// Expected variance of each column within a cluster under the prior: the prior's expected covariance is diagonal.
    pub variance: Vec<f64>,
    /// Smallest variance of each column (maximum likelihood only).
    pub variance_floor: Vec<f64>,
    /// Whether values may be missing from rows.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub missing: bool,
    /// The variance of the values of each column that some rows lack, zero for columns that all rows have; empty where
    /// values may not be missing. Clusters that have hardly seen such a column have it for what they expect there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub own_variance: Vec<f64>,
    /// The mean of each column, for families of counts that are measured in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub column_means: Vec<f64>,
    /// Prior mean, and the point about which second moments are gathered, so that data far from zero keep their digits.
    pub center: Vec<f64>,
}

/// Smallest probability of a category or outcome under maximum likelihood.
pub const PROBABILITY_FLOOR: f64 = 1e-9;

/// The average of variances; 1 where there is none above zero, since constant data has no scale of its own.
pub(crate) fn average(spread: &[f64]) -> f64 {
    let average = spread.iter().sum::<f64>() / spread.len().max(1) as f64;
    if average > 0.0 && average.is_finite() { average } else { 1.0 }
}

/// A family of distributions with its prior.
///
/// Statistics are additive: `stat_width` numbers a cluster in the family's own layout, and behind those of all clusters
/// `shared_width` numbers that belong to no cluster.
pub trait Likelihood<T: Real>: Send + Sync {
    /// Which family this is.
    fn kind(&self) -> LikelihoodKind;

    /// Columns of the rows.
    fn dim(&self) -> usize;

    /// The layout that rows are wanted in.
    fn layout(&self) -> Layout {
        if self.kind().family().wants_sparse_rows { Layout::Sparse } else { Layout::Dense }
    }

    /// Global steps that are not done by then, and would take long, are to end in an error.
    fn set_deadline(&mut self, _until: Option<Instant>) {}

    /// Numbers a cluster in the statistics S_k.
    fn stat_width(&self) -> usize;

    /// Numbers in the statistics that all clusters share.
    fn shared_width(&self) -> usize {
        0
    }

    /// The statistics of no rows.
    fn no_statistics(&self, num_clusters: usize) -> ClusterSummary {
        ClusterSummary::zeros(num_clusters, self.stat_width(), self.shared_width())
    }

    /// Whether one value may stand in a row; what it should have been, where not. (Finiteness is checked before.)
    fn check_value(&self, _value: f64) -> std::result::Result<(), &'static str> {
        Ok(())
    }

    /// `stat += sum_m resp[m] s(x_m)` over the rows `members` of `rows`: the statistics of one cluster.
    fn accumulate(&self, rows: &Rows<T>, members: &[u32], resp: &[T], scratch: &mut Scratch<T>, stat: &mut [f64]);

    /// How many rows [`accumulate`](Self::accumulate) sums before it adds them to the statistics, where that is how it goes:
    /// then stretches of so many rows can be summed by themselves, and added in their order, to the same bits.
    fn rows_at_once(&self) -> Option<usize> {
        None
    }

    /// Whether rows that lack values can be accumulated only when they have been completed: by clusters, or, where there are
    /// none yet, by what stands in their place.
    fn wants_whole_rows(&self) -> bool {
        false
    }

    /// Add to the sum of squares of a column in the statistics of one cluster: the variance of what stands in the place of
    /// missing values, in families that want whole rows.
    fn widen(&self, _column: usize, _amount: f64, _stat: &mut [f64]) {}

    /// `shared += sum_m weights[m] t(x_m)` over the rows `members` of `rows`, where a row's weight is what its
    /// responsibilities for all clusters sum to: the statistics that do not depend on which clusters those are.
    fn accumulate_shared(&self, _rows: &Rows<T>, _members: &[u32], _weights: &[f64], _shared: &mut [f64]) {}

    /// The global step: the best clusters for these statistics. `previous` are the clusters that are being replaced;
    /// under maximum likelihood an empty cluster keeps its old shape.
    fn global_step(
        &self,
        estimate: Estimate,
        counts: &[f64],
        stats: &[f64],
        previous: Option<&dyn Clusters<T>>,
    ) -> Result<Box<dyn Clusters<T>>>;

    /// What the posterior of each of these clusters is worth for its own statistics, in families whose clusters share none:
    /// its share of the data term, without a cluster being made to weigh rows.
    fn evidence(&self, counts: &[f64], stats: &[f64]) -> Result<Vec<f64>> {
        let worth = |count, stat: &[f64]| -> Result<f64> {
            Ok(self.global_step(Estimate::Posterior, &[count], stat, None)?.own_data_term())
        };
        counts.iter().zip(stats.chunks_exact(self.stat_width())).map(|(&count, stat)| worth(count, stat)).collect()
    }

    /// The posterior of all clusters for their statistics, fit to tell what changes of a few gain, in families whose
    /// clusters share statistics.
    fn together(&self, _counts: &[f64], _stats: &[f64]) -> Result<Option<Box<dyn Together>>> {
        Ok(None)
    }

    /// Clusters with given point estimates, as `Clusters::arrays` returns them (from a model file, or for scoring).
    /// Arrays of a Gaussian posterior give its predictive too.
    fn clusters_of(&self, arrays: &[NamedArray]) -> Result<Box<dyn Clusters<T>>>;

    /// The statistics of so many rows a cluster whose maximum likelihood clusters have these arrays: where training
    /// starts from clusters that are given. None in families that have no such start.
    fn statistics_of(&self, _counts: &[f64], _arrays: &[NamedArray]) -> Result<Option<Vec<f64>>> {
        Ok(None)
    }

    /// For each row the value of the MAP objective of a cluster that holds this row alone, at its optimum:
    /// max over phi of log F(x | phi) + log P(phi). What a row loses against it by belonging to another cluster is the
    /// Bregman divergence that seeding draws by.
    fn own_score(&self, rows: &Rows<T>, range: Range<usize>, out: &mut [f64]);

    /// The same divergences from single rows, where they have a closed form that needs no cluster to be made.
    fn divergences<'a>(&'a self, _rows: &'a Rows<T>) -> Option<Box<dyn Divergences + 'a>> {
        None
    }

    /// Free parameters of one cluster, for BIC and AIC.
    fn num_parameters(&self) -> usize;

    /// Free parameters that all clusters share.
    fn num_shared_parameters(&self) -> usize {
        0
    }
}

/// N and S of a cluster.
pub type OfCluster<'a> = (f64, &'a [f64]);

/// Clusters that share statistics.
pub trait Together: Sync {
    /// What the data term gains if these clusters are in the place of those.
    fn gain(&self, gone: &[OfCluster<'_>], come: &[OfCluster<'_>]) -> f64;
}

/// What rows lose by living with the shape that a single row gives a cluster.
pub trait Divergences: Sync {
    /// For rows of a range, from the cluster that holds this row alone.
    fn away_from(&self, seed: usize) -> Box<dyn Fn(Range<usize>, &mut [f64]) + Sync + '_>;
}

/// K clusters with their parameters, fit for weighing rows.
pub trait Clusters<T: Real>: Send + Sync {
    /// K.
    fn num_clusters(&self) -> usize;

    /// `weights[(n - range.start) * K + k] += E[log F(x_n | phi_k)]` for the rows in `range` (at most `T::TILE`).
    fn add_log_lik(&self, rows: &Rows<T>, range: Range<usize>, scratch: &mut Scratch<T>, weights: &mut [T]);

    /// The same into a tile whose lanes are rows, `tile[k * T::TILE + n - range.start]`, with the same bits. Returns false,
    /// with nothing done, in families that do not weigh many rows at once, and where rows lack values.
    fn add_log_lik_tile(
        &self,
        _rows: &Rows<T>,
        _range: Range<usize>,
        _scratch: &mut Scratch<T>,
        _tile: &mut [T],
    ) -> bool {
        false
    }

    /// The same with log p(x_n | cluster k) as rows are scored: the posterior predictive in families that have one, for
    /// clusters made from the arrays of a posterior, and `add_log_lik` under point estimates elsewhere.
    fn add_log_predictive(&self, rows: &Rows<T>, range: Range<usize>, scratch: &mut Scratch<T>, weights: &mut [T]) {
        self.add_log_lik(rows, range, scratch, weights);
    }

    /// `out[m] = E[log F(x_m | phi_k)]` for the rows `members` (at most `T::TILE`) and one cluster: what `add_log_lik`
    /// adds, for candidates. Where there is a [`quadratic`](Self::quadratic) or [`diagonal`](Self::diagonal) form, with
    /// the same bits.
    fn log_lik_of(&self, k: usize, rows: &Rows<T>, members: &[u32], scratch: &mut Scratch<T>, out: &mut [T]);

    /// The log likelihood as a constant less half a quadratic form, in families where it is one: then clusters can be
    /// ruled out by a few components of the form.
    fn quadratic(&self, _k: usize) -> Option<Quadratic<'_, T>> {
        None
    }

    /// The same for a form that is a sum over columns.
    fn diagonal(&self, _k: usize) -> Option<Diagonal<'_, T>> {
        None
    }

    /// The same where one form is shared by all clusters, about their means.
    fn shared_form(&self) -> Option<SharedForm<'_, T>> {
        None
    }

    /// What [`add_log_predictive`](Self::add_log_predictive) adds in terms of these forms, where it is not `add_log_lik`.
    fn predictive(&self) -> Option<Predictive<'_>> {
        None
    }

    /// Whether statistics of rows with missing values are expectations under the clusters: then they are added by
    /// [`accumulate_expected`](Self::accumulate_expected), and those of complete rows alone by the likelihood.
    fn completes_rows(&self) -> bool {
        false
    }

    /// Add `sum_m resp[m] E[s(x_m)]` over rows with missing values to the statistics of cluster k; returns `sum_m resp[m]`
    /// times the entropy of what is missing in row m, which belongs to the objective.
    fn accumulate_expected(
        &self,
        _k: usize,
        _rows: &Rows<T>,
        _members: &[u32],
        _resp: &[T],
        _scratch: &mut Scratch<T>,
        _stat: &mut [f64],
    ) -> f64 {
        0.0
    }

    /// Put a draw from cluster k given what is there in the place of what a row lacks, by standard normal numbers, in
    /// families that allow missing values.
    fn draw_missing(&self, _k: usize, _row: &mut [T], _scratch: &mut Scratch<T>, _normal: &mut dyn FnMut() -> f64) {}

    /// The data term of the objective for these statistics, prior (and posterior) included.
    fn data_term(&self, counts: &[f64], stats: &[f64]) -> f64;

    /// `data_term` for the very statistics that the clusters were estimated from, known since the global step.
    fn own_data_term(&self) -> f64;

    /// log P(phi_k), the share of `data_term` that does not depend on data; meaningful for MAP clusters.
    fn log_prior(&self) -> Vec<f64>;

    /// Point estimates in their natural form, by name, as model files hold them; with what else the predictive of a
    /// posterior needs (`degrees`, `mean_counts`) in families that have one.
    fn arrays(&self) -> Vec<NamedArray>;

    /// Itself, for a family to recognise its own.
    fn as_any(&self) -> &dyn Any;
}

/// `E[log F(x | phi_k)]` = constant - || M (x - mean) ||^2 / 2.
pub struct Quadratic<'a, T> {
    /// What is left at the mean.
    pub constant: T,
    /// M, lower-triangular, row-major.
    pub factor: &'a [f64],
    /// The mean; empty for zero.
    pub mean: &'a [T],
    /// A point amid the data, which numbers are best taken about; empty for zero.
    pub center: &'a [T],
}

/// `E[log F(x | phi_k)]` = constant - sum_d precision_d (x_d - mean_d)^2 / 2.
pub struct Diagonal<'a, T> {
    /// What is left at the mean.
    pub constant: T,
    /// One a column.
    pub mean: &'a [T],
    /// One a column, none negative.
    pub precision: &'a [T],
}

impl<T: Real> Diagonal<'_, T> {
    /// What a single row has of it: a tile of rows costs as much with one in it as with all.
    pub fn of_row(&self, row: &[T]) -> T {
        // Several sums at a time, which need not wait for each other; columns are added in an order of their own.
        const SUMS: usize = 8;
        let Diagonal { constant, mean, precision } = *self;
        let term = |d: usize| {
            let away = row[d] - mean[d];
            precision[d] * away * away
        };
        let (mut sums, whole) = ([T::ZERO; SUMS], row.len() / SUMS * SUMS);
        for first in (0..whole).step_by(SUMS) {
            (0..SUMS).for_each(|n| sums[n] += term(first + n));
        }
        (whole..row.len()).for_each(|d| sums[d - whole] += term(d));
        constant - T::from_f64(0.5) * sums.into_iter().sum::<T>()
    }
}

/// `E[log F(x | phi_k)]` = constant_k - || M (x - center) - M mean_k ||^2 / 2.
pub struct SharedForm<'a, T> {
    /// One a cluster.
    pub constants: &'a [T],
    /// M, lower-triangular, row-major.
    pub factor: &'a [f64],
    /// K x D, about the center of the family's prior.
    pub means: &'a [f64],
}

/// Predictive densities of clusters, Student t.
pub enum Predictive<'a> {
    /// log p_k(x) = constant_k - power_k ln(1 + rate_k q), q being what a cluster's form has.
    Forms {
        /// One a cluster.
        constants: Vec<f64>,
        /// One a cluster.
        powers: Vec<f64>,
        /// One a cluster.
        rates: Vec<f64>,
    },
    /// log p_k(x) = constant_k - power_k sum_d ln(1 + rate_kd (x_d - mean_kd)^2).
    Columns {
        /// One a cluster.
        constants: &'a [f64],
        /// One a cluster.
        powers: &'a [f64],
        /// K x D.
        rates: &'a [f64],
        /// K x D.
        means: &'a [f64],
    },
}

/// An array with a name and a shape, row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedArray {
    /// Name in the model file.
    pub name: &'static str,
    /// Extent of each axis.
    pub shape: Vec<usize>,
    /// The numbers.
    pub values: Vec<f64>,
}

impl NamedArray {
    /// Put a shape and values together.
    pub fn new(name: &'static str, shape: Vec<usize>, values: Vec<f64>) -> Self {
        debug_assert_eq!(shape.iter().product::<usize>(), values.len());
        NamedArray { name, shape, values }
    }
}

/// Find an array by name and check its shape after the first axis; returns K and the values.
pub(crate) fn find_array<'a>(arrays: &'a [NamedArray], name: &str, rest: &[usize]) -> Result<(usize, &'a [f64])> {
    let bad = |detail: String| Error::BadArray { name: name.into(), detail };
    let array = arrays.iter().find(|a| a.name == name).ok_or_else(|| bad("is missing".into()))?;
    match array.shape.split_first() {
        Some((&k, tail)) if tail == rest => Ok((k, &array.values)),
        _ => Err(bad(format!("has shape {:?}, expected [K, {rest:?}]", array.shape))),
    }
}

/// Buffers of the hot loops, one a thread, so that they allocate nothing.
#[derive(Default)]
pub struct Scratch<T> {
    /// A tile of rows, transposed.
    pub tile: AlignedVec<T>,
    /// Gathered rows, in double precision.
    pub gathered: Vec<f64>,
    /// The responsibilities of the gathered rows.
    pub shares: Vec<f64>,
    /// For the kernel that sums outer products.
    pub outer: Vec<f64>,
    /// Logarithms, one a row of a tile.
    pub logs: Vec<f64>,
    /// For the kernels that weigh rows.
    pub work: Vec<T>,
    /// The tile in other coordinates.
    pub turned: AlignedVec<T>,
    /// One number a row of a tile.
    pub column: Vec<T>,
    /// What is expected where values are missing.
    pub(crate) completed: missing::Completed,
}

impl<T: Real> Scratch<T> {
    /// Transpose rows `range` into `self.tile`, rows as lanes.
    pub(crate) fn load_tile(&mut self, rows: &Rows<T>, range: Range<usize>) {
        let dim = rows.dim();
        self.tile.reshape(dim * T::TILE);
        self.column.resize(T::TILE, T::ZERO);
        lsparse_kernels::transpose_tile(rows.dense_rows(range), dim, &mut self.tile);
    }

    /// Turn rows `members` into `self.tile`, rows as lanes; what it holds for missing rows is unspecified.
    pub(crate) fn gather_tile(&mut self, rows: &Rows<T>, members: &[u32]) {
        let dim = rows.dim();
        self.tile.reshape(dim * T::TILE);
        self.column.resize(T::TILE, T::ZERO);
        lsparse_kernels::gather_tile(rows.dense_rows(0..rows.len()), dim, members, &mut self.tile);
    }

    /// Gather rows `members` less `center` (empty for zero) and their responsibilities, and `add` them a block at a time.
    ///
    /// In double precision whatever the rows are held in: sums of squares about a point that a cluster is far from must
    /// keep their digits until the cluster's own mean is known, and columns that depend on each other must not get a
    /// variance by rounding that a weak prior cannot outweigh.
    pub(crate) fn gather<W: Real>(
        &mut self,
        rows: &Rows<T>,
        members: &[u32],
        resp: &[W],
        center: &[f64],
        mut add: impl FnMut(&[f64], &[f64], &mut Vec<f64>),
    ) {
        for (members, resp) in members.chunks(GATHERED_ROWS).zip(resp.chunks(GATHERED_ROWS)) {
            let dim = rows.dim();
            self.gathered.resize(members.len() * dim, 0.0);
            for (&m, place) in members.iter().zip(self.gathered.chunks_exact_mut(dim)) {
                let row = rows.dense_rows(m as usize..m as usize + 1);
                if center.is_empty() {
                    place.iter_mut().zip(row).for_each(|(place, x)| *place = x.to_f64());
                } else {
                    place.iter_mut().zip(row).zip(center).for_each(|((place, x), c)| *place = x.to_f64() - c);
                }
            }
            self.shares.clear();
            self.shares.extend(resp.iter().map(|r| r.to_f64()));
            add(&self.gathered, &self.shares, &mut self.outer);
        }
    }
}

/// Clusters that rows of a tile are compared with before their weights are written: so many lie next to each other.
const CLUSTERS_AT_ONCE: usize = 20;

/// Add to the weights of a tile, cluster by cluster, what `log_lik` makes of the squared distances of its rows to points.
fn add_by_distance<T: Real>(
    (rows, dim): (&[T], usize),
    points: &[T],
    distances: &mut Vec<T>,
    tile: &mut [T],
    log_lik: impl Fn(usize, T) -> T,
) {
    distances.resize(CLUSTERS_AT_ONCE * T::TILE, T::ZERO);
    let groups = tile.chunks_mut(CLUSTERS_AT_ONCE * T::TILE).zip(points.chunks(CLUSTERS_AT_ONCE * dim));
    for (group, (weights, points)) in groups.enumerate() {
        let distances = &mut distances[..weights.len()];
        lsparse_kernels::square_distances(rows, dim, points, distances);
        let clusters = weights.chunks_exact_mut(T::TILE).zip(distances.chunks_exact(T::TILE));
        for (c, (weights, distances)) in clusters.enumerate() {
            let k = group * CLUSTERS_AT_ONCE + c;
            weights.iter_mut().zip(distances).for_each(|(weight, &d)| *weight += log_lik(k, d));
        }
    }
}

/// Rows that are gathered at once: as many as the kernels sum before they turn to the totals, so that blocks change
/// no bit.
const GATHERED_ROWS: usize = 256;

pub(crate) const LN_2PI: f64 = 1.837_877_066_409_345_6;

/// log of the Dirichlet's normaliser with all `n` parameters equal to `a`: ln G(n a) - n ln G(a).
pub(crate) fn ln_dirichlet_symmetric(a: f64, n: usize) -> f64 {
    lsparse_kernels::ln_gamma(a * n as f64) - n as f64 * lsparse_kernels::ln_gamma(a)
}
