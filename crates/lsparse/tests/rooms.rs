//! Imports point one way: a room of the library knows those before it in the list, and none after.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The rooms (folders and files of `src`) in the order that they may know each other in.
const ROOMS: [&str; 24] = [
    "error",
    "choice",
    "system",
    "backend",
    "math",
    "data",
    "corpus",
    "open",
    "training",
    "likelihood",
    "allocation",
    "synthetic",
    "settings",
    "store",
    "runs",
    "clusters",
    "mixture",
    "topics",
    "sequence",
    "increment",
    "any",
    "elsewhere",
    "shared",
    "lib",
];

/// Rooms of the same rank: neither may know the other.
const APART: [(&str, &str); 3] = [("mixture", "topics"), ("mixture", "sequence"), ("topics", "sequence")];

#[test]
fn imports_point_one_way() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    collect(&source, &mut files);
    let mut rooms = BTreeSet::new();
    let mut imports = 0;
    for path in files {
        let inside = path.strip_prefix(&source).unwrap();
        let room = inside.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs").to_owned();
        let text = fs::read_to_string(&path).unwrap();
        for (line, other) in imported(&text) {
            imports += 1;
            let allowed = place(&other) <= place(&room)
                && !APART.iter().any(|(a, b)| (*a, *b) == (&*room, &*other) || (*b, *a) == (&*room, &*other));
            assert!(allowed, "{}, line {line}: {room} is not to know {other}", inside.display());
        }
        rooms.insert(room);
    }
    let listed: BTreeSet<String> = ROOMS.iter().map(|&room| room.to_owned()).collect();
    assert_eq!(rooms, listed, "the list of rooms is not that of the folder");
    assert!(imports > 400, "only {imports} imports are found");
}

/// What differs between families is said by themselves: nobody else asks which one it is, in the library or beside it.
#[test]
fn nobody_asks_which_likelihood_it_is() {
    let library = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = library.join("../..");
    let mut files = Vec::new();
    for folder in
        ["crates/lsparse-cli/src", "crates/lsparse-page/src", "crates/lsparse-python/src", "bench", "paper/src"]
    {
        collect(&root.join(folder), &mut files);
    }
    collect(&library.join("src"), &mut files);
    assert!(files.len() > 200, "only {} files are found", files.len());
    for path in files.iter().filter(|path| !path.starts_with(library.join("src/likelihood"))) {
        for (n, line) in fs::read_to_string(path).unwrap().lines().enumerate() {
            assert!(!asks(line), "{}, line {}: {line}", path.display(), n + 1);
        }
    }
    for line in
        ["LikelihoodKind::Gauss => 1,", "matches!(kind, LikelihoodKind::Gauss)", "kind == LikelihoodKind::Gauss"]
    {
        assert!(asks(line), "{line}");
    }
    assert!(!asks("let kind = LikelihoodKind::Gauss;") && !asks("LikelihoodKind::ALL.iter().map(|kind| 2)"));
}

/// Whether a line looks at the kind of a likelihood.
fn asks(line: &str) -> bool {
    let compared = ["== LikelihoodKind::", "!= LikelihoodKind::"].iter().any(|compared| line.contains(compared));
    let matched = line.split("LikelihoodKind::").skip(1).any(|rest| {
        let after = rest.trim_start_matches(|c: char| c.is_alphanumeric()).trim_start();
        after.starts_with("=>") || after.starts_with('|')
    });
    compared || matched || (line.contains("matches!(") && line.contains("LikelihoodKind::"))
}

#[test]
fn imports_are_found_where_they_are() {
    let text = "use crate::data::Rows;\n//! [`crate::topics`]\nfn f() -> crate::error::Result<()> {}\n\
                pub(in crate::mixture) fn g() {}\n#[cfg(test)]\nmod tests {\n    use crate::runs::train;\n}\n";
    assert_eq!(imported(text), [(1, "data".to_owned()), (3, "error".to_owned()), (4, "mixture".to_owned())]);
}

fn place(room: &str) -> usize {
    ROOMS.iter().position(|&name| name == room).unwrap_or_else(|| panic!("{room} is not in the list of rooms"))
}

/// The rooms that a file names, with the line that names each; comments do not count, nor do tests at its end.
fn imported(text: &str) -> Vec<(usize, String)> {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let mut found = Vec::new();
    for (n, line) in text.lines().enumerate() {
        if !line.trim_start().starts_with("//") {
            let rooms =
                line.split("crate::").skip(1).map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_'));
            found.extend(rooms.filter_map(|mut words| words.next()).map(|room| (n + 1, room.to_owned())));
        }
    }
    found
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}
