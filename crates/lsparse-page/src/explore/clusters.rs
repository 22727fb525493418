//! From a mixture, or a hidden Markov model, to its page.

use lsparse::corpus::Metadata;
use lsparse::data::RowSource;
use lsparse::{Error, Result};
use rayon::prelude::*;
use serde::Serialize;
use serde_json::{Value, json};

use crate::explore::facets::{Weighed, facets, put_facets};
use crate::explore::layout::scaled;
use crate::explore::pack::Pack;
use crate::explore::rows::{Judge, Sampled};
use crate::explore::shapes::{ClusterSet, Profile, ProfileKind};
use crate::explore::topics::{MAP_NEIGHBOURS, PageOptions, finish, put_map};

/// How much of everything the page has, so that it stays small whatever K and D are: columns of clusters, pixels of
/// pictures, correlations, values of rows, transitions.
const COLUMNS_IN_ALL: usize = 200_000;
const PIXELS_IN_ALL: usize = 3_000_000;
const CORRELATIONS_IN_ALL: usize = 1_000_000;
const VALUES_IN_ALL: usize = 1_000_000;
const TRANSITIONS_IN_ALL: usize = 100_000;

/// Columns of a table of correlations at most.
const CORRELATED: usize = 64;

/// Directions of a covariance that are shown as pictures.
const DIRECTIONS: usize = 6;

/// How the columns of a row make a picture, row by row from the top, the colours of a pixel side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Picture {
    /// Pixels down.
    pub height: usize,
    /// Pixels across.
    pub width: usize,
    /// One for shades of grey, three for colours.
    pub channels: usize,
}

impl Picture {
    /// Read "8x8" or "32x32x3".
    pub fn parse(text: &str) -> std::result::Result<Self, String> {
        let sides: Option<Vec<usize>> = text.split('x').map(|side| side.parse().ok().filter(|&n| n > 0)).collect();
        match sides.as_deref() {
            Some(&[height, width]) => Ok(Picture { height, width, channels: 1 }),
            Some(&[height, width, channels]) if channels == 1 || channels == 3 => {
                Ok(Picture { height, width, channels })
            }
            _ => Err("give height x width, or height x width x 3 for colours, such as 8x8".into()),
        }
    }

    fn check(self, dim: usize) -> Result<Self> {
        let pixels = self.height.checked_mul(self.width).and_then(|pixels| pixels.checked_mul(self.channels));
        if pixels == Some(dim) {
            return Ok(self);
        }
        Err(Error::Config {
            setting: "picture",
            problem: format!("{}x{}x{} are not the {dim} columns of the model", self.height, self.width, self.channels),
            remedy: "give the height and width that rows have as pictures".into(),
        })
    }
}

/// What is in a page of clusters or states.
#[derive(Clone, Debug, Serialize)]
pub struct RowsReport {
    /// Clusters or states.
    pub clusters: usize,
    /// Columns.
    pub columns: usize,
    /// Rows that there are.
    pub rows: usize,
    /// Those that were looked at.
    pub rows_looked_at: usize,
    /// Those that are shown.
    pub rows_shown: usize,
    /// Bytes of the page.
    pub bytes: usize,
}

