//! A topic model as training sees it: parameters, local step, global step and objective.

use std::ops::Range;
use std::sync::Arc;

use lsparse_cuda::Device;
use lsparse_cuda::topics::{Rule, Shape};
use lsparse_kernels::{digamma, ln_gamma};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::gibbs::Sampling;
use super::growth::{self, Finding, Growth, GrowthState};
use super::held::TopicTable;
use super::local::device::{self, DeviceStep};
use super::local::document::{DocumentOptions, Tally};
use super::local::{self, Explained};
use super::summary::{SparseStats, TopicSummary, WordStats};
use super::table::{self, WordTable};
use crate::allocation::{AlphaRule, Stick, Tables, learned_alpha};
use crate::backend::{Trouble, with_buffers};
use crate::data::{Ahead, Batch, Dealt, Layout, Stretch};
use crate::error::Result;
use crate::likelihood::{Estimate, ln_dirichlet_symmetric};
use crate::settings::TopicsConfig;
use crate::training::model::{self, Model, Objective, Visited};
use crate::training::moves::Changes;
use crate::training::schedule::Kept;

/// A topic model: K topics over V words, how they are estimated, and how documents are worked out.
pub struct Topics {
    /// K.
    pub num_topics: usize,
    /// V.
    pub vocab_size: usize,
    /// Posterior or MAP for the topics; documents always have a full posterior.
    pub estimate: Estimate,
    /// Total concentration of a document's topics to begin with.
    pub alpha: f64,
    /// Whether alpha is learned.
    pub alpha_rule: AlphaRule,
    /// Pseudo-count of every word in every topic.
    pub lambda: f64,
    /// Settings of the document step.
    pub document: DocumentOptions,
    /// Topics a word starts a document with.
    pub start_width: usize,
    /// Pseudo-counts beyond lambda: words that pull a topic.
    pub pull: Option<SparseStats<f32>>,
    /// Whether documents start from the counts of their last visit.
    pub warm_start: bool,
    /// Whether topics that have lost everything are lent badly explained documents.
    pub lends: bool,
    /// Documents are sampled rather than solved.
    pub sampling: Option<Sampling>,
    /// Concentration of the stick that shares of topics are broken from, where they are; learned where there is none.
    pub gamma: Option<f64>,
    /// Where K is to be found, what that takes.
    pub finding: Option<Finding>,
    /// The GPU that solves documents, if not the CPU.
    pub device: Option<Arc<Device>>,
}

/// Global parameters.
pub struct TopicParams {
    /// exp(`E[log phi]`) or phi, word by word.
    pub table: TopicTable,
    /// alpha_k.
    pub alpha: Vec<f32>,
    /// The data term of the objective for the statistics that the table was made from.
    pub(super) data_term: f64,
    /// Where K is to be found, what is proposed.
    pub(super) growth: Option<Arc<Growth>>,
}

/// What of the parameters the statistics do not give: alpha, which is learned step by step, and the pull of seed words,
/// which came from the first total.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CarriedTopics {
    pub(super) alpha: Vec<f32>,
    pub(super) pull: Option<SparseStats<f32>>,
    pub(super) growth: Option<GrowthState>,
}

/// What the documents of a batch remember of their last visit, in the order of the batch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DocumentMemory {
    /// Counts of each, where documents start warm.
    pub warm: Vec<Vec<(u32, f32)>>,
    /// How well each was explained, where somebody asks.
    pub explained: Vec<Explained>,
}

impl Kept for DocumentMemory {
    fn kept_bytes(&self) -> u64 {
        let warm: usize = self.warm.iter().map(|counts| size_of_val(counts.as_slice())).sum();
        (warm + size_of_val(self.warm.as_slice()) + size_of_val(self.explained.as_slice())) as u64
    }
}

impl model::Tally for Tally {
    fn add(&mut self, other: &Self) {
        Tally::add(self, other);
    }

    fn aside_seconds(&self) -> f64 {
        self.aside_seconds
    }
}

/// Entries of a panel of documents at most, about: what is in memory at once is a few times this.
pub(super) const PANEL_DOCUMENTS: usize = 1024;

/// Words of a parallel task of the global step.
const WORDS_A_TASK: usize = 64;

/// Buffers kept between batches.
#[derive(Default)]
pub struct TopicWorker {
    pub(super) ahead: Option<Ahead<f32>>,
    /// Topics and room on the GPU.
    on_device: Option<DeviceStep>,
    /// What documents left behind, of the panel that is solved and of the one before.
    solved: [local::SolvedPanel; 2],
}

