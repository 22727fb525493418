//! Judging changes of the number of clusters by what the whole objective gains, and making those that gain.
//!
//! The objective is a sum of what each cluster's statistics are worth, of the entropy and of a term of the counts. So a
//! change that leaves other clusters alone is worth the same whatever is done to those, but for the term of the counts,
//! which is worked out anew each time. Only where clusters share statistics (a tied covariance) all of them are.

use rayon::prelude::*;

use super::Piece;
use super::trade::{best_pair, tell_shapes};
use crate::data::Scalar;
use crate::error::Result;
use crate::likelihood::{ClusterSummary, Estimate, Together, Trial};
use crate::mixture::Mixture;
use crate::training::moves::{Move, MoveKind, Part, Remap};

/// Partners of a cluster that a merge with is worked out for, those whose rows overlap most.
const PARTNERS: usize = 8;

/// A cluster with fewer rows has none: what is left is of rounding.
const NOTHING: f64 = 1e-9;

/// Share of the term of counts that its rounding stays below.
const TIE: f64 = 1e-9;

/// Clusters that are weighed together.
const AT_ONCE: usize = 8;

/// What loses this share of the term of counts at best does so whatever that is rounded by.
const HOPELESS: f64 = 1e-7;

/// A cluster more must gain more than this, in nats: what gains less is rounding.
const LEAST_GAIN: f64 = 1e-3;

/// A piece has a row, or so much of a cluster whose rows weigh less.
const LEAST_SHARE: f64 = 0.01;

/// A change that might be made.
pub(super) struct Candidate {
    pub(super) kind: MoveKind,
    /// The clusters that it changes, those that go and those that stay; those that are split, where these are several.
    touches: Vec<u32>,
    /// The clusters in their place, for each of the touched; none for one that goes.
    becomes: Vec<(u32, Option<Vec<Part>>)>,
    /// More of them.
    besides: Vec<Vec<Part>>,
    /// What the data term gains, and the entropy.
    gain: f64,
}

impl Candidate {
    /// The clusters that there are by it.
    fn clusters(&self) -> impl Iterator<Item = &[Part]> {
        let becomes = self.becomes.iter().filter_map(|(_, parts)| parts.as_deref());
        becomes.chain(self.besides.iter().map(|parts| &parts[..]))
    }

    /// What it gains where this is what the term of counts and, if shared, the data term come to before and after.
    fn gain_to(&self, before: (f64, f64), after: (f64, f64)) -> f64 {
        self.gain + (after.1 - before.1) + (after.0 - before.0)
    }

    /// A split and a merge at once.
    fn with(&self, merge: &Candidate) -> Candidate {
        Candidate {
            kind: MoveKind::Trade,
            touches: self.touches.iter().chain(&merge.touches).copied().collect(),
            becomes: self.becomes.iter().chain(&merge.becomes).cloned().collect(),
            besides: self.besides.clone(),
            gain: self.gain + merge.gain,
        }
    }
}

fn views(pieces: &[Piece]) -> Vec<(f64, &[f64])> {
    pieces.iter().map(|(count, stat)| (*count, &stat[..])).collect()
}

/// What gains no more or less is rounding.
fn tie(allocation: f64) -> f64 {
    TIE * (1.0 + allocation.abs())
}

/// The clusters as they are to be.
pub struct Judge<'a, T: Scalar> {
    mixture: &'a Mixture<T>,
    total: &'a ClusterSummary,
    trial: &'a Trial,
    /// Each cluster as it will be; none where it is gone. Those that are born come behind.
    clusters: Vec<Option<Vec<Part>>>,
    /// N of each; none where it is gone.
    counts: Vec<Option<f64>>,
    touched: Vec<bool>,
    pub(super) candidates: Vec<Candidate>,
    /// Each with the clusters that it touches and how many are born of it.
    made: Vec<(Move, Vec<u32>, usize)>,
}

impl<'a, T: Scalar> Judge<'a, T> {
    pub fn new(mixture: &'a Mixture<T>, total: &'a ClusterSummary, trial: &'a Trial) -> Self {
        let num = total.num_clusters();
        let clusters = (0..num as u32).map(|k| Some(vec![Part::Whole(k)])).collect();
        let (touched, candidates, made) = (vec![false; num], Vec::new(), Vec::new());
        let counts = total.counts.iter().copied().map(Some).collect();
        Judge { mixture, total, trial, clusters, counts, touched, candidates, made }
    }

    /// Whether what a cluster is worth depends on the others.
    fn shares(&self) -> bool {
        self.mixture.likelihood.kind().family().shares_covariance
    }

    fn count(&self, parts: &[Part]) -> f64 {
        parts.iter().filter_map(|&part| self.total.part(part)).map(|(count, _)| count).sum()
    }

