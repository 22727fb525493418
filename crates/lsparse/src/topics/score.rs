//! Held-out scores of topics: document completion, as in the paper's appendix.

use std::sync::Arc;

use lsparse_cuda::Device;
use lsparse_cuda::topics::{Completer, MOST_COMPLETED_TOPICS, Rest, SplitDocuments, Topics as TopicsThere};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use crate::backend::{Place, Trouble, with_buffers};
use crate::data::{RowSource, Rows};
use crate::error::Result;
use crate::topics::local::document::{CHECK_EVERY, Document, DocumentOptions};
use crate::topics::table::WordTable;

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
    /// Whether the split follows the document's number too; else it is the same wherever a document stands.
    pub by_number: bool,
}

impl Default for CompletionOptions {
    fn default() -> Self {
        CompletionOptions { share: 0.2, seed: 0, iterations: 100, tolerance: 0.01, by_number: true }
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
/// The split depends on the seed and the document's number alone, or on the seed alone.
pub fn held_out(num_words: usize, document: usize, options: &CompletionOptions) -> Vec<bool> {
    let count = ((num_words as f64 * options.share).round() as usize).clamp(1, num_words.saturating_sub(1).max(1));
    let mut order: Vec<usize> = (0..num_words).collect();
    let document = if options.by_number { document } else { 0 };
    let mut rng = ChaCha8Rng::seed_from_u64(options.seed ^ (document as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    order.shuffle(&mut rng);
    let mut held = vec![false; num_words];
    order.iter().take(count).for_each(|&i| held[i] = true);
    held
}

/// Score topics on documents, all together: see [`completions`].
pub fn completion(
    topics: &WordTable,
    alpha: &[f32],
    source: &dyn RowSource,
    options: &CompletionOptions,
    place: &Place,
) -> Result<Completion> {
    let mut total = Completion::default();
    completions(topics, alpha, source, options, place, &mut |one| total.add(one))?;
    Ok(total)
}

/// A topic with no more of a document than this, and no larger a prior, has a weight exp(psi(N + alpha)) below 1e-21:
/// it does not come back, and leaving it out changes nothing that single precision holds. (Left in, it costs as much as
/// any other topic.)
const NOTHING: f32 = 0.01;

/// Documents that are read and completed at once.
const DOCUMENTS_AT_ONCE: usize = 4096;

/// The same on a GPU, which has thousands in hand at one time.
const DOCUMENTS_AT_ONCE_THERE: usize = 32_768;

/// The dense document step that completes documents.
fn dense_step(alpha: &[f32], options: &CompletionOptions) -> DocumentOptions {
    DocumentOptions {
        iterations: options.iterations,
        tolerance: options.tolerance,
        active_floor: if alpha.iter().all(|&a| a <= NOTHING) { NOTHING } else { 0.0 },
        ..DocumentOptions::dense(alpha.len())
    }
}

/// Score topics on documents, each handed to `visit` in order: estimate pi_d from 80 % of a document's word types by the
/// dense document step under fixed topics, then take log sum_k `E[pi_dk]` phi_kv of the tokens of the rest.
///
/// `topics` holds phi_kv itself, word by word. A GPU completes documents by the same rules, as long as its memory suffices.
pub fn completions(
    topics: &WordTable,
    alpha: &[f32],
    source: &dyn RowSource,
    options: &CompletionOptions,
    place: &Place,
    visit: &mut dyn FnMut(&Completion),
) -> Result<()> {
    let step = dense_step(alpha, options);
    let mut there =
        place.device.as_ref().map(|device| OnDevice::new(device, topics, alpha, &step)).transpose()?.flatten();
    let mut rows = Rows::sparse(source.dim());
    let mut first = 0;
    while first < source.num_rows() {
        let at_once = if there.is_some() { DOCUMENTS_AT_ONCE_THERE } else { DOCUMENTS_AT_ONCE };
        let count = (source.num_rows() - first).min(at_once);
        rows.clear();
        source.read_f32(first, count, &mut rows)?;
        let splits = (0..count).into_par_iter().with_min_len(64);
        let splits: Vec<Vec<bool>> = splits.map(|n| held_out(rows.sparse_row(n).0.len(), first + n, options)).collect();
        let found = there.as_ref().map(|there| there.complete(&rows, &splits)).transpose()?.flatten();
        let scores: Vec<Completion> = match found {
            Some(found) => found,
            None => {
                // No memory for these is no memory for those behind them.
                there = None;
                let one = |n: usize| {
                    with_buffers(|document| complete(topics, alpha, document, rows.sparse_row(n), &splits[n], &step))
                };
                (0..count).into_par_iter().with_max_len(1).map(one).collect()
            }
        };
        scores.iter().for_each(&mut *visit);
        first += count;
    }
    Ok(())
}

/// Topics on a GPU that documents are completed under.
struct OnDevice {
    completer: Completer,
    rest: Rest,
}

impl OnDevice {
    /// Bring topics there; none where they are too many for it, or its memory does not suffice.
    fn new(device: &Arc<Device>, topics: &WordTable, alpha: &[f32], step: &DocumentOptions) -> Result<Option<Self>> {
        if topics.num_topics > MOST_COMPLETED_TOPICS {
            return Ok(None);
        }
        let WordTable { values, width, scale, .. } = topics;
        let completer = Completer::new(device, &TopicsThere { values, width: *width, scale, alpha });
        let DocumentOptions { iterations, tolerance, active_floor: floor, .. } = *step;
        let rest = Rest { iterations, check_every: CHECK_EVERY, tolerance, floor };
        Ok(Trouble::settle(completer.map_err(Trouble::from))?.map(|completer| OnDevice { completer, rest }))
    }

    /// What completing documents gives; none where memory does not suffice.
    fn complete(&self, rows: &Rows<f32>, splits: &[Vec<bool>]) -> Result<Option<Vec<Completion>>> {
        let part = |n: usize| {
            let (words, counts) = rows.sparse_row(n);
            let of = |wanted: bool| {
                let all = words.iter().copied().zip(counts.iter().copied()).zip(&splits[n]);
                all.filter(move |(_, held)| **held == wanted).map(|(entry, _)| entry).collect::<Vec<_>>()
            };
            (words.len() > 1).then(|| (of(false), of(true)))
        };
        let parted: Vec<_> = (0..splits.len()).into_par_iter().with_min_len(64).map(part).collect();
        let mut documents = SplitDocuments::default();
        let mut found = Vec::with_capacity(splits.len());
        for parted in &parted {
            let Some((seen, held)) = parted else {
                found.push(Completion { skipped: 1, ..Default::default() });
                continue;
            };
            documents.push(seen, held);
            let tokens = held.iter().map(|(_, count)| f64::from(*count)).sum();
            found.push(Completion { tokens, documents: 1, ..Default::default() });
        }
        let logs = self.completer.complete(&documents, &self.rest).map_err(Trouble::from);
        Ok(Trouble::settle(logs)?.map(|logs| {
            let scored = found.iter_mut().filter(|completion| completion.documents > 0);
            scored.zip(logs).for_each(|(completion, log)| completion.log_probability = log);
            found
        }))
    }
}

fn complete(
    topics: &WordTable,
    alpha: &[f32],
    document: &mut Document,
    (words, counts): (&[u32], &[f32]),
    held: &[bool],
    step: &DocumentOptions,
) -> Completion {
    if words.len() < 2 {
        return Completion { skipped: 1, ..Default::default() };
    }
    let (mut seen_words, mut seen_counts) = (Vec::new(), Vec::new());
    for i in 0..words.len() {
        if !held[i] {
            seen_words.push(words[i]);
            seen_counts.push(counts[i]);
        }
    }
    document.solve(topics, alpha, &seen_words, &seen_counts, step, None);
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::backend::CPU;

    /// Topics over 200 words, each with most of its mass on twenty of them.
    fn topics(num: usize) -> WordTable {
        WordTable::new(200, num, 0, |v, row| {
            row.iter_mut().enumerate().for_each(|(k, phi)| {
                let own = (v + 200 - 7 * k % 200) % 200 < 20;
                *phi = if own { 0.045 } else { 0.1 / 180.0 } * (1.0 + ((v * 31 + k * 17) % 13) as f32 / 40.0);
            });
        })
    }

    #[test]
    fn topics_that_are_left_out_would_change_nothing() {
        for (num, total) in [(60, 0.5), (60, 0.05), (300, 0.5)] {
            let (table, alpha) = (topics(num), vec![total / num as f32; num]);
            let options = CompletionOptions::default();
            let fast = dense_step(&alpha, &options);
            let plain = DocumentOptions { active_floor: 0.0, ..fast.clone() };
            assert!(fast.active_floor > 0.0);
            let (mut quick, mut slow) = (Document::default(), Document::default());
            for n in 0..40usize {
                // From two words to eighty, of a few topics.
                let words: BTreeSet<u32> = (0..2 + 2 * n as u32).map(|i| (i * (3 + n as u32 % 4)) % 200).collect();
                let words: Vec<u32> = words.into_iter().collect();
                let counts: Vec<f32> = words.iter().map(|v| 1.0 + (v % 3) as f32).collect();
                let held = held_out(words.len(), n, &options);
                let of = |document: &mut Document, step| {
                    complete(&table, &alpha, document, (&words, &counts), &held, step).score()
                };
                let (a, b) = (of(&mut quick, &fast), of(&mut slow, &plain));
                assert!((a - b).abs() < 1e-6, "document {n} of {num} topics: {a} and {b}");
            }
            assert!(quick.tally().active * 4 < slow.tally().active);
        }
    }

    #[test]
    fn topics_with_a_large_prior_are_never_left_out() {
        assert_eq!(dense_step(&[0.001, 0.5], &CompletionOptions::default()).active_floor, 0.0);
    }

    #[test]
    fn a_document_without_two_words_is_skipped() {
        let (table, options) = (topics(3), CompletionOptions::default());
        let empty = crate::data::CsrRows::new("short", 200, vec![0, 0, 1], vec![4], vec![2.0f32]).unwrap();
        let found = completion(&table, &[0.1; 3], &empty, &options, &CPU).unwrap();
        assert_eq!((found.documents, found.skipped, found.tokens), (0, 2, 0.0));
    }
}
