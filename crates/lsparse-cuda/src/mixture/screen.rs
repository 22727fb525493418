//! Which clusters a row may keep: a screen of all of them in FP16, with a bound on its error.

use std::ops::Range;
use std::sync::Arc;

use super::work::{Room, Work};
use super::{Element, Form, ROOM, Rows, SCREENS, int, missing, pieces};
use crate::device::{Device, Grid, Part, launch};
use crate::error::Result;

const SCREEN_WARPS: usize = 12;

/// A screen for GPUs of compute capability 9.0, whose warpgroups multiply by themselves.
#[derive(Clone, Copy)]
pub(super) struct Quads {
    /// Blocks of 16 columns.
    pub(super) blocks16: usize,
    /// Warpgroups of 128 rows.
    groups: usize,
    /// Quadruples of clusters that come to shared memory together, and how many such are on their way.
    pub(super) quads: usize,
    stages: usize,
}

pub(super) const QUAD_SCREENS: [Quads; 2] =
    [Quads { blocks16: 4, groups: 4, quads: 2, stages: 4 }, Quads { blocks16: 8, groups: 3, quads: 1, stages: 2 }];

/// Of forms that are sums over columns, as in the kernels: rows of a block, clusters that it looks at together, numbers of
/// each that come to shared memory together, and how many such are on their way.
const ROW_TILE: usize = 128;
pub(super) const CLUSTER_TILE: usize = 64;
const DEPTH: usize = 32;
const AHEAD: usize = 3;

/// Numbers of a row up to which all of them stay in shared memory.
const RESIDENT: usize = 256;

impl Work {
    /// Candidates of each row of a panel.
    pub(super) fn screen<T: Element>(&mut self, rows: &Rows<T>, range: &Range<usize>, sparsity: usize) -> Result<()> {
        let device = Arc::clone(&self.device);
        let num = range.len();
        self.room.candidates.room(&device, num * ROOM * 2)?;
        self.room.counts.room(&device, num)?;
        self.room.thresholds.room(&device, num)?;
        let width = self.form.halves(self.dim);
        if self.form == Form::Turned {
            self.turn_rows(rows, range)?;
            let (halves, reach) = (std::mem::take(&mut self.room.halves), std::mem::take(&mut self.room.reach));
            let of_panel = (halves.get()?.part(0..num * width)?, reach.get()?.part(0..num)?);
            let result = self.screen_columns(&of_panel, num, sparsity);
            (self.room.halves, self.room.reach) = (halves, reach);
            return result;
        }
        let whitened = rows.whitened.as_ref().ok_or_else(missing)?;
        let halves = whitened.halves.part(range.start * width..range.end * width)?;
        let of_panel = (halves, whitened.reach.part(range.clone())?);
        match self.form {
            Form::Triangular => self.screen_rows(&of_panel, num, sparsity),
            _ => self.screen_columns(&of_panel, num, sparsity),
        }
    }

    /// The kernel that screens, rows and threads a block, and shared memory.
    fn screen_kernel(&self) -> Result<(String, usize, usize, usize)> {
        let blocks16 = self.blocks16;
        if let Some(Quads { groups, quads, stages, .. }) = self.quads {
            let about = if self.about_center { "_about_zero" } else { "" };
            let shared = stages * quads * 4 * pieces(blocks16) * 16;
            return Ok((format!("screen_quads_{blocks16}{about}"), groups * 128, groups * 128, shared));
        }
        let (_, tiles, group) = SCREENS.into_iter().find(|s| s.0 == blocks16).ok_or_else(missing)?;
        let shared = 2 * group * pieces(blocks16) * 16;
        Ok((format!("screen_{blocks16}_8"), SCREEN_WARPS * tiles * 16, SCREEN_WARPS * 32, shared))
    }

    fn screen_rows(
        &mut self,
        (halves, reach): &(Part<'_, u16>, Part<'_, f32>),
        num: usize,
        sparsity: usize,
    ) -> Result<()> {
        let device = Arc::clone(&self.device);
        let (name, rows_a_block, threads, shared) = self.screen_kernel()?;
        let screen = self.kernel(&name, shared)?;
        let padded = self.blocks16 * 16;
        // Sums of squares and the constant are rounded in FP32.
        let (l, rounding) = (int(sparsity), (padded as f32 + 16.0) / (1 << 24) as f32);
        let (many, k) = (int(num), int(self.num_clusters));
        let grid = Grid { blocks: num.div_ceil(rows_a_block), threads, shared };
        let Room { screen_pack, candidates, counts, thresholds, .. } = &mut self.room;
        let (pack, lists) = (screen_pack.get()?, candidates.get_mut()?);
        let (counts, thresholds) = (counts.get_mut()?, thresholds.get_mut()?);
        // Safe: `many` rows, and clusters packed for this many columns; lists, counts and thresholds are one a row.
        unsafe {
            launch!(device, &screen, grid, halves, reach, pack, &many, &k, &l, &rounding, lists, counts, thresholds)
        }
    }

