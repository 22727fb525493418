//! The list of kernels, each compiled here once for `f32` and once for `f64`.
//!
//! The public functions are generic and would be compiled anew in every crate that calls them;
//! going through these methods they only forward to code that exists already.

use crate::block_gather::GatherBlock;
use crate::block_step::BlockStep;
use crate::centers::{CenterScores, NearestCenter};
use crate::cross::CrossProducts;
use crate::distance::{SquareDistances, TriangularProduct};
use crate::elementary::{Coefficients, Exp, Ln};
use crate::gather_tile::GatherTile;
use crate::gram::WeightedGram;
use crate::log_sum::WeightedLogSum;
use crate::offsets::RowOffsets;
use crate::partial::PartialSums;
use crate::peak::FmaBurst;
use crate::products::RowProducts;
use crate::reduce::{WeightedMoments, WeightedSum};
use crate::select::{TopL, TopLTile};
use crate::simd::dispatch;
use crate::sketch::Sketch;
use crate::softmax::{LogSumExp, Softmax, SoftmaxTile};
use crate::table::AddTableRows;
use crate::tile::DiagQuadForms;
use crate::triangular::QuadForms;

macro_rules! kernels {
    ($($name:ident: $kernel:ty $(=> $output:ty)? $(, in $lane:ty)?;)*) => {
        /// The kernels of one element type, run at the current level.
        ///
        /// The vector types are no part of it: outside this crate nothing leads to them, which the
        /// dispatch rule of [`crate::simd::Vector`] needs.
        pub trait Kernels: Coefficients {
            $(
                #[doc(hidden)]
                fn $name(kernel: $kernel) $(-> $output)?;
            )*
        }
        kernels!(@impl f32 $($name: $kernel $(=> $output)? $(, in $lane)?;)*);
        kernels!(@impl f64 $($name: $kernel $(=> $output)? $(, in $lane)?;)*);
    };
    (@impl $real:ident $($name:ident: $kernel:ty $(=> $output:ty)? $(, in $lane:ty)?;)*) => {
        impl Kernels for $real {
            $(
                fn $name(kernel: $kernel) $(-> $output)? {
                    dispatch::<kernels!(@lane $real $(, $lane)?), _>(kernel)
                }
            )*
        }
    };
    // The type of the lanes: that of the data unless it is said.
    (@lane $real:ident) => { $real };
    (@lane $real:ident, $lane:ty) => { $lane };
}

kernels! {
    add_table_rows: AddTableRows<'_, Self>;
    block_step: BlockStep<'_, Self>;
    center_scores: CenterScores<'_, Self>;
    cross_products: CrossProducts<'_, Self>;
    diag_quad_forms: DiagQuadForms<'_, Self>;
    exp_in_place: Exp<'_, Self>;
    fma_burst: FmaBurst => f64;
    gather_block: GatherBlock<'_, Self>;
    gather_tile: GatherTile<'_, Self>;
    ln_in_place: Ln<'_, Self>;
    log_sum_exp: LogSumExp<'_, Self> => f64;
    nearest_center: NearestCenter<'_, Self>;
    partial_sums: PartialSums<'_, Self> => (u64, usize);
    quad_forms: QuadForms<'_, Self>;
    row_offsets: RowOffsets<'_, Self>, in f64;
    row_products: RowProducts<'_, Self>;
    sketch: Sketch<'_, Self> => u64;
    softmax: Softmax<'_, Self>;
    softmax_tile: SoftmaxTile<'_, Self>;
    square_distances: SquareDistances<'_, Self>;
    top_l: TopL<'_, Self> => Result<(), usize>;
    top_l_tile: TopLTile<'_, Self> => bool;
    triangular_product: TriangularProduct<'_, Self>;
    weighted_gram: WeightedGram<'_, Self>;
    weighted_log_sum: WeightedLogSum<'_, Self> => f64;
    weighted_moments: WeightedMoments<'_, Self>, in f64;
    weighted_sum: WeightedSum<'_, Self>;
}
