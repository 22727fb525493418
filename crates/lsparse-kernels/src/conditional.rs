//! What Gaussians expect in missing columns given the others, for several of them side by side.

use crate::aligned::AlignedVec;
use crate::elementary::ln_positive;
use crate::simd::{Kernel, Vector, dispatch};

/// Pivots of a precision are no less than this share of its diagonal but by rounding.
const LEAST_PIVOT: f64 = 1e-15;

/// Columns whose products are summed at a time: each value of a row that is loaded serves all of them.
const COLS: usize = 4;

/// Precisions and means of `num` Gaussians in groups of [`WIDTH`](Self::WIDTH), the numbers of a group next to each other.
#[derive(Clone, Debug)]
pub struct ConditionalPack {
    num: usize,
    dim: usize,
    /// A group's entry `(i, j)` is at `(i * dim + j) * WIDTH`.
    precisions: AlignedVec<f64>,
    /// Its entry `j` is at `j * WIDTH`.
    means: AlignedVec<f64>,
}

/// What is known of a group and certain missing columns, and room to work in; to be used again.
#[derive(Debug, Default)]
pub struct Conditional {
    /// Cholesky factors of the precisions in the missing columns, entry `(i, j)` at `(i * missing + j) * WIDTH`, with the
    /// inverse of the diagonal in place of the diagonal.
    factor: AlignedVec<f64>,
    /// The row less the means.
    away: AlignedVec<f64>,
    /// log |Phi_MM|.
    log_det: [f64; ConditionalPack::WIDTH],
    missing: usize,
}

impl ConditionalPack {
    /// Gaussians of a group.
    pub const WIDTH: usize = 8;

    /// Room for `num` Gaussians; the places that fill up the last group have precision one.
    ///
    /// # Panics
    /// If `dim` is zero.
    pub fn new(num: usize, dim: usize) -> Self {
        assert!(dim > 0, "dim must be positive");
        let groups = num.div_ceil(Self::WIDTH);
        let (mut precisions, mut means) = (AlignedVec::new(), AlignedVec::new());
        precisions.reshape(groups * dim * dim * Self::WIDTH);
        means.reshape(groups * dim * Self::WIDTH);
        precisions.fill(0.0);
        means.fill(0.0);
        for group in precisions.chunks_exact_mut(dim * dim * Self::WIDTH) {
            (0..dim).for_each(|i| group[(i * dim + i) * Self::WIDTH..][..Self::WIDTH].fill(1.0));
        }
        ConditionalPack { num, dim, precisions, means }
    }

    /// Set Gaussian `k`.
    ///
    /// # Panics
    /// If there is none, or `precision` has not `dim * dim` entries or `mean` not `dim`.
    pub fn set(&mut self, k: usize, precision: &[f64], mean: &[f64]) {
        assert!(k < self.num, "Gaussian {k} of {}", self.num);
        assert_eq!(precision.len(), self.dim * self.dim, "precision must hold dim * dim entries");
        assert_eq!(mean.len(), self.dim, "mean must hold dim entries");
        let (group, lane) = (k / Self::WIDTH, k % Self::WIDTH);
        let first = group * self.dim * self.dim * Self::WIDTH + lane;
        let slots = self.precisions[first..].iter_mut().step_by(Self::WIDTH);
        slots.zip(precision).for_each(|(slot, value)| *slot = *value);
        let slots = self.means[group * self.dim * Self::WIDTH + lane..].iter_mut().step_by(Self::WIDTH);
        slots.zip(mean).for_each(|(slot, value)| *slot = *value);
    }

    /// How many groups there are.
    pub fn groups(&self) -> usize {
        self.num.div_ceil(Self::WIDTH)
    }

    /// The Gaussians of a group.
    pub fn members(&self, group: usize) -> std::ops::Range<usize> {
        group * Self::WIDTH..self.num.min((group + 1) * Self::WIDTH)
    }

    /// Prepare `conditional` for rows that lack the columns `missing`.
    ///
    /// # Panics
    /// If there is no such group or column.
    pub fn prepare(&self, group: usize, missing: &[u32], conditional: &mut Conditional) {
        let precisions = self.precisions_of(group);
        assert!(missing.iter().all(|&d| (d as usize) < self.dim), "columns must be below dim");
        conditional.missing = missing.len();
        conditional.factor.reshape(missing.len() * missing.len() * Self::WIDTH);
        dispatch::<f64, _>(Prepare { precisions, dim: self.dim, missing, conditional });
    }

