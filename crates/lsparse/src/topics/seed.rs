//! The first topics: Bregman k-means++ over documents through an inverted index, and passes that gather documents.
//!
//! With y = x + lambda and mu_c = (x_c + lambda)/sum, the divergence of document n from seed c is
//! sum y log y - (sum y) log(sum y) - sum y log mu_c (`ackermann2009bregman`). Only words that the two share make it
//! differ from a function of their lengths, so a seed costs the postings of its words and no logarithm a posting.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use lsparse_cuda::Device;
use lsparse_cuda::topics::Sample as DeviceSample;
use lsparse_kernels::{add_table_rows, top_l};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use crate::allocation::AlphaRule;
use crate::backend::{Trouble, with_buffers};
use crate::data::{Batches, Layout, RowSource, Rows};
use crate::error::Result;
use crate::math::random::draw_index;
use crate::topics::Topics;
use crate::topics::held::Held;
use crate::topics::local::Explained;
use crate::topics::summary::{Entries, SparseStats, TopicSummary, WordStats, WordsHere};
use crate::training::rules::Patience;
use crate::training::summary::Summary;

/// Documents that seeding looks at, at least; more where there are many topics.
const SAMPLE_DOCUMENTS: usize = 20_000;

/// Statistics of initial topics on the scale of the whole corpus: seeds by Bregman k-means++, then `lloyd` passes.
pub fn initial_topics(
    topics: &Topics,
    source: &dyn RowSource,
    lloyd: usize,
    rng: &mut ChaCha8Rng,
    patience: Patience<'_>,
) -> Result<TopicSummary> {
    let sample = Sample::draw(topics, source, rng)?;
    let (seeds, mut owner) = sample.seeds(topics.num_topics, topics.lambda, rng, patience)?;
    if lloyd == 0 {
        return Ok(sample.seeds_alone(topics, &seeds));
    }
    let mut total = sample.gathered(topics, &owner, &seeds, rng)?;
    for _ in 1..lloyd {
        patience.check()?;
        owner = sample.nearest(topics, &total)?;
        total = sample.gathered(topics, &owner, &seeds, rng)?;
    }
    total.scale(source.num_rows() as f64 / sample.rows.len() as f64);
    Ok(total)
}

/// Statistics of topics that are random groups of documents.
pub fn random_topics(topics: &Topics, source: &dyn RowSource, rng: &mut ChaCha8Rng) -> Result<TopicSummary> {
    let sample = Sample::draw(topics, source, rng)?;
    let owner: Vec<u32> = (0..sample.rows.len()).map(|_| rng.random_range(0..topics.num_topics as u32)).collect();
    let mut total = sample.gathered(topics, &owner, &[], rng)?;
    total.scale(source.num_rows() as f64 / sample.rows.len() as f64);
    Ok(total)
}

/// After this many laps lost topics stay lost. Where there are more topics than documents can tell apart, lending for ever
/// keeps a share of them changing lap by lap (kos, K = 800: the score wanders by 0.02); then they come to rest, and higher.
const LAPS_THAT_LEND: usize = 8;

/// Whether a topic with this count has lost everything.
fn is_lost(count: f64) -> bool {
    count < 1.0
}

/// Whether there are topics to be lent documents in the lap after `laps`.
pub(in crate::topics) fn may_renew(counts: &[f64], laps: usize) -> bool {
    laps < LAPS_THAT_LEND && counts.iter().any(|&count| is_lost(count))
}

/// Documents that seeding of a lost topic looks at, for each of them.
const DOCUMENTS_A_LOST_TOPIC: usize = 10;

