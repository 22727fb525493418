//! Candidate search: a row looks at the clusters it has, at those near its best ones and at a few drawn at random.
//!
//! Its cost does not depend on K. A row's own clusters are always among its candidates, so its objective never falls.

use std::ops::Range;

use lsparse_kernels::{Real, top_l};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::backend::with_buffers;
use crate::error::{Error, Result};
use crate::likelihood::by_cluster::{ByCluster, chunks_of};
use crate::mixture::local::search::candidates::{KeptClusters, NONE};
use crate::mixture::local::search::pairs::Pairs;
use crate::training::responsibilities::normalise_kept;

/// Clusters drawn at random for each row.
const RANDOM: usize = 4;
/// How many near clusters a row looks at, of its best cluster, its second, and so on.
const NEAR: [usize; 3] = [16, 8, 4];
/// Near clusters that are kept count of for each cluster: more than are used, so that new ones can rise.
const COUNTED: usize = 32;
/// What is left of a lap's counts in the next.
const MEMORY: f32 = 0.5;
/// Rows of a parallel task.
pub const TASK: usize = 256;

/// For each cluster the clusters that share its rows, and how much.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Neighbours {
    num_clusters: usize,
    /// The most frequent ones so far, `COUNTED` a cluster, in no order.
    id: Vec<u32>,
    count: Vec<f32>,
    /// The nearest as of the last lap, `NEAR[0]` a cluster, nearest first.
    nearest: Vec<u32>,
}

impl Neighbours {
    /// Nothing known of `num_clusters` clusters.
    pub fn new(num_clusters: usize) -> Self {
        Neighbours {
            num_clusters,
            id: vec![NONE; num_clusters * COUNTED],
            count: vec![0.0; num_clusters * COUNTED],
            nearest: vec![NONE; num_clusters * NEAR[0]],
        }
    }

    /// Count the clusters that rows share with their best two. Many rows of a cluster are several tasks, and what these
    /// count are whole numbers: their order says nothing.
    pub fn observe(&mut self, kept: &KeptClusters) {
        let of_best = 2.min(kept.sparsity());
        let chunks: Vec<Range<usize>> = chunks_of(0..kept.rows(), self.num_clusters).collect();
        with_buffers(|rows: &mut ByCluster<()>| self.count(kept, &chunks, of_best, rows));
    }

    fn count(&mut self, kept: &KeptClusters, chunks: &[Range<usize>], of_best: usize, rows: &mut ByCluster<()>) {
        let num_clusters = self.num_clusters;
        rows.regroup(num_clusters, chunks, |n| kept.row(n)[..of_best].iter().map(|&k| (k, ())));
        let rows = &*rows;
        let pieces = pieces(rows, num_clusters);
        let at_once = (pieces.len() / TASK).max(1);
        let of_piece = |&(k, ref chunks): &(usize, Range<usize>)| {
            with_buffers(|tally: &mut Tally| {
                tally.begin(num_clusters);
                for &n in chunks.clone().flat_map(|chunk| rows.of(chunk, k).0) {
                    let others = kept.row(n as usize).iter().filter(|&&other| other as usize != k && other != NONE);
                    others.for_each(|&other| tally.add(other, 1));
                }
                tally.take()
            })
        };
        let found: Vec<Vec<(u32, u32)>> = pieces.par_iter().with_max_len(at_once).map(of_piece).collect();
        let counters = self.id.chunks_mut(COUNTED).zip(self.count.chunks_mut(COUNTED));
        let mut counters: Vec<_> = counters.map(Some).collect();
        let mut found = &found[..];
        let tasks: Vec<_> = pieces
            .chunk_by(|a, b| a.0 == b.0)
            .filter_map(|of_cluster| {
                let (lists, rest) = found.split_at(of_cluster.len());
                found = rest;
                Some((lists, counters[of_cluster[0].0].take()?))
            })
            .collect();
        tasks.into_par_iter().with_max_len((num_clusters / TASK).max(1)).for_each(|(lists, (ids, counts))| {
            with_buffers(|tally: &mut Tally| {
                tally.begin(num_clusters);
                lists.iter().flatten().for_each(|&(other, times)| tally.add(other, times));
                take_up(tally.take(), ids, counts);
            });
        });
    }

    /// A lap is over: use what was counted, and let it fade.
    pub fn end_lap(&mut self) {
        let counters = self.id.par_chunks(COUNTED).zip(self.count.par_chunks_mut(COUNTED));
        counters.zip(self.nearest.par_chunks_mut(NEAR[0])).for_each(|((id, count), nearest)| {
            let mut order: Vec<usize> = (0..COUNTED).filter(|&i| id[i] != NONE).collect();
            order.sort_by(|&a, &b| count[b].total_cmp(&count[a]).then(id[a].cmp(&id[b])));
            nearest.fill(NONE);
            nearest.iter_mut().zip(order).for_each(|(near, i)| *near = id[i]);
            count.iter_mut().for_each(|c| *c *= MEMORY);
        });
    }

