//! Print how fast the kernels run on one core, and how close to what its arithmetic units can do.
//!
//! `cargo run --release -p lsparse-kernels --example throughput`, with `LSPARSE_SIMD` to lower the
//! level. Each figure is the median of several runs.

use std::hint::black_box;
use std::time::Instant;

use lsparse_kernels::{
    AlignedVec, Real, TriangularPack, add_table_rows, block_step, block_stride, diag_quad_forms, digamma_slice,
    exp_slice, gather_block, invert_cholesky_batch, level, ln_gamma_slice, ln_slice, peak, softmax_rows, top_l,
    transpose_tile, weighted_gram, weighted_log_sum, weighted_sum,
};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const RUNS: usize = 21;
const DIM: usize = 64;
const CLUSTERS: usize = 200;
const TILES: usize = 4;

/// The median time of a call in seconds.
fn median(mut run: impl FnMut()) -> f64 {
    run();
    let mut seconds: Vec<f64> = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed().as_secs_f64()
        })
        .collect();
    seconds.sort_by(f64::total_cmp);
    seconds[RUNS / 2]
}

fn random<T: Real>(rng: &mut impl Rng, len: usize) -> Vec<T> {
    (0..len).map(|_| T::from_f64(rng.random_range(-1.0..1.0))).collect()
}

fn main() {
    println!("level {}", level().name());
    report::<f32>();
    report::<f64>();
    cholesky();
}

fn report<T: Real>() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    println!("\n{}", T::NAME);

    let peak = peak::<T>();
    println!("  fma peak                 {:8.1} G multiply-adds/s", peak * 1e-9);

    gaussian::<T>(&mut rng, peak);
    statistics::<T>(&mut rng, peak);
    selection::<T>(&mut rng);
    table::<T>(&mut rng, peak);
    document::<T>(&mut rng, peak);
    elementwise::<T>(&mut rng);
}

/// The best rate of multiply-adds a second: short bursts, so that some run undisturbed.
fn peak<T: Real>() -> f64 {
    let burst = |_| {
        let start = Instant::now();
        let count = peak::fma_burst::<T>(200_000);
        count / start.elapsed().as_secs_f64()
    };
    (0..50).map(burst).fold(0.0, f64::max)
}

fn gaussian<T: Real>(rng: &mut ChaCha8Rng, peak: f64) {
    let mut pack = TriangularPack::<T>::new(CLUSTERS, DIM);
    for k in 0..CLUSTERS {
        pack.set(k, &random::<f64>(rng, DIM * DIM));
    }
    let rows = random::<T>(rng, TILES * T::TILE * DIM);
    let means = random::<T>(rng, CLUSTERS * DIM);
    let mut tile = vec![T::ZERO; DIM * T::TILE];
    let mut out = vec![T::ZERO; T::TILE];
    let mut scratch = Vec::new();
    let evaluations = (CLUSTERS * TILES * T::TILE) as f64;
    // The product and its squares.
    let flops = (DIM * (DIM + 1) / 2 + DIM) as f64;
    for shifted in [true, false] {
        let seconds = median(|| {
            for rows in rows.chunks_exact(DIM * T::TILE) {
                transpose_tile(rows, DIM, &mut tile);
                for k in 0..CLUSTERS {
                    let mean = &means[k * DIM..][..DIM];
                    let shift = shifted.then_some(mean);
                    pack.quad_forms(k, &tile, shift, &mut scratch, &mut out);
                    black_box(&out);
                }
            }
        }) / evaluations;
        println!(
            "  quad_forms D={DIM} shift={shifted:<5} {:8.2} ns a row and cluster, {:.0} % of peak",
            seconds * 1e9,
            100.0 * flops / seconds / peak
        );
    }
    let seconds = median(|| {
        for _ in 0..TILES {
            for k in 0..CLUSTERS {
                let mean = &means[k * DIM..][..DIM];
                diag_quad_forms(&tile, DIM, mean, mean, &mut out);
                black_box(&out);
            }
        }
    }) / evaluations;
    println!("  diag_quad_forms D={DIM}     {:8.2} ns a row and cluster", seconds * 1e9);
    let seconds = median(|| {
        for rows in rows.chunks_exact(DIM * T::TILE) {
            transpose_tile(rows, DIM, &mut tile);
            black_box(&tile);
        }
    }) / (TILES * T::TILE) as f64;
    println!("  transpose_tile D={DIM}      {:8.2} ns a row", seconds * 1e9);
}

