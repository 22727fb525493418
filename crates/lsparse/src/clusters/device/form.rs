//! Rows and clusters as a GPU takes them, and statistics as it gives them.

use lsparse_cuda::mixture::{By, Form, Whitening, Work};
use lsparse_kernels::Real;
use rayon::prelude::*;

use super::form_of;
use crate::data::Rows;
use crate::likelihood::{ClusterSummary, Clusters, Likelihood, LikelihoodKind};
use crate::math::linalg;

/// Rows that the whitening is found from.
const WHITENING_ROWS: usize = 8192;

/// Rows that the width of columns is found from where clusters turn them.
const TURNED_ROWS: usize = 256;

/// What makes some rows about as wide in all directions, or columns where clusters have no other directions. Where it is a
/// poor choice clusters are ruled out less well, and nothing else.
pub(crate) fn whitening<T: Real>(kind: LikelihoodKind, values: &[T], center: &[f64]) -> Whitening {
    let by = match form_of(kind) {
        Some(form @ Form::Triangular) if !form.is_screened(center.len()) => By::Nothing,
        Some(Form::Triangular) => whitening_factor(values, center),
        Some(Form::Turned) => By::Clusters,
        _ => By::Scales(scales(values, center)),
    };
    Whitening { center: center.to_vec(), by }
}

/// One over the width of each column; of one that never varies that of all.
fn scales<T: Real>(values: &[T], center: &[f64]) -> Vec<f64> {
    let dim = center.len();
    let mut squares = vec![0.0; dim];
    for row in values.chunks_exact(dim).take(WHITENING_ROWS) {
        squares.iter_mut().zip(row).zip(center).for_each(|((sum, x), c)| *sum += (x.to_f64() - c).powi(2));
    }
    let num = (values.len() / dim).clamp(1, WHITENING_ROWS) as f64;
    let average = squares.iter().sum::<f64>() / dim as f64;
    let average = if average > 0.0 && average.is_finite() { average } else { num };
    squares.iter().map(|square| (square.max(1e-9 * average) / num).sqrt().recip()).collect()
}

/// The inverse of a Cholesky factor of the covariance of rows about the center.
fn whitening_factor<T: Real>(values: &[T], center: &[f64]) -> By {
    let dim = center.len();
    let num = (values.len() / dim.max(1)).min(WHITENING_ROWS);
    let rows: Vec<f64> = values[..num * dim].iter().enumerate().map(|(i, x)| x.to_f64() - center[i % dim]).collect();
    let num = num.max(1) as f64;
    let mut second = vec![0.0; dim * dim];
    second.par_chunks_exact_mut(dim).enumerate().for_each(|(i, second)| {
        for y in rows.chunks_exact(dim) {
            let share = y[i] / num;
            second[..=i].iter_mut().zip(y).for_each(|(sum, y)| *sum += share * y);
        }
    });
    let average = (0..dim).map(|d| second[d * dim + d]).sum::<f64>() / dim as f64;
    let average = if average > 0.0 && average.is_finite() { average } else { 1.0 };
    // A column that is a sum of others, or never varies, has next to no width of its own.
    for d in 0..dim {
        second[d * dim + d] = second[d * dim + d].max(1e-9 * average) * (1.0 + 1e-6);
    }
    if linalg::cholesky_in_place(&mut second, dim).is_err() || second.iter().any(|v| !v.is_finite()) {
        second.fill(0.0);
        (0..dim).for_each(|d| second[d * dim + d] = average.sqrt());
    }
    for i in 0..dim {
        second[i * dim + i + 1..(i + 1) * dim].fill(0.0);
    }
    By::Factor { factor: linalg::invert_lower(&second, dim), inverse: second }
}

/// Some rows about the center, to see how wide columns are when they are turned.
pub(crate) fn sample<T: Real>(values: &[T], center: &[f64]) -> Vec<f64> {
    let dim = center.len();
    let num = (values.len() / dim.max(1)).max(1);
    let rows = values.chunks_exact(dim).step_by(num.div_ceil(TURNED_ROWS));
    rows.flat_map(|row| row.iter().zip(center).map(|(x, c)| x.to_f64() - c)).collect()
}

