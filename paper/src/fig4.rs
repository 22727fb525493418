//! Figure 4: held-out score of topics over training time, by K, L, schedule and estimate, beside samplers.

use serde_json::{Value, json};

use crate::data::{DataSet, Part};
use crate::figure::{Claim, Figure};
use crate::runs::{Curve, Kind, Run, rows_of, with};
use crate::{Result, Settings, Size};

/// A corpus and how long it is trained on.
struct Corpus {
    data: DataSet,
    batches: usize,
    /// Steps between two scores within a lap; 0 for laps only.
    every: u64,
    /// Laps of L-sparse runs, of dense ones, of samplers of all tokens and of SVIGibbs.
    laps: [usize; 4],
    /// Laps of the runs that learning rates are chosen by.
    grid_laps: usize,
    /// Samplers and runs at L = 1, 8 and K are made so many times, and the best is shown.
    seeds: u64,
}

/// What is run: every corpus with every K, L and schedule, and with every sampler.
struct Plan {
    corpora: Vec<Corpus>,
    /// The K; the first is the one that learning rates are chosen at.
    sizes: &'static [usize],
    /// L besides K.
    sparsity: &'static [usize],
}

/// The moderate L of the claims.
const MODERATE: usize = 8;
/// L besides K of all seeds but the first.
const FEW: [usize; 2] = [1, MODERATE];
const ESTIMATES: [&str; 2] = ["vb", "map"];
const DELAYS: [f64; 2] = [1.0, 10.0];
const DECAYS: [f64; 2] = [0.55, 0.65];
/// Schedules of L-sparse and dense runs.
const SCHEDULES: [&str; 2] = ["memoized", "stochastic"];
/// Samplers of all tokens, in laps that are not divided into batches.
const TOKENS: [&str; 2] = ["SparseLDA", "LightLDA"];
const SVI_GIBBS: [&str; 2] = ["SVIGibbs 5", "SVIGibbs 10"];
/// Scores that differ by less are taken for the same: seeds differ by about as much.
const SAME: f64 = 0.02;
/// A run that ends so far below another has failed.
const FAILED: f64 = 0.1;
/// Points of a curve that are kept at most.
const POINTS: usize = 16;

fn plan(settings: &Settings) -> Plan {
    let planted = |documents, topics, length, laps, seeds| {
        let data = DataSet::Planted { documents, topics, length };
        vec![Corpus { data, batches: 5, every: 0, laps, grid_laps: 4, seeds }]
    };
    let real = |name: &str, batches, every, laps, grid_laps, seeds| {
        let data = DataSet::Corpus { name: name.into() };
        Corpus { data, batches, every, laps, grid_laps, seeds }
    };
    let sparsity: &'static [usize] = &[1, 4, MODERATE, 16];
    match (settings.size, &settings.data) {
        (Size::Mini, _) => Plan { corpora: planted(1000, 40, 20, [8, 8, 20, 6], 1), sizes: &[60], sparsity: &FEW },
        (Size::Full, Some(_)) => Plan {
            corpora: vec![
                real("nips", 5, 0, [8, 4, 50, 4], 8, 2),
                real("wiki", 5, 0, [6, 4, 30, 3], 6, 2),
                real("arxiv", 200, 50, [3, 2, 20, 2], 3, 2),
            ],
            sizes: &[200, 800, 50, 400, 100],
            sparsity,
        },
        _ => Plan { corpora: planted(4000, 60, 40, [6, 4, 30, 6], 2), sizes: &[80, 40], sparsity },
    }
}

/// A curve of the figure: what it is, and the run that makes it.
#[derive(Clone)]
struct Line {
    corpus: String,
    topics: usize,
    /// The schedule of L-sparse and dense runs, or the name of a sampler.
    method: &'static str,
    /// Empty for samplers of all tokens, which have no choice.
    estimate: &'static str,
    /// L; 0 for samplers.
    sparsity: usize,
    seed: u64,
    run: Run,
}

/// A line that was run.
struct Drawn {
    line: Line,
    curve: Curve,
}

