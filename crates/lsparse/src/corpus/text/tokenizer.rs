//! Turn text into words: Unicode words (UAX #29), by a dictionary where a script has no blanks, lower case, without stop
//! words, stemmed and joined on request.

use std::borrow::Cow;
use std::ops::Range;

use hashbrown::{HashMap, HashSet};
use icu_segmenter::options::WordBreakInvariantOptions;
use icu_segmenter::{WordSegmenter, WordSegmenterBorrowed};
use rust_stemmers::Stemmer;
use serde::{Deserialize, Serialize};
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfkc_quick};
use unicode_segmentation::UnicodeSegmentation;

use crate::error::{Error, Result};

use crate::corpus::text::language::{StopWords, stemmer};

/// How text becomes words: all that is needed to treat new text alike. An unknown key is an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct TokenizerConfig {
    /// Whether words are put into lower case.
    pub lowercase: bool,
    /// Letters that a word has at least. Scripts written without blanks have words of one letter.
    pub min_length: usize,
    /// Letters that a word has at most: longer ones are addresses and noise.
    pub max_length: usize,
    /// Whether words without a single letter, such as 1984, are kept.
    pub numbers: bool,
    /// Words left out, before stemming.
    pub stop_words: StopWords,
    /// The language whose endings are cut off, if any.
    pub stem: Option<String>,
    /// Whether text in scripts that are written without blanks (Chinese, Japanese, Thai, Lao, Khmer, Burmese) is cut into
    /// words; every letter of it is a word where not. Settings that do not say it are from before, when it was not.
    #[serde(default)]
    pub segment: bool,
    /// Pairs of words, parted by a blank, that are joined to one word wherever they follow each other.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub phrases: Vec<String>,
}

impl Default for TokenizerConfig {
    fn default() -> Self {
        TokenizerConfig {
            lowercase: true,
            min_length: 2,
            max_length: 40,
            numbers: false,
            stop_words: StopWords::Language("english".to_owned()),
            stem: None,
            segment: true,
            phrases: Vec::new(),
        }
    }
}

/// Turns text into words.
///
/// ```
/// use lsparse::corpus::{Tokenizer, TokenizerConfig};
///
/// let tokenizer = Tokenizer::new(&TokenizerConfig::default())?;
/// assert_eq!(tokenizer.words("The cat's whiskers, in 1984"), ["cat", "whiskers"]);
/// # Ok::<(), lsparse::Error>(())
/// ```
pub struct Tokenizer {
    config: TokenizerConfig,
    stop_words: HashSet<Box<str>>,
    stemmer: Option<Stemmer>,
    segmenter: Option<WordSegmenterBorrowed<'static>>,
    /// The second words of the phrases that start with a word.
    phrases: HashMap<Box<str>, HashSet<Box<str>>>,
}

/// Memory that is used again from text to text.
#[derive(Debug, Default)]
pub struct TokenScratch {
    word: String,
    other: String,
    held: String,
}

impl Tokenizer {
    /// Check the settings and look up what they name.
    pub fn new(config: &TokenizerConfig) -> Result<Self> {
        if config.min_length > config.max_length || config.max_length == 0 {
            return Err(Error::Config {
                setting: "min-length",
                problem: format!("no word has {} to {} letters", config.min_length, config.max_length),
                remedy: "choose a smaller least length or a larger greatest one".to_owned(),
            });
        }
        let mut phrases: HashMap<Box<str>, HashSet<Box<str>>> = HashMap::new();
        for phrase in &config.phrases {
            let (first, second) = phrase.split_once(' ').ok_or_else(|| Error::Config {
                setting: "phrases",
                problem: format!("{phrase:?} is not two words parted by a blank"),
                remedy: "give pairs of words".to_owned(),
            })?;
            phrases.entry(first.into()).or_default().insert(second.into());
        }
        let mut stop_words = HashSet::new();
        for word in config.stop_words.words()? {
            stop_words.insert(plain_apostrophes(&normalized(&word)).into());
        }
        let stemmer = config.stem.as_deref().map(stemmer).transpose()?.map(Stemmer::create);
        let segmenter = config.segment.then(|| WordSegmenter::new_dictionary(WordBreakInvariantOptions::default()));
        Ok(Tokenizer { config: config.clone(), stop_words, stemmer, segmenter, phrases })
    }

