//! Collapsed Gibbs samplers of LDA: every token has one topic, drawn anew lap by lap given those of all others.
//!
//! SparseLDA, AliasLDA and LightLDA sample from the same posterior, p(z | w) with topics and documents' mixes
//! integrated out, and differ in what a draw costs: the topics of the word, those of the document, or neither. A chain
//! is one thread by nature; the number of threads changes nothing. SVIGibbs samples the documents of a batch under fixed
//! topics instead, as the document step of stochastic variational training.

mod alias;
mod alias_lda;
mod document;
mod light_lda;
mod sparse_lda;
mod svi_gibbs;
mod tokens;
mod train;
mod word_proposal;

use std::ops::Range;
use std::sync::Arc;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::error::{Error, Result};
use crate::settings::{TopicMethod, TopicsConfig};
use crate::topics::{Document, DocumentOptions, WordTable};

pub use svi_gibbs::Sampling;
pub use tokens::Tokens;
pub use train::{ChainState, GibbsFamily, GibbsModel, GibbsParams, GibbsWorker, LapTally};

/// The prior of a sampler.
#[derive(Clone, Copy, Debug)]
struct Prior {
    /// alpha/K.
    alpha: f64,
    /// lambda, which samplers call beta.
    beta: f64,
    /// V beta.
    beta_sum: f64,
}

/// How proposals are made and judged.
#[derive(Clone, Copy, Debug)]
struct MhSettings {
    /// Metropolis-Hastings steps a token.
    steps: usize,
    /// Draws a table of proposals serves for; 0 for a multiple of its size.
    table_draws: Option<usize>,
}

/// Proposals made and accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Proposals {
    /// All of them.
    pub made: u64,
    /// Those that were taken, also where they changed nothing.
    pub accepted: u64,
}

impl Proposals {
    /// Add others.
    pub fn add(&mut self, other: &Proposals) {
        self.made += other.made;
        self.accepted += other.accepted;
    }
}

/// Draws topics given counts that it keeps in the form it needs.
trait Sampler: Send {
    /// What is derived from the counts starts afresh, so that a chain can be taken up here.
    fn start_afresh(&mut self);

    /// Draw every token of a document anew, whose topics are `assigned`.
    fn sample_document(&mut self, words: &[u32], assigned: &mut [u32], rng: &mut ChaCha8Rng);

    /// Proposals since this was last asked; none where every draw is exact.
    fn take_proposals(&mut self) -> Proposals {
        Proposals::default()
    }
}

impl dyn Sampler {
    /// The sampler that settings name, with the counts of these topics of all tokens.
    fn new(tokens: &Tokens, assigned: &[u32], config: &TopicsConfig) -> Result<Box<dyn Sampler>> {
        let num = config.topics;
        let beta_sum = config.lambda * tokens.vocab_size as f64;
        let prior = Prior { alpha: config.alpha / num as f64, beta: config.lambda, beta_sum };
        let settings = MhSettings { steps: config.mh_steps, table_draws: config.table_draws };
        Ok(match config.method {
            TopicMethod::SparseLda => Box::new(sparse_lda::SparseLda::new(tokens, assigned, num, prior)?),
            TopicMethod::AliasLda => Box::new(alias_lda::AliasLda::new(tokens, assigned, num, prior, settings)),
            TopicMethod::LightLda => Box::new(light_lda::LightLda::new(tokens, assigned, num, prior, settings)),
            TopicMethod::Lsparse | TopicMethod::SviGibbs => {
                let problem = "it is not a sampler of all tokens".into();
                let remedy = "choose sparse-lda, alias-lda or light-lda".into();
                return Err(Error::Config { setting: "method", problem, remedy });
            }
        })
    }

    /// Draw every token of these documents anew; `assigned` are the topics of their tokens.
    fn sample(&mut self, tokens: &Tokens, documents: Range<usize>, mut assigned: &mut [u32], rng: &mut ChaCha8Rng) {
        self.start_afresh();
        for d in documents {
            let words = &tokens.word[tokens.document(d)];
            let (own, rest) = assigned.split_at_mut(words.len());
            self.sample_document(words, own, rng);
            assigned = rest;
        }
    }
}

impl Tokens {
    /// A topic for every token, drawn uniformly.
    fn drawn_uniformly(&self, config: &TopicsConfig, rng: &mut ChaCha8Rng) -> Vec<u32> {
        self.word.iter().map(|_| rng.random_range(0..config.topics as u32)).collect()
    }

