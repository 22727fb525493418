//! The document step of topics: documents as a GPU takes them, the topics that they are worked out under, and the
//! statistics that come of them.
//!
//! Statistics are whole numbers of a small unit, which commute: whatever order documents end in, the sums are the same
//! bits. Sums within a document depend on how many threads work on it, and that on its number of words alone.

mod complete;
mod seeds;
mod words;

use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::{DeviceRepr, LaunchArgs, PushKernelArg, ValidAsZeroBits};

use crate::artefacts::TOPICS;
use crate::device::{Argument, Buffer, Device, Grid, Kernel, Lines, Pinned, launch};
use crate::error::{Error, Result};

pub use complete::{Completer, MOST_COMPLETED_TOPICS, Rest, SplitDocuments, Topics};
pub use seeds::Sample;
pub use words::{BatchWords, Brought, Lists, Part, Rule, SparseTotal, Table, TotalWords};

/// Topics that a document may have at one time.
pub const MOST_TOPICS: usize = 64;

/// Entries of documents that are on a GPU at one time for one launch, about: 256 MB.
pub const PART_ENTRIES: usize = 1 << 25;

/// Shared memory that kernels have besides what grows with documents, in bytes.
const OWN_SHARED: usize = 8 << 10;

/// Documents of up to so many words have so many threads in their first iterations.
const BINS: [(usize, Kind); 13] = [
    (32, Kind::First32),
    (64, Kind::First32),
    (96, Kind::First128),
    (128, Kind::First128),
    (192, Kind::First128),
    (256, Kind::First128),
    (340, Kind::First256),
    (410, Kind::First256),
    (560, Kind::First512),
    (830, Kind::First512),
    (1080, Kind::FirstFar),
    (1600, Kind::FirstFar),
    (usize::MAX, Kind::FirstFar),
];

/// Documents go on with shared memory for so many topics: those that have as many left, and more than the entry before.
const LEFT: [usize; 5] = [16, 24, 32, 48, MOST_TOPICS];

/// Topics that a pass of the kernels for few of them keeps in registers.
const FEW: usize = 16;

/// Threads of a multiprocessor that the registers of the kernels for the rest suffice for, with few topics and with many.
const THREADS_AT_ONCE: (usize, usize) = (640, 1024);

/// The kernels of documents, by the number of threads; `Far` where weights are not in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    First32,
    First128,
    First256,
    First512,
    FirstFar,
    Rest32,
    Rest64,
    Rest128,
    Rest256,
    Rest512,
    RestFar,
    Wide32,
    Wide64,
    Wide128,
    Wide256,
    Wide512,
}

impl Kind {
    /// All of them, in the order above, with their names and threads.
    const ALL: [(&str, usize); 16] = [
        ("first_32", 32),
        ("first_128", 128),
        ("first_256", 256),
        ("first_512", 512),
        ("first_far", 512),
        ("rest_32", 32),
        ("rest_64", 64),
        ("rest_128", 128),
        ("rest_256", 256),
        ("rest_512", 512),
        ("rest_far", 512),
        ("wide_32", 32),
        ("wide_64", 64),
        ("wide_128", 128),
        ("wide_256", 256),
        ("wide_512", 512),
    ];

    fn threads(self) -> usize {
        Kind::ALL[self as usize].1
    }

    /// The kernel for the rest where documents of up to so many words take so many bytes of shared memory each: the more a
    /// document takes, the fewer there are beside it, and the more threads it is to keep busy.
    fn rest(words: usize, shared: usize, limit: usize, few: bool) -> Kind {
        let at_once = (limit / shared.max(1)).max(1);
        // A thread of a short document has two words at least.
        let most = if words <= 128 { words / 2 } else { words };
        let threads = if few { THREADS_AT_ONCE.0 } else { THREADS_AT_ONCE.1 };
        let (of_few, of_many) = match (threads / at_once).min(most) {
            0..64 => (Kind::Rest32, Kind::Wide32),
            64..128 => (Kind::Rest64, Kind::Wide64),
            128..256 => (Kind::Rest128, Kind::Wide128),
            256..512 => (Kind::Rest256, Kind::Wide256),
            _ => (Kind::Rest512, Kind::Wide512),
        };
        if few { of_few } else { of_many }
    }

