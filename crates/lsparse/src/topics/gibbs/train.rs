//! Training by a sampler in the loop of all trainings: a batch is a stretch of documents whose tokens are drawn anew.
//!
//! The objective is log p(w, z), the joint probability of words and topics with everything else integrated out: a
//! sample of it, not a bound, so no rule for stopping looks at it.

use std::ops::Range;
use std::sync::Arc;

use lsparse_kernels::ln_gamma;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::super::summary::{Entries, TopicSummary, WordStats};
use super::super::train::TopicFamily;
use super::super::{ACTIVE_TOPICS, SparseStats, TopicInit, TopicModel, TopicsConfig, initial_topics};
use super::document::DocumentTopics;
use super::{Chain, Proposals, Tokens};
use crate::checkpoint::Fingerprint;
use crate::data::{Batch, Batches, Dealt};
use crate::error::{Error, Result};
use crate::model::{self, Model, Objective, Visited};
use crate::rules::{Outcome, Patience, TrainingRecord};
use crate::session::{Session, Start};
use crate::summary::Summary;
use crate::train::{Family, Plan};

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

/// A chain at rest. Every token is drawn given all others, so that it belongs to no batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChainState {
    /// The topic of every token.
    assigned: Vec<u32>,
    rng: ChaCha8Rng,
}

impl ChainState {
    fn of(chain: &Chain) -> Arc<Self> {
        Arc::new(ChainState { assigned: chain.assigned.clone(), rng: chain.rng.clone() })
    }
}

/// Where a sampler is: the topics themselves are integrated out.
#[derive(Clone)]
pub struct GibbsParams {
    /// alpha_k, for scores.
    alpha: Vec<f32>,
    /// None before the first.
    chain: Option<Arc<ChainState>>,
    averaged: Averaged,
}

/// A chain that is ready to go on, and the state that it is in: taken up where parameters hold that very state.
#[derive(Default)]
pub struct GibbsWorker(Option<(Arc<ChainState>, Chain)>);

