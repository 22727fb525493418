//! Rows dealt into batches, and a batch that is to be visited.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use super::{Batches, RowSource};
use crate::error::Result;

/// Bytes of rows that are held at most.
const HELD_BYTES: usize = 32 << 20;

/// Batches of small data that were read and are held for the next lap: picking their rows out of the source again costs
/// as much as a third of the work on them.
#[derive(Default)]
struct Held {
    /// By number and by the kind of what is held: rows in memory, and what a GPU holds.
    batches: HashMap<(usize, TypeId), Box<dyn Any + Send>>,
    bytes: usize,
}

/// What is held, shared by copies of what was dealt.
#[derive(Clone, Default)]
pub struct HeldBatches(Arc<Mutex<Held>>);

impl HeldBatches {
    /// A batch that was put back, if it was; it is the taker's until it is put back again.
    pub(crate) fn take<S: Send + 'static>(&self, batch: usize) -> Option<Box<S>> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.batches.remove(&(batch, TypeId::of::<S>()))?.downcast().ok()
    }

    /// Hold a batch that was taken.
    pub(crate) fn put_back<S: Send + 'static>(&self, batch: usize, rows: Box<S>) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.batches.insert((batch, TypeId::of::<S>()), rows);
    }

    /// Hold a batch of so many bytes that was read, if there is room; else it is given back.
    pub(crate) fn hold<S: Send + 'static>(&self, batch: usize, rows: S, bytes: usize) -> Option<S> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (batch, TypeId::of::<S>());
        if held.bytes + bytes > HELD_BYTES || held.batches.contains_key(&key) {
            return Some(rows);
        }
        held.bytes += bytes;
        held.batches.insert(key, Box::new(rows));
        None
    }
}

impl fmt::Debug for HeldBatches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HeldBatches")
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
    /// Batches that are in memory.
    pub held: HeldBatches,
}

impl<'a> Dealt<'a> {
    /// Rows of equal weight in these batches.
    pub fn new(source: &'a dyn RowSource, batches: Batches) -> Self {
        Dealt { source, batches, row_weights: None, held: HeldBatches::default() }
    }

    /// Every row once, in the order of the source, as one batch: for scoring and assigning.
    pub fn in_order(source: &'a dyn RowSource) -> Result<Self> {
        Ok(Dealt::new(source, Batches::in_order(source.num_rows(), 1)?))
    }

    /// Sum of the row weights of a batch.
    fn batch_weight(&self, batch: usize) -> f64 {
        match self.row_weights {
            None => self.batches.len(batch) as f64,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_of_a_batch_is_told_apart_by_its_kind() {
        let held = HeldBatches::default();
        assert_eq!(held.hold(3, 1u8, 10), None);
        held.put_back(3, Box::new("elsewhere"));
        assert_eq!(held.hold(3, 2u8, 10), Some(2), "there is one already");
        assert_eq!(held.hold(4, 5u8, HELD_BYTES), Some(5), "there is no room");
        assert_eq!(held.take::<u8>(3).as_deref(), Some(&1));
        assert_eq!(held.take::<u8>(3), None);
        assert_eq!(held.take::<&str>(3).as_deref(), Some(&"elsewhere"));
    }
}
