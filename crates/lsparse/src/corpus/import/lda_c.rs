//! LDA-C: one document a line, `N word:count word:count ...` with N pairs, words counted from 0.

use crate::corpus::folder::write::CorpusWriter;
use crate::corpus::text::pipeline::Watch;
use crate::corpus::text::text_file::{TextFile, bad_line, shorten};
use crate::error::Result;

use crate::corpus::import::numbers::{MEND_COUNTS, fields, pair, whole};
use crate::corpus::import::{Import, Imported, Ticker};

pub(in crate::corpus) fn read(
    import: &Import<'_>,
    mut writer: CorpusWriter,
    watch: &mut Watch<'_>,
) -> Result<Imported> {
    let mut file = TextFile::open(import.path)?;
    let mut ticker = Ticker::new(&file);
    let (mut document, mut largest, mut entries) = (Vec::new(), None, 0);
    let mut empty = None;
    while file.next_line()?.is_some() {
        ticker.tick(writer.num_docs(), watch)?;
        let mut fields = fields(file.current());
        let Some(first) = fields.next() else {
            // Empty lines may end a file, but are no documents.
            empty.get_or_insert(file.line());
            continue;
        };
        if let Some(line) = empty {
            return Err(bad_line(import.path, line, "the line is empty".to_owned(), "write 0 for an empty document"));
        }
        let Some(expected) = whole(first) else {
            let detail = format!("{:?} is not the number of different words", shorten(first));
            return Err(file.bad(detail, "start each line of LDA-C with it, then word:count pairs (or give `format`)"));
        };
        document.clear();
        for field in fields {
            let (word, count) = pair(field).map_err(|detail| file.bad(detail, MEND_COUNTS))?;
            if word >= import.word_limit() as u64 {
                let detail = format!("there is no word {word}, {}", import.beyond());
                return Err(file.bad(detail, "number words from 0, below the size of the vocabulary"));
            }
            document.push((word as u32, count));
            largest = largest.max(Some(word as u32));
        }
        if document.len() as u64 != expected {
            let detail = format!("the line starts with {expected}, but {} words follow", document.len());
            return Err(file.bad(detail, "mend the number or the words (or give `format` if this is not LDA-C)"));
        }
        entries += document.len();
        writer.push(None, &mut document)?;
    }
    let num_words = import.num_words(largest, entries)?;
    Ok(Imported::counts(writer, num_words))
}
