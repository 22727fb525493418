//! Weights of chosen (row, cluster) pairs: grouped by cluster, so that the kernels run over lanes of rows.

use std::ops::Range;

use lsparse_kernels::Real;
use rayon::prelude::*;

use crate::backend::{in_turn, with_buffers};
use crate::data::Rows;
use crate::likelihood::by_cluster::{ByCluster, chunks_of};
use crate::likelihood::{Clusters, Scratch};
use crate::mixture::local::search::candidates::NONE;

/// The candidates of a stretch of rows of a panel, the same number of places a row.
#[derive(Default)]
pub struct Pairs<T> {
    /// The first row of the stretch, by its number in the panel.
    first: usize,
    /// Places a row.
    places: usize,
    /// Row n's candidates are `cluster[(n - first) * places..][..places]`, ending at the first [`NONE`].
    pub cluster: Vec<u32>,
    /// Where the weight of each place is.
    slot: Vec<u32>,
    /// Rows by cluster, with the place of each in its chunk.
    by_cluster: ByCluster<u32>,
    /// The weights of the pairs, by cluster and row.
    weight: Vec<T>,
}

/// Buffers of one thread for the rows of a cluster.
#[derive(Default)]
struct PairScratch<T> {
    scratch: Scratch<T>,
    rows: Vec<u32>,
}

impl<T: Real> Pairs<T> {
    /// Room for `places` candidates of each of these rows of a panel, all none.
    pub fn reset(&mut self, rows: Range<usize>, places: usize) {
        self.cluster.clear();
        self.reshape(rows, places);
    }

    /// The same for who fills every place.
    pub fn reshape(&mut self, rows: Range<usize>, places: usize) {
        self.first = rows.start;
        self.places = places;
        self.cluster.resize(rows.len() * places, NONE);
    }

    /// Pairs weighed.
    pub fn len(&self) -> usize {
        self.weight.len()
    }

    /// The candidates of row n of the panel, and where their weights are.
    fn of_row(&self, n: usize) -> (&[u32], &[u32]) {
        let start = (n - self.first) * self.places;
        let cluster = candidates(&self.cluster[start..start + self.places]);
        (cluster, &self.slot[start..start + cluster.len()])
    }

    /// Copy the weights of the candidates of row n of the panel to `out`; returns the candidates.
    pub fn weights_of(&self, n: usize, out: &mut Vec<T>) -> &[u32] {
        let (cluster, slot) = self.of_row(n);
        out.clear();
        out.extend(slot.iter().map(|&s| self.weight[s as usize]));
        cluster
    }

    /// W_nk = log pi_k + log F(x_n | phi_k) of every pair.
    pub fn weigh(&mut self, clusters: &dyn Clusters<T>, log_pi: &[T], rows: &Rows<T>) {
        let sizes = self.group(clusters.num_clusters());
        let mut rest = &mut self.weight[..];
        // The cluster, how many of its pairs come before, and the weights.
        let mut pieces: Vec<(usize, usize, &mut [T])> = Vec::with_capacity(log_pi.len());
        for (k, &size) in sizes.iter().enumerate() {
            let (weights, more) = rest.split_at_mut(size);
            rest = more;
            pieces.extend(weights.chunks_mut(PIECE).enumerate().map(|(i, weights)| (k, i * PIECE, weights)));
        }
        let by_cluster = &self.by_cluster;
        let weigh = |(k, mut before, weights): (usize, usize, &mut [T])| {
            with_buffers(|PairScratch::<T> { scratch, rows: members }| {
                members.clear();
                for chunk in 0..by_cluster.num_chunks() {
                    let of_chunk = by_cluster.of(chunk, k).0;
                    let skipped = before.min(of_chunk.len());
                    before -= skipped;
                    let wanted = (weights.len() - members.len()).min(of_chunk.len() - skipped);
                    members.extend_from_slice(&of_chunk[skipped..skipped + wanted]);
                }
                for (members, weights) in members.chunks(T::TILE).zip(weights.chunks_mut(T::TILE)) {
                    clusters.log_lik_of(k, rows, members, scratch, weights);
                    weights.iter_mut().for_each(|w| *w = log_pi[k] + *w);
                }
            });
        };
        let at_once = (pieces.len() / GROUP_TASKS).max(1);
        let mut pieces = pieces.into_iter();
        let mut next = || Some(pieces.by_ref().take(at_once).collect::<Vec<_>>()).filter(|some| !some.is_empty());
        let tasks: Vec<Vec<_>> = std::iter::from_fn(&mut next).collect();
        in_turn(tasks, |some| some.into_iter().for_each(weigh));
    }

    /// Sort the pairs by cluster, rows ascending, and find the slots of their weights; returns how many each cluster has.
    fn group(&mut self, num_clusters: usize) -> Vec<usize> {
        let Pairs { first: first_row, places, cluster, slot, by_cluster, weight } = self;
        let (first_row, places) = (*first_row, *places);
        let num_rows = cluster.len().checked_div(places).unwrap_or(0);
        let chunks: Vec<Range<usize>> = chunks_of(first_row..first_row + num_rows, num_clusters).collect();
        let chunk_places = chunks.first().map_or(1, |rows| rows.len() * places).max(1);
        by_cluster.regroup(num_clusters, &chunks, |n| {
            let start = (n - first_row) * places;
            let in_chunk = (start % chunk_places) as u32;
            candidates(&cluster[start..start + places]).iter().copied().zip(in_chunk..)
        });
        // Where the weights of each cluster begin, and among them those of each chunk.
        let mut begin = vec![0u32; num_clusters * chunks.len()];
        let (mut sizes, mut next) = (Vec::with_capacity(num_clusters), 0);
        for k in 0..num_clusters {
            let first = next;
            for chunk in 0..chunks.len() {
                begin[chunk * num_clusters + k] = next as u32;
                next += by_cluster.of(chunk, k).0.len();
            }
            sizes.push(next - first);
        }
        weight.resize(next, T::ZERO);
        slot.resize(cluster.len(), 0);
        let begins = begin.par_chunks(num_clusters.max(1));
        let slots = slot.par_chunks_mut(chunk_places).zip(begins).enumerate();
        slots.with_max_len(1).for_each(|(chunk, (slot, begin))| {
            for (k, &begin) in begin.iter().enumerate() {
                by_cluster.of(chunk, k).1.iter().zip(begin..).for_each(|(&place, at)| slot[place as usize] = at);
            }
        });
        sizes
    }
}

/// Pieces that a thread takes at once: so many times, about, where they are more.
const GROUP_TASKS: usize = 256;

/// Pairs of a cluster that are weighed in a task at most: those of a large cluster would be what all threads wait for.
const PIECE: usize = 1024;

/// The candidates of a list that ends at the first none.
fn candidates(list: &[u32]) -> &[u32] {
    &list[..list.iter().position(|&k| k == NONE).unwrap_or(list.len())]
}
