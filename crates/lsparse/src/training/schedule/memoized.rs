//! Memoized training: the total is always the sum of every batch's latest statistics (`hughes2013memoized`).

use std::sync::Arc;

use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::training::moves::Remap;
use crate::training::schedule::{Memo, MemoPlace, Memos, Schedule, ScheduleState, Snapshot};
use crate::training::summary::Summary;

/// Visits every batch once a lap, in an order drawn anew for each lap.
///
/// In the first lap the batches not seen yet are stood in for by their share of the initial statistics, so that a
/// cluster that the first batch happens to miss is not lost; when the lap ends the total is exact.
pub struct Memoized<S> {
    shares: Vec<f64>,
    /// False for streaming: batches are not remembered, only their sum.
    keep: bool,
    /// Whether a batch is taken out of the total before it is visited.
    leave_out: bool,
    memos: Memos<S>,
    state: Position<S>,
    spent: Option<S>,
}

/// Where a memoized schedule is, but for what it remembers of batches.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Position<S> {
    /// Stands in for batches not seen yet; dropped when all have been.
    initial: Option<Arc<S>>,
    /// Statistics of data seen in an earlier training, which stay in the total for good.
    history: Option<Arc<S>>,
    /// Streaming: the sum of the batches seen.
    seen: Option<Arc<S>>,
    /// Share of the data not seen yet in the first lap.
    unseen_share: f64,
    /// The batches of a lap; those taken out are not among them.
    order: Vec<usize>,
    position: usize,
    /// Whether the order is this lap's already.
    shuffled: bool,
    /// The batches whose statistics are taken out of the total, which are those to be visited.
    out: Vec<usize>,
    rng: ChaCha8Rng,
}

/// A memoized schedule at rest.
#[derive(Clone, Serialize, Deserialize)]
pub struct MemoizedState<S> {
    memos: Vec<Option<Memo<S>>>,
    position: Position<S>,
}

impl<S: Summary> Memoized<S> {
    /// `shares` is each batch's share of the data; `initial` the total that training starts from.
    pub fn new(shares: Vec<f64>, initial: S, keep: bool, rng: ChaCha8Rng) -> Self {
        let num = shares.len();
        let state = Position {
            initial: Some(Arc::new(initial)),
            history: None,
            seen: None,
            unseen_share: 1.0,
            order: (0..num).collect(),
            position: 0,
            shuffled: false,
            out: Vec::new(),
            rng,
        };
        let memos = Memos::new(num, MemoPlace::default());
        Memoized { shares, keep, leave_out: false, memos, state, spent: None }
    }

    /// Go on from statistics of other data, which stay in the total: the batches come on top of them.
    pub fn on_top_of(shares: Vec<f64>, history: S, keep: bool, rng: ChaCha8Rng) -> Self {
        let mut schedule = Memoized::new(shares, history, keep, rng);
        schedule.state.history = schedule.state.initial.take();
        schedule
    }

    /// Go on from where a schedule was.
    pub fn restore(shares: Vec<f64>, keep: bool, state: MemoizedState<S>, place: MemoPlace) -> Result<Self> {
        let (memos, state) = (Memos::restore(state.memos, place)?, state.position);
        Ok(Memoized { shares, keep, leave_out: false, memos, state, spent: None })
    }

    /// Take each batch out of the total before it is visited, from the second lap on. (In the first nothing is known of
    /// the batches.) It takes several batches that are remembered.
    pub fn leaving_out(mut self, leave_out: bool) -> Self {
        self.leave_out = leave_out && self.keep && self.shares.len() > 1;
        self
    }

    /// Keep statistics in this place, before there are any.
    pub fn remember_in(mut self, place: MemoPlace) -> Self {
        self.memos = Memos::new(self.shares.len(), place);
        self
    }

    /// The statistics remembered for a batch.
    pub fn memo(&self, batch: usize) -> Result<Option<Arc<S>>> {
        self.memos.get(batch)
    }

    /// Put other statistics in the place of a batch's, as when its data are exchanged for newer ones: `total` becomes
    /// the sum of all batches. Seeds, and the local optimum that training has come to, may still reflect what was
    /// there before.
    pub fn replace_batch(&mut self, total: &mut S, batch: usize, fresh: S) -> Result<()> {
        self.check_remembered(batch)?;
        self.memos.put(batch, fresh)?;
        self.state.out.clear();
        self.rebuild(total)
    }

