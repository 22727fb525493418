//! The local step over a panel of documents: solve each, then add their statistics up word by word.

pub mod device;
pub mod document;
pub mod halves;
mod restart;
mod trial;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::allocation::alpha_bound;
use crate::backend::with_buffers;
use crate::data::Rows;
use crate::topics::growth::Proposals;
use crate::topics::held::TopicTable;
use crate::topics::local::document::{Document, DocumentOptions, Tally, Without};
use crate::topics::local::trial::{TrialPiece, sum_trials};
use crate::topics::summary::{Entries, TopicSummary};
use crate::training::observe::Aside;

/// Documents of a parallel task: long ones take a millisecond for a few.
const DOCUMENTS_A_TASK: usize = 4;

/// Tasks whose sums are taken together. Fixed, so that sums do not depend on the number of threads.
const TASKS_A_SUM: usize = 4;

/// What one task of documents leaves behind.
#[derive(Default)]
pub struct Piece {
    /// Word, topic and mass of every responsibility, token by token.
    word: Vec<u32>,
    topic: Vec<u32>,
    mass: Vec<f32>,
    /// Where each document's entries end.
    entries_end: Vec<usize>,
    /// (topic, count) of each document, one after the other.
    counts: Vec<(u32, f32)>,
    counts_end: Vec<usize>,
    /// Evidence and tokens of each document.
    explained: Vec<Explained>,
    /// Terms of the sums, each in the order that it is to be added in.
    entropy: Vec<f64>,
    alloc: Vec<f64>,
    bound: Vec<f64>,
    alpha_topic: Vec<(u32, f64, f64)>,
    alpha_total: Vec<f64>,
    tally: Tally,
    /// What documents say of proposals, where K is to be found, and how many of them are only listened to.
    trial: TrialPiece,
    only_heard: usize,
}

impl Piece {
    /// Forget what is there, keep the memory.
    fn clear(&mut self) {
        let Piece { word, topic, mass, entries_end, counts, counts_end, explained, .. } = self;
        [word, topic].into_iter().for_each(Vec::clear);
        [entries_end, counts_end].into_iter().for_each(Vec::clear);
        mass.clear();
        counts.clear();
        explained.clear();
        let Piece { entropy, alloc, bound, alpha_topic, alpha_total, tally, .. } = self;
        [entropy, alloc, bound, alpha_total].into_iter().for_each(Vec::clear);
        alpha_topic.clear();
        *tally = Tally::default();
        self.trial.clear();
        self.only_heard = 0;
    }

    /// The entries of each document.
    fn lists(&self) -> impl Iterator<Item = Entries<'_>> {
        let starts = std::iter::once(0).chain(self.entries_end.iter().copied());
        starts.zip(&self.entries_end).map(|(from, &to)| Entries {
            word: &self.word[from..to],
            topic: &self.topic[from..to],
            mass: &self.mass[from..to],
        })
    }
}

/// What documents start from and how their counts are wanted back.
#[derive(Clone, Copy)]
pub struct PanelRequest<'a> {
    /// The topics.
    pub table: &'a TopicTable,
    /// alpha_k.
    pub alpha: &'a [f32],
    /// Settings of the document step.
    pub options: &'a DocumentOptions,
    /// Counts of earlier visits, one list a document, for a warm start.
    pub warm: Option<&'a [Vec<(u32, f32)>]>,
    /// Whether statistics for learning alpha are wanted.
    pub learn_alpha: bool,
    /// Whether anybody wants the counts of documents: bringing them from a GPU takes time.
    pub keep_counts: bool,
    /// What is proposed, where K is to be found.
    pub proposals: Option<&'a Proposals>,
    /// The table's entry of a topic that has none of a word.
    pub entry_of_none: f32,
    /// lambda V.
    pub lambda_sum: f32,
}

