//! Searches of a mixture: exact gives the dense model bit for bit, candidates never lower the objective, L is chosen.

use std::collections::BTreeMap;

use lsparse::backend::with_threads;
use lsparse::data::{ImagePatches, MemoryRows, PatchOptions, RowSource};
use lsparse::mixture::MixtureModel;
use lsparse::settings::SearchKind;
use lsparse::synthetic::{dead_leaves, planted};
use lsparse::training::observe::Observer;
use lsparse::training::trace::StepInfo;
use lsparse::{
    Beside, Estimate, Init, LikelihoodKind, MixtureConfig, MixtureInputs, Precision, ScheduleKind, Sparsity, Storage,
    fit_mixture_with,
};

/// Objectives and lap reports of a run.
#[derive(Default)]
struct Log {
    objectives: Vec<(f64, f64)>,
    laps: Vec<BTreeMap<String, f64>>,
}

impl Log {
    /// A number of every lap's report.
    fn reported(&self, name: &str) -> Vec<f64> {
        let of_lap = |lap: &BTreeMap<String, f64>| lap.get(name).copied().unwrap_or(f64::NAN);
        self.laps.iter().map(of_lap).collect()
    }
}

impl Observer for Log {
    fn step(&mut self, info: &StepInfo) -> lsparse::Result<()> {
        self.objectives.extend(info.objective.map(|objective| (info.lap, objective.total())));
        if info.ends_lap {
            self.laps.push(info.report.clone());
        }
        Ok(())
    }
}

fn train(source: &dyn RowSource, config: &MixtureConfig) -> (MixtureModel, Log) {
    let mut log = Log::default();
    let beside = Beside { observer: Some(&mut log), ..Default::default() };
    let fitted = fit_mixture_with(source, config, MixtureInputs::default(), beside)
        .unwrap_or_else(|e| panic!("{config:?}: {e}"));
    (fitted.model, log)
}

/// 2,500 patches of dead-leaves images, where clusters overlap as in photographs.
fn patches(size: usize) -> ImagePatches {
    let images = (0..2).map(|seed| (204, 204, dead_leaves(204, 204, seed))).collect();
    ImagePatches::from_pixels("leaves", images, &PatchOptions { size, ..Default::default() }).unwrap()
}

/// Rows without any structure, some of them zero, some of them twice.
fn noise(dim: usize, offset: f64) -> MemoryRows<f64> {
    let mut truth = planted(LikelihoodKind::Gauss, 1500, dim, 1, 9);
    truth.values.iter_mut().for_each(|v| *v += offset);
    truth.values[..10 * dim].fill(0.0);
    let copy = truth.values[20 * dim..60 * dim].to_vec();
    truth.values[60 * dim..100 * dim].copy_from_slice(&copy);
    MemoryRows::new("noise", dim, truth.values).unwrap()
}

/// Families that exact search has a bound for.
const WITH_A_BOUND: [LikelihoodKind; 4] =
    [LikelihoodKind::ZeroMeanGauss, LikelihoodKind::Gauss, LikelihoodKind::DiagGauss, LikelihoodKind::SphericalGauss];

fn config(likelihood: LikelihoodKind, clusters: usize) -> MixtureConfig {
    MixtureConfig {
        likelihood,
        clusters,
        sparsity: Sparsity::Of(4),
        batches: Some(3),
        laps: Some(4),
        tolerance: None,
        ..Default::default()
    }
}

fn assert_exact_is_dense(source: &dyn RowSource, config: &MixtureConfig) -> Log {
    let (dense, _) = train(source, &MixtureConfig { search: SearchKind::Dense, ..config.clone() });
    let (exact, log) = train(source, &MixtureConfig { search: SearchKind::Exact, ..config.clone() });
    assert!(dense == exact, "{config:?}");
    log
}

