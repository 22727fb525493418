//! Topics: the fast document step against a plain one and against enumeration, restarts, recovery, and repeatability.

use std::sync::Arc;

use lsparse::allocation::AlphaRule;
use lsparse::backend::with_threads;
use lsparse::data::{Batches, CsrRows, Dealt, RowSource};
use lsparse::runs::Family;
use lsparse::settings::{Selection, TopicsConfig};
use lsparse::topics::score::{CompletionOptions, completion, held_out};
use lsparse::topics::{
    Document, DocumentMemory, DocumentOptions, Explained, SparseStats, Tally, TopicFamily, TopicInputs, TopicModel,
    TopicSummary, Topics, WordTable, fit_topics, fit_topics_with, initial_topics, random_topics,
};
use lsparse::training::model::Model;
use lsparse::training::rules::{EVIDENCE, StopReason};
use lsparse::training::schedule::ScheduleKind;
use lsparse::training::summary::Summary;
use lsparse::{Beside, Estimate, Sparsity};
use lsparse_kernels::{digamma, ln_gamma};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A planted corpus: each topic likes its own stretch of the vocabulary, each document a few topics.
struct PlantedCorpus {
    rows: CsrRows<f32>,
    topics: Vec<Vec<f64>>,
}

fn planted_corpus(documents: usize, length: usize, num_topics: usize, vocab: usize, seed: u64) -> PlantedCorpus {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let own = vocab / num_topics;
    let topics: Vec<Vec<f64>> = (0..num_topics)
        .map(|k| {
            let weight = |v: usize| if v / own == k { 10.0 / (1.0 + (v % own) as f64) } else { 0.02 };
            let raw: Vec<f64> = (0..vocab).map(weight).collect();
            let sum: f64 = raw.iter().sum();
            raw.iter().map(|w| w / sum).collect()
        })
        .collect();
    let draw = |p: &[f64], rng: &mut ChaCha8Rng| {
        let mut left: f64 = rng.random();
        p.iter().position(|q| {
            left -= q;
            left <= 0.0
        })
    };
    let (mut indptr, mut index, mut value) = (vec![0], Vec::new(), Vec::new());
    for _ in 0..documents {
        let mine = [rng.random_range(0..num_topics), rng.random_range(0..num_topics)];
        let share: f64 = rng.random();
        let mut counts = vec![0.0f32; vocab];
        for _ in 0..length {
            let k = mine[usize::from(rng.random::<f64>() < share)];
            counts[draw(&topics[k], &mut rng).unwrap_or(vocab - 1)] += 1.0;
        }
        for (v, &c) in counts.iter().enumerate().filter(|(_, c)| **c > 0.0) {
            index.push(v as u32);
            value.push(c);
        }
        indptr.push(index.len());
    }
    PlantedCorpus { rows: CsrRows::new("planted", vocab, indptr, index, value).unwrap(), topics }
}

fn table_of(topics: &[Vec<f64>], start_width: usize) -> WordTable {
    let fill = |v: usize, out: &mut [f32]| out.iter_mut().zip(topics).for_each(|(o, t)| *o = t[v] as f32);
    WordTable::new(topics[0].len(), topics.len(), start_width, fill)
}

fn random_topics_table(num: usize, vocab: usize, seed: u64) -> Vec<Vec<f64>> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let draw = |rng: &mut ChaCha8Rng| -> Vec<f64> {
        let raw: Vec<f64> = (0..vocab).map(|_| rng.random::<f64>().powi(4) + 1e-3).collect();
        let sum: f64 = raw.iter().sum();
        raw.iter().map(|v| v / sum).collect()
    };
    (0..num).map(|_| draw(&mut rng)).collect()
}

/// Alg. 2 of the paper, plainly: responsibilities held in full, logarithms and exponentials wherever they are written.
/// Every token keeps its `sparsity` largest topics; topics at the floor leave for good.
fn plain_document(
    topics: &[Vec<f64>],
    alpha: f64,
    words: &[u32],
    counts: &[f32],
    sparsity: usize,
    floor: f64,
    iterations: usize,
) -> (Vec<Vec<f64>>, Vec<f64>) {
    let num = topics.len();
    let top = |weights: &[f64], active: &[bool]| -> Vec<f64> {
        let mut order: Vec<usize> = (0..num).filter(|&k| active[k]).collect();
        order.sort_by(|&a, &b| weights[b].total_cmp(&weights[a]).then(a.cmp(&b)));
        order.truncate(sparsity);
        let max = weights[order[0]];
        let mut r = vec![0.0; num];
        order.iter().for_each(|&k| r[k] = (weights[k] - max).exp());
        let sum: f64 = r.iter().sum();
        r.iter().map(|v| v / sum).collect()
    };
    let count = |resp: &[Vec<f64>]| -> Vec<f64> {
        (0..num).map(|k| resp.iter().zip(counts).map(|(r, &c)| f64::from(c) * r[k]).sum()).collect()
    };
    let log_phi = |k: usize, v: u32| topics[k][v as usize].ln();
    let mut active = vec![true; num];
    let start: Vec<Vec<f64>> =
        words.iter().map(|&v| top(&(0..num).map(|k| log_phi(k, v)).collect::<Vec<_>>(), &active)).collect();
    let mut doc = count(&start);
    (0..num).for_each(|k| active[k] = doc[k] > floor);
    let mut resp = start;
    for _ in 0..iterations {
        let prior: Vec<f64> = doc.iter().map(|n| digamma(n + alpha / num as f64)).collect();
        resp = words
            .iter()
            .map(|&v| top(&(0..num).map(|k| log_phi(k, v) + prior[k]).collect::<Vec<_>>(), &active))
            .collect();
        doc = count(&resp);
        (0..num).for_each(|k| active[k] = active[k] && doc[k] > floor);
    }
    (resp, doc)
}

