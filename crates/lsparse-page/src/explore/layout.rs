//! Places of topics or clusters on the map: near each other where they are alike, and apart enough to be seen.
//!
//! Classical scaling of distances is the start; for topics it is two principal components of sqrt(phi). Then edges of the
//! graph of neighbours pull and random pairs push, as in UMAP (`mcinnes2018umap`) with its curve 1 / (1 + d^2), one edge
//! after the other in a fixed order; circles that still overlap are pushed apart last.

use rayon::prelude::*;

use crate::explore::distances::{Distances, Neighbours};
use crate::explore::sparse::SparseTopics;

/// Rounds over the edges, of this many topics or fewer; many topics find their places in fewer, and have more edges.
const ROUNDS: usize = 200;
const FEW: f64 = 500.0;

/// Random topics that an end of an edge is pushed from, each time the edge is pulled.
const PUSHES: usize = 5;

/// Part of the map that circles cover together, at most.
const COVERED: f32 = 0.22;

/// Rounds of pushing overlapping circles apart.
const SPREADS: usize = 80;

/// Places and sizes of topics or clusters on a map that reaches from -1 to 1 both ways.
pub struct Layout {
    /// Across.
    pub x: Vec<f32>,
    /// Up and down.
    pub y: Vec<f32>,
    /// Radius of the circle; its area is the share.
    pub radius: Vec<f32>,
}

/// Lay topics or clusters out from where they are to start; the same seed gives the same map.
pub fn layout(mut places: Vec<[f32; 2]>, neighbours: &Neighbours, shares: &[f64], seed: u64) -> Layout {
    let num = places.len();
    rescale(&mut places, 10.0);
    attract(&mut places, &edges(num, neighbours), seed);
    rescale(&mut places, 0.95);
    let radius: Vec<f32> =
        shares.iter().map(|&share| (4.0 * COVERED * share as f32 / std::f32::consts::PI).sqrt()).collect();
    spread(&mut places, &radius);
    // What was pushed over the edge is brought back.
    rescale(&mut places, 0.95);
    Layout { x: places.iter().map(|p| p[0]).collect(), y: places.iter().map(|p| p[1]).collect(), radius }
}

/// Numbers that look random, cheaply (SplitMix64).
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, num: usize) -> usize {
        ((u128::from(self.next()) * num as u128) >> 64) as usize
    }

    /// From -1 to 1.
    fn symmetric(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
}

/// The first two principal components of the roots of topics, by orthogonal iteration.
pub fn principal(topics: &SparseTopics, seed: u64) -> Vec<[f32; 2]> {
    let (num, vocab) = (topics.num_topics(), topics.vocab_size);
    let base: Vec<f64> = topics.background.iter().map(|&b| f64::from(b).sqrt()).collect();
    let roots: Vec<Vec<(u32, f32)>> = (0..vocab)
        .into_par_iter()
        .map(|v| topics.word(v).iter().map(|&(k, p)| (k, (f64::from(p).sqrt() - base[k as usize]) as f32)).collect())
        .collect();
    let means: Vec<f64> =
        roots.iter().map(|list| list.iter().map(|&(_, s)| f64::from(s)).sum::<f64>() / num as f64).collect();
    let mut draws = Draws(seed);
    let mut axes: Vec<[f64; 2]> = (0..vocab).map(|_| [draws.symmetric(), draws.symmetric()]).collect();
    let mut places = vec![[0.0f64; 2]; num];
    for _ in 0..12 {
        orthonormalize(&mut axes);
        let shift = dot(&means, &axes);
        places = (0..num)
            .into_par_iter()
            .map(|k| {
                let (words, roots) = topics.topic_roots(k);
                let mut place = [-shift[0], -shift[1]];
                for (&v, &s) in words.iter().zip(roots) {
                    let axis = axes[v as usize];
                    place = [place[0] + s * axis[0], place[1] + s * axis[1]];
                }
                place
            })
            .collect();
        let total = places.iter().fold([0.0; 2], |sum, p| [sum[0] + p[0], sum[1] + p[1]]);
        axes = (roots.par_iter().zip(&means))
            .map(|(list, mean)| {
                let mut axis = [-mean * total[0], -mean * total[1]];
                for &(k, s) in list {
                    let (s, place) = (f64::from(s), places[k as usize]);
                    axis = [axis[0] + s * place[0], axis[1] + s * place[1]];
                }
                axis
            })
            .collect();
    }
    jittered(&places, 1e-4, &mut draws)
}