impl PanelRequest<'_> {
    /// ln G(alpha) - ln G(N_d + alpha) + sum_k ln G(N_dk + alpha_k) - ln G(alpha_k) of a document with these counts.
    fn allocation_of(&self, document: &mut Document, counts: &[f32]) -> f64 {
        let alpha_sum: f64 = self.alpha.iter().map(|&a| f64::from(a)).sum();
        let tokens: f64 = counts.iter().map(|&c| f64::from(c)).sum();
        document.allocation() + lsparse_kernels::ln_gamma(alpha_sum) - lsparse_kernels::ln_gamma(tokens + alpha_sum)
    }

    /// The bound on its log likelihood.
    fn evidence_of(&self, document: &mut Document, counts: &[f32]) -> f64 {
        let allocation = self.allocation_of(document, counts);
        document.evidence(allocation)
    }

    /// A document without a topic, whose heir has the words of both.
    fn solve_without(&self, document: &mut Document, (topic, heir): (u32, u32), words: (&[u32], &[f32])) {
        let without = Without { topic, heir, entry: self.entry_of_none, room: self.lambda_sum };
        document.solve_without(without, (self.table.get(), self.alpha), words, self.options);
    }

    /// What a document of so many tokens and these counts says of alpha, given the sum of alphas: (topic, tables, slope) to
    /// `add`, and its share in `alpha_total`. Terms to `alloc` leave what the rest of the bound does not say of it.
    fn say_of_alpha(
        &self,
        (tokens, alpha_sum): (f64, f64),
        counts: impl Iterator<Item = (u32, f32)>,
        mut alloc: impl FnMut(f64),
        mut add: impl FnMut(u32, f64, f64),
    ) -> f64 {
        let psi = lsparse_kernels::digamma;
        let total = psi(tokens + alpha_sum) - psi(alpha_sum);
        alloc(total * alpha_sum);
        for (k, count) in counts {
            let a = f64::from(self.alpha[k as usize]);
            let (tables, slope) = alpha_bound(f64::from(count), a);
            add(k, tables, slope);
            alloc(-(tables * a.ln() - slope * a));
        }
        total
    }
}

/// How well a document was explained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Explained {
    /// The bound on its log likelihood under the topics it was solved with.
    pub evidence: f32,
    /// Its length.
    pub tokens: f32,
}

/// What documents leave behind besides statistics.
#[derive(Default)]
pub struct Visited {
    /// (topic, count) of each document.
    pub counts: Vec<Vec<(u32, f32)>>,
    /// How well each was explained.
    pub explained: Vec<Explained>,
}

/// What the documents of a panel left behind, task by task. Its memory serves panel after panel.
#[derive(Default)]
pub struct SolvedPanel {
    pieces: Vec<Piece>,
    /// How many of the pieces the panel has.
    used: usize,
}

impl SolvedPanel {
    /// Solve the documents of a panel, in memory of its own.
    pub fn of(request: &PanelRequest<'_>, rows: &Rows<f32>) -> Self {
        let mut panel = SolvedPanel::default();
        panel.solve(request, rows);
        panel
    }

    /// Solve the documents of a panel.
    pub fn solve(&mut self, request: &PanelRequest<'_>, rows: &Rows<f32>) {
        self.used = rows.len().div_ceil(DOCUMENTS_A_TASK);
        if self.pieces.len() < self.used {
            self.pieces.resize_with(self.used, Piece::default);
        }
        self.pieces[..self.used].par_iter_mut().enumerate().with_max_len(1).for_each(|(task, piece)| {
            let range = task * DOCUMENTS_A_TASK..((task + 1) * DOCUMENTS_A_TASK).min(rows.len());
            with_buffers(|document| solve_range(request, document, rows, range, piece));
        });
    }

    fn pieces(&self) -> &[Piece] {
        &self.pieces[..self.used]
    }

    /// Whether there is nothing in it to sum.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// What it held was summed.
    pub fn clear(&mut self) {
        self.used = 0;
    }
}

/// Add the statistics of documents that were solved to `summary`. Their counts are given back where `wants_counts`.
pub fn sum_panel(solved: &SolvedPanel, wants_counts: bool, summary: &mut TopicSummary, tally: &mut Tally) -> Visited {
    let (mut visited, pieces) = (Visited::default(), solved.pieces());
    if let Some(trial) = &mut summary.trial {
        let mut aside = Aside::begin();
        aside.work(|| sum_trials(pieces.iter().map(|piece| &piece.trial), trial));
        tally.aside_seconds += aside.seconds();
    }
    for pieces in pieces.chunks(TASKS_A_SUM) {
        let sum = |of: fn(&Piece) -> &[f64]| pieces.iter().flat_map(of).fold(0.0, |sum, term| sum + term);
        summary.entropy += sum(|piece| &piece.entropy);
        summary.alloc += sum(|piece| &piece.alloc);
        summary.bound += sum(|piece| &piece.bound);
        summary.alpha_total += sum(|piece| &piece.alpha_total);
    }
    for piece in pieces {
        for &(k, tables, slope) in &piece.alpha_topic {
            summary.alpha_topic[k as usize] += tables;
            summary.alpha_slope[k as usize] += slope;
        }
        piece.counts.iter().for_each(|&(k, n)| summary.counts[k as usize] += f64::from(n));
        tally.add(&piece.tally);
        let mut start = 0;
        for &end in piece.counts_end.iter().filter(|_| wants_counts) {
            visited.counts.push(piece.counts[start..end].to_vec());
            start = end;
        }
        visited.explained.extend_from_slice(&piece.explained);
        summary.documents += (piece.counts_end.len() - piece.only_heard) as f64;
    }
    let lists: Vec<Entries<'_>> = pieces.iter().flat_map(Piece::lists).collect();
    summary.words.add_lists(summary.num_topics, &lists);
    visited
}

