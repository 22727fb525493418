//! Drawing seeds as k-means++ does, under the likelihood's own divergence or squared Euclidean distance.
//!
//! The Bregman divergence of row n from seed c is what the row loses when it must live with the seed's shape instead
//! of its own: max_phi [log F(x_n | phi) + log P(phi)] - [log F(x_n | phi_c) + log P(phi_c)], where phi_c is the MAP
//! estimate from the seed alone. Seeds are drawn in proportion to the divergence itself (`ackermann2009bregman`).

use std::ops::Range;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use crate::backend::with_buffers;
use crate::clusters::seed::Sample;
use crate::data::{RowRef, Rows, Scalar};
use crate::error::Result;
use crate::likelihood::{Clusters, Divergences, Estimate, Likelihood, Scratch};
use crate::math::random::{Chances, GROUP};
use crate::training::rules::Patience;

/// Rows of a task that has little to do for each.
const ROWS_A_TASK: usize = 4096;

/// Rows whose distances from one seed are found by one task, where each costs its columns, and where it costs more. Whole
/// groups, whose chances are summed by one task.
const ROWS_A_LIGHT_TASK: usize = 8 * GROUP;
const ROWS_A_HEAVY_TASK: usize = 4 * GROUP;

/// How far a row is from a seed.
#[derive(Clone, Copy, PartialEq)]
pub enum Metric {
    /// The likelihood's own divergence.
    Bregman,
    /// Squared Euclidean distance.
    Euclidean,
}

/// How seeds are drawn.
#[derive(Clone, Copy)]
pub struct Seeding<'a> {
    pub metric: Metric,
    /// Uniformly, rather than in proportion to the distance from the seeds so far.
    pub uniform: bool,
    /// Rows that are tried for a seed, of which the one that explains the sample best is taken.
    pub tries: usize,
    /// Asked before every seed.
    pub patience: Patience<'a>,
}

impl Seeding<'_> {
    /// Rows chosen as seeds, and for every row of the sample the nearest of them.
    pub fn draw<T: Scalar>(
        &self,
        likelihood: &dyn Likelihood<T>,
        sample: &Sample<T>,
        num_seeds: usize,
        rng: &mut ChaCha8Rng,
    ) -> Result<(Vec<usize>, Vec<u32>)> {
        let rows = &*sample.filled_in();
        self.draw_by(&Ruler::new(self.metric, likelihood, rows), likelihood, sample, num_seeds, rng)
    }

    /// The same by a ruler for these rows, which serves for several draws.
    pub fn draw_by<T: Scalar>(
        &self,
        ruler: &Ruler<'_, T>,
        likelihood: &dyn Likelihood<T>,
        sample: &Sample<T>,
        num_seeds: usize,
        rng: &mut ChaCha8Rng,
    ) -> Result<(Vec<usize>, Vec<u32>)> {
        let num_rows = sample.rows.len();
        let mut chosen: Vec<usize> = Vec::with_capacity(num_seeds);
        let mut nearest = vec![f64::INFINITY; num_rows];
        let mut owner = vec![0u32; num_rows];
        let mut chances = vec![0.0; num_rows.div_ceil(GROUP)];
        let mut taken = vec![false; num_rows];
        let (mut scratch, mut found) = (Scratch::default(), Vec::new());
        for k in 0..num_seeds {
            self.patience.check()?;
            let first_or_uniform = k == 0 || self.uniform;
            let tries = if first_or_uniform || likelihood.shared_width() > 0 { 1 } else { self.tries };
            let shares = (0..tries).map(|_| rng.random::<f64>());
            let mut rows_tried: Vec<usize> = if first_or_uniform {
                let chances = Chances::new(num_rows, |n| if taken[n] { 0.0 } else { sample.weight(n) });
                shares.filter_map(|share| chances.at(share)).collect()
            } else {
                // A seed is at no distance from itself.
                let chance = |n: usize| sample.weight(n) * nearest[n];
                let chances = Chances::summed(num_rows, chance, chances.clone());
                shares.filter_map(|share| chances.at(share)).collect()
            };
            if rows_tried.is_empty() {
                // Only copies of the seeds are left (or rows of no weight): any other row will do.
                let free: Vec<usize> = (0..num_rows).filter(|&n| !taken[n]).collect();
                rows_tried.push(free[rng.random_range(0..free.len())]);
            }
            rows_tried.sort_unstable();
            rows_tried.dedup();
            let num = rows_tried.len();
            found.resize(num_rows * num, 0.0);
            let mut best = 0;
            if num > 1 {
                ruler.distances(&rows_tried, (&mut scratch, &mut found), None)?;
                // Of several the one that leaves the least to be explained.
                let of = |n: usize, tried: usize| found[n * num + tried];
                let left = |i: usize| (0..num_rows).map(|n| sample.weight(n) * nearest[n].min(of(n, i))).sum::<f64>();
                let left: Vec<f64> = (0..num).into_par_iter().map(left).collect();
                best = (0..num).min_by(|&a, &b| left[a].total_cmp(&left[b])).unwrap_or(0);
            }
            let row = rows_tried[best];
            (taken[row], nearest[row], owner[row]) = (true, 0.0, k as u32);
            let (nearest, owner, chances) = (&mut nearest[..], &mut owner[..], &mut chances[..]);
            let seeded = Seeded { seed: k as u32, weights: &sample.weights, nearest, owner, chances };
            match num {
                1 => ruler.distances(&rows_tried, (&mut scratch, &mut found), Some(seeded))?,
                _ => seeded.tasks(ROWS_A_TASK).zip(found.par_chunks(ROWS_A_TASK * num)).for_each(|(task, found)| {
                    task.settle(found.iter().skip(best).step_by(num));
                }),
            }
            chosen.push(row);
        }
        Ok((chosen, owner))
    }
}

