//! k-means on a GPU against plain loops on the host, bit for bit, for machines with a GPU: `cargo xtask cuda test`.

use std::sync::Arc;

use lsparse_cuda::Device;
use lsparse_cuda::centers::{GROUP, Points, Precision};

/// What the reference needs of a number.
trait Number: Precision + std::fmt::Debug + Into<f64> {
    fn of(value: f64) -> Self;
    /// a * b + c, rounded once.
    fn fused(a: Self, b: Self, c: Self) -> Self;
    fn distance(norm: Self, score: Self, center_norm: Self) -> Self;
}

macro_rules! number {
    ($type:ty) => {
        impl Number for $type {
            fn of(value: f64) -> Self {
                value as $type
            }

            fn fused(a: Self, b: Self, c: Self) -> Self {
                a.mul_add(b, c)
            }

            fn distance(norm: Self, score: Self, center_norm: Self) -> Self {
                let distance = norm - (score + score);
                if distance > 8.0 * <$type>::EPSILON * (norm + center_norm) { distance } else { 0.0 }
            }
        }
    };
}

number!(f32);
number!(f64);

/// Rows in groups of unequal sizes, some of them copies of each other, with weights.
struct Case<T> {
    dim: usize,
    rows: Vec<Vec<T>>,
    norms: Vec<T>,
    weights: Vec<f64>,
}

fn mixed(state: &mut u64) -> f64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as f64 / (1u64 << 31) as f64
}

impl<T: Number> Case<T> {
    fn new(num: usize, dim: usize, mut state: u64) -> Self {
        let centers: Vec<f64> = (0..7 * dim).map(|_| 4.0 * mixed(&mut state) - 2.0).collect();
        let mut rows: Vec<Vec<T>> = Vec::new();
        for n in 0..num {
            let k = (mixed(&mut state).powi(2) * 7.0) as usize;
            let row = (0..dim).map(|d| T::of(centers[k * dim + d] + 0.3 * (mixed(&mut state) - 0.5))).collect();
            rows.push(if n % 11 == 10 { rows[n - 3].clone() } else { row });
        }
        let norm = |row: &Vec<T>| T::of(row.iter().map(|&x| x.into() * x.into()).sum());
        let norms = rows.iter().map(norm).collect();
        let weights = (0..num).map(|n| if n % 5 == 4 { 0.0 } else { 0.5 + mixed(&mut state) }).collect();
        Case { dim, rows, norms, weights }
    }

    fn upload(&self, device: &Arc<Device>, tile: usize) -> Points<T> {
        let num = self.rows.len();
        let mut tiles = vec![T::default(); num.div_ceil(tile) * tile * self.dim];
        for (n, row) in self.rows.iter().enumerate() {
            for (d, &x) in row.iter().enumerate() {
                tiles[(n / tile * self.dim + d) * tile + n % tile] = x;
            }
        }
        Points::upload(device, num, (self.dim, tile), &tiles, &self.norms, &self.weights).unwrap()
    }

    fn score(&self, n: usize, center: &[T], at_zero: T) -> T {
        self.rows[n].iter().zip(center).fold(at_zero, |sum, (&x, &c)| T::fused(c, x, sum))
    }

    /// Seeds one after the other, and the nearest of each row.
    fn seeds(&self, first: usize, shares: &[f64], tries: usize) -> Option<(Vec<u32>, Vec<u32>)> {
        let num = self.rows.len();
        let (mut nearest, mut owner, mut seeds) = (vec![None::<T>; num], vec![0u32; num], vec![]);
        let all = std::iter::once(None).chain(shares.chunks_exact(tries).map(Some));
        for (k, shares) in all.enumerate() {
            let chances: Vec<f64> = (0..num).map(|n| self.weights[n] * nearest[n].map_or(0.0, Into::into)).collect();
            let mut tried = shares.map_or(Some(vec![first]), |shares| {
                shares.iter().map(|&share| draw(&chances, share)).collect::<Option<Vec<usize>>>()
            })?;
            tried.dedup();
            let found: Vec<Vec<T>> = tried
                .iter()
                .map(|&c| {
                    let apart = |n| self.score(n, &self.rows[c], T::of(-0.5 * self.norms[c].into()));
                    (0..num).map(|n| T::distance(self.norms[n], apart(n), self.norms[c])).collect()
                })
                .collect();
            let left = |found: &Vec<T>| {
                let of = |n: usize| match nearest[n] {
                    Some(near) if near < found[n] => near.into(),
                    _ => found[n].into(),
                };
                summed(&(0..num).map(|n| self.weights[n] * of(n)).collect::<Vec<f64>>())
            };
            let left: Vec<f64> = found.iter().map(left).collect();
            let best = (0..tried.len()).min_by(|&a, &b| left[a].total_cmp(&left[b])).unwrap();
            for n in 0..num {
                if nearest[n].is_none_or(|near| found[best][n] < near) {
                    (nearest[n], owner[n]) = (Some(found[best][n]), k as u32);
                }
            }
            (nearest[tried[best]], owner[tried[best]]) = (Some(T::default()), k as u32);
            seeds.push(tried[best] as u32);
        }
        Some((seeds, owner))
    }
}