/// The documents as tokens, dealt into stretches.
pub struct GibbsModel {
    tokens: Arc<Tokens>,
    config: TopicsConfig,
    num_topics: usize,
    num_batches: usize,
    alpha: f64,
    lambda: f64,
    /// ln G(n + lambda) - ln G(lambda) for whole numbers n.
    word_rise: Vec<f64>,
    /// ln G(n + alpha/K) - ln G(alpha/K) likewise.
    document_rise: Vec<f64>,
    /// As many ones as the longest document has tokens: their mass.
    ones: Vec<f32>,
    /// Laps before statistics are averaged; 0 if they are not.
    burn_in: usize,
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
    /// Statistics of a stretch of documents whose tokens have the topics `assigned`; adds how many topics they have.
    fn statistics(&self, assigned: &[u32], documents: Range<usize>, active: &mut u64) -> TopicSummary {
        let lists = |d: usize| {
            let of_d = self.tokens.document(d);
            let (word, topic) = (&self.tokens.word[of_d.clone()], &assigned[of_d]);
            Entries { word, topic, mass: &self.ones[..word.len()] }
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
        Averaged { visits: vec![0; self.num_batches], sum: TopicSummary::new(self.num_topics, empty) }
    }

    /// The average over laps, where there is one yet.
    fn average(&self, averaged: &Averaged) -> Option<TopicSummary> {
        // Documents are counted once a visit.
        let laps = averaged.sum.documents / self.tokens.num_documents() as f64;
        // A batch that is not in the sum would be missing from the topics.
        let complete = self.burn_in > 0 && averaged.visits.iter().all(|&visits| visits > self.burn_in);
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
    type Carried = (Option<Arc<ChainState>>, Averaged);
    type Summary = TopicSummary;
    type Memory = ();
    type Found = Option<Arc<ChainState>>;
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
        let mut chain = match worker.0.take() {
            Some((before, chain)) if Arc::ptr_eq(&before, state) => chain,
            _ => {
                let ChainState { assigned, rng } = (**state).clone();
                Chain::at(Arc::clone(&self.tokens), assigned, &self.config, rng)?
            }
        };
        let documents = batch.data.batches.stretch(batch.number);
        chain.sample(documents.clone());
        let mut tally = LapTally { documents: documents.len() as u64, active: 0, proposals: chain.take_proposals() };
        let summary = self.statistics(chain.assigned(), documents, &mut tally.active);
        let after = ChainState::of(&chain);
        worker.0 = Some((Arc::clone(&after), chain));
        Ok(Visited { summary, memory: (), found: Some(after), tally })
    }

    fn take_up(&self, params: &mut GibbsParams, batch: usize, visited: &Visited<Self>) {
        params.chain.clone_from(&visited.found);
        if self.burn_in > 0 {
            let Averaged { visits, sum } = &mut params.averaged;
            visits[batch] += 1;
            if visits[batch] > self.burn_in {
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
        let of_these = averaged.visits.len() == self.num_batches && averaged.sum.num_topics == self.num_topics;
        let in_range = |chain: &Arc<ChainState>| {
            let all = chain.assigned.len() == self.tokens.word.len();
            all && chain.assigned.iter().all(|&k| (k as usize) < self.num_topics)
        };
        if !of_these || !chain.as_ref().is_some_and(in_range) {
            return Ok(None);
        }
        let params = self.global_step(total, None)?;
        Ok(Some(GibbsParams { chain, averaged, ..params }))
    }

    fn check_forget(&self) -> Result<()> {
        Err(Error::Config {
            option: "forget-batch",
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
}

impl<'a> GibbsFamily<'a> {
    /// Read the documents that `inner` is about.
    pub fn new(inner: TopicFamily<'a>) -> Result<Self> {
        let tokens = Arc::new(Tokens::read(inner.source)?);
        Ok(GibbsFamily { inner, tokens })
    }

    /// The chain that a run starts from.
    fn first_chain(&self, run: usize, mut rng: ChaCha8Rng, patience: Patience<'_>) -> Result<Chain> {
        let (inner, tokens) = (&self.inner, Arc::clone(&self.tokens));
        match (inner.inputs.start, inner.config.init) {
            (Some(start), _) => Chain::from_topics(tokens, &start.table, &inner.config, rng),
            (None, TopicInit::Bregman) => {
                let (topics, lloyd) = (inner.model(run), inner.config.init_lloyd);
                let first = initial_topics(&topics, inner.source, lloyd, &mut rng, patience)?;
                Chain::from_topics(tokens, &topics.point_topics(&first), &inner.config, rng)
            }
            (None, TopicInit::Auto | TopicInit::Random) => Chain::random(tokens, &inner.config, rng),
        }
    }
}

impl<'a> Family<'a> for GibbsFamily<'a> {
    type Model = GibbsModel;
    type Saved = TopicModel;

    fn plan(&self) -> Plan {
        self.inner.plan()
    }

    fn fingerprint(&self) -> Result<Fingerprint> {
        self.inner.fingerprint()
    }

    fn deal(&self, _run: usize) -> Result<Dealt<'a>> {
        let batches = Batches::spread(self.tokens.num_documents(), self.inner.config.batches)?;
        Ok(Dealt::new(self.inner.source, batches))
    }

    fn model(&self, _run: usize) -> GibbsModel {
        let (tokens, config) = (Arc::clone(&self.tokens), self.inner.config.clone());
        let longest = tokens.longest_document();
        GibbsModel {
            tokens,
            num_topics: config.topics,
            num_batches: config.batches,
            alpha: config.alpha,
            lambda: config.lambda,
            word_rise: rises(config.lambda, LOOKED_UP),
            document_rise: rises(config.alpha / config.topics as f64, longest + 1),
            ones: vec![1.0; longest],
            burn_in: config.burn_in,
            config,
        }
    }

    fn start(
        &self,
        model: &mut GibbsModel,
        data: &Dealt<'a>,
        run: usize,
        patience: Patience<'_>,
    ) -> Result<Start<GibbsModel>> {
        let rng = ChaCha8Rng::seed_from_u64(self.inner.seed(run));
        let chain = self.first_chain(run, rng.clone(), patience)?;
        let mut total = model.nothing_averaged().sum;
        for batch in 0..data.batches.num_batches() {
            let documents = data.batches.stretch(batch);
            total.add_scaled(&model.statistics(chain.assigned(), documents, &mut 0), 1.0);
        }
        let params = GibbsParams { chain: Some(ChainState::of(&chain)), ..model.global_step(&total, None)? };
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
}
