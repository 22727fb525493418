//! Rows that the GPU does not keep: they come there a panel at a time, through memory that it reads by itself, while the panel
//! before is worked on.

use std::sync::Arc;

use super::work::Work;
use super::{Element, PANEL_ROWS, Rows};
use crate::device::{Device, Lines, Pinned};
use crate::error::Result;

/// Room for a panel of rows, here and on the GPU.
pub struct Slot<T> {
    here: Pinned<T>,
    there: Rows<T>,
    weights: Vec<f64>,
    dim: usize,
    most: usize,
}

/// The way to the GPU, beside what it works on.
pub struct Way {
    device: Arc<Device>,
    line: Lines,
}

impl<T: Element> Slot<T> {
    /// How many rows it has.
    pub fn len(&self) -> usize {
        self.there.num
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.there.num == 0
    }

    /// Whether there is room for no more.
    pub fn is_full(&self) -> bool {
        self.there.num == self.most
    }

    /// Whether it has the room that panels of so many rows want.
    pub fn fits(&self, rows: usize) -> bool {
        self.most >= rows.clamp(1, PANEL_ROWS)
    }

    /// Take as many of these rows as there is room for, and of their weights, if they have any; how many those are.
    pub fn take(&mut self, values: &[T], weights: &[f64]) -> Result<usize> {
        let (dim, first) = (self.dim, self.there.num);
        let num = (values.len() / dim.max(1)).min(self.most - first);
        self.here.get_mut()?[first * dim..(first + num) * dim].copy_from_slice(&values[..num * dim]);
        self.weights.extend(weights.iter().take(num));
        self.there.num += num;
        Ok(num)
    }

    /// Let its rows go.
    pub fn clear(&mut self) {
        self.there.num = 0;
        self.there.whitened = None;
        self.there.weights = None;
        self.weights.clear();
    }
}

impl Way {
    /// Bring the rows of a slot to the GPU; they are there when this returns.
    pub fn send<T: Element>(&self, slot: &mut Slot<T>) -> Result<()> {
        let len = slot.there.num * slot.dim;
        self.line.upload(&self.device, &slot.here, len, &mut slot.there.values)
    }
}

impl Work {
    /// Slots for panels of so many rows, and the way that they are sent on.
    pub fn slots<T: Element>(&self, rows: usize) -> Result<(Vec<Slot<T>>, Way)> {
        let (most, dim) = (rows.clamp(1, PANEL_ROWS), self.dim);
        let slot = || -> Result<Slot<T>> {
            let (here, mut there) = (self.device.pinned(most * dim)?, self.rows(most, None)?);
            there.num = 0;
            Ok(Slot { here, there, weights: Vec::new(), dim, most })
        };
        let slots = vec![slot()?, slot()?];
        // Memory is there for other lines too once this one has come to it.
        self.device.synchronize()?;
        Ok((slots, Way { device: Arc::clone(&self.device), line: self.device.lines(1)? }))
    }

    /// Add the rows of a slot that was sent, as [`add_rows`](Self::add_rows) does.
    pub fn add_slot<T: Element>(&mut self, slot: &mut Slot<T>, sparsity: usize, negligible: f64) -> Result<u64> {
        if !slot.weights.is_empty() {
            self.set_weights(&mut slot.there, &slot.weights)?;
        }
        self.whiten(&mut slot.there)?;
        let weighed = self.add_rows(&slot.there, sparsity, negligible)?;
        // Nothing of the slot is read any more.
        self.device.synchronize()?;
        Ok(weighed)
    }
}
