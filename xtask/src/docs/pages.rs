//! The pages there are: the order of docs/contents.md, texts, and the blocks of code in them.

use std::path::{Path, PathBuf};

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use super::read_text;
use crate::process::root;

/// Texts outside the site whose blocks are run and whose links are checked with those of the site.
const BESIDE: [&str; 2] = ["README.md", PACKAGE];

/// What is shown where Python packages are listed, without the files around it.
pub const PACKAGE: &str = "crates/lsparse-python/README.md";

/// Languages that are not code to be run, but what is read or written.
const SHOWN: [&str; 6] = ["text", "json", "csv", "toml", "yaml", "bibtex"];

/// A page, or a text whose blocks are run with those of the pages.
pub struct Page {
    /// Where the text is, from the root of the repository; of pages that are made, from the folder that they are made in.
    pub source: PathBuf,
    /// Where the page comes to be in the site; none for texts outside it.
    pub target: Option<PathBuf>,
    pub title: String,
    /// The heading of the contents that it is under.
    pub section: String,
    pub text: String,
    pub blocks: Vec<Block>,
}

/// A block of code.
pub struct Block {
    pub language: String,
    pub text: String,
    pub line: usize,
    pub kind: Kind,
}

/// What is to be done with a block.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// Nothing: it is no code.
    Shown,
    /// It is run.
    Run {
        /// What it prints is not shown.
        quiet: bool,
        /// Nor is the block itself.
        hidden: bool,
        /// It is to fail.
        fails: bool,
    },
    /// It is not run, for this reason.
    NotRun(String),
    /// The tests of Rust's own documentation run it.
    Rust,
}

/// What of Markdown the texts may use.
pub fn options() -> Options {
    Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_HEADING_ATTRIBUTES
}

/// All pages in their order, and then the texts outside the site.
pub fn read(root: &Path, generated: &Path) -> Result<Vec<Page>, String> {
    let contents = read_text(&root.join("docs/contents.md"))?;
    let mut pages = Vec::new();
    let mut section = String::new();
    for line in contents.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            section = heading.trim().to_owned();
        } else if let Some((title, link)) = line.strip_prefix("- [").and_then(|rest| rest.split_once("](")) {
            let link = link.trim_end().trim_end_matches(')');
            let (source, folder) = place(root, generated, link)?;
            let target = link.trim_start_matches("../").replace(".md", ".html");
            let target = if link.starts_with("../") { target.to_lowercase().replace('/', "-") } else { target };
            pages.push(page(&folder.join(&source), source, Some(target.into()), title, &section)?);
        }
    }
    for source in BESIDE {
        pages.push(beside(root, source)?);
    }
    unlisted(root, "docs", &pages)?;
    // A new command or class wants its line in the contents.
    unlisted(generated, "", &pages)?;
    Ok(pages)
}

/// A text outside the site.
pub fn beside(root: &Path, source: &str) -> Result<Page, String> {
    page(&root.join(source), source.into(), None, source, "")
}

/// The source of a page of the contents, and the folder that it is relative to.
fn place<'a>(root: &'a Path, generated: &'a Path, link: &str) -> Result<(PathBuf, &'a Path), String> {
    if let Some(outside) = link.strip_prefix("../") {
        return Ok((outside.into(), root));
    }
    let written = Path::new("docs").join(link);
    if root.join(&written).exists() {
        Ok((written, root))
    } else if generated.join(link).exists() {
        Ok((link.into(), generated))
    } else {
        Err(format!("docs/contents.md: there is no page {link}"))
    }
}

fn page(path: &Path, source: PathBuf, target: Option<PathBuf>, title: &str, section: &str) -> Result<Page, String> {
    let text = uncommented(&read_text(path)?);
    // What was written for others may have a block without a language.
    let strict = source.starts_with("docs") || target.is_none();
    let blocks = blocks(&text, strict).map_err(|problem| format!("{}: {problem}", source.display()))?;
    if blocks.iter().any(|block| block.kind == Kind::Rust) {
        is_tested_by_rust(&source)?;
    }
    Ok(Page { source, target, title: title.to_owned(), section: section.to_owned(), text, blocks })
}

/// Blocks in Rust are run where the library's documentation includes their page; elsewhere nobody would run them.
fn is_tested_by_rust(source: &Path) -> Result<(), String> {
    let library = read_text(&root().join("crates/lsparse/src/lib.rs"))?;
    match library.contains(&format!("include_str!(\"../../../{}\")", source.display())) {
        true => Ok(()),
        false => {
            Err(format!("{}: crates/lsparse/src/lib.rs does not include it, so its Rust is not run", source.display()))
        }
    }
}

/// A page of this text outside the site.
#[cfg(test)]
pub fn of_text(source: PathBuf, text: &str) -> Result<Page, String> {
    let text = uncommented(text);
    let blocks = blocks(&text, true)?;
    Ok(Page { source, target: None, title: String::new(), section: String::new(), text, blocks })
}

/// Code that is run and not shown stands in comments, which no reader of Markdown shows either: `<!-- run python` to `-->`.
fn uncommented(text: &str) -> String {
    let mut inside = false;
    let mut line = |line: &str| {
        if let Some(language) = line.strip_prefix("<!-- run ") {
            inside = true;
            format!("```{language} hidden\n")
        } else if inside && line == "-->" {
            inside = false;
            "```\n".to_owned()
        } else {
            format!("{line}\n")
        }
    };
    text.lines().map(&mut line).collect()
}

