//! The settings of a topic run.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::allocation::AlphaRule;
use crate::backend::DeviceChoice;
use crate::choice::{Name, choices};
use crate::error::{Error, Result};
use crate::likelihood::Estimate;
use crate::settings::table::{Kind, SettingValue, Settings, settings};
use crate::settings::{BestBy, Checked, DEFAULT_K_MAX, DEFAULT_SPARSITY, History, LARGEST_PRIOR, Sparsity};
use crate::training::rules::StopRules;
use crate::training::schedule::{Pace, ScheduleKind};

choices! {
    /// How topics are trained. Samplers give every token one topic and need hundreds of laps: set `laps`.
    pub enum TopicMethod {
        /// L-sparse responsibilities.
        Lsparse = "lsparse",
        /// Collapsed Gibbs sampling in three buckets (Yao et al. 2009).
        SparseLda = "sparse-lda",
        /// Collapsed Gibbs sampling with stale alias tables (Li et al. 2014).
        AliasLda = "alias-lda",
        /// Cheap proposals from document and word in turn (Yuan et al. 2015).
        LightLda = "light-lda",
        /// Stochastic training, documents by Gibbs samples (Mimno et al. 2012).
        SviGibbs = "svi-gibbs",
    }
}

impl TopicMethod {
    /// Whether every token of the corpus has one topic that is drawn anew lap by lap.
    pub fn samples_tokens(self) -> bool {
        matches!(self, TopicMethod::SparseLda | TopicMethod::AliasLda | TopicMethod::LightLda)
    }
}

choices! {
    /// How the first topics are found.
    pub enum TopicInit {
        /// Random for sparse-lda, alias-lda and light-lda, else bregman.
        Auto = "auto",
        /// Bregman k-means++ over documents.
        Bregman = "bregman",
        /// Random groups of documents; for samplers of all tokens, a random topic for every token.
        Random = "random",
    }
}

/// When a token's L topics are chosen.
///
/// As text, and in settings: `end`, `paper`, `always`, or the two numbers of a schedule, as in `5,10`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Selection {
    /// Once, for the responsibilities that leave the document: until then all active topics share a token.
    End,
    /// In the first iterations, and then every so many; in between the chosen topics are reweighted.
    Schedule {
        /// Iterations that choose at the beginning.
        first: usize,
        /// Iterations from one choice to the next after that.
        every: usize,
    },
}

impl Selection {
    /// In the first 5 iterations and every 10th after, as the paper does.
    pub const PAPER: Selection = Selection::Schedule { first: 5, every: 10 };
    /// In every iteration.
    pub const ALWAYS: Selection = Selection::Schedule { first: 1, every: 1 };

    /// Whether an iteration (from 0) chooses.
    pub fn due(self, iteration: usize) -> bool {
        match self {
            Selection::End => false,
            Selection::Schedule { first, every } => {
                iteration < first.max(1) || (iteration + 1).is_multiple_of(every.max(1))
            }
        }
    }
}

impl std::fmt::Display for Selection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Selection::End => f.write_str("end"),
            Selection::PAPER => f.write_str("paper"),
            Selection::ALWAYS => f.write_str("always"),
            Selection::Schedule { first, every } => write!(f, "{first},{every}"),
        }
    }
}

impl std::str::FromStr for Selection {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "end" => return Ok(Selection::End),
            "paper" => return Ok(Selection::PAPER),
            "always" => return Ok(Selection::ALWAYS),
            _ => {}
        }
        let number = |text: &str| text.trim().parse::<usize>().ok().filter(|&n| n > 0);
        let numbers = text.split_once(',').and_then(|(first, every)| Some((number(first)?, number(every)?)));
        let (first, every) = numbers.ok_or_else(|| {
            format!("{text:?} is not end, paper, always or two numbers from 1 on with a comma between, as in 5,10")
        })?;
        Ok(Selection::Schedule { first, every })
    }
}