/// The document's part of the objective, from its definition: `E[log p(x, z | phi)]` + `E[log p(z, pi)/q(z, pi)]`.
fn document_objective(topics: &[Vec<f64>], alpha: f64, words: &[u32], counts: &[f32], resp: &[Vec<f64>]) -> f64 {
    let num = topics.len();
    let a = alpha / num as f64;
    let mut value = 0.0;
    let mut doc = vec![0.0; num];
    for ((&v, &c), r) in words.iter().zip(counts).zip(resp) {
        for k in (0..num).filter(|&k| r[k] > 0.0) {
            value += f64::from(c) * r[k] * (topics[k][v as usize].ln() - r[k].ln());
            doc[k] += f64::from(c) * r[k];
        }
    }
    let total: f64 = doc.iter().sum();
    value + ln_gamma(alpha) - ln_gamma(total + alpha) + doc.iter().map(|n| ln_gamma(n + a) - ln_gamma(a)).sum::<f64>()
}

/// The responsibilities of a solved document in full.
fn full_responsibilities(document: &Document, num_words: usize, num_topics: usize) -> Vec<Vec<f64>> {
    (0..num_words)
        .map(|u| {
            let mut row = vec![0.0; num_topics];
            document.responsibilities(u).for_each(|(k, r)| row[k as usize] = f64::from(r));
            row
        })
        .collect()
}

fn some_document(vocab: usize, types: usize, seed: u64) -> (Vec<u32>, Vec<f32>) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut words: Vec<u32> = (0..vocab as u32).collect();
    while words.len() > types {
        words.remove(rng.random_range(0..words.len()));
    }
    let counts = words.iter().map(|_| rng.random_range(1..5) as f32).collect();
    (words, counts)
}

#[test]
fn the_fast_document_step_matches_the_plain_one() {
    let (num, vocab, alpha) = (12, 60, 0.7);
    for seed in 0..20 {
        let topics = random_topics_table(num, vocab, seed);
        let (words, counts) = some_document(vocab, 25, seed + 100);
        let alphas = vec![(alpha / num as f64) as f32; num];
        for (sparsity, floor, selection) in
            [(num, 0.0, Selection::End), (3, 0.05, Selection::ALWAYS), (1, 0.05, Selection::ALWAYS)]
        {
            let table = table_of(&topics, sparsity);
            // Far past convergence, so that both rest at the same point.
            let options = DocumentOptions {
                sparsity,
                iterations: 300,
                tolerance: 0.0,
                active_floor: floor,
                max_active: None,
                selection,
                restarts: 0,
            };
            let mut document = Document::default();
            document.solve(&table, &alphas, &words, &counts, &options, None);
            let fast = full_responsibilities(&document, words.len(), num);
            let (plain, _) = plain_document(&topics, alpha, &words, &counts, sparsity, f64::from(floor), 300);
            let (a, b) = (
                document_objective(&topics, alpha, &words, &counts, &fast),
                document_objective(&topics, alpha, &words, &counts, &plain),
            );
            assert!((a - b).abs() < 1e-3 * b.abs(), "L = {sparsity}, seed {seed}: {a} against {b}");
        }
    }
}

/// With two topics and a handful of tokens the evidence can be summed over all assignments: the bound stays below it,
/// and the dense step comes close.
#[test]
fn the_bound_is_below_the_evidence_by_enumeration() {
    let (num, alpha) = (2usize, 1.0);
    for seed in 0..10 {
        let topics = random_topics_table(num, 6, seed);
        let words = [0u32, 2, 3, 5];
        let counts = [2.0f32, 1.0, 3.0, 1.0];
        let tokens: Vec<u32> = words.iter().zip(counts).flat_map(|(&v, c)| vec![v; c as usize]).collect();
        let a = alpha / num as f64;
        let mut evidence = 0.0;
        for assignment in 0..num.pow(tokens.len() as u32) {
            let z: Vec<usize> = (0..tokens.len()).map(|i| assignment / num.pow(i as u32) % num).collect();
            let mut urn = vec![a; num];
            let mut p = 1.0;
            for (&v, &k) in tokens.iter().zip(&z) {
                p *= urn[k] / urn.iter().sum::<f64>() * topics[k][v as usize];
                urn[k] += 1.0;
            }
            evidence += p;
        }
        let table = table_of(&topics, 0);
        let mut document = Document::default();
        let options = DocumentOptions { iterations: 200, tolerance: 0.0, ..DocumentOptions::dense(num) };
        document.solve(&table, &[a as f32; 2], &words, &counts, &options, None);
        let resp = full_responsibilities(&document, words.len(), num);
        let bound = document_objective(&topics, alpha, &words, &counts, &resp);
        assert!(bound <= evidence.ln() + 1e-5, "{bound} above {}", evidence.ln());
        assert!(bound > evidence.ln() - 1.5, "{bound} far below {}", evidence.ln());
    }
}

