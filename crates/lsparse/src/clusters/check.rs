//! Rows as clusters take them: the precision they are worked on in, and values that a family can explain.

use crate::data::{Element, Moments, PartialMoments, RowSource, Scalar, scan_part};
use crate::error::{Error, Result};
use crate::likelihood::{Likelihood, LikelihoodKind};
use crate::settings::Precision;

/// The precision that rows of `source` are worked on in.
pub fn working_element(precision: Precision, source: &dyn RowSource) -> Element {
    match precision {
        Precision::Auto => source.element(),
        Precision::F32 => Element::F32,
        Precision::F64 => Element::F64,
    }
}

/// Columns as many as the model has, and every value one that the likelihood can explain.
pub fn check_rows<T: Scalar>(likelihood: &dyn Likelihood<T>, missing: bool, source: &dyn RowSource) -> Result<()> {
    let dim = likelihood.dim();
    if source.dim() != dim {
        return Err(Error::DimensionMismatch { name: source.name().into(), model: dim, data: source.dim() });
    }
    scan_for(likelihood, source, missing).map(|_| ())
}

/// Look at every value once; gives the moments of the columns, of what is there where values may be missing.
pub fn scan_for<T: Scalar>(likelihood: &dyn Likelihood<T>, source: &dyn RowSource, missing: bool) -> Result<Moments> {
    scan_part_for(likelihood, source, missing).map(PartialMoments::finish)
}

/// The same of rows that are a part of the data.
pub fn scan_part_for<T: Scalar>(
    likelihood: &dyn Likelihood<T>,
    source: &dyn RowSource,
    missing: bool,
) -> Result<PartialMoments> {
    let check = |row: usize, column: usize, value: f64| {
        likelihood.check_value(value).map_err(|need| Error::BadValue {
            name: source.name().into(),
            row,
            column,
            value,
            need,
        })
    };
    // Gaussians explain any number, and a question for every value costs as much as all else here.
    let any_number = likelihood.kind().family().spread.is_of_variances();
    scan_part(source, T::ELEMENT, missing, if any_number { None } else { Some(&check) })
}

/// Columns that variances can be estimated of: with some values, and not all so small that their squares are zero.
pub fn check_columns<T: Scalar>(source: &dyn RowSource, likelihood: LikelihoodKind, moments: &Moments) -> Result<()> {
    if let Some(column) = moments.present.iter().position(|&rows| rows == 0) {
        let problem = format!("column {} of {} has no value in any row", column + 1, source.name());
        return Err(Error::Config { setting: "missing", problem, remedy: "leave the column out".into() });
    }
    // The precision of a cluster that is a thousandth as wide must be a number still.
    let in_f32 = T::ELEMENT == Element::F32;
    let least = if in_f32 { 1e-15 } else { 1e-145 };
    let is_tiny = |&largest: &f64| largest > 0.0 && largest < least;
    match moments.largest.iter().position(is_tiny).filter(|_| likelihood.family().spread.is_of_variances()) {
        Some(column) => {
            let (name, largest) = (source.name().into(), moments.largest[column]);
            Err(Error::TinyColumn { name, column, largest, least, in_f32 })
        }
        None => Ok(()),
    }
}
