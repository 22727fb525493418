//! Rows drawn from a mixture whose clusters are known.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::{categorical, dirichlet, gamma, generator, normal};
use crate::likelihood::LikelihoodKind;
use crate::linalg;

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
    match kind {
        LikelihoodKind::ZeroMeanGauss => {
            let covariances = (0..num_clusters).flat_map(|_| random_covariance(dim, &mut rng)).collect();
            draw_gauss(num_rows, dim, weights, Vec::new(), covariances, &mut rng)
        }
        LikelihoodKind::TiedGauss => {
            let means = (0..num_clusters * dim).map(|_| 6.0 * normal(&mut rng)).collect();
            let covariances = random_covariance(dim, &mut rng).repeat(num_clusters);
            draw_gauss(num_rows, dim, weights, means, covariances, &mut rng)
        }
        LikelihoodKind::Gauss | LikelihoodKind::DiagGauss | LikelihoodKind::SphericalGauss => {
            let means = (0..num_clusters * dim).map(|_| 6.0 * normal(&mut rng)).collect();
            let covariances = (0..num_clusters)
                .flat_map(|_| match kind {
                    LikelihoodKind::DiagGauss => diagonal_covariance(dim, &mut rng),
                    LikelihoodKind::SphericalGauss => spherical_covariance(dim, &mut rng),
                    _ => random_covariance(dim, &mut rng),
                })
                .collect();
            draw_gauss(num_rows, dim, weights, means, covariances, &mut rng)
        }
        LikelihoodKind::Multinomial => {
            let means: Vec<f64> = (0..num_clusters).flat_map(|_| dirichlet(dim, 0.2, &mut rng)).collect();
            draw_rows(num_rows, dim, weights, means, &mut rng, |p, row, rng| {
                for _ in 0..rng.random_range(20..60) {
                    row[categorical(p, rng)] += 1.0;
                }
            })
        }
        LikelihoodKind::Bernoulli => {
            let coin = |rng: &mut ChaCha8Rng| if rng.random::<bool>() { 0.9 } else { 0.1 };
            let means: Vec<f64> = (0..num_clusters * dim).map(|_| coin(&mut rng)).collect();
            draw_rows(num_rows, dim, weights, means, &mut rng, |p, row, rng| {
                row.iter_mut().zip(p).for_each(|(x, &p)| *x = f64::from(rng.random::<f64>() < p));
            })
        }
    }
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
    draw_gauss(num_rows, dim, weights, Vec::new(), covariances, &mut rng)
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

fn random_covariance(dim: usize, rng: &mut ChaCha8Rng) -> Vec<f64> {
    // Wishart-like: a random matrix times its transpose, with scales that differ from direction to direction.
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

fn diagonal_covariance(dim: usize, rng: &mut ChaCha8Rng) -> Vec<f64> {
    let mut covariance = vec![0.0; dim * dim];
    for i in 0..dim {
        covariance[i * dim + i] = 0.2 + 2.0 * rng.random::<f64>();
    }
    covariance
}

fn spherical_covariance(dim: usize, rng: &mut ChaCha8Rng) -> Vec<f64> {
    let variance = 0.2 + 2.0 * rng.random::<f64>();
    let mut covariance = vec![0.0; dim * dim];
    covariance.iter_mut().step_by(dim + 1).for_each(|v| *v = variance);
    covariance
}

fn draw_gauss(
    num_rows: usize,
    dim: usize,
    weights: Vec<f64>,
    means: Vec<f64>,
    covariances: Vec<f64>,
    rng: &mut ChaCha8Rng,
) -> Planted {
    let factors: Vec<Vec<f64>> = covariances
        .chunks_exact(dim * dim)
        .map(|c| {
            let mut factor = c.to_vec();
            linalg::cholesky_in_place(&mut factor, dim).expect("planted covariances are positive definite");
            factor
        })
        .collect();
    let mut values = Vec::with_capacity(num_rows * dim);
    let mut labels = Vec::with_capacity(num_rows);
    for _ in 0..num_rows {
        let k = categorical(&weights, rng);
        let z: Vec<f64> = (0..dim).map(|_| normal(rng)).collect();
        for i in 0..dim {
            let spread: f64 = (0..=i).map(|j| factors[k][i * dim + j] * z[j]).sum();
            values.push(spread + means.get(k * dim + i).copied().unwrap_or(0.0));
        }
        labels.push(k);
    }
    Planted { dim, values, labels, weights, means, covariances }
}

fn draw_rows(
    num_rows: usize,
    dim: usize,
    weights: Vec<f64>,
    means: Vec<f64>,
    rng: &mut ChaCha8Rng,
    draw: impl Fn(&[f64], &mut [f64], &mut ChaCha8Rng),
) -> Planted {
    let mut values = vec![0.0; num_rows * dim];
    let mut labels = Vec::with_capacity(num_rows);
    for row in values.chunks_exact_mut(dim) {
        let k = categorical(&weights, rng);
        draw(&means[k * dim..(k + 1) * dim], row, rng);
        labels.push(k);
    }
    Planted { dim, values, labels, weights, means, covariances: Vec::new() }
}
