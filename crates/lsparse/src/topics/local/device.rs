//! The document step on a GPU: what `SolvedPanel` and `sum_panel` do, for the documents of a whole batch.
//!
//! Documents stay on the GPU from lap to lap where there is room, and else come anew at every visit, part by part. The few
//! that it does not work out (longer than its memory, or of words that say nothing) are worked out here.

use std::collections::HashMap;
use std::sync::Arc;

use lsparse_cuda::Device;
use lsparse_cuda::topics::{
    Alphas, DocumentStep, Documents, Found, MOST_TOPICS, Options, PART_ENTRIES, Packer, Shape, Solved, Table, Warm,
};
use rayon::prelude::*;

use super::{Explained, PanelRequest, SolvedPanel, Visited, sum_panel};
use crate::backend::Trouble;
use crate::data::{Ahead, Batch, DealId, Rows};
use crate::error::Result;
use crate::settings::{Checked, Selection, TopicMethod, TopicsConfig};
use crate::topics::held::{self, Held};
use crate::topics::local::document::{DocumentOptions, Tally};
use crate::topics::local::restart::least_to_empty;
use crate::topics::model::PANEL_DOCUMENTS;
use crate::topics::summary::{Entries, SparseStats, TopicSummary, WordStats, WordsHere};
use crate::topics::table::WordTable;

/// Why a GPU cannot do the document step of these settings.
pub fn cannot(config: &Checked<TopicsConfig>) -> Option<String> {
    if config.method != TopicMethod::Lsparse {
        return Some(format!("`method {}` has no kernel for GPUs", config.method.name()));
    }
    if config.find_k {
        return Some("K is found on the CPU".into());
    }
    cannot_solve(config)
}

/// Why it cannot work documents out under topics that stay as they are, whatever found these.
pub fn cannot_solve(config: &TopicsConfig) -> Option<String> {
    let most = config.max_active.unwrap_or(config.topics).min(config.topics);
    if config.sparsity.within(config.topics) >= config.topics {
        return Some("documents that keep all topics (L = K) have no kernel for GPUs".into());
    }
    if config.selection != Selection::End {
        return Some("there is a kernel for GPUs for `selection end` alone".into());
    }
    (most > MOST_TOPICS).then(|| format!("documents have at most {MOST_TOPICS} topics there (`max-active`)"))
}

/// Bytes of a GPU's memory that the document step takes at least, for this many words, topics and entries.
pub fn bytes_needed(config: &TopicsConfig, vocab_size: usize, entries: usize) -> u64 {
    let (num_topics, start_width) = (config.topics, config.sparsity.within(config.topics));
    let shape = Shape { vocab_size, num_topics, width: num_topics.next_multiple_of(16), start_width };
    // Documents, at least a part of them, and the lists that statistics leave it as.
    shape.bytes() + 8 * entries.min(PART_ENTRIES) as u64 + 8 * (vocab_size * num_topics) as u64 / 2
}

/// Bytes of the GPU's memory that are left free when documents and statistics are kept there.
const LEFT_FREE: u64 = 1 << 30;

/// The document step on a GPU, the room for it, and the documents of batches that are kept there, in parts.
pub struct DeviceStep {
    step: DocumentStep,
    /// Topics that come from the host.
    own: Option<Table>,
    packer: Packer,
    /// Whose batches these are.
    deal: Option<DealId>,
    kept: HashMap<usize, Vec<Documents>>,
}

/// Solve the documents of a batch on a GPU, and add their statistics to `summary`, which has none yet. `request.warm` is of
/// the whole batch. None if the GPU's memory does not suffice; then `summary` and `tally` are worth nothing.
pub fn visit(
    place: &mut Option<DeviceStep>,
    device: &Arc<Device>,
    request: &PanelRequest<'_>,
    batch: &Batch<'_>,
    ahead: &mut Ahead<f32>,
    summary: &mut TopicSummary,
    tally: &mut Tally,
) -> Result<Option<Visited>> {
    let shape = request.table.shape();
    if place.as_ref().is_none_or(|step| !step.fits(device, shape)) {
        // Its memory goes before there is another.
        *place = None;
        *place = Trouble::settle(DeviceStep::new(device, shape).map_err(Trouble::from))?;
    }
    let Some(step) = place else { return Ok(None) };
    step.visit(request, batch, ahead, summary, tally)
}

