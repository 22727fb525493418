//! The clusters that each row kept when it was last visited: N x L numbers, the only thing rows must remember for a
//! search.

use std::ops::Range;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::training::schedule::Kept;

/// Rows that a task looks at.
const ROWS_A_TASK: usize = 1 << 13;

/// Stands for "none": the row was not visited yet, or with a smaller L.
pub const NONE: u32 = u32::MAX;

/// The kept clusters of every row of a batch in the order of its panels, the largest responsibility first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KeptClusters {
    sparsity: usize,
    clusters: Vec<u32>,
}

impl Kept for KeptClusters {
    fn kept_bytes(&self) -> u64 {
        (self.clusters.len() * size_of::<u32>()) as u64
    }
}

impl KeptClusters {
    /// These clusters, `sparsity` a row.
    pub fn new(sparsity: usize, clusters: Vec<u32>) -> Self {
        KeptClusters { sparsity, clusters }
    }

    /// Rows there are.
    pub fn rows(&self) -> usize {
        self.clusters.len().checked_div(self.sparsity).unwrap_or(0)
    }

    /// Clusters a row.
    pub fn sparsity(&self) -> usize {
        self.sparsity
    }

    /// The clusters of a row, followed by `NONE` if it has fewer than L.
    pub fn row(&self, row: usize) -> &[u32] {
        &self.clusters[row * self.sparsity..(row + 1) * self.sparsity]
    }

    /// Whether all these rows have at least one cluster (`least` = 1), or all of theirs (`least` = L).
    pub fn know(&self, rows: Range<usize>, least: usize) -> bool {
        let known = |n: usize| self.row(n)[least - 1] != NONE;
        least <= self.sparsity && rows.end <= self.rows() && rows.into_par_iter().with_min_len(ROWS_A_TASK).all(known)
    }

    /// The same with room for more clusters a row.
    pub fn raised(&self, sparsity: usize) -> Self {
        let mut clusters = vec![NONE; self.rows() * sparsity];
        for (to, from) in clusters.chunks_exact_mut(sparsity).zip(self.clusters.chunks_exact(self.sparsity.max(1))) {
            to[..self.sparsity].copy_from_slice(from);
        }
        KeptClusters { sparsity, clusters }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_known_by_what_they_kept() {
        let kept = KeptClusters::new(2, vec![7, 8, 5, 6]);
        assert_eq!((kept.row(0), kept.row(1)), (&[7, 8][..], &[5, 6][..]));
        assert!(kept.know(0..2, 2) && !kept.know(0..3, 1) && !kept.know(0..1, 3));
        let raised = kept.raised(3);
        assert_eq!(raised.row(0), [7, 8, NONE]);
        assert!(raised.know(0..2, 2) && !raised.know(0..2, 3));
        assert!(!KeptClusters::default().raised(2).know(0..1, 1));
    }
}
