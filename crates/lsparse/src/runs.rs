//! Training from settings to a model: several runs, each a session that goes on until a rule says stop, of which the best
//! is kept.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::backend::Place;
use crate::data::Dealt;
use crate::error::{Error, Result};
use crate::settings::{BestBy, Plan};
use crate::store::checkpoint::{Content, Fingerprint, Found, Keeper, Storage, StoredRun};
use crate::training::exchange::{Engine, Known, Rounds};
use crate::training::model::{Model, Objective};
use crate::training::observe::{Observer, Stopwatch};
use crate::training::rules::{EVIDENCE, Outcome, Patience, Progress, StopReason, count_empty};
use crate::training::session::{Places, Session, Snapshot, Start};
use crate::training::summary::Summary;
use crate::training::trace::{Beginning, Ending};

/// A trained model as files hold it.
pub trait ModelFile: Sized {
    /// As the bytes of a file.
    fn to_bytes(&self) -> std::io::Result<Vec<u8>>;

    /// From the bytes of a file; `path` is for messages.
    fn from_bytes(path: &Path, bytes: &[u8]) -> Result<Self>;
}

/// A kind of model with its data and settings: where its sessions start, and what becomes of them.
pub trait Family<'a> {
    /// The model.
    type Model: Model;
    /// A trained model as files hold it.
    type Saved: ModelFile;

    /// The settings that all models have in common.
    fn plan(&self) -> Plan;

    /// What it is and what it is trained on, for whoever watches.
    fn beginning(&self) -> Beginning;

    /// What people should know before it starts, with settings by their names.
    fn remarks(&self) -> &[String] {
        &[]
    }

    /// What it is trained with, an instruction set or a GPU: others round otherwise.
    fn backend(&self) -> String {
        Place::default().name()
    }

    /// What data and settings it is made of.
    fn fingerprint(&self) -> Result<Fingerprint>;

    /// What those who work batches out elsewhere need to know.
    fn known(&self) -> Result<Known> {
        let problem = "batches of this method cannot be worked out by other processes".into();
        Err(Error::Config { setting: "method", problem, remedy: "choose `method lsparse`".into() })
    }

    /// The data of a run, dealt into batches.
    fn deal(&self, run: usize) -> Result<Dealt<'a>>;

    /// The model of a run.
    fn model(&self, run: usize) -> Self::Model;

    /// Find where a run starts: seed, or take up the model to go on from. Seeding asks `patience` now and then.
    fn start(
        &self,
        model: &mut Self::Model,
        data: &Dealt<'a>,
        run: usize,
        patience: Patience<'_>,
    ) -> Result<Start<Self::Model>>;

    /// The held-out score, where there is something to score.
    fn score(
        &self,
        model: &Self::Model,
        params: &<Self::Model as Model>::Params,
        total: &<Self::Model as Model>::Summary,
    ) -> Result<Option<f64>>;

    /// The model as it is when a run has ended.
    fn saved(&self, session: &Session<'a, Self::Model>, outcome: &Outcome) -> Self::Saved;

    /// A model of an earlier lap as the model of a run that ended so, by the rules of now.
    fn kept(&self, earlier: Self::Saved, outcome: &Outcome) -> Self::Saved;

    /// A run from its start, with everything remembered in memory.
    fn session(&self, run: usize) -> Result<Session<'a, Self::Model>> {
        self.begin(run, Patience::default(), Places::default())
    }

    /// A run that was saved.
    fn restore(&self, saved: Snapshot<Self::Model>, places: Places, run: usize) -> Result<Session<'a, Self::Model>> {
        Session::restore(self.model(run), self.deal(run)?, saved, &self.plan().pace, places, run)
    }

    /// A run from its start.
    fn begin(&self, run: usize, patience: Patience<'_>, places: Places) -> Result<Session<'a, Self::Model>> {
        let (data, mut model) = (self.deal(run)?, self.model(run));
        let mut clock = Stopwatch::default();
        clock.start();
        let start = self.start(&mut model, &data, run, patience)?;
        Ok(Session::begin(model, data, start, &self.plan().pace, places, run).after(&clock))
    }
}