/// The page of a mixture or of a hidden Markov model, with rows where they are given. `columns` are the names of columns,
/// where they have any.
pub fn clusters_page(
    judge: &Judge<'_>,
    rows: Option<&dyn RowSource>,
    metadata: Option<&Metadata>,
    columns: &[String],
    picture: Option<Picture>,
    options: &PageOptions,
) -> Result<(String, RowsReport)> {
    let (set, sparsity, trained_on) = match judge {
        Judge::Mixture(model) => (ClusterSet::of_mixture(model), model.sparsity(), model.training.observations),
        Judge::Sequence(model, _) => (ClusterSet::of_sequence(model), model.sparsity(), model.training.observations),
    };
    let (num, dim) = (set.num_clusters(), set.dim);
    let picture = picture.map(|picture| picture.check(dim)).transpose()?;
    let mut pack = Pack::default();
    pack.set("kind", if matches!(judge, Judge::Mixture(_)) { "mixture" } else { "sequence" });
    pack.set("title", options.title.as_str());
    pack.set("topics", num);
    pack.set("family", set.likelihood.name());
    pack.set("sparsity", sparsity);
    pack.set("trained_on", trained_on);
    let number = |d: usize| (d + 1).to_string();
    let name = |d: usize| columns.get(d).cloned().unwrap_or_else(|| number(d));
    pack.set("vocab", (0..dim).map(name).collect::<Vec<_>>());
    pack.set("named_columns", columns.len() == dim);
    pack.set("names", (0..num).map(|k| options.names.get(k).cloned().flatten().into()).collect::<Vec<Value>>());
    let distances = set.distances()?;
    let start = scaled(&distances, options.seed);
    let near = distances.neighbours(MAP_NEIGHBOURS);
    put_map(&mut pack, distances, &near, start, &set.weights, options.seed);
    pack.whole("alike", &[]);
    pack.f64("alike_cosine", &[]);
    pack.f64("share", &set.weights);
    pack.f64("tokens", set.counts);
    let profile = set.profile()?;
    put_columns(&mut pack, &profile, num, dim);
    match picture {
        Some(picture) => put_pictures(&mut pack, &set, &profile, picture),
        None => put_correlations(&mut pack, &set),
    }
    if let Judge::Sequence(model, _) = judge {
        put_transitions(&mut pack, &model.start(), &model.transitions());
    }
    let mut report = RowsReport { clusters: num, columns: dim, rows: 0, rows_looked_at: 0, rows_shown: 0, bytes: 0 };
    if let Some(rows) = rows {
        let most = options.documents.min((VALUES_IN_ALL / dim.max(1)).max(20));
        let sampled = Sampled::new(judge, rows, most)?;
        put_rows(&mut pack, &sampled, judge);
        let weighed: Vec<Weighed<'_>> =
            sampled.picked.iter().zip(&sampled.kept).map(|(&n, kept)| (n, 1.0, kept.as_slice())).collect();
        put_facets(&mut pack, &metadata.map(|metadata| facets(metadata, num, &weighed)).unwrap_or_default());
        report.rows = sampled.all;
        report.rows_looked_at = sampled.looked.len();
        report.rows_shown = sampled.shown.len();
    }
    let page = finish(pack, &options.title)?;
    report.bytes = page.len();
    Ok((page, report))
}

/// The columns of every cluster with their values: all, or where there are too many those that differ most from all rows and
/// those with the largest values.
fn put_columns(pack: &mut Pack, profile: &Profile, num: usize, dim: usize) {
    let (value_name, distinct_name) = match profile.kind {
        ProfileKind::Means => ("mean", "standard deviations of all rows, from their mean"),
        ProfileKind::Deviations => ("standard deviation", "log2 of how many times that of all rows"),
        ProfileKind::Probabilities => ("probability", "log2 of how many times that of all rows"),
        ProfileKind::Rates => ("rate", "log2 of how many times that of all rows"),
    };
    pack.set("value_name", value_name);
    pack.set("distinct_name", distinct_name);
    let room = (COLUMNS_IN_ALL / num.max(1)).max(12);
    pack.set("columns_whole", room >= dim);
    let of_cluster = |k: usize| -> Vec<u32> {
        if room >= dim {
            return (0..dim as u32).collect();
        }
        let own = k * dim..(k + 1) * dim;
        let first = |key: &dyn Fn(usize) -> f64| {
            let mut order: Vec<u32> = (0..dim as u32).collect();
            order.sort_by(|&a, &b| key(b as usize).total_cmp(&key(a as usize)).then(a.cmp(&b)));
            order.truncate(room / 2);
            order
        };
        let (distinct, values) = (&profile.distinct[own.clone()], &profile.values[own]);
        let mut chosen = first(&|d| distinct[d].abs());
        chosen.extend(first(&|d| values[d]));
        chosen.sort_unstable();
        chosen.dedup();
        chosen
    };
    let lists: Vec<Vec<u32>> = (0..num).into_par_iter().map(of_cluster).collect();
    let mut starts = vec![0u32];
    lists.iter().for_each(|list| starts.push(starts[starts.len() - 1] + list.len() as u32));
    let places = || lists.iter().enumerate().flat_map(|(k, list)| list.iter().map(move |&d| k * dim + d as usize));
    pack.whole("word_start", &starts);
    pack.whole("word", &lists.concat());
    pack.f32("value", &places().map(|at| profile.values[at] as f32).collect::<Vec<_>>());
    pack.f32("distinct", &places().map(|at| profile.distinct[at] as f32).collect::<Vec<_>>());
    if let Some(deviations) = &profile.deviations {
        pack.f32("deviation", &places().map(|at| deviations[at] as f32).collect::<Vec<_>>());
    }
    pack.f64("overall", &profile.overall);
}

