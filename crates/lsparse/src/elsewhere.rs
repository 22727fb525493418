//! What is done for a training by processes that have one piece of the rows and no other: look at it beforehand, and work
//! batches out. Everything is a pure function of rows and bytes, so that what is lost with a process is done again.

use serde::{Deserialize, Serialize};

use crate::data::{
    ColumnUnits, Element, Measuring, Moments, PartialMoments, Piece, RowSource, Scalar, Standardized, Thresholded,
};
use crate::error::{Error, Result};
use crate::likelihood::Prior;
use crate::mixture::{MixtureInputs, Mixtures, SettledMixture, scan_part_for};
use crate::runs::Family;
use crate::settings::{MixtureConfig, TopicMethod, TopicsConfig};
use crate::topics::{TopicFamily, TopicInputs, scan_counts};
use crate::training::exchange::{Known, Remote, unpack};

/// Settings of either family, before anything is known of the rows.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Asked {
    /// Of a mixture.
    Mixture(Box<MixtureConfig>),
    /// Of topics.
    Topics(Box<TopicsConfig>),
}

/// Check every value of a piece, and measure its columns. In errors rows are counted from `first`.
pub fn measure_piece(rows: &dyn RowSource, first: usize, asked: &Asked, how: &Measuring) -> Result<PartialMoments> {
    let measured = with_working_rows(rows, how.threshold, how.units.as_ref(), |rows| match (asked, how.target) {
        (Asked::Topics(config), _) => scan_counts(rows, config.method != TopicMethod::Lsparse),
        (Asked::Mixture(config), Element::F32) => measure::<f32>(rows, config, how.missing),
        (Asked::Mixture(config), Element::F64) => measure::<f64>(rows, config, how.missing),
    });
    measured.map_err(|mut error| {
        if let Error::NotFinite { row, .. } | Error::BadValue { row, .. } = &mut error {
            *row += first;
        }
        error
    })
}

fn measure<T: Scalar>(rows: &dyn RowSource, config: &MixtureConfig, missing: bool) -> Result<PartialMoments> {
    // Which values are allowed depends on the family alone, not on the numbers of its prior.
    let family = config.likelihood.build::<T>(&Prior::for_data(config, &Moments::unknown(rows.dim())));
    scan_part_for(family.as_ref(), rows, missing)
}

/// Work a ticket out whose batch is the piece of this number; `known` is a packed [`Known`]. Gives what
/// [`fold`](crate::training::exchange::fold) takes.
pub fn work_piece(
    rows: &dyn RowSource,
    number: usize,
    known: &[u8],
    run: usize,
    params: &[u8],
    ticket: &[u8],
) -> Result<Vec<u8>> {
    let Known { family, settings, double, ends } = unpack(known, "what a training is known by")?;
    let foreign = |_| Error::Exchange { what: "settings of this version" };
    if family == "topics" {
        let config: TopicsConfig = serde_json::from_str(&settings).map_err(foreign)?;
        let piece = Piece::new(rows, number, ends)?;
        return work(&TopicFamily::of(&piece, &config, TopicInputs::default())?, run, params, ticket);
    }
    let (settled, units): (SettledMixture, Option<ColumnUnits>) = serde_json::from_str(&settings).map_err(foreign)?;
    let units = units.as_ref();
    with_working_rows(rows, settled.config.binarize, units, |rows| {
        let piece = Piece::new(rows, number, ends)?;
        let inputs = MixtureInputs { units, ..Default::default() };
        match double {
            false => work(&Mixtures::<f32>::of(&piece, settled, inputs)?, run, params, ticket),
            true => work(&Mixtures::<f64>::of(&piece, settled, inputs)?, run, params, ticket),
        }
    })
}

fn work<'a, F: Family<'a>>(family: &F, run: usize, params: &[u8], ticket: &[u8]) -> Result<Vec<u8>> {
    Remote::new(family.model(run), family.deal(run)?).summarize(params, ticket)
}

/// Run `work` on rows as training takes them: as they are, as zeros and ones, or in the units of their columns.
fn with_working_rows<R>(
    rows: &dyn RowSource,
    threshold: Option<f64>,
    units: Option<&ColumnUnits>,
    work: impl FnOnce(&dyn RowSource) -> Result<R>,
) -> Result<R> {
    match (threshold, units) {
        (Some(threshold), _) => work(&Thresholded::new(rows, threshold)),
        (None, Some(units)) => work(&Standardized::new(rows, units)),
        (None, None) => work(rows),
    }
}
