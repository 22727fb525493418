//! What is worked with on a GPU: rows, the clusters of a lap, and room for pairs of row and cluster.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use super::screen::{QUAD_SCREENS, Quads};
use super::{
    By, Element, Failure, Form, MOST_PAIRS, PANEL_ROWS, Rows, Statistics, Whitened, Whitening, blocks_for, int, missing,
};
use crate::artefacts::MIXTURE;
use crate::device::{Buffer, Device, Grid, Kernel, Pinned, Plain, launch};
use crate::error::{Error, Result};

/// The L up to which clusters are screened; rows that keep more are weighed against all.
const SCREENED_SPARSITY: usize = 8;

/// Memory that grows as it is needed.
pub(super) struct Growing<T> {
    buffer: Option<Buffer<T>>,
}

impl<T> Default for Growing<T> {
    fn default() -> Self {
        Growing { buffer: None }
    }
}

impl<T: Plain> Growing<T> {
    /// Room for so many numbers, whatever they are.
    pub(super) fn room(&mut self, device: &Device, len: usize) -> Result<&mut Buffer<T>> {
        if self.buffer.as_ref().is_none_or(|buffer| buffer.len() < len) {
            // What is too small goes before what is large enough comes.
            self.buffer = None;
            self.buffer = Some(device.uninitialized(len)?);
        }
        self.get_mut()
    }

    pub(super) fn get(&self) -> Result<&Buffer<T>> {
        self.buffer.as_ref().ok_or_else(missing)
    }

    pub(super) fn get_mut(&mut self) -> Result<&mut Buffer<T>> {
        self.buffer.as_mut().ok_or_else(missing)
    }
}

/// What is worked with: the clusters of this lap, and room for pairs of row and cluster.
pub struct Work {
    pub(super) device: Arc<Device>,
    pub(super) dim: usize,
    pub(super) form: Form,
    /// Blocks of 16 columns, of [`Form::Triangular`] where clusters are screened.
    pub(super) blocks16: usize,
    /// The screen with products of warpgroups, where the GPU has them.
    pub(super) quads: Option<Quads>,
    /// Whether all means are at the center.
    pub(super) about_center: bool,
    pub(super) host_center: Vec<f64>,
    pub(super) center: Buffer<f64>,
    /// The whitening factor, column by column, and its inverse; or what columns are scaled by, and nothing.
    pub(super) whitening: Buffer<f64>,
    pub(super) color: Buffer<f64>,
    pub(super) num_clusters: usize,
    /// Rows that chose before those that are at it.
    pub(super) rows_before: usize,
    /// Where the host puts forms, means and constants.
    pub(super) staged: Option<Pinned<f64>>,
    /// Where statistics come to.
    pub(super) sums: Option<Pinned<f64>>,
    pub(super) room: Room,
    clock: Option<Clock>,
}

/// Memory of the GPU by what it is for.
#[derive(Default)]
pub(super) struct Room {
    pub(super) clusters: Growing<f64>,
    pub(super) means: Growing<f64>,
    pub(super) constants: Growing<f64>,
    pub(super) decide_pack: Growing<f64>,
    pub(super) decide_start: Growing<f64>,
    pub(super) screen_pack: Growing<u32>,
    /// Four numbers a cluster, of forms that are sums over columns.
    pub(super) limits: Growing<f32>,
    /// Of [`Form::Turned`]: what rows are turned by, zeros, and the rows of a panel, turned and in FP16.
    pub(super) turn: Growing<f64>,
    pub(super) origin: Growing<f64>,
    pub(super) turned: Growing<f64>,
    pub(super) halves: Growing<u16>,
    pub(super) reach: Growing<f32>,
    pub(super) candidates: Growing<u32>,
    pub(super) counts: Growing<i32>,
    pub(super) thresholds: Growing<f32>,
    pub(super) kept: Growing<u32>,
    pub(super) starts: Growing<u32>,
    pub(super) of_blocks: Growing<u32>,
    pub(super) cluster_of: Growing<u32>,
    pub(super) row_of: Growing<u32>,
    pub(super) table: Growing<u32>,
    pub(super) places: Growing<u32>,
    pub(super) sorted: Growing<u32>,
    pub(super) values: Growing<f64>,
    pub(super) cluster_start: Growing<u32>,
    pub(super) segments: Growing<u32>,
    pub(super) before: Growing<u32>,
    /// Where the parts of each cluster begin, where nothing is screened.
    pub(super) part_starts: Growing<u32>,
    pub(super) entropies: Growing<f64>,
    pub(super) entropy: Growing<f64>,
    pub(super) parts: Growing<f64>,
    pub(super) total: Growing<f64>,
    pub(super) bad_row: Growing<u32>,
    /// Of scores and of rows that are assigned.
    pub(super) densities: Growing<f64>,
    pub(super) peaks: Growing<f64>,
    pub(super) centres: Growing<f64>,
    pub(super) powers: Growing<f64>,
    pub(super) rates: Growing<f64>,
    pub(super) index: Growing<u32>,
    pub(super) shares: Growing<f64>,
}