    /// What can be taken out or replaced: a batch that is there, and remembered.
    fn check_remembered(&self, batch: usize) -> Result<()> {
        let refuse = |problem: String, remedy: &str| {
            Err(Error::Config { setting: "forget-batch", problem, remedy: remedy.into() })
        };
        if !self.keep || self.shares.len() == 1 {
            let problem = "the run does not remember what each batch gave".into();
            return refuse(problem, "train with `schedule memoized` and more than one batch");
        }
        if !self.state.order.contains(&batch) {
            let num = self.shares.len();
            return match batch < num {
                true => refuse(format!("batch {batch} was taken out before"), "choose another"),
                false => refuse(format!("there is no batch {batch}"), &format!("choose from 0 to {}", num - 1)),
            };
        }
        Ok(())
    }

    /// Streaming: the total is what was seen, and the start's share of what was not; nothing is ever taken away.
    fn fold_stream(&mut self, total: &mut S, batch: usize, fresh: &S, ends_lap: bool) {
        let state = &mut self.state;
        state.unseen_share = if ends_lap { 0.0 } else { (state.unseen_share - self.shares[batch]).max(0.0) };
        total.scale(0.0);
        let seen = state.seen.get_or_insert_with(|| Arc::new(total.clone()));
        Arc::make_mut(seen).add_scaled(fresh, 1.0);
        total.add_scaled(seen, 1.0);
        if let Some(history) = &state.history {
            total.add_scaled(history, 1.0);
        }
        if let Some(initial) = &state.initial
            && !ends_lap
        {
            total.add_scaled(initial, state.unseen_share);
        }
    }

    /// The sum of all memos in the order of the batches, and of what stands in for batches not seen yet: adding and
    /// subtracting drifts, this does not.
    fn rebuild(&self, total: &mut S) -> Result<()> {
        let mut begun = false;
        let mut add = |parts: &mut Vec<(Arc<S>, f64)>| {
            let all: Vec<(&S, f64)> = parts.iter().map(|(part, factor)| (&**part, *factor)).collect();
            match std::mem::replace(&mut begun, true) {
                true => total.add_all(&all),
                false => total.set_to_sum(&all),
            }
            parts.clear();
        };
        let mut parts: Vec<(Arc<S>, f64)> = Vec::new();
        parts.extend(self.state.history.clone().map(|history| (history, 1.0)));
        for batch in 0..self.memos.len() {
            parts.extend(self.memos.get(batch)?.map(|memo| (memo, 1.0)));
            // What was read from the file goes before the next comes.
            if !self.memos.is_held(batch) {
                add(&mut parts);
            }
        }
        let unseen = self.state.order.iter().filter(|&&batch| !self.memos.has(batch));
        let unseen: f64 = unseen.map(|&batch| self.shares[batch]).sum();
        parts.extend(self.state.initial.clone().filter(|_| unseen > 0.0).map(|initial| (initial, unseen)));
        add(&mut parts);
        Ok(())
    }
}

impl<S: Summary> Schedule<S> for Memoized<S> {
    fn next_batch(&mut self, ahead: usize) -> Option<usize> {
        let Position { order, position, shuffled, rng, .. } = &mut self.state;
        if !std::mem::replace(shuffled, true) {
            order.shuffle(rng);
        }
        // The next lap has an order of its own.
        order.get(*position + ahead).copied()
    }

    fn place(&self) -> (usize, usize) {
        (self.state.position, self.state.order.len())
    }

    fn fold(&mut self, total: &mut S, batch: usize, fresh: S) -> Result<bool> {
        let state = &mut self.state;
        state.position = (state.position + 1) % state.order.len();
        let ends_lap = state.position == 0;
        state.shuffled = !ends_lap;
        if self.shares.len() == 1 {
            let history = state.history.as_deref().map(|history| (history, 1.0));
            total.set_to_sum(&history.into_iter().chain([(&fresh, 1.0)]).collect::<Vec<_>>());
            state.initial = None;
            self.spent = Some(fresh);
            return Ok(true);
        }
        if !self.keep {
            self.fold_stream(total, batch, &fresh, ends_lap);
            self.spent = Some(fresh);
            return Ok(ends_lap);
        }
        let out = state.out.iter().position(|&out| out == batch).map(|at| state.out.remove(at));
        let was_out = out.is_some();
        let old = if was_out { None } else { self.memos.get(batch)? };
        let leaves = match (&old, &state.initial) {
            (Some(old), _) => Some((&**old, -1.0)),
            (None, Some(initial)) if !was_out => Some((&**initial, -self.shares[batch])),
            _ => None,
        };
        total.add_all(&leaves.into_iter().chain([(&fresh, 1.0)]).collect::<Vec<_>>());
        self.memos.put(batch, fresh)?;
        // A checkpoint that is being written may still need it.
        self.spent = old.and_then(Arc::into_inner);
        if ends_lap {
            self.rebuild(total)?;
            self.state.initial = None;
        }
        Ok(ends_lap)
    }

