//! The prior that settings and data give.

use crate::data::{FAR, Moments};
use crate::likelihood::{Prior, PriorShape, Spread, average};
use crate::settings::{DEFAULT_KAPPA, MixtureConfig};

impl Prior {
    /// The prior for data with these moments.
    ///
    /// Covariance priors are measured in the data's own units, so that a change of units changes nothing: `prior_scale`
    /// and `variance_floor` multiply the variances of the columns (about zero for zero-mean clusters), each column's
    /// own or the average of all, as the shape says.
    pub fn for_data(config: &MixtureConfig, moments: &Moments) -> Self {
        let dim = moments.mean.len();
        let family = config.likelihood.family();
        let scale = config.prior_scale.unwrap_or(1.0);
        let spread = match family.spread {
            Spread::AboutMean => &moments.variance[..],
            Spread::AboutZero => &moments.second_moment,
            Spread::Means | Spread::Nothing => &[],
        };
        let units = match config.prior_shape {
            PriorShape::Isotropic => vec![average(spread); spread.len()],
            PriorShape::Columns => {
                let varies = |(v, second): (&f64, &f64)| !is_constant(*v, *second);
                let varying: Vec<bool> = spread.iter().zip(&moments.second_moment).map(varies).collect();
                let of_varying: Vec<f64> = spread.iter().zip(&varying).filter(|v| *v.1).map(|v| *v.0).collect();
                let usual = average(&of_varying);
                spread.iter().zip(varying).map(|(&v, varies)| if varies { v } else { usual }).collect()
            }
        };
        let center = if family.has_means { moments.mean.clone() } else { Vec::new() };
        Prior {
            dim,
            lambda: config.lambda,
            nu: config.nu.unwrap_or_else(|| (family.default_nu)(dim)),
            kappa: config.kappa.unwrap_or(DEFAULT_KAPPA) / if family.shares_covariance { reach(moments) } else { 1.0 },
            variance: units.iter().map(|unit| scale * unit).collect(),
            variance_floor: units.iter().map(|unit| config.variance_floor * unit).collect(),
            missing: config.missing,
            own_variance: if config.missing { of_lacking(spread, moments) } else { Vec::new() },
            column_means: if family.spread == Spread::Means { moments.mean.clone() } else { Vec::new() },
            center,
        }
    }
}

/// The variances of columns that some rows lack, zero for others; nothing where none does.
fn of_lacking(spread: &[f64], moments: &Moments) -> Vec<f64> {
    let lacks = |d: usize| moments.present[d] < moments.count;
    match (0..spread.len()).any(lacks) {
        true => (0..spread.len()).map(|d| if lacks(d) { spread[d] } else { 0.0 }).collect(),
        false => Vec::new(),
    }
}

/// How many times the variance of a column is that of its usual values, of the column of which it is the most; one where
/// values are all usual.
///
/// A prior of means in units of a covariance that all clusters share widens that for all of them by a single far mean:
/// with so much less of it a far cluster costs what it costs others, nothing to speak of.
pub(crate) fn reach(moments: &Moments) -> f64 {
    let columns = moments.mean.iter().zip(&moments.variance).zip(&moments.second_moment);
    let times = columns.map(|((mean, &variance), &second)| {
        let all = second - mean * mean;
        // Rounding alone is no far value, in columns that are constant or far from zero.
        if variance > 0.0 && all > 1e-12 * second && all > FAR / 2.0 * variance { all / variance } else { 1.0 }
    });
    times.fold(1.0, f64::max)
}

/// A column whose variance is no more than this share of its mean square is constant.
const CONSTANT: f64 = 1e-24;

/// Whether a column with this variance and mean square is constant: rounding alone may give it a variance.
pub(crate) fn is_constant(variance: f64, second_moment: f64) -> bool {
    variance <= CONSTANT * second_moment
}
