//! What clusters look like, whatever their family: natural and mean parameters, of which come distances; the columns that
//! they are shown by; pictures; correlations.

use lsparse::likelihood::NamedArray;
use lsparse::math::linalg::{cholesky_in_place, invert_lower, symmetric_eigen};
use lsparse::{Error, LikelihoodKind, MixtureModel, Result, SequenceModel};
use rayon::prelude::*;

use crate::explore::distances::Distances;

/// Clusters of a mixture or states of a sequence, as the page asks about them.
pub struct ClusterSet<'a> {
    /// Their family.
    pub likelihood: LikelihoodKind,
    /// Their arrays, in the data's own units.
    pub arrays: &'a [NamedArray],
    /// Shares of all rows.
    pub weights: Vec<f64>,
    /// Rows that each holds.
    pub counts: &'a [f64],
    /// Columns.
    pub dim: usize,
}

impl<'a> ClusterSet<'a> {
    /// The clusters of a mixture.
    pub fn of_mixture(model: &'a MixtureModel) -> Self {
        let weights = model.weights.clone();
        let (counts, dim) = (model.total.counts.as_slice(), model.dim());
        ClusterSet { likelihood: model.config.likelihood, arrays: &model.arrays, weights, counts, dim }
    }

    /// The states of sequences, by the steps that are in them.
    pub fn of_sequence(model: &'a SequenceModel) -> Self {
        let counts = model.total.clusters.counts.as_slice();
        let sum = counts.iter().sum::<f64>().max(f64::MIN_POSITIVE);
        let weights = counts.iter().map(|count| count / sum).collect();
        ClusterSet { likelihood: model.config.likelihood, arrays: &model.arrays, weights, counts, dim: model.dim() }
    }

    /// K.
    pub fn num_clusters(&self) -> usize {
        self.weights.len()
    }

