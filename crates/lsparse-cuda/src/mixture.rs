//! The local step of mixtures whose clusters weigh rows by quadratic forms, of all columns together or column by column:
//! rows stay on the GPU, clusters go there, and statistics come back.
//!
//! A row's L clusters are the L largest weights in FP64, and statistics are sums in FP64 over rows in order, so that the same
//! rows and clusters give the same bits, whatever was found beforehand to rule clusters out by.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use crate::artefacts::MIXTURE;
use crate::device::{Buffer, Device, Grid, Kernel, Pinned, Plain, launch};
use crate::error::{Error, Result};

/// What a cluster's quadratic form is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// ||M (x - m)||^2 with a lower-triangular M.
    Triangular,
    /// sum_d p_d (x_d - m_d)^2.
    Columns,
}

impl Form {
    /// Most columns that rows may have.
    pub const fn most_columns(self) -> usize {
        match self {
            Form::Triangular => 128,
            Form::Columns => 2048,
        }
    }

    /// Numbers of a cluster's form.
    fn size(self, dim: usize) -> usize {
        match self {
            Form::Triangular => triangle(dim),
            Form::Columns => dim,
        }
    }

    /// Numbers a cluster in [`Work::sums`]: N, the sums of y, and those of y y^T (a lower triangle) or of y^2.
    pub fn width(self, dim: usize) -> usize {
        1 + dim + self.size(dim)
    }

    /// Numbers in FP16 that a row is screened by.
    fn halves(self, dim: usize) -> usize {
        match self {
            Form::Triangular => blocks_for(dim).unwrap_or(8) * 16,
            Form::Columns => 2 * dim.next_multiple_of(16),
        }
    }
}

/// Most clusters: a warp counts pairs of each in shared memory.
pub const MOST_CLUSTERS: usize = 40_000;

/// The L up to which clusters are screened; rows that keep more are weighed against all.
const SCREENED_SPARSITY: usize = 8;

/// Rows that are screened together. A constant, as sums are in the order of panels.
const PANEL_ROWS: usize = 1 << 19;

/// Pairs of row and cluster that are worked on together at most.
const MOST_PAIRS: usize = 1 << 24;

/// As in the kernels.
const ROOM: usize = 128;
const CHUNK: usize = 8192;
const SEGMENT: usize = 1024;

/// Blocks of 16 columns that there are kernels for, with the tiles of 16 rows that a warp screens and the clusters that come
/// to shared memory together.
const SCREENS: [(usize, usize, usize); 4] = [(1, 4, 8), (2, 4, 8), (4, 4, 4), (8, 2, 1)];
const SCREEN_WARPS: usize = 12;

/// The same for GPUs of compute capability 9.0, whose warpgroups multiply by themselves: blocks of columns, warpgroups of 128
/// rows, quadruples of clusters that come together, and how many such are on their way.
const QUAD_SCREENS: [(usize, usize, usize, usize); 2] = [(4, 4, 2, 4), (8, 3, 1, 2)];

/// Of [`Form::Columns`], as in the kernels: rows of a block, clusters that it looks at together, numbers of each that come to
/// shared memory together, and how many such are on their way.
const ROW_TILE: usize = 128;
const CLUSTER_TILE: usize = 64;
const DEPTH: usize = 32;
const AHEAD: usize = 3;

/// Numbers of a row up to which all of them stay in shared memory.
const RESIDENT: usize = 256;

/// The type of numbers that rows are made of.
pub trait Element: Plain {
    /// Its name in those of kernels.
    const SUFFIX: &'static str;
}

impl Element for f32 {
    const SUFFIX: &'static str = "f32";
}

impl Element for f64 {
    const SUFFIX: &'static str = "f64";
}

/// What rows are brought to about the same width by: z = A (x - c) for a lower-triangular A, or z_d = s_d (x_d - c_d). It
/// decides how well clusters can be ruled out, and nothing else.
pub struct Whitening {
    /// c; also the point that statistics are about.
    pub center: Vec<f64>,
    /// A.
    pub by: By,
}

/// What whitens.
pub enum By {
    /// All columns together, for [`Form::Triangular`].
    Factor {
        /// A, row by row.
        factor: Vec<f64>,
        /// The inverse of A, row by row.
        inverse: Vec<f64>,
    },
    /// Each column by itself, for [`Form::Columns`].
    Scales(Vec<f64>),
}

/// Rows on the GPU.
pub struct Rows<T> {
    num: usize,
    values: Buffer<T>,
    /// Whitened, in FP16, and how far that may be off.
    halves: Buffer<u16>,
    reach: Buffer<f32>,
    weights: Option<Buffer<f64>>,
}

