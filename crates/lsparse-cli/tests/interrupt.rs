//! Ctrl-C, SIGTERM and SIGHUP: the first ends training after the current batch and the model is written, a Ctrl-C after it
//! ends it at once; whatever ends a command, what was there stays and nothing half written is left. A page can end a
//! training too.

#![cfg(unix)]

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
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

/// The same to one that may have ended.
fn send_anyway(child: &Child, signal: &str) {
    let _ = Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).stderr(Stdio::null()).status();
}

/// Read messages up to one that has this word, and give that.
fn wait_for(messages: &mut BufReader<impl Read>, word: &str) -> String {
    let mut line = String::new();
    while !line.contains(word) {
        line.clear();
        assert!(messages.read_line(&mut line).unwrap() > 0, "the command ended without saying {word:?}");
    }
    line
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

/// Merging trains nothing: what is not done is nothing.
#[test]
fn merging_ends_at_the_first_and_writes_nothing() {
    let place = Place::new();
    let text = |documents: usize| -> String {
        let word = |n: usize, i: usize| format!("w{} ", (n * 31 + i * i * 17 + n * i) % 211);
        (0..documents).map(|n| (0..40).map(|i| word(n, i)).collect::<String>() + "\n").collect()
    };
    place.write("few.txt", text(300));
    place.write("many.txt", text(6000));
    for name in ["few", "many"] {
        place
            .lsparse(&format!("corpus build {name}.txt --out {name} --min-docs 1 --max-share 1 -q"))
            .assert()
            .success();
    }
    place.lsparse("fit topics few -k 50 --laps 1 --out t.safetensors").assert().success();
    for (signal, status) in [("INT", 130), ("TERM", 143)] {
        let (mut child, mut messages) = start(&place, "merge t.safetensors many --other-data --out fewer.safetensors");
        wait_for(&mut messages, "trained on 300");
        send(&child, signal);
        wait_for(&mut messages, "interrupted while merging");
        assert_eq!(child.wait().unwrap().code(), Some(status));
        assert!(!place.files().iter().any(|file| file.contains("fewer")));
    }
}

/// A place that is lost in the course of a training costs no model.
#[test]
fn a_model_whose_place_is_gone_is_kept_elsewhere() {
    let (place, _) = with_planted(LikelihoodKind::Gauss, 2000, 10, 3, 4);
    for folder in ["gone", "temporary"] {
        std::fs::create_dir(place.path(folder)).unwrap();
    }
    let arguments = ENDLESS.replace("m.safetensors", "gone/m.safetensors");
    let mut child = Command::new(env!("CARGO_BIN_EXE_lsparse"))
        .current_dir(place.path(""))
        .args(arguments.split_whitespace())
        .env("TMPDIR", place.path("temporary"))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut messages = BufReader::new(child.stderr.take().unwrap());
    wait_for(&mut messages, "lap ");
    std::fs::remove_dir(place.path("gone")).unwrap();
    send(&child, "TERM");
    let said = wait_for(&mut messages, "the model is in ");
    wait_for(&mut messages, "error: cannot write gone/m.safetensors");
    assert!(!child.wait().unwrap().success());
    let kept = said.trim_start_matches("the model is in ").split(" instead").next().unwrap();
    place.lsparse(&format!("info {kept}")).assert().success().stdout(contains("stopped by interrupt"));
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

/// Files may have 4 KB at most, as on a disk that is full.
const FULL: &str = "ulimit -f 8";

#[test]
fn a_full_disk_leaves_what_was_there_and_nothing_half_written() {
    let (place, _) = with_planted(LikelihoodKind::Gauss, 2000, 10, 2, 2);
    let fit = "fit mixture train.npy -k 2 --batches 20 --laps 5 --tolerance 0 -q --trace t.jsonl --out";
    place.lsparse(&format!("{fit} old.st")).assert().success();
    let whole = place.read("old.st");
    // The model is worth more than the trace, whose lines are whole.
    let output = place.limited(FULL, &format!("{fit} new.st"));
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("warning: cannot write t.jsonl") && message.contains("training goes on"), "{message}");
    assert!(message.lines().last().unwrap().starts_with("error: cannot write t.jsonl"), "{message}");
    assert!(place.read("new.st") == whole);
    assert!(place.text("t.jsonl").ends_with('\n') && (1..100).contains(&place.steps("t.jsonl").len()));
    // All that could not be written is said, each once.
    let both = place.limited(FULL, &format!("{fit} new.st --checkpoint c.ckpt --checkpoint-every 0s"));
    let message = String::from_utf8(both.stderr).unwrap();
    for said in ["warning: cannot write t.jsonl", "warning: cannot write the checkpoint c.ckpt"] {
        assert_eq!(message.matches(said).count(), 1, "{message}");
    }
    let device = place.lsparse(&format!("{} new.st", fit.replace("t.jsonl", "/dev/full"))).assert().code(1);
    device.stderr(contains("cannot write /dev/full"));
    assert!(place.read("new.st") == whole);
    // Tables and models stay as they were.
    place.write("r.npz", "old");
    place.write("r.csv", "old");
    place.write("big.st", "old");
    let before = place.files();
    for arguments in [
        "assign old.st train.npy --out r.npz",
        "assign old.st train.npy --out r.csv",
        "fit mixture train.npy -k 200 --laps 1 -q --out big.st",
        "score old.st train.npy --per-row r.npy",
        "patches . --out p.npy",
    ] {
        let output = place.limited(FULL, arguments);
        let message = String::from_utf8(output.stderr).unwrap();
        // There are no images here.
        let expected = if arguments.starts_with("patches") { 2 } else { 1 };
        assert_eq!(output.status.code(), Some(expected), "{arguments}: {message}");
        assert_eq!(message.lines().count(), 1, "{arguments}: {message}");
        assert_eq!(place.files(), before, "{arguments}");
    }
    assert_eq!([place.text("r.npz"), place.text("r.csv"), place.text("big.st")], ["old", "old", "old"]);
    // So do corpora.
    place.write("small.txt", "cat dog\nbird cow\n");
    place.write("large.txt", (0..3000).map(|d| format!("w{d} v{} u{}\n", d % 50, d % 70)).collect::<String>());
    let build = |text: &str| format!("corpus build {text} --out c --force --min-docs 1 -q");
    place.lsparse(&build("small.txt")).assert().success();
    let before = (place.files(), place.text("c/vocab.txt"));
    let output = place.limited(FULL, &build("large.txt"));
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("cannot write c: ") && !message.contains(".part"), "{message}");
    assert_eq!((place.files(), place.text("c/vocab.txt")), before);
}

