//! Trades at a given K: the objective never falls and K stays, bad starts are made good, and a run is the same run at any
//! number of threads, resumed, and with batches that are worked out elsewhere.

use std::time::Duration;

use lsparse::backend::with_threads;
use lsparse::data::MemoryRows;
use lsparse::mixture::{MixtureInputs, Mixtures};
use lsparse::runs::Family;
use lsparse::store::checkpoint::{Checkpointing, Storage};
use lsparse::synthetic::planted;
use lsparse::training::exchange::{Remote, fold, hand_out};
use lsparse::training::moves::MoveKind;
use lsparse::{Beside, Estimate, Init, LikelihoodKind, MixtureConfig, ScheduleKind, fit_mixture, fit_mixture_with};

const TRUTH: usize = 8;

/// Rows of planted clusters, in columns enough to tell them apart.
fn rows(kind: LikelihoodKind, seed: u64) -> MemoryRows<f64> {
    let columns = if matches!(kind, LikelihoodKind::Multinomial | LikelihoodKind::Bernoulli) { 40 } else { 10 };
    let rows = planted(kind, 3000, columns, TRUTH, seed);
    MemoryRows::new("planted", rows.dim, rows.values).unwrap()
}

/// A start that leaves much to be traded: rows at random.
fn config(kind: LikelihoodKind, seed: u64) -> MixtureConfig {
    MixtureConfig { likelihood: kind, clusters: TRUTH, init: Init::Examples, seed, ..Default::default() }
}

/// Train to rest; gives the number of trades and the last objective.
fn train(config: &MixtureConfig, source: &MemoryRows<f64>) -> (usize, f64) {
    let mixtures = Mixtures::<f64>::new(source, config, MixtureInputs::default()).unwrap();
    let mut session = mixtures.session(0).unwrap();
    let mut worker = session.worker();
    let (mut last, mut trades, rules) = (f64::NEG_INFINITY, 0, mixtures.plan().rules);
    loop {
        let info = session.step(&mut worker).unwrap();
        let objective = info.objective.unwrap().total();
        // In the first lap batches that were not visited are stood in for.
        if session.progress().laps > 1 || info.ends_lap {
            assert!(objective >= last - 1e-9 * last.abs(), "{last} {objective} in lap {}", info.lap);
            last = objective;
        }
        assert_eq!(session.total().num_clusters(), TRUTH);
        assert!(info.moves.iter().all(|change| change.kind == MoveKind::Trade && change.gain > 0.0));
        // With a cluster that has no rows, or with two that become one.
        assert!(info.moves.iter().all(|change| change.from.len() == change.to.len() && change.from.len() <= 3));
        trades += info.moves.len();
        if session.judge(&info, &rules, None).is_some() {
            return (trades, last);
        }
    }
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
    let run = || fit_mixture(&source, &config).unwrap().model.to_bytes().unwrap();
    let one = with_threads(1, run).unwrap();
    for threads in [2, 5] {
        assert!(with_threads(threads, run).unwrap() == one, "{threads} threads");
    }
}

#[test]
fn a_run_that_is_resumed_anywhere_or_spills_is_the_same_run() {
    let (source, config) = traded_run();
    let whole = fit_mixture(&source, &config).unwrap().model;
    let laps = whole.training.laps;
    for (stop, memo_memory) in (1..laps).map(|stop| (stop, (stop % 2 == 0).then_some(0))) {
        let folder = tempfile::tempdir().unwrap();
        let run = |laps: usize, resume: bool| {
            let path = folder.path().join("run.ckpt");
            let checkpoint = Checkpointing { every: Duration::ZERO, resume, ..Checkpointing::new(path) };
            let storage = Storage { checkpoint: Some(checkpoint), memo_memory };
            let config = MixtureConfig { laps: Some(laps), ..config.clone() };
            let beside = Beside { storage, ..Beside::default() };
            fit_mixture_with(&source, &config, MixtureInputs::default(), beside).unwrap().model
        };
        run(stop, false);
        let resumed = run(100, true);
        assert!(resumed.to_bytes().unwrap() == whole.to_bytes().unwrap(), "resumed after {stop} laps, {memo_memory:?}");
    }
}

#[test]
fn batches_may_be_worked_out_elsewhere() {
    let (source, config) = traded_run();
    let laps = fit_mixture(&source, &config).unwrap().model.training.laps;
    let mixtures = Mixtures::<f64>::new(&source, &config, MixtureInputs::default()).unwrap();
    let (mut here, mut there) = (mixtures.session(0).unwrap(), mixtures.session(0).unwrap());
    let mut worker = here.worker();
    let mut remote = Remote::new(mixtures.model(0), mixtures.deal(0).unwrap());
    let mut trades = 0;
    for _ in 0..3 * laps {
        trades += here.step(&mut worker).unwrap().moves.len();
        let round = hand_out(&mut there, 1).unwrap();
        let done: Vec<Vec<u8>> =
            round.tickets.iter().map(|ticket| remote.summarize(&round.params, ticket).unwrap()).collect();
        fold(&mut there, &done).unwrap();
    }
    assert!(trades > 0);
    assert_eq!(here.total(), there.total());
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
        MixtureConfig { missing: true, ..Default::default() },
        MixtureConfig { find_k: true, ..Default::default() },
        MixtureConfig { trades: false, ..Default::default() },
    ] {
        assert!(!settled(config));
    }
}
