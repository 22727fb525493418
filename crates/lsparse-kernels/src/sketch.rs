//! Lower bounds of quadratic forms from a few components: which rows of a tile may still have a cluster.

use crate::real::Real;
use crate::simd::{Kernel, Vector};

/// Components that a stage adds. With 4 row vectors their sums, the rows and a coefficient fit the registers.
const COMPONENTS: usize = 4;

/// For each of `num` clusters, `stages` times four components z = W x + c of a row. Where W has orthonormal rows times
/// M, the squared components add up to no more than || M x ||^2, stage by stage.
#[derive(Clone, Debug)]
pub struct SketchPack<T> {
    num: usize,
    dim: usize,
    stages: usize,
    /// For each cluster and stage: four offsets c, then four coefficients of each of `dim` columns.
    data: Vec<T>,
}

/// What the sums of a tile are compared with: row `r` is ruled out when its sum is above
/// `limit[r] + base + slope * norm[r]`.
#[derive(Clone, Copy, Debug)]
pub struct Limits<'a, T> {
    /// One a row.
    pub limit: &'a [T],
    /// One a row.
    pub norm: &'a [T],
    /// Of the cluster.
    pub base: T,
    /// Of the cluster.
    pub slope: T,
}

impl<T: Real> SketchPack<T> {
    /// Components of a stage.
    pub const COMPONENTS: usize = COMPONENTS;

    /// Room for `num` clusters, all zero.
    ///
    /// # Panics
    /// If `dim` is zero.
    pub fn new(num: usize, dim: usize, stages: usize) -> Self {
        assert!(dim > 0, "dim must be positive");
        Self { num, dim, stages, data: vec![T::ZERO; num * stages * COMPONENTS * (dim + 1)] }
    }

    /// Stages of every cluster.
    pub fn stages(&self) -> usize {
        self.stages
    }

    /// The packed numbers of each cluster in turn, for [`fill_sketch`] on several threads.
    pub fn clusters_mut(&mut self) -> std::slice::ChunksExactMut<'_, T> {
        let size = (self.stages * COMPONENTS * (self.dim + 1)).max(1);
        self.data.chunks_exact_mut(size)
    }

    /// Add the squares of one stage's components to `sums` (the first stage starts them), and return the rows that
    /// `limits` do not rule out, row `r` as bit `r`. A sum that is not a number rules nothing out.
    ///
    /// # Panics
    /// If there is no such cluster or stage, or the lengths do not fit.
    pub fn stage(&self, k: usize, stage: usize, tile: &[T], limits: Limits<'_, T>, sums: &mut [T]) -> u64 {
        assert!(k < self.num && stage < self.stages, "stage {stage} of cluster {k}");
        let size = COMPONENTS * (self.dim + 1);
        let at = (k * self.stages + stage) * size;
        assert_eq!(tile.len(), self.dim * T::TILE, "tile must hold dim * TILE entries");
        for rows in [limits.limit, limits.norm, &*sums] {
            assert_eq!(rows.len(), T::TILE, "limits and sums must hold TILE entries");
        }
        T::sketch(Sketch { coefficients: &self.data[at..at + size], first: stage == 0, tile, limits, sums })
    }
}

/// Put the offsets and components (row-major, four rows a stage, `dim` columns) of one cluster into its packed numbers.
///
/// # Panics
/// If the lengths do not fit.
pub fn fill_sketch<T: Real>(packed: &mut [T], dim: usize, offset: &[f64], components: &[f64]) {
    assert_eq!(components.len(), offset.len() * dim, "one offset a component");
    assert_eq!(packed.len(), offset.len() * (dim + 1), "packed must hold dim + 1 entries a component");
    let stages = packed.chunks_exact_mut(COMPONENTS * (dim + 1));
    for (s, stage) in stages.enumerate() {
        for c in 0..COMPONENTS {
            stage[c] = T::from_f64(offset[s * COMPONENTS + c]);
            for d in 0..dim {
                stage[(d + 1) * COMPONENTS + c] = T::from_f64(components[(s * COMPONENTS + c) * dim + d]);
            }
        }
    }
}

/// Arguments of [`SketchPack::stage`], lengths checked.
pub struct Sketch<'a, T> {
    /// `COMPONENTS * (dim + 1)` entries.
    coefficients: &'a [T],
    first: bool,
    /// `dim * TILE` entries.
    tile: &'a [T],
    /// `TILE` entries each.
    limits: Limits<'a, T>,
    /// `TILE` entries.
    sums: &'a mut [T],
}

impl<T: Real> Kernel<T> for Sketch<'_, T> {
    type Output = u64;

    #[inline(always)]
    fn run<V: Vector<Elem = T>>(self) -> u64 {
        if V::REGISTERS >= 32 {
            self.all_rows::<V, 4>()
        } else if V::LANES > 2 {
            self.all_rows::<V, 2>()
        } else {
            self.all_rows::<V, 1>()
        }
    }
}

impl<T: Real> Sketch<'_, T> {
    #[inline(always)]
    fn all_rows<V: Vector<Elem = T>, const R: usize>(self) -> u64 {
        const { assert!(T::TILE.is_multiple_of(R * V::LANES) && T::TILE <= 64) };
        let Limits { limit, norm, base, slope } = self.limits;
        let mut alive = 0;
        for r0 in (0..T::TILE).step_by(R * V::LANES) {
            // SAFETY: all slices were checked to hold what is read and written: COMPONENTS coefficients for the
            // offsets and for each row of the tile, and TILE entries, a multiple of R vectors, in every other.
            unsafe {
                let mut p = self.coefficients.as_ptr();
                let mut acc = [[V::splat(T::ZERO); R]; COMPONENTS];
                for c in 0..COMPONENTS {
                    acc[c] = [V::splat(*p.add(c)); R];
                }
                let mut source = self.tile.as_ptr().add(r0);
                for _ in 0..self.tile.len() / T::TILE {
                    p = p.add(COMPONENTS);
                    let mut x = [V::splat(T::ZERO); R];
                    for r in 0..R {
                        x[r] = V::load(source.add(r * V::LANES));
                    }
                    for c in 0..COMPONENTS {
                        let w = V::splat(*p.add(c));
                        for r in 0..R {
                            acc[c][r] = w.fma(x[r], acc[c][r]);
                        }
                    }
                    source = source.add(T::TILE);
                }
                for r in 0..R {
                    let at = r0 + r * V::LANES;
                    let mut sum = V::splat(T::ZERO);
                    if !self.first {
                        sum = V::load(self.sums.as_ptr().add(at));
                    }
                    for c in 0..COMPONENTS {
                        sum = acc[c][r].fma(acc[c][r], sum);
                    }
                    sum.store(self.sums.as_mut_ptr().add(at));
                    let most = V::load(limit.as_ptr().add(at)).add(V::splat(base));
                    let most = V::splat(slope).fma(V::load(norm.as_ptr().add(at)), most);
                    let lanes = (1u64 << V::LANES) - 1;
                    alive |= (!V::bits(sum.gt(most)) & lanes) << at;
                }
            }
        }
        alive
    }
}
