//! Figure 5: documents that start warm or cold, with and without restarts, dense and sparse.

use lsparse::settings::TopicsConfig;
use serde_json::{Value, json};

use crate::data::{DataSet, Part};
use crate::figure::{Claim, Figure};
use crate::runs::{Curve, Kind, Run, with};
use crate::{Result, Settings, Size};

/// A corpus and how long it is trained on.
struct Corpus {
    data: DataSet,
    batches: usize,
    /// Laps of runs of each kind.
    laps: [usize; 3],
}

/// What is run.
struct Plan {
    corpora: Vec<Corpus>,
    topics: usize,
}

/// L of sparse runs.
const SPARSITY: usize = 8;
/// How documents are worked out: the kind's name, whether L = K, and iterations a document at most, of which the paper
/// has 100 and 15 are our default.
const KINDS: [(&str, bool, usize); 3] =
    [("L = 8", false, 15), ("L = 8, 100 iterations", false, 100), ("L = K", true, 15)];
/// Objectives that differ by less, as a share, are taken for the same.
const SAME_OBJECTIVE: f64 = 1e-3;
/// Scores that differ by less are.
const SAME_SCORE: f64 = 0.01;

fn plan(settings: &Settings) -> Plan {
    let corpus = |data, batches, laps| Corpus { data, batches, laps };
    let planted = |documents, topics, length| DataSet::Planted { documents, topics, length };
    let real = |name: &str| DataSet::Corpus { name: name.into() };
    match (settings.size, &settings.data) {
        (Size::Mini, _) => Plan { corpora: vec![corpus(planted(2000, 20, 12), 4, [8, 4, 4])], topics: 40 },
        (Size::Full, Some(_)) => Plan {
            corpora: vec![
                corpus(real("nips"), 5, [8, 5, 3]),
                corpus(real("wiki"), 5, [6, 4, 3]),
                corpus(real("arxiv"), 20, [5, 3, 2]),
            ],
            topics: 400,
        },
        _ => Plan {
            corpora: vec![
                corpus(planted(4000, 40, 12), 5, [10, 10, 5]),
                corpus(planted(2000, 40, 100), 5, [10, 10, 5]),
            ],
            topics: 80,
        },
    }
}

/// A curve of the figure.
struct Line {
    corpus: String,
    kind: &'static str,
    warm: bool,
    restarts: bool,
    curve: Curve,
}

impl Line {
    /// A number of the trace at the end of every lap.
    fn laps(&self, name: &str) -> Vec<f64> {
        let whole = |line: &&Value| line["lap"].as_f64().is_some_and(|lap| lap.fract() == 0.0);
        self.curve.lines.iter().filter(whole).filter_map(|line| line[name].as_f64()).collect()
    }

    fn rows(&self) -> Vec<Value> {
        let labels = json!({"corpus": self.corpus, "kind": self.kind, "start": if self.warm { "warm" } else { "cold" },
            "restarts": self.restarts});
        let point = |line: &Value| {
            line["heldout"].as_f64()?;
            let share = line["restarts_accepted"].as_f64()? / line["restarts_proposed"].as_f64()?;
            Some(with(
                &labels,
                json!({"lap": line["lap"], "cpu_seconds": line["cpu_seconds"], "objective": line["objective"],
                "heldout": line["heldout"], "active_topics": line["active_topics"],
                "accepted": if share.is_nan() { Value::Null } else { json!(share) }}),
            ))
        };
        self.curve.lines.iter().filter_map(point).collect()
    }
}

