//! Topics from raw text to scores, as a person gets them; bad input is refused with status 2 and leaves nothing.

mod common;

use std::fs;

use common::{Place, refused};
use lsparse::data::{RowSource, Rows, read_csr_npz};
use lsparse::synthetic::{ThemedCorpus, themed_corpus};
use lsparse::topics::TopicModel;
use predicates::prelude::*;
use predicates::str::contains;
use serde_json::Value;

const TRAIN: usize = 500;
const ALL: usize = 560;

/// Documents about known themes as text, and corpora made from them.
fn with_corpora() -> (Place, ThemedCorpus) {
    let place = Place::new();
    let truth = themed_corpus(ALL, 5);
    place.write("train.txt", truth.text(0..TRAIN));
    place.write("test.txt", truth.text(TRAIN..ALL));
    place.lsparse("corpus build train.txt --max-share 1 --out train -q").assert().success();
    place.lsparse("corpus build test.txt --min-docs 1 --max-share 1 --out test -q").assert().success();
    (place, truth)
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is not a number"))
}

#[test]
fn from_text_to_topics() {
    let (place, truth) = with_corpora();
    place
        .lsparse("fit topics train -k 28 --heldout test --laps 8 --batches 3 --out m.safetensors --trace run.jsonl")
        .assert()
        .success()
        .stdout(contains("stopped").and(contains("objective")).and(contains("allocation")))
        .stdout(contains("held-out").and(contains("perplexity")).and(contains("restarts accepted")))
        .stdout(contains("documents/s").and(contains("active topics")).and(contains("m.safetensors")))
        .stderr(contains("500 documents").and(contains("K = 28, L = 8, 3 batches")).and(contains("lap 1/8")));
    let last = place.steps("run.jsonl").pop().unwrap();
    assert!(last["heldout"].is_number() && last["active_topics"].is_number());

    // Nearly every theme is a topic.
    let listing = place.json("topics m.safetensors --json --top 10 --corpus train --examples 2");
    let topics = listing["topics"].as_array().unwrap();
    assert_eq!(topics.len(), 28);
    let top = |topic: &Value| -> Vec<String> {
        topic["words"].as_array().unwrap().iter().map(|w| w["word"].as_str().unwrap().to_owned()).collect()
    };
    let found = (truth.themes.iter())
        .filter(|theme| {
            let own: Vec<&String> = theme.iter().take(10).map(|word| &truth.vocab[word.0 as usize]).collect();
            topics.iter().any(|topic| top(topic).iter().filter(|word| own.contains(word)).count() >= 6)
        })
        .count();
    assert!(found >= 20, "{found} of 24 themes");
    assert!(topics.windows(2).all(|pair| number(&pair[0]["share"]) >= number(&pair[1]["share"])));
    // The example of the first topic is about it.
    let example: usize = topics[0]["examples"][0]["document"].as_str().unwrap().parse().unwrap();
    let words = &truth.documents[example - 1];
    let about = |word: &String| words.iter().any(|&v| truth.vocab[v as usize] == *word);
    assert!(top(&topics[0]).iter().filter(|word| about(word)).count() >= 5);
    let text = place.stdout("topics m.safetensors --by relevance --relevance 0.3 --top 3");
    assert!(text.contains("28 topics") && text.lines().filter(|line| line.contains(" %  ")).count() == 28, "{text}");
    // Of 28 topics for 24 themes some are left over.
    assert!(text.contains("\ntiny, with less than a tenth of the average share: "), "{text}");

    // Scores of the corpus, and of the same documents as text, are those of training.
    let score = place.json("score m.safetensors test --json");
    assert!((number(&score["mean_log_probability"]) - number(&last["heldout"])).abs() < 1e-6);
    for key in ["perplexity", "npmi", "umass", "diversity", "skipped_documents", "unknown_words"] {
        assert!(score[key].is_number(), "{key}");
    }
    let raw = place.json("score m.safetensors test.txt --json");
    assert_eq!(raw["documents"], score["documents"]);
    assert!((number(&raw["mean_log_probability"]) - number(&score["mean_log_probability"])).abs() < 1e-6);
    let other = place.json("score m.safetensors test --share 0.5 --seed 3 --reference train --json");
    assert!(number(&other["heldout_tokens"]) > number(&score["heldout_tokens"]));
    place.lsparse("score m.safetensors test").assert().success().stdout(contains("coherence NPMI"));

    place
        .lsparse("info m.safetensors")
        .assert()
        .success()
        .stdout(contains("28 topics").and(contains("L = 8 of K = 28")));
    let info = place.json("info m.safetensors --json --top 2");
    assert_eq!((&info["kind"], info["largest"].as_array().unwrap().len()), (&"topics".into(), 2));
}

