//! Topics against the clock, scores of any system's topics, documents a second; one JSON object a line on stdout.
//!
//! `bench/topics.py` trains other systems on the same documents; `cargo xtask bench topics` runs everything.

use std::collections::VecDeque;
use std::error::Error;
use std::fmt::Write;
use std::path::Path;

use lsparse::backend::{Place, with_threads};
use lsparse::data::{CsrRows, NpyRows, RowSource, Rows, write_npy_f32};
use lsparse::runs::Family;
use lsparse::settings::TopicsConfig;
use lsparse::topics::score::{Completion, CompletionOptions, completion, held_out};
use lsparse::topics::{
    ACTIVE_TOPICS, TopicFamily, TopicInputs, TopicSummary, TopicWorker, Topics, WordTable, fit_topics_with,
};
use lsparse::training::observe::{Observer, peak_memory_bytes};
use lsparse::training::session::Places;
use lsparse::training::summary::Summary;
use lsparse::training::trace::StepInfo;
use lsparse::{Beside, Session};
use lsparse_bench::corpus::{Documents, load};
use lsparse_bench::{Timer, median};
use serde_json::{Map, Value, json};

const USAGE: &str = "\
usage: topics curve CORPUS -k K [--times 5,10,30] [--laps N] [--score-laps false] [--save FILE.npy] [--part test]
              [--SETTING VALUE]...
       topics score CORPUS TOPICS.npy [--part test] [--alpha 0.5 | --alpha-file FILE.npy] [--seed 0]
              [--dump-split FILE]
       topics speed CORPUS [--topics 200,3200] [--repeats 5] [--SETTING VALUE]...
       topics samplers CORPUS -k K [--laps 40] [--SETTING VALUE]...

CORPUS is a folder NAME with docword.NAME.txt (or .gz), vocab.NAME.txt and split.NAME.txt. Documents of the part
test are scored; settings are chosen with --part val.
SETTING is any of TopicsConfig: sparsity, estimate, restarts, doc-iterations, batches, seed...
Seconds are CPU seconds of training on one thread; a curve ends at its last time or lap, whichever comes first.";

type Fallible<T> = Result<T, Box<dyn Error>>;

fn main() -> Fallible<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (words, mut options) = parse(&args)?;
    match words.as_slice() {
        ["curve", folder] => curve(Path::new(folder), &mut options),
        ["score", folder, topics] => score(Path::new(folder), Path::new(topics), &mut options),
        ["speed", folder] => speed(Path::new(folder), &mut options),
        ["samplers", folder] => samplers(Path::new(folder), &mut options),
        _ => Err(USAGE.into()),
    }
}

/// Words, and the values of options by name.
fn parse(args: &[String]) -> Fallible<(Vec<&str>, Map<String, Value>)> {
    let (mut words, mut options) = (Vec::new(), Map::new());
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let name = match arg.strip_prefix("--") {
            Some(name) => name,
            None if arg == "-k" => "topics",
            None => {
                words.push(arg.as_str());
                continue;
            }
        };
        let text = args.next().ok_or_else(|| format!("{arg} needs a value\n\n{USAGE}"))?;
        let value = serde_json::from_str(text).unwrap_or_else(|_| Value::from(text.as_str()));
        options.insert(name.to_owned(), value);
    }
    Ok((words, options))
}

/// Take an option out, so that what is left are settings of training.
fn take<T: serde::de::DeserializeOwned>(options: &mut Map<String, Value>, name: &str, default: T) -> Fallible<T> {
    match options.remove(name) {
        Some(value) => Ok(serde_json::from_value(value).map_err(|e| format!("--{name}: {e}"))?),
        None => Ok(default),
    }
}

/// Numbers with commas between them.
fn take_list(options: &mut Map<String, Value>, name: &str, default: &[f64]) -> Fallible<Vec<f64>> {
    match options.remove(name) {
        None => Ok(default.to_vec()),
        Some(Value::String(text)) => Ok(text.split(',').map(str::parse).collect::<Result<_, _>>()?),
        Some(value) => Ok(vec![value.as_f64().ok_or_else(|| format!("--{name} needs numbers"))?]),
    }
}

/// A session with the clock in reach.
struct Training<'a> {
    session: Session<'a, Topics>,
    worker: TopicWorker,
    /// All of training, seeding included.
    spent: Timer,
    /// Document steps of the lap.
    local: Timer,
    local_documents: usize,
}

impl<'a> Training<'a> {
    fn begin(family: &TopicFamily<'a>) -> lsparse::Result<Self> {
        let mut spent = Timer::default();
        let session = spent.time(|| family.session(0))?;
        Ok(Training { spent, ..Training::of(session) })
    }

