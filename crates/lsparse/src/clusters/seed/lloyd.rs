//! k-means over a sample of dense rows: Lloyd passes until little changes, and trades that passes cannot make.

use lsparse_kernels::{dot_f64, row_offsets, row_products, weighted_moments, weighted_sum};
use rayon::prelude::*;

use super::space::Space;
use crate::backend::Trouble;
use crate::clusters::seed::trade::{Groups, Split, carry_out, cheapest};
use crate::data::Scalar;
use crate::error::Result;
use crate::math::random::GROUP;
use crate::training::rules::Patience;

/// Lloyd passes end when fewer than one row in so many moves.
const MOVES_TO_END: usize = 500;

/// Powers of a group's covariance that find the direction in which it is longest.
const POWERS: usize = 3;

/// Passes that split a group, the last over all of its rows.
const SPLIT_PASSES: usize = 3;

/// Rows of a group that are looked at to find where to split it.
const SPLIT_BY: usize = 256;

impl<T: Scalar> Space<'_, T> {
    /// Lloyd passes from these groups of rows: at most `passes`, fewer if rows stay where they are. A group that has
    /// lost its rows is opened again at the row farthest from its centre.
    pub fn lloyd(&self, owner: &mut [u32], num: usize, passes: usize, patience: Patience<'_>) -> Result<()> {
        let mut next = vec![0u32; self.norms.len()];
        let mut distances = vec![T::ZERO; self.norms.len()];
        for _ in 0..passes {
            patience.check()?;
            self.find_nearest(&self.centers(&Groups::new(owner, num)), &mut next, &mut distances)?;
            self.reopen(&mut next[..self.num_rows], &distances, num);
            let moves = owner.iter().zip(&next).filter(|(a, b)| a != b).count();
            owner.copy_from_slice(&next[..self.num_rows]);
            if moves * MOVES_TO_END < self.num_rows {
                break;
            }
        }
        Ok(())
    }

    /// The nearest of some centres for each row, and how far that is, squared.
    fn find_nearest(&self, centers: &[f64], nearest: &mut [u32], distances: &mut [T]) -> Result<()> {
        let found = match self.points() {
            Some(points) => {
                let values: Vec<T> = centers.iter().map(|&c| T::from_f64(c)).collect();
                let at_zero = centers.chunks_exact(self.dim);
                let at_zero = at_zero.map(|center| T::from_f64(center.iter().map(|v| v * v).sum::<f64>() * -0.5));
                let found = points.nearest(&values, &at_zero.collect::<Vec<T>>());
                Trouble::settle(found.map_err(Trouble::from))?
            }
            None => None,
        };
        match found {
            Some((index, scores)) => {
                nearest[..index.len()].copy_from_slice(&index);
                distances[..scores.len()].copy_from_slice(&scores);
            }
            None => {
                let pack = self.pack(centers);
                let tiles = nearest.par_chunks_mut(T::TILE).zip(distances.par_chunks_mut(T::TILE));
                tiles.zip(self.tiles.par_chunks_exact(self.width * T::TILE)).for_each(|((index, score), tile)| {
                    pack.nearest(tile, index, score);
                });
            }
        }
        let scores = distances.par_iter_mut().zip(&self.norms).with_min_len(GROUP * GROUP);
        scores.for_each(|(score, norm)| *score = self.distance(*norm, *score, T::ZERO));
        Ok(())
    }

    /// Groups without rows take one each, the farthest from their centres, from groups that have others.
    fn reopen(&self, owner: &mut [u32], distances: &[T], num: usize) {
        let mut sizes = vec![0usize; num];
        for k in owner.iter_mut() {
            // Numbers are near one here, so that there is a nearest centre.
            *k = (*k).min(num as u32 - 1);
            sizes[*k as usize] += 1;
        }
        let empty: Vec<usize> = (0..num).filter(|&k| sizes[k] == 0).collect();
        if empty.is_empty() {
            return;
        }
        let mut far: Vec<usize> = (0..owner.len()).filter(|&n| self.weights[n] > 0.0).collect();
        let loss = |n: usize| self.weights[n] * distances[n].to_f64();
        far.sort_by(|&a, &b| loss(b).total_cmp(&loss(a)).then(a.cmp(&b)));
        let mut far = far.into_iter();
        for k in empty {
            let Some(n) = far.find(|&n| sizes[owner[n] as usize] > 1) else { break };
            sizes[owner[n] as usize] -= 1;
            (owner[n], sizes[k]) = (k as u32, 1);
        }
    }

    /// Give up groups that are hardly needed for ones that are. The sum of squared distances falls with every such trade,
    /// which passes alone cannot make: their centres do not cross others. Returns how many trades were made.
    pub fn trade(&self, owner: &mut [u32], num: usize) -> usize {
        let groups = Groups::new(owner, num);
        let centers = self.centers(&groups);
        let center = |k: usize| &centers[k * self.dim..(k + 1) * self.dim];
        let weights: Vec<f64> = (0..num).flat_map(|k| self.column_weights(groups.of(k))).collect();
        let columns = weights.len() / num.max(1);
        let splits = (0..num).into_par_iter().map(|k| self.split(k, groups.of(k), center(k))).collect();
        let squares: Vec<f64> = (0..num).map(|k| dot_f64(center(k), center(k))).collect();
        // What the sum grows by with the mean of both as the one centre.
        let cost = |a: usize, b: usize| {
            if self.unknown.is_empty() {
                // All pairs are looked at, so that products by vectors count; numbers are near one.
                let apart = (squares[a] + squares[b] - 2.0 * dot_f64(center(a), center(b))).max(0.0);
                return apart * weights[a] * weights[b] / (weights[a] + weights[b]).max(f64::MIN_POSITIVE);
            }
            let apart = center(a).iter().zip(center(b)).map(|(x, y)| (x - y) * (x - y));
            // A column that one of them has no value of costs nothing.
            let of = |k: usize| &weights[k * columns..(k + 1) * columns];
            let each = apart.zip(of(a).iter().zip(of(b))).filter(|(apart, _)| !apart.is_nan());
            each.map(|(apart, (a, b))| apart * a * b / (a + b).max(f64::MIN_POSITIVE)).sum()
        };
        carry_out(owner, &groups, cheapest(num, |_| 0..num, cost), splits)
    }

    /// The weight of a group's rows; of those that have each column, where rows lack values.
    fn column_weights(&self, members: &[u32]) -> Vec<f64> {
        if self.unknown.is_empty() {
            return vec![members.iter().map(|&n| self.weights[n as usize]).sum()];
        }
        let mut weights = vec![0.0; self.dim];
        for &n in members {
            let there = self.row(n as usize).zip(&mut weights).filter(|(x, _)| !x.is_nan());
            there.for_each(|(_, weight)| *weight += self.weights[n as usize]);
        }
        weights
    }

    /// What the sum of squared distances of a group loses by splitting it in two along the direction in which it is
    /// longest, and the rows of one half. Some of the rows tell where, all of them what it gains.
    pub fn split(&self, cluster: usize, members: &[u32], center: &[f64]) -> Split {
        let (dim, whole) = (self.dim, Split { gain: 0.0, cluster, apart: Vec::new() });
        let some: Vec<u32> = members.iter().step_by(members.len().div_ceil(SPLIT_BY).max(1)).copied().collect();
        let shares: Vec<T> = some.iter().map(|&n| self.shares[n as usize]).collect();
        let mut offsets = Vec::new();
        self.offsets(&some, center, &mut offsets);
        // Powers of the covariance, from the row that is farthest away.
        let length = |offset: &[T]| offset.iter().map(|x| x.to_f64() * x.to_f64()).sum::<f64>();
        let farthest = offsets.chunks_exact(dim).max_by(|a, b| length(a).total_cmp(&length(b)));
        let Some(farthest) = farthest else { return whole };
        let mut along: Vec<f64> = farthest.iter().map(|x| x.to_f64()).collect();
        let mut places = vec![T::ZERO; some.len()];
        for _ in 0..POWERS {
            let size = dot_f64(&along, &along).sqrt();
            if size <= 0.0 {
                return whole;
            }
            let direction: Vec<T> = along.iter().map(|a| T::from_f64(a / size)).collect();
            row_products(&offsets, &direction, &mut places);
            let factors: Vec<T> = places.iter().zip(&shares).map(|(&place, &share)| place * share).collect();
            along.fill(0.0);
            weighted_sum(&offsets, &factors, dim, &mut along);
        }
        // Two centres from the signs, then rows to the nearer of them, and in the end all rows.
        let mut halves = Halves::new(dim);
        halves.add(&places, T::ZERO, &shares, &offsets);
        for _ in 1..SPLIT_PASSES - 1 {
            let Some(cut) = halves.cut() else { return whole };
            row_products(&offsets, &cut.normal, &mut places);
            halves = Halves::new(dim);
            halves.add(&places, cut.at, &shares, &offsets);
        }
        let Some(cut) = halves.cut() else { return whole };
        let (mut halves, mut apart) = (Halves::new(dim), Vec::new());
        for members in members.chunks(SPLIT_BY) {
            self.offsets(members, center, &mut offsets);
            places.resize(members.len(), T::ZERO);
            row_products(&offsets, &cut.normal, &mut places);
            let shares: Vec<T> = members.iter().map(|&n| self.shares[n as usize]).collect();
            halves.add(&places, cut.at, &shares, &offsets);
            apart.extend(members.iter().zip(&places).filter(|(_, place)| **place > cut.at).map(|(&n, _)| n));
        }
        halves.gain().map_or(whole, |gain| Split { gain: gain * self.most_weight, cluster, apart })
    }

    /// The rows that leave when all of these, one cluster, are cut in two.
    pub fn split_all(&self, members: &[u32]) -> Vec<u32> {
        let center = self.centers(&Groups::new(&vec![0; members.len()], 1));
        self.split(0, members, &center).apart
    }

    /// Rows less a centre.
    fn offsets(&self, members: &[u32], center: &[f64], offsets: &mut Vec<T>) {
        let place = self.origin.iter().zip(&self.scale).zip(center);
        let origin: Vec<f64> = place.map(|((o, s), c)| if *s > 0.0 { o + c / s } else { *o }).collect();
        let rows = self.sample.rows.dense_rows(0..self.num_rows);
        offsets.clear();
        offsets.resize(members.len() * self.dim, T::ZERO);
        row_offsets(rows, members, (&origin, &self.scale), offsets);
        if !self.unknown.is_empty() {
            // What is not known is nowhere but at the centre.
            offsets.iter_mut().filter(|x| x.is_nan()).for_each(|x| *x = T::ZERO);
        }
    }

    /// The means of groups of rows; zero where there is none. Where rows lack values, those of the values that are there,
    /// and NaN for columns that no row of a group has.
    pub fn centers(&self, groups: &Groups) -> Vec<f64> {
        let mut centers = vec![0.0; groups.len() * self.dim];
        if !self.unknown.is_empty() {
            centers.par_chunks_mut(self.dim).enumerate().for_each(|(k, center)| {
                let weights = self.column_weights(groups.of(k));
                for &n in groups.of(k) {
                    let values = center.iter_mut().zip(self.row(n as usize)).filter(|(_, x)| !x.is_nan());
                    values.for_each(|(c, x)| *c += self.weights[n as usize] * x);
                }
                center.iter_mut().zip(weights).for_each(|(c, weight)| *c /= weight);
            });
            return centers;
        }
        // A group is summed by one thread over its rows in order.
        let rows = self.sample.rows.dense_rows(0..self.num_rows);
        centers.par_chunks_mut(self.dim).enumerate().for_each(|(k, center)| {
            let members = groups.of(k);
            let shares: Vec<T> = members.iter().map(|&n| self.shares[n as usize]).collect();
            let weight: f64 = shares.iter().map(|share| share.to_f64()).sum();
            if weight > 0.0 {
                weighted_moments(rows, members, &shares, &self.origin, center, &mut []);
                center.iter_mut().zip(&self.scale).for_each(|(c, s)| *c *= s / weight);
            }
        });
        centers
    }
}