/// A batch that is visited, and what has come of it so far.
struct Visit<'a> {
    request: &'a PanelRequest<'a>,
    batch: &'a Batch<'a>,
    options: Options,
    alpha_sum: f64,
    summary: &'a mut TopicSummary,
    tally: &'a mut Tally,
    visited: Visited,
    /// Documents of the batch that the GPU has left.
    left: Vec<usize>,
}

impl DeviceStep {
    /// Room for these topics.
    fn new(device: &Arc<Device>, shape: Shape) -> lsparse_cuda::Result<Self> {
        let step = DocumentStep::new(device, shape)?;
        Ok(DeviceStep { step, own: None, packer: Packer::default(), deal: None, kept: HashMap::new() })
    }

    /// Whether the room is that of these topics.
    fn fits(&self, device: &Arc<Device>, shape: Shape) -> bool {
        Arc::ptr_eq(self.step.device(), device) && self.step.shape() == shape
    }

    fn visit(
        &mut self,
        request: &PanelRequest<'_>,
        batch: &Batch<'_>,
        ahead: &mut Ahead<f32>,
        summary: &mut TopicSummary,
        tally: &mut Tally,
    ) -> Result<Option<Visited>> {
        let alpha_sum = request.alpha.iter().map(|&a| f64::from(a)).sum();
        let options = options_of(request.options, request.table.shape().num_topics);
        let (visited, left) = (Visited::default(), Vec::new());
        let mut visit = Visit { request, batch, options, alpha_sum, summary, tally, visited, left };
        match Trouble::settle(self.work(&mut visit, ahead))? {
            Some(()) => visit.finish().map(Some),
            None => Ok(None),
        }
    }

    fn work(&mut self, visit: &mut Visit<'_>, ahead: &mut Ahead<f32>) -> std::result::Result<(), Trouble> {
        let PanelRequest { table, alpha, .. } = *visit.request;
        let DeviceStep { step, own, packer, deal, kept: of_batches } = self;
        set_alphas(step, alpha, visit.alpha_sum)?;
        let table = match table.on(step.device()) {
            Some(table) => table,
            None => {
                let here = table.bring()?;
                let own = match own {
                    Some(own) => own,
                    none => none.insert(Table::new(step.device(), step.shape(), None)?),
                };
                fill(own, here)?;
                &*own
            }
        };
        let Batch { data, number, .. } = *visit.batch;
        if *deal != Some(data.id) {
            of_batches.clear();
            *deal = Some(data.id);
        }
        if let Some(kept) = of_batches.get(&number) {
            return kept.iter().try_for_each(|documents| visit.part(step, table, documents));
        }
        let mut kept = Some(Vec::new());
        packer.clear();
        // Errors of the GPU come out of the reading apart from its own.
        let mut trouble = Ok(());
        let read = ahead.for_each_panel(data, data.batches.panels(number, PANEL_DOCUMENTS), |read| {
            for n in 0..read.rows.len() {
                let (words, counts) = read.rows.sparse_row(n);
                if packer.entries() + words.len() > PART_ENTRIES && trouble.is_ok() {
                    trouble = upload(step, table, packer, visit, &mut kept);
                }
                packer.push(words, counts);
            }
            Ok(())
        });
        read?;
        trouble?;
        upload(step, table, packer, visit, &mut kept)?;
        if let Some(kept) = kept {
            of_batches.insert(number, kept);
        }
        Ok(())
    }
}

/// Bring the documents that are packed onto the GPU and work them out. They are kept there while there is room, all parts
/// of a batch or none.
fn upload(
    step: &mut DocumentStep,
    table: &Table,
    packer: &mut Packer,
    visit: &mut Visit<'_>,
    kept: &mut Option<Vec<Documents>>,
) -> std::result::Result<(), Trouble> {
    if packer.is_empty() {
        return Ok(());
    }
    if step.device().free_memory()? < Documents::bytes_of(packer) + LEFT_FREE {
        *kept = None;
    }
    let documents = Documents::upload(step.device(), step.shape(), packer)?;
    packer.clear();
    visit.part(step, table, &documents)?;
    if let Some(kept) = kept {
        kept.push(documents);
    }
    Ok(())
}

