//! The page itself: the hand-written files of `web/explore` in one, with the data in it.

/// The modules of the page, each after those that it needs.
const MODULES: [&str; 16] = [
    include_str!("../../web/explore/data.js"),
    include_str!("../../web/explore/state.js"),
    include_str!("../../web/explore/parts.js"),
    include_str!("../../web/explore/charts.js"),
    include_str!("../../web/explore/facets.js"),
    include_str!("../../web/explore/map.js"),
    include_str!("../../web/explore/table.js"),
    include_str!("../../web/explore/topic.js"),
    include_str!("../../web/explore/document.js"),
    include_str!("../../web/explore/word.js"),
    include_str!("../../web/explore/cluster.js"),
    include_str!("../../web/explore/row.js"),
    include_str!("../../web/explore/column.js"),
    include_str!("../../web/explore/overview.js"),
    include_str!("../../web/explore/search.js"),
    include_str!("../../web/explore/main.js"),
];

/// The page with a title and packed data.
pub fn html(title: &str, data: &str) -> String {
    let code: String = MODULES.iter().map(|module| joined(module)).collect();
    let mut page = String::with_capacity(data.len() + code.len() + (64 << 10));
    // Each mark is there once; what takes the place of one is not looked at again.
    let mut rest = include_str!("../../web/explore/index.html");
    for (mark, content) in [
        ("{{title}}", &*escaped(title)),
        ("{{style}}", include_str!("../../web/explore/style.css")),
        ("{{data}}", data),
        ("{{code}}", &code),
    ] {
        let (before, after) = rest.split_once(mark).unwrap_or((rest, ""));
        page.push_str(before);
        page.push_str(content);
        rest = after;
    }
    page + rest
}

/// A module as a part of one script: all of them share its names, so imports go, and exports need not be said.
fn joined(module: &str) -> String {
    let lines = module.lines().filter(|line| !line.starts_with("import "));
    lines.map(|line| line.strip_prefix("export ").unwrap_or(line).to_owned() + "\n").collect()
}

/// Text as text of HTML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_in_one_file_of_modest_size_and_titles_stay_text() {
        let page = html("</title><script>alert(1)</script>{{code}}", "QUJD");
        assert!(page.contains("<title>&lt;/title&gt;&lt;script&gt;alert(1)&lt;/script&gt;{{code}}</title>"));
        assert!(page.contains(">QUJD</script>") && page.matches("{{").count() == 1);
        assert!(page.len() < 150_000, "{} bytes", page.len());
        assert!(!page.contains("\nimport ") && !page.contains("\nexport "));
        // Nothing is fetched from anywhere: the one address is a name of SVG, which no browser opens.
        let addresses = page.match_indices("://").map(|(at, _)| &page[at - 5..(at + 22).min(page.len())]);
        assert!(
            addresses.clone().all(|address| address.contains("://www.w3.org/2000/svg")),
            "{:?}",
            addresses.collect::<Vec<_>>()
        );
        // Text goes in as text.
        for way in
            ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "fetch(", "XMLHttpRequest"]
        {
            assert!(!page.contains(way), "{way}");
        }
    }

    #[test]
    fn no_name_is_declared_in_two_modules() {
        let mut names = std::collections::HashSet::new();
        for line in MODULES.iter().flat_map(|module| module.lines()) {
            let line = line.strip_prefix("export ").unwrap_or(line);
            let line = line.strip_prefix("async ").unwrap_or(line);
            let declared = ["function ", "const ", "let ", "class "].iter().find_map(|kind| line.strip_prefix(kind));
            if let Some(name) = declared {
                let name =
                    name.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '$').next().unwrap_or_default();
                assert!(names.insert(name.to_owned()), "{name} is declared twice");
            }
        }
        assert!(names.len() > 20);
    }
}
