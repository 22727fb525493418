//! Documents drawn from a trained topic model.

use std::sync::atomic::{AtomicBool, Ordering};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::error::{Error, Result};
use crate::math::random::{categorical, gamma};
use crate::system::check_result;
use crate::topics::TopicModel;

/// Words drawn before somebody who wants to stop is heard.
const STRETCH: usize = 1 << 16;

/// Bytes of a word with its count, here and as those who ask for it have it.
const BYTES_A_WORD: u64 = 24;

impl TopicModel {
    /// Draw documents of `words` words each (as many as the training documents had on average if that is not given):
    /// the words of each document with their counts, ascending.
    pub fn sample(&self, documents: usize, words: Option<usize>, seed: u64) -> Result<Vec<Vec<(u32, u32)>>> {
        self.sample_until(documents, words, seed, &AtomicBool::new(false))
    }

    /// As [`sample`](Self::sample), until the flag is set from outside.
    pub fn sample_until(
        &self,
        documents: usize,
        words: Option<usize>,
        seed: u64,
        interrupt: &AtomicBool,
    ) -> Result<Vec<Vec<(u32, u32)>>> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let words = words.unwrap_or_else(|| {
            let tokens: f64 = self.total.counts.iter().sum();
            (tokens / self.total.documents.max(f64::MIN_POSITIVE)).round().max(1.0) as usize
        });
        let different = words.min(self.vocab_size()) as u64;
        let bytes = different.saturating_mul(BYTES_A_WORD).saturating_add(size_of::<Vec<(u32, u32)>>() as u64);
        check_result("drawing", documents, "documents", bytes)?;
        check_result("drawing a document of", words, "words", size_of::<u32>() as u64)?;
        let heard = || match interrupt.load(Ordering::Relaxed) {
            true => Err(Error::Interrupted { during: "drawing documents" }),
            false => Ok(()),
        };
        let cumulative: Vec<Vec<f64>> = (0..self.num_topics()).map(|k| running_sum(self.topic(k))).collect();
        (0..documents).map(|_| self.draw_document(words, &cumulative, &heard, &mut rng)).collect()
    }

    fn draw_document(
        &self,
        words: usize,
        cumulative: &[Vec<f64>],
        heard: &dyn Fn() -> Result<()>,
        rng: &mut ChaCha8Rng,
    ) -> Result<Vec<(u32, u32)>> {
        heard()?;
        // pi_d ~ Dirichlet(alpha); a tiny alpha may round all of it to zero, hence the floor.
        let mut pi: Vec<f64> = self.alpha.iter().map(|&a| gamma(f64::from(a), rng).max(1e-300)).collect();
        let sum: f64 = pi.iter().sum();
        pi.iter_mut().for_each(|p| *p /= sum);
        let draw = |rng: &mut ChaCha8Rng| {
            let topic = &cumulative[categorical(&pi, rng)];
            let at = rng.random::<f64>() * topic.last().copied().unwrap_or(1.0);
            topic.partition_point(|&c| c <= at).min(topic.len() - 1) as u32
        };
        let mut drawn: Vec<u32> = Vec::new();
        while drawn.len() < words {
            heard()?;
            let stretch = STRETCH.min(words - drawn.len());
            drawn.extend((0..stretch).map(|_| draw(rng)));
        }
        drawn.sort_unstable();
        Ok(drawn.chunk_by(|a, b| a == b).map(|same| (same[0], same.len() as u32)).collect())
    }
}

fn running_sum(mut values: Vec<f64>) -> Vec<f64> {
    let mut sum = 0.0;
    for value in &mut values {
        sum += *value;
        *value = sum;
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::CsrRows;
    use crate::settings::TopicsConfig;
    use crate::topics::fit_topics;

    #[test]
    fn documents_keep_to_their_subject() {
        let words: Vec<u32> = (0..40).flat_map(|d| if d % 2 == 0 { [0, 1] } else { [2, 3] }).collect();
        let indptr = (0..=40).map(|d| 2 * d).collect();
        let corpus = CsrRows::new("two subjects", 4, indptr, words, vec![5.0f32; 80]).unwrap();
        let config = TopicsConfig { topics: 2, alpha: 0.02, ..Default::default() };
        let model = fit_topics(&corpus, &config).unwrap().model;
        let drawn = model.sample(200, None, 3).unwrap();
        assert_eq!(drawn, model.sample(200, None, 3).unwrap());
        assert!(drawn.iter().all(|document| document.iter().map(|w| w.1).sum::<u32>() == 10));
        let pure = drawn.iter().filter(|document| document.iter().all(|w| w.0 / 2 == document[0].0 / 2)).count();
        assert!(pure > 150, "{pure} of 200 documents are about one subject");
        let short = model.sample(5, Some(3), 0).unwrap();
        assert!(short.iter().all(|document| document.iter().map(|w| w.1).sum::<u32>() == 3));
        // What memory has no room for is not begun, and drawing can be ended.
        for (documents, words) in [(usize::MAX, None), (1_000_000_000_000_000, Some(1)), (1, Some(usize::MAX))] {
            let error = model.sample(documents, words, 0).unwrap_err();
            assert!(matches!(error, Error::TooLarge { .. }) && error.to_string().contains("take fewer"), "{error}");
        }
        let ended = model.sample_until(5, None, 0, &AtomicBool::new(true)).unwrap_err();
        assert!(matches!(ended, Error::Interrupted { .. }), "{ended}");
    }
}
