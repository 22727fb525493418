//! The training that all models share: several runs, each seeded, looped over and judged, of which the best is kept.

use std::sync::atomic::AtomicBool;

use rand_chacha::ChaCha8Rng;

use crate::config::BestBy;
use crate::error::{Error, Result};
use crate::fit::{self, Outcome, Progress, State, StopReason, StopRules, Watch};
use crate::model::Model;
use crate::observe::{Observer, Stopwatch};
use crate::schedule::{Memoized, Schedule, ScheduleKind, Stochastic};

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

    /// Find where a run starts: seed, or take up the model to go on from.
    fn start(&mut self, data: &Self::Data, run: usize) -> Result<Start<ParamsOf<Self>, SummaryOf<Self>>>;

    /// The held-out score, where there is something to score.
    fn score(&self) -> Option<Box<dyn Fn(&ParamsOf<Self>, &SummaryOf<Self>) -> Result<f64> + '_>>;

    /// The model as it is when a run has ended.
    fn saved(&self, state: &StateOf<Self>, outcome: &Outcome) -> Self::Saved;
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
pub fn train<T: Task>(
    task: &mut T,
    observer: Option<&mut dyn Observer>,
    interrupt: Option<&AtomicBool>,
) -> Result<Trained<T::Saved>> {
    let mut silent = ();
    let observer: &mut dyn Observer = match observer {
        Some(observer) => observer,
        None => &mut silent,
    };
    let plan = task.plan();
    let mut best: Option<Trained<T::Saved>> = None;
    let mut runs = Vec::new();
    for run in 0..plan.runs {
        let mut clock = Stopwatch::default();
        clock.start();
        let data = task.deal(run)?;
        let start = task.start(&data, run)?;
        let mut schedule = schedule(&plan, task.model(), &data, &start);
        let mut state = State { params: start.params, total: start.total, progress: Progress::default() };
        let score = task.score();
        let mut watch = Watch { score: score.as_deref(), observer: &mut *observer, interrupt, run, clock };
        let outcome = fit::run(task.model(), &data, schedule.as_mut(), &mut state, &plan.rules, &mut watch)?;
        drop(score);
        runs.push((outcome.objective.total(), outcome.heldout));
        let interrupted = outcome.reason == StopReason::Interrupted;
        if best.as_ref().is_none_or(|best| plan.quality(&outcome) > plan.quality(&best.outcome)) {
            let model = task.saved(&state, &outcome);
            best = Some(Trained { model, outcome, run, runs: Vec::new() });
        }
        if interrupted {
            break;
        }
    }
    let problem = || Error::Config { option: "runs", problem: "must be at least 1".into(), remedy: "give 1".into() };
    Ok(Trained { runs, ..best.ok_or_else(problem)? })
}

impl Plan {
    /// What "best" compares.
    fn quality(&self, outcome: &Outcome) -> f64 {
        match (self.best_by, outcome.heldout) {
            (BestBy::Heldout, Some(score)) => score,
            _ => outcome.objective.total(),
        }
    }
}

fn schedule<D, M: Model<D>>(
    plan: &Plan,
    model: &M,
    data: &D,
    start: &Start<M::Params, M::Summary>,
) -> Box<dyn Schedule<M::Summary>> {
    let shares: Vec<f64> = (0..model.num_batches(data)).map(|b| model.batch_share(data, b)).collect();
    let (first, rng) = (|| start.total.clone(), start.rng.clone());
    let keep = plan.schedule != ScheduleKind::Streaming;
    match plan.schedule {
        ScheduleKind::Stochastic => Box::new(Stochastic::new(shares, plan.delay, plan.decay, rng)),
        _ if start.stays => Box::new(Memoized::on_top_of(shares, first(), keep, rng)),
        _ => Box::new(Memoized::new(shares, first(), keep, rng)),
    }
}
