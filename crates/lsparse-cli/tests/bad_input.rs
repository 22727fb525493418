//! What cannot be used is refused with its place and a remedy, status 2, and nothing left behind.

mod common;

use common::{Place, with_planted};
use lsparse::LikelihoodKind;
use predicates::prelude::*;
use predicates::str::contains;

/// Run `fit mixture ARGUMENTS` with a model and a trace to write; it must be refused with all these words.
fn refused(place: &Place, arguments: &str, words: &[&str]) {
    common::refused(place, &format!("fit mixture {arguments} --out m.safetensors --trace t.jsonl"), words);
}

fn npy_bytes(header: &str, data: &[u8]) -> Vec<u8> {
    let padded = format!("{header:<117}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((padded.len() as u16).to_le_bytes());
    bytes.extend(padded.as_bytes());
    bytes.extend(data);
    bytes
}

#[test]
fn values_that_are_not_finite() {
    let place = Place::new();
    let mut values = vec![0.5; 40];
    values[17] = f64::NAN;
    place.npy("nan.npy", 4, &values);
    refused(&place, "nan.npy -k 2", &["nan.npy", "row 5, column 2", "NaN is not finite", "replace it"]);
    values[17] = f64::NEG_INFINITY;
    place.npy_f32("inf.npy", 4, &values);
    refused(&place, "inf.npy -k 2", &["inf.npy", "row 5, column 2", "-inf", "drop the row"]);
    place.write("nan.csv", "a,b\n1,2\n3,nan\n");
    refused(&place, "nan.csv -k 1", &["nan.csv", "line 3", "row 2, column 2", "not finite"]);
    // Held-out rows are looked at as well.
    place.npy("good.npy", 4, &(0..40).map(f64::from).collect::<Vec<_>>());
    refused(&place, "good.npy -k 2 --heldout inf.npy", &["inf.npy", "row 5, column 2"]);
}

#[test]
fn text_that_is_not_a_table_of_numbers() {
    let place = Place::new();
    place.write("ragged.csv", "1,2\n3,4\n5,6,7\n");
    refused(&place, "ragged.csv -k 1", &["ragged.csv line 3", "3 fields", "same number of fields"]);
    place.write("word.csv", "1,2\n3,four\n");
    refused(&place, "word.csv -k 1", &["word.csv line 2, column 2", "\"four\" is not a number", "put a number"]);
    place.write("hole.csv", "1,2\n,4\n");
    refused(&place, "hole.csv -k 1", &["hole.csv line 2, column 1", "empty field"]);
    place.write("header.csv", "a,b\n");
    refused(&place, "header.csv -k 1", &["header.csv has no rows", "at least one row"]);
    place.write("names.csv", "a,b\n1,2\n");
    refused(&place, "names.csv -k 1 --header no", &["line 1, column 1", "\"a\" is not a number"]);
    refused(&place, "names.csv -k 1 --delimiter e", &["delimiter", "choose a comma"]);
    // The first line is no header if some of it are numbers, nor if its decimals have commas.
    place.write("typo.csv", "1,2.o\n3,4\n");
    refused(&place, "typo.csv -k 1", &["typo.csv line 1: column 2 is \"2.o\"", "--header yes"]);
    place.write("comma.csv", "1,5;2,5\n3,5;4,5\n");
    refused(&place, "comma.csv -k 1", &["comma.csv line 1, column 1", "decimals take a point"]);
    place.write("quote.csv", "1,2\n\"3,4\n5,6\n");
    refused(&place, "quote.csv -k 1", &["quote.csv line 2", "a quote is opened and not closed"]);
    place.write("huge.csv", "1,2\n3,1e300\n");
    refused(&place, "huge.csv -k 1", &["huge.csv row 2, column 2: 1e300 is not below"]);
}

#[test]
fn a_header_that_is_guessed_is_mentioned() {
    let place = Place::new();
    place.write("names.csv", "height,weight\n1,2\n3,4\n");
    let note = "note: names.csv: line 1 is taken for the names of the columns (height, weight); --header no";
    let fit = "fit mixture names.csv -k 1 --out m.safetensors";
    place.lsparse(fit).assert().success().stderr(contains(note));
    place.lsparse(&format!("{fit} --quiet")).assert().success().stderr("");
    let score = "score m.safetensors names.csv";
    place.lsparse(score).assert().success().stderr(contains(note));
    place.lsparse(&format!("{score} --header yes")).assert().success().stderr("");
}

#[test]
fn row_weights_are_one_column() {
    let place = Place::new();
    place.npy("x.npy", 2, &[1.0, 2.0, 3.0, 4.0, 9.0, 9.0]);
    let data: Vec<u8> = [1.0f64, 1.0, 0.0].iter().flat_map(|weight| weight.to_le_bytes()).collect();
    let mut objectives = Vec::new();
    for (name, shape) in [("flat.npy", "(3,)"), ("column.npy", "(3, 1)")] {
        let header = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}");
        place.write(name, npy_bytes(&header, &data));
        objectives
            .push(place.json(&format!("fit mixture x.npy -k 1 --row-weights {name} --json -q"))["objective"].clone());
    }
    assert_eq!(objectives[0], objectives[1]);
    let header = "{'descr': '<f8', 'fortran_order': False, 'shape': (1, 3), }";
    place.write("row.npy", npy_bytes(header, &data));
    refused(&place, "x.npy -k 1 --row-weights row.npy", &["row.npy", "(1, 3)", "one column"]);
}

