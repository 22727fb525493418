//! The smallest L that discards little: what is chosen where a share that may be lost is given instead of L.

use lsparse_kernels::Real;
use rayon::prelude::*;

use crate::data::Rows;
use crate::error::{Error, Result};
use crate::likelihood::{Clusters, Scratch};

/// Rows that are looked at, spread evenly over those given.
const SAMPLE: usize = 256;

/// The smallest L for which the mean mass of a row outside its L largest responsibilities is below `tolerance`, by the
/// first `count` rows.
pub fn needed<T: Real>(
    clusters: &dyn Clusters<T>,
    log_pi: &[T],
    (rows, count): (&Rows<T>, usize),
    tolerance: f64,
) -> Result<usize> {
    let num = clusters.num_clusters();
    let sample: Vec<usize> = (0..count.min(SAMPLE)).map(|i| i * count / count.min(SAMPLE)).collect();
    // The mass outside the L largest, for L = 1 to K.
    let discarded: Vec<Result<Vec<f64>>> = sample
        .par_iter()
        .map_init(Scratch::default, |scratch, &n| {
            let mut weights = log_pi.to_vec();
            clusters.add_log_lik(rows, n..n + 1, scratch, &mut weights);
            let mut weights: Vec<f64> = weights.iter().map(|w| w.to_f64()).collect();
            if let Some(cluster) = weights.iter().position(|w| w.is_nan()) {
                return Err(Error::NanWeight { row: n, cluster });
            }
            weights.sort_by(|a, b| b.total_cmp(a));
            let most = weights[0];
            if !most.is_finite() {
                return Err(Error::RowOutOfRange { row: n });
            }
            weights.iter_mut().for_each(|w| *w = (*w - most).exp());
            let total: f64 = weights.iter().sum();
            // From the smallest up, so that little is not lost next to much.
            let mut outside = 0.0;
            for w in weights.iter_mut().rev() {
                let mass = *w / total;
                *w = outside;
                outside += mass;
            }
            Ok(weights)
        })
        .collect();
    let mut mean = vec![0.0; num];
    for row in discarded {
        mean.iter_mut().zip(row?).for_each(|(mean, outside)| *mean += outside / sample.len() as f64);
    }
    Ok(mean.iter().position(|&outside| outside < tolerance).map_or(num, |at| at + 1))
}
