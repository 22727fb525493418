//! LightLDA (Yuan et al. 2015): Metropolis-Hastings steps that propose in turn from the document and from the word.
//!
//! The document proposes the topic of one of its tokens, or any topic: q(t) is proportional to n_dt + alpha. The word
//! proposes from a stale table. Either costs the same whatever K is. The paper's acceptance ratio of the document's
//! proposal takes n_ds with the token itself but n_dt without, although after the move it would be the other way round.
//! Here the reverse move is weighed as it would be made, where that factor cancels: g_t/g_s alone is left.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::topics::gibbs::document::DocumentTopics;
use crate::topics::gibbs::word_proposal::{DenseCounts, WordProposal};
use crate::topics::gibbs::{MhSettings, Prior, Proposals, Sampler, Tokens};

/// The sampler and its counts.
pub struct LightLda {
    prior: Prior,
    num_topics: usize,
    counts: DenseCounts,
    proposal: WordProposal,
    document: DocumentTopics,
    steps: usize,
    proposals: Proposals,
}

impl LightLda {
    pub fn new(tokens: &Tokens, assigned: &[u32], num_topics: usize, prior: Prior, settings: MhSettings) -> Self {
        LightLda {
            prior,
            num_topics,
            counts: DenseCounts::new(tokens, assigned, num_topics, prior),
            proposal: WordProposal::new(tokens.vocab_size, num_topics, settings.table_draws),
            document: DocumentTopics::new(num_topics),
            steps: settings.steps,
            proposals: Proposals::default(),
        }
    }

    /// Sample token `i` of a document whose tokens have the topics `assigned`.
    fn sample_token(&mut self, v: usize, i: usize, assigned: &mut [u32], rng: &mut ChaCha8Rng) {
        let old = assigned[i];
        self.document.remove(old);
        self.counts.remove(v, old);
        let own = self.proposal.prepare(v, old, &mut self.counts);
        let (alpha, length) = (self.prior.alpha, assigned.len() as f64);
        let mut now = old;
        let mut factor = self.counts.word_factor(v, now);
        for _ in 0..self.steps {
            // The document's proposal. The token's own topic is what it is now.
            let draw = rng.random::<f64>() * (length + alpha * self.num_topics as f64);
            let proposed = match draw < length {
                true => assigned[draw as usize],
                false => rng.random_range(0..self.num_topics as u32),
            };
            self.proposals.made += 2;
            let new_factor = self.counts.word_factor(v, proposed);
            if rng.random::<f64>() * factor < new_factor {
                self.proposals.accepted += 1;
                (now, factor) = (proposed, new_factor);
                assigned[i] = now;
            }
            // The word's.
            let proposed = self.proposal.draw(v, own, rng);
            let new_factor = self.counts.word_factor(v, proposed);
            let of = |k: u32| f64::from(self.document.count[k as usize]) + alpha;
            // p(t)/p(s) q(s)/q(t)
            let forth = of(proposed) * new_factor * self.proposal.density(v, now, own);
            let back = of(now) * factor * self.proposal.density(v, proposed, own);
            if rng.random::<f64>() * back < forth {
                self.proposals.accepted += 1;
                (now, factor) = (proposed, new_factor);
                assigned[i] = now;
            }
        }
        self.document.add(now);
        self.counts.add(v, now);
    }
}

impl Sampler for LightLda {
    fn start_afresh(&mut self) {
        self.proposal.expire();
    }

    fn sample_document(&mut self, words: &[u32], assigned: &mut [u32], rng: &mut ChaCha8Rng) {
        self.document.begin(assigned);
        for (i, &v) in words.iter().enumerate() {
            self.sample_token(v as usize, i, assigned, rng);
        }
    }

    fn take_proposals(&mut self) -> Proposals {
        std::mem::take(&mut self.proposals)
    }
}
