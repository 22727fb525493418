//! Training, scoring, assigning and looking at models, as a person does it.

mod common;

use std::io::Write;

use common::{Place, csv, refused, with_planted};
use lsparse::data::{Rows, read_csr_npz, write_csr_npz};
use lsparse::open::{OpenOptions, read_column};
use lsparse::synthetic::{dead_leaves, planted};
use lsparse::{LikelihoodKind, MixtureModel};
use predicates::prelude::*;
use predicates::str::contains;
use serde_json::Value;

#[test]
fn from_a_file_to_a_scored_model() {
    let (place, _) = with_planted(LikelihoodKind::Gauss, 600, 200, 3, 4);
    place
        .lsparse("fit mixture train.npy -k 4 -l 2 --batches 3 --heldout test.npy --out m.safetensors --trace run.jsonl")
        .assert()
        .success()
        .stdout(contains("stopped").and(contains("objective")).and(contains("entropy")).and(contains("held-out")))
        .stdout(contains("rows/s").and(contains("empty")).and(contains("m.safetensors")))
        .stderr(contains("600 rows of 3 columns").and(contains("lap 1/100")));
    assert_eq!(place.files(), ["m.safetensors", "run.jsonl", "test.npy", "train.npy"]);

    let lines = place.steps("run.jsonl");
    assert!(lines.len() >= 6);
    for key in
        ["lap", "step", "seconds", "cpu_seconds", "objective", "objective_data", "objective_entropy", "objective_alloc"]
    {
        assert!(lines.iter().all(|line| line[key].is_number()), "{key}");
    }
    assert!(lines.last().unwrap()["heldout"].is_number() && lines[0].get("heldout").is_none());

    place.lsparse("score m.safetensors test.npy").assert().success().stdout(contains("mean log likelihood"));
    let score = place.json("score m.safetensors test.npy --json --per-row rows.csv");
    assert_eq!(score["rows"], 200);
    assert!(score["bic"].is_null(), "a posterior has no BIC");
    let traced = lines.last().unwrap()["heldout"].as_f64().unwrap();
    assert!((score["mean_log_likelihood"].as_f64().unwrap() - traced).abs() < 1e-9);
    let per_row = place.text("rows.csv");
    assert!(per_row.starts_with("row,log_likelihood\n0,") && per_row.lines().count() == 201);
    place.lsparse("score m.safetensors test.npy --per-row rows.npy").assert().success();
    assert_eq!(
        lsparse::data::NpyRows::open(&place.path("rows.npy")).map(|r| lsparse::data::RowSource::num_rows(&r)).unwrap(),
        200
    );

    place
        .lsparse("info m.safetensors")
        .assert()
        .success()
        .stdout(contains("4 gauss clusters over 3 columns").and(contains("L = 2 of K = 4")).and(contains("|mean|")));
    let info = place.json("info m.safetensors --json --top 2");
    assert_eq!(info["largest"].as_array().unwrap().len(), 2);
    assert_eq!(info["config"]["clusters"], 4);
}

/// Many clusters of few rows, which training data like better and better and others do not.
const OVERFITTING: &str = "fit mixture train.npy -k 25 --likelihood diag-gauss --estimate ml --batches 2 --tolerance 0 \
                           --laps 60 --init responsibilities --sparsity 25 -q";

/// Held-out scores of the laps of a trace.
fn lap_scores(place: &Place, trace: &str) -> Vec<f64> {
    let laps = place.steps(trace).into_iter().filter(|step| step["ends_lap"] == true);
    laps.map(|step| step["heldout"].as_f64().unwrap()).collect()
}

