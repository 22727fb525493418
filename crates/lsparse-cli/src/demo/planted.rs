//! First part of the demonstration: clusters that are known, and those that training finds.

use lsparse::data::{BorrowedRows, RowSource};
use lsparse::likelihood::LikelihoodKind;
use lsparse::synthetic::{Planted, planted_patches};
use lsparse::{MixtureConfig, MixtureModel, Result, Sparsity};
use serde::Serialize;

use super::{DemoArgs, fit};
use crate::format::{grouped, significant, table};

/// Side of a patch.
const SIZE: usize = 8;
/// Clusters there are.
const TRUE_CLUSTERS: usize = 12;

/// How well the clusters were found.
#[derive(Serialize)]
pub struct Results {
    rows: usize,
    true_clusters: usize,
    clusters: usize,
    share_recovered: f64,
    heldout: f64,
    heldout_of_truth: f64,
}

pub fn run(args: &DemoArgs) -> Result<Results> {
    let train_rows = args.rows as usize;
    let heldout_rows = train_rows / 5;
    let truth = planted_patches(train_rows + heldout_rows, SIZE, TRUE_CLUSTERS, args.seed);
    let (train, heldout) = truth.values.split_at(train_rows * truth.dim);
    let train = BorrowedRows::new("planted patches", truth.dim, train)?;
    let heldout = BorrowedRows::new("held-out planted patches", truth.dim, heldout)?;
    args.say(&format!(
        "1. {} rows drawn from {TRUE_CLUSTERS} known clusters of {SIZE} x {SIZE} patches, {} more held out; K is found\n",
        grouped(train_rows),
        grouped(heldout_rows),
    ))?;
    let config = MixtureConfig {
        likelihood: LikelihoodKind::ZeroMeanGauss,
        find_k: true,
        sparsity: Sparsity::Of(4),
        batches: Some(5),
        seed: args.seed,
        ..Default::default()
    };
    let shown = fit(args, "planted  ", &train, &heldout, &config)?;
    let found = &shown.fitted.model;
    let matches = match_clusters(&truth, found, &train)?;
    let found_score = found.score(&heldout)?.mean();
    let truth_score = true_model(&truth, found).score(&heldout)?.mean();
    let mut text = format!("   {}\n\n", climb(shown.laps_of(shown.fitted.run)));
    text += &table(
        &["true", "found by", "weight", "found", "std", "found", "rows recovered"],
        &matches.iter().map(|m| m.cells(&truth, found)).collect::<Vec<_>>(),
    );
    let recovered = matches.iter().map(|m| m.shared).sum::<usize>() as f64 / train_rows as f64;
    text += &format!(
        "   {} clusters found; {:.1} % of all rows recovered; held-out log likelihood a row: found {}, truth {}\n",
        found.num_clusters(),
        100.0 * recovered,
        significant(found_score, 6),
        significant(truth_score, 6),
    );
    args.say(&text)?;
    Ok(Results {
        rows: train_rows,
        true_clusters: TRUE_CLUSTERS,
        clusters: found.num_clusters(),
        share_recovered: recovered,
        heldout: found_score,
        heldout_of_truth: truth_score,
    })
}

/// A few steps of the objective's way up.
fn climb(laps: &[(f64, f64)]) -> String {
    let shown = [0, 1, 3, 7, 15, 31].into_iter().filter(|&lap| lap + 1 < laps.len());
    let steps: Vec<String> = shown
        .chain(laps.len().checked_sub(1))
        .map(|lap| format!("{} (lap {})", significant(laps[lap].1, 8), lap + 1))
        .collect();
    format!("objective: {}", steps.join(", "))
}

/// The model that the rows were drawn from, in the form of the one that was found.
fn true_model(truth: &Planted, found: &MixtureModel) -> MixtureModel {
    let mut model = found.clone();
    model.weights = truth.weights.clone();
    // The truth is known: no posterior is around it.
    model.arrays.retain(|array| array.name == "covariances");
    for array in &mut model.arrays {
        array.shape[0] = TRUE_CLUSTERS;
        array.values = truth.covariances.clone();
    }
    model
}

/// A true cluster and the found ones that hold its rows.
struct Match {
    truth: usize,
    /// Found clusters most of whose rows come from the true one.
    found: Vec<usize>,
    /// Rows of the true one in them.
    shared: usize,
    /// Rows of the true one.
    rows: usize,
}

impl Match {
    fn cells(&self, truth: &Planted, found: &MixtureModel) -> Vec<String> {
        let covariances = found.array("covariances").map_or(&[][..], |array| &array.values);
        let weight = self.found.iter().fold(0.0, |sum, &k| sum + found.weights[k]);
        let variance: f64 =
            self.found.iter().map(|&k| found.weights[k] * variance_of(covariances, truth.dim, k)).sum::<f64>() / weight;
        let found_std = if weight > 0.0 { format!("{:.4}", variance.sqrt()) } else { "-".to_owned() };
        vec![
            self.truth.to_string(),
            self.found.len().to_string(),
            format!("{:.4}", truth.weights[self.truth]),
            format!("{weight:.4}"),
            format!("{:.4}", variance_of(&truth.covariances, truth.dim, self.truth).sqrt()),
            found_std,
            format!("{:.1} %", 100.0 * self.shared as f64 / self.rows.max(1) as f64),
        ]
    }
}

/// Mean variance of the columns of one cluster.
fn variance_of(covariances: &[f64], dim: usize, k: usize) -> f64 {
    let of_cluster = &covariances[k * dim * dim..(k + 1) * dim * dim];
    of_cluster.iter().step_by(dim + 1).sum::<f64>() / dim as f64
}

/// Match every found cluster with the true one that most of its rows come from.
fn match_clusters(truth: &Planted, found: &MixtureModel, train: &dyn RowSource) -> Result<Vec<Match>> {
    // Rows of every found cluster by their true one.
    let mut shared = vec![[0usize; TRUE_CLUSTERS]; found.num_clusters()];
    let mut labels = truth.labels.iter();
    found.assign(train, 1, &mut |clusters, _| {
        for (&k, &label) in clusters.iter().zip(&mut labels) {
            shared[k as usize][label] += 1;
        }
        Ok(())
    })?;
    let mut matches: Vec<Match> = (0..TRUE_CLUSTERS)
        .map(|truth| {
            let rows = shared.iter().map(|counts| counts[truth]).sum();
            Match { truth, found: Vec::new(), shared: 0, rows }
        })
        .collect();
    for (k, counts) in shared.iter().enumerate() {
        let most = (0..TRUE_CLUSTERS).max_by_key(|&truth| counts[truth]).unwrap_or(0);
        if counts[most] > 0 {
            matches[most].found.push(k);
            matches[most].shared += counts[most];
        }
    }
    Ok(matches)
}