    fn is_far(self) -> bool {
        matches!(self, Kind::FirstFar | Kind::RestFar)
    }
}

/// How large topics are, as far as documents need room for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// V.
    pub vocab_size: usize,
    /// K.
    pub num_topics: usize,
    /// K padded: entries of a word in the table.
    pub width: usize,
    /// Topics that a word starts a document with.
    pub start_width: usize,
}

impl Shape {
    /// Numbers of 32 bits that the weights of a document take, or before them its first topics.
    fn block(&self, words: usize) -> usize {
        let start = self.num_topics + 2 * self.num_topics.min(words * self.start_width);
        (MOST_TOPICS * (words | 1)).max(start)
    }

    /// Bytes of shared memory of a document in its first iterations.
    fn shared(&self, words: usize, kind: Kind) -> usize {
        4 * (3 * words + if kind.is_far() { 0 } else { self.block(words) })
    }

    /// Who works on a document of so many words where a block has `limit` bytes of shared memory; nobody if its words
    /// alone are too many.
    fn bin(&self, words: usize, limit: usize) -> Option<usize> {
        let bin = BINS.iter().position(|&(most, _)| words <= most)?;
        let (most, kind) = BINS[bin];
        let fits = |words, kind| self.shared(words, kind) + OWN_SHARED <= limit;
        match kind {
            Kind::FirstFar => fits(words, kind).then_some(bin),
            _ if fits(most, kind) => Some(bin),
            _ => fits(words, Kind::FirstFar).then_some(BINS.len() - 1),
        }
    }

    /// Bytes of a GPU's memory that topics and statistics take.
    pub fn bytes(&self) -> u64 {
        let words = self.vocab_size as u64;
        words * (self.width as u64 * 4 + self.num_topics as u64 * 8 + self.start_width as u64 * 8)
    }
}

/// Documents being put together on the host.
#[derive(Clone, Debug, Default)]
pub struct Packer {
    first: Vec<u32>,
    word: Vec<u32>,
    count: Vec<f32>,
    tokens: Vec<f32>,
}

impl Packer {
    /// Add a document: its words, each below the size of the vocabulary, and their counts.
    pub fn push(&mut self, words: &[u32], counts: &[f32]) {
        if self.first.is_empty() {
            self.first.push(0);
        }
        self.word.extend_from_slice(words);
        self.count.extend_from_slice(counts);
        self.first.push(self.word.len() as u32);
        self.tokens.push(counts.iter().map(|&c| f64::from(c)).sum::<f64>() as f32);
    }

    /// Documents.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Words of all documents.
    pub fn entries(&self) -> usize {
        self.word.len()
    }

    /// Forget the documents, keep the memory.
    pub fn clear(&mut self) {
        self.first.clear();
        self.word.clear();
        self.count.clear();
        self.tokens.clear();
    }

    /// The documents of each bin, those with the most words first, and those that no bin takes. Documents without tokens
    /// are nowhere: there is nothing to work out.
    fn bins(&self, shape: &Shape, limit: usize) -> (Vec<u32>, Vec<Bin>, Vec<u32>) {
        let words = |d: u32| (self.first[d as usize + 1] - self.first[d as usize]) as usize;
        let mut of_bin: Vec<Vec<u32>> = vec![Vec::new(); BINS.len()];
        let mut left = Vec::new();
        for d in 0..self.len() as u32 {
            // NaN is refused long before.
            if words(d) == 0 || self.tokens[d as usize] <= 0.0 {
                continue;
            }
            match shape.bin(words(d), limit) {
                Some(bin) => of_bin[bin].push(d),
                None => left.push(d),
            }
        }
        let (mut order, mut bins) = (Vec::new(), Vec::new());
        // Long documents first: they are not to be waited for at the end.
        for (documents, (limit, first)) in of_bin.iter_mut().zip(BINS).rev() {
            if documents.is_empty() {
                continue;
            }
            documents.sort_by_key(|&d| std::cmp::Reverse(words(d)));
            let from = order.len();
            order.extend_from_slice(documents);
            bins.push(Bin { first, limit, order: from..order.len(), most_words: words(documents[0]) });
        }
        (order, bins, left)
    }

