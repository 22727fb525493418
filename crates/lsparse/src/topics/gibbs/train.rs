//! Training by a sampler in the loop of all trainings: a batch is a stretch of documents whose tokens are drawn anew.
//!
//! The objective is log p(w, z), the joint probability of words and topics with everything else integrated out: a
//! sample of it, not a bound, so no rule for stopping looks at it.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use lsparse_kernels::ln_gamma;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::data::{Batch, Batches, Dealt};
use crate::error::{Error, Result};
use crate::runs::Family;
use crate::settings::{Plan, TopicInit, TopicsConfig};
use crate::store::checkpoint::Fingerprint;
use crate::topics::gibbs::document::DocumentTopics;
use crate::topics::gibbs::{Proposals, Sampler, Tokens};
use crate::topics::summary::{Entries, TopicSummary, WordStats};
use crate::topics::train::{Stream, TopicFamily};
use crate::topics::{ACTIVE_TOPICS, SparseStats, TopicModel, initial_topics};
use crate::training::model::{self, Model, Objective, Visited};
use crate::training::rules::{Outcome, Patience, TrainingRecord};
use crate::training::session::{Session, Start};
use crate::training::summary::Summary;
use crate::training::trace::Beginning;

/// What a chain did in a lap so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LapTally {
    documents: u64,
    /// Topics of the documents, added up.
    active: u64,
    proposals: Proposals,
}

impl model::Tally for LapTally {
    fn add(&mut self, other: &Self) {
        self.documents += other.documents;
        self.active += other.active;
        self.proposals.add(&other.proposals);
    }
}

/// A chain at rest. Every token is drawn given all others, so that it goes with the parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChainState {
    /// The topics of the tokens of each batch.
    topics: Vec<Arc<Vec<u32>>>,
    rng: ChaCha8Rng,
}

impl ChainState {
    /// The topics of all tokens.
    fn all(&self) -> Cow<'_, [u32]> {
        match &self.topics[..] {
            [all] => Cow::Borrowed(all),
            parts => parts.iter().flat_map(|part| part.iter().copied()).collect(),
        }
    }

    /// Whether it is the same: not another of the same contents, which would have to be looked through.
    fn is(&self, other: &ChainState) -> bool {
        let pairs = self.topics.iter().zip(&other.topics);
        self.rng == other.rng
            && self.topics.len() == other.topics.len()
            && pairs.into_iter().all(|(a, b)| Arc::ptr_eq(a, b))
    }
}

/// Where a sampler is: the topics themselves are integrated out.
#[derive(Clone)]
pub struct GibbsParams {
    /// alpha_k, for scores.
    alpha: Vec<f32>,
    /// None before a run has started.
    chain: Option<ChainState>,
    averaged: Averaged,
}

/// A sampler that is ready to go on, and where it is: taken up where parameters hold that very state.
#[derive(Default)]
pub struct GibbsWorker(Option<(ChainState, Box<dyn Sampler>)>);

/// The documents as tokens, dealt into stretches.
pub struct GibbsModel {
    tokens: Arc<Tokens>,
    config: TopicsConfig,
    batches: Batches,
    num_topics: usize,
    alpha: f64,
    lambda: f64,
    /// ln G(n + lambda) - ln G(lambda) for whole numbers n.
    word_rise: Vec<f64>,
    /// ln G(n + alpha/K) - ln G(alpha/K) likewise.
    document_rise: Vec<f64>,
    /// As many ones as the longest document has tokens: their mass.
    ones: Vec<f32>,
    /// Laps before statistics are averaged; 0 if they are not.
    burn_in: Option<usize>,
}

/// The statistics of several laps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Averaged {
    /// Visits of each batch.
    visits: Vec<usize>,
    /// Sum of the statistics after burn-in.
    sum: TopicSummary,
}

/// Counts of words in topics that the logarithms of are looked up.
const LOOKED_UP: usize = 4096;

/// ln G(n + a) - ln G(a) for n below `length`.
fn rises(a: f64, length: usize) -> Vec<f64> {
    let step = |sum: &mut f64, n: usize| {
        let value = *sum;
        *sum += (a + n as f64).ln();
        Some(value)
    };
    (0..length).scan(0.0, step).collect()
}

