//! `lsparse watch`: a local page that follows traces, and the page of a training in this process.

use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::Args;
use lsparse::{Error, Result};
use lsparse_page::watch::{Feed, Follow, Server, Watched};
use serde_json::json;
use tempfile::NamedTempFile;

use crate::interrupt;
use crate::messages;
use crate::output::{self, message};
use crate::stdin::{STDIN, check_piped, is_stdin};

/// Show trainings as they go, or as they went, on a local page.
///
/// Traces are what --trace of a training writes; they may still be being written, or not be there yet. Several are shown
/// side by side. The page is served to this machine alone, at an address that nobody can guess, until Ctrl-C.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES:
  lsparse fit topics corpus -k 100 --trace run.jsonl &  lsparse watch run.jsonl
  lsparse watch runs/*.jsonl --open                     side by side, in the browser
  ssh far tail -n +1 -F run.jsonl | lsparse watch -     a training on another machine
  lsparse fit topics corpus -k 100 --watch              a page that can stop the training too")]
pub struct WatchArgs {
    /// Traces; - for standard input.
    #[arg(value_name = "TRACE", required = true)]
    pub traces: Vec<PathBuf>,
    /// Port of the page [default: any that is free].
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,
    /// Open the page in the browser.
    #[arg(long)]
    pub open: bool,
    /// Print the address as JSON.
    #[arg(long)]
    pub json: bool,
}

/// How often files are looked at.
const PERIOD: Duration = Duration::from_millis(300);

pub fn run(args: &WatchArgs) -> Result<()> {
    let feed = Arc::new(Feed::default());
    let piped = Piped::of(&args.traces)?;
    let follow = |path: &PathBuf| match piped.as_ref().filter(|_| is_stdin(path)) {
        Some(piped) => Follow::called(STDIN, piped.copy.path(), &feed),
        None => Follow::new(path, &feed),
    };
    let mut follows = args.traces.iter().map(follow).collect::<Result<Vec<_>>>()?;
    let server = Server::start(Arc::clone(&feed), args.port)?;
    let url = server.url();
    match args.json {
        true => output::print_json(&json!({ "url": url }))?,
        false => output::print(&format!("{url}\n"))?,
    }
    // A training that has yet to begin is one to wait for; a name that is misspelt is not.
    for path in args.traces.iter().filter(|path| !is_stdin(path) && !path.exists()) {
        output::note(&format!("{} does not exist yet, and is waited for", path.display()));
    }
    message("Ctrl-C ends it");
    if args.open {
        open(&url);
    }
    let stop = interrupt::listen(true);
    let mut troubled = vec![false; follows.len()];
    while !stop.load(Ordering::Acquire) {
        let mut more = false;
        for ((follow, path), troubled) in follows.iter_mut().zip(&args.traces).zip(&mut troubled) {
            // One that cannot be read is no reason to end the page of the others.
            match follow.read_on(&feed) {
                Ok(has_more) => (more, *troubled) = (more | has_more, false),
                Err(source) if !*troubled => {
                    let error = Error::Io { path: path.clone(), action: "read", source };
                    message(&format!("warning: {}", messages::of_error(&error)));
                    *troubled = true;
                }
                Err(_) => {}
            }
        }
        if !more {
            std::thread::sleep(PERIOD);
        }
    }
    Ok(())
}

/// A trace from standard input, which comes while it is followed.
struct Piped {
    copy: NamedTempFile,
}

impl Piped {
    /// Standard input, if it is one of these.
    fn of(traces: &[PathBuf]) -> Result<Option<Self>> {
        match traces.iter().filter(|path| is_stdin(path)).count() {
            0 => return Ok(None),
            1 => {}
            _ => {
                let (path, detail) = (STDIN.into(), "it can be read once".into());
                return Err(Error::Format { path, detail, remedy: "give - once".into() });
            }
        }
        check_piped()?;
        let unwritable = |source| Error::Unwritable { path: std::env::temp_dir(), source };
        let copy = tempfile::Builder::new().prefix("lsparse-").suffix(".jsonl").tempfile().map_err(unwritable)?;
        let mut file = copy.reopen().map_err(unwritable)?;
        std::thread::spawn(move || io::copy(&mut io::stdin().lock(), &mut file));
        Ok(Some(Piped { copy }))
    }
}

/// The page of a training in this process.
pub struct OwnPage {
    feed: Arc<Feed>,
    _server: Server,
    pub watched: Watched,
}

impl OwnPage {
    /// Serve it, and say where.
    pub fn start(name: &str, port: Option<u16>) -> Result<Self> {
        let feed = Arc::new(Feed::of_a_run(interrupt::stop));
        let server = Server::start(Arc::clone(&feed), port)?;
        message(&format!("watch it at {}", server.url()));
        Ok(OwnPage { watched: Watched::new(Arc::clone(&feed), name), feed, _server: server })
    }
}

impl Drop for OwnPage {
    fn drop(&mut self) {
        self.feed.let_pages_see_the_end();
    }
}

/// Ask the system to show a page; who has no browser sees the address.
fn open(url: &str) {
    let program = match std::env::consts::OS {
        "macos" => "open",
        "windows" => "explorer",
        _ => "xdg-open",
    };
    let quiet = Command::new(program).arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    if quiet.is_err() {
        message(&format!("there is no {program} that opens pages: open the address in a browser"));
    }
}
