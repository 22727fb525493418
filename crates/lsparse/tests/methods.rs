//! The compared methods: samplers against enumeration of the posterior and against each other, every method on planted
//! data, repeatability, and what each refuses.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lsparse::allocation::AlphaRule;
use lsparse::backend::with_threads;
use lsparse::data::{CsrRows, MemoryRows};
use lsparse::likelihood::Estimate;
use lsparse::mixture::local::methods::{RowValues, Select, Selecting};
use lsparse::settings::MixtureMethod;
use lsparse::settings::{History, TopicInit, TopicMethod, TopicsConfig};
use lsparse::store::checkpoint::{Checkpointing, Storage};
use lsparse::synthetic::{Planted, planted};
use lsparse::topics::gibbs::{Chain, Tokens};
use lsparse::topics::{TopicInputs, TopicModel, fit_topics, fit_topics_with};
use lsparse::training::observe::Observer;
use lsparse::training::rules::StopReason;
use lsparse::training::trace::StepInfo;
use lsparse::{
    Beside, Fitted, LikelihoodKind, MixtureConfig, MixtureInputs, MixtureModel, Result, Sparsity, fit_mixture,
    fit_mixture_with,
};
use lsparse_kernels::ln_gamma;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const SAMPLERS: [TopicMethod; 3] = [TopicMethod::SparseLda, TopicMethod::AliasLda, TopicMethod::LightLda];

/// Two documents, five tokens.
fn tiny_corpus() -> CsrRows<f32> {
    CsrRows::new("tiny", 3, vec![0, 2, 4], vec![0, 1, 1, 2], vec![2.0f32, 1.0, 1.0, 1.0]).unwrap()
}

/// log p(w, z) with topics and mixes integrated out, from its definition: every token given those before it.
fn log_joint(tokens: &Tokens, assigned: &[u32], num: usize, alpha: f64, lambda: f64) -> f64 {
    let vocab = tokens.vocab_size;
    let (mut of_word, mut of_topic) = (vec![0.0; vocab * num], vec![0.0; num]);
    let mut value = 0.0;
    for d in 0..tokens.num_documents() {
        let mut of_document = vec![0.0; num];
        for (before, i) in tokens.document(d).enumerate() {
            let (v, k) = (tokens.word[i] as usize, assigned[i] as usize);
            let topic = (of_document[k] + alpha / num as f64) / (before as f64 + alpha);
            let word = (of_word[v * num + k] + lambda) / (of_topic[k] + lambda * vocab as f64);
            value += topic.ln() + word.ln();
            of_document[k] += 1.0;
            of_word[v * num + k] += 1.0;
            of_topic[k] += 1.0;
        }
    }
    value
}

/// For every pair of tokens whether they share a topic: what does not depend on the names of topics.
fn pairs(assigned: &[u32]) -> Vec<f64> {
    let n = assigned.len();
    let shared = |i: usize, j: usize| f64::from(u8::from(assigned[i] == assigned[j]));
    (0..n).flat_map(|i| (i + 1..n).map(move |j| shared(i, j))).collect()
}

/// The expectation of `pairs` under the posterior, over all assignments.
fn exact_pairs(tokens: &Tokens, num: usize, alpha: f64, lambda: f64) -> Vec<f64> {
    let n = tokens.word.len();
    let (mut sum, mut expected) = (0.0, vec![0.0; n * (n - 1) / 2]);
    for code in 0..num.pow(n as u32) {
        let assigned: Vec<u32> = (0..n).map(|i| (code / num.pow(i as u32) % num) as u32).collect();
        let p = log_joint(tokens, &assigned, num, alpha, lambda).exp();
        sum += p;
        expected.iter_mut().zip(pairs(&assigned)).for_each(|(e, s)| *e += p * s);
    }
    expected.iter().map(|e| e / sum).collect()
}

