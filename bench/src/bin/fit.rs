//! One fit of a mixture on rows in memory, timed: what the Python layer is compared with.
//!
//! `fit DATA.npy CONFIG.json THREADS` prints seconds of the whole call and the objective as JSON.

use std::path::Path;
use std::time::Instant;

use lsparse::backend::with_threads;
use lsparse::data::{MemoryRows, Rows};
use lsparse::open::{OpenOptions, open};
use lsparse::{MixtureConfig, fit_mixture};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [data, config, threads] = &args[..] else { return Err("usage: fit DATA.npy CONFIG.json THREADS".into()) };
    let source = open(Path::new(data), &OpenOptions::default())?;
    let mut rows = Rows::<f64>::dense(source.dim());
    source.read_f64(0, source.num_rows(), &mut rows)?;
    let rows = MemoryRows::new("X", source.dim(), rows.as_dense().unwrap_or(&[]).to_vec())?;
    let config: MixtureConfig = serde_json::from_str(&std::fs::read_to_string(config)?)?;
    let start = Instant::now();
    let fitted = with_threads(threads.parse::<usize>()?, || fit_mixture(&rows, &config))??;
    let seconds = start.elapsed().as_secs_f64();
    println!("{}", serde_json::json!({"seconds": seconds, "objective": fitted.outcome.objective.total()}));
    Ok(())
}
