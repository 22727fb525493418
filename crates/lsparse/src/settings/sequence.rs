//! The settings of a run of a hidden Markov model.

use crate::backend::DeviceChoice;
use crate::choice::choices;
use crate::data::{Groups, Window};
use crate::error::{Error, Result};
use crate::likelihood::{Estimate, LikelihoodKind, PriorShape};
use crate::settings::table::{Settings, settings};
use crate::settings::{
    BestBy, Checked, DEFAULT_SPARSITY, DEFAULT_SPARSITY_TOLERANCE, History, Init, LARGEST_PRIOR, MixtureConfig,
    OF_COUNTS, OF_MEANS, OF_VARIANCES, Precision, Sparsity, WITH_PRIOR,
};
use crate::training::rules::StopRules;
use crate::training::schedule::{Pace, ScheduleKind};

choices! {
    /// How a hidden Markov model is trained.
    pub enum SequenceMethod {
        /// At most L states a step, and all paths through them.
        Lsparse = "lsparse",
        /// The best path alone, with point estimates (Viterbi training): L = 1.
        Viterbi = "viterbi",
    }
}

choices! {
    /// Which states a step is weighed in.
    pub enum SequenceSearch {
        /// Those that follow from 500 states on, else all.
        Auto = "auto",
        /// All.
        Dense = "dense",
        /// From the second lap on the states that follow those before it most often, those that it kept and a few at random:
        /// the cost does not grow with K.
        Followers = "followers",
    }
}

impl SequenceSearch {
    /// Whether so many states are looked at as they follow.
    pub fn follows(self, states: usize) -> bool {
        match self {
            SequenceSearch::Auto => states >= 500,
            SequenceSearch::Dense => false,
            SequenceSearch::Followers => true,
        }
    }
}

settings! {
    /// Settings of a run of a hidden Markov model. An unknown key is an error.
    pub struct SequenceConfig {
        "Model" {
            /// How the model is trained.
            method: SequenceMethod = SequenceMethod::Lsparse;
            /// What a state looks like.
            likelihood: LikelihoodKind = LikelihoodKind::Gauss, passed_on();
            /// Steps may be missing: rows of nothing but NaN (in text files also empty fields, NA, N/A, null and ?, and empty
            /// lines of a single column) are steps that nothing is known of. Rows that lack some values are for gauss and
            /// diag-gauss.
            missing: bool = false, passed_on();
            /// K, the number of states.
            states: usize = 10, short('k'), placeholder("K"), least(1.0), otherwise("none, it must be given"), passed_on();
            /// L, the number of states that a step keeps, from 1 to K, "K" for all, or "auto" for as few as lose less than
            /// `sparsity-tolerance`.
            sparsity: Sparsity = Sparsity::Usual, short('l'), placeholder("L"), otherwise("8, or K up to 16"),
                only(&["lsparse"]), passed_on();
            /// Share that a step may lose on average under `sparsity auto` to states which it does not keep; L is checked at
            /// every visit of a batch, and may only rise.
            sparsity_tolerance: Option<f64> = None, placeholder("SHARE"), otherwise("0.01"), above(0.0), below(1.0),
                advice("0.01 is a good choice"), only(&["lsparse"]);
            /// Which states a step is weighed in.
            search: SequenceSearch = SequenceSearch::Auto;
            /// How states and transitions are estimated.
            estimate: Estimate = Estimate::Posterior, passed_on(), value_under("vb", "method", &["lsparse"]);
        }
        "Prior" {
            /// Concentration of the first state, and of those that follow each state: Dirichlet(alpha/K).
            alpha: f64 = 1.0, above(0.0), most(LARGEST_PRIOR), passed_on(), under("estimate", WITH_PRIOR);
            /// Pseudo-count of staying in a state, on top of that.
            stickiness: f64 = 0.0, least(0.0), most(LARGEST_PRIOR), passed_on(), under("estimate", WITH_PRIOR);
            /// Pseudo-count of each category (multinomial), outcome (bernoulli) or row (poisson).
            lambda: f64 = 0.1, above(0.0), most(LARGEST_PRIOR), fixed(), under("likelihood", OF_COUNTS);
            /// Degrees of freedom of the covariance prior, more than columns + 1, or 2 for diag-gauss.
            nu: Option<f64> = None, above(0.0), most(LARGEST_PRIOR), otherwise("one more than that"), fixed(), under("likelihood", OF_VARIANCES);
            /// Pseudo-count of the prior mean.
            kappa: f64 = 1e-4, above(0.0), most(LARGEST_PRIOR), fixed(), under("likelihood", OF_MEANS);
            /// Variance that the prior expects of a state, in units of the variance that the data has.
            prior_scale: Option<f64> = None, above(0.0), most(LARGEST_PRIOR), fixed(), otherwise(
                "0.1 where states have as many rows as columns or fewer, less where they have more, down to 0.0001"), under("likelihood", OF_VARIANCES);
            /// Which variance of the data that is.
            prior_shape: PriorShape = PriorShape::Columns, fixed(), under("likelihood", OF_VARIANCES);
            /// Smallest variance under `estimate ml`, in the same units.
            variance_floor: f64 = 1e-6, above(0.0), most(LARGEST_PRIOR), fixed(), under("likelihood", OF_VARIANCES), under("estimate", &["ml"]);
        }
        "Schedule" {
            /// Number of batches, of whole sequences each, or of stretches of long ones.
            batches: Option<usize> = None, least(1.0),
                otherwise("one for every 2,000 rows, or 10 K if that is more; at most 20, or as many as there are sequences");
            /// Sequences of more steps are worked on in stretches of this length at most: memory, threads and batches need no
            /// whole sequence then. Every step counts in one of them.
            cut: Option<usize> = None, placeholder("STEPS"), least(1.0), passed_on(),
                otherwise("5,000, of sequences of more than 50,000");
            /// Steps of its neighbours that a stretch sees on either side: what is farther away has no part in the states of
            /// its own steps. States that nothing but steps long ago can tell apart want more.
            overlap: usize = 250, placeholder("STEPS"), least(1.0), passed_on();
        }
        "Start" {
            /// How the first states are found: auto gives several starts a few laps over a part of the sequences each, and
            /// takes the one that foretells other sequences best; the others go by rows whatever their order.
            init: Init = Init::Auto;
            /// Passes over the sample that gather rows around the seeds; 0 starts from the seeds alone.
            init_lloyd: Option<usize> = None, otherwise("1; up to 10 of the k-means of auto");
            /// Rows of the sample that seeds are drawn from.
            init_rows: Option<usize> = None, least(1.0), otherwise("as for mixtures");
        }
    }
    laps 100, tolerance 1e-4, rows "sequences", then {
        "Data" {
            /// Precision that rows are worked on in; sums and paths are always 64 bits.
            precision: Precision = Precision::Auto, placeholder("TYPE");
        }
    }
}

