//! Topics on a GPU against the CPU. These tests need one: `cargo xtask cuda test`.

use lsparse::Session;
use lsparse::backend::{DeviceChoice, Place};
use lsparse::data::CsrRows;
use lsparse::runs::Family;
use lsparse::settings::TopicsConfig;
use lsparse::topics::TopicModel;
use lsparse::topics::score::{Completion, CompletionOptions, completion};
use lsparse::topics::{TopicFamily, TopicInputs, TopicSummary, Topics, WordStats, WordsHere};
use lsparse::training::model::Model;
use lsparse::training::summary::Summary;
use serde_json::{Value, json};

const VOCAB: u32 = 5000;

/// Documents of all lengths that kernels tell apart, each about a few of twenty subjects; some have no words.
fn corpus(documents: usize) -> CsrRows<f32> {
    const LENGTHS: [u64; 14] = [0, 1, 7, 31, 33, 64, 90, 128, 180, 250, 330, 500, 820, 2600];
    let mut state = 7u64;
    let mut draw = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let (mut indptr, mut words, mut counts) = (vec![0], Vec::new(), Vec::new());
    for d in 0..documents {
        let subjects = [draw(20), draw(20), draw(20)];
        let mut of_document: Vec<u32> = (0..LENGTHS[d % LENGTHS.len()])
            .map(|_| match draw(10) {
                0 => draw(u64::from(VOCAB)) as u32,
                s => (subjects[s as usize % 3] * 250 + draw(250)) as u32,
            })
            .collect();
        of_document.sort_unstable();
        of_document.dedup();
        counts.extend(of_document.iter().map(|_| 1.0 + draw(3) as f32));
        words.extend(of_document);
        indptr.push(words.len());
    }
    CsrRows::new("twenty subjects", VOCAB as usize, indptr, words, counts).unwrap()
}

fn config(device: &str, more: Value) -> TopicsConfig {
    let mut settings = json!({"topics": 100, "laps": 3, "device": device});
    settings.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    serde_json::from_value(settings).unwrap()
}

fn trained<'a>(family: &TopicFamily<'a>, laps: usize) -> Session<'a, Topics> {
    let mut session = family.session(0).unwrap();
    let mut worker = session.worker();
    while session.progress().laps < laps {
        session.step(&mut worker).unwrap();
    }
    session
}

fn score(session: &Session<'_, Topics>, test: &CsrRows<f32>) -> f64 {
    let topics = session.model().point_topics(session.total());
    completion(&topics, &session.params().alpha, test, &CompletionOptions::default(), &Place::default())
        .unwrap()
        .score()
}

fn close(a: f64, b: f64, what: &str) {
    assert!((a - b).abs() <= 1e-5 * b.abs().max(1.0), "{what}: {a} on the GPU, {b} on the CPU");
}

/// The largest difference of mass, where statistics are of the same documents.
fn difference(have: &TopicSummary, want: &TopicSummary) -> f64 {
    let (WordsHere::Batch(a), WordsHere::Batch(b)) = (have.words.as_words(), want.words.as_words()) else {
        panic!("not of a batch")
    };
    let of_word = |v| {
        let (a, b) = (a.dense_word(v, have.num_topics), b.dense_word(v, have.num_topics));
        a.into_iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
    };
    (0..VOCAB as usize).map(of_word).fold(0.0, f64::max)
}

