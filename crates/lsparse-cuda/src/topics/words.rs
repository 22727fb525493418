//! Statistics of words on a GPU: what batches gave, the sum of it, and topics as documents see them.

use std::sync::Arc;

use super::Shape;
use crate::artefacts::WORDS;
use crate::device::{Buffer, Device, Grid, Kernel, Pinned, Plain, launch};
use crate::error::{Error, Result};

/// Lists on the host: word v's topics, ascending, and their mass are `first[v]..first[v + 1]`.
#[derive(Clone, Copy)]
pub struct Lists<'a, M> {
    /// Where each word's begin, and where the last one's end.
    pub first: &'a [usize],
    /// Topics.
    pub topic: &'a [u32],
    /// Mass, not negative.
    pub mass: &'a [M],
}

/// The same, brought from a GPU.
pub type Brought<M> = (Vec<usize>, Vec<u32>, Vec<M>);

/// What is added to a total.
#[derive(Clone, Copy)]
pub enum Part<'a> {
    /// What a batch gave.
    Batch(&'a BatchWords),
    /// Another total.
    Total(&'a TotalWords),
    /// A total that was on the host.
    Sparse(&'a SparseTotal),
}

/// Lists on a GPU.
struct There<M> {
    first: Buffer<u32>,
    topic: Buffer<u32>,
    mass: Buffer<M>,
    first_here: Vec<usize>,
}

impl<M: Plain> There<M> {
    fn upload(device: &Device, (words, topics): (usize, usize), lists: &Lists<'_, M>) -> Result<Self> {
        let Lists { first, topic, mass } = *lists;
        let ends = first.len() == words + 1 && first.first() == Some(&0) && first.is_sorted();
        let all = first.last().is_some_and(|&end| end == topic.len() && end == mass.len() && end <= u32::MAX as usize);
        if !ends || !all || topic.iter().any(|&k| k as usize >= topics) {
            return Err(of_another_shape());
        }
        let places: Vec<u32> = first.iter().map(|&at| at as u32).collect();
        Ok(There {
            first: device.upload(&places)?,
            topic: device.upload(topic)?,
            mass: device.upload(mass)?,
            first_here: first.to_vec(),
        })
    }

    /// Room for the lists of words that have so many entries each.
    fn room(device: &Device, number: &[u32]) -> Result<Self> {
        let mut first_here = Vec::with_capacity(number.len() + 1);
        first_here.push(0usize);
        number.iter().for_each(|&n| first_here.push(first_here[first_here.len() - 1] + n as usize));
        let entries = first_here[number.len()];
        if entries > u32::MAX as usize {
            let detail = "there are too many entries at one time".into();
            return Err(Error::Failed { action: "gather statistics", detail });
        }
        let places: Vec<u32> = first_here.iter().map(|&at| at as u32).collect();
        Ok(There {
            first: device.upload(&places)?,
            topic: device.uninitialized(entries)?,
            mass: device.uninitialized(entries)?,
            first_here,
        })
    }

    fn entries(&self) -> usize {
        self.first_here.last().copied().unwrap_or(0)
    }

    fn download(&self, device: &Device) -> Result<Brought<M>> {
        let entries = self.entries();
        let (topic, mass) = (device.download(&self.topic, entries)?, device.download(&self.mass, entries)?);
        Ok((self.first_here.clone(), topic, mass))
    }
}

fn of_another_shape() -> Error {
    Error::Failed { action: "take statistics", detail: "they are not of the shape promised".into() }
}

/// Statistics that a batch gave: for each word its topics and their mass.
pub struct BatchWords {
    device: Arc<Device>,
    sizes: (usize, usize),
    lists: There<f32>,
}

impl BatchWords {
    /// Room for words that have so many entries each; V is their number.
    pub(super) fn room(device: &Arc<Device>, num_topics: usize, number: &[u32]) -> Result<Self> {
        let lists = There::room(device, number)?;
        Ok(BatchWords { device: Arc::clone(device), sizes: (number.len(), num_topics), lists })
    }

    /// Where lists begin, topics and mass, to be written.
    pub(super) fn places(&mut self) -> (&Buffer<u32>, &mut Buffer<u32>, &mut Buffer<f32>) {
        (&self.lists.first, &mut self.lists.topic, &mut self.lists.mass)
    }

    /// Bring those of a batch onto a GPU; `sizes` are V and K.
    pub fn upload(device: &Arc<Device>, sizes: (usize, usize), lists: &Lists<'_, f32>) -> Result<Self> {
        Ok(BatchWords { lists: There::upload(device, sizes, lists)?, device: Arc::clone(device), sizes })
    }

    /// The GPU that they lie on.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// V and K.
    pub fn sizes(&self) -> (usize, usize) {
        self.sizes
    }

    /// Bring them to the host.
    pub fn download(&self) -> Result<Brought<f32>> {
        self.lists.download(&self.device)
    }
}

/// Statistics in double precision as lists: a total on its way from the host.
pub struct SparseTotal {
    sizes: (usize, usize),
    lists: There<f64>,
}

impl SparseTotal {
    /// Bring lists onto a GPU; `sizes` are V and K.
    pub fn upload(device: &Arc<Device>, sizes: (usize, usize), lists: &Lists<'_, f64>) -> Result<Self> {
        Ok(SparseTotal { lists: There::upload(device, sizes, lists)?, sizes })
    }
}

/// The kernels of totals and tables.
struct Kernels {
    add_batch: Kernel,
    add_doubles: Kernel,
    add_total: Kernel,
    scale_total: Kernel,
    count_words: Kernel,
    write_batch: Kernel,
    write_doubles: Kernel,
}

/// The sum of statistics: mass of every word in every topic.
pub struct TotalWords {
    device: Arc<Device>,
    kernels: Kernels,
    sizes: (usize, usize),
    mass: Buffer<f64>,
}

impl TotalWords {
    /// No mass of V words in K topics.
    pub fn zeros(device: &Arc<Device>, (words, topics): (usize, usize)) -> Result<Self> {
        let kernel = |name| device.kernel(&WORDS, name, 0);
        Ok(TotalWords {
            kernels: Kernels {
                add_batch: kernel("add_batch")?,
                add_doubles: kernel("add_doubles")?,
                add_total: kernel("add_total")?,
                scale_total: kernel("scale_total")?,
                count_words: kernel("count_words")?,
                write_batch: kernel("write_batch")?,
                write_doubles: kernel("write_doubles")?,
            },
            sizes: (words, topics),
            mass: device.zeros(words * topics)?,
            device: Arc::clone(device),
        })
    }

    /// Bytes of a GPU's memory that a total takes.
    pub fn bytes((words, topics): (usize, usize)) -> u64 {
        8 * words as u64 * topics as u64
    }

    /// The GPU that it lies on.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// V and K.
    pub fn sizes(&self) -> (usize, usize) {
        self.sizes
    }

    /// The same once more.
    pub fn copy(&self) -> Result<Self> {
        let mut copy = TotalWords::zeros(&self.device, self.sizes)?;
        copy.add(Part::Total(self), 1.0)?;
        Ok(copy)
    }

    /// The mass of every word in every topic, word by word.
    pub(super) fn mass(&self) -> &Buffer<f64> {
        &self.mass
    }

    /// The same, to be changed.
    pub(super) fn mass_mut(&mut self) -> &mut Buffer<f64> {
        &mut self.mass
    }

    /// Bring lists onto a GPU as a total; `sizes` are V and K.
    pub fn upload(device: &Arc<Device>, sizes: (usize, usize), lists: &Lists<'_, f64>) -> Result<Self> {
        let sparse = SparseTotal::upload(device, sizes, lists)?;
        let mut total = TotalWords::zeros(device, sizes)?;
        total.add(Part::Sparse(&sparse), 1.0)?;
        Ok(total)
    }

    /// Forget all mass.
    pub fn clear(&mut self) -> Result<()> {
        self.device.clear(&mut self.mass)
    }

    /// A warp a word.
    fn by_word(&self) -> Grid {
        Grid { blocks: self.sizes.0.div_ceil(8), threads: 256, shared: 0 }
    }

    fn by_entry(&self) -> (Grid, u64) {
        let number = self.sizes.0 * self.sizes.1;
        (Grid { blocks: number.div_ceil(1024).clamp(1, 1 << 16), threads: 256, shared: 0 }, number as u64)
    }

    /// Add other statistics of the same GPU times a factor; nothing is left below zero. Takes no memory.
    pub fn add(&mut self, part: Part<'_>, factor: f64) -> Result<()> {
        let sizes = match part {
            Part::Batch(batch) => batch.sizes,
            Part::Total(total) => total.sizes,
            Part::Sparse(total) => total.sizes,
        };
        if sizes != self.sizes {
            return Err(of_another_shape());
        }
        let (words, topics) = (sizes.0 as u32, sizes.1 as u32);
        let (by_word, (by_entry, number)) = (self.by_word(), self.by_entry());
        let TotalWords { device, kernels, mass, .. } = self;
        // Safe: the arguments are those of the kernels, lists have topics of this shape, each once a word, and the total
        // has an entry for each word and topic.
        unsafe {
            match part {
                Part::Batch(BatchWords { lists: There { first, topic, mass: of, .. }, .. }) => {
                    let add = &kernels.add_batch;
                    launch!(device, add, by_word, first, topic, of, &factor, &words, &topics, &mut *mass)
                }
                Part::Sparse(SparseTotal { lists: There { first, topic, mass: of, .. }, .. }) => {
                    let add = &kernels.add_doubles;
                    launch!(device, add, by_word, first, topic, of, &factor, &words, &topics, &mut *mass)
                }
                Part::Total(other) => {
                    launch!(device, &kernels.add_total, by_entry, &other.mass, &factor, &number, &mut *mass)
                }
            }
        }
    }

    /// All mass times a factor.
    pub fn scale(&mut self, factor: f64) -> Result<()> {
        if factor == 0.0 {
            return self.clear();
        }
        let (grid, number) = self.by_entry();
        // Safe: the total has as many entries.
        unsafe { launch!(self.device, &self.kernels.scale_total, grid, &factor, &number, &mut self.mass) }
    }

    /// Entries of each word.
    fn count(&self) -> Result<Vec<u32>> {
        let (words, topics) = (self.sizes.0 as u32, self.sizes.1 as u32);
        let mut number = self.device.zeros::<u32>(self.sizes.0)?;
        // Safe: there is a number for each word.
        unsafe {
            let count = &self.kernels.count_words;
            launch!(self.device, count, self.by_word(), &self.mass, &words, &topics, &mut number)?;
        }
        self.device.download(&number, self.sizes.0)
    }

    /// The same as a batch has it, in single precision.
    pub fn as_batch(&self) -> Result<BatchWords> {
        let mut batch = BatchWords::room(&self.device, self.sizes.1, &self.count()?)?;
        let (words, topics) = (self.sizes.0 as u32, self.sizes.1 as u32);
        let (first, topic, mass) = batch.places();
        // Safe: there is room for as many entries as were counted.
        unsafe {
            let write = &self.kernels.write_batch;
            launch!(self.device, write, self.by_word(), &self.mass, &words, &topics, first, topic, mass)?;
        }
        Ok(batch)
    }

    /// Bring it to the host.
    pub fn download(&self) -> Result<Brought<f64>> {
        match self.download_lists() {
            // All of it takes no memory there.
            Err(Error::OutOfMemory { .. }) => self.download_all(),
            result => result,
        }
    }

    fn download_all(&self) -> Result<Brought<f64>> {
        let (words, topics) = self.sizes;
        let all = self.device.download(&self.mass, words * topics)?;
        let (mut first, mut topic, mut mass) = (vec![0], Vec::new(), Vec::new());
        for row in all.chunks_exact(topics.max(1)) {
            for (k, &value) in row.iter().enumerate().filter(|(_, value)| **value > 0.0) {
                topic.push(k as u32);
                mass.push(value);
            }
            first.push(topic.len());
        }
        Ok((first, topic, mass))
    }

    fn download_lists(&self) -> Result<Brought<f64>> {
        let mut lists = There::<f64>::room(&self.device, &self.count()?)?;
        let (words, topics) = (self.sizes.0 as u32, self.sizes.1 as u32);
        let There { first, topic, mass, .. } = &mut lists;
        // Safe: there is room for as many entries as were counted.
        unsafe {
            let write = &self.kernels.write_doubles;
            launch!(self.device, write, self.by_word(), &self.mass, &words, &topics, &*first, topic, mass)?;
        }
        lists.download(&self.device)
    }
}

/// What topics are besides statistics.
#[derive(Clone, Copy, Debug)]
pub struct Rule<'a> {
    /// Pseudo-count of every word in every topic.
    pub lambda: f64,
    /// exp(psi(count)) rather than the count.
    pub posterior: bool,
    /// The entry of a topic that has none of a word.
    pub none: f32,
    /// Its share in the data term.
    pub none_term: f64,
    /// One factor a topic.
    pub scale: &'a [f32],
}

/// Numbers of a table that are copied at one time.
const STAGED: usize = 1 << 22;

/// Topics whose weights of a word are held in shared memory, at most.
const HELD: usize = 10_000;

/// Topics as documents see them: weights of all words, and the topics that each word starts a document with.
pub struct Table {
    device: Arc<Device>,
    write_table: Kernel,
    write_starts: Kernel,
    shape: Shape,
    pull: Option<There<f32>>,
    pub(super) values: Buffer<f32>,
    pub(super) scale: Buffer<f32>,
    pub(super) start_topic: Buffer<u32>,
    pub(super) start_value: Buffer<f32>,
    terms: Buffer<f64>,
    staged: Option<[Pinned<f32>; 2]>,
}

impl Table {
    /// Room for a table; words that pull topics have their pseudo-counts from `pull`.
    pub fn new(device: &Arc<Device>, shape: Shape, pull: Option<Lists<'_, f32>>) -> Result<Self> {
        let Shape { vocab_size, num_topics, width, start_width } = shape;
        if start_width >= num_topics || width < num_topics {
            return Err(of_another_shape());
        }
        let pull = pull.map(|pull| There::upload(device, (vocab_size, num_topics), &pull)).transpose()?;
        Ok(Table {
            write_table: device.kernel(&WORDS, "write_table", 0)?,
            write_starts: device.kernel(&WORDS, "write_starts", 0)?,
            shape,
            pull,
            values: device.zeros(vocab_size * width)?,
            scale: device.zeros(num_topics)?,
            start_topic: device.zeros(vocab_size * start_width)?,
            start_value: device.zeros(vocab_size * start_width)?,
            terms: device.zeros(vocab_size)?,
            staged: None,
            device: Arc::clone(device),
        })
    }

    /// The GPU that it lies on.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// How large it is.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Write it for these statistics. Gives the share of each word in the data term.
    pub fn write(&mut self, total: &TotalWords, rule: &Rule<'_>) -> Result<Vec<f64>> {
        let Shape { vocab_size, num_topics, width, start_width } = self.shape;
        if total.sizes != (vocab_size, num_topics) || rule.scale.len() != num_topics {
            return Err(of_another_shape());
        }
        self.device.upload_into(rule.scale, &mut self.scale, 0)?;
        let (topics, wide, kept) = (num_topics as u32, width as u32, start_width as u32);
        let posterior = u32::from(rule.posterior);
        let pull = self.pull.as_ref();
        let by_word = Grid { blocks: vocab_size, threads: 256, shared: 0 };
        let holds = u32::from(num_topics <= HELD);
        let by_start = Grid { blocks: vocab_size, threads: 128, shared: holds as usize * num_topics * 4 };
        // Safe: the arguments are those of the kernels, the buffers have the lengths that the shape says, and lists of what
        // pulls have topics of it.
        unsafe {
            launch!(
                self.device,
                &self.write_table,
                by_word,
                &total.mass,
                pull.map(|pull| &pull.first),
                pull.map(|pull| &pull.topic),
                pull.map(|pull| &pull.mass),
                &topics,
                &wide,
                &rule.lambda,
                &posterior,
                &rule.none,
                &rule.none_term,
                &mut self.values,
                &mut self.terms
            )?;
            if start_width > 0 {
                launch!(
                    self.device,
                    &self.write_starts,
                    by_start,
                    &self.values,
                    &self.scale,
                    &topics,
                    &wide,
                    &kept,
                    &holds,
                    &mut self.start_topic,
                    &mut self.start_value
                )?;
            }
        }
        self.device.download(&self.terms, vocab_size)
    }

    /// Take a table that was written on the host: scales, starts, and stretches of its entries that `fill` is called with
    /// one after the other, and where they begin.
    pub fn fill(
        &mut self,
        scale: &[f32],
        (start_topic, start_value): (&[u32], &[f32]),
        mut fill: impl FnMut(usize, &mut [f32]),
    ) -> Result<()> {
        let Shape { vocab_size, num_topics, width, start_width } = self.shape;
        let starts = vocab_size * start_width;
        let lengths = [(scale.len(), num_topics), (start_topic.len(), starts), (start_value.len(), starts)];
        if lengths.iter().any(|(have, want)| have != want) || start_topic.iter().any(|&k| k as usize >= num_topics) {
            return Err(Error::Failed { action: "take topics", detail: "they are not of the shape promised".into() });
        }
        self.device.upload_into(scale, &mut self.scale, 0)?;
        self.device.upload_into(start_topic, &mut self.start_topic, 0)?;
        self.device.upload_into(start_value, &mut self.start_value, 0)?;
        let entries = vocab_size * width;
        let staged = match &mut self.staged {
            Some(staged) => staged,
            none => none.insert([self.device.pinned(entries.min(STAGED))?, self.device.pinned(entries.min(STAGED))?]),
        };
        // While one stretch is on its way the next is filled; at most one is on its way.
        for (number, first) in (0..entries).step_by(STAGED).enumerate() {
            let len = STAGED.min(entries - first);
            let staged = &mut staged[number % 2];
            fill(first, &mut staged.get_mut()?[..len]);
            self.device.synchronize()?;
            self.device.begin_upload(staged, len, &mut self.values, first)?;
        }
        self.device.synchronize()
    }

    /// Bring entries, and topics and responsibilities of starts, to the host.
    pub fn download(&self) -> Result<(Vec<f32>, Vec<u32>, Vec<f32>)> {
        let Shape { vocab_size, width, start_width, .. } = self.shape;
        let values = self.device.download(&self.values, vocab_size * width)?;
        let starts = vocab_size * start_width;
        Ok((values, self.device.download(&self.start_topic, starts)?, self.device.download(&self.start_value, starts)?))
    }
}
