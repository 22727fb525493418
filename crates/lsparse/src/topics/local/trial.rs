//! What documents say of proposals: which half of a topic each would take, and what it would change if two were one.

use lsparse_kernels::ln_gamma;

use crate::allocation::alpha_bound;
use crate::topics::growth::trial::{Bounds, Example, LeftWord, PairChange, Said, Trial};
use crate::topics::growth::{Leaving, Proposals};
use crate::topics::local::PanelRequest;
use crate::topics::local::document::Document;
use crate::topics::summary::Entries;

/// Responsibilities below this have no part in a change of entropy.
const LEAST_SHARE: f32 = 1e-6;

/// Without a topic a token keeps its responsibilities where none of them would change by more, so that a document that is
/// worked out again changes few words. (What that loses is of second order: 0.01 nats a document.)
const SAME: f32 = 0.01;

/// Mass that is as good as none.
const NOTHING: f32 = 1e-7;

/// Tokens of a topic that a document has at least where it is to be an example.
const LEAST_EXAMPLE: f32 = 3.0;

/// What a document of `count` tokens of a topic says of the topic's alpha.
pub fn said_of(count: f64, alpha: f64) -> Said {
    let (tables, slope) = alpha_bound(count, alpha);
    let term = ln_gamma(count + alpha) - ln_gamma(alpha);
    Said { tables, slope, constant: term - (tables * alpha.ln() - slope * alpha) }
}

/// What a task of documents says of proposals.
#[derive(Default)]
pub struct TrialPiece {
    word: Vec<u32>,
    half: Vec<u32>,
    mass: Vec<f32>,
    ends: Vec<usize>,
    said: Vec<(u32, Said)>,
    pairs: Vec<(u32, PairChange)>,
    examples: Vec<Example>,
    /// Documents with a topic that may be given up: what they would have more of without it, and less.
    left: Vec<LeftWord>,
    left_said: Vec<(u32, Said, f64)>,
    left_entropy: Vec<(u32, f64)>,
    left_bounds: Vec<(u32, bool, f64)>,
    overlap: Vec<u64>,
    /// What documents lost where topics were emptied in vain.
    losses: Vec<(u32, f32)>,
    again: Document,
    /// By proposal: how much better the first half explains what the document has of the topic; the half it takes.
    ratio: Vec<f32>,
    taken: Vec<u32>,
    /// By place in the document: the proposal that it is for, or the example.
    slot: Vec<Option<u32>>,
    /// By topic: what the token at hand has of it; what the document would have more of.
    share: Vec<f32>,
    more: Vec<f64>,
    moved: Vec<u32>,
    /// By topic the words of documents that have it times their topics, and the same of all documents.
    work: Vec<(u32, f32)>,
    work_of_all: f64,
    met: Vec<(u32, u32, u32)>,
}

impl TrialPiece {
    pub fn clear(&mut self) {
        let TrialPiece { word, half, mass, ends, said, pairs, examples, .. } = self;
        [word, half].into_iter().for_each(Vec::clear);
        mass.clear();
        ends.clear();
        said.clear();
        pairs.clear();
        examples.clear();
        self.left.clear();
        self.left_said.clear();
        self.left_entropy.clear();
        self.left_bounds.clear();
        self.overlap.clear();
        self.losses.clear();
        self.work.clear();
        self.work_of_all = 0.0;
    }

    /// What a document that was solved says, with the bound on its log likelihood.
    pub fn add(
        &mut self,
        proposals: &Proposals,
        request: &PanelRequest<'_>,
        (document, evidence): (&Document, f64),
        (words, counts): (&[u32], &[f32]),
    ) {
        self.split(proposals, request.alpha, document, words, counts);
        self.meet(proposals, request.alpha, document, counts);
        self.show(proposals, document, words, counts);
        self.leave(proposals, request, (document, evidence), (words, counts));
        self.losses.extend_from_slice(&document.losses);
        // Whoever has one topic only has tried nothing.
        let mut topics = document.topic_counts();
        if let (Some((k, _)), None) = (topics.next(), topics.next()) {
            self.losses.push((k, f32::INFINITY));
        }
        let work = words.len() as f32 * document.topic_counts().count() as f32;
        self.work.extend(document.topic_counts().map(|(k, _)| (k, work)));
        self.work_of_all += f64::from(work);
    }

