//! Figure 2.

use crate::figure::Figure;
use crate::{Result, Settings};

/// Run the experiment.
pub fn run(settings: &Settings) -> Result<Figure> {
    let _ = settings;
    Err("not there yet".into())
}
