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
    refused(
        &place,
        "explore x.safetensors data.npy --picture 3x3 --out a.html",
        &["picture: ", "are not the 2 columns"],
    );
    refused(&place, "explore x.safetensors data.npy --picture 3 --out a.html", &["height x width"]);
    refused(&place, "explore x.safetensors data.npy --field a --out a.html", &["field: ", "no meaning for a mixture"]);
    refused(&place, "explore x.safetensors data.npy --time-series --out a.html", &["no meaning for a mixture"]);
    place.write("unnamed.csv", "0,near\n");
    refused(&place, "explore x.safetensors --names unnamed.csv --out a.html", &["line 1", "cluster,name"]);
    refused(
        &place,
        "explore x.safetensors data.npy --patch-size 4 --out a.html",
        &["patch-size: it has no meaning for rows that are not cut from images"],
    );
    refused(
        &place,
        "explore x.safetensors data.npy --keep a --out a.html",
        &["keep: ", "no table of text and no corpus folder"],
    );
    refused(&place, "explore m.safetensors train --picture 3x3 --out a.html", &["picture: ", "no meaning for topics"]);
    refused(&place, "explore m.safetensors train --keep year --out a.html", &["keep: ", "there is no column \"year\""]);
    refused(
        &place,
        "explore m.safetensors train.txt --keep year --out a.html",
        &["keep: ", "only JSON objects and CSV"],
    );
    refused(&place, "assign m.safetensors train --names bad.csv --out a.csv", &["line 2"]);
    refused(&place, "assign x.safetensors data.npy --names bad.csv", &["names: ", "no meaning for a mixture"]);
    refused(&place, "topics m.safetensors --names none.csv", &["none.csv", "does not exist"]);
}

#[test]
fn mixtures_and_sequences_have_pages() {
    let place = Place::new();
    let rows: String = (0..60).map(|n| format!("{},{}\n", n % 3 * 10 + n / 30, (n * 7 % 13) as f64 / 5.0)).collect();
    place.write("data.csv", format!("height,\"<b>w</b>\"\n{rows}"));
    place.lsparse("fit mixture data.csv -k 3 --laps 3 --out m.safetensors -q").assert().success();
    place
        .lsparse("explore m.safetensors data.csv --rows 20 --out m.html")
        .assert()
        .success()
        .stderr(contains("m.html: 3 clusters, 20 of 60 rows, 0."));
    let report = place.json("explore m.safetensors data.csv --out a.html --json --threads 1");
    assert_eq!((&report["clusters"], &report["columns"], &report["rows_shown"]), (&3.into(), &2.into(), &60.into()));
    place.lsparse("explore m.safetensors data.csv --out b.html --threads 3 -q").assert().success();
    assert!(place.read("a.html") == place.read("b.html"));
    place.lsparse("explore m.safetensors --out bare.html").assert().success();
    place.write("names.csv", "cluster,name\n1,one\n");
    place.lsparse("explore m.safetensors --names names.csv --out named.html").assert().success();
    assert!(place.read("bare.html") != place.read("named.html"));
    place.lsparse("fit sequence data.csv -k 2 --time-series --laps 2 --out h.safetensors -q").assert().success();
    place
        .lsparse("explore h.safetensors data.csv --time-series --out h.html")
        .assert()
        .success()
        .stderr(contains("h.html: 2 states, 60 of 60 rows"));
    place.lsparse("explore h.safetensors --out h.html").assert().success();
    refused(&place, "explore h.safetensors data.csv --out h.html", &["where sequences begin"]);
}

