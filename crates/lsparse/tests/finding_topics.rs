//! Finding the number of topics: planted ones are found from too few and from too many, and a run is the same run at any
//! number of threads, resumed, and with what batches gave in a file.

use std::sync::Arc;
use std::time::Duration;

use lsparse::allocation::AlphaRule;
use lsparse::backend::with_threads;
use lsparse::data::CsrRows;
use lsparse::runs::Family;
use lsparse::settings::{History, TopicInit, TopicMethod, TopicsConfig};
use lsparse::store::checkpoint::{Checkpointing, Storage};
use lsparse::topics::growth::judge::leave_out_objective;
use lsparse::topics::growth::moves;
use lsparse::topics::{TopicFamily, TopicInputs, TopicModel, TopicSummary, fit_topics, fit_topics_with};
use lsparse::training::exchange::{Remote, fold, hand_out};
use lsparse::training::model::Model;
use lsparse::training::moves::MoveKind;
use lsparse::training::rules::Patience;
use lsparse::training::summary::Summary;
use lsparse::{Beside, ScheduleKind};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const TRUTH: usize = 8;

fn planted(documents: usize, seed: u64) -> CsrRows<f32> {
    planted_topics(TRUTH, documents, seed)
}

/// Documents of one to three topics each; a topic has thirty words of its own by rank, and a tenth of its tokens anywhere.
fn planted_topics(truth: usize, documents: usize, seed: u64) -> CsrRows<f32> {
    const WORDS: usize = 30;
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let (mut indptr, mut words, mut counts) = (vec![0], Vec::new(), Vec::new());
    for _ in 0..documents {
        let topics: Vec<usize> = (0..rng.random_range(1..=3)).map(|_| rng.random_range(0..truth)).collect();
        let mut of_word = vec![0.0f32; truth * WORDS];
        for _ in 0..80 {
            let topic = topics[rng.random_range(0..topics.len())];
            // The square of a number between 0 and 1 is small more often than not.
            let rank = (rng.random::<f64>().powi(2) * WORDS as f64) as usize;
            let anywhere = rng.random::<f64>() < 0.1;
            of_word[if anywhere { rng.random_range(0..truth * WORDS) } else { topic * WORDS + rank }] += 1.0;
        }
        for (v, &count) in of_word.iter().enumerate().filter(|(_, count)| **count > 0.0) {
            words.push(v as u32);
            counts.push(count);
        }
        indptr.push(words.len());
    }
    CsrRows::new("planted", truth * WORDS, indptr, words, counts).unwrap()
}

fn config(start: usize, seed: u64) -> TopicsConfig {
    TopicsConfig { find_k: true, k_start: Some(start), laps: Some(60), seed, ..Default::default() }
}

/// The number of topics that was found, each planted one of which has its words in one of them.
fn found(truth: usize, rows: &CsrRows<f32>, start: usize, seed: u64) -> usize {
    let fitted = fit_topics(rows, &config(start, seed)).unwrap();
    let (model, num) = (&fitted.model, fitted.model.num_topics());
    assert_eq!((model.config.topics, model.alpha.len()), (num, num));
    let mut planted: Vec<usize> = (0..num).map(|k| model.top_words(k, 1)[0].0 as usize / 30).collect();
    planted.sort_unstable();
    planted.dedup();
    assert_eq!(planted, (0..truth).collect::<Vec<_>>(), "{num} from {start}, seed {seed}");
    num
}

#[test]
fn planted_topics_are_found_from_few_and_from_many() {
    for seed in 0..3 {
        let rows = planted(500, seed);
        assert_eq!(found(TRUTH, &rows, 1, seed), TRUTH, "seed {seed}");
        assert_eq!(found(TRUTH, &rows, 5 * TRUTH, seed), TRUTH, "seed {seed}");
    }
}

