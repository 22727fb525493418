//! The nearest centre of every row, in squared Euclidean distance: what k-means and its seeding assign rows by.

use lsparse_kernels::{CenterPack, Real};
use rayon::prelude::*;

use crate::data::Rows;
use crate::error::{Error, Result};

/// Tiles of a parallel task: enough work to pay for handing it out.
const TILES_A_TASK: usize = 4;

/// Centres to compare rows with, taken about a point amid the data: distances are compared through x.c - |c|^2 / 2,
/// which far from zero would lose digits to the offset.
pub struct Centers<T> {
    pack: CenterPack<T>,
    /// The point that rows and centres are taken about.
    origin: Vec<T>,
}

impl<T: Real> Centers<T> {
    /// `centers` holds `origin.len()` numbers a centre.
    pub fn new(centers: &[f64], origin: &[f64]) -> Result<Self> {
        let dim = origin.len();
        if centers.len() / dim > CenterPack::<T>::MOST {
            let problem = format!("{} centres are more than can be told apart", centers.len() / dim);
            let remedy = format!("ask for at most {}", CenterPack::<T>::MOST);
            return Err(Error::Config { setting: "clusters", problem, remedy });
        }
        // The origin as rows will have it taken off, so that it cancels in full.
        let origin: Vec<T> = origin.iter().map(|&o| T::from_f64(o)).collect();
        let about: Vec<f64> = centers
            .chunks_exact(dim)
            .flat_map(|center| center.iter().zip(&origin).map(|(c, o)| c - o.to_f64()))
            .collect();
        Ok(Centers { pack: CenterPack::new(&about, dim), origin })
    }

    /// The number of the nearest centre of every row, of equally near ones the first.
    pub fn assign(&self, rows: &Rows<T>, owner: &mut Vec<u32>) -> Result<()> {
        let dim = self.origin.len();
        owner.resize(rows.len(), 0);
        let task = T::TILE * TILES_A_TASK;
        let results: Vec<Result<()>> = owner
            .par_chunks_mut(task)
            .enumerate()
            .map_init(
                || (vec![T::ZERO; dim * T::TILE], vec![0; T::TILE], vec![T::ZERO; T::TILE]),
                |(tile, index, score), (t, owner)| {
                    for (i, owner) in owner.chunks_mut(T::TILE).enumerate() {
                        let first = t * task + i * T::TILE;
                        lsparse_kernels::transpose_tile(rows.dense_rows(first..first + owner.len()), dim, tile);
                        for (column, &o) in tile.chunks_exact_mut(T::TILE).zip(&self.origin) {
                            column.iter_mut().for_each(|x| *x -= o);
                        }
                        self.pack.nearest(tile, index, score);
                        owner.copy_from_slice(&index[..owner.len()]);
                        if let Some(r) = owner.iter().position(|&k| k == u32::MAX) {
                            return Err(Error::RowOutOfRange { row: first + r });
                        }
                    }
                    Ok(())
                },
            )
            .collect();
        // The first error by row, whichever thread met its own first.
        results.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    /// Rows about an offset of thousands of their spread, against distances in double precision.
    #[test]
    fn centres_far_from_zero_are_told_apart() {
        let (dim, num, num_rows) = (5, 40, 1000);
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let mut draw = |n: usize| -> Vec<f32> { (0..n).map(|_| 3000.0 + rng.random_range(-1.0..1.0)).collect() };
        let (values, centers) = (draw(num_rows * dim), draw(num * dim));
        let mut rows = Rows::<f32>::dense(dim);
        values.chunks_exact(dim).for_each(|row| rows.push_dense(row));
        let centers: Vec<f64> = centers.iter().map(|&c| f64::from(c)).collect();
        let mut owner = Vec::new();
        Centers::<f32>::new(&centers, &[3000.1; 5]).unwrap().assign(&rows, &mut owner).unwrap();
        let distance = |row: &[f32], k: u32| -> f64 {
            let center = &centers[k as usize * dim..(k as usize + 1) * dim];
            row.iter().zip(center).map(|(&x, c)| (f64::from(x) - c).powi(2)).sum()
        };
        for (row, &k) in values.chunks_exact(dim).zip(&owner) {
            let best = (0..num as u32).map(|other| distance(row, other)).fold(f64::INFINITY, f64::min);
            assert!(distance(row, k) <= best + 1e-5, "{} instead of {best}", distance(row, k));
        }
    }

    #[test]
    fn rows_beyond_the_range_of_the_type_are_an_error() {
        let mut rows = Rows::<f32>::dense(1);
        [0.0f32, 1.0, 3e38].iter().for_each(|x| rows.push_dense(&[*x]));
        let centers = Centers::<f32>::new(&[2e38, -2e38], &[0.0]).unwrap();
        let error = centers.assign(&rows, &mut Vec::new()).unwrap_err();
        assert!(matches!(error, Error::RowOutOfRange { row: 0 }), "{error}");
    }
}
