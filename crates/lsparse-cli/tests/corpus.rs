//! Corpora are built from text and counts, looked at and cut; bad input is refused with file and line, status 2.

mod common;

use std::fs;
use std::io::Write;

use common::{Place, refused};
use lsparse::corpus::Corpus;
use predicates::prelude::*;
use predicates::str::contains;

/// A small corpus of counts with its vocabulary.
fn with_counts() -> Place {
    let place = Place::new();
    place.write("docword.txt", "4\n3\n5\n1 1 2\n1 3 1\n2 2 4\n4 1 1\n4 2 1\n");
    place.write("vocab.txt", "apple\nbee\ncat\n");
    place
}

#[test]
fn counts_are_imported_and_described() {
    let place = with_counts();
    let built = "corpus build docword.txt --vocab vocab.txt --out c";
    place.lsparse(built).assert().success().stdout("").stderr(contains("c: 4 documents, 3 words, 9 tokens"));
    assert_eq!(place.text("c/vocab.txt"), place.text("vocab.txt"));
    assert_eq!(place.text("c/ids.txt"), "1\n2\n3\n4\n");
    let info = place.json("corpus info c --json --top 1");
    assert_eq!((&info["documents"], &info["tokens"], &info["empty_documents"]), (&4.into(), &9.into(), &1.into()));
    assert_eq!(info["common_words"][0]["word"], "bee");
    assert_eq!(info["longest_documents"][0]["id"], "2");
    let text = place.stdout("corpus info c");
    for words in ["a corpus of 4 documents", "3 words", "most common words", "longest documents"] {
        assert!(text.contains(words), "{text}");
    }
    let report = place.json("corpus build c --min-docs 2 --out d --json --quiet");
    assert_eq!((&report["format"], &report["dropped_rare"]), (&"corpus".into(), &1.into()));
    assert_eq!(place.text("d/vocab.txt"), "apple\nbee\n");
}

#[test]
fn text_is_built_with_the_options_of_the_command() {
    let place = Place::new();
    let posts = r#"{"id": "a", "body": "Running dogs of New York"}
{"id": "b", "body": "the dog runs; a cat sleeps in 1984"}
{"id": "c", "body": "cat dog new york"}"#;
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(posts.as_bytes()).unwrap();
    place.write("posts.jsonl.gz", packed.finish().unwrap());
    let options = "--field body --id-field id --max-share 1";
    place.lsparse(&format!("corpus build posts.jsonl.gz {options} --out plain")).assert().success();
    assert_eq!(place.text("plain/vocab.txt"), "cat\ndog\nnew\nyork\n");
    assert_eq!(place.text("plain/ids.txt"), "a\nb\nc\n");
    let more = "--stem english --numbers --min-df 1 --phrases --phrase-min-count 2 --phrase-threshold 0.2";
    place.lsparse(&format!("corpus build posts.jsonl.gz {options} {more} --out more")).assert().success();
    assert_eq!(place.text("more/vocab.txt"), "1984\ncat\ndog\nnew_york\nrun\nsleep\n");
    place.write("new.csv", "who,what\nx,\"Cats, new york\"\n");
    let like = "corpus build new.csv --column what --id-field 1 --like more --out new --json";
    assert_eq!(place.json(like)["tokens"], 2);
    assert_eq!(Corpus::open(&place.path("new")).unwrap().id(0).unwrap(), "x");
    place.write("stop.txt", "dog\ncat\n");
    for (stop_words, expected) in [("stop.txt", "new\nyork\n"), ("none", "cat\ndog\nnew\nyork\n")] {
        let built = format!("corpus build posts.jsonl.gz {options} --stop-words {stop_words} --out s --force");
        place.lsparse(&built).assert().success();
        assert_eq!(place.text("s/vocab.txt"), expected);
    }
}

