//! Write data larger than memory should be: a corpus of many documents as LDA-C text, and a file of patches.
//!
//! `memory corpus FILE DOCUMENTS` and `memory patches FILE ROWS`; both are written as they are drawn.

use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use lsparse::data::{Element, NpyWriter};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const TOPICS: u64 = 500;
const WORDS: u64 = 20_000;
/// Words that a topic uses, by Zipf's law.
const WORDS_A_TOPIC: f64 = 400.0;
const TOKENS: u64 = 60;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["corpus", path, documents] => corpus(Path::new(path), documents.parse()?),
        ["patches", path, rows] => patches(Path::new(path), rows.parse()?),
        _ => Err("usage: memory corpus FILE DOCUMENTS | memory patches FILE ROWS".into()),
    }
}

/// Every document is about three topics, and every topic uses words of its own, some of which others use too.
fn corpus(path: &Path, documents: usize) -> Result<(), Box<dyn Error>> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut words = Vec::new();
    for _ in 0..documents {
        let about: [u64; 3] = std::array::from_fn(|_| rng.random_range(0..TOPICS));
        words.clear();
        for _ in 0..rng.random_range(TOKENS / 2..TOKENS * 3 / 2) {
            let topic = about[rng.random_range(0..3)];
            let rank = WORDS_A_TOPIC.powf(rng.random::<f64>()) as u64 - 1;
            words.push((topic * 7919 + rank * (2 * topic + 31)) % WORDS);
        }
        words.sort_unstable();
        write!(out, "{}", words.chunk_by(|a, b| a == b).count())?;
        for same in words.chunk_by(|a, b| a == b) {
            write!(out, " {}:{}", same[0], same.len())?;
        }
        out.write_all(b"\n")?;
    }
    Ok(out.flush()?)
}

/// Rows of 64 numbers that vary together as neighbouring pixels do, in one of many directions and strengths.
fn patches(path: &Path, rows: usize) -> Result<(), Box<dyn Error>> {
    let mut out = NpyWriter::create(path, Element::F32, 64)?;
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let mut patch = [0.0f32; 64];
    for _ in 0..rows {
        let angle = rng.random_range(0..16) as f32 / 16.0 * std::f32::consts::PI;
        let (dx, dy, strength) = (angle.cos(), angle.sin(), (rng.random::<f32>() * 4.0 - 4.0).exp());
        let (phase, pace) = (rng.random::<f32>() * 6.3, 0.3 + rng.random::<f32>());
        for (i, value) in patch.iter_mut().enumerate() {
            let (x, y) = ((i % 8) as f32, (i / 8) as f32);
            let noise = rng.random::<f32>() - 0.5;
            *value = strength * ((pace * (dx * x + dy * y) + phase).sin() + 0.2 * noise);
        }
        let mean = patch.iter().sum::<f32>() / 64.0;
        patch.iter_mut().for_each(|value| *value -= mean);
        out.write_rows(&patch)?;
    }
    Ok(out.finish()?)
}