impl TryFrom<String> for Selection {
    type Error = String;

    fn try_from(text: String) -> std::result::Result<Self, String> {
        text.parse()
    }
}

impl From<Selection> for String {
    fn from(selection: Selection) -> String {
        selection.to_string()
    }
}

impl SettingValue for Selection {
    const KIND: Kind = Kind::Text(|text| text.parse::<Selection>().map(|_| Value::from(text)));
}

/// K that finding it starts from: topics that are too many merge and leave soon, and where documents have many subjects a
/// start with many finds more of them than splits do (kos from 100: 108 topics, from 200: 172, and 0.04 nats a token better).
const DEFAULT_K_START: usize = 200;

/// What a topic must be worth in nats where K is found and nothing is said.
const DEFAULT_TOPIC_COST: f64 = 100.0;

/// Laps at most where K is found and nothing is said: topics that are too many leave one or two a lap.
pub const LAPS_TO_FIND_TOPICS: usize = 100;

/// How topics may be estimated: samplers and documents have no use for maximum likelihood.
const ESTIMATES: &[Name] = &[("map", "Maximum a posteriori."), ("vb", "A full posterior (variational Bayes).")];
/// Methods that sample all tokens.
const SAMPLERS: &[&str] = &["sparse-lda", "alias-lda", "light-lda"];
/// Those that propose.
const PROPOSING: &[&str] = &["alias-lda", "light-lda"];