/// Where time goes: seconds of each part, in the order of parts.
struct Clock {
    since: Instant,
    parts: Vec<(&'static str, f64)>,
}

/// How rows are weighed: what they keep, and whether clusters are ruled out first.
#[derive(Clone, Copy)]
pub(super) struct Choice {
    pub(super) sparsity: usize,
    pub(super) screened: bool,
}

impl Work {
    /// Work on rows of so many columns.
    pub fn new(device: Arc<Device>, whitening: &Whitening) -> Result<Work> {
        let dim = whitening.center.len();
        let form = match whitening.by {
            By::Factor { .. } | By::Nothing => Form::Triangular,
            By::Scales(_) => Form::Columns,
            By::Clusters => Form::Turned,
        };
        if dim > form.most_columns() {
            let detail = format!("{dim} of at most {}", form.most_columns());
            return Err(Error::Failed { action: "work on so many columns", detail });
        }
        let blocks16 = if form == Form::Triangular { blocks_for(dim).unwrap_or(0) } else { 0 };
        let center = device.upload(&whitening.center)?;
        let host_center = whitening.center.clone();
        let (whitening, color) = match &whitening.by {
            By::Factor { factor, inverse } => {
                let transposed: Vec<f64> = (0..dim * dim).map(|i| factor[i % dim * dim + i / dim]).collect();
                (device.upload(&transposed)?, device.upload(inverse)?)
            }
            By::Scales(scales) => (device.upload(scales)?, device.upload(&[])?),
            By::Clusters => (device.upload(&vec![1.0; dim])?, device.upload(&[])?),
            By::Nothing => (device.upload(&[])?, device.upload(&[])?),
        };
        let has_quads = device.info().capability == (9, 0) && device.is_native(&MIXTURE)?;
        let quads = QUAD_SCREENS.into_iter().find(|screen| has_quads && screen.blocks16 == blocks16);
        Ok(Work {
            device,
            dim,
            form,
            blocks16,
            quads,
            about_center: false,
            host_center,
            center,
            whitening,
            color,
            num_clusters: 0,
            rows_before: 0,
            staged: None,
            sums: None,
            room: Room::default(),
            clock: None,
        })
    }

    /// The GPU.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Measure from now on, which takes time itself: every part is waited for.
    pub fn measure(&mut self) {
        self.clock = Some(Clock { since: Instant::now(), parts: Vec::new() });
    }