    /// The same for forms that are sums over columns.
    fn screen_columns(
        &mut self,
        (halves, reach): &(Part<'_, u16>, Part<'_, f32>),
        num: usize,
        sparsity: usize,
    ) -> Result<()> {
        let device = Arc::clone(&self.device);
        let width = self.form.halves(self.dim);
        let (resident, shared) = shared_of_columns(&device, width);
        let screen = self.kernel("screen_columns", shared)?;
        // The sum and the constant are rounded in FP32.
        let (l, rounding) = (int(sparsity), 16.0 / (1 << 24) as f32);
        let (many, k, width, resident) = (int(num), int(self.num_clusters), int(width), i32::from(resident));
        let grid = Grid { blocks: num.div_ceil(ROW_TILE), threads: ROW_TILE, shared };
        let Room { screen_pack, limits, candidates, counts, thresholds, .. } = &mut self.room;
        let (pack, limits, lists) = (screen_pack.get()?, limits.get()?, candidates.get_mut()?);
        let (counts, thresholds) = (counts.get_mut()?, thresholds.get_mut()?);
        // Safe: `many` rows of `width` numbers, and clusters packed as wide, of which there is a whole number of tiles; lists,
        // counts and thresholds are one a row.
        unsafe {
            launch!(
                device, &screen, grid, halves, reach, pack, limits, &many, &k, &width, &resident, &l, &rounding, lists,
                counts, thresholds
            )
        }
    }

    /// Turn the rows of a panel; where they are screened, in FP16 too.
    fn turn_rows<T: Element>(&mut self, rows: &Rows<T>, range: &Range<usize>) -> Result<()> {
        self.turn_values(rows, range)?;
        let device = Arc::clone(&self.device);
        let (num, width) = (range.len(), self.form.halves(self.dim));
        let kernel = self.kernel("spread_columns_f64", 0)?;
        let grid = Grid { blocks: num.div_ceil(8).min(1 << 14), threads: 256, shared: 0 };
        let (many, dim, padded, scale) = (int(num), int(self.dim), int(width / 2), &self.whitening);
        let Room { turned, origin, halves, reach, .. } = &mut self.room;
        let (halves, reach) = (halves.room(&device, num * width)?, reach.room(&device, num)?);
        let (turned, origin) = (turned.get()?, origin.get()?);
        // Safe: turned rows are `num` of `dim` columns, halves as many of twice the padded width, with a scale a column.
        unsafe { launch!(device, &kernel, grid, turned, &many, &dim, &padded, origin, scale, halves, reach) }
    }

    /// z = M (x - c) of the rows of a panel.
    pub(super) fn turn_values<T: Element>(&mut self, rows: &Rows<T>, range: &Range<usize>) -> Result<()> {
        const TILE: usize = 64;
        let device = Arc::clone(&self.device);
        let kernel = self.kernel(&format!("turn_{}", T::SUFFIX), 0)?;
        let (num, dim) = (range.len(), self.dim);
        let grid = Grid { blocks: num.div_ceil(TILE) * dim.div_ceil(TILE), threads: 256, shared: 0 };
        let (many, d) = (int(num), int(dim));
        let x = rows.values.part(range.start * dim..range.end * dim)?;
        let Room { turn, turned, .. } = &mut self.room;
        let (turn, turned) = (turn.get()?, turned.room(&device, num * dim)?);
        // Safe: `many` rows of `dim` columns, as many turned ones, and a factor of dim x dim.
        unsafe { launch!(device, &kernel, grid, &x, &many, &d, turn, &self.center, turned) }
    }
}

/// Whether all numbers of rows stay in shared memory, and how much of it a block takes.
fn shared_of_columns(device: &Device, width: usize) -> (bool, usize) {
    let scores = ROW_TILE * (CLUSTER_TILE + 1) * 4 + (AHEAD + 1) * CLUSTER_TILE * 16;
    let shared = |chunks: usize| scores + (AHEAD * CLUSTER_TILE + chunks * ROW_TILE) * DEPTH * 2;
    let resident = width <= RESIDENT && shared(width / DEPTH) <= device.info().shared_memory;
    (resident, shared(if resident { width / DEPTH } else { AHEAD }))
}
