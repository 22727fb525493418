//! Trades between clusters: two that are hardly needed apart become one, and one that should be two is split instead.

use rayon::prelude::*;

/// A split must gain so much more than the merge that it is traded for costs.
const LEAST_GAIN: f64 = 1.05;

/// What is given up: a cluster that joins another, and what that costs.
pub struct Merge {
    pub cost: f64,
    /// The cluster that stays.
    pub into: usize,
    /// The one whose place becomes free.
    pub from: usize,
}

/// What a cluster gains by being two, and the rows that leave it.
pub struct Split {
    pub gain: f64,
    pub cluster: usize,
    pub apart: Vec<u32>,
}

/// Carry out the trades that gain, the cheapest merge with the best split and so on, no cluster having part in two, and
/// return how many there were.
pub fn carry_out(owner: &mut [u32], groups: &Groups, mut merges: Vec<Merge>, mut splits: Vec<Split>) -> usize {
    merges.sort_by(|a, b| a.cost.total_cmp(&b.cost).then(a.into.cmp(&b.into)));
    splits.sort_by(|a, b| b.gain.total_cmp(&a.gain).then(a.cluster.cmp(&b.cluster)));
    let mut is_free = vec![true; groups.len()];
    let mut trades = 0;
    for Merge { cost, into, from } in merges {
        if !(is_free[into] && is_free[from]) {
            continue;
        }
        let fits = |split: &Split| is_free[split.cluster] && split.cluster != into && split.cluster != from;
        let Some(Split { gain, cluster, apart }) = splits.iter().find(|split| fits(split)) else { continue };
        if *gain <= cost.max(0.0) * LEAST_GAIN {
            break;
        }
        groups.of(from).iter().for_each(|&n| owner[n as usize] = into as u32);
        apart.iter().for_each(|&n| owner[n as usize] = from as u32);
        [into, from, *cluster].iter().for_each(|&k| is_free[k] = false);
        trades += 1;
    }
    trades
}

/// For every cluster its cheapest merge, of those with the clusters that `partners` names.
pub fn cheapest<I: Iterator<Item = usize>>(
    num: usize,
    partners: impl Fn(usize) -> I + Sync,
    cost: impl Fn(usize, usize) -> f64 + Sync,
) -> Vec<Merge> {
    let merges = (0..num).into_par_iter().filter_map(|from| {
        let all = partners(from).filter(|&into| into != from);
        all.map(|into| Merge { cost: cost(into, from), into, from }).min_by(|a, b| a.cost.total_cmp(&b.cost))
    });
    merges.collect()
}

/// Who belongs to which cluster: rows in order, cluster by cluster.
pub struct Groups {
    start: Vec<usize>,
    members: Vec<u32>,
}

impl Groups {
    pub fn new(owner: &[u32], num: usize) -> Self {
        let mut start = vec![0usize; num + 1];
        owner.iter().for_each(|&k| start[k as usize + 1] += 1);
        for k in 0..num {
            start[k + 1] += start[k];
        }
        let mut next = start.clone();
        let mut members = vec![0u32; owner.len()];
        for (n, &k) in owner.iter().enumerate() {
            members[next[k as usize]] = n as u32;
            next[k as usize] += 1;
        }
        Groups { start, members }
    }

    /// How many clusters there are.
    pub fn len(&self) -> usize {
        self.start.len() - 1
    }

    /// The rows of a cluster.
    pub fn of(&self, k: usize) -> &[u32] {
        &self.members[self.start[k]..self.start[k + 1]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_split_is_traded_for_the_cheapest_merge() {
        let mut owner = vec![0, 0, 0, 0, 1, 2, 3, 4];
        let groups = Groups::new(&owner, 5);
        let merge = |cost, into, from| Merge { cost, into, from };
        let split = |gain, cluster, apart: &[u32]| Split { gain, cluster, apart: apart.to_vec() };
        // The second merge has part of the first, and the third costs more than the only split that is left.
        let merges = vec![merge(5.0, 3, 4), merge(1.0, 1, 2), merge(2.0, 2, 3)];
        let splits = vec![split(4.0, 4, &[7]), split(9.0, 0, &[2, 3]), split(20.0, 2, &[5])];
        assert_eq!(carry_out(&mut owner, &groups, merges, splits), 1);
        assert_eq!(owner, [0, 0, 2, 2, 1, 1, 3, 4]);
    }

    #[test]
    fn a_trade_that_gains_nothing_is_none() {
        let mut owner = vec![0, 1, 2, 2];
        let groups = Groups::new(&owner, 3);
        let merges = vec![Merge { cost: 1.0, into: 0, from: 1 }];
        let splits = vec![Split { gain: 1.0, cluster: 2, apart: vec![3] }];
        assert_eq!(carry_out(&mut owner, &groups, merges, splits), 0);
        assert_eq!(owner, [0, 1, 2, 2]);
    }
}
