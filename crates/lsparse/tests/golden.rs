//! Every method x schedule x estimate x search on small made-up data: model files and traces keep their bytes.
//!
//! `golden.txt` holds a checksum of the model file and one of the trace (without its clocks) for each case. Where a
//! change of results is meant, `LSPARSE_GOLDEN=write cargo test --package lsparse --test golden` writes it anew. Alone in
//! its process, since the instruction set is process-wide: the plain one, which every machine has.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lsparse::allocation::AlphaRule;
use lsparse::data::{CsrRows, MemoryRows, RowSource};
use lsparse::increment::Increment;
use lsparse::mixture::MixtureModel;
use lsparse::settings::MixtureMethod;
use lsparse::settings::SearchKind;
use lsparse::settings::{History, Selection, TopicInit, TopicMethod, TopicsConfig};
use lsparse::synthetic::{planted, themed_corpus};
use lsparse::topics::{TopicInputs, TopicModel, fit_topics_with};
use lsparse::training::observe::Observer;
use lsparse::training::trace::{StepInfo, Trace};
use lsparse::{
    Beside, BestBy, Checkpointing, Estimate, Init, LikelihoodKind, MixtureConfig, MixtureInputs, Precision,
    ScheduleKind, Sparsity, Storage, fit_mixture_with,
};
use lsparse_kernels::{Level, set_level};

const TABLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden.txt");
const SCHEDULES: [ScheduleKind; 4] =
    [ScheduleKind::Full, ScheduleKind::Memoized, ScheduleKind::Stochastic, ScheduleKind::Streaming];
const ESTIMATES: [Estimate; 3] = [Estimate::Posterior, Estimate::Map, Estimate::MaxLikelihood];
const PRECISIONS: [Precision; 2] = [Precision::F32, Precision::F64];

#[test]
fn models_and_traces_keep_their_bytes() {
    assert_eq!(set_level(Level::Portable), Level::Portable);
    let mut found = Table::default();
    mixtures(&mut found);
    methods_of_mixtures(&mut found);
    around_mixtures(&mut found);
    topics(&mut found);
    samplers(&mut found);
    around_topics(&mut found);
    found.check();
}

/// Checksums of model and trace by the name of the case.
#[derive(Default)]
struct Table(BTreeMap<String, (u32, u32)>);

impl Table {
    fn add(&mut self, name: String, model: &[u8], trace: &[u8]) {
        let sums = (crc32fast::hash(model), crc32fast::hash(trace));
        assert!(self.0.insert(name.clone(), sums).is_none(), "{name} is there twice");
    }

    fn check(&self) {
        let mut text = String::new();
        self.0.iter().for_each(|(name, (model, trace))| writeln!(text, "{model:08x} {trace:08x} {name}").unwrap());
        if std::env::var("LSPARSE_GOLDEN").is_ok_and(|value| value == "write") {
            std::fs::write(TABLE, text).unwrap();
            return;
        }
        let kept = std::fs::read_to_string(TABLE).unwrap();
        let kept: Vec<&str> = kept.lines().collect();
        let (lost, new): (Vec<&str>, Vec<&str>) = (
            kept.iter().copied().filter(|line| !text.lines().any(|other| other == *line)).collect(),
            text.lines().filter(|line| !kept.contains(line)).collect(),
        );
        let show = |lines: &[&str]| lines.iter().take(20).map(|line| format!("  {line}\n")).collect::<String>();
        let counts = (lost.len(), new.len());
        assert!(counts == (0, 0), "{counts:?} lines were, and are now:\n{}now\n{}", show(&lost), show(&new));
    }
}

/// A trace in memory that asks for a stop after some steps.
struct Watching<'a> {
    trace: Trace<Vec<u8>>,
    stop_after: u64,
    stop: &'a AtomicBool,
}

impl<'a> Watching<'a> {
    fn new(stop_after: u64, stop: &'a AtomicBool) -> Self {
        Watching { trace: Trace::new(Vec::new(), "trace"), stop_after, stop }
    }

