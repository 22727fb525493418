//! Judging changes of the number of clusters by what the whole objective gains, and making those that gain.
//!
//! The objective is a sum of what each cluster's statistics are worth, of the entropy and of a term of the counts. So a
//! change that leaves other clusters alone is worth the same whatever is done to those, but for the term of the counts,
//! which is worked out anew each time. Only where clusters share statistics (a tied covariance) all of them are.

use rayon::prelude::*;

use crate::data::Scalar;
use crate::error::Result;
use crate::likelihood::{ClusterSummary, Estimate, Trial};
use crate::mixture::Mixture;
use crate::training::moves::{Move, MoveKind, Part, Remap};

/// Partners of a cluster that a merge with is worked out for, those whose rows overlap most.
const PARTNERS: usize = 8;

/// A cluster with fewer rows has none: what is left is of rounding.
const NOTHING: f64 = 1e-9;

/// Share of the term of counts that its rounding stays below.
const TIE: f64 = 1e-9;

/// A cluster more must gain more than this, in nats: what gains less is rounding.
const LEAST_GAIN: f64 = 1e-3;

/// A piece has a row, or so much of a cluster whose rows weigh less.
const LEAST_SHARE: f64 = 0.01;

/// A change that might be made.
struct Candidate {
    kind: MoveKind,
    /// The clusters that it changes, those that go and those that stay; those that are split, where these are several.
    touches: Vec<u32>,
    /// The clusters in their place, for each of the touched; none for one that goes.
    becomes: Vec<(u32, Option<Vec<Part>>)>,
    /// More of them.
    besides: Vec<Vec<Part>>,
    /// What the data term gains, and the entropy.
    gain: f64,
}

/// The clusters as they are to be.
pub struct Judge<'a, T: Scalar> {
    mixture: &'a Mixture<T>,
    total: &'a ClusterSummary,
    trial: &'a Trial,
    /// What the statistics of each cluster are worth.
    own: Vec<f64>,
    /// Each cluster as it will be; none where it is gone. Those that are born come behind.
    clusters: Vec<Option<Vec<Part>>>,
    /// N of each; none where it is gone.
    counts: Vec<Option<f64>>,
    touched: Vec<bool>,
    candidates: Vec<Candidate>,
    /// Each with the clusters that it touches and how many are born of it.
    made: Vec<(Move, Vec<u32>, usize)>,
}

impl<'a, T: Scalar> Judge<'a, T> {
    pub fn new(mixture: &'a Mixture<T>, total: &'a ClusterSummary, trial: &'a Trial) -> Result<Self> {
        let num = total.num_clusters();
        let clusters = (0..num as u32).map(|k| Some(vec![Part::Whole(k)])).collect();
        let (touched, candidates, made) = (vec![false; num], Vec::new(), Vec::new());
        let (own, counts) = (Vec::new(), total.counts.iter().copied().map(Some).collect());
        let mut judge = Judge { mixture, total, trial, own, clusters, counts, touched, candidates, made };
        if !judge.shares() {
            let own = (0..num as u32).into_par_iter().map(|k| judge.worth(&[Part::Whole(k)]));
            judge.own = own.collect::<Result<_>>()?;
        }
        Ok(judge)
    }

    /// Whether what a cluster is worth depends on the others.
    fn shares(&self) -> bool {
        self.mixture.likelihood.shared_width() > 0
    }

    fn count(&self, parts: &[Part]) -> f64 {
        parts.iter().filter_map(|&part| self.total.part(part)).map(|(count, _)| count).sum()
    }

    /// The data term of a cluster with these statistics.
    fn worth(&self, parts: &[Part]) -> Result<f64> {
        let (mut count, mut stat) = (0.0, vec![0.0; self.total.width]);
        for (of_part, from) in parts.iter().filter_map(|&part| self.total.part(part)) {
            count += of_part;
            stat.iter_mut().zip(from).for_each(|(a, b)| *a += b);
        }
        if count <= 0.0 {
            return Ok(0.0);
        }
        Ok(self.mixture.likelihood.global_step(Estimate::Posterior, &[count], &stat, None)?.own_data_term())
    }

    /// The data term of all clusters, where they share statistics.
    fn worth_of_all(&self, clusters: &[Option<Vec<Part>>]) -> Result<f64> {
        let plan = Remap { clusters: clusters.iter().flatten().cloned().collect() };
        let ClusterSummary { counts, stats, .. } = self.total.remapped(&plan);
        Ok(self.mixture.likelihood.global_step(Estimate::Posterior, &counts, &stats, None)?.own_data_term())
    }

    /// The clusters after a change.
    fn after(&self, candidate: &Candidate) -> Vec<Option<Vec<Part>>> {
        let mut clusters = self.clusters.clone();
        for (k, parts) in &candidate.becomes {
            clusters[*k as usize].clone_from(parts);
        }
        clusters.extend(candidate.besides.iter().cloned().map(Some));
        clusters
    }

