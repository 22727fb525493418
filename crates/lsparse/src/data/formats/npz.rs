//! Read the sparse matrices that SciPy saves: compressed sparse rows in an `.npz` archive.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use zip::ZipArchive;
use zip::read::ZipFile;
use zip::result::ZipError;

use crate::error::{Error, Result};
use crate::system::check_room;

use crate::data::formats::npy::check_dtype;
use crate::data::formats::npy_header::{Dtype, Header};
use crate::data::memory::CsrRows;
use crate::data::{Element, RowSource, Scalar, check_columns};

/// The first bytes of every `.npz` file that holds anything.
pub(crate) const MAGIC: &[u8; 4] = b"PK\x03\x04";

/// Bytes decoded at once, a multiple of every element's size.
const CHUNK_BYTES: usize = 1 << 16;

/// Read a matrix written by `scipy.sparse.save_npz`, in the precision of its values.
pub fn read_csr_npz(path: &Path) -> Result<Box<dyn RowSource>> {
    let mut archive = Archive::open(path)?;
    archive.check_format()?;
    let shape = archive.integers("shape")?;
    let [num_rows, dim] = shape[..] else {
        return Err(archive.broken(format!("the matrix has {} dimensions, not 2", shape.len())));
    };
    let (Ok(num_rows), Ok(dim)) = (usize::try_from(num_rows), usize::try_from(dim)) else {
        return Err(archive.broken("a size of the matrix is negative".to_owned()));
    };
    let what = || format!("{} (unpacked)", path.display());
    check_room(archive.memory_needed()?, what, || "give fewer rows at a time".to_owned())?;
    let indptr = archive.row_starts(num_rows)?;
    let index = archive.columns(&indptr)?;
    // Rows were counted; columns cost memory too.
    check_columns("columns", dim, index.len()).map_err(|(detail, _)| archive.broken(detail))?;
    let name = path.display().to_string();
    match archive.dtype("data")?.element() {
        Element::F32 => {
            let value: Vec<f32> = archive.values("data")?;
            Ok(Box::new(CsrRows::new(name, dim, indptr, index, value)?))
        }
        Element::F64 => {
            let value: Vec<f64> = archive.values("data")?;
            Ok(Box::new(CsrRows::new(name, dim, indptr, index, value)?))
        }
    }
}

struct Archive {
    path: PathBuf,
    zip: ZipArchive<BufReader<File>>,
}

impl Archive {
    fn open(path: &Path) -> Result<Self> {
        let opened = File::open(path);
        let file = opened.map_err(|source| Error::Io { path: path.to_owned(), action: "open", source })?;
        if file.metadata().is_ok_and(|found| found.len() == 0) {
            return Err(Error::Format {
                path: path.to_owned(),
                detail: "the file is empty".to_owned(),
                remedy: r#"save sparse data with scipy.sparse.save_npz("x.npz", x.tocsr())"#.to_owned(),
            });
        }
        let zip = ZipArchive::new(BufReader::new(file)).map_err(|error| zip_error(path, error))?;
        Ok(Archive { path: path.to_owned(), zip })
    }

    fn broken(&self, detail: String) -> Error {
        broken(&self.path, detail)
    }

    fn has(&self, member: &str) -> bool {
        self.zip.index_for_name(&format!("{member}.npy")).is_some()
    }

    /// The header of a member, and the rest of it to be read.
    fn member(&mut self, member: &str) -> Result<(Header, ZipFile<'_, BufReader<File>>)> {
        let mut file = self.zip.by_name(&format!("{member}.npy")).map_err(|error| zip_error(&self.path, error))?;
        let header = Header::read(&mut file)
            .map_err(|error| read_error(&self.path, error))?
            .map_err(|detail| broken(&self.path, format!("{member}.npy: {detail}")))?;
        Ok((header, file))
    }

    /// Check that this is a sparse matrix, by rows.
    fn check_format(&mut self) -> Result<()> {
        let refuse = |path: &Path, detail: String, remedy: &str| Error::Format {
            path: path.to_owned(),
            detail,
            remedy: remedy.to_owned(),
        };
        if !self.has("format") {
            return Err(refuse(
                &self.path,
                "the archive holds no sparse matrix".to_owned(),
                r#"save sparse data with scipy.sparse.save_npz("x.npz", x.tocsr()), dense data with np.save("x.npy", x)"#,
            ));
        }
        let (_, file) = self.member("format")?;
        let mut bytes = Vec::new();
        // Bytes, or four of them a letter: "csr" either way once the zeros are gone.
        let read = file.take(64).read_to_end(&mut bytes);
        read.map_err(|error| read_error(&self.path, error))?;
        bytes.retain(|&byte| byte != 0);
        if bytes != b"csr" {
            return Err(refuse(
                &self.path,
                format!("the matrix is stored as {:?}, not csr", String::from_utf8_lossy(&bytes)),
                r#"save it with scipy.sparse.save_npz("x.npz", x.tocsr())"#,
            ));
        }
        Ok(())
    }

