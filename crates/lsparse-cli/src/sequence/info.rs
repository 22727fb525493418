//! `lsparse info` of a hidden Markov model: what it is, how it was trained, its states and where they lead.

use lsparse::training::rules::count_empty;
use lsparse::{Result, SequenceConfig, SequenceModel};
use serde::Serialize;

use crate::format::{counted, grouped, significant, table};
use crate::info::{InfoArgs, setting};
use crate::{output, topics};

/// States that are named to follow a state.
const FOLLOWERS: usize = 3;

/// A state in a few numbers.
#[derive(Serialize)]
struct StateNote {
    state: usize,
    count: f64,
    start: f64,
    /// The probability of staying.
    stay: f64,
    /// Steps that it lasts on average.
    duration: f64,
    /// The states that most probably follow, and how probably.
    followers: Vec<(usize, f64)>,
}

#[derive(Serialize)]
struct Info {
    kind: &'static str,
    dim: usize,
    states: usize,
    empty_states: usize,
    rows: usize,
    laps: usize,
    steps: u64,
    stopped_by: String,
    objective: f64,
    objective_data: f64,
    objective_entropy: f64,
    objective_alloc: f64,
    config: SequenceConfig,
    largest: Vec<StateNote>,
}

pub fn run(args: &InfoArgs, model: &SequenceModel) -> Result<()> {
    topics::refuse_given(&[("examples", args.data.is_some())], "a hidden Markov model")?;
    let info = describe(model, args.top);
    match args.json {
        true => output::print_json(&info),
        false => output::print(&text(&args.model.display().to_string(), &info)),
    }
}

fn describe(model: &SequenceModel, top: usize) -> Info {
    let (training, counts) = (&model.training, &model.total.clusters.counts);
    let mut order: Vec<usize> = (0..model.num_states()).collect();
    order.sort_by(|&a, &b| counts[b].total_cmp(&counts[a]));
    let chain = model.chain();
    let mut row = vec![0.0; model.num_states()];
    let mut note = |&k: &usize| {
        chain.write_row(k, &mut row);
        let mut followers: Vec<(usize, f64)> = row.iter().copied().enumerate().filter(|(to, _)| *to != k).collect();
        followers.sort_by(|a, b| b.1.total_cmp(&a.1));
        followers.truncate(FOLLOWERS);
        let (stay, start) = (row[k], chain.start[k]);
        let duration = 1.0 / (1.0 - stay).max(f64::MIN_POSITIVE);
        StateNote { state: k, count: counts[k], start, stay, duration, followers }
    };
    Info {
        kind: "sequence",
        dim: model.dim(),
        states: model.num_states(),
        empty_states: count_empty(counts),
        rows: training.observations,
        laps: training.laps,
        steps: training.steps,
        stopped_by: training.stopped_by.clone(),
        objective: training.objective,
        objective_data: training.objective_data,
        objective_entropy: training.objective_entropy,
        objective_alloc: training.objective_alloc,
        config: model.config.clone(),
        largest: order.iter().take(top).map(&mut note).collect(),
    }
}

fn text(name: &str, info: &Info) -> String {
    let config = &info.config;
    let mut text = format!("{name}: a hidden Markov model of {} {} states", info.states, config.likelihood.name());
    text += &format!(" over {} columns, {} of them empty\n", grouped(info.dim), info.empty_states);
    text += &format!("  sparsity    L = {} of K = {}\n", config.sparsity.within(info.states), info.states);
    let (estimate, schedule) = (setting(&config.estimate), setting(&config.schedule));
    text += &format!("  estimate    {estimate}, alpha {}, stickiness {}\n", config.alpha, config.stickiness);
    let batches = counted(config.batches.unwrap_or(1), "batch", "batches");
    text += &format!("  trained     {schedule} on {} steps in {batches}, seed {}", grouped(info.rows), config.seed);
    let laps = if info.laps == 1 { "lap" } else { "laps" };
    text += &format!(", {} {laps}, stopped by {}\n", info.laps, info.stopped_by);
    text += &format!(
        "  objective   {} = data {} + entropy {} + allocation {}\n",
        significant(info.objective, 9),
        significant(info.objective_data, 9),
        significant(info.objective_entropy, 6),
        significant(info.objective_alloc, 6),
    );
    if info.largest.is_empty() {
        return text;
    }
    text += "\nlargest states (states count from 0)\n";
    let rows: Vec<Vec<String>> = info.largest.iter().map(cells).collect();
    text + &table(&["state", "steps", "start", "stay", "duration", "followed by"], &rows)
}

fn cells(note: &StateNote) -> Vec<String> {
    let followers: Vec<String> = note.followers.iter().map(|(k, p)| format!("{k} ({p:.3})")).collect();
    vec![
        note.state.to_string(),
        format!("{:.1}", note.count),
        format!("{:.3}", note.start),
        format!("{:.3}", note.stay),
        significant(note.duration, 3),
        followers.join("  "),
    ]
}