    /// N of the clusters after a change.
    fn counts_after(&self, candidate: &Candidate) -> Vec<Option<f64>> {
        let mut counts = self.counts.clone();
        for (k, parts) in &candidate.becomes {
            counts[*k as usize] = parts.as_ref().map(|parts| self.count(parts));
        }
        counts.extend(candidate.besides.iter().map(|parts| Some(self.count(parts))));
        counts
    }

    /// The term of these counts.
    fn allocation(&self, counts: &[Option<f64>]) -> f64 {
        let counts: Vec<f64> = counts.iter().flatten().copied().collect();
        self.mixture.allocation.term(Estimate::Posterior, &counts)
    }

    /// Work out what every change that was proposed would gain; says how many they are.
    pub fn consider(&mut self, near: &[(u32, u32)]) -> Result<usize> {
        let mut candidates: Vec<Candidate> = Vec::new();
        for (&k, &gain) in self.trial.splits.iter().zip(&self.trial.split_entropy) {
            let least = LEAST_SHARE * self.total.counts[k as usize];
            if self.trial.pieces(k).all(|(count, _)| count >= least.min(1.0)) {
                let piece = |at| vec![Part::Piece { of: k, at }];
                let becomes = vec![(k, Some(piece(0)))];
                let besides = (1..self.trial.pieces(k).len() as u32).map(piece).collect();
                candidates.push(Candidate { kind: MoveKind::Birth, touches: vec![k], becomes, besides, gain });
            }
        }
        if self.shares() && candidates.len() > 1 {
            // One split of many may lose where all of them gain: what is shared follows only then.
            let kind = MoveKind::Birth;
            let touches = candidates.iter().flat_map(|split| &split.touches).copied().collect();
            let becomes = candidates.iter().flat_map(|split| &split.becomes).cloned().collect();
            let besides = candidates.iter().flat_map(|split| &split.besides).cloned().collect();
            let gain = candidates.iter().map(|split| split.gain).sum();
            candidates.push(Candidate { kind, touches, becomes, besides, gain });
        }
        for (a, b, gain) in self.pairs(near) {
            let becomes = vec![(a, Some(vec![Part::Whole(a), Part::Whole(b)])), (b, None)];
            candidates.push(Candidate {
                kind: MoveKind::Merge,
                touches: vec![a, b],
                becomes,
                besides: Vec::new(),
                gain,
            });
        }
        for &(k, gain) in &self.trial.leaving {
            let heirs = self.trial.heirs_of(k).iter().map(|heir| heir.to);
            let takes = |to: u32| (to, Some(vec![Part::Whole(to), Part::Inherited { from: k, to }]));
            let becomes: Vec<_> = std::iter::once((k, None)).chain(heirs.clone().map(takes)).collect();
            let touches = std::iter::once(k).chain(heirs).collect();
            candidates.push(Candidate { kind: MoveKind::Delete, touches, becomes, besides: Vec::new(), gain });
        }
        let empty = (0u32..).zip(&self.total.counts).filter(|(_, count)| **count < NOTHING).map(|(k, _)| k);
        candidates.extend(empty.map(|k| {
            let (touches, becomes) = (vec![k], vec![(k, None)]);
            Candidate { kind: MoveKind::Delete, touches, becomes, besides: Vec::new(), gain: 0.0 }
        }));
        if !self.shares() {
            let gain = |candidate: &Candidate| {
                let mut gain = candidate.gain;
                let fresh = candidate.becomes.iter().filter_map(|(_, parts)| parts.as_ref());
                for parts in fresh.chain(&candidate.besides) {
                    gain += self.worth(parts)?;
                }
                Ok(gain - candidate.touches.iter().map(|&k| self.own[k as usize]).sum::<f64>())
            };
            let gains: Vec<f64> = candidates.par_iter().map(gain).collect::<Result<_>>()?;
            candidates.iter_mut().zip(gains).for_each(|(candidate, gain)| candidate.gain = gain);
        }
        self.candidates = candidates;
        Ok(self.candidates.len())
    }

    /// What the splits that are considered would gain but for the term of counts; nothing is known of each by itself where
    /// clusters share statistics.
    pub fn gains_of_splits(&self) -> Vec<(u32, f64)> {
        let splits = self.candidates.iter().filter(|candidate| candidate.kind == MoveKind::Birth && !self.shares());
        splits.map(|candidate| (candidate.touches[0], candidate.gain)).collect()
    }

