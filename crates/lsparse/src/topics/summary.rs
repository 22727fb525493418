//! Statistics of topics: how much of each word each topic has, sparse for a batch and dense for the total.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::summary::Summary;

/// S_kv word by word.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum WordStats {
    /// V x K.
    Dense(Vec<f64>),
    /// For each word the topics that have any of it: what L-sparse responsibilities leave, and what is memoized.
    Sparse(SparseStats),
}

/// For each word a list of (topic, mass), topics ascending.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SparseStats {
    /// Word v's entries are `indptr[v]..indptr[v + 1]`.
    pub indptr: Vec<usize>,
    /// Topics.
    pub topic: Vec<u32>,
    /// Mass; single precision, which bounds a memo's size and is far below the noise of the estimate.
    pub mass: Vec<f32>,
}

impl SparseStats {
    /// No mass for any of `vocab_size` words.
    pub fn empty(vocab_size: usize) -> Self {
        SparseStats { indptr: vec![0; vocab_size + 1], topic: Vec::new(), mass: Vec::new() }
    }

    /// Entries of a word.
    pub fn word(&self, v: usize) -> (&[u32], &[f32]) {
        let of_v = self.indptr[v]..self.indptr[v + 1];
        (&self.topic[of_v.clone()], &self.mass[of_v])
    }

    /// Add entries that are grouped by word (`start[v]..start[v + 1]`), each word's summed in their order.
    ///
    /// Words are worked on in fixed ranges in parallel, each with one dense row of K numbers.
    pub fn merge(&mut self, num_topics: usize, start: &[usize], topic: &[u32], mass: &[f32]) {
        const WORDS: usize = 256;
        let vocab_size = self.indptr.len() - 1;
        let pieces: Vec<(Vec<usize>, Vec<u32>, Vec<f32>)> = (0..vocab_size.div_ceil(WORDS))
            .into_par_iter()
            .map_init(
                || (vec![0.0f64; num_topics], Vec::<u32>::new()),
                |(row, touched), piece| {
                    let words = piece * WORDS..((piece + 1) * WORDS).min(vocab_size);
                    let (mut lengths, mut topics, mut masses) = (Vec::with_capacity(WORDS), Vec::new(), Vec::new());
                    for v in words {
                        let (old_topic, old_mass) = self.word(v);
                        let fresh = start[v]..start[v + 1];
                        if fresh.is_empty() {
                            topics.extend_from_slice(old_topic);
                            masses.extend_from_slice(old_mass);
                            lengths.push(old_topic.len());
                            continue;
                        }
                        touched.clear();
                        let entries =
                            old_topic.iter().zip(old_mass).chain(topic[fresh.clone()].iter().zip(&mass[fresh]));
                        for (&k, &m) in entries {
                            if row[k as usize] == 0.0 {
                                touched.push(k);
                            }
                            row[k as usize] += f64::from(m);
                        }
                        touched.sort_unstable();
                        touched.dedup();
                        for &k in touched.iter() {
                            topics.push(k);
                            masses.push(std::mem::take(&mut row[k as usize]) as f32);
                        }
                        lengths.push(touched.len());
                    }
                    (lengths, topics, masses)
                },
            )
            .collect();
        self.topic.clear();
        self.mass.clear();
        let mut v = 0;
        for (lengths, topics, masses) in pieces {
            for length in lengths {
                self.indptr[v + 1] = self.indptr[v] + length;
                v += 1;
            }
            self.topic.extend(topics);
            self.mass.extend(masses);
        }
    }
}

/// Statistics of documents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopicSummary {
    /// K.
    pub num_topics: usize,
    /// S_kv.
    pub words: WordStats,
    /// N_k = sum_v S_kv.
    pub counts: Vec<f64>,
    /// Entropy of the responsibilities.
    pub entropy: f64,
    /// Allocation term of the documents.
    pub alloc: f64,
    /// sum_d psi(N_dk + alpha_k) - psi(alpha_k) over documents, for learning alpha.
    pub alpha_topic: Vec<f64>,
    /// sum_d psi(N_d + alpha) - psi(alpha), likewise.
    pub alpha_total: f64,
    /// Documents.
    pub documents: f64,
}

impl TopicSummary {
    /// No documents; `words` says how the statistics are held.
    pub fn new(num_topics: usize, words: WordStats) -> Self {
        TopicSummary {
            num_topics,
            words,
            counts: vec![0.0; num_topics],
            entropy: 0.0,
            alloc: 0.0,
            alpha_topic: vec![0.0; num_topics],
            alpha_total: 0.0,
            documents: 0.0,
        }
    }

    /// V.
    pub fn vocab_size(&self) -> usize {
        match &self.words {
            WordStats::Dense(values) => values.len() / self.num_topics,
            WordStats::Sparse(sparse) => sparse.indptr.len() - 1,
        }
    }

    /// The statistics word by word in full, as totals are.
    pub fn dense(&self) -> Option<&[f64]> {
        match &self.words {
            WordStats::Dense(values) => Some(values),
            WordStats::Sparse(_) => None,
        }
    }