#[test]
fn documents_are_assigned_and_compared() {
    let (place, truth) = with_corpora();
    place.lsparse("fit topics train -k 28 --laps 6 --out m.safetensors -q").assert().success().stdout("").stderr("");
    place.lsparse("assign m.safetensors test --out a.npz").assert().success();
    let matrix = read_csr_npz(&place.path("a.npz")).unwrap();
    assert_eq!((matrix.num_rows(), matrix.dim()), (ALL - TRAIN, 28));
    let mut rows = Rows::dense(28);
    matrix.read_f64(0, ALL - TRAIN, &mut rows).unwrap();
    assert!(rows.as_dense().unwrap().chunks_exact(28).all(|row| (row.iter().sum::<f64>() - 1.0).abs() < 1e-5));
    let table = place.stdout("assign m.safetensors test.txt");
    assert!(table.starts_with("document,topic,share\n1,"), "{table}");
    place.lsparse("assign m.safetensors test --out a.csv").assert().success();
    assert_eq!(place.text("a.csv"), table);

    // A document and its nearest have a theme in common.
    let similar = place.json("similar m.safetensors train --doc 7 --top 5 --json");
    let neighbours = similar["similar"].as_array().unwrap();
    assert_eq!(neighbours.len(), 5);
    assert!(neighbours.windows(2).all(|pair| number(&pair[0]["distance"]) <= number(&pair[1]["distance"])));
    let themes = |doc: usize| truth.mixes[doc - 1].iter().map(|part| part.0).collect::<Vec<usize>>();
    let nearest: usize = neighbours[0]["document"].as_str().unwrap().parse().unwrap();
    assert!(nearest != 7 && themes(nearest).iter().any(|theme| themes(7).contains(theme)));
    place.lsparse("similar m.safetensors train.txt --doc 7").assert().success().stdout(contains("distance"));

    // A folder of text files, words that are not known, documents without words.
    fs::create_dir(place.path("files")).unwrap();
    place.write("files/sky, at night.txt", "Stars? The star, a PLANET and the galaxy; zzyzx.");
    place.write("files/void.txt", "qqq www");
    let output = place.lsparse("assign m.safetensors files").assert().success().get_output().clone();
    let (table, message) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(table.contains("\"sky, at night.txt\",") && !table.contains("void"), "{table}");
    assert!(message.contains("words are not in the vocabulary"), "{message}");
    refused(&place, "fit topics train -k 3 --leave-out on --batches 1", &["leave-out: with one batch", "--batches"]);
    let stochastic = "fit topics train -k 3 --leave-out on --schedule stochastic";
    refused(&place, stochastic, &["leave-out: only memoized", "--schedule memoized"]);
    refused(&place, "similar m.safetensors files --doc void.txt", &["void.txt", "no words that the model knows"]);
    refused(&place, "similar m.safetensors train --doc nobody", &["no document \"nobody\"", "\"1\"", "from 1 to 500"]);
    let by_number = place.json("similar m.safetensors files --doc 1 --json");
    assert_eq!(by_number["document"], "sky, at night.txt");
    refused(&place, "similar m.safetensors files --doc NIGHT", &["\"sky, at night.txt\"", "from 1 to 2"]);

    // The score of every document; those that are too short have none.
    place.write("short.txt", "star\nstar planet galaxy sauce oven\n");
    let scores = place.json("score m.safetensors short.txt --per-row s.csv --json");
    let lines: Vec<String> = place.text("s.csv").lines().map(str::to_owned).collect();
    assert_eq!((lines[0].as_str(), lines[1].as_str()), ("document,mean_log_probability", "1,"));
    let score: f64 = lines[2].strip_prefix("2,").unwrap().parse().unwrap();
    assert!((score - number(&scores["mean_log_probability"])).abs() < 1e-12);
    place.lsparse("score m.safetensors test --per-row s.npy").assert().success().stdout(contains("s.npy"));
    assert_eq!(lsparse::data::NpyRows::open(&place.path("s.npy")).unwrap().num_rows(), ALL - TRAIN);
    // Coherence of words that the reference does not have is not made up.
    assert!(number(&scores["words_without_reference"]) > 0.0 && !scores["diversity"].is_null());
    place.write("two.txt", "star unheard\nunheard star sauce\n");
    place.write("one.txt", "star\nstar\n");
    let scores = place.json("score m.safetensors two.txt --reference one.txt --json");
    assert!(scores["npmi"].is_null() && scores["umass"].is_null(), "{scores}");
    let json = place.stdout("assign m.safetensors two.txt --json");
    assert!(json.lines().count() == 2 && json.starts_with("{\"document\":\"1\","), "{json}");
    place.write("void.txt", "qqq www\n");
    refused(&place, "score m.safetensors void.txt", &["void.txt", "not one of its 2 words"]);
}