impl<T> Rows<T> {
    /// How many.
    pub fn len(&self) -> usize {
        self.num
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.num == 0
    }
}

/// What rows gave.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Statistics {
    /// Sum of the entropies of responsibilities times the weights of their rows.
    pub entropy: f64,
    /// Pairs of row and cluster that were weighed in full.
    pub weighed: u64,
}

/// Entries of a lower triangle.
fn triangle(n: usize) -> usize {
    n * (n + 1) / 2
}

/// Bytes on the GPU that so many rows take, besides what is worked with.
pub fn bytes_of_rows<T>(form: Form, rows: usize, dim: usize, weighted: bool) -> u64 {
    (rows * (dim * size_of::<T>() + form.halves(dim) * 2 + 4 + if weighted { 8 } else { 0 })) as u64
}

/// Bytes on the GPU that work takes at least besides the rows.
pub fn bytes_of_work(form: Form, rows: usize, dim: usize, clusters: usize) -> u64 {
    let (panel, padded) = (rows.min(PANEL_ROWS), form.halves(dim));
    let pairs = (panel * 16).min(MOST_PAIRS).max(clusters);
    let segments = pairs / SEGMENT + clusters;
    let packed = match form {
        Form::Triangular => 16 * triangle(padded / 8) * 32 + 16 * pieces(padded / 16),
        Form::Columns => 2 * padded + 16,
    };
    let of_cluster = 8 * (form.size(dim) + dim) + packed + 8 * form.width(dim);
    (panel * ROOM * 8 + panel * 16 + pairs * 24 + segments * form.width(dim) * 8 + clusters * of_cluster) as u64
}

/// The least number of blocks of 16 columns that there are kernels for; none where columns are too many.
fn blocks_for(dim: usize) -> Option<usize> {
    SCREENS.iter().map(|screen| screen.0).find(|blocks| blocks * 16 >= dim)
}

/// Pieces of 16 bytes of a cluster in the screen.
fn pieces(blocks16: usize) -> usize {
    triangle(blocks16) * 32 + blocks16 * 4 + 1
}

/// A number as kernels take it.
fn int(value: usize) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

/// Memory that grows as it is needed.
struct Growing<T> {
    buffer: Option<Buffer<T>>,
}

impl<T: Plain> Growing<T> {
    fn new() -> Self {
        Growing { buffer: None }
    }

    /// Room for so many numbers, whatever they are.
    fn room(&mut self, device: &Device, len: usize) -> Result<&mut Buffer<T>> {
        if self.buffer.as_ref().is_none_or(|buffer| buffer.len() < len) {
            // What is too small goes before what is large enough comes.
            self.buffer = None;
            self.buffer = Some(device.uninitialized(len)?);
        }
        self.get_mut()
    }

    fn get(&self) -> Result<&Buffer<T>> {
        self.buffer.as_ref().ok_or_else(missing)
    }

    fn get_mut(&mut self) -> Result<&mut Buffer<T>> {
        self.buffer.as_mut().ok_or_else(missing)
    }
}

fn missing() -> Error {
    Error::Failed { action: "start a kernel", detail: "clusters or rows are not there yet".into() }
}

/// What is worked with: the clusters of this lap, and room for pairs of row and cluster.
pub struct Work {
    device: Arc<Device>,
    dim: usize,
    form: Form,
    /// Blocks of 16 columns, of [`Form::Triangular`].
    blocks16: usize,
    /// The screen with products of warpgroups, where the GPU has them.
    quads: Option<(usize, usize, usize, usize)>,
    /// Whether all means are at the center.
    about_center: bool,
    host_center: Vec<f64>,
    center: Buffer<f64>,
    /// The whitening factor, column by column, and its inverse; or what columns are scaled by, and nothing.
    whitening: Buffer<f64>,
    color: Buffer<f64>,
    num_clusters: usize,
    /// Where the host puts forms, means and constants.
    staged: Option<Pinned<f64>>,
    /// Where statistics come to.
    sums: Option<Pinned<f64>>,
    clusters: Growing<f64>,
    means: Growing<f64>,
    constants: Growing<f64>,
    decide_pack: Growing<f64>,
    decide_start: Growing<f64>,
    screen_pack: Growing<u32>,
    /// Four numbers a cluster, of [`Form::Columns`].
    limits: Growing<f32>,
    candidates: Growing<u32>,
    counts: Growing<i32>,
    thresholds: Growing<f32>,
    kept: Growing<u32>,
    starts: Growing<u32>,
    of_blocks: Growing<u32>,
    cluster_of: Growing<u32>,
    row_of: Growing<u32>,
    table: Growing<u32>,
    places: Growing<u32>,
    sorted: Growing<u32>,
    values: Growing<f64>,
    cluster_start: Growing<u32>,
    segments: Growing<u32>,
    before: Growing<u32>,
    entropies: Growing<f64>,
    entropy: Growing<f64>,
    parts: Growing<f64>,
    total: Growing<f64>,
    bad_row: Growing<u32>,
    clock: Option<Clock>,
}