#[test]
fn the_terms_of_a_document_are_those_of_the_definition() {
    let (num, alpha) = (8, 0.9);
    let topics = random_topics_table(num, 40, 3);
    let (words, counts) = some_document(40, 20, 4);
    let table = table_of(&topics, 4);
    let options = DocumentOptions {
        sparsity: 4,
        iterations: 20,
        tolerance: 0.0,
        active_floor: 0.01,
        max_active: None,
        selection: Selection::End,
        restarts: 3,
    };
    let mut document = Document::default();
    document.solve(&table, &vec![(alpha / num as f64) as f32; num], &words, &counts, &options, None);
    let resp = full_responsibilities(&document, words.len(), num);
    let entropy: f64 = resp
        .iter()
        .zip(&counts)
        .map(|(r, &c)| -f64::from(c) * r.iter().filter(|v| **v > 0.0).map(|v| v * v.ln()).sum::<f64>())
        .sum();
    assert!((document.entropy(words.len()) - entropy).abs() < 1e-4);
    let a = alpha / num as f64;
    let mut doc = vec![0.0; num];
    resp.iter().zip(&counts).for_each(|(r, &c)| (0..num).for_each(|k| doc[k] += f64::from(c) * r[k]));
    let allocation: f64 = doc.iter().map(|n| ln_gamma(n + a) - ln_gamma(a)).sum();
    assert!((document.allocation() - allocation).abs() < 1e-3, "{} {allocation}", document.allocation());
    for (k, n) in document.topic_counts() {
        assert!((f64::from(n) - doc[k as usize]).abs() < 1e-4);
    }
    // The allocation term of the whole document, and what the definition of the bound gives.
    let tokens: f64 = counts.iter().map(|&c| f64::from(c)).sum();
    let whole = allocation + ln_gamma(alpha) - ln_gamma(tokens + alpha);
    let expected = document_objective(&topics, alpha, &words, &counts, &resp);
    let evidence = document.evidence(whole);
    assert!((evidence - expected).abs() < 1e-3, "{evidence} for {expected}");
}

#[test]
fn the_schedule_of_selection_reads_and_writes_as_text() {
    for (text, selection) in [
        ("end", Selection::End),
        ("paper", Selection::Schedule { first: 5, every: 10 }),
        ("always", Selection::ALWAYS),
        ("3,20", Selection::Schedule { first: 3, every: 20 }),
    ] {
        assert_eq!(text.parse(), Ok(selection));
        assert_eq!(selection.to_string(), text);
        let config: TopicsConfig = serde_json::from_str(&format!("{{\"selection\": \"{text}\"}}")).unwrap();
        assert_eq!(config.selection, selection);
    }
    for text in ["", "5", "0,10", "5,0", "5,10,15", "sometimes"] {
        assert!(text.parse::<Selection>().is_err(), "{text:?}");
    }
}

/// Restarts are accepted only when the bound rises, so with every topic shared (no truncation at the end) the objective
/// is never lower than without.
#[test]
fn restarts_never_lower_a_documents_objective() {
    let (num, alpha) = (10, 0.5);
    let mut accepted = 0;
    for seed in 0..60 {
        let topics = random_topics_table(num, 50, seed);
        let (words, counts) = some_document(50, 12, seed + 7);
        let table = table_of(&topics, num);
        let value = |restarts: usize, accepted: &mut u64| {
            let options = DocumentOptions { restarts, iterations: 400, tolerance: 0.0, ..DocumentOptions::dense(num) };
            let mut document = Document::default();
            document.solve(&table, &vec![(alpha / num as f64) as f32; num], &words, &counts, &options, None);
            *accepted += document.tally().accepted;
            let resp = full_responsibilities(&document, words.len(), num);
            document_objective(&topics, alpha, &words, &counts, &resp)
        };
        let (without, with) = (value(0, &mut accepted), value(5, &mut accepted));
        assert!(with >= without - 1e-3, "seed {seed}: {without} fell to {with}");
    }
    assert!(accepted > 0, "no proposal was ever accepted");
}

/// A dense document holds all topics, most of them with nothing; restarts are about the others.
#[test]
fn restarts_are_accepted_in_dense_documents_of_many_topics() {
    let (num, alpha) = (300, 0.5);
    let (mut tally, mut better) = (Tally::default(), 0);
    for seed in 0..20 {
        let topics = random_topics_table(num, 50, seed);
        let (words, counts) = some_document(50, 12, seed + 7);
        let table = table_of(&topics, num);
        let mut value = |restarts: usize| {
            let options = DocumentOptions { restarts, iterations: 100, tolerance: 0.0, ..DocumentOptions::dense(num) };
            let mut document = Document::default();
            document.solve(&table, &vec![(alpha / num as f64) as f32; num], &words, &counts, &options, None);
            tally.add(&document.tally());
            let resp = full_responsibilities(&document, words.len(), num);
            document_objective(&topics, alpha, &words, &counts, &resp)
        };
        let (without, with) = (value(0), value(5));
        assert!(with >= without - 1e-3, "seed {seed}: {without} fell to {with}");
        better += usize::from(with > without + 0.1);
    }
    assert!(tally.accepted > 0 && better > 0, "{tally:?}, better in {better} documents");
}

#[test]
fn each_topic_of_a_document_is_proposed_once_at_most() {
    let num = 30;
    let topics = random_topics_table(num, 200, 3);
    let table = table_of(&topics, num);
    let proposed = |restarts: usize| {
        let (words, counts) = some_document(200, 60, 4);
        let options = DocumentOptions { restarts, iterations: 2, ..DocumentOptions::dense(num) };
        let mut document = Document::default();
        document.solve(&table, &vec![0.1; num], &words, &counts, &options, None);
        document.tally().proposed
    };
    assert_eq!((proposed(0), proposed(3)), (0, 3));
    assert!((4..=num as u64).contains(&proposed(1000)));
}

fn matched_share(found: &TopicModel, truth: &[Vec<f64>]) -> f64 {
    let distance = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| (x - y).abs()).sum::<f64>() / 2.0;
    let topics: Vec<Vec<f64>> = (0..found.num_topics()).map(|k| found.topic(k)).collect();
    let near = |t: &Vec<f64>| topics.iter().map(|f| distance(f, t)).fold(f64::INFINITY, f64::min) < 0.2;
    truth.iter().filter(|t| near(t)).count() as f64 / truth.len() as f64
}

