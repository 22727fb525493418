//! The compared methods as commands: they train, trace, score and save like the others, and refuse what is not theirs.

mod common;

use common::{Place, refused, with_planted};
use lsparse::LikelihoodKind;
use lsparse::synthetic::themed_corpus;
use predicates::prelude::*;
use predicates::str::contains;
use serde_json::Value;

/// Documents about known themes as corpora.
fn with_corpora() -> Place {
    let place = Place::new();
    let truth = themed_corpus(300, 5);
    place.write("train.txt", truth.text(0..260));
    place.write("test.txt", truth.text(260..300));
    place.lsparse("corpus build train.txt --max-share 1 --out train -q").assert().success();
    place.lsparse("corpus build test.txt --min-docs 1 --max-share 1 --out test -q").assert().success();
    place
}

#[test]
fn topics_by_every_method() {
    let place = with_corpora();
    let fit = "fit topics train -k 28 --heldout test --seed 1";
    let reference = place.json(&format!("{fit} --laps 8 --json -q"))["heldout"].as_f64().unwrap();
    for (method, laps) in [("sparse-lda", 60), ("alias-lda", 60), ("light-lda", 90), ("svi-gibbs", 15)] {
        let run = format!("{fit} --method {method} --laps {laps} --out m.safetensors --trace run.jsonl --json");
        let report = place.json(&format!("{run} -q"));
        assert_eq!(report["config"]["method"], method);
        let score = report["heldout"].as_f64().unwrap();
        assert!(score > reference - 0.25, "{method}: {score} against {reference}");
        // The trace, and the model scored by itself.
        let trace = place.text("run.jsonl");
        let last: Value = serde_json::from_str(trace.lines().last().unwrap()).unwrap();
        assert_eq!(last["heldout"].as_f64(), Some(score));
        assert!(last["active_topics"].as_f64().unwrap() >= 1.0);
        let again = place.json("score m.safetensors test --json");
        assert!((again["mean_log_probability"].as_f64().unwrap() - score).abs() < 1e-6);
        place.lsparse("assign m.safetensors test").assert().success().stdout(contains("document,topic,share"));
        // The same file with any number of threads.
        let bytes = place.read("m.safetensors");
        place.lsparse(&format!("{run} --threads 3 -q")).assert().success();
        assert!(bytes == place.read("m.safetensors"), "{method}");
    }
    place
        .lsparse("fit topics train -k 10 --method light-lda --laps 2")
        .assert()
        .success()
        .stdout(contains("topics each").and(contains("% accepted")))
        .stderr(contains("K = 10, light-lda"));
    let go_on = "fit topics train --from m.safetensors --method sparse-lda --laps 2 --out n.safetensors -q";
    refused(&place, go_on, &["--history replace"]);
    place.lsparse(&format!("{go_on} --history replace")).assert().success();
    place.lsparse("fit topics train -k 10 --method alias-lda --laps 0 --max-seconds 0.2 -q").assert().success();
}

#[test]
fn topic_options_of_other_methods_are_refused() {
    let place = with_corpora();
    let fit = "fit topics train -k 5 --out m.safetensors --method";
    refused(&place, &format!("{fit} sparse-lda -l 2"), &["sparsity", "sparse-lda", "lsparse"]);
    refused(&place, &format!("{fit} sparse-lda --mh-steps 2"), &["mh-steps", "alias-lda or light-lda"]);
    refused(&place, &format!("{fit} light-lda --tolerance 1e-3"), &["tolerance"]);
    refused(&place, &format!("{fit} svi-gibbs --schedule memoized"), &["schedule"]);
    refused(&place, &format!("{fit} lsparse --samples 5"), &["samples", "svi-gibbs"]);
    refused(&place, &format!("{fit} svi-gibbs --samples 1"), &["samples", "burn-in"]);
    place.write("seeds.txt", "star planet\n");
    refused(&place, &format!("{fit} alias-lda --seed-words seeds.txt"), &["seed-words"]);
}

#[test]
fn mixtures_by_every_method() {
    let (place, _) = with_planted(LikelihoodKind::DiagGauss, 600, 100, 4, 5);
    let fit = "fit mixture train.npy -k 5 --heldout test.npy --laps 15";
    let reference = place.json(&format!("{fit} --likelihood diag-gauss --json -q"))["heldout"].as_f64().unwrap();
    let runs = [
        ("sparse-em", "--likelihood diag-gauss -l 2 --refresh 3"),
        ("truncation", "--likelihood diag-gauss -l 2 --selection-function means"),
        ("hard-em", "--likelihood diag-gauss --estimate ml"),
        ("kmeans", ""),
        ("dp-means", ""),
    ];
    for (method, options) in runs {
        let run = format!("{fit} --method {method} {options} --out m.safetensors --trace run.jsonl --json -q");
        let report = place.json(&run);
        assert_eq!(report["config"]["method"], method);
        let score = report["heldout"].as_f64().unwrap();
        let margin = if options.is_empty() { 4.0 } else { 0.5 };
        assert!(score > reference - margin, "{method}: {score} against {reference}");
        let again = place.json("score m.safetensors test.npy --json");
        assert!((again["mean_log_likelihood"].as_f64().unwrap() - score).abs() < 1e-6, "{again}");
        place.lsparse("assign m.safetensors test.npy").assert().success();
        assert!(place.text("run.jsonl").lines().count() > 1);
    }
    let open = place.json(&format!("{fit} --method dp-means --penalty 1e9 --json -q"));
    assert_eq!(open["clusters"], 1);
}

#[test]
fn mixture_options_of_other_methods_are_refused() {
    let (place, _) = with_planted(LikelihoodKind::DiagGauss, 60, 10, 4, 2);
    let fit = "fit mixture train.npy -k 2 --out m.safetensors --method";
    refused(&place, &format!("{fit} kmeans --likelihood gauss"), &["likelihood", "kmeans"]);
    refused(&place, &format!("{fit} hard-em -l K"), &["sparsity", "hard-em"]);
    refused(&place, &format!("{fit} hard-em --estimate vb"), &["estimate", "map or ml"]);
    refused(&place, &format!("{fit} lsparse --refresh 2"), &["refresh", "sparse-em"]);
    refused(&place, &format!("{fit} dp-means --init examples"), &["init", "dp-means"]);
    refused(&place, &format!("{fit} kmeans --penalty 3"), &["penalty", "dp-means"]);
    refused(&place, &format!("{fit} truncation --likelihood zero-mean-gauss"), &["selection-function"]);
    refused(&place, &format!("{fit} dp-means --schedule stochastic"), &["schedule"]);
    refused(&place, &format!("{fit} sparse-em --refresh 0"), &["refresh", "at least 1"]);
}
