//! Figure 3: what the substeps of a pass over documents cost by K and L, and how far sparse documents are from dense.

use lsparse::Estimate;
use lsparse::Sparsity;
use lsparse::allocation::AlphaRule;
use lsparse::backend::with_threads;
use lsparse::corpus::Corpus;
use lsparse::data::{Batches, Dealt, RowSource, Rows};
use lsparse::settings::{Selection, TopicsConfig};
use lsparse::topics::{
    Document, DocumentOptions, Entries, SparseStats, TopicParams, TopicSummary, Topics, WordStats, initial_topics,
};
use lsparse::training::model::Model;
use lsparse::training::observe::Stopwatch;
use lsparse::training::schedule::{Pace, ScheduleKind};
use lsparse::training::session::{Places, Session, Start};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use crate::data::{DataSet, Part};
use crate::figure::{Claim, Figure};
use crate::{Result, Settings, Size};

/// What is measured.
struct Plan {
    data: DataSet,
    batches: usize,
    /// K of the passes and of the distances.
    topics: usize,
    /// Passes, and how many sparse and dense ones are made to tell their time.
    passes: usize,
    made: [usize; 2],
    /// K of the local and the summary step.
    sizes: &'static [usize],
    /// K that the claim on speed is about.
    claimed: usize,
    /// L besides K.
    sparsity: &'static [usize],
    /// Documents of the local and the summary step and of the distances.
    documents: usize,
}

/// Iterations of a document, as in the paper.
const ITERATIONS: usize = 100;
/// The moderate L of the claims.
const MODERATE: usize = 8;
/// Points of a distribution.
const POINTS: usize = 50;
/// Documents whose entries are added up at once, as in training.
const PANEL: usize = 1024;
/// Rounds of a sparse measurement, of which the fastest counts; dense ones are long enough to be taken once.
const ROUNDS: usize = 3;

fn plan(settings: &Settings) -> Plan {
    let planted = |documents, topics| DataSet::Planted { documents, topics, length: 100 };
    let full = Plan {
        data: DataSet::Corpus { name: "wiki".into() },
        batches: 5,
        topics: 800,
        passes: 10,
        made: [4, 1],
        sizes: &[50, 100, 200, 400, 800],
        claimed: 400,
        sparsity: &[1, 4, 8, 16],
        documents: 1000,
    };
    match (settings.size, &settings.data) {
        (Size::Mini, _) => Plan {
            data: planted(600, 60),
            topics: 80,
            passes: 2,
            made: [1, 1],
            sizes: &[40, 80],
            claimed: 80,
            documents: 100,
            ..full
        },
        (Size::Full, Some(_)) => full,
        _ => Plan { data: planted(3000, 200), topics: 200, sizes: &[50, 100, 200, 400], documents: 500, ..full },
    }
}

/// Run the experiment.
pub fn run(settings: &Settings) -> Result<Figure> {
    let plan = plan(settings);
    let files = settings.workshop.store().files(&plan.data, Part::Test)?;
    let corpus = Corpus::open(&files.train)?;
    with_threads(1, || measure(&plan, &corpus))?
}

fn measure(plan: &Plan, corpus: &Corpus) -> Result<Figure> {
    let mut rows = Vec::new();
    for sparsity in plan.sparsity.iter().copied().chain([plan.topics]) {
        rows.push(passes(plan, corpus, sparsity)?);
    }
    let documents = plan.documents.min(corpus.num_rows());
    let mut sample = Rows::sparse(corpus.dim());
    corpus.read_f32(0, documents, &mut sample)?;
    for &topics in plan.sizes {
        let total = trained(corpus, topics)?;
        for sparsity in plan.sparsity.iter().copied().chain([topics]) {
            rows.push(steps(&total, topics, sparsity, Selection::End, &sample)?);
        }
        rows.push(steps(&total, topics, MODERATE, Selection::PAPER, &sample)?);
        if topics == plan.topics {
            for restarts in [5, 0] {
                rows.extend(distances(&total, topics, plan.sparsity, restarts, &sample)?);
            }
        }
    }
    let scope = format!(
        "a: {} passes over {} ({} documents, {} batches, memoized, documents at most 15 iterations and 5 restarts), K = \
         {}, worked out from {} passes and from {} where L = K. b, c, d: the first {documents} documents of the corpus \
         under topics that one lap with L = 8 left, {ITERATIONS} iterations a document (d: or until counts change by less \
         than 0.05); b with 5 restarts, d at K = {}. vb, one thread, CPU seconds.",
        plan.passes,
        plan.data.name(),
        corpus.num_rows(),
        plan.batches,
        plan.topics,
        plan.made[0],
        plan.made[1],
        plan.topics,
    );
    Ok(Figure { claims: claims(plan, &rows), rows, scope })
}

