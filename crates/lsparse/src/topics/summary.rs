//! Statistics of topics: for each word the topics that have any of it, and how much.

use std::fmt;
use std::ops::Range;

use rayon::prelude::*;
use serde::{Deserialize, Serialize, Serializer};

use crate::backend::with_buffers;
use crate::error;
use crate::topics::growth::trial::{Trial, remapped};
use crate::topics::held::{self, Held};
use crate::training::moves::Remap;
use crate::training::summary::Summary;

/// A number that mass is held in: single precision bounds a memo's size and is far below the noise of the estimate,
/// double precision keeps totals exact.
pub trait Mass: Copy + Default + Into<f64> + Send + Sync + 'static {
    /// The nearest number of this kind.
    fn from_f64(value: f64) -> Self;
}

impl Mass for f32 {
    fn from_f64(value: f64) -> Self {
        value as f32
    }
}

impl Mass for f64 {
    fn from_f64(value: f64) -> Self {
        value
    }
}

/// For each word a list of (topic, mass), topics ascending.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SparseStats<M> {
    /// Word v's entries are `indptr[v]..indptr[v + 1]`.
    pub indptr: Vec<usize>,
    /// Topics.
    pub topic: Vec<u32>,
    /// Mass.
    pub mass: Vec<M>,
}

/// Tasks that words are shared out in, about: enough for many threads to have some.
const WORD_TASKS: usize = 64;

/// Lists that are cut by one task.
const LISTS_A_TASK: usize = 16;

/// Words of a parallel task: enough to pay for handing it out.
fn words_a_task(vocab_size: usize) -> usize {
    vocab_size.div_ceil(WORD_TASKS).clamp(32, 1024)
}

/// What a task of words leaves: entries word by word, and how many each word has.
#[derive(Default)]
struct Piece<M> {
    lengths: Vec<usize>,
    topic: Vec<u32>,
    mass: Vec<M>,
}

impl<M> Piece<M> {
    /// Nothing, in the same memory.
    fn clear(&mut self) {
        self.lengths.clear();
        self.topic.clear();
        self.mass.clear();
    }
}

/// Mass by topic while the entries of one word are added up, with a bit for each topic that has any: what is there is
/// found in order without sorting.
#[derive(Default)]
struct Adder {
    mass: Vec<f64>,
    there: Vec<u64>,
    /// Entries of some words from lists, by word: word v's are `start[v]..start[v + 1]`, counted from the first.
    start: Vec<usize>,
    grouped: Vec<(u32, f32)>,
}

impl Adder {
    /// Room for so many topics; what is there is nothing, as words leave it.
    fn begin(&mut self, num_topics: usize) {
        self.mass.resize(num_topics, 0.0);
        self.there.resize(num_topics.div_ceil(64), 0);
    }

    #[inline]
    fn add(&mut self, topic: u32, mass: f64) {
        self.mass[topic as usize] += mass;
        self.there[topic as usize / 64] |= 1 << (topic % 64);
    }

    /// Add a word's entries, topics ascending, times a factor. What is taken away leaves nothing below zero, as if the word
    /// had been finished in between.
    fn add_word<M: Mass>(&mut self, (topic, mass): (&[u32], &[M]), factor: f64) {
        // Bits of neighbours come together before they are noted: none waits for the one before.
        let (mut place, mut bits) = (0, 0u64);
        for (&k, &m) in topic.iter().zip(mass) {
            let k = k as usize;
            let sum = &mut self.mass[k];
            *sum = (*sum + factor * m.into()).max(0.0);
            if k / 64 != place {
                self.there[place] |= bits;
                (place, bits) = (k / 64, 0);
            }
            bits |= 1 << (k % 64);
        }
        if bits != 0 {
            self.there[place] |= bits;
        }
    }

    /// Hand over what has come together, as a word's entries, and start anew. Entries that come to nothing are left
    /// out: taking away what was added may also leave a trace of rounding on the wrong side of zero.
    fn finish<M: Mass>(&mut self, piece: &mut Piece<M>) {
        let before = piece.topic.len();
        for (i, bits) in self.there.iter_mut().enumerate() {
            let mut left = std::mem::take(bits);
            while left != 0 {
                let k = i * 64 + left.trailing_zeros() as usize;
                left &= left - 1;
                let mass = std::mem::take(&mut self.mass[k]);
                if mass > 0.0 {
                    piece.topic.push(k as u32);
                    piece.mass.push(M::from_f64(mass));
                }
            }
        }
        piece.lengths.push(piece.topic.len() - before);
    }
}

