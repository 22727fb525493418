//! Read numbers from text: CSV, TSV or columns parted by blanks, gzipped or not, into memory.
//!
//! Lines that start with `#` are passed over, and so are empty lines, but for those of a single column whose values may be
//! missing. Fields may be quoted, but a quoted field does not go
//! on over lines: numbers have no need to, and so every error can name its line.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use crate::error::{Error, Result};
use crate::system::check_growth;

use crate::data::formats::binary::check_text;
use crate::data::memory::MemoryRows;

/// The first bytes of every gzip file.
pub(crate) const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// How to read text; what is `None` is guessed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CsvOptions {
    /// Whether the first line names the columns. Guess: it does if its fields are words; words among numbers are an
    /// error, since they may as well be misspelt numbers.
    pub header: Option<bool>,
    /// The byte between fields; a blank stands for any run of blanks and tabs. Guess: a tab in a
    /// `.tsv` file, else the first of tab, `;`, `,` and blank that the first line has.
    pub delimiter: Option<u8>,
    /// Whether values may be missing: empty fields, `NA`, `N/A`, `NaN`, `null`, `none` and `?` are then NaN rather than
    /// errors.
    pub missing: bool,
    /// Columns that are no data, by their names or, from 1, their numbers.
    pub leave_out: Vec<String>,
}

impl CsvOptions {
    /// Whether the options can be used.
    pub fn check(&self) -> Result<()> {
        match self.delimiter {
            Some(byte) if byte.is_ascii_alphanumeric() || b"\r\n\"#.+-".contains(&byte) => Err(Error::Config {
                setting: "delimiter",
                problem: format!("{:?} cannot part numbers", char::from(byte)),
                remedy: "choose a comma, a semicolon, a tab or a blank".to_owned(),
            }),
            _ => Ok(()),
        }
    }
}

/// Read a text file of numbers, one row a line.
pub fn read_csv(path: &Path, options: &CsvOptions) -> Result<MemoryRows<f64>> {
    read_table(path, options, None).map(|(rows, _)| rows)
}

/// The same for a table with a column of names, which is no data: rows, and what that column has for each. The column goes
/// by its name or, from 1, by its number.
pub fn read_csv_with_keys(path: &Path, options: &CsvOptions, column: &str) -> Result<(MemoryRows<f64>, Vec<String>)> {
    read_table(path, options, Some(column))
}

/// What some columns have in each of so many rows, as text, and what they are called: by their names or, from 1, their
/// numbers.
pub fn read_columns(
    path: &Path,
    options: &CsvOptions,
    columns: &[String],
    num_rows: usize,
) -> Result<(Vec<String>, Vec<Vec<String>>)> {
    let mut header = options.header;
    let mut at: Option<Vec<usize>> = None;
    let mut found: Vec<Vec<String>> = vec![Vec::new(); columns.len()];
    each_line(path, options, &mut |number, fields| {
        if fields.is_empty() {
            return Ok(());
        }
        if at.is_none() {
            let find = |column: &String| find_column(path, &fields, column, "keep", &mut header);
            at = Some(columns.iter().map(find).collect::<Result<_>>()?);
        }
        for (&at, values) in at.iter().flatten().zip(&mut found) {
            let ragged =
                || Error::Ragged { path: path.to_owned(), line: number, expected: at + 1, found: fields.len() };
            values.push(String::from_utf8_lossy(fields.get(at).ok_or_else(ragged)?).into_owned());
        }
        Ok(())
    })?;
    let lines = found.first().map_or(0, Vec::len);
    let mut names = columns.to_vec();
    // The first line is one more than there are rows where it has the names.
    if lines == num_rows + 1 {
        names = found.iter_mut().map(|values| values.remove(0)).collect();
    }
    match found.iter().all(|values| values.len() == num_rows) {
        true => Ok((names, found)),
        false => Err(Error::Config {
            setting: "keep",
            problem: format!("{} has {lines} lines for {num_rows} rows", path.display()),
            remedy: "give the table that the rows are from".to_owned(),
        }),
    }
}