/// What distances from seeds are measured by.
pub enum Ruler<'a, T: Scalar> {
    /// Squared Euclidean distance, with the squared norms of rows.
    Euclidean(&'a Rows<T>, Vec<f64>),
    /// The likelihood's divergence, where it needs no clusters.
    Closed(Box<dyn Divergences + 'a>),
    /// The same by clusters of single rows, with what each row scores under its own shape.
    Clusters(&'a dyn Likelihood<T>, &'a Rows<T>, Vec<f64>),
}

/// How far the rows of a range are from some seeds, row by row.
type Distance<'a> = Box<dyn Fn(Range<usize>, &mut [f64]) + Sync + 'a>;

impl<'a, T: Scalar> Ruler<'a, T> {
    /// Rows must lack no values.
    pub fn new(metric: Metric, likelihood: &'a dyn Likelihood<T>, rows: &'a Rows<T>) -> Self {
        if metric == Metric::Euclidean {
            return Ruler::Euclidean(rows, squared_norms(rows));
        }
        if let Some(divergences) = likelihood.divergences(rows) {
            return Ruler::Closed(divergences);
        }
        let mut own = vec![0.0; rows.len()];
        own.par_chunks_mut(ROWS_A_TASK).enumerate().for_each(|(task, own)| {
            likelihood.own_score(rows, task * ROWS_A_TASK..task * ROWS_A_TASK + own.len(), own);
        });
        Ruler::Clusters(likelihood, rows, own)
    }

    /// How far every row is from each of `chosen`, row by row. If that is one row which is `seeded`, rows settle at once.
    fn distances(
        &self,
        chosen: &[usize],
        (scratch, found): (&mut Scratch<T>, &mut [f64]),
        seeded: Option<Seeded<'_>>,
    ) -> Result<()> {
        let (num, num_rows) = (chosen.len(), found.len() / chosen.len().max(1));
        let (distance, chunk): (Distance<'_>, usize) = match self {
            Ruler::Euclidean(rows, norms) => {
                let center = |&row: &usize| -> Distance<'_> {
                    let center = dense_row(rows, row);
                    Box::new(move |range, out| squared_distances(rows, norms, &center, range, out))
                };
                (side_by_side(chosen.iter().map(center).collect()), ROWS_A_LIGHT_TASK)
            }
            Ruler::Closed(divergences) => {
                let of = |&row: &usize| divergences.away_from(row);
                (side_by_side(chosen.iter().map(of).collect()), ROWS_A_LIGHT_TASK)
            }
            Ruler::Clusters(likelihood, rows, own) => {
                let seeds = seed_clusters(*likelihood, rows, chosen, scratch)?;
                let log_prior = seeds.log_prior();
                let distance = move |range: Range<usize>, out: &mut [f64]| {
                    divergences(seeds.as_ref(), &log_prior, rows, &own[range.clone()], range, out)
                };
                (Box::new(distance), ROWS_A_HEAVY_TASK)
            }
        };
        let chunks = found.par_chunks_mut(chunk * num).enumerate().with_max_len(1);
        let rows = |c: usize| c * chunk..num_rows.min((c + 1) * chunk);
        match seeded {
            None => chunks.for_each(|(c, found)| distance(rows(c), found)),
            Some(seeded) => chunks.zip(seeded.tasks(chunk)).for_each(|((c, found), task)| {
                distance(rows(c), found);
                task.settle(found.iter());
            }),
        }
        Ok(())
    }
}

