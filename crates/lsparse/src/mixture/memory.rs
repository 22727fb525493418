//! What training a mixture takes of memory, by and large, so that what cannot fit is refused before it is begun.

use crate::clusters::seed::{sample_size, starts_by_contest};
use crate::clusters::working_element;
use crate::data::{Element, Moments, RowSource, Scalar};
use crate::error::Result;
use crate::likelihood::{Extent, LikelihoodKind, Prior};
use crate::mixture::{MOST_STRETCHES, stretch_rows};
use crate::settings::MixtureConfig;
use crate::store::checkpoint::Storage;
use crate::system::{OF_A_TRAINING, check_room};
use crate::training::schedule::ScheduleKind;

/// Bytes that training takes at most at one time, by what they are for, besides what the process has already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryNeed {
    /// Statistics: the total, what is at work, and what is remembered of batches in memory.
    pub statistics: u64,
    /// Clusters, those that are and those that take their place, and factoring them.
    pub clusters: u64,
    /// Rows that are held: those to start from, and those at work.
    pub rows: u64,
    /// What belongs to such rows besides their values, and what is there whatever is trained.
    pub besides: u64,
}

impl MemoryNeed {
    /// All of it.
    pub fn total(&self) -> u64 {
        self.statistics.saturating_add(self.clusters).saturating_add(self.rows).saturating_add(self.besides)
    }
}

/// Statistics that are there besides those remembered of batches: the total, what it began as, those being summed, and
/// those whose memory is free.
const OTHER_STATISTICS: u64 = 4;

/// Matrices that a thread factors side by side.
const SIDE_BY_SIDE: u64 = 8;

/// Bytes of a row to start from besides its values: its clusters and how far it is from them, as measured.
const OF_A_START_ROW: u64 = 320;

/// Bytes of a row at work besides its values, and for each cluster that it keeps: its responsibilities, the rows that a
/// cluster has, what it remembers, as measured.
const OF_A_ROW: u64 = 64;
const OF_A_KEPT_CLUSTER: u64 = 72;

/// What training with checked settings takes of memory.
pub fn memory_needed(source: &dyn RowSource, config: &MixtureConfig, storage: &Storage) -> MemoryNeed {
    match working_element(config.precision, source) {
        Element::F32 => needed::<f32>(source, config, storage),
        Element::F64 => needed::<f64>(source, config, storage),
    }
}

fn needed<T: Scalar>(source: &dyn RowSource, config: &MixtureConfig, storage: &Storage) -> MemoryNeed {
    let (dim, clusters, number) = (source.dim(), config.clusters, size_of::<T>() as u64);
    let family = config.likelihood.family();
    let likelihood = config.likelihood.build::<T>(&Prior::for_data(config, &Moments::unknown(dim)));
    let product = |factors: &[usize]| factors.iter().fold(1u64, |all, &factor| all.saturating_mul(factor as u64));
    let width = product(&[clusters, likelihood.stat_width()]).saturating_add(likelihood.shared_width() as u64);
    let statistics = width.saturating_mul(8);
    let remembered = match config.schedule {
        ScheduleKind::Full | ScheduleKind::Memoized => statistics.saturating_mul(config.batches.unwrap_or(1) as u64),
        ScheduleKind::Stochastic | ScheduleKind::Streaming => 0,
    };
    let remembered = remembered.min(storage.memo_memory.unwrap_or(u64::MAX));
    // Clusters hold their arrays in double precision and, for weighing rows, in that of the rows; new ones are made while
    // the old ones are there, and starts that compete are saved and read again to be judged.
    let copies = if starts_by_contest(config) { 3 } else { 2 };
    let extent = Extent { clusters, dim, missing: config.missing };
    let shapes = config.likelihood.arrays(config.estimate).map(|array| (array.shape)(&extent));
    let (mut held, mut matrix) = (0u64, 0);
    for shape in shapes {
        held = held.saturating_add(product(&shape));
        if shape.ends_with(&[dim, dim]) && dim > 1 {
            matrix = product(&[dim, dim]);
        }
    }
    let groups = (clusters as u64).div_ceil(SIDE_BY_SIDE).min(rayon::current_num_threads() as u64);
    let factoring = matrix.saturating_mul(8 * SIDE_BY_SIDE).saturating_mul(groups);
    // Rows in full, or as many entries as they have.
    let row = match family.wants_sparse_rows && source.is_sparse() {
        true => 0,
        false => dim as u64 * number,
    };
    let sample = sample_size(config, likelihood.as_ref()).min(source.num_rows()) as u64;
    // Two panels that are worked on, and two that are read.
    let batch = source.num_rows().div_ceil(config.batches.unwrap_or(1).max(1)) as u64;
    let panel = ((MOST_STRETCHES * stretch_rows::<T>(dim)) as u64).min(batch);
    let at_work = 4 * panel;
    let kept = config.sparsity.within(clusters) as u64;
    let of_panels = 2 * panel * (OF_A_ROW + kept.saturating_mul(OF_A_KEPT_CLUSTER));
    MemoryNeed {
        statistics: statistics.saturating_mul(OTHER_STATISTICS).saturating_add(remembered),
        clusters: held.saturating_mul(copies * (8 + number)).saturating_add(factoring),
        rows: row.saturating_mul(sample.max(at_work)),
        besides: of_panels.saturating_add(sample * OF_A_START_ROW).saturating_add(OF_A_TRAINING),
    }
}

/// Refuse a training that cannot fit into memory.
pub(super) fn check_memory(source: &dyn RowSource, config: &MixtureConfig, storage: &Storage) -> Result<()> {
    let need = memory_needed(source, config, storage);
    let (name, clusters) = (config.likelihood.name(), config.clusters);
    let what = || format!("training {clusters} clusters of {name} on {} columns", source.dim());
    let remedy = || {
        let mut remedies = Vec::new();
        let without_memos = MixtureConfig { schedule: ScheduleKind::Streaming, ..config.clone() };
        if storage.memo_memory.is_none() && memory_needed(source, &without_memos, storage).total() < need.total() / 2 {
            remedies.push("keep less of what batches gave in memory (`memo-memory`)".to_owned());
        }
        if source.is_sparse() && !config.likelihood.family().wants_sparse_rows {
            remedies.push("choose `likelihood multinomial` for counts of words, or topics".to_owned());
        }
        let diagonal = MixtureConfig { likelihood: LikelihoodKind::DiagGauss, ..config.clone() };
        if config.likelihood.family().spread.is_of_variances()
            && memory_needed(source, &diagonal, storage).total() < need.total() / 2
        {
            remedies.push("choose `likelihood diag-gauss or spherical-gauss`".to_owned());
        }
        remedies.push("ask for fewer clusters".to_owned());
        remedies.push("give fewer columns".to_owned());
        remedies.join(", or ")
    };
    check_room(need.total(), what, remedy)
}
