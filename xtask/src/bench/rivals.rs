//! `cargo xtask bench rivals`: lsparse against others at their defaults, on data that nothing was tuned on.

use std::process::Command;

use super::single;
use crate::process::{cargo, go, python, release, root};

const USAGE: &str =
    "usage: cargo xtask bench rivals --mixtures [--data DIR] [--quick] [OPTIONS] [-- SETTINGS of lsparse]
       cargo xtask bench rivals --topics --data DIR [--quick] [OPTIONS] [-- SETTINGS of lsparse]
--mixtures --help and --topics --help tell the options.";

/// Which comparison: its program, and the programs of ours that it runs, by the option that names them.
struct Plan<'a> {
    script: &'static str,
    programs: &'static [(&'static str, &'static str)],
    options: &'a [&'a str],
}

impl<'a> Plan<'a> {
    fn parse(args: &'a [&'a str]) -> Result<Self, String> {
        let Some((which, options)) = args.split_first() else { return Err(USAGE.into()) };
        let (script, programs): (_, &[_]) = match *which {
            "--mixtures" => ("bench/rivals_mixtures.py", &[("--lsparse", "lsparse")]),
            "--topics" => ("bench/rivals_topics.py", &[("--lsparse", "lsparse"), ("--scorer", "topics")]),
            _ => return Err(format!("{which} is neither --mixtures nor --topics\n{USAGE}")),
        };
        Ok(Plan { script, programs, options })
    }

    /// The comparison, run where the caller is, so that paths mean what they say there.
    fn command(&self, interpreter: &std::path::Path) -> Command {
        let mut command = Command::new(interpreter);
        command.arg(root().join(self.script)).arg("--out").arg(root().join("target/bench-data"));
        for (option, program) in self.programs {
            command.arg(option).arg(release(program));
        }
        // Last, so that they win, and what follows -- stays behind it.
        command.args(self.options);
        single(command)
    }
}

pub fn run(args: &[&str]) -> Result<(), String> {
    let plan = Plan::parse(args)?;
    let interpreter = python("bench-venv", "bench/requirements.txt")?;
    go(cargo(&["build", "--release", "--package", "lsparse-cli", "--package", "lsparse-bench"]))?;
    go(plan.command(&interpreter))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::Plan;

    fn words(args: &[&str]) -> Result<Vec<String>, String> {
        let command = Plan::parse(args)?.command(Path::new("python"));
        Ok(command.get_args().map(|word| word.to_string_lossy().into_owned()).collect())
    }

    #[test]
    fn options_and_settings_are_handed_on_in_order() {
        let args = ["--topics", "--data", "here", "--quick", "--", "--restarts", "3"];
        let words = words(&args).unwrap();
        assert!(words[0].ends_with("rivals_topics.py"), "{words:?}");
        assert!(words.iter().any(|word| word == "--scorer"), "{words:?}");
        assert_eq!(words[words.len() - 6..], args[1..]);
    }

    #[test]
    fn mixtures_need_no_scorer_of_topics() {
        let words = words(&["--mixtures"]).unwrap();
        assert!(words[0].ends_with("rivals_mixtures.py") && !words.iter().any(|word| word == "--scorer"), "{words:?}");
    }

    #[test]
    fn a_comparison_must_be_named() {
        assert!(words(&[]).is_err_and(|e| e.starts_with("usage")));
        assert!(words(&["--trees", "--topics"]).is_err_and(|e| e.starts_with("--trees is neither")));
    }
}
