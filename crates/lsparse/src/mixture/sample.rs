//! Rows drawn from a trained mixture.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::MixtureModel;
use crate::error::{Error, Result};
use crate::likelihood::LikelihoodKind;
use crate::linalg;
use crate::random::{categorical, normal};

/// Rows drawn from a mixture, and the cluster of each.
#[derive(Clone, Debug, PartialEq)]
pub struct DrawnRows {
    /// All values, row by row.
    pub values: Vec<f64>,
    /// The cluster that each row was drawn from.
    pub clusters: Vec<u32>,
}

impl MixtureModel {
    /// Draw rows under the point estimates. A row of counts has `trials` of them, where that is given, and else as many
    /// as the rows of the training data had on average.
    pub fn sample(&self, rows: usize, trials: Option<usize>, seed: u64) -> Result<DrawnRows> {
        let dim = self.dim();
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let shapes = self.shapes()?;
        let trials = trials.unwrap_or_else(|| self.average_trials());
        let mut drawn = DrawnRows { values: vec![0.0; rows * dim], clusters: Vec::with_capacity(rows) };
        for row in drawn.values.chunks_exact_mut(dim) {
            let k = categorical(&self.weights, &mut rng);
            drawn.clusters.push(k as u32);
            shapes[k].draw(trials, row, &mut rng);
        }
        Ok(drawn)
    }

    /// Counts of a row of the training data on average, at least one.
    fn average_trials(&self) -> usize {
        let sum: f64 = self.total.stats.iter().sum();
        (sum / self.total.total_weight().max(f64::MIN_POSITIVE)).round().max(1.0) as usize
    }

    fn shapes(&self) -> Result<Vec<Shape>> {
        let dim = self.dim();
        let array = |name: &str| {
            let found =
                self.array(name).ok_or_else(|| Error::BadArray { name: name.into(), detail: "is missing".into() });
            found.map(|array| array.values.as_slice())
        };
        let means = match self.config.likelihood {
            LikelihoodKind::ZeroMeanGauss => &vec![0.0; self.num_clusters() * dim],
            LikelihoodKind::Multinomial | LikelihoodKind::Bernoulli => &[][..],
            _ => array("means")?,
        };
        let mean = |k: usize| means[k * dim..(k + 1) * dim].to_vec();
        (0..self.num_clusters())
            .map(|k| match self.config.likelihood {
                LikelihoodKind::ZeroMeanGauss | LikelihoodKind::Gauss | LikelihoodKind::TiedGauss => {
                    let at = if self.config.likelihood == LikelihoodKind::TiedGauss { 0 } else { k * dim * dim };
                    let mut factor = array("covariances")?[at..at + dim * dim].to_vec();
                    linalg::cholesky_in_place(&mut factor, dim)
                        .map_err(|pivot| Error::NotPositiveDefinite { cluster: k, pivot })?;
                    Ok(Shape::Gauss { mean: mean(k), factor })
                }
                LikelihoodKind::DiagGauss => {
                    let deviation = array("variances")?[k * dim..(k + 1) * dim].iter().map(|v| v.sqrt()).collect();
                    Ok(Shape::Diagonal { mean: mean(k), deviation })
                }
                LikelihoodKind::SphericalGauss => {
                    Ok(Shape::Diagonal { mean: mean(k), deviation: vec![array("variances")?[k].sqrt(); dim] })
                }
                LikelihoodKind::Multinomial => {
                    let mut sum = 0.0;
                    let up_to = array("probabilities")?[k * dim..(k + 1) * dim].iter().map(|p| {
                        sum += p;
                        sum
                    });
                    Ok(Shape::Counts { cumulative: up_to.collect() })
                }
                LikelihoodKind::Bernoulli => {
                    Ok(Shape::Ones { probability: array("probabilities")?[k * dim..(k + 1) * dim].to_vec() })
                }
            })
            .collect()
    }
}

