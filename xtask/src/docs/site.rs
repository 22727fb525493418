//! Pages as HTML with what came of their blocks, an index to search, and every link checked.

use std::collections::{HashMap, HashSet};
use std::path::{Component, Path, PathBuf};

use pulldown_cmark::{CowStr, Event, Parser, Tag, TagEnd, html};
use serde_json::json;

use super::blocks::Outcome;
use super::highlight::{escape, highlight};
use super::pages::{self, Kind, Page};
use super::write;
use crate::process::root;

const TEMPLATE: &str = include_str!("../../web/page.html");
const STYLE: &str = include_str!("../../web/style.css");
const SCRIPT: &str = include_str!("../../web/site.js");

/// Where files of the repository that are no pages can be looked at.
const REPOSITORY: &str = "https://github.com/lsparse/lsparse/blob/main/";

/// How a page says what its sections are looked for by.
const SEARCH: &str = "<!-- search: ";

/// A page as it was rendered.
struct Rendered {
    body: String,
    /// Level, anchor and text of headings.
    headings: Vec<(u8, String, String)>,
    /// Targets of links within the site, with their anchors.
    links: Vec<(PathBuf, String)>,
    sections: Vec<Section>,
    pictures: Vec<(PathBuf, PathBuf)>,
}

/// What can be searched: a heading with what stands under it.
struct Section {
    anchor: String,
    heading: String,
    text: String,
    /// What people look for it by that is not in its text: `<!-- search: ... -->` under its heading.
    terms: String,
}

impl Section {
    fn new(anchor: &str, heading: &str) -> Self {
        Section { anchor: anchor.to_owned(), heading: heading.to_owned(), text: String::new(), terms: String::new() }
    }
}

/// Write the site; what is wrong with it.
pub fn write_site(pages: &[Page], outcome: &Outcome, folder: &Path) -> Result<Vec<String>, String> {
    if folder.exists() {
        std::fs::remove_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    }
    let targets: HashMap<&Path, &Path> =
        pages.iter().filter_map(|page| Some((page.source.as_path(), page.target.as_deref()?))).collect();
    let mut problems = Vec::new();
    let rendered: Vec<Rendered> = pages.iter().map(|page| render(page, outcome, &targets, &mut problems)).collect();
    let anchors: HashMap<&Path, HashSet<&str>> = pages
        .iter()
        .zip(&rendered)
        .filter_map(|(page, rendered)| {
            let anchors = rendered.headings.iter().map(|(_, anchor, _)| anchor.as_str()).collect();
            Some((page.target.as_deref()?, anchors))
        })
        .collect();
    let mut index = Vec::new();
    for (number, (page, rendered)) in pages.iter().zip(&rendered).enumerate() {
        for (target, anchor) in &rendered.links {
            let known = anchors.get(target.as_path());
            if !anchor.is_empty() && !known.is_some_and(|known| known.contains(anchor.as_str())) {
                problems.push(format!("{}: no heading #{anchor} in {}", page.source.display(), target.display()));
            }
        }
        let Some(target) = &page.target else { continue };
        write(&folder.join(target), whole(pages, number, rendered))?;
        for (from, to) in &rendered.pictures {
            let bytes = std::fs::read(from).map_err(|e| format!("{}: {e}", from.display()))?;
            write(&folder.join(to), bytes)?;
        }
        for Section { anchor, heading, text, terms } in &rendered.sections {
            let address = format!("{}{}{anchor}", web(target), if anchor.is_empty() { "" } else { "#" });
            index.push(json!([address, page.title, heading, text, terms]));
        }
    }
    write(&folder.join("style.css"), STYLE)?;
    write(&folder.join("site.js"), SCRIPT)?;
    // A script rather than JSON: pages that are opened from a disk may not ask for files.
    write(&folder.join("index.js"), format!("window.INDEX = {};\n", json!(index)))?;
    Ok(problems)
}

/// A path as it stands in addresses.
fn web(path: &Path) -> String {
    path.to_string_lossy().replace('\\', "/")
}

