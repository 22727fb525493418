//! Quadratic forms with packed triangular factors: the log densities of full-covariance Gaussians.

use crate::aligned::aligned;
use crate::real::Real;
use crate::simd::{Kernel, Vector};

/// Columns of a register tile.
///
/// With 4 row vectors (AVX-512) or 2 (otherwise) the accumulators, the rows and one broadcast
/// coefficient fit the register file, and there are more multiplications than loads.
const COLS: usize = 6;

/// `num` lower-triangular factors of size `dim x dim`, in the order in which the kernel reads them.
///
/// A factor is a sequence of column blocks of the product `y = M x`: entries `c..c + w` of `y`.
/// For each block come the coefficients of `x_0 .. x_{c-1}`, `w` at a time, and then its triangle:
/// `w` coefficients of `x_c`, `w - 1` of `x_{c+1}`, and so on. The first block has what remains of
/// `dim` by six, the others six columns: so the narrow block is the one without a rectangle.
/// Nothing is padded: a factor takes `dim * (dim + 1) / 2` numbers.
#[derive(Clone, Debug)]
pub struct TriangularPack<T> {
    num: usize,
    dim: usize,
    data: Vec<T>,
}

/// The columns `(start, width)` of each block.
fn blocks(dim: usize) -> impl Iterator<Item = (usize, usize)> {
    let narrow = dim % COLS;
    let first = (narrow > 0).then_some((0, narrow));
    let rest = (narrow..dim).step_by(COLS).map(|start| (start, COLS));
    first.into_iter().chain(rest)
}

/// Packs the lower triangle of the row-major `dim x dim` matrix `lower` as a factor of a [`TriangularPack`]; what lies
/// above its diagonal is ignored.
///
/// # Panics
/// If `lower` has not `dim * dim` entries or `packed` not as many as a triangle.
pub fn fill_factor<T: Real>(packed: &mut [T], dim: usize, lower: &[f64]) {
    assert_eq!(lower.len(), dim * dim, "lower must hold dim * dim entries");
    assert_eq!(packed.len(), dim * (dim + 1) / 2, "packed must hold a triangle");
    let mut packed = packed.iter_mut();
    for (start, width) in blocks(dim) {
        for d in 0..start + width {
            for c in start.max(d)..start + width {
                let slot = packed.next().expect("a block has as many entries as the pack");
                *slot = T::from_f64(lower[c * dim + d]);
            }
        }
    }
}

impl<T: Real> TriangularPack<T> {
    /// Room for `num` factors of size `dim x dim`, all zero.
    ///
    /// # Panics
    /// If `dim` is zero.
    pub fn new(num: usize, dim: usize) -> Self {
        assert!(dim > 0, "dim must be positive");
        let data = vec![T::ZERO; num * dim * (dim + 1) / 2];
        Self { num, dim, data }
    }

    /// The number of factors.
    pub fn num(&self) -> usize {
        self.num
    }

    /// The size of a factor.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Entries of a packed factor.
    fn size(&self) -> usize {
        self.dim * (self.dim + 1) / 2
    }

    /// Sets factor `k` to the lower triangle of the row-major matrix `lower`; what lies above its
    /// diagonal is ignored.
    ///
    /// # Panics
    /// If there is no factor `k`, or `lower` has not `dim * dim` entries.
    pub fn set(&mut self, k: usize, lower: &[f64]) {
        assert!(k < self.num, "factor {k} of {}", self.num);
        let size = self.size();
        fill_factor(&mut self.data[k * size..(k + 1) * size], self.dim, lower);
    }

    /// The packed numbers of factor `k`.
    ///
    /// # Panics
    /// If there is no factor `k`.
    pub fn factor(&self, k: usize) -> &[T] {
        &self.data[k * self.size()..(k + 1) * self.size()]
    }

