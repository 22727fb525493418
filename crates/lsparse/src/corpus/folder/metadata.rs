//! What is known of documents besides their words: named columns in `metadata.csv` of a corpus folder, a line a document.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use crate::error::{Error, Result, brief};

use crate::corpus::METADATA;
use crate::corpus::format::Format;
use crate::corpus::text::documents::{Documents, TextOptions};
use crate::data::formats::csv::{CsvOptions, read_columns};

/// Letters of a value at most: what is longer is no year, place or name.
const LONGEST: usize = 200;

/// Named columns with a value for every document, blank where nothing is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// The names of the columns.
    pub names: Vec<String>,
    /// For each column the values of all documents, in order.
    pub values: Vec<Vec<String>>,
}

impl Metadata {
    /// No document yet.
    fn of_names(names: &[String]) -> Self {
        Metadata { names: names.to_vec(), values: vec![Vec::new(); names.len()] }
    }

    fn push<'a>(&mut self, record: impl Iterator<Item = &'a str>) {
        for (column, value) in self.values.iter_mut().zip(record) {
            // A value is one line, and a short one.
            let plain = value.trim().chars().map(|c| if c.is_control() { ' ' } else { c });
            column.push(plain.take(LONGEST).collect());
        }
    }

    /// Columns of a table of numbers that has so many rows, by their names or, from 1, their numbers.
    pub fn of_table(path: &Path, options: &CsvOptions, columns: &[String], num_rows: usize) -> Result<Self> {
        refuse_repeats(columns)?;
        let (names, values) = read_columns(path, options, columns, num_rows)?;
        let mut found = Metadata::of_names(&names);
        (0..num_rows).for_each(|n| found.push(values.iter().map(|column| column[n].as_str())));
        Ok(found)
    }

    /// Documents that it is of.
    pub fn num_docs(&self) -> usize {
        self.values.first().map_or(0, Vec::len)
    }

    /// The same of some documents.
    pub fn of_documents(&self, documents: impl Iterator<Item = usize> + Clone) -> Self {
        let pick = |column: &Vec<String>| documents.clone().filter_map(|n| column.get(n).cloned()).collect();
        Metadata { names: self.names.clone(), values: self.values.iter().map(pick).collect() }
    }

    /// Only these columns, in this order.
    pub fn only(&self, names: &[String]) -> Result<Self> {
        let mut found = Metadata::of_names(names);
        for (name, values) in names.iter().zip(&mut found.values) {
            let Some(at) = self.names.iter().position(|known| known == name) else {
                let problem = format!("there is no column {:?}", brief(name));
                let remedy = format!("choose of {}", self.names.join(", "));
                return Err(Error::Config { setting: "keep", problem, remedy });
            };
            values.clone_from(&self.values[at]);
        }
        Ok(found)
    }

    /// Read that of a corpus folder with so many documents; none if it has none.
    pub(in crate::corpus) fn read(folder: &Path, num_docs: usize) -> Result<Option<Self>> {
        let path = folder.join(METADATA);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(Error::Io { path, action: "read", source }),
        };
        let damaged = |detail: String| Error::Format {
            path: path.clone(),
            detail,
            remedy: "build the corpus again, or take the file away".to_owned(),
        };
        let failed = |error: csv::Error| damaged(format!("it cannot be read ({})", brief(error)));
        let mut reader = csv::Reader::from_reader(BufReader::new(file));
        let names: Vec<String> = reader.headers().map_err(failed)?.iter().map(str::to_owned).collect();
        let mut found = Metadata::of_names(&names);
        for record in reader.records() {
            found.push(record.map_err(failed)?.iter());
        }
        if found.num_docs() != num_docs {
            return Err(damaged(format!("{} lines for {num_docs} documents", found.num_docs())));
        }
        Ok(Some(found))
    }

    /// Write it into a corpus folder.
    pub(in crate::corpus) fn write(&self, folder: &Path) -> Result<()> {
        let path = folder.join(METADATA);
        let failed = |source: std::io::Error| Error::Unwritable { path: path.clone(), source };
        let mut writer = csv::Writer::from_writer(File::create(&path).map_err(failed)?);
        let as_io = |error: csv::Error| failed(std::io::Error::from(error));
        writer.write_record(&self.names).map_err(as_io)?;
        for n in 0..self.num_docs() {
            writer.write_record(self.values.iter().map(|column| &column[n])).map_err(as_io)?;
        }
        writer.flush().map_err(failed)
    }
}

/// A column is kept once.
fn refuse_repeats(names: &[String]) -> Result<()> {
    let Some(twice) = (1..names.len()).find(|&at| names[..at].contains(&names[at])) else { return Ok(()) };
    let problem = format!("{:?} is there twice", brief(&names[twice]));
    Err(Error::Config { setting: "keep", problem, remedy: "give each once".to_owned() })
}

/// Those of these fields or columns that documents of a file or folder of text have.
pub(in crate::corpus) fn known_fields(
    input: &Path,
    format: Format,
    options: &TextOptions,
    names: &[String],
) -> Result<Vec<String>> {
    if format != Format::Jsonl && format != Format::Csv {
        return Ok(Vec::new());
    }
    let mut documents = Documents::open(input, format, options)?;
    let mut known = vec![false; names.len()];
    while let Some(found) = documents.fields_there(names)? {
        known.iter_mut().zip(found).for_each(|(known, there)| *known |= there);
        if known.iter().all(|known| *known) {
            break;
        }
    }
    Ok(names.iter().zip(known).filter(|(_, known)| *known).map(|(name, _)| name.clone()).collect())
}

/// The fields of JSON objects, or columns of CSV, of all documents of a file or folder of text.
pub fn read_metadata(
    input: &Path,
    format: Option<Format>,
    options: &TextOptions,
    names: &[String],
) -> Result<Metadata> {
    let format = format.map_or_else(|| Format::guess(input), Ok)?;
    let refuse = |problem: &str, remedy: &str| {
        Err(Error::Config { setting: "keep", problem: problem.to_owned(), remedy: remedy.to_owned() })
    };
    refuse_repeats(names)?;
    if format != Format::Jsonl && format != Format::Csv {
        return refuse("only JSON objects and CSV have named fields", "leave it out, or give such a file");
    }
    let mut documents = Documents::open(input, format, options)?;
    let mut found = Metadata::of_names(names);
    while let Some(values) = documents.next_fields(names)? {
        if found.num_docs() == 0 {
            found.names = documents.names_of(names)?;
            refuse_repeats(&found.names)?;
        }
        found.push(values.iter().map(String::as_str));
    }
    // (That a file of CSV has its columns was seen before.)
    let unknown = found.values.iter().position(|column| !column.is_empty() && column.iter().all(String::is_empty));
    if let Some(at) = unknown.filter(|_| format == Format::Jsonl) {
        return refuse(&format!("no document has a field {:?}", brief(&names[at])), "check the spelling of its name");
    }
    Ok(found)
}
