//! Training from settings to a model: several runs, each a session that goes on until a rule says stop, of which the best
//! is kept.

mod follow;
mod ledger;

use std::path::Path;
use std::sync::atomic::AtomicBool;

use crate::backend::Place;
use crate::data::Dealt;
use crate::error::{Error, Result};
use crate::settings::Plan;
use crate::store::checkpoint::{Fingerprint, Storage};
use crate::training::exchange::{Engine, Known, Rounds};
use crate::training::model::{Model, Objective};
use crate::training::observe::{Observer, Stopwatch};
use crate::training::rules::{Outcome, Patience, Progress, StopReason};
use crate::training::session::{Places, Session, Snapshot, Start};
use crate::training::trace::{Beginning, Ending};

use follow::Training;
use ledger::Ledger;

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

/// How a run that came so far ended.
fn outcome(progress: &Progress, reason: StopReason, objective: Objective, heldout: Option<f64>) -> Outcome {
    let Progress { laps, seconds, rows, ref recent, .. } = *progress;
    let rows_per_second = rows as f64 / seconds.max(1e-9);
    Outcome { reason, objective, heldout, laps, seconds, rows_per_second, recent: recent.clone() }
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
