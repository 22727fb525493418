//! Scores of rows and the clusters that they keep, on a GPU; panel by panel, as rows are read once.

use std::sync::Arc;

use lsparse_cuda::mixture::{Densities, Failure, Rows as DeviceRows, Work};
use rayon::prelude::*;

use super::form::{sample, stage, whitening};
use super::not_dense;
use crate::backend::{Place, Trouble};
use crate::data::{Rows, Scalar};
use crate::error::{Error, Result};
use crate::likelihood::{Clusters, LikelihoodKind, Predictive, log_density, respond};
use crate::training::responsibilities::Responsibilities;

/// Rows that come to the GPU together, at most.
pub const JUDGED_ROWS: usize = 65_536;

/// What weighs rows under clusters that stay as they are: a GPU, or the CPU where there is none or it has no memory left.
pub struct Judge<'a, T: Scalar> {
    place: &'a Place,
    kind: LikelihoodKind,
    center: &'a [f64],
    clusters: &'a dyn Clusters<T>,
    log_pi: &'a [f64],
    /// What is on the GPU.
    held: Option<Work>,
    /// Whether it had no memory.
    gave_up: bool,
}

impl<'a, T: Scalar> Judge<'a, T> {
    /// Judge by these clusters and frequencies. Columns are about the `center`, which has no say in results.
    pub fn new(
        place: &'a Place,
        (kind, center): (LikelihoodKind, &'a [f64]),
        clusters: &'a dyn Clusters<T>,
        log_pi: &'a [f64],
    ) -> Self {
        Judge { place, kind, center, clusters, log_pi, held: None, gave_up: false }
    }

    /// log sum_k pi_k p(x_n | cluster k) of every row, as [`log_density`] has it.
    pub fn log_density(&mut self, rows: &Rows<T>) -> Result<Vec<f64>> {
        match self.on_device(rows, |judge, values| judge.score(values))? {
            Some(densities) => Ok(densities),
            None => log_density(self.clusters, self.log_pi, rows),
        }
    }

    /// Responsibilities of every row, as [`respond`] has them.
    pub fn respond(&mut self, rows: &Rows<T>, sparsity: usize, out: &mut Responsibilities<T>) -> Result<()> {
        match self.on_device(rows, |judge, values| judge.assign(values, sparsity, &mut *out))? {
            Some(()) => Ok(()),
            None => respond(self.clusters, self.log_pi, rows, sparsity, out).map(|_| ()),
        }
    }

    /// Do something with rows on the GPU; none where there is no GPU, or no memory.
    fn on_device<R>(
        &mut self,
        rows: &Rows<T>,
        work: impl FnOnce(&mut Self, &[T]) -> std::result::Result<R, Trouble>,
    ) -> Result<Option<R>> {
        if self.place.device.is_none() || self.gave_up || rows.is_empty() {
            return Ok(None);
        }
        let Rows::Dense { values, .. } = rows else { return Err(not_dense()) };
        let found = Trouble::settle(work(self, values))?;
        if found.is_none() {
            self.held = None;
            self.gave_up = true;
        }
        Ok(found)
    }

    /// Clusters on the GPU; they come there with the first rows.
    fn work(&mut self, values: &[T], constant: fn(f64, f64) -> f64) -> std::result::Result<&mut Work, Trouble> {
        let Some(device) = &self.place.device else { return Err(not_dense().into()) };
        if self.held.is_none() {
            let mut work = Work::new(Arc::clone(device), &whitening(self.kind, values, self.center))?;
            let log_pi = self.log_pi;
            stage(&mut work, self.clusters, &sample(values, self.center), |k, own| constant(own, log_pi[k]))?;
            work.set_clusters()?;
            self.held = Some(work);
        }
        self.held.as_mut().ok_or_else(|| not_dense().into())
    }

    fn score(&mut self, values: &[T]) -> std::result::Result<Vec<f64>, Trouble> {
        let (clusters, log_pi) = (self.clusters, self.log_pi);
        let dim = self.center.len();
        // Constants come with the densities.
        let work = self.work(values, |_, _| 0.0)?;
        let rows = bring(work, values, dim)?;
        let with_frequencies =
            |constants: &[f64]| -> Vec<f64> { constants.iter().zip(log_pi).map(|(c, log_pi)| c + log_pi).collect() };
        let found = match clusters.predictive() {
            Some(Predictive::Forms { constants, powers, rates }) => {
                let constants = &with_frequencies(&constants);
                work.log_densities(&rows, &Densities::Student { constants, powers: &powers, rates: &rates })
            }
            Some(Predictive::Columns { constants, powers, rates, means }) => {
                let constants = &with_frequencies(constants);
                let (rates, means) = (&by_column(rates, dim), &by_column(means, dim));
                work.log_densities(&rows, &Densities::Columns { constants, powers, rates, means })
            }
            None => {
                let own: Vec<f64> = (0..log_pi.len()).map(|k| constant_of(clusters, k)).collect();
                work.log_densities(&rows, &Densities::Normal { constants: &with_frequencies(&own) })
            }
        };
        found.map_err(trouble)
    }

    fn assign(
        &mut self,
        values: &[T],
        sparsity: usize,
        out: &mut Responsibilities<T>,
    ) -> std::result::Result<(), Trouble> {
        let dim = self.center.len();
        assign_rows(self.work(values, |own, log_pi| own + log_pi)?, values, (dim, sparsity), out)
    }
}

/// Responsibilities of rows under the clusters that are on the GPU, the largest first; the rows do not stay there.
pub fn assign_rows<T: Scalar>(
    work: &mut Work,
    values: &[T],
    (dim, sparsity): (usize, usize),
    out: &mut Responsibilities<T>,
) -> std::result::Result<(), Trouble> {
    let mut rows = bring(work, values, dim)?;
    work.whiten(&mut rows)?;
    let (mut index, mut shares) = (Vec::new(), Vec::new());
    work.assign(&rows, sparsity, &mut index, &mut shares).map_err(trouble)?;
    out.resize(rows.len(), sparsity);
    let places = out.index.par_chunks_exact_mut(sparsity).zip(out.value.par_chunks_exact_mut(sparsity));
    let found = index.par_chunks_exact(sparsity).zip(shares.par_chunks_exact(sparsity));
    places.zip(found).with_min_len(ROWS_A_TASK).for_each_init(Vec::new, |order, ((to_index, to_value), found)| {
        let (index, shares) = found;
        // The largest first, of equal ones the first cluster.
        order.clear();
        order.extend(0..sparsity);
        order.sort_by(|&a: &usize, &b: &usize| shares[b].total_cmp(&shares[a]));
        for (place, &from) in order.iter().enumerate() {
            (to_index[place], to_value[place]) = (index[from], T::from_f64(shares[from]));
        }
    });
    Ok(())
}

/// Rows of a task that puts the clusters of each in order.
const ROWS_A_TASK: usize = 1024;

fn bring<T: Scalar>(work: &Work, values: &[T], dim: usize) -> lsparse_cuda::Result<DeviceRows<T>> {
    let mut rows = work.rows(values.len() / dim.max(1), None)?;
    work.put(&mut rows, 0, values)?;
    Ok(rows)
}

/// What went wrong, with the row as it is numbered there.
pub(super) fn trouble(failure: Failure) -> Trouble {
    match failure {
        Failure::NotANumber { row } => Error::NanWeight { row, cluster: 0 }.into(),
        Failure::Gpu(error) => Trouble::Device(error),
    }
}

/// The constant of a cluster's form.
fn constant_of<T: Scalar>(clusters: &dyn Clusters<T>, k: usize) -> f64 {
    let shared = clusters.shared_form().map(|shared| shared.constants[k]);
    let own =
        || clusters.quadratic(k).map(|form| form.constant).or_else(|| clusters.diagonal(k).map(|form| form.constant));
    shared.or_else(own).map_or(0.0, |constant| constant.to_f64())
}

/// Numbers of clusters and columns, those of a column one behind the other.
fn by_column(values: &[f64], dim: usize) -> Vec<f64> {
    let num = values.len() / dim.max(1);
    (0..values.len()).map(|i| values[i % num * dim + i / num]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_come_one_behind_the_other() {
        assert_eq!(by_column(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 3), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    }
}
