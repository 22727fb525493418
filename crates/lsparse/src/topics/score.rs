//! Held-out scores of topics: document completion, as in the paper's appendix.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use super::document::{Document, DocumentOptions};
use super::table::WordTable;
use crate::data::{RowSource, Rows};
use crate::error::Result;

/// How documents are completed.
#[derive(Clone, Debug)]
pub struct CompletionOptions {
    /// Share of a document's word types that is held out.
    pub share: f64,
    /// Seed of the split, the same for every system that is compared.
    pub seed: u64,
    /// Iterations of the dense document step at most.
    pub iterations: usize,
    /// Stop when no topic's count changes by more than this.
    pub tolerance: f32,
}

impl Default for CompletionOptions {
    fn default() -> Self {
        CompletionOptions { share: 0.2, seed: 0, iterations: 100, tolerance: 0.01 }
    }
}

/// What a completion gave.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Completion {
    /// Sum of the log probabilities of held-out tokens.
    pub log_probability: f64,
    /// Held-out tokens.
    pub tokens: f64,
    /// Documents scored.
    pub documents: usize,
    /// Documents with fewer than two word types, which cannot be split.
    pub skipped: usize,
}

impl Completion {
    /// Add what another completion gave.
    pub fn add(&mut self, other: &Completion) {
        self.log_probability += other.log_probability;
        self.tokens += other.tokens;
        self.documents += other.documents;
        self.skipped += other.skipped;
    }

    /// Mean log probability of a held-out token.
    pub fn score(&self) -> f64 {
        self.log_probability / self.tokens
    }

    /// exp(-score).
    pub fn perplexity(&self) -> f64 {
        (-self.score()).exp()
    }
}

/// Which of a document's word types are held out: the positions in its list, ascending.
///
/// The split depends on the seed and the document's number alone.
pub fn held_out(num_words: usize, document: usize, options: &CompletionOptions) -> Vec<bool> {
    let count = ((num_words as f64 * options.share).round() as usize).clamp(1, num_words.saturating_sub(1).max(1));
    let mut order: Vec<usize> = (0..num_words).collect();
    let mut rng = ChaCha8Rng::seed_from_u64(options.seed ^ (document as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    order.shuffle(&mut rng);
    let mut held = vec![false; num_words];
    order[..count].iter().for_each(|&i| held[i] = true);
    held
}

/// Score topics on documents, all together: see [`completions`].
pub fn completion(
    topics: &WordTable,
    alpha: &[f32],
    source: &dyn RowSource,
    options: &CompletionOptions,
) -> Result<Completion> {
    let mut total = Completion::default();
    completions(topics, alpha, source, options, &mut |one| total.add(one))?;
    Ok(total)
}

/// Score topics on documents, each handed to `visit` in order: estimate pi_d from 80 % of a document's word types by the dense document step under
/// fixed topics, then take log sum_k `E[pi_dk]` phi_kv of the tokens of the rest.
///
/// `topics` holds phi_kv itself, word by word.
pub fn completions(
    topics: &WordTable,
    alpha: &[f32],
    source: &dyn RowSource,
    options: &CompletionOptions,
    visit: &mut dyn FnMut(&Completion),
) -> Result<()> {
    let mut rows = Rows::sparse(source.dim());
    let mut first = 0;
    while first < source.num_rows() {
        let count = (source.num_rows() - first).min(256);
        rows.clear();
        source.read_f32(first, count, &mut rows)?;
        let scores: Vec<Completion> = (0..count)
            .into_par_iter()
            .map_init(Document::default, |document, n| {
                let (words, counts) = rows.sparse_row(n);
                complete(topics, alpha, document, words, counts, first + n, options)
            })
            .collect();
        scores.iter().for_each(&mut *visit);
        first += count;
    }
    Ok(())
}

fn complete(
    topics: &WordTable,
    alpha: &[f32],
    document: &mut Document,
    words: &[u32],
    counts: &[f32],
    number: usize,
    options: &CompletionOptions,
) -> Completion {
    if words.len() < 2 {
        return Completion { skipped: 1, ..Default::default() };
    }
    let held = held_out(words.len(), number, options);
    let (mut seen_words, mut seen_counts) = (Vec::new(), Vec::new());
    for i in 0..words.len() {
        if !held[i] {
            seen_words.push(words[i]);
            seen_counts.push(counts[i]);
        }
    }
    let step = DocumentOptions {
        iterations: options.iterations,
        tolerance: options.tolerance,
        ..DocumentOptions::dense(topics.num_topics)
    };
    document.solve(topics, alpha, &seen_words, &seen_counts, &step, None);
    let mut pi: Vec<f64> = alpha.iter().map(|&a| f64::from(a)).collect();
    for (k, n) in document.topic_counts() {
        pi[k as usize] += f64::from(n);
    }
    let sum: f64 = pi.iter().sum();
    let mut result = Completion { documents: 1, ..Default::default() };
    for i in 0..words.len() {
        if held[i] {
            let phi = topics.row(words[i] as usize);
            let probability: f64 = pi.iter().zip(phi).map(|(p, &f)| p * f64::from(f)).sum();
            result.log_probability += f64::from(counts[i]) * (probability / sum).ln();
            result.tokens += f64::from(counts[i]);
        }
    }
    result
}
