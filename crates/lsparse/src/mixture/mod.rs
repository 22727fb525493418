//! Finite mixtures: frequencies over any likelihood, with the local step, the objective, training and saved models.

mod frequencies;
mod local;
pub mod methods;
mod sample;
mod saved;
mod search;
mod train;
mod update;

use lsparse_kernels::Real;

use crate::data::{Ahead, Batches, Layout, RowSource, Rows, Scalar};
use crate::error::{Error, Result};
use crate::likelihood::{Clusters, Estimate, Likelihood, LikelihoodKind};
use crate::model::{Model, Objective};
use crate::responsibilities::Responsibilities;
use crate::summary::ClusterSummary;
use search::Memory;

pub use frequencies::{Frequencies, allocation_term};
use local::accumulate_onto;
pub use local::{Members, accumulate, log_density, respond, respond_dense};
pub use methods::MixtureMethod;
pub use sample::DrawnRows;
pub use saved::{MixtureModel, RowScores};
pub use search::{Remembered, Search, SearchKind};
pub use train::{Fitted, Surroundings, fit_mixture, fit_mixture_with};

/// A mixture model over rows of type `T`: a likelihood, how to estimate it, and how many clusters a row keeps.
pub struct Mixture<T: Real> {
    /// The family of the clusters, with its prior.
    pub likelihood: Box<dyn Likelihood<T>>,
    /// Posterior, MAP or maximum likelihood.
    pub estimate: Estimate,
    /// Concentration of the frequencies: pi ~ Dirichlet(alpha/K).
    pub alpha: f64,
    /// K.
    pub num_clusters: usize,
    /// L that a run starts with.
    pub sparsity: usize,
    /// How the L clusters of a row are found; remembers what rows kept, so it belongs to one run at a time.
    pub search: Search<T>,
}

/// Global parameters of a mixture.
pub struct MixtureParams<T: Real> {
    /// q(pi) or its point estimate.
    pub frequencies: Frequencies,
    /// The clusters.
    pub clusters: Box<dyn Clusters<T>>,
}

/// The rows of a mixture, dealt into batches.
pub struct MixtureData<'a> {
    /// Where rows come from.
    pub source: &'a dyn RowSource,
    /// How they are dealt.
    pub batches: Batches,
    /// One weight a row of the source, or none at all.
    pub row_weights: Option<&'a [f64]>,
}

impl<'a> MixtureData<'a> {
    /// Every row once, in the order of the source, as one batch: for scoring and assigning.
    pub fn in_order(source: &'a dyn RowSource) -> Result<Self> {
        Ok(MixtureData { source, batches: Batches::in_order(source.num_rows(), 1)?, row_weights: None })
    }

    /// Sum of the row weights of a batch.
    fn batch_weight(&self, batch: usize) -> f64 {
        match self.row_weights {
            None => self.batches.len(batch) as f64,
            Some(weights) => self.batches.row_ids(batch).iter().map(|&n| weights[n]).sum(),
        }
    }

    /// Sum of all row weights.
    pub fn total_weight(&self) -> f64 {
        self.row_weights.map_or(self.source.num_rows() as f64, |w| w.iter().sum())
    }
}

/// Bytes of a panel of rows, the unit that is read and worked on at a time.
const PANEL_BYTES: usize = 4 << 20;

/// Rows of a panel: a rule on the row's width alone, so that results do not depend on threads or memory.
pub(crate) fn panel_rows<T>(dim: usize) -> usize {
    (PANEL_BYTES / (dim * size_of::<T>()).max(1)).clamp(512, 16_384)
}

/// A panel of rows with its buffers, kept from batch to batch.
pub struct Panel<T> {
    rows: Rows<T>,
    row_ids: Vec<usize>,
    row_weights: Vec<f64>,
    resp: Responsibilities<T>,
    members: Members<T>,
}

impl<T: Real> Panel<T> {
    fn new(layout: Layout, dim: usize) -> Self {
        Panel {
            rows: Rows::new(layout, dim),
            row_ids: Vec::new(),
            row_weights: Vec::new(),
            resp: Responsibilities::default(),
            members: Members::default(),
        }
    }
}

/// The panel that is worked on, what reads the next one meanwhile, and statistics whose memory is free: those of many
/// clusters are large, and new memory from the system costs more than summing them.
pub struct Panels<T> {
    ahead: Ahead<T>,
    panel: Panel<T>,
    spare: Option<ClusterSummary>,
}

impl<T: Scalar> Panels<T> {
    fn new(layout: Layout, dim: usize) -> Self {
        Panels { ahead: Ahead::new(layout, dim), panel: Panel::new(layout, dim), spare: None }
    }
}

/// An error that counted rows within a panel, with the row's number in the source instead.
fn with_source_row(error: Error, row_ids: &[usize]) -> Error {
    let id = |row: usize| row_ids.get(row).copied().unwrap_or(row);
    match error {
        Error::NanWeight { row, cluster } => Error::NanWeight { row: id(row), cluster },
        Error::RowOutOfRange { row } => Error::RowOutOfRange { row: id(row) },
        other => other,
    }
}

impl<T: Scalar> Mixture<T> {
    /// The layout that the likelihood wants its rows in.
    pub fn layout(&self) -> Layout {
        if self.likelihood.kind().wants_sparse_rows() { Layout::Sparse } else { Layout::Dense }
    }