/// The two halves of a group: their weights, in the largest of a row, and their sums about its centre.
struct Halves {
    sizes: [f64; 2],
    sums: [Vec<f64>; 2],
}

/// A plane between two halves: rows on the far side are apart.
struct Cut<T> {
    normal: Vec<T>,
    at: T,
}

impl Halves {
    fn new(dim: usize) -> Self {
        Halves { sizes: [0.0; 2], sums: [vec![0.0; dim], vec![0.0; dim]] }
    }

    /// Rows that have these places along the normal of a cut at `at`.
    fn add<T: Scalar>(&mut self, places: &[T], at: T, shares: &[T], offsets: &[T]) {
        for side in 0..2 {
            let of_side = |(&place, &share): (&T, &T)| if (place > at) == (side == 1) { share } else { T::ZERO };
            let shares: Vec<T> = places.iter().zip(shares).map(of_side).collect();
            self.sizes[side] += shares.iter().map(|share| share.to_f64()).sum::<f64>();
            let dim = self.sums[side].len();
            weighted_sum(offsets, &shares, dim, &mut self.sums[side]);
        }
    }

    /// |m|^2 of the mean of each half, unless one is empty.
    fn square_means(&self) -> Option<[f64; 2]> {
        let square = |side: usize| dot_f64(&self.sums[side], &self.sums[side]) / self.sizes[side].powi(2);
        (self.sizes[0] > 0.0 && self.sizes[1] > 0.0).then(|| [square(0), square(1)])
    }

