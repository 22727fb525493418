//! Hidden Markov models, as a person trains and uses them.

mod common;

use common::Place;
use lsparse::LikelihoodKind;
use lsparse::data::{NpyRows, RowSource, Rows, read_csr_npz};
use lsparse::synthetic::{ChainShape, planted_chain};
use predicates::prelude::*;
use predicates::str::contains;

/// Sequences of 200, 100 and 300 steps in a folder, as .npy and as text with a column that names them.
fn place() -> Place {
    let place = Place::new();
    let truth = planted_chain(LikelihoodKind::DiagGauss, &[200, 100, 300], 2, 4, ChainShape::default(), 3);
    place.npy("data.npy", 2, &truth.values);
    place.write("lengths.txt", "200\n100\n300\n");
    place.write("labels.txt", truth.labels.iter().map(|k| format!("{k}\n")).collect::<String>());
    let names = ["ann", "bob", "cid"].into_iter().zip(truth.lengths).flat_map(|(name, n)| vec![name; n]);
    let lines = names.zip(truth.values.chunks(2)).map(|(name, row)| format!("{},{name},{}\n", row[0], row[1]));
    place.write("data.csv", "x,who,y\n".to_owned() + &lines.collect::<String>());
    place
}

#[test]
fn from_sequences_to_states() {
    let place = place();
    let fit = "fit sequence data.npy --groups lengths.txt -k 4 -l 2 --likelihood diag-gauss --out h.safetensors";
    place
        .lsparse(fit)
        .assert()
        .success()
        .stdout(contains("states      4").and(contains("transitions")).and(contains("steps/s")))
        .stderr(contains("600 steps of 2 columns in 3 sequences"));
    let score = place.json("score h.safetensors data.npy --groups lengths.txt --labels labels.txt --json");
    assert_eq!((score["rows"].as_u64(), score["sequences"].as_u64()), (Some(600), Some(3)));
    assert!(score["next_step_log_likelihood"].is_number() && score["bic"].is_null());
    assert!(score["agreement"]["nmi"].as_f64().unwrap() > 0.8, "{score}");
    place
        .lsparse("score h.safetensors data.npy --groups lengths.txt --per-row rows.npy")
        .assert()
        .success()
        .stdout(contains("a step").and(contains("next step")).and(contains("600 in 3 sequences")));
    let mut scores = Rows::<f64>::dense(1);
    NpyRows::open(&place.path("rows.npy")).unwrap().read_f64(0, 600, &mut scores).unwrap();
    let sum: f64 = scores.as_dense().unwrap().iter().sum();
    assert!((sum - score["total_log_likelihood"].as_f64().unwrap()).abs() < 1e-6);

    place.lsparse("assign h.safetensors data.npy --groups lengths.txt --out states.npz").assert().success();
    let states = read_csr_npz(&place.path("states.npz")).unwrap();
    assert_eq!((states.num_rows(), states.dim()), (600, 4));
    let csv = place.stdout("assign h.safetensors data.npy --groups lengths.txt -l 1");
    assert!(csv.starts_with("row,state,responsibility\n0,") && csv.lines().count() == 601);
    place.lsparse("assign h.safetensors data.npy --groups lengths.txt --path --out path.npy").assert().success();
    let path = place.stdout("assign h.safetensors data.npy --groups lengths.txt --path --json");
    assert!(path.lines().count() == 600 && path.starts_with("{\"row\":0,\"states\":["));

    place
        .lsparse("info h.safetensors")
        .assert()
        .success()
        .stdout(contains("hidden Markov model of 4 diag-gauss states").and(contains("followed by")));
    assert_eq!(place.json("info h.safetensors --json --top 2")["largest"].as_array().unwrap().len(), 2);
    let drawn = place.stdout("sample h.safetensors --steps 25 --seed 3");
    assert!(drawn.starts_with("state,x1,x2\n") && drawn.lines().count() == 26);
    place.lsparse("sample h.safetensors --steps 9 --out d.npy --states s.npy").assert().success();
    assert_eq!(NpyRows::open(&place.path("d.npy")).unwrap().num_rows(), 9);
}

