//! The document step of topics on a GPU: documents a second, and how far it is from the CPU; one JSON object a line.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use lsparse::Session;
use lsparse::backend::{Demand, DeviceChoice, Place, with_threads};
use lsparse::data::{CsrRows, RowSource, Rows};
use lsparse::runs::Family;
use lsparse::settings::TopicsConfig;
use lsparse::topics::score::{CompletionOptions, completion};
use lsparse::topics::{TopicFamily, TopicInputs, TopicWorker, Topics, WordsHere};
use lsparse::training::model::Model;
use lsparse_bench::corpus::load;
use serde_json::{Map, Value, json};

const USAGE: &str = "\
usage: cuda_topics speed CORPUS [--copies 25] [--topics 200,3200] [--laps 3] [--threads N] [--SETTING VALUE]...
       cuda_topics check CORPUS [--copies 1] [--topics 200] [--laps 4] [--threads N] [--SETTING VALUE]...

CORPUS is a folder NAME with docword.NAME.txt (or .gz), vocab.NAME.txt and split.NAME.txt.
speed: wall seconds of laps after the first, with seeding apart; the device is that of --device (cuda).
check: the same laps on the CPU and on the GPU from the same seeds, their held-out scores, and one lap of document steps
under the same topics by both.";

type Fallible<T> = Result<T, Box<dyn Error>>;

struct Options {
    settings: Map<String, Value>,
    copies: usize,
    topics: Vec<usize>,
    laps: usize,
    threads: Option<usize>,
}

fn main() -> Fallible<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [command, folder, rest @ ..] = args.as_slice() else { return Err(USAGE.into()) };
    let speed = match command.as_str() {
        "speed" => true,
        "check" => false,
        _ => return Err(USAGE.into()),
    };
    let mut options = Options { settings: Map::new(), copies: 1, topics: vec![200], laps: 4, threads: None };
    if speed {
        (options.copies, options.topics, options.laps) = (25, vec![200, 3200], 3);
    }
    for pair in rest.chunks(2) {
        let [name, value] = pair else { return Err(USAGE.into()) };
        match name.as_str() {
            "--copies" => options.copies = value.parse()?,
            "--topics" => options.topics = value.split(',').map(str::parse).collect::<Result<_, _>>()?,
            "--laps" => options.laps = value.parse()?,
            "--threads" => options.threads = Some(value.parse()?),
            _ => {
                let name = name.strip_prefix("--").ok_or(USAGE)?;
                let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value.as_str()));
                options.settings.insert(name.to_owned(), value);
            }
        }
    }
    let documents = load(Path::new(folder), "test")?;
    let train = copied(&documents.train, options.copies)?;
    let run = || -> Result<(), String> {
        for &topics in &options.topics {
            let result = match speed {
                true => measure(&documents.name, &train, &documents.test, topics, &options),
                false => compare(&documents.name, &train, &documents.test, topics, &options),
            };
            result.map_err(|e| e.to_string())?;
        }
        Ok(())
    };
    Ok(with_threads(options.threads, run)??)
}

/// The documents so many times over.
fn copied(documents: &CsrRows<f32>, copies: usize) -> Fallible<CsrRows<f32>> {
    let mut rows = Rows::<f32>::sparse(documents.dim());
    documents.read_f32(0, documents.num_rows(), &mut rows)?;
    let (mut indptr, mut words, mut counts) = (vec![0], Vec::new(), Vec::new());
    for _ in 0..copies {
        for n in 0..rows.len() {
            let (row_words, row_counts) = rows.sparse_row(n);
            words.extend_from_slice(row_words);
            counts.extend_from_slice(row_counts);
            indptr.push(words.len());
        }
    }
    Ok(CsrRows::new("documents", documents.dim(), indptr, words, counts)?)
}

fn config(topics: usize, device: &str, options: &Options) -> Fallible<TopicsConfig> {
    let mut settings = options.settings.clone();
    settings.insert("topics".into(), topics.into());
    settings.entry("device").or_insert(device.into());
    Ok(serde_json::from_value(Value::Object(settings))?)
}

/// A lap: seconds of handing out, of document steps and of folding in, and what it reports.
fn lap(session: &mut Session<'_, Topics>, worker: &mut TopicWorker) -> lsparse::Result<([f64; 3], Value)> {
    let mut seconds = [0.0; 3];
    loop {
        let start = Instant::now();
        let ticket = session.hand_out()?.expect("nothing is in flight");
        let handed_out = start.elapsed().as_secs_f64();
        let done = ticket.work(session.model(), session.params(), session.data(), worker)?;
        let worked = start.elapsed().as_secs_f64();
        drop(ticket);
        let step = session.fold(done)?;
        let all = start.elapsed().as_secs_f64();
        let parts = [handed_out, worked - handed_out, all - worked];
        seconds.iter_mut().zip(parts).for_each(|(sum, part)| *sum += part);
        if step.ends_lap {
            return Ok((seconds, json!(step.report)));
        }
    }
}

fn score(session: &Session<'_, Topics>, test: &CsrRows<f32>) -> lsparse::Result<f64> {
    let total = session.whole()?.map_or_else(|| session.total().clone(), |(_, total)| total);
    let topics = session.model().point_topics(&total);
    Ok(completion(&topics, &session.params().alpha, test, &CompletionOptions::default(), &Place::default())?.score())
}

