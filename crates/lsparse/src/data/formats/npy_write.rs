//! Write rows to a NumPy `.npy` file as they come, without knowing how many there will be.

use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

use lsparse_kernels::Real;

use crate::error::{Error, Result};

use crate::data::Element;
use crate::data::atomic::AtomicFile;
use crate::data::formats::npy_header::header_bytes;

/// A `.npy` file that grows by rows and appears, whole, when it is finished.
#[derive(Debug)]
pub struct NpyWriter {
    file: AtomicFile,
    element: Element,
    dim: usize,
    num_rows: usize,
    bytes: Vec<u8>,
}

impl NpyWriter {
    /// Start a file of rows of `dim` values.
    pub fn create(path: &Path, element: Element, dim: usize) -> Result<Self> {
        let file = AtomicFile::create(path)?;
        let mut writer = NpyWriter { file, element, dim, num_rows: 0, bytes: Vec::new() };
        writer.write_header().map_err(|source| writer.failed(source))?;
        Ok(writer)
    }

    /// Append rows, one after the other, in the precision of the file.
    pub fn write_rows<T: Real>(&mut self, values: &[T]) -> Result<()> {
        if self.dim == 0 || !values.len().is_multiple_of(self.dim) {
            return Err(Error::WrongShape {
                name: self.file.path().display().to_string(),
                found: format!("{} values", values.len()),
                expected: format!("whole rows of {} values", self.dim),
                remedy: "write whole rows".to_owned(),
            });
        }
        for stretch in values.chunks(1 << 14) {
            self.bytes.clear();
            encode(self.element, stretch, &mut self.bytes);
            let written = self.file.write_all(&self.bytes);
            written.map_err(|source| self.failed(source))?;
        }
        self.num_rows += values.len() / self.dim;
        Ok(())
    }

    /// Put the number of rows into the header and give the file its name.
    pub fn finish(mut self) -> Result<()> {
        let written = self.file.seek(SeekFrom::Start(0)).and_then(|_| self.write_header());
        written.map_err(|source| self.failed(source))?;
        self.file.finish()
    }

    fn write_header(&mut self) -> io::Result<()> {
        let shape = format!("{}, {}", self.num_rows, self.dim);
        self.file.write_all(&header_bytes(descr(self.element), &shape))
    }

    fn failed(&self, source: io::Error) -> Error {
        Error::Unwritable { path: self.file.path().to_owned(), source }
    }
}

/// Write rows of `dim` values to a `.npy` file in 32 bits.
pub fn write_npy_f32(path: &Path, dim: usize, values: &[f32]) -> Result<()> {
    let mut writer = NpyWriter::create(path, Element::F32, dim)?;
    writer.write_rows(values)?;
    writer.finish()
}

/// Write rows of `dim` values to a `.npy` file in 64 bits.
pub fn write_npy_f64(path: &Path, dim: usize, values: &[f64]) -> Result<()> {
    let mut writer = NpyWriter::create(path, Element::F64, dim)?;
    writer.write_rows(values)?;
    writer.finish()
}

/// Write whole numbers to a `.npy` file of one dimension.
pub fn write_npy_i64(path: &Path, values: &[i64]) -> Result<()> {
    let mut file = AtomicFile::create(path)?;
    let mut write = || {
        file.write_all(&header_bytes("<i8", &format!("{},", values.len())))?;
        values.chunks(1 << 14).try_for_each(|stretch| {
            let bytes: Vec<u8> = stretch.iter().flat_map(|value| value.to_le_bytes()).collect();
            file.write_all(&bytes)
        })
    };
    write().map_err(|source| Error::Unwritable { path: path.to_owned(), source })?;
    file.finish()
}

/// What NumPy calls the precision.
pub(crate) fn descr(element: Element) -> &'static str {
    match element {
        Element::F32 => "<f4",
        Element::F64 => "<f8",
    }
}

/// Append the little-endian bytes of `values` in the given precision.
pub(crate) fn encode<T: Real>(element: Element, values: &[T], bytes: &mut Vec<u8>) {
    let values = values.iter().map(|v| v.to_f64());
    match element {
        Element::F32 => bytes.extend(values.flat_map(|v| (v as f32).to_le_bytes())),
        Element::F64 => bytes.extend(values.flat_map(f64::to_le_bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{NpyRows, RowSource, Rows};
    use crate::open::{OpenOptions, read_column};

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.npy");
        let mut writer = NpyWriter::create(&path, Element::F32, 2).unwrap();
        writer.write_rows(&[1.0f64, 2.0]).unwrap();
        writer.write_rows::<f32>(&[]).unwrap();
        writer.write_rows(&[3.0f32, 4.0, 5.0, 6.0]).unwrap();
        assert!(!path.exists());
        writer.finish().unwrap();
        let source = NpyRows::open(&path).unwrap();
        assert_eq!((source.num_rows(), source.element()), (3, Element::F32));
        let mut out = Rows::dense(2);
        source.read_f32(0, 3, &mut out).unwrap();
        assert_eq!(out.as_dense(), Some(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0][..]));

        write_npy_i64(&path, &[-1, 7, 1 << 40]).unwrap();
        let column = read_column(&path, &OpenOptions::default()).unwrap();
        assert_eq!(column, [-1.0, 7.0, (1u64 << 40) as f64]);
        write_npy_f64(&path, 1, &[0.1]).unwrap();
        let mut out = Rows::dense(1);
        NpyRows::open(&path).unwrap().read_f64(0, 1, &mut out).unwrap();
        assert_eq!(out.as_dense(), Some(&[0.1][..]));
    }

    #[test]
    fn broken_rows_are_refused_and_leave_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.npy");
        assert!(write_npy_f32(&path, 2, &[1.0; 3]).unwrap_err().to_string().contains("whole rows"));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
