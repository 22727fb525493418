//! Define the vector interface that the kernels are written against, and run a kernel at the current level.

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use crate::level::{Level, level};
use crate::real::Real;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;
#[cfg(target_arch = "x86_64")]
mod transpose;

/// A register of `LANES` numbers that are worked on together. Lanes never interact except in
/// [`sum`](Vector::sum) and [`sum_four`](Vector::sum_four).
///
/// The x86 implementations call instructions that the CPU must have. Nothing but [`dispatch`]
/// picks an implementation, and it picks one only after the CPU was found to support it; their
/// safety comments refer to this as "the dispatch rule".
pub trait Vector: Copy {
    /// The type of a lane.
    type Elem: Real;
    /// One yes or no for each lane.
    type Mask: Copy;
    /// Numbers in a vector.
    const LANES: usize;
    /// Vector registers of the instruction set, which bounds the register tiles.
    const REGISTERS: usize;

    /// The same number in every lane.
    fn splat(value: Self::Elem) -> Self;
    /// # Safety
    /// `LANES` numbers must be readable at `from`.
    unsafe fn load(from: *const Self::Elem) -> Self;
    /// # Safety
    /// `LANES` numbers must be writable at `to`.
    unsafe fn store(self, to: *mut Self::Elem);
    /// The first `count` lanes from memory, the others from `fill`.
    /// # Safety
    /// `count` numbers must be readable at `from`, and `count < LANES`.
    unsafe fn load_part(from: *const Self::Elem, count: usize, fill: Self) -> Self;
    /// Writes the first `count` lanes.
    /// # Safety
    /// `count` numbers must be writable at `to`, and `count < LANES`.
    unsafe fn store_part(self, to: *mut Self::Elem, count: usize);

    /// Copies the number at `offset` from each of four places, to be next to each other.
    /// # Safety
    /// A number must be readable at `offset` from each place, and four be writable at `to`.
    #[inline(always)]
    unsafe fn copy_four(from: [*const Self::Elem; 4], offset: usize, to: *mut Self::Elem) {
        for i in 0..4 {
            // SAFETY: the caller's promise.
            unsafe { to.add(i).write(from[i].add(offset).read()) };
        }
    }

    /// Turns a square of four times four numbers: entry `j` of place `i` goes to `to[j * stride + i]`.
    /// # Safety
    /// Four numbers must be readable at each place, and four be writable at `to + j * stride` for `j < 4`.
    #[inline(always)]
    unsafe fn transpose_four(from: [*const Self::Elem; 4], to: *mut Self::Elem, stride: usize) {
        for j in 0..4 {
            // SAFETY: the caller's promise.
            unsafe { Self::copy_four(from, j, to.add(j * stride)) };
        }
    }

    /// `self + b`
    fn add(self, b: Self) -> Self;
    /// `self - b`
    fn sub(self, b: Self) -> Self;
    /// `self * b`
    fn mul(self, b: Self) -> Self;
    /// `self / b`
    fn div(self, b: Self) -> Self;
    /// The square root.
    fn sqrt(self) -> Self;
    /// `self * b + c`, rounded once where the instruction set can.
    fn fma(self, b: Self, c: Self) -> Self;
    /// `c - self * b`, rounded once where the instruction set can.
    fn fnma(self, b: Self, c: Self) -> Self;
    /// The larger; `b` if either is NaN.
    fn max(self, b: Self) -> Self;
    /// The smaller; `b` if either is NaN.
    fn min(self, b: Self) -> Self;
    /// The nearest integer, ties to even, for `|self| < 2^20`.
    fn round(self) -> Self;
    /// `self * 2^exponent` for an integral `exponent` within twice the exponent range.
    fn ldexp(self, exponent: Self) -> Self;
    /// `(m, e)` with `self = m * 2^e` and `0.75 <= m < 1.5`, for finite `self > 0`.
    fn frexp(self) -> (Self, Self);

    /// `self > b`
    fn gt(self, b: Self) -> Self::Mask;
    /// `self >= b`
    fn ge(self, b: Self) -> Self::Mask;
    /// `self == b`
    fn eq(self, b: Self) -> Self::Mask;
    /// Whether either is NaN.
    fn unordered(self, b: Self) -> Self::Mask;
    /// Lane by lane, `yes` where the mask is set and `no` elsewhere.
    fn select(mask: Self::Mask, yes: Self, no: Self) -> Self;
    /// Lane `i` of the mask as bit `i`.
    fn bits(mask: Self::Mask) -> u64;