/// Statistics for topics that have lost everything: groups of documents that are explained worse than the average, each
/// drawn in proportion to what it falls short by.
pub(in crate::topics) fn renewed_topics(
    topics: &Topics,
    source: &dyn RowSource,
    counts: &[f64],
    explained: &[Explained],
    laps: usize,
) -> Result<Option<TopicSummary>> {
    let lost: Vec<u32> = (0..counts.len() as u32).filter(|&k| is_lost(counts[k as usize])).collect();
    let sum = |of: fn(&Explained) -> f32| explained.iter().map(|e| f64::from(of(e))).sum::<f64>();
    let mean = sum(|e| e.evidence) / sum(|e| e.tokens).max(f64::MIN_POSITIVE);
    // Drawn without putting back: the largest ln(u) / weight (`efraimidis2006weighted`).
    let mut rng = ChaCha8Rng::seed_from_u64(laps as u64);
    let draws: Vec<f64> = explained.iter().map(|_| 1.0 - rng.random::<f64>()).collect();
    let key = |(n, (e, draw)): (usize, (&Explained, &f64))| {
        let short = mean * f64::from(e.tokens) - f64::from(e.evidence);
        (short > 0.0).then(|| (draw.ln() / short, n))
    };
    let mut drawn: Vec<(f64, usize)> = explained.par_iter().zip(&draws).enumerate().filter_map(key).collect();
    let num = (DOCUMENTS_A_LOST_TOPIC * lost.len()).min(drawn.len());
    if num == 0 {
        return Ok(None);
    }
    drawn.select_nth_unstable_by(num - 1, |a, b| b.0.total_cmp(&a.0));
    drawn.truncate(num);
    drawn.sort_unstable_by_key(|&(_, n)| n);
    let stretches: Vec<_> = drawn.iter().map(|&(_, n)| n..n + 1).collect();
    source.pieces().map_or(Ok(()), |pieces| pieces.bring(&stretches))?;
    let rows = with_buffers(|kept: &mut KeptRows| kept.read(source, topics.vocab_size, &drawn))?;
    let sample = Sample::of(rows, topics)?;
    let document = topics.document.clone();
    let few =
        Topics { num_topics: lost.len(), pull: None, sampling: None, device: None, finding: None, document, ..*topics };
    let (seeds, owner) = sample.seeds(lost.len(), topics.lambda, &mut rng, Patience::default())?;
    let mut total = sample.gathered(&few, &owner, &seeds, &mut rng)?;
    for _ in 0..2 {
        let owner = sample.nearest(&few, &total)?;
        total = sample.gathered(&few, &owner, &seeds, &mut rng)?;
    }
    let mut all = TopicSummary::new(topics.num_topics, WordStats::Total(SparseStats::empty(0)));
    lost.iter().zip(&total.counts).for_each(|(&k, &n)| all.counts[k as usize] = n);
    if topics.alpha_rule != AlphaRule::Fixed {
        // A document of one topic has about one table.
        let length = (sum(|e| e.tokens) / explained.len() as f64).max(1.0);
        lost.iter().for_each(|&k| all.alpha_topic[k as usize] = all.counts[k as usize] / length);
    }
    all.words = among_all(total.words, &lost, topics.num_topics)?;
    with_buffers(|kept: &mut KeptRows| kept.rows = Some(sample.rows));
    Ok(Some(all))
}

/// Memory for documents that topics are lent, which stays with the thread that trains from lap to lap: fresh from the
/// system it costs more than reading them.
#[derive(Default)]
struct KeptRows {
    parts: Vec<Rows<f32>>,
    rows: Option<Rows<f32>>,
}

impl KeptRows {
    /// The documents of these numbers; their memory is to be given back.
    fn read(&mut self, source: &dyn RowSource, vocab_size: usize, drawn: &[(f64, usize)]) -> Result<Rows<f32>> {
        let other = |rows: &Rows<f32>| rows.dim() != vocab_size;
        if self.parts.iter().any(other) || self.rows.as_ref().is_some_and(other) {
            *self = KeptRows::default();
        }
        let parts = drawn.len().div_ceil(SHARD_DOCUMENTS);
        if self.parts.len() < parts {
            self.parts.resize_with(parts, || Rows::sparse(vocab_size));
        }
        let tasks = self.parts.par_iter_mut().zip(drawn.par_chunks(SHARD_DOCUMENTS));
        tasks.with_max_len(1).try_for_each(|(part, drawn)| {
            part.clear();
            drawn.iter().try_for_each(|&(_, n)| source.read_f32(n, 1, part))
        })?;
        let mut rows = self.rows.take().unwrap_or_else(|| Rows::sparse(vocab_size));
        rows.clear();
        self.parts[..parts].iter().for_each(|part| rows.append(part));
        Ok(rows)
    }
}

