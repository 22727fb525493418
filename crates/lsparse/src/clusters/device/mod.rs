//! What a GPU does for clusters, whatever they are for: steps over a sample of rows, scores and assignments.
//!
//! - [`form`]: rows and clusters as a GPU takes them, statistics as it gives them.
//! - [`held`]: a sample that starts are compared by.
//! - [`judge`]: scores and assignments.

mod form;
mod held;
mod judge;

use lsparse_cuda::mixture::Form;

use crate::error::Error;
use crate::likelihood::{LikelihoodKind, OfMoments};

pub(crate) use form::{add_shared, sample, stage, take_statistics, whitening};
pub(crate) use held::{Gpu, HeldSample};
pub(crate) use judge::{JUDGED_ROWS, Judge, assign_rows};

/// The form that a GPU has the clusters of a family in; none where it has no kernels for it.
pub(crate) fn form_of(kind: LikelihoodKind) -> Option<Form> {
    kind.family().of_moments.map(|of_moments| match of_moments {
        OfMoments::Products(_) => Form::Triangular,
        OfMoments::Squares(_) => Form::Columns,
        OfMoments::Firsts => Form::Turned,
    })
}

pub(crate) fn not_dense() -> Error {
    Error::Gpu { detail: "rows are not dense".into(), remedy: "choose `device cpu`".into() }
}
