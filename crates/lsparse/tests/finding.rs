//! Finding K: planted clusters are found from too few and from too many, the objective never falls on the way, and a run
//! is the same run at any number of threads, resumed, and with what batches gave in a file.

mod moving;

use lsparse::data::MemoryRows;
use lsparse::mixture::MixtureInputs;
use lsparse::synthetic::planted;
use lsparse::{
    Beside, Estimate, History, LikelihoodKind, MixtureConfig, ScheduleKind, Sparsity, fit_mixture, fit_mixture_with,
};
use moving::{TRUTH, rows, same_at_any_number_of_threads, same_when_resumed, same_when_worked_out_elsewhere, to_rest};

fn config(kind: LikelihoodKind, start: usize, seed: u64) -> MixtureConfig {
    MixtureConfig { likelihood: kind, find_k: true, k_start: Some(start), seed, ..Default::default() }
}

/// Train until nothing is proposed any more; gives K lap by lap and the last objective.
fn find(config: &MixtureConfig, source: &MemoryRows<f64>) -> (Vec<usize>, f64) {
    let mut path = Vec::new();
    let objective = to_rest(config, source, |info| {
        if info.ends_lap {
            path.push(info.report["clusters"] as usize);
            assert!(info.moves.iter().all(|change| change.gain > -1e-6));
        }
    });
    (path, objective)
}

#[test]
fn planted_clusters_are_found_from_few_and_from_many() {
    for kind in LikelihoodKind::ALL {
        let source = rows(kind, 1);
        let ends = [1, 5 * TRUTH].map(|start| {
            let (path, objective) = find(&config(kind, start, 1), &source);
            assert_eq!(path.last(), Some(&TRUTH), "{kind:?} from {start}: {path:?}");
            objective
        });
        // (Numbers of the prior are learned to 15 %.)
        assert!((ends[0] - ends[1]).abs() < 3e-4 * ends[0].abs(), "{kind:?}: {ends:?}");
    }
}

/// Rows of planted clusters whose sizes fall by a power law.
fn unequal(kind: LikelihoodKind, rows: usize, columns: usize, truth: usize, seed: u64) -> MemoryRows<f64> {
    let all = planted(kind, 40 * rows, columns, truth, seed);
    // At least 20 rows a column for the smallest.
    let wanted = |k: usize| (rows / 4).max(60 * truth) / (k + 1) + 20 * columns;
    let mut left: Vec<usize> = (0..truth).map(wanted).collect();
    let mut values = Vec::new();
    for (row, &label) in all.values.chunks_exact(columns).zip(&all.labels) {
        if left[label] > 0 {
            left[label] -= 1;
            values.extend_from_slice(row);
        }
    }
    MemoryRows::new("unequal", columns, values).unwrap()
}

/// Seeds of every family, few and many clusters, of like and of unequal sizes, from one cluster and from five times the
/// truth.
#[test]
fn planted_clusters_of_all_kinds_are_found() {
    if std::env::var_os("LSPARSE_LONG").is_none() {
        return;
    }
    let (mut missed, mut runs) = (0, 0);
    for kind in LikelihoodKind::ALL {
        for (truth, seeds) in [(5, 5), (20, 5), (60, 2)] {
            for (seed, power) in (0..seeds).flat_map(|seed| [(seed, false), (seed, true)]) {
                let columns =
                    if matches!(kind, LikelihoodKind::Multinomial | LikelihoodKind::Bernoulli) { 60 } else { 16 };
                let source = match power {
                    true => unequal(kind, 200 * truth, columns, truth, seed),
                    false => {
                        let rows = planted(kind, 400 * truth, columns, truth, seed);
                        MemoryRows::new("planted", rows.dim, rows.values).unwrap()
                    }
                };
                for start in [1, 5 * truth] {
                    let (path, objective) = find(&config(kind, start, seed), &source);
                    runs += 1;
                    if path.last() != Some(&truth) {
                        println!("{kind:?} K {truth} seed {seed} unequal {power} from {start}: {objective} {path:?}");
                        missed += 1;
                    }
                }
            }
        }
    }
    println!("{missed} of {runs} runs missed the planted K");
    assert!(100 * missed <= runs, "{missed} of {runs} runs");
}

