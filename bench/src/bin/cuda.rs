//! Seconds a lap of a Gaussian mixture on a GPU by K, the local and the global step apart, and where the time of the local
//! step goes; one JSON object a line on stdout. `cargo xtask bench cuda --images DIR` runs this.
//!
//! Rows are those of a file or a folder of images, read into memory first, or made up (`embeddings:ROWS:COLUMNS`); the first
//! lap brings them to the GPU. Each K starts from rows drawn at random, so that the laps measured are among the first of a
//! training.

use std::path::Path;
use std::time::Instant;

use lsparse::backend::DeviceChoice;
use lsparse::data::{MemoryRows, RowSource, Rows, read};
use lsparse::mixture::Mixtures;
use lsparse::open::{OpenOptions, open};
use lsparse::runs::Family;
use lsparse::{Init, LikelihoodKind, MixtureConfig, MixtureInputs, ScheduleKind, Sparsity};
use lsparse_bench::median;
use rayon::prelude::*;
use serde_json::json;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [path, likelihood, device, laps, clusters @ ..] = &args[..] else {
        panic!("usage: cuda ROWS LIKELIHOOD DEVICE LAPS K...");
    };
    let likelihood = LikelihoodKind::ALL.into_iter().find(|kind| kind.name() == likelihood).expect("a likelihood");
    let device = DeviceChoice::parse(device).expect("a device");
    let laps: usize = laps.parse().expect("LAPS");
    let start = Instant::now();
    let (values, dim) = match path.strip_prefix("embeddings:").and_then(|size| size.split_once(':')) {
        Some((rows, columns)) => {
            let (rows, columns) = (rows.parse().expect("ROWS"), columns.parse().expect("COLUMNS"));
            (embeddings(rows, columns), columns)
        }
        None => {
            let source = open(Path::new(path), &OpenOptions::default()).expect("rows");
            let mut rows = Rows::<f32>::dense(source.dim());
            read(source.as_ref(), 0, source.num_rows(), &mut rows).expect("rows");
            (rows.dense_rows(0..rows.len()).to_vec(), source.dim())
        }
    };
    let memory = MemoryRows::new("rows", dim, values).expect("rows");
    eprintln!("{} rows in {:.2} s", memory.num_rows(), start.elapsed().as_secs_f64());
    for clusters in clusters {
        time(&memory, likelihood, device, clusters.parse().expect("K"), laps);
    }
}

/// SplitMix64, as a number between -1 and 1.
fn number(of: u64) -> f32 {
    let mut z = of.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((z ^ (z >> 31)) >> 40) as f32 / (1 << 23) as f32 - 1.0
}

/// Rows about 20,000 centres, each of its own width, as embeddings of things of many kinds are.
fn embeddings(rows: usize, columns: usize) -> Vec<f32> {
    const CENTRES: u64 = 20_000;
    let mut values = vec![0.0; rows * columns];
    values.par_chunks_mut(columns).enumerate().for_each(|(n, row)| {
        let n = n as u64;
        let centre = ((number(n ^ (1 << 60)) + 1.0) * 0.5 * CENTRES as f32) as u64;
        let width = 0.4 + 0.3 * number(centre ^ (1 << 61));
        for (d, value) in row.iter_mut().enumerate() {
            let (at, own) = (number((centre << 12 | d as u64) ^ (1 << 62)), (n << 12 | d as u64) * 2);
            *value = at + width * (number(own) + number(own + 1));
        }
    });
    values
}

fn time(rows: &MemoryRows<f32>, likelihood: LikelihoodKind, device: DeviceChoice, clusters: usize, laps: usize) {
    let config = MixtureConfig {
        likelihood,
        clusters,
        device,
        sparsity: Sparsity::Of(8),
        schedule: ScheduleKind::Full,
        init: Init::Examples,
        init_rows: Some(10 * clusters),
        laps: None,
        tolerance: Some(0.0),
        ..Default::default()
    };
    let start = Instant::now();
    let mixtures = Mixtures::<f32>::new(rows, &config, MixtureInputs::default()).expect("settings");
    let mut session = mixtures.session(0).expect("a start");
    let seeding = start.elapsed().as_secs_f64();
    let mut worker = session.worker();
    let (mut local, mut global, mut weighed, mut objective) = (Vec::new(), Vec::new(), 0.0, f64::NAN);
    // The last lap is waited for part by part.
    for lap in 0..laps + 2 {
        if lap == laps + 1 {
            worker.measure_device();
        }
        session.recycle(&mut worker);
        let start = Instant::now();
        let ticket = session.hand_out().expect("a step").expect("a batch");
        let work = ticket.work(session.model(), session.params(), session.data(), &mut worker);
        let done = work.expect("a lap");
        local.push(start.elapsed().as_secs_f64());
        let start = Instant::now();
        let step = session.fold(done).expect("a step");
        global.push(start.elapsed().as_secs_f64());
        objective = step.objective.map_or(objective, |objective| objective.total());
        weighed = step.report.get("weights_evaluated").copied().unwrap_or(weighed);
    }
    let parts: serde_json::Map<_, _> =
        worker.device_times().into_iter().map(|(name, seconds)| (name.to_owned(), (seconds * 1e3).into())).collect();
    let first = local.remove(0);
    println!(
        "{}",
        json!({"likelihood": likelihood, "clusters": clusters, "rows": rows.num_rows(), "seeding_seconds": seeding,
            "first_local_seconds": first, "local_seconds": median(local[..laps].to_vec()),
            "global_seconds": median(global[1..=laps].to_vec()), "last_parts_milliseconds": parts,
            "weighed_a_row": weighed * clusters as f64, "objective_a_row": objective / rows.num_rows() as f64})
    );
}
