//! Entries of rows regrouped by cluster, many threads at once: each chunk of rows sorts its own entries by cluster, and
//! a cluster's are taken from one chunk after the other, so that its rows ascend.

use std::ops::Range;

use rayon::prelude::*;

use crate::backend::with_buffers;

/// Rows of a chunk at least; as many as clusters where these are more, so that counting entries does not cost more than
/// moving them.
const CHUNK_ROWS: usize = 1024;

/// Up to so many clusters that rows have all of, each has room for all rows of a chunk.
const MOST_WITH_ROOM: usize = 32;

/// Entries (row, value) by cluster.
#[derive(Default)]
pub struct ByCluster<V> {
    chunks: Vec<Chunk<V>>,
    /// Chunks in use: the others are spare memory.
    used: usize,
}

#[derive(Default)]
struct Chunk<V> {
    /// Cluster k's entries are `start[k * step]..start[k * step + 1]`: they follow one another, or have room each.
    start: Vec<u32>,
    step: usize,
    row: Vec<u32>,
    value: Vec<V>,
}

/// Cut rows into chunks.
pub fn chunks_of(rows: Range<usize>, num_clusters: usize) -> impl Iterator<Item = Range<usize>> {
    let end = rows.end;
    let size = CHUNK_ROWS.max(num_clusters);
    rows.step_by(size).map(move |first| first..end.min(first + size))
}

impl<V: Copy + Default + Send + Sync> ByCluster<V> {
    /// Regroup what `entries` says of each row of the chunks: clusters and values. It is asked twice.
    pub fn regroup<I: Iterator<Item = (u32, V)>>(
        &mut self,
        num_clusters: usize,
        chunks: &[Range<usize>],
        entries: impl Fn(usize) -> I + Sync,
    ) {
        self.reserve(chunks.len());
        self.chunks[..self.used].par_iter_mut().zip(chunks).with_max_len(1).for_each(|(chunk, rows)| {
            let Chunk { start, step, row, value } = chunk;
            *step = 1;
            // Sizes stand two places behind, so that places can be counted up from where each cluster starts.
            start.clear();
            start.resize(num_clusters + 2, 0);
            rows.clone().flat_map(&entries).for_each(|(k, _)| start[k as usize + 2] += 1);
            for k in 2..start.len() {
                start[k] += start[k - 1];
            }
            let total = start[num_clusters + 1] as usize;
            row.resize(total, 0);
            value.resize(total, V::default());
            for n in rows.clone() {
                for (k, v) in entries(n) {
                    let at = &mut start[k as usize + 1];
                    row[*at as usize] = n as u32;
                    value[*at as usize] = v;
                    *at += 1;
                }
            }
        });
    }

    /// The same for rows with `places` entries each, of which those with values above `least` count: `clusters` and
    /// `values` have the entries of all rows, and `weighed` says what value is taken down.
    ///
    /// Which entries count is anybody's guess, so that they are found without a branch, and once.
    pub fn regroup_above(
        &mut self,
        num_clusters: usize,
        chunks: &[Range<usize>],
        (clusters, values, places): (&[u32], &[V], usize),
        least: V,
        weighed: impl Fn(usize, V) -> V + Sync,
    ) where
        V: PartialOrd,
    {
        self.reserve(chunks.len());
        if places == num_clusters && num_clusters <= MOST_WITH_ROOM {
            self.chunks[..self.used].par_iter_mut().zip(chunks).with_max_len(1).for_each(|(chunk, rows)| {
                chunk.put_all(num_clusters, rows, (clusters, values), least, &weighed);
            });
            return;
        }
        self.chunks[..self.used].par_iter_mut().zip(chunks).with_max_len(1).for_each(|(chunk, rows)| {
            with_buffers(|kept: &mut Vec<(u32, u32)>| {
                let Chunk { start, step, row, value } = chunk;
                *step = 1;
                kept.resize(kept.len().max(rows.len() * places), (0, 0));
                let first = rows.start * places;
                let of_chunk = first..rows.end * places;
                let (clusters, values) = (&clusters[of_chunk.clone()], &values[of_chunk]);
                let mut total = 0;
                for (n, values) in rows.clone().zip(values.chunks_exact(places)) {
                    let place = (n - rows.start) * places;
                    for (l, v) in values.iter().enumerate() {
                        kept[total] = (n as u32, (place + l) as u32);
                        total += usize::from(*v > least);
                    }
                }
                let kept = &kept[..total];
                start.clear();
                start.resize(num_clusters + 2, 0);
                kept.iter().for_each(|&(_, at)| start[clusters[at as usize] as usize + 2] += 1);
                for k in 2..start.len() {
                    start[k] += start[k - 1];
                }
                row.resize(total, 0);
                value.resize(total, V::default());
                for &(n, from) in kept {
                    let at = &mut start[clusters[from as usize] as usize + 1];
                    row[*at as usize] = n;
                    value[*at as usize] = weighed(n as usize, values[from as usize]);
                    *at += 1;
                }
            });
        });
    }

    /// So many chunks are in use.
    fn reserve(&mut self, chunks: usize) {
        self.used = chunks;
        if self.chunks.len() < self.used {
            let empty = || Chunk { start: Vec::new(), step: 1, row: Vec::new(), value: Vec::new() };
            self.chunks.resize_with(self.used, empty);
        }
    }

    /// Chunks there are.
    pub fn num_chunks(&self) -> usize {
        self.used
    }

    /// Rows, ascending, and values of a cluster in one chunk.
    pub fn of(&self, chunk: usize, k: usize) -> (&[u32], &[V]) {
        let Chunk { start, step, row, value } = &self.chunks[chunk];
        let range = start[k * step] as usize..start[k * step + 1] as usize;
        (&row[range.clone()], &value[range])
    }