    /// What lies nearer to the mean of one half than to that of the other.
    fn cut<T: Scalar>(&self) -> Option<Cut<T>> {
        let squares = self.square_means()?;
        let means = self.sums[1].iter().zip(&self.sums[0]).map(|(b, a)| b / self.sizes[1] - a / self.sizes[0]);
        Some(Cut { normal: means.map(T::from_f64).collect(), at: T::from_f64(0.5 * (squares[1] - squares[0])) })
    }

    /// What the sum of squared distances loses with the means of the halves for centres instead of the one of both.
    fn gain(&self) -> Option<f64> {
        let squares = self.square_means()?;
        Some(self.sizes[0] * squares[0] + self.sizes[1] * squares[1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::CPU;
    use crate::clusters::seed::Sample;
    use crate::clusters::seed::space::{Units, moments};
    use crate::data::Rows;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    fn sample(dim: usize, values: &[f64], weights: Vec<f64>) -> Sample<f64> {
        let mut rows = Rows::dense(dim);
        values.chunks_exact(dim).for_each(|row| rows.push_dense(row));
        Sample { rows, weights }
    }

    fn random_sample(num: usize, dim: usize, seed: u64) -> Sample<f64> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let values: Vec<f64> = (0..num * dim).map(|_| 50.0 + rng.random_range(-1.0..1.0)).collect();
        sample(dim, &values, (0..num).map(|_| rng.random_range(0.5..2.0)).collect())
    }

    fn squared(a: &[f64], b: &[f64]) -> f64 {
        a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum()
    }

    /// Weighted means of groups, and the weighted sum of squared distances from them, in plain loops.
    fn slow_groups(sample: &Sample<f64>, owner: &[u32], num: usize) -> (Vec<Vec<f64>>, f64) {
        let dim = sample.rows.dim();
        let row = |n: usize| sample.rows.dense_rows(n..n + 1);
        let (mut means, mut sizes) = (vec![vec![0.0; dim]; num], vec![0.0; num]);
        for (n, &k) in owner.iter().enumerate() {
            sizes[k as usize] += sample.weight(n);
            means[k as usize].iter_mut().zip(row(n)).for_each(|(m, x)| *m += sample.weight(n) * x);
        }
        for (mean, size) in means.iter_mut().zip(&sizes) {
            mean.iter_mut().for_each(|m| *m /= size);
        }
        let error =
            owner.iter().enumerate().map(|(n, &k)| sample.weight(n) * squared(row(n), &means[k as usize])).sum();
        (means, error)
    }

    #[test]
    fn every_row_belongs_to_its_nearest_seed() {
        let sample = random_sample(500, 3, 1);
        let space = Space::new(&sample, &CPU, Units::Raw);
        let (chosen, owner) = space.seeds(20, Patience::default(), &mut ChaCha8Rng::seed_from_u64(2)).unwrap();
        let mut distinct = chosen.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!((distinct.len(), owner.len()), (20, 500));
        let row = |n: usize| sample.rows.dense_rows(n..n + 1);
        for n in 0..500 {
            let best = chosen.iter().map(|&seed| squared(row(n), row(seed))).fold(f64::INFINITY, f64::min);
            let own = squared(row(n), row(chosen[owner[n] as usize]));
            assert!(own <= best + 1e-9, "row {n}: {own} instead of {best}");
        }
    }

    #[test]
    fn passes_lower_the_error_and_end_at_nearest_means() {
        let (sample, num) = (random_sample(700, 4, 3), 12);
        let space = Space::new(&sample, &CPU, Units::Raw);
        let (_, mut owner) = space.seeds(num, Patience::default(), &mut ChaCha8Rng::seed_from_u64(4)).unwrap();
        let (_, mut before) = slow_groups(&sample, &owner, num);
        for _ in 0..10 {
            let (means, _) = slow_groups(&sample, &owner, num);
            space.lloyd(&mut owner, num, 1, Patience::default()).unwrap();
            for (n, &k) in owner.iter().enumerate() {
                let row = sample.rows.dense_rows(n..n + 1);
                let best = means.iter().map(|mean| squared(row, mean)).fold(f64::INFINITY, f64::min);
                assert!(squared(row, &means[k as usize]) <= best + 1e-9);
            }
            let (_, after) = slow_groups(&sample, &owner, num);
            assert!(after <= before + 1e-9, "{after} after {before}");
            before = after;
        }
    }

    #[test]
    fn greedy_seeds_explain_more_than_single_draws() {
        // 30 tight groups: a draw in proportion to distance misses some of them, the best of six hardly ever does.
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let values: Vec<f64> = (0..3000)
            .flat_map(|n| [(n % 6) as f64 * 9.0, (n / 6 % 5) as f64 * 9.0].map(|c| c + rng.random::<f64>()))
            .collect();
        let sample = sample(2, &values, Vec::new());
        let space = Space::new(&sample, &CPU, Units::Raw);
        let groups = |seed| -> usize {
            let (chosen, _) = space.seeds(30, Patience::default(), &mut ChaCha8Rng::seed_from_u64(seed)).unwrap();
            let mut met: Vec<usize> = chosen.iter().map(|n| n % 30).collect();
            met.sort_unstable();
            met.dedup();
            met.len()
        };
        assert!((0..10).map(groups).sum::<usize>() >= 295, "{:?}", (0..10).map(groups).collect::<Vec<_>>());
    }

    /// Twelve tight groups of 50 rows on a grid, and the sum of squared distances of any groups of theirs.
    fn grid() -> (Sample<f64>, impl Fn(&Sample<f64>, &[u32]) -> f64) {
        let mut rng = ChaCha8Rng::seed_from_u64(10);
        let values: Vec<f64> = (0..600)
            .flat_map(|n| [(n % 4) as f64 * 9.0, (n / 4 % 3) as f64 * 9.0].map(|c| c + rng.random::<f64>()))
            .collect();
        (sample(2, &values, Vec::new()), |sample: &Sample<f64>, owner: &[u32]| slow_groups(sample, owner, 12).1)
    }

    #[test]
    fn trades_reach_what_passes_cannot() {
        // The first group of the grid has two centres and the last two share one: passes stay there.
        let (sample, loss) = grid();
        let space = Space::new(&sample, &CPU, Units::Raw);
        let mut owner: Vec<u32> = (0..600).map(|n| (n % 12).min(10)).collect();
        (0..600).filter(|n| n % 24 == 0).for_each(|n| owner[n] = 11);
        space.lloyd(&mut owner, 12, 20, Patience::default()).unwrap();
        let stuck = loss(&sample, &owner);
        assert_eq!(space.trade(&mut owner, 12), 1);
        let traded = loss(&sample, &owner);
        assert!(traded < 0.1 * stuck, "{traded} after {stuck}");
        assert!((0..600).all(|n| owner[n] == owner[n % 12]));
        assert_eq!(space.trade(&mut owner, 12), 0);
    }

    #[test]
    fn a_split_gains_what_it_says() {
        let sample = random_sample(300, 4, 11);
        let space = Space::new(&sample, &CPU, Units::Raw);
        let owner = vec![0u32; 300];
        let groups = Groups::new(&owner, 1);
        let split = space.split(0, groups.of(0), &space.centers(&groups));
        let mut parted = owner.clone();
        split.apart.iter().for_each(|&n| parted[n as usize] = 1);
        // Distances are in units of the average variance.
        let (_, variance) = moments(&sample);
        let unit = variance.iter().sum::<f64>() / 4.0;
        let gain = (slow_groups(&sample, &owner, 1).1 - slow_groups(&sample, &parted, 2).1) / unit;
        assert!((split.gain - gain).abs() < 1e-9 * gain, "{} is {gain}", split.gain);
        assert!(gain > 0.1 * slow_groups(&sample, &owner, 1).1 / unit);
    }

    #[test]
    fn groups_without_rows_are_opened_at_the_farthest() {
        let sample = sample(1, &[0.0, 0.1, 0.2, 9.0, 0.3, 20.0], Vec::new());
        let space = Space::new(&sample, &CPU, Units::Raw);
        let mut owner = vec![0, 0, 0, 0, 0, 0];
        let distances = [0.0, 0.1, 0.2, 9.0, 0.3, 20.0];
        space.reopen(&mut owner, &distances, 3);
        assert_eq!(owner, [0, 0, 0, 2, 0, 1]);
    }

    #[test]
    fn copies_of_few_rows_give_as_many_seeds_as_asked_for() {
        let sample = sample(2, &[1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 5.0, 5.0, 5.0, 5.0], Vec::new());
        for units in [Units::Raw, Units::Standard] {
            let space = Space::new(&sample, &CPU, units);
            let (mut chosen, mut owner) =
                space.seeds(5, Patience::default(), &mut ChaCha8Rng::seed_from_u64(1)).unwrap();
            chosen.sort_unstable();
            assert_eq!(chosen, [0, 1, 2, 3, 4]);
            space.lloyd(&mut owner, 5, 5, Patience::default()).unwrap();
            assert!(owner.iter().all(|&k| k < 5));
        }
    }

    #[test]
    fn standard_units_see_a_small_column_beside_a_large_one() {
        let mut rng = ChaCha8Rng::seed_from_u64(6);
        let values: Vec<f64> = (0..400).flat_map(|n| [1e4 * rng.random::<f64>(), 1e-3 * (n % 2) as f64, 7.0]).collect();
        let sample = sample(3, &values, Vec::new());
        let agreement = |units| -> usize {
            let space = Space::new(&sample, &CPU, units);
            let (_, mut owner) = space.seeds(2, Patience::default(), &mut ChaCha8Rng::seed_from_u64(7)).unwrap();
            space.lloyd(&mut owner, 2, 30, Patience::default()).unwrap();
            let same = owner.iter().enumerate().filter(|&(n, &k)| n % 2 == k as usize).count();
            same.max(400 - same)
        };
        assert_eq!(agreement(Units::Standard), 400);
        assert!(agreement(Units::Raw) < 260);
    }

    #[test]
    fn threads_do_not_change_a_group() {
        let sample = random_sample(3000, 5, 8);
        let groups = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let space = Space::new(&sample, &CPU, Units::Standard);
                let (chosen, mut owner) =
                    space.seeds(40, Patience::default(), &mut ChaCha8Rng::seed_from_u64(9)).unwrap();
                space.lloyd(&mut owner, 40, 20, Patience::default()).unwrap();
                (chosen, owner)
            })
        };
        assert_eq!(groups(1), groups(3));
    }
}
