//! What is known of a family before there is any data: its name, its arrays in model files, the rows it wants, and how
//! its clusters are drawn from.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::NamedArray;
use crate::error::{Error, Result};
use crate::math::linalg;
use crate::math::random::normal;

/// A family, described: each file of a family has one, and nothing else in the library asks which family it is.
pub struct Family {
    /// The name on the command line and in model files.
    pub name: &'static str,
    /// What its clusters look like, in a few words.
    pub about: &'static str,
    /// Whether clusters have means that are not zero, and rows are taken about a center.
    pub has_means: bool,
    /// Whether rows may have missing values, which the family integrates out.
    pub allows_missing: bool,
    /// Whether rows are wanted as (index, value) pairs rather than in full.
    pub wants_sparse_rows: bool,
    /// Whether columns are categories that a row is shared out among, so that a single column says nothing of it.
    pub of_categories: bool,
    /// What the prior's variances are measured in.
    pub spread: Spread,
    /// Whether a cluster spreads as far in all columns, so that columns of large numbers decide.
    pub takes_columns_alike: bool,
    /// Whether all clusters have one covariance, and the prior of their means is in units of it.
    pub shares_covariance: bool,
    /// Degrees of freedom of the covariance prior for so many columns, where none are given: the least whole number
    /// under which the prior expects a covariance.
    pub default_nu: fn(dim: usize) -> f64,
    /// Rows that so many clusters of so many columns need before data tell their shapes and not the prior alone.
    pub least_rows: fn(dim: usize, clusters: usize) -> usize,
    /// The arrays of its model files.
    pub arrays: &'static [Array],
    /// How statistics are made of sums over rows about the center; none where they are not made of these, or a weight is no
    /// constant less half a quadratic form ([`quadratic`](super::Clusters::quadratic),
    /// [`diagonal`](super::Clusters::diagonal) or [`shared_form`](super::Clusters::shared_form)).
    pub of_moments: Option<OfMoments>,
    /// Products that a weight takes, for reports of work.
    pub products: fn(dim: usize) -> usize,
    /// From how many columns on, and how many clusters times columns, exact search is the faster one; none where there
    /// is no bound to search by.
    pub exact_pays: Option<(usize, usize)>,
    /// What rows of each cluster with these arrays are drawn by.
    pub draws: fn(arrays: &[NamedArray], dim: usize) -> Result<Vec<Draw>>,
    /// The arrays of well separated clusters, for examples and tests.
    pub plant: fn(clusters: usize, dim: usize, rng: &mut ChaCha8Rng) -> Vec<NamedArray>,
}

/// Which second moment of the data a family's prior is measured in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// About the mean of each column.
    AboutMean,
    /// About zero.
    AboutZero,
    /// None: it is measured in the means of the columns.
    Means,
    /// None.
    Nothing,
}

impl Family {
    /// Refuse a number of counts for rows that are drawn and have no such number.
    pub fn check_trials(&self, trials: Option<usize>) -> Result<()> {
        match trials.is_some() && !self.of_categories {
            true => Err(Error::Config {
                setting: "trials",
                problem: format!("rows of {} are no counts that add up to it", self.name),
                remedy: "leave it out".into(),
            }),
            false => Ok(()),
        }
    }
}

impl Spread {
    /// Whether the prior is one of variances.
    pub fn is_of_variances(self) -> bool {
        matches!(self, Spread::AboutMean | Spread::AboutZero)
    }
}

/// An array of a model file.
pub struct Array {
    /// Its name.
    pub name: &'static str,
    /// Its extent for so many clusters and columns.
    pub shape: fn(about: &Extent) -> Vec<usize>,
    /// Whether only a posterior has it.
    pub of_posterior: bool,
}

/// What the shape of an array depends on.
pub struct Extent {
    /// K.
    pub clusters: usize,
    /// Columns.
    pub dim: usize,
    /// Whether values may be missing.
    pub missing: bool,
}

impl Array {
    /// An array with a row of a number a column for each cluster.
    pub const fn of_columns(name: &'static str) -> Self {
        Array { name, shape: |e| vec![e.clusters, e.dim], of_posterior: false }
    }

    /// An array of a posterior with a number a cluster.
    pub const fn of_clusters(name: &'static str) -> Self {
        Array { name, shape: |e| vec![e.clusters], of_posterior: true }
    }
}

