//! What the page shows against brute force, and that it is the same at any number of threads.

use std::sync::OnceLock;

use lsparse::backend::with_threads;
use lsparse::corpus::{StopWords, TokenizerConfig};
use lsparse::data::{CsrRows, RowSource, Rows};
use lsparse::settings::TopicsConfig;
use lsparse::synthetic::{ThemedCorpus, themed_corpus};
use lsparse::topics::{TopicInputs, TopicModel, WordTable, fit_topics_with};
use lsparse::{Beside, Error, Estimate};
use lsparse_page::explore::{
    Distances, PageOptions, Ranking, Reading, RelevanceGrid, Shelf, SparseTopics, choose_documents, layout, off_by,
    principal, topics_of_words, topics_page, tree,
};

const DOCUMENTS: usize = 300;

struct Trained {
    truth: ThemedCorpus,
    rows: CsrRows<f32>,
    model: TopicModel,
}

fn train(estimate: Estimate) -> Trained {
    let truth = themed_corpus(DOCUMENTS, 3);
    let rows = truth.rows("themes", 0..DOCUMENTS).unwrap();
    let config = TopicsConfig { topics: 30, laps: Some(4), estimate, ..Default::default() };
    // Words of the themes are words of a text, whatever a list of stop words has.
    let tokenizer = TokenizerConfig { stop_words: StopWords::None, ..TokenizerConfig::default() };
    let tokenizer = Some(serde_json::to_value(tokenizer).unwrap());
    let inputs = TopicInputs { vocab: Some(&truth.vocab), tokenizer, ..Default::default() };
    let model = fit_topics_with(&rows, &config, inputs, Beside::default()).unwrap().model;
    Trained { truth, rows, model }
}

fn trained() -> &'static Trained {
    static TRAINED: OnceLock<Trained> = OnceLock::new();
    TRAINED.get_or_init(|| train(Estimate::Map))
}

fn hellinger(p: &[f64], q: &[f64]) -> f64 {
    (p.iter().zip(q).map(|(p, q)| (p.sqrt() - q.sqrt()).powi(2)).sum::<f64>() / 2.0).sqrt()
}

#[test]
fn topics_are_their_background_and_what_is_above_it() {
    let model = &trained().model;
    let sparse = SparseTopics::new(&model.table);
    for k in 0..model.num_topics() {
        let mut whole = vec![f64::from(sparse.background[k]); model.vocab_size()];
        let (words, values) = sparse.topic(k);
        assert!(words.is_sorted_by(|a, b| a < b));
        words.iter().zip(values).for_each(|(&v, &p)| whole[v as usize] = f64::from(p));
        assert_eq!(whole, model.topic(k));
    }
    assert!(sparse.words.len() < model.num_topics() * model.vocab_size() * 3 / 4, "{}", sparse.words.len());
}

/// Topics of all kinds: words that most have, words that few have, topics without any of their own, and twins.
fn made_up(num: usize, vocab: usize) -> WordTable {
    let mut seed = 1u64;
    let mut draw = || {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) as f64 / (1u64 << 31) as f64
    };
    let mut topics: Vec<Vec<f64>> = Vec::new();
    for k in 0..num {
        let rare = 0.05 + 0.3 * draw();
        let mut own: Vec<f64> = (0..vocab)
            .map(|v| 0.01 + if draw() < if v % 5 == 0 { 0.7 } else { rare * 0.2 } { 3.0 * draw() } else { 0.0 })
            .collect();
        if k % 7 == 3 {
            own.fill(0.01);
        }
        if k % 11 == 5 {
            own.clone_from(&topics[k - 1]);
        }
        topics.push(own);
    }
    topics.iter_mut().for_each(|own| {
        let sum: f64 = own.iter().sum();
        own.iter_mut().for_each(|p| *p /= sum);
    });
    WordTable::new(vocab, num, 1, |v, out| out.iter_mut().zip(&topics).for_each(|(p, own)| *p = own[v] as f32))
}

