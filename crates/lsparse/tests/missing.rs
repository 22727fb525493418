//! Rows with missing values: weights against numerical integration, an exact and monotone objective, and what is gained.

use lsparse::backend::with_threads;
use lsparse::data::{CsrRows, MemoryRows, Moments, RowSource, Rows};
use lsparse::increment::Increment;
use lsparse::likelihood::{Clusters, Estimate, Likelihood, LikelihoodKind, NamedArray, Prior, Scratch};
use lsparse::settings::{Init, SearchKind};
use lsparse::synthetic::planted;
use lsparse::training::observe::Observer;
use lsparse::training::trace::StepInfo;
use lsparse::{
    Beside, Fitted, MixtureConfig, MixtureInputs, MixtureModel, ScheduleKind, Sparsity, fit_mixture, fit_mixture_with,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const FAMILIES: [LikelihoodKind; 2] = [LikelihoodKind::Gauss, LikelihoodKind::DiagGauss];
const ESTIMATES: [Estimate; 3] = [Estimate::Posterior, Estimate::Map, Estimate::MaxLikelihood];
const NAN: f64 = f64::NAN;

fn close(a: f64, b: f64, tolerance: f64, what: &str) {
    assert!((a - b).abs() <= tolerance * b.abs().max(1.0), "{what}: {a} against {b}");
}

fn prior(likelihood: LikelihoodKind, dim: usize, missing: bool) -> Prior {
    let moments = Moments {
        count: 10,
        mean: vec![0.3; dim],
        variance: vec![1.3; dim],
        second_moment: vec![1.3; dim],
        present: vec![10; dim],
        ..Moments::unknown(dim)
    };
    let config = MixtureConfig {
        likelihood,
        missing,
        nu: Some(7.0),
        kappa: Some(0.4),
        prior_scale: Some(0.9),
        ..Default::default()
    };
    Prior::for_data(&config, &moments)
}

fn block(dim: usize, values: &[f64]) -> Rows<f64> {
    let mut rows = Rows::dense(dim);
    rows.push_dense(values);
    rows
}

/// Two clusters of complete rows.
fn clusters(family: &dyn Likelihood<f64>, estimate: Estimate, dim: usize) -> Box<dyn Clusters<f64>> {
    let mut rng = ChaCha8Rng::seed_from_u64(4);
    let rows = block(dim, &(0..16 * dim).map(|_| 3.0 * rng.random::<f64>() - 1.0).collect::<Vec<f64>>());
    let mut total = family.no_statistics(2);
    for k in 0..2 {
        let members: Vec<u32> = (8 * k..8 * k + 8).collect();
        let stat = &mut total.stats[k as usize * family.stat_width()..(k as usize + 1) * family.stat_width()];
        family.accumulate(&rows, &members, &[1.0; 8], &mut Scratch::default(), stat);
    }
    family.global_step(estimate, &[8.0, 8.0], &total.stats, None).unwrap()
}

fn log_lik(clusters: &dyn Clusters<f64>, dim: usize, row: &[f64]) -> Vec<f64> {
    let mut out = vec![0.0; clusters.num_clusters()];
    clusters.add_log_lik(&block(dim, row), 0..1, &mut Scratch::default(), &mut out);
    out
}

/// log of the integral of exp(f) over two numbers.
fn log_integral(f: impl Fn(f64, f64) -> f64) -> f64 {
    let (reach, steps) = (25.0, 500);
    let at = |i: usize| -reach + 2.0 * reach * i as f64 / steps as f64;
    let sum: f64 = (0..=steps).flat_map(|i| (0..=steps).map(move |j| (i, j))).map(|(i, j)| f(at(i), at(j)).exp()).sum();
    (sum * (2.0 * reach / steps as f64).powi(2)).ln()
}

/// The weight of a row with holes is the integral over what is missing.
#[test]
fn a_missing_value_is_integrated_out() {
    for kind in FAMILIES {
        let family = kind.build::<f64>(&prior(kind, 4, true));
        for estimate in ESTIMATES {
            // The diagonal posterior is that of the columns that are there: below.
            if (kind, estimate) == (LikelihoodKind::DiagGauss, Estimate::Posterior) {
                continue;
            }
            let clusters = clusters(family.as_ref(), estimate, 4);
            let found = log_lik(clusters.as_ref(), 4, &[0.4, NAN, -0.6, NAN]);
            for (k, found) in found.into_iter().enumerate() {
                let at = |a: f64, b: f64| log_lik(clusters.as_ref(), 4, &[0.4, a, -0.6, b])[k];
                close(found, log_integral(at), 1e-6, &format!("{} {estimate:?} {k}", kind.name()));
            }
        }
    }
}

/// The same for the predictive that a posterior scores by.
#[test]
fn a_missing_value_is_integrated_out_of_the_predictive() {
    for kind in FAMILIES {
        let family = kind.build::<f64>(&prior(kind, 4, true));
        let posterior = clusters(family.as_ref(), Estimate::Posterior, 4);
        let scored = family.clusters_of(&posterior.arrays()).unwrap();
        let density = |row: &[f64]| {
            let mut out = vec![0.0; 2];
            scored.add_log_predictive(&block(4, row), 0..1, &mut Scratch::default(), &mut out);
            out
        };
        for (k, found) in density(&[0.4, NAN, -0.6, NAN]).into_iter().enumerate() {
            let at = |a: f64, b: f64| density(&[0.4, a, -0.6, b])[k];
            close(found, log_integral(at), 1e-5, &format!("{} {k}", kind.name()));
        }
        density(&[NAN; 4]).into_iter().for_each(|log| close(log, 0.0, 1e-12, "nothing there"));
    }
}

/// Columns of a diagonal Gaussian have nothing to do with each other: weights and evidence are those of the columns that
/// are there, one by one.
#[test]
fn a_diagonal_gaussian_is_that_of_the_columns_that_are_there() {
    let kind = LikelihoodKind::DiagGauss;
    let rows = [[0.4, NAN], [1.7, -0.3], [NAN, 0.8], [-0.2, 1.1], [NAN, NAN]];
    let family = kind.build::<f64>(&prior(kind, 2, true));
    let mut stat = family.no_statistics(1).stats;
    family.accumulate(&block(2, &rows.concat()), &[0, 1, 2, 3, 4], &[1.0; 5], &mut Scratch::default(), &mut stat);
    for estimate in ESTIMATES {
        let whole = family.global_step(estimate, &[5.0], &stat, None).unwrap();
        let mut evidence = 0.0;
        let mut weight = 0.0;
        for d in 0..2 {
            let seen: Vec<f64> = rows.iter().map(|row| row[d]).filter(|x| !x.is_nan()).collect();
            let alone = kind.build::<f64>(&prior(kind, 1, false));
            let mut stat = alone.no_statistics(1).stats;
            let members: Vec<u32> = (0..seen.len() as u32).collect();
            alone.accumulate(&block(1, &seen), &members, &vec![1.0; seen.len()], &mut Scratch::default(), &mut stat);
            let column = alone.global_step(estimate, &[seen.len() as f64], &stat, None).unwrap();
            evidence += column.own_data_term();
            let at = if d == 0 { 0.9 } else { NAN };
            if !at.is_nan() {
                weight += log_lik(column.as_ref(), 1, &[at])[0];
            }
        }
        close(whole.own_data_term(), evidence, 1e-12, "evidence");
        close(log_lik(whole.as_ref(), 2, &[0.9, NAN])[0], weight, 1e-12, "weight");
        close(log_lik(whole.as_ref(), 2, &[NAN, NAN])[0], 0.0, 1e-12, "nothing there");
        if estimate == Estimate::Posterior {
            // What a row adds to the evidence is its predictive, whatever it lacks and whatever other rows lacked.
            for row in [[0.9, NAN], [-1.2, 0.1]] {
                let mut with = stat.clone();
                family.accumulate(&block(2, &row), &[0], &[1.0], &mut Scratch::default(), &mut with);
                let with = family.global_step(estimate, &[6.0], &with, None).unwrap();
                let mut found = [0.0];
                let scored = family.clusters_of(&whole.arrays()).unwrap();
                scored.add_log_predictive(&block(2, &row), 0..1, &mut Scratch::default(), &mut found);
                close(found[0], with.own_data_term() - whole.own_data_term(), 1e-9, "predictive");
            }
        }
    }
}

/// A column that rows lack has the better of two priors, cluster by cluster: that of all clusters, or one in the column's own
/// variance, half of it for the cluster's mean; the latter where the cluster has seen nothing.
#[test]
fn a_column_that_rows_lack_has_the_better_of_two_priors() {
    let kind = LikelihoodKind::DiagGauss;
    let narrow = Prior { variance: vec![0.01 * 1.3], ..prior(kind, 1, true) };
    let both = Prior { own_variance: vec![1.3], ..narrow.clone() };
    let own = Prior { variance: vec![0.5 * 1.3], kappa: 1.0, ..narrow.clone() };
    let [narrow, both, own] = [narrow, both, own].map(|prior| kind.build::<f64>(&prior));
    let step = |family: &dyn Likelihood<f64>, values: &[f64]| {
        let mut stat = family.no_statistics(1).stats;
        let members: Vec<u32> = (0..values.len() as u32).collect();
        let rows = block(1, values);
        family.accumulate(&rows, &members, &vec![1.0; values.len()], &mut Scratch::default(), &mut stat);
        family.global_step(Estimate::Posterior, &[values.len() as f64], &stat, None).unwrap()
    };
    // Values close together, values far apart, and none at all.
    for (values, chosen) in
        [(vec![0.5, 0.51, 0.5, NAN, 0.49], &narrow), (vec![-1.0, 1.9, NAN, 0.4], &own), (vec![NAN; 3], &own)]
    {
        let evidence = |family: &dyn Likelihood<f64>| step(family, &values).own_data_term();
        let best = evidence(narrow.as_ref()).max(evidence(own.as_ref()));
        close(evidence(both.as_ref()), best, 1e-12, "evidence");
        assert_eq!(step(both.as_ref(), &values).arrays(), step(chosen.as_ref(), &values).arrays(), "{values:?}");
    }
}

/// The slope of the data term, and the entropy of what is missing, are the weight: the statistics are the right ones.
#[test]
fn expected_statistics_and_entropy_make_up_the_weight() {
    let kind = LikelihoodKind::Gauss;
    let family = kind.build::<f64>(&prior(kind, 4, true));
    for estimate in ESTIMATES {
        let clusters = clusters(family.as_ref(), estimate, 4);
        let row = [0.4, NAN, -0.6, NAN];
        let rows = block(4, &row);
        let width = family.stat_width();
        let before = family.no_statistics(2);
        let mut after = before.clone();
        let stat = &mut after.stats[width..];
        let entropy = clusters.accumulate_expected(1, &rows, &[0], &[0.7], &mut Scratch::default(), stat);
        let base = clusters.data_term(&[1.0, 1.0], &before.stats);
        let slope = clusters.data_term(&[1.0, 1.7], &after.stats) - base;
        close(slope + entropy, 0.7 * log_lik(clusters.as_ref(), 4, &row)[1], 1e-9, &format!("{estimate:?}"));
    }
}

/// Every value is missing with this probability.
fn with_holes(values: &[f64], share: f64, seed: u64) -> Vec<f64> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    values.iter().map(|&x| if rng.random::<f64>() < share { NAN } else { x }).collect()
}

