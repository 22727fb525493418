//! `lsparse fit topics`: check everything first, train, save, report.

mod args;
mod config;
mod report;

use std::path::{Path, PathBuf};

use lsparse::backend::with_threads;
use lsparse::corpus::{Corpus, Documents};
use lsparse::data::RowSource;
use lsparse::elsewhere::WholeData;
use lsparse::settings::{Checked, TopicMethod, TopicsConfig};
use lsparse::system::{check_room, resident_memory};
use lsparse::topics::{
    TopicInputs, TopicModel, Words, fit_topics_with, memory_needed, memory_to_save, read_seed_words,
};
use lsparse::training::exchange::Engine;
use lsparse::{Beside, Error, Fitted, History, Result, ScheduleKind};

use super::Watchers;
use crate::format::{bytes, counted, grouped};
use crate::interrupt;
use crate::output::{self, message, save_model};
use crate::progress::{Plan, TrainingProgress};
use crate::stdin;
use crate::topics::mention_unknown;

pub use args::TopicsArgs;
use report::Report;

pub fn run(args: &TopicsArgs) -> Result<()> {
    with_threads(args.run.threads, || train(args))?
}

/// The documents that a training is on, for those who work for it.
pub fn documents_of(args: &TopicsArgs) -> Result<Documents> {
    let start = args.from.as_deref().map(TopicModel::load).transpose()?;
    let corpus = Corpus::open(&args.corpus)?;
    let words = Words::new(&corpus, start)?;
    Documents::in_words(corpus, &words.vocab)
}

fn train(args: &TopicsArgs) -> Result<()> {
    let start = args.from.as_deref().map(TopicModel::load).transpose()?;
    let config = args.config(start.as_ref())?;
    stdin::check_folder("heldout", args.heldout.as_deref())?;
    stdin::check_folder("corpus", Some(&args.corpus))?;
    let inputs = args.inputs();
    let inputs: Vec<&Path> = inputs.iter().map(AsRef::as_ref).collect();
    args.run.check_outputs(&inputs, args.from.as_deref())?;
    let corpus = Corpus::open(&args.corpus)?;
    let heldout = args.heldout.as_deref().map(Corpus::open).transpose()?;
    output::note_remark(config.sparsity.remark(config.topics).filter(|_| !config.find_k));
    output::note_remark(config.remark_on_finding(corpus.num_docs()));
    let config = config.check(corpus.num_docs())?;
    args.check_leave_out(&config)?;
    let tokens = corpus.num_tokens();
    let words = Words::new(&corpus, start)?;
    let documents = Documents::in_words(corpus, &words.vocab)?;
    let heldout = heldout.map(|heldout| Documents::in_words(heldout, &words.vocab)).transpose()?;
    let read_seeds = |path: &PathBuf| read_seed_words(path, &words.vocab, config.topics);
    let seed_words = args.seed_words.as_ref().map(read_seeds).transpose()?.unwrap_or_default();
    let (vocab_size, topics) = (documents.dim(), config.topics);
    if args.run.out.is_some() {
        // What cannot be written is not worth to be learned.
        let what = || format!("writing a model of {topics} topics over {vocab_size} words");
        let remedy = || "ask for fewer topics, or build a smaller vocabulary".to_owned();
        check_room(memory_to_save(vocab_size, topics), what, remedy)?;
    }
    let trace = args.run.open_trace()?;
    // A training that others work for is at rest in its folder whenever it is ended.
    let interrupt = args.run.folder().is_none().then(|| interrupt::listen(args.run.quiet));
    if !args.run.quiet {
        let to_save = args.run.out.as_ref().map_or(0, |_| memory_to_save(vocab_size, topics));
        let more = memory_needed(&documents, &config, &args.run.storage()).max(to_save);
        introduce(&documents, tokens, &words, &config, resident_memory().saturating_add(more));
        heldout.iter().for_each(mention_unknown);
    }
    let kept = words.start.as_ref().filter(|_| config.history == History::Keep);
    let kept: f64 = kept.map_or(0.0, |start| start.total.counts.iter().sum());
    let plan = Plan::new(&config.plan(), "documents", "token").over(tokens as f64 + kept);
    let plan = plan.silent_at_first(config.leave_out && config.find_k);
    let progress = TrainingProgress::new(args.run.quiet, "", plan);
    let mut watchers = Watchers::new(progress, trace, &args.run, &args.corpus)?;
    let whole = WholeData::of(&documents);
    let folder = args.run.open_folder(&whole)?;
    let mut engine = args.run.engine(folder.as_ref(), whole);
    let fitted = fit_topics_with(
        &documents,
        &config,
        TopicInputs {
            vocab: Some(words.vocab.words()),
            heldout: heldout.as_ref().map(|heldout| heldout as &dyn RowSource),
            start: words.start.as_ref(),
            seed_words: &seed_words,
            tokenizer: words.tokenizer.clone(),
            ..Default::default()
        },
        Beside {
            heldout_every: args.run.heldout_every,
            observer: Some(&mut watchers),
            interrupt,
            storage: args.run.storage(),
            engine: engine.as_mut().map(|engine| engine.as_mut() as &mut dyn Engine),
        },
    )?;
    watchers.progress.finish();
    if let Some(path) = &args.run.out {
        save_model(path, |place| fitted.model.save_to(place))?;
    }
    args.run.print_report(&Report::new(&fitted, words.new, args.run.out.as_deref()))?;
    if !args.run.quiet {
        conclude(args, &fitted);
    }
    watchers.finish()
}

