//! The settings of runs: what may be asked for, its defaults, and what it is checked against. Each is declared once.

mod merge;
mod mixture;
mod sequence;
mod table;
mod topics;

use std::ops::{Deref, DerefMut};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::backend::DeviceChoice;
use crate::choice::choices;
use crate::error::{Error, Result};
use crate::training::rules::StopRules;
use crate::training::schedule::Pace;

pub use merge::{Given, check_fixed, passed_on};
pub use mixture::*;
pub use sequence::*;
pub use table::{Condition, Kind, Setting, SettingValue, Settings};
pub use topics::*;

choices! {
    /// What becomes of what a model that training goes on from has counted. A training is one of the rows it is given, so
    /// that rows which were there before are not counted twice, unless it is asked to keep.
    pub enum History {
        /// It stays, and the new rows or documents come on top of it.
        Keep = "keep",
        /// It is where training starts; the new rows or documents take its place.
        Replace = "replace",
    }
}

choices! {
    /// What decides between several runs.
    pub enum BestBy {
        /// The training objective; where batches are left out and nothing is held out, the evidence of what was left out.
        Objective = "objective",
        /// The held-out score.
        Heldout = "heldout",
    }
}

/// Numbers of a prior are no larger than this: sums and squares of more are no numbers any more, in single precision
/// least of all.
const LARGEST_PRIOR: f64 = 1e15;

/// Families whose states or clusters have variances, those that have means too, and those of counts; a test holds them to
/// what families say of themselves.
const OF_VARIANCES: &[&str] = &["gauss", "diag-gauss", "spherical-gauss", "tied-gauss", "zero-mean-gauss"];
const OF_MEANS: &[&str] = &["gauss", "diag-gauss", "spherical-gauss", "tied-gauss"];
const OF_COUNTS: &[&str] = &["multinomial", "bernoulli", "poisson"];

/// Estimates that have a prior.
const WITH_PRIOR: &[&str] = &["vb", "map"];

/// What L is when it is not given.
pub const DEFAULT_SPARSITY: usize = 8;

/// L, the number of clusters that an observation keeps, as it is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sparsity {
    /// As many as usual.
    #[default]
    Usual,
    /// As few as lose little.
    Auto,
    /// All K: dense responsibilities.
    All,
    /// This many.
    Of(usize),
}

impl Sparsity {
    /// L of so many clusters; `usual` where nothing is asked for, and all of them where more are.
    pub fn of(self, clusters: usize, usual: usize) -> Result<usize> {
        match self {
            Sparsity::Usual | Sparsity::Auto => Ok(usual.min(clusters)),
            Sparsity::All => Ok(clusters),
            Sparsity::Of(0) => Err(Error::Config {
                setting: "sparsity",
                problem: "an observation keeps at least 1".into(),
                remedy: "give 1 or more".into(),
            }),
            Sparsity::Of(sparsity) => Ok(sparsity.min(clusters)),
        }
    }

    /// What people should know who ask for more than there are clusters.
    pub fn remark(self, clusters: usize) -> Option<String> {
        match self {
            Sparsity::Of(sparsity) if sparsity > clusters => {
                Some(format!("`sparsity {sparsity}` is more than K = {clusters}: all {clusters} are kept"))
            }
            _ => None,
        }
    }

    /// L of so many clusters, whatever was asked for: that of a model which may have fewer clusters by now.
    pub fn within(self, clusters: usize) -> usize {
        match self {
            Sparsity::Usual | Sparsity::Auto => DEFAULT_SPARSITY.min(clusters),
            Sparsity::All => clusters,
            Sparsity::Of(sparsity) => sparsity.clamp(1, clusters.max(1)),
        }
    }

    /// L as the settings of a model have it whose K was found: as it is, but nothing is said of the usual one where there
    /// are fewer clusters than that, so that the same settings give the same run again.
    pub(crate) fn of_found(sparsity: usize, clusters: usize) -> Self {
        match sparsity == DEFAULT_SPARSITY && clusters < sparsity {
            true => Sparsity::Usual,
            false => Sparsity::Of(sparsity.min(clusters)),
        }
    }

    /// L where K is found from a model on that has this one: where it kept all of its few clusters, `dense` of them at
    /// most, nothing is said of more.
    pub fn of_more(self, clusters: usize, dense: usize) -> Self {
        match self {
            Sparsity::Of(sparsity) if sparsity >= clusters && clusters <= dense => Sparsity::Usual,
            _ => self,
        }
    }

    /// From a number, or "K" or "auto".
    pub fn parse(text: &str) -> std::result::Result<Self, String> {
        match text.parse::<usize>() {
            Ok(count) if count > 0 => Ok(Sparsity::Of(count)),
            _ if text.eq_ignore_ascii_case("k") => Ok(Sparsity::All),
            _ if text == "auto" => Ok(Sparsity::Auto),
            _ => Err("give a whole number from 1 to K, K itself for dense responsibilities, or auto".to_owned()),
        }
    }
}

