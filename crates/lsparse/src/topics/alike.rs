//! Topics that are nearly the same, by the counts of their words.

use rayon::prelude::*;

use crate::topics::saved::TopicModel;

/// The part of the least cosine that the words beyond a topic's heaviest may give.
const HEAVY_WORDS: f64 = 0.6;

/// What comparing topics needs: the counts of one, and of each other the product with its heaviest words and their squares.
struct AlikeScratch {
    dense: Vec<f64>,
    shared: Vec<(f64, f64)>,
}

impl TopicModel {
    /// Cosine of the counts of words of two topics from which they are taken to be nearly the same: pairs above it share
    /// most of their top words (kos at K = 50 has four, about one election night), those below are neighbours in subject.
    pub const NEARLY_THE_SAME: f64 = 0.8;

    /// Pairs of topics, the lower one first, whose counts of words have a cosine of at least `least`, the most alike first.
    pub fn alike(&self, least: f64) -> Vec<(usize, usize, f64)> {
        let (stats, num) = (self.total.total(), self.num_topics());
        let mut words: Vec<Vec<(u32, f64)>> = vec![Vec::new(); num];
        for v in 0..self.vocab_size() {
            let entries = stats.indptr[v]..stats.indptr[v + 1];
            entries.for_each(|e| words[stats.topic[e] as usize].push((v as u32, stats.mass[e])));
        }
        let norms: Vec<f64> =
            words.iter().map(|words| words.iter().map(|(_, mass)| mass * mass).sum::<f64>().sqrt()).collect();
        let scratch = || AlikeScratch { dense: vec![0.0; self.vocab_size()], shared: vec![(0.0, 0.0); num] };
        let of_topic = |scratch: &mut AlikeScratch, k: usize| {
            if norms[k] == 0.0 {
                return Vec::new();
            }
            // The heaviest words of the topic, until what is left is short: by the inequality of Cauchy and Schwarz nobody
            // is as near as is asked for who does not share enough of these, and only those are compared word by word.
            let heavier = |a: &(u32, f64), b: &(u32, f64)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
            let mut heavy = words[k].clone();
            let mut sorted = 0;
            let short = (HEAVY_WORDS * least.max(0.0) * norms[k]).powi(2);
            let mut rest: f64 = heavy.iter().map(|(_, mass)| mass * mass).sum();
            let mut taken = 0;
            while taken < heavy.len() && rest > short {
                if taken == sorted {
                    // A few more, since few are needed of many.
                    sorted = (2 * sorted + 32).min(heavy.len());
                    if sorted < heavy.len() {
                        heavy[taken..].select_nth_unstable_by(sorted - taken, heavier);
                    }
                    heavy[taken..sorted].sort_unstable_by(heavier);
                }
                rest -= heavy[taken].1 * heavy[taken].1;
                taken += 1;
            }
            let rest = rest.max(0.0).sqrt();
            let shared = &mut scratch.shared[k + 1..];
            shared.fill((0.0, 0.0));
            for &(v, mass) in &heavy[..taken] {
                let (topics, masses) = stats.word(v as usize);
                let later = topics.partition_point(|&other| other as usize <= k);
                for (&other, &its) in topics[later..].iter().zip(&masses[later..]) {
                    let shared = &mut shared[other as usize - k - 1];
                    *shared = (shared.0 + mass * its, shared.1 + its * its);
                }
            }
            words[k].iter().for_each(|&(v, mass)| scratch.dense[v as usize] = mass);
            let may_be = |&(i, &(product, square)): &(usize, &(f64, f64))| {
                let norm = norms[k + 1 + i];
                // A little more than that, for what rounding takes.
                let most = product + rest * (norm * norm - square).max(0.0).sqrt();
                norm > 0.0 && most >= (least - 1e-9) * norms[k] * norm
            };
            let cosine = |other: usize| {
                let product: f64 = words[other].iter().map(|&(v, its)| scratch.dense[v as usize] * its).sum();
                product / (norms[k] * norms[other])
            };
            let found = shared.iter().enumerate().filter(may_be).map(|(i, _)| (k, k + 1 + i, cosine(k + 1 + i)));
            let found = found.filter(|pair| pair.2 >= least).collect();
            words[k].iter().for_each(|&(v, _)| scratch.dense[v as usize] = 0.0);
            found
        };
        let lists: Vec<Vec<_>> = (0..num).into_par_iter().map_init(scratch, of_topic).collect();
        let mut pairs: Vec<(usize, usize, f64)> = lists.concat();
        pairs.sort_by(|a, b| b.2.total_cmp(&a.2).then((a.0, a.1).cmp(&(b.0, b.1))));
        pairs
    }
}
