//! What is said when topics are trained, to people and to programs.

use std::fmt;
use std::path::Path;

use lsparse::Fitted;
use lsparse::settings::TopicsConfig;
use lsparse::topics::{ACTIVE_TOPICS, TopicModel};
use lsparse::training::rules::{EVIDENCE, count_empty};
use serde::Serialize;

use super::super::report::{TrainingReport, lap_by_lap};
use crate::format::{grouped, significant};

/// How a training went.
#[derive(Serialize)]
pub struct Report {
    #[serde(flatten)]
    training: TrainingReport,
    documents: usize,
    vocabulary: usize,
    new_words: usize,
    topics: usize,
    sparsity: usize,
    heldout_perplexity: Option<f64>,
    empty_topics: usize,
    /// K at the end of each of the last laps, where it was found.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    topics_by_lap: Vec<usize>,
    /// Whether that is the most that was allowed, where it was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    k_max_reached: Option<bool>,
    /// Mean bound of a token under topics that have not seen it, of the last lap, as the following.
    evidence: Option<f64>,
    active_topics: Option<f64>,
    doc_iterations: Option<f64>,
    restarts_proposed: Option<f64>,
    restarts_accepted: Option<f64>,
    /// The share of Metropolis-Hastings proposals that was accepted.
    proposals_accepted: Option<f64>,
    decaying: bool,
    documents_per_second: f64,
    config: TopicsConfig,
}

impl Report {
    pub fn new(fitted: &Fitted<TopicModel>, new_words: usize, out: Option<&Path>) -> Self {
        let (model, outcome) = (&fitted.model, &fitted.outcome);
        let of_lap = |name: &str| outcome.recent.last().and_then(|lap| lap.get(name));
        let training = TrainingReport::new(&model.training, outcome, fitted.run, &fitted.runs, out);
        Report {
            training: training.calling_clusters("topic"),
            documents: model.training.observations,
            vocabulary: model.vocab_size(),
            new_words,
            topics: model.num_topics(),
            sparsity: model.sparsity(),
            heldout_perplexity: outcome.heldout.map(|score| (-score).exp()),
            empty_topics: count_empty(&model.total.counts),
            topics_by_lap: outcome.recent.iter().filter_map(|lap| lap.get("clusters")).map(|k| k as usize).collect(),
            k_max_reached: model.config.find_k.then(|| model.num_topics() >= model.config.k_max()),
            evidence: of_lap(EVIDENCE),
            active_topics: of_lap(ACTIVE_TOPICS),
            doc_iterations: of_lap("doc_iterations"),
            restarts_proposed: of_lap("restarts_proposed"),
            restarts_accepted: of_lap("restarts_accepted"),
            proposals_accepted: of_lap("proposals_accepted"),
            decaying: fitted.decaying(),
            documents_per_second: outcome.rows_per_second,
            config: model.config.clone(),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.training.write_head(f)?;
        if let (Some(score), Some(perplexity)) = (self.training.heldout, self.heldout_perplexity) {
            let (score, perplexity) = (significant(score, 5), significant(perplexity, 5));
            writeln!(f, "held-out    {score} a token (mean log probability), perplexity {perplexity}")?;
        }
        if let Some(evidence) = self.evidence {
            let (evidence, perplexity) = (significant(evidence, 5), significant((-evidence).exp(), 5));
            writeln!(
                f,
                "evidence    {evidence} a token (bound on its log probability under topics that left it out), perplexity \
                 {perplexity}"
            )?;
        }
        let by_evidence = self.config.leave_out && self.evidence.is_some() && self.training.heldout.is_none();
        self.training.write_runs(f, self.config.best_by, by_evidence)?;
        writeln!(f, "topics      {}, of which {} empty", self.topics, self.empty_topics)?;
        if !self.topics_by_lap.is_empty() {
            let most = self.config.k_max();
            let at_rest = "no split or merge that was tried would explain batches that were left out better, by more than a topic costs";
            let rest = self.training.why_k_rests(self.topics, most, at_rest);
            writeln!(f, "            found lap by lap: {}; {rest}", lap_by_lap(&self.topics_by_lap))?;
        }
        match (self.active_topics, self.doc_iterations) {
            (Some(active), Some(iterations)) => {
                write!(f, "documents   {active:.1} active topics and {iterations:.1} iterations each")?;
                match (self.restarts_proposed, self.restarts_accepted) {
                    (Some(proposed), Some(accepted)) if proposed > 0.0 => {
                        let share = 100.0 * accepted / proposed;
                        writeln!(f, ", {share:.0} % of {} restarts accepted", grouped(proposed as usize))?;
                    }
                    _ => writeln!(f, ", no restarts")?,
                }
            }
            (Some(active), None) => writeln!(f, "documents   {active:.1} topics each")?,
            _ => {}
        }
        if let Some(share) = self.proposals_accepted {
            writeln!(f, "proposals   {:.0} % accepted", 100.0 * share)?;
        }
        self.training.write_tail(f, self.documents_per_second, self.documents, "documents")
    }
}
