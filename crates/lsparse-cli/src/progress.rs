//! Show how a run goes: a bar on a terminal, plain lines elsewhere, nothing when asked to be quiet.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use lsparse::Result;
use lsparse::training::observe::Observer;
use lsparse::training::rules::EVIDENCE;
use lsparse::training::trace::StepInfo;

use crate::format::{duration, rate, significant};
use crate::messages::in_options;
use crate::output::message;

/// Parts of a bar, whatever it measures.
const PARTS: u64 = 1000;

/// Plain lines come at most this often, but for the last.
const LINE_EVERY: Duration = Duration::from_secs(1);

/// Where progress is shown.
enum Display {
    Nowhere,
    Lines { last: Option<Instant>, waiting: Option<String> },
    Bar(ProgressBar),
}

impl Display {
    fn choose(quiet: bool, first: &str) -> Self {
        if quiet {
            return Display::Nowhere;
        }
        if !io::stderr().is_terminal() {
            return Display::Lines { last: None, waiting: None };
        }
        let bar = ProgressBar::new(PARTS);
        if let Ok(style) = ProgressStyle::with_template("{spinner} {bar:12} {wide_msg}") {
            bar.set_style(style);
        }
        bar.set_message(first.to_owned());
        bar.enable_steady_tick(Duration::from_millis(120));
        Display::Bar(bar)
    }

    /// Show `text`; `line` says whether it is worth a line of its own.
    fn show(&mut self, share: Option<f64>, text: &dyn Fn() -> String, line: bool) {
        match self {
            Display::Nowhere => {}
            Display::Bar(bar) => {
                bar.set_position((share.unwrap_or(0.0) * PARTS as f64) as u64);
                bar.set_message(text());
            }
            Display::Lines { last, waiting } if line => {
                if last.is_none_or(|at| at.elapsed() >= LINE_EVERY) {
                    message(&text());
                    *last = Some(Instant::now());
                    *waiting = None;
                } else {
                    *waiting = Some(text());
                }
            }
            Display::Lines { .. } => {}
        }
    }

    /// Say something besides.
    fn say(&self, text: &str) {
        match self {
            Display::Nowhere => {}
            Display::Bar(bar) => bar.suspend(|| message(text)),
            Display::Lines { .. } => message(text),
        }
    }

    fn finish(&mut self) {
        match self {
            Display::Nowhere => {}
            Display::Bar(bar) => bar.finish_and_clear(),
            Display::Lines { waiting, .. } => {
                if let Some(line) = waiting.take() {
                    message(&line);
                }
            }
        }
    }
}

/// How long a training may take, and what it works through.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    laps: Option<usize>,
    max_seconds: Option<f64>,
    runs: usize,
    /// What rows are called.
    unit: &'static str,
    /// What the objective is one of a row of (or a token), and how many there are, by weight; 0 where that is not known.
    observation: &'static str,
    weight: f64,
    /// Whether the objective says nothing in the first lap, of whose batches the later are stood in for.
    silent_at_first: bool,
}

impl Plan {
    /// A training on rows or tokens of this weight altogether, of which the objective is shown.
    pub fn over(self, weight: f64) -> Self {
        Plan { weight, ..self }
    }

    /// Topics that leave batches out: the objective of the first lap is one of what they started from, and nothing is said
    /// before there is evidence.
    pub fn silent_at_first(self, silent_at_first: bool) -> Self {
        Plan { silent_at_first, ..self }
    }

    /// What training raises, in nats a row or token, which do not grow with the data; in total where nothing else is known.
    fn objective(&self, total: f64) -> String {
        match self.weight > 0.0 {
            true => format!("objective {} a {}", significant(total / self.weight, 6), self.observation),
            false => format!("objective {}", significant(total, 9)),
        }
    }
}

impl Plan {
    /// That of a run over `unit` with these settings; `observation` is what scores are a piece of.
    pub fn new(of: &lsparse::settings::Plan, unit: &'static str, observation: &'static str) -> Self {
        Plan {
            laps: of.rules.laps,
            max_seconds: of.rules.max_seconds,
            runs: of.runs,
            unit,
            observation,
            weight: 0.0,
            silent_at_first: false,
        }
    }
}

/// Watches a training.
pub struct TrainingProgress {
    display: Display,
    label: String,
    plan: Plan,
    run: usize,
    /// The latest score and evidence, shown until there are others.
    heldout: Option<f64>,
    evidence: Option<f64>,
    started: Instant,
}

impl TrainingProgress {
    /// For a training of this length; `label` comes first in every line.
    pub fn new(quiet: bool, label: &str, plan: Plan) -> Self {
        TrainingProgress {
            display: Display::choose(quiet, &format!("{label}checking the data and seeding")),
            label: label.to_owned(),
            plan,
            run: 0,
            heldout: None,
            evidence: None,
            started: Instant::now(),
        }
    }