#[test]
fn distances_and_neighbours_are_those_of_brute_force() {
    let (map, posterior) = (&trained().model, &train(Estimate::Posterior).model);
    for table in [&map.table, &posterior.table, &made_up(230, 700)] {
        let num = table.num_topics;
        let of_topic = |k: usize| (0..table.vocab_size()).map(|v| f64::from(table.row(v)[k])).collect::<Vec<_>>();
        let topics: Vec<Vec<f64>> = (0..num).map(of_topic).collect();
        let sparse = SparseTopics::new(table);
        let mut distances = Distances::new(&sparse);
        let near = distances.nearest_topics(&sparse, 7);
        for (k, topic) in topics.iter().enumerate() {
            let expected: Vec<f64> = topics.iter().map(|other| hellinger(topic, other)).collect();
            let most = f64::from(off_by(sparse.topic(k).0.len())) + 1e-6;
            for (&found, expected) in distances.row(k).iter().zip(&expected) {
                let off = (f64::from(found).powi(2) - expected.powi(2)).abs();
                assert!(off <= most, "{found} {expected}: {off} of {most}");
            }
            let mut order: Vec<usize> = (0..num).filter(|&j| j != k).collect();
            order.sort_by(|&a, &b| expected[a].total_cmp(&expected[b]));
            let found: Vec<usize> = near.topic[k * 7..][..7].iter().map(|&j| j as usize).collect();
            for (at, (a, b)) in found.iter().zip(&order).enumerate() {
                assert!((expected[*a] - expected[*b]).abs() < 1e-6, "topic {k}: {found:?} {order:?}");
                assert!((f64::from(near.distance[k * 7 + at]) - expected[*a]).abs() < 1e-6);
            }
        }
        distances.refine(&near);
        for (at, (&j, &distance)) in near.topic.iter().zip(&near.distance).enumerate() {
            assert!(distances.row(at / 7)[j as usize] == distance && distances.row(j as usize)[at / 7] == distance);
        }
        // More neighbours than there are.
        assert_eq!(distances.nearest_topics(&sparse, num + 9).count, num - 1);
        let again = |threads: usize| with_threads(threads, || Distances::new(&sparse).into_square()).unwrap();
        assert!(again(1) == again(3));
    }
}

#[test]
fn the_same_topics_have_no_distance() {
    let table = WordTable::new(50, 3, 1, |v, out| {
        let p = (v as f32 + 1.0) / 1275.0;
        out.copy_from_slice(&[p, p, if v == 0 { 1.0 } else { 0.0 }]);
    });
    let sparse = SparseTopics::new(&table);
    let near = Distances::new(&sparse).nearest_topics(&sparse, 2);
    assert!(near.topic[0] == 1 && near.distance[0] < 1e-6, "{}", near.distance[0]);
    assert!((f64::from(near.distance[1]) - (1.0 - (1.0f64 / 1275.0).sqrt()).sqrt()).abs() < 1e-6);
}

/// Join the two groups with the least average distance, again and again, from the definition.
fn plain_tree(num: usize, square: &[f32]) -> Vec<(Vec<usize>, f64)> {
    let mut groups: Vec<Vec<usize>> = (0..num).map(|k| vec![k]).collect();
    let mut merges = Vec::new();
    while groups.len() > 1 {
        let average = |a: &[usize], b: &[usize]| {
            let sum: f64 = a.iter().flat_map(|&i| b.iter().map(move |&j| f64::from(square[i * num + j]))).sum();
            sum / (a.len() * b.len()) as f64
        };
        let pairs = (0..groups.len()).flat_map(|i| (i + 1..groups.len()).map(move |j| (i, j)));
        let (i, j, height) =
            pairs.map(|(i, j)| (i, j, average(&groups[i], &groups[j]))).min_by(|a, b| a.2.total_cmp(&b.2)).unwrap();
        let other = groups.remove(j);
        groups[i].extend(other);
        groups[i].sort_unstable();
        merges.push((groups[i].clone(), height));
    }
    merges
}

#[test]
fn the_tree_is_that_of_average_linkage() {
    // Those with many topics are made smaller on the way, more than once.
    for table in [&trained().model.table, &made_up(90, 400)] {
        check_tree(Distances::new(&SparseTopics::new(table)));
    }
    // Equal distances are no trouble, nor are one topic and two, nor distances that nobody knows.
    assert_eq!(tree(5, vec![1.0; 25]).len(), 4);
    assert_eq!(tree(1, vec![0.0]).len(), 0);
    assert_eq!(tree(2, vec![0.0, 0.3, 0.3, 0.0])[0].height, 0.3);
    assert_eq!(tree(4, Distances::of_square(4, vec![f32::NAN; 16]).into_square()).len(), 3);
}