impl<M: Mass> SparseStats<M> {
    /// No mass for any of `vocab_size` words.
    pub fn empty(vocab_size: usize) -> Self {
        SparseStats { indptr: vec![0; vocab_size + 1], topic: Vec::new(), mass: Vec::new() }
    }

    /// V.
    pub fn vocab_size(&self) -> usize {
        self.indptr.len() - 1
    }

    /// Whether the lists are what they should be, for statistics that come from a file; says what is wrong.
    pub fn check(&self, num_topics: usize) -> Result<(), String> {
        let ends = self.indptr.first() == Some(&0) && self.indptr.last() == Some(&self.topic.len());
        if !ends || !self.indptr.is_sorted() || self.mass.len() != self.topic.len() {
            return Err("the statistics of its words do not add up to their number".into());
        }
        for v in 0..self.vocab_size() {
            let (topic, mass) = self.word(v);
            if topic.last().is_some_and(|&k| k as usize >= num_topics) || !topic.is_sorted_by(|a, b| a < b) {
                return Err(format!("the topics of word {v} are not ascending or out of range"));
            }
            if mass.iter().any(|&m| !(m.into() >= 0.0 && m.into().is_finite())) {
                return Err(format!("the statistics of word {v} are not positive numbers"));
            }
        }
        Ok(())
    }

    /// Entries of a word.
    pub fn word(&self, v: usize) -> (&[u32], &[M]) {
        let of_v = self.indptr[v]..self.indptr[v + 1];
        (&self.topic[of_v.clone()], &self.mass[of_v])
    }

    /// The mass of a word in every topic.
    pub fn dense_word(&self, v: usize, num_topics: usize) -> Vec<f64> {
        let mut row = vec![0.0; num_topics];
        let (topic, mass) = self.word(v);
        topic.iter().zip(mass).for_each(|(&k, &m)| row[k as usize] = m.into());
        row
    }

    /// Statistics from a function that pushes the entries of word v, topics ascending.
    pub fn by_word(vocab_size: usize, entries: impl FnMut(usize, &mut Vec<(u32, M)>)) -> Self {
        Self::by_word_with_room(vocab_size, 0, entries)
    }

    /// The same with room for so many entries.
    pub(super) fn by_word_with_room(
        vocab_size: usize,
        about: usize,
        mut entries: impl FnMut(usize, &mut Vec<(u32, M)>),
    ) -> Self {
        let mut stats = SparseStats::empty(vocab_size);
        stats.topic.reserve(about);
        stats.mass.reserve(about);
        let mut row = Vec::new();
        for v in 0..vocab_size {
            row.clear();
            entries(v, &mut row);
            stats.topic.extend(row.iter().map(|e| e.0));
            stats.mass.extend(row.iter().map(|e| e.1));
            stats.indptr[v + 1] = stats.topic.len();
        }
        stats
    }

    /// Statistics over another list of words: word v takes those of the word at `place(v)`, if it has one.
    pub fn moved(&self, vocab_size: usize, place: impl Fn(usize) -> Option<usize>) -> Self {
        SparseStats::by_word(vocab_size, |v, row| {
            if let Some(from) = place(v) {
                let (topic, mass) = self.word(from);
                row.extend(topic.iter().copied().zip(mass.iter().copied()));
            }
        })
    }