/// Run the experiment.
pub fn run(settings: &Settings) -> Result<Figure> {
    let plan = plan(settings);
    let mut runs = Vec::new();
    let mut lines = Vec::new();
    for (n, (kind, dense, iterations)) in KINDS.into_iter().enumerate() {
        for corpus in &plan.corpora {
            for (warm, restarts) in [(false, true), (false, false), (true, true), (true, false)] {
                let mut config = json!({"topics": plan.topics, "sparsity": if dense { plan.topics } else { SPARSITY },
                    "estimate": "vb", "schedule": "memoized", "batches": corpus.batches, "laps": corpus.laps[n],
                    "tolerance": 0.0, "seed": 0, "warm-start": warm});
                if !restarts {
                    config["restarts"] = json!(0);
                }
                if iterations != TopicsConfig::default().doc_iterations {
                    config["doc-iterations"] = json!(iterations);
                }
                runs.push(Run::new(Kind::Topics, &corpus.data, Part::Test, config, 0));
                lines.push((corpus.data.name(), kind, warm, restarts));
            }
        }
    }
    let curves = settings.workshop.perform(&runs)?;
    let line = |((corpus, kind, warm, restarts), curve): (_, Option<Curve>)| {
        curve.map(|curve| Line { corpus, kind, warm, restarts, curve })
    };
    let lines: Vec<Line> = lines.into_iter().zip(curves).filter_map(line).collect();
    let corpora = plan.corpora.iter().map(|corpus| {
        let [sparse, long, dense] = corpus.laps;
        format!("{} ({} batches, laps {sparse}, {long} and {dense})", corpus.data.name(), corpus.batches)
    });
    let kinds = KINDS.map(|(kind, ..)| kind).join("; ");
    let scope = format!(
        "{}, for {kinds}; K = {}, memoized, vb, one seed; restarts as by default (5 a document, 10 if it has fewer \
         than 100 different words) or none; documents at most 15 iterations where nothing else is said. One thread.",
        corpora.collect::<Vec<_>>().join(", "),
        plan.topics
    );
    Ok(Figure { rows: lines.iter().flat_map(Line::rows).collect(), claims: claims(&lines), scope })
}

fn last(values: &[f64]) -> f64 {
    values.last().copied().unwrap_or(f64::NAN)
}

fn claims(lines: &[Line]) -> Vec<Claim> {
    let name = |line: &Line| format!("{} {}", line.corpus, line.kind);
    // Cold starts without restarts: by how much the score fell from its best, and objective after the first laps.
    let mut falls = Vec::new();
    for line in lines.iter().filter(|line| !line.warm && !line.restarts) {
        let (scores, objectives) = (line.laps("heldout"), line.laps("objective"));
        let best = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let top = objectives.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        falls.push((name(line), best - last(&scores), (top - last(&objectives)) / top.abs()));
    }
    let said: Vec<String> = falls
        .iter()
        .map(|(name, score, objective)| format!("{name} {score:.3} ({:.2} %)", 100.0 * objective))
        .collect();
    let fell = falls.iter().filter(|fall| fall.1 > SAME_SCORE || fall.2 > SAME_OBJECTIVE).count();
    let found = format!(
        "{fell} of {} runs fall; held-out score (and objective) at the end below the best: {}",
        falls.len(),
        said.join(", ")
    );
    let mut claims = vec![Claim::new("Without restarts, cold starts can get worse and worse", fell > 0, found)];

    // Cold with restarts against the better of both warm starts.
    for (what, same) in [("objective", SAME_OBJECTIVE), ("heldout", SAME_SCORE)] {
        let (mut said, mut good, mut stuck, mut all) = (Vec::new(), 0, 0, 0);
        for cold in lines.iter().filter(|line| !line.warm && line.restarts) {
            let warm = lines.iter().filter(|line| line.warm && line.corpus == cold.corpus && line.kind == cold.kind);
            let warm = warm.map(|line| last(&line.laps(what))).fold(f64::NEG_INFINITY, f64::max);
            let cold_value = last(&cold.laps(what));
            let ahead = if what == "objective" { (cold_value - warm) / warm.abs() } else { cold_value - warm };
            all += 1;
            good += usize::from(ahead >= -same);
            stuck += usize::from(ahead > same);
            let shown = if what == "objective" { format!("{:+.2} %", 100.0 * ahead) } else { format!("{ahead:+.3}") };
            said.push(format!("{} {shown}", name(cold)));
        }
        let word = if what == "objective" { "objective" } else { "held-out score" };
        let margin = if what == "objective" { format!("{} %", 100.0 * same) } else { same.to_string() };
        let found = format!(
            "{good} of {all} pairs, to within {margin}; cold with restarts ahead of the better warm start by {}",
            said.join(", ")
        );
        claims.push(Claim::new(
            &format!("With restarts a cold start does as well as warm starts or better ({word})"),
            good == all,
            found,
        ));
        let found = format!(
            "in {stuck} of {all} cases both warm starts end lower than the cold start with restarts, by more than {margin}"
        );
        claims.push(Claim::new(&format!("Warm starts get stuck ({word})"), 2 * stuck > all, found));
    }
    claims
}
