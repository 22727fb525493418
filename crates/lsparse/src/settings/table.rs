//! A setting is declared once: `settings!` makes of a list of them a struct with defaults, and a table from which the
//! checks, the options of the command, its help, files of settings and the parameters of Python are made.

use std::num::IntErrorKind;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::choice::{Choice, Name};
use crate::error::{Error, Result, show_number};
use crate::settings::merge::plain;

/// Settings of a kind of run.
pub trait Settings: Clone + Default + Serialize + DeserializeOwned {
    /// All of them, in the order of the documentation.
    fn table() -> &'static [Setting];

    /// Each by its name.
    fn values(&self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(values)) => values,
            _ => Map::new(),
        }
    }

    /// Check each against its own range.
    fn check_ranges(&self) -> Result<()>;

    /// With all that depends on other settings, but not on data, filled in.
    fn settled(&self) -> Result<Self>;
}

/// What values of a setting look like.
#[derive(Clone, Copy)]
pub enum Kind {
    /// A whole number.
    Count,
    /// A number.
    Number,
    /// On or off.
    Switch,
    /// One of these names.
    Names(&'static [Name]),
    /// A text with a meaning of its own.
    Text(fn(&str) -> std::result::Result<Value, String>),
}

/// A type that settings may have.
pub trait SettingValue {
    /// What its values look like.
    const KIND: Kind;
    /// Whether there may be none.
    const OPTIONAL: bool = false;

    /// The number that it is, if it is one.
    fn number(&self) -> Option<f64> {
        None
    }
}

impl SettingValue for usize {
    const KIND: Kind = Kind::Count;

    fn number(&self) -> Option<f64> {
        Some(*self as f64)
    }
}

impl SettingValue for u64 {
    const KIND: Kind = Kind::Count;

    fn number(&self) -> Option<f64> {
        Some(*self as f64)
    }
}

impl SettingValue for f64 {
    const KIND: Kind = Kind::Number;

    fn number(&self) -> Option<f64> {
        Some(*self)
    }
}

impl SettingValue for bool {
    const KIND: Kind = Kind::Switch;
}

impl<C: Choice> SettingValue for C {
    const KIND: Kind = Kind::Names(C::NAMES);
}

impl<V: SettingValue> SettingValue for Option<V> {
    const KIND: Kind = V::KIND;
    const OPTIONAL: bool = true;

    fn number(&self) -> Option<f64> {
        self.as_ref().and_then(V::number)
    }
}

/// What may stand in the place of a number that is to be found.
pub(super) const AUTO: &str = "auto";

/// A setting, or one of its values, means something under some names of another setting alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The value that it is about; none for all.
    pub value: Option<&'static str>,
    /// The other setting.
    pub setting: &'static str,
    /// What that must be one of.
    pub names: &'static [&'static str],
}

/// All that is known of a setting.
#[derive(Clone)]
pub struct Setting {
    /// Its name.
    pub name: &'static str,
    /// What it belongs to, as a heading of the documentation.
    pub heading: &'static str,
    /// What it does.
    pub about: String,
    /// What its values look like.
    pub kind: Kind,
    /// Whether `none` is a value.
    pub optional: bool,
    /// What it is where nothing is said.
    pub default: Value,
    /// That in words, where it depends on other things.
    pub otherwise: Option<&'static str>,
    /// Its letter on the command line.
    pub short: Option<char>,
    /// What stands for a value in help.
    pub placeholder: Option<&'static str>,
    /// What else must be chosen for it to mean something.
    pub conditions: Vec<Condition>,
    /// Whether a model passes it on to a run that goes on from it: what it is, not how it was trained.
    pub passed_on: bool,
    /// Whether such a run may not change it.
    pub fixed: bool,
    /// The setting that says the same in another way.
    pub instead_of: Option<&'static str>,
    /// The switch that "auto" in its place stands for, and the setting that a number beside that switch is of.
    pub auto: Option<(&'static str, &'static str)>,
    /// The switch without which it means nothing, where that is "auto" in the place of a number.
    pub of_auto: Option<&'static str>,
    range: Range,
    advice: Option<&'static str>,
}

/// Numbers between bounds.
#[derive(Clone, Copy, Default)]
struct Range {
    above: Option<f64>,
    least: Option<f64>,
    below: Option<f64>,
    most: Option<f64>,
}

impl Setting {
    /// A setting with nothing special about it.
    pub fn new(name: &'static str, heading: &'static str, about: &str, (kind, optional): (Kind, bool)) -> Self {
        Setting {
            name,
            heading,
            about: about.trim().to_owned(),
            kind,
            optional,
            default: Value::Null,
            otherwise: None,
            short: None,
            placeholder: None,
            conditions: Vec::new(),
            passed_on: false,
            fixed: false,
            auto: None,
            of_auto: None,
            instead_of: None,
            range: Range::default(),
            advice: None,
        }
    }

