//! Pairs of row and cluster that are weighed in full: how many there are, and their order by rows and by clusters.

use std::ops::Range;
use std::sync::Arc;

use super::work::{Choice, Growing, Room, Work};
use super::{CHUNK, Element, Form, Rows, SEGMENT, int};
use crate::artefacts::MIXTURE;
use crate::device::{Buffer, Device, Grid, launch};
use crate::error::Result;

impl Work {
    /// How many clusters each row of a panel is weighed against, and where its pairs start; how many pairs there are.
    pub(super) fn find_pairs<T: Element>(
        &mut self,
        rows: &Rows<T>,
        range: &Range<usize>,
        Choice { sparsity, screened }: Choice,
    ) -> Result<usize> {
        let device = Arc::clone(&self.device);
        let (num, k) = (range.len(), int(self.num_clusters));
        self.room.kept.room(&device, num)?;
        let many = int(num);
        if screened {
            self.screen(rows, range, sparsity)?;
            self.done("screen")?;
            let keep = self.kernel("keep_candidates", 0)?;
            let grid = Grid { blocks: num.div_ceil(8), threads: 256, shared: 0 };
            let Room { candidates, counts, thresholds, kept, .. } = &mut self.room;
            let (lists, counts, thresholds) = (candidates.get_mut()?, counts.get()?, thresholds.get()?);
            // Safe: lists, counts and thresholds are one a row, and so is what is kept.
            unsafe { launch!(device, &keep, grid, lists, counts, thresholds, &many, &k, kept.get_mut()?)? };
        } else {
            if self.form == Form::Turned {
                self.turn_values(rows, range)?;
            }
            let fill = self.kernel("fill_u32", 0)?;
            let all = self.num_clusters as u32;
            let grid = Grid { blocks: num.div_ceil(256), threads: 256, shared: 0 };
            // Safe: `kept` has room for `num`.
            unsafe { launch!(device, &fill, grid, self.room.kept.get_mut()?, &many, &all)? };
        }
        let Room { kept, starts, of_blocks, .. } = &mut self.room;
        sum_before(&device, kept.get()?, num, starts.room(&device, num + 1)?, of_blocks)?;
        let last = device.download_at(starts.get()?, num)?;
        Ok(last as usize)
    }

    pub(super) fn make_pairs(&mut self, num: usize, pairs: usize, screened: bool) -> Result<()> {
        let device = Arc::clone(&self.device);
        let kernel = self.kernel("make_pairs", 0)?;
        let grid = Grid { blocks: num.div_ceil(8), threads: 256, shared: 0 };
        let (many, k) = (int(num), int(self.num_clusters));
        let Room { candidates, counts, starts, cluster_of, row_of, .. } = &mut self.room;
        let (clusters, rows) = (cluster_of.room(&device, pairs)?, row_of.room(&device, pairs)?);
        let lists = screened.then(|| candidates.get()).transpose()?;
        let (counts, starts) = (screened.then(|| counts.get()).transpose()?, starts.get()?);
        // Safe: `starts` are those of `num` rows and their pairs. Without lists the kernel looks at neither.
        unsafe { launch!(device, &kernel, grid, lists, counts, starts, &many, &k, clusters, rows) }
    }

    /// Sort the pairs by cluster, and cut those of each cluster into segments.
    pub(super) fn sort_pairs(&mut self, pairs: usize) -> Result<()> {
        let device = Arc::clone(&self.device);
        let num_clusters = self.num_clusters;
        let chunks = pairs.div_ceil(CHUNK);
        let warps = ((96 << 10) / (num_clusters * 4)).clamp(1, 8);
        let shared = warps * num_clusters * 4;
        let grid = Grid { blocks: chunks.div_ceil(warps), threads: warps * 32, shared };
        let (count, sort) = (self.kernel("count_chunks", shared)?, self.kernel("sort_chunks", shared)?);
        let Room { cluster_of, row_of, table, places, sorted, of_blocks, cluster_start, segments, before, .. } =
            &mut self.room;
        let (many, c, k, size) = (int(pairs), int(chunks), int(num_clusters), int(SEGMENT));
        let table = table.room(&device, num_clusters * chunks)?;
        let places = places.room(&device, num_clusters * chunks + 1)?;
        let (clusters, rows, sorted) = (cluster_of.get()?, row_of.get()?, sorted.room(&device, pairs * 2)?);
        // Safe: there are `pairs` pairs of clusters below `num_clusters`, and the table has a number for each chunk and
        // cluster.
        unsafe { launch!(device, &count, grid, clusters, &many, &c, &k, &mut *table)? };
        sum_before(&device, table, num_clusters * chunks, places, of_blocks)?;
        // Safe: the sums say where each chunk's pairs of a cluster go, all of them below `pairs`.
        unsafe { launch!(device, &sort, grid, clusters, rows, &many, &c, &k, &*places, sorted)? };
        let cut = device.kernel(&MIXTURE, "count_segments", 0)?;
        let grid = Grid { blocks: (num_clusters + 1).div_ceil(256), threads: 256, shared: 0 };
        let start = cluster_start.room(&device, num_clusters + 1)?;
        let segments = segments.room(&device, num_clusters)?;
        // Safe: one start a cluster and one behind, one number of segments a cluster.
        unsafe { launch!(device, &cut, grid, &*places, &c, &k, &many, &size, start, &mut *segments)? };
        sum_before(&device, segments, num_clusters, before.room(&device, num_clusters + 1)?, of_blocks)
    }

    /// Segments of so many pairs at most; blocks beyond the last one do nothing.
    pub(super) fn most_segments(&self, pairs: usize) -> usize {
        pairs / SEGMENT + self.num_clusters.min(pairs)
    }
}

/// `sums[i]` is the sum of the values before i, for i from 0 to `count`.
fn sum_before(
    device: &Device,
    values: &Buffer<u32>,
    count: usize,
    sums: &mut Buffer<u32>,
    of_blocks: &mut Growing<u32>,
) -> Result<()> {
    let blocks = count.div_ceil(4096);
    let of_blocks = of_blocks.room(device, blocks)?;
    let kernel = |name| device.kernel(&MIXTURE, name, 0);
    let (first, second, third) = (kernel("sum_blocks")?, kernel("sum_of_blocks")?, kernel("add_blocks")?);
    let grid = |blocks| Grid { blocks, threads: 1024, shared: 0 };
    let (count, num_blocks) = (int(count), int(blocks));
    // Safe: `sums` has one number more than `count`, and there is one for each block of 4096.
    unsafe {
        launch!(device, &first, grid(blocks), values, &count, &mut *sums, &mut *of_blocks)?;
        launch!(device, &second, grid(1), &mut *of_blocks, &num_blocks, &mut *sums, &count)?;
        launch!(device, &third, grid(blocks), sums, &count, &*of_blocks)
    }
}
