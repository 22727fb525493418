//! The words of messages: settings as a front end calls them, numbers and sizes as people read them, and what to do.

use std::io;
use std::path::Path;

pub(super) fn describe_batches(batches: &[usize]) -> String {
    let names: Vec<String> = batches.iter().map(usize::to_string).collect();
    match &names[..] {
        [one] => format!("batch {one} is"),
        _ => format!("batches {} are", names.join(", ")),
    }
}

pub(super) fn describe_kind(kind: &str) -> &'static str {
    match kind {
        "mixture" => "a mixture model",
        "topics" => "a topic model",
        "sequence" => "a hidden Markov model",
        _ => "a model of another kind",
    }
}

/// What to do about a file that the system could not read.
pub(super) fn what_to_do(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::IsADirectory => "give a file",
        io::ErrorKind::NotADirectory => "give a folder",
        io::ErrorKind::PermissionDenied => "see to it that you may read it",
        io::ErrorKind::InvalidData => "give a text file in UTF-8",
        _ => "try again, or copy it to another disk",
    }
}

/// What there is to go on from, and what to do.
pub(super) fn describe_checkpoint(path: &Path) -> &'static str {
    match path.is_file() {
        true => "the last one that was written is intact: make room, and give `resume` to go on from it",
        false => "make room, or give another checkpoint file",
    }
}

pub(super) fn describe_field(text: &str) -> String {
    if text.is_empty() {
        return "empty field".to_owned();
    }
    let decimal = text.split_once(',').is_some_and(|(whole, rest)| {
        let whole = whole.strip_prefix(['-', '+']).unwrap_or(whole);
        [whole, rest].iter().all(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
    });
    let hint = if decimal { " (decimals take a point, not a comma)" } else { "" };
    format!("{text:?} is not a number{hint}")
}

/// A message in which every setting is called as those who read it know it.
///
/// `call` is asked with the name of the setting and the value or values behind it, empty if there are none; what it does
/// not know stays as it is.
///
/// ```
/// let option = |name: &str, value: &str| (name == "laps").then(|| format!("--{name} {value}"));
/// let text = lsparse::error::call_settings("give `laps 20`, and more `rows`", option);
/// assert_eq!(text, "give --laps 20, and more `rows`");
/// ```
pub fn call_settings(message: &str, call: impl Fn(&str, &str) -> Option<String>) -> String {
    let (mut called, mut rest) = (String::with_capacity(message.len()), message);
    while let Some((before, marked)) = rest.split_once('`') {
        called += before;
        let found = marked.split_once('`').and_then(|(setting, after)| {
            let (name, value) = setting.split_once(' ').unwrap_or((setting, ""));
            Some((call(name, value)?, after))
        });
        // Where this is no setting, the next backtick may still open one: it was in somebody's data.
        let (text, after) = found.unwrap_or_else(|| ("`".to_owned(), marked));
        called += &text;
        rest = after;
    }
    called + rest
}

/// What another library says, in one line of a length that people read.
pub(crate) fn brief(text: impl std::fmt::Display) -> String {
    const LONGEST: usize = 160;
    let text: String = text.to_string().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let text = text.trim();
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// A number as messages show it: with an exponent where it would be a long row of zeros.
pub(crate) fn show_number(value: f64) -> String {
    let size = value.abs();
    if value.is_finite() && value != 0.0 && !(1e-5..1e16).contains(&size) {
        return format!("{value:e}");
    }
    value.to_string()
}

/// A size of memory as messages show it: 312 MB.
pub fn show_bytes(bytes: u64) -> String {
    match bytes as f64 {
        b if b >= 1e10 => format!("{:.0} GB", b / 1e9),
        b if b >= 1e9 => format!("{:.1} GB", b / 1e9),
        b => format!("{:.0} MB", (b / 1e6).max(1.0)),
    }
}

pub(super) fn describe_line(line: Option<u64>) -> String {
    line.map(|line| format!("line {line}, ")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_called_and_other_backticks_stay() {
        let call = |name: &str, value: &str| match name {
            "laps" => Some(format!("<{name}={value}>")),
            _ => None,
        };
        for (message, called) in [
            ("set `laps` or `laps 2`", "set <laps=> or <laps=2>"),
            ("a`b.npy: set `laps`", "a`b.npy: set <laps=>"),
            ("`a` `laps 1 or 2`", "`a` <laps=1 or 2>"),
            ("open `laps", "open `laps"),
            ("``", "``"),
            ("", ""),
        ] {
            assert_eq!(call_settings(message, call), called);
        }
    }
}
