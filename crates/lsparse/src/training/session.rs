//! The training loop as a value: batches are handed out, what comes of them is folded in, and the whole can be saved
//! between any two steps.
//!
//! ```
//! use lsparse::data::MemoryRows;
//! use lsparse::mixture::{MixtureInputs, Mixtures};
//! use lsparse::runs::Family;
//! use lsparse::MixtureConfig;
//!
//! let rows: Vec<f64> = (0..200).map(|n| if n % 2 == 0 { 5.0 } else { -5.0 } + (n % 7) as f64 * 0.1).collect();
//! let source = MemoryRows::new("two groups", 1, rows)?;
//! let config = MixtureConfig { clusters: 2, ..Default::default() };
//! let mixtures = Mixtures::<f64>::new(&source, &config, MixtureInputs::default())?;
//! let mut session = mixtures.session(0)?;
//! let mut worker = session.worker();
//! for _ in 0..3 {
//!     while !session.step(&mut worker)?.ends_lap {}
//! }
//! assert_eq!(session.progress().laps, 3);
//! # Ok::<(), lsparse::Error>(())
//! ```

use std::collections::VecDeque;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::data::{Batch, Dealt};
use crate::error::{Error, Result};
use crate::system::recent_peak_memory_bytes;
use crate::training::model::{Model, Objective, Tally, Visited};
use crate::training::moves::{Changes, K_MAX_REACHED};
use crate::training::observe::Stopwatch;
use crate::training::rules::{EVIDENCE, Gauge, Progress, StopReason, StopRules, count_empty};
use crate::training::schedule::{Memo, MemoPlace, Memos, Pace, Schedule, ScheduleState};
use crate::training::summary::Summary;
use crate::training::trace::{StepInfo, told_sizes};

/// What a run starts from.
pub struct Start<M: Model> {
    /// The first parameters.
    pub params: M::Params,
    /// The statistics that they were estimated from.
    pub total: M::Summary,
    /// Whether these statistics are of other data and stay in the total for good.
    pub stays: bool,
    /// Randomness of the schedule.
    pub rng: ChaCha8Rng,
}

/// Where what is remembered goes: in memory, and beyond a limit in files.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// Statistics of batches.
    pub memos: MemoPlace,
    /// What rows remember.
    pub rows: MemoPlace,
}

/// A batch that is handed out to be worked on, with what its rows remember.
#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Ticket<M: Model> {
    /// The batch.
    pub batch: usize,
    /// Visits of the run before this one.
    pub visit: u64,
    /// Whether it is the first of a lap.
    pub begins_lap: bool,
    /// What its rows remember.
    pub memory: Arc<M::Memory>,
}

/// What came of a ticket.
#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Done<M: Model> {
    /// The ticket's batch.
    pub batch: usize,
    /// The ticket's visit.
    pub visit: u64,
    /// What the visit left behind.
    pub visited: Visited<M>,
}

impl<M: Model> Ticket<M> {
    /// Work the batch out.
    pub fn work(&self, model: &M, params: &M::Params, data: &Dealt<'_>, worker: &mut M::Worker) -> Result<Done<M>> {
        let Ticket { batch, visit, begins_lap, ref memory } = *self;
        let batch_of = Batch { data, number: batch, visit, begins_lap };
        let visited = model.local(params, &batch_of, memory, worker)?;
        Ok(Done { batch, visit, visited })
    }

    /// Done otherwise, by somebody who keeps nothing of rows.
    pub fn done(&self, summary: M::Summary) -> Done<M> {
        Done { batch: self.batch, visit: self.visit, visited: Visited::only(summary) }
    }
}

/// A session at rest: everything that it needs to go on, but for data and settings.
#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Snapshot<M: Model> {
    /// How far it has come.
    pub progress: Progress,
    /// Its total.
    pub total: M::Summary,
    /// Its schedule, with order, place, randomness and what is remembered of batches.
    pub schedule: ScheduleState<M::Summary>,
    /// What of the parameters the total does not give.
    pub carried: M::Carried,
    /// What rows remember, batch by batch.
    pub memories: Vec<Option<Memo<M::Memory>>>,
    /// What was done since the last report.
    pub tally: M::Tally,
    /// Files that it refers to, to be flushed to the disk before it is worth anything.
    #[serde(skip)]
    pub files: Vec<Arc<File>>,
}

