//! The document step over a gathered block against plain loops, at every level.

mod common;

use common::{assert_near, at_every_level, random, random_positive, rng};
use lsparse_kernels::{AlignedVec, BLOCK_LANES, Real, block_step, block_stride, gather_block, weighted_log_sum};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

fn indices(rng: &mut ChaCha8Rng, len: usize, below: usize) -> Vec<u32> {
    (0..len).map(|_| rng.random_range(0..below as u32)).collect()
}

#[test]
fn aligned_vectors_start_at_a_line_and_clone() {
    let mut data = AlignedVec::<f32>::new();
    assert!(data.is_empty());
    for len in [1, 100, 3, 5000, 0] {
        data.reshape(len);
        data.fill(len as f32);
        let copy = data.clone();
        assert_eq!(&data[..], vec![len as f32; len]);
        assert_eq!(&copy[..], &data[..]);
        assert_eq!(data.as_ptr() as usize % 64, 0);
        assert_eq!(copy.as_ptr() as usize % 64, 0);
    }
}

#[test]
fn strides_hold_the_words() {
    for words in 0..1000 {
        let stride = block_stride(words);
        assert!(stride >= words && stride < words + 2 * BLOCK_LANES && stride.is_multiple_of(BLOCK_LANES));
    }
    assert_eq!([block_stride(0), block_stride(1), block_stride(250), block_stride(257)], [0, 16, 272, 272]);
}

