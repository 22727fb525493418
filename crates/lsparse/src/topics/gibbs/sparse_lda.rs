//! SparseLDA (Yao, Mimno, McCallum 2009): collapsed Gibbs sampling in three buckets.
//!
//! p(z = k) is proportional to (n_dk + alpha)(n_kv + beta)/(n_k + V beta), which is the sum of
//! alpha beta/(n_k + V beta), the same for all tokens (s), n_dk beta/(n_k + V beta), of the document's topics alone
//! (r), and (n_dk + alpha) n_kv/(n_k + V beta), of the word's topics alone (q). The first two are kept up to date, so
//! that a token costs the topics of its word. A word's topics are held as one number each, count and topic, the largest
//! count first: most draws end after a few.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::error::{Error, Result};
use crate::topics::gibbs::document::DocumentTopics;
use crate::topics::gibbs::{Prior, Sampler, Tokens, walk};

/// The sampler and its counts.
pub struct SparseLda {
    prior: Prior,
    words: WordTopics,
    /// n_k.
    totals: Vec<u32>,
    /// 1/(n_k + V beta).
    inverse: Vec<f64>,
    /// (n_dk + alpha)/(n_k + V beta), as long as topics have bits.
    factor: Vec<f64>,
    document: DocumentTopics,
    /// The word's terms of q.
    terms: Vec<f64>,
    s: f64,
    r: f64,
}

impl SparseLda {
    pub fn new(tokens: &Tokens, assigned: &[u32], num_topics: usize, prior: Prior) -> Result<Self> {
        let words = WordTopics::new(tokens, assigned, num_topics)?;
        let mut totals = vec![0u32; num_topics];
        assigned.iter().for_each(|&k| totals[k as usize] += 1);
        let inverse: Vec<f64> = totals.iter().map(|&n| 1.0 / (f64::from(n) + prior.beta_sum)).collect();
        let mut factor = vec![0.0; num_topics.next_power_of_two()];
        factor.iter_mut().zip(&inverse).for_each(|(f, i)| *f = prior.alpha * i);
        Ok(SparseLda {
            prior,
            words,
            totals,
            inverse,
            factor,
            document: DocumentTopics::new(num_topics),
            terms: vec![0.0; num_topics],
            s: 0.0,
            r: 0.0,
        })
    }

    /// Bring what depends on topic k's counts up to date.
    #[inline]
    fn refresh(&mut self, k: usize) {
        self.inverse[k] = 1.0 / (f64::from(self.totals[k]) + self.prior.beta_sum);
        self.factor[k] = (f64::from(self.document.count[k]) + self.prior.alpha) * self.inverse[k];
    }

    /// The share of topic k in s and r.
    #[inline]
    fn shares(&self, k: usize) -> (f64, f64) {
        let smoothed = self.prior.beta * self.inverse[k];
        (self.prior.alpha * smoothed, f64::from(self.document.count[k]) * smoothed)
    }

    fn sample_token(&mut self, v: usize, old: u32, rng: &mut ChaCha8Rng) -> u32 {
        let k = old as usize;
        let before = (self.s, self.r, self.inverse[k], self.factor[k]);
        let with = self.shares(k);
        self.totals[k] -= 1;
        self.document.remove(old);
        self.refresh(k);
        let without = self.shares(k);
        self.s += without.0 - with.0;
        self.r += without.1 - with.1;

        // The word's list still counts the token itself.
        let (sum, own) = self.words.weigh(v, old, &self.factor, &mut self.terms);
        self.terms[own] -= self.factor[k];
        let q = sum - self.factor[k];
        let draw = rng.random::<f64>() * (self.s + self.r + q);
        let (new, place) = if draw < q {
            let place = walk(self.terms[..self.words.length(v)].iter().copied(), draw);
            (self.words.topic(v, place), Some(place))
        } else if draw - q < self.r && !self.document.topics.is_empty() {
            let mass = |&k: &u32| self.shares(k as usize).1;
            let at = walk(self.document.topics.iter().map(mass), draw - q);
            (self.document.topics[at], None)
        } else {
            let mass = |k: usize| self.shares(k).0;
            (walk((0..self.totals.len()).map(mass), draw - q - self.r) as u32, None)
        };

        let k = new as usize;
        let without = self.shares(k);
        self.totals[k] += 1;
        self.document.add(new);
        if new == old {
            (self.s, self.r, self.inverse[k], self.factor[k]) = before;
            return new;
        }
        self.refresh(k);
        let with = self.shares(k);
        self.s += with.0 - without.0;
        self.r += with.1 - without.1;
        self.words.move_one(v, own, new, place);
        new
    }
}

impl Sampler for SparseLda {
    fn start_afresh(&mut self) {
        // Kept up to date token by token, it would drift.
        self.s = self.inverse.iter().map(|i| self.prior.alpha * self.prior.beta * i).sum();
    }

    fn sample_document(&mut self, word: &[u32], assigned: &mut [u32], rng: &mut ChaCha8Rng) {
        self.document.begin(assigned);
        self.r = 0.0;
        for i in 0..self.document.topics.len() {
            let k = self.document.topics[i] as usize;
            self.factor[k] = (f64::from(self.document.count[k]) + self.prior.alpha) * self.inverse[k];
            self.r += self.shares(k).1;
        }
        for (&v, topic) in word.iter().zip(assigned) {
            *topic = self.sample_token(v as usize, *topic, rng);
        }
        for &k in &self.document.topics {
            self.factor[k as usize] = self.prior.alpha * self.inverse[k as usize];
        }
    }
}