#[test]
fn early_stopping_keeps_the_lap_that_scored_best() {
    let (place, _) = with_planted(LikelihoodKind::DiagGauss, 200, 300, 4, 3);
    let fit = format!("{OVERFITTING} --heldout test.npy --trace run.jsonl --out m.st --json");
    let whole = place.json(&fit);
    let scores = lap_scores(&place, "run.jsonl");
    let best = (0..scores.len()).max_by(|&a, &b| scores[a].total_cmp(&scores[b]).then(b.cmp(&a))).unwrap();
    assert!(best > 0 && best + 5 < scores.len(), "lap {best} of {scores:?} is no example");
    assert_eq!((whole["laps"].as_u64(), whole.get("laps_done")), (Some(60), None));
    // The rule ends the run so many laps after the best one, and the model is that of the best.
    let stopped = place.json(&format!("{fit} --early-stopping 5"));
    let seen = lap_scores(&place, "run.jsonl");
    let waits = |laps: &[f64]| laps[laps.len() - 5..].iter().all(|&score| score <= laps[laps.len() - 6]);
    assert!(waits(&seen) && seen == scores[..seen.len()]);
    let kept = seen.len() - 5;
    assert_eq!((&stopped["stopped_by"], &stopped["laps"]), (&"early-stopping".into(), &kept.into()));
    assert_eq!((&stopped["converged"], &stopped["laps_done"]), (&true.into(), &seen.len().into()));
    assert_eq!(stopped["heldout"].as_f64().unwrap(), seen[kept - 1]);
    let scored = place.json("score m.st test.npy --json");
    assert!((scored["mean_log_likelihood"].as_f64().unwrap() - seen[kept - 1]).abs() < 1e-9);
    // Whatever ends the run, the best lap is kept.
    let limited = place.json(&format!("{} --early-stopping 100", fit.replace("--laps 60", "--laps 40")));
    let seen = lap_scores(&place, "run.jsonl");
    assert_eq!(limited["stopped_by"], "laps");
    assert_eq!(limited["heldout"].as_f64().unwrap(), seen.iter().copied().fold(f64::MIN, f64::max));
    place
        .lsparse(&format!("{} --heldout test.npy --early-stopping 5", OVERFITTING.replace(" -q", "")))
        .assert()
        .success()
        .stdout(contains("stopped     the held-out score did not rise over 5 laps"))
        .stdout(contains(format!("kept        the model of lap {kept} of {}, which scored best", kept + 5)));
    place
        .lsparse(&format!("{OVERFITTING} --early-stopping 5"))
        .assert()
        .failure()
        .stderr(contains("give --heldout too"));
    place.write("run.json", "{\"early-stopping\": 5}");
    refused(&place, &format!("{OVERFITTING} --config run.json"), &["no held-out rows to stop by; give --heldout too"]);
}

#[test]
fn the_best_lap_is_kept_across_checkpoints() {
    let (place, _) = with_planted(LikelihoodKind::DiagGauss, 200, 300, 4, 3);
    let fit = format!("{OVERFITTING} --heldout test.npy --early-stopping 5");
    place.lsparse(&format!("{fit} --out whole.st")).assert().success();
    // Ended by laps before and after the best lap, and gone on with.
    for laps in [1, 12] {
        let part = format!("{} --checkpoint run.ckpt --resume", fit.replace("--laps 60", &format!("--laps {laps}")));
        place.lsparse(&format!("{part} --out part.st")).assert().success();
    }
    place.lsparse(&format!("{fit} --checkpoint run.ckpt --resume --out pieces.st")).assert().success();
    assert!(place.read("pieces.st") == place.read("whole.st"));
    let fewer = fit.replace("--early-stopping 5", "--early-stopping 2");
    refused(&place, &format!("{fewer} --checkpoint run.ckpt --resume"), &["has waited for 5 laps; give 5 or more"]);
    // What was not kept from the start cannot be kept later.
    let plain = fit.replace("--early-stopping 5", "").replace("--laps 60", "--laps 3");
    place.lsparse(&format!("{plain} --checkpoint plain.ckpt")).assert().success();
    refused(&place, &format!("{fit} --checkpoint plain.ckpt --resume"), &["has not kept its best lap; leave it out"]);
}

#[test]
fn held_out_rows_are_scored_as_often_as_asked() {
    let (place, _) = with_planted(LikelihoodKind::Gauss, 300, 100, 2, 3);
    let fit = "fit mixture train.npy -k 3 --batches 5 --laps 2 --tolerance none -q --trace run.jsonl --heldout-every 2";
    place.lsparse(&format!("{fit} --heldout test.npy")).assert().success();
    let steps = || -> Vec<u64> {
        let lines = place.steps("run.jsonl").into_iter();
        lines.filter(|line| line["heldout"].is_number()).map(|line| line["step"].as_u64().unwrap()).collect()
    };
    assert_eq!(steps(), [2, 4, 6, 8, 10]);
    // The end of the run is scored in any case.
    place.lsparse(&format!("{} --heldout test.npy", fit.replace("every 2", "every 7"))).assert().success();
    assert_eq!(steps(), [7, 10]);
    place.lsparse(fit).assert().failure().stderr(contains("--heldout <DATA>"));
}