    /// Pairs to be merged and what the entropy changes by: for each cluster those whose rows overlap most, and those that
    /// are near.
    fn pairs(&self, near: &[(u32, u32)]) -> Vec<(u32, u32, f64)> {
        let num = self.total.num_clusters();
        let mut of_cluster: Vec<Vec<(f64, usize)>> = vec![Vec::new(); num];
        for (at, &(a, b, change)) in self.trial.pairs.iter().enumerate() {
            let size = |k: u32| self.total.counts[k as usize].max(f64::MIN_POSITIVE);
            of_cluster[a as usize].push((change / size(a), at));
            of_cluster[b as usize].push((change / size(b), at));
        }
        let mut found: Vec<(u32, u32, f64)> = Vec::new();
        for pairs in &mut of_cluster {
            pairs.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            found.extend(pairs.iter().take(PARTNERS).map(|&(_, at)| self.trial.pairs[at]));
        }
        let known = |&(a, b): &(u32, u32)| self.trial.pairs.binary_search_by_key(&(a, b), |pair| (pair.0, pair.1));
        let apart = near.iter().filter(|pair| pair.0 < num as u32 && pair.1 < num as u32);
        found.extend(apart.map(|pair| (pair.0, pair.1, known(pair).map_or(0.0, |at| self.trial.pairs[at].2))));
        found.sort_by_key(|pair| (pair.0, pair.1));
        found.dedup_by_key(|pair| (pair.0, pair.1));
        found
    }

    /// Make the changes that gain, the best first, none of what another has changed. Of equals the smaller number of
    /// clusters.
    pub fn accept(&mut self, most: usize) -> Result<()> {
        let mut present = self.allocation(&self.counts);
        let mut data = if self.shares() { self.worth_of_all(&self.clusters)? } else { 0.0 };
        let candidates = std::mem::take(&mut self.candidates);
        let mut order: Vec<(f64, usize)> = Vec::new();
        for (at, candidate) in candidates.iter().enumerate() {
            let gain = self.gain(candidate, present, data)?;
            if gain >= -self.tie(present) {
                order.push((gain, at));
            }
        }
        order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        for (_, at) in order {
            let candidate = &candidates[at];
            let born = candidate.besides.len();
            let num = self.counts.iter().flatten().count();
            let is_free = candidate.touches.iter().all(|&k| !self.touched[k as usize]);
            if !is_free || (born > 0 && num + born > most) {
                continue;
            }
            let counts = self.counts_after(candidate);
            let alloc = self.allocation(&counts);
            let worth = if self.shares() { self.worth_of_all(&self.after(candidate))? } else { 0.0 };
            let gain = candidate.gain + (worth - data) + (alloc - present);
            if gain > LEAST_GAIN || (gain >= -self.tie(present) && born == 0) {
                candidate.touches.iter().for_each(|&k| self.touched[k as usize] = true);
                let change = Move { kind: candidate.kind, from: Vec::new(), to: Vec::new(), gain };
                self.made.push((change, candidate.touches.clone(), born));
                (self.clusters, self.counts) = (self.after(candidate), counts);
                (present, data) = (alloc, worth);
            }
        }
        Ok(())
    }

    /// What a change would gain now, where this is what the term of counts and, if shared, the data term come to.
    fn gain(&self, candidate: &Candidate, present: f64, data: f64) -> Result<f64> {
        let of_data = if self.shares() { self.worth_of_all(&self.after(candidate))? - data } else { 0.0 };
        Ok(candidate.gain + of_data + self.allocation(&self.counts_after(candidate)) - present)
    }

    /// What each change that is considered would gain by itself.
    pub fn gains(&self) -> Result<Vec<(MoveKind, Vec<u32>, f64)>> {
        let present = self.allocation(&self.counts);
        let data = if self.shares() { self.worth_of_all(&self.clusters)? } else { 0.0 };
        let gain = |candidate: &Candidate| {
            Ok((candidate.kind, candidate.touches.clone(), self.gain(candidate, present, data)?))
        };
        self.candidates.iter().map(gain).collect()
    }

    /// What gains no more or less is rounding.
    fn tie(&self, allocation: f64) -> f64 {
        TIE * (1.0 + allocation.abs())
    }

    /// The clusters in their new order, and the changes that were made, by lasting numbers.
    pub fn finish(self, ids: &mut Vec<u64>, next_id: &mut u64) -> (Remap, Vec<Move>) {
        let before = ids.clone();
        let mut new_ids: Vec<u64> = Vec::new();
        let mut moves = Vec::new();
        for (mut change, touches, born) in self.made {
            change.from = touches.iter().map(|&k| before[k as usize]).collect();
            change.to = match change.kind {
                MoveKind::Birth => {
                    let fresh = *next_id..*next_id + born as u64;
                    *next_id = fresh.end;
                    new_ids.extend(fresh.clone());
                    change.from.iter().copied().chain(fresh).collect()
                }
                MoveKind::Merge => vec![before[touches[0] as usize]],
                MoveKind::Delete => touches[1..].iter().map(|&k| before[k as usize]).collect(),
            };
            moves.push(change);
        }
        let all = before.into_iter().chain(new_ids);
        (*ids, _) = all.zip(&self.clusters).filter(|(_, parts)| parts.is_some()).unzip::<_, _, Vec<u64>, Vec<_>>();
        (Remap { clusters: self.clusters.into_iter().flatten().collect() }, moves)
    }
}