/// A scale that is learned is at least as good by the objective as any that is given, whatever the rows want.
#[test]
fn the_scale_of_the_prior_follows_the_clusters() {
    for kind in [LikelihoodKind::ZeroMeanGauss, LikelihoodKind::DiagGauss] {
        let source = rows(kind, 3);
        let learned = config(kind, 4, 0);
        let (path, objective) = find(&learned, &source);
        assert_eq!(path.last(), Some(&TRUTH), "{kind:?}: {path:?}");
        for scale in [1e-4, 1e-2, 1.0] {
            let (_, given) = find(&MixtureConfig { prior_scale: Some(scale), ..learned.clone() }, &source);
            assert!(objective > given - 1e-6 * given.abs(), "{kind:?}, {scale}: {objective} against {given}");
        }
    }
}

/// Few rows of pure noise are one cluster, in every family of Gaussians, from as many as a run begins with: the scale that
/// the prior would have is far above that of the data where covariances are full and rows few.
#[test]
fn noise_is_one_cluster() {
    let gaussians = LikelihoodKind::ALL.into_iter().filter(|kind| kind.family().spread.is_of_variances());
    for (kind, seed) in gaussians.flat_map(|kind| [(kind, 0), (kind, 1)]) {
        for (rows, columns) in [(30, 5), (60, 30), (200, 10), (500, 60)] {
            let noise = planted(LikelihoodKind::SphericalGauss, rows, columns, 1, seed).values;
            let source = MemoryRows::new("noise", columns, centered(noise, columns)).unwrap();
            let (path, found) = find(&MixtureConfig { k_start: None, ..config(kind, 1, seed) }, &source);
            let (_, alone) = find(&config(kind, 1, seed), &source);
            assert_eq!(path.last(), Some(&1), "{kind:?}, {rows} x {columns}: {path:?}, {found} and {alone}");
        }
    }
}

/// The same rows about their mean.
fn centered(mut values: Vec<f64>, columns: usize) -> Vec<f64> {
    for d in 0..columns {
        let column = || values.iter().skip(d).step_by(columns);
        let mean = column().sum::<f64>() / column().count() as f64;
        values.iter_mut().skip(d).step_by(columns).for_each(|value| *value -= mean);
    }
    values
}

/// The settings of a model give the same model again, though K and the prior's scale were found.
#[test]
fn the_settings_of_a_found_model_repeat_it() {
    for (kind, start) in [(LikelihoodKind::DiagGauss, 3), (LikelihoodKind::Multinomial, 12)] {
        let source = rows(kind, 5);
        let model = fit_mixture(&source, &config(kind, start, 1)).unwrap().model;
        let again = fit_mixture(&source, &model.config).unwrap().model;
        assert!(model.to_bytes().unwrap() == again.to_bytes().unwrap(), "{kind:?}");
    }
}

/// Clusters that have lost all rows are given up, in every family.
#[test]
fn more_clusters_than_different_rows_come_down_to_those() {
    for kind in [LikelihoodKind::Poisson, LikelihoodKind::Multinomial, LikelihoodKind::Bernoulli] {
        let row = |n: usize| if n.is_multiple_of(2) { [1.0, 0.0, 0.0, 1.0] } else { [0.0, 1.0, 1.0, 0.0] };
        let values = (0..80).flat_map(row).collect();
        let source = MemoryRows::new("two rows", 4, values).unwrap();
        assert_eq!(fit_mixture(&source, &config(kind, 20, 0)).unwrap().model.num_clusters(), 2, "{kind:?}");
    }
}

