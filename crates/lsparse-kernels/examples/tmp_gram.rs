//! temp
use lsparse_kernels::*;
use std::time::Instant;
fn go<T: Real>() {
    for d in [48usize, 64, 80, 128] {
    for n in [16usize, 32, 64, 128, 256, 300, 1024] {
        let off = 0;
        let rows: Vec<T> = (0..n * d + 16).map(|i| T::from_f64((i % 17) as f64)).collect();
        let al = rows.as_ptr().align_offset(64) + off;
        let rows = &rows[al..al + n * d];
        let w = vec![T::ONE; n];
        let mut s = Vec::new();
        let mut out = vec![0.0; d * (d + 1) / 2];
        let mut best = f64::MAX;
        for _ in 0..100 {
            let t = Instant::now();
            for _ in 0..5 { weighted_gram(rows, &w, d, &mut s, &mut out); }
            best = best.min(t.elapsed().as_secs_f64() / 5.0 / n as f64);
        }
        let pk = if T::NAME == "f32" { 58.9e9 } else { 29.4e9 };
        print!("{n}: {:.1} ns {:.0}%  ", best * 1e9, 100.0 * (d * (d + 1) / 2) as f64 / best / pk);
    }
    println!("  D={d} {}", T::NAME);
    }
}
fn main() { go::<f32>(); go::<f64>(); }
