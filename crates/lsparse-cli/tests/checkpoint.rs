//! Runs that are killed go on and end with the same bits; checkpoints that cannot be used or written are refused.

#![cfg(unix)]

mod common;

use std::process::{Command, Stdio};
use std::time::Duration;

use common::{Place, with_planted};
use lsparse::LikelihoodKind;
use lsparse::synthetic::themed_corpus;
use predicates::prelude::*;
use predicates::str::contains;
use serde_json::Value;

/// Kill the run with SIGKILL after random times until it ends by itself; gives how often it was killed.
fn kill_until_done(place: &Place, arguments: &str, mut random: u64) -> usize {
    for kills in 0..200 {
        let mut child = Command::new(env!("CARGO_BIN_EXE_lsparse"))
            .current_dir(place.path(""))
            .args(arguments.split_whitespace())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        if kills == 0 {
            // As soon as there is something to go on from: a fast machine may be done before any fixed time is over.
            while !place.path("run.ckpt").exists() && child.try_wait().unwrap().is_none() {
                std::thread::sleep(Duration::from_micros(200));
            }
        } else {
            // The longer it takes, the longer a piece, so that a slow machine comes to an end too.
            std::thread::sleep(Duration::from_millis((random >> 33) % (40 + 10 * kills as u64)));
        }
        child.kill().unwrap();
        let output = child.wait_with_output().unwrap();
        if output.status.success() {
            return kills;
        }
        assert!(output.status.code().is_none(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    panic!("200 pieces did not make a run");
}

/// The lines of a trace without what depends on the clock and the memory, and without the work of an exact search, whose
/// sketches start anew with the process.
fn steps(place: &Place, name: &str) -> Vec<Value> {
    let line = |mut step: Value| {
        let fields = step.as_object_mut().unwrap();
        for field in ["seconds", "cpu_seconds", "rows_per_second", "peak_memory_bytes"] {
            fields.remove(field).unwrap();
        }
        fields.remove("moves_cpu_seconds");
        if fields.remove("search_work").is_some() {
            fields.remove("weights_evaluated").unwrap();
        }
        step
    };
    place.steps(name).into_iter().map(line).collect()
}

/// A run that is killed again and again is the same as one that is not, in its model and its trace.
fn same_when_killed(place: &Place, fit: &str, seed: u64) {
    place.lsparse(&format!("{fit} --threads 1 --out whole.st --trace whole.jsonl --quiet")).assert().success();
    for threads in [1, 2] {
        let pieces = format!(
            "{fit} --threads {threads} --out pieces.st --trace pieces.jsonl --checkpoint run.ckpt --checkpoint-every 0 \
             --resume --quiet"
        );
        let kills = kill_until_done(place, &pieces, seed + threads);
        assert!(kills > 0, "the run was too short to be killed");
        assert!(place.read("pieces.st") == place.read("whole.st"), "{fit}: {threads} threads, {kills} kills");
        assert_eq!(steps(place, "pieces.jsonl"), steps(place, "whole.jsonl"), "{fit}: {threads} threads");
        // After a finished run the same model is written again, and nothing is left over.
        std::fs::remove_file(place.path("pieces.st")).unwrap();
        place.lsparse(&pieces).assert().success();
        assert!(place.read("pieces.st") == place.read("whole.st"), "{fit}: again");
        assert_eq!(steps(place, "pieces.jsonl").len(), steps(place, "whole.jsonl").len());
        assert!(!place.path("run.ckpt.part").exists());
        for name in ["run.ckpt", "run.ckpt.memos", "run.ckpt.rows", "pieces.st", "pieces.jsonl"] {
            let _ = std::fs::remove_file(place.path(name));
        }
    }
}

#[test]
fn a_killed_mixture_ends_with_the_same_bits() {
    let (place, _) = with_planted(LikelihoodKind::Gauss, 6000, 500, 6, 5);
    let common = "--tolerance none --heldout test.npy";
    for (seed, settings) in [
        "-k 12 --schedule memoized --batches 7 --laps 6 --memo-memory 10KB",
        "-k 12 --schedule memoized --batches 5 --laps 3 --runs 3 --best-by heldout --memo-memory 1KB",
        "-k 12 --schedule stochastic --batches 7 --laps 8 --runs 2 --early-stopping 2",
        "-k 12 --schedule stochastic --batches 7 --laps 6 --estimate map",
        "-k 12 --sparsity 2 --search neighbours --batches 5 --laps 6",
        "-k 12 --sparsity 2 --search neighbours --batches 5 --laps 3 --runs 2 --memo-memory 12KB",
        "-k 12 --sparsity auto --search exact --batches 5 --laps 6 --memo-memory 1KB",
        "-k 12 --schedule full --laps 8",
        "-k 12 --schedule streaming --batches 12",
    ]
    .iter()
    .enumerate()
    {
        same_when_killed(&place, &format!("fit mixture train.npy {settings} {common}"), 100 * seed as u64);
    }
}

/// Documents about known themes as corpora, and seed words for two of them.
fn with_corpora(train: usize) -> Place {
    let place = Place::new();
    let truth = themed_corpus(train + 60, 5);
    place.write("train.txt", truth.text(0..train));
    place.write("test.txt", truth.text(train..train + 60));
    place.lsparse("corpus build train.txt --max-share 1 --out train -q").assert().success();
    place.lsparse("corpus build test.txt --min-docs 1 --max-share 1 --out test -q").assert().success();
    place.write("seeds.txt", "star planet\nsauce oven\n");
    place
}

#[test]
fn killed_topics_end_with_the_same_bits() {
    let place = with_corpora(500);
    for (seed, settings) in [
        "-k 28 --schedule memoized --batches 4 --laps 8 --memo-memory 20KB --learn-alpha asymmetric",
        "-k 10 --schedule memoized --batches 4 --laps 4 --runs 3 --memo-memory 1KB --warm-start --seed-words seeds.txt",
        "-k 10 --schedule stochastic --batches 6 --laps 6",
    ]
    .iter()
    .enumerate()
    {
        let fit = format!("fit topics train {settings} --tolerance none --heldout test");
        same_when_killed(&place, &fit, 1000 + 100 * seed as u64);
    }
}

#[test]
fn threads_memory_for_statistics_and_checkpoints_change_no_bit() {
    // More rows a batch than are read at once, so that reading ahead comes in.
    let (mixture, topics) = (with_planted(LikelihoodKind::ZeroMeanGauss, 35_000, 10, 8, 4).0, with_corpora(2300));
    for (place, fit) in [
        (&mixture, "fit mixture train.npy --likelihood zero-mean-gauss -k 9 --batches 2 --laps 3 --tolerance none"),
        (&topics, "fit topics train -k 12 --batches 2 --laps 3 --tolerance none"),
    ] {
        place.lsparse(&format!("{fit} --threads 1 --out one.st -q")).assert().success();
        for (threads, rest) in [(2, ""), (3, "--memo-memory 1KB"), (8, "--checkpoint c --checkpoint-every 0")] {
            place.lsparse(&format!("{fit} --threads {threads} {rest} --out many.st -q")).assert().success();
            assert!(place.read("one.st") == place.read("many.st"), "{fit} with {threads} threads {rest}");
        }
    }
}

#[test]
fn only_its_own_run_goes_on_from_a_checkpoint() {
    let (place, mut truth) = with_planted(LikelihoodKind::Gauss, 900, 900, 3, 4);
    truth.values[1234] += 0.5;
    place.npy("changed.npy", 3, &truth.values[..2700]);
    let run = "--batches 3 --laps 2 --tolerance none --checkpoint c -q";
    place.lsparse(&format!("fit mixture train.npy -k 4 {run}")).assert().success();
    let checkpoint = place.read("c");
    let refused = |arguments: &str, words: &str| {
        place.lsparse(arguments).assert().code(2).stderr(contains(words));
        assert!(place.read("c") == checkpoint, "{arguments}");
    };
    refused(&format!("fit mixture train.npy -k 4 {run}"), "--resume to go on from it, or choose another file");
    refused(&format!("fit mixture train.npy -k 5 {run} --resume"), "clusters was 4, and is 5 now");
    refused(&format!("fit mixture test.npy -k 4 {run} --resume"), "it is of another run: data was 900 rows");
    refused(&format!("fit mixture changed.npy -k 4 {run} --resume"), "it is of another run: data was 900 rows");
    refused(&format!("fit mixture train.npy -k 4 {run} --resume --seed 3"), "seed was 0, and is 3 now");
    for name in ["train.npy", "m.st"] {
        let both = format!("fit mixture train.npy -k 4 --batches 3 -q --out m.st --checkpoint {name} --resume");
        place.lsparse(&both).assert().code(2).stderr(contains("choose another file"));
    }
    // Nor is anything else what is written next to a checkpoint.
    for name in ["m.rows", "m.memos", "m.lock", "m.part"] {
        place.write(name, "dear diary");
        for used in [format!("train.npy --out {name}"), format!("train.npy --trace {name}"), name.to_owned()] {
            let both = format!("fit mixture {used} -k 4 --batches 3 -q --checkpoint m --memo-memory 1KB");
            place.lsparse(&both).assert().code(2).stderr(contains(name).and(contains("choose another file")));
            assert!(place.read(name) == b"dear diary" && !place.path("m").exists(), "{used}");
        }
    }
    place.lsparse("fit mixture train.npy -k 4 -q --checkpoint m").assert().code(2).stderr(contains("not the lock"));
    assert_eq!(place.read("m.lock"), b"dear diary");
    // A checkpoint that is cut short, and a file that is none.
    for content in [&checkpoint[..checkpoint.len() - 9], b"dear diary" as &[u8], b""] {
        place.write("c", content);
        let run = format!("fit mixture train.npy -k 4 {run} --resume");
        place.lsparse(&run).assert().code(2).stderr(contains("checkpoint").and(contains("another")));
        assert_eq!(place.read("c"), content);
    }
}

/// A run that was ended goes on by other rules, and becomes the run that had these rules from the start.
#[test]
fn rules_for_stopping_may_change() {
    let (mixture, topics) = (with_planted(LikelihoodKind::Gauss, 900, 300, 3, 4).0, with_corpora(500));
    for (place, fit) in [
        (&mixture, "fit mixture train.npy -k 4 --batches 3 --heldout test.npy --memo-memory 1KB"),
        (&mixture, "fit mixture train.npy -k 4 --batches 3 --schedule stochastic"),
        (&mixture, "fit mixture train.npy -k 9 --sparsity 2 --search neighbours --batches 3"),
        (&topics, "fit topics train -k 12 --batches 5 --heldout test"),
        (&topics, "fit topics train -k 12 --batches 5 --schedule stochastic"),
    ] {
        place
            .lsparse(&format!("{fit} --laps 6 --tolerance none --out whole.st --trace whole.jsonl -q"))
            .assert()
            .success();
        let run = format!("{fit} --checkpoint c --resume --out m.st --trace t.jsonl -q");
        let laps = |laps: &str| place.lsparse(&format!("{run} {laps}")).assert();
        laps("--laps 2 --tolerance none").success();
        // By a rule that holds at once, the run is over where it is.
        laps("--laps 3 --tolerance 0.99 --count-tolerance 1e9").success();
        assert_eq!(steps(place, "t.jsonl").len(), steps(place, "whole.jsonl").len() / 3, "{fit}");
        laps("--laps 6 --tolerance none").success();
        assert!(place.read("m.st") == place.read("whole.st"), "{fit}");
        assert_eq!(steps(place, "t.jsonl"), steps(place, "whole.jsonl"), "{fit}");
        // What is done cannot be undone, and everything else stays as it was.
        let checkpoint = place.read("c");
        let too_few = "5 is too few: the run in the checkpoint has done 6; give 6 or more";
        laps("--laps 5 --tolerance none").code(2).stderr(contains(too_few));
        laps("--laps 7 --tolerance none --seed 3").code(2).stderr(contains("seed was 0, and is 3 now"));
        assert!(place.read("c") == checkpoint);
        assert_eq!(steps(place, "t.jsonl"), steps(place, "whole.jsonl"), "{fit}");
        std::fs::remove_file(place.path("c")).unwrap();
    }
    let runs = "fit mixture train.npy -k 4 --batches 3 --tolerance none --runs 2 --checkpoint c --resume -q";
    mixture.lsparse(&format!("{runs} --laps 2")).assert().success();
    let refused = mixture.lsparse(&format!("{runs} --laps 3")).assert().code(2);
    refused.stderr(contains("2 of 2 runs have ended by other rules"));
}

/// A trace is cut where the checkpoint was taken only if it is the trace of that run.
#[test]
fn a_file_that_is_not_the_trace_of_the_run_is_left_alone() {
    let (place, _) = with_planted(LikelihoodKind::Gauss, 900, 10, 3, 4);
    let run = "fit mixture train.npy -k 4 --batches 3 --tolerance none --checkpoint c --resume -q";
    let refused = |laps: usize, content: &str| {
        place.write("other", content);
        let message = "choose another file for the trace";
        place.lsparse(&format!("{run} --laps {laps} --trace other")).assert().code(2).stderr(contains(message));
        assert_eq!(place.text("other"), content);
    };
    place.lsparse(&format!("{run} --laps 2 --trace t")).assert().success();
    let trace = place.text("t");
    let (first, rest) = trace.split_once('\n').unwrap();
    for laps in [2, 3] {
        refused(laps, &"dear diary\n".repeat(1000));
        // Shorter, without its first step, with a step twice, and with other steps after it.
        for content in [first.to_owned(), rest.to_owned() + &trace, format!("{first}\n{trace}"), trace.repeat(2)] {
            refused(laps, &content);
        }
        refused(laps, &(trace.clone() + "dear diary"));
    }
    // What came after the checkpoint is void, a step that was cut short too; the run itself writes it again.
    let next = |step: &str| format!("{{\"event\":\"step\",\"run\":0,\"lap\":2.3,\"step\":{step}");
    let trace = &trace[..trace.rfind("{\"event\":\"end\"").unwrap()];
    place.write("t", trace.to_owned() + &next("7}\n") + &next(""));
    place.lsparse(&format!("{run} --laps 3 --trace t")).assert().success();
    assert_eq!((place.text("t").lines().count(), place.text("t").starts_with(trace)), (11, true));
    place.lsparse(&format!("{run} --laps 4 --trace t")).assert().success();
    // With a lap that left no trace the steps would have a hole; in a new file they begin where the run is.
    place.lsparse(&format!("{run} --laps 5")).assert().success();
    refused(6, &place.text("t"));
    place.lsparse(&format!("{run} --laps 6 --trace new")).assert().success();
    assert_eq!(steps(&place, "new")[0]["step"], 16);
}

/// What is next to a checkpoint is looked at before anything is written.
#[test]
fn files_of_a_checkpoint_that_are_foreign_damaged_or_missing_are_found_at_the_start() {
    let (place, _) = with_planted(LikelihoodKind::Gauss, 900, 10, 3, 4);
    let run = "fit mixture train.npy -k 9 --sparsity 2 --search neighbours --batches 3 --tolerance none --memo-memory 1KB \
               --checkpoint c --resume -q --trace t";
    let refused = |words: &str| {
        let (files, before) = (place.files(), place.path("c").exists().then(|| (place.read("c"), place.read("t"))));
        place.lsparse(&format!("{run} --laps 3")).assert().code(2).stderr(contains(words));
        assert_eq!(place.files(), files);
        assert!(place.path("c").exists().then(|| (place.read("c"), place.read("t"))) == before, "{words}");
    };
    for name in ["c.rows", "c.memos"] {
        place.write(name, "dear diary");
        refused(&format!("{name}: it is not a file of statistics"));
        assert_eq!(place.read(name), b"dear diary");
        std::fs::remove_file(place.path(name)).unwrap();
    }
    place.lsparse(&format!("{run} --laps 2")).assert().success();
    for name in ["c.rows", "c.memos"] {
        let good = place.read(name);
        let mut bytes = good.clone();
        bytes.iter_mut().skip(16).for_each(|byte| *byte ^= 1);
        place.write(name, bytes);
        refused(&format!("{name}: it belongs to the checkpoint, and what is in it is damaged"));
        std::fs::remove_file(place.path(name)).unwrap();
        refused(&format!("{name}: it is missing, and belongs to the checkpoint"));
        place.write(name, good);
    }
    place.lsparse(&format!("{run} --laps 3")).assert().success();
}

/// Files may have 512 KB at most, as on a disk that is full: the first checkpoints are smaller, later ones larger.
#[test]
fn a_full_disk_leaves_the_last_good_checkpoint_and_the_model() {
    let (place, _) = with_planted(LikelihoodKind::Gauss, 3000, 10, 10, 4);
    let fit =
        "fit mixture train.npy -k 60 --batches 30 --laps 2 --tolerance none --checkpoint c --checkpoint-every 0 -q";
    let output = place.limited("ulimit -f 1024", &format!("{fit} --out limited.st"));
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("cannot write the checkpoint c") && message.contains("intact"), "{message}");
    assert_eq!(place.files(), ["c", "limited.st", "test.npy", "train.npy"]);
    // There is room again.
    place.lsparse(&format!("{fit} --resume --out resumed.st")).assert().success();
    place
        .lsparse("fit mixture train.npy -k 60 --batches 30 --laps 2 --tolerance none -q --out whole.st")
        .assert()
        .success();
    assert!(place.read("resumed.st") == place.read("whole.st"));
    assert!(place.read("limited.st") == place.read("whole.st"));
}

/// The statistics of all batches are 1.1 MB, and the file for them may have half of that.
#[test]
fn a_full_disk_under_statistics_leaves_them_in_memory() {
    let (place, _) = with_planted(LikelihoodKind::Gauss, 3000, 10, 10, 4);
    let fit = "fit mixture train.npy -k 60 --batches 30 --laps 2 --tolerance none -q";
    place.lsparse(&format!("{fit} --out whole.st")).assert().success();
    let output = place.limited("ulimit -f 1024", &format!("{fit} --memo-memory 0 --checkpoint c --out limited.st"));
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("warning: cannot write c.memos") && message.contains("stays in memory"), "{message}");
    assert!(message.lines().last().unwrap().starts_with("error: cannot write c.memos"), "{message}");
    assert!(place.read("limited.st") == place.read("whole.st"));
    // The file is of use with its checkpoint alone. Where none can be written it goes away.
    ["c", "c.memos"].iter().for_each(|name| drop(std::fs::remove_file(place.path(name))));
    std::fs::create_dir(place.path("c.part")).unwrap();
    let failing = place.lsparse(&format!("{fit} --memo-memory 0 --checkpoint c --out failing.st")).assert().failure();
    failing.stderr(contains("cannot write the checkpoint c"));
    assert_eq!(place.files(), ["c.part", "failing.st", "limited.st", "test.npy", "train.npy", "whole.st"]);
    assert!(place.read("failing.st") == place.read("whole.st"));
}

#[test]
fn a_batch_can_be_taken_out_and_training_goes_on_without_it() {
    let (mixture, topics) = (with_planted(LikelihoodKind::Gauss, 900, 10, 3, 4).0, with_corpora(500));
    for (place, fit, left) in [
        (&mixture, "fit mixture train.npy -k 4 --batches 3 --laps 2 --tolerance none", 600),
        (&topics, "fit topics train -k 12 --batches 5 --laps 2 --tolerance none", 400),
    ] {
        let run = format!("{fit} --checkpoint c -q --json --resume --out m.st");
        place.lsparse(&format!("{run} --forget-batch 1")).assert().code(2).stderr(contains("train with --checkpoint"));
        let whole = place.json(&run);
        let forgot = place.json(&format!("{run} --forget-batch 1"));
        assert_eq!(forgot["stopped_by"], "forget-batch");
        let observations = |report: &Value| report["rows"].as_u64().or(report["documents"].as_u64());
        assert_eq!(observations(&forgot), Some(left));
        let twice = format!("{run} --forget-batch 1");
        place.lsparse(&twice).assert().code(2).stderr(contains("batch 1 was taken out before"));
        place.lsparse(&format!("{run} --forget-batch 9")).assert().code(2).stderr(contains("there is no batch 9"));
        // All laps were done before, and are; with more of them training goes on.
        let after = place.json(&run);
        assert_eq!((&after["stopped_by"], &after["steps"]), (&"laps".into(), &whole["steps"]));
        assert_eq!((observations(&after), &after["objective"]), (Some(left), &forgot["objective"]));
        let longer = place.json(&run.replace("--laps 2", "--laps 3"));
        assert_eq!((observations(&longer), longer["laps"].as_u64()), (Some(left), Some(3)));
        assert!(longer["steps"].as_u64() > whole["steps"].as_u64());
    }
    let refused = |settings: &str, words: &str| {
        let run = format!("fit mixture train.npy -k 4 --batches 3 --laps 2 {settings} --checkpoint s -q --resume");
        mixture.lsparse(&run).assert().success();
        mixture.lsparse(&format!("{run} --forget-batch 1")).assert().code(2).stderr(contains(words));
        std::fs::remove_file(mixture.path("s")).unwrap();
    };
    refused("--schedule stochastic", "--schedule memoized");
    refused("--runs 2", "--runs 1");
}

/// Run until a trace is begun, then press Ctrl-C; gives the lines of the trace.
fn interrupt_soon(place: &Place, arguments: &str) -> usize {
    for name in ["c", "t", "m.st"] {
        let _ = std::fs::remove_file(place.path(name));
    }
    let child = Command::new(env!("CARGO_BIN_EXE_lsparse"))
        .current_dir(place.path(""))
        .args(arguments.split_whitespace())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    while !place.path("t").exists() || place.read("t").is_empty() {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    assert!(child.wait_with_output().unwrap().status.success());
    place.text("t").lines().count()
}

/// Interrupted by Ctrl-C, a run leaves a checkpoint of that moment.
#[test]
fn an_interrupted_run_goes_on() {
    let (place, _) = with_planted(LikelihoodKind::Gauss, 6000, 10, 6, 5);
    let fit = "fit mixture train.npy -k 60 --batches 6 --laps 30 --tolerance none -q";
    place.lsparse(&format!("{fit} --out whole.st")).assert().success();
    let run = format!("{fit} --out m.st --checkpoint c --resume --trace t");
    // On a busy machine a run may be over before anybody can press a key.
    assert!((0..10).any(|_| interrupt_soon(&place, &run) < 180), "no run was long enough to be interrupted");
    place.lsparse(&run).assert().success();
    assert!(place.read("m.st") == place.read("whole.st"));
    assert_eq!(place.steps("t").len(), 180);
    // What was trained on what, and why it ended.
    let lines: Vec<Value> = place.text("t").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        (&lines[0]["event"], &lines[0]["rows"], &lines[0]["settings"]["clusters"]),
        (&"begin".into(), &6000.into(), &60.into())
    );
    assert_eq!((lines.len(), &lines[181]["event"], &lines[181]["stopped_by"]), (182, &"end".into(), &"laps".into()));
}

#[test]
fn two_runs_cannot_share_a_checkpoint() {
    let (place, _) = with_planted(LikelihoodKind::Gauss, 6000, 500, 6, 5);
    // As a run under way holds it.
    let lock = std::fs::File::create(place.path("run.ckpt.lock")).unwrap();
    lock.lock().unwrap();
    let fit = "fit mixture train.npy -k 3 --laps 2 --checkpoint run.ckpt --resume --quiet --out m.st";
    place.lsparse(fit).assert().code(2).stderr(contains("run.ckpt").and(contains("run that is going on")));
    assert!(!place.path("m.st").exists() && !place.path("run.ckpt").exists());
    drop(lock);
    place.lsparse(fit).assert().success();
    assert!(!place.path("run.ckpt.lock").exists());
}

/// Other instructions round otherwise: a run may go on with them, and says so.
#[test]
fn going_on_with_other_instructions_is_said() {
    if lsparse::backend::instructions() == "portable" {
        return;
    }
    let (place, _) = with_planted(LikelihoodKind::Gauss, 300, 10, 4, 3);
    let fit = "fit mixture train.npy -k 3 --tolerance none --out m.st --checkpoint c --resume --quiet --laps";
    place.lsparse(&format!("{fit} 2")).env("LSPARSE_SIMD", "portable").assert().success();
    let same = place.lsparse(&format!("{fit} 3")).env("LSPARSE_SIMD", "portable").assert().success();
    same.stderr(contains("instructions").not());
    place.lsparse(&format!("{fit} 4")).assert().success().stderr(contains("portable instructions"));
}
