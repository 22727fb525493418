//! What the pages of mixtures and sequences show against brute force, and that they are the same at any number of threads.

use lsparse::backend::with_threads;
use lsparse::corpus::Metadata;
use lsparse::data::{Groups, MemoryRows, RowSource};
use lsparse::likelihood::NamedArray;
use lsparse::math::linalg::{cholesky_in_place, invert_lower, symmetric_eigen};
use lsparse::synthetic::planted;
use lsparse::{LikelihoodKind, MixtureConfig, MixtureModel, SequenceConfig, Sparsity, fit_mixture, fit_sequence};
use lsparse_page::explore::{
    ClusterSet, Judge, Looked, PageOptions, Picture, ProfileKind, Sampled, choose_rows, clusters_page, scaled,
};

const DIM: usize = 4;

fn rows_of(kind: LikelihoodKind, num_rows: usize) -> MemoryRows<f64> {
    MemoryRows::new("planted", DIM, planted(kind, num_rows, DIM, 3, 1).values).unwrap()
}

fn trained(kind: LikelihoodKind) -> (MemoryRows<f64>, MixtureModel) {
    let rows = rows_of(kind, 300);
    let config =
        MixtureConfig { clusters: 4, likelihood: kind, sparsity: Sparsity::Of(2), laps: Some(5), ..Default::default() };
    let model = fit_mixture(&rows, &config).unwrap().model;
    (rows, model)
}

fn array<'a>(arrays: &'a [NamedArray], name: &str) -> Option<&'a NamedArray> {
    arrays.iter().find(|array| array.name == name)
}

/// KL(k || j) from the definitions of the families, with whole matrices.
fn divergence(set: &ClusterSet<'_>, k: usize, j: usize) -> f64 {
    let own = |name: &str, k: usize| array(set.arrays, name).map(|a| a.values[k * DIM..(k + 1) * DIM].to_vec());
    let numbers = |name: &str| own(name, k).zip(own(name, j));
    let sum = |(p, q): (Vec<f64>, Vec<f64>), term: &dyn Fn(f64, f64) -> f64| {
        p.iter().zip(&q).map(|(&p, &q)| term(p, q)).sum()
    };
    match set.likelihood {
        LikelihoodKind::Multinomial => sum(numbers("probabilities").unwrap(), &|p, q| p * (p / q).ln()),
        LikelihoodKind::Bernoulli => {
            sum(numbers("probabilities").unwrap(), &|p, q| p * (p / q).ln() + (1.0 - p) * ((1.0 - p) / (1.0 - q)).ln())
        }
        LikelihoodKind::Poisson => sum(numbers("rates").unwrap(), &|p, q| p * (p / q).ln() - p + q),
        _ => {
            let covariance = |k: usize| -> Vec<f64> {
                if let Some(full) = set.covariance(k) {
                    return full.to_vec();
                }
                let variances = array(set.arrays, "variances").unwrap();
                let each = variances.values.len() / set.num_clusters();
                let mut full = vec![0.0; DIM * DIM];
                (0..DIM).for_each(|d| full[d * DIM + d] = variances.values[k * each + d % each]);
                full
            };
            let inverse = |k: usize| {
                let mut factor = covariance(k);
                cholesky_in_place(&mut factor, DIM).unwrap();
                let m = invert_lower(&factor, DIM);
                let log_det: f64 = 2.0 * (0..DIM).map(|d| factor[d * DIM + d].ln()).sum::<f64>();
                let product = |i: usize, j: usize| (0..DIM).map(|p| m[p * DIM + i] * m[p * DIM + j]).sum::<f64>();
                ((0..DIM * DIM).map(|at| product(at / DIM, at % DIM)).collect::<Vec<f64>>(), log_det)
            };
            let ((precision, log_det_j), (_, log_det_k)) = (inverse(j), inverse(k));
            let trace: f64 = precision.iter().zip(covariance(k)).map(|(a, b)| a * b).sum();
            let means = own("means", k).zip(own("means", j)).unwrap_or((vec![0.0; DIM], vec![0.0; DIM]));
            let apart: Vec<f64> = means.0.iter().zip(&means.1).map(|(a, b)| a - b).collect();
            let form: f64 = (0..DIM * DIM).map(|at| apart[at / DIM] * precision[at] * apart[at % DIM]).sum();
            0.5 * (trace + form - DIM as f64 + log_det_j - log_det_k)
        }
    }
}