/// Where a column is by the first line: by its number, or by its name, and then that line is no data.
fn find_column(
    path: &Path,
    fields: &[&[u8]],
    column: &str,
    setting: &'static str,
    header: &mut Option<bool>,
) -> Result<usize> {
    let named = fields.iter().position(|field| *field == column.as_bytes()).filter(|_| *header != Some(false));
    let numbered = column.parse::<usize>().ok().filter(|&n| n >= 1 && n <= fields.len()).map(|n| n - 1);
    let Some(at) = numbered.or(named) else {
        return Err(Error::Config {
            setting,
            problem: format!(
                "{} has no column {:?} among its {}",
                path.display(),
                shorten(column.as_bytes()),
                fields.len()
            ),
            remedy: "give the name of a column as the first line has it, or its number, from 1".to_owned(),
        });
    };
    if numbered.is_none() {
        *header = Some(true);
    }
    Ok(at)
}

/// Columns that are no data, once the first line is seen.
struct Aside {
    /// The column of names.
    key: Option<usize>,
    /// All that are taken out, the last first.
    all: Vec<usize>,
}

fn read_table(path: &Path, options: &CsvOptions, key: Option<&str>) -> Result<(MemoryRows<f64>, Vec<String>)> {
    let (header, missing) = (options.header, options.missing);
    let mut table =
        Table { path, header, missing, note: None, names: Vec::new(), dim: None, num_rows: 0, values: Vec::new() };
    let (mut aside, mut keys) = (None, Vec::new());
    // Empty lines before it is known that there is one column.
    let mut empty = 0;
    each_line(path, options, &mut |number, mut fields| {
        if fields.is_empty() {
            match &aside {
                None => empty += 1,
                Some(Aside { all, .. }) if all.is_empty() && table.width() == Some(1) => table.push_missing(1),
                Some(_) => {}
            }
            return Ok(());
        }
        if aside.is_none() {
            let header = &mut table.header;
            let key = key.map(|key| find_column(path, &fields, key, "group-column", header)).transpose()?;
            let mut all: Vec<usize> = key.into_iter().collect();
            for column in &options.leave_out {
                all.push(find_column(path, &fields, column, "leave-out", header)?);
            }
            all.sort_unstable_by(|a, b| b.cmp(a));
            all.dedup();
            aside = Some(Aside { key, all });
        }
        let Some(Aside { key, all }) = &aside else { return Ok(()) };
        if table.width().is_none() && all.len() >= fields.len() {
            let setting = if options.leave_out.is_empty() { "group-column" } else { "leave-out" };
            let problem = format!("it leaves no column of {} that is data", path.display());
            return Err(Error::Config { setting, problem, remedy: "leave fewer columns out".to_owned() });
        }
        if all.first().is_some_and(|&last| last >= fields.len()) || all.len() >= fields.len() {
            let expected = table.dim.map_or(all.len() + 1, |dim| dim + all.len());
            return Err(Error::Ragged { path: path.to_owned(), line: number, expected, found: fields.len() });
        }
        let its_key = key.map(|at| String::from_utf8_lossy(fields[at]).into_owned());
        for &at in all {
            fields.remove(at);
        }
        let before = table.num_rows;
        if table.width().is_none()
            && fields.len() == 1
            && all.is_empty()
            && !table.begins_with_names(number, &fields)?
        {
            table.push_missing(empty);
        }
        table.push_line(number, &fields)?;
        if table.num_rows > before {
            keys.extend(its_key);
        }
        Ok(())
    })?;
    if let (Some(note), 0) = (&table.note, table.num_rows) {
        return Err(Error::NamesAlone { path: path.to_owned(), note: note.clone() });
    }
    let note = table.note.take().map(|note| format!("{}: {note}", path.display()));
    let rows = MemoryRows::new(path.display().to_string(), table.dim.unwrap_or(1), table.values)?.with_note(note);
    let rows = if Some(table.names.len()) == table.dim { rows.with_columns(table.names) } else { rows };
    Ok((rows, keys))
}

