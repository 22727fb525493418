//! How settings are put together: those of a model to go on from, those of a file, those that are given.

use std::path::Path;

use serde_json::{Map, Value};

use super::table::{AUTO, Condition};
use super::{Kind, Settings};
use crate::error::{Error, Result, brief, show_number};

/// What a run is asked for besides the defaults.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// The settings of a file.
    pub file: Map<String, Value>,
    /// Those given by themselves, which win over the file.
    pub options: Map<String, Value>,
}

impl Given {
    /// The settings in a file: a JSON object by their names.
    pub fn read<C: Settings>(path: &Path) -> Result<Map<String, Value>> {
        let text = std::fs::read_to_string(path).map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => Error::NotFound { path: path.to_owned() },
            _ => Error::Io { path: path.to_owned(), action: "read", source },
        })?;
        let example =
            C::table().iter().find(|setting| setting.short == Some('k')).map_or("seed", |setting| setting.name);
        let refuse = |detail: String| Error::Format {
            path: path.to_owned(),
            detail,
            remedy: format!("give a JSON object whose keys are names of settings, such as {{\"{example}\": 50}}"),
        };
        // Once as it stands, for which keys are there, and once as settings, for what is the matter with all of them.
        let values: Map<String, Value> = match serde_json::from_str(&text) {
            Ok(Value::Object(values)) => values,
            Ok(_) => return Err(refuse("it is not a JSON object".into())),
            Err(error) => return Err(refuse(error.to_string())),
        };
        let line =
            |key: &str| 1 + text.split(&format!("{key:?}")).next().map_or(0, |before| before.matches('\n').count());
        let problem =
            |(key, value): (&String, &Value)| Some(format!("line {}: {}", line(key), problem_of::<C>(key, value)?));
        if let Some(problem) = values.iter().find_map(problem) {
            return Err(refuse(problem));
        }
        merge(&C::default(), &values, &Map::new()).map_err(|error| refuse(error.to_string()))?;
        Ok(values)
    }

    /// Whether a setting is given.
    pub fn has(&self, name: &str) -> bool {
        self.file.contains_key(name) || self.options.contains_key(name)
    }

    /// `base` with what is given. A setting that means nothing beside the others is refused, unless a file says what holds
    /// without it (the settings of a report name everything), or what held until an option took the place of another.
    pub fn over<C: Settings>(&self, base: &C) -> Result<C> {
        let by_itself = merge(base, &self.file, &Map::new())?;
        let by_itself = by_itself.settled().as_ref().unwrap_or(&by_itself).values();
        let settings = merge(base, &self.file, &self.options)?;
        let with_options = settings.settled().as_ref().unwrap_or(&settings).values();
        let is_replaced = |name: &str, value: &Value| {
            let setting = C::table().iter().find(|setting| setting.name == name);
            let means_nothing = |others| setting.is_some_and(|setting| setting.unmet(value, others).is_some());
            means_nothing(&with_options) && !means_nothing(&by_itself)
        };
        let file = self.file.iter().filter(|(name, value)| !is_replaced(name, value));
        let file = file.map(|(name, value)| (name.clone(), value.clone())).collect();
        Given { file, options: self.options.clone() }.all_over(base)
    }

    /// `base` with all that is given.
    fn all_over<C: Settings>(&self, base: &C) -> Result<C> {
        let settings = merge(base, &self.file, &self.options)?;
        // As the run will have them; what cannot be settled is refused by who checks it.
        let others = settings.settled().as_ref().unwrap_or(&settings).values();
        let unmet = |name: &str, value: &Value| {
            let setting = C::table().iter().find(|setting| setting.name == name)?;
            Some((setting, setting.unmet(value, &others)?))
        };
        let (beside, own): (Map<_, _>, Map<_, _>) =
            self.file.clone().into_iter().partition(|(name, value)| unmet(name, value).is_some());
        let holds = match beside.is_empty() {
            true => Map::new(),
            false => merge(base, &own, &self.options)?.settled()?.values(),
        };
        let changing = beside.iter().filter(|(name, value)| holds.get(*name).unwrap_or(&Value::Null) != *value);
        match self.options.iter().chain(changing).find_map(|(name, value)| unmet(name, value)) {
            None => Ok(settings),
            Some((setting, Condition { value, setting: other, names })) => Err(Error::Config {
                setting: setting.name,
                problem: format!("{} means nothing to `{other} {}`", value.unwrap_or("it"), plain(others.get(*other))),
                remedy: format!("leave it out, or choose `{other} {}`", names.join(" or ")),
            }),
        }
    }
}

