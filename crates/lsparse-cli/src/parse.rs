//! Turn the text of arguments into values: names, numbers, times and sizes.

use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use lsparse::backend::MOST_THREADS;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// One of the names that the library's own (de)serialisation of `T` knows, each with a word of help.
pub fn names<T>(names: &'static [(&'static str, &'static str)]) -> impl TypedValueParser<Value = T>
where
    T: DeserializeOwned + Clone + Send + Sync + 'static,
{
    let values = names.iter().map(|(name, help)| PossibleValue::new(name).help(help));
    PossibleValuesParser::new(values).try_map(|name| serde_json::from_value(Value::String(name)))
}

/// A switch.
pub fn on_off() -> impl TypedValueParser<Value = bool> {
    PossibleValuesParser::new(["on", "off"]).map(|word| word == "on")
}

/// A finite number: NaN would pass every comparison unnoticed.
pub fn number(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        Ok(_) => Err("not a finite number".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// A number from 0 to 1.
pub fn share(text: &str) -> Result<f64, String> {
    match number(text)? {
        value if (0.0..=1.0).contains(&value) => Ok(value),
        _ => Err("not a number from 0 to 1".to_owned()),
    }
}

/// A whole number that is not zero.
pub fn positive(text: &str) -> Result<u64, String> {
    text.parse().ok().filter(|&count| count > 0).ok_or_else(|| "give a whole number, 1 or more".to_owned())
}

/// The same as a size.
pub fn positive_size(text: &str) -> Result<usize, String> {
    positive(text)?.try_into().map_err(|_| "it is too large".to_owned())
}

/// A limit on how many there may be, or none, which is more than there can be.
pub fn limit(text: &str) -> Result<usize, String> {
    match text {
        "none" => Ok(usize::MAX),
        _ => positive_size(text).map_err(|problem| format!("{problem}, or none for no limit")),
    }
}

/// A number of threads.
pub fn threads(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(count) if (1..=MOST_THREADS).contains(&count) => Ok(count),
        _ => Err(format!("give a whole number from 1 to {MOST_THREADS}, or leave it out for one a core")),
    }
}

/// A length of time: seconds, or a number with s, m or h.
pub fn time(text: &str) -> Result<Duration, String> {
    let units = [("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    let (digits, unit) =
        units.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, *unit))).unwrap_or((text, 1.0));
    let seconds = number(digits.trim()).map(|value| value * unit);
    let time = seconds.ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    time.ok_or_else(|| "give a length of time, such as 60s, 5m or 1h".to_owned())
}

/// An amount of memory: bytes, or a number with KB, MB or GB (powers of 1000), KiB, MiB or GiB (powers of 1024).
pub fn size(text: &str) -> Result<u64, String> {
    let units = [("KiB", 1u64 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("KB", 1000), ("MB", 1_000_000)];
    let units = units.into_iter().chain([("GB", 1_000_000_000), ("B", 1)]);
    let ends_in = |name: &str| {
        let at = text.len().checked_sub(name.len())?;
        let (digits, unit) = (text.get(..at)?, text.get(at..)?);
        unit.eq_ignore_ascii_case(name).then_some(digits)
    };
    let (digits, unit) = units.filter_map(|(name, unit)| Some((ends_in(name)?, unit))).next().unwrap_or((text, 1));
    match number(digits.trim()) {
        Ok(value) if value >= 0.0 && value * (unit as f64) < 1e18 => Ok((value * unit as f64) as u64),
        _ => Err("give an amount of memory, such as 512MB or 2GiB".to_owned()),
    }
}

/// The byte between fields of a text file.
pub fn delimiter(text: &str) -> Result<u8, String> {
    match text {
        "tab" | "\\t" => Ok(b'\t'),
        "comma" => Ok(b','),
        "semicolon" => Ok(b';'),
        "space" | "blank" => Ok(b' '),
        _ => match text.as_bytes() {
            [byte] => Ok(*byte),
            _ => Err("give one character, or comma, semicolon, tab or space".to_owned()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_finite() {
        assert_eq!(number("1e-3"), Ok(1e-3));
        assert!(threads("1024").is_ok() && threads("100000").is_err() && threads("-1").is_err());
        // Zero is no word for one a core.
        assert!(threads("0").unwrap_err().contains("leave it out"));
        assert!(positive("3") == Ok(3) && ["0", "-1", "x", ""].iter().all(|text| positive(text).is_err()));
        assert!(limit("none") == Ok(usize::MAX) && limit("7") == Ok(7) && limit("0").unwrap_err().contains("none"));
        assert!(share("1").is_ok() && share("1.1").is_err() && share("nan").is_err());
        assert!(number("nan").is_err() && number("inf").is_err() && number("x").is_err());
    }

    #[test]
    fn times_and_sizes_have_units() {
        let seconds = |text| time(text).map(|time| time.as_secs_f64());
        assert_eq!([seconds("60s"), seconds("2m"), seconds("0.5"), seconds("250ms")], [60.0, 120.0, 0.5, 0.25].map(Ok));
        assert!(time("soon").is_err() && time("-1s").is_err() && time("").is_err());
        assert_eq!([size("512MB"), size("1.5gib"), size("7"), size("0")], [512_000_000, 1_610_612_736, 7, 0].map(Ok));
        assert!(size("-1MB").is_err() && size("MB").is_err() && size("much").is_err() && size("1e30").is_err());
    }

    #[test]
    fn delimiters_have_names() {
        assert_eq!((delimiter("tab"), delimiter(";")), (Ok(b'\t'), Ok(b';')));
        assert!(delimiter("::").is_err() && delimiter("").is_err());
    }
}
