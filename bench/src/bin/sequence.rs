//! Steps a second of a lap of a hidden Markov model by K and L, on planted sequences; one JSON object a line on stdout.
//!
//! `cargo xtask bench sequence` runs this beside hmmlearn on the same rows. A lap is the local step of all sequences and a
//! global step; the first, which has nothing to go on from, is not timed.

use std::path::Path;

use lsparse::backend::with_threads;
use lsparse::data::{Groups, MemoryRows, write_npy_f64};
use lsparse::runs::Family;
use lsparse::sequence::SequenceFamily;
use lsparse::synthetic::{ChainShape, planted_chain};
use lsparse::{Estimate, LikelihoodKind, ScheduleKind, SequenceConfig, SequenceInputs, Sparsity};
use lsparse_bench::{Timer, median};
use serde_json::json;

const SEQUENCES: usize = 20;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [out, steps, states, dim, laps, threads, sparsities @ ..] = &args[..] else {
        panic!("usage: sequence OUT.npy STEPS K COLUMNS LAPS THREADS L...");
    };
    let number = |text: &String| text.parse::<usize>().expect("a number");
    let (steps, states, dim, laps, threads) =
        (number(steps), number(states), number(dim), number(laps), number(threads));
    let likelihood = LikelihoodKind::DiagGauss;
    let lengths = vec![steps / SEQUENCES; SEQUENCES];
    let truth = planted_chain(likelihood, &lengths, dim, states, ChainShape { blur: 2.0, ..Default::default() }, 1);
    write_npy_f64(Path::new(out), dim, &truth.values).expect("a file for the rows");
    let rows = MemoryRows::new("planted", dim, truth.values).expect("rows");
    let groups = Groups::of_lengths("lengths", &lengths, lengths.iter().sum()).expect("groups");
    for sparsity in sparsities {
        let config = SequenceConfig {
            likelihood,
            states,
            sparsity: Sparsity::parse(sparsity).expect("L"),
            estimate: Estimate::MaxLikelihood,
            schedule: ScheduleKind::Full,
            laps: Some(laps),
            tolerance: None,
            init_rows: Some(4 * states.max(500)),
            init_lloyd: Some(1),
            ..Default::default()
        };
        with_threads(threads, || {
            let inputs = SequenceInputs { groups: Some(&groups), ..Default::default() };
            SequenceFamily::<f64>::with(&rows, &config, inputs, |family| {
                let mut session = family.session(0)?;
                let mut worker = session.worker();
                session.step(&mut worker)?;
                let (mut seconds, mut cpu) = (Vec::new(), Vec::new());
                for _ in 0..laps {
                    let mut timer = Timer::default();
                    timer.time(|| session.step(&mut worker))?;
                    seconds.push(timer.wall);
                    cpu.push(timer.cpu);
                }
                let (lap, cpu) = (median(seconds), median(cpu));
                let objective = session.objective().total() / steps as f64;
                println!(
                    "{}",
                    json!({"states": states, "sparsity": config.check(steps)?.sparsity, "threads": threads,
                        "seconds": lap, "cpu_seconds": cpu, "steps_per_second": steps as f64 / lap,
                        "steps_per_cpu_second": steps as f64 / cpu, "objective_per_step": objective})
                );
                Ok(())
            })
            .expect("training");
        })
        .expect("threads");
    }
}