/// What can go is gone after one call.
#[test]
fn fewer_clusters_leave_nothing_to_be_gained() {
    let source = rows(LikelihoodKind::DiagGauss, 6);
    let many = MixtureConfig { clusters: 5 * TRUTH, likelihood: LikelihoodKind::DiagGauss, ..Default::default() };
    let fewer = fit_mixture(&source, &many).unwrap().model.fewer(&source).unwrap();
    assert_eq!(fewer.model.num_clusters() + fewer.made.len(), 5 * TRUTH);
    assert!(fewer.model.num_clusters() >= TRUTH && fewer.made.iter().all(|change| change.gain > -1e-6));
    assert!(fewer.model.fewer(&source).unwrap().made.is_empty());
}

/// A run of many laps in which K changes several times.
fn long_run() -> (MemoryRows<f64>, MixtureConfig) {
    let config =
        MixtureConfig { batches: Some(3), laps: Some(9), tolerance: None, ..config(LikelihoodKind::DiagGauss, 3, 4) };
    (rows(LikelihoodKind::DiagGauss, 4), config)
}

#[test]
fn a_run_is_the_same_at_any_number_of_threads() {
    let (source, config) = long_run();
    same_at_any_number_of_threads(&source, &config);
}

#[test]
fn a_run_that_is_resumed_anywhere_or_spills_is_the_same_run() {
    let (source, config) = long_run();
    same_when_resumed(&source, &config);
}

/// By a model that knows of the first K alone.
#[test]
fn batches_may_be_worked_out_elsewhere() {
    let (source, config) = long_run();
    assert!(same_when_worked_out_elsewhere(&source, &config) > 0);
}

#[test]
fn rows_that_say_little_and_limits() {
    let find = |values: Vec<f64>, config: &MixtureConfig| {
        fit_mixture(&MemoryRows::new("few", 2, values).unwrap(), config).unwrap().model
    };
    let gauss = config(LikelihoodKind::Gauss, 10, 0);
    // All rows equal, one row, two rows.
    for rows in [200, 1, 2] {
        let few = MixtureConfig { k_start: Some(rows.min(10)), ..gauss.clone() };
        let model = find([1.5, -2.0].repeat(rows), &few);
        assert_eq!(model.num_clusters(), 1, "{rows} rows");
    }
    let source = rows(LikelihoodKind::Gauss, 2);
    let model =
        fit_mixture(&source, &MixtureConfig { k_max: Some(4), k_start: Some(2), ..gauss.clone() }).unwrap().model;
    assert_eq!((model.num_clusters(), model.config.clusters), (4, 4));
    // On from there with K as it is, and from there to where K leads.
    let go_on = |config: &MixtureConfig| {
        let inputs = MixtureInputs { start: Some(&model), ..MixtureInputs::default() };
        fit_mixture_with(&source, config, inputs, Beside::default()).unwrap().model
    };
    let fixed = MixtureConfig { find_k: false, k_start: None, k_max: None, ..model.config.clone() };
    assert_eq!(go_on(&fixed).num_clusters(), 4);
    assert_eq!(go_on(&MixtureConfig { find_k: true, ..fixed }).num_clusters(), TRUTH);
}

#[test]
fn what_cannot_be_found_is_refused_with_the_reason() {
    let refused = |config: MixtureConfig, word: &str| {
        let error = config.check(100).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    };
    let found = MixtureConfig { find_k: true, ..Default::default() };
    for estimate in [Estimate::Map, Estimate::MaxLikelihood] {
        refused(MixtureConfig { estimate, ..found.clone() }, "gains with every cluster");
    }
    refused(MixtureConfig { schedule: ScheduleKind::Stochastic, ..found.clone() }, "memoized");
    refused(MixtureConfig { history: History::Keep, ..found.clone() }, "counted before");
    refused(MixtureConfig { k_start: Some(9), k_max: Some(8), ..found.clone() }, "k-max");
    refused(MixtureConfig { k_max: Some(8), ..Default::default() }, "found");
    assert_eq!(MixtureConfig { sparsity: Sparsity::Of(20), ..found }.check(100).unwrap().sparsity, 20);
}
