//! Stream the documents of text files: a file, a line, a JSON object or a CSV record each.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};

use crate::corpus::folder::counts::Corpus;
use crate::corpus::format::Format;
use crate::corpus::text::csv_records::CsvRecords;
use crate::corpus::text::json;
use crate::corpus::text::text_file::{TextFile, decode_text};

/// What to do about a file in a folder that is not text.
const NOT_TEXT: &str = "take it out of the folder, or read only files with one ending (`extension txt`)";

/// Which part of a file is text, and what its documents are called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextOptions {
    /// The field of JSON objects, or the column of CSV by name or by number from 1. None: `text`, or the only column.
    pub field: Option<String>,
    /// The field or column with the name of a document. None: documents are called by number, files by their path.
    pub id_field: Option<String>,
    /// Whether the first line of CSV names the columns.
    pub header: bool,
    /// The byte between fields of CSV. None: a tab in `.tsv` files, else the first of tab, `;` and `,` in the file.
    pub delimiter: Option<u8>,
    /// Read only files with this ending from a folder.
    pub extension: Option<String>,
    /// Whether bytes that are no UTF-8 are an error.
    pub strict: bool,
}

impl Default for TextOptions {
    fn default() -> Self {
        TextOptions { field: None, id_field: None, header: true, delimiter: None, extension: None, strict: false }
    }
}

/// A document that was read but not decoded yet.
pub(in crate::corpus) struct RawDoc {
    path: Arc<Path>,
    /// The line it starts in.
    line: u64,
    id: Option<Vec<u8>>,
    bytes: Vec<u8>,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    File,
    Json,
    Text,
}

/// A document.
pub(in crate::corpus) struct Document {
    pub(in crate::corpus) id: String,
    pub(in crate::corpus) text: String,
    /// Pieces of it that were no UTF-8.
    pub(in crate::corpus) replaced: u64,
}

/// The documents of a file or folder, in order.
pub(in crate::corpus) struct Documents {
    format: Format,
    options: TextOptions,
    /// Files still to be read, with the names of their documents.
    files: VecDeque<(PathBuf, String)>,
    /// Whether the names of documents start with that of their file.
    several: bool,
    reader: Reader,
    prefix: String,
    file: Arc<Path>,
    taken: Arc<AtomicU64>,
    /// Bytes of the files that are done.
    done: u64,
    total: u64,
}

enum Reader {
    None,
    Lines(TextFile),
    Csv(Box<CsvRecords>),
}

impl Documents {
    pub(in crate::corpus) fn open(path: &Path, format: Format, options: &TextOptions) -> Result<Self> {
        let is_folder = fs::metadata(path)
            .map_err(|source| match source.kind() {
                std::io::ErrorKind::NotFound => Error::NotFound { path: path.to_owned() },
                _ => Error::Io { path: path.to_owned(), action: "open", source },
            })?
            .is_dir();
        let files = if is_folder {
            list_files(path, options.extension.as_deref())?
        } else {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            vec![(path.to_owned(), name)]
        };
        let size = |path: &Path| fs::metadata(path).map(|found| found.len()).unwrap_or(0);
        Ok(Documents {
            format,
            options: options.clone(),
            total: files.iter().map(|(path, _)| size(path)).sum(),
            files: files.into(),
            several: is_folder,
            reader: Reader::None,
            prefix: String::new(),
            file: Arc::from(path),
            taken: Arc::default(),
            done: 0,
        })
    }

    /// Bytes of the files, before they are unpacked: read so far, and in all.
    pub(in crate::corpus) fn progress(&self) -> (u64, u64) {
        (self.done + self.taken.load(Ordering::Relaxed), self.total)
    }

    /// The next document.
    pub(in crate::corpus) fn next_doc(&mut self) -> Result<Option<RawDoc>> {
        loop {
            let doc = match &mut self.reader {
                Reader::None => None,
                Reader::Lines(file) => next_line(file, self.format == Format::Jsonl)?,
                Reader::Csv(records) => records.next_record()?,
            };
            if let Some((line, id, bytes)) = doc {
                let kind = if self.format == Format::Jsonl { Kind::Json } else { Kind::Text };
                let id = id.map(|id| [self.prefix.as_bytes(), &id].concat());
                return Ok(Some(RawDoc { path: Arc::clone(&self.file), line, id, bytes, kind }));
            }
            self.done += self.taken.swap(0, Ordering::Relaxed);
            self.reader = Reader::None;
            let Some((path, name)) = self.files.pop_front() else { return Ok(None) };
            if self.format == Format::Files {
                // The file itself is read by whoever decodes the document.
                self.done += fs::metadata(&path).map(|found| found.len()).unwrap_or(0);
                let id = Some(name.into_bytes());
                return Ok(Some(RawDoc { path: path.into(), line: 1, id, bytes: Vec::new(), kind: Kind::File }));
            }
            let file = TextFile::open(&path)?;
            self.taken = file.taken();
            self.prefix = if self.several { format!("{name}:") } else { String::new() };
            self.file = Arc::from(path);
            self.reader = match self.format {
                Format::Csv => Reader::Csv(Box::new(CsvRecords::open(file, &self.options)?)),
                _ => Reader::Lines(file),
            };
        }
    }
}