/// Hand on the number and the fields of every line of a text file that is no comment; of empty lines, which have none, only
/// where values may be missing.
fn each_line(path: &Path, options: &CsvOptions, visit: &mut dyn FnMut(u64, Vec<&[u8]>) -> Result<()>) -> Result<()> {
    options.check()?;
    let failed = |source: io::Error| match source.kind() {
        // Decompression fails so; plain files do not.
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::UnexpectedEof => Error::Format {
            path: path.to_owned(),
            detail: format!("the gzip data is broken ({source})"),
            remedy: "copy or compress the file again".to_owned(),
        },
        _ => Error::Io { path: path.to_owned(), action: "read", source },
    };
    let opened = File::open(path);
    let file = opened.map_err(|source| Error::Io { path: path.to_owned(), action: "open", source })?;
    let mut file = BufReader::with_capacity(1 << 16, file);
    let gzipped = file.fill_buf().map_err(failed)?.starts_with(&GZIP_MAGIC);
    let mut text: Box<dyn BufRead> =
        if gzipped { Box::new(BufReader::new(MultiGzDecoder::new(file))) } else { Box::new(file) };
    check_text(path, text.fill_buf().map_err(failed)?, None)?;
    let mut delimiter = options.delimiter;
    let (mut bytes, mut number) = (Vec::new(), 0);
    while text.read_until(b'\n', &mut bytes).map_err(failed)? > 0 {
        let lines = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        // Old files end their lines with a carriage return alone, and are one line by line feeds.
        for line in lines.strip_suffix(b"\r").unwrap_or(lines).split(|&byte| byte == b'\r') {
            number += 1;
            // Some editors mark the start of a text.
            let marked = if number == 1 { line.strip_prefix(b"\xef\xbb\xbf") } else { None };
            let line = marked.unwrap_or(line);
            if line.starts_with(b"#") {
                continue;
            }
            if line.trim_ascii().is_empty() {
                if options.missing {
                    visit(number, Vec::new())?;
                }
                continue;
            }
            if !line.iter().filter(|&&byte| byte == b'"').count().is_multiple_of(2) {
                return Err(Error::BadLine {
                    path: path.to_owned(),
                    line: number,
                    detail: "a quote is opened and not closed".to_owned(),
                    remedy: "close it, or take it out".to_owned(),
                });
            }
            let delimiter = *delimiter.get_or_insert_with(|| guess_delimiter(path, line));
            visit(number, split(line, delimiter))?;
        }
        bytes.clear();
    }
    Ok(())
}

/// The first of the usual delimiters on the first line that holds anything.
fn guess_delimiter(path: &Path, line: &[u8]) -> u8 {
    let name = path.to_string_lossy().to_ascii_lowercase();
    if name.trim_end_matches(".gz").ends_with(".tsv") {
        return b'\t';
    }
    let line = line.trim_ascii();
    b"\t;, ".iter().copied().find(|byte| line.contains(byte)).unwrap_or(b',')
}

/// The fields of a line, without the blanks and quotes around them.
fn split(line: &[u8], delimiter: u8) -> Vec<&[u8]> {
    if delimiter == b' ' {
        return line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty()).map(unquote).collect();
    }
    let mut quoted = false;
    let fields = line.split(|&byte| {
        quoted ^= byte == b'"';
        byte == delimiter && !quoted
    });
    fields.map(unquote).collect()
}

fn unquote(field: &[u8]) -> &[u8] {
    let field = field.trim_ascii();
    let inner = field.strip_prefix(b"\"").and_then(|field| field.strip_suffix(b"\""));
    inner.map_or(field, <[u8]>::trim_ascii)
}