/// The model at some K and L, with the document step's settings.
fn model(topics: usize, vocab_size: usize, document: DocumentOptions) -> Topics {
    Topics {
        finding: None,
        gamma: None,
        device: None,
        num_topics: topics,
        vocab_size,
        estimate: Estimate::Posterior,
        alpha: 0.5,
        alpha_rule: AlphaRule::Fixed,
        lambda: 0.1,
        start_width: document.sparsity,
        document,
        pull: None,
        warm_start: false,
        lends: false,
        sampling: None,
    }
}

/// The document step as training has it.
fn options(topics: usize, sparsity: usize) -> DocumentOptions {
    DocumentOptions::of(&TopicsConfig {
        topics,
        sparsity: Sparsity::Of(sparsity),
        restarts: 5,
        ..TopicsConfig::default()
    })
}

/// Statistics of documents: the local step and the summary step on their own clocks.
#[derive(Default)]
struct Documents {
    document: Document,
    local: Stopwatch,
    summary: Stopwatch,
}

impl Documents {
    /// What the local step of [`Topics`] does, with its two halves timed apart.
    fn summarize(&mut self, model: &Topics, params: &TopicParams, rows: &Rows<f32>, into: &mut TopicSummary) {
        let (mut word, mut topic, mut mass, mut ends) = (Vec::new(), Vec::new(), Vec::new(), vec![0]);
        for n in 0..rows.len() {
            let (words, counts) = rows.sparse_row(n);
            if words.is_empty() {
                continue;
            }
            self.local.start();
            self.document.solve(params.table.get(), &params.alpha, words, counts, &model.document, None);
            self.local.halt();
            self.summary.start();
            for (u, (&v, &c)) in words.iter().zip(counts).enumerate() {
                for (k, r) in self.document.responsibilities(u).filter(|entry| entry.1 > 0.0) {
                    word.push(v);
                    topic.push(k);
                    mass.push(c * r);
                }
            }
            ends.push(word.len());
            self.document.topic_counts().for_each(|(k, n)| into.counts[k as usize] += f64::from(n));
            into.entropy += self.document.entropy(words.len());
            into.alloc += self.document.allocation();
            self.summary.halt();
        }
        self.summary.start();
        let list = |pair: &[usize]| {
            let range = pair[0]..pair[1];
            Entries { word: &word[range.clone()], topic: &topic[range.clone()], mass: &mass[range] }
        };
        let lists: Vec<Entries<'_>> = ends.windows(2).map(list).collect();
        if let WordStats::Batch(stats) = &mut into.words {
            stats.add_lists(model.num_topics, &lists);
        }
        into.documents += rows.len() as f64;
        self.summary.halt();
    }
}

/// Panel a: the substeps of some passes of training.
fn passes(plan: &Plan, corpus: &Corpus, sparsity: usize) -> Result<Value> {
    let model = model(plan.topics, corpus.dim(), options(plan.topics, sparsity));
    let mut rng = ChaCha8Rng::seed_from_u64(0);
    let total = initial_topics(&model, corpus, TopicsConfig::default().init_lloyd, &mut rng, Default::default())?;
    let data = Dealt::new(corpus, Batches::new(corpus.num_rows(), plan.batches, 0)?);
    let start = Start { params: model.global_step(&total, None)?, total, stays: false, rng };
    let pace = Pace { schedule: ScheduleKind::Memoized, delay: 1.0, decay: 1.0, leave_out: false };
    let mut session = Session::begin(model, data, start, &pace, Places::default(), 0);
    let taken = plan.made[usize::from(sparsity == plan.topics)];
    let (mut documents, mut global) = (Documents::default(), Stopwatch::default());
    let (mut scratch, mut rows, mut row_ids) = (Rows::sparse(corpus.dim()), Rows::sparse(corpus.dim()), Vec::new());
    while session.progress().laps < taken {
        let ticket = session.hand_out()?.ok_or("a batch is in flight")?;
        let (model, batches) = (session.model(), &session.data().batches);
        let mut fresh = model.empty_batch();
        for panel in batches.panels(ticket.batch, PANEL) {
            batches.read_panel(corpus, panel, &mut scratch, &mut rows, &mut row_ids)?;
            documents.summarize(model, session.params(), &rows, &mut fresh);
        }
        global.start();
        session.fold(ticket.done(fresh))?;
        global.halt();
    }
    let times = plan.passes as f64 / taken as f64;
    let [local, summary, global] =
        [&documents.local, &documents.summary, &global].map(|clock| times * clock.cpu_seconds());
    let visits = (plan.passes * corpus.num_rows()) as f64;
    Ok(json!({"panel": "whole", "topics": plan.topics, "sparsity": sparsity, "laps": plan.passes,
        "local_seconds": local, "summary_seconds": summary, "global_seconds": global,
        "documents_a_second": visits / (local + summary + global)}))
}