impl Topics {
    /// The model that checked settings ask for, over `vocab_size` words.
    pub fn new(config: &TopicsConfig, vocab_size: usize) -> Self {
        Topics {
            num_topics: config.topics,
            vocab_size,
            estimate: config.estimate,
            alpha: config.alpha,
            alpha_rule: config.learn_alpha,
            lambda: config.lambda,
            document: DocumentOptions::of(config),
            start_width: config.sparsity.within(config.topics),
            pull: None,
            warm_start: config.warm_start,
            lends: config.leave_out && !config.find_k,
            sampling: None,
            gamma: config.gamma,
            finding: config.find_k.then(|| Finding { most: config.k_max(), config: config.clone() }),
            device: None,
        }
    }

    /// No statistics yet, held as a batch's are.
    pub fn empty_batch(&self) -> TopicSummary {
        TopicSummary::new(self.num_topics, WordStats::Batch(SparseStats::empty(self.vocab_size)))
    }

    /// There are so many topics now.
    pub(super) fn resize(&mut self, num_topics: usize) {
        let Some(finding) = &self.finding else { return };
        self.num_topics = num_topics;
        self.document = finding.document(num_topics);
        self.start_width = self.document.sparsity;
    }

    /// What is proposed, with these parameters or before any.
    fn growth(&self, previous: Option<&TopicParams>) -> Option<Arc<Growth>> {
        let begin = || {
            self.finding
                .is_some()
                .then(|| Arc::new(Growth::begin((self.num_topics, self.vocab_size), self.alpha, self.estimate)))
        };
        previous.map_or_else(begin, |previous| previous.growth.clone())
    }

    /// alpha_k to begin with.
    pub(super) fn initial_alpha(&self) -> Vec<f32> {
        vec![(self.alpha / self.num_topics as f64) as f32; self.num_topics]
    }

    /// S_kv + lambda of the topics that have any of word v or are pulled by it; all others have lambda.
    pub(super) fn pseudo_counts(&self, stats: &SparseStats<f64>, v: usize, topic: &mut Vec<u32>, count: &mut Vec<f64>) {
        self.pseudo_counts_within(stats, v, &(0..self.num_topics), topic, count);
    }

    /// The same of some topics alone.
    pub(super) fn pseudo_counts_within(
        &self,
        stats: &SparseStats<f64>,
        v: usize,
        range: &Range<usize>,
        topic: &mut Vec<u32>,
        count: &mut Vec<f64>,
    ) {
        let within = |topics: &[u32]| {
            let place = |end: usize| topics.partition_point(|&k| (k as usize) < end);
            place(range.start)..place(range.end)
        };
        let (topics, mass) = stats.word(v);
        let of_range = within(topics);
        let (topics, mass) = (&topics[of_range.clone()], &mass[of_range]);
        topic.clear();
        topic.extend_from_slice(topics);
        count.clear();
        count.extend(mass.iter().map(|m| m + self.lambda));
        let Some(pull) = &self.pull else { return };
        let (pulled, strength) = pull.word(v);
        let of_range = within(pulled);
        for (&k, &m) in pulled[of_range.clone()].iter().zip(&strength[of_range]) {
            match topics.binary_search(&k) {
                Ok(at) => count[at] += f64::from(m),
                Err(_) => {
                    topic.push(k);
                    count.push(self.lambda + f64::from(m));
                }
            }
        }
    }

    /// sum_v S_kv + lambda for every topic, with what pulls it.
    pub(super) fn pseudo_totals(&self, total: &TopicSummary) -> Vec<f64> {
        let mut sums: Vec<f64> = total.counts.iter().map(|n| n + self.lambda * self.vocab_size as f64).collect();
        if let Some(pull) = &self.pull {
            pull.topic.iter().zip(&pull.mass).for_each(|(&k, &m)| sums[k as usize] += f64::from(m));
        }
        sums
    }

    /// Topics of a word that are kept for the cold start.
    fn starts_kept(&self) -> usize {
        let dense = self.document.sparsity >= self.num_topics && self.document.active_floor <= 0.0;
        if dense { 0 } else { self.start_width }
    }

    /// A table in which no topic has any word yet.
    pub(super) fn blank_table(&self, estimate: Estimate) -> WordTable {
        let none = self.entry_of_none(estimate);
        WordTable::filled_with(self.vocab_size, self.num_topics, self.starts_kept(), none)
    }

