//! Selection, softmax and table sums against plain references, at every level.

mod common;

use common::{assert_near, at_every_level, random, rng};
use lsparse_kernels::{
    Real, add_table_rows, has_top_l_tile, log_sum_exp, softmax_rows, softmax_tile, top_l, top_l_tile, transpose_tile,
};
use rand::RngExt;

/// Full sort: descending weight, then ascending index.
fn reference<T: Real>(weights: &[T], l: usize) -> Vec<u32> {
    let mut order: Vec<u32> = (0..weights.len() as u32).collect();
    let weight = |i: u32| weights[i as usize];
    order.sort_by(|&a, &b| weight(b).partial_cmp(&weight(a)).unwrap().then(a.cmp(&b)));
    order.truncate(l);
    order
}

fn check_top_l<T: Real>(weights: &[T], l: usize, what: &str) {
    let mut index = vec![u32::MAX; l];
    let mut value = vec![T::from_f64(7.0); l];
    assert_eq!(top_l(weights, l, &mut index, &mut value), Ok(()), "{what}");
    let expected = reference(weights, l);
    assert_eq!(index, expected, "{what} {} l {l} of {weights:?}", T::NAME);
    for (&v, &i) in value.iter().zip(&index) {
        assert_eq!(v, weights[i as usize], "{what}");
    }
}