/// The largest deviation of a chain's pairs from `expected`, in standard errors by batch means and as it is.
fn deviation(chain: &mut Chain, expected: &[f64], sweeps: usize) -> (f64, f64) {
    let parts = 40;
    let mut means = vec![vec![0.0; expected.len()]; parts];
    (0..sweeps / 10).for_each(|_| chain.sweep());
    for mean in &mut means {
        for _ in 0..sweeps / parts {
            chain.sweep();
            mean.iter_mut().zip(pairs(chain.assigned())).for_each(|(m, s)| *m += s);
        }
        mean.iter_mut().for_each(|m| *m /= (sweeps / parts) as f64);
    }
    let (mut errors, mut plain) = (0.0f64, 0.0f64);
    for (i, &e) in expected.iter().enumerate() {
        let mean = means.iter().map(|m| m[i]).sum::<f64>() / parts as f64;
        let variance = means.iter().map(|m| (m[i] - mean).powi(2)).sum::<f64>() / (parts - 1) as f64;
        errors = errors.max((mean - e).abs() / (variance / parts as f64).sqrt());
        plain = plain.max((mean - e).abs());
    }
    (errors, plain)
}

#[test]
fn samplers_draw_from_the_posterior() {
    let tokens = Arc::new(Tokens::read(&tiny_corpus()).unwrap());
    for (num, alpha, lambda) in [(2, 1.0, 0.5), (3, 0.6, 0.2)] {
        let expected = exact_pairs(&tokens, num, alpha, lambda);
        for (method, table_draws) in SAMPLERS.map(|m| (m, 1)).into_iter().chain(SAMPLERS[1..].iter().map(|&m| (m, 0))) {
            let config = TopicsConfig {
                method,
                topics: num,
                alpha,
                lambda,
                table_draws: (table_draws > 0).then_some(table_draws),
                ..Default::default()
            };
            let mut chain = Chain::random(Arc::clone(&tokens), &config, ChaCha8Rng::seed_from_u64(7)).unwrap();
            let (errors, plain) = deviation(&mut chain, &expected, 200_000);
            if table_draws == 1 {
                // Tables that know nothing of the token: exact.
                assert!(errors < 4.5, "{method:?}, K = {num}: {errors} standard errors, {plain}");
            } else {
                // Tables of a while ago know of tokens that were drawn given this one: with five tokens in all that can
                // be seen, with more it vanishes.
                assert!(plain < 0.1, "{method:?}, K = {num}: {plain}");
            }
        }
    }
}

/// A corpus in which each topic likes its own stretch of the vocabulary and each document two topics; documents to
/// train on, documents to score.
fn planted_corpora(num_topics: usize, vocab: usize, documents: [usize; 2]) -> [CsrRows<f32>; 2] {
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    documents.map(|documents| {
        let own = vocab / num_topics;
        let (mut indptr, mut index, mut value) = (vec![0], Vec::new(), Vec::new());
        for _ in 0..documents {
            let mine = [rng.random_range(0..num_topics), rng.random_range(0..num_topics)];
            let share: f64 = rng.random();
            let mut counts = vec![0.0f32; vocab];
            for _ in 0..60 {
                let k = mine[usize::from(rng.random::<f64>() < share)];
                // Words early in the stretch are the frequent ones.
                let at = (rng.random::<f64>().powi(2) * own as f64) as usize;
                counts[if rng.random::<f64>() < 0.05 { rng.random_range(0..vocab) } else { k * own + at }] += 1.0;
            }
            for (v, &c) in counts.iter().enumerate().filter(|(_, c)| **c > 0.0) {
                index.push(v as u32);
                value.push(c);
            }
            indptr.push(index.len());
        }
        CsrRows::new("planted", vocab, indptr, index, value).unwrap()
    })
}

fn config_of(method: TopicMethod) -> TopicsConfig {
    let laps = if method.samples_tokens() { 150 } else { 10 };
    TopicsConfig { method, topics: 12, laps: Some(laps), seed: 1, ..Default::default() }
}

fn fit_scored(corpora: &[CsrRows<f32>; 2], config: &TopicsConfig) -> Fitted<TopicModel> {
    let inputs = TopicInputs { heldout: Some(&corpora[1]), ..Default::default() };
    fit_topics_with(&corpora[0], config, inputs, Beside::default()).unwrap()
}