    /// The document without each topic of it that may be given up, its heir having the words of both.
    fn leave(
        &mut self,
        proposals: &Proposals,
        request: &PanelRequest<'_>,
        (document, evidence): (&Document, f64),
        (words, counts): (&[u32], &[f32]),
    ) {
        let slot_of = |k: u32| proposals.leaving_slot[k as usize];
        let bits = concerned(proposals, document);
        if bits.count_ones() > 1 {
            self.overlap.push(bits);
        }
        for (slot, &leaving) in leaving_in(proposals, bits & !request.hopeless) {
            let mut again = std::mem::take(&mut self.again);
            request.solve_without(&mut again, (leaving.topic, leaving.heir), (words, counts));
            // What it would have of another that may leave would be lost if both did.
            let others = again.topic_counts().filter_map(|e| slot_of(e.0)).fold(0u64, |b, s| b | 1 << s);
            if others != 0 {
                self.overlap.push(others | 1 << slot);
            }
            let entropy = self.change(slot, leaving, (document, &again), (words, counts));
            self.left_entropy.push((slot, entropy));
            self.say_what_changes(slot, leaving, request.alpha, document);
            self.left_bounds.push((slot, false, request.evidence_of(&mut again, counts) - evidence));
            self.again = again;
        }
    }

    /// What a document would say of alpha without the topic in this place, by what it would have more of, which is forgotten.
    fn say_what_changes(&mut self, slot: u32, leaving: Leaving, alpha: &[f32], document: &Document) {
        let (num, Leaving { topic, heir, .. }) = (alpha.len() as u32, leaving);
        let alpha = |k: u32| f64::from(alpha[k as usize]);
        let mut heir_had = 0.0;
        for (k, n) in document.topic_counts() {
            let (n, more) = (f64::from(n), std::mem::take(&mut self.more[k as usize]));
            if k == heir {
                (heir_had, self.more[k as usize]) = (n, more);
            } else if k == topic {
                self.left_said.push((slot * num + k, said_of(n, alpha(k)), -1.0));
            } else if more != 0.0 {
                self.left_said.push((slot * num + k, said_of(n, alpha(k)), -1.0));
                self.left_said.push((slot * num + k, said_of((n + more).max(0.0), alpha(k)), 1.0));
            }
        }
        let has = (heir_had + std::mem::take(&mut self.more[heir as usize])).max(0.0);
        self.left_said.push((slot * num + heir, said_of(heir_had, alpha(heir)), -1.0));
        self.left_said.push((slot * num + heir, said_of(has, alpha(heir) + alpha(topic)), 1.0));
        for k in self.moved.drain(..) {
            // Topics that it did not have before.
            let more = std::mem::take(&mut self.more[k as usize]);
            if more > 0.0 && k != topic {
                self.left_said.push((slot * num + k, said_of(more, alpha(k)), 1.0));
            }
        }
    }

    /// What a document that is only listened to says of topics that may be given up, with the bound on its log likelihood.
    pub fn hear(
        &mut self,
        proposals: &Proposals,
        request: &PanelRequest<'_>,
        (document, evidence): (&Document, f64),
        (words, counts): (&[u32], &[f32]),
    ) {
        for (slot, &Leaving { topic, heir, .. }) in leaving_in(proposals, concerned(proposals, document)) {
            request.solve_without(&mut self.again, (topic, heir), (words, counts));
            self.left_bounds.push((slot, true, request.evidence_of(&mut self.again, counts) - evidence));
        }
    }