#[test]
fn distances_are_divergences_both_ways_in_every_family() {
    for kind in LikelihoodKind::ALL {
        let (_, model) = trained(kind);
        let set = ClusterSet::of_mixture(&model);
        let distances = set.distances().unwrap();
        for k in 0..4 {
            for j in 0..4 {
                let expected = (divergence(&set, k, j) + divergence(&set, j, k)).max(0.0).sqrt();
                let found = f64::from(distances.row(k)[j]);
                assert!(
                    (found - expected).abs() < 1e-5 * (1.0 + expected),
                    "{} {k} {j}: {found} {expected}",
                    kind.name()
                );
            }
        }
        assert_eq!(scaled(&distances, 1), scaled(&distances, 1));
    }
}

#[test]
fn directions_are_eigenvectors() {
    let (_, model) = trained(LikelihoodKind::Gauss);
    let set = ClusterSet::of_mixture(&model);
    let dim = 40;
    // One with many columns, so that not all directions are asked for at once.
    let factor: Vec<f64> =
        (0..dim * dim).map(|at| ((at * at) as f64 * 0.37).sin() / (1.0 + (at % dim) as f64)).collect();
    let product = |i: usize, j: usize| (0..dim).map(|p| factor[i * dim + p] * factor[j * dim + p]).sum::<f64>();
    let wide: Vec<f64> = (0..dim * dim)
        .map(|at| product(at / dim, at % dim) + f64::from(u8::from(at % (dim + 1) == 0)) * 0.01)
        .collect();
    let arrays = [NamedArray::new("covariances", vec![1, dim, dim], wide)];
    let wide = ClusterSet { arrays: &arrays, weights: vec![1.0], counts: &[1.0], dim, ..set };
    let narrow = ClusterSet::of_mixture(&model);
    for (set, k, count) in [(&wide, 0, 6), (&narrow, 0, 4), (&narrow, 3, 2)] {
        let (dim, covariance) = (set.dim, set.covariance(k).unwrap());
        let (mut expected, _) = symmetric_eigen(covariance, dim);
        expected.sort_by(|a, b| b.total_cmp(a));
        let total: f64 = expected.iter().sum();
        let (vectors, shares) = set.directions(k, count).unwrap();
        assert_eq!((vectors.len(), shares.len()), (count * dim, count));
        for (at, (vector, share)) in vectors.chunks_exact(dim).zip(&shares).enumerate() {
            assert!((share - expected[at] / total).abs() < 1e-6, "{at}: {share} {}", expected[at] / total);
            for i in 0..dim {
                let turned: f64 = (0..dim).map(|j| covariance[i * dim + j] * vector[j]).sum();
                assert!((turned - expected[at] * vector[i]).abs() < 2e-3 * expected[0], "{at} {i}");
            }
        }
    }
}

#[test]
fn profiles_are_the_arrays_and_what_all_rows_have() {
    for kind in LikelihoodKind::ALL {
        let (_, model) = trained(kind);
        let set = ClusterSet::of_mixture(&model);
        let profile = set.profile().unwrap();
        let name = match profile.kind {
            ProfileKind::Means => "means",
            ProfileKind::Probabilities => "probabilities",
            ProfileKind::Rates => "rates",
            ProfileKind::Deviations => {
                for (at, value) in profile.values.iter().enumerate() {
                    let variance = set.covariance(at / DIM).unwrap()[at % DIM * (DIM + 1)];
                    assert!((value * value - variance).abs() < 1e-12 * variance);
                }
                continue;
            }
        };
        assert_eq!(profile.values, model.array(name).unwrap().values);
        for d in 0..DIM {
            let mean: f64 = (0..4).map(|k| model.weights[k] * profile.values[k * DIM + d]).sum();
            assert!((profile.overall[d] - mean).abs() < 1e-9 * (1.0 + mean.abs()));
        }
        assert!(profile.distinct.iter().all(|x| x.is_finite()));
    }
}