    /// The entry of a topic that has none of a word.
    pub(super) fn entry_of_none(&self, estimate: Estimate) -> f32 {
        match estimate {
            Estimate::Posterior => digamma(self.lambda).exp() as f32,
            _ => self.lambda as f32,
        }
    }

    /// One factor a topic, for these sums.
    fn scales(estimate: Estimate, sums: &[f64]) -> Vec<f32> {
        let scale_of = |&sum: &f64| match estimate {
            Estimate::Posterior => (-digamma(sum)).exp() as f32,
            _ => (1.0 / sum) as f32,
        };
        sums.iter().map(scale_of).collect()
    }

    /// The data term, given the shares of words in it and the sums of topics.
    fn data_term(&self, estimate: Estimate, words: &[f64], sums: &[f64]) -> f64 {
        let of_topic = |&sum: &f64| match estimate {
            Estimate::Posterior => -ln_gamma(sum),
            _ => -sum * sum.ln(),
        };
        words.iter().sum::<f64>() + sums.iter().map(of_topic).sum::<f64>() + self.ln_prior()
    }

    /// Bring topics up to these statistics, on the GPU where there is one that has memory for them, and give the data term
    /// at the topics that are best for them.
    fn renew(&self, total: &TopicSummary, topics: &mut TopicTable) -> Result<f64> {
        total.words.check()?;
        let estimate = self.estimate;
        if let Some(device) = self.device.as_ref().filter(|_| self.sampling.is_none()) {
            let sums = self.pseudo_totals(total);
            let rule = Rule {
                lambda: self.lambda,
                posterior: estimate == Estimate::Posterior,
                none: self.entry_of_none(estimate),
                none_term: data_term_of(estimate, &[self.lambda], &mut Vec::new()),
                scale: &Topics::scales(estimate, &sums),
            };
            let (vocab_size, num_topics) = (self.vocab_size, self.num_topics);
            let width = WordTable::width_of(num_topics);
            let shape = Shape { vocab_size, num_topics, width, start_width: self.starts_kept() };
            let written = topics.write_on(device, shape, &total.words, self.pull.as_ref(), &rule);
            if let Some(words) = Trouble::settle(written.map_err(Trouble::from))? {
                return Ok(self.data_term(estimate, &words, &sums));
            }
            total.words.bring()?;
        }
        let (table, written) = topics.here_mut(|| self.blank_table(estimate));
        Ok(self.write_table(total, estimate, table, written))
    }

