//! Gaussians on badly scaled rows: training never ends in a covariance that is not positive definite, and rows held in
//! single precision give what they give in double precision.

use lsparse::data::{MemoryRows, RowSource};
use lsparse::increment::Increment;
use lsparse::likelihood::{Estimate, PriorShape};
use lsparse::settings::MixtureMethod;
use lsparse::synthetic::planted;
use lsparse::training::observe::Observer;
use lsparse::training::trace::StepInfo;
use lsparse::{
    Beside, Init, LikelihoodKind, MixtureConfig, MixtureInputs, MixtureModel, Precision, Result, fit_mixture,
    fit_mixture_with,
};
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
    for likelihood in FAMILIES.into_iter().filter(|family| family.family().has_means) {
        let score = |times: f32| {
            let (rows, others) = with_far_rows(times);
            let model = train(&rows, &MixtureConfig { likelihood, clusters: 8, ..Default::default() }, None);
            model.score(&others).unwrap().mean()
        };
        let near = score(1.0);
        for times in [1e4, 1e7] {
            // Up to three clusters are theirs, and what the others share is wider for having to do with less.
            let (far, loss) = (score(times), if likelihood == LikelihoodKind::TiedGauss { 4.0 } else { 2.0 });
            assert!(far > near - loss, "{likelihood:?}: {far} with rows {times} times as far, {near} without");
        }
    }
}

/// What planted columns are multiplied by, and what is added.
const UNITS: [(f64, f64); 4] = [(1e-4, 3.0), (1.0, -2.0), (50.0, 1e4), (2e3, 0.0)];

/// Planted clusters, and the same in columns of other units.
fn in_other_units(likelihood: LikelihoodKind, rows: usize) -> (MemoryRows<f64>, MemoryRows<f64>) {
    let values = planted(likelihood, rows, 4, 5, 3).values;
    let other = values.iter().enumerate().map(|(i, x)| x * UNITS[i % 4].0 + UNITS[i % 4].1).collect();
    (MemoryRows::new("planted", 4, values).unwrap(), MemoryRows::new("in other units", 4, other).unwrap())
}

/// The best cluster of every row.
fn labels(model: &MixtureModel, rows: &dyn RowSource) -> Vec<u32> {
    let mut labels = Vec::new();
    model
        .assign(rows, 1, &mut |clusters, _| {
            labels.extend(clusters);
            Ok(())
        })
        .unwrap();
    labels
}

fn assert_near(a: f64, b: f64, tolerance: f64, what: &str) {
    assert!((a - b).abs() <= tolerance * b.abs().max(1.0), "{what}: {a} and {b}");
}

