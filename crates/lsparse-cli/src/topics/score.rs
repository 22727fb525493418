//! `lsparse score` of a topic model: document completion, coherence and diversity of the topics.

use lsparse::topics::TopicModel;
use lsparse::topics::coherence::{Coherence, coherence, diversity};
use lsparse::topics::score::CompletionOptions;
use lsparse::{Error, Result};
use serde::Serialize;

use super::{Documents, refuse_given};
use crate::format::{grouped, significant};
use crate::output;
use crate::score::ScoreArgs;

/// Words of a topic that coherence and diversity look at.
const TOP_WORDS: usize = 10;

#[derive(Serialize)]
struct Scores {
    mean_log_probability: f64,
    perplexity: f64,
    heldout_tokens: f64,
    documents: usize,
    skipped_documents: usize,
    unknown_words: u64,
    share: f64,
    seed: u64,
    npmi: f64,
    umass: f64,
    diversity: f64,
    topics: usize,
}

pub fn run(args: &ScoreArgs, model: &TopicModel) -> Result<()> {
    refuse_given(&[("per-row", args.per_row.is_some())], "a topic model")?;
    let defaults = CompletionOptions::default();
    let options = CompletionOptions {
        share: args.share.unwrap_or(defaults.share),
        seed: args.seed.unwrap_or(defaults.seed),
        ..defaults
    };
    if options.share <= 0.0 || options.share >= 1.0 {
        let problem = format!("{} leaves no words to score or none to score them by", options.share);
        return Err(Error::Config { option: "share", problem, remedy: "give a share between 0 and 1".into() });
    }
    let documents = args.text.open(&args.data, model, Some(&args.reading))?;
    let completion = model.score(&documents, &options)?;
    if completion.documents == 0 {
        return Err(Error::Format {
            path: args.data.clone(),
            detail: "no document has two different words that the model knows".to_owned(),
            remedy: "give longer documents".to_owned(),
        });
    }
    let reference = args.reference.as_deref().map(|path| args.text.open(path, model, Some(&args.reading)));
    let reference = reference.transpose()?;
    let quality = Quality::of(model, reference.as_ref().unwrap_or(&documents))?;
    let scores = Scores {
        mean_log_probability: completion.score(),
        perplexity: completion.perplexity(),
        heldout_tokens: completion.tokens,
        documents: completion.documents,
        skipped_documents: completion.skipped,
        unknown_words: documents.unknown,
        share: options.share,
        seed: options.seed,
        npmi: quality.mean.npmi,
        umass: quality.mean.umass,
        diversity: quality.diversity,
        topics: model.num_topics(),
    };
    if args.json { output::print_json(&scores) } else { output::print(&text(&scores)) }
}

fn text(scores: &Scores) -> String {
    let mut text = format!("mean log probability  {} a held-out token\n", significant(scores.mean_log_probability, 6));
    text += &format!("perplexity            {}\n", significant(scores.perplexity, 6));
    text += &format!(
        "documents             {}, {} tokens held out ({} % of the words of each)\n",
        grouped(scores.documents),
        grouped(scores.heldout_tokens as usize),
        significant(100.0 * scores.share, 2),
    );
    if scores.skipped_documents > 0 {
        text += &format!("skipped               {} with fewer than two words\n", grouped(scores.skipped_documents));
    }
    text += &format!("coherence NPMI        {} (from -1 to 1)\n", significant(scores.npmi, 4));
    text += &format!("coherence UMass       {} (0 is best)\n", significant(scores.umass, 4));
    text += &format!("diversity             {} (1 if no two topics share a word)\n", significant(scores.diversity, 4));
    text
}

/// Means over the topics.
struct Quality {
    mean: Coherence,
    diversity: f64,
}

impl Quality {
    fn of(model: &TopicModel, reference: &Documents) -> Result<Self> {
        let list = |k| model.top_words(k, TOP_WORDS).into_iter().map(|word| word.0).collect();
        let lists: Vec<Vec<u32>> = (0..model.num_topics()).map(list).collect();
        let found = coherence(&lists, reference)?;
        let mean = |value: fn(&Coherence) -> f64| found.iter().map(value).sum::<f64>() / found.len() as f64;
        Ok(Quality {
            mean: Coherence { npmi: mean(|c| c.npmi), umass: mean(|c| c.umass) },
            diversity: diversity(&lists),
        })
    }
}