    /// Run `visit` over the panels of a batch: the rows, and their numbers in the source.
    pub fn for_each_panel(
        &self,
        data: &MixtureData<'_>,
        batch: usize,
        scratch: &mut Option<Panels<T>>,
        mut visit: impl FnMut(&mut Panel<T>) -> Result<()>,
    ) -> Result<()> {
        let dim = self.likelihood.dim();
        let Panels { ahead, panel, .. } = scratch.get_or_insert_with(|| Panels::new(self.layout(), dim));
        let rows_at_once = panel_rows::<T>(dim).max(self.search.least_panel_rows());
        ahead.for_each_panel(data.source, &data.batches, batch, rows_at_once, |read| {
            std::mem::swap(&mut panel.rows, &mut read.rows);
            std::mem::swap(&mut panel.row_ids, &mut read.row_ids);
            panel.row_weights.clear();
            if let Some(weights) = data.row_weights {
                panel.row_weights.extend(panel.row_ids.iter().map(|&n| weights[n]));
            }
            visit(panel).map_err(|error| with_source_row(error, &panel.row_ids))
        })
    }

    /// Local step of the rows of a panel, and its statistics added to a summary, or put in the place of stale ones.
    fn summarize_panel(
        &self,
        params: &MixtureParams<T>,
        log_pi: &[T],
        memory: &mut Memory<T>,
        panel: &mut Panel<T>,
        (summary, stale): (&mut ClusterSummary, bool),
    ) -> Result<()> {
        let Panel { rows, row_ids, resp, .. } = panel;
        let log_pi = (&params.frequencies.log_pi[..], log_pi);
        let entropy = self.search.respond(memory, params.clusters.as_ref(), log_pi, (rows, row_ids), resp)?;
        panel.members.regroup(self.num_clusters, &panel.resp, &panel.row_weights);
        let clusters = Some(params.clusters.as_ref());
        accumulate_onto(self.likelihood.as_ref(), clusters, &panel.rows, &panel.members, summary, stale);
        summary.entropy += match panel.row_weights.is_empty() {
            true => entropy.iter().sum::<f64>(),
            false => entropy.iter().zip(&panel.row_weights).map(|(h, w)| h * w).sum(),
        };
        Ok(())
    }
}

impl<'a, T: Scalar> Model<MixtureData<'a>> for Mixture<T> {
    type Params = MixtureParams<T>;
    type Summary = ClusterSummary;
    type Scratch = Option<Panels<T>>;

    fn num_batches(&self, data: &MixtureData<'a>) -> usize {
        data.batches.num_batches()
    }

    fn batch_share(&self, data: &MixtureData<'a>, batch: usize) -> f64 {
        data.batch_weight(batch) / data.total_weight()
    }

    fn batch_len(&self, data: &MixtureData<'a>, batch: usize) -> usize {
        data.batches.len(batch)
    }

    fn summarize(
        &self,
        params: &MixtureParams<T>,
        data: &MixtureData<'a>,
        batch: usize,
        scratch: &mut Option<Panels<T>>,
    ) -> Result<ClusterSummary> {
        let width = self.likelihood.stat_width();
        let spare = scratch.as_mut().and_then(|panels| panels.spare.take());
        let spare = spare.filter(|spare| (spare.num_clusters(), spare.width) == (self.num_clusters, width));
        // A batch has a row at least, so that what is stale is cleared with its first panel.
        let mut stale = spare.is_some();
        let mut summary = match spare {
            Some(spare) => ClusterSummary { counts: vec![0.0; self.num_clusters], entropy: 0.0, ..spare },
            None => self.likelihood.no_statistics(self.num_clusters),
        };
        let log_pi: Vec<T> = params.frequencies.log_pi.iter().map(|&v| T::from_f64(v)).collect();
        let mut memory = self.search.memory();
        let num_batches = data.batches.num_batches();
        self.search.begin_batch(&mut memory, num_batches, batch, data.batches.len(batch))?;
        self.for_each_panel(data, batch, scratch, |panel| {
            let onto = (&mut summary, std::mem::take(&mut stale));
            self.summarize_panel(params, &log_pi, &mut memory, panel, onto)
        })?;
        self.search.end_batch(&mut memory, num_batches, batch)?;
        Ok(summary)
    }

    fn reuse(&self, spent: ClusterSummary, scratch: &mut Option<Panels<T>>) {
        if let Some(panels) = scratch {
            panels.spare = Some(spent);
        }
    }

    fn global_step(&self, total: &ClusterSummary, previous: Option<&MixtureParams<T>>) -> Result<MixtureParams<T>> {
        let previous = previous.map(|p| p.clusters.as_ref());
        Ok(MixtureParams {
            frequencies: Frequencies::estimate(self.estimate, self.alpha, &total.counts),
            clusters: self.likelihood.global_step(self.estimate, &total.counts, &total.stats, previous)?,
        })
    }

    fn objective(&self, params: &MixtureParams<T>, total: &ClusterSummary) -> Objective {
        Objective {
            data: params.clusters.own_data_term(),
            entropy: total.entropy,
            alloc: allocation_term(self.estimate, self.alpha, &total.counts),
        }
    }

    fn lap_report(&self, _data: &MixtureData<'a>) -> Vec<(&'static str, f64)> {
        let dim = self.likelihood.dim();
        self.search.report(match self.likelihood.kind() {
            LikelihoodKind::DiagGauss | LikelihoodKind::SphericalGauss | LikelihoodKind::TiedGauss => dim,
            _ => dim * (dim + 1) / 2,
        })
    }
}
