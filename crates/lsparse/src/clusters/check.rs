//! Rows as clusters take them: the precision they are worked on in, and values that a family can explain.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::data::{Element, Moments, PartialMoments, RowSource, Rows, Scalar, scan_part};
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

/// Columns of so many different values or fewer are no measure of a density: with eight planted Gaussians in 4, 8 and 16
/// columns, rounded to 5 values, 102, 346 and 57 clusters are found, to 9 values 274, 93 and 10, to 17 values 215, 8 and 8,
/// to 25 or more the 8 that there are.
const FEW_VALUES: usize = 20;

/// Rows a value, for few values to be no accident.
const ROWS_A_VALUE: usize = 10;

/// Columns that are named; of more it is said how many.
const NAMED: usize = 5;

/// What there is to say of the columns of some rows where Gaussians are to say how many they are: those that never vary,
/// those with few different values, and those that are another once more.
pub fn remarks_on_values<T: Scalar>(rows: &Rows<T>) -> Vec<String> {
    let Some(values) = rows.as_dense() else { return Vec::new() };
    // Zero is zero, whatever its sign.
    let (dim, bits) = (rows.dim(), |value: &T| (value.to_f64() + 0.0).to_bits());
    let (mut constant, mut few, mut twins, mut most) = (Vec::new(), Vec::new(), Vec::new(), 0);
    let mut known: HashSet<u64> = HashSet::new();
    for d in 0..dim {
        let of_column = || values.iter().skip(d).step_by(dim).map(bits);
        let different = of_column().scan(HashSet::new(), |seen, value| {
            seen.insert(value);
            (seen.len() <= FEW_VALUES).then_some(seen.len())
        });
        let (looked_at, different) = different.fold((0, 0), |(rows, _), now| (rows + 1, now));
        let is_few = looked_at == rows.len() && rows.len() >= ROWS_A_VALUE * different;
        if is_few && different == 1 {
            constant.push(d + 1);
            continue;
        }
        let mut hasher = DefaultHasher::new();
        of_column().for_each(|value| value.hash(&mut hasher));
        if !known.insert(hasher.finish()) {
            twins.push(d + 1);
        }
        if is_few {
            few.push(d + 1);
            most = most.max(different);
        }
    }
    let of_few = format!(
        "of {most} different values or fewer, each of which Gaussians may take for a cluster, so that K is too large: give \
         K, or choose a mixture of counts or bits where they are some"
    );
    let said = [
        (few, &of_few[..]),
        (constant, "the same in all rows that were looked at, which says nothing: leave out what is constant"),
        (twins, "another column once more, so that K is too small: leave out what is there twice"),
    ];
    said.into_iter().filter(|(columns, _)| !columns.is_empty()).map(|(columns, what)| named(&columns, what)).collect()
}

/// Columns by their numbers, and what they are.
fn named(columns: &[usize], what: &str) -> String {
    // One other is as soon named.
    let most = if columns.len() > NAMED + 1 { NAMED } else { NAMED + 1 };
    let numbers: Vec<String> = columns.iter().take(most).map(usize::to_string).collect();
    match (columns.len(), columns.len().saturating_sub(most)) {
        (1, _) => format!("column {} is {what}", numbers[0]),
        (_, 0) => format!("columns {} are {what}", numbers.join(", ")),
        (_, others) => format!("columns {} and {others} others are {what}", numbers.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(dim: usize, value: impl Fn(usize, usize) -> f64) -> Vec<String> {
        let mut rows = Rows::<f64>::dense(dim);
        rows.push_dense(
            &(0..1000).flat_map(|n| (0..dim).map(move |d| (n, d))).map(|(n, d)| value(n, d)).collect::<Vec<_>>(),
        );
        remarks_on_values(&rows)
    }

    #[test]
    fn columns_that_mislead_are_named() {
        let usual = |n: usize, d: usize| ((n * (7 + d)) as f64).sin();
        assert!(said(3, usual).is_empty());
        // Many values, if whole ones.
        assert!(said(3, |n, d| (30.0 * usual(n, d)).round()).is_empty());
        let pixels = said(9, |n, d| (8.0 * usual(n, d)).round());
        assert!(
            pixels.len() == 1 && pixels[0].starts_with("columns 1, 2, 3, 4, 5 and 4 others are of 17"),
            "{pixels:?}"
        );
        let mixed = said(4, |n, d| match d {
            1 => 5.0,
            3 => usual(n, 0),
            _ => usual(n, d),
        });
        assert!(
            mixed[0].starts_with("column 2 is the same") && mixed[1].starts_with("column 4 is another"),
            "{mixed:?}"
        );
    }
}