settings! {
    /// Settings of a topic run. An unknown key is an error.
    pub struct TopicsConfig {
        "Model" {
            /// How topics are trained. Samplers give every token one topic and need hundreds of laps: set `laps`.
            method: TopicMethod = TopicMethod::Lsparse;
            /// K, the number of topics, or "auto" to find it while training.
            topics: usize = 100, short('k'), placeholder("K"), least(1.0), auto("find-k", "k-start"), passed_on();
            /// Find K while training, from `k-start` on: topics are split and merged at the end of laps, whatever raises the
            /// objective with each batch left out of the topics that it is scored under. The same as `topics auto`. Such a run
            /// has 100 laps at most, unless `laps` is given.
            #[serde(skip_serializing_if = "std::ops::Not::not")]
            find_k: bool = false, only(&["lsparse"]);
            /// K that finding it starts from.
            #[serde(skip_serializing_if = "Option::is_none")]
            k_start: Option<usize> = None, least(1.0), otherwise("200, at most one for ten documents; or the topics of the model to go on from"),
                only(&["lsparse"]), of_auto("find-k");
            /// K at most while it is found.
            #[serde(skip_serializing_if = "Option::is_none")]
            k_max: Option<usize> = None, least(1.0), otherwise("1,000"), only(&["lsparse"]), of_auto("find-k");
            /// What a topic must be worth in nats, while K is found: fewer topics with more.
            #[serde(skip_serializing_if = "Option::is_none")]
            topic_cost: Option<f64> = None, least(0.0), otherwise("100"), only(&["lsparse"]), of_auto("find-k");
            /// L, the number of topics that a token keeps, from 1 to K, or "K" for all.
            sparsity: Sparsity = Sparsity::Usual, short('l'), placeholder("L"), otherwise("8, or K if smaller"),
                only(&["lsparse"]), passed_on();
            /// How topics are estimated; documents always have a full posterior.
            estimate: Estimate = Estimate::Map, names(ESTIMATES), only(&["lsparse"]), passed_on();
        }
        "Prior" {
            /// Concentration of a document's topics, Dirichlet(alpha/K).
            alpha: f64 = 0.5, above(0.0), most(LARGEST_PRIOR), fixed();
            /// Whether alpha is learned.
            learn_alpha: AlphaRule = AlphaRule::Fixed, only(&["lsparse", "svi-gibbs"]), passed_on();
            /// Concentration of the stick that shares of topics are broken from, Beta(1, gamma), while K is found or under
            /// `learn-alpha stick`.
            #[serde(skip_serializing_if = "Option::is_none")]
            gamma: Option<f64> = None, above(0.0), most(LARGEST_PRIOR), otherwise("learned"), only(&["lsparse"]);
            /// Pseudo-count of every word in every topic.
            lambda: f64 = 0.07, above(0.0), most(LARGEST_PRIOR), passed_on();
        }
        "Documents" {
            /// Iterations a document at most.
            doc_iterations: usize = 15, least(1.0), only(&["lsparse"]), passed_on();
            /// A document rests when no topic's count in it changes by more than this.
            doc_tolerance: f64 = 0.05, least(0.0), only(&["lsparse"]), passed_on();
            /// A topic with no more tokens than this in a document leaves it for good; no effect with L = K.
            active_floor: f64 = 0.1, least(0.0), only(&["lsparse"]), passed_on();
            /// Topics a document starts with at most, those its words like best; no effect with L = K.
            max_active: Option<usize> = Some(64), least(1.0), only(&["lsparse"]), passed_on();
            /// When the L topics of a token are chosen: end (once, for what leaves the document), always (in every
            /// iteration), paper (in the first 5 and every 10th), or two numbers in place of those, as in 3,20.
            selection: Selection = Selection::End, placeholder("WHEN"), only(&["lsparse"]), passed_on();
            /// Restart proposals a document at most: each of its topics is tried once; short documents need them.
            restarts: usize = 50, only(&["lsparse"]), passed_on();
            /// Start documents from their last visit.
            warm_start: bool = false, only(&["lsparse"]), passed_on();
        }
        "Sampling" {
            /// Laps of a sampler after which its statistics are averaged over laps; without it they are those of the last
            /// lap alone, which are one noisy sample.
            burn_in: Option<usize> = None, placeholder("LAPS"), least(1.0), only(SAMPLERS);
            /// Sweeps over a document of svi-gibbs, of which the first half is burn-in.
            samples: usize = 10, least(2.0), advice("give 2 or more: the first half of the samples is burn-in"),
                only(&["svi-gibbs"]);
            /// Steps a token of alias-lda, or cycles of two steps of light-lda.
            mh_steps: usize = 2, least(1.0), only(PROPOSING);
            /// Tokens that a word's table of alias-lda or light-lda serves before it is made anew, at the latest with the
            /// next batch. Tables that are made anew from the state of the chain bend its distribution a little; 1 does
            /// not.
            table_draws: Option<usize> = None, least(1.0), otherwise("4 times its size"), only(PROPOSING);
        }
        "Schedule" {
            /// Number of batches.
            batches: Option<usize> = None, least(1.0), instead_of("docs-per-batch"),
                otherwise("10; with `leave-out off` one for every 250 documents and at most 10");
            /// Documents a batch, instead of a number of batches.
            docs_per_batch: Option<usize> = None, least(1.0), instead_of("batches");
            /// Whether memoized training works a batch out under topics without what the batch gave them at its last
            /// visit: documents do not convince themselves. Off, it is the paper's algorithm.
            leave_out: bool = true, only(&["lsparse"]);
        }
        "Start" {
            /// How the first topics are found.
            init: TopicInit = TopicInit::Auto;
            /// Passes that gather documents around the seeds.
            init_lloyd: usize = 5;
            /// Pull of a seed word, as a share of its count in the corpus.
            seed_weight: f64 = 0.5, least(0.0);
        }
    }
    laps 20, tolerance 1e-3, rows "documents"
}

