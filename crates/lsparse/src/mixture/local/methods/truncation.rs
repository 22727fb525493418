//! Expectation truncation (Luecke and Eggert 2010): a selection function chooses a row's clusters before any weight is
//! computed; responsibilities are normalised over those alone.

use std::sync::Arc;

use lsparse_kernels::Real;
use rayon::prelude::*;

use crate::data::{Batch, RowRef, Rows, Scalar};
use crate::error::{Error, Result};
use crate::likelihood::NamedArray;
use crate::mixture::local::methods::add_panel;
use crate::mixture::local::search::{Pairs, SearchBuffers};
use crate::mixture::{LocalStep, Mixture, MixtureParams, MixtureWorker, RowMemory, VisitedRows};
use crate::settings::BuiltInSelection;
use crate::training::model::Visited;
use crate::training::responsibilities::Responsibilities;

/// The score of every cluster, by which the largest are chosen.
fn scores_of(by: BuiltInSelection, about: &Selecting<'_>, out: &mut Vec<f64>) {
    let name = if by == BuiltInSelection::Means { "means" } else { "probabilities" };
    let Some(array) = about.arrays.iter().find(|a| a.name == name) else { return };
    let dim = array.shape[1];
    out.clear();
    out.extend(array.values.chunks_exact(dim).map(|center| match (by, &about.values) {
        (BuiltInSelection::Means, RowValues::Dense(x)) => {
            -x.iter().zip(center).map(|(x, c)| (x - c).powi(2)).sum::<f64>()
        }
        (_, RowValues::Dense(x)) => x.iter().zip(center).map(|(x, p)| x * p).sum(),
        (_, RowValues::Sparse(index, x)) => index.iter().zip(*x).map(|(&i, x)| x * center[i as usize]).sum(),
    }));
}

/// The values of a row.
#[derive(Clone, Copy, Debug)]
pub enum RowValues<'a> {
    /// All of them.
    Dense(&'a [f64]),
    /// Columns and values of those that are not zero.
    Sparse(&'a [u32], &'a [f64]),
}

/// What a selection function may look at.
pub struct Selecting<'a> {
    /// The row's number in the source.
    pub row: usize,
    /// Its values.
    pub values: RowValues<'a>,
    /// Point estimates of the clusters by name, as model files hold them.
    pub arrays: &'a [NamedArray],
    /// pi_k.
    pub frequencies: &'a [f64],
    /// How many clusters a row keeps at most: more are cut off at the end.
    pub most: usize,
}

