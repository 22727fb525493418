//! The first topics: Bregman k-means++ over documents through an inverted index, and passes that gather documents.
//!
//! With y = x + lambda and mu_c = (x_c + lambda)/sum, the divergence of document n from seed c is
//! sum y log y - (sum y) log(sum y) - sum y log mu_c (`ackermann2009bregman`). Only words that the two share make it
//! differ from a function of their lengths, so a seed costs the postings of its words and no logarithm a posting.

use std::ops::Range;

use lsparse_kernels::{add_table_rows, top_l};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use crate::allocation::AlphaRule;
use crate::backend::with_buffers;
use crate::data::{Batches, Layout, RowSource, Rows};
use crate::error::Result;
use crate::math::random::draw_index;
use crate::topics::Topics;
use crate::topics::local::Explained;
use crate::topics::summary::{Entries, SparseStats, TopicSummary, WordStats};
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
    let mut total = sample.gathered(topics, &owner, &seeds, rng);
    for _ in 1..lloyd {
        patience.check()?;
        owner = sample.nearest(topics, &total);
        total = sample.gathered(topics, &owner, &seeds, rng);
    }
    total.scale(source.num_rows() as f64 / sample.rows.len() as f64);
    Ok(total)
}

/// Statistics of topics that are random groups of documents.
pub fn random_topics(topics: &Topics, source: &dyn RowSource, rng: &mut ChaCha8Rng) -> Result<TopicSummary> {
    let sample = Sample::draw(topics, source, rng)?;
    let owner: Vec<u32> = (0..sample.rows.len()).map(|_| rng.random_range(0..topics.num_topics as u32)).collect();
    let mut total = sample.gathered(topics, &owner, &[], rng);
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
    let key = |(n, e): (usize, &Explained)| {
        let draw: f64 = 1.0 - rng.random::<f64>();
        let short = mean * f64::from(e.tokens) - f64::from(e.evidence);
        (short > 0.0).then(|| (draw.ln() / short, n))
    };
    let mut drawn: Vec<(f64, usize)> = explained.iter().enumerate().filter_map(key).collect();
    let num = (DOCUMENTS_A_LOST_TOPIC * lost.len()).min(drawn.len());
    if num == 0 {
        return Ok(None);
    }
    drawn.select_nth_unstable_by(num - 1, |a, b| b.0.total_cmp(&a.0));
    drawn.truncate(num);
    drawn.sort_unstable_by_key(|&(_, n)| n);
    let mut rows = Rows::sparse(topics.vocab_size);
    let stretches: Vec<_> = drawn.iter().map(|&(_, n)| n..n + 1).collect();
    source.pieces().map_or(Ok(()), |pieces| pieces.bring(&stretches))?;
    drawn.iter().try_for_each(|&(_, n)| source.read_f32(n, 1, &mut rows))?;
    let sample = Sample::of(rows);
    let document = topics.document.clone();
    let few =
        Topics { num_topics: lost.len(), pull: None, sampling: None, device: None, finding: None, document, ..*topics };
    let (seeds, owner) = sample.seeds(lost.len(), topics.lambda, &mut rng, Patience::default())?;
    let mut total = sample.gathered(&few, &owner, &seeds, &mut rng);
    for _ in 0..2 {
        let owner = sample.nearest(&few, &total);
        total = sample.gathered(&few, &owner, &seeds, &mut rng);
    }
    let mut all = TopicSummary::new(topics.num_topics, WordStats::Total(SparseStats::empty(0)));
    lost.iter().zip(&total.counts).for_each(|(&k, &n)| all.counts[k as usize] = n);
    if topics.alpha_rule != AlphaRule::Fixed {
        // A document of one topic has about one table.
        let length = (sum(|e| e.tokens) / explained.len() as f64).max(1.0);
        lost.iter().for_each(|&k| all.alpha_topic[k as usize] = all.counts[k as usize] / length);
    }
    if let WordStats::Total(mut stats) = total.words {
        stats.topic.iter_mut().for_each(|k| *k = lost[*k as usize]);
        all.words = WordStats::Total(stats);
    }
    Ok(Some(all))
}

