//! Long sequences that are worked on in stretches: what overlaps leave of the seams, statistics that count once, scores that
//! need no stretches, batches and bits.

use lsparse::backend::with_threads;
use lsparse::data::{Groups, MemoryRows, RowSource};
use lsparse::likelihood::Estimate;
use lsparse::settings::{Init, SequenceSearch};
use lsparse::synthetic::{ChainShape, planted_chain};
use lsparse::training::schedule::ScheduleKind;
use lsparse::{LikelihoodKind, SequenceConfig, SequenceModel, Sparsity, fit_sequence};

const STATES: usize = 8;

/// One long sequence of states that are hard to tell apart by a row, the more the blurrier, and a short one.
fn long(blur: f64, stay: f64) -> (MemoryRows<f64>, Groups) {
    let lengths = [6000, 500];
    let shape = ChainShape { blur, stay, ..Default::default() };
    let truth = planted_chain(LikelihoodKind::DiagGauss, &lengths, 2, STATES, shape, 4);
    let rows = MemoryRows::new("long", truth.dim, truth.values).unwrap();
    let groups = Groups::of_lengths("lengths", &lengths, rows.num_rows()).unwrap();
    (rows, groups)
}

fn settings() -> SequenceConfig {
    SequenceConfig {
        likelihood: LikelihoodKind::DiagGauss,
        states: STATES,
        schedule: ScheduleKind::Full,
        laps: Some(6),
        tolerance: None,
        init: Init::Bregman,
        ..Default::default()
    }
}

/// Shares of all states at every step.
fn shares(model: &SequenceModel, rows: &dyn RowSource, groups: &Groups, sparsity: usize) -> Vec<f64> {
    let mut out = Vec::new();
    let mut visit = |states: &[u32], shares: &[f64]| {
        for (states, shares) in states.chunks(sparsity).zip(shares.chunks(sparsity)) {
            let first = out.len();
            out.resize(first + STATES, 0.0);
            states.iter().zip(shares).for_each(|(&k, share)| out[first + k as usize] += share);
        }
        Ok(())
    };
    model.assign(rows, Some(groups), sparsity, &mut visit).unwrap();
    out
}

fn farthest(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).fold(0.0, |most, (a, b)| f64::max(most, (a - b).abs()))
}

/// What a stretch does not see is forgotten: states at the seams are those of the whole sequence, the more exactly the more it
/// sees.
#[test]
fn smoothed_states_are_those_of_the_whole_sequence() {
    for (blur, stay, estimate) in
        [(4.0, 0.8, Estimate::Posterior), (4.0, 0.8, Estimate::MaxLikelihood), (20.0, 0.95, Estimate::Posterior)]
    {
        let (rows, groups) = long(blur, stay);
        let whole = fit_sequence(&rows, &groups, &SequenceConfig { estimate, ..settings() }).unwrap().model;
        for sparsity in [3, STATES] {
            let expected = shares(&whole, &rows, &groups, sparsity);
            let mut last = f64::INFINITY;
            for (overlap, bound) in [(2, 1e-2), (20, 1e-9), (250, 1e-12)] {
                let mut cut = whole.clone();
                (cut.config.cut, cut.config.overlap) = (Some(700), overlap);
                let away = farthest(&shares(&cut, &rows, &groups, sparsity), &expected);
                println!("blur {blur}, {estimate:?}, L = {sparsity}: {overlap} steps seen, shares {away:e} apart");
                assert!(away <= bound && away <= last + 1e-12, "blur {blur}, L = {sparsity}, {overlap}: {away:e}");
                last = away;
            }
        }
        let (path, weight) = whole.best_paths(&rows, Some(&groups)).unwrap();
        let mut cut = whole.clone();
        cut.config.cut = Some(700);
        let (cut_path, cut_weight) = cut.best_paths(&rows, Some(&groups)).unwrap();
        assert_eq!(path, cut_path);
        assert!((weight - cut_weight).abs() < 1e-9 * weight.abs(), "{weight} and {cut_weight}");
    }
}

/// Two states that hardly differ and last a hundred steps: what a step is in, many steps tell together, and a stretch must see
/// them.
#[test]
fn states_that_many_steps_tell_want_to_be_seen_with_more() {
    let mut seed = 3u64;
    let mut random = move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as f64 / (1u64 << 31) as f64
    };
    let mut state = 1.0;
    let mut step = || {
        state = if random() < 0.01 { -state } else { state };
        // Twelve uniform numbers are nearly normal.
        0.4 * state + (0..12).map(|_| random()).sum::<f64>() - 6.0
    };
    let rows = MemoryRows::new("slow", 1, (0..12_000).map(|_| step()).collect()).unwrap();
    let groups = Groups::one(12_000);
    let config = SequenceConfig { states: 2, laps: Some(40), init: Init::Auto, ..settings() };
    let whole = fit_sequence(&rows, &groups, &config).unwrap().model;
    let smoothed = |model: &SequenceModel| {
        let mut out = vec![0.0; 2 * 12_000];
        let mut row = 0;
        let mut visit = |states: &[u32], shares: &[f64]| {
            states.iter().zip(shares).for_each(|(&k, share)| {
                out[row / 2 * 2 + k as usize] = *share;
                row += 1;
            });
            Ok(())
        };
        model.assign(&rows, Some(&groups), 2, &mut visit).unwrap();
        out
    };
    let expected = smoothed(&whole);
    let away = [10, 100, 1000].map(|overlap| {
        let mut cut = whole.clone();
        (cut.config.cut, cut.config.overlap) = (Some(1500), overlap);
        farthest(&smoothed(&cut), &expected)
    });
    println!("shares {away:?} apart with 10, 100 and 1,000 steps seen");
    assert!(away[0] > 0.01 && away[1] < away[0] && away[2] < 1e-6, "{away:?}");
}

