//! Trainings that live in a folder: whoever works, and whatever becomes of them, the model has the bytes of one process.

#![cfg(unix)]

mod common;

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::{Place, refused, with_planted};
use lsparse::LikelihoodKind;
use lsparse::synthetic::{ChainShape, planted_chain, themed_corpus};
use predicates::prelude::*;
use predicates::str::contains;

/// The batches that a command prints.
fn batches(place: &Place, arguments: &str) -> Vec<usize> {
    place
        .stdout(arguments)
        .trim()
        .split(',')
        .filter(|name| !name.is_empty())
        .map(|name| name.parse().unwrap())
        .collect()
}

/// Begin and go on, a worker for every batch, the last batch first; gives the number of rounds.
fn train_by_batches(place: &Place, fit: &str) -> usize {
    let mut now = batches(place, &format!("{fit} --shared run -q"));
    let mut rounds = 0;
    while !now.is_empty() {
        for batch in now.iter().rev() {
            place.lsparse(&format!("work run --batch {batch} --threads 1 -q")).assert().success();
        }
        now = batches(place, "fold run -q");
        rounds += 1;
    }
    rounds
}

fn start(place: &Place, arguments: &str) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lsparse"));
    command.current_dir(place.path("")).args(arguments.split_whitespace());
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// The steps of a trace without what depends on the clock, the memory and what a process remembers of its search.
fn steps(place: &Place, name: &str) -> Vec<serde_json::Value> {
    let mut steps = place.steps(name);
    let changing = [
        "seconds",
        "cpu_seconds",
        "moves_cpu_seconds",
        "rows_per_second",
        "peak_memory_bytes",
        "search_work",
        "weights_evaluated",
    ];
    for step in &mut steps {
        changing.iter().for_each(|field| drop(step.as_object_mut().unwrap().remove(*field)));
    }
    steps
}

#[test]
fn workers_of_a_mixture_end_with_the_bytes_of_a_fit() {
    let (place, _) = with_planted(LikelihoodKind::Gauss, 1500, 300, 4, 5);
    let weights: Vec<f64> = (0..1500).map(|n| f64::from(n % 4)).collect();
    place.npy("weights.npy", 1, &weights);
    for (settings, per_round, rounds) in [
        ("--batches 5 --laps 3", Some(1), 15),
        ("--batches 7 --laps 3 --row-weights weights.npy --standardize", Some(3), 9),
        ("--batches 5 --laps 2 --runs 2 --search neighbours --sparsity 2 --memo-memory 1KB", Some(2), 12),
        // A batch that is drawn a second time waits for the next round.
        ("--batches 4 --laps 4 --schedule stochastic --early-stopping 3", Some(4), 8),
        ("--batches 20 --schedule streaming", None, 3),
    ] {
        let fit = format!("fit mixture train.npy -k 8 --tolerance none --heldout test.npy {settings}");
        let round = per_round.map_or(String::new(), |n| format!(" --batches-per-round {n}"));
        let here = if per_round.is_none() { " --batches-per-round 8" } else { &round };
        place.lsparse(&format!("{fit}{here} --trace here.jsonl --out here.st -q")).assert().success();
        let done = train_by_batches(&place, &format!("{fit}{round} --trace there.jsonl --out there.st"));
        assert_eq!(done, rounds, "{settings}");
        assert!(place.read("here.st") == place.read("there.st"), "{settings}");
        assert_eq!(steps(&place, "here.jsonl"), steps(&place, "there.jsonl"), "{settings}");
        if per_round == Some(1) {
            // A round of one batch is what a fit does anyway.
            place.lsparse(&format!("{fit} --out alone.st -q")).assert().success();
            assert!(place.read("alone.st") == place.read("there.st"), "{settings}");
        }
        // All is done: nobody is kept, and nothing of the rounds.
        place.lsparse("work run --wait").assert().success().stderr(contains("the training has ended"));
        place.lsparse("fold run").assert().success().stdout("").stderr(contains("has ended"));
        assert_eq!(fs::read_dir(place.path("run/rounds")).unwrap().count(), 0);
        fs::remove_dir_all(place.path("run")).unwrap();
    }
}