impl Corpus {
    fn line(&self, method: &'static str, topics: usize, sparsity: usize, estimate: &'static str, more: Value) -> Line {
        let kind = if SCHEDULES.contains(&method) {
            usize::from(sparsity == topics)
        } else {
            2 + usize::from(SVI_GIBBS.contains(&method))
        };
        let base = json!({"topics": topics, "seed": 0, "laps": self.laps[kind]});
        let gibbs =
            |samples| json!({"method": "svi-gibbs", "samples": samples, "batches": self.batches, "tolerance": 0.0});
        let own = match method {
            "SparseLDA" => json!({"method": "sparse-lda"}),
            "LightLDA" => json!({"method": "light-lda"}),
            "SVIGibbs 5" => gibbs(5),
            "SVIGibbs 10" => gibbs(10),
            schedule => json!({"schedule": schedule, "sparsity": sparsity, "estimate": estimate,
                "batches": self.batches, "tolerance": 0.0}),
        };
        let config = with(&with(&base, own), more);
        let seed = config["seed"].as_u64().unwrap_or_default();
        // Samplers make many laps, and scoring would take longer than those.
        let every = if kind == 2 { self.laps[kind] as u64 / 10 } else { self.every };
        let run = Run::new(Kind::Topics, &self.data, Part::Test, config, every);
        Line { corpus: self.data.name(), topics, method, estimate, sparsity, seed, run }
    }

    /// Runs that learning rates are chosen by.
    fn grid(&self, plan: &Plan) -> Vec<Run> {
        let rates = DELAYS.iter().flat_map(|delay| DECAYS.map(|decay| json!({"delay": delay, "decay": decay})));
        let run = |rate: Value| {
            let more = with(&rate, json!({"laps": self.grid_laps}));
            let line = self.line("stochastic", plan.sizes[0], MODERATE, "vb", more);
            Run { part: Part::Val, heldout_every: 0, ..line.run }
        };
        rates.map(run).collect()
    }

    /// Every run of one K and seed.
    fn lines(&self, plan: &Plan, topics: usize, seed: u64, rate: &Value) -> Vec<Line> {
        let seeded = json!({"seed": seed});
        let rated = with(rate, seeded.clone());
        let sparsities = if seed == 0 { plan.sparsity } else { &FEW };
        let mut lines = Vec::new();
        lines.extend(TOKENS.map(|method| self.line(method, topics, 0, "", seeded.clone())));
        lines.extend(SVI_GIBBS.map(|method| self.line(method, topics, 0, "vb", rated.clone())));
        for (schedule, more) in [("stochastic", &rated), ("memoized", &seeded)] {
            for sparsity in sparsities.iter().copied().chain([topics]) {
                lines.extend(ESTIMATES.map(|estimate| self.line(schedule, topics, sparsity, estimate, more.clone())));
            }
        }
        lines
    }
}

/// Every curve: all that one seed gives, then all that the next gives.
fn lines(plan: &Plan, rates: &[Value]) -> Vec<Line> {
    let seeds = plan.corpora.iter().map(|corpus| corpus.seeds).max().unwrap_or_default();
    let mut lines = Vec::new();
    for seed in 0..seeds {
        for (corpus, rate) in plan.corpora.iter().zip(rates).filter(|(corpus, _)| seed < corpus.seeds) {
            plan.sizes.iter().for_each(|&topics| lines.extend(corpus.lines(plan, topics, seed, rate)));
        }
    }
    lines
}

/// Run the experiment.
pub fn run(settings: &Settings) -> Result<Figure> {
    let plan = plan(settings);
    let workshop = &settings.workshop;
    let mut figure = Figure::default();
    let mut rates = Vec::new();
    for corpus in &plan.corpora {
        let tried: Vec<Curve> = workshop.perform(&corpus.grid(&plan))?.into_iter().flatten().collect();
        for curve in &tried {
            figure.rows.push(json!({"panel": "grid", "corpus": corpus.data.name(), "topics": plan.sizes[0],
                "delay": curve.number("delay"), "decay": curve.number("decay"), "heldout": curve.last()}));
        }
        let best = tried.iter().max_by(|a, b| a.last().total_cmp(&b.last())).ok_or("no learning rate was tried")?;
        rates.push(json!({"delay": best.number("delay"), "decay": best.number("decay")}));
    }
    let lines = lines(&plan, &rates);
    let runs: Vec<Run> = lines.iter().map(|line| line.run.clone()).collect();
    let curves = workshop.perform(&runs)?;
    let made = lines.into_iter().zip(curves).filter_map(|(line, curve)| curve.map(|curve| Drawn { line, curve }));
    let drawn: Vec<Drawn> = made.collect();
    for Drawn { line, curve } in &drawn {
        let labels = json!({"panel": "curve", "corpus": line.corpus, "topics": line.topics, "method": line.method,
            "estimate": line.estimate, "sparsity": line.sparsity, "seed": line.seed});
        figure.rows.extend(thinned(rows_of(curve, labels)));
    }
    figure.claims = claims(&drawn);
    figure.scope = scope(&plan, &rates, &drawn, settings);
    Ok(figure)
}