    /// Replace every word's entries by what `task` pushes for a range of words, ranges in parallel; `pieces` is room for it.
    fn rebuild(
        &mut self,
        num_topics: usize,
        pieces: &mut Vec<Piece<M>>,
        task: impl Fn(&Self, Range<usize>, &mut Adder, &mut Piece<M>) + Sync,
    ) {
        let vocab_size = self.vocab_size();
        let size = words_a_task(vocab_size);
        pieces.resize_with(vocab_size.div_ceil(size), Piece::default);
        pieces.par_iter_mut().enumerate().with_max_len(1).for_each(|(t, piece)| {
            let words = t * size..((t + 1) * size).min(vocab_size);
            piece.clear();
            with_buffers(|adder: &mut Adder| {
                adder.begin(num_topics);
                task(self, words, adder, piece);
            });
        });
        let mut v = 0;
        for length in pieces.iter().flat_map(|piece| &piece.lengths) {
            self.indptr[v + 1] = self.indptr[v] + length;
            v += 1;
        }
        let entries = self.indptr[v];
        self.topic.resize(entries, 0);
        self.mass.resize(entries, M::default());
        let (mut topics, mut masses) = (&mut self.topic[..], &mut self.mass[..]);
        let mut places = Vec::with_capacity(pieces.len());
        for piece in &*pieces {
            let (topic, more_topics) = topics.split_at_mut(piece.topic.len());
            let (mass, more_masses) = masses.split_at_mut(piece.mass.len());
            (topics, masses) = (more_topics, more_masses);
            places.push((topic, mass, piece));
        }
        places.into_par_iter().with_max_len(1).for_each(|(topic, mass, piece)| {
            topic.copy_from_slice(&piece.topic);
            mass.copy_from_slice(&piece.mass);
        });
    }

    /// Add lists of (word, topic, mass), words ascending within a list; each word's entries are summed in the order of
    /// the lists.
    pub fn add_lists(&mut self, num_topics: usize, lists: &[Entries<'_>]) {
        // Where the words of each task begin in each list: lists are gone through once, not once a task.
        let size = words_a_task(self.vocab_size());
        let tasks = self.vocab_size().div_ceil(size);
        let cuts: Vec<Vec<u32>> = lists
            .par_iter()
            .with_min_len(LISTS_A_TASK)
            .map(|list| {
                let mut from = 0;
                let cut = |t: usize| {
                    let low = (t * size) as u32;
                    from += list.word[from..].iter().take_while(|&&v| v < low).count();
                    from as u32
                };
                (0..=tasks).map(cut).collect()
            })
            .collect();
        self.rebuild(num_topics, &mut Vec::new(), |old, words, adder, piece| {
            // Entries of these words, grouped by word.
            let (first, t) = (words.start, words.start / size);
            let ranges = || cuts.iter().map(|cut| cut[t] as usize..cut[t + 1] as usize);
            let Adder { start, grouped, .. } = adder;
            // Sizes stand two places behind, so that places can be counted up from where each word starts.
            start.clear();
            start.resize(words.len() + 2, 0);
            for (list, range) in lists.iter().zip(ranges()) {
                list.word[range].iter().for_each(|&v| start[v as usize - first + 2] += 1);
            }
            for i in 2..start.len() {
                start[i] += start[i - 1];
            }
            grouped.resize(start[words.len() + 1], (0, 0.0));
            for (list, range) in lists.iter().zip(ranges()) {
                for at in range {
                    let to = &mut start[list.word[at] as usize - first + 1];
                    grouped[*to] = (list.topic[at], list.mass[at]);
                    *to += 1;
                }
            }
            let (start, grouped) = (std::mem::take(start), std::mem::take(grouped));
            for v in words {
                let (topic, mass) = old.word(v);
                topic.iter().zip(mass).for_each(|(&k, &m)| adder.add(k, m.into()));
                let fresh = &grouped[start[v - first]..start[v - first + 1]];
                fresh.iter().for_each(|&(k, m)| adder.add(k, f64::from(m)));
                adder.finish(piece);
            }
            (adder.start, adder.grouped) = (start, grouped);
        });
    }

    fn resident_bytes(&self) -> usize {
        size_of_val(self.indptr.as_slice()) + size_of_val(self.topic.as_slice()) + size_of_val(self.mass.as_slice())
    }

    fn scale(&mut self, factor: f64) {
        if factor == 0.0 {
            *self = SparseStats::empty(self.vocab_size());
        } else {
            self.mass.par_iter_mut().for_each(|m| *m = M::from_f64((*m).into() * factor));
        }
    }
}

impl SparseStats<f64> {
    /// Statistics from a function that adds the entries of word v, in any order of topics; words in parallel.
    pub fn gathered(
        vocab_size: usize,
        num_topics: usize,
        of_word: impl Fn(usize, &mut dyn FnMut(u32, f32)) + Sync,
    ) -> Self {
        let mut stats = SparseStats::empty(vocab_size);
        stats.rebuild(num_topics, &mut Vec::new(), |_, words, adder, piece| {
            for v in words {
                of_word(v, &mut |topic, mass| adder.add(topic, f64::from(mass)));
                adder.finish(piece);
            }
        });
        stats
    }

