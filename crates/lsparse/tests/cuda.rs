//! Mixtures on a GPU against the CPU, for machines with one: `cargo xtask cuda test`.

use lsparse::backend::DeviceChoice;
use lsparse::data::MemoryRows;
use lsparse::mixture::{MixtureModel, Mixtures};
use lsparse::runs::Family;
use lsparse::settings::MixtureMethod;
use lsparse::synthetic::planted;
use lsparse::{
    Beside, Estimate, Fitted, Init, LikelihoodKind, MixtureConfig, MixtureInputs, Precision, ScheduleKind, Sparsity,
    fit_mixture_with,
};
use lsparse_cuda::Device;

const GPU: DeviceChoice = DeviceChoice::Cuda(0);

fn fit(rows: &[f64], dim: usize, config: &MixtureConfig, weights: Option<&[f64]>) -> Fitted<MixtureModel> {
    let inputs = || MixtureInputs { row_weights: weights, ..Default::default() };
    match config.precision {
        Precision::F64 => {
            let source = MemoryRows::new("rows", dim, rows.to_vec()).unwrap();
            fit_mixture_with(&source, config, inputs(), Beside::default()).unwrap()
        }
        _ => {
            let rows: Vec<f32> = rows.iter().map(|&x| x as f32).collect();
            let source = MemoryRows::new("rows", dim, rows).unwrap();
            fit_mixture_with(&source, config, inputs(), Beside::default()).unwrap()
        }
    }
}

#[test]
#[ignore = "needs a GPU"]
fn fits_are_those_of_the_cpu() {
    // Held, so that the driver does not start anew with every fit.
    let _held = Device::open(0).unwrap();
    for likelihood in LikelihoodKind::ALL.into_iter().filter(|kind| kind.family().of_moments.is_some()) {
        // Full covariances of 140 columns are weighed without a screen.
        for (dim, clusters) in [(3, 5), (16, 30), (40, 60), (140, 4)] {
            let rows = planted(likelihood, 6000, dim, clusters, 7).values;
            let weights: Vec<f64> = (0..6000).map(|n| f64::from(n % 4)).collect();
            for schedule in
                [ScheduleKind::Full, ScheduleKind::Memoized, ScheduleKind::Stochastic, ScheduleKind::Streaming]
            {
                for (estimate, sparsity, precision, weights) in [
                    (Estimate::Posterior, Sparsity::Of(4), Precision::F64, None),
                    (Estimate::Map, Sparsity::All, Precision::F64, Some(&weights[..])),
                    (Estimate::MaxLikelihood, Sparsity::Of(1), Precision::F32, None),
                ] {
                    let config = MixtureConfig {
                        likelihood,
                        clusters,
                        sparsity,
                        schedule,
                        estimate,
                        precision,
                        laps: Some(4),
                        tolerance: None,
                        // What is traded hangs on sums over all rows, of which single precision has no more than six digits.
                        trades: false,
                        device: DeviceChoice::Cpu,
                        ..Default::default()
                    };
                    let cpu = fit(&rows, dim, &config, weights);
                    let config = MixtureConfig { device: GPU, ..config };
                    let gpu = fit(&rows, dim, &config, weights);
                    let (a, b) = (cpu.outcome.objective.total(), gpu.outcome.objective.total());
                    let off = (a - b).abs() / a.abs();
                    let name = format!("{} D {dim} {schedule:?} {estimate:?} {precision:?}", likelihood.name());
                    println!("{name}: {a} and {b}, {off:.1e}");
                    let allowed = if precision == Precision::F64 { 1e-9 } else { 1e-4 };
                    assert!(off < allowed, "{name}");
                    let again = fit(&rows, dim, &config, weights);
                    assert_eq!(
                        again.model.to_bytes().unwrap(),
                        gpu.model.to_bytes().unwrap(),
                        "{name}: the same bytes"
                    );
                }
            }
        }
    }
}