/// A page that nobody finds is a mistake.
fn unlisted(root: &Path, folder: &str, pages: &[Page]) -> Result<(), String> {
    let mut folders = vec![root.join(folder)];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        for path in entries.flatten().map(|entry| entry.path()) {
            let source = path.strip_prefix(root).unwrap_or(&path);
            let is_page = path.extension().is_some_and(|ending| ending == "md") && !path.ends_with("contents.md");
            if path.is_dir() {
                folders.push(path);
            } else if is_page && !pages.iter().any(|page| page.source == source) {
                return Err(format!("{} is not in docs/contents.md", source.display()));
            }
        }
    }
    Ok(())
}

/// The blocks of a text, in their order.
fn blocks(text: &str, strict: bool) -> Result<Vec<Block>, String> {
    let mut found: Vec<Block> = Vec::new();
    let mut inside = false;
    for (event, range) in Parser::new_ext(text, options()).into_offset_iter() {
        match event {
            Event::Start(Tag::CodeBlock(kind)) => {
                let line = text[..range.start].lines().count() + 1;
                let info = match &kind {
                    CodeBlockKind::Fenced(info) => info.to_string(),
                    CodeBlockKind::Indented => String::new(),
                };
                let (language, kind) = parse_info(&info, strict).map_err(|why| format!("line {line}: {why}"))?;
                found.push(Block { language, text: String::new(), line, kind });
                inside = true;
            }
            Event::Text(part) if inside => {
                if let Some(block) = found.last_mut() {
                    block.text.push_str(&part);
                }
            }
            Event::End(TagEnd::CodeBlock) => inside = false,
            _ => {}
        }
    }
    Ok(found)
}

/// `sh`, `python quiet`, `sh not-run="it needs a GPU"`: language, and what is to be done.
fn parse_info(info: &str, strict: bool) -> Result<(String, Kind), String> {
    let (info, reason) = match info.split_once("not-run=\"") {
        Some((before, reason)) => (before, Some(reason.trim_end().trim_end_matches('"').to_owned())),
        None => (info, None),
    };
    let mut words = info.split_whitespace();
    let language = words.next().unwrap_or("").to_owned();
    let flags: Vec<&str> = words.collect();
    if let Some(flag) = flags.iter().find(|flag| !["quiet", "hidden", "fails"].contains(flag)) {
        return Err(format!("a block of code cannot be `{flag}`: quiet, hidden, fails, or not-run=\"a reason\""));
    }
    let has = |flag: &str| flags.contains(&flag);
    let kind = match (language.as_str(), reason) {
        ("sh" | "python" | "rust", Some(reason)) if !reason.is_empty() => Kind::NotRun(reason),
        ("sh" | "python", None) => {
            Kind::Run { quiet: has("quiet") || has("hidden"), hidden: has("hidden"), fails: has("fails") }
        }
        ("rust", None) => Kind::Rust,
        (shown, None) if SHOWN.contains(&shown) || !strict => Kind::Shown,
        (other, _) => {
            return Err(format!("a block of code says what it is (sh, python, rust, {SHOWN:?}), not `{other}`"));
        }
    };
    Ok((language, kind))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Kind, blocks, is_tested_by_rust, parse_info, uncommented};

    #[test]
    fn a_block_says_what_is_to_be_done_with_it() {
        let run = |quiet, hidden, fails| Kind::Run { quiet, hidden, fails };
        assert_eq!(parse_info("sh", true), Ok(("sh".into(), run(false, false, false))));
        assert_eq!(parse_info("python quiet", true), Ok(("python".into(), run(true, false, false))));
        let reason = Kind::NotRun("it needs a GPU".into());
        assert_eq!(parse_info("sh not-run=\"it needs a GPU\"", true), Ok(("sh".into(), reason)));
        assert!(parse_info("", true).is_err(), "a block without a language could be a command that nobody runs");
        assert!(parse_info("sh not-run=\"\"", true).is_err(), "a reason is a reason");
        assert!(parse_info("sh norun", true).is_err());
        assert!(parse_info("pycon", true).is_err(), "only the examples of docstrings are run as such");
        assert!(parse_info("pycon", false).is_ok());
    }

    #[test]
    fn rust_stands_where_it_is_run() {
        assert!(is_tested_by_rust(Path::new("docs/library.md")).is_ok());
        assert!(is_tested_by_rust(Path::new("docs/files.md")).is_err());
    }

    #[test]
    fn comments_may_be_run() {
        let text = uncommented("a\n<!-- run python\nx = 1\n-->\n<!-- a remark\n-->\n");
        assert_eq!(text, "a\n```python hidden\nx = 1\n```\n<!-- a remark\n-->\n");
        let found = blocks(&text, true).unwrap();
        assert!(matches!(found[0].kind, Kind::Run { hidden: true, .. }));
    }

    #[test]
    fn blocks_are_found_with_their_lines() {
        let found = blocks("# A\n\n```sh\nls\n```\n\ntext\n\n```python\na = 1\nprint(a)\n```\n", true).unwrap();
        let found: Vec<_> = found.iter().map(|block| (block.line, block.text.as_str())).collect();
        assert_eq!(found, [(3, "ls\n"), (9, "a = 1\nprint(a)\n")]);
    }
}
