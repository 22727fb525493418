//! Ctrl-C: the first ends training after the current batch and the model is written, the second ends it at once.

#![cfg(unix)]

mod common;

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use common::{Place, with_planted};
use lsparse::LikelihoodKind;
use predicates::str::contains;

fn start(place: &Place, arguments: &str) -> (Child, BufReader<ChildStderr>) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_lsparse"))
        .current_dir(place.path(""))
        .args(arguments.split_whitespace())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let messages = BufReader::new(child.stderr.take().unwrap());
    (child, messages)
}

fn interrupt(child: &Child) {
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
}

/// Read messages up to one that has this word.
fn wait_for(messages: &mut BufReader<ChildStderr>, word: &str) {
    let mut line = String::new();
    while !line.contains(word) {
        line.clear();
        assert!(messages.read_line(&mut line).unwrap() > 0, "the command ended without saying {word:?}");
    }
}

#[test]
fn the_first_writes_the_model_and_says_so() {
    let (place, _) = with_planted(LikelihoodKind::Gauss, 2000, 10, 3, 4);
    let endless =
        "fit mixture train.npy -k 4 --batches 4 --laps 100000000 --tolerance none --out m.safetensors --trace t.jsonl";
    let (child, mut messages) = start(&place, endless);
    wait_for(&mut messages, "lap ");
    interrupt(&child);
    wait_for(&mut messages, "stopping after this batch");
    let since = Instant::now();
    let output = child.wait_with_output().unwrap();
    assert!(since.elapsed() < Duration::from_secs(10));
    let report = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && report.contains("interrupted"), "{report}");
    assert_eq!(place.files(), ["m.safetensors", "t.jsonl", "test.npy", "train.npy"]);
    place.lsparse("info m.safetensors").assert().success().stdout(contains("stopped by interrupt"));
    place.lsparse("score m.safetensors test.npy").assert().success();
}

#[test]
fn while_seeding_it_ends_at_once_and_leaves_nothing() {
    let (place, _) = with_planted(LikelihoodKind::Gauss, 20_000, 10, 24, 4);
    let slow =
        "fit mixture train.npy -k 3000 --init-rows 20000 --threads 1 --out m.safetensors --checkpoint c --trace t";
    let (mut child, mut messages) = start(&place, slow);
    wait_for(&mut messages, "20,000 rows");
    interrupt(&child);
    wait_for(&mut messages, "interrupted while looking for a place to start from; nothing was written");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(place.files(), ["test.npy", "train.npy"]);
    let late = place.lsparse(&format!("{slow} --max-seconds 0.2")).assert().code(2).get_output().clone();
    assert!(String::from_utf8(late.stderr).unwrap().contains("max-seconds: the time was over before"));
    assert_eq!(place.files(), ["test.npy", "train.npy"]);
}

#[test]
fn the_second_ends_it_and_leaves_nothing() {
    let (place, _) = with_planted(LikelihoodKind::Gauss, 20_000, 10, 24, 4);
    let slow = "fit mixture train.npy -k 400 --schedule full --init-rows 400 --threads 1 --out m.safetensors";
    let (mut child, mut messages) = start(&place, slow);
    wait_for(&mut messages, "lap ");
    interrupt(&child);
    wait_for(&mut messages, "stopping after this batch");
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(place.files(), ["test.npy", "train.npy"]);
}