    fn array(&self, name: &str) -> Option<&'a [f64]> {
        self.arrays.iter().find(|array| array.name == name).map(|array| array.values.as_slice())
    }

    fn needed(&self, name: &str) -> Result<&'a [f64]> {
        self.array(name).ok_or_else(|| Error::BadArray { name: name.into(), detail: "is missing".into() })
    }

    /// The covariance of a cluster, where it is a full one.
    pub fn covariance(&self, k: usize) -> Option<&'a [f64]> {
        let square = self.dim * self.dim;
        let all = self.array("covariances")?;
        // A tied one is that of all clusters.
        Some(if all.len() == square { all } else { &all[k * square..(k + 1) * square] })
    }

    /// What the values of columns are: means with the deviations of rows from them, or numbers by themselves.
    pub fn profile(&self) -> Result<Profile> {
        let (num, dim) = (self.num_clusters(), self.dim);
        let deviations: Option<Vec<f64>> = match (self.array("variances"), self.array("covariances")) {
            (Some(v), _) if v.len() == num * dim => Some(v.iter().map(|v| v.sqrt()).collect()),
            (Some(v), _) => Some(v.iter().flat_map(|v| std::iter::repeat_n(v.sqrt(), dim)).collect()),
            (None, Some(_)) => Some(
                (0..num)
                    .flat_map(|k| {
                        let of_k = self.covariance(k).unwrap_or_default();
                        (0..dim).map(move |d| of_k[d * dim + d].sqrt())
                    })
                    .collect(),
            ),
            (None, None) => None,
        };
        let over_all =
            |of: &dyn Fn(usize) -> f64, d: usize| -> f64 { (0..num).map(|k| self.weights[k] * of(k * dim + d)).sum() };
        let sum = self.weights.iter().sum::<f64>().max(f64::MIN_POSITIVE);
        let (kind, values) = match (self.array("means"), deviations.as_ref()) {
            (Some(means), _) => (ProfileKind::Means, means.to_vec()),
            (None, Some(deviations)) => (ProfileKind::Deviations, deviations.clone()),
            (None, None) if self.array("rates").is_some() => (ProfileKind::Rates, self.needed("rates")?.to_vec()),
            (None, None) => (ProfileKind::Probabilities, self.needed("probabilities")?.to_vec()),
        };
        let deviations = deviations.filter(|_| kind == ProfileKind::Means);
        // Of all rows: the mean, and around it the spread of means and that within clusters.
        let overall: Vec<f64> = match kind {
            ProfileKind::Deviations => {
                (0..dim).map(|d| (over_all(&|at| values[at] * values[at], d) / sum).sqrt()).collect()
            }
            _ => (0..dim).map(|d| over_all(&|at| values[at], d) / sum).collect(),
        };
        let distinct = match &deviations {
            Some(deviations) => {
                let spread: Vec<f64> = (0..dim)
                    .map(|d| {
                        let about = |at: usize| (values[at] - overall[d]).powi(2) + deviations[at] * deviations[at];
                        (over_all(&about, d) / sum).sqrt().max(f64::MIN_POSITIVE)
                    })
                    .collect();
                (0..num * dim).map(|at| (values[at] - overall[at % dim]) / spread[at % dim]).collect()
            }
            None => {
                let ratio =
                    |at: usize| (values[at].max(f64::MIN_POSITIVE) / overall[at % dim].max(f64::MIN_POSITIVE)).log2();
                (0..num * dim).map(ratio).collect()
            }
        };
        Ok(Profile { kind, values, deviations, overall, distinct })
    }

    /// The square root of Jeffreys' divergence of all pairs, KL both ways: (eta_k - eta_j) . (m_k - m_j) with natural
    /// parameters eta and mean parameters m, which every family here has. Between Gaussians of one covariance it is the
    /// number of standard deviations that their means are apart.
    pub fn distances(&self) -> Result<Distances> {
        let Parameters { eta, mean, width } = self.parameters()?;
        let num = self.num_clusters();
        let mut square = vec![0.0f32; num * num];
        square.par_chunks_mut(num.max(1)).enumerate().for_each(|(k, row)| {
            let of = |j: usize| j * width..(j + 1) * width;
            for (j, distance) in row.iter_mut().enumerate().skip(k + 1) {
                let (etas, means) = ([&eta[of(k)], &eta[of(j)]], [&mean[of(k)], &mean[of(j)]]);
                *distance = product_of_differences(etas, means).max(0.0).sqrt() as f32;
            }
        });
        Ok(Distances::of_square(num, square))
    }

    fn parameters(&self) -> Result<Parameters> {
        let (num, dim) = (self.num_clusters(), self.dim);
        let mut found = Parameters { eta: Vec::new(), mean: Vec::new(), width: 0 };
        let mut push = |eta: f64, mean: f64| {
            found.eta.push(eta);
            found.mean.push(mean);
        };
        // Means about their centre, or those far from zero would lose their digits in squares.
        let centred = |means: &[f64]| -> Vec<f64> {
            let centre = |d: usize| means.iter().skip(d).step_by(dim).sum::<f64>() / num as f64;
            let centre: Vec<f64> = (0..dim).map(centre).collect();
            means.iter().zip(centre.iter().cycle()).map(|(m, c)| m - c).collect()
        };
        let means = self.array("means").map(centred);
        if let (Some(variances), Some(means)) = (self.array("variances"), &means) {
            let each = variances.len() / num;
            for (k, mean) in means.chunks_exact(dim).enumerate() {
                let own = &variances[k * each..(k + 1) * each];
                for (d, m) in mean.iter().enumerate() {
                    let v = own[d % each];
                    push(m / v, *m);
                    push(-0.5 / v, m * m + v);
                }
            }
        } else if self.array("covariances").is_some() {
            let inverses = self.inverse_factors()?;
            let zeros = vec![0.0; num * dim];
            let means = means.as_ref().unwrap_or(&zeros);
            for (k, mean) in means.chunks_exact(dim).enumerate() {
                let (covariance, factor) = (self.covariance(k).unwrap_or_default(), &inverses[k % inverses.len()]);
                if inverses.len() == 1 && num > 1 {
                    // One covariance for all: rows of M mu are both parameters.
                    for row in factor.chunks_exact(dim) {
                        let y = row.iter().zip(mean).map(|(a, b)| a * b).sum();
                        push(y, y);
                    }
                    continue;
                }
                // Lambda = M^T M
                let mut precision = vec![0.0; dim * dim];
                for row in factor.chunks_exact(dim) {
                    for (i, a) in row.iter().enumerate().filter(|(_, a)| **a != 0.0) {
                        precision[i * dim..][..dim].iter_mut().zip(row).for_each(|(p, b)| *p += a * b);
                    }
                }
                for i in 0..dim {
                    let row = &precision[i * dim..(i + 1) * dim];
                    push(row.iter().zip(mean).map(|(a, b)| a * b).sum(), mean[i]);
                    push(-0.5 * row[i], covariance[i * dim + i] + mean[i] * mean[i]);
                    (0..i).for_each(|j| push(-row[j], covariance[i * dim + j] + mean[i] * mean[j]));
                }
            }
        } else {
            // A probability that has no others to share with stands for its odds.
            let family = self.likelihood.family();
            let name = if family.arrays.iter().any(|array| array.name == "rates") { "rates" } else { "probabilities" };
            let is_odds = name == "probabilities" && !family.of_categories;
            for &p in self.needed(name)? {
                let log = |p: f64| p.max(f64::MIN_POSITIVE).ln();
                push(if is_odds { log(p) - log(1.0 - p) } else { log(p) }, p);
            }
        }
        found.width = found.eta.len() / num.max(1);
        Ok(found)
    }

    /// M with M^T M the inverse of a covariance, for each of them.
    fn inverse_factors(&self) -> Result<Vec<Vec<f64>>> {
        let (dim, all) = (self.dim, self.needed("covariances")?);
        let invert = |(k, covariance): (usize, &[f64])| {
            let mut factor = covariance.to_vec();
            cholesky_in_place(&mut factor, dim).map_err(|pivot| Error::NotPositiveDefinite { cluster: k, pivot })?;
            Ok(invert_lower(&factor, dim))
        };
        all.par_chunks_exact(dim * dim).enumerate().map(invert).collect()
    }

    /// The first directions of a full covariance: unit vectors, and the share of the variance that each has.
    pub fn directions(&self, k: usize, count: usize) -> Option<(Vec<f64>, Vec<f64>)> {
        let (dim, covariance) = (self.dim, self.covariance(k)?);
        let total: f64 = (0..dim).map(|d| covariance[d * dim + d]).sum();
        // More vectors than are asked for, so that the last of them comes to rest too.
        let several = (count + 6).min(dim);
        let mut vectors: Vec<f64> = (0..several * dim).map(start).collect();
        let (mut values, mut before) = (vec![0.0; several], f64::INFINITY);
        for _ in 0..100 {
            orthonormal(&mut vectors, dim);
            let turned = times(covariance, &vectors, dim);
            let mut small = vec![0.0; several * several];
            for (i, a) in turned.chunks_exact(dim).enumerate() {
                for (j, b) in vectors.chunks_exact(dim).enumerate() {
                    small[i * several + j] = a.iter().zip(b).map(|(a, b)| a * b).sum();
                }
            }
            let (eigenvalues, rotation) = symmetric_eigen(&small, several);
            let mut order: Vec<usize> = (0..several).collect();
            order.sort_by(|&a, &b| eigenvalues[b].total_cmp(&eigenvalues[a]));
            values = order.iter().map(|&at| eigenvalues[at]).collect();
            // The vectors that this space has best, times the covariance: the next space.
            let rotate = |of: &[f64]| -> Vec<f64> {
                let mut out = vec![0.0; several * dim];
                for (row, &at) in out.chunks_exact_mut(dim).zip(&order) {
                    for (weight, v) in rotation[at * several..(at + 1) * several].iter().zip(of.chunks_exact(dim)) {
                        row.iter_mut().zip(v).for_each(|(x, v)| *x += weight * v);
                    }
                }
                out
            };
            let sum: f64 = values[..count.min(several)].iter().sum();
            if (sum - before).abs() <= 1e-10 * sum.abs() || several == dim {
                vectors = rotate(&vectors);
                break;
            }
            before = sum;
            vectors = rotate(&turned);
        }
        let kept = count.min(several);
        orthonormal(&mut vectors, dim);
        vectors.truncate(kept * dim);
        // Either sign is right: the largest number is to be above zero.
        for vector in vectors.chunks_exact_mut(dim) {
            let largest = vector.iter().copied().fold(0.0f64, |most, x| if x.abs() > most.abs() { x } else { most });
            vector.iter_mut().for_each(|x| *x *= if largest < 0.0 { -1.0 } else { 1.0 });
        }
        Some((vectors, values[..kept].iter().map(|value| value / total.max(f64::MIN_POSITIVE)).collect()))
    }
}

