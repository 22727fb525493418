//! The clusters that each row kept when it was last visited: N x L numbers, the only thing a search must remember.

use serde::{Deserialize, Serialize};

/// Stands for "none": the row was not visited yet, or with a smaller L.
pub const NONE: u32 = u32::MAX;

/// The kept clusters of every row of a source, the largest responsibility first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Candidates {
    sparsity: usize,
    clusters: Vec<u32>,
}

impl Candidates {
    /// Nothing known of `rows` rows with room for `sparsity` clusters each.
    pub fn new(rows: usize, sparsity: usize) -> Self {
        Candidates { sparsity, clusters: vec![NONE; rows * sparsity] }
    }

    /// Rows there is room for.
    pub fn rows(&self) -> usize {
        self.clusters.len().checked_div(self.sparsity).unwrap_or(0)
    }

    /// Clusters a row.
    pub fn sparsity(&self) -> usize {
        self.sparsity
    }

    /// The clusters of a row of the source, followed by `NONE` if it has fewer than L.
    pub fn row(&self, row: usize) -> &[u32] {
        &self.clusters[row * self.sparsity..(row + 1) * self.sparsity]
    }

    /// Whether all these rows have at least one cluster (`least` = 1), or all of theirs (`least` = L).
    pub fn know(&self, row_ids: &[usize], least: usize) -> bool {
        least <= self.sparsity && row_ids.iter().all(|&n| self.row(n)[least - 1] != NONE)
    }

    /// Replace the clusters of these rows by `index`, L a row.
    pub fn replace(&mut self, row_ids: &[usize], index: &[u32]) {
        for (&n, kept) in row_ids.iter().zip(index.chunks_exact(self.sparsity)) {
            self.clusters[n * self.sparsity..(n + 1) * self.sparsity].copy_from_slice(kept);
        }
    }

    /// Make room for more clusters a row, where there are rows at all.
    pub fn raise(&mut self, sparsity: usize) {
        if sparsity > self.sparsity && self.rows() > 0 {
            let mut wider = vec![NONE; self.rows() * sparsity];
            for (to, from) in wider.chunks_exact_mut(sparsity).zip(self.clusters.chunks_exact(self.sparsity)) {
                to[..self.sparsity].copy_from_slice(from);
            }
            *self = Candidates { sparsity, clusters: wider };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_replaced_and_raised() {
        let mut candidates = Candidates::new(4, 2);
        assert!(!candidates.know(&[0], 1));
        candidates.replace(&[3, 1], &[7, 8, 5, 6]);
        assert_eq!((candidates.row(1), candidates.row(3)), (&[5, 6][..], &[7, 8][..]));
        assert!(candidates.know(&[1, 3], 2) && !candidates.know(&[1, 2], 1));
        candidates.raise(3);
        assert_eq!(candidates.row(3), [7, 8, NONE]);
        assert!(candidates.know(&[3], 2) && !candidates.know(&[3], 3));
        let mut none = Candidates::default();
        none.raise(2);
        assert_eq!(none, Candidates::default());
    }
}
