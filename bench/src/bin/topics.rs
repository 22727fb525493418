//! Topics against the clock, scores of any system's topics, documents a second; one JSON object a line on stdout.
//!
//! `bench/topics.py` trains other systems on the same documents; `cargo xtask bench topics` runs everything.

use std::collections::VecDeque;
use std::error::Error;
use std::fmt::Write;
use std::path::Path;
use std::sync::Mutex;

use lsparse::backend::with_threads;
use lsparse::data::{Batches, CsrRows, NpyRows, RowSource, Rows, write_npy_f32};
use lsparse::model::Model;
use lsparse::observe::{Observer, StepInfo, peak_memory_bytes};
use lsparse::schedule::{Memoized, Schedule, Stochastic};
use lsparse::topics::score::{Completion, CompletionOptions, completion, held_out};
use lsparse::topics::{
    TopicData, TopicInit, TopicParams, TopicScratch, TopicSummary, TopicSurroundings, Topics, TopicsConfig, WordTable,
    fit_topics_with, initial_topics, random_topics,
};
use lsparse::{ScheduleKind, summary::Summary};
use lsparse_bench::corpus::{Documents, load};
use lsparse_bench::{Timer, median};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
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

/// One training, step by step: what `fit_topics` does, with the clock and the parameters in reach.
struct Training<'a> {
    topics: Topics,
    data: TopicData<'a>,
    schedule: Box<dyn Schedule<TopicSummary> + Send>,
    total: TopicSummary,
    params: TopicParams,
    scratch: TopicScratch,
    /// All of training, seeding included.
    spent: Timer,
    /// Document steps of the lap.
    local: Timer,
    local_documents: usize,
    laps: usize,
}

impl<'a> Training<'a> {
    fn begin(source: &'a CsrRows<f32>, config: &TopicsConfig) -> Fallible<Self> {
        let config = config.check(source.num_rows())?;
        let topics = Topics {
            num_topics: config.topics,
            vocab_size: source.dim(),
            estimate: config.estimate,
            alpha: config.alpha,
            alpha_rule: config.learn_alpha,
            lambda: config.lambda,
            document: config.document(),
            start_width: config.sparsity,
            pull: None,
        };
        let mut spent = Timer::default();
        let (total, params, data, schedule) = spent.time(|| -> lsparse::Result<_> {
            let mut rng = ChaCha8Rng::seed_from_u64(config.seed);
            let total = match config.init {
                TopicInit::Auto | TopicInit::Bregman => {
                    initial_topics(&topics, source, config.init_lloyd, &mut rng, Default::default())?
                }
                TopicInit::Random => random_topics(&topics, source, &mut rng)?,
            };
            let mut data = TopicData::new(source, Batches::new(source.num_rows(), config.batches, config.seed)?);
            if config.warm_start {
                data.warm = Some(Mutex::new(vec![Vec::new(); source.num_rows()]));
            }
            if config.leave_out {
                data.explained = Mutex::new(vec![Default::default(); source.num_rows()]);
            }
            let params = Model::<TopicData<'_>>::global_step(&topics, &total, None)?;
            let shares = (0..config.batches).map(|b| topics.batch_share(&data, b)).collect();
            let schedule: Box<dyn Schedule<TopicSummary> + Send> = match config.schedule {
                ScheduleKind::Stochastic => Box::new(Stochastic::new(shares, config.delay, config.decay, rng)),
                kind => {
                    let schedule = Memoized::new(shares, total.clone(), kind != ScheduleKind::Streaming, rng);
                    Box::new(schedule.leaving_out(config.leave_out))
                }
            };
            Ok((total, params, data, schedule))
        })?;
        Ok(Training {
            topics,
            data,
            schedule,
            total,
            params,
            scratch: TopicScratch::default(),
            spent,
            local: Timer::default(),
            local_documents: 0,
            laps: 0,
        })
    }

    /// Work one batch through; says whether that ended a lap.
    fn step(&mut self) -> lsparse::Result<bool> {
        let Training { topics, data, schedule, total, params, scratch, spent, local, local_documents, laps } = self;
        let ended = spent.time(|| -> lsparse::Result<bool> {
            let batch = schedule.next_batch();
            let mut changed = false;
            if schedule.may_lend()
                && let Some(loan) = topics.lend(data, total, *laps)?
            {
                total.add_scaled(&loan, 1.0);
                changed = true;
            }
            if schedule.take_out_next(total)? || changed {
                Model::<TopicData<'_>>::update(topics, params, total)?;
            }
            let fresh = local.time(|| topics.summarize(params, data, batch, scratch))?;
            *local_documents += data.batches.len(batch);
            let ended = schedule.fold(total, batch, fresh)?;
            if !ended {
                schedule.take_out_next(total)?;
            }
            Model::<TopicData<'_>>::update(topics, params, total)?;
            Ok(ended)
        })?;
        self.laps += usize::from(ended);
        Ok(ended)
    }