impl Serialize for Sparsity {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match self {
            Sparsity::Usual => serializer.serialize_none(),
            Sparsity::Auto => serializer.serialize_str("auto"),
            Sparsity::All => serializer.serialize_str("K"),
            Sparsity::Of(sparsity) => sparsity.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Sparsity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let parse = |text: &str| Sparsity::parse(text).map_err(serde::de::Error::custom);
        match Value::deserialize(deserializer)? {
            Value::Null => Ok(Sparsity::Usual),
            Value::String(text) => parse(&text),
            other => parse(&other.to_string()),
        }
    }
}

impl SettingValue for Sparsity {
    const KIND: Kind = Kind::Text(|text| Sparsity::parse(text).map(|sparsity| serde_json::json!(sparsity)));
}

impl SettingValue for DeviceChoice {
    const KIND: Kind = Kind::Text(|text| DeviceChoice::parse(text).map(|choice| serde_json::json!(choice)));
}

/// Settings that were checked against the data, with what they leave open settled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Checked<C> {
    settings: C,
    /// L, or where it is chosen what it is at first.
    pub sparsity: usize,
    /// Number of batches.
    pub batches: usize,
}

impl Checked<SequenceConfig> {
    /// The number of batches that was asked for, before it is settled.
    pub(crate) fn settings_batches(&self) -> Option<usize> {
        self.settings.batches
    }

    /// Settle the number of batches.
    pub(crate) fn settle_batches(&mut self, batches: usize) {
        self.batches = batches;
        self.settings.batches = Some(batches);
    }
}

impl<C> Deref for Checked<C> {
    type Target = C;

    fn deref(&self) -> &C {
        &self.settings
    }
}

impl<C> DerefMut for Checked<C> {
    fn deref_mut(&mut self) -> &mut C {
        &mut self.settings
    }
}

/// The settings that all runs have in common, as training looks at them.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Runs from different seeds.
    pub runs: usize,
    /// What decides between them.
    pub best_by: BestBy,
    /// When a run ends.
    pub rules: StopRules,
    /// When statistics enter the total.
    pub pace: Pace,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::likelihood::{Family, LikelihoodKind};

    #[test]
    fn families_are_sorted_as_they_say_themselves() {
        let names = |is: fn(&Family) -> bool| -> Vec<&str> {
            let all = LikelihoodKind::ALL.into_iter().map(LikelihoodKind::family);
            let mut names: Vec<&str> = all.filter(|family| is(family)).map(|family| family.name).collect();
            names.sort_unstable();
            names
        };
        let sorted = |names: &[&'static str]| {
            let mut names = names.to_vec();
            names.sort_unstable();
            names
        };
        assert_eq!(sorted(OF_VARIANCES), names(|family| family.spread.is_of_variances()));
        assert_eq!(sorted(OF_MEANS), names(|family| family.spread.is_of_variances() && family.has_means));
        assert_eq!(sorted(OF_COUNTS), names(|family| !family.spread.is_of_variances()));
    }

    /// A setting that means nothing is refused where it is given, and passed over where a file names what holds anyway.
    #[test]
    fn what_means_nothing_is_refused_by_its_reason() {
        let of = |text: &str| match serde_json::from_str(text).unwrap() {
            Value::Object(values) => values,
            _ => panic!("{text}"),
        };
        let given = |options: &str| Given { options: of(options), ..Default::default() };
        let said = |options: &str| given(options).over(&SequenceConfig::default()).unwrap_err().to_string();
        for (options, expected) in [
            (
                r#"{"lambda": 1.0}"#,
                "lambda: it means nothing to `likelihood gauss`; leave it out, or choose `likelihood multi",
            ),
            (r#"{"kappa": 1.0, "likelihood": "poisson"}"#, "kappa: it means nothing to `likelihood poisson`"),
            (r#"{"nu": 9.0, "likelihood": "multinomial"}"#, "nu: it means nothing to `likelihood multinomial`"),
            (r#"{"stickiness": 1.0, "estimate": "ml"}"#, "stickiness: it means nothing to `estimate ml`"),
            (r#"{"alpha": 1.0, "estimate": "ml"}"#, "choose `estimate vb or map`"),
            (r#"{"variance-floor": 0.1}"#, "variance-floor: it means nothing to `estimate vb`"),
            (r#"{"delay": 2.0}"#, "delay: it means nothing to `schedule memoized`"),
            (r#"{"estimate": "vb", "method": "viterbi"}"#, "estimate: vb means nothing to `method viterbi`"),
        ] {
            assert!(said(options).contains(expected), "{options}: {}", said(options));
        }
        for options in [r#"{"estimate": "map", "method": "viterbi"}"#, r#"{"delay": 2.0, "schedule": "stochastic"}"#] {
            given(options).over(&SequenceConfig::default()).unwrap();
        }
        let mixture = given(r#"{"decay": 0.6}"#).over(&MixtureConfig::default()).unwrap_err().to_string();
        assert!(mixture.contains("`schedule memoized`"), "{mixture}");
        // Samplers take steps whatever the schedule is called.
        given(r#"{"decay": 0.6, "method": "svi-gibbs"}"#).over(&TopicsConfig::default()).unwrap();
        let report = Given { file: SequenceConfig::default().values(), ..Default::default() };
        report.over(&SequenceConfig::default()).unwrap();
        let changing = Given { file: of(r#"{"lambda": 3.0}"#), ..Default::default() };
        assert!(changing.over(&SequenceConfig::default()).is_err());
    }
}
