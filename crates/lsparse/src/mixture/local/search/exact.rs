//! Exact pruning: the L largest weights of every row, bit for bit those of the full table, without computing it.
//!
//! The clusters that a row kept last time give a weight that a cluster must reach. Bounds rule out most clusters for
//! most rows; the survivors of each cluster are gathered and weighed by the kernel of the full table.

use std::ops::Range;

use lsparse_kernels::{AlignedVec, Limits, Real, SketchPack, gather_tile, transpose_tile};
use rayon::prelude::*;

use crate::backend::{in_turn, with_buffers};
use crate::data::Rows;
use crate::error::{Error, Result};
use crate::likelihood::{Clusters, Scratch};
use crate::mixture::local::search::Work;
use crate::mixture::local::search::pairs::Pairs;
use crate::mixture::local::search::partial::PartialSums;
use crate::mixture::local::search::sketch::Sketches;
use crate::training::responsibilities::{Responsibilities, normalise_kept};

/// Rows of a task: enough for the survivors of a cluster to fill tiles, few enough for the second-level cache and for
/// all threads to have some.
const TASK_ROWS: usize = 512;

/// Rows of the next task where so many are left. The last ones are small, so that no thread waits long for another's; which
/// rows lie together changes the work and no result.
fn rows_of_task(left: usize) -> usize {
    let rows = match left {
        _ if rayon::current_num_threads() == 1 => TASK_ROWS,
        0..=2048 => TASK_ROWS / 4,
        2049..=4096 => TASK_ROWS / 2,
        _ => TASK_ROWS,
    };
    rows.min(left)
}

/// Rows of a tile that are few enough to be weighed rather than added up further.
const FEW: u32 = 6;
/// Clusters whose partial sums are taken together.
const BLOCK: usize = 64;

/// What the search of a panel works with.
pub struct Exact<'a, T: Real> {
    pub clusters: &'a dyn Clusters<T>,
    pub log_pi: &'a [T],
    pub bounds: &'a Bounds<T>,
    pub rows: &'a Rows<T>,
}

/// Bounds on the weights of all clusters, by the form of the likelihood.
pub enum Bounds<T> {
    /// Of triangular forms.
    Sketches(Sketches<T>),
    /// Of diagonal forms.
    Partial(PartialSums<T>),
}

impl<T: Real> Bounds<T> {
    /// Room for bounds on these clusters.
    pub fn new(clusters: &dyn Clusters<T>, dim: usize) -> Self {
        let num = clusters.num_clusters();
        match clusters.diagonal(0) {
            Some(_) => Bounds::Partial(PartialSums::new(num, dim)),
            None => Bounds::Sketches(Sketches::new(num, dim)),
        }
    }

    /// How many clusters these are bounds for.
    pub fn num_clusters(&self) -> usize {
        match self {
            Bounds::Sketches(sketches) => sketches.base.len(),
            Bounds::Partial(sums) => sums.base.len(),
        }
    }

    /// Bound these clusters; `rows` tell where rows lie.
    pub fn update(&mut self, clusters: &dyn Clusters<T>, log_pi: &[T], rows: &Rows<T>) {
        match self {
            Bounds::Sketches(sketches) => sketches.update(clusters, log_pi, rows),
            Bounds::Partial(sums) => sums.update(clusters, log_pi, rows),
        }
    }

    /// What sums of a row with this smallest weight still wanted are compared by.
    fn limit(&self, threshold: T) -> T {
        match self {
            Bounds::Sketches(_) => Sketches::limit(threshold),
            Bounds::Partial(sums) => sums.limit(threshold),
        }
    }

    /// The point that tiles of rows are taken about; empty for zero.
    fn center(&self) -> &[T] {
        match self {
            Bounds::Sketches(sketches) => &sketches.center,
            Bounds::Partial(_) => &[],
        }
    }
}

/// Rows of a stretch in another order, and what is found of them.
#[derive(Default)]
pub struct Sorted<T> {
    /// The smallest weight of the clusters that each row of the stretch kept.
    thresholds: Vec<T>,
    /// The rows in this order, by their numbers in the stretch.
    order: Vec<u32>,
    /// Where each row went.
    place: Vec<u32>,
    resp: Responsibilities<T>,
    entropy: Vec<f64>,
}

/// Buffers of one thread.
struct TaskScratch<T> {
    scratch: Scratch<T>,
    /// The rows of the task by their numbers in the panel.
    members: Vec<u32>,
    /// The rows of the task in their order, close to the processor: survivors are gathered from here.
    rows: Rows<T>,
    /// The same rows about the center, rows as lanes.
    tiles: AlignedVec<T>,
    /// Some of them.
    some_tile: AlignedVec<T>,
    limit: Vec<T>,
    norm: Vec<T>,
    sums: Vec<T>,
    some_limit: Vec<T>,
    some_norm: Vec<T>,
    alive: Vec<u32>,
    alive_sums: Vec<T>,
    bits: Vec<u64>,
    survivors: Vec<u32>,
    weights: Vec<T>,
    kept: Vec<T>,
    entropy: Vec<f64>,
}

