//! Hidden Markov models: every likelihood, estimate, schedule and L from one list, chains that are recovered, threads,
//! checkpoints, missing steps and odd sequences.

use lsparse::backend::with_threads;
use lsparse::data::{CsrRows, Groups, MemoryRows, RowSource};
use lsparse::likelihood::Estimate;
use lsparse::math::agreement::Agreement;
use lsparse::settings::{Init, SequenceMethod, SequenceSearch};
use lsparse::synthetic::{ChainShape, PlantedChain, planted_chain};
use lsparse::training::observe::Observer;
use lsparse::training::schedule::ScheduleKind;
use lsparse::training::trace::StepInfo;
use lsparse::{
    Beside, Checkpointing, Error, Fitted, LikelihoodKind, Precision, SequenceConfig, SequenceInputs, SequenceModel,
    Sparsity, Storage, fit_sequence, fit_sequence_with,
};

const ESTIMATES: [Estimate; 3] = [Estimate::Posterior, Estimate::Map, Estimate::MaxLikelihood];

/// Remembers the objective of every step.
#[derive(Default)]
struct Objectives(Vec<(f64, f64)>);

impl Observer for Objectives {
    fn step(&mut self, info: &StepInfo) -> lsparse::Result<()> {
        self.0.extend(info.objective.map(|objective| (info.lap, objective.total())));
        Ok(())
    }
}

fn rows_of(truth: &PlantedChain) -> (MemoryRows<f64>, Groups) {
    let rows = MemoryRows::new("planted", truth.dim, truth.values.clone()).unwrap();
    let groups = Groups::of_lengths("lengths", &truth.lengths, rows.num_rows()).unwrap();
    (rows, groups)
}

/// How well states agree with known ones: normalised mutual information.
fn agreement(labels: &[usize], states: &[u32]) -> f64 {
    let labels: Vec<String> = labels.iter().map(usize::to_string).collect();
    Agreement::of(&labels, states).nmi
}

fn train(rows: &dyn RowSource, groups: &Groups, config: &SequenceConfig, what: &str) -> Fitted<SequenceModel> {
    let mut objectives = Objectives::default();
    let beside = Beside { observer: Some(&mut objectives), ..Default::default() };
    let inputs = SequenceInputs { groups: Some(groups), ..Default::default() };
    let fitted = fit_sequence_with(rows, config, inputs, beside).unwrap_or_else(|e| panic!("{what}: {e}"));
    let sure = match config.schedule {
        ScheduleKind::Full => 0.0,
        ScheduleKind::Memoized => 1.0,
        _ => return fitted,
    };
    let exact: Vec<f64> = objectives.0.iter().filter(|(lap, _)| *lap >= sure).map(|(_, value)| *value).collect();
    assert!(exact.len() > 3, "{what}: too few steps to tell");
    for pair in exact.windows(2) {
        assert!(pair[1] >= pair[0] - 1e-9 * pair[0].abs(), "{what}: {} fell to {}", pair[0], pair[1]);
    }
    fitted
}

