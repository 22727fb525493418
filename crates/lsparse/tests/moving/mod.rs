//! What holds of every run in which clusters are changed: planted rows, the way of a run step by step, and that it is the
//! same run at any number of threads, resumed, and with batches that are worked out elsewhere.

use std::time::Duration;

use lsparse::backend::with_threads;
use lsparse::data::MemoryRows;
use lsparse::mixture::{MixtureInputs, Mixtures};
use lsparse::runs::Family;
use lsparse::store::checkpoint::{Checkpointing, Storage};
use lsparse::synthetic::planted;
use lsparse::training::exchange::{Remote, fold, hand_out};
use lsparse::training::trace::StepInfo;
use lsparse::{Beside, LikelihoodKind, MixtureConfig, fit_mixture, fit_mixture_with};

pub const TRUTH: usize = 8;

/// Rows of planted clusters, in columns enough to tell them apart.
pub fn rows(kind: LikelihoodKind, seed: u64) -> MemoryRows<f64> {
    let columns = if matches!(kind, LikelihoodKind::Multinomial | LikelihoodKind::Bernoulli) { 40 } else { 10 };
    let rows = planted(kind, 3000, columns, TRUTH, seed);
    MemoryRows::new("planted", rows.dim, rows.values).unwrap()
}

/// Train to rest, with a look at every step; the objective never falls, and the last is given.
pub fn to_rest(config: &MixtureConfig, source: &MemoryRows<f64>, mut look: impl FnMut(&StepInfo)) -> f64 {
    let mixtures = Mixtures::<f64>::new(source, config, MixtureInputs::default()).unwrap();
    let mut session = mixtures.session(0).unwrap();
    let mut worker = session.worker();
    let (mut last, rules) = (f64::NEG_INFINITY, mixtures.plan().rules);
    loop {
        let info = session.step(&mut worker).unwrap();
        let objective = info.objective.unwrap().total();
        // In the first lap batches that were not visited are stood in for.
        if session.progress().laps > 1 || info.ends_lap {
            assert!(objective >= last - 1e-9 * last.abs(), "{last} {objective} in lap {}", info.lap);
            last = objective;
        }
        look(&info);
        if session.judge(&info, &rules, None).is_some() {
            return last;
        }
    }
}

/// The model's bytes at several numbers of threads.
pub fn same_at_any_number_of_threads(source: &MemoryRows<f64>, config: &MixtureConfig) {
    let run = || fit_mixture(source, config).unwrap().model.to_bytes().unwrap();
    let one = with_threads(1, run).unwrap();
    for threads in [2, 3, 8] {
        assert!(with_threads(threads, run).unwrap() == one, "{threads} threads");
    }
}

/// The model's bytes of a run that stops after any lap and goes on, with what batches gave in memory and in a file.
pub fn same_when_resumed(source: &MemoryRows<f64>, config: &MixtureConfig) {
    let whole = fit_mixture(source, config).unwrap().model;
    for (stop, memo_memory) in (1..whole.training.laps).flat_map(|stop| [(stop, None), (stop, Some(0))]) {
        let folder = tempfile::tempdir().unwrap();
        let run = |config: MixtureConfig, resume: bool| {
            let path = folder.path().join("run.ckpt");
            let checkpoint = Checkpointing { every: Duration::ZERO, resume, ..Checkpointing::new(path) };
            let storage = Storage { checkpoint: Some(checkpoint), memo_memory };
            let beside = Beside { storage, ..Beside::default() };
            fit_mixture_with(source, &config, MixtureInputs::default(), beside).unwrap().model
        };
        run(MixtureConfig { laps: Some(stop), ..config.clone() }, false);
        let resumed = run(config.clone(), true);
        assert!(resumed.to_bytes().unwrap() == whole.to_bytes().unwrap(), "resumed after {stop} laps, {memo_memory:?}");
    }
}

/// Totals of a run whose batches are worked out by somebody who has nothing but bytes; says how often clusters changed.
pub fn same_when_worked_out_elsewhere(source: &MemoryRows<f64>, config: &MixtureConfig) -> usize {
    let laps = fit_mixture(source, config).unwrap().model.training.laps;
    let mixtures = Mixtures::<f64>::new(source, config, MixtureInputs::default()).unwrap();
    let (mut here, mut there) = (mixtures.session(0).unwrap(), mixtures.session(0).unwrap());
    let mut worker = here.worker();
    let mut remote = Remote::new(mixtures.model(0), mixtures.deal(0).unwrap());
    let mut moves = 0;
    while here.progress().laps < laps {
        moves += here.step(&mut worker).unwrap().moves.len();
        let round = hand_out(&mut there, 1).unwrap();
        let done: Vec<Vec<u8>> =
            round.tickets.iter().map(|ticket| remote.summarize(&round.params, ticket).unwrap()).collect();
        fold(&mut there, &done).unwrap();
    }
    assert_eq!(here.total(), there.total());
    moves
}