    fn take_out_next(&mut self, total: &mut S, most: usize) -> Result<bool> {
        // What is left when others were forgotten is not left out of nothing.
        if !self.leave_out || !self.state.out.is_empty() || self.state.order.len() < 2 {
            return Ok(false);
        }
        let (first, num) = (self.state.position, self.state.order.len());
        for at in first..num.min(first + self.at_once(most)) {
            let batch = self.state.order[at];
            if let Some(memo) = self.memos.get(batch)? {
                total.add_scaled(&memo, -1.0);
                self.state.out.push(batch);
            }
        }
        Ok(!self.state.out.is_empty())
    }

    fn may_lend(&self) -> bool {
        let state = &self.state;
        self.leave_out && state.position == 0 && state.out.is_empty() && self.memos.has(state.order[0])
    }

    fn at_once(&self, most: usize) -> usize {
        // What is left must be able to stand for those that are out.
        if self.leave_out { most.min(self.state.order.len() / 2).max(1) } else { usize::MAX }
    }

    fn is_ready(&self, batch: usize) -> bool {
        !self.leave_out || self.state.out.contains(&batch) || !self.memos.has(batch)
    }

    fn is_out(&self) -> bool {
        !self.state.out.is_empty()
    }

    fn whole(&self, total: &S) -> Result<Option<S>> {
        if self.state.out.is_empty() {
            return Ok(None);
        }
        // Of batches alone: what clusters were lent for this lap is not the data's.
        let mut whole = total.clone();
        self.rebuild(&mut whole)?;
        Ok(Some(whole))
    }

    fn is_whole(&mut self) {
        self.state.out.clear();
    }

    fn spent(&mut self) -> Option<S> {
        self.spent.take()
    }

    fn remembered(&self, batch: usize) -> Result<Option<Arc<S>>> {
        self.memos.get(batch)
    }

    /// At once and not when a memo is next read: the end of a lap has read them all, and what is spilled, saved or sent
    /// elsewhere never lags behind.
    fn remap(&mut self, total: &mut S, plan: &Remap) -> Result<()> {
        let remembered: Vec<usize> = (0..self.memos.len()).filter(|&batch| self.memos.has(batch)).collect();
        for &batch in &remembered {
            if let Some(memo) = self.memos.get(batch)? {
                // (Nobody else is to hold it, or it would be copied.)
                self.memos.forget(batch);
                let mut memo = Arc::unwrap_or_clone(memo);
                memo.remap(plan);
                self.memos.put(batch, memo)?;
            }
        }
        total.remap(plan);
        if remembered.is_empty() { Ok(()) } else { self.rebuild(total) }
    }

    /// Seeds, and the local optimum that training has come to, may still reflect what was taken out.
    fn remove_batch(&mut self, total: &mut S, batch: usize) -> Result<bool> {
        self.check_remembered(batch)?;
        let state = &mut self.state;
        if state.order.len() == 1 {
            let (problem, remedy) = ("it is the last batch that is left", "remove the checkpoint instead");
            return Err(Error::Config { setting: "forget-batch", problem: problem.into(), remedy: remedy.into() });
        }
        let at = state.order.iter().position(|&other| other == batch).unwrap_or_default();
        state.order.remove(at);
        // Not where a lap is about to begin: there it has ended already.
        let within = state.position > 0;
        state.position -= usize::from(at < state.position);
        let ends_lap = within && state.position == state.order.len();
        // With the only batch that was visited the lap has not begun.
        state.position %= state.order.len();
        state.shuffled = state.position > 0;
        state.out.clear();
        self.memos.forget(batch);
        self.rebuild(total)?;
        if ends_lap {
            self.state.initial = None;
        }
        Ok(ends_lap)
    }

    fn snapshot(&mut self) -> Snapshot<S> {
        let (position, memos) = (self.state.clone(), self.memos.slots());
        let state = ScheduleState::Memoized(MemoizedState { memos, position });
        Snapshot { state, file: self.memos.begin_checkpoint() }
    }

    fn snapshot_is_safe(&mut self) {
        self.memos.end_checkpoint();
    }

