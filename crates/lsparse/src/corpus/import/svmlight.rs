//! SVMlight: one document a line, `label word:count word:count ... # note`; labels and notes are passed over.

use crate::corpus::folder::write::CorpusWriter;
use crate::corpus::text::pipeline::Watch;
use crate::corpus::text::text_file::{TextFile, shorten};
use crate::error::Result;

use crate::corpus::import::numbers::{MEND_COUNTS, fields, pair};
use crate::corpus::import::{Import, Imported, IndexBase, Ticker};

pub(in crate::corpus) fn read(
    import: &Import<'_>,
    mut writer: CorpusWriter,
    watch: &mut Watch<'_>,
) -> Result<Imported> {
    let base = match import.index_base {
        IndexBase::Zero => 0,
        IndexBase::One => 1,
        IndexBase::Auto => u64::from(!has_word_zero(import)?),
    };
    let mut file = TextFile::open(import.path)?;
    let mut ticker = Ticker::new(&file);
    let (mut document, mut largest, mut entries) = (Vec::new(), None, 0);
    while file.next_line()?.is_some() {
        ticker.tick(writer.num_docs(), watch)?;
        let mut fields = content(file.current());
        let Some(label) = fields.next() else { continue };
        if label.contains(&b':') {
            let detail = format!("{:?} is not a label", shorten(label));
            return Err(file.bad(detail, "start each line with a label, then word:count pairs"));
        }
        document.clear();
        for field in fields {
            let (word, count) = pair(field).map_err(|detail| file.bad(detail, MEND_COUNTS))?;
            let Some(word) = word.checked_sub(base) else {
                let remedy = "say that words are numbered from 0 (`index-base zero`)";
                return Err(file.bad("there is a word 0, but words are numbered from 1".to_owned(), remedy));
            };
            if word >= import.word_limit() as u64 {
                let detail = format!("there is no word {}, {}", word + base, import.beyond());
                return Err(file.bad(detail, "give the vocabulary that belongs to the file"));
            }
            document.push((word as u32, count));
            largest = largest.max(Some(word as u32));
        }
        entries += document.len();
        writer.push(None, &mut document)?;
    }
    let num_words = import.num_words(largest, entries)?;
    Ok(Imported::counts(writer, num_words))
}

/// Fields before the note, without `qid:`.
fn content(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    let end = line.iter().position(|&byte| byte == b'#').unwrap_or(line.len());
    fields(&line[..end]).filter(|field| !field.starts_with(b"qid:"))
}

fn has_word_zero(import: &Import<'_>) -> Result<bool> {
    let mut file = TextFile::open(import.path)?;
    while file.next_line()?.is_some() {
        if content(file.current()).skip(1).any(|field| matches!(pair(field), Ok((0, _)))) {
            return Ok(true);
        }
    }
    Ok(false)
}
