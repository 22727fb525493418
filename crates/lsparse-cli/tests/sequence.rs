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
    place.npy("counts.npy", 2, &[1.0; 20]);
    let counts = "fit sequence counts.npy --time-series -k 1 --likelihood poisson --laps 1 --quiet --out h.safetensors";
    place.lsparse(counts).assert().success();
    std::fs::create_dir(place.path("folder")).unwrap();
    place.npy("folder/one.npy", 2, &[1.0; 20]);
    let cube = [npy_header("1, 2, 3"), [0u8; 48].to_vec()].concat();
    std::fs::write(place.path("cube.npy"), cube).unwrap();
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
        ("fit sequence data.npy --time-series -k 2 --batches 2", "2 batches for 1 sequence"),
        ("assign m.safetensors data.npy --path", "it has no meaning for a mixture"),
        ("score m.safetensors data.npy --time-series", "it has no meaning for a mixture"),
        ("fit sequence data.npy --time-series -k 2 --from m.safetensors", "is a mixture model"),
        ("sample m.safetensors --after 1", "do not follow each other"),
        ("sample m.safetensors --trials 3", "trials: rows of gauss are no counts that add up to it"),
        ("sample h.safetensors --trials 3", "trials: rows of poisson are no counts"),
        ("fit sequence data.npy --time-series -k 601", "601 states cannot be told from 600 steps; ask for at most 600"),
        (
            "fit sequence folder --time-series -k 2",
            "folder is a folder, each file of which is a sequence; leave it out",
        ),
        (
            "fit sequence folder --groups lengths.txt -k 2",
            "groups: folder is a folder, each file of which is a sequence",
        ),
        ("fit sequence folder --group-column who -k 2", "group-column: folder is a folder, each file of which"),
        ("fit sequence data.csv --groups who -k 2", "who does not exist; give a file with the number of rows of each"),
        (
            "fit sequence data.csv --group-column who --leave-out x --leave-out y -k 2",
            "leave-out: it leaves no column of data.csv that is data",
        ),
        (
            "fit sequence data.npy --groups lengths.txt -k 2 --heldout data.npy",
            "heldout-groups: it is not said where held-out sequences begin; give the lengths of those, too",
        ),
        ("fit sequence cube.npy --time-series -k 2", "or sequences of rows with x.reshape(-1, x.shape[-1])"),
        (
            "score h.safetensors holes.npy --time-series",
            "trained with --missing, full and diagonal Gaussians take NaN, and seq",
        ),
    ] {
        place.lsparse(arguments).assert().code(2).stderr(contains(said));
    }
    place.lsparse("fit sequence holes.npy --time-series -k 1 --missing --quiet").assert().success();
}

/// The header of a .npy file of 64-bit floats.
fn npy_header(shape: &str) -> Vec<u8> {
    let mut text = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': ({shape}), }}");
    text += &" ".repeat(63 - (10 + text.len()) % 64);
    text.push('\n');
    [b"\x93NUMPY\x01\x00", &(text.len() as u16).to_le_bytes()[..], text.as_bytes()].concat()
}

/// A setting without effect is refused with the reason, and never passed over.
#[test]
fn settings_that_mean_nothing_are_refused() {
    let place = place();
    let fit = "fit sequence data.npy --time-series -k 2";
    for (given, said) in [
        (
            "--method viterbi --estimate vb",
            "estimate: vb means nothing to --method viterbi; leave it out, or choose --m",
        ),
        (
            "--lambda 1",
            "lambda: it means nothing to --likelihood gauss; leave it out, or choose --likelihood multinomial or",
        ),
        ("--stickiness 3 --estimate ml", "stickiness: it means nothing to --estimate ml"),
        (
            "--alpha 3 --estimate ml",
            "alpha: it means nothing to --estimate ml; leave it out, or choose --estimate vb or map",
        ),
        ("--kappa 1 --likelihood multinomial", "kappa: it means nothing to --likelihood multinomial"),
        ("--nu 9 --likelihood poisson", "nu: it means nothing to --likelihood poisson"),
        ("--delay 9", "delay: it means nothing to --schedule memoized; leave it out, or choose --schedule stochastic"),
        ("--method viterbi -l 2", "sparsity"),
    ] {
        place.lsparse(&format!("{fit} {given}")).assert().code(2).stderr(contains(said));
    }
    place.lsparse(&format!("{fit} --laps 2 -q --method viterbi --estimate ml")).assert().success();
    // A report names everything, and is a file of settings; Viterbi training goes on from models that kept more.
    let report = place.json(&format!("{fit} -l 2 --laps 2 -q --json --out h.safetensors"));
    place.write("same.json", report["config"].to_string());
    place.lsparse("fit sequence data.npy --time-series -q --config same.json --laps 1").assert().success();
    place.lsparse("fit sequence data.npy --time-series -q --from h.safetensors --method viterbi").assert().success();
}

/// An empty line of a single column that may lack values is a missing step, wherever it is; a sequence may have no steps.
#[test]
fn empty_lines_are_missing_steps_and_empty_files_sequences_of_none() {
    let place = Place::new();
    let symbols: String =
        (0..60).map(|n| if n % 7 == 0 { "\n".to_owned() } else { format!("{}\n", n / 5 % 2) }).collect();
    place.write("symbols.txt", &symbols);
    let fit = "fit sequence symbols.txt --time-series -k 2 --likelihood multinomial --header no --missing -q";
    let report = place.json(&format!("{fit} --json --out h.safetensors"));
    assert_eq!(report["rows"], 60, "{report}");
    let score = place.json("score h.safetensors symbols.txt --time-series --header no --json");
    assert_eq!((score["rows"].as_u64(), score["observed"].as_u64()), (Some(60), Some(51)), "{score}");
    let (mean, total) =
        (score["mean_log_likelihood"].as_f64().unwrap(), score["total_log_likelihood"].as_f64().unwrap());
    assert!((mean - total / 51.0).abs() < 1e-9);
    place
        .lsparse("score h.safetensors symbols.txt --time-series --header no")
        .assert()
        .success()
        .stdout(contains("60, of which 51 are there, in 1 sequence\n"));
    // The first step, which is missing, is none that is foretold.
    let next = score["next_step_log_likelihood"].as_f64().unwrap();
    assert!((next - total / 51.0).abs() < 1e-9, "{score}");
    let shares = place.stdout("assign h.safetensors symbols.txt --time-series --header no");
    let share = |line: &str| line.split(',').nth(2).unwrap().parse::<f64>().unwrap();
    assert!(shares.lines().skip(1).all(|line| share(line) <= 1.0), "{shares}");
    std::fs::create_dir(place.path("parts")).unwrap();
    place.write("parts/a.csv", "1,2\n3,4\n5,7\n");
    place.write("parts/b.csv", "");
    place.write("parts/c.csv", "2,1\n4,4\n");
    place
        .lsparse("fit sequence parts -k 1 --laps 2 --out p.safetensors")
        .assert()
        .success()
        .stderr(contains("5 steps of 2 columns in 3 sequences"));
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
