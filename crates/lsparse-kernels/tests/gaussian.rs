//! Tiles, quadratic forms and weighted moments against plain loops, at every level.

mod common;

use common::{assert_near, at_every_level, random, random_positive, rng};
use lsparse_kernels::{
    PANEL, Real, RunningMoments, TriangularPack, cross_products, diag_quad_forms, dot_f64, log_form_sums, row_offsets,
    row_products, running_moments, square_distances, transpose_tile, triangular_product, weighted_gram,
    weighted_moments, weighted_square_sum, weighted_sum,
};
use rand::RngExt;

#[test]
fn transpose_tile_moves_every_entry() {
    fn check<T: Real>() {
        let mut rng = rng(1);
        for dim in [1, 2, 7, 8, 9, 33, 64] {
            for num in [0, 1, 5, T::TILE - 1, T::TILE] {
                let rows = random::<T>(&mut rng, num * dim);
                let mut tile = random::<T>(&mut rng, dim * T::TILE);
                transpose_tile(&rows, dim, &mut tile);
                for d in 0..dim {
                    for r in 0..T::TILE {
                        let expected = if r < num { rows[r * dim + d] } else { T::ZERO };
                        assert_eq!(tile[d * T::TILE + r], expected);
                    }
                }
            }
        }
    }
    check::<f32>();
    check::<f64>();
}

fn quad_forms_of<T: Real>(dims: impl Iterator<Item = usize> + Clone, level: &str) {
    let mut rng = rng(2);
    let mut scratch = Vec::new();
    for dim in dims {
        let num = 3;
        let mut pack = TriangularPack::<T>::new(num, dim);
        let factors: Vec<Vec<f64>> =
            (0..num).map(|_| random::<T>(&mut rng, dim * dim).iter().map(|x| x.to_f64()).collect()).collect();
        for (k, factor) in factors.iter().enumerate() {
            pack.set(k, factor);
        }
        let rows = random::<T>(&mut rng, T::TILE * dim);
        let mut tile = vec![T::ZERO; dim * T::TILE];
        transpose_tile(&rows, dim, &mut tile);
        let mean = random::<T>(&mut rng, dim);
        for k in [2, 0, 1] {
            for shift in [None, Some(&mean[..])] {
                let mut out = random::<T>(&mut rng, T::TILE);
                pack.quad_forms(k, &tile, shift, &mut scratch, &mut out);
                for r in 0..T::TILE {
                    let mut expected = 0.0;
                    for i in 0..dim {
                        let y: f64 = (0..=i)
                            .map(|j| {
                                let m = shift.map_or(0.0, |shift| shift[j].to_f64());
                                factors[k][i * dim + j] * (rows[r * dim + j].to_f64() - m)
                            })
                            .sum();
                        expected += y * y;
                    }
                    let what = format!("{level} {} dim {dim} k {k} row {r}", T::NAME);
                    assert_near::<T>(out[r].to_f64(), expected, 20.0, 1.0 + expected, &what);
                }
            }
        }
    }
}

#[test]
fn quad_forms_match_the_product() {
    at_every_level(|level| {
        quad_forms_of::<f32>((1..=70).chain([100, 131]), level);
        quad_forms_of::<f64>((1..=70).chain([100, 131]), level);
    });
}

#[test]
fn quad_forms_ignore_what_is_above_the_diagonal() {
    let mut pack = TriangularPack::<f64>::new(1, 2);
    pack.set(0, &[2.0, f64::NAN, 3.0, 4.0]);
    let mut tile = vec![0.0; 2 * f64::TILE];
    transpose_tile(&[1.0, 1.0, 0.0, 2.0], 2, &mut tile);
    let mut out = vec![0.0; f64::TILE];
    pack.quad_forms(0, &tile, None, &mut Vec::new(), &mut out);
    assert_eq!(&out[..3], &[4.0 + 49.0, 64.0, 0.0]);
}

