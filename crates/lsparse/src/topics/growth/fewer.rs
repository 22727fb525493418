//! Proposals of fewer topics: pairs that are alike, and topics that others may take the place of.

use std::sync::Arc;

use crate::topics::growth::{AGAIN, CHANGE, GrowthState, Leaving, Places, most_leaving};
use crate::topics::summary::TopicSummary;

/// Topics that a topic may be merged with, those that are most like it.
const PARTNERS: usize = 2;

/// How much alike they are at least.
const LIKE: f32 = 0.4;

/// From here on they are twins.
const TWINS: f32 = 0.75;

/// Topics of a word that likeness is measured by.
const TOPICS_A_WORD: usize = 32;

/// What a document that is worked out anew may gain over what it was said to lose, about: a topic whose documents are said
/// to lose more is not tried before its turn.
const ALLOWANCE: f64 = 2.0;

/// Tokens of documents that may be worked out again in any lap, however few there are: so many take no time.
const LEAST_TOKENS: f64 = 20_000.0;

/// Topics that may leave at one time: they are bits of a word.
pub(super) const MOST: usize = 64;

/// How much topics are alike, and for each those that it may be merged with.
pub struct Alike {
    num: usize,
    /// sum_v sqrt(phi_a phi_b), which is 1 for the same.
    alike: Vec<f32>,
}

impl Alike {
    pub fn new(total: &TopicSummary) -> Self {
        let num = total.num_topics;
        let stats = total.total();
        let mut alike = vec![0.0f32; num * num];
        let mut of_word: Vec<(u32, f32)> = Vec::new();
        for v in 0..stats.vocab_size() {
            let (topic, mass) = stats.word(v);
            of_word.clear();
            let root = |(&k, &m): (&u32, &f64)| (k, (m / total.counts[k as usize].max(1.0)).sqrt() as f32);
            of_word.extend(topic.iter().zip(mass).map(root));
            if of_word.len() > TOPICS_A_WORD {
                of_word.select_nth_unstable_by(TOPICS_A_WORD, |a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
                of_word.truncate(TOPICS_A_WORD);
                of_word.sort_unstable_by_key(|of| of.0);
            }
            for (i, &(a, x)) in of_word.iter().enumerate() {
                let row = &mut alike[a as usize * num..(a as usize + 1) * num];
                of_word[i..].iter().for_each(|&(b, y)| row[b as usize] += x * y);
            }
        }
        for a in 0..num {
            (0..a).for_each(|b| alike[a * num + b] = alike[b * num + a]);
        }
        Alike { num, alike }
    }

    /// Of two topics.
    fn of(&self, a: usize, b: usize) -> f32 {
        self.alike[a * self.num + b]
    }

    /// Whether documents are used to having both, about.
    pub(super) fn are_twins(&self, a: usize, b: usize) -> bool {
        self.of(a, b) >= TWINS
    }

    /// The topics most like one, the most first.
    pub fn partners(&self, a: usize) -> impl Iterator<Item = usize> + '_ {
        let row = &self.alike[a * self.num..(a + 1) * self.num];
        let mut best: [Option<usize>; PARTNERS] = [None; PARTNERS];
        for b in (0..self.num).filter(|&b| b != a) {
            // (Of equals the one with the smaller number stays in front.)
            let Some(at) = best.iter().position(|other| other.is_none_or(|other| row[b] > row[other])) else {
                continue;
            };
            best[at..].rotate_right(1);
            best[at] = Some(b);
        }
        best.into_iter().flatten()
    }

    /// All pairs of topics, or of more than come to `most` those that are most alike.
    pub(super) fn all_pairs(&self, most: usize) -> Vec<(u32, u32)> {
        let mut pairs: Vec<(u32, u32)> = Vec::new();
        (0..self.num as u32).for_each(|a| pairs.extend((a + 1..self.num as u32).map(|b| (a, b))));
        if pairs.len() > most {
            let alike = |&(a, b): &(u32, u32)| self.of(a as usize, b as usize);
            pairs.sort_by(|x, y| alike(y).total_cmp(&alike(x)).then(x.cmp(y)));
            pairs.truncate(most);
            pairs.sort_unstable();
        }
        pairs
    }

