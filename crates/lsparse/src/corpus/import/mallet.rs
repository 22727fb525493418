//! MALLET's lists: one document a line, `name label word word ...`, parted by blanks; labels are passed over.

use crate::corpus::encode::GrowingVocab;
use crate::corpus::folder::write::CorpusWriter;
use crate::corpus::text::pipeline::Watch;
use crate::corpus::text::text_file::{TextFile, decode_text, shorten};
use crate::error::Result;

use crate::corpus::import::{Import, Imported, Ticker, Words};

pub(in crate::corpus) fn read(
    import: &Import<'_>,
    mut writer: CorpusWriter,
    watch: &mut Watch<'_>,
) -> Result<Imported> {
    let mut file = TextFile::open(import.path)?;
    let mut ticker = Ticker::new(&file);
    let (mut document, mut seen, mut replaced) = (Vec::new(), GrowingVocab::default(), 0);
    while file.next_line()?.is_some() {
        ticker.tick(writer.num_docs(), watch)?;
        let (text, broken) = decode_text(import.path, file.line(), file.current().to_vec(), import.strict)?;
        replaced += broken;
        let mut words = text.split_ascii_whitespace();
        let Some(name) = words.next() else { continue };
        document.clear();
        for word in words.skip(1) {
            let number = match import.vocab {
                None => seen.number(word),
                Some((vocab, path)) => vocab.number(word).ok_or_else(|| {
                    let detail = format!("{:?} is not in the vocabulary {}", shorten(word.as_bytes()), path.display());
                    file.bad(detail, "give the vocabulary that belongs to the file, or none")
                })?,
            };
            document.push((number, 1));
        }
        writer.push(Some(name), &mut document)?;
    }
    let words = match import.vocab {
        Some((vocab, _)) => Words::Count(vocab.len()),
        None => Words::Seen(seen.words.into_iter().map(String::from).collect()),
    };
    Ok(Imported { writer, words, replaced })
}