/// The first two axes of classical scaling: of -C D2 C / 2, where D2 are squared distances and C takes means away, by
/// orthogonal iteration.
pub fn scaled(distances: &Distances, seed: u64) -> Vec<[f32; 2]> {
    let num = distances.num_topics();
    let square = |d: f32| f64::from(d) * f64::from(d);
    let means: Vec<f64> = (0..num)
        .into_par_iter()
        .map(|k| distances.row(k).iter().map(|&d| square(d)).sum::<f64>() / num as f64)
        .collect();
    let mean = means.iter().sum::<f64>() / num.max(1) as f64;
    let mut draws = Draws(seed);
    let mut axes: Vec<[f64; 2]> = (0..num).map(|_| [draws.symmetric(), draws.symmetric()]).collect();
    for _ in 0..30 {
        orthonormalize(&mut axes);
        axes = (0..num)
            .into_par_iter()
            .map(|i| {
                let centred =
                    distances.row(i).iter().zip(&means).map(|(&d, m)| -0.5 * (square(d) - means[i] - m + mean));
                // Distances that no plane has leave negative parts; a shift keeps the largest positive ones in front.
                centred.zip(&axes).fold(axes[i].map(|x| x * mean), |sum, (b, a)| [sum[0] + b * a[0], sum[1] + b * a[1]])
            })
            .collect();
    }
    let widest = axes.iter().flatten().fold(0.0f64, |most, x| most.max(x.abs()));
    jittered(&axes, 1e-4 * if widest > 0.0 { widest } else { 1.0 }, &mut draws)
}

/// Places a little aside: what lies in the same place could never be told apart by pulling and pushing.
fn jittered(places: &[[f64; 2]], by: f64, draws: &mut Draws) -> Vec<[f32; 2]> {
    places.iter().map(|p| [p[0] + by * draws.symmetric(), p[1] + by * draws.symmetric()].map(|x| x as f32)).collect()
}

fn dot(means: &[f64], axes: &[[f64; 2]]) -> [f64; 2] {
    means.iter().zip(axes).fold([0.0; 2], |sum, (m, axis)| [sum[0] + m * axis[0], sum[1] + m * axis[1]])
}

/// Make the two columns orthogonal and of length one; a column of nothing stays one.
fn orthonormalize(axes: &mut [[f64; 2]]) {
    let length = |axes: &[[f64; 2]], c: usize| axes.iter().map(|a| a[c] * a[c]).sum::<f64>().sqrt().max(1e-300);
    let first = length(axes, 0);
    axes.iter_mut().for_each(|a| a[0] /= first);
    let along: f64 = axes.iter().map(|a| a[0] * a[1]).sum();
    axes.iter_mut().for_each(|a| a[1] -= along * a[0]);
    let second = length(axes, 1);
    axes.iter_mut().for_each(|a| a[1] /= second);
}

/// Centre places, and scale them so that they reach from -reach to reach both ways.
fn rescale(places: &mut [[f32; 2]], reach: f32) {
    for c in 0..2 {
        let least = places.iter().map(|p| p[c]).fold(f32::INFINITY, f32::min);
        let most = places.iter().map(|p| p[c]).fold(f32::NEG_INFINITY, f32::max);
        let (middle, half) = ((least + most) / 2.0, ((most - least) / 2.0).max(1e-9));
        let scale = if most - least > 1e-9 { reach / half } else { 0.0 };
        places.iter_mut().for_each(|p| p[c] = (p[c] - middle) * scale);
    }
}

/// The edges of the graph of neighbours with weights from 0 to 1, each once, in order.
fn edges(num: usize, neighbours: &Neighbours) -> Vec<(u32, u32, f32)> {
    let count = neighbours.count;
    let mut directed: Vec<(u32, u32, f32)> = Vec::with_capacity(num * count);
    for k in 0..num {
        let (topic, distance) = (&neighbours.topic[k * count..][..count], &neighbours.distance[k * count..][..count]);
        let nearest = distance.first().copied().unwrap_or(0.0);
        let width = (distance.iter().map(|d| d - nearest).sum::<f32>() / count.max(1) as f32).max(1e-6);
        for (&j, &d) in topic.iter().zip(distance) {
            let weight = (-(d - nearest) / width).exp();
            directed.push((j.min(k as u32), j.max(k as u32), weight));
        }
    }
    directed.sort_by_key(|edge| (edge.0, edge.1));
    // Seen from both sides: w + w' - w w'.
    let both = |same: &[(u32, u32, f32)]| {
        let weight = same.iter().fold(0.0, |sum, edge| sum + edge.2 - sum * edge.2);
        (same[0].0, same[0].1, weight)
    };
    directed.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)).map(both).collect()
}

