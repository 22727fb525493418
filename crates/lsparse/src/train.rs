//! The training that all models share: several runs, each seeded, looped over and judged, of which the best is kept.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rand_chacha::ChaCha8Rng;

use crate::checkpoint::{Content, Fingerprint, Found, Keeper, Sections, Storage, StoredRun};
use crate::config::BestBy;
use crate::error::{Error, Result};
use crate::fit::{self, Outcome, Patience, Progress, State, StopReason, StopRules, Watch};
use crate::model::Model;
use crate::observe::{Observer, Stopwatch};
use crate::schedule::{MemoPlace, Memoized, Schedule, ScheduleKind, ScheduleState, Stochastic};
use crate::summary::Summary;

/// The settings that all models have in common.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Runs from different seeds.
    pub runs: usize,
    /// What decides between them.
    pub best_by: BestBy,
    /// When a run ends.
    pub rules: StopRules,
    /// When statistics enter the total.
    pub schedule: ScheduleKind,
    /// delta of the stochastic rate.
    pub delay: f64,
    /// kappa of the stochastic rate.
    pub decay: f64,
    /// Whether memoized batches are taken out of the total before they are visited.
    pub leave_out: bool,
}

/// What a run starts from.
pub struct Start<P, S> {
    /// The first parameters.
    pub params: P,
    /// The statistics that they were estimated from.
    pub total: S,
    /// Whether these statistics are of other data and stay in the total for good.
    pub stays: bool,
    /// Randomness of the schedule.
    pub rng: ChaCha8Rng,
}

/// What the statistics of a task's batches are.
pub type SummaryOf<T> = <<T as Task>::Model as Model<<T as Task>::Data>>::Summary;
/// What the parameters of a task are.
pub type ParamsOf<T> = <<T as Task>::Model as Model<<T as Task>::Data>>::Params;
/// What is carried from step to step of a task.
pub type StateOf<T> = State<ParamsOf<T>, SummaryOf<T>>;

/// A model with its data and settings: what differs from one kind of model to the next.
pub trait Task {
    /// The data, dealt into batches.
    type Data;
    /// The model.
    type Model: Model<Self::Data>;
    /// A trained model as files hold it.
    type Saved;

    /// The settings that all models have in common.
    fn plan(&self) -> Plan;

    /// The model that is trained.
    fn model(&self) -> &Self::Model;

    /// Deal the data into batches for a run.
    fn deal(&self, run: usize) -> Result<Self::Data>;

    /// Find where a run starts: seed, or take up the model to go on from. Seeding asks `patience` now and then.
    fn start(
        &mut self,
        data: &Self::Data,
        run: usize,
        patience: Patience<'_>,
    ) -> Result<Start<ParamsOf<Self>, SummaryOf<Self>>>;

    /// The held-out score, where there is something to score.
    fn score(&self) -> Option<Box<dyn Fn(&ParamsOf<Self>, &SummaryOf<Self>) -> Result<f64> + '_>>;

    /// The model as it is when a run has ended.
    fn saved(&self, state: &StateOf<Self>, outcome: &Outcome) -> Self::Saved;

    /// A trained model as the bytes of a file.
    fn encode(&self, model: &Self::Saved) -> std::io::Result<Vec<u8>>;

    /// A trained model from the bytes of a file; `path` is for messages.
    fn decode(&self, path: &Path, bytes: &[u8]) -> Result<Self::Saved>;

    /// What data and settings the task is made of.
    fn fingerprint(&self) -> Result<Fingerprint>;

    /// What a checkpoint must hold besides totals and schedule: what of the parameters the total does not give, and
    /// what is kept row by row.
    fn sections(&self, params: &ParamsOf<Self>, data: &Self::Data) -> Sections;

    /// The checkpoint with the last sections is on disk.
    fn sections_are_safe(&self) {}

    /// The parameters that gave these sections, with this total; what is kept row by row goes back to `data`. None if
    /// a section is missing or not of this data.
    fn restore(
        &mut self,
        total: &SummaryOf<Self>,
        sections: &Sections,
        data: &Self::Data,
    ) -> Result<Option<ParamsOf<Self>>>;
}

