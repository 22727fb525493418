//! What more threads bring: every kind of work on one thread and on many, in one run; a table in Markdown on stdout.
//!
//! `cargo xtask bench threads --images DIR --corpus FOLDER` makes the files and runs this; it needs nothing but them, so
//! that it can be copied to a machine without a toolchain. Steps on different numbers of threads take turns within one
//! training, on batches of equal size: the same seed gives the same bits at any number of threads, so that they do the
//! same work.

use std::error::Error;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use lsparse::backend::{DeviceChoice, Place, instructions, with_threads};
use lsparse::data::{CsrRows, NpyRows, RowSource, Rows, read};
use lsparse::mixture::{Members, Mixture, Mixtures, accumulate, initial_mixture, respond};
use lsparse::runs::Family;
use lsparse::settings::{SearchKind, TopicsConfig};
use lsparse::topics::score::{CompletionOptions, completion};
use lsparse::topics::{TopicFamily, TopicInputs, Topics};
use lsparse::training::model::Model;
use lsparse::training::responsibilities::Responsibilities;
use lsparse::{LikelihoodKind, MixtureConfig, MixtureInputs, MixtureModel, Session, Sparsity};
use lsparse_bench::corpus::load;
use lsparse_bench::{Timer, median, seconds};

const USAGE: &str = "\
usage: threads PATCHES.npy HELDOUT.npy CORPUS [--threads 1,16] [--only NAME,...] [--parts]

PATCHES and HELDOUT are rows of image patches, CORPUS is a folder NAME with docword.NAME.txt (or .gz), vocab.NAME.txt
and split.NAME.txt, whose documents are taken ten times over. --only measures lines whose names have one of these
words in them; --parts times the parts of a step too.";

/// Batches that the data is dealt into where it is not one.
const BATCHES: usize = 10;
/// How often the documents are taken.
const TIMES_OVER: usize = 10;
/// Rows of which the parts of a step are timed.
const PART_ROWS: usize = 1 << 15;

type Fallible<T> = Result<T, Box<dyn Error>>;

/// What is to be measured, and on how many threads.
struct Bench {
    threads: Vec<usize>,
    only: Vec<String>,
    parts: bool,
}

/// Time on each number of threads, and where it goes: parts by name, in seconds.
struct Line {
    name: String,
    times: Vec<Timer>,
    parts: Vec<(&'static str, Vec<f64>)>,
}

fn main() -> Fallible<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (mut words, mut bench) = (Vec::new(), Bench { threads: vec![1, 16], only: Vec::new(), parts: false });
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        let mut list = || rest.next().map(|text| text.split(',').map(str::to_owned).collect::<Vec<_>>()).ok_or(USAGE);
        match arg.as_str() {
            "--threads" => bench.threads = list()?.iter().map(|text| text.parse()).collect::<Result<_, _>>()?,
            "--only" => bench.only = list()?,
            "--parts" => bench.parts = true,
            word => words.push(word),
        }
    }
    let [patches, heldout, corpus] = words[..] else { return Err(USAGE.into()) };
    bench.run(Path::new(patches), Path::new(heldout), Path::new(corpus))
}

impl Bench {
    fn run(&self, patches: &Path, heldout: &Path, corpus: &Path) -> Fallible<()> {
        println!("{} instructions, threads {:?}\n", instructions(), self.threads);
        let each: String = self.threads.iter().map(|t| format!(" {t} |")).collect();
        println!("| work |{each} times as fast | CPU seconds | where the time goes |");
        println!("|---|{}---|---|---|", "---|".repeat(self.threads.len()));
        if self.wants("arithmetic") {
            self.arithmetic()?;
        }
        let (rows, heldout) = (NpyRows::open(patches)?, NpyRows::open(heldout)?);
        for clusters in [200, 1600] {
            self.mixtures(&rows, &heldout, clusters)?;
        }
        for (likelihood, clusters) in
            [(LikelihoodKind::ZeroMeanGauss, 200), (LikelihoodKind::ZeroMeanGauss, 1600), (LikelihoodKind::Gauss, 200)]
        {
            let name = format!("seeding, {}, K = {clusters}", likelihood.name());
            if self.wants(&name) {
                let config = MixtureConfig { likelihood, ..mixture_config(clusters) };
                let mixtures = Mixtures::<f32>::new(&rows, &config, MixtureInputs::default())?;
                self.each(name, |_| Ok(mixtures.session(0).map(|_| ())?))?.print();
            }
        }
        self.topics(corpus)
    }

    fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|word| name.contains(word.as_str()))
    }

    /// The most threads.
    fn most(&self) -> usize {
        self.threads.iter().copied().max().unwrap_or(1)
    }

    /// Do the same on each number of threads.
    fn each(&self, name: String, mut work: impl FnMut(usize) -> Fallible<()> + Send) -> Fallible<Line> {
        let mut line = Line { name, times: Vec::new(), parts: Vec::new() };
        for &threads in &self.threads {
            let mut timer = Timer::default();
            let work = || timer.time(|| work(threads).map_err(|error| error.to_string()));
            with_threads(threads, work)??;
            line.times.push(timer);
        }
        Ok(line)
    }

    /// Many tasks of independent multiply-adds, which need nothing of each other and no memory: what the machine itself
    /// gives, with the clock that it has when one core is busy and when all are.
    fn arithmetic(&self) -> Fallible<()> {
        const TASKS: usize = 4096;
        let burst = || lsparse_kernels::peak::fma_burst::<f32>(std::hint::black_box(1 << 16));
        let tasks = |threads: usize| {
            let next = AtomicUsize::new(0);
            let take = || {
                while next.fetch_add(1, Ordering::Relaxed) < TASKS {
                    burst();
                }
            };
            std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(take))));
            Ok(())
        };
        self.each("arithmetic alone".into(), tasks)?.print();
        Ok(())
    }

    /// Dense, exact and candidate search from the same start, and held-out scores.
    fn mixtures(&self, rows: &NpyRows, heldout: &NpyRows, clusters: usize) -> Fallible<()> {
        let searches =
            [(SearchKind::Dense, "dense"), (SearchKind::Exact, "exact"), (SearchKind::Neighbours, "neighbours")];
        let named = searches.map(|(search, name)| (search, format!("mixture, {name}, K = {clusters}")));
        let score = format!("held-out score of a mixture, K = {clusters}");
        if !named.iter().any(|(_, name)| self.wants(name)) && !self.wants(&score) {
            return Ok(());
        }
        let config = MixtureConfig { init_rows: Some(8 * clusters), ..mixture_config(clusters) };
        let start = with_threads(self.most(), || initial_mixture(rows, &config, MixtureInputs::default()))??.model;
        for (search, name) in named.into_iter().filter(|(_, name)| self.wants(name)) {
            // A step on one thread takes a minute where K is large.
            let alone = if clusters > 1000 { 1 } else { 2 };
            let config = MixtureConfig { search, device: DeviceChoice::Cpu, ..start.config.clone() };
            let inputs = MixtureInputs { start: Some(&start), ..Default::default() };
            let mixtures = Mixtures::<f32>::new(rows, &config, inputs)?;
            let mut line = self.steps(name, &mixtures, alone)?;
            if self.parts && search == SearchKind::Dense {
                line.parts.extend(self.parts_of_a_mixture(rows, &start)?);
            }
            line.print();
        }
        if clusters == 200 && self.wants(&score) {
            self.each(score, |_| Ok(start.score(heldout).map(|_| ())?))?.print();
        }
        Ok(())
    }

    /// Steps of a training on each number of threads, `alone` of them on one: seconds of a step, a batch worked out and
    /// folded in, the median of several. A lap goes by before, in which rows find their clusters and memory is fresh.
    fn steps<'a, F>(&self, name: String, family: &F, alone: usize) -> Fallible<Line>
    where
        F: Family<'a> + Sync,
        Session<'a, F::Model>: Send,
        <F::Model as Model>::Worker: Send,
    {
        let mut session = with_threads(self.most(), || family.session(0))??;
        let mut worker = session.worker();
        let num_batches = session.data().batches.num_batches();
        // Another step has bounds that know nothing, in exact search.
        let warm = num_batches + 1;
        with_threads(self.most(), || (0..warm).try_for_each(|_| session.step(&mut worker).map(|_| ())))??;
        let mut line = Line { name, times: Vec::new(), parts: vec![("local step", vec![]), ("fold", vec![])] };
        for &threads in &self.threads {
            let left = num_batches.saturating_sub(1 + alone) / (self.threads.len() - 1).max(1);
            let steps = if threads == 1 { alone.min(num_batches) } else { left.max(1) };
            let (mut whole, mut local, mut fold) = (Vec::new(), Vec::new(), Vec::new());
            let work = || -> lsparse::Result<()> {
                for _ in 0..steps {
                    let [mut all, mut first, mut second] = [Timer::default(); 3];
                    all.time(|| {
                        let ticket = session.hand_out()?.expect("nothing is in flight");
                        let work = || ticket.work(session.model(), session.params(), session.data(), &mut worker);
                        let done = first.time(work)?;
                        drop(ticket);
                        second.time(|| session.fold(done).map(|_| session.recycle(&mut worker)))
                    })?;
                    whole.push(all);
                    local.push(first);
                    fold.push(second);
                }
                Ok(())
            };
            with_threads(threads, work)??;
            let middle = |timers: &[Timer], of: fn(&Timer) -> f64| median(timers.iter().map(of).collect());
            line.times.push(Timer { wall: middle(&whole, |t| t.wall), cpu: middle(&whole, |t| t.cpu) });
            line.parts[0].1.push(middle(&local, |t| t.wall));
            line.parts[1].1.push(middle(&fold, |t| t.wall));
        }
        Ok(line)
    }

    /// What a step is made of, each part by itself on a stretch of rows, in seconds of a batch.
    fn parts_of_a_mixture(&self, source: &NpyRows, start: &MixtureModel) -> Fallible<Vec<(&'static str, Vec<f64>)>> {
        let names = ["reading", "weights", "regrouping", "statistics", "global step", "objective"];
        let mut parts: Vec<(&'static str, Vec<f64>)> = names.map(|name| (name, Vec::new())).into();
        let inputs = MixtureInputs { start: Some(start), ..Default::default() };
        let session = Mixtures::<f32>::new(source, &start.config, inputs)?.session(0)?;
        let (mixture, params): (&Mixture<f32>, _) = (session.model(), session.params());
        let (clusters, log_pi) = (params.clusters.as_ref(), &params.frequencies.log_pi);
        let (num, count) = (clusters.num_clusters(), PART_ROWS.min(source.num_rows()));
        let of_batch = source.num_rows() as f64 / BATCHES as f64 / count as f64;
        for &threads in &self.threads {
            let work = || -> lsparse::Result<[f64; 6]> {
                let mut rows = Rows::<f32>::dense(source.dim());
                read(source, 0, count, &mut rows)?;
                rows.clear();
                let (reading, result) = seconds(|| read(source, 0, count, &mut rows));
                result?;
                let (mut resp, mut members) = (Responsibilities::default(), Members::default());
                let mut summary = mixture.likelihood.no_statistics(num);
                // Once without the clock: fresh memory is no part of a step.
                let mut found = [0.0; 6];
                for _ in 0..2 {
                    let weights = seconds(|| respond(clusters, log_pi, &rows, start.sparsity(), &mut resp)).0;
                    let regrouping = seconds(|| members.regroup(num, &resp, &[])).0;
                    let statistics =
                        seconds(|| accumulate(mixture.likelihood.as_ref(), &rows, &members, &mut summary)).0;
                    let (global, params) = seconds(|| mixture.global_step(&start.total, None));
                    let params = params?;
                    let objective = seconds(|| mixture.objective(&params, &start.total)).0;
                    let of_rows = [reading, weights, regrouping, statistics].map(|part| part * of_batch);
                    found[..4].copy_from_slice(&of_rows);
                    found[4..].copy_from_slice(&[global, objective]);
                }
                Ok(found)
            };
            let found = with_threads(threads, work)??;
            parts.iter_mut().zip(found).for_each(|(part, seconds)| part.1.push(seconds));
        }
        Ok(parts)
    }

    /// Laps and steps of topics, their seeds and held-out scores.
    fn topics(&self, corpus: &Path) -> Fallible<()> {
        let lines = [(200, 1), (200, BATCHES), (3200, 1), (3200, BATCHES)].map(|(topics, batches)| {
            let plural = if batches > 1 { "batches" } else { "batch" };
            (format!("topics, K = {topics}, {batches} {plural}"), topics, batches)
        });
        let (seeding, score) = ("seeding, topics, K = 200", "held-out score of topics, K = 200");
        if !lines.iter().any(|(name, ..)| self.wants(name)) && !self.wants(seeding) && !self.wants(score) {
            return Ok(());
        }
        let documents = load(corpus, "test")?;
        let (train, test) = (times_over(&documents.train)?, times_over(&documents.test)?);
        for (name, topics, batches) in lines.into_iter().filter(|(name, ..)| self.wants(name)) {
            let config = topic_config(topics, batches);
            let family = TopicFamily::new(&train, &config, TopicInputs::default())?;
            self.steps(name, &family, 2)?.print();
        }
        let config = topic_config(200, BATCHES);
        let family = TopicFamily::new(&train, &config, TopicInputs::default())?;
        if self.wants(seeding) {
            self.each(seeding.into(), |_| Ok(family.session(0).map(|_| ())?))?.print();
        }
        if self.wants(score) {
            let mut session = with_threads(self.most(), || family.session(0))??;
            let mut worker = session.worker();
            with_threads(self.most(), || session.step(&mut worker))??;
            let (model, total): (&Topics, _) = (session.model(), session.total());
            let alpha = &session.params().alpha;
            let complete = |_| {
                let options = CompletionOptions::default();
                Ok(completion(&model.point_topics(total), alpha, &test, &options, &Place::default()).map(|_| ())?)
            };
            self.each(score.into(), complete)?.print();
        }
        Ok(())
    }
}