/// At most [`POINTS`] points, first and last among them.
fn thinned(points: Vec<Value>) -> Vec<Value> {
    let many = points.len();
    if many <= POINTS {
        return points;
    }
    // Early points lie close together on a logarithmic axis, late ones do not matter singly: evenly in the log.
    let place = |i: usize| ((many as f64).powf(i as f64 / (POINTS - 1) as f64)).round() as usize;
    let mut kept: Vec<usize> = (0..POINTS).map(|i| place(i).clamp(1, many) - 1).collect();
    kept.dedup();
    kept.into_iter().map(|i| points[i].clone()).collect()
}

impl Drawn {
    /// The score at the end of a lap.
    fn at_lap(&self, lap: usize) -> Option<f64> {
        let line = self.curve.lines.iter().find(|line| line["lap"].as_f64() == Some(lap as f64))?;
        line["heldout"].as_f64()
    }

    fn laps(&self) -> usize {
        self.curve.lines.last().and_then(|line| line["lap"].as_f64()).unwrap_or_default() as usize
    }

    /// CPU seconds until a score was reached.
    fn time_to(&self, score: f64) -> Option<f64> {
        self.curve.scores().into_iter().find(|point| point.1 >= score).map(|point| point.0)
    }

    /// Documents worked through in a CPU second.
    fn throughput(&self) -> f64 {
        let last = self.curve.lines.last();
        let number = |name: &str| last.and_then(|line| line[name].as_f64()).unwrap_or(f64::NAN);
        // Laps begin when seeding is over, whose share shrinks with their number; it is the same for every L.
        number("lap") / number("cpu_seconds")
    }
}

/// Of the runs that differ in their seed alone, the one that ended best.
fn best<'a>(drawn: &'a [Drawn], like: &Line, method: &str, sparsity: usize, estimate: &str) -> Option<&'a Drawn> {
    let same = |other: &&Drawn| {
        let line = &other.line;
        (line.corpus.as_str(), line.topics) == (&like.corpus, like.topics)
            && (line.method, line.sparsity, line.estimate) == (method, sparsity, estimate)
    };
    drawn.iter().filter(same).max_by(|a, b| a.curve.last().total_cmp(&b.curve.last()))
}

/// L = 8 beside other runs of the same corpus, K, schedule and estimate.
struct Pair<'a> {
    moderate: &'a Drawn,
    other: &'a Drawn,
}

impl Pair<'_> {
    /// By how much the other run is better at the last lap that both have.
    fn lead(&self) -> f64 {
        let lap = self.moderate.laps().min(self.other.laps());
        self.other.at_lap(lap).zip(self.moderate.at_lap(lap)).map_or(f64::NAN, |(other, moderate)| other - moderate)
    }

    /// How many times as long the other run took to a score just below the lower of the two last ones.
    fn slower(&self) -> Option<f64> {
        let score = self.moderate.curve.last().min(self.other.curve.last()) - SAME / 2.0;
        Some(self.other.time_to(score)? / self.moderate.time_to(score)?)
    }

    fn name(&self) -> String {
        let line = &self.moderate.line;
        format!("{} K = {} {} {}", line.corpus, line.topics, line.method, line.estimate)
    }
}

/// Every run at L = 8 with the run at another L.
fn pairs(drawn: &[Drawn], sparsity: impl Fn(usize) -> usize) -> Vec<Pair<'_>> {
    let at = |like: &Line| {
        let pair = |l| best(drawn, like, like.method, l, like.estimate);
        Some(Pair { moderate: pair(MODERATE)?, other: pair(sparsity(like.topics))? })
    };
    let moderate = drawn.iter().filter(|d| d.line.sparsity == MODERATE && d.line.seed == 0);
    moderate.filter_map(|d| at(&d.line)).collect()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The least and the largest.
fn range(values: &[f64]) -> [f64; 2] {
    [values.iter().copied().fold(f64::INFINITY, f64::min), values.iter().copied().fold(f64::NEG_INFINITY, f64::max)]
}

