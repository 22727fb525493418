//! Open whatever a path leads to as rows of numbers.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

use crate::corpus::Corpus;
use crate::data::formats::binary::known_kind;
use crate::data::formats::csv::{CsvOptions, GZIP_MAGIC, read_csv, read_csv_with_keys};
use crate::data::formats::images::{ImagePatches, PatchOptions, is_image};
use crate::data::formats::npy::NpyRows;
use crate::data::formats::{npy_header, npz};
use crate::data::{Chained, Groups, RowSource, Rows};

/// How to read the formats that leave something open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// For text files.
    pub csv: CsvOptions,
    /// For folders of images.
    pub patches: PatchOptions,
}

/// Open a `.npy` or `.npz` file, a text file (`.csv`, `.tsv`, `.txt`, gzipped or not) or a folder
/// of images.
///
/// NumPy's formats are known by their first bytes whatever they are called, text by its name.
pub fn open(path: &Path, options: &OpenOptions) -> Result<Box<dyn RowSource>> {
    if !options.csv.leave_out.is_empty() && path.exists() && !is_table(path) {
        return Err(Error::Config {
            setting: "leave-out",
            problem: format!("{} is no text file with columns", path.display()),
            remedy: "leave it out, or give a .csv, .tsv or .txt file".into(),
        });
    }
    let metadata = fs::metadata(path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => Error::NotFound { path: path.to_owned() },
        _ => Error::Io { path: path.to_owned(), action: "open", source },
    })?;
    if metadata.is_dir() {
        if Corpus::is_corpus(path) {
            return Ok(Box::new(Corpus::open(path)?));
        }
        return Ok(Box::new(ImagePatches::open(path, &options.patches)?));
    }
    let refuse = |detail: &str, remedy: &str| Error::Format {
        path: path.to_owned(),
        detail: detail.to_owned(),
        remedy: remedy.to_owned(),
    };
    // The formats are read at any place or from the start again, which a pipe does not allow.
    if !metadata.is_file() {
        return Err(refuse("it is not a plain file", "write the data to a file first"));
    }
    let start = first_bytes(path)?;
    let name = path.to_string_lossy().to_ascii_lowercase();
    let plain_name = name.strip_suffix(".gz").unwrap_or(&name);
    if start.starts_with(npy_header::MAGIC) || name.ends_with(".npy") {
        Ok(Box::new(NpyRows::open(path)?))
    } else if start.starts_with(npz::MAGIC) || name.ends_with(".npz") {
        npz::read_csr_npz(path)
    } else if [".csv", ".tsv", ".txt"].iter().any(|known| plain_name.ends_with(known)) {
        Ok(Box::new(read_csv(path, &options.csv)?))
    } else if is_image(path) {
        Err(refuse("a single image is not read", "give the folder that the images lie in"))
    } else if let Some((kind, _)) = known_kind(&start) {
        Err(refuse(&format!("it is {kind}, which is not read"), "export its numbers to a .npy, .npz or .csv file"))
    } else if start.starts_with(&GZIP_MAGIC) {
        Err(refuse(
            "only text is read from gzip files",
            "unpack it with gunzip, or call it .csv.gz, .tsv.gz or .txt.gz if it is text",
        ))
    } else {
        Err(refuse(
            "the format is not known",
            "give a .npy, .npz, .csv, .tsv or .txt file (text may be gzipped), or a folder of images",
        ))
    }
}

/// Whether a path is that of a file with columns of text, by its name.
pub fn is_table(path: &Path) -> bool {
    let name = path.to_string_lossy().to_ascii_lowercase();
    let plain_name = name.strip_suffix(".gz").unwrap_or(&name);
    path.is_file() && [".csv", ".tsv", ".txt"].iter().any(|known| plain_name.ends_with(known))
}

/// What says where sequences begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupBy {
    /// A file with the number of rows of each, one a line or a `.npy` array.
    Lengths(PathBuf),
    /// A column of a text file, by its name or its number: rows with the same value next to each other are a sequence.
    Column(String),
    /// Nothing: all rows are one sequence.
    One,
    /// Each file of a folder is one.
    Files,
}

