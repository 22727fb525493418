//! The prior that settings and data give.

use crate::data::Moments;
use crate::likelihood::{Prior, PriorShape, Spread, average};
use crate::settings::MixtureConfig;

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
            kappa: config.kappa,
            variance: units.iter().map(|unit| scale * unit).collect(),
            variance_floor: units.iter().map(|unit| config.variance_floor * unit).collect(),
            missing: config.missing,
            column_means: if family.spread == Spread::Means { moments.mean.clone() } else { Vec::new() },
            center,
        }
    }
}

/// A column whose variance is no more than this share of its mean square is constant.
const CONSTANT: f64 = 1e-24;

/// Whether a column with this variance and mean square is constant: rounding alone may give it a variance.
pub(crate) fn is_constant(variance: f64, second_moment: f64) -> bool {
    variance <= CONSTANT * second_moment
}
