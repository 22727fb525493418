//! Draws from any discrete distribution at the cost of one random number, whatever its size (Walker 1977, Vose 1991).

/// A table of n equal cells, each shared by two outcomes at most.
#[derive(Default)]
pub struct AliasTable {
    /// The share of each cell that is its own outcome's.
    own: Vec<f32>,
    /// Whose the rest is.
    other: Vec<u32>,
}

/// Buffers for making tables.
#[derive(Default)]
pub struct AliasScratch {
    under: Vec<u32>,
    over: Vec<u32>,
}

impl AliasTable {
    /// Make it the table of `weights`, which are positive and sum to `sum`.
    pub fn rebuild(&mut self, weights: &[f32], sum: f32, scratch: &mut AliasScratch) {
        let AliasScratch { under, over } = scratch;
        let grow = weights.len() as f32 / sum;
        self.own.clear();
        self.own.extend(weights.iter().map(|w| w * grow));
        self.other.clear();
        self.other.extend(0..weights.len() as u32);
        under.clear();
        over.clear();
        for (i, &share) in self.own.iter().enumerate() {
            if share < 1.0 { under.push(i as u32) } else { over.push(i as u32) }
        }
        while let (Some(small), Some(&large)) = (under.pop(), over.last()) {
            self.other[small as usize] = large;
            let left = self.own[large as usize] + self.own[small as usize] - 1.0;
            self.own[large as usize] = left;
            if left < 1.0 {
                over.pop();
                under.push(large);
            }
        }
        // What is left over is a whole cell, but for rounding.
        under.iter().chain(over.iter()).for_each(|&i| self.own[i as usize] = 1.0);
    }

    /// The outcome for a number drawn uniformly from [0, 1).
    #[inline]
    pub fn outcome(&self, uniform: f64) -> usize {
        let at = uniform * self.own.len() as f64;
        let cell = (at as usize).min(self.own.len() - 1);
        if at - cell as f64 <= f64::from(self.own[cell]) { cell } else { self.other[cell] as usize }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_come_in_proportion_to_their_weights() {
        for weights in [vec![1.0f32], vec![1.0; 3], vec![0.1, 5.0, 0.4, 2.5, 1e-3, 2.0]] {
            let sum: f32 = weights.iter().sum();
            let mut table = AliasTable::default();
            table.rebuild(&weights, sum, &mut AliasScratch::default());
            let draws = 600_000;
            let mut found = vec![0u32; weights.len()];
            (0..draws).for_each(|i| found[table.outcome(f64::from(i) / f64::from(draws))] += 1);
            for (&n, &w) in found.iter().zip(&weights) {
                let (share, expected) = (f64::from(n) / f64::from(draws), f64::from(w / sum));
                assert!((share - expected).abs() < 2e-5, "{share} against {expected}");
            }
        }
    }
}