fn claims(drawn: &[Drawn]) -> Vec<Claim> {
    let mut claims = Vec::new();
    let dense = pairs(drawn, |topics| topics);
    let mut sizes: Vec<usize> = dense.iter().map(|pair| pair.moderate.line.topics).collect();
    sizes.sort_unstable();
    sizes.dedup();

    let slower: Vec<f64> = dense.iter().filter_map(Pair::slower).collect();
    let by_size = sizes.iter().map(|&topics| {
        let of_size = dense.iter().filter(|pair| pair.moderate.line.topics == topics).filter_map(Pair::slower);
        format!("{:.1} at K = {topics}", median(of_size.collect()))
    });
    let found = format!(
        "{} pairs of runs; dense took, in the median, {} times as long (single pairs {:.1} to {:.1})",
        slower.len(),
        by_size.collect::<Vec<_>>().join(", "),
        range(&slower)[0],
        range(&slower)[1]
    );
    claims.push(Claim::new("L = 8 converges several times faster than L = K", median(slower) >= 2.0, found));

    for estimate in ESTIMATES {
        let of = |pairs: &'_ [Pair<'_>]| -> Vec<(f64, String)> {
            let chosen = pairs.iter().filter(|pair| pair.moderate.line.estimate == estimate);
            chosen.map(|pair| (pair.lead(), pair.name())).collect()
        };
        let leads = of(&dense);
        let values: Vec<f64> = leads.iter().map(|lead| lead.0).collect();
        let within = values.iter().filter(|lead| lead.abs() <= SAME).count();
        let worst = leads.iter().max_by(|a, b| a.0.total_cmp(&b.0)).map_or("", |lead| &lead.1);
        let [low, high] = range(&values);
        let found = format!(
            "after as many laps dense is {:+.3} ahead in the median, {low:+.3} to {high:+.3} ({worst}); {within} of {} \
             pairs within {SAME}",
            median(values.clone()),
            values.len()
        );
        let claim = format!("L = 8 predicts as well as L = K ({estimate})");
        claims.push(Claim::new(&claim, values.iter().all(|&lead| lead <= SAME), found));

        let hard = of(&pairs(drawn, |_| 1));
        if let Some((lead, name)) = hard.iter().min_by(|a, b| a.0.total_cmp(&b.0)) {
            let failed = hard.iter().filter(|lead| lead.0 < -FAILED).count();
            let ones = drawn.iter().filter(|d| d.line.sparsity == 1 && d.line.estimate == estimate);
            let (mut falling, mut all) = (0, 0);
            for one in ones.filter(|one| one.laps() > 1) {
                all += 1;
                let (first, last) = (one.at_lap(1), one.at_lap(one.laps()));
                falling += usize::from(first.zip(last).is_some_and(|(first, last)| last < first));
            }
            let found = format!(
                "below L = 8 by {:.3} at worst ({name}) and by more than {FAILED} in {failed} of {} pairs; {falling} of \
                 {all} runs end lower than they were after one lap",
                -lead,
                hard.len()
            );
            claims.push(Claim::new(&format!("L = 1 can fail catastrophically ({estimate})"), failed > 0, found));
        }
    }
    claims.extend(restarts(drawn));
    claims.extend(slow_baselines(drawn));
    claims.extend(light(drawn));
    claims
}

/// How often restarts are accepted.
fn restarts(drawn: &[Drawn]) -> Option<Claim> {
    let corpora: Vec<&str> = drawn.iter().map(|d| d.line.corpus.as_str()).collect();
    let corpus = if corpora.contains(&"wiki") { "wiki" } else { corpora.first()? };
    let mut said = Vec::new();
    let mut all = Vec::new();
    for (estimate, dense) in [("vb", false), ("vb", true), ("map", false), ("map", true)] {
        let chosen = |d: &&Drawn| {
            let line = &d.line;
            let sparsity = if dense { line.topics } else { MODERATE };
            line.corpus == corpus && line.estimate == estimate && line.sparsity == sparsity
        };
        let lines = drawn.iter().filter(chosen).flat_map(|d| &d.curve.lines);
        let shares: Vec<f64> = lines
            .filter_map(|line| Some(line["restarts_accepted"].as_f64()? / line["restarts_proposed"].as_f64()?.max(1.0)))
            .collect();
        if shares.is_empty() {
            continue;
        }
        let [low, high] = range(&shares);
        let name = if dense { "L = K" } else { "L = 8" };
        said.push(format!("{name} {estimate} {:.0} to {:.0} %", 100.0 * low, 100.0 * high));
        all.extend(shares);
    }
    let inside = all.iter().filter(|&&share| (0.4..=0.8).contains(&share)).count();
    let found = format!("{corpus}, laps: {}; {inside} of {} laps between 40 and 80 %", said.join(", "), all.len());
    Some(Claim::new("40 to 80 % of restarts are accepted on Wikipedia", 2 * inside > all.len(), found))
}

