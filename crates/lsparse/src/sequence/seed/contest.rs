//! Several starts, each with a few laps over a part of the sequences: the one that foretells other sequences best goes on.
//!
//! Clusters of rows are a good start where a row tells its state. Where it does not, as a symbol that several states give,
//! they lock what a state gives to how rows look, and training rests there. Only sequences can tell: states that start as
//! some stretches of a sequence, half and half with all rows, take from the chain which rows belong together.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::excerpt::{Excerpt, Part};
use crate::allocation::{Chain, ChainCounts, PairSums};
use crate::clusters::seed::fill_in;
use crate::data::{Batches, Dealt, Scalar};
use crate::error::Result;
use crate::likelihood::{ClusterSummary, Scratch};
use crate::sequence::local::SequenceWorker;
use crate::sequence::model::StandsFor;
use crate::sequence::train::score_steps;
use crate::sequence::{Sequence, SequenceSummary};
use crate::training::model::Model;
use crate::training::rules::Patience;
use crate::training::schedule::{Pace, ScheduleKind};
use crate::training::session::{Places, Session, Start};

/// A start that is none by clusters of rows: stretches of so many steps, in states that are likely to stay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entrant {
    /// Steps that a state starts as.
    steps: usize,
    /// The share of a state's steps that another follows, of the same state.
    stay: f64,
}

/// Rows that a state has on average at least, where starts are tried with a few states a step: with fewer, states that
/// started alike end in a handful of them (300 states on 1,500 rows: 290 were empty).
const ROWS_A_STATE: usize = 15;

/// The starts that are tried beside clusters of rows: fewer where states are many, and most of all where not `all` of them
/// can be tried at every step of so many `rows`.
pub fn entrants(states: usize, rows: usize, all: bool) -> Vec<Entrant> {
    let fast = Entrant { steps: 5, stay: 0.0 };
    let slow = Entrant { steps: 20, stay: 0.8 };
    match states {
        1 => Vec::new(),
        2..=20 => vec![fast, slow, fast, slow, fast, slow, fast],
        _ if all => vec![fast, slow, fast],
        0..=MOST_STATES if rows >= ROWS_A_STATE * states => vec![slow],
        _ => Vec::new(),
    }
}

/// Laps before the first judgement, after which the worse half leaves and the others take twice as many: chains that move on
/// at once leave the plateau where all states are alike in small steps.
fn first_laps(states: usize) -> usize {
    if states <= 20 { 10 } else { 5 }
}

/// States that other starts are tried for at most.
const MOST_STATES: usize = 500;

/// Up to so many states they are tried with all states a step, on any sample.
const ALL_STATES: usize = 100;

/// Whether starts are tried with all states a step, of sequences of so many rows: what a few keep depends on where they come
/// from, and many states that few rows have started alike collapse into a handful (200 states on 1,500 rows: 190 of them
/// were empty). Where states are many it must cost no more than for fewer on their sample.
pub fn takes_all(states: usize, rows: usize) -> bool {
    let pairs = |states: usize, rows: usize| states * states * rows.min(sample_steps(states));
    states <= ALL_STATES || (states <= MOST_STATES && pairs(states, rows) <= pairs(ALL_STATES, usize::MAX))
}

/// Steps that they are tried on.
pub fn sample_steps(states: usize) -> usize {
    states.saturating_mul(100).max(5_000)
}

/// A start on its way, all of the part to learn from being one batch.
struct Runner<'a, T: Scalar> {
    session: Session<'a, Sequence<T>>,
    score: f64,
}

/// A lap is a step.
const PACE: Pace = Pace { schedule: ScheduleKind::Full, delay: 1.0, decay: 1.0, leave_out: false };

/// Sequences to try starts on.
pub struct Contest<'a, T: Scalar> {
    model: &'a Sequence<T>,
    own: Part<T>,
    judges: Option<Part<T>>,
    /// Statistics of all rows of the part to learn from, as one cluster.
    all: ClusterSummary,
    /// What statistics are to stand for.
    whole: StandsFor,
    patience: Patience<'a>,
}

impl<'a, T: Scalar> Contest<'a, T> {
    /// On this excerpt of sequences.
    pub fn new(model: &'a mut Sequence<T>, excerpt: Excerpt<T>, whole: StandsFor, patience: Patience<'a>) -> Self {
        let Excerpt { mut own, judges } = excerpt;
        (model.lacking, model.stands_for) = (own.lacking.clone(), Some(whole));
        let model = &*model;
        // Starts take rows that lack values with the means of their columns.
        fill_in(&mut own.rows);
        let all: Vec<u32> = (0..own.rows.len() as u32).filter(|&row| !own.lacks(row as usize)).collect();
        let nothing = model.likelihood.no_statistics(1);
        let mut contest = Contest { model, own, judges, all: nothing, whole, patience };
        contest.all = contest.summed(&[all]);
        contest
    }

    /// Statistics of these rows, a list a cluster.
    fn summed(&self, members: &[Vec<u32>]) -> ClusterSummary {
        let likelihood = self.model.likelihood.as_ref();
        let mut summary = likelihood.no_statistics(members.len());
        let (width, mut scratch) = (summary.width, Scratch::default());
        let (stats, shared) = summary.stats.split_at_mut(members.len() * width);
        for ((members, count), stat) in members.iter().zip(&mut summary.counts).zip(stats.chunks_mut(width)) {
            *count = members.len() as f64;
            likelihood.accumulate(&self.own.rows, members, &vec![T::ONE; members.len()], &mut scratch, stat);
            likelihood.accumulate_shared(&self.own.rows, members, &vec![1.0; members.len()], shared);
        }
        summary
    }

