//! Stream the records of a CSV file and pick the columns that are asked for.

use std::io::{self, Read};

use crate::error::{Error, Result};

use crate::corpus::text::documents::{Record, TextOptions};
use crate::corpus::text::text_file::{TextFile, bad_line, decode, read_failed, shorten};

/// The records of a CSV file.
pub(in crate::corpus) struct CsvRecords {
    path: std::path::PathBuf,
    reader: csv::Reader<Quotes>,
    record: csv::ByteRecord,
    /// Whether `record` is yet to be handed out.
    pending: bool,
    width: usize,
    column: usize,
    id_column: Option<usize>,
    /// The names of the columns, where the first line has them.
    names: Option<Vec<String>>,
    number: u64,
}

impl CsvRecords {
    pub(in crate::corpus) fn open(file: TextFile, options: &TextOptions) -> Result<Self> {
        let path = file.path().to_owned();
        let delimiter = match options.delimiter {
            Some(byte) if b"\"\r\n".contains(&byte) => {
                return Err(Error::Config {
                    setting: "delimiter",
                    problem: format!("{:?} cannot part fields", char::from(byte)),
                    remedy: "choose a comma, a semicolon or a tab".to_owned(),
                });
            }
            Some(byte) => byte,
            None => guess_delimiter(&path)?,
        };
        let reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .delimiter(delimiter)
            .buffer_capacity(1 << 16)
            .from_reader(Quotes::new(file, delimiter));
        let mut records = CsvRecords {
            path,
            reader,
            record: csv::ByteRecord::new(),
            pending: false,
            width: 0,
            column: 0,
            id_column: None,
            names: None,
            number: 0,
        };
        if !records.advance()? {
            // No records, no columns to look for.
            return Ok(records);
        }
        records.width = records.record.len();
        let names: Option<Vec<String>> = options
            .header
            .then(|| records.record.iter().map(|name| decode(name.to_vec()).0.trim().to_owned()).collect());
        records.column = match &options.field {
            Some(field) => records.find(field, names.as_deref())?,
            None if records.width == 1 => 0,
            None => records.find("text", names.as_deref())?,
        };
        records.id_column = match &options.id_field {
            Some(field) => Some(records.find(field, names.as_deref())?),
            None => None,
        };
        records.names = names;
        records.pending = !options.header;
        Ok(records)
    }

    /// The number of a column given by its name, or by its number from 1.
    fn find(&self, field: &str, names: Option<&[String]>) -> Result<usize> {
        let named = names.and_then(|names| names.iter().position(|name| name == field));
        let numbered = field.parse::<usize>().ok().filter(|number| (1..=self.width).contains(number));
        named.or(numbered.map(|number| number - 1)).ok_or_else(|| {
            let remedy = match names {
                Some(names) => {
                    let shown: Vec<String> =
                        names.iter().take(MAX_NAMES).map(|name| format!("{:?}", shorten(name.as_bytes()))).collect();
                    let more = if names.len() > MAX_NAMES { ", ..." } else { "" };
                    format!("choose a column (`column`) by name, {}{more}, or by number", shown.join(", "))
                }
                None => format!("choose a column (`column`) by number from 1 to {}", self.width),
            };
            bad_line(&self.path, 1, format!("there is no column {:?}", shorten(field.as_bytes())), &remedy)
        })
    }

    /// Whether there is a column of this name.
    pub(in crate::corpus) fn has(&self, name: &str) -> bool {
        self.names.as_ref().is_some_and(|names| names.iter().any(|known| known == name))
    }

    /// The name of a column that may be given by its number.
    pub(in crate::corpus) fn name_of(&self, column: &str) -> Result<String> {
        let at = self.find(column, self.names.as_deref())?;
        let name = self.names.as_ref().and_then(|names| names.get(at)).filter(|name| !name.is_empty());
        Ok(name.cloned().unwrap_or_else(|| column.to_owned()))
    }

    /// What the record that was handed out last has in a column.
    pub(in crate::corpus) fn value(&self, column: &str) -> Result<String> {
        let column = self.find(column, self.names.as_deref())?;
        Ok(decode(self.record.get(column).unwrap_or_default().to_vec()).0)
    }