impl<T: Real> Default for TaskScratch<T> {
    fn default() -> Self {
        TaskScratch {
            scratch: Scratch::default(),
            members: Vec::new(),
            rows: Rows::dense(0),
            tiles: AlignedVec::new(),
            some_tile: AlignedVec::new(),
            limit: Vec::new(),
            norm: Vec::new(),
            sums: vec![T::ZERO; T::TILE],
            some_limit: vec![T::ZERO; T::TILE],
            some_norm: vec![T::ZERO; T::TILE],
            alive: Vec::new(),
            alive_sums: Vec::new(),
            bits: Vec::new(),
            survivors: Vec::new(),
            weights: vec![T::ZERO; T::TILE],
            kept: Vec::new(),
            entropy: Vec::new(),
        }
    }
}

impl<T: Real> TaskScratch<T> {
    /// The rows `order` of a stretch that begins at row `first` of a panel, their limits and norms.
    fn load(&mut self, all: &Rows<T>, first: usize, order: &[u32], thresholds: &[T], bounds: &Bounds<T>) {
        let size = all.dim() * T::TILE;
        let num_tiles = order.len().div_ceil(T::TILE);
        self.rows.reset(all.dim());
        self.members.clear();
        self.members.extend(order.iter().map(|&n| first as u32 + n));
        all.gather_into(&self.members, &mut self.rows);
        self.some_tile.reshape(size);
        self.tiles.reshape(num_tiles * size);
        self.norm.clear();
        self.norm.resize(num_tiles * T::TILE, T::ZERO);
        self.limit.clear();
        self.limit.extend(order.iter().map(|&n| bounds.limit(thresholds[n as usize])));
        self.limit.resize(num_tiles * T::TILE, T::NEG_INFINITY);
        let tiles = self.tiles.chunks_exact_mut(size).zip(self.norm.chunks_exact_mut(T::TILE));
        for (t, (tile, norm)) in tiles.enumerate() {
            let first = t * T::TILE;
            let last = order.len().min(first + T::TILE);
            transpose_tile(self.rows.dense_rows(first..last), all.dim(), tile);
            subtract(bounds.center(), tile);
            for column in tile.chunks_exact(T::TILE) {
                norm.iter_mut().zip(column).for_each(|(norm, &x)| *norm += x * x);
            }
        }
    }

    /// The rows that sketches of cluster `k` do not rule out, into `survivors`; gives the products it took.
    fn sketch(&mut self, sketches: &Sketches<T>, k: usize) -> usize {
        let TaskScratch { rows, tiles, some_tile, limit, norm, sums, .. } = self;
        let TaskScratch { some_limit, some_norm, alive, alive_sums, survivors, .. } = self;
        let (base, slope, dim) = (sketches.base[k], sketches.slope[k], rows.dim());
        let mut staged = 0;
        // The first stage runs over all rows where they lie.
        alive.clear();
        alive_sums.clear();
        for (t, tile) in tiles.chunks_exact(dim * T::TILE).enumerate() {
            let lanes = t * T::TILE..(t + 1) * T::TILE;
            let limits = Limits { limit: &limit[lanes.clone()], norm: &norm[lanes.clone()], base, slope };
            // Lanes without a row are out from the start.
            let here = first_lanes((rows.len() - lanes.start).min(T::TILE));
            let bits = here & sketches.pack.stage(k, 0, tile, limits, sums);
            staged += 1;
            for lane in lanes_of(bits) {
                alive.push((lanes.start + lane) as u32);
                alive_sums.push(sums[lane]);
            }
        }
        // The others run over the rows that it left, gathered.
        survivors.clear();
        for (some, first_sums) in alive.chunks(T::TILE).zip(alive_sums.chunks(T::TILE)) {
            gather_tile(rows.dense_rows(0..rows.len()), dim, some, some_tile);
            subtract(&sketches.center, some_tile);
            for (lane, (&at, &sum)) in some.iter().zip(first_sums).enumerate() {
                sums[lane] = sum;
                some_limit[lane] = limit[at as usize];
                some_norm[lane] = norm[at as usize];
            }
            let limits = Limits { limit: some_limit, norm: some_norm, base, slope };
            let mut bits = first_lanes(some.len());
            for stage in 1..sketches.pack.stages() {
                bits &= sketches.pack.stage(k, stage, some_tile, limits, sums);
                staged += 1;
                if bits == 0 {
                    break;
                }
            }
            survivors.extend(lanes_of(bits).map(|lane| some[lane]));
        }
        staged * T::TILE * SketchPack::<T>::COMPONENTS * dim
    }

