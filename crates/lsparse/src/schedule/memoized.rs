//! Memoized training: the total is always the sum of every batch's latest statistics (`hughes2013memoized`).

use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::Schedule;
use crate::summary::Summary;

/// Visits every batch once a lap, in an order drawn anew for each lap.
///
/// In the first lap the batches not seen yet are stood in for by their share of the initial statistics, so that a
/// cluster that the first batch happens to miss is not lost; when the lap ends the total is exact.
pub struct Memoized<S> {
    memos: Vec<Option<S>>,
    shares: Vec<f64>,
    /// Stands in for batches not seen yet; dropped when all have been.
    initial: Option<S>,
    /// Statistics of data seen in an earlier training, which stay in the total for good.
    history: Option<S>,
    /// False for streaming: batches are not remembered, only their sum.
    keep: bool,
    seen: Option<S>,
    /// Share of the data not seen yet in the first lap.
    unseen_share: f64,
    order: Vec<usize>,
    position: usize,
    rng: ChaCha8Rng,
}

impl<S: Summary> Memoized<S> {
    /// `shares` is each batch's share of the data; `initial` the total that training starts from.
    pub fn new(shares: Vec<f64>, initial: S, keep: bool, rng: ChaCha8Rng) -> Self {
        let num = shares.len();
        Memoized {
            memos: vec![None; num],
            shares,
            initial: Some(initial),
            history: None,
            keep,
            seen: None,
            unseen_share: 1.0,
            order: (0..num).collect(),
            position: 0,
            rng,
        }
    }

    /// Go on from statistics of other data, which stay in the total: the batches come on top of them.
    pub fn on_top_of(shares: Vec<f64>, history: S, keep: bool, rng: ChaCha8Rng) -> Self {
        let mut schedule = Memoized::new(shares, history, keep, rng);
        schedule.history = schedule.initial.take();
        schedule
    }

    /// The statistics remembered for a batch.
    pub fn memo(&self, batch: usize) -> Option<&S> {
        self.memos[batch].as_ref()
    }

    /// Streaming: the total is what was seen, and the start's share of what was not; nothing is ever taken away.
    fn fold_stream(&mut self, total: &mut S, batch: usize, fresh: &S, ends_lap: bool) {
        self.unseen_share = if ends_lap { 0.0 } else { (self.unseen_share - self.shares[batch]).max(0.0) };
        total.scale(0.0);
        let seen = self.seen.get_or_insert_with(|| total.clone());
        seen.add_scaled(fresh, 1.0);
        total.add_scaled(seen, 1.0);
        if let Some(history) = &self.history {
            total.add_scaled(history, 1.0);
        }
        if let Some(initial) = &self.initial
            && !ends_lap
        {
            total.add_scaled(initial, self.unseen_share);
        }
    }

    /// The sum of all memos in the order of the batches: adding and subtracting drifts, this does not.
    fn rebuild(&self, total: &mut S) {
        total.scale(0.0);
        for memo in self.history.iter().chain(self.memos.iter().flatten()) {
            total.add_scaled(memo, 1.0);
        }
    }
}

impl<S: Summary> Schedule<S> for Memoized<S> {
    fn next_batch(&mut self) -> usize {
        if self.position == 0 {
            self.order.shuffle(&mut self.rng);
        }
        self.order[self.position]
    }

    fn fold(&mut self, total: &mut S, batch: usize, fresh: S) -> bool {
        self.position = (self.position + 1) % self.order.len();
        let ends_lap = self.position == 0;
        if self.order.len() == 1 {
            total.scale(0.0);
            if let Some(history) = &self.history {
                total.add_scaled(history, 1.0);
            }
            total.add_scaled(&fresh, 1.0);
            self.initial = None;
            return true;
        }
        if !self.keep {
            self.fold_stream(total, batch, &fresh, ends_lap);
            return ends_lap;
        }
        match (&self.memos[batch], &self.initial) {
            (Some(old), _) => total.add_scaled(old, -1.0),
            (None, Some(initial)) => total.add_scaled(initial, -self.shares[batch]),
            (None, None) => {}
        }
        total.add_scaled(&fresh, 1.0);
        self.memos[batch] = Some(fresh);
        if ends_lap {
            self.rebuild(total);
            self.initial = None;
        }
        ends_lap
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::ClusterSummary;
    use rand::SeedableRng;

    fn summary(count: f64) -> ClusterSummary {
        ClusterSummary { counts: vec![count, 1.0], stats: vec![count * 2.0, 3.0], width: 1, entropy: count }
    }

    #[test]
    fn after_a_lap_the_total_is_the_sum_of_the_latest_statistics() {
        let mut total = summary(100.0);
        let rng = ChaCha8Rng::seed_from_u64(1);
        let mut schedule = Memoized::new(vec![0.25; 4], total.clone(), true, rng);
        let mut expected = [0.0; 4];
        for lap in 0..3 {
            for visit in 0..4 {
                let batch = schedule.next_batch();
                expected[batch] = (lap * 10 + batch) as f64 + 0.1;
                let ended = schedule.fold(&mut total, batch, summary(expected[batch]));
                assert_eq!(ended, visit == 3);
            }
            assert_eq!(total.counts[0], expected.iter().sum::<f64>());
            assert_eq!(total.counts[1], 4.0);
        }
        assert_eq!(schedule.memo(2).unwrap().counts[0], 22.1);
    }

    #[test]
    fn history_stays_in_the_total() {
        for batches in [1, 4] {
            let mut total = summary(100.0);
            let rng = ChaCha8Rng::seed_from_u64(1);
            let shares = vec![1.0 / batches as f64; batches];
            let mut schedule = Memoized::on_top_of(shares, total.clone(), true, rng);
            for _ in 0..3 * batches {
                let batch = schedule.next_batch();
                schedule.fold(&mut total, batch, summary(8.0));
            }
            assert!((total.counts[0] - 100.0 - 8.0 * batches as f64).abs() < 1e-12);
        }
    }

    #[test]
    fn in_the_first_lap_unseen_batches_count_by_their_share_of_the_start() {
        let mut total = summary(100.0);
        let rng = ChaCha8Rng::seed_from_u64(1);
        let mut schedule = Memoized::new(vec![0.25; 4], total.clone(), false, rng);
        let batch = schedule.next_batch();
        schedule.fold(&mut total, batch, summary(8.0));
        assert!((total.counts[0] - 83.0).abs() < 1e-12);
    }
}
