//! Trades at a given K: the objective never falls and K stays, bad starts are made good, and a run is the same run at any
//! number of threads, resumed, and with batches that are worked out elsewhere.

mod moving;

use lsparse::data::MemoryRows;
use lsparse::mixture::{MixtureInputs, Mixtures};
use lsparse::runs::Family;
use lsparse::settings::{MixtureMethod, SearchKind};
use lsparse::synthetic::planted;
use lsparse::training::moves::MoveKind;
use lsparse::{Estimate, History, Init, LikelihoodKind, MixtureConfig, ScheduleKind};
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
fn trades_are_for_posteriors_of_complete_rows() {
    let settled = |config: MixtureConfig| config.check(100).unwrap().trades;
    assert!(settled(MixtureConfig::default()));
    assert!(settled(MixtureConfig { schedule: ScheduleKind::Full, ..Default::default() }));
    for config in [
        MixtureConfig { estimate: Estimate::Map, ..Default::default() },
        MixtureConfig { schedule: ScheduleKind::Stochastic, ..Default::default() },
        MixtureConfig { search: SearchKind::Neighbours, ..Default::default() },
        MixtureConfig { history: History::Keep, ..Default::default() },
        MixtureConfig { method: MixtureMethod::Kmeans, ..Default::default() },
        MixtureConfig { missing: true, ..Default::default() },
        MixtureConfig { find_k: true, ..Default::default() },
        MixtureConfig { trades: false, ..Default::default() },
    ] {
        assert!(!settled(config));
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