    /// Entries of a cluster.
    pub fn len_of(&self, k: usize) -> usize {
        (0..self.used).map(|chunk| self.of(chunk, k).0.len()).sum()
    }

    /// All clusters that `sizes` are of, the largest first: begun last it would be what all others wait for.
    pub fn largest_first(&self, num_clusters: usize) -> Vec<(usize, usize)> {
        let mut order: Vec<(usize, usize)> = (0..num_clusters).map(|k| (k, self.len_of(k))).collect();
        order.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
        order
    }
}

impl<V: Copy + Default + PartialOrd> Chunk<V> {
    /// Regroup rows that have an entry for each cluster. Places need not be counted beforehand then, and entries that
    /// follow one another are of different clusters, so that none waits for the place of the one before.
    fn put_all(
        &mut self,
        num_clusters: usize,
        rows: &Range<usize>,
        (clusters, values): (&[u32], &[V]),
        least: V,
        weighed: impl Fn(usize, V) -> V,
    ) {
        let Chunk { start, step, row, value } = self;
        *step = 2;
        start.clear();
        start.extend((0..num_clusters).flat_map(|k| [(k * rows.len()) as u32; 2]));
        let room = num_clusters * rows.len();
        row.resize(room.max(row.len()), 0);
        value.resize(room.max(value.len()), V::default());
        let of_chunk = rows.start * num_clusters..rows.end * num_clusters;
        let of_rows =
            clusters[of_chunk.clone()].chunks_exact(num_clusters).zip(values[of_chunk].chunks_exact(num_clusters));
        for (n, (clusters, values)) in rows.clone().zip(of_rows) {
            for (&k, &v) in clusters.iter().zip(values) {
                let end = &mut start[2 * k as usize + 1];
                let at = *end as usize;
                row[at] = n as u32;
                value[at] = weighed(n, v);
                *end += u32::from(v > least);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_by_cluster_and_rows_ascend() {
        let clusters = |n: usize| [(n * 7 % 5) as u32, (5 + n % 3) as u32];
        let mut groups = ByCluster::<u64>::default();
        for num_rows in [5000, 1, 2500] {
            let chunks: Vec<Range<usize>> = chunks_of(0..num_rows, 9).collect();
            assert_eq!(chunks.iter().map(|rows| rows.len()).sum::<usize>(), num_rows);
            groups.regroup(9, &chunks, |n| clusters(n).into_iter().map(move |k| (k, n as u64 * 10)));
            for k in 0..9u32 {
                let expected: Vec<u32> = (0..num_rows as u32).filter(|&n| clusters(n as usize).contains(&k)).collect();
                let lists = || (0..groups.num_chunks()).map(|chunk| groups.of(chunk, k as usize));
                assert_eq!(lists().flat_map(|(rows, _)| rows.to_vec()).collect::<Vec<_>>(), expected);
                assert!(lists().all(|(rows, values)| rows.iter().zip(values).all(|(&n, &v)| v == u64::from(n) * 10)));
                assert_eq!(groups.len_of(k as usize), expected.len());
            }
            // Of entries side by side those that count, as if they had been asked for one by one.
            let all: Vec<u32> = (0..num_rows).flat_map(&clusters).collect();
            let values: Vec<u64> = (0..2 * num_rows as u64).map(|i| i * 7919 % 11).collect();
            let (mut above, mut filtered) = (ByCluster::<u64>::default(), ByCluster::<u64>::default());
            above.regroup_above(9, &chunks, (&all, &values, 2), 4, |n, v| v + n as u64);
            filtered.regroup(9, &chunks, |n| {
                let of_n = all[2 * n..2 * n + 2].iter().zip(&values[2 * n..2 * n + 2]);
                of_n.filter(|(_, v)| **v > 4).map(move |(&k, &v)| (k, v + n as u64))
            });
            for (chunk, k) in (0..chunks.len()).flat_map(|chunk| (0..9).map(move |k| (chunk, k))) {
                assert_eq!(above.of(chunk, k), filtered.of(chunk, k));
            }
            // Rows that have an entry for each cluster, in an order of their own, after and before others.
            let all: Vec<u32> = (0..num_rows as u32).flat_map(|n| (0..9).map(move |l| (l * 4 + n) % 9)).collect();
            let values: Vec<u64> = (0..9 * num_rows as u64).map(|i| i * 7919 % 11).collect();
            let (least, weighed) = (num_rows as u64 % 6, |n: usize, v: u64| v + n as u64);
            above.regroup_above(9, &chunks, (&all, &values, 9), least, weighed);
            filtered.regroup(9, &chunks, |n| {
                let of_n = all[9 * n..9 * n + 9].iter().zip(&values[9 * n..9 * n + 9]);
                of_n.filter(|(_, v)| **v > least).map(move |(&k, &v)| (k, weighed(n, v)))
            });
            for (chunk, k) in (0..chunks.len()).flat_map(|chunk| (0..9).map(move |k| (chunk, k))) {
                assert_eq!(above.of(chunk, k), filtered.of(chunk, k));
            }
            above.regroup_above(9, &chunks, (&all[..num_rows], &values[..num_rows], 1), 0, weighed);
            assert_eq!(
                (0..9).map(|k| above.len_of(k)).sum::<usize>(),
                values[..num_rows].iter().filter(|v| **v > 0).count()
            );
            let order = groups.largest_first(9);
            assert!(order.is_sorted_by(|a, b| a.1 >= b.1) && order.len() == 9);
        }
    }
}
