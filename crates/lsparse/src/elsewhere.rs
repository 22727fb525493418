//! What is done for a training by processes that fold nothing in, and may have one piece of the rows and no other: look at it
//! beforehand, and work batches out. Everything is a pure function of rows and bytes, so that what is lost with a process is
//! done again.

use serde::{Deserialize, Serialize};

use crate::clusters::scan_part_for;
use crate::data::{
    ColumnUnits, Element, Groups, Measuring, Moments, PartialMoments, Piece, RowSource, Scalar, Standardized,
    Thresholded,
};
use crate::error::{Error, Result};
use crate::likelihood::Prior;
use crate::mixture::{MixtureInputs, Mixtures, SettledMixture};
use crate::runs::Family;
use crate::sequence::{Lacking, MayLack, SequenceFamily, SettledSequence, Steps, lacking_rows, measure_steps};
use crate::settings::{MixtureConfig, SequenceConfig, TopicMethod, TopicsConfig};
use crate::store::prints::RowPrints;
use crate::topics::{TopicFamily, TopicInputs, scan_counts};
use crate::training::exchange::{Engine, Known, Remote, Round, unpack};

/// Settings of any family, before anything is known of the rows.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Asked {
    /// Of a mixture.
    Mixture(Box<MixtureConfig>),
    /// Of topics.
    Topics(Box<TopicsConfig>),
    /// Of a hidden Markov model.
    Sequence(Box<SequenceConfig>),
}

/// Check every value of a piece, and measure its columns. In errors rows are counted from `first`.
pub fn measure_piece(rows: &dyn RowSource, first: usize, asked: &Asked, how: &Measuring) -> Result<PartialMoments> {
    let measured = with_working_rows(rows, how.threshold, how.units.as_ref(), |rows| match (asked, how.target) {
        (Asked::Topics(config), _) => scan_counts(rows, config.method != TopicMethod::Lsparse),
        (Asked::Mixture(config), Element::F32) => measure::<f32>(rows, config, how.missing),
        (Asked::Mixture(config), Element::F64) => measure::<f64>(rows, config, how.missing),
        (Asked::Sequence(config), Element::F32) => measure_steps::<f32>(rows, config),
        (Asked::Sequence(config), Element::F64) => measure_steps::<f64>(rows, config),
    });
    measured.map_err(|error| counted_from(first, error))
}

/// An error with rows counted from the first of a piece.
fn counted_from(first: usize, mut error: Error) -> Error {
    if let Error::NotFinite { row, .. } | Error::BadValue { row, .. } = &mut error {
        *row += first;
    }
    error
}

/// Which rows of a piece are nothing but missing values; those that lack some are an error unless `some_may_lack`.
pub fn lacking_piece(rows: &dyn RowSource, first: usize, some_may_lack: bool) -> Result<Vec<bool>> {
    let may = MayLack { values: some_may_lack, counts: false };
    lacking_rows(rows, may).map_err(|error| counted_from(first, error))
}

fn measure<T: Scalar>(rows: &dyn RowSource, config: &MixtureConfig, missing: bool) -> Result<PartialMoments> {
    // Which values are allowed depends on the family alone, not on the numbers of its prior.
    let family = config.likelihood.build::<T>(&Prior::for_data(config, &Moments::unknown(rows.dim())));
    scan_part_for(family.as_ref(), rows, missing)
}

/// A ticket that somebody works out who has rows and no session.
#[derive(Clone, Copy)]
pub struct Job<'a> {
    /// The ticket's batch, which is the piece where rows lie in pieces.
    pub number: usize,
    /// What the training is known by, a packed [`Known`].
    pub known: &'a [u8],
    /// The run.
    pub run: usize,
    /// Parameters.
    pub params: &'a [u8],
    /// The ticket.
    pub ticket: &'a [u8],
    /// One weight a row that is here, or none at all.
    pub weights: Option<&'a [f64]>,
    /// The sequences that the rows are which are here; one where it is not said.
    pub groups: Option<&'a Groups>,
    /// What the rows are known by, where that is to be checked; then all of them are here.
    pub prints: Option<&'a RowPrints>,
}