    /// What it is where nothing is said.
    pub(crate) fn by_default(self, default: Value) -> Self {
        Setting { default, ..self }
    }

    /// It has a letter.
    pub fn short(self, short: char) -> Self {
        Setting { short: Some(short), ..self }
    }

    /// What stands for a value in help.
    pub fn placeholder(self, placeholder: &'static str) -> Self {
        Setting { placeholder: Some(placeholder), ..self }
    }

    /// The default in words.
    pub fn otherwise(self, otherwise: &'static str) -> Self {
        Setting { otherwise: Some(otherwise), ..self }
    }

    /// It means something to these methods alone; none for all.
    pub fn only(self, methods: &'static [&'static str]) -> Self {
        if methods.is_empty() { self } else { self.under("method", methods) }
    }

    /// It means something where another setting is one of these alone.
    pub fn under(mut self, setting: &'static str, names: &'static [&'static str]) -> Self {
        self.conditions.push(Condition { value: None, setting, names });
        self
    }

    /// One of its values means something where another setting is one of these alone.
    pub fn value_under(mut self, value: &'static str, setting: &'static str, names: &'static [&'static str]) -> Self {
        self.conditions.push(Condition { value: Some(value), setting, names });
        self
    }

    /// It is one of these names alone.
    pub fn names(self, names: &'static [Name]) -> Self {
        Setting { kind: Kind::Names(names), ..self }
    }

    /// A model passes it on.
    pub fn passed_on(self) -> Self {
        Setting { passed_on: true, ..self }
    }

    /// A model passes it on, for good.
    pub fn fixed(self) -> Self {
        Setting { passed_on: true, fixed: true, ..self }
    }

    /// It says the same as another in another way.
    pub fn instead_of(self, other: &'static str) -> Self {
        Setting { instead_of: Some(other), ..self }
    }

    /// "auto" may stand in its place, for another setting that is a switch.
    pub fn auto(self, switch: &'static str, start: &'static str) -> Self {
        Setting { auto: Some((switch, start)), ..self }
    }

    /// It is for what "auto" asks for alone.
    pub fn of_auto(self, switch: &'static str) -> Self {
        Setting { of_auto: Some(switch), ..self }
    }

    /// Numbers above this.
    pub fn above(mut self, bound: f64) -> Self {
        self.range.above = Some(bound);
        self
    }

    /// Numbers from this on.
    pub fn least(mut self, bound: f64) -> Self {
        self.range.least = Some(bound);
        self
    }

    /// Numbers below this.
    pub fn below(mut self, bound: f64) -> Self {
        self.range.below = Some(bound);
        self
    }

    /// Numbers up to this.
    pub fn most(mut self, bound: f64) -> Self {
        self.range.most = Some(bound);
        self
    }

    /// What to do about a number out of range.
    pub fn advice(self, advice: &'static str) -> Self {
        Setting { advice: Some(advice), ..self }
    }

    /// Check a number against the range.
    pub fn check(&self, number: f64) -> Result<()> {
        if number.is_finite() && self.range.holds(number) {
            return Ok(());
        }
        let range = self.range.words();
        let none = self.or_none();
        Err(Error::Config {
            setting: self.name,
            problem: format!("{} is not {range}", show_number(number)),
            remedy: self.advice.map_or_else(|| format!("give a number {range}{none}"), str::to_owned),
        })
    }

    /// A value from text, as one writes it on the command line.
    pub fn parse(&self, text: &str) -> std::result::Result<Value, String> {
        if self.optional && text == "none" {
            return Ok(Value::Null);
        }
        if self.auto.is_some() && text == AUTO {
            return Ok(Value::from(AUTO));
        }
        let value = match self.kind {
            Kind::Count => match text.parse::<u64>() {
                Ok(count) => Value::from(count),
                Err(error) if *error.kind() == IntErrorKind::PosOverflow => {
                    return Err(format!("it is too large; {} is the largest whole number that is read", u64::MAX));
                }
                Err(_) if self.auto.is_some() => return Err("give a whole number, 1 or more, or auto".to_owned()),
                Err(_) => {
                    let (least, none) = (self.range.least.unwrap_or(0.0), self.or_none());
                    // Other models find theirs.
                    let why = if text == AUTO { "it is not found for this model; " } else { "" };
                    return Err(format!("{why}give a whole number, {least} or more{none}"));
                }
            },
            Kind::Number => match text.parse::<f64>() {
                Ok(number) if number.is_finite() => Value::from(number),
                _ => return Err(format!("give a finite number{}", self.or_none())),
            },
            Kind::Switch => match text {
                "on" | "true" => Value::Bool(true),
                "off" | "false" => Value::Bool(false),
                _ => return Err("give on or off".to_owned()),
            },
            Kind::Names(names) => match names.iter().find(|(name, _)| *name == text) {
                Some((name, _)) => Value::from(*name),
                None => {
                    let names: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
                    return Err(format!("give one of {}", names.join(", ")));
                }
            },
            Kind::Text(parse) => parse(text)?,
        };
        match value.as_f64().map(|number| self.check(number)) {
            Some(Err(Error::Config { problem, remedy, .. })) => Err(format!("{problem}; {remedy}")),
            _ => Ok(value),
        }
    }

    /// The bounds of its numbers, where there are some: above, at least, below, at most.
    pub fn bounds(&self) -> [Option<f64>; 4] {
        let Range { above, least, below, most } = self.range;
        [above, least, below, most]
    }

    fn or_none(&self) -> &'static str {
        if self.optional { ", or none" } else { "" }
    }

    /// Why a value of it means nothing beside other settings, by their names: the first condition that is not met.
    pub fn unmet(&self, value: &Value, others: &Map<String, Value>) -> Option<&Condition> {
        let is_met = |condition: &&Condition| {
            let other = others.get(condition.setting).filter(|other| !other.is_null());
            condition.value.is_some_and(|about| plain(Some(value)) != about)
                || other.is_none_or(|other| condition.names.contains(&plain(Some(other)).as_str()))
        };
        self.conditions.iter().find(|condition| !is_met(condition))
    }

    /// The default as one would write it, or in words.
    pub fn default_text(&self) -> String {
        self.otherwise.map_or_else(|| plain(Some(&self.default)), str::to_owned)
    }
}