/// The memoized objective never falls, whatever the family, the estimate and L; counts are those of the rows, and rows of
/// transitions sum to one.
#[test]
fn every_likelihood_estimate_schedule_and_sparsity_trains() {
    let schedules = [ScheduleKind::Full, ScheduleKind::Memoized, ScheduleKind::Stochastic, ScheduleKind::Streaming];
    for kind in LikelihoodKind::ALL {
        let lengths = [40, 1, 75, 0, 60, 30, 94, 50];
        let truth = planted_chain(kind, &lengths, 4, 6, ChainShape { blur: 3.0, ..Default::default() }, 11);
        let (rows, groups) = rows_of(&truth);
        for estimate in ESTIMATES {
            for schedule in schedules {
                for (sparsity, search) in [1, 2, 4, 6]
                    .map(|sparsity| (sparsity, SequenceSearch::Dense))
                    .into_iter()
                    .chain([1, 3].map(|sparsity| (sparsity, SequenceSearch::Followers)))
                {
                    let what = format!("{} {estimate:?} {schedule:?} L={sparsity} {search:?}", kind.name());
                    let config = SequenceConfig {
                        likelihood: kind,
                        states: 6,
                        sparsity: Sparsity::Of(sparsity),
                        search,
                        estimate,
                        schedule,
                        batches: if schedule == ScheduleKind::Full { Some(1) } else { Some(3) },
                        laps: Some(8),
                        tolerance: None,
                        stickiness: 0.5,
                        // What several starts cost is not to be paid hundreds of times.
                        init: Init::Bregman,
                        seed: 3,
                        ..Default::default()
                    };
                    let model = train(&rows, &groups, &config, &what).model;
                    let transitions = model.transitions();
                    for row in transitions.chunks(6).chain([&model.start()[..]]) {
                        assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{what}: {row:?}");
                    }
                    if matches!(schedule, ScheduleKind::Full | ScheduleKind::Memoized) {
                        let counts = &model.total;
                        assert!((counts.clusters.total_weight() - 350.0).abs() < 1e-6, "{what}");
                        assert!((counts.chain.start.iter().sum::<f64>() - 7.0).abs() < 1e-6, "{what}");
                        assert!((counts.chain.count.iter().sum::<f64>() - 343.0).abs() < 1e-6, "{what}");
                    }
                    let score = model.score(&rows, Some(&groups)).unwrap();
                    assert!(score.mean().is_finite(), "{what}");
                }
            }
        }
    }
}

/// The log likelihood of a sequence as a sum over all paths.
#[test]
fn scores_shares_and_best_paths_are_those_of_all_paths() {
    let truth =
        planted_chain(LikelihoodKind::DiagGauss, &[6; 40], 2, 3, ChainShape { blur: 6.0, ..Default::default() }, 5);
    let (rows, groups) = rows_of(&truth);
    let likelihood = LikelihoodKind::DiagGauss;
    let config = SequenceConfig { likelihood, states: 3, estimate: Estimate::MaxLikelihood, ..Default::default() };
    let model = fit_sequence(&rows, &groups, &config).unwrap().model;
    let (means, variances) = (&model.array("means").unwrap().values, &model.array("variances").unwrap().values);
    let (start, transitions) = (model.start(), model.transitions());
    let density = |n: usize, k: usize| -> f64 {
        let term = |d: usize| {
            let (m, v) = (means[2 * k + d], variances[2 * k + d]);
            let away = truth.values[2 * n + d] - m;
            -0.5 * ((2.0 * std::f64::consts::PI * v).ln() + away * away / v)
        };
        (term(0) + term(1)).exp()
    };
    let scores = model.score(&rows, Some(&groups)).unwrap();
    let (paths, path_weight) = model.best_paths(&rows, Some(&groups)).unwrap();
    let (mut states, mut shares) = (Vec::new(), Vec::new());
    model
        .assign(&rows, Some(&groups), 3, &mut |index, value| {
            states.extend_from_slice(index);
            shares.extend_from_slice(value);
            Ok(())
        })
        .unwrap();
    let mut best_sum = 0.0;
    for sequence in 0..40 {
        let first = 6 * sequence;
        let (mut total, mut best, mut best_path) = (0.0, 0.0, 0usize);
        let mut share = [[0.0; 3]; 6];
        for code in 0..729usize {
            let state = |t: u32| code / 3usize.pow(t) % 3;
            let mut weight = start[state(0)] * density(first, state(0));
            for t in 1..6 {
                weight *= transitions[3 * state(t - 1) + state(t)] * density(first + t as usize, state(t));
            }
            total += weight;
            (0..6).for_each(|t| share[t][state(t as u32)] += weight);
            if weight > best {
                (best, best_path) = (weight, code);
            }
        }
        let found: f64 = scores.log_density[first..first + 6].iter().sum();
        assert!((found - total.ln()).abs() < 1e-9, "{found} and {}", total.ln());
        best_sum += best.ln();
        for t in 0..6 {
            assert_eq!(paths[first + t] as usize, best_path / 3usize.pow(t as u32) % 3);
            let at = 3 * (first + t);
            assert!(shares[at] >= shares[at + 1] && shares[at + 1] >= shares[at + 2]);
            for (k, value) in states[at..at + 3].iter().zip(&shares[at..at + 3]) {
                assert!((share[t][*k as usize] / total - value).abs() < 1e-9);
            }
        }
    }
    assert!((path_weight - best_sum).abs() < 1e-8 * best_sum.abs());
}

