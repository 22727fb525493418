//! How options, a file of settings and a model to go on from make up the settings of a mixture.

use lsparse::likelihood::Estimate;
use lsparse::settings::DEFAULT_SPARSITY_TOLERANCE;
use lsparse::settings::MixtureMethod;
use lsparse::{BestBy, Error, History, MixtureConfig, MixtureModel, Result, ScheduleKind};

use super::super::settings::{check_file, check_method, given, merge, read_config};
use super::args::{MixtureArgs, SparsityChoice};

/// Methods whose clusters have a likelihood.
const FAMILIES: &[&str] = &["lsparse", "sparse-em", "truncation", "hard-em"];
/// Methods that start from seeds.
const SEEDED: &[&str] = &["lsparse", "sparse-em", "truncation", "hard-em", "kmeans"];

/// Options that are for some methods alone.
const ONLY: &[(&str, &[&str])] = &[
    ("sparsity", &["lsparse", "sparse-em", "truncation"]),
    ("sparsity-tolerance", &["lsparse"]),
    ("search", &["lsparse", "hard-em"]),
    ("likelihood", FAMILIES),
    ("estimate", FAMILIES),
    ("alpha", FAMILIES),
    ("lambda", FAMILIES),
    ("nu", FAMILIES),
    ("kappa", FAMILIES),
    ("prior-scale", FAMILIES),
    ("init", SEEDED),
    ("init-lloyd", SEEDED),
    ("init-rows", SEEDED),
    ("refresh", &["sparse-em"]),
    ("threshold", &["sparse-em"]),
    ("selection-function", &["truncation"]),
    ("penalty", &["dp-means"]),
];

impl MixtureArgs {
    /// The settings of the run: defaults, then those of the model to go on from, then the file's, then the options'.
    pub fn config(&self, start: Option<&MixtureModel>) -> Result<MixtureConfig> {
        let base = start.map_or_else(MixtureConfig::default, |start| settings_of_model(&start.config));
        let read = |path| read_config::<MixtureConfig>(path, "{\"clusters\": 50}");
        let file = self.run.config.as_deref().map(read).transpose()?.unwrap_or_default();
        let mut options = given(&self.settings);
        let has_clusters = start.is_some() || file.contains_key("clusters") || options.contains_key("clusters");
        if !has_clusters {
            let (problem, remedy) = ("the number of clusters is not given", "give it with -k");
            return Err(Error::Config { option: "clusters", problem: problem.into(), remedy: remedy.into() });
        }
        let merged = |file| merge(&base, file, options.clone(), ["batches", "rows-per-batch"]);
        let mut config: MixtureConfig = merged(file.clone())?;
        check_file(config.method.name(), &file, ONLY, |file| merged(file)?.check(usize::MAX))?;
        let keeps_one = config.method == MixtureMethod::HardEm || config.method.has_centres_alone();
        if keeps_one && !file.contains_key("sparsity") && self.settings.model.sparsity.is_none() {
            // A model to go on from may have kept more.
            config.sparsity = 0;
        }
        if self.settings.model.sparsity.is_some() {
            options.insert("sparsity".into(), config.sparsity.into());
        }
        check_method(config.method.name(), &options, ONLY)?;
        if self.settings.methods.penalty == Some(0.0) {
            let (problem, remedy) = ("every row would be a cluster of its own", "give more, or leave it out");
            return Err(Error::Config { option: "penalty", problem: problem.into(), remedy: remedy.into() });
        }
        if config.method == MixtureMethod::HardEm && self.settings.model.estimate == Some(Estimate::Posterior) {
            let (problem, remedy) = ("hard-em has point estimates", "choose map or ml");
            return Err(Error::Config { option: "estimate", problem: problem.into(), remedy: remedy.into() });
        }
        let auto = self.settings.model.sparsity == Some(SparsityChoice::Auto);
        let asked = options.get("sparsity-tolerance").and_then(serde_json::Value::as_f64);
        let refuse = |problem: &str, remedy: &str| {
            Err(Error::Config { option: "sparsity-tolerance", problem: problem.into(), remedy: remedy.into() })
        };
        match asked {
            Some(_) if !auto => return refuse("L is not chosen by it", "give --sparsity auto too"),
            Some(0.0) => return refuse("0 leaves nothing to choose", "give a share of mass such as 0.01"),
            _ => {}
        }
        match self.settings.model.sparsity {
            Some(SparsityChoice::Given(sparsity)) => config.sparsity = sparsity.of(config.clusters),
            Some(SparsityChoice::Auto) if config.sparsity_tolerance == 0.0 => {
                config.sparsity_tolerance = DEFAULT_SPARSITY_TOLERANCE;
            }
            _ => {}
        }
        let about = |problem: &str, remedy: &str| {
            Err(Error::Config { option: "history", problem: problem.into(), remedy: remedy.into() })
        };
        match (self.settings.start.history, start) {
            (Some(_), None) => {
                return about("there is no model whose counts it could be about", "leave it out, or give --from too");
            }
            (Some(History::Keep), _) if config.schedule == ScheduleKind::Stochastic => {
                let problem = "stochastic steps let what was there before fade";
                return about(problem, "leave it out, or choose --schedule memoized");
            }
            _ => {}
        }
        if let Some(start) = start {
            check_same_prior(&config, &start.config)?;
        }
        if config.best_by == BestBy::Heldout && self.heldout.is_none() {
            let (problem, remedy) = ("there are no held-out rows to be best by", "give --heldout too");
            return Err(Error::Config { option: "best-by", problem: problem.into(), remedy: remedy.into() });
        }
        Ok(config)
    }
}

/// What a model passes on to a run that goes on from it: what it is, not how it was trained.
fn settings_of_model(model: &MixtureConfig) -> MixtureConfig {
    let rest = MixtureConfig::default();
    MixtureConfig {
        sparsity_tolerance: rest.sparsity_tolerance,
        search: rest.search,
        method: rest.method,
        refresh: rest.refresh,
        threshold: rest.threshold,
        selection_function: rest.selection_function,
        penalty: rest.penalty,
        schedule: rest.schedule,
        batches: rest.batches,
        rows_per_batch: rest.rows_per_batch,
        delay: rest.delay,
        decay: rest.decay,
        init: rest.init,
        init_lloyd: rest.init_lloyd,
        init_rows: rest.init_rows,
        history: rest.history,
        runs: rest.runs,
        best_by: rest.best_by,
        seed: rest.seed,
        laps: rest.laps,
        tolerance: rest.tolerance,
        count_tolerance: rest.count_tolerance,
        max_seconds: rest.max_seconds,
        early_stopping: rest.early_stopping,
        precision: rest.precision,
        ..model.clone()
    }
}

/// The prior on clusters is part of the model, in the units of the data it was first trained on.
fn check_same_prior(config: &MixtureConfig, model: &MixtureConfig) -> Result<()> {
    let pairs = [
        ("lambda", config.lambda, model.lambda),
        ("nu", config.nu, model.nu),
        ("kappa", config.kappa, model.kappa),
        ("prior-scale", config.prior_scale, model.prior_scale),
        ("variance-floor", config.variance_floor, model.variance_floor),
    ];
    if config.prior_shape != model.prior_shape {
        let problem = "the model to start from has another".into();
        return Err(Error::Config { option: "prior-shape", problem, remedy: "leave it out".into() });
    }
    match pairs.into_iter().find(|(_, asked, has)| asked != has) {
        None => Ok(()),
        Some((option, asked, has)) => Err(Error::Config {
            option,
            problem: format!("{asked} is asked for, the model to start from has {has}"),
            remedy: "leave it out, or train without --from".into(),
        }),
    }
}
