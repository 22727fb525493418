//! The same bytes at any number of threads: models, seeds and scores of data that is many panels, tasks and chunks.

use lsparse::backend::with_threads;
use lsparse::data::MemoryRows;
use lsparse::mixture::initial_mixture;
use lsparse::settings::{SearchKind, TopicsConfig};
use lsparse::synthetic::{planted, themed_corpus};
use lsparse::topics::score::CompletionOptions;
use lsparse::topics::{TopicModel, fit_topics};
use lsparse::{LikelihoodKind, MixtureConfig, MixtureInputs, MixtureModel, Sparsity, fit_mixture};

const THREADS: [usize; 5] = [1, 2, 3, 8, 16];

/// Run on each number of threads and compare what comes of it.
fn assert_same<R: PartialEq + Send>(what: &str, run: impl Fn() -> R + Sync) -> R {
    let mut results = THREADS.map(|threads| (threads, with_threads(threads, &run).unwrap())).into_iter();
    let (_, first) = results.next().unwrap();
    results.for_each(|(threads, other)| assert!(other == first, "{what} on {threads} threads"));
    first
}

/// Bits of numbers: a difference in the last one is a difference.
fn bits(numbers: &[f64]) -> Vec<u64> {
    numbers.iter().map(|number| number.to_bits()).collect()
}

fn mixture_config(likelihood: LikelihoodKind, search: SearchKind, batches: usize) -> MixtureConfig {
    MixtureConfig {
        likelihood,
        clusters: 12,
        sparsity: Sparsity::Of(3),
        search,
        batches: Some(batches),
        laps: Some(3),
        tolerance: None,
        init_rows: Some(9000),
        seed: 5,
        ..Default::default()
    }
}

/// A batch of more rows than a panel has at most, and batches of a few stretches, in which panels go on side by side.
#[test]
fn mixtures_of_many_panels() {
    let truth = planted(LikelihoodKind::ZeroMeanGauss, 70_000, 3, 6, 2);
    let narrow = MemoryRows::new("narrow", 3, truth.values_f32()).unwrap();
    let truth = planted(LikelihoodKind::DiagGauss, 4500, 1100, 6, 3);
    let wide = MemoryRows::new("wide", 1100, truth.values_f32()).unwrap();
    for search in [SearchKind::Dense, SearchKind::Exact, SearchKind::Neighbours] {
        for (rows, likelihood) in [(&narrow, LikelihoodKind::ZeroMeanGauss), (&wide, LikelihoodKind::DiagGauss)] {
            for batches in [1, 2] {
                let config = mixture_config(likelihood, search, batches);
                let what = format!("{likelihood:?}, {search:?}, {batches} batches");
                let model = assert_same(&what, || fit_mixture(rows, &config).unwrap().model.to_bytes().unwrap());
                if search == SearchKind::Exact {
                    // Whatever is ruled out, the bits are those of the full table.
                    let dense = MixtureConfig { search: SearchKind::Dense, ..config };
                    let dense = fit_mixture(rows, &dense).unwrap().model;
                    let exact = MixtureModel::from_bytes("exact".as_ref(), &model).unwrap();
                    assert_eq!(bits(&dense.total.stats), bits(&exact.total.stats), "{what}");
                }
            }
        }
    }
}

#[test]
fn starts_and_scores_of_mixtures() {
    let truth = planted(LikelihoodKind::Gauss, 20_000, 4, 6, 4);
    let rows = MemoryRows::new("rows", 4, truth.values_f32()).unwrap();
    for likelihood in [LikelihoodKind::ZeroMeanGauss, LikelihoodKind::Gauss, LikelihoodKind::SphericalGauss] {
        let config = mixture_config(likelihood, SearchKind::Dense, 1);
        let inputs = MixtureInputs::default;
        let start = || initial_mixture(&rows, &config, inputs()).unwrap().model;
        assert_same(&format!("start, {likelihood:?}"), || start().to_bytes().unwrap());
        let model = start();
        assert_same(&format!("scores, {likelihood:?}"), || bits(&model.score(&rows).unwrap().log_density));
    }
}

#[test]
fn topics_of_many_panels() {
    let rows = themed_corpus(3000, 7).rows("themes", 0..3000).unwrap();
    for batches in [1, 10] {
        let config = TopicsConfig {
            topics: 20,
            sparsity: Sparsity::Of(4),
            batches: Some(batches),
            laps: Some(2),
            seed: 3,
            ..Default::default()
        };
        let what = format!("topics, {batches} batches");
        let bytes = assert_same(&what, || fit_topics(&rows, &config).unwrap().model.to_bytes().unwrap());
        let model = TopicModel::from_bytes("topics".as_ref(), &bytes).unwrap();
        let score = || model.score(&rows, &CompletionOptions::default()).unwrap().log_probability.to_bits();
        assert_same(&format!("scores of {what}"), score);
    }
}
