//! Distances between all pairs: Hellinger's of topics, by the words that they share, or those that are given.

use lsparse_kernels::{PANEL, cross_products};
use rayon::prelude::*;

use crate::explore::sparse::SparseTopics;

/// A word that one topic in so many has is one that most pairs meet in: products over all pairs are cheaper for it than
/// lists.
const COMMON: usize = 6;

/// Words whose products are summed before they are added to those of others.
const CHUNK: usize = 256;

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

/// What the distances of topics are made of.
///
/// With sqrt(phi_kv) = b_k + s_kv, where b_k is what every word has and s_kv is zero for most, the sum of
/// sqrt(phi_kv phi_jv) is V b_k b_j + b_k S_j + b_j S_k + sum_v s_kv s_jv, so that a topic meets others only in words that
/// both have.
struct Hellinger {
    vocab: f64,
    /// b_k
    base: Vec<f64>,
    /// S_k, and the sum of phi_kv, which 32 bits leave not quite one.
    sums: Vec<(f64, f64)>,
}

impl Hellinger {
    fn new(topics: &SparseTopics) -> Self {
        let vocab = topics.vocab_size as f64;
        let of_topic = |k: usize| {
            let (words, values) = topics.topic(k);
            let background = f64::from(topics.background[k]) * (vocab - words.len() as f64);
            let sum = background + values.iter().map(|&p| f64::from(p)).sum::<f64>();
            (topics.topic_roots(k).1.iter().sum(), sum)
        };
        Hellinger {
            vocab,
            base: topics.background.iter().map(|&b| f64::from(b).sqrt()).collect(),
            sums: (0..topics.num_topics()).into_par_iter().map(of_topic).collect(),
        }
    }

    /// The square of the distance, of the sum of s_kv s_jv.
    fn square(&self, k: usize, j: usize, shared: f64) -> f64 {
        let (base, sums) = (&self.base, &self.sums);
        let overlap = self.vocab * base[k] * base[j] + base[k] * sums[j].0 + base[j] * sums[k].0 + shared;
        (0.5 * (sums[k].1 + sums[j].1) - overlap).max(0.0)
    }
}

impl Distances {
    /// sqrt(sum_v (sqrt(phi_kv) - sqrt(phi_jv))^2 / 2) for all pairs of topics: 0 for the same words, 1 for no word in common.
    ///
    /// Products are summed in 32 bits: a square is off by [`off_by`] at most, and by far less as a rule.
    pub fn new(topics: &SparseTopics) -> Self {
        let num = topics.num_topics();
        let about = Hellinger::new(topics);
        // Topics without a word of their own meet nobody.
        let filled: Vec<usize> = (0..num).filter(|&k| !topics.topic(k).0.is_empty()).collect();
        let is_common: Vec<bool> =
            (0..topics.vocab_size).map(|v| topics.word(v).len() * COMMON >= filled.len().max(1)).collect();
        let panels = panels(topics, &filled, &is_common, &about.base);
        let rare = Rare::new(topics, &is_common, &about.base);
        let mut square = vec![0.0f32; num * num];
        let rows: Vec<&mut [f32]> = square.chunks_mut(num.max(1)).collect();
        let (mut with_words, mut without) = (Vec::with_capacity(filled.len()), Vec::new());
        for (k, row) in rows.into_iter().enumerate() {
            if topics.topic(k).0.is_empty() { without.push((k, row)) } else { with_words.push((k, row)) }
        }
        with_words.par_chunks_mut(PANEL).enumerate().for_each_init(
            || vec![0.0f32; PANEL * PANEL],
            |tile, (p, rows)| {
                for q in p..panels.len() {
                    tile.fill(0.0);
                    for (left, right) in panels[p].chunks(CHUNK * PANEL).zip(panels[q].chunks(CHUNK * PANEL)) {
                        cross_products(left, right, tile);
                    }
                    let others = &filled[q * PANEL..((q + 1) * PANEL).min(filled.len())];
                    for ((_, row), products) in rows.iter_mut().zip(tile.chunks(PANEL)) {
                        others.iter().zip(products).for_each(|(&j, &product)| row[j] = product);
                    }
                }
                for (k, row) in rows {
                    rare.add(topics, *k, row);
                    finish(&about, *k, row);
                }
            },
        );
        without.par_iter_mut().for_each(|(k, row)| finish(&about, *k, row));
        mirror(&mut square, num);
        Distances { num, square }
    }