    /// The lines without what depends on the clock and the memory, and without sizes, which are statistics of the model.
    fn lines(&mut self) -> Vec<u8> {
        let text = std::str::from_utf8(self.trace.get_mut()).unwrap();
        let mut out = Vec::new();
        for line in text.lines() {
            let mut step: serde_json::Value = serde_json::from_str(line).unwrap();
            let fields = step.as_object_mut().unwrap();
            for field in ["seconds", "cpu_seconds", "rows_per_second", "peak_memory_bytes"] {
                fields.remove(field).unwrap();
            }
            for field in ["moves_cpu_seconds", "k_max_reached"] {
                fields.remove(field);
            }
            fields.remove("sizes");
            serde_json::to_writer(&mut out, &step).unwrap();
            out.push(b'\n');
        }
        out
    }
}

impl Observer for Watching<'_> {
    fn step(&mut self, info: &StepInfo) -> lsparse::Result<()> {
        if info.step == self.stop_after {
            self.stop.store(true, Ordering::Relaxed);
        }
        self.trace.step(info)
    }
}

/// What is around a case besides rows and settings.
#[derive(Default)]
struct Given<'a> {
    heldout: Option<&'a dyn RowSource>,
    heldout_every: Option<u64>,
    row_weights: Option<&'a [f64]>,
    mixture: Option<&'a MixtureModel>,
    topics: Option<&'a TopicModel>,
    seed_words: &'a [Vec<u32>],
    storage: Storage,
    stop_after: u64,
}

fn mixture_bytes(source: &dyn RowSource, config: &MixtureConfig, given: Given<'_>) -> (Vec<u8>, Vec<u8>) {
    let stop = AtomicBool::new(false);
    let mut watching = Watching::new(given.stop_after, &stop);
    let Given { heldout, row_weights, mixture: start, .. } = given;
    let inputs = MixtureInputs { heldout, row_weights, start, ..Default::default() };
    let beside = Beside {
        heldout_every: given.heldout_every,
        observer: Some(&mut watching),
        interrupt: Some(&stop),
        storage: given.storage,
        ..Default::default()
    };
    let fitted = fit_mixture_with(source, config, inputs, beside).unwrap_or_else(|e| panic!("{config:?}: {e}"));
    (fitted.model.to_bytes().unwrap(), watching.lines())
}

fn topic_bytes(source: &dyn RowSource, config: &TopicsConfig, given: Given<'_>) -> (Vec<u8>, Vec<u8>) {
    let stop = AtomicBool::new(false);
    let mut watching = Watching::new(given.stop_after, &stop);
    let Given { heldout, seed_words, topics: start, .. } = given;
    let inputs = TopicInputs { heldout, start, seed_words, ..Default::default() };
    let beside = Beside {
        heldout_every: given.heldout_every,
        observer: Some(&mut watching),
        interrupt: Some(&stop),
        storage: given.storage,
        ..Default::default()
    };
    let fitted = fit_topics_with(source, config, inputs, beside).unwrap_or_else(|e| panic!("{config:?}: {e}"));
    (fitted.model.to_bytes().unwrap(), watching.lines())
}

/// Rows of a family, in either precision.
fn rows(kind: LikelihoodKind, precision: Precision, seed: u64) -> Box<dyn RowSource> {
    let truth = planted(kind, 240, 4, 5, seed);
    match precision {
        Precision::F32 => Box::new(MemoryRows::new("planted", truth.dim, truth.values_f32()).unwrap()),
        _ => Box::new(MemoryRows::new("planted", truth.dim, truth.values.clone()).unwrap()),
    }
}

/// What the cases of mixtures have in common. Start and prior are named, so that other defaults do not change them.
fn mixture_config() -> MixtureConfig {
    MixtureConfig {
        clusters: 6,
        sparsity: Sparsity::Of(2),
        init: Init::Bregman,
        init_lloyd: Some(1),
        init_rows: Some(240),
        prior_scale: Some(0.1),
        search: SearchKind::Dense,
        batches: Some(4),
        laps: Some(3),
        tolerance: None,
        seed: 3,
        ..Default::default()
    }
}