#[test]
fn exact_search_gives_the_dense_model_bit_for_bit() {
    for precision in [Precision::F32, Precision::F64] {
        for likelihood in WITH_A_BOUND {
            for sparsity in [1, 4] {
                let config = MixtureConfig { precision, sparsity: Sparsity::Of(sparsity), ..config(likelihood, 60) };
                let log = assert_exact_is_dense(&patches(8), &config);
                let share = log.reported("weights_evaluated");
                assert_eq!(share[0], 1.0, "nothing is known of rows in the first lap");
                assert!(share[3] < 0.8, "{precision:?} {likelihood:?}: {share:?}");
                let work = log.reported("search_work");
                assert!(work[0] == 1.0 && work[3] > share[3], "bounds are work too: {work:?}");
                assert!(work[3] < 1.0, "{precision:?} {likelihood:?}: {work:?}");
            }
        }
    }
}

#[test]
fn exact_search_is_exact_on_rows_without_structure() {
    for precision in [Precision::F32, Precision::F64] {
        for likelihood in WITH_A_BOUND {
            for (dim, offset) in [(1, 0.0), (3, 1e4), (6, 0.0), (20, -50.0)] {
                for estimate in [Estimate::Posterior, Estimate::Map, Estimate::MaxLikelihood] {
                    let config = MixtureConfig { precision, estimate, ..config(likelihood, 40) };
                    assert_exact_is_dense(&noise(dim, offset), &config);
                }
            }
        }
    }
}

/// More clusters than there is anything to tell apart: empty ones all weigh the same, and ties go to the lower index.
#[test]
fn exact_search_breaks_ties_like_dense() {
    let source = MemoryRows::new("zeros", 5, vec![0.0f32; 5 * 300]).unwrap();
    for estimate in [Estimate::Posterior, Estimate::Map, Estimate::MaxLikelihood] {
        for likelihood in WITH_A_BOUND {
            assert_exact_is_dense(&source, &MixtureConfig { estimate, ..config(likelihood, 30) });
        }
    }
}

#[test]
fn families_without_a_bound_fall_back_to_dense() {
    for kind in [LikelihoodKind::TiedGauss, LikelihoodKind::Multinomial, LikelihoodKind::Bernoulli] {
        let truth = planted(kind, 400, 8, 5, 3);
        let source = MemoryRows::new("planted", 8, truth.values).unwrap();
        let log = assert_exact_is_dense(&source, &config(kind, 6));
        assert_eq!(log.reported("weights_evaluated"), [1.0; 4]);
    }
}

#[test]
fn searches_give_the_same_bits_at_any_number_of_threads() {
    let source = patches(6);
    for search in [SearchKind::Exact, SearchKind::Neighbours] {
        let config = MixtureConfig {
            search,
            sparsity: Sparsity::Usual,
            sparsity_tolerance: Some(0.05),
            ..config(LikelihoodKind::ZeroMeanGauss, 100)
        };
        let models: Vec<MixtureModel> =
            [1, 2, 4, 8].map(|threads| with_threads(threads, || train(&source, &config).0).unwrap()).into();
        assert!(models.windows(2).all(|pair| pair[0] == pair[1]), "{search:?}");
    }
}

/// Every family, estimate and L: candidates include a row's own clusters, so that no step lowers the objective.
#[test]
fn candidate_search_is_monotone() {
    for kind in LikelihoodKind::ALL {
        let dim = if kind.family().wants_sparse_rows { 30 } else { 8 };
        let truth = planted(kind, 1500, dim, 20, 5);
        let source = MemoryRows::new("rows", dim, truth.values).unwrap();
        for estimate in [Estimate::Posterior, Estimate::Map, Estimate::MaxLikelihood] {
            for schedule in [ScheduleKind::Full, ScheduleKind::Memoized] {
                for sparsity in [1, 3] {
                    let config = MixtureConfig {
                        search: SearchKind::Neighbours,
                        estimate,
                        schedule,
                        sparsity: Sparsity::Of(sparsity),
                        batches: if schedule == ScheduleKind::Full { Some(1) } else { Some(4) },
                        laps: Some(8),
                        ..config(kind, 80)
                    };
                    let (_, log) = train(&source, &config);
                    let exact = log.objectives.iter().filter(|(lap, _)| *lap >= 1.0);
                    let values: Vec<f64> = exact.map(|(_, value)| *value).collect();
                    for pair in values.windows(2) {
                        assert!(pair[1] >= pair[0] - 1e-9 * pair[0].abs(), "{config:?}: {} to {}", pair[0], pair[1]);
                    }
                    assert!(log.reported("weights_evaluated")[7] < 0.7, "{config:?}");
                }
            }
        }
    }
}

