//! SVIGibbs (Mimno, Hoffman, Blei 2012): stochastic variational training whose document step is a few Gibbs samples.
//!
//! Under fixed topics, exp(`E[log phi_kv]`), and with the document's mix integrated out, a token's topic is drawn with
//! p(z = k) proportional to (n_dk + alpha_k) exp(`E[log phi_kv]`). The first half of the sweeps is burn-in; the
//! statistics are the mean of the others. Gibbs samples have no entropy in closed form: the objective lacks it.

use std::sync::atomic::{AtomicU64, Ordering};

use lsparse_kernels::{digamma, ln_gamma};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use super::super::summary::{Entries, TopicSummary, WordStats};
use super::super::train::TopicStep;
use super::super::{ACTIVE_TOPICS, AlphaRule, PANEL_DOCUMENTS, Tally, TopicData, TopicParams, TopicScratch, Topics};
use super::document::DocumentTopics;
use super::walk;
use crate::data::{Ahead, Layout, Rows};
use crate::error::Result;
use crate::model::{Model, Objective};

/// Topics whose documents are sampled.
pub struct SviGibbs {
    topics: Topics,
    /// Sweeps over a document, half of them burn-in.
    samples: usize,
    seed: u64,
    /// Batches visited, which makes every visit's draws its own.
    visits: AtomicU64,
}

/// Documents of a parallel task. Fixed, so that sums do not depend on the number of threads.
const DOCUMENTS_A_TASK: usize = 16;

/// What one task of documents leaves behind.
#[derive(Default)]
struct Piece {
    word: Vec<u32>,
    topic: Vec<u32>,
    mass: Vec<f32>,
    /// Where each document's entries end.
    end: Vec<usize>,
    alloc: f64,
    alpha_topic: Vec<(u32, f64)>,
    alpha_total: f64,
    active: u64,
}

/// Buffers of one thread.
struct DocumentScratch {
    counts: DocumentTopics,
    /// The word of each token as a position in the document's list, and its topic.
    place: Vec<u32>,
    assigned: Vec<u32>,
    /// exp(E[log phi]) of the document's words, K each, and their sums with alpha.
    phi: Vec<f32>,
    smooth: Vec<f64>,
    /// Mass of (word, topic) over the kept sweeps.
    kept: Vec<(u32, u32)>,
}

impl SviGibbs {
    pub fn new(topics: Topics, samples: usize, seed: u64) -> Self {
        SviGibbs { topics, samples, seed, visits: AtomicU64::new(0) }
    }

    fn sample_document(
        &self,
        params: &TopicParams,
        words: &[u32],
        counts: &[f32],
        rng: &mut ChaCha8Rng,
        scratch: &mut DocumentScratch,
        piece: &mut Piece,
    ) {
        let num = self.topics.num_topics;
        let DocumentScratch { counts: document, place, assigned, phi, smooth, kept } = scratch;
        place.clear();
        phi.clear();
        smooth.clear();
        for (u, (&v, &c)) in words.iter().zip(counts).enumerate() {
            place.extend(std::iter::repeat_n(u as u32, c as usize));
            let row = params.table.row(v as usize).iter().zip(&params.table.scale);
            phi.extend(row.map(|(p, s)| p * s));
            let of_u = phi[u * num..].iter().zip(&params.alpha);
            smooth.push(of_u.map(|(&p, &a)| f64::from(p) * f64::from(a)).sum());
        }
        // Every token starts from its word alone.
        assigned.clear();
        document.begin(&[]);
        for &u in place.iter() {
            let of_u = phi[u as usize * num..][..num].iter().zip(&params.alpha);
            let terms = of_u.map(|(&p, &a)| f64::from(p) * f64::from(a));
            let k = walk(terms, rng.random::<f64>() * smooth[u as usize]) as u32;
            assigned.push(k);
            document.add(k);
        }
        let burn_in = self.samples / 2;
        let alpha_sum: f64 = params.alpha.iter().map(|&a| f64::from(a)).sum();
        let share = 1.0 / (self.samples - burn_in) as f64;
        let length = place.len() as f64;
        kept.clear();
        for sweep in 0..self.samples {
            for (&u, topic) in place.iter().zip(assigned.iter_mut()) {
                document.remove(*topic);
                let of_u = &phi[u as usize * num..][..num];
                let own = |&k: &u32| f64::from(document.count[k as usize]) * f64::from(of_u[k as usize]);
                let mass: f64 = document.topics.iter().map(own).sum();
                let draw = rng.random::<f64>() * (mass + smooth[u as usize]);
                *topic = match draw < mass {
                    true => document.topics[walk(document.topics.iter().map(own), draw)],
                    false => {
                        let terms = of_u.iter().zip(&params.alpha).map(|(&p, &a)| f64::from(p) * f64::from(a));
                        walk(terms, draw - mass) as u32
                    }
                };
                document.add(*topic);
            }
            if sweep < burn_in {
                continue;
            }
            kept.extend(place.iter().copied().zip(assigned.iter().copied()));
            piece.alloc += share * (ln_gamma(alpha_sum) - ln_gamma(length + alpha_sum));
            for &k in &document.topics {
                let (a, n) = (f64::from(params.alpha[k as usize]), f64::from(document.count[k as usize]));
                piece.alloc += share * (ln_gamma(n + a) - ln_gamma(a));
                if self.topics.alpha_rule != AlphaRule::Fixed {
                    piece.alpha_topic.push((k, share * (digamma(n + a) - digamma(a))));
                }
            }
        }
        if self.topics.alpha_rule != AlphaRule::Fixed {
            piece.alpha_total += digamma(length + alpha_sum) - digamma(alpha_sum);
        }
        piece.active += document.topics.len() as u64;
        kept.sort_unstable();
        for same in kept.chunk_by(|a, b| a == b) {
            piece.word.push(words[same[0].0 as usize]);
            piece.topic.push(same[0].1);
            piece.mass.push((same.len() as f64 * share) as f32);
        }
        piece.end.push(piece.word.len());
    }

