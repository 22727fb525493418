//! Document completion on a GPU: the log probability of words that are held out, under topics that stay as they are.

use std::sync::Arc;

use cudarc::driver::{DeviceRepr, LaunchArgs, PushKernelArg};
use rayon::prelude::*;

use crate::artefacts::COMPLETE;
use crate::device::{Argument, Buffer, Device, Grid, launch};
use crate::error::{Error, Result};

/// Most topics: four numbers of each are in the shared memory of a block.
pub const MOST_COMPLETED_TOPICS: usize = 10_000;

/// Blocks at work: more than a GPU has room for at one time.
const BLOCKS: usize = 2048;

/// Documents, each with the words that are seen and those that are held out.
#[derive(Default)]
pub struct SplitDocuments {
    seen: WordLists,
    held: WordLists,
}

/// Words and counts, one document behind the other, and where those of each end.
#[derive(Default)]
struct WordLists {
    end: Vec<u32>,
    word: Vec<u32>,
    count: Vec<f32>,
}

impl WordLists {
    fn push(&mut self, words: &[(u32, f32)]) {
        self.word.extend(words.iter().map(|entry| entry.0));
        self.count.extend(words.iter().map(|entry| entry.1));
        self.end.push(self.word.len() as u32);
    }

    fn starts(&self) -> Vec<u32> {
        std::iter::once(0).chain(self.end.iter().copied()).collect()
    }

    /// Words of a document.
    fn len_of(&self, document: usize) -> u32 {
        self.end[document] - if document == 0 { 0 } else { self.end[document - 1] }
    }
}

impl SplitDocuments {
    /// Another document: words and counts that are seen, and those that are held out.
    pub fn push(&mut self, seen: &[(u32, f32)], held: &[(u32, f32)]) {
        self.seen.push(seen);
        self.held.push(held);
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.seen.end.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The longest first, so that no block begins one when the others are done.
    fn order(&self) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.len() as u32).collect();
        order.sort_by_key(|&d| std::cmp::Reverse(self.seen.len_of(d as usize)));
        order
    }
}

/// Topics as documents see them, all words of all topics.
pub struct Topics<'a> {
    /// V x width: exp(C_vk) / scale_k.
    pub values: &'a [f32],
    /// Numbers of a word.
    pub width: usize,
    /// One a topic.
    pub scale: &'a [f32],
    /// One a topic.
    pub alpha: &'a [f32],
}

/// When documents are worked out.
#[derive(Clone, Copy, Debug)]
pub struct Rest {
    /// Iterations at most.
    pub iterations: usize,
    /// Every so many it is seen whether counts rest.
    pub check_every: usize,
    /// What they may still change by.
    pub tolerance: f32,
    /// Topics with no more than this leave a document; none does where it is zero.
    pub floor: f32,
}

/// The arguments of the kernel: addresses and numbers.
#[repr(C)]
#[derive(Clone, Copy)]
struct Arguments {
    values: u64,
    scale: u64,
    alpha: u64,
    order: u64,
    seen_start: u64,
    seen_word: u64,
    held_start: u64,
    held_word: u64,
    seen_count: u64,
    held_count: u64,
    work: u64,
    log_probability: u64,
    num_documents: u32,
    num_topics: u32,
    width: u32,
    longest: u32,
    iterations: u32,
    check_every: u32,
    tolerance: f32,
    floor: f32,
}

// Safe: the layout of the kernel's own structure, without padding.
unsafe impl DeviceRepr for Arguments {}

impl<'a> Argument<'a> for &'a Arguments {
    fn push(self, launch: &mut LaunchArgs<'a>) {
        launch.arg(self);
    }
}

/// Topics on a GPU that documents are completed under.
pub struct Completer {
    device: Arc<Device>,
    values: Buffer<f32>,
    scale: Buffer<f32>,
    alpha: Buffer<f32>,
    width: usize,
    vocab_size: usize,
    num_topics: usize,
}

