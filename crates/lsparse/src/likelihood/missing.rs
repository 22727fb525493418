//! Rows with missing values, which stand in them as NaN: where they are, and what a Gaussian expects in their place.
//!
//! A cluster completes a row by what it expects given the values that are there, q(x_missing | z = k), and then weighs it
//! like any other; what the missing part may be besides is its entropy. For point estimates the weight is so that of the
//! exact marginal density, and under a posterior that of the bound's best q.

use std::borrow::Cow;
use std::ops::Range;

use lsparse_kernels::{Conditional, ConditionalPack, Real};

use super::{ClusterSummary, Estimate, Extent, LN_2PI, LikelihoodKind, NamedArray, Prior};
use crate::data::Rows;

/// A row with missing values, and their columns.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hole {
    /// Ascending, so that rows that lack the same columns lie next to each other when sorted.
    pub columns: Vec<u32>,
    /// The row, counted from the first one looked at.
    pub row: usize,
}

/// The rows of `range` that have missing values, those that lack the same columns next to each other.
pub fn holes<T: Real>(rows: &Rows<T>, range: Range<usize>) -> Vec<Hole> {
    let first = range.start;
    let mut holes: Vec<Hole> = range
        .filter(|&n| lacks_values(rows, n))
        .map(|n| {
            let values = rows.dense_rows(n..n + 1).iter().zip(0u32..);
            Hole { columns: values.filter(|(x, _)| x.is_nan()).map(|(_, d)| d).collect(), row: n - first }
        })
        .collect();
    holes.sort();
    holes
}

/// The rows `members` in their order and their holes, where some have any.
pub fn lacking<T: Real>(rows: &Rows<T>, members: &[u32]) -> Option<(Rows<T>, Vec<Hole>)> {
    members.iter().any(|&n| lacks_values(rows, n as usize)).then(|| {
        let rows = rows.gathered(members);
        let holes = holes(&rows, 0..members.len());
        (rows, holes)
    })
}

/// Whether row n has a missing value.
pub fn lacks_values<T: Real>(rows: &Rows<T>, n: usize) -> bool {
    rows.dense_rows(n..n + 1).iter().any(|x| x.is_nan())
}

/// Rows with zeros for what is missing, whose shares are added to `lost`, column by column.
pub fn zero_filled<'a>(rows: &'a [f64], shares: &[f64], dim: usize, lost: &mut [f64]) -> Cow<'a, [f64]> {
    if !rows.iter().any(|x| x.is_nan()) {
        return Cow::Borrowed(rows);
    }
    let mut filled = rows.to_vec();
    for (row, share) in filled.chunks_exact_mut(dim).zip(shares) {
        for (x, lost) in row.iter_mut().zip(&mut *lost) {
            if x.is_nan() {
                (*x, *lost) = (0.0, *lost + share);
            }
        }
    }
    Cow::Owned(filled)
}

/// The rows that have column d, from those of a cluster and those of them that lack it.
pub fn observed(count: f64, lost: f64) -> f64 {
    let observed = count - lost;
    // What is left of a column that no row has is rounding.
    if observed > 1e-12 * count { observed } else { 0.0 }
}

/// What the clusters of a group expect in the holes of some rows; to be used again.
#[derive(Debug, Default)]
pub struct Completed {
    conditional: Conditional,
    /// A row in double precision.
    row: Vec<f64>,
    /// Hole by hole and column by column, one number a cluster.
    values: Vec<f64>,
    /// log |Phi_MM| hole by hole, one number a cluster.
    log_dets: Vec<f64>,
    /// For covariances.
    work: Vec<f64>,
}

impl Completed {
    /// Complete the `holes` of rows from `first` on by the clusters of a group.
    pub fn by_group<T: Real>(
        &mut self,
        pack: &ConditionalPack,
        group: usize,
        (rows, first): (&Rows<T>, usize),
        holes: &[Hole],
    ) {
        self.values.clear();
        self.log_dets.clear();
        for alike in holes.chunk_by(|a, b| a.columns == b.columns) {
            pack.prepare(group, &alike[0].columns, &mut self.conditional);
            for hole in alike {
                self.log_dets.extend((0..ConditionalPack::WIDTH).map(|lane| self.conditional.log_det(lane)));
                self.expect(pack, group, &hole.columns, rows, first + hole.row);
            }
        }
    }

    /// Add what the clusters of a group expect in these columns of row n, for which `conditional` is prepared.
    fn expect<T: Real>(&mut self, pack: &ConditionalPack, group: usize, columns: &[u32], rows: &Rows<T>, n: usize) {
        self.row.clear();
        self.row.extend(rows.dense_rows(n..n + 1).iter().map(|x| x.to_f64()));
        let at = self.values.len();
        self.values.resize(at + columns.len() * ConditionalPack::WIDTH, 0.0);
        pack.expect(group, columns, &self.row, &mut self.conditional, &mut self.values[at..]);
    }

    /// Put what the cluster at place `lane` of the group expects into the holes of a tile.
    pub fn fill<T: Real>(&self, lane: usize, holes: &[Hole], tile: &mut [T]) {
        let mut values = self.values[lane.min(self.values.len())..].iter().step_by(ConditionalPack::WIDTH);
        for hole in holes {
            for (&d, value) in hole.columns.iter().zip(&mut values) {
                tile[d as usize * T::TILE + hole.row] = T::from_f64(*value);
            }
        }
    }

