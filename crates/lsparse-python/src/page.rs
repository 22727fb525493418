//! A local page that follows trainings, held by Python.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lsparse_page::watch::{Feed, Follow, Server, Watched};
use pyo3::prelude::*;

use crate::gate::raise;

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