#[test]
fn planted_chains_are_recovered_with_few_states_a_step() {
    let likelihood = LikelihoodKind::DiagGauss;
    let truth = planted_chain(likelihood, &[250; 48], 8, 20, ChainShape { blur: 2.0, ..Default::default() }, 7);
    // The second half is held out.
    let half = |range: std::ops::Range<usize>| MemoryRows::new("half", 8, truth.values[range].to_vec()).unwrap();
    let (rows, held) = (half(0..48_000), half(48_000..96_000));
    let groups = Groups::of_lengths("lengths", &[250; 24], 6000).unwrap();
    let mut means = Vec::new();
    for sparsity in [4, 20] {
        let config = SequenceConfig { likelihood, states: 20, sparsity: Sparsity::Of(sparsity), ..Default::default() };
        let model = train(&rows, &groups, &config, &format!("L = {sparsity}")).model;
        let (paths, _) = model.best_paths(&rows, Some(&groups)).unwrap();
        let agreement = agreement(&truth.labels[..6000], &paths);
        println!("L = {sparsity}: NMI {agreement}");
        assert!(agreement > 0.9, "L = {sparsity}: NMI {agreement}");
        means.push(model.score(&held, Some(&groups)).unwrap().mean());
    }
    assert!((means[0] - means[1]).abs() < 1e-3 * means[1].abs(), "{means:?}");
}

/// Far too many states for the rows there are: the default start does not end worse than states by clusters of rows, and not
/// by far worse than the states there were.
#[test]
fn too_many_states_for_few_rows_do_not_collapse() {
    let likelihood = LikelihoodKind::Gauss;
    let truth = planted_chain(likelihood, &[100; 20], 3, 5, ChainShape { blur: 2.0, ..Default::default() }, 3);
    let part = |range: std::ops::Range<usize>| MemoryRows::new("part", 3, truth.values[range].to_vec()).unwrap();
    let (rows, held) = (part(0..4500), part(4500..6000));
    let lengths = |num: usize| Groups::of_lengths("lengths", &vec![100; num], 100 * num).unwrap();
    let score = |states: usize, init: Init| {
        let config = SequenceConfig { likelihood, states, init, ..Default::default() };
        let model = fit_sequence(&rows, &lengths(15), &config).unwrap().model;
        model.score(&held, Some(&lengths(5))).unwrap().mean()
    };
    let few = score(5, Init::Auto);
    for states in [200, 300] {
        let (found, by_rows) = (score(states, Init::Auto), score(states, Init::Kmeans));
        println!("{states} states: {found}, by clusters of rows {by_rows}, five states {few}");
        assert!(found > by_rows - 0.1, "{states} states: {found}, by clusters of rows {by_rows}");
        assert!(states > 200 || found > few - 0.5, "{states} states: {found}, five states {few}");
    }
}

