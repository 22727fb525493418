//! Training by a sampler in the loop of all trainings: a batch is a stretch of documents whose tokens are drawn anew.
//!
//! The objective is log p(w, z), the joint probability of words and topics with everything else integrated out: a
//! sample of it, not a bound, so no rule for stopping looks at it.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use lsparse_kernels::ln_gamma;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::super::summary::{Entries, TopicSummary, WordStats};
use super::super::train::TopicTask;
use super::super::{ACTIVE_TOPICS, SparseStats, TopicInit, TopicModel, Topics, initial_topics};
use super::document::DocumentTopics;
use super::{Chain, Proposals, Tokens};
use crate::checkpoint::{Fingerprint, Sections};
use crate::error::Result;
use crate::fit::{Outcome, Patience, TrainingRecord};
use crate::model::{Model, Objective};
use crate::summary::Summary;
use crate::train::{Plan, Start, StateOf, Task};

/// A sampler's chain and what it did since the last report.
#[derive(Default)]
pub struct GibbsData {
    chain: Mutex<Option<Chain>>,
    lap: Mutex<LapTally>,
}

/// What a chain did in a lap so far.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct LapTally {
    documents: u64,
    /// Topics of the documents, added up.
    active: u64,
    proposals: Proposals,
}

impl GibbsData {
    /// The chain, which is there once a run has started.
    fn chain(&self) -> MutexGuard<'_, Option<Chain>> {
        self.chain.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn lap(&self) -> MutexGuard<'_, LapTally> {
        self.lap.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// The documents as tokens, dealt into stretches.
pub struct GibbsModel {
    tokens: Arc<Tokens>,
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
    averaged: Mutex<Averaged>,
}

/// The statistics of several laps.
#[derive(Clone, Serialize, Deserialize)]
struct Averaged {
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
    fn documents(&self, batch: usize) -> std::ops::Range<usize> {
        let end = |b: usize| self.tokens.num_documents() * b / self.num_batches;
        end(batch)..end(batch + 1)
    }

    /// Statistics of a stretch of documents whose tokens have the topics `assigned`; adds how many topics they have.
    fn statistics(&self, assigned: &[u32], batch: usize, active: &mut u64) -> TopicSummary {
        let documents = self.documents(batch);
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

    fn averaged(&self) -> MutexGuard<'_, Averaged> {
        self.averaged.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// No visits yet.
    fn nothing_averaged(&self) -> Averaged {
        let empty = WordStats::Total(SparseStats::empty(self.tokens.vocab_size));
        Averaged { visits: vec![0; self.num_batches], sum: TopicSummary::new(self.num_topics, empty) }
    }

    /// The average over laps, where there is one yet.
    fn average(&self) -> Option<TopicSummary> {
        let averaged = self.averaged();
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

impl Model<GibbsData> for GibbsModel {
    /// alpha_k, for scores; the topics themselves are integrated out.
    type Params = Vec<f32>;
    type Summary = TopicSummary;
    type Scratch = ();

    fn num_batches(&self, _data: &GibbsData) -> usize {
        self.num_batches
    }

    fn batch_share(&self, _data: &GibbsData, batch: usize) -> f64 {
        self.documents(batch).len() as f64 / self.tokens.num_documents() as f64
    }

    fn batch_len(&self, _data: &GibbsData, batch: usize) -> usize {
        self.documents(batch).len()
    }

    fn summarize(&self, _: &Vec<f32>, data: &GibbsData, batch: usize, _: &mut ()) -> Result<TopicSummary> {
        let mut chain = data.chain();
        let chain = chain.as_mut().expect("a run starts with a chain");
        chain.sample(self.documents(batch));
        let mut lap = data.lap();
        lap.documents += self.documents(batch).len() as u64;
        lap.proposals.add(&chain.take_proposals());
        let statistics = self.statistics(chain.assigned(), batch, &mut lap.active);
        if self.burn_in > 0 {
            let Averaged { visits, sum } = &mut *self.averaged();
            visits[batch] += 1;
            if visits[batch] > self.burn_in {
                sum.add_scaled(&statistics, 1.0);
            }
        }
        Ok(statistics)
    }

    fn global_step(&self, _total: &TopicSummary, previous: Option<&Vec<f32>>) -> Result<Vec<f32>> {
        let alpha = (self.alpha / self.num_topics as f64) as f32;
        Ok(previous.cloned().unwrap_or_else(|| vec![alpha; self.num_topics]))
    }

    fn update(&self, _params: &mut Vec<f32>, _total: &TopicSummary) -> Result<()> {
        Ok(())
    }

    fn objective(&self, _params: &Vec<f32>, total: &TopicSummary) -> Objective {
        Objective { data: self.data_term(total), entropy: 0.0, alloc: total.alloc }
    }

    fn lap_report(&self, data: &GibbsData) -> Vec<(&'static str, f64)> {
        let LapTally { documents, active, proposals } = std::mem::take(&mut *data.lap());
        let mut report = vec![(ACTIVE_TOPICS, active as f64 / documents.max(1) as f64)];
        if proposals.made > 0 {
            report.push(("proposals_accepted", proposals.accepted as f64 / proposals.made as f64));
        }
        report
    }
}

/// A sampler with all that its training needs.
pub struct GibbsTask<'a> {
    inner: TopicTask<'a, Topics>,
    model: GibbsModel,
}

impl<'a> GibbsTask<'a> {
    /// Read the documents that `inner` is about.
    pub fn new(inner: TopicTask<'a, Topics>) -> Result<Self> {
        let tokens = Arc::new(Tokens::read(inner.source)?);
        let config = &inner.config;
        let longest = tokens.longest_document();
        let model = GibbsModel {
            num_topics: config.topics,
            num_batches: config.batches,
            alpha: config.alpha,
            lambda: config.lambda,
            word_rise: rises(config.lambda, LOOKED_UP),
            document_rise: rises(config.alpha / config.topics as f64, longest + 1),
            ones: vec![1.0; longest],
            burn_in: config.burn_in,
            averaged: Mutex::new(Averaged {
                visits: Vec::new(),
                sum: TopicSummary::new(0, WordStats::Total(SparseStats::empty(0))),
            }),
            tokens,
        };
        *model.averaged() = model.nothing_averaged();
        Ok(GibbsTask { inner, model })
    }

    /// The chain that a run starts from.
    fn first_chain(&self, mut rng: ChaCha8Rng, patience: Patience<'_>) -> Result<Chain> {
        let (inner, tokens) = (&self.inner, Arc::clone(&self.model.tokens));
        match (inner.start, inner.config.init) {
            (Some(start), _) => Chain::from_topics(tokens, &start.table, &inner.config, rng),
            (None, TopicInit::Bregman) => {
                let lloyd = inner.config.init_lloyd;
                let first = initial_topics(&inner.model, inner.source, lloyd, &mut rng, patience)?;
                Chain::from_topics(tokens, &inner.model.point_topics(&first), &inner.config, rng)
            }
            (None, TopicInit::Auto | TopicInit::Random) => Chain::random(tokens, &inner.config, rng),
        }
    }
}

impl Task for GibbsTask<'_> {
    type Data = GibbsData;
    type Model = GibbsModel;
    type Saved = TopicModel;

    fn plan(&self) -> Plan {
        self.inner.plan()
    }

    fn model(&self) -> &GibbsModel {
        &self.model
    }

    fn deal(&self, _run: usize) -> Result<GibbsData> {
        Ok(GibbsData::default())
    }

    fn start(&mut self, data: &GibbsData, run: usize, patience: Patience<'_>) -> Result<Start<Vec<f32>, TopicSummary>> {
        let rng = ChaCha8Rng::seed_from_u64(self.inner.seed(run));
        let chain = self.first_chain(rng.clone(), patience)?;
        *self.model.averaged() = self.model.nothing_averaged();
        let mut total = self.model.nothing_averaged().sum;
        for batch in 0..self.model.num_batches {
            total.add_scaled(&self.model.statistics(chain.assigned(), batch, &mut 0), 1.0);
        }
        *data.chain() = Some(chain);
        let params = self.model.global_step(&total, None)?;
        Ok(Start { params, total, stays: false, rng })
    }

    fn score(&self) -> Option<Box<dyn Fn(&Vec<f32>, &TopicSummary) -> Result<f64> + '_>> {
        let held = self.inner.heldout?;
        let score = |alpha: &Vec<f32>, total: &TopicSummary| {
            let average = self.model.average();
            self.inner.score_of(held, alpha, average.as_ref().unwrap_or(total))
        };
        Some(Box::new(score))
    }

