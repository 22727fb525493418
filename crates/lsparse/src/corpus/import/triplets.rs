//! Read `document word count` lines, as UCI and Matrix Market files have them.
//!
//! Documents that come in order are written as they come. If they do not, the file is read again into memory and
//! sorted.

use rayon::prelude::*;

use crate::corpus::folder::write::CorpusWriter;
use crate::corpus::text::pipeline::Watch;
use crate::corpus::text::text_file::{TextFile, shorten};
use crate::data::{check_claim, check_columns};
use crate::error::Result;

use crate::corpus::import::numbers::{MEND_COUNTS, count, fields, number};
use crate::corpus::import::{Import, Imported, Ticker};

/// What the header of a file says.
#[derive(Clone, Copy, Debug)]
pub(in crate::corpus) struct Header {
    pub(in crate::corpus) docs: u64,
    pub(in crate::corpus) words: u64,
    pub(in crate::corpus) entries: u64,
    /// Whether lines end before the count, which is one.
    pub(in crate::corpus) pattern: bool,
    /// What a line that starts with this is: a comment.
    pub(in crate::corpus) comment: Option<u8>,
}

/// Read a file whose header `open` reads.
pub(in crate::corpus) fn read(
    import: &Import<'_>,
    writer: CorpusWriter,
    watch: &mut Watch<'_>,
    open: impl Fn(&mut TextFile) -> Result<Header>,
) -> Result<Imported> {
    let mut file = TextFile::open(import.path)?;
    let header = open(&mut file)?;
    import.check_vocab(header.words as usize, |detail, remedy| {
        file.bad(format!("the header says there are {detail}"), remedy)
    })?;
    let writer = match stream(&mut file, &header, writer, watch)? {
        Streamed::Whole(writer) => writer,
        Streamed::OutOfOrder(writer) => {
            let mut file = TextFile::open(import.path)?;
            let header = open(&mut file)?;
            gather(&mut file, &header, writer.restart()?, watch)?
        }
    };
    Ok(Imported::counts(writer, header.words as usize))
}

enum Streamed {
    Whole(CorpusWriter),
    OutOfOrder(CorpusWriter),
}

fn stream(file: &mut TextFile, header: &Header, mut writer: CorpusWriter, watch: &mut Watch<'_>) -> Result<Streamed> {
    let mut document = Vec::new();
    let mut ordered = true;
    let mut lines = 0u64;
    let mut ticker = Ticker::new(file);
    let entries = each(file, header, |doc, word, count| {
        ticker.tick(writer.num_docs(), watch)?;
        lines += 1;
        let mut current = writer.num_docs() as u64;
        // A gap so early and so wide may be a lie; whether it is shows at the end of the file.
        if doc < current || doc - current > 1_000_000 + 100 * lines {
            ordered = false;
            return Ok(false);
        }
        while current < doc {
            writer.push(None, &mut document)?;
            document.clear();
            current += 1;
        }
        document.push((word, count));
        Ok(true)
    })?;
    if !ordered {
        return Ok(Streamed::OutOfOrder(writer));
    }
    check_docs(file, header, entries)?;
    while (writer.num_docs() as u64) < header.docs {
        writer.push(None, &mut document)?;
        document.clear();
    }
    Ok(Streamed::Whole(writer))
}

fn gather(
    file: &mut TextFile,
    header: &Header,
    mut writer: CorpusWriter,
    watch: &mut Watch<'_>,
) -> Result<CorpusWriter> {
    let mut all: Vec<(u64, u32, u32)> = Vec::new();
    let mut ticker = Ticker::new(file);
    let entries = each(file, header, |doc, word, count| {
        ticker.tick(0, watch)?;
        all.push((doc, word, count));
        Ok(true)
    })?;
    check_docs(file, header, entries)?;
    all.par_sort_unstable();
    let mut document = Vec::new();
    let mut rest = &all[..];
    for doc in 0..header.docs {
        let (own, others) = rest.split_at(rest.partition_point(|entry| entry.0 == doc));
        rest = others;
        document.clear();
        document.extend(own.iter().map(|&(_, word, count)| (word, count)));
        writer.push(None, &mut document)?;
    }
    Ok(writer)
}