#[test]
fn the_sample_is_what_the_model_says_of_rows() {
    let (rows, model) = trained(LikelihoodKind::DiagGauss);
    let sampled = Sampled::new(&Judge::Mixture(&model), &rows, 50).unwrap();
    assert_eq!((sampled.all, sampled.looked.len(), sampled.shown.len()), (300, 300, 50));
    let scores = model.score(&rows).unwrap().log_density;
    let (mut dense, mut kept): (Vec<Vec<f64>>, Vec<Vec<(u32, f64)>>) = (Vec::new(), Vec::new());
    model
        .assign(&rows, 4, &mut |_, values| {
            dense.extend(values.chunks_exact(4).map(<[f64]>::to_vec));
            Ok(())
        })
        .unwrap();
    model
        .assign(&rows, 2, &mut |clusters, values| {
            let rows = clusters.chunks_exact(2).zip(values.chunks_exact(2));
            kept.extend(rows.map(|(k, r)| vec![(k[0], r[0]), (k[1], r[1])]));
            Ok(())
        })
        .unwrap();
    for (n, row) in sampled.looked.iter().enumerate() {
        assert_eq!((row.score, row.first, row.largest), (scores[n], kept[n][0].0, dense[n][0]));
        assert!((row.captured - (dense[n][0] + dense[n][1])).abs() < 1e-12);
    }
    for (at, captured) in sampled.captured.iter().enumerate() {
        let mean: f64 = dense.iter().map(|values| values[..=at].iter().sum::<f64>()).sum::<f64>() / 300.0;
        assert!((captured - mean).abs() < 1e-9 && *captured <= 1.0);
    }
    for row in &sampled.shown {
        assert_eq!(row.shares, kept[row.number]);
        let mut values = lsparse::data::Rows::<f32>::dense(DIM);
        rows.read_f32(row.number, 1, &mut values).unwrap();
        assert_eq!(row.values, values.dense_rows(0..1));
    }
    // The least likely and the most doubtful of all are there, and the most typical of every cluster.
    let shown: Vec<usize> = sampled.shown.iter().map(|row| row.sample).collect();
    let least = |key: &dyn Fn(&Looked) -> f64, of: &dyn Fn(&Looked) -> bool| {
        (0..300)
            .filter(|&n| of(&sampled.looked[n]))
            .min_by(|&a, &b| key(&sampled.looked[a]).total_cmp(&key(&sampled.looked[b])))
    };
    assert!(shown.contains(&least(&|row| row.score, &|_| true).unwrap()));
    assert!(shown.contains(&least(&|row| row.largest, &|_| true).unwrap()));
    for k in 0..4 {
        if let Some(typical) = least(&|row| -row.typical(), &|row| row.first == k) {
            assert!(shown.contains(&typical), "cluster {k}");
        }
    }
    assert_eq!(choose_rows(4, &sampled.looked, 1).len(), 1);
    assert_eq!(choose_rows(4, &sampled.looked, 0), [] as [usize; 0]);
    assert_eq!(choose_rows(4, &sampled.looked, 1000).len(), 300);
}