/// Pictures of clusters in 256 shades: means between the least and the largest of all, directions about the middle.
fn put_pictures(pack: &mut Pack, set: &ClusterSet<'_>, profile: &Profile, picture: Picture) {
    let (num, dim) = (set.num_clusters(), set.dim);
    pack.set("picture", json!([picture.height, picture.width, picture.channels]));
    let room = PIXELS_IN_ALL / (num * dim).max(1);
    let mut captions: Vec<String> = Vec::new();
    let mut pixels: Vec<Vec<u8>> = vec![Vec::new(); num];
    let shade = |part: f64| (255.0 * part.clamp(0.0, 1.0)).round() as u8;
    if profile.kind != ProfileKind::Deviations {
        captions.push(if profile.kind == ProfileKind::Means { "mean".into() } else { String::new() });
        let least = profile.values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = profile.values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let width = (most - least).max(f64::MIN_POSITIVE);
        for (pixels, values) in pixels.iter_mut().zip(profile.values.chunks_exact(dim)) {
            pixels.extend(values.iter().map(|value| shade((value - least) / width)));
        }
    }
    let tied = num > 1 && set.covariance(0).map(<[f64]>::as_ptr) == set.covariance(1).map(<[f64]>::as_ptr);
    let count = if tied { 0 } else { DIRECTIONS.min(room.saturating_sub(captions.len())).min(dim) };
    let found: Vec<_> =
        (0..num).into_par_iter().map(|k| (count > 0).then(|| set.directions(k, count)).flatten()).collect();
    if found.iter().all(Option::is_some) && count > 0 {
        captions.extend((1..=count).map(|at| format!("direction {at}")));
        let mut shares = Vec::with_capacity(num * count);
        for (pixels, (vectors, of_variance)) in pixels.iter_mut().zip(found.into_iter().flatten()) {
            shares.extend(of_variance.iter().map(|&share| share as f32));
            for vector in vectors.chunks_exact(dim) {
                let most = vector.iter().fold(f64::MIN_POSITIVE, |most: f64, x| most.max(x.abs()));
                pixels.extend(vector.iter().map(|x| shade(0.5 + 0.5 * x / most)));
            }
        }
        pack.f32("direction_share", &shares);
    }
    pack.set("captions", captions);
    pack.bytes("pictures", &pixels.concat());
}

/// Correlations of columns within clusters as whole numbers, 0 for -1 and 65,534 for 1, the lower triangle row by row.
fn put_correlations(pack: &mut Pack, set: &ClusterSet<'_>) {
    let (num, dim) = (set.num_clusters(), set.dim);
    let pairs = dim * (dim - 1) / 2;
    if set.covariance(0).is_none() || !(2..=CORRELATED).contains(&dim) || num * pairs > CORRELATIONS_IN_ALL {
        return;
    }
    let mut steps = Vec::with_capacity(num * pairs);
    for covariance in (0..num).filter_map(|k| set.covariance(k)) {
        for i in 0..dim {
            for j in 0..i {
                let both = (covariance[i * dim + i] * covariance[j * dim + j]).sqrt().max(f64::MIN_POSITIVE);
                steps.push((32767.0 + 32767.0 * (covariance[i * dim + j] / both).clamp(-1.0, 1.0)).round() as u32);
            }
        }
    }
    pack.whole("correlation", &steps);
}

