//! The small commands: patches, select, demo, completions, help, and output that nobody reads to the end.

mod common;

use std::process::{Command, Stdio};

use common::{Place, with_planted};
use lsparse::LikelihoodKind;
use lsparse::data::{Element, NpyRows, RowSource, Rows};
use lsparse::synthetic::dead_leaves;
use predicates::prelude::*;
use predicates::str::contains;

#[test]
fn images_become_patches() {
    let place = Place::new();
    std::fs::create_dir(place.path("images")).unwrap();
    let image = image::GrayImage::from_raw(44, 28, dead_leaves(44, 28, 1)).unwrap();
    image.save(place.path("images/a.png")).unwrap();
    image.save(place.path("images/b.png")).unwrap();
    place
        .lsparse("patches images --out p.npy")
        .assert()
        .success()
        .stderr(contains("90 patches of 64 values from 2 images"));
    let patches = NpyRows::open(&place.path("p.npy")).unwrap();
    assert_eq!((patches.num_rows(), patches.dim(), patches.element()), (2 * 9 * 5, 64, Element::F32));
    let mut rows = Rows::dense(64);
    patches.read_f64(0, 90, &mut rows).unwrap();
    let (top, left) = (rows.as_dense().unwrap(), image.as_raw());
    assert!(top.chunks_exact(64).all(|patch| patch.iter().sum::<f64>().abs() < 1e-5));
    let step = (f64::from(left[1]) - f64::from(left[0])) / 255.0;
    assert!((top[1] - top[0] - step).abs() < 1e-6);

    let options = "--patch-size 4 --patch-stride 8 --patch-grid full --dtype f64 --quiet";
    let silent = predicate::str::is_empty();
    place.lsparse(&format!("patches images --out p.npy {options}")).assert().success().stderr(silent);
    let patches = NpyRows::open(&place.path("p.npy")).unwrap();
    assert_eq!((patches.num_rows(), patches.dim(), patches.element()), (2 * 6 * 4, 16, Element::F64));
    // The folder and the file of its patches are the same data, but for the last digits of its variance.
    place.lsparse("patches images --out p.npy --quiet").assert().success();
    let objective = |data: &str| {
        let fit = format!("fit mixture {data} --likelihood zero-mean-gauss -k 3 --laps 3 --quiet --json");
        place.json(&fit)["objective"].as_f64().unwrap()
    };
    let (folder, file) = (objective("images"), objective("p.npy"));
    assert!((folder - file).abs() < 1e-6 * file.abs(), "{folder} {file}");
}

#[test]
fn every_result_comes_as_json() {
    let place = Place::new();
    std::fs::create_dir(place.path("images")).unwrap();
    let image = image::GrayImage::from_raw(44, 28, dead_leaves(44, 28, 1)).unwrap();
    image.save(place.path("images/a.png")).unwrap();
    let patches = place.json("patches images --out p.npy --json -q");
    assert_eq!((&patches["patches"], &patches["values"], &patches["images"]), (&45.into(), &64.into(), &1.into()));

    let fit = "fit mixture p.npy --likelihood zero-mean-gauss -k 3 -l 2 --laps 2 --out m.safetensors -q";
    place.lsparse(fit).assert().success();
    let lines = place.stdout("assign m.safetensors p.npy --json");
    assert_eq!(lines.lines().count(), 45);
    let second: serde_json::Value = serde_json::from_str(lines.lines().nth(1).unwrap()).unwrap();
    assert_eq!((&second["row"], second["clusters"].as_array().unwrap().len()), (&1.into(), 2));
    let table = place.stdout("assign m.safetensors p.npy");
    let (cluster, share) = (&second["clusters"][0], second["responsibilities"][0].as_f64().unwrap());
    assert!(table.contains(&format!("\n1,{cluster},{share}\n")), "{second}");
    let written = place.json("assign m.safetensors p.npy --json --out a.npz");
    assert_eq!((&written["rows"], &written["columns"], &written["sparsity"]), (&45.into(), &3.into(), &2.into()));
    place.lsparse("assign m.safetensors p.npy --out a.jsonl").assert().success().stdout("");
    assert_eq!(place.text("a.jsonl"), lines);

    // A posterior has no criteria, and says why.
    let score = place.json("score m.safetensors p.npy --json");
    assert!(score["bic"].is_null() && score["no_criteria"].as_str().unwrap().contains("objective"), "{score}");
    place.lsparse("score m.safetensors p.npy").assert().success().stdout(contains("BIC, AIC              none"));
    place.lsparse(&format!("{fit} --estimate map")).assert().success();
    let score = place.json("score m.safetensors p.npy --json");
    assert!(score["bic"].is_number() && score.get("no_criteria").is_none(), "{score}");

    let demo = place.json("demo --rows 2000 --json -q");
    assert!(demo["mixture"]["planted"]["share_recovered"].as_f64().unwrap() > 0.5, "{demo}");
    assert_eq!(demo["mixture"]["leaves"][3]["sparsity"], 50);
    assert!(demo["topics"]["themes_found"].as_u64().unwrap() > 12, "{demo}");
}

