//! Draws from distributions, with a generator that is passed in.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// A standard normal draw, by Box and Muller.
pub fn normal(rng: &mut ChaCha8Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.random::<f64>()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.random::<f64>()).cos()
}

/// A draw from Gamma(shape, 1), by Marsaglia and Tsang.
pub fn gamma(shape: f64, rng: &mut ChaCha8Rng) -> f64 {
    if shape < 1.0 {
        let u: f64 = 1.0 - rng.random::<f64>();
        return gamma(shape + 1.0, rng) * u.powf(1.0 / shape);
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = normal(rng);
        let v = (1.0 + c * x).powi(3);
        let u = 1.0 - rng.random::<f64>();
        if v > 0.0 && u.ln() < 0.5 * x * x + d - d * v + d * v.ln() {
            return d * v;
        }
    }
}

/// A Poisson draw, by Knuth's product of uniform draws, a part of the rate at a time.
pub fn poisson(rate: f64, rng: &mut ChaCha8Rng) -> f64 {
    const PART: f64 = 20.0;
    let (mut left, mut count) = (rate, 0.0);
    while left > 0.0 {
        let end = (-left.min(PART)).exp();
        let mut product: f64 = 1.0 - rng.random::<f64>();
        while product > end {
            count += 1.0;
            product *= 1.0 - rng.random::<f64>();
        }
        left -= PART;
    }
    count
}

/// A draw from a symmetric Dirichlet.
pub fn dirichlet(num: usize, concentration: f64, rng: &mut ChaCha8Rng) -> Vec<f64> {
    let mut draw: Vec<f64> = (0..num).map(|_| gamma(concentration, rng).max(1e-300)).collect();
    let sum: f64 = draw.iter().sum();
    draw.iter_mut().for_each(|v| *v /= sum);
    draw
}

/// An index drawn from probabilities.
pub fn categorical(probabilities: &[f64], rng: &mut ChaCha8Rng) -> usize {
    let mut left: f64 = rng.random();
    for (k, p) in probabilities.iter().enumerate() {
        left -= p;
        if left <= 0.0 {
            return k;
        }
    }
    probabilities.len() - 1
}

/// An index drawn in proportion to `chance`, or none when all chances are zero.
pub fn draw_index(num: usize, chance: impl Fn(usize) -> f64, rng: &mut ChaCha8Rng) -> Option<usize> {
    let total: f64 = (0..num).map(&chance).sum();
    let mut left = rng.random::<f64>() * total;
    let mut last = None;
    for n in 0..num {
        let c = chance(n);
        if c > 0.0 {
            last = Some(n);
            left -= c;
            if left <= 0.0 {
                break;
            }
        }
    }
    last
}
