//! Restart proposals: empty one topic of a document, go on from there, and keep the result only if it is better.
//!
//! A cold start leaves documents in local optima with too many topics; taking a topic's mass away and letting the
//! others compete for it finds nearby optima that the sparse prior likes better (`hughes2015reliable`).

use crate::topics::local::document::Document;

/// Full updates after a topic was emptied, before the result is judged.
const UPDATES: usize = 2;

/// A dense document holds every topic, most of them with next to nothing: those are no proposals.
const DENSE_FLOOR: f32 = 0.01;

/// What a topic must have more of to be proposed.
pub(super) fn least_to_empty(active_floor: f32) -> f32 {
    if active_floor > 0.0 { 0.0 } else { DENSE_FLOOR }
}

impl Document {
    /// Try to empty up to `proposals` topics, the smallest first. The bound of the document never falls.
    pub(in crate::topics) fn restart(&mut self, proposals: usize, active_floor: f32) {
        if proposals == 0 || self.rows.len() < 2 {
            return;
        }
        // A point whose counts made its prior, and its prior its norms: only there is the bound what it claims to be.
        self.update_counts();
        let mut best = self.bound();
        std::mem::swap(&mut self.counts, &mut self.next);
        let mut saved = Saved::default();
        let mut tried: Vec<u32> = Vec::new();
        let floor = least_to_empty(active_floor);
        for _ in 0..proposals {
            let Some(target) = self.smallest_not_in(&tried, floor) else { break };
            if self.rows.len() < 2 {
                break;
            }
            let row = self.rows[target];
            tried.push(row);
            self.tally.proposed += 1;
            saved.keep(self);
            let mass = self.counts[target];
            self.remove(target);
            // Its mass goes to the others in proportion to what they have, so that the counts stay those of a document.
            let rest: f32 = self.counts.iter().sum();
            if rest > 0.0 {
                let grow = (rest + mass) / rest;
                self.counts.iter_mut().for_each(|n| *n *= grow);
            }
            for _ in 0..UPDATES {
                self.update_counts();
                std::mem::swap(&mut self.counts, &mut self.next);
            }
            self.update_counts();
            let value = self.bound();
            if value > best {
                best = value;
                self.tally.accepted += 1;
                std::mem::swap(&mut self.counts, &mut self.next);
            } else {
                self.losses.push((self.topics[row as usize], (best - value) as f32));
                saved.put_back(self);
            }
        }
        // Leave a prior that belongs to the counts.
        self.update_counts();
        std::mem::swap(&mut self.counts, &mut self.next);
    }

    fn smallest_not_in(&self, tried: &[u32], floor: f32) -> Option<usize> {
        let open = (0..self.rows.len()).filter(|&i| self.counts[i] > floor && !tried.contains(&self.rows[i]));
        open.min_by(|&a, &b| self.counts[a].total_cmp(&self.counts[b]))
    }

    fn remove(&mut self, at: usize) {
        self.rows.remove(at);
        self.counts.remove(at);
    }
}

/// The state of a document before a proposal.
#[derive(Default)]
struct Saved {
    rows: Vec<u32>,
    counts: Vec<f32>,
}

impl Saved {
    fn keep(&mut self, document: &Document) {
        self.rows.clone_from(&document.rows);
        self.counts.clone_from(&document.counts);
    }

    fn put_back(&mut self, document: &mut Document) {
        std::mem::swap(&mut self.rows, &mut document.rows);
        std::mem::swap(&mut self.counts, &mut document.counts);
    }
}
