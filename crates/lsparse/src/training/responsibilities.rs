//! L-sparse responsibilities: exactly L (cluster, value) pairs a row, chosen as the row's L largest weights.
//!
//! Alg. 1 of `hughes2016sparse`. Dense is L = K and hard is L = 1: one type and one code path for all.

use lsparse_kernels::{Real, softmax_rows, softmax_tile, top_l, top_l_tile, transpose_tile};
use rayon::prelude::*;

use crate::error::{Error, Result};

/// Numbers of a parallel task that only writes memory.
const NUMBERS_A_TASK: usize = 1 << 15;

/// Resize a list; what it grows by is written by many threads, since memory that is fresh comes page by page.
fn resize<V: Copy + Send + Sync>(list: &mut Vec<V>, len: usize, value: V) {
    list.truncate(len);
    let more = len - list.len();
    if more < NUMBERS_A_TASK {
        list.resize(len, value);
    } else {
        list.par_extend(rayon::iter::repeat_n(value, more).with_min_len(NUMBERS_A_TASK));
    }
}

/// Responsibilities of a stretch of rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Responsibilities<T> {
    /// L, the number of clusters a row keeps.
    pub sparsity: usize,
    /// i_nl: the clusters of row n are `index[n * L..(n + 1) * L]`, largest responsibility first. (In training with
    /// L = K only the first is in its place.)
    pub index: Vec<u32>,
    /// r_nl: non-negative, summing to one in each row.
    pub value: Vec<T>,
}

impl<T: Real> Responsibilities<T> {
    /// Room for `rows` rows.
    pub fn resize(&mut self, rows: usize, sparsity: usize) {
        self.sparsity = sparsity;
        self.index.clear();
        self.index.resize(rows * sparsity, 0);
        self.value.clear();
        self.value.resize(rows * sparsity, T::ZERO);
    }

    /// The same for who fills every place: what is there before is left.
    pub fn reshape(&mut self, rows: usize, sparsity: usize) {
        self.sparsity = sparsity;
        resize(&mut self.index, rows * sparsity, 0);
        resize(&mut self.value, rows * sparsity, T::ZERO);
    }