/// What is around a training.
#[derive(Default)]
pub struct Around<'a> {
    /// Take the held-out score after every so many steps instead of every lap, and at the end of the run; 0 for laps.
    pub heldout_every: u64,
    /// Told of every step.
    pub observer: Option<&'a mut dyn Observer>,
    /// Set from outside to stop after the current batch.
    pub interrupt: Option<&'a AtomicBool>,
    /// Checkpoints, and the limit on memory for what is remembered of batches.
    pub storage: Storage,
}

/// What training came to.
pub struct Trained<M> {
    /// The model of the best run.
    pub model: M,
    /// How the best run ended.
    pub outcome: Outcome,
    /// Which run was kept, from 0.
    pub run: usize,
    /// Final objective and held-out score of every run.
    pub runs: Vec<(f64, Option<f64>)>,
}

/// Train all runs of a task and keep the best.
pub fn train<T: Task>(task: &mut T, around: Around<'_>) -> Result<Trained<T::Saved>> {
    let Around { heldout_every, observer, interrupt, storage } = around;
    let mut silent = ();
    let observer: &mut dyn Observer = match observer {
        Some(observer) => observer,
        None => &mut silent,
    };
    let (plan, place) = (task.plan(), storage.memo_place());
    place.check()?;
    let forget = storage.checkpoint.as_ref().and_then(|options| options.forget_batch);
    let (mut ledger, found) = Ledger::open(task, storage)?;
    let by_other_rules = found.as_ref().is_some_and(|found| found.by_other_rules && forget.is_none());
    let mut resumed = found.map(|found| found.content);
    if let Some(content) = &resumed {
        if by_other_rules {
            ledger.reopen(&plan, content)?;
        }
        if content.finished && forget.is_none() && !by_other_rules {
            observer.go_on_from(&content.reached())?;
            return ledger.close();
        }
    }
    if let Some(batch) = forget {
        return forget_batch(task, &plan, place, ledger, resumed, batch);
    }
    for run in resumed.as_ref().map_or(0, |content| content.run)..plan.runs {
        let data = task.deal(run)?;
        let mut ended = None;
        let (mut schedule, mut state) = match resumed.take() {
            Some(content) => {
                // With the rules of now the run may have been at its end where the checkpoint is, and one that had
                // ended before a batch was taken out has not begun anew.
                let may_have_ended = by_other_rules || content.progress.forgotten > 0;
                ended = plan.rules.ended(&content.progress).filter(|_| may_have_ended);
                let reached = content.reached();
                let taken_up = take_up(task, &plan, &data, content, place.clone())?;
                // The first thing that is written, once all else is known to be sound.
                observer.go_on_from(&reached)?;
                taken_up
            }
            None => {
                let mut clock = Stopwatch::default();
                clock.start();
                let start = match task.start(&data, run, Patience::new(&plan.rules, interrupt)) {
                    // The runs before were not in vain.
                    Err(Error::Interrupted { .. } | Error::Config { option: "max-seconds", .. })
                        if ledger.best.is_some() =>
                    {
                        break;
                    }
                    start => start?,
                };
                let mut schedule = plan.schedule(shares(task.model(), &data), &start, place.clone());
                let (seconds, cpu_seconds) = (clock.seconds(), clock.cpu_seconds());
                let progress = Progress { seconds, cpu_seconds, ..Progress::default() };
                let state = State { params: start.params, total: start.total, progress };
                // Seeding may have been long. What the run before remembered of batches is written over only once the
                // last checkpoint does not refer to it.
                let at = At { task: &*task, data: &data, run };
                ledger.checkpoint(&at, &state, schedule.as_mut(), observer.written(), false)?;
                ledger.settle(&at, schedule.as_mut())?;
                (schedule, state)
            }
        };
        let at = At { task: &*task, data: &data, run };
        let score = task.score();
        let mut clock = Stopwatch::at(state.progress.seconds, state.progress.cpu_seconds);
        clock.start();
        let mut after_step = |state: &StateOf<T>, schedule: &mut dyn Schedule<SummaryOf<T>>, written, reason| {
            ledger.after_step(&at, state, schedule, written, reason)
        };
        let mut watch = Watch {
            score: score.as_deref(),
            score_every: heldout_every,
            observer: &mut *observer,
            interrupt,
            run,
            clock,
            after_step: &mut after_step,
        };
        let outcome = match ended {
            Some(reason) => {
                make_whole(task, schedule.as_mut(), &mut state)?;
                at_rest(task, &state, reason)?
            }
            None => fit::run(task.model(), &data, schedule.as_mut(), &mut state, &plan.rules, &mut watch)?,
        };
        let interrupted = outcome.reason == StopReason::Interrupted;
        ledger.enter(&plan, &at, &state, outcome)?;
        if interrupted {
            break;
        }
        if run + 1 == plan.runs {
            ledger.checkpoint(&at, &state, schedule.as_mut(), observer.written(), true)?;
            ledger.settle(&at, schedule.as_mut())?;
        }
    }
    ledger.close()
}

