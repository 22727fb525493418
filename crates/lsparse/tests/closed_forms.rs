//! Closed forms against brute force: numerical integration, sampling, and naive formulas written out again.

use lsparse::allocation::Allocation;
use lsparse::data::{MemoryRows, Moments, Rows};
use lsparse::likelihood::{Clusters, Estimate, Likelihood, LikelihoodKind, NamedArray, Prior, Scratch};
use lsparse::{MixtureConfig, fit_mixture};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

fn prior(kind: LikelihoodKind, dim: usize) -> Prior {
    // Columns of different scales, so that B is not a multiple of I.
    let variance: Vec<f64> = (0..dim).map(|d| 1.3 * 0.6f64.powi(d as i32)).collect();
    let moments =
        Moments { mean: vec![0.3; dim], variance: variance.clone(), second_moment: variance, ..Moments::unknown(dim) };
    let config = MixtureConfig {
        likelihood: kind,
        lambda: 0.7,
        kappa: Some(0.4),
        prior_scale: Some(0.9),
        ..MixtureConfig::default()
    };
    Prior::for_data(&config, &moments)
}

fn block(kind: LikelihoodKind, dim: usize, values: &[f64]) -> Rows<f64> {
    let mut rows = if kind.family().wants_sparse_rows { Rows::sparse(dim) } else { Rows::dense(dim) };
    rows.push_dense(values);
    rows
}

/// Statistics of all rows in one cluster, with responsibilities `resp`.
fn stats(family: &dyn Likelihood<f64>, rows: &Rows<f64>, resp: &[f64]) -> (f64, Vec<f64>) {
    let members: Vec<u32> = (0..rows.len() as u32).collect();
    let mut stats = family.no_statistics(1).stats;
    let (stat, shared) = stats.split_at_mut(family.stat_width());
    family.accumulate(rows, &members, resp, &mut Scratch::default(), stat);
    family.accumulate_shared(rows, &members, resp, shared);
    (resp.iter().sum(), stats)
}

fn log_lik(clusters: &dyn Clusters<f64>, rows: &Rows<f64>) -> Vec<f64> {
    let mut out = vec![0.0; rows.len() * clusters.num_clusters()];
    clusters.add_log_lik(rows, 0..rows.len(), &mut Scratch::default(), &mut out);
    out
}

/// Integral of exp(f) over the real line by the trapezoid rule, as a logarithm.
fn log_integral(f: impl Fn(f64) -> f64, from: f64, to: f64, steps: usize) -> f64 {
    let width = (to - from) / steps as f64;
    let values: Vec<f64> = (0..=steps).map(|i| f(from + i as f64 * width)).collect();
    let max = values.iter().cloned().fold(f64::NEG_INFINITY, f64::max);
    max + (values.iter().map(|v| (v - max).exp()).sum::<f64>() * width).ln()
}

fn ln_normal(x: f64, mean: f64, precision: f64) -> f64 {
    0.5 * (precision / std::f64::consts::TAU).ln() - 0.5 * precision * (x - mean).powi(2)
}

/// log Gamma(x | shape, rate), its normaliser from the integral rather than from a gamma function.
fn ln_gamma_density(shape: f64, rate: f64) -> impl Fn(f64) -> f64 {
    let kernel = move |ln_x: f64| (shape - 1.0) * ln_x - rate * ln_x.exp();
    let normaliser = log_integral(|t| kernel(t) + t, -40.0, 8.0, 20_000);
    move |x: f64| kernel(x.ln()) - normaliser
}

/// log Beta(p | a, b) by the same means.
fn ln_beta_density(a: f64, b: f64) -> impl Fn(f64, f64) -> f64 {
    let kernel = move |p: f64, q: f64| (a - 1.0) * p.ln() + (b - 1.0) * q.ln();
    let normaliser = logit_integral(kernel);
    move |p: f64, q: f64| kernel(p, q) - normaliser
}

/// log of the integral over (0, 1) of exp(f(p, 1 - p)), through p = 1/(1 + e^-t).
fn logit_integral(f: impl Fn(f64, f64) -> f64) -> f64 {
    let ln_sigmoid = |t: f64| -(-t).exp().ln_1p();
    let at = |t: f64| f(ln_sigmoid(t).exp(), ln_sigmoid(-t).exp()) + ln_sigmoid(t) + ln_sigmoid(-t);
    log_integral(at, -60.0, 60.0, 40_000)
}

/// With one cluster the posterior is exact, so the data term is the log evidence of the rows.
fn evidence(kind: LikelihoodKind, dim: usize, values: &[f64]) -> f64 {
    let family = kind.build::<f64>(&prior(kind, dim));
    let rows = block(kind, dim, values);
    let (count, stat) = stats(family.as_ref(), &rows, &vec![1.0; rows.len()]);
    let clusters = family.global_step(Estimate::Posterior, &[count], &stat, None).unwrap();
    let own = clusters.own_data_term();
    assert!((own - clusters.data_term(&[count], &stat)).abs() < 1e-9 * own.abs().max(1.0));
    own
}