/// Documents without words are no error, but there cannot be many times more of them than of others.
fn check_docs(file: &TextFile, header: &Header, entries: u64) -> Result<()> {
    let size = |claimed: u64| usize::try_from(claimed).unwrap_or(usize::MAX);
    let agrees = |checked: std::result::Result<(), (String, String)>| {
        checked.map_err(|(detail, remedy)| file.bad(format!("the header and the body disagree: {detail}"), &remedy))
    };
    agrees(check_claim("documents", size(header.docs), entries as usize))?;
    agrees(check_columns("words", size(header.words), entries as usize))
}

/// Hand every entry to `take`, numbers from 0, until it gives false. The number of entries must be that of the header.
fn each(file: &mut TextFile, header: &Header, mut take: impl FnMut(u64, u32, u32) -> Result<bool>) -> Result<u64> {
    let mut entries = 0;
    while file.next_line()?.is_some() {
        let parsed = match parse(file.current(), header) {
            Ok(Some(parsed)) => parsed,
            Ok(None) => continue,
            Err((detail, remedy)) => return Err(file.bad(detail, remedy)),
        };
        entries += 1;
        if entries > header.entries {
            let detail = format!("the header says there are {} entries, here is one more", header.entries);
            return Err(file.bad(detail, "mend the header or the lines"));
        }
        if !take(parsed.0, parsed.1, parsed.2)? {
            return Ok(entries);
        }
    }
    if entries < header.entries {
        let detail = format!("the file ends after {entries} entries, its header says there are {}", header.entries);
        return Err(file.bad(detail, "mend the header, or copy the file again"));
    }
    Ok(entries)
}

type Entry = (u64, u32, u32);

/// An entry, numbers from 0; nothing for an empty line or a comment.
fn parse(line: &[u8], header: &Header) -> std::result::Result<Option<Entry>, (String, &'static str)> {
    let mut fields = fields(line);
    let Some(doc) = fields.next().filter(|field| Some(field[0]) != header.comment) else { return Ok(None) };
    let (word, value) = (fields.next(), if header.pattern { Some(&b"1"[..]) } else { fields.next() });
    let (Some(word), Some(value), None) = (word, value, fields.next()) else {
        let wanted = if header.pattern { "document and word" } else { "document, word and count" };
        return Err((format!("{:?} is not {wanted}", shorten(line)), "give one entry a line"));
    };
    let within = |what: &str, field: &[u8], limit: u64| {
        let remedy = "number from 1, as the header has it";
        let number = number(what, field).map_err(|detail| (detail, remedy))?;
        if number == 0 || number > limit {
            return Err((format!("there is no {what} {number}, the header says there are {limit}"), remedy));
        }
        Ok(number - 1)
    };
    let doc = within("document", doc, header.docs)?;
    let word = within("word", word, header.words)?;
    let count = count(value).map_err(|detail| (detail, MEND_COUNTS))?;
    // The header was refused if it has more words than `u32` has numbers.
    Ok(Some((doc, word as u32, count)))
}

/// Sizes of a header that can be used, whatever the body is.
pub(in crate::corpus) fn check_header(file: &TextFile, docs: u64, words: u64) -> Result<()> {
    if docs == 0 || words == 0 {
        let detail = format!("the header says there are {docs} documents and {words} words");
        return Err(file.bad(detail, "give a corpus that is not empty"));
    }
    if words > crate::data::MAX_DIM as u64 {
        let detail = format!("the header says there are {words} words");
        return Err(file.bad(detail, "give a corpus with fewer words"));
    }
    Ok(())
}