    /// The settings.
    pub fn config(&self) -> &TokenizerConfig {
        &self.config
    }

    /// The words of a text.
    pub fn words(&self, text: &str) -> Vec<String> {
        let mut words = Vec::new();
        self.for_each(text, &mut TokenScratch::default(), |word| words.push(word.to_owned()));
        words
    }

    /// Call `take` with every word of a text, phrases joined by `_`.
    pub fn for_each(&self, text: &str, scratch: &mut TokenScratch, mut take: impl FnMut(&str)) {
        self.for_each_placed(text, scratch, |word, _| take(word));
    }

    /// As [`for_each`](Tokenizer::for_each), with the bytes of the [`normalized`] text that the word stands at.
    pub fn for_each_placed(&self, text: &str, scratch: &mut TokenScratch, mut take: impl FnMut(&str, Range<usize>)) {
        if self.phrases.is_empty() {
            return self.for_each_single(text, scratch, |word, _, place| take(word, place));
        }
        // The word before, while it may still be the start of a phrase.
        let mut held = std::mem::take(&mut scratch.held);
        let mut held_at = 0..0;
        held.clear();
        self.for_each_single(text, scratch, |word, follows, place| {
            if follows && self.phrases.get(held.as_str()).is_some_and(|seconds| seconds.contains(word)) {
                held.push('_');
                held.push_str(word);
                take(&held, held_at.start..place.end);
                held.clear();
                return;
            }
            if !held.is_empty() {
                take(&held, held_at.clone());
                held.clear();
            }
            held.push_str(word);
            held_at = place;
        });
        if !held.is_empty() {
            take(&held, held_at);
        }
        scratch.held = held;
    }

    /// Call `take` with every single word of a text, whether nothing but blanks or a hyphen parts it from the word taken
    /// before it, and where it stands.
    pub(in crate::corpus) fn for_each_single(
        &self,
        text: &str,
        scratch: &mut TokenScratch,
        mut take: impl FnMut(&str, bool, Range<usize>),
    ) {
        let text = normalized(text);
        let mut last_end = None;
        self.for_each_piece(&text, |start, piece| {
            let follows = last_end.is_some_and(|end: usize| is_thin(&text[end..start]));
            last_end = None;
            if self.shape(piece, scratch) {
                take(&scratch.word, follows, start..start + piece.len());
                last_end = Some(start + piece.len());
            }
        });
    }

    /// Call `take` with every piece of a text that may be a word, and where it starts.
    fn for_each_piece<'t>(&self, text: &'t str, mut take: impl FnMut(usize, &'t str)) {
        let Some(segmenter) = self.segmenter.filter(|_| !text.is_ascii() && text.contains(is_unspaced)) else {
            return text.unicode_word_indices().for_each(|(start, piece)| take(start, piece));
        };
        // Stretches of such scripts go to the dictionaries, and what is between them is as everywhere else.
        let mut from = 0;
        while from < text.len() {
            let rest = &text[from..];
            let unspaced = rest.starts_with(is_unspaced);
            let length = rest.find(|c| is_unspaced(c) != unspaced).unwrap_or(rest.len());
            let stretch = &rest[..length];
            if unspaced {
                let mut start = 0;
                for end in segmenter.segment_str(stretch).filter(|&end| end > 0) {
                    // Signs among the letters are no words.
                    let piece = &stretch[start..end];
                    if piece.contains(char::is_alphanumeric) {
                        take(from + start, piece);
                    }
                    start = end;
                }
            } else {
                stretch.unicode_word_indices().for_each(|(start, piece)| take(from + start, piece));
            }
            from += length;
        }
    }

    /// Put a word into its final form in `scratch.word`; false if it is left out.
    fn shape(&self, piece: &str, scratch: &mut TokenScratch) -> bool {
        let TokenScratch { word, other, .. } = scratch;
        word.clear();
        if piece.is_ascii() {
            word.push_str(trim(piece));
            if self.config.lowercase {
                word.make_ascii_lowercase();
            }
        } else {
            let plain = plain_apostrophes(trim(piece));
            word.push_str(&if self.config.lowercase { Cow::Owned(plain.to_lowercase()) } else { plain });
        }
        if self.is_stop_word(word, other) {
            return false;
        }
        // The possessive of a word is the word.
        if let Some(owner) = word.strip_suffix("'s").or_else(|| word.strip_suffix("'S")) {
            word.truncate(owner.len());
            if self.is_stop_word(word, other) {
                return false;
            }
        }
        if !self.config.numbers && !word.chars().any(char::is_alphabetic) {
            return false;
        }
        let length = word.chars().count();
        let long_enough = length >= self.config.min_length || word.chars().next().is_some_and(is_word_alone);
        if !long_enough || length > self.config.max_length || length == 0 {
            return false;
        }
        if let Some(stemmer) = &self.stemmer {
            other.clear();
            other.push_str(&stemmer.stem(word));
            std::mem::swap(word, other);
        }
        !word.is_empty()
    }