/// What a row of one cluster is drawn from.
enum Shape {
    /// The lower Cholesky factor of the covariance, row by row in full.
    Gauss {
        mean: Vec<f64>,
        factor: Vec<f64>,
    },
    Diagonal {
        mean: Vec<f64>,
        deviation: Vec<f64>,
    },
    Counts {
        cumulative: Vec<f64>,
    },
    Ones {
        probability: Vec<f64>,
    },
}

impl Shape {
    /// Draw into a row of zeros.
    fn draw(&self, trials: usize, row: &mut [f64], rng: &mut ChaCha8Rng) {
        match self {
            Shape::Gauss { mean, factor } => {
                let noise: Vec<f64> = mean.iter().map(|_| normal(rng)).collect();
                for (i, x) in row.iter_mut().enumerate() {
                    let of_row = &factor[i * mean.len()..i * mean.len() + i + 1];
                    *x = mean[i] + of_row.iter().zip(&noise).map(|(f, z)| f * z).sum::<f64>();
                }
            }
            Shape::Diagonal { mean, deviation } => {
                for (x, (m, s)) in row.iter_mut().zip(mean.iter().zip(deviation)) {
                    *x = m + s * normal(rng);
                }
            }
            Shape::Counts { cumulative } => {
                let sum = cumulative.last().copied().unwrap_or(1.0);
                for _ in 0..trials {
                    let at = rng.random::<f64>() * sum;
                    row[cumulative.partition_point(|&c| c <= at).min(cumulative.len() - 1)] += 1.0;
                }
            }
            Shape::Ones { probability } => {
                for (x, &p) in row.iter_mut().zip(probability) {
                    *x = if rng.random::<f64>() < p { 1.0 } else { 0.0 };
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::MemoryRows;
    use crate::synthetic::planted;
    use crate::{Estimate, MixtureConfig, fit_mixture};

    /// Means of what is drawn are the means of what was trained on: under maximum likelihood they are the model's.
    #[test]
    fn drawn_rows_have_the_moments_of_the_data() {
        for likelihood in LikelihoodKind::ALL {
            let data = planted(likelihood, 3000, 4, 3, 5);
            let rows = MemoryRows::new("planted", 4, data.values.clone()).unwrap();
            let config =
                MixtureConfig { likelihood, clusters: 3, estimate: Estimate::MaxLikelihood, ..Default::default() };
            let model = fit_mixture(&rows, &config).unwrap().model;
            let drawn = model.sample(20_000, None, 1).unwrap();
            assert_eq!(drawn, model.sample(20_000, None, 1).unwrap());
            let dim = model.dim();
            let moments = |values: &[f64], power: i32| -> Vec<f64> {
                let rows = (values.len() / dim) as f64;
                (0..dim)
                    .map(|d| values.iter().skip(d).step_by(dim).map(|v| v.powi(power)).sum::<f64>() / rows)
                    .collect()
            };
            for power in [1, 2] {
                let (ours, theirs) = (moments(&drawn.values, power), moments(&data.values, power));
                let size = moments(&data.values, 2).iter().fold(0.0f64, |a, &b| a.max(b)).powf(power as f64 / 2.0);
                for (a, b) in ours.iter().zip(&theirs) {
                    assert!((a - b).abs() < 0.1 * size, "{likelihood:?}: moment {power} is {a}, not {b}");
                }
            }
        }
    }

    #[test]
    fn rows_of_counts_have_as_many_as_asked_for() {
        let data = planted(LikelihoodKind::Multinomial, 200, 6, 2, 5);
        let rows = MemoryRows::new("planted", 6, data.values).unwrap();
        let config = MixtureConfig { likelihood: LikelihoodKind::Multinomial, clusters: 2, ..Default::default() };
        let drawn = fit_mixture(&rows, &config).unwrap().model.sample(10, Some(17), 0).unwrap();
        assert!(drawn.values.chunks(6).all(|row| row.iter().sum::<f64>() == 17.0));
    }
}
