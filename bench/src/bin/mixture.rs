//! Time one lap of a zero-mean Gaussian mixture and its parts on a file of patches; one JSON object a line on stdout.
//!
//! `bench/mixture.py` runs this next to scikit-learn on the same rows; `cargo xtask bench mixture` runs both.

use std::path::Path;

use lsparse::backend::with_threads;
use lsparse::data::{Element, NpyRows, RowSource, Rows, Scalar, read};
use lsparse::likelihood::ClusterSummary;
use lsparse::likelihood::{Clusters, Likelihood, Scratch};
use lsparse::mixture::{Members, Mixture, Mixtures, accumulate, respond};
use lsparse::runs::Family;
use lsparse::settings::SearchKind;
use lsparse::training::model::Model;
use lsparse::training::responsibilities::Responsibilities;
use lsparse::{LikelihoodKind, MixtureConfig, MixtureInputs, MixtureModel, Session, Sparsity, fit_mixture};
use lsparse_bench::{median, seconds};
use serde_json::json;

const CLUSTERS: usize = 200;
const SPARSITY: usize = 8;
const REPEATS: usize = 5;

fn main() {
    let path = std::env::args().nth(1).expect("usage: mixture PATCHES.npy");
    let rows = NpyRows::open(Path::new(&path)).expect("a file of patches");
    match rows.element() {
        Element::F32 => bench::<f32>(&rows),
        Element::F64 => bench::<f64>(&rows),
    }
}

fn bench<T: Scalar>(rows: &NpyRows) {
    let config = MixtureConfig {
        likelihood: LikelihoodKind::ZeroMeanGauss,
        clusters: CLUSTERS,
        sparsity: Sparsity::Of(SPARSITY),
        laps: Some(2),
        tolerance: None,
        batches: Some(1),
        ..Default::default()
    };
    let (seeding, model) = with_threads(1, || seconds(|| fit_mixture(rows, &config).expect("training").model)).unwrap();
    println!("{}", json!({"what": "two laps with seeding", "type": T::NAME, "threads": 1, "seconds": seeding}));
    let peak = fma_peak::<T>();
    println!("{}", json!({"what": "FMA peak", "type": T::NAME, "fma_per_second": peak}));
    for threads in [1, 2] {
        with_threads(threads, || lap::<T>(rows, &model, threads)).unwrap();
    }
    with_threads(1, || parts::<T>(rows, &model, peak)).unwrap();
}

/// FMAs a second that one core does at best.
fn fma_peak<T: Scalar>() -> f64 {
    lsparse_kernels::peak::fma_burst::<T>(1 << 18);
    let burst = || {
        let (time, done) = seconds(|| lsparse_kernels::peak::fma_burst::<T>(1 << 22));
        done / time
    };
    (0..7).map(|_| burst()).fold(0.0, f64::max)
}

/// A training that goes on from a model, row by row against all clusters.
fn session<'a, T: Scalar>(rows: &'a NpyRows, model: &'a MixtureModel) -> Session<'a, Mixture<T>> {
    let config = MixtureConfig { search: SearchKind::Dense, ..model.config.clone() };
    let inputs = MixtureInputs { start: Some(model), ..Default::default() };
    Mixtures::new(rows, &config, inputs).and_then(|mixtures| mixtures.session(0)).expect("a start")
}

/// Local step, statistics, global step and objective over all rows: what one EM iteration is elsewhere.
fn lap<T: Scalar>(rows: &NpyRows, model: &MixtureModel, threads: usize) {
    let mut session = session::<T>(rows, model);
    let mut worker = session.worker();
    let times = (0..REPEATS).map(|_| seconds(|| session.step(&mut worker).expect("a lap")).0).collect();
    println!(
        "{}",
        json!({"what": "lap", "type": T::NAME, "threads": threads, "rows": rows.num_rows(), "clusters": CLUSTERS,
            "sparsity": SPARSITY, "seconds": median(times)})
    );
}

/// The parts of a lap: weights, responsibilities, statistics for several L, global step.
fn parts<T: Scalar>(source: &NpyRows, model: &MixtureModel, peak: f64) {
    let dim = source.dim();
    let mut rows = Rows::<T>::dense(dim);
    read(source, 0, source.num_rows(), &mut rows).unwrap();
    let session = session::<T>(source, model);
    let (mixture, params) = (session.model(), session.params());
    let clusters = params.clusters.as_ref();

    let weights = median((0..REPEATS).map(|_| seconds(|| weigh(clusters, &rows)).0).collect());
    let fmas = (rows.len() * CLUSTERS * dim * (dim + 1) / 2) as f64;
    println!(
        "{}",
        json!({"what": "weights", "type": T::NAME, "seconds": weights,
            "nanoseconds_a_row_and_cluster": 1e9 * weights / (rows.len() * CLUSTERS) as f64,
            "share_of_fma_peak": fmas / weights / peak})
    );
    let step = median((0..REPEATS).map(|_| seconds(|| mixture.global_step(&model.total, None).unwrap()).0).collect());
    println!("{}", json!({"what": "global step", "type": T::NAME, "seconds": step}));
    for sparsity in [1, 2, 4, 8, 16, 32, 64, CLUSTERS] {
        let mut resp = Responsibilities::default();
        let mut members = Members::default();
        let mut summary = mixture.likelihood.no_statistics(CLUSTERS);
        let mut times = (Vec::new(), Vec::new());
        for _ in 0..3 {
            let log_pi = &params.frequencies.log_pi;
            times.0.push(seconds(|| respond(clusters, log_pi, &rows, sparsity, &mut resp).unwrap()).0);
            times
                .1
                .push(seconds(|| summarize(mixture.likelihood.as_ref(), &rows, &resp, &mut members, &mut summary)).0);
        }
        println!(
            "{}",
            json!({"what": "local step and summary by L", "type": T::NAME, "sparsity": sparsity,
                "local_seconds": median(times.0), "summary_seconds": median(times.1)})
        );
    }
}

fn summarize<T: Scalar>(
    likelihood: &dyn Likelihood<T>,
    rows: &Rows<T>,
    resp: &Responsibilities<T>,
    members: &mut Members<T>,
    summary: &mut ClusterSummary,
) {
    members.regroup(CLUSTERS, resp, &[]);
    accumulate(likelihood, rows, members, summary);
}

/// The N x K table of weights, a tile at a time, as the local step computes it.
fn weigh<T: Scalar>(clusters: &dyn Clusters<T>, rows: &Rows<T>) {
    let mut scratch = Scratch::default();
    let mut weights = vec![T::ZERO; T::TILE * CLUSTERS];
    let mut first = 0;
    while first < rows.len() {
        let last = (first + T::TILE).min(rows.len());
        clusters.add_log_lik(rows, first..last, &mut scratch, &mut weights[..(last - first) * CLUSTERS]);
        first = last;
    }
    std::hint::black_box(&weights);
}
