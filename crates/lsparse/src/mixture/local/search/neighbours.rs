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
use crate::training::responsibilities::{Responsibilities, normalise_kept};

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

    /// Count the clusters that rows share with their best two. One task counts for a cluster, rows in order.
    pub fn observe(&mut self, kept: &KeptClusters) {
        let of_best = 2.min(kept.sparsity());
        let chunks: Vec<Range<usize>> = chunks_of(0..kept.rows(), self.num_clusters).collect();
        with_buffers(|rows: &mut ByCluster<()>| self.count(kept, &chunks, of_best, rows));
    }

    fn count(&mut self, kept: &KeptClusters, chunks: &[Range<usize>], of_best: usize, rows: &mut ByCluster<()>) {
        rows.regroup(self.num_clusters, chunks, |n| kept.row(n)[..of_best].iter().map(|&k| (k, ())));
        let counters = self.id.chunks_mut(COUNTED).zip(self.count.chunks_mut(COUNTED));
        let mut counters: Vec<_> = counters.map(Some).collect();
        let order = rows.largest_first(self.num_clusters);
        let tasks: Vec<_> = order.iter().filter_map(|&(k, _)| Some((k, counters[k].take()?))).collect();
        let num_clusters = self.num_clusters;
        tasks.into_par_iter().with_max_len((num_clusters / TASK).max(1)).for_each(|(k, (ids, counts))| {
            with_buffers(|counter: &mut Counter| {
                counter.begin(num_clusters, ids, counts);
                for &n in (0..rows.num_chunks()).flat_map(|chunk| rows.of(chunk, k).0) {
                    let others = kept.row(n as usize).iter().filter(|&&other| other as usize != k && other != NONE);
                    others.for_each(|&other| counter.count(other));
                }
                counter.end(ids, counts);
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

    /// Fill `pairs` with the candidates of rows, ascending and without repeats. Rows are given by their places in what
    /// the batch kept, and by their numbers in the source.
    pub fn propose<T: Real>(
        &self,
        kept: &KeptClusters,
        (of_batch, row_ids): (Range<usize>, &[usize]),
        seed: u64,
        pairs: &mut Pairs<T>,
    ) {
        let places = kept.sparsity() + NEAR.iter().sum::<usize>() + RANDOM;
        pairs.reshape(row_ids.len(), places);
        let lists = pairs.cluster.par_chunks_mut(places).zip(of_batch).zip(row_ids);
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

/// The counters of one cluster while its rows are gone through. They are no part of the list of all, in which other threads
/// write to the same cache lines.
#[derive(Default)]
struct Counter {
    id: Vec<u32>,
    count: Vec<f32>,
    /// Where each cluster is among those counted, or [`NOWHERE`].
    place: Vec<u8>,
}

/// No place among those counted.
const NOWHERE: u8 = u8::MAX;

impl Counter {
    fn begin(&mut self, num_clusters: usize, ids: &[u32], counts: &[f32]) {
        self.id.clear();
        self.id.extend_from_slice(ids);
        self.count.clear();
        self.count.extend_from_slice(counts);
        // All are nowhere, as clusters leave it.
        self.place.resize(num_clusters, NOWHERE);
        for (at, &k) in (0..).zip(&self.id).filter(|(_, k)| **k != NONE) {
            self.place[k as usize] = at;
        }
    }

    /// Space saving: a cluster that is not among those counted takes the place and the count of the least.
    #[inline]
    fn count(&mut self, other: u32) {
        let Counter { id, count, place } = self;
        let mut at = place[other as usize];
        if at == NOWHERE {
            let least = (1..count.len()).fold(0, |least, i| if count[i] < count[least] { i } else { least });
            if id[least] != NONE {
                place[id[least] as usize] = NOWHERE;
            }
            (id[least], at) = (other, least as u8);
            place[other as usize] = at;
        }
        count[at as usize] += 1.0;
    }

    fn end(&mut self, ids: &mut [u32], counts: &mut [f32]) {
        self.id.iter().filter(|&&k| k != NONE).for_each(|&k| self.place[k as usize] = NOWHERE);
        ids.copy_from_slice(&self.id);
        counts.copy_from_slice(&self.count);
    }
}

/// SplitMix64: every bit of the result depends on every bit of the number.
pub fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The L largest of the weights in `pairs` of each row, and the entropy of each.
pub fn keep_largest<T: Real>(
    pairs: &Pairs<T>,
    sparsity: usize,
    out: &mut Responsibilities<T>,
    entropy: &mut Vec<f64>,
) -> Result<()> {
    entropy.resize(out.len(), 0.0);
    let size = TASK * sparsity;
    let tasks = out.index.par_chunks_mut(size).zip(out.value.par_chunks_mut(size)).zip(entropy.par_chunks_mut(TASK));
    let results: Vec<Result<()>> = tasks
        .enumerate()
        .map(|(task, ((index, value), entropy))| {
            let (mut weights, mut kept, mut tile_entropy) = (Vec::new(), Vec::new(), Vec::new());
            let lists = index.chunks_exact_mut(sparsity).zip(value.chunks_exact_mut(sparsity));
            for (i, (index, value)) in lists.enumerate() {
                let row = task * TASK + i;
                let clusters = pairs.weights_of(row, &mut weights);
                top_l(&weights, sparsity, index, value)
                    .map_err(|at| Error::NanWeight { row, cluster: clusters[at] as usize })?;
                index.iter_mut().for_each(|k| *k = clusters[*k as usize]);
            }
            normalise_kept(sparsity, task * TASK, value, &mut kept, &mut tile_entropy)?;
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
    fn counters_are_those_of_looking_through_the_list() {
        let plain = |other: u32, id: &mut [u32], count: &mut [f32]| {
            let at = id.iter().position(|&k| k == other).unwrap_or_else(|| {
                let least = (1..count.len()).fold(0, |least, i| if count[i] < count[least] { i } else { least });
                id[least] = other;
                least
            });
            count[at] += 1.0;
        };
        let (mut id, mut count) = (vec![NONE; COUNTED], vec![0.0; COUNTED]);
        let (mut ids, mut counts) = (id.clone(), count.clone());
        let mut counter = Counter::default();
        for visit in 0..3u64 {
            counter.begin(100, &ids, &counts);
            for n in 0..500 {
                // Some often, many now and then.
                let draw = mix(visit << 32 | n);
                let other = if draw.is_multiple_of(3) { draw / 3 % 100 } else { draw / 3 % 20 } as u32;
                plain(other, &mut id, &mut count);
                counter.count(other);
            }
            counter.end(&mut ids, &mut counts);
            assert_eq!((&ids, &counts), (&id, &count));
        }
        assert!(counter.place.iter().all(|&place| place == NOWHERE));
    }

    #[test]
    fn a_row_has_as_many_candidates_as_it_keeps() {
        let kept = KeptClusters::new(1, vec![2, 0, 9]).raised(9);
        let mut pairs = Pairs::<f32>::default();
        Neighbours::new(10).propose(&kept, (0..3, &[0, 1, 2]), 1, &mut pairs);
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
        neighbours.propose(&kept, (1..3, &[2, 6]), 5, &mut pairs);
        let places = pairs.cluster.len() / 2;
        for (list, wanted) in pairs.cluster.chunks(places).zip([vec![3, 4, 9], vec![3, 4, 5, 30]]) {
            let list: Vec<u32> = list.iter().copied().filter(|&k| k != NONE).collect();
            assert!(list.is_sorted_by(|a, b| a < b) && list.iter().all(|&k| k < 50), "{list:?}");
            assert!(wanted.iter().all(|k| list.contains(k)), "{list:?} lacks some of {wanted:?}");
            assert!(list.len() <= wanted.len() + RANDOM);
        }
    }
}
