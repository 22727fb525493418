//! Elementary and special functions against the standard library, the crate `special` and known values.

mod common;

use common::{at_every_level, rng};
use lsparse_kernels::{Real, digamma, digamma_slice, exp_slice, ln_gamma, ln_gamma_slice, ln_slice};
use rand::RngExt;

/// The distance in units of the last place of the expected value.
fn ulps<T: Real>(got: T, expected: f64, smallest: f64) -> f64 {
    (got.to_f64() - expected).abs() / (expected.abs().max(smallest) * T::EPSILON)
}

#[test]
fn exp_is_accurate() {
    fn check<T: Real>(range: (f64, f64), smallest: f64, level: &str) {
        let mut rng = rng(1);
        let mut worst = 0.0f64;
        for round in 0..200 {
            let scale = if round % 2 == 0 { 1.0 } else { 0.01 };
            let x: Vec<T> = (0..1001).map(|_| T::from_f64(scale * rng.random_range(range.0..range.1))).collect();
            let mut y = x.clone();
            exp_slice(&mut y);
            for (x, &y) in x.iter().zip(&y) {
                worst = worst.max(ulps(y, x.to_f64().exp(), smallest));
            }
        }
        println!("exp {level} {} {worst:.3}", T::NAME);
        assert!(worst <= 1.5, "{level} {}: {worst} ulp", T::NAME);
    }
    at_every_level(|level| {
        check::<f32>((-87.0, 88.7), f32::MIN_POSITIVE as f64, level);
        check::<f64>((-708.0, 709.7), f64::MIN_POSITIVE, level);
    });
}

#[test]
fn exp_handles_special_values() {
    fn check<T: Real>(level: &str) {
        let inf = -T::NEG_INFINITY;
        let mut x = [f64::NEG_INFINITY, -1e4, -1e300, 1e4, 1e300, f64::INFINITY, 0.0, -0.0].map(T::from_f64).to_vec();
        x.push(T::from_f64(f64::NAN));
        exp_slice(&mut x);
        let expected = [T::ZERO, T::ZERO, T::ZERO, inf, inf, inf, T::ONE, T::ONE];
        assert_eq!(&x[..8], &expected, "{level}");
        assert!(x[8].is_nan(), "{level}");
    }
    at_every_level(|level| {
        check::<f32>(level);
        check::<f64>(level);
        // Through the subnormal range down to zero without a jump.
        for x in (-1100..-1020).map(|e| f64::from(e) * std::f64::consts::LN_2) {
            let mut y = [x];
            exp_slice(&mut y);
            assert!((y[0] - x.exp()).abs() <= 1e-15 * f64::MIN_POSITIVE + 5e-324, "{level} {x}");
        }
    });
}

#[test]
fn ln_is_accurate() {
    fn check<T: Real>(exponent: f64, level: &str) {
        let mut rng = rng(2);
        let mut worst = 0.0f64;
        for round in 0..200 {
            let scale = [exponent, 1.0, 0.01][round % 3];
            let x: Vec<T> = (0..1001).map(|_| T::from_f64(rng.random_range(-scale..scale).exp2())).collect();
            let mut y = x.clone();
            ln_slice(&mut y);
            for (x, &y) in x.iter().zip(&y) {
                worst = worst.max(ulps(y, x.to_f64().ln(), 1e-300));
            }
        }
        println!("ln {level} {} {worst:.3}", T::NAME);
        assert!(worst <= 1.5, "{level} {}: {worst} ulp", T::NAME);
    }
    at_every_level(|level| {
        // Subnormal numbers included.
        check::<f32>(126.0, level);
        check::<f64>(1022.0, level);
    });
}

#[test]
fn ln_handles_special_values() {
    fn check<T: Real>(tiny: f64, level: &str) {
        let nan = T::from_f64(f64::NAN);
        let inf = -T::NEG_INFINITY;
        let mut x = vec![T::ZERO, -T::ZERO, T::ONE, inf, -T::ONE, -inf, nan];
        x.push(T::from_f64(tiny));
        ln_slice(&mut x);
        assert_eq!(&x[..4], &[-inf, -inf, T::ZERO, inf], "{level}");
        assert!(x[4..7].iter().all(|x| x.is_nan()), "{level} {x:?}");
        assert!((x[7].to_f64() - tiny.ln()).abs() <= 100.0 * T::EPSILON, "{level} {x:?}");
    }
    at_every_level(|level| {
        check::<f32>(2.0f64.powi(-140), level);
        check::<f64>(2.0f64.powi(-1060), level);
    });
}