/// A selection function: pushes the clusters that a row may belong to, each once. A row without any is an error.
pub type Select = dyn Fn(&Selecting<'_>, &mut Vec<u32>) + Sync + Send;

/// Training by truncation.
pub enum Truncation {
    /// By a function that is here.
    BuiltIn(BuiltInSelection),
    /// By somebody's own.
    Given(Arc<Select>),
}

/// Rows of a parallel task.
const ROWS_A_TASK: usize = 64;

impl Truncation {
    /// The candidates of every row of a panel.
    fn choose<T: Scalar>(
        &self,
        params: &MixtureParams<T>,
        (rows, row_ids): (&Rows<T>, &[usize]),
        most: usize,
        pairs: &mut Pairs<T>,
    ) -> Result<()> {
        let arrays = params.clusters.arrays();
        let num = params.frequencies.pi.len();
        pairs.reset(0..rows.len(), most);
        let tasks = pairs.cluster.par_chunks_mut(most * ROWS_A_TASK).enumerate();
        let results: Vec<Result<()>> = tasks
            .map(|(task, out)| {
                let (mut values, mut chosen, mut scores) = (Vec::new(), Vec::new(), Vec::new());
                for (i, out) in out.chunks_exact_mut(most).enumerate() {
                    let n = task * ROWS_A_TASK + i;
                    values.clear();
                    let values = match rows.row(n) {
                        RowRef::Dense(x) => {
                            values.extend(x.iter().map(|x| x.to_f64()));
                            RowValues::Dense(&values)
                        }
                        RowRef::Sparse(index, x) => {
                            values.extend(x.iter().map(|x| x.to_f64()));
                            RowValues::Sparse(index, &values)
                        }
                    };
                    let frequencies = &params.frequencies.pi;
                    let about = Selecting { row: row_ids[n], values, arrays: &arrays, frequencies, most };
                    chosen.clear();
                    match self {
                        Truncation::Given(select) => select(&about, &mut chosen),
                        Truncation::BuiltIn(selection) => {
                            scores_of(*selection, &about, &mut scores);
                            chosen.extend(0..num as u32);
                            let by_score =
                                |&a: &u32, &b: &u32| scores[b as usize].total_cmp(&scores[a as usize]).then(a.cmp(&b));
                            if most < num {
                                chosen.select_nth_unstable_by(most - 1, by_score);
                            }
                        }
                    }
                    chosen.truncate(most);
                    chosen.sort_unstable();
                    let twice = chosen.windows(2).any(|pair| pair[0] == pair[1]);
                    if chosen.is_empty() || twice || chosen.last().is_some_and(|&k| k as usize >= num) {
                        let problem = format!("row {} was given clusters {chosen:?} of {num}", row_ids[n] + 1);
                        let remedy = "make it choose at least one cluster, each once".into();
                        return Err(Error::Config { setting: "selection-function", problem, remedy });
                    }
                    out[..chosen.len()].copy_from_slice(&chosen);
                }
                Ok(())
            })
            .collect();
        results.into_iter().collect::<Result<Vec<()>>>().map(|_| ())
    }
}

impl<T: Scalar> LocalStep<T> for Truncation {
    fn local(
        &self,
        mixture: &Mixture<T>,
        params: &MixtureParams<T>,
        batch: &Batch<'_>,
        _memory: &RowMemory,
        worker: &mut MixtureWorker<T>,
    ) -> Result<VisitedRows<T>> {
        let mut summary = mixture.likelihood.no_statistics(mixture.num_clusters);
        let log_pi: Vec<T> = params.frequencies.log_pi.iter().map(|&v| T::from_f64(v)).collect();
        let MixtureWorker { panels, buffers, .. } = worker;
        let pairs = SearchBuffers::pairs(buffers);
        mixture.for_each_panel(batch, panels, |panel| {
            self.choose(params, (&panel.rows, &panel.row_ids), mixture.sparsity, pairs)?;
            pairs.weigh(params.clusters.as_ref(), &log_pi, &panel.rows);
            let ones = vec![1.0; panel.rows.len()];
            let entropy = normalise(pairs, mixture.sparsity, &ones, &mut panel.resp)?;
            add_panel(mixture, panel, &entropy, &mut summary);
            Ok(())
        })?;
        Ok(Visited::only(summary))
    }
}

/// Responsibilities over each row's candidates that sum to its `mass`; returns -sum r log r of each row.
pub fn normalise<T: Real>(
    pairs: &Pairs<T>,
    places: usize,
    mass: &[f64],
    out: &mut Responsibilities<T>,
) -> Result<Vec<f64>> {
    out.resize(mass.len(), places);
    let mut weights = Vec::new();
    let mut entropy = Vec::with_capacity(mass.len());
    for (n, &mass) in mass.iter().enumerate() {
        let clusters = pairs.weights_of(n, &mut weights);
        if let Some(at) = weights.iter().position(|w| w.is_nan()) {
            return Err(Error::NanWeight { row: n, cluster: clusters[at] as usize });
        }
        let norm = lsparse_kernels::log_sum_exp(&weights);
        if !norm.is_finite() {
            return Err(Error::RowOutOfRange { row: n });
        }
        let mut sum = 0.0;
        for (i, (&k, &w)) in clusters.iter().zip(&weights).enumerate() {
            let log_share = w.to_f64() - norm;
            let r = mass * log_share.exp();
            (out.index[n * places + i], out.value[n * places + i]) = (k, T::from_f64(r));
            if r > 0.0 {
                // log r = log mass + log share
                sum -= r * (mass.ln() + log_share);
            }
        }
        entropy.push(sum);
    }
    Ok(entropy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::likelihood::LikelihoodKind;

    #[test]
    fn selections_fit_families() {
        use BuiltInSelection::{Auto, Means, Products};
        assert_eq!(Auto.settle(LikelihoodKind::Gauss).unwrap(), Means);
        assert_eq!(Products.settle(LikelihoodKind::Bernoulli).unwrap(), Products);
        assert!(
            Means.settle(LikelihoodKind::Multinomial).is_err() && Auto.settle(LikelihoodKind::ZeroMeanGauss).is_err()
        );
    }
}