#[derive(Default)]
struct Objectives(Vec<(f64, f64)>);

impl Observer for Objectives {
    fn step(&mut self, info: &StepInfo) -> lsparse::Result<()> {
        self.0.extend(info.objective.map(|objective| (info.lap, objective.total())));
        Ok(())
    }
}

/// Train, and see that the objective never falls where it must not.
fn train(source: &dyn RowSource, config: &MixtureConfig, what: &str) -> Fitted<MixtureModel> {
    let mut objectives = Objectives::default();
    let beside = Beside { observer: Some(&mut objectives), ..Default::default() };
    let fitted =
        fit_mixture_with(source, config, MixtureInputs::default(), beside).unwrap_or_else(|e| panic!("{what}: {e}"));
    let sure = if config.schedule == ScheduleKind::Full { 0.0 } else { 1.0 };
    let exact: Vec<f64> = objectives.0.iter().filter(|(lap, _)| *lap >= sure).map(|(_, value)| *value).collect();
    assert!(exact.len() > 3, "{what}: too few steps to tell");
    if std::env::var_os("DBG").is_some() {
        for (lap, v) in &objectives.0 {
            println!("{lap:.3} {v:.6}");
        }
    }
    for pair in exact.windows(2) {
        assert!(pair[1] >= pair[0] - 1e-9 * pair[0].abs(), "{what}: {} fell to {}", pair[0], pair[1]);
    }
    fitted
}