/// Where sequences begin, and for every state the states that follow it, the most probable first.
fn put_transitions(pack: &mut Pack, start: &[f64], transitions: &[f64]) {
    let num = start.len();
    let room = (TRANSITIONS_IN_ALL / num.max(1)).clamp(8, num.max(8)).min(num);
    let (mut next, mut probability) = (Vec::new(), Vec::new());
    for row in transitions.chunks_exact(num.max(1)) {
        let mut order: Vec<u32> = (0..num as u32).collect();
        order.sort_by(|&a, &b| row[b as usize].total_cmp(&row[a as usize]).then(a.cmp(&b)));
        order.truncate(room);
        probability.extend(order.iter().map(|&k| row[k as usize]));
        next.extend(order);
    }
    pack.set("transitions", room);
    pack.whole("next_state", &next);
    pack.f64("next_probability", &probability);
    pack.f64("start", start);
    pack.f64("stay", &(0..num).map(|k| transitions[k * num + k]).collect::<Vec<_>>());
}

/// Rows: what the sample is like, and those that are shown.
fn put_rows(pack: &mut Pack, sampled: &Sampled, judge: &Judge<'_>) {
    let (looked, shown) = (&sampled.looked, &sampled.shown);
    pack.set("documents", json!({ "all": sampled.all, "looked_at": looked.len() }));
    pack.whole("sample_first", &looked.iter().map(|row| row.first).collect::<Vec<_>>());
    pack.f32("sample_largest", &looked.iter().map(|row| row.largest as f32).collect::<Vec<_>>());
    pack.f32("sample_captured", &looked.iter().map(|row| row.captured as f32).collect::<Vec<_>>());
    pack.f64("sample_score", &looked.iter().map(|row| row.score).collect::<Vec<_>>());
    pack.f64("captured", &sampled.captured);
    if let Judge::Sequence(_, groups) = judge {
        let starts = (0..groups.len()).map(|g| groups.range(g).start).filter(|&start| start < looked.len());
        pack.whole("sequence_start", &starts.map(|start| start as u32).collect::<Vec<_>>());
    }
    let name = |number: usize, name: &Option<String>| name.clone().unwrap_or_else(|| (number + 1).to_string());
    pack.set("doc_names", shown.iter().map(|row| name(row.number, &row.name)).collect::<Vec<_>>());
    pack.set("named_rows", shown.iter().any(|row| row.name.is_some()));
    pack.whole("doc_number", &shown.iter().map(|row| row.number as u32).collect::<Vec<_>>());
    pack.whole("doc_sample", &shown.iter().map(|row| row.sample as u32).collect::<Vec<_>>());
    let (mut starts, mut topic, mut share) = (vec![0u32], Vec::new(), Vec::new());
    let (mut value_starts, mut columns, mut values) = (vec![0u32], Vec::new(), Vec::new());
    for row in shown {
        topic.extend(row.shares.iter().map(|entry| entry.0));
        share.extend(row.shares.iter().map(|entry| entry.1));
        starts.push(topic.len() as u32);
        columns.extend(row.columns.iter().flatten().copied());
        values.extend_from_slice(&row.values);
        value_starts.push(values.len() as u32);
    }
    pack.whole("doc_share_start", &starts);
    pack.whole("doc_topic", &topic);
    pack.f64("doc_share", &share);
    pack.whole("row_start", &value_starts);
    if shown.iter().any(|row| row.columns.is_some()) {
        pack.whole("row_column", &columns);
    }
    pack.f32("row_value", &values);
}
