//! Files of 0.1 open in this version: models score as they did, checkpoints and traces go on.
//!
//! The files in `files-0.1` were written by 0.1 and stay as they are. Until 0.1 is released a change of formats writes them
//! anew: `LSPARSE_GOLDEN=write cargo test --package lsparse-cli --test versions`.

mod common;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use common::Place;
use serde_json::{Value, json};

/// Every family of mixtures.
const FAMILIES: [&str; 8] =
    ["gauss", "zero-mean-gauss", "diag-gauss", "spherical-gauss", "tied-gauss", "multinomial", "bernoulli", "poisson"];

/// The runs that were cut off after two laps.
const MIXTURE: &str = "fit mixture rows.csv -k 3 --batches 3 --likelihood diag-gauss --tolerance none --quiet";
const TOPICS: &str = "fit topics corpus -k 3 --batches 3 --tolerance none --quiet";
const SEQUENCE: &str =
    "fit sequence rows.csv --groups lengths.txt -k 3 --batches 3 --likelihood diag-gauss --tolerance none --quiet";

/// Models besides the families of mixtures: the last has found its K.
const OTHERS: [&str; 3] = ["topics", "sequence", "found"];

fn kept() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files-0.1")
}

/// Whole numbers in two groups, so that every family takes them; the second file is of zeros and ones.
fn rows() -> (String, String) {
    let (mut counts, mut bits) = (String::new(), String::new());
    for n in 0..60u32 {
        let noise = |d: u32| (n * 7 + d * 13) * (n + 3) % 5;
        let (a, b) = if n % 2 == 0 { (9 + noise(0), noise(1)) } else { (noise(2), 9 + noise(3)) };
        let _ = writeln!(counts, "{a},{b},{}", 1 + noise(4));
        let _ = writeln!(bits, "{},{},{}", u32::from(a > b), u32::from(a < b), noise(4) % 2);
    }
    (counts, bits)
}

fn texts() -> String {
    let themes = ["cat dog kitten puppy paw", "moon star planet comet orbit", "bread oven dough flour salt"];
    (0..30).map(|n| format!("{} {}\n", themes[n % 3], themes[(n * n + 1) % 3].split(' ').next().unwrap())).collect()
}

/// The data that a model was trained on, in the words of the command.
fn data_of(name: &str) -> &'static str {
    match name {
        "bernoulli" => "bits.csv",
        "topics" => "corpus",
        "sequence" => "rows.csv --groups lengths.txt",
        _ => "rows.csv",
    }
}

/// A place with the files of 0.1 in it.
fn with_files() -> Place {
    fn copy(from: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
            let (source, target) = (entry.path(), to.join(entry.file_name()));
            if source.is_dir() { copy(&source, &target) } else { fs::copy(&source, &target).map(drop).unwrap() }
        }
    }
    if std::env::var("LSPARSE_GOLDEN").is_ok_and(|word| word == "write") {
        write();
    }
    let place = Place::new();
    copy(&kept(), &place.path(""));
    place
}

/// Write the files, on plain instructions. Several tests may ask for it; one does it.
fn write() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let place = Place::new();
        let go = |arguments: &str| {
            place.lsparse(arguments).env("LSPARSE_SIMD", "portable").assert().success();
        };
        let (counts, bits) = rows();
        place.write("rows.csv", counts);
        place.write("bits.csv", bits);
        place.write("texts.txt", texts());
        place.write("lengths.txt", "20\n25\n15\n");
        let mut scores = serde_json::Map::new();
        for family in FAMILIES {
            let data = data_of(family);
            go(&format!("fit mixture {data} -k 3 --likelihood {family} --laps 5 --quiet --out {family}.safetensors"));
            scores.insert(family.into(), json!(score(&place, family)));
        }
        go("corpus build texts.txt --quiet --out corpus");
        go("fit topics corpus -k 3 --laps 5 --quiet --out topics.safetensors");
        go("fit sequence rows.csv --groups lengths.txt -k 3 --likelihood diag-gauss --laps 5 --quiet --out sequence.safetensors");
        go("fit mixture rows.csv -k auto --laps 5 --quiet --out found.safetensors");
        for name in OTHERS {
            scores.insert(name.into(), json!(score(&place, name)));
        }
        place.write("scores.json", serde_json::to_string_pretty(&Value::Object(scores)).unwrap() + "\n");
        go(&format!("{MIXTURE} --laps 2 --checkpoint mixture.ckpt --trace mixture.jsonl"));
        go(&format!("{TOPICS} --laps 2 --checkpoint topics.ckpt --trace topics.jsonl"));
        go(&format!("{SEQUENCE} --laps 2 --checkpoint sequence.ckpt --trace sequence.jsonl"));
        let _ = fs::remove_dir_all(kept());
        fs::create_dir_all(kept().join("corpus")).unwrap();
        for folder in ["", "corpus"] {
            for entry in fs::read_dir(place.path(folder)).unwrap().map(Result::unwrap) {
                let lock = entry.path().extension().is_some_and(|ending| ending == "lock");
                if entry.path().is_file() && !lock {
                    fs::copy(entry.path(), kept().join(folder).join(entry.file_name())).unwrap();
                }
            }
        }
    });
}

/// The score of a model on the data that it was trained on.
fn score(place: &Place, name: &str) -> f64 {
    let data = data_of(name);
    let found = place.json(&format!("score {name}.safetensors {data} --json"));
    ["mean_log_likelihood", "mean_log_probability"].iter().find_map(|field| found[field].as_f64()).unwrap()
}

#[test]
fn models_of_0_1_score_as_they_did() {
    let place = with_files();
    let expected: Value = serde_json::from_str(&place.text("scores.json")).unwrap();
    for name in FAMILIES.into_iter().chain(OTHERS) {
        let data = data_of(name);
        let (was, is) = (expected[name].as_f64().unwrap(), score(&place, name));
        assert!((was - is).abs() <= 1e-6 * was.abs(), "{name}: {was} became {is}");
        place.json(&format!("info {name}.safetensors --json"));
        place.stdout(&format!("assign {name}.safetensors {data}"));
    }
    assert_eq!(place.json("topics topics.safetensors --json")["topics"].as_array().unwrap().len(), 3);
}

#[test]
fn training_goes_on_from_models_of_0_1() {
    let place = with_files();
    for family in FAMILIES {
        let data = data_of(family);
        let report = place.json(&format!("fit mixture {data} --from {family}.safetensors --laps 2 --quiet --json"));
        assert!(report["objective"].is_f64(), "{family}: {report}");
    }
    for (kind, name) in [("topics", "topics"), ("sequence", "sequence"), ("mixture", "found")] {
        let data = data_of(name);
        let report = place.json(&format!("fit {kind} {data} --from {name}.safetensors --laps 2 --quiet --json"));
        assert!(report["objective"].is_f64(), "{name}: {report}");
    }
}

#[test]
fn checkpoints_and_traces_of_0_1_go_on() {
    let place = with_files();
    for (name, command) in [("mixture", MIXTURE), ("topics", TOPICS), ("sequence", SEQUENCE)] {
        let before = place.steps(&format!("{name}.jsonl")).len();
        let more = format!("{command} --laps 4 --checkpoint {name}.ckpt --trace {name}.jsonl --resume --json");
        let report = place.json(&more);
        assert_eq!(report["laps"], json!(4), "{name}");
        let steps = place.steps(&format!("{name}.jsonl"));
        assert_eq!((before, steps.len()), (6, 12), "{name}");
    }
}