impl Documents {
    /// What these fields or columns of the document that was handed out last are called: a column may be given by its number.
    pub(in crate::corpus) fn names_of(&self, names: &[String]) -> Result<Vec<String>> {
        match &self.reader {
            Reader::Csv(records) => names.iter().map(|name| records.name_of(name)).collect(),
            _ => Ok(names.to_vec()),
        }
    }

    /// Which of these fields or columns the next document has.
    pub(in crate::corpus) fn fields_there(&mut self, names: &[String]) -> Result<Option<Vec<bool>>> {
        let Some(doc) = self.next_doc()? else { return Ok(None) };
        if let Reader::Csv(records) = &self.reader {
            return Ok(Some(names.iter().map(|name| records.has(name)).collect()));
        }
        Ok(Some(self.picked(doc, names)?.iter().map(|value| !value.is_empty()).collect()))
    }

    /// What the next document has in these fields or columns, in their order; blank where it has nothing.
    pub(in crate::corpus) fn next_fields(&mut self, names: &[String]) -> Result<Option<Vec<String>>> {
        let Some(doc) = self.next_doc()? else { return Ok(None) };
        if let Reader::Csv(records) = &self.reader {
            return names.iter().map(|name| records.value(name)).collect::<Result<_>>().map(Some);
        }
        self.picked(doc, names).map(Some)
    }

    /// These fields of a document that is a JSON object.
    fn picked(&self, doc: RawDoc, names: &[String]) -> Result<Vec<String>> {
        let RawDoc { path, line, bytes, .. } = doc;
        let (text, _) = decode_text(&path, line, bytes, self.options.strict)?;
        let found = json::pick_all(&text, names);
        found.map_err(|(detail, remedy)| Error::BadLine { path: path.to_path_buf(), line, detail, remedy })
    }
}

/// The line of a document, its name and its text.
pub(in crate::corpus) type Record = (u64, Option<Vec<u8>>, Vec<u8>);

fn next_line(file: &mut TextFile, skip_empty: bool) -> Result<Option<Record>> {
    while let Some(line) = file.next_line()? {
        if skip_empty && line.trim_ascii().is_empty() {
            continue;
        }
        let bytes = line.to_vec();
        return Ok(Some((file.line(), Some(file.line().to_string().into_bytes()), bytes)));
    }
    Ok(None)
}

impl RawDoc {
    /// Bytes that are known of it, more or less.
    pub(in crate::corpus) fn size(&self) -> usize {
        match self.kind {
            Kind::File => fs::metadata(&self.path).map(|found| found.len() as usize).unwrap_or(0),
            _ => self.bytes.len(),
        }
    }

    /// Decode it, reading the file if it is one.
    pub(in crate::corpus) fn decode(self, options: &TextOptions) -> Result<Document> {
        let RawDoc { path, line, id, mut bytes, kind } = self;
        if let Kind::File = kind {
            TextFile::open_among(&path, NOT_TEXT)?.read_rest(&mut bytes)?;
        }
        let (text, mut replaced) = decode_text(&path, line, bytes, options.strict)?;
        let (id, broken) = decode_text(&path, line, id.unwrap_or_default(), options.strict)?;
        replaced += broken;
        if let Kind::Json = kind {
            let field = options.field.as_deref().unwrap_or("text");
            let found = json::pick(&text, field, options.id_field.as_deref());
            let (text, named) =
                found.map_err(|(detail, remedy)| Error::BadLine { path: path.to_path_buf(), line, detail, remedy })?;
            return Ok(Document { id: named.unwrap_or(id), text, replaced });
        }
        Ok(Document { id, text, replaced })
    }
}

/// The files below a folder with their names relative to it, in the order of these. Hidden ones are passed over.
fn list_files(folder: &Path, extension: Option<&str>) -> Result<Vec<(PathBuf, String)>> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| Error::Io { path, action: "list", source }
    };
    let mut files = Vec::new();
    let mut folders = vec![(folder.to_owned(), String::new())];
    while let Some((folder, prefix)) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(failed(&folder))? {
            let entry = entry.map_err(failed(&folder))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with('.') {
                continue;
            }
            let (path, name) = (entry.path(), format!("{prefix}{name}"));
            // Links to files are followed, links to folders are not: they may lead in circles. A corpus that was built
            // here before is not text.
            if entry.file_type().map_err(failed(&path))?.is_dir() {
                if !Corpus::is_corpus(&path) {
                    folders.push((path, format!("{name}/")));
                }
            } else if path.is_file() && has_extension(&name, extension) {
                files.push((path, name));
            }
        }
    }
    files.sort_by(|a, b| a.1.cmp(&b.1).then_with(|| a.0.cmp(&b.0)));
    if files.is_empty() {
        return Err(Error::Format {
            path: folder.to_owned(),
            detail: match extension {
                Some(extension) => {
                    format!("the folder has no files that end in .{}", extension.trim_start_matches('.'))
                }
                None => "the folder has no files".to_owned(),
            },
            remedy: "give a folder of text files".to_owned(),
        });
    }
    Ok(files)
}

fn has_extension(name: &str, extension: Option<&str>) -> bool {
    let Some(extension) = extension else { return true };
    let (name, extension) = (name.to_lowercase(), extension.trim_start_matches('.').to_lowercase());
    let name = name.strip_suffix(".gz").filter(|_| extension != "gz").unwrap_or(&name);
    name.rsplit_once('.').is_some_and(|(_, found)| found == extension)
}