fn solve_range(
    request: &PanelRequest<'_>,
    document: &mut Document,
    rows: &Rows<f32>,
    range: std::ops::Range<usize>,
    piece: &mut Piece,
) {
    piece.clear();
    let before = document.tally();
    let mut aside = request.proposals.map(|proposals| (proposals, Aside::begin()));
    let alpha_sum: f64 = request.alpha.iter().map(|&a| f64::from(a)).sum();
    for n in range {
        let (words, counts) = rows.sparse_row(n);
        let tokens: f64 = counts.iter().map(|&c| f64::from(c)).sum();
        if words.is_empty() || tokens <= 0.0 {
            piece.counts_end.push(piece.counts.len());
            piece.explained.push(Explained::default());
            continue;
        }
        let start = request.warm.map(|warm| warm[n].as_slice());
        document.solve(request.table.get(), request.alpha, words, counts, request.options, start);
        if let Some((proposals, aside)) = aside.as_mut().filter(|(proposals, _)| proposals.concentration.asks(n)) {
            aside.work(|| piece.trial.complete(proposals, request, (words, counts)));
        }
        if let Some((proposals, aside)) = aside.as_mut().filter(|(proposals, _)| proposals.only_listens_to(n)) {
            aside.work(|| {
                let evidence = request.evidence_of(document, counts);
                piece.trial.hear(proposals, request, (document, evidence), (words, counts));
            });
            piece.only_heard += 1;
            piece.counts_end.push(piece.counts.len());
            piece.explained.push(Explained::default());
            continue;
        }
        for (u, (&v, &c)) in words.iter().zip(counts).enumerate() {
            for (k, r) in document.responsibilities(u) {
                if r > 0.0 {
                    piece.word.push(v);
                    piece.topic.push(k);
                    piece.mass.push(c * r);
                }
            }
        }
        piece.entries_end.push(piece.word.len());
        piece.entropy.push(document.entropy(words.len()));
        let alloc = request.allocation_of(document, counts);
        piece.alloc.push(alloc);
        let evidence = document.evidence(alloc);
        piece.bound.push(evidence);
        piece.explained.push(Explained { evidence: evidence as f32, tokens: tokens as f32 });
        if request.learn_alpha {
            let Piece { alloc, alpha_total, alpha_topic, trial, .. } = piece;
            let add = |k, tables, slope| {
                alpha_topic.push((k, tables, slope));
                if request.proposals.is_some() {
                    trial.add_tokens(k, tables * tokens);
                }
            };
            let term = |term| alloc.push(term);
            alpha_total.push(request.say_of_alpha((tokens, alpha_sum), document.topic_counts(), term, add));
        }
        if let Some((proposals, aside)) = &mut aside {
            let entropy = piece.entropy.last().copied().unwrap_or_default();
            aside.work(|| piece.trial.add(proposals, request, (document, entropy, evidence), (words, counts)));
        }
        piece.counts.extend(document.topic_counts());
        piece.counts_end.push(piece.counts.len());
    }
    piece.tally = difference(&document.tally(), &before);
    piece.tally.aside_seconds += aside.map_or(0.0, |(_, aside)| aside.seconds());
}

fn difference(after: &Tally, before: &Tally) -> Tally {
    Tally {
        documents: after.documents - before.documents,
        iterations: after.iterations - before.iterations,
        active: after.active - before.active,
        proposed: after.proposed - before.proposed,
        accepted: after.accepted - before.accepted,
        aside_seconds: after.aside_seconds - before.aside_seconds,
    }
}