/// For every word its topics with counts, `count << bits | topic`, in falling order.
struct WordTopics {
    bits: u32,
    /// Word v has room at `start[v]..start[v + 1]`: it never has more topics than tokens.
    start: Vec<usize>,
    length: Vec<u32>,
    entries: Vec<u32>,
}

impl WordTopics {
    fn new(tokens: &Tokens, assigned: &[u32], num_topics: usize) -> Result<Self> {
        let bits = num_topics.next_power_of_two().trailing_zeros();
        let frequency = tokens.frequencies();
        if let Some(v) = frequency.iter().position(|&n| n as u64 >= 1 << (32 - bits)) {
            let problem = format!("word {} occurs {} times, too often for {num_topics} topics", v + 1, frequency[v]);
            let remedy = "choose `method light-lda`, or leave out so frequent a word".into();
            return Err(Error::Config { setting: "method", problem, remedy });
        }
        let mut start = vec![0];
        start.extend(frequency.iter().scan(0, |end, &n| {
            *end += n.min(num_topics);
            Some(*end)
        }));
        let mut by_word: Vec<Vec<u32>> = frequency.iter().map(|&n| Vec::with_capacity(n)).collect();
        tokens.word.iter().zip(assigned).for_each(|(&v, &k)| by_word[v as usize].push(k));
        let mut words =
            WordTopics { bits, length: vec![0; frequency.len()], entries: vec![0; start[frequency.len()]], start };
        for (v, topics) in by_word.iter_mut().enumerate() {
            topics.sort_unstable();
            let mut entries: Vec<u32> =
                topics.chunk_by(|a, b| a == b).map(|same| ((same.len() as u32) << bits) | same[0]).collect();
            entries.sort_unstable_by(|a, b| b.cmp(a));
            words.length[v] = entries.len() as u32;
            words.entries[words.start[v]..][..entries.len()].copy_from_slice(&entries);
        }
        Ok(words)
    }

    fn length(&self, v: usize) -> usize {
        self.length[v] as usize
    }

    fn topic(&self, v: usize, place: usize) -> u32 {
        self.entries[self.start[v] + place] & ((1 << self.bits) - 1)
    }

    /// The terms factor_k n_kv of a word's topics; gives their sum, and where topic `own` stands.
    #[inline]
    fn weigh(&self, v: usize, own: u32, factor: &[f64], terms: &mut [f64]) -> (f64, usize) {
        let list = &self.entries[self.start[v]..][..self.length[v] as usize];
        let terms = &mut terms[..list.len()];
        // The length of `factor` is a power of two: the compiler sees that a masked topic is within it.
        let mask = factor.len() - 1;
        let mut sums = [0.0; 4];
        let mut at = 0;
        let mut one = |i: usize, entry: u32, term: &mut f64| {
            let k = entry as usize & mask;
            *term = factor[k] * f64::from(entry >> self.bits);
            if k == own as usize {
                at = i;
            }
            *term
        };
        let (fours, rest) = list.as_chunks::<4>();
        let (out, out_rest) = terms.as_chunks_mut::<4>();
        for (i, (entries, out)) in fours.iter().zip(out).enumerate() {
            for lane in 0..4 {
                sums[lane] += one(4 * i + lane, entries[lane], &mut out[lane]);
            }
        }
        for (i, (&entry, out)) in rest.iter().zip(out_rest).enumerate() {
            sums[0] += one(4 * fours.len() + i, entry, out);
        }
        (sums.iter().sum(), at)
    }

    /// Take one token from the topic at place `from` and give it to topic `to`, which stands at `hint` if anywhere.
    fn move_one(&mut self, v: usize, from: usize, to: u32, hint: Option<usize>) {
        let one = 1 << self.bits;
        let room = &mut self.entries[self.start[v]..self.start[v + 1]];
        let mut length = self.length[v] as usize;
        let mut at = from;
        room[at] -= one;
        while at + 1 < length && room[at] < room[at + 1] {
            room.swap(at, at + 1);
            at += 1;
        }
        if room[at] < one {
            length -= 1;
        }
        let mask = one - 1;
        // What stood behind the topic that lost a token may have moved up by one.
        let search = hint.map_or(0, |place| place.saturating_sub(1));
        let found = room[search..length].iter().position(|entry| entry & mask == to);
        let mut at = match found {
            Some(place) => search + place,
            None => {
                room[length] = to;
                length += 1;
                length - 1
            }
        };
        room[at] += one;
        while at > 0 && room[at] > room[at - 1] {
            room.swap(at, at - 1);
            at -= 1;
        }
        self.length[v] = length as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_stay_sorted_and_counts_stay_true() {
        use rand::SeedableRng;
        let tokens = Tokens { word: (0..60).map(|i| i / 20).collect(), start: vec![0, 60], vocab_size: 4 };
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut assigned: Vec<u32> = (0..60).map(|_| rng.random_range(0..7)).collect();
        let mut words = WordTopics::new(&tokens, &assigned, 7).unwrap();
        for _ in 0..2000 {
            let i = rng.random_range(0..60);
            let (v, to) = (tokens.word[i] as usize, rng.random_range(0..7u32));
            let place = |k: u32| (0..words.length(v)).find(|&p| words.topic(v, p) == k);
            let (from, hint) = (place(assigned[i]).unwrap(), place(to));
            if to != assigned[i] {
                words.move_one(v, from, to, hint);
                assigned[i] = to;
            }
            let again = WordTopics::new(&tokens, &assigned, 7).unwrap();
            for v in 0..3 {
                let list = |w: &WordTopics| w.entries[w.start[v]..][..w.length(v)].to_vec();
                assert_eq!(list(&words), list(&again));
            }
        }
    }
}