    /// The unit of statistics: a power of two so that the tokens of all documents stay below 2^62 of it.
    fn units_a_token(&self) -> f32 {
        let tokens: f64 = self.tokens.iter().map(|&t| f64::from(t)).sum();
        let bits = 61 - tokens.max(1.0).log2().ceil() as i32;
        (bits.min(MOST_BITS) as f32).exp2()
    }
}

/// Statistics are never finer than 2^-44 of a token: single precision tells no more.
const MOST_BITS: i32 = 44;

/// Documents that are worked out by one launch.
#[derive(Clone, Debug, PartialEq)]
struct Bin {
    first: Kind,
    /// Words that a document of it may have.
    limit: usize,
    order: Range<usize>,
    /// Words that its longest document has.
    most_words: usize,
}

impl Bin {
    /// The launches that work its documents out, one after the other: kernel, bytes of shared memory, and how many topics
    /// documents have that it takes: more than the one and at most the other. Many topics come first, since documents that
    /// come down to fewer go on with those.
    fn launches(&self, shape: &Shape, limit: usize) -> Vec<(Kind, usize, (usize, usize))> {
        let words = self.most_words;
        let mut launches = vec![(self.first, shape.shared(words, self.first), (0, MOST_TOPICS))];
        for (at, most) in LEFT.into_iter().enumerate().rev() {
            let above = at.checked_sub(1).map_or(0, |before| LEFT[before]);
            // How many threads depends on the words that documents may have, not on those that these happen to have.
            let bytes = |words: usize| 4 * (3 * words + most * (words | 1)) + OWN_SHARED;
            let kind = match self.limit {
                usize::MAX => Kind::RestFar,
                may if bytes(may) > limit => Kind::RestFar,
                may => Kind::rest(may, bytes(may), limit, most <= FEW),
            };
            let shared = if kind.is_far() { shape.shared(words, kind) } else { bytes(words) - OWN_SHARED };
            launches.push((kind, shared, (above, most)));
        }
        launches
    }
}

/// Documents on a GPU.
pub struct Documents {
    first: Buffer<u32>,
    word: Buffer<u32>,
    count: Buffer<f32>,
    tokens: Buffer<f32>,
    order: Buffer<u32>,
    bins: Vec<Bin>,
    /// Documents whose words are too many for the GPU.
    pub left: Vec<u32>,
    /// Tokens of each document.
    pub tokens_of: Vec<f32>,
    units_a_token: f32,
    shape: Shape,
    bytes: u64,
}

impl Documents {
    /// Bring documents onto the GPU. Words must be below the size of the vocabulary, and entries fewer than 2^32.
    pub fn upload(device: &Device, shape: Shape, packed: &Packer) -> Result<Documents> {
        let wrong = |detail: &str| Err(Error::Failed { action: "take documents", detail: detail.into() });
        if packed.entries() > u32::MAX as usize {
            return wrong("they have too many words at one time");
        }
        if packed.word.iter().any(|&v| v as usize >= shape.vocab_size) {
            return wrong("a word is beyond the vocabulary");
        }
        let (order, bins, left) = packed.bins(&shape, device.info().shared_memory);
        Ok(Documents {
            first: device.upload(&packed.first)?,
            word: device.upload(&packed.word)?,
            count: device.upload(&packed.count)?,
            tokens: device.upload(&packed.tokens)?,
            order: device.upload(&order)?,
            bins,
            left,
            tokens_of: packed.tokens.clone(),
            units_a_token: packed.units_a_token(),
            shape,
            bytes: Documents::bytes_of(packed),
        })
    }

    /// Bytes of the GPU's memory that documents take.
    pub fn bytes_of(packed: &Packer) -> u64 {
        (packed.entries() * 8 + packed.len() * 12) as u64
    }

    /// Bytes of the GPU's memory that they take.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Documents.
    pub fn len(&self) -> usize {
        self.tokens_of.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.tokens_of.is_empty()
    }
}

