//! AliasLDA (Li, Ahmed, Ravi, Smola 2014): the document's topics weighed exactly, the rest proposed by stale tables.
//!
//! p(z = k) is proportional to n_dk g_k + alpha g_k with g_k = (n_kv + beta)/(n_k + V beta). The first part has as many
//! terms as the document has topics and is exact; the second is proposed by what it was a while ago. A
//! Metropolis-Hastings step corrects for the difference.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::topics::gibbs::document::DocumentTopics;
use crate::topics::gibbs::word_proposal::{DenseCounts, WordProposal};
use crate::topics::gibbs::{MhSettings, Prior, Proposals, Sampler, Tokens, walk};

/// The sampler and its counts.
pub struct AliasLda {
    prior: Prior,
    counts: DenseCounts,
    proposal: WordProposal,
    document: DocumentTopics,
    steps: usize,
    /// n_dk g_k of the document's topics.
    terms: Vec<f64>,
    proposals: Proposals,
}

impl AliasLda {
    pub fn new(tokens: &Tokens, assigned: &[u32], num_topics: usize, prior: Prior, settings: MhSettings) -> Self {
        AliasLda {
            prior,
            counts: DenseCounts::new(tokens, assigned, num_topics, prior),
            proposal: WordProposal::new(tokens.vocab_size, num_topics, settings.table_draws),
            document: DocumentTopics::new(num_topics),
            steps: settings.steps,
            terms: Vec::new(),
            proposals: Proposals::default(),
        }
    }

    fn sample_token(&mut self, v: usize, old: u32, rng: &mut ChaCha8Rng) -> u32 {
        self.document.remove(old);
        self.counts.remove(v, old);
        let own = self.proposal.prepare(v, old, &mut self.counts);
        self.terms.clear();
        let mut exact = 0.0;
        for &k in &self.document.topics {
            let term = f64::from(self.document.count[k as usize]) * self.counts.word_factor(v, k);
            self.terms.push(term);
            exact += term;
        }
        let stale = self.prior.alpha * self.proposal.mass(v, own);
        // Of a topic: what it should be drawn by, and what it is drawn by.
        let weigh = |k: u32| {
            let (count, factor) = (f64::from(self.document.count[k as usize]), self.counts.word_factor(v, k));
            ((count + self.prior.alpha) * factor, count * factor + self.prior.alpha * self.proposal.density(v, k, own))
        };
        let mut now = old;
        let (mut target, mut proposed_by) = weigh(now);
        for _ in 0..self.steps {
            let draw = rng.random::<f64>() * (exact + stale);
            let proposed = match draw < exact {
                true => self.document.topics[walk(self.terms.iter().copied(), draw)],
                false => self.proposal.draw(v, own, rng),
            };
            self.proposals.made += 1;
            let (new_target, new_proposed_by) = weigh(proposed);
            // p(t)/p(s) q(s)/q(t)
            if rng.random::<f64>() * target * new_proposed_by < new_target * proposed_by {
                self.proposals.accepted += 1;
                (now, target, proposed_by) = (proposed, new_target, new_proposed_by);
            }
        }
        self.document.add(now);
        self.counts.add(v, now);
        now
    }
}

impl Sampler for AliasLda {
    fn start_afresh(&mut self) {
        self.proposal.expire();
    }

    fn sample_document(&mut self, words: &[u32], assigned: &mut [u32], rng: &mut ChaCha8Rng) {
        self.document.begin(assigned);
        for (&v, topic) in words.iter().zip(assigned) {
            *topic = self.sample_token(v as usize, *topic, rng);
        }
    }

    fn take_proposals(&mut self) -> Proposals {
        std::mem::take(&mut self.proposals)
    }
}