/// Documents as latent Dirichlet allocation has them: each mixes several of the topics, which share their words.
fn allocated(truth: usize, (documents, length, alpha): (usize, usize, f64), seed: u64) -> CsrRows<f32> {
    let (vocab, mut rng) = (30 * truth, ChaCha8Rng::seed_from_u64(seed));
    // A draw from the gamma of alpha is one from that of alpha + 1, about an exponential, and a power of a uniform one.
    let dirichlet = |num: usize, alpha: f64, rng: &mut ChaCha8Rng| -> Vec<f64> {
        let weights: Vec<f64> =
            (0..num).map(|_| -rng.random::<f64>().ln() * rng.random::<f64>().powf(1.0 / alpha)).collect();
        let sum: f64 = weights.iter().sum();
        weights.into_iter().map(|weight| weight / sum).collect()
    };
    let draw = |shares: &[f64], rng: &mut ChaCha8Rng| {
        let mut left = rng.random::<f64>();
        shares
            .iter()
            .position(|share| {
                left -= share;
                left < 0.0
            })
            .unwrap_or(shares.len() - 1)
    };
    let topics: Vec<Vec<f64>> = (0..truth).map(|_| dirichlet(vocab, 0.05, &mut rng)).collect();
    let (mut indptr, mut words, mut counts) = (vec![0], Vec::new(), Vec::new());
    for _ in 0..documents {
        let shares = dirichlet(truth, alpha, &mut rng);
        let mut of_word = vec![0.0f32; vocab];
        for _ in 0..length {
            let topic = draw(&shares, &mut rng);
            of_word[draw(&topics[topic], &mut rng)] += 1.0;
        }
        for (v, &count) in of_word.iter().enumerate().filter(|(_, count)| **count > 0.0) {
            words.push(v as u32);
            counts.push(count);
        }
        indptr.push(words.len());
    }
    CsrRows::new("allocated", vocab, indptr, words, counts).unwrap()
}

/// Where documents mix topics, what is alike in some of them by chance is no topic.
#[test]
fn topics_that_documents_mix_are_found_from_few_and_from_many() {
    let seeds = if std::env::var_os("LSPARSE_LONG").is_none() { 0..1 } else { 0..10 };
    for seed in seeds {
        let rows = allocated(12, (1000, 80, 0.1), seed);
        for start in [1, 60] {
            let config = TopicsConfig { laps: Some(100), ..config(start, seed) };
            assert_eq!(fit_topics(&rows, &config).unwrap().model.num_topics(), 12, "seed {seed} from {start}");
        }
    }
}

/// Where documents have nearly all topics, they come down from too many to what is there and not to one topic, and how much
/// documents mix is learned from half a token.
#[test]
fn topics_that_all_documents_have_stay() {
    let rows = allocated(10, (1000, 80, 1.0), 3);
    let fixed = TopicsConfig { topics: 20, seed: 3, ..Default::default() };
    let start = fit_topics(&rows, &fixed).unwrap().model;
    let again = TopicsConfig { k_start: None, ..config(1, 3) };
    let inputs = TopicInputs { start: Some(&start), ..Default::default() };
    for model in [
        fit_topics_with(&rows, &again, inputs, Beside::default()).unwrap().model,
        fit_topics(&rows, &config(50, 3)).unwrap().model,
    ] {
        let alpha: f32 = model.alpha.iter().sum();
        assert!((8..=12).contains(&model.num_topics()) && alpha > 2.0, "{} topics, alpha {alpha}", model.num_topics());
    }
}

/// Ten seeds of 10, 20 and 50 topics, from one and from five times the truth: exactly, all of them.
#[test]
fn planted_topics_of_all_sizes_are_found() {
    if std::env::var_os("LSPARSE_LONG").is_none() {
        return;
    }
    for truth in [10, 20, 50] {
        for seed in 0..10 {
            let rows = planted_topics(truth, 60 * truth, seed);
            for start in [1, 5 * truth] {
                assert_eq!(found(truth, &rows, start, seed), truth, "seed {seed} from {start}");
            }
        }
    }
}

/// Twice as many topics as were planted, trained at that K, come down to those planted without training.
#[test]
fn topics_that_can_be_spared_go() {
    for seed in 0..2 {
        let rows = planted(500, seed);
        let config = TopicsConfig { topics: 2 * TRUTH, seed, ..Default::default() };
        let model = fit_topics(&rows, &config).unwrap().model;
        let fewer = model.fewer(&rows).unwrap();
        assert_eq!((fewer.model.num_topics(), fewer.made.len()), (TRUTH, TRUTH), "seed {seed}");
        let mut planted: Vec<u32> = (0..TRUTH).map(|k| fewer.model.top_words(k, 1)[0].0 / 30).collect();
        planted.sort_unstable();
        assert_eq!(planted, (0..TRUTH as u32).collect::<Vec<_>>());
        let again = with_threads(3, || model.fewer(&rows).unwrap()).unwrap();
        assert!(again.model.to_bytes().unwrap() == fewer.model.to_bytes().unwrap());
        assert_eq!((again.suggestions, again.made), (fewer.suggestions, fewer.made));
    }
}

