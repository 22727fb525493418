//! Fewer topics of a model that is trained: which could be merged or given up, what each change gains, and the model
//! without them. Passes over the documents until nothing more can go, and no training.
//!
//! Gains are those of the objective that topics find K by (`judge.rs`), for which documents are dealt into batches and each
//! is worked out under topics without what its batch gave. Two topics are judged as one with documents as they are, and
//! one that is given up with its documents worked out again.

use std::sync::Arc;

use super::fewer::{Alike, Heir, MOST};
use super::judge::Judge;
use super::{Growth, GrowthState, Leaving, Places, alpha_of};
use crate::allocation::AlphaRule;
use crate::data::{Batches, Dealt, RowSource};
use crate::error::{Error, Result};
use crate::settings::{Sparsity, TopicMethod, TopicsConfig};
use crate::topics::checks::check_counts;
use crate::topics::{TopicModel, TopicParams, TopicSummary, TopicWorker, Topics};
use crate::training::model::Model;
use crate::training::moves::{Fewer, Move, MoveKind, Remap, Suggestion};
use crate::training::summary::Summary;

/// Pairs of topics that are judged at most; of more topics those that are most alike.
const MOST_PAIRS: usize = 100_000;

/// Batches that documents are dealt into.
const BATCHES: usize = 10;

impl TopicModel {
    /// Which topics could be merged or given up, by the documents of `source`, in the words of the model; those that it was
    /// trained on are best.
    ///
    /// ```
    /// use lsparse::{data::CsrRows, settings::TopicsConfig, topics::fit_topics};
    ///
    /// // Documents about words 0 and 1, and documents about words 2 and 3.
    /// let words: Vec<u32> = (0..80).map(|n| n / 2 % 2 * 2 + n % 2).collect();
    /// let corpus = CsrRows::new("two subjects", 4, (0..=40).map(|d| 2 * d).collect(), words, vec![5.0f32; 80])?;
    /// let model = fit_topics(&corpus, &TopicsConfig { topics: 4, ..Default::default() })?.model;
    /// let fewer = model.fewer(&corpus)?;
    /// assert_eq!(fewer.model.num_topics(), 4 - fewer.made.len());
    /// # Ok::<(), lsparse::Error>(())
    /// ```
    pub fn fewer(&self, source: &dyn RowSource) -> Result<Fewer<TopicModel>> {
        let mut passes = Passes::new(self, source)?;
        let (mut suggestions, mut made): (Option<Vec<Suggestion>>, Vec<Move>) = (None, Vec::new());
        // With some gone others may go: until all were tried and none gains.
        loop {
            let (gains, leaving) = passes.all_gains()?;
            let gained = gains.iter().any(|change| change.2 > 0.0);
            suggestions.get_or_insert_with(|| passes.suggestions(gains));
            let moves = if gained { passes.make_gains(leaving)? } else { Vec::new() };
            if moves.is_empty() {
                break;
            }
            made.extend(moves);
        }
        let mut model = if made.is_empty() { self.clone() } else { passes.model(self)? };
        model.training.note_merged(self.num_topics(), model.num_topics(), &made);
        Ok(Fewer { suggestions: suggestions.unwrap_or_default(), made, objective: None, model })
    }
}

/// A change, the topics that it concerns, and what it gains.
type Gain = (MoveKind, Vec<u32>, f64);

/// Documents that are worked out again and again, as topics become fewer.
struct Passes<'a> {
    topics: Topics,
    data: Dealt<'a>,
    worker: TopicWorker,
    /// alpha_k under which documents are worked out, and what those of the model have become.
    alpha: Vec<f32>,
    own_alpha: Vec<f32>,
    /// What batches gave, and all together.
    memos: Vec<Arc<TopicSummary>>,
    total: TopicSummary,
    /// The numbers that topics had at first.
    ids: Vec<u64>,
    generation: u64,
}