    /// The sum of the lanes, halves added pairwise: an order that only depends on `LANES`.
    #[inline(always)]
    fn sum(self) -> Self::Elem {
        let mut lanes = [Self::Elem::ZERO; 16];
        const { assert!(Self::LANES <= 16) };
        // SAFETY: the array holds 16 numbers, and no vector has more lanes.
        unsafe { self.store(lanes.as_mut_ptr()) };
        let mut half = Self::LANES / 2;
        while half > 0 {
            for i in 0..half {
                lanes[i] += lanes[i + half];
            }
            half /= 2;
        }
        lanes[0]
    }

    /// The sum of the lanes of each of four vectors, in an order that only depends on the type.
    #[inline(always)]
    fn sum_four(vectors: [Self; 4]) -> [Self::Elem; 4] {
        vectors.map(Self::sum)
    }

    /// `totals[i] += lane i` in double precision, for the first `count` lanes if there are fewer
    /// than `LANES`, else all.
    /// # Safety
    /// `min(count, LANES)` numbers must be readable and writable at `totals`.
    #[inline(always)]
    unsafe fn add_to(self, totals: *mut f64, count: usize) {
        let mut lanes = [Self::Elem::ZERO; 16];
        // SAFETY: no vector has more than 16 lanes; the caller's promise covers the totals.
        unsafe {
            self.store(lanes.as_mut_ptr());
            if count >= Self::LANES {
                for i in 0..Self::LANES {
                    *totals.add(i) += lanes[i].to_f64();
                }
            } else {
                for i in 0..count {
                    *totals.add(i) += lanes[i].to_f64();
                }
            }
        }
    }

    /// The first `count` lanes from memory if there are fewer than `LANES`, else all.
    /// # Safety
    /// `min(count, LANES)` numbers must be readable at `from`.
    #[inline(always)]
    unsafe fn load_upto(from: *const Self::Elem, count: usize, fill: Self) -> Self {
        // SAFETY: the caller's promise covers both branches.
        unsafe { if count >= Self::LANES { Self::load(from) } else { Self::load_part(from, count, fill) } }
    }
}

/// The vector type of each level for one element type.
pub trait Lanes: Sized {
    /// Plain Rust.
    type Portable: Vector<Elem = Self>;
    /// 128 bits.
    #[cfg(target_arch = "aarch64")]
    type Neon: Vector<Elem = Self>;
    /// 256 bits.
    #[cfg(target_arch = "x86_64")]
    type Avx2: Vector<Elem = Self>;
    /// 512 bits.
    #[cfg(target_arch = "x86_64")]
    type Avx512: Vector<Elem = Self>;
}

impl Lanes for f32 {
    type Portable = portable::Array<f32, 4>;
    #[cfg(target_arch = "aarch64")]
    type Neon = neon::F32x4;
    #[cfg(target_arch = "x86_64")]
    type Avx2 = avx2::F32x8;
    #[cfg(target_arch = "x86_64")]
    type Avx512 = avx512::F32x16;
}

impl Lanes for f64 {
    type Portable = portable::Array<f64, 2>;
    #[cfg(target_arch = "aarch64")]
    type Neon = neon::F64x2;
    #[cfg(target_arch = "x86_64")]
    type Avx2 = avx2::F64x4;
    #[cfg(target_arch = "x86_64")]
    type Avx512 = avx512::F64x8;
}

/// A computation written once for every vector type; its arguments are its fields.
///
/// `run` and everything it calls must be `#[inline(always)]`: only then is it compiled with the
/// instruction set of the function it ends up in.
pub trait Kernel<T> {
    /// What it returns.
    type Output;
    /// Runs with vectors of type `V`.
    fn run<V: Vector<Elem = T>>(self) -> Self::Output;
}

/// Runs a kernel with the vectors of the current level.
#[inline(always)]
pub fn dispatch<T: Lanes, K: Kernel<T>>(kernel: K) -> K::Output {
    #[cfg(target_arch = "x86_64")]
    match level() {
        // SAFETY: `level` never returns more than the CPU was found to support.
        Level::Avx512 => return unsafe { run_avx512::<T, K>(kernel) },
        // SAFETY: as above.
        Level::Avx2 => return unsafe { run_avx2::<T, K>(kernel) },
        Level::Portable | Level::Neon => {}
    }
    #[cfg(target_arch = "aarch64")]
    if level() == Level::Neon {
        return kernel.run::<T::Neon>();
    }
    kernel.run::<T::Portable>()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx2,fma,bmi1,bmi2,lzcnt,popcnt")]
fn run_avx512<T: Lanes, K: Kernel<T>>(kernel: K) -> K::Output {
    kernel.run::<T::Avx512>()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt")]
fn run_avx2<T: Lanes, K: Kernel<T>>(kernel: K) -> K::Output {
    kernel.run::<T::Avx2>()
}
