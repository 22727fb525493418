//! `lsparse manual`: man pages, and the reference of the documentation, from the declarations that options are made of.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use clap::{Arg, Args, Command};
use lsparse::{Error, Result};

use crate::cli;

/// Write man pages, or the reference of the documentation.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES:
  lsparse manual --man share/man/man1
  lsparse manual --markdown reference")]
pub struct ManualArgs {
    /// Write a man page for each command to this folder.
    #[arg(long, value_name = "FOLDER")]
    pub man: Option<PathBuf>,

    /// Write a page of Markdown for each command to this folder.
    #[arg(long, value_name = "FOLDER")]
    pub markdown: Option<PathBuf>,
}

pub fn run(args: &ManualArgs) -> Result<()> {
    if let Some(folder) = &args.man {
        writing(folder, fs::create_dir_all(folder))?;
        writing(folder, clap_mangen::generate_to(cli::command(), folder))?;
    }
    if let Some(folder) = &args.markdown {
        let mut command = cli::command();
        command.build();
        writing(folder, fs::create_dir_all(folder))?;
        for (name, command) in leaves(&command) {
            let file = folder.join(format!("{}.md", name.replace(' ', "-")));
            writing(&file, fs::write(&file, page(&name, command)))?;
        }
    }
    Ok(())
}

fn writing<T>(path: &Path, done: std::io::Result<T>) -> Result<T> {
    done.map_err(|source| Error::Unwritable { path: path.to_owned(), source })
}

/// The commands that do something, each with the words after `lsparse`.
fn leaves(command: &Command) -> Vec<(String, &Command)> {
    let mut found = Vec::new();
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help") {
        let inner = leaves(sub);
        if inner.is_empty() {
            found.push((sub.get_name().to_owned(), sub));
        }
        found.extend(inner.into_iter().map(|(name, command)| (format!("{} {name}", sub.get_name()), command)));
    }
    found
}

/// The page of a command: what it does, its options under their headings, its examples.
fn page(name: &str, command: &Command) -> String {
    let mut text = format!("# lsparse {name}\n\n");
    let about = command.get_long_about().or(command.get_about());
    let _ = writeln!(text, "{}\n", about.map_or(String::new(), |about| plain(&about.to_string())));
    let usage = command.clone().render_usage().to_string();
    let _ = writeln!(text, "```text\n{}\n```\n", usage.trim_start_matches("Usage: "));
    let shown = || command.get_arguments().filter(|arg| !arg.is_hide_set() && arg.get_id() != "help");
    let mut headings: Vec<&str> = Vec::new();
    for heading in shown().map(heading_of) {
        if !headings.contains(&heading) {
            headings.push(heading);
        }
    }
    for heading in headings {
        let _ = writeln!(text, "## {heading}\n");
        shown().filter(|arg| heading_of(arg) == heading).for_each(|arg| entry(&mut text, arg));
    }
    if let Some(examples) = command.get_after_help() {
        let examples = examples.to_string();
        let examples = examples.trim_start_matches("EXAMPLES:\n");
        let (lines, rest) = examples.split_once("\n\n").unwrap_or((examples, ""));
        let _ = writeln!(text, "## Examples\n\n```text\n{}\n```\n\n{}", unindented(lines), plain(rest));
    }
    text
}

fn heading_of(arg: &Arg) -> &str {
    arg.get_help_heading().unwrap_or(if arg.is_positional() { "Arguments" } else { "Options" })
}

/// An option: how it is written, what it means, its values and its default.
fn entry(text: &mut String, arg: &Arg) {
    let value = arg.get_value_names().map(|names| names.join(" "));
    let takes_value = arg.get_action().takes_values();
    let mut written = match (arg.get_long(), arg.get_short()) {
        (Some(long), Some(short)) => format!("-{short}, --{long}"),
        (Some(long), None) => format!("--{long}"),
        (None, Some(short)) => format!("-{short}"),
        (None, None) => String::new(),
    };
    if let Some(value) = value.filter(|_| takes_value) {
        let separator = if written.is_empty() { "" } else { " " };
        let _ = write!(written, "{separator}<{value}>");
    }
    let help = arg.get_long_help().or(arg.get_help()).map_or(String::new(), |help| help.to_string());
    let (help, default) = match help.split_once("[default: ") {
        Some((help, default)) => (help.trim().to_owned(), Some(default.trim().trim_end_matches(']').to_owned())),
        None => (help, None),
    };
    let given = arg.get_default_values().iter().map(|value| value.to_string_lossy().into_owned());
    let default = default.or_else(|| Some(given.collect::<Vec<_>>().join(" ")).filter(|text| !text.is_empty()));
    let _ = write!(text, "### `{written}`\n\n{}.", plain(&help).trim_end_matches('.'));
    if let Some(default) = default.filter(|_| takes_value) {
        let _ = write!(text, " Default: {}.", plain(&default));
    }
    text.push_str("\n\n");
    let values: Vec<_> = arg.get_possible_values().into_iter().filter(|value| !value.is_hide_set()).collect();
    if takes_value && !values.is_empty() && values.iter().any(|value| value.get_help().is_some()) {
        for value in values {
            let help = value.get_help().map_or(String::new(), |help| format!(": {}", plain(&help.to_string())));
            let _ = writeln!(text, "- `{}`{help}", value.get_name());
        }
        text.push('\n');
    } else if takes_value && !values.is_empty() {
        let names: Vec<_> = values.iter().map(|value| format!("`{}`", value.get_name())).collect();
        let _ = writeln!(text, "One of {}.\n", names.join(", "));
    }
}

/// Lines without the blanks that all of them begin with.
fn unindented(lines: &str) -> String {
    lines.lines().map(|line| line.strip_prefix("  ").unwrap_or(line)).collect::<Vec<_>>().join("\n")
}

/// Text as Markdown: options as code, and nothing taken for a tag.
fn plain(text: &str) -> String {
    let word = |word: &str| {
        let core = word.trim_matches(|c: char| ",;:.()".contains(c));
        let option = core.starts_with("--") && core.len() > 3 && !word.contains('`');
        if option {
            word.replacen(core, &format!("`{core}`"), 1)
        } else {
            word.replace('<', "&lt;").replace('*', "\\*")
        }
    };
    let line = |line: &str| line.split(' ').map(word).collect::<Vec<_>>().join(" ");
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::{leaves, page, plain};
    use crate::cli;

    #[test]
    fn every_option_of_every_command_is_in_the_reference() {
        let mut command = cli::command();
        command.build();
        let leaves = leaves(&command);
        assert!(leaves.iter().any(|(name, _)| name == "fit mixture"));
        for (name, command) in leaves {
            let page = page(&name, command);
            for arg in command.get_arguments().filter(|arg| arg.get_id() != "help" && !arg.is_hide_set()) {
                if let Some(long) = arg.get_long() {
                    assert!(page.contains(&format!("--{long}")), "{name} --{long}");
                }
            }
        }
    }

    #[test]
    fn options_are_code_and_nothing_is_a_tag() {
        assert_eq!(plain("with --laps, or <K>"), "with `--laps`, or &lt;K>");
    }
}
