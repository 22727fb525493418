//! Mixtures on a GPU against the CPU, for machines with one: `cargo xtask cuda test`.

use lsparse::backend::DeviceChoice;
use lsparse::data::MemoryRows;
use lsparse::mixture::MixtureModel;
use lsparse::synthetic::planted;
use lsparse::{
    Beside, Estimate, Fitted, LikelihoodKind, MixtureConfig, MixtureInputs, Precision, ScheduleKind, Sparsity,
    fit_mixture_with,
};

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
    for likelihood in LikelihoodKind::ALL.into_iter().filter(|kind| kind.family().of_moments.is_some()) {
        for (dim, clusters) in [(3, 5), (16, 30), (40, 60)] {
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