    /// Rows held.
    pub fn len(&self) -> usize {
        self.index.len().checked_div(self.sparsity).unwrap_or(0)
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Clusters and responsibilities of one row.
    pub fn row(&self, n: usize) -> (&[u32], &[T]) {
        let of_n = n * self.sparsity..(n + 1) * self.sparsity;
        (&self.index[of_n.clone()], &self.value[of_n])
    }
}

/// TopLRespFromWeights for a tile of rows: `weights` is n x K, `index` and `value` n x L.
///
/// Ties go to the lower index. `entropy` receives -sum_l r_nl log r_nl of each row; `kept` is a buffer. A weight that
/// is NaN is an error naming row (counted from `first_row`) and cluster, and so is a row without any finite weight.
pub fn top_l_responsibilities<T: Real>(
    weights: &[T],
    num_clusters: usize,
    first_row: usize,
    index: &mut [u32],
    value: &mut [T],
    kept: &mut Vec<T>,
    entropy: &mut Vec<f64>,
) -> Result<()> {
    let rows = weights.len() / num_clusters;
    let sparsity = index.len() / rows.max(1);
    for n in 0..rows {
        let of_n = n * sparsity..(n + 1) * sparsity;
        let row = &weights[n * num_clusters..(n + 1) * num_clusters];
        top_l(row, sparsity, &mut index[of_n.clone()], &mut value[of_n])
            .map_err(|cluster| Error::NanWeight { row: first_row + n, cluster })?;
    }
    normalise_kept(sparsity, first_row, value, kept, entropy)
}

/// DenseRespFromWeights for a tile of rows, at most `T::TILE`: as [`top_l_responsibilities`] with L = K, but only the largest comes first
/// and the other clusters in no particular order, which saves sorting K weights a row.
pub fn dense_responsibilities<T: Real>(
    weights: &[T],
    num_clusters: usize,
    first_row: usize,
    index: &mut [u32],
    value: &mut [T],
    kept: &mut Vec<T>,
    entropy: &mut Vec<f64>,
) -> Result<()> {
    // Rows become lanes, so that nothing goes across a row.
    kept.resize(num_clusters * T::TILE, T::ZERO);
    transpose_tile(weights, num_clusters, kept);
    if dense_of_tile(kept, index, value, entropy) {
        return Ok(());
    }
    let row = first_row + entropy.len();
    let of_row = &weights[entropy.len() * num_clusters..(entropy.len() + 1) * num_clusters];
    Err(match of_row.iter().position(|w| w.is_nan()) {
        Some(cluster) => Error::NanWeight { row, cluster },
        None => Error::RowOutOfRange { row },
    })
}

/// The same where weights lie with rows as lanes, `tile[k * T::TILE + n]`, which it writes over. Returns whether all is well;
/// `entropy` ends before the first row that has a NaN or no finite weight.
pub(crate) fn dense_of_tile<T: Real>(
    tile: &mut [T],
    index: &mut [u32],
    value: &mut [T],
    entropy: &mut Vec<f64>,
) -> bool {
    let num_clusters = tile.len() / T::TILE;
    let rows = value.len() / num_clusters;
    let (mut top, mut found) = ([0; 64], [T::ZERO; 64]);
    const { assert!(T::TILE <= 64) };
    softmax_tile(tile, &mut top[..T::TILE], &mut found[..T::TILE]);
    entropy.clear();
    entropy.extend(found[..rows].iter().take_while(|entropy| !entropy.is_nan()).map(|entropy| entropy.to_f64()));
    if entropy.len() < rows {
        return false;
    }
    for (k, of_cluster) in tile.chunks_exact(T::TILE).enumerate() {
        for (row, &r) in value.chunks_exact_mut(num_clusters).zip(of_cluster) {
            row[k] = r;
        }
    }
    let rows = value.chunks_exact_mut(num_clusters).zip(index.chunks_exact_mut(num_clusters));
    for ((value, index), &top) in rows.zip(&top) {
        index.iter_mut().zip(0..).for_each(|(index, k)| *index = k);
        value.swap(0, top as usize);
        index.swap(0, top as usize);
    }
    true
}

/// [`top_l_responsibilities`] where weights lie with rows as lanes and `L` is one that the kernel has; the same bits.
/// Returns whether all is well: rows with a NaN, or with too few finite weights, are a matter for the other.
pub(crate) fn top_l_of_tile<T: Real>(
    tile: &[T],
    sparsity: usize,
    index: &mut [u32],
    value: &mut [T],
    kept: &mut Vec<T>,
    entropy: &mut Vec<f64>,
) -> bool {
    top_l_tile(tile, sparsity, index, value) && normalise_kept(sparsity, 0, value, kept, entropy).is_ok()
}

/// The second half of Alg. 1: `value` holds the L largest weights of each row, the largest first, and receives the
/// responsibilities; `entropy` and `kept` as above.
pub fn normalise_kept<T: Real>(
    sparsity: usize,
    first_row: usize,
    value: &mut [T],
    kept: &mut Vec<T>,
    entropy: &mut Vec<f64>,
) -> Result<()> {
    let rows = value.len().checked_div(sparsity).unwrap_or(0);
    kept.clear();
    kept.extend_from_slice(value);
    let mut log_norm = vec![T::ZERO; rows];
    softmax_rows(value, sparsity, &mut log_norm);
    entropy.clear();
    for n in 0..rows {
        let of_n = n * sparsity..(n + 1) * sparsity;
        let max = kept[n * sparsity];
        if !max.is_finite() {
            return Err(Error::RowOutOfRange { row: first_row + n });
        }
        // -sum r log r with log r = W - log_norm: no logarithm but the one of the normaliser.
        let mut total = (log_norm[n] - max).to_f64();
        for (&r, &w) in value[of_n.clone()].iter().zip(&kept[of_n]) {
            if r > T::ZERO {
                total -= r.to_f64() * (w - max).to_f64();
            }
        }
        entropy.push(total.max(0.0));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn respond(weights: &[f64], num_clusters: usize, sparsity: usize) -> Result<(Vec<u32>, Vec<f64>, Vec<f64>)> {
        let rows = weights.len() / num_clusters;
        let (mut index, mut value) = (vec![0; rows * sparsity], vec![0.0; rows * sparsity]);
        let (mut kept, mut entropy) = (Vec::new(), Vec::new());
        top_l_responsibilities(weights, num_clusters, 0, &mut index, &mut value, &mut kept, &mut entropy)?;
        Ok((index, value, entropy))
    }

    #[test]
    fn the_largest_weights_are_kept_and_normalised() {
        let (index, value, entropy) = respond(&[1.0, 3.0, 2.0, 3.0], 4, 2).unwrap();
        assert_eq!(index, [1, 3]);
        assert!((value[0] - 0.5).abs() < 1e-15 && (value[1] - 0.5).abs() < 1e-15);
        assert!((entropy[0] - std::f64::consts::LN_2).abs() < 1e-14);
    }

    #[test]
    fn dense_is_all_clusters_with_the_largest_first() {
        let weights = [1.0, 3.0, 2.0, 3.5, 0.0, -1.0, f64::NEG_INFINITY, 0.5];
        let (index, value, entropy) = respond(&weights, 4, 4).unwrap();
        let (mut dense_index, mut dense_value) = (vec![0; 8], vec![0.0; 8]);
        let (mut kept, mut dense_entropy) = (Vec::new(), Vec::new());
        let (i, v) = (&mut dense_index[..], &mut dense_value[..]);
        dense_responsibilities(&weights, 4, 0, i, v, &mut kept, &mut dense_entropy).unwrap();
        for n in 0..2 {
            assert_eq!(dense_index[4 * n], index[4 * n]);
            for l in 4 * n..4 * n + 4 {
                let at = (4 * n..4 * n + 4).find(|&at| dense_index[at] == index[l]).unwrap();
                assert!((dense_value[at] - value[l]).abs() < 1e-15);
            }
            assert!((dense_entropy[n] - entropy[n]).abs() < 1e-14);
        }
        let nan = [0.0, f64::NAN];
        let error = dense_responsibilities(&nan, 2, 5, &mut [0; 2], &mut [0.0; 2], &mut kept, &mut dense_entropy);
        assert!(matches!(error, Err(Error::NanWeight { row: 5, cluster: 1 })));
    }

    #[test]
    fn nan_names_row_and_cluster_and_a_row_without_weight_is_an_error() {
        let error = respond(&[0.0, 1.0, 0.0, f64::NAN], 2, 1).unwrap_err();
        assert!(matches!(error, Error::NanWeight { row: 1, cluster: 1 }), "{error}");
        let error = respond(&[f64::NEG_INFINITY; 2], 2, 2).unwrap_err();
        assert!(matches!(error, Error::RowOutOfRange { row: 0 }), "{error}");
        let (_, value, _) = respond(&[f64::NEG_INFINITY, 0.0], 2, 2).unwrap();
        assert_eq!(value, [1.0, 0.0]);
    }
}