/// The distances from several seeds, from those from each.
fn side_by_side(mut seeds: Vec<Distance<'_>>) -> Distance<'_> {
    if seeds.len() == 1 {
        return seeds.remove(0);
    }
    Box::new(move |range, out| {
        let (num, mut found) = (seeds.len(), vec![0.0; range.len()]);
        for (k, seed) in seeds.iter().enumerate() {
            seed(range.clone(), &mut found);
            out.iter_mut().skip(k).step_by(num).zip(&found).for_each(|(out, d)| *out = *d);
        }
    })
}

/// A seed, the distance and number of each row's nearest so far, and what chances come to, group by group.
struct Seeded<'a> {
    seed: u32,
    weights: &'a [f64],
    nearest: &'a mut [f64],
    owner: &'a mut [u32],
    chances: &'a mut [f64],
}

impl<'a> Seeded<'a> {
    /// So many rows each, whole groups of them.
    fn tasks(self, rows: usize) -> impl IndexedParallelIterator<Item = Seeded<'a>> {
        debug_assert!(rows.is_multiple_of(GROUP));
        let Seeded { seed, weights, nearest, owner, chances } = self;
        let parts =
            nearest.par_chunks_mut(rows).zip(owner.par_chunks_mut(rows)).zip(chances.par_chunks_mut(rows / GROUP));
        parts.enumerate().map(move |(task, ((nearest, owner), chances))| {
            let weights = weights.get(task * rows..).unwrap_or_default();
            Seeded { seed, weights, nearest, owner, chances }
        })
    }

    /// Rows that are so far from the seed go to it, where it is the nearest.
    fn settle<'d>(self, mut distances: impl Iterator<Item = &'d f64>) {
        let Seeded { seed, weights, nearest, owner, chances } = self;
        let groups = nearest.chunks_mut(GROUP).zip(owner.chunks_mut(GROUP)).zip(chances).enumerate();
        for (group, ((nearest, owner), chances)) in groups {
            *chances = 0.0;
            let rows = nearest.iter_mut().zip(owner).zip(&mut distances);
            for (place, ((nearest, owner), &distance)) in rows.enumerate() {
                if distance < *nearest {
                    (*nearest, *owner) = (distance, seed);
                }
                *chances += weights.get(group * GROUP + place).unwrap_or(&1.0) * *nearest;
            }
        }
    }
}

/// MAP clusters of one row each.
fn seed_clusters<T: Scalar>(
    likelihood: &dyn Likelihood<T>,
    rows: &Rows<T>,
    chosen: &[usize],
    scratch: &mut Scratch<T>,
) -> Result<Box<dyn Clusters<T>>> {
    let (num, width) = (chosen.len(), likelihood.stat_width());
    let mut stats = likelihood.no_statistics(num).stats;
    let (own, shared) = stats.split_at_mut(num * width);
    for (stat, &row) in own.chunks_exact_mut(width).zip(chosen) {
        likelihood.accumulate(rows, &[row as u32], &[T::ONE], scratch, stat);
    }
    // What clusters share would be that of all of them: such families try one row at a time.
    debug_assert!(num == 1 || shared.is_empty());
    likelihood.accumulate_shared(rows, &[chosen[0] as u32], &[1.0], shared);
    likelihood.global_step(Estimate::Map, &vec![1.0; num], &stats, None)
}