#[test]
fn planted_topics_are_found_again_under_every_schedule_and_estimate() {
    let corpus = planted_corpus(600, 80, 8, 160, 1);
    for schedule in [ScheduleKind::Full, ScheduleKind::Memoized, ScheduleKind::Stochastic, ScheduleKind::Streaming] {
        for estimate in [Estimate::Map, Estimate::Posterior] {
            let config = TopicsConfig {
                topics: 8,
                sparsity: Sparsity::Of(4),
                schedule,
                estimate,
                batches: if schedule == ScheduleKind::Full { Some(1) } else { Some(6) },
                laps: Some(15),
                runs: 3,
                ..Default::default()
            };
            let fitted = fit_topics(&corpus.rows, &config).unwrap();
            let share = matched_share(&fitted.model, &corpus.topics);
            // One pass over the data finds most of them, several passes nearly all.
            let enough = if schedule == ScheduleKind::Streaming { 0.7 } else { 0.8 };
            assert!(share >= enough, "{schedule:?} {estimate:?}: {share}");
            assert!(fitted.outcome.objective.total().is_finite());
        }
    }
}

/// Short documents, cold start: without restarts the score decays lap by lap, with them it does not.
#[test]
fn restarts_cure_the_decay_of_cold_starts_on_short_documents() {
    let corpus = planted_corpus(3000, 12, 20, 400, 5);
    let test = planted_corpus(300, 12, 20, 400, 6);
    let curve = |restarts: usize| {
        let config = TopicsConfig {
            topics: 40,
            sparsity: Sparsity::Of(8),
            restarts,
            laps: Some(8),
            tolerance: None,
            batches: Some(4),
            leave_out: false,
            ..Default::default()
        };
        let mut scores = Vec::new();
        struct Scores<'a>(&'a mut Vec<f64>);
        impl lsparse::training::observe::Observer for Scores<'_> {
            fn step(&mut self, info: &lsparse::training::trace::StepInfo) -> lsparse::Result<()> {
                self.0.extend(info.heldout);
                Ok(())
            }
        }
        let mut watch = Scores(&mut scores);
        let inputs = TopicInputs { heldout: Some(&test.rows), ..Default::default() };
        let beside = Beside { observer: Some(&mut watch), ..Default::default() };
        let decaying = fit_topics_with(&corpus.rows, &config, inputs, beside).unwrap().decaying();
        (scores, decaying)
    };
    let ((without, decaying), (with, still_decaying)) = (curve(0), curve(5));
    assert!(decaying, "the run should say that it gets worse: {without:?}");
    assert!(!still_decaying, "{with:?}");
    let (first, last) = (without[0], *without.last().unwrap());
    assert!(last < first, "without restarts the score should fall: {without:?}");
    assert!(*with.last().unwrap() > last + 0.01, "restarts should hold the score: {with:?} against {without:?}");
}

/// Ten words of two topics each: documents that are solved under topics that hold their own counts convince themselves.
#[test]
fn batches_that_are_left_out_keep_documents_from_convincing_themselves() {
    let (corpus, test) = (planted_corpus(600, 10, 20, 400, 7), planted_corpus(300, 10, 20, 400, 8));
    let score = |leave_out: bool| {
        let config = TopicsConfig { topics: 40, laps: Some(10), tolerance: None, leave_out, ..Default::default() };
        let inputs = TopicInputs { heldout: Some(&test.rows), ..Default::default() };
        let fitted = fit_topics_with(&corpus.rows, &config, inputs, Beside::default()).unwrap();
        (fitted.outcome.heldout.unwrap(), fitted.outcome.recent)
    };
    let ((with, laps), (without, plain)) = (score(true), score(false));
    assert!(with > without + 0.03, "{with} left out, {without} not");
    // From the second lap on there is evidence, and it foretells the held-out score; else there is none.
    let evidence: Vec<Option<f64>> = laps.iter().map(|lap| lap.get(EVIDENCE)).collect();
    assert!(evidence[0].is_none() && evidence[1..].iter().all(Option::is_some), "{evidence:?}");
    assert!(plain.iter().all(|lap| lap.get(EVIDENCE).is_none()));
    assert!(evidence[9] > evidence[1] && (evidence[9].unwrap() - with).abs() < 1.0, "{evidence:?} {with}");
}

/// With nothing held out the run is kept whose topics hold best for documents that they have not seen.
#[test]
fn runs_that_leave_batches_out_are_compared_by_evidence() {
    struct Laps(Vec<Vec<(f64, f64)>>);
    impl lsparse::training::observe::Observer for Laps {
        fn step(&mut self, info: &lsparse::training::trace::StepInfo) -> lsparse::Result<()> {
            self.0.resize(info.run + 1, Vec::new());
            if let Some(evidence) = info.report.iter().find(|note| note.0 == EVIDENCE) {
                self.0[info.run].push((*evidence.1, info.objective.unwrap().total()));
            }
            Ok(())
        }
    }
    let corpus = planted_corpus(150, 12, 10, 200, 7);
    let mut disagreed = false;
    for seed in 0..12 {
        let config = TopicsConfig { topics: 20, laps: Some(4), tolerance: None, runs: 4, seed, ..Default::default() };
        let mut laps = Laps(Vec::new());
        let beside = Beside { observer: Some(&mut laps), ..Default::default() };
        let fitted = fit_topics_with(&corpus.rows, &config, TopicInputs::default(), beside).unwrap();
        let best = |of: fn(&(f64, f64)) -> f64| {
            let last = |run: &usize| of(laps.0[*run].last().unwrap());
            (0..4usize).max_by(|a, b| last(a).total_cmp(&last(b))).unwrap()
        };
        assert_eq!(fitted.run, best(|lap| lap.0));
        disagreed |= best(|lap| lap.0) != best(|lap| lap.1);
    }
    assert!(disagreed, "objective and evidence chose the same runs: the test says nothing");
    let config = TopicsConfig { best_by: lsparse::BestBy::Heldout, ..Default::default() };
    let error = fit_topics(&corpus.rows, &config).err().unwrap();
    assert!(error.to_string().contains("no held-out documents"), "{error}");
}