/// A page with all that surrounds it.
fn whole(pages: &[Page], number: usize, rendered: &Rendered) -> String {
    let page = &pages[number];
    let target = page.target.as_deref().unwrap_or(Path::new(""));
    let up = "../".repeat(target.components().count() - 1);
    let address = |other: &Page| format!("{up}{}", web(other.target.as_deref().unwrap_or(Path::new(""))));
    let mut sidebar = String::new();
    let mut section = "";
    for other in pages.iter().filter(|other| other.target.is_some()) {
        if other.section != section {
            section = &other.section;
            sidebar += &format!("<h2>{}</h2>\n", escape(section));
        }
        let here = if std::ptr::eq(other, page) { " aria-current=\"page\"" } else { "" };
        sidebar += &format!("<a href=\"{}\"{here}>{}</a>\n", address(other), escape(&other.title));
    }
    let on_page: Vec<_> = rendered.headings.iter().filter(|heading| heading.0 == 2).collect();
    let outline = on_page.iter().map(|(_, anchor, text)| format!("<a href=\"#{anchor}\">{}</a>\n", escape(text)));
    let neighbour = |other: Option<&Page>, class: &str| {
        let other = other.filter(|other| other.target.is_some());
        other.map_or(String::new(), |other| {
            format!("<a class=\"{class}\" href=\"{}\">{}</a>", address(other), escape(&other.title))
        })
    };
    let before = neighbour(number.checked_sub(1).map(|before| &pages[before]), "before");
    let after = neighbour(pages.get(number + 1), "after");
    TEMPLATE
        .replace("{{up}}", &up)
        .replace("{{title}}", &escape(&page.title))
        .replace("{{version}}", env!("CARGO_PKG_VERSION"))
        .replace("{{sidebar}}", &sidebar)
        .replace("{{outline}}", &if on_page.len() > 1 { outline.collect::<String>() } else { String::new() })
        .replace("{{neighbours}}", &format!("{before}{after}"))
        .replace("{{body}}", &rendered.body)
}

/// The body of a page.
fn render(page: &Page, outcome: &Outcome, targets: &HashMap<&Path, &Path>, problems: &mut Vec<String>) -> Rendered {
    let mut done =
        Rendered { body: String::new(), headings: vec![], links: vec![], sections: vec![], pictures: vec![] };
    done.sections.push(Section::new("", &page.title));
    let mut events = Vec::new();
    let mut block = 0;
    let mut parser = Parser::new_ext(&page.text, pages::options());
    while let Some(event) = parser.next() {
        match event {
            Event::Start(Tag::Heading { level, .. }) => {
                let inner: Vec<Event> =
                    parser.by_ref().take_while(|event| !matches!(event, Event::End(TagEnd::Heading(_)))).collect();
                let text: String = inner.iter().map(text_of).collect();
                let anchor = unused(&done.headings, slug(&text));
                let level = level as u8;
                let mut words = String::new();
                html::push_html(&mut words, inner.into_iter());
                let link = format!("<a class=\"anchor\" href=\"#{anchor}\" aria-label=\"link to this section\">#</a>");
                events.push(Event::Html(format!("<h{level} id=\"{anchor}\">{words}{link}</h{level}>\n").into()));
                if level > 1 {
                    done.sections.push(Section::new(&anchor, &text));
                }
                done.headings.push((level, anchor, text));
            }
            Event::Start(Tag::CodeBlock(_)) => {
                while parser.next().is_some_and(|event| !matches!(event, Event::End(TagEnd::CodeBlock))) {}
                events.push(Event::Html(code(page, block, outcome).into()));
                block += 1;
            }
            Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
                let dest_url = link(page, &dest_url, targets, &mut done.links, &mut done.pictures, problems);
                events.push(Event::Start(Tag::Link { link_type, dest_url, title, id }));
            }
            Event::Start(Tag::Image { link_type, dest_url, title, id }) => {
                let dest_url = picture(page, &dest_url, outcome, &mut done.pictures, problems);
                events.push(Event::Start(Tag::Image { link_type, dest_url, title, id }));
            }
            Event::Start(Tag::Table(alignment)) => {
                events.push(Event::Html("<div class=\"table\">".into()));
                events.push(Event::Start(Tag::Table(alignment)));
            }
            Event::End(TagEnd::Table) => {
                events.push(Event::End(TagEnd::Table));
                events.push(Event::Html("</div>\n".into()));
            }
            Event::Html(comment) if comment.starts_with(SEARCH) => {
                if let Some(section) = done.sections.last_mut() {
                    section.terms += comment[SEARCH.len()..].trim().trim_end_matches("-->").trim_end();
                }
            }
            other => {
                if let Some(Section { text, .. }) = done.sections.last_mut() {
                    text.push_str(&text_of(&other));
                    if matches!(other, Event::End(_)) {
                        text.push(' ');
                    }
                }
                events.push(other);
            }
        }
    }
    html::push_html(&mut done.body, events.into_iter());
    done
}

