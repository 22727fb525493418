//! Gaussians on badly scaled rows: training never ends in a covariance that is not positive definite, and rows held in
//! single precision give what they give in double precision.

use lsparse::data::MemoryRows;
use lsparse::likelihood::{Estimate, PriorShape};
use lsparse::{Beside, LikelihoodKind, MixtureConfig, MixtureInputs, MixtureModel, Precision, fit_mixture_with};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const FAMILIES: [LikelihoodKind; 5] = [
    LikelihoodKind::Gauss,
    LikelihoodKind::DiagGauss,
    LikelihoodKind::ZeroMeanGauss,
    LikelihoodKind::SphericalGauss,
    LikelihoodKind::TiedGauss,
];

fn normal(rng: &mut ChaCha8Rng) -> f64 {
    (-2.0 * (1.0 - rng.random::<f64>()).ln()).sqrt() * (std::f64::consts::TAU * rng.random::<f64>()).cos()
}

/// Three clusters in columns of scale 1e-4 to 1e4, each 1,000 standard deviations away from zero, then a column that is
/// constant and one that repeats the first.
fn columns_of_many_scales(rows: usize) -> (usize, Vec<f32>) {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut values = Vec::new();
    for n in 0..rows {
        let shared = normal(&mut rng);
        let row: Vec<f32> = (0..9)
            .map(|d| {
                let mean = [0.0, 8.0, -8.0][n % 3] * if d % 2 == 0 { 1.0 } else { -0.5 };
                (10f64.powi(d - 4) * (1000.0 + mean + 0.6 * shared + 0.8 * normal(&mut rng))) as f32
            })
            .collect();
        values.extend(&row);
        values.extend([7.3, row[0]]);
    }
    (11, values)
}

/// Rows with a single one: columns that sum to one, and clusters without any scatter.
fn one_hot(rows: usize) -> (usize, Vec<f32>) {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let mut values = vec![0.0; 12 * rows];
    for row in values.chunks_exact_mut(12) {
        row[(12.0 * rng.random::<f64>().powi(2)) as usize] = 1.0;
    }
    (12, values)
}

/// Strokes on 10 x 10 pixels from 0 to 1 whose border is always black.
fn pixels(rows: usize) -> (usize, Vec<f32>) {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let mut values = Vec::new();
    for n in 0..rows {
        let (slope, at) = ([0.0, 1.0, -1.0, 0.4][n % 4], 4.5 + 0.7 * normal(&mut rng));
        for pixel in 0..100 {
            let (i, j) = ((pixel / 10) as f64, (pixel % 10) as f64);
            let border = pixel / 10 % 9 == 0 || pixel % 10 % 9 == 0;
            let distance = j - at - slope * (i - 4.5);
            let ink = (-0.7 * distance * distance).exp();
            values.push(if border || ink < 0.05 { 0.0 } else { ((255.0 * ink) as u8) as f32 / 255.0 });
        }
    }
    (100, values)
}

fn config(likelihood: LikelihoodKind, estimate: Estimate, clusters: usize) -> MixtureConfig {
    MixtureConfig {
        likelihood,
        estimate,
        clusters,
        prior_scale: Some(1e-4),
        tolerance: None,
        laps: Some(5),
        ..Default::default()
    }
}

fn train(rows: &MemoryRows<f32>, config: &MixtureConfig, start: Option<&MixtureModel>) -> MixtureModel {
    let inputs = MixtureInputs { start, ..Default::default() };
    let what = format!("{} {:?} {:?}", config.likelihood.name(), config.estimate, config.precision);
    fit_mixture_with(rows, config, inputs, Beside::default()).unwrap_or_else(|error| panic!("{what}: {error}")).model
}

/// The largest difference of two arrays, each entry in units of its own scale.
fn largest_difference(a: &[f64], b: &[f64], scale: impl Fn(usize) -> f64) -> f64 {
    a.iter().zip(b).enumerate().map(|(i, (a, b))| (a - b).abs() / scale(i)).fold(0.0, f64::max)
}