#[test]
#[ignore = "needs a GPU"]
fn documents_are_worked_out_as_on_the_cpu() {
    let documents = corpus(2000);
    for more in [
        json!({}),
        json!({"estimate": "vb", "lambda": 0.3}),
        json!({"sparsity": 1}),
        json!({"sparsity": 20, "restarts": 4}),
        json!({"restarts": 0, "doc-iterations": 40, "max-active": 9}),
        json!({"learn-alpha": "asymmetric", "active-floor": 0.5}),
        json!({"topics": 700}),
    ] {
        let (on_cpu, on_gpu) = (config("cpu", more.clone()), config("cuda", more.clone()));
        let cpu = TopicFamily::new(&documents, &on_cpu, TopicInputs::default()).unwrap();
        let gpu = TopicFamily::new(&documents, &on_gpu, TopicInputs::default()).unwrap();
        assert!(gpu.backend().contains("GPU"), "{}", gpu.backend());
        let session = trained(&cpu, 1);
        let (slow, fast) = (session.model(), gpu.model(0));
        let (mut slow_worker, mut fast_worker) = (slow.worker(), fast.worker());
        let (mut all, mut same) = (0, 0);
        for number in 0..session.data().batches.num_batches() {
            let (batch, memory) = (session.data().batch(number), Default::default());
            let want = slow.local(session.params(), &batch, &memory, &mut slow_worker).unwrap();
            let have = fast.local(session.params(), &batch, &memory, &mut fast_worker).unwrap();
            // The second time documents are there already.
            let again = fast.local(session.params(), &batch, &memory, &mut fast_worker).unwrap();
            assert!(have.summary == again.summary && have.memory == again.memory, "{more}: other bits");
            for (a, b) in have.memory.explained.iter().zip(&want.memory.explained) {
                all += 1;
                same += usize::from((a.evidence - b.evidence).abs() <= 1e-5 * b.evidence.abs());
            }
            assert_eq!(have.tally.documents, want.tally.documents);
            close(have.summary.bound, want.summary.bound, "the bound");
            close(have.summary.alpha_total, want.summary.alpha_total, "what alpha is learned from");
            close(have.summary.counts().iter().sum(), want.summary.counts().iter().sum(), "the tokens");
            // A document whose restarts hang on the last bit may take another way.
            if have.tally == want.tally {
                assert!(difference(&have.summary, &want.summary) < 0.1, "{more}: statistics differ");
            }
        }
        println!("{more}: {same} of {all} documents have the same bound to 1e-5");
        assert!(same * 1000 >= all * 998);
    }
}

#[test]
#[ignore = "needs a GPU"]
fn schedules_come_to_the_same_topics() {
    let (documents, test) = (corpus(1400), corpus(300));
    for more in [
        json!({}),
        json!({"schedule": "full"}),
        json!({"schedule": "stochastic", "batches": 5}),
        json!({"schedule": "streaming", "batches": 5}),
        json!({"leave-out": false, "warm-start": true}),
        json!({"learn-alpha": "symmetric"}),
    ] {
        let laps = if more["schedule"] == "streaming" { 1 } else { 3 };
        let run = |device: &str| {
            let config = config(device, more.clone());
            let family = TopicFamily::new(&documents, &config, TopicInputs::default()).unwrap();
            let session = trained(&family, laps);
            (score(&session, &test), session.total().clone())
        };
        let ((cpu, _), (gpu, total)) = (run("cpu"), run("cuda"));
        println!("{more}: {gpu} on the GPU, {cpu} on the CPU");
        assert!((cpu - gpu).abs() < 1e-3, "{more}: {gpu} on the GPU, {cpu} on the CPU");
        assert!(run("cuda").1 == total, "{more}: other bits");
    }
}

/// The same statistics on the host, by way of bytes.
fn on_the_host(summary: &TopicSummary) -> TopicSummary {
    let summary: TopicSummary = postcard::from_bytes(&postcard::to_stdvec(summary).unwrap()).unwrap();
    assert!(!matches!(summary.words, WordStats::OnDevice(_)));
    summary
}