#[test]
fn candidate_search_comes_close_to_dense() {
    let source = patches(8);
    // (Trades, and a prior that follows clusters, are for searches that look at all of them.)
    let config = MixtureConfig { laps: Some(8), trades: false, ..config(LikelihoodKind::ZeroMeanGauss, 150) };
    let (dense, _) = train(&source, &MixtureConfig { search: SearchKind::Dense, ..config.clone() });
    let (near, log) = train(&source, &MixtureConfig { search: SearchKind::Neighbours, ..config });
    let (dense, near) = (dense.score(&source).unwrap().mean(), near.score(&source).unwrap().mean());
    assert!((near - dense).abs() < 2e-3 * dense.abs(), "{near} instead of {dense}");
    assert!(log.reported("weights_evaluated")[7] < 0.3);
}

#[test]
fn candidate_search_finds_planted_clusters() {
    for kind in LikelihoodKind::ALL {
        let dim = if kind == LikelihoodKind::ZeroMeanGauss { 20 } else { 12 };
        let truth = planted(kind, 4000, dim, 5, 23);
        let source = MemoryRows::new("planted", dim, truth.values.clone()).unwrap();
        let config = MixtureConfig {
            search: SearchKind::Neighbours,
            sparsity: Sparsity::Of(2),
            runs: 10,
            laps: Some(40),
            tolerance: Some(1e-5),
            ..config(kind, 5)
        };
        let (model, _) = train(&source, &config);
        let mut table = [[0usize; 5]; 5];
        let mut row = 0;
        let mut count = |index: &[u32], _: &[f64]| {
            index.iter().for_each(|&k| {
                table[k as usize][truth.labels[row]] += 1;
                row += 1;
            });
            Ok(())
        };
        model.assign(&source, 1, &mut count).unwrap();
        let right: usize = table.iter().map(|of_cluster| of_cluster.iter().max().unwrap()).sum();
        assert!(right > 3800, "{}: {right} of 4000", kind.name());
    }
}

/// Mean mass outside the L largest responsibilities.
fn discarded(model: &MixtureModel, source: &dyn RowSource, sparsity: usize) -> f64 {
    let (mut outside, all) = (0.0, model.num_clusters());
    let mut add = |_: &[u32], values: &[f64]| {
        outside += values.chunks(all).map(|row| row[sparsity..].iter().sum::<f64>()).sum::<f64>();
        Ok(())
    };
    model.assign(source, all, &mut add).unwrap();
    outside / source.num_rows() as f64
}

#[test]
fn the_smallest_sparsity_that_loses_little_is_chosen_and_only_rises() {
    let source = patches(4);
    let mut chosen = Vec::new();
    for tolerance in [0.3, 0.1, 0.01] {
        for search in [SearchKind::Dense, SearchKind::Exact, SearchKind::Neighbours] {
            let config = MixtureConfig {
                sparsity: Sparsity::Usual,
                sparsity_tolerance: Some(tolerance),
                search,
                laps: Some(5),
                ..config(LikelihoodKind::ZeroMeanGauss, 40)
            };
            let (model, log) = train(&source, &config);
            let by_lap = log.reported("sparsity");
            assert!(by_lap.is_sorted(), "{by_lap:?}");
            assert_eq!(by_lap[4], model.sparsity() as f64, "the model has the L that was used last");
            if search != SearchKind::Neighbours {
                chosen.push(model.sparsity());
            }
            // The sample is a tenth of the rows, and the last step came after the check.
            let lost = discarded(&model, &source, model.sparsity());
            assert!(lost < 1.5 * tolerance, "{tolerance}: {lost}");
        }
    }
    assert!(chosen.chunks(2).all(|pair| pair[0] == pair[1]), "dense and exact agree: {chosen:?}");
    assert!(chosen.is_sorted() && chosen[0] < chosen[5], "less may be lost, more must be kept: {chosen:?}");
}