#[test]
fn rows_are_assigned_to_the_clusters_they_came_from() {
    let (place, truth) = with_planted(LikelihoodKind::Gauss, 600, 10, 3, 4);
    place.lsparse("fit mixture train.npy -k 4 --runs 3 --out m.safetensors").assert().success();
    let table = place.stdout("assign m.safetensors train.npy -l 1");
    let clusters: Vec<usize> =
        table.lines().skip(1).map(|line| line.split(',').nth(1).unwrap().parse().unwrap()).collect();
    assert_eq!(clusters.len(), 600);
    // Rows of one true cluster share a found one, nearly all of them: two of the clusters overlap.
    let mut shared = [[0; 4]; 4];
    clusters.iter().zip(&truth.labels).for_each(|(&k, &label)| shared[label][k] += 1);
    let recovered: usize = shared.iter().map(|row| row.iter().max().unwrap()).sum();
    assert!(recovered > 560, "{shared:?}");

    place.lsparse("assign m.safetensors train.npy -l 2 --out r.npz").assert().success();
    let matrix = read_csr_npz(&place.path("r.npz")).unwrap();
    assert_eq!((matrix.num_rows(), matrix.dim()), (600, 4));
    let mut rows = Rows::dense(4);
    matrix.read_f64(0, 600, &mut rows).unwrap();
    for row in rows.as_dense().unwrap().chunks_exact(4) {
        assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-12 && row.iter().filter(|&&r| r > 0.0).count() <= 2);
    }
    place.lsparse("assign m.safetensors train.npy -l K --out r.csv").assert().success();
    let table = place.text("r.csv");
    assert!(table.starts_with("row,cluster,responsibility\n0,") && table.lines().count() == 1 + 4 * 600);
}

#[test]
fn the_same_run_gives_the_same_bytes_with_any_number_of_threads() {
    let (place, _) = with_planted(LikelihoodKind::ZeroMeanGauss, 3000, 10, 5, 6);
    place.npy_f32("f32.npy", 5, &planted(LikelihoodKind::ZeroMeanGauss, 3000, 5, 6, 1).values);
    for data in ["train.npy", "f32.npy"] {
        for (threads, out) in [(1, "a"), (2, "b"), (2, "c")] {
            let fit = "fit mixture DATA --likelihood zero-mean-gauss -k 6 -l 3 --batches 4 --laps 5 --runs 2 --seed 7";
            let fit = fit.replace("DATA", data);
            place.lsparse(&format!("{fit} --threads {threads} --out {out} --quiet")).assert().success();
        }
        assert!(place.read("a") == place.read("b") && place.read("b") == place.read("c"), "{data}");
    }
}

#[test]
fn every_likelihood_and_every_format() {
    let place = Place::new();
    let counts = planted(LikelihoodKind::Multinomial, 300, 12, 3, 1);
    let (mut indptr, mut indices, mut data) = (vec![0i64], Vec::new(), Vec::new());
    for row in counts.values.chunks_exact(12) {
        for (column, &count) in row.iter().enumerate().filter(|(_, count)| **count > 0.0) {
            indices.push(column as i32);
            data.push(count);
        }
        indptr.push(data.len() as i64);
    }
    write_csr_npz(&place.path("counts.npz"), 300, 12, &indptr, &indices, &data).unwrap();
    let bits = planted(LikelihoodKind::Bernoulli, 300, 8, 3, 1);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(csv(8, &bits.values, ",").as_bytes()).unwrap();
    place.write("bits.csv.gz", gzip.finish().unwrap());
    let diagonal = planted(LikelihoodKind::DiagGauss, 300, 2, 3, 1);
    place.write("diagonal.tsv", format!("x\ty\n{}", csv(2, &diagonal.values, "\t")));
    std::fs::create_dir(place.path("images")).unwrap();
    let image = image::GrayImage::from_raw(72, 72, dead_leaves(72, 72, 1)).unwrap();
    image.save(place.path("images/a.png")).unwrap();

    for (arguments, word) in [
        ("counts.npz --likelihood multinomial -k 3", "most probable columns"),
        ("bits.csv.gz --likelihood bernoulli -k 3 --estimate map", "most probable columns"),
        ("diagonal.tsv --likelihood diag-gauss -k 3 --estimate ml", "|mean|"),
        ("images --likelihood zero-mean-gauss -k 3 -l K", "std"),
    ] {
        let data = arguments.split(' ').next().unwrap();
        place.lsparse(&format!("fit mixture {arguments} --laps 4 --out m.safetensors")).assert().success();
        place.lsparse("info m.safetensors").assert().success().stdout(contains(word));
        let score = place.json(&format!("score m.safetensors {data} --json"));
        assert_eq!(score["bic"].is_number(), arguments.contains("--estimate"), "{arguments}");
    }
}