/// Settings of the document step, as in `lsparse`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// L.
    pub sparsity: usize,
    /// Iterations at most.
    pub iterations: usize,
    /// Counts that change by less rest.
    pub tolerance: f32,
    /// A topic with no more leaves its document.
    pub active_floor: f32,
    /// Topics that a document starts with at most, no more than [`MOST_TOPICS`].
    pub max_active: usize,
    /// Restart proposals a document at most.
    pub restarts: usize,
    /// Topics with no more are not proposed.
    pub restart_floor: f32,
}

/// Counts of earlier visits: document d's are `first[d]..first[d + 1]`.
#[derive(Clone, Debug, Default)]
pub struct Warm {
    /// Where each document's begin, and where the last one's end.
    pub first: Vec<u32>,
    /// Topics.
    pub topic: Vec<u32>,
    /// Their counts.
    pub count: Vec<f32>,
}

/// What a document leaves behind besides statistics; all zero for one without tokens.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Found {
    /// Entropy of its responsibilities.
    pub entropy: f64,
    /// Its allocation term.
    pub alloc: f64,
    /// The bound on its log likelihood.
    pub evidence: f64,
    /// Active topics at the end.
    pub active: u32,
    /// Iterations.
    pub iterations: u32,
    /// Restart proposals tried.
    pub proposed: u32,
    /// Restart proposals accepted.
    pub accepted: u32,
    /// 1 if it was worked out.
    pub solved: u32,
    unused: u32,
}

// Safe: plain numbers laid out as the kernels have them, of which zero is all bits zero.
unsafe impl DeviceRepr for Found {}
unsafe impl ValidAsZeroBits for Found {}

/// What documents leave behind.
#[derive(Clone, Debug, Default)]
pub struct Solved {
    /// Of each document.
    pub found: Vec<Found>,
    /// Topics and counts of each document, [`MOST_TOPICS`] places each, where they are asked for.
    pub counts: Option<(Vec<u32>, Vec<f32>)>,
    /// Mass of each topic.
    pub totals: Vec<f64>,
}

/// The arguments of the document step, as the kernels have them: addresses and numbers.
#[repr(C)]
#[derive(Clone, Copy)]
struct Step {
    first: u64,
    word: u64,
    count: u64,
    tokens: u64,
    order: u64,
    table: u64,
    scale: u64,
    alpha: u64,
    alpha_ln_gamma: u64,
    start_topic: u64,
    start_value: u64,
    warm_first: u64,
    warm_topic: u64,
    warm_count: u64,
    stats: u64,
    found: u64,
    left_topic: u64,
    left_count: u64,
    left_spread: u64,
    far: u64,
    far_stride: u64,
    alpha_sum_ln_gamma: f64,
    alpha_sum: f64,
    unit: f32,
    tolerance: f32,
    active_floor: f32,
    restart_floor: f32,
    num_documents: u32,
    most_words: u32,
    num_topics: u32,
    width: u32,
    start_width: u32,
    sparsity: u32,
    iterations: u32,
    max_active: u32,
    restarts: u32,
    above: u32,
    most_active: u32,
    unused: u32,
}

// Safe: the layout of the kernels' own structure, without padding.
unsafe impl DeviceRepr for Step {}

impl<'a> Argument<'a> for &'a Step {
    fn push(self, launch: &mut LaunchArgs<'a>) {
        launch.arg(self);
    }
}

/// Concentrations of documents, on the host.
pub struct Alphas<'a> {
    /// alpha_k.
    pub alpha: &'a [f32],
    /// ln gamma of each alpha_k.
    pub ln_gamma: &'a [f64],
    /// ln gamma of the sum of alphas.
    pub sum_ln_gamma: f64,
}

/// The document step on a GPU: alphas, statistics and room for the work.
pub struct DocumentStep {
    device: Arc<Device>,
    shape: Shape,
    kernels: Vec<Kernel>,
    count_entries: Kernel,
    write_entries: Kernel,
    add_words: Kernel,
    alpha: Buffer<f32>,
    alpha_ln_gamma: Buffer<f64>,
    alpha_sum: f64,
    alpha_sum_ln_gamma: f64,
    stats: Buffer<u64>,
    totals: Buffer<u64>,
    number: Buffer<u32>,
    lines: Lines,
    room: Option<Room>,
    far: Option<Buffer<f32>>,
}

