//! `lsparse._core`: the library as Python sees it. Arrays in, arrays out; no numerics and no settings of its own.
//!
//! Everything that takes time goes through `gate`, which lets other Python threads run, honours Ctrl-C and turns
//! errors and panics into exceptions. The estimators over it are in `python/lsparse`.

mod around;
mod corpus;
mod elsewhere;
mod exchange;
mod gate;
mod messages;
mod mixture;
mod page;
mod rows;
mod saved;
mod sequence;
mod topics;
mod trace;

use pyo3::prelude::*;

/// The compiled part of lsparse.
#[pymodule]
mod _core {
    #[pymodule_export]
    use super::around::checkpoint_seed;
    #[pymodule_export]
    use super::corpus::{build_corpus, open_corpus};
    #[pymodule_export]
    use super::elsewhere::{lacking_piece, measure_piece, print_piece, work_piece};
    #[pymodule_export]
    use super::exchange::{begin_session, fold_batches, hand_out_batches, model_of_session, summarize_batch};
    #[pymodule_export]
    use super::gate::panic_for_test;
    #[pymodule_export]
    const LAPS_TO_FIND_TOPICS: usize = lsparse::settings::LAPS_TO_FIND_TOPICS;
    #[pymodule_export]
    use super::messages::{parameters, settings};
    #[pymodule_export]
    use super::mixture::{Mixture, fit_mixture};
    #[pymodule_export]
    use super::page::{Page, clusters_page};
    #[pymodule_export]
    use super::sequence::{Hmm, fit_sequence};
    #[pymodule_export]
    use super::topics::{Topics, coherence, completion, fit_topics, model_kind, read_names};
    #[pymodule_export]
    use super::trace::read_trace;
}
