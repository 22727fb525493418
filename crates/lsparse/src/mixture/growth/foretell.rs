//! What rows to come will gain by a trade: rows of a sample are left out, and scored by clusters without them.
//!
//! The objective charges a cluster for its shape what a vague prior makes of it, and new rows only what the shape is wrong
//! by. Where clusters have few rows for their columns it would rather have most rows in one of them and a handful in each
//! of the others, and new rows lose by that (4 nats a row of word vectors in 100 columns).

use super::Piece;
use super::propose::{hard, parts_of};
use crate::clusters::seed::Sample;
use crate::data::Scalar;
use crate::error::Result;
use crate::likelihood::{ClusterSummary, Clusters, Estimate, Likelihood, log_density};
use crate::mixture::respond;
use crate::training::responsibilities::Responsibilities;
use crate::training::summary::Summary;

/// Parts of the rows that are left out in turn.
const FOLDS: usize = 4;

/// A row that is less in two clusters has no say in whether they become one.
const LEAST_SHARE: f64 = 0.01;

/// A sample of the rows under clusters that might change.
pub struct Foretelling<'a, T: Scalar> {
    likelihood: &'a dyn Likelihood<T>,
    total: &'a ClusterSummary,
    sample: &'a Sample<T>,
    /// The two best clusters of each row.
    resp: &'a Responsibilities<T>,
    /// The clusters as new rows are scored by them.
    clusters: Box<dyn Clusters<T>>,
}

/// Rows of the sample whose clusters might change, and the log density of each under all clusters that stay.
struct Concerned<T> {
    rows: Sample<T>,
    background: Vec<f64>,
}

/// Clusters that rows might be in: their statistics, the shares of rows in them and how many times each row counts there.
struct Tried<T> {
    summary: ClusterSummary,
    resp: Responsibilities<T>,
    each: f64,
}

impl<'a, T: Scalar> Foretelling<'a, T> {
    pub fn new(
        likelihood: &'a dyn Likelihood<T>,
        clusters: &dyn Clusters<T>,
        total: &'a ClusterSummary,
        (sample, resp): (&'a Sample<T>, &'a Responsibilities<T>),
    ) -> Result<Self> {
        let clusters = likelihood.clusters_of(&clusters.arrays())?;
        Ok(Foretelling { likelihood, total, sample, resp, clusters })
    }

    /// What new rows will gain in all if a cluster becomes these pieces, by so many of its rows at most.
    pub fn gain_of_split(&self, cluster: u32, pieces: &[Piece], most: usize) -> Result<f64> {
        let best = (0u32..).zip(self.resp.index.chunks_exact(2));
        let own: Vec<u32> = best.filter(|(_, best)| best[0] == cluster).map(|(n, _)| n).collect();
        let some: Vec<u32> = own.iter().step_by(own.len().div_ceil(most).max(1)).copied().collect();
        let concerned = self.concerned(&some, &[cluster])?;
        let rows = &concerned.rows;
        let each = (self.total.counts[cluster as usize] / rows.total_weight()).max(1.0);
        // Both from the same rows, so that neither is at an advantage.
        let tried = |resp: Responsibilities<T>, num| {
            let summary = parts_of(self.likelihood, rows, &resp, num, each);
            Tried { summary, resp, each }
        };
        let counts: Vec<f64> = pieces.iter().map(|piece| piece.0).collect();
        let stats: Vec<f64> = pieces.iter().flat_map(|piece| &piece.1).copied().collect();
        let clusters = self.likelihood.global_step(Estimate::Posterior, &counts, &stats, None)?;
        let log_size: Vec<f64> = counts.iter().map(|count| count.ln()).collect();
        let mut resp = Responsibilities::default();
        respond(clusters.as_ref(), &log_size, &rows.rows, counts.len(), &mut resp)?;
        let (whole, pieces) = (tried(hard(vec![0; rows.rows.len()]), 1), tried(resp, counts.len()));
        Ok(each * (self.score(&concerned, &pieces)? - self.score(&concerned, &whole)?))
    }

