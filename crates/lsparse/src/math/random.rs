//! Draws from distributions, with a generator that is passed in.

use std::ops::Range;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

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

/// Chances that are summed together. Fixed, so that draws do not depend on the number of threads.
const CHANCES_A_TASK: usize = 4096;

/// Tasks that one thread sums side by side: their additions do not wait for one another, and nobody for other threads.
const TASKS_SIDE_BY_SIDE: usize = 16;

/// Chances of a task that are added before it is the next one's turn.
const CHANCES_AT_ONCE: usize = 16;

/// Chances by task: their sums, and the last task that has any.
fn sums_of(num: usize, chance: &(impl Fn(usize) -> f64 + Sync)) -> (Vec<f64>, usize) {
    let tasks = num.div_ceil(CHANCES_A_TASK);
    let mut sums = vec![0.0; tasks];
    if tasks <= TASKS_SIDE_BY_SIDE {
        for first in (0..CHANCES_A_TASK).step_by(CHANCES_AT_ONCE) {
            for (task, sum) in sums.iter_mut().enumerate() {
                let from = task * CHANCES_A_TASK + first;
                (from..num.min(from + CHANCES_AT_ONCE)).for_each(|n| *sum += chance(n));
            }
        }
    } else {
        let each = sums.par_iter_mut().enumerate();
        each.for_each(|(task, sum)| of_task(task, num).for_each(|n| *sum += chance(n)));
    }
    let last = sums.iter().rposition(|&sum| sum > 0.0).unwrap_or(0);
    (sums, last)
}

fn of_task(task: usize, num: usize) -> Range<usize> {
    task * CHANCES_A_TASK..num.min((task + 1) * CHANCES_A_TASK)
}

/// An index drawn in proportion to `chance`, or none when all chances are zero.
pub fn draw_index(num: usize, chance: impl Fn(usize) -> f64 + Sync, rng: &mut ChaCha8Rng) -> Option<usize> {
    let (sums, last_task) = sums_of(num, &chance);
    let mut left = rng.random::<f64>() * sums.iter().sum::<f64>();
    let mut last = None;
    for (task, &sum) in sums.iter().enumerate() {
        if task < last_task && left > sum {
            left -= sum;
            continue;
        }
        for n in of_task(task, num) {
            let c = chance(n);
            if c > 0.0 {
                last = Some(n);
                left -= c;
                if left <= 0.0 {
                    return last;
                }
            }
        }
    }
    last
}

/// Several indices drawn in proportion to `chance`, in one pass; none when all chances are zero.
pub fn draw_indices(
    num: usize,
    chance: impl Fn(usize) -> f64 + Sync,
    draws: usize,
    rng: &mut ChaCha8Rng,
) -> Vec<usize> {
    let (sums, last_task) = sums_of(num, &chance);
    let total: f64 = sums.iter().sum();
    let mut points: Vec<f64> = (0..draws).map(|_| rng.random::<f64>() * total).collect();
    points.sort_by(f64::total_cmp);
    let mut points = points.into_iter().peekable();
    let (mut before, mut last, mut drawn) = (0.0, None, Vec::new());
    for (task, &sum_of_task) in sums.iter().enumerate() {
        let end = before + sum_of_task;
        if task == last_task || points.peek().is_some_and(|&point| point <= end) {
            let mut sum = before;
            for n in of_task(task, num) {
                let c = chance(n);
                if c > 0.0 {
                    (sum, last) = (sum + c, Some(n));
                    while points.next_if(|&point| point <= sum).is_some() {
                        drawn.push(n);
                    }
                    if drawn.len() == draws {
                        return drawn;
                    }
                }
            }
        }
        before = end;
    }
    // Rounding may leave a point just behind the last.
    drawn.extend(points.filter_map(|_| last));
    drawn
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    /// Draws over several tasks against the plain loop, with tasks of no chance at all among them and at the end.
    #[test]
    fn draws_are_those_of_one_pass_over_all_chances() {
        let num = 5 * CHANCES_A_TASK + 17;
        let chance = |n: usize| match n / CHANCES_A_TASK {
            1 | 4 | 5 => 0.0,
            _ => 1.0 + (n % 13) as f64,
        };
        let total: f64 = (0..num).map(chance).sum();
        let plain = |point: f64| {
            let mut sum = 0.0;
            (0..num).filter(|&n| chance(n) > 0.0).find(|&n| {
                sum += chance(n);
                point <= sum
            })
        };
        for seed in 0..200 {
            let rng = ChaCha8Rng::seed_from_u64(seed);
            let mut points: Vec<f64> = rng.clone().random_iter::<f64>().take(4).map(|u| u * total).collect();
            assert_eq!(draw_index(num, chance, &mut rng.clone()), plain(points[0]));
            points.sort_by(f64::total_cmp);
            let expected: Vec<usize> = points.into_iter().filter_map(plain).collect();
            assert_eq!(draw_indices(num, chance, 4, &mut rng.clone()), expected);
        }
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        assert_eq!(draw_index(num, |_| 0.0, &mut rng), None);
        assert_eq!(draw_index(0, |_| 1.0, &mut rng), None);
        assert!(draw_indices(num, |_| 0.0, 3, &mut rng).is_empty());
    }
}
