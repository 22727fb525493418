//! Inverse Cholesky factors of batches against plain loops, at every level.

mod common;

use common::{at_every_level, random, rng};
use lsparse_kernels::{invert_cholesky_batch, invert_cholesky_batch_while};
use rand_chacha::ChaCha8Rng;

/// The lower triangle of `X X^T + I / 10`, row by row.
fn positive_definite(rng: &mut ChaCha8Rng, dim: usize) -> Vec<f64> {
    let x = random::<f64>(rng, dim * dim);
    let mut packed = Vec::new();
    for i in 0..dim {
        for j in 0..=i {
            let product: f64 = (0..dim).map(|k| x[i * dim + k] * x[j * dim + k]).sum();
            packed.push(product + if i == j { 0.1 } else { 0.0 });
        }
    }
    packed
}

fn batch(rng: &mut ChaCha8Rng, num: usize, dim: usize) -> Vec<f64> {
    (0..num).flat_map(|_| positive_definite(rng, dim)).collect()
}

/// The inverse factor and the log determinant.
fn reference(packed: &[f64], dim: usize) -> (Vec<f64>, f64) {
    let mut l = vec![0.0; dim * dim];
    let mut log_det = 0.0;
    for i in 0..dim {
        for j in 0..=i {
            let product: f64 = (0..j).map(|k| l[i * dim + k] * l[j * dim + k]).sum();
            let rest = packed[i * (i + 1) / 2 + j] - product;
            if i == j {
                log_det += rest.ln();
                l[i * dim + i] = rest.sqrt();
            } else {
                l[i * dim + j] = rest / l[j * dim + j];
            }
        }
    }
    let mut inverse = vec![0.0; dim * dim];
    for i in 0..dim {
        for j in 0..=i {
            let product: f64 = (j..i).map(|k| l[i * dim + k] * inverse[k * dim + j]).sum();
            inverse[i * dim + j] = (if i == j { 1.0 } else { 0.0 } - product) / l[i * dim + i];
        }
    }
    (inverse, log_det)
}

/// The inverse factors and the log determinants of a batch without failures.
fn invert(packed: &[f64], dim: usize) -> (Vec<f64>, Vec<f64>) {
    let num = packed.len() / (dim * (dim + 1) / 2);
    let (mut inverse, mut log_det) = (vec![f64::NAN; num * dim * dim], vec![f64::NAN; num]);
    assert_eq!(invert_cholesky_batch(packed, dim, &mut inverse, &mut log_det), Ok(()));
    (inverse, log_det)
}

#[test]
fn inverse_factors_match_the_plain_loops() {
    let mut rng = rng(1);
    for dim in (1..=80).chain([129, 300]) {
        let num = if dim > 80 { 2 } else { dim % 19 };
        let packed = batch(&mut rng, num, dim);
        let expected: Vec<_> = packed.chunks_exact(dim * (dim + 1) / 2).map(|packed| reference(packed, dim)).collect();
        at_every_level(|level| {
            let (inverse, log_det) = invert(&packed, dim);
            for (m, (expected, expected_log_det)) in expected.iter().enumerate() {
                let scale = expected.iter().fold(0.0, |largest: f64, x| largest.max(x.abs()));
                for (at, (got, expected)) in inverse[m * dim * dim..].iter().zip(expected).enumerate() {
                    let entry = (at / dim, at % dim);
                    assert!(
                        (got - expected).abs() <= 1e-10 * scale,
                        "{level} dim {dim} matrix {m} {entry:?}: {got} instead of {expected}, scale {scale}"
                    );
                    assert!(entry.1 <= entry.0 || *got == 0.0, "{level} dim {dim} {entry:?} above the diagonal");
                }
                assert!((log_det[m] - expected_log_det).abs() <= 1e-11 * dim as f64, "{level} dim {dim} matrix {m}");
            }
        });
    }
}