impl GibbsModel {
    /// Statistics of a stretch of documents; `assigned` are the topics of their tokens. Adds how many topics they have.
    fn statistics(&self, assigned: &[u32], documents: Range<usize>, active: &mut u64) -> TopicSummary {
        let first = self.tokens.start[documents.start];
        let lists = |d: usize| {
            let of_d = self.tokens.document(d);
            let word = &self.tokens.word[of_d.clone()];
            Entries { word, topic: &assigned[of_d.start - first..of_d.end - first], mass: &self.ones[..word.len()] }
        };
        let lists: Vec<Entries<'_>> = documents.clone().map(lists).collect();
        let mut stats = SparseStats::empty(self.tokens.vocab_size);
        stats.add_lists(self.num_topics, &lists);
        let mut summary = TopicSummary::new(self.num_topics, WordStats::Batch(stats));
        let mut counts = DocumentTopics::new(self.num_topics);
        for list in lists {
            counts.begin(list.topic);
            *active += counts.topics.len() as u64;
            for &k in &counts.topics {
                let count = counts.count[k as usize];
                summary.counts[k as usize] += f64::from(count);
                summary.alloc += self.document_rise[count as usize];
            }
            // ln G(alpha) - ln G(N_d + alpha)
            summary.alloc += ln_gamma(self.alpha) - ln_gamma(list.topic.len() as f64 + self.alpha);
        }
        summary.documents = documents.len() as f64;
        summary
    }

    /// No visits yet.
    fn nothing_averaged(&self) -> Averaged {
        let empty = WordStats::Total(SparseStats::empty(self.tokens.vocab_size));
        Averaged { visits: vec![0; self.batches.num_batches()], sum: TopicSummary::new(self.num_topics, empty) }
    }

    /// The average over laps, where there is one yet.
    fn average(&self, averaged: &Averaged) -> Option<TopicSummary> {
        // Documents are counted once a visit.
        let laps = averaged.sum.documents / self.tokens.num_documents() as f64;
        // A batch that is not in the sum would be missing from the topics.
        let complete = self.burn_in.is_some_and(|burn_in| averaged.visits.iter().all(|&visits| visits > burn_in));
        complete.then(|| {
            let mut mean = averaged.sum.clone();
            mean.scale(1.0 / laps);
            mean
        })
    }

    /// log p(w | z) with the topics integrated out.
    fn data_term(&self, total: &TopicSummary) -> f64 {
        let rise = |&n: &f64| match self.word_rise.get(n as usize) {
            Some(&value) if n.fract() == 0.0 => value,
            // In the first lap counts are shares of those at the start.
            _ => ln_gamma(n + self.lambda) - ln_gamma(self.lambda),
        };
        let sum = self.lambda * self.tokens.vocab_size as f64;
        let topics: f64 = total.counts.iter().map(|n| ln_gamma(sum) - ln_gamma(n + sum)).sum();
        total.total().mass.iter().map(rise).sum::<f64>() + topics
    }
}

impl Model for GibbsModel {
    type Params = GibbsParams;
    type Carried = (Option<ChainState>, Averaged);
    type Summary = TopicSummary;
    type Memory = ();
    /// The topics of the batch's tokens, and where the generator is.
    type Found = Option<(Arc<Vec<u32>>, ChaCha8Rng)>;
    type Tally = LapTally;
    type Worker = GibbsWorker;

    fn worker(&self) -> GibbsWorker {
        GibbsWorker::default()
    }