    /// Bytes that the matrix takes in memory: a small file may unpack to gigabytes.
    fn memory_needed(&mut self) -> Result<u64> {
        let mut needed = 0u64;
        for member in ["indptr", "indices", "data"] {
            let path = self.path.clone();
            let (header, file) = self.member(member)?;
            let (unpacked, count) = (file.size(), header.num_elements().unwrap_or(u64::MAX));
            let promised = Dtype::parse(&header.descr).map(|dtype| count.saturating_mul(dtype.size() as u64));
            // What the archive itself says that it lacks need not be looked for.
            if let Some(lacking) = promised.and_then(|bytes| bytes.checked_sub(unpacked)).filter(|&bytes| bytes > 0) {
                return Err(broken(&path, format!("{member}.npy ends {lacking} bytes too early")));
            }
            let held = match (member, Dtype::parse(&header.descr)) {
                // Row starts are held as they are read and as they are used.
                ("indptr", _) => 16,
                ("indices", _) => 4,
                (_, Some(dtype)) if dtype.element() == Element::F32 => 4,
                _ => 8,
            };
            needed = needed.saturating_add(count.saturating_mul(held));
        }
        Ok(needed)
    }

    fn dtype(&mut self, member: &str) -> Result<Dtype> {
        let name = format!("{} ({member})", self.path.display());
        let (header, _) = self.member(member)?;
        check_dtype(&name, &header.descr, |array| format!(r#"scipy.sparse.save_npz("x.npz", {array})"#))
    }

    /// Hand over the elements of a one-dimensional member in chunks.
    ///
    /// Memory grows with what is really there, not with what the header says.
    fn chunks(&mut self, member: &str, take: &mut dyn FnMut(Dtype, &[u8])) -> Result<()> {
        let path = self.path.clone();
        let dtype = self.dtype(member)?;
        let (header, mut file) = self.member(member)?;
        let [count] = header.shape[..] else {
            let shape = header.shape_text();
            return Err(broken(&path, format!("{member}.npy has the shape {shape}, not one size")));
        };
        let expected = count.saturating_mul(dtype.size() as u64);
        let mut left = expected;
        let mut buffer = vec![0; CHUNK_BYTES];
        while left > 0 {
            let chunk = &mut buffer[..left.min(CHUNK_BYTES as u64) as usize];
            file.read_exact(chunk).map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => broken(&path, format!("{member}.npy ends {left} bytes too early")),
                _ => read_error(&path, error),
            })?;
            take(dtype, chunk);
            left -= chunk.len() as u64;
        }
        // The checksum is compared at the end of the member only.
        let rest = io::copy(&mut file, &mut io::sink()).map_err(|e| read_error(&path, e))?;
        if rest > 0 {
            return Err(broken(&path, format!("{member}.npy is {rest} bytes too long")));
        }
        Ok(())
    }

    fn values<T: Scalar>(&mut self, member: &str) -> Result<Vec<T>> {
        let mut values = Vec::new();
        self.chunks(member, &mut |dtype, bytes| dtype.decode(bytes, &mut values))?;
        Ok(values)
    }

    fn integers(&mut self, member: &str) -> Result<Vec<i64>> {
        self.check_integers(member)?;
        let mut values = Vec::new();
        self.chunks(member, &mut |dtype, bytes| dtype.decode_integers(bytes, &mut values))?;
        Ok(values)
    }

    fn check_integers(&mut self, member: &str) -> Result<()> {
        if self.dtype(member)?.is_integer() {
            return Ok(());
        }
        Err(self.broken(format!("{member}.npy does not hold whole numbers")))
    }

    fn row_starts(&mut self, num_rows: usize) -> Result<Vec<usize>> {
        let starts = self.integers("indptr")?;
        if starts.len().checked_sub(1) != Some(num_rows) {
            let found = starts.len();
            return Err(self.broken(format!("{num_rows} rows but {found} row starts")));
        }
        let converted: std::result::Result<_, _> = starts.iter().map(|&start| usize::try_from(start)).collect();
        converted.map_err(|_| self.broken("a row starts at a negative place".to_owned()))
    }

