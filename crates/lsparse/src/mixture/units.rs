//! The units that a mixture's columns are worked on in: settled from the data, and undone in the arrays of a model.

use crate::clusters::is_constant;
use crate::data::{ColumnUnits, Moments};
use crate::likelihood::{NamedArray, Spread};

impl ColumnUnits {
    /// Each column about its mean in units of its standard deviation, or about zero in units of its root mean square. A
    /// column that never varies keeps its unit.
    pub(super) fn of(moments: &Moments, spread: Spread) -> Self {
        let about_zero = spread == Spread::AboutZero;
        let spread = if about_zero { &moments.second_moment } else { &moments.variance };
        let unit = |(&v, &second): (&f64, &f64)| if is_constant(v, second) { 1.0 } else { v.sqrt() };
        ColumnUnits {
            shift: if about_zero { vec![0.0; moments.mean.len()] } else { moments.mean.clone() },
            scale: spread.iter().zip(&moments.second_moment).map(unit).collect(),
        }
    }

    /// The arrays of Gaussians in these units as those of the same densities in the data's own. A variance for all columns
    /// becomes one a column.
    pub(crate) fn undo_arrays(&self, arrays: &mut [NamedArray]) {
        let dim = self.scale.len();
        for array in arrays {
            match array.name {
                "means" => self.undo(&mut array.values),
                "variances" => {
                    if array.shape.len() == 1 {
                        array.shape.push(dim);
                        array.values = array.values.iter().flat_map(|&v| std::iter::repeat_n(v, dim)).collect();
                    }
                    self.each_variance(&mut array.values, |v, unit| v * unit);
                }
                "covariances" => self.each_covariance(&mut array.values, |v, unit| v * unit),
                _ => {}
            }
        }
    }

    /// The reverse of [`undo_arrays`](Self::undo_arrays); where `one_variance`, columns share one.
    pub(super) fn apply_arrays(&self, arrays: &mut [NamedArray], one_variance: bool) {
        for array in arrays {
            match array.name {
                "means" => self.apply(&mut array.values),
                "variances" => {
                    self.each_variance(&mut array.values, |v, unit| v / unit);
                    if one_variance {
                        array.shape.truncate(1);
                        array.values = array.values.iter().step_by(self.scale.len()).copied().collect();
                    }
                }
                "covariances" => self.each_covariance(&mut array.values, |v, unit| v / unit),
                _ => {}
            }
        }
    }

    fn each_variance(&self, values: &mut [f64], change: impl Fn(f64, f64) -> f64) {
        for row in values.chunks_exact_mut(self.scale.len()) {
            row.iter_mut().zip(&self.scale).for_each(|(v, scale)| *v = change(*v, scale * scale));
        }
    }

    fn each_covariance(&self, values: &mut [f64], change: impl Fn(f64, f64) -> f64) {
        let dim = self.scale.len();
        for (i, row) in values.chunks_exact_mut(dim).enumerate() {
            let own = self.scale[i % dim];
            row.iter_mut().zip(&self.scale).for_each(|(v, scale)| *v = change(*v, own * scale));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_of_the_data_are_those_of_the_units_again() {
        let units = ColumnUnits { shift: vec![3.0, -100.0], scale: vec![0.25, 16.0] };
        let arrays = || {
            vec![
                NamedArray::new("means", vec![2, 2], vec![1.0, -2.0, 0.5, 4.0]),
                NamedArray::new("covariances", vec![2, 2, 2], vec![1.0, 0.5, 0.5, 2.0, 3.0, 0.25, 0.25, 1.0]),
                NamedArray::new("variances", vec![2], vec![0.5, 2.0]),
                NamedArray::new("degrees", vec![2], vec![7.0, 9.0]),
            ]
        };
        let mut undone = arrays();
        units.undo_arrays(&mut undone);
        assert_eq!(undone[0].values, [3.25, -132.0, 3.125, -36.0]);
        assert_eq!(undone[1].values[..4], [0.0625, 2.0, 2.0, 512.0]);
        assert_eq!((&undone[2].shape[..], &undone[2].values[..2]), (&[2, 2][..], &[0.03125, 128.0][..]));
        assert_eq!(undone[3], arrays()[3]);
        units.apply_arrays(&mut undone, true);
        assert_eq!(undone, arrays());
    }
}