/// The bounds: from the same start, after five laps in single and in double precision,
/// - means differ by less than 1e-4 standard deviations of their cluster,
/// - covariances by less than 1e-4 of the standard deviations of their two columns in that cluster,
/// - the objective by less than 1e-7 of itself, the mean score by less than 1e-4.
fn assert_alike(name: &str, (dim, values): (usize, Vec<f32>), clusters: usize) {
    let rows = MemoryRows::new(name, dim, values).unwrap();
    for likelihood in FAMILIES {
        for estimate in [Estimate::Posterior, Estimate::Map, Estimate::MaxLikelihood] {
            let settings = config(likelihood, estimate, clusters);
            let in_double = MixtureConfig { precision: Precision::F64, ..settings.clone() };
            let start = train(&rows, &MixtureConfig { laps: Some(3), ..in_double.clone() }, None);
            let (single, double) = (train(&rows, &settings, Some(&start)), train(&rows, &in_double, Some(&start)));
            let what = format!("{name}, {} {estimate:?}", likelihood.name());
            let spread = |k: usize, d: usize| match double.array("covariances") {
                // One for all clusters, and one for all columns, where the families have it so.
                Some(array) => array.values[((array.shape.len() - 2) * k * dim + d) * dim + d].sqrt(),
                None => {
                    let array = double.array("variances").unwrap();
                    array.values[if array.shape.len() == 1 { k } else { k * dim + d }].sqrt()
                }
            };
            for (ours, theirs) in single.arrays.iter().zip(&double.arrays) {
                let difference = match ours.name {
                    "means" => largest_difference(&ours.values, &theirs.values, |i| spread(i / dim, i % dim)),
                    "variances" => largest_difference(&ours.values, &theirs.values, |i| theirs.values[i]),
                    "covariances" => largest_difference(&ours.values, &theirs.values, |i| {
                        let k = i / (dim * dim);
                        spread(k, i / dim % dim) * spread(k, i % dim)
                    }),
                    _ => continue,
                };
                assert!(difference < 1e-4, "{what}: {} differ by {difference}", ours.name);
            }
            let (a, b) = (single.training.objective, double.training.objective);
            assert!((a - b).abs() < 1e-7 * b.abs(), "{what}: objective {a} against {b}");
            let (a, b) = (single.score(&rows).unwrap().mean(), double.score(&rows).unwrap().mean());
            assert!((a - b).abs() < 1e-4, "{what}: score {a} against {b}");
        }
    }
}

#[test]
fn columns_of_any_scale_far_from_zero() {
    assert_alike("many scales", columns_of_many_scales(3000), 3);
}

#[test]
fn many_rows_of_columns_of_any_scale() {
    let (dim, values) = columns_of_many_scales(200_000);
    let rows = MemoryRows::new("many rows", dim, values).unwrap();
    for shape in [PriorShape::Columns, PriorShape::Isotropic] {
        let settings = MixtureConfig {
            laps: Some(2),
            prior_shape: shape,
            ..config(LikelihoodKind::Gauss, Estimate::Posterior, 4)
        };
        train(&rows, &settings, None);
    }
}

#[test]
fn columns_that_sum_to_one() {
    assert_alike("one-hot", one_hot(4000), 4);
}

#[test]
fn pixels_with_constant_columns() {
    assert_alike("pixels", pixels(2000), 4);
}

/// Rows of eight clusters, and the same number of others; with three of the first `times` as far from zero.
fn with_far_rows(times: f32) -> (MemoryRows<f32>, MemoryRows<f32>) {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let means: Vec<f64> = (0..8 * 6).map(|_| 4.0 * normal(&mut rng)).collect();
    let mut draw =
        || -> Vec<f32> { (0..1000 * 6).map(|i| (means[i / 6 % 8 * 6 + i % 6] + normal(&mut rng)) as f32).collect() };
    let (mut train, others) = (draw(), draw());
    for row in [5, 300, 700] {
        train[row * 6..(row + 1) * 6].iter_mut().for_each(|x| *x *= times);
    }
    (MemoryRows::new("rows", 6, train).unwrap(), MemoryRows::new("others", 6, others).unwrap())
}

#[test]
fn a_few_far_rows_do_not_set_the_scale() {
    for likelihood in [LikelihoodKind::Gauss, LikelihoodKind::DiagGauss, LikelihoodKind::SphericalGauss] {
        let score = |times: f32| {
            let (rows, others) = with_far_rows(times);
            let model = train(&rows, &MixtureConfig { likelihood, clusters: 8, ..Default::default() }, None);
            model.score(&others).unwrap().mean()
        };
        let near = score(1.0);
        for times in [1e4, 1e7] {
            // Up to three clusters are theirs.
            let far = score(times);
            assert!(far > near - 2.0, "{likelihood:?}: {far} with rows {times} times as far, {near} without");
        }
    }
}