#[test]
fn every_method_finds_planted_topics() {
    let (num, vocab) = (8, 160);
    let corpora = planted_corpora(num, vocab, [400, 60]);
    let reference = fit_scored(&corpora, &config_of(TopicMethod::Lsparse)).outcome.heldout.unwrap();
    let mut sampled = Vec::new();
    for method in SAMPLERS.into_iter().chain([TopicMethod::SviGibbs]) {
        for init in [TopicInit::Auto, TopicInit::Bregman] {
            let fitted = fit_scored(&corpora, &TopicsConfig { init, ..config_of(method) });
            let score = fitted.outcome.heldout.unwrap();
            assert!(score > reference - 0.06, "{method:?} from {init:?}: {score} against {reference}");
            if method.samples_tokens() {
                sampled.push(score);
            }
            let found = (0..num).filter(|&theme| {
                let own = |k: usize| {
                    let top = fitted.model.top_words(k, 8);
                    top.iter().filter(|word| word.0 as usize / (vocab / num) == theme).count()
                };
                (0..fitted.model.num_topics()).any(|k| own(k) >= 7)
            });
            assert!(found.count() >= 7, "{method:?} from {init:?}");
        }
    }
    // They all sample from one posterior.
    let spread = |fold: fn(f64, f64) -> f64| sampled.iter().copied().reduce(fold).unwrap();
    assert!(spread(f64::max) - spread(f64::min) < 0.04, "{sampled:?}");
}

#[test]
fn samplers_count_every_token_and_report_the_joint_probability() {
    let corpora = planted_corpora(4, 40, [50, 10]);
    let tokens = Tokens::read(&corpora[0]).unwrap();
    for method in SAMPLERS {
        let config = TopicsConfig { topics: 5, laps: Some(3), ..config_of(method) };
        let fitted = fit_topics(&corpora[0], &config).unwrap();
        let total = fitted.model.total.total();
        assert_eq!(fitted.model.total.counts.iter().sum::<f64>(), tokens.word.len() as f64);
        assert!(total.mass.iter().all(|m| m.fract() == 0.0 && *m > 0.0));
        let (lambda, vocab) = (config.lambda, tokens.vocab_size as f64);
        let entries: f64 = total.mass.iter().map(|m| ln_gamma(m + lambda) - ln_gamma(lambda)).sum();
        let topics = fitted.model.total.counts.iter();
        let sums: f64 = topics.map(|n| ln_gamma(vocab * lambda) - ln_gamma(n + vocab * lambda)).sum();
        let objective = fitted.outcome.objective;
        assert!((objective.data - entries - sums).abs() < 1e-6 * objective.data.abs());
        assert!(objective.entropy == 0.0 && objective.alloc < 0.0);
    }
    // With a single topic there is nothing to draw, and the joint probability is known.
    let config = TopicsConfig { topics: 1, laps: Some(2), ..config_of(TopicMethod::SparseLda) };
    let fitted = fit_topics(&corpora[0], &config).unwrap();
    let expected = log_joint(&tokens, &vec![0; tokens.word.len()], 1, config.alpha, config.lambda);
    assert!((fitted.outcome.objective.total() - expected).abs() < 1e-8 * expected.abs());
}

/// Stops the run after so many steps.
struct StopAfter<'a> {
    steps: u64,
    flag: &'a AtomicBool,
}

impl Observer for StopAfter<'_> {
    fn step(&mut self, info: &StepInfo) -> Result<()> {
        self.flag.store(info.step >= self.steps, Ordering::Relaxed);
        Ok(())
    }
}