#[test]
fn diag_quad_forms_match_the_sum() {
    fn check<T: Real>(level: &str) {
        let mut rng = rng(3);
        for (dim, clusters) in [(1, 1), (2, 0), (3, 2), (17, 5), (64, 1), (70, 4)] {
            let tile = random::<T>(&mut rng, dim * T::TILE);
            let mean = random::<T>(&mut rng, clusters * dim);
            let precision = random_positive::<T>(&mut rng, clusters * dim);
            let mut out = random::<T>(&mut rng, clusters * T::TILE);
            diag_quad_forms(&tile, dim, &mean, &precision, &mut out);
            let shapes = mean.chunks_exact(dim).zip(precision.chunks_exact(dim));
            for ((mean, precision), out) in shapes.zip(out.chunks_exact(T::TILE)) {
                for r in 0..T::TILE {
                    let expected: f64 = (0..dim)
                        .map(|d| {
                            let x = tile[d * T::TILE + r].to_f64() - mean[d].to_f64();
                            precision[d].to_f64() * x * x
                        })
                        .sum();
                    let what = format!("{level} {} dim {dim} row {r}", T::NAME);
                    assert_near::<T>(out[r].to_f64(), expected, 10.0, 1.0 + expected, &what);
                }
                // Alone it has the same bits.
                let mut alone = vec![T::ZERO; T::TILE];
                diag_quad_forms(&tile, dim, mean, precision, &mut alone);
                assert!(alone == out, "{level}");
            }
        }
    }
    at_every_level(|level| {
        check::<f32>(level);
        check::<f64>(level);
    });
}

#[test]
fn weighted_moments_match_the_sums() {
    fn check<T: Real>(level: &str) {
        let mut rng = rng(4);
        let mut scratch = Vec::new();
        for dim in (1..=70).chain([100]) {
            let num = if dim % 7 == 0 { 600 } else { rng.random_range(0..40) };
            let rows = random::<T>(&mut rng, num * dim);
            let weights = random_positive::<T>(&mut rng, num);
            let start = random::<f64>(&mut rng, dim * (dim + 1) / 2);
            let (mut gram, mut sum) = (start.clone(), start[..dim].to_vec());
            let mut square = sum.clone();
            weighted_gram(&rows, &weights, dim, &mut scratch, &mut gram);
            weighted_sum(&rows, &weights, dim, &mut sum);
            weighted_square_sum(&rows, &weights, dim, &mut square);
            let x = |m: usize, i: usize| rows[m * dim + i].to_f64();
            let what = format!("{level} {} dim {dim} num {num}", T::NAME);
            let scale = 1.0 + num as f64;
            for i in 0..dim {
                let total = |f: &dyn Fn(usize) -> f64| -> f64 { (0..num).map(|m| weights[m].to_f64() * f(m)).sum() };
                let expected = start[i] + total(&|m| x(m, i));
                assert_near::<T>(sum[i], expected, 4.0, scale, &what);
                let expected = start[i] + total(&|m| x(m, i) * x(m, i));
                assert_near::<T>(square[i], expected, 4.0, scale, &what);
                for j in 0..=i {
                    let at = i * (i + 1) / 2 + j;
                    let expected = start[at] + total(&|m| x(m, i) * x(m, j));
                    assert_near::<T>(gram[at], expected, 4.0, scale, &what);
                }
            }
        }
    }
    at_every_level(|level| {
        check::<f32>(level);
        check::<f64>(level);
    });
}

