//! A trained mixture goes on learning from rows that it has not seen.

use super::saved::{check_rows, working_element};
use super::{MixtureData, MixtureModel};
use crate::config::MixtureConfig;
use crate::data::{Batches, Element, RowSource, Scalar};
use crate::error::{Error, Result};
use crate::increment::{Increment, advance, record_after};

impl MixtureModel {
    /// The model after one step on rows that it has not seen, all of them as one batch.
    ///
    /// ```
    /// use lsparse::{MixtureConfig, data::MemoryRows, fit_mixture, increment::Increment};
    ///
    /// let rows = |shift: f64| -> Vec<f64> {
    ///     (0..200).map(|n| if n % 2 == 0 { 5.0 } else { -5.0 } + shift + (n % 7) as f64 * 0.1).collect()
    /// };
    /// let first = MemoryRows::new("first", 1, rows(0.0))?;
    /// let more = MemoryRows::new("more", 1, rows(0.2))?;
    /// let model = fit_mixture(&first, &MixtureConfig { clusters: 2, ..Default::default() })?.model;
    /// let model = model.update(&more, None, Increment::Add)?;
    /// assert_eq!(model.training.observations, 400);
    /// # Ok::<(), lsparse::Error>(())
    /// ```
    pub fn update(&self, source: &dyn RowSource, row_weights: Option<&[f64]>, how: Increment) -> Result<MixtureModel> {
        match working_element(self.config.precision, source) {
            Element::F32 => self.update_as::<f32>(source, row_weights, how),
            Element::F64 => self.update_as::<f64>(source, row_weights, how),
        }
    }

    fn update_as<T: Scalar>(
        &self,
        source: &dyn RowSource,
        row_weights: Option<&[f64]>,
        how: Increment,
    ) -> Result<MixtureModel> {
        if self.config.method.has_centres_alone() {
            let problem = "centres alone have no step on new rows".into();
            return Err(Error::Config { option: "method", problem, remedy: "train again with all rows".into() });
        }
        let mixture = self.mixture::<T>();
        check_rows(&mixture, self.config.missing, source)?;
        super::train::check_row_weights(source, row_weights)?;
        let data = MixtureData { source, batches: Batches::in_order(source.num_rows(), 1)?, row_weights };
        let weights = (self.total.total_weight(), data.total_weight());
        let (params, total, objective) =
            advance(&mixture, &data, &self.params::<T>()?, self.total.clone(), how, weights)?;
        Ok(MixtureModel {
            config: MixtureConfig { schedule: how.schedule(), ..self.config.clone() },
            training: record_after(&self.training, source.num_rows(), &objective),
            weights: params.frequencies.pi,
            arrays: params.clusters.arrays(),
            total,
            ..self.clone()
        })
    }
}
