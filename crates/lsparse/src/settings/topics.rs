//! The settings of a topic run: one plain struct for the library, the command and the bindings.

use serde::{Deserialize, Serialize};

use crate::allocation::AlphaRule;
use crate::error::{Error, Result};
use crate::likelihood::Estimate;
use crate::settings::{BestBy, DEFAULT_SPARSITY, History, is_default};
use crate::training::schedule::ScheduleKind;

/// How topics are trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TopicMethod {
    /// L-sparse responsibilities: the method of this library.
    Lsparse,
    /// Collapsed Gibbs sampling in three buckets (Yao, Mimno, McCallum 2009).
    SparseLda,
    /// Collapsed Gibbs sampling with stale alias tables for the word's part (Li et al. 2014).
    AliasLda,
    /// Metropolis-Hastings proposals from document and word in turn (Yuan et al. 2015).
    LightLda,
    /// Stochastic training whose document step is Gibbs samples (Mimno, Hoffman, Blei 2012).
    SviGibbs,
}

impl TopicMethod {
    /// Whether every token of the corpus has one topic that is drawn anew lap by lap.
    pub fn samples_tokens(self) -> bool {
        matches!(self, TopicMethod::SparseLda | TopicMethod::AliasLda | TopicMethod::LightLda)
    }

    /// The name on the command line and in model files.
    pub fn name(self) -> &'static str {
        match self {
            TopicMethod::Lsparse => "lsparse",
            TopicMethod::SparseLda => "sparse-lda",
            TopicMethod::AliasLda => "alias-lda",
            TopicMethod::LightLda => "light-lda",
            TopicMethod::SviGibbs => "svi-gibbs",
        }
    }
}

/// How the first topics are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TopicInit {
    /// At random for samplers of all tokens, by Bregman k-means++ otherwise.
    Auto,
    /// Bregman k-means++ over documents.
    Bregman,
    /// Random groups of documents; for samplers of all tokens, a random topic for every token.
    Random,
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