#[test]
fn workers_of_sequences_end_with_the_bytes_of_a_fit() {
    let place = Place::new();
    let lengths = [120, 90, 0, 200, 40, 150];
    let truth = planted_chain(LikelihoodKind::DiagGauss, &lengths, 2, 4, ChainShape::default(), 3);
    let mut values = truth.values;
    values[200..204].fill(f64::NAN);
    place.npy("data.npy", 2, &values);
    let text: String = lengths.iter().map(|length| format!("{length}\n")).collect();
    place.write("lengths.txt", &text);
    for (settings, rounds) in [
        ("--batches 3 --batches-per-round 2 --laps 3", 6),
        ("--cut 60 --overlap 15 --batches 6 --batches-per-round 4 --laps 2 -l 2", 4),
    ] {
        let fit = format!(
            "fit sequence data.npy --groups lengths.txt --missing -k 4 --likelihood diag-gauss --tolerance none {settings}"
        );
        place.lsparse(&format!("{fit} --trace here.jsonl --out here.st -q")).assert().success();
        let done = train_by_batches(&place, &format!("{fit} --trace there.jsonl --out there.st"));
        assert_eq!(done, rounds, "{settings}");
        assert!(place.read("here.st") == place.read("there.st"), "{settings}");
        assert_eq!(steps(&place, "here.jsonl"), steps(&place, "there.jsonl"), "{settings}");
        fs::remove_dir_all(place.path("run")).unwrap();
    }
    // Whoever has other sequences is told.
    let fit = "fit sequence data.npy --groups lengths.txt --missing -k 4 --likelihood diag-gauss --laps 2 --shared run";
    place.lsparse(&format!("{fit} --out there.st -q")).assert().success();
    place.write("lengths.txt", text.replacen("120", "110", 1).replacen("90", "100", 1));
    refused(&place, "work run", &["other lengths of sequences"]);
}

#[test]
fn workers_of_topics_end_with_the_bytes_of_a_fit() {
    let place = Place::new();
    place.write("train.txt", themed_corpus(200, 5).text(0..200));
    place.write("more.txt", themed_corpus(80, 6).text(0..80));
    place.write("seeds.txt", "star planet\nsauce oven\n");
    place.lsparse("corpus build train.txt --max-share 1 --out train -q").assert().success();
    place.lsparse("corpus build more.txt --max-share 1 --out more -q").assert().success();
    place.lsparse("fit topics more -k 6 --laps 2 --out first.st -q").assert().success();
    for settings in [
        "-k 6 --batches 6 --laps 3 --seed-words seeds.txt --learn-alpha asymmetric",
        "--from first.st --history keep --batches 5 --laps 2",
        "-k 6 --method svi-gibbs --batches 4 --laps 2",
    ] {
        let fit = format!("fit topics train --tolerance none --batches-per-round 2 {settings}");
        place.lsparse(&format!("{fit} --out here.st -q")).assert().success();
        place.lsparse(&format!("{fit} --shared run --out there.st --json -q")).assert().success();
        // Whoever comes works out what there is.
        loop {
            place.lsparse("work run -q").assert().success();
            let report = place.json("fold run --json -q");
            if report["batches"].as_array().unwrap().is_empty() {
                assert!(report["report"]["laps"].as_u64() > Some(1), "{report}");
                break;
            }
        }
        assert!(place.read("here.st") == place.read("there.st"), "{settings}");
        fs::remove_dir_all(place.path("run")).unwrap();
    }
    refused(
        &place,
        "fit topics train -k 5 --method sparse-lda --shared run --out x.st -q",
        &["method", "cannot be worked out by other processes"],
    );
}

