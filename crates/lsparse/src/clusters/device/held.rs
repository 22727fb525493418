//! A sample of rows that lies on a GPU, for the steps of training that starts are compared by.

use std::sync::{Arc, Mutex, PoisonError};

use lsparse_cuda::mixture::{Rows as DeviceRows, Work};

use super::judge::trouble;
use super::{add_shared, form_of, sample, stage, take_statistics, whitening};
use crate::backend::{CPU, Place, Trouble};
use crate::clusters::{Design, Designed};
use crate::data::{Rows, Scalar};
use crate::error::Result;
use crate::likelihood::{ClusterSummary, Likelihood};

/// Where starts are worked out, and the point that columns are about there, which has no say in results.
#[derive(Clone, Copy)]
pub(crate) struct Gpu<'a> {
    pub place: &'a Place,
    pub center: &'a [f64],
}

impl Gpu<'_> {
    /// None: the CPU does all of it.
    pub const NONE: Gpu<'static> = Gpu { place: &CPU, center: &[] };
}

/// Rows of a sample on a GPU, and what is worked with.
pub(crate) struct HeldSample<T> {
    /// None once memory did not suffice.
    held: Mutex<Option<Held<T>>>,
}

struct Held<T> {
    work: Work,
    rows: DeviceRows<T>,
    /// Some rows about the center, where clusters turn rows.
    some: Vec<f64>,
    /// The statistics that do not depend on which clusters rows belong to.
    shared: Vec<f64>,
}

impl<T: Scalar> HeldSample<T> {
    /// Bring rows there, with their weights if they have any; none where there is no GPU for such clusters, or no memory.
    pub fn new(
        gpu: Gpu<'_>,
        likelihood: &dyn Likelihood<T>,
        rows: &Rows<T>,
        weights: &[f64],
    ) -> Result<Option<HeldSample<T>>> {
        let Some(device) = gpu.place.device.as_ref().filter(|_| form_of(likelihood.kind()).is_some()) else {
            return Ok(None);
        };
        let Rows::Dense { values, .. } = rows else { return Ok(None) };
        let bring = || -> std::result::Result<Held<T>, Trouble> {
            let work = Work::new(Arc::clone(device), &whitening(likelihood.kind(), values, gpu.center))?;
            let mut held = work.rows(rows.len(), (!weights.is_empty()).then_some(weights))?;
            work.put(&mut held, 0, values)?;
            work.whiten(&mut held)?;
            let mut shared = vec![0.0; likelihood.shared_width()];
            add_shared(likelihood, rows, weights, &mut shared);
            Ok(Held { work, rows: held, some: sample(values, gpu.center), shared })
        };
        Ok(Trouble::settle(bring())?.map(|held| HeldSample { held: Mutex::new(Some(held)) }))
    }

    /// The statistics of the sample under these clusters, with the entropy of responsibilities; none where memory did not
    /// suffice.
    pub fn step(&self, design: &Design<'_, T>, params: &Designed<T>) -> Result<Option<ClusterSummary>> {
        let mut place = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(held) = place.as_mut() else { return Ok(None) };
        let found = Trouble::settle(held.step(design, params))?;
        if found.is_none() {
            *place = None;
        }
        Ok(found)
    }
}

impl<T: Scalar> Held<T> {
    fn step(&mut self, design: &Design<'_, T>, params: &Designed<T>) -> std::result::Result<ClusterSummary, Trouble> {
        let Held { work, rows, some, shared } = self;
        let log_pi = &params.frequencies.log_pi;
        stage(work, params.clusters.as_ref(), some, |k, constant| constant + log_pi[k])?;
        work.set_clusters()?;
        let found = work.summarize(rows, design.sparsity, T::EPSILON / 2.0).map_err(trouble)?;
        let mut summary = design.likelihood.no_statistics(design.num_clusters);
        take_statistics(design.likelihood, work.sums()?, shared, &mut summary);
        summary.entropy = found.entropy;
        Ok(summary)
    }
}