    /// Sample the documents of a panel and add their statistics to `summary`.
    fn sample_panel(
        &self,
        params: &TopicParams,
        rows: &Rows<f32>,
        numbers: &[usize],
        visit: u64,
        summary: &mut TopicSummary,
    ) -> u64 {
        let num = self.topics.num_topics;
        let new_scratch = || DocumentScratch {
            counts: DocumentTopics::new(num),
            place: Vec::new(),
            assigned: Vec::new(),
            phi: Vec::new(),
            smooth: Vec::new(),
            kept: Vec::new(),
        };
        let pieces: Vec<Piece> = (0..rows.len().div_ceil(DOCUMENTS_A_TASK))
            .into_par_iter()
            .map_init(new_scratch, |scratch, task| {
                let mut piece = Piece::default();
                for n in task * DOCUMENTS_A_TASK..((task + 1) * DOCUMENTS_A_TASK).min(rows.len()) {
                    let (words, counts) = rows.sparse_row(n);
                    // Draws depend on seed, visit and document alone.
                    let mut rng = ChaCha8Rng::seed_from_u64(self.seed ^ visit.wrapping_mul(0x9E37_79B9_7F4A_7C15));
                    rng.set_stream(numbers[n] as u64);
                    self.sample_document(params, words, counts, &mut rng, scratch, &mut piece);
                }
                piece
            })
            .collect();
        let mut lists = Vec::with_capacity(rows.len());
        let mut active = 0;
        for piece in &pieces {
            let mut from = 0;
            for &to in &piece.end {
                let range = from..to;
                let (word, topic) = (&piece.word[range.clone()], &piece.topic[range.clone()]);
                lists.push(Entries { word, topic, mass: &piece.mass[range] });
                from = to;
            }
            piece.topic.iter().zip(&piece.mass).for_each(|(&k, &m)| summary.counts[k as usize] += f64::from(m));
            piece.alpha_topic.iter().for_each(|&(k, v)| summary.alpha_topic[k as usize] += v);
            summary.alloc += piece.alloc;
            summary.alpha_total += piece.alpha_total;
            active += piece.active;
        }
        summary.documents += rows.len() as f64;
        if let WordStats::Batch(stats) = &mut summary.words {
            stats.add_lists(num, &lists);
        }
        active
    }
}

impl TopicStep for SviGibbs {
    fn topics(&self) -> &Topics {
        &self.topics
    }

    fn topics_mut(&mut self) -> &mut Topics {
        &mut self.topics
    }

    fn visits(&self) -> u64 {
        self.visits.load(Ordering::Relaxed)
    }

    fn set_visits(&self, visits: u64) {
        self.visits.store(visits, Ordering::Relaxed);
    }
}

impl<'a> Model<TopicData<'a>> for SviGibbs {
    type Params = TopicParams;
    type Summary = TopicSummary;
    type Scratch = TopicScratch;

    fn num_batches(&self, data: &TopicData<'a>) -> usize {
        self.topics.num_batches(data)
    }