/// Samplers against the score that memoized L = 8 ends with.
fn slow_baselines(drawn: &[Drawn]) -> Option<Claim> {
    let mut said = Vec::new();
    let (mut reached, mut all) = (0, 0);
    for method in ["SparseLDA", "SVIGibbs 5", "SVIGibbs 10"] {
        let mut counts = [0; 2];
        let samplers: Vec<&Drawn> = drawn.iter().filter(|d| d.line.method == method).collect();
        for sampler in &samplers {
            for (estimate, count) in ESTIMATES.iter().zip(&mut counts) {
                let ours = best(drawn, &sampler.line, "memoized", MODERATE, estimate)?;
                *count += usize::from(sampler.time_to(ours.curve.last() - SAME).is_some());
            }
        }
        reached += counts[0];
        all += samplers.len();
        said.push(format!("{method} {} (map: {}) of {}", counts[0], counts[1], samplers.len()));
    }
    let found = format!("come within {SAME} of where memoized L = 8 vb ends: {}", said.join(", "));
    Some(Claim::new("Few runs of SparseLDA and SVIGibbs become competitive", 2 * reached < all, found))
}

/// LightLDA against memoized L = 8: documents a second, and the time to a good score.
fn light(drawn: &[Drawn]) -> Option<Claim> {
    let samplers: Vec<&Drawn> = drawn.iter().filter(|d| d.line.method == "LightLDA").collect();
    let (mut rates, mut slower, mut never) = (Vec::new(), [Vec::new(), Vec::new()], [0; 2]);
    for sampler in &samplers {
        for (n, estimate) in ESTIMATES.iter().enumerate() {
            let ours = best(drawn, &sampler.line, "memoized", MODERATE, estimate)?;
            let good = ours.curve.last() - SAME;
            match sampler.time_to(good).zip(ours.time_to(good)) {
                Some((theirs, ours)) => slower[n].push(theirs / ours),
                None => never[n] += 1,
            }
            rates.push(sampler.throughput() / ours.throughput());
        }
    }
    let later = never[0] + slower[0].iter().filter(|&&ratio| ratio > 1.0).count();
    let rate = median(rates.clone());
    let [low, high] = range(&rates);
    let said = |n: usize| {
        let times = if slower[n].is_empty() {
            String::new()
        } else {
            format!(", {:.1} times later where it does", median(slower[n].clone()))
        };
        format!("never in {} of {} cases{times}", never[n], samplers.len())
    };
    let found = format!(
        "{rate:.2} times the documents a CPU second of L = 8 in the median ({low:.2} to {high:.2}); reaches the score of \
         L = 8 vb (less {SAME}) {}; of L = 8 map {}",
        said(0),
        said(1)
    );
    let holds = rate > 1.0 && 2 * later > samplers.len();
    (!samplers.is_empty())
        .then(|| Claim::new("LightLDA has the higher throughput but reaches a good score later", holds, found))
}

fn scope(plan: &Plan, rates: &[Value], drawn: &[Drawn], settings: &Settings) -> String {
    let numbers = |list: &[usize]| list.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    let mut sizes = plan.sizes.to_vec();
    sizes.sort_unstable();
    let corpora = plan.corpora.iter().zip(rates).map(|(corpus, rate)| {
        let [sparse, dense, tokens, gibbs] = corpus.laps;
        let name = corpus.data.name();
        // What was made, which is less than the plan where runs were cut short.
        let made = |seed: u64| drawn.iter().filter(|d| d.line.corpus == name && d.line.seed == seed).count();
        let seeds = (0..corpus.seeds).filter(|&seed| made(seed) > 0).map(|seed| made(seed).to_string());
        format!(
            "{name} ({} batches; laps: L < K {sparse}, dense {dense}, SparseLDA and LightLDA {tokens}, SVIGibbs {gibbs}; \
             rate: delay {}, decay {}; runs by seed: {})",
            corpus.batches,
            rate["delay"],
            rate["decay"],
            seeds.collect::<Vec<_>>().join(", ")
        )
    });
    let evidence = if settings.size == Size::Full && settings.data.is_some() { "" } else { " Planted documents." };
    format!(
        "{}. K in {{{}}}: memoized and stochastic at L in {{{}, K}}, vb and map; all samplers. Seeds after \
         the first: L = 1, 8 and K and the samplers, of which the one that ended best is shown. Document step: our \
         defaults (15 iterations, tolerance 0.05, 5 restarts, 10 for documents of fewer than 100 words; dense and sparse \
         alike). One thread; times are CPU seconds of training with seeding, without scoring.{evidence}",
        corpora.collect::<Vec<_>>().join("; "),
        numbers(&sizes),
        numbers(plan.sparsity)
    )
}