#[test]
fn threads_change_no_bits_and_interrupted_runs_go_on_as_if_they_had_not_been() {
    let corpora = planted_corpora(4, 40, [300, 10]);
    for method in SAMPLERS.into_iter().chain([TopicMethod::SviGibbs]) {
        // Samplers of all tokens average; the others know no burn-in.
        let burn_in = usize::from(SAMPLERS.contains(&method));
        let config = TopicsConfig {
            topics: 6,
            laps: Some(4),
            burn_in: (burn_in > 0).then_some(burn_in),
            tolerance: None,
            batches: Some(3),
            ..config_of(method)
        };
        let whole = fit_topics(&corpora[0], &config).unwrap();
        let again = with_threads(3, || fit_topics(&corpora[0], &config).unwrap()).unwrap();
        assert_eq!(whole.model.total, again.model.total, "{method:?}");
        let other = fit_topics(&corpora[0], &TopicsConfig { seed: 2, ..config.clone() }).unwrap();
        assert_ne!(whole.model.total, other.model.total, "{method:?}");

        let folder = tempfile::tempdir().unwrap();
        let mut storage = Storage::default();
        let mut options = Checkpointing::new(folder.path().join("run.checkpoint"));
        let flag = AtomicBool::new(false);
        let mut stop = StopAfter { steps: 5, flag: &flag };
        storage.checkpoint = Some(options.clone());
        let beside = Beside {
            observer: Some(&mut stop),
            interrupt: Some(&flag),
            storage: storage.clone(),
            ..Default::default()
        };
        let part = fit_topics_with(&corpora[0], &config, TopicInputs::default(), beside).unwrap();
        assert_eq!(part.outcome.reason, StopReason::Interrupted);
        options.resume = true;
        storage.checkpoint = Some(options);
        let rest =
            fit_topics_with(&corpora[0], &config, TopicInputs::default(), Beside { storage, ..Default::default() })
                .unwrap();
        assert_eq!(rest.model.total, whole.model.total, "{method:?}");
        assert_eq!(rest.outcome.reason, StopReason::Laps(4));
    }
}

/// After burn-in the statistics of a model are the mean of those that each lap ended with.
#[test]
fn laps_after_burn_in_are_averaged() {
    let corpora = planted_corpora(4, 40, [300, 60]);
    for method in SAMPLERS {
        let config = TopicsConfig { topics: 6, batches: Some(3), ..config_of(method) };
        let dense = |laps: usize, burn_in: usize| {
            let fitted = fit_topics(
                &corpora[0],
                &TopicsConfig { laps: Some(laps), burn_in: (burn_in > 0).then_some(burn_in), ..config.clone() },
            )
            .unwrap();
            let total = fitted.model.total;
            let rows = (0..total.vocab_size()).map(|v| total.total().dense_word(v, 6));
            (rows.collect::<Vec<_>>().concat(), total.counts)
        };
        let ended = [dense(3, 0), dense(4, 0)];
        let (words, counts) = dense(4, 2);
        for (at, mean) in words.iter().enumerate() {
            assert!((mean - (ended[0].0[at] + ended[1].0[at]) / 2.0).abs() < 1e-9, "{method:?}");
        }
        for (k, mean) in counts.iter().enumerate() {
            assert!((mean - (ended[0].1[k] + ended[1].1[k]) / 2.0).abs() < 1e-9, "{method:?}");
        }
        let score = |burn_in: usize| {
            fit_scored(
                &corpora,
                &TopicsConfig { laps: Some(40), burn_in: (burn_in > 0).then_some(burn_in), ..config.clone() },
            )
        };
        let (last, mean) = (score(0).outcome.heldout.unwrap(), score(20).outcome.heldout.unwrap());
        // Sixty documents score a little better or worse by chance.
        assert!(mean > last - 0.01, "{method:?}: {last} fell to {mean}");
    }
    let none_left = TopicsConfig { topics: 3, laps: Some(2), burn_in: Some(2), ..config_of(TopicMethod::SparseLda) };
    assert!(fit_topics(&corpora[0], &none_left).err().unwrap().to_string().contains("burn-in"));
}

