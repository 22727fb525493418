//! What is remembered batch by batch, statistics above all: in memory up to a limit, beyond it in a file.
//!
//! Space in the file that the last checkpoint on disk refers to is not written over until a later one is on disk. So
//! whatever a checkpoint refers to is as it was when the checkpoint was taken, whenever the program is killed.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::system::check_room;
use crate::training::summary::Summary;

/// What can be remembered of a batch.
pub trait Kept: Clone + Serialize + DeserializeOwned {
    /// Bytes of memory held.
    fn kept_bytes(&self) -> u64;
}

/// Nothing to remember.
impl Kept for () {
    fn kept_bytes(&self) -> u64 {
        0
    }
}

impl<S: Summary> Kept for S {
    fn kept_bytes(&self) -> u64 {
        self.resident_bytes() as u64
    }
}

/// Where what is remembered goes.
#[derive(Clone, Debug, Default)]
pub struct MemoPlace {
    /// Bytes of memory that it may take; no limit where there is none.
    pub limit: Option<u64>,
    /// The file for what is beyond, which stays for a later run; without a name it is a temporary one.
    pub file: Option<PathBuf>,
}

impl MemoPlace {
    /// Find out before the work whether the file is free for it, where it may come to be written.
    pub fn check(&self) -> Result<()> {
        match &self.file {
            Some(file) if self.limit.is_some() && file.exists() => check_magic(file),
            _ => Ok(()),
        }
    }
}

/// What is remembered of one batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Memo<S> {
    /// In memory.
    Held(Arc<S>),
    /// In the file.
    Spilled(Extent),
}

/// A stretch of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extent {
    start: u64,
    len: u64,
    checksum: u32,
}

/// What is remembered of all batches.
pub struct Memos<S> {
    slots: Vec<Option<Memo<S>>>,
    place: MemoPlace,
    /// Bytes in memory.
    held: u64,
    spill: Option<Spill>,
    /// Why something is in memory that belongs into the file, until somebody asks.
    trouble: Option<Error>,
}

impl<S: Kept> Memos<S> {
    /// Nothing remembered yet of `num_batches` batches.
    pub fn new(num_batches: usize, place: MemoPlace) -> Self {
        Memos { slots: vec![None; num_batches], place, held: 0, spill: None, trouble: None }
    }

    /// What [`slots`](Self::slots) gave, with the file as it was then. All of it is read once, so that a file that is
    /// damaged is found before anything is written.
    pub fn restore(slots: Vec<Option<Memo<S>>>, place: MemoPlace) -> Result<Self> {
        let extent = |slot: &Option<Memo<S>>| match slot {
            Some(Memo::Spilled(extent)) => Some(*extent),
            _ => None,
        };
        let spilled: Vec<Extent> = slots.iter().filter_map(extent).collect();
        let spill = match spilled.is_empty() {
            true => None,
            false => Some(Spill::reopen(&place, &spilled)?),
        };
        let held = slots.iter().flatten().map(memory_of).sum();
        Ok(Memos { slots, place, held, spill, trouble: None })
    }

    /// What is remembered, without what is in the file.
    pub fn slots(&self) -> Vec<Option<Memo<S>>> {
        self.slots.clone()
    }

    /// Batches there are.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there are no batches.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Whether a batch is remembered.
    pub fn has(&self, batch: usize) -> bool {
        self.slots.get(batch).is_some_and(Option::is_some)
    }

    /// Whether what is remembered of a batch is in memory.
    pub fn is_held(&self, batch: usize) -> bool {
        matches!(self.slots.get(batch), Some(Some(Memo::Held(_))))
    }

    /// What is remembered of a batch.
    pub fn get(&self, batch: usize) -> Result<Option<Arc<S>>> {
        match self.slots.get(batch).and_then(Option::as_ref) {
            None => Ok(None),
            Some(Memo::Held(memo)) => Ok(Some(Arc::clone(memo))),
            Some(Memo::Spilled(extent)) => match &self.spill {
                Some(spill) => spill.read(*extent).map(|memo| Some(Arc::new(memo))),
                None => Ok(None),
            },
        }
    }