impl<'a> Passes<'a> {
    /// The documents of `source` worked out under the topics of a model.
    fn new(model: &TopicModel, source: &'a dyn RowSource) -> Result<Self> {
        let refuse = |setting, problem: &str, remedy: &str| {
            Err(Error::Config { setting, problem: problem.into(), remedy: remedy.into() })
        };
        if model.config.method != TopicMethod::Lsparse {
            let problem = "topics are compared by documents that are solved, not sampled";
            return refuse("method", problem, "train on from this model with `method lsparse`");
        }
        if model.pull.is_some() {
            let problem = "words that pull topics name them one by one";
            return refuse("seed-words", problem, "train without them");
        }
        if source.num_rows() < 2 {
            let problem = "topics are judged by documents that are left out of what they are scored under";
            return refuse("data", problem, "give two documents or more");
        }
        model.check_vocab(source)?;
        check_counts(source, false)?;
        let batches = source.num_rows().min(BATCHES);
        let config = TopicsConfig { find_k: true, learn_alpha: AlphaRule::Stick, ..model.config.clone() };
        let alpha = model.concentration();
        let topics = Topics { warm_start: false, alpha, ..Topics::new(&config, model.vocab_size()) };
        let data = Dealt::new(source, Batches::of(source, batches, model.config.seed)?);
        let worker = topics.worker();
        let mut passes = Passes {
            total: model.total.clone(),
            memos: Vec::new(),
            alpha: model.alpha.clone(),
            own_alpha: model.alpha.clone(),
            ids: (0..topics.num_topics as u64).collect(),
            generation: 0,
            topics,
            data,
            worker,
        };
        passes.look(None)?;
        passes.alpha = passes.topics.learned_alpha(&passes.total, &passes.alpha);
        Ok(passes)
    }

    /// Work all documents out, each batch under topics that have nothing of it as far as is known, and gather what they say
    /// of proposals.
    fn look(&mut self, state: Option<GrowthState>) -> Result<()> {
        let growth = state.map(|state| Arc::new(Growth::of(state, self.topics.vocab_size)));
        let mut params: Option<TopicParams> = None;
        let mut memos = Vec::new();
        for batch in 0..self.data.batches.num_batches() {
            let mut total = self.total.clone();
            self.memos.get(batch).into_iter().for_each(|memo| total.add_scaled(memo, -1.0));
            match &mut params {
                Some(params) => self.topics.update(params, &total)?,
                None => params = Some(self.topics.global_step(&total, None)?),
            }
            let Some(params) = &mut params else { continue };
            (params.alpha, params.growth) = (self.alpha.clone(), growth.clone());
            let visited = self.topics.local(params, &self.data.batch(batch), &Default::default(), &mut self.worker)?;
            memos.push(Arc::new(visited.summary));
        }
        self.replace(memos);
        Ok(())
    }

    /// Batches have given this.
    fn replace(&mut self, memos: Vec<Arc<TopicSummary>>) {
        let mut total = self.topics.empty_batch().into_total();
        memos.iter().for_each(|memo| total.add_scaled(memo, 1.0));
        total.trial = None;
        (self.total, self.memos) = (total, memos);
    }

    /// What is to be tried: pairs and topics to be given up.
    fn state(&mut self, pairs: Vec<(u32, u32)>, leaving: Vec<Leaving>) -> GrowthState {
        self.generation += 1;
        let (generation, ids) = (self.generation, self.ids.clone());
        GrowthState { generation, ids, pairs, leaving, batches: self.memos.len(), ..GrowthState::default() }
    }

