//! What is done for a training by processes that have one piece of the rows and no other: look at it beforehand, and work
//! batches out. Everything is a pure function of rows and bytes, so that what is lost with a process is done again.

use serde::{Deserialize, Serialize};

use crate::clusters::scan_part_for;
use crate::data::{
    ColumnUnits, Element, Measuring, Moments, PartialMoments, Piece, RowSource, Scalar, Standardized, Thresholded,
};
use crate::error::{Error, Result};
use crate::likelihood::Prior;
use crate::mixture::{MixtureInputs, Mixtures, SettledMixture};
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

/// A ticket that somebody works out who has a piece of the rows.
#[derive(Clone, Copy)]
pub struct Job<'a> {
    /// The piece, which is the ticket's batch.
    pub number: usize,
    /// What the training is known by, a packed [`Known`].
    pub known: &'a [u8],
    /// The run.
    pub run: usize,
    /// Parameters.
    pub params: &'a [u8],
    /// The ticket.
    pub ticket: &'a [u8],
    /// One weight a row of the piece, or none at all.
    pub weights: Option<&'a [f64]>,
}

/// Work a ticket out. Gives what [`fold`](crate::training::exchange::fold) takes.
pub fn work_piece(rows: &dyn RowSource, job: &Job<'_>) -> Result<Vec<u8>> {
    let Job { number, known, weights, .. } = *job;
    let Known { family, settings, double, ends } = unpack(known, "what a training is known by")?;
    let foreign = |_| Error::Exchange { what: "settings of this version" };
    if family == "topics" {
        let config: TopicsConfig = serde_json::from_str(&settings).map_err(foreign)?;
        let piece = Piece::new(rows, number, ends)?;
        return work(&TopicFamily::of(&piece, &config, TopicInputs::default())?, &piece, job);
    }
    let (settled, units): (SettledMixture, Option<ColumnUnits>) = serde_json::from_str(&settings).map_err(foreign)?;
    let units = units.as_ref();
    if weights.is_some_and(|weights| weights.len() != rows.num_rows()) {
        return Err(Error::Exchange { what: "weights of this piece" });
    }
    with_working_rows(rows, settled.config.binarize, units, |rows| {
        let piece = Piece::new(rows, number, ends)?;
        let inputs = MixtureInputs { units, ..Default::default() };
        match double {
            false => work(&Mixtures::<f32>::of(&piece, settled, inputs)?, &piece, job),
            true => work(&Mixtures::<f64>::of(&piece, settled, inputs)?, &piece, job),
        }
    })
}

fn work<'a, F: Family<'a>>(family: &F, piece: &Piece<'_>, job: &Job<'a>) -> Result<Vec<u8>> {
    let dealt = family.deal(job.run)?.weighted_from(piece.first(), job.weights);
    Remote::new(family.model(job.run), dealt).summarize(job.params, job.ticket)
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
