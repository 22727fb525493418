//! k-means over a sample of rows on a GPU: greedy k-means++ seeds, and the nearest of many centres.
//!
//! Every number is made as the CPU makes it (fused multiply-adds over the columns in order, sums by groups of 64), so that
//! both find the same to the last bit, where the CPU has fused multiply-adds.

use std::sync::Arc;

use cudarc::driver::{DeviceRepr, LaunchArgs, PushKernelArg};

use crate::artefacts::CENTERS;
use crate::device::{Argument, Buffer, Device, Grid, launch};
use crate::error::{Error, Result};
use crate::mixture::Element;

/// Rows whose chances are summed together, and sums that are summed together, as the kernels have it.
pub const GROUP: usize = 64;

/// Rows that can be tried for a seed.
pub const MOST_TRIES: usize = 8;

/// Rows of a block, as the kernels have it.
const SEED_ROWS: usize = 4 * GROUP;
const NEAREST_ROWS: usize = 128;

/// The most centres that a block of the nearest ones has at a time: their number is filled up to a multiple of it.
const CENTERS_AT_ONCE: usize = 128;

/// None of the numbers of rows.
const NONE: u32 = u32::MAX;

/// Numbers with what k-means needs to know of their type.
pub trait Precision: Element + PartialOrd {
    /// How far it is from one to the next larger number.
    const ROUNDING: f64;
    /// Minus infinity.
    const LEAST: Self;
}

impl Precision for f32 {
    const ROUNDING: f64 = f32::EPSILON as f64;
    const LEAST: Self = f32::NEG_INFINITY;
}

impl Precision for f64 {
    const ROUNDING: f64 = f64::EPSILON;
    const LEAST: Self = f64::NEG_INFINITY;
}

/// Rows on a GPU, in tiles of rows side by side.
pub struct Points<T> {
    device: Arc<Device>,
    num_rows: usize,
    dim: usize,
    tile: usize,
    values: Buffer<T>,
    norms: Buffer<T>,
    weights: Buffer<f64>,
}

/// The arguments of the kernels of seeds: addresses and numbers.
#[repr(C)]
#[derive(Clone, Copy)]
struct Arguments {
    values: u64,
    norms: u64,
    weights: u64,
    nearest: u64,
    owner: u64,
    found: u64,
    left: u64,
    chances: u64,
    tried: u64,
    seeds: u64,
    failed: u64,
    shares: u64,
    epsilon: f64,
    num_rows: u32,
    dim: u32,
    tile: u32,
    tries: u32,
}

// Safe: the layout of the kernels' own structure, without padding.
unsafe impl DeviceRepr for Arguments {}

impl<'a> Argument<'a> for &'a Arguments {
    fn push(self, launch: &mut LaunchArgs<'a>) {
        launch.arg(self);
    }
}

fn refused(detail: &str) -> Error {
    Error::Failed { action: "take rows", detail: detail.into() }
}

impl<T: Precision> Points<T> {
    /// Bring rows onto the GPU: `tiles` has tiles of `tile` rows, each `dim` columns of as many numbers, the last filled up;
    /// `norms` and `weights` are one a row at least.
    pub fn upload(
        device: &Arc<Device>,
        num_rows: usize,
        (dim, tile): (usize, usize),
        tiles: &[T],
        norms: &[T],
        weights: &[f64],
    ) -> Result<Self> {
        let whole = tile > 0 && dim > 0 && tiles.len() == num_rows.div_ceil(tile) * tile * dim;
        if !whole || norms.len() < num_rows || weights.len() < num_rows || num_rows >= NONE as usize {
            return Err(refused("they are not as many as promised"));
        }
        Ok(Points {
            num_rows,
            dim,
            tile,
            values: device.upload(tiles)?,
            norms: device.upload(&norms[..num_rows])?,
            weights: device.upload(&weights[..num_rows])?,
            device: Arc::clone(device),
        })
    }

