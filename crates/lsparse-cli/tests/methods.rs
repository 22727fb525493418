//! The compared methods as commands: they train, trace, score and save like the others, and refuse what is not theirs.

mod common;

use common::{Place, refused, with_planted};
use lsparse::LikelihoodKind;
use lsparse::synthetic::themed_corpus;
use predicates::prelude::*;
use predicates::str::contains;

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
        let last = place.steps("run.jsonl").pop().unwrap();
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
    refused(&place, &format!("{go_on} --history keep"), &["--history replace"]);
    place.lsparse(go_on).assert().success();
    place.lsparse("fit topics train -k 10 --method alias-lda --laps none --max-seconds 0.2 -q").assert().success();
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
    place.write("run.json", r#"{"topics": 5, "method": "svi-gibbs", "estimate": "map"}"#);
    refused(&place, "fit topics train --config run.json", &["estimate", "svi-gibbs"]);
    // The settings of a report name everything, and are taken as they are.
    let report = place.json("fit topics train -k 5 --method svi-gibbs --laps 1 --out m.safetensors --json -q");
    place.write("run.json", report["config"].to_string());
    place.lsparse("fit topics train --config run.json --out n.safetensors -q").assert().success();
    assert!(place.read("m.safetensors") == place.read("n.safetensors"));
    let go_on = "fit topics train --from m.safetensors --schedule stochastic --laps 1 --history";
    refused(&place, &format!("{go_on} keep"), &["history", "fade"]);
    place.lsparse(&format!("{go_on} replace -q")).assert().success();
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
    // Room for more clusters than there are rows is no mistake, and too little room is said.
    place.lsparse("fit mixture train.npy -k 3000 --method dp-means --penalty 1e9 -q").assert().success();
    let full = "fit mixture train.npy -k 3 --method dp-means --penalty 1e-3 --laps 2";
    place.lsparse(full).assert().success().stderr(contains("all of the 3 clusters"));
}

#[test]
fn centres_have_as_many_parameters_as_they_have() {
    let (place, _) = with_planted(LikelihoodKind::DiagGauss, 300, 50, 4, 5);
    place.lsparse("fit mixture train.npy -k 5 --method kmeans --out m.safetensors -q").assert().success();
    let score = place.json("score m.safetensors test.npy --json");
    let number = |name: &str| score[name].as_f64().unwrap();
    // Five centres of four coordinates, and one variance.
    assert!((number("aic") - 2.0 * 21.0 + 2.0 * 50.0 * number("mean_log_likelihood")).abs() < 1e-6, "{score}");
}

/// Full laps alone tell whether sparse EM has come to rest: between them it may have nothing to renew.
#[test]
fn sparse_em_rests_where_full_laps_do() {
    let (place, _) = with_planted(LikelihoodKind::DiagGauss, 900, 10, 4, 8);
    // Under a strong prior, since hard clusters of weak ones crawl on for hundreds of laps.
    let fit = "fit mixture train.npy -k 8 --likelihood diag-gauss --method sparse-em -l 1 --seed 3 --laps 400 \
               --prior-shape isotropic --prior-scale 0.1 --nu 12 --json -q";
    let (rest, long) = (place.json(fit), place.json(&format!("{fit} --tolerance none")));
    assert_eq!(rest["stopped_by"], "tolerance");
    assert_eq!(rest["laps"].as_u64().unwrap() % 5, 1, "{rest}");
    let (rest, long) = (rest["objective"].as_f64().unwrap(), long["objective"].as_f64().unwrap());
    assert!((rest - long).abs() < 1e-3 * long.abs(), "{rest} and {long}");
}

#[test]
fn hard_methods_go_on_from_models_that_keep_more() {
    let (place, _) = with_planted(LikelihoodKind::Gauss, 300, 10, 4, 3);
    place.lsparse("fit mixture train.npy -k 3 -l 2 --out m.safetensors -q").assert().success();
    place.lsparse("fit mixture train.npy --from m.safetensors --method hard-em -q").assert().success();
    let go_on = "fit mixture train.npy --from m.safetensors --method kmeans";
    refused(&place, go_on, &["the model to start from is gauss", "start from centres"]);
    place.lsparse("fit mixture train.npy -k 3 --method kmeans --out c.safetensors -q").assert().success();
    place.lsparse("fit mixture train.npy --from c.safetensors --method kmeans -q").assert().success();
}

#[test]
fn mixture_options_of_other_methods_are_refused() {
    let (place, _) = with_planted(LikelihoodKind::DiagGauss, 60, 10, 4, 2);
    let fit = "fit mixture train.npy -k 2 --out m.safetensors --method";
    refused(&place, &format!("{fit} kmeans --likelihood gauss"), &["likelihood", "kmeans"]);
    refused(&place, &format!("{fit} hard-em -l K"), &["sparsity", "hard-em"]);
    refused(&place, &format!("{fit} hard-em --estimate vb"), &["estimate", "vb means nothing to --method hard-em"]);
    refused(&place, &format!("{fit} lsparse --refresh 2"), &["refresh", "sparse-em"]);
    refused(
        &place,
        &format!("{fit} lsparse --estimate ml --trades on"),
        &["trades: on means nothing to --estimate ml"],
    );
    refused(&place, &format!("{fit} lsparse --schedule stochastic --trades on"), &["trades", "memoized or full"]);
    place.lsparse(&format!("{fit} lsparse --estimate ml --trades off -q")).assert().success();
    refused(&place, &format!("{fit} dp-means --init examples"), &["init", "dp-means"]);
    refused(&place, &format!("{fit} kmeans --penalty 3"), &["penalty", "dp-means"]);
    refused(&place, &format!("{fit} truncation --likelihood zero-mean-gauss"), &["selection-function"]);
    refused(&place, &format!("{fit} dp-means --schedule stochastic"), &["schedule"]);
    refused(&place, &format!("{fit} sparse-em --refresh 0"), &["refresh", "at least 1"]);
    refused(&place, &format!("{fit} dp-means --penalty 0"), &["penalty"]);
    refused(
        &place,
        &format!("{fit} truncation --selection-function products"),
        &["gauss clusters have no probabilities"],
    );
    for file in
        [r#"{"method": "kmeans", "penalty": 4}"#, r#"{"refresh": 9}"#, r#"{"method": "hard-em", "threshold": 0.5}"#]
    {
        place.write("run.json", file);
        refused(&place, "fit mixture train.npy -k 2 --config run.json", &["it means nothing to --method"]);
    }
}