/// What is around a training besides data and settings.
#[derive(Default)]
pub struct Beside<'a> {
    /// Take the held-out score after every so many steps instead of every lap, and at the end of the run.
    pub heldout_every: Option<u64>,
    /// Told of every step.
    pub observer: Option<&'a mut dyn Observer>,
    /// Set from outside to stop after the current batch.
    pub interrupt: Option<&'a AtomicBool>,
    /// Checkpoints, and the limit on memory for what is remembered of batches and rows.
    pub storage: Storage,
    /// Works batches out elsewhere.
    pub engine: Option<&'a mut dyn Engine>,
}

/// A trained model and how its training went.
pub struct Fitted<M> {
    /// The model of the best run.
    pub model: M,
    /// How the best run ended.
    pub outcome: Outcome,
    /// Which run was kept, from 0.
    pub run: usize,
    /// Final objective and held-out score of every run; NaN for one that failed.
    pub runs: Vec<(f64, Option<f64>)>,
}

/// Train all runs of a family and keep the best.
pub fn train<'a, F: Family<'a>>(family: &F, beside: Beside<'_>) -> Result<Fitted<F::Saved>> {
    let Beside { heldout_every, observer, interrupt, storage, engine } = beside;
    let mut silent = ();
    let observer: &mut dyn Observer = match observer {
        Some(observer) => observer,
        None => &mut silent,
    };
    family.remarks().iter().for_each(|remark| observer.remark(remark));
    let plan = family.plan();
    let places = storage.places(family.model(0).keeps_rows())?;
    let forget = storage.checkpoint.as_ref().and_then(|options| options.forget_batch);
    let (ledger, found) = Ledger::open(family, storage)?;
    let by_other_rules = found.as_ref().is_some_and(|found| found.by_other_rules && forget.is_none());
    let mut resumed = found.map(|found| found.content);
    let best_lap = resumed.as_mut().and_then(|content| content.best_lap.take());
    let rounds = engine.map(|engine| Rounds::new(engine, &family.known()?)).transpose()?;
    let (failure, torn) = (None, false);
    let mut training =
        Training { family, plan, heldout_every, observer, interrupt, rounds, ledger, best_lap, failure, torn };
    if let Some(content) = &resumed {
        if by_other_rules {
            training.reopen(content)?;
        }
        if content.finished && forget.is_none() && !by_other_rules {
            training.observer.go_on_from(&content.reached(family.backend()))?;
            training.begin()?;
            let progress = &content.session.progress;
            let ended = training.plan.rules.ended(progress).zip(training.ledger.runs.last());
            if let Some((reason, &came_to)) = ended {
                training.observer.end(&Ending::new(content.run, progress, reason, came_to))?;
            }
            return training.ledger.close();
        }
    }
    if let Some(batch) = forget {
        return training.forget_batch(resumed, batch, places);
    }
    for run in resumed.as_ref().map_or(0, |content| content.run)..training.plan.runs {
        let from = resumed.take().map(|content| (content, by_other_rules));
        match training.run(run, from, &places) {
            Ok(true) => {}
            Ok(false) => break,
            // Another seed may do better.
            Err(error) if training.plan.runs > 1 && error.is_of_a_run() => training.failed(run, error)?,
            Err(error) => return Err(error),
        }
    }
    match (training.ledger.best.is_none(), training.failure) {
        (true, Some(failure)) => Err(failure),
        _ => training.ledger.close(),
    }
}

/// A family before its first lap.
pub fn start<'a, F: Family<'a>>(family: &F) -> Result<Fitted<F::Saved>> {
    let session = family.session(0)?;
    let objective = session.objective();
    let heldout = family.score(session.model(), session.params(), session.total())?;
    let outcome = outcome(session.progress(), StopReason::Laps(0), objective, heldout);
    Ok(Fitted { model: family.saved(&session, &outcome), outcome, run: 0, runs: vec![(objective.total(), heldout)] })
}

/// A family in training, and all that is around it.
struct Training<'t, F, M> {
    family: &'t F,
    plan: Plan,
    heldout_every: Option<u64>,
    observer: &'t mut dyn Observer,
    interrupt: Option<&'t AtomicBool>,
    /// Where batches are worked out elsewhere.
    rounds: Option<Rounds<'t>>,
    ledger: Ledger<M>,
    /// What ended the first run that failed.
    failure: Option<Error>,
    /// Whether the run ended in the middle of a step.
    torn: bool,
    /// The model after the lap of this run that scored best, where one is to be kept.
    best_lap: Option<Arc<StoredRun>>,
}

