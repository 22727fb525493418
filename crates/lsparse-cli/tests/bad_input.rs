//! What cannot be used is refused with its place and a remedy, status 2, and nothing left behind.

mod common;

use common::{Place, csv, with_planted};
use lsparse::LikelihoodKind;
use lsparse::data::write_csr_npz;
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
fn columns_whose_squares_are_zero_or_that_are_not_there() {
    let place = Place::new();
    let values: Vec<f64> = (0..80).map(|n| f64::from(n % 7) - 3.0).collect();
    let scaled = |scale: f64| values.iter().map(|x| x * scale).collect::<Vec<f64>>();
    place.npy("tiny.npy", 4, &scaled(1e-200));
    refused(&place, "tiny.npy -k 2", &["tiny.npy column 1", "no value is larger than 3e-200", "other units"]);
    place.npy_f32("small.npy", 4, &scaled(1e-20));
    refused(&place, "small.npy -k 2 --likelihood diag-gauss", &["small.npy column 1", "or in f64"]);
    let mut lacking = values.clone();
    lacking.iter_mut().skip(2).step_by(4).for_each(|x| *x = f64::NAN);
    place.npy("lacking.npy", 4, &lacking);
    refused(&place, "lacking.npy -k 2 --missing", &["column 3 of lacking.npy has no value", "leave the column out"]);
    // Small numbers that can be squared, and a constant column of zeros, are no trouble.
    place.npy("fine.npy", 4, &scaled(1e-100));
    place.lsparse("fit mixture fine.npy -k 2 --quiet --out fine.safetensors").assert().success();
    // Nor are rows with holes for a model of rows without, where that is asked for.
    let mut some = scaled(1e-100);
    some[5] = f64::NAN;
    place.npy("some.npy", 4, &some);
    common::refused(&place, "score fine.safetensors some.npy", &["some.npy row 2, column 2", "NaN is not finite"]);
    place.lsparse("score fine.safetensors some.npy --missing").assert().success();
    place.lsparse("assign fine.safetensors some.npy --missing").assert().success();
}

#[test]
fn text_that_is_not_a_table_of_numbers() {
    let place = Place::new();
    place.write("ragged.csv", "1,2\n3,4\n5,6,7\n");
    refused(&place, "ragged.csv -k 1", &["ragged.csv line 3", "3 fields", "same number of fields"]);
    place.write("word.csv", "1,2\n3,four\n");
    refused(
        &place,
        "word.csv -k 1",
        &["word.csv line 2, column 2", "\"four\" is not a number", "put a number", "--leave-out COLUMN"],
    );
    place.write("hole.csv", "1,2\n,4\n");
    refused(&place, "hole.csv -k 1", &["hole.csv line 2, column 1", "empty field"]);
    place.write("header.csv", "a,b\n");
    refused(&place, "header.csv -k 1", &["header.csv: there are no rows", "line 1", "--header no", "at least one row"]);
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
    refused(&place, "table.parquet -k 1", &["table.parquet", "a Parquet file", ".npy"]);
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
        ("train.npy -k 4 -l 0", &["--sparsity", "from 1 to K"]),
        ("train.npy -k 0", &["clusters", "at least 1"]),
        ("train.npy -k 2 --alpha 0", &["alpha", "above 0"]),
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
    let all = "note: --sparsity 3 is more than K = 2: all 2 are kept";
    place.lsparse("assign m.safetensors train.npy -l 3 --out all.npz").assert().success().stderr(contains(all));
    // Nothing is printed before all is well.
    for arguments in ["assign m.safetensors train.npy -l 0", "assign m.safetensors wide.csv"] {
        place.lsparse(arguments).assert().code(2).stdout("");
    }
    say("topics m.safetensors", &["m.safetensors is a mixture model", "lsparse info, explore, score, assign"]);
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
        ("--checkpoint .", "cannot write .: it is a folder"),
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

/// What cannot fit into the memory that a process may have is refused before anything is begun, and what fits is not.
#[cfg(target_os = "linux")]
#[test]
fn runs_that_do_not_fit_into_memory() {
    let place = Place::new();
    // 400 documents of 5 of 20,000 words.
    let (rows, words) = (400, 20_000);
    let indptr: Vec<i64> = (0..=rows).map(|n| 5 * n as i64).collect();
    let indices: Vec<i32> = (0..rows).flat_map(|n| (0..5).map(move |w| (n * 7 % 400 + w * 4000) as i32)).collect();
    write_csr_npz(&place.path("wide.npz"), rows, words, &indptr, &indices, &vec![1.0f32; 5 * rows]).unwrap();
    let limit = "ulimit -v 2000000";
    let say = |arguments: &str, words: &[&str]| {
        let before = place.files();
        let output = place.limited(limit, arguments);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments}: {message}");
        words.iter().for_each(|word| assert!(message.contains(word), "{arguments}: {word:?} is not in {message}"));
        assert_eq!(place.files(), before);
    };
    let fit = "fit mixture wide.npz -k 10 --threads 1 --out m.safetensors";
    let needs = ["needs about ", "GB of memory", "left to this process (ulimit -v)", "--likelihood multinomial"];
    say(fit, &needs);
    say(&format!("{fit} --likelihood tied-gauss"), &["needs about ", "--likelihood diag-gauss"]);
    let kept = place.limited(limit, &format!("{fit} --likelihood multinomial"));
    assert!(kept.status.success(), "{}", String::from_utf8_lossy(&kept.stderr));
    assert!(String::from_utf8_lossy(&kept.stderr).contains(" MB of memory"));
    place.lsparse("corpus build wide.npz --out c").assert().success();
    say("fit topics c -k 20000 --threads 1", &["20000 topics over 20000 words needs about", "fewer topics"]);
    let note = "--likelihood multinomial finds clusters of documents, lsparse fit topics";
    let gauss = "fit mixture c -k 2 --likelihood diag-gauss --init examples --laps 1 --threads 1";
    place.lsparse(gauss).assert().success().stderr(contains(note));
}