    /// Gather what documents say of these proposals under the topics as they are, and hand it to `then`. What batches have
    /// given is as before, so that others can be tried beside them.
    fn ask<R>(
        &mut self,
        (pairs, leaving): (Vec<(u32, u32)>, Vec<Leaving>),
        then: impl FnOnce(&mut Judge<'_>) -> R,
    ) -> Result<R> {
        let state = self.state(pairs, leaving);
        let before = (self.total.clone(), self.memos.clone());
        self.look(Some(state.clone()))?;
        let mut judge = Judge::new(&self.topics, &self.alpha, &self.total, &self.memos, &state, Vec::new()).thorough();
        judge.consider();
        let found = then(&mut judge);
        (self.total, self.memos) = before;
        Ok(found)
    }

    /// What every change would gain by itself, and topics that would be given up with a gain, the best first.
    fn all_gains(&mut self) -> Result<(Vec<Gain>, Vec<Leaving>)> {
        if self.total.num_topics < 2 {
            return Ok((Vec::new(), Vec::new()));
        }
        let alike = Alike::new(&self.total);
        let pairs = alike.all_pairs(MOST_PAIRS);
        let (mut gains, heirs) = self.ask((pairs, Vec::new()), |judge| (judge.gains(), judge.heirs(&alike)))?;
        let mut open = self.open(&heirs, &alike);
        let mut best: Vec<(f64, Leaving)> = Vec::new();
        while !open.is_empty() {
            let (now, later) = at_once(open);
            let found = self.ask((Vec::new(), now.clone()), |judge| judge.gains())?;
            let of_slot = |leaving: &Leaving| {
                let is_it = |change: &&Gain| change.1 == [leaving.topic, leaving.heir];
                found.iter().find(is_it).filter(|change| change.2 > 0.0).map(|change| (change.2, *leaving))
            };
            best.extend(now.iter().filter_map(of_slot));
            // (Topics that nobody has were found beside the pairs; who goes to a smaller one is merged with it.)
            let size = |k: u32| self.total.counts[k as usize];
            let of_two = |(kind, topics, gain): Gain| match topics[..] {
                [topic, heir] if size(heir) < size(topic) => Some((MoveKind::Merge, vec![topic, heir], gain)),
                [_, _] => Some((kind, topics, gain)),
                _ => None,
            };
            gains.extend(found.into_iter().filter_map(of_two));
            open = later;
        }
        best.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        Ok((gains, best.into_iter().map(|(_, leaving)| leaving).collect()))
    }

    /// One change a topic that might go: the best of those in which it is the smaller of two, or goes alone.
    fn suggestions(&self, gains: Vec<Gain>) -> Vec<Suggestion> {
        let size = |&k: &usize| (self.total.counts[k], k);
        let mut found = Suggestion::best_first(gains);
        let mut seen = vec![false; self.total.num_topics];
        found.retain(|change| {
            let goes = change.clusters.iter().min_by(|a, b| {
                let ((a, i), (b, j)) = (size(a), size(b));
                a.total_cmp(&b).then(i.cmp(&j))
            });
            goes.is_some_and(|&k| !std::mem::replace(&mut seen[k], true))
        });
        found
    }

    /// Every topic that may be given up, with its heir; of two that are each other's the larger stays.
    fn open(&self, heirs: &[Option<Heir>], alike: &Alike) -> Vec<Leaving> {
        let size = |k: u32| (self.total.counts[k as usize], k);
        let of_topic = |(k, heir): (usize, &Option<Heir>)| {
            let (topic, heir) = (k as u32, heir.as_ref()?.topic);
            let is_mutual = heirs[heir as usize].as_ref().is_some_and(|other| other.topic == topic);
            let stays = (is_mutual && size(topic) > size(heir)) || self.total.counts[k] <= 0.0;
            (!stays).then(|| Leaving { topic, heir, twins: alike.are_twins(k, heir as usize) })
        };
        heirs.iter().enumerate().filter_map(of_topic).collect()
    }

    /// Make changes that gain, the best first, and try the others again under what is left, until none of them gains.
    fn make_gains(&mut self, mut leaving: Vec<Leaving>) -> Result<Vec<Move>> {
        let mut made = Vec::new();
        loop {
            let pairs = Alike::new(&self.total).pairs(&Places::of(&super::unchanged(self.ids.len()), self.ids.len()));
            let (now, later) = at_once(leaving);
            let tried = now.len();
            let state = self.state(pairs, now.clone());
            self.look(Some(state.clone()))?;
            let mut judge =
                Judge::new(&self.topics, &self.alpha, &self.total, &self.memos, &state, Vec::new()).thorough();
            judge.consider();
            judge.accept(0);
            let (plan, moves) = judge.finish(&mut self.ids, &mut 0);
            self.remap(&plan);
            // (Of what was not tried now more may fit where nothing was changed.)
            leaving = if moves.is_empty() { later } else { now.into_iter().chain(later).collect() };
            let places = Places::of(&plan, state.ids.len());
            leaving = leaving.iter().filter_map(|leaving| moved(leaving, &places)).collect();
            if moves.is_empty() && (tried == 0 || leaving.is_empty()) {
                return Ok(made);
            }
            made.extend(moves);
        }
    }

    /// Bring what batches gave to other topics.
    fn remap(&mut self, plan: &Remap) {
        let num = plan.clusters.len();
        if num == self.total.num_topics {
            return;
        }
        let growth = Growth::of(GrowthState { ids: vec![0; self.alpha.len()], ..GrowthState::default() }, 0);
        for alpha in [&mut self.alpha, &mut self.own_alpha] {
            *alpha = plan.clusters.iter().map(|parts| alpha_of(parts, alpha, growth.proposals())).collect();
        }
        let mut memos = std::mem::take(&mut self.memos);
        memos.iter_mut().for_each(|memo| Arc::make_mut(memo).remap(plan));
        self.topics.resize(num);
        self.replace(memos);
        self.alpha = self.topics.learned_alpha(&self.total, &self.alpha);
    }

    /// The model with the topics that are left, its documents worked out as its own settings have it.
    fn model(mut self, before: &TopicModel) -> Result<TopicModel> {
        let mut model = before.clone();
        model.config.topics = self.total.num_topics;
        model.config.sparsity = Sparsity::Of(before.sparsity().min(model.config.topics));
        let own = model.topics();
        if own.alpha_rule != AlphaRule::Stick {
            // (What went alone took its alpha with it.) One number for all topics stays one.
            let sum = |alpha: &[f32]| alpha.iter().map(|&a| f64::from(a)).sum::<f64>();
            let grow = sum(&before.alpha) / sum(&self.own_alpha);
            let each = (sum(&before.alpha) / model.config.topics as f64) as f32;
            let of_topic = |&a: &f32| match own.alpha_rule {
                AlphaRule::Fixed | AlphaRule::Symmetric => each,
                _ => (grow * f64::from(a)) as f32,
            };
            self.alpha = self.own_alpha.iter().map(of_topic).collect();
            self.topics = own;
        }
        self.look(None)?;
        let params = self.topics.global_step(&self.total, None)?;
        let alpha = self.topics.learned_alpha(&self.total, &self.alpha);
        let objective = self.topics.objective(&TopicParams { alpha: alpha.clone(), ..params }, &self.total);
        model.training.observations = self.data.source.num_rows();
        model.training.objective = objective.total();
        (model.training.objective_data, model.training.objective_entropy) = (objective.data, objective.entropy);
        model.training.objective_alloc = objective.alloc;
        model.table = self.topics.point_topics(&self.total);
        (model.alpha, model.total) = (alpha, self.total);
        Ok(model)
    }
}

/// As many topics as can be tried at one time, none of which is another's heir, and the rest.
fn at_once(open: Vec<Leaving>) -> (Vec<Leaving>, Vec<Leaving>) {
    let (mut now, mut later): (Vec<Leaving>, Vec<Leaving>) = (Vec::new(), Vec::new());
    for leaving in open {
        let is_free = now.len() < MOST && !now.iter().any(|other| other.bars(&leaving));
        if is_free { now.push(leaving) } else { later.push(leaving) }
    }
    now.sort_unstable();
    (now, later)
}

/// The same by where topics are now, if both are there.
fn moved(leaving: &Leaving, places: &Places) -> Option<Leaving> {
    let (topic, heir) = (places.stayed[leaving.topic as usize]?, places.stayed[leaving.heir as usize]?);
    Some(Leaving { topic, heir, ..*leaving })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::CsrRows;
    use crate::topics::fit_topics;
    use crate::topics::growth::judge::leave_out_objective;
    use crate::topics::summary::{SparseStats, WordStats};
    use crate::training::moves::Part;

    const TRUTH: usize = 5;
    const WORDS: usize = 20;

    /// Documents of one or two of the topics, which have words of their own; a tenth of all tokens is anywhere.
    fn planted(documents: usize) -> CsrRows<f32> {
        let mut state = 7u64;
        let mut draw = |below: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % below
        };
        let (mut indptr, mut words, mut counts) = (vec![0], Vec::new(), Vec::new());
        for _ in 0..documents {
            let topics = [draw(TRUTH), draw(TRUTH)];
            let mut of_word = [0.0f32; TRUTH * WORDS];
            for _ in 0..60 {
                let own = topics[draw(2)] * WORDS + draw(WORDS).min(draw(WORDS));
                of_word[if draw(10) == 0 { draw(TRUTH * WORDS) } else { own }] += 1.0;
            }
            for (v, &count) in of_word.iter().enumerate().filter(|(_, count)| **count > 0.0) {
                words.push(v as u32);
                counts.push(count);
            }
            indptr.push(words.len());
        }
        CsrRows::new("planted", TRUTH * WORDS, indptr, words, counts).unwrap()
    }