/// What documents leave: [`MOST_TOPICS`] places each for their topics.
struct Room {
    found: Buffer<Found>,
    found_here: Pinned<Found>,
    topic: Buffer<u32>,
    count: Buffer<f32>,
    spread: Buffer<f32>,
}

impl DocumentStep {
    /// Room for topics of this shape.
    pub fn new(device: &Arc<Device>, shape: Shape) -> Result<DocumentStep> {
        let Shape { vocab_size, num_topics, .. } = shape;
        let limit = device.info().shared_memory.saturating_sub(OWN_SHARED);
        let kernels = Kind::ALL.iter().map(|(name, _)| device.kernel(&TOPICS, name, limit));
        Ok(DocumentStep {
            kernels: kernels.collect::<Result<_>>()?,
            count_entries: device.kernel(&TOPICS, "count_entries", 0)?,
            write_entries: device.kernel(&TOPICS, "write_entries", 0)?,
            add_words: device.kernel(&TOPICS, "add_words", 0)?,
            alpha: device.zeros(num_topics)?,
            alpha_ln_gamma: device.zeros(num_topics)?,
            alpha_sum: 0.0,
            alpha_sum_ln_gamma: 0.0,
            stats: device.zeros(vocab_size * num_topics)?,
            totals: device.zeros(num_topics)?,
            number: device.zeros(vocab_size)?,
            lines: device.lines(BINS.len())?,
            room: None,
            far: None,
            device: Arc::clone(device),
            shape,
        })
    }

    /// The shape it has room for.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The GPU.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Take up other concentrations.
    pub fn set_alphas(&mut self, alphas: &Alphas<'_>) -> Result<()> {
        let num_topics = self.shape.num_topics;
        if alphas.alpha.len() != num_topics || alphas.ln_gamma.len() != num_topics {
            return Err(Error::Failed { action: "take topics", detail: "they are not of the shape promised".into() });
        }
        self.device.upload_into(alphas.alpha, &mut self.alpha, 0)?;
        self.device.upload_into(alphas.ln_gamma, &mut self.alpha_ln_gamma, 0)?;
        self.alpha_sum = alphas.alpha.iter().map(|&a| f64::from(a)).sum();
        self.alpha_sum_ln_gamma = alphas.sum_ln_gamma;
        Ok(())
    }