#[test]
fn objectives_are_monotone_with_holes_in_the_data() {
    for kind in FAMILIES {
        let truth = planted(kind, 500, 6, 5, 3);
        let mut values = with_holes(&truth.values, 0.25, 1);
        values[..12].fill(NAN);
        values.iter_mut().step_by(6).for_each(|x| *x += 1000.0);
        let source = MemoryRows::new("holes", 6, values).unwrap();
        for estimate in ESTIMATES {
            for schedule in [ScheduleKind::Full, ScheduleKind::Memoized] {
                for sparsity in [1, 2, 8] {
                    let config = MixtureConfig {
                        likelihood: kind,
                        missing: true,
                        clusters: 8,
                        sparsity: Sparsity::Of(sparsity),
                        estimate,
                        schedule,
                        batches: if schedule == ScheduleKind::Full { Some(1) } else { Some(3) },
                        laps: Some(12),
                        tolerance: None,
                        ..Default::default()
                    };
                    let what = format!("{} {estimate:?} {schedule:?} L={sparsity}", kind.name());
                    let model = train(&source, &config, &what).model;
                    assert!((model.total.total_weight() - 500.0).abs() < 1e-6, "{what}");
                    assert!(model.score(&source).unwrap().mean().is_finite(), "{what}");
                }
            }
        }
    }
}

