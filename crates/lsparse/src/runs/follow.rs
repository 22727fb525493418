//! One run after the other, each followed step by step until a rule says stop.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::ledger::Ledger;
use super::{Family, Fitted, ModelFile, outcome};
use crate::backend::free_buffers;
use crate::error::{Error, Result};
use crate::settings::Plan;
use crate::store::checkpoint::{Content, Keeper, StoredRun};
use crate::training::exchange::Rounds;
use crate::training::model::Model;
use crate::training::observe::Observer;
use crate::training::rules::{Outcome, Patience, StopReason, count_empty};
use crate::training::session::{Places, Session};
use crate::training::summary::Summary;
use crate::training::trace::Ending;

/// A family in training, and all that is around it.
pub(super) struct Training<'t, F, M> {
    pub(super) family: &'t F,
    pub(super) plan: Plan,
    pub(super) heldout_every: Option<u64>,
    pub(super) observer: &'t mut dyn Observer,
    pub(super) interrupt: Option<&'t AtomicBool>,
    /// Where batches are worked out elsewhere.
    pub(super) rounds: Option<Rounds<'t>>,
    pub(super) ledger: Ledger<M>,
    /// What ended the first run that failed.
    pub(super) failure: Option<Error>,
    /// Whether the run ended in the middle of a step.
    pub(super) torn: bool,
    /// The model after the lap of this run that scored best, where one is to be kept.
    pub(super) best_lap: Option<Arc<StoredRun>>,
}

impl<'a, F: Family<'a>> Training<'_, F, F::Saved> {
    /// Tell whoever watches what this is, unless it was said in what is kept of it.
    pub(super) fn begin(&mut self) -> Result<()> {
        match self.observer.written() {
            0 => self.observer.begin(&self.family.beginning()),
            _ => Ok(()),
        }
    }

    /// One run, from its start or from a checkpoint, whose run may have been to end by other rules. Whether the next may
    /// follow.
    pub(super) fn run(&mut self, run: usize, from: Option<(Content<F::Model>, bool)>, places: &Places) -> Result<bool> {
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
        // Rows are checked and seeds are found: what that was done in is of no use to training.
        free_buffers();
        let outcome = match ended {
            Some(reason) => {
                session.make_whole()?;
                self.at_rest(&session, reason)?
            }
            None => self.follow(&mut session)?,
        };
        // A model is made beside the session.
        free_buffers();
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
    pub(super) fn failed(&mut self, run: usize, error: Error) -> Result<()> {
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
    pub(super) fn forget_batch(
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
    pub(super) fn reopen(&mut self, content: &Content<F::Model>) -> Result<()> {
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