/// Statistics of a few topics as those of some of all.
fn among_all(words: WordStats, few: &[u32], num_topics: usize) -> Result<WordStats> {
    if let WordStats::OnDevice(held) = &words
        && let Some(total) = held.as_total()
        && let Some(spread) = Trouble::settle(total.spread(few, num_topics).map_err(Trouble::from))?
    {
        return Ok(WordStats::OnDevice(Held::total(spread)));
    }
    let WordsHere::Total(stats) = words.bring()? else { unreachable!("what was gathered is a total") };
    let topic = stats.topic.iter().map(|&k| few[k as usize]).collect();
    Ok(WordStats::Total(SparseStats { indptr: stats.indptr.clone(), topic, mass: stats.mass.clone() }))
}

/// Documents held in memory, by document and by word.
struct Sample {
    rows: Rows<f32>,
    /// The same by word, some documents each, once somebody asks for it.
    shards: OnceLock<Vec<Shard>>,
    length: Vec<f64>,
    /// The same on a GPU, where there is one with memory for it.
    there: Option<DeviceSample>,
}

/// Stretches that documents are cut into, about: enough for many threads to have some.
const SHARDS: usize = 64;

/// Documents whose nearest topics are found by one task.
const DOCUMENTS_A_TASK: usize = 256;

/// Topics that they are weighed against at a time.
const TOPICS_AT_ONCE: usize = 128;

/// Documents of a shard at least.
const SHARD_DOCUMENTS: usize = 64;

/// A stretch of documents by word.
struct Shard {
    /// Postings of word v are `start[v]..start[v + 1]`.
    start: Vec<u32>,
    /// Documents, counted from the first of the shard.
    document: Vec<u32>,
    count: Vec<f32>,
}

impl Shard {
    fn new(rows: &Rows<f32>, documents: Range<usize>) -> Self {
        let vocab_size = rows.dim();
        let mut start = vec![0u32; vocab_size + 1];
        for n in documents.clone() {
            rows.sparse_row(n).0.iter().for_each(|&v| start[v as usize + 1] += 1);
        }
        for v in 0..vocab_size {
            start[v + 1] += start[v];
        }
        let mut next = start.clone();
        let postings = start[vocab_size] as usize;
        let (mut document, mut count) = (vec![0; postings], vec![0.0; postings]);
        for (place, n) in documents.enumerate() {
            let (words, counts) = rows.sparse_row(n);
            for (&v, &c) in words.iter().zip(counts) {
                let at = &mut next[v as usize];
                document[*at as usize] = place as u32;
                count[*at as usize] = c;
                *at += 1;
            }
        }
        Shard { start, document, count }
    }
}

impl Sample {
    fn draw(topics: &Topics, source: &dyn RowSource, rng: &mut ChaCha8Rng) -> Result<Self> {
        let size = SAMPLE_DOCUMENTS.max(50 * topics.num_topics);
        let parts = (source.num_rows() / size).max(1);
        let batches = Batches::new(source.num_rows(), parts, rng.random())?;
        Sample::of(batches.read_batch(source, 0, Layout::Sparse, topics.vocab_size)?.0, topics)
    }

    /// These documents, also on the GPU that the topics have.
    fn of(rows: Rows<f32>, topics: &Topics) -> Result<Self> {
        let upload = |(device, (first, words, counts)): (&Arc<Device>, (&[usize], &[u32], &[f32]))| {
            DeviceSample::upload(device, rows.dim(), first, words, counts).map_err(Trouble::from)
        };
        let wanted = topics.device.as_ref().filter(|_| !rows.is_empty()).zip(rows.as_sparse());
        let there = Trouble::settle(wanted.map(upload).transpose())?.flatten();
        let length = |n: usize| rows.sparse_row(n).1.iter().map(|&c| f64::from(c)).sum();
        let length = (0..rows.len()).into_par_iter().map(length).collect();
        Ok(Sample { rows, shards: OnceLock::new(), length, there })
    }