fn close(a: f64, b: f64, tolerance: f64, what: &str) {
    assert!((a - b).abs() <= tolerance * b.abs().max(1.0), "{what}: {a} against {b}");
}

/// The log evidence of numbers under a zero-mean Gaussian, integrated over its precision.
fn integral_over_precision(x: &[f64]) -> f64 {
    let p = prior(LikelihoodKind::ZeroMeanGauss, 1);
    // In one dimension a Wishart(nu, B) is a Gamma(nu/2, rate B/2), B = variance (nu - D - 1).
    let density = ln_gamma_density(0.5 * p.nu, 0.5 * p.variance[0] * (p.nu - 2.0));
    let joint = |t: f64| density(t.exp()) + t + x.iter().map(|&x| ln_normal(x, 0.0, t.exp())).sum::<f64>();
    log_integral(joint, -30.0, 8.0, 20_000)
}

/// The same under a Gaussian, integrated over mean and precision.
fn integral_over_mean_and_precision(kind: LikelihoodKind, x: &[f64]) -> f64 {
    let p = prior(kind, 1);
    let density = ln_gamma_density(0.5 * p.nu, 0.5 * p.variance[0] * (p.nu - 2.0));
    let joint = |t: f64| {
        let precision = t.exp();
        let over_mean = log_integral(
            |m| {
                ln_normal(m, p.center[0], p.kappa * precision)
                    + x.iter().map(|&x| ln_normal(x, m, precision)).sum::<f64>()
            },
            -1.0 - 12.0 / precision.sqrt(),
            1.0 + 12.0 / precision.sqrt(),
            600,
        );
        density(precision) + t + over_mean
    };
    log_integral(joint, -12.0, 6.0, 1500)
}

#[test]
fn evidence_of_gaussians_is_the_integral_over_their_parameters() {
    let x = [0.4, -1.7, 0.9];
    close(evidence(LikelihoodKind::ZeroMeanGauss, 1, &x), integral_over_precision(&x), 1e-8, "zero mean");
    for kind in LikelihoodKind::ALL.into_iter().filter(|kind| kind.family().has_means) {
        close(evidence(kind, 1, &x), integral_over_mean_and_precision(kind, &x), 1e-6, kind.name());
    }
}

/// log p(at | rows) of the cluster that all `values` are in.
fn predictive(kind: LikelihoodKind, dim: usize, values: &[f64], at: &[f64]) -> f64 {
    let family = kind.build::<f64>(&prior(kind, dim));
    let rows = block(kind, dim, values);
    let (count, stat) = stats(family.as_ref(), &rows, &vec![1.0; rows.len()]);
    let posterior = family.global_step(Estimate::Posterior, &[count], &stat, None).unwrap();
    let clusters = family.clusters_of(&posterior.arrays()).unwrap();
    let mut out = [0.0];
    clusters.add_log_predictive(&block(kind, dim, at), 0..1, &mut Scratch::default(), &mut out);
    out[0]
}

/// The posterior predictive is the evidence with the row over the evidence without, near the mean and far away.
#[test]
fn the_predictive_of_a_row_is_what_it_adds_to_the_evidence() {
    let x = [0.4, -1.7, 0.9];
    for at in [0.2, 1.6, -9.0] {
        let with = [0.4, -1.7, 0.9, at];
        let zero_mean = integral_over_precision(&with) - integral_over_precision(&x);
        close(predictive(LikelihoodKind::ZeroMeanGauss, 1, &x, &[at]), zero_mean, 1e-7, "zero mean");
        for kind in LikelihoodKind::ALL.into_iter().filter(|kind| kind.family().has_means) {
            let ratio = integral_over_mean_and_precision(kind, &with) - integral_over_mean_and_precision(kind, &x);
            close(predictive(kind, 1, &x, &[at]), ratio, 1e-5, kind.name());
        }
    }
    // In more columns, by the closed form of the evidence; of bits too, whose predictive is the plug-in.
    for kind in LikelihoodKind::ALL.into_iter().filter(|kind| *kind != LikelihoodKind::Multinomial) {
        for num in [0, 1, 7, 300] {
            let rows = some_rows(kind, 3, num, 6);
            let mut at = some_rows(kind, 3, 1, 8);
            for _ in 0..3 {
                let ratio = evidence(kind, 3, &[&rows[..], &at].concat()) - evidence(kind, 3, &rows);
                close(predictive(kind, 3, &rows, &at), ratio, 1e-8, &format!("{} after {num} rows", kind.name()));
                if kind != LikelihoodKind::Bernoulli {
                    at.iter_mut().for_each(|v| *v *= 20.0);
                }
            }
        }
    }
}

