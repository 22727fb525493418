//! What a lap gathers beside the statistics of clusters, so that a change of their number can be judged at its end.

use serde::{Deserialize, Serialize};

use crate::likelihood::ClusterSummary;
use crate::training::moves::{Part, Remap};

/// Statistics of clusters that might be: additive, and remembered with those of the batch that gave them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Which proposals these are of: those of others do not add up with them.
    pub generation: u64,
    /// What the entropy has of values that rows lack.
    pub of_gaps: f64,
    /// The clusters that are proposed for a split, ascending.
    pub splits: Vec<u32>,
    /// What the entropy changes by with each.
    pub split_entropy: Vec<f64>,
    /// Where the pieces of each begin, and where the last one's end.
    pub piece_begin: Vec<u32>,
    /// N of their pieces.
    pub piece_counts: Vec<f64>,
    /// S of the same.
    pub piece_stats: Vec<f64>,
    /// What the entropy changes by if two clusters become one, for pairs that some row holds both of, ascending.
    pub pairs: Vec<(u32, u32, f64)>,
    /// The clusters that are proposed to be given up, ascending, with what the entropy changes by.
    pub leaving: Vec<(u32, f64)>,
    /// What rows that hold one of them bring to others without it, ascending.
    pub heirs: Vec<Heir>,
}

/// What the rows of a cluster bring to another if it is given up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Heir {
    /// The cluster that is given up.
    pub from: u32,
    /// The cluster that takes them.
    pub to: u32,
    /// N.
    pub count: f64,
    /// S.
    pub stat: Vec<f64>,
}

impl Heir {
    fn key(&self) -> (u32, u32) {
        (self.from, self.to)
    }
}

/// `into += factor * from`, both ascending by their keys.
fn add_sorted<V: Clone, K: Ord>(
    into: &mut Vec<V>,
    from: &[V],
    key: impl Fn(&V) -> K,
    add: impl Fn(Option<&mut V>, &V) -> Option<V>,
) {
    let mut out = Vec::with_capacity(into.len().max(from.len()));
    let mut from = from.iter().peekable();
    for mut own in into.drain(..) {
        while let Some(other) = from.next_if(|other| key(other) < key(&own)) {
            out.extend(add(None, other));
        }
        if let Some(other) = from.next_if(|other| key(other) == key(&own)) {
            add(Some(&mut own), other);
        }
        out.push(own);
    }
    out.extend(from.filter_map(|other| add(None, other)));
    *into = out;
}

impl Trial {
    /// What the entropy changes by if these two whole clusters become one; nothing where no row holds both.
    fn of_pair(&self, pair: (Part, Part)) -> f64 {
        let (Part::Whole(a), Part::Whole(b)) = pair else { return 0.0 };
        self.pair(a, b).unwrap_or_default()
    }

    /// What the entropy changes by if these two clusters become one; none where no row holds both.
    pub(crate) fn pair(&self, a: u32, b: u32) -> Option<f64> {
        let found = self.pairs.binary_search_by_key(&(a.min(b), a.max(b)), |pair| (pair.0, pair.1));
        found.ok().map(|at| self.pairs[at].2)
    }

    /// Nothing yet of these proposals: clusters and their numbers of pieces, and clusters that may be given up.
    pub fn new(generation: u64, splits: impl Iterator<Item = (u32, usize)>, leaving: &[u32], width: usize) -> Self {
        let (mut clusters, mut piece_begin) = (Vec::new(), vec![0]);
        for (cluster, pieces) in splits {
            clusters.push(cluster);
            piece_begin.push(piece_begin[piece_begin.len() - 1] + pieces as u32);
        }
        let num_pieces = piece_begin[clusters.len()] as usize;
        Trial {
            generation,
            split_entropy: vec![0.0; clusters.len()],
            splits: clusters,
            piece_begin,
            piece_counts: vec![0.0; num_pieces],
            piece_stats: vec![0.0; num_pieces * width],
            leaving: leaving.iter().map(|&k| (k, 0.0)).collect(),
            ..Default::default()
        }
    }