/// One divergence a seed for each row in `range`, row by row.
fn divergences<T: Scalar>(
    seeds: &dyn Clusters<T>,
    log_prior: &[f64],
    rows: &Rows<T>,
    own: &[f64],
    range: Range<usize>,
    out: &mut [f64],
) {
    let num = log_prior.len();
    with_buffers(|(scratch, weights): &mut (Scratch<T>, Vec<T>)| {
        for (t, (out, own)) in out.chunks_mut(T::TILE * num).zip(own.chunks(T::TILE)).enumerate() {
            let first = range.start + t * T::TILE;
            weights.clear();
            weights.resize(out.len(), T::ZERO);
            seeds.add_log_lik(rows, first..first + own.len(), scratch, weights);
            for ((out, weights), own) in out.chunks_exact_mut(num).zip(weights.chunks_exact(num)).zip(own) {
                for ((d, weight), log_prior) in out.iter_mut().zip(weights).zip(log_prior) {
                    // Rounding may take a divergence of zero below it.
                    *d = (own - weight.to_f64() - log_prior).max(0.0);
                }
            }
        }
    });
}

fn dense_row<T: Scalar>(rows: &Rows<T>, n: usize) -> Vec<f64> {
    let mut out = vec![0.0; rows.dim()];
    add_row(rows, n, 1.0, &mut out);
    out
}

/// `out += factor * row`.
fn add_row<T: Scalar>(rows: &Rows<T>, n: usize, factor: f64, out: &mut [f64]) {
    match rows.row(n) {
        RowRef::Dense(values) => out.iter_mut().zip(values).for_each(|(o, v)| *o += factor * v.to_f64()),
        RowRef::Sparse(index, value) => {
            for (&i, v) in index.iter().zip(value) {
                out[i as usize] += factor * v.to_f64();
            }
        }
    }
}

fn squared_norms<T: Scalar>(rows: &Rows<T>) -> Vec<f64> {
    let norm = |n: usize| match rows.row(n) {
        RowRef::Dense(values) | RowRef::Sparse(_, values) => values.iter().map(|v| v.to_f64() * v.to_f64()).sum(),
    };
    (0..rows.len()).into_par_iter().with_min_len(ROWS_A_TASK).map(norm).collect()
}

/// |x - c|^2 of the rows in `range`; sparse rows through |x|^2 - 2 x c + |c|^2, which costs their nonzeros only.
fn squared_distances<T: Scalar>(rows: &Rows<T>, norms: &[f64], center: &[f64], range: Range<usize>, out: &mut [f64]) {
    let center_norm: f64 = center.iter().map(|c| c * c).sum();
    for (n, d) in range.zip(out) {
        *d = match rows.row(n) {
            RowRef::Dense(values) => values.iter().zip(center).map(|(v, c)| (v.to_f64() - c).powi(2)).sum(),
            RowRef::Sparse(index, value) => {
                let cross: f64 = index.iter().zip(value).map(|(&i, v)| center[i as usize] * v.to_f64()).sum();
                (norms[n] - 2.0 * cross + center_norm).max(0.0)
            }
        };
    }
}

/// One Euclidean Lloyd pass: centroids of the groups in `owner`, then the nearest centroid of every row.
pub fn nearest_centroid<T: Scalar>(rows: &Rows<T>, owner: &[u32], num: usize) -> Vec<u32> {
    let dim = rows.dim();
    let mut sums = vec![0.0; num * dim];
    let mut sizes = vec![0.0f64; num];
    for (n, &k) in owner.iter().enumerate() {
        add_row(rows, n, 1.0, &mut sums[k as usize * dim..(k as usize + 1) * dim]);
        sizes[k as usize] += 1.0;
    }
    for (center, &size) in sums.chunks_exact_mut(dim).zip(&sizes) {
        center.iter_mut().for_each(|c| *c /= size.max(1.0));
    }
    let norms = squared_norms(rows);
    let chunk = 256;
    let mut nearest = owner.to_vec();
    nearest.par_chunks_mut(chunk).enumerate().for_each(|(c, owner)| {
        let first = c * chunk;
        let mut best = vec![f64::INFINITY; owner.len()];
        let mut found = vec![0.0; owner.len()];
        for (k, center) in sums.chunks_exact(dim).enumerate() {
            if sizes[k] == 0.0 {
                continue;
            }
            squared_distances(rows, &norms, center, first..first + owner.len(), &mut found);
            for ((best, owner), &d) in best.iter_mut().zip(owner.iter_mut()).zip(&found) {
                if d < *best {
                    (*best, *owner) = (d, k as u32);
                }
            }
        }
    });
    nearest
}