/// Rows in any units give the same clusters under `standardize`, and all that is said of them is in those units.
#[test]
fn standardized_columns_may_be_in_any_units() {
    let log_scale: f64 = UNITS.iter().map(|unit| unit.0.ln()).sum();
    let methods = FAMILIES.map(|family| (family, MixtureMethod::Lsparse)).into_iter();
    for (likelihood, method) in methods.chain([(LikelihoodKind::DiagGauss, MixtureMethod::Kmeans)]) {
        if likelihood == LikelihoodKind::ZeroMeanGauss {
            continue; // Zero is somewhere else in other units.
        }
        let what = format!("{} {}", likelihood.name(), method.name());
        let (plain, other) = in_other_units(likelihood, 1500);
        let config = MixtureConfig {
            likelihood,
            method,
            clusters: 5,
            standardize: true,
            tolerance: None,
            laps: Some(6),
            ..Default::default()
        };
        let inputs = |rows| MixtureInputs { heldout: Some(rows), ..Default::default() };
        let fit = |rows| fit_mixture_with(rows, &config, inputs(rows), Beside::default()).unwrap();
        let (a, b) = (fit(&plain), fit(&other));
        assert_eq!(labels(&a.model, &plain), labels(&b.model, &other), "{what}");
        let heldout = |fitted: &lsparse::Fitted<MixtureModel>| fitted.outcome.heldout.unwrap();
        assert_near(heldout(&b), heldout(&a) - log_scale, 1e-6, &what);
        if method == MixtureMethod::Lsparse {
            let objective = |fitted: &lsparse::Fitted<MixtureModel>| fitted.outcome.objective.total();
            assert_near(objective(&b), objective(&a) - 1500.0 * log_scale, 1e-7, &what);
        }
        let (a, b) = (a.model, b.model);
        assert_near(b.score(&other).unwrap().mean(), a.score(&plain).unwrap().mean() - log_scale, 1e-6, &what);
        let (from, to) = (a.array("means").unwrap(), b.array("means").unwrap());
        for (i, (x, y)) in from.values.iter().zip(&to.values).enumerate() {
            let (scale, shift) = UNITS[i % 4];
            assert_near((y - shift) / scale, *x, 1e-6, &what);
        }
        let (x, y) = (a.sample(50, None, 1).unwrap(), b.sample(50, None, 1).unwrap());
        for (i, (x, y)) in x.values.iter().zip(&y.values).enumerate() {
            assert_near((y - UNITS[i % 4].1) / UNITS[i % 4].0, *x, 1e-6, &what);
        }
        // Files, going on and new rows have the units too.
        let path = std::path::Path::new("bytes");
        let again = MixtureModel::from_bytes(path, &b.to_bytes().unwrap()).unwrap();
        assert_eq!(again, b, "{what}");
        let start = MixtureInputs { start: Some(&again), ..Default::default() };
        let further = fit_mixture_with(&other, &config, start.clone(), Beside::default()).unwrap().model;
        assert_eq!(further.units, b.units, "{what}");
        let without = MixtureConfig { standardize: false, ..config.clone() };
        let refused = fit_mixture_with(&other, &without, start, Beside::default()).err().unwrap().to_string();
        assert!(refused.contains("`standardize`"), "{refused}");
        if method == MixtureMethod::Lsparse {
            let more = b.update(&other, None, Increment::Add).unwrap();
            assert_near(more.score(&other).unwrap().mean(), b.score(&other).unwrap().mean(), 0.05, &what);
        }
    }
}

/// The priors of these families are in units of the columns already: the objective, too, is that of the rows as they are.
#[test]
fn the_objective_is_in_the_units_of_the_data() {
    for likelihood in
        [LikelihoodKind::Gauss, LikelihoodKind::DiagGauss, LikelihoodKind::TiedGauss, LikelihoodKind::ZeroMeanGauss]
    {
        let (_, rows) = in_other_units(likelihood, 1000);
        let config = |standardize| MixtureConfig {
            likelihood,
            standardize,
            clusters: 5,
            init: Init::Bregman,
            tolerance: None,
            laps: Some(4),
            ..Default::default()
        };
        let [with, without] = [true, false].map(|standardize| fit_mixture(&rows, &config(standardize)).unwrap().model);
        assert!(with.units.is_some() && without.units.is_none());
        assert_near(with.training.objective, without.training.objective, 1e-6, likelihood.name());
        for (a, b) in with.arrays.iter().zip(&without.arrays) {
            assert!(
                a.values.iter().zip(&b.values).all(|(a, b)| (a - b).abs() <= 1e-6 * b.abs().max(1e-9)),
                "{}",
                a.name
            );
        }
    }
}

/// log sum_k pi_k N(x | mean, diagonal) by the arrays that a file holds is the score, whatever the units of training.
#[test]
fn the_arrays_of_a_standardized_model_are_its_densities() {
    let (_, rows) = in_other_units(LikelihoodKind::SphericalGauss, 600);
    let mut values = lsparse::data::Rows::<f64>::dense(4);
    rows.read_f64(0, 600, &mut values).unwrap();
    let kmeans = MixtureConfig { method: MixtureMethod::Kmeans, clusters: 5, ..Default::default() };
    let estimate = Estimate::MaxLikelihood;
    let spherical =
        MixtureConfig { likelihood: LikelihoodKind::SphericalGauss, estimate, clusters: 5, ..Default::default() };
    for config in [kmeans, spherical] {
        let model = fit_mixture(&rows, &MixtureConfig { standardize: true, ..config }).unwrap().model;
        let (means, variances) = (model.array("means").unwrap(), model.array("variances").unwrap());
        assert_eq!(variances.shape, [5, 4]);
        let scores = model.score(&rows).unwrap().log_density;
        for (row, score) in values.as_dense().unwrap().chunks_exact(4).zip(scores) {
            let of_cluster = |k: usize| {
                let columns = means.values[4 * k..4 * k + 4].iter().zip(&variances.values[4 * k..4 * k + 4]);
                let log_density = row
                    .iter()
                    .zip(columns)
                    .map(|(x, (m, v))| -0.5 * ((x - m).powi(2) / v + v.ln() + std::f64::consts::TAU.ln()));
                model.weights[k] * log_density.sum::<f64>().exp()
            };
            assert_near(score, (0..5).map(of_cluster).sum::<f64>().ln(), 1e-6, "log density");
        }
    }
}