    /// `self += factor * other`, of the same proposals.
    pub fn add_scaled(&mut self, other: &Trial, factor: f64) {
        let add = |into: &mut [f64], from: &[f64]| into.iter_mut().zip(from).for_each(|(a, b)| *a += factor * b);
        self.of_gaps += factor * other.of_gaps;
        add(&mut self.split_entropy, &other.split_entropy);
        add(&mut self.piece_counts, &other.piece_counts);
        add(&mut self.piece_stats, &other.piece_stats);
        self.leaving.iter_mut().zip(&other.leaving).for_each(|(a, b)| a.1 += factor * b.1);
        add_sorted(
            &mut self.pairs,
            &other.pairs,
            |pair| (pair.0, pair.1),
            |own, other| match own {
                Some(own) => {
                    own.2 += factor * other.2;
                    None
                }
                None => Some((other.0, other.1, factor * other.2)),
            },
        );
        add_sorted(&mut self.heirs, &other.heirs, Heir::key, |own, other| match own {
            Some(own) => {
                own.count += factor * other.count;
                add(&mut own.stat, &other.stat);
                None
            }
            None => {
                let stat = other.stat.iter().map(|s| factor * s).collect();
                Some(Heir { count: factor * other.count, stat, ..*other })
            }
        });
    }

    /// `self *= factor`.
    pub fn scale(&mut self, factor: f64) {
        let numbers = self.split_entropy.iter_mut().chain(&mut self.piece_counts).chain(&mut self.piece_stats);
        let numbers = numbers.chain(self.pairs.iter_mut().map(|pair| &mut pair.2));
        let numbers = numbers.chain(self.leaving.iter_mut().map(|leaving| &mut leaving.1));
        numbers.chain([&mut self.of_gaps]).for_each(|number| *number *= factor);
        for heir in &mut self.heirs {
            heir.count *= factor;
            heir.stat.iter_mut().for_each(|s| *s *= factor);
        }
    }

    /// Bytes of memory held.
    pub fn resident_bytes(&self) -> usize {
        let numbers = 3 * self.splits.len()
            + self.piece_counts.len()
            + self.piece_stats.len()
            + 2 * self.pairs.len()
            + 2 * self.leaving.len();
        8 * (numbers + self.heirs.iter().map(|heir| 6 + heir.stat.len()).sum::<usize>())
    }

    /// N and S of the pieces of a cluster that is proposed for a split; none of another.
    pub fn pieces(&self, cluster: u32) -> impl ExactSizeIterator<Item = (f64, &[f64])> {
        let split = self.splits.binary_search(&cluster);
        let of = split.map_or(0..0, |at| self.piece_begin[at] as usize..self.piece_begin[at + 1] as usize);
        let width = self.piece_stats.len() / self.piece_counts.len().max(1);
        of.map(move |at| (self.piece_counts[at], &self.piece_stats[at * width..(at + 1) * width]))
    }

    /// What one cluster that is given up brings to others.
    pub fn heirs_of(&self, cluster: u32) -> &[Heir] {
        let begin = self.heirs.partition_point(|heir| heir.from < cluster);
        let end = self.heirs.partition_point(|heir| heir.from <= cluster);
        &self.heirs[begin..end]
    }
}

impl ClusterSummary {
    /// N and S of a part of the clusters; none where it was not gathered.
    pub(crate) fn part(&self, part: Part) -> Option<(f64, &[f64])> {
        let trial = self.trial.as_deref();
        match part {
            Part::Whole(k) => Some((self.counts[k as usize], self.stat(k as usize))),
            Part::Piece { of, at } => trial?.pieces(of).nth(at as usize),
            Part::Inherited { from, to } => {
                let at = trial?.heirs.binary_search_by_key(&(from, to), Heir::key).ok()?;
                trial.map(|trial| (trial.heirs[at].count, &trial.heirs[at].stat[..]))
            }
        }
    }

    /// The statistics of other clusters; the entropy is that of the responsibilities they would have.
    pub(crate) fn remapped(&self, plan: &Remap) -> ClusterSummary {
        let num = plan.clusters.len();
        let mut out = ClusterSummary::zeros(num, self.width, self.shared().len());
        out.stats[num * self.width..].copy_from_slice(self.shared());
        out.entropy = self.entropy + self.entropy_change(plan);
        for (k, parts) in plan.clusters.iter().enumerate() {
            for (count, stat) in parts.iter().filter_map(|&part| self.part(part)) {
                out.counts[k] += count;
                let into = &mut out.stats[k * self.width..(k + 1) * self.width];
                into.iter_mut().zip(stat).for_each(|(a, b)| *a += b);
            }
        }
        out
    }

