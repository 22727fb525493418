//! Sequences drawn from a chain whose states are known.

use rand::RngExt;

use super::{categorical, dirichlet, generator};
use crate::likelihood::LikelihoodKind;

/// Sequences and the chain that they were drawn from.
#[derive(Clone, Debug)]
pub struct PlantedChain {
    /// Columns.
    pub dim: usize,
    /// Rows, one after the other.
    pub values: Vec<f64>,
    /// The state of each row.
    pub labels: Vec<usize>,
    /// Rows of each sequence.
    pub lengths: Vec<usize>,
    /// K x K probabilities of transitions.
    pub transitions: Vec<f64>,
}

/// How planted chains go on.
#[derive(Clone, Copy, Debug)]
pub struct ChainShape {
    /// The probability of staying in a state.
    pub stay: f64,
    /// Other states that may follow a state.
    pub followers: usize,
    /// What means are drawn towards each other by: 1 for states that rows tell apart, more for ambiguous ones.
    pub blur: f64,
}

impl Default for ChainShape {
    fn default() -> Self {
        ChainShape { stay: 0.8, followers: 3, blur: 1.0 }
    }
}

/// Sequences of these lengths from a chain over `num_states` states of the family.
pub fn planted_chain(
    kind: LikelihoodKind,
    lengths: &[usize],
    dim: usize,
    num_states: usize,
    shape: ChainShape,
    seed: u64,
) -> PlantedChain {
    let mut rng = generator(seed);
    let family = kind.family();
    let mut arrays = (family.plant)(num_states, dim, &mut rng);
    arrays.iter_mut().filter(|array| array.name == "means").flat_map(|array| &mut array.values).for_each(|mean| {
        *mean /= shape.blur;
    });
    let draws = (family.draws)(&arrays, dim).expect("planted states can be drawn from");
    let mut transitions = vec![0.0; num_states * num_states];
    for (j, row) in transitions.chunks_exact_mut(num_states).enumerate() {
        let followers = shape.followers.min(num_states - 1);
        let shares = dirichlet(followers.max(1), 2.0, &mut rng);
        let mut others: Vec<usize> = (0..num_states).filter(|&k| k != j).collect();
        for share in &shares[..followers] {
            let k = others.swap_remove(rng.random_range(0..others.len()));
            row[k] = (1.0 - shape.stay) * share;
        }
        row[j] = if followers == 0 { 1.0 } else { shape.stay };
    }
    let num_rows: usize = lengths.iter().sum();
    let (mut values, mut labels) = (vec![0.0; num_rows * dim], Vec::with_capacity(num_rows));
    let mut rows = values.chunks_exact_mut(dim);
    for &length in lengths {
        let mut state = rng.random_range(0..num_states);
        for row in rows.by_ref().take(length) {
            draws[state](&mut |rng| rng.random_range(20..60), row, &mut rng);
            labels.push(state);
            state = categorical(&transitions[state * num_states..(state + 1) * num_states], &mut rng);
        }
    }
    PlantedChain { dim, values, labels, lengths: lengths.to_vec(), transitions }
}
