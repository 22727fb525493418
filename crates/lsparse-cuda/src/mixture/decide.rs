//! What pairs of row and cluster give: weights in FP64, responsibilities, and statistics.

use std::ops::Range;
use std::sync::Arc;

use super::work::{Room, Work};
use super::{Element, Form, Rows, SEGMENT, WIDE, int, parts_each, triangle};
use crate::device::{Grid, launch};
use crate::error::Result;

impl Work {
    /// The weights of pairs, in the order of rows.
    pub(super) fn decide<T: Element>(&mut self, rows: &Rows<T>, range: &Range<usize>, pairs: usize) -> Result<()> {
        let device = Arc::clone(&self.device);
        let wide = !self.form.is_screened(self.dim);
        let (name, threads, shared) = match self.form {
            _ if wide => (format!("decide_wide_{}", T::SUFFIX), 128, 0),
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
            Form::Triangular if !wide => (decide_pack.get()?, decide_start.get()?),
            _ => (clusters.get()?, means.get()?),
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
        let wide = !self.form.is_screened(self.dim);
        let (kernel, shared) = match self.form {
            _ if wide => (self.kernel(&format!("sum_wide_{}", T::SUFFIX), 0)?, 0),
            Form::Triangular => {
                let shared = 32 * (self.blocks16 * 16 + 4) * 8 + SEGMENT * 12;
                (self.kernel(&format!("statistics_{}_{}", T::SUFFIX, self.blocks16), shared)?, shared)
            }
            Form::Columns | Form::Turned => (self.kernel(&format!("sum_columns_{}", T::SUFFIX), 0)?, 0),
        };
        let each = parts_each(self.num_clusters, self.dim);
        // Blocks are of segments; of many columns they are of tiles and parts of a cluster.
        let (sums, blocks) = match wide {
            true => (self.num_clusters * each, self.num_clusters * each * triangle(self.dim.div_ceil(WIDE))),
            false => (self.most_segments(pairs), self.most_segments(pairs)),
        };
        let width = self.form.width(self.dim);
        let grid = Grid { blocks, threads: 256, shared };
        let (d, k) = (int(self.dim), int(self.num_clusters));
        let of_kernel = if wide { int(each) } else { k };
        let x = rows.values.part(range.start * self.dim..range.end * self.dim)?;
        let weights = rows.weights.as_ref().map(|weights| weights.part(range.clone())).transpose()?;
        let reduce = self.kernel("reduce", 0)?;
        let (c, Room { sorted, values, cluster_start, before, part_starts, parts, total, .. }) =
            (&self.center, &mut self.room);
        let (sorted, values, start, before) = (sorted.get()?, values.get()?, cluster_start.get()?, before.get()?);
        let parts = parts.room(&device, sums * width)?;
        // Safe: pairs are of rows of the range; there is room for the sums of every segment, or of every part.
        unsafe {
            let (w, n) = (weights.as_ref(), &negligible);
            launch!(device, &kernel, grid, &x, &d, c, sorted, values, w, n, start, before, &of_kernel, &mut *parts)?;
        }
        let before = if wide {
            let starts: Vec<u32> = (0..=self.num_clusters).map(|k| (k * each) as u32).collect();
            device.upload_into(&starts, part_starts.room(&device, starts.len())?, 0)?;
            part_starts.get()?
        } else {
            before
        };
        let grid = Grid { blocks: self.num_clusters, threads: 256, shared: 0 };
        let w = int(width);
        // Safe: sums of segments or parts and totals have `width` numbers each.
        unsafe { launch!(device, &reduce, grid, &*parts, before, &k, &w, total.get_mut()?) }
    }
}
