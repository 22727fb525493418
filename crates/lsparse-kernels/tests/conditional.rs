//! Conditional expectations and covariances of Gaussians against plain loops, at every level.

mod common;

use common::{at_every_level, random, rng};
use lsparse_kernels::{Conditional, ConditionalPack};

/// The inverse of a matrix by Gauss-Jordan elimination, and the logarithm of its determinant.
fn inverse(matrix: &[f64], dim: usize) -> (Vec<f64>, f64) {
    let (mut left, mut right, mut log_det) = (matrix.to_vec(), vec![0.0; dim * dim], 0.0);
    (0..dim).for_each(|i| right[i * dim + i] = 1.0);
    for i in 0..dim {
        let pivot = left[i * dim + i];
        log_det += pivot.ln();
        (0..dim).for_each(|j| {
            (left[i * dim + j], right[i * dim + j]) = (left[i * dim + j] / pivot, right[i * dim + j] / pivot)
        });
        for other in (0..dim).filter(|&other| other != i) {
            let factor = left[other * dim + i];
            for j in 0..dim {
                left[other * dim + j] -= factor * left[i * dim + j];
                right[other * dim + j] -= factor * right[i * dim + j];
            }
        }
    }
    (right, log_det)
}

#[test]
fn expectations_are_those_of_the_conditional() {
    let mut rng = rng(1);
    for dim in [1, 2, 3, 5, 9, 17, 40] {
        let num = 1 + dim % 19;
        let (means, x) = (random::<f64>(&mut rng, num * dim), random::<f64>(&mut rng, num * dim * dim));
        let product = |k: usize, i: usize, j: usize| -> f64 {
            let own = if i == j { 0.5 } else { 0.0 };
            own + (0..dim).map(|d| x[(k * dim + i) * dim + d] * x[(k * dim + j) * dim + d]).sum::<f64>()
        };
        let precisions: Vec<Vec<f64>> =
            (0..num).map(|k| (0..dim * dim).map(|at| product(k, at / dim, at % dim)).collect()).collect();
        let row = random::<f64>(&mut rng, dim);
        // None, some, and all columns.
        for every in [usize::MAX, 3, 2, 1] {
            let missing: Vec<u32> = (0..dim as u32).filter(|&d| (d as usize + 1).is_multiple_of(every)).collect();
            at_every_level(|level| {
                let mut pack = ConditionalPack::new(num, dim);
                (0..num).for_each(|k| pack.set(k, &precisions[k], &means[k * dim..(k + 1) * dim]));
                let mut holed = row.clone();
                missing.iter().for_each(|&d| holed[d as usize] = f64::NAN);
                let mut conditional = Conditional::default();
                let mut out = vec![f64::NAN; missing.len() * ConditionalPack::WIDTH];
                for group in 0..pack.groups() {
                    pack.prepare(group, &missing, &mut conditional);
                    pack.expect(group, &missing, &holed, &mut conditional, &mut out);
                    for (lane, k) in pack.members(group).enumerate() {
                        let phi = |i: u32, j: u32| precisions[k][i as usize * dim + j as usize];
                        let own: Vec<f64> =
                            missing.iter().flat_map(|&i| missing.iter().map(move |&j| phi(i, j))).collect();
                        let (covariance, log_det) = inverse(&own, missing.len());
                        let what = format!("{level} {dim} {k}");
                        assert!((conditional.log_det(lane) - log_det).abs() < 1e-10, "{what}");
                        let rest =
                            |d: usize| if missing.contains(&(d as u32)) { 0.0 } else { row[d] - means[k * dim + d] };
                        let pull: Vec<f64> =
                            missing.iter().map(|&i| (0..dim).map(|d| phi(i, d as u32) * rest(d)).sum()).collect();
                        for (i, &d) in missing.iter().enumerate() {
                            let covariances = &covariance[i * missing.len()..(i + 1) * missing.len()];
                            let away: f64 = covariances.iter().zip(&pull).map(|(c, p)| c * p).sum();
                            let expected = means[k * dim + d as usize] - away;
                            let found = out[i * ConditionalPack::WIDTH + lane];
                            assert!((found - expected).abs() < 1e-10, "{what}: {found} instead of {expected}");
                        }
                        let mut found = vec![f64::NAN; missing.len() * missing.len()];
                        conditional.covariance(lane, &mut Vec::new(), |i, j, value| {
                            (found[i * missing.len() + j], found[j * missing.len() + i]) = (value, value);
                        });
                        for (found, expected) in found.iter().zip(&covariance) {
                            assert!((found - expected).abs() < 1e-10, "{what}: {found} instead of {expected}");
                        }
                    }
                }
            });
        }
    }
}