    /// Pairs of topics that are most alike, by where they are now; the halves of a split are alike.
    pub(super) fn pairs(&self, places: &Places) -> Vec<(u32, u32)> {
        let mut found = Vec::new();
        for a in 0..self.num {
            let is_like = |&b: &usize| self.of(a, b) >= LIKE;
            for b in self.partners(a).filter(is_like).chain([a]) {
                for x in places.all(a) {
                    found.extend(places.all(b).filter(|&y| y != x).map(|y| (x.min(y), x.max(y))));
                }
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}

/// A topic that might take the place of another.
#[derive(Clone, Copy, Debug)]
pub struct Heir {
    /// Which.
    pub topic: u32,
    /// What a merge of the two would gain with documents as they are; nothing where that is not known.
    pub gain: Option<f64>,
}

/// The topics that may be given up next, so many that the tokens of documents that may be worked out again are not passed
/// (long documents have more topics, and are worked out again more often): half of those are for topics whose documents are likely to lose least, and the rest for all in turn, small ones first, since
/// documents often find better without one than could be told. The heir is the larger of two. A topic that was tried in
/// vain waits until its size or that of its heir is another, or there are fewer topics.
pub(super) fn leaving(
    state: &GrowthState,
    sizes: &[f64],
    (total, memos): (&TopicSummary, &[Arc<TopicSummary>]),
    (heirs, alike): (&[Option<Heir>], &Alike),
    (places, cost): (&Places, f64),
) -> Vec<Leaving> {
    let (mut losses, mut tokens_of) = (vec![0.0; total.num_topics], vec![0.0; total.num_topics]);
    for trial in memos.iter().filter_map(|memo| memo.trial.as_ref()) {
        losses.iter_mut().zip(&trial.losses).for_each(|(sum, loss)| *sum += loss);
        tokens_of.iter_mut().zip(&trial.tokens).for_each(|(sum, tokens)| *sum += tokens);
    }
    let mut open: Vec<Open> = Vec::new();
    for (k, heir) in heirs.iter().enumerate() {
        let (Some(to), Some(heir)) = (places.stayed[k], heir) else { continue };
        let Some(heir_to) = places.stayed[heir.topic as usize] else { continue };
        if (sizes[to as usize], to) > (sizes[heir_to as usize], heir_to) {
            continue;
        }
        let tried = &state.tried[to as usize];
        let fresh = changed(sizes[to as usize], tried.left_size)
            || changed(sizes[heir_to as usize], tried.heir_size)
            || tried.left_at <= state.fewer_at
            || state.generation >= tried.left_at + AGAIN;
        if !fresh {
            continue;
        }
        let twins = alike.are_twins(k, heir.topic as usize);
        let documents = total.alpha_topic[k] + if twins { total.alpha_topic[heir.topic as usize] } else { 0.0 };
        let work = tokens_of[k] + if twins { tokens_of[heir.topic as usize] } else { 0.0 };
        let loss = losses[k].min(heir.gain.map_or(f64::INFINITY, |gain| -gain));
        let promising = loss <= cost + (ALLOWANCE + state.optimism.a_document()) * documents;
        let leaving = Leaving { topic: to, heir: heir_to, twins };
        open.push(Open { leaving, documents, work, loss, promising, left_at: tried.left_at });
    }
    let tokens: f64 = total.counts.iter().sum();
    let share = state.leaving_share.min(most_leaving(tokens));
    let budget = tokens * share.max(LEAST_TOKENS / tokens.max(1.0));
    let (mut taken, mut used): (Vec<Leaving>, f64) = (Vec::new(), 0.0);
    let mut take = |open: &Open, budget: f64| {
        let Open { leaving, work, .. } = *open;
        let fits = taken.is_empty() || used + work <= budget;
        if !taken.iter().any(|other| other.bars(&leaving)) && fits && taken.len() < MOST {
            taken.push(leaving);
            used += work;
        }
    };
    open.sort_by(|a, b| a.loss.total_cmp(&b.loss).then(a.leaving.cmp(&b.leaving)));
    open.iter().filter(|open| open.promising).for_each(|open| take(open, 0.5 * budget));
    let in_turn = |a: &Open, b: &Open| a.left_at.cmp(&b.left_at).then(a.documents.total_cmp(&b.documents));
    open.sort_by(|a, b| in_turn(a, b).then(a.leaving.cmp(&b.leaving)));
    open.iter().for_each(|open| take(open, budget));
    taken.sort_unstable();
    taken
}

/// A topic that may be given up, if there is time for it.
struct Open {
    leaving: Leaving,
    /// Documents that are to be worked out again, about, and how long they are together.
    documents: f64,
    work: f64,
    /// What they are said to lose, and whether that is so little that they may gain.
    loss: f64,
    promising: bool,
    /// When it was tried last.
    left_at: u64,
}

/// Whether a size is another than it was.
pub(super) fn changed(now: f64, before: f64) -> bool {
    (now - before).abs() > CHANGE * before
}