#[test]
fn workers_that_stay_may_be_killed_and_so_may_who_folds() {
    let (place, _) = with_planted(LikelihoodKind::Gauss, 30_000, 300, 6, 5);
    let fit = "fit mixture train.npy -k 40 --tolerance none --batches 8 --laps 6 --batches-per-round 4";
    place.lsparse(&format!("{fit} --out here.st -q")).assert().success();
    assert_eq!(batches(&place, &format!("{fit} --shared run --out there.st -q")).len(), 4);
    let work = "work run --wait --threads 1 -q";
    let (mut workers, mut fold) = ([start(&place, work), start(&place, work)], start(&place, "fold run --wait -q"));
    let (mut random, mut killed) = (3_u64, [0, 0]);
    let ended = loop {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        // The longer it takes, the longer a piece, so that a slow machine comes to an end too.
        std::thread::sleep(Duration::from_millis(50 + (random >> 33) % (300 + 60 * killed[0])));
        if fold.try_wait().unwrap().is_some() {
            break fold.wait_with_output().unwrap();
        }
        let (victim, again) = match random >> 60 & 3 {
            0 => (&mut fold, "fold run --wait -q"),
            n => (&mut workers[n as usize % 2], work),
        };
        killed[usize::from(again != work)] += 1;
        victim.kill().unwrap();
        victim.wait().unwrap();
        *victim = start(&place, again);
    };
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    assert!(place.read("here.st") == place.read("there.st"), "{killed:?} were killed");
    assert!(killed[0] > 0, "the training was too short for anybody to be killed");
    for mut worker in workers {
        assert!(worker.wait().unwrap().success());
    }
}

#[test]
fn what_is_missing_or_foreign_is_named() {
    let (place, _) = with_planted(LikelihoodKind::Gauss, 600, 100, 3, 4);
    let fit = "fit mixture train.npy -k 4 --batches 5 --laps 2 --tolerance none --batches-per-round 3 --out x.st -q";
    assert_eq!(batches(&place, &format!("{fit} --shared run")).len(), 3);
    let now = batches(&place, "fold run --missing -q");
    place.lsparse(&format!("work run --batch {}", now[1])).assert().success().stderr(contains("is worked out"));
    // Twice is as good as once.
    place.lsparse(&format!("work run --batch {}", now[1])).assert().success().stderr(contains("had been worked out"));
    assert_eq!(batches(&place, "fold run --missing"), [now[0], now[2]]);
    let missing = format!("batches {}, {} are not worked out yet", now[0], now[2]);
    let hint = format!("lsparse work {} --batch {}", place.path("run").display(), now[0]);
    place.lsparse("fold run").assert().code(1).stdout("").stderr(contains(missing).and(contains(hint)));
    let other = (0..5).find(|batch| !now.contains(batch)).unwrap();
    refused(&place, &format!("work run --batch {other}"), &["batch: ", "is not of this round", &now[0].to_string()]);
    let round = fs::read_dir(place.path("run/rounds")).unwrap().next().unwrap().unwrap().path();
    // Parameters of another training, and what was worked out under them.
    place.lsparse(&format!("{fit} --seed 1 --shared other")).assert().success();
    place.lsparse("work other -q").assert().success();
    let foreign = fs::read_dir(place.path("other/rounds")).unwrap().next().unwrap().unwrap().path();
    let parameters = fs::read(round.join("parameters")).unwrap();
    fs::copy(foreign.join("parameters"), round.join("parameters")).unwrap();
    let arguments = format!("work run --batch {}", now[0]);
    refused(&place, &arguments, &["these are not the parameters", "lsparse fold, which writes them anew"]);
    place.lsparse("fold run").assert().code(1);
    assert!(fs::read(round.join("parameters")).unwrap() == parameters);
    place.lsparse("work run -q").assert().success();
    let name = format!("summary-{}", now[0]);
    let summary = fs::read(round.join(&name)).unwrap();
    let other = fs::read_dir(&foreign).unwrap().map(|entry| entry.unwrap().path());
    let other = other.filter(|path| path.display().to_string().contains("summary-")).min().unwrap();
    fs::copy(other, round.join(&name)).unwrap();
    refused(&place, "fold run", &[&name, "worked out under other parameters", "remove it"]);
    fs::write(round.join(&name), &summary[..summary.len() - 9]).unwrap();
    refused(&place, "fold run", &["not statistics of a batch"]);
    fs::remove_file(round.join(&name)).unwrap();
    place.lsparse("fold run").assert().code(1).stderr(contains(format!("batch {} is not worked out yet", now[0])));
    // Other data than the training was begun with.
    fs::rename(place.path("train.npy"), place.path("gone.npy")).unwrap();
    refused(&place, &arguments, &["train.npy does not exist"]);
    fs::copy(place.path("test.npy"), place.path("train.npy")).unwrap();
    refused(&place, &arguments, &["(100, 3), expected (600, 3)", "data that the training was begun with"]);
    fs::rename(place.path("gone.npy"), place.path("train.npy")).unwrap();
    place.lsparse(&arguments).assert().success();
    assert_eq!(batches(&place, "fold run -q").len(), 2, "the rest of the lap");
    // Another version.
    let text = place.text("run/training.json").replace(env!("CARGO_PKG_VERSION"), "0.0.1");
    place.write("run/training.json", text);
    for command in ["work", "fold"] {
        refused(&place, &format!("{command} run"), &["made by lsparse 0.0.1", "the same version on all machines"]);
        refused(&place, &format!("{command} nowhere"), &["nowhere does not exist"]);
        fs::create_dir_all(place.path("empty")).unwrap();
        refused(&place, &format!("{command} empty"), &["not the folder of a training", "--shared"]);
    }
}

