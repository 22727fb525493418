//! Rows for the page: how sure a sample of them is of its clusters, and those that are typical, doubtful or unlikely.

use lsparse::data::{Groups, Picked, RowSource, Rows};
use lsparse::{MixtureModel, Result, SequenceModel};

use crate::explore::documents::evenly;

/// Weights of rows under clusters that are worked out at most, and the rows that this leaves at least and at most.
const WEIGHED: usize = 40_000_000;
const LEAST: usize = 2_000;
const MOST: usize = 20_000;

/// Rows that a cluster puts forward: those that are typical of it, and those that are in doubt.
const TYPICAL: usize = 8;
const DOUBTFUL: usize = 4;

/// Rows that are put forward among all, as unlikely and as in doubt.
const OF_ALL: usize = 40;

/// Clusters that a captured share is told for.
const CAPTURED: usize = 64;

/// A model that rows are shown by.
pub enum Judge<'a> {
    /// Rows by themselves.
    Mixture(&'a MixtureModel),
    /// Steps of sequences.
    Sequence(&'a SequenceModel, &'a Groups),
}

impl Judge<'_> {
    fn num_clusters(&self) -> usize {
        match self {
            Judge::Mixture(model) => model.num_clusters(),
            Judge::Sequence(model, _) => model.num_states(),
        }
    }

    fn sparsity(&self) -> usize {
        match self {
            Judge::Mixture(model) => model.sparsity(),
            Judge::Sequence(model, _) => model.sparsity(),
        }
    }

    /// The rows that are looked at, evenly from all: of sequences the first whole ones and a part of one more.
    fn look_at(&self, all: usize, most: usize) -> (Vec<usize>, Option<Groups>) {
        let room = (WEIGHED / self.num_clusters().max(1)).clamp(LEAST, MOST).max(most);
        match self {
            Judge::Mixture(_) => (evenly(all, room), None),
            Judge::Sequence(_, groups) => {
                let mut lengths = Vec::new();
                let mut left = all.min(room);
                for range in (0..groups.len()).map(|g| groups.range(g)) {
                    let taken = range.len().min(left);
                    lengths.extend((taken > 0).then_some(taken));
                    left -= taken;
                }
                ((0..all.min(room)).collect(), Groups::of_lengths("sequences", &lengths, all.min(room)).ok())
            }
        }
    }

    fn assign(
        &self,
        rows: &dyn RowSource,
        groups: Option<&Groups>,
        sparsity: usize,
        visit: &mut dyn FnMut(&[u32], &[f64]) -> Result<()>,
    ) -> Result<()> {
        match self {
            Judge::Mixture(model) => model.assign(rows, sparsity, visit),
            Judge::Sequence(model, _) => model.assign(rows, groups, sparsity, visit),
        }
    }

    fn score(&self, rows: &dyn RowSource, groups: Option<&Groups>) -> Result<Vec<f64>> {
        match self {
            Judge::Mixture(model) => Ok(model.score(rows)?.log_density),
            Judge::Sequence(model, _) => Ok(model.score(rows, groups)?.log_density),
        }
    }
}

/// A row that was looked at, under responsibilities for all clusters.
#[derive(Clone, Copy, Debug)]
pub struct Looked {
    /// Its cluster with the largest responsibility.
    pub first: u32,
    /// That responsibility.
    pub largest: f64,
    /// What the L largest ones sum to.
    pub captured: f64,
    /// log p(x).
    pub score: f64,
}

impl Looked {
    /// log p(x) + log r: how likely the row is together with its cluster.
    pub fn typical(&self) -> f64 {
        self.score + self.largest.max(f64::MIN_POSITIVE).ln()
    }
}

/// A row of the page.
pub struct ShownRow {
    /// Its number among all, from 0.
    pub number: usize,
    /// Its place among those that were looked at.
    pub sample: usize,
    /// What it is called, where it has a name.
    pub name: Option<String>,
    /// Its clusters as the model keeps them, the largest responsibility first.
    pub shares: Vec<(u32, f64)>,
    /// Columns and values: all, or where most are zero the others.
    pub columns: Option<Vec<u32>>,
    /// The values of these columns.
    pub values: Vec<f32>,
}

/// What the page has of rows.
pub struct Sampled {
    /// All that there are.
    pub all: usize,
    /// The numbers of those that were looked at.
    pub picked: Vec<usize>,
    /// What they are like.
    pub looked: Vec<Looked>,
    /// What the one, two, three .. largest responsibilities sum to, on average.
    pub captured: Vec<f64>,
    /// Those that are shown, by number.
    pub shown: Vec<ShownRow>,
    /// The L most probable clusters of each that was looked at, as the model keeps them.
    pub kept: Vec<Vec<(u32, f64)>>,
}

