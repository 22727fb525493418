//! SVIGibbs (Mimno, Hoffman, Blei 2012): stochastic variational training whose document step is a few Gibbs samples.
//!
//! Under fixed topics, exp(`E[log phi_kv]`), and with the document's mix integrated out, a token's topic is drawn with
//! p(z = k) proportional to (n_dk + alpha_k) exp(`E[log phi_kv]`). The first half of the sweeps is burn-in; the
//! statistics are the mean of the others. Gibbs samples have no entropy in closed form: the objective lacks it.

use lsparse_kernels::{digamma, ln_gamma};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use crate::allocation::{AlphaRule, alpha_bound};
use crate::data::Rows;
use crate::topics::gibbs::document::DocumentTopics;
use crate::topics::gibbs::walk;
use crate::topics::summary::{Entries, TopicSummary, WordStats};
use crate::topics::{TopicParams, Topics};

/// How documents are sampled.
#[derive(Clone, Copy, Debug)]
pub struct Sampling {
    /// Sweeps over a document, half of them burn-in.
    pub samples: usize,
    /// Seed of the draws.
    pub seed: u64,
    /// The number of the run's first visit, which makes every visit's draws its own.
    pub first_visit: u64,
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

impl Sampling {
    fn sample_document(
        &self,
        topics: &Topics,
        params: &TopicParams,
        (words, counts): (&[u32], &[f32]),
        rng: &mut ChaCha8Rng,
        scratch: &mut DocumentScratch,
        piece: &mut Piece,
    ) {
        let num = topics.num_topics;
        let DocumentScratch { counts: document, place, assigned, phi, smooth, kept } = scratch;
        place.clear();
        phi.clear();
        smooth.clear();
        for (u, (&v, &c)) in words.iter().zip(counts).enumerate() {
            place.extend(std::iter::repeat_n(u as u32, c as usize));
            let table = params.table.get();
            let row = table.row(v as usize).iter().zip(&table.scale);
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
                if topics.alpha_rule != AlphaRule::Fixed {
                    // A sample has one token of a topic or more: e_k is 0.
                    let tables = share * alpha_bound(n, a).0;
                    piece.alpha_topic.push((k, tables));
                    piece.alloc -= tables * a.ln();
                }
            }
        }
        if topics.alpha_rule != AlphaRule::Fixed {
            let slope = digamma(length + alpha_sum) - digamma(alpha_sum);
            piece.alpha_total += slope;
            piece.alloc += slope * alpha_sum;
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

    /// Sample the documents of a panel and add their statistics to `summary`; gives the topics they have, added up.
    pub fn sample_panel(
        &self,
        topics: &Topics,
        params: &TopicParams,
        rows: &Rows<f32>,
        numbers: &[usize],
        visit: u64,
        summary: &mut TopicSummary,
    ) -> u64 {
        let num = topics.num_topics;
        let visit = self.first_visit.wrapping_add(visit);
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
                    // Draws depend on seed, visit and document alone.
                    let mut rng = ChaCha8Rng::seed_from_u64(self.seed ^ visit.wrapping_mul(0x9E37_79B9_7F4A_7C15));
                    rng.set_stream(numbers[n] as u64);
                    self.sample_document(topics, params, rows.sparse_row(n), &mut rng, scratch, &mut piece);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{CsrRows, Dealt};
    use crate::likelihood::Estimate;
    use crate::topics::{DocumentOptions, SparseStats};
    use crate::training::model::Model;

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
            warm_start: false,
            lends: false,
            sampling: Some(Sampling { samples: 60_000, seed: 5, first_visit: 0 }),
            device: None,
            gamma: None,
            finding: None,
        };
        let stats = SparseStats::by_word(3, |v, row| row.extend((0..num).map(|k| (k as u32, 1.0 + (v * k) as f64))));
        let mut total = TopicSummary::new(num, WordStats::Total(stats));
        total.counts = (0..num).map(|k| 3.0 + 3.0 * k as f64).collect();
        let params = topics.global_step(&total, None).unwrap();
        let phi = |v: usize, k: usize| f64::from(params.table.get().row(v)[k] * params.table.get().scale[k]);

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
        let data = Dealt::in_order(&source).unwrap();
        let visited = topics.local(&params, &data.batch(0), &Default::default(), &mut topics.worker()).unwrap();
        let summary = visited.summary.into_total();
        for v in 0..3 {
            for (k, found) in summary.total().dense_word(v, num).into_iter().enumerate() {
                let expected = expected[v * num + k] / sum;
                assert!((found - expected).abs() < 0.02, "word {v}, topic {k}: {found} against {expected}");
            }
        }
        assert!((summary.counts.iter().sum::<f64>() - 4.0).abs() < 1e-4);
    }
}