    fn trained(rows: &CsrRows<f32>, topics: usize) -> TopicModel {
        fit_topics(rows, &TopicsConfig { topics, ..TopicsConfig::default() }).unwrap().model
    }

    /// Every gain that is claimed, of changes that gain and of those that lose, is what the objective from nothing gains
    /// where that change is made alone.
    #[test]
    fn gains_are_those_of_the_objective_from_nothing() {
        let rows = planted(300);
        let model = trained(&rows, 8);
        let mut passes = Passes::new(&model, &rows).unwrap();
        let num = passes.total.num_topics;
        let alike = Alike::new(&passes.total);
        let pairs = alike.all_pairs(MOST_PAIRS);
        assert_eq!(pairs.len(), num * (num - 1) / 2);
        let heirs = passes.ask((pairs.clone(), Vec::new()), |judge| judge.heirs(&alike)).unwrap();
        let mut open = passes.open(&heirs, &alike);
        let (mut kinds, mut losing, mut alone) = (Vec::new(), 0, 0);
        let mut pairs = Some(pairs);
        while !open.is_empty() {
            let (now, later) = at_once(open);
            open = later;
            let state = passes.state(pairs.take().unwrap_or_default(), now);
            passes.look(Some(state.clone())).unwrap();
            let Passes { topics, alpha, total, memos, .. } = &mut passes;
            let mut judge = Judge::new(topics, alpha, total, memos, &state, Vec::new()).thorough();
            judge.consider();
            let gains = judge.gains();
            topics.resize(num);
            let before = leave_out_objective(topics, total, memos);
            for (kind, touched, gain) in gains {
                let mut plan = super::super::unchanged(num);
                let parts = match (kind, &touched[..]) {
                    (MoveKind::Merge, &[_, second]) => Some((touched[0], Part::Whole(second))),
                    (_, &[from, to]) => Some((to, Part::Inherited { from, to })),
                    _ => None,
                };
                alone += usize::from(parts.is_none());
                parts.into_iter().for_each(|(to, part)| plan.clusters[to as usize].push(part));
                plan.clusters.remove(if kind == MoveKind::Merge { touched[1] } else { touched[0] } as usize);
                let mut after = memos.clone();
                after.iter_mut().for_each(|memo| Arc::make_mut(memo).remap(&plan));
                topics.resize(num - 1);
                let mut total = topics.empty_batch().into_total();
                after.iter().for_each(|memo| total.add_scaled(memo, 1.0));
                let gained = leave_out_objective(topics, &total, &after) - before;
                assert!(
                    (gained - gain).abs() < 1e-6 * before.abs(),
                    "{kind:?} {touched:?}: {gain}, and {gained} gained"
                );
                topics.resize(num);
                losing += usize::from(gain < 0.0);
                kinds.push(kind);
            }
        }
        assert!(kinds.contains(&MoveKind::Merge) && kinds.contains(&MoveKind::Delete), "{kinds:?}");
        assert!(losing > 3 && losing + alone < kinds.len(), "{losing} of {}", kinds.len());
    }