/// Take a batch out of a run at rest, and write the checkpoint of the run without it.
fn forget_batch<T: Task>(
    task: &mut T,
    plan: &Plan,
    place: MemoPlace,
    mut ledger: Ledger<T::Saved>,
    resumed: Option<Content<SummaryOf<T>>>,
    batch: usize,
) -> Result<Trained<T::Saved>> {
    let refuse = |problem: &str, remedy: &str| {
        Err(Error::Config { option: "forget-batch", problem: problem.into(), remedy: remedy.into() })
    };
    let Some(content) = resumed else {
        return refuse("there is no checkpoint to take a batch out of", "train with --checkpoint first");
    };
    if plan.runs > 1 {
        // Every run deals the rows into batches of its own.
        return refuse("the batches of several runs are not the same", "train with --runs 1");
    }
    let (run, written) = (content.run, content.written);
    let data = task.deal(run)?;
    let (mut schedule, mut state) = take_up(task, plan, &data, content, place)?;
    schedule.remove_batch(&mut state.total, batch)?;
    state.params = task.model().global_step(&state.total, Some(&state.params))?;
    state.progress.forgotten += task.model().batch_len(&data, batch);
    // The lap before is not one to compare with, but if the run was at the end of a lap it still is.
    state.progress.lap_before = None;
    state.progress.lap_change = state.progress.lap_change.map(|_| (f64::INFINITY, f64::INFINITY));
    let outcome = at_rest(task, &state, StopReason::Forgotten(batch))?;
    (ledger.runs, ledger.best, ledger.stored) = (Vec::new(), None, None);
    let at = At { task: &*task, data: &data, run };
    ledger.checkpoint(&at, &state, schedule.as_mut(), written, false)?;
    ledger.settle(&at, schedule.as_mut())?;
    ledger.enter(plan, &at, &state, outcome)?;
    ledger.close()
}

/// Bring back what a schedule has taken out of the total.
fn make_whole<T: Task>(task: &T, schedule: &mut dyn Schedule<SummaryOf<T>>, state: &mut StateOf<T>) -> Result<()> {
    if let Some(total) = schedule.whole(&state.total)? {
        state.params = task.model().global_step(&total, Some(&state.params))?;
        state.total = total;
        schedule.is_whole();
    }
    Ok(())
}

/// The end of a run that takes no further step.
fn at_rest<T: Task>(task: &T, state: &StateOf<T>, reason: StopReason) -> Result<Outcome> {
    let objective = task.model().objective(&state.params, &state.total);
    let heldout = task.score().map(|score| score(&state.params, &state.total)).transpose()?;
    let Progress { seconds, rows, ref recent, .. } = state.progress;
    let rows_per_second = rows as f64 / seconds.max(1e-9);
    Ok(Outcome { reason, objective, heldout, seconds, rows_per_second, recent: recent.clone() })
}

/// A task at work on a run.
struct At<'a, T: Task> {
    task: &'a T,
    data: &'a T::Data,
    run: usize,
}