#[test]
#[ignore = "needs a GPU"]
fn statistics_are_summed_there_to_the_bits_of_the_host() {
    let documents = corpus(1500);
    for more in [json!({}), json!({"estimate": "vb", "lambda": 0.3}), json!({"topics": 700, "sparsity": 20})] {
        let (on_cpu, on_gpu) = (config("cpu", more.clone()), config("cuda", more.clone()));
        let cpu = TopicFamily::new(&documents, &on_cpu, TopicInputs::default()).unwrap();
        let gpu = TopicFamily::new(&documents, &on_gpu, TopicInputs::default()).unwrap();
        let session = gpu.session(0).unwrap();
        let (fast, slow) = (session.model(), cpu.model(0));
        let mut worker = fast.worker();
        let batches: Vec<TopicSummary> = (0..4)
            .map(|number| {
                let batch = session.data().batch(number);
                fast.local(session.params(), &batch, &Default::default(), &mut worker).unwrap().summary
            })
            .collect();
        assert!(batches.iter().all(|batch| matches!(batch.words, WordStats::OnDevice(_))), "{more}: not kept there");
        let here: Vec<TopicSummary> = batches.iter().map(on_the_host).collect();
        let (mut there, mut total) = (session.total().clone(), session.total().clone());
        let apart = there.clone();
        let sums: [&[(usize, f64)]; 4] =
            [&[(0, 1.0), (1, 0.3)], &[(2, 1.0), (0, -1.0), (3, 1.0)], &[(1, -0.3)], &[(3, 2.0), (2, -1.5)]];
        for (number, sum) in sums.into_iter().enumerate() {
            // Statistics of the host take part in sums on the GPU too.
            let of = |&(b, factor): &(usize, f64)| (if b == 2 { &here[b] } else { &batches[b] }, factor);
            there.add_all(&sum.iter().map(of).collect::<Vec<_>>());
            total.add_all(&sum.iter().map(|&(b, factor)| (&here[b], factor)).collect::<Vec<_>>());
            assert!(matches!(there.words, WordStats::OnDevice(_)), "{more}: not summed there");
            let before = there.clone();
            assert!(there == total, "{more}: sum {number} has other bits");
            if number == 1 {
                there.scale(0.7);
                total.scale(0.7);
                assert!(there == total, "{more}: scaled to other bits");
                assert!(there != before, "{more}: what others hold was changed");
            }
        }
        assert!(apart == *session.total() && on_the_host(&there) == total, "{more}: other bits");
        let list: Vec<_> = batches.iter().map(|batch| (batch, 1.0)).collect();
        there.set_to_sum(&list);
        total.set_to_sum(&here.iter().map(|batch| (batch, 1.0)).collect::<Vec<_>>());
        assert!(there == total, "{more}: set to other bits");
        // Topics of the sum: counts are the host's, exp(psi) to the last place or two.
        let (have, want) = (fast.global_step(&there, None).unwrap(), slow.global_step(&total, None).unwrap());
        let again = fast.global_step(&total, None).unwrap();
        let (a, b) = (have.table.get(), want.table.get());
        assert!(again.table.get().values == a.values, "{more}: from the host other bits");
        assert_eq!(a.scale, b.scale);
        let far = |(x, y): (&f32, &f32)| (x - y).abs() > 2.4e-7 * y.abs();
        assert_eq!(a.values.iter().zip(&b.values).filter(|&pair| far(pair)).count(), 0, "{more}");
        if more["estimate"] != "vb" {
            assert!(a.values == b.values, "{more}");
        }
        let mut ties = 0;
        for v in 0..VOCAB as usize {
            let ((topics, shares), (want_topics, want_shares)) = (a.start(v), b.start(v));
            ties += usize::from(topics != want_topics);
            shares.iter().zip(want_shares).for_each(|(x, y)| assert!((x - y).abs() < 1e-6, "{more}: word {v}"));
        }
        assert!(ties * 100 <= VOCAB as usize, "{more}: {ties} words start otherwise");
        let (have, want) = (fast.objective(&have, &there).data, slow.objective(&want, &total).data);
        println!("{more}: {ties} starts differ, data term {have} and {want}");
        assert!((have - want).abs() <= 1e-12 * want.abs(), "{more}: data term {have}, {want} on the CPU");
    }
}

#[test]
#[ignore = "needs a GPU"]
fn topics_start_as_on_the_cpu() {
    let documents = corpus(3000);
    for more in [json!({}), json!({"topics": 700}), json!({"topics": 30, "init-lloyd": 4}), json!({"init": "random"})] {
        let start = |device: &str| {
            let config = config(device, more.clone());
            let family = TopicFamily::new(&documents, &config, TopicInputs::default()).unwrap();
            family.session(0).unwrap().total().clone()
        };
        let (have, want) = (start("cuda"), start("cpu"));
        let same = have.counts.iter().zip(&want.counts).filter(|(a, b)| a == b).count();
        println!("{more}: {same} of {} topics start alike", want.counts.len());
        assert!(have == want, "{more}: {same} of {} topics start alike", want.counts.len());
    }
}

#[test]
#[ignore = "needs a GPU"]
fn a_run_goes_on_from_a_checkpoint_with_the_same_bits() {
    let documents = corpus(1400);
    for more in [json!({}), json!({"estimate": "vb", "lambda": 0.3}), json!({"leave-out": false, "warm-start": true})] {
        let config = config("cuda", more.clone());
        let family = TopicFamily::new(&documents, &config, TopicInputs::default()).unwrap();
        let run = |stop: usize| {
            let mut session = family.session(0).unwrap();
            let mut worker = session.worker();
            let mut steps = 0;
            while session.progress().laps < 3 {
                if steps == stop {
                    let saved = postcard::to_stdvec(&session.save()).unwrap();
                    let saved = postcard::from_bytes(&saved).unwrap();
                    let (data, pace) = (family.deal(0).unwrap(), family.plan().pace);
                    session = Session::restore(family.model(0), data, saved, &pace, Default::default(), 0).unwrap();
                    worker = session.worker();
                }
                session.step(&mut worker).unwrap();
                steps += 1;
            }
            (session.total().clone(), session.objective().total())
        };
        let whole = run(usize::MAX);
        for stop in [1, 13, 25] {
            let resumed = run(stop);
            assert!(resumed.0 == whole.0, "{more}: other bits after {stop} steps");
            assert_eq!(resumed.1, whole.1, "{more}: another objective after {stop} steps");
        }
    }
}

