//! From a topic model to its page.

use lsparse::Result;
use lsparse::topics::TopicModel;
use lsparse::topics::coherence::coherence;
use serde::Serialize;
use serde_json::{Value, json};

use crate::explore::distances::{Distances, Neighbours};
use crate::explore::documents::{Reading, Shelf};
use crate::explore::facets::put_facets;
use crate::explore::layout::{layout, principal};
use crate::explore::pack::Pack;
use crate::explore::page::html;
use crate::explore::ranking::{Ranking, RelevanceGrid, topics_of_words};
use crate::explore::sparse::SparseTopics;
use crate::explore::tree::tree;

/// Neighbours that a topic is shown with, and those that the map is laid out by.
const SHOWN_NEIGHBOURS: usize = 10;
pub const MAP_NEIGHBOURS: usize = 15;

/// How much of everything the page has, so that it stays small whatever K and V are: words of topics and topics of words.
const WORDS_IN_ALL: usize = 150_000;
const TOPICS_OF_WORDS_IN_ALL: usize = 150_000;

/// What is asked of a page.
#[derive(Clone, Debug)]
pub struct PageOptions {
    /// What it is called.
    pub title: String,
    /// Names of topics or clusters, where they have any.
    pub names: Vec<Option<String>>,
    /// Documents or rows to show at most.
    pub documents: usize,
    /// Seed of the map.
    pub seed: u64,
}

/// What is in a page.
#[derive(Clone, Debug, Serialize)]
pub struct PageReport {
    /// Topics.
    pub topics: usize,
    /// Words.
    pub vocabulary: usize,
    /// Documents that there are.
    pub documents: usize,
    /// Those that were looked at to choose the shown ones.
    pub documents_looked_at: usize,
    /// Those that are shown.
    pub documents_shown: usize,
    /// Bytes of the page.
    pub bytes: usize,
}

/// The page of a topic model, with documents where they are given.
pub fn topics_page(
    model: &TopicModel,
    reading: Option<&Reading<'_>>,
    options: &PageOptions,
) -> Result<(String, PageReport)> {
    let (num, vocab) = (model.num_topics(), model.vocab_size());
    let (shares, overall) = (model.shares(), model.word_shares());
    let mut pack = Pack::default();
    pack.set("kind", "topics");
    pack.set("title", options.title.as_str());
    pack.set("topics", num);
    pack.set("sparsity", model.sparsity());
    pack.set("trained_on", model.training.observations);
    pack.set("tiny", TopicModel::TINY);
    pack.set("vocab", model.vocab.as_slice());
    pack.set("names", (0..num).map(|k| options.names.get(k).cloned().flatten().into()).collect::<Vec<Value>>());
    pack.set("steps", RelevanceGrid::STEPS);

    let sparse = SparseTopics::new(&model.table);
    let mut distances = Distances::new(&sparse);
    let near = distances.nearest_topics(&sparse, MAP_NEIGHBOURS);
    distances.refine(&near);
    put_map(&mut pack, distances, &near, principal(&sparse, options.seed), &shares, options.seed);
    let alike = model.alike(TopicModel::NEARLY_THE_SAME);
    pack.whole("alike", &alike.iter().flat_map(|&(a, b, _)| [a as u32, b as u32]).collect::<Vec<_>>());
    pack.f64("alike_cosine", &alike.iter().map(|pair| pair.2).collect::<Vec<_>>());

    let ranking = Ranking::new(&sparse, &overall, (WORDS_IN_ALL / num).clamp(12, 50));
    drop(sparse);
    pack.set("words_sure", ranking.count);
    pack.whole("word_start", &ranking.starts);
    pack.whole("word", &ranking.words);
    pack.f32("probability", &ranking.values);
    pack.f64("overall", &overall);
    pack.f64("share", &shares);
    pack.f64("tokens", &model.total.counts);
    pack.f32("alpha", &model.alpha);
    pack.f64("exclusivity", &ranking.exclusivity);

    let of_words = topics_of_words(model, (TOPICS_OF_WORDS_IN_ALL / vocab).clamp(6, 50));
    let starts = std::iter::once(0).chain(of_words.iter().scan(0, |end, list| {
        *end += list.len() as u32;
        Some(*end)
    }));
    pack.whole("in_start", &starts.collect::<Vec<u32>>());
    pack.whole("in_topic", &of_words.iter().flatten().map(|entry| entry.0).collect::<Vec<_>>());
    pack.f32("in_tokens", &of_words.iter().flatten().map(|entry| entry.1 as f32).collect::<Vec<_>>());
    let stats = model.total.total();
    let lists = (0..vocab).map(|v| stats.word(v).1);
    pack.f64("word_tokens", &lists.clone().map(|mass| mass.iter().sum()).collect::<Vec<f64>>());
    pack.whole("word_topics", &lists.map(|mass| mass.iter().filter(|&&m| m > 0.0).count() as u32).collect::<Vec<_>>());

    let mut report = PageReport {
        topics: num,
        vocabulary: vocab,
        documents: 0,
        documents_looked_at: 0,
        documents_shown: 0,
        bytes: 0,
    };
    if let Some(reading) = reading {
        let found = coherence(&ranking.top, reading.rows)?;
        // A topic whose words the documents do not have has no coherence, which is another thing than zero.
        let known = |topic: &lsparse::topics::coherence::Coherence| if topic.pairs > 0 { topic.npmi } else { f64::NAN };
        pack.f64("npmi", &found.iter().map(known).collect::<Vec<_>>());
        let shelf = Shelf::new(model, reading, options.documents)?;
        put_documents(&mut pack, &shelf);
        put_facets(&mut pack, &shelf.facets);
        report.documents = shelf.all;
        report.documents_looked_at = shelf.looked_at;
        report.documents_shown = shelf.shown.len();
    }
    let page = finish(pack, &options.title)?;
    report.bytes = page.len();
    Ok((page, report))
}

