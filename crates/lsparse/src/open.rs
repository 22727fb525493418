//! Open whatever a path leads to as rows of numbers.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use crate::error::{Error, Result};

use crate::corpus::Corpus;
use crate::data::formats::binary::known_kind;
use crate::data::formats::csv::{CsvOptions, GZIP_MAGIC, read_csv};
use crate::data::formats::images::{ImagePatches, PatchOptions, is_image};
use crate::data::formats::npy::NpyRows;
use crate::data::formats::{npy_header, npz};
use crate::data::{RowSource, Rows};

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
