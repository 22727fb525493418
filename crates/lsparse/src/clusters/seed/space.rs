//! A sample of dense rows as k-means takes it: about its mean, in units of its own, on the GPU too where there is one.

use std::sync::OnceLock;

use lsparse_cuda::centers::Points;
use lsparse_kernels::{CenterPack, row_offsets, transpose_tile, weighted_moments};
use rayon::prelude::*;

use crate::backend::Place;
use crate::clusters::seed::{Sample, gaps};
use crate::data::{Scalar, USUAL_VALUES, usual};

/// Which distance between rows is meant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Units {
    /// Squared Euclidean distance.
    Raw,
    /// The same with every column divided by its standard deviation.
    Standard,
}

/// A sample as tiles whose lanes are rows, about its mean and in units that keep every number near one, so that neither
/// an offset nor a scale costs digits.
pub struct Space<'a, T> {
    pub(super) sample: &'a Sample<T>,
    pub(super) dim: usize,
    pub(super) num_rows: usize,
    /// The mean of the sample.
    pub(super) origin: Vec<f64>,
    /// What a column is multiplied by.
    pub(super) scale: Vec<f64>,
    /// What rows differ by in each column, squared; empty where none lacks a value.
    pub(super) unknown: Vec<f64>,
    /// `width * TILE` entries a tile; rows that fill up the last are zero.
    pub(super) tiles: Vec<T>,
    /// Numbers that a row has in a tile: one a column, or more where rows lack values.
    pub(super) width: usize,
    /// |x|^2 of every row, and of those that fill up the last tile.
    pub(super) norms: Vec<T>,
    /// One a row; zero for those that fill up the last tile.
    pub(super) weights: Vec<f64>,
    /// The largest of them, and each as a share of it.
    pub(super) most_weight: f64,
    pub(super) shares: Vec<T>,
    place: &'a Place,
    /// The same on the GPU, if there is one, once they are asked for.
    points: OnceLock<Option<Points<T>>>,
}

/// A sample in both kinds of units, each made when it is first asked for.
pub struct Spaces<'a, T> {
    sample: &'a Sample<T>,
    place: &'a Place,
    moments: (Vec<f64>, Vec<f64>),
    made: [OnceLock<Space<'a, T>>; 2],
}

impl<'a, T: Scalar> Spaces<'a, T> {
    /// Rows of the sample, which must be dense.
    pub fn new(sample: &'a Sample<T>, place: &'a Place) -> Self {
        Spaces { sample, place, moments: moments(sample), made: [OnceLock::new(), OnceLock::new()] }
    }

    pub fn of(&self, units: Units) -> &Space<'a, T> {
        self.made[units as usize].get_or_init(|| Space::measured(self.sample, self.place, units, &self.moments))
    }
}

impl<'a, T: Scalar> Space<'a, T> {
    /// Rows of the sample, which must be dense.
    pub fn new(sample: &'a Sample<T>, place: &'a Place, units: Units) -> Self {
        Space::measured(sample, place, units, &moments(sample))
    }

