//! Ctrl-C, SIGTERM and SIGHUP: the first ends training after the current batch and the model is written, a Ctrl-C after it
//! ends it at once; whatever ends a command, what was there stays and nothing half written is left.

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

fn send(child: &Child, signal: &str) {
    assert!(Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status().unwrap().success());
}

/// Read messages up to one that has this word.
fn wait_for(messages: &mut BufReader<ChildStderr>, word: &str) {
    let mut line = String::new();
    while !line.contains(word) {
        line.clear();
        assert!(messages.read_line(&mut line).unwrap() > 0, "the command ended without saying {word:?}");
    }
}

const ENDLESS: &str =
    "fit mixture train.npy -k 4 --batches 4 --laps 100000000 --tolerance 0 --out m.safetensors --trace t.jsonl";

#[test]
fn the_first_writes_the_model_and_says_so() {
    for (signal, said) in [("INT", "press Ctrl-C again"), ("TERM", "asked to end"), ("HUP", "asked to end")] {
        let (place, _) = with_planted(LikelihoodKind::Gauss, 2000, 10, 3, 4);
        let (child, mut messages) = start(&place, ENDLESS);
        wait_for(&mut messages, "lap ");
        send(&child, signal);
        wait_for(&mut messages, said);
        // Schedulers may ask twice.
        if signal != "INT" {
            send(&child, signal);
        }
        let since = Instant::now();
        let output = child.wait_with_output().unwrap();
        assert!(since.elapsed() < Duration::from_secs(10));
        let report = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && report.contains("interrupted"), "{signal}: {report}");
        assert_eq!(place.files(), ["m.safetensors", "t.jsonl", "test.npy", "train.npy"]);
        place.lsparse("info m.safetensors").assert().success().stdout(contains("stopped by interrupt"));
        place.lsparse("score m.safetensors test.npy").assert().success();
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_run_that_ignores_hangups_goes_on() {
    let (place, _) = with_planted(LikelihoodKind::Gauss, 2000, 10, 3, 4);
    let mut child = Command::new("sh")
        .current_dir(place.path(""))
        .args(["-c", &format!("trap '' HUP; exec {} {ENDLESS}", env!("CARGO_BIN_EXE_lsparse"))])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut messages = BufReader::new(child.stderr.take().unwrap());
    wait_for(&mut messages, "lap ");
    send(&child, "HUP");
    // Two reports later it still trains.
    wait_for(&mut messages, "lap ");
    wait_for(&mut messages, "lap ");
    send(&child, "TERM");
    assert!(child.wait().unwrap().success());
    place.lsparse("info m.safetensors").assert().success();
}

#[test]
fn while_seeding_it_ends_at_once_and_leaves_nothing() {
    let (place, _) = with_planted(LikelihoodKind::Gauss, 20_000, 10, 24, 4);
    let slow =
        "fit mixture train.npy -k 3000 --init-rows 20000 --threads 1 --out m.safetensors --checkpoint c --trace t";
    for (signal, status) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        let (mut child, mut messages) = start(&place, slow);
        wait_for(&mut messages, "20,000 rows");
        send(&child, signal);
        wait_for(&mut messages, "interrupted while looking for a place to start from; nothing was written");
        assert_eq!(child.wait().unwrap().code(), Some(status));
        assert_eq!(place.files(), ["test.npy", "train.npy"]);
    }
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
    send(&child, "INT");
    wait_for(&mut messages, "stopping after this batch");
    send(&child, "INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(place.files(), ["test.npy", "train.npy"]);
}

/// A text whose corpus takes a while to build.
fn with_text() -> Place {
    let place = Place::new();
    let words: Vec<String> = (0..5000).map(|w| format!("word{w}")).collect();
    let line = |d: usize| (0..40).map(|w| words[(d * 31 + w * w * 7) % 5000].as_str()).collect::<Vec<_>>().join(" ");
    place.write("text.txt", (0..150_000).map(|d| line(d) + "\n").collect::<String>());
    place
}

/// Wait until the command has begun to write.
fn wait_for_part(place: &Place) {
    let since = Instant::now();
    while !place.files().iter().any(|name| name.ends_with(".part")) {
        assert!(since.elapsed() < Duration::from_secs(60), "nothing is written");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_corpus_is_built_whole_or_not_at_all() {
    let place = with_text();
    let build = "corpus build text.txt --out c --force --threads 1";
    for (signal, status) in [("INT", Some(130)), ("TERM", Some(143)), ("HUP", Some(129))] {
        let (mut child, mut messages) = start(&place, build);
        wait_for_part(&place);
        send(&child, signal);
        wait_for(&mut messages, "interrupted while");
        assert_eq!(child.wait().unwrap().code(), status);
        assert_eq!(place.files(), ["text.txt"]);
    }
    // A killed one can clear nothing away: the next does, but not what belongs to one that still runs.
    let (mut killed, _messages) = start(&place, build);
    wait_for_part(&place);
    send(&killed, "KILL");
    killed.wait().unwrap();
    assert_eq!(place.files().len(), 2);
    let (mut running, _messages) = start(&place, build);
    std::thread::sleep(Duration::from_millis(50));
    place.lsparse("corpus build text.txt --out d").assert().success();
    assert!(running.wait().unwrap().success());
    assert_eq!(place.files(), ["c", "d", "text.txt"]);
    for name in ["indptr.npy", "words.npy", "counts.npy", "vocab.txt"] {
        assert_eq!(place.read(&format!("c/{name}")), place.read(&format!("d/{name}")), "{name}");
    }
}