    /// Remember this of a batch in place of what there was. Where the file has no room for it, it stays in memory.
    pub fn put(&mut self, batch: usize, fresh: S) -> Result<()> {
        self.forget(batch);
        let bytes = fresh.kept_bytes();
        let mut fits = self.place.limit.is_none_or(|limit| self.held + bytes <= limit);
        if !fits {
            match self.spill(&fresh) {
                Ok(extent) => self.slots[batch] = Some(Memo::Spilled(extent)),
                // A full disk is no reason to lose what was learned, as long as there is memory.
                Err(error @ Error::Unwritable { .. }) if check_room(bytes, String::new, String::new).is_ok() => {
                    self.trouble.get_or_insert(error);
                    fits = true;
                }
                Err(error) => return Err(error),
            }
        }
        if fits {
            self.held += bytes;
            self.slots[batch] = Some(Memo::Held(Arc::new(fresh)));
        }
        Ok(())
    }

    fn spill(&mut self, fresh: &S) -> Result<Extent> {
        let spill = match &mut self.spill {
            Some(spill) => spill,
            none => none.insert(Spill::create(&self.place)?),
        };
        spill.write(fresh)
    }

    /// Why something is in memory that belongs into the file, if that has come to pass since this was asked last.
    pub fn take_trouble(&mut self) -> Option<Error> {
        self.trouble.take()
    }

    /// Remember a batch no longer.
    pub fn forget(&mut self, batch: usize) {
        let Some(old) = self.slots[batch].take() else { return };
        self.held -= memory_of(&old);
        if let (Memo::Spilled(extent), Some(spill)) = (old, &mut self.spill) {
            spill.release(extent);
        }
    }

    /// A checkpoint with the present slots will be written: gives the file that must be on disk before it.
    pub fn begin_checkpoint(&mut self) -> Option<Arc<File>> {
        let spill = self.spill.as_mut()?;
        spill.fresh.clear();
        spill.leaving.append(&mut spill.released);
        Some(Arc::clone(&spill.file))
    }

    /// That checkpoint is on disk: what only earlier ones referred to is free.
    pub fn end_checkpoint(&mut self) {
        if let Some(spill) = &mut self.spill {
            std::mem::take(&mut spill.leaving).into_iter().for_each(|extent| spill.free(extent));
            // What is behind the end is needed by nobody. A file that cannot be cut is only longer than it might be.
            let _ = spill.file.set_len(spill.end);
        }
    }
}

fn memory_of<S: Kept>(memo: &Memo<S>) -> u64 {
    match memo {
        Memo::Held(memo) => memo.kept_bytes(),
        Memo::Spilled(_) => 0,
    }
}

/// What a file of statistics begins with.
const MAGIC: &[u8; 16] = b"lsparse memos 1\n";

/// The file of statistics and its free space.
struct Spill {
    file: Arc<File>,
    path: PathBuf,
    /// Whether a checkpoint may refer to what was written.
    outlives: bool,
    end: u64,
    /// Free stretches (start, length), ascending and apart.
    gaps: Vec<(u64, u64)>,
    /// Where stretches begin that were written since the last checkpoint was taken: no checkpoint refers to them.
    fresh: HashSet<u64>,
    /// No longer needed, but for the checkpoint on disk.
    released: Vec<Extent>,
    /// No longer needed once the checkpoint that is being written is on disk.
    leaving: Vec<Extent>,
}

impl Spill {
    fn new(file: File, path: PathBuf, outlives: bool) -> Self {
        let (gaps, fresh, released, leaving) = Default::default();
        Spill { file: Arc::new(file), path, outlives, end: MAGIC.len() as u64, gaps, fresh, released, leaving }
    }

    fn create(place: &MemoPlace) -> Result<Self> {
        let path = place.file.clone().unwrap_or_else(std::env::temp_dir);
        let failed = |source| Error::Unwritable { path: path.clone(), source };
        let Some(name) = &place.file else {
            return Ok(Spill::new(tempfile::tempfile().map_err(failed)?, path, false));
        };
        if name.exists() {
            check_magic(name)?;
        }
        let options = || File::options().read(true).write(true).create(true).truncate(true).open(name);
        let mut file = options().map_err(failed)?;
        file.write_all(MAGIC).map_err(failed)?;
        Ok(Spill::new(file, path, true))
    }

