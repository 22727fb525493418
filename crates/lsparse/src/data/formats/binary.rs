//! Tell files that are no text by their first bytes: read as text they would become words that nobody wrote.

use std::path::Path;

use crate::data::formats::npz;
use crate::error::{Error, Result};

/// Bytes from the start of a file that are looked at.
const LOOKED_AT: usize = 1 << 13;

/// Of bytes that are no UTF-8, the share that makes a file no text in it. A text of Western Europe in an older encoding
/// has a few in a hundred, and is read with these replaced.
const BROKEN_SHARE: f64 = 0.3;

/// Kinds of files that are no text, by their first bytes, and what to do with them.
const KINDS: &[(&[u8], &str, &str)] = &[
    (b"%PDF-", "a PDF document", "save its text, with pdftotext for one, and give that"),
    (b"\xff\xd8\xff", "a JPEG image", IMAGE),
    (b"\x89PNG\r\n\x1a\n", "a PNG image", IMAGE),
    (b"GIF8", "a GIF image", IMAGE),
    (b"\x7fELF", "a program", TEXT),
    (b"SQLite format 3\0", "an SQLite database", EXPORT),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file", EXPORT),
    (b"ARROW1", "an Arrow file", EXPORT),
    (npz::MAGIC, "a zip archive", "unpack it, and give what it holds as text"),
];

const EXPORT: &str = "export it to CSV or JSON lines";
const IMAGE: &str = "give text, or a folder of images to fit a mixture to";
const TEXT: &str = "give text";

/// What a file is that is known by its first bytes and is no text, and what to do with it.
pub(crate) fn known_kind(start: &[u8]) -> Option<(&'static str, &'static str)> {
    // Four letters alone may begin a text; in the file a byte follows that no text has.
    if start.starts_with(b"PAR1") && start.get(4).is_none_or(|&byte| byte < b' ' && !byte.is_ascii_whitespace()) {
        return Some(("a Parquet file", EXPORT));
    }
    let known = KINDS.iter().find(|(magic, ..)| start.starts_with(magic));
    known.map(|&(_, kind, remedy)| (kind, remedy))
}

/// Refuse what is no text in UTF-8, given the start of a file. `otherwise` is the remedy where it is one file among
/// others.
pub(crate) fn check_text(path: &Path, start: &[u8], otherwise: Option<&str>) -> Result<()> {
    match known_kind(start) {
        Some((kind, remedy)) => Err(Error::Format {
            path: path.to_owned(),
            detail: format!("the file is not text but {kind}"),
            remedy: otherwise.unwrap_or(remedy).to_owned(),
        }),
        None => check_encoding(path, start, otherwise),
    }
}

/// The same for a list of words, the first of which may begin as such a file does.
pub(crate) fn check_encoding(path: &Path, start: &[u8], otherwise: Option<&str>) -> Result<()> {
    let refuse =
        |detail: String, remedy: &str| Err(Error::Format { path: path.to_owned(), detail, remedy: remedy.to_owned() });
    if start.starts_with(b"\xff\xfe") || start.starts_with(b"\xfe\xff") {
        return refuse("the text is UTF-16".to_owned(), "convert it with iconv -f UTF-16 -t UTF-8");
    }
    let start = &start[..start.len().min(LOOKED_AT)];
    if start.contains(&0) {
        let remedy = "give text in UTF-8, or export what the file holds to CSV or JSON lines";
        return refuse("the file is not text: it has zero bytes".to_owned(), otherwise.unwrap_or(remedy));
    }
    let broken: usize = start.utf8_chunks().map(|chunk| chunk.invalid().len()).sum();
    if broken as f64 > BROKEN_SHARE * start.len() as f64 {
        let share = 100.0 * broken as f64 / start.len() as f64;
        return refuse(
            format!("{share:.0} % of its first bytes are not UTF-8: it is text in another encoding, or none"),
            "convert it with iconv -f ENCODING -t UTF-8, or give another file",
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_text_is_told_by_its_first_bytes() {
        let noise: Vec<u8> = (0..997u32).map(|i| ((i * i).wrapping_mul(2_654_435_761) >> 24) as u8 | 1).collect();
        let cyrillic = [&b"\xcf\xf0\xe8\xe2\xe5\xf2 "[..]; 9].concat();
        for (start, expected) in [
            (&b"PAR1\x15\x04\x15"[..], "a Parquet file; export it to CSV or JSON lines"),
            (b"PAR1", "a Parquet file"),
            (b"\xff\xd8\xff\xe0\x00\x10JFIF", "a JPEG image"),
            (b"\x89PNG\r\n\x1a\n\x00", "a PNG image"),
            (b"%PDF-1.7\n%\xe2\xe3", "a PDF document"),
            (b"\x7fELF\x02", "a program"),
            (b"PK\x03\x04\x14", "a zip archive"),
            (b"some\0words", "zero bytes"),
            (b"\xff\xfea\x00", "UTF-16"),
            (&noise, "not UTF-8"),
            (&cyrillic, "another encoding"),
        ] {
            let error = check_text(Path::new("x"), start, None).unwrap_err();
            assert!(error.is_bad_input() && error.to_string().contains(expected), "{start:?}: {error}");
        }
    }

    #[test]
    fn text_is_text() {
        let late = [&b"words "[..]; 2000].concat().into_iter().chain([0, 0]).collect::<Vec<u8>>();
        // A letter that is cut at the end of what is looked at is none that is broken.
        let cut = &"\u{44f}".repeat(LOOKED_AT).into_bytes()[..LOOKED_AT - 1];
        for start in [
            &b""[..],
            b"PAR1 and PAR2",
            b"caf\xe9 au lait, d\xe9j\xe0 vu",
            b"\xef\xbb\xbfmarked",
            b"PKZIP was a program",
            "\u{43f}\u{440}\u{438}\u{432}\u{435}\u{442}".as_bytes(),
            &late,
            cut,
        ] {
            check_text(Path::new("x"), start, None).unwrap();
        }
    }
}
