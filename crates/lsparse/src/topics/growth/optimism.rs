//! How much the leave-out objective promises too much, by what documents say that no topic has seen.
//!
//! Topics without a batch have nothing of its documents, but the documents of other batches shared their words out under
//! topics that had. So what happens to be alike in documents of several batches keeps a topic of its own, and each of
//! them, left out, seems to need it. (2,000 documents of 30 planted topics, several in each: of 60 topics that a run from
//! 150 comes to rest with, half lose 50 nats each if they are given up by the objective, and gain 100 by other documents.)
//! Therefore some documents are only listened to while topics are given up: nothing of them is in any topic. Where a topic
//! may be given up, those of them that have it lose less by it than others do, and the difference is what a document
//! promises too much.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::likelihood::Estimate;
use crate::topics::growth::left_out::trials;
use crate::topics::growth::trial::Bounds;
use crate::topics::summary::TopicSummary;

/// One document in so many is only listened to. (One in ten costs 0.01 of nips' held-out score.)
pub const ONE_IN: usize = 12;

/// Laps that they are listened to after topics were first tried, or given up by what they said.
const LAPS: u32 = 8;

/// What is lost by a document of a topic, on average, where the topic tells of optimism: documents that need their topic
/// lose tens of nats by it, some more and some less, so that few of them say little.
const SMALL_LOSS: f64 = 10.0;

/// What was heard in a lap counts so much in the next.
const MEMORY: f64 = 0.7;

/// Documents that do not promise too much, before any was heard.
const PRIOR: f64 = 1.0;

/// Documents of the topic itself that count as much as those of all topics.
const POOLED: f64 = 2.0;

/// What a document promises too much, as it was heard so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Optimism {
    /// Laps that are listened to still.
    laps: u32,
    /// Whether anything was heard in this lap, and whether topics are about to have what they have not seen before.
    heard: bool,
    taking_up: bool,
    /// Nats, and the documents that they are of.
    sum: f64,
    weight: f64,
}

impl Optimism {
    /// Before the first lap. (Posteriors of topics have their own price of a topic.)
    pub fn begin(estimate: Estimate) -> Self {
        Optimism { laps: if estimate == Estimate::Posterior { 0 } else { LAPS }, ..Optimism::default() }
    }

    /// Whether some documents are only listened to.
    pub fn listens(&self) -> bool {
        self.laps > 0
    }

    /// Take up what the lap says; gives what is promised too much by all documents of each topic that may be given up.
    ///
    /// That is no more than the numbers that the topic has, its words: what is alike by chance is fitted by these, by about a
    /// nat each. (Where each document has nearly all topics, it loses a nat by any of them, and the bound, which is the
    /// looser the more topics it has, leaves next to nothing of that: thousands of nats for a topic that is there.)
    pub fn hear(&mut self, memos: &[Arc<TopicSummary>], words: &[f64]) -> Vec<f64> {
        let num_leaving = words.len();
        let mut bounds = vec![[Bounds::default(); 2]; num_leaving];
        for trial in trials(memos) {
            for (sums, of_batch) in bounds.iter_mut().zip(&trial.left_bounds) {
                sums.iter_mut().zip(of_batch).for_each(|(sum, of_batch)| sum.add(of_batch));
            }
        }
        self.heard = bounds.iter().any(|both| both[1].documents > 0.0);
        (self.sum, self.weight) = match self.heard {
            true => (MEMORY * self.sum, MEMORY * self.weight),
            false => (self.sum, self.weight),
        };
        for (both, difference) in bounds.iter().filter_map(|both| Some((both, difference(both)?))) {
            let weight = 1.0 / (1.0 / both[0].documents + 1.0 / both[1].documents);
            self.sum += weight * difference;
            self.weight += weight;
        }
        let all = self.a_document();
        let promised = |both: &[Bounds; 2]| {
            let own = difference(both).map_or(0.0, |own| both[1].documents * (own - all));
            both[0].documents * (all + own / (both[1].documents + POOLED))
        };
        bounds.iter().zip(words).map(|(both, &words)| promised(both).min(words)).collect()
    }

    /// What a document promises too much.
    pub fn a_document(&self) -> f64 {
        (self.sum / (self.weight + PRIOR)).max(0.0)
    }