    /// Seconds that each part took since measuring began.
    pub fn times(&self) -> &[(&'static str, f64)] {
        self.clock.as_ref().map_or(&[], |clock| &clock.parts)
    }

    /// A part begins, the one before it having been done.
    pub(super) fn begin(&mut self) -> Result<()> {
        if let Some(clock) = &mut self.clock {
            self.device.synchronize()?;
            clock.since = Instant::now();
        }
        Ok(())
    }

    /// A part is done.
    pub(super) fn done(&mut self, part: &'static str) -> Result<()> {
        let Some(clock) = &mut self.clock else { return Ok(()) };
        self.device.synchronize()?;
        let now = Instant::now();
        let seconds = now.duration_since(clock.since).as_secs_f64();
        match clock.parts.iter_mut().find(|(name, _)| *name == part) {
            Some((_, sum)) => *sum += seconds,
            None => clock.parts.push((part, seconds)),
        }
        clock.since = now;
        Ok(())
    }

    pub(super) fn kernel(&self, name: &str, shared: usize) -> Result<Kernel> {
        self.device.kernel(&MIXTURE, name, shared)
    }

    /// Room for rows, which are then [`put`](Self::put) and [`whitened`](Self::whiten). `weights` are one a row, if any.
    pub fn rows<T: Element>(&self, num: usize, weights: Option<&[f64]>) -> Result<Rows<T>> {
        Ok(Rows {
            num,
            values: self.device.uninitialized(num * self.dim)?,
            whitened: None,
            weights: weights.map(|weights| self.device.upload(weights)).transpose()?,
        })
    }

    /// Put numbers of rows in their place, from row `first` on.
    pub fn put<T: Element>(&self, rows: &mut Rows<T>, first: usize, values: &[T]) -> Result<()> {
        self.device.upload_into(values, &mut rows.values, first * self.dim)
    }

    /// Give rows weights, one each.
    pub fn set_weights<T: Element>(&self, rows: &mut Rows<T>, weights: &[f64]) -> Result<()> {
        rows.weights = Some(self.device.upload(weights)?);
        Ok(())
    }

    /// Whiten rows, once all of them are there; those that are scored need not be.
    pub fn whiten<T: Element>(&self, rows: &mut Rows<T>) -> Result<()> {
        if self.form == Form::Turned || !self.form.is_screened(self.dim) {
            return Ok(());
        }
        let Rows { num, values, whitened, .. } = rows;
        let halves = self.device.uninitialized(*num * self.form.halves(self.dim))?;
        let reach = self.device.uninitialized(*num)?;
        let Whitened { halves, reach } = whitened.insert(Whitened { halves, reach });
        let (num, dim) = (*num, int(self.dim));
        let many = int(num);
        if self.form == Form::Columns {
            let kernel = self.kernel(&format!("spread_columns_{}", T::SUFFIX), 0)?;
            let grid = Grid { blocks: num.div_ceil(8).min(1 << 14), threads: 256, shared: 0 };
            let (padded, scale) = (int(self.form.halves(self.dim) / 2), &self.whitening);
            // Safe: rows are `num` of `dim` columns, halves as many of twice the padded width, and there is a scale a column.
            return unsafe {
                launch!(self.device, &kernel, grid, &*values, &many, &dim, &padded, &self.center, scale, halves, reach)
            };
        }
        // Whole blocks of columns: numbers are read two at a time.
        let shared = self.blocks16 * 16 * 8;
        let kernel = self.kernel(&format!("whiten_{}", T::SUFFIX), shared)?;
        let grid = Grid { blocks: num.min(1 << 14), threads: 32, shared };
        let (blocks16, by) = (int(self.blocks16), &self.whitening);
        // Safe: rows are `num` of `dim` columns, halves as many of the padded width, and the factor is dim x dim.
        unsafe {
            launch!(self.device, &kernel, grid, &*values, &many, &dim, &blocks16, by, &self.center, halves, reach)
        }
    }

    /// The local step of rows under the clusters: each row keeps its `sparsity` largest weights, and responsibilities that
    /// are not above `negligible` are left out of the sums.
    pub fn summarize<T: Element>(
        &mut self,
        rows: &Rows<T>,
        sparsity: usize,
        negligible: f64,
    ) -> std::result::Result<Statistics, Failure> {
        self.begin_sums()?;
        let weighed = self.add_rows(rows, sparsity, negligible)?;
        Ok(Statistics { entropy: self.end_sums()?, weighed })
    }

    /// The same of rows that come one after the other, a [panel](super::PANEL_ROWS) at a time: begin with nothing.
    pub fn begin_sums(&mut self) -> Result<()> {
        let device = Arc::clone(&self.device);
        let len = self.num_clusters * self.form.width(self.dim);
        device.clear(self.room.total.room(&device, len)?)?;
        self.begin_choices()
    }

    /// Add rows; how many pairs of row and cluster were weighed in full.
    pub fn add_rows<T: Element>(&mut self, rows: &Rows<T>, sparsity: usize, negligible: f64) -> Result<u64> {
        let mut weighed = 0;
        self.choose_all(rows, sparsity, |work, range, pairs| {
            weighed += pairs as u64;
            work.add_statistics(rows, range, pairs, negligible)?;
            work.done("statistics")
        })?;
        Ok(weighed)
    }

    /// Bring what came of them to the host; the entropy of all.
    pub fn end_sums(&mut self) -> std::result::Result<f64, Failure> {
        let device = Arc::clone(&self.device);
        let len = self.num_clusters * self.form.width(self.dim);
        let entropy = self.end_choices()?;
        let sums = match self.sums.take() {
            Some(sums) if sums.get()?.len() >= len => sums,
            _ => device.pinned(len)?,
        };
        device.download_into(self.room.total.get()?, &mut self.sums.insert(sums).get_mut()?[..len])?;
        self.done("download")?;
        Ok(entropy)
    }

    /// What rows gave last: for each cluster N, the sums of y = x - c and the lower triangle of the sums of y y^T or the sums of
    /// y^2, one behind the other.
    pub fn sums(&self) -> Result<&[f64]> {
        let sums = self.sums.as_ref().ok_or_else(missing)?.get()?;
        sums.get(..self.num_clusters * self.form.width(self.dim)).ok_or_else(missing)
    }

    /// Before rows choose their clusters.
    pub(super) fn begin_choices(&mut self) -> Result<()> {
        let device = Arc::clone(&self.device);
        device.clear(self.room.entropy.room(&device, 1)?)?;
        device.upload_into(&[u32::MAX], self.room.bad_row.room(&device, 1)?, 0)?;
        self.rows_before = 0;
        self.begin()
    }

    /// The entropy of all choices.
    pub(super) fn end_choices(&mut self) -> std::result::Result<f64, Failure> {
        let entropy = self.device.download_at(self.room.entropy.get()?, 0)?;
        match self.device.download_at(self.room.bad_row.get()?, 0)? {
            u32::MAX => Ok(entropy),
            row => Err(Failure::NotANumber { row: row as usize }),
        }
    }

    /// Let rows choose their clusters, panel by panel, and do something with each panel and its pairs.
    pub(super) fn choose_all<T: Element>(
        &mut self,
        rows: &Rows<T>,
        sparsity: usize,
        mut then: impl FnMut(&mut Work, &Range<usize>, usize) -> Result<()>,
    ) -> Result<()> {
        let screened = sparsity <= SCREENED_SPARSITY && sparsity < self.num_clusters && self.form.is_screened(self.dim);
        let panel = if screened { PANEL_ROWS } else { self.dense_panel() };
        let mut first = 0;
        while first < rows.num {
            // Rows that come a panel at a time are cut in the same places.
            let last = (first + panel).min(rows.num).min((first / PANEL_ROWS + 1) * PANEL_ROWS);
            self.choose_panel(rows, first..last, Choice { sparsity, screened }, &mut then)?;
            first = last;
        }
        self.rows_before += rows.num;
        Ok(())
    }

    /// Rows that are weighed against all clusters together.
    pub(super) fn dense_panel(&self) -> usize {
        (MOST_PAIRS / self.num_clusters.max(1)).clamp(1, PANEL_ROWS)
    }

    /// One panel of rows; where too many clusters are left, its halves one after the other.
    fn choose_panel<T: Element>(
        &mut self,
        rows: &Rows<T>,
        range: Range<usize>,
        choice: Choice,
        then: &mut impl FnMut(&mut Work, &Range<usize>, usize) -> Result<()>,
    ) -> Result<()> {
        let pairs = self.find_pairs(rows, &range, choice)?;
        self.done("count")?;
        if pairs > MOST_PAIRS && range.len() > 1 {
            let middle = range.start + range.len() / 2;
            self.choose_panel(rows, range.start..middle, choice, then)?;
            return self.choose_panel(rows, middle..range.end, choice, then);
        }
        self.weigh_pairs(rows, &range, pairs, choice.screened)?;
        self.choose(rows, &range, choice.sparsity)?;
        self.done("choose")?;
        then(self, &range, pairs)
    }

    /// Make the pairs that were found, and weigh them.
    pub(super) fn weigh_pairs<T: Element>(
        &mut self,
        rows: &Rows<T>,
        range: &Range<usize>,
        pairs: usize,
        screened: bool,
    ) -> Result<()> {
        self.make_pairs(range.len(), pairs, screened)?;
        self.done("pairs")?;
        self.sort_pairs(pairs)?;
        self.done("sort")?;
        self.decide(rows, range, pairs)?;
        self.done("decide")
    }
}
