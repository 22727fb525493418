//! How options, a file of settings and a base make up the settings of a run.

use std::path::Path;

use lsparse::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// The settings in a file, those that it has; `example` is one of them for the remedy.
pub fn read_config<C: DeserializeOwned>(path: &Path, example: &str) -> Result<Map<String, Value>> {
    let text = std::fs::read_to_string(path).map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => Error::NotFound { path: path.to_owned() },
        _ => Error::Io { path: path.to_owned(), action: "read", source },
    })?;
    let refuse = |error: serde_json::Error| Error::Format {
        path: path.to_owned(),
        detail: error.to_string(),
        remedy: format!("give a JSON object whose keys are names of options, such as {example}"),
    };
    // Once as settings, for keys and types, and once as it stands, for which keys are there.
    let file: Map<String, Value> = serde_json::from_str(&text).map_err(refuse)?;
    match sparsity_in_words(&file) {
        None => serde_json::from_str::<C>(&text).map_err(refuse).map(drop)?,
        Some(_) => {
            let mut in_numbers = file.clone();
            in_numbers.insert("sparsity".into(), 1.into());
            serde_json::from_value::<C>(Value::Object(in_numbers)).map_err(refuse).map(drop)?;
        }
    }
    Ok(file)
}

/// L in a file of settings that is no number, as the option may have it: K, or auto.
pub fn sparsity_in_words(file: &Map<String, Value>) -> Option<String> {
    let text = file.get("sparsity")?.as_str()?.to_ascii_lowercase();
    matches!(text.as_str(), "k" | "auto").then_some(text)
}

/// The options that were given.
pub fn given<T: Serialize>(options: &T) -> Map<String, Value> {
    let mut options = object_of(options);
    options.retain(|_, value| !value.is_null());
    options
}

/// `base`, over it the file, over it the options. Of the two names in `either` each says the same in another way, so
/// that the one given as an option wins over the other in the file.
pub fn merge<C: Serialize + DeserializeOwned>(
    base: &C,
    file: Map<String, Value>,
    options: Map<String, Value>,
    either: [&str; 2],
) -> Result<C> {
    let mut merged = object_of(base);
    merged.extend(file);
    for (this, other) in [(either[0], either[1]), (either[1], either[0])] {
        if options.contains_key(this) {
            merged.insert(other.to_owned(), Value::from(0));
        }
    }
    merged.extend(options);
    serde_json::from_value(Value::Object(merged)).map_err(|error| Error::Config {
        option: "config",
        problem: error.to_string(),
        remedy: "mend the value".into(),
    })
}

/// Refuse options that are given but mean nothing to the method; `only` says which options are for which methods.
pub fn check_method(method: &str, options: &Map<String, Value>, only: &[(&'static str, &[&str])]) -> Result<()> {
    let foreign = only.iter().find(|(option, methods)| options.contains_key(*option) && !methods.contains(&method));
    match foreign {
        None => Ok(()),
        Some(&(option, methods)) => Err(Error::Config {
            option,
            problem: format!("it means nothing to --method {method}"),
            remedy: format!("leave it out, or choose --method {}", methods.join(" or ")),
        }),
    }
}

/// Refuse settings of a file that mean nothing to the method, unless they say what holds without them: the settings
/// of a report name everything. `settled` gives what holds for settings without the foreign ones.
pub fn check_file<C: Serialize>(
    method: &str,
    file: &Map<String, Value>,
    only: &[(&'static str, &[&str])],
    settled: impl FnOnce(Map<String, Value>) -> Result<C>,
) -> Result<()> {
    let foreign = |key: &str| only.iter().any(|(option, methods)| *option == key && !methods.contains(&method));
    let (beside, own): (Map<_, _>, Map<_, _>) = file.clone().into_iter().partition(|(key, _)| foreign(key));
    if beside.is_empty() {
        return Ok(());
    }
    let holds = object_of(&settled(own)?);
    let changing = beside.into_iter().filter(|(key, value)| holds.get(key).unwrap_or(&Value::Null) != value).collect();
    check_method(method, &changing, only)
}

fn object_of<T: Serialize>(value: &T) -> Map<String, Value> {
    match serde_json::to_value(value) {
        Ok(Value::Object(map)) => map,
        _ => Map::new(),
    }
}