#[test]
fn a_stale_copy_of_the_data_is_refused_by_whoever_reads_what_differs() {
    let (place, _) = with_planted(LikelihoodKind::Gauss, 3000, 100, 3, 4);
    place.npy("weights.npy", 1, &vec![2.0; 3000]);
    let fit = "fit mixture train.npy -k 4 --batches 5 --laps 2 --tolerance none --batches-per-round 5 --row-weights weights.npy";
    place.lsparse(&format!("{fit} --out here.st -q")).assert().success();
    assert_eq!(batches(&place, &format!("{fit} --shared run --out there.st -q")).len(), 5);
    let train = place.read("train.npy");
    let mut stale = train.clone();
    // The last bit of the last number: rows are of 64 bits, and there is nothing behind them.
    let place_of_change = stale.len() - 8;
    stale[place_of_change] ^= 1;
    place.write("train.npy", &stale);
    let refused: Vec<usize> = (0..5)
        .filter(|batch| {
            let output = place.lsparse(&format!("work run --batch {batch} -q")).output().unwrap();
            let message = String::from_utf8(output.stderr).unwrap();
            let expected =
                "train.npy: among rows 2945 to 3000 are others than the training was begun with; copy the data again";
            assert!(message.contains(expected) != output.status.success(), "{message}");
            !output.status.success()
        })
        .collect();
    assert!(!refused.is_empty() && refused.len() < 5, "{refused:?}");
    place.write("train.npy", &train);
    place.npy("weights.npy", 1, &vec![3.0; 3000]);
    let other = format!("work run --batch {}", refused[0]);
    place.lsparse(&other).assert().failure().stderr(contains("other weights of rows than the training was begun with"));
    place.npy("weights.npy", 1, &vec![2.0; 3000]);
    // What was worked out in the meantime is good, and the rest is worked out now.
    while place.lsparse("work run -q").output().unwrap().status.success() && !batches(&place, "fold run -q").is_empty()
    {
    }
    assert!(place.read("here.st") == place.read("there.st"));
}

#[test]
fn a_training_that_cannot_begin_leaves_no_folder() {
    let (place, _) = with_planted(LikelihoodKind::Gauss, 60, 10, 3, 4);
    let fit = "fit mixture train.npy --out x.st -q --shared run";
    refused(&place, &format!("{fit} -k 100"), &["100 clusters cannot be started from 60 rows"]);
    refused(&place, &format!("{fit} -k 4 --method dp-means"), &["looks at every row in its turn"]);
    refused(
        &place,
        "fit mixture - -k 4 --out x.st --shared run -q",
        &["standard input is there for one process alone"],
    );
    place.lsparse("fit mixture train.npy -k 4 --shared run").assert().code(2).stderr(contains("--out"));
    place.lsparse(&format!("{fit} -k 4 --checkpoint a.ckpt")).assert().code(2).stderr(contains("--checkpoint"));
    assert_eq!(batches(&place, &format!("{fit} -k 4 --batches 2")).len(), 2);
    refused(&place, &format!("{fit} -k 4"), &["run holds a training already; go on with it by lsparse fold"]);
    fs::create_dir_all(place.path("full/of")).unwrap();
    let fit = fit.replace("--shared run", "--shared full");
    refused(&place, &format!("{fit} -k 4"), &["full is not empty"]);
}
