//! What the library says, in the words of the command line: a setting is an option.

use lsparse::Error;
use lsparse::error::call_settings;

use crate::cli;

/// An error as the command tells it.
pub fn of_error(error: &Error) -> String {
    let said = in_options(&error.to_string());
    if let Error::Awaiting { folder, batches, .. } = error {
        let batch = batches.first().copied().unwrap_or(0);
        return format!("{said}: lsparse work {} --batch {batch}", folder.display());
    }
    let Error::WrongKind { found, .. } = error else { return said };
    match found.as_str() {
        "mixture" => {
            format!(
                "{said}, and use this one with lsparse info, explore, score, assign, sample, merge or fit mixture --from"
            )
        }
        "topics" => {
            format!(
                "{said}, and use this one with lsparse info, topics, explore, score, assign, similar, merge or fit topics \
                 --from"
            )
        }
        "sequence" => {
            format!("{said}, and use this one with lsparse info, explore, score, assign, sample or fit sequence --from")
        }
        _ => said,
    }
}

/// A message of the library with its settings as options.
pub fn in_options(message: &str) -> String {
    // Few runs end with a message; only they make the command line again, to know its options.
    let command = message.contains('`').then(cli::command);
    call_settings(message, |name, value| {
        let option = match name {
            "clusters" | "topics" | "states" => "-k".to_owned(),
            "build-corpus" => "lsparse corpus build".to_owned(),
            _ if command.as_ref().is_some_and(|command| has_option(command, name)) => format!("--{name}"),
            _ => return None,
        };
        Some(if value.is_empty() { option } else { format!("{option} {value}") })
    })
}

fn has_option(command: &clap::Command, name: &str) -> bool {
    let called = |arg: &clap::Arg| arg.get_long_and_visible_aliases().is_some_and(|names| names.contains(&name));
    command.get_arguments().any(called) || command.get_subcommands().any(|command| has_option(command, name))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn settings_become_options() {
        for (message, said) in [
            ("give `clusters 5`, or set `laps`", "give -k 5, or set --laps"),
            ("choose `likelihood gauss or diag-gauss`", "choose --likelihood gauss or diag-gauss"),
            ("build it with `build-corpus`", "build it with lsparse corpus build"),
            ("`colour` of a`b.csv (`header yes`)", "`colour` of a`b.csv (--header yes)"),
        ] {
            assert_eq!(in_options(message), said);
        }
    }

    /// The library is for all who call it, so that it names settings and no options; and what it names is a setting.
    #[test]
    fn the_library_names_no_option_and_every_setting_it_names_is_one() {
        let mut texts = Vec::new();
        let library = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lsparse/src");
        collect(&library, &mut texts);
        assert!(texts.len() > 1000, "only {} texts are found", texts.len());
        let mut settings = 0;
        for (place, text) in &texts {
            assert!(!names_option(text), "{place} names an option of the command: {text:?}");
            for setting in text.split('`').skip(1).step_by(2) {
                // Not a backtick by itself, nor a name that is put in when the message is made.
                if !setting.is_empty() && !setting.starts_with('{') {
                    let marked = format!("`{setting}`");
                    assert_ne!(in_options(&marked), marked, "{place}: {text:?}");
                    settings += 1;
                }
            }
        }
        assert!(settings > 30, "only {settings} settings are found");
    }

    #[test]
    fn texts_are_found_where_they_are() {
        let source = r##"
            // a "comment"
            let a = 'b'; let quote = '"'; let life: &'static str = "one \" --two";
            let raw = r#"three "four""#; let bytes = b"five"; /* "six" */
            #[cfg(test)]
            mod tests { "seven" }
        "##;
        assert_eq!(texts_of(source), ["one \\\" --two", "three \"four\"", "five"]);
        let examples =
            [("-k 5", true), ("give -k", true), ("(--{option} 0)", true), ("iconv -f x, a -- b, x-k", false)];
        for (text, names) in examples {
            assert_eq!(names_option(text), names, "{text}");
        }
    }

    /// Whether a word of the text is an option: two dashes and a name, or K or L by its letter.
    fn names_option(text: &str) -> bool {
        let mut words = text.split(|c: char| c.is_whitespace() || "`'\"(,;".contains(c));
        words.any(|word| match word.strip_prefix("--") {
            Some(name) => name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '{'),
            None => matches!(word, "-k" | "-l"),
        })
    }

    /// All texts of a folder of sources, each with the name of its file.
    fn collect(folder: &Path, texts: &mut Vec<(String, String)>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("tests") {
                collect(&path, texts);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let found = texts_of(&fs::read_to_string(&path).unwrap());
                texts.extend(found.into_iter().map(|text| (path.display().to_string(), text)));
            }
        }
    }

    /// The texts between quotes in a source, as they are written, but for comments and tests.
    fn texts_of(source: &str) -> Vec<String> {
        let mut texts = Vec::new();
        let mut rest = source;
        while let Some(c) = rest.chars().next() {
            let hashes = rest.strip_prefix('r').map(|raw| raw.len() - raw.trim_start_matches('#').len());
            let skip = if rest.starts_with("#[cfg(test)]") && rest[12..].trim_start().starts_with("mod tests {") {
                // Tests are the end of a file.
                rest.len()
            } else if rest.starts_with("//") {
                rest.find('\n').unwrap_or(rest.len())
            } else if rest.starts_with("/*") {
                rest.find("*/").unwrap() + 2
            } else if let Some(hashes) = hashes.filter(|&hashes| rest[1 + hashes..].starts_with('"')) {
                let text = &rest[hashes + 2..];
                let end = text.find(&format!("\"{}", "#".repeat(hashes))).unwrap();
                texts.push(text[..end].to_owned());
                end + 2 * hashes + 3
            } else if c == '"' {
                let mut escaped = false;
                let end = rest[1..].find(|c| {
                    let ends = c == '"' && !escaped;
                    escaped = c == '\\' && !escaped;
                    ends
                });
                let end = end.unwrap();
                texts.push(rest[1..1 + end].to_owned());
                end + 2
            } else if c == '\'' {
                // A character, or the name of a lifetime.
                let mut after = rest[1..].char_indices();
                match (after.next(), after.next()) {
                    (Some((_, '\\')), Some((at, escaped))) => {
                        let from = 1 + at + escaped.len_utf8();
                        from + rest[from..].find('\'').unwrap() + 1
                    }
                    (_, Some((at, '\''))) => at + 2,
                    _ => 1,
                }
            } else if c.is_alphanumeric() || c == '_' {
                // A word to its end, so that the r of a raw text is one by itself.
                rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())
            } else {
                c.len_utf8()
            };
            rest = &rest[skip..];
        }
        texts
    }
}