#[test]
fn a_sampler_goes_on_from_a_model_in_its_place() {
    let corpora = planted_corpora(4, 40, [200, 30]);
    let config = TopicsConfig { topics: 4, ..config_of(TopicMethod::SparseLda) };
    let first = fit_scored(&corpora, &config);
    let go_on = |history: History| {
        let config = TopicsConfig { laps: Some(1), history, ..config.clone() };
        let inputs = TopicInputs { start: Some(&first.model), heldout: Some(&corpora[1]), ..Default::default() };
        fit_topics_with(&corpora[0], &config, inputs, Beside::default())
    };
    let next = go_on(History::Replace).unwrap();
    assert_eq!(next.model.total.counts.iter().sum::<f64>(), first.model.total.counts.iter().sum::<f64>());
    assert!((next.outcome.heldout.unwrap() - first.outcome.heldout.unwrap()).abs() < 0.02);
    assert!(go_on(History::Keep).err().unwrap().to_string().contains("`history replace`"));
}

#[test]
fn what_a_method_cannot_do_is_refused() {
    let corpus = tiny_corpus();
    let refused = |config: TopicsConfig, word: &str| {
        let message = fit_topics(&corpus, &config).err().unwrap().to_string();
        assert!(message.contains(word), "{message}");
    };
    let config = TopicsConfig { topics: 2, method: TopicMethod::LightLda, ..Default::default() };
    refused(TopicsConfig { learn_alpha: AlphaRule::Symmetric, ..config.clone() }, "learn-alpha");
    refused(TopicsConfig { schedule: lsparse::ScheduleKind::Stochastic, ..config.clone() }, "schedule");
    refused(TopicsConfig { mh_steps: 0, ..config.clone() }, "mh-steps");
    refused(TopicsConfig { laps: None, ..config.clone() }, "laps");
    refused(TopicsConfig { samples: 1, method: TopicMethod::SviGibbs, ..config.clone() }, "samples");
    let halves = CsrRows::new("halves", 2, vec![0, 2], vec![0, 1], vec![1.0f32, 0.5]).unwrap();
    for method in SAMPLERS.into_iter().chain([TopicMethod::SviGibbs]) {
        let message = fit_topics(&halves, &TopicsConfig { method, ..config.clone() }).err().unwrap().to_string();
        assert!(message.contains("whole number") && message.contains("column 2"), "{message}");
        assert!(fit_topics(&halves, &TopicsConfig { method: TopicMethod::Lsparse, ..config.clone() }).is_ok());
    }
    let inputs = TopicInputs { seed_words: &[vec![0]], ..Default::default() };
    let message = fit_topics_with(&corpus, &config, inputs, Beside::default()).err().unwrap().to_string();
    assert!(message.contains("seed-words") && message.contains("light-lda"), "{message}");
}

/// Remembers the objective of every step, with its lap.
#[derive(Default)]
struct Objectives(Vec<(f64, f64)>);

impl Observer for Objectives {
    fn step(&mut self, info: &StepInfo) -> Result<()> {
        self.0.extend(info.objective.map(|objective| (info.lap, objective.total())));
        Ok(())
    }
}

/// Train, and see that the objective never falls once every batch has been visited.
fn fit_monotone(source: &MemoryRows<f64>, config: &MixtureConfig, select: Option<Arc<Select>>) -> Fitted<MixtureModel> {
    let mut objectives = Objectives::default();
    let inputs = MixtureInputs { select, ..Default::default() };
    let beside = Beside { observer: Some(&mut objectives), ..Default::default() };
    let fitted = fit_mixture_with(source, config, inputs, beside).unwrap();
    let sure: Vec<f64> = objectives.0.iter().filter(|step| step.0 >= 1.0).map(|step| step.1).collect();
    assert!(sure.len() > 3, "too few steps to tell");
    for pair in sure.windows(2) {
        assert!(pair[1] >= pair[0] - 1e-9 * pair[0].abs(), "{:?}: {} fell to {}", config.method, pair[0], pair[1]);
    }
    fitted
}

fn planted_rows(kind: LikelihoodKind) -> (Planted, MemoryRows<f64>) {
    let truth = planted(kind, 600, 6, 5, 3);
    let source = MemoryRows::new("planted", truth.dim, truth.values.clone()).unwrap();
    (truth, source)
}

fn mixture_config(method: MixtureMethod, kind: LikelihoodKind) -> MixtureConfig {
    let base = MixtureConfig { method, likelihood: kind, clusters: 5, batches: Some(3), ..Default::default() };
    MixtureConfig { laps: Some(20), tolerance: None, seed: 2, ..base }
}