/// Rows whose entries sum to zero have no variance along (1, ..., 1), as patches without their means do.
#[test]
fn a_direction_without_variance_keeps_none() {
    const DIM: usize = 64;
    at_every_level(|level| {
        let mut rng = rng(6);
        let mut rows = Vec::new();
        for _ in 0..4096 {
            let (slope, wave) = (rng.random::<f64>() - 0.5, rng.random::<f64>() - 0.5);
            let row: Vec<f64> =
                (0..DIM).map(|d| slope * (d as f64 / 32.0 - 1.0) + wave * (d as f64 / 4.0).cos()).collect();
            let mean = row.iter().sum::<f64>() / DIM as f64;
            rows.extend(row.iter().map(|x| (x - mean) as f32));
        }
        let mut gram = vec![0.0; DIM * (DIM + 1) / 2];
        weighted_gram(&rows, &vec![1.0f32; 4096], DIM, &mut Vec::new(), &mut gram);
        let diagonal: f64 = (0..DIM).map(|i| gram[i * (i + 1) / 2 + i]).sum();
        let along = (2.0 * gram.iter().sum::<f64>() - diagonal) / DIM as f64;
        // Summing 256 rows in single precision gives 5e-10 and more.
        assert!(along.abs() < 2e-10 * diagonal, "{level}: {:.1e}", along / diagonal);
    });
}

#[test]
fn dot_matches_the_sum() {
    at_every_level(|level| {
        let mut rng = rng(5);
        for len in (0..70).chain([1000, 1001]) {
            let (a, b) = (random::<f64>(&mut rng, len), random::<f64>(&mut rng, len));
            let expected: f64 = a.iter().zip(&b).map(|(a, b)| a * b).sum();
            assert_near::<f64>(dot_f64(&a, &b), expected, 4.0, 1.0 + len as f64, level);
        }
    });
}

#[test]
fn square_distances_match_the_sum_whatever_points_there_are() {
    fn check<T: Real>(level: &str) {
        let mut rng = rng(7);
        for dim in [1, 2, 5, 16, 33] {
            for num in [1, 2, 3, 4, 5, 6, 11] {
                let tile = random::<T>(&mut rng, dim * T::TILE);
                let points = random::<T>(&mut rng, num * dim);
                let mut out = vec![T::ZERO; num * T::TILE];
                square_distances(&tile, dim, &points, &mut out);
                for k in 0..num {
                    let mut alone = vec![T::ZERO; T::TILE];
                    square_distances(&tile, dim, &points[k * dim..(k + 1) * dim], &mut alone);
                    assert_eq!(alone, out[k * T::TILE..(k + 1) * T::TILE]);
                    for r in 0..T::TILE {
                        let away = |d: usize| tile[d * T::TILE + r].to_f64() - points[k * dim + d].to_f64();
                        let expected: f64 = (0..dim).map(|d| away(d).powi(2)).sum();
                        let what = format!("{level} {} dim {dim} point {k} row {r}", T::NAME);
                        assert_near::<T>(alone[r].to_f64(), expected, 20.0, 1.0 + expected, &what);
                    }
                }
            }
        }
    }
    at_every_level(|level| {
        check::<f32>(level);
        check::<f64>(level);
    });
}

#[test]
fn row_products_match_the_sum_whatever_rows_there_are() {
    fn check<T: Real>(level: &str) {
        let mut rng = rng(11);
        for dim in [1, 2, 5, 16, 33, 64, 100] {
            for num in [0, 1, 2, 3, 4, 5, 11] {
                let (rows, vector) = (random::<T>(&mut rng, num * dim), random::<T>(&mut rng, dim));
                let mut out = vec![T::ZERO; num];
                row_products(&rows, &vector, &mut out);
                for (n, row) in rows.chunks_exact(dim).enumerate() {
                    let mut alone = [T::ZERO];
                    row_products(row, &vector, &mut alone);
                    assert_eq!(alone[0], out[n]);
                    let expected: f64 = row.iter().zip(&vector).map(|(x, y)| x.to_f64() * y.to_f64()).sum();
                    let what = format!("{level} {} dim {dim} row {n}", T::NAME);
                    assert_near::<T>(out[n].to_f64(), expected, 20.0, dim as f64, &what);
                }
            }
        }
    }
    at_every_level(|level| {
        check::<f32>(level);
        check::<f64>(level);
    });
}

