//! What a document has of a topic that may be split, shared out over the two halves: a document of two topics.

use lsparse_kernels::{digamma_slice, exp_slice, ln_gamma, ln_slice};

/// Passes over the tokens at most, and the change of a count that is the last.
const PASSES: usize = 12;
const REST: f64 = 0.01;

/// A share of a token below this is none.
const LEAST: f32 = 1e-3;

/// What the document may gain by having both halves, at most, that is not worth the work.
const WORTH_A_LOOK: f64 = 0.5;

/// sum_i mass_i f(of_i), several sums side by side, so that none waits for the one before.
fn sum_of_products(mass: &[f32], of: &[f32], f: impl Fn(f32) -> f32) -> f64 {
    const LANES: usize = 8;
    let (mut lanes, mut rest) = ([0.0f64; LANES], 0.0f64);
    let (masses, ofs) = (mass.chunks_exact(LANES), of.chunks_exact(LANES));
    for (m, of) in masses.remainder().iter().zip(ofs.remainder()) {
        rest += f64::from(m * f(*of));
    }
    for (m, of) in masses.zip(ofs) {
        for i in 0..LANES {
            lanes[i] += f64::from(m[i] * f(of[i]));
        }
    }
    lanes.iter().sum::<f64>() + rest
}

/// The tokens of one topic in one document, and how the halves share them.
#[derive(Default)]
pub struct Halved {
    /// Its place among those that may be split.
    pub slot: u32,
    mass: Vec<f32>,
    /// log of the ratio of the halves' frequencies.
    ratio: Vec<f32>,
    /// What the first half has of each token, as a share.
    first: Vec<f32>,
    /// How much each half has.
    pub counts: [f64; 2],
    /// What sharing adds to the entropy of responsibilities.
    pub entropy: f64,
    /// The second half's frequency of each token's word, in those of the first.
    odds: Vec<f32>,
    logs: Vec<f32>,
}

impl Halved {
    /// Nothing yet, of the topic in this place.
    pub fn begin(&mut self, slot: u32) {
        self.slot = slot;
        self.mass.clear();
        self.ratio.clear();
    }

    /// All of these tokens in one half.
    pub fn of_one(mass: impl Iterator<Item = f32>, half: usize) -> Self {
        let mass: Vec<f32> = mass.collect();
        Halved { first: vec![[1.0, 0.0][half]; mass.len()], mass, ..Halved::default() }
    }

    /// So much of a word.
    pub fn push(&mut self, mass: f32, ratio: f32) {
        self.mass.push(mass);
        self.ratio.push(ratio);
    }

    /// Share `count` tokens out, under the alphas of the halves: all to one, or each as it suits its word and the others,
    /// whichever is the better bound.
    pub fn share_out(&mut self, alphas: [f64; 2], count: f64) {
        let term = |n: f64, alpha: f64| ln_gamma(n + alpha) - ln_gamma(alpha);
        let sum = sum_of_products(&self.mass, &self.ratio, |ratio| ratio);
        let best = sum_of_products(&self.mass, &self.ratio, |ratio| ratio.max(0.0));
        let alone = [sum + term(count, alphas[0]), term(count, alphas[1])];
        let alone_best = alone[0].max(alone[1]);
        // However tokens are shared out: each has the better half at most, and all ways together have the topic's alpha.
        let most = best + term(count, alphas[0] + alphas[1]);
        if most > alone_best + WORTH_A_LOOK && self.share(alphas) > alone_best {
            return;
        }
        let taken = usize::from(alone[1] > alone[0]);
        self.first.clear();
        self.first.resize(self.mass.len(), [1.0, 0.0][taken]);
        self.counts = [0.0; 2];
        self.counts[taken] = count;
        self.entropy = 0.0;
    }

    /// Share the tokens out over both, and give the bound.
    fn share(&mut self, alphas: [f64; 2]) -> f64 {
        let Halved { mass, ratio, first, odds, logs, .. } = self;
        odds.clear();
        odds.extend(ratio.iter().map(|ratio| -ratio));
        exp_slice(odds);
        let mut counts = [0.0; 2];
        // exp(E[log share]) of the second, in that of the first.
        let mut prior = (alphas[1] / alphas[0]) as f32;
        let all = sum_of_products(mass, mass, |_| 1.0);
        first.resize(mass.len(), 0.0);
        for _ in 0..PASSES {
            for (first, odds) in first.iter_mut().zip(odds.iter()) {
                let share = 1.0 / (1.0 + prior * odds);
                let share = if share < LEAST { 0.0 } else { share };
                *first = if share > 1.0 - LEAST { 1.0 } else { share };
            }
            let of_first = sum_of_products(mass, first, |share| share);
            let next = [of_first, (all - of_first).max(0.0)];
            let rests = (next[0] - counts[0]).abs() < REST;
            counts = next;
            if rests {
                break;
            }
            let mut psi = [(counts[1] + alphas[1]) as f32, (counts[0] + alphas[0]) as f32];
            digamma_slice(&mut psi);
            let mut grow = [psi[0] - psi[1]];
            exp_slice(&mut grow);
            prior = grow[0];
        }
        logs.clear();
        logs.extend(
            first.iter().flat_map(|share| [share.max(f32::MIN_POSITIVE), (1.0 - share).max(f32::MIN_POSITIVE)]),
        );
        ln_slice(logs);
        let (mut entropy, mut data) = (0.0f64, 0.0f64);
        for ((&m, &share), (&ratio, logs)) in mass.iter().zip(&*first).zip(ratio.iter().zip(logs.chunks_exact(2))) {
            entropy -= f64::from(m * (share * logs[0] + (1.0 - share) * logs[1]));
            data += f64::from(m * share * ratio);
        }
        (self.counts, self.entropy) = (counts, entropy);
        let terms = counts.iter().zip(alphas).map(|(&n, alpha)| ln_gamma(n + alpha) - ln_gamma(alpha));
        data + entropy + terms.sum::<f64>()
    }

    /// What each half has of the token in this place, and how much that is.
    pub fn of_token(&self, at: usize) -> [f32; 2] {
        let (m, share) = (self.mass[at], self.first[at]);
        [m * share, m * (1.0 - share)]
    }
}
