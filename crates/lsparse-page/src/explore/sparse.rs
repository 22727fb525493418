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
    /// sqrt(phi_kv) above the root of the background, for the same words.
    pub roots: Vec<f64>,
    /// Where the topics of each word start, and where the last one's end.
    word_starts: Vec<usize>,
    /// The same the other way round: for each word its topics, ascending, with their probabilities.
    by_word: Vec<(u32, f32)>,
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
        let lists: Vec<Vec<(u32, f32)>> = (0..vocab_size).into_par_iter().map(of_word).collect();
        let (mut word_starts, mut starts) = (vec![0; vocab_size + 1], vec![0; num + 1]);
        lists.iter().enumerate().for_each(|(v, list)| word_starts[v + 1] = word_starts[v] + list.len());
        let by_word = lists.concat();
        drop(lists);
        by_word.iter().for_each(|&(k, _)| starts[k as usize + 1] += 1);
        (0..num).for_each(|k| starts[k + 1] += starts[k]);
        let (mut words, mut values) = (vec![0; starts[num]], vec![0.0; starts[num]]);
        let mut next = starts.clone();
        for v in 0..vocab_size {
            for &(k, p) in &by_word[word_starts[v]..word_starts[v + 1]] {
                let at = &mut next[k as usize];
                (words[*at], values[*at]) = (v as u32, p);
                *at += 1;
            }
        }
        let mut roots = vec![0.0; values.len()];
        for k in 0..num {
            let (of_k, base) = (starts[k]..starts[k + 1], f64::from(background[k]).sqrt());
            roots[of_k.clone()].iter_mut().zip(&values[of_k]).for_each(|(r, &p)| *r = f64::from(p).sqrt() - base);
        }
        SparseTopics { vocab_size, background, starts, words, values, roots, word_starts, by_word }
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

    /// The words of a topic above its background, and how far their roots are above its root.
    pub fn topic_roots(&self, k: usize) -> (&[u32], &[f64]) {
        let of_k = self.starts[k]..self.starts[k + 1];
        (&self.words[of_k.clone()], &self.roots[of_k])
    }

    /// The topics that have a word above their background, ascending, and its probabilities.
    pub fn word(&self, v: usize) -> &[(u32, f32)] {
        &self.by_word[self.word_starts[v]..self.word_starts[v + 1]]
    }
}