    /// Add other statistics, each times its factor, one after the other; to nothing where `anew`.
    fn add_all(&mut self, num_topics: usize, others: &[(WordsHere<'_>, f64)], anew: bool) {
        let of_words = |old: &Self, words: Range<usize>, adder: &mut Adder, piece: &mut Piece<f64>| {
            for v in words {
                if !anew && others.iter().all(|(other, _)| other.has_none(v)) {
                    // What nothing comes to or goes from stays as it is.
                    let (topic, mass) = old.word(v);
                    piece.topic.extend_from_slice(topic);
                    piece.mass.extend_from_slice(mass);
                    piece.lengths.push(topic.len());
                    continue;
                }
                if !anew {
                    adder.add_word(old.word(v), 1.0);
                }
                others.iter().for_each(|(other, factor)| match other {
                    WordsHere::Batch(stats) => adder.add_word(stats.word(v), *factor),
                    WordsHere::Total(stats) => adder.add_word(stats.word(v), *factor),
                });
                adder.finish(piece);
            }
        };
        // Room for a total stays with the thread that trains: fresh from the system it costs more than the sums.
        with_buffers(|pieces: &mut Vec<Piece<f64>>| self.rebuild(num_topics, pieces, of_words));
    }
}

/// Responsibilities as documents leave them: word, topic and mass of each.
#[derive(Clone, Copy)]
pub struct Entries<'a> {
    /// Words, ascending.
    pub word: &'a [u32],
    /// A topic for each.
    pub topic: &'a [u32],
    /// How much of the word the topic has.
    pub mass: &'a [f32],
}

/// S_kv word by word.
#[derive(Clone, Deserialize)]
pub enum WordStats {
    /// Of all documents.
    Total(SparseStats<f64>),
    /// Of a batch, which is memoized.
    Batch(SparseStats<f32>),
    /// Of either, on a GPU; written and compared as the same on the host is.
    #[serde(skip)]
    OnDevice(Held),
}

/// The same to be read, on the host.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename = "WordStats")]
pub enum WordsHere<'a> {
    /// Of all documents.
    Total(&'a SparseStats<f64>),
    /// Of a batch.
    Batch(&'a SparseStats<f32>),
}

impl WordsHere<'_> {
    /// Whether no topic has anything of word v.
    fn has_none(&self, v: usize) -> bool {
        match self {
            WordsHere::Total(stats) => stats.word(v).0.is_empty(),
            WordsHere::Batch(stats) => stats.word(v).0.is_empty(),
        }
    }
}

impl Serialize for WordStats {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            // Whoever writes them does not keep them.
            WordStats::OnDevice(held) => {
                held.brought().map_err(serde::ser::Error::custom)?.as_words().serialize(serializer)
            }
            _ => self.as_words().serialize(serializer),
        }
    }
}

impl PartialEq for WordStats {
    fn eq(&self, other: &Self) -> bool {
        self.as_words() == other.as_words()
    }
}

impl fmt::Debug for WordStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WordStats::OnDevice(_) => f.write_str("OnDevice"),
            _ => self.as_words().fmt(f),
        }
    }
}