    fn columns(&mut self, indptr: &[usize]) -> Result<Vec<u32>> {
        self.check_integers("indices")?;
        let mut columns = Vec::new();
        let mut decoded = Vec::new();
        let mut bad = None;
        self.chunks("indices", &mut |dtype, bytes| {
            decoded.clear();
            dtype.decode_integers(bytes, &mut decoded);
            for &column in &decoded {
                columns.push(u32::try_from(column).unwrap_or_else(|_| {
                    bad.get_or_insert((columns.len(), column));
                    0
                }));
            }
        })?;
        match bad {
            None => Ok(columns),
            Some((at, column)) => {
                let row = indptr.partition_point(|&start| start <= at);
                Err(self.broken(format!("row {row} has a value in column {column}")))
            }
        }
    }
}

fn broken(path: &Path, detail: String) -> Error {
    let remedy = r#"write it again with scipy.sparse.save_npz("x.npz", x.tocsr())"#.to_owned();
    Error::Format { path: path.to_owned(), detail, remedy }
}

fn read_error(path: &Path, source: io::Error) -> Error {
    match source.kind() {
        io::ErrorKind::InvalidData
        | io::ErrorKind::InvalidInput
        | io::ErrorKind::UnexpectedEof
        | io::ErrorKind::Unsupported
        | io::ErrorKind::Other => broken(path, format!("the archive is damaged ({source})")),
        _ => Error::Io { path: path.to_owned(), action: "read", source },
    }
}