/// Clusters that are traded on a GPU are those that are traded on the CPU: the same trades, the same objective, in one
/// batch and in several.
#[test]
#[ignore = "needs a GPU"]
fn trades_are_those_of_the_cpu() {
    const TRUTH: usize = 8;
    let _held = Device::open(0).unwrap();
    for kind in LikelihoodKind::ALL.into_iter().filter(|kind| kind.family().of_moments.is_some()) {
        let mut made = 0;
        for (seed, batches) in [(0, 1), (1, 3), (2, 1), (3, 3)] {
            let source = MemoryRows::new("planted", 10, planted(kind, 3000, 10, TRUTH, seed).values).unwrap();
            let train = |device: DeviceChoice| {
                let config = MixtureConfig {
                    likelihood: kind,
                    clusters: TRUTH,
                    init: Init::Examples,
                    batches: Some(batches),
                    seed,
                    device,
                    ..Default::default()
                };
                let mixtures = Mixtures::<f64>::new(&source, &config, MixtureInputs::default()).unwrap();
                let mut session = mixtures.session(0).unwrap();
                let (mut worker, rules, mut moves) = (session.worker(), mixtures.plan().rules, Vec::new());
                loop {
                    let info = session.step(&mut worker).unwrap();
                    moves.extend(info.moves.iter().map(|change| (change.from.clone(), change.to.clone())));
                    if session.judge(&info, &rules, None).is_some() {
                        return (moves, info.objective.unwrap().total());
                    }
                }
            };
            let ((cpu, on_cpu), (gpu, on_gpu)) = (train(DeviceChoice::Cpu), train(GPU));
            println!("{kind:?} {batches}: {} trades {on_cpu}, {} trades {on_gpu}", cpu.len(), gpu.len());
            assert_eq!(cpu, gpu, "{kind:?} {batches}");
            assert!((on_cpu - on_gpu).abs() < 1e-9 * on_cpu.abs(), "{kind:?} {batches}: {on_cpu} {on_gpu}");
            made += gpu.len();
        }
        assert!(made > 0, "{kind:?}");
    }
}

/// Rows whose nearest centres are told apart by single precision, so that all assignments are those of the CPU.
#[test]
#[ignore = "needs a GPU"]
fn centres_are_those_of_the_cpu() {
    for (dim, clusters) in [(2, 9), (40, 70), (200, 30)] {
        let rows = planted(LikelihoodKind::DiagGauss, 6000, dim, clusters, 3).values;
        for schedule in [ScheduleKind::Full, ScheduleKind::Memoized] {
            let config = MixtureConfig {
                method: MixtureMethod::Kmeans,
                likelihood: LikelihoodKind::DiagGauss,
                clusters,
                schedule,
                laps: Some(5),
                tolerance: None,
                device: DeviceChoice::Cpu,
                ..Default::default()
            };
            let cpu = fit(&rows, dim, &config, None).outcome.objective.total();
            let gpu = fit(&rows, dim, &MixtureConfig { device: GPU, ..config }, None).outcome.objective.total();
            println!("k-means D {dim} {schedule:?}: {cpu} and {gpu}");
            assert!((cpu - gpu).abs() < 1e-6 * cpu.abs(), "D {dim} {schedule:?}");
        }
    }
}

/// Somebody takes what memory there is in the middle of a training: it comes to the same end.
#[test]
#[ignore = "needs a GPU, and all of its memory"]
fn memory_that_runs_out_in_mid_run_is_done_without() {
    let (dim, clusters) = (16, 30);
    let rows: Vec<f32> =
        planted(LikelihoodKind::Gauss, 200_000, dim, clusters, 7).values.iter().map(|&x| x as f32).collect();
    let source = MemoryRows::new("rows", dim, rows).unwrap();
    let train = |device: DeviceChoice, hog: bool| {
        let config = MixtureConfig {
            likelihood: LikelihoodKind::Gauss,
            clusters,
            sparsity: Sparsity::Of(4),
            batches: Some(4),
            trades: false,
            device,
            ..Default::default()
        };
        let mixtures = Mixtures::<f32>::new(&source, &config, MixtureInputs::default()).unwrap();
        let mut session = mixtures.session(0).unwrap();
        let mut worker = session.worker();
        let mut held = Vec::new();
        let mut objective = f64::NAN;
        for step in 0..12 {
            if hog && step == 5 {
                // What this training has goes too, and comes to others before it asks again.
                worker = session.worker();
                let device = Device::open(0).unwrap();
                for bytes in [1 << 30, 1 << 26, 1 << 22, 1 << 18] {
                    while let Ok(buffer) = device.uninitialized::<u8>(bytes) {
                        held.push(buffer);
                    }
                }
                println!("{} buffers hold the memory of the GPU", held.len());
            }
            objective = session.step(&mut worker).unwrap().objective.unwrap().total();
            if step == 8 {
                held.clear();
            }
        }
        objective
    };
    let (cpu, gpu, without) = (train(DeviceChoice::Cpu, false), train(GPU, false), train(GPU, true));
    println!("{cpu} on the CPU, {gpu} on the GPU, {without} where memory ran out");
    assert!((gpu - cpu).abs() < 1e-6 * cpu.abs() && (without - cpu).abs() < 1e-6 * cpu.abs());
}