#[test]
fn the_largest_of_a_list() {
    let place = Place::new();
    place
        .lsparse("select")
        .assert()
        .success()
        .stdout(
            contains("inds:       7       1       8       4").and(contains("data:    0.86    0.77    0.68    0.58")),
        )
        .stdout(contains("at least as large as all the rest: holds"));
    let selection = place.json("select -3 5 -0.5 5 1e1 -l 3 --json");
    assert_eq!(selection["top"]["index"], serde_json::json!([4, 1, 3]), "ties go to the lower index");
    assert_eq!(selection["rest"]["value"], serde_json::json!([-3.0, -0.5]));
    assert_eq!(selection["invariant_holds"], true);
    let all = selection["responsibilities"].as_array().unwrap();
    assert_eq!(all.len(), 5);
    assert_eq!(all[0]["value"], serde_json::json!([1.0]));

    place.write("weights.txt", "1 2\n3, 4\n");
    assert_eq!(place.json("select weights.txt -l 1 --json")["top"]["index"], serde_json::json!([3]));
    let piped = place.lsparse("select - -l K --json").write_stdin("3\n1\n2\n").assert().success().get_output().clone();
    let selection: serde_json::Value = serde_json::from_slice(&piped.stdout).unwrap();
    assert_eq!(selection["top"]["index"], serde_json::json!([0, 2, 1]));

    for (arguments, word) in [
        ("select 1 2 -l 3", "choose L from 1 to 2"),
        ("select 1 two", "\"two\" is not a number"),
        ("select 1 nan", "NaN is not finite"),
        ("select none.txt", "none.txt does not exist"),
        ("select -l 0", "from 1 to K"),
    ] {
        place.lsparse(arguments).assert().code(2).stderr(contains(word));
    }
    place.lsparse("select -").write_stdin("").assert().code(2).stderr(contains("no rows"));
}

#[test]
fn the_demonstration_needs_no_file_and_leaves_a_model() {
    let place = Place::new();
    place
        .lsparse("demo --rows 2000 --seed 1")
        .assert()
        .success()
        .stdout(contains("rows recovered").and(contains("truth")).and(contains("mass captured")))
        .stdout(contains("K = 50").and(contains("lsparse info demo.safetensors")))
        .stdout(contains("of 24 themes found").and(contains("lsparse topics demo-topics.safetensors")))
        .stderr(contains("objective"));
    assert_eq!(place.files(), ["demo-topics.safetensors", "demo.safetensors"]);
    place.lsparse("info demo.safetensors").assert().success().stdout(contains("L = 8 of K = 50"));
    place.lsparse("demo mixture --rows 2000 --out m.safetensors --quiet").assert().success().stderr("");
    assert_eq!(place.files(), ["demo-topics.safetensors", "demo.safetensors", "m.safetensors"]);
}

#[test]
fn shells_learn_the_commands() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        assert!(place.stdout(&format!("completions {shell}")).contains("mixture"), "{shell}");
    }
    place.lsparse("completions tcsh").assert().code(2).stderr(contains("bash"));
}

#[test]
fn help_has_headings_defaults_and_examples() {
    let place = Place::new();
    let help = place.stdout("fit mixture --help");
    for word in ["Model:", "Prior:", "Schedule:", "Start:", "Stop:", "Data:", "Output:", "EXAMPLES:", "[default: 10]"] {
        assert!(help.contains(word), "{word} is not in {help}");
    }
    let help = place.stdout("fit topics --help");
    for word in ["Documents:", "EXAMPLES:", "--learn-alpha", "asymmetric", "[default: 100]", "[default: off]"] {
        assert!(help.contains(word), "{word} is not in {help}");
    }
    assert!(place.stdout("--version").starts_with("lsparse "));
    for command in ["score", "assign", "info", "topics", "similar", "patches", "select", "demo", "completions"] {
        assert!(place.stdout(&format!("{command} --help")).contains("EXAMPLES:"), "{command}");
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let (place, _) = with_planted(LikelihoodKind::Gauss, 5000, 10, 2, 4);
    place.lsparse("fit mixture train.npy -k 4 --laps 1 --quiet --out m.safetensors").assert().success();
    let mut child = Command::new(env!("CARGO_BIN_EXE_lsparse"))
        .current_dir(place.path(""))
        .args(["assign", "m.safetensors", "train.npy"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}