/// Documents held in memory, by document and by word.
struct Sample {
    rows: Rows<f32>,
    /// The same by word, some documents each.
    shards: Vec<Shard>,
    length: Vec<f64>,
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
        Ok(Sample::of(batches.read_batch(source, 0, Layout::Sparse, topics.vocab_size)?.0))
    }

    fn of(rows: Rows<f32>) -> Self {
        let size = Sample::shard_documents(rows.len());
        let first = (0..rows.len()).into_par_iter().step_by(size);
        let shards = first.map(|first| Shard::new(&rows, first..rows.len().min(first + size))).collect();
        let length = |n: usize| rows.sparse_row(n).1.iter().map(|&c| f64::from(c)).sum();
        let length = (0..rows.len()).into_par_iter().map(length).collect();
        Sample { rows, shards, length }
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
        let mut nearest = vec![f64::INFINITY; documents];
        let mut owner = vec![0u32; documents];
        let mut taken = vec![false; documents];
        let mut chosen = Vec::with_capacity(num);
        let size = Sample::shard_documents(documents);
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
            let shards = self.shards.par_iter().zip(documents.zip(lengths)).with_max_len(1);
            shards.for_each(|(shard, ((nearest, owner), (own, length)))| {
                with_buffers(|cross: &mut Vec<f32>| {
                    cross.clear();
                    cross.resize(nearest.len(), 0.0);
                    for (&v, &gain) in words.iter().zip(&gains) {
                        let postings = shard.start[v as usize] as usize..shard.start[v as usize + 1] as usize;
                        for (&n, &c) in shard.document[postings.clone()].iter().zip(&shard.count[postings]) {
                            cross[n as usize] += c * gain as f32;
                        }
                    }
                    for n in 0..nearest.len() {
                        let divergence = own[n] - constant - length[n] * unseen - f64::from(cross[n]);
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
    fn gathered(&self, topics: &Topics, owner: &[u32], seeds: &[usize], rng: &mut ChaCha8Rng) -> TopicSummary {
        let beyond = if seeds.is_empty() { topics.num_topics } else { seeds.len() };
        let halves: Vec<(u32, Vec<u32>, Vec<f32>)> = (beyond..topics.num_topics)
            .map(|k| {
                let (words, counts) = self.rows.sparse_row(rng.random_range(0..self.rows.len()));
                let kept = words.iter().zip(counts).filter(|_| rng.random::<bool>());
                let (words, counts) = kept.map(|(&v, &c)| (v, c)).unzip();
                (k as u32, words, counts)
            })
            .collect();
        // By the postings of each word, which lie together; documents would be gone through once for every few words.
        let size = Sample::shard_documents(self.rows.len());
        let stats = SparseStats::gathered(topics.vocab_size, topics.num_topics, |v, add| {
            for (shard, owner) in self.shards.iter().zip(owner.chunks(size)) {
                let postings = shard.start[v] as usize..shard.start[v + 1] as usize;
                let documents = shard.document[postings.clone()].iter().zip(&shard.count[postings]);
                documents.for_each(|(&n, &count)| add(owner[n as usize], count));
            }
        });
        let mut total = TopicSummary::new(topics.num_topics, WordStats::Total(stats));
        owner.iter().zip(&self.length).for_each(|(&k, length)| total.counts[k as usize] += length);
        if !halves.is_empty() {
            let parts = halves.iter().map(|(topic, words, counts)| Owned { topic: *topic, entries: (words, counts) });
            total.add_scaled(&total_of(topics, parts.collect()), 1.0);
        }
        total
    }

    /// The topic under which each document is most likely, whole.
    fn nearest(&self, topics: &Topics, total: &TopicSummary) -> Vec<u32> {
        let point = topics.point_topics(total);
        // Some topics at a time, their logarithms side by side: of many topics a document would read a table that no
        // core's memory holds.
        let tables: Vec<(usize, Vec<f32>)> = (0..topics.num_topics)
            .into_par_iter()
            .step_by(TOPICS_AT_ONCE)
            .map(|first| {
                let width = TOPICS_AT_ONCE.min(topics.num_topics - first);
                let mut logs = Vec::with_capacity(topics.vocab_size * width);
                (0..topics.vocab_size).for_each(|v| logs.extend_from_slice(&point.row(v)[first..first + width]));
                lsparse_kernels::ln_slice(&mut logs);
                (width, logs)
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
        nearest
    }
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