#[test]
fn evidence_of_counts_and_bits_is_the_integral_over_the_probability() {
    let p = prior(LikelihoodKind::Multinomial, 2);
    let density = ln_beta_density(p.lambda, p.lambda);
    let joint = |a: f64, b: f64| density(a, b) + 4.0 * a.ln() + 2.0 * b.ln();
    close(evidence(LikelihoodKind::Multinomial, 2, &[3.0, 0.0, 1.0, 2.0]), logit_integral(joint), 1e-6, "multinomial");

    let density = ln_beta_density(p.lambda, p.lambda);
    let column = |ones: f64, zeros: f64| logit_integral(|a, b| density(a, b) + ones * a.ln() + zeros * b.ln());
    let expected = column(2.0, 1.0) + column(0.0, 3.0);
    close(evidence(LikelihoodKind::Bernoulli, 2, &[1.0, 0.0, 1.0, 0.0, 0.0, 0.0]), expected, 1e-6, "bernoulli");
}

#[test]
fn evidence_of_poisson_counts_is_the_integral_over_their_rates() {
    let p = prior(LikelihoodKind::Poisson, 2);
    // Over the logarithm of the rate, far down: the density of a small shape has a long tail there.
    let (shape, rate) = (p.lambda * p.column_means[0], p.lambda);
    let gamma =
        |sum: f64, rows: f64| log_integral(|t| (shape + sum) * t - (rate + rows) * t.exp(), -160.0, 8.0, 80_000);
    // Three rows: counts of both columns, and the product of their factorials.
    let column = |sum: f64, factorials: f64| gamma(sum, 3.0) - gamma(0.0, 0.0) - factorials.ln();
    let expected = column(6.0, 24.0) + column(1.0, 1.0);
    close(evidence(LikelihoodKind::Poisson, 2, &[4.0, 0.0, 1.0, 1.0, 1.0, 0.0]), expected, 1e-6, "poisson");
}

/// One variance of two columns, by integration over it and both means.
#[test]
fn evidence_of_a_spherical_gaussian_is_the_integral_over_means_and_precision() {
    let kind = LikelihoodKind::SphericalGauss;
    let x = [[0.5, -0.2], [-0.8, 0.6], [1.4, 0.1]];
    let p = prior(kind, 2);
    // One number for both columns: the average of what the prior expects of each.
    let variance = 0.5 * (p.variance[0] + p.variance[1]);
    let density = ln_gamma_density(0.5 * p.nu, 0.5 * variance * (p.nu - 2.0));
    let joint = |t: f64| {
        let precision = t.exp();
        let over_mean = |d: usize| {
            let at = |m: f64| {
                let of_rows: f64 = x.iter().map(|row| ln_normal(row[d], m, precision)).sum();
                ln_normal(m, p.center[d], p.kappa * precision) + of_rows
            };
            log_integral(at, -1.0 - 12.0 / precision.sqrt(), 1.0 + 12.0 / precision.sqrt(), 600)
        };
        density(precision) + t + over_mean(0) + over_mean(1)
    };
    close(evidence(kind, 2, &x.concat()), log_integral(joint, -12.0, 6.0, 1500), 1e-6, kind.name());
}

/// Two clusters of one covariance: with every row in one cluster the posterior is exact, and the data term is the
/// integral over the precision that both share, and both means.
#[test]
fn evidence_of_two_tied_clusters_is_the_integral_over_both_means_and_one_precision() {
    let kind = LikelihoodKind::TiedGauss;
    let groups = [vec![0.4, -1.7, 0.9], vec![2.0, 2.6]];
    let p = prior(kind, 1);
    let family = kind.build::<f64>(&p);
    let (counts, stats) = tied_stats(family.as_ref(), 1, &groups);
    let clusters = family.global_step(Estimate::Posterior, &counts, &stats, None).unwrap();
    let density = ln_gamma_density(0.5 * p.nu, 0.5 * p.variance[0] * (p.nu - 2.0));
    let joint = |t: f64| {
        let precision = t.exp();
        let over_mean = |rows: &[f64]| {
            let at = |m: f64| {
                let of_rows: f64 = rows.iter().map(|&x| ln_normal(x, m, precision)).sum();
                ln_normal(m, p.center[0], p.kappa * precision) + of_rows
            };
            log_integral(at, -1.0 - 12.0 / precision.sqrt(), 3.0 + 12.0 / precision.sqrt(), 900)
        };
        density(precision) + t + over_mean(&groups[0]) + over_mean(&groups[1])
    };
    let own = clusters.own_data_term();
    close(own, log_integral(joint, -12.0, 6.0, 1500), 1e-6, "two tied clusters");
    close(clusters.data_term(&counts, &stats), own, 1e-10, "its own statistics");
}