    fn local(
        &self,
        params: &GibbsParams,
        batch: &Batch<'_>,
        _: &(),
        worker: &mut GibbsWorker,
    ) -> Result<Visited<Self>> {
        let Some(state) = &params.chain else { unreachable!("a run starts with a chain") };
        let tokens = &*self.tokens;
        let mut sampler = match worker.0.take() {
            Some((before, sampler)) if before.is(state) => sampler,
            _ => <dyn Sampler>::new(tokens, &state.all(), &self.config)?,
        };
        let ChainState { mut topics, mut rng } = state.clone();
        let documents = self.batches.stretch(batch.number);
        let mut drawn = topics[batch.number].to_vec();
        sampler.sample(tokens, documents.clone(), &mut drawn, &mut rng);
        let mut tally = LapTally { documents: documents.len() as u64, active: 0, proposals: sampler.take_proposals() };
        let summary = self.statistics(&drawn, documents, &mut tally.active);
        let found = Some((Arc::new(drawn), rng.clone()));
        found.iter().for_each(|(drawn, _)| topics[batch.number] = Arc::clone(drawn));
        worker.0 = Some((ChainState { topics, rng }, sampler));
        Ok(Visited { summary, memory: (), found, tally })
    }

    fn take_up(&self, params: &mut GibbsParams, batch: usize, visited: &Visited<Self>) {
        if let (Some(chain), Some((topics, rng))) = (&mut params.chain, &visited.found) {
            (chain.topics[batch], chain.rng) = (Arc::clone(topics), rng.clone());
        }
        if let Some(burn_in) = self.burn_in {
            let Averaged { visits, sum } = &mut params.averaged;
            visits[batch] += 1;
            if visits[batch] > burn_in {
                sum.add_scaled(&visited.summary, 1.0);
            }
        }
    }

    fn global_step(&self, _total: &TopicSummary, previous: Option<&GibbsParams>) -> Result<GibbsParams> {
        Ok(previous.cloned().unwrap_or_else(|| GibbsParams {
            alpha: vec![(self.alpha / self.num_topics as f64) as f32; self.num_topics],
            chain: None,
            averaged: self.nothing_averaged(),
        }))
    }

    fn update(&self, _params: &mut GibbsParams, _total: &TopicSummary) -> Result<()> {
        Ok(())
    }

    fn objective(&self, _params: &GibbsParams, total: &TopicSummary) -> Objective {
        Objective { data: self.data_term(total), entropy: 0.0, alloc: total.alloc }
    }

    fn carried(&self, params: &GibbsParams) -> Self::Carried {
        (params.chain.clone(), params.averaged.clone())
    }

    fn restore(&mut self, total: &TopicSummary, (chain, averaged): Self::Carried) -> Result<Option<GibbsParams>> {
        let num = self.batches.num_batches();
        let of_these = averaged.visits.len() == num && averaged.sum.num_topics == self.num_topics;
        let is_of = |(batch, topics): (usize, &Arc<Vec<u32>>)| {
            let all = topics.len() == self.tokens.of(&self.batches.stretch(batch)).len();
            all && topics.iter().all(|&k| (k as usize) < self.num_topics)
        };
        let in_range = |chain: &ChainState| chain.topics.len() == num && chain.topics.iter().enumerate().all(is_of);
        if !of_these || !chain.as_ref().is_some_and(in_range) {
            return Ok(None);
        }
        let params = self.global_step(total, None)?;
        Ok(Some(GibbsParams { chain, averaged, ..params }))
    }

    fn is_a_chain(&self) -> bool {
        true
    }

    fn check_forget(&self) -> Result<()> {
        Err(Error::Config {
            setting: "forget-batch",
            problem: format!("{} has drawn all topics given this batch", self.config.method.name()),
            remedy: "train again without its documents".into(),
        })
    }

    fn report(&self, _params: &GibbsParams, tally: &LapTally) -> Vec<(&'static str, f64)> {
        let LapTally { documents, active, proposals } = tally;
        let mut report = vec![(ACTIVE_TOPICS, *active as f64 / (*documents).max(1) as f64)];
        if proposals.made > 0 {
            report.push(("proposals_accepted", proposals.accepted as f64 / proposals.made as f64));
        }
        report
    }
}

/// Samplers with all that their training needs.
pub struct GibbsFamily<'a> {
    inner: TopicFamily<'a>,
    tokens: Arc<Tokens>,
    batches: Batches,
}

impl<'a> GibbsFamily<'a> {
    /// Read the documents that `inner` is about.
    pub fn new(inner: TopicFamily<'a>) -> Result<Self> {
        let tokens = Arc::new(Tokens::read(inner.source)?);
        let batches = Batches::spread(tokens.num_documents(), inner.config.batches)?;
        Ok(GibbsFamily { inner, tokens, batches })
    }