    /// The rows that partial sums of the clusters `block` do not rule out, as bits, tile after tile; gives the terms
    /// it took. A tile stays close to the processor while it is compared with all of them.
    fn add_up(&mut self, partial: &PartialSums<T>, block: Range<usize>) -> usize {
        let TaskScratch { rows, tiles, limit, bits, .. } = self;
        let mut added = 0;
        bits.clear();
        for (t, tile) in tiles.chunks_exact(rows.dim() * T::TILE).enumerate() {
            let lanes = t * T::TILE..(t + 1) * T::TILE;
            let here = first_lanes((rows.len() - lanes.start).min(T::TILE));
            for k in block.clone() {
                let (alive, terms) = partial.pack.alive(k, tile, &limit[lanes.clone()], partial.base[k], FEW);
                bits.push(alive & here);
                added += terms;
            }
        }
        added
    }

    /// The rows whose bits are set for a cluster of the block that was added up, into `survivors`.
    fn pick(&mut self, of_block: usize, block_len: usize) {
        let TaskScratch { bits, survivors, .. } = self;
        survivors.clear();
        for (t, &bits) in bits.iter().skip(of_block).step_by(block_len).enumerate() {
            survivors.extend(lanes_of(bits).map(|lane| (t * T::TILE + lane) as u32));
        }
    }
}

/// Bits of the first `count` lanes.
fn first_lanes(count: usize) -> u64 {
    u64::MAX >> (64 - count)
}

/// Take the center away from a tile of rows; an empty one is zero.
fn subtract<T: Real>(center: &[T], tile: &mut [T]) {
    for (column, &center) in tile.chunks_exact_mut(T::TILE).zip(center) {
        column.iter_mut().for_each(|x| *x -= center);
    }
}

