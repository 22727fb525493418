//! First part of the demonstration: clusters that are known, and those that training finds.

use lsparse::data::{BorrowedRows, RowSource};
use lsparse::likelihood::LikelihoodKind;
use lsparse::synthetic::{Planted, planted_patches};
use lsparse::{MixtureConfig, MixtureModel, Result};

use super::{DemoArgs, fit};
use crate::format::{grouped, significant, table};
use crate::output;

/// Side of a patch.
const SIZE: usize = 8;
/// Clusters there are.
const CLUSTERS: usize = 12;

pub fn run(args: &DemoArgs) -> Result<()> {
    let train_rows = args.rows as usize;
    let heldout_rows = train_rows / 5;
    let truth = planted_patches(train_rows + heldout_rows, SIZE, CLUSTERS, args.seed);
    let (train, heldout) = truth.values.split_at(train_rows * truth.dim);
    let train = BorrowedRows::new("planted patches", truth.dim, train)?;
    let heldout = BorrowedRows::new("held-out planted patches", truth.dim, heldout)?;
    output::print(&format!(
        "1. {} rows drawn from {CLUSTERS} known clusters of {SIZE} x {SIZE} patches, {} more held out\n",
        grouped(train_rows),
        grouped(heldout_rows),
    ))?;
    let config = MixtureConfig {
        likelihood: LikelihoodKind::ZeroMeanGauss,
        clusters: CLUSTERS,
        sparsity: 4,
        batches: 5,
        laps: 40,
        runs: 2,
        seed: args.seed,
        ..Default::default()
    };
    let shown = fit(args, "planted  ", &train, &heldout, &config)?;
    let found = &shown.fitted.model;
    let matches = match_clusters(&truth, found, &train)?;
    let found_score = found.score(&heldout)?.mean();
    let truth_score = true_model(&truth, found).score(&heldout)?.mean();
    let mut text = format!("   {}\n\n", climb(&shown.laps));
    text += &table(
        &["true", "found", "weight", "found", "std", "found", "rows recovered"],
        &matches.iter().map(|m| m.cells(&truth, found)).collect::<Vec<_>>(),
    );
    let recovered = matches.iter().map(|m| m.shared).sum::<usize>() as f64 / train_rows as f64;
    text += &format!(
        "   {:.1} % of the rows are in the right cluster; held-out log likelihood a row: found {}, truth {}\n",
        100.0 * recovered,
        significant(found_score, 6),
        significant(truth_score, 6),
    );
    output::print(&text)
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
    for array in model.arrays.iter_mut().filter(|array| array.name == "covariances") {
        array.values = truth.covariances.clone();
    }
    model
}

/// A true cluster and the found one that took most of its rows.
struct Match {
    truth: usize,
    found: usize,
    /// Rows of both.
    shared: usize,
    /// Rows of the true one.
    rows: usize,
}

impl Match {
    fn cells(&self, truth: &Planted, found: &MixtureModel) -> Vec<String> {
        let found_covariances = found.array("covariances").map_or(&[][..], |array| &array.values);
        vec![
            self.truth.to_string(),
            self.found.to_string(),
            format!("{:.4}", truth.weights[self.truth]),
            format!("{:.4}", found.weights[self.found]),
            format!("{:.4}", std_of(&truth.covariances, truth.dim, self.truth)),
            format!("{:.4}", std_of(found_covariances, truth.dim, self.found)),
            format!("{:.1} %", 100.0 * self.shared as f64 / self.rows.max(1) as f64),
        ]
    }
}

/// Root of the mean variance of the columns of one cluster.
fn std_of(covariances: &[f64], dim: usize, k: usize) -> f64 {
    let of_cluster = &covariances[k * dim * dim..(k + 1) * dim * dim];
    (of_cluster.iter().step_by(dim + 1).sum::<f64>() / dim as f64).sqrt()
}

/// Match clusters greedily: the pair that shares most rows first.
fn match_clusters(truth: &Planted, found: &MixtureModel, train: &dyn RowSource) -> Result<Vec<Match>> {
    let mut assigned: Vec<u32> = Vec::with_capacity(train.num_rows());
    found.assign(train, 1, &mut |clusters, _| {
        assigned.extend_from_slice(clusters);
        Ok(())
    })?;
    let mut shared = vec![0usize; CLUSTERS * CLUSTERS];
    for (&label, &k) in truth.labels.iter().zip(&assigned) {
        shared[label * CLUSTERS + k as usize] += 1;
    }
    let rows: Vec<usize> = shared.chunks_exact(CLUSTERS).map(|of_truth| of_truth.iter().sum()).collect();
    let mut pairs: Vec<usize> = (0..shared.len()).collect();
    pairs.sort_by_key(|&pair| std::cmp::Reverse(shared[pair]));
    let (mut truth_taken, mut found_taken) = ([false; CLUSTERS], [false; CLUSTERS]);
    let mut matches = Vec::new();
    for pair in pairs {
        let (truth, found) = (pair / CLUSTERS, pair % CLUSTERS);
        if !truth_taken[truth] && !found_taken[found] {
            (truth_taken[truth], found_taken[found]) = (true, true);
            matches.push(Match { truth, found, shared: shared[pair], rows: rows[truth] });
        }
    }
    matches.sort_by_key(|m| m.truth);
    Ok(matches)
}