/// What comes of distances: map, neighbours and tree.
pub fn put_map(
    pack: &mut Pack,
    distances: Distances,
    near: &Neighbours,
    start: Vec<[f32; 2]>,
    shares: &[f64],
    seed: u64,
) {
    let num = shares.len();
    let map = layout(start, near, shares, seed);
    pack.f32("x", &map.x);
    pack.f32("y", &map.y);
    pack.f32("radius", &map.radius);
    let shown = SHOWN_NEIGHBOURS.min(near.count);
    let first = |k: usize| k * near.count..k * near.count + shown;
    pack.set("neighbours", shown);
    pack.whole("near_topic", &(0..num).flat_map(|k| near.topic[first(k)].iter().copied()).collect::<Vec<_>>());
    pack.f32("near_distance", &(0..num).flat_map(|k| near.distance[first(k)].iter().copied()).collect::<Vec<_>>());
    let merges = tree(num, distances.into_square());
    pack.whole("tree_left", &merges.iter().map(|merge| merge.left).collect::<Vec<_>>());
    pack.whole("tree_right", &merges.iter().map(|merge| merge.right).collect::<Vec<_>>());
    pack.f32("tree_height", &merges.iter().map(|merge| merge.height).collect::<Vec<_>>());
}

/// Pack all, and put it into the page.
pub fn finish(pack: Pack, title: &str) -> Result<String> {
    let data = pack.finish().map_err(|source| lsparse::Error::Unwritable { path: "the page".into(), source })?;
    Ok(html(title, &data))
}

/// Documents: names and texts as JSON, topics and words as arrays.
fn put_documents(pack: &mut Pack, shelf: &Shelf) {
    let shown = &shelf.shown;
    pack.set("documents", json!({ "all": shelf.all, "looked_at": shelf.looked_at }));
    pack.set("doc_names", shown.iter().map(|document| document.name.as_str()).collect::<Vec<_>>());
    let with_texts = !shown.is_empty() && shown.iter().all(|document| document.text.is_some());
    if with_texts {
        pack.set(
            "doc_texts",
            shown.iter().map(|document| document.text.as_deref().unwrap_or_default()).collect::<Vec<_>>(),
        );
    }
    pack.whole("doc_cut", &shown.iter().map(|document| u32::from(document.cut)).collect::<Vec<_>>());
    pack.whole("doc_number", &shown.iter().map(|document| document.number as u32).collect::<Vec<_>>());
    pack.f32("doc_length", &shown.iter().map(|document| document.length).collect::<Vec<_>>());
    let (mut share_start, mut token_start) = (vec![0], vec![0]);
    let (mut topic, mut share, mut tokens) = (Vec::new(), Vec::new(), [Vec::new(), Vec::new(), Vec::new()]);
    for document in shown {
        topic.extend(document.shares.iter().map(|entry| entry.0));
        share.extend(document.shares.iter().map(|entry| entry.1));
        share_start.push(topic.len() as u32);
        // Places in a text are told by the gap before them, which is small and packs well.
        let mut end = 0;
        for token in &document.tokens {
            tokens[0].push(if with_texts { token.at - end } else { token.at });
            tokens[1].push(token.length);
            tokens[2].push(token.topic);
            end = token.at + token.length;
        }
        token_start.push(tokens[0].len() as u32);
    }
    pack.whole("doc_share_start", &share_start);
    pack.whole("doc_topic", &topic);
    pack.f32("doc_share", &share);
    pack.whole("token_start", &token_start);
    pack.whole("token_at", &tokens[0]);
    pack.whole("token_length", &tokens[1]);
    pack.whole("token_topic", &tokens[2]);
}