    /// Of another kind, given above the diagonal (K x K); what is no number is as far away as can be.
    pub fn of_square(num: usize, mut square: Vec<f32>) -> Self {
        square.iter_mut().filter(|d| d.is_nan()).for_each(|d| *d = f32::INFINITY);
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
            let mut others: Vec<(f32, u32)> = (0..self.num).filter(|&j| j != k).map(|j| (row[j], j as u32)).collect();
            first(&mut others, count);
            others
        };
        Neighbours::of_lists(count, (0..self.num).into_par_iter().map(of_topic).collect())
    }

    /// Neighbours whose distances are known better than the others.
    pub fn refine(&mut self, near: &Neighbours) {
        for (at, (&j, &distance)) in near.topic.iter().zip(&near.distance).enumerate() {
            let (k, j) = (at / near.count, j as usize);
            self.square[k * self.num + j] = distance;
            self.square[j * self.num + k] = distance;
        }
    }

    /// The same for topics, by their distances in 64 bits: of each topic all others are looked at anew that may be among
    /// its nearest.
    pub fn nearest_topics(&self, topics: &SparseTopics, count: usize) -> Neighbours {
        let (num, count) = (self.num, count.min(self.num.saturating_sub(1)));
        let about = Hellinger::new(topics);
        let of_topic = |(excess, squares): &mut (Vec<f64>, Vec<f32>), k: usize| {
            let (words, roots) = topics.topic_roots(k);
            squares.clear();
            squares.extend(self.row(k).iter().enumerate().filter(|&(j, _)| j != k).map(|(_, d)| d * d));
            let furthest =
                if count < squares.len() { *squares.select_nth_unstable_by(count, f32::total_cmp).1 } else { 2.0 };
            let limit = furthest + 2.0 * off_by(words.len());
            words.iter().zip(roots).for_each(|(&v, &root)| excess[v as usize] = root);
            let exact = |j: usize| {
                let (theirs, roots) = topics.topic_roots(j);
                let shared = theirs.iter().zip(roots).map(|(&v, &root)| excess[v as usize] * root).sum();
                about.square(k.min(j), k.max(j), shared).sqrt() as f32
            };
            let may_be = self.row(k).iter().enumerate().filter(|&(j, d)| j != k && d * d <= limit);
            let mut others: Vec<(f32, u32)> = may_be.map(|(j, _)| (exact(j), j as u32)).collect();
            words.iter().for_each(|&v| excess[v as usize] = 0.0);
            first(&mut others, count);
            others
        };
        let scratch = || (vec![0.0; topics.vocab_size], Vec::with_capacity(num));
        Neighbours::of_lists(count, (0..num).into_par_iter().map_init(scratch, of_topic).collect())
    }
}

impl Neighbours {
    fn of_lists(count: usize, lists: Vec<Vec<(f32, u32)>>) -> Self {
        let all = lists.iter().flatten();
        Neighbours {
            count,
            topic: all.clone().map(|entry| entry.1).collect(),
            distance: all.map(|entry| entry.0).collect(),
        }
    }
}

/// How far the square of a distance may be off that was summed in 32 bits, for a topic with so many words: every product and
/// sum adds one part in 2^24 of the products so far, which are at most one, and the root and its square two.
pub fn off_by(words: usize) -> f32 {
    (words + 8) as f32 * (0.5 * f32::EPSILON)
}

/// Keep the first `count` in order.
fn first(others: &mut Vec<(f32, u32)>, count: usize) {
    let nearer = |a: &(f32, u32), b: &(f32, u32)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
    if count < others.len() {
        others.select_nth_unstable_by(count, nearer);
        others.truncate(count);
    }
    others.sort_unstable_by(nearer);
}

/// The distances from products, behind the diagonal.
fn finish(about: &Hellinger, k: usize, row: &mut [f32]) {
    for (j, entry) in row.iter_mut().enumerate().skip(k + 1) {
        *entry = (about.square(k, j, f64::from(*entry)) as f32).sqrt();
    }
    row[..=k].fill(0.0);
}

/// s_kv of common words, for PANEL topics at a time: word by word, a row of PANEL each.
fn panels(topics: &SparseTopics, filled: &[usize], is_common: &[bool], base: &[f64]) -> Vec<Vec<f32>> {
    let common: Vec<usize> = (0..topics.vocab_size).filter(|&v| is_common[v]).collect();
    let of_topics = |members: &[usize]| {
        let mut panel = vec![0.0; common.len() * PANEL];
        for (&v, row) in common.iter().zip(panel.chunks_mut(PANEL)) {
            let list = topics.word(v);
            let from = list.partition_point(|entry| (entry.0 as usize) < members[0]);
            let mut at = 0;
            for &(k, p) in &list[from..] {
                while at < members.len() && members[at] < k as usize {
                    at += 1;
                }
                if at == members.len() {
                    break;
                }
                row[at] = (f64::from(p).sqrt() - base[k as usize]) as f32;
            }
        }
        panel
    };
    filled.par_chunks(PANEL).map(of_topics).collect()
}

/// s_kv of the other words, word by word.
struct Rare {
    starts: Vec<usize>,
    lists: Vec<(u32, f32)>,
}

impl Rare {
    fn new(topics: &SparseTopics, is_common: &[bool], base: &[f64]) -> Self {
        let (mut starts, mut lists) = (vec![0], Vec::new());
        for (v, &common) in is_common.iter().enumerate() {
            let list = if common { &[] } else { topics.word(v) };
            lists.extend(list.iter().map(|&(k, p)| (k, (f64::from(p).sqrt() - base[k as usize]) as f32)));
            starts.push(lists.len());
        }
        Rare { starts, lists }
    }

    /// Add the products of a topic with all later ones.
    fn add(&self, topics: &SparseTopics, k: usize, row: &mut [f32]) {
        let (words, roots) = topics.topic_roots(k);
        for (&v, &root) in words.iter().zip(roots) {
            let list = &self.lists[self.starts[v as usize]..self.starts[v as usize + 1]];
            let later = list.partition_point(|entry| entry.0 as usize <= k);
            let root = root as f32;
            list[later..].iter().for_each(|&(j, other)| row[j as usize] += root * other);
        }
    }
}

/// Copy what is above the diagonal below it, by tiles, since columns are far apart in memory.
fn mirror(square: &mut [f32], num: usize) {
    const TILE: usize = 64;
    for first in (0..num).step_by(TILE) {
        for second in (first..num).step_by(TILE) {
            for j in second..(second + TILE).min(num) {
                for i in first..(first + TILE).min(j) {
                    square[j * num + i] = square[i * num + j];
                }
            }
        }
    }
}
