//! Log likelihoods that are a sum over a row's nonzero entries: a table with one row of K numbers for each column.

use std::ops::Range;
use std::sync::OnceLock;

use lsparse_kernels::{Real, add_table_rows};
use rayon::prelude::*;

use crate::data::Rows;

/// log F(x | phi_k) = base_k + sum over nonzero x_v of x_v `table[v][k]`.
pub struct SparseTable<T> {
    num_clusters: usize,
    base: Vec<T>,
    /// Column-major in clusters: the K entries of one data column lie side by side.
    table: Vec<T>,
    /// The same with the columns of one cluster side by side, made when a cluster is first asked for by itself.
    by_cluster: OnceLock<Vec<T>>,
}

impl<T: Real> SparseTable<T> {
    /// From one base a cluster and `entry(k, v)`.
    pub fn new(base: &[f64], dim: usize, entry: impl Fn(usize, usize) -> f64) -> Self {
        let num_clusters = base.len();
        let mut table = vec![T::ZERO; dim * num_clusters];
        for k in 0..num_clusters {
            for v in 0..dim {
                table[v * num_clusters + k] = T::from_f64(entry(k, v));
            }
        }
        let base = base.iter().map(|&b| T::from_f64(b)).collect();
        SparseTable { num_clusters, base, table, by_cluster: OnceLock::new() }
    }

    /// Add the log likelihoods of rows `range` to `weights`, K a row.
    pub fn add_log_lik(&self, rows: &Rows<T>, range: Range<usize>, weights: &mut [T]) {
        for (n, out) in range.zip(weights.chunks_exact_mut(self.num_clusters)) {
            for (w, &b) in out.iter_mut().zip(&self.base) {
                *w += b;
            }
            let (index, value) = rows.sparse_row(n);
            add_table_rows(&self.table, self.num_clusters, index, value, out);
        }
    }

    /// The log likelihoods of rows `members` under one cluster.
    pub fn log_lik_of(&self, k: usize, rows: &Rows<T>, members: &[u32], out: &mut [T]) {
        let (num, dim) = (self.num_clusters, self.table.len() / self.num_clusters.max(1));
        let by_cluster = self.by_cluster.get_or_init(|| {
            let mut turned = vec![T::ZERO; self.table.len()];
            turned.par_chunks_mut(dim.max(1)).enumerate().for_each(|(k, row)| {
                row.iter_mut().enumerate().for_each(|(v, entry)| *entry = self.table[v * num + k]);
            });
            turned
        });
        let of_k = &by_cluster[k * dim..(k + 1) * dim];
        for (&m, out) in members.iter().zip(out) {
            let (index, value) = rows.sparse_row(m as usize);
            *out = index.iter().zip(value).fold(self.base[k], |sum, (&v, &x)| sum + x * of_k[v as usize]);
        }
    }
}

/// `stat[v] += resp * x_v` over the nonzero entries of the member rows.
pub fn accumulate<T: Real>(rows: &Rows<T>, members: &[u32], resp: &[T], stat: &mut [f64]) {
    for (&m, r) in members.iter().zip(resp) {
        let (index, value) = rows.sparse_row(m as usize);
        for (&v, x) in index.iter().zip(value) {
            stat[v as usize] += r.to_f64() * x.to_f64();
        }
    }
}