/// The runs that have ended, and the checkpoints of the one under way.
struct Ledger<M> {
    /// Final objective and held-out score of every run that has ended.
    runs: Vec<(f64, Option<f64>)>,
    /// The best of them: its number, how it ended, its model.
    best: Option<(usize, Outcome, M)>,
    /// The same for checkpoints.
    stored: Option<Arc<StoredRun>>,
    keeper: Option<Keeper>,
}

impl<M> Ledger<M> {
    /// A new one, or that of the checkpoint to go on from.
    fn open<T: Task<Saved = M>>(task: &T, storage: Storage) -> Result<(Self, Option<Found<SummaryOf<T>>>)> {
        let mut ledger = Ledger { runs: Vec::new(), best: None, stored: None, keeper: None };
        let Some(options) = storage.checkpoint else { return Ok((ledger, None)) };
        let path = options.path.clone();
        let (keeper, mut found) = Keeper::open(options, task.fingerprint()?)?;
        ledger.keeper = Some(keeper);
        if let Some(Found { content, .. }) = &mut found {
            ledger.runs = std::mem::take(&mut content.runs);
            ledger.stored = content.best.take();
        }
        if let Some(stored) = &ledger.stored {
            ledger.best = Some((stored.run, stored.outcome.clone(), task.decode(&path, &stored.model)?));
        }
        Ok((ledger, found))
    }

    /// The run of a checkpoint is to end by other rules than it was: nothing has ended yet. Refused where what was kept
    /// would not be that of a run with these rules from the start.
    fn reopen<S>(&mut self, plan: &Plan, content: &Content<S>) -> Result<()> {
        let refuse = |option, problem: String, remedy: &str| {
            Err(Error::Config {
                option,
                problem,
                remedy: format!("{remedy}, or start again with another checkpoint file"),
            })
        };
        if plan.runs > 1 && !self.runs.is_empty() {
            let problem = format!("{} of {} runs have ended by other rules for stopping", self.runs.len(), plan.runs);
            return refuse("resume", problem, "give the rules of the run in the checkpoint");
        }
        let (done, most) = (content.progress.laps, plan.rules.laps);
        let is_past = done > most || (done == most && content.progress.lap_change.is_none());
        if most > 0 && is_past {
            let (more, least) = match content.progress.lap_change {
                None => (" and a part of the next", done + 1),
                Some(_) => ("", done),
            };
            let problem = format!("{most} is too few: the run in the checkpoint has done {done}{more}");
            return refuse("laps", problem, &format!("give {least} or more"));
        }
        (self.runs, self.best, self.stored) = (Vec::new(), None, None);
        Ok(())
    }

    /// A run has ended.
    fn enter<T: Task<Saved = M>>(
        &mut self,
        plan: &Plan,
        at: &At<'_, T>,
        state: &StateOf<T>,
        outcome: Outcome,
    ) -> Result<()> {
        self.runs.push((outcome.objective.total(), outcome.heldout));
        if self.best.as_ref().is_some_and(|best| plan.quality(&outcome) <= plan.quality(&best.1)) {
            return Ok(());
        }
        let model = at.task.saved(state, &outcome);
        if let Some(keeper) = &self.keeper {
            let model = at.task.encode(&model).map_err(|source| keeper.failed(source))?;
            self.stored = Some(Arc::new(StoredRun { run: at.run, outcome: outcome.clone(), model }));
        }
        self.best = Some((at.run, outcome, model));
        Ok(())
    }

    /// Begin a checkpoint, after the one under way.
    fn checkpoint<T: Task<Saved = M>>(
        &mut self,
        at: &At<'_, T>,
        state: &StateOf<T>,
        schedule: &mut dyn Schedule<SummaryOf<T>>,
        written: u64,
        finished: bool,
    ) -> Result<()> {
        self.settle(at, schedule)?;
        let Some(keeper) = &mut self.keeper else { return Ok(()) };
        let snapshot = schedule.snapshot();
        let content = Content {
            run: at.run,
            finished,
            written,
            runs: self.runs.clone(),
            best: self.stored.clone(),
            progress: state.progress.clone(),
            total: state.total.clone(),
            schedule: snapshot.state,
            sections: at.task.sections(&state.params, at.data),
        };
        keeper.begin(content, snapshot.file);
        Ok(())
    }