/// Where time goes: seconds of each part, in the order of parts.
struct Clock {
    since: Instant,
    parts: Vec<(&'static str, f64)>,
}

/// What went wrong with the rows, or with the GPU.
#[derive(Clone, Debug, PartialEq)]
pub enum Failure {
    /// A weight of this row is no number.
    NotANumber {
        /// The row.
        row: usize,
    },
    /// The GPU.
    Gpu(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Gpu(error)
    }
}

impl Work {
    /// Work on rows of so many columns.
    pub fn new(device: Arc<Device>, whitening: &Whitening) -> Result<Work> {
        let dim = whitening.center.len();
        let form = match whitening.by {
            By::Factor { .. } => Form::Triangular,
            By::Scales(_) => Form::Columns,
        };
        if dim > form.most_columns() {
            let detail = format!("{dim} of at most {}", form.most_columns());
            return Err(Error::Failed { action: "work on so many columns", detail });
        }
        let blocks16 = if form == Form::Triangular { blocks_for(dim).unwrap_or(8) } else { 0 };
        let center = device.upload(&whitening.center)?;
        let host_center = whitening.center.clone();
        let (whitening, color) = match &whitening.by {
            By::Factor { factor, inverse } => {
                let transposed: Vec<f64> = (0..dim * dim).map(|i| factor[i % dim * dim + i / dim]).collect();
                (device.upload(&transposed)?, device.upload(inverse)?)
            }
            By::Scales(scales) => (device.upload(scales)?, device.upload(&[])?),
        };
        let has_quads = device.info().capability == (9, 0) && device.is_native(&MIXTURE)?;
        let quads = QUAD_SCREENS.into_iter().find(|screen| has_quads && screen.0 == blocks16);
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
            staged: None,
            sums: None,
            clusters: Growing::new(),
            means: Growing::new(),
            constants: Growing::new(),
            decide_pack: Growing::new(),
            decide_start: Growing::new(),
            screen_pack: Growing::new(),
            limits: Growing::new(),
            candidates: Growing::new(),
            counts: Growing::new(),
            thresholds: Growing::new(),
            kept: Growing::new(),
            starts: Growing::new(),
            of_blocks: Growing::new(),
            cluster_of: Growing::new(),
            row_of: Growing::new(),
            table: Growing::new(),
            places: Growing::new(),
            sorted: Growing::new(),
            values: Growing::new(),
            cluster_start: Growing::new(),
            segments: Growing::new(),
            before: Growing::new(),
            entropies: Growing::new(),
            entropy: Growing::new(),
            parts: Growing::new(),
            total: Growing::new(),
            bad_row: Growing::new(),
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
    fn begin(&mut self) -> Result<()> {
        if let Some(clock) = &mut self.clock {
            self.device.synchronize()?;
            clock.since = Instant::now();
        }
        Ok(())
    }

    /// A part is done.
    fn done(&mut self, part: &'static str) -> Result<()> {
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

    fn kernel(&self, name: &str, shared: usize) -> Result<Kernel> {
        self.device.kernel(&MIXTURE, name, shared)
    }

    /// Room for rows, which are then [`put`](Self::put) and [`whitened`](Self::whiten). `weights` are one a row, if any.
    pub fn rows<T: Element>(&self, num: usize, weights: Option<&[f64]>) -> Result<Rows<T>> {
        Ok(Rows {
            num,
            values: self.device.uninitialized(num * self.dim)?,
            halves: self.device.uninitialized(num * self.form.halves(self.dim))?,
            reach: self.device.uninitialized(num)?,
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

    /// Whiten rows, once all of them are there.
    pub fn whiten<T: Element>(&self, rows: &mut Rows<T>) -> Result<()> {
        if self.form == Form::Columns {
            return self.spread_columns(rows);
        }
        // Whole blocks of columns: numbers are read two at a time.
        let shared = self.blocks16 * 16 * 8;
        let kernel = self.kernel(&format!("whiten_{}", T::SUFFIX), shared)?;
        let grid = Grid { blocks: rows.num.min(1 << 14), threads: 32, shared };
        let (num, dim, blocks16) = (int(rows.num), int(self.dim), int(self.blocks16));
        let Rows { values, halves, reach, .. } = rows;
        // Safe: rows are `num` of `dim` columns, halves as many of the padded width, and the factor is dim x dim.
        unsafe {
            launch!(
                self.device,
                &kernel,
                grid,
                &*values,
                &num,
                &dim,
                &blocks16,
                &self.whitening,
                &self.center,
                halves,
                reach
            )
        }
    }

    /// The same for forms of columns.
    fn spread_columns<T: Element>(&self, rows: &mut Rows<T>) -> Result<()> {
        let kernel = self.kernel(&format!("spread_columns_{}", T::SUFFIX), 0)?;
        let grid = Grid { blocks: rows.num.div_ceil(8).min(1 << 14), threads: 256, shared: 0 };
        let (num, dim, padded) = (int(rows.num), int(self.dim), int(self.form.halves(self.dim) / 2));
        let Rows { values, halves, reach, .. } = rows;
        // Safe: rows are `num` of `dim` columns, halves as many of twice the padded width, and there is a scale a column.
        unsafe {
            launch!(
                self.device,
                &kernel,
                grid,
                &*values,
                &num,
                &dim,
                &padded,
                &self.center,
                &self.whitening,
                halves,
                reach
            )
        }
    }

    /// Numbers that the host is to fill in before [`set_clusters`](Self::set_clusters): for each of `num` clusters the
    /// triangle of its factor or its precisions, then for each its mean in the units of the rows, then for each its
    /// constant.
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

    /// Take up the clusters that were staged; their constants have log pi in them.
    pub fn set_clusters(&mut self) -> Result<()> {
        let (num, dim, blocks16) = (self.num_clusters, self.dim, self.blocks16);
        let (factors, means) = (num * self.form.size(dim), num * dim);
        let device = Arc::clone(&self.device);
        self.begin()?;
        let staged = self.staged.as_ref().ok_or_else(missing)?.get()?;
        device.upload_into(&staged[..factors], self.clusters.room(&device, factors)?, 0)?;
        device.upload_into(&staged[factors..factors + means], self.means.room(&device, means)?, 0)?;
        device.upload_into(&staged[factors + means..factors + means + num], self.constants.room(&device, num)?, 0)?;
        self.about_center =
            staged[factors..factors + means].chunks_exact(dim).all(|mean| mean == &self.host_center[..]);
        device.synchronize()?;
        self.done("upload")?;
        if self.form == Form::Columns {
            self.prepare_columns()?;
            return self.done("prepare");
        }
        let padded = blocks16 * 16;
        let size = triangle(dim);
        let shared = size * 8 + size.div_ceil(2) * 8 + 2 * padded * 8;
        let kernel = self.kernel("prepare", shared)?;
        self.decide_pack.room(&device, num * triangle(2 * blocks16) * 64)?;
        self.decide_start.room(&device, num * padded)?;
        // Clusters come to a block several at a time; what is behind the last is not looked at.
        let together = self.quads.map_or(1, |(_, _, quads, _)| 4 * quads);
        self.screen_pack.room(&device, num.next_multiple_of(together) * pieces(blocks16) * 4)?;
        let (k, d, b, in_quads) = (int(num), int(dim), int(blocks16), i32::from(self.quads.is_some()));
        let grid = Grid { blocks: num, threads: 128, shared };
        // Safe: every array has the length that was made room for above, for `num` clusters of `dim` columns.
        unsafe {
            launch!(
                device,
                &kernel,
                grid,
                self.clusters.get()?,
                self.means.get()?,
                self.constants.get()?,
                &self.center,
                &self.color,
                &k,
                &d,
                &b,
                &in_quads,
                self.decide_pack.get_mut()?,
                self.decide_start.get_mut()?,
                self.screen_pack.get_mut()?,
            )?;
        }
        self.done("prepare")
    }

    fn prepare_columns(&mut self) -> Result<()> {
        let device = Arc::clone(&self.device);
        let (num, halves) = (self.num_clusters, self.form.halves(self.dim));
        // Clusters come to a block many at a time; those behind the last are not looked at.
        let all = num.next_multiple_of(CLUSTER_TILE);
        self.screen_pack.room(&device, all * halves / 2)?;
        self.limits.room(&device, all * 4)?;
        let kernel = self.kernel("prepare_columns", 0)?;
        let (d, padded) = (int(self.dim), int(halves / 2));
        let Work { clusters, means, constants, center, whitening, screen_pack, limits, .. } = self;
        let (pack, limits) = (screen_pack.get_mut()?, limits.get_mut()?);
        let (p, m, c) = (clusters.get()?, means.get()?, constants.get()?);
        let grid = Grid { blocks: num, threads: 128, shared: 0 };
        // Safe: every array has the length that was made room for above, for `num` clusters of `dim` columns.
        unsafe { launch!(device, &kernel, grid, p, m, c, &*center, &*whitening, &d, &padded, pack, limits) }
    }

    /// The local step of rows under the clusters: each row keeps its `sparsity` largest weights, and responsibilities that
    /// are not above `negligible` are left out of the sums.
    pub fn summarize<T: Element>(
        &mut self,
        rows: &Rows<T>,
        sparsity: usize,
        negligible: f64,
    ) -> std::result::Result<Statistics, Failure> {
        let device = Arc::clone(&self.device);
        let (num_clusters, width) = (self.num_clusters, self.form.width(self.dim));
        device.clear(self.total.room(&device, num_clusters * width)?)?;
        device.clear(self.entropy.room(&device, 1)?)?;
        let none = self.bad_row.room(&device, 1)?;
        device.upload_into(&[u32::MAX], none, 0)?;
        let mut found = Statistics::default();
        let screened = sparsity <= SCREENED_SPARSITY && sparsity < num_clusters;
        let panel = if screened { PANEL_ROWS } else { (MOST_PAIRS / num_clusters.max(1)).clamp(1, PANEL_ROWS) };
        self.begin()?;
        let mut first = 0;
        while first < rows.num {
            let last = (first + panel).min(rows.num);
            self.panel(rows, first..last, (sparsity, negligible), screened, &mut found)?;
            first = last;
        }
        let len = num_clusters * width;
        let sums = match self.sums.take() {
            Some(sums) if sums.get()?.len() >= len => sums,
            _ => device.pinned(len)?,
        };
        device.download_into(self.total.get()?, &mut self.sums.insert(sums).get_mut()?[..len])?;
        found.entropy = device.download_at(self.entropy.get()?, 0)?;
        self.done("download")?;
        match device.download(self.bad_row.get()?, 1)?[..] {
            [row] if row != u32::MAX => Err(Failure::NotANumber { row: row as usize }),
            _ => Ok(found),
        }
    }

    /// What rows gave last: for each cluster N, the sums of y = x - c and the lower triangle of the sums of y y^T or the sums of
    /// y^2, one behind the other.
    pub fn sums(&self) -> Result<&[f64]> {
        let sums = self.sums.as_ref().ok_or_else(missing)?.get()?;
        sums.get(..self.num_clusters * self.form.width(self.dim)).ok_or_else(missing)
    }

    /// One panel of rows; where too many clusters are left, its halves one after the other.
    fn panel<T: Element>(
        &mut self,
        rows: &Rows<T>,
        range: Range<usize>,
        (sparsity, negligible): (usize, f64),
        screened: bool,
        found: &mut Statistics,
    ) -> Result<()> {
        let pairs = self.find_pairs(rows, range.clone(), sparsity, screened)?;
        self.done("count")?;
        if pairs > MOST_PAIRS && range.len() > 1 {
            let middle = range.start + range.len() / 2;
            self.panel(rows, range.start..middle, (sparsity, negligible), screened, found)?;
            return self.panel(rows, middle..range.end, (sparsity, negligible), screened, found);
        }
        found.weighed += pairs as u64;
        self.make_pairs(range.len(), pairs, screened)?;
        self.done("pairs")?;
        self.sort_pairs(pairs)?;
        self.done("sort")?;
        self.decide(rows, &range, pairs)?;
        self.done("decide")?;
        self.choose(rows, &range, sparsity)?;
        self.done("choose")?;
        self.add_statistics(rows, &range, pairs, negligible)?;
        self.done("statistics")
    }

    /// The kernel that screens, rows and threads a block, and shared memory.
    fn screen(&self) -> Result<(String, usize, usize, usize)> {
        let blocks16 = self.blocks16;
        if let Some((_, groups, quads, stages)) = self.quads {
            let about = if self.about_center { "_about_zero" } else { "" };
            let shared = stages * quads * 4 * pieces(blocks16) * 16;
            return Ok((format!("screen_quads_{blocks16}{about}"), groups * 128, groups * 128, shared));
        }
        let (_, tiles, group) = SCREENS.into_iter().find(|s| s.0 == blocks16).ok_or_else(missing)?;
        let shared = 2 * group * pieces(blocks16) * 16;
        Ok((format!("screen_{blocks16}_8"), SCREEN_WARPS * tiles * 16, SCREEN_WARPS * 32, shared))
    }

    /// How many clusters each row of a panel is weighed against, and where its pairs start; how many pairs there are.
    fn find_pairs<T: Element>(
        &mut self,
        rows: &Rows<T>,
        range: Range<usize>,
        sparsity: usize,
        screened: bool,
    ) -> Result<usize> {
        let device = Arc::clone(&self.device);
        let (num, k) = (range.len(), int(self.num_clusters));
        self.kept.room(&device, num)?;
        let many = int(num);
        if screened {
            self.candidates.room(&device, num * ROOM * 2)?;
            self.counts.room(&device, num)?;
            self.thresholds.room(&device, num)?;
            match self.form {
                Form::Triangular => self.screen_rows(rows, range, sparsity)?,
                Form::Columns => self.screen_columns(rows, range, sparsity)?,
            }
            self.done("screen")?;
            let keep = self.kernel("keep_candidates", 0)?;
            let grid = Grid { blocks: num.div_ceil(8), threads: 256, shared: 0 };
            // Safe: as above.
            unsafe {
                launch!(
                    device,
                    &keep,
                    grid,
                    self.candidates.get_mut()?,
                    self.counts.get()?,
                    self.thresholds.get()?,
                    &many,
                    &k,
                    self.kept.get_mut()?,
                )?;
            }
        } else {
            let fill = self.kernel("fill_u32", 0)?;
            let all = self.num_clusters as u32;
            let grid = Grid { blocks: num.div_ceil(256), threads: 256, shared: 0 };
            // Safe: `kept` has room for `num`.
            unsafe { launch!(device, &fill, grid, self.kept.get_mut()?, &many, &all)? };
        }
        self.starts.room(&device, num + 1)?;
        let Work { kept, starts, of_blocks, .. } = self;
        sum_before(&device, kept.get()?, num, starts.get_mut()?, of_blocks)?;
        let last = device.download_at(self.starts.get()?, num)?;
        Ok(last as usize)
    }

    /// Candidates of each row of a panel.
    fn screen_rows<T: Element>(&mut self, rows: &Rows<T>, range: Range<usize>, sparsity: usize) -> Result<()> {
        let device = Arc::clone(&self.device);
        let (name, rows_a_block, threads, shared) = self.screen()?;
        let screen = self.kernel(&name, shared)?;
        let padded = self.blocks16 * 16;
        let halves = rows.halves.part(range.start * padded..range.end * padded)?;
        let reach = rows.reach.part(range.clone())?;
        // Sums of squares and the constant are rounded in FP32.
        let (l, rounding) = (int(sparsity), (padded as f32 + 16.0) / (1 << 24) as f32);
        let (many, k) = (int(range.len()), int(self.num_clusters));
        let grid = Grid { blocks: range.len().div_ceil(rows_a_block), threads, shared };
        // Safe: `many` rows, and clusters packed for this many columns; lists, counts and thresholds are one a row.
        unsafe {
            launch!(
                device,
                &screen,
                grid,
                &halves,
                &reach,
                self.screen_pack.get()?,
                &many,
                &k,
                &l,
                &rounding,
                self.candidates.get_mut()?,
                self.counts.get_mut()?,
                self.thresholds.get_mut()?,
            )
        }
    }

    /// The same for forms of columns.
    fn screen_columns<T: Element>(&mut self, rows: &Rows<T>, range: Range<usize>, sparsity: usize) -> Result<()> {
        let device = Arc::clone(&self.device);
        let halves = self.form.halves(self.dim);
        let scores = ROW_TILE * (CLUSTER_TILE + 1) * 4 + (AHEAD + 1) * CLUSTER_TILE * 16;
        let shared = |chunks: usize| scores + (AHEAD * CLUSTER_TILE + chunks * ROW_TILE) * DEPTH * 2;
        let resident = halves <= RESIDENT && shared(halves / DEPTH) <= device.info().shared_memory;
        let shared = shared(if resident { halves / DEPTH } else { AHEAD });
        let screen = self.kernel("screen_columns", shared)?;
        let numbers = rows.halves.part(range.start * halves..range.end * halves)?;
        let reach = rows.reach.part(range.clone())?;
        // The sum and the constant are rounded in FP32.
        let (l, rounding) = (int(sparsity), 16.0 / (1 << 24) as f32);
        let (many, k, width) = (int(range.len()), int(self.num_clusters), int(halves));
        let resident = i32::from(resident);
        let grid = Grid { blocks: range.len().div_ceil(ROW_TILE), threads: ROW_TILE, shared };
        // Safe: `many` rows of `width` numbers, and clusters packed as wide, of which there is a whole number of tiles; lists,
        // counts and thresholds are one a row.
        unsafe {
            launch!(
                device,
                &screen,
                grid,
                &numbers,
                &reach,
                self.screen_pack.get()?,
                self.limits.get()?,
                &many,
                &k,
                &width,
                &resident,
                &l,
                &rounding,
                self.candidates.get_mut()?,
                self.counts.get_mut()?,
                self.thresholds.get_mut()?,
            )
        }
    }

    fn make_pairs(&mut self, num: usize, pairs: usize, screened: bool) -> Result<()> {
        let device = Arc::clone(&self.device);
        self.cluster_of.room(&device, pairs)?;
        self.row_of.room(&device, pairs)?;
        let kernel = self.kernel("make_pairs", 0)?;
        let grid = Grid { blocks: num.div_ceil(8), threads: 256, shared: 0 };
        let (many, k, nothing) = (int(num), int(self.num_clusters), 0u64);
        let Work { candidates, counts, starts, cluster_of, row_of, .. } = self;
        // Safe: `starts` are those of `num` rows and their pairs. Without lists the kernel looks at neither.
        unsafe {
            if screened {
                let (lists, counts) = (candidates.get()?, counts.get()?);
                let (clusters, rows) = (cluster_of.get_mut()?, row_of.get_mut()?);
                launch!(device, &kernel, grid, lists, counts, starts.get()?, &many, &k, clusters, rows)
            } else {
                let (clusters, rows) = (cluster_of.get_mut()?, row_of.get_mut()?);
                launch!(device, &kernel, grid, &nothing, &nothing, starts.get()?, &many, &k, clusters, rows)
            }
        }
    }

    /// Sort the pairs by cluster, and cut those of each cluster into segments.
    fn sort_pairs(&mut self, pairs: usize) -> Result<()> {
        let device = Arc::clone(&self.device);
        let num_clusters = self.num_clusters;
        let chunks = pairs.div_ceil(CHUNK);
        let warps = ((96 << 10) / (num_clusters * 4)).clamp(1, 8);
        let shared = warps * num_clusters * 4;
        let grid = Grid { blocks: chunks.div_ceil(warps), threads: warps * 32, shared };
        let (count, sort) = (self.kernel("count_chunks", shared)?, self.kernel("sort_chunks", shared)?);
        self.table.room(&device, num_clusters * chunks)?;
        self.places.room(&device, num_clusters * chunks + 1)?;
        self.sorted.room(&device, pairs * 2)?;
        self.cluster_start.room(&device, num_clusters + 1)?;
        self.segments.room(&device, num_clusters)?;
        self.before.room(&device, num_clusters + 1)?;
        let (many, c, k, size) = (int(pairs), int(chunks), int(num_clusters), int(SEGMENT));
        let Work { cluster_of, row_of, table, places, sorted, of_blocks, cluster_start, segments, before, .. } = self;
        // Safe: there are `pairs` pairs of clusters below `num_clusters`, and the table has a number for each chunk and
        // cluster.
        unsafe { launch!(device, &count, grid, cluster_of.get()?, &many, &c, &k, table.get_mut()?)? };
        sum_before(&device, table.get()?, num_clusters * chunks, places.get_mut()?, of_blocks)?;
        // Safe: the sums say where each chunk's pairs of a cluster go, all of them below `pairs`.
        unsafe {
            let (clusters, rows) = (cluster_of.get()?, row_of.get()?);
            launch!(device, &sort, grid, clusters, rows, &many, &c, &k, places.get()?, sorted.get_mut()?)?;
        }
        let cut = device.kernel(&MIXTURE, "count_segments", 0)?;
        let grid = Grid { blocks: (num_clusters + 1).div_ceil(256), threads: 256, shared: 0 };
        // Safe: one start a cluster and one behind, one number of segments a cluster.
        unsafe {
            let (start, segments) = (cluster_start.get_mut()?, segments.get_mut()?);
            launch!(device, &cut, grid, places.get()?, &c, &k, &many, &size, start, segments)?;
        }
        sum_before(&device, segments.get()?, num_clusters, before.get_mut()?, of_blocks)
    }

    /// Segments of so many pairs at most; blocks beyond the last one do nothing.
    fn most_segments(&self, pairs: usize) -> usize {
        pairs / SEGMENT + self.num_clusters.min(pairs)
    }

    fn decide<T: Element>(&mut self, rows: &Rows<T>, range: &Range<usize>, pairs: usize) -> Result<()> {
        if self.form == Form::Columns {
            return self.decide_columns(rows, range, pairs);
        }
        let device = Arc::clone(&self.device);
        let shared = triangle(2 * self.blocks16) * 32 * 16 + self.blocks16 * 16 * 8;
        let kernel = self.kernel(&format!("decide_{}_{}", T::SUFFIX, self.blocks16), shared)?;
        let grid = Grid { blocks: self.most_segments(pairs), threads: 128, shared };
        let (d, k) = (int(self.dim), int(self.num_clusters));
        self.values.room(&device, pairs)?;
        let x = rows.values.part(range.start * self.dim..range.end * self.dim)?;
        // Safe: pairs are of rows of the range and of clusters that are packed, and there is a value for each.
        unsafe {
            launch!(
                device,
                &kernel,
                grid,
                &x,
                &d,
                self.decide_pack.get()?,
                self.decide_start.get()?,
                self.constants.get()?,
                self.sorted.get()?,
                self.cluster_start.get()?,
                self.before.get()?,
                &k,
                self.values.get_mut()?,
            )
        }
    }

    fn decide_columns<T: Element>(&mut self, rows: &Rows<T>, range: &Range<usize>, pairs: usize) -> Result<()> {
        let device = Arc::clone(&self.device);
        let shared = 2 * self.dim * 8;
        let kernel = self.kernel(&format!("decide_columns_{}", T::SUFFIX), shared)?;
        let grid = Grid { blocks: self.most_segments(pairs), threads: 256, shared };
        let (d, k) = (int(self.dim), int(self.num_clusters));
        self.values.room(&device, pairs)?;
        let x = rows.values.part(range.start * self.dim..range.end * self.dim)?;
        // Safe: pairs are of rows of the range and of clusters that are there, and there is a value for each.
        unsafe {
            launch!(
                device,
                &kernel,
                grid,
                &x,
                &d,
                self.clusters.get()?,
                self.means.get()?,
                self.constants.get()?,
                self.sorted.get()?,
                self.cluster_start.get()?,
                self.before.get()?,
                &k,
                self.values.get_mut()?,
            )
        }
    }

    /// Weights become responsibilities; their entropies are added up.
    fn choose<T: Element>(&mut self, rows: &Rows<T>, range: &Range<usize>, sparsity: usize) -> Result<()> {
        let device = Arc::clone(&self.device);
        let kernel = self.kernel("choose", 0)?;
        let blocks = range.len().div_ceil(8);
        self.entropies.room(&device, blocks)?;
        let grid = Grid { blocks, threads: 256, shared: 0 };
        let (num, l, first, nothing) = (int(range.len()), int(sparsity), int(range.start), 0u64);
        let weights = rows.weights.as_ref().map(|weights| weights.part(range.clone())).transpose()?;
        let Work { values, starts, entropies, bad_row, .. } = self;
        let (values, starts) = (values.get_mut()?, starts.get()?);
        // Safe: `starts` are those of the rows of the range, whose values are there; an entropy a block.
        unsafe {
            let (entropies, bad) = (entropies.get_mut()?, bad_row.get_mut()?);
            match &weights {
                Some(weights) => {
                    launch!(device, &kernel, grid, values, starts, &num, &l, weights, &first, entropies, bad)?
                }
                None => launch!(device, &kernel, grid, values, starts, &num, &l, &nothing, &first, entropies, bad)?,
            }
        }
        let sum = self.kernel("sum_entropies", 0)?;
        let (grid, blocks) = (Grid { blocks: 1, threads: 1024, shared: 0 }, int(blocks));
        // Safe: there are so many entropies, and one sum.
        unsafe { launch!(device, &sum, grid, self.entropies.get()?, &blocks, self.entropy.get_mut()?) }
    }

    fn add_statistics<T: Element>(
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
            Form::Columns => (self.kernel(&format!("sum_columns_{}", T::SUFFIX), 0)?, 0),
        };
        let segments = self.most_segments(pairs);
        let width = self.form.width(self.dim);
        self.parts.room(&device, segments * width)?;
        let grid = Grid { blocks: segments, threads: 256, shared };
        let (d, k, nothing) = (int(self.dim), int(self.num_clusters), 0u64);
        let x = rows.values.part(range.start * self.dim..range.end * self.dim)?;
        let weights = rows.weights.as_ref().map(|weights| weights.part(range.clone())).transpose()?;
        let reduce = self.kernel("reduce", 0)?;
        let Work { center, sorted, values, cluster_start, before, parts, total, .. } = self;
        let (sorted, values, start, before) = (sorted.get()?, values.get()?, cluster_start.get()?, before.get()?);
        // Safe: pairs are of rows of the range; there is room for the sums of every segment.
        unsafe {
            let parts = parts.get_mut()?;
            match &weights {
                Some(w) => launch!(
                    device,
                    &kernel,
                    grid,
                    &x,
                    &d,
                    &*center,
                    sorted,
                    values,
                    w,
                    &negligible,
                    start,
                    before,
                    &k,
                    parts
                )?,
                None => launch!(
                    device,
                    &kernel,
                    grid,
                    &x,
                    &d,
                    &*center,
                    sorted,
                    values,
                    &nothing,
                    &negligible,
                    start,
                    before,
                    &k,
                    parts
                )?,
            }
        }
        let grid = Grid { blocks: self.num_clusters, threads: 256, shared: 0 };
        let w = int(width);
        // Safe: sums of segments and totals have `width` numbers each.
        unsafe { launch!(device, &reduce, grid, parts.get()?, before, &k, &w, total.get_mut()?) }
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