fn options_of(options: &DocumentOptions, num_topics: usize) -> Options {
    Options {
        sparsity: options.sparsity,
        iterations: options.iterations,
        tolerance: options.tolerance,
        active_floor: options.active_floor,
        max_active: options.max_active.unwrap_or(num_topics).min(MOST_TOPICS),
        restarts: options.restarts,
        restart_floor: least_to_empty(options.active_floor),
    }
}

fn set_alphas(step: &mut DocumentStep, alpha: &[f32], alpha_sum: f64) -> lsparse_cuda::Result<()> {
    let mut ln_gamma: Vec<f64> = alpha.iter().map(|&a| f64::from(a)).collect();
    lsparse_kernels::ln_gamma_slice(&mut ln_gamma);
    let sum_ln_gamma = lsparse_kernels::ln_gamma(alpha_sum);
    step.set_alphas(&Alphas { alpha, ln_gamma: &ln_gamma, sum_ln_gamma })
}

/// Bring topics there.
fn fill(table: &mut Table, here: &WordTable) -> lsparse_cuda::Result<()> {
    table.fill(&here.scale, here.starts(), |first, into| copy(&here.values[first..first + into.len()], into))
}

/// Documents under topics that stay as they are, on a GPU.
pub struct Assigner {
    step: DocumentStep,
    table: Table,
    packer: Packer,
    options: Options,
}

/// Topics of a document and their counts; none where the GPU leaves it to the CPU.
pub type Assigned = Option<Vec<(u32, f32)>>;

impl Assigner {
    /// Bring topics there; none where memory does not suffice.
    pub fn new(
        device: &Arc<Device>,
        topics: &WordTable,
        alpha: &[f32],
        options: &DocumentOptions,
    ) -> Result<Option<Self>> {
        let shape = held::shape_of(topics);
        let begin = || -> lsparse_cuda::Result<Self> {
            let mut step = DocumentStep::new(device, shape)?;
            set_alphas(&mut step, alpha, alpha.iter().map(|&a| f64::from(a)).sum())?;
            let mut table = Table::new(device, shape, None)?;
            fill(&mut table, topics)?;
            let options = options_of(options, shape.num_topics);
            Ok(Assigner { step, table, packer: Packer::default(), options })
        };
        Trouble::settle(begin().map_err(Trouble::from))
    }

    /// The topics of some documents; none where memory does not suffice.
    pub fn assign(&mut self, rows: &Rows<f32>) -> Result<Option<Vec<Assigned>>> {
        Trouble::settle(self.solve(rows).map_err(Trouble::from))
    }

    fn solve(&mut self, rows: &Rows<f32>) -> lsparse_cuda::Result<Vec<Assigned>> {
        let Assigner { step, table, packer, options } = self;
        packer.clear();
        for n in 0..rows.len() {
            let (words, counts) = rows.sparse_row(n);
            packer.push(words, counts);
        }
        let documents = Documents::upload(step.device(), step.shape(), packer)?;
        let (_, solved) = step.solve(&documents, table, options, None, true)?;
        let (topic, count) = solved.counts.unwrap_or_default();
        let of = |(d, found): (usize, &Found)| {
            let places = d * MOST_TOPICS..d * MOST_TOPICS + found.active as usize;
            let counts = topic[places.clone()].iter().copied().zip(count[places].iter().copied());
            (found.solved > 0).then(|| counts.collect())
        };
        Ok(solved.found.iter().enumerate().map(of).collect())
    }
}

/// A copy by all threads: the table of many topics is larger than one thread copies in the time that the GPU takes.
fn copy(from: &[f32], to: &mut [f32]) {
    const CHUNK: usize = 1 << 16;
    to.par_chunks_mut(CHUNK).zip(from.par_chunks(CHUNK)).for_each(|(to, from)| to.copy_from_slice(from));
}

