//! Matrix Market coordinates: documents are rows, words are columns, both counted from 1.

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
    let first = file.next_line()?.map(|line| String::from_utf8_lossy(line).to_ascii_lowercase()).unwrap_or_default();
    let kinds: Vec<&str> = first.split_whitespace().collect();
    let pattern = match kinds[..] {
        ["%%matrixmarket", "matrix", "coordinate", "integer" | "real", "general"] => false,
        ["%%matrixmarket", "matrix", "coordinate", "pattern", "general"] => true,
        _ => {
            let remedy = "give a file that starts with %%MatrixMarket matrix coordinate integer general";
            return Err(file.bad(format!("{:?} is not read", shorten(file.current())), remedy));
        }
    };
    while file.next_line()?.is_some() {
        let line = file.current();
        if line.starts_with(b"%") || line.trim_ascii().is_empty() {
            continue;
        }
        let sizes: Option<Vec<u64>> = fields(line).map(whole).collect();
        let Some([docs, words, entries]) = sizes.as_deref() else {
            let detail = format!("{:?} is not the numbers of rows, columns and entries", shorten(line));
            return Err(file.bad(detail, "give three numbers before the entries"));
        };
        check_header(file, *docs, *words)?;
        return Ok(Header { docs: *docs, words: *words, entries: *entries, pattern, comment: Some(b'%') });
    }
    Err(file.bad("the file ends before its sizes".to_owned(), "copy the file again"))
}
