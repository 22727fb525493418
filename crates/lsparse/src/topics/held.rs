//! Statistics of words and topics that lie on a GPU: sums are taken there, and come to the host when somebody reads them.
//!
//! What is added up is the host's to the last bit: the same operations in the same order. A sum lies where any part of it
//! does, and on the host where the GPU's memory does not suffice.

use std::sync::{Arc, OnceLock};

use lsparse_cuda::Device;
use lsparse_cuda::topics::{BatchWords, Lists, Part, Rule, Shape, SparseTotal, Table, TotalWords};

use crate::backend::Trouble;
use crate::error::{Error, Result};
use crate::topics::summary::{SparseStats, WordStats};
use crate::topics::table::WordTable;

/// Statistics of words on a GPU.
#[derive(Clone)]
pub struct Held(Arc<Place>);

struct Place {
    there: There,
    /// The same on the host, once somebody has read them.
    here: OnceLock<WordStats>,
}

enum There {
    Batch(BatchWords),
    Total(TotalWords),
    /// What went wrong when they were summed: the next global step says so.
    Failed(lsparse_cuda::Error),
}

impl Held {
    /// What a batch gave.
    pub(super) fn batch(words: BatchWords) -> Self {
        Held::at(There::Batch(words))
    }

    /// The sum of what documents gave.
    pub(super) fn total(words: TotalWords) -> Self {
        Held::at(There::Total(words))
    }

    /// The total that it is.
    pub(super) fn as_total(&self) -> Option<&TotalWords> {
        match &self.0.there {
            There::Total(total) => Some(total),
            _ => None,
        }
    }

    fn at(there: There) -> Self {
        Held(Arc::new(Place { there, here: OnceLock::new() }))
    }

    /// The same on the host, where it stays.
    pub(super) fn here(&self) -> Result<&WordStats> {
        if let Some(here) = self.0.here.get() {
            return Ok(here);
        }
        let brought = self.brought()?;
        Ok(self.0.here.get_or_init(|| brought))
    }

    /// The same on the host, for whoever asks.
    pub(super) fn brought(&self) -> Result<WordStats> {
        if let Some(here) = self.0.here.get() {
            return Ok(here.clone());
        }
        let brought = match &self.0.there {
            There::Batch(words) => words.download().map(|lists| WordStats::Batch(stats_of(lists))),
            There::Total(words) => words.download().map(|lists| WordStats::Total(stats_of(lists))),
            There::Failed(error) => Err(error.clone()),
        };
        brought.map_err(Error::gpu)
    }

    /// An error if they could not be summed.
    pub(super) fn check(&self) -> Result<()> {
        match &self.0.there {
            There::Failed(error) => Err(Error::gpu(error.clone())),
            _ => Ok(()),
        }
    }

    fn device(&self) -> Option<&Arc<Device>> {
        match &self.0.there {
            There::Batch(words) => Some(words.device()),
            There::Total(words) => Some(words.device()),
            There::Failed(_) => None,
        }
    }

    /// V.
    pub(super) fn vocab_size(&self) -> usize {
        match &self.0.there {
            There::Batch(words) => words.sizes().0,
            There::Total(words) => words.sizes().0,
            There::Failed(_) => 0,
        }
    }

    fn is_total(&self) -> bool {
        self.as_total().is_some()
    }

    /// The total, to be changed: itself where nobody else has it, and then nothing is left here; else a copy. Nothing of its
    /// mass where `anew`.
    fn take_total(&mut self, anew: bool) -> lsparse_cuda::Result<TotalWords> {
        if Arc::get_mut(&mut self.0).is_none() {
            return match &self.0.there {
                There::Total(total) if anew => TotalWords::zeros(total.device(), total.sizes()),
                There::Total(total) => total.copy(),
                _ => Err(lost()),
            };
        }
        let taken = std::mem::replace(self, Held::at(There::Failed(lost())));
        let Some(Place { there: There::Total(mut total), .. }) = Arc::into_inner(taken.0) else { return Err(lost()) };
        if anew {
            total.clear()?;
        }
        Ok(total)
    }
}

fn stats_of<M>((indptr, topic, mass): (Vec<usize>, Vec<u32>, Vec<M>)) -> SparseStats<M> {
    SparseStats { indptr, topic, mass }
}

fn lists_of<M>(stats: &SparseStats<M>) -> Lists<'_, M> {
    Lists { first: &stats.indptr, topic: &stats.topic, mass: &stats.mass }
}

