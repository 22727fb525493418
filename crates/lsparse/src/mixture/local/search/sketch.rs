//! Sketches of Gaussian clusters: a few components of the quadratic form that bound it from below, made for each
//! global step out of those of the one before.
//!
//! For any orthonormal rows Q, || Q M x ||^2 <= || M x ||^2, so W = Q M gives a bound whether or not Q is any good. It
//! is best when Q spans the largest eigenvectors of M S M^T, where S says in which directions rows lie: of the clusters
//! of a row, eight such components leave 21 % on image patches, eight components of smallest variance 83 %. A step of
//! subspace iteration from the last Q now and then keeps up with clusters that move slowly.

use lsparse_kernels::{Real, SketchPack, dot_f64, fill_sketch};
use rayon::prelude::*;

use crate::data::Rows;
use crate::likelihood::{Clusters, Quadratic};

/// How much larger than the form a sketch may come out by rounding, relatively; see [`rounding`].
const RELATIVE_SLACK: f64 = 1.0 / 256.0;

/// Stages of four components each. On image patches with K = 800, 36, 21, 13 and 8 % of the clusters of a row are left
/// after the first to the fourth.
const MOST_STAGES: usize = 4;
/// Steps of subspace iteration from a frame that knows nothing.
const FIRST_STEPS: usize = 4;
/// Afterwards one step for so many updates: frames lag behind little, and a step costs four times the sketch itself.
const UPDATES_A_STEP: usize = 4;

/// Rows that tell where rows lie.
const DIRECTION_ROWS: usize = 1000;

/// Bounds on every cluster's weight.
pub struct Sketches<T> {
    /// The components.
    pub pack: SketchPack<T>,
    /// What a row's threshold is compared with; see [`lsparse_kernels::Limits`].
    pub base: Vec<T>,
    /// Slack for rounding, times the squared norm of a row about the center.
    pub slope: Vec<T>,
    /// Rows are sketched about this point; empty for zero.
    pub center: Vec<T>,
    dim: usize,
    /// Q of every cluster, rows of `dim` numbers.
    frames: Vec<f64>,
    /// Second moments of rows scaled to length one; empty before the first update.
    directions: Vec<f64>,
    updates: usize,
}

impl<T: Real> Sketches<T> {
    /// Room for the sketches of `num_clusters` clusters.
    pub fn new(num_clusters: usize, dim: usize) -> Self {
        let stages = MOST_STAGES.min(dim / SketchPack::<T>::COMPONENTS).max(1);
        Sketches {
            pack: SketchPack::new(num_clusters, dim, stages),
            base: vec![T::ZERO; num_clusters],
            slope: vec![T::ZERO; num_clusters],
            center: Vec::new(),
            dim,
            frames: vec![0.0; num_clusters * stages * SketchPack::<T>::COMPONENTS * dim],
            directions: Vec::new(),
            updates: 0,
        }
    }

    /// Sketch these clusters, whose weights are `log_pi` and a quadratic form.
    pub fn update(&mut self, clusters: &dyn Clusters<T>, log_pi: &[T], rows: &Rows<T>) {
        let dim = self.dim;
        let size = (self.frames.len() / self.base.len().max(1)).max(1);
        let fresh = self.directions.is_empty();
        let steps = match self.updates {
            0 => FIRST_STEPS,
            n => usize::from(n.is_multiple_of(UPDATES_A_STEP)),
        };
        self.updates += 1;
        self.center = clusters.quadratic(0).map_or(Vec::new(), |q| q.center.to_vec());
        if fresh {
            self.frames.chunks_exact_mut(size).for_each(|frame| start_frame(frame, dim));
            self.directions = directions(rows, &self.center);
        }
        let directions = &self.directions;
        let packs: Vec<&mut [T]> = self.pack.clusters_mut().collect();
        let numbers = self.base.par_iter_mut().zip(&mut self.slope).zip(self.frames.par_chunks_exact_mut(size));
        packs.into_par_iter().zip(numbers).enumerate().for_each(|(k, (packed, ((base, slope), frame)))| {
            let Some(quadratic) = clusters.quadratic(k) else { return };
            // The bound must hold for the numbers that the kernel has, rounded to its type.
            let factor: Vec<f64> = quadratic.factor.iter().map(|&m| T::from_f64(m).to_f64()).collect();
            let mut sketch = sketch_of(frame, &factor, dim);
            for _ in 0..steps {
                iterate(frame, &sketch, &factor, directions, dim);
                sketch = sketch_of(frame, &factor, dim);
            }
            let mean = mean_about_center(&quadratic, dim);
            let offset: Vec<f64> = sketch.chunks_exact(dim).map(|w| -dot_f64(w, &mean)).collect();
            fill_sketch(packed, dim, &offset, &sketch);
            (*base, *slope) = rounding::<T>(log_pi[k], quadratic.constant, &factor, &mean);
        });
    }