    /// What each Gaussian of the group expects in the columns `missing` of `row`, whose entries there are ignored:
    /// `out[i * WIDTH + lane]`, that is `m - Phi_MM^-1 Phi_MO (x_O - m_O)`.
    ///
    /// # Panics
    /// If `conditional` was not prepared for as many columns, or the lengths do not fit.
    pub fn expect(&self, group: usize, missing: &[u32], row: &[f64], conditional: &mut Conditional, out: &mut [f64]) {
        let precisions = self.precisions_of(group);
        assert_eq!(conditional.missing, missing.len(), "prepare must come first");
        assert!(missing.iter().all(|&d| (d as usize) < self.dim), "columns must be below dim");
        assert_eq!(row.len(), self.dim, "row must hold dim entries");
        assert_eq!(out.len(), missing.len() * Self::WIDTH, "out must hold WIDTH entries a missing column");
        let size = self.dim * Self::WIDTH;
        conditional.away.reshape(size);
        let means = &self.means[group * size..(group + 1) * size];
        dispatch::<f64, _>(Expect { precisions, means, dim: self.dim, missing, row, conditional, out });
    }

    fn precisions_of(&self, group: usize) -> &[f64] {
        let size = self.dim * self.dim * Self::WIDTH;
        &self.precisions[group * size..(group + 1) * size]
    }
}

impl Conditional {
    /// log |Phi_MM| of the Gaussian at place `lane` of the group.
    pub fn log_det(&self, lane: usize) -> f64 {
        self.log_det[lane]
    }

    /// Turn standard normal numbers, one a missing column, into a draw from the missing part of the Gaussian at place `lane`
    /// less what is expected there.
    ///
    /// # Panics
    /// If there are not as many numbers as missing columns.
    pub fn spread(&self, lane: usize, normal: &mut [f64]) {
        let num = self.missing;
        assert_eq!(normal.len(), num, "a number a missing column");
        let entry = |i: usize, j: usize| self.factor[(i * num + j) * ConditionalPack::WIDTH + lane];
        // L^T y = z, so that y has the covariance (L L^T)^-1.
        for i in (0..num).rev() {
            let sum: f64 = (i + 1..num).map(|k| entry(k, i) * normal[k]).sum();
            normal[i] = (normal[i] - sum) * entry(i, i);
        }
    }

    /// The covariance of the missing part, Phi_MM^-1, of the Gaussian at place `lane`: the lower triangle to `add`, as
    /// row, column and value. `work` is resized as needed.
    pub fn covariance(&self, lane: usize, work: &mut Vec<f64>, mut add: impl FnMut(usize, usize, f64)) {
        let num = self.missing;
        let entry = |i: usize, j: usize| self.factor[(i * num + j) * ConditionalPack::WIDTH + lane];
        work.resize(num, 0.0);
        for j in 0..num {
            // Column j of L^-1, which is zero above row j, and then L^-T of it down to row j.
            work[j] = entry(j, j);
            for i in j + 1..num {
                let sum: f64 = (j..i).map(|k| entry(i, k) * work[k]).sum();
                work[i] = -sum * entry(i, i);
            }
            for i in (j..num).rev() {
                let sum: f64 = (i + 1..num).map(|k| entry(k, i) * work[k]).sum();
                work[i] = (work[i] - sum) * entry(i, i);
                add(i, j, work[i]);
            }
        }
    }
}

/// Arguments of [`ConditionalPack::prepare`], lengths checked.
struct Prepare<'a> {
    precisions: &'a [f64],
    dim: usize,
    missing: &'a [u32],
    conditional: &'a mut Conditional,
}

impl Kernel<f64> for Prepare<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector<Elem = f64>>(self) {
        const WIDTH: usize = ConditionalPack::WIDTH;
        const { assert!(WIDTH.is_multiple_of(V::LANES)) };
        let Prepare { precisions, dim, missing, conditional } = self;
        let num = missing.len();
        let factor = conditional.factor.as_mut_ptr();
        for lane in (0..WIDTH).step_by(V::LANES) {
            let mut log_det = V::splat(0.0);
            for i in 0..num {
                for j in 0..=i {
                    let at = (missing[i] as usize * dim + missing[j] as usize) * WIDTH + lane;
                    // SAFETY: the columns are below `dim`, and the factor has `num * num` entries a lane.
                    unsafe {
                        let own = V::load(precisions.as_ptr().add(at));
                        let mut rest = own;
                        for k in 0..j {
                            let left = V::load(factor.add((i * num + k) * WIDTH + lane));
                            let right = V::load(factor.add((j * num + k) * WIDTH + lane));
                            rest = left.fnma(right, rest);
                        }
                        let to = factor.add((i * num + j) * WIDTH + lane);
                        if j < i {
                            rest.mul(V::load(factor.add((j * num + j) * WIDTH + lane))).store(to);
                        } else {
                            let least = own.mul(V::splat(LEAST_PIVOT)).max(V::splat(f64::MIN_POSITIVE));
                            let pivot = rest.max(least);
                            log_det = log_det.add(ln_positive(pivot));
                            V::splat(1.0).div(pivot.sqrt()).store(to);
                        }
                    }
                }
            }
            // SAFETY: there is a number a lane.
            unsafe { log_det.store(conditional.log_det[lane..lane + V::LANES].as_mut_ptr()) };
        }
    }
}