#[test]
fn a_run_rests_when_the_evidence_does() {
    let corpus = planted_corpus(600, 60, 8, 160, 1);
    let fit = |tolerance: f64| {
        let config = TopicsConfig { topics: 8, laps: Some(100), tolerance: Some(tolerance), ..Default::default() };
        fit_topics(&corpus.rows, &config).unwrap()
    };
    let fitted = fit(1e-3);
    let laps = &fitted.outcome.recent;
    let gains: Vec<f64> =
        laps[1..].windows(2).map(|l| l[1].get(EVIDENCE).unwrap() - l[0].get(EVIDENCE).unwrap()).collect();
    assert_eq!(fitted.outcome.reason, StopReason::Gain(*gains.last().unwrap()));
    assert!(gains.last().is_some_and(|&gain| gain < 1e-3) && laps.len() < 40, "{gains:?}");
    assert!(fit(1e-5).model.training.laps >= laps.len());
}

/// More topics than there are subjects: some lose everything, and are lent what is explained worst for a lap.
#[test]
fn lost_topics_are_lent_badly_explained_documents() {
    let corpus = planted_corpus(400, 40, 10, 200, 2);
    let topics = six_topics(Estimate::Map);
    let topics = Topics { vocab_size: 200, ..topics };
    let data = Dealt::new(&corpus.rows, Batches::new(400, 4, 0).unwrap());
    let topics = Topics { lends: true, ..topics };
    let total = random_topics(&topics, &corpus.rows, &mut ChaCha8Rng::seed_from_u64(1)).unwrap();
    let mut explained = vec![Vec::new(); 4];
    let lend = |explained: &[Vec<Explained>], total: &TopicSummary, laps| {
        let memory = |batch: usize| {
            let explained = explained[batch].clone();
            Ok(Arc::new(DocumentMemory { explained, ..Default::default() }))
        };
        topics.lend(&data, &memory, total, laps).unwrap()
    };
    assert!(lend(&explained, &total, 1).is_none(), "no topic is lost");
    let mut lost = total.clone();
    (lost.counts[2], lost.counts[5]) = (0.0, 0.5);
    assert!(lend(&explained, &lost, 1).is_none(), "nothing is known of documents");
    let of_document =
        |n: usize| Explained { evidence: if n.is_multiple_of(10) { -400.0 } else { -200.0 }, tokens: 40.0 };
    for (batch, explained) in explained.iter_mut().enumerate() {
        *explained = data.batches.row_ids(batch).into_iter().map(of_document).collect();
    }
    let loan = lend(&explained, &lost, 1).unwrap();
    let lent: Vec<bool> = loan.counts.iter().map(|&n| n > 0.0).collect();
    assert_eq!(lent, [false, false, true, false, false, true]);
    // Ten documents a topic, of those that are explained worse than the rest, each of forty words.
    assert_eq!(loan.counts.iter().sum::<f64>(), 2.0 * 10.0 * 40.0);
    let of_word = |v: usize| loan.total().dense_word(v, 6).iter().sum::<f64>();
    assert!(((0..200).map(of_word).sum::<f64>() - 800.0).abs() < 1e-6);
    assert!(lend(&explained, &lost, 100).is_none(), "in the end lost topics stay lost");
}

#[test]
fn the_same_seed_gives_the_same_bits_at_any_number_of_threads() {
    let corpus = planted_corpus(400, 40, 10, 200, 2);
    let config = TopicsConfig { topics: 12, batches: Some(3), laps: Some(3), ..Default::default() };
    let run = |threads| with_threads(threads, || fit_topics(&corpus.rows, &config).unwrap().model).unwrap();
    let one = run(1);
    for threads in [2, 4, 8] {
        let other = run(threads);
        assert!(other.total == one.total && other.table.values == one.table.values, "{threads} threads");
    }
}

fn six_topics(estimate: Estimate) -> Topics {
    Topics {
        num_topics: 6,
        vocab_size: 120,
        estimate,
        alpha: 0.5,
        alpha_rule: AlphaRule::Fixed,
        lambda: 0.1,
        document: DocumentOptions::of(&TopicsConfig { topics: 6, sparsity: Sparsity::Of(3), ..Default::default() }),
        start_width: 3,
        pull: None,
        warm_start: false,
        lends: false,
        sampling: None,
        device: None,
        gamma: None,
        finding: None,
    }
}