    /// What the entropy changes by: pairs that become one, clusters that become several, and those that are given up.
    fn entropy_change(&self, plan: &Remap) -> f64 {
        let is_whole = |part: &Part| matches!(part, Part::Whole(_));
        if let [parts] = &plan.clusters[..]
            && parts.len() > 1
            && parts.len() == self.num_clusters()
            && parts.iter().all(is_whole)
        {
            // All in one: nothing is left to be unsure of but what rows lack.
            return self.trial.as_ref().map_or(0.0, |trial| trial.of_gaps) - self.entropy;
        }
        let Some(trial) = &self.trial else { return 0.0 };
        let mut change = 0.0;
        for parts in &plan.clusters {
            change += match parts[..] {
                // (No row holds more than two of those that become one.)
                [Part::Whole(_), Part::Whole(_), ..] => parts
                    .iter()
                    .enumerate()
                    .flat_map(|(at, &a)| parts[at + 1..].iter().map(move |&b| (a, b)))
                    .map(|pair| trial.of_pair(pair))
                    .sum(),
                [Part::Piece { of, at: 0 }] => {
                    trial.splits.binary_search(&of).map_or(0.0, |at| trial.split_entropy[at])
                }
                _ => 0.0,
            };
        }
        let stays = |k: u32| {
            let is_of = |part: &Part| matches!(part, Part::Whole(a) | Part::Piece { of: a, .. } if *a == k);
            plan.clusters.iter().flatten().any(is_of)
        };
        change + trial.leaving.iter().filter(|(k, _)| !stays(*k)).map(|(_, change)| change).sum::<f64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::training::summary::Summary;

    #[test]
    fn batches_add_up_and_parts_make_other_clusters() {
        let batch = |scale: f64, pairs: &[(u32, u32, f64)], heirs: &[(u32, u32, f64)]| ClusterSummary {
            counts: vec![3.0 * scale, 2.0 * scale, scale],
            stats: vec![6.0 * scale, 4.0 * scale, 5.0 * scale, 9.0],
            entropy: 10.0,
            trial: Some(Box::new(Trial {
                of_gaps: 3.0 * scale,
                generation: 4,
                splits: vec![0],
                split_entropy: vec![0.5 * scale],
                piece_begin: vec![0, 2],
                piece_counts: vec![scale, 2.0 * scale],
                piece_stats: vec![5.0 * scale, scale],
                pairs: pairs.to_vec(),
                leaving: vec![(2, -1.0)],
                heirs: heirs.iter().map(|&(from, to, count)| Heir { from, to, count, stat: vec![count] }).collect(),
            })),
            ..ClusterSummary::zeros(3, 1, 1)
        };
        let mut total = batch(1.0, &[(0, 1, -0.5)], &[(2, 0, 0.25), (2, 1, 0.75)]);
        total.add_scaled(&batch(2.0, &[(0, 1, -0.25), (1, 2, -3.0)], &[(2, 1, 2.0)]), 1.0);
        let trial = total.trial.as_deref().unwrap();
        assert_eq!(trial.pairs, [(0, 1, -0.75), (1, 2, -3.0)]);
        assert_eq!(trial.heirs.iter().map(|heir| heir.count).collect::<Vec<_>>(), [0.25, 2.75]);
        // Statistics of other proposals neither add up nor take away.
        let older = ClusterSummary { trial: Some(Box::new(Trial { generation: 3, ..trial.clone() })), ..total.clone() };
        let mut both = total.clone();
        both.add_scaled(&older, -1.0);
        assert_eq!(both.trial, total.trial);
        // The first is split, the second takes a part of the third, which is given up.
        let plan = |clusters: &[&[Part]]| Remap { clusters: clusters.iter().map(|parts| parts.to_vec()).collect() };
        let (to_first, to_second) = (Part::Inherited { from: 2, to: 0 }, Part::Inherited { from: 2, to: 1 });
        let mut split = total.clone();
        let piece = |at| Part::Piece { of: 0, at };
        split.remap(&plan(&[&[piece(0)], &[Part::Whole(1)], &[piece(1)], &[Part::Whole(2)]]));
        assert_eq!(
            (&split.counts[..], &split.stats[..]),
            (&[3.0, 6.0, 6.0, 3.0][..], &[15.0, 12.0, 3.0, 15.0, 18.0][..])
        );
        assert_eq!((split.entropy, split.trial), (21.5, None));
        let mut given_up = total.clone();
        given_up.remap(&plan(&[&[Part::Whole(0), to_first], &[Part::Whole(1), to_second]]));
        assert_eq!((&given_up.counts[..], given_up.entropy), (&[9.25, 8.75][..], 18.0));
        let mut merged = total.clone();
        merged.remap(&plan(&[&[Part::Whole(0), Part::Whole(1)], &[Part::Whole(2)]]));
        assert_eq!((&merged.counts[..], merged.entropy), (&[15.0, 3.0][..], 19.25));
    }
}