impl WordStats {
    /// The statistics on the host; from a GPU that may fail.
    pub fn bring(&self) -> error::Result<WordsHere<'_>> {
        match self {
            WordStats::Total(stats) => Ok(WordsHere::Total(stats)),
            WordStats::Batch(stats) => Ok(WordsHere::Batch(stats)),
            WordStats::OnDevice(held) => held.here()?.bring(),
        }
    }

    /// The same where it is known that they can be had.
    ///
    /// # Panics
    /// If they lie on a GPU that does not answer: whoever asks a GPU for the first time is to [`bring`](Self::bring) them.
    pub fn as_words(&self) -> WordsHere<'_> {
        self.bring().unwrap_or_else(|error| panic!("{error}"))
    }

    /// V.
    pub(super) fn vocab_size(&self) -> usize {
        match self {
            WordStats::Total(stats) => stats.vocab_size(),
            WordStats::Batch(stats) => stats.vocab_size(),
            WordStats::OnDevice(held) => held.vocab_size(),
        }
    }

    /// An error if a GPU could not sum them.
    pub(super) fn check(&self) -> error::Result<()> {
        match self {
            WordStats::OnDevice(held) => held.check(),
            _ => Ok(()),
        }
    }

    /// Hold the same on the host, and nowhere else.
    ///
    /// # Panics
    /// As [`as_words`](Self::as_words) does.
    pub(super) fn make_here(&mut self) {
        if let WordStats::OnDevice(held) = self {
            *self = held.brought().unwrap_or_else(|error| panic!("{error}"));
        }
    }

    /// Add lists of (word, topic, mass), words ascending within a list.
    pub(super) fn add_lists(&mut self, num_topics: usize, lists: &[Entries<'_>]) {
        self.make_here();
        match self {
            WordStats::Batch(stats) => stats.add_lists(num_topics, lists),
            WordStats::Total(stats) => stats.add_lists(num_topics, lists),
            WordStats::OnDevice(_) => unreachable!("it was brought to the host"),
        }
    }

    /// Hold the same as a total on the host does.
    fn make_total(&mut self, num_topics: usize) -> &mut SparseStats<f64> {
        self.make_here();
        if let WordStats::Batch(batch) = self {
            let mut stats = SparseStats::empty(batch.vocab_size());
            stats.add_all(num_topics, &[(WordsHere::Batch(batch), 1.0)], true);
            *self = WordStats::Total(stats);
        }
        match self {
            WordStats::Total(stats) => stats,
            _ => unreachable!("it was made a total"),
        }
    }
}

/// Statistics of documents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopicSummary {
    /// K.
    pub num_topics: usize,
    /// S_kv.
    pub words: WordStats,
    /// N_k = sum_v S_kv.
    pub counts: Vec<f64>,
    /// Entropy of the responsibilities.
    pub entropy: f64,
    /// Allocation term of the documents, less what the next two say of it.
    pub alloc: f64,
    /// Where alpha is learned, b_k of a bound on the allocation term of documents, `alloc` + sum_k b_k log alpha_k -
    /// (s + e_k) alpha_k. It holds under any alphas and is the term itself under those that the documents were worked out
    /// with, so that a sum over batches may mix alphas. b_k = sum_d alpha_k (psi(N_dk + alpha_k) - psi(alpha_k)), where
    /// N_dk is 1 or more, is the expected number of tables of topic k in a restaurant a document.
    pub alpha_topic: Vec<f64>,
    /// e_k, from documents that have less than one token of topic k.
    pub alpha_slope: Vec<f64>,
    /// s = sum_d psi(N_d + alpha) - psi(alpha).
    pub alpha_total: f64,
    /// Documents.
    pub documents: f64,
    /// Of a batch: the sum of its documents' bounds under the topics they were worked out under; 0 of a total.
    pub bound: f64,
    /// Of a batch, where K is to be found: what its documents say of proposals.
    pub trial: Option<Box<Trial>>,
}

impl TopicSummary {
    /// No documents; `words` says how the statistics are held.
    pub fn new(num_topics: usize, words: WordStats) -> Self {
        TopicSummary {
            num_topics,
            words,
            counts: vec![0.0; num_topics],
            entropy: 0.0,
            alloc: 0.0,
            alpha_topic: vec![0.0; num_topics],
            alpha_slope: vec![0.0; num_topics],
            alpha_total: 0.0,
            documents: 0.0,
            bound: 0.0,
            trial: None,
        }
    }

    /// V.
    pub fn vocab_size(&self) -> usize {
        self.words.vocab_size()
    }

    /// The statistics of a total.
    ///
    /// # Panics
    /// If these are the statistics of a batch.
    pub fn total(&self) -> &SparseStats<f64> {
        match self.words.as_words() {
            WordsHere::Total(stats) => stats,
            WordsHere::Batch(_) => unreachable!("the statistics of a batch where a total is needed"),
        }
    }

