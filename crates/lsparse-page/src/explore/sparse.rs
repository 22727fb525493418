//! Topics as few numbers: the probability that a topic gives to every word, and the words that have more of it.

use lsparse::topics::WordTable;
use rayon::prelude::*;

/// Words whose smallest probabilities are found together.
const STRETCH: usize = 512;

/// phi_kv as a background a topic and the words above it, topic by topic and word by word.
///
/// The words that a topic has never seen all have what the prior gives them, which is its smallest probability. Nothing is
/// lost where that is not so: the lists are longer then.
pub struct SparseTopics {
    /// V.
    pub vocab_size: usize,
    /// The smallest probability of each topic.
    pub background: Vec<f32>,
    /// Where the words of each topic start, and where the last one's end.
    pub starts: Vec<usize>,
    /// Words of topics, ascending within a topic.
    pub words: Vec<u32>,
    /// Their probabilities.
    pub values: Vec<f32>,
    /// The same the other way round: for each word its topics, ascending, with their probabilities.
    pub by_word: Vec<Vec<(u32, f32)>>,
}

impl SparseTopics {
    /// Of the point estimates of a model.
    pub fn new(table: &WordTable) -> Self {
        let (num, vocab_size) = (table.num_topics, table.vocab_size());
        // The minimum of numbers does not depend on the order in which it is taken.
        let least_of = |words: std::ops::Range<usize>| {
            let mut least = vec![f32::INFINITY; num];
            for v in words {
                least.iter_mut().zip(table.row(v)).for_each(|(least, &p)| *least = if p < *least { p } else { *least });
            }
            least
        };
        let stretches = (0..vocab_size.div_ceil(STRETCH)).into_par_iter();
        let pieces: Vec<Vec<f32>> =
            stretches.map(|at| least_of(at * STRETCH..((at + 1) * STRETCH).min(vocab_size))).collect();
        let mut background = vec![f32::INFINITY; num];
        for piece in &pieces {
            background.iter_mut().zip(piece).for_each(|(least, &p)| *least = least.min(p));
        }
        let of_word = |v: usize| -> Vec<(u32, f32)> {
            let above = table.row(v).iter().zip(&background).enumerate().filter(|(_, (p, least))| p > least);
            above.map(|(k, (&p, _))| (k as u32, p)).collect()
        };
        let by_word: Vec<Vec<(u32, f32)>> = (0..vocab_size).into_par_iter().map(of_word).collect();
        let mut starts = vec![0; num + 1];
        by_word.iter().flatten().for_each(|&(k, _)| starts[k as usize + 1] += 1);
        (0..num).for_each(|k| starts[k + 1] += starts[k]);
        let (mut words, mut values) = (vec![0; starts[num]], vec![0.0; starts[num]]);
        let mut next = starts.clone();
        for (v, topics) in by_word.iter().enumerate() {
            for &(k, p) in topics {
                let at = &mut next[k as usize];
                (words[*at], values[*at]) = (v as u32, p);
                *at += 1;
            }
        }
        SparseTopics { vocab_size, background, starts, words, values, by_word }
    }

    /// K.
    pub fn num_topics(&self) -> usize {
        self.background.len()
    }

    /// The words of a topic above its background, and their probabilities.
    pub fn topic(&self, k: usize) -> (&[u32], &[f32]) {
        let of_k = self.starts[k]..self.starts[k + 1];
        (&self.words[of_k.clone()], &self.values[of_k])
    }
}
