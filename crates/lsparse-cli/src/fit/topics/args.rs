//! The options of `lsparse fit topics`.

use std::path::PathBuf;

use clap::Args;
use lsparse::settings::TopicsConfig;

use super::super::args::RunArgs;
use super::super::options::Options;

/// Train topics on the documents of a corpus.
///
/// A topic is a list of words with probabilities, and a document a mix of a few topics: latent Dirichlet allocation
/// in which every token keeps the L most probable of the K topics.
#[derive(Args, Debug)]
#[command(
    allow_negative_numbers = true,
    after_help = "\
EXAMPLES:
  lsparse corpus build articles/ --out corpus                  from text to a corpus
  lsparse fit topics corpus -k 100 --out topics.safetensors
  lsparse fit topics corpus -k 200 -l 8 --schedule memoized --batches 5 --laps 10 --seed 0 --threads 2 \\
      --heldout test-corpus --out topics.safetensors --trace run.jsonl
  lsparse fit topics corpus -k 50 --seed-words seeds.txt --learn-alpha asymmetric --out topics.safetensors
  lsparse fit topics new-corpus --from topics.safetensors --out topics.safetensors
  lsparse fit topics corpus -k 100 --method sparse-lda --laps 500 --out gibbs.safetensors
  lsparse fit topics large-corpus -k 500 --checkpoint run.ckpt --resume --memo-memory 1GB --out topics.safetensors
  lsparse fit topics corpus --config run.json --seed 1 --quiet --json
  lsparse topics topics.safetensors                            read the topics

Training ends at the first of --laps, --tolerance, --count-tolerance, --max-seconds and --early-stopping.
Ctrl-C ends it after the current batch, and the model is written all the same.
With --checkpoint a run that was killed or interrupted goes on with --resume and the same settings, and so does one
that has ended, with more --laps say: the rules for stopping may change."
)]
pub struct TopicsArgs {
    /// A corpus folder, as lsparse corpus build makes it.
    #[arg(value_name = "CORPUS")]
    pub corpus: PathBuf,

    #[command(flatten)]
    pub settings: Options<TopicsConfig>,

    /// Words that pull a topic: one line a topic, words parted by blanks; the first line is topic 0's.
    #[arg(long, value_name = "FILE", help_heading = "Start")]
    pub seed_words: Option<PathBuf>,
    /// Go on from this model: it gives K, L, estimate, prior and document step; words new to it are added. The documents
    /// given now take the place of those it has counted, unless --history keep is given.
    #[arg(long, value_name = "MODEL", help_heading = "Start", conflicts_with_all = ["init", "init-lloyd"])]
    pub from: Option<PathBuf>,

    /// Documents to score at the end of every lap: another corpus folder; words are matched by name.
    #[arg(long, value_name = "CORPUS", help_heading = "Data")]
    pub heldout: Option<PathBuf>,

    #[command(flatten)]
    pub run: RunArgs,
}