/// Every step and transition counts once, sequences begin as often as there are some, and training in stretches that see
/// enough is that of whole sequences, whatever L.
#[test]
fn statistics_count_once_and_training_is_that_of_whole_sequences() {
    let (rows, groups) = long(4.0, 0.8);
    for (sparsity, search) in [
        (1, SequenceSearch::Dense),
        (3, SequenceSearch::Dense),
        (3, SequenceSearch::Followers),
        (STATES, SequenceSearch::Dense),
    ] {
        let config = SequenceConfig { sparsity: Sparsity::Of(sparsity), search, ..settings() };
        let whole = fit_sequence(&rows, &groups, &config).unwrap();
        let cut = SequenceConfig { cut: Some(700), ..config.clone() };
        let in_parts = fit_sequence(&rows, &groups, &cut).unwrap();
        let batches = SequenceConfig { schedule: ScheduleKind::Memoized, batches: Some(5), ..cut.clone() };
        let in_batches = fit_sequence(&rows, &groups, &batches).unwrap();
        for fitted in [&whole, &in_parts, &in_batches] {
            let total = &fitted.model.total;
            assert!((total.clusters.total_weight() - 6500.0).abs() < 1e-6);
            assert!((total.chain.start.iter().sum::<f64>() - 2.0).abs() < 1e-9);
            assert!((total.chain.count.iter().sum::<f64>() - 6498.0).abs() < 1e-6);
        }
        if search == SequenceSearch::Followers {
            // States that are looked at at random are others at every visit.
            continue;
        }
        let (a, b) = (whole.outcome.objective.total(), in_parts.outcome.objective.total());
        let bound = if sparsity == STATES { 1e-9 } else { 1e-4 };
        println!("L = {sparsity}: objective {a} whole, {b} in stretches");
        assert!((a - b).abs() < bound * a.abs(), "L = {sparsity}: {a} and {b}");
        if sparsity == STATES {
            let means = |model: &SequenceModel| model.array("means").unwrap().values.clone();
            assert!(farthest(&means(&whole.model), &means(&in_parts.model)) < 1e-7);
            assert!(farthest(&whole.model.transitions(), &in_parts.model.transitions()) < 1e-7);
        }
    }
}

#[test]
fn stretches_have_the_same_bytes_at_any_number_of_threads() {
    let (rows, groups) = long(4.0, 0.8);
    for sparsity in [3, STATES] {
        let schedule = ScheduleKind::Memoized;
        let (sparsity, cut, laps) = (Sparsity::Of(sparsity), Some(400), Some(3));
        let config = SequenceConfig { sparsity, schedule, cut, laps, batches: Some(4), ..settings() };
        let run = || fit_sequence(&rows, &groups, &config).unwrap().model.to_bytes().unwrap();
        let one = with_threads(1, run).unwrap();
        [2, 3].into_iter().for_each(|threads| assert!(with_threads(threads, run).unwrap() == one));
    }
}

/// Scores are worked out some steps at a time, and are those of the whole sequence.
#[test]
fn scores_of_very_long_sequences_are_exact() {
    let lengths = [70_000, 3, 140_000];
    let shape = ChainShape { blur: 4.0, ..Default::default() };
    let truth = planted_chain(LikelihoodKind::DiagGauss, &lengths, 1, 3, shape, 9);
    let rows = MemoryRows::new("long", 1, truth.values.clone()).unwrap();
    let groups = Groups::of_lengths("lengths", &lengths, rows.num_rows()).unwrap();
    let config = SequenceConfig { states: 3, laps: Some(2), estimate: Estimate::MaxLikelihood, ..settings() };
    let model = fit_sequence(&rows, &groups, &config).unwrap().model;
    let (means, variances) = (&model.array("means").unwrap().values, &model.array("variances").unwrap().values);
    let (start, transitions) = (model.start(), model.transitions());
    let found = model.score(&rows, Some(&groups)).unwrap().log_density;
    let mut row = 0;
    for length in lengths {
        let mut share = start.clone();
        for _ in 0..length {
            let weigh = |k: usize| {
                let (away, v) = (truth.values[row] - means[k], variances[k]);
                share[k] * (-0.5 * away * away / v).exp() / (2.0 * std::f64::consts::PI * v).sqrt()
            };
            let weights: Vec<f64> = (0..3).map(weigh).collect();
            let norm: f64 = weights.iter().sum();
            assert!((found[row] - norm.ln()).abs() < 1e-8 * norm.ln().abs().max(1.0), "row {row}");
            share = (0..3).map(|k| (0..3).map(|j| weights[j] / norm * transitions[3 * j + k]).sum()).collect();
            row += 1;
        }
    }
}

/// What is long is cut without being asked, and that is said; what is not long is not, and a window longer than all is none.
#[test]
fn long_sequences_are_cut_and_it_is_said() {
    let groups = Groups::of_lengths("lengths", &[60_000, 40_000], 100_000).unwrap();
    let windows = SequenceConfig::default().windows(&groups);
    assert_eq!(windows.len(), 13);
    assert!(windows[..12].iter().all(|window| window.own.len() == 5000 && window.rows.len() <= 5500));
    assert_eq!(windows[12].rows, 60_000..100_000);
    let whole = SequenceConfig { cut: Some(1 << 40), ..Default::default() }.windows(&groups);
    assert_eq!(whole, groups.whole());
}
