//! How options, a file of settings and a model to go on from make up the settings of a mixture.

use lsparse::settings::{DENSE_CLUSTERS, check_fixed, passed_on};
use lsparse::{BestBy, Error, History, MixtureConfig, MixtureModel, Result, ScheduleKind, Sparsity};

use super::args::MixtureArgs;

impl MixtureArgs {
    /// The settings of the run: defaults, then those of the model to go on from, then the file's, then the options'.
    pub fn config(&self, start: Option<&MixtureModel>) -> Result<MixtureConfig> {
        let refuse = |option: &'static str, problem: &str, remedy: &str| {
            Err(Error::Config { setting: option, problem: problem.into(), remedy: remedy.into() })
        };
        let base = start.map_or_else(MixtureConfig::default, |start| passed_on(&start.config));
        let given = self.run.given(&self.settings)?;
        let mut config: MixtureConfig = given.over(&base)?;
        if start.is_none() && !given.has("clusters") && !config.find_k {
            let remedy = "give it with `clusters`, or `clusters auto` to have it found";
            return refuse("clusters", "the number of clusters is not given", remedy);
        }
        if config.method.is_hard() && !given.has("sparsity") {
            // A model to go on from may have kept more.
            config.sparsity = Sparsity::Usual;
        }
        let options = &given.options;
        if options.contains_key("sparsity-tolerance") && config.sparsity != Sparsity::Auto {
            return refuse("sparsity-tolerance", "L is not chosen by it", "give `sparsity auto` too");
        }
        if options.contains_key("alpha") && config.find_k {
            let problem = "where K is found, frequencies of clusters are broken from sticks";
            return refuse("alpha", problem, "leave it out, or give `gamma`");
        }
        if options.contains_key("history") {
            if start.is_none() {
                let problem = "there is no model whose counts it could be about";
                return refuse("history", problem, "leave it out, or give `from` too");
            }
            if config.history == History::Keep && config.schedule == ScheduleKind::Stochastic {
                let problem = "stochastic steps let what was there before fade";
                return refuse("history", problem, "leave it out, or choose `schedule memoized`");
            }
        }
        if let Some(start) = start {
            let asked = config.k_start.filter(|&asked| config.find_k && asked != start.num_clusters());
            if asked.is_some() {
                let problem = format!("K is found from the {} clusters of the model on", start.num_clusters());
                return refuse("k-start", &problem, "leave it out, or train without `from`");
            }
            if config.find_k && !given.has("sparsity") {
                config.sparsity = config.sparsity.of_more(start.num_clusters(), DENSE_CLUSTERS);
            }
            check_fixed(&config, &start.config)?;
        }
        if config.best_by == BestBy::Heldout && self.heldout.is_none() {
            return refuse("best-by", "there are no held-out rows to be best by", "give `heldout` too");
        }
        Ok(config)
    }
}