    /// The last line, and the bar away.
    pub fn finish(&mut self) {
        self.display.finish();
    }

    /// How much of all runs is done at least, if a rule says when they must end.
    fn share(&self, info: &StepInfo) -> Option<f64> {
        let Plan { laps, max_seconds, runs, .. } = self.plan;
        let by_laps = laps.map(|laps| info.lap / laps as f64);
        let by_time = max_seconds.map(|most| info.seconds / most);
        by_laps
            .into_iter()
            .chain(by_time)
            .reduce(f64::max)
            .map(|share| (info.run as f64 + share.min(1.0)) / runs as f64)
    }
}

impl Observer for TrainingProgress {
    fn remark(&mut self, text: &str) {
        self.display.say(&format!("warning: {}", in_options(text)));
    }

    fn step(&mut self, info: &StepInfo) -> Result<()> {
        if info.run != self.run {
            // The last line of the run before must not be lost.
            if let Display::Lines { waiting, .. } = &mut self.display {
                waiting.take().inspect(|line| message(line));
            }
            self.run = info.run;
            (self.heldout, self.evidence) = (None, None);
        }
        let share = self.share(info);
        let elapsed = self.started.elapsed().as_secs_f64();
        self.heldout = info.heldout.or(self.heldout);
        self.evidence = info.report.get(EVIDENCE).copied().or(self.evidence);
        let (label, plan, Plan { laps, runs, unit, .. }) = (&self.label, self.plan, self.plan);
        let (heldout, evidence) = (self.heldout, self.evidence);
        let text = || {
            let mut text = label.clone();
            if runs > 1 {
                text += &format!("run {}/{runs}  ", info.run + 1);
            }
            text += &if info.ends_lap { format!("lap {:.0}", info.lap) } else { format!("lap {:.1}", info.lap) };
            if let Some(laps) = laps {
                text += &format!("/{laps}");
            }
            text += &match (evidence, info.objective) {
                (Some(evidence), _) => {
                    let perplexity = significant((-evidence).exp(), 4);
                    format!("  evidence {} a token (perplexity {perplexity})", significant(evidence, 6))
                }
                (None, Some(_)) if plan.silent_at_first && info.lap <= 1.0 => String::new(),
                (None, Some(objective)) => format!("  {}", plan.objective(objective.total())),
                (None, None) => String::new(),
            };
            text += &format!("  {} {unit}/s", rate(info.rows_per_second));
            if let Some(share) = share.filter(|&share| share > 0.0) {
                text += &format!("  {} left", duration(elapsed * (1.0 - share) / share));
            }
            // Last, since a narrow terminal cuts the line.
            if let Some(score) = heldout {
                text += &format!("  held-out {}", significant(score, 6));
            }
            text
        };
        self.display.show(share, &text, info.ends_lap);
        Ok(())
    }
}

impl Drop for TrainingProgress {
    /// A bar must not stay when an error ends the run.
    fn drop(&mut self) {
        self.finish();
    }
}

/// Watches rows go by.
pub struct RowProgress {
    display: Display,
    what: &'static str,
    total: usize,
    started: Instant,
}

impl RowProgress {
    pub fn new(quiet: bool, what: &'static str, total: usize) -> Self {
        RowProgress { display: Display::choose(quiet, what), what, total, started: Instant::now() }
    }

    /// So many rows are done.
    pub fn at(&mut self, rows: usize) {
        let share = rows as f64 / self.total.max(1) as f64;
        let elapsed = self.started.elapsed().as_secs_f64();
        let (what, total) = (self.what, self.total);
        let text = || {
            let left = duration(elapsed * (1.0 - share) / share.max(1e-9));
            format!("{what} {rows}/{total} rows  {} rows/s  {left} left", rate(rows as f64 / elapsed.max(1e-9)))
        };
        self.display.show(Some(share), &text, true);
    }

    pub fn finish(&mut self) {
        self.display.finish();
    }
}

impl Drop for RowProgress {
    fn drop(&mut self) {
        self.finish();
    }
}

#[cfg(test)]
mod tests {
    use lsparse::MixtureConfig;
    use lsparse::settings::TopicsConfig;

    use super::*;

    #[test]
    fn the_objective_is_that_of_a_row_where_rows_are_counted() {
        let plan = Plan::new(&MixtureConfig::default().plan(), "rows", "row");
        assert_eq!(plan.objective(-1234.5), "objective -1234.50000");
        assert_eq!(plan.over(100.0).objective(-1234.5), "objective -12.3450 a row");
        let plan = Plan::new(&TopicsConfig::default().plan(), "documents", "token");
        assert_eq!(plan.over(1e3).objective(-7500.0), "objective -7.50000 a token");
    }
}
