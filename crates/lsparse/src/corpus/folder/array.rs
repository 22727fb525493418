//! Read and write one-dimensional `.npy` arrays, a stretch at a time.

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::data::formats::npy::check_dtype;
use crate::data::formats::npy_header::{Dtype, Header, header_bytes};
use crate::data::positioned::PositionedFile;
use crate::error::{Error, Result};

/// A one-dimensional array on disk.
#[derive(Debug)]
pub(in crate::corpus) struct ArrayFile {
    path: PathBuf,
    file: PositionedFile,
    dtype: Dtype,
    len: usize,
    data_start: u64,
}

impl ArrayFile {
    /// Read the header and hold it against the file's length.
    pub(in crate::corpus) fn open(path: &Path) -> Result<Self> {
        let failed = |action| {
            move |source: io::Error| match source.kind() {
                io::ErrorKind::NotFound => Error::NotFound { path: path.to_owned() },
                _ => Error::Io { path: path.to_owned(), action, source },
            }
        };
        let mut file = File::open(path).map_err(failed("open"))?;
        let length = file.metadata().map_err(failed("read"))?.len();
        let malformed = |detail: String| Error::Format {
            path: path.to_owned(),
            detail,
            remedy: "build the corpus again".to_owned(),
        };
        let header = Header::read(&mut file).map_err(failed("read"))?.map_err(malformed)?;
        let name = path.display().to_string();
        let dtype = check_dtype(&name, &header.descr, |array| format!(r#"np.save("x.npy", {array})"#))?;
        let [len] = header.shape[..] else {
            return Err(malformed(format!("the array has the shape {}, not one size", header.shape_text())));
        };
        let found = length.saturating_sub(header.data_start);
        let expected = len.saturating_mul(dtype.size() as u64);
        if found < expected {
            return Err(Error::Truncated { path: path.to_owned(), expected, found });
        }
        if found > expected {
            return Err(malformed(format!("{} bytes follow the array", found - expected)));
        }
        let len = usize::try_from(len).map_err(|_| malformed("the array is too long for this machine".to_owned()))?;
        let file = PositionedFile::new(file);
        Ok(ArrayFile { path: path.to_owned(), file, dtype, len, data_start: header.data_start })
    }

    pub(in crate::corpus) fn path(&self) -> &Path {
        &self.path
    }

    pub(in crate::corpus) fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Elements there are.
    pub(in crate::corpus) fn len(&self) -> usize {
        self.len
    }

    /// Fill `bytes` with elements `start..start + count`, which must be there.
    pub(in crate::corpus) fn read(&self, start: usize, count: usize, bytes: &mut Vec<u8>) -> Result<()> {
        let size = self.dtype.size();
        bytes.resize(count * size, 0);
        let read = self.file.read_exact_at(bytes, self.data_start + start as u64 * size as u64);
        read.map_err(|source| Error::Io { path: self.path.clone(), action: "read", source })
    }

    /// The error of an array that holds something else than whole numbers.
    pub(in crate::corpus) fn check_integers(&self) -> Result<()> {
        if self.dtype.is_integer() {
            return Ok(());
        }
        Err(Error::Format {
            path: self.path.clone(),
            detail: "the array does not hold whole numbers".to_owned(),
            remedy: r#"save it with np.save("x.npy", x.astype(np.int32))"#.to_owned(),
        })
    }
}

/// A one-dimensional array that grows.
#[derive(Debug)]
pub(in crate::corpus) struct ArrayWriter {
    path: PathBuf,
    file: BufWriter<File>,
    descr: &'static str,
    len: usize,
}

impl ArrayWriter {
    /// Start a file of elements of a type as NumPy calls it.
    pub(in crate::corpus) fn create(path: &Path, descr: &'static str) -> Result<Self> {
        let created = File::create(path);
        let file = created.map_err(|source| Error::Unwritable { path: path.to_owned(), source })?;
        let file = BufWriter::with_capacity(1 << 18, file);
        let mut writer = ArrayWriter { path: path.to_owned(), file, descr, len: 0 };
        writer.write_header().map_err(|source| writer.failed(source))?;
        Ok(writer)
    }

    /// Append elements, given by their little-endian bytes.
    pub(in crate::corpus) fn extend<const N: usize>(&mut self, elements: impl Iterator<Item = [u8; N]>) -> Result<()> {
        for element in elements {
            let written = self.file.write_all(&element);
            written.map_err(|source| self.failed(source))?;
            self.len += 1;
        }
        Ok(())
    }

    /// Elements written.
    pub(in crate::corpus) fn len(&self) -> usize {
        self.len
    }

    /// Put the length into the header.
    pub(in crate::corpus) fn finish(mut self) -> Result<()> {
        let written = self.file.seek(SeekFrom::Start(0)).and_then(|_| self.write_header());
        written.and_then(|()| self.file.flush()).map_err(|source| self.failed(source))
    }

    fn write_header(&mut self) -> io::Result<()> {
        self.file.write_all(&header_bytes(self.descr, &format!("{},", self.len)))
    }

    fn failed(&self, source: io::Error) -> Error {
        Error::Unwritable { path: self.path.clone(), source }
    }
}