/// Symbols from a chain whose states give the same ones, only not as often, as rows with a single one: where rows are clustered
/// in any order every symbol is a cluster, and training that starts there rests there.
#[test]
fn symbols_that_several_states_give_are_no_trap() {
    let mut seed = 5u64;
    let mut random = move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as f64 / (1u64 << 31) as f64
    };
    let draw = |shares: &[f64], at: f64| {
        let mut sum = 0.0;
        shares.iter().position(|share| (sum += share, at < sum).1).unwrap_or(shares.len() - 1)
    };
    let slow = (vec![vec![0.95, 0.05], vec![0.1, 0.9]], vec![vec![0.4, 0.3, 0.2, 0.1], vec![0.1, 0.2, 0.3, 0.4]]);
    let fast = (
        vec![vec![0.1, 0.8, 0.1], vec![0.1, 0.1, 0.8], vec![0.8, 0.1, 0.1]],
        vec![vec![0.45, 0.45, 0.05, 0.05], vec![0.05, 0.45, 0.45, 0.05], vec![0.05, 0.05, 0.45, 0.45]],
    );
    for (name, (transitions, emissions)) in [("slow", slow), ("fast", fast)] {
        let states = transitions.len();
        let mut symbols = || -> Vec<usize> {
            let mut state = 0;
            let mut step = || {
                state = draw(&transitions[state], random());
                draw(&emissions[state], random())
            };
            (0..4000).map(|_| step()).collect()
        };
        let (train, held) = (symbols(), symbols());
        let source = |symbols: &[usize]| {
            let index = symbols.iter().map(|&k| k as u32).collect();
            CsrRows::new("symbols", 4, (0..=4000).collect(), index, vec![1.0f64; 4000]).unwrap()
        };
        // What the chain itself gives to the symbols that are held out.
        let (mut share, mut truth) = (vec![1.0 / states as f64; states], 0.0);
        for &symbol in &held {
            let weights: Vec<f64> = (0..states).map(|k| share[k] * emissions[k][symbol]).collect();
            let norm: f64 = weights.iter().sum();
            truth += norm.ln() / 4000.0;
            share = (0..states).map(|k| (0..states).map(|j| weights[j] / norm * transitions[j][k]).sum()).collect();
        }
        let groups = Groups::of_lengths("lengths", &[400; 10], 4000).unwrap();
        for seed in 0..3 {
            let likelihood = LikelihoodKind::Multinomial;
            let config = SequenceConfig { likelihood, states, seed, ..Default::default() };
            let model = fit_sequence(&source(&train), &groups, &config).unwrap().model;
            let found = model.score(&source(&held), Some(&groups)).unwrap().mean();
            println!("{name}, seed {seed}: {found} of {truth}");
            assert!(found > truth - 0.01, "{name}, seed {seed}: {found}, the chain itself {truth}");
        }
    }
}

/// L rises until little is lost, and only where states are hard to tell apart; the objective does not fall on the way.
#[test]
fn as_few_states_are_kept_as_lose_little() {
    let likelihood = LikelihoodKind::DiagGauss;
    let kept = |blur: f64| {
        let truth = planted_chain(likelihood, &[150; 12], 3, 12, ChainShape { blur, ..Default::default() }, 19);
        let (rows, groups) = rows_of(&truth);
        let config = SequenceConfig {
            likelihood,
            states: 12,
            sparsity: Sparsity::Auto,
            batches: Some(3),
            laps: Some(12),
            tolerance: None,
            ..Default::default()
        };
        let model = train(&rows, &groups, &config, &format!("blur {blur}")).model;
        assert!(
            model.config.sparsity_tolerance == Some(0.01) && model.config.sparsity == Sparsity::Of(model.sparsity())
        );
        model.sparsity()
    };
    let (clear, ambiguous) = (kept(1.0), kept(12.0));
    assert!(clear <= 4 && ambiguous >= 8, "{clear} and {ambiguous}");
}

/// States so far apart that shares of others are hardly numbers any more: maximum likelihood makes no infinity of them.
#[test]
fn shares_that_are_next_to_nothing_are_nothing() {
    let likelihood = LikelihoodKind::DiagGauss;
    let truth = planted_chain(likelihood, &[100; 20], 16, 20, ChainShape { blur: 2.0, ..Default::default() }, 1);
    let (rows, groups) = rows_of(&truth);
    for sparsity in [4, 20] {
        let config = SequenceConfig {
            likelihood,
            states: 20,
            sparsity: Sparsity::Of(sparsity),
            estimate: Estimate::MaxLikelihood,
            schedule: ScheduleKind::Full,
            laps: Some(8),
            tolerance: None,
            ..Default::default()
        };
        let model = train(&rows, &groups, &config, &format!("L = {sparsity}")).model;
        assert!(model.training.objective.is_finite());
    }
}