    fn shards(&self) -> &[Shard] {
        self.shards.get_or_init(|| {
            let (rows, size) = (&self.rows, Sample::shard_documents(self.rows.len()));
            let first = (0..rows.len()).into_par_iter().step_by(size);
            first.map(|first| Shard::new(rows, first..rows.len().min(first + size))).collect()
        })
    }

    /// Documents of a shard.
    fn shard_documents(documents: usize) -> usize {
        documents.div_ceil(SHARDS).max(SHARD_DOCUMENTS)
    }

    /// Documents chosen as seeds, and for every document the nearest of them.
    fn seeds(
        &self,
        num: usize,
        lambda: f64,
        rng: &mut ChaCha8Rng,
        patience: Patience<'_>,
    ) -> Result<(Vec<usize>, Vec<u32>)> {
        let (documents, vocab) = (self.rows.len(), self.rows.dim());
        let own = self.own_scores(lambda, vocab as f64);
        patience.check()?;
        if let Some(found) = self.seeds_there(num.min(documents), lambda, &own, rng)? {
            return Ok(found);
        }
        let mut nearest = vec![f64::INFINITY; documents];
        let mut owner = vec![0u32; documents];
        let mut taken = vec![false; documents];
        let mut chosen = Vec::with_capacity(num);
        let (shards, size) = (self.shards(), Sample::shard_documents(documents));
        for k in 0..num.min(documents) {
            patience.check()?;
            let chance = |n: usize| match (taken[n], k == 0) {
                (true, _) => 0.0,
                (false, true) => 1.0,
                (false, false) => nearest[n],
            };
            let seed = draw_index(documents, chance, rng).unwrap_or_else(|| {
                // Only copies of the seeds are left: any other document will do.
                let free: Vec<usize> = (0..documents).filter(|&n| !taken[n]).collect();
                free[rng.random_range(0..free.len())]
            });
            taken[seed] = true;
            chosen.push(seed);
            // sum_v (x_nv + lambda) log mu_cv = constant + length_n * unseen + sum over shared words of x_nv gain_v
            let total = self.length[seed] + lambda * vocab as f64;
            let unseen = lambda.ln() - total.ln();
            let (words, counts) = self.rows.sparse_row(seed);
            let gains: Vec<f64> = counts.iter().map(|&c| (f64::from(c) + lambda).ln() - lambda.ln()).collect();
            let constant = lambda * (gains.iter().sum::<f64>() + vocab as f64 * unseen);
            let documents = nearest.par_chunks_mut(size).zip(owner.par_chunks_mut(size));
            let lengths = own.par_chunks(size).zip(self.length.par_chunks(size));
            let shards = shards.par_iter().zip(documents.zip(lengths)).with_max_len(1);
            shards.for_each(|(shard, ((nearest, owner), (own, length)))| {
                // Products in single precision, whose sums double precision holds to the last bit where counts are whole:
                // whatever the order, the same seeds are drawn.
                with_buffers(|cross: &mut Vec<f64>| {
                    cross.clear();
                    cross.resize(nearest.len(), 0.0);
                    for (&v, &gain) in words.iter().zip(&gains) {
                        let postings = shard.start[v as usize] as usize..shard.start[v as usize + 1] as usize;
                        for (&n, &c) in shard.document[postings.clone()].iter().zip(&shard.count[postings]) {
                            cross[n as usize] += f64::from(c * gain as f32);
                        }
                    }
                    for n in 0..nearest.len() {
                        let divergence = own[n] - constant - length[n] * unseen - cross[n];
                        if divergence < nearest[n] {
                            nearest[n] = divergence.max(0.0);
                            owner[n] = k as u32;
                        }
                    }
                });
            });
            nearest[seed] = 0.0;
            owner[seed] = k as u32;
        }
        Ok((chosen, owner))
    }

