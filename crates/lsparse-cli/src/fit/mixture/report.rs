//! What is said when a mixture is trained, to people and to programs.

use std::fmt;
use std::path::Path;

use lsparse::settings::SearchKind;
use lsparse::training::rules::count_empty;
use lsparse::{Fitted, MixtureConfig, MixtureModel};
use serde::Serialize;

use super::super::report::{TrainingReport, lap_by_lap};
use crate::format::significant;

/// How a training went.
#[derive(Serialize)]
pub struct Report {
    #[serde(flatten)]
    training: TrainingReport,
    rows: usize,
    dim: usize,
    clusters: usize,
    sparsity: usize,
    empty_clusters: usize,
    /// K at the end of each of the last laps, where it was found.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    clusters_by_lap: Vec<usize>,
    /// Whether that is the most that was allowed, where it was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    k_max_reached: Option<bool>,
    /// Trades of clusters, where K was given and some were made, and what the objective gained by all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    trades: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trades_gain: Option<f64>,
    objective_per_row: f64,
    rows_per_second: f64,
    /// Weights computed in the last lap, of all rows and clusters.
    #[serde(skip_serializing_if = "Option::is_none")]
    weights_evaluated: Option<f64>,
    /// Work of the last lap, bounds included, in that of all weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    search_work: Option<f64>,
    config: MixtureConfig,
}

impl Report {
    /// `trades` is what each trade of clusters gained.
    pub fn new(fitted: &Fitted<MixtureModel>, trades: &[f64], out: Option<&Path>) -> Self {
        let (model, outcome) = (&fitted.model, &fitted.outcome);
        let of_lap = |name: &str| outcome.recent.last().and_then(|lap| lap.get(name));
        Report {
            training: TrainingReport::new(&model.training, outcome, fitted.run, &fitted.runs, out),
            rows: model.training.observations,
            dim: model.dim(),
            clusters: model.num_clusters(),
            sparsity: model.sparsity(),
            empty_clusters: count_empty(&model.total.counts),
            clusters_by_lap: outcome.recent.iter().filter_map(|lap| lap.get("clusters")).map(|k| k as usize).collect(),
            k_max_reached: model.config.find_k.then(|| model.num_clusters() >= model.config.k_max()),
            trades: Some(trades.len()).filter(|&made| made > 0),
            trades_gain: Some(trades.iter().sum()).filter(|_| !trades.is_empty()),
            objective_per_row: outcome.objective.total() / model.total.total_weight().max(f64::MIN_POSITIVE),
            rows_per_second: outcome.rows_per_second,
            weights_evaluated: of_lap("weights_evaluated"),
            search_work: of_lap("search_work"),
            config: model.config.clone(),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.training.write_head(f)?;
        writeln!(f, "            {} a row", significant(self.objective_per_row, 6))?;
        if let Some(score) = self.training.heldout {
            writeln!(f, "held-out    {} a row (mean log likelihood)", significant(score, 8))?;
        }
        self.training.write_runs(f, self.config.best_by, false)?;
        writeln!(f, "clusters    {}, of which {} empty", self.clusters, self.empty_clusters)?;
        if !self.clusters_by_lap.is_empty() {
            let most = self.config.k_max();
            let at_rest = "no split, merge or removal that was tried would raise the objective";
            let rest = self.training.why_k_rests(self.clusters, most, at_rest);
            writeln!(f, "            found lap by lap: {}; {rest}", lap_by_lap(&self.clusters_by_lap))?;
        }
        if let (Some(made), Some(gain)) = (self.trades, self.trades_gain) {
            writeln!(f, "trades      {made}, gaining {} nats", significant(gain, 4))?;
        }
        if let Some(tolerance) = self.config.sparsity_tolerance {
            writeln!(f, "sparsity    L = {}, chosen to lose less than {tolerance}", self.sparsity)?;
        }
        match (self.search_work, self.weights_evaluated) {
            (Some(work), _) => {
                writeln!(
                    f,
                    "search      exact, in the last lap with {} % of the dense work",
                    significant(100.0 * work, 3)
                )?;
            }
            (None, Some(share)) if self.config.search == SearchKind::Neighbours => {
                writeln!(
                    f,
                    "search      neighbours, in the last lap {} % of all weights",
                    significant(100.0 * share, 3)
                )?;
            }
            _ => {}
        }
        self.training.write_tail(f, self.rows_per_second, self.rows, "rows")
    }
}