    /// The file of an earlier run, of which these stretches are in use.
    fn reopen(place: &MemoPlace, used: &[Extent]) -> Result<Self> {
        let path = place.file.clone().unwrap_or_default();
        if !path.exists() {
            return Err(Error::Format {
                path,
                detail: "it is missing, and belongs to the checkpoint".into(),
                remedy: "put it back next to the checkpoint, or start again with another checkpoint file".into(),
            });
        }
        check_magic(&path)?;
        let failed = |source| Error::Io { path: path.clone(), action: "open", source };
        let file = File::options().read(true).write(true).open(&path).map_err(failed)?;
        let mut spill = Spill::new(file, path.clone(), true);
        let mut used = used.to_vec();
        used.sort_by_key(|extent| extent.start);
        for extent in used {
            spill.read_bytes(extent)?;
            if extent.start > spill.end {
                spill.gaps.push((spill.end, extent.start - spill.end));
            }
            spill.end = extent.start + extent.len;
        }
        Ok(spill)
    }

    fn write<S: Kept>(&mut self, memo: &S) -> Result<Extent> {
        let failed = |source| Error::Unwritable { path: self.path.clone(), source };
        let bytes = postcard::to_stdvec(memo).map_err(|e| failed(io::Error::other(e)))?;
        let len = bytes.len() as u64;
        // The first gap that is large enough, or the end.
        let start = match self.gaps.iter().position(|gap| gap.1 >= len) {
            Some(at) => self.gaps[at].0,
            None => self.end,
        };
        let mut file = &*self.file;
        if let Err(source) = file.seek(SeekFrom::Start(start)).and_then(|_| file.write_all(&bytes)) {
            // Half of it is worth nothing, and takes room that others may need.
            if start == self.end {
                let _ = file.set_len(start);
            }
            return Err(failed(source));
        }
        match self.gaps.iter_mut().find(|gap| gap.0 == start) {
            Some(gap) => *gap = (gap.0 + len, gap.1 - len),
            None => self.end += len,
        }
        self.gaps.retain(|gap| gap.1 > 0);
        self.fresh.insert(start);
        Ok(Extent { start, len, checksum: crc32fast::hash(&bytes) })
    }

    fn read<S: Kept>(&self, extent: Extent) -> Result<S> {
        postcard::from_bytes(&self.read_bytes(extent)?).map_err(|_| self.damaged())
    }

    /// What was written there, by its checksum.
    fn read_bytes(&self, extent: Extent) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut file = &*self.file;
        file.seek(SeekFrom::Start(extent.start))
            .and_then(|_| file.take(extent.len).read_to_end(&mut bytes))
            .map_err(|source| Error::Io { path: self.path.clone(), action: "read", source })?;
        let sound = bytes.len() as u64 == extent.len && crc32fast::hash(&bytes) == extent.checksum;
        if sound { Ok(bytes) } else { Err(self.damaged()) }
    }

    fn damaged(&self) -> Error {
        Error::Format {
            path: self.path.clone(),
            detail: "it belongs to the checkpoint, and what is in it is damaged or of another one".into(),
            remedy:
                "put back the file that the checkpoint was written with, or start again with another checkpoint file"
                    .into(),
        }
    }

    /// A stretch is not needed any more, unless for a checkpoint.
    fn release(&mut self, extent: Extent) {
        let unknown = self.fresh.remove(&extent.start);
        match self.outlives && !unknown {
            true => self.released.push(extent),
            false => self.free(extent),
        }
    }

    fn free(&mut self, extent: Extent) {
        let at = self.gaps.partition_point(|gap| gap.0 < extent.start);
        self.gaps.insert(at, (extent.start, extent.len));
        // Neighbours become one, and a gap at the end is no gap.
        self.gaps.dedup_by(|next, gap| {
            let touch = gap.0 + gap.1 == next.0;
            gap.1 += if touch { next.1 } else { 0 };
            touch
        });
        if let Some(&(start, len)) = self.gaps.last()
            && start + len == self.end
        {
            self.end = start;
            self.gaps.pop();
        }
    }
}