#[test]
fn gather_block_copies_every_entry() {
    fn check<T: Real>(level: &str) {
        let mut rng = rng(1);
        let mut out = AlignedVec::new();
        for round in 0..200 {
            let (vocabulary, width) = (rng.random_range(1..50), rng.random_range(1..40));
            // One entry more than whole rows: nothing beyond them may be read.
            let table = random::<T>(&mut rng, vocabulary * width + 1);
            let num_words = rng.random_range(0..70);
            let words = indices(&mut rng, num_words, vocabulary);
            let num_topics = rng.random_range(0..=width);
            let topics = indices(&mut rng, num_topics, width);
            let stride = num_words.next_multiple_of(BLOCK_LANES) + round % 3 * BLOCK_LANES;
            gather_block(&table, width, &words, &topics, stride, &mut out);
            assert_eq!(out.len(), num_topics * stride);
            for (a, &topic) in topics.iter().enumerate() {
                for u in 0..stride {
                    let expected = words.get(u).map_or(T::ZERO, |&word| table[word as usize * width + topic as usize]);
                    assert_eq!(out[a * stride + u], expected, "{level} topic {a} word {u} of {num_words}");
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
#[should_panic(expected = "row 3 of 3")]
fn gather_block_checks_the_words() {
    gather_block(&[0f32; 14], 4, &[0, 3], &[0], 16, &mut AlignedVec::new());
}

#[test]
#[should_panic(expected = "column 4 of 4")]
fn gather_block_checks_the_topics() {
    gather_block(&[0f32; 14], 4, &[0], &[4], 16, &mut AlignedVec::new());
}

#[test]
fn block_step_matches_the_sums() {
    fn check<T: Real>(level: &str) {
        let mut rng = rng(2);
        let mut scratch = Vec::new();
        let sizes = (0..40).map(|lines| (lines, 17)).chain([(2, 0), (5, 1), (17, 64), (18, 200), (7, 700), (130, 33)]);
        for (lines, num_rows) in sizes {
            let stride = lines * BLOCK_LANES;
            let num_rows = if num_rows == 17 { rng.random_range(1..90) } else { num_rows };
            let block = random_positive::<T>(&mut rng, (num_rows + 3) * stride);
            let rows = indices(&mut rng, num_rows, num_rows + 3);
            let prior = random_positive::<T>(&mut rng, num_rows);
            let mut counts: Vec<T> = (0..stride).map(|_| T::from_f64(rng.random_range(0..5) as f64)).collect();
            if stride > 0 {
                counts[stride - 1] = T::ZERO;
            }
            let mut norms = random::<T>(&mut rng, stride);
            let mut out = random::<T>(&mut rng, num_rows);
            block_step(&block, stride, &rows, &prior, &counts, &mut norms, &mut scratch, &mut out);
            let what = format!("{level} {} stride {stride} rows {num_rows}", T::NAME);
            let weight = |i: usize, u: usize| block[rows[i] as usize * stride + u].to_f64();
            let mut ratios = vec![0.0; stride];
            for u in 0..stride {
                let expected: f64 = (0..num_rows).map(|i| prior[i].to_f64() * weight(i, u)).sum();
                assert_near::<T>(norms[u].to_f64(), expected, 2.0 + num_rows as f64, expected, &what);
                if counts[u] > T::ZERO && expected > 0.0 {
                    ratios[u] = counts[u].to_f64() / expected;
                }
            }
            for i in 0..num_rows {
                let expected: f64 = prior[i].to_f64() * (0..stride).map(|u| ratios[u] * weight(i, u)).sum::<f64>();
                assert_near::<T>(out[i].to_f64(), expected, 40.0 + num_rows as f64, expected, &what);
            }
        }
    }
    at_every_level(|level| {
        check::<f32>(level);
        check::<f64>(level);
    });
}

#[test]
fn words_without_count_or_norm_are_left_out() {
    at_every_level(|level| {
        let mut block = [0f32; 2 * BLOCK_LANES];
        let mut counts = [0f32; BLOCK_LANES];
        // Word 0 has both, word 1 no count, word 2 no norm.
        (block[0], block[1], block[BLOCK_LANES]) = (1.0, 5.0, 3.0);
        (counts[0], counts[2]) = (2.0, 7.0);
        let (mut norms, mut out) = ([f32::NAN; BLOCK_LANES], [f32::NAN; 2]);
        block_step(&block, BLOCK_LANES, &[1, 0], &[0.5, 0.25], &counts, &mut norms, &mut Vec::new(), &mut out);
        assert_eq!(norms[..4], [1.75, 1.25, 0.0, 0.0], "{level}");
        assert_eq!(out, [0.5 * 3.0 * (2.0 / 1.75), 0.25 * (2.0 / 1.75)], "{level}");
    });
}

#[test]
fn a_row_gives_the_same_bits_wherever_it_is_listed() {
    at_every_level(|level| {
        let mut rng = rng(3);
        let stride = 5 * BLOCK_LANES;
        let block = random_positive::<f32>(&mut rng, stride);
        let counts = random_positive::<f32>(&mut rng, stride);
        let rows = [0; 23];
        let prior = [0.125; 23];
        let (mut norms, mut out) = (vec![0.0; stride], [0.0; 23]);
        block_step(&block, stride, &rows, &prior, &counts, &mut norms, &mut Vec::new(), &mut out);
        assert!(out.iter().all(|&x| x == out[0]), "{level} {out:?}");
    });
}

#[test]
#[should_panic(expected = "row 2 of 2")]
fn block_step_checks_the_rows() {
    let mut norms = [0f32; 16];
    block_step(&[0f32; 40], 16, &[2], &[1.0], &[1.0; 16], &mut norms, &mut Vec::new(), &mut [0.0]);
}

#[test]
fn weighted_log_sum_matches_the_sum() {
    fn check<T: Real>(level: &str) {
        let mut rng = rng(4);
        for len in (0..70).chain([500]) {
            let counts: Vec<T> = (0..len).map(|_| T::from_f64(rng.random_range(0..4) as f64)).collect();
            let mut norms: Vec<T> = (0..len).map(|_| T::from_f64(f64::exp(rng.random_range(-20.0..3.0)))).collect();
            for u in 0..len {
                // Whatever the norm of a word that does not occur.
                if counts[u] == T::ZERO {
                    norms[u] = [T::ZERO, -T::ONE, T::NEG_INFINITY, T::from_f64(f64::NAN)][u % 4];
                }
            }
            let terms = counts.iter().zip(&norms).filter(|(c, _)| **c > T::ZERO);
            let terms: Vec<f64> = terms.map(|(c, n)| c.to_f64() * n.to_f64().ln()).collect();
            let scale = terms.iter().map(|x| x.abs()).sum::<f64>();
            let expected: f64 = terms.iter().sum();
            let what = format!("{level} {} {len}", T::NAME);
            assert_near::<T>(weighted_log_sum(&counts, &norms), expected, 10.0, scale, &what);
        }
        assert_eq!(weighted_log_sum(&[T::ONE, T::ONE], &[T::ONE, T::ZERO]), f64::NEG_INFINITY);
    }
    at_every_level(|level| {
        check::<f32>(level);
        check::<f64>(level);
    });
}