/// Counts and statistics of rows that belong to one cluster each.
fn tied_stats(family: &dyn Likelihood<f64>, dim: usize, groups: &[Vec<f64>]) -> (Vec<f64>, Vec<f64>) {
    let counts: Vec<f64> = groups.iter().map(|rows| (rows.len() / dim) as f64).collect();
    let mut stats = family.no_statistics(groups.len()).stats;
    let (own, shared) = stats.split_at_mut(groups.len() * family.stat_width());
    for (rows, stat) in groups.iter().zip(own.chunks_exact_mut(family.stat_width())) {
        let rows = block(LikelihoodKind::TiedGauss, dim, rows);
        let members: Vec<u32> = (0..rows.len() as u32).collect();
        family.accumulate(&rows, &members, &vec![1.0; rows.len()], &mut Scratch::default(), stat);
        family.accumulate_shared(&rows, &members, &vec![1.0; rows.len()], shared);
    }
    (counts, stats)
}

/// The joint mode of one precision and several means: no parameters nearby do better, and the priors of the clusters are
/// the prior of all.
#[test]
fn no_nearby_parameters_beat_the_map_estimate_of_tied_clusters() {
    let (kind, dim) = (LikelihoodKind::TiedGauss, 3);
    let family = kind.build::<f64>(&prior(kind, dim));
    let groups: Vec<Vec<f64>> = (0..3).map(|k| some_rows(kind, dim, 4 + k, 20 + k as u64)).collect();
    let (counts, stats) = tied_stats(family.as_ref(), dim, &groups);
    let best = family.global_step(Estimate::Map, &counts, &stats, None).unwrap();
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    for _ in 0..300 {
        let arrays: Vec<NamedArray> = best.arrays().into_iter().map(|a| perturbed(kind, a, dim, &mut rng)).collect();
        let other = family.clusters_of(&arrays).unwrap().data_term(&counts, &stats);
        assert!(other <= best.own_data_term() + 1e-10, "{other} beats {}", best.own_data_term());
    }
    let nothing = best.data_term(&[0.0; 3], &family.no_statistics(3).stats);
    close(best.log_prior().iter().sum(), nothing, 1e-10, "prior");
}

fn normal(rng: &mut ChaCha8Rng) -> f64 {
    (-2.0 * (1.0 - rng.random::<f64>()).ln()).sqrt() * (std::f64::consts::TAU * rng.random::<f64>()).cos()
}

/// A draw from a Wishart with a diagonal B, as a sum of outer products of normal vectors: whole degrees of freedom.
fn wishart_2(nu: usize, b: &[f64], rng: &mut ChaCha8Rng) -> [f64; 3] {
    let mut w = [0.0; 3];
    for _ in 0..nu {
        let (u, v) = (normal(rng) / b[0].sqrt(), normal(rng) / b[1].sqrt());
        w[0] += u * u;
        w[1] += u * v;
        w[2] += v * v;
    }
    w
}

/// The multivariate normalisers, in two dimensions: average the likelihood over draws from the prior.
#[test]
fn evidence_in_two_dimensions_is_the_average_over_the_prior() {
    let x = [[0.5, -0.2], [-0.8, 0.6]];
    for kind in [LikelihoodKind::ZeroMeanGauss, LikelihoodKind::Gauss, LikelihoodKind::TiedGauss] {
        let p = prior(kind, 2);
        let b: Vec<f64> = p.variance.iter().map(|v| v * (p.nu - 3.0)).collect();
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let draws = 1_000_000;
        let mut sum = 0.0;
        for _ in 0..draws {
            let [a, c, d] = wishart_2(p.nu as usize, &b, &mut rng);
            let det = a * d - c * c;
            let mut mean = [0.0, 0.0];
            if kind.family().has_means {
                // m = m0 + (kappa Phi)^-1/2 z with the inverse of the Cholesky factor of Phi.
                let (l11, l21) = (a.sqrt(), c / a.sqrt());
                let l22 = (d - l21 * l21).sqrt();
                let (z1, z2) = (normal(&mut rng), normal(&mut rng));
                let y2 = z2 / l22;
                let y1 = (z1 - l21 * y2) / l11;
                mean = [p.center[0] + y1 / p.kappa.sqrt(), p.center[1] + y2 / p.kappa.sqrt()];
            }
            let log_lik: f64 = x
                .iter()
                .map(|row| {
                    let (u, v) = (row[0] - mean[0], row[1] - mean[1]);
                    0.5 * det.ln() - std::f64::consts::TAU.ln() - 0.5 * (a * u * u + 2.0 * c * u * v + d * v * v)
                })
                .sum();
            sum += log_lik.exp();
        }
        let sampled = (sum / draws as f64).ln();
        close(evidence(kind, 2, &x.concat()), sampled, 0.004, kind.name());
    }
}

/// Rows of a family for the tests that need no more than legal values.
fn some_rows(kind: LikelihoodKind, dim: usize, num: usize, seed: u64) -> Vec<f64> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    (0..num * dim)
        .map(|_| match kind {
            LikelihoodKind::Multinomial | LikelihoodKind::Poisson => rng.random_range(0..4) as f64,
            LikelihoodKind::Bernoulli => f64::from(rng.random::<bool>()),
            _ => 0.3 + normal(&mut rng),
        })
        .collect()
}