/// A table that follows the statistics entry by entry is the one made from nothing, whatever came and went before.
#[test]
fn updating_in_place_gives_what_a_global_step_from_nothing_gives() {
    let corpus = planted_corpus(200, 30, 6, 120, 23);
    for estimate in [Estimate::Map, Estimate::Posterior] {
        for pulled in [false, true] {
            let mut topics = six_topics(estimate);
            if pulled {
                let pull = |v: usize, row: &mut Vec<(u32, f32)>| {
                    row.extend(v.is_multiple_of(7).then_some(((v % 6) as u32, 2.5)))
                };
                topics.pull = Some(SparseStats::by_word(120, pull));
            }
            let mut rng = ChaCha8Rng::seed_from_u64(1);
            let mut total = initial_topics(&topics, &corpus.rows, 1, &mut rng, Default::default()).unwrap();
            let mut params = topics.global_step(&total, None).unwrap();
            let data = Dealt::new(&corpus.rows, Batches::new(200, 4, 3).unwrap());
            let visit = |b| topics.local(&params, &data.batch(b), &Default::default(), &mut topics.worker()).unwrap();
            let memos: Vec<TopicSummary> = (0..4).map(|b| visit(b).summary).collect();
            // Add everything, start over, add some, take one away again.
            for (batch, factor) in [(0, 1.0), (1, 1.0), (2, 0.0), (2, 1.0), (3, 1.0), (2, -1.0)] {
                if factor == 0.0 {
                    total.scale(0.0);
                } else {
                    total.add_scaled(&memos[batch], factor);
                }
                topics.update(&mut params, &total).unwrap();
                let fresh = topics.global_step(&total, None).unwrap();
                let (table, of_fresh) = (params.table.get(), fresh.table.get());
                assert!(table.values == of_fresh.values && table.scale == of_fresh.scale);
                assert!((0..120).all(|v| table.start(v) == of_fresh.start(v)));
                let objective = |p| topics.objective(p, &total);
                assert_eq!(objective(&params), objective(&fresh));
                // And it is what its definition says, word by word and topic by topic.
                let dense: Vec<Vec<f64>> = (0..120).map(|v| total.total().dense_word(v, 6)).collect();
                let pull = |v: usize, k: usize| if pulled && v.is_multiple_of(7) && v % 6 == k { 2.5 } else { 0.0 };
                for k in 0..6 {
                    let sum: f64 = (0..120).map(|v| dense[v][k] + 0.1 + pull(v, k)).sum();
                    for v in 0..120 {
                        let count = dense[v][k] + 0.1 + pull(v, k);
                        let expected = match estimate {
                            Estimate::Posterior => (digamma(count) - digamma(sum)).exp(),
                            _ => count / sum,
                        };
                        let found = f64::from(of_fresh.row(v)[k]) * f64::from(of_fresh.scale[k]);
                        assert!((found - expected).abs() < 1e-5 * expected, "{found} for {expected}");
                    }
                }
            }
        }
    }
}

/// Documents in another order within a batch: the same sums but for rounding.
#[test]
fn the_order_of_documents_in_a_batch_changes_rounding_only() {
    let corpus = planted_corpus(200, 50, 6, 120, 8);
    let topics = six_topics(Estimate::Map);
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let start = initial_topics(&topics, &corpus.rows, 1, &mut rng, Default::default()).unwrap();
    let params = topics.global_step(&start, None).unwrap();
    let mut reversed = lsparse::data::Rows::<f32>::sparse(120);
    let mut rows = lsparse::data::Rows::<f32>::sparse(120);
    corpus.rows.read_f32(0, 200, &mut rows).unwrap();
    let order: Vec<u32> = (0..200).rev().collect();
    rows.gather_into(&order, &mut reversed);
    let (indptr, index, value) = reversed.as_sparse().unwrap();
    let backwards = CsrRows::new("backwards", 120, indptr.to_vec(), index.to_vec(), value.to_vec()).unwrap();
    let sums = |source: &dyn RowSource| {
        let data = Dealt::in_order(source).unwrap();
        let visited = topics.local(&params, &data.batch(0), &Default::default(), &mut topics.worker());
        visited.unwrap().summary.into_total()
    };
    let (a, b) = (sums(&corpus.rows), sums(&backwards));
    for v in 0..120 {
        for (x, y) in a.total().dense_word(v, 6).iter().zip(b.total().dense_word(v, 6)) {
            assert!((x - y).abs() < 1e-4 * x.max(1.0), "{x} and {y}");
        }
    }
    assert!((a.entropy - b.entropy).abs() < 1e-6 * a.entropy.abs());
}

/// One document, two topics, worked out by hand: the seen word belongs to topic 0 alone.
#[test]
fn completion_of_a_hand_computed_document() {
    let topics = vec![vec![0.5, 0.5, 0.0], vec![0.0, 0.2, 0.8]];
    let table = table_of(&topics, 0);
    let options = CompletionOptions { share: 0.5, ..Default::default() };
    let held = held_out(2, 0, &options);
    assert_eq!(held.iter().filter(|h| **h).count(), 1);
    let seen = if held[0] { 1 } else { 0 };
    // Words 0 and 2, three tokens each; whichever is seen pins its topic down.
    let corpus = CsrRows::new("one", 3, vec![0, 2], vec![0, 2], vec![3.0f32, 3.0]).unwrap();
    let found = completion(&table, &[0.25, 0.25], &corpus, &options, &lsparse::backend::Place::default()).unwrap();
    // N = 3 for the seen word's topic: pi = (3.25, 0.25)/3.5, and the other word has only the other topic.
    let other = if seen == 0 { 0.8 } else { 0.5 };
    let expected = (0.25f64 / 3.5 * other).ln();
    assert!((found.score() - expected).abs() < 1e-5, "{} against {expected}", found.score());
    assert_eq!((found.tokens, found.documents), (3.0, 1));
}

#[test]
fn models_come_back_from_their_files_and_go_on_with_new_words() {
    let corpus = planted_corpus(200, 40, 5, 100, 3);
    let vocab: Vec<String> = (0..100).map(|v| format!("word{v}")).collect();
    let config = TopicsConfig { topics: 5, laps: Some(3), ..Default::default() };
    let inputs = || TopicInputs { vocab: Some(&vocab), ..Default::default() };
    let model = fit_topics_with(&corpus.rows, &config, inputs(), Beside::default()).unwrap().model;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.safetensors");
    model.save_to(&path).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let back = TopicModel::load(&path).unwrap();
    assert!(back.total == model.total && back.vocab == model.vocab && back.alpha == model.alpha);
    assert!(back.table.values == model.table.values);
    back.save_to(&path).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), bytes);

    // Another vocabulary: word 3 is gone, one word is new.
    let mut words = vocab.clone();
    words[3] = "new".into();
    let moved = back.with_vocab(&words);
    let more = fit_topics_with(
        &corpus.rows,
        &TopicsConfig { laps: Some(2), history: lsparse::History::Keep, ..config },
        TopicInputs { vocab: Some(&words), start: Some(&moved), ..Default::default() },
        Beside::default(),
    )
    .unwrap();
    assert_eq!(more.model.vocab[3], "new");
    let before: f64 = moved.total.counts.iter().sum();
    let after: f64 = more.model.total.counts.iter().sum();
    let fresh: f64 = model.total.counts.iter().sum();
    assert!((after - before - fresh).abs() < 1e-3 * after, "history stays: {before} + {fresh} is not {after}");
    assert_eq!(more.model.training.observations, 2 * model.training.observations);
}