    /// The same on the GPU: none if there is none with memory for it, or if only copies of the seeds are left. The numbers
    /// that are drawn are the same, divergences are so to single precision.
    fn seeds_there(
        &self,
        num: usize,
        lambda: f64,
        own: &[f64],
        rng: &mut ChaCha8Rng,
    ) -> Result<Option<(Vec<usize>, Vec<u32>)>> {
        let mut ahead = rng.clone();
        let Some(there) = self.there.as_ref().filter(|_| num > 0) else { return Ok(None) };
        let Some(first) = draw_index(self.rows.len(), |_| 1.0, &mut ahead) else { return Ok(None) };
        let shares: Vec<f64> = (1..num).map(|_| ahead.random()).collect();
        let found = there.seeds(first, &shares, lambda, (own, &self.length)).map_err(Trouble::from);
        let Some((seeds, owner)) = Trouble::settle(found)?.flatten() else { return Ok(None) };
        *rng = ahead;
        Ok(Some((seeds.into_iter().map(|n| n as usize).collect(), owner)))
    }

    /// sum y log y - (sum y) log (sum y): what each document scores under its own frequencies.
    fn own_scores(&self, lambda: f64, vocab: f64) -> Vec<f64> {
        let x_ln_x = |x: f64| x * x.ln();
        // Counts are small whole numbers nearly always: one logarithm each.
        let small: Vec<f64> = (0..256).map(|c| x_ln_x(f64::from(c) + lambda) - x_ln_x(lambda)).collect();
        let gain = |c: f32| match small.get(c as usize) {
            Some(&value) if c.fract() == 0.0 => value,
            _ => x_ln_x(f64::from(c) + lambda) - x_ln_x(lambda),
        };
        (0..self.rows.len())
            .into_par_iter()
            .map(|n| {
                let own: f64 = self.rows.sparse_row(n).1.iter().map(|&c| gain(c)).sum();
                own + vocab * x_ln_x(lambda) - x_ln_x(self.length[n] + vocab * lambda)
            })
            .collect()
    }

    /// One document a topic, and nothing else.
    fn seeds_alone(&self, topics: &Topics, seeds: &[usize]) -> TopicSummary {
        let whole = |(k, &n): (usize, &usize)| Owned { topic: k as u32, entries: self.rows.sparse_row(n) };
        total_of(topics, seeds.iter().enumerate().map(whole).collect())
    }

    /// Every document in the topic that owns it. Topics beyond the documents get half of a random one's words each.
    fn gathered(&self, topics: &Topics, owner: &[u32], seeds: &[usize], rng: &mut ChaCha8Rng) -> Result<TopicSummary> {
        let beyond = if seeds.is_empty() { topics.num_topics } else { seeds.len() };
        let halves: Vec<(u32, Vec<u32>, Vec<f32>)> = (beyond..topics.num_topics)
            .map(|k| {
                let (words, counts) = self.rows.sparse_row(rng.random_range(0..self.rows.len()));
                let kept = words.iter().zip(counts).filter(|_| rng.random::<bool>());
                let (words, counts) = kept.map(|(&v, &c)| (v, c)).unzip();
                (k as u32, words, counts)
            })
            .collect();
        let words = match self.gathered_there(topics, owner)? {
            Some(words) => words,
            None => WordStats::Total(self.gathered_here(topics, owner)),
        };
        let mut total = TopicSummary::new(topics.num_topics, words);
        owner.iter().zip(&self.length).for_each(|(&k, length)| total.counts[k as usize] += length);
        if !halves.is_empty() {
            let parts = halves.iter().map(|(topic, words, counts)| Owned { topic: *topic, entries: (words, counts) });
            total.add_scaled(&total_of(topics, parts.collect()), 1.0);
        }
        Ok(total)
    }

    /// Words of every document in the topic that owns it, on the GPU; none if there is none with memory for it, or counts
    /// are not whole.
    fn gathered_there(&self, topics: &Topics, owner: &[u32]) -> Result<Option<WordStats>> {
        let gather = |there: &DeviceSample| there.gathered(owner, topics.num_topics).map_err(Trouble::from);
        let found = Trouble::settle(self.there.as_ref().map(gather).transpose())?.flatten().flatten();
        Ok(found.map(|total| WordStats::OnDevice(Held::total(total))))
    }