fn check_tree(distances: Distances) {
    let num = distances.num_topics();
    let mut square = distances.into_square();
    // Twins would make the order of merges a matter of taste.
    for (i, j) in (0..num).flat_map(|i| (0..i).map(move |j| (i, j))) {
        let apart = square[i * num + j] + 1e-3 * ((i * 31 + j * 17) % 97) as f32;
        (square[i * num + j], square[j * num + i]) = (apart, apart);
    }
    let expected = plain_tree(num, &square);
    let merges = tree(num, square);
    let mut groups: Vec<Vec<usize>> = (0..num).map(|k| vec![k]).collect();
    assert_eq!(merges.len(), num - 1);
    for (merge, (topics, height)) in merges.iter().zip(&expected) {
        assert!(merge.left < merge.right && (merge.right as usize) < groups.len());
        let mut joined = [groups[merge.left as usize].clone(), groups[merge.right as usize].clone()].concat();
        joined.sort_unstable();
        assert_eq!(&joined, topics);
        assert!((f64::from(merge.height) - height).abs() < 1e-5);
        groups.push(joined);
    }
}

#[test]
fn words_are_those_of_the_model_under_every_weight() {
    let model = &trained().model;
    let overall = model.word_shares();
    let ranking = Ranking::new(&SparseTopics::new(&model.table), &overall, 12);
    for k in 0..model.num_topics() {
        let mine = ranking.starts[k] as usize..ranking.starts[k + 1] as usize;
        let words: Vec<(u32, f32)> =
            ranking.words[mine.clone()].iter().copied().zip(ranking.values[mine].iter().copied()).collect();
        for &(v, p) in &words {
            assert_eq!(p, model.table.row(v as usize)[k]);
        }
        let top: Vec<u32> = model.top_words(k, 12).iter().map(|word| word.0).collect();
        assert_eq!(words[..12].iter().map(|word| word.0).collect::<Vec<_>>(), top);
        assert_eq!(ranking.top[k], top[..10]);
        for at in 0..RelevanceGrid::STEPS {
            // As the page does it: all that is there, by relevance.
            let weight = RelevanceGrid::weight(at);
            let relevance = |&(v, p): &(u32, f32)| {
                let p = f64::from(p);
                weight * p.ln() + (1.0 - weight) * (p / overall[v as usize]).ln()
            };
            let mut order: Vec<(f64, u32)> = words.iter().map(|word| (relevance(word), word.0)).collect();
            order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            for (found, expected) in order.iter().zip(model.relevant_words(k, 12, weight)) {
                assert!((found.0 - expected.1).abs() < 1e-9, "topic {k}, weight {weight}: {found:?} {expected:?}");
            }
        }
        let sum = |v: u32| -> f64 { model.table.row(v as usize).iter().map(|&p| f64::from(p)).sum() };
        let own: f64 =
            top[..10].iter().map(|&v| f64::from(model.table.row(v as usize)[k]) / sum(v)).sum::<f64>() / 10.0;
        assert!((ranking.exclusivity[k] - own).abs() < 1e-9);
    }
}

#[test]
fn topics_of_words_are_those_with_most_tokens() {
    let model = &trained().model;
    let found = topics_of_words(model, 5);
    let stats = model.total.total();
    for v in 0..model.vocab_size() {
        let dense = stats.dense_word(v, model.num_topics());
        let mut order: Vec<usize> = (0..dense.len()).filter(|&k| dense[k] > 0.0).collect();
        order.sort_by(|&a, &b| dense[b].total_cmp(&dense[a]).then(a.cmp(&b)));
        let expected: Vec<(u32, f64)> = order.iter().take(5).map(|&k| (k as u32, dense[k])).collect();
        assert_eq!(found[v], expected);
    }
}