#[test]
fn the_same_bytes_at_any_number_of_threads() {
    let truth =
        planted_chain(LikelihoodKind::Gauss, &[90; 60], 3, 9, ChainShape { blur: 3.0, ..Default::default() }, 2);
    let (rows, groups) = rows_of(&truth);
    for (sparsity, search) in [
        (1, SequenceSearch::Dense),
        (3, SequenceSearch::Dense),
        (3, SequenceSearch::Followers),
        (9, SequenceSearch::Dense),
    ] {
        let config = SequenceConfig {
            search,
            states: 9,
            sparsity: Sparsity::Of(sparsity),
            batches: Some(3),
            laps: Some(4),
            tolerance: None,
            ..Default::default()
        };
        let run = || {
            let model = fit_sequence(&rows, &groups, &config).unwrap().model;
            let scores = model.score(&rows, Some(&groups)).unwrap().log_density;
            (model.to_bytes().unwrap(), scores.iter().map(|score| score.to_bits()).collect::<Vec<_>>())
        };
        let one = with_threads(1, run).unwrap();
        for threads in [2, 3, 8] {
            assert!(with_threads(threads, run).unwrap() == one, "L = {sparsity} on {threads} threads");
        }
    }
}

/// Stops a run after so many steps.
struct StopAfter<'a>(u64, &'a std::sync::atomic::AtomicBool);

impl Observer for StopAfter<'_> {
    fn step(&mut self, info: &StepInfo) -> lsparse::Result<()> {
        if info.step >= self.0 {
            self.1.store(true, std::sync::atomic::Ordering::Relaxed);
        }
        Ok(())
    }
}

#[test]
fn a_run_that_goes_on_from_a_checkpoint_is_the_run_that_was_never_ended() {
    let truth =
        planted_chain(LikelihoodKind::DiagGauss, &[60; 20], 3, 9, ChainShape { blur: 3.0, ..Default::default() }, 4);
    let (rows, groups) = rows_of(&truth);
    let inputs = || SequenceInputs { groups: Some(&groups), ..Default::default() };
    for (estimate, sparsity, memo_memory) in
        [(Estimate::Posterior, 3, None), (Estimate::MaxLikelihood, 2, Some(1)), (Estimate::Map, 9, None)]
    {
        let config = SequenceConfig {
            likelihood: LikelihoodKind::DiagGauss,
            states: 9,
            estimate,
            sparsity: Sparsity::Of(sparsity),
            batches: Some(4),
            laps: Some(5),
            tolerance: None,
            ..Default::default()
        };
        let whole = fit_sequence_with(&rows, &config, inputs(), Beside::default()).unwrap().model.to_bytes().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let run = |resume: bool, stop_after: u64| {
            let every = std::time::Duration::ZERO;
            let path = folder.path().join("run.ckpt");
            let checkpoint = Some(Checkpointing { every, resume, ..Checkpointing::new(path) });
            let flag = std::sync::atomic::AtomicBool::new(false);
            let mut stop = StopAfter(stop_after, &flag);
            let beside = Beside {
                observer: Some(&mut stop),
                interrupt: Some(&flag),
                storage: Storage { checkpoint, memo_memory },
                ..Default::default()
            };
            fit_sequence_with(&rows, &config, inputs(), beside).unwrap().model.to_bytes().unwrap()
        };
        assert_ne!(run(false, 7), whole);
        assert!(run(true, u64::MAX) == whole, "{estimate:?}");
    }
}