/// Natural and mean parameters of every cluster, `width` of each.
struct Parameters {
    eta: Vec<f64>,
    mean: Vec<f64>,
    width: usize,
}

/// What a column of a cluster is shown by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProfileKind {
    /// Means, with the deviation of rows from them.
    Means,
    /// Standard deviations about zero.
    Deviations,
    /// Probabilities.
    Probabilities,
    /// Rates of counts.
    Rates,
}

/// The columns of clusters as numbers to be shown, K x D each.
pub struct Profile {
    /// What they are.
    pub kind: ProfileKind,
    /// The numbers.
    pub values: Vec<f64>,
    /// Standard deviations about means.
    pub deviations: Option<Vec<f64>>,
    /// The same of all rows, a number a column.
    pub overall: Vec<f64>,
    /// How much a cluster differs from all rows in a column: of means, in standard deviations of all rows; of others, log2 of
    /// how many times as much.
    pub distinct: Vec<f64>,
}

/// sum_i (a_i - b_i) (c_i - d_i), in lanes that are added up in a fixed order.
fn product_of_differences([a, b]: [&[f64]; 2], [c, d]: [&[f64]; 2]) -> f64 {
    const LANES: usize = 8;
    let mut lanes = [0.0; LANES];
    let chunks = a.chunks(LANES).zip(b.chunks(LANES)).zip(c.chunks(LANES).zip(d.chunks(LANES)));
    for ((a, b), (c, d)) in chunks {
        let differences = a.iter().zip(b).zip(c.iter().zip(d));
        lanes.iter_mut().zip(differences).for_each(|(lane, ((a, b), (c, d)))| *lane += (a - b) * (c - d));
    }
    lanes.iter().sum()
}

