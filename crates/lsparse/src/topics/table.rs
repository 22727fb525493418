//! Topics as documents see them: one row of K numbers for each word, and each word's first responsibilities.

use lsparse_kernels::top_l;
use std::ops::Range;

use rayon::prelude::*;

/// Columns of a table are padded to a multiple of this, so that a row is whole vectors.
const PAD: usize = 16;

/// exp(C_vk) for every word v and topic k, word by word, in single precision, up to a factor a topic.
///
/// C_vk is log phi_kv under point estimates and `E[log phi_kv]` under a posterior; a document never needs C itself:
/// its responsibilities are ratios of exp(C_vk) exp(P_dk). What normalises a topic is held apart as its `scale`, so
/// that new statistics change the entries of their own words and topics alone.
#[derive(Clone)]
pub struct WordTable {
    /// K.
    pub num_topics: usize,
    /// K padded.
    pub width: usize,
    /// V x width: exp(C_vk) / scale_k.
    pub values: Vec<f32>,
    /// One factor a topic.
    pub scale: Vec<f32>,
    /// The cold start: for each word its `start_width` largest topics.
    start_topic: Vec<u32>,
    /// Their responsibilities; all zero for a word that the topics say nothing about.
    start_value: Vec<f32>,
    start_width: usize,
}

/// A word's part of a table, to be filled.
pub struct WordMut<'a> {
    /// Its K entries.
    pub row: &'a mut [f32],
    topic: &'a mut [u32],
    value: &'a mut [f32],
}

impl WordTable {
    /// From a function that fills row v with exp(C_vk); `start_width` topics a word are kept for the cold start.
    pub fn new(
        vocab_size: usize,
        num_topics: usize,
        start_width: usize,
        fill: impl Fn(usize, &mut [f32]) + Send + Sync,
    ) -> Self {
        let mut table = WordTable::filled_with(vocab_size, num_topics, start_width, 0.0);
        let topics: Vec<u32> = (0..num_topics as u32).collect();
        table.par_words().enumerate().for_each(|(v, mut word)| {
            fill(v, word.row);
            let weights = word.row.to_vec();
            word.start_from(&topics, &weights);
        });
        table
    }

    /// From topics that lie one after the other: the entries of some words of a topic. Words are taken a few at a time, so
    /// that what is read and what is written both lie together.
    pub fn by_topics<I: Iterator<Item = f32>>(
        vocab_size: usize,
        num_topics: usize,
        start_width: usize,
        of_topic: impl Fn(usize, Range<usize>) -> I + Send + Sync,
    ) -> Self {
        const AT_ONCE: usize = 64;
        let mut table = WordTable::filled_with(vocab_size, num_topics, start_width, 0.0);
        let topics: Vec<u32> = (0..num_topics as u32).collect();
        table.par_words().chunks(AT_ONCE).enumerate().for_each(|(block, mut words)| {
            let range = block * AT_ONCE..block * AT_ONCE + words.len();
            for k in 0..num_topics {
                words.iter_mut().zip(of_topic(k, range.clone())).for_each(|(word, entry)| word.row[k] = entry);
            }
            for word in &mut words {
                let weights = word.row.to_vec();
                word.start_from(&topics, &weights);
            }
        });
        table
    }

    /// The same number everywhere, every scale 1, and no cold start yet.
    pub fn filled_with(vocab_size: usize, num_topics: usize, start_width: usize, value: f32) -> Self {
        let width = WordTable::width_of(num_topics);
        let start_width = start_width.min(num_topics);
        let mut values = vec![0.0; vocab_size * width];
        values.par_chunks_mut(width.max(1)).for_each(|row| row[..num_topics].fill(value));
        WordTable {
            num_topics,
            width,
            values,
            scale: vec![1.0; num_topics],
            start_topic: vec![0; vocab_size * start_width.max(1)],
            start_value: vec![0.0; vocab_size * start_width.max(1)],
            start_width,
        }
    }