#[test]
fn threads_do_not_change_a_corpus() {
    let place = Place::new();
    let lines: String = (0..5000).map(|i| format!("w{} w{} w{}\n", i % 97, i * i % 101, i % 13)).collect();
    place.write("x.txt", lines);
    for threads in ["1", "2", "4", "8"] {
        place.lsparse(&format!("corpus build x.txt --out {threads} --threads {threads}")).assert().success();
        for entry in fs::read_dir(place.path("1")).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert_eq!(place.read(&format!("1/{name}")), place.read(&format!("{threads}/{name}")), "{name}");
        }
    }
}

#[test]
fn splits_follow_a_seed_or_a_file() {
    let place = with_counts();
    place.lsparse("corpus build docword.txt --vocab vocab.txt --out c -q").assert().success().stderr("");
    place.write("split.txt", "train\ntest\ntrain\nval\n");
    let by_file = place.lsparse("corpus split c --file split.txt --out parts").assert().success();
    by_file.stderr(contains("2 in train, 1 in val, 1 in test"));
    for (part, ids) in [("train", "1\n3\n"), ("val", "4\n"), ("test", "2\n")] {
        assert_eq!(place.text(&format!("parts/{part}/ids.txt")), ids);
        assert_eq!(place.text(&format!("parts/{part}/vocab.txt")), place.text("vocab.txt"));
    }
    for out in ["a", "b"] {
        let draw = format!("corpus split c --test 0.25 --val 0 --seed 5 --out {out} -q");
        place.lsparse(&draw).assert().success();
    }
    assert_eq!(place.read("a/test/ids.txt"), place.read("b/test/ids.txt"));
    assert!(!place.path("a/val").exists());
    refused(&place, "corpus split c --file split.txt --out parts", &["parts exists already", "--force"]);
    refused(&place, "corpus split c --test 0.9 --val 0.1 --out d", &["leave none to train on"]);
    place.write("split.txt", "train\ntrian\n");
    refused(
        &place,
        "corpus split c --file split.txt --out d",
        &["split.txt line 2", "\"trian\"", "train, val or test"],
    );
    refused(&place, "corpus split c --file split.txt --seed 1 --out d", &["cannot be used with"]);
    // A part that was asked for is never left out without a word.
    refused(&place, "corpus split c --out d", &["val", "0.1 of 4 documents", "--val 0"]);
    refused(&place, "corpus split c --val 0 --test 0.01 --out d", &["test", "--test 0"]);
    place.write("split.txt", "val\ntest\nval\nval\n");
    refused(&place, "corpus split c --file split.txt --out d", &["split.txt line 4", "train"]);
    let report = place.json("corpus split c --test 0.25 --val 0.25 --out d --json -q");
    assert_eq!((&report["train"], &report["val"], &report["test"]), (&2.into(), &1.into(), &1.into()));
}

#[test]
fn force_replaces_what_is_ours_alone() {
    let place = with_counts();
    let build = "corpus build docword.txt --vocab vocab.txt --out c --force";
    place.lsparse(build).assert().success();
    place.write("c/notes.md", "mine");
    fs::create_dir(place.path("c/plots")).unwrap();
    place.write("vocab.txt", "ape\nbee\ncat\n");
    place.lsparse(build).assert().success();
    assert_eq!(place.text("c/vocab.txt"), "ape\nbee\ncat\n");
    assert!(place.text("c/notes.md") == "mine" && place.path("c/plots").is_dir());
    let split = "corpus split c --val 0.25 --test 0.25 --out parts --force";
    place.lsparse(split).assert().success();
    place.write("parts/why.md", "mine");
    place.write("parts/val/why.md", "mine");
    place.lsparse("corpus split c --val 0 --test 0.25 --out parts --force").assert().success();
    assert!(place.text("parts/why.md") == "mine" && place.text("parts/val/why.md") == "mine");
    assert!(!place.path("parts/val/vocab.txt").exists() && place.path("parts/test/vocab.txt").exists());
    // A folder of corpora is neither a corpus nor a split, and a corpus is not replaced by a split of it.
    fs::create_dir(place.path("all")).unwrap();
    place.lsparse("corpus build c --out all/kos").assert().success();
    refused(&place, "corpus build c --out all --force", &["all is a folder of something else than a corpus"]);
    refused(
        &place,
        "corpus split c --val 0 --test 0.25 --out c --force",
        &["c is a folder of something else than the parts of a corpus"],
    );
    refused(&place, "corpus build c --out parts --force", &["parts is a folder of something else"]);
    assert!(Corpus::open(&place.path("all/kos")).is_ok());
}