#[test]
fn metadata_is_kept_with_the_corpus_and_shown() {
    let place = Place::new();
    let truth = themed_corpus(120, 5);
    let text = truth.text(0..120);
    let line = |(n, text): (usize, &str)| {
        let place = ["here", "there, or\nelsewhere"][n % 2];
        serde_json::json!({ "text": text, "year": 2000 + n / 12, "where": place }).to_string() + "\n"
    };
    place.write("train.jsonl", text.lines().enumerate().map(line).collect::<String>());
    let build = "corpus build train.jsonl --max-share 1 -q --out";
    place.lsparse(&format!("{build} train --keep year --keep where")).assert().success();
    let metadata = place.text("train/metadata.csv");
    assert!(metadata.starts_with("year,where\n2000,here\n2000,\"there, or elsewhere\"\n"), "{metadata}");
    assert_eq!(metadata.lines().count(), 121);
    place.lsparse("fit topics train -k 5 --laps 2 --out m.safetensors -q").assert().success();
    // From the folder, from the text, and only what is asked for.
    place.lsparse("explore m.safetensors train --out a.html -q").assert().success();
    place.lsparse("explore m.safetensors train --keep year --out b.html -q").assert().success();
    place.lsparse("explore m.safetensors train.jsonl --keep where --out c.html -q").assert().success();
    assert!(place.read("a.html").len() > place.read("b.html").len());
    // What is made of the corpus keeps it.
    place.lsparse("corpus split train --val 0.1 --test 0.1 --out parts -q").assert().success();
    let lines = |part: &str| place.text(&format!("parts/{part}/metadata.csv")).lines().count() - 1;
    assert_eq!((lines("train"), lines("val"), lines("test")), (96, 12, 12));
    place.lsparse("corpus build train --vocab-size 50 --out small -q").assert().success();
    assert_eq!(place.text("small/metadata.csv"), metadata);
    // New documents like it keep it too, as far as they have it.
    place.lsparse("corpus build train.jsonl --like train --out alike -q").assert().success();
    assert_eq!(place.text("alike/metadata.csv"), metadata);
    place.write("new.csv", "id,text,year\na,star wind,1999\nb,wind star,\"2001\"\n");
    place.lsparse("corpus build new.csv --like train --out new -q").assert().success();
    assert_eq!(place.text("new/metadata.csv"), "year\n1999\n2001\n");
    place.write("new.txt", "star wind\nwind\n");
    place.lsparse("corpus build new.txt --like train --out plain -q").assert().success();
    assert!(!place.path("plain/metadata.csv").exists());
    // A column that is given by its number is called by its name.
    place.lsparse("corpus build new.csv --keep 3 --min-docs 1 --max-share 1 --out third -q").assert().success();
    assert_eq!(place.text("third/metadata.csv"), "year\n1999\n2001\n");
    let twice = "corpus build new.csv --keep 3 --keep year --min-docs 1 --max-share 1 --out x";
    refused(&place, twice, &["keep: ", "\"year\" is there twice"]);
    // Built again without it, nothing is left of it.
    place.lsparse(&format!("{build} train --force")).assert().success();
    assert!(!place.path("train/metadata.csv").exists());
    refused(&place, &format!("{build} x --keep year --keep year"), &["keep: ", "twice"]);
    refused(&place, &format!("{build} x --keep yaer"), &["keep: ", "no document has a field \"yaer\""]);
    place.write("lines.txt", text);
    refused(&place, "corpus build lines.txt --keep year --out x", &["keep: ", "only JSON objects and CSV"]);
    place.write("nested.jsonl", "{\"text\": \"cat dog\", \"year\": [1]}\n");
    refused(
        &place,
        "corpus build nested.jsonl --keep year --min-docs 1 --max-share 1 --out x",
        &["line 1", "neither text nor a number"],
    );
    place.write("parts/val/metadata.csv", "year\n1\n");
    refused(&place, "explore m.safetensors parts/val --out x.html", &["metadata.csv", "1 lines for 12 documents"]);
}

#[test]
fn rows_are_shown_by_columns_of_their_table() {
    let place = Place::new();
    let row = |n: usize| {
        let (far, half) = (n % 2, n % 7);
        format!("{},{},{},{}\n", ["Oslo", "Lima"][far], 10 * far + half, 1990 + n / 20, 5 * far + n % 3)
    };
    // What the numbers' reader passes over is passed over here too.
    let body = |from: usize| (from..200).map(row).collect::<String>();
    place.write("t.csv", format!("town,a,year,b\n# a remark\n\n{}", body(0)));
    place.write("plain.csv", body(0));
    let fit = "fit mixture t.csv -k 2 --laps 5 --leave-out town --leave-out year -q --out m.safetensors";
    place.lsparse(fit).assert().success();
    refused(&place, "fit mixture t.csv -k 2 --out x.safetensors", &["t.csv"]);
    refused(&place, "fit mixture t.csv -k 2 --leave-out twon --out x.safetensors", &["leave-out: ", "\"twon\""]);
    for keep in ["--keep town --keep year", "--keep 1 --keep 3"] {
        place.lsparse(&format!("explore m.safetensors t.csv {keep} --out m.html -q")).assert().success();
    }
    // Without a first line of names columns have numbers.
    place.lsparse("explore m.safetensors plain.csv --keep 1 --keep 3 --out plain.html -q").assert().success();
    place
        .lsparse("explore m.safetensors t.csv --leave-out town --leave-out year --out less.html -q")
        .assert()
        .success();
    assert!(place.read("m.html").len() > place.read("less.html").len());
    assert!(place.read("plain.html").len() > place.read("less.html").len());
    let keep = "explore m.safetensors t.csv --out x.html --keep";
    refused(&place, &format!("{keep} twon"), &["keep: ", "\"twon\"", "among its 4"]);
    refused(&place, &format!("{keep} town --keep year --keep town"), &["keep: ", "twice"]);
    refused(&place, "explore m.safetensors t.csv --keep town --out x.html", &["3"]);
}