    /// Training so far, to score it later.
    fn moment(&self) -> lsparse::Result<Moment> {
        let total = self.schedule.whole(&self.total)?.unwrap_or_else(|| self.total.clone());
        Ok(Moment { total, alpha: self.params.alpha.clone(), spent: self.spent, laps: self.laps })
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
        completion(&topics.point_topics(&self.total), &self.alpha, test, &CompletionOptions::default())
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
    let threads = take(options, "threads", 1)?;
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
    let mut training = Training::begin(&documents.train, config)?;
    let mut before = training.moment()?;
    println!("{}", before.line("seeds", name, &training.topics));
    loop {
        let ended = training.step()?;
        // What there is after t seconds is what the last step that was over by then left.
        while times.front().is_some_and(|&t| training.spent.cpu > t) {
            let Some(asked) = times.pop_front() else { break };
            let mut line = before.line("time", name, &training.topics);
            line["asked"] = json!(asked);
            line["score"] = json!(before.completion(&training.topics, &documents.test)?.score());
            println!("{line}");
        }
        let now = training.moment()?;
        if ended {
            let mut line = now.line("lap", name, &training.topics);
            let tally = training.data.take_tally();
            let steps = tally.documents.max(1) as f64;
            line["local_documents_per_second"] = json!((training.local_documents as f64 / training.local.cpu).round());
            line["active_topics"] = json!(tally.active as f64 / steps);
            line["document_iterations"] = json!(tally.iterations as f64 / steps);
            line["restarts_accepted"] = json!(tally.accepted as f64 / tally.proposed.max(1) as f64);
            line["empty_topics"] = json!(now.total.counts().iter().filter(|&&n| n < 1.0).count());
            if score_laps {
                line["score"] = json!(now.completion(&training.topics, &documents.test)?.score());
            }
            println!("{line}");
            (training.local, training.local_documents) = (Timer::default(), 0);
        }
        before = now;
        if training.laps >= laps || (by_time && times.is_empty()) {
            return Ok(training.topics.point_topics(&before.total));
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
    let threads = take(options, "threads", 1)?;
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
        completion(&table, &alpha, &documents.test, &scoring)
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
        let run = || -> Result<Training<'_>, String> {
            let mut training = Training::begin(&documents.train, &config).map_err(|e| e.to_string())?;
            while !training.step().map_err(|e| e.to_string())? {}
            Ok(training)
        };
        let mut training = with_threads(1, run)??;
        let moment = training.moment()?;
        let score = with_threads(0, || moment.completion(&training.topics, &documents.test))??.score();
        training.data.take_tally();
        let mut one = f64::NAN;
        for threads in [1, 2] {
            let mut line = with_threads(threads, || laps(&mut training, repeats))??;
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

/// Whole laps from one and the same state: document steps alone, and with everything that training does besides.
fn laps(training: &mut Training<'_>, repeats: usize) -> lsparse::Result<Value> {
    let Training { topics, data, params, scratch, .. } = training;
    let (mut local, mut whole) = (Vec::new(), Vec::new());
    // Documents always see the same topics; what their statistics lead to is worked out beside them.
    let mut memos = Vec::new();
    for batch in 0..data.batches.num_batches() {
        memos.push(topics.summarize(params, data, batch, scratch)?);
    }
    let mut total = topics.empty_batch().into_total();
    memos.iter().for_each(|memo| total.add_scaled(memo, 1.0));
    let mut beside = Model::<TopicData<'_>>::global_step(topics, &total, Some(params))?;
    data.take_tally();
    for _ in 0..repeats {
        let (mut steps, mut all) = (Timer::default(), Timer::default());
        for (batch, memo) in memos.iter().enumerate() {
            all.time(|| -> lsparse::Result<()> {
                let fresh = steps.time(|| topics.summarize(params, data, batch, scratch))?;
                total.add_scaled(memo, -1.0);
                total.add_scaled(&fresh, 1.0);
                Model::<TopicData<'_>>::update(topics, &mut beside, &total)
            })?;
        }
        local.push(steps);
        whole.push(all);
    }
    let documents = training.data.batches.num_rows() as f64;
    let rates = |times: &[Timer]| {
        let rate = |seconds: fn(&Timer) -> f64| median(times.iter().map(|t| documents / seconds(t)).collect()).round();
        json!({"per_second": rate(|t| t.wall), "per_cpu_second": rate(|t| t.cpu)})
    };
    let tally = training.data.take_tally();
    let steps = tally.documents.max(1) as f64;
    Ok(json!({"what": "speed", "topics": training.topics.num_topics, "sparsity": training.topics.document.sparsity,
        "documents": documents, "local": rates(&local), "lap": rates(&whole),
        "active_topics": tally.active as f64 / steps, "document_iterations": tally.iterations as f64 / steps}))
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
            let around = TopicSurroundings { observer: Some(&mut laps), ..Default::default() };
            fit_topics_with(&documents.train, &config, around).map(|_| laps.0)
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
