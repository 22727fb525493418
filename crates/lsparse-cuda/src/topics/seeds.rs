//! The first topics on a GPU: documents that are far from one another, and the topic that each document is most likely under.

use std::sync::Arc;

use cudarc::driver::{DeviceRepr, LaunchArgs, PushKernelArg};
use rayon::prelude::*;

use super::words::TotalWords;
use crate::artefacts::SEEDS;
use crate::device::{Argument, Buffer, Device, Grid, launch};
use crate::error::{Error, Result};

/// Documents whose chances are summed together, as the kernels have it.
const TILE: usize = 8;

/// Whole counts are below this: 2^32 of them are summed to the last bit.
const MOST_WHOLE: f32 = (1u32 << 20) as f32;

/// None of the numbers of documents.
const NONE: u32 = u32::MAX;

/// Documents on a GPU that topics start from.
pub struct Sample {
    device: Arc<Device>,
    vocab_size: usize,
    num_documents: usize,
    /// Whether all counts are whole numbers whose sums double precision holds.
    is_whole: bool,
    first: Buffer<u32>,
    word: Buffer<u32>,
    count: Buffer<f32>,
}

/// The arguments of the kernels of seeds: addresses and numbers.
#[repr(C)]
#[derive(Clone, Copy)]
struct Arguments {
    first: u64,
    word: u64,
    count: u64,
    length: u64,
    own: u64,
    nearest: u64,
    owner: u64,
    sums: u64,
    gain: u64,
    seeds: u64,
    failed: u64,
    constants: u64,
    lambda: f64,
    ln_lambda: f64,
    num_documents: u32,
    vocab_size: u32,
}

// Safe: the layout of the kernels' own structure, without padding.
unsafe impl DeviceRepr for Arguments {}

impl<'a> Argument<'a> for &'a Arguments {
    fn push(self, launch: &mut LaunchArgs<'a>) {
        launch.arg(self);
    }
}

impl Sample {
    /// Bring documents onto the GPU: words of document d, below the size of the vocabulary, and their counts are
    /// `first[d]..first[d + 1]`.
    pub fn upload(
        device: &Arc<Device>,
        vocab_size: usize,
        first: &[usize],
        word: &[u32],
        count: &[f32],
    ) -> Result<Sample> {
        let ends = first.first() == Some(&0) && first.last() == Some(&word.len()) && first.is_sorted();
        let few = first.len() > 1 && word.len() <= u32::MAX as usize && word.len() == count.len();
        if !ends || !few || word.par_iter().any(|&v| v as usize >= vocab_size) {
            let detail = "they do not add up, or a word is beyond the vocabulary".into();
            return Err(Error::Failed { action: "take documents", detail });
        }
        let places: Vec<u32> = first.iter().map(|&at| at as u32).collect();
        Ok(Sample {
            first: device.upload(&places)?,
            word: device.upload(word)?,
            count: device.upload(count)?,
            num_documents: first.len() - 1,
            is_whole: count.par_iter().all(|&c| c.fract() == 0.0 && (0.0..MOST_WHOLE).contains(&c)),
            vocab_size,
            device: Arc::clone(device),
        })
    }

    /// Documents as seeds: the first one is given, and one more is drawn for each of `shares`, the share of all chances that
    /// comes before it; a document's chance is its divergence from the nearest seed. Beside them the nearest seed of each
    /// document. `own` is what documents score under their own frequencies, `length` their tokens. None if no document is
    /// left that has a chance.
    pub fn seeds(
        &self,
        given: usize,
        shares: &[f64],
        lambda: f64,
        (own, length): (&[f64], &[f64]),
    ) -> Result<Option<(Vec<u32>, Vec<u32>)>> {
        let (device, documents) = (&self.device, self.num_documents);
        if own.len() != documents || length.len() != documents || given >= documents {
            let detail = "they are not as many as promised".into();
            return Err(Error::Failed { action: "take documents", detail });
        }
        let draw = device.kernel(&SEEDS, "draw_seed", 0)?;
        let near = device.kernel(&SEEDS, "near_seed", 0)?;
        let tiles = documents.div_ceil(TILE);
        let (own, length) = (device.upload(own)?, device.upload(length)?);
        let nearest = device.upload(&vec![f64::INFINITY; documents])?;
        let (owner, sums) = (device.zeros::<u32>(documents)?, device.zeros::<f64>(tiles)?);
        let (gain, seeds) = (device.zeros::<f32>(self.vocab_size)?, device.zeros::<u32>(shares.len() + 1)?);
        let (failed, constants) = (device.upload(&[NONE])?, device.zeros::<f64>(2)?);
        let arguments = Arguments {
            first: device.address(&self.first),
            word: device.address(&self.word),
            count: device.address(&self.count),
            length: device.address(&length),
            own: device.address(&own),
            nearest: device.address(&nearest),
            owner: device.address(&owner),
            sums: device.address(&sums),
            gain: device.address(&gain),
            seeds: device.address(&seeds),
            failed: device.address(&failed),
            constants: device.address(&constants),
            lambda,
            ln_lambda: lambda.ln(),
            num_documents: documents as u32,
            vocab_size: self.vocab_size as u32,
        };
        let all = std::iter::once((given as u32, 0.0)).chain(shares.iter().map(|&share| (NONE, share)));
        for (number, (given, share)) in all.enumerate() {
            let number = number as u32;
            // Safe: the arguments are those of the kernels, and buffers are as long as documents, words, tiles and seeds are
            // many; they live until what is launched is done.
            unsafe {
                let one = Grid { blocks: 1, threads: 1024, shared: 0 };
                launch!(device, &draw, one, &arguments, &number, &given, &share)?;
                launch!(device, &near, Grid { blocks: tiles, threads: 32 * TILE, shared: 0 }, &arguments, &number)?;
            }
        }
        let (seeds, owner) = (device.download(&seeds, shares.len() + 1)?, device.download(&owner, documents)?);
        let failed = device.download_at(&failed, 0)?;
        Ok((failed == NONE).then_some((seeds, owner)))
    }