/// A training under way.
pub struct Session<'a, M: Model> {
    model: M,
    data: Dealt<'a>,
    run: usize,
    schedule: Box<dyn Schedule<M::Summary>>,
    params: M::Params,
    /// The statistics that the parameters were estimated from.
    total: M::Summary,
    memories: Memos<M::Memory>,
    progress: Progress,
    tally: M::Tally,
    /// Batches that may be handed out at one time.
    at_once: usize,
    /// Batches that are handed out, in that order.
    in_flight: VecDeque<usize>,
    /// Statistics that are needed no more.
    spent: Option<M::Summary>,
    clock: Stopwatch,
}

impl<'a, M: Model> Session<'a, M> {
    /// Begin a run.
    pub fn begin(model: M, data: Dealt<'a>, start: Start<M>, pace: &Pace, places: Places, run: usize) -> Self {
        let Start { params, total, stays, rng } = start;
        let schedule = pace.begin(data.shares(), &total, stays, rng, places.memos);
        let memories = Memos::new(data.batches.num_batches(), places.rows);
        Session { run, memories, ..Session::by(schedule, model, data, params, total) }
    }

    /// Begin by a schedule of one's own.
    pub(crate) fn by(
        schedule: Box<dyn Schedule<M::Summary>>,
        model: M,
        data: Dealt<'a>,
        params: M::Params,
        total: M::Summary,
    ) -> Self {
        let memories = Memos::new(data.batches.num_batches(), MemoPlace::default());
        let (progress, tally, in_flight, clock) = Default::default();
        let (run, spent, at_once) = (0, None, 1);
        Session {
            model,
            data,
            run,
            schedule,
            params,
            total,
            memories,
            progress,
            tally,
            at_once,
            in_flight,
            spent,
            clock,
        }
    }

    /// Training has taken this time already, that of seeding.
    pub fn after(mut self, clock: &Stopwatch) -> Self {
        (self.progress.seconds, self.progress.cpu_seconds) = (clock.seconds(), clock.cpu_seconds());
        self.clock = Stopwatch::at(self.progress.seconds, self.progress.cpu_seconds);
        self
    }

    /// Everything that a later session needs to go on from here; what is in flight will be handed out again.
    pub fn save(&mut self) -> Snapshot<M> {
        let schedule = self.schedule.snapshot();
        Snapshot {
            progress: self.progress.clone(),
            total: self.total.clone(),
            schedule: schedule.state,
            carried: self.model.carried(&self.params),
            memories: self.memories.slots(),
            tally: self.tally.clone(),
            files: schedule.file.into_iter().chain(self.memories.begin_checkpoint()).collect(),
        }
    }

    /// What was saved last is on disk.
    pub fn save_is_safe(&mut self) {
        self.schedule.snapshot_is_safe();
        self.memories.end_checkpoint();
    }

    /// Go on from what was saved, on the same data with the same settings.
    pub fn restore(
        mut model: M,
        data: Dealt<'a>,
        saved: Snapshot<M>,
        pace: &Pace,
        places: Places,
        run: usize,
    ) -> Result<Self> {
        let Snapshot { progress, total, schedule, carried, memories, tally, .. } = saved;
        let lacking = || Error::Config {
            setting: "resume",
            problem: "the checkpoint lacks a part that this version needs".into(),
            remedy: "start again with another checkpoint file".into(),
        };
        if memories.len() != data.batches.num_batches() {
            return Err(lacking());
        }
        let params = model.restore(&total, carried)?.ok_or_else(lacking)?;
        let schedule = pace.restore(data.shares(), schedule, places.memos)?;
        let memories = Memos::restore(memories, places.rows)?;
        let clock = Stopwatch::at(progress.seconds, progress.cpu_seconds);
        Ok(Session { run, memories, progress, tally, clock, ..Session::by(schedule, model, data, params, total) })
    }

    /// The model.
    pub fn model(&self) -> &M {
        &self.model
    }