/// What changes claim to gain is what the objective, worked out from nothing, has gained: splits from few topics, topics
/// given up from many.
#[test]
fn gains_are_those_of_the_objective_from_nothing() {
    let rows = planted(500, 7);
    let mut kinds = Vec::new();
    for (start, cost) in [(1, 10.0), (40, 10.0), (40, 0.0)] {
        let config = TopicsConfig { topic_cost: Some(cost), ..config(start, 2) };
        let family = TopicFamily::new(&rows, &config, TopicInputs::default()).unwrap();
        let data = family.deal(0).unwrap();
        let mut topics = family.model(0);
        let mut params = family.start(&mut topics, &data, 0, Patience::default()).unwrap().params;
        let mut worker = topics.worker();
        for _ in 0..8 {
            let visit = |batch: usize, worker: &mut _| {
                Arc::new(topics.local(&params, &data.batch(batch), &Default::default(), worker).unwrap().summary)
            };
            let memos: Vec<_> = (0..data.batches.num_batches()).map(|batch| visit(batch, &mut worker)).collect();
            let sum = |memos: &[Arc<TopicSummary>]| {
                let mut total = TopicSummary::clone(&memos[0]).into_total();
                memos[1..].iter().for_each(|memo| total.add_scaled(memo, 1.0));
                total
            };
            let total = sum(&memos);
            topics.update(&mut params, &total).unwrap();
            let before = leave_out_objective(&topics, &total, &memos);
            let concentration = topics.alpha;
            let changes = moves(&mut topics, &mut params, &total, &memos).unwrap().unwrap();
            let Some(plan) = changes.remap else { continue };
            let mut after = memos.clone();
            after.iter_mut().for_each(|memo| Arc::make_mut(memo).remap(&plan));
            let total = sum(&after);
            let carried = topics.carried(&params);
            params = topics.restore(&total, carried).unwrap().unwrap();
            assert_eq!(topics.num_topics, plan.clusters.len());
            // Documents have settled besides, by what they predict, how much they mix: another objective from now on.
            let learned = std::mem::replace(&mut topics.alpha, concentration);
            let now = leave_out_objective(&topics, &total, &after);
            topics.alpha = learned;
            let gained = changes.moves.iter().map(|change| change.gain).sum::<f64>() - changes.promised;
            // (What is remembered of batches is in single precision.)
            assert!(
                (now - before - gained).abs() < 1e-6 * before.abs(),
                "{before} to {now}, said {gained} by {:?}",
                changes.moves
            );
            assert!(changes.moves.iter().all(|change| change.gain > -1e-6));
            // Nothing is lost: the tokens of the documents are all there.
            let tokens = |memos: &[Arc<TopicSummary>]| memos.iter().flat_map(|memo| &memo.counts).sum::<f64>();
            assert!((tokens(&after) / tokens(&memos) - 1.0).abs() < 1e-5);
            kinds.extend(changes.moves.iter().map(|change| change.kind));
        }
    }
    assert!([MoveKind::Birth, MoveKind::Delete].iter().all(|kind| kinds.contains(kind)), "{kinds:?}");
}

/// A run of many laps in which K changes several times.
fn long_run() -> (CsrRows<f32>, TopicsConfig) {
    let config = TopicsConfig { batches: Some(4), laps: Some(9), tolerance: None, ..config(3, 4) };
    (planted(300, 4), config)
}

#[test]
fn a_run_is_the_same_at_any_number_of_threads() {
    let (rows, config) = long_run();
    let run = || fit_topics(&rows, &config).unwrap().model.to_bytes().unwrap();
    let one = with_threads(1, run).unwrap();
    for threads in [2, 3] {
        assert!(with_threads(threads, run).unwrap() == one, "{threads} threads");
    }
}

#[test]
fn a_run_that_is_resumed_anywhere_or_spills_is_the_same_run() {
    let (rows, config) = long_run();
    let whole = fit_topics(&rows, &config).unwrap().model.to_bytes().unwrap();
    for memo_memory in [None, Some(0)] {
        for laps in [1, 2, 4, 5, 8] {
            let folder = tempfile::tempdir().unwrap();
            let run = |laps: usize, resume: bool| {
                let path = folder.path().join("run.ckpt");
                let checkpoint = Checkpointing { every: Duration::ZERO, resume, ..Checkpointing::new(path) };
                let storage = Storage { checkpoint: Some(checkpoint), memo_memory };
                let config = TopicsConfig { laps: Some(laps), ..config.clone() };
                let beside = Beside { storage, ..Beside::default() };
                fit_topics_with(&rows, &config, TopicInputs::default(), beside).unwrap().model.to_bytes().unwrap()
            };
            run(laps, false);
            assert!(run(9, true) == whole, "resumed after {laps} laps, {memo_memory:?}");
        }
    }
}