    /// The sum of documents by the topics that own them. None where counts are not whole numbers, whose sums the order
    /// decides.
    pub fn gathered(&self, owner: &[u32], num_topics: usize) -> Result<Option<TotalWords>> {
        let (device, documents) = (&self.device, self.num_documents as u32);
        if owner.len() != self.num_documents || owner.iter().any(|&k| k as usize >= num_topics) {
            let detail = "they are not as many as promised".into();
            return Err(Error::Failed { action: "take documents", detail });
        }
        if !self.is_whole {
            return Ok(None);
        }
        let gather = device.kernel(&SEEDS, "gather_documents", 0)?;
        let doubles = device.kernel(&SEEDS, "make_doubles", 0)?;
        let owner = device.upload(owner)?;
        let mut total = TotalWords::zeros(device, (self.vocab_size, num_topics))?;
        let (topics, number) = (num_topics as u32, (self.vocab_size * num_topics) as u64);
        let by_document = Grid { blocks: self.num_documents.div_ceil(8), threads: 256, shared: 0 };
        // Safe: the arguments are those of the kernels, numbers of either kind have eight bytes, of which zero is all bits
        // zero, and there is one for each word and topic.
        unsafe {
            let Sample { first, word, count, .. } = self;
            let mass = total.mass_mut();
            launch!(device, &gather, by_document, first, word, count, &owner, &documents, &topics, &mut *mass)?;
            launch!(device, &doubles, by_entry(number), &number, mass)?;
        }
        Ok(Some(total))
    }

    /// The topic under which each document is most likely, whole: statistics of K topics, and the sums of their
    /// pseudo-counts.
    pub fn nearest(&self, total: &TotalWords, lambda: f64, sums: &[f64]) -> Result<Vec<u32>> {
        let (device, num_topics) = (&self.device, sums.len());
        if total.sizes() != (self.vocab_size, num_topics) {
            let detail = "topics are of another shape than documents".into();
            return Err(Error::Failed { action: "take topics", detail });
        }
        let write = device.kernel(&SEEDS, "write_logs", 0)?;
        let near = device.kernel(&SEEDS, "near_topic", 0)?;
        let ln_scale = device.upload(&sums.iter().map(|sum| -sum.ln()).collect::<Vec<f64>>())?;
        let number = (self.vocab_size * num_topics) as u64;
        let mut logs = device.uninitialized::<f32>(self.vocab_size * num_topics)?;
        let mut owner = device.zeros::<u32>(self.num_documents)?;
        let by_document = Grid { blocks: self.num_documents, threads: 256, shared: 0 };
        let topics = num_topics as u32;
        // Safe: the arguments are those of the kernels, and buffers have an entry for each word and topic, and each document.
        unsafe {
            let mass = total.mass();
            launch!(device, &write, by_entry(number), mass, &ln_scale, &lambda, &topics, &number, &mut logs)?;
            let Sample { first, word, count, .. } = self;
            launch!(device, &near, by_document, first, word, count, &logs, &topics, &mut owner)?;
        }
        device.download(&owner, self.num_documents)
    }
}

/// Several entries a thread.
fn by_entry(number: u64) -> Grid {
    Grid { blocks: (number as usize).div_ceil(1024).clamp(1, 1 << 16), threads: 256, shared: 0 }
}

impl TotalWords {
    /// The same among more topics: topic k becomes topic `places[k]`, each another, of `num_topics`.
    pub fn spread(&self, places: &[u32], num_topics: usize) -> Result<TotalWords> {
        let (vocab_size, before) = self.sizes();
        let mut all = vec![false; num_topics];
        let apart = |&k: &u32| all.get_mut(k as usize).is_some_and(|taken| !std::mem::replace(taken, true));
        if places.len() != before || !places.iter().all(apart) {
            let detail = "topics are not apart, or not as many as promised".into();
            return Err(Error::Failed { action: "take topics", detail });
        }
        let device = self.device();
        let spread = device.kernel(&SEEDS, "spread_topics", 0)?;
        let places = device.upload(places)?;
        let mut total = TotalWords::zeros(device, (vocab_size, num_topics))?;
        let (from, to) = (before as u32, num_topics as u32);
        let by_word = Grid { blocks: vocab_size, threads: 256, shared: 0 };
        // Safe: the arguments are those of the kernel, and places are within the total.
        unsafe { launch!(device, &spread, by_word, self.mass(), &places, &from, &to, total.mass_mut())? };
        Ok(total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_have_the_layout_of_the_kernels() {
        assert_eq!(size_of::<Arguments>(), 12 * 8 + 2 * 8 + 2 * 4);
        assert!(include_str!("../../kernels/seeds.cu").contains(&format!("TILE = {TILE};")));
    }
}