    /// The nearest clusters of a cluster.
    fn of(&self, k: u32) -> &[u32] {
        let all = &self.nearest[k as usize * NEAR[0]..(k as usize + 1) * NEAR[0]];
        &all[..all.iter().position(|&k| k == NONE).unwrap_or(NEAR[0])]
    }

    /// Fill `pairs` with the candidates of these rows of a panel, ascending and without repeats. The panel begins at this
    /// place of what the batch kept, and its rows have these numbers in the source.
    pub fn propose<T: Real>(
        &self,
        kept: &KeptClusters,
        rows: Range<usize>,
        (panel, row_ids): (usize, &[usize]),
        seed: u64,
        pairs: &mut Pairs<T>,
    ) {
        let places = kept.sparsity() + NEAR.iter().sum::<usize>() + RANDOM;
        pairs.reshape(rows.clone(), places);
        let of_batch = panel + rows.start..panel + rows.end;
        let lists = pairs.cluster.par_chunks_mut(places).zip(of_batch).zip(&row_ids[rows]);
        lists.with_min_len(TASK).for_each(|((list, place), &row)| {
            let own = kept.row(place);
            let mut len = 0;
            let mut push = |k: u32| {
                list[len] = k;
                len += 1;
            };
            own.iter().filter(|&&k| k != NONE).for_each(|&k| push(k));
            for (&k, near) in own.iter().zip(NEAR).filter(|(k, _)| **k != NONE) {
                self.of(k).iter().take(near).for_each(|&k| push(k));
            }
            let mut state = mix(seed ^ mix(row as u64));
            for _ in 0..RANDOM {
                state = mix(state);
                // The high bits times K: uniform but for K / 2^32.
                push((((state >> 32) * self.num_clusters as u64) >> 32) as u32);
            }
            list[..len].sort_unstable();
            let mut distinct = 0;
            for i in 0..len {
                if i == 0 || list[i] != list[i - 1] {
                    list[distinct] = list[i];
                    distinct += 1;
                }
            }
            // A row that had fewer clusters before L rose is given the first ones that it lacks.
            for k in 0..self.num_clusters as u32 {
                if distinct >= own.len() {
                    break;
                }
                if !list[..distinct].contains(&k) {
                    list[distinct] = k;
                    distinct += 1;
                }
            }
            list[..distinct].sort_unstable();
            list[distinct..].fill(NONE);
        });
    }
}

/// Rows of a cluster that one task looks at, about.
const PIECE: usize = 2048;

/// The rows of clusters in pieces, those of a cluster together: the cluster, and the chunks that they are in.
fn pieces(rows: &ByCluster<()>, num_clusters: usize) -> Vec<(usize, Range<usize>)> {
    let mut pieces = Vec::new();
    for k in 0..num_clusters {
        let (mut first, mut size) = (0, 0);
        for chunk in 0..rows.num_chunks() {
            size += rows.of(chunk, k).0.len();
            if size >= PIECE || (size > 0 && chunk + 1 == rows.num_chunks()) {
                pieces.push((k, first..chunk + 1));
                (first, size) = (chunk + 1, 0);
            }
        }
    }
    pieces
}

/// How often each cluster was met.
#[derive(Default)]
struct Tally {
    /// All zero between uses.
    times: Vec<u32>,
    met: Vec<u32>,
}

impl Tally {
    fn begin(&mut self, num_clusters: usize) {
        self.times.resize(num_clusters, 0);
    }

    #[inline]
    fn add(&mut self, other: u32, times: u32) {
        let sum = &mut self.times[other as usize];
        if *sum == 0 {
            self.met.push(other);
        }
        *sum += times;
    }

    /// Those that were met, and how often.
    fn take(&mut self) -> Vec<(u32, u32)> {
        let Tally { times, met } = self;
        met.drain(..).map(|other| (other, std::mem::take(&mut times[other as usize]))).collect()
    }
}

/// Add what was met to the counters of a cluster. Those that are not counted yet, the most frequent first, take the place and
/// the count of the least each, as in space saving.
fn take_up(mut met: Vec<(u32, u32)>, ids: &mut [u32], counts: &mut [f32]) {
    met.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    met.retain(|&(other, times)| match ids.iter().position(|&id| id == other) {
        Some(at) => {
            counts[at] += times as f32;
            false
        }
        None => true,
    });
    for (other, times) in met.into_iter().take(ids.len()) {
        let least = (1..counts.len()).fold(0, |least, i| if counts[i] < counts[least] { i } else { least });
        ids[least] = other;
        counts[least] += times as f32;
    }
}