    fn of(session: Session<'a, Topics>) -> Self {
        let (worker, timer) = (session.worker(), Timer::default());
        Training { session, worker, spent: timer, local: timer, local_documents: 0 }
    }

    /// Work one batch through.
    fn step(&mut self) -> lsparse::Result<StepInfo> {
        let Training { session, worker, spent, local, local_documents } = self;
        spent.time(|| {
            let ticket = session.hand_out()?.expect("nothing is in flight");
            *local_documents += session.data().batches.len(ticket.batch);
            let done = local.time(|| ticket.work(session.model(), session.params(), session.data(), worker))?;
            session.fold(done)
        })
    }

    /// Training so far, to score it later.
    fn moment(&self) -> lsparse::Result<Moment> {
        let total = self.session.whole()?.map_or_else(|| self.session.total().clone(), |(_, total)| total);
        let (alpha, laps) = (self.session.params().alpha.clone(), self.session.progress().laps);
        Ok(Moment { total, alpha, spent: self.spent, laps })
    }
}

/// Training as it was at some time.
struct Moment {
    total: TopicSummary,
    alpha: Vec<f32>,
    spent: Timer,
    laps: usize,
}

impl Moment {
    fn completion(&self, topics: &Topics, test: &CsrRows<f32>) -> lsparse::Result<Completion> {
        completion(
            &topics.point_topics(&self.total),
            &self.alpha,
            test,
            &CompletionOptions::default(),
            &Place::default(),
        )
    }

    /// What every line says.
    fn line(&self, what: &str, corpus: &str, topics: &Topics) -> Value {
        json!({"what": what, "system": "lsparse", "corpus": corpus, "topics": topics.num_topics,
            "seconds": round(self.spent.cpu), "wall_seconds": round(self.spent.wall), "laps": self.laps})
    }
}

/// To hundredths.
fn round(seconds: f64) -> f64 {
    (seconds * 100.0).round() / 100.0
}

/// Scores after so many seconds and at the end of laps.
fn curve(folder: &Path, options: &mut Map<String, Value>) -> Fallible<()> {
    let mut times: VecDeque<f64> = take_list(options, "times", &[])?.into();
    let laps = take(options, "laps", if times.is_empty() { 3 } else { usize::MAX })?;
    let score_laps = take(options, "score-laps", true)?;
    let save: Option<String> = take(options, "save", None)?;
    let part: String = take(options, "part", "test".into())?;
    let threads = take(options, "threads", 1usize)?;
    let config: TopicsConfig = serde_json::from_value(Value::Object(std::mem::take(options)))?;
    let documents = load(folder, &part)?;
    let run = || -> Result<(), String> {
        let moment = follow(&documents, &config, &mut times, laps, score_laps).map_err(|e| e.to_string())?;
        let Some(path) = &save else { return Ok(()) };
        let (num, vocab) = (config.topics, documents.vocab_size);
        write_npy_f32(Path::new(path), vocab, &by_topic(&moment, num, vocab)).map_err(|e| e.to_string())
    };
    Ok(with_threads(threads, run)??)
}

fn follow(
    documents: &Documents,
    config: &TopicsConfig,
    times: &mut VecDeque<f64>,
    laps: usize,
    score_laps: bool,
) -> Fallible<WordTable> {
    let by_time = !times.is_empty();
    let name = &documents.name;
    let family = TopicFamily::new(&documents.train, config, TopicInputs::default())?;
    let mut training = Training::begin(&family)?;
    let topics = family.model(0);
    let mut before = training.moment()?;
    println!("{}", before.line("seeds", name, &topics));
    loop {
        let step = training.step()?;
        let told = |name: &str| step.report.get(name).copied().unwrap_or(f64::NAN);
        // What there is after t seconds is what the last step that was over by then left.
        while times.front().is_some_and(|&t| training.spent.cpu > t) {
            let Some(asked) = times.pop_front() else { break };
            let mut line = before.line("time", name, &topics);
            line["asked"] = json!(asked);
            line["score"] = json!(before.completion(&topics, &documents.test)?.score());
            println!("{line}");
        }
        let now = training.moment()?;
        if step.ends_lap {
            let mut line = now.line("lap", name, &topics);
            line["local_documents_per_second"] = json!((training.local_documents as f64 / training.local.cpu).round());
            line["active_topics"] = json!(told(ACTIVE_TOPICS));
            line["document_iterations"] = json!(told("doc_iterations"));
            line["restarts_accepted"] = json!(told("restarts_accepted") / told("restarts_proposed").max(1.0));
            line["empty_topics"] = json!(now.total.counts().iter().filter(|&&n| n < 1.0).count());
            if score_laps {
                line["score"] = json!(now.completion(&topics, &documents.test)?.score());
            }
            println!("{line}");
            (training.local, training.local_documents) = (Timer::default(), 0);
        }
        before = now;
        if before.laps >= laps || (by_time && times.is_empty()) {
            return Ok(topics.point_topics(&before.total));
        }
    }
}