/// The rows read so far.
struct Table<'a> {
    path: &'a Path,
    /// Whether the next line is a header, if that is known.
    header: Option<bool>,
    /// Whether values may be missing.
    missing: bool,
    /// What was taken for a header without being told.
    note: Option<String>,
    /// The names of the columns, where a header has them.
    names: Vec<String>,
    dim: Option<usize>,
    num_rows: usize,
    values: Vec<f64>,
}

impl Table<'_> {
    /// Columns, once the first line is seen.
    fn width(&self) -> Option<usize> {
        self.dim.or((!self.names.is_empty()).then_some(self.names.len()))
    }

    /// So many rows of one column of which nothing is known.
    fn push_missing(&mut self, rows: usize) {
        self.dim = Some(1);
        self.values.resize(self.values.len() + rows, f64::NAN);
        self.num_rows += rows;
    }

    /// Whether the first line names the columns; from then on that is known.
    fn begins_with_names(&mut self, line: u64, fields: &[&[u8]]) -> Result<bool> {
        let header = match self.header {
            Some(header) => header,
            None => self.guess_header(line, fields)?,
        };
        self.header = Some(header);
        Ok(header)
    }

    fn push_line(&mut self, line: u64, fields: &[&[u8]]) -> Result<()> {
        let header = self.begins_with_names(line, fields)?;
        self.header = Some(false);
        if header {
            self.mention_unnamed(fields);
            self.names = fields.iter().map(|field| String::from_utf8_lossy(field).into_owned()).collect();
            return Ok(());
        }
        let count = fields.len();
        let expected = *self.dim.get_or_insert(count);
        if count != expected {
            return Err(Error::Ragged { path: self.path.to_owned(), line, expected, found: count });
        }
        let what = || format!("{} (unpacked, from line {line} on)", self.path.display());
        let remedy = "give fewer rows at a time, or a .npy file, which is read as it is needed";
        check_growth(what, &self.values, count, remedy)?;
        for (column, field) in fields.iter().enumerate() {
            if self.missing && is_missing(field) {
                self.values.push(f64::NAN);
                continue;
            }
            let value = parse(field).ok_or_else(|| Error::NotANumber {
                path: self.path.to_owned(),
                line,
                column,
                text: shorten(field),
                is_missing: is_missing(field),
            })?;
            if !value.is_finite() {
                let name = self.path.display().to_string();
                let row = self.num_rows;
                return Err(Error::NotFinite { name, line: Some(line), row, column, value });
            }
            self.values.push(value);
        }
        self.num_rows += 1;
        Ok(())
    }
}

impl Table<'_> {
    /// Whether the first line names the columns, and a note if it does.
    fn guess_header(&mut self, line: u64, fields: &[&[u8]]) -> Result<bool> {
        let is_word = |field: &&[u8]| {
            let stands_for_nothing = field.is_empty() || self.missing && is_missing(field);
            !stands_for_nothing && parse(field).is_none() && !is_decimal_comma(field)
        };
        let Some(word) = fields.iter().position(is_word) else { return Ok(false) };
        if fields.iter().any(|field| parse(field).is_some()) {
            // A row of data that lacks some, which is said as of any other.
            if fields.iter().filter(|field| is_word(field)).all(|field| is_missing(field)) {
                return Ok(false);
            }
            let (column, text) = (word + 1, shorten(fields[word]));
            return Err(Error::BadLine {
                path: self.path.to_owned(),
                line,
                detail: format!("column {column} is {text:?}, which is no number, among others that are"),
                remedy: "mend it, leave the column out (`leave-out COLUMN`), or say that the line names the columns \
                         (`header yes`)"
                    .to_owned(),
            });
        }
        // A name with a comma would look like two. Within quotes two of them stand for one.
        let quoted = |name: String| if name.contains([',', '"']) { format!("\"{name}\"") } else { name };
        let shown = |field: &&[u8]| quoted(shorten(field).replace("\"\"", "\""));
        let names: Vec<String> = fields.iter().take(4).map(shown).collect();
        let more = if fields.len() > names.len() { ", ..." } else { "" };
        let names = names.join(", ");
        self.note = Some(format!(
            "line {line} is taken for the names of the columns ({names}{more}); `header no` reads it as data"
        ));
        Ok(true)
    }

    /// Point at a column without a name: what tables are written with besides their columns is no data.
    fn mention_unnamed(&mut self, fields: &[&[u8]]) {
        let Some(column) = fields.iter().position(|field| field.is_empty()).filter(|_| fields.len() > 1) else {
            return;
        };
        let note = format!(
            "column {} has no name and is read as data; if it numbers the rows, write the table without it (pandas: \
             index=False)",
            column + 1
        );
        self.note = Some(self.note.take().map_or(note.clone(), |before| format!("{before}; {note}")));
    }
}

