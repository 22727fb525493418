//! Rows dealt into batches, and a batch that is to be visited.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{Batches, RowSource};
use crate::error::Result;

/// Which deal rows came from: whoever holds rows of a batch knows by it whether they are those of the batch in hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DealId(u64);

impl DealId {
    /// One that no other deal of this process has.
    fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        DealId(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// Rows dealt into batches: what a run goes through lap by lap.
#[derive(Clone)]
pub struct Dealt<'a> {
    /// Where rows come from.
    pub source: &'a dyn RowSource,
    /// How they are dealt.
    pub batches: Batches,
    /// One weight a row of the source, or none at all.
    pub row_weights: Option<&'a [f64]>,
    /// The row that the first weight is of: 0, but where only those of a piece are here.
    pub first_weight: usize,
    pub(crate) id: DealId,
}

impl<'a> Dealt<'a> {
    /// Rows of equal weight in these batches.
    pub fn new(source: &'a dyn RowSource, batches: Batches) -> Self {
        Dealt { source, batches, row_weights: None, first_weight: 0, id: DealId::next() }
    }

    /// The same rows with a weight each, or none at all.
    pub fn weighted(self, row_weights: Option<&'a [f64]>) -> Self {
        self.weighted_from(0, row_weights)
    }

    /// The same where the weights of a piece of the rows alone are here, the first of them this row's.
    pub fn weighted_from(self, first_weight: usize, row_weights: Option<&'a [f64]>) -> Self {
        Dealt { row_weights, first_weight, ..self }
    }

    /// Every row once, in the order of the source, as one batch: for scoring and assigning.
    pub fn in_order(source: &'a dyn RowSource) -> Result<Self> {
        Ok(Dealt::new(source, Batches::in_order(source.num_rows(), 1)?))
    }

    /// Sum of the row weights of a batch.
    fn batch_weight(&self, batch: usize) -> f64 {
        match self.row_weights {
            None => self.batches.own_len(batch) as f64,
            Some(weights) => self.batches.row_ids(batch).iter().map(|&n| weights[n]).sum(),
        }
    }

    /// Sum of all row weights.
    pub fn total_weight(&self) -> f64 {
        self.row_weights.map_or(self.source.num_rows() as f64, |w| w.iter().sum())
    }

    /// Each batch's share of the whole weight.
    pub fn shares(&self) -> Vec<f64> {
        let total = self.total_weight();
        (0..self.batches.num_batches()).map(|batch| self.batch_weight(batch) / total).collect()
    }

    /// A batch, as the first of its run to be visited.
    pub fn batch(&'a self, number: usize) -> Batch<'a> {
        Batch { data: self, number, visit: 0, begins_lap: true }
    }
}

/// A batch that is to be visited, and when.
#[derive(Clone, Copy)]
pub struct Batch<'a> {
    /// The rows it belongs to.
    pub data: &'a Dealt<'a>,
    /// Which batch, from 0.
    pub number: usize,
    /// Visits of the run before this one, of whatever batch.
    pub visit: u64,
    /// Whether it is the first of a lap.
    pub begins_lap: bool,
}

impl Batch<'_> {
    /// Rows of the batch.
    pub fn num_rows(&self) -> usize {
        self.data.batches.len(self.number)
    }
}