#[test]
fn seed_words_pull_their_topic() {
    let corpus = planted_corpus(300, 60, 6, 120, 9);
    let lists = vec![vec![40u32, 41], vec![80u32, 81]];
    let config = TopicsConfig { topics: 6, laps: Some(8), ..Default::default() };
    let inputs = TopicInputs { seed_words: &lists, ..Default::default() };
    let model = fit_topics_with(&corpus.rows, &config, inputs, Beside::default()).unwrap().model;
    for (k, list) in lists.iter().enumerate() {
        let top: Vec<u32> = model.top_words(k, 5).iter().map(|w| w.0).collect();
        assert!(list.iter().all(|v| top.contains(v)), "topic {k} has {top:?}");
    }
}

/// Seed words are part of the prior: a model from a file has the topics that training had, and goes on with them.
#[test]
fn seed_words_pull_on_after_training() {
    let corpus = planted_corpus(200, 40, 6, 120, 9);
    let lists = vec![vec![40u32, 41, 119], vec![80u32, 81]];
    for estimate in [Estimate::Map, Estimate::Posterior] {
        let config = TopicsConfig { topics: 6, laps: Some(3), estimate, seed_weight: 20.0, ..Default::default() };
        let inputs = TopicInputs { seed_words: &lists, ..Default::default() };
        let family = TopicFamily::new(&corpus.rows, &config, inputs.clone()).unwrap();
        let trained = fit_topics_with(&corpus.rows, &config, inputs, Beside::default()).unwrap().model;
        let model = TopicModel::from_bytes("m".as_ref(), &trained.to_bytes().unwrap()).unwrap();
        assert_eq!(model.pull, trained.pull);
        let pull = model.pull.clone().unwrap();
        // Topics of documents are those that a step of training would give.
        let topics = Topics { pull: model.pull.clone(), warm_start: true, ..family.model(0) };
        let params = topics.global_step(&model.total, None).unwrap();
        let data = Dealt::in_order(&corpus.rows).unwrap();
        let visited = topics.local(&params, &data.batch(0), &Default::default(), &mut topics.worker()).unwrap();
        let mut most = 0.0f32;
        model
            .assign(&corpus.rows, &mut |n, shares| {
                for &(k, share) in shares {
                    let counts = &visited.memory.warm[n];
                    let expected = counts.iter().find(|c| c.0 == k).map_or(0.0, |c| c.1 / 40.0);
                    most = most.max((share - expected).abs());
                }
                Ok(())
            })
            .unwrap();
        assert!(most < 1e-3, "{estimate:?}: shares differ by {most}");
        // So do models with other words, and after a step on new documents.
        let mut words = model.vocab.clone();
        words.insert(0, "new".into());
        let moved = model.with_vocab(&words);
        assert_eq!(moved.pull.as_ref().unwrap().word(41), pull.word(40));
        let gap = (0..6).flat_map(|k| (0..120).map(move |v| (k, v)));
        let gap = gap.map(|(k, v)| (moved.table.row(v + 1)[k] - model.table.row(v)[k]).abs()).fold(0.0, f32::max);
        assert!(gap < 1e-3, "{estimate:?}: a new word changed the others by {gap}");
        let more = model.update(&corpus.rows, lsparse::increment::Increment::Add).unwrap();
        assert_eq!(more.pull, model.pull);
        let before = model.table.row(119)[0];
        assert!(more.table.row(119)[0] > 0.3 * before, "{estimate:?}: the pull of a seed word was lost");
        // A run that goes on from it has its seed words too.
        let inputs = TopicInputs { start: Some(&model), ..Default::default() };
        let on = fit_topics_with(&corpus.rows, &config, inputs, Beside::default()).unwrap().model;
        assert_eq!(on.pull, model.pull);
    }
}

#[test]
fn alpha_is_learned() {
    let corpus = planted_corpus(400, 60, 6, 120, 9);
    for rule in [AlphaRule::Symmetric, AlphaRule::Asymmetric, AlphaRule::Direction, AlphaRule::Stick] {
        let config =
            TopicsConfig { topics: 6, laps: Some(10), learn_alpha: rule, tolerance: None, ..Default::default() };
        let model = fit_topics(&corpus.rows, &config).unwrap().model;
        assert!(model.alpha.iter().all(|a| a.is_finite() && *a > 0.0));
        let different = rule != AlphaRule::Symmetric;
        assert_eq!(model.alpha.iter().any(|a| *a != model.alpha[0]), different, "{rule:?}");
        let moved = (model.alpha.iter().sum::<f32>() - 0.5).abs();
        // What is left of a stick after six topics is next to nothing.
        let keeps = matches!(rule, AlphaRule::Direction | AlphaRule::Stick);
        assert_eq!(moved > 1e-3, !keeps, "{rule:?}: alpha moved by {moved}");
    }
}