impl TopicsConfig {
    /// Methods that a schedule may be chosen for, that have a rate, and that come to rest: samples wander for ever.
    const SCHEDULED: &'static [&'static str] = &["lsparse"];
    const PACED: &'static [&'static str] = &["lsparse", "svi-gibbs"];
    const RESTING: &'static [&'static str] = &["lsparse", "svi-gibbs"];

    /// Check every value against its range and `num_docs` documents, and fill in what depends on them.
    pub fn check(&self, num_docs: usize) -> Result<Checked<TopicsConfig>> {
        self.check_ranges()?;
        let mut config = self.clone();
        let bad = |setting: &'static str, problem: String, remedy: &str| {
            Err(Error::Config { setting, problem, remedy: remedy.into() })
        };
        config.settle_method()?;
        config.check_stops()?;
        if config.find_k {
            config.settle_finding(num_docs)?;
            if num_docs == 1 {
                // There is nothing to judge more topics by.
                (config.find_k, config.k_start, config.k_max, config.topic_cost) = (false, None, None, None);
            }
        } else if config.k_start.is_some() || config.k_max.is_some() || config.topic_cost.is_some() {
            let start = config.k_start.map(|_| "k-start");
            let setting = start.or(config.k_max.map(|_| "k-max")).unwrap_or("topic-cost");
            return bad(setting, "it is for a K that is found".into(), "give `topics auto`, or leave it out");
        } else if config.gamma.is_some() && config.learn_alpha != AlphaRule::Stick {
            return bad("gamma", "there is no stick".into(), "give `learn-alpha stick` or `topics auto`");
        }
        if config.sparsity == Sparsity::Auto {
            return bad("sparsity", "it is not chosen for topics".into(), "give L");
        }
        // Where K is found L may be any number up to the most, and is K while that is smaller.
        let most = if config.find_k { config.k_max() } else { config.topics };
        let sparsity = config.sparsity.of(most, DEFAULT_SPARSITY)?;
        config.sparsity = Sparsity::Of(sparsity);
        if config.estimate == Estimate::MaxLikelihood {
            return bad("estimate", "ml is not offered for topics".into(), "choose map or vb");
        }
        if config.batches.is_some() && config.docs_per_batch.is_some() {
            return bad("batches", "given together with docs-per-batch".into(), "give one of the two");
        }
        let batches = match (config.schedule, config.batches, config.docs_per_batch) {
            (_, Some(batches), _) if batches > num_docs => {
                return bad("batches", format!("{batches} batches for {num_docs} documents"), "ask for fewer");
            }
            (ScheduleKind::Full, _, _) => 1,
            (_, Some(batches), _) => batches,
            (_, None, Some(docs)) => num_docs.div_ceil(docs),
            // A sampler's statistics are gathered batch by batch, which is best done seldom.
            (_, None, None) if config.method.samples_tokens() => (num_docs / 20_000).clamp(1, 10),
            // Enough of them that a tenth is left out at a time, however few the documents.
            (ScheduleKind::Memoized, None, None) if config.leave_out => num_docs.clamp(1, 10),
            (_, None, None) => (num_docs / 250).clamp(1, 10),
        };
        (config.batches, config.docs_per_batch) = (Some(batches), None);
        config.leave_out &= config.schedule == ScheduleKind::Memoized && batches > 1;
        if config.schedule == ScheduleKind::Streaming {
            config.laps = Some(1);
        }
        if config.find_k && !config.leave_out {
            let judged = "K is judged by documents that are left out of what they are scored under";
            return match batches {
                1 => bad("batches", format!("{judged}, and one batch has them all"), "give 2 or more, or K"),
                _ => bad("leave-out", judged.into(), "choose `leave-out on`, or give K"),
            };
        }
        Ok(Checked { settings: config, sparsity, batches })
    }

    /// What people should know of a K that is to be found among so many documents, before these settings are checked.
    pub fn remark_on_finding(&self, num_docs: usize) -> Option<String> {
        let remark = "one document leaves nothing to judge more topics by: K = 1";
        (self.find_k && num_docs == 1).then(|| remark.to_owned())
    }

    /// K at most, where it is found.
    pub fn k_max(&self) -> usize {
        self.k_max.unwrap_or(DEFAULT_K_MAX)
    }

    /// What a topic must be worth, where K is found.
    pub(crate) fn topic_cost(&self) -> f64 {
        self.topic_cost.unwrap_or(DEFAULT_TOPIC_COST)
    }

    /// Where finding K starts, and what it cannot do.
    fn settle_finding(&mut self, num_docs: usize) -> Result<()> {
        let refuse = |setting: &'static str, problem: &str, remedy: &str| {
            Err(Error::Config { setting, problem: problem.into(), remedy: remedy.into() })
        };
        if self.method != TopicMethod::Lsparse {
            return refuse("method", "K is found by `method lsparse` alone", "choose `method lsparse`, or give K");
        }
        if !matches!(self.learn_alpha, AlphaRule::Fixed | AlphaRule::Stick) {
            let problem = "where K is found, shares of topics come from a stick";
            return refuse(
                "learn-alpha",
                problem,
                "choose `learn-alpha stick` (also where the model to go on from has another), or give K",
            );
        }
        if self.schedule != ScheduleKind::Memoized {
            let problem = "K is judged by batches that are left out of what they are scored under";
            return refuse("schedule", problem, "choose `schedule memoized`, or give K");
        }
        if self.history == History::Keep {
            let problem = "what was counted before has no documents that could be dealt out anew";
            return refuse("history", problem, "leave it out, or give K");
        }
        if !matches!(self.device, DeviceChoice::Auto | DeviceChoice::Cpu) {
            return refuse("device", "K is found on the CPU", "leave it out, or give K");
        }
        self.learn_alpha = AlphaRule::Stick;
        if let Some(start) = self.k_start.filter(|&start| start > num_docs) {
            return refuse("k-start", &format!("{start} topics for {num_docs} documents"), "ask for fewer");
        }
        let start = self.k_start.unwrap_or(DEFAULT_K_START.min(num_docs / 10).min(self.k_max()));
        self.topics = start.clamp(1, num_docs.max(1));
        if self.topics > self.k_max() {
            let problem = format!("training would start with {}, and {} is the most", self.topics, self.k_max());
            return refuse("k-max", &problem, "give a larger one, or a smaller `k-start`");
        }
        Ok(())
    }

    /// The settings as a model file has them: without those that say where it was trained.
    pub(crate) fn of_record(&self) -> TopicsConfig {
        TopicsConfig { device: DeviceChoice::Auto, ..self.clone() }
    }

    /// Settle what a method leaves no choice about, and refuse what it cannot do.
    fn settle_method(&mut self) -> Result<()> {
        let refuse = |setting: &'static str, problem: &str, remedy: &str| {
            Err(Error::Config { setting, problem: problem.into(), remedy: remedy.into() })
        };
        if self.init == TopicInit::Auto {
            self.init = if self.method.samples_tokens() { TopicInit::Random } else { TopicInit::Bregman };
        }
        if self.method == TopicMethod::SviGibbs {
            (self.estimate, self.schedule) = (Estimate::Posterior, ScheduleKind::Stochastic);
        }
        if !self.method.samples_tokens() {
            return Ok(());
        }
        if self.learn_alpha != AlphaRule::Fixed {
            return refuse("learn-alpha", "samplers keep alpha as it is", "leave it out, or choose `method svi-gibbs`");
        }
        if !matches!(self.schedule, ScheduleKind::Full | ScheduleKind::Memoized) {
            return refuse("schedule", "samplers go over the corpus again and again", "leave it out");
        }
        if self.burn_in.zip(self.laps).is_some_and(|(burn_in, laps)| burn_in >= laps) {
            return refuse("burn-in", "no lap is left to average", "ask for more laps, or for less burn-in");
        }
        self.leave_out = false;
        // The objective of a sample and its counts wander for ever: they are no sign that a chain has come to rest.
        (self.estimate, self.tolerance, self.count_tolerance) = (Estimate::Map, None, None);
        Ok(())
    }
}