    /// The packed numbers of each factor in turn, for [`fill_factor`] on several threads.
    pub fn factors_mut(&mut self) -> std::slice::ChunksExactMut<'_, T> {
        let size = self.size();
        self.data.chunks_exact_mut(size)
    }

    /// `out[r] = || M_k (x_r - shift) ||^2` for every row of a tile (see
    /// [`transpose_tile`](crate::transpose_tile)); without a shift, `|| M_k x_r ||^2`.
    ///
    /// `scratch` is resized as needed and may be shared between calls of all kinds.
    ///
    /// # Panics
    /// If there is no factor `k`, or the lengths do not fit.
    pub fn quad_forms(&self, k: usize, tile: &[T], shift: Option<&[T]>, scratch: &mut Vec<T>, out: &mut [T]) {
        self.quad_forms_of_first(T::TILE, k, tile, shift, scratch, out);
    }

    /// [`quad_forms`](Self::quad_forms) of the first `rows` rows of a tile, with the same bits; what `out` holds for
    /// the others is unspecified. Few rows take less time.
    ///
    /// # Panics
    /// If there is no factor `k`, or the lengths do not fit.
    pub fn quad_forms_of_first(
        &self,
        rows: usize,
        k: usize,
        tile: &[T],
        shift: Option<&[T]>,
        scratch: &mut Vec<T>,
        out: &mut [T],
    ) {
        assert!(k < self.num, "factor {k} of {}", self.num);
        let (dim, size) = (self.dim, self.size());
        assert_eq!(tile.len(), dim * T::TILE, "tile must hold dim * TILE entries");
        assert_eq!(out.len(), T::TILE, "out must hold TILE entries");
        let factor = &self.data[k * size..(k + 1) * size];
        let shifted = match shift {
            Some(shift) => {
                assert_eq!(shift.len(), dim, "shift must hold dim entries");
                aligned(scratch, dim * T::TILE)
            }
            None => &mut [],
        };
        T::quad_forms(QuadForms { factor, dim, rows, tile, shift, shifted, out });
    }
}

/// Arguments of [`TriangularPack::quad_forms`], lengths checked.
pub struct QuadForms<'a, T> {
    /// One packed factor, `dim * (dim + 1) / 2` entries.
    factor: &'a [T],
    dim: usize,
    /// Rows of the tile that are wanted.
    rows: usize,
    /// `dim * TILE` entries.
    tile: &'a [T],
    /// `dim` entries, if any.
    shift: Option<&'a [T]>,
    /// `dim * TILE` entries if there is a shift: receives the shifted tile.
    shifted: &'a mut [T],
    /// `TILE` entries.
    out: &'a mut [T],
}

impl<T: Real> Kernel<T> for QuadForms<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector<Elem = T>>(self) {
        if V::REGISTERS >= 32 {
            match self.rows.div_ceil(V::LANES) {
                0 | 1 => self.with_or_without_shift::<V, 1>(),
                2 => self.with_or_without_shift::<V, 2>(),
                _ => self.with_or_without_shift::<V, 4>(),
            }
        } else if V::LANES > 2 {
            self.with_or_without_shift::<V, 2>();
        } else {
            // Two lanes are only met in plain Rust, where the compiler loses track of more.
            self.with_or_without_shift::<V, 1>();
        }
    }
}