impl Visit<'_> {
    /// Work a part of the batch out: the documents that come next.
    fn part(
        &mut self,
        step: &mut DocumentStep,
        table: &Table,
        documents: &Documents,
    ) -> std::result::Result<(), Trouble> {
        let first = self.visited.explained.len();
        let warm = self.request.warm.map(|warm| lists(&warm[first..first + documents.len()]));
        let with_counts = self.request.learn_alpha || self.request.keep_counts;
        let (words, solved) = step.solve(documents, table, &self.options, warm.as_ref(), with_counts)?;
        self.take(solved, &documents.tokens_of);
        let mut words = WordStats::OnDevice(Held::batch(words));
        if step.device().free_memory()? < LEFT_FREE {
            // There is to be room for those of the next.
            words.bring()?;
            words.make_here();
        }
        Ok(add_part(self.summary, words)?)
    }

    /// Take up what documents left, in their order.
    fn take(&mut self, solved: Solved, tokens_of: &[f32]) {
        let Visit { summary, tally, visited, request, .. } = self;
        for (d, (found, &tokens)) in solved.found.iter().zip(tokens_of).enumerate() {
            let mut counts = Vec::new();
            if found.solved == 0 {
                if tokens > 0.0 {
                    self.left.push(visited.explained.len());
                }
                visited.counts.push(counts);
                visited.explained.push(Explained::default());
                continue;
            }
            summary.entropy += found.entropy;
            summary.alloc += found.alloc;
            summary.bound += found.evidence;
            tally.add(&Tally {
                documents: 1,
                iterations: found.iterations.into(),
                active: found.active.into(),
                proposed: found.proposed.into(),
                accepted: found.accepted.into(),
                aside_seconds: 0.0,
            });
            if let Some((topic, count)) = &solved.counts {
                let of_d = d * MOST_TOPICS..d * MOST_TOPICS + found.active as usize;
                counts.extend(topic[of_d.clone()].iter().copied().zip(count[of_d].iter().copied()));
            }
            if request.learn_alpha {
                let TopicSummary { alloc, alpha_total, alpha_topic, alpha_slope, .. } = &mut **summary;
                let term = |term| *alloc += term;
                let add = |k: u32, tables, slope| {
                    alpha_topic[k as usize] += tables;
                    alpha_slope[k as usize] += slope;
                };
                let sizes = (f64::from(tokens), self.alpha_sum);
                *alpha_total += request.say_of_alpha(sizes, counts.iter().copied(), term, add);
            }
            visited.counts.push(counts);
            visited.explained.push(Explained { evidence: found.evidence as f32, tokens });
        }
        summary.documents += solved.found.len() as f64;
        summary.counts.iter_mut().zip(&solved.totals).for_each(|(sum, n)| *sum += n);
    }

    /// Work the documents that were left out here.
    fn finish(mut self) -> Result<Visited> {
        if self.left.is_empty() {
            return Ok(self.visited);
        }
        let Batch { data, number, .. } = *self.batch;
        let ids = data.batches.row_ids(number);
        let mut rows = Rows::sparse(self.request.table.bring()?.vocab_size());
        self.summary.words.bring()?;
        self.left.iter().try_for_each(|&n| data.source.read_f32(ids[n], 1, &mut rows))?;
        let warm: Option<Vec<_>> = self.request.warm.map(|warm| self.left.iter().map(|&n| warm[n].clone()).collect());
        let request = PanelRequest { warm: warm.as_deref(), ..*self.request };
        // They have been counted.
        self.summary.documents -= rows.len() as f64;
        let found = sum_panel(&SolvedPanel::of(&request, &rows), true, self.summary, self.tally);
        for ((n, counts), explained) in self.left.into_iter().zip(found.counts).zip(found.explained) {
            self.visited.counts[n] = counts;
            self.visited.explained[n] = explained;
        }
        Ok(self.visited)
    }
}

/// Counts of documents as a GPU takes them.
fn lists(warm: &[Vec<(u32, f32)>]) -> Warm {
    let mut all = Warm { first: vec![0], ..Warm::default() };
    for counts in warm {
        all.topic.extend(counts.iter().map(|e| e.0));
        all.count.extend(counts.iter().map(|e| e.1));
        all.first.push(all.topic.len() as u32);
    }
    all
}