/// Numbers for vectors to start from that no covariance is orthogonal to.
fn start(at: usize) -> f64 {
    let mixed = (at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}

/// Make vectors orthogonal and of length one, the first first, twice over since once loses digits.
fn orthonormal(vectors: &mut [f64], dim: usize) {
    for _ in 0..2 {
        for i in 0..vectors.len() / dim {
            let (before, rest) = vectors.split_at_mut(i * dim);
            let own = &mut rest[..dim];
            for other in before.chunks_exact(dim) {
                let along: f64 = own.iter().zip(other).map(|(a, b)| a * b).sum();
                own.iter_mut().zip(other).for_each(|(a, b)| *a -= along * b);
            }
            let length = own.iter().map(|a| a * a).sum::<f64>().sqrt().max(1e-300);
            own.iter_mut().for_each(|a| *a /= length);
        }
    }
}

/// A symmetric matrix times each of some vectors.
fn times(matrix: &[f64], vectors: &[f64], dim: usize) -> Vec<f64> {
    let of_vector = |v: &[f64]| -> Vec<f64> {
        matrix.chunks_exact(dim).map(|row| row.iter().zip(v).map(|(a, b)| a * b).sum()).collect()
    };
    vectors.chunks_exact(dim).flat_map(of_vector).collect()
}
