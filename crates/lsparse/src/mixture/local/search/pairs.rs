//! Weights of chosen (row, cluster) pairs: grouped by cluster, so that the kernels run over lanes of rows.

use lsparse_kernels::Real;
use rayon::prelude::*;

use crate::data::Rows;
use crate::likelihood::{Clusters, Scratch};
use crate::mixture::local::search::candidates::NONE;

/// The candidates of a panel of rows, the same number of places a row.
#[derive(Default)]
pub struct Pairs<T> {
    /// Places a row.
    places: usize,
    /// Row n's candidates are `cluster[n * places..(n + 1) * places]`, ending at the first [`NONE`].
    pub cluster: Vec<u32>,
    /// Where the weight of each place is.
    slot: Vec<u32>,
    /// Cluster k's pairs are `start[k]..start[k + 1]`.
    start: Vec<usize>,
    /// The rows of the pairs, ascending within a cluster.
    row: Vec<u32>,
    /// The weights of the pairs.
    weight: Vec<T>,
}

impl<T: Real> Pairs<T> {
    /// Room for `rows` rows of `places` candidates, all none.
    pub fn reset(&mut self, rows: usize, places: usize) {
        self.places = places;
        self.cluster.clear();
        self.cluster.resize(rows * places, NONE);
    }

    /// Pairs weighed.
    pub fn len(&self) -> usize {
        self.row.len()
    }

    /// The candidates of row n, and where their weights are.
    fn of_row(&self, n: usize) -> (&[u32], &[u32]) {
        let all = n * self.places..(n + 1) * self.places;
        let cluster = &self.cluster[all.clone()];
        let count = cluster.iter().position(|&k| k == NONE).unwrap_or(self.places);
        (&cluster[..count], &self.slot[all.start..all.start + count])
    }

    /// Copy the weights of row n's candidates to `out`; returns the candidates.
    pub fn weights_of(&self, n: usize, out: &mut Vec<T>) -> &[u32] {
        let (cluster, slot) = self.of_row(n);
        out.clear();
        out.extend(slot.iter().map(|&s| self.weight[s as usize]));
        cluster
    }

    /// W_nk = log pi_k + log F(x_n | phi_k) of every pair.
    pub fn weigh(&mut self, clusters: &dyn Clusters<T>, log_pi: &[T], rows: &Rows<T>) {
        self.group(clusters.num_clusters());
        let mut rest = &mut self.weight[..];
        let mut groups = Vec::with_capacity(log_pi.len());
        for k in 0..log_pi.len() {
            let (weights, more) = rest.split_at_mut(self.start[k + 1] - self.start[k]);
            rest = more;
            if !weights.is_empty() {
                groups.push((k, weights));
            }
        }
        let (start, row) = (&self.start, &self.row);
        groups.into_par_iter().for_each_init(Scratch::default, |scratch, (k, weights)| {
            let members = &row[start[k]..start[k + 1]];
            for (members, weights) in members.chunks(T::TILE).zip(weights.chunks_mut(T::TILE)) {
                clusters.log_lik_of(k, rows, members, scratch, weights);
                weights.iter_mut().for_each(|w| *w = log_pi[k] + *w);
            }
        });
    }

    /// Sort the pairs by cluster, rows ascending.
    fn group(&mut self, num_clusters: usize) {
        self.start.clear();
        self.start.resize(num_clusters + 1, 0);
        for &k in self.cluster.iter().filter(|&&k| k != NONE) {
            self.start[k as usize + 1] += 1;
        }
        for k in 0..num_clusters {
            self.start[k + 1] += self.start[k];
        }
        let total = self.start[num_clusters];
        self.row.resize(total, 0);
        self.weight.resize(total, T::ZERO);
        self.slot.resize(self.cluster.len(), 0);
        let mut next = self.start.clone();
        for (place, &k) in self.cluster.iter().enumerate() {
            if k != NONE {
                let at = &mut next[k as usize];
                self.row[*at] = (place / self.places) as u32;
                self.slot[place] = *at as u32;
                *at += 1;
            }
        }
    }
}