/// Whenever a command is killed, what was there is there or what it was to write is, whole, and what is left behind goes
/// away with the next run.
#[test]
fn killed_at_any_moment_files_are_old_or_new() {
    let (place, _) = with_planted(LikelihoodKind::Gauss, 2000, 10, 3, 4);
    place.write("text.txt", (0..20_000).map(|d| format!("w{} v{} u{}\n", d % 900, d % 50, d % 70)).collect::<String>());
    let commands = [
        "fit mixture train.npy -k 4 --batches 4 --laps 3 -q --out m.st --trace t --checkpoint c --checkpoint-every 0 --resume",
        "corpus build text.txt --out corpus --force -q",
        "assign old.st train.npy --out r.csv",
    ];
    place.lsparse("fit mixture train.npy -k 2 -q --out old.st").assert().success();
    place.lsparse("fit mixture train.npy -k 2 -q --out m.st").assert().success();
    commands[1..].iter().for_each(|command| drop(place.lsparse(command).assert().success()));
    place.write("corpus/notes.md", "mine");
    let (table, words) = (place.read("r.csv"), place.read("corpus/words.npy"));
    for round in 0..20 {
        for command in commands {
            let (mut child, _messages) = start(&place, command);
            std::thread::sleep(Duration::from_millis(2 + round * 5));
            send_anyway(&child, "KILL");
            child.wait().unwrap();
        }
        place.lsparse("info m.st").assert().success();
        assert!(place.read("r.csv") == table && place.read("corpus/words.npy") == words, "round {round}");
    }
    commands.iter().for_each(|command| drop(place.lsparse(command).assert().success()));
    assert_eq!(place.text("corpus/notes.md"), "mine");
    let left = ["c", "corpus", "m.st", "old.st", "r.csv", "t", "test.npy", "text.txt", "train.npy"];
    assert_eq!(place.files(), left);
    place.lsparse("fit mixture train.npy -k 4 --batches 4 --laps 3 -q --out whole.st").assert().success();
    assert!(place.read("m.st") == place.read("whole.st"));
}

