//! Draws from distributions, with a generator that is passed in.

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

/// Chances that are summed one after the other, and sums of such groups that are: fixed, so that draws depend neither on the
/// number of threads nor on whether a GPU draws ([`lsparse_cuda::centers`]).
pub const GROUP: usize = lsparse_cuda::centers::GROUP;

/// Groups of a task that are summed side by side: their additions do not wait for one another.
const SIDE_BY_SIDE: usize = 8;

/// Chances to draw by: their sums by groups, and by groups of these.
pub struct Chances<F> {
    num: usize,
    chance: F,
    groups: Vec<f64>,
    tasks: Vec<f64>,
    total: f64,
}

impl<F: Fn(usize) -> f64 + Sync> Chances<F> {
    /// Of `num` indices.
    pub fn new(num: usize, chance: F) -> Self {
        let mut groups = vec![0.0; num.div_ceil(GROUP)];
        let sum = |(task, sums): (usize, &mut [f64])| {
            for (part, sums) in sums.chunks_mut(SIDE_BY_SIDE).enumerate() {
                let first = (task * GROUP + part * SIDE_BY_SIDE) * GROUP;
                for place in 0..GROUP {
                    for (group, sum) in sums.iter_mut().enumerate() {
                        let n = first + group * GROUP + place;
                        if n < num {
                            *sum += chance(n);
                        }
                    }
                }
            }
        };
        match groups.len() > GROUP {
            true => groups.par_chunks_mut(GROUP).enumerate().for_each(sum),
            false => groups.chunks_mut(GROUP).enumerate().for_each(sum),
        }
        Chances::summed(num, chance, groups)
    }

    /// The same with the sums of groups that are known.
    pub fn summed(num: usize, chance: F, groups: Vec<f64>) -> Self {
        let tasks: Vec<f64> = groups.chunks(GROUP).map(|groups| groups.iter().sum()).collect();
        let total = tasks.iter().sum();
        Chances { num, chance, groups, tasks, total }
    }

    /// The index at this share of all chances, or none when all chances are zero.
    pub fn at(&self, share: f64) -> Option<usize> {
        let mut point = share * self.total;
        let task = descend(self.tasks.iter().copied(), &mut point)? * GROUP;
        let groups = self.groups[task..].iter().copied().take(GROUP);
        let first = (task + descend(groups, &mut point)?) * GROUP;
        let chances = (first..self.num.min(first + GROUP)).map(&self.chance);
        Some(first + descend(chances, &mut point)?)
    }
}

/// The first of some sums, one behind the other, that `point` does not pass, or, where rounding has left it beyond all, the
/// last that is above zero. `point` becomes what is left of it there.
fn descend(sums: impl Iterator<Item = f64>, point: &mut f64) -> Option<usize> {
    let mut last = None;
    for (place, sum) in sums.enumerate().filter(|(_, sum)| *sum > 0.0) {
        let left = last.map_or(*point, |(_, left, before)| left - before);
        last = Some((place, left, sum));
        if left <= sum {
            break;
        }
    }
    last.map(|(place, left, _)| {
        *point = left;
        place
    })
}

/// An index drawn in proportion to `chance`, or none when all chances are zero.
pub fn draw_index(num: usize, chance: impl Fn(usize) -> f64 + Sync, rng: &mut ChaCha8Rng) -> Option<usize> {
    Chances::new(num, chance).at(rng.random())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    /// Draws over several tasks against the plain loop, with groups and tasks of no chance at all among them and at the end.
    #[test]
    fn draws_are_those_of_one_pass_over_all_chances() {
        let num = 5 * GROUP * GROUP + 17;
        let chance = |n: usize| match (n / (GROUP * GROUP), n / GROUP % GROUP) {
            (1 | 4 | 5, _) | (0, 3) | (2, 63) => 0.0,
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
        let chances = Chances::new(num, chance);
        let groups =
            (0..num.div_ceil(GROUP)).map(|group| (group * GROUP..num.min((group + 1) * GROUP)).map(chance).sum());
        let known = Chances::summed(num, chance, groups.collect());
        for seed in 0..200 {
            let rng = ChaCha8Rng::seed_from_u64(seed);
            let share: f64 = rng.clone().random();
            assert_eq!(draw_index(num, chance, &mut rng.clone()), plain(share * total));
            assert_eq!((chances.at(share), known.at(share)), (plain(share * total), plain(share * total)));
        }
        // Beyond all there is the last that has a chance.
        assert_eq!(chances.at(1.0 + 1e-9), (0..num).rev().find(|&n| chance(n) > 0.0));
        assert_eq!(chances.at(0.0), Some(0));
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        assert_eq!(draw_index(num, |_| 0.0, &mut rng), None);
        assert_eq!(draw_index(0, |_| 1.0, &mut rng), None);
    }
}
