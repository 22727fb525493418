//! Every likelihood x estimate x schedule x L from one list: trains, is monotone where it should be, and recovers.

use lsparse::data::{Groups, MemoryRows, RowSource};
use lsparse::likelihood::{Estimate, NamedArray};
use lsparse::settings::{Condition, Kind, Setting, Settings};
use lsparse::synthetic::{planted, planted_patches};
use lsparse::training::observe::Observer;
use lsparse::training::schedule::ScheduleKind;
use lsparse::training::trace::StepInfo;
use lsparse::{
    Beside, LikelihoodKind, MixtureConfig, MixtureInputs, MixtureModel, SequenceConfig, Sparsity, fit_mixture,
    fit_mixture_with, fit_sequence,
};
use serde_json::{Map, Value, json};

const ESTIMATES: [Estimate; 3] = [Estimate::Posterior, Estimate::Map, Estimate::MaxLikelihood];
const SCHEDULES: [ScheduleKind; 4] =
    [ScheduleKind::Full, ScheduleKind::Memoized, ScheduleKind::Stochastic, ScheduleKind::Streaming];

/// Remembers the objective of every step.
#[derive(Default)]
struct Objectives(Vec<(f64, f64)>);

impl Observer for Objectives {
    fn step(&mut self, info: &StepInfo) -> lsparse::Result<()> {
        self.0.extend(info.objective.map(|objective| (info.lap, objective.total())));
        Ok(())
    }
}

/// Objectives must not fall, to 1e-9 relative, from the second step (full) or from the end of the first lap (memoized).
fn assert_monotone(objectives: &[(f64, f64)], schedule: ScheduleKind, what: &str) {
    let sure = match schedule {
        ScheduleKind::Full => 0.0,
        ScheduleKind::Memoized => 1.0,
        _ => return,
    };
    let exact: Vec<f64> = objectives.iter().filter(|(lap, _)| *lap >= sure).map(|(_, value)| *value).collect();
    assert!(exact.len() > 3, "{what}: too few steps to tell");
    for pair in exact.windows(2) {
        assert!(pair[1] >= pair[0] - 1e-9 * pair[0].abs(), "{what}: {} fell to {}", pair[0], pair[1]);
    }
}

fn train(source: &dyn RowSource, config: &MixtureConfig, what: &str) -> lsparse::Fitted<MixtureModel> {
    let mut objectives = Objectives::default();
    let beside = Beside { observer: Some(&mut objectives), ..Default::default() };
    let fitted =
        fit_mixture_with(source, config, MixtureInputs::default(), beside).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert_monotone(&objectives.0, config.schedule, what);
    fitted
}