#[test]
fn near_topics_are_near_on_the_map_and_circles_are_apart() {
    // Twelve families of ten topics that share most of their words.
    let (families, each, vocab) = (12, 10, 600);
    let table = WordTable::new(vocab, families * each, 1, |v, out| {
        for (k, p) in out.iter_mut().enumerate() {
            let family = v / 50 == k / each;
            let own = v % 50 / 5 == k % each;
            *p = (0.0001 + if family { 0.01 } else { 0.0 } + if family && own { 0.09 } else { 0.0 }) / 1.01;
        }
    });
    let sparse = SparseTopics::new(&table);
    let near = Distances::new(&sparse).nearest_topics(&sparse, each - 1);
    let shares = vec![1.0 / 120.0; 120];
    // By and large, since a map is a matter of luck: 105 to 119 of 120 by the seed.
    let mut in_all = 0;
    for seed in 1..=8 {
        let map = layout(principal(&sparse, seed), &near, &shares, seed);
        let apart = |a: usize, b: usize| (map.x[a] - map.x[b]).hypot(map.y[a] - map.y[b]);
        let nearer = |k: usize| move |a: &usize, b: &usize| apart(k, *a).total_cmp(&apart(k, *b));
        let nearest = |k: usize| (0..120).filter(|&j| j != k).min_by(nearer(k)).unwrap();
        let kept = (0..120).filter(|&k| nearest(k) / each == k / each).count();
        assert!(kept >= 102, "{kept} of 120 have one of their own family next to them");
        in_all += kept;
        assert!(map.x.iter().chain(&map.y).all(|x| x.abs() <= 1.0));
        let overlaps = (0..120).flat_map(|a| (0..a).map(move |b| (a, b)));
        let overlaps = overlaps.filter(|&(a, b)| apart(a, b) < 0.8 * (map.radius[a] + map.radius[b])).count();
        assert!(overlaps < 30, "{overlaps} pairs overlap by much");
    }
    assert!(in_all >= 8 * 112, "{in_all} of 960 have one of their own family next to them");
    let map = layout(principal(&sparse, 1), &near, &shares, 1);
    let again = layout(principal(&sparse, 1), &near, &shares, 1);
    assert_eq!((&map.x, &map.y), (&again.x, &again.y));
    assert_ne!(map.x, layout(principal(&sparse, 2), &near, &shares, 2).x);
}

fn name(n: usize) -> lsparse::Result<String> {
    Ok(format!("doc {n}"))
}

#[test]
fn documents_are_the_best_of_their_topics() {
    let Trained { rows, model, .. } = trained();
    let reading = Reading { rows, name: &name, texts: None, metadata: None };
    let shelf = Shelf::new(model, &reading, 60).unwrap();
    assert_eq!((shelf.all, shelf.looked_at, shelf.shown.len()), (DOCUMENTS, DOCUMENTS, 60));
    let mut all: Vec<Vec<(u32, f32)>> = Vec::new();
    model
        .assign(rows, &mut |_, shares| {
            all.push(shares.to_vec());
            Ok(())
        })
        .unwrap();
    // The best document of every topic is there.
    for k in 0..model.num_topics() as u32 {
        let share = |n: usize| all[n].iter().find(|entry| entry.0 == k).map_or(0.0, |entry| entry.1);
        let best = (0..DOCUMENTS).map(share).fold(0.0, f32::max);
        let shown = shelf.shown.iter().map(|document| share(document.number)).fold(0.0, f32::max);
        assert_eq!(shown, best, "topic {k}");
    }
    let mut counts = Rows::<f32>::sparse(rows.dim());
    rows.read_f32(0, DOCUMENTS, &mut counts).unwrap();
    for document in &shelf.shown {
        let mut expected = all[document.number].clone();
        expected.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        assert_eq!(document.shares, expected);
        assert_eq!(document.name, format!("doc {}", document.number));
        let (words, of_words) = counts.sparse_row(document.number);
        assert_eq!(document.tokens.len(), words.len());
        assert_eq!(document.length, of_words.iter().sum::<f32>());
        for token in &document.tokens {
            let at = words.binary_search(&token.at).unwrap();
            assert_eq!(token.length, of_words[at] as u32);
            assert!(document.shares.iter().any(|share| share.0 == token.topic));
        }
    }
    assert!(shelf.shown.is_sorted_by(|a, b| a.number < b.number));
}

#[test]
fn documents_are_chosen_by_turns_and_then_evenly() {
    let shares = vec![
        vec![(0, 0.9), (1, 0.1)],
        vec![(0, 1.0)],
        vec![(1, 0.6), (0, 0.4)],
        vec![],
        vec![(1, 0.6)],
        vec![(0, 0.9)],
    ];
    let lengths = [5.0, 5.0, 5.0, 0.0, 9.0, 8.0];
    assert_eq!(choose_documents(2, &shares, &lengths, 2), [1, 4]);
    assert_eq!(choose_documents(2, &shares, &lengths, 4), [1, 2, 4, 5]);
    assert_eq!(choose_documents(2, &shares, &lengths, 99), [0, 1, 2, 4, 5], "a document without words shows nothing");
    assert_eq!(choose_documents(2, &shares, &lengths, 0), [] as [usize; 0]);
}