#[derive(Default)]
struct Remarks(Vec<String>);

impl Observer for Remarks {
    fn remark(&mut self, text: &str) {
        self.0.push(text.to_owned());
    }

    fn step(&mut self, _info: &StepInfo) -> Result<()> {
        Ok(())
    }
}

/// Scales that are far apart are mentioned where they matter, and where `standardize` helps.
#[test]
fn scales_far_apart_are_said_where_they_matter() {
    let said = |config: MixtureConfig, rows: &dyn RowSource| {
        let mut remarks = Remarks::default();
        let beside = Beside { observer: Some(&mut remarks), ..Default::default() };
        let config = MixtureConfig { clusters: 5, laps: Some(2), ..config };
        fit_mixture_with(rows, &config, MixtureInputs::default(), beside).unwrap();
        remarks.0.join("\n")
    };
    let (plain, other) = in_other_units(LikelihoodKind::SphericalGauss, 600);
    let default = MixtureConfig::default;
    let spherical = MixtureConfig { likelihood: LikelihoodKind::SphericalGauss, ..default() };
    let kmeans = MixtureConfig { method: MixtureMethod::Kmeans, ..default() };
    let isotropic = MixtureConfig { prior_shape: PriorShape::Isotropic, ..default() };
    let seeded = MixtureConfig { init: Init::Kmeans, ..default() };
    for config in [spherical.clone(), kmeans, isotropic, seeded] {
        let text = said(config.clone(), &other);
        assert!(
            text.contains("column 4 spreads") && text.contains("column 1") && text.contains("`standardize`"),
            "{text}"
        );
        assert_eq!(said(config.clone(), &plain), "");
        assert_eq!(said(MixtureConfig { standardize: true, ..config }, &other), "");
    }
    assert_eq!(said(default(), &other), "");
    assert_eq!(said(MixtureConfig { likelihood: LikelihoodKind::DiagGauss, ..default() }, &other), "");
}

#[test]
fn columns_without_units_are_not_standardized() {
    let rows = MemoryRows::new("ones", 2, vec![1.0; 20]).unwrap();
    let config = MixtureConfig { clusters: 2, standardize: true, ..Default::default() };
    for (config, word) in [
        (MixtureConfig { likelihood: LikelihoodKind::Poisson, ..config.clone() }, "no units"),
        (MixtureConfig { missing: true, ..config.clone() }, "`missing`"),
    ] {
        let error = fit_mixture(&rows, &config).err().unwrap().to_string();
        assert!(error.contains("standardize") && error.contains(word), "{error}");
    }
    // A column that never varies is no trouble.
    let model = fit_mixture(&rows, &config).unwrap().model;
    assert_eq!(model.units.unwrap().scale, [1.0, 1.0]);
}

/// A value that rounding would let nothing else count beside is refused where all clusters share a covariance.
#[test]
fn a_value_too_far_for_a_covariance_of_all_is_refused() {
    let fit = |far: f64| {
        let mut truth = planted(LikelihoodKind::TiedGauss, 1000, 4, 5, 1);
        truth.values[70] = far;
        let source = MemoryRows::new("far", 4, truth.values).unwrap();
        let config = MixtureConfig { likelihood: LikelihoodKind::TiedGauss, clusters: 6, ..Default::default() };
        fit_mixture(&source, &config)
    };
    assert!(fit(1e7).is_ok());
    let text = fit(1e11).err().unwrap().to_string();
    assert!(text.contains("cannot hold values as far from the others") && text.contains("drop the rows"), "{text}");
}