/// Edges pull, random pairs push, less and less.
fn attract(places: &mut [[f32; 2]], edges: &[(u32, u32, f32)], seed: u64) {
    let num = places.len();
    let mut draws = Draws(seed ^ 0x5eed);
    let mut due = vec![0.0f32; edges.len()];
    let step = |difference: f32, by: f32| (difference * by).clamp(-4.0, 4.0);
    let rounds = (ROUNDS as f64 * (FEW / num.max(1) as f64).cbrt().min(1.0)) as usize;
    for round in 0..rounds {
        let rate = 1.0 - round as f32 / rounds as f32;
        for (&(a, b, weight), due) in edges.iter().zip(&mut due) {
            *due += weight;
            if *due < 1.0 {
                continue;
            }
            *due -= 1.0;
            for (from, to) in [(a as usize, b as usize), (b as usize, a as usize)] {
                let (p, q) = (places[from], places[to]);
                let (dx, dy) = (p[0] - q[0], p[1] - q[1]);
                let pull = -2.0 / (1.0 + dx * dx + dy * dy);
                let mut place = [p[0] + rate * step(dx, pull), p[1] + rate * step(dy, pull)];
                // All push from the same place, so that none waits for another; nobody pushes itself.
                let others: [usize; PUSHES] = std::array::from_fn(|_| draws.below(num));
                let pushes = others.map(|other| {
                    let (dx, dy) = (place[0] - places[other][0], place[1] - places[other][1]);
                    let square = dx * dx + dy * dy;
                    let push = 2.0 / ((0.001 + square) * (1.0 + square));
                    if other == from { [0.0; 2] } else { [step(dx, push), step(dy, push)] }
                });
                for push in pushes {
                    place = [place[0] + rate * push[0], place[1] + rate * push[1]];
                }
                places[from] = place;
            }
        }
    }
}

/// Push circles that overlap apart, a little each round. A circle looks for smaller ones around it, so that the work is that
/// of the area that circles cover.
fn spread(places: &mut [[f32; 2]], radius: &[f32]) {
    const CELLS: usize = 128;
    const GAP: f32 = 1.08;
    let num = places.len();
    let cell = |x: f32| (((x + 1.5) / 3.0 * CELLS as f32) as isize).clamp(0, CELLS as isize - 1) as usize;
    let mut cells: Vec<Vec<u32>> = vec![Vec::new(); CELLS * CELLS];
    let smaller = |j: usize, i: usize| radius[j] < radius[i] || (radius[j] == radius[i] && j < i);
    for _ in 0..SPREADS {
        cells.iter_mut().for_each(Vec::clear);
        for (i, p) in places.iter().enumerate() {
            cells[cell(p[1]) * CELLS + cell(p[0])].push(i as u32);
        }
        let mut moved = false;
        for i in 0..num {
            let reach = 2.0 * radius[i] * GAP;
            let [x, y] = places[i];
            for row in cell(y - reach)..=cell(y + reach) {
                for column in cell(x - reach)..=cell(x + reach) {
                    for &j in &cells[row * CELLS + column] {
                        let j = j as usize;
                        if i == j || !smaller(j, i) {
                            continue;
                        }
                        let (dx, dy) = (places[j][0] - places[i][0], places[j][1] - places[i][1]);
                        let (apart, need) = ((dx * dx + dy * dy).sqrt(), (radius[i] + radius[j]) * GAP);
                        if apart >= need {
                            continue;
                        }
                        moved = true;
                        // In the same place there is no direction; any will do.
                        let (ux, uy) =
                            if apart > 1e-6 { (dx / apart, dy / apart) } else { ((j as f32).cos(), (j as f32).sin()) };
                        let push = 0.5 * (need - apart);
                        // The smaller one gives way.
                        let heavy = radius[i] * radius[i] / (radius[i] * radius[i] + radius[j] * radius[j]).max(1e-12);
                        places[j] = [places[j][0] + ux * push * heavy, places[j][1] + uy * push * heavy];
                        places[i] =
                            [places[i][0] - ux * push * (1.0 - heavy), places[i][1] - uy * push * (1.0 - heavy)];
                    }
                }
            }
        }
        if !moved {
            break;
        }
    }
}