/// Sequences of more steps are cut where nothing else is said, into stretches of so many.
const LONG: usize = 50_000;
const STRETCH: usize = 5_000;

/// Up to so many states a step keeps all.
const DENSE_STATES: usize = 16;

/// What L is at first where it is chosen: one state a step says nothing of what it loses.
const FIRST_SPARSITY: usize = 2;

/// More states are asked for than there are steps.
pub(crate) fn too_many(states: usize, steps: usize) -> Error {
    let problem = format!("{states} states cannot be told from {steps} steps");
    let remedy = format!("ask for at most {steps}, or give more data");
    Error::Config { setting: "states", problem, remedy }
}

impl SequenceConfig {
    /// Methods that settings of schedules mean something to: all.
    const SCHEDULED: &'static [&'static str] = &[];
    const PACED: &'static [&'static str] = &[];
    const RESTING: &'static [&'static str] = &[];

    /// Check every value against its range and against `num_rows` rows, and fill in what depends on them.
    pub fn check(&self, num_rows: usize) -> Result<Checked<SequenceConfig>> {
        self.check_ranges()?;
        let mut config = self.clone();
        let bad = |setting: &'static str, problem: &str, remedy: &str| {
            Err(Error::Config { setting, problem: problem.into(), remedy: remedy.into() })
        };
        if config.states > num_rows {
            return Err(too_many(config.states, num_rows));
        }
        if config.method == SequenceMethod::Viterbi {
            if !matches!(config.sparsity, Sparsity::Usual | Sparsity::Of(1)) || config.sparsity_tolerance.is_some() {
                return bad("sparsity", "the best path has one state a step", "leave it out");
            }
            config.sparsity = Sparsity::Of(1);
            if config.estimate == Estimate::Posterior {
                config.estimate = Estimate::Map;
            }
        }
        config.check_stops()?;
        if config.sparsity == Sparsity::Auto {
            config.sparsity_tolerance.get_or_insert(DEFAULT_SPARSITY_TOLERANCE);
        }
        if !matches!(config.device, DeviceChoice::Auto | DeviceChoice::Cpu) {
            return bad("device", "sequences are worked on by the processor", "leave it out");
        }
        let usual = if config.states <= DENSE_STATES { config.states } else { DEFAULT_SPARSITY };
        let sparsity = match config.sparsity {
            Sparsity::Usual | Sparsity::Auto if config.sparsity_tolerance.is_some() => {
                FIRST_SPARSITY.min(config.states)
            }
            sparsity => sparsity.of(config.states, usual)?,
        };
        config.sparsity = Sparsity::Of(sparsity);
        let batches = match (config.schedule, config.batches) {
            (ScheduleKind::Full, Some(batches)) if batches > 1 => {
                let remedy = "leave the batches out, or choose `schedule memoized`";
                return bad("batches", "the full schedule has one batch", remedy);
            }
            (ScheduleKind::Full, _) => 1,
            (_, Some(batches)) => batches,
            (_, None) => (num_rows / 2000.max(10 * config.states)).clamp(1, 20),
        };
        if config.schedule == ScheduleKind::Streaming {
            config.laps = Some(1);
        }
        Ok(Checked { settings: config, sparsity, batches })
    }

    /// The windows that sequences are worked on in.
    pub fn windows(&self, groups: &Groups) -> Vec<Window> {
        let longest = |steps: usize| self.cut.unwrap_or(if steps > LONG { STRETCH } else { steps });
        groups.windows(longest, self.overlap)
    }

    /// The settings of a mixture of the same clusters, by which priors and seeds are found.
    pub fn emissions(&self) -> MixtureConfig {
        MixtureConfig {
            likelihood: self.likelihood,
            missing: self.missing && self.likelihood.family().allows_missing,
            clusters: self.states,
            sparsity: self.sparsity,
            estimate: self.estimate,
            lambda: self.lambda,
            nu: self.nu,
            kappa: Some(self.kappa),
            prior_scale: self.prior_scale,
            prior_shape: self.prior_shape,
            variance_floor: self.variance_floor,
            init: self.init,
            init_lloyd: self.init_lloyd,
            init_rows: self.init_rows,
            precision: self.precision,
            seed: self.seed,
            ..MixtureConfig::default()
        }
    }

    /// The settings as a model file has them: without those that say where it was trained.
    pub(crate) fn of_record(&self) -> SequenceConfig {
        SequenceConfig { device: DeviceChoice::Auto, ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_settled_and_bad_values_refused_by_name() {
        let config = SequenceConfig { states: 5, ..Default::default() }.check(25_000).unwrap();
        assert_eq!((config.sparsity, config.batches), (5, 12));
        let viterbi = SequenceConfig { method: SequenceMethod::Viterbi, ..Default::default() }.check(100).unwrap();
        assert_eq!((viterbi.sparsity, viterbi.estimate), (1, Estimate::Map));
        let refused = |config: SequenceConfig, word: &str| {
            let text = config.check(100).unwrap_err().to_string();
            assert!(text.contains(word), "{text}");
        };
        refused(SequenceConfig { states: 101, ..Default::default() }, "101 states cannot be told from 100 steps");
        let auto = SequenceConfig { states: 20, sparsity: Sparsity::Auto, ..Default::default() }.check(100).unwrap();
        assert_eq!((auto.sparsity, auto.sparsity_tolerance), (2, Some(0.01)));
        refused(SequenceConfig { stickiness: -1.0, ..Default::default() }, "stickiness");
        refused(SequenceConfig { alpha: 0.0, ..Default::default() }, "alpha");
        let method = SequenceMethod::Viterbi;
        refused(SequenceConfig { method, sparsity: Sparsity::Of(2), ..Default::default() }, "best path");
    }

    /// What seeds and priors are found by is what was asked for.
    #[test]
    fn emissions_are_a_mixture_with_the_same_settings() {
        let config = SequenceConfig { states: 7, lambda: 0.3, kappa: 0.5, seed: 3, ..Default::default() };
        let (own, emissions) = (config.values(), config.emissions().values());
        let differs = |(name, value): &(&String, &serde_json::Value)| emissions.get(*name).is_some_and(|v| v != *value);
        let differing: Vec<&String> = own.iter().filter(differs).map(|(name, _)| name).collect();
        // Concentrations of frequencies and of rows are not the same, nor are methods, nor when training rests.
        assert_eq!(differing, ["alpha", "tolerance"]);
        assert_eq!(emissions["clusters"], 7);
    }
}