/// Statistics on their way to a sum on a GPU.
enum Coming<'a> {
    Held(&'a Held),
    Batch(BatchWords),
    Total(SparseTotal),
}

impl<'a> Coming<'a> {
    fn new(device: &Arc<Device>, sizes: (usize, usize), words: &'a WordStats) -> lsparse_cuda::Result<Self> {
        Ok(match words {
            WordStats::OnDevice(held) => Coming::Held(held),
            WordStats::Batch(stats) => Coming::Batch(BatchWords::upload(device, sizes, &lists_of(stats))?),
            WordStats::Total(stats) => Coming::Total(SparseTotal::upload(device, sizes, &lists_of(stats))?),
        })
    }

    fn add_to(&self, total: &mut TotalWords, factor: f64) -> lsparse_cuda::Result<()> {
        let part = match self {
            Coming::Held(held) => match &held.0.there {
                There::Batch(words) => Part::Batch(words),
                There::Total(words) => Part::Total(words),
                There::Failed(error) => return Err(error.clone()),
            },
            Coming::Batch(words) => Part::Batch(words),
            Coming::Total(words) => Part::Sparse(words),
        };
        total.add(part, factor)
    }
}

/// Add other statistics of K topics to `own`, each times its factor, one after the other; to nothing where `anew`. False if
/// none of them lies on a GPU, or the GPU has no memory for it: then nothing has changed.
pub(super) fn add(own: &mut WordStats, num_topics: usize, others: &[(&WordStats, f64)], anew: bool) -> bool {
    let all = || others.iter().map(|(words, _)| *words).chain(Some(&*own));
    let Some(device) = all().find_map(device_of).cloned() else {
        // What failed stays so, and makes what it is added to fail.
        let failed = all().find_map(|words| match words {
            WordStats::OnDevice(held) => Some(held.clone()),
            _ => None,
        });
        return failed.map(|failed| *own = WordStats::OnDevice(failed)).is_some();
    };
    match sum(own, &device, num_topics, others, anew) {
        Ok(total) => *own = WordStats::OnDevice(Held::at(There::Total(total))),
        Err(lsparse_cuda::Error::OutOfMemory { .. }) if own.check().is_ok() => return false,
        Err(error) => *own = WordStats::OnDevice(Held::at(There::Failed(error))),
    }
    true
}

fn device_of(words: &WordStats) -> Option<&Arc<Device>> {
    match words {
        WordStats::OnDevice(held) => held.device(),
        _ => None,
    }
}

