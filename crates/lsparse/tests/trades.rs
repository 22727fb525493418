//! Trades at a given K: the objective never falls and K stays, bad starts are made good, and a run is the same run at any
//! number of threads, resumed, and with batches that are worked out elsewhere.

mod moving;

use lsparse::data::{MemoryRows, RowSource};
use lsparse::mixture::{MixtureInputs, Mixtures};
use lsparse::runs::Family;
use lsparse::settings::{MixtureMethod, SearchKind};
use lsparse::synthetic::planted;
use lsparse::training::moves::MoveKind;
use lsparse::{
    Beside, Estimate, History, Init, LikelihoodKind, MixtureConfig, MixtureModel, ScheduleKind, fit_mixture,
    fit_mixture_with,
};
use moving::{TRUTH, rows, same_at_any_number_of_threads, same_when_resumed, same_when_worked_out_elsewhere, to_rest};

/// A start that leaves much to be traded: rows at random.
fn config(kind: LikelihoodKind, seed: u64) -> MixtureConfig {
    MixtureConfig { likelihood: kind, clusters: TRUTH, init: Init::Examples, seed, ..Default::default() }
}

/// Train to rest; gives the number of trades and the last objective.
fn train(config: &MixtureConfig, source: &MemoryRows<f64>) -> (usize, f64) {
    let mut trades = 0;
    let objective = to_rest(config, source, |info| {
        assert!(info.moves.iter().all(|change| change.kind == MoveKind::Trade && change.gain > 0.0));
        // With a cluster that has no rows, or with two that become one: K stays.
        assert!(info.moves.iter().all(|change| change.from.len() == change.to.len() && change.from.len() <= 3));
        trades += info.moves.len();
    });
    (trades, objective)
}

#[test]
fn bad_starts_are_made_good() {
    let mut traded = Vec::new();
    for kind in LikelihoodKind::ALL {
        let (mut trades, mut better, mut worse) = (0, 0, 0);
        for seed in 0..4 {
            let (source, config) = (rows(kind, seed), config(kind, seed));
            let (none, without) = train(&MixtureConfig { trades: false, ..config.clone() }, &source);
            let (made, with) = train(&config, &source);
            assert_eq!(none, 0);
            trades += made;
            better += usize::from(with > without + 1e-3 * without.abs());
            worse += usize::from(with < without - 1e-3 * without.abs());
        }
        println!("{kind:?}: {trades} trades, {better} of 4 runs better, {worse} worse");
        assert!(worse == 0 && (trades == 0 || better > 0), "{kind:?}: {trades} trades, {better} better, {worse} worse");
        if trades > 0 {
            traded.push(kind);
        }
    }
    assert!(traded.len() > 4, "{traded:?}");
}

/// Of clusters of very different sizes a start has large ones more than once and small ones together: two that become one
/// gain by themselves, and leave one to spare for a split that need not.
#[test]
fn a_merge_that_gains_by_itself_opens_a_trade() {
    for seed in [1, 3, 4] {
        let truth = planted(LikelihoodKind::Gauss, 40_000, 8, 30, seed);
        let mut values = Vec::new();
        let mut left: Vec<usize> = (1..=30).map(|k| 1500 / k).collect();
        for (row, &label) in truth.values.chunks_exact(8).zip(&truth.labels) {
            if left[label] > 0 {
                left[label] -= 1;
                values.extend_from_slice(row);
            }
        }
        let source = MemoryRows::new("power law", 8, values).unwrap();
        let config = MixtureConfig { clusters: 30, seed, ..Default::default() };
        let (_, without) = train(&MixtureConfig { trades: false, ..config.clone() }, &source);
        let (made, with) = train(&config, &source);
        assert!(made > 0 && with > without + 100.0, "seed {seed}: {made} trades, {without} {with}");
    }
}

/// A run of several batches in which clusters are traded.
fn traded_run() -> (MemoryRows<f64>, MixtureConfig) {
    let config = MixtureConfig { batches: Some(3), ..config(LikelihoodKind::DiagGauss, 0) };
    let source = rows(LikelihoodKind::DiagGauss, 0);
    assert!(train(&config, &source).0 > 0);
    (source, config)
}

#[test]
fn a_run_is_the_same_at_any_number_of_threads() {
    let (source, config) = traded_run();
    same_at_any_number_of_threads(&source, &config);
}

#[test]
fn a_run_that_is_resumed_anywhere_or_spills_is_the_same_run() {
    let (source, config) = traded_run();
    same_when_resumed(&source, &config);
}

#[test]
fn batches_may_be_worked_out_elsewhere() {
    let (source, config) = traded_run();
    assert!(same_when_worked_out_elsewhere(&source, &config) > 0);
}

/// What a change gains must be known, and K be given.
#[test]
fn trades_are_for_posteriors() {
    let settled = |config: MixtureConfig| config.check(100).unwrap().trades;
    assert!(settled(MixtureConfig::default()));
    assert!(settled(MixtureConfig { schedule: ScheduleKind::Full, ..Default::default() }));
    assert!(settled(MixtureConfig { missing: true, ..Default::default() }));
    for config in [
        MixtureConfig { estimate: Estimate::Map, ..Default::default() },
        MixtureConfig { schedule: ScheduleKind::Stochastic, ..Default::default() },
        MixtureConfig { search: SearchKind::Neighbours, ..Default::default() },
        MixtureConfig { history: History::Keep, ..Default::default() },
        MixtureConfig { method: MixtureMethod::Kmeans, ..Default::default() },
        MixtureConfig { find_k: true, ..Default::default() },
        MixtureConfig { trades: false, ..Default::default() },
    ] {
        assert!(!settled(config));
    }
}