impl TopicsArgs {
    /// What was asked for must be what is done.
    fn check_leave_out(&self, config: &TopicsConfig) -> Result<()> {
        if self.settings.values.get("leave-out") != Some(&true.into()) || config.leave_out {
            return Ok(());
        }
        let (problem, remedy) = match config.schedule {
            ScheduleKind::Memoized => ("with one batch nothing would be left to train on", "ask for more `batches`"),
            _ => ("only memoized training can leave a batch out", "choose `schedule memoized`"),
        };
        Err(Error::Config { setting: "leave-out", problem: problem.into(), remedy: format!("{remedy}, or give off") })
    }

    /// The files that are read: results must not be written over them.
    fn inputs(&self) -> Vec<PathBuf> {
        let mut inputs: Vec<PathBuf> = [&self.run.config, &self.seed_words].into_iter().flatten().cloned().collect();
        for folder in [Some(&self.corpus), self.heldout.as_ref()].into_iter().flatten() {
            inputs.push(folder.clone());
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
            inputs.extend(entries.map(|entry| entry.path()));
        }
        inputs
    }
}

fn introduce(documents: &Documents, tokens: u64, words: &Words, config: &Checked<TopicsConfig>, memory: u64) {
    let batches = counted(config.batches, "batch", "batches");
    let how = match config.method {
        TopicMethod::Lsparse if config.find_k && config.sparsity == config.k_max() => "L = K".to_owned(),
        TopicMethod::Lsparse => format!("L = {}", config.sparsity),
        method => method.name().to_owned(),
    };
    let topics = match config.find_k {
        true => format!("K to be found from {} on, at most {}", config.topics, config.k_max()),
        false => format!("K = {}", config.topics),
    };
    message(&format!(
        "{}: {}, {} of {}; {topics}, {how}, {batches}; about {} of memory",
        documents.name(),
        counted(documents.num_rows(), "document", "documents"),
        counted(tokens as usize, "token", "tokens"),
        counted(documents.corpus().vocab().len(), "word", "words"),
        bytes(memory),
    ));
    if words.new > 0 {
        message(&format!("{} of the words are new to the model", grouped(words.new)));
    }
    if words.mixed {
        message(
            "warning: text became words in another way for the model than for the corpus; words that are spelled \
             differently count as different (lsparse corpus build --like treats text alike)",
        );
    }
    config::hard_assignment_warning(config.sparsity, config.topics).into_iter().for_each(message);
}

/// What there is to say after the report.
fn conclude(args: &TopicsArgs, fitted: &Fitted<TopicModel>) {
    if fitted.decaying() && !fitted.model.config.find_k {
        let restarts = fitted.model.config.restarts;
        message(&format!(
            "warning: topics got worse lap by lap: documents held more and more topics while the held-out score fell; \
             the remedy is --restarts {}",
            (2 * restarts).max(10),
        ));
    }
    args.run.conclude(&fitted.outcome.reason);
    if let Some(out) = args.run.out.as_ref().filter(|_| !args.run.json) {
        message(&format!("next: lsparse topics {}", out.display()));
    }
}