    /// Bring a table up to these statistics, and give the data term at the topics that are best for them.
    ///
    /// The cost is that of the entries there are, before or now, not V x K: an entry is exp(psi(S_kv + lambda)) under a
    /// posterior and S_kv + lambda otherwise, and what depends on all of a topic is its scale.
    pub(super) fn write_table(
        &self,
        total: &TopicSummary,
        estimate: Estimate,
        table: &mut WordTable,
        written: &mut [Vec<u32>],
    ) -> f64 {
        let stats = total.total();
        let sums = self.pseudo_totals(total);
        table.scale = Topics::scales(estimate, &sums);
        let scale = table.scale.clone();
        let none = self.entry_of_none(estimate);
        let none_term = data_term_of(estimate, &[self.lambda], &mut Vec::new());
        let spare = table.start_width() + 1;
        // Topics that have none of a word come behind one another by their scale.
        let mut by_scale: Vec<u32> = (0..self.num_topics as u32).collect();
        by_scale.sort_by(|&a, &b| scale[b as usize].total_cmp(&scale[a as usize]).then(a.cmp(&b)));
        let of_word = |buffers: &mut Buffers,
                       (v, (mut word, written)): (usize, (table::WordMut<'_>, &mut Vec<u32>))| {
            let Buffers { topic, count, logs, weight } = buffers;
            written.iter().for_each(|&k| word.row[k as usize] = none);
            self.pseudo_counts(stats, v, topic, count);
            written.clone_from(topic);
            let rest = (self.num_topics - topic.len()) as f64 * none_term;
            let term = data_term_of(estimate, count, logs);
            if estimate == Estimate::Posterior {
                lsparse_kernels::digamma_slice(count);
                lsparse_kernels::exp_slice(count);
            }
            topic.iter().zip(count.iter()).for_each(|(&k, &c)| word.row[k as usize] = c as f32);
            if spare > 1 {
                // Its largest topics are among those that have it and the first few of the others.
                // (The pulled ones stand behind those that have it, which are sorted.)
                let sorted = stats.word(v).0;
                let had = |k: &u32| sorted.binary_search(k).is_ok() || written[sorted.len()..].contains(k);
                let others = by_scale.iter().filter(|k| !had(k)).take(spare);
                topic.extend(others);
                weight.clear();
                weight.extend(topic.iter().map(|&k| word.row[k as usize] * scale[k as usize]));
                word.start_from(topic, weight);
            }
            term + rest
        };
        let words = table.par_words().zip(written).enumerate().with_max_len(WORDS_A_TASK);
        let words: Vec<f64> = words.map(|word| with_buffers(|buffers| of_word(buffers, word))).collect();
        self.data_term(estimate, &words, &sums)
    }

    /// log normaliser of the topics' prior.
    pub(super) fn ln_prior(&self) -> f64 {
        let raise = if self.estimate == Estimate::Posterior { 0.0 } else { 1.0 };
        let plain = ln_dirichlet_symmetric(self.lambda + raise, self.vocab_size) * self.num_topics as f64;
        let Some(pull) = &self.pull else { return plain };
        // Words that pull change their own parameter and their topic's sum.
        let base = self.lambda + raise;
        let mut sums = vec![base * self.vocab_size as f64; self.num_topics];
        let mut value = plain - self.num_topics as f64 * ln_gamma(sums[0]);
        for (&k, &m) in pull.topic.iter().zip(&pull.mass) {
            sums[k as usize] += f64::from(m);
            value += ln_gamma(base) - ln_gamma(base + f64::from(m));
        }
        value + sums.iter().map(|&s| ln_gamma(s)).sum::<f64>()
    }

    /// alpha_k for the statistics of documents.
    pub(super) fn learned_alpha(&self, total: &TopicSummary, old: &[f32]) -> Vec<f32> {
        let TopicSummary { alpha_topic, alpha_slope, alpha_total, .. } = total;
        let said = Tables { tables: alpha_topic, slopes: alpha_slope, slope: *alpha_total };
        learned_alpha(self.alpha_rule, (self.alpha, self.gamma), said, old)
    }

    /// The allocation term of documents under these alphas, or the bound on it where alpha is learned; that of a stick is
    /// integrated over the posterior that is best for these statistics.
    pub(super) fn allocation(&self, alpha: &[f32], total: &TopicSummary) -> f64 {
        if self.alpha_rule == AlphaRule::Stick && total.alpha_total > 0.0 {
            let said = Tables { tables: &total.alpha_topic, slopes: &total.alpha_slope, slope: total.alpha_total };
            return total.alloc + Stick::best(self.alpha, self.gamma, said).term(self.alpha, said);
        }
        let of_topic = |((&a, &b), e): ((&f32, &f64), &f64)| {
            let a = f64::from(a);
            // A topic without any of it may have no logarithm.
            let tables = if b == 0.0 { 0.0 } else { b * a.ln() };
            tables - (total.alpha_total + e) * a
        };
        total.alloc + alpha.iter().zip(&total.alpha_topic).zip(&total.alpha_slope).map(of_topic).sum::<f64>()
    }

    /// Let statistics of words alone speak for these alphas too, as so many documents would: until all batches have been
    /// seen they stand in for the others, and a topic that the first batch happens to miss is not to lose its alpha.
    pub(super) fn stand_in(&self, total: &mut TopicSummary, alpha: &[f32], documents: usize) {
        if self.alpha_rule == AlphaRule::Fixed || total.alpha_total > 0.0 {
            return;
        }
        // A model to go on from knows how many documents it has seen.
        let documents = if total.documents > 0.0 { total.documents } else { documents as f64 };
        let sum: f64 = alpha.iter().map(|&a| f64::from(a)).sum();
        let length = total.counts.iter().sum::<f64>() / documents.max(1.0);
        total.alpha_total = documents * (digamma(length + sum) - digamma(sum));
        total.alpha_topic = alpha.iter().map(|&a| f64::from(a) * total.alpha_total).collect();
        total.alloc -= self.allocation(alpha, total) - total.alloc;
    }

    /// Point estimates of the topics, word by word (V x K), each topic summing to one: `E[phi]` = (S + lambda)/sum under
    /// a posterior, which is also the mode of the raised prior.
    pub fn point_topics(&self, total: &TopicSummary) -> WordTable {
        self.expected_topics(total, Estimate::Map).scaled()
    }

    /// exp(C_vk) under an estimate.
    pub(super) fn expected_topics(&self, total: &TopicSummary, estimate: Estimate) -> WordTable {
        let mut table = self.blank_table(estimate);
        self.write_table(total, estimate, &mut table, &mut vec![Vec::new(); self.vocab_size]);
        table
    }
}

/// Buffers for the entries of one word.
#[derive(Default)]
pub(super) struct Buffers {
    pub(super) topic: Vec<u32>,
    pub(super) count: Vec<f64>,
    pub(super) logs: Vec<f64>,
    pub(super) weight: Vec<f32>,
}

/// The share of pseudo-counts in the data term: sum ln G(lambda_kv) under a posterior, sum (S_kv + lambda) log of the
/// same otherwise.
pub(super) fn data_term_of(estimate: Estimate, counts: &[f64], logs: &mut Vec<f64>) -> f64 {
    logs.clear();
    logs.extend_from_slice(counts);
    match estimate {
        Estimate::Posterior => {
            lsparse_kernels::ln_gamma_slice(logs);
            logs.iter().sum()
        }
        _ => {
            lsparse_kernels::ln_slice(logs);
            counts.iter().zip(logs.iter()).map(|(s, l)| s * l).sum()
        }
    }
}

/// Name of the active topics a document in reports.
pub const ACTIVE_TOPICS: &str = "active_topics";

impl Model for Topics {
    type Params = TopicParams;
    type Carried = CarriedTopics;
    type Summary = TopicSummary;
    type Memory = DocumentMemory;
    type Found = ();
    type Tally = Tally;
    type Worker = TopicWorker;

