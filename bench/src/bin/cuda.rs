//! Seconds a lap of a Gaussian mixture on a GPU by K, the local and the global step apart, and where the time of the local
//! step goes; one JSON object a line on stdout. `cargo xtask bench cuda --images DIR` runs this.
//!
//! Rows are those of a file or a folder of images, read into memory first; the first lap brings them to the GPU. Each K
//! starts from rows drawn at random, so that the laps measured are among the first of a training.

use std::path::Path;
use std::time::Instant;

use lsparse::backend::DeviceChoice;
use lsparse::data::{MemoryRows, RowSource, Rows, read};
use lsparse::mixture::Mixtures;
use lsparse::open::{OpenOptions, open};
use lsparse::runs::Family;
use lsparse::{Init, LikelihoodKind, MixtureConfig, MixtureInputs, ScheduleKind, Sparsity};
use lsparse_bench::median;
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
    let source = open(Path::new(path), &OpenOptions::default()).expect("rows");
    let mut rows = Rows::<f32>::dense(source.dim());
    read(source.as_ref(), 0, source.num_rows(), &mut rows).expect("rows");
    let values = rows.dense_rows(0..rows.len()).to_vec();
    let memory = MemoryRows::new("rows", source.dim(), values).expect("rows");
    eprintln!("{} rows in {:.2} s", memory.num_rows(), start.elapsed().as_secs_f64());
    for clusters in clusters {
        time(&memory, likelihood, device, clusters.parse().expect("K"), laps);
    }
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