    /// The line of the next record, its name and its text.
    pub(in crate::corpus) fn next_record(&mut self) -> Result<Option<Record>> {
        if !std::mem::take(&mut self.pending) && !self.advance()? {
            return Ok(None);
        }
        let line = self.record.position().map_or(0, csv::Position::line);
        if self.record.len() != self.width {
            let (path, expected, found) = (self.path.clone(), self.width, self.record.len());
            return Err(Error::Ragged { path, line, expected, found });
        }
        self.number += 1;
        let field = |column: usize| self.record.get(column).unwrap_or_default().to_vec();
        let id = self.id_column.map(field).filter(|id| !id.trim_ascii().is_empty());
        let id = id.unwrap_or_else(|| self.number.to_string().into_bytes());
        Ok(Some((line, Some(id), field(self.column))))
    }

    fn advance(&mut self) -> Result<bool> {
        let read = self.reader.read_byte_record(&mut self.record);
        // The reader takes the rest of the file for the text in the quotes, without a word.
        if let Some(line) = self.reader.get_ref().unclosed() {
            let remedy = "close it, double quotes within a text, or choose another delimiter";
            return Err(bad_line(&self.path, line, "a quote is opened and not closed".to_owned(), remedy));
        }
        read.map_err(|error| {
            let line = error.position().map_or(0, csv::Position::line);
            match error.into_kind() {
                // Only packed text can be broken to the reader.
                csv::ErrorKind::Io(source) => read_failed(&self.path, true, source),
                _ => bad_line(&self.path, line, "the record cannot be read".to_owned(), "give a CSV file"),
            }
        })
    }
}

/// Names of columns that a message can show.
const MAX_NAMES: usize = 3;

/// Longer texts in quotes are taken for a quote that is not closed.
const MAX_QUOTED: u64 = 1 << 30;

/// A CSV file that keeps track of quotes as the reader of records will see them.
struct Quotes {
    file: TextFile,
    delimiter: u8,
    place: Place,
    /// The line being read, and that in which a quote was opened last; both from 1.
    line: u64,
    opened: u64,
    /// Bytes since then.
    length: u64,
    ended: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    FieldStart,
    Field,
    Quoted,
    /// After a quote within quotes: a second one belongs to the text, anything else ends the quotes.
    QuoteInQuoted,
}

impl Quotes {
    fn new(file: TextFile, delimiter: u8) -> Self {
        Quotes { file, delimiter, place: Place::FieldStart, line: 1, opened: 0, length: 0, ended: false }
    }

    /// The line of a quote that nothing closes, once that is known.
    fn unclosed(&self) -> Option<u64> {
        let quoted = self.place == Place::Quoted;
        (quoted && (self.ended || self.length > MAX_QUOTED)).then_some(self.opened)
    }

    fn follow(&mut self, byte: u8) {
        let ends_field = byte == self.delimiter || byte == b'\n' || byte == b'\r';
        self.place = match self.place {
            Place::FieldStart if byte == b'"' => {
                (self.opened, self.length) = (self.line, 0);
                Place::Quoted
            }
            Place::Quoted if byte == b'"' => Place::QuoteInQuoted,
            Place::QuoteInQuoted if byte == b'"' => Place::Quoted,
            Place::Quoted => Place::Quoted,
            _ if ends_field => Place::FieldStart,
            _ => Place::Field,
        };
        self.length += 1;
        self.line += u64::from(byte == b'\n');
    }
}

impl Read for Quotes {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        buffer[..count].iter().for_each(|&byte| self.follow(byte));
        self.ended |= count == 0;
        if !self.ended && self.unclosed().is_some() {
            return Err(io::Error::other("a quote that is not closed"));
        }
        Ok(count)
    }
}

/// A tab in `.tsv` files, else the first of tab, semicolon and comma that the first line has outside quotes.
fn guess_delimiter(path: &std::path::Path) -> Result<u8> {
    let name = path.to_string_lossy().to_ascii_lowercase();
    if name.trim_end_matches(".gz").ends_with(".tsv") {
        return Ok(b'\t');
    }
    let mut file = TextFile::open(path)?;
    let mut quoted = false;
    let line = file.next_line()?.unwrap_or_default();
    let plain: Vec<u8> = line
        .iter()
        .copied()
        .filter(|&byte| {
            quoted ^= byte == b'"';
            !quoted
        })
        .collect();
    Ok(b"\t;,".iter().copied().find(|byte| plain.contains(byte)).unwrap_or(b','))
}