/// The share of rows that are with most of their cluster's rows.
fn purity(truth: &Planted, fitted: &Fitted<MixtureModel>, source: &MemoryRows<f64>) -> f64 {
    let mut owners = Vec::new();
    let mut visit = |index: &[u32], _: &[f64]| {
        owners.extend_from_slice(index);
        Ok(())
    };
    fitted.model.assign(source, 1, &mut visit).unwrap();
    let num = fitted.model.num_clusters();
    let mut table = vec![vec![0usize; truth.weights.len()]; num];
    owners.iter().zip(&truth.labels).for_each(|(&k, &label)| table[k as usize][label] += 1);
    table.iter().map(|row| row.iter().max().unwrap()).sum::<usize>() as f64 / owners.len() as f64
}

#[test]
fn every_mixture_method_finds_planted_clusters_and_never_falls() {
    for kind in [LikelihoodKind::Gauss, LikelihoodKind::DiagGauss, LikelihoodKind::Multinomial] {
        let (truth, source) = planted_rows(kind);
        let config = |method| mixture_config(method, kind);
        let reference = purity(&truth, &fit_monotone(&source, &config(MixtureMethod::Lsparse), None), &source);
        for method in [MixtureMethod::SparseEm, MixtureMethod::Truncation, MixtureMethod::HardEm] {
            for estimate in [Estimate::Map, Estimate::MaxLikelihood] {
                let config = MixtureConfig {
                    sparsity: if method == MixtureMethod::HardEm { Sparsity::Usual } else { Sparsity::Of(2) },
                    estimate,
                    ..config(method)
                };
                let fitted = match method {
                    // What is selected changes with the means: no promise.
                    MixtureMethod::Truncation => fit_mixture(&source, &config).unwrap(),
                    _ => fit_monotone(&source, &config, None),
                };
                let found = purity(&truth, &fitted, &source);
                assert!(found > reference - 0.05, "{method:?} {kind:?} {estimate:?}: {found} against {reference}");
            }
        }
    }
    let (truth, source) = planted_rows(LikelihoodKind::Gauss);
    for method in [MixtureMethod::Kmeans, MixtureMethod::DpMeans] {
        let fitted = fit_monotone(&source, &mixture_config(method, LikelihoodKind::DiagGauss), None);
        let found = purity(&truth, &fitted, &source);
        assert!(found > 0.75, "{method:?}: {found}");
    }
}

#[test]
fn sparse_em_with_full_steps_alone_is_dense_em_and_in_between_it_is_cheaper_but_no_worse() {
    for kind in [LikelihoodKind::ZeroMeanGauss, LikelihoodKind::Gauss, LikelihoodKind::Bernoulli] {
        let (_, source) = planted_rows(kind);
        let dense = MixtureConfig { sparsity: Sparsity::Of(5), ..mixture_config(MixtureMethod::Lsparse, kind) };
        let dense = fit_monotone(&source, &dense, None).outcome.objective.total();
        let config = MixtureConfig { sparsity: Sparsity::Of(2), ..mixture_config(MixtureMethod::SparseEm, kind) };
        let full = fit_monotone(&source, &MixtureConfig { refresh: 1, ..config.clone() }, None);
        let value = full.outcome.objective.total();
        assert!((value - dense).abs() < 1e-8 * dense.abs(), "{kind:?}: {value} against {dense}");
        for (threshold, refresh) in [(0.0, 5), (0.05, 3)] {
            let fitted = fit_monotone(&source, &MixtureConfig { threshold, refresh, ..config.clone() }, None);
            let value = fitted.outcome.objective.total();
            assert!(value > dense - 0.05 * dense.abs(), "{kind:?}, threshold {threshold}: {value} against {dense}");
            assert!((fitted.model.total.total_weight() - 600.0).abs() < 1e-6);
        }
    }
}

