//! The document step: responsibilities and topic counts of one document, dense or L-sparse.
//!
//! Alg. 2 of `hughes2016sparse`, arranged so that no iteration has an exponential a token: the document gathers the
//! exp(C_vk) of its words and active topics into one compact block once, and an iteration is two multiply-add passes
//! over it and |A_d| digammas. Topics whose count falls to the floor leave the active set and never come back.

use lsparse_kernels::{AlignedVec, BLOCK_LANES, ln_gamma_slice, weighted_log_sum};
use lsparse_kernels::{add_table_rows, block_step, digamma_slice, exp_slice, gather_block, ln_slice, top_l};

use crate::settings::{Selection, TopicsConfig};
use crate::topics::table::WordTable;

/// Settings of the document step.
#[derive(Clone, Debug, PartialEq)]
pub struct DocumentOptions {
    /// L.
    pub sparsity: usize,
    /// Iterations at most.
    pub iterations: usize,
    /// Stop when no active topic's count changes by more than this between iterations.
    pub tolerance: f32,
    /// epsilon: a topic with no more mass than this in a document leaves its active set.
    pub active_floor: f32,
    /// Topics a document starts with at most, those with the most first mass.
    pub max_active: Option<usize>,
    /// When a token's L topics are chosen.
    pub selection: Selection,
    /// Restart proposals a document at most; each of its topics is tried once.
    pub restarts: usize,
}

impl DocumentOptions {
    /// Those of a run.
    pub fn of(config: &TopicsConfig) -> Self {
        let sparsity = config.sparsity.within(config.topics);
        let dense = sparsity >= config.topics;
        DocumentOptions {
            sparsity,
            iterations: config.doc_iterations,
            tolerance: config.doc_tolerance as f32,
            // With L = K every topic stays with every document: the classical algorithm.
            active_floor: if dense { 0.0 } else { config.active_floor as f32 },
            max_active: config.max_active.filter(|_| !dense),
            selection: config.selection,
            restarts: config.restarts,
        }
    }

    /// Every topic shares every token, and none ever leaves: the classical algorithm.
    pub fn dense(num_topics: usize) -> Self {
        DocumentOptions {
            sparsity: num_topics,
            iterations: 100,
            tolerance: 0.05,
            active_floor: 0.0,
            max_active: None,
            selection: Selection::End,
            restarts: 0,
        }
    }
}

/// Iterations between two looks at convergence.
pub(in crate::topics) const CHECK_EVERY: usize = 5;

/// A document being worked on, and the buffers of the work.
#[derive(Default)]
pub struct Document {
    /// Topics of the block's rows.
    pub(in crate::topics) topics: Vec<u32>,
    /// Weights of topic-row a and word u at `a * stride + u`.
    pub(in crate::topics) block: AlignedVec<f32>,
    pub(in crate::topics) stride: usize,
    /// c_u, padded with zeros.
    pub(in crate::topics) word_counts: Vec<f32>,
    /// Rows of the block that are still active.
    pub(in crate::topics) rows: Vec<u32>,
    /// N_dk of the active topics.
    pub(in crate::topics) counts: Vec<f32>,
    /// alpha_k of the block's rows.
    alpha: Vec<f32>,
    /// The table's scale of the block's rows.
    scale: Vec<f32>,
    /// exp(psi(N_dk + alpha_k)) scale_k that made the counts.
    pub(in crate::topics) prior: Vec<f32>,
    /// sum over active topics of prior times weight, for each word.
    pub(in crate::topics) norms: Vec<f32>,
    pub(in crate::topics) next: Vec<f32>,
    pub(in crate::topics) work: Vec<f32>,
    /// Mass of every topic while the active set is found; zero in between.
    mass: Vec<f32>,
    touched: Vec<u32>,
    /// Chosen topics of each token (as positions in `rows`), and their responsibilities, `chosen_width` a word.
    chosen: Vec<u32>,
    share: Vec<f32>,
    chosen_width: usize,
    /// Before they were normalised, the sum of each token's responsibilities.
    chosen_sum: Vec<f32>,
    /// A topic that it is to do without.
    without: Option<Without>,
    /// What the bound lost where a topic was emptied in vain, as (topic, loss).
    pub(in crate::topics) losses: Vec<(u32, f32)>,
    /// Statistics of what was done, for reports.
    pub(in crate::topics) tally: Tally,
}