impl<T: Real> QuadForms<'_, T> {
    #[inline(always)]
    fn with_or_without_shift<V: Vector<Elem = T>, const R: usize>(self) {
        if self.shift.is_some() {
            self.all_rows::<V, R, true>();
        } else {
            self.all_rows::<V, R, false>();
        }
    }

    /// All rows that are wanted, `R` vectors of rows at a time.
    #[inline(always)]
    fn all_rows<V: Vector<Elem = T>, const R: usize, const SHIFT: bool>(self) {
        const { assert!(T::TILE.is_multiple_of(R * V::LANES)) };
        for r0 in (0..self.rows.min(T::TILE)).step_by(R * V::LANES) {
            let shift = self.shift.unwrap_or(&[]);
            // SAFETY: every row of the tile has TILE entries, a multiple of R vectors, so all
            // blocks may read and write R vectors at offset r0 of each of their rows.
            unsafe {
                let mut walk = Walk::<V, R, SHIFT> {
                    coefficients: self.factor.as_ptr(),
                    tile: self.tile.as_ptr().add(r0),
                    shift: shift.as_ptr(),
                    shifted: self.shifted.as_mut_ptr().wrapping_add(r0),
                    sums: [V::splat(T::ZERO); R],
                };
                let narrow = self.dim % COLS;
                match narrow {
                    0 => {}
                    1 => walk.block::<1>(0),
                    2 => walk.block::<2>(0),
                    3 => walk.block::<3>(0),
                    4 => walk.block::<4>(0),
                    _ => walk.block::<5>(0),
                }
                for start in (narrow..self.dim).step_by(COLS) {
                    walk.block::<COLS>(start);
                }
                for r in 0..R {
                    walk.sums[r].store(self.out.as_mut_ptr().add(r0 + r * V::LANES));
                }
            }
        }
    }
}

/// The walk through one packed factor for `R` vectors of rows.
struct Walk<V: Vector, const R: usize, const SHIFT: bool> {
    /// The next coefficient.
    coefficients: *const V::Elem,
    tile: *const V::Elem,
    shift: *const V::Elem,
    shifted: *mut V::Elem,
    /// Squared entries of the product so far.
    sums: [V; R],
}

impl<V: Vector, const R: usize, const SHIFT: bool> Walk<V, R, SHIFT> {
    /// Adds the squares of entries `start..start + C` of the product.
    ///
    /// # Safety
    /// The pointers must be good for a factor, tile and shift with at least `start + C` rows, and
    /// the blocks must be taken in order.
    #[inline(always)]
    unsafe fn block<const C: usize>(&mut self, start: usize) {
        let tile_rows = <V::Elem as Real>::TILE;
        let mut acc = [[V::splat(V::Elem::ZERO); R]; C];
        let mut p = self.coefficients;
        // SAFETY: the rectangle reads rows below `start`, which earlier blocks have shifted, and
        // the triangle rows `start..start + C`; the pack holds their coefficients in this order.
        unsafe {
            let mut source = if SHIFT { self.shifted.cast_const() } else { self.tile };
            for _ in 0..start {
                let x: [V; R] = load_rows(source);
                for c in 0..C {
                    let m = V::splat(*p.add(c));
                    for r in 0..R {
                        acc[c][r] = m.fma(x[r], acc[c][r]);
                    }
                }
                p = p.add(C);
                source = source.add(tile_rows);
            }
            for d in 0..C {
                let mut x: [V; R] = load_rows(self.tile.add((start + d) * tile_rows));
                if SHIFT {
                    // Shifted where a row is first met, so that the stores hide behind arithmetic.
                    let shift = V::splat(*self.shift.add(start + d));
                    let to = self.shifted.add((start + d) * tile_rows);
                    for r in 0..R {
                        x[r] = x[r].sub(shift);
                        x[r].store(to.add(r * V::LANES));
                    }
                }
                for c in d..C {
                    let m = V::splat(*p.add(c - d));
                    for r in 0..R {
                        acc[c][r] = m.fma(x[r], acc[c][r]);
                    }
                }
                p = p.add(C - d);
            }
        }
        self.coefficients = p;
        for c in 0..C {
            for r in 0..R {
                self.sums[r] = acc[c][r].fma(acc[c][r], self.sums[r]);
            }
        }
    }
}

/// # Safety
/// `R` vectors must be readable at `from`.
#[inline(always)]
unsafe fn load_rows<V: Vector, const R: usize>(from: *const V::Elem) -> [V; R] {
    let mut rows = [V::splat(V::Elem::ZERO); R];
    for r in 0..R {
        // SAFETY: the caller's promise.
        rows[r] = unsafe { V::load(from.add(r * V::LANES)) };
    }
    rows
}