/// Under whatever limit, a training runs to its end or is refused beforehand: none is aborted on the way.
#[cfg(target_os = "linux")]
#[test]
fn no_training_runs_out_of_memory_on_the_way() {
    let (place, _) = with_planted(LikelihoodKind::Gauss, 4000, 10, 16, 4);
    let words: String = (0..600).map(|d| format!("w{} v{} u{} x{}\n", d % 251, d % 83, d % 127, d % 59)).collect();
    place.write("text.txt", words);
    place.lsparse("corpus build text.txt --out c --min-docs 1 -q").assert().success();
    // Few words and many topics take what topics take, not what words do.
    place.write("few.txt", "one two\nthree four\none three\ntwo four\n".repeat(5));
    place.lsparse("corpus build few.txt --out few --min-docs 1 --max-share 1 -q").assert().success();
    for arguments in [
        "fit mixture train.npy -k 900 --laps 1 --threads 2 --out m.st",
        "fit topics c -k 4000 --laps 1 --threads 2 --out m.st",
        "fit topics few -k 100000 --laps 1 --threads 2 --out m.st",
    ] {
        let mut refused = 0;
        for megabytes in (40..=180).step_by(10) {
            let output = place.limited(&format!("ulimit -v {}", megabytes * 1000), arguments);
            let message = String::from_utf8_lossy(&output.stderr).into_owned();
            // Where there is not even room for the threads, that is said.
            let said = message.contains("needs about ") && message.contains("left to this process (ulimit -v)")
                || message.contains("cannot be started with the memory that there is");
            match output.status.code() {
                Some(0) => assert!(place.path("m.st").exists()),
                Some(2) if said => refused += 1,
                other => panic!("{arguments}, {megabytes} MB: {other:?}, {message}"),
            }
        }
        assert!((1..15).contains(&refused), "{arguments}: {refused} of 15 are refused");
    }
}