#[test]
fn files_that_are_damaged_or_of_another_kind() {
    let place = Place::new();
    let header = |descr: &str, fortran: &str, shape: &str| {
        format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}")
    };
    place.write("fortran.npy", npy_bytes(&header("<f8", "True", "(2, 2)"), &[0; 32]));
    refused(&place, "fortran.npy -k 1", &["fortran.npy", "np.ascontiguousarray"]);
    place.write("text.npy", npy_bytes(&header("<U3", "False", "(2, 2)"), &[0; 48]));
    refused(&place, "text.npy -k 1", &["text.npy", "<U3", "astype"]);
    place.write("short.npy", npy_bytes(&header("<f8", "False", "(4, 2)"), &[0; 40]));
    refused(&place, "short.npy -k 1", &["short.npy is cut short", "64 bytes", "40", "again"]);
    place.write("vector.npy", npy_bytes(&header("<f8", "False", "(4,)"), &[0; 32]));
    refused(&place, "vector.npy -k 1", &["vector.npy", "shape", "reshape"]);
    place.write("empty.npy", npy_bytes(&header("<f8", "False", "(0, 2)"), &[]));
    refused(&place, "empty.npy -k 1", &["empty.npy has no rows"]);
    place.write("broken.npz", b"PK\x03\x04 not really");
    refused(&place, "broken.npz -k 1", &["broken.npz"]);
    place.write("table.parquet", b"PAR1");
    refused(&place, "table.parquet -k 1", &["table.parquet", "format is not known", ".npy"]);
    refused(&place, "missing.npy -k 1", &["missing.npy does not exist", "spelling"]);
    std::fs::create_dir(place.path("empty")).unwrap();
    refused(&place, "empty -k 1", &["empty", "no PNG or JPEG images"]);
    place.write("counts.csv", "1,2\n3,-1\n");
    refused(&place, "counts.csv -k 1 --likelihood multinomial", &["counts.csv row 2, column 2", "-1"]);
    refused(&place, "counts.csv -k 1 --likelihood bernoulli", &["counts.csv row 1, column 2", "0 or 1"]);
}

