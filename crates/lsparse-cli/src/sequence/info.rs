//! `lsparse info` of a hidden Markov model: what it is, how it was trained, its states and where they lead.

use lsparse::training::rules::count_empty;
use lsparse::{Result, SequenceConfig, SequenceModel};
use serde::Serialize;

use crate::format::{grouped, significant, table};
use crate::info::{InfoArgs, Trained, setting};
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
    #[serde(flatten)]
    trained: Trained,
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
        trained: Trained::of(training),
        config: model.config.clone(),
        largest: order.iter().take(top).map(&mut note).collect(),
    }
}

fn text(name: &str, info: &Info) -> String {
    let config = &info.config;
    let mut text = format!("{name}: a hidden Markov model of {} {} states", info.states, config.likelihood.name());
    text += &format!(", {} of them empty, over {} columns\n", info.empty_states, grouped(info.dim));
    text += &format!("  sparsity    L = {} of K = {}\n", config.sparsity.within(info.states), info.states);
    let estimate = setting(&config.estimate);
    text += &format!("  estimate    {estimate}, alpha {}, stickiness {}\n", config.alpha, config.stickiness);
    let steps = format!("{} steps", grouped(info.rows));
    text += &info.trained.line(&config.schedule, &steps, config.batches, config.seed);
    text += &info.trained.objective();
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