    /// A topic for every token, drawn by the responsibilities that the dense document step gives under these topics.
    fn drawn_under(&self, table: &WordTable, config: &TopicsConfig, rng: &mut ChaCha8Rng) -> Vec<u32> {
        let alpha = vec![(config.alpha / config.topics as f64) as f32; config.topics];
        let options = DocumentOptions { iterations: config.doc_iterations, ..DocumentOptions::dense(config.topics) };
        let mut document = Document::default();
        let mut assigned = Vec::with_capacity(self.word.len());
        let (mut words, mut counts) = (Vec::new(), Vec::new());
        for d in 0..self.num_documents() {
            words.clear();
            counts.clear();
            for same in self.word[self.document(d)].chunk_by(|a, b| a == b) {
                words.push(same[0]);
                counts.push(same.len() as f32);
            }
            document.solve(table, &alpha, &words, &counts, &options, None);
            for (u, &count) in counts.iter().enumerate() {
                for _ in 0..count as usize {
                    // Responsibilities sum to one.
                    let at = walk(document.responsibilities(u).map(|r| f64::from(r.1)), rng.random());
                    assigned.extend(document.responsibilities(u).nth(at).map(|r| r.0));
                }
            }
        }
        assigned
    }
}

/// A Markov chain over the topics of all tokens, whose stationary distribution is their posterior.
///
/// ```
/// use std::sync::Arc;
/// use lsparse::data::CsrRows;
/// use lsparse::topics::gibbs::{Chain, Tokens};
/// use lsparse::settings::{TopicMethod, TopicsConfig};
/// use rand::SeedableRng;
///
/// let corpus = CsrRows::new("one document", 3, vec![0, 2], vec![0, 2], vec![2.0f32, 1.0])?;
/// let tokens = Arc::new(Tokens::read(&corpus)?);
/// let config = TopicsConfig { topics: 2, method: TopicMethod::SparseLda, ..Default::default() };
/// let mut chain = Chain::random(tokens, &config, rand_chacha::ChaCha8Rng::seed_from_u64(0))?;
/// chain.sweep();
/// assert_eq!(chain.assigned().len(), 3);
/// # Ok::<(), lsparse::Error>(())
/// ```
pub struct Chain {
    tokens: Arc<Tokens>,
    assigned: Vec<u32>,
    sampler: Box<dyn Sampler>,
    rng: ChaCha8Rng,
}

impl Chain {
    /// Start from topics drawn uniformly.
    pub fn random(tokens: Arc<Tokens>, config: &TopicsConfig, mut rng: ChaCha8Rng) -> Result<Self> {
        let assigned = tokens.drawn_uniformly(config, &mut rng);
        Chain::at(tokens, assigned, config, rng)
    }

    /// Start from topics drawn by the responsibilities that the dense document step gives under these topics.
    pub fn from_topics(
        tokens: Arc<Tokens>,
        table: &WordTable,
        config: &TopicsConfig,
        mut rng: ChaCha8Rng,
    ) -> Result<Self> {
        let assigned = tokens.drawn_under(table, config, &mut rng);
        Chain::at(tokens, assigned, config, rng)
    }

    /// Go on from these topics of all tokens.
    pub fn at(tokens: Arc<Tokens>, assigned: Vec<u32>, config: &TopicsConfig, rng: ChaCha8Rng) -> Result<Self> {
        let sampler = <dyn Sampler>::new(&tokens, &assigned, config)?;
        Ok(Chain { tokens, assigned, sampler, rng })
    }

    /// Draw the topic of every token of these documents anew.
    pub fn sample(&mut self, documents: Range<usize>) {
        let assigned = &mut self.assigned[self.tokens.of(&documents)];
        self.sampler.sample(&self.tokens, documents, assigned, &mut self.rng);
    }

    /// Draw the topic of every token anew.
    pub fn sweep(&mut self) {
        self.sample(0..self.tokens.num_documents());
    }

    /// The topic of every token.
    pub fn assigned(&self) -> &[u32] {
        &self.assigned
    }

    /// Metropolis-Hastings proposals since this was last asked; none for SparseLDA, whose draws are exact.
    pub fn take_proposals(&mut self) -> Proposals {
        self.sampler.take_proposals()
    }
}

/// Where the running sum of `terms` passes `draw`; the last with any mass if rounding takes it beyond the end.
#[inline]
fn walk(terms: impl Iterator<Item = f64>, mut draw: f64) -> usize {
    let mut last = 0;
    for (at, term) in terms.enumerate() {
        if term > 0.0 {
            last = at;
            draw -= term;
            if draw < 0.0 {
                break;
            }
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_ends_where_the_sum_passes_the_draw() {
        let walk = |terms: [f64; 3], draw: f64| walk(terms.into_iter(), draw);
        assert_eq!(walk([0.5, 0.0, 0.25], 0.4), 0);
        assert_eq!(walk([0.5, 0.0, 0.25], 0.5), 2);
        assert_eq!(walk([0.5, 0.25, 0.0], 0.9), 1, "beyond the end, the last with mass");
    }
}