/// Put clusters where the GPU takes them from, each with the constant that `constant` makes of its own; they are then to be
/// [set](Work::set_clusters). `sample` is needed where clusters turn rows.
pub(crate) fn stage<T: Real>(
    work: &mut Work,
    clusters: &dyn Clusters<T>,
    sample: &[f64],
    constant: impl Fn(usize, f64) -> f64 + Sync,
) -> lsparse_cuda::Result<()> {
    let num = clusters.num_clusters();
    let shared = clusters.shared_form();
    let (forms, means, constants) = work.stage(num)?;
    let (size, dim) = ((forms.len() / num).max(1), (means.len() / num).max(1));
    let places = forms.par_chunks_mut(size).zip(means.par_chunks_mut(dim)).zip(constants);
    places.enumerate().for_each(|(k, ((form, mean), of_k))| {
        mean.fill(0.0);
        let copy = |from: &[T], to: &mut [f64]| to.iter_mut().zip(from).for_each(|(to, from)| *to = from.to_f64());
        if let Some(shared) = &shared {
            form.fill(1.0);
            turn(shared.factor, &shared.means[k * dim..(k + 1) * dim], mean);
            *of_k = constant(k, shared.constants[k].to_f64());
        } else if let Some(quadratic) = clusters.quadratic(k) {
            linalg::pack(quadratic.factor, dim, form);
            copy(quadratic.mean, mean);
            *of_k = constant(k, quadratic.constant.to_f64());
        } else if let Some(diagonal) = clusters.diagonal(k) {
            copy(diagonal.precision, form);
            copy(diagonal.mean, mean);
            *of_k = constant(k, diagonal.constant.to_f64());
        }
    });
    if let Some(shared) = shared {
        let mut turned = vec![0.0; sample.len()];
        let rows = turned.par_chunks_exact_mut(dim).zip(sample.par_chunks_exact(dim));
        rows.for_each(|(turned, row)| turn(shared.factor, row, turned));
        work.set_turn(shared.factor, &scales(&turned, &vec![0.0; dim]))?;
    }
    Ok(())
}

/// M y with a lower-triangular M, row by row.
fn turn(factor: &[f64], y: &[f64], out: &mut [f64]) {
    for (i, (row, out)) in factor.chunks_exact(y.len()).zip(out).enumerate() {
        *out = row[..=i].iter().zip(y).map(|(m, y)| m * y).sum();
    }
}

/// Statistics as the family has them, from sums a cluster and what all clusters share.
pub(crate) fn take_statistics<T: Real>(
    likelihood: &dyn Likelihood<T>,
    sums: &[f64],
    shared: &[f64],
    summary: &mut ClusterSummary,
) {
    let (dim, Some(of_moments)) = (likelihood.dim(), likelihood.kind().family().of_moments) else { return };
    let num = summary.counts.len();
    let width = (sums.len() / num.max(1)).max(1);
    let (stats, of_all) = summary.stats.split_at_mut(num * summary.width);
    let places = summary.counts.par_iter_mut().zip(stats.par_chunks_mut(summary.width));
    places.zip(sums.par_chunks(width)).for_each(|((count, stat), sums)| {
        *count = sums[0];
        of_moments.write(&sums[1..1 + dim], &sums[1 + dim..], stat);
    });
    of_all.copy_from_slice(shared);
}