    fn is_stop_word(&self, word: &str, other: &mut String) -> bool {
        if self.stop_words.is_empty() {
            return false;
        }
        if self.config.lowercase {
            return self.stop_words.contains(word);
        }
        other.clear();
        other.extend(word.chars().flat_map(char::to_lowercase));
        self.stop_words.contains(other.as_str())
    }
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokenizer").field("config", &self.config).finish_non_exhaustive()
    }
}

/// Text in the normal form NFKC, so that one word has one spelling, without marks that only say where a line may end.
pub fn normalized(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let is_mark = |c: char| matches!(c, '\u{ad}' | '\u{2060}' | '\u{feff}');
    if is_nfkc_quick(text.chars()) == IsNormalized::Yes && !text.contains(is_mark) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().filter(|&c| !is_mark(c)).nfkc().collect())
}

/// A word without what hangs on to it: underscores, and blanks that carry a mark of a letter.
fn trim(piece: &str) -> &str {
    piece.trim_matches(|c: char| c == '_' || c.is_whitespace() || c.is_control())
}

/// Typeset apostrophes become plain ones.
fn plain_apostrophes(word: &str) -> Cow<'_, str> {
    if word.contains('\u{2019}') { Cow::Owned(word.replace('\u{2019}', "'")) } else { Cow::Borrowed(word) }
}

/// Whether words on both sides of a gap follow each other: blanks or a hyphen, but no new paragraph.
fn is_thin(gap: &str) -> bool {
    let lines = gap.bytes().filter(|&byte| byte == b'\n').count();
    lines < 2 && gap.chars().all(|c| c.is_whitespace() || matches!(c, '-' | '\u{2010}' | '\u{2011}'))
}

/// Letters of scripts that are written without blanks.
fn is_unspaced(c: char) -> bool {
    // Thai and Lao, Burmese, Khmer, and the signs that repeat or lengthen a Japanese letter.
    is_word_alone(c)
        || matches!(c, '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{3005}'..='\u{3007}'
            | '\u{31f0}'..='\u{31ff}')
}

