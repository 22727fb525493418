//! Training by processes that share no memory: sessions, parameters, tickets and statistics as bytes, each function pure.

use lsparse::data::{Element, RowSource, Thresholded};
use lsparse::mixture::{MixtureInputs, Mixtures, SettledMixture};
use lsparse::runs::Family;
use lsparse::settings::TopicsConfig;
use lsparse::topics::{TopicFamily, TopicInputs};
use lsparse::training::exchange::{Remote, Round, fold, hand_out, pack, unpack};
use lsparse::training::rules::{Outcome, StopReason};
use lsparse::training::session::{Places, Session};
use lsparse::{Error, MixtureConfig, Precision};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde::{Deserialize, Serialize};

use crate::gate::run;
use crate::rows::{Braked, Held};
use crate::saved::{json, settings};

/// What every process needs to know: settings with all that depends on the rows of the first.
#[derive(Serialize, Deserialize)]
enum Settled {
    Mixture(Box<SettledMixture>),
    Topics(Box<TopicsConfig>),
}

/// Run an expression over the family that is settled, on these rows.
macro_rules! with_family {
    ($settled:expr, $rows:expr, |$family:ident| $work:expr) => {
        match $settled {
            Settled::Mixture(settled) => {
                let thresholded = settled.config.binarize.map(|threshold| Thresholded::new($rows, threshold));
                let rows: &dyn RowSource = thresholded.as_ref().map_or($rows, |rows| rows);
                match element(settled.config.precision, rows) {
                    Element::F32 => {
                        let $family = &Mixtures::<f32>::of(rows, *settled, MixtureInputs::default())?;
                        $work
                    }
                    Element::F64 => {
                        let $family = &Mixtures::<f64>::of(rows, *settled, MixtureInputs::default())?;
                        $work
                    }
                }
            }
            Settled::Topics(config) => {
                let $family = &TopicFamily::new($rows, &config, TopicInputs::default())?;
                $work
            }
        }
    };
}

fn element(precision: Precision, rows: &dyn RowSource) -> Element {
    match precision {
        Precision::Auto => rows.element(),
        Precision::F32 => Element::F32,
        Precision::F64 => Element::F64,
    }
}

fn restored<'a, F: Family<'a>>(family: &F, session: &[u8]) -> lsparse::Result<Session<'a, F::Model>> {
    family.restore(unpack(session, "a session")?, Places::default(), 0)
}

/// Settings for all processes and the session of a training, before its first batch: a mixture's or topics' settings as
/// JSON, and rows.
#[pyfunction]
#[pyo3(signature = (x, kind, config, *, threads=None))]
pub fn begin_session<'py>(
    py: Python<'py>,
    x: &Bound<'py, PyAny>,
    kind: &str,
    config: &str,
    threads: Option<usize>,
) -> PyResult<(String, Bound<'py, PyBytes>)> {
    let held = Held::borrow(x)?;
    let rows = held.rows()?;
    let rows = rows.as_ref();
    let (settled, session) = match kind {
        "mixture" => {
            let config: MixtureConfig = settings(config)?;
            run(py, threads, |brake| {
                let braked = Braked { rows, now: &brake.now };
                let thresholded = config.binarize.map(|threshold| Thresholded::new(&braked, threshold));
                let rows: &dyn RowSource = thresholded.as_ref().map_or(&braked, |rows| rows);
                match element(config.precision, rows) {
                    Element::F32 => {
                        let family = Mixtures::<f32>::new(rows, &config, MixtureInputs::default())?;
                        let settled = Settled::Mixture(Box::new(family.settled().clone()));
                        Ok((settled, pack(&family.session(0)?.save())?))
                    }
                    Element::F64 => {
                        let family = Mixtures::<f64>::new(rows, &config, MixtureInputs::default())?;
                        let settled = Settled::Mixture(Box::new(family.settled().clone()));
                        Ok((settled, pack(&family.session(0)?.save())?))
                    }
                }
            })?
        }
        _ => {
            let config: TopicsConfig = settings(config)?;
            run(py, threads, |brake| {
                let rows = Braked { rows, now: &brake.now };
                if config.method.samples_tokens() {
                    let problem = format!("{} draws every token given all others", config.method.name());
                    let remedy = "choose `method lsparse or svi-gibbs`".into();
                    return Err(Error::Config { setting: "method", problem, remedy });
                }
                let family = TopicFamily::new(&rows, &config, TopicInputs::default())?;
                let session = pack(&family.session(0)?.save())?;
                Ok((Settled::Topics(Box::new(TopicsConfig::clone(&*config.check(rows.num_rows())?))), session))
            })?
        }
    };
    Ok((json(&settled)?, PyBytes::new(py, &session)))
}

