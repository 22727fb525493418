//! Rows drawn from a mixture whose clusters are known.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::{categorical, dirichlet, gamma, generator};
use crate::likelihood::{Draw, LikelihoodKind, NamedArray};

/// Rows and the mixture that they were drawn from.
#[derive(Clone, Debug)]
pub struct Planted {
    /// Columns.
    pub dim: usize,
    /// Rows, one after the other.
    pub values: Vec<f64>,
    /// The cluster of each row.
    pub labels: Vec<usize>,
    /// Frequencies of the clusters.
    pub weights: Vec<f64>,
    /// K x dim: means, or probabilities of categories or ones. Empty for zero-mean clusters.
    pub means: Vec<f64>,
    /// K x dim x dim; empty for counts and bits.
    pub covariances: Vec<f64>,
}

impl Planted {
    /// Number of rows.
    pub fn num_rows(&self) -> usize {
        self.labels.len()
    }

    /// The rows in single precision.
    pub fn values_f32(&self) -> Vec<f32> {
        self.values.iter().map(|&v| v as f32).collect()
    }
}

/// `num_rows` rows from `num_clusters` well separated clusters of the family.
pub fn planted(kind: LikelihoodKind, num_rows: usize, dim: usize, num_clusters: usize, seed: u64) -> Planted {
    let mut rng = generator(seed);
    let weights: Vec<f64> = {
        let raw: Vec<f64> = (0..num_clusters).map(|_| 0.5 + gamma(2.0, &mut rng)).collect();
        let sum: f64 = raw.iter().sum();
        raw.iter().map(|w| w / sum).collect()
    };
    let family = kind.family();
    let arrays = (family.plant)(num_clusters, dim, &mut rng);
    let draws = (family.draws)(&arrays, dim).expect("planted clusters can be drawn from");
    let find = |names: &[&str]| arrays.iter().find(|array| names.contains(&array.name)).map(|array| &array.values);
    let means = find(&["means", "probabilities", "rates"]).cloned().unwrap_or_default();
    let covariances = match (find(&["covariances"]), find(&["variances"])) {
        (Some(covariances), _) => covariances.iter().copied().cycle().take(num_clusters * dim * dim).collect(),
        (_, Some(variances)) => diagonals(variances, num_clusters, dim),
        _ => Vec::new(),
    };
    draw_rows(num_rows, dim, weights, (means, covariances), &draws, &mut rng)
}

/// Diagonal covariances of as many variances a cluster as there are.
fn diagonals(variances: &[f64], num_clusters: usize, dim: usize) -> Vec<f64> {
    let each = variances.len() / num_clusters;
    let mut covariances = vec![0.0; num_clusters * dim * dim];
    for (k, covariance) in covariances.chunks_exact_mut(dim * dim).enumerate() {
        covariance.iter_mut().step_by(dim + 1).enumerate().for_each(|(d, v)| *v = variances[k * each + d % each]);
    }
    covariances
}

/// Zero-mean rows that look like `size` x `size` image patches with their mean removed: clusters of edges and textures
/// of many orientations, scales and contrasts.
pub fn planted_patches(num_rows: usize, size: usize, num_clusters: usize, seed: u64) -> Planted {
    let mut rng = generator(seed);
    let dim = size * size;
    let weights = dirichlet(num_clusters, 3.0, &mut rng);
    let mut covariances = Vec::with_capacity(num_clusters * dim * dim);
    for k in 0..num_clusters {
        let angle = std::f64::consts::PI * k as f64 / num_clusters as f64;
        let contrast = 0.02 * 2f64.powf(4.0 * ((k * 7) % num_clusters) as f64 / num_clusters as f64);
        let (along, across) = (6.0 + 10.0 * rng.random::<f64>(), 0.8 + 2.0 * rng.random::<f64>());
        covariances.extend(oriented_covariance(size, angle, contrast, along, across));
    }
    let arrays = [NamedArray::new("covariances", vec![num_clusters, dim, dim], covariances)];
    let draws = (LikelihoodKind::ZeroMeanGauss.family().draws)(&arrays, dim);
    let draws = draws.expect("planted covariances are positive definite");
    let [NamedArray { values: covariances, .. }] = arrays;
    draw_rows(num_rows, dim, weights, (Vec::new(), covariances), &draws, &mut rng)
}

/// Pixels correlated far along one direction and briefly across it, with the patch's mean taken out.
fn oriented_covariance(size: usize, angle: f64, contrast: f64, along: f64, across: f64) -> Vec<f64> {
    let dim = size * size;
    let mut covariance = vec![0.0; dim * dim];
    let (c, s) = (angle.cos(), angle.sin());
    for i in 0..dim {
        for j in 0..dim {
            let dx = (i % size) as f64 - (j % size) as f64;
            let dy = (i / size) as f64 - (j / size) as f64;
            let (u, v) = ((c * dx + s * dy) / along, (c * dy - s * dx) / across);
            covariance[i * dim + j] = contrast * contrast * (-0.5 * (u * u + v * v)).exp();
        }
    }
    // (I - 11^T/D) C (I - 11^T/D), and a little sensor noise.
    let row_means: Vec<f64> = covariance.chunks_exact(dim).map(|r| r.iter().sum::<f64>() / dim as f64).collect();
    let mean = row_means.iter().sum::<f64>() / dim as f64;
    for i in 0..dim {
        for j in 0..dim {
            covariance[i * dim + j] += mean - row_means[i] - row_means[j];
        }
        covariance[i * dim + i] += 1e-5;
    }
    covariance
}

fn draw_rows(
    num_rows: usize,
    dim: usize,
    weights: Vec<f64>,
    (means, covariances): (Vec<f64>, Vec<f64>),
    draws: &[Draw],
    rng: &mut ChaCha8Rng,
) -> Planted {
    let mut values = vec![0.0; num_rows * dim];
    let mut labels = Vec::with_capacity(num_rows);
    for row in values.chunks_exact_mut(dim) {
        let k = categorical(&weights, rng);
        draws[k](&mut |rng| rng.random_range(20..60), row, rng);
        labels.push(k);
    }
    Planted { dim, values, labels, weights, means, covariances }
}
