//! `lsparse score` of a topic model: document completion, coherence and diversity of the topics.

use lsparse::backend::Place;
use lsparse::data::{RowSource, write_npy_f64};
use lsparse::math::agreement::Agreement;
use lsparse::topics::TopicModel;
use lsparse::topics::coherence::{Coherence, coherence, diversity};
use lsparse::topics::score::{Completion, CompletionOptions};
use lsparse::{Error, Result};
use serde::Serialize;

use super::assign::{csv_field, main_topics};
use crate::assign::say_of;
use crate::format::{grouped, significant};
use crate::labels::{self, read_labels};
use crate::output;
use crate::score::{ScoreArgs, check_per_row, write_csv};
use lsparse::corpus::Documents;

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
    /// Nothing if no two top words of a topic are in the reference documents.
    npmi: Option<f64>,
    umass: Option<f64>,
    /// Top words, of all topics together, that no reference document has.
    words_without_reference: usize,
    diversity: f64,
    topics: usize,
    /// Concentration of a document's topics in total.
    alpha: f64,
    /// With the labels, of the documents that have words.
    #[serde(skip_serializing_if = "Option::is_none")]
    agreement: Option<Agreement>,
}

pub fn run(args: &ScoreArgs, mut model: TopicModel) -> Result<()> {
    super::refuse_given(&[("missing", args.missing)], "a topic model")?;
    if let Some(alpha) = args.alpha {
        set_alpha(&mut model, alpha)?;
    }
    let model = &model;
    let defaults = CompletionOptions::default();
    let options = CompletionOptions {
        share: args.share.unwrap_or(defaults.share),
        seed: args.seed.unwrap_or(defaults.seed),
        ..defaults
    };
    if options.share <= 0.0 || options.share >= 1.0 {
        let problem = format!("{} leaves no words to score or none to score them by", options.share);
        return Err(Error::Config { setting: "share", problem, remedy: "give a share between 0 and 1".into() });
    }
    let per_row = args.per_row.as_deref().map(|path| check_per_row(args, path)).transpose()?;
    let documents = args.text.open(&args.data, model, Some(&args.reading))?;
    let labels = args.labels.as_deref().map(|path| read_labels(path, documents.num_rows())).transpose()?;
    let (mut completion, mut scores) = (Completion::default(), Vec::new());
    let place = model.place_of_scores(args.device.unwrap_or_default(), &documents)?;
    say_of(&place);
    model.score_documents_at(&documents, &options, &place, &mut |one| {
        completion.add(one);
        scores.push(if one.documents > 0 { one.score() } else { f64::NAN });
    })?;
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
    if let Some((path, format)) = per_row {
        let ids = documents.corpus().ids()?;
        match format {
            "npy" => write_npy_f64(path, 1, &scores)?,
            _ => write_csv(path, "document,mean_log_probability", &scores, |n| {
                csv_field(ids.get(n).unwrap_or_default())
            })?,
        }
    }
    let agreement = labels.map(|labels| agreement(model, &documents, labels)).transpose()?;
    let scores = Scores {
        mean_log_probability: completion.score(),
        perplexity: completion.perplexity(),
        heldout_tokens: completion.tokens,
        documents: completion.documents,
        skipped_documents: completion.skipped,
        unknown_words: documents.unknown,
        share: options.share,
        seed: options.seed,
        npmi: quality.mean.map(|mean| mean.npmi),
        umass: quality.mean.map(|mean| mean.umass),
        words_without_reference: quality.missing,
        diversity: quality.diversity,
        topics: model.num_topics(),
        alpha: model.alpha.iter().map(|&alpha| f64::from(alpha)).sum(),
        agreement,
    };
    if args.json {
        return output::print_json(&scores);
    }
    let written = per_row.map(|(path, _)| format!("scores of documents   {}\n", path.display()));
    output::print(&(text(&scores) + &written.unwrap_or_default()))
}

fn text(scores: &Scores) -> String {
    let mut text = format!("mean log probability  {} a held-out token\n", significant(scores.mean_log_probability, 6));
    text += &format!("perplexity            {}\n", significant(scores.perplexity, 6));
    text += &format!("alpha                 {} in total\n", significant(scores.alpha, 4));
    text += &format!(
        "documents             {}, {} tokens held out ({} % of the words of each)\n",
        grouped(scores.documents),
        grouped(scores.heldout_tokens as usize),
        significant(100.0 * scores.share, 2),
    );
    if scores.skipped_documents > 0 {
        text += &format!("skipped               {} with fewer than two words\n", grouped(scores.skipped_documents));
    }
    match (scores.npmi, scores.umass) {
        (Some(npmi), Some(umass)) => {
            text += &format!("coherence NPMI        {} (from -1 to 1)\n", significant(npmi, 4));
            text += &format!("coherence UMass       {} (0 is best)\n", significant(umass, 4));
        }
        _ => text += "coherence             unknown: no two top words of a topic are in the reference documents\n",
    }
    if scores.words_without_reference > 0 {
        text += &format!(
            "                      {} of the top words are in no reference document and are left out of coherence\n",
            grouped(scores.words_without_reference)
        );
    }
    text += &format!("diversity             {} (1 if no two topics share a word)\n", significant(scores.diversity, 4));
    text + &scores.agreement.as_ref().map(labels::lines).unwrap_or_default()
}

/// Largest concentration of a document's topics: far beyond it every document is the corpus.
const MAX_ALPHA: f64 = 1e6;

/// Score by another concentration; topics keep their shares of it.
fn set_alpha(model: &mut TopicModel, alpha: f64) -> Result<()> {
    if !(alpha > 0.0 && alpha <= MAX_ALPHA) {
        let problem = format!("{alpha} is not above 0 and at most {MAX_ALPHA:e}");
        return Err(Error::Config { setting: "alpha", problem, remedy: "0.5 and 5 are good choices".into() });
    }
    let before: f64 = model.alpha.iter().map(|&alpha| f64::from(alpha)).sum();
    let share = alpha / before.max(f64::MIN_POSITIVE);
    model.alpha.iter_mut().for_each(|of_topic| *of_topic = (f64::from(*of_topic) * share) as f32);
    Ok(())
}

/// How well the main topics of documents agree with their classes; documents without words have none.
fn agreement(model: &TopicModel, documents: &Documents, mut labels: Vec<String>) -> Result<Agreement> {
    let main = main_topics(model, documents, &Place::default())?;
    let mut known = main.iter().map(|topic| *topic >= 0);
    labels.retain(|_| known.next().unwrap_or(false));
    let main: Vec<u32> = main.into_iter().filter(|&topic| topic >= 0).map(|topic| topic as u32).collect();
    Ok(Agreement::of(&labels, &main))
}

/// Means over the topics.
struct Quality {
    mean: Option<Coherence>,
    missing: usize,
    diversity: f64,
}

impl Quality {
    fn of(model: &TopicModel, reference: &Documents) -> Result<Self> {
        let list = |k| model.top_words(k, TOP_WORDS).into_iter().map(|word| word.0).collect();
        let lists: Vec<Vec<u32>> = (0..model.num_topics()).map(list).collect();
        let found = coherence(&lists, reference)?;
        Ok(Quality {
            mean: Coherence::mean(&found),
            missing: found.iter().map(|topic| topic.missing).sum(),
            diversity: diversity(&lists),
        })
    }
}
