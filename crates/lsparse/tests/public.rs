//! What the crate shows to others is listed in `public.txt`: an item that goes, or is called otherwise, fails here until the
//! list, and the changelog, say so. New items may come; `LSPARSE_GOLDEN=write cargo test --package lsparse --test public`
//! lists them, as is to be done before a release.
//!
//! The list is read off the sources: items and methods that begin with `pub`, with their signatures, in modules that are
//! public all the way, and in private ones those that `pub use` shows.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const LIST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/public.txt");

#[test]
fn nothing_public_goes_without_a_word() {
    let mut found = BTreeSet::new();
    module(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs"), "lsparse", None, &mut found);
    assert!(found.len() > 300, "only {} items were found: the scan has gone blind", found.len());
    if std::env::var("LSPARSE_GOLDEN").is_ok_and(|word| word == "write") {
        let lines: Vec<_> = found.iter().map(|line| format!("{line}\n")).collect();
        fs::write(LIST, lines.concat()).unwrap();
    }
    let list = fs::read_to_string(LIST).unwrap();
    let gone: Vec<_> = list.lines().filter(|line| !found.contains(*line)).collect();
    assert!(
        gone.is_empty(),
        "these are public no more, or changed; if that is meant, see the top of this file:\n{gone:#?}"
    );
}

/// Add the public items of a module and of the modules in it; of a private one those that are shown elsewhere.
fn module(file: &Path, name: &str, only: Option<&BTreeSet<String>>, found: &mut BTreeSet<String>) {
    let is_shown = |item: &str| only.is_none_or(|only| only.contains(item));
    let text = fs::read_to_string(file).unwrap();
    let folder = match file.file_name().and_then(|name| name.to_str()) {
        Some("lib.rs" | "mod.rs") => file.parent().unwrap().to_path_buf(),
        _ => file.with_extension(""),
    };
    let mut of = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("#[cfg(test)]") {
            break;
        }
        if let Some(rest) = line.strip_prefix("pub mod ").and_then(|rest| rest.strip_suffix(';')) {
            if only.is_none() {
                module(&child(&folder, rest), &format!("{name}::{rest}"), None, found);
            }
        } else if let Some(rest) = line.strip_prefix("mod ").and_then(|rest| rest.strip_suffix(';')) {
            let names = shown_of(&text, rest);
            if only.is_none() && !names.is_empty() {
                module(&child(&folder, rest), name, Some(&names), found);
            }
        } else if line.starts_with("impl") {
            of = subject(line);
        } else if let Some(rest) = line.strip_prefix("pub trait ") {
            of = rest.split(|c: char| !c.is_alphanumeric()).next().unwrap_or("").to_owned();
        } else if line.starts_with('}') {
            of.clear();
        }
        let method = (line.starts_with("    pub ") && !line.starts_with("    pub use "))
            || (line.starts_with("    fn ") && text.contains(&format!("pub trait {of}")) && !of.is_empty());
        let called = if method { named(&of) } else { item_name(line) };
        if (line.starts_with("pub ") || (method && !of.is_empty())) && is_shown(called) {
            let prefix = if method { format!("{name}::{of}") } else { name.to_owned() };
            match line.starts_with("pub use ") {
                true => found.extend(used(line, &mut lines).map(|used| format!("{prefix}: pub use {used}"))),
                false => drop(found.insert(format!("{prefix}: {}", item(line, &mut lines)))),
            }
        }
    }
}

/// What `pub use` shows of a private module.
fn shown_of(text: &str, private: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (at, _) in text.match_indices(&format!("pub use {private}::")) {
        let list = text[at..].split(';').next().unwrap_or("").rsplit("::").next().unwrap_or("");
        names.extend(
            list.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|n| !n.is_empty()).map(str::to_owned),
        );
    }
    names
}

/// `Rows<'a, T>` without what is in angles.
fn named(of: &str) -> &str {
    of.split('<').next().unwrap_or(of)
}

/// The name of an item: the word behind `fn`, `struct` and so on.
fn item_name(line: &str) -> &str {
    let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
    let kinds = ["fn", "struct", "enum", "trait", "type", "const", "static", "mod"];
    words.find(|word| kinds.contains(word));
    words.next().unwrap_or("")
}

fn child(folder: &Path, name: &str) -> PathBuf {
    let file = folder.join(format!("{name}.rs"));
    if file.exists() { file } else { folder.join(name).join("mod.rs") }
}

/// What an `impl` is of.
fn subject(line: &str) -> String {
    let rest = line.trim_end_matches(" {");
    let rest = rest.split(" where").next().unwrap_or(rest);
    match rest.split_once(" for ") {
        Some((_, of)) => of.to_owned(),
        // Behind the parameters of `impl<T: ...>`.
        None => {
            let mut depth = 0;
            let at = rest.char_indices().find(|&(_, c)| {
                depth += i32::from(c == '<') - i32::from(c == '>');
                c == ' ' && depth == 0
            });
            at.map_or(rest, |(at, _)| &rest[at..]).trim().to_owned()
        }
    }
}

/// The names that a `pub use` shows; where they come from is nobody's business.
fn used<'a>(line: &'a str, lines: &mut impl Iterator<Item = &'a str>) -> impl Iterator<Item = String> {
    let mut text = line.to_owned();
    while !text.ends_with(';') {
        match lines.next() {
            Some(more) => text.push_str(more),
            None => break,
        }
    }
    let shown = text.trim_end_matches(['}', ';']).rsplit("::").next().unwrap_or("").trim_start_matches('{');
    let names: Vec<_> = shown.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect();
    names.into_iter()
}

/// An item up to its body, on one line.
fn item<'a>(line: &'a str, lines: &mut impl Iterator<Item = &'a str>) -> String {
    let mut text = line.trim().to_owned();
    while !text.ends_with(['{', ';', '}', ',', '=']) {
        match lines.next() {
            Some(more) => text = format!("{text} {}", more.trim()),
            None => break,
        }
        if text.ends_with(',') && text.contains('(') {
            text.push(' ');
        }
    }
    // A constant is its name and type, and what has a body is what stands before it.
    let text = if text.contains(" const ") || text.starts_with("pub const") {
        text.split(" =").next().unwrap()
    } else {
        &text
    };
    text.trim_end_matches(['{', ';', ',', ' ']).split_whitespace().collect::<Vec<_>>().join(" ")
}