/// K x V from V x K.
fn by_topic(table: &WordTable, num_topics: usize, vocab_size: usize) -> Vec<f32> {
    let mut values = vec![0.0; num_topics * vocab_size];
    for v in 0..vocab_size {
        for (k, &p) in table.row(v).iter().enumerate() {
            values[k * vocab_size + v] = p;
        }
    }
    values
}

/// Score the topics of any system.
fn score(folder: &Path, path: &Path, options: &mut Map<String, Value>) -> Fallible<()> {
    let alpha: f64 = take(options, "alpha", 0.5)?;
    let alpha_file: Option<String> = take(options, "alpha-file", None)?;
    let scoring = CompletionOptions { seed: take(options, "seed", 0)?, ..Default::default() };
    let dump: Option<String> = take(options, "dump-split", None)?;
    let part: String = take(options, "part", "test".into())?;
    let threads = take(options, "threads", 1usize)?;
    if let Some(name) = options.keys().next() {
        return Err(format!("there is no --{name}\n\n{USAGE}").into());
    }
    let documents = load(folder, &part)?;
    if let Some(file) = dump {
        std::fs::write(file, split_lines(&documents.test, &scoring)?)?;
    }
    let rows = NpyRows::open(path)?;
    let (num, vocab) = (rows.num_rows(), rows.dim());
    if vocab != documents.vocab_size {
        return Err(format!("topics over {vocab} words, documents over {}", documents.vocab_size).into());
    }
    let mut values = Rows::<f64>::dense(vocab);
    rows.read_f64(0, num, &mut values)?;
    let values = values.as_dense().ok_or("topics must be dense")?;
    let sums = values.chunks(vocab).map(|topic| topic.iter().sum::<f64>());
    if let Some((k, sum)) = sums.enumerate().find(|(_, sum)| (sum - 1.0).abs() > 1e-3) {
        return Err(format!("topic {k} of {} sums to {sum}", path.display()).into());
    }
    let alpha = match alpha_file {
        None => vec![(alpha / num as f64) as f32; num],
        Some(file) => read_alpha(Path::new(&file), num)?,
    };
    let result = with_threads(threads, || {
        let fill = |v: usize, out: &mut [f32]| {
            out.iter_mut().enumerate().for_each(|(k, p)| *p = values[k * vocab + v] as f32);
        };
        let table = WordTable::new(vocab, num, 0, fill);
        completion(&table, &alpha, &documents.test, &scoring, &Place::default())
    })??;
    println!(
        "{}",
        json!({"what": "score", "corpus": documents.name, "file": path.to_string_lossy(), "topics": num,
            "score": result.score(), "perplexity": result.perplexity(), "tokens": result.tokens,
            "documents": result.documents, "skipped": result.skipped})
    );
    Ok(())
}

/// The prior of a document's topics that a system has learned: one row, a number a topic.
fn read_alpha(path: &Path, num_topics: usize) -> Fallible<Vec<f32>> {
    let row = NpyRows::open(path)?;
    if (row.num_rows(), row.dim()) != (1, num_topics) {
        return Err(format!("{} is {} x {}, not 1 x {num_topics}", path.display(), row.num_rows(), row.dim()).into());
    }
    let mut values = Rows::<f64>::dense(num_topics);
    row.read_f64(0, 1, &mut values)?;
    let values = values.as_dense().ok_or("alpha must be dense")?;
    if let Some(k) = values.iter().position(|&alpha| alpha <= 0.0 || !alpha.is_finite()) {
        return Err(format!("{}: alpha of topic {k} is {}", path.display(), values[k]).into());
    }
    Ok(values.iter().map(|&alpha| alpha as f32).collect())
}

/// The held-out words of every test document, one document a line; none where a document cannot be split.
fn split_lines(test: &CsrRows<f32>, scoring: &CompletionOptions) -> Fallible<String> {
    let mut rows = Rows::<f32>::sparse(test.dim());
    test.read_f32(0, test.num_rows(), &mut rows)?;
    let mut text = String::new();
    for n in 0..rows.len() {
        let words = rows.sparse_row(n).0;
        let held = if words.len() < 2 { Vec::new() } else { held_out(words.len(), n, scoring) };
        let mut gap = "";
        for (word, _) in words.iter().zip(held).filter(|(_, held)| *held) {
            write!(text, "{gap}{word}")?;
            gap = " ";
        }
        text.push('\n');
    }
    Ok(text)
}

