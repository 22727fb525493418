//! Second part of the demonstration: patches of an image of fallen leaves, and what L does to time and quality.

use lsparse::data::{ImagePatches, PatchOptions, RowSource};
use lsparse::likelihood::LikelihoodKind;
use lsparse::synthetic::dead_leaves;
use lsparse::training::rules::StopReason;
use lsparse::{MixtureConfig, MixtureModel, Result, Sparsity};
use serde::Serialize;

use super::{DemoArgs, fit};
use crate::format::{grouped, significant, table};

/// Clusters to train.
const CLUSTERS: usize = 50;
/// The choices of L that are compared.
const SPARSITIES: [usize; 4] = [1, 4, 8, CLUSTERS];
/// The one whose model is kept.
const KEPT: usize = 8;

/// What one choice of L gave.
#[derive(Serialize)]
pub struct Results {
    sparsity: usize,
    seconds_a_lap: f64,
    heldout: f64,
    mass_captured: f64,
}

impl Results {
    fn cells(&self) -> Vec<String> {
        vec![
            if self.sparsity == CLUSTERS { format!("K = {CLUSTERS}") } else { self.sparsity.to_string() },
            format!("{:.1} ms", 1e3 * self.seconds_a_lap),
            significant(self.heldout, 6),
            format!("{:.2} %", 100.0 * self.mass_captured),
        ]
    }
}

/// The model that is kept, and what every choice of L gave.
pub fn run(args: &DemoArgs) -> Result<(MixtureModel, Vec<Results>)> {
    let options = PatchOptions::default();
    // (side / stride)^2 patches, nearly.
    let side = (f64::from(args.rows).sqrt() as usize + 2) * options.stride;
    let image = |name: &str, seed: u64| {
        ImagePatches::from_pixels(name, vec![(side, side, dead_leaves(side, side, seed))], &options)
    };
    let train = image("leaves", args.seed)?;
    let heldout = image("other leaves", args.seed.wrapping_add(1))?;
    args.say(&format!(
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
            sparsity: Sparsity::Of(sparsity),
            batches: Some(5),
            laps: Some(10),
            tolerance: None,
            seed: args.seed,
            ..Default::default()
        };
        let shown = fit(args, &format!("L = {sparsity:<2}  "), &train, &heldout, &config)?;
        let model = &shown.fitted.model;
        let interrupted = shown.fitted.outcome.reason == StopReason::Interrupted;
        rows.push(Results {
            sparsity,
            seconds_a_lap: shown.seconds_a_lap(),
            heldout: shown.fitted.outcome.heldout.unwrap_or(f64::NAN),
            mass_captured: mass_captured(model, &heldout, sparsity)?,
        });
        if sparsity <= KEPT {
            kept = Some(shown.fitted.model);
        }
        if interrupted {
            break;
        }
    }
    let header = ["L", "time a lap", "held-out log likelihood a row", "mass captured"];
    args.say(&format!("\n{}", table(&header, &rows.iter().map(Results::cells).collect::<Vec<_>>())))?;
    args.say(
        "   mass captured: what the L largest of the dense responsibilities of a held-out row sum to, on average\n",
    )?;
    let model = kept.ok_or_else(|| lsparse::Error::NoRows { name: "leaves".into() })?;
    Ok((model, rows))
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
