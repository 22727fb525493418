//! The command line as a whole: the commands there are.

use clap::{Args, CommandFactory, Parser, Subcommand};

use crate::assign::AssignArgs;
use crate::completions::CompletionsArgs;
use crate::corpus::CorpusArgs;
use crate::demo::DemoArgs;
use crate::explore::ExploreArgs;
use crate::fit::{MixtureArgs, SequenceArgs, TopicsArgs};
use crate::fold::FoldArgs;
use crate::info::InfoArgs;
use crate::manual::ManualArgs;
use crate::merge::MergeArgs;
use crate::patches::PatchesArgs;
use crate::sample::SampleArgs;
use crate::score::ScoreArgs;
use crate::select::SelectArgs;
use crate::topics::list::TopicsListArgs;
use crate::topics::similar::SimilarArgs;
use crate::watch::WatchArgs;
use crate::work::WorkArgs;

/// Mixtures, topic models and hidden Markov models whose responsibilities have at most L entries a row, token or step.
///
/// Every row keeps its L most probable clusters of K, and every token of a document its L topics; dense is L = K and
/// hard assignment L = 1. Data are .npy files, CSV or TSV text (gzipped or not), SciPy CSR .npz files, or folders of
/// PNG and JPEG images; documents are text, or counts of words in the usual formats.
#[derive(Parser)]
#[command(name = "lsparse", version, arg_required_else_help = true, after_help = EXAMPLES)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "\
EXAMPLES:
  lsparse demo                                      see it at work, no file needed
  lsparse fit mixture data.npy -k 50 --out m.safetensors
  lsparse score m.safetensors test.npy
  lsparse assign m.safetensors data.npy --out clusters.npz
  lsparse corpus build articles/ --out corpus       from text to topics
  lsparse fit topics corpus -k 100 --out t.safetensors
  lsparse topics t.safetensors
  lsparse explore t.safetensors corpus --out page.html
  lsparse fit sequence series.npy --time-series -k 20 --out h.safetensors
  lsparse fit mixture --help                        every option of training

With --json every command prints its results as JSON; messages for people go to standard error.
Exit status: 0 if all went well, 2 for arguments or data that cannot be used, 1 for other failures.
Ctrl-C, SIGTERM and SIGHUP end training after the current batch, the model is written as ever (0); before
there is anything to keep the status is 130, 143 or 129.";

/// The commands there are. Most describe themselves where their arguments are; a word here would hide that.
#[derive(Subcommand)]
pub enum Command {
    /// Train a model.
    Fit(Fit),
    Score(ScoreArgs),
    Assign(AssignArgs),
    Merge(MergeArgs),
    Info(InfoArgs),
    Sample(SampleArgs),
    Topics(TopicsListArgs),
    Similar(SimilarArgs),
    Explore(ExploreArgs),
    /// Build corpora from text and counts of words, look at them, cut them.
    Corpus(CorpusArgs),
    Patches(PatchesArgs),
    Select(SelectArgs),
    Watch(WatchArgs),
    Work(WorkArgs),
    Fold(FoldArgs),
    Demo(DemoArgs),
    Completions(CompletionsArgs),
    /// For those who make packages and the documentation.
    #[command(hide = true)]
    Manual(ManualArgs),
}

#[derive(Args)]
#[command(
    arg_required_else_help = true,
    after_help = "\
EXAMPLES:
  lsparse fit mixture data.npy -k 50
  lsparse fit topics corpus -k 100
  lsparse fit sequence data.npy --groups lengths.npy -k 50"
)]
pub struct Fit {
    #[command(subcommand)]
    pub family: Family,
}

/// The models that can be trained.
#[derive(Subcommand)]
pub enum Family {
    Mixture(Box<MixtureArgs>),
    Topics(Box<TopicsArgs>),
    Sequence(Box<SequenceArgs>),
}

/// The command line.
pub fn command() -> clap::Command {
    let mut command = Cli::command();
    // Options that all trainings have, and sequences refuse: they are worked on by one process and no GPU.
    if let Some(sequence) = command.find_subcommand_mut("fit").and_then(|fit| fit.find_subcommand_mut("sequence")) {
        for id in ["shared", "batches_per_round", "device"] {
            *sequence = std::mem::take(sequence).mut_arg(id, |arg| arg.hide(true));
        }
    }
    command
}