#[test]
fn clusters_far_apart_need_one_cluster_a_row() {
    let rows: Vec<f64> = (0..300).map(|n| 1000.0 * (n % 3) as f64 + (n % 7) as f64).collect();
    let source = MemoryRows::new("far", 1, rows).unwrap();
    let config = MixtureConfig {
        sparsity: Sparsity::Usual,
        sparsity_tolerance: Some(0.01),
        runs: 5,
        ..config(LikelihoodKind::Gauss, 3)
    };
    assert_eq!(train(&source, &config).0.config.sparsity, Sparsity::Of(1));
}

#[test]
fn the_file_does_not_tell_dense_and_exact_apart() {
    let source = patches(6);
    let folder = std::env::temp_dir().join(format!("lsparse-search-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let files = [SearchKind::Auto, SearchKind::Dense, SearchKind::Exact].map(|search| {
        let path = folder.join(format!("{search:?}.safetensors"));
        train(&source, &MixtureConfig { search, ..config(LikelihoodKind::ZeroMeanGauss, 200) })
            .0
            .save_to(&path)
            .unwrap();
        std::fs::read(&path).unwrap()
    });
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(files[0] == files[1] && files[1] == files[2]);
}

/// The clusters of rows take half of the memory that is left for what is remembered, and the rest is in a file.
#[test]
fn stored_clusters_in_a_file_change_no_bit() {
    let source = patches(6);
    for search in [SearchKind::Exact, SearchKind::Neighbours] {
        let config = MixtureConfig {
            search,
            sparsity: Sparsity::Usual,
            sparsity_tolerance: Some(0.05),
            ..config(LikelihoodKind::ZeroMeanGauss, 60)
        };
        let (whole, _) = train(&source, &config);
        for memory in [0, 40_000] {
            let storage = Storage { memo_memory: Some(memory), checkpoint: None };
            let beside = Beside { storage, ..Default::default() };
            assert!(
                fit_mixture_with(&source, &config, MixtureInputs::default(), beside).unwrap().model == whole,
                "{search:?} {memory}"
            );
        }
    }
}

/// Rows without structure leave bounds nothing to rule out: the default turns to the full table, with the same bits, and
/// tries again now and then.
#[test]
fn exact_search_makes_way_where_it_does_more_work() {
    // Columns that know nothing of each other, nearly normal: four uniform numbers in one.
    let mut state = 1u64;
    let mut uniform = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f64 / (1u64 << 24) as f64 - 0.5
    };
    let values = (0..1500 * 64).map(|_| (0..4).map(|_| uniform()).sum::<f64>()).collect();
    let source = MemoryRows::new("noise", 64, values).unwrap();
    let with = |search| {
        let config = MixtureConfig {
            likelihood: LikelihoodKind::Gauss,
            clusters: 400,
            sparsity: Sparsity::Of(4),
            batches: Some(5),
            laps: Some(5),
            tolerance: None,
            prior_scale: Some(0.1),
            init: Init::Examples,
            search,
            ..Default::default()
        };
        train(&source, &config)
    };
    let ((auto, given), (exact, all)) = (with(SearchKind::Auto), with(SearchKind::Exact));
    assert!(auto.total == exact.total && auto.arrays == exact.arrays);
    let work = |log: &Log| log.reported("search_work")[1..].iter().sum::<f64>() / 4.0;
    assert!(work(&all) > 1.0, "exact search does {} of the dense work", work(&all));
    assert!(work(&given) < 1.0 + 0.3 * (work(&all) - 1.0), "{} of {}", work(&given), work(&all));
}
