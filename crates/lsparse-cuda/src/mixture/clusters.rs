//! The clusters of a lap on a GPU: where the host puts them, and what kernels need of them.

use std::sync::Arc;

use super::screen::CLUSTER_TILE;
use super::work::{Room, Work};
use super::{Form, int, missing, pieces, triangle};
use crate::device::{Grid, launch};
use crate::error::Result;

impl Work {
    /// Numbers that the host is to fill in before [`set_clusters`](Self::set_clusters): for each of `num` clusters the
    /// triangle of its factor or its precisions, then for each its mean in the units of the rows (of [`Form::Turned`] in
    /// those of turned ones), then for each its constant.
    pub fn stage(&mut self, num: usize) -> Result<(&mut [f64], &mut [f64], &mut [f64])> {
        let (factors, means) = (num * self.form.size(self.dim), num * self.dim);
        let len = factors + means + num;
        let staged = match self.staged.take() {
            Some(staged) if staged.get()?.len() >= len => staged,
            _ => self.device.pinned(len)?,
        };
        self.num_clusters = num;
        let staged = self.staged.insert(staged).get_mut()?;
        let (of_factors, rest) = staged.split_at_mut(factors);
        let (of_means, rest) = rest.split_at_mut(means);
        Ok((of_factors, of_means, &mut rest[..num]))
    }

    /// Of [`Form::Turned`], before [`set_clusters`](Self::set_clusters): M row by row, and one over the width that the columns
    /// of turned rows have, about, which decides how well clusters can be ruled out and nothing else.
    pub fn set_turn(&mut self, factor: &[f64], scales: &[f64]) -> Result<()> {
        let device = Arc::clone(&self.device);
        let Room { turn, origin, .. } = &mut self.room;
        device.upload_into(factor, turn.room(&device, self.dim * self.dim)?, 0)?;
        device.clear(origin.room(&device, self.dim)?)?;
        device.upload_into(scales, &mut self.whitening, 0)
    }

    /// Take up the clusters that were staged; their constants have log pi in them.
    pub fn set_clusters(&mut self) -> Result<()> {
        let (num, dim) = (self.num_clusters, self.dim);
        let (factors, means) = (num * self.form.size(dim), num * dim);
        let device = Arc::clone(&self.device);
        self.begin()?;
        let staged = self.staged.as_ref().ok_or_else(missing)?.get()?;
        let Room { clusters, means: room_of_means, constants, .. } = &mut self.room;
        device.upload_into(&staged[..factors], clusters.room(&device, factors)?, 0)?;
        device.upload_into(&staged[factors..factors + means], room_of_means.room(&device, means)?, 0)?;
        device.upload_into(&staged[factors + means..factors + means + num], constants.room(&device, num)?, 0)?;
        self.about_center =
            staged[factors..factors + means].chunks_exact(dim).all(|mean| mean == &self.host_center[..]);
        device.synchronize()?;
        self.done("upload")?;
        match self.form {
            Form::Triangular if !self.form.is_screened(dim) => {}
            Form::Triangular => self.prepare()?,
            Form::Columns | Form::Turned => self.prepare_columns()?,
        }
        self.done("prepare")
    }

    fn prepare(&mut self) -> Result<()> {
        let (num, dim, blocks16) = (self.num_clusters, self.dim, self.blocks16);
        let device = Arc::clone(&self.device);
        let padded = blocks16 * 16;
        let size = triangle(dim);
        let shared = size * 8 + size.div_ceil(2) * 8 + 2 * padded * 8;
        let kernel = self.kernel("prepare", shared)?;
        // Clusters come to a block several at a time; what is behind the last is not looked at.
        let together = self.quads.map_or(1, |screen| 4 * screen.quads);
        let Room { clusters, means, constants, decide_pack, decide_start, screen_pack, .. } = &mut self.room;
        let pack = decide_pack.room(&device, num * triangle(2 * blocks16) * 64)?;
        let start = decide_start.room(&device, num * padded)?;
        let screen = screen_pack.room(&device, num.next_multiple_of(together) * pieces(blocks16) * 4)?;
        let (k, d, b, in_quads) = (int(num), int(dim), int(blocks16), i32::from(self.quads.is_some()));
        let (f, m, c) = (clusters.get()?, means.get()?, constants.get()?);
        let (center, color) = (&self.center, &self.color);
        let grid = Grid { blocks: num, threads: 128, shared };
        // Safe: every array has the length that was made room for above, for `num` clusters of `dim` columns.
        unsafe { launch!(device, &kernel, grid, f, m, c, center, color, &k, &d, &b, &in_quads, pack, start, screen) }
    }

    fn prepare_columns(&mut self) -> Result<()> {
        let device = Arc::clone(&self.device);
        let (num, halves) = (self.num_clusters, self.form.halves(self.dim));
        // Clusters come to a block many at a time; those behind the last are not looked at.
        let all = num.next_multiple_of(CLUSTER_TILE);
        let kernel = self.kernel("prepare_columns", 0)?;
        let (d, padded, scale) = (int(self.dim), int(halves / 2), &self.whitening);
        let Room { clusters, means, constants, screen_pack, limits, origin, .. } = &mut self.room;
        // Turned rows are about zero.
        let center = if self.form == Form::Turned { origin.get()? } else { &self.center };
        let (pack, limits) = (screen_pack.room(&device, all * halves / 2)?, limits.room(&device, all * 4)?);
        let (p, m, c) = (clusters.get()?, means.get()?, constants.get()?);
        let grid = Grid { blocks: num, threads: 128, shared: 0 };
        // Safe: every array has the length that was made room for above, for `num` clusters of `dim` columns.
        unsafe { launch!(device, &kernel, grid, p, m, c, center, scale, &d, &padded, pack, limits) }
    }
}
