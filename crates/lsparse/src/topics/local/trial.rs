//! What documents say of proposals: which half of a topic each would take, and what it would change if two were one.

use lsparse_kernels::{ln_gamma, ln_slice};

use crate::allocation::alpha_bound;
use crate::topics::growth::trial::{Bounds, Example, LeftWord, PairChange, Said, Trial};
use crate::topics::growth::{Leaving, Proposals};
use crate::topics::local::PanelRequest;
use crate::topics::local::document::{Document, DocumentOptions};
use crate::topics::local::halves::Halved;
use crate::topics::summary::Entries;

/// Responsibilities below this have no part in a change of entropy.
const LEAST_SHARE: f32 = 1e-6;

/// Mass that changes by less does not change: what it is added to is in single precision.
const LEAST_CHANGE: f32 = 1e-8;

/// Tokens of a topic that a document has at least where it is to be an example.
const LEAST_EXAMPLE: f32 = 3.0;

/// Mass of a word that an example has at least.
const LEAST_SHOWN: f32 = 1e-3;

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
    /// How much better documents predict under other concentrations, each.
    completed: Vec<[f64; 2]>,
    /// What documents lost where topics were emptied in vain, and how long those of a topic are.
    losses: Vec<(u32, f32)>,
    tokens: Vec<(u32, f64)>,
    again: Document,
    /// What the document has of topics that may be split, and by proposal which of these it is, or the token that comes next.
    halved: Vec<Halved>,
    num_halved: usize,
    place: Vec<u32>,
    split_entropy: Vec<(u32, f64)>,
    /// By topic: what the token at hand has of it.
    share: Vec<f32>,
    met: Vec<(u32, u32, u32)>,
    /// Tokens that both of a pair have some of: which pair, how many of the token, the two shares; logarithms of their sum
    /// and of each.
    both: Vec<(u32, f32, [f64; 2])>,
    logs: Vec<f64>,
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
        self.tokens.clear();
        self.split_entropy.clear();
        self.completed.clear();
    }

    /// So many tokens more are in documents of a topic.
    pub fn add_tokens(&mut self, topic: u32, tokens: f64) {
        self.tokens.push((topic, tokens));
    }

    /// What a document that was solved says, with the entropy of its responsibilities and the bound on its log likelihood.
    pub fn add(
        &mut self,
        proposals: &Proposals,
        request: &PanelRequest<'_>,
        solved: (&Document, f64, f64),
        (words, counts): (&[u32], &[f32]),
    ) {
        let document = solved.0;
        self.split(proposals, request.alpha, document, words, counts);
        self.meet(proposals, request.alpha, document, counts);
        self.show(proposals, document, words, counts);
        self.leave(proposals, request, solved, (words, counts));
        self.losses.extend_from_slice(&document.losses);
        // Whoever has one topic only has tried nothing.
        let mut topics = document.topic_counts();
        if let (Some((k, _)), None) = (topics.next(), topics.next()) {
            self.losses.push((k, f32::INFINITY));
        }
    }

    /// The document without each topic of it that may be given up, its heir having the words of both.
    fn leave(
        &mut self,
        proposals: &Proposals,
        request: &PanelRequest<'_>,
        (document, entropy, evidence): (&Document, f64, f64),
        (words, counts): (&[u32], &[f32]),
    ) {
        let slot_of = |k: u32| proposals.leaving_slot[k as usize];
        let bits = concerned(proposals, document);
        if bits.count_ones() > 1 {
            self.overlap.push(bits);
        }
        let num = request.alpha.len() as u32;
        let alpha = |k: u32| f64::from(request.alpha[k as usize]);
        let said = |(k, n): (u32, f32)| (k, said_of(f64::from(n), alpha(k)));
        for (slot, &Leaving { topic, heir, .. }) in leaving_in(proposals, bits) {
            let mut again = std::mem::take(&mut self.again);
            request.solve_without(&mut again, (topic, heir), (words, counts));
            // What it would have of another that may leave would be lost if both did.
            let others = again.topic_counts().filter_map(|e| slot_of(e.0)).fold(0u64, |b, s| b | 1 << s);
            if others != 0 {
                self.overlap.push(others | 1 << slot);
            }
            self.change(slot, (document, &again), (words, counts));
            let before = document.topic_counts().map(said);
            let after = again.topic_counts().map(|(k, n)| match k == heir {
                true => (k, said_of(f64::from(n), alpha(heir) + alpha(topic))),
                false => said((k, n)),
            });
            self.left_said.extend(before.map(|(j, said)| (slot * num + j, said, -1.0)));
            self.left_said.extend(after.map(|(j, said)| (slot * num + j, said, 1.0)));
            self.left_entropy.push((slot, again.entropy(words.len()) - entropy));
            self.left_bounds.push((slot, false, request.evidence_of(&mut again, counts) - evidence));
            self.again = again;
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

    /// How a document predicts a fifth of its words from the others, under the concentrations that are tried.
    pub fn complete(&mut self, proposals: &Proposals, request: &PanelRequest<'_>, (words, counts): (&[u32], &[f32])) {
        let Some([smaller, larger]) = proposals.concentration.factors() else { return };
        if words.len() < 2 {
            return;
        }
        let hash = |u: usize| mix(mix(u64::from(words[u]) ^ u64::from(counts[u].to_bits()) << 32) ^ words.len() as u64);
        let least = (0..words.len()).min_by_key(|&u| (hash(u), u));
        let (aside, kept): (Vec<usize>, Vec<usize>) =
            (0..words.len()).partition(|&u| Some(u) == least || hash(u) % 5 == 0);
        if kept.is_empty() {
            return;
        }
        let (known, of_known): (Vec<u32>, Vec<f32>) = kept.iter().map(|&u| (words[u], counts[u])).unzip();
        let table = request.table.get();
        let sum = |values: &[f32]| values.iter().map(|&v| f64::from(v)).sum::<f64>();
        let (tokens, alpha_sum) = (sum(&of_known), sum(request.alpha));
        // What a word has of all topics by their alphas, and of those that the document has.
        let options = DocumentOptions { restarts: 0, ..request.options.clone() };
        let phi = |u: usize, k: usize| f64::from(table.row(words[u] as usize)[k]) * f64::from(table.scale[k]);
        let of_alpha =
            |&u: &usize| request.alpha.iter().enumerate().map(|(k, &a)| f64::from(a) * phi(u, k)).sum::<f64>();
        let by_alpha: Vec<f64> = aside.iter().map(of_alpha).collect();
        let mut score = |factor: f64| {
            let alpha: Vec<f32> = request.alpha.iter().map(|a| (f64::from(*a) * factor) as f32).collect();
            self.again.solve(table, &alpha, &known, &of_known, &options, None);
            let of_word = |(&u, by_alpha): (&usize, &f64)| {
                let own = self.again.topic_counts().map(|(k, n)| f64::from(n) * phi(u, k as usize)).sum::<f64>();
                (own + factor * by_alpha) / (tokens + factor * alpha_sum)
            };
            let mut logs: Vec<f64> = aside.iter().zip(&by_alpha).map(of_word).collect();
            ln_slice(&mut logs);
            logs.iter().zip(&aside).map(|(log, &u)| f64::from(counts[u]) * log).sum::<f64>()
        };
        let now = score(1.0);
        self.completed.push([score(smaller) - now, score(larger) - now]);
    }

    /// What a document would have more of, and less, without the topic that is in this place of those that may leave.
    fn change(&mut self, slot: u32, (before, after): (&Document, &Document), (words, counts): (&[u32], &[f32])) {
        for (u, (&v, &c)) in words.iter().zip(counts).enumerate() {
            before.responsibilities(u).for_each(|(k, r)| self.share[k as usize] -= r);
            after.responsibilities(u).for_each(|(k, r)| self.share[k as usize] += r);
            for (k, _) in before.responsibilities(u).chain(after.responsibilities(u)) {
                let change = c * std::mem::take(&mut self.share[k as usize]);
                if change.abs() > LEAST_CHANGE {
                    self.left.push((slot, v, k, change));
                }
            }
        }
    }

    /// What a document has of a topic that may be split goes to one of the halves, or to both as suits its words.
    fn split(&mut self, proposals: &Proposals, alpha: &[f32], document: &Document, words: &[u32], counts: &[f32]) {
        let slot_of = |k: u32| proposals.slot_of[k as usize];
        self.num_halved = 0;
        if proposals.splits.is_empty() {
            return;
        }
        self.place.resize(proposals.splits.len(), 0);
        for slot in document.topic_counts().filter_map(|(k, _)| slot_of(k)) {
            if self.halved.len() == self.num_halved {
                self.halved.push(Halved::default());
            }
            self.halved[self.num_halved].begin(slot);
            self.place[slot as usize] = self.num_halved as u32;
            self.num_halved += 1;
        }
        if self.num_halved == 0 {
            return;
        }
        for (u, (&v, &c)) in words.iter().zip(counts).enumerate() {
            for (k, r) in document.responsibilities(u).filter(|of| of.1 > 0.0) {
                let Some(slot) = slot_of(k) else { continue };
                let ratio = proposals.scale[slot as usize] + proposals.ratios(v)[slot as usize];
                self.halved[self.place[slot as usize] as usize].push(c * r, ratio);
            }
        }
        // (A topic that it has nothing of any more says something of alpha too.)
        for (k, count) in document.topic_counts() {
            let Some(slot) = slot_of(k) else { continue };
            let halved = &mut self.halved[self.place[slot as usize] as usize];
            let (a, n) = (f64::from(alpha[k as usize]), f64::from(count));
            let alphas = proposals.share[slot as usize].map(|share| a * share);
            halved.share_out(alphas, n);
            self.split_entropy.push((slot, halved.entropy));
            let taken = usize::from(halved.counts[1] > halved.counts[0]);
            for half in (0..2).filter(|&half| half == taken || halved.counts[half] > 0.0) {
                let mut said = said_of(halved.counts[half], alphas[half]);
                said.constant -= if half == taken { said_of(n, a).constant } else { 0.0 };
                self.said.push((2 * slot + half as u32, said));
            }
        }
        self.place.fill(0);
        for (u, &v) in words.iter().enumerate() {
            for (k, _) in document.responsibilities(u).filter(|of| of.1 > 0.0) {
                let Some(slot) = slot_of(k) else { continue };
                for (half, mass) in self.next_of(slot).into_iter().enumerate().filter(|of| of.1 > 0.0) {
                    self.word.push(v);
                    self.half.push(2 * slot + half as u32);
                    self.mass.push(mass);
                }
            }
        }
        self.ends.push(self.word.len());
    }

    /// What the halves have of the next token of a topic that may be split; `place` counts them.
    fn next_of(&mut self, slot: u32) -> [f32; 2] {
        let at = &mut self.place[slot as usize];
        *at += 1;
        let halved = self.halved[..self.num_halved].iter().find(|halved| halved.slot == slot);
        halved.map_or([0.0; 2], |halved| halved.of_token(*at as usize - 1))
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
        let TrialPiece { share, met, both, logs, pairs, .. } = self;
        both.clear();
        logs.clear();
        for (u, &c) in counts.iter().enumerate() {
            // Most tokens are one topic's, or next to it.
            if document.responsibilities(u).filter(|entry| entry.1 > LEAST_SHARE).count() < 2 {
                continue;
            }
            document.responsibilities(u).for_each(|(k, r)| share[k as usize] = r);
            for (i, &(a, b, _)) in met.iter().enumerate() {
                let (x, y) = (share[a as usize], share[b as usize]);
                if x > LEAST_SHARE && y > LEAST_SHARE {
                    both.push((i as u32, c, [x, y].map(f64::from)));
                    logs.extend([f64::from(x) + f64::from(y), f64::from(x), f64::from(y)]);
                }
            }
            document.responsibilities(u).for_each(|(k, _)| share[k as usize] = 0.0);
        }
        ln_slice(logs);
        for (&(i, c, [x, y]), log) in both.iter().zip(logs.chunks_exact(3)) {
            let change = (x + y) * log[0] - x * log[1] - y * log[2];
            pairs[first + i as usize].1.entropy -= f64::from(c) * change;
        }
    }

    /// What the document has of topics that examples are wanted of, or of their halves.
    fn show(&mut self, proposals: &Proposals, document: &Document, words: &[u32], counts: &[f32]) {
        let first = self.examples.len();
        let room = || (Vec::with_capacity(words.len()), Vec::with_capacity(words.len()));
        for (k, n) in document.topic_counts() {
            let Some(slot) = proposals.wanted_slot[k as usize] else { continue };
            let halved = proposals.slot_of[k as usize]
                .and_then(|split| self.halved[..self.num_halved].iter().find(|halved| halved.slot == split));
            let mut add = |half: Option<u32>, n: f32| {
                let key = proposals.generation ^ u64::from(k) ^ half.map_or(0, |half| u64::from(half) << 32);
                let (words, mass) = room();
                if n >= LEAST_EXAMPLE {
                    self.examples.push(Example { slot, half, key, words, mass });
                }
            };
            match halved {
                Some(halved) => (0..2).for_each(|half| add(Some(half as u32), halved.counts[half] as f32)),
                None => add(None, n),
            }
        }
        if self.examples.len() == first {
            return;
        }
        self.place.fill(0);
        let mut examples = self.examples.split_off(first);
        for (u, (&v, &c)) in words.iter().zip(counts).enumerate() {
            let of_word = (u64::from(v) << 32) ^ u64::from(c.to_bits());
            examples.iter_mut().for_each(|example| example.key = mix(example.key ^ of_word));
            for (k, r) in document.responsibilities(u).filter(|(_, r)| *r > 0.0) {
                let halves = proposals.slot_of[k as usize].map(|split| self.next_of(split));
                let Some(slot) = proposals.wanted_slot[k as usize] else { continue };
                for example in examples.iter_mut().filter(|example| example.slot == slot) {
                    let mass = match (halves, example.half) {
                        (Some(halves), Some(half)) => halves[half as usize],
                        _ => r * c,
                    };
                    if mass > LEAST_SHOWN {
                        example.words.push(v);
                        example.mass.push(mass);
                    }
                }
            }
        }
        self.examples.append(&mut examples);
    }
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
        piece.split_entropy.iter().for_each(|&(slot, change)| trial.split_entropy[slot as usize] += change);
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
        piece.completed.iter().for_each(|&gain| trial.completed.push(gain));
        piece.losses.iter().for_each(|&(k, loss)| trial.losses[k as usize] += f64::from(loss));
        piece.tokens.iter().for_each(|&(k, tokens)| trial.tokens[k as usize] += tokens);
        for &bits in &piece.overlap {
            (0..trial.leaving.len()).filter(|slot| bits >> slot & 1 == 1).for_each(|slot| trial.overlap[slot] |= bits);
        }
    }
    if pieces.clone().any(|piece| !piece.left.is_empty()) {
        let sizes = (trial.halves.vocab_size(), trial.losses.len(), trial.leaving.len());
        trial.left.add(sizes, pieces.clone().map(|piece| &piece.left[..]));
    }
    let fresh: Vec<&Example> = pieces.flat_map(|piece| &piece.examples).collect();
    if fresh.is_empty() {
        return;
    }
    // The smallest keys of each topic; most examples are none of them.
    let before = std::mem::take(&mut trial.examples);
    let mut all: Vec<&Example> = before.iter().chain(fresh).collect();
    all.sort_by_key(|example| (example.slot, example.key));
    let (mut slot, mut kept) = (u32::MAX, 0);
    all.retain(|example| {
        kept = if example.slot == slot { kept + 1 } else { 1 };
        slot = example.slot;
        kept <= trial.most_examples
    });
    trial.examples = all.into_iter().cloned().collect();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topics::local::document::Without;
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