#[test]
fn every_family_has_a_page_whatever_the_number_of_threads() {
    let options = PageOptions { title: "t".into(), names: vec![Some("a".into())], documents: 20, seed: 0 };
    for kind in LikelihoodKind::ALL {
        let (rows, model) = trained(kind);
        let metadata = Metadata { names: vec!["n".into()], values: vec![(0..300).map(|n| n.to_string()).collect()] };
        for picture in [None, Some(Picture::parse("2x2").unwrap())] {
            let make = || {
                let judge = Judge::Mixture(&model);
                clusters_page(&judge, Some(&rows), Some(&metadata), &[], picture, &options).unwrap()
            };
            let (one, report) = with_threads(1, make).unwrap();
            let (four, _) = with_threads(4, make).unwrap();
            assert!(one == four, "{}", kind.name());
            assert_eq!((report.clusters, report.columns, report.rows, report.rows_shown), (4, DIM, 300, 20));
        }
        let bare = clusters_page(&Judge::Mixture(&model), None, None, &[], None, &options).unwrap().1;
        assert_eq!((bare.rows, bare.rows_shown), (0, 0));
    }
}

#[test]
fn sequences_have_a_page() {
    let rows = rows_of(LikelihoodKind::DiagGauss, 200);
    let groups = Groups::of_lengths("lengths", &[50, 0, 149, 1], 200).unwrap();
    let config =
        SequenceConfig { states: 3, likelihood: LikelihoodKind::DiagGauss, laps: Some(3), ..Default::default() };
    let model = fit_sequence(&rows, &groups, &config).unwrap().model;
    let judge = Judge::Sequence(&model, &groups);
    let options = PageOptions { title: String::new(), names: Vec::new(), documents: 30, seed: 0 };
    let report = clusters_page(&judge, Some(&rows), None, &[], None, &options).unwrap().1;
    assert_eq!((report.clusters, report.rows, report.rows_looked_at, report.rows_shown), (3, 200, 200, 30));
    let sampled = Sampled::new(&judge, &rows, 10).unwrap();
    assert_eq!(
        sampled.looked.iter().map(|row| row.score).collect::<Vec<_>>(),
        model.score(&rows, Some(&groups)).unwrap().log_density
    );
}

#[test]
fn one_cluster_one_column_and_pictures_that_do_not_fit() {
    let rows = MemoryRows::new("one", 1, vec![1.0, 2.0, 4.0]).unwrap();
    let config = MixtureConfig { clusters: 1, likelihood: LikelihoodKind::Gauss, laps: Some(1), ..Default::default() };
    let model = fit_mixture(&rows, &config).unwrap().model;
    let options = PageOptions { title: String::new(), names: Vec::new(), documents: 5, seed: 0 };
    let page = |picture| clusters_page(&Judge::Mixture(&model), Some(&rows), None, &[], picture, &options);
    assert_eq!(page(None).unwrap().1.rows_shown, 3);
    let error = page(Some(Picture::parse("8x8").unwrap())).unwrap_err().to_string();
    assert!(error.contains("8x8x1 are not the 1 columns"), "{error}");
    for text in ["", "8", "8x", "0x3", "8x8x2", "8x8x3x1", "-1x2", "99999999999999999999x2"] {
        assert!(Picture::parse(text).is_err(), "{text}");
    }
    assert_eq!(Picture::parse("4x5x3"), Ok(Picture { height: 4, width: 5, channels: 3 }));
}

#[test]
fn of_a_million_rows_a_sample_is_looked_at() {
    let all = 1_000_000;
    let values = (0..all).map(|n| (n % 2 * 9) as f64 + (n % 7) as f64).collect();
    let rows = MemoryRows::new("many", 1, values).unwrap();
    let few = MemoryRows::new("few", 1, (0..40).map(|n| (n % 2 * 9) as f64 + (n % 7) as f64).collect()).unwrap();
    let config =
        MixtureConfig { clusters: 2, likelihood: LikelihoodKind::DiagGauss, laps: Some(2), ..Default::default() };
    let model = fit_mixture(&few, &config).unwrap().model;
    let options = PageOptions { title: String::new(), names: Vec::new(), documents: 50, seed: 0 };
    let report = clusters_page(&Judge::Mixture(&model), Some(&rows), None, &[], None, &options).unwrap().1;
    assert_eq!((report.rows, report.rows_looked_at, report.rows_shown), (all, 20_000, 50));
}