    /// A total with the topics in another order: topic `order[k]` becomes topic `k`.
    pub fn reordered(&self, order: &[usize]) -> Self {
        let pick = |row: &[f64]| order.iter().map(|&k| row[k]).collect::<Vec<f64>>();
        let mut place = vec![0u32; order.len()];
        order.iter().enumerate().for_each(|(to, &from)| place[from] = to as u32);
        let stats = self.total();
        let words = SparseStats::by_word(stats.vocab_size(), |v, row| {
            let (topic, mass) = stats.word(v);
            row.extend(topic.iter().zip(mass).map(|(&k, &m)| (place[k as usize], m)));
            row.sort_unstable_by_key(|e| e.0);
        });
        let words = WordStats::Total(words);
        let (alpha_topic, alpha_slope) = (pick(&self.alpha_topic), pick(&self.alpha_slope));
        TopicSummary { words, counts: pick(&self.counts), alpha_topic, alpha_slope, ..self.clone() }
    }

    /// The same statistics as a total.
    pub fn into_total(mut self) -> Self {
        self.words.make_total(self.num_topics);
        self
    }
}

impl TopicSummary {
    /// Add the words of other statistics; a sum is held as a total is, whatever is added to whatever.
    fn add_words(&mut self, others: &[(&Self, f64)], anew: bool) {
        let num_topics = self.num_topics;
        let words: Vec<_> = others.iter().map(|(other, factor)| (&other.words, *factor)).collect();
        if !held::add(&mut self.words, num_topics, &words, anew) {
            let words: Vec<_> = words.iter().map(|(words, factor)| (words.as_words(), *factor)).collect();
            self.words.make_total(num_topics).add_all(num_topics, &words, anew);
        }
        (self.bound, self.trial) = (0.0, None);
    }

    /// Add all but the words.
    fn add_rest(&mut self, other: &Self, factor: f64) {
        let add = |into: &mut [f64], from: &[f64]| into.iter_mut().zip(from).for_each(|(a, b)| *a += factor * b);
        add(&mut self.counts, &other.counts);
        add(&mut self.alpha_topic, &other.alpha_topic);
        add(&mut self.alpha_slope, &other.alpha_slope);
        self.entropy += factor * other.entropy;
        self.alloc += factor * other.alloc;
        self.alpha_total += factor * other.alpha_total;
        self.documents += factor * other.documents;
    }

    fn scale_rest(&mut self, factor: f64) {
        let of_topics = self.counts.iter_mut().chain(&mut self.alpha_topic).chain(&mut self.alpha_slope);
        of_topics.for_each(|v| *v *= factor);
        self.entropy *= factor;
        self.alloc *= factor;
        self.alpha_total *= factor;
        self.documents *= factor;
    }
}

impl Summary for TopicSummary {
    fn add_scaled(&mut self, other: &Self, factor: f64) {
        self.add_all(&[(other, factor)]);
    }

    fn add_all(&mut self, others: &[(&Self, f64)]) {
        self.add_words(others, false);
        others.iter().for_each(|(other, factor)| self.add_rest(other, *factor));
    }

    fn set_to_sum(&mut self, others: &[(&Self, f64)]) {
        self.add_words(others, true);
        self.scale_rest(0.0);
        others.iter().for_each(|(other, factor)| self.add_rest(other, *factor));
    }

    fn scale(&mut self, factor: f64) {
        if !held::scale(&mut self.words, factor) {
            self.words.make_here();
        }
        match &mut self.words {
            WordStats::Total(stats) => stats.scale(factor),
            WordStats::Batch(stats) => stats.scale(factor),
            WordStats::OnDevice(_) => {}
        }
        self.scale_rest(factor);
    }

    fn counts(&self) -> &[f64] {
        &self.counts
    }

    fn evidence(&self) -> Option<f64> {
        (self.bound != 0.0).then_some(self.bound)
    }

    fn remap(&mut self, plan: &Remap) {
        *self = remapped(self, plan);
    }

