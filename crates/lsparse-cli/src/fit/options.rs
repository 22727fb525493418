//! Settings as options: the library's table becomes arguments of the command, and what is given becomes values by name.

use std::marker::PhantomData;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use lsparse::error::call_settings;
use lsparse::settings::{Kind, Setting, Settings};
use serde_json::{Map, Value};

/// The settings of a run that are given as options; what is not given is left to the file, the model or the default.
#[derive(Clone, Debug)]
pub struct Options<C> {
    /// By their names.
    pub values: Map<String, Value>,
    kind: PhantomData<C>,
}

impl<C: Settings> Args for Options<C> {
    fn augment_args(command: Command) -> Command {
        C::table().iter().fold(command, |command, setting| command.arg(option_of(setting)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<C: Settings> FromArgMatches for Options<C> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given =
            |setting: &Setting| Some((setting.name.to_owned(), matches.get_one::<Value>(setting.name)?.clone()));
        Ok(Options { values: C::table().iter().filter_map(given).collect(), kind: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The option of a setting, with its default behind its help.
fn option_of(setting: &'static Setting) -> Arg {
    let help = format!("{} [default: {}]", setting.about.trim_end_matches('.'), setting.default_text());
    let help = call_settings(&help, |name, value| Some(format!("--{name} {value}").trim_end().to_owned()));
    let usual = match setting.kind {
        Kind::Count => "N",
        Kind::Number => "NUMBER",
        Kind::Names(_) => "NAME",
        Kind::Switch => "WHETHER",
        Kind::Text(_) => "VALUE",
    };
    let mut option = Arg::new(setting.name).long(setting.name).help(help).help_heading(setting.heading);
    option = option.value_name(setting.placeholder.unwrap_or(usual));
    if let Some(letter) = setting.short {
        option = option.short(letter);
    }
    if let Some(other) = setting.instead_of {
        option = option.conflicts_with(other);
    }
    match (setting.kind, &setting.default) {
        (Kind::Names(names), _) => {
            let values =
                names.iter().map(|(name, about)| PossibleValue::new(name).help(about.trim().trim_end_matches('.')));
            option.value_parser(PossibleValuesParser::new(values).map(Value::String))
        }
        (Kind::Switch, Value::Bool(true)) => {
            option.value_parser(PossibleValuesParser::new(["on", "off"]).map(|word| Value::Bool(word == "on")))
        }
        (Kind::Switch, _) => {
            let option = option.num_args(0..=1).require_equals(true).default_missing_value("true");
            option.value_parser(move |text: &str| setting.parse(text))
        }
        _ => option.value_parser(move |text: &str| setting.parse(text)),
    }
}