#[test]
fn every_schedule_and_every_stop_is_reported() {
    let (place, _) = with_planted(LikelihoodKind::Gauss, 400, 10, 2, 3);
    for (options, stopped_by) in [
        ("--schedule full --tolerance none --laps 3", "laps"),
        ("--schedule memoized --batches 4 --tolerance 1e-3", "tolerance"),
        ("--schedule stochastic --rows-per-batch 100 --laps 2 --tolerance none", "laps"),
        ("--schedule streaming --batches 4", "laps"),
        ("--tolerance none --laps none --count-tolerance 0.5", "count-tolerance"),
        ("--tolerance none --laps none --max-seconds 0.5", "max-seconds"),
    ] {
        let report = place.json(&format!("fit mixture train.npy -k 3 --json --quiet {options}"));
        assert_eq!(report["stopped_by"], stopped_by, "{options}");
    }
}

#[test]
fn quiet_is_quiet_json_is_json_and_an_unsaved_model_is_mentioned() {
    let (place, _) = with_planted(LikelihoodKind::Gauss, 200, 10, 2, 2);
    let nothing = predicate::str::is_empty();
    let fit = "fit mixture train.npy -k 2 --laps 3 --tolerance none";
    place.lsparse(&format!("{fit} --quiet")).assert().success().stdout(nothing).stderr(nothing);
    place.lsparse(fit).assert().success().stderr(contains("not saved").and(contains("--out")));
    let output = place.lsparse(&format!("{fit} --json")).assert().success().get_output().clone();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["laps"], 3);
    assert!(!output.stderr.is_empty());
}

#[test]
fn training_goes_on_from_a_model() {
    let (place, _) = with_planted(LikelihoodKind::Gauss, 500, 10, 2, 3);
    let first =
        place.json("fit mixture train.npy -k 3 -l 2 --estimate map --laps 1 --json --quiet --out m.safetensors");
    let second = place.json("fit mixture train.npy --from m.safetensors --laps 3 --json --quiet --out m.safetensors");
    assert_eq!((&second["clusters"], &second["sparsity"]), (&Value::from(3), &Value::from(2)));
    assert_eq!(second["config"]["estimate"], "map");
    assert!(second["objective"].as_f64() >= first["objective"].as_f64());
    assert_eq!(second["rows"], 500);
    // What was counted before stays where that is asked for, and counts as observed.
    let keep = "fit mixture train.npy --from m.safetensors --laps 3 --quiet --history keep";
    place.lsparse(&format!("{keep} --out kept.safetensors")).assert().success();
    let kept = MixtureModel::load(&place.path("kept.safetensors")).unwrap();
    assert!((kept.total.total_weight() - 1000.0).abs() < 1e-6, "{}", kept.total.total_weight());
    assert_eq!(kept.training.observations, 1000);
    refused(&place, &format!("{keep} --schedule stochastic"), &["history", "fade"]);
    refused(&place, "fit mixture train.npy -k 2 --history keep", &["history", "--from"]);
    for (options, word) in [
        ("-k 4", "3 clusters"),
        ("--likelihood diag-gauss", "likelihood"),
        ("--nu 100", "nu: 100 is asked for"),
        ("--init kmeans", "cannot be used with"),
    ] {
        let command = format!("fit mixture train.npy --from m.safetensors {options}");
        place.lsparse(&command).assert().code(2).stderr(contains(word));
    }
}

