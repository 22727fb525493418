//! Densities of rows on a GPU, and the clusters that they keep.

use std::ops::Range;
use std::sync::Arc;

use super::work::{Choice, Room, Work};
use super::{Element, Failure, Rows, int};
use crate::device::{Grid, launch};
use crate::error::Result;

/// log p_k(x) of the clusters that were staged, with constants of zero; those here have log pi_k in them. For
/// [`Columns`](Densities::Columns) nothing need be staged.
pub enum Densities<'a> {
    /// constant_k - q/2, with the quadratic form q.
    Normal {
        /// One a cluster.
        constants: &'a [f64],
    },
    /// constant_k - power_k log(1 + rate_k q).
    Student {
        /// One a cluster.
        constants: &'a [f64],
        /// One a cluster.
        powers: &'a [f64],
        /// One a cluster.
        rates: &'a [f64],
    },
    /// constant_k - power_k sum_d log(1 + rate_kd (x_d - m_kd)^2).
    Columns {
        /// One a cluster.
        constants: &'a [f64],
        /// One a cluster.
        powers: &'a [f64],
        /// One a column and cluster, those of a column one behind the other.
        rates: &'a [f64],
        /// The same of the means.
        means: &'a [f64],
    },
}

impl Work {
    /// log sum_k p_k(x) of every row. A row with a weight that is no number is a [`Failure`].
    pub fn log_densities<T: Element>(
        &mut self,
        rows: &Rows<T>,
        densities: &Densities<'_>,
    ) -> std::result::Result<Vec<f64>, Failure> {
        self.take_densities(densities)?;
        let mut all = Vec::with_capacity(rows.num);
        let mut first = 0;
        while first < rows.num {
            let last = (first + self.dense_panel()).min(rows.num);
            all.extend(self.score_panel(rows, &(first..last), densities)?);
            first = last;
        }
        match all.iter().position(|density| density.is_nan()) {
            Some(row) => Err(Failure::NotANumber { row }),
            None => Ok(all),
        }
    }

    /// Bring what densities are made of to the GPU.
    fn take_densities(&mut self, densities: &Densities<'_>) -> Result<()> {
        let device = Arc::clone(&self.device);
        let Room { peaks, centres, powers, rates, .. } = &mut self.room;
        let (of_constants, of_powers, of_rates) = match *densities {
            Densities::Normal { constants } => (constants, &[][..], &[][..]),
            Densities::Student { constants, powers, rates } => (constants, powers, rates),
            Densities::Columns { constants, powers, rates, means: of_means } => {
                self.num_clusters = constants.len();
                device.upload_into(of_means, centres.room(&device, of_means.len())?, 0)?;
                (constants, powers, rates)
            }
        };
        device.upload_into(of_constants, peaks.room(&device, of_constants.len())?, 0)?;
        device.upload_into(of_powers, powers.room(&device, of_powers.len())?, 0)?;
        device.upload_into(of_rates, rates.room(&device, of_rates.len())?, 0)
    }

    fn score_panel<T: Element>(
        &mut self,
        rows: &Rows<T>,
        range: &Range<usize>,
        densities: &Densities<'_>,
    ) -> Result<Vec<f64>> {
        let device = Arc::clone(&self.device);
        let (num, num_clusters) = (range.len(), self.num_clusters);
        let (many, k, d) = (int(num), int(num_clusters), int(self.dim));
        let of_columns = matches!(densities, Densities::Columns { .. });
        if of_columns {
            let kernel = self.kernel(&format!("log_columns_{}", T::SUFFIX), 0)?;
            let grid = Grid { blocks: num.div_ceil(8), threads: 128, shared: 0 };
            let x = rows.values.part(range.start * self.dim..range.end * self.dim)?;
            let Room { centres, peaks, powers, rates, values, .. } = &mut self.room;
            let (m, c, p, r) = (centres.get()?, peaks.get()?, powers.get()?, rates.get()?);
            let w = values.room(&device, num * num_clusters)?;
            // Safe: `many` rows of `d` columns, means and rates of as many and `k` clusters, and a value for each pair.
            unsafe { launch!(device, &kernel, grid, &x, &many, &d, &k, m, r, c, p, w)? };
        } else {
            let pairs = self.find_pairs(rows, range, Choice { sparsity: num_clusters, screened: false })?;
            self.weigh_pairs(rows, range, pairs, false)?;
        }
        let kernel = self.kernel("log_sums", 0)?;
        let grid = Grid { blocks: num.div_ceil(8), threads: 256, shared: 0 };
        let Room { peaks, powers, rates, values, densities: out, .. } = &mut self.room;
        let student = matches!(densities, Densities::Student { .. });
        let c = (!of_columns).then(|| peaks.get()).transpose()?;
        let p = student.then(|| powers.get()).transpose()?;
        let r = student.then(|| rates.get()).transpose()?;
        let (w, out) = (values.get_mut()?, out.room(&device, num)?);
        // Safe: `k` values a row, one density a row, and what there is of clusters is one each.
        unsafe { launch!(device, &kernel, grid, w, &many, &k, c, p, r, &mut *out)? };
        device.download(out, num)
    }

    /// The clusters that each row keeps and their responsibilities, `sparsity` of each in the order of clusters, row by row
    /// behind what is there already.
    pub fn assign<T: Element>(
        &mut self,
        rows: &Rows<T>,
        sparsity: usize,
        index: &mut Vec<u32>,
        shares: &mut Vec<f64>,
    ) -> std::result::Result<(), Failure> {
        self.begin_choices()?;
        self.choose_all(rows, sparsity, |work, range, _| {
            let device = Arc::clone(&work.device);
            let kernel = work.kernel("take_kept", 0)?;
            let (num, l) = (range.len(), int(sparsity));
            let (grid, many) = (Grid { blocks: num.div_ceil(8), threads: 256, shared: 0 }, int(num));
            let Room { values, cluster_of, starts, index: kept, shares: of_kept, .. } = &mut work.room;
            let (w, clusters, starts) = (values.get()?, cluster_of.get()?, starts.get()?);
            let (kept, of_kept) = (kept.room(&device, num * sparsity)?, of_kept.room(&device, num * sparsity)?);
            // Safe: `starts` are those of the rows, whose values and clusters are there, and each has room for `l` of them.
            unsafe { launch!(device, &kernel, grid, w, clusters, starts, &many, &l, &mut *kept, &mut *of_kept)? };
            index.extend(device.download(kept, num * sparsity)?);
            shares.extend(device.download(of_kept, num * sparsity)?);
            Ok(())
        })?;
        self.end_choices().map(|_| ())
    }
}