    fn worker(&self) -> TopicWorker {
        TopicWorker::default()
    }

    fn local(
        &self,
        params: &TopicParams,
        batch: &Batch<'_>,
        memory: &DocumentMemory,
        worker: &mut TopicWorker,
    ) -> Result<Visited<Self>> {
        let (mut summary, mut tally, mut kept) = (self.empty_batch(), Tally::default(), DocumentMemory::default());
        // Other documents than last time have not been visited.
        let warm = Some(&memory.warm).filter(|warm| self.warm_start && warm.len() == batch.num_rows());
        let TopicWorker { ahead, solved: [now, before], on_device } = worker;
        let growth = params.growth.as_deref();
        let empty = || TopicSummary {
            trial: growth.map(|growth| Box::new(growth.trial(self.vocab_size))),
            ..self.empty_batch()
        };
        let ahead = ahead.get_or_insert_with(|| Ahead::new(Layout::Sparse, self.vocab_size).holding(false));
        let request = local::PanelRequest {
            table: &params.table,
            alpha: &params.alpha,
            options: &self.document,
            warm: warm.map(Vec::as_slice),
            learn_alpha: self.alpha_rule != AlphaRule::Fixed,
            keep_counts: self.warm_start,
            proposals: growth.map(Growth::proposals),
            entry_of_none: self.entry_of_none(self.estimate),
            lambda_sum: (self.lambda * self.vocab_size as f64) as f32,
        };
        if let Some(device) = self.device.as_ref().filter(|_| self.sampling.is_none())
            && let Some(visited) = device::visit(on_device, device, &request, batch, ahead, &mut summary, &mut tally)?
        {
            kept.warm.extend(visited.counts.into_iter().filter(|_| self.warm_start));
            kept.explained.extend(visited.explained.into_iter().filter(|_| self.lends));
            return Ok(Visited { summary, memory: kept, found: (), tally });
        }
        // (What the GPU had no memory for begins anew.)
        params.table.bring()?;
        (summary, tally) = (empty(), Tally::default());
        let mut first = 0;
        let mut sum = |before: &mut local::SolvedPanel, summary: &mut TopicSummary, tally: &mut Tally| {
            if before.is_empty() {
                return;
            }
            let visited = local::sum_panel(before, self.warm_start, summary, tally);
            before.clear();
            kept.warm.extend(visited.counts);
            if self.lends {
                kept.explained.extend(visited.explained);
            }
        };
        // While a panel is solved the one before is summed, so that no thread is idle while either waits for its last task.
        before.clear();
        ahead.for_each_panel(batch.data, batch.data.batches.panels(batch.number, PANEL_DOCUMENTS), |read| {
            let Stretch { rows, row_ids, .. } = read;
            if let Some(sampling) = &self.sampling {
                let active = sampling.sample_panel(self, params, rows, row_ids, batch.visit, &mut summary);
                tally.add(&Tally { active, documents: rows.len() as u64, ..Tally::default() });
                return Ok(());
            }
            let of_panel = warm.map(|warm| &warm[first..first + rows.len()]);
            first += rows.len();
            let request = local::PanelRequest { warm: of_panel, ..request };
            rayon::join(|| now.solve(&request, rows), || sum(before, &mut summary, &mut tally));
            std::mem::swap(now, before);
            Ok(())
        })?;
        sum(before, &mut summary, &mut tally);
        // Where a batch is one panel the next one has the same memory.
        std::mem::swap(now, before);
        Ok(Visited { summary, memory: kept, found: (), tally })
    }