#[test]
#[ignore = "needs a GPU"]
fn a_model_says_nothing_of_the_device() {
    let documents = corpus(200);
    let model: TopicModel =
        lsparse::topics::fit_topics(&documents, &config("cuda", json!({"topics": 10}))).unwrap().model;
    let written = serde_json::to_value(&model.config).unwrap();
    assert!(written.get("device").is_none_or(|device| device == "auto"), "{written}");
}

/// Documents are completed as on the CPU, to what single precision holds: few topics and many, learned alphas and those that
/// are too large for topics to leave, short documents, and the held-out scores of a training.
#[test]
#[ignore = "needs a GPU"]
fn documents_are_completed_as_on_the_cpu() {
    let (documents, test) = (corpus(1500), corpus(5000));
    for more in [
        json!({}),
        json!({"topics": 300, "estimate": "vb"}),
        json!({"topics": 30, "learn-alpha": "asymmetric"}),
        json!({"topics": 20, "alpha": 5.0}),
    ] {
        let config = config("cpu", more.clone());
        let model = lsparse::topics::fit_topics(&documents, &config).unwrap().model;
        let scores = |device: &str| {
            let place = model.place_of_scores(DeviceChoice::parse(device).unwrap(), &test).unwrap();
            assert_eq!(place.device.is_some(), device == "cuda");
            let (mut each, mut all) = (Vec::new(), Completion::default());
            let options = CompletionOptions::default();
            let visit = &mut |one: &Completion| {
                each.push(*one);
                all.add(one);
            };
            model.score_documents_at(&test, &options, &place, visit).unwrap();
            (each, all)
        };
        let (have, want, again) = (scores("cuda"), scores("cpu"), scores("cuda"));
        assert_eq!(have, again, "{more}: the same bits");
        let mut worst: f64 = 0.0;
        for (n, (a, b)) in have.0.iter().zip(&want.0).enumerate() {
            assert_eq!((a.tokens, a.documents, a.skipped), (b.tokens, b.documents, b.skipped), "{more}: document {n}");
            if b.documents > 0 {
                worst = worst.max((a.score() - b.score()).abs());
            }
        }
        println!("{more}: {} and {}, documents differ by {worst:.1e}", have.1.score(), want.1.score());
        assert!((have.1.score() - want.1.score()).abs() < 1e-5, "{more}");
        assert!(worst < 1e-2, "{more}: a document by {worst}");
    }
}

/// Documents have the topics that the CPU gives them, those too that the kernels leave and those without words.
#[test]
#[ignore = "needs a GPU"]
fn documents_are_assigned_as_on_the_cpu() {
    let documents = corpus(700);
    for estimate in ["map", "vb"] {
        let config = config("cpu", json!({"estimate": estimate}));
        let model = lsparse::topics::fit_topics(&documents, &config).unwrap().model;
        let at = |device: &str| {
            let place = model.place(DeviceChoice::parse(device).unwrap(), &documents).unwrap();
            assert_eq!(place.device.is_some(), device == "cuda");
            let mut all: Vec<Vec<(u32, f32)>> = Vec::new();
            let visit = &mut |n: usize, shares: &[(u32, f32)]| {
                assert_eq!(n, all.len());
                let mut shares = shares.to_vec();
                shares.sort_by_key(|share| share.0);
                all.push(shares);
                Ok(())
            };
            model.assign_at(&documents, &place, visit).unwrap();
            all
        };
        let (there, here) = (at("cuda"), at("cpu"));
        assert_eq!(there, at("cuda"), "the same bits again");
        let same = there.iter().zip(&here).filter(|(a, b)| {
            a.len() == b.len() && a.iter().zip(*b).all(|(a, b)| a.0 == b.0 && (a.1 - b.1).abs() < 1e-4)
        });
        // A decision may hang on the last bit of single precision.
        let same = same.count();
        println!("{estimate}: {same} of {} documents have the same topics", here.len());
        assert!(same + 5 >= here.len());
    }
}