fn batches_of(schedule: ScheduleKind) -> usize {
    if schedule == ScheduleKind::Full { 1 } else { 4 }
}

fn name<T: serde::Serialize>(value: T) -> String {
    serde_json::to_value(value).unwrap().as_str().unwrap().to_owned()
}

fn mixtures(found: &mut Table) {
    for likelihood in LikelihoodKind::ALL {
        for precision in PRECISIONS {
            let source = rows(likelihood, precision, 11);
            for search in [SearchKind::Dense, SearchKind::Exact, SearchKind::Neighbours] {
                if search.settle(likelihood, 6, 4) != search {
                    continue;
                }
                for (estimate, schedule) in ESTIMATES.iter().flat_map(|e| SCHEDULES.map(|s| (*e, s))) {
                    let batches = batches_of(schedule);
                    let config = MixtureConfig {
                        likelihood,
                        search,
                        estimate,
                        schedule,
                        batches: Some(batches),
                        precision,
                        ..mixture_config()
                    };
                    let (model, trace) = mixture_bytes(source.as_ref(), &config, Given::default());
                    let case = [name(likelihood), name(precision), name(search), name(estimate), name(schedule)];
                    found.add(format!("mixture {}", case.join(" ")), &model, &trace);
                }
            }
        }
    }
}

fn methods_of_mixtures(found: &mut Table) {
    let methods = [
        MixtureMethod::SparseEm,
        MixtureMethod::Truncation,
        MixtureMethod::Kmeans,
        MixtureMethod::DpMeans,
        MixtureMethod::HardEm,
    ];
    for method in methods {
        let hard = method.has_centres_alone() || method == MixtureMethod::HardEm;
        let families = match method.has_centres_alone() {
            true => vec![LikelihoodKind::DiagGauss],
            false => vec![LikelihoodKind::Gauss, LikelihoodKind::DiagGauss, LikelihoodKind::Multinomial],
        };
        for (likelihood, precision) in families.into_iter().flat_map(|f| PRECISIONS.map(|p| (f, p))) {
            let source = rows(likelihood, precision, 12);
            for schedule in SCHEDULES {
                if method == MixtureMethod::DpMeans && schedule == ScheduleKind::Stochastic {
                    continue;
                }
                let config = MixtureConfig {
                    method,
                    likelihood,
                    precision,
                    schedule,
                    estimate: if hard { Estimate::Map } else { Estimate::Posterior },
                    sparsity: if hard { Sparsity::Of(1) } else { Sparsity::Of(2) },
                    search: SearchKind::Auto,
                    batches: if schedule == ScheduleKind::Full { Some(1) } else { Some(3) },
                    refresh: 3,
                    laps: Some(7),
                    ..mixture_config()
                };
                let (model, trace) = mixture_bytes(source.as_ref(), &config, Given::default());
                let case = [name(method), name(likelihood), name(precision), name(schedule)];
                found.add(format!("mixture {}", case.join(" ")), &model, &trace);
                if schedule == ScheduleKind::Memoized && precision == Precision::F32 {
                    let resumed = mixture_resumed(found, &format!("mixture {} resumed", case.join(" ")), &config, 11);
                    assert_eq!(resumed, model, "{case:?}");
                }
            }
        }
    }
}

/// Where checkpoints go: one after every step.
fn storage(folder: &Path, resume: bool, forget_batch: Option<usize>, memo_memory: Option<u64>) -> Storage {
    let path = folder.join("run.ckpt");
    let checkpoint = Checkpointing { every: Duration::ZERO, resume, forget_batch, ..Checkpointing::new(path) };
    Storage { checkpoint: Some(checkpoint), memo_memory }
}