    /// What they will gain if two clusters become one.
    pub fn gain_of_merge(&self, (a, b): (u32, u32)) -> Result<f64> {
        let pair = [a as usize, b as usize];
        if pair.iter().any(|&k| self.total.counts[k] < 1.0) {
            return Ok(0.0);
        }
        let (mut own, mut shares) = (Vec::new(), Vec::new());
        for n in 0..self.sample.rows.len() {
            let (index, value) = self.resp.row(n);
            let of = |k: u32| index.iter().zip(value).find(|(at, _)| **at == k).map_or(T::ZERO, |(_, &share)| share);
            if (of(a) + of(b)).to_f64() > LEAST_SHARE {
                own.push(n as u32);
                shares.push([of(a), of(b)]);
            }
        }
        let (mut apart, mut both) = (self.likelihood.no_statistics(2), self.likelihood.no_statistics(1));
        for (at, &k) in pair.iter().enumerate() {
            let stat = self.total.stat(k);
            apart.counts[at] = self.total.counts[k];
            apart.stats[at * stat.len()..(at + 1) * stat.len()].copy_from_slice(stat);
            both.counts[0] += self.total.counts[k];
            both.stats.iter_mut().zip(stat).for_each(|(sum, s)| *sum += s);
        }
        let index = [0, 1].repeat(own.len());
        let one = shares.iter().map(|[a, b]| *a + *b).collect();
        let resp = Responsibilities { sparsity: 2, index, value: shares.into_flattened() };
        // A row of the sample is one of those that the statistics are of, whatever it stands for.
        let apart = Tried { summary: apart, resp, each: 1.0 };
        let resp = Responsibilities { sparsity: 1, index: vec![0; own.len()], value: one };
        let both = Tried { summary: both, resp, each: 1.0 };
        let concerned = self.concerned(&own, &[a, b])?;
        let factor = self.total.total_weight() / self.sample.total_weight();
        Ok(factor * (self.score(&concerned, &both)? - self.score(&concerned, &apart)?))
    }

    /// Rows beside all clusters but those that are gone.
    fn concerned(&self, ids: &[u32], gone: &[u32]) -> Result<Concerned<T>> {
        let (rows, all) = (self.sample.of(ids), self.total.total_weight());
        let log_pi = (0u32..).zip(&self.total.counts).map(|(k, count)| match gone.contains(&k) {
            true => f64::NEG_INFINITY,
            false => (count / all).ln(),
        });
        let background = log_density(self.clusters.as_ref(), &log_pi.collect::<Vec<_>>(), &rows.rows)?;
        Ok(Concerned { rows, background })
    }

    /// The log density of rows in all where they are in these clusters or in those that stay, each under clusters without it.
    fn score(&self, concerned: &Concerned<T>, tried: &Tried<T>) -> Result<f64> {
        let Tried { summary, resp, each } = tried;
        let (mut inside, mut outside) = (0.0, 0.0);
        for fold in 0..FOLDS as u32 {
            let ids: Vec<u32> = (fold..concerned.rows.rows.len() as u32).step_by(FOLDS).collect();
            let rows = concerned.rows.of(&ids);
            let row = |&n: &u32| resp.row(n as usize);
            let left_out = Responsibilities {
                sparsity: resp.sparsity,
                index: ids.iter().flat_map(|n| row(n).0).copied().collect(),
                value: ids.iter().flat_map(|n| row(n).1).copied().collect(),
            };
            let mut others = summary.clone();
            others.add_scaled(&parts_of(self.likelihood, &rows, &left_out, summary.num_clusters(), *each), -1.0);
            let background: Vec<f64> = ids.iter().map(|&n| concerned.background[n as usize]).collect();
            let weight = summary.total_weight();
            outside += self.density(&others, weight, &rows, &background)?;
            if *each > 1.0 {
                inside += self.density(summary, weight, &rows, &background)?;
            }
        }
        // What rows promise too much of themselves goes with the inverse of their number.
        Ok(if *each > 1.0 { inside - (inside - outside) / each } else { outside })
    }

