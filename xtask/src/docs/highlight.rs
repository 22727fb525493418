//! Colours of code: comments, strings, numbers and a language's own words, by a plain scan.

/// Code as HTML.
pub fn highlight(language: &str, code: &str) -> String {
    let words: &[&str] = match language {
        "python" | "pycon" => &[
            "and", "as", "assert", "def", "del", "elif", "else", "except", "False", "for", "from", "if", "import",
            "in", "is", "lambda", "None", "not", "or", "pass", "print", "raise", "return", "True", "try", "while",
            "with",
        ],
        "rust" => &["fn", "for", "if", "impl", "in", "let", "match", "mut", "pub", "return", "struct", "use"],
        "sh" => &["lsparse", "cargo", "pip", "python", "docker", "head", "ls", "cat", "for", "do", "done", "git"],
        _ => return escape(code),
    };
    let comment = if language == "rust" { "//" } else { "#" };
    let mut out = String::with_capacity(code.len() * 2);
    let mut rest = code;
    let mut before = '\n';
    while let Some(first) = rest.chars().next() {
        let (class, length) = if rest.starts_with(comment) && (before.is_whitespace() || comment == "//") {
            ("comment", rest.find('\n').unwrap_or(rest.len()))
        } else if language != "rust" && (rest.starts_with("\"\"\"") || rest.starts_with("'''")) {
            ("string", rest[3..].find(&rest[..3]).map_or(rest.len(), |at| at + 6))
        } else if first == '"' || (first == '\'' && language != "rust") {
            ("string", end_of_string(rest, first))
        } else if first.is_alphabetic() || first == '_' {
            let length = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            let own = words.contains(&&rest[..length]) && !"-./".contains(before);
            (if own { "word" } else { "" }, length)
        } else if first.is_ascii_digit() {
            ("number", rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '.' && c != '_').unwrap_or(rest.len()))
        } else {
            ("", first.len_utf8())
        };
        let text = escape(&rest[..length]);
        out += &if class.is_empty() { text } else { format!("<span class=\"{class}\">{text}</span>") };
        before = rest[..length].chars().last().unwrap_or(' ');
        rest = &rest[length..];
    }
    out
}

/// Where a string that begins here ends: behind its quote, or at the end of the line.
fn end_of_string(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '\n' => return at,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Text as HTML.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::highlight;

    #[test]
    fn code_keeps_its_text() {
        let code = "import a  # why\nb = f\"{x} <b>\" + 'c' if 1.5e3 else \"\"\"two\nlines\"\"\"\n";
        let html = highlight("python", code);
        let mut plain = String::new();
        let mut inside = false;
        for c in html.chars() {
            match c {
                '<' => inside = true,
                '>' => inside = false,
                c if !inside => plain.push(c),
                _ => {}
            }
        }
        let plain = plain.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&");
        assert_eq!(plain, code);
        assert!(html.contains("<span class=\"comment\"># why</span>"));
    }
}