fn check_model(fitted: &lsparse::Fitted<MixtureModel>, source: &dyn RowSource, what: &str) {
    let model = &fitted.model;
    assert!((model.weights.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{what}: weights do not sum to one");
    assert!(model.arrays.iter().all(|a| a.values.iter().all(|v| v.is_finite())), "{what}: arrays are not finite");
    let rows = source.num_rows() as f64;
    if model.config.schedule != ScheduleKind::Stochastic {
        assert!((model.total.total_weight() / rows - 1.0).abs() < 1e-9, "{what}: counts do not sum to N");
    }
    let mean = model.score(source).unwrap().mean();
    assert!(mean.is_finite(), "{what}: score {mean}");
}

#[test]
fn every_likelihood_estimate_schedule_and_sparsity_trains() {
    for kind in LikelihoodKind::ALL {
        let truth = planted(kind, 400, 5, 6, 11);
        let source = MemoryRows::new("planted", truth.dim, truth.values.clone()).unwrap();
        for estimate in ESTIMATES {
            for schedule in SCHEDULES {
                for sparsity in [1, 2, 4, 6] {
                    let what = format!("{} {estimate:?} {schedule:?} L={sparsity}", kind.name());
                    let config = MixtureConfig {
                        likelihood: kind,
                        clusters: 6,
                        sparsity: Sparsity::Of(sparsity),
                        estimate,
                        schedule,
                        batches: if schedule == ScheduleKind::Full { Some(1) } else { Some(4) },
                        laps: Some(8),
                        tolerance: None,
                        ..Default::default()
                    };
                    check_model(&train(&source, &config, &what), &source, &what);
                }
            }
        }
    }
}

/// Real-like rows: patches with their mean removed (rank 63 of 64 but for sensor noise) of several contrasts, exact
/// zeros among them; and rows of the other families with many overlapping clusters.
fn real_like(kind: LikelihoodKind) -> MemoryRows<f64> {
    match kind {
        LikelihoodKind::ZeroMeanGauss => {
            let mut truth = planted_patches(3000, 4, 30, 3);
            truth.values[..20 * truth.dim].fill(0.0);
            MemoryRows::new("patches", truth.dim, truth.values).unwrap()
        }
        kind if kind.family().has_means => {
            // Far from zero, one constant column, copies of rows.
            let mut truth = planted(kind, 3000, 8, 20, 5);
            for row in truth.values.chunks_exact_mut(8) {
                row[0] += 1000.0;
                row[7] = 3.0;
            }
            let copy = truth.values[..80].to_vec();
            truth.values.splice(800..880, copy);
            MemoryRows::new("rows", 8, truth.values).unwrap()
        }
        _ => {
            let truth = planted(kind, 2000, 40, 20, 5);
            MemoryRows::new("rows", 40, truth.values).unwrap()
        }
    }
}

#[test]
fn objectives_are_monotone_on_data_that_looks_real_with_many_clusters() {
    for kind in LikelihoodKind::ALL {
        let source = real_like(kind);
        for estimate in ESTIMATES {
            for schedule in [ScheduleKind::Full, ScheduleKind::Memoized] {
                for sparsity in [1, 2, 4, 60] {
                    let what = format!("{} {estimate:?} {schedule:?} L={sparsity}", kind.name());
                    let config = MixtureConfig {
                        likelihood: kind,
                        clusters: 60,
                        sparsity: Sparsity::Of(sparsity),
                        estimate,
                        schedule,
                        batches: if schedule == ScheduleKind::Full { Some(1) } else { Some(5) },
                        laps: Some(8),
                        tolerance: None,
                        ..Default::default()
                    };
                    check_model(&train(&source, &config, &what), &source, &what);
                }
            }
        }
    }
}

/// Share of rows whose cluster goes with their true one, when each found cluster stands for its commonest label.
fn purity(labels: &[usize], assigned: &[u32], num: usize) -> f64 {
    let mut table = vec![vec![0usize; num]; num];
    for (&label, &k) in labels.iter().zip(assigned) {
        table[k as usize][label] += 1;
    }
    table.iter().map(|row| row.iter().max().unwrap()).sum::<usize>() as f64 / labels.len() as f64
}

#[test]
fn planted_clusters_are_found_again() {
    for kind in LikelihoodKind::ALL {
        // Zero-mean clusters differ by shape alone, so they need more columns to tell apart.
        let dim = if kind == LikelihoodKind::ZeroMeanGauss { 20 } else { 12 };
        let truth = planted(kind, 4000, dim, 5, 23);
        let source = MemoryRows::new("planted", dim, truth.values.clone()).unwrap();
        for estimate in ESTIMATES {
            let config = MixtureConfig {
                likelihood: kind,
                clusters: 5,
                sparsity: Sparsity::Of(2),
                estimate,
                runs: 10,
                laps: Some(40),
                ..Default::default()
            };
            let fitted = fit_mixture(&source, &config).unwrap();
            let mut assigned = Vec::new();
            fitted
                .model
                .assign(&source, 1, &mut |index, _| {
                    assigned.extend_from_slice(index);
                    Ok(())
                })
                .unwrap();
            let found = purity(&truth.labels, &assigned, 5);
            assert!(found > 0.95, "{} {estimate:?}: {found}", kind.name());
        }
    }
}

/// Nothing but zeros, more clusters than there is anything to tell apart: counts stay at zero or above, and the model
/// can be used.
#[test]
fn empty_clusters_under_streaming_maximum_likelihood_stay_empty() {
    for kind in LikelihoodKind::ALL {
        let source = MemoryRows::new("zeros", 3, vec![0.0f64; 150]).unwrap();
        let config = MixtureConfig {
            likelihood: kind,
            clusters: 7,
            sparsity: Sparsity::Of(2),
            estimate: Estimate::MaxLikelihood,
            schedule: ScheduleKind::Streaming,
            batches: Some(3),
            ..Default::default()
        };
        let fitted = fit_mixture(&source, &config).unwrap();
        assert!(fitted.model.weights.iter().all(|w| *w >= 0.0), "{}: {:?}", kind.name(), fitted.model.weights);
        assert!(fitted.model.score(&source).unwrap().mean().is_finite(), "{}", kind.name());
    }
}

/// What is said to mean nothing (`Setting::conditions`) changes nothing, and what is not said to does in some run or other.
fn assert_meaning<C: Settings>(count: &str, fit: impl Fn(&C, LikelihoodKind) -> Vec<NamedArray>) {
    let another = |setting: &Setting| match (setting.kind, setting.default.as_f64()) {
        (Kind::Names(names), _) => json!(names.last().unwrap().0),
        (_, Some(number)) if setting.name == "decay" => json!(1.5 * number),
        // In units of the data's variance.
        _ if setting.name == "variance-floor" => json!(0.5),
        (_, Some(number)) if number > 0.0 => json!(40.0 * number),
        _ => json!(30.0),
    };
    let of = |others: &[(&str, Value)]| -> C {
        let mut values: Map<String, Value> = C::default().values();
        values.extend([(count.to_owned(), json!(3)), ("laps".into(), json!(4)), ("batches".into(), json!(2))]);
        values.extend(others.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        serde_json::from_value(Value::Object(values)).unwrap()
    };
    // Where one of its values alone means nothing (trades), the others hold everywhere.
    let whole = |condition: &Condition| condition.setting != "method" && condition.value.is_none();
    let conditional = |setting: &&Setting| setting.conditions.iter().any(whole);
    let settings: Vec<&Setting> = C::table().iter().filter(conditional).collect();
    let mut changing = vec![false; settings.len()];
    for (kind, estimate) in LikelihoodKind::ALL.into_iter().flat_map(|kind| ESTIMATES.map(|estimate| (kind, estimate)))
    {
        for schedule in [ScheduleKind::Memoized, ScheduleKind::Stochastic] {
            let run = [("likelihood", json!(kind)), ("estimate", json!(estimate)), ("schedule", json!(schedule))];
            let plain = of(&run);
            let expected = fit(&plain, kind);
            for (setting, changes) in settings.iter().zip(&mut changing) {
                let value = another(setting);
                let other = of(&[&run[..], &[(setting.name, value.clone())]].concat());
                let same = fit(&other, kind) == expected;
                *changes |= !same;
                let means_nothing = setting.unmet(&value, &plain.values()).is_some();
                assert!(same || !means_nothing, "{}: {} {estimate:?} {schedule:?}", setting.name, kind.name());
            }
        }
    }
    for (setting, changes) in settings.iter().zip(changing) {
        assert!(changes, "{} never means anything", setting.name);
    }
}

#[test]
fn settings_that_mean_nothing_change_nothing() {
    let rows = |kind: LikelihoodKind| {
        let truth = planted(kind, 90, 3, 3, 4);
        MemoryRows::new("planted", truth.dim, truth.values).unwrap()
    };
    let mixture = |config: &MixtureConfig, kind| {
        let model = fit_mixture(&rows(kind), config).unwrap().model;
        let weights = NamedArray::new("weights", vec![3], model.weights);
        [model.arrays, vec![weights]].concat()
    };
    assert_meaning::<MixtureConfig>("clusters", mixture);
    let sequence = |config: &SequenceConfig, kind| {
        let rows = rows(kind);
        let groups = Groups::of_lengths("lengths", &[50, 40], rows.num_rows()).unwrap();
        let model = fit_sequence(&rows, &groups, config).unwrap().model;
        let transitions = NamedArray::new("transitions", vec![3, 3], model.transitions());
        [model.arrays, vec![transitions]].concat()
    };
    assert_meaning::<SequenceConfig>("states", sequence);
}