#[test]
fn a_matrix_alone_gives_the_same_bits() {
    at_every_level(|level| {
        let mut rng = rng(2);
        for dim in [1, 2, 3, 5, 8, 31, 64] {
            let (num, size) = (21, dim * (dim + 1) / 2);
            let packed = batch(&mut rng, num, dim);
            let (inverse, log_det) = invert(&packed, dim);
            for chunk in [1, 2, 5, 8, 13] {
                let parts: Vec<_> = packed.chunks(chunk * size).map(|part| invert(part, dim)).collect();
                let same = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits());
                let chunked: Vec<f64> = parts.iter().flat_map(|(inverse, _)| inverse).copied().collect();
                assert!(chunked.len() == inverse.len() && same(&chunked, &inverse), "{level} dim {dim} by {chunk}");
                let chunked: Vec<f64> = parts.iter().flat_map(|(_, log_det)| log_det).copied().collect();
                assert!(chunked.len() == num && same(&chunked, &log_det), "{level} dim {dim} by {chunk}");
            }
        }
    });
}

#[test]
fn the_first_failing_matrix_is_named_with_its_pivot() {
    at_every_level(|level| {
        let mut rng = rng(3);
        for dim in [1, 2, 4, 7, 20] {
            let (num, size) = (19, dim * (dim + 1) / 2);
            let good = batch(&mut rng, num, dim);
            let (expected, expected_log_det) = invert(&good, dim);
            for first in [0, 1, 5, 8, 18] {
                let mut packed = good.clone();
                // The first pivot fails, and a later matrix too.
                packed[first * size] = -2.5;
                packed[(num - 1) * size] = if first == num - 1 { -2.5 } else { 0.0 };
                let (mut inverse, mut log_det) = (vec![0.0; num * dim * dim], vec![0.0; num]);
                let result = invert_cholesky_batch(&packed, dim, &mut inverse, &mut log_det);
                assert_eq!(result, Err((first, -2.5)), "{level} dim {dim}");
                // Those before it are as if it were not there.
                assert_eq!(inverse[..first * dim * dim], expected[..first * dim * dim], "{level} dim {dim}");
                assert_eq!(log_det[..first], expected_log_det[..first], "{level} dim {dim}");
            }
            for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0] {
                let mut packed = good.clone();
                packed[7 * size + size - 1] = bad;
                let (mut inverse, mut log_det) = (vec![0.0; num * dim * dim], vec![0.0; num]);
                let result = invert_cholesky_batch(&packed, dim, &mut inverse, &mut log_det);
                let (index, pivot) = result.expect_err("the last pivot fails");
                assert_eq!(index, 7, "{level} dim {dim} {bad}");
                assert!(!pivot.is_finite() || pivot <= 0.0, "{level} dim {dim} {bad}: {pivot}");
            }
        }
    });
}

#[test]
fn an_empty_batch_is_fine() {
    assert_eq!(invert_cholesky_batch(&[], 3, &mut [], &mut []), Ok(()));
}

#[test]
fn large_matrices_can_be_left_undone() {
    let dim = 600;
    let packed: Vec<f64> = (0..dim).flat_map(|i| (0..=i).map(move |j| f64::from(u8::from(i == j)) * 4.0)).collect();
    let (mut inverse, mut log_det) = (vec![0.0; dim * dim], vec![0.0]);
    let asked = std::cell::Cell::new(0);
    let go_on = |most: usize| {
        asked.set(asked.get() + 1);
        asked.get() <= most
    };
    assert_eq!(invert_cholesky_batch_while(&packed, dim, &mut inverse, &mut log_det, &|| go_on(10)), Ok(false));
    assert_eq!(asked.get(), 11);
    assert_eq!(invert_cholesky_batch_while(&packed, dim, &mut inverse, &mut log_det, &|| true), Ok(true));
    assert!((log_det[0] - dim as f64 * 4f64.ln()).abs() < 1e-9 && (inverse[dim * dim - 1] - 0.5).abs() < 1e-15);
}