    /// Wait for the checkpoint under way.
    fn settle<T: Task<Saved = M>>(&mut self, at: &At<'_, T>, schedule: &mut dyn Schedule<SummaryOf<T>>) -> Result<()> {
        if let Some(keeper) = &mut self.keeper
            && keeper.wait()?
        {
            schedule.snapshot_is_safe();
            at.task.sections_are_safe();
        }
        Ok(())
    }

    /// A checkpoint where one is due, and where a run is interrupted, which is to go on later. Once a run has ended the
    /// next run's, or the last, will do.
    fn after_step<T: Task<Saved = M>>(
        &mut self,
        at: &At<'_, T>,
        state: &StateOf<T>,
        schedule: &mut dyn Schedule<SummaryOf<T>>,
        written: u64,
        reason: Option<StopReason>,
    ) -> Result<()> {
        let Some(keeper) = &mut self.keeper else { return Ok(()) };
        if keeper.is_done() {
            self.settle(at, schedule)?;
        }
        let interrupted = reason == Some(StopReason::Interrupted);
        let is_due = self.keeper.as_ref().is_some_and(Keeper::is_due);
        if interrupted || (reason.is_none() && is_due) {
            self.checkpoint(at, state, schedule, written, false)?;
        }
        if interrupted { self.settle(at, schedule) } else { Ok(()) }
    }

    fn close(self) -> Result<Trained<M>> {
        let none =
            || Error::Config { option: "runs", problem: "must be at least 1".into(), remedy: "give 1 or more".into() };
        let (run, outcome, model) = self.best.ok_or_else(none)?;
        Ok(Trained { model, outcome, run, runs: self.runs })
    }
}

/// Schedule and state as a checkpoint has them.
fn take_up<T: Task>(
    task: &mut T,
    plan: &Plan,
    data: &T::Data,
    content: Content<SummaryOf<T>>,
    place: MemoPlace,
) -> Result<(Box<dyn Schedule<SummaryOf<T>>>, StateOf<T>)> {
    let Content { progress, total, schedule, sections, .. } = content;
    let params = task.restore(&total, &sections, data)?.ok_or_else(|| Error::Config {
        option: "resume",
        problem: "the checkpoint lacks a part that this version needs".into(),
        remedy: "start again with another checkpoint file".into(),
    })?;
    let shares = shares(task.model(), data);
    let schedule: Box<dyn Schedule<SummaryOf<T>>> = match schedule {
        ScheduleState::Memoized(state) => {
            Box::new(Memoized::restore(shares, plan.remembers(), state, place)?.leaving_out(plan.leave_out))
        }
        ScheduleState::Stochastic(state) => Box::new(Stochastic::restore(shares, plan.delay, plan.decay, state)),
    };
    Ok((schedule, State { params, total, progress }))
}

fn shares<D, M: Model<D>>(model: &M, data: &D) -> Vec<f64> {
    (0..model.num_batches(data)).map(|batch| model.batch_share(data, batch)).collect()
}

impl Plan {
    /// What "best" compares.
    fn quality(&self, outcome: &Outcome) -> f64 {
        match (self.best_by, outcome.heldout) {
            (BestBy::Heldout, Some(score)) => score,
            _ => outcome.objective.total(),
        }
    }

    /// Whether batches are remembered, not only their sum.
    fn remembers(&self) -> bool {
        self.schedule != ScheduleKind::Streaming
    }

    fn schedule<P, S: Summary>(&self, shares: Vec<f64>, start: &Start<P, S>, place: MemoPlace) -> Box<dyn Schedule<S>> {
        let (first, rng, keep) = (|| start.total.clone(), start.rng.clone(), self.remembers());
        match self.schedule {
            ScheduleKind::Stochastic => Box::new(Stochastic::new(shares, self.delay, self.decay, rng)),
            _ => {
                let begin = if start.stays { Memoized::on_top_of } else { Memoized::new };
                Box::new(begin(shares, first(), keep, rng).remember_in(place).leaving_out(self.leave_out))
            }
        }
    }
}