    /// Topics that are there twice, each with half of what documents gave, are there once again.
    #[test]
    fn doubled_topics_come_back() {
        let rows = planted(400);
        let model = trained(&rows, TRUTH);
        assert!(model.fewer(&rows).unwrap().made.is_empty(), "none of the planted topics can be spared");
        let stats = model.total.total();
        // (Shares that differ by word, so that the two are not the same to the last bit.)
        let doubled = SparseStats::by_word(stats.vocab_size(), |v, row| {
            let (topic, mass) = stats.word(v);
            let part = |k: usize| 0.5 + 0.2 * if (v + k).is_multiple_of(2) { 1.0 } else { -1.0 };
            row.extend(topic.iter().zip(mass).map(|(&k, m)| (k, m * part(0))));
            row.extend(topic.iter().zip(mass).map(|(&k, m)| (k + TRUTH as u32, m * part(1))));
        });
        let mut twice = model.clone();
        twice.config.topics = 2 * TRUTH;
        twice.alpha = [&model.alpha[..], &model.alpha[..]].concat().iter().map(|a| 0.5 * a).collect();
        let mut counts = vec![0.0; 2 * TRUTH];
        doubled.topic.iter().zip(&doubled.mass).for_each(|(&k, m)| counts[k as usize] += m);
        twice.total = TopicSummary { counts, ..TopicSummary::new(2 * TRUTH, WordStats::Total(doubled)) };
        twice.table = twice.topics().point_topics(&twice.total);
        let fewer = twice.fewer(&rows).unwrap();
        assert_eq!((fewer.model.num_topics(), fewer.made.len()), (TRUTH, TRUTH));
        assert!(fewer.suggestions.len() >= TRUTH && fewer.suggestions.len() <= 2 * TRUTH);
        assert!(fewer.suggestions[..TRUTH].iter().all(|change| change.gain > 0.0), "{:?}", fewer.suggestions);
        let mut own: Vec<usize> = (0..TRUTH).map(|k| fewer.model.top_words(k, 1)[0].0 as usize / WORDS).collect();
        own.sort_unstable();
        assert_eq!(own, (0..TRUTH).collect::<Vec<_>>());
        let sum = |model: &TopicModel| model.alpha.iter().sum::<f32>();
        assert!((sum(&fewer.model) - sum(&model)).abs() < 1e-4);
        assert!(fewer.model.alpha.iter().all(|a| (a - fewer.model.alpha[0]).abs() < 1e-6), "alpha is fixed");
        // It is a model like any other: written, read, trained on, and nothing more can be spared.
        let read = TopicModel::from_bytes("fewer".as_ref(), &fewer.model.to_bytes().unwrap()).unwrap();
        assert_eq!(read.num_topics(), TRUTH);
        assert!(read.fewer(&rows).unwrap().made.is_empty());
    }

    #[test]
    fn what_cannot_be_judged_is_refused_with_the_reason() {
        let rows = planted(40);
        let model = trained(&rows, 3);
        let refused = |model: &TopicModel, rows: &CsrRows<f32>, word: &str| {
            let error = model.fewer(rows).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains(word), "{error}");
        };
        let one = CsrRows::new("one", TRUTH * WORDS, vec![0, 1], vec![3], vec![2.0f32]).unwrap();
        refused(&model, &one, "two documents");
        let other = CsrRows::new("other words", 2, vec![0, 1, 2], vec![0, 1], vec![2.0f32; 2]).unwrap();
        refused(&model, &other, "100");
        let mut sampled = model.clone();
        sampled.config.method = TopicMethod::SparseLda;
        refused(&sampled, &rows, "lsparse");
        let pull = Some(SparseStats::empty(TRUTH * WORDS));
        refused(&TopicModel { pull, ..model }, &rows, "seed-words");
    }
}
