//! What pairs of row and cluster give: weights in FP64, responsibilities, and statistics.

use std::ops::Range;
use std::sync::Arc;

use super::work::{Room, Work};
use super::{Element, Form, Rows, SEGMENT, int, triangle};
use crate::device::{Grid, launch};
use crate::error::Result;

impl Work {
    /// The weights of pairs, in the order of rows.
    pub(super) fn decide<T: Element>(&mut self, rows: &Rows<T>, range: &Range<usize>, pairs: usize) -> Result<()> {
        let device = Arc::clone(&self.device);
        let (name, threads, shared) = match self.form {
            Form::Triangular => {
                let shared = triangle(2 * self.blocks16) * 32 * 16 + self.blocks16 * 16 * 8;
                (format!("decide_{}_{}", T::SUFFIX, self.blocks16), 128, shared)
            }
            Form::Columns => (format!("decide_columns_{}", T::SUFFIX), 256, 2 * self.dim * 8),
            Form::Turned => ("decide_columns_f64".into(), 256, 2 * self.dim * 8),
        };
        let kernel = self.kernel(&name, shared)?;
        let grid = Grid { blocks: self.most_segments(pairs), threads, shared };
        let (d, k) = (int(self.dim), int(self.num_clusters));
        let Room {
            clusters,
            means,
            constants,
            decide_pack,
            decide_start,
            turned,
            sorted,
            cluster_start,
            before,
            values,
            ..
        } = &mut self.room;
        let (forms, starts) = match self.form {
            Form::Triangular => (decide_pack.get()?, decide_start.get()?),
            Form::Columns | Form::Turned => (clusters.get()?, means.get()?),
        };
        let (sorted, start, before) = (sorted.get()?, cluster_start.get()?, before.get()?);
        let (c, w) = (constants.get()?, values.room(&device, pairs)?);
        // Safe: pairs are of rows of the range and of clusters that are packed, and there is a value for each. Turned rows are
        // in double precision whatever rows are in, and the kernel was chosen for that.
        unsafe {
            if self.form == Form::Turned {
                let x = turned.get()?;
                launch!(device, &kernel, grid, x, &d, forms, starts, c, sorted, start, before, &k, w)
            } else {
                let x = rows.values.part(range.start * self.dim..range.end * self.dim)?;
                launch!(device, &kernel, grid, &x, &d, forms, starts, c, sorted, start, before, &k, w)
            }
        }
    }

    /// Weights become responsibilities; their entropies are added up.
    pub(super) fn choose<T: Element>(&mut self, rows: &Rows<T>, range: &Range<usize>, sparsity: usize) -> Result<()> {
        let device = Arc::clone(&self.device);
        let kernel = self.kernel("choose", 0)?;
        let blocks = range.len().div_ceil(16);
        let grid = Grid { blocks, threads: 256, shared: 0 };
        let (num, l, first) = (int(range.len()), int(sparsity), int(self.rows_before + range.start));
        let weights = rows.weights.as_ref().map(|weights| weights.part(range.clone())).transpose()?;
        let sum = self.kernel("sum_entropies", 0)?;
        let Room { values, starts, entropies, entropy, bad_row, .. } = &mut self.room;
        let (values, starts) = (values.get_mut()?, starts.get()?);
        let (entropies, bad) = (entropies.room(&device, blocks)?, bad_row.get_mut()?);
        // Safe: `starts` are those of the rows of the range, whose values are there; an entropy a block.
        unsafe {
            let w = weights.as_ref();
            launch!(device, &kernel, grid, values, starts, &num, &l, w, &first, &mut *entropies, bad)?;
        }
        let (grid, blocks) = (Grid { blocks: 1, threads: 1024, shared: 0 }, int(blocks));
        // Safe: there are so many entropies, and one sum.
        unsafe { launch!(device, &sum, grid, &*entropies, &blocks, entropy.get_mut()?) }
    }

    /// Add what the pairs of a panel give to the statistics.
    pub(super) fn add_statistics<T: Element>(
        &mut self,
        rows: &Rows<T>,
        range: &Range<usize>,
        pairs: usize,
        negligible: f64,
    ) -> Result<()> {
        let device = Arc::clone(&self.device);
        let (kernel, shared) = match self.form {
            Form::Triangular => {
                let shared = 32 * (self.blocks16 * 16 + 4) * 8 + SEGMENT * 12;
                (self.kernel(&format!("statistics_{}_{}", T::SUFFIX, self.blocks16), shared)?, shared)
            }
            Form::Columns | Form::Turned => (self.kernel(&format!("sum_columns_{}", T::SUFFIX), 0)?, 0),
        };
        let segments = self.most_segments(pairs);
        let width = self.form.width(self.dim);
        let grid = Grid { blocks: segments, threads: 256, shared };
        let (d, k) = (int(self.dim), int(self.num_clusters));
        let x = rows.values.part(range.start * self.dim..range.end * self.dim)?;
        let weights = rows.weights.as_ref().map(|weights| weights.part(range.clone())).transpose()?;
        let reduce = self.kernel("reduce", 0)?;
        let (c, Room { sorted, values, cluster_start, before, parts, total, .. }) = (&self.center, &mut self.room);
        let (sorted, values, start, before) = (sorted.get()?, values.get()?, cluster_start.get()?, before.get()?);
        let parts = parts.room(&device, segments * width)?;
        // Safe: pairs are of rows of the range; there is room for the sums of every segment.
        unsafe {
            let (w, n) = (weights.as_ref(), &negligible);
            launch!(device, &kernel, grid, &x, &d, c, sorted, values, w, n, start, before, &k, &mut *parts)?;
        }
        let grid = Grid { blocks: self.num_clusters, threads: 256, shared: 0 };
        let w = int(width);
        // Safe: sums of segments and totals have `width` numbers each.
        unsafe { launch!(device, &reduce, grid, &*parts, before, &k, &w, total.get_mut()?) }
    }
}
