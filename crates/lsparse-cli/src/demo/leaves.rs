//! Second part of the demonstration: patches of an image of fallen leaves, and what L does to time and quality.

use lsparse::data::{ImagePatches, PatchOptions, RowSource};
use lsparse::fit::StopReason;
use lsparse::likelihood::LikelihoodKind;
use lsparse::synthetic::dead_leaves;
use lsparse::{MixtureConfig, MixtureModel, Result};

use super::{DemoArgs, fit};
use crate::format::{grouped, significant, table};
use crate::output;

/// Clusters to train.
const CLUSTERS: usize = 50;
/// The choices of L that are compared.
const SPARSITIES: [usize; 4] = [1, 4, 8, CLUSTERS];
/// The one whose model is kept.
const KEPT: usize = 8;

pub fn run(args: &DemoArgs) -> Result<MixtureModel> {
    let options = PatchOptions::default();
    // (side / stride)^2 patches, nearly.
    let side = (f64::from(args.rows).sqrt() as usize + 2) * options.stride;
    let image = |name: &str, seed: u64| {
        ImagePatches::from_pixels(name, vec![(side, side, dead_leaves(side, side, seed))], &options)
    };
    let train = image("leaves", args.seed)?;
    let heldout = image("other leaves", args.seed.wrapping_add(1))?;
    output::print(&format!(
        "\n2. {} patches of an image of fallen leaves, K = {CLUSTERS}; {} patches of another image held out\n",
        grouped(train.num_rows()),
        grouped(heldout.num_rows()),
    ))?;
    let mut rows = Vec::new();
    let mut kept = None;
    for sparsity in SPARSITIES {
        let config = MixtureConfig {
            likelihood: LikelihoodKind::ZeroMeanGauss,
            clusters: CLUSTERS,
            sparsity,
            batches: 5,
            laps: 10,
            tolerance: 0.0,
            seed: args.seed,
            ..Default::default()
        };
        let shown = fit(args, &format!("L = {sparsity:<2}  "), &train, &heldout, &config)?;
        let model = &shown.fitted.model;
        let interrupted = shown.fitted.outcome.reason == StopReason::Interrupted;
        let score = shown.fitted.outcome.heldout.unwrap_or(f64::NAN);
        rows.push(vec![
            if sparsity == CLUSTERS { format!("K = {sparsity}") } else { sparsity.to_string() },
            format!("{:.1} ms", 1e3 * shown.seconds_a_lap()),
            significant(score, 6),
            format!("{:.2} %", 100.0 * mass_captured(model, &heldout, sparsity)?),
        ]);
        if sparsity <= KEPT {
            kept = Some(shown.fitted.model);
        }
        if interrupted {
            break;
        }
    }
    let header = ["L", "time a lap", "held-out log likelihood a row", "mass captured"];
    output::print(&format!("\n{}", table(&header, &rows)))?;
    output::print(
        "   mass captured: what the L largest of the dense responsibilities of a held-out row sum to, on average\n",
    )?;
    kept.ok_or_else(|| lsparse::Error::NoRows { name: "leaves".into() })
}

/// The mean over rows of the sum of the L largest dense responsibilities.
fn mass_captured(model: &MixtureModel, source: &dyn RowSource, sparsity: usize) -> Result<f64> {
    let num = model.num_clusters();
    let mut total = 0.0;
    // Clusters come largest first.
    model.assign(source, num, &mut |_, values| {
        total += values.chunks_exact(num).map(|row| row[..sparsity].iter().sum::<f64>()).sum::<f64>();
        Ok(())
    })?;
    Ok(total / source.num_rows() as f64)
}