/// Letters of which a single one may be a word.
fn is_word_alone(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{323af}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::corpus::text::language::stem_languages;

    fn words(config: TokenizerConfig, text: &str) -> String {
        Tokenizer::new(&config).unwrap().words(text).join(" ")
    }

    #[test]
    fn words_are_found_in_any_script() {
        let plain = TokenizerConfig { stop_words: StopWords::None, ..TokenizerConfig::default() };
        for (text, expected) in [
            ("The Quick (brown) fox's can't jump.", "the quick brown fox can't jump"),
            ("Na\u{ef}ve NAI\u{308}VE \u{fb01}nd so\u{ad}lar", "na\u{ef}ve na\u{ef}ve find solar"),
            (
                "\u{395}\u{39b}\u{39b}\u{3a3} \u{41c}\u{438}\u{440}",
                "\u{3b5}\u{3bb}\u{3bb}\u{3c2} \u{43c}\u{438}\u{440}",
            ),
            ("\u{6771}\u{4eac} a \u{1f600} x86", "\u{6771}\u{4eac} x86"),
            ("_emphasis_ snake_case 1984 3.14 __ ___", "emphasis snake_case"),
            ("can\u{2019}t Dog\u{2019}s", "can't dog"),
            ("", ""),
        ] {
            assert_eq!(words(plain.clone(), text), expected, "{text}");
        }
        assert_eq!(words(TokenizerConfig { numbers: true, ..plain.clone() }, "in 1984, 3.14 a"), "in 1984 3.14");
        assert_eq!(words(TokenizerConfig { lowercase: false, ..plain.clone() }, "The FOX'S"), "The FOX");
        assert_eq!(
            words(TokenizerConfig { min_length: 4, max_length: 5, ..plain }, "abc abcd abcde abcdef"),
            "abcd abcde"
        );
    }

    #[test]
    fn scripts_without_blanks_are_cut_by_a_dictionary() {
        let plain = TokenizerConfig { stop_words: StopWords::None, ..TokenizerConfig::default() };
        let letters = TokenizerConfig { segment: false, ..plain.clone() };
        for (text, expected) in [
            ("我喜欢机器学习和自然语言处理。", "我 喜欢 机器 学习 和 自然 语言 处理"),
            ("機械学習が好きです。", "機械 学習 が 好き です"),
            ("ภาษาไทยไม่มีการเว้นวรรค", "ภาษา ไทย ไม่มี การ เว้น วรรค"),
            // What is between such stretches is as everywhere else.
            ("The iPhone手机, 学习in Bangkok's ภาษาไทย", "the iphone 手机 学习 in bangkok ภาษา ไทย"),
            ("2024年の夏", "年 の 夏"),
        ] {
            assert_eq!(words(plain.clone(), text), expected, "{text}");
        }
        assert_eq!(words(letters, "机器学习 ok"), "机 器 学 习 ok");
        let phrases = vec!["机器 学习".to_owned()];
        assert_eq!(words(TokenizerConfig { phrases, ..plain.clone() }, "机器学习。机器。学习"), "机器_学习 机器 学习");
        let chinese = TokenizerConfig { stop_words: StopWords::Language("chinese".into()), ..plain };
        assert_eq!(words(chinese, "我和机器学习"), "机器 学习");
        // Settings from before do not say it, and go on as they were.
        assert!(!serde_json::from_str::<TokenizerConfig>("{}").unwrap().segment);
        assert!(TokenizerConfig::default().segment);
    }

    #[test]
    fn stop_words_and_endings_go() {
        let english = TokenizerConfig::default();
        assert_eq!(words(english.clone(), "It's not what you would've said: DON\u{2019}T run"), "would've run");
        let cased = TokenizerConfig { lowercase: false, ..english.clone() };
        assert_eq!(words(cased, "The Run"), "Run");
        let stemmed = TokenizerConfig { stem: Some("english".into()), ..english };
        assert_eq!(words(stemmed.clone(), "running runs easily"), "run run easili");
        assert!(Tokenizer::new(&TokenizerConfig { stem: Some("x".into()), ..stemmed.clone() }).is_err());
        assert!(Tokenizer::new(&TokenizerConfig { min_length: 50, ..stemmed.clone() }).is_err());
        assert!(Tokenizer::new(&TokenizerConfig { phrases: vec!["x".into()], ..stemmed }).is_err());
    }

    #[test]
    fn phrases_are_joined_where_words_follow_each_other() {
        let phrases = vec!["new york".to_owned(), "york city".to_owned(), "neural network".to_owned()];
        let config = TokenizerConfig { phrases, ..TokenizerConfig::default() };
        for (text, expected) in [
            ("New York City", "new_york city"),
            ("old York-city neural\nnetwork", "old york_city neural_network"),
            ("neural. Network neural the network", "neural network neural network"),
            ("neural\n\nnetwork new", "neural network new"),
        ] {
            assert_eq!(words(config.clone(), text), expected, "{text}");
        }
    }

    #[test]
    fn settings_are_read_as_written() {
        let config = TokenizerConfig { stem: Some("german".into()), phrases: vec!["a b".into()], ..Default::default() };
        let text = serde_json::to_string(&config).unwrap();
        assert_eq!(serde_json::from_str::<TokenizerConfig>(&text).unwrap(), config);
        assert!(serde_json::from_str::<TokenizerConfig>(r#"{"stemm":"german"}"#).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn any_text_gives_words_that_are_lines(text in "\\PC{0,60}", stem in 0usize..18, lowercase: bool) {
            let stem = Some(stem_languages()[stem].to_owned());
            let config = TokenizerConfig { stem, lowercase, numbers: true, min_length: 1, ..Default::default() };
            for word in Tokenizer::new(&config).unwrap().words(&text) {
                prop_assert!(!word.is_empty() && !word.contains(char::is_whitespace), "{word:?}");
            }
        }
    }
}
