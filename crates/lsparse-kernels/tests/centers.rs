//! Nearest centres against plain loops, at every level.

mod common;

use common::{assert_near, at_every_level, random, rng};
use lsparse_kernels::{CenterPack, Real, transpose_tile};

/// x.c - |c|^2 / 2 in double precision.
fn score<T: Real>(row: &[T], center: &[f64]) -> f64 {
    row.iter().zip(center).map(|(x, c)| x.to_f64() * c - 0.5 * c * c).sum()
}

#[test]
fn the_nearest_center_is_found() {
    fn check<T: Real>(level: &str) {
        let mut rng = rng(11);
        for (dim, num) in [(1, 1), (2, 5), (3, 6), (7, 7), (16, 13), (64, 200), (65, 31), (100, 12)] {
            let rows = random::<T>(&mut rng, (T::TILE - 3) * dim);
            // Centres that `T` can hold, so that the only rounding is that of the scores.
            let centers: Vec<f64> = random::<T>(&mut rng, num * dim).iter().map(|c| c.to_f64()).collect();
            let pack = CenterPack::<T>::new(&centers, dim);
            assert_eq!((pack.num(), pack.dim()), (num, dim));
            let mut tile = vec![T::ZERO; dim * T::TILE];
            transpose_tile(&rows, dim, &mut tile);
            let (mut index, mut best) = (vec![7; T::TILE], random::<T>(&mut rng, T::TILE));
            pack.nearest(&tile, &mut index, &mut best);
            let mut all = vec![T::ZERO; pack.score_len()];
            pack.scores(&tile, &mut all);
            for (r, row) in rows.chunks_exact(dim).enumerate() {
                let what = format!("{level} {} dim {dim} of {num} row {r}", T::NAME);
                let expected: Vec<f64> = centers.chunks_exact(dim).map(|center| score(row, center)).collect();
                for (k, &expected) in expected.iter().enumerate() {
                    let got = all[k * T::TILE + r].to_f64();
                    assert_near::<T>(got, expected, dim as f64, dim as f64, &what);
                }
                let largest = expected.iter().fold(f64::NEG_INFINITY, |a, &b| a.max(b));
                assert_near::<T>(expected[index[r] as usize], largest, 2.0 * dim as f64, dim as f64, &what);
                // The same bits as the full table has, and the first of its largest.
                let column = (0..num).map(|k| all[k * T::TILE + r]);
                let top = column.clone().fold(T::NEG_INFINITY, |a, b| if b > a { b } else { a });
                assert_eq!(best[r], top, "{what}");
                assert_eq!(Some(index[r] as usize), column.clone().position(|s| s == top), "{what}");
            }
        }
    }
    at_every_level(|level| {
        check::<f32>(level);
        check::<f64>(level);
    });
}

#[test]
fn equal_centers_tie_to_the_first_and_overflow_finds_none() {
    at_every_level(|level| {
        let centers: Vec<f64> = (0..20).flat_map(|k| if k % 3 == 2 { [1.0, 2.0] } else { [9.0, 9.0] }).collect();
        let pack = CenterPack::<f32>::new(&centers, 2);
        let mut tile = vec![0.0; 2 * f32::TILE];
        transpose_tile(&[1.0, 2.0, f32::INFINITY, f32::NEG_INFINITY], 2, &mut tile);
        let (mut index, mut best) = (vec![0; f32::TILE], vec![0.0; f32::TILE]);
        pack.nearest(&tile, &mut index, &mut best);
        assert_eq!(index[..3], [2, u32::MAX, 2], "{level}");
        assert_eq!(best[0], 2.5, "{level}");
        CenterPack::<f32>::new(&[], 2).nearest(&tile, &mut index, &mut best);
        assert!(index.iter().all(|&k| k == u32::MAX), "{level}");
    });
}

#[test]
#[should_panic(expected = "dim * TILE")]
fn a_tile_of_another_width_is_refused() {
    let pack = CenterPack::<f64>::new(&[0.0; 6], 3);
    pack.nearest(&[0.0; 32], &mut [0; 32], &mut [0.0; 32]);
}