/// Documents a second.
fn measure(name: &str, train: &CsrRows<f32>, test: &CsrRows<f32>, topics: usize, options: &Options) -> Fallible<()> {
    let config = config(topics, "cuda", options)?;
    let begin = Instant::now();
    let family = TopicFamily::new(train, &config, TopicInputs::default())?;
    let ready = begin.elapsed().as_secs_f64();
    let mut session = family.session(0)?;
    let seeded = begin.elapsed().as_secs_f64();
    let mut worker = session.worker();
    for number in 1..=options.laps {
        let ([hand_out, local, fold], report) = lap(&mut session, &mut worker)?;
        let whole = hand_out + local + fold;
        let rate = |seconds: f64| (train.num_rows() as f64 / seconds).round();
        println!(
            "{}",
            json!({"what": "speed", "corpus": name, "backend": family.backend(), "documents": train.num_rows(),
                "topics": topics, "lap": number, "checking_seconds": ready, "seeding_seconds": seeded - ready,
                "hand_out_seconds": hand_out, "local_seconds": local, "fold_seconds": fold, "lap_seconds": whole, "local_per_second": rate(local),
                "lap_per_second": rate(whole), "report": report})
        );
    }
    println!("{}", json!({"what": "score", "corpus": name, "topics": topics, "score": score(&session, test)?}));
    // The documents that it was trained on stand in for many that are held out.
    let total = session.whole()?.map_or_else(|| session.total().clone(), |(_, total)| total);
    let table = session.model().point_topics(&total);
    let nothing = Demand { products: 0.0, bytes: 0, cannot: None };
    for place in [Place::choose(DeviceChoice::Cuda(0), &nothing)?, Place::default()] {
        let start = Instant::now();
        let found = completion(&table, &session.params().alpha, train, &CompletionOptions::default(), &place)?;
        println!(
            "{}",
            json!({"what": "completion", "topics": topics, "gpu": place.device.is_some(), "documents": found.documents,
                "seconds": start.elapsed().as_secs_f64(), "score": found.score()})
        );
    }
    Ok(())
}

/// The CPU and the GPU side by side.
fn compare(name: &str, train: &CsrRows<f32>, test: &CsrRows<f32>, topics: usize, options: &Options) -> Fallible<()> {
    let mut scores = Vec::new();
    let (on_cpu, on_gpu) = (config(topics, "cpu", options)?, config(topics, "cuda", options)?);
    let cpu = TopicFamily::new(train, &on_cpu, TopicInputs::default())?;
    let gpu = TopicFamily::new(train, &on_gpu, TopicInputs::default())?;
    let mut last = None;
    for family in [&cpu, &gpu] {
        let mut session = family.session(0)?;
        let mut worker = session.worker();
        let mut of_laps = Vec::new();
        for _ in 0..options.laps {
            let (_, report) = lap(&mut session, &mut worker)?;
            of_laps.push(json!({"score": score(&session, test)?, "report": report}));
        }
        scores.push(json!({"backend": family.backend(), "laps": of_laps}));
        last = Some(session);
    }
    println!("{}", json!({"what": "scores", "corpus": name, "topics": topics, "of": scores}));
    // A lap of document steps under the topics that the GPU has come to.
    let Some(session) = last else { return Ok(()) };
    let (slow, fast) = (cpu.model(0), session.model());
    let (mut slow_worker, mut fast_worker) = (slow.worker(), fast.worker());
    let (mut entries, mut common, mut worst) = (0usize, 0usize, 0f64);
    let (mut documents, mut close) = (0usize, 0usize);
    let (mut bounds, mut same) = ([0.0; 2], true);
    let mut tallies = Vec::new();
    for number in 0..session.data().batches.num_batches() {
        let batch = session.data().batch(number);
        let memory = Default::default();
        let want = slow.local(session.params(), &batch, &memory, &mut slow_worker)?;
        let have = fast.local(session.params(), &batch, &memory, &mut fast_worker)?;
        let again = fast.local(session.params(), &batch, &memory, &mut fast_worker)?;
        same &= have.summary == again.summary;
        bounds = [bounds[0] + want.summary.bound, bounds[1] + have.summary.bound];
        for (a, b) in want.memory.explained.iter().zip(&have.memory.explained) {
            documents += 1;
            close += usize::from((a.evidence - b.evidence).abs() <= 1e-5 * a.evidence.abs());
        }
        let (a, b) = (want.summary.words.bring()?, have.summary.words.bring()?);
        let (WordsHere::Batch(a), WordsHere::Batch(b)) = (a, b) else { continue };
        for v in 0..a.vocab_size() {
            let (row_a, row_b) = (a.dense_word(v, topics), b.dense_word(v, topics));
            for (x, y) in row_a.iter().zip(&row_b) {
                entries += usize::from(*x > 0.0 || *y > 0.0);
                common += usize::from(*x > 0.0 && *y > 0.0);
                worst = worst.max((x - y).abs());
            }
        }
        tallies.push(json!([want.tally, have.tally]));
    }
    println!(
        "{}",
        json!({"what": "steps", "corpus": name, "topics": topics, "documents": documents,
            "same_evidence_to_1e-5": close, "entries": entries, "entries_in_both": common,
            "largest_difference_of_mass": worst, "bounds": bounds, "same_bits_again": same, "first_tally": tallies.first()})
    );
    Ok(())
}