#[cfg(test)]
mod tests {
    use lsparse::settings::{Kind, Settings, TopicsConfig};
    use lsparse::{MixtureConfig, SequenceConfig};

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn every_setting_of_the_library_is_an_option_and_shows_its_default() {
        let of_mixture = headings_of::<MixtureConfig>("mixture");
        assert_eq!(
            of_mixture,
            ["Model", "Prior", "Methods", "Schedule", "Start", "Stop", "Data", "Output", "Checkpoints"]
        );
        let of_sequence = headings_of::<SequenceConfig>("sequence");
        assert_eq!(
            of_sequence,
            ["Sequences", "Model", "Prior", "Schedule", "Start", "Stop", "Data", "Output", "Checkpoints"]
        );
        let of_topics = headings_of::<TopicsConfig>("topics");
        assert_eq!(
            of_topics,
            ["Model", "Prior", "Documents", "Sampling", "Schedule", "Start", "Stop", "Data", "Output", "Checkpoints"]
        );
    }

    /// The headings of a kind of training, each of whose settings must be an option.
    fn headings_of<C: Settings>(name: &str) -> Vec<String> {
        let mut command = command();
        let fit = command.find_subcommand_mut("fit").and_then(|fit| fit.find_subcommand_mut(name)).unwrap();
        for setting in C::table() {
            let key = setting.name;
            let arg = fit.get_arguments().find(|arg| arg.get_long() == Some(key));
            let arg = arg.unwrap_or_else(|| panic!("--{key} is missing"));
            let help = arg.get_help().unwrap().to_string();
            assert!(help.contains("[default:"), "--{key}: {help}");
            let is_switch = matches!(setting.kind, Kind::Switch) && !setting.optional;
            assert!(!is_switch || setting.default.is_boolean(), "--{key}: {help}");
            assert!(arg.get_help_heading().is_some(), "--{key} has no heading");
        }
        let mut seen = std::collections::HashSet::new();
        let headings = fit.get_arguments().filter_map(|arg| arg.get_help_heading());
        headings.filter(|heading| seen.insert(*heading)).map(str::to_owned).collect()
    }

    #[test]
    fn sequences_do_not_show_what_they_refuse() {
        let mut command = command();
        let mut help = |name: &str| {
            let fit = command.find_subcommand_mut("fit").unwrap();
            fit.find_subcommand_mut(name).unwrap().render_long_help().to_string()
        };
        for option in ["--shared", "--batches-per-round", "--device"] {
            assert!(help("mixture").contains(option) && !help("sequence").contains(option), "{option}");
        }
    }

    #[test]
    fn every_command_says_what_it_does() {
        let command = command();
        let of = |name: &str| command.find_subcommand(name).unwrap();
        let subcommands = command.get_subcommands().flat_map(|sub| std::iter::once(sub).chain(sub.get_subcommands()));
        subcommands.for_each(|sub| assert!(sub.get_about().is_some(), "{}", sub.get_name()));
        for (name, word) in [("score", "document completion"), ("assign", "scipy.sparse"), ("similar", "Hellinger")] {
            let text = of(name).get_long_about().map(ToString::to_string).unwrap_or_default();
            assert!(text.contains(word), "{name}: {text}");
        }
    }

    #[test]
    fn every_result_can_be_json() {
        let command = command();
        let subcommands = command.get_subcommands().flat_map(|sub| std::iter::once(sub).chain(sub.get_subcommands()));
        let shown = subcommands.filter(|sub| !sub.has_subcommands() && !sub.is_hide_set());
        for sub in shown.filter(|sub| sub.get_name() != "completions") {
            assert!(sub.get_arguments().any(|arg| arg.get_long() == Some("json")), "{}", sub.get_name());
        }
    }

    #[test]
    fn every_command_has_examples() {
        let has_examples = |command: &clap::Command| {
            let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(text.contains("EXAMPLES:"), "{}", command.get_name());
        };
        let command = command();
        has_examples(&command);
        for sub in command.get_subcommands() {
            has_examples(sub);
            sub.get_subcommands().for_each(has_examples);
        }
    }
}
