//! What a topic run starts from: its list of words, the model to go on from, and words that pull topics.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use lsparse::corpus::{Corpus, TokenizerConfig, Vocab};
use lsparse::topics::TopicModel;
use lsparse::{Error, Result};
use serde_json::Value;

/// The words of a run: those of the corpus, after those of the model to go on from.
pub struct Words {
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
            return Err(refuse(detail, "give at most one line a topic, or ask for more topics with -k"));
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
