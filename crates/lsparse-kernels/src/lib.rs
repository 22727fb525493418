//! SIMD kernels of lsparse behind safe functions, with the instruction set chosen at run time.
//!
//! In the order in which a step of training uses them:
//!
//! 1. [`transpose_tile`] and [`gather_tile()`] turn rows into a tile whose lanes are rows;
//! 2. [`TriangularPack::quad_forms`], [`diag_quad_forms`], [`triangular_product`] and
//!    [`square_distances`] give the log weights of Gaussian clusters, [`SketchPack::stage`] and
//!    [`PartialPack::alive`] rule clusters out before, [`add_table_rows`] gives those of topics,
//!    [`CenterPack::nearest`] the nearest centre alone; [`ConditionalPack::expect`] completes rows before;
//! 3. [`top_l`] keeps the largest weights of a row, [`top_l_tile`] those of many rows at once, [`softmax_rows`] turns them into
//!    responsibilities, and [`softmax_tile`] those of all clusters;
//! 4. [`gather_block`] collects the weights of a document's words, [`block_step()`] and
//!    [`weighted_log_sum`] iterate on them;
//! 5. [`weighted_gram`], [`weighted_sum`], [`weighted_square_sum`] and [`weighted_moments`] sum the
//!    statistics;
//! 6. [`invert_cholesky_batch`], [`exp_slice`], [`ln_slice`], [`digamma_slice`] and
//!    [`ln_gamma_slice`] serve the global steps, [`log_form_sums`] the scores of a posterior;
//! 7. [`row_products`] tells how far rows are from a seed, [`row_offsets`] where they are about a centre, [`cross_products`] gives all scalar products of topics, which are
//!    compared with each other once they are trained.
//!
//! Every function is generic over [`Real`] (`f32` or `f64`), compiled here for each [`Level`], and
//! deterministic: its result depends on its arguments and the level alone, not on addresses,
//! threads or earlier calls.
//!
//! ```
//! use lsparse_kernels::{Real, TriangularPack, top_l, transpose_tile};
//!
//! // Squared distances of two points to the origin, in the metric of one factor.
//! let mut pack = TriangularPack::<f32>::new(1, 2);
//! pack.set(0, &[2.0, 0.0, 1.0, 1.0]);
//! let mut tile = vec![0.0; 2 * f32::TILE];
//! transpose_tile(&[1.0, 0.0, 0.0, 3.0], 2, &mut tile);
//! let mut out = vec![0.0; f32::TILE];
//! pack.quad_forms(0, &tile, None, &mut Vec::new(), &mut out);
//! assert_eq!(&out[..2], &[5.0, 9.0]);
//!
//! // The two largest of four weights.
//! let (mut index, mut value) = ([0; 2], [0.0; 2]);
//! top_l(&[1.0, 4.0, 2.0, 4.0], 2, &mut index, &mut value).expect("no NaN");
//! assert_eq!((index, value), ([1, 3], [4.0, 4.0]));
//! ```

mod aligned;
mod block_gather;
mod block_step;
mod candidates;
mod centers;
mod cholesky;
mod conditional;
mod cross;
mod distance;
mod elementary;
mod gamma;
mod gather_tile;
mod gram;
mod kernels;
mod level;
mod log_forms;
mod log_sum;
mod moments;
mod offsets;
mod partial;
pub mod peak;
mod products;
mod real;
mod reduce;
mod select;
mod simd;
mod sketch;
mod softmax;
mod table;
mod tile;
mod triangular;

pub use aligned::AlignedVec;
pub use block_gather::gather_block;
pub use block_step::{BLOCK_LANES, block_step, block_stride};
pub use centers::CenterPack;
pub use cholesky::{invert_cholesky_batch, invert_cholesky_batch_while};
pub use conditional::{Conditional, ConditionalPack};
pub use cross::{PANEL, cross_products};
pub use distance::{square_distances, triangular_product};
pub use elementary::{exp_slice, ln_slice};
pub use gamma::{digamma, digamma_slice, ln_gamma, ln_gamma_slice};
pub use gather_tile::gather_tile;
pub use gram::weighted_gram;
pub use level::{Level, check_asked, level, set_level};
pub use log_forms::log_form_sums;
pub use log_sum::weighted_log_sum;
pub use moments::{RunningMoments, running_moments};
pub use offsets::row_offsets;
pub use partial::PartialPack;
pub use products::row_products;
pub use real::Real;
pub use reduce::{dot_f64, weighted_moments, weighted_square_sum, weighted_sum};
pub use select::{has_top_l_tile, top_l, top_l_tile};
pub use sketch::{Limits, SketchPack, fill_sketch};
pub use softmax::{log_sum_exp, softmax_rows, softmax_tile};
pub use table::add_table_rows;
pub use tile::{diag_quad_forms, transpose_tile};
pub use triangular::{TriangularPack, fill_factor};