/// At rest the objective of maximum likelihood is the log likelihood of what is there, which scoring computes by itself.
#[test]
fn at_rest_the_objective_is_the_log_likelihood_of_what_is_there() {
    for kind in FAMILIES {
        let truth = planted(kind, 400, 3, 2, 8);
        let source = MemoryRows::new("holes", 3, with_holes(&truth.values, 0.2, 2)).unwrap();
        let config = MixtureConfig {
            likelihood: kind,
            missing: true,
            clusters: 2,
            estimate: Estimate::MaxLikelihood,
            schedule: ScheduleKind::Full,
            laps: Some(400),
            tolerance: Some(1e-13),
            ..Default::default()
        };
        let fitted = fit_mixture(&source, &config).unwrap();
        let likelihood = fitted.model.score(&source).unwrap().total();
        close(fitted.outcome.objective.total(), likelihood, 1e-8, kind.name());
    }
}

/// With nothing missing the option changes no bit.
#[test]
fn with_nothing_missing_the_option_changes_nothing() {
    for kind in FAMILIES {
        let truth = planted(kind, 700, 5, 4, 3);
        let f64s = MemoryRows::new("rows", 5, truth.values.clone()).unwrap();
        let f32s = MemoryRows::new("rows", 5, truth.values_f32()).unwrap();
        let sources: [&dyn RowSource; 2] = [&f64s, &f32s];
        for source in sources {
            for estimate in ESTIMATES {
                let config = MixtureConfig {
                    likelihood: kind,
                    clusters: 6,
                    sparsity: Sparsity::Of(3),
                    estimate,
                    batches: Some(3),
                    laps: Some(6),
                    ..Default::default()
                };
                let without = fit_mixture(source, &config).unwrap().model;
                let with = fit_mixture(source, &MixtureConfig { missing: true, ..config }).unwrap().model;
                // Degrees of freedom and counts are a column's own where columns may have different ones.
                for (a, b) in with.arrays.iter().zip(&without.arrays) {
                    let each = a.values.len() / b.values.len();
                    let values: Vec<f64> = a.values.iter().step_by(each).copied().collect();
                    assert_eq!((a.name, values), (b.name, b.values.clone()), "{} {estimate:?}", kind.name());
                }
                assert_eq!((&with.weights, &with.training), (&without.weights, &without.training));
                let scores = |model: &MixtureModel| model.score(source).unwrap().log_density;
                assert_eq!(scores(&with), scores(&without));
            }
        }
    }
}