/// The words of an event.
fn text_of(event: &Event) -> String {
    match event {
        Event::Text(text) | Event::Code(text) => text.to_string(),
        Event::SoftBreak | Event::HardBreak => " ".to_owned(),
        _ => String::new(),
    }
}

/// A heading as an anchor, as GitHub has it.
fn slug(text: &str) -> String {
    let kept = text.to_lowercase().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).collect::<String>();
    kept.trim().replace(' ', "-")
}

fn unused(headings: &[(u8, String, String)], anchor: String) -> String {
    let taken = |name: &str| headings.iter().any(|(_, other, _)| other == name);
    let others = (1..).map(|n| format!("{anchor}-{n}"));
    std::iter::once(anchor.clone()).chain(others).find(|name| !taken(name)).unwrap_or(anchor)
}

/// A block of code and what came of it.
fn code(page: &Page, number: usize, outcome: &Outcome) -> String {
    let block = &page.blocks[number];
    let text = match block.language.as_str() {
        // Lines that only the test of an example needs.
        "rust" => {
            block.text.lines().filter(|line| *line != "#" && !line.starts_with("# ")).collect::<Vec<_>>().join("\n")
        }
        _ => block.text.trim_end().to_owned(),
    };
    let class = if block.language.is_empty() { "text" } else { &block.language };
    let shown = format!(
        "<div class=\"code {class}\"><pre><code>{}</code></pre></div>\n",
        highlight(&block.language, text.trim_end())
    );
    match &block.kind {
        Kind::Run { hidden: true, .. } => String::new(),
        Kind::Run { quiet, .. } => {
            let output = outcome.of(page, number).filter(|output| !quiet && !output.trim().is_empty());
            let output = output.map(|output| format!("<pre class=\"output\">{}</pre>\n", escape(output.trim_end())));
            shown + &output.unwrap_or_default()
        }
        Kind::NotRun(reason) => {
            format!("{shown}<p class=\"not-run\">Not run when this page was made: {}.</p>\n", escape(reason))
        }
        Kind::Shown | Kind::Rust => shown,
    }
}

/// A path without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut done = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                done.pop();
            }
            other => done.push(other),
        }
    }
    done
}

/// The way from one page to another.
fn relative(from: &Path, to: &Path) -> String {
    format!("{}{}", "../".repeat(from.components().count() - 1), web(to))
}

/// Where a link of a page leads in the site.
fn link<'a>(
    page: &Page,
    to: &CowStr<'a>,
    targets: &HashMap<&Path, &Path>,
    links: &mut Vec<(PathBuf, String)>,
    pictures: &mut Vec<(PathBuf, PathBuf)>,
    problems: &mut Vec<String>,
) -> CowStr<'a> {
    if to.starts_with("https://") {
        // What is linked to from outside must be there as well.
        let path = to.strip_prefix(REPOSITORY).map(|path| path.split('#').next().unwrap_or(path));
        if path.is_some_and(|path| !root().join(path).exists()) {
            problems.push(format!("{}: the link to {to} leads nowhere", page.source.display()));
        }
        return to.clone();
    }
    if page.source == Path::new(pages::PACKAGE) {
        problems.push(format!("{}: {to} is not there where packages are listed", page.source.display()));
    }
    let (path, anchor) = to.split_once('#').unwrap_or((to, ""));
    let folder = page.source.parent().unwrap_or(Path::new(""));
    let source = if path.is_empty() { page.source.clone() } else { normal(&folder.join(path)) };
    // Pages that are made lie beside those that are written.
    let made = source.strip_prefix("docs").map(Path::to_path_buf);
    let written = Path::new("docs").join(&source);
    let found = [Some(source.clone()), made.ok(), Some(written)];
    let found = found.into_iter().flatten().find_map(|source| targets.get(source.as_path()));
    match (found, &page.target) {
        (Some(target), here) => {
            links.push((target.to_path_buf(), anchor.to_owned()));
            let here = here.as_deref().unwrap_or(Path::new("x"));
            let anchor = if anchor.is_empty() { String::new() } else { format!("#{anchor}") };
            format!("{}{anchor}", relative(here, target)).into()
        }
        (None, None) if path.is_empty() => to.clone(),
        // Files to try things with come along.
        (None, Some(here)) if source.starts_with("docs/files") && root().join(&source).is_file() => {
            let place = source.strip_prefix("docs").unwrap_or(&source).to_path_buf();
            pictures.push((root().join(&source), place.clone()));
            relative(here, &place).into()
        }
        (None, _) if root().join(&source).exists() => format!("{REPOSITORY}{}", web(&source)).into(),
        (None, _) => {
            problems.push(format!("{}: the link to {to} leads nowhere", page.source.display()));
            to.clone()
        }
    }
}