impl<'a, F: Family<'a>> Training<'_, F, F::Saved> {
    /// Tell whoever watches what this is, unless it was said in what is kept of it.
    fn begin(&mut self) -> Result<()> {
        match self.observer.written() {
            0 => self.observer.begin(&self.family.beginning()),
            _ => Ok(()),
        }
    }

    /// One run, from its start or from a checkpoint, whose run may have been to end by other rules. Whether the next may
    /// follow.
    fn run(&mut self, run: usize, from: Option<(Content<F::Model>, bool)>, places: &Places) -> Result<bool> {
        let mut ended = None;
        let mut session = match from {
            Some((content, by_other_rules)) => {
                // With the rules of now the run may have been at its end where the checkpoint is, and one that had
                // ended before a batch was taken out has not begun anew.
                let progress = &content.session.progress;
                let may_have_ended = by_other_rules || progress.forgotten > 0;
                ended = self.plan.rules.ended(progress).filter(|_| may_have_ended);
                let reached = content.reached(self.family.backend());
                let session = self.family.restore(content.session, places.clone(), run)?;
                // The first thing that is written, once all else is known to be sound.
                self.observer.go_on_from(&reached)?;
                self.begin()?;
                session
            }
            None => {
                let patience = Patience::new(&self.plan.rules, self.interrupt);
                let mut session = match self.family.begin(run, patience, places.clone()) {
                    // The runs before were not in vain.
                    Err(error)
                        if self.ledger.best.is_some()
                            && (error.is_out_of_time() || matches!(error, Error::Interrupted { .. })) =>
                    {
                        return Ok(false);
                    }
                    session => session?,
                };
                self.begin()?;
                self.best_lap = None;
                // Seeding may have been long. What the run before remembered of batches is written over only once the
                // last checkpoint does not refer to it.
                self.checkpoint(&mut session, false)?;
                self.settle(&mut session)?;
                session
            }
        };
        let outcome = match ended {
            Some(reason) => {
                session.make_whole()?;
                self.at_rest(&session, reason)?
            }
            None => self.follow(&mut session)?,
        };
        let (reason, interrupted) = (outcome.reason, outcome.reason == StopReason::Interrupted);
        let came_to = self.enter(&session, outcome)?;
        let ending = Ending::new(run, session.progress(), reason, came_to);
        // A step that was not done leaves nothing to go on from but the checkpoint before it.
        if !interrupted && !self.torn && run + 1 == self.plan.runs {
            self.checkpoint(&mut session, true)?;
            self.settle(&mut session)?;
        }
        // No checkpoint counts it: a run that goes on has not ended.
        self.observer.end(&ending)?;
        Ok(!interrupted)
    }

    /// A run of several could not be finished.
    fn failed(&mut self, run: usize, error: Error) -> Result<()> {
        self.observer.failed(run, &error)?;
        self.ledger.runs.push((f64::NAN, None));
        self.failure.get_or_insert(error);
        Ok(())
    }

    /// Step until a rule says stop.
    fn follow(&mut self, session: &mut Session<'a, F::Model>) -> Result<Outcome> {
        let mut worker = session.worker();
        let mut last = None;
        self.rounds.iter_mut().for_each(Rounds::begin);
        loop {
            session.set_deadline(self.plan.rules.until(session.progress()));
            let step = match &mut self.rounds {
                None => session.step(&mut worker),
                Some(rounds) => rounds.step(session),
            };
            let mut info = match (step, last) {
                // Clusters are those of the step before, which is better than nothing.
                (Err(error), Some((objective, heldout))) if error.is_out_of_time() => {
                    self.torn = true;
                    let reason = StopReason::Seconds(session.progress().seconds);
                    return Ok(outcome(session.progress(), reason, objective, heldout));
                }
                (step, _) => step?,
            };
            let keeps_best = self.plan.rules.early_stopping.is_some() && info.ends_lap;
            if keeps_best {
                // At the end of a lap nothing is left out.
                info.heldout = self.family.score(session.model(), session.params(), session.total())?;
            }
            let is_best = keeps_best && session.progress_mut().note_score(info.heldout);
            let interrupt = self.interrupt.filter(|_| self.is_between_rounds());
            let reason = session.judge(&info, &self.plan.rules, interrupt);
            let due = match self.heldout_every {
                None => info.ends_lap,
                Some(every) => info.step.is_multiple_of(every),
            };
            // Scores and what a run leaves behind are of all batches, also in the middle of a lap.
            let whole = if due || reason.is_some() { session.whole()? } else { None };
            let model = session.model();
            let (params, total) =
                whole.as_ref().map_or((session.params(), session.total()), |(params, total)| (params, total));
            if whole.is_some() {
                info.objective = Some(model.objective(params, total));
                info.empty_clusters = count_empty(total.counts());
            }
            if let Some(value) = info.objective.map(|o| o.total()).filter(|value| !value.is_finite()) {
                return Err(Error::Diverged { step: info.step, value });
            }
            if (due || reason.is_some()) && info.heldout.is_none() {
                info.heldout = self.family.score(model, params, total)?;
            }
            if info.ends_lap {
                session.progress_mut().remember_lap(&info);
            }
            if let (true, Some(objective)) = (is_best, info.objective) {
                self.keep_lap(session, outcome(session.progress(), StopReason::Heldout(0), objective, info.heldout))?;
            }
            self.observer.step(&info)?;
            self.after_step(session, reason)?;
            last = info.objective.map(|objective| (objective, info.heldout));
            if let (Some(reason), Some(objective)) = (reason, info.objective) {
                whole.into_iter().for_each(|whole| session.set_whole(whole));
                return Ok(outcome(session.progress(), reason, objective, info.heldout));
            }
        }
    }

    /// Whether nothing is worked out already that a checkpoint would not have.
    fn is_between_rounds(&self) -> bool {
        self.rounds.as_ref().is_none_or(Rounds::is_between)
    }

    /// Keep the model as it is after this lap.
    fn keep_lap(&mut self, session: &Session<'a, F::Model>, outcome: Outcome) -> Result<()> {
        let failed = |source| Error::Unwritable { path: "the model of the best lap".into(), source };
        let model = self.family.saved(session, &outcome).to_bytes().map_err(failed)?;
        self.best_lap = Some(Arc::new(StoredRun { run: session.run(), outcome, model }));
        Ok(())
    }

    /// The end of a run that takes no further step.
    fn at_rest(&self, session: &Session<'a, F::Model>, reason: StopReason) -> Result<Outcome> {
        let heldout = self.family.score(session.model(), session.params(), session.total())?;
        Ok(outcome(session.progress(), reason, session.objective(), heldout))
    }

    /// Take a batch out of a run at rest, and write the checkpoint of the run without it.
    fn forget_batch(
        mut self,
        resumed: Option<Content<F::Model>>,
        batch: usize,
        places: Places,
    ) -> Result<Fitted<F::Saved>> {
        let refuse = |problem: &str, remedy: &str| {
            Err(Error::Config { setting: "forget-batch", problem: problem.into(), remedy: remedy.into() })
        };
        let Some(content) = resumed else {
            return refuse("there is no checkpoint to take a batch out of", "train with `checkpoint` first");
        };
        if self.plan.runs > 1 {
            // Every run deals the rows into batches of its own.
            return refuse("the batches of several runs are not the same", "train with `runs 1`");
        }
        let Content { written, run, session, .. } = content;
        let mut session = self.family.restore(session, places, run)?;
        session.forget_batch(batch)?;
        let outcome = self.at_rest(&session, StopReason::Forgotten(batch))?;
        (self.ledger.runs, self.ledger.best, self.ledger.stored) = (Vec::new(), None, None);
        self.best_lap = None;
        self.ledger.checkpoint(&mut session, written, false, None)?;
        self.settle(&mut session)?;
        self.enter(&session, outcome)?;
        self.ledger.close()
    }

    /// The run of a checkpoint is to end by other rules than it was: nothing has ended yet. Refused where what was kept
    /// would not be that of a run with these rules from the start.
    fn reopen(&mut self, content: &Content<F::Model>) -> Result<()> {
        let refuse = |setting, problem: String, remedy: &str| {
            Err(Error::Config {
                setting,
                problem,
                remedy: format!("{remedy}, or start again with another checkpoint file"),
            })
        };
        let (ended, runs) = (self.ledger.runs.len(), self.plan.runs);
        if runs > 1 && ended > 0 {
            let problem = format!("{ended} of {runs} runs have ended by other rules for stopping");
            return refuse("resume", problem, "give the rules of the run in the checkpoint");
        }
        let progress = &content.session.progress;
        let done = progress.laps;
        let is_past = |most: usize| done > most || (done == most && progress.lap_change.is_none());
        if let Some(most) = self.plan.rules.laps.filter(|&most| is_past(most)) {
            let (more, least) = match progress.lap_change {
                None => (" and a part of the next", done + 1),
                Some(_) => ("", done),
            };
            let problem = format!("{most} is too few: the run in the checkpoint has done {done}{more}");
            return refuse("laps", problem, &format!("give {least} or more"));
        }
        let asked = self.plan.rules.early_stopping;
        if asked.is_some() && progress.best.is_none() && done > 0 && progress.forgotten == 0 {
            let problem = "the run in the checkpoint has not kept its best lap".into();
            return refuse("early-stopping", problem, "leave it out");
        }
        let waited = self.plan.rules.waited(progress).unwrap_or(0);
        let is_past = |patience: usize| waited > patience || (waited == patience && progress.lap_change.is_none());
        if let Some(patience) = asked.filter(|&patience| waited > 0 && is_past(patience)) {
            let problem = format!("{patience} is too few: the run in the checkpoint has waited for {waited} laps");
            let least = waited + usize::from(progress.lap_change.is_none());
            return refuse("early-stopping", problem, &format!("give {least} or more"));
        }
        (self.ledger.runs, self.ledger.best, self.ledger.stored) = (Vec::new(), None, None);
        Ok(())
    }

    /// A run has ended. Its model is that of its best lap where one is kept, unless the end scores better still.
    /// Gives its objective and held-out score.
    fn enter(&mut self, session: &Session<'a, F::Model>, outcome: Outcome) -> Result<(f64, Option<f64>)> {
        let Training { family, plan, ledger, best_lap, .. } = self;
        let best_lap = best_lap
            .clone()
            .filter(|best| plan.rules.early_stopping.is_some() && best.outcome.heldout > outcome.heldout);
        let outcome = match &best_lap {
            None => outcome,
            Some(best) => Outcome { objective: best.outcome.objective, heldout: best.outcome.heldout, ..outcome },
        };
        let came_to = (outcome.objective.total(), outcome.heldout);
        ledger.runs.push(came_to);
        if ledger.best.as_ref().is_some_and(|best| plan.quality(&outcome) <= plan.quality(&best.1)) {
            return Ok(came_to);
        }
        let model = match best_lap {
            None => family.saved(session, &outcome),
            Some(best) => {
                let earlier = F::Saved::from_bytes(Path::new("the model of the best lap"), &best.model)?;
                family.kept(earlier, &outcome)
            }
        };
        if let Some(keeper) = &ledger.keeper {
            let model = model.to_bytes().map_err(|source| keeper.failed(source))?;
            ledger.stored = Some(Arc::new(StoredRun { run: session.run(), outcome: outcome.clone(), model }));
        }
        ledger.best = Some((session.run(), outcome, model));
        Ok(came_to)
    }

    fn checkpoint(&mut self, session: &mut Session<'a, F::Model>, finished: bool) -> Result<()> {
        self.settle(session)?;
        self.ledger.checkpoint(session, self.observer.written(), finished, self.best_lap.clone())
    }

    /// Wait for the checkpoint under way. Whether the training goes on if it cannot be written is for others to say.
    fn settle(&mut self, session: &mut Session<'a, F::Model>) -> Result<()> {
        match self.ledger.settle(session) {
            Err(error @ Error::Checkpoint { .. }) => self.observer.no_checkpoint(error),
            settled => settled,
        }
    }

    /// A checkpoint where one is due, and where a run is interrupted, which is to go on later. Once a run has ended the
    /// next run's, or the last, will do.
    fn after_step(&mut self, session: &mut Session<'a, F::Model>, reason: Option<StopReason>) -> Result<()> {
        if let Some(error) = session.take_trouble() {
            self.observer.no_file(error)?;
        }
        let Some(keeper) = &mut self.ledger.keeper else { return Ok(()) };
        if keeper.is_done() {
            self.settle(session)?;
        }
        let interrupted = reason == Some(StopReason::Interrupted);
        let is_due = self.ledger.keeper.as_ref().is_some_and(Keeper::is_due) && self.is_between_rounds();
        if interrupted || (reason.is_none() && is_due) {
            self.checkpoint(session, false)?;
        }
        if interrupted { self.settle(session) } else { Ok(()) }
    }
}