#[test]
fn settings_come_from_a_file_and_options_win() {
    let (place, _) = with_planted(LikelihoodKind::Gauss, 200, 10, 2, 2);
    place.write("run.json", r#"{"clusters": 3, "sparsity": 2, "laps": 2, "batches": 2, "likelihood": "diag-gauss"}"#);
    let report = place.json("fit mixture train.npy --config run.json -l K --rows-per-batch 50 --json --quiet");
    let config = &report["config"];
    assert_eq!((&config["clusters"], &config["sparsity"]), (&Value::from(3), &Value::from(3)));
    assert_eq!((&config["likelihood"], &config["batches"]), (&Value::from("diag-gauss"), &Value::from(4)));
    place.write("run.json", r#"{"laps": 2}"#);
    place.lsparse("fit mixture train.npy --config run.json").assert().code(2).stderr(contains("give it with -k"));
}

#[test]
fn rows_may_carry_weights() {
    let place = Place::new();
    place.write("x.csv", "0\n0.1\n-0.1\n5\n5.1\n4.9\n100\n");
    place.write("w.csv", "1\n1\n1\n2\n2\n2\n0\n");
    let fit = "fit mixture x.csv --likelihood diag-gauss -k 2 --estimate ml --init examples --runs 4 --laps 20";
    place.lsparse(&format!("{fit} --row-weights w.csv --out m.safetensors")).assert().success();
    let info = place.json("info m.safetensors --json");
    let counts: Vec<f64> = info["largest"].as_array().unwrap().iter().map(|c| c["count"].as_f64().unwrap()).collect();
    assert!((counts.iter().sum::<f64>() - 9.0).abs() < 1e-9, "{counts:?}");
    place.write("w.csv", "1\n1\n1\n-2\n2\n2\n0\n");
    let refused = place.lsparse(&format!("{fit} --row-weights w.csv")).assert().code(2);
    refused.stderr(contains("w.csv row 4, column 1: -2 is not a finite weight"));
    place.write("w.csv", "1\n1\n");
    let refused = place.lsparse(&format!("{fit} --row-weights w.csv")).assert().code(2);
    refused.stderr(contains("2 weights for 7 rows"));
}

#[test]
fn degenerate_data_train() {
    let place = Place::new();
    fn wave(n: usize) -> f64 {
        (n as f64 * 0.7).sin()
    }
    type Row = fn(usize) -> [f64; 4];
    let data: [(&str, Row); 4] = [
        ("constant.npy", |n| [wave(n), 3.0, wave(3 * n), -1.0]),
        ("duplicates.npy", |n| [wave(n % 3), wave(2 * (n % 3)), 0.5, 1.0]),
        ("zeros.npy", |_| [0.0; 4]),
        ("flat.npy", |n| [wave(n), 2.0 * wave(n), -wave(n), 0.5 * wave(n)]),
    ];
    for (name, row) in data {
        place.npy(name, 4, &(0..60).flat_map(row).collect::<Vec<f64>>());
        for likelihood in ["zero-mean-gauss", "gauss", "diag-gauss", "spherical-gauss", "tied-gauss"] {
            for estimate in ["vb", "map", "ml"] {
                let fit = format!("fit mixture {name} --likelihood {likelihood} --estimate {estimate} -k 5 -l 2");
                let report = place.json(&format!("{fit} --laps 5 --json --quiet --out m.safetensors"));
                assert!(report["objective"].is_number(), "{fit}");
                place.lsparse(&format!("score m.safetensors {name}")).assert().success();
            }
        }
    }
}

/// The report says how much work a search has saved, and where there was nothing to save.
#[test]
fn the_report_counts_the_work_of_a_search() {
    let (place, _) = with_planted(LikelihoodKind::DiagGauss, 900, 10, 8, 4);
    let fit = "fit mixture train.npy -k 30 --sparsity 2 --laps 3 --tolerance none";
    let exact = place.json(&format!("{fit} --likelihood diag-gauss --search exact --json -q"));
    let (work, weights) = (exact["search_work"].as_f64().unwrap(), exact["weights_evaluated"].as_f64().unwrap());
    assert!(0.0 < weights && weights < 1.0 && weights < work, "bounds are work too: {exact}");
    let text = place.lsparse(&format!("{fit} --likelihood diag-gauss --search exact")).assert().success();
    text.stdout(contains("search      exact, in the last lap with").and(contains("memory")));
    let text = place.lsparse(&format!("{fit} --search neighbours")).assert().success();
    text.stdout(contains("search      neighbours, in the last lap"));
    let (place, _) = with_planted(LikelihoodKind::Bernoulli, 300, 10, 8, 4);
    let none = place.lsparse(&format!("{fit} --likelihood bernoulli --search exact")).assert().success();
    none.stderr(contains("no bound for bernoulli")).stdout(contains("search ").not());
}

/// Every command that reads rows takes the new families, and their files.
#[test]
fn spherical_and_tied_clusters_go_all_the_way() {
    for kind in [LikelihoodKind::SphericalGauss, LikelihoodKind::TiedGauss] {
        let (place, _) = with_planted(kind, 600, 50, 3, 4);
        let likelihood = format!("--likelihood {}", kind.name());
        let given = "--tolerance none --batches 3 --estimate map --heldout test.npy -q --json";
        let fit = format!("fit mixture train.npy -k 4 {likelihood} {given}");
        place.json(&format!("{fit} --laps 4 --checkpoint run.ckpt --out m.safetensors"));
        place.json(&format!("{fit} --laps 6 --checkpoint run.ckpt --resume --out on.safetensors"));
        place.json(&format!("{fit} --laps 6 --out whole.safetensors"));
        assert_eq!(place.read("on.safetensors"), place.read("whole.safetensors"), "{}", kind.name());
        let parameters = if kind == LikelihoodKind::SphericalGauss { 3 + 4 * 4 } else { 3 + 4 * 3 + 6 };
        let score = place.json("score m.safetensors test.npy --json");
        let (bic, total) = (score["bic"].as_f64().unwrap(), score["mean_log_likelihood"].as_f64().unwrap() * 50.0);
        assert!((bic - (f64::from(parameters) * 50f64.ln() - 2.0 * total)).abs() < 1e-6, "{score}");
        place.lsparse("info m.safetensors").assert().success().stdout(contains("std").and(contains(kind.name())));
        place.lsparse("assign m.safetensors test.npy --out a.npz").assert().success();
        place.json(&format!("fit mixture train.npy --from m.safetensors {likelihood} --laps 2 --json -q"));
    }
}

/// Missing values are refused unless they are asked for, whatever the format; then every command takes them.
#[test]
fn missing_values_are_taken_where_that_is_said() {
    let (place, truth) = with_planted(LikelihoodKind::Gauss, 400, 10, 3, 2);
    let holed: Vec<f64> =
        truth.values[..1200].iter().enumerate().map(|(i, &x)| if i % 7 == 3 { f64::NAN } else { x }).collect();
    place.npy("holes.npy", 3, &holed);
    let field = |x: &f64| if x.is_nan() { String::new() } else { x.to_string() };
    let lines = holed.chunks(3).map(|row| row.iter().map(field).collect::<Vec<_>>().join(",") + "\n");
    place.write("holes.csv", lines.collect::<String>());
    for likelihood in ["gauss", "diag-gauss"] {
        let fit = format!("-k 2 --likelihood {likelihood} --laps 5 -q");
        place.lsparse(&format!("fit mixture holes.npy {fit}")).assert().failure().stderr(contains("NaN"));
        place.lsparse(&format!("fit mixture holes.csv {fit}")).assert().failure();
        for data in ["holes.npy", "holes.csv"] {
            let out = format!("--missing --heldout {data} --out {data}.safetensors --json");
            assert!(place.json(&format!("fit mixture {data} {fit} {out}"))["heldout"].is_number());
            place.lsparse(&format!("score {data}.safetensors {data}")).assert().success();
            place.lsparse(&format!("assign {data}.safetensors {data} --out a.npz")).assert().success();
            place.json(&format!("fit mixture {data} --from {data}.safetensors --laps 1 -q --json"));
        }
        assert_eq!(place.read("holes.npy.safetensors"), place.read("holes.csv.safetensors"));
    }
    let tied = place.lsparse("fit mixture holes.npy -k 2 --likelihood tied-gauss --missing -q").assert().failure();
    tied.stderr(contains("cannot integrate missing values out"));
}

/// Clusters in columns of scales 1e-3 to 1e3 with their classes, as text and as an array.
fn with_mixed_scales() -> (Place, Vec<usize>) {
    let place = Place::new();
    let truth = planted(LikelihoodKind::SphericalGauss, 800, 4, 5, 3);
    let values: Vec<f64> =
        truth.values.iter().enumerate().map(|(i, x)| x * 10f64.powi(2 * (i % 4) as i32 - 3)).collect();
    place.npy("x.npy", 4, &values);
    place.write("classes.txt", truth.labels.iter().map(|label| format!("class {label}\n")).collect::<String>());
    place.npy("classes.npy", 1, &truth.labels.iter().map(|&label| label as f64).collect::<Vec<f64>>());
    (place, truth.labels)
}

#[test]
fn columns_of_mixed_scales_are_standardized_and_judged_by_their_classes() {
    let (place, classes) = with_mixed_scales();
    let fit = "fit mixture x.npy -k 5 --method kmeans --runs 3";
    let said = place.lsparse(&format!("{fit} --out raw.safetensors")).assert().success();
    said.stderr(contains("warning: column 4 spreads 2e6 times as far as column 1").and(contains("give --standardize")));
    let said = place.lsparse(&format!("{fit} --standardize --out m.safetensors")).assert().success();
    said.stderr(contains("warning").not()).stdout(contains("a row"));
    place.lsparse(&format!("{fit} --quiet")).assert().success().stderr("");

    let nmi = |model: &str, labels: &str| {
        let agreement = place.json(&format!("score {model} x.npy --labels {labels} --json"))["agreement"].clone();
        assert_eq!((&agreement["classes"], &agreement["clusters"]), (&5.into(), &5.into()));
        (agreement["nmi"].as_f64().unwrap(), agreement["ari"].as_f64().unwrap(), agreement["purity"].as_f64().unwrap())
    };
    let (raw, with) = (nmi("raw.safetensors", "classes.txt"), nmi("m.safetensors", "classes.txt"));
    assert!(with.0 > raw.0 + 0.1 && with.1 > raw.1 + 0.1 && with.2 > raw.2 + 0.1, "{raw:?} {with:?}");
    assert_eq!(nmi("m.safetensors", "classes.npy"), with);
    let text = place.stdout("score m.safetensors x.npy --labels classes.txt");
    assert!(text.contains("NMI with the labels") && text.contains("5 classes in 5 clusters"), "{text}");

    // Means are in the units of the data, and so is what is shown of them.
    let info = place.stdout("info m.safetensors");
    assert!(info.contains("in units of their own (--standardize)"), "{info}");
    let model = MixtureModel::load(&place.path("m.safetensors")).unwrap();
    let means = &model.array("means").unwrap().values;
    let largest = |column: usize| means.iter().skip(column).step_by(4).fold(0.0f64, |most, m| most.max(m.abs()));
    assert!(largest(3) > 1e3 && largest(0) < 0.1, "{means:?}");
    // A model that training goes on from has its units.
    let further = place.json("fit mixture x.npy --from m.safetensors --method kmeans --json -q");
    assert_eq!(further["config"]["standardize"], true);
    let counts = "fit mixture x.npy -k 5 --likelihood poisson --standardize";
    refused(&place, counts, &["standardize", "no units"]);

    // Hard labels as an array are those of the table.
    place.lsparse("assign m.safetensors x.npy --out labels.npy").assert().success().stdout("");
    let labels = read_column(&place.path("labels.npy"), &OpenOptions::default()).unwrap();
    let table = place.stdout("assign m.safetensors x.npy -l 1");
    let of_table: Vec<f64> = table.lines().skip(1).map(|l| l.split(',').nth(1).unwrap().parse().unwrap()).collect();
    assert_eq!((labels.len(), labels), (classes.len(), of_table));
    refused(&place, "assign m.safetensors x.npy -l 2 --out two.npy", &["sparsity", "one cluster", ".npz"]);

    place.write("few.txt", "a\nb\n");
    refused(
        &place,
        "score m.safetensors x.npy --labels few.txt",
        &["few.txt", "2 labels for 800 rows", "one label a line"],
    );
    refused(&place, "score m.safetensors x.npy --alpha 2", &["alpha", "a mixture"]);
}

#[test]
fn typical_rows_of_clusters_are_named() {
    let (place, truth) = with_planted(LikelihoodKind::Gauss, 600, 10, 3, 4);
    place.lsparse("fit mixture train.npy -k 4 --runs 3 --out m.safetensors -q").assert().success();
    place.write("names.txt", (0..600).map(|n| format!("row {n}, of {}\n", truth.labels[n])).collect::<String>());
    let info = place.json("info m.safetensors train.npy --examples 2 --names names.txt --json");
    let model = MixtureModel::load(&place.path("m.safetensors")).unwrap();
    let means = &model.array("means").unwrap().values;
    for note in info["largest"].as_array().unwrap() {
        let (k, examples) = (note["cluster"].as_u64().unwrap() as usize, note["examples"].as_array().unwrap());
        assert_eq!(examples.len(), 2);
        for example in examples {
            let row = example["row"].as_u64().unwrap() as usize;
            assert_eq!(example["name"], format!("row {row}, of {}", truth.labels[row]));
            assert!(example["responsibility"].as_f64().unwrap() > 0.5);
            // At the middle of the cluster, that is nearer to its mean than most.
            let distance =
                |n: usize| -> f64 { (0..3).map(|d| (truth.values[3 * n + d] - means[3 * k + d]).powi(2)).sum() };
            let nearer = (0..600).filter(|&n| distance(n) < distance(row)).count();
            assert!(nearer < 60, "{nearer} rows are nearer to cluster {k} than row {row}");
        }
    }
    let text = place.stdout("info m.safetensors train.npy");
    assert!(text.contains("typical rows of each"), "{text}");
    refused(&place, "info m.safetensors --examples 2", &["<DATA>"]);
    refused(&place, "info m.safetensors train.npy --names train.npy", &["names for 600 rows"]);

    // Documents and images have names.
    place.write("a.txt", "star planet star\nsauce oven\nplanet star star planet\nsauce sauce oven oven\n".repeat(5));
    place.lsparse("corpus build a.txt --max-share 1 --out c -q").assert().success();
    let note = contains("note: these are counts of words");
    place.lsparse("fit mixture c -k 2 --laps 1").assert().success().stderr(note.clone());
    place.lsparse("fit mixture c -k 2 --laps 1 --likelihood multinomial").assert().success().stderr(note.not());
    let fit = "fit mixture c --likelihood multinomial -k 2 --runs 3 --out w.safetensors -q";
    place.lsparse(fit).assert().success();
    let info = place.json("info w.safetensors c --examples 1 --json");
    let names: Vec<&str> =
        info["largest"].as_array().unwrap().iter().map(|note| note["examples"][0]["name"].as_str().unwrap()).collect();
    assert!(names == ["3", "4"] || names == ["4", "3"], "{names:?}");
}

#[test]
fn progress_is_that_of_a_row() {
    let (place, _) = with_planted(LikelihoodKind::Gauss, 600, 10, 3, 4);
    let report = place.lsparse("fit mixture train.npy -k 4 --laps 2").assert().success().get_output().clone();
    let (said, report) = (String::from_utf8(report.stderr).unwrap(), String::from_utf8(report.stdout).unwrap());
    let of_row = |line: &str| -> Option<f64> {
        let (before, _) = line.split_once(" a row")?;
        before.split_whitespace().last()?.parse().ok()
    };
    let shown: Vec<f64> = said.lines().filter_map(of_row).collect();
    let last = report.lines().find_map(of_row).unwrap();
    assert!(!shown.is_empty() && (shown[shown.len() - 1] - last).abs() < 1e-4, "{said}{report}");
    let json = place.json("fit mixture train.npy -k 4 --laps 2 --json -q");
    let (total, a_row) = (json["objective"].as_f64().unwrap(), json["objective_per_row"].as_f64().unwrap());
    assert!((total / 600.0 - a_row).abs() < 1e-9 && (a_row - last).abs() < 1e-4, "{json}");
}