/// Rows of clusters that differ in their sizes by this factor, step by step, those to train on and those to score.
fn rows_of_scales(num: usize, dim: usize, step: f64) -> [MemoryRows<f64>; 2] {
    let truth = planted(LikelihoodKind::Gauss, num, dim, 12, 3);
    let mut mean = vec![vec![0.0; dim]; 12];
    let mut count = [0.0; 12];
    for (row, &label) in truth.values.chunks_exact(dim).zip(&truth.labels) {
        mean[label].iter_mut().zip(row).for_each(|(m, x)| *m += x);
        count[label] += 1.0;
    }
    mean.iter_mut().zip(count).for_each(|(mean, count)| mean.iter_mut().for_each(|m| *m /= count));
    let mut parts = [Vec::new(), Vec::new()];
    for (n, (row, &label)) in truth.values.chunks_exact(dim).zip(&truth.labels).enumerate() {
        let scale = step.powi(label as i32 - 6);
        let of = |(x, m): (&f64, &f64)| m + scale * (x - m);
        parts[n % 2].extend(row.iter().zip(&mean[label]).map(of));
    }
    parts.map(|values| MemoryRows::new("scales", dim, values).unwrap())
}

/// The prior follows the clusters where they are alike and have few rows, which new rows gain by; of clusters whose scales
/// are orders of magnitude apart it stays what it was, and so does the run.
#[test]
fn the_prior_follows_clusters_that_are_alike() {
    for (rows_a_cluster, step, follows) in [(36, 1.0, true), (200, 2.5, false)] {
        let [source, others] = rows_of_scales(24 * rows_a_cluster, 24, step);
        let config = MixtureConfig { clusters: 12, seed: 1, batches: Some(3), ..Default::default() };
        let usual = config.likelihood.default_prior_scale(24, 12, source.num_rows());
        let asked = MixtureConfig { prior_scale: Some(usual), kappa: Some(1e-4), nu: Some(26.0), ..config.clone() };
        let [model, asked] = [&config, &asked].map(|config| fit_mixture(&source, config).unwrap().model);
        let known = (model.config.prior_scale, model.config.kappa, model.config.nu);
        assert_eq!(known == (None, None, None), follows, "{known:?}");
        let score = |model: &MixtureModel| model.score(&others).unwrap().mean();
        if follows {
            assert!(model.prior.variance != asked.prior.variance && model.prior.kappa > asked.prior.kappa);
            let (learned, given) = (score(&model), score(&asked));
            assert!(learned > given + 0.3, "{learned} where the prior follows, {given} where it does not");
            // On from there it goes on to follow.
            let inputs = MixtureInputs { start: Some(&model), ..Default::default() };
            let more = fit_mixture_with(&source, &model.config, inputs, Beside::default()).unwrap().model;
            assert!(score(&more) > learned - 0.1);
            to_rest(&config, &source, |_| {});
            same_at_any_number_of_threads(&source, &config);
            same_when_resumed(&source, &config);
            same_when_worked_out_elsewhere(&source, &config);
        } else {
            assert_eq!((known, &model), ((Some(usual), Some(1e-4), Some(26.0)), &asked));
        }
    }
}

/// A lap must gain ten times as much where clusters have as many variances of their own as there are rows, and nowhere else.
#[test]
fn laps_must_gain_more_where_variances_are_as_many_as_rows() {
    let of = |config: MixtureConfig, num_rows: usize| {
        let rows: Vec<f64> = (0..num_rows * 4).map(|n| (n * 7919 % 1009) as f64).collect();
        let source = MemoryRows::new("rows", 4, rows).unwrap();
        let mixtures = Mixtures::<f64>::new(&source, &config, MixtureInputs::default()).unwrap();
        mixtures.plan().rules.tolerance.unwrap()
    };
    let config = |likelihood| MixtureConfig { likelihood, clusters: 20, tolerance: Some(0.5), ..Default::default() };
    // Ten variances and covariances of a cluster of four columns, four variances, one, and none of its own.
    for (kind, most) in [
        (LikelihoodKind::Gauss, 200),
        (LikelihoodKind::ZeroMeanGauss, 200),
        (LikelihoodKind::DiagGauss, 80),
        (LikelihoodKind::SphericalGauss, 20),
    ] {
        assert_eq!((of(config(kind), most), of(config(kind), most + 1)), (5.0, 0.5), "{kind:?}");
    }
    assert_eq!(of(config(LikelihoodKind::TiedGauss), 20), 0.5);
    assert_eq!(of(config(LikelihoodKind::Poisson), 20), 0.5);
    assert_eq!(of(MixtureConfig { find_k: true, ..config(LikelihoodKind::Gauss) }, 100), 0.5);
}
