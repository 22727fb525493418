//! From files of text to documents of words.

pub(super) mod csv_records;
pub(super) mod documents;
pub(super) mod json;
pub(super) mod language;
pub(super) mod lines;
pub(super) mod phrases;
pub(super) mod pipeline;
pub(super) mod text_file;
pub(super) mod tokenizer;
pub(super) mod vocab;