    /// What a document would have more of, and less, without the topic that is in this place of those that may leave: words,
    /// and in `more` topics, those that have more or less in `moved`. Gives what its entropy changes by.
    fn change(
        &mut self,
        slot: u32,
        Leaving { topic, heir, .. }: Leaving,
        (before, after): (&Document, &Document),
        (words, counts): (&[u32], &[f32]),
    ) -> f64 {
        self.more.resize(self.share.len(), 0.0);
        let mut entropy = 0.0;
        for (u, (&v, &c)) in words.iter().zip(counts).enumerate() {
            let (mut of_topic, mut of_heir) = (0.0, 0.0);
            for (k, r) in before.responsibilities(u) {
                self.share[k as usize] -= r;
                of_topic = if k == topic { r } else { of_topic };
                of_heir = if k == heir { r } else { of_heir };
            }
            after.responsibilities(u).for_each(|(k, r)| self.share[k as usize] += r);
            // What it had of the topic is the heir's.
            self.share[topic as usize] += of_topic;
            self.share[heir as usize] -= of_topic;
            let all = || before.responsibilities(u).chain(after.responsibilities(u)).map(|e| e.0);
            if all().all(|k| self.share[k as usize].abs() < SAME) {
                all().chain([topic, heir]).for_each(|k| self.share[k as usize] = 0.0);
                let mass = c * of_topic;
                if mass > NOTHING {
                    self.left.push((slot, v, topic, -mass));
                    self.left.push((slot, v, heir, mass));
                    self.moved.push(heir);
                    self.more[heir as usize] += f64::from(mass);
                    entropy -= f64::from(c) * (weighed(of_topic + of_heir) - weighed(of_topic) - weighed(of_heir));
                }
                continue;
            }
            self.share[topic as usize] -= of_topic;
            self.share[heir as usize] += of_topic;
            let of_token: f64 = after.responsibilities(u).map(|e| weighed(e.1)).sum();
            entropy -= f64::from(c) * (of_token - before.responsibilities(u).map(|e| weighed(e.1)).sum::<f64>());
            for k in all() {
                let change = c * std::mem::take(&mut self.share[k as usize]);
                if change != 0.0 {
                    self.left.push((slot, v, k, change));
                    self.moved.push(k);
                    self.more[k as usize] += f64::from(change);
                }
            }
            self.share[heir as usize] = 0.0;
            self.share[topic as usize] = 0.0;
        }
        entropy
    }

    /// Each document takes one of the halves with all that it has of a topic.
    fn split(&mut self, proposals: &Proposals, alpha: &[f32], document: &Document, words: &[u32], counts: &[f32]) {
        let slot_of = |k: u32| proposals.slot_of[k as usize];
        if proposals.splits.is_empty() || document.topic_counts().all(|(k, _)| slot_of(k).is_none()) {
            return;
        }
        self.ratio.resize(proposals.splits.len(), 0.0);
        self.taken.resize(proposals.splits.len(), 0);
        self.slot.clear();
        self.slot.extend(document.topic_counts().map(|(k, _)| slot_of(k)));
        for (k, count) in document.topic_counts() {
            let Some(slot) = slot_of(k) else { continue };
            let share = &proposals.share[slot as usize];
            self.ratio[slot as usize] = (share[0] / share[1]).ln() as f32 + count * proposals.scale[slot as usize];
        }
        for (u, (&v, &c)) in words.iter().zip(counts).enumerate() {
            let of_word = proposals.ratios(v);
            for (place, r) in document.placed(u) {
                if let Some(slot) = self.slot[place as usize] {
                    self.ratio[slot as usize] += c * r * of_word[slot as usize];
                }
            }
        }
        // (A topic that it has nothing of any more says something of alpha too.)
        for (k, count) in document.topic_counts() {
            let Some(slot) = slot_of(k) else { continue };
            let half = usize::from(self.ratio[slot as usize] < 0.0);
            self.taken[slot as usize] = 2 * slot + half as u32;
            let (a, n) = (f64::from(alpha[k as usize]), f64::from(count));
            let mut said = said_of(n, a * proposals.share[slot as usize][half]);
            said.constant -= said_of(n, a).constant;
            self.said.push((2 * slot + half as u32, said));
        }
        for (u, (&v, &c)) in words.iter().zip(counts).enumerate() {
            for (place, r) in document.placed(u) {
                if let Some(slot) = self.slot[place as usize].filter(|_| r > 0.0) {
                    self.word.push(v);
                    self.half.push(self.taken[slot as usize]);
                    self.mass.push(c * r);
                }
            }
        }
        self.ends.push(self.word.len());
    }