#[test]
fn what_is_there_twice_is_mentioned() {
    let place = with_counts();
    place.write("twice.txt", "apple\nbee\napple\n");
    place.write("ids.txt", "a\nb\na\na\n");
    let build = "corpus build docword.txt --vocab twice.txt --ids ids.txt --out c";
    let built = place.lsparse(build).assert().success();
    built
        .stderr(contains("warning: in the vocabulary, words that it has already: 1, the first is \"apple\""))
        .stderr(contains("names that earlier ones have: 2, the first is \"a\""))
        .stderr(contains("docword.txt was read as uci"));
    // The vocabulary is kept as given.
    assert_eq!(place.text("c/vocab.txt"), place.text("twice.txt"));
    let report = place.json(&format!("{build} --force --json -q"));
    assert_eq!((&report["repeated_words"], &report["repeated_ids"]), (&1.into(), &2.into()));
}

#[test]
fn names_of_files_say_what_they_are() {
    let place = Place::new();
    place.write("x.ldac", "2 1:1 4:2\n2 3:1\n");
    refused(&place, "corpus build x.ldac --out c", &["x.ldac line 2", "starts with 2, but 1 words", "LDA-C"]);
    place.write("x.csv", "id,text\n1,\"a dog\n2,a cat\n3,a cow\n");
    refused(&place, "corpus build x.csv --out c", &["x.csv line 2", "a quote is opened and not closed"]);
    place.write("x.jsonl", "{\"text\": \"dog\"}\n{\"text\": 7}\n");
    refused(&place, "corpus build x.jsonl --out c", &["x.jsonl line 2", "\"text\" is not text"]);
    place.write("empty.txt", "");
    refused(&place, "corpus build empty.txt --format uci --out c", &["empty.txt line 1", "ends before"]);
}

#[test]
fn bad_input_is_refused() {
    let place = with_counts();
    let mend = |name: &str, from: &str, to: &str| place.write(name, place.text("docword.txt").replace(from, to));
    mend("word.txt", "1 3 1", "1 4 1");
    refused(&place, "corpus build word.txt --out c", &["word.txt line 5", "there is no word 4", "3"]);
    mend("count.txt", "2 2 4", "2 2 -4");
    refused(&place, "corpus build count.txt --out c", &["count.txt line 6", "-4 is negative"]);
    mend("half.txt", "2 2 4", "2 2 0.5");
    refused(&place, "corpus build half.txt --out c", &["half.txt line 6", "0.5 is not whole"]);
    mend("short.txt", "4 2 1\n", "");
    refused(&place, "corpus build short.txt --out c", &["short.txt line 7", "ends after 4 entries"]);
    mend("more.txt", "\n5\n", "\n4\n");
    refused(&place, "corpus build more.txt --out c", &["more.txt line 8", "one more"]);
    place.write("words.txt", "apple\nbee\n");
    let vocab = "corpus build docword.txt --vocab words.txt --out c";
    refused(&place, vocab, &["docword.txt line 3", "3 words", "words.txt has 2"]);
    place.write("latin.txt", b"dog dog\ncaf\xe9 dog\n");
    refused(&place, "corpus build latin.txt --strict --out c", &["latin.txt line 2", "0xe9 is not valid UTF-8"]);
    let replaced = place.lsparse("corpus build latin.txt --min-docs 1 --max-share 1 --out latin").assert().success();
    replaced.stderr(contains("not valid UTF-8 and are replaced (--strict refuses them): 1"));
    place.write("empty.txt", "");
    refused(&place, "corpus build empty.txt --out c", &["empty.txt", "0 documents"]);
    refused(&place, "corpus build none.txt --out c", &["none.txt does not exist"]);
    refused(&place, "corpus build docword.txt --out no/such/place", &["no/such/place"]);
    refused(&place, "corpus build docword.txt --stem english --out c", &["stem", "counts of words, not text"]);
    refused(&place, "corpus build latin.txt --stop-words klingon --out c", &["klingon", "english"]);
    refused(&place, "corpus build latin.txt --stop-words none.txt --out c", &["none.txt does not exist"]);
    refused(&place, "corpus build latin.txt --max-share 2 --out c", &["max-share"]);
    refused(&place, "corpus build docword.txt --format pdf --out c", &["pdf", "svmlight"]);
    refused(&place, "corpus info none", &["none does not exist"]);
    refused(&place, "corpus info vocab.txt", &["not a corpus folder"]);
}