fn zip_error(path: &Path, error: ZipError) -> Error {
    match error {
        ZipError::Io(source) => read_error(path, source),
        other => broken(path, format!("the archive is damaged ({other})")),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use proptest::prelude::*;
    use zip::CompressionMethod;
    use zip::write::{SimpleFileOptions, ZipWriter};

    use super::*;
    use crate::data::Rows;
    use crate::data::formats::npy_header::header_bytes;

    fn read_bytes(bytes: &[u8]) -> Result<Box<dyn RowSource>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.npz");
        fs::write(&path, bytes).unwrap();
        read_csr_npz(&path)
    }

    fn message(bytes: &[u8]) -> String {
        read_bytes(bytes).err().unwrap().to_string()
    }

    /// An archive of members given as (name, type, shape, bytes), deflated.
    fn archive(members: &[(&str, &str, &str, Vec<u8>)]) -> Vec<u8> {
        let mut zip = ZipWriter::new(io::Cursor::new(Vec::new()));
        let options = SimpleFileOptions::default();
        for (name, descr, shape, data) in members {
            let options = options.compression_method(CompressionMethod::Deflated);
            zip.start_file(format!("{name}.npy"), options).unwrap();
            zip.write_all(&header_bytes(descr, shape)).unwrap();
            zip.write_all(data).unwrap();
        }
        zip.finish().unwrap().into_inner()
    }

    type Member<'a> = (&'a str, &'a str, &'a str, Vec<u8>);

    /// The matrix [[0, 1.5], [0, 0], [2, 0]].
    fn members() -> Vec<Member<'static>> {
        let ints = |values: &[i32]| values.iter().flat_map(|v| v.to_le_bytes()).collect();
        let longs = |values: &[i64]| values.iter().flat_map(|v| v.to_le_bytes()).collect();
        vec![
            ("indices", "<i4", "2,", ints(&[1, 0])),
            ("indptr", "<i4", "4,", ints(&[0, 1, 1, 2])),
            ("format", "|S3", "", b"csr".to_vec()),
            ("shape", "<i8", "2,", longs(&[3, 2])),
            ("data", "<f8", "2,", [1.5f64, 2.0].map(f64::to_le_bytes).concat()),
        ]
    }

    fn dense(source: &dyn RowSource) -> Vec<f64> {
        let mut out = Rows::dense(source.dim());
        source.read_f64(0, source.num_rows(), &mut out).unwrap();
        out.as_dense().unwrap().to_vec()
    }

    #[test]
    fn deflated_archives_are_read() {
        let source = read_bytes(&archive(&members())).unwrap();
        assert!(source.is_sparse());
        assert_eq!(source.element(), Element::F64);
        assert_eq!(dense(source.as_ref()), [0.0, 1.5, 0.0, 0.0, 2.0, 0.0]);
        let mut wide = members();
        wide[2] = ("format", "<U3", "", b"c\0\0\0s\0\0\0r\0\0\0".to_vec());
        wide[4] = ("data", "|i1", "2,", vec![3, 0xff]);
        let source = read_bytes(&archive(&wide)).unwrap();
        assert_eq!(source.element(), Element::F32);
        assert_eq!(dense(source.as_ref()), [0.0, 3.0, 0.0, 0.0, -1.0, 0.0]);
    }

    #[test]
    fn other_archives_come_with_a_remedy() {
        let dense = archive(&[("arr_0", "<f4", "1, 1", vec![0; 4])]);
        assert!(message(&dense).contains("no sparse matrix"));
        assert!(message(&dense).contains(r#"np.save("x.npy", x)"#));
        let mut columns = members();
        columns[2].3 = b"csc".to_vec();
        let text = message(&archive(&columns));
        assert!(text.contains("\"csc\"") && text.contains("x.tocsr()"), "{text}");
        assert!(message(b"PK\x03\x04").contains("damaged"));
    }

    #[test]
    fn sizes_without_end_are_refused() {
        let mut members = members();
        // Hashed words have more columns than there are entries.
        members[3].3 = [3i64, 1 << 20].map(i64::to_le_bytes).concat();
        assert_eq!(read_bytes(&archive(&members)).unwrap().dim(), 1 << 20);
        members[3].3 = [3i64, 1 << 31].map(i64::to_le_bytes).concat();
        assert!(message(&archive(&members)).contains("columns are claimed"));
        members[3].3 = [i64::MAX, 2].map(i64::to_le_bytes).concat();
        assert!(message(&archive(&members)).contains("row starts"));
        members[4].1 = "<c8";
        members[3].3 = [3i64, 2].map(i64::to_le_bytes).concat();
        assert!(message(&archive(&members)).contains(r#"save_npz("x.npz", x.real.astype"#));
    }

    #[test]
    fn what_an_archive_unpacks_to_is_known_before_it_is_unpacked() {
        let mut bomb = members();
        bomb[0] = ("indices", "<i8", "1000000,", vec![0; 8_000_000]);
        bomb[4] = ("data", "|i1", "1000000,", vec![0; 1_000_000]);
        let bytes = archive(&bomb);
        assert!(bytes.len() < 20_000);
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), bytes).unwrap();
        assert_eq!(Archive::open(file.path()).unwrap().memory_needed().unwrap(), 4 * 16 + 8_000_000);
    }

    #[test]
    fn lying_members_are_caught() {
        let with = |at: usize, shape: &'static str, data: Vec<u8>| {
            let mut members = members();
            members[at].2 = shape;
            members[at].3 = data;
            message(&archive(&members))
        };
        let ints = |values: &[i32]| values.iter().flat_map(|v| v.to_le_bytes()).collect();
        assert!(with(0, "2,", ints(&[2, 0])).contains("column 3 in row 1"));
        assert!(with(0, "2,", ints(&[1, -5])).contains("row 3 has a value in column -5"));
        assert!(with(0, "9000000000000000,", ints(&[1, 0])).contains("too early"));
        assert!(with(0, "1,", ints(&[1, 0])).contains("4 bytes too long"));
        assert!(with(0, "1, 2", ints(&[1, 0])).contains("not one size"));
        assert!(with(1, "4,", ints(&[0, 2, 1, 2])).contains("row 2 ending before it starts"));
        assert!(with(1, "4,", ints(&[0, 1, 1, -2])).contains("negative"));
        assert!(with(1, "3,", ints(&[0, 1, 2])).contains("3 rows but 3 row starts"));
        assert!(with(4, "1,", vec![0; 8]).contains("2 columns for 1 values"));
        let mut missing = members();
        missing.remove(1);
        assert!(message(&archive(&missing)).contains("damaged"));
        let mut floats = members();
        floats[0].1 = "<f4";
        assert!(message(&archive(&floats)).contains("whole numbers"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn random_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read_bytes(&bytes);
            let _ = read_bytes(&[&MAGIC[..], &bytes].concat());
        }

        #[test]
        fn damaged_archives_do_not_panic(changes in prop::collection::vec(any::<(u16, u8)>(), 1..4)) {
            let mut bytes = archive(&members());
            for (at, byte) in changes {
                let at = at as usize % bytes.len();
                bytes[at] = byte;
            }
            let _ = read_bytes(&bytes);
        }

        #[test]
        fn damaged_members_do_not_panic(which in 0usize..5, at in 0usize..32, byte: u8) {
            let mut members = members();
            let data = &mut members[which].3;
            let at = at % data.len();
            data[at] = byte;
            if let Ok(source) = read_bytes(&archive(&members)) {
                let mut out = Rows::<f32>::sparse(source.dim());
                source.read_f32(0, source.num_rows(), &mut out).unwrap();
            }
        }
    }
}