fn statistics<T: Real>(rng: &mut ChaCha8Rng, peak: f64) {
    const ROWS: usize = 300;
    const REPEAT: usize = 50;
    let rows = random::<T>(rng, ROWS * DIM);
    let weights = random::<T>(rng, ROWS);
    let mut gram = vec![0.0; DIM * (DIM + 1) / 2];
    let mut scratch = Vec::new();
    let seconds = median(|| {
        for _ in 0..REPEAT {
            weighted_gram(&rows, &weights, DIM, &mut scratch, &mut gram);
        }
        black_box(&gram);
    }) / (REPEAT * ROWS) as f64;
    let flops = (DIM * (DIM + 1) / 2) as f64;
    println!(
        "  weighted_gram D={DIM}       {:8.2} ns a row, {:.0} % of peak",
        seconds * 1e9,
        100.0 * flops / seconds / peak
    );
    let mut sum = vec![0.0; DIM];
    let seconds = median(|| {
        for _ in 0..REPEAT {
            weighted_sum(&rows, &weights, DIM, &mut sum);
        }
        black_box(&sum);
    }) / (REPEAT * ROWS) as f64;
    println!("  weighted_sum D={DIM}        {:8.2} ns a row", seconds * 1e9);
}

fn selection<T: Real>(rng: &mut ChaCha8Rng) {
    const ROWS: usize = 1000;
    for (k, l) in [(200, 1), (200, 4), (200, 8), (800, 8), (800, 32)] {
        let weights = random::<T>(rng, ROWS * k);
        let mut index = vec![0; l];
        let mut value = vec![T::ZERO; ROWS * l];
        let mut norm = vec![T::ZERO; ROWS];
        let select = median(|| {
            for (row, value) in weights.chunks_exact(k).zip(value.chunks_exact_mut(l)) {
                top_l(row, l, &mut index, value).expect("no NaN");
                black_box(&index);
            }
        }) / ROWS as f64;
        let softmax = median(|| softmax_rows(&mut value, l, &mut norm)) / ROWS as f64;
        println!(
            "  top_l K={k:<3} L={l:<2}         {:8.2} ns a row, softmax {:.2} ns a row",
            select * 1e9,
            softmax * 1e9
        );
    }
}

fn table<T: Real>(rng: &mut ChaCha8Rng, peak: f64) {
    const ROWS: usize = 250;
    const REPEAT: usize = 100;
    for width in [64, 65, 200] {
        let table = random::<T>(rng, ROWS * width);
        let index: Vec<u32> = (0..ROWS as u32).rev().collect();
        let coeff = random::<T>(rng, ROWS);
        let mut out = vec![T::ZERO; width];
        let seconds = median(|| {
            for _ in 0..REPEAT {
                add_table_rows(&table, width, &index, &coeff, &mut out);
            }
            black_box(&out);
        }) / (REPEAT * ROWS) as f64;
        println!(
            "  add_table_rows width {width:<3} {:8.2} ns a row, {:.0} % of peak",
            seconds * 1e9,
            100.0 * width as f64 / seconds / peak
        );
    }
}