/// Parameters and tickets of the next batches of a session, at most so many.
#[pyfunction]
#[pyo3(signature = (x, settled, session, most, *, threads=None))]
pub fn hand_out_batches<'py>(
    py: Python<'py>,
    x: &Bound<'py, PyAny>,
    settled: &str,
    session: &[u8],
    most: usize,
    threads: Option<usize>,
) -> PyResult<(Bound<'py, PyBytes>, Vec<Bound<'py, PyBytes>>)> {
    let (held, settled) = (Held::borrow(x)?, settings::<Settled>(settled)?);
    let rows = held.rows()?;
    let rows = rows.as_ref();
    let Round { params, tickets, .. } =
        run(py, threads, |_| with_family!(settled, rows, |family| hand_out(&mut restored(family, session)?, most)))?;
    let tickets = tickets.iter().map(|ticket| PyBytes::new(py, ticket)).collect();
    Ok((PyBytes::new(py, &params), tickets))
}

/// The statistics of a batch under parameters: (parameters, ticket) to what `fold_batches` takes.
#[pyfunction]
#[pyo3(signature = (x, settled, params, ticket, *, threads=None))]
pub fn summarize_batch<'py>(
    py: Python<'py>,
    x: &Bound<'py, PyAny>,
    settled: &str,
    params: &[u8],
    ticket: &[u8],
    threads: Option<usize>,
) -> PyResult<Bound<'py, PyBytes>> {
    let (held, settled) = (Held::borrow(x)?, settings::<Settled>(settled)?);
    let rows = held.rows()?;
    let rows = rows.as_ref();
    let done = run(py, threads, |brake| {
        let rows: &dyn RowSource = &Braked { rows, now: &brake.now };
        with_family!(settled, rows, |family| {
            Remote::new(family.model(0), family.deal(0)?).summarize(params, ticket)
        })
    })?;
    Ok(PyBytes::new(py, &done))
}

/// The session after these statistics, with how far it has come as JSON.
#[pyfunction]
#[pyo3(signature = (x, settled, session, done, *, threads=None))]
pub fn fold_batches<'py>(
    py: Python<'py>,
    x: &Bound<'py, PyAny>,
    settled: &str,
    session: &[u8],
    done: Vec<Vec<u8>>,
    threads: Option<usize>,
) -> PyResult<(Bound<'py, PyBytes>, String)> {
    let (held, settled) = (Held::borrow(x)?, settings::<Settled>(settled)?);
    let rows = held.rows()?;
    let rows = rows.as_ref();
    let (session, report) = run(py, threads, |_| {
        with_family!(settled, rows, |family| {
            let mut session = restored(family, session)?;
            // The tickets that these came of are out again.
            hand_out(&mut session, done.len())?;
            fold(&mut session, &done)?;
            let progress = session.progress();
            let report = serde_json::json!({"laps": progress.laps, "steps": progress.step, "rows": progress.rows});
            Ok((pack(&session.save())?, report))
        })
    })?;
    Ok((PyBytes::new(py, &session), json(&report)?))
}

/// The model of a session, as the bytes of a file.
#[pyfunction]
#[pyo3(signature = (x, settled, session, *, threads=None))]
pub fn model_of_session<'py>(
    py: Python<'py>,
    x: &Bound<'py, PyAny>,
    settled: &str,
    session: &[u8],
    threads: Option<usize>,
) -> PyResult<Bound<'py, PyBytes>> {
    let (held, settled) = (Held::borrow(x)?, settings::<Settled>(settled)?);
    let rows = held.rows()?;
    let rows = rows.as_ref();
    let model = run(py, threads, |_| {
        with_family!(settled, rows, |family| {
            let mut session = restored(family, session)?;
            session.make_whole()?;
            let (laps, objective) = (session.progress().laps, session.objective());
            let (seconds, rows_per_second) = (session.progress().seconds, 0.0);
            let (reason, heldout, recent) = (StopReason::Laps(laps), None, Vec::new());
            let outcome = Outcome { reason, objective, heldout, laps, seconds, rows_per_second, recent };
            let model = family.saved(&session, &outcome).to_bytes();
            model.map_err(|source| Error::Unwritable { path: "the model".into(), source })
        })
    })?;
    Ok(PyBytes::new(py, &model))
}