/// Add what statistics of rows do not depend on their clusters; `weights` are one a row, or none where all are one.
pub(crate) fn add_shared<T: Real>(likelihood: &dyn Likelihood<T>, rows: &Rows<T>, weights: &[f64], sums: &mut [f64]) {
    if sums.is_empty() {
        return;
    }
    let all: Vec<u32> = (0..rows.len() as u32).collect();
    let ones = vec![1.0; if weights.is_empty() { all.len() } else { 0 }];
    likelihood.accumulate_shared(rows, &all, if weights.is_empty() { &ones } else { weights }, sums);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::likelihood::{Prior, Scratch};

    #[test]
    fn moments_become_the_statistics_of_every_family() {
        let dim = 4;
        let rows: Vec<f64> = (0..40).map(|n| f64::from(n * n % 23) - 7.0).collect();
        let share: Vec<f64> = (0..10).map(|n| 0.1 + 0.05 * f64::from(n)).collect();
        let mut held = Rows::<f64>::dense(dim);
        rows.chunks_exact(dim).for_each(|row| held.push_dense(row));
        let members: Vec<u32> = (0..10).collect();
        let center = [1.0, -2.0, 0.5, 3.0];
        for kind in LikelihoodKind::ALL.into_iter().filter(|kind| kind.family().of_moments.is_some()) {
            let about = if kind.family().has_means { center } else { [0.0; 4] };
            let form = form_of(kind).unwrap();
            let mut sums = vec![0.0; form.width(dim)];
            for (row, r) in rows.chunks_exact(dim).zip(&share) {
                let y: Vec<f64> = row.iter().zip(about).map(|(x, c)| x - c).collect();
                sums[0] += r;
                for i in 0..dim {
                    sums[1 + i] += r * y[i];
                    match form {
                        Form::Triangular => {
                            (0..=i).for_each(|j| sums[1 + dim + linalg::packed_len(i) + j] += r * y[i] * y[j]);
                        }
                        Form::Columns | Form::Turned => sums[1 + dim + i] += r * y[i] * y[i],
                    }
                }
            }
            let prior = Prior {
                dim,
                lambda: 0.1,
                nu: 7.0,
                kappa: 0.1,
                variance: vec![1.0; dim],
                variance_floor: vec![1e-6; dim],
                missing: false,
                own_variance: Vec::new(),
                column_means: Vec::new(),
                center: about.to_vec(),
            };
            let likelihood = kind.build::<f64>(&prior);
            let (mut found, mut expected) = (likelihood.no_statistics(1), likelihood.no_statistics(1));
            let (own, shared) = expected.stats.split_at_mut(likelihood.stat_width());
            likelihood.accumulate(&held, &members, &share, &mut Scratch::default(), own);
            likelihood.accumulate_shared(&held, &members, &share, shared);
            take_statistics(likelihood.as_ref(), &sums, shared, &mut found);
            expected.counts[0] = share.iter().sum();
            for (a, b) in found.stats.iter().zip(&expected.stats).chain(found.counts.iter().zip(&expected.counts)) {
                assert!((a - b).abs() < 1e-9 * b.abs().max(1.0), "{}: {a} instead of {b}", kind.name());
            }
        }
    }

    fn scales_of_nothing() -> Vec<f64> {
        scales(&[5.0f32; 30], &[5.0; 3])
    }

    #[test]
    fn rows_are_whitened() {
        let dim = 3;
        let rows: Vec<f64> =
            (0..300).map(|n| f64::from(n * n % 17) * [1.0, 100.0, 0.01][n as usize % 3] + 5.0).collect();
        let center = [5.0; 3];
        let full = |rows: &[f64]| match whitening(LikelihoodKind::Gauss, rows, &center).by {
            By::Factor { factor, inverse } => (factor, inverse),
            By::Scales(_) | By::Clusters | By::Nothing => panic!("columns are not alone"),
        };
        let (factor, inverse) = full(&rows);
        let mut second = [0.0; 9];
        for row in rows.chunks_exact(dim) {
            let z = |i: usize| -> f64 { (0..=i).map(|j| factor[i * dim + j] * (row[j] - center[j])).sum() };
            (0..9).for_each(|at| second[at] += z(at / 3) * z(at % 3) / 100.0);
        }
        for at in 0..9 {
            let expected = if at / 3 == at % 3 { 1.0 } else { 0.0 };
            assert!((second[at] - expected).abs() < 1e-4, "{second:?}");
            let product: f64 = (0..3).map(|l| factor[at / 3 * 3 + l] * inverse[l * 3 + at % 3]).sum();
            assert!((product - expected).abs() < 1e-12);
        }
        // Rows that are all alike have no width; a basis is found all the same.
        let (factor, _) = full(&[5.0; 30]);
        assert!(factor.iter().all(|v| v.is_finite()) && factor[0] > 0.0);
        // Column by column, one of which never varies.
        let mut rows = rows;
        rows.iter_mut().skip(2).step_by(3).for_each(|x| *x = 5.0);
        let By::Scales(scales) = whitening(LikelihoodKind::DiagGauss, &rows, &center).by else { panic!("not alone") };
        for (d, scale) in scales.iter().enumerate() {
            let square: f64 = rows[d..].iter().step_by(3).map(|x| (scale * (x - 5.0)).powi(2)).sum();
            let expected = if d == 2 { 0.0 } else { 100.0 };
            assert!((square - expected).abs() < 1e-6 && scale.is_finite(), "{scales:?}");
        }
        assert!(scales_of_nothing().iter().all(|scale| scale.is_finite() && *scale > 0.0));
    }
}