/// What clusters are worth by themselves is the same whether clusters are made or not, where rows may lack values too.
#[test]
fn the_evidence_of_statistics_is_the_data_term_of_their_posterior() {
    const K: usize = 11;
    let dim = 5;
    for kind in LikelihoodKind::ALL.into_iter().filter(|kind| !kind.family().shares_covariance) {
        for missing in [false, true].into_iter().filter(|missing| !missing || kind.family().allows_missing) {
            let prior = prior(kind, dim);
            let own_variance = if missing { vec![2.0, 0.0, 3.0, 0.0, 0.0] } else { Vec::new() };
            let family = kind.build::<f64>(&Prior { missing, own_variance, ..prior });
            let mut summary = family.no_statistics(K);
            let rows = block(kind, dim, &some_rows(kind, dim, 4 * K, 6));
            for (k, stat) in summary.stats.chunks_exact_mut(family.stat_width()).enumerate() {
                let (members, resp) =
                    (4 * k as u32..4 * k as u32 + 4, [1.0, 0.5, 0.2, 0.9].map(|r| r * (k + 1) as f64));
                family.accumulate(&rows, &members.collect::<Vec<_>>(), &resp, &mut Scratch::default(), stat);
                summary.counts[k] = resp.iter().sum();
            }
            let worths = family.evidence(&summary.counts, &summary.stats).unwrap();
            for (k, worth) in worths.iter().enumerate() {
                let (count, stat) = (summary.counts[k], summary.stat(k));
                let alone = family.global_step(Estimate::Posterior, &[count], stat, None).unwrap();
                close(*worth, alone.own_data_term(), 1e-11, &format!("{kind:?} {missing} {k}"));
            }
            assert_eq!(worths.len(), K);
        }
    }
}

/// Weights that are made for rows as lanes are those that are made row by row, with as many clusters as take two groups.
#[test]
fn weights_of_a_tile_have_the_bits_of_weights_of_rows() {
    const K: usize = 23;
    let dim = 5;
    let mut families = 0;
    for kind in LikelihoodKind::ALL {
        for estimate in [Estimate::Posterior, Estimate::Map] {
            let family = kind.build::<f64>(&prior(kind, dim));
            let mut summary = family.no_statistics(K);
            let (own, shared) = summary.stats.split_at_mut(K * family.stat_width());
            let rows = block(kind, dim, &some_rows(kind, dim, 4 * K, 5));
            for (k, stat) in own.chunks_exact_mut(family.stat_width()).enumerate() {
                let members: Vec<u32> = (4 * k as u32..4 * k as u32 + 4).collect();
                family.accumulate(&rows, &members, &[1.0, 0.5, 0.2, 0.9], &mut Scratch::default(), stat);
            }
            let everybody: Vec<u32> = (0..4 * K as u32).collect();
            family.accumulate_shared(&rows, &everybody, &vec![0.65; 4 * K], shared);
            let clusters = family.global_step(estimate, &[2.6; K], &summary.stats, None).unwrap();
            let (range, tile_rows) = (3..3 + 21, <f64 as lsparse_kernels::Real>::TILE);
            let (mut weights, mut tile) = (vec![-1.5; 21 * K], vec![-1.5; K * tile_rows]);
            let mut scratch = Scratch::default();
            if !clusters.add_log_lik_tile(&rows, range.clone(), &mut scratch, &mut tile) {
                assert!(tile.iter().all(|w| *w == -1.5), "{}", kind.name());
                continue;
            }
            families += 1;
            clusters.add_log_lik(&rows, range, &mut scratch, &mut weights);
            for (n, k) in (0..21).flat_map(|n| (0..K).map(move |k| (n, k))) {
                assert_eq!(tile[k * tile_rows + n], weights[n * K + k], "{} row {n} cluster {k}", kind.name());
            }
        }
    }
    assert_eq!(families, 10, "five families of Gaussians, two estimates");
}

/// The data term is linear in the statistics, and its slope is the expected log likelihood that weighs rows.
#[test]
fn the_weights_of_rows_are_the_slope_of_the_data_term() {
    for kind in LikelihoodKind::ALL {
        for estimate in [Estimate::Posterior, Estimate::Map, Estimate::MaxLikelihood] {
            let dim = 3;
            let family = kind.build::<f64>(&prior(kind, dim));
            let rows = block(kind, dim, &some_rows(kind, dim, 9, 1));
            let resp = [0.9, 0.2, 0.7, 1.0, 0.4, 0.3, 0.8, 0.6, 0.5];
            let (count, stat) = stats(family.as_ref(), &rows, &resp);
            let clusters = family.global_step(estimate, &[count], &stat, None).unwrap();
            let other = [0.1, 0.5, 0.9, 0.3, 0.3, 0.8, 0.2, 0.4, 1.0];
            let (other_count, other_stat) = stats(family.as_ref(), &rows, &other);
            let slope: f64 = log_lik(clusters.as_ref(), &rows)
                .iter()
                .zip(other.iter().zip(&resp))
                .map(|(w, (a, b))| w * (a - b))
                .sum();
            let difference = clusters.data_term(&[other_count], &other_stat) - clusters.own_data_term();
            close(difference, slope, 1e-9, &format!("{} {estimate:?}", kind.name()));
        }
    }
}

