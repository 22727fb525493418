//! A trained topic model goes on learning from documents that it has not seen.

use super::TopicsConfig;
use super::train::check_counts;
use super::{TopicData, TopicModel};
use crate::data::{Batches, RowSource};
use crate::error::Result;
use crate::increment::{Increment, advance, record_after};
use crate::model::Model;

impl TopicModel {
    /// The model after one step on documents that it has not seen, all of them as one batch.
    pub fn update(&self, source: &dyn RowSource, how: Increment) -> Result<TopicModel> {
        self.check_vocab(source)?;
        check_counts(source, false)?;
        let topics = self.topics();
        let data = TopicData::new(source, Batches::in_order(source.num_rows(), 1)?);
        let mut params = Model::<TopicData<'_>>::global_step(&topics, &self.total, None)?;
        params.alpha.clone_from(&self.alpha);
        let weights = (self.total.documents, source.num_rows() as f64);
        let (params, total, objective) = advance(&topics, &data, &params, self.total.clone(), how, weights)?;
        Ok(TopicModel {
            config: TopicsConfig { schedule: how.schedule(), ..self.config.clone() },
            training: record_after(&self.training, source.num_rows(), &objective),
            vocab: self.vocab.clone(),
            tokenizer: self.tokenizer.clone(),
            alpha: params.alpha,
            table: topics.point_topics(&total),
            total,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ScheduleKind;
    use crate::data::CsrRows;
    use crate::topics::fit_topics;

    fn documents(count: usize) -> CsrRows<f32> {
        let words: Vec<u32> = (0..count).flat_map(|d| if d % 2 == 0 { [0, 1] } else { [2, 3] }).collect();
        let indptr = (0..=count).map(|d| 2 * d).collect();
        CsrRows::new("two subjects", 4, indptr, words, vec![5.0; 2 * count]).unwrap()
    }

    #[test]
    fn documents_are_added_or_blended_in() {
        let config = TopicsConfig { topics: 2, ..Default::default() };
        let model = fit_topics(&documents(40), &config).unwrap().model;
        let added = model.update(&documents(10), Increment::Add).unwrap();
        assert_eq!((added.training.observations, added.total.documents), (50, 50.0));
        assert!((added.total.counts.iter().sum::<f64>() - 500.0).abs() < 1e-3);
        assert_eq!(added.config.schedule, ScheduleKind::Streaming);
        let blend = Increment::Blend { rate: 0.5, population: 1000.0 };
        let blended = added.update(&documents(10), blend).unwrap();
        assert!((blended.total.documents - 1000.0).abs() < 1e-9);
        assert!((blended.total.counts.iter().sum::<f64>() - 10_000.0).abs() < 0.1);
    }
}
