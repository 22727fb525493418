//! `fit -k auto` and `merge`: K as it is found, said and saved, and clusters and topics that a trained model can spare.

mod common;

use common::{Place, with_planted};
use lsparse::LikelihoodKind;
use lsparse::synthetic::themed_corpus;
use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;
use serde_json::Value;

fn json(output: &[u8]) -> Value {
    serde_json::from_slice(output).unwrap()
}

#[test]
fn the_number_of_clusters_is_found_and_said() {
    let (place, _) = with_planted(LikelihoodKind::Gauss, 1500, 10, 4, 5);
    let run = "fit mixture train.npy -k auto --out m.safetensors --trace t.jsonl";
    let found =
        place.lsparse(run).assert().success().stdout(contains("found lap by lap: ")).stdout(contains("no split"));
    found.stderr(contains("K to be found from 10 on, at most 1000"));
    place.lsparse("info m.safetensors").assert().success().stdout(contains("a mixture of 5 gauss clusters"));
    let trace = std::fs::read_to_string(place.path("t.jsonl")).unwrap();
    assert!(trace.contains(r#""kind":"merge""#) && trace.contains(r#""clusters":5.0"#));
    // The same by a file of settings, and from one cluster.
    std::fs::write(place.path("s.json"), r#"{"clusters": "auto", "k-start": 1}"#).unwrap();
    let report = place.lsparse("fit mixture train.npy --config s.json --json").assert().success();
    assert_eq!(json(&report.get_output().stdout)["clusters"], 5);
    // On from there with K as it is; a number wins over what a file says.
    place.lsparse("fit mixture train.npy --from m.safetensors --laps 2 --out n.safetensors").assert().success();
    let report = place.lsparse("fit mixture train.npy --config s.json -k 3 --k-start none --json").assert().success();
    assert_eq!(json(&report.get_output().stdout)["clusters"], 3);
    let most = place.lsparse("fit mixture train.npy -k auto --k-max 3").assert().success();
    most.stdout(contains("3 is the most that was allowed"));
    for (most, reached) in [(3, true), (30, false)] {
        let run = format!("fit mixture train.npy -k auto --k-start 2 --k-max {most} --trace t.jsonl --json -q");
        assert_eq!(place.json(&run)["k_max_reached"], reached);
        assert_eq!(place.steps("t.jsonl").last().unwrap()["k_max_reached"], f64::from(u8::from(reached)));
    }
    assert!(place.json("fit mixture train.npy -k 3 --laps 2 --json -q")["k_max_reached"].is_null());
    place
        .lsparse("fit mixture train.npy -k auto --estimate ml")
        .assert()
        .code(2)
        .stderr(contains("gains with every cluster"));
    place.lsparse("fit mixture train.npy -k some").assert().code(2).stderr(contains("or auto"));
    place.lsparse("fit mixture train.npy -k 3 --k-max 9").assert().code(2).stderr(contains("-k auto"));
}

/// What contradicts a K that is found or means nothing to it is refused, and the settings of a report repeat its run.
#[test]
fn settings_of_a_found_k_hold_or_are_refused() {
    let (place, _) = with_planted(LikelihoodKind::DiagGauss, 600, 6, 8, 5);
    let refused = |options: &str, word: &'static str| {
        let run = format!("fit mixture train.npy --likelihood diag-gauss {options}");
        place.lsparse(&run).assert().code(2).stderr(contains(word));
    };
    refused("-k auto --alpha 3", "--gamma");
    refused("-k auto --find-k=off", "it is off");
    refused("--find-k=off", "the number of clusters is not given");
    let run = "fit mixture train.npy --likelihood diag-gauss --find-k --json --out m.safetensors";
    let report = json(&place.lsparse(run).assert().success().get_output().stdout);
    assert_eq!(report["clusters"], 5);
    place.write("again.json", report["config"].to_string());
    place.lsparse("fit mixture train.npy --config again.json --out n.safetensors").assert().success();
    assert!(std::fs::read(place.path("m.safetensors")).unwrap() == std::fs::read(place.path("n.safetensors")).unwrap());
    // On from there, K as it is and K to be found.
    for options in ["", "-k auto"] {
        let run = format!("fit mixture train.npy --from m.safetensors {options} --json");
        assert_eq!(json(&place.lsparse(&run).assert().success().get_output().stdout)["clusters"], 5, "{options}");
    }
}

/// Options win over a file that says another K, or what goes with it.
#[test]
fn options_win_over_the_k_of_a_file() {
    let (place, _) = with_planted(LikelihoodKind::DiagGauss, 600, 6, 8, 5);
    let asked = |file: &str, options: &str| {
        place.write("s.json", file);
        let run = format!("fit mixture train.npy --likelihood diag-gauss --laps 2 --config s.json {options} --json -q");
        let config = place.json(&run)["config"].clone();
        (config["find-k"] == true, config["k-start"].as_u64(), config["clusters"].as_u64(), config["trades"] == true)
    };
    let auto = r#"{"clusters": "auto", "k-start": 7, "k-max": 40, "gamma": 2}"#;
    assert_eq!(asked(auto, "-k 3"), (false, None, Some(3), true));
    assert_eq!(asked(r#"{"find-k": true, "clusters": 9, "k-start": 7}"#, "-k 3"), (false, None, Some(3), true));
    assert_eq!(asked(auto, "--find-k=off -k 4").2, Some(4));
    let (found, start, ..) = asked(auto, "--k-start 5");
    assert_eq!((found, start), (true, Some(5)));
    let number = r#"{"clusters": 20, "trades": true}"#;
    let (found, start, _, trades) = asked(number, "-k auto");
    // (One for twenty rows, where there would be 100.)
    assert_eq!((found, start, trades), (true, Some(30), false));
    assert_eq!(asked(number, "--trades off"), (false, None, Some(20), false));
    assert_eq!(asked(number, "--estimate map"), (false, None, Some(20), false));
    // What contradicts itself is refused as ever.
    place.write("s.json", r#"{"clusters": 20, "k-start": 3}"#);
    place.lsparse("fit mixture train.npy --config s.json").assert().code(2).stderr(contains("-k auto"));
    place.write("s.json", r#"{"clusters": "auto"}"#);
    place.lsparse("fit mixture train.npy --config s.json --trades on").assert().code(2).stderr(contains("--find-k on"));
}

/// The settings of a trace are what was asked for, and give the run again.
#[test]
fn the_settings_of_a_trace_repeat_its_run() {
    let (place, _) = with_planted(LikelihoodKind::Gauss, 600, 6, 3, 5);
    place.lsparse("fit mixture train.npy -k auto --out m.safetensors --trace t.jsonl").assert().success();
    let beginning: Value = serde_json::from_str(place.text("t.jsonl").lines().next().unwrap()).unwrap();
    assert_eq!(beginning["settings"]["prior-scale"], Value::Null);
    place.write("again.json", beginning["settings"].to_string());
    place.lsparse("fit mixture train.npy --config again.json --out n.safetensors").assert().success();
    assert!(place.read("m.safetensors") == place.read("n.safetensors"));
}

/// Columns of few different values, and such as are there twice, mislead who finds K by Gaussians: that is said, and nothing
/// of ordinary ones.
#[test]
fn columns_that_mislead_are_remarked_on() {
    let (place, truth) = with_planted(LikelihoodKind::Gauss, 800, 6, 3, 4);
    let said = |file: &str, k: &str| {
        let run = place.lsparse(&format!("fit mixture {file} -k {k} --laps 2")).assert().success();
        String::from_utf8(run.get_output().stderr.clone()).unwrap()
    };
    let ordinary = said("train.npy", "auto");
    assert!(!ordinary.contains("warning: column"), "{ordinary}");
    let pixels: Vec<f64> = truth.values.iter().map(|value| value.round().clamp(0.0, 3.0)).collect();
    place.npy("pixels.npy", 3, &pixels);
    let note = "columns 1, 2, 3 are of 4 different values or fewer";
    assert!(said("pixels.npy", "auto").contains(note) && !said("pixels.npy", "5").contains(note));
    let twice: Vec<f64> = truth.values.chunks_exact(3).flat_map(|row| [row[0], row[1], row[2], row[1], 7.0]).collect();
    place.npy("twice.npy", 5, &twice);
    let notes = said("twice.npy", "auto");
    assert!(
        notes.contains("column 4 is another column once more") && notes.contains("column 5 is the same"),
        "{notes}"
    );
}

/// How many trades were made, and what they gained.
#[test]
fn trades_are_reported() {
    let (place, _) = with_planted(LikelihoodKind::DiagGauss, 3000, 6, 10, 8);
    // A start that leaves something to be traded.
    let run = |seed: u64| format!("fit mixture train.npy --likelihood diag-gauss -k 8 --init examples --seed {seed}");
    let report = |seed: u64| place.json(&format!("{} --trace t.jsonl --json -q", run(seed)));
    let (seed, report) =
        (0..8).map(|seed| (seed, report(seed))).find(|(_, report)| !report["trades"].is_null()).unwrap();
    let of_step = |step: &Value| step["moves"].as_array().cloned().unwrap_or_default();
    let moves: Vec<Value> = place.steps("t.jsonl").iter().flat_map(of_step).collect();
    let gain: f64 = moves.iter().map(|change| change["gain"].as_f64().unwrap()).sum();
    assert!(!moves.is_empty() && report["trades"] == moves.len(), "{report}");
    assert!((report["trades_gain"].as_f64().unwrap() - gain).abs() < 1e-6);
    let run = run(seed);
    let said = place.stdout(&run);
    assert!(said.contains(&format!("trades      {}, gaining ", moves.len())), "{said}");
    let without = format!("{run} --trades off");
    assert!(place.json(&format!("{without} --json -q"))["trades"].is_null());
    assert!(!place.stdout(&without).contains("trades"));
}

#[test]
fn clusters_that_can_be_spared_are_named_and_merged() {
    let (place, _) = with_planted(LikelihoodKind::Gauss, 1500, 10, 4, 5);
    place.lsparse("fit mixture train.npy -k 9 --out m.safetensors").assert().success();
    let listed = place.lsparse("merge m.safetensors train.npy --json").assert().success();
    let listed = json(&listed.get_output().stdout);
    assert!(listed["suggestions"][0]["gain"].as_f64().unwrap() > 0.0, "{listed}");
    place
        .lsparse("merge m.safetensors train.npy --out f.safetensors")
        .assert()
        .success()
        .stdout(contains("changes that gain"));
    let info = place.json("info f.safetensors --json");
    assert_eq!(info["clusters"], listed["clusters_after"]);
    // What was done is told, and the model says it.
    let made = listed["made"].as_array().unwrap();
    let gain: f64 = made.iter().map(|change| change["gain"].as_f64().unwrap()).sum();
    assert_eq!(made.len() as u64, listed["changes"].as_u64().unwrap());
    assert!(gain > 0.0 && (info["merged"]["gain"].as_f64().unwrap() - gain).abs() < 1e-9 * gain, "{info}");
    let merged = ["from", "to", "changes"].map(|name| info["merged"][name].as_u64());
    assert_eq!(merged, [Some(9), info["clusters"].as_u64(), listed["changes"].as_u64()]);
    assert!(place.stdout("info f.safetensors").contains("merged      from 9 clusters to "));
    assert!(
        !place.stdout("info m.safetensors").contains("merged")
            && place.json("info m.safetensors --json")["merged"].is_null()
    );
    place.lsparse("score f.safetensors train.npy").assert().success();
    // Nothing is left that would gain.
    let again = place.lsparse("merge f.safetensors train.npy --json").assert().success();
    assert_eq!(json(&again.get_output().stdout)["changes"], 0);
    let said = place.stdout("merge f.safetensors train.npy");
    let losses = said.lines().filter(|line| line.contains("merge ") || line.contains("give up ")).count();
    assert!(said.starts_with("no change gains: ") && losses > 0 && losses <= 3, "{said}");
    // Other rows are told by their objective where there are as many; weights and rows of one cluster each are said.
    let (other, _) = with_planted(LikelihoodKind::Gauss, 1500, 10, 4, 99);
    std::fs::copy(other.path("train.npy"), place.path("other.npy")).unwrap();
    let refused = || contains("they are others; give those that it was trained on, or --other-data");
    place.lsparse("merge m.safetensors other.npy --out o.safetensors").assert().code(2).stderr(refused());
    place.lsparse("merge m.safetensors other.npy").assert().success().stderr(contains("they are others"));
    // An objective that is an estimate tells nothing.
    place.lsparse("fit mixture train.npy -k 9 --schedule stochastic --out s.safetensors").assert().success();
    place.lsparse("merge s.safetensors other.npy").assert().success().stderr(contains("they are others").not());
    place.write("w.csv", "0.4\n0.8\n".repeat(750));
    place.lsparse("fit mixture train.npy -k 9 --row-weights w.csv --out w.safetensors").assert().success();
    place.lsparse("merge w.safetensors train.npy").assert().code(2).stderr(contains("with weights of rows"));
    place.lsparse("fit mixture train.npy -k 9 -l 1 --out l.safetensors").assert().success();
    place.lsparse("merge l.safetensors train.npy").assert().success().stderr(contains("rows keep one cluster"));
    place.lsparse("fit mixture train.npy -k 4 --estimate ml --out ml.safetensors").assert().success();
    place.lsparse("merge ml.safetensors train.npy").assert().code(2).stderr(contains("train with vb"));
}

/// Of topics too, by documents as a corpus or as text; what each change concerns is shown by words.
#[test]
fn topics_that_can_be_spared_are_named_and_merged() {
    let place = Place::new();
    let truth = themed_corpus(500, 5);
    place.write("train.txt", truth.text(0..500));
    place.lsparse("corpus build train.txt --max-share 1 --out train -q").assert().success();
    place.lsparse("fit topics train -k 60 --laps 6 --out m.safetensors -q").assert().success();
    let listed = place.json("merge m.safetensors train --json --top 60");
    let gains: Vec<f64> =
        listed["suggestions"].as_array().unwrap().iter().map(|change| change["gain"].as_f64().unwrap()).collect();
    assert!(gains.is_sorted_by(|a, b| a >= b) && gains[0] > 0.0 && gains.len() <= 60, "{gains:?}");
    let (before, after) = (listed["clusters"].as_u64().unwrap(), listed["clusters_after"].as_u64().unwrap());
    assert!(before == 60 && (20..45).contains(&after), "{after} of {before}, 24 themes");
    assert_eq!(listed["changes"].as_u64().unwrap(), before - after);
    let said = place.stdout("merge m.safetensors train --out f.safetensors");
    assert!(said.contains(&format!("{after} of 60 topics left by")) && said.contains(" ("), "{said}");
    let info = place.json("info f.safetensors --json");
    assert_eq!((info["topics"].as_u64().unwrap(), info["merged"]["from"].as_u64().unwrap()), (after, 60));
    assert!(place.stdout("info f.safetensors").contains(&format!("merged      from 60 topics to {after} by")));
    // The same of the text, with any number of threads, and nothing more can go.
    place.lsparse("merge m.safetensors train.txt --threads 3 --out g.safetensors").assert().success();
    assert!(place.read("f.safetensors") == place.read("g.safetensors"));
    assert_eq!(place.json("merge f.safetensors train --json")["changes"], 0);
    assert!(place.stdout("merge f.safetensors train").starts_with("no change gains: "));
    // It is a model like any other.
    place.lsparse("score f.safetensors train").assert().success();
    place.lsparse("fit topics train --from f.safetensors --laps 2 --out h.safetensors -q").assert().success();
    assert!(place.json("info h.safetensors --json")["merged"].is_null());
    // A model alone does not say it.
    place.lsparse("merge m.safetensors").assert().code(2).stderr(contains("none are given"));
    place.lsparse("merge m.safetensors train --out train").assert().code(2);
    // Of other documents than those that it was trained on a model is written only where that is asked for.
    place.write("some.txt", truth.text(0..400));
    place.lsparse("merge m.safetensors some.txt --out s.safetensors").assert().code(2).stderr(contains("--other-data"));
    place.lsparse("merge m.safetensors some.txt --out s.safetensors --other-data").assert().success();
    place.write("one.txt", truth.text(0..1));
    place.lsparse("merge m.safetensors one.txt").assert().code(2).stderr(contains("two documents"));
}

/// With one document there is nothing to judge more topics than one by.
#[test]
fn one_document_has_one_topic() {
    let place = Place::new();
    place.write("one.txt", "word\n");
    place.lsparse("corpus build one.txt --min-docs 1 --max-share 1 --out one -q").assert().success();
    let run = place.lsparse("fit topics one -k auto --out m.safetensors").assert().success();
    run.stderr(contains("one document"));
    assert_eq!(place.json("info m.safetensors --json")["topics"], 1);
    place.lsparse("topics m.safetensors").assert().success();
    place.lsparse("fit topics one -k auto --k-start 2").assert().code(2).stderr(contains("ask for fewer"));
}

/// L of a model that kept all of its few clusters or topics says nothing of more, and what is refused has a remedy that is
/// not refused.
#[test]
fn from_few_to_as_many_as_there_are() {
    let (place, _) = with_planted(LikelihoodKind::DiagGauss, 600, 6, 8, 5);
    let truth = themed_corpus(400, 5);
    place.write("train.txt", truth.text(0..400));
    place.lsparse("corpus build train.txt --max-share 1 --out train -q").assert().success();
    let settings = |run: &str| place.json(&format!("{run} --laps 3 --json -q"))["config"].clone();
    for start in ["fit mixture train.npy --likelihood diag-gauss", "fit topics train"] {
        place.lsparse(&format!("{start} -k 1 --out one.safetensors -q")).assert().success();
        let on = format!("{start} --from one.safetensors -k auto");
        assert_ne!(settings(&on)["sparsity"], 1, "{on}");
        assert_eq!(settings(&format!("{on} --sparsity 1"))["sparsity"], 1, "{on}");
        place.lsparse(&format!("{start} -k 6 --laps 2 --out six.safetensors -q")).assert().success();
        let refused = place.lsparse(&format!("{start} --from six.safetensors -k auto --k-max 5")).assert().code(2);
        let said = String::from_utf8(refused.get_output().stderr.clone()).unwrap();
        assert!(said.contains("give a larger one") && !said.contains("--k-start"), "{said}");
    }
    assert_eq!(place.json("fit topics train -k auto --k-start 2 --k-max 3 --laps 8 --json -q")["k_max_reached"], true);
}