/// Remove a file of statistics that no checkpoint refers to. If that cannot be done it is only in the way.
pub(crate) fn remove_orphan(path: &Path) {
    if path.is_file() && check_magic(path).is_ok() {
        let _ = std::fs::remove_file(path);
    }
}

/// Refuse to touch a file that is not one of statistics.
fn check_magic(path: &Path) -> Result<()> {
    let mut start = [0; MAGIC.len()];
    let mut file = File::open(path).map_err(|source| Error::Io { path: path.to_owned(), action: "open", source })?;
    match file.read_exact(&mut start) {
        Ok(()) if start == *MAGIC => Ok(()),
        // A run that was killed before it wrote anything.
        Err(_) if file.metadata().is_ok_and(|found| found.len() == 0) => Ok(()),
        _ => Err(Error::Format {
            path: path.to_owned(),
            detail: "it is not a file of statistics that a checkpoint refers to".into(),
            remedy: "move it, or give another checkpoint file".into(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::likelihood::ClusterSummary;
    use crate::topics::{SparseStats, TopicSummary, WordStats};

    fn memo(value: f64, len: usize) -> ClusterSummary {
        ClusterSummary { counts: vec![value; len], stats: vec![value; 2 * len], width: 2, entropy: value, trial: None }
    }

    #[test]
    fn statistics_come_back_from_file_and_memory_alike() {
        for limit in [None, Some(0), Some(400)] {
            let mut memos = Memos::new(5, MemoPlace { limit, file: None });
            for round in 0..6u32 {
                for batch in 0..5 {
                    memos.put(batch, memo(f64::from(round) + 0.1, 3 + (batch + round as usize) % 4)).unwrap();
                    let back = memos.get(batch).unwrap().unwrap();
                    assert_eq!(*back, memo(f64::from(round) + 0.1, 3 + (batch + round as usize) % 4));
                }
            }
            if let (Some(limit), Some(spill)) = (limit, &memos.spill) {
                assert!(memos.held <= limit);
                // Freed space is used again: not much more than one round of statistics.
                assert!(spill.end < 3 * 5 * 200, "{}", spill.end);
            }
            assert_eq!(memos.spill.is_some(), limit.is_some());
        }
    }

    /// Every write to this device fails as on a full disk.
    #[cfg(target_os = "linux")]
    #[test]
    fn what_the_disk_has_no_room_for_stays_in_memory() {
        let full = || File::options().read(true).write(true).open("/dev/full").unwrap();
        let mut memos = Memos::new(3, MemoPlace { limit: Some(0), file: None });
        memos.spill = Some(Spill::new(full(), "full".into(), false));
        for round in 0..3u32 {
            for batch in 0..3 {
                memos.put(batch, memo(f64::from(round), 4)).unwrap();
                assert_eq!(*memos.get(batch).unwrap().unwrap(), memo(f64::from(round), 4));
            }
            assert!(matches!(memos.take_trouble(), Some(Error::Unwritable { .. })));
            assert!(memos.take_trouble().is_none());
        }
        // There is room again.
        memos.spill = None;
        memos.put(1, memo(7.0, 4)).unwrap();
        assert!(matches!(memos.slots[1], Some(Memo::Spilled(_))) && memos.take_trouble().is_none());
        assert_eq!(*memos.get(1).unwrap().unwrap(), memo(7.0, 4));
    }

    #[test]
    fn what_a_checkpoint_refers_to_is_not_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let place = MemoPlace { limit: Some(0), file: Some(folder.path().join("m")) };
        let mut memos = Memos::new(3, place.clone());
        let mut durable = memos.slots();
        let mut expected = Vec::new();
        for round in 0..20u32 {
            for batch in 0..3 {
                memos.put(batch, memo(f64::from(round), 2 + (round as usize * 7 + batch) % 5)).unwrap();
                // Killed here, a run would go on from the last checkpoint that was written in full.
                if !expected.is_empty() {
                    let resumed = Memos::restore(durable.clone(), place.clone()).unwrap();
                    let found: Vec<_> = (0..3).map(|b| resumed.get(b).unwrap().map(|m| (*m).clone())).collect();
                    assert_eq!(found, expected);
                }
            }
            let slots = memos.slots();
            memos.begin_checkpoint();
            let now: Vec<_> = (0..3).map(|b| memos.get(b).unwrap().map(|m| (*m).clone())).collect();
            if round % 3 == 0 {
                memos.put(1, memo(-1.0, 4)).unwrap();
            }
            memos.end_checkpoint();
            (durable, expected) = (slots, now);
        }
        assert!(memos.spill.unwrap().end < 5000);
    }

    #[test]
    fn the_file_does_not_grow_between_checkpoints_and_is_cut_after_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m");
        let mut memos = Memos::new(3, MemoPlace { limit: Some(0), file: Some(path.clone()) });
        let length = || std::fs::metadata(&path).unwrap().len();
        let lap = |memos: &mut Memos<ClusterSummary>, size: usize| {
            (0..3).for_each(|batch| memos.put(batch, memo(0.1, size)).unwrap());
        };
        lap(&mut memos, 20);
        let one = length();
        (0..100).for_each(|_| lap(&mut memos, 20));
        assert!(length() < 2 * one, "{} bytes for {one}, with no checkpoint yet", length());
        memos.begin_checkpoint();
        memos.end_checkpoint();
        (0..100).for_each(|_| lap(&mut memos, 20));
        assert!(length() < 3 * one, "{} bytes for {one}, with one checkpoint", length());
        for _ in 0..3 {
            lap(&mut memos, 1);
            memos.begin_checkpoint();
            memos.end_checkpoint();
        }
        assert!(length() < one / 2, "{} bytes are left of {one}", length());
        assert_eq!(*memos.get(2).unwrap().unwrap(), memo(0.1, 1));
    }

    #[test]
    fn a_foreign_file_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m");
        std::fs::write(&path, "a letter to my grandmother").unwrap();
        let place = MemoPlace { limit: Some(0), file: Some(path.clone()) };
        assert!(place.check().is_err());
        // Without a limit it would never be written.
        MemoPlace { limit: None, ..place.clone() }.check().unwrap();
        assert!(Memos::new(1, place).put(0, memo(1.0, 1)).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"a letter to my grandmother");
    }

    #[test]
    fn every_stretch_is_checked_before_it_is_needed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m");
        let place = MemoPlace { limit: Some(0), file: Some(path.clone()) };
        let mut memos = Memos::new(3, place.clone());
        (0..3).for_each(|batch| memos.put(batch, memo(1.0, 2)).unwrap());
        let restore = || Memos::restore(memos.slots(), place.clone()).map(drop);
        restore().unwrap();
        let good = std::fs::read(&path).unwrap();
        for at in 0..good.len() {
            let mut bytes = good.clone();
            bytes[at] ^= 1;
            std::fs::write(&path, bytes).unwrap();
            assert!(restore().is_err(), "byte {at}");
        }
        std::fs::write(&path, &good[..good.len() - 1]).unwrap();
        assert!(restore().is_err());
        std::fs::remove_file(&path).unwrap();
        assert!(restore().unwrap_err().to_string().contains("it is missing, and belongs to the checkpoint"));
    }

    #[test]
    fn sparse_statistics_of_topics_come_back_bit_for_bit() {
        let words = SparseStats { indptr: vec![0, 2, 2, 3], topic: vec![1, 3, 0], mass: vec![1e-30, 0.1, 7.0 / 3.0] };
        let mut memo = TopicSummary::new(4, WordStats::Batch(words));
        (memo.entropy, memo.alloc, memo.counts[2]) = (1.0 / 3.0, -0.0, f64::MIN_POSITIVE);
        let mut memos = Memos::new(2, MemoPlace { limit: Some(0), file: None });
        memos.put(1, memo.clone()).unwrap();
        assert_eq!(*memos.get(1).unwrap().unwrap(), memo);
        assert!(memos.spill.is_some() && memos.get(0).unwrap().is_none());
    }
}