impl Sampled {
    /// Look at rows, and choose `most` of them.
    pub fn new(judge: &Judge<'_>, rows: &dyn RowSource, most: usize) -> Result<Self> {
        let all = rows.num_rows();
        let (num, sparsity) = (judge.num_clusters(), judge.sparsity());
        let (picked, groups) = judge.look_at(all, most);
        let sample = Picked::new(rows, picked);
        let groups = groups.as_ref();
        let scores = judge.score(&sample, groups)?;
        let (mut looked, mut captured) = (Vec::with_capacity(scores.len()), vec![0.0; num.min(CAPTURED)]);
        judge.assign(&sample, groups, num, &mut |clusters, values| {
            for (clusters, values) in clusters.chunks_exact(num).zip(values.chunks_exact(num)) {
                let mut sum = 0.0;
                let mut kept = 0.0;
                for (at, value) in values.iter().enumerate() {
                    sum += value;
                    if at < captured.len() {
                        captured[at] += sum;
                    }
                    if at + 1 == sparsity {
                        kept = sum;
                    }
                }
                let score = scores[looked.len()];
                looked.push(Looked { first: clusters[0], largest: values[0], captured: kept.min(1.0), score });
            }
            Ok(())
        })?;
        captured.iter_mut().for_each(|sum| *sum = (*sum / looked.len().max(1) as f64).min(1.0));
        let mut kept: Vec<Vec<(u32, f64)>> = Vec::with_capacity(looked.len());
        judge.assign(&sample, groups, sparsity, &mut |clusters, values| {
            let of_rows = clusters.chunks_exact(sparsity).zip(values.chunks_exact(sparsity));
            kept.extend(
                of_rows.map(|(clusters, values)| clusters.iter().copied().zip(values.iter().copied()).collect()),
            );
            Ok(())
        })?;
        let chosen = choose_rows(num, &looked, most);
        let mut shown = Vec::with_capacity(chosen.len());
        let (mut dense, mut sparse) = (Rows::<f32>::dense(rows.dim()), Rows::<f32>::sparse(rows.dim()));
        for sample_at in chosen {
            let number = sample.numbers()[sample_at];
            let (columns, values) = if rows.is_sparse() {
                sparse.clear();
                rows.read_f32(number, 1, &mut sparse)?;
                let (columns, values) = sparse.sparse_row(0);
                (Some(columns.to_vec()), values.to_vec())
            } else {
                dense.clear();
                rows.read_f32(number, 1, &mut dense)?;
                (None, dense.dense_rows(0..1).to_vec())
            };
            let (name, shares) = (rows.row_name(number), kept[sample_at].clone());
            shown.push(ShownRow { number, sample: sample_at, name, shares, columns, values });
        }
        Ok(Sampled { all, picked: sample.numbers().to_vec(), looked, captured, shown, kept })
    }
}

/// Places of at most `most` rows, ascending: the least likely and the most doubtful of all, then by turns those that are
/// typical of each cluster and those of it that are in doubt, then others evenly.
pub fn choose_rows(num_clusters: usize, looked: &[Looked], most: usize) -> Vec<usize> {
    let mut taken = vec![false; looked.len()];
    let mut chosen = Vec::new();
    let mut take = |at: usize, until: usize| {
        if chosen.len() < until && !std::mem::replace(&mut taken[at], true) {
            chosen.push(at);
        }
    };
    let by = |key: &dyn Fn(&Looked) -> f64| {
        let mut order: Vec<usize> = (0..looked.len()).collect();
        order.sort_by(|&a, &b| key(&looked[a]).total_cmp(&key(&looked[b])).then(a.cmp(&b)));
        order
    };
    let unlikely = by(&|row| row.score);
    let doubtful = by(&|row| row.largest);
    let typical = by(&|row| -row.typical());
    let quarter = OF_ALL.min(most.div_ceil(4));
    unlikely.iter().take(quarter).for_each(|&at| take(at, most));
    doubtful.iter().take(quarter).for_each(|&at| take(at, most));
    let per_cluster = |order: &[usize], count: usize| {
        let mut lists: Vec<Vec<usize>> = vec![Vec::new(); num_clusters];
        for &at in order {
            let list = &mut lists[looked[at].first as usize];
            if list.len() < count {
                list.push(at);
            }
        }
        lists
    };
    let (typical, doubtful) = (per_cluster(&typical, TYPICAL), per_cluster(&doubtful, DOUBTFUL));
    for rank in 0..TYPICAL {
        typical.iter().filter_map(|list| list.get(rank)).for_each(|&at| take(at, most));
        doubtful.iter().filter_map(|list| list.get(rank)).for_each(|&at| take(at, most));
    }
    let room = most.saturating_sub(chosen.len());
    let others: Vec<usize> = (0..looked.len()).filter(|&at| !taken[at]).collect();
    chosen.extend(evenly(others.len(), room).into_iter().map(|at| others[at]));
    chosen.sort_unstable();
    chosen
}