    /// The data term of each cluster with these statistics.
    fn worths(&self, clusters: &[&[Part]]) -> Result<Vec<f64>> {
        let width = self.total.width;
        let of_some = |some: &[&[Part]]| -> Result<Vec<f64>> {
            let (mut counts, mut stats) = (vec![0.0; some.len()], vec![0.0; some.len() * width]);
            for ((parts, count), stat) in some.iter().zip(&mut counts).zip(stats.chunks_exact_mut(width)) {
                for (of_part, from) in parts.iter().filter_map(|&part| self.total.part(part)) {
                    *count += of_part;
                    stat.iter_mut().zip(from).for_each(|(a, b)| *a += b);
                }
            }
            let mut worths = self.mixture.likelihood.evidence(&counts, &stats)?;
            let empty = worths.iter_mut().zip(&counts).filter(|(_, count)| **count <= 0.0);
            empty.for_each(|(worth, _)| *worth = 0.0);
            Ok(worths)
        };
        let worths: Vec<Vec<f64>> = clusters.par_chunks(AT_ONCE).map(of_some).collect::<Result<_>>()?;
        Ok(worths.concat())
    }

    /// The clusters as they are to be, or as they would be after a change, each with its N where that is known.
    fn after<'c>(&'c self, change: Option<&'c Candidate>) -> impl Iterator<Item = (Option<f64>, &'c [Part])> {
        let becomes = move |k: usize| change?.becomes.iter().find(|of| of.0 as usize == k);
        let present = self.clusters.iter().zip(&self.counts).enumerate();
        let present = present.filter_map(move |(k, (parts, count))| match becomes(k) {
            Some((_, parts)) => parts.as_deref().map(|parts| (None, parts)),
            None => parts.as_deref().map(|parts| (*count, parts)),
        });
        present.chain(change.into_iter().flat_map(|change| change.besides.iter().map(|parts| (None, &parts[..]))))
    }

    /// The statistics of all clusters, and what they share.
    fn statistics(&self, change: Option<&Candidate>) -> (Vec<f64>, Vec<f64>) {
        let (mut counts, mut stats) = (Vec::new(), Vec::with_capacity(self.total.stats.len() + self.total.width));
        for (_, parts) in self.after(change) {
            let first = stats.len();
            stats.resize(first + self.total.width, 0.0);
            for (_, stat) in parts.iter().filter_map(|&part| self.total.part(part)) {
                stats[first..].iter_mut().zip(stat).for_each(|(a, b)| *a += b);
            }
            counts.push(self.count(parts));
        }
        stats.extend(self.total.shared());
        (counts, stats)
    }

    /// The data term of all clusters, where they share statistics.
    fn worth_of_all(&self, change: Option<&Candidate>) -> Result<f64> {
        let (counts, stats) = self.statistics(change);
        Ok(self.mixture.likelihood.global_step(Estimate::Posterior, &counts, &stats, None)?.own_data_term())
    }

    /// The term of counts.
    fn allocation(&self, change: Option<&Candidate>) -> f64 {
        let count = |(count, parts): (Option<f64>, &[Part])| count.unwrap_or_else(|| self.count(parts));
        let counts: Vec<f64> = self.after(change).map(count).collect();
        self.mixture.allocation.term(Estimate::Posterior, &counts)
    }

    /// The term of counts and, where clusters share statistics, the data term of all.
    fn terms(&self, change: Option<&Candidate>) -> Result<(f64, f64)> {
        let data = if self.shares() { self.worth_of_all(change)? } else { 0.0 };
        Ok((self.allocation(change), data))
    }

    /// All clusters as they are to be, where they share statistics.
    fn together(&self) -> Result<Option<Box<dyn Together>>> {
        if !self.shares() {
            return Ok(None);
        }
        let (counts, stats) = self.statistics(None);
        self.mixture.likelihood.together(&counts, &stats)
    }

    /// What a change gains but for rounding, from where the term of counts is what it is: the exact gain where clusters share
    /// nothing, and else in a time that does not depend on their number.
    fn quick_gain(&self, together: Option<&dyn Together>, candidate: &Candidate, allocation: f64) -> f64 {
        self.gain_of_data(together, candidate) + (self.allocation(Some(candidate)) - allocation)
    }

    /// The same without the term of counts.
    fn gain_of_data(&self, together: Option<&dyn Together>, candidate: &Candidate) -> f64 {
        let Some(together) = together else { return candidate.gain };
        let of_cluster = |parts: &[Part]| -> Piece {
            let mut sum = vec![0.0; self.total.width];
            for (_, stat) in parts.iter().filter_map(|&part| self.total.part(part)) {
                sum.iter_mut().zip(stat).for_each(|(a, b)| *a += b);
            }
            (self.count(parts), sum)
        };
        let gone = candidate.becomes.iter().filter_map(|(k, _)| self.clusters[*k as usize].as_deref());
        let gone: Vec<Piece> = gone.map(of_cluster).collect();
        let come: Vec<Piece> = candidate.clusters().map(of_cluster).collect();
        candidate.gain + together.gain(&views(&gone), &views(&come))
    }

    /// Make a change that gains so much.
    fn make(&mut self, candidate: Candidate, gain: f64) {
        let Candidate { kind, touches, becomes, besides, .. } = candidate;
        touches.iter().for_each(|&k| self.touched[k as usize] = true);
        let change = Move { kind, from: Vec::new(), to: Vec::new(), gain };
        self.made.push((change, touches, besides.len()));
        for (k, parts) in becomes {
            self.counts[k as usize] = parts.as_ref().map(|parts| self.count(parts));
            self.clusters[k as usize] = parts;
        }
        for parts in besides {
            self.counts.push(Some(self.count(&parts)));
            self.clusters.push(Some(parts));
        }
    }

    /// Work out what every change that was proposed would gain; says how many they are.
    /// Merges only where pairs are asked for that may be near.
    pub fn consider(&mut self, near: Option<&[(u32, u32)]>) -> Result<usize> {
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
        for (a, b, gain) in near.map_or_else(Vec::new, |near| self.pairs(near)) {
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
            let mut is_needed = vec![false; self.total.num_clusters()];
            candidates.iter().flat_map(|of| &of.touches).for_each(|&k| is_needed[k as usize] = true);
            let whole: Vec<[Part; 1]> = (0..is_needed.len() as u32).map(|k| [Part::Whole(k)]).collect();
            let needed: Vec<usize> = (0..whole.len()).filter(|&k| is_needed[k]).collect();
            let worths = self.worths(&needed.iter().map(|&k| &whole[k][..]).collect::<Vec<_>>())?;
            let mut own = vec![0.0; whole.len()];
            needed.into_iter().zip(worths).for_each(|(k, worth)| own[k] = worth);
            let all = candidates.iter().flat_map(Candidate::clusters).collect::<Vec<_>>();
            let mut worths = self.worths(&all)?.into_iter();
            let mut gain = |candidate: &Candidate| {
                let after: f64 = worths.by_ref().take(candidate.clusters().count()).sum();
                candidate.gain + after - candidate.touches.iter().map(|&k| own[k as usize]).sum::<f64>()
            };
            let gains: Vec<f64> = candidates.iter().map(&mut gain).collect();
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
        let apart = near.iter().filter(|pair| pair.0 < num as u32 && pair.1 < num as u32);
        found.extend(apart.map(|pair| (pair.0, pair.1, self.trial.pair(pair.0, pair.1).unwrap_or_default())));
        found.sort_by_key(|pair| (pair.0, pair.1));
        found.dedup_by_key(|pair| (pair.0, pair.1));
        found
    }

    /// Make the changes that gain, the best first, none of what another has changed but for merges with what others have
    /// joined. Of equals the smaller number of clusters.
    pub fn accept(&mut self, most: usize) -> Result<()> {
        let mut present = self.terms(None)?;
        let mut order: Vec<(f64, usize, Candidate)> = Vec::new();
        let most_rise = self.mixture.allocation.most_rise(&self.total.counts);
        let mut together = self.together()?;
        for (at, candidate) in std::mem::take(&mut self.candidates).into_iter().enumerate() {
            // Most of them are far from gaining.
            let of_data = self.gain_of_data(together.as_deref(), &candidate);
            let counts = || candidate.clusters().map(|parts| self.count(parts)).collect();
            let most = most_rise.as_ref().map(|most| most.of(&candidate.touches, counts()));
            if most.is_some_and(|most| of_data + most < -HOPELESS * (1.0 + present.0.abs())) {
                continue;
            }
            let gain = of_data + (self.allocation(Some(&candidate)) - present.0);
            if gain >= -tie(present.0) {
                order.push((gain, at, candidate));
            }
        }
        order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        for (_, _, candidate) in order {
            let born = candidate.besides.len();
            let num = self.counts.iter().flatten().count();
            let is_free = candidate.touches.iter().all(|&k| !self.touched[k as usize]);
            let Some(candidate) = (if is_free { Some(candidate) } else { self.with_what_joined(candidate)? }) else {
                continue;
            };
            if born > 0 && num + born > most {
                continue;
            }
            // Where others have changed what is shared, most gain no more.
            if together.is_some() && self.quick_gain(together.as_deref(), &candidate, present.0) < -tie(present.0) {
                continue;
            }
            let after = self.terms(Some(&candidate))?;
            let gain = candidate.gain_to(present, after);
            if gain > LEAST_GAIN || (gain >= -tie(present.0) && born == 0) {
                self.make(candidate, gain);
                present = after;
                together = self.together()?;
            }
        }
        Ok(())
    }

    /// A merge with a cluster that others have joined already, as one with all of them: many small ones may go to a large
    /// one at once. None where that is not known exactly, which it is if the one that joins has rows in common with one of
    /// the others at most: then no row holds three of them, and the entropy changes by what it does for each pair.
    fn with_what_joined(&self, merge: Candidate) -> Result<Option<Candidate>> {
        let is_whole = |k: u32| !self.touched[k as usize];
        let (stays, joins) = match (merge.kind, &merge.touches[..]) {
            (MoveKind::Merge, &[a, b]) if is_whole(b) => (a, b),
            (MoveKind::Merge, &[a, b]) if is_whole(a) => (b, a),
            _ => return Ok(None),
        };
        let Some(before) = self.clusters[stays as usize].as_deref() else { return Ok(None) };
        let (mut met, mut change) = (0, 0.0);
        for part in before {
            let &Part::Whole(k) = part else { return Ok(None) };
            if let Some(of_pair) = self.trial.pair(k, joins) {
                met += 1;
                change += of_pair;
            }
        }
        if met > 1 {
            return Ok(None);
        }
        let joined = [Part::Whole(joins)];
        let after: Vec<Part> = before.iter().copied().chain(joined).collect();
        if !self.shares() {
            let worths = self.worths(&[&after, before, &joined])?;
            change += worths[0] - worths[1] - worths[2];
        }
        let becomes = vec![(stays, Some(after)), (joins, None)];
        Ok(Some(Candidate { touches: vec![stays, joins], becomes, gain: change, ..merge }))
    }

    /// Make the trades that gain more than `least`, a split with a merge of other clusters: the two that gain most together
    /// first. A merge that gains by itself makes up for a split that loses where the pieces tell their shapes. Says whether
    /// such a merge had part in any.
    pub fn trade(&mut self, least: f64) -> Result<bool> {
        let mut had_to_spare = false;
        let mut present = self.terms(None)?;
        let (mut splits, mut merges, together) = (Vec::new(), Vec::new(), self.together()?);
        for candidate in std::mem::take(&mut self.candidates) {
            let gain = self.quick_gain(together.as_deref(), &candidate, present.0);
            match candidate.besides.len() {
                0 => merges.push((gain, candidate)),
                1 => splits.push((gain, candidate)),
                _ => {}
            }
        }
        merges.sort_by(|a, b| b.0.total_cmp(&a.0));
        loop {
            let of_splits: Vec<(f64, &[u32])> = splits.iter().map(|split| (split.0, &split.1.touches[..])).collect();
            let of_merges: Vec<(f64, &[u32])> = merges.iter().map(|merge| (merge.0, &merge.1.touches[..])).collect();
            let is_free = |k: u32| !self.touched[k as usize];
            let Some((split, merge, _)) = best_pair(&of_splits, &of_merges, is_free) else { break };
            let (_, split) = splits.swap_remove(split);
            let (to_spare, merge) = (merges[merge].0.max(0.0), &merges[merge].1);
            let trade = split.with(merge);
            let after = self.terms(Some(&trade))?;
            let gain = trade.gain_to(present, after);
            let counts = split.touches.iter().flat_map(|&k| self.trial.pieces(k)).map(|piece| piece.0);
            let makes_up = gain - to_spare > least || tell_shapes(self.mixture.likelihood.as_ref(), counts);
            if gain > least && makes_up {
                had_to_spare |= to_spare > 0.0;
                self.make(trade, gain);
                present = after;
            }
        }
        Ok(had_to_spare)
    }

    /// What each change that is considered would gain by itself.
    pub fn gains(&self) -> Result<Vec<(MoveKind, Vec<u32>, f64)>> {
        let (present, together) = (self.allocation(None), self.together()?);
        let gain = |candidate: &Candidate| {
            let gain = self.quick_gain(together.as_deref(), candidate, present);
            (candidate.kind, candidate.touches.clone(), gain)
        };
        Ok(self.candidates.iter().map(gain).collect())
    }

    /// The clusters in their new order, and the changes that were made, by lasting numbers.
    pub fn finish(self, ids: &mut Vec<u64>, next_id: &mut u64) -> (Remap, Vec<Move>) {
        let before = ids.clone();
        let mut new_ids: Vec<u64> = Vec::new();
        let mut moves = Vec::new();
        for (mut change, touches, born) in self.made {
            change.from = touches.iter().map(|&k| before[k as usize]).collect();
            change.to = match change.kind {
                MoveKind::Birth | MoveKind::Trade => {
                    let fresh = *next_id..*next_id + born as u64;
                    *next_id = fresh.end;
                    new_ids.extend(fresh.clone());
                    let stay = touches.iter().filter(|&&k| self.clusters[k as usize].is_some());
                    stay.map(|&k| before[k as usize]).chain(fresh).collect()
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