/// `E[log F]` under a posterior in one dimension, by integration against q.
#[test]
fn expected_log_likelihoods_are_averages_over_the_posterior() {
    let x = [0.4, -1.7, 0.9];
    let p = prior(LikelihoodKind::DiagGauss, 1);
    let (n, sum): (f64, f64) = (3.0, x.iter().map(|v| v - p.center[0]).sum());
    let kappa = p.kappa + n;
    let mean = sum / kappa;
    let scatter: f64 = x.iter().map(|v| (v - p.center[0] - mean).powi(2)).sum::<f64>() + p.kappa * mean * mean;
    let beta = p.variance[0] * (p.nu - 2.0) + scatter;
    let shape = 0.5 * (p.nu + n);
    let q = ln_gamma_density(shape, 0.5 * beta);
    let at = 1.1;
    // E[log N(at | mu, 1/t)] = E_t[log N(at | m, 1/t) - 1/(2 kappa)], the mean's variance being 1/(kappa t).
    let inner = |t: f64| ln_normal(at, p.center[0] + mean, t.exp()) - 0.5 / kappa;
    let positive = log_integral(|t| q(t.exp()) + t + (inner(t) + 1000.0).ln(), -20.0, 5.0, 40_000).exp() - 1000.0;
    for kind in LikelihoodKind::ALL.into_iter().filter(|kind| kind.family().has_means) {
        let family = kind.build::<f64>(&prior(kind, 1));
        let (count, stat) = stats(family.as_ref(), &block(kind, 1, &x), &[1.0; 3]);
        let clusters = family.global_step(Estimate::Posterior, &[count], &stat, None).unwrap();
        let found = log_lik(clusters.as_ref(), &block(kind, 1, &[at]))[0];
        close(found, positive, 1e-5, kind.name());
    }
}

/// The MAP estimate is the highest point of its objective: no nearby parameters do better.
#[test]
fn no_nearby_parameters_beat_the_map_estimate() {
    for kind in LikelihoodKind::ALL {
        let dim = 3;
        let family = kind.build::<f64>(&prior(kind, dim));
        let rows = block(kind, dim, &some_rows(kind, dim, 12, 2));
        let (count, stat) = stats(family.as_ref(), &rows, &[0.7; 12]);
        let best = family.global_step(Estimate::Map, &[count], &stat, None).unwrap();
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        for _ in 0..200 {
            let arrays: Vec<NamedArray> =
                best.arrays().into_iter().map(|a| perturbed(kind, a, dim, &mut rng)).collect();
            let other = family.clusters_of(&arrays).unwrap().data_term(&[count], &stat);
            assert!(other <= best.own_data_term() + 1e-10, "{}: {other} beats {}", kind.name(), best.own_data_term());
        }
    }
}

/// Nearby legal parameters: symmetric covariances, probabilities that sum to one.
fn perturbed(kind: LikelihoodKind, mut array: NamedArray, dim: usize, rng: &mut ChaCha8Rng) -> NamedArray {
    for v in &mut array.values {
        *v *= 1.0 + 0.02 * normal(rng);
    }
    match (kind, array.name) {
        (_, "covariances") => {
            for i in 0..dim {
                for j in 0..i {
                    array.values[i * dim + j] = array.values[j * dim + i];
                }
            }
        }
        (LikelihoodKind::Multinomial, _) => {
            let sum: f64 = array.values.iter().sum();
            array.values.iter_mut().for_each(|v| *v /= sum);
        }
        (LikelihoodKind::Bernoulli, _) => array.values.iter_mut().for_each(|v| *v = v.clamp(1e-6, 1.0 - 1e-6)),
        _ => {}
    }
    array
}