/// Work a ticket out on the rows of its piece, or on all rows where they do not lie in pieces. Gives what
/// [`fold`](crate::training::exchange::fold) takes.
pub fn work_batch(rows: &dyn RowSource, job: &Job<'_>) -> Result<Vec<u8>> {
    let Known { family, settings, double, ends } = unpack(job.known, "what a training is known by")?;
    let foreign = |_| Error::Exchange { what: "settings of this version" };
    if job.weights.is_some_and(|weights| weights.len() != rows.num_rows()) {
        return Err(Error::Exchange { what: "weights of these rows" });
    }
    if family == "topics" {
        let config: TopicsConfig = serde_json::from_str(&settings).map_err(foreign)?;
        return with_piece(rows, job.number, ends, |working, first| {
            work(&TopicFamily::of(working, &config, TopicInputs::default())?, first, rows, job)
        });
    }
    if family == "sequence" {
        let settled: SettledSequence = serde_json::from_str(&settings).map_err(foreign)?;
        let groups = job.groups.cloned().unwrap_or_else(|| Groups::one(rows.num_rows()));
        if groups.num_rows() != rows.num_rows() {
            return Err(Error::Exchange { what: "sequences of these rows" });
        }
        let flags = settled.lacking(rows)?;
        let windows = settled.windows(&groups, job.number, &ends);
        return with_piece(rows, job.number, ends, |working, first| {
            let steps = Steps::knowing(working, Lacking::new(first, flags));
            match double {
                false => work(&SequenceFamily::<f32>::of(&steps, settled, windows), first, rows, job),
                true => work(&SequenceFamily::<f64>::of(&steps, settled, windows), first, rows, job),
            }
        });
    }
    let (settled, units): (SettledMixture, Option<ColumnUnits>) = serde_json::from_str(&settings).map_err(foreign)?;
    let units = units.as_ref();
    with_working_rows(rows, settled.config.binarize, units, |working| {
        with_piece(working, job.number, ends, |working, first| {
            let inputs = MixtureInputs { units, ..Default::default() };
            match double {
                false => work(&Mixtures::<f32>::of(working, settled, inputs)?, first, rows, job),
                true => work(&Mixtures::<f64>::of(working, settled, inputs)?, first, rows, job),
            }
        })
    })
}

/// Weights are those of the rows from `first` on; `stored` are the rows as they were before they were made ready.
fn work<'a, F: Family<'a>>(family: &F, first: usize, stored: &dyn RowSource, job: &Job<'a>) -> Result<Vec<u8>> {
    let dealt = family.deal(job.run)?.weighted_from(first, job.weights);
    if let Some(prints) = job.prints {
        let is_dealt = job.number < dealt.batches.num_batches();
        let batch = is_dealt.then(|| dealt.batches.row_ids(job.number));
        prints.check(stored, &batch.ok_or(Error::Exchange { what: "a ticket of these batches" })?)?;
    }
    Remote::new(family.model(job.run), dealt).summarize(job.params, job.ticket)
}

/// Run `work` on rows by the numbers that they have among all, with that of the first that is here.
fn with_piece<R>(
    rows: &dyn RowSource,
    number: usize,
    ends: Vec<usize>,
    work: impl FnOnce(&dyn RowSource, usize) -> Result<R>,
) -> Result<R> {
    if ends.is_empty() {
        return work(rows, 0);
    }
    let piece = Piece::new(rows, number, ends)?;
    work(&piece, piece.first())
}

/// All rows of a training, for those who have them.
#[derive(Clone, Copy)]
pub struct WholeData<'a> {
    /// The rows.
    pub rows: &'a dyn RowSource,
    /// One weight a row, or none.
    pub weights: Option<&'a [f64]>,
    /// The sequences that the rows are, where they are some.
    pub groups: Option<&'a Groups>,
}

impl<'a> WholeData<'a> {
    /// Rows of equal weight, each by itself.
    pub fn of(rows: &'a dyn RowSource) -> Self {
        WholeData { rows, weights: None, groups: None }
    }
}

/// Works batches out in this process, one after the other: a round of them under the same parameters, as those do who have
/// workers.
pub struct Here<'a> {
    data: WholeData<'a>,
    batches_per_round: usize,
    known: Vec<u8>,
    run: usize,
    params: Vec<u8>,
    /// Batches of this round and their tickets, the next last.
    left: Vec<(usize, Vec<u8>)>,
}

impl<'a> Here<'a> {
    /// On these rows, so many batches a round.
    pub fn new(data: WholeData<'a>, batches_per_round: usize) -> Self {
        let (known, params, left) = Default::default();
        Here { data, batches_per_round, known, run: 0, params, left }
    }
}

impl Engine for Here<'_> {
    fn batches_per_round(&self) -> usize {
        self.batches_per_round
    }

    fn begin(&mut self, known: &[u8], run: usize, round: Round) -> Result<()> {
        (self.known, self.run, self.params) = (known.to_vec(), run, round.params);
        self.left = round.batches.into_iter().zip(round.tickets).rev().collect();
        Ok(())
    }

    fn next(&mut self) -> Result<Vec<u8>> {
        let (number, ticket) = self.left.pop().ok_or(Error::Exchange { what: "a ticket that is left" })?;
        let WholeData { rows, weights, groups } = self.data;
        let (known, run, params, ticket) = (&self.known[..], self.run, &self.params[..], &ticket[..]);
        work_batch(rows, &Job { number, known, run, params, ticket, weights, groups, prints: None })
    }
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