impl Completer {
    /// Bring topics there.
    pub fn new(device: &Arc<Device>, topics: &Topics<'_>) -> Result<Completer> {
        let (num, width) = (topics.alpha.len(), topics.width);
        let whole = width > 0 && topics.values.len().is_multiple_of(width);
        if num == 0 || num > MOST_COMPLETED_TOPICS || topics.scale.len() != num || width < num || !whole {
            let detail = format!("{num} topics of {} numbers", topics.values.len());
            return Err(Error::Failed { action: "take topics", detail });
        }
        Ok(Completer {
            device: Arc::clone(device),
            values: device.upload(topics.values)?,
            scale: device.upload(topics.scale)?,
            alpha: device.upload(topics.alpha)?,
            width,
            vocab_size: topics.values.len() / width,
            num_topics: num,
        })
    }

    /// sum c log p of the held-out words of each document.
    pub fn complete(&self, documents: &SplitDocuments, rest: &Rest) -> Result<Vec<f64>> {
        let (device, num, SplitDocuments { seen, held }) = (&self.device, documents.len(), documents);
        if num == 0 {
            return Ok(Vec::new());
        }
        if seen.word.par_iter().chain(&held.word).any(|&v| v as usize >= self.vocab_size) || rest.check_every == 0 {
            let detail = "a word is beyond the vocabulary, or nobody looks whether they rest".into();
            return Err(Error::Failed { action: "complete documents", detail });
        }
        let longest = (0..num).map(|d| seen.len_of(d)).max().unwrap_or(0).max(1);
        let blocks = num.min(BLOCKS);
        let order = device.upload(&documents.order())?;
        let (seen_start, held_start) = (device.upload(&seen.starts())?, device.upload(&held.starts())?);
        let (seen_word, seen_count) = (device.upload(&seen.word)?, device.upload(&seen.count)?);
        let (held_word, held_count) = (device.upload(&held.word)?, device.upload(&held.count)?);
        let work = device.zeros::<f32>(blocks * longest as usize)?;
        let log_probability = device.zeros::<f64>(num)?;
        let arguments = Arguments {
            values: device.address(&self.values),
            scale: device.address(&self.scale),
            alpha: device.address(&self.alpha),
            order: device.address(&order),
            seen_start: device.address(&seen_start),
            seen_word: device.address(&seen_word),
            held_start: device.address(&held_start),
            held_word: device.address(&held_word),
            seen_count: device.address(&seen_count),
            held_count: device.address(&held_count),
            work: device.address(&work),
            log_probability: device.address(&log_probability),
            num_documents: num as u32,
            num_topics: self.num_topics as u32,
            width: self.width as u32,
            longest,
            iterations: rest.iterations as u32,
            check_every: rest.check_every as u32,
            tolerance: rest.tolerance,
            floor: rest.floor,
        };
        let shared = 4 * 4 * self.num_topics;
        let kernel = device.kernel(&COMPLETE, "complete", shared)?;
        let grid = Grid { blocks, threads: 128, shared };
        // Safe: the arguments are those of the kernel; lists are as long as their starts say, words are below V, and each
        // block has room for the longest document. Buffers live until the download has waited for the kernel.
        unsafe { launch!(device, &kernel, grid, &arguments)? };
        device.download(&log_probability, num)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_have_the_layout_of_the_kernel() {
        assert_eq!(size_of::<Arguments>(), 12 * 8 + 8 * 4);
    }

    #[test]
    fn documents_are_split_and_the_longest_come_first() {
        let mut documents = SplitDocuments::default();
        let words = |n: u32| (0..n).map(|v| (v, 1.0)).collect::<Vec<_>>();
        for (seen, held) in [(2, 1), (0, 3), (5, 1)] {
            documents.push(&words(seen), &words(held));
        }
        assert_eq!((documents.len(), documents.order()), (3, vec![2, 0, 1]));
        assert_eq!((documents.seen.starts(), documents.held.starts()), (vec![0, 2, 2, 7], vec![0, 1, 4, 5]));
    }
}