/// A run that is stopped after some steps and taken up again; gives its model.
fn mixture_resumed(found: &mut Table, case: &str, config: &MixtureConfig, stop_after: u64) -> Vec<u8> {
    let source = rows(config.likelihood, config.precision, 12);
    let folder = tempfile::tempdir().unwrap();
    let run = |resume: bool, stop_after: u64| {
        let storage = storage(folder.path(), resume, None, None);
        mixture_bytes(source.as_ref(), config, Given { storage, stop_after, ..Given::default() })
    };
    run(false, stop_after);
    let (model, trace) = run(true, 0);
    found.add(case.to_owned(), &model, &trace);
    model
}

fn around_mixtures(found: &mut Table) {
    let kind = LikelihoodKind::Gauss;
    let (source, held) = (rows(kind, Precision::F64, 12), rows(kind, Precision::F64, 13));
    let base = MixtureConfig { precision: Precision::F64, ..mixture_config() };
    let searches = [SearchKind::Dense, SearchKind::Exact, SearchKind::Neighbours];
    let mut add = |name: &str, (model, trace): (Vec<u8>, Vec<u8>)| {
        found.add(format!("mixture {name}"), &model, &trace);
        model
    };

    let weights: Vec<f64> = (0..240).map(|n| f64::from(n % 5)).collect();
    for schedule in SCHEDULES {
        let config = MixtureConfig { schedule, batches: Some(batches_of(schedule)), ..base.clone() };
        let given = Given { row_weights: Some(&weights), ..Given::default() };
        add(&format!("weights {}", name(schedule)), mixture_bytes(source.as_ref(), &config, given));
    }
    for heldout_every in [None, Some(3)] {
        let given = Given { heldout: Some(held.as_ref()), heldout_every, ..Given::default() };
        add(&format!("heldout {}", heldout_every.unwrap_or(0)), mixture_bytes(source.as_ref(), &base, given));
    }
    for best_by in [BestBy::Objective, BestBy::Heldout] {
        let config = MixtureConfig { runs: 3, best_by, search: SearchKind::Neighbours, ..base.clone() };
        let given = Given { heldout: Some(held.as_ref()), ..Given::default() };
        add(&format!("runs {}", name(best_by)), mixture_bytes(source.as_ref(), &config, given));
    }
    for search in searches {
        let config =
            MixtureConfig { sparsity_tolerance: Some(0.01), sparsity: Sparsity::Of(1), search, ..base.clone() };
        add(&format!("tolerance {}", name(search)), mixture_bytes(source.as_ref(), &config, Given::default()));
    }
    for init in [Init::Auto, Init::Kmeans, Init::Examples, Init::Responsibilities] {
        let config = MixtureConfig { init, ..base.clone() };
        add(&format!("init {}", name(init)), mixture_bytes(source.as_ref(), &config, Given::default()));
    }
    let config = MixtureConfig { tolerance: Some(0.5), count_tolerance: Some(0.1), laps: Some(50), ..base.clone() };
    add("rest", mixture_bytes(source.as_ref(), &config, Given::default()));

    let mut gaps = planted(kind, 240, 4, 5, 12).values;
    gaps.iter_mut().step_by(7).for_each(|v| *v = f64::NAN);
    let lacking = MemoryRows::new("planted", 4, gaps).unwrap();
    for (likelihood, estimate) in
        [LikelihoodKind::Gauss, LikelihoodKind::DiagGauss].into_iter().flat_map(|f| ESTIMATES.map(|e| (f, e)))
    {
        let config = MixtureConfig { missing: true, likelihood, estimate, ..base.clone() };
        let bytes = mixture_bytes(&lacking, &config, Given::default());
        add(&format!("missing {} {}", name(likelihood), name(estimate)), bytes);
    }

    // A run that is stopped, taken up again, and goes on without one of its batches, in memory and in files.
    for (search, memo_memory) in searches.into_iter().flat_map(|s| [(s, None), (s, Some(0))]) {
        for (estimate, schedule) in [
            (Estimate::Posterior, ScheduleKind::Memoized),
            (Estimate::MaxLikelihood, ScheduleKind::Memoized),
            (Estimate::Posterior, ScheduleKind::Stochastic),
            (Estimate::Posterior, ScheduleKind::Full),
        ] {
            let batches = batches_of(schedule);
            let config =
                MixtureConfig { search, estimate, schedule, batches: Some(batches), laps: Some(4), ..base.clone() };
            let case = format!("{} {} {} {memo_memory:?}", name(search), name(estimate), name(schedule));
            let folder = tempfile::tempdir().unwrap();
            let run = |config: &MixtureConfig, resume: bool, forget_batch: Option<usize>, stop_after: u64| {
                let storage = storage(folder.path(), resume, forget_batch, memo_memory);
                mixture_bytes(source.as_ref(), config, Given { storage, stop_after, ..Given::default() })
            };
            let whole = mixture_bytes(source.as_ref(), &config, Given::default());
            add(&format!("stopped {case}"), run(&config, false, None, if batches == 1 { 2 } else { 6 }));
            let resumed = add(&format!("resumed {case}"), run(&config, true, None, 0));
            assert_eq!(resumed, whole.0, "{case}");
            if (schedule, estimate) == (ScheduleKind::Memoized, Estimate::Posterior) {
                add(&format!("forgotten {case}"), run(&config, true, Some(1), 0));
                let longer = MixtureConfig { laps: Some(6), ..config };
                add(&format!("after forgetting {case}"), run(&longer, true, None, 0));
            }
        }
    }
    // In the middle of a lap.
    for search in searches {
        let config = MixtureConfig { search, ..base.clone() };
        let folder = tempfile::tempdir().unwrap();
        let run = |resume: bool, forget_batch: Option<usize>, stop_after: u64| {
            let storage = storage(folder.path(), resume, forget_batch, None);
            mixture_bytes(source.as_ref(), &config, Given { storage, stop_after, ..Given::default() })
        };
        run(false, None, 6);
        add(&format!("forgotten within a lap {}", name(search)), run(true, Some(2), 0));
        add(&format!("after forgetting within a lap {}", name(search)), run(true, None, 0));
    }

    let (bytes, _) = mixture_bytes(source.as_ref(), &base, Given::default());
    let first = MixtureModel::from_bytes(Path::new("first"), &bytes).unwrap();
    for schedule in SCHEDULES {
        let config = MixtureConfig { schedule, batches: Some(batches_of(schedule)), ..base.clone() };
        let given = Given { mixture: Some(&first), ..Given::default() };
        add(&format!("from {}", name(schedule)), mixture_bytes(held.as_ref(), &config, given));
    }
    for (what, how) in [("add", Increment::Add), ("blend", Increment::Blend { rate: 0.3, population: 500.0 })] {
        let updated = first.update(held.as_ref(), Some(&weights), how).unwrap();
        add(&format!("updated {what}"), (updated.to_bytes().unwrap(), Vec::new()));
    }
}

