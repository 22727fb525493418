//! Gathered tiles, partial tiles, sketches and partial sums against plain loops, at every level.

mod common;

use common::{at_every_level, random, random_positive, rng};
use lsparse_kernels::{Limits, PartialPack, Real, SketchPack, TriangularPack, fill_sketch, gather_tile};

#[test]
fn gather_tile_moves_every_entry_of_the_rows_picked() {
    fn check<T: Real>(level: &str) {
        let mut rng = rng(1);
        for dim in [1, 3, 4, 5, 8, 33, 64] {
            let rows = random::<T>(&mut rng, 100 * dim);
            for num in [0, 1, 2, 3, 4, 5, T::TILE - 1, T::TILE] {
                let index: Vec<u32> = (0..num).map(|i| (i * 37 % 100) as u32).collect();
                let mut tile = random::<T>(&mut rng, dim * T::TILE);
                gather_tile(&rows, dim, &index, &mut tile);
                for d in 0..dim {
                    for (r, &i) in index.iter().enumerate() {
                        assert_eq!(tile[d * T::TILE + r], rows[i as usize * dim + d], "{level} {dim} {num}");
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
fn the_first_rows_of_a_tile_have_the_bits_of_the_whole() {
    fn check<T: Real>(level: &str) {
        let mut rng = rng(2);
        for dim in [1, 5, 6, 13, 64] {
            let factors: Vec<f64> = random::<f64>(&mut rng, dim * dim);
            let mut pack = TriangularPack::<T>::new(2, dim);
            pack.set(1, &factors);
            let mut copy = TriangularPack::<T>::new(2, dim);
            copy.factors_mut().nth(1).unwrap().copy_from_slice(pack.factor(1));
            let tile = random::<T>(&mut rng, dim * T::TILE);
            let mean = random::<T>(&mut rng, dim);
            for shift in [None, Some(&mean[..])] {
                let (mut whole, mut part) = (vec![T::ZERO; T::TILE], vec![T::ZERO; T::TILE]);
                let mut scratch = Vec::new();
                pack.quad_forms(1, &tile, shift, &mut scratch, &mut whole);
                for rows in 0..=T::TILE {
                    part.fill(T::ZERO);
                    copy.quad_forms_of_first(rows, 1, &tile, shift, &mut scratch, &mut part);
                    assert_eq!(part[..rows], whole[..rows], "{level} {dim} {rows}");
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
fn stages_add_up_squared_components_and_compare_them_with_the_limits() {
    fn check<T: Real>(level: &str) {
        let mut rng = rng(3);
        for dim in [1, 4, 7, 64] {
            let (num, stages) = (3, 2);
            let components = stages * SketchPack::<T>::COMPONENTS;
            let mut pack = SketchPack::<T>::new(num, dim, stages);
            let weights: Vec<Vec<f64>> = (0..num).map(|_| random::<f64>(&mut rng, components * dim)).collect();
            let offsets: Vec<Vec<f64>> = (0..num).map(|_| random::<f64>(&mut rng, components)).collect();
            for (packed, (w, c)) in pack.clusters_mut().zip(weights.iter().zip(&offsets)) {
                fill_sketch(packed, dim, c, w);
            }
            let tile = random::<T>(&mut rng, dim * T::TILE);
            let limit: Vec<T> = (0..T::TILE).map(|r| T::from_f64(r as f64 / 10.0)).collect();
            let norm = random::<T>(&mut rng, T::TILE);
            let (base, slope) = (T::from_f64(0.3), T::from_f64(0.2));
            for k in 0..num {
                let mut sums = random::<T>(&mut rng, T::TILE);
                for stage in 0..stages {
                    let limits = Limits { limit: &limit, norm: &norm, base, slope };
                    let bits = pack.stage(k, stage, &tile, limits, &mut sums);
                    for r in 0..T::TILE {
                        let mut expected = 0.0;
                        for i in 0..(stage + 1) * SketchPack::<T>::COMPONENTS {
                            let product = (0..dim).map(|d| weights[k][i * dim + d] * tile[d * T::TILE + r].to_f64());
                            expected += (offsets[k][i] + product.sum::<f64>()).powi(2);
                        }
                        let near = 100.0 * T::EPSILON * (1.0 + expected);
                        assert!((sums[r].to_f64() - expected).abs() < near, "{level}: {} {expected}", sums[r]);
                        let most = limit[r].to_f64() + 0.3 + 0.2 * norm[r].to_f64();
                        if (expected - most).abs() > near {
                            assert_eq!(bits >> r & 1 == 1, expected <= most, "{level} row {r}");
                        }
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
fn a_sum_that_is_not_a_number_rules_nothing_out() {
    at_every_level(|level| {
        let pack = SketchPack::<f32>::new(1, 1, 1);
        let tile = vec![f32::NAN; f32::TILE];
        let (limit, norm) = (vec![0.0; f32::TILE], vec![0.0; f32::TILE]);
        let limits = Limits { limit: &limit, norm: &norm, base: 0.0, slope: 0.0 };
        assert_eq!(pack.stage(0, 0, &tile, limits, &mut vec![0.0; f32::TILE]), u64::MAX, "{level}");
    });
}

#[test]
fn partial_sums_rule_out_what_the_whole_form_does() {
    fn check<T: Real>(level: &str) {
        let mut rng = rng(4);
        for dim in [1, 7, 8, 19, 64] {
            let mut pack = PartialPack::<T>::new(2, dim);
            let (mean, precision) = (random::<T>(&mut rng, dim), random_positive::<T>(&mut rng, dim));
            // 5 has no factor in common with the dimensions: every column once.
            let order: Vec<u32> = (0..dim).map(|i| (5 * i % dim) as u32).collect();
            pack.set(1, &order, &mean, &precision);
            let mut tile = random::<T>(&mut rng, dim * T::TILE);
            let limit: Vec<T> =
                (0..T::TILE).map(|r| T::from_f64(r as f64 / 40.0 * dim as f64 / T::TILE as f64)).collect();
            let base = T::from_f64(0.1);
            let sum = |tile: &[T], r: usize, columns: usize| -> f64 {
                let term = |&d: &u32| {
                    let d = d as usize;
                    precision[d].to_f64() * (tile[d * T::TILE + r].to_f64() - mean[d].to_f64()).powi(2)
                };
                order.iter().take(columns).map(term).sum()
            };
            // What a row is like whose sum of so many columns decides, unless rounding does.
            let clear = |r: usize, columns: usize| {
                let over = sum(&tile, r, columns) - limit[r].to_f64() - base.to_f64();
                (over.abs() > 100.0 * T::EPSILON * (1.0 + dim as f64)).then_some(over <= 0.0)
            };
            let (bits, terms) = pack.alive(1, &tile, &limit, base, 0);
            for r in 0..T::TILE {
                if let Some(stays) = clear(r, dim) {
                    assert_eq!(bits >> r & 1 == 1, stays, "{level} dim {dim} row {r}");
                }
            }
            assert!(terms <= dim.next_multiple_of(8) * T::TILE, "{level}");
            // With as many rows as there are being few, the first eight columns alone decide.
            let (bits, terms) = pack.alive(1, &tile, &limit, base, T::TILE as u32);
            assert_eq!(terms, 8 * T::TILE, "{level}");
            for r in 0..T::TILE {
                if let Some(stays) = clear(r, 8) {
                    assert_eq!(bits >> r & 1 == 1, stays, "{level} dim {dim} row {r} of the first stage");
                }
            }
            tile.fill(T::from_f64(f64::NAN));
            let all = u64::MAX >> (64 - T::TILE);
            assert_eq!(pack.alive(1, &tile, &limit, T::ZERO, 0).0, all, "{level}: not a number");
        }
    }
    at_every_level(|level| {
        check::<f32>(level);
        check::<f64>(level);
    });
}
