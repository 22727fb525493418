//! The book of a training: runs that have ended, the best of them, and the checkpoints of the one under way.

use std::sync::Arc;

use super::{Family, Fitted, ModelFile};
use crate::error::{Error, Result};
use crate::settings::{BestBy, Plan};
use crate::store::checkpoint::{Content, Found, Keeper, Storage, StoredRun};
use crate::training::model::Model;
use crate::training::rules::{EVIDENCE, Outcome};
use crate::training::session::Session;

/// The runs that have ended, and the checkpoints of the one under way.
pub(super) struct Ledger<M> {
    /// Final objective and held-out score of every run that has ended.
    pub(super) runs: Vec<(f64, Option<f64>)>,
    /// The best of them: its number, how it ended, its model.
    pub(super) best: Option<(usize, Outcome, M)>,
    /// The same for checkpoints.
    pub(super) stored: Option<Arc<StoredRun>>,
    pub(super) keeper: Option<Keeper>,
    /// What the runs are trained with.
    pub(super) backend: String,
}

impl<S: ModelFile> Ledger<S> {
    /// A new one, or that of the checkpoint to go on from.
    pub(super) fn open<'a, F: Family<'a>>(family: &F, storage: Storage) -> Result<(Self, Option<Found<F::Model>>)> {
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
    pub(super) fn checkpoint<M: Model>(
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
    pub(super) fn settle<M: Model>(&mut self, session: &mut Session<'_, M>) -> Result<()> {
        if let Some(keeper) = &mut self.keeper
            && keeper.wait()?
        {
            session.save_is_safe();
        }
        Ok(())
    }

    pub(super) fn close(self) -> Result<Fitted<S>> {
        let none =
            || Error::Config { setting: "runs", problem: "must be at least 1".into(), remedy: "give 1 or more".into() };
        let (run, outcome, model) = self.best.ok_or_else(none)?;
        Ok(Fitted { model, outcome, run, runs: self.runs })
    }
}

impl Plan {
    /// What "best" compares. Where batches are left out and nothing is held out, the evidence of what was left out says
    /// more than the objective, which many small clusters please; a run that was stopped before it had any comes last.
    pub(super) fn quality(&self, outcome: &Outcome) -> (bool, f64) {
        let evidence = outcome.recent.last().and_then(|lap| lap.get(EVIDENCE)).filter(|_| self.pace.leave_out);
        match (self.best_by, outcome.heldout, evidence) {
            (BestBy::Heldout, Some(score), _) => (true, score),
            (BestBy::Objective, None, Some(evidence)) => (true, evidence),
            _ => (false, outcome.objective.total()),
        }
    }
}