/// Documents about known themes, and the words.
fn documents(num: usize, seed: u64) -> (CsrRows<f32>, Vec<String>) {
    let corpus = themed_corpus(num, seed);
    (corpus.rows("themes", 0..num).unwrap(), corpus.vocab)
}

fn topics_config() -> TopicsConfig {
    TopicsConfig {
        topics: 8,
        sparsity: Sparsity::Of(3),
        batches: Some(4),
        laps: Some(3),
        tolerance: None,
        init_lloyd: 2,
        seed: 5,
        ..Default::default()
    }
}

fn topics(found: &mut Table) {
    let (source, _) = documents(90, 7);
    let mut add = |name: String, config: &TopicsConfig| {
        let (model, trace) = topic_bytes(&source, config, Given::default());
        found.add(format!("topics {name}"), &model, &trace);
    };
    for estimate in [Estimate::Posterior, Estimate::Map] {
        for schedule in SCHEDULES {
            for (leave_out, sparsity) in [(true, 3), (false, 3), (true, 8), (false, 8)] {
                let config =
                    TopicsConfig { estimate, schedule, leave_out, sparsity: Sparsity::Of(sparsity), ..topics_config() };
                add(format!("{} {} {leave_out} {sparsity}", name(estimate), name(schedule)), &config);
            }
            for learn_alpha in [AlphaRule::Symmetric, AlphaRule::Asymmetric, AlphaRule::Direction] {
                let config = TopicsConfig { estimate, schedule, learn_alpha, ..topics_config() };
                add(format!("{} {} alpha {}", name(estimate), name(schedule), name(learn_alpha)), &config);
            }
            let config = TopicsConfig { estimate, schedule, warm_start: true, ..topics_config() };
            add(format!("{} {} warm", name(estimate), name(schedule)), &config);
        }
    }
    for (what, selection) in [("paper", Selection::PAPER), ("always", Selection::ALWAYS)] {
        add(format!("selection {what}"), &TopicsConfig { selection, ..topics_config() });
    }
    add("no restarts".into(), &TopicsConfig { restarts: 0, ..topics_config() });
    add("random".into(), &TopicsConfig { init: TopicInit::Random, ..topics_config() });
    add("rest".into(), &TopicsConfig { tolerance: Some(0.05), laps: Some(30), ..topics_config() });
    // More topics than the documents need: some are lost, and lent documents.
    add("many".into(), &TopicsConfig { topics: 40, laps: Some(6), ..topics_config() });
    add(
        "many at random".into(),
        &TopicsConfig { topics: 40, laps: Some(6), init: TopicInit::Random, ..topics_config() },
    );
    add("svi-gibbs".into(), &TopicsConfig { method: TopicMethod::SviGibbs, ..topics_config() });
    add("svi-gibbs runs".into(), &TopicsConfig { method: TopicMethod::SviGibbs, runs: 2, ..topics_config() });
    let learn_alpha = AlphaRule::Asymmetric;
    add("svi-gibbs alpha".into(), &TopicsConfig { method: TopicMethod::SviGibbs, learn_alpha, ..topics_config() });
}