/// Batches that are worked out by somebody who has nothing but bytes, with a model that knows of the first K alone.
#[test]
fn batches_may_be_worked_out_elsewhere() {
    let (rows, config) = long_run();
    let family = TopicFamily::new(&rows, &config, TopicInputs::default()).unwrap();
    let (mut here, mut there) = (family.session(0).unwrap(), family.session(0).unwrap());
    let mut worker = here.worker();
    let mut remote = Remote::new(family.model(0), family.deal(0).unwrap());
    for _ in 0..24 {
        here.step(&mut worker).unwrap();
        let round = hand_out(&mut there, 1).unwrap();
        let done: Vec<Vec<u8>> =
            round.tickets.iter().map(|ticket| remote.summarize(&round.params, ticket).unwrap()).collect();
        fold(&mut there, &done).unwrap();
    }
    assert!(here.model().num_topics > 3);
    assert_eq!(here.total(), there.total());
}

#[test]
fn documents_that_say_little_and_limits() {
    // All documents equal, and documents of one word.
    for words in [vec![0, 1, 2], vec![1]] {
        let (length, documents) = (words.len(), 60);
        let indptr = (0..=documents).map(|n| n * length).collect();
        let rows = CsrRows::new("same", 3, indptr, words.repeat(documents), vec![2.0f32; length * documents]).unwrap();
        assert_eq!(fit_topics(&rows, &config(5, 0)).unwrap().model.num_topics(), 1, "{length} words");
    }
    // With one document there is nothing to leave out, and nothing to judge more topics by.
    let one = CsrRows::new("one word", 3, vec![0, 1], vec![1], vec![1.0f32]).unwrap();
    let model = fit_topics(&one, &TopicsConfig { k_start: None, ..config(1, 0) }).unwrap().model;
    assert_eq!((model.num_topics(), model.config.find_k), (1, false));
    // Most documents have no words, so that batches have nothing.
    let indptr = (0..=40).map(|n| usize::from(n > 20) + usize::from(n > 30)).collect();
    let few = CsrRows::new("two words", 3, indptr, vec![1, 2], vec![4.0f32; 2]).unwrap();
    assert_eq!(fit_topics(&few, &config(3, 0)).unwrap().model.num_topics(), 1);
    let rows = planted(300, 2);
    let model = fit_topics(&rows, &TopicsConfig { k_max: Some(4), ..config(2, 0) }).unwrap().model;
    assert_eq!((model.num_topics(), model.config.topics), (4, 4));
    // On from there with K as it is, and from there to where K leads.
    let go_on = |config: &TopicsConfig| {
        let inputs = TopicInputs { start: Some(&model), ..TopicInputs::default() };
        fit_topics_with(&rows, config, inputs, Beside::default()).unwrap().model.num_topics()
    };
    let fixed = TopicsConfig { find_k: false, k_start: None, k_max: None, ..model.config.clone() };
    assert_eq!(go_on(&fixed), 4);
    assert_eq!(go_on(&TopicsConfig { find_k: true, ..fixed }), TRUTH);
}

/// The model of an earlier lap that is kept has the topics of that lap, and can be read again.
#[test]
fn a_lap_that_is_kept_has_its_own_topics() {
    let rows = planted(300, 3);
    let config = config(40, 0);
    let fitted = fit_topics(&rows, &config).unwrap();
    let num = fitted.model.num_topics();
    assert_ne!(num, 40);
    let family = TopicFamily::new(&rows, &config, TopicInputs::default()).unwrap();
    let kept = family.kept(fitted.model, &fitted.outcome);
    assert_eq!(kept.config.topics, num);
    let again = TopicModel::from_bytes("kept".as_ref(), &kept.to_bytes().unwrap()).unwrap();
    assert_eq!(again.num_topics(), num);
}

#[test]
fn what_cannot_be_found_is_refused_with_the_reason() {
    let refused = |config: TopicsConfig, word: &str| {
        let error = config.check(100).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    };
    let found = TopicsConfig { find_k: true, ..Default::default() };
    refused(TopicsConfig { leave_out: false, ..found.clone() }, "left out");
    refused(TopicsConfig { batches: Some(1), ..found.clone() }, "left out");
    refused(TopicsConfig { schedule: ScheduleKind::Stochastic, ..found.clone() }, "memoized");
    refused(TopicsConfig { method: TopicMethod::SparseLda, init: TopicInit::Auto, ..found.clone() }, "lsparse");
    refused(TopicsConfig { learn_alpha: AlphaRule::Symmetric, ..found.clone() }, "stick");
    refused(TopicsConfig { history: History::Keep, ..found.clone() }, "counted before");
    refused(TopicsConfig { k_start: Some(9), k_max: Some(8), ..found.clone() }, "k-max");
    refused(TopicsConfig { k_max: Some(8), ..Default::default() }, "found");
    refused(TopicsConfig { gamma: Some(1.0), ..Default::default() }, "stick");
    let rows = planted(20, 1);
    let inputs = TopicInputs { seed_words: &[vec![0]], ..TopicInputs::default() };
    assert!(TopicFamily::new(&rows, &TopicsConfig { k_start: Some(2), ..found }, inputs).is_err());
}