#[test]
fn words_stand_where_the_text_has_them() {
    let Trained { truth, rows, model } = trained();
    let text = |n: usize| {
        let words: Vec<&str> = truth.documents[n].iter().map(|&v| truth.vocab[v as usize].as_str()).collect();
        // Signs of two UTF-16 units, marks, and words that the model does not know.
        format!("\u{1f600} \u{fb01}n <b>{}</b> the zzyzx\u{301} ", words.join(", \u{1f600} "))
    };
    let texts = |wanted: &[usize]| Ok(wanted.iter().map(|&n| text(n)).collect());
    let shelf = Shelf::new(model, &Reading { rows, name: &name, texts: Some(&texts), metadata: None }, 20).unwrap();
    for document in &shelf.shown {
        let shown: Vec<u16> = document.text.as_deref().unwrap().encode_utf16().collect();
        assert!(!document.cut && String::from_utf16(&shown).unwrap().starts_with("\u{1f600} fin <b>"));
        let words = &truth.documents[document.number];
        assert_eq!(document.tokens.len(), words.len());
        for (token, &word) in document.tokens.iter().zip(words) {
            let piece = &shown[token.at as usize..(token.at + token.length) as usize];
            assert_eq!(String::from_utf16(piece).unwrap(), truth.vocab[word as usize]);
        }
    }
    // Long texts are cut, and no word stands past the end.
    let long = |wanted: &[usize]| Ok(wanted.iter().map(|&n| text(n).repeat(100)).collect());
    let shelf = Shelf::new(model, &Reading { rows, name: &name, texts: Some(&long), metadata: None }, 3).unwrap();
    for document in &shelf.shown {
        let length = document.text.as_deref().unwrap().encode_utf16().count() as u32;
        assert!(document.cut && document.tokens.iter().all(|token| token.at + token.length <= length));
    }
}

#[test]
fn pages_are_the_same_at_any_number_of_threads() {
    let Trained { rows, model, .. } = trained();
    let options = PageOptions { title: "t".into(), names: vec![Some("a".into())], documents: 20, seed: 0 };
    let make =
        || topics_page(model, Some(&Reading { rows, name: &name, texts: None, metadata: None }), &options).unwrap();
    let (one, report) = with_threads(1, make).unwrap();
    let (four, _) = with_threads(4, make).unwrap();
    assert!(one == four);
    assert_eq!((report.topics, report.documents, report.documents_shown, report.bytes), (30, DOCUMENTS, 20, one.len()));
}

#[test]
fn one_topic_one_word_and_failing_texts() {
    let rows = CsrRows::new("one", 1, vec![0, 1, 2], vec![0, 0], vec![2.0f32, 1.0]).unwrap();
    let config = TopicsConfig { topics: 1, laps: Some(1), ..Default::default() };
    let model = fit_topics_with(&rows, &config, TopicInputs::default(), Beside::default()).unwrap().model;
    let options = PageOptions { title: String::new(), names: Vec::new(), documents: 5, seed: 0 };
    let reading = Reading { rows: &rows, name: &name, texts: None, metadata: None };
    assert_eq!(topics_page(&model, Some(&reading), &options).unwrap().1.documents_shown, 2);
    let failing = |_: &[usize]| Err(Error::NotFound { path: "gone".into() });
    let reading = Reading { texts: Some(&failing), ..reading };
    assert!(topics_page(&model, Some(&reading), &options).is_err());
}

#[test]
fn of_a_million_documents_a_sample_is_looked_at() {
    let all = 1_000_000;
    let (starts, words) = ((0..=all).collect(), (0..all as u32).map(|n| n % 4).collect());
    let many = CsrRows::new("many", 4, starts, words, vec![1.0f32; all]).unwrap();
    let few = CsrRows::new("few", 4, vec![0, 2, 4], vec![0, 1, 2, 3], vec![3.0f32; 4]).unwrap();
    let config = TopicsConfig { topics: 2, laps: Some(1), ..Default::default() };
    let model = fit_topics_with(&few, &config, TopicInputs::default(), Beside::default()).unwrap().model;
    let options = PageOptions { title: String::new(), names: Vec::new(), documents: 50, seed: 0 };
    let reading = Reading { rows: &many, name: &name, texts: None, metadata: None };
    let report = topics_page(&model, Some(&reading), &options).unwrap().1;
    assert_eq!((report.documents, report.documents_looked_at, report.documents_shown), (all, 20_000, 50));
}