    /// Work documents out under these topics, and give what they leave: their statistics, which stay on the GPU, and the
    /// rest.
    pub fn solve(
        &mut self,
        documents: &Documents,
        table: &Table,
        options: &Options,
        warm: Option<&Warm>,
        with_counts: bool,
    ) -> Result<(BatchWords, Solved)> {
        self.check(documents, table, options, warm)?;
        let device = Arc::clone(&self.device);
        self.make_room(documents)?;
        let warm = match warm {
            Some(warm) => Some((device.upload(&warm.first)?, device.upload(&warm.topic)?, device.upload(&warm.count)?)),
            None => None,
        };
        device.clear(&mut self.stats)?;
        device.clear(&mut self.totals)?;
        let (Some(room), Some(far)) = (&mut self.room, &mut self.far) else { unreachable!("there is room") };
        device.clear(&mut room.found)?;
        let at = |of: Option<u64>| of.unwrap_or(0);
        let limit = device.info().shared_memory;
        let (mut steps, mut far_from) = (Vec::new(), 0);
        for (line, bin) in documents.bins.iter().enumerate() {
            let base = Step {
                first: device.address(&documents.first),
                word: device.address(&documents.word),
                count: device.address(&documents.count),
                tokens: device.address(&documents.tokens),
                order: device.address(&documents.order) + 4 * bin.order.start as u64,
                table: device.address(&table.values),
                scale: device.address(&table.scale),
                alpha: device.address(&self.alpha),
                alpha_ln_gamma: device.address(&self.alpha_ln_gamma),
                start_topic: device.address(&table.start_topic),
                start_value: device.address(&table.start_value),
                warm_first: at(warm.as_ref().map(|warm| device.address(&warm.0))),
                warm_topic: at(warm.as_ref().map(|warm| device.address(&warm.1))),
                warm_count: at(warm.as_ref().map(|warm| device.address(&warm.2))),
                stats: device.address(&self.stats),
                found: device.address(&room.found),
                left_topic: device.address(&room.topic),
                left_count: device.address(&room.count),
                left_spread: device.address(&room.spread),
                far: device.address(far) + 4 * far_from as u64,
                far_stride: self.shape.block(bin.most_words) as u64,
                alpha_sum_ln_gamma: self.alpha_sum_ln_gamma,
                alpha_sum: self.alpha_sum,
                unit: documents.units_a_token,
                tolerance: options.tolerance,
                active_floor: options.active_floor,
                restart_floor: options.restart_floor,
                num_documents: bin.order.len() as u32,
                most_words: bin.most_words as u32,
                num_topics: self.shape.num_topics as u32,
                width: self.shape.width as u32,
                start_width: self.shape.start_width as u32,
                sparsity: options.sparsity.min(MOST_TOPICS) as u32,
                iterations: options.iterations.clamp(1, u32::MAX as usize) as u32,
                max_active: options.max_active as u32,
                restarts: options.restarts.min(u32::MAX as usize) as u32,
                above: 0,
                most_active: 0,
                unused: 0,
            };
            far_from += far_room(&device, &self.shape, bin, limit);
            for (kind, shared, (above, most)) in bin.launches(&self.shape, limit) {
                let blocks = if kind.is_far() { far_blocks(&device, bin) } else { bin.order.len() };
                let grid = Grid { blocks, threads: kind.threads(), shared };
                steps.push((line, kind, grid, Step { above: above as u32, most_active: most as u32, ..base }));
            }
        }
        device.side_by_side(&self.lines, || {
            steps.iter().try_for_each(|(line, kind, grid, step)| {
                // Safe: buffers have the lengths that shape and documents say, words and topics are within them, and blocks
                // of far documents have their room each. Lines share the statistics alone, which are added to.
                let mut launch = self.lines.launch_of(*line, &self.kernels[*kind as usize]);
                step.push(&mut launch);
                unsafe { device.launch(launch, *grid) }
            })
        })?;
        self.collect(documents, with_counts)
    }

    /// Refuse what the kernels would read beyond.
    fn check(&self, documents: &Documents, table: &Table, options: &Options, warm: Option<&Warm>) -> Result<()> {
        let beyond = |topic: &u32| *topic as usize >= self.shape.num_topics;
        let lists = |warm: &Warm| {
            let ends = warm.first.len() == documents.len() + 1 && warm.first.is_sorted();
            let all = warm.first.last().map_or(0, |&end| end as usize);
            !ends || warm.topic.len() != all || warm.count.len() != all || warm.topic.iter().any(beyond)
        };
        if documents.shape != self.shape || table.shape() != self.shape || warm.is_some_and(lists) {
            let detail = "they are of another shape than the topics".into();
            return Err(Error::Failed { action: "take documents", detail });
        }
        if !(1..=MOST_TOPICS).contains(&options.max_active) || options.sparsity == 0 {
            let detail = format!("documents have from 1 to {MOST_TOPICS} topics there");
            return Err(Error::Failed { action: "work documents out", detail });
        }
        Ok(())
    }

    /// See that there is room for what documents leave, and for the weights of those that are far.
    fn make_room(&mut self, documents: &Documents) -> Result<()> {
        let (device, number) = (&self.device, documents.len());
        if self.room.as_ref().is_none_or(|room| room.found.len() < number) {
            self.room = None;
            self.room = Some(Room {
                found: device.zeros(number)?,
                found_here: device.pinned(number)?,
                topic: device.zeros(number * MOST_TOPICS)?,
                count: device.zeros(number * MOST_TOPICS)?,
                spread: device.zeros(number * MOST_TOPICS)?,
            });
        }
        let limit = device.info().shared_memory;
        let room = documents.bins.iter().map(|bin| far_room(device, &self.shape, bin, limit)).sum();
        if self.far.as_ref().is_none_or(|far| far.len() < room) {
            self.far = None;
            self.far = Some(self.device.zeros(room)?);
        }
        Ok(())
    }