    /// log |Phi_MM| of each hole for the cluster at place `lane`.
    pub fn log_dets(&self, lane: usize) -> impl Iterator<Item = f64> + '_ {
        self.log_dets[lane.min(self.log_dets.len())..].iter().step_by(ConditionalPack::WIDTH).copied()
    }

    /// Rows that lack the same columns, each with its share, completed by cluster `k`: to `add` go each row as it is, what
    /// is expected in its missing columns and its share. The covariance of the missing part goes to a packed matrix of all
    /// columns, times the shares. Returns what the missing parts add to the entropy.
    pub fn alike<T: Real>(
        &mut self,
        pack: &ConditionalPack,
        k: usize,
        rows: &Rows<T>,
        alike: &[(Hole, f64)],
        packed: &mut [f64],
        mut add: impl FnMut(&[f64], &[f64], f64),
    ) -> f64 {
        let Some((hole, _)) = alike.first() else { return 0.0 };
        let (group, lane, columns) = (k / ConditionalPack::WIDTH, k % ConditionalPack::WIDTH, &hole.columns);
        pack.prepare(group, columns, &mut self.conditional);
        for (hole, share) in alike {
            self.values.clear();
            self.expect(pack, group, columns, rows, hole.row);
            // Those of the one cluster, to the front.
            (0..columns.len()).for_each(|i| self.values[i] = self.values[i * ConditionalPack::WIDTH + lane]);
            add(&self.row, &self.values[..columns.len()], *share);
        }
        let share: f64 = alike.iter().map(|(_, share)| share).sum();
        self.conditional.covariance(lane, &mut self.work, |i, j, value| {
            // Columns ascend, so that row i is the larger one.
            let (row, other) = (columns[i] as usize, columns[j] as usize);
            packed[row * (row + 1) / 2 + other] += share * value;
        });
        // |M|/2 (1 + log 2 pi) - log |Phi_MM| / 2 each.
        share * 0.5 * (columns.len() as f64 * (1.0 + LN_2PI) - self.conditional.log_det(lane))
    }

    /// Put a draw from cluster `k` given what is there in the place of what a row lacks.
    pub fn draw<T: Real>(&mut self, pack: &ConditionalPack, k: usize, row: &mut [T], normal: &mut dyn FnMut() -> f64) {
        let (group, lane) = (k / ConditionalPack::WIDTH, k % ConditionalPack::WIDTH);
        let columns: Vec<u32> = (0u32..).zip(&*row).filter(|(_, x)| x.is_nan()).map(|(d, _)| d).collect();
        pack.prepare(group, &columns, &mut self.conditional);
        let mut rows = Rows::<T>::dense(row.len());
        rows.push_dense(row);
        self.values.clear();
        self.expect(pack, group, &columns, &rows, 0);
        let mut away: Vec<f64> = columns.iter().map(|_| normal()).collect();
        self.conditional.spread(lane, &mut away);
        let expected = self.values[lane..].iter().step_by(ConditionalPack::WIDTH);
        for ((&d, expected), away) in columns.iter().zip(expected).zip(away) {
            row[d as usize] = T::from_f64(expected + away);
        }
    }
}

/// The precisions M^T M of lower-triangular factors, `dim` x `dim`, in full.
pub fn precision_matrix(factor: &[f64], dim: usize) -> Vec<f64> {
    let mut phi = vec![0.0; dim * dim];
    for row in 0..dim {
        let m = &factor[row * dim..row * dim + row + 1];
        for (i, &left) in m.iter().enumerate() {
            phi[i * dim..i * dim + row + 1].iter_mut().zip(m).for_each(|(p, right)| *p += left * right);
        }
    }
    phi
}

/// Make clusters that were trained on complete rows into those of rows that may lack values: a marginal of a Gaussian needs
/// nothing that training has not left. Counts that were one a cluster become one a column.
pub(crate) fn allow_missing(
    kind: LikelihoodKind,
    estimate: Estimate,
    prior: &mut Prior,
    arrays: &mut [NamedArray],
    total: &mut ClusterSummary,
) {
    prior.missing = true;
    let num = total.num_clusters();
    let extent = Extent { clusters: num, dim: prior.dim, missing: true };
    for (array, expected) in arrays.iter_mut().zip(kind.arrays(estimate)) {
        let shape = (expected.shape)(&extent);
        let times = shape.iter().product::<usize>() / array.values.len().max(1);
        array.values = array.values.iter().flat_map(|&value| std::iter::repeat_n(value, times)).collect();
        array.shape = shape;
    }
    // No row of those that were counted lacks a column.
    let width = kind.build::<f64>(prior).stat_width();
    let shared = total.shared().to_vec();
    let mut stats = Vec::with_capacity(num * width + shared.len());
    for stat in total.stats[..num * total.width].chunks_exact(total.width) {
        stats.extend_from_slice(stat);
        stats.resize(stats.len() + width - total.width, 0.0);
    }
    stats.extend(shared);
    (total.stats, total.width) = (stats, width);
}