    /// The rows, and how they are dealt.
    pub fn data(&self) -> &Dealt<'a> {
        &self.data
    }

    /// The parameters as they are: within a lap that leaves batches out, those without the batch that comes next.
    pub fn params(&self) -> &M::Params {
        &self.params
    }

    /// The statistics that the parameters were estimated from.
    pub fn total(&self) -> &M::Summary {
        &self.total
    }

    /// Which run it is, from 0.
    pub fn run(&self) -> usize {
        self.run
    }

    /// How far the run has come.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    pub(crate) fn progress_mut(&mut self) -> &mut Progress {
        &mut self.progress
    }

    /// Buffers to work with.
    pub fn worker(&self) -> M::Worker {
        self.model.worker()
    }

    /// So many batches are going to be handed out at one time. Where batches are left out of what they are worked out
    /// under they are left out together, half of them at most; how many there are changes what is trained.
    pub fn set_at_once(&mut self, most: usize) {
        self.at_once = most.max(1);
    }

    /// The next batch to be worked on; none while that is not known before others are folded in. A batch is in flight
    /// once at most; where batches are left out of what they are worked out under as many as are left out, and in a chain
    /// one at a time.
    pub fn hand_out(&mut self) -> Result<Option<Ticket<M>>> {
        let ahead = self.in_flight.len();
        if ahead == 0 {
            self.clock.start();
        } else if ahead >= self.schedule.at_once(self.at_once) || self.model.is_a_chain() {
            return Ok(None);
        }
        let next = self.schedule.next_batch(ahead).filter(|batch| !self.in_flight.contains(batch));
        let Some(batch) = next.filter(|&batch| ahead == 0 || self.schedule.is_ready(batch)) else { return Ok(None) };
        let begins_lap = ahead == 0 && self.schedule.place().0 == 0;
        if ahead == 0 {
            self.prepare()?;
        }
        self.in_flight.push_back(batch);
        let memory = self.memories.get(batch)?.unwrap_or_default();
        Ok(Some(Ticket { batch, visit: self.progress.step + ahead as u64, begins_lap, memory }))
    }

    /// Bring total and parameters to what the next batch is worked out under.
    fn prepare(&mut self) -> Result<()> {
        let was_out = self.schedule.is_out();
        let loan = match self.schedule.may_lend() {
            true => {
                let memory = |batch: usize| Ok(self.memories.get(batch)?.unwrap_or_default());
                self.model.lend(&self.data, &memory, &self.total, self.progress.laps)?
            }
            false => None,
        };
        if let Some(loan) = &loan {
            self.total.add_scaled(loan, 1.0);
            self.progress.lap_before = Some((Gauge::Lent, Vec::new()));
        }
        self.schedule.take_out_next(&mut self.total, self.at_once)?;
        if loan.is_some() || (self.schedule.is_out() && !was_out) {
            self.model.update(&mut self.params, &self.total)?;
        }
        Ok(())
    }

    /// Fold in what came of a ticket, in the order in which tickets were handed out, and take a global step.
    pub fn fold(&mut self, done: Done<M>) -> Result<StepInfo> {
        let Done { batch, visit, visited } = done;
        if self.in_flight.front() != Some(&batch) || visit != self.progress.step {
            return Err(Error::OutOfTurn { batch, visit, expected: self.progress.step });
        }
        self.in_flight.pop_front();
        self.model.take_up(&mut self.params, batch, &visited);
        let Visited { summary, memory, tally, .. } = visited;
        if let (true, Some(evidence)) = (self.schedule.is_out(), summary.evidence()) {
            self.progress.left_out.0 += evidence;
            self.progress.left_out.1 += summary.counts().iter().sum::<f64>();
        }
        self.tally.add(&tally);
        self.memories.put(batch, memory)?;
        let ends_lap = self.schedule.fold(&mut self.total, batch, summary)?;
        self.spent = self.schedule.spent();
        if ends_lap {
            self.model.end_lap(&mut self.params);
        } else {
            // Within a lap parameters are at once those without the batches that come next: one global step a batch.
            // The end of a lap has those of all batches, which are scored and saved.
            self.schedule.take_out_next(&mut self.total, self.at_once)?;
        }
        self.model.update(&mut self.params, &self.total)?;
        self.progress.step += 1;
        self.progress.laps += usize::from(ends_lap);
        let before = self.clock.cpu_seconds();
        let changes = if ends_lap { self.move_clusters()? } else { None };
        let moving = self.clock.cpu_seconds() - before;
        self.progress.rows += self.data.batches.own_len(batch);
        let objective = (!self.schedule.is_out()).then(|| self.objective());
        if self.in_flight.is_empty() {
            self.clock.halt();
        }
        (self.progress.seconds, self.progress.cpu_seconds) = (self.clock.seconds(), self.clock.cpu_seconds());
        Ok(self.report(batch, ends_lap, objective, (changes, moving)))
    }

    /// Change the clusters, where the model finds that to be for the better. Parameters are made as they are for
    /// a session that is restored, so that there is one way only.
    fn move_clusters(&mut self) -> Result<Option<Changes>> {
        let memo = |batch: usize| self.schedule.remembered(batch);
        let changes = self.model.moves(&mut self.params, &self.total, &memo, &self.data, self.progress.laps)?;
        let Some(changes) = changes else { return Ok(None) };
        if changes.restless {
            // What a lap gains says nothing of rest while there is more to be tried.
            self.progress.lap_before = None;
        }
        if let Some(plan) = &changes.remap {
            self.schedule.remap(&mut self.total, plan)?;
            // What rows remember of clusters that are gone is of no use.
            (0..self.memories.len()).for_each(|batch| self.memories.forget(batch));
            let carried = self.model.carried(&self.params);
            let params = self.model.restore(&self.total, carried)?;
            self.params = params.ok_or(Error::Exchange { what: "parameters of other clusters" })?;
        }
        Ok(Some(changes))
    }

    /// What the step that was just taken reports, with the changes of clusters at its end and the seconds that they took.
    fn report(
        &mut self,
        batch: usize,
        ends_lap: bool,
        objective: Option<Objective>,
        (changes, moving): (Option<Changes>, f64),
    ) -> StepInfo {
        let (mut report, mut aside) = (Vec::new(), moving);
        if ends_lap {
            let tally = std::mem::take(&mut self.tally);
            aside += tally.aside_seconds();
            report = self.model.report(&self.params, &tally);
            report.extend(self.progress.take_evidence().map(|evidence| (EVIDENCE, evidence)));
        }
        if let Some(proposed) = changes.as_ref().and_then(|changes| changes.proposed) {
            report.push(("clusters", self.total.counts().len() as f64));
            report.push(("moves_proposed", proposed as f64));
            report.push(("moves_cpu_seconds", aside));
            let most_reached = changes.as_ref().is_some_and(|changes| changes.most_reached);
            report.push((K_MAX_REACHED, f64::from(u8::from(most_reached))));
        }
        let report = report.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let (place, of) = self.schedule.place();
        let Progress { step, laps, rows, seconds, cpu_seconds, .. } = self.progress;
        StepInfo {
            run: self.run,
            lap: (laps * of + place) as f64 / of as f64,
            step,
            batch,
            ends_lap,
            seconds,
            cpu_seconds,
            objective,
            heldout: None,
            rows_per_second: rows as f64 / seconds.max(1e-9),
            empty_clusters: count_empty(self.total.counts()),
            peak_memory_bytes: recent_peak_memory_bytes(),
            report,
            moves: changes.map(|changes| changes.moves).unwrap_or_default(),
            sizes: if ends_lap { told_sizes(self.total.counts()) } else { Vec::new() },
        }
    }

    /// Give a worker the memory of statistics that are needed no more.
    pub fn recycle(&mut self, worker: &mut M::Worker) {
        if let Some(spent) = self.spent.take() {
            self.model.reuse(spent, worker);
        }
    }

    /// Hand out a batch, work it out and fold it in.
    pub fn step(&mut self, worker: &mut M::Worker) -> Result<StepInfo> {
        let ticket = self.hand_out()?.ok_or(Error::OutOfTurn { batch: 0, visit: 0, expected: self.progress.step })?;
        let done = ticket.work(&self.model, &self.params, &self.data, worker)?;
        // What the batch kept is not needed twice.
        drop(ticket);
        let step = self.fold(done)?;
        self.recycle(worker);
        Ok(step)
    }

    /// The next step must be done by then, if it would take long.
    pub fn set_deadline(&mut self, until: Option<Instant>) {
        self.model.set_deadline(until);
    }

    /// The rule that ends the run with this step, if any does.
    pub fn judge(&mut self, info: &StepInfo, rules: &StopRules, interrupt: Option<&AtomicBool>) -> Option<StopReason> {
        rules.compare(&mut self.progress, info, self.total.counts());
        rules.verdict(&self.progress, interrupt)
    }

    /// The objective of the present parameters.
    pub fn objective(&self) -> Objective {
        self.model.objective(&self.params, &self.total)
    }

    /// Parameters and total of all batches, where one is taken out of the present ones.
    pub fn whole(&self) -> Result<Option<(M::Params, M::Summary)>> {
        let Some(total) = self.schedule.whole(&self.total)? else { return Ok(None) };
        Ok(Some((self.model.global_step(&total, Some(&self.params))?, total)))
    }

    /// Why something is remembered in memory that belongs into a file, if that has come to pass since this was asked last.
    pub(crate) fn take_trouble(&mut self) -> Option<Error> {
        let (memos, rows) = (self.schedule.take_trouble(), self.memories.take_trouble());
        memos.or(rows)
    }

    /// Bring back what is taken out of the total: a run ends here.
    pub fn make_whole(&mut self) -> Result<()> {
        if let Some(whole) = self.whole()? {
            self.set_whole(whole);
        }
        Ok(())
    }

    pub(crate) fn set_whole(&mut self, (params, total): (M::Params, M::Summary)) {
        (self.params, self.total) = (params, total);
        self.schedule.is_whole();
    }

    /// Take a batch out for good: the total becomes the sum of the others. Seeds, and the local optimum that training
    /// has come to, may still reflect it.
    pub fn forget_batch(&mut self, batch: usize) -> Result<()> {
        self.model.check_forget()?;
        let ends_lap = self.schedule.remove_batch(&mut self.total, batch)?;
        self.memories.forget(batch);
        if ends_lap {
            // It was the only one left to be visited: the lap is over.
            self.model.end_lap(&mut self.params);
            self.progress.laps += 1;
            self.progress.take_evidence();
        }
        self.params = self.model.global_step(&self.total, Some(&self.params))?;
        self.progress.forgotten += self.data.batches.own_len(batch);
        // The lap before is not one to compare with, but if the run was at the end of a lap it still is.
        self.progress.lap_before = None;
        // What was best before had the batch in it.
        self.progress.best = None;
        let at_end = ends_lap || self.progress.lap_change.is_some();
        self.progress.lap_change = at_end.then_some((f64::INFINITY, f64::INFINITY));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::MixtureConfig;
    use crate::data::MemoryRows;
    use crate::mixture::{MixtureInputs, Mixtures};
    use crate::runs::Family;

    /// Batches taken out at any moment: laps never go back, and a lap is one visit of each batch that is left.
    #[test]
    fn laps_go_on_where_batches_are_forgotten() {
        let rows: Vec<f64> = (0..400).map(|n| f64::from(n % 2) * 9.0 + f64::from(n % 7) * 0.1).collect();
        let source = MemoryRows::new("two groups", 1, rows).unwrap();
        let config = MixtureConfig { clusters: 2, batches: Some(5), ..Default::default() };
        let mixtures = Mixtures::<f64>::new(&source, &config, MixtureInputs::default()).unwrap();
        for steps in 1..=12 {
            for gone in 0..5 {
                let mut session = mixtures.session(0).unwrap();
                let mut worker = session.worker();
                let (mut visited, mut lap) = (Vec::new(), 0.0);
                for _ in 0..steps {
                    let info = session.step(&mut worker).unwrap();
                    (lap, visited) = (info.lap, if info.ends_lap { Vec::new() } else { visited });
                    if !info.ends_lap {
                        visited.push(info.batch);
                    }
                }
                let before = session.progress().laps;
                session.forget_batch(gone).unwrap();
                visited.retain(|&batch| batch != gone);
                // Where all that are left have been visited the lap is over.
                let ended = visited.len() == 4;
                assert_eq!(session.progress().laps, before + usize::from(ended), "{steps} steps, without {gone}");
                if ended {
                    visited.clear();
                }
                for _ in 0..9 {
                    let info = session.step(&mut worker).unwrap();
                    assert!(!visited.contains(&info.batch) && info.batch != gone, "{steps} steps, without {gone}");
                    visited.push(info.batch);
                    assert_eq!(info.ends_lap, visited.len() == 4, "{steps} steps, without {gone}");
                    let expected = session.progress().laps as f64 + (visited.len() % 4) as f64 / 4.0;
                    assert!((info.lap - expected).abs() < 1e-12);
                    // Taking out what was visited takes a part of the lap back, and no more.
                    assert!(info.lap > lap - 0.25, "{} after {lap}", info.lap);
                    if info.ends_lap {
                        visited.clear();
                    }
                }
            }
        }
    }
}