/// Open rows as sequences.
pub fn open_sequences(path: &Path, options: &OpenOptions, by: &GroupBy) -> Result<(Box<dyn RowSource>, Groups)> {
    let asked = match by {
        GroupBy::Lengths(_) => "groups",
        GroupBy::One => "time-series",
        GroupBy::Column(_) => "group-column",
        GroupBy::Files => "",
    };
    if path.is_dir() && !asked.is_empty() && !tables_in(path)?.is_empty() {
        return Err(Error::Config {
            setting: asked,
            problem: format!("{} is a folder, each file of which is a sequence", path.display()),
            remedy: "leave it out, or give one file".into(),
        });
    }
    match by {
        GroupBy::Lengths(lengths) => {
            // Before data, which may have a column of names that is no number.
            let (found, name) = (lengths_in(lengths, path)?, lengths.display().to_string());
            let source = open(path, options)?;
            let groups = Groups::of_numbers(&name, &found, source.num_rows())?;
            Ok((source, groups))
        }
        GroupBy::One => {
            let source = open(path, options)?;
            let groups = Groups::one(source.num_rows());
            Ok((source, groups))
        }
        GroupBy::Column(column) => {
            if path.is_file() && !is_table(path) {
                let problem = format!("{} is no text file with columns of names", path.display());
                let remedy = "give the lengths of the sequences by `groups`".into();
                return Err(Error::Config { setting: "group-column", problem, remedy });
            }
            let (rows, keys) = read_csv_with_keys(path, &options.csv, column)?;
            let groups = Groups::of_keys(rows.name(), &keys)?;
            Ok((Box::new(rows), groups))
        }
        GroupBy::Files => open_folder(path, options),
    }
}

/// The lengths of the sequences at a path.
fn lengths_in(lengths: &Path, path: &Path) -> Result<Vec<f64>> {
    if !lengths.exists() && is_table(path) {
        let problem = format!("{} does not exist", lengths.display());
        let remedy = "give a file with the number of rows of each sequence, or name a column by `group-column`".into();
        return Err(Error::Config { setting: "groups", problem, remedy });
    }
    read_column(lengths, &OpenOptions::default())
}