    /// What a row with this smallest weight still wanted is compared by: rows of other sketches are ruled out where
    /// the sum is above `limit + base + slope * norm`.
    pub fn limit(threshold: T) -> T {
        let t = threshold.to_f64();
        T::from_f64(-2.0 * (1.0 + RELATIVE_SLACK) * t + 16.0 * T::EPSILON * t.abs())
    }
}

/// `base` and `slope` of a cluster, so that none is ruled out wrongly by rounding.
///
/// Let y = M (x - m) and z = Q y be exact, and their computed counterparts off by at most e each: sums of at most
/// D + 4 rounded terms, e = g || M ||_F (|| x - c || + || m - c ||) with g = (D + 4) EPSILON. Then
/// || z || <= || y || + 2 e, so || z ||^2 <= (1 + a) || y ||^2 + (1 + 1/a) 4 e^2 for every a > 0. The cluster cannot
/// reach the threshold t if || y ||^2 > 2 (log pi + constant - t). `RELATIVE_SLACK` is twice the a taken here, which
/// leaves as much again for the rounding of sums of squares and of limits themselves.
fn rounding<T: Real>(log_pi: T, constant: T, factor: &[f64], mean: &[f64]) -> (T, T) {
    let (log_pi, constant) = (log_pi.to_f64(), constant.to_f64());
    let a = 0.5 * RELATIVE_SLACK;
    let dim = mean.len() as f64;
    let g = (dim + 4.0) * T::EPSILON;
    let slope = (1.0 + 1.0 / a) * 8.0 * g * g * dot_f64(factor, factor);
    let near = 2.0 * (1.0 + RELATIVE_SLACK) * (log_pi + constant) + 16.0 * T::EPSILON * (log_pi.abs() + constant.abs());
    (T::from_f64(near + slope * dot_f64(mean, mean)), T::from_f64(slope))
}

/// The mean of a cluster about the center, as the kernels' own numbers give it.
fn mean_about_center<T: Real>(quadratic: &Quadratic<'_, T>, dim: usize) -> Vec<f64> {
    let mut mean = vec![0.0; dim];
    mean.iter_mut().zip(quadratic.mean).for_each(|(m, v)| *m += v.to_f64());
    mean.iter_mut().zip(quadratic.center).for_each(|(m, v)| *m -= v.to_f64());
    mean
}

/// Orthonormal rows that favour no direction much.
fn start_frame(frame: &mut [f64], dim: usize) {
    let mut state = 1u64;
    for v in frame.iter_mut() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *v = (state >> 11) as f64 / (1u64 << 53) as f64 - 0.5;
    }
    orthonormalise(frame, dim);
}

/// W = Q M for a lower-triangular M.
fn sketch_of(frame: &[f64], factor: &[f64], dim: usize) -> Vec<f64> {
    let mut sketch = vec![0.0; frame.len()];
    for (q, w) in frame.chunks_exact(dim).zip(sketch.chunks_exact_mut(dim)) {
        for c in 0..dim {
            for (w, m) in w[..=c].iter_mut().zip(&factor[c * dim..c * dim + c + 1]) {
                *w += q[c] * m;
            }
        }
    }
    sketch
}

