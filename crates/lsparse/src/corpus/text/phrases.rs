//! Find phrases: pairs of words that follow each other far more often than chance has it.
//!
//! The measure is the normalised pointwise mutual information, log(p(a b) / p(a) p(b)) / -log p(a b), which is 1 for
//! words that only occur together and 0 for independent ones.

use hashbrown::HashMap;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

use crate::corpus::text::tokenizer::{TokenScratch, Tokenizer};

/// Pairs that are counted at once; beyond that the rarest are forgotten.
const MAX_PAIRS: usize = 1 << 24;

/// When two words are a phrase.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct PhraseConfig {
    /// How often a pair occurs at least.
    pub min_count: u64,
    /// The least normalised pointwise mutual information, from -1 to 1.
    pub threshold: f64,
}

impl Default for PhraseConfig {
    fn default() -> Self {
        PhraseConfig { min_count: 10, threshold: 0.5 }
    }
}

impl PhraseConfig {
    /// Whether the settings can be used.
    pub fn check(&self) -> Result<()> {
        if (-1.0..=1.0).contains(&self.threshold) {
            return Ok(());
        }
        Err(Error::Config {
            setting: "phrase-threshold",
            problem: format!("{} is not from -1 to 1", self.threshold),
            remedy: "choose a number between 0 (any pair) and 1 (words that only occur together)".to_owned(),
        })
    }
}

/// How often words and pairs of words occur.
#[derive(Debug, Default)]
pub(in crate::corpus) struct PhraseCounts {
    numbers: HashMap<Box<str>, u32>,
    words: Vec<Box<str>>,
    counts: Vec<u64>,
    pairs: HashMap<(u32, u32), u64>,
    /// Pairs seen so often or less may have been forgotten.
    floor: u64,
}

impl PhraseCounts {
    /// Count the words of a text.
    pub(in crate::corpus) fn add_text(&mut self, tokenizer: &Tokenizer, text: &str, scratch: &mut TokenScratch) {
        let mut last = 0;
        tokenizer.for_each_single(text, scratch, |word, follows, _| {
            let number = self.number(word);
            self.counts[number as usize] += 1;
            if follows && last != number {
                *self.pairs.entry((last, number)).or_default() += 1;
            }
            last = number;
        });
    }

    fn number(&mut self, word: &str) -> u32 {
        if let Some(&number) = self.numbers.get(word) {
            return number;
        }
        // Text with 2^32 different words does not fit into memory.
        let number = self.words.len() as u32;
        self.numbers.insert(word.into(), number);
        self.words.push(word.into());
        self.counts.push(0);
        number
    }

    /// Add the counts of another piece of text.
    pub(in crate::corpus) fn merge(&mut self, other: PhraseCounts) {
        let numbers: Vec<u32> = other.words.iter().map(|word| self.number(word)).collect();
        for (at, &number) in numbers.iter().enumerate() {
            self.counts[number as usize] += other.counts[at];
        }
        for ((a, b), count) in other.pairs {
            *self.pairs.entry((numbers[a as usize], numbers[b as usize])).or_default() += count;
        }
        self.forget(MAX_PAIRS);
    }

    /// Forget the rarest pairs until at most so many are left.
    fn forget(&mut self, max_pairs: usize) {
        while self.pairs.len() > max_pairs {
            self.floor += 1;
            self.pairs.retain(|_, count| *count > self.floor);
        }
    }

    /// The pairs that are phrases, parted by a blank, in alphabetical order.
    pub(in crate::corpus) fn phrases(&self, config: &PhraseConfig) -> Vec<String> {
        let total: u64 = self.counts.iter().sum();
        let mut phrases: Vec<String> = Vec::new();
        for (&(a, b), &count) in &self.pairs {
            let (count_a, count_b) = (self.counts[a as usize], self.counts[b as usize]);
            if count >= config.min_count.max(1) && npmi(count, count_a, count_b, total) >= config.threshold {
                phrases.push(format!("{} {}", self.words[a as usize], self.words[b as usize]));
            }
        }
        phrases.sort_unstable();
        phrases
    }
}

/// The normalised pointwise mutual information of a pair, from how often it and its words occur.
fn npmi(pair: u64, first: u64, second: u64, total: u64) -> f64 {
    let ln = |count: u64| (count as f64).ln();
    let information = ln(total) - ln(pair);
    if information <= 0.0 {
        return 1.0;
    }
    (ln(pair) + ln(total) - ln(first) - ln(second)) / information
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::text::tokenizer::TokenizerConfig;

    #[test]
    fn the_measure_is_one_for_words_that_only_occur_together() {
        assert!((npmi(10, 10, 10, 1000) - 1.0).abs() < 1e-12);
        assert!(npmi(10, 100, 100, 1000).abs() < 1e-12);
        assert!(npmi(1, 100, 100, 1000) < 0.0);
        assert_eq!(npmi(5, 5, 5, 5), 1.0);
    }

    #[test]
    fn planted_phrases_are_found() {
        let tokenizer = Tokenizer::new(&TokenizerConfig::default()).unwrap();
        let mut scratch = TokenScratch::default();
        let (mut all, mut halves) = (PhraseCounts::default(), [PhraseCounts::default(), PhraseCounts::default()]);
        for i in 0..200usize {
            // "machine learning" always together, the other words in every combination.
            let fillers = ["apple", "stone", "river", "cloud", "tiger", "piano", "wheel"];
            let (a, b, c) = (fillers[i % 7], fillers[i / 7 % 7], fillers[i * 5 / 3 % 7]);
            let text = format!("{a} machine learning {b} {c}. Of {b} {a}");
            all.add_text(&tokenizer, &text, &mut scratch);
            halves[i / 100].add_text(&tokenizer, &text, &mut scratch);
        }
        assert_eq!(all.phrases(&PhraseConfig::default()), ["machine learning"]);
        let [mut first, second] = halves;
        first.merge(second);
        assert_eq!(first.phrases(&PhraseConfig::default()), ["machine learning"]);
        assert!(first.phrases(&PhraseConfig { threshold: -1.0, ..PhraseConfig::default() }).len() > 10);
        first.forget(1);
        assert_eq!(first.pairs.len(), 1);
        assert!(PhraseConfig { threshold: f64::NAN, ..PhraseConfig::default() }.check().is_err());
    }
}