#[test]
fn top_l_is_right_for_every_small_case() {
    fn check<T: Real>(level: &str) {
        let distinct = [T::NEG_INFINITY, T::ZERO, T::ONE];
        for k in 1..=7u32 {
            for code in 0..3usize.pow(k) {
                let weights: Vec<T> = (0..k).map(|i| distinct[code / 3usize.pow(i) % 3]).collect();
                for l in 1..=k as usize {
                    check_top_l(&weights, l, level);
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
fn top_l_is_right_for_random_weights() {
    fn check<T: Real>(level: &str) {
        let mut rng = rng(1);
        for round in 0..3000 {
            let k = rng.random_range(1..=if round % 10 == 0 { 900 } else { 150 });
            let l = match round % 4 {
                0 => rng.random_range(1..=k),
                1 => k - rng.random_range(0..k.min(3)),
                _ => rng.random_range(1..=k.min(40)),
            };
            // From all equal to all different, and some with minus infinity.
            let distinct = [1, 2, 3, 10, 100, 1 << 30][rng.random_range(0..6)];
            let lowest = if round % 3 == 0 { distinct / 2 } else { -1 };
            let mut weights: Vec<T> = (0..k)
                .map(|_| match rng.random_range(0..distinct) {
                    code if code < lowest => T::NEG_INFINITY,
                    code => T::from_f64(code as f64 - 1.5),
                })
                .collect();
            match round % 7 {
                0 => weights.sort_by(|a, b| a.partial_cmp(b).unwrap()),
                1 => weights.sort_by(|a, b| b.partial_cmp(a).unwrap()),
                // All the large ones in one lane.
                2 => (0..k).step_by(16).for_each(|i| weights[i] += T::from_f64(1e9)),
                _ => {}
            }
            check_top_l(&weights, l, level);
        }
    }
    at_every_level(|level| {
        check::<f32>(level);
        check::<f64>(level);
    });
}

#[test]
fn top_l_of_a_tile_is_that_of_its_rows() {
    fn check<T: Real>(level: &str) {
        let mut rng = rng(3);
        for round in 0..600 {
            let k = if round % 2 == 0 { rng.random_range(1..=128) } else { rng.random_range(129..=700) };
            let l = rng.random_range(1..=k.min(8));
            assert!(has_top_l_tile(k, l));
            let rows = rng.random_range(1..=T::TILE);
            // With many ties in some rounds.
            let distinct = [2, 5, 1 << 30][round % 3];
            let mut weights: Vec<T> =
                (0..rows * k).map(|_| T::from_f64(rng.random_range(0..distinct) as f64 - 1.5)).collect();
            let mut tile = vec![T::ZERO; k * T::TILE];
            transpose_tile(&weights, k, &mut tile);
            let (mut index, mut value) = (vec![u32::MAX; rows * l], vec![T::ZERO; rows * l]);
            let found = top_l_tile(&tile, l, &mut index, &mut value);
            // Of many clusters there may be more equal ones than there is room for.
            assert!(found || (k > 128 && distinct < 1 << 30), "{level}");
            for n in 0..if found { rows } else { 0 } {
                let of_n = &weights[n * k..(n + 1) * k];
                let expected = reference(of_n, l);
                assert_eq!(index[n * l..(n + 1) * l], expected, "{level} {} l {l} of {of_n:?}", T::NAME);
                assert!((0..l).all(|i| value[n * l + i] == of_n[expected[i] as usize]), "{level}");
            }
            // One NaN, or one weight too few, and nothing is said of it.
            let (n, place) = (rng.random_range(0..rows), rng.random_range(0..k));
            match round % 2 {
                0 => weights[n * k + place] = T::from_f64(f64::NAN),
                _ => weights[n * k..n * k + k + 1 - l].fill(T::NEG_INFINITY),
            }
            transpose_tile(&weights, k, &mut tile);
            assert!(!top_l_tile(&tile, l, &mut index, &mut value), "{level}");
        }
        assert!(!has_top_l_tile(1025, 8) && !has_top_l_tile(300, 9) && !has_top_l_tile(50, 9) && !has_top_l_tile(4, 5));
    }
    at_every_level(|level| {
        check::<f32>(level);
        check::<f64>(level);
    });
}

#[test]
fn top_l_treats_zeros_of_either_sign_as_equal() {
    at_every_level(|level| {
        for k in [4, 40, 300] {
            let weights: Vec<f32> = (0..k).map(|i| if i % 3 == 0 { -0.0 } else { 0.0 }).collect();
            for l in [1, 2, 4, 8, 33] {
                check_top_l(&weights, l.min(k), level);
            }
        }
    });
}

#[test]
fn top_l_reports_the_first_nan() {
    fn check<T: Real>(level: &str) {
        let mut rng = rng(2);
        for k in [1, 2, 5, 16, 31, 33, 64, 100, 200, 255] {
            for l in [1, 2, 4, 8, 20, 33, k - 1, k] {
                if l == 0 || l > k {
                    continue;
                }
                for nan in [0, k / 2, k - 1, rng.random_range(0..k)] {
                    let mut weights = random::<T>(&mut rng, k);
                    weights[nan] = T::from_f64(f64::NAN);
                    weights[k - 1] = T::from_f64(f64::NAN);
                    let (mut index, mut value) = (vec![0; l], vec![T::ZERO; l]);
                    let got = top_l(&weights, l, &mut index, &mut value);
                    assert_eq!(got, Err(nan), "{level} {} k {k} l {l}", T::NAME);
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
fn softmax_rows_normalise() {
    fn check<T: Real>(level: &str) {
        let mut rng = rng(3);
        for l in [1, 2, 3, 4, 8, 17, 100] {
            let num = rng.random_range(1..200);
            let mut values = Vec::new();
            for n in 0..num {
                let mut row = random::<T>(&mut rng, l);
                row.iter_mut().for_each(|v| *v *= T::from_f64(30.0));
                row.sort_by(|a, b| b.partial_cmp(a).unwrap());
                if n % 5 == 0 {
                    row[l / 2..].fill(T::NEG_INFINITY);
                }
                if n % 7 == 0 {
                    row.fill(T::NEG_INFINITY);
                }
                values.extend(row);
            }
            let before = values.clone();
            let mut norm = vec![T::ONE; num];
            softmax_rows(&mut values, l, &mut norm);
            for n in 0..num {
                let (old, new) = (&before[n * l..][..l], &values[n * l..][..l]);
                if old[0] == T::NEG_INFINITY {
                    assert!(new.iter().all(|&v| v == T::ZERO));
                    assert_eq!(norm[n], T::NEG_INFINITY);
                    continue;
                }
                let sum: f64 = old.iter().map(|v| v.to_f64().exp()).sum();
                assert_near::<T>(norm[n].to_f64(), sum.ln(), 4.0, 30.0, level);
                for (old, new) in old.iter().zip(new) {
                    let expected = old.to_f64().exp() / sum;
                    // The subtraction of the maximum is rounded too.
                    let ulps = 10.0 + 60.0;
                    assert_near::<T>(new.to_f64(), expected, ulps, expected, level);
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
fn softmax_tile_normalises_over_clusters() {
    fn check<T: Real>(level: &str) {
        let mut rng = rng(7);
        for num in [1, 2, 10, 33] {
            let mut weights = random::<T>(&mut rng, num * T::TILE);
            weights.iter_mut().for_each(|w| *w *= T::from_f64(30.0));
            // Row 0 has nothing but minus infinity behind its first cluster, row 1 nowhere anything else, row 2 a NaN,
            // and all of row 3 are equal.
            for k in 0..num {
                weights[k * T::TILE] = if k == 0 { T::ONE } else { T::NEG_INFINITY };
                weights[k * T::TILE + 1] = T::NEG_INFINITY;
                weights[k * T::TILE + 3] = T::ONE;
            }
            weights[(num - 1) * T::TILE + 2] = T::from_f64(f64::NAN);
            let (mut tile, mut top, mut entropy) = (weights.clone(), vec![9; T::TILE], vec![T::ONE; T::TILE]);
            softmax_tile(&mut tile, &mut top, &mut entropy);
            assert!(entropy[1].is_nan() && entropy[2].is_nan(), "{level} {num}");
            assert_eq!((top[0], top[3], tile[0], entropy[0]), (0, 0, T::ONE, T::ZERO), "{level} {num}");
            for r in (0..T::TILE).filter(|&r| r != 1 && r != 2) {
                let of_row = |from: &[T]| (0..num).map(|k| from[k * T::TILE + r].to_f64()).collect::<Vec<f64>>();
                let (old, new) = (of_row(&weights), of_row(&tile));
                let largest = old.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                assert_eq!(old[top[r] as usize], largest);
                let sum: f64 = old.iter().map(|w| (w - largest).exp()).sum();
                let mut expected_entropy = 0.0;
                for (w, &r) in old.iter().zip(&new) {
                    let expected = (w - largest).exp() / sum;
                    assert_near::<T>(r, expected, 70.0, expected, level);
                    expected_entropy -= if expected > 0.0 { expected * expected.ln() } else { 0.0 };
                }
                assert_near::<T>(entropy[r].to_f64(), expected_entropy, 70.0, 1.0 + expected_entropy, level);
            }
        }
    }
    at_every_level(|level| {
        check::<f32>(level);
        check::<f64>(level);
    });
}

#[test]
fn log_sum_exp_matches_and_handles_special_values() {
    fn check<T: Real>(level: &str) {
        let mut rng = rng(4);
        for len in (1..70).chain([200, 801]) {
            let values = random::<T>(&mut rng, len);
            let sum: f64 = values.iter().map(|v| v.to_f64().exp()).sum();
            assert_near::<T>(log_sum_exp(&values), sum.ln(), 10.0, 1.0, level);
            let shift = T::from_f64(-1e4);
            let shifted: Vec<T> = values.iter().map(|&v| v + shift).collect();
            assert_near::<T>(log_sum_exp(&shifted), sum.ln() - 1e4, 4.0, 1e4, level);
        }
        let nan = T::from_f64(f64::NAN);
        assert_eq!(log_sum_exp::<T>(&[]), f64::NEG_INFINITY);
        assert_eq!(log_sum_exp(&[T::NEG_INFINITY; 20]), f64::NEG_INFINITY);
        assert_eq!(log_sum_exp(&[T::ONE, -T::NEG_INFINITY]), f64::INFINITY);
        assert!(log_sum_exp(&[T::ONE, nan, T::ONE]).is_nan());
        assert!(log_sum_exp(&[T::NEG_INFINITY, nan]).is_nan());
    }
    at_every_level(|level| {
        check::<f32>(level);
        check::<f64>(level);
    });
}

#[test]
fn add_table_rows_matches_the_sum() {
    fn check<T: Real>(level: &str) {
        let mut rng = rng(5);
        for width in (0..150).chain([200, 257, 800]) {
            let (rows, num) = (11, rng.random_range(0..20));
            let table = random::<T>(&mut rng, rows * width);
            let index: Vec<u32> = (0..num).map(|_| rng.random_range(0..rows as u32)).collect();
            let coeff = random::<T>(&mut rng, num);
            let start = random::<T>(&mut rng, width);
            let mut out = start.clone();
            add_table_rows(&table, width, &index, &coeff, &mut out);
            for d in 0..width {
                let terms = index.iter().zip(&coeff);
                let sum: f64 = terms.map(|(&i, c)| c.to_f64() * table[i as usize * width + d].to_f64()).sum();
                let expected = start[d].to_f64() + sum;
                assert_near::<T>(out[d].to_f64(), expected, 10.0, 2.0, level);
            }
        }
    }
    at_every_level(|level| {
        check::<f32>(level);
        check::<f64>(level);
    });
}

#[test]
#[should_panic(expected = "row 3 of 3")]
fn add_table_rows_refuses_an_index_beyond_the_table() {
    add_table_rows(&[0.0f32; 6], 2, &[0, 3], &[1.0, 1.0], &mut [0.0; 2]);
}
