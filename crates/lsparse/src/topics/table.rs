//! Topics as documents see them: one row of K numbers for each word, and each word's first responsibilities.

use lsparse_kernels::top_l;
use rayon::prelude::*;

/// Columns of a table are padded to a multiple of this, so that a row is whole vectors.
const PAD: usize = 16;

/// exp(C_vk) for every word v and topic k, word by word, in single precision.
///
/// C_vk is log phi_kv under point estimates and `E[log phi_kv]` under a posterior; a document never needs C itself:
/// its responsibilities are ratios of exp(C_vk) exp(P_dk).
pub struct WordTable {
    /// K.
    pub num_topics: usize,
    /// K padded.
    pub width: usize,
    /// V x width.
    pub values: Vec<f32>,
    /// The cold start: for each word its `start_width` largest topics.
    start_topic: Vec<u32>,
    /// Their responsibilities; all zero for a word that the topics say nothing about.
    start_value: Vec<f32>,
    start_width: usize,
}

impl WordTable {
    /// From a function that fills row v; `start_width` topics a word are kept for the cold start (0 for none).
    pub fn new(
        vocab_size: usize,
        num_topics: usize,
        start_width: usize,
        fill: impl Fn(usize, &mut [f32]) + Send + Sync,
    ) -> Self {
        let width = num_topics.next_multiple_of(PAD);
        let start_width = start_width.min(num_topics);
        let mut values = vec![0.0; vocab_size * width];
        let mut start_topic = vec![0; vocab_size * start_width];
        let mut start_value = vec![0.0; vocab_size * start_width];
        if start_width == 0 {
            values.par_chunks_mut(width).enumerate().for_each(|(v, row)| fill(v, &mut row[..num_topics]));
        } else {
            let starts = start_topic.par_chunks_mut(start_width).zip(start_value.par_chunks_mut(start_width));
            values.par_chunks_mut(width).zip(starts).enumerate().for_each(|(v, (row, (topic, value)))| {
                fill(v, &mut row[..num_topics]);
                first_responsibilities(&row[..num_topics], topic, value);
            });
        }
        WordTable { num_topics, width, values, start_topic, start_value, start_width }
    }

    /// Number of words.
    pub fn vocab_size(&self) -> usize {
        self.values.len() / self.width
    }

    /// The K entries of a word.
    pub fn row(&self, word: usize) -> &[f32] {
        &self.values[word * self.width..word * self.width + self.num_topics]
    }

    /// Topics and responsibilities that a word starts a document with.
    pub fn start(&self, word: usize) -> (&[u32], &[f32]) {
        let of_word = word * self.start_width..(word + 1) * self.start_width;
        (&self.start_topic[of_word.clone()], &self.start_value[of_word])
    }
}

/// The largest entries of a row, normalised over those kept.
fn first_responsibilities(row: &[f32], topic: &mut [u32], value: &mut [f32]) {
    let kept = topic.len();
    let (mut more_topic, mut more_value) = (vec![0; (kept + 1).min(row.len())], vec![0.0; (kept + 1).min(row.len())]);
    let take = more_topic.len();
    if top_l(row, take, &mut more_topic, &mut more_value).is_err() {
        return;
    }
    topic.copy_from_slice(&more_topic[..kept]);
    value.copy_from_slice(&more_value[..kept]);
    // More topics tied for the first place than are kept: the word would push its mass onto arbitrary ones.
    let says_nothing = take > kept && more_value[kept] == more_value[0];
    let sum: f32 = value.iter().sum();
    if says_nothing || sum <= 0.0 {
        value.fill(0.0);
    } else {
        value.iter_mut().for_each(|r| *r /= sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_padded_and_starts_are_the_largest_normalised() {
        let rows = [[0.1f32, 0.6, 0.2, 0.1], [0.25; 4], [0.0, 0.5, 0.5, 0.0]];
        let table = WordTable::new(3, 4, 2, |v, out| out.copy_from_slice(&rows[v]));
        assert_eq!((table.width, table.vocab_size()), (16, 3));
        assert_eq!(table.row(0), rows[0]);
        let (topic, value) = table.start(0);
        assert_eq!(topic, [1, 2]);
        assert!((value[0] - 0.75).abs() < 1e-6);
        assert_eq!(table.start(1).1, [0.0, 0.0], "a word that fits all topics alike says nothing");
        assert_eq!(table.start(2).1, [0.5, 0.5]);
    }
}
