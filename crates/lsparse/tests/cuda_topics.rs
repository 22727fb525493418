//! Topics on a GPU against the CPU. These tests need one: `cargo xtask cuda test`.

use lsparse::Session;
use lsparse::data::CsrRows;
use lsparse::runs::Family;
use lsparse::settings::TopicsConfig;
use lsparse::topics::TopicModel;
use lsparse::topics::score::{CompletionOptions, completion};
use lsparse::topics::{TopicFamily, TopicInputs, TopicSummary, Topics, WordStats};
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
    completion(&topics, &session.params().alpha, test, &CompletionOptions::default()).unwrap().score()
}

fn close(a: f64, b: f64, what: &str) {
    assert!((a - b).abs() <= 1e-5 * b.abs().max(1.0), "{what}: {a} on the GPU, {b} on the CPU");
}

/// The largest difference of mass, where statistics are of the same documents.
fn difference(have: &TopicSummary, want: &TopicSummary) -> f64 {
    let (WordStats::Batch(a), WordStats::Batch(b)) = (&have.words, &want.words) else { panic!("not of a batch") };
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

#[test]
#[ignore = "needs a GPU"]
fn a_model_says_nothing_of_the_device() {
    let documents = corpus(200);
    let model: TopicModel =
        lsparse::topics::fit_topics(&documents, &config("cuda", json!({"topics": 10}))).unwrap().model;
    let written = serde_json::to_value(&model.config).unwrap();
    assert!(written.get("device").is_none_or(|device| device == "auto"), "{written}");
}