    /// What was written elsewhere: entries, word by word and padded as here, scales, and starts with their width.
    pub(super) fn of(
        num_topics: usize,
        values: Vec<f32>,
        scale: Vec<f32>,
        (start_width, start_topic, start_value): (usize, Vec<u32>, Vec<f32>),
    ) -> Self {
        let width = WordTable::width_of(num_topics);
        WordTable { num_topics, width, values, scale, start_topic, start_value, start_width }
    }

    /// Entries of a word in a table of so many topics.
    pub(super) fn width_of(num_topics: usize) -> usize {
        num_topics.next_multiple_of(PAD)
    }

    /// Every word's part, in parallel.
    pub fn par_words(&mut self) -> impl IndexedParallelIterator<Item = WordMut<'_>> {
        let (num, kept) = (self.num_topics, self.start_width);
        let starts = self.start_topic.par_chunks_mut(kept.max(1)).zip(self.start_value.par_chunks_mut(kept.max(1)));
        self.values.par_chunks_mut(self.width).zip(starts).map(move |(row, (topic, value))| WordMut {
            row: &mut row[..num],
            topic: &mut topic[..kept],
            value: &mut value[..kept],
        })
    }

    /// The same table with the scales worked into its entries.
    pub fn scaled(mut self) -> Self {
        let scale = std::mem::replace(&mut self.scale, vec![1.0; self.num_topics]);
        self.par_words().for_each(|word| word.row.iter_mut().zip(&scale).for_each(|(w, s)| *w *= s));
        self
    }

    /// Number of words.
    pub fn vocab_size(&self) -> usize {
        self.values.len() / self.width
    }

    /// The K entries of a word, up to the topics' scales.
    pub fn row(&self, word: usize) -> &[f32] {
        &self.values[word * self.width..word * self.width + self.num_topics]
    }

    /// Topics and responsibilities that a word starts a document with.
    pub fn start(&self, word: usize) -> (&[u32], &[f32]) {
        let slots = self.start_width.max(1);
        let of_word = word * slots..word * slots + self.start_width;
        (&self.start_topic[of_word.clone()], &self.start_value[of_word])
    }

    /// Topics and responsibilities that all words start a document with, `start_width` of each word.
    pub fn starts(&self) -> (&[u32], &[f32]) {
        let all = self.start_width * self.vocab_size();
        (&self.start_topic[..all], &self.start_value[..all])
    }

    /// Topics a word starts a document with.
    pub fn start_width(&self) -> usize {
        self.start_width
    }
}

impl WordMut<'_> {
    /// Make the largest of `weights`, those of `topics`, the word's first responsibilities, normalised over those kept.
    pub fn start_from(&mut self, topics: &[u32], weights: &[f32]) {
        let kept = self.topic.len();
        if kept == 0 {
            return;
        }
        let take = (kept + 1).min(weights.len());
        let (mut index, mut largest) = (vec![0; take], vec![0.0; take]);
        if top_l(weights, take, &mut index, &mut largest).is_err() {
            return;
        }
        for (i, (topic, value)) in self.topic.iter_mut().zip(self.value.iter_mut()).enumerate() {
            (*topic, *value) = (topics[index[i] as usize], largest[i]);
        }
        // More topics tied for the first place than are kept: the word would push its mass onto arbitrary ones.
        let says_nothing = take > kept && largest[kept] == largest[0];
        let sum: f32 = self.value.iter().sum();
        if says_nothing || sum <= 0.0 {
            self.value.fill(0.0);
        } else {
            self.value.iter_mut().for_each(|r| *r /= sum);
        }
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

    #[test]
    fn scales_can_be_worked_in() {
        let mut table = WordTable::new(2, 3, 0, |v, out| out.fill(v as f32 + 1.0));
        table.scale = vec![0.5, 1.0, 2.0];
        let table = table.scaled();
        assert_eq!(table.row(1), [1.0, 2.0, 4.0]);
        assert_eq!(table.scale, [1.0; 3]);
    }
}
