//! Topics proposed for a word by counts of a little while ago, at a cost that does not depend on K.
//!
//! q_v(k) is proportional to (n_kv + beta)/(n_k + V beta) as it was when the word's table was made. It is two parts:
//! the word's own topics, a table as long as they are many, and beta/(n_k + V beta), one table for all words. Both are
//! made anew after so many draws, and at the start of every batch of documents. A draw is corrected by the ratio of
//! what is and what was, for which the densities of the tables in use are kept.
//!
//! A table that was made earlier in the batch has counted the token itself, where it still is: proposals that know the
//! state they are to leave are not what the correction takes them for, and documents come out with too many topics. So
//! its own count is left out, of draws by refusing some of them.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::topics::gibbs::alias::{AliasScratch, AliasTable};
use crate::topics::gibbs::{Prior, Tokens};

/// n_kv and n_k where any of them can be looked up at once.
pub struct DenseCounts {
    num_topics: usize,
    /// n_kv, word by word.
    count: Vec<u32>,
    /// n_k.
    totals: Vec<u32>,
    /// The topics that came to have a word since its list was last tidied, and those that had it then.
    there: Vec<Vec<u32>>,
    prior: Prior,
}

impl DenseCounts {
    pub fn new(tokens: &Tokens, assigned: &[u32], num_topics: usize, prior: Prior) -> Self {
        let mut counts = DenseCounts {
            num_topics,
            count: vec![0; tokens.vocab_size * num_topics],
            totals: vec![0; num_topics],
            there: vec![Vec::new(); tokens.vocab_size],
            prior,
        };
        tokens.word.iter().zip(assigned).for_each(|(&v, &k)| counts.add(v as usize, k));
        counts
    }

    #[inline]
    pub fn add(&mut self, v: usize, k: u32) {
        let count = &mut self.count[v * self.num_topics + k as usize];
        if *count == 0 {
            self.there[v].push(k);
        }
        *count += 1;
        self.totals[k as usize] += 1;
    }

    #[inline]
    pub fn remove(&mut self, v: usize, k: u32) {
        self.count[v * self.num_topics + k as usize] -= 1;
        self.totals[k as usize] -= 1;
    }

    /// (n_kv + beta)/(n_k + V beta).
    #[inline]
    pub fn word_factor(&self, v: usize, k: u32) -> f64 {
        let count = f64::from(self.count[v * self.num_topics + k as usize]);
        (count + self.prior.beta) / (f64::from(self.totals[k as usize]) + self.prior.beta_sum)
    }

    /// The topics that have a word, ascending.
    fn topics(&mut self, v: usize) -> &[u32] {
        let row = &self.count[v * self.num_topics..(v + 1) * self.num_topics];
        let there = &mut self.there[v];
        there.retain(|&k| row[k as usize] > 0);
        there.sort_unstable();
        there.dedup();
        there
    }
}

/// The proposals of one word.
#[derive(Default)]
struct Table {
    topics: Vec<u32>,
    alias: AliasTable,
    mass: f32,
    /// Draws until it is made anew.
    left: usize,
}

/// The proposals of all words.
pub struct WordProposal {
    num_topics: usize,
    /// n_kv/(n_k + V beta) as the table of word v has it, and the part of a single token.
    weight: Vec<[f32; 2]>,
    tables: Vec<Table>,
    /// beta/(n_k + V beta) as the table for all words has it.
    smooth: Vec<f32>,
    shared: Table,
    /// Draws a table, 0 for a multiple of its size.
    draws: Option<usize>,
    buffer: Vec<f32>,
    scratch: AliasScratch,
}

/// What a token itself has added to the table of its word.
#[derive(Clone, Copy)]
pub struct Own {
    topic: u32,
    /// Nothing if the table was made without it.
    weight: f32,
}

/// Draws a table of given size serves for: making it costs a few draws an entry.
const DRAWS_AN_ENTRY: usize = 4;

impl WordProposal {
    pub fn new(vocab_size: usize, num_topics: usize, draws: Option<usize>) -> Self {
        WordProposal {
            num_topics,
            weight: vec![[0.0; 2]; vocab_size * num_topics],
            tables: (0..vocab_size).map(|_| Table::default()).collect(),
            smooth: vec![0.0; num_topics],
            shared: Table::default(),
            draws,
            buffer: Vec::new(),
            scratch: AliasScratch::default(),
        }
    }