/// Ask a page for something: the address in a line that was printed, how, and what.
fn ask(line: &str, method: &str, path: &str) -> String {
    let address = line.trim().rsplit_once("http://").unwrap().1;
    let (host, token) = address.split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    let request = format!("{method} /{token}{path} HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_page_follows_its_training_and_ends_it() {
    let (place, _) = with_planted(LikelihoodKind::Gauss, 2000, 10, 3, 4);
    let (child, mut messages) = start(&place, &format!("{ENDLESS} --watch"));
    let line = wait_for(&mut messages, "watch it at");
    assert!(ask(&line, "GET", "").contains("<canvas") || ask(&line, "GET", "").contains("id=\"charts\""));
    wait_for(&mut messages, "lap ");
    let state = ask(&line, "GET", "state");
    assert!(state.contains("\"can_stop\":true") && state.contains(r#""event":"step""#), "{state}");
    assert!(ask(&line, "POST", "stop").starts_with("HTTP/1.1 200"));
    wait_for(&mut messages, "as its page asks");
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && String::from_utf8(output.stdout).unwrap().contains("interrupted"));
    assert!(place.path("m.safetensors").exists());
}

#[test]
fn traces_are_watched_until_ctrl_c() {
    let (place, _) = with_planted(LikelihoodKind::Gauss, 200, 10, 3, 4);
    place.lsparse("fit mixture train.npy -k 4 --laps 3 --tolerance none --trace t.jsonl").assert().success();
    let mut child = Command::new(env!("CARGO_BIN_EXE_lsparse"))
        .current_dir(place.path(""))
        .args(["watch", "t.jsonl", "later.jsonl", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut printed = BufReader::new(child.stdout.take().unwrap());
    let line = wait_for(&mut printed, "http://");
    let mut messages = BufReader::new(child.stderr.take().unwrap());
    wait_for(&mut messages, "note: later.jsonl does not exist yet");
    let since = Instant::now();
    let mut state = String::new();
    while !state.contains(r#""event":"end""#) {
        assert!(since.elapsed() < Duration::from_secs(20), "{state}");
        std::thread::sleep(Duration::from_millis(50));
        state = ask(&line, "GET", "state?has=0.0,0.0");
    }
    // Standard input comes line by line.
    let trace = place.text("t.jsonl");
    let mut pipe = child.stdin.take().unwrap();
    for (number, text) in trace.lines().enumerate() {
        writeln!(pipe, "{text}").unwrap();
        let came = || {
            let answer = ask(&line, "GET", "state?has=");
            let state: serde_json::Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
            assert_eq!(state["traces"][2]["name"], "standard input");
            state["traces"][2]["lines"].as_array().unwrap().len()
        };
        while came() <= number {
            assert!(since.elapsed() < Duration::from_secs(60), "line {number}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    assert!(state.contains("later.jsonl") && state.contains("\"can_stop\":false"));
    assert!(ask(&line, "POST", "stop").starts_with("HTTP/1.1 409"));
    send(&child, "INT");
    assert!(child.wait().unwrap().success());
    place.lsparse("watch train.npy").assert().code(2).stderr(contains("not that of a trace"));
    place.lsparse("watch - -").assert().code(2).stderr(contains("standard input: it can be read once; give - once"));
}