/// Q <- orthonormal rows of W S M^T, where W = Q M: a step towards the largest eigenvectors of M S M^T, in which rows
/// with second moments S have the largest components.
fn iterate(frame: &mut [f64], sketch: &[f64], factor: &[f64], directions: &[f64], dim: usize) {
    let mut spread = vec![0.0; dim];
    for (q, w) in frame.chunks_exact_mut(dim).zip(sketch.chunks_exact(dim)) {
        for d in 0..dim {
            spread[d] = dot_f64(&directions[d * dim..(d + 1) * dim], w);
        }
        for c in 0..dim {
            q[c] = dot_f64(&factor[c * dim..c * dim + c + 1], &spread[..=c]);
        }
    }
    orthonormalise(frame, dim);
}

/// Second moments about the center of some of these rows, each scaled to length one: where rows lie, whatever their
/// size.
fn directions<T: Real>(rows: &Rows<T>, center: &[T]) -> Vec<f64> {
    let dim = rows.dim();
    let mut moments = vec![0.0; dim * dim];
    for n in (0..rows.len()).step_by((rows.len() / DIRECTION_ROWS).max(1)) {
        let mut row: Vec<f64> = rows.dense_rows(n..n + 1).iter().map(|x| x.to_f64()).collect();
        row.iter_mut().zip(center).for_each(|(x, c)| *x -= c.to_f64());
        let square = dot_f64(&row, &row);
        if square > 0.0 {
            for (moments, x) in moments.chunks_exact_mut(dim).zip(&row) {
                moments.iter_mut().zip(&row).for_each(|(s, y)| *s += x * y / square);
            }
        }
    }
    moments
}

/// Gram-Schmidt, twice for full precision. A row that depends on those before it becomes zero, which leaves the bound
/// one component short and right.
fn orthonormalise(frame: &mut [f64], dim: usize) {
    for i in 0..frame.len() / dim {
        let (before, rest) = frame.split_at_mut(i * dim);
        let row = &mut rest[..dim];
        let scale = row.iter().fold(0.0f64, |most, v| most.max(v.abs()));
        if !(scale > 0.0 && scale.is_finite()) {
            row.fill(0.0);
            continue;
        }
        row.iter_mut().for_each(|v| *v /= scale);
        let size = dot_f64(row, row).sqrt();
        for _ in 0..2 {
            for q in before.chunks_exact(dim) {
                let along = dot_f64(q, row);
                row.iter_mut().zip(q).for_each(|(v, q)| *v -= along * q);
            }
        }
        let left = dot_f64(row, row).sqrt();
        if left > 1e-9 * size {
            row.iter_mut().for_each(|v| *v /= left);
        } else {
            row.fill(0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_stay_orthonormal_and_find_the_largest_directions() {
        let dim = 12;
        // M = diag(1, 2, .., 12) with something below the diagonal.
        let mut factor = vec![0.0; dim * dim];
        for i in 0..dim {
            factor[i * dim + i] = (i + 1) as f64;
            if i > 0 {
                factor[i * dim + i - 1] = 0.1;
            }
        }
        let eye: Vec<f64> = (0..dim * dim).map(|i| f64::from(u8::from(i % (dim + 1) == 0))).collect();
        let mut frame = vec![0.0; 4 * dim];
        start_frame(&mut frame, dim);
        for _ in 0..200 {
            let sketch = sketch_of(&frame, &factor, dim);
            iterate(&mut frame, &sketch, &factor, &eye, dim);
        }
        for (i, a) in frame.chunks_exact(dim).enumerate() {
            for (j, b) in frame.chunks_exact(dim).enumerate() {
                assert!((dot_f64(a, b) - f64::from(u8::from(i == j))).abs() < 1e-14);
            }
        }
        let norms: Vec<f64> = sketch_of(&frame, &factor, dim).chunks_exact(dim).map(|w| dot_f64(w, w).sqrt()).collect();
        for (norm, expected) in norms.iter().zip([12.0, 11.0, 10.0, 9.0]) {
            assert!((norm - expected).abs() < 0.05, "{norms:?}");
        }
    }

    #[test]
    fn dependent_rows_become_zero() {
        let mut frame = vec![1.0, 2.0, 2.0, 4.0, 0.0, 0.0];
        orthonormalise(&mut frame, 2);
        assert!((frame[0] * frame[0] + frame[1] * frame[1] - 1.0).abs() < 1e-15);
        assert_eq!(frame[2..], [0.0; 4]);
    }
}