/// Whether a field is a number with a decimal comma: a mistake in data, and no name of a column.
fn is_decimal_comma(field: &[u8]) -> bool {
    let mut parts = field.splitn(2, |&byte| byte == b',');
    let (whole, rest) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let whole = whole.strip_prefix(b"-").unwrap_or(whole);
    [whole, rest].iter().all(|digits| !digits.is_empty() && digits.iter().all(u8::is_ascii_digit))
}

/// How tables say that a value is missing, besides saying nothing, in letters of either size.
const MISSING: [&str; 8] = ["na", "nan", "n/a", "#n/a", "<na>", "null", "none", "?"];

/// Whether a field says that a value is missing.
fn is_missing(field: &[u8]) -> bool {
    field.is_empty() || MISSING.iter().any(|word| field.eq_ignore_ascii_case(word.as_bytes()))
}

fn parse(field: &[u8]) -> Option<f64> {
    std::str::from_utf8(field).ok()?.parse().ok()
}

/// What a message can show of a field.
fn shorten(field: &[u8]) -> String {
    let text = String::from_utf8_lossy(field);
    let mut short: String = text.chars().take(30).collect();
    if short.len() < text.len() {
        short.push_str("...");
    }
    short
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;
    use crate::data::RowSource;

    fn read_named(name: &str, text: &[u8], options: &CsvOptions) -> Result<MemoryRows<f64>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        read_csv(&path, options)
    }

    fn read(text: &str) -> Result<MemoryRows<f64>> {
        read_named("x.csv", text.as_bytes(), &CsvOptions::default())
    }

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn delimiters_and_headers_are_guessed() {
        let texts = [
            "1,2\n3,4\n",
            "1;2\r\n3;4",
            "1\t2\n3\t4\n",
            "  1   2\n\n 3\t4\n",
            "a,b\n1,2\n3,4\n",
            "\"a, or so\",b\n\"1\", 2\n3,4e0\n",
            "# made by hand\n1,2\n# more\n3,4\n\n",
            "\u{feff}1,2\n3,4\n",
            "name value\n1 2\n3 4\n",
            "a,b\r1,2\r3,4\r",
            "1,2\r3,4",
        ];
        for text in texts {
            let rows = read(text).unwrap_or_else(|error| panic!("{text:?}: {error}"));
            assert_eq!(rows.dim(), 2, "{text:?}");
            assert_eq!(rows.values(), [1.0, 2.0, 3.0, 4.0], "{text:?}");
        }
        assert_eq!(read("5\n-.5\n1e3\n").unwrap().values(), [5.0, -0.5, 1e3]);
    }

    #[test]
    fn a_header_is_mentioned_and_a_misspelt_number_is_none() {
        let rows = read("height,weight,\"a, or b\"\n1,2,3\n").unwrap();
        let note = rows.note().unwrap();
        assert!(note.contains("line 1 is taken for the names of the columns (height, weight, \"a, or b\")"), "{note}");
        assert!(note.contains("`header no`"), "{note}");
        assert_eq!(read("1,2\n").unwrap().note(), None);
        let rows = read("\"x,\"\"y\",b\n1,2\n").unwrap();
        assert!(rows.note().unwrap().contains("columns (\"x,\"y\", b)"), "{}", rows.note().unwrap());
        let told = CsvOptions { header: Some(true), ..Default::default() };
        for options in [CsvOptions::default(), told] {
            let rows = read_named("x.csv", b",a,b\n0,1,2\n", &options).unwrap();
            let note = rows.note().unwrap();
            assert!(note.contains("column 1 has no name") && note.contains("index=False"), "{note}");
        }
        let told = CsvOptions { header: Some(true), ..Default::default() };
        assert_eq!(read_named("x.csv", b"a,b\n1,2\n", &told).unwrap().note(), None);
        for (text, expected) in [
            ("1,N/A,3\n4,5,6\n", "line 1, column 2: \"N/A\" is not a number; put a number there, drop"),
            ("1,N/A,3\n4,5,6\n", "with `missing` full and diagonal Gaussians take it for a missing value"),
            ("a,b\n4,?\n", "line 2, column 2: \"?\" is not a number"),
            ("a,b\n4,?\n", "with `missing`"),
            ("a,b\n4,\n", "with `missing`"),
            ("1,2.o,3\n4,5,6\n", "line 1: column 2 is \"2.o\", which is no number, among others that are"),
            ("1,5;2,5\n3,5;4,5\n", "line 1, column 1: \"1,5\" is not a number (decimals take a point"),
            ("1,\"2\n3,4\n", "line 1: a quote is opened and not closed"),
            ("1,2\n3,4\"\n", "line 2: a quote is opened and not closed"),
        ] {
            let message = read(text).unwrap_err().to_string();
            assert!(message.contains(expected), "{text:?}: {message}");
        }
    }

    #[test]
    fn empty_lines_of_a_single_column_are_missing_values() {
        let missing = CsvOptions { missing: true, ..Default::default() };
        let column = |text: &[u8], options: &CsvOptions| {
            let rows = read_named("x.csv", text, options).unwrap();
            let mut values = crate::data::Rows::<f64>::dense(rows.dim());
            rows.read_f64(0, rows.num_rows(), &mut values).unwrap();
            values.as_dense().unwrap().iter().map(|value| value.to_string()).collect::<Vec<_>>().join(" ")
        };
        for (text, found) in [
            ("\n\n5\n\n7\n", "NaN NaN 5 NaN 7"),
            ("5\n \n# a remark\n7\n\n", "5 NaN 7 NaN"),
            // Lines above names are none of data.
            ("\nx\n\n5\n", "NaN 5"),
            ("\n1,2\n\n3,4\n", "1 2 3 4"),
        ] {
            assert_eq!(column(text.as_bytes(), &missing), found, "{text:?}");
        }
        assert_eq!(column(b"\n5\n\n7\n", &CsvOptions::default()), "5 7");
    }

    #[test]
    fn missing_values_are_allowed_where_that_is_said() {
        let missing = CsvOptions { missing: true, ..Default::default() };
        let rows = read_named("x.csv", b"NA,2\n3,\nnan,5\n", &missing).unwrap();
        let lacks: Vec<bool> = rows.values().iter().map(|value| value.is_nan()).collect();
        assert_eq!(lacks, [true, false, false, true, true, false]);
        assert!(read_named("x.csv", b"1,2\n3,inf\n", &missing).is_err());
        let spelled = b"1,2\nN/A,#N/A\nnull,None\n?,<NA>\n";
        let rows = read_named("x.csv", spelled, &missing).unwrap();
        assert!(rows.values()[..2] == [1.0, 2.0] && rows.values()[2..].iter().all(|value| value.is_nan()));
        assert!(read("1,2\n3,\n").is_err() && read("1,2\n3,nan\n").is_err());
    }

    #[test]
    fn options_win_over_guesses() {
        let header = CsvOptions { header: Some(true), ..Default::default() };
        let rows = read_named("x.csv", b"1,2\n3,4\n", &header).unwrap();
        assert_eq!(rows.values(), [3.0, 4.0]);
        let none = CsvOptions { header: Some(false), delimiter: Some(b'|'), missing: false, ..CsvOptions::default() };
        assert!(read_named("x.csv", b"a|b\n", &none).is_err());
        let letter = CsvOptions { delimiter: Some(b'e'), ..Default::default() };
        assert!(matches!(read_named("x.csv", b"1", &letter), Err(Error::Config { .. })));
        let tsv = read_named("x.TSV", b"1\n2\n", &CsvOptions::default()).unwrap();
        assert_eq!(tsv.num_rows(), 2);
    }

    #[test]
    fn gzip_is_seen_by_its_first_bytes() {
        let options = CsvOptions::default();
        let bytes = gzip(b"a,b\n1,2\n3,4\n");
        for name in ["x.csv.gz", "x.csv"] {
            let rows = read_named(name, &bytes, &options).unwrap();
            assert_eq!(rows.values(), [1.0, 2.0, 3.0, 4.0]);
        }
        // Files may be several streams one after the other.
        let twice = [gzip(b"1\t2\n"), gzip(b"3\t4\n")].concat();
        assert_eq!(read_named("x.tsv.gz", &twice, &options).unwrap().num_rows(), 2);
        let error = read_named("x.csv.gz", &bytes[..bytes.len() - 9], &options).unwrap_err();
        assert!(error.to_string().contains("gzip data is broken"), "{error}");
    }

    #[test]
    fn other_encodings_come_with_a_remedy() {
        for text in [&b"\xff\xfe1\x00,\x00"[..], b"\xfe\xff\x001\x00,"] {
            let error = read_named("x.csv", text, &CsvOptions::default()).unwrap_err().to_string();
            assert!(error.contains("UTF-16") && error.contains("iconv"), "{error}");
        }
    }

    #[test]
    fn errors_name_line_and_column() {
        for (text, expected) in [
            ("1,2\n\n# c\n3,4,5\n", "x.csv line 4: 3 fields where the lines before have 2"),
            ("1,2\n3\n", "line 2: 1 fields"),
            ("a,b\n1,2\n3,x y\n", "x.csv line 3, column 2: \"x y\" is not a number"),
            ("1,2\n,4\n", "line 2, column 1: empty field"),
            ("1 2\n3 z\n", "line 2, column 2: \"z\" is not a number"),
            ("a,b\n\n1,2\n3,NaN\n", "line 4, row 2, column 2: NaN is not finite"),
            ("1 2\n-inf 4\n", "line 2, row 2, column 1: -inf is not finite"),
            ("", "no rows"),
            ("a,b\n", "no rows"),
            ("a,b\n", "line 1 is taken for the names of the columns (a, b)"),
            ("# only this\n", "no rows"),
            ("1,2\r3,x\r", "x.csv line 2, column 2"),
        ] {
            let message = read(text).unwrap_err().to_string();
            assert!(message.contains(expected), "{text:?}: {message}");
        }
    }

    #[test]
    fn quotes_hold_delimiters() {
        assert_eq!(split(b"\"a,b\", c ,,\" 1 \"", b','), [&b"a,b"[..], b"c", b"", b"1"]);
        assert_eq!(split(b" 1\t\"2\" 3 \r\n", b' '), [b"1", b"2", b"3"]);
        assert_eq!(split(b"\"", b','), [b"\""]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn random_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let options = CsvOptions::default();
            let _ = read_named("x.csv", &bytes, &options);
            let _ = read_named("x.csv", &[&GZIP_MAGIC[..], &[8, 0], &bytes].concat(), &options);
        }

        #[test]
        fn random_text_does_not_panic(text in "[0-9a-z,; \t\n\r\"#.+-]{0,60}") {
            let _ = read(&text);
        }

        #[test]
        fn damaged_files_do_not_panic(at in 0usize..40, byte: u8) {
            let mut bytes = gzip(b"a,b\n1,2\n3,4\n5,6\n");
            let at = at % bytes.len();
            bytes[at] = byte;
            let _ = read_named("x.csv.gz", &bytes, &CsvOptions::default());
        }
    }
}