/// How a run that came so far ended.
fn outcome(progress: &Progress, reason: StopReason, objective: Objective, heldout: Option<f64>) -> Outcome {
    let Progress { laps, seconds, rows, ref recent, .. } = *progress;
    let rows_per_second = rows as f64 / seconds.max(1e-9);
    Outcome { reason, objective, heldout, laps, seconds, rows_per_second, recent: recent.clone() }
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
    /// What the runs are trained with.
    backend: String,
}

impl<S: ModelFile> Ledger<S> {
    /// A new one, or that of the checkpoint to go on from.
    fn open<'a, F: Family<'a>>(family: &F, storage: Storage) -> Result<(Self, Option<Found<F::Model>>)> {
        let mut ledger = Ledger { runs: Vec::new(), best: None, stored: None, keeper: None, backend: family.backend() };
        let Some(options) = storage.checkpoint else { return Ok((ledger, None)) };
        let path = options.path.clone();
        let (keeper, mut found) = Keeper::open(options, family.fingerprint()?)?;
        ledger.keeper = Some(keeper);
        if let Some(Found { content, .. }) = &mut found {
            ledger.runs = std::mem::take(&mut content.runs);
            ledger.stored = content.best.take();
        }
        if let Some(stored) = &ledger.stored {
            ledger.best = Some((stored.run, stored.outcome.clone(), S::from_bytes(&path, &stored.model)?));
        }
        Ok((ledger, found))
    }