    /// At the end of a lap, with whether topics were given up by what was heard: whether documents that were only listened
    /// to are about to be in topics, or have come into them now, so that what the lap gained is nothing to go by.
    pub fn end(&mut self, (restless, was_needed): (bool, bool)) -> bool {
        let listened = self.listens();
        self.laps = match (restless, was_needed) {
            (false, _) => 0,
            (true, true) if self.laps > 0 => LAPS,
            (true, _) => self.laps.saturating_sub(u32::from(self.heard)),
        };
        let have_come = std::mem::replace(&mut self.taking_up, listened && self.laps == 0);
        self.taking_up || have_come
    }
}

/// How much less the documents lose by a topic that it had not seen, each on average; where there are such documents, and
/// the others lose little.
fn difference([seen, unseen]: &[Bounds; 2]) -> Option<f64> {
    let is_told = seen.documents > 0.0 && unseen.documents > 0.0 && seen.mean() > -SMALL_LOSS;
    is_told.then(|| unseen.mean() - seen.mean())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topics::growth::trial::Trial;
    use crate::topics::summary::{SparseStats, WordStats};

    /// Words of a topic.
    const WORDS: f64 = 150.0;

    /// What a batch says of topics that may be given up: documents with each that they have seen and that they have not, and
    /// what the bound of one changes by.
    fn memo(said: &[[(f64, f64); 2]]) -> Vec<Arc<TopicSummary>> {
        let bounds = |(documents, each)| Bounds { documents, change: documents * each };
        let left_bounds = said.iter().map(|both| both.map(bounds)).collect();
        let trial = Some(Box::new(Trial { left_bounds, ..Trial::default() }));
        vec![Arc::new(TopicSummary { trial, ..TopicSummary::new(2, WordStats::Batch(SparseStats::default())) })]
    }

    #[test]
    fn what_is_promised_is_what_others_lose_less() {
        let mut optimism = Optimism::begin(Estimate::Map);
        // Of the first topic 20 documents lose 2 each and 5 others gain 1 each; the second is needed by all.
        let promised = optimism.hear(&memo(&[[(20.0, -2.0), (5.0, 1.0)], [(30.0, -40.0), (4.0, -30.0)]]), &[WORDS; 2]);
        let all = 4.0 * 3.0 / (4.0 + PRIOR);
        assert!((optimism.a_document() - all).abs() < 1e-12);
        assert!((promised[0] - 20.0 * (5.0 * 3.0 + POOLED * all) / (5.0 + POOLED)).abs() < 1e-12, "{promised:?}");
        assert!((promised[1] - 30.0 * all).abs() < 1e-12, "{promised:?}");
        // Nothing more is heard, and what was stays.
        assert!((optimism.hear(&memo(&[[(20.0, -2.0), (0.0, 0.0)]]), &[WORDS])[0] - 20.0 * all).abs() < 1e-12);
        // Documents that lose little each, but by a topic that all have.
        let mut mixed = Optimism::begin(Estimate::Map);
        let said = memo(&[[(900.0, -3.0), (90.0, -1.0)]]);
        assert_eq!((mixed.hear(&said, &[WORDS])[0], mixed.a_document() > 1.5), (WORDS, true));
        // Where the others lose more there is no optimism.
        let mut none = Optimism::begin(Estimate::Map);
        none.hear(&memo(&[[(20.0, -2.0), (5.0, -9.0)]]), &[WORDS]);
        assert_eq!(none.a_document(), 0.0);
    }

    #[test]
    fn it_listens_while_that_pays() {
        assert!(!Optimism::begin(Estimate::Posterior).listens());
        let mut optimism = Optimism::begin(Estimate::Map);
        let (something, nothing) = (memo(&[[(9.0, 0.0), (1.0, 0.0)]]), memo(&[[(9.0, 0.0), (0.0, 0.0)]]));
        let mut lap = |memos: &[Arc<TopicSummary>], was_needed| {
            optimism.hear(memos, &[WORDS]);
            (optimism.end((true, was_needed)), optimism.laps)
        };
        assert_eq!([lap(&nothing, false), lap(&something, false)], [(false, LAPS), (false, LAPS - 1)]);
        assert_eq!(lap(&something, true), (false, LAPS));
        for left in (1..LAPS).rev() {
            assert_eq!(lap(&something, false), (false, left));
        }
        // Topics are to have the documents, then they have them; later it is as ever, whatever was needed.
        assert_eq!(
            [lap(&something, false), lap(&nothing, true), lap(&nothing, true)],
            [(true, 0), (true, 0), (false, 0)]
        );
        // A run that comes to rest hears no more.
        let mut at_rest = Optimism::begin(Estimate::Map);
        assert!(at_rest.end((false, false)) && !at_rest.listens());
    }
}