/// Settings of a topic run. An unknown key is an error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct TopicsConfig {
    /// How topics are trained.
    pub method: TopicMethod,
    /// K, the number of topics.
    pub topics: usize,
    /// L, the number of topics a token keeps; 0 stands for 8, or K if that is smaller.
    pub sparsity: usize,
    /// MAP or a posterior for the topics. (Documents always have a full posterior.)
    pub estimate: Estimate,
    /// Total concentration of a document's topics, alpha/K each.
    pub alpha: f64,
    /// Whether alpha is learned.
    pub learn_alpha: AlphaRule,
    /// Pseudo-count of every word in every topic.
    pub lambda: f64,

    /// Iterations a document at most. The paper has 100; 15 scored better at the end of runs on nips and wiki (50 make
    /// documents sparser).
    pub doc_iterations: usize,
    /// A document rests when no topic's count changes by more than this.
    pub doc_tolerance: f64,
    /// A topic with no more mass than this in a document leaves it for good.
    pub active_floor: f64,
    /// Topics a document starts with at most, those its words like best; 0 for no limit.
    pub max_active: usize,
    /// When a token's L topics are chosen.
    pub selection: Selection,
    /// Restart proposals a document at most; each of its topics is tried once.
    pub restarts: usize,
    /// Start documents from the counts of their last visit.
    pub warm_start: bool,

    /// Laps of SparseLDA, AliasLDA and LightLDA after which statistics are averaged over laps; 0 for those of the last
    /// lap alone, which are one noisy sample.
    pub burn_in: usize,
    /// Sweeps over a document of SVIGibbs, of which the first half is burn-in.
    pub samples: usize,
    /// Metropolis-Hastings steps a token of AliasLDA, and cycles of two steps of LightLDA.
    pub mh_steps: usize,
    /// Tokens that a word's table of proposals serves before AliasLDA and LightLDA make it anew; 0 for four times its
    /// size.
    pub table_draws: usize,

    /// When statistics enter the total.
    pub schedule: ScheduleKind,
    /// Number of batches; 0 stands for 10, or one for every 250 documents and at most 10 where none are left out
    /// (samplers of all tokens: for every 20,000).
    pub batches: usize,
    /// Whether memoized training works a batch out under topics that do not hold what the batch itself gave them at its
    /// last visit: documents do not convince themselves. Off, it is the paper's algorithm.
    pub leave_out: bool,
    /// Documents a batch instead of a number of batches; 0 for none.
    pub docs_per_batch: usize,
    /// delta of the stochastic rate (delta + t)^-kappa.
    pub delay: f64,
    /// kappa of the stochastic rate.
    pub decay: f64,

    /// How the first topics are found.
    pub init: TopicInit,
    /// Passes that assign documents to the nearest seed and re-estimate. They cost next to nothing; the first matters
    /// everywhere, the next few on short documents.
    pub init_lloyd: usize,
    /// What becomes of the statistics of a model to go on from.
    pub history: History,
    /// Weight of seed words: pseudo-counts a word, as a share of its count in the corpus.
    pub seed_weight: f64,
    /// Runs from different seeds, of which the best is kept.
    pub runs: usize,
    /// What "best" means.
    pub best_by: BestBy,
    /// Seed of all randomness.
    pub seed: u64,

    /// Stop after this many laps.
    pub laps: usize,
    /// Stop when a token gains less than this over a lap, in nats: in evidence under topics that have not seen it where
    /// batches are left out, in objective otherwise; 0 turns the rule off.
    pub tolerance: f64,
    /// Stop when no topic's count changes by more than this over a lap; 0 turns the rule off.
    pub count_tolerance: f64,
    /// Stop after this many seconds of training; 0 turns the rule off.
    pub max_seconds: f64,
    /// Stop when held-out documents have not scored better for this many laps, and keep the model of the best lap; 0 turns the
    /// rule off.
    #[serde(skip_serializing_if = "is_default")]
    pub early_stopping: usize,
}

impl Default for TopicsConfig {
    fn default() -> Self {
        TopicsConfig {
            method: TopicMethod::Lsparse,
            topics: 100,
            sparsity: 0,
            estimate: Estimate::Map,
            alpha: 0.5,
            learn_alpha: AlphaRule::Fixed,
            lambda: 0.07,
            doc_iterations: 15,
            doc_tolerance: 0.05,
            active_floor: 0.1,
            max_active: 64,
            selection: Selection::End,
            restarts: 50,
            warm_start: false,
            burn_in: 0,
            samples: 10,
            mh_steps: 2,
            table_draws: 0,
            schedule: ScheduleKind::Memoized,
            batches: 0,
            leave_out: true,
            docs_per_batch: 0,
            delay: 1.0,
            decay: 0.55,
            init: TopicInit::Auto,
            init_lloyd: 5,
            history: History::Replace,
            seed_weight: 0.5,
            runs: 1,
            best_by: BestBy::Objective,
            seed: 0,
            laps: 20,
            tolerance: 1e-3,
            count_tolerance: 0.0,
            max_seconds: 0.0,
            early_stopping: 0,
        }
    }
}