/// A topic that a document is to do without, and its heir, which has the words of both.
#[derive(Clone, Copy, Debug)]
pub struct Without {
    /// The one that is not there.
    pub topic: u32,
    /// The one that stands for both.
    pub heir: u32,
    /// The table's entry of a topic that has none of a word.
    pub entry: f32,
    /// What the pseudo-counts of all words come to.
    pub room: f32,
}

/// What document steps did, added up over documents.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Tally {
    /// Documents.
    pub documents: u64,
    /// Iterations.
    pub iterations: u64,
    /// Active topics at the end.
    pub active: u64,
    /// Restart proposals tried.
    pub proposed: u64,
    /// Restart proposals accepted.
    pub accepted: u64,
    /// Seconds of computing that went to looking at proposals, where K is to be found; in no file, whose bytes know no clock.
    #[serde(skip)]
    pub aside_seconds: f64,
}

impl Tally {
    /// Add another tally.
    pub fn add(&mut self, other: &Tally) {
        self.documents += other.documents;
        self.iterations += other.iterations;
        self.active += other.active;
        self.proposed += other.proposed;
        self.accepted += other.accepted;
        self.aside_seconds += other.aside_seconds;
    }
}

impl Document {
    /// Statistics of the steps so far.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Topics with mass in the document, and how much: N_dk.
    pub fn topic_counts(&self) -> impl Iterator<Item = (u32, f32)> + '_ {
        self.rows.iter().zip(&self.counts).map(|(&row, &count)| (self.topics[row as usize], count))
    }

    /// Work a document out: afterwards the counts are those of its responsibilities.
    ///
    /// `start` gives the counts to begin with (a warm start) instead of the words' own first responsibilities.
    pub fn solve(
        &mut self,
        table: &WordTable,
        alpha: &[f32],
        words: &[u32],
        counts: &[f32],
        options: &DocumentOptions,
        start: Option<&[(u32, f32)]>,
    ) {
        self.tally.documents += 1;
        let dense = options.sparsity >= table.num_topics;
        match start {
            Some(start) if !start.is_empty() => self.begin_with(start),
            _ if dense => self.begin_dense(table, words, counts),
            _ => self.begin_by_word(table, words, counts, options),
        }
        self.losses.clear();
        for k in self.without.iter().flat_map(|without| [without.topic, without.heir]) {
            if !self.topics.contains(&k) {
                self.topics.push(k);
                self.counts.push(0.0);
            }
        }
        self.alpha.clear();
        self.alpha.extend(self.topics.iter().map(|&k| alpha[k as usize]));
        self.scale.clear();
        self.scale.extend(self.topics.iter().map(|&k| table.scale[k as usize]));
        self.stride = words.len().next_multiple_of(BLOCK_LANES);
        self.word_counts.clear();
        self.word_counts.extend_from_slice(counts);
        self.word_counts.resize(self.stride, 0.0);
        self.norms.clear();
        self.norms.resize(self.stride, 0.0);
        gather_block(&table.values, table.width, words, &self.topics, self.stride, &mut self.block);
        self.rows.clear();
        self.rows.extend(0..self.topics.len() as u32);
        if let Some(without) = self.without {
            self.inherit(&without, words.len());
        }
        let select_inside = options.selection != Selection::End && options.sparsity < self.rows.len();
        if select_inside {
            self.iterate_selecting(words.len(), options);
        } else {
            self.iterate(options);
        }
        self.restart(options.restarts, options.active_floor);
        self.select(words.len(), options.sparsity);
        self.tally.active += self.rows.len() as u64;
    }

    /// The same as `solve`, from the words' first responsibilities, as if two topics were one.
    pub fn solve_without(
        &mut self,
        without: Without,
        (table, alpha): (&WordTable, &[f32]),
        (words, counts): (&[u32], &[f32]),
        options: &DocumentOptions,
    ) {
        self.without = Some(without);
        self.solve(table, alpha, words, counts, options, None);
        self.without = None;
    }

    /// Give an heir what the topic that is not there has: its words, its alpha and what the document begins with of it.
    fn inherit(&mut self, without: &Without, num_words: usize) {
        let place = |topic: u32| self.topics.iter().position(|&k| k == topic);
        let (Some(from), Some(to)) = (place(without.topic), place(without.heir)) else { return };
        for u in 0..num_words {
            let more = self.block[from * self.stride + u] - without.entry;
            self.block[to * self.stride + u] += more.max(0.0);
        }
        // A scale is one over the sum of a topic's pseudo-counts.
        let sum = 1.0 / self.scale[to] + 1.0 / self.scale[from] - without.room;
        self.scale[to] = 1.0 / sum;
        self.alpha[to] += self.alpha[from];
        self.counts[to] += self.counts[from];
        self.rows.remove(from);
        self.counts.remove(from);
    }

    /// Every topic, with the counts of the words' dense first responsibilities.
    fn begin_dense(&mut self, table: &WordTable, words: &[u32], counts: &[f32]) {
        self.work.clear();
        self.work.extend(words.iter().zip(counts).map(|(&v, &c)| {
            let sum: f32 = table.row(v as usize).iter().zip(&table.scale).map(|(w, s)| w * s).sum();
            if sum > 0.0 { c / sum } else { 0.0 }
        }));
        self.mass.clear();
        self.mass.resize(table.width, 0.0);
        add_table_rows(&table.values, table.width, words, &self.work, &mut self.mass);
        self.topics.clear();
        self.topics.extend(0..table.num_topics as u32);
        self.counts.clear();
        self.counts.extend(self.mass.iter().zip(&table.scale).map(|(m, s)| m * s));
        self.mass.fill(0.0);
    }

    /// The topics that the words' first responsibilities give more than the floor: cost L a word, not K.
    fn begin_by_word(&mut self, table: &WordTable, words: &[u32], counts: &[f32], options: &DocumentOptions) {
        if self.mass.len() < table.width {
            self.mass.resize(table.width, 0.0);
        }
        self.touched.clear();
        for (&v, &c) in words.iter().zip(counts) {
            let (topics, values) = table.start(v as usize);
            for (&k, &r) in topics.iter().zip(values) {
                let mass = &mut self.mass[k as usize];
                if *mass == 0.0 && r > 0.0 {
                    self.touched.push(k);
                }
                *mass += c * r;
            }
        }
        self.touched.sort_unstable();
        self.touched.dedup();
        self.topics.clear();
        self.counts.clear();
        let most = self.touched.iter().map(|&k| self.mass[k as usize]).fold(0.0, f32::max);
        // A document of few words may have nothing above the floor: then its largest topics are all it has.
        let mut floor = options.active_floor.min(0.5 * most);
        if let Some(most) = options.max_active.filter(|&most| self.touched.len() > most) {
            // Only the largest may stay: raise the floor to just below the smallest of them.
            self.work.clear();
            self.work.extend(self.touched.iter().map(|&k| self.mass[k as usize]));
            let (_, last, _) = self.work.select_nth_unstable_by(most, |a, b| b.total_cmp(a));
            floor = floor.max(*last);
        }
        for &k in &self.touched {
            let mass = std::mem::take(&mut self.mass[k as usize]);
            if mass > floor {
                self.topics.push(k);
                self.counts.push(mass);
            }
        }
        if self.topics.is_empty() && !words.is_empty() {
            // No word says anything: every topic is as good as any other.
            let tokens: f32 = counts.iter().sum();
            self.topics.extend(0..table.num_topics as u32);
            self.counts.resize(table.num_topics, tokens / table.num_topics as f32);
        }
    }

    /// Counts from an earlier visit.
    fn begin_with(&mut self, start: &[(u32, f32)]) {
        self.topics.clear();
        self.topics.extend(start.iter().map(|e| e.0));
        self.counts.clear();
        self.counts.extend(start.iter().map(|e| e.1));
    }

    /// prior_a = exp(psi(N_a + alpha_a)) scale_a.
    pub(in crate::topics) fn update_prior(&mut self) {
        self.prior.clear();
        self.prior.extend(self.counts.iter().zip(&self.rows).map(|(n, &row)| n + self.alpha[row as usize]));
        digamma_slice(&mut self.prior);
        exp_slice(&mut self.prior);
        self.prior.iter_mut().zip(&self.rows).for_each(|(p, &row)| *p *= self.scale[row as usize]);
    }

    /// One iteration over the active topics: new counts from the old ones, every active topic sharing every token.
    pub(in crate::topics) fn update_counts(&mut self) {
        self.update_prior();
        self.next.resize(self.rows.len(), 0.0);
        block_step(
            &self.block,
            self.stride,
            &self.rows,
            &self.prior,
            &self.word_counts,
            &mut self.norms,
            &mut self.work,
            &mut self.next,
        );
    }

    /// Iterate until the counts rest; topics at the floor leave.
    fn iterate(&mut self, options: &DocumentOptions) {
        for iteration in 1..=options.iterations.max(1) {
            self.update_counts();
            let last = iteration >= options.iterations;
            let mut rest = last;
            if !last && iteration % CHECK_EVERY == 0 {
                let change = |(a, b): (&f32, &f32)| (a - b).abs();
                rest = self.next.iter().zip(&self.counts).map(change).fold(0.0, f32::max) < options.tolerance;
            }
            std::mem::swap(&mut self.counts, &mut self.next);
            self.tally.iterations += 1;
            if rest {
                return;
            }
            self.shrink(options.active_floor);
        }
    }

    /// Drop topics at the floor from the active set. The block stays as it is: its rows are listed, not moved.
    pub(in crate::topics) fn shrink(&mut self, floor: f32) {
        if floor <= 0.0 || self.counts.iter().all(|&n| n > floor) {
            return;
        }
        let most = self.counts.iter().cloned().fold(0.0, f32::max);
        let floor = floor.min(0.5 * most);
        let mut kept = 0;
        for i in 0..self.rows.len() {
            if self.counts[i] > floor {
                self.rows[kept] = self.rows[i];
                self.counts[kept] = self.counts[i];
                kept += 1;
            }
        }
        self.rows.truncate(kept);
        self.counts.truncate(kept);
    }

    /// Alg. 2 as printed: each token has its own L topics, chosen on a schedule and reweighted in between.
    fn iterate_selecting(&mut self, num_words: usize, options: &DocumentOptions) {
        for iteration in 0..options.iterations.max(1) {
            self.update_prior();
            if options.selection.due(iteration) {
                self.choose(num_words, options.sparsity);
            } else {
                self.reweight(num_words);
            }
            self.count_chosen(num_words);
            self.tally.iterations += 1;
            let change = self.next.iter().zip(&self.counts).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            std::mem::swap(&mut self.counts, &mut self.next);
            if (iteration + 1) % CHECK_EVERY == 0 && change < options.tolerance {
                return;
            }
            // Positions in `rows` move when topics leave, so they leave only where tokens choose anew.
            if options.selection.due(iteration + 1) {
                self.shrink(options.active_floor);
            }
        }
    }

    /// The responsibilities that leave the document: top L of the active topics for every token, under the prior that
    /// made the counts; the counts become those of the responsibilities.
    fn select(&mut self, num_words: usize, sparsity: usize) {
        if self.prior.len() != self.rows.len() {
            self.update_prior();
        }
        self.choose(num_words, sparsity);
        self.count_chosen(num_words);
        std::mem::swap(&mut self.counts, &mut self.next);
    }

    /// Choose the `sparsity` largest active topics of every token and normalise.
    fn choose(&mut self, num_words: usize, sparsity: usize) {
        let num_active = self.rows.len();
        let width = sparsity.min(num_active);
        self.chosen_width = width;
        self.chosen.resize(num_words * width, 0);
        self.share.resize(num_words * width, 0.0);
        if width == num_active {
            // Everyone shares: no choice to make.
            for u in 0..num_words {
                let (chosen, share) = self.token(u);
                for i in 0..num_active {
                    chosen[i] = i as u32;
                    share[i] = 0.0;
                }
            }
            for (i, (&row, &p)) in self.rows.iter().zip(&self.prior).enumerate() {
                let weights = &self.block[row as usize * self.stride..][..num_words];
                for (u, &w) in weights.iter().enumerate() {
                    self.share[u * width + i] = p * w;
                }
            }
        } else {
            self.work.resize(num_active, 0.0);
            for u in 0..num_words {
                for (i, (&row, &p)) in self.rows.iter().zip(&self.prior).enumerate() {
                    self.work[i] = p * self.block[row as usize * self.stride + u];
                }
                let of_u = u * width..(u + 1) * width;
                // Weights are products of finite non-negative numbers: never NaN.
                let _ = top_l(&self.work, width, &mut self.chosen[of_u.clone()], &mut self.share[of_u]);
            }
        }
        self.normalise(num_words);
    }

    fn token(&mut self, u: usize) -> (&mut [u32], &mut [f32]) {
        let of_u = u * self.chosen_width..(u + 1) * self.chosen_width;
        (&mut self.chosen[of_u.clone()], &mut self.share[of_u])
    }

    /// New responsibilities of the topics that each token has already chosen.
    fn reweight(&mut self, num_words: usize) {
        for u in 0..num_words {
            for at in u * self.chosen_width..(u + 1) * self.chosen_width {
                let i = self.chosen[at] as usize;
                self.share[at] = self.prior[i] * self.block[self.rows[i] as usize * self.stride + u];
            }
        }
        self.normalise(num_words);
    }

    fn normalise(&mut self, num_words: usize) {
        let width = self.chosen_width;
        self.chosen_sum.clear();
        for share in self.share[..num_words * width].chunks_exact_mut(width.max(1)) {
            let sum: f32 = share.iter().sum();
            self.chosen_sum.push(sum.max(f32::MIN_POSITIVE));
            if sum > 0.0 {
                share.iter_mut().for_each(|r| *r /= sum);
            } else {
                // A word no active topic knows is anybody's.
                share.fill(1.0 / width as f32);
            }
        }
    }

    /// N_dk = sum_u c_u r_uk into `next`.
    fn count_chosen(&mut self, num_words: usize) {
        self.next.clear();
        self.next.resize(self.rows.len(), 0.0);
        let width = self.chosen_width;
        for u in 0..num_words {
            let c = self.word_counts[u];
            for at in u * width..(u + 1) * width {
                self.next[self.chosen[at] as usize] += c * self.share[at];
            }
        }
    }

    /// Topics and responsibilities of token u.
    pub fn responsibilities(&self, u: usize) -> impl Iterator<Item = (u32, f32)> + '_ {
        let of_u = u * self.chosen_width..(u + 1) * self.chosen_width;
        let topic = |&i: &u32| self.topics[self.rows[i as usize] as usize];
        self.chosen[of_u.clone()].iter().map(topic).zip(self.share[of_u].iter().copied())
    }

    /// -sum_u c_u sum_k r_uk log r_uk.
    pub fn entropy(&mut self, num_words: usize) -> f64 {
        let width = self.chosen_width;
        self.work.clear();
        self.work.extend(self.share[..num_words * width].iter().map(|&r| r.max(f32::MIN_POSITIVE)));
        ln_slice(&mut self.work);
        let mut total = 0.0;
        for u in 0..num_words {
            let of_u = u * width..(u + 1) * width;
            let inner: f32 = self.share[of_u.clone()].iter().zip(&self.work[of_u]).map(|(r, l)| r * l).sum();
            total -= f64::from(self.word_counts[u]) * f64::from(inner);
        }
        total
    }

    /// sum over active topics of ln G(N + alpha) - ln G(alpha): the part of the allocation term that is the document's.
    pub fn allocation(&mut self) -> f64 {
        let alpha = |&row: &u32| self.alpha[row as usize];
        self.work.clear();
        self.work.extend(self.counts.iter().zip(&self.rows).map(|(n, row)| n + alpha(row)));
        self.work.extend(self.rows.iter().map(alpha));
        ln_gamma_slice(&mut self.work);
        let (with, without) = self.work.split_at(self.counts.len());
        with.iter().zip(without).map(|(a, b)| f64::from(a - b)).sum()
    }

    /// The bound on the document's log likelihood under the topics it was solved with: sum_u c_u sum_k r_uk (C_uk - log
    /// r_uk) and the allocation term. With r_uk = prior_k w_uk / Z_u and prior_k = exp(psi_k) scale_k the sum is
    /// sum_u c_u log Z_u - sum_k N_k psi_k.
    ///
    /// `allocation` is the document's allocation term.
    pub fn evidence(&mut self, allocation: f64) -> f64 {
        self.work.clear();
        self.work.extend(self.prior.iter().zip(&self.rows).map(|(p, &row)| p / self.scale[row as usize]));
        ln_slice(&mut self.work);
        let there = self.counts.iter().zip(&self.work).filter(|(n, _)| **n > 0.0);
        let drift: f64 = there.map(|(&n, &psi)| f64::from(n) * f64::from(psi)).sum();
        allocation - drift + weighted_log_sum(&self.word_counts[..self.chosen_sum.len()], &self.chosen_sum)
    }

    /// The bound of the document at the point that `prior` describes, up to what no choice of topics changes:
    /// sum_k ln G(N_k + a_k) - ln G(a_k) - N_k psi(N_k + a_k) + sum_u c_u log norms_u, where `counts` made `prior` and
    /// `prior` made `norms`.
    pub(in crate::topics) fn bound(&mut self) -> f64 {
        let allocation = self.allocation();
        self.work.clear();
        self.work.extend(self.prior.iter().zip(&self.rows).map(|(p, &row)| p / self.scale[row as usize]));
        ln_slice(&mut self.work);
        // A topic with nothing in a dense document has a prior below all numbers: it has no share in the sum.
        let there = self.counts.iter().zip(&self.work).filter(|(_, p)| p.is_finite());
        let drift: f64 = there.map(|(&n, &p)| f64::from(n) * f64::from(p)).sum();
        allocation - drift + weighted_log_sum(&self.word_counts, &self.norms)
    }
}