impl Line {
    fn print(&self) {
        let digits = |seconds: &f64| format!("{seconds:.3}");
        let walls: Vec<f64> = self.times.iter().map(|t| t.wall).collect();
        let cpus: Vec<String> = self.times.iter().map(|t| digits(&t.cpu)).collect();
        let one = walls.first().copied().unwrap_or(f64::NAN);
        let most = walls.last().copied().unwrap_or(f64::NAN);
        let parts: Vec<String> = self
            .parts
            .iter()
            .map(|(name, seconds)| format!("{name} {}", seconds.iter().map(digits).collect::<Vec<_>>().join(" to ")))
            .collect();
        let walls: String = walls.iter().map(|wall| format!(" {} |", digits(wall))).collect();
        println!("| {} |{walls} {:.1} | {} | {} |", self.name, one / most, cpus.join(" to "), parts.join(", "));
    }
}

/// What all mixtures here are trained with.
fn mixture_config(clusters: usize) -> MixtureConfig {
    MixtureConfig {
        likelihood: LikelihoodKind::ZeroMeanGauss,
        clusters,
        sparsity: Sparsity::Of(8),
        tolerance: None,
        batches: Some(BATCHES),
        device: DeviceChoice::Cpu,
        ..Default::default()
    }
}

/// As documents a second are measured: no restarts, which would make a document more work and threads look better.
fn topic_config(topics: usize, batches: usize) -> TopicsConfig {
    TopicsConfig {
        topics,
        sparsity: Sparsity::Of(8),
        doc_iterations: 15,
        restarts: 0,
        batches: Some(batches),
        device: DeviceChoice::Cpu,
        ..Default::default()
    }
}

/// The same documents again and again.
fn times_over(documents: &CsrRows<f32>) -> lsparse::Result<CsrRows<f32>> {
    let mut rows = Rows::<f32>::sparse(documents.dim());
    documents.read_f32(0, documents.num_rows(), &mut rows)?;
    let (mut indptr, mut words, mut counts) = (vec![0], Vec::new(), Vec::new());
    for _ in 0..TIMES_OVER {
        for n in 0..rows.len() {
            let (of_row, values) = rows.sparse_row(n);
            words.extend_from_slice(of_row);
            counts.extend_from_slice(values);
            indptr.push(words.len());
        }
    }
    CsrRows::new(documents.name(), documents.dim(), indptr, words, counts)
}