    /// The statistics of the best start after some laps, on the scale of all sequences.
    pub fn hold(
        &self,
        by_rows: SequenceSummary,
        entrants: &[Entrant],
        rng: &mut ChaCha8Rng,
    ) -> Result<SequenceSummary> {
        let mut worker = self.model.worker();
        let mut starts = vec![by_rows.clone()];
        starts.extend(entrants.iter().map(|entrant| self.stretches(*entrant, rng)));
        let mut laps = first_laps(self.model.num_states);
        let mut runners = Vec::with_capacity(starts.len());
        for start in starts {
            let runner = self.begin(start).and_then(|mut runner| {
                self.go_on(&mut runner, laps, &mut worker)?;
                Ok(runner)
            });
            match runner {
                Ok(runner) => runners.push(runner),
                // A start that cannot be trained is none; one that was interrupted ends them all.
                Err(_) => self.patience.check()?,
            }
        }
        loop {
            // Of equal ones the first stays.
            runners.sort_by(|a, b| b.score.total_cmp(&a.score));
            runners.truncate(runners.len().div_ceil(2));
            if runners.len() <= 1 {
                break;
            }
            laps *= 2;
            for runner in &mut runners {
                self.go_on(runner, laps, &mut worker)?;
            }
        }
        Ok(runners.pop().map_or(by_rows, |best| best.session.total().clone()))
    }

    /// States as stretches of sequences, half and half with all rows.
    fn stretches(&self, entrant: Entrant, rng: &mut ChaCha8Rng) -> SequenceSummary {
        let (num, rows) = (self.model.num_states, self.own.rows.len());
        let there = |row: &u32| !self.own.lacks(*row as usize);
        let mut stretch = || -> Vec<u32> {
            let first = rng.random_range(0..rows.saturating_sub(entrant.steps).max(1));
            let found: Vec<u32> =
                (first..rows.min(first + entrant.steps)).map(|row| row as u32).filter(there).collect();
            if found.is_empty() { (0..rows as u32).filter(there).take(1).collect() } else { found }
        };
        let members: Vec<Vec<u32>> = (0..num).map(|_| stretch()).collect();
        let mut clusters = self.summed(&members);
        let each = self.whole.rows / num as f64;
        let width = clusters.width;
        let total = self.all.counts[0];
        for (count, stat) in clusters.counts.iter_mut().zip(clusters.stats.chunks_mut(width)) {
            let own = 0.5 * each / *count;
            stat.iter_mut()
                .zip(self.all.stat(0))
                .for_each(|(own_stat, all)| *own_stat = own * *own_stat + 0.5 * each * all / total);
            *count = each;
        }
        let factor = self.whole.rows / total;
        clusters.stats[num * width..].iter_mut().zip(self.all.shared()).for_each(|(own, all)| *own = factor * all);
        let starts = self.whole.sequences / num as f64;
        let follow = (each - starts).max(0.0);
        let mut chain = ChainCounts::zeros(num);
        if entrant.stay > 0.0 {
            let mut pairs = PairSums::new(num, false);
            (0..num as u32).for_each(|k| pairs.add(num, k, k, entrant.stay * follow));
            pairs.into_counts(num, &mut chain);
        }
        chain.start.fill(starts);
        chain.spread.fill((1.0 - entrant.stay) * follow);
        SequenceSummary { clusters, chain }
    }

    fn begin(&self, total: SequenceSummary) -> Result<Runner<'_, T>> {
        let data = Dealt::new(self.own.source(), Batches::of_windows(self.own.groups.whole(), 1, 0)?);
        let params = self.model.global_step(&total, None)?;
        // (Of one batch nothing is drawn.)
        let start = Start { params, total, stays: false, rng: ChaCha8Rng::seed_from_u64(0) };
        let session = Session::begin(self.model.clone(), data, start, &PACE, Places::default(), 0);
        Ok(Runner { session, score: f64::NEG_INFINITY })
    }

    /// Some laps further, and how good that is.
    fn go_on(&self, runner: &mut Runner<'_, T>, laps: usize, worker: &mut SequenceWorker<T>) -> Result<()> {
        for _ in 0..laps {
            self.patience.check()?;
            runner.session.step(worker)?;
        }
        let score = self.judge(&runner.session)?;
        runner.score = if score.is_nan() { f64::NEG_INFINITY } else { score };
        Ok(())
    }

    /// How well other sequences are foretold, or where there are none the objective.
    fn judge(&self, session: &Session<'_, Sequence<T>>) -> Result<f64> {
        let Some(judges) = &self.judges else { return Ok(session.objective().total()) };
        let model = self.model;
        let clusters = model.likelihood.clusters_of(&session.params().clusters.arrays())?;
        let chain = Chain::predictive(model.estimate, model.prior, &session.total().chain);
        let scores =
            score_steps(model.likelihood.as_ref(), clusters.as_ref(), &chain, &judges.steps(), &judges.groups)?;
        Ok(scores.iter().sum())
    }
}