#[test]
fn missing_steps_have_no_emission() {
    let likelihood = LikelihoodKind::DiagGauss;
    let mut truth = planted_chain(likelihood, &[100; 20], 2, 4, ChainShape { blur: 1.5, ..Default::default() }, 9);
    let whole = truth.clone();
    for n in (0..2000).filter(|n| n % 7 == 3) {
        truth.values[2 * n..2 * n + 2].fill(f64::NAN);
    }
    let (rows, groups) = rows_of(&truth);
    let config = SequenceConfig { likelihood, states: 4, batches: Some(3), ..Default::default() };
    let error = fit_sequence(&rows, &groups, &config).err().unwrap();
    assert!(matches!(error, Error::NotFinite { row: 3, column: 0, .. }), "{error}");
    let config = SequenceConfig { missing: true, ..config };
    for sparsity in [2, 4] {
        let config = SequenceConfig { sparsity: Sparsity::Of(sparsity), ..config.clone() };
        let model = train(&rows, &groups, &config, "missing").model;
        let there = 2000.0 - 286.0;
        assert!((model.total.clusters.total_weight() - there).abs() < 1e-6);
        assert!((model.total.chain.count.iter().sum::<f64>() - 1980.0).abs() < 1e-6);
        let (paths, _) = model.best_paths(&rows, Some(&groups)).unwrap();
        assert!(agreement(&whole.labels, &paths) > 0.8);
        let scores = model.score(&rows, Some(&groups)).unwrap();
        assert!(scores.log_density[3] == 0.0 && scores.observed == 1714);
        // A step that nothing is known of has states all the same.
        let mut row = 0;
        model
            .assign(&rows, Some(&groups), sparsity, &mut |_, shares| {
                for shares in shares.chunks(sparsity) {
                    assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9, "row {row}");
                    row += 1;
                }
                Ok(())
            })
            .unwrap();
    }
    // Counts know of whole rows alone.
    let counts = planted_chain(LikelihoodKind::Poisson, &[200], 2, 2, ChainShape::default(), 9);
    let mut values = counts.values.clone();
    values[20] = f64::NAN;
    let rows = MemoryRows::new("counts", 2, values.clone()).unwrap();
    let config = SequenceConfig { likelihood: LikelihoodKind::Poisson, states: 2, missing: true, ..Default::default() };
    let text = fit_sequence(&rows, &Groups::one(200), &config).err().unwrap().to_string();
    assert!(text.contains("row 11, column 1"), "{text}");
    values[21] = f64::NAN;
    let rows = MemoryRows::new("counts", 2, values).unwrap();
    for likelihood in [LikelihoodKind::Poisson, LikelihoodKind::Multinomial, LikelihoodKind::Gauss] {
        let config = SequenceConfig { likelihood, states: 2, missing: true, ..Default::default() };
        let model = fit_sequence(&rows, &Groups::one(200), &config).unwrap().model;
        assert!((model.total.clusters.total_weight() - 199.0).abs() < 1e-6, "{likelihood:?}");
    }
}

#[test]
fn odd_sequences_are_trained_on_and_wrong_groups_refused() {
    let one = MemoryRows::new("one", 1, vec![3.0]).unwrap();
    let config = SequenceConfig { states: 1, likelihood: LikelihoodKind::DiagGauss, ..Default::default() };
    let model = fit_sequence(&one, &Groups::of_lengths("lengths", &[0, 1, 0], 1).unwrap(), &config).unwrap().model;
    assert_eq!(model.transitions(), [1.0]);
    // All rows equal, and more states than there is to tell apart.
    let equal = MemoryRows::new("equal", 2, vec![2.0; 200]).unwrap();
    for estimate in ESTIMATES {
        let config = SequenceConfig { states: 5, estimate, sparsity: Sparsity::Of(2), ..config.clone() };
        let model = fit_sequence(&equal, &Groups::one(100), &config).unwrap().model;
        assert!(model.score(&equal, None).unwrap().mean().is_finite(), "{estimate:?}");
        let bytes = model.to_bytes().unwrap();
        assert_eq!(SequenceModel::from_bytes("m".as_ref(), &bytes).unwrap(), model);
    }
    let wrong = Groups::of_lengths("lengths", &[50, 49], 99).unwrap();
    let text = fit_sequence(&equal, &wrong, &config).err().unwrap().to_string();
    assert!(text.contains("add up to 99, and there are 100 rows"), "{text}");
    let config = SequenceConfig { batches: Some(3), ..config };
    let text = fit_sequence(&equal, &Groups::one(100), &config).err().unwrap().to_string();
    assert!(text.contains("3 batches for 1 sequence"), "{text}");
}

#[test]
fn single_precision_and_viterbi_training_find_the_same_chain() {
    let likelihood = LikelihoodKind::DiagGauss;
    let truth = planted_chain(likelihood, &[200; 10], 3, 5, ChainShape::default(), 13);
    let (rows, groups) = rows_of(&truth);
    let config = SequenceConfig { likelihood, states: 5, ..Default::default() };
    let ways = [
        config.clone(),
        SequenceConfig { precision: Precision::F32, ..config.clone() },
        SequenceConfig { method: SequenceMethod::Viterbi, ..config },
    ];
    for config in ways {
        let model = fit_sequence(&rows, &groups, &config).unwrap().model;
        let (paths, _) = model.best_paths(&rows, Some(&groups)).unwrap();
        assert!(agreement(&truth.labels, &paths) > 0.95, "{:?}", config.method);
    }
}