#[test]
fn row_offsets_are_those_of_plain_loops() {
    fn check<T: Real>() {
        let mut rng = rng(12);
        for dim in [1, 3, 8, 17, 64] {
            let (rows, members) = (random::<T>(&mut rng, 9 * dim), [8, 0, 3, 3]);
            let (origin, scale) = (random::<f64>(&mut rng, dim), random::<f64>(&mut rng, dim));
            let mut out = vec![T::from_f64(7.0); 4 * dim];
            row_offsets(&rows, &members, (&origin, &scale), &mut out);
            for (i, out) in out.iter().enumerate() {
                let (m, d) = (members[i / dim] as usize, i % dim);
                assert_eq!(*out, T::from_f64((rows[m * dim + d].to_f64() - origin[d]) * scale[d]));
            }
            row_offsets(&rows, &[], (&origin, &scale), &mut []);
        }
        let beyond = || row_offsets(&[T::ZERO; 4], &[2], (&[0.0; 2], &[1.0; 2]), &mut [T::ZERO; 2]);
        assert!(std::panic::catch_unwind(beyond).is_err());
    }
    at_every_level(|_| {
        check::<f32>();
        check::<f64>();
    });
}

#[test]
fn triangular_products_match_plain_sums() {
    fn check<T: Real>(level: &str) {
        let mut rng = rng(8);
        for dim in [1, 2, 3, 4, 5, 8, 15, 33] {
            let tile = random::<T>(&mut rng, dim * T::TILE);
            let (lower, shift) = (random::<T>(&mut rng, dim * dim), random::<T>(&mut rng, dim));
            let mut out = vec![T::ZERO; dim * T::TILE];
            triangular_product(&lower, &tile, dim, &shift, &mut out);
            for r in 0..T::TILE {
                for c in 0..dim {
                    let term =
                        |d: usize| lower[c * dim + d].to_f64() * (tile[d * T::TILE + r].to_f64() - shift[d].to_f64());
                    let (sum, size): (f64, f64) = ((0..=c).map(term).sum(), (0..=c).map(|d| term(d).abs()).sum());
                    let what = format!("{level} {} dim {dim} row {r} column {c}", T::NAME);
                    assert_near::<T>(out[c * T::TILE + r].to_f64(), sum, 20.0, 1.0 + size, &what);
                }
            }
        }
    }
    at_every_level(|level| {
        check::<f32>(level);
        check::<f64>(level);
    });
}

#[test]
fn sums_of_logarithms_are_those_of_plain_loops() {
    at_every_level(|level| {
        let mut rng = rng(9);
        for dim in [1, 2, 7, 8, 9, 64, 100] {
            for rows in [8, 32, 64] {
                let tile = random::<f64>(&mut rng, dim * rows);
                let mean = random::<f64>(&mut rng, dim);
                // Rates of clusters with many rows and with few, and of one that a row is hopelessly far from.
                for scale in [1e-9, 1.0, 1e30] {
                    let rate: Vec<f64> = random_positive::<f64>(&mut rng, dim).iter().map(|r| r * scale).collect();
                    let mut out = vec![f64::NAN; rows];
                    log_form_sums(&tile, &mean, &rate, &mut out);
                    for r in 0..rows {
                        let terms = (0..dim).map(|d| (rate[d] * (tile[d * rows + r] - mean[d]).powi(2)).ln_1p());
                        let expected: f64 = terms.sum();
                        assert_near::<f64>(out[r], expected, 4.0, dim as f64 + expected, level);
                    }
                }
            }
        }
    });
}