    /// Make every table anew when it is next needed.
    pub fn expire(&mut self) {
        self.tables.iter_mut().for_each(|table| table.left = 0);
        self.shared.left = 0;
    }

    /// Make ready for the proposals of one token of word v, which had `topic` since the batch began and is not counted
    /// now; gives what it has added to the table.
    pub fn prepare(&mut self, v: usize, topic: u32, counts: &mut DenseCounts) -> Own {
        let mut own = Own { topic, weight: self.weight[v * self.num_topics + topic as usize][1] };
        if self.tables[v].left == 0 {
            self.rebuild_word(v, counts);
            own.weight = 0.0;
        }
        if self.shared.left == 0 {
            self.rebuild_shared(counts);
        }
        self.tables[v].left -= 1;
        self.shared.left -= 1;
        own
    }

    fn serves(draws: Option<usize>, entries: usize) -> usize {
        draws.unwrap_or(DRAWS_AN_ENTRY * entries.max(4))
    }

    fn rebuild_word(&mut self, v: usize, counts: &mut DenseCounts) {
        let table = &mut self.tables[v];
        let row = &mut self.weight[v * self.num_topics..(v + 1) * self.num_topics];
        table.topics.iter().for_each(|&k| row[k as usize] = [0.0; 2]);
        table.topics.clear();
        table.topics.extend_from_slice(counts.topics(v));
        self.buffer.clear();
        for &k in &table.topics {
            let total = f64::from(counts.totals[k as usize]) + counts.prior.beta_sum;
            let weight = (f64::from(counts.count[v * self.num_topics + k as usize]) / total) as f32;
            row[k as usize] = [weight, (1.0 / total) as f32];
            self.buffer.push(weight);
        }
        table.mass = self.buffer.iter().sum();
        table.alias.rebuild(&self.buffer, table.mass, &mut self.scratch);
        table.left = Self::serves(self.draws, table.topics.len());
    }

    fn rebuild_shared(&mut self, counts: &DenseCounts) {
        for (smooth, &total) in self.smooth.iter_mut().zip(&counts.totals) {
            *smooth = (counts.prior.beta / (f64::from(total) + counts.prior.beta_sum)) as f32;
        }
        self.shared.mass = self.smooth.iter().sum();
        self.shared.alias.rebuild(&self.smooth, self.shared.mass, &mut self.scratch);
        self.shared.left = Self::serves(self.draws, self.num_topics);
    }

    /// The mass of a word's own table without the token itself; nothing where only rounding is left.
    #[inline]
    fn table_mass(&self, v: usize, own: Own) -> f32 {
        let (mass, left) = (self.tables[v].mass, self.tables[v].mass - own.weight);
        if left > 1e-5 * mass { left } else { 0.0 }
    }

    /// The sum of a word's densities.
    #[inline]
    pub fn mass(&self, v: usize, own: Own) -> f64 {
        f64::from(self.table_mass(v, own)) + f64::from(self.shared.mass)
    }

    /// How much topic k is proposed for word v, in the units of `mass`.
    #[inline]
    pub fn density(&self, v: usize, k: u32, own: Own) -> f64 {
        let weight = self.weight[v * self.num_topics + k as usize][0];
        let weight = if k == own.topic { (weight - own.weight).max(0.0) } else { weight };
        f64::from(weight) + f64::from(self.smooth[k as usize])
    }

    /// A topic drawn in proportion to the densities of word v.
    #[inline]
    pub fn draw(&self, v: usize, own: Own, rng: &mut ChaCha8Rng) -> u32 {
        let table = &self.tables[v];
        let mass = f64::from(self.table_mass(v, own));
        if rng.random::<f64>() * (mass + f64::from(self.shared.mass)) >= mass {
            return self.shared.alias.outcome(rng.random()) as u32;
        }
        loop {
            let k = table.topics[table.alias.outcome(rng.random())];
            let weight = self.weight[v * self.num_topics + k as usize][0];
            if k != own.topic || rng.random::<f64>() * f64::from(weight) >= f64::from(own.weight) {
                return k;
            }
        }
    }
}