/// What is wrong with an entry of a file of settings, if anything is, in the words of the file.
fn problem_of<C: Settings>(key: &str, value: &Value) -> Option<String> {
    let Some(setting) = C::table().iter().find(|setting| setting.name == key) else {
        let known: Vec<String> = C::table().iter().map(|setting| format!("{:?}", setting.name)).collect();
        return Some(format!("{:?} is no setting; there are {}", brief(key), known.join(", ")));
    };
    if setting.auto.is_some() && value == AUTO {
        return None;
    }
    let alone = Value::Object(Map::from_iter([(key.to_owned(), value.clone())]));
    let error = serde_json::from_value::<C>(alone).err()?;
    let expected = match setting.kind {
        Kind::Count => "a whole number, 0 or more".to_owned(),
        Kind::Number => "a number".to_owned(),
        Kind::Switch => "true or false".to_owned(),
        Kind::Names(names) => {
            let names: Vec<String> = names.iter().map(|(name, _)| format!("{name:?}")).collect();
            format!("one of {}", names.join(", "))
        }
        Kind::Text(_) => return Some(format!("{key:?} is {}: {error}", brief(value))),
    };
    let none = if setting.optional { ", or null for none" } else { "" };
    Some(format!("{key:?} is {}, not {expected}{none}", brief(value)))
}

/// `base`, over it the file, over it the options. Where two settings say the same in different ways, the one given as an
/// option wins over the other in the file.
fn merge<C: Settings>(base: &C, file: &Map<String, Value>, options: &Map<String, Value>) -> Result<C> {
    let mut merged = base.values();
    for (given, is_file) in [(file, true), (options, false)] {
        for setting in C::table() {
            if let Some(other) = setting.instead_of.filter(|_| given.contains_key(setting.name)) {
                merged.insert(other.to_owned(), Value::Null);
            }
        }
        let mut given = given.clone();
        for setting in C::table() {
            let Some((switch, start)) = setting.auto.filter(|_| given.contains_key(setting.name)) else { continue };
            let is_found = given.get(setting.name).is_some_and(|value| value == AUTO);
            if is_found {
                given.remove(setting.name);
                merged.extend(base.values().remove_entry(setting.name));
                if given.get(switch) == Some(&Value::Bool(false)) {
                    let problem = format!("`{} auto` asks for it, and it is off", setting.name);
                    let remedy = format!("leave it out, or give a number for `{}`", setting.name);
                    return Err(Error::Config { setting: switch, problem, remedy });
                }
            }
            if !is_found && given.get(switch) == Some(&Value::Bool(true)) {
                // What is found is found from that number on.
                let number = given[setting.name].clone();
                let from = given.entry(start).or_insert_with(|| number.clone());
                // (The settings of a report name both: what it came to, and where it started.)
                if *from != number && !is_file {
                    let problem = format!("`{} {}` says another number", setting.name, plain(Some(&number)));
                    return Err(Error::Config { setting: start, problem, remedy: "give one of the two".into() });
                }
            }
            // A number takes the place of an "auto" that was there before, and "auto" that of a number.
            given.entry(switch).or_insert(Value::Bool(is_found));
        }
        for setting in C::table() {
            // What a file says of a number that is found goes with it.
            if setting.of_auto.is_some_and(|switch| given.get(switch) == Some(&Value::Bool(false))) && !is_file {
                merged.remove(setting.name);
            }
        }
        merged.extend(given);
    }
    serde_json::from_value(Value::Object(merged)).map_err(|error| Error::Config {
        setting: "config",
        problem: error.to_string(),
        remedy: "mend the value".into(),
    })
}

/// What a model with these settings passes on to a run that goes on from it: what it is, not how it was trained.
pub fn passed_on<C: Settings>(model: &C) -> C {
    let values = model.values();
    let passed = C::table().iter().filter(|setting| setting.passed_on);
    let passed = passed.filter_map(|setting| Some((setting.name.to_owned(), values.get(setting.name)?.clone())));
    merge(&C::default(), &passed.collect(), &Map::new()).unwrap_or_else(|_| model.clone())
}

/// What is part of a model in the units of the data it was first trained on is not changed by going on from it.
pub fn check_fixed<C: Settings>(asked: &C, model: &C) -> Result<()> {
    let (asked, has) = (asked.values(), model.values());
    let changed = |name: &str| asked.get(name) != has.get(name);
    match C::table().iter().find(|setting| setting.fixed && changed(setting.name)) {
        None => Ok(()),
        Some(setting) => Err(Error::Config {
            setting: setting.name,
            problem: match has.get(setting.name) {
                None | Some(Value::Null) => {
                    let asked = plain(asked.get(setting.name));
                    format!("{asked} is asked for, the model to start from has what was learned or is usual")
                }
                has => format!(
                    "{} is asked for, the model to start from has {}",
                    plain(asked.get(setting.name)),
                    plain(has)
                ),
            },
            remedy: "leave it out, or train without `from`".into(),
        }),
    }
}

/// A value as one would write it.
pub(super) fn plain(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "none".to_owned(),
        Some(Value::String(name)) => name.clone(),
        Some(Value::Bool(on)) => (if *on { "on" } else { "off" }).to_owned(),
        Some(Value::Number(number)) => number.as_f64().map_or_else(|| number.to_string(), show_number),
        Some(other) => other.to_string(),
    }
}
