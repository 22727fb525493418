//! UCI bags of words: D, W and NNZ on a line each, then `document word count`, all counted from 1.

use crate::corpus::folder::write::CorpusWriter;
use crate::corpus::text::pipeline::Watch;
use crate::corpus::text::text_file::{TextFile, shorten};
use crate::error::Result;

use crate::corpus::import::numbers::{fields, whole};
use crate::corpus::import::triplets::{self, Header, check_header};
use crate::corpus::import::{Import, Imported};

pub(in crate::corpus) fn read(import: &Import<'_>, writer: CorpusWriter, watch: &mut Watch<'_>) -> Result<Imported> {
    triplets::read(import, writer, watch, header)
}

fn header(file: &mut TextFile) -> Result<Header> {
    let remedy = "start with the numbers of documents, words and entries, on a line each";
    let mut size = |what: &str| {
        if file.next_line()?.is_none() {
            return Err(file.bad(format!("the file ends before the number of {what}"), remedy));
        }
        let mut fields = fields(file.current());
        match (fields.next().and_then(whole), fields.next()) {
            (Some(size), None) => Ok(size),
            _ => Err(file.bad(format!("{:?} is not the number of {what}", shorten(file.current())), remedy)),
        }
    };
    let (docs, words, entries) = (size("documents")?, size("words")?, size("entries")?);
    check_header(file, docs, words)?;
    Ok(Header { docs, words, entries, pattern: false, comment: None })
}
