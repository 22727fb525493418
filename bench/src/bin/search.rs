//! Seconds a lap of a Gaussian mixture by search and K on a file of patches, the local and the global step
//! apart; one JSON object a line on stdout.
//!
//! `cargo xtask bench search --images DIR` makes the files and runs this. Every search starts from the same model of
//! one dense lap; its first lap of its own, in which exact and candidate search have nothing stored and are dense, is
//! not timed.

use std::path::Path;

use lsparse::backend::with_threads;
use lsparse::data::{NpyRows, RowSource, Rows, read};
use lsparse::mixture::{Mixtures, log_density};
use lsparse::runs::Family;
use lsparse::settings::SearchKind;
use lsparse::{LikelihoodKind, MixtureConfig, MixtureInputs, MixtureModel, Sparsity, fit_mixture};
use lsparse_bench::{Timer, median};
use serde_json::json;

const SPARSITY: usize = 8;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [path, heldout, likelihood, clusters, laps, searches @ ..] = &args[..] else {
        panic!("usage: search PATCHES.npy HELDOUT.npy LIKELIHOOD K LAPS SEARCH...");
    };
    let likelihood = LikelihoodKind::ALL.into_iter().find(|kind| kind.name() == likelihood).expect("a likelihood");
    let rows = NpyRows::open(Path::new(path)).expect("a file of patches");
    let heldout = NpyRows::open(Path::new(heldout)).expect("a file of held-out patches");
    let (clusters, laps) = (clusters.parse().expect("K"), laps.parse().expect("LAPS"));
    let config = MixtureConfig {
        likelihood,
        clusters,
        sparsity: Sparsity::Of(SPARSITY),
        laps: Some(1),
        tolerance: None,
        batches: Some(1),
        init_rows: Some(4 * clusters),
        search: SearchKind::Dense,
        ..Default::default()
    };
    with_threads(1, || {
        let start = fit_mixture(&rows, &config).expect("training").model;
        let mut held = Rows::<f32>::dense(heldout.dim());
        read(&heldout, 0, heldout.num_rows(), &mut held).expect("held-out patches");
        for name in searches {
            let search = match name.as_str() {
                "dense" => SearchKind::Dense,
                "exact" => SearchKind::Exact,
                "neighbours" => SearchKind::Neighbours,
                other => panic!("there is no search {other:?}"),
            };
            time(&rows, &held, &start, search, laps);
        }
    })
    .expect("threads");
}

/// Laps from `start`: medians of the local and the global step, and where they lead.
fn time(rows: &NpyRows, held: &Rows<f32>, start: &MixtureModel, search: SearchKind, laps: usize) {
    let clusters = start.num_clusters();
    let config = MixtureConfig { search, ..start.config.clone() };
    let inputs = MixtureInputs { start: Some(start), ..Default::default() };
    let mixtures = Mixtures::<f32>::new(rows, &config, inputs).expect("settings");
    let mut session = mixtures.session(0).expect("a start");
    let mut worker = session.worker();
    let (mut local_times, mut global_times, mut objective) = (Vec::new(), Vec::new(), f64::NAN);
    let mut report = std::collections::BTreeMap::new();
    for _ in 0..=laps {
        let (mut local, mut global) = (Timer::default(), Timer::default());
        session.recycle(&mut worker);
        let ticket = session.hand_out().expect("a step").expect("a batch");
        let work = || ticket.work(session.model(), session.params(), session.data(), &mut worker);
        let done = local.time(work).expect("a lap");
        let step = global.time(|| session.fold(done)).expect("a step");
        objective = step.objective.map_or(f64::NAN, |objective| objective.total());
        report = step.report;
        local_times.push(local.cpu);
        global_times.push(global.cpu);
    }
    let first = local_times.remove(0);
    global_times.remove(0);
    // As `lsparse score` does: log sum_k E[pi_k] F(x | E[phi_k]).
    let (mixture, params) = (session.model(), session.params());
    let point = mixture.likelihood.clusters_of(&params.clusters.arrays()).expect("clusters");
    let log_pi: Vec<f64> = params.frequencies.pi.iter().map(|p| p.ln()).collect();
    let scores = log_density(point.as_ref(), &log_pi, held).expect("scores");
    let share: serde_json::Map<_, _> = report.into_iter().map(|(name, value)| (name, value.into())).collect();
    println!(
        "{}",
        json!({"likelihood": start.config.likelihood, "search": search, "clusters": clusters, "rows": rows.num_rows(), "first_lap_seconds": first,
            "local_seconds": median(local_times), "global_seconds": median(global_times), "objective": objective,
            "heldout": scores.iter().sum::<f64>() / scores.len() as f64, "work": share})
    );
}
