//! The experiments of "Fast Learning of Clusters and Topics via Sparse Posteriors": what each figure runs, what it
//! measures, and what of the paper's claims the measurements bear out.
//!
//! `cargo xtask paper fig1` (to `fig5`, or `all`) builds this, runs it and draws what it writes.

pub mod data;
pub mod fig1;
pub mod fig2;
pub mod fig3;
pub mod fig4;
pub mod fig5;
pub mod figure;
pub mod page;
pub mod runs;

use std::path::PathBuf;

/// Whatever goes wrong, in words.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// How large an experiment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Seconds: tests that the conclusion can be drawn at all.
    Mini,
    /// Minutes, embedded data: shows how it goes, and is no evidence.
    Quick,
    /// As in the paper, as far as the page says so.
    Full,
}

/// What an experiment is given.
pub struct Settings {
    /// The folder with `images/` and `text/`; without it embedded sets serve.
    pub data: Option<PathBuf>,
    /// How large the experiment is.
    pub size: Size,
    /// Where runs are made and kept.
    pub workshop: runs::Workshop,
}