/// Arguments of [`ConditionalPack::expect`], lengths checked.
struct Expect<'a> {
    precisions: &'a [f64],
    means: &'a [f64],
    dim: usize,
    missing: &'a [u32],
    row: &'a [f64],
    conditional: &'a mut Conditional,
    out: &'a mut [f64],
}

impl Kernel<f64> for Expect<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector<Elem = f64>>(self) {
        const WIDTH: usize = ConditionalPack::WIDTH;
        const { assert!(WIDTH.is_multiple_of(V::LANES)) };
        let Expect { precisions, means, dim, missing, row, conditional, out } = self;
        let num = missing.len();
        let (away, out, factor) = (conditional.away.as_mut_ptr(), out.as_mut_ptr(), conditional.factor.as_ptr());
        for lane in (0..WIDTH).step_by(V::LANES) {
            // SAFETY: rows of the group have `dim` entries a lane, missing columns are below `dim`, `out` has `num` entries
            // a lane and the factor `num * num`.
            unsafe {
                for d in 0..dim {
                    let mean = V::load(means.as_ptr().add(d * WIDTH + lane));
                    V::splat(row[d]).sub(mean).store(away.add(d * WIDTH + lane));
                }
                for &d in missing {
                    V::splat(0.0).store(away.add(d as usize * WIDTH + lane));
                }
                let of_column = |i: usize| precisions.as_ptr().add(missing[i] as usize * dim * WIDTH + lane);
                let mut i = 0;
                while i + COLS <= num {
                    let columns = [0, 1, 2, 3].map(|c| of_column(i + c));
                    let sums = products::<V, COLS>(columns, away.add(lane), dim);
                    for c in 0..COLS {
                        sums[c].store(out.add((i + c) * WIDTH + lane));
                    }
                    i += COLS;
                }
                while i < num {
                    let [sum] = products::<V, 1>([of_column(i)], away.add(lane), dim);
                    sum.store(out.add(i * WIDTH + lane));
                    i += 1;
                }
                // L L^T y = -Phi_MO (x_O - m_O).
                for i in 0..num {
                    let to = out.add(i * WIDTH + lane);
                    let mut rest = V::load(to);
                    for k in 0..i {
                        let l = V::load(factor.add((i * num + k) * WIDTH + lane));
                        rest = l.fnma(V::load(out.add(k * WIDTH + lane)), rest);
                    }
                    rest.mul(V::load(factor.add((i * num + i) * WIDTH + lane))).store(to);
                }
                for i in (0..num).rev() {
                    let to = out.add(i * WIDTH + lane);
                    let mut rest = V::load(to);
                    for k in i + 1..num {
                        let l = V::load(factor.add((k * num + i) * WIDTH + lane));
                        rest = l.fnma(V::load(out.add(k * WIDTH + lane)), rest);
                    }
                    rest.mul(V::load(factor.add((i * num + i) * WIDTH + lane))).store(to);
                }
                for i in 0..num {
                    let to = out.add(i * WIDTH + lane);
                    let mean = V::load(means.as_ptr().add(missing[i] as usize * WIDTH + lane));
                    mean.add(V::load(to)).store(to);
                }
            }
        }
    }
}

/// `-sum_d columns[c]_d away_d` for each of `C` columns.
///
/// # Safety
/// `dim` vectors, `WIDTH` numbers apart, must be readable at each column and at `away`.
#[inline(always)]
unsafe fn products<V: Vector<Elem = f64>, const C: usize>(
    columns: [*const f64; C],
    away: *const f64,
    dim: usize,
) -> [V; C] {
    let mut sums = [V::splat(0.0); C];
    for d in 0..dim {
        // SAFETY: the caller's promise.
        unsafe {
            let x = V::load(away.add(d * ConditionalPack::WIDTH));
            for c in 0..C {
                sums[c] = V::load(columns[c].add(d * ConditionalPack::WIDTH)).fnma(x, sums[c]);
            }
        }
    }
    sums
}