/// Documents a second after a lap of training, for several K and one and two threads; what that lap took (seeding
/// included) and scored, and the memory of the process so far.
fn speed(folder: &Path, options: &mut Map<String, Value>) -> Fallible<()> {
    let sizes = take_list(options, "topics", &[200.0, 3200.0])?;
    let repeats: usize = take(options, "repeats", 5)?;
    for (name, value) in [("sparsity", 8), ("doc-iterations", 15), ("restarts", 0)] {
        options.entry(name).or_insert(value.into());
    }
    let documents = load(folder, "test")?;
    for size in sizes {
        options.insert("topics".into(), json!(size as usize));
        let config: TopicsConfig = serde_json::from_value(Value::Object(options.clone()))?;
        let family = TopicFamily::new(&documents.train, &config, TopicInputs::default())?;
        let run = || -> lsparse::Result<Training<'_>> {
            let mut training = Training::begin(&family)?;
            while !training.step()?.ends_lap {}
            Ok(training)
        };
        let mut training = with_threads(1, run)??;
        let moment = training.moment()?;
        let score = with_threads(None, || moment.completion(training.session.model(), &documents.test))??.score();
        let mut one = f64::NAN;
        for threads in [1, 2] {
            let mut line = with_threads(threads, || laps(&family, &mut training, repeats))??;
            let wall = line["local"]["per_second"].as_f64().unwrap_or(f64::NAN);
            one = if threads == 1 { wall } else { one };
            line["corpus"] = json!(documents.name);
            line["threads"] = json!(threads);
            line["first_lap_seconds"] = json!(round(moment.spent.cpu));
            line["first_lap_score"] = json!(score);
            line["peak_memory_bytes"] = json!(peak_memory_bytes());
            line["times_one_thread"] = json!(wall / one);
            println!("{line}");
        }
    }
    Ok(())
}

/// The second lap again and again: document steps alone, and with everything that training does besides.
fn laps(family: &TopicFamily<'_>, training: &mut Training<'_>, repeats: usize) -> lsparse::Result<Value> {
    let (mut local, mut whole, mut report) = (Vec::new(), Vec::new(), std::collections::BTreeMap::new());
    for _ in 0..repeats {
        let mut again = Training::of(family.restore(training.session.save(), Places::default(), 0)?);
        let mut step = again.step()?;
        while !step.ends_lap {
            step = again.step()?;
        }
        local.push(again.local);
        whole.push(again.spent);
        report = step.report;
    }
    let documents = training.session.data().batches.num_rows() as f64;
    let rates = |times: &[Timer]| {
        let rate = |seconds: fn(&Timer) -> f64| median(times.iter().map(|t| documents / seconds(t)).collect()).round();
        json!({"per_second": rate(|t| t.wall), "per_cpu_second": rate(|t| t.cpu)})
    };
    let told = |name: &str| report.get(name).copied();
    let topics = training.session.model();
    Ok(json!({"what": "speed", "topics": topics.num_topics, "sparsity": topics.document.sparsity,
        "documents": documents, "local": rates(&local), "lap": rates(&whole),
        "active_topics": told(ACTIVE_TOPICS), "document_iterations": told("doc_iterations")}))
}

/// CPU seconds after each lap of the samplers of all tokens.
fn samplers(folder: &Path, options: &mut Map<String, Value>) -> Fallible<()> {
    struct Laps(Vec<f64>);
    impl Observer for Laps {
        fn step(&mut self, info: &StepInfo) -> lsparse::Result<()> {
            self.0.push(info.cpu_seconds);
            Ok(())
        }
    }
    options.entry("laps").or_insert(json!(40));
    let documents = load(folder, "test")?;
    let mut rows = Rows::<f32>::sparse(documents.vocab_size);
    documents.train.read_f32(0, documents.train.num_rows(), &mut rows)?;
    let tokens: f64 = (0..rows.len()).flat_map(|n| rows.sparse_row(n).1).map(|&count| f64::from(count)).sum();
    for method in ["sparse-lda", "alias-lda", "light-lda"] {
        options.insert("method".into(), json!(method));
        let config: TopicsConfig = serde_json::from_value(Value::Object(options.clone()))?;
        let run = || {
            let mut laps = Laps(Vec::new());
            let beside = Beside { observer: Some(&mut laps), ..Default::default() };

            fit_topics_with(&documents.train, &config, TopicInputs::default(), beside).map(|_| laps.0)
        };
        let laps = with_threads(1, run)??;
        println!(
            "{}",
            json!({"what": "laps", "system": method, "corpus": documents.name, "topics": config.topics,
            "tokens": tokens, "cpu_seconds": laps})
        );
    }
    Ok(())
}