    fn batch_share(&self, data: &TopicData<'a>, batch: usize) -> f64 {
        self.topics.batch_share(data, batch)
    }

    fn batch_len(&self, data: &TopicData<'a>, batch: usize) -> usize {
        self.topics.batch_len(data, batch)
    }

    fn summarize(
        &self,
        params: &TopicParams,
        data: &TopicData<'a>,
        batch: usize,
        scratch: &mut TopicScratch,
    ) -> Result<TopicSummary> {
        let mut summary = self.topics.empty_batch();
        let mut tally = Tally::default();
        let visit = self.visits.fetch_add(1, Ordering::Relaxed);
        let ahead = scratch.ahead.get_or_insert_with(|| Ahead::new(Layout::Sparse, self.topics.vocab_size));
        ahead.for_each_panel(data.source, &data.batches, batch, PANEL_DOCUMENTS, |read| {
            tally.active += self.sample_panel(params, &read.rows, &read.row_ids, visit, &mut summary);
            tally.documents += read.rows.len() as u64;
            Ok(())
        })?;
        data.tally.lock().unwrap_or_else(|e| e.into_inner()).add(&tally);
        Ok(summary)
    }

    fn global_step(&self, total: &TopicSummary, previous: Option<&TopicParams>) -> Result<TopicParams> {
        Model::<TopicData<'a>>::global_step(&self.topics, total, previous)
    }

    fn update(&self, params: &mut TopicParams, total: &TopicSummary) -> Result<()> {
        Model::<TopicData<'a>>::update(&self.topics, params, total)
    }

    fn objective(&self, params: &TopicParams, total: &TopicSummary) -> Objective {
        Model::<TopicData<'a>>::objective(&self.topics, params, total)
    }

    fn lap_report(&self, data: &TopicData<'a>) -> Vec<(&'static str, f64)> {
        let tally = data.take_tally();
        vec![(ACTIVE_TOPICS, tally.active as f64 / tally.documents.max(1) as f64)]
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{DocumentOptions, SparseStats};
    use super::*;
    use crate::data::{Batches, CsrRows};
    use crate::likelihood::Estimate;

    /// The mean of many sweeps is the posterior mean of the counts, which a short document gives by enumeration.
    #[test]
    fn statistics_are_those_of_the_posterior_under_fixed_topics() {
        let (num, alpha) = (3, 0.9);
        let topics = Topics {
            num_topics: num,
            vocab_size: 3,
            estimate: Estimate::Posterior,
            alpha,
            alpha_rule: AlphaRule::Fixed,
            lambda: 0.3,
            document: DocumentOptions::dense(num),
            start_width: 0,
            pull: None,
        };
        let stats = SparseStats::by_word(3, |v, row| row.extend((0..num).map(|k| (k as u32, 1.0 + (v * k) as f64))));
        let mut total = TopicSummary::new(num, WordStats::Total(stats));
        total.counts = (0..num).map(|k| 3.0 + 3.0 * k as f64).collect();
        let params = Model::<TopicData<'_>>::global_step(&topics, &total, None).unwrap();
        let phi = |v: usize, k: usize| f64::from(params.table.row(v)[k] * params.table.scale[k]);

        let words = [0usize, 0, 1, 2];
        let (mut sum, mut expected) = (0.0, vec![0.0; 3 * num]);
        for code in 0..num.pow(4) {
            let z: Vec<usize> = (0..4).map(|i| code / num.pow(i) % num).collect();
            let mut counts = vec![alpha / num as f64; num];
            let mut p = 1.0;
            for (&v, &k) in words.iter().zip(&z) {
                p *= counts[k] * phi(v, k);
                counts[k] += 1.0;
            }
            sum += p;
            words.iter().zip(&z).for_each(|(&v, &k)| expected[v * num + k] += p);
        }

        let source = CsrRows::new("one document", 3, vec![0, 3], vec![0, 1, 2], vec![2.0f32, 1.0, 1.0]).unwrap();
        let data = TopicData::new(&source, Batches::in_order(1, 1).unwrap());
        let model = SviGibbs::new(topics, 60_000, 5);
        let summary = model.summarize(&params, &data, 0, &mut TopicScratch::default()).unwrap().into_total();
        for v in 0..3 {
            for (k, found) in summary.total().dense_word(v, num).into_iter().enumerate() {
                let expected = expected[v * num + k] / sum;
                assert!((found - expected).abs() < 0.02, "word {v}, topic {k}: {found} against {expected}");
            }
        }
        assert!((summary.counts.iter().sum::<f64>() - 4.0).abs() < 1e-4);
    }
}
