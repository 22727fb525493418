//! Rows drawn from a trained mixture.

use std::sync::atomic::{AtomicBool, Ordering};

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::error::{Error, Result};
use crate::math::random::categorical;
use crate::mixture::MixtureModel;
use crate::system::check_result;

/// Rows drawn before somebody who wants to stop is heard.
const STRETCH: usize = 1 << 10;

/// Bytes of a row that is drawn besides its values: its cluster, here and as those who ask for it have it.
const BYTES_BESIDES: u64 = 12;

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
        self.sample_until(rows, trials, seed, &AtomicBool::new(false))
    }

    /// As [`sample`](Self::sample), until the flag is set from outside.
    pub fn sample_until(
        &self,
        rows: usize,
        trials: Option<usize>,
        seed: u64,
        interrupt: &AtomicBool,
    ) -> Result<DrawnRows> {
        let dim = self.dim();
        self.config.likelihood.family().check_trials(trials)?;
        check_result("drawing", rows, "rows", (dim as u64).saturating_mul(8).saturating_add(BYTES_BESIDES))?;
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let draws = (self.config.likelihood.family().draws)(&self.working_arrays(), dim)?;
        let trials = trials.unwrap_or_else(|| self.average_trials());
        let mut drawn = DrawnRows { values: vec![0.0; rows * dim], clusters: Vec::with_capacity(rows) };
        for stretch in drawn.values.chunks_mut(STRETCH * dim) {
            if interrupt.load(Ordering::Relaxed) {
                return Err(Error::Interrupted { during: "drawing rows" });
            }
            for row in stretch.chunks_exact_mut(dim) {
                let k = categorical(&self.weights, &mut rng);
                drawn.clusters.push(k as u32);
                draws[k](&mut |_| trials, row, &mut rng);
            }
        }
        self.units.iter().for_each(|units| units.undo(&mut drawn.values));
        Ok(drawn)
    }

    /// Counts of a row of the training data on average, at least one.
    fn average_trials(&self) -> usize {
        let sum: f64 = self.total.stats.iter().sum();
        (sum / self.total.total_weight().max(f64::MIN_POSITIVE)).round().max(1.0) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::MemoryRows;
    use crate::likelihood::LikelihoodKind;
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
    fn what_memory_has_no_room_for_is_not_begun_and_drawing_can_be_ended() {
        let data = planted(LikelihoodKind::DiagGauss, 200, 3, 2, 5);
        let rows = MemoryRows::new("planted", 3, data.values).unwrap();
        let config = MixtureConfig { likelihood: LikelihoodKind::DiagGauss, clusters: 2, ..Default::default() };
        let model = fit_mixture(&rows, &config).unwrap().model;
        for rows in [1_000_000_000_000_000, usize::MAX] {
            let error = model.sample(rows, None, 0).unwrap_err();
            assert!(matches!(error, Error::TooLarge { .. }) && error.to_string().contains("fewer rows"), "{error}");
        }
        let flag = AtomicBool::new(false);
        let ended = std::thread::scope(|scope| {
            let drawing = scope.spawn(|| model.sample_until(5_000_000, None, 0, &flag));
            flag.store(true, Ordering::Relaxed);
            drawing.join().unwrap().unwrap_err()
        });
        assert!(matches!(ended, Error::Interrupted { during: "drawing rows" }), "{ended}");
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
