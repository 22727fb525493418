//! Distances between all pairs: Hellinger's of topics, by the words that they share, or those that are given.

use rayon::prelude::*;

use crate::explore::sparse::SparseTopics;

/// The distances of all pairs.
pub struct Distances {
    num: usize,
    /// K x K, symmetric.
    square: Vec<f32>,
}

/// The nearest topics of every topic, the nearest first.
pub struct Neighbours {
    /// How many each has.
    pub count: usize,
    /// K x `count` topics.
    pub topic: Vec<u32>,
    /// Their distances.
    pub distance: Vec<f32>,
}

impl Distances {
    /// sqrt(sum_v (sqrt(phi_kv) - sqrt(phi_jv))^2 / 2) for all pairs of topics: 0 for the same words, 1 for no word in common.
    ///
    /// With sqrt(phi_kv) = b_k + s_kv, where b_k is what every word has and s_kv is zero for most, the sum of
    /// sqrt(phi_kv phi_jv) is V b_k b_j + b_k S_j + b_j S_k + sum_v s_kv s_jv, so that a topic meets others only in words
    /// that both have.
    pub fn new(topics: &SparseTopics) -> Self {
        let (num, vocab) = (topics.num_topics(), topics.vocab_size as f64);
        let base: Vec<f64> = topics.background.iter().map(|&b| f64::from(b).sqrt()).collect();
        let roots: Vec<Vec<(u32, f64)>> = (topics.by_word.par_iter())
            .map(|list| list.iter().map(|&(k, p)| (k, f64::from(p).sqrt() - base[k as usize])).collect())
            .collect();
        // Of each topic the sum of s_kv, and that of phi_kv, which 32 bits leave not quite one.
        let sums: Vec<(f64, f64)> = (0..num)
            .into_par_iter()
            .map(|k| {
                let (words, values) = topics.topic(k);
                let background = f64::from(topics.background[k]) * (vocab - words.len() as f64);
                let excess = values.iter().map(|&p| f64::from(p).sqrt() - base[k]).sum();
                (excess, background + values.iter().map(|&p| f64::from(p)).sum::<f64>())
            })
            .collect();
        let mut square = vec![0.0f32; num * num];
        square.par_chunks_mut(num.max(1)).enumerate().for_each_init(
            || vec![0.0f64; num],
            |shared, (k, row)| {
                shared[k..].fill(0.0);
                let (words, values) = topics.topic(k);
                for (&v, &p) in words.iter().zip(values) {
                    let list = &roots[v as usize];
                    let s = f64::from(p).sqrt() - base[k];
                    let later = list.partition_point(|entry| entry.0 as usize <= k);
                    list[later..].iter().for_each(|&(j, other)| shared[j as usize] += s * other);
                }
                for j in k + 1..num {
                    let overlap = vocab * base[k] * base[j] + base[k] * sums[j].0 + base[j] * sums[k].0 + shared[j];
                    row[j] = (0.5 * (sums[k].1 + sums[j].1) - overlap).max(0.0).sqrt() as f32;
                }
            },
        );
        mirror(&mut square, num);
        Distances { num, square }
    }

    /// Of another kind, given above the diagonal (K x K).
    pub fn of_square(num: usize, mut square: Vec<f32>) -> Self {
        mirror(&mut square, num);
        Distances { num, square }
    }

    /// K.
    pub fn num_topics(&self) -> usize {
        self.num
    }

    /// The distances of a topic to all.
    pub fn row(&self, k: usize) -> &[f32] {
        &self.square[k * self.num..(k + 1) * self.num]
    }

    /// All of them, row by row.
    pub fn into_square(self) -> Vec<f32> {
        self.square
    }

    /// The `count` nearest topics of each, of equals the lower one first.
    pub fn neighbours(&self, count: usize) -> Neighbours {
        let count = count.min(self.num.saturating_sub(1));
        let of_topic = |k: usize| {
            let row = self.row(k);
            let nearer = |&a: &u32, &b: &u32| row[a as usize].total_cmp(&row[b as usize]).then(a.cmp(&b));
            let mut others: Vec<u32> = (0..self.num as u32).filter(|&j| j as usize != k).collect();
            if count < others.len() {
                others.select_nth_unstable_by(count, nearer);
                others.truncate(count);
            }
            others.sort_unstable_by(nearer);
            others
        };
        let lists: Vec<Vec<u32>> = (0..self.num).into_par_iter().map(of_topic).collect();
        let distance =
            lists.iter().enumerate().flat_map(|(k, list)| list.iter().map(move |&j| self.row(k)[j as usize]));
        Neighbours { count, distance: distance.collect(), topic: lists.concat() }
    }
}

/// Copy what is above the diagonal below it, by tiles, since columns are far apart in memory.
fn mirror(square: &mut [f32], num: usize) {
    const TILE: usize = 64;
    for first in (0..num).step_by(TILE) {
        for second in (first..num).step_by(TILE) {
            for i in first..(first + TILE).min(num) {
                for j in second.max(i + 1)..(second + TILE).min(num) {
                    square[j * num + i] = square[i * num + j];
                }
            }
        }
    }
}