#[test]
fn rows_and_text_come_from_standard_input() {
    let (place, truth) = with_planted(LikelihoodKind::Gauss, 60, 5, 2, 2);
    let text = csv(2, &truth.values[..120], ",");
    place.write("train.csv", &text);
    let fit =
        |data: &str| format!("fit mixture {data} -k 2 --out {}.st --json -q", if data == "-" { "a" } else { "b" });
    place.lsparse(&fit("-")).write_stdin(text).assert().success();
    place.lsparse(&fit("train.csv")).assert().success();
    assert!(place.read("a.st") == place.read("b.st"));
    let scored =
        |data: &str| place.lsparse(&format!("score a.st {data} --json")).write_stdin(place.read("train.npy")).assert();
    assert_eq!(scored("-").success().get_output().stdout, scored("train.npy").success().get_output().stdout);
    // Held-out rows may come from there too, if the others do not.
    let heldout = "fit mixture train.csv -k 2 --heldout - --json -q";
    let json: serde_json::Value = serde_json::from_slice(
        &place.lsparse(heldout).write_stdin(place.read("test.npy")).assert().success().get_output().stdout,
    )
    .unwrap();
    assert_eq!(json["heldout"], place.json("fit mixture train.csv -k 2 --heldout test.npy --json -q")["heldout"]);
    assert!(json["heldout"].is_number(), "{json}");
    common::refused(&place, "fit mixture - -k 2 --heldout -", &["heldout", "standard input has the data already"]);
    common::refused(&place, "fit topics c -k 2 --heldout -", &["heldout", "a corpus is a folder", "corpus build"]);
    place.lsparse("assign a.st - --out r.npz").write_stdin(place.read("train.npy")).assert().success();
    place.lsparse("corpus build - --out c --min-docs 1").write_stdin("cat dog\nbird dog cat\n").assert().success();
    assert_eq!(place.text("c/vocab.txt"), "bird\n");
    for (arguments, input, said) in [
        ("fit mixture - -k 1", "1,2\n3,x\n", "standard input line 2, column 2"),
        ("fit mixture - -k 1", "", "standard input has no rows"),
        ("score a.st -", "1,2,3\n", "standard input has 3 columns"),
    ] {
        place.lsparse(arguments).write_stdin(input).assert().code(2).stderr(contains(said));
    }
}

#[test]
fn arrays_by_columns_and_many_columns_are_read() {
    let (place, truth) = with_planted(LikelihoodKind::Gauss, 60, 5, 3, 2);
    let by_columns: Vec<u8> =
        (0..3).flat_map(|d| truth.values[d..180].iter().step_by(3).flat_map(|v| v.to_le_bytes())).collect();
    place.write("f.npy", npy_bytes("{'descr': '<f8', 'fortran_order': True, 'shape': (60, 3), }", &by_columns));
    place.lsparse("fit mixture f.npy -k 2 --out f.st").assert().success().stderr(contains("np.ascontiguousarray(x)"));
    place.lsparse("fit mixture train.npy -k 2 --out c.st").assert().success();
    assert!(place.read("f.st") == place.read("c.st"));
    // Words that are hashed to one of 2^20 columns.
    let indices: Vec<i32> = (0..40).map(|j| (j % 4) * 250_000 + j / 20).collect();
    let indptr: Vec<i64> = (0..=20).map(|n| 2 * n).collect();
    write_csr_npz(&place.path("hashed.npz"), 20, 1 << 20, &indptr, &indices, &[1.0f32; 40]).unwrap();
    place.lsparse("fit mixture hashed.npz --likelihood multinomial -k 2 --laps 2").assert().success();
    place.lsparse("corpus build hashed.npz --out hashed").assert().success();
}

