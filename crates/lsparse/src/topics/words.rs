//! The words of topics: those of a run that goes on from a model, documents in the words of a model, words that pull topics.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use crate::corpus::encode_text;
use crate::corpus::{Corpus, Documents, Encoder, Format, StopWords, TextOptions, TokenizerConfig, Vocab, Watch};
use crate::error::{Error, Result};
use crate::topics::TopicModel;

/// The words of a run: those of the corpus, after those of the model to go on from.
pub struct Words {
    /// All of them.
    pub vocab: Arc<Vocab>,
    /// The model to go on from, over these words.
    pub start: Option<TopicModel>,
    /// Words that the model to go on from did not have.
    pub new: usize,
    /// How text becomes these words, where that is known.
    pub tokenizer: Option<Value>,
    /// Whether corpus and model come from text that was treated differently.
    pub mixed: bool,
}

impl Words {
    /// The words of a corpus and of a model to go on from, if there is one.
    pub fn new(corpus: &Corpus, start: Option<TopicModel>) -> Result<Self> {
        let of_corpus = corpus.tokenizer();
        let Some(start) = start else {
            let tokenizer = of_corpus.map(to_json);
            return Ok(Words { vocab: Arc::clone(corpus.vocab()), start: None, new: 0, tokenizer, mixed: false });
        };
        let of_model = start.tokenizer.as_ref();
        let of_model = of_model.and_then(|value| serde_json::from_value::<TokenizerConfig>(value.clone()).ok());
        let (tokenizer, mixed) = join_tokenizers(of_model, of_corpus.cloned());
        let tokenizer = tokenizer.as_ref().map(to_json);
        let mut known: HashSet<&str> = start.vocab.iter().map(String::as_str).collect();
        let words = corpus.vocab().words().iter();
        let new: Vec<String> = words.filter(|&word| known.insert(word)).cloned().collect();
        let (count, mut words) = (new.len(), start.vocab.clone());
        words.extend(new);
        let vocab = Arc::new(Vocab::new(words)?);
        let start = if count == 0 { start } else { start.with_vocab(vocab.words()) };
        Ok(Words { vocab, start: Some(start), new: count, tokenizer, mixed })
    }
}

impl TopicModel {
    /// The documents of a corpus folder or of raw text in the words of this model. `watch` is told of the text that is read,
    /// and may end it.
    pub fn documents(
        &self,
        path: &Path,
        format: Option<Format>,
        text: &TextOptions,
        watch: &mut Watch<'_>,
    ) -> Result<Documents> {
        let documents = if Corpus::is_corpus(path) {
            Documents::in_words(Corpus::open(path)?, &Vocab::new(self.vocab.clone())?)?
        } else {
            let (corpus, report) = encode_text(path, format, text, &self.encoder()?, watch)?;
            Documents::of_text(corpus, report.unknown)
        };
        if documents.known() == 0 {
            return Err(Error::Format {
                path: path.to_owned(),
                detail: format!("not one of its {} words is known to the model", documents.unknown),
                remedy: "give documents of the kind and language that the model was trained on".to_owned(),
            });
        }
        Ok(documents)
    }

    /// What turns text into the words of this model.
    pub fn encoder(&self) -> Result<Encoder> {
        Encoder::new(&tokenizer_of(self)?, Arc::new(Vocab::new(self.vocab.clone())?))
    }
}

/// How text became the words of a model. A model of counts does not say; its words are looked for in plain text.
fn tokenizer_of(model: &TopicModel) -> Result<TokenizerConfig> {
    let Some(settings) = &model.tokenizer else {
        let stop_words = StopWords::None;
        return Ok(TokenizerConfig { numbers: true, min_length: 1, stop_words, ..TokenizerConfig::default() });
    };
    serde_json::from_value(settings.clone()).map_err(|error| Error::Config {
        setting: "model",
        problem: format!("its settings for text cannot be used ({error})"),
        remedy: "build a corpus from the text with `build-corpus`, or update lsparse".to_owned(),
    })
}

fn to_json(tokenizer: &TokenizerConfig) -> Value {
    serde_json::to_value(tokenizer).unwrap_or_default()
}

/// The model's way with text, with the phrases of both; whether the two differ in anything else.
fn join_tokenizers(model: Option<TokenizerConfig>, corpus: Option<TokenizerConfig>) -> (Option<TokenizerConfig>, bool) {
    let (Some(mut model), Some(corpus)) = (model.clone(), corpus.clone()) else { return (model.or(corpus), false) };
    let mixed = model != TokenizerConfig { phrases: model.phrases.clone(), ..corpus.clone() };
    let new = corpus.phrases.into_iter().filter(|phrase| !model.phrases.contains(phrase)).collect::<Vec<_>>();
    model.phrases.extend(new);
    (Some(model), mixed)
}

/// Read words that pull topics: one line a topic, words parted by blanks, for `num_topics` topics at most.
pub fn read_seed_words(path: &Path, vocab: &Vocab, num_topics: usize) -> Result<Vec<Vec<u32>>> {
    let bytes = std::fs::read(path).map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => Error::NotFound { path: path.to_owned() },
        _ => Error::Io { path: path.to_owned(), action: "read", source },
    })?;
    let mut lists = Vec::new();
    for (at, line) in bytes.split(|&byte| byte == b'\n').enumerate() {
        let refuse = |detail: String, remedy: &str| Error::BadLine {
            path: path.to_owned(),
            line: at as u64 + 1,
            detail,
            remedy: remedy.to_owned(),
        };
        let line = std::str::from_utf8(line)
            .map_err(|_| refuse("it is not valid UTF-8".into(), "save the file as UTF-8"))?
            .trim_start_matches('\u{feff}');
        let mut list: Vec<u32> = Vec::new();
        for word in line.split_whitespace() {
            let number = vocab.number(word).ok_or_else(|| {
                let detail = format!("the word {word:?} is not in the vocabulary");
                refuse(detail, "write words as the vocab.txt of the corpus has them, or leave the word out")
            })?;
            if !list.contains(&number) {
                list.push(number);
            }
        }
        if at >= num_topics && !list.is_empty() {
            let detail = format!("a line more than the {num_topics} topics");
            return Err(refuse(detail, "give at most one line a topic, or ask for more `topics`"));
        }
        lists.push(list);
    }
    lists.truncate(num_topics);
    if lists.iter().all(Vec::is_empty) {
        let (detail, remedy) = ("the file has no words".to_owned(), "give one line of words a topic".to_owned());
        return Err(Error::Format { path: path.to_owned(), detail, remedy });
    }
    Ok(lists)
}