/// Arguments from 1e-8 to 1e12, dense around the roots.
fn positive_arguments() -> Vec<f64> {
    let mut rng = rng(3);
    let mut x: Vec<f64> = (0..20_000).map(|_| rng.random_range(-8.0..12.0f64)).map(|e| 10f64.powf(e)).collect();
    x.extend((0..20_000).map(|_| rng.random_range(0.0..20.0)));
    x.extend((1..100).map(|i| i as f64 / 2.0));
    x
}

#[test]
fn digamma_and_ln_gamma_match_special() {
    type Case = (&'static str, fn(&mut [f64]), fn(f64) -> f64, f64);
    let cases: [Case; 2] = [
        ("digamma", digamma_slice, special::Gamma::digamma, 3e-15),
        ("ln_gamma", ln_gamma_slice, |x| special::Gamma::ln_gamma(x).0, 1e-14),
    ];
    at_every_level(|level| {
        for (name, function, reference, bound) in cases {
            let x = positive_arguments();
            let mut y = x.clone();
            function(&mut y);
            let mut worst = (0.0, 0.0);
            for (&x, &y) in x.iter().zip(&y) {
                let expected = reference(x);
                let error = (y - expected).abs() / expected.abs().max(1.0);
                if error > worst.0 {
                    worst = (error, x);
                }
            }
            println!("{name} {level} {:e} at {}", worst.0, worst.1);
            assert!(worst.0 <= bound, "{name} {level}: {:e} at {}", worst.0, worst.1);
        }
    });
}

#[test]
fn digamma_and_ln_gamma_know_exact_values() {
    const EULER: f64 = 0.577_215_664_901_532_9;
    at_every_level(|_| {
        let near = |got: f64, expected: f64| {
            let scale = expected.abs().max(1.0);
            assert!((got - expected).abs() <= 5e-15 * scale, "{got} {expected}");
        };
        near(digamma(1.0), -EULER);
        near(digamma(0.5), -EULER - 2.0 * 2f64.ln());
        near(digamma(2.0), 1.0 - EULER);
        near(digamma(1e-8), -1e8 - EULER);
        near(digamma(1.461_632_144_968_362_3), 0.0);
        near(digamma(1e10), 1e10f64.ln() - 0.5e-10);
        near(ln_gamma(1.0), 0.0);
        near(ln_gamma(2.0), 0.0);
        near(ln_gamma(0.5), std::f64::consts::PI.sqrt().ln());
        near(ln_gamma(11.0), 3_628_800f64.ln());
        near(ln_gamma(1e-8), 1e8f64.ln() - EULER * 1e-8);
        near(ln_gamma(1e-3), 6.907_178_885_383_853);
        assert_eq!(digamma(f64::INFINITY), f64::INFINITY);
        assert_eq!(ln_gamma(f64::INFINITY), f64::INFINITY);
        for x in [0.0, -1.0, -0.5, f64::NEG_INFINITY, f64::NAN] {
            assert!(digamma(x).is_nan() && ln_gamma(x).is_nan(), "{x}");
        }
    });
}

#[test]
fn an_entry_alone_gives_the_same_bits() {
    fn check<T: Real>(function: fn(&mut [T]), level: &str) {
        let mut rng = rng(4);
        let x: Vec<T> = (0..203).map(|_| T::from_f64(rng.random_range(1e-3..20.0))).collect();
        let mut y = x.clone();
        function(&mut y);
        for (&x, &y) in x.iter().zip(&y) {
            let mut alone = [x];
            function(&mut alone);
            assert_eq!(alone[0].to_f64().to_bits(), y.to_f64().to_bits(), "{level}");
        }
    }
    at_every_level(|level| {
        for function in [exp_slice, ln_slice, digamma_slice, ln_gamma_slice] {
            check::<f32>(function, level);
        }
        for function in [exp_slice, ln_slice, digamma_slice, ln_gamma_slice] {
            check::<f64>(function, level);
        }
    });
}