#[test]
fn a_column_or_files_tell_sequences_apart() {
    let place = place();
    let by_lengths = "fit sequence data.npy --groups lengths.txt -k 4 --likelihood diag-gauss --laps 3 --quiet";
    place.lsparse(&format!("{by_lengths} --out a.safetensors")).assert().success();
    let by_column = "fit sequence data.csv --group-column who -k 4 --likelihood diag-gauss --laps 3 --quiet";
    place.lsparse(&format!("{by_column} --out b.safetensors")).assert().success();
    assert!(place.read("a.safetensors") == place.read("b.safetensors"));
    std::fs::create_dir(place.path("parts")).unwrap();
    let text = place.text("data.csv");
    for name in ["ann", "bob", "cid"] {
        let lines = text.lines().filter(|line| line.contains(name)).map(|line| line.replace(&format!("{name},"), ""));
        place.write(&format!("parts/{name}.csv"), lines.map(|line| line + "\n").collect::<String>());
    }
    let by_files = "fit sequence parts -k 4 --likelihood diag-gauss --laps 3 --quiet --out c.safetensors";
    place.lsparse(by_files).assert().success();
    assert!(place.read("a.safetensors") == place.read("c.safetensors"));
    place.lsparse("fit sequence data.npy --time-series -k 4 --laps 2 --quiet --threads 1").assert().success();
}

#[test]
fn a_run_that_was_ended_goes_on() {
    let place = place();
    let fit = "fit sequence data.npy --groups lengths.txt -k 4 -l 2 --batches 3 --tolerance none --quiet";
    place.lsparse(&format!("{fit} --laps 6 --out whole.safetensors")).assert().success();
    let kept = format!("{fit} --checkpoint run.ckpt --checkpoint-every 0s");
    place.lsparse(&format!("{kept} --laps 2")).assert().success();
    place.lsparse(&format!("{kept} --laps 6 --resume --out resumed.safetensors")).assert().success();
    assert!(place.read("whole.safetensors") == place.read("resumed.safetensors"));
}

#[test]
fn what_cannot_be_used_is_refused_with_a_remedy() {
    let place = place();
    place.write("short.txt", "200\n100\n");
    place.npy("holes.npy", 2, &[1.0, 2.0, f64::NAN, f64::NAN, 3.0, 4.0]);
    place.npy("none.npy", 2, &[f64::NAN; 6]);
    place.lsparse("fit mixture data.npy -k 2 --laps 1 --quiet --out m.safetensors").assert().success();
    for (arguments, said) in [
        ("fit sequence data.npy --groups short.txt -k 2", "add up to 300, and there are 600 rows"),
        ("fit sequence data.npy -k 2", "give --groups, --group-column or --time-series"),
        ("fit sequence data.npy --time-series", "give it with -k"),
        (
            "fit sequence data.npy --time-series -k auto",
            "it is not found for this model; give a whole number, 1 or more",
        ),
        (
            "fit sequence none.npy --time-series -k 1 --missing",
            "missing: all 3 steps of none.npy are missing; give sequences",
        ),
        ("fit sequence data.npy --time-series -k 2 --patch-size 4", "patch-size: it has no meaning for sequences"),
        ("fit sequence data.csv --group-column when -k 2", "has no column \"when\""),
        ("fit sequence data.npy --group-column 1 -k 2", "give the lengths of the sequences by --groups"),
        ("fit sequence holes.npy --time-series -k 2", "row 2, column 1: NaN is not finite"),
        ("fit sequence data.npy --time-series -k 2 --batches 2", "2 batches for 1 sequences"),
        ("assign m.safetensors data.npy --path", "it has no meaning for a mixture"),
        ("score m.safetensors data.npy --time-series", "it has no meaning for a mixture"),
        ("fit sequence data.npy --time-series -k 2 --from m.safetensors", "is a mixture model"),
        ("sample m.safetensors --after 1", "do not follow each other"),
    ] {
        place.lsparse(arguments).assert().code(2).stderr(contains(said));
    }
    place.lsparse("fit sequence holes.npy --time-series -k 1 --missing --quiet").assert().success();
}