fn sum(
    own: &mut WordStats,
    device: &Arc<Device>,
    num_topics: usize,
    others: &[(&WordStats, f64)],
    anew: bool,
) -> lsparse_cuda::Result<TotalWords> {
    let sizes = (own.vocab_size(), num_topics);
    // Everything that takes memory comes before anything changes.
    let coming = others.iter().map(|(words, factor)| Ok((Coming::new(device, sizes, words)?, *factor)));
    let coming: Vec<(Coming<'_>, f64)> = coming.collect::<lsparse_cuda::Result<_>>()?;
    let mut total = match own {
        WordStats::OnDevice(held) if held.is_total() => held.take_total(anew)?,
        own => {
            let mut total = TotalWords::zeros(device, sizes)?;
            if !anew {
                Coming::new(device, sizes, own)?.add_to(&mut total, 1.0)?;
            }
            total
        }
    };
    coming.iter().try_for_each(|(part, factor)| part.add_to(&mut total, *factor))?;
    Ok(total)
}

fn lost() -> lsparse_cuda::Error {
    lsparse_cuda::Error::Failed { action: "sum statistics", detail: "they were lost on the way".into() }
}

/// All mass of a total on a GPU times a factor; false if that is to be done on the host.
pub(super) fn scale(own: &mut WordStats, factor: f64) -> bool {
    let WordStats::OnDevice(held) = own else { return false };
    if !held.is_total() {
        return held.device().is_none();
    }
    let scaled = held.take_total(false).and_then(|mut total| total.scale(factor).map(|()| total));
    *held = match scaled {
        Ok(total) => Held::at(There::Total(total)),
        Err(lsparse_cuda::Error::OutOfMemory { .. }) => return false,
        Err(error) => Held::at(There::Failed(error)),
    };
    true
}

/// What two parts of a batch gave, as that of one; none if they do not both lie on a GPU, or it has no memory for that.
pub(super) fn merged(one: &WordStats, other: &WordStats) -> Result<Option<WordStats>> {
    let (WordStats::OnDevice(a), WordStats::OnDevice(b)) = (one, other) else { return Ok(None) };
    let (There::Batch(a), There::Batch(b)) = (&a.0.there, &b.0.there) else { return Ok(None) };
    let merge = || {
        let mut total = TotalWords::zeros(a.device(), a.sizes())?;
        total.add(Part::Batch(a), 1.0)?;
        total.add(Part::Batch(b), 1.0)?;
        Ok(total.as_batch()?)
    };
    Ok(Trouble::settle(merge())?.map(|words| WordStats::OnDevice(Held::batch(words))))
}

/// Topics as documents see them, on the host or on a GPU, from where they come when somebody reads them.
#[derive(Default)]
pub struct TopicTable {
    there: Option<OnDevice>,
    here: OnceLock<WordTable>,
    /// For each word the topics whose entries are not those of a topic that has none of it; of a table on the host.
    written: Vec<Vec<u32>>,
}

/// A table on a GPU, and the scales of its topics.
struct OnDevice {
    table: Table,
    scale: Vec<f32>,
}

impl TopicTable {
    /// The table, from the GPU if need be.
    pub fn bring(&self) -> Result<&WordTable> {
        if let Some(here) = self.here.get() {
            return Ok(here);
        }
        let Some(OnDevice { table, scale }) = &self.there else { unreachable!("a table is somewhere") };
        let (values, start_topic, start_value) = table.download().map_err(Error::gpu)?;
        let Shape { num_topics, start_width, .. } = table.shape();
        let table = WordTable::of(num_topics, values, scale.clone(), (start_width, start_topic, start_value));
        Ok(self.here.get_or_init(|| table))
    }

    /// The same where it is known that it can be had.
    ///
    /// # Panics
    /// If it lies on a GPU that does not answer.
    pub fn get(&self) -> &WordTable {
        self.bring().unwrap_or_else(|error| panic!("{error}"))
    }

    /// The table where it lies on this GPU.
    pub(super) fn on(&self, device: &Arc<Device>) -> Option<&Table> {
        self.there.as_ref().map(|there| &there.table).filter(|table| Arc::ptr_eq(table.device(), device))
    }

    /// How large it is.
    pub(super) fn shape(&self) -> Shape {
        match (&self.there, self.here.get()) {
            (Some(there), _) => there.table.shape(),
            (None, Some(table)) => shape_of(table),
            (None, None) => unreachable!("a table is somewhere"),
        }
    }

    /// The table on the host with what was written to it, to be changed there; a blank one if it lies on a GPU.
    pub(super) fn here_mut(&mut self, blank: impl FnOnce() -> WordTable) -> (&mut WordTable, &mut [Vec<u32>]) {
        if self.there.take().is_some() || self.here.get().is_none() {
            let table = blank();
            self.written = vec![Vec::new(); table.vocab_size()];
            self.here = OnceLock::from(table);
        }
        let Some(table) = self.here.get_mut() else { unreachable!("it is here") };
        (table, &mut self.written)
    }

    /// Write the table of these statistics on a GPU. Gives the share of each word in the data term.
    pub(super) fn write_on(
        &mut self,
        device: &Arc<Device>,
        shape: Shape,
        words: &WordStats,
        pull: Option<&SparseStats<f32>>,
        rule: &Rule<'_>,
    ) -> lsparse_cuda::Result<Vec<f64>> {
        let fits = |there: &OnDevice| Arc::ptr_eq(there.table.device(), device) && there.table.shape() == shape;
        let mut there = match self.there.take().filter(fits) {
            Some(there) => there,
            None => OnDevice { table: Table::new(device, shape, pull.map(lists_of))?, scale: Vec::new() },
        };
        let terms = match words {
            WordStats::OnDevice(held) if held.is_total() => {
                there.table.write(held.as_total().ok_or_else(lost)?, rule)?
            }
            words => {
                let sizes = (shape.vocab_size, shape.num_topics);
                let mut total = TotalWords::zeros(device, sizes)?;
                Coming::new(device, sizes, words)?.add_to(&mut total, 1.0)?;
                there.table.write(&total, rule)?
            }
        };
        there.scale = rule.scale.to_vec();
        (self.here, self.written) = (OnceLock::new(), Vec::new());
        self.there = Some(there);
        Ok(terms)
    }
}

/// How large a table is, as a GPU asks it.
pub(super) fn shape_of(table: &WordTable) -> Shape {
    let WordTable { num_topics, width, .. } = *table;
    Shape { vocab_size: table.vocab_size(), num_topics, width, start_width: table.start_width() }
}