/// Where a picture of a page comes to be: one of the repository, or one that the page's blocks have drawn.
fn picture<'a>(
    page: &Page,
    from: &CowStr<'a>,
    outcome: &Outcome,
    pictures: &mut Vec<(PathBuf, PathBuf)>,
    problems: &mut Vec<String>,
) -> CowStr<'a> {
    if from.starts_with("https://") {
        problems.push(format!("{}: the picture {from} needs a network", page.source.display()));
        return from.clone();
    }
    let Some(target) = &page.target else {
        let there = root().join(page.source.parent().unwrap_or(Path::new(""))).join(from.as_ref());
        if !there.exists() {
            problems.push(format!("{}: there is no picture {from}", page.source.display()));
        }
        return from.clone();
    };
    let kept = root().join(page.source.parent().unwrap_or(Path::new(""))).join(from.as_ref());
    let drawn = Outcome::folder(page).join(from.as_ref());
    let name = Path::new(from.as_ref()).file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let stem = web(&target.with_extension("")).replace('/', "-");
    let place = PathBuf::from(format!("pictures/{stem}-{name}"));
    match [kept, drawn].into_iter().find(|path| path.is_file()) {
        Some(path) => pictures.push((path, place.clone())),
        None if outcome.partial => {}
        None => problems.push(format!("{}: there is no picture {from}, and no block drew it", page.source.display())),
    }
    relative(target, &place).into()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{normal, relative, render, slug};
    use crate::docs::blocks::Outcome;
    use crate::docs::pages;

    #[test]
    fn headings_become_anchors_as_elsewhere() {
        assert_eq!(slug("What `L` buys, and when"), "what-l-buys-and-when");
        assert_eq!(slug("`-k, --clusters <K>`"), "-k---clusters-k");
    }

    #[test]
    fn links_and_pictures_that_lead_nowhere_are_found() {
        let problems = |text: &str| {
            let page = pages::of_text("README.md".into(), text).unwrap();
            let mut problems = Vec::new();
            render(&page, &Outcome::default(), &Default::default(), &mut problems);
            problems.len()
        };
        assert_eq!(problems("[a](docs/index.md) [b](https://arxiv.org) ![c](docs/pictures/explore.png)"), 0);
        assert_eq!(problems("[a](https://github.com/lsparse/lsparse/blob/main/docs/index.md#here)"), 0);
        assert_eq!(problems("[a](https://github.com/lsparse/lsparse/blob/main/docs/no-page.md)"), 1);
        assert_eq!(problems("[a](docs/no-page.md) ![c](docs/pictures/none.png) ![d](https://example.org/a.png)"), 3);
    }

    #[test]
    fn sections_are_found_by_what_they_are_looked_for_by() {
        let page =
            pages::of_text("docs/a.md".into(), "# A\n\ntext\n\n## B\n\n<!-- search: out of core, RAM -->\n\nmore\n");
        let done = render(&page.unwrap(), &Outcome::default(), &Default::default(), &mut Vec::new());
        let terms: Vec<&str> = done.sections.iter().map(|section| section.terms.as_str()).collect();
        assert_eq!(terms, ["", "out of core, RAM"]);
        assert!(done.sections[1].text.contains("more") && !done.body.contains("RAM"), "{}", done.body);
    }

    #[test]
    fn links_lead_from_where_they_stand() {
        assert_eq!(normal(Path::new("docs/how-to/../NOTATION.md")), Path::new("docs/NOTATION.md"));
        assert_eq!(relative(Path::new("how-to/k.html"), Path::new("api/plot.html")), "../api/plot.html");
    }
}