/// The MAP prior is a density: it integrates to one.
#[test]
fn map_priors_integrate_to_one() {
    let kind = LikelihoodKind::ZeroMeanGauss;
    let family = kind.build::<f64>(&prior(kind, 1));
    let log_prior = |variance: f64| {
        let arrays = [NamedArray::new("covariances", vec![1, 1, 1], vec![variance])];
        family.clusters_of(&arrays).unwrap().log_prior()[0]
    };
    close(log_integral(|t| log_prior((-t).exp()) + t, -30.0, 8.0, 20_000), 0.0, 1e-8, kind.name());

    for kind in LikelihoodKind::ALL.into_iter().filter(|kind| kind.family().has_means) {
        let family = kind.build::<f64>(&prior(kind, 1));
        let log_prior = |mean: f64, variance: f64| {
            let spread = match kind {
                LikelihoodKind::Gauss => NamedArray::new("covariances", vec![1, 1, 1], vec![variance]),
                LikelihoodKind::TiedGauss => NamedArray::new("covariances", vec![1, 1], vec![variance]),
                LikelihoodKind::SphericalGauss => NamedArray::new("variances", vec![1], vec![variance]),
                _ => NamedArray::new("variances", vec![1, 1], vec![variance]),
            };
            family.clusters_of(&[NamedArray::new("means", vec![1, 1], vec![mean]), spread]).unwrap().log_prior()[0]
        };
        let over_mean = |t: f64| {
            let reach = 15.0 * (-0.5 * t).exp();
            log_integral(|m| log_prior(m, (-t).exp()), 0.3 - reach, 0.3 + reach, 300) + t
        };
        close(log_integral(over_mean, -15.0, 6.0, 800), 0.0, 1e-5, kind.name());
    }

    let multinomial = LikelihoodKind::Multinomial.build::<f64>(&prior(LikelihoodKind::Multinomial, 2));
    let density = |a: f64, b: f64| {
        multinomial.clusters_of(&[NamedArray::new("probabilities", vec![1, 2], vec![a, b])]).unwrap().log_prior()[0]
    };
    close(logit_integral(density), 0.0, 1e-6, "multinomial");
    let bernoulli = LikelihoodKind::Bernoulli.build::<f64>(&prior(LikelihoodKind::Bernoulli, 1));
    let density = |a: f64, _: f64| {
        bernoulli.clusters_of(&[NamedArray::new("probabilities", vec![1, 1], vec![a])]).unwrap().log_prior()[0]
    };
    close(logit_integral(density), 0.0, 1e-6, "bernoulli");
    let poisson = LikelihoodKind::Poisson.build::<f64>(&prior(LikelihoodKind::Poisson, 1));
    let density = |t: f64| {
        poisson.clusters_of(&[NamedArray::new("rates", vec![1, 1], vec![t.exp()])]).unwrap().log_prior()[0] + t
    };
    close(log_integral(density, -40.0, 8.0, 20_000), 0.0, 1e-6, "poisson");
}

/// The score a row has by itself is that of the MAP cluster made from it alone, so divergences are never negative. Where
/// there is a closed form of divergences it says the same, in single precision too.
#[test]
fn a_row_fits_its_own_cluster_best() {
    for kind in LikelihoodKind::ALL {
        let dim = 4;
        let family = kind.build::<f64>(&prior(kind, dim));
        let rows = block(kind, dim, &some_rows(kind, dim, 8, 4));
        let mut own = vec![0.0; 8];
        family.own_score(&rows, 0..8, &mut own);
        let single = kind.build::<f32>(&prior(kind, dim));
        let rows_in_single: Vec<f32> = some_rows(kind, dim, 8, 4).iter().map(|&x| x as f32).collect();
        let rows_in_single = Rows::Dense { dim, values: rows_in_single };
        let closed_form = [LikelihoodKind::ZeroMeanGauss, LikelihoodKind::Gauss].contains(&kind);
        assert_eq!(family.divergences(&rows).is_some(), closed_form);
        for seed in 0..8 {
            let mut closed = [vec![0.0; 8], vec![0.0; 8]];
            if let Some(divergences) = family.divergences(&rows) {
                divergences.away_from(seed)(0..8, &mut closed[0]);
                let divergences = single.divergences(&rows_in_single).expect("in single precision too");
                divergences.away_from(seed)(0..8, &mut closed[1]);
            }
            let mut resp = [0.0; 8];
            resp[seed] = 1.0;
            let (count, stat) = stats(family.as_ref(), &rows, &resp);
            let cluster = family.global_step(Estimate::Map, &[count], &stat, None).unwrap();
            let prior = cluster.log_prior()[0];
            for (n, w) in log_lik(cluster.as_ref(), &rows).iter().enumerate() {
                let divergence = own[n] - w - prior;
                assert!(divergence > -1e-9, "{}: {divergence}", kind.name());
                if closed_form {
                    close(closed[0][n], divergence.max(0.0), 1e-9, "closed form");
                    close(closed[1][n], divergence.max(0.0), 1e-4, "closed form in single precision");
                }
                if n == seed {
                    close(divergence, 0.0, 1e-9, kind.name());
                }
            }
        }
    }
}