#[test]
fn a_corpus_among_the_texts_is_not_text() {
    let place = Place::new();
    fs::create_dir(place.path("texts")).unwrap();
    place.write("texts/a.txt", "dog cat");
    place.write("texts/b.txt", "dog cow");
    let build = "corpus build texts --min-docs 1 --max-share 1 --out texts/corpus";
    place.lsparse(build).assert().success().stderr(contains("2 documents, 3 words"));
    place.lsparse(&format!("{build} --force")).assert().success().stderr(contains("2 documents, 3 words"));
    refused(&place, "info texts/corpus", &["texts/corpus", "it is a folder"]);
}

#[test]
fn what_is_there_is_replaced_only_when_forced() {
    let place = with_counts();
    let build = "corpus build docword.txt --vocab vocab.txt --out c";
    place.lsparse(build).assert().success();
    refused(&place, build, &["c exists already", "--force"]);
    place.lsparse(&format!("{build} --force")).assert().success();
    fs::create_dir(place.path("photos")).unwrap();
    place.write("photos/a.jpg", "");
    refused(&place, "corpus build docword.txt --force --out photos", &["photos", "never replaced"]);
}

#[test]
fn words_that_filters_leave_out_are_named() {
    let place = Place::new();
    place.write("x.txt", "apple bee cat\napple bee dog\napple bee cat\napple elk fox\n");
    let built =
        "corpus build x.txt --min-docs 2 --max-share 0.8 --vocab-size 1 --stop-words none --dropped d.csv --out c";
    let said = place.lsparse(built).assert().success();
    said.stderr(
        contains("3 in too few documents (dog, elk, fox)")
            .and(contains("1 in too many (apple)"))
            .and(contains("(cat)")),
    );
    assert_eq!(place.text("c/vocab.txt"), "bee\n");
    let table = place.text("d.csv");
    let expected =
        ["word,documents,tokens,reason", "apple,4,4,common", "cat,2,2,beyond", "dog,1,1,rare", "elk,1,1,rare"];
    assert_eq!(table.lines().take(5).collect::<Vec<_>>(), expected);
    let report = place.json("corpus build x.txt --out d --json -q");
    assert_eq!(report["dropped_words"][0]["word"], "apple");
    // All of them are in the file, a few in what is said.
    let rare: String = (0..30).map(|n| format!("w{n} w{n} both\nboth other\nother third\nthird\n")).collect();
    place.write("y.txt", rare);
    let said = place.lsparse("corpus build y.txt --dropped all.csv --out e").assert().success();
    said.stderr(contains("30 in too few documents (w0, w1, w10, w11, w12, ...)"));
    assert_eq!(place.text("all.csv").lines().count(), 31);
    refused(&place, "corpus build y.txt --dropped none/all.csv --out f", &["cannot write none/all.csv"]);
}