impl<T: Real> Exact<'_, T> {
    /// Responsibilities of every row of a stretch, whose last L clusters are the places of `pairs`, and the entropy of each.
    /// The stretch begins at row `first` of the panel.
    pub fn respond(
        &self,
        (pairs, sorted): (&mut Pairs<T>, &mut Sorted<T>),
        (first, sparsity): (usize, usize),
        (to_index, to_value, to_entropy): (&mut [u32], &mut [T], &mut [f64]),
        work: &Work,
    ) -> Result<()> {
        pairs.weigh(self.clusters, self.log_pi, self.rows);
        let Sorted { thresholds, order, place, resp: sorted, entropy } = sorted;
        let num_rows = to_entropy.len();
        thresholds.resize(num_rows, T::ZERO);
        self.thresholds(pairs, first, thresholds)?;
        // Rows that kept the same cluster lie together, so that whole tiles are ruled out at once.
        by_key(num_rows, self.log_pi.len(), |n| pairs.cluster[n * sparsity] as usize, (order, place));

        sorted.reshape(num_rows, sparsity);
        entropy.resize(num_rows, 0.0);
        let (mut tasks, mut begin) = (Vec::new(), 0);
        let (mut index, mut value, mut rest) = (&mut sorted.index[..], &mut sorted.value[..], &mut entropy[..]);
        while begin < num_rows {
            let rows = rows_of_task(num_rows - begin);
            let (index_here, value_here, entropy_here);
            (index_here, index) = index.split_at_mut(rows * sparsity);
            (value_here, value) = value.split_at_mut(rows * sparsity);
            (entropy_here, rest) = rest.split_at_mut(rows);
            tasks.push((&order[begin..begin + rows], (index_here, value_here), entropy_here));
            begin += rows;
        }
        let results = in_turn(tasks, |(order, (index, value), entropy)| {
            with_buffers(|scratch: &mut TaskScratch<T>| {
                self.task((first, order), thresholds, sparsity, scratch, (index, value), work)?;
                normalise_kept(sparsity, 0, value, &mut scratch.kept, &mut scratch.entropy).map_err(|e| match e {
                    Error::RowOutOfRange { row } => Error::RowOutOfRange { row: first + order[row] as usize },
                    other => other,
                })?;
                entropy.copy_from_slice(&scratch.entropy);
                Ok(())
            })
        });
        work.add_weights(pairs.len());
        results.into_iter().collect::<Result<Vec<()>>>()?;

        let lists = to_index.par_chunks_exact_mut(sparsity).zip(to_value.par_chunks_exact_mut(sparsity));
        let of_rows = lists.zip(to_entropy).zip(&*place).with_min_len(TASK_ROWS);
        of_rows.for_each(|(((to_index, to_value), to_entropy), &at)| {
            let (index, value) = sorted.row(at as usize);
            to_index.copy_from_slice(index);
            to_value.copy_from_slice(value);
            *to_entropy = entropy[at as usize];
        });
        Ok(())
    }

    /// The smallest weight of the clusters that each row kept.
    fn thresholds(&self, pairs: &Pairs<T>, first: usize, out: &mut [T]) -> Result<()> {
        let threshold = |n: usize, weights: &mut Vec<T>| {
            let clusters = pairs.weights_of(n, weights);
            if let Some(nan) = weights.iter().position(|w| w.is_nan()) {
                return Err(Error::NanWeight { row: n, cluster: clusters[nan] as usize });
            }
            Ok(weights.iter().fold(weights[0], |least, &w| if w < least { w } else { least }))
        };
        let tasks = out.par_chunks_mut(TASK_ROWS).enumerate();
        let results: Vec<Result<()>> = tasks
            .map_init(Vec::new, |weights, (t, out)| {
                out.iter_mut().zip(first + t * TASK_ROWS..).try_for_each(|(out, n)| {
                    *out = threshold(n, weights)?;
                    Ok(())
                })
            })
            .collect();
        results.into_iter().collect()
    }

    /// The L largest weights of the rows `order` of a stretch that begins at row `first` of the panel.
    fn task(
        &self,
        (first, order): (usize, &[u32]),
        thresholds: &[T],
        sparsity: usize,
        task: &mut TaskScratch<T>,
        (index, value): (&mut [u32], &mut [T]),
        work: &Work,
    ) -> Result<()> {
        let Exact { clusters, log_pi, bounds, .. } = self;
        task.load(self.rows, first, order, thresholds, bounds);
        index.fill(u32::MAX);
        value.fill(T::NEG_INFINITY);
        let (mut weighed, mut products) = (0, 0);
        for k in 0..log_pi.len() {
            match bounds {
                Bounds::Sketches(sketches) => products += task.sketch(sketches, k),
                Bounds::Partial(sums) => {
                    let first = k - k % BLOCK;
                    let block = first..log_pi.len().min(first + BLOCK);
                    if k == first {
                        products += task.add_up(sums, block.clone());
                    }
                    task.pick(k - first, block.len());
                }
            }
            let TaskScratch { scratch, rows, limit, survivors, weights, .. } = task;
            weighed += survivors.len();
            for some in survivors.chunks(T::TILE) {
                clusters.log_lik_of(k, rows, some, scratch, weights);
                for (&at, &w) in some.iter().zip(&*weights) {
                    let w = log_pi[k] + w;
                    if w.is_nan() {
                        return Err(Error::NanWeight { row: first + order[at as usize] as usize, cluster: k });
                    }
                    let at = at as usize;
                    let of_row = at * sparsity..(at + 1) * sparsity;
                    if insert(k as u32, w, &mut index[of_row.clone()], &mut value[of_row.clone()]) {
                        // With L weights at hand the least of them is what a cluster must reach.
                        let least = value[of_row.end - 1];
                        if least > thresholds[order[at] as usize] {
                            limit[at] = bounds.limit(least);
                        }
                    }
                }
            }
        }
        work.add_weights(weighed);
        work.add_products(products);
        Ok(())
    }
}

/// Rows by a key below `num_keys`, of equal keys in their order; and where each row went.
fn by_key(
    num_rows: usize,
    num_keys: usize,
    key: impl Fn(usize) -> usize,
    (order, place): (&mut Vec<u32>, &mut Vec<u32>),
) {
    let mut start = vec![0u32; num_keys + 1];
    (0..num_rows).for_each(|n| start[key(n) + 1] += 1);
    for k in 0..num_keys {
        start[k + 1] += start[k];
    }
    order.resize(num_rows, 0);
    place.resize(num_rows, 0);
    for n in 0..num_rows {
        let at = &mut start[key(n)];
        (order[*at as usize], place[n]) = (n as u32, *at);
        *at += 1;
    }
}

/// The bits that are set.
fn lanes_of(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lane = bits.trailing_zeros() as usize;
        (bits != 0).then(|| {
            bits &= bits - 1;
            lane
        })
    })
}

/// Put a weight among the largest so far, which descend; clusters come in ascending order, so that among equal weights
/// the lower index stays in front. Returns whether all places were taken afterwards and one of them is new.
fn insert<T: Real>(k: u32, w: T, index: &mut [u32], value: &mut [T]) -> bool {
    let last = index.len() - 1;
    if index[last] != u32::MAX && w <= value[last] {
        return false;
    }
    let mut at = last;
    while at > 0 && (index[at - 1] == u32::MAX || value[at - 1] < w) {
        index[at] = index[at - 1];
        value[at] = value[at - 1];
        at -= 1;
    }
    index[at] = k;
    value[at] = w;
    index[last] != u32::MAX
}