fn groups(numbers: &[f64]) -> Vec<f64> {
    numbers.chunks(GROUP).map(|group| group.iter().sum()).collect()
}

fn summed(numbers: &[f64]) -> f64 {
    groups(&groups(numbers)).iter().sum()
}

fn draw(chances: &[f64], share: f64) -> Option<usize> {
    let (of_groups, mut point) = (groups(chances), share * summed(chances));
    let of_tasks = groups(&of_groups);
    let mut descend = |sums: &[f64], first: usize, num: usize| {
        let (mut last, mut left) = (None, point);
        for i in first..sums.len().min(first + num) {
            if sums[i] > 0.0 {
                (last, point) = (Some(i), left);
                if left <= sums[i] {
                    break;
                }
                left -= sums[i];
            }
        }
        last
    };
    let task = descend(&of_tasks, 0, of_tasks.len())?;
    let group = descend(&of_groups, task * GROUP, GROUP)?;
    descend(chances, group * GROUP, GROUP)
}

fn try_precision<T: Number>(device: &Arc<Device>, tile: usize) {
    for (num, dim, seeds, tries) in [(50, 1, 5, 3), (1000, 3, 40, 6), (9000, 20, 60, 6), (5001, 130, 30, 4)] {
        let case = Case::<T>::new(num, dim, 7 + num as u64);
        let points = case.upload(device, tile);
        let mut state = 99;
        let mut shares: Vec<f64> = (0..(seeds - 1) * tries).map(|_| mixed(&mut state)).collect();
        shares.chunks_exact_mut(tries).for_each(|shares| shares.sort_by(f64::total_cmp));
        let found = points.seeds(3, &shares, tries, || true).unwrap();
        assert_eq!(found, case.seeds(3, &shares, tries), "{num} x {dim}");
        assert_eq!(points.seeds(3, &shares, tries, || false).unwrap(), None);
        let (chosen, _) = found.unwrap();
        // Centres between seeds, and one of them twice.
        let mut centers: Vec<T> = chosen.iter().flat_map(|&n| case.rows[n as usize].clone()).collect();
        centers.extend_from_within(..dim);
        let at_zero =
            centers.chunks_exact(dim).map(|c| T::of(-0.5 * c.iter().map(|&v| v.into() * v.into()).sum::<f64>()));
        let at_zero: Vec<T> = at_zero.collect();
        let (owner, scores) = points.nearest(&centers, &at_zero).unwrap();
        for n in 0..num {
            let all = centers.chunks_exact(dim).zip(&at_zero).map(|(center, &zero)| case.score(n, center, zero));
            let (mut best, mut at) = (T::LEAST, u32::MAX);
            all.enumerate().for_each(|(k, score)| {
                if score > best {
                    (best, at) = (score, k as u32);
                }
            });
            assert_eq!((owner[n], scores[n].into()), (at, best.into()), "row {n} of {num} x {dim}");
        }
    }
    // No row is left that has a chance: copies of one row.
    let mut case = Case::<T>::new(100, 2, 1);
    case.rows = vec![case.rows[0].clone(); 100];
    case.norms = vec![case.norms[0]; 100];
    assert_eq!(case.upload(device, tile).seeds(0, &[0.5], 1, || true).unwrap(), None);
}

#[test]
#[ignore = "needs a GPU"]
fn seeds_and_nearest_centres_are_those_of_plain_loops() {
    let device = Device::open(0).unwrap();
    try_precision::<f32>(&device, 64);
    try_precision::<f64>(&device, 32);
}