/// SplitMix64: every bit of the result depends on every bit of the number.
pub fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The L largest of the weights in `pairs` of each row, and the entropy of each; the first row has this number in its panel.
pub fn keep_largest<T: Real>(
    pairs: &Pairs<T>,
    sparsity: usize,
    first: usize,
    (index, value, entropy): (&mut [u32], &mut [T], &mut [f64]),
) -> Result<()> {
    let size = TASK * sparsity;
    let tasks = index.par_chunks_mut(size).zip(value.par_chunks_mut(size)).zip(entropy.par_chunks_mut(TASK));
    let results: Vec<Result<()>> = tasks
        .enumerate()
        .map(|(task, ((index, value), entropy))| {
            let (mut weights, mut kept, mut tile_entropy) = (Vec::new(), Vec::new(), Vec::new());
            let (first, lists) = (first + task * TASK, index.chunks_exact_mut(sparsity));
            for (row, (index, value)) in (first..).zip(lists.zip(value.chunks_exact_mut(sparsity))) {
                let clusters = pairs.weights_of(row, &mut weights);
                top_l(&weights, sparsity, index, value)
                    .map_err(|at| Error::NanWeight { row, cluster: clusters[at] as usize })?;
                index.iter_mut().for_each(|k| *k = clusters[*k as usize]);
            }
            normalise_kept(sparsity, first, value, &mut kept, &mut tile_entropy)?;
            entropy.copy_from_slice(&tile_entropy);
            Ok(())
        })
        .collect();
    results.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_the_clusters_that_share_rows() {
        let mut neighbours = Neighbours::new(100);
        // Row n belongs to clusters n mod 10 and its twin ten further on; cluster 7 has 40 others now and then.
        let kept: Vec<u32> = (0..400u32).flat_map(|n| [n % 10, n % 10 + 10, 20 + (n / 10) % 40]).collect();
        neighbours.observe(&KeptClusters::new(3, kept));
        neighbours.end_lap();
        for k in 0..10 {
            assert_eq!(neighbours.of(k)[0], k + 10);
            assert_eq!(neighbours.of(k + 10)[0], k);
        }
        assert!(neighbours.of(99).is_empty());
    }

    #[test]
    fn counts_are_those_of_going_through_the_rows() {
        // One cluster has most rows, so that they are several pieces; one has none.
        let kept: Vec<u32> = (0..30_000u64)
            .flat_map(|n| {
                let draw = mix(n);
                let best = if draw.is_multiple_of(3) { draw / 3 % 6 } else { 2 } as u32;
                [best, 7 + (draw >> 20) as u32 % 5, 12 + (draw >> 40) as u32 % 8]
            })
            .collect();
        let mut neighbours = Neighbours::new(21);
        neighbours.observe(&KeptClusters::new(3, kept.clone()));
        let mut expected = vec![[0.0f32; 21]; 21];
        for row in kept.chunks_exact(3) {
            for &k in &row[..2] {
                row.iter().filter(|&&other| other != k).for_each(|&other| expected[k as usize][other as usize] += 1.0);
            }
        }
        for (k, expected) in expected.iter().enumerate() {
            let of_k = k * COUNTED..(k + 1) * COUNTED;
            let mut found = [0.0f32; 21];
            for (&id, &count) in neighbours.id[of_k.clone()].iter().zip(&neighbours.count[of_k]) {
                if id != NONE {
                    found[id as usize] += count;
                }
            }
            assert_eq!(&found, expected, "cluster {k}");
        }
    }

    #[test]
    fn the_least_make_way_for_what_is_new() {
        let (mut ids, mut counts) = ([4, 9, NONE], [5.0, 2.0, 0.0]);
        take_up(vec![(1, 3), (9, 1), (7, 4)], &mut ids, &mut counts);
        // 9 is counted on; 7 takes the free place, and 1 that of 9, the least then.
        assert_eq!((ids, counts), ([4, 1, 7], [5.0, 6.0, 4.0]));
    }

    #[test]
    fn a_row_has_as_many_candidates_as_it_keeps() {
        let kept = KeptClusters::new(1, vec![2, 0, 9]).raised(9);
        let mut pairs = Pairs::<f32>::default();
        Neighbours::new(10).propose(&kept, 0..3, (0, &[0, 1, 2]), 1, &mut pairs);
        for (list, own) in pairs.cluster.chunks(pairs.cluster.len() / 3).zip([2, 0, 9]) {
            let list: Vec<u32> = list.iter().copied().filter(|&k| k != NONE).collect();
            assert!(list.len() >= 9 && list.is_sorted_by(|a, b| a < b) && list.contains(&own), "{list:?}");
        }
    }

    #[test]
    fn candidates_are_own_near_and_random_ones_without_repeats() {
        let mut neighbours = Neighbours::new(50);
        neighbours.observe(&KeptClusters::new(2, vec![3, 4, 4, 9, 3, 5]));
        neighbours.end_lap();
        let kept = KeptClusters::new(2, vec![NONE, NONE, 9, 4, 3, 30]);
        let mut pairs = Pairs::<f64>::default();
        neighbours.propose(&kept, 0..2, (1, &[2, 6]), 5, &mut pairs);
        let places = pairs.cluster.len() / 2;
        for (list, wanted) in pairs.cluster.chunks(places).zip([vec![3, 4, 9], vec![3, 4, 5, 30]]) {
            let list: Vec<u32> = list.iter().copied().filter(|&k| k != NONE).collect();
            assert!(list.is_sorted_by(|a, b| a < b) && list.iter().all(|&k| k < 50), "{list:?}");
            assert!(wanted.iter().all(|k| list.contains(k)), "{list:?} lacks some of {wanted:?}");
            assert!(list.len() <= wanted.len() + RANDOM);
        }
    }
}