/// A column of whole numbers is a symbol a step where a row is shared out among categories.
#[test]
fn symbols_are_whole_numbers_in_a_column() {
    let place = Place::new();
    // Two states that each prefer one half of four symbols far apart, for twenty steps.
    let symbols: Vec<usize> =
        (0..800).map(|n| [7, 90, 5_000_000, 6_000_000][2 * (n / 20 % 2) + n * n % 7 % 2]).collect();
    let lines = |symbols: &[usize]| symbols.iter().map(|symbol| format!("{symbol}\n")).collect::<String>();
    place.write("symbols.txt", lines(&symbols));
    place.write("held.txt", lines(&symbols[..100]));
    let fit = "fit sequence symbols.txt --time-series -k 2 --likelihood multinomial -q --header no";
    place.lsparse(&format!("{fit} --heldout held.txt --out h.safetensors")).assert().success();
    let info = place.json("info h.safetensors --json");
    assert_eq!(info["dim"], 4, "{info}");
    let score = place.json("score h.safetensors symbols.txt --time-series --header no --json");
    let mean = score["mean_log_likelihood"].as_f64().unwrap();
    assert!(mean > -1.0 && mean < -0.5, "{mean}");
    let path = place.stdout("assign h.safetensors symbols.txt --time-series --header no --path");
    let path: Vec<&str> = path.lines().skip(1).map(|line| line.split(',').nth(1).unwrap()).collect();
    assert!((0..800).all(|n| path[n] == path[n / 20 % 2 * 20]) && path[0] != path[20], "{path:?}");
    place.lsparse("explore h.safetensors symbols.txt --time-series --header no --out p.html -q").assert().success();
    let drawn = place.stdout("sample h.safetensors --steps 30");
    assert!(drawn.starts_with("state,x1\n"), "{drawn}");
    let is_one = |line: &str| ["7", "90", "5000000", "6000000"].contains(&line.split(',').nth(1).unwrap());
    assert!(drawn.lines().skip(1).all(is_one), "{drawn}");
    // One that is missing is a step that nothing is known of; one that training has not seen, and what is none, are refused.
    place.write("gap.txt", "7\nNA\n90\n");
    place.lsparse("score h.safetensors gap.txt --time-series --header no --missing").assert().success();
    // A model that was trained on some that are missing takes them without a word.
    let gaps = lines(&symbols).replacen("7\n", "NA\n", 3);
    place.write("gaps.txt", gaps);
    let fit_gaps = fit.replace("symbols.txt", "gaps.txt");
    place.lsparse(&format!("{fit_gaps} --missing --out g.safetensors")).assert().success();
    place.lsparse("score g.safetensors gaps.txt --time-series --header no").assert().success();
    place.lsparse(&format!("{fit_gaps} --from g.safetensors --out g2.safetensors")).assert().success();
    for (text, said) in [
        ("7\n8\n", "row 2, column 1: 8 is not a symbol that the model was trained on"),
        ("7\n0.5\n", "row 2, column 1: 0.5 is not a symbol (a whole number, zero or more)"),
        ("7\n-1\n", "row 2, column 1: -1 is not a symbol"),
    ] {
        place.write("bad.txt", text);
        let score = place.lsparse("score h.safetensors bad.txt --time-series --header no").assert();
        score.code(2).stderr(contains(said));
    }
}

/// As many states, clusters or topics as there are is what more of them come to, and it is said.
#[test]
fn more_than_all_is_all_and_said() {
    let place = place();
    let said = "note: --sparsity 9 is more than K = 2: all 2 are kept";
    for kind in ["sequence data.npy --time-series", "mixture data.npy"] {
        let fit = |l: &str| format!("fit {kind} -k 2 -l {l} --laps 2 --out {l}.safetensors");
        place.lsparse(&fit("9")).assert().success().stderr(contains(said).count(1));
        place.lsparse(&fit("K")).assert().success();
        assert!(place.read("9.safetensors") == place.read("K.safetensors"), "{kind}");
    }
    place.lsparse("assign 9.safetensors data.npy -l 9 --out a.npz").assert().success().stderr(contains(said));
}

/// Steps that are missing, or some values of them, are for every model whose states can do without.
#[test]
fn steps_may_lack_values_whichever_way_the_model_was_trained() {
    let place = place();
    place.npy("some.npy", 2, &[1.0, f64::NAN, f64::NAN, f64::NAN, 3.0, 4.0]);
    let fit = "fit sequence data.npy --groups lengths.txt -k 3 --laps 2 -q --out h.safetensors --likelihood";
    for likelihood in ["diag-gauss", "gauss"] {
        place.lsparse(&format!("{fit} {likelihood}")).assert().success();
        let score = place.json("score h.safetensors some.npy --time-series --missing --json");
        assert!(score["total_log_likelihood"].as_f64().unwrap().is_finite() && score["observed"] == 2, "{score}");
        place.lsparse("explore h.safetensors some.npy --time-series --missing --out p.html -q").assert().success();
        // What it says of the values that are there is what a model says that was trained to do without.
        let with = place.json("score h.safetensors data.npy --groups lengths.txt --missing --json");
        let without = place.json("score h.safetensors data.npy --groups lengths.txt --json");
        let mean = |score: &serde_json::Value| score["mean_log_likelihood"].as_f64().unwrap();
        assert!((mean(&with) - mean(&without)).abs() < 1e-9, "{with} and {without}");
    }
    place.lsparse(&format!("{fit} tied-gauss")).assert().success();
    let refused = place.lsparse("score h.safetensors some.npy --time-series --missing").assert().code(2);
    refused.stderr(contains("row 1, column 2").and(contains("a step is there or missing as a whole")));
}