impl Range {
    fn holds(&self, number: f64) -> bool {
        self.above.is_none_or(|bound| number > bound)
            && self.least.is_none_or(|bound| number >= bound)
            && self.below.is_none_or(|bound| number < bound)
            && self.most.is_none_or(|bound| number <= bound)
    }

    fn words(&self) -> String {
        let show = |bound: f64| if bound.abs() < 1e6 { bound.to_string() } else { format!("{bound:e}") };
        let bounds = [("above", self.above), ("at least", self.least), ("below", self.below), ("at most", self.most)];
        let words = bounds.iter().filter_map(|(word, bound)| bound.map(|bound| format!("{word} {}", show(bound))));
        let words: Vec<String> = words.collect();
        if words.is_empty() { "finite".to_owned() } else { words.join(" and ") }
    }
}

/// The name of a field as settings have it: dashes for underscores.
pub const fn kebab<const N: usize>(field: &str) -> [u8; N] {
    let mut name = [0; N];
    let mut n = 0;
    while n < N {
        let byte = field.as_bytes()[n];
        name[n] = if byte == b'_' { b'-' } else { byte };
        n += 1;
    }
    name
}

/// Declare the settings of a kind of run. Each has a name, a type, a default and, behind them, what is special about it:
/// methods of [`Setting`]. Those that all runs have are put in here, and nowhere else.
macro_rules! settings {
    ($(#[$about:meta])* pub struct $Name:ident { $($own:tt)* } laps $laps:literal, tolerance $tolerance:literal, rows $rows:literal $(, then { $($after:tt)* })?) => {
        $crate::settings::table::declare! {
            $(#[$about])*
            pub struct $Name {
                $($own)*
                "Schedule" {
                    /// When statistics enter the total.
                    schedule: ScheduleKind = ScheduleKind::Memoized, only($Name::SCHEDULED);
                    /// Delay of the stochastic rate (delay + t)^-decay.
                    delay: f64 = 1.0, least(0.0), only($Name::PACED), under("schedule", &["stochastic"]);
                    /// Decay of the stochastic rate.
                    decay: f64 = 0.55, above(0.5), most(1.0), advice("0.55 and 0.65 are good choices"), only($Name::PACED),
                        under("schedule", &["stochastic"]);
                    /// What works on the data: auto (a GPU where there is one and the work is large), cpu, cuda, or cuda:1 for
                    /// the second GPU and so on. The same run on the same kind of it gives the same bits.
                    #[serde(skip_serializing_if = "DeviceChoice::is_auto")]
                    device: DeviceChoice = DeviceChoice::Auto, placeholder("DEVICE"), otherwise("auto");
                }
                "Start" {
                    #[doc = concat!(" What becomes of what a model to go on from has counted: the new ", $rows, " take its place, or come on top.")]
                    history: History = History::Replace;
                    /// Runs from different seeds, of which the best is kept.
                    runs: usize = 1, least(1.0), advice("give 1 for a single run");
                    /// What the best run is best by.
                    best_by: BestBy = BestBy::Objective;
                    /// Seed of all randomness.
                    seed: u64 = 0;
                }
                "Stop" {
                    /// Laps (passes over the data) at most.
                    laps: Option<usize> = Some($laps), least(1.0);
                    /// Stop when an observation (a row, a token) gains less than this over a lap, in nats: in objective, or
                    /// in evidence where batches are left out; kmeans and dp-means take it in hundredths of the data's variance, and a mixture
                    /// whose clusters have as many variances of their own as there are rows takes ten times as much.
                    tolerance: Option<f64> = Some($tolerance), least(0.0), only($Name::RESTING);
                    /// Stop when no count of a cluster or topic changes by more than this over a lap.
                    count_tolerance: Option<f64> = None, least(0.0), only($Name::RESTING);
                    /// Stop after so many seconds of training.
                    max_seconds: Option<f64> = None, above(0.0), placeholder("SECONDS");
                    /// Stop when `heldout` has not scored better for so many laps; the model is then that of the best lap.
                    early_stopping: Option<usize> = None, least(1.0), placeholder("LAPS");
                }
                $($($after)*)?
            }
        }

        impl $Name {
            /// The settings that all runs have in common, as training looks at them.
            pub fn plan(&self) -> $crate::settings::Plan {
                let $Name { runs, best_by, laps, tolerance, count_tolerance, max_seconds, .. } = *self;
                let $Name { schedule, delay, decay, early_stopping, .. } = *self;
                $crate::settings::Plan {
                    runs,
                    best_by,
                    rules: StopRules { laps, tolerance, count_tolerance, max_seconds, stride: 1, early_stopping },
                    pace: Pace { schedule, delay, decay, leave_out: false },
                }
            }

            /// A run must end some day.
            fn check_stops(&self) -> $crate::error::Result<()> {
                let rules = self.plan().rules;
                let off = rules.laps.is_none() && rules.max_seconds.is_none() && rules.early_stopping.is_none();
                if off && rules.tolerance.is_none() && rules.count_tolerance.is_none() {
                    return Err($crate::error::Error::Config {
                        setting: "laps",
                        problem: "every rule that stops training is off".into(),
                        remedy: "set `laps`, `tolerance` or `max-seconds`".into(),
                    });
                }
                Ok(())
            }
        }
    };
}

/// What `settings!` makes of a list.
macro_rules! declare {
    ($(#[$about:meta])* pub struct $Name:ident { $($heading:literal {
        $($(#[doc = $doc:expr])+ $(#[serde($($serde:tt)+)])? $field:ident: $type:ty = $default:expr $(, $special:ident($($value:tt)*))*;)*
    })* }) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
        pub struct $Name {
            $($($(#[doc = $doc])+ $(#[serde($($serde)+)])? pub $field: $type,)*)*
        }

        impl Default for $Name {
            fn default() -> Self {
                $Name { $($($field: $default,)*)* }
            }
        }

        impl $crate::settings::table::Settings for $Name {
            fn table() -> &'static [$crate::settings::table::Setting] {
                use $crate::settings::table::{Setting, SettingValue, kebab};
                static TABLE: std::sync::LazyLock<Vec<Setting>> = std::sync::LazyLock::new(|| {
                    // Each by itself: what is usual may be left out of the whole.
                    vec![$($({
                        const NAME: [u8; stringify!($field).len()] = kebab(stringify!($field));
                        let name = std::str::from_utf8(&NAME).unwrap_or(stringify!($field));
                        let about = concat!($($doc),+);
                        let kind = (<$type as SettingValue>::KIND, <$type as SettingValue>::OPTIONAL);
                        let usual: $type = $default;
                        let default = serde_json::to_value(usual).unwrap_or_default();
                        Setting::new(name, $heading, about, kind).by_default(default)$(.$special($($value)*))*
                    },)*)*]
                });
                &TABLE
            }

            fn check_ranges(&self) -> $crate::error::Result<()> {
                let numbers = [$($($crate::settings::table::SettingValue::number(&self.$field),)*)*];
                let mut checks = Self::table().iter().zip(numbers);
                checks.try_for_each(|(setting, number)| number.map_or(Ok(()), |number| setting.check(number)))
            }

            fn settled(&self) -> $crate::error::Result<Self> {
                Ok(self.check(usize::MAX)?.settings)
            }
        }
    };
}

pub(crate) use {declare, settings};