    fn measured(
        sample: &'a Sample<T>,
        place: &'a Place,
        units: Units,
        (origin, variance): &(Vec<f64>, Vec<f64>),
    ) -> Self {
        let (dim, num_rows) = (sample.rows.dim(), sample.rows.len());
        let overall = variance.iter().sum::<f64>() / dim as f64;
        let rate = |v: f64| if v > 0.0 { v.sqrt().recip() } else { 0.0 };
        let scale: Vec<f64> = match units {
            Units::Raw => vec![rate(overall); dim],
            // What varies by rounding alone is no column to tell rows apart by.
            Units::Standard => variance.iter().zip(origin).map(|(&v, m)| rate(noise_free::<T>(v, *m))).collect(),
        };
        let lacking = sample.lacks_values();
        let unknown = |(v, s): (&f64, &f64)| v * s * s;
        let unknown = if lacking { variance.iter().zip(&scale).map(unknown).collect() } else { Vec::new() };
        let width = if lacking { dim * gaps::PARTS } else { dim };
        let num_tiles = num_rows.div_ceil(T::TILE);
        let mut tiles = vec![T::ZERO; num_tiles * width * T::TILE];
        let mut norms = vec![T::ZERO; num_tiles * T::TILE];
        let chunks = tiles.par_chunks_mut(width * T::TILE).zip(norms.par_chunks_mut(T::TILE));
        chunks.enumerate().for_each_init(Vec::new, |scaled: &mut Vec<T>, (t, (tile, norms))| {
            let first = t * T::TILE;
            let rows = sample.rows.dense_rows(first..num_rows.min(first + T::TILE));
            scaled.clear();
            if lacking {
                for row in rows.chunks_exact(dim) {
                    let place = row.iter().zip(origin.iter().zip(&scale));
                    gaps::features(place.map(|(x, (o, s))| (x.to_f64() - o) * s), scaled);
                }
            } else {
                let all: Vec<u32> = (0..(rows.len() / dim) as u32).collect();
                scaled.resize(rows.len(), T::ZERO);
                row_offsets(rows, &all, (origin, &scale), scaled);
            }
            for (row, norm) in scaled.chunks_exact(width).zip(norms) {
                *norm = T::from_f64(row[..dim].iter().map(|x| x.to_f64() * x.to_f64()).sum());
            }
            transpose_tile(scaled, width, tile);
        });
        let weight = |n: usize| if n < num_rows { sample.weight(n) } else { 0.0 };
        let weights: Vec<f64> = (0..norms.len()).map(weight).collect();
        let (most_weight, shares) = shares_of_most(&weights);
        let (origin, points) = (origin.clone(), OnceLock::new());
        Space {
            sample,
            dim,
            num_rows,
            origin,
            scale,
            unknown,
            tiles,
            width,
            norms,
            weights,
            most_weight,
            shares,
            place,
            points,
        }
    }

    /// The rows on the GPU; none where there is none, rows lack values, or it does not take them.
    pub(super) fn points(&self) -> Option<&Points<T>> {
        let upload = || {
            let device = self.place.device.as_ref().filter(|_| self.unknown.is_empty())?;
            Points::upload(device, self.num_rows, (self.dim, T::TILE), &self.tiles, &self.norms, &self.weights).ok()
        };
        self.points.get_or_init(upload).as_ref()
    }

    /// A row's values, NaN where there is none.
    pub(super) fn row(&self, n: usize) -> impl Iterator<Item = f64> + '_ {
        let tile = &self.tiles[n / T::TILE * self.width * T::TILE..];
        let at = move |part: usize| tile[part * T::TILE + n % T::TILE].to_f64();
        let is_there = move |d: usize| self.unknown.is_empty() || at(self.dim + d) > 0.0;
        (0..self.dim).map(move |d| if is_there(d) { at(d) } else { f64::NAN })
    }

    /// Centres, with NaN for what one has no value of, as the kernel takes them.
    pub(super) fn pack(&self, centers: &[f64]) -> CenterPack<T> {
        match self.unknown.is_empty() {
            true => CenterPack::new(centers, self.dim),
            false => gaps::pack(centers, &self.unknown),
        }
    }

    /// The squared distance that a score tells, of a row and a centre with these squares.
    pub(super) fn distance(&self, norm: T, score: T, center_norm: T) -> T {
        match self.unknown.is_empty() {
            true => distance(norm, score, center_norm),
            false => distance(T::ZERO, score, norm + center_norm),
        }
    }
}

/// |x - c|^2 = |x|^2 - 2 (x.c - |c|^2 / 2); what rounding alone may have left counts as zero.
fn distance<T: Scalar>(norm: T, score: T, center_norm: T) -> T {
    let distance = norm - (score + score);
    let noise = T::from_f64(8.0 * T::EPSILON) * (norm + center_norm);
    if distance > noise { distance } else { T::ZERO }
}