/// What is memoized bounds the documents' allocation term under any alphas, and is it under their own.
#[test]
fn the_allocation_term_is_bounded_under_any_alphas() {
    let corpus = planted_corpus(50, 30, 4, 40, 3);
    let config = TopicsConfig { topics: 6, learn_alpha: AlphaRule::Asymmetric, warm_start: true, ..Default::default() };
    let family = TopicFamily::new(&corpus.rows, &config, TopicInputs::default()).unwrap();
    let (topics, mut rng) = (family.model(0), ChaCha8Rng::seed_from_u64(1));
    let first = random_topics(&topics, &corpus.rows, &mut rng).unwrap();
    let mut params = topics.global_step(&first, None).unwrap();
    let draw = |rng: &mut ChaCha8Rng| (0..6).map(|_| (rng.random::<f32>() * 6.0 - 5.0).exp()).collect::<Vec<f32>>();
    let data = Dealt::in_order(&corpus.rows).unwrap();
    for _ in 0..20 {
        params.alpha = draw(&mut rng);
        let mut worker = topics.worker();
        let visited = topics.local(&params, &data.batch(0), &Default::default(), &mut worker).unwrap();
        let term = |alpha: &[f32]| -> f64 {
            let sum: f64 = alpha.iter().map(|&a| f64::from(a)).sum();
            let of_document = |counts: &Vec<(u32, f32)>| {
                let of_topic = |&(k, n): &(u32, f32)| {
                    let a = f64::from(alpha[k as usize]);
                    ln_gamma(f64::from(n) + a) - ln_gamma(a)
                };
                ln_gamma(sum) - ln_gamma(30.0 + sum) + counts.iter().map(of_topic).sum::<f64>()
            };
            visited.memory.warm.iter().map(of_document).sum()
        };
        let total = visited.summary.clone().into_total();
        let at_own = topics.objective(&params, &total).alloc;
        assert!((at_own - term(&params.alpha)).abs() < 1e-3, "{at_own} against {}", term(&params.alpha));
        for _ in 0..10 {
            params.alpha = draw(&mut rng);
            let (bound, exact) = (topics.objective(&params, &total).alloc, term(&params.alpha));
            assert!(bound <= exact + 1e-3, "{bound} is above {exact}");
        }
        // The global step's alphas are the best for it.
        let best = topics.global_step(&total, Some(&params)).unwrap();
        let highest = topics.objective(&best, &total).alloc;
        for _ in 0..10 {
            params.alpha = best.alpha.iter().map(|a| a * (1.0 + 0.1 * rng.random::<f32>() - 0.05)).collect();
            assert!(topics.objective(&params, &total).alloc <= highest + 1e-9);
        }
    }
}

/// Batches that were worked out under different alphas add up: no step lowers the objective, and training rests where
/// full batches do.
#[test]
fn learned_alpha_rests_where_full_batches_rest() {
    let corpus = planted_corpus(300, 40, 5, 100, 4);
    for learn_alpha in [AlphaRule::Symmetric, AlphaRule::Asymmetric, AlphaRule::Direction, AlphaRule::Stick] {
        let run = |schedule: ScheduleKind| {
            let config = TopicsConfig {
                topics: 10,
                sparsity: Sparsity::Of(10),
                learn_alpha,
                schedule,
                batches: Some(6),
                leave_out: false,
                warm_start: true,
                restarts: 0,
                doc_iterations: 30,
                seed: 2,
                ..Default::default()
            };
            let family = TopicFamily::new(&corpus.rows, &config, TopicInputs::default()).unwrap();
            let mut session = family.session(0).unwrap();
            let mut worker = session.worker();
            let mut before = f64::NEG_INFINITY;
            while session.progress().laps < 60 {
                let info = session.step(&mut worker).unwrap();
                // In the first lap the start stands in for batches not seen yet.
                if session.progress().laps < 1 {
                    continue;
                }
                let now = info.objective.unwrap().total();
                assert!(now >= before - 1e-6 * before.abs(), "{learn_alpha:?} {schedule:?}: {before} fell to {now}");
                before = now;
            }
            (session.params().alpha.clone(), before)
        };
        let ((full, bound), (memoized, same)) = (run(ScheduleKind::Full), run(ScheduleKind::Memoized));
        assert!((bound - same).abs() < 5e-3 * bound.abs(), "{learn_alpha:?}: {bound} and {same}");
        let sum = |alpha: &[f32]| alpha.iter().sum::<f32>();
        assert!((sum(&full) / sum(&memoized) - 1.0).abs() < 0.1, "{learn_alpha:?}: {full:?} and {memoized:?}");
    }
}

#[test]
fn more_topics_than_memory_holds_are_refused() {
    let corpus = planted_corpus(20, 10, 2, 40, 1);
    let error = fit_topics(&corpus.rows, &TopicsConfig { topics: usize::MAX, ..Default::default() }).err().unwrap();
    assert!(error.to_string().contains("GB of memory"), "{error}");
}

#[test]
fn empty_documents_and_unseen_words_are_no_errors() {
    let corpus = CsrRows::new("odd", 6, vec![0, 0, 2, 3, 3], vec![0, 1, 1], vec![1.0f32, 2.0, 1.0]).unwrap();
    let config = TopicsConfig { topics: 2, ..Default::default() };
    let model = fit_topics(&corpus, &config).unwrap().model;
    let mut seen = Vec::new();
    model
        .assign(&corpus, &mut |n, shares| {
            seen.push((n, shares.len()));
            Ok(())
        })
        .unwrap();
    assert_eq!(seen.len(), 4);
    assert_eq!((seen[0].1, seen[3].1), (0, 0));
    // More topics than documents train too.
    assert!(fit_topics(&corpus, &TopicsConfig { topics: 9, ..Default::default() }).is_ok());
}