/// How statistics are made of the sums of y and of its squares, y being rows about the center.
#[derive(Clone, Copy, Debug)]
pub enum OfMoments {
    /// Of the sums of y y^T, a packed lower triangle: clusters have a [`quadratic`](super::Clusters::quadratic) form.
    Products(fn(first: &[f64], second: &[f64], stat: &mut [f64])),
    /// Of the sums of y^2, column by column: clusters have a [`diagonal`](super::Clusters::diagonal) one.
    Squares(fn(first: &[f64], second: &[f64], stat: &mut [f64])),
    /// They are the sums of y alone, second moments being shared: clusters have a
    /// [`shared form`](super::Clusters::shared_form).
    Firsts,
}

impl OfMoments {
    /// Make statistics.
    pub fn write(self, first: &[f64], second: &[f64], stat: &mut [f64]) {
        match self {
            OfMoments::Products(write) | OfMoments::Squares(write) => write(first, second, stat),
            OfMoments::Firsts => stat.copy_from_slice(first),
        }
    }
}

/// Draws a row of one cluster into a row of zeros; a row of counts asks `trials` how many it has.
pub type Draw = Box<dyn Fn(&mut dyn FnMut(&mut ChaCha8Rng) -> usize, &mut [f64], &mut ChaCha8Rng) + Send + Sync>;

/// An array by its name.
pub(super) fn array<'a>(arrays: &'a [NamedArray], name: &str) -> Result<&'a NamedArray> {
    let missing = || Error::BadArray { name: name.into(), detail: "is missing".into() };
    arrays.iter().find(|array| array.name == name).ok_or_else(missing)
}

/// Add the second moments of so many rows to a packed lower triangle: `count` (covariance + y y^T), where `y` is their
/// mean.
pub(super) fn add_second_moments(count: f64, y: &[f64], covariance: &[f64], packed: &mut [f64]) {
    let dim = y.len();
    for i in 0..dim {
        for j in 0..=i {
            packed[i * (i + 1) / 2 + j] += count * (covariance[i * dim + j] + y[i] * y[j]);
        }
    }
}

/// Means about a center.
pub(super) fn about(means: &[f64], center: &[f64]) -> Vec<f64> {
    means.iter().zip(center.iter().cycle()).map(|(m, c)| m - c).collect()
}

/// A Gaussian with a full covariance, of cluster `k` for the error; a mean of none is zero.
pub(super) fn full_draw(k: usize, mean: Vec<f64>, covariance: &[f64], dim: usize) -> Result<Draw> {
    let mut factor = covariance.to_vec();
    linalg::cholesky_in_place(&mut factor, dim).map_err(|pivot| Error::NotPositiveDefinite { cluster: k, pivot })?;
    Ok(Box::new(move |_, row, rng| {
        let noise: Vec<f64> = (0..dim).map(|_| normal(rng)).collect();
        for (i, x) in row.iter_mut().enumerate() {
            let spread: f64 = factor[i * dim..i * dim + i + 1].iter().zip(&noise).map(|(f, z)| f * z).sum();
            *x = spread + mean.get(i).copied().unwrap_or(0.0);
        }
    }))
}

/// A Gaussian whose columns are independent.
pub(super) fn diagonal_draw(mean: Vec<f64>, variances: impl Iterator<Item = f64>) -> Draw {
    let deviation: Vec<f64> = variances.map(f64::sqrt).collect();
    Box::new(move |_, row, rng| {
        for (x, (m, s)) in row.iter_mut().zip(mean.iter().zip(&deviation)) {
            *x = m + s * normal(rng);
        }
    })
}

/// Means far from each other for planted clusters.
pub(super) fn planted_means(clusters: usize, dim: usize, rng: &mut ChaCha8Rng) -> NamedArray {
    let values = (0..clusters * dim).map(|_| 6.0 * normal(rng)).collect();
    NamedArray::new("means", vec![clusters, dim], values)
}

/// A covariance for planted clusters, like a Wishart draw: a random matrix times its transpose, with scales that differ
/// from direction to direction.
pub(super) fn planted_covariance(dim: usize, rng: &mut ChaCha8Rng) -> Vec<f64> {
    let scales: Vec<f64> = (0..dim).map(|_| 0.2 + 2.0 * rng.random::<f64>().powi(2)).collect();
    let factor: Vec<f64> = (0..dim * dim).map(|i| normal(rng) * scales[i % dim]).collect();
    let mut covariance = vec![0.0; dim * dim];
    for i in 0..dim {
        for j in 0..dim {
            covariance[i * dim + j] =
                (0..dim).map(|m| factor[i * dim + m] * factor[j * dim + m]).sum::<f64>() / dim as f64;
        }
        covariance[i * dim + i] += 0.05;
    }
    covariance
}

/// A variance for planted clusters.
pub(super) fn planted_variance(rng: &mut ChaCha8Rng) -> f64 {
    0.2 + 2.0 * rng.random::<f64>()
}
