//! Pages to look at: one that follows trainings, held by Python, and those of mixtures and sequences.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lsparse::corpus::Metadata;
use lsparse::data::Groups;
use lsparse::{MixtureModel, SequenceModel};
use lsparse_page::explore::{Judge, PageOptions, Picture, clusters_page as page_of};
use lsparse_page::watch::{Feed, Follow, Server, Watched};
use pyo3::prelude::*;

use crate::gate::{raise, run};
use crate::rows::{Braked, Held};
use crate::saved::json;

/// How often files are looked at.
const PERIOD: Duration = Duration::from_millis(300);

/// Serves a page until it is closed.
#[pyclass]
pub struct Page {
    feed: Arc<Feed>,
    server: Option<Server>,
    /// The page asks the fit that is under way to stop.
    stop: Arc<AtomicBool>,
    closed: Arc<AtomicBool>,
}

#[pymethods]
impl Page {
    /// A page of these traces, or of fits that it is given to.
    #[new]
    #[pyo3(signature = (traces, port=None))]
    fn new(traces: Vec<PathBuf>, port: Option<u16>) -> PyResult<Self> {
        let (stop, closed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let asked = Arc::clone(&stop);
        let feed = Arc::new(match traces.is_empty() {
            true => Feed::of_a_run(move || asked.store(true, Ordering::Release)),
            false => Feed::default(),
        });
        let follows: lsparse::Result<Vec<Follow>> = traces.iter().map(|path| Follow::new(path, &feed)).collect();
        let mut follows = follows.map_err(raise)?;
        let server = Server::start(Arc::clone(&feed), port).map_err(raise)?;
        if !follows.is_empty() {
            let (feed, closed) = (Arc::clone(&feed), Arc::clone(&closed));
            std::thread::spawn(move || {
                while !closed.load(Ordering::Acquire) {
                    let mut more = false;
                    for follow in &mut follows {
                        // What cannot be read now may be there the next time.
                        more |= follow.read_on(&feed).unwrap_or(false);
                    }
                    if !more {
                        std::thread::sleep(PERIOD);
                    }
                }
            });
        }
        Ok(Page { feed, server: Some(server), stop, closed })
    }

    /// Where it is; none once it is closed.
    #[getter]
    fn url(&self) -> Option<String> {
        self.server.as_ref().map(Server::url)
    }

    fn close(&mut self) {
        self.closed.store(true, Ordering::Release);
        self.server = None;
    }
}

impl Page {
    /// An observer of a fit, and whether the page asks it to stop.
    pub fn watch(&self, name: &str) -> (Watched, Arc<AtomicBool>) {
        self.stop.store(false, Ordering::Release);
        self.feed.go_on();
        (Watched::new(Arc::clone(&self.feed), name), Arc::clone(&self.stop))
    }
}

/// Columns by name, each with a value for every document or row.
pub type Columns = Vec<(String, Vec<String>)>;

/// Metadata of columns.
pub fn metadata_of(columns: Columns) -> Metadata {
    let (names, values) = columns.into_iter().unzip();
    Metadata { names, values }
}

/// The page of a mixture or of a hidden Markov model, given as the bytes of its file, and what is in it as JSON.
#[pyfunction]
#[pyo3(signature = (kind, model, title, names, *, x=None, lengths=None, metadata=None, columns=None, picture=None,
    missing=false, most=1000, seed=0, threads=None))]
#[allow(clippy::too_many_arguments)]
pub fn clusters_page<'py>(
    py: Python<'py>,
    kind: &str,
    model: &[u8],
    title: String,
    names: Vec<Option<String>>,
    x: Option<&Bound<'py, PyAny>>,
    lengths: Option<Vec<usize>>,
    metadata: Option<Columns>,
    columns: Option<Vec<String>>,
    picture: Option<(usize, usize, usize)>,
    missing: bool,
    most: usize,
    seed: u64,
    threads: Option<usize>,
) -> PyResult<(String, String)> {
    let held = x.map(Held::borrow).transpose()?;
    let rows = held.as_ref().map(Held::rows).transpose()?;
    let options = PageOptions { title, names, documents: most, seed };
    let picture = picture.map(|(height, width, channels)| Picture { height, width, channels });
    let metadata = metadata.map(metadata_of);
    let (name, columns) = (PathBuf::from("the model"), columns.unwrap_or_default());
    let (page, report) = run(py, threads, |brake| {
        let rows = rows.as_ref().map(|rows| Braked { rows: rows.as_ref(), now: &brake.now });
        let rows = rows.as_ref().map(|rows| rows as &dyn lsparse::data::RowSource);
        let count = rows.map_or(0, |rows| rows.num_rows());
        let make = |judge: &Judge<'_>| page_of(judge, rows, metadata.as_ref(), &columns, picture, &options);
        if kind == "mixture" {
            let model = MixtureModel::from_bytes(&name, model)?;
            return make(&Judge::Mixture(&if missing { model.allowing_missing()? } else { model }));
        }
        let groups = match &lengths {
            Some(lengths) => Groups::of_lengths("lengths", lengths, count)?,
            None => Groups::one(count),
        };
        let model = SequenceModel::from_bytes(&name, model)?;
        make(&Judge::Sequence(&if missing { model.allowing_missing_steps() } else { model }, &groups))
    })?;
    Ok((page, json(&report)?))
}