/// What is drawn from a model is what it was trained on, and a model goes on from where it was.
#[test]
fn models_are_drawn_from_and_gone_on_from() {
    let likelihood = LikelihoodKind::DiagGauss;
    let truth = planted_chain(likelihood, &[300; 12], 2, 3, ChainShape::default(), 17);
    let (rows, groups) = rows_of(&truth);
    let config = SequenceConfig {
        likelihood,
        states: 3,
        estimate: Estimate::MaxLikelihood,
        schedule: ScheduleKind::Full,
        laps: Some(3),
        tolerance: None,
        ..Default::default()
    };
    let model = fit_sequence(&rows, &groups, &config).unwrap().model;
    let drawn = model.sample(20_000, None, None, 1).unwrap();
    assert_eq!(drawn, model.sample(20_000, None, None, 1).unwrap());
    let (transitions, means) = (model.transitions(), &model.array("means").unwrap().values);
    for j in 0..3 {
        let steps: Vec<usize> = (0..20_000).filter(|&n| drawn.states[n] == j as u32).collect();
        let mean = steps.iter().map(|&n| drawn.values[2 * n]).sum::<f64>() / steps.len() as f64;
        assert!((mean - means[2 * j]).abs() < 0.2, "{mean} and {}", means[2 * j]);
        for k in 0..3 {
            let followed = steps.iter().filter(|&&n| drawn.states.get(n + 1) == Some(&(k as u32))).count();
            let share = followed as f64 / steps.len() as f64;
            assert!((share - transitions[3 * j + k]).abs() < 0.03, "{share} and {}", transitions[3 * j + k]);
        }
    }
    let state = drawn.states[0];
    let after = model.sample(1, Some(state), None, 2).unwrap();
    assert_eq!(after.states.len(), 1);
    assert!(model.sample(1, Some(3), None, 2).is_err());
    // Three laps and two more are five.
    let five = SequenceConfig { laps: Some(5), ..config.clone() };
    let five = fit_sequence(&rows, &groups, &five).unwrap().model;
    let two = SequenceConfig { laps: Some(2), ..config };
    let inputs = SequenceInputs { groups: Some(&groups), start: Some(&model), ..Default::default() };
    let more = fit_sequence_with(&rows, &two, inputs, Beside::default()).unwrap().model;
    for (a, b) in more.transitions().iter().zip(five.transitions()) {
        assert!((a - b).abs() < 1e-12);
    }
}

#[test]
fn files_that_are_damaged_are_refused() {
    let truth = planted_chain(LikelihoodKind::TiedGauss, &[50; 4], 2, 3, ChainShape::default(), 1);
    let (rows, groups) = rows_of(&truth);
    let config = SequenceConfig { likelihood: LikelihoodKind::TiedGauss, states: 3, ..Default::default() };
    let model = fit_sequence(&rows, &groups, &config).unwrap().model;
    let bytes = model.to_bytes().unwrap();
    assert_eq!(SequenceModel::from_bytes("m".as_ref(), &bytes).unwrap(), model);
    let mut wrong = model.clone();
    wrong.total.chain.to[0] = 7;
    assert!(SequenceModel::from_bytes("m".as_ref(), &wrong.to_bytes().unwrap()).is_err());
    let mut wrong = model.clone();
    wrong.total.chain.ends[0] += 1;
    wrong.total.chain.to.truncate(2);
    assert!(SequenceModel::from_bytes("m".as_ref(), &wrong.to_bytes().unwrap()).is_err());
    for cut in [0, 7, 40, bytes.len() / 2, bytes.len() - 1] {
        assert!(SequenceModel::from_bytes("m".as_ref(), &bytes[..cut]).is_err());
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.safetensors");
    model.save_to(&path).unwrap();
    assert_eq!(lsparse::AnyModel::load(&path).unwrap().kind(), "sequence");
    assert!(lsparse::MixtureModel::load(&path).err().unwrap().to_string().contains("a hidden Markov model"));
}