#[test]
fn settings_and_surroundings_that_were_passed_over() {
    let (place, _) = with_planted(LikelihoodKind::Poisson, 60, 5, 2, 2);
    for likelihood in ["multinomial", "poisson"] {
        let fit = format!("train.npy -k 2 --likelihood {likelihood} --lambda 1e300");
        refused(&place, &fit, &["lambda", "1e300", "at most 1e15"]);
    }
    let fit = "fit mixture train.npy -k 2 --out m.st";
    let with = |level: &str| place.lsparse(fit).env("LSPARSE_SIMD", level).assert();
    with("bogus").code(2).stderr(contains("LSPARSE_SIMD").and(contains("portable")));
    with("portable").success();
    place.write("all.json", r#"{"sparsity": "K", "clusters": 3}"#);
    assert_eq!(place.json("fit mixture train.npy --config all.json --json -q")["config"]["sparsity"], 3);
    assert_eq!(place.json("fit mixture train.npy --config all.json -k 5 --json -q")["config"]["sparsity"], 5);
    place.write("auto.json", r#"{"sparsity": "auto"}"#);
    let report = place.json("fit mixture train.npy --config auto.json -k 5 --json -q");
    assert_eq!(report["config"]["sparsity-tolerance"], 0.01);
    // What is there and was not named is not written over, nor what may not be written.
    place.write("demo.safetensors", "mine");
    place.lsparse("demo").assert().code(2).stderr(contains("demo.safetensors exists already").and(contains("--out")));
    let mut permissions = std::fs::metadata(place.path("m.st")).unwrap().permissions();
    permissions.set_readonly(true);
    std::fs::set_permissions(place.path("m.st"), permissions).unwrap();
    place.lsparse(fit).assert().code(2).stderr(contains("cannot write m.st: it is read-only"));
    place.npy("tiny.npy", 1, &[1e-300, 2e-300, -1e-300]);
    refused(&place, "tiny.npy -k 2", &["tiny.npy column 1", "variances need values", "other units"]);
}

#[test]
fn the_largest_clusters_of_centres_are_those_with_most_rows() {
    let (place, _) = with_planted(LikelihoodKind::Gauss, 400, 5, 2, 12);
    place.lsparse("fit mixture train.npy -k 12 --method kmeans --out m.st").assert().success();
    let info = place.json("info m.st --json");
    let rows: Vec<f64> =
        info["largest"].as_array().unwrap().iter().map(|note| note["count"].as_f64().unwrap()).collect();
    assert!(rows.is_sorted_by(|a, b| a >= b) && rows[0] > rows[9], "{rows:?}");
}

/// The name of a file that is not what it should be; the ending is that of the sound one.
fn bad_name(sound: &str) -> String {
    format!("bad.{}", sound.split_once('.').unwrap().1)
}

/// A place with a sound file of every kind.
fn with_everything() -> Place {
    let (place, truth) = with_planted(LikelihoodKind::Gauss, 60, 20, 2, 2);
    place.write("rows.csv", csv(2, &truth.values[..120], ","));
    let weights: Vec<u8> = (0..60).flat_map(|_| 1f64.to_le_bytes()).collect();
    place.write("weights.npy", npy_bytes("{'descr': '<f8', 'fortran_order': False, 'shape': (60,), }", &weights));
    let indices: Vec<i32> = (0..80).map(|j| j % 4).collect();
    let indptr: Vec<i64> = (0..=40).map(|n| 2 * n).collect();
    write_csr_npz(&place.path("counts.npz"), 40, 4, &indptr, &indices, &[1.0f32; 80]).unwrap();
    place.write("run.json", r#"{"clusters": 2, "laps": 3}"#);
    place.write("topics.json", r#"{"topics": 2, "laps": 3}"#);
    place.write("docword.txt", "4\n3\n5\n1 1 2\n1 3 1\n2 2 4\n4 1 1\n4 2 1\n");
    place.write("vocab.txt", "apple\nbee\ncat\n");
    place.write("ids.txt", "a\nb\nc\nd\n");
    place.write("split.txt", "train\ntest\ntrain\nval\n");
    place.write("x.mtx", "%%MatrixMarket matrix coordinate integer general\n2 3 3\n1 1 2\n1 3 1\n2 2 4\n");
    place.write("x.ldac", "2 0:1 2:2\n1 1:4\n");
    place.write("x.svm", "1 1:1 3:2\n-1 2:4\n");
    place.write("x.jsonl", "{\"text\": \"apple bee\"}\n{\"text\": \"apple cat\"}\n");
    place.write("x.mallet", "one X apple bee\ntwo X apple cat\n");
    place.write("texts.csv", "id,text\n1,apple bee\n2,\"apple cat\"\n");
    place.write("values.txt", "0.5 0.25\n0.75 oops\n".replace("oops", "1"));
    for command in [
        "fit mixture train.npy -k 2 -q --out m.st",
        "corpus build docword.txt --vocab vocab.txt --out c -q",
        "fit topics c -k 2 -q --out t.st",
    ] {
        place.lsparse(command).assert().success();
    }
    place
}

/// For every command, every file that it reads and everything that may be wrong with one: status 2, and a message that
/// names the file and says what to do about it.
#[test]
fn every_command_refuses_every_kind_of_bad_file() {
    let place = with_everything();
    // The command, a sound file in the place of BAD, and what is nothing wrong with such a file.
    let files: &[(&str, &str, &[&str])] = &[
        ("fit mixture BAD -k 2", "train.npy", &[]),
        ("fit mixture BAD -k 2", "rows.csv", &["cut"]),
        ("fit mixture BAD -k 2 --likelihood multinomial", "counts.npz", &[]),
        ("fit mixture train.npy -k 2 --heldout BAD", "test.npy", &[]),
        ("fit mixture train.npy -k 2 --row-weights BAD", "weights.npy", &[]),
        ("fit mixture train.npy --config BAD", "run.json", &[]),
        ("fit mixture train.npy --from BAD", "m.st", &[]),
        ("fit topics c --config BAD", "topics.json", &[]),
        ("fit topics c --from BAD", "t.st", &[]),
        ("score BAD test.npy", "m.st", &[]),
        ("score m.st BAD", "test.npy", &[]),
        ("score t.st BAD --format jsonl --strict", "x.jsonl", &[]),
        ("assign BAD test.npy", "m.st", &[]),
        ("assign m.st BAD", "test.npy", &[]),
        ("info BAD", "m.st", &[]),
        ("info BAD", "t.st", &[]),
        ("topics BAD", "t.st", &[]),
        ("similar BAD c --doc 1", "t.st", &[]),
        ("similar t.st BAD --doc 1", "c.x", &["cut"]),
        ("corpus build BAD --format uci --out o", "docword.txt", &[]),
        ("corpus build BAD --out o", "x.mtx", &[]),
        ("corpus build BAD --out o", "x.ldac", &["cut"]),
        ("corpus build BAD --out o", "x.svm", &["cut"]),
        ("corpus build BAD --out o --min-docs 1 --max-share 1", "x.jsonl", &[]),
        ("corpus build BAD --out o --strict --min-docs 1 --max-share 1", "x.mallet", &["cut"]),
        ("corpus build BAD --out o --strict --min-docs 1 --max-share 1", "texts.csv", &["cut"]),
        ("corpus build BAD --out o", "counts.npz", &[]),
        ("corpus build docword.txt --vocab BAD --strict --out o", "vocab.txt", &[]),
        ("corpus build docword.txt --ids BAD --out o", "ids.txt", &[]),
        ("corpus build x.jsonl --like BAD --out o", "c.x", &["cut"]),
        ("corpus split c --file BAD --out o", "split.txt", &[]),
        ("corpus split BAD --out o", "c.x", &["cut"]),
        ("corpus info BAD", "c.x", &["cut"]),
        ("fit topics BAD -k 2", "c.x", &["cut"]),
        ("fit topics c -k 2 --heldout BAD", "c.x", &["cut"]),
        ("patches BAD --out o.npy", "c.x", &["cut"]),
        ("select BAD", "values.txt", &["cut"]),
    ];
    let noise: Vec<u8> = (0..997u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let mut complaints = Vec::new();
    for &(arguments, sound, sound_kinds) in files {
        let bad = bad_name(sound);
        for kind in ["missing", "empty", "noise", "folder", "cut", "another", "device"] {
            if sound_kinds.contains(&kind) {
                continue;
            }
            match kind {
                "empty" => place.write(&bad, ""),
                "noise" => place.write(&bad, &noise),
                "folder" => std::fs::create_dir(place.path(&bad)).unwrap(),
                "cut" => {
                    let whole = place.read(sound);
                    place.write(&bad, &whole[..whole.len() * 2 / 3]);
                }
                "another" if sound.ends_with(".st") => place.write(&bad, place.read("train.npy")),
                "another" => place.write(&bad, place.read("m.st")),
                _ => {}
            }
            let name = if kind == "device" { "/dev/null" } else { &bad };
            let before = place.files();
            let output = place.lsparse(&arguments.replace("BAD", name)).output().unwrap();
            let message = String::from_utf8_lossy(&output.stderr).into_owned();
            let error = message.lines().find(|line| line.starts_with("error: ")).unwrap_or_default();
            let is_said = error.contains(name) && (error.contains("; ") || error.contains("spelling"));
            if output.status.code() != Some(2) || !is_said || place.files() != before {
                complaints.push(format!("{arguments}, {kind}: {:?}, {message}", output.status.code()));
            }
            let _ = std::fs::remove_dir_all(place.path("o"));
            let _ = std::fs::remove_file(place.path(&bad)).or_else(|_| std::fs::remove_dir(place.path(&bad)));
        }
    }
    assert!(complaints.is_empty(), "{} complaints:\n{}", complaints.len(), complaints.join("\n"));
}

/// What is no text would become words that nobody wrote.
#[test]
fn files_that_are_no_text_become_no_documents() {
    let place = with_everything();
    let zeros = [0u8; 40];
    for (name, start, kind, remedy) in [
        ("x.parquet", &b"PAR1\x15\x04"[..], "a Parquet file", "export it to CSV or JSON lines"),
        ("x.jpg", b"\xff\xd8\xff\xe0", "a JPEG image", "give text"),
        ("x.png", b"\x89PNG\r\n\x1a\n", "a PNG image", "give text"),
        ("x.pdf", b"%PDF-1.4\n", "a PDF document", "pdftotext"),
        ("ls", b"\x7fELF\x02\x01", "a program", "give text"),
        ("x.bin", b"some words\0", "zero bytes", "give text"),
    ] {
        place.write(name, [start, &zeros].concat());
        for command in ["corpus build BAD --out o", "assign t.st BAD", "score t.st BAD"] {
            let words = [name, "the file is not text", kind, remedy];
            common::refused(&place, &command.replace("BAD", name), &words);
        }
    }
    place.write("koi8.txt", [&b"\xf0\xd2\xc9\xd7\xc5\xd4 "[..]; 20].concat());
    common::refused(&place, "corpus build koi8.txt --out o", &["koi8.txt", "not UTF-8", "iconv"]);
    common::refused(&place, "fit mixture x.parquet -k 2", &["x.parquet", "a Parquet file", ".npy"]);
    // A few letters of an older encoding are replaced, as ever.
    place.write("latin.txt", [&b"caf\xe9 du matin, bon vin\n"[..]; 20].concat());
    place.lsparse("corpus build latin.txt --out o --max-share 1").assert().success();
}

#[test]
fn what_was_said_badly_or_not_at_all() {
    let place = with_everything();
    let say = |arguments: &str, words: &[&str]| common::refused(&place, arguments, words);
    say("topics t.st --by probability --relevance 0.5", &["relevance", "by probability", "--by relevance"]);
    std::fs::create_dir(place.path("images")).unwrap();
    image::GrayImage::new(8, 8).save(place.path("images/small.png")).unwrap();
    say("patches images --out p.npy", &["small.png", "8 x 8 pixels", "--patch-grid full"]);
    place.write("images/other.bmp", "BM");
    let patches = "patches images --out p.npy --patch-grid full";
    place.lsparse(patches).assert().success().stderr(contains("only PNG and JPEG images are read; 1 others are not"));
    write_csr_npz(&place.path("huge.npz"), 1, 2, &[0, 2], &[0, 1], &[1.0f64, 8e15]).unwrap();
    say(
        "corpus build huge.npz --out o",
        &["huge.npz row 1, column 2", "8000000000000000", "2147483647 is the largest"],
    );
    place.write("negative.txt", "2\n3\n2\n1 1 -1\n2 3 1\n");
    say("corpus build negative.txt --out o", &["negative.txt line 4", "-1 is negative", "zero or more"]);
    place.write("words.txt", "some words and no number\n");
    say("fit mixture words.txt -k 1", &["words.txt: there are no rows", "line 1", "lsparse corpus build"]);
    place.write("wide.csv", b"\xff\xfe1\0,\x002\0\n\0");
    say("fit mixture wide.csv -k 1", &["wide.csv", "UTF-16", "iconv"]);
    place.write("mac.csv", "a,b\r1,2\r3,4\r5,6\r");
    place.lsparse("fit mixture mac.csv -k 1").assert().success().stderr(contains("3 rows of 2 columns"));
    for (arguments, words) in [
        ("fit mixture train.npy -k 2 --out -", &["-: this is not written to standard output; give a file"][..]),
        ("fit mixture train.npy -k 2 --trace -", &["give a file"]),
        ("assign m.st test.npy --out -", &["give a file"]),
        ("corpus build x.jsonl --out -", &["give a folder"]),
        ("corpus split c --out -", &["give a folder"]),
        ("fit mixture train.npy -k 2 --trace rows.csv", &["rows.csv: it is not a trace, and would be written over"]),
        ("info rows.csv", &["rows.csv is not a model that can be read: it does not begin as a .safetensors file does"]),
    ] {
        say(arguments, words);
    }
    assert!(place.text("rows.csv").starts_with(|c: char| c.is_ascii_digit() || c == '-'));
    for (arguments, words) in [
        ("fit mixture train.npy -k 2 --seed 99999999999999999999", "too large; 18446744073709551615 is the largest"),
        ("fit mixture train.npy -k 2 --heldout test.npy --heldout-every 0", "give a whole number, 1 or more"),
        ("fit mixture train.npy -k 2 --patch-size 0", "give a whole number, 1 or more"),
        ("corpus build x.jsonl --vocab-size 0 --out o", "give a whole number, 1 or more, or none for no limit"),
    ] {
        place.lsparse(arguments).assert().code(2).stderr(contains(words));
    }
    let all = "corpus build x.jsonl --vocab-size none --min-docs 1 --max-share 1 --out all";
    place.lsparse(all).assert().success();
    place.write("typo.json", "{\n\"clusters\": 2,\n\"cluster\": 3}");
    say(
        "fit mixture train.npy --config typo.json",
        &[
            "typo.json: line 3: \"cluster\" is no setting; there are \"method\", ",
            "\"clusters\", ",
            "such as {\"clusters\": 50}",
        ],
    );
    place.write("type.json", "{\"clusters\": 2, \"laps\": \"many\", \"likelihood\": \"bell\"}");
    say(
        "fit mixture train.npy --config type.json",
        &["\"laps\" is \"many\", not a whole number, 0 or more, or null for none"],
    );
    place.write("type.json", "{\"clusters\": 2, \"likelihood\": \"bell\"}");
    say("fit mixture train.npy --config type.json", &["\"likelihood\" is \"bell\", not one of \"", "\"gauss\""]);
    // A small number is no row of zeros.
    place.write("far.csv", "0,0\n0.1,0\n0,0.1\n900,900\n900.1,900\n900,900.1\n");
    place.lsparse("fit mixture far.csv -k 2 -q --out far.st").assert().success();
    let table = place.stdout("assign far.st far.csv -l K");
    assert!(table.contains("e-") && table.lines().all(|line| line.len() < 50), "{table}");
    // A link stays a link.
    #[cfg(unix)]
    {
        std::fs::create_dir(place.path("store")).unwrap();
        std::os::unix::fs::symlink("store/m.st", place.path("link.st")).unwrap();
        place.lsparse("fit mixture train.npy -k 2 -q --out link.st").assert().success();
        assert!(place.path("link.st").is_symlink() && place.read("store/m.st") == place.read("m.st"));
    }
}

#[test]
fn a_gpu_that_is_asked_for_by_name_is_not_left_idle_without_a_word() {
    let place = Place::new();
    place.write("counts.csv", "1,2\n3,0\n0,4\n");
    for quiet in ["", " -q"] {
        let arguments = format!("counts.csv -k 2 --likelihood multinomial --device cuda{quiet}");
        refused(&place, &arguments, &["device: ", "GPU", "--device cpu, or leave it out"]);
    }
    place.lsparse("fit mixture counts.csv -k 2 --likelihood multinomial --device auto -q").assert().success();
}