    fn take_trouble(&mut self) -> Option<Error> {
        self.memos.take_trouble()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::likelihood::ClusterSummary;
    use rand::SeedableRng;

    fn summary(count: f64) -> ClusterSummary {
        ClusterSummary {
            counts: vec![count, 1.0],
            stats: vec![count * 2.0, 3.0],
            width: 1,
            entropy: count,
            trial: None,
        }
    }

    #[test]
    fn after_a_lap_the_total_is_the_sum_of_the_latest_statistics() {
        let mut total = summary(100.0);
        let rng = ChaCha8Rng::seed_from_u64(1);
        let mut schedule = Memoized::new(vec![0.25; 4], total.clone(), true, rng);
        let mut expected = [0.0; 4];
        for lap in 0..3 {
            for visit in 0..4 {
                let batch = schedule.next_batch(0).unwrap();
                expected[batch] = (lap * 10 + batch) as f64 + 0.1;
                let ended = schedule.fold(&mut total, batch, summary(expected[batch])).unwrap();
                assert_eq!(ended, visit == 3);
            }
            assert_eq!(total.counts[0], expected.iter().sum::<f64>());
            assert_eq!(total.counts[1], 4.0);
        }
        assert_eq!(schedule.memo(2).unwrap().unwrap().counts[0], 22.1);
    }

    #[test]
    fn history_stays_in_the_total() {
        for batches in [1, 4] {
            let mut total = summary(100.0);
            let rng = ChaCha8Rng::seed_from_u64(1);
            let shares = vec![1.0 / batches as f64; batches];
            let mut schedule = Memoized::on_top_of(shares, total.clone(), true, rng);
            for _ in 0..3 * batches {
                let batch = schedule.next_batch(0).unwrap();
                schedule.fold(&mut total, batch, summary(8.0)).unwrap();
            }
            assert!((total.counts[0] - 100.0 - 8.0 * batches as f64).abs() < 1e-12);
        }
    }

    #[test]
    fn in_the_first_lap_unseen_batches_count_by_their_share_of_the_start() {
        let mut total = summary(100.0);
        let rng = ChaCha8Rng::seed_from_u64(1);
        let mut schedule = Memoized::new(vec![0.25; 4], total.clone(), false, rng);
        let batch = schedule.next_batch(0).unwrap();
        schedule.fold(&mut total, batch, summary(8.0)).unwrap();
        assert!((total.counts[0] - 83.0).abs() < 1e-12);
    }

    /// Statistics whose sums round, so that only the same order of additions gives the same bits.
    fn rough(batch: usize, visit: usize) -> ClusterSummary {
        let value = 1.0 / (3 + 7 * batch + visit) as f64;
        ClusterSummary {
            counts: vec![value, 0.1],
            stats: vec![value * 1e3, -value],
            width: 1,
            entropy: value / 7.0,
            trial: None,
        }
    }

    #[test]
    fn after_a_removal_the_total_is_the_sum_of_the_rest_bit_for_bit() {
        for visits in [3, 4, 6, 9] {
            for gone in 0..4 {
                let mut total = summary(100.0);
                let initial = total.clone();
                let rng = ChaCha8Rng::seed_from_u64(5);
                let mut schedule = Memoized::new(vec![0.25; 4], total.clone(), true, rng);
                let mut latest = [const { None }; 4];
                for visit in 0..visits {
                    let batch = schedule.next_batch(0).unwrap();
                    latest[batch] = Some(rough(batch, visit));
                    schedule.fold(&mut total, batch, rough(batch, visit)).unwrap();
                }
                schedule.remove_batch(&mut total, gone).unwrap();
                let mut rest = summary(0.0);
                rest.scale(0.0);
                for batch in (0..4).filter(|&b| b != gone) {
                    if let Some(memo) = &latest[batch] {
                        rest.add_scaled(memo, 1.0);
                    }
                }
                let unseen = (0..4).filter(|&b| b != gone && latest[b].is_none()).count();
                if unseen > 0 {
                    rest.add_scaled(&initial, 0.25 * unseen as f64);
                }
                assert_eq!(total, rest);
                // It is not visited any more, and cannot be taken out twice.
                for visit in 0..7 {
                    let batch = schedule.next_batch(0).unwrap();
                    assert_ne!(batch, gone);
                    schedule.fold(&mut total, batch, rough(batch, visit)).unwrap();
                }
                assert!(schedule.remove_batch(&mut total, gone).is_err());
                assert!(schedule.remove_batch(&mut total, 4).is_err());
            }
        }
    }

    #[test]
    fn a_replaced_batch_counts_as_if_it_had_always_been_so() {
        let visit = |exchange: bool| {
            let mut total = summary(100.0);
            let rng = ChaCha8Rng::seed_from_u64(5);
            let mut schedule = Memoized::new(vec![0.25; 4], total.clone(), true, rng);
            for n in 0..8 {
                let batch = schedule.next_batch(0).unwrap();
                let other = !exchange && batch == 2;
                schedule.fold(&mut total, batch, rough(if other { 9 } else { batch }, n)).unwrap();
            }
            if exchange {
                let memo = (4..8).map(|n| rough(9, n)).find(|m| {
                    let old = schedule.memo(2).unwrap().unwrap();
                    (1.0 / m.counts[0] - 1.0 / old.counts[0] - 49.0).abs() < 1e-6
                });
                schedule.replace_batch(&mut total, 2, memo.unwrap()).unwrap();
            }
            total
        };
        assert_eq!(visit(true), visit(false));
    }

    #[test]
    fn a_batch_is_visited_without_what_it_gave_before() {
        let mut total = summary(100.0);
        let rng = ChaCha8Rng::seed_from_u64(3);
        let mut schedule = Memoized::new(vec![0.25; 4], total.clone(), true, rng).leaving_out(true);
        let mut latest = [0.0; 4];
        for visit in 0..12 {
            let batch = schedule.next_batch(0).unwrap();
            assert_eq!(schedule.may_lend(), visit > 0 && visit % 4 == 0);
            // Within a lap the step before has taken it out already.
            assert_eq!(schedule.take_out_next(&mut total, 1).unwrap(), visit > 0 && visit % 4 == 0);
            assert_eq!(schedule.is_out(), visit >= 4);
            if schedule.is_out() {
                let others: f64 = (0..4).filter(|&b| b != batch).map(|b| latest[b]).sum();
                assert!((total.counts[0] - others).abs() < 1e-12);
                let whole = schedule.whole(&total).unwrap().unwrap();
                assert!((whole.counts[0] - latest.iter().sum::<f64>()).abs() < 1e-12);
            }
            latest[batch] = visit as f64 + 0.3;
            let ended = schedule.fold(&mut total, batch, summary(latest[batch])).unwrap();
            if ended {
                assert!(!schedule.is_out() && (total.counts[0] - latest.iter().sum::<f64>()).abs() < 1e-12);
            } else if visit >= 4 {
                assert!(schedule.take_out_next(&mut total, 1).unwrap());
            }
        }
        // What is lent for a lap is not in the whole, and the last batch that is left is not left out.
        schedule.next_batch(0).unwrap();
        total.add_scaled(&summary(1000.0), 1.0);
        assert!(schedule.take_out_next(&mut total, 1).unwrap());
        let whole = schedule.whole(&total).unwrap().unwrap();
        assert!((whole.counts[0] - latest.iter().sum::<f64>()).abs() < 1e-12);
        (1..4).for_each(|batch| assert!(!schedule.remove_batch(&mut total, batch).unwrap()));
        assert_eq!(schedule.next_batch(0).unwrap(), 0);
        assert!(!schedule.take_out_next(&mut total, 1).unwrap() && total.counts[0] == latest[0]);
        let alone = Memoized::new(vec![1.0], summary(1.0), true, ChaCha8Rng::seed_from_u64(3)).leaving_out(true);
        assert!(!alone.leave_out, "with one batch nothing would be left");
    }

    #[test]
    fn a_schedule_at_rest_goes_on_with_the_same_bits() {
        let folder = tempfile::tempdir().unwrap();
        for (keep, limit) in [(true, None), (true, Some(0)), (false, None)] {
            for at in 0..9 {
                let place = MemoPlace { limit, file: Some(folder.path().join(format!("{keep}{limit:?}{at}"))) };
                let mut total = summary(100.0);
                let mut schedule = Memoized::new(vec![0.25; 4], total.clone(), keep, ChaCha8Rng::seed_from_u64(5))
                    .remember_in(place.clone());
                let mut plain = Memoized::new(vec![0.25; 4], total.clone(), keep, ChaCha8Rng::seed_from_u64(5));
                let mut plain_total = total.clone();
                for visit in 0..12 {
                    let batch = schedule.next_batch(0).unwrap();
                    schedule.fold(&mut total, batch, rough(batch, visit)).unwrap();
                    assert_eq!(plain.next_batch(0), Some(batch));
                    plain.fold(&mut plain_total, batch, rough(batch, visit)).unwrap();
                    assert_eq!(total, plain_total);
                    if visit == at {
                        let ScheduleState::Memoized(state) = schedule.snapshot().state else { panic!() };
                        let bytes = postcard::to_stdvec(&state).unwrap();
                        let state = postcard::from_bytes(&bytes).unwrap();
                        schedule = Memoized::restore(vec![0.25; 4], keep, state, place.clone()).unwrap();
                    }
                }
            }
        }
    }
}