/// The files of a folder that rows are read from, in the order of their names.
fn tables_in(path: &Path) -> Result<Vec<PathBuf>> {
    let failed = |source: io::Error| Error::Io { path: path.to_owned(), action: "read", source };
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(failed)? {
        let file = entry.map_err(failed)?.path();
        let name = file.to_string_lossy().to_ascii_lowercase();
        let plain_name = name.strip_suffix(".gz").unwrap_or(&name);
        if file.is_file() && [".npy", ".npz", ".csv", ".tsv", ".txt"].iter().any(|known| plain_name.ends_with(known)) {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

/// The files of a folder, in the order of their names, each a sequence; one without rows is a sequence of no steps.
fn open_folder(path: &Path, options: &OpenOptions) -> Result<(Box<dyn RowSource>, Groups)> {
    let files = tables_in(path)?;
    if files.is_empty() {
        return Err(Error::Format {
            path: path.to_owned(),
            detail: "there is no .npy, .npz, .csv, .tsv or .txt file in the folder".to_owned(),
            remedy: "give a folder with a file for each sequence, or one file and `groups`".to_owned(),
        });
    }
    let (mut sources, mut lengths) = (Vec::new(), Vec::new());
    for file in &files {
        match open(file, options) {
            Ok(source) => {
                lengths.push(source.num_rows());
                sources.push(source);
            }
            Err(Error::NoRows { .. } | Error::NamesAlone { .. }) => lengths.push(0),
            Err(error) => return Err(error),
        }
    }
    let chained = Chained::new(path.display().to_string(), sources)?;
    let groups = Groups::of_lengths(chained.name(), &lengths, chained.num_rows())?;
    Ok((Box::new(chained), groups))
}

/// Read one column of numbers into memory: a `.npy` array of one dimension or with one column, or any other format that
/// [`open()`] reads with one column.
pub fn read_column(path: &Path, options: &OpenOptions) -> Result<Vec<f64>> {
    let is_npy = path.is_file() && first_bytes(path)?.starts_with(npy_header::MAGIC);
    let source: Box<dyn RowSource> = if is_npy { Box::new(NpyRows::open_column(path)?) } else { open(path, options)? };
    if source.dim() != 1 {
        return Err(Error::WrongShape {
            name: source.name().to_owned(),
            found: format!("({}, {})", source.num_rows(), source.dim()),
            expected: format!("one column, ({0},) or ({0}, 1)", source.num_rows()),
            remedy: "give one number for each row".to_owned(),
        });
    }
    let mut rows = Rows::<f64>::dense(1);
    source.read_f64(0, source.num_rows(), &mut rows)?;
    Ok(rows.as_dense().unwrap_or_default().to_vec())
}

fn first_bytes(path: &Path) -> Result<Vec<u8>> {
    let mut start = Vec::new();
    File::open(path).and_then(|file| file.take(6).read_to_end(&mut start)).map_err(|source| Error::Io {
        path: path.to_owned(),
        action: "open",
        source,
    })?;
    Ok(start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Element, write_csr_npz, write_npy_f32};

    #[test]
    fn formats_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let options = OpenOptions::default();
        let at = |name: &str| folder.path().join(name);
        write_npy_f32(&at("a.npy"), 2, &[1.0, 2.0]).unwrap();
        write_npy_f32(&at("misnamed.csv"), 2, &[1.0, 2.0]).unwrap();
        write_csr_npz(&at("b.npz"), 1, 2, &[0, 1], &[1], &[1.0f64]).unwrap();
        fs::write(at("c.CSV"), "x,y\n1,2\n").unwrap();
        for name in ["a.npy", "misnamed.csv", "b.npz", "c.CSV"] {
            let source = open(&at(name), &options).unwrap();
            assert_eq!((source.num_rows(), source.dim()), (1, 2), "{name}");
            assert!(source.name().ends_with(name));
            assert_eq!(source.is_sparse(), name == "b.npz");
        }
        assert_eq!(open(&at("a.npy"), &options).unwrap().element(), Element::F32);
        image::GrayImage::new(20, 20).save(at("p.png")).unwrap();
        assert_eq!(open(folder.path(), &options).unwrap().num_rows(), 9);
    }

    #[test]
    fn a_column_has_one_dimension_or_two() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("w.npy");
        let read = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            read_column(&path, &OpenOptions::default())
        };
        let data: Vec<u8> = [0.5f64, 2.0, 1.0].iter().flat_map(|value| value.to_le_bytes()).collect();
        for shape in ["3,", "3, 1"] {
            let bytes = [npy_header::header_bytes("<f8", shape), data.clone()].concat();
            assert_eq!(read(&bytes).unwrap(), [0.5, 2.0, 1.0], "{shape}");
        }
        let bytes = [npy_header::header_bytes("<f8", "1, 3"), data.clone()].concat();
        assert!(read(&bytes).unwrap_err().to_string().contains("(1, 3), expected one column"));
        let text = folder.path().join("w.csv");
        fs::write(&text, "1\n2\n").unwrap();
        assert_eq!(read_column(&text, &OpenOptions::default()).unwrap(), [1.0, 2.0]);
    }

    #[test]
    fn sequences_are_told_by_lengths_a_column_or_files() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let lengths = |path: &Path, by: &GroupBy| -> Result<(Vec<usize>, usize)> {
            let (source, groups) = open_sequences(path, &OpenOptions::default(), by)?;
            assert_eq!(source.num_rows(), groups.num_rows());
            Ok((groups.lengths().collect(), source.dim()))
        };
        fs::write(at("d.csv"), "x,who,y\n1,ann,2\n3,ann,4\n5,bob,6\n").unwrap();
        fs::write(at("plain.csv"), "1,2\n1,4\n5,6\n").unwrap();
        fs::write(at("n.txt"), "2\n0\n1\n").unwrap();
        fs::write(at("wrong.txt"), "2\n2\n").unwrap();
        let column = |name: &str| GroupBy::Column(name.into());
        assert_eq!(lengths(&at("d.csv"), &column("who")).unwrap(), (vec![2, 1], 2));
        assert_eq!(lengths(&at("d.csv"), &column("2")).unwrap(), (vec![2, 1], 2));
        assert_eq!(lengths(&at("plain.csv"), &column("1")).unwrap(), (vec![2, 1], 1));
        assert_eq!(lengths(&at("plain.csv"), &GroupBy::Lengths(at("n.txt"))).unwrap(), (vec![2, 0, 1], 2));
        assert_eq!(lengths(&at("plain.csv"), &GroupBy::One).unwrap(), (vec![3], 2));
        let text = |by: &GroupBy| lengths(&at("d.csv"), by).unwrap_err().to_string();
        assert!(text(&column("when")).contains("has no column \"when\" among its 3"));
        let wrong = lengths(&at("plain.csv"), &GroupBy::Lengths(at("wrong.txt"))).unwrap_err().to_string();
        assert!(wrong.contains("add up to 4, and there are 3 rows"), "{wrong}");
        let parts = at("parts");
        fs::create_dir(&parts).unwrap();
        assert!(lengths(&parts, &GroupBy::Files).is_err());
        fs::write(parts.join("b.csv"), "1,2\n").unwrap();
        fs::write(parts.join("a.csv"), "3,4\n5,6\n").unwrap();
        fs::write(parts.join("readme.md"), "no data").unwrap();
        assert_eq!(lengths(&parts, &GroupBy::Files).unwrap(), (vec![2, 1], 2));
        // A file without rows is a sequence of no steps, whichever way it has none.
        fs::write(parts.join("aa.csv"), "").unwrap();
        fs::write(parts.join("c.csv"), "x,y\n").unwrap();
        let none = [npy_header::header_bytes("<f8", "0, 2"), Vec::new()].concat();
        fs::write(parts.join("d.npy"), none).unwrap();
        assert_eq!(lengths(&parts, &GroupBy::Files).unwrap(), (vec![2, 0, 1, 0, 0], 2));
        for (by, said) in [(GroupBy::One, "time-series: "), (GroupBy::Lengths(at("n.txt")), "groups: ")] {
            let text = lengths(&parts, &by).unwrap_err().to_string();
            assert!(text.starts_with(said) && text.contains("each file of which is a sequence"), "{text}");
        }
        let text = lengths(&at("d.csv"), &GroupBy::Lengths(at("who"))).unwrap_err().to_string();
        assert!(text.contains("does not exist") && text.contains("`group-column`"), "{text}");
    }

    #[test]
    fn what_cannot_be_opened_says_why() {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes, expected) in [
            ("x.parquet", &b"PAR1"[..], "it is a Parquet file, which is not read; export its numbers to a .npy"),
            ("x", b"1,2", "the format is not known"),
            ("x.npy.gz", b"\x1f\x8b\x08", "unpack it"),
            ("x.jpg", b"\xff\xd8", "give the folder"),
            ("x.npy", b"", "does not start as a .npy file does"),
            ("x.npz", b"", "the file is empty; save sparse data"),
            ("x.txt", b"", "no rows"),
        ] {
            let path = folder.path().join(name);
            fs::write(&path, bytes).unwrap();
            let error = open(&path, &OpenOptions::default()).err().unwrap();
            assert!(error.to_string().contains(expected), "{name}: {error}");
            assert!(error.is_bad_input());
        }
        let missing = folder.path().join("missing.npy");
        let error = open(&missing, &OpenOptions::default()).err().unwrap();
        assert!(error.is_bad_input() && error.to_string().contains("does not exist"), "{error}");
    }
}