#[test]
fn truncation_takes_any_selection_function() {
    let (_, source) = planted_rows(LikelihoodKind::DiagGauss);
    let config = MixtureConfig {
        sparsity: Sparsity::Of(5),
        ..mixture_config(MixtureMethod::Truncation, LikelihoodKind::DiagGauss)
    };
    // All clusters: dense.
    let all = |about: &Selecting<'_>, out: &mut Vec<u32>| out.extend(0..about.frequencies.len() as u32);
    let chosen = fit_monotone(&source, &config, Some(Arc::new(all))).outcome.objective.total();
    let dense = MixtureConfig { method: MixtureMethod::Lsparse, ..config.clone() };
    let dense = fit_monotone(&source, &dense, None).outcome.objective.total();
    assert!((chosen - dense).abs() < 1e-8 * dense.abs(), "{chosen} against {dense}");
    // By the row's number alone: that is where it goes.
    let by_number = |about: &Selecting<'_>, out: &mut Vec<u32>| out.push((about.row % 3) as u32);
    let fitted = fit_monotone(&source, &config, Some(Arc::new(by_number)));
    assert_eq!(fitted.model.total.counts, [200.0, 200.0, 200.0, 0.0, 0.0]);
    // By its values and the means.
    let nearest = |about: &Selecting<'_>, out: &mut Vec<u32>| {
        let means = about.arrays.iter().find(|array| array.name == "means").unwrap();
        let RowValues::Dense(x) = about.values else { panic!("rows of Gaussians are dense") };
        let far = |mean: &[f64]| mean.iter().zip(x).map(|(m, x)| (m - x).powi(2)).sum::<f64>();
        let distances: Vec<f64> = means.values.chunks_exact(x.len()).map(far).collect();
        let mut order: Vec<u32> = (0..distances.len() as u32).collect();
        order.sort_by(|&a, &b| distances[a as usize].total_cmp(&distances[b as usize]));
        out.extend(&order[..2]);
    };
    let two = MixtureConfig { sparsity: Sparsity::Of(2), ..config.clone() };
    let own = fit_mixture_with(
        &source,
        &two,
        MixtureInputs { select: Some(Arc::new(nearest)), ..Default::default() },
        Beside::default(),
    )
    .unwrap();
    let built_in = fit_mixture(&source, &two).unwrap();
    assert_eq!(own.model.total, built_in.model.total);

    let refused = |config: &MixtureConfig, select: Option<Arc<Select>>, word: &str| {
        let inputs = MixtureInputs { select, ..Default::default() };
        let message = fit_mixture_with(&source, config, inputs, Beside::default()).err().unwrap().to_string();
        assert!(message.contains(word), "{message}");
    };
    refused(&config, Some(Arc::new(|_: &Selecting<'_>, _: &mut Vec<u32>| {})), "at least one");
    refused(&config, Some(Arc::new(|_: &Selecting<'_>, out: &mut Vec<u32>| out.push(5))), "[5] of 5");
    refused(&MixtureConfig { method: MixtureMethod::SparseEm, ..config.clone() }, Some(Arc::new(all)), "truncation");
    let kind = LikelihoodKind::ZeroMeanGauss;
    refused(&MixtureConfig { likelihood: kind, ..config.clone() }, None, "selection-function");
}

#[test]
fn hard_em_is_one_cluster_a_row_with_point_estimates() {
    let (_, source) = planted_rows(LikelihoodKind::Gauss);
    let hard = fit_mixture(&source, &mixture_config(MixtureMethod::HardEm, LikelihoodKind::Gauss)).unwrap();
    let config = MixtureConfig {
        sparsity: Sparsity::Of(1),
        estimate: Estimate::Map,
        ..mixture_config(MixtureMethod::Lsparse, LikelihoodKind::Gauss)
    };
    assert_eq!(hard.model.total, fit_mixture(&source, &config).unwrap().model.total);
    assert_eq!(hard.model.total.entropy, 0.0);
}

/// The centres of a model, and the squared distances of a row from them.
fn distances(fitted: &Fitted<MixtureModel>, row: &[f64]) -> Vec<f64> {
    let means = fitted.model.array("means").unwrap().values.chunks_exact(row.len());
    means.map(|mean| mean.iter().zip(row).map(|(m, x)| (m - x).powi(2)).sum()).collect()
}

#[test]
fn k_means_rests_where_every_row_is_with_its_nearest_centre() {
    let (truth, source) = planted_rows(LikelihoodKind::Gauss);
    let config = MixtureConfig {
        laps: Some(100),
        count_tolerance: Some(1e-9),
        ..mixture_config(MixtureMethod::Kmeans, LikelihoodKind::Gauss)
    };
    let fitted = fit_mixture(&source, &config).unwrap();
    let mut rows = truth.values.chunks_exact(truth.dim);
    let mut visit = |index: &[u32], _: &[f64]| {
        for (&k, row) in index.iter().zip(&mut rows) {
            let distances = distances(&fitted, row);
            assert!(distances.iter().all(|&d| d >= distances[k as usize] - 1e-9));
        }
        Ok(())
    };
    fitted.model.assign(&source, 1, &mut visit).unwrap();
    // The objective is the squared error, and the one variance its mean a column.
    let error: f64 = truth
        .values
        .chunks_exact(truth.dim)
        .map(|row| distances(&fitted, row).into_iter().fold(f64::INFINITY, f64::min))
        .sum();
    assert!((fitted.outcome.objective.total() + error).abs() < 1e-6 * error);
    let variances = &fitted.model.array("variances").unwrap().values;
    assert!(variances.iter().all(|v| (v - error / (600.0 * truth.dim as f64)).abs() < 1e-6 * v));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("centres.safetensors");
    fitted.model.save_to(&path).unwrap();
    let loaded = lsparse::MixtureModel::load(&path).unwrap();
    assert_eq!(loaded, fitted.model);
    assert!(loaded.score(&source).unwrap().mean().is_finite());
}

/// At its default tolerance k-means ends within a thousandth of where it would end for good.
#[test]
fn k_means_rests_no_sooner_than_there_is_little_to_gain() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let values: Vec<f64> = (0..4000 * 4).map(|_| rng.random::<f64>().powi(2)).collect();
    let source = MemoryRows::new("no clusters", 4, values).unwrap();
    for seed in 0..3 {
        let config = MixtureConfig { method: MixtureMethod::Kmeans, clusters: 20, seed, ..Default::default() };
        let error = |config: &MixtureConfig| -fit_mixture(&source, config).unwrap().outcome.objective.total();
        let (found, least) =
            (error(&config), error(&MixtureConfig { tolerance: Some(0.0), laps: Some(300), ..config }));
        assert!(found < 1.001 * least, "{found} instead of {least}");
    }
}

#[test]
fn dp_means_opens_as_many_clusters_as_the_penalty_allows() {
    let (truth, source) = planted_rows(LikelihoodKind::Gauss);
    let open = |clusters: usize, penalty: f64| {
        let config = mixture_config(MixtureMethod::DpMeans, LikelihoodKind::DiagGauss);
        let fitted = fit_monotone(
            &source,
            &MixtureConfig { clusters, penalty: Some(penalty), batches: Some(1), ..config },
            None,
        );
        assert!(fitted.model.total.counts.iter().all(|&n| n > 0.0));
        assert_eq!(fitted.model.config.clusters, fitted.model.num_clusters());
        assert!((fitted.model.total.total_weight() - 600.0).abs() < 1e-9);
        // No row is farther than the penalty allows, unless there was no room.
        let far =
            truth.values.chunks_exact(truth.dim).filter(|row| distances(&fitted, row).iter().all(|&d| d > penalty));
        if fitted.model.num_clusters() < clusters {
            assert_eq!(far.count(), 0);
        }
        fitted.model.num_clusters()
    };
    assert_eq!(open(50, 1e12), 1);
    assert_eq!(open(7, 1e-6), 7);
    let moments: f64 = truth.values.iter().map(|x| x * x).sum::<f64>() / 600.0;
    let (few, many) = (open(300, 0.5 * moments), open(300, 0.05 * moments));
    assert!(1 < few && few < many && many < 300, "{few}, {many}");
}