    fn saved(&self, state: &StateOf<Self>, outcome: &Outcome) -> TopicModel {
        let training = TrainingRecord::new(self.inner.source.num_rows(), state, outcome);
        let average = self.model.average();
        self.inner.saved_with(training, &state.params, average.as_ref().unwrap_or(&state.total))
    }

    fn encode(&self, model: &TopicModel) -> std::io::Result<Vec<u8>> {
        self.inner.encode(model)
    }

    fn decode(&self, path: &Path, bytes: &[u8]) -> Result<TopicModel> {
        self.inner.decode(path, bytes)
    }

    fn fingerprint(&self) -> Result<Fingerprint> {
        self.inner.fingerprint()
    }

    fn sections(&self, _params: &Vec<f32>, data: &GibbsData) -> Sections {
        let mut sections = Sections::default();
        if let Some(chain) = data.chain().as_ref() {
            sections.put("assigned", &chain.assigned);
            sections.put("rng", &chain.rng);
            sections.put("averaged", &*self.model.averaged());
            sections.put("lap", &*data.lap());
        }
        sections
    }

    fn restore(&mut self, total: &TopicSummary, sections: &Sections, data: &GibbsData) -> Result<Option<Vec<f32>>> {
        let (Some(assigned), Some(rng)) = (sections.get::<Vec<u32>>("assigned"), sections.get("rng")) else {
            return Ok(None);
        };
        let Some(averaged) = sections.get::<Averaged>("averaged") else { return Ok(None) };
        if averaged.visits.len() != self.model.num_batches || averaged.sum.num_topics != self.model.num_topics {
            return Ok(None);
        }
        *self.model.averaged() = averaged;
        let tokens = Arc::clone(&self.model.tokens);
        let in_range = assigned.iter().all(|&k| (k as usize) < self.model.num_topics);
        if assigned.len() != tokens.word.len() || !in_range {
            return Ok(None);
        }
        *data.lap() = sections.get("lap").unwrap_or_default();
        *data.chain() = Some(Chain::at(tokens, assigned, &self.inner.config, rng)?);
        self.model.global_step(total, None).map(Some)
    }
}