#[test]
fn the_same_run_gives_the_same_bytes_with_any_number_of_threads() {
    let (place, _) = with_corpora();
    for options in ["--schedule memoized --batches 3", "--schedule stochastic --batches 4 --estimate vb"] {
        for threads in [1, 2] {
            let fit = format!("fit topics train -k 12 -l 4 --laps 3 --runs 2 --seed 7 {options}");
            place.lsparse(&format!("{fit} --threads {threads} --out {threads} -q")).assert().success();
            let assign = format!("assign {threads} test --threads {threads} --out {threads}.npz");
            place.lsparse(&assign).assert().success();
        }
        assert!(place.read("1") == place.read("2") && place.read("1.npz") == place.read("2.npz"), "{options}");
    }
}

#[test]
fn training_goes_on_with_new_words() {
    let (place, _) = with_corpora();
    place.lsparse("fit topics train -k 10 -l 3 --laps 4 --out m.safetensors -q").assert().success();
    // Fewer of the old words in another order, and new ones.
    place.write("new.txt", "zebra quagga star\nplanet zebra quagga\nzebra star star\n".repeat(20));
    place.lsparse("corpus build new.txt --max-share 1 --out new -q").assert().success();
    let fit = "fit topics new --from m.safetensors --laps 3 --json";
    let report = place.json(&format!("{fit} --history keep --out more.safetensors"));
    assert_eq!((&report["topics"], &report["sparsity"], &report["new_words"]), (&10.into(), &3.into(), &2.into()));
    let (old, more) = (load(&place, "m.safetensors"), load(&place, "more.safetensors"));
    assert_eq!(more.vocab[..old.vocab_size()], old.vocab);
    assert_eq!(more.vocab[old.vocab_size()..], ["quagga", "zebra"]);
    assert!(more.tokenizer.is_some());
    let tokens = |model: &TopicModel| model.total.counts.iter().sum::<f64>();
    assert!((tokens(&more) - tokens(&old) - 180.0).abs() < 0.5, "{} {}", tokens(&more), tokens(&old));
    assert_eq!(more.training.observations, old.training.observations + 60);
    place.lsparse(&format!("{fit} --out only.safetensors")).assert().success();
    assert!((tokens(&load(&place, "only.safetensors")) - 180.0).abs() < 0.5);
    place.lsparse("score more.safetensors new").assert().success();

    refused(&place, "fit topics new --from m.safetensors -k 4", &["topics: 4 are asked for, the model has 10"]);
    refused(&place, "fit topics new --from m.safetensors --alpha 3", &["alpha: 3 is asked for"]);
    refused(&place, "fit topics new --from m.safetensors --init random", &["cannot be used with"]);
    refused(&place, "fit topics new -k 2 --history keep", &["history", "--from"]);
}

fn load(place: &Place, name: &str) -> TopicModel {
    TopicModel::load(&place.path(name)).unwrap()
}