/// Topics that one lap with L = 8 leaves, as statistics.
fn trained(corpus: &Corpus, topics: usize) -> Result<TopicSummary> {
    let model = model(topics, corpus.dim(), options(topics, MODERATE));
    let mut rng = ChaCha8Rng::seed_from_u64(0);
    let total = initial_topics(&model, corpus, TopicsConfig::default().init_lloyd, &mut rng, Default::default())?;
    let params = model.global_step(&total, None)?;
    let data = Dealt::in_order(corpus)?;
    let visited = model.local(&params, &data.batch(0), &Default::default(), &mut model.worker())?;
    Ok(visited.summary.into_total())
}

/// Panels b and c: the local step with restarts and the summary step on some documents.
fn steps(
    total: &TopicSummary,
    topics: usize,
    sparsity: usize,
    selection: Selection,
    sample: &Rows<f32>,
) -> Result<Value> {
    let document = DocumentOptions { iterations: ITERATIONS, tolerance: 0.0, selection, ..options(topics, sparsity) };
    let model = model(topics, total.vocab_size(), document);
    let params = model.global_step(total, None)?;
    let rounds = if sparsity == topics { 1 } else { ROUNDS };
    let (mut local, mut summary) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..rounds {
        let mut documents = Documents::default();
        let mut into = TopicSummary::new(topics, WordStats::Batch(SparseStats::empty(total.vocab_size())));
        documents.summarize(&model, &params, sample, &mut into);
        local = local.min(documents.local.cpu_seconds());
        summary = summary.min(documents.summary.cpu_seconds());
    }
    let name = match selection {
        _ if sparsity == topics => "L = K".to_owned(),
        Selection::End => format!("L = {sparsity}"),
        _ => format!("L = {sparsity}, selecting as the paper"),
    };
    Ok(json!({"panel": "steps", "topics": topics, "sparsity": sparsity, "name": name, "documents": sample.len(),
        "local_seconds": local, "summary_seconds": summary}))
}

/// Panel d: how far the topics of sparse documents are from those of dense ones, as points of the distribution.
fn distances(
    total: &TopicSummary,
    topics: usize,
    sparsity: &[usize],
    restarts: usize,
    sample: &Rows<f32>,
) -> Result<Vec<Value>> {
    let solved = |sparsity: usize| -> Result<Vec<Vec<f64>>> {
        let document = DocumentOptions { iterations: ITERATIONS, restarts, ..options(topics, sparsity) };
        let model = model(topics, total.vocab_size(), document);
        let params = model.global_step(total, None)?;
        let mut document = Document::default();
        let shares = (0..sample.len()).map(|n| {
            let (words, counts) = sample.sparse_row(n);
            document.solve(params.table.get(), &params.alpha, words, counts, &model.document, None);
            let mut shares = vec![0.0; topics];
            document.topic_counts().for_each(|(k, n)| shares[k as usize] = f64::from(n));
            let sum: f64 = shares.iter().sum();
            shares.iter_mut().for_each(|share| *share /= sum.max(f64::MIN_POSITIVE));
            shares
        });
        Ok(shares.collect())
    };
    let dense = solved(topics)?;
    let mut rows = Vec::new();
    for &sparsity in sparsity {
        let sparse = solved(sparsity)?;
        let distance = |(a, b): (&Vec<f64>, &Vec<f64>)| a.iter().zip(b).map(|(x, y)| (x - y).abs()).sum::<f64>() / 2.0;
        let mut found: Vec<f64> = dense.iter().zip(&sparse).map(distance).collect();
        found.sort_by(f64::total_cmp);
        for point in 0..=POINTS {
            let share = point as f64 / POINTS as f64;
            let at = (share * (found.len() - 1) as f64).round() as usize;
            rows.push(json!({"panel": "distance", "topics": topics, "sparsity": sparsity, "restarts": restarts,
                "share": share, "distance": found[at]}));
        }
    }
    Ok(rows)
}

