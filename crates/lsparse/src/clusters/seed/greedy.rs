//! Greedy k-means++: seeds that explain a sample, each the best of a few that are drawn far from those before.

use lsparse_cuda::centers::Points;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use super::space::Space;
use crate::backend::{Trouble, with_buffers};
use crate::data::Scalar;
use crate::error::Result;
use crate::math::random::{Chances, GROUP, draw_index};
use crate::training::rules::Patience;

/// Rows that are tried for a seed, of which the one that explains the sample best is taken: 2 + ln K, as is usual, but
/// no more than the kernel compares with at a time.
const MOST_TRIES: usize = 6;

/// Groups of rows whose nearest seeds are brought up to date by one task.
const GROUPS_A_TASK: usize = 64;

/// Groups of rows whose distances from the rows that are tried are found by one task.
const GROUPS_TRIED_A_TASK: usize = 8;

/// Buffers of one thread: scores of a tile of rows by the rows that are tried, and what each would leave of the distance.
#[derive(Default)]
struct Tried<T> {
    scores: Vec<T>,
    left: Vec<f64>,
}

impl<T: Scalar> Space<'_, T> {
    /// Greedy k-means++: for each seed a few rows drawn in proportion to their squared distance from the seeds so far,
    /// of which the one is taken that leaves the smallest sum of squared distances. Returns the rows and every row's
    /// nearest of them.
    pub fn seeds(&self, num: usize, patience: Patience<'_>, rng: &mut ChaCha8Rng) -> Result<(Vec<usize>, Vec<u32>)> {
        let tries = (2 + (num as f64).ln() as usize).min(MOST_TRIES);
        if let Some(points) = self.points()
            && let Some(found) = self.seeds_there(points, (num, tries), patience, rng)?
        {
            return Ok(found);
        }
        let len = self.norms.len();
        let mut nearest = vec![-T::NEG_INFINITY; len];
        let mut owner = vec![0u32; len];
        let mut taken = vec![false; self.num_rows];
        let mut chosen = Vec::with_capacity(num);
        let mut found: Vec<T> = Vec::new();
        let mut chances = vec![0.0; len.div_ceil(GROUP)];
        for k in 0..num {
            patience.check()?;
            let mut rows: Vec<usize> = match k {
                0 => self.first_seed(rng).into_iter().collect(),
                _ => {
                    // A seed is at no distance from itself.
                    let chance = |n: usize| self.weights[n] * nearest[n].to_f64();
                    let chances = Chances::summed(self.num_rows, chance, std::mem::take(&mut chances));
                    (0..tries).filter_map(|_| chances.at(rng.random())).collect()
                }
            };
            // Only copies of the seeds are left, or rows of no weight: any other row will do.
            if rows.is_empty() {
                rows.extend(draw_index(self.num_rows, |n| if taken[n] { 0.0 } else { 1.0 }, rng));
            }
            rows.sort_unstable();
            rows.dedup();
            let best = self.try_rows(&rows, &nearest, &mut found);
            let (row, stride) = (rows[best], rows.len() * GROUP);
            (nearest[row], owner[row], taken[row]) = (T::ZERO, k as u32, true);
            chances.resize(len.div_ceil(GROUP), 0.0);
            let groups = nearest.par_chunks_mut(GROUP).zip(owner.par_chunks_mut(GROUP)).zip(&mut chances);
            let groups = groups.zip(found.par_chunks(stride)).zip(self.weights.par_chunks(GROUP));
            groups.with_min_len(GROUPS_A_TASK).for_each(|((((nearest, owner), chance), found), weights)| {
                *chance = 0.0;
                let tiles = nearest.chunks_exact_mut(T::TILE).zip(owner.chunks_exact_mut(T::TILE));
                let tiles = tiles.zip(found.chunks_exact(rows.len() * T::TILE)).zip(weights.chunks_exact(T::TILE));
                for (((nearest, owner), found), weights) in tiles {
                    let found = &found[best * T::TILE..(best + 1) * T::TILE];
                    for (((nearest, owner), &d), weight) in nearest.iter_mut().zip(owner).zip(found).zip(weights) {
                        if d < *nearest {
                            (*nearest, *owner) = (d, k as u32);
                        }
                        *chance += weight * nearest.to_f64();
                    }
                }
            });
            chosen.push(row);
        }
        owner.truncate(self.num_rows);
        Ok((chosen, owner))
    }

    fn first_seed(&self, rng: &mut ChaCha8Rng) -> Option<usize> {
        draw_index(self.num_rows, |n| self.weights[n], rng)
    }

    /// The same seeds, by the GPU; none where it has no memory, or other rows than those far from all seeds must do.
    fn seeds_there(
        &self,
        points: &Points<T>,
        (num, tries): (usize, usize),
        patience: Patience<'_>,
        rng: &mut ChaCha8Rng,
    ) -> Result<Option<(Vec<usize>, Vec<u32>)>> {
        // Where the CPU is to go on, it draws the same numbers.
        let mut ahead = rng.clone();
        let Some(first) = self.first_seed(&mut ahead) else { return Ok(None) };
        let mut shares = vec![0.0; (num - 1) * tries];
        for shares in shares.chunks_exact_mut(tries) {
            shares.fill_with(|| ahead.random());
            shares.sort_by(f64::total_cmp);
        }
        let found = points.seeds(first, &shares, tries, || patience.check().is_ok()).map_err(Trouble::from);
        let found = Trouble::settle(found)?.flatten();
        patience.check()?;
        Ok(found.map(|(chosen, owner)| {
            *rng = ahead;
            (chosen.into_iter().map(|row| row as usize).collect(), owner)
        }))
    }

    /// Squared distances of all rows from each of `rows` into `found` (tile by tile), and which of these would leave
    /// the smallest sum of distances, given the `nearest` so far.
    fn try_rows(&self, rows: &[usize], nearest: &[T], found: &mut Vec<T>) -> usize {
        let centers: Vec<f64> = rows.iter().flat_map(|&n| self.row(n)).collect();
        let center_norms: Vec<T> = rows.iter().map(|&n| self.norms[n]).collect();
        let pack = self.pack(&centers);
        found.resize(self.norms.len() * rows.len(), T::ZERO);
        let mut sums = vec![0.0; self.norms.len().div_ceil(GROUP) * rows.len()];
        let groups = found.par_chunks_mut(rows.len() * GROUP).zip(self.tiles.par_chunks(self.width * GROUP));
        let groups = groups.zip(sums.par_chunks_mut(rows.len())).enumerate().with_min_len(GROUPS_TRIED_A_TASK);
        groups.for_each(|(group, ((found, tiles), sums))| {
            with_buffers(|Tried { scores, left }: &mut Tried<T>| {
                scores.resize(pack.score_len(), T::ZERO);
                left.resize(rows.len() * T::TILE, 0.0);
                let tiles = found.chunks_exact_mut(rows.len() * T::TILE).zip(tiles.chunks_exact(self.width * T::TILE));
                for (t, (found, tile)) in tiles.enumerate() {
                    pack.scores(tile, scores);
                    let first = group * GROUP + t * T::TILE;
                    let of_tile = first..first + T::TILE;
                    let (norms, weights) = (&self.norms[of_tile.clone()], &self.weights[of_tile.clone()]);
                    let nearest = &nearest[of_tile];
                    let each = found.chunks_exact_mut(T::TILE).zip(scores.chunks_exact(T::TILE)).zip(&center_norms);
                    for (((found, scores), &center), left) in each.zip(left.chunks_exact_mut(T::TILE)) {
                        for r in 0..T::TILE {
                            found[r] = self.distance(norms[r], scores[r], center);
                            let nearer = if nearest[r] < found[r] { nearest[r] } else { found[r] };
                            left[r] = weights[r] * nearer.to_f64();
                        }
                    }
                    // Row by row, so that the sums, each of which is in the order of rows, do not wait for themselves.
                    for r in 0..T::TILE {
                        sums.iter_mut().zip(left[r..].iter().step_by(T::TILE)).for_each(|(sum, left)| *sum += left);
                    }
                }
            });
        });
        // Groups in order, some at a time, so that neither threads nor a GPU change anything.
        let mut totals = vec![0.0; rows.len()];
        for sums in sums.chunks(rows.len() * GROUP) {
            for (t, total) in totals.iter_mut().enumerate() {
                *total += sums[t..].iter().step_by(rows.len()).sum::<f64>();
            }
        }
        (0..rows.len()).min_by(|&a, &b| totals[a].total_cmp(&totals[b])).unwrap_or(0)
    }
}