#[test]
fn settings_seed_words_and_warnings() {
    let (place, _) = with_corpora();
    place.write("run.json", r#"{"topics": 5, "sparsity": 2, "laps": 2, "learn-alpha": "symmetric"}"#);
    let report = place.json("fit topics train --config run.json -l K --docs-per-batch 250 --warm-start --json -q");
    let config = &report["config"];
    assert_eq!((&config["topics"], &config["sparsity"], &config["batches"]), (&5.into(), &5.into(), &2.into()));
    assert_eq!((&config["learn-alpha"], &config["warm-start"]), (&"symmetric".into(), &true.into()));

    // Options win over a file that says another K, or what goes with it.
    place.write("auto.json", r#"{"topics": "auto", "k-start": 7, "k-max": 40, "topic-cost": 50, "laps": 2}"#);
    let config = place.json("fit topics train --config auto.json -k 5 --json -q")["config"].clone();
    assert!(config["topics"] == 5 && config["find-k"].is_null() && config["k-start"].is_null(), "{config}");
    let config = place.json("fit topics train --config auto.json --k-start 4 --json -q")["config"].clone();
    assert!(config["find-k"] == true && config["k-start"] == 4, "{config}");
    let config =
        place.json("fit topics train --config run.json -k auto --learn-alpha stick --json -q")["config"].clone();
    assert!(config["find-k"] == true && config["k-start"] != 5, "{config}");

    place.write("seeds.txt", "sauce oven garlic\n\nstar planet\n");
    let fit = "fit topics train -k 24 --laps 4 --seed-weight 5 --out m.safetensors -q";
    place.lsparse(&format!("{fit} --seed-words seeds.txt")).assert().success();
    let model = load(&place, "m.safetensors");
    for (topic, words) in [(0, &["sauce", "oven", "garlic"][..]), (2, &["star", "planet"])] {
        let top: Vec<&str> =
            model.top_words(topic, 8).iter().map(|word| model.vocab[word.0 as usize].as_str()).collect();
        assert!(words.iter().all(|word| top.contains(word)), "{topic}: {top:?}");
    }

    let hard = place.lsparse("fit topics train -k 5 -l 1 --laps 1").assert().success();
    hard.stderr(
        contains("warning: with --sparsity 1").and(contains("fail catastrophically")).and(contains("not saved")),
    );
    place.lsparse("fit topics train -k 5 -l 1 --laps 1 -q").assert().success().stdout("").stderr("");
}

#[test]
fn bad_input_is_refused() {
    let (place, _) = with_corpora();
    place.lsparse("fit topics train -k 3 --laps 1 --out m.safetensors -q").assert().success();
    place.write("unknown.txt", "star planet\nsauce zzz\n");
    place.write("many.txt", "star\n\n\nsauce\n");
    place.write("blank.txt", "\n\n");
    place.write("typo.json", r#"{"topcis": 3}"#);
    for (arguments, words) in [
        ("train -k 0", &["topics", "at least 1"][..]),
        ("train -k 4 -l 0", &["--sparsity", "from 1 to K"]),
        ("train -k 4 --estimate ml", &["ml", "map"]),
        ("train -k 4 --learn-alpha much", &["much", "asymmetric"]),
        ("train -k 4 --alpha 0", &["alpha", "above 0"]),
        ("train -k 4 --lambda nan", &["--lambda", "finite"]),
        ("train -k 4 --batches 501", &["501 batches", "500 documents"]),
        ("train -k 4 --best-by heldout", &["best-by", "--heldout"]),
        ("train -k 4 --seed-weight 1", &["seed-weight", "--seed-words"]),
        ("train -k 4 --laps none --tolerance none", &["every rule that stops training is off"]),
        ("train -k 3 --seed-words unknown.txt", &["unknown.txt line 2", "\"zzz\"", "vocab.txt"]),
        ("train -k 3 --seed-words many.txt", &["many.txt line 4", "3 topics"]),
        ("train -k 3 --seed-words blank.txt", &["blank.txt", "no words"]),
        ("train -k 3 --seed-words none.txt", &["none.txt does not exist"]),
        ("train -k 3 --config typo.json", &["typo.json", "topcis", "line 1"]),
        ("train.txt -k 3", &["train.txt", "lsparse corpus build"]),
        (". -k 3", &["no corpus", "lsparse corpus build"]),
        ("none -k 3", &["none does not exist"]),
        ("train -k 3 --heldout none", &["none does not exist"]),
        ("train -k 3 --from none.safetensors", &["none.safetensors does not exist"]),
        ("train -k 3 --out none/m", &["cannot write none/m"]),
        ("train -k 3 --out train/words.npy", &["train/words.npy is read by this very command"]),
        ("train -k 3 --out x --trace x", &["also where the model goes"]),
    ] {
        refused(&place, &format!("fit topics {arguments}"), words);
    }
    for (arguments, words) in [
        ("score m.safetensors test --share 0", &["share", "between 0 and 1"][..]),
        ("score m.safetensors test --patch-size 4", &["patch-size", "no meaning for a topic model"]),
        ("assign m.safetensors test.txt --patch-grid full", &["patch-grid", "no meaning for a topic model"]),
        ("assign m.safetensors test --header no", &["header", "no meaning for a corpus folder"]),
        ("score m.safetensors test --field text", &["field", "no meaning for a corpus folder"]),
        ("similar m.safetensors --doc 7", &["CORPUS", "no documents", "lsparse similar m.safetensors CORPUS --doc 7"]),
        ("score m.safetensors test --share 2", &["--share", "from 0 to 1"]),
        ("score m.safetensors none.txt", &["none.txt does not exist"]),
        ("assign m.safetensors test --out a.txt", &["a.txt", ".npz or .csv or .jsonl"]),
        ("topics m.safetensors --relevance 2", &["--relevance", "from 0 to 1"]),
        ("topics m.safetensors --examples 2", &["--corpus"]),
        ("topics train.txt", &["train.txt is not a model"]),
        ("similar m.safetensors train", &["--doc"]),
    ] {
        refused(&place, arguments, words);
    }
    // A mixture is no topic model, and the other way round.
    place.npy("x.npy", 1, &[1.0, 2.0, 3.0]);
    place.lsparse("fit mixture x.npy -k 1 --out x.safetensors -q").assert().success();
    refused(&place, "topics x.safetensors", &["x.safetensors is a mixture model", "fit mixture --from"]);
    refused(&place, "score x.safetensors x.npy --share 0.3", &["share", "a mixture"]);
    refused(&place, "assign x.safetensors x.npy --strict", &["strict", "a mixture"]);
    refused(&place, "fit mixture x.npy --from m.safetensors", &["m.safetensors is a topic model", "fit topics --from"]);
    let model = place.read("m.safetensors");
    place.write("short.safetensors", &model[..model.len() - 9]);
    refused(&place, "info short.safetensors", &["short.safetensors"]);
}

#[test]
fn scores_with_another_alpha_and_with_known_classes() {
    let (place, truth) = with_corpora();
    place.lsparse("fit topics train -k 24 --laps 6 --out m.safetensors -q").assert().success();
    let score = |options: &str| place.json(&format!("score m.safetensors test {options} --json"));
    let own = score("");
    assert!((number(&own["alpha"]) - 0.5).abs() < 1e-6);
    let same = score("--alpha 0.5");
    assert!((number(&same["mean_log_probability"]) - number(&own["mean_log_probability"])).abs() < 1e-6);
    let scores: Vec<f64> = ["1e-6", "5", "50", "1e6"]
        .iter()
        .map(|alpha| number(&score(&format!("--alpha {alpha}"))["mean_log_probability"]))
        .collect();
    // Under a very large one every document is the same mixture of all topics.
    assert!(scores.iter().all(|score| score.is_finite()) && scores[3] < scores[1], "{scores:?}");
    place
        .lsparse("score m.safetensors test --alpha 5")
        .assert()
        .success()
        .stdout(contains("alpha                 5.000"));
    for alpha in ["0", "-1", "1e7"] {
        refused(&place, &format!("score m.safetensors test --alpha={alpha}"), &["alpha", "not above 0"]);
    }

    // The theme that a document has most of is its class.
    let main = truth.mixes[TRAIN..].iter().map(|mix| mix.iter().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap().0);
    place.write("themes.txt", main.map(|theme| format!("{theme}\n")).collect::<String>());
    let agreement = score("--labels themes.txt")["agreement"].clone();
    assert!(number(&agreement["nmi"]) > 0.7 && number(&agreement["purity"]) > 0.5, "{agreement}");
    place.lsparse("assign m.safetensors test --out main.npy").assert().success();
    let labels = lsparse::open::read_column(&place.path("main.npy"), &Default::default()).unwrap();
    assert_eq!(labels.len(), ALL - TRAIN);
    assert!(labels.iter().all(|k| (0.0..24.0).contains(k)));
    // A document without known words has no topic.
    place.write("void.txt", "star planet\nqqq\n");
    place.lsparse("assign m.safetensors void.txt --out void.npy").assert().success();
    assert_eq!(lsparse::open::read_column(&place.path("void.npy"), &Default::default()).unwrap()[1], -1.0);
}

#[test]
fn topics_one_by_one_and_in_files() {
    let (place, _) = with_corpora();
    place.lsparse("fit topics train -k 30 --laps 6 --out m.safetensors -q").assert().success();
    let listing = place.json("topics m.safetensors --top 5 --json");
    let topics = listing["topics"].as_array().unwrap();
    assert_eq!(topics.len(), 30);
    let model = load(&place, "m.safetensors");
    // What is flagged is what it says.
    let average = 1.0 / 30.0;
    for topic in topics {
        assert_eq!(topic["tiny"], number(&topic["share"]) < 0.1 * average, "{topic}");
        let (k, own) = (topic["topic"].as_u64().unwrap() as usize, |k: usize| dense_counts(&model, k));
        for other in topic["near_duplicates"].as_array().unwrap() {
            let cosine = cosine(&own(k), &own(other["topic"].as_u64().unwrap() as usize));
            assert!(cosine >= 0.8 && (cosine - number(&other["cosine"])).abs() < 1e-9, "{topic}");
        }
    }
    let filled = model.total.counts.iter().filter(|&&count| count > 0.0).count();
    assert_eq!(model.alike(0.0).len(), filled * (filled - 1) / 2);
    let pairs = (0..30).flat_map(|a| (a + 1..30).map(move |b| (a, b)));
    let all =
        pairs.map(|(a, b)| (a, b, cosine(&dense_counts(&model, a), &dense_counts(&model, b)))).collect::<Vec<_>>();
    for least in [0.02, 0.1, 0.3, 0.8] {
        let (found, expected) = (model.alike(least), all.iter().filter(|pair| pair.2 >= least).count());
        assert_eq!(found.len(), expected, "{least}");
        assert!(found.iter().all(|pair| {
            all.iter().any(|other| (other.0, other.1) == (pair.0, pair.1) && (other.2 - pair.2).abs() < 1e-9)
        }));
    }

    let one = place.stdout("topics m.safetensors --topic 7 --top 3");
    assert!(one.starts_with("topic 7: ") && one.contains("probability") && !one.contains("topic 8:"), "{one}");
    let both = place.json("topics m.safetensors --topic 7 --topic 2 --json");
    assert_eq!(both["topics"].as_array().unwrap().len(), 2);
    refused(&place, "topics m.safetensors --topic 30", &["topic", "0 to 29"]);
    refused(&place, "topics m.safetensors --by probability --relevance 0.5", &["relevance", "leave it out"]);

    let written = place.json("topics m.safetensors --top 5 --out t.csv --json");
    assert_eq!((&written["topics"], &written["out"]), (&30.into(), &"t.csv".into()));
    let table = place.text("t.csv");
    assert!(table.starts_with("topic,share,rank,word,probability\n") && table.lines().count() == 1 + 30 * 5);
    place.lsparse("topics m.safetensors --top 5 --out t.json").assert().success().stdout("");
    assert_eq!(serde_json::from_str::<Value>(&place.text("t.json")).unwrap(), listing);
    place.lsparse("topics m.safetensors --out t.txt").assert().success().stdout("");
    assert_eq!(place.text("t.txt"), place.stdout("topics m.safetensors"));
    refused(&place, "topics m.safetensors --out t.pdf", &["t.pdf", ".csv or .json or .txt"]);
    refused(&place, "topics m.safetensors --out m.safetensors", &["m.safetensors"]);
}

/// The counts of words of a topic.
fn dense_counts(model: &TopicModel, k: usize) -> Vec<f64> {
    let stats = model.total.total();
    let of_word = |v: usize| {
        let mut entries = stats.indptr[v]..stats.indptr[v + 1];
        entries.find(|&e| stats.topic[e] as usize == k).map_or(0.0, |e| stats.mass[e])
    };
    (0..model.vocab_size()).map(of_word).collect()
}

fn cosine(a: &[f64], b: &[f64]) -> f64 {
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
    product(a, b) / (product(a, a) * product(b, b)).sqrt()
}