fn samplers(found: &mut Table) {
    let (source, _) = documents(60, 8);
    for method in [TopicMethod::SparseLda, TopicMethod::AliasLda, TopicMethod::LightLda] {
        for (schedule, init, burn_in) in [
            (ScheduleKind::Full, TopicInit::Auto, 0),
            (ScheduleKind::Memoized, TopicInit::Bregman, 0),
            (ScheduleKind::Memoized, TopicInit::Auto, 2),
        ] {
            let config = TopicsConfig {
                method,
                schedule,
                init,
                burn_in: (burn_in > 0).then_some(burn_in),
                laps: Some(4),
                runs: 2,
                ..topics_config()
            };
            let (model, trace) = topic_bytes(&source, &config, Given::default());
            found.add(format!("topics {} {} {}", name(method), name(schedule), name(init)), &model, &trace);
        }
    }
}

fn around_topics(found: &mut Table) {
    let ((source, vocab), (held, _)) = (documents(90, 7), documents(40, 9));
    let mut add = |name: &str, (model, trace): (Vec<u8>, Vec<u8>)| {
        found.add(format!("topics {name}"), &model, &trace);
        model
    };
    let word = |text: &str| vocab.iter().position(|word| word == text).unwrap() as u32;
    let seed_words = [vec![word("star"), word("planet")], vec![], vec![word("sauce")]];
    for schedule in SCHEDULES {
        let config = TopicsConfig { schedule, ..topics_config() };
        let given = Given { seed_words: &seed_words, ..Given::default() };
        add(&format!("seed words {}", name(schedule)), topic_bytes(&source, &config, given));
    }
    for (heldout_every, leave_out) in [(None, true), (Some(3), true), (Some(3), false)] {
        let config = TopicsConfig { leave_out, ..topics_config() };
        let given = Given { heldout: Some(&held), heldout_every, ..Given::default() };
        add(&format!("heldout {} {leave_out}", heldout_every.unwrap_or(0)), topic_bytes(&source, &config, given));
    }
    for best_by in [BestBy::Objective, BestBy::Heldout] {
        let config = TopicsConfig { runs: 3, best_by, ..topics_config() };
        let given = Given { heldout: Some(&held), ..Given::default() };
        add(&format!("runs {}", name(best_by)), topic_bytes(&source, &config, given));
    }
    let plain = topics_config();
    let cases = [
        ("lsparse", plain.clone()),
        ("paper", TopicsConfig { leave_out: false, ..plain.clone() }),
        ("warm", TopicsConfig { warm_start: true, ..plain.clone() }),
        ("alpha", TopicsConfig { learn_alpha: AlphaRule::Symmetric, ..plain.clone() }),
        ("many", TopicsConfig { topics: 40, init: TopicInit::Random, ..plain.clone() }),
        ("stochastic", TopicsConfig { schedule: ScheduleKind::Stochastic, ..plain.clone() }),
        ("svi-gibbs", TopicsConfig { method: TopicMethod::SviGibbs, ..plain.clone() }),
        ("sparse-lda", TopicsConfig { method: TopicMethod::SparseLda, burn_in: Some(1), ..plain.clone() }),
        ("light-lda", TopicsConfig { method: TopicMethod::LightLda, burn_in: Some(1), ..plain.clone() }),
    ];
    for ((case, config), memo_memory) in cases.into_iter().flat_map(|case| [(case.clone(), None), (case, Some(0))]) {
        let folder = tempfile::tempdir().unwrap();
        let run = |config: &TopicsConfig, resume: bool, forget_batch: Option<usize>, stop_after: u64| {
            let storage = storage(folder.path(), resume, forget_batch, memo_memory);
            topic_bytes(&source, config, Given { storage, stop_after, ..Given::default() })
        };
        let whole = topic_bytes(&source, &config, Given::default());
        add(&format!("stopped {case} {memo_memory:?}"), run(&config, false, None, 6));
        let resumed = add(&format!("resumed {case} {memo_memory:?}"), run(&config, true, None, 0));
        assert_eq!(resumed, whole.0, "{case}");
        if config.schedule == ScheduleKind::Memoized && config.method == TopicMethod::Lsparse {
            add(&format!("forgotten {case} {memo_memory:?}"), run(&config, true, Some(1), 0));
            let longer = TopicsConfig { laps: Some(5), ..config };
            add(&format!("after forgetting {case} {memo_memory:?}"), run(&longer, true, None, 0));
        }
    }
    // In the middle of a lap, with a batch left out.
    let folder = tempfile::tempdir().unwrap();
    let run = |resume: bool, forget_batch: Option<usize>, stop_after: u64| {
        let storage = storage(folder.path(), resume, forget_batch, None);
        topic_bytes(&source, &plain, Given { storage, stop_after, ..Given::default() })
    };
    run(false, None, 6);
    add("forgotten within a lap", run(true, Some(2), 0));
    add("after forgetting within a lap", run(true, None, 0));

    let (bytes, _) = topic_bytes(&source, &plain, Given::default());
    let first = TopicModel::from_bytes(Path::new("first"), &bytes).unwrap();
    for (schedule, history) in SCHEDULES.into_iter().flat_map(|s| [History::Keep, History::Replace].map(|h| (s, h))) {
        let config = TopicsConfig { schedule, history, ..plain.clone() };
        let given = Given { topics: Some(&first), ..Given::default() };
        add(&format!("from {} {}", name(schedule), name(history)), topic_bytes(&held, &config, given));
    }
    let config = TopicsConfig { method: TopicMethod::SparseLda, history: History::Replace, ..plain.clone() };
    add("from sparse-lda", topic_bytes(&held, &config, Given { topics: Some(&first), ..Given::default() }));
    for (what, how) in [("add", Increment::Add), ("blend", Increment::Blend { rate: 0.3, population: 500.0 })] {
        add(&format!("updated {what}"), (first.update(&held, how).unwrap().to_bytes().unwrap(), Vec::new()));
    }
}