    /// Bring back what documents left, and make lists of their statistics, word by word.
    fn collect(&mut self, documents: &Documents, with_counts: bool) -> Result<(BatchWords, Solved)> {
        let device = Arc::clone(&self.device);
        let Shape { vocab_size, num_topics, .. } = self.shape;
        let (words, topics) = (vocab_size as u32, num_topics as u32);
        // A warp a word.
        let by_word = Grid { blocks: vocab_size.div_ceil(8), threads: 256, shared: 0 };
        let by_topic = Grid { blocks: vocab_size.min(128), threads: 256, shared: 0 };
        // Safe: the arguments are those of the kernels, and the buffers have an entry for each word and topic.
        unsafe {
            launch!(device, &self.count_entries, by_word, &self.stats, &words, &topics, &mut self.number)?;
            launch!(device, &self.add_words, by_topic, &self.stats, &words, &topics, &mut self.totals)?;
        }
        let number = device.download(&self.number, vocab_size)?;
        let mut batch = BatchWords::room(&device, num_topics, &number)?;
        let (first, topic, mass) = batch.places();
        let unit = f64::from(documents.units_a_token);
        // Safe: as above, and there is room for as many entries as were counted.
        unsafe {
            launch!(device, &self.write_entries, by_word, &self.stats, &words, &topics, &unit, first, topic, mass)?;
        }
        let Some(room) = &mut self.room else { unreachable!("there is room") };
        device.begin_download(&room.found, &mut room.found_here, documents.len())?;
        // (Waits for them all.)
        let totals = device.download(&self.totals, num_topics)?;
        let counts = match with_counts {
            true => {
                let places = documents.len() * MOST_TOPICS;
                Some((device.download(&room.topic, places)?, device.download(&room.count, places)?))
            }
            false => None,
        };
        let solved = Solved {
            found: room.found_here.get()?[..documents.len()].to_vec(),
            counts,
            totals: totals.iter().map(|&units| units as f64 / unit).collect(),
        };
        Ok((batch, solved))
    }
}

/// Blocks that work on far documents: each goes through several, in room of its own.
fn far_blocks(device: &Device, bin: &Bin) -> usize {
    bin.order.len().min(2 * device.info().multiprocessors)
}

