//! Write sparse matrices as SciPy does: compressed sparse rows in an `.npz` archive.

use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

use zip::result::ZipError;
use zip::write::{SimpleFileOptions, ZipWriter};
use zip::{CompressionMethod, DateTime};

use crate::error::{Error, Result};

use crate::data::Scalar;
use crate::data::atomic::AtomicFile;
use crate::data::formats::npy_header::header_bytes;
use crate::data::formats::npy_write::{descr, encode};

/// Write a sparse matrix that `scipy.sparse.load_npz` reads; the same matrix gives the same bytes.
///
/// Row `i` has `data[j]` in column `indices[j]` for `j` in `indptr[i]..indptr[i + 1]`.
pub fn write_csr_npz<T: Scalar>(
    path: &Path,
    num_rows: usize,
    num_cols: usize,
    indptr: &[i64],
    indices: &[i32],
    data: &[T],
) -> Result<()> {
    let nonzeros = indptr.last().copied().unwrap_or(-1);
    let entries = i64::try_from(indices.len()).ok();
    if indptr.len() != num_rows + 1 || indices.len() != data.len() || entries != Some(nonzeros) {
        return Err(Error::WrongShape {
            name: path.display().to_string(),
            found: format!("{} row starts, {} columns, {} values", indptr.len(), indices.len(), data.len()),
            expected: format!("{} row starts, as many columns as values", num_rows + 1),
            remedy: "give one start a row and the end of the last".to_owned(),
        });
    }
    let write = |zip: &mut ZipWriter<Hushed>| -> std::result::Result<(), ZipError> {
        write_member(zip, "indices", "<i4", &format!("{},", indices.len()), indices, |v, bytes| {
            bytes.extend(v.iter().flat_map(|i| i.to_le_bytes()));
        })?;
        write_member(zip, "indptr", "<i8", &format!("{},", indptr.len()), indptr, encode_i64)?;
        write_member(zip, "format", "|S3", "", b"csr", |v, bytes| bytes.extend(v))?;
        let shape = [num_rows as i64, num_cols as i64];
        write_member(zip, "shape", "<i8", "2,", &shape, encode_i64)?;
        let count = format!("{},", data.len());
        write_member(zip, "data", descr(T::ELEMENT), &count, data, |v, bytes| {
            encode(T::ELEMENT, v, bytes);
        })
    };
    let failed = |error| match error {
        ZipError::Io(source) => Error::Unwritable { path: path.to_owned(), source },
        other => Error::Unwritable { path: path.to_owned(), source: io::Error::other(other) },
    };
    let mut zip = ZipWriter::new(Hushed { file: AtomicFile::create(path)?, failed: false, position: 0, length: 0 });
    write(&mut zip).map_err(failed)?;
    zip.finish().map_err(failed)?.file.finish()
}

/// A file that fails once: an archive that is dropped after an error tries to write its end, and complains on standard
/// error if it cannot. Then it is told that all is well.
struct Hushed {
    file: AtomicFile,
    failed: bool,
    position: u64,
    length: u64,
}

impl Write for Hushed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = match self.failed {
            true => bytes.len(),
            false => self.file.write(bytes).inspect_err(|_| self.failed = true)?,
        };
        self.position += count as u64;
        self.length = self.length.max(self.position);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.failed { Ok(()) } else { self.file.flush().inspect_err(|_| self.failed = true) }
    }
}

impl Seek for Hushed {
    fn seek(&mut self, place: SeekFrom) -> io::Result<u64> {
        self.position = match (self.failed, place) {
            (false, _) => self.file.seek(place).inspect_err(|_| self.failed = true)?,
            (true, SeekFrom::Start(position)) => position,
            (true, SeekFrom::Current(by)) => self.position.saturating_add_signed(by),
            (true, SeekFrom::End(by)) => self.length.saturating_add_signed(by),
        };
        Ok(self.position)
    }
}

/// Append one array to an archive, a stretch of it at a time.
fn write_member<V>(
    zip: &mut ZipWriter<Hushed>,
    name: &str,
    descr: &str,
    shape: &str,
    values: &[V],
    encode: impl Fn(&[V], &mut Vec<u8>),
) -> std::result::Result<(), ZipError> {
    let options = SimpleFileOptions::default()
        // Compressed bytes may differ from one processor to another, stored ones cannot.
        .compression_method(CompressionMethod::Stored)
        // No clock: the time is the first that the format can say.
        .last_modified_time(DateTime::default())
        .unix_permissions(0o644)
        .large_file(size_of_val(values) > u32::MAX as usize / 2);
    zip.start_file(format!("{name}.npy"), options)?;
    zip.write_all(&header_bytes(descr, shape))?;
    let mut bytes = Vec::new();
    for stretch in values.chunks(1 << 14) {
        bytes.clear();
        encode(stretch, &mut bytes);
        zip.write_all(&bytes)?;
    }
    Ok(())
}

fn encode_i64(values: &[i64], bytes: &mut Vec<u8>) {
    bytes.extend(values.iter().flat_map(|v| v.to_le_bytes()));
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::data::{Element, Rows, read_csr_npz};

    #[test]
    fn what_is_written_is_read_and_repeats() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str| {
            let path = folder.path().join(name);
            write_csr_npz(&path, 2, 3, &[0, 2, 3], &[0, 2, 1], &[1.0f32, 2.0, 3.0]).unwrap();
            path
        };
        let path = write("a.npz");
        assert_eq!(fs::read(&path).unwrap(), fs::read(write("b.npz")).unwrap());
        let source = read_csr_npz(&path).unwrap();
        assert_eq!(source.element(), Element::F32);
        let mut out = Rows::dense(3);
        source.read_f64(0, 2, &mut out).unwrap();
        assert_eq!(out.as_dense().unwrap(), [1.0, 0.0, 2.0, 0.0, 3.0, 0.0]);
        assert!(write_csr_npz(&path, 2, 3, &[0, 2], &[0, 2], &[1.0f32, 2.0]).is_err());
        assert!(write_csr_npz(&path, 1, 3, &[0, 2], &[0, 2], &[1.0f32]).is_err());
    }
}