/// A model's scores and assignments on a GPU against those of the CPU, in every family that has kernels there.
#[test]
#[ignore = "needs a GPU"]
fn scores_and_assignments_are_those_of_the_cpu() {
    let _held = Device::open(0).unwrap();
    for likelihood in LikelihoodKind::ALL.into_iter().filter(|kind| kind.family().of_moments.is_some()) {
        for (estimate, dim, clusters) in
            [(Estimate::Posterior, 40, 60), (Estimate::Map, 3, 9), (Estimate::Posterior, 7, 5)]
        {
            let config = MixtureConfig {
                likelihood,
                clusters,
                estimate,
                precision: Precision::F64,
                laps: Some(3),
                tolerance: None,
                device: DeviceChoice::Cpu,
                ..Default::default()
            };
            let values = planted(likelihood, 9000, dim, clusters, 5).values;
            let model = fit(&values, dim, &config, None).model;
            let rows = MemoryRows::new("rows", dim, values).unwrap();
            let place = model.place(GPU, 9000).unwrap();
            assert!(place.device.is_some());
            let (cpu, gpu) = (model.score(&rows).unwrap(), model.score_at(&rows, &place).unwrap());
            let off = cpu.log_density.iter().zip(&gpu.log_density).map(|(a, b)| (a - b).abs() / a.abs().max(1.0));
            let off = off.fold(0.0, f64::max);
            let name = format!("{} {estimate:?} D {dim}", likelihood.name());
            println!("{name}: means {} and {}, off by {off:.1e} at most", cpu.mean(), gpu.mean());
            assert!(off < 1e-9, "{name}");
            for sparsity in [1, 4] {
                let assigned = |place| {
                    let (mut index, mut shares) = (Vec::new(), Vec::new());
                    let mut take = |of_rows: &[u32], values: &[f64]| {
                        index.extend_from_slice(of_rows);
                        shares.extend_from_slice(values);
                        Ok(())
                    };
                    model.assign_at(&rows, sparsity, place, &mut take).unwrap();
                    (index, shares)
                };
                let ((index, shares), (found, values)) = (assigned(&Default::default()), assigned(&place));
                let differ = shares.iter().zip(&values).filter(|(a, b)| (*a - *b).abs() > 1e-9).count();
                // Clusters whose shares are nothing have no order.
                let others = index.iter().zip(&found).zip(&shares).filter(|((a, b), share)| a != b && **share > 1e-12);
                assert_eq!((differ, others.count()), (0, 0), "{name} L {sparsity}");
            }
        }
    }
}

/// Rows that there is no room for pass through, a panel while another is worked on: the same bytes come of it.
#[test]
#[ignore = "needs a GPU, and nearly all of its memory"]
fn rows_that_do_not_stay_give_the_same_bytes() {
    let device = Device::open(0).unwrap();
    for (likelihood, dim, num, sparsity) in [
        (LikelihoodKind::Gauss, 40, 1_200_000, 4),
        (LikelihoodKind::Gauss, 4, 1_200_000, 40),
        (LikelihoodKind::TiedGauss, 5, 600_000, 4),
        (LikelihoodKind::DiagGauss, 9, 600_000, 4),
    ] {
        let clusters = 40;
        let rows: Vec<f32> = planted(likelihood, num, dim, clusters, 7).values.iter().map(|&x| x as f32).collect();
        let source = MemoryRows::new("rows", dim, rows).unwrap();
        let weights: Vec<f64> = (0..num).map(|n| (n % 4) as f64).collect();
        for schedule in [ScheduleKind::Full, ScheduleKind::Memoized] {
            let config = MixtureConfig {
                likelihood,
                clusters,
                sparsity: Sparsity::Of(sparsity),
                schedule,
                batches: (schedule == ScheduleKind::Memoized).then_some(2),
                laps: Some(3),
                tolerance: None,
                trades: false,
                device: GPU,
                ..Default::default()
            };
            let train = || {
                let inputs = MixtureInputs { row_weights: Some(&weights), ..Default::default() };
                let start = std::time::Instant::now();
                let fitted = fit_mixture_with(&source, &config, inputs, Beside::default()).unwrap();
                (fitted.model.to_bytes().unwrap(), start.elapsed().as_secs_f64())
            };
            let stays = train();
            let mut held = Vec::new();
            while device.free_memory().unwrap() > 2 << 30 {
                held.push(device.uninitialized::<u8>(1 << 28).unwrap());
            }
            let passes = train();
            println!("{} {schedule:?} L {sparsity}: {:.2} s, passing {:.2} s", likelihood.name(), stays.1, passes.1);
            assert!(stays.0 == passes.0, "{} {schedule:?}", likelihood.name());
        }
    }
}