/// Numbers that the weights of a bin's documents take outside shared memory.
fn far_room(device: &Device, shape: &Shape, bin: &Bin, limit: usize) -> usize {
    match bin.launches(shape, limit).iter().any(|(kind, ..)| kind.is_far()) {
        true => far_blocks(device, bin) * shape.block(bin.most_words),
        false => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { vocab_size: 9000, num_topics: 200, width: 208, start_width: 8 };
    const H200: usize = 232_448;

    fn packed(lengths: &[usize]) -> Packer {
        let mut packer = Packer::default();
        for &length in lengths {
            let words: Vec<u32> = (0..length as u32).collect();
            packer.push(&words, &vec![2.0; length]);
        }
        packer
    }

    #[test]
    fn every_document_is_in_one_bin_and_the_longest_come_first() {
        let lengths = [1, 32, 33, 0, 64, 829, 830, 831, 3000, 128, 97, 264];
        let mut packer = packed(&lengths);
        // Words that all count nothing.
        packer.push(&[3], &[0.0]);
        let (order, bins, left) = packer.bins(&SHAPE, H200);
        assert_eq!(left, []);
        let mut all = order.clone();
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11]);
        assert_eq!(bins[0], Bin { first: Kind::FirstFar, limit: usize::MAX, order: 0..1, most_words: 3000 });
        assert_eq!(bins[1], Bin { first: Kind::FirstFar, limit: 1080, order: 1..2, most_words: 831 });
        assert_eq!(order[..2], [8, 7]);
        let mut end = 0;
        for bin in &bins {
            assert_eq!(bin.order.start, end);
            end = bin.order.end;
            let words = order[bin.order.clone()].iter().map(|&d| lengths[d as usize]);
            assert!(words.clone().is_sorted_by(|a, b| a >= b));
            assert_eq!(words.max(), Some(bin.most_words));
            let launches = bin.launches(&SHAPE, H200);
            assert!(launches.iter().all(|&(_, shared, _)| shared + OWN_SHARED <= H200));
            assert_eq!(launches[0].0, bin.first);
            let classes: Vec<_> = launches[1..].iter().map(|launch| launch.2).collect();
            assert_eq!(
                classes,
                [(48, 64), (32, 48), (24, 32), (16, 24), (0, 16)],
                "every number of topics is taken once"
            );
        }
        assert_eq!(end, order.len());
    }

    #[test]
    fn threads_depend_on_words_and_the_kind_of_gpu_alone() {
        let kind = |words, shape: &Shape, limit| shape.bin(words, limit).map(|bin| BINS[bin].1);
        assert_eq!(kind(64, &SHAPE, H200), Some(Kind::First32));
        assert_eq!(kind(65, &SHAPE, H200), Some(Kind::First128));
        assert_eq!(kind(300, &SHAPE, H200), Some(Kind::First256));
        // A whole bin goes, so that it does not depend on which documents there are.
        assert_eq!(kind(350, &SHAPE, 99 << 10), Some(Kind::FirstFar));
        assert_eq!(kind(400, &SHAPE, 99 << 10), Some(Kind::FirstFar));
        // So many topics that the masses of a document's first ones have no room in shared memory.
        let many = Shape { num_topics: 60_000, width: 60_000, ..SHAPE };
        assert_eq!(kind(10, &many, H200), Some(Kind::FirstFar));
        assert_eq!(kind(100_000, &SHAPE, H200), None);
        assert_eq!(Kind::ALL[Kind::RestFar as usize], ("rest_far", 512));
        assert_eq!(Kind::Rest32.threads(), 32);
        // Of the rest: the more memory a document takes, the more threads it has.
        let rest = |words: usize, limit| {
            let bin = Bin { first: Kind::First128, limit, order: 0..1, most_words: words };
            bin.launches(&SHAPE, H200)[1..].iter().map(|launch| launch.0).collect::<Vec<_>>()
        };
        assert_eq!(rest(70, 96), [Kind::Wide32, Kind::Wide32, Kind::Wide32, Kind::Wide32, Kind::Rest32]);
        assert_eq!(rest(200, 256), [Kind::Wide256, Kind::Wide256, Kind::Wide128, Kind::Wide128, Kind::Rest64]);
        assert_eq!(rest(420, 560), [Kind::Wide512, Kind::Wide512, Kind::Wide512, Kind::Wide256, Kind::Rest128]);
        assert_eq!(rest(420, 560), rest(560, 560), "whatever documents there are");
        assert_eq!(rest(1000, 1080), [Kind::RestFar, Kind::Wide512, Kind::Wide512, Kind::Wide512, Kind::Rest256]);
        assert_eq!(rest(2000, usize::MAX), [Kind::RestFar; 5]);
    }

    #[test]
    fn a_document_that_is_too_long_is_left() {
        let (order, bins, left) = packed(&[20, 25_000, 7]).bins(&SHAPE, H200);
        assert_eq!((order, bins.len(), left), (vec![0, 2], 1, vec![1]));
    }

    #[test]
    fn units_leave_room_for_all_tokens() {
        let mut packer = packed(&[10]);
        assert_eq!(packer.units_a_token(), 44f32.exp2());
        packer.push(&[0], &[4e9]);
        let units = packer.units_a_token();
        assert!(f64::from(units) * 4e9 < 62f64.exp2() && units >= 28f32.exp2(), "{units}");
        packer.push(&[0], &[1e30]);
        assert!(f64::from(packer.units_a_token()) * 1e30 < 62f64.exp2());
        assert_eq!((packer.len(), packer.entries()), (3, 12));
        packer.clear();
        assert!(packer.is_empty());
    }

    #[test]
    fn arguments_have_the_layout_of_the_kernels() {
        assert_eq!((size_of::<Step>(), size_of::<Found>()), (21 * 8 + 2 * 8 + 4 * 4 + 12 * 4, 48));
        let source = include_str!("../kernels/topics.cu");
        assert!(source.contains(&format!("MOST_TOPICS = {MOST_TOPICS}")));
    }
}
