//! The page of topics as a person gets it: what is written, what is said, what is refused; and names of topics everywhere.

mod common;

use common::{Place, refused};
use lsparse::synthetic::themed_corpus;
use predicates::prelude::*;
use predicates::str::contains;

/// A corpus as text and as a folder, and a model of it.
fn with_model() -> Place {
    let place = Place::new();
    let truth = themed_corpus(200, 5);
    place.write("train.txt", truth.text(0..200));
    place.lsparse("corpus build train.txt --max-share 1 --out train -q").assert().success();
    place.lsparse("fit topics train -k 12 --laps 2 --out m.safetensors -q").assert().success();
    place
}

#[test]
fn a_page_is_written_with_and_without_documents() {
    let place = with_model();
    place
        .lsparse("explore m.safetensors --out a.html")
        .assert()
        .success()
        .stdout("")
        .stderr(contains("a.html: 12 topics, 0.").and(contains("open it in a browser")));
    assert!(place.text("a.html").starts_with("<!doctype html>") && place.text("a.html").contains("<title>m</title>"));
    let report = place.json("explore m.safetensors train --documents 30 --out b.html --json --title <b>");
    assert_eq!((&report["documents"], &report["documents_shown"]), (&200.into(), &30.into()));
    assert_eq!(report["bytes"], place.read("b.html").len());
    assert!(place.text("b.html").contains("<title>&lt;b&gt;</title>"));
    // Text has more in it than counts, wherever it comes from; threads change nothing.
    let text = place.json("explore m.safetensors train.txt --documents 30 --out c.html --json --threads 1");
    assert!(text["bytes"].as_u64() > report["bytes"].as_u64());
    place
        .lsparse("explore m.safetensors train.txt --documents 30 --out d.html --threads 3 -q")
        .assert()
        .success()
        .stderr("");
    assert!(place.read("c.html") == place.read("d.html"));
    place
        .lsparse("explore m.safetensors - --documents 30 --title m --out e.html")
        .write_stdin(place.read("train.txt"))
        .assert()
        .success();
    assert_eq!(place.read("e.html").len() / 100, place.read("c.html").len() / 100);
}

#[test]
fn names_go_with_topics() {
    let place = with_model();
    place.write("names.csv", "topic,name\n3,\"Wind, sea\"\n");
    place.lsparse("topics m.safetensors --names names.csv").assert().success().stdout(contains(" %  Wind, sea: "));
    place
        .lsparse("topics m.safetensors --names names.csv --topic 3")
        .assert()
        .success()
        .stdout(contains("topic 3, Wind, sea: "));
    let listing = place.json("topics m.safetensors --names names.csv --topic 3 --topic 4 --json");
    let named: Vec<Option<&str>> =
        listing["topics"].as_array().unwrap().iter().map(|topic| topic["name"].as_str()).collect();
    assert!(named.contains(&Some("Wind, sea")) && named.contains(&None));
    place.lsparse("topics m.safetensors --names names.csv --out t.csv").assert().success();
    assert!(place.text("t.csv").starts_with("topic,name,share,rank,word,probability\n"));
    assert!(place.text("t.csv").contains("\n3,\"Wind, sea\",0."));
    let csv = place.stdout("assign m.safetensors train --names names.csv");
    assert!(csv.starts_with("document,topic,name,share\n") && csv.contains(",3,\"Wind, sea\",0."), "{csv}");
    let lines = place.stdout("assign m.safetensors train --names names.csv --json");
    assert!(lines.contains("\"Wind, sea\"") && lines.lines().next().unwrap().contains("\"names\":["));
    place.lsparse("explore m.safetensors --names names.csv --out a.html").assert().success();
    place.lsparse("explore m.safetensors --out b.html").assert().success();
    assert!(place.read("a.html") != place.read("b.html"));
}

#[test]
fn what_cannot_be_explored_is_refused() {
    let place = with_model();
    place.write("bad.csv", "topic,name\n12,x\n");
    place.npy("data.npy", 2, &[0.0, 1.0, 5.0, 6.0, 0.5, 1.5, 5.5, 6.5]);
    place.lsparse("fit mixture data.npy -k 2 --out x.safetensors -q").assert().success();
    refused(&place, "explore m.safetensors --out a.pdf", &["out: ", "end it in .html"]);
    refused(&place, "explore m.safetensors --out nowhere/a.html", &["nowhere"]);
    refused(&place, "explore m.safetensors --names bad.csv --out a.html", &["line 2", "there is no topic \"12\""]);
    refused(&place, "explore m.safetensors nothing --out a.html", &["nothing", "does not exist"]);
    refused(&place, "explore x.safetensors --out a.html", &["lsparse info, score, assign"]);
    refused(&place, "assign m.safetensors train --names bad.csv --out a.csv", &["line 2"]);
    refused(&place, "assign x.safetensors data.npy --names bad.csv", &["names: ", "no meaning for a mixture"]);
    refused(&place, "topics m.safetensors --names none.csv", &["none.csv", "does not exist"]);
}