#[test]
fn settings_that_cannot_be_used() {
    let (place, _) = with_planted(LikelihoodKind::Gauss, 20, 5, 2, 2);
    place.write("wide.csv", "1,2,3\n4,5,6\n");
    place.write("typo.json", r#"{"clusters": 2, "sparsty": 1}"#);
    place.write("type.json", r#"{"clusters": "two"}"#);
    for (arguments, words) in [
        ("train.npy", &["clusters", "-k"][..]),
        ("train.npy -k 21", &["21 clusters", "20 rows", "at most 20"]),
        ("train.npy -k 4 -l 5", &["sparsity of 5", "K = 4", "from 1 to 4"]),
        ("train.npy -k 4 -l 0", &["--sparsity", "from 1 to K"]),
        ("train.npy -k 0", &["clusters", "at least 1"]),
        ("train.npy -k 2 --alpha 0", &["alpha", "positive"]),
        ("train.npy -k 2 --alpha nan", &["--alpha", "finite"]),
        ("train.npy -k 2 --decay 0.3 --schedule stochastic", &["decay", "0.55"]),
        ("train.npy -k 2 --batches 21", &["batches", "at most 20"]),
        ("train.npy -k 2 --schedule full --batches 2", &["batches", "memoized"]),
        ("train.npy -k 2 --laps none --tolerance none", &["every rule that stops training is off", "--laps"]),
        ("train.npy -k 2 --best-by heldout --runs 2", &["best-by", "--heldout"]),
        ("train.npy -k 2 --heldout wide.csv", &["wide.csv has 3 columns", "2"]),
        ("train.npy -k 2 --likelihood cauchy", &["cauchy", "zero-mean-gauss"]),
        ("train.npy -k 2 --sparsty 1", &["--sparsty", "--sparsity"]),
        ("train.npy -k 2 --config typo.json", &["typo.json", "sparsty", "sparsity", "line 1"]),
        ("train.npy -k 2 --config type.json", &["type.json", "two"]),
        ("train.npy -k 2 --config none.json", &["none.json does not exist"]),
        ("train.npy -k 2 --from none.safetensors", &["none.safetensors does not exist"]),
    ] {
        refused(&place, arguments, words);
    }
    place.lsparse("train").assert().code(2).stderr(contains("unrecognized subcommand"));
    place.lsparse("").assert().code(2).stderr(contains("Usage"));
}

#[test]
fn models_that_do_not_fit() {
    let (place, _) = with_planted(LikelihoodKind::Gauss, 60, 5, 2, 2);
    place.write("wide.csv", "1,2,3\n4,5,6\n");
    place.lsparse("fit mixture train.npy -k 2 --out m.safetensors --quiet").assert().success();
    let say = |arguments: &str, words: &[&str]| {
        let output = place.lsparse(arguments).assert().code(2).get_output().clone();
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(words.iter().all(|word| message.contains(word)), "{arguments}: {message}");
    };
    say("score m.safetensors wide.csv --per-row s.npy", &["wide.csv has 3 columns", "trained on 2"]);
    say("assign m.safetensors wide.csv --out r.npz", &["wide.csv has 3 columns", "trained on 2"]);
    say("assign m.safetensors train.npy -l 3 --out r.npz", &["sparsity of 3", "from 1 to 2"]);
    // Nothing is printed before all is well.
    for arguments in ["assign m.safetensors train.npy -l 3", "assign m.safetensors wide.csv"] {
        place.lsparse(arguments).assert().code(2).stdout("");
    }
    say("topics m.safetensors", &["m.safetensors is a mixture model", "lsparse info, score, assign"]);
    say("assign m.safetensors train.npy --out r.txt", &["r.txt", ".npz or .csv"]);
    say("score m.safetensors train.npy --per-row none/s.npy", &["cannot write none/s.npy", "folder that exists"]);
    say("score train.npy test.npy", &["train.npy is not a model", "written by lsparse"]);
    say("info none.safetensors", &["none.safetensors does not exist"]);
    say("fit mixture wide.csv --from m.safetensors", &["wide.csv has 3 columns", "trained on 2"]);

    let model = place.read("m.safetensors");
    let at = model.windows(10).position(|w| w == br#"format\":1"#).expect("the version is in the metadata");
    let mut newer = model.clone();
    newer[at + 9] = b'9';
    place.write("newer.safetensors", newer);
    say("info newer.safetensors", &["newer.safetensors has model format 9", "reads up to 1", "update lsparse"]);
    place.write("short.safetensors", &model[..model.len() - 20]);
    say("info short.safetensors", &["short.safetensors"]);
    assert!(!place.files().iter().any(|name| name.starts_with("s.") || name.starts_with("r.")));
}

#[test]
fn outputs_are_checked_before_training() {
    let (place, _) = with_planted(LikelihoodKind::Gauss, 60, 5, 2, 2);
    let before = place.files();
    let long = "fit mixture train.npy -k 2 --laps 1000000000 --tolerance none";
    for (options, words) in [
        ("--out none/m.safetensors", "cannot write none/m.safetensors"),
        ("--out .", "not a plain file"),
        ("--trace none/t.jsonl", "cannot write none/t.jsonl"),
        ("--out train.npy", "train.npy is read by this very command"),
        ("--trace test.npy --heldout test.npy", "test.npy is read by this very command"),
        ("--out same --trace same", "also where the model goes"),
    ] {
        let unnamed = contains(".part").not();
        place.lsparse(&format!("{long} {options}")).assert().code(2).stderr(contains(words).and(unnamed));
        assert_eq!(place.files(), before, "{options}");
    }
    place.lsparse("patches . --out p.csv").assert().code(2).stderr(contains("end it in .npy"));
    place.lsparse("patches none --out p.npy").assert().code(2).stderr(contains("none does not exist"));
    place.lsparse("demo --out none/m.safetensors").assert().code(2).stderr(contains("cannot write"));
    assert_eq!(place.files(), before);
}

#[test]
fn what_was_there_before_survives_a_refusal() {
    let place = Place::new();
    place.npy("nan.npy", 1, &[1.0, f64::NAN]);
    place.write("m.safetensors", "old model");
    place.write("t.jsonl", "old trace");
    place.lsparse("fit mixture nan.npy -k 1 --out m.safetensors --trace t.jsonl").assert().code(2);
    assert_eq!((place.text("m.safetensors").as_str(), place.text("t.jsonl").as_str()), ("old model", "old trace"));
}