/// Maximum likelihood: the data term is the plain log likelihood, computed here without any of the library's algebra.
#[test]
fn the_maximum_likelihood_data_term_is_the_log_likelihood() {
    let x = some_rows(LikelihoodKind::Gauss, 2, 10, 7);
    let kind = LikelihoodKind::Gauss;
    let family = kind.build::<f64>(&prior(kind, 2));
    let (count, stat) = stats(family.as_ref(), &block(kind, 2, &x), &[1.0; 10]);
    let clusters = family.global_step(Estimate::MaxLikelihood, &[count], &stat, None).unwrap();
    let mean = |d: usize| x.iter().skip(d).step_by(2).sum::<f64>() / 10.0;
    let (m0, m1) = (mean(0), mean(1));
    let moment = |f: &dyn Fn(f64, f64) -> f64| x.chunks_exact(2).map(|r| f(r[0] - m0, r[1] - m1)).sum::<f64>() / 10.0;
    let (a, c, d) = (moment(&|u, _| u * u), moment(&|u, v| u * v), moment(&|_, v| v * v));
    let det = a * d - c * c;
    let naive: f64 = x
        .chunks_exact(2)
        .map(|r| {
            let (u, v) = (r[0] - m0, r[1] - m1);
            let quad = (d * u * u - 2.0 * c * u * v + a * v * v) / det;
            -std::f64::consts::TAU.ln() - 0.5 * det.ln() - 0.5 * quad
        })
        .sum();
    close(clusters.own_data_term(), naive, 1e-10, "ml");
    close(log_lik(clusters.as_ref(), &block(kind, 2, &x)).iter().sum(), naive, 1e-10, "ml weights");
}

/// The held-out score against an independent scorer.
#[test]
fn scores_agree_with_a_naive_scorer() {
    let truth = lsparse::synthetic::planted(LikelihoodKind::Gauss, 300, 2, 3, 9);
    let source = MemoryRows::new("planted", 2, truth.values.clone()).unwrap();
    let model = fit_mixture(&source, &MixtureConfig { clusters: 3, ..Default::default() }).unwrap().model;
    let values = |name: &str| &model.array(name).unwrap().values;
    let (means, covariances) = (values("means"), values("covariances"));
    let naive = |row: &[f64]| -> f64 {
        (0..3)
            .map(|k| {
                // The scale matrix of the Student t from the expected covariance; in two columns the gamma functions
                // and their powers leave 1 / (2 pi sqrt |S|).
                let (degrees, count) = (values("degrees")[k] - 1.0, values("mean_counts")[k]);
                let wider = (degrees - 2.0) / degrees * (count + 1.0) / count;
                let s: Vec<f64> = covariances[k * 4..k * 4 + 4].iter().map(|s| s * wider).collect();
                let det = s[0] * s[3] - s[1] * s[2];
                let (u, v) = (row[0] - means[2 * k], row[1] - means[2 * k + 1]);
                let quad = (s[3] * u * u - (s[1] + s[2]) * u * v + s[0] * v * v) / det;
                let tail = (1.0 + quad / degrees).powf(-0.5 * (degrees + 2.0));
                model.weights[k] * tail / (std::f64::consts::TAU * det.sqrt())
            })
            .sum::<f64>()
            .ln()
    };
    let scores = model.score(&source).unwrap();
    for (row, score) in truth.values.chunks_exact(2).zip(&scores.log_density) {
        close(*score, naive(row), 1e-9, "row score");
    }
    assert_eq!(scores.num_parameters, 2 + 3 * 5);
    close(scores.bic(), 17.0 * 300f64.ln() - 2.0 * scores.total(), 1e-12, "bic");
}

/// With whole counts the allocation term is the Polya urn's probability of the assignments.
#[test]
fn the_allocation_term_is_the_probability_of_the_assignments() {
    let counts = [3.0, 0.0, 2.0];
    let alpha = 1.7;
    let mut urn = [alpha / 3.0; 3];
    let mut log_probability = 0.0;
    for k in [0usize, 2, 0, 0, 2] {
        log_probability += (urn[k] / urn.iter().sum::<f64>()).ln();
        urn[k] += 1.0;
    }
    let term = Allocation::Dirichlet { alpha }.term(Estimate::Posterior, &counts);
    close(term, log_probability, 1e-12, "vb");
    let ml = Allocation::Dirichlet { alpha }.term(Estimate::MaxLikelihood, &counts);
    close(ml, 3.0 * 0.6f64.ln() + 2.0 * 0.4f64.ln(), 1e-12, "ml");
}

/// Clusters that are given become statistics whose maximum likelihood clusters they are.
#[test]
fn statistics_of_given_clusters_give_them_back() {
    for kind in LikelihoodKind::ALL {
        let (clusters, dim, counts) = (3, 4, [10.0, 2.5, 40.0]);
        let family = kind.build::<f64>(&prior(kind, dim));
        let arrays = (kind.family().plant)(clusters, dim, &mut ChaCha8Rng::seed_from_u64(7));
        let Some(stats) = family.statistics_of(&counts, &arrays).unwrap() else {
            assert!(!kind.family().spread.is_of_variances(), "{}", kind.name());
            continue;
        };
        assert_eq!(stats.len(), clusters * family.stat_width() + family.shared_width());
        let found = family.global_step(Estimate::MaxLikelihood, &counts, &stats, None).unwrap().arrays();
        for given in &arrays {
            let found = &found.iter().find(|array| array.name == given.name).unwrap().values;
            for (a, b) in found.iter().zip(&given.values) {
                assert!((a - b).abs() < 1e-9 * (1.0 + b.abs()), "{} {}: {a} and {b}", kind.name(), given.name);
            }
        }
    }
}