/// The document step, with documents enough that their words are not at hand when they are gathered.
fn document<T: Real>(rng: &mut ChaCha8Rng, peak: f64) {
    const VOCABULARY: usize = 6130;
    const WIDTH: usize = 208;
    const DOCUMENTS: usize = 50;
    let table: Vec<T> = random::<T>(rng, VOCABULARY * WIDTH).into_iter().map(T::abs).collect();
    let mut block = AlignedVec::new();
    let mut scratch = Vec::new();
    for (num_words, num_topics) in [(265, 64), (265, 16), (100, 32), (40, 8)] {
        let words: Vec<u32> = (0..DOCUMENTS * num_words).map(|_| rng.random_range(0..VOCABULARY as u32)).collect();
        let topics: Vec<u32> = (0..num_topics).map(|a| (a * 200 / num_topics) as u32).collect();
        let stride = block_stride(num_words);
        let gather = median(|| {
            for words in words.chunks_exact(num_words) {
                gather_block(&table, WIDTH, words, &topics, stride, &mut block);
                black_box(&block);
            }
        }) / DOCUMENTS as f64;
        let rows: Vec<u32> = (0..num_topics as u32).collect();
        let prior = vec![T::ONE; num_topics];
        let mut counts = vec![T::ONE; stride];
        counts[num_words..].fill(T::ZERO);
        let mut norms = vec![T::ZERO; stride];
        let mut out = vec![T::ZERO; num_topics];
        let step = median(|| {
            for _ in 0..DOCUMENTS {
                block_step(&block, stride, &rows, &prior, &counts, &mut norms, &mut scratch, &mut out);
                black_box(&out);
            }
        }) / DOCUMENTS as f64;
        let log_sum = median(|| {
            for _ in 0..DOCUMENTS {
                black_box(weighted_log_sum(&counts, &norms));
            }
        }) / DOCUMENTS as f64;
        println!(
            "  block_step {num_words:>3} x {num_topics:<2}      {:8.2} us, {:.0} % of peak; gather {:.2} us, log sum {:.2} us",
            step * 1e6,
            100.0 * (2 * num_topics * stride) as f64 / step / peak,
            gather * 1e6,
            log_sum * 1e6
        );
    }
}

fn cholesky() {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    println!("\ninvert_cholesky_batch, f64");
    let peak = peak::<f64>();
    for dim in [4, 16, 32, 64] {
        let mut packed = random::<f64>(&mut rng, CLUSTERS * dim * (dim + 1) / 2);
        for matrix in packed.chunks_exact_mut(dim * (dim + 1) / 2) {
            for i in 0..dim {
                matrix[i * (i + 3) / 2] += dim as f64;
            }
        }
        let mut inverse = vec![0.0; CLUSTERS * dim * dim];
        let mut log_det = vec![0.0; CLUSTERS];
        let seconds = median(|| {
            invert_cholesky_batch(&packed, dim, &mut inverse, &mut log_det).expect("positive definite");
            black_box(&inverse);
        });
        println!(
            "  {CLUSTERS} matrices D={dim:<2}       {:8.3} ms, {:.0} % of peak",
            seconds * 1e3,
            100.0 * (CLUSTERS * dim * dim * dim) as f64 / 3.0 / seconds / peak
        );
    }
}

fn elementwise<T: Real>(rng: &mut ChaCha8Rng) {
    const LEN: usize = 4096;
    let positive: Vec<T> =
        random::<T>(rng, LEN).into_iter().map(|x| T::from_f64(20.0 * x.to_f64() * x.to_f64() + 1e-3)).collect();
    let mut buffer = positive.clone();
    type Function<T> = (&'static str, fn(&mut [T]));
    let functions: [Function<T>; 5] = [
        ("copy", |_| {}),
        ("exp", exp_slice),
        ("ln", ln_slice),
        ("digamma", digamma_slice),
        ("ln_gamma", ln_gamma_slice),
    ];
    for (name, function) in functions {
        let seconds = median(|| {
            for _ in 0..20 {
                buffer.copy_from_slice(&positive);
                function(&mut buffer);
                black_box(&buffer);
            }
        }) / (20 * LEN) as f64;
        println!("  {name:<24} {:8.2} ns, {:.0} M/s", seconds * 1e9, 1e-6 / seconds);
    }
}