fn claims(plan: &Plan, rows: &[Value]) -> Vec<Claim> {
    let find = |fields: Value, number: &str| -> f64 {
        let wanted = fields.as_object().cloned().unwrap_or_default();
        let row = rows.iter().find(|row| wanted.iter().all(|(key, value)| &row[key] == value));
        row.and_then(|row| row[number].as_f64()).unwrap_or(f64::NAN)
    };
    let step =
        |topics: usize, name: &str, what: &str| find(json!({"panel": "steps", "topics": topics, "name": name}), what);
    let whole = |sparsity: usize, what: &str| find(json!({"panel": "whole", "sparsity": sparsity}), what);
    let share = |sparsity: usize| {
        let [local, summary, global] =
            ["local_seconds", "summary_seconds", "global_seconds"].map(|what| whole(sparsity, what));
        local / (local + summary + global)
    };
    let found = format!(
        "{:.0} % of a dense pass, {:.0} % at L = 8; {:.0} documents a second dense, {:.0} at L = 8",
        100.0 * share(plan.topics),
        100.0 * share(MODERATE),
        whole(plan.topics, "documents_a_second"),
        whole(MODERATE, "documents_a_second")
    );
    let mut claims =
        vec![Claim::new("The local step dominates the cost", share(plan.topics) > 0.5 && share(MODERATE) > 0.5, found)];

    let faster = |name: &str, what: &str| -> Vec<(usize, f64)> {
        plan.sizes.iter().map(|&topics| (topics, step(topics, "L = K", what) / step(topics, name, what))).collect()
    };
    let said = |ratios: &[(usize, f64)]| {
        ratios.iter().map(|(topics, ratio)| format!("{ratio:.1} at K = {topics}")).collect::<Vec<_>>().join(", ")
    };
    let local = faster("L = 8", "local_seconds");
    let from: Vec<f64> = local.iter().filter(|r| r.0 >= plan.claimed).map(|r| r.1).collect();
    let as_printed = faster("L = 8, selecting as the paper", "local_seconds");
    let found =
        format!("L = 8 is faster {} times; with the paper's schedule of selection {}", said(&local), said(&as_printed));
    let holds = from.first().is_some_and(|&ratio| ratio >= 3.0) && from.is_sorted();
    let claim = format!("The sparse local step is at least 3 times faster at K = {}, and more beyond", plan.claimed);
    claims.push(Claim::new(&claim, holds, found));

    let summary = faster("L = 8", "summary_seconds");
    let share_of_local = step(plan.topics, "L = K", "summary_seconds") / step(plan.topics, "L = K", "local_seconds");
    let found = format!(
        "the summary of L = 8 is faster {} times; a dense one takes {:.0} % of the local step's time at K = {}",
        said(&summary),
        100.0 * share_of_local,
        plan.topics
    );
    let holds = summary.iter().all(|ratio| ratio.1 > 1.0) && share_of_local < 1.0;
    claims.push(Claim::new(
        "Sparsity makes the summary step faster too, which costs less than the local step",
        holds,
        found,
    ));

    let distance = |sparsity: usize, restarts: usize, share: f64| {
        find(json!({"panel": "distance", "sparsity": sparsity, "restarts": restarts, "share": share}), "distance")
    };
    let medians = |restarts: usize| {
        let of = |&l: &usize| format!("L = {l} {:.3}", distance(l, restarts, 0.5));
        plan.sparsity.iter().map(of).collect::<Vec<_>>().join(", ")
    };
    let found = format!(
        "median distance {} (no restarts: {}); nine in ten documents of L = 8 within {:.3} ({:.3})",
        medians(5),
        medians(0),
        distance(MODERATE, 5, 0.9),
        distance(MODERATE, 0, 0.9)
    );
    let holds = distance(MODERATE, 5, 0.5) < 0.1 && 2.0 * distance(MODERATE, 5, 0.5) < distance(1, 5, 0.5);
    claims.push(Claim::new("Documents of L = 8 are very close to dense ones, L = 1 is much coarser", holds, found));
    claims
}
