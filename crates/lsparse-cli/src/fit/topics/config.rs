//! How options, a file of settings and a model to go on from make up the settings of a topic run.

use lsparse::settings::{DEFAULT_SPARSITY, LAPS_TO_FIND_TOPICS, TopicMethod, TopicsConfig, check_fixed, passed_on};
use lsparse::topics::TopicModel;
use lsparse::{BestBy, Error, History, Result, ScheduleKind};

use super::args::TopicsArgs;

impl TopicsArgs {
    /// The settings of the run: defaults, then those of the model to go on from, then the file's, then the options'.
    pub fn config(&self, start: Option<&TopicModel>) -> Result<TopicsConfig> {
        let refuse = |option: &'static str, problem: &str, remedy: &str| {
            Err(Error::Config { setting: option, problem: problem.into(), remedy: remedy.into() })
        };
        let base = start.map_or_else(TopicsConfig::default, |start| passed_on(&start.config));
        let given = self.run.given(&self.settings)?;
        let mut config: TopicsConfig = given.over(&base)?;
        if config.find_k && !given.has("laps") {
            config.laps = Some(LAPS_TO_FIND_TOPICS);
        }
        if let Some(start) = start {
            if config.find_k {
                if !given.has("sparsity") {
                    config.sparsity = config.sparsity.of_more(start.num_topics(), DEFAULT_SPARSITY);
                }
                if start.num_topics() > config.k_max() {
                    let (has, most) = (start.num_topics(), config.k_max());
                    let problem = format!("the model to go on from has {has} topics, and {most} is the most");
                    return refuse("k-max", &problem, "give a larger one");
                }
                let asked = config.k_start.get_or_insert(start.num_topics());
                if *asked != start.num_topics() {
                    let problem = format!("K is found from the {} topics of the model on", start.num_topics());
                    return refuse("k-start", &problem, "leave it out, or train without `from`");
                }
            }
            if config.topics != start.num_topics() {
                let problem = format!("{} are asked for, the model has {}", config.topics, start.num_topics());
                return refuse("topics", &problem, "leave out `topics`, or train without `from`");
            }
            check_fixed(&config, &start.config)?;
        }
        if given.options.contains_key("history") {
            if start.is_none() {
                let problem = "there is no model whose counts it could be about";
                return refuse("history", problem, "leave it out, or give `from` too");
            }
            let fades = config.schedule == ScheduleKind::Stochastic || config.method == TopicMethod::SviGibbs;
            if config.history == History::Keep && fades {
                let problem = "stochastic steps let what was there before fade";
                return refuse("history", problem, "leave it out, or choose `schedule memoized`");
            }
        }
        if config.best_by == BestBy::Heldout && self.heldout.is_none() {
            return refuse("best-by", "there are no held-out documents to be best by", "give `heldout` too");
        }
        if given.options.contains_key("seed-weight") && self.seed_words.is_none() {
            return refuse("seed-weight", "there are no seed words", "leave it out, or give `seed-words` too");
        }
        Ok(config)
    }
}

/// What there is to say about L = 1 before a training starts.
pub fn hard_assignment_warning(sparsity: usize, topics: usize) -> Option<&'static str> {
    (sparsity == 1 && topics > 1).then_some(
        "warning: with --sparsity 1 every word is drawn to its single best topic, whatever the rest of its document \
         says; such hard assignments can fail catastrophically, with worse topics lap by lap; --sparsity 4 or more \
         does not",
    )
}