    /// Pairs that meet in the document.
    fn meet(&mut self, proposals: &Proposals, alpha: &[f32], document: &Document, counts: &[f32]) {
        self.share.resize(alpha.len(), 0.0);
        self.met.clear();
        // For now the counts of the document.
        document.topic_counts().for_each(|(k, n)| self.share[k as usize] = n.max(f32::MIN_POSITIVE));
        for (a, n) in document.topic_counts() {
            for &(b, at) in &proposals.partners[a as usize] {
                let other = self.share[b as usize];
                if other > 0.0 {
                    self.met.push((a, b, at));
                    let alphas = [a, b].map(|k| f64::from(alpha[k as usize]));
                    let tokens = [n, other].map(f64::from);
                    let mut said = said_of(tokens[0] + tokens[1], alphas[0] + alphas[1]);
                    said.add(&said_of(tokens[0], alphas[0]), -1.0);
                    said.add(&said_of(tokens[1], alphas[1]), -1.0);
                    self.pairs.push((at, PairChange { entropy: 0.0, said }));
                }
            }
        }
        document.topic_counts().for_each(|(k, _)| self.share[k as usize] = 0.0);
        if self.met.is_empty() {
            return;
        }
        let first = self.pairs.len() - self.met.len();
        for (u, &c) in counts.iter().enumerate() {
            document.responsibilities(u).for_each(|(k, r)| self.share[k as usize] = r);
            for (i, &(a, b, _)) in self.met.iter().enumerate() {
                let (x, y) = (self.share[a as usize], self.share[b as usize]);
                if x > LEAST_SHARE && y > LEAST_SHARE {
                    let [x, y] = [x, y].map(f64::from);
                    let change = (x + y) * (x + y).ln() - x * x.ln() - y * y.ln();
                    self.pairs[first + i].1.entropy -= f64::from(c) * change;
                }
            }
            document.responsibilities(u).for_each(|(k, _)| self.share[k as usize] = 0.0);
        }
    }

    /// What the document has of topics that examples are wanted of.
    fn show(&mut self, proposals: &Proposals, document: &Document, words: &[u32], counts: &[f32]) {
        let first = self.examples.len();
        self.slot.clear();
        for (k, n) in document.topic_counts() {
            let wanted = proposals.wanted_slot[k as usize].filter(|_| n >= LEAST_EXAMPLE);
            self.slot.push(wanted.map(|_| self.examples.len() as u32));
            let Some(slot) = wanted else { continue };
            let half = proposals.slot_of[k as usize].map(|split| self.taken[split as usize] % 2);
            self.examples.push(Example { slot, key: u64::from(k), half, ..Example::default() });
        }
        if self.examples.len() == first {
            return;
        }
        let mut key = proposals.generation;
        for (u, (&v, &c)) in words.iter().zip(counts).enumerate() {
            key = mix(key ^ (u64::from(v) << 32) ^ u64::from(c.to_bits()));
            for (place, r) in document.placed(u) {
                if let Some(at) = self.slot[place as usize].filter(|_| r * c > 1e-3) {
                    let example = &mut self.examples[at as usize];
                    example.words.push(v);
                    example.mass.push(r * c);
                }
            }
        }
        self.examples[first..].iter_mut().for_each(|example| example.key = mix(key ^ mix(example.key)));
    }
}

/// r log r.
fn weighed(r: f32) -> f64 {
    if r > 0.0 { f64::from(r) * f64::from(r.ln()) } else { 0.0 }
}

/// The topics that may be given up whose documents include this one, as bits.
fn concerned(proposals: &Proposals, document: &Document) -> u64 {
    let slots = document.topic_counts().flat_map(|e| &proposals.concerns[e.0 as usize]);
    slots.fold(0u64, |bits, slot| bits | 1 << slot)
}

/// Those topics, with their places.
fn leaving_in(proposals: &Proposals, bits: u64) -> impl Iterator<Item = (u32, &Leaving)> {
    let all = proposals.leaving.iter().enumerate().map(|(slot, leaving)| (slot as u32, leaving));
    all.filter(move |(slot, _)| bits >> slot & 1 == 1)
}

/// The bits of a number stirred.
fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

