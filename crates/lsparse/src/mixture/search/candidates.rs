//! The clusters that each row kept when it was last visited: N x L numbers, the only thing a search must remember. They
//! are kept batch by batch, in the place and by the rules of statistics: past a limit in a file.

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::schedule::{Kept, Memo, MemoPlace, Memos};

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
    fn rows(&self) -> usize {
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
    pub fn know(&self, mut rows: Range<usize>, least: usize) -> bool {
        least <= self.sparsity && rows.end <= self.rows() && rows.all(|n| self.row(n)[least - 1] != NONE)
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

/// The clusters that rows keep, batch by batch.
pub struct Candidates {
    place: MemoPlace,
    batches: Memos<KeptClusters>,
    /// The batch under way, as it was when it was last visited, and what its first rows keep now.
    before: Arc<KeptClusters>,
    now: Vec<u32>,
}

/// What [`Candidates`] are made of at rest.
pub type CandidateSlots = Vec<Option<Memo<KeptClusters>>>;

impl Candidates {
    /// Nothing known of any row; what will be goes to `place`.
    pub fn new(place: MemoPlace) -> Self {
        Candidates { batches: Memos::new(0, place.clone()), place, before: Arc::default(), now: Vec::new() }
    }

    /// What [`slots`](Self::slots) gave.
    pub fn restore(slots: CandidateSlots, place: MemoPlace) -> Result<Self> {
        let batches = Memos::restore(slots, place.clone())?;
        Ok(Candidates { batches, ..Candidates::new(place) })
    }

    /// What is remembered between batches, without what is in the file.
    pub fn slots(&self) -> CandidateSlots {
        self.batches.slots()
    }

    /// Where what is remembered goes, and the memos that hold it.
    pub fn memos(&mut self) -> &mut Memos<KeptClusters> {
        &mut self.batches
    }

    /// The place that what is remembered goes to.
    pub fn place(&self) -> &MemoPlace {
        &self.place
    }

    /// A batch begins, one of `num_batches`, with `num_rows` rows that keep `sparsity` clusters.
    pub fn begin(&mut self, num_batches: usize, batch: usize, num_rows: usize, sparsity: usize) -> Result<()> {
        if self.batches.len() != num_batches {
            self.batches = Memos::new(num_batches, self.place.clone());
        }
        // Other rows than last time have not been visited.
        let known = self.batches.get(batch)?.filter(|kept| kept.rows() == num_rows);
        self.before = known.unwrap_or_default();
        self.now = Vec::with_capacity(num_rows * sparsity);
        self.raise(sparsity);
        Ok(())
    }

    /// Rows of the batch under way keep `sparsity` clusters, if they kept fewer.
    pub fn raise(&mut self, sparsity: usize) {
        if sparsity > self.before.sparsity() {
            self.before = Arc::new(self.before.raised(sparsity));
        }
    }

    /// What the next `num` rows of the batch kept last time, and which rows of the batch they are.
    pub fn next(&self, num: usize) -> (Arc<KeptClusters>, Range<usize>) {
        let first = self.now.len().checked_div(self.before.sparsity()).unwrap_or(0);
        (Arc::clone(&self.before), first..first + num)
    }

    /// The next rows of the batch keep these clusters, L a row.
    pub fn keep(&mut self, index: &[u32]) {
        self.now.extend_from_slice(index);
    }

    /// The batch is done, with `sparsity` clusters a row.
    pub fn end(&mut self, batch: usize, sparsity: usize) -> Result<()> {
        self.before = Arc::default();
        self.batches.put(batch, KeptClusters::new(sparsity, std::mem::take(&mut self.now)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_kept_and_raised_in_memory_and_in_a_file() {
        for limit in [None, Some(0), Some(20)] {
            let mut candidates = Candidates::new(MemoPlace { limit, file: None });
            let visit = |candidates: &mut Candidates, batch: usize, sparsity: usize, index: &[u32]| {
                candidates.begin(2, batch, index.len() / sparsity, sparsity).unwrap();
                let (before, _) = candidates.next(0);
                // Two panels: the first row, and the rest.
                candidates.keep(&index[..sparsity]);
                assert_eq!(candidates.next(1).1, 1..2);
                candidates.keep(&index[sparsity..]);
                candidates.end(batch, sparsity).unwrap();
                before
            };
            assert!(!visit(&mut candidates, 1, 2, &[7, 8, 5, 6]).know(0..1, 1));
            visit(&mut candidates, 0, 2, &[1, 2, 3, 4, 5, 6]);
            let before = visit(&mut candidates, 1, 2, &[9, 8, 7, 6]);
            assert_eq!((before.row(0), before.row(1)), (&[7, 8][..], &[5, 6][..]));
            assert!(before.know(0..2, 2) && !before.know(0..3, 1) && !before.know(0..1, 3));
            let before = visit(&mut candidates, 1, 3, &[0; 6]);
            assert_eq!(before.row(0), [9, 8, NONE]);
            assert!(before.know(0..2, 2) && !before.know(0..2, 3));
            // A batch of other rows is not known.
            assert!(!visit(&mut candidates, 0, 2, &[1, 2, 3, 4]).know(0..1, 1));
        }
    }
}