    fn global_step(&self, total: &TopicSummary, previous: Option<&TopicParams>) -> Result<TopicParams> {
        let old = previous.map_or_else(|| self.initial_alpha(), |p| p.alpha.clone());
        let mut table = TopicTable::default();
        let data_term = self.renew(total, &mut table)?;
        let growth = self.growth(previous);
        Ok(TopicParams { table, alpha: self.learned_alpha(total, &old), data_term, growth })
    }

    fn update(&self, params: &mut TopicParams, total: &TopicSummary) -> Result<()> {
        params.data_term = self.renew(total, &mut params.table)?;
        params.alpha = self.learned_alpha(total, &params.alpha);
        Ok(())
    }

    fn objective(&self, params: &TopicParams, total: &TopicSummary) -> Objective {
        let alloc = self.allocation(&params.alpha, total);
        Objective { data: params.data_term, entropy: total.entropy, alloc }
    }

    fn carried(&self, params: &TopicParams) -> CarriedTopics {
        let growth = params.growth.as_ref().map(|growth| growth.state().clone());
        CarriedTopics { alpha: params.alpha.clone(), pull: self.pull.clone(), growth }
    }

    fn restore(&mut self, total: &TopicSummary, carried: CarriedTopics) -> Result<Option<TopicParams>> {
        let CarriedTopics { alpha, pull, growth } = carried;
        self.resize(total.num_topics);
        let same = |growth: &GrowthState| growth.num_topics() == self.num_topics;
        if alpha.len() != self.num_topics || !growth.as_ref().is_none_or(same) {
            return Ok(None);
        }
        self.pull = pull;
        if let Some(state) = &growth {
            self.alpha = state.concentration();
        }
        let params = self.global_step(total, None)?;
        let growth = growth.map(|state| Arc::new(Growth::of(state, self.vocab_size)));
        Ok(Some(TopicParams { alpha, growth, ..params }))
    }

    fn moves(
        &mut self,
        params: &mut TopicParams,
        total: &TopicSummary,
        memo: &dyn Fn(usize) -> Result<Option<Arc<TopicSummary>>>,
        data: &Dealt<'_>,
        _laps: usize,
    ) -> Result<Option<Changes>> {
        if self.finding.is_none() {
            return Ok(None);
        }
        let memos: Result<Vec<_>> =
            (0..data.batches.num_batches()).filter_map(|batch| memo(batch).transpose()).collect();
        growth::moves(self, params, total, &memos?)
    }

    fn lend(
        &self,
        data: &Dealt<'_>,
        memory: &dyn Fn(usize) -> Result<Arc<DocumentMemory>>,
        total: &TopicSummary,
        laps: usize,
    ) -> Result<Option<TopicSummary>> {
        if !self.lends || !super::seed::may_renew(&total.counts, laps) {
            return Ok(None);
        }
        let mut explained = vec![Explained::default(); data.source.num_rows()];
        // Which rows a batch has takes longer than all else here.
        let row_ids: Vec<_> =
            (0..data.batches.num_batches()).into_par_iter().map(|batch| data.batches.row_ids(batch)).collect();
        for (batch, ids) in row_ids.into_iter().enumerate() {
            let memory = memory(batch)?;
            ids.into_iter().zip(&memory.explained).for_each(|(n, of_row)| explained[n] = *of_row);
        }
        super::seed::renewed_topics(self, data.source, &total.counts, &explained, laps)
    }

    fn keeps_rows(&self) -> bool {
        self.warm_start
    }

    fn report(&self, _params: &TopicParams, tally: &Tally) -> Vec<(&'static str, f64)> {
        let documents = tally.documents.max(1) as f64;
        let active = (ACTIVE_TOPICS, tally.active as f64 / documents);
        if self.sampling.is_some() {
            return vec![active];
        }
        vec![
            active,
            ("doc_iterations", tally.iterations as f64 / documents),
            ("restarts_proposed", tally.proposed as f64),
            ("restarts_accepted", tally.accepted as f64),
        ]
    }
}