    /// The topics of all tokens that a run starts from.
    fn first_topics(&self, run: usize, rng: &mut ChaCha8Rng, patience: Patience<'_>) -> Result<Vec<u32>> {
        let (inner, tokens) = (&self.inner, &self.tokens);
        Ok(match (inner.inputs.start, inner.config.init) {
            (Some(start), _) => tokens.drawn_under(&start.table, &inner.config, rng),
            (None, TopicInit::Bregman) => {
                let (topics, lloyd) = (inner.model(run), inner.config.init_lloyd);
                let first = initial_topics(&topics, inner.source, lloyd, rng, patience)?;
                tokens.drawn_under(&topics.point_topics(&first), &inner.config, rng)
            }
            (None, TopicInit::Auto | TopicInit::Random) => tokens.drawn_uniformly(&inner.config, rng),
        })
    }
}

impl<'a> Family<'a> for GibbsFamily<'a> {
    type Model = GibbsModel;
    type Saved = TopicModel;

    fn plan(&self) -> Plan {
        self.inner.plan()
    }

    fn beginning(&self) -> Beginning {
        self.inner.beginning()
    }

    fn remarks(&self) -> &[String] {
        self.inner.remarks()
    }

    fn fingerprint(&self) -> Result<Fingerprint> {
        self.inner.fingerprint()
    }

    fn deal(&self, _run: usize) -> Result<Dealt<'a>> {
        Ok(Dealt::new(self.inner.source, self.batches.clone()))
    }

    fn model(&self, _run: usize) -> GibbsModel {
        let (tokens, config) = (Arc::clone(&self.tokens), self.inner.config.clone());
        let longest = tokens.longest_document();
        GibbsModel {
            tokens,
            batches: self.batches.clone(),
            num_topics: config.topics,
            alpha: config.alpha,
            lambda: config.lambda,
            word_rise: rises(config.lambda, LOOKED_UP),
            document_rise: rises(config.alpha / config.topics as f64, longest + 1),
            ones: vec![1.0; longest],
            burn_in: config.burn_in,
            config: TopicsConfig::clone(&config),
        }
    }

    fn start(
        &self,
        model: &mut GibbsModel,
        _data: &Dealt<'a>,
        run: usize,
        patience: Patience<'_>,
    ) -> Result<Start<GibbsModel>> {
        let mut of_chain = ChaCha8Rng::seed_from_u64(self.inner.seed(run));
        let assigned = self.first_topics(run, &mut of_chain, patience)?;
        let (mut total, mut topics) = (model.nothing_averaged().sum, Vec::new());
        for batch in 0..self.batches.num_batches() {
            let documents = self.batches.stretch(batch);
            let of_batch = &assigned[self.tokens.of(&documents)];
            total.add_scaled(&model.statistics(of_batch, documents, &mut 0), 1.0);
            topics.push(Arc::new(of_batch.to_vec()));
        }
        let chain = Some(ChainState { topics, rng: of_chain });
        let params = GibbsParams { chain, ..model.global_step(&total, None)? };
        let rng = ChaCha8Rng::seed_from_u64(self.inner.stream(run, Stream::Schedule));
        Ok(Start { params, total, stays: false, rng })
    }

    fn score(&self, model: &GibbsModel, params: &GibbsParams, total: &TopicSummary) -> Result<Option<f64>> {
        let average = model.average(&params.averaged);
        self.inner.score_of(&self.inner.model(0), &params.alpha, average.as_ref().unwrap_or(total))
    }

    fn saved(&self, session: &Session<'a, GibbsModel>, outcome: &Outcome) -> TopicModel {
        let training = TrainingRecord::new(self.inner.source.num_rows(), session.progress(), outcome);
        let average = session.model().average(&session.params().averaged);
        let total = average.as_ref().unwrap_or(session.total());
        self.inner.saved_with(&self.inner.model(0), training, &session.params().alpha, total)
    }

    fn kept(&self, earlier: TopicModel, outcome: &Outcome) -> TopicModel {
        self.inner.kept(earlier, outcome)
    }
}