/// Add what tasks of documents said to what the batch says, in the order of tasks.
pub fn sum_trials<'a>(pieces: impl Iterator<Item = &'a TrialPiece> + Clone, trial: &mut Trial) {
    let mut lists = Vec::new();
    for piece in pieces.clone() {
        let mut from = 0;
        for &to in &piece.ends {
            let (word, topic, mass) = (&piece.word[from..to], &piece.half[from..to], &piece.mass[from..to]);
            lists.push(Entries { word, topic, mass });
            from = to;
        }
        piece.said.iter().for_each(|(half, said)| trial.said[*half as usize].add(said, 1.0));
        piece.pairs.iter().for_each(|(at, change)| trial.changes[*at as usize].add(change));
    }
    if !lists.is_empty() {
        trial.add_halves(&lists);
    }
    for piece in pieces.clone() {
        piece.left_said.iter().for_each(|(at, said, sign)| trial.left_said[*at as usize].add(said, *sign));
        piece.left_entropy.iter().for_each(|&(slot, change)| trial.left_entropy[slot as usize] += change);
        for &(slot, unseen, change) in &piece.left_bounds {
            trial.left_bounds[slot as usize][usize::from(unseen)].add(&Bounds { documents: 1.0, change });
        }
        piece.work.iter().for_each(|&(k, work)| trial.work[k as usize] += f64::from(work));
        trial.work_of_all += piece.work_of_all;
        piece.losses.iter().for_each(|&(k, loss)| trial.losses[k as usize] += f64::from(loss));
        for &bits in &piece.overlap {
            (0..trial.leaving.len()).filter(|slot| bits >> slot & 1 == 1).for_each(|slot| trial.overlap[slot] |= bits);
        }
    }
    if pieces.clone().any(|piece| !piece.left.is_empty()) {
        let sizes = (trial.halves.vocab_size(), trial.losses.len(), trial.leaving.len());
        trial.left.add(sizes, pieces.clone().map(|piece| &piece.left[..]));
    }
    let before = trial.examples.len();
    trial.examples.extend(pieces.flat_map(|piece| piece.examples.iter().cloned()));
    if trial.examples.len() > before {
        trial.examples.sort_by_key(|example| (example.slot, example.key));
        let (mut slot, mut kept) = (u32::MAX, 0);
        trial.examples.retain(|example| {
            kept = if example.slot == slot { kept + 1 } else { 1 };
            slot = example.slot;
            kept <= trial.most_examples
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topics::local::document::{DocumentOptions, Without};
    use crate::topics::table::WordTable;

    const LAMBDA: f32 = 0.1;
    const WORDS: usize = 6;

    /// The table of topics with these counts of words, under a MAP estimate.
    fn table(topics: &[[f32; WORDS]]) -> WordTable {
        let fill = |v: usize, row: &mut [f32]| {
            row.iter_mut().zip(topics).for_each(|(entry, topic)| *entry = topic[v] + LAMBDA);
        };
        let mut table = WordTable::new(WORDS, topics.len(), 2, fill);
        table.scale = topics.iter().map(|topic| 1.0 / (topic.iter().sum::<f32>() + WORDS as f32 * LAMBDA)).collect();
        table
    }

    /// Without a topic whose heir has the words of both, a document is what it is under topics of which the two are one.
    #[test]
    fn an_heir_stands_for_both() {
        let first = [9.0, 4.0, 0.0, 0.0, 1.0, 0.0];
        let second = [6.0, 7.0, 0.0, 1.0, 0.0, 0.0];
        let third = [0.0, 0.0, 8.0, 5.0, 0.0, 3.0];
        let both = std::array::from_fn(|v| first[v] + second[v]);
        let (words, counts) = ([0u32, 1, 2, 3, 4], [3.0f32, 2.0, 1.0, 2.0, 1.0]);
        let options = |topics| DocumentOptions { iterations: 2000, tolerance: 1e-6, ..DocumentOptions::dense(topics) };
        let without = Without { topic: 0, heir: 1, entry: LAMBDA, room: WORDS as f32 * LAMBDA };
        let mut document = Document::default();
        let three = table(&[first, second, third]);
        document.solve_without(without, (&three, &[0.2, 0.3, 0.5]), (&words, &counts), &options(3));
        let found: Vec<(u32, f32)> = document.topic_counts().collect();
        let found_entropy = document.entropy(words.len());
        document.solve(&table(&[both, third]), &[0.5, 0.5], &words, &counts, &options(2), None);
        let expected: Vec<f32> = document.topic_counts().map(|e| e.1).collect();
        assert_eq!(found.iter().map(|e| e.0).collect::<Vec<_>>(), [1, 2]);
        for (found, expected) in found.iter().zip(expected) {
            assert!((found.1 - expected).abs() < 1e-3, "{found:?} against {expected}");
        }
        assert!((found_entropy - document.entropy(words.len())).abs() < 1e-3);
        // Afterwards it has all topics again.
        document.solve(&three, &[0.2, 0.3, 0.5], &words, &counts, &options(3), None);
        assert_eq!(document.topic_counts().count(), 3);
    }
}