    /// Begin a checkpoint, after the one under way.
    fn checkpoint<M: Model>(
        &mut self,
        session: &mut Session<'_, M>,
        written: u64,
        finished: bool,
        best_lap: Option<Arc<StoredRun>>,
    ) -> Result<()> {
        self.settle(session)?;
        let Some(keeper) = &mut self.keeper else { return Ok(()) };
        let (run, runs, best) = (session.run(), self.runs.clone(), self.stored.clone());
        let (backend, session) = (self.backend.clone(), session.save());
        keeper.begin(Content { run, finished, written, backend, runs, best, best_lap, session });
        Ok(())
    }

    /// Wait for the checkpoint under way.
    fn settle<M: Model>(&mut self, session: &mut Session<'_, M>) -> Result<()> {
        if let Some(keeper) = &mut self.keeper
            && keeper.wait()?
        {
            session.save_is_safe();
        }
        Ok(())
    }

    fn close(self) -> Result<Fitted<S>> {
        let none =
            || Error::Config { setting: "runs", problem: "must be at least 1".into(), remedy: "give 1 or more".into() };
        let (run, outcome, model) = self.best.ok_or_else(none)?;
        Ok(Fitted { model, outcome, run, runs: self.runs })
    }
}

impl Plan {
    /// What "best" compares. Where batches are left out and nothing is held out, the evidence of what was left out says
    /// more than the objective, which many small clusters please; a run that was stopped before it had any comes last.
    fn quality(&self, outcome: &Outcome) -> (bool, f64) {
        let evidence = outcome.recent.last().and_then(|lap| lap.get(EVIDENCE)).filter(|_| self.pace.leave_out);
        match (self.best_by, outcome.heldout, evidence) {
            (BestBy::Heldout, Some(score), _) => (true, score),
            (BestBy::Objective, None, Some(evidence)) => (true, evidence),
            _ => (false, outcome.objective.total()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::data::{Element, MemoryRows, RowSource, Rows};
    use crate::mixture::{MixtureInputs, MixtureModel, fit_mixture_with};
    use crate::settings::MixtureConfig;

    /// Rows under which training fails at some of the times that they are read.
    struct Treacherous {
        rows: MemoryRows<f64>,
        reads: AtomicUsize,
        fails: Range<usize>,
        error: fn() -> Error,
    }

    impl RowSource for Treacherous {
        fn name(&self) -> &str {
            self.rows.name()
        }

        fn num_rows(&self) -> usize {
            self.rows.num_rows()
        }

        fn dim(&self) -> usize {
            self.rows.dim()
        }

        fn element(&self) -> Element {
            Element::F64
        }

        fn is_sparse(&self) -> bool {
            false
        }

        fn read_f32(&self, start: usize, count: usize, out: &mut Rows<f32>) -> Result<()> {
            self.rows.read_f32(start, count, out)
        }

        fn read_f64(&self, start: usize, count: usize, out: &mut Rows<f64>) -> Result<()> {
            if self.fails.contains(&self.reads.fetch_add(1, Ordering::Relaxed)) {
                return Err((self.error)());
            }
            self.rows.read_f64(start, count, out)
        }
    }

    /// Told of runs that fail.
    #[derive(Default)]
    struct Failures(Vec<usize>);

    impl Observer for Failures {
        fn step(&mut self, _info: &crate::training::trace::StepInfo) -> Result<()> {
            Ok(())
        }

        fn failed(&mut self, run: usize, error: &Error) -> Result<()> {
            assert!(matches!(error, Error::Diverged { .. }));
            self.0.push(run);
            Ok(())
        }
    }

    /// The result of so many runs, the times rows were read, and the runs that failed.
    fn train(runs: usize, fails: Range<usize>) -> (Result<Fitted<MixtureModel>>, usize, Vec<usize>) {
        train_until(runs, fails, || Error::Diverged { step: 1, value: f64::NAN })
    }

    fn train_until(
        runs: usize,
        fails: Range<usize>,
        error: fn() -> Error,
    ) -> (Result<Fitted<MixtureModel>>, usize, Vec<usize>) {
        let rows: Vec<f64> = (0..400).map(|n| f64::from(n % 2) * 9.0 + f64::from(n % 7) * 0.1).collect();
        let rows = MemoryRows::new("two groups", 1, rows).unwrap();
        let source = Treacherous { rows, reads: AtomicUsize::new(0), fails, error };
        let config =
            MixtureConfig { clusters: 2, batches: Some(2), laps: Some(2), tolerance: None, runs, ..Default::default() };
        let mut failures = Failures::default();
        let beside = Beside { observer: Some(&mut failures), ..Default::default() };
        let fitted = fit_mixture_with(&source, &config, MixtureInputs::default(), beside);
        (fitted, source.reads.into_inner(), failures.0)
    }

    #[test]
    fn a_step_that_is_out_of_time_leaves_the_one_before_it() {
        let (_, reads, _) = train(1, 0..0);
        let (late, ..) = train_until(1, reads - 1..usize::MAX, || Error::out_of_time("a step was done"));
        let late = late.unwrap();
        assert!(matches!(late.outcome.reason, StopReason::Seconds(_)), "{:?}", late.outcome.reason);
        assert!(late.model.training.steps > 0 && late.outcome.objective.total().is_finite());
        // Before the first step there is nothing.
        let (never, ..) = train_until(1, 1..usize::MAX, || Error::out_of_time("a step was done"));
        assert!(never.err().unwrap().is_out_of_time());
    }

    #[test]
    fn a_run_that_fails_does_not_end_the_others() {
        let (one, reads, _) = train(1, 0..0);
        assert!(one.is_ok());
        let (fitted, _, failed) = train(3, reads + 1..reads + 2);
        let fitted = fitted.unwrap();
        assert_eq!((fitted.runs.len(), failed), (3, vec![1]));
        assert!(fitted.run != 1 && fitted.runs[1].0.is_nan() && fitted.runs[2].0.is_finite());
        // One run has no others, and where all fail there is nothing to keep.
        assert!(matches!(train(1, reads - 1..reads), (Err(Error::Diverged { .. }), _, failed) if failed.is_empty()));
        assert!(
            matches!(train(2, reads - 1..usize::MAX), (Err(Error::Diverged { .. }), _, failed) if failed == [0, 1])
        );
    }
}
