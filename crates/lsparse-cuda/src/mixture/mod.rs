//! The local step of mixtures whose clusters weigh rows by quadratic forms, of all columns together or column by column:
//! rows stay on the GPU, clusters go there, and statistics, scores or responsibilities come back.
//!
//! A row's L clusters are the L largest weights in FP64, and statistics are sums in FP64 over rows in order, so that the same
//! rows and clusters give the same bits, whatever was found beforehand to rule clusters out by.
//!
//! - `work`: what is worked with, and rows.
//! - `clusters`: clusters, and what a lap needs of them.
//! - `screen`: which clusters can be ruled out for a row.
//! - `pairs`: pairs of row and cluster, and their order.
//! - `decide`: weights, responsibilities and statistics.
//! - `stream`: rows that do not stay.
//! - `score`: densities of rows, and the clusters that they keep.

mod clusters;
mod decide;
mod pairs;
mod score;
mod screen;
mod stream;
mod work;

use crate::device::{Buffer, Plain};
use crate::error::Error;

pub use score::Densities;
pub use stream::{Slot, Way};
pub use work::Work;

/// What a cluster's quadratic form is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// ||M (x - m)||^2 with a lower-triangular M.
    Triangular,
    /// sum_d p_d (x_d - m_d)^2.
    Columns,
    /// ||M (x - c) - m||^2 with one lower-triangular M for all clusters: as [`Columns`](Self::Columns) for rows that are
    /// turned, with precisions of one.
    Turned,
}

impl Form {
    /// Most columns that rows may have.
    pub const fn most_columns(self) -> usize {
        match self {
            Form::Triangular => 1024,
            Form::Columns | Form::Turned => 2048,
        }
    }

    /// Whether clusters can be ruled out for rows of so many columns; where not, all of them are weighed.
    pub const fn is_screened(self, dim: usize) -> bool {
        match self {
            Form::Triangular => dim <= 128,
            Form::Columns | Form::Turned => true,
        }
    }

    /// Numbers of a cluster's form.
    fn size(self, dim: usize) -> usize {
        match self {
            Form::Triangular => triangle(dim),
            Form::Columns | Form::Turned => dim,
        }
    }

    /// Numbers a cluster in [`Work::sums`]: N, the sums of y, and those of y y^T (a lower triangle) or of y^2.
    pub fn width(self, dim: usize) -> usize {
        1 + dim + self.size(dim)
    }

    /// Numbers in FP16 that a row is screened by.
    fn halves(self, dim: usize) -> usize {
        match self {
            Form::Triangular => blocks_for(dim).unwrap_or(0) * 16,
            Form::Columns | Form::Turned => 2 * dim.next_multiple_of(16),
        }
    }
}

/// Most clusters: a warp counts pairs of each in shared memory.
pub const MOST_CLUSTERS: usize = 40_000;

/// Rows that are screened together. A constant, as sums are in the order of panels.
pub const PANEL_ROWS: usize = 1 << 19;

/// Pairs of row and cluster that are worked on together at most.
const MOST_PAIRS: usize = 1 << 24;

/// As in the kernels.
const ROOM: usize = 128;
const CHUNK: usize = 8192;
const SEGMENT: usize = 1024;
const WIDE: usize = 64;

/// Blocks of 16 columns that there are kernels for, with the tiles of 16 rows that a warp screens and the clusters that come
/// to shared memory together.
const SCREENS: [(usize, usize, usize); 4] = [(1, 4, 8), (2, 4, 8), (4, 4, 4), (8, 2, 1)];

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
    /// Nothing, for [`Form::Triangular`] of so many columns that nothing is [screened](Form::is_screened).
    Nothing,
    /// Nothing, for [`Form::Turned`]: what turns rows comes with the clusters.
    Clusters,
}

/// Rows on the GPU.
pub struct Rows<T> {
    num: usize,
    values: Buffer<T>,
    whitened: Option<Whitened>,
    weights: Option<Buffer<f64>>,
}

/// Rows in FP16, whitened, and how far that may be off.
struct Whitened {
    halves: Buffer<u16>,
    reach: Buffer<f32>,
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
    let whitened = if form == Form::Turned || !form.is_screened(dim) { 0 } else { form.halves(dim) * 2 + 4 };
    (rows * (dim * size_of::<T>() + whitened + if weighted { 8 } else { 0 })) as u64
}

/// Bytes on the GPU that work takes at least besides the rows.
pub fn bytes_of_work(form: Form, rows: usize, dim: usize, clusters: usize) -> u64 {
    let (panel, padded) = (rows.min(PANEL_ROWS), form.halves(dim));
    let pairs = (panel * 16).min(MOST_PAIRS).max(clusters);
    let sums = if form.is_screened(dim) { pairs / SEGMENT + clusters } else { clusters * parts_each(clusters, dim) };
    let packed = match form {
        Form::Triangular if !form.is_screened(dim) => 0,
        Form::Triangular => 16 * triangle(padded / 8) * 32 + 16 * pieces(padded / 16),
        Form::Columns | Form::Turned => 2 * padded + 16,
    };
    let turned = if form == Form::Turned { panel * (8 * dim + 2 * padded + 4) + 8 * dim * dim } else { 0 };
    let of_cluster = 8 * (form.size(dim) + dim) + packed + 8 * form.width(dim);
    (panel * ROOM * 8 + panel * 16 + pairs * 24 + sums * form.width(dim) * 8 + clusters * of_cluster + turned) as u64
}

/// Parts that the segments of each cluster are summed in where nothing is screened, so that few clusters keep all of a GPU
/// busy and the sums of many do not fill its memory. By the sizes of the work alone, as sums are in the order of parts.
fn parts_each(clusters: usize, dim: usize) -> usize {
    ((1 << 27) / (clusters * Form::Triangular.width(dim)).max(1)).clamp(1, 16)
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

fn missing() -> Error {
    Error::Failed { action: "start a kernel", detail: "clusters or rows are not there yet".into() }
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