/// Add what a part gave to the statistics of its batch, which are that if it is the first.
fn add_part(summary: &mut TopicSummary, part: WordStats) -> Result<()> {
    if matches!(&summary.words, WordStats::Batch(stats) if stats.topic.is_empty()) {
        summary.words = part;
        return Ok(());
    }
    if let Some(both) = held::merged(&summary.words, &part)? {
        summary.words = both;
        return Ok(());
    }
    summary.words.bring()?;
    let WordsHere::Batch(SparseStats { indptr, topic, mass }) = part.bring()? else { return Ok(()) };
    let lengths = indptr.windows(2).map(|pair| pair[1] - pair[0]).enumerate();
    let word: Vec<u32> = lengths.flat_map(|(v, length)| std::iter::repeat_n(v as u32, length)).collect();
    summary.words.add_lists(summary.num_topics, &[Entries { word: &word, topic, mass }]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocation::AlphaRule;
    use crate::data::{CsrRows, Dealt, RowSource};
    use crate::topics::Topics;
    use crate::training::model::Model;
    use crate::training::summary::Summary;

    fn checked(change: impl FnOnce(&mut TopicsConfig)) -> Checked<TopicsConfig> {
        let mut config = TopicsConfig { topics: 100, ..Default::default() };
        change(&mut config);
        config.check(50).unwrap()
    }

    #[test]
    fn what_has_no_kernel_is_named() {
        let why = |change: fn(&mut TopicsConfig)| cannot(&checked(change));
        assert_eq!(why(|_| {}), None);
        assert_eq!(why(|c| c.max_active = Some(12)), None);
        assert!(why(|c| c.method = TopicMethod::SparseLda).unwrap().contains("sparse-lda"));
        assert!(why(|c| c.method = TopicMethod::SviGibbs).unwrap().contains("svi-gibbs"));
        assert!(why(|c| c.sparsity = crate::settings::Sparsity::Of(100)).unwrap().contains("L = K"));
        assert!(why(|c| c.selection = Selection::PAPER).unwrap().contains("selection"));
        assert!(why(|c| c.max_active = Some(65)).unwrap().contains("64 topics"));
        assert!(why(|c| c.max_active = None).unwrap().contains("64 topics"));
        // With few topics no document can have more.
        assert_eq!(why(|c| (c.topics, c.max_active) = (64, None)), None);
        let bytes = |entries| bytes_needed(&checked(|_| {}), 1000, entries);
        assert!(bytes(1000) > 1000 * 100 * 12 && bytes(usize::MAX / 16) < 1 << 30);
    }

    /// Twelve documents of three subjects, one of them without words.
    fn corpus() -> CsrRows<f32> {
        let (mut indptr, mut words, mut counts) = (vec![0], Vec::new(), Vec::new());
        for d in 0..12u32 {
            for v in (0..30).filter(|v| d != 5 && (v / 10 == d % 3 || v % (4 + d) == 0)) {
                words.push(v);
                counts.push(1.0 + (v + d) as f32 % 3.0);
            }
            indptr.push(words.len());
        }
        CsrRows::new("three subjects", 30, indptr, words, counts).unwrap()
    }

    /// Documents `range` as a GPU leaves them that solves those that `solves` says.
    fn solved(
        request: &PanelRequest<'_>,
        source: &CsrRows<f32>,
        range: std::ops::Range<usize>,
        solves: impl Fn(usize) -> bool,
    ) -> (WordStats, Solved, Vec<f32>) {
        let topics = request.table.get().num_topics;
        let empty = || TopicSummary::new(topics, WordStats::Batch(SparseStats::empty(30)));
        let (mut all, mut out, mut tokens) = (Rows::sparse(30), Solved::default(), Vec::new());
        let (mut count_topic, mut count_value) = (Vec::new(), Vec::new());
        for d in range {
            let (mut one, mut tally, mut summary) = (Rows::sparse(30), Tally::default(), empty());
            source.read_f32(d, 1, &mut one).unwrap();
            tokens.push(one.sparse_row(0).1.iter().sum());
            let pieces = SolvedPanel::of(&PanelRequest { learn_alpha: false, ..*request }, &one);
            let visited = sum_panel(&pieces, true, &mut summary, &mut tally);
            let mut found = lsparse_cuda::topics::Found::default();
            let mut places = vec![(0, 0.0); MOST_TOPICS];
            if solves(d) && tally.documents > 0 {
                (found.entropy, found.alloc, found.evidence) = (summary.entropy, summary.alloc, summary.bound);
                (found.active, found.iterations) = (tally.active as u32, tally.iterations as u32);
                (found.proposed, found.accepted) = (tally.proposed as u32, tally.accepted as u32);
                found.solved = 1;
                source.read_f32(d, 1, &mut all).unwrap();
                places[..visited.counts[0].len()].copy_from_slice(&visited.counts[0]);
            }
            out.found.push(found);
            count_topic.extend(places.iter().map(|e| e.0));
            count_value.extend(places.iter().map(|e| e.1));
        }
        let mut summary = empty();
        sum_panel(&SolvedPanel::of(request, &all), false, &mut summary, &mut Tally::default());
        (out.totals, out.counts) = (summary.counts, Some((count_topic, count_value)));
        (summary.words, out, tokens)
    }

    #[test]
    fn parts_and_what_is_left_come_to_what_the_cpu_finds() {
        let source = corpus();
        let config = TopicsConfig { topics: 4, learn_alpha: AlphaRule::Symmetric, ..Default::default() };
        let config = TopicsConfig { sparsity: crate::settings::Sparsity::Of(2), ..config }.check(12).unwrap();
        let topics = Topics::new(&config, 30);
        let mut total = topics.empty_batch().into_total();
        let WordStats::Total(stats) = &mut total.words else { unreachable!() };
        *stats = SparseStats::by_word(30, |v, row| row.push(((v / 10) as u32, 5.0 + v as f64)));
        total.counts = vec![95.0, 195.0, 295.0, 0.0];
        let params = topics.global_step(&total, None).unwrap();
        let request = PanelRequest {
            table: &params.table,
            alpha: &params.alpha,
            options: &topics.document,
            warm: None,
            learn_alpha: true,
            keep_counts: true,
            proposals: None,
            entry_of_none: topics.lambda as f32,
            lambda_sum: 30.0 * topics.lambda as f32,
        };
        let (mut rows, mut want, mut want_tally) = (Rows::sparse(30), topics.empty_batch(), Tally::default());
        source.read_f32(0, 12, &mut rows).unwrap();
        let expected = sum_panel(&SolvedPanel::of(&request, &rows), true, &mut want, &mut want_tally);
        let data = Dealt::in_order(&source).unwrap();
        let batch = data.batch(0);
        let (mut summary, mut tally) = (topics.empty_batch(), Tally::default());
        let mut visit = Visit {
            request: &request,
            batch: &batch,
            options: options_of(&topics.document, 4),
            alpha_sum: params.alpha.iter().map(|&a| f64::from(a)).sum(),
            summary: &mut summary,
            tally: &mut tally,
            visited: Visited::default(),
            left: Vec::new(),
        };
        // Two parts, and two documents that the GPU leaves.
        for range in [0..7, 7..12] {
            let (words, part, tokens) = solved(&request, &source, range, |d| d != 3 && d != 9);
            visit.take(part, &tokens);
            add_part(visit.summary, words).unwrap();
        }
        assert_eq!(visit.left, [3, 9]);
        let visited = visit.finish().unwrap();
        assert_eq!((visited.counts.len(), visited.explained.len()), (12, 12));
        assert_eq!(visited.explained, expected.explained);
        assert_eq!(visited.counts, expected.counts);
        assert_eq!(tally, want_tally);
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-5 * (1.0 + b.abs()), "{a} is not {b}");
        for (a, b) in [
            (summary.entropy, want.entropy),
            (summary.alloc, want.alloc),
            (summary.bound, want.bound),
            (summary.documents, want.documents),
            (summary.alpha_total, want.alpha_total),
        ] {
            close(a, b);
        }
        let arrays = |s: &TopicSummary| [s.counts.clone(), s.alpha_topic.clone(), s.alpha_slope.clone()].concat();
        arrays(&summary).into_iter().zip(arrays(&want)).for_each(|(a, b)| close(a, b));
        want.add_scaled(&summary, -1.0);
        assert!(want.total().mass.iter().all(|&m| m.abs() < 1e-4), "statistics differ");
    }

    #[test]
    fn counts_of_earlier_visits_become_lists() {
        let warm = lists(&[vec![(3, 1.5), (7, 2.0)], vec![], vec![(1, 4.0)]]);
        assert_eq!((warm.first, warm.topic, warm.count), (vec![0, 2, 2, 3], vec![3, 7, 1], vec![1.5, 2.0, 4.0]));
    }
}