    /// The same by the postings of each word, which lie together; documents would be gone through once for every few words.
    fn gathered_here(&self, topics: &Topics, owner: &[u32]) -> SparseStats<f64> {
        let (shards, size) = (self.shards(), Sample::shard_documents(self.rows.len()));
        SparseStats::gathered(topics.vocab_size, topics.num_topics, |v, add| {
            for (shard, owner) in shards.iter().zip(owner.chunks(size)) {
                let postings = shard.start[v] as usize..shard.start[v + 1] as usize;
                let documents = shard.document[postings.clone()].iter().zip(&shard.count[postings]);
                documents.for_each(|(&n, &count)| add(owner[n as usize], count));
            }
        })
    }

    /// The topic under which each document is most likely, whole.
    fn nearest(&self, topics: &Topics, total: &TopicSummary) -> Result<Vec<u32>> {
        if let (Some(there), None) = (&self.there, &topics.pull)
            && let WordStats::OnDevice(held) = &total.words
            && let Some(words) = held.as_total()
        {
            let found = there.nearest(words, topics.lambda, &topics.pseudo_totals(total)).map_err(Trouble::from);
            if let Some(nearest) = Trouble::settle(found)? {
                return Ok(nearest);
            }
        }
        total.words.bring()?;
        // Some topics at a time, their logarithms side by side: of many topics a document would read a table that no
        // core's memory holds.
        let tables: Vec<(usize, Vec<f32>)> = (0..topics.num_topics)
            .into_par_iter()
            .step_by(TOPICS_AT_ONCE)
            .map(|first| {
                let range = first..topics.num_topics.min(first + TOPICS_AT_ONCE);
                (range.len(), logs_of(topics, total, range))
            })
            .collect();
        let mut nearest = vec![0u32; self.rows.len()];
        nearest.par_chunks_mut(DOCUMENTS_A_TASK).enumerate().with_max_len(1).for_each(|(task, nearest)| {
            let mut most = [f32::NEG_INFINITY; DOCUMENTS_A_TASK];
            let mut first = 0;
            for (width, table) in &tables {
                let mut weights = [0.0f32; TOPICS_AT_ONCE];
                let weights = &mut weights[..*width];
                for (n, (nearest, most)) in nearest.iter_mut().zip(&mut most).enumerate() {
                    let (words, counts) = self.rows.sparse_row(task * DOCUMENTS_A_TASK + n);
                    weights.fill(0.0);
                    add_table_rows(table, *width, words, counts, weights);
                    let (mut index, mut value) = ([0u32], [0.0f32]);
                    // Logarithms of positive numbers are never NaN. Of equal ones the first stays.
                    let _ = top_l(weights, 1, &mut index, &mut value);
                    if value[0] > *most {
                        (*nearest, *most) = (first + index[0], value[0]);
                    }
                }
                first += *width as u32;
            }
        });
        Ok(nearest)
    }
}

/// log phi of all words in some topics, word by word.
fn logs_of(topics: &Topics, total: &TopicSummary, range: Range<usize>) -> Vec<f32> {
    let sums = topics.pseudo_totals(total);
    let ln_scale: Vec<f64> = sums[range.clone()].iter().map(|sum| -sum.ln()).collect();
    // Most topics have none of a word.
    let none: Vec<f32> = ln_scale.iter().map(|scale| (topics.lambda.ln() + scale) as f32).collect();
    let (mut topic, mut count) = (Vec::new(), Vec::new());
    let mut logs = Vec::with_capacity(topics.vocab_size * range.len());
    for v in 0..topics.vocab_size {
        logs.extend_from_slice(&none);
        let row = &mut logs[v * range.len()..];
        topics.pseudo_counts_within(total.total(), v, &range, &mut topic, &mut count);
        for (&k, count) in topic.iter().zip(&count) {
            let k = k as usize - range.start;
            row[k] = (count.ln() + ln_scale[k]) as f32;
        }
    }
    logs
}

