//! The conclusions of the paper's figures in miniature, on patches of drawn images and on planted documents.

use std::path::{Path, PathBuf};

use lsparse_paper::figure::Figure;
use lsparse_paper::runs::Workshop;
use lsparse_paper::{Settings, Size, fig1, fig2, fig3, fig4, fig5};
use serde_json::Value;

fn mini(folder: &Path) -> Settings {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_lsparse"));
    let workshop = Workshop { program, data: None, folder: folder.into(), jobs: 1 };
    Settings { data: None, size: Size::Mini, workshop }
}

/// The number in the only row, or the last of several, that has these fields.
fn found(figure: &Figure, fields: &[(&str, Value)], number: &str) -> f64 {
    let row = figure.rows.iter().rfind(|row| fields.iter().all(|(key, value)| &row[*key] == value));
    row.unwrap_or_else(|| panic!("no row has {fields:?}"))[number].as_f64().unwrap()
}

#[test]
fn a_few_clusters_hold_nearly_all_mass_and_make_the_summary_cheap() {
    let folder = tempfile::tempdir().unwrap();
    let figure = fig1::run(&mini(folder.path())).unwrap();
    let distance = |sparsity: usize, share: f64| {
        found(&figure, &[("panel", "d".into()), ("sparsity", sparsity.into()), ("share", share.into())], "distance")
    };
    assert!(distance(8, 0.99) < 0.01, "{}", distance(8, 0.99));
    assert!(distance(1, 0.99) > 0.2, "{}", distance(1, 0.99));
    for (fewer, more) in [(1, 2), (2, 4), (4, 8), (8, 16)] {
        assert!(distance(fewer, 0.99) >= distance(more, 0.99));
    }
    let summary = |sparsity: usize| {
        found(&figure, &[("panel", "c".into()), ("clusters", 80.into()), ("sparsity", sparsity.into())], "cpu_seconds")
    };
    assert!(2.0 * summary(1) < summary(80), "{} against {} s", summary(1), summary(80));
}

#[test]
fn modest_sparsity_scores_as_dense_does() {
    let folder = tempfile::tempdir().unwrap();
    let figure = fig2::run(&mini(folder.path())).unwrap();
    for schedule in ["memoized", "stochastic"] {
        let last = |sparsity: usize| {
            let fields = [("schedule", schedule.into()), ("sparsity", sparsity.into())];
            found(&figure, &fields, "heldout")
        };
        let (modest, dense) = (last(16), last(24));
        assert!((modest - dense).abs() < 0.02, "{schedule}: {modest} against dense {dense}");
    }
    let monotone = figure.claims.iter().find(|claim| claim.claim.contains("never lower")).unwrap();
    assert_eq!(monotone.holds, Some(true), "{}", monotone.found);
}

#[test]
fn sparse_documents_are_close_to_dense_ones_and_cost_less() {
    let folder = tempfile::tempdir().unwrap();
    let figure = fig3::run(&mini(folder.path())).unwrap();
    let distance = |sparsity: usize| {
        let fields = [("panel", "distance".into()), ("sparsity", sparsity.into()), ("share", 0.5.into())];
        found(&figure, &fields, "distance")
    };
    assert!(distance(8) < 0.05, "{}", distance(8));
    assert!(distance(1) > 2.0 * distance(8), "{} against {}", distance(1), distance(8));
    let seconds = |name: &str| {
        let fields = [("panel", "steps".into()), ("topics", 80.into()), ("name", name.into())];
        found(&figure, &fields, "local_seconds")
    };
    assert!(1.5 * seconds("L = 8") < seconds("L = K"), "{} against {} s", seconds("L = 8"), seconds("L = K"));
}

#[test]
fn eight_topics_a_token_predict_as_all_do_and_one_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let figure = fig4::run(&mini(folder.path())).unwrap();
    let mut behind = Vec::new();
    for method in ["memoized", "stochastic"] {
        for estimate in ["vb", "map"] {
            let last = |sparsity: usize| {
                let fields = [("method", method.into()), ("estimate", estimate.into()), ("sparsity", sparsity.into())];
                found(&figure, &fields, "heldout")
            };
            let (hard, modest, dense) = (last(1), last(8), last(60));
            assert!(modest > dense - 0.02, "{method} {estimate}: {modest} against dense {dense}");
            behind.push(modest - hard);
        }
    }
    // How far hard assignment falls behind depends on the start; that it does, does not.
    assert!(behind.iter().all(|&gap| gap > 0.0) && behind.iter().sum::<f64>() / 4.0 > 0.01, "{behind:?}");
    for method in ["SparseLDA", "LightLDA", "SVIGibbs 5", "SVIGibbs 10"] {
        let score = found(&figure, &[("method", method.into())], "heldout");
        assert!(score.is_finite(), "{method}: {score}");
    }
}

#[test]
fn without_restarts_cold_starts_get_worse_and_with_them_they_do_not() {
    let folder = tempfile::tempdir().unwrap();
    let figure = fig5::run(&mini(folder.path())).unwrap();
    let score = |restarts: bool, lap: f64| {
        let fields =
            [("kind", "L = 8".into()), ("start", "cold".into()), ("restarts", restarts.into()), ("lap", lap.into())];
        found(&figure, &fields, "heldout")
    };
    assert!(score(false, 8.0) < score(false, 1.0), "{} to {}", score(false, 1.0), score(false, 8.0));
    assert!(score(true, 8.0) > score(false, 8.0), "{} against {}", score(true, 8.0), score(false, 8.0));
}