    fn resident_bytes(&self) -> usize {
        let words = match &self.words {
            WordStats::Total(stats) => stats.resident_bytes(),
            WordStats::Batch(stats) => stats.resident_bytes(),
            WordStats::OnDevice(_) => 0,
        };
        let trial = self.trial.as_ref().map_or(0, |trial| trial.resident_bytes());
        words + trial + size_of_val(self.counts.as_slice()) + size_of_val(self.alpha_topic.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is added at once has the bits of one after the other, also where things are taken away that leave a trace.
    #[test]
    fn several_are_added_to_the_bits_of_one_by_one() {
        const VOCAB: usize = 300;
        let batch = |number: usize| {
            let words = SparseStats::by_word(VOCAB, |v, row| {
                let has = |k: &u32| (*k as usize * 7 + v * 3 + number) % 5 < 2;
                let mass = |k: u32| 0.1 + ((v * 31 + k as usize * 17 + number * 11) % 97) as f32 / 7.3;
                row.extend((0..40u32).filter(has).map(|k| (k, mass(k))));
            });
            let mut summary = TopicSummary::new(40, WordStats::Batch(words));
            summary.entropy = 1.0 / (3.0 + number as f64);
            summary.counts.iter_mut().enumerate().for_each(|(k, n)| *n = (k + number) as f64 / 9.1);
            summary
        };
        let batches: Vec<TopicSummary> = (0..6).map(batch).collect();
        let others: Vec<(&TopicSummary, f64)> = batches.iter().map(|batch| (batch, 1.0)).collect();
        let mut one_by_one = TopicSummary::new(40, WordStats::Total(SparseStats::empty(VOCAB)));
        others.iter().for_each(|(other, factor)| one_by_one.add_scaled(other, *factor));
        let mut at_once = batches[3].clone().into_total();
        at_once.set_to_sum(&others);
        assert_eq!(at_once, one_by_one);
        let change =
            [(&batches[0], -1.0), (&batches[4], -1.0), (&batches[0], 0.3), (&batches[5], -1.0), (&batches[1], 2.0)];
        change.iter().for_each(|(other, factor)| one_by_one.add_scaled(other, *factor));
        at_once.add_all(&change);
        assert_eq!(at_once, one_by_one);
        // A batch that is made a sum is held as a total is.
        let mut sum = batches[2].clone();
        sum.set_to_sum(&[(&batches[1], 1.0)]);
        assert_eq!(sum.total(), batches[1].clone().into_total().total());
    }

    #[test]
    fn lists_are_summed_by_word_and_topic_and_totals_take_batches() {
        let mut batch = SparseStats::<f32>::empty(3);
        let one = Entries { word: &[0, 0, 2], topic: &[3, 1, 0], mass: &[1.0, 2.0, 4.0] };
        let two = Entries { word: &[0, 1], topic: &[3, 2], mass: &[0.5, 8.0] };
        batch.add_lists(4, &[one]);
        batch.add_lists(4, &[two]);
        let mut at_once = SparseStats::empty(3);
        at_once.add_lists(4, &[one, two]);
        assert_eq!(batch, at_once);
        assert_eq!(batch.word(0), (&[1, 3][..], &[2.0, 1.5][..]));
        assert_eq!(batch.word(1), (&[2][..], &[8.0][..]));
        assert_eq!(batch.word(2), (&[0][..], &[4.0][..]));
        let mut summary = TopicSummary::new(4, WordStats::Batch(batch));
        summary.counts = vec![4.0, 2.0, 8.0, 1.5];
        let mut total = summary.clone().into_total();
        total.add_scaled(&summary, 1.0);
        assert_eq!(total.total().dense_word(0, 4), [0.0, 4.0, 0.0, 3.0]);
        let moved = total.reordered(&[3, 1, 2, 0]);
        assert_eq!(moved.total().dense_word(0, 4), [3.0, 4.0, 0.0, 0.0]);
        assert_eq!(moved.counts, [3.0, 4.0, 16.0, 8.0]);
        // Batches add to each other, and totals to batches.
        let mut sum = summary.clone();
        sum.add_scaled(&summary, 1.0);
        assert_eq!(sum, total);
        let mut of_total = summary.clone();
        of_total.add_scaled(&summary.clone().into_total(), 1.0);
        assert_eq!(of_total, total);
        total.add_scaled(&summary, -2.0);
        assert!(total.total().topic.is_empty(), "what comes to nothing leaves");
        assert!(total.counts.iter().all(|&v| v == 0.0));
    }
}