#[test]
fn weighted_moments_have_the_bits_of_gathered_rows() {
    fn check<T: Real>(level: &str) {
        let mut rng = rng(21);
        for dim in [1, 3, 8, 31, 32, 40, 100] {
            for num in [0, 1, 255, 256, 700] {
                let rows = random::<T>(&mut rng, 900 * dim);
                let center: Vec<f64> = random(&mut rng, dim);
                let members: Vec<u32> = (0..num).map(|_| rng.random_range(0..900)).collect();
                let weights = random_positive::<T>(&mut rng, num);
                let (mut first, mut second): (Vec<f64>, Vec<f64>) = (random(&mut rng, dim), random(&mut rng, dim));
                let (mut slow_first, mut slow_second) = (first.clone(), second.clone());
                let mut alone = first.clone();
                weighted_moments(&rows, &members, &weights, &center, &mut first, &mut second);
                weighted_moments(&rows, &members, &weights, &center, &mut alone, &mut []);
                for (members, weights) in members.chunks(256).zip(weights.chunks(256)) {
                    let offset = |&m: &u32| {
                        let row = &rows[m as usize * dim..(m as usize + 1) * dim];
                        row.iter().zip(&center).map(|(x, c)| x.to_f64() - c).collect::<Vec<f64>>()
                    };
                    let gathered: Vec<f64> = members.iter().flat_map(offset).collect();
                    let weights: Vec<f64> = weights.iter().map(|w| w.to_f64()).collect();
                    weighted_sum(&gathered, &weights, dim, &mut slow_first);
                    weighted_square_sum(&gathered, &weights, dim, &mut slow_second);
                }
                assert_eq!((&first, &second), (&slow_first, &slow_second), "{level} {} {dim} x {num}", T::NAME);
                assert_eq!(alone, slow_first, "{level} {} {dim} x {num}", T::NAME);
            }
        }
    }
    at_every_level(|level| {
        check::<f32>(level);
        check::<f64>(level);
    });
}

#[test]
fn cross_products_match_the_sums() {
    fn check<T: Real>(level: &str) {
        let mut rng = rng(7);
        for rows in [0, 1, 2, 33, 300] {
            let (left, right) = (random::<T>(&mut rng, rows * PANEL), random::<T>(&mut rng, rows * PANEL));
            let start = random::<T>(&mut rng, PANEL * PANEL);
            let mut out = start.clone();
            cross_products(&left, &right, &mut out);
            for (i, j) in (0..PANEL).flat_map(|i| (0..PANEL).map(move |j| (i, j))) {
                let products = (0..rows).map(|m| left[m * PANEL + i].to_f64() * right[m * PANEL + j].to_f64());
                let expected = start[i * PANEL + j].to_f64() + products.sum::<f64>();
                let what = format!("{level} {} {rows} rows, entry {i}, {j}", T::NAME);
                assert_near::<T>(out[i * PANEL + j].to_f64(), expected, 4.0, 1.0 + rows as f64, &what);
            }
        }
    }
    at_every_level(|level| {
        check::<f32>(level);
        check::<f64>(level);
    });
}

#[test]
fn running_moments_have_the_bits_of_rows_added_one_by_one() {
    at_every_level(|level| {
        for dim in [1, 2, 3, 7, 8, 9, 16, 25, 33, 70] {
            let value = |i: usize| if i.is_multiple_of(5) { 0.0 } else { ((i * 7919) % 1013) as f64 / 7.0 - 60.0 };
            let rows: Vec<f64> = (0..dim * 40).map(value).collect();
            let mut expected = [(); 4].map(|()| vec![0.0f64; dim]);
            for (i, row) in rows.chunks_exact(dim).enumerate() {
                let [mean, spread, squares, largest] = &mut expected;
                for (d, &x) in row.iter().enumerate() {
                    let distance = x - mean[d];
                    mean[d] += distance * (1.0 / (i + 1) as f64);
                    spread[d] += distance * (x - mean[d]);
                    squares[d] += x * x;
                    largest[d] = largest[d].max(x.abs());
                }
            }
            let mut found = [(); 4].map(|()| vec![0.0f64; dim]);
            let [mean, spread, squares, largest] = &mut found;
            let nonzeros = running_moments(&rows, RunningMoments { mean, spread, squares, largest });
            assert_eq!(nonzeros, rows.iter().filter(|x| **x != 0.0).count() as u64, "{dim} columns at {level}");
            assert_eq!(found, expected, "{dim} columns at {level}");
        }
    });
}