/// A document, or part of it, that a topic owns.
struct Owned<'a> {
    topic: u32,
    entries: (&'a [u32], &'a [f32]),
}

/// The statistics of topics that own documents.
fn total_of(topics: &Topics, owned: Vec<Owned<'_>>) -> TopicSummary {
    let longest = owned.iter().map(|o| o.entries.0.len()).max().unwrap_or(0);
    // One list of each topic's number, as long as any document needs it.
    let mut numbers = vec![Vec::new(); topics.num_topics];
    owned.iter().for_each(|o| numbers[o.topic as usize].resize(longest, o.topic));
    let lists: Vec<Entries<'_>> = owned
        .iter()
        .map(|o| {
            let (word, mass) = o.entries;
            Entries { word, topic: &numbers[o.topic as usize][..word.len()], mass }
        })
        .collect();
    let mut stats = SparseStats::empty(topics.vocab_size);
    stats.add_lists(topics.num_topics, &lists);
    let mut total = TopicSummary::new(topics.num_topics, WordStats::Total(stats));
    let length = |o: &Owned<'_>| o.entries.1.iter().map(|&c| f64::from(c)).sum();
    let lengths: Vec<f64> = owned.par_iter().map(length).collect();
    owned.iter().zip(lengths).for_each(|(o, length)| total.counts[o.topic as usize] += length);
    total
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::CsrRows;
    use crate::settings::TopicsConfig;

    fn documents() -> CsrRows<f32> {
        let words: Vec<u32> = (0..300u32).flat_map(|d| [d % 7, 7 + d % 11, 18 + d % 12]).collect();
        let counts = (0..900).map(|i| 1.0 + (i % 4) as f32).collect();
        CsrRows::new("words", 30, (0..=300).map(|d| 3 * d).collect(), words, counts).unwrap()
    }

    #[test]
    fn logarithms_are_those_of_the_topics() {
        let config = TopicsConfig { topics: 5, ..Default::default() };
        let mut topics = Topics::new(&config, 30);
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let total = random_topics(&topics, &documents(), &mut rng).unwrap();
        for pull in [None, Some(SparseStats::by_word(30, |v, row| row.push(((v % 5) as u32, 0.5 + v as f32))))] {
            topics.pull = pull;
            let point = topics.point_topics(&total);
            for range in [0..5, 2..4] {
                let logs = logs_of(&topics, &total, range.clone());
                for (v, row) in logs.chunks(range.len()).enumerate() {
                    for (log, phi) in row.iter().zip(&point.row(v)[range.clone()]) {
                        assert!((log - phi.ln()).abs() < 1e-5, "word {v}: {log} and {}", phi.ln());
                    }
                }
            }
        }
    }

    #[test]
    fn documents_are_read_in_their_order_into_memory_that_serves_again() {
        let source = documents();
        let mut kept = KeptRows::default();
        for step in [1, 2, 3] {
            let drawn: Vec<(f64, usize)> = (0..300).step_by(step).map(|n| (0.0, n)).collect();
            let rows = kept.read(&source, 30, &drawn).unwrap();
            let mut want = Rows::sparse(30);
            drawn.iter().for_each(|&(_, n)| source.read_f32(n, 1, &mut want).unwrap());
            assert_eq!(rows.as_sparse(), want.as_sparse());
            kept.rows = Some(rows);
        }
    }

    /// What a few topics have is theirs among all.
    #[test]
    fn lent_topics_keep_their_words() {
        let few = SparseStats { indptr: vec![0, 2, 3], topic: vec![0, 1, 1], mass: vec![1.0, 2.0, 3.0] };
        let all = among_all(WordStats::Total(few), &[3, 7], 9).unwrap();
        let WordsHere::Total(stats) = all.as_words() else { panic!("not a total") };
        assert_eq!((&stats.topic[..], &stats.mass[..]), (&[3, 7, 7][..], &[1.0, 2.0, 3.0][..]));
    }
}