    /// Statistics held in full with the topics in another order: topic `order[k]` becomes topic `k`.
    pub fn reordered(&self, order: &[usize]) -> Self {
        let pick = |row: &[f64]| order.iter().map(|&k| row[k]).collect::<Vec<f64>>();
        let words = match &self.words {
            WordStats::Dense(values) => WordStats::Dense(values.chunks_exact(self.num_topics).flat_map(pick).collect()),
            WordStats::Sparse(_) => unreachable!("totals are held in full"),
        };
        TopicSummary { words, counts: pick(&self.counts), alpha_topic: pick(&self.alpha_topic), ..self.clone() }
    }

    /// The same statistics held in full.
    pub fn into_dense(self) -> Self {
        let num_topics = self.num_topics;
        let WordStats::Sparse(sparse) = &self.words else { return self };
        let mut values = vec![0.0; (sparse.indptr.len() - 1) * num_topics];
        add_sparse(&mut values, num_topics, sparse, 1.0);
        TopicSummary { words: WordStats::Dense(values), ..self }
    }
}

fn add_sparse(into: &mut [f64], num_topics: usize, from: &SparseStats, factor: f64) {
    into.par_chunks_mut(num_topics).enumerate().for_each(|(v, row)| {
        let (topic, mass) = from.word(v);
        for (&k, &m) in topic.iter().zip(mass) {
            let value = row[k as usize] + factor * f64::from(m);
            // Taking away what was added may leave a trace of rounding on the wrong side of zero.
            row[k as usize] = value.max(0.0);
        }
    });
}

impl Summary for TopicSummary {
    fn add_scaled(&mut self, other: &Self, factor: f64) {
        let num_topics = self.num_topics;
        match (&mut self.words, &other.words) {
            (WordStats::Dense(into), WordStats::Sparse(from)) => add_sparse(into, num_topics, from, factor),
            (WordStats::Dense(into), WordStats::Dense(from)) => {
                into.par_chunks_mut(1 << 14).zip(from.par_chunks(1 << 14)).for_each(|(into, from)| {
                    into.iter_mut().zip(from).for_each(|(a, b)| *a = (*a + factor * b).max(0.0));
                });
            }
            (WordStats::Sparse(_), _) => unreachable!("totals are held in full"),
        }
        let add = |into: &mut [f64], from: &[f64]| into.iter_mut().zip(from).for_each(|(a, b)| *a += factor * b);
        add(&mut self.counts, &other.counts);
        add(&mut self.alpha_topic, &other.alpha_topic);
        self.entropy += factor * other.entropy;
        self.alloc += factor * other.alloc;
        self.alpha_total += factor * other.alpha_total;
        self.documents += factor * other.documents;
    }

    fn scale(&mut self, factor: f64) {
        match &mut self.words {
            WordStats::Dense(values) => values.par_iter_mut().for_each(|v| *v *= factor),
            WordStats::Sparse(sparse) => sparse.mass.iter_mut().for_each(|m| *m = (f64::from(*m) * factor) as f32),
        }
        self.counts.iter_mut().chain(&mut self.alpha_topic).for_each(|v| *v *= factor);
        self.entropy *= factor;
        self.alloc *= factor;
        self.alpha_total *= factor;
        self.documents *= factor;
    }

    fn counts(&self) -> &[f64] {
        &self.counts
    }

    fn resident_bytes(&self) -> usize {
        let words = match &self.words {
            WordStats::Dense(values) => size_of_val(values.as_slice()),
            WordStats::Sparse(SparseStats { indptr, topic, mass }) => {
                size_of_val(indptr.as_slice()) + size_of_val(topic.as_slice()) + size_of_val(mass.as_slice())
            }
        };
        words + size_of_val(self.counts.as_slice()) + size_of_val(self.alpha_topic.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merging_sums_by_word_and_topic_and_dense_totals_take_sparse_ones() {
        let mut sparse = SparseStats::empty(3);
        sparse.merge(4, &[0, 2, 2, 3], &[3, 1, 0], &[1.0, 2.0, 4.0]);
        sparse.merge(4, &[0, 1, 2, 2], &[3, 2], &[0.5, 8.0]);
        assert_eq!(sparse.word(0), (&[1, 3][..], &[2.0, 1.5][..]));
        assert_eq!(sparse.word(1), (&[2][..], &[8.0][..]));
        assert_eq!(sparse.word(2), (&[0][..], &[4.0][..]));
        let mut summary = TopicSummary::new(4, WordStats::Sparse(sparse));
        summary.counts = vec![4.0, 2.0, 8.0, 1.5];
        let mut total = summary.clone().into_dense();
        total.add_scaled(&summary, 1.0);
        assert_eq!(total.dense().unwrap()[3], 3.0);
        total.add_scaled(&summary, -2.0);
        assert!(total.dense().unwrap().iter().all(|&v| v == 0.0));
        assert!(total.counts.iter().all(|&v| v == 0.0));
    }
}