    /// Rows as seeds: the first one is given, and each other is the best of `tries` that `shares`, as many a seed and sorted,
    /// of all chances fall on: the one that leaves the smallest sum of squared distances. Beside them the nearest seed of
    /// each row. None if no row is left that has a chance, if rows are too many, or if `goes_on`, which is asked before every
    /// seed, says no.
    pub fn seeds(
        &self,
        first: usize,
        shares: &[f64],
        tries: usize,
        mut goes_on: impl FnMut() -> bool,
    ) -> Result<Option<(Vec<u32>, Vec<u32>)>> {
        let (device, num) = (&self.device, self.num_rows);
        if first >= num || tries == 0 || tries > MOST_TRIES || !shares.len().is_multiple_of(tries) {
            return Err(refused("they are not as many as promised"));
        }
        let (groups, num_seeds) = (num.div_ceil(GROUP), 1 + shares.len() / tries);
        let shared = groups.div_ceil(GROUP) * tries * size_of::<f64>();
        if shared > device.info().shared_memory {
            return Ok(None);
        }
        let kernel = |name: &str, shared: usize| device.kernel(&CENTERS, &format!("{name}_{}", T::SUFFIX), shared);
        let (try_rows, settle) = (kernel("try_rows", 0)?, kernel("settle", 0)?);
        let (take_best, draw_rows) = (kernel("take_best", shared)?, kernel("draw_rows", shared)?);
        let (nearest, owner) = (device.zeros::<T>(num)?, device.zeros::<u32>(num)?);
        let (found, left) = (device.zeros::<T>(num * tries)?, device.zeros::<f64>(groups * tries)?);
        let (chances, seeds) = (device.zeros::<f64>(groups)?, device.zeros::<u32>(num_seeds)?);
        let tried = device.upload(&[[first as u32; MOST_TRIES].as_slice(), &[0]].concat())?;
        let (failed, shares) = (device.upload(&[NONE])?, device.upload(shares)?);
        let arguments = Arguments {
            values: device.address(&self.values),
            norms: device.address(&self.norms),
            weights: device.address(&self.weights),
            nearest: device.address(&nearest),
            owner: device.address(&owner),
            found: device.address(&found),
            left: device.address(&left),
            chances: device.address(&chances),
            tried: device.address(&tried),
            seeds: device.address(&seeds),
            failed: device.address(&failed),
            shares: device.address(&shares),
            epsilon: T::ROUNDING,
            num_rows: num as u32,
            dim: self.dim as u32,
            tile: self.tile as u32,
            tries: tries as u32,
        };
        let rows = Grid { blocks: num.div_ceil(SEED_ROWS), threads: SEED_ROWS, shared: 0 };
        let one = Grid { blocks: 1, threads: 1024, shared };
        for number in 0..num_seeds as u32 {
            if !goes_on() {
                // What was launched reads buffers that are about to go.
                device.synchronize()?;
                return Ok(None);
            }
            // Safe: the arguments are those of the kernels, and buffers are as long as rows, groups and seeds are many; they
            // live until what is launched is done.
            unsafe {
                if number > 0 {
                    launch!(device, &draw_rows, one, &arguments, &number)?;
                }
                launch!(device, &try_rows, rows, &arguments, &number)?;
                launch!(device, &take_best, one, &arguments, &number)?;
                launch!(device, &settle, rows, &arguments, &number)?;
            }
        }
        let (seeds, owner) = (device.download(&seeds, num_seeds)?, device.download(&owner, num)?);
        let failed = device.download_at(&failed, 0)?;
        Ok((failed == NONE).then_some((seeds, owner)))
    }

    /// For every row the centre with the largest score x.c + at_zero, of equal ones the first, and that score. `centers` has
    /// the numbers of each centre one behind the other. A row with no score above minus infinity has the centre `u32::MAX`.
    pub fn nearest(&self, centers: &[T], at_zero: &[T]) -> Result<(Vec<u32>, Vec<T>)> {
        let (device, num, dim) = (&self.device, at_zero.len(), self.dim);
        if centers.len() != num * dim || num >= NONE as usize {
            return Err(refused("centres are not as many as promised"));
        }
        let padded = num.next_multiple_of(CENTERS_AT_ONCE).max(CENTERS_AT_ONCE);
        let mut by_column = vec![T::default(); dim * padded];
        for (k, center) in centers.chunks_exact(dim).enumerate() {
            for (d, &value) in center.iter().enumerate() {
                by_column[d * padded + k] = value;
            }
        }
        let mut scores = at_zero.to_vec();
        scores.resize(padded, T::LEAST);
        let (by_column, at_zero) = (device.upload(&by_column)?, device.upload(&scores)?);
        let mut owner = device.uninitialized::<u32>(self.num_rows)?;
        let mut found = device.uninitialized::<T>(self.num_rows)?;
        let kernel = device.kernel(&CENTERS, &format!("nearest_{}", T::SUFFIX), 0)?;
        let grid = Grid { blocks: self.num_rows.div_ceil(NEAREST_ROWS), threads: 256, shared: 0 };
        let (rows, columns, tile, all) = (self.num_rows as u32, dim as u32, self.tile as u32, padded as u32);
        // Safe: the arguments are those of the kernel; centres are `padded` of `dim` columns, a multiple of what a block takes at
        // a time, and each row has its place.
        unsafe {
            launch!(
                device,
                &kernel,
                grid,
                &self.values,
                &rows,
                &columns,
                &tile,
                &by_column,
                &at_zero,
                &all,
                &mut owner,
                &mut found
            )?;
        }
        Ok((device.download(&owner, self.num_rows)?, device.download(&found, self.num_rows)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_have_the_layout_of_the_kernels() {
        assert_eq!(size_of::<Arguments>(), 12 * 8 + 8 + 4 * 4);
        let source = include_str!("../kernels/centers.cu");
        for constant in [
            format!("GROUP = {GROUP};"),
            format!("MOST_TRIES = {MOST_TRIES};"),
            format!("BLOCK_ROWS = {NEAREST_ROWS},"),
        ] {
            assert!(source.contains(&constant), "{constant}");
        }
    }
}