    /// The log density of rows in all under clusters that will be of this weight, and in the background.
    fn density(&self, summary: &ClusterSummary, weight: f64, rows: &Sample<T>, background: &[f64]) -> Result<f64> {
        let arrays = self.likelihood.global_step(Estimate::Posterior, &summary.counts, &summary.stats, None)?.arrays();
        let share = weight / summary.total_weight() / self.total.total_weight();
        let log_pi: Vec<f64> = summary.counts.iter().map(|count| (count * share).max(f64::MIN_POSITIVE).ln()).collect();
        let own = log_density(self.likelihood.clusters_of(&arrays)?.as_ref(), &log_pi, &rows.rows)?;
        let both = own.iter().zip(background).map(|(a, b)| a.max(*b) + (-(a - b).abs()).exp().ln_1p());
        Ok(both.enumerate().map(|(n, score)| score * rows.weight(n)).sum())
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::data::{Moments, Rows};
    use crate::likelihood::{LikelihoodKind, Prior};
    use crate::settings::MixtureConfig;

    /// Rows about these centres, so many of each in turn, with their likelihood.
    fn rows_about(centers: &[f64], each: usize, dim: usize) -> (Sample<f64>, Box<dyn Likelihood<f64>>) {
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let mut rows = Rows::dense(dim);
        for n in 0..each * centers.len() {
            let center = centers[n % centers.len()];
            let noise = |rng: &mut ChaCha8Rng| (0..6).map(|_| rng.random::<f64>()).sum::<f64>() - 3.0;
            rows.push_dense(&(0..dim).map(|_| center + noise(&mut rng)).collect::<Vec<f64>>());
        }
        let config = MixtureConfig { prior_scale: Some(1e-2), ..Default::default() };
        let (mean, variance) = (vec![0.0; dim], vec![1.0; dim]);
        let moments = Moments { mean, second_moment: variance.clone(), variance, ..Moments::unknown(dim) };
        let likelihood = LikelihoodKind::Gauss.build::<f64>(&Prior::for_data(&config, &moments));
        (Sample { rows, weights: Vec::new() }, likelihood)
    }

    /// Statistics of rows in these clusters, and the two best of each row: its own, and any other.
    fn clusters_of(
        likelihood: &dyn Likelihood<f64>,
        sample: &Sample<f64>,
        owner: &[u32],
        num: usize,
    ) -> (ClusterSummary, Responsibilities<f64>) {
        let total = parts_of(likelihood, sample, &hard(owner.to_vec()), num, 1.0);
        let index = owner.iter().flat_map(|&k| [k, (k + 1) % num as u32]).collect();
        (total, Responsibilities { sparsity: 2, index, value: [1.0, 0.0].repeat(owner.len()) })
    }

    /// The log density of all rows, each fold under the clusters of the others and all that stays as it is.
    fn left_out(
        likelihood: &dyn Likelihood<f64>,
        sample: &Sample<f64>,
        owner: &[u32],
        num: usize,
        concerned: &[u32],
        stay: &ClusterSummary,
    ) -> f64 {
        let mut sum = 0.0;
        for fold in 0..FOLDS {
            let (out, others): (Vec<usize>, Vec<usize>) = (0..concerned.len()).partition(|at| at % FOLDS == fold);
            let rows = |at: &[usize]| sample.of(&at.iter().map(|&at| concerned[at]).collect::<Vec<_>>());
            let of_others = others.iter().map(|&at| owner[concerned[at] as usize]).collect();
            let mut all = parts_of(likelihood, &rows(&others), &hard(of_others), num, 1.0);
            let scale = concerned.len() as f64 / others.len() as f64;
            let mut counts: Vec<f64> = all.counts.iter().map(|count| count * scale).collect();
            counts.extend(&stay.counts);
            all.counts.extend(&stay.counts);
            all.stats.extend(&stay.stats);
            let arrays = likelihood.global_step(Estimate::Posterior, &all.counts, &all.stats, None).unwrap().arrays();
            let log_pi: Vec<f64> = counts.iter().map(|count| (count / sample.rows.len() as f64).ln()).collect();
            let clusters = likelihood.clusters_of(&arrays).unwrap();
            sum += log_density(clusters.as_ref(), &log_pi, &rows(&out).rows).unwrap().iter().sum::<f64>();
        }
        sum
    }

    #[test]
    fn what_is_foretold_is_what_rows_left_out_of_everything_score() {
        let (sample, likelihood) = rows_about(&[0.0, 1.5, 9.0], 40, 2);
        let likelihood = likelihood.as_ref();
        let owner: Vec<u32> = (0..120).map(|n| n % 3).collect();
        let (total, resp) = clusters_of(likelihood, &sample, &owner, 3);
        let clusters = likelihood.global_step(Estimate::Posterior, &total.counts, &total.stats, None).unwrap();
        let foretelling = Foretelling::new(likelihood, clusters.as_ref(), &total, (&sample, &resp)).unwrap();
        let concerned: Vec<u32> = (0..120).filter(|n| n % 3 < 2).collect();
        let stay =
            parts_of(likelihood, &sample.of(&(2..120).step_by(3).collect::<Vec<_>>()), &hard(vec![0; 40]), 1, 1.0);
        let one = left_out(likelihood, &sample, &[0; 120], 1, &concerned, &stay);
        let two = left_out(likelihood, &sample, &owner, 2, &concerned, &stay);
        let gain = foretelling.gain_of_merge((0, 1)).unwrap();
        assert!((gain - (one - two)).abs() < 1e-8 * two.abs(), "{gain} and {}", one - two);
    }

    #[test]
    fn new_rows_want_clusters_that_are_there_and_have_rows_enough() {
        // Two clusters as one are better apart, and one as two is better as one.
        let (sample, likelihood) = rows_about(&[0.0, 6.0, 30.0], 100, 4);
        let likelihood = likelihood.as_ref();
        let owner: Vec<u32> = (0..300).map(|n| [0, 0, 1 + n / 3 % 2][n as usize % 3]).collect();
        let (total, resp) = clusters_of(likelihood, &sample, &owner, 3);
        let clusters = likelihood.global_step(Estimate::Posterior, &total.counts, &total.stats, None).unwrap();
        let foretelling = Foretelling::new(likelihood, clusters.as_ref(), &total, (&sample, &resp)).unwrap();
        let own: Vec<u32> = (0..300).filter(|n| n % 3 < 2).collect();
        let halves = parts_of(likelihood, &sample.of(&own), &hard(own.iter().map(|n| n % 3).collect()), 2, 1.0);
        let pieces: Vec<Piece> = (0..2).map(|at| (halves.counts[at], halves.stat(at).to_vec())).collect();
        assert!(foretelling.gain_of_split(0, &pieces, 1000).unwrap() > 100.0);
        assert!(foretelling.gain_of_merge((1, 2)).unwrap() > 0.0);
        // Twenty columns of a cluster of sixty rows are enough for one covariance and not for two.
        let (sample, likelihood) = rows_about(&[0.0, 30.0, 60.0], 60, 20);
        let likelihood = likelihood.as_ref();
        let owner: Vec<u32> = (0..180).map(|n| n % 3).collect();
        let (total, resp) = clusters_of(likelihood, &sample, &owner, 3);
        let clusters = likelihood.global_step(Estimate::Posterior, &total.counts, &total.stats, None).unwrap();
        let foretelling = Foretelling::new(likelihood, clusters.as_ref(), &total, (&sample, &resp)).unwrap();
        let own: Vec<u32> = (0..180).step_by(3).collect();
        let halves = parts_of(likelihood, &sample.of(&own), &hard((0..60).map(|n| n % 2).collect()), 2, 1.0);
        let pieces: Vec<Piece> = (0..2).map(|at| (halves.counts[at], halves.stat(at).to_vec())).collect();
        assert!(foretelling.gain_of_split(0, &pieces, 1000).unwrap() < -100.0);
    }
}