impl TopicsConfig {
    /// Check every value against its range and `num_docs` documents, and fill in what depends on them.
    pub fn check(&self, num_docs: usize) -> Result<TopicsConfig> {
        let mut config = self.clone();
        let bad = |option: &'static str, problem: String, remedy: &str| {
            Err(Error::Config { option, problem, remedy: remedy.into() })
        };
        if config.topics == 0 {
            return bad("topics", "must be at least 1".into(), "give `topics` 1 or more");
        }
        config.settle_method()?;
        if config.sparsity == 0 {
            config.sparsity = DEFAULT_SPARSITY.min(config.topics);
        }
        if config.sparsity > config.topics {
            return Err(Error::SparsityTooLarge { sparsity: config.sparsity, clusters: config.topics });
        }
        if config.estimate == Estimate::MaxLikelihood {
            return bad("estimate", "ml is not offered for topics".into(), "choose map or vb");
        }
        for (option, value) in [("alpha", config.alpha), ("lambda", config.lambda)] {
            if !(value > 0.0 && value.is_finite()) {
                return bad(option, format!("{value} is not above 0"), "give a positive number");
            }
        }
        let not_negative = [
            ("doc-tolerance", config.doc_tolerance),
            ("active-floor", config.active_floor),
            ("delay", config.delay),
            ("seed-weight", config.seed_weight),
            ("tolerance", config.tolerance),
            ("count-tolerance", config.count_tolerance),
            ("max-seconds", config.max_seconds),
        ];
        for (option, value) in not_negative {
            if !(value >= 0.0 && value.is_finite()) {
                return bad(option, format!("{value} is not 0 or more"), "give 0 or a positive number");
            }
        }
        if !(config.decay > 0.5 && config.decay <= 1.0) {
            let problem = format!("{} is not above 0.5 and at most 1", config.decay);
            return bad("decay", problem, "0.55 and 0.65 are good choices");
        }
        if config.samples < 2 {
            let remedy = "give 2 or more: the first half of the samples is burn-in";
            return bad("samples", "must be at least 2".into(), remedy);
        }
        let at_least_one =
            [("runs", config.runs), ("doc-iterations", config.doc_iterations), ("mh-steps", config.mh_steps)];
        for (option, value) in at_least_one {
            if value == 0 {
                return bad(option, "must be at least 1".into(), "give 1 or more");
            }
        }
        if config.batches > 0 && config.docs_per_batch > 0 {
            return bad("batches", "given together with docs-per-batch".into(), "give one of the two");
        }
        if config.batches > num_docs {
            return bad("batches", format!("{} batches for {num_docs} documents", config.batches), "ask for fewer");
        }
        config.batches = match (config.schedule, config.batches, config.docs_per_batch) {
            (ScheduleKind::Full, _, _) => 1,
            // A sampler's statistics are gathered batch by batch, which is best done seldom.
            (_, 0, 0) if config.method.samples_tokens() => (num_docs / 20_000).clamp(1, 10),
            // Enough of them that a tenth is left out at a time, however few the documents.
            (ScheduleKind::Memoized, 0, 0) if config.leave_out => num_docs.clamp(1, 10),
            (_, 0, 0) => (num_docs / 250).clamp(1, 10),
            (_, 0, docs) => num_docs.div_ceil(docs),
            (_, batches, _) => batches,
        };
        config.leave_out &= config.schedule == ScheduleKind::Memoized && config.batches > 1;
        config.docs_per_batch = 0;
        if config.schedule == ScheduleKind::Streaming {
            config.laps = 1;
        }
        if config.laps == 0
            && config.max_seconds == 0.0
            && config.tolerance == 0.0
            && config.count_tolerance == 0.0
            && config.early_stopping == 0
        {
            return bad("laps", "every rule that stops training is off".into(), "set `laps` or `max-seconds`");
        }
        Ok(config)
    }

    /// Settle what a method leaves no choice about, and refuse what it cannot do.
    fn settle_method(&mut self) -> Result<()> {
        let refuse = |option: &'static str, problem: &str, remedy: &str| {
            Err(Error::Config { option, problem: problem.into(), remedy: remedy.into() })
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
        if self.burn_in > 0 && self.laps > 0 && self.burn_in >= self.laps {
            return refuse("burn-in", "no lap is left to average", "ask for more laps, or for less burn-in");
        }
        self.leave_out = false;
        // The objective of a sample and its counts wander for ever: they are no sign that a chain has come to rest.
        (self.estimate, self.tolerance, self.count_tolerance) = (Estimate::Map, 0.0, 0.0);
        Ok(())
    }
}