/// The largest weight, and each as a share of it, whatever weights are measured in.
fn shares_of_most<T: Scalar>(weights: &[f64]) -> (f64, Vec<T>) {
    let most = weights.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    (most, weights.iter().map(|weight| T::from_f64(weight / most)).collect())
}

/// The variance of a column, or zero where rounding of numbers as large as its mean would explain it.
fn noise_free<T: Scalar>(variance: f64, mean: f64) -> f64 {
    let noise = 4.0 * T::EPSILON * mean.abs();
    if variance > noise * noise { variance } else { 0.0 }
}

/// Weighted mean and variance of every column, or of what is usual in it.
pub fn moments<T: Scalar>(sample: &Sample<T>) -> (Vec<f64>, Vec<f64>) {
    let dim = sample.rows.dim();
    if sample.lacks_values() {
        return moments_of_values(sample);
    }
    let values = sample.rows.dense_rows(0..sample.rows.len());
    // Some rows a task, whose sums are added in their order.
    let weights: Vec<f64> = (0..sample.rows.len()).map(|n| sample.weight(n)).collect();
    let (_, weights) = shares_of_most::<T>(&weights);
    let total = weights.iter().map(|weight| weight.to_f64()).sum::<f64>().max(f64::MIN_POSITIVE);
    let ids: Vec<u32> = (0..sample.rows.len() as u32).collect();
    let sums = |center: &[f64], is_second: bool| {
        let of_task = |(ids, weights): (&[u32], &[T])| {
            let (mut first, mut second) = (vec![0.0; dim], vec![0.0; if is_second { dim } else { 0 }]);
            weighted_moments(values, ids, weights, center, &mut first, &mut second);
            if is_second { second } else { first }
        };
        let tasks = ids.par_chunks(ROWS_A_TASK).zip(weights.par_chunks(ROWS_A_TASK)).map(of_task);
        let of_tasks: Vec<Vec<f64>> = tasks.collect();
        let mut all = vec![0.0; dim];
        of_tasks.iter().for_each(|sums| all.iter_mut().zip(sums).for_each(|(all, sum)| *all += sum));
        all.iter_mut().for_each(|sum| *sum /= total);
        all
    };
    let mean = sums(&vec![0.0; dim], false);
    let variance = sums(&mean, true);
    let step = dim * sample.rows.len().div_ceil(USUAL_VALUES).max(1);
    let of_column = |d: usize| values[d..].iter().step_by(step).map(|x| x.to_f64()).collect();
    (0..dim).into_par_iter().map(|d| usual(of_column(d), mean[d], variance[d])).unzip()
}

/// The same of the values that are there.
fn moments_of_values<T: Scalar>(sample: &Sample<T>) -> (Vec<f64>, Vec<f64>) {
    let dim = sample.rows.dim();
    let values = sample.rows.dense_rows(0..sample.rows.len());
    let of_column = |d: usize| {
        let there = || {
            let column = values[d..].iter().step_by(dim).map(|x| x.to_f64()).enumerate();
            column.filter(|(_, x)| !x.is_nan()).map(|(n, x)| (sample.weight(n), x))
        };
        let total = there().map(|(w, _)| w).sum::<f64>().max(f64::MIN_POSITIVE);
        let mean = there().map(|(w, x)| w * x).sum::<f64>() / total;
        let variance = there().map(|(w, x)| w * (x - mean).powi(2)).sum::<f64>() / total;
        let step = there().count().div_ceil(USUAL_VALUES).max(1);
        usual(there().step_by(step).map(|(_, x)| x).collect(), mean, variance)
    };
    (0..dim).into_par_iter().map(of_column).unzip()
}

/// Rows whose moments are taken by one task.
const ROWS_A_TASK: usize = 4096;
