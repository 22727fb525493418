//! How options, a file of settings and a model to go on from make up the settings of a topic run.

use lsparse::History;
use lsparse::settings::{TopicMethod, TopicsConfig};
use lsparse::topics::TopicModel;
use lsparse::{BestBy, Error, Result, ScheduleKind};

use super::super::settings::{check_file, check_method, given, merge, read_config};
use super::args::TopicsArgs;

/// Options that are for some methods alone.
const ONLY: &[(&str, &[&str])] = &[
    ("sparsity", &["lsparse"]),
    ("estimate", &["lsparse"]),
    ("doc-iterations", &["lsparse"]),
    ("doc-tolerance", &["lsparse"]),
    ("active-floor", &["lsparse"]),
    ("max-active", &["lsparse"]),
    ("selection", &["lsparse"]),
    ("restarts", &["lsparse"]),
    ("warm-start", &["lsparse"]),
    ("schedule", &["lsparse"]),
    ("leave-out", &["lsparse"]),
    ("learn-alpha", &["lsparse", "svi-gibbs"]),
    ("delay", &["lsparse", "svi-gibbs"]),
    ("decay", &["lsparse", "svi-gibbs"]),
    ("tolerance", &["lsparse", "svi-gibbs"]),
    ("count-tolerance", &["lsparse", "svi-gibbs"]),
    ("burn-in", &["sparse-lda", "alias-lda", "light-lda"]),
    ("samples", &["svi-gibbs"]),
    ("mh-steps", &["alias-lda", "light-lda"]),
    ("table-draws", &["alias-lda", "light-lda"]),
];

impl TopicsArgs {
    /// The settings of the run: defaults, then those of the model to go on from, then the file's, then the options'.
    pub fn config(&self, start: Option<&TopicModel>) -> Result<TopicsConfig> {
        let base = start.map_or_else(TopicsConfig::default, |start| settings_of_model(&start.config));
        let read = |path| read_config::<TopicsConfig>(path, "{\"topics\": 50}");
        let file = self.run.config.as_deref().map(read).transpose()?.unwrap_or_default();
        let mut options = given(&self.settings);
        let merged = |file| merge(&base, file, options.clone(), ["batches", "docs-per-batch"]);
        let mut config: TopicsConfig = merged(file.clone())?;
        check_file(config.method.name(), &file, ONLY, |file| merged(file)?.check(usize::MAX))?;
        if let Some(sparsity) = self.settings.model.sparsity {
            config.sparsity = sparsity.of(config.topics);
            options.insert("sparsity".into(), config.sparsity.into());
        }
        check_method(config.method.name(), &options, ONLY)?;
        let refuse = |option: &'static str, problem: String, remedy: &str| {
            Err(Error::Config { option, problem, remedy: remedy.into() })
        };
        match start {
            Some(start) if config.topics != start.num_topics() => {
                let problem = format!("{} are asked for, the model has {}", config.topics, start.num_topics());
                return refuse("topics", problem, "leave out -k, or train without --from");
            }
            Some(start) if config.alpha != start.config.alpha => {
                let problem = format!("{} is asked for, the model has {}", config.alpha, start.config.alpha);
                return refuse("alpha", problem, "leave it out, or train without --from");
            }
            Some(_)
                if self.settings.start.history == Some(History::Keep)
                    && (config.schedule == ScheduleKind::Stochastic || config.method == TopicMethod::SviGibbs) =>
            {
                let problem = "stochastic steps let what was there before fade".to_owned();
                return refuse("history", problem, "leave it out, or choose --schedule memoized");
            }
            None if self.settings.start.history.is_some() => {
                let problem = "there is no model whose counts it could be about".to_owned();
                return refuse("history", problem, "leave it out, or give --from too");
            }
            _ => {}
        }
        if config.best_by == BestBy::Heldout && self.heldout.is_none() {
            let problem = "there are no held-out documents to be best by".to_owned();
            return refuse("best-by", problem, "give --heldout too");
        }
        if self.settings.start.seed_weight.is_some() && self.seed_words.is_none() {
            return refuse("seed-weight", "there are no seed words".into(), "leave it out, or give --seed-words too");
        }
        Ok(config)
    }
}

/// What a model passes on to a run that goes on from it: what it is and how it treats a document, not how it was
/// trained.
fn settings_of_model(model: &TopicsConfig) -> TopicsConfig {
    let rest = TopicsConfig::default();
    TopicsConfig {
        method: rest.method,
        burn_in: rest.burn_in,
        samples: rest.samples,
        mh_steps: rest.mh_steps,
        table_draws: rest.table_draws,
        schedule: rest.schedule,
        batches: rest.batches,
        leave_out: rest.leave_out,
        docs_per_batch: rest.docs_per_batch,
        delay: rest.delay,
        decay: rest.decay,
        init: rest.init,
        init_lloyd: rest.init_lloyd,
        history: rest.history,
        seed_weight: rest.seed_weight,
        runs: rest.runs,
        best_by: rest.best_by,
        seed: rest.seed,
        laps: rest.laps,
        tolerance: rest.tolerance,
        count_tolerance: rest.count_tolerance,
        max_seconds: rest.max_seconds,
        early_stopping: rest.early_stopping,
        ..model.clone()
    }
}

/// What there is to say about L = 1 before a training starts.
pub fn hard_assignment_warning(config: &TopicsConfig) -> Option<&'static str> {
    (config.sparsity == 1 && config.topics > 1).then_some(
        "warning: with --sparsity 1 every word is drawn to its single best topic, whatever the rest of its document \
         says; such hard assignments can fail catastrophically, with worse topics lap by lap; --sparsity 4 or more \
         does not",
    )
}