/// Draws have the mean and the square that clusters expect of what is missing.
#[test]
fn draws_are_what_is_expected() {
    const DRAWS: usize = 40_000;
    for kind in FAMILIES {
        let family = kind.build::<f64>(&prior(kind, 4, true));
        let clusters = clusters(family.as_ref(), Estimate::Map, 4);
        let (row, mut scratch) = ([0.4, NAN, -0.6, NAN], Scratch::default());
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        let mut drawn = Vec::new();
        for _ in 0..DRAWS {
            let mut normal = || (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0;
            let mut whole = row;
            clusters.draw_missing(1, &mut whole, &mut scratch, &mut normal);
            assert_eq!((whole[0], whole[2]), (row[0], row[2]));
            drawn.push([whole[1], whole[3]]);
        }
        let mean = |of: &dyn Fn(&[f64; 2]) -> f64| drawn.iter().map(of).sum::<f64>() / DRAWS as f64;
        let density = |a: f64, b: f64| log_lik(clusters.as_ref(), 4, &[0.4, a, -0.6, b])[1];
        let norm = log_integral(density);
        let expected = |of: &dyn Fn(&[f64; 2]) -> f64| {
            // Shifted, so that there is a logarithm.
            log_integral(|a, b| density(a, b) + (of(&[a, b]) + 1e4).max(1.0).ln() - norm).exp() - 1e4
        };
        let moments: [&dyn Fn(&[f64; 2]) -> f64; 5] =
            [&|x| x[0], &|x| x[1], &|x| x[0] * x[0], &|x| x[1] * x[1], &|x| x[0] * x[1]];
        for (at, of) in moments.into_iter().enumerate() {
            close(mean(of), expected(of), 0.03, &format!("{} moment {at}", kind.name()));
        }
    }
}

/// K is found where values are missing, from one cluster and from many, with an objective that never falls.
#[test]
fn planted_clusters_are_counted_through_holes() {
    for kind in FAMILIES {
        for (holes, seed) in [(0.01, 1), (0.1, 2), (0.3, 3)] {
            let truth = planted(kind, 1500, 8, 6, seed);
            let source = MemoryRows::new("holes", 8, with_holes(&truth.values, holes, seed)).unwrap();
            for start in [1, 30] {
                let config = MixtureConfig {
                    likelihood: kind,
                    missing: true,
                    find_k: true,
                    k_start: Some(start),
                    seed,
                    ..Default::default()
                };
                let what = format!("{} with {holes} of the values missing, from {start}", kind.name());
                let model = train(&source, &config, &what).model;
                assert_eq!(model.num_clusters(), 6, "{what}");
                let again = with_threads(3, || fit_mixture(&source, &config).unwrap().model).unwrap();
                assert_eq!(again, model, "{what}");
            }
        }
    }
}

/// Noise that lacks values is one cluster, and of too many `fewer` leaves those that there are.
#[test]
fn noise_with_holes_is_one_cluster() {
    for kind in FAMILIES {
        for (num, dim, seed) in [(300, 20, 1), (200, 10, 2)] {
            let noise = planted(LikelihoodKind::SphericalGauss, num, dim, 1, seed);
            let source = MemoryRows::new("noise", dim, with_holes(&noise.values, 0.05, seed)).unwrap();
            let config =
                MixtureConfig { likelihood: kind, missing: true, find_k: true, seed, ..MixtureConfig::default() };
            let model = fit_mixture(&source, &config).unwrap().model;
            assert_eq!(model.num_clusters(), 1, "{} {num} x {dim}", kind.name());
        }
        let truth = planted(kind, 900, 5, 4, 7);
        let source = MemoryRows::new("holes", 5, with_holes(&truth.values, 0.1, 7)).unwrap();
        let config = MixtureConfig { likelihood: kind, missing: true, clusters: 9, ..Default::default() };
        let fewer = fit_mixture(&source, &config).unwrap().model.fewer(&source).unwrap();
        assert!(!fewer.made.is_empty() && fewer.model.num_clusters() < 9, "{}", kind.name());
        assert!(fewer.model.score(&source).unwrap().mean().is_finite());
    }
}

/// Clusters are traded where values are missing, and to the same effect as where none is.
#[test]
fn clusters_are_traded_through_holes() {
    for kind in FAMILIES {
        let mut traded = 0;
        for seed in 0..4 {
            let truth = planted(kind, 900, 6, 12, seed);
            let source = MemoryRows::new("holes", 6, with_holes(&truth.values, 0.1, seed)).unwrap();
            let config = MixtureConfig {
                likelihood: kind,
                missing: true,
                clusters: 12,
                init: Init::Examples,
                laps: Some(60),
                seed,
                ..Default::default()
            };
            let objective = |trades: bool| {
                let config = MixtureConfig { trades, ..config.clone() };
                fit_mixture(&source, &config).unwrap().outcome.objective.total()
            };
            let (on, off) = (objective(true), objective(false));
            assert!(on >= off - 1e-4 * off.abs(), "{} {seed}: {on} with trades, {off} without", kind.name());
            traded += usize::from(on > off + 1e-3 * off.abs());
            train(&source, &config, kind.name());
        }
        assert!(traded > 1, "{}: {traded}", kind.name());
    }
}

#[test]
fn holes_give_the_same_bits_at_any_number_of_threads() {
    for kind in FAMILIES {
        let truth = planted(kind, 3000, 8, 6, 5);
        let values = with_holes(&truth.values, 0.1, 3).iter().map(|&x| x as f32).collect::<Vec<f32>>();
        let source = MemoryRows::new("holes", 8, values).unwrap();
        let config = MixtureConfig {
            likelihood: kind,
            missing: true,
            clusters: 6,
            sparsity: Sparsity::Of(3),
            laps: Some(3),
            ..Default::default()
        };
        let run = |threads| with_threads(threads, || fit_mixture(&source, &config).unwrap().model).unwrap();
        let one = run(1);
        assert!([2, 3].into_iter().all(|threads| run(threads) == one), "{}", kind.name());
    }
}

fn column_means(values: &[f64], dim: usize) -> Vec<f64> {
    let mean = |d: usize| {
        let seen: Vec<f64> = values.iter().skip(d).step_by(dim).copied().filter(|x| !x.is_nan()).collect();
        seen.iter().sum::<f64>() / seen.len() as f64
    };
    (0..dim).map(mean).collect()
}

/// A fifth of all values missing: the clusters are found, and new rows are explained better than by a model that had the
/// columns' means in their place.
#[test]
fn planted_clusters_are_found_through_holes_and_means_are_no_match() {
    for kind in FAMILIES {
        let (dim, num) = (8, 5);
        let truth = planted(kind, 6000, dim, num, 23);
        let (seen, fresh) = truth.values.split_at(4000 * dim);
        let holes = with_holes(seen, 0.2, 7);
        let means = column_means(&holes, dim);
        let filled = holes.iter().enumerate().map(|(i, &x)| if x.is_nan() { means[i % dim] } else { x }).collect();
        let holes = MemoryRows::new("holes", dim, holes).unwrap();
        let filled = MemoryRows::new("filled", dim, filled).unwrap();
        let fresh = MemoryRows::new("fresh", dim, fresh.to_vec()).unwrap();
        for estimate in ESTIMATES {
            let config = MixtureConfig { likelihood: kind, clusters: num, estimate, runs: 10, ..Default::default() };
            let ours = fit_mixture(&holes, &MixtureConfig { missing: true, ..config.clone() }).unwrap().model;
            let theirs = fit_mixture(&filled, &config).unwrap().model;
            let mut table = vec![vec![0usize; num]; num];
            let mut row = 0;
            ours.assign(&holes, 1, &mut |index, _| {
                for &k in index {
                    table[k as usize][truth.labels[row]] += 1;
                    row += 1;
                }
                Ok(())
            })
            .unwrap();
            let pure = table.iter().map(|labels| labels.iter().max().unwrap()).sum::<usize>() as f64 / 4000.0;
            assert!(pure > 0.95, "{} {estimate:?}: {pure}", kind.name());
            let (a, b) = (ours.score(&fresh).unwrap().mean(), theirs.score(&fresh).unwrap().mean());
            assert!(a > b + 0.5, "{} {estimate:?}: {a} with holes, {b} with means", kind.name());
            // What the truth scores is out of reach, but not far.
            let complete = MemoryRows::new("complete", dim, seen.to_vec()).unwrap();
            let best = fit_mixture(&complete, &config).unwrap().model.score(&fresh).unwrap().mean();
            assert!(a > best - 0.2, "{} {estimate:?}: {a} with holes, {best} without", kind.name());
        }
    }
}

/// A row without any value says nothing: its clusters are the frequencies, and its density is one.
#[test]
fn a_row_of_nothing_has_the_frequencies() {
    for kind in FAMILIES {
        let truth = planted(kind, 300, 3, 3, 8);
        let source = MemoryRows::new("holes", 3, with_holes(&truth.values, 0.2, 2)).unwrap();
        let config = MixtureConfig {
            likelihood: kind,
            missing: true,
            clusters: 3,
            estimate: Estimate::Map,
            laps: Some(5),
            ..Default::default()
        };
        let model = fit_mixture(&source, &config).unwrap().model;
        let nothing = MemoryRows::new("nothing", 3, vec![NAN; 3]).unwrap();
        close(model.score(&nothing).unwrap().mean(), 0.0, 1e-9, "log density");
        model
            .assign(&nothing, 3, &mut |index, value| {
                for (&k, &r) in index.iter().zip(value) {
                    close(r, model.weights[k as usize], 1e-9, "frequency");
                }
                Ok(())
            })
            .unwrap();
    }
}

#[test]
fn models_with_holes_are_saved_and_go_on() {
    for kind in FAMILIES {
        let truth = planted(kind, 400, 4, 3, 8);
        let source = MemoryRows::new("holes", 4, with_holes(&truth.values, 0.2, 2)).unwrap();
        let config =
            MixtureConfig { likelihood: kind, missing: true, clusters: 3, laps: Some(4), ..Default::default() };
        let model = fit_mixture(&source, &config).unwrap().model;
        let again = MixtureModel::from_bytes("m".as_ref(), &model.to_bytes().unwrap()).unwrap();
        assert_eq!(again, model);
        let more = again.update(&source, None, Increment::Add).unwrap();
        assert!((more.total.total_weight() - 800.0).abs() < 1e-6);
        let inputs = MixtureInputs { start: Some(&again), ..Default::default() };
        fit_mixture_with(&source, &config, inputs, Beside::default()).unwrap();
        let inputs = MixtureInputs { start: Some(&again), ..Default::default() };
        let without = fit_mixture_with(&source, &MixtureConfig { missing: false, ..config }, inputs, Beside::default());
        assert!(without.is_err());
        let complete = MixtureConfig { likelihood: kind, clusters: 3, laps: Some(4), ..Default::default() };
        assert!(fit_mixture(&source, &complete).err().unwrap().to_string().contains("NaN"));
    }
}

#[test]
fn what_cannot_do_without_values_says_so() {
    let source = MemoryRows::new("holes", 2, vec![1.0, NAN, 2.0, 3.0, NAN, 0.5]).unwrap();
    let config = MixtureConfig { missing: true, clusters: 1, ..Default::default() };
    let refused = |config: &MixtureConfig, word: &str| {
        let text = fit_mixture(&source, config).err().unwrap().to_string();
        assert!(text.contains(word), "{text}");
    };
    for likelihood in LikelihoodKind::ALL.into_iter().filter(|kind| !FAMILIES.contains(kind)) {
        refused(&MixtureConfig { likelihood, ..config.clone() }, "cannot integrate missing values out");
    }
    refused(&MixtureConfig { search: SearchKind::Neighbours, ..config.clone() }, "complete rows");
    let infinite = MemoryRows::new("infinite", 2, vec![1.0, NAN, f64::INFINITY, 3.0]).unwrap();
    assert!(fit_mixture(&infinite, &config).err().unwrap().to_string().contains("inf"));
    let empty = MemoryRows::new("a column of nothing", 2, vec![1.0, NAN, 2.0, NAN, 3.0, NAN]).unwrap();
    let text = fit_mixture(&empty, &config).err().unwrap().to_string();
    assert!(text.contains("column 2 of a column of nothing has no value"), "{text}");
    let sparse = CsrRows::new("sparse", 2, vec![0, 1, 2], vec![0, 1], vec![1.0f64, 2.0]).unwrap();
    assert!(fit_mixture(&sparse, &config).err().unwrap().to_string().contains("sparse rows"));
}

/// A model of complete rows weighs rows with holes by its own marginals: its density is integrated over what is missing.
#[test]
fn models_of_complete_rows_score_rows_with_holes() {
    let mut rng = ChaCha8Rng::seed_from_u64(12);
    let value = |n: usize| if (n / 3).is_multiple_of(2) { 1.5 } else { -1.5 };
    let values: Vec<f64> = (0..600).map(|n| value(n) + 2.0 * rng.random::<f64>() - 1.0).collect();
    let source = MemoryRows::new("complete", 3, values).unwrap();
    let (reach, steps) = (30.0, 600);
    let at = |i: usize| -reach + 2.0 * reach * i as f64 / steps as f64;
    let grid: Vec<f64> = (0..=steps).flat_map(|i| (0..=steps).flat_map(move |j| [at(i), 0.7, at(j)])).collect();
    let grid = MemoryRows::new("grid", 3, grid).unwrap();
    let holes = MemoryRows::new("holes", 3, vec![NAN, 0.7, NAN]).unwrap();
    for likelihood in FAMILIES {
        for estimate in ESTIMATES {
            let what = format!("{} {estimate:?}", likelihood.name());
            let config = MixtureConfig { likelihood, estimate, clusters: 2, laps: Some(5), ..Default::default() };
            let model = fit_mixture(&source, &config).unwrap().model;
            assert!(model.score(&holes).is_err(), "{what}");
            let sum: f64 = model.score(&grid).unwrap().log_density.iter().map(|log| log.exp()).sum();
            let complete = model.score(&source).unwrap().mean();
            let allowing = model.allowing_missing().unwrap();
            let expected = (sum * (2.0 * reach / steps as f64).powi(2)).ln();
            close(allowing.score(&holes).unwrap().mean(), expected, 1e-3, &what);
            close(allowing.score(&source).unwrap().mean(), complete, 1e-9, &what);
            let read = MixtureModel::from_bytes("m".as_ref(), &allowing.to_bytes().unwrap()).unwrap();
            close(read.score(&holes).unwrap().mean(), expected, 1e-3, &what);
        }
    }
    let config = MixtureConfig { likelihood: LikelihoodKind::SphericalGauss, clusters: 2, ..Default::default() };
    assert!(fit_mixture(&source, &config).unwrap().model.allowing_missing().is_err());
}

/// Weights of rows count for holes too: a row of weight two is two rows.
#[test]
fn a_weight_of_two_is_a_row_twice() {
    for kind in FAMILIES {
        let truth = planted(kind, 100, 3, 1, 8);
        let values = with_holes(&truth.values, 0.2, 2);
        let once = MemoryRows::new("once", 3, values.clone()).unwrap();
        let twice = MemoryRows::new("twice", 3, [&values[..], &values].concat()).unwrap();
        let config = MixtureConfig {
            likelihood: kind,
            missing: true,
            clusters: 1,
            laps: Some(20),
            tolerance: None,
            schedule: ScheduleKind::Full,
            ..Default::default()
        };
        let inputs = MixtureInputs { row_weights: Some(&[2.0; 100]), ..Default::default() };
        let weighted = fit_mixture_with(&once, &config, inputs, Beside::default()).unwrap();
        let doubled = fit_mixture(&twice, &config).unwrap();
        let flat = |arrays: &[NamedArray]| arrays.iter().flat_map(|a| a.values.clone()).collect::<Vec<f64>>();
        for (a, b) in flat(&weighted.model.arrays).iter().zip(flat(&doubled.model.arrays)) {
            close(*a, b, 1e-6, kind.name());
        }
        let (a, b) = (weighted.outcome.objective.total(), doubled.outcome.objective.total());
        close(a, b, 1e-9, kind.name());
    }
}

/// Rows of four clusters of six columns, of two forms of a questionnaire: each lacks two columns that the other has.
/// Returns them as they are, and without holes.
fn two_forms(num: usize, seed: u64) -> (Vec<f64>, Vec<f64>) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    const MEANS: [[f64; 6]; 4] = [
        [60.0, 8.0, 0.0, 300.0, 5.0, 1.0],
        [68.0, 8.0, 4.0, 300.0, 9.0, 1.0],
        [60.0, 14.0, 4.0, 380.0, 9.0, 5.0],
        [68.0, 14.0, 0.0, 380.0, 5.0, 5.0],
    ];
    const WIDTHS: [f64; 6] = [2.0, 1.5, 1.0, 20.0, 1.0, 1.0];
    let (mut holes, mut whole) = (Vec::new(), Vec::new());
    for n in 0..num {
        let noise = |rng: &mut ChaCha8Rng| (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0;
        let row: Vec<f64> = (0..6).map(|d| MEANS[n % 4][d] + WIDTHS[d] * noise(&mut rng)).collect();
        let lost = if n / 4 % 2 == 0 { [0, 1] } else { [4, 5] };
        holes.extend(row.iter().enumerate().map(|(d, &x)| if lost.contains(&d) { NAN } else { x }));
        whole.extend(row);
    }
    (holes, whole)
}

/// Groups of rows that lack the same columns are no clusters: whole rows score as under a model of whole rows.
#[test]
fn two_forms_of_a_questionnaire_are_not_taken_for_clusters() {
    let (holes, whole) = two_forms(2000, 1);
    let others = MemoryRows::new("whole", 6, two_forms(1000, 2).1).unwrap();
    let (holes, whole) = (MemoryRows::new("holes", 6, holes).unwrap(), MemoryRows::new("whole", 6, whole).unwrap());
    for likelihood in FAMILIES {
        let config = MixtureConfig { likelihood, clusters: 4, ..Default::default() };
        let expected = fit_mixture(&whole, &config).unwrap().model.score(&others).unwrap().mean();
        for seed in 0..4 {
            let config = MixtureConfig { missing: true, seed, ..config.clone() };
            let score = fit_mixture(&holes, &config).unwrap().model.score(&others).unwrap().mean();
            assert!(score > expected - 0.15, "{likelihood:?}, seed {seed}: {score} instead of {expected}");
        }
    }
}

/// A cluster that has no row with a column expects of it what the column is like, and not the prior's small variance.
#[test]
fn what_no_row_of_a_cluster_has_is_expected_as_in_the_others() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let mut values = Vec::new();
    for n in 0..900 {
        let mut noise = || (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0;
        let lacks = n % 3 == 0;
        let far = if lacks { 40.0 } else { 0.0 };
        let known = 7.0 + if n % 3 == 1 { 5.0 } else { -5.0 } + noise();
        values.extend([far + noise(), far + noise(), if lacks { NAN } else { known }]);
    }
    let source = MemoryRows::new("rows", 3, values).unwrap();
    for likelihood in FAMILIES {
        let config = MixtureConfig { likelihood, clusters: 3, missing: true, laps: Some(40), ..Default::default() };
        let model = fit_mixture(&source, &config).unwrap().model;
        // The values of the column have variance 26 about 7; what is expected of it where the first two are near 40 is that.
        let score = |x: f64| {
            let whole = MemoryRows::new("x", 3, vec![40.0, 40.0, x]).unwrap();
            let part = MemoryRows::new("x", 3, vec![40.0, 40.0, NAN]).unwrap();
            model.score(&whole).unwrap().mean() - model.score(&part).unwrap().mean()
        };
        for (x, least) in [(7.0, -3.2), (12.0, -3.6), (2.0, -3.6), (22.0, -9.0)] {
            assert!(score(x) > least && score(x) < -2.0, "{likelihood:?}: {} at {x}", score(x));
        }
    }
}
