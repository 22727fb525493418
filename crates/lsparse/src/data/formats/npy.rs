//! Read the rows of a NumPy `.npy` file from disk as they are needed, never the whole file.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use crate::backend::with_buffers;
use crate::error::{Error, Result};

use crate::data::formats::npy_header::{DTYPES, Dtype, Header};
use crate::data::positioned::PositionedFile;
use crate::data::{Element, RowSource, Rows, Scalar, check_read, check_size};

/// Bytes read at once: enough to keep a disk busy, little enough to stay in the cache.
const READ_BYTES: usize = 1 << 18;

/// What is said of an array that is stored by columns.
const BY_COLUMNS: &str = "the array is stored column by column (Fortran order), which takes longer to read; \
                          np.save(\"x.npy\", np.ascontiguousarray(x)) stores it by rows";

/// The rows of a two-dimensional `.npy` file.
#[derive(Debug)]
pub struct NpyRows {
    path: PathBuf,
    name: String,
    file: PositionedFile,
    dtype: Dtype,
    num_rows: usize,
    dim: usize,
    data_start: u64,
    /// Whether columns, not rows, are stored one after the other.
    by_columns: bool,
    /// What people should know about it.
    note: Option<String>,
}

impl NpyRows {
    /// Read the header of the file and hold its shape against the file's length.
    pub fn open(path: &Path) -> Result<Self> {
        Self::open_shaped(path, check_shape)
    }

    /// As [`open`](NpyRows::open), but an array of one dimension is a column.
    pub(crate) fn open_column(path: &Path) -> Result<Self> {
        Self::open_shaped(path, |name, header| match header.shape[..] {
            [rows] => check_shape(name, &Header { shape: vec![rows, 1], ..header.clone() }),
            _ => check_shape(name, header),
        })
    }

    fn open_shaped(path: &Path, shape: impl Fn(&str, &Header) -> Result<(usize, usize)>) -> Result<Self> {
        let failed = |action| move |source| Error::Io { path: path.to_owned(), action, source };
        let mut file = File::open(path).map_err(failed("open"))?;
        let length = file.metadata().map_err(failed("read"))?.len();
        let header = Header::read(&mut file).map_err(failed("read"))?.map_err(|detail| {
            let remedy = r#"write it with np.save("x.npy", x)"#.to_owned();
            Error::Format { path: path.to_owned(), detail, remedy }
        })?;
        let name = path.display().to_string();
        let dtype = check_dtype(&name, &header.descr, |array| format!(r#"np.save("x.npy", {array})"#))?;
        let (num_rows, dim) = shape(&name, &header)?;
        check_size(&name, num_rows, dim)?;

        // Everything below trusts the shape, so the bytes it promises must be there.
        let found = length.saturating_sub(header.data_start);
        let expected =
            header.num_elements().and_then(|count| count.checked_mul(dtype.size() as u64)).unwrap_or(u64::MAX);
        if found < expected {
            return Err(Error::Truncated { path: path.to_owned(), expected, found });
        }
        if found > expected {
            return Err(Error::Format {
                path: path.to_owned(),
                detail: format!("{} bytes follow the array", found - expected),
                remedy: r#"write the array alone with np.save("x.npy", x)"#.to_owned(),
            });
        }
        // A single row or column is the same in either order.
        let by_columns = header.fortran_order && num_rows > 1 && dim > 1;
        Ok(NpyRows {
            path: path.to_owned(),
            note: by_columns.then(|| format!("{name}: {BY_COLUMNS}")),
            by_columns,
            name,
            file: PositionedFile::new(file),
            dtype,
            num_rows,
            dim,
            data_start: header.data_start,
        })
    }

    fn append<T: Scalar>(&self, start: usize, count: usize, out: &mut Rows<T>) -> Result<()> {
        check_read(self, start, count, out)?;
        if self.by_columns {
            return self.append_by_columns(start, count, out);
        }
        let row_bytes = self.dim * self.dtype.size();
        let rows_at_once = (READ_BYTES / row_bytes).clamp(1, count.max(1));
        with_buffers(|bytes: &mut Vec<u8>| {
            bytes.resize(rows_at_once * row_bytes, 0);
            let mut decoded = Vec::new();
            let mut row = start;
            while row < start + count {
                let rows = rows_at_once.min(start + count - row);
                let bytes = &mut bytes[..rows * row_bytes];
                let offset = self.data_start + row as u64 * row_bytes as u64;
                self.file.read_exact_at(bytes, offset).map_err(|source| self.failed(source))?;
                match out {
                    Rows::Dense { values, .. } => self.dtype.decode(bytes, values),
                    Rows::Sparse { .. } => {
                        decoded.clear();
                        self.dtype.decode::<T>(bytes, &mut decoded);
                        out.push_dense(&decoded);
                    }
                }
                row += rows;
            }
            Ok(())
        })
    }

    /// The same of an array by columns: a stretch of each column at a time.
    fn append_by_columns<T: Scalar>(&self, start: usize, count: usize, out: &mut Rows<T>) -> Result<()> {
        if count == 0 {
            return Ok(());
        }
        let size = self.dtype.size();
        let (mut bytes, mut column) = (vec![0; count * size], Vec::with_capacity(count));
        let mut rows = vec![T::ZERO; count * self.dim];
        for d in 0..self.dim {
            let offset = self.data_start + (d as u64 * self.num_rows as u64 + start as u64) * size as u64;
            self.file.read_exact_at(&mut bytes, offset).map_err(|source| self.failed(source))?;
            column.clear();
            self.dtype.decode(&bytes, &mut column);
            rows[d..].iter_mut().step_by(self.dim).zip(&column).for_each(|(place, &value)| *place = value);
        }
        rows.chunks_exact(self.dim).for_each(|row| out.push_dense(row));
        Ok(())
    }

    fn failed(&self, source: io::Error) -> Error {
        Error::Io { path: self.path.clone(), action: "read", source }
    }
}

impl RowSource for NpyRows {
    fn name(&self) -> &str {
        &self.name
    }

    fn num_rows(&self) -> usize {
        self.num_rows
    }

    fn dim(&self) -> usize {
        self.dim
    }

    fn element(&self) -> Element {
        self.dtype.element()
    }

    fn is_sparse(&self) -> bool {
        false
    }

    fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    fn read_f32(&self, start: usize, count: usize, out: &mut Rows<f32>) -> Result<()> {
        self.append(start, count, out)
    }

    fn read_f64(&self, start: usize, count: usize, out: &mut Rows<f64>) -> Result<()> {
        self.append(start, count, out)
    }
}

/// The type of the elements, or how to change it; `save` is the call that saves an array given as Python.
pub(crate) fn check_dtype(name: &str, descr: &str, save: impl Fn(&str) -> String) -> Result<Dtype> {
    Dtype::parse(descr).ok_or_else(|| {
        let array = match descr.get(1..) {
            // A record has its fields side by side.
            _ if descr == "record" => "np.stack([x[f] for f in x.dtype.names], axis=1).astype(np.float32)",
            Some("c8") => "x.real.astype(np.float32)",
            Some("c16" | "c32") => "x.real.astype(np.float64)",
            // These would lose digits in 32 bits.
            Some("f8" | "f16" | "i4" | "i8" | "u4" | "u8") => "x.astype(np.float64)",
            _ => "x.astype(np.float32)",
        };
        Error::WrongType {
            name: name.to_owned(),
            found: format!("{descr:?}"),
            expected: DTYPES,
            remedy: format!("save it with {}", save(array)),
        }
    })
}

/// Rows and columns, or how to get them.
fn check_shape(name: &str, header: &Header) -> Result<(usize, usize)> {
    let wrong = |remedy: &str| Error::WrongShape {
        name: name.to_owned(),
        found: header.shape_text(),
        expected: "(rows, columns)".to_owned(),
        remedy: remedy.to_owned(),
    };
    match header.shape[..] {
        [rows, columns] => {
            let sizes = usize::try_from(rows).ok().zip(usize::try_from(columns).ok());
            sizes.ok_or_else(|| wrong("save a smaller array"))
        }
        [] | [_] => Err(wrong(r#"save it with np.save("x.npy", x.reshape(-1, 1))"#)),
        _ => Err(wrong(
            r#"save it with np.save("x.npy", x.reshape(len(x), -1)), or sequences of rows with x.reshape(-1, x.shape[-1])"#,
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;

    use super::*;
    use crate::data::formats::npy_header::header_bytes;

    fn open_bytes(bytes: &[u8]) -> Result<NpyRows> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.npy");
        fs::write(&path, bytes).unwrap();
        NpyRows::open(&path)
    }

    fn array(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
        [header_bytes(descr, shape), data.to_vec()].concat()
    }

    fn message(bytes: &[u8]) -> String {
        open_bytes(bytes).unwrap_err().to_string()
    }

    #[test]
    fn every_type_is_converted() {
        let cases: [(&str, Vec<u8>, f64, Element); 11] = [
            ("|b1", vec![0, 1], 1.0, Element::F32),
            ("|u1", vec![0, 200], 200.0, Element::F32),
            ("|i1", vec![0, 0xff], -1.0, Element::F32),
            ("<u2", [0u16, 60_000].map(u16::to_le_bytes).concat(), 6e4, Element::F32),
            ("<i2", [0i16, -300].map(i16::to_le_bytes).concat(), -300.0, Element::F32),
            ("<u4", [0u32, u32::MAX].map(u32::to_le_bytes).concat(), 4294967295.0, Element::F64),
            ("<i4", [0i32, -70_000].map(i32::to_le_bytes).concat(), -7e4, Element::F64),
            ("<u8", [0u64, 1 << 40].map(u64::to_le_bytes).concat(), 2f64.powi(40), Element::F64),
            ("<i8", [0i64, -(1 << 40)].map(i64::to_le_bytes).concat(), -(2f64.powi(40)), Element::F64),
            ("<f4", [0f32, 0.5].map(f32::to_le_bytes).concat(), 0.5, Element::F32),
            ("<f8", [0f64, 0.1].map(f64::to_le_bytes).concat(), 0.1, Element::F64),
        ];
        for (descr, data, expected, element) in cases {
            let source = open_bytes(&array(descr, "2, 1", &data)).unwrap();
            assert_eq!((source.num_rows(), source.dim(), source.element()), (2, 1, element));
            let mut out = Rows::dense(1);
            source.read_f64(0, 2, &mut out).unwrap();
            assert_eq!(out.as_dense(), Some(&[0.0, expected][..]), "{descr}");
            let mut out = Rows::sparse(1);
            source.read_f32(1, 1, &mut out).unwrap();
            assert_eq!(out.as_sparse().unwrap().2, [expected as f32], "{descr}");
        }
    }

    #[test]
    fn long_reads_come_in_stretches() {
        let values: Vec<f32> = (0..200_000).map(|i| i as f32).collect();
        let data: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        let source = open_bytes(&array("<f4", "40000, 5", &data)).unwrap();
        let mut out = Rows::dense(5);
        source.read_f32(1, 39_998, &mut out).unwrap();
        assert_eq!(out.as_dense(), Some(&values[5..199_995]));
        let mut sparse = Rows::sparse(5);
        source.read_f32(0, 40_000, &mut sparse).unwrap();
        assert_eq!(sparse.into_dense().as_dense(), Some(&values[..]));
    }

    #[test]
    fn types_that_are_not_read_come_with_a_remedy() {
        for (descr, remedy) in [
            (">f4", "x.astype(np.float32)"),
            (">f8", "x.astype(np.float64)"),
            ("<f2", "x.astype(np.float32)"),
            ("<c16", "x.real.astype(np.float64)"),
            (">i4", "x.astype(np.float64)"),
            ("<U8", "astype"),
            ("|O", "astype"),
        ] {
            let text = message(&array(descr, "1, 1", &[0; 16]));
            assert!(text.contains(descr) && text.contains(remedy), "{text}");
        }
    }

    #[test]
    fn shapes_that_are_not_read_come_with_a_remedy() {
        assert!(message(&array("<f4", "3,", &[0; 12])).contains("(3,)"));
        assert!(message(&array("<f4", "3,", &[0; 12])).contains("reshape(-1, 1)"));
        assert!(message(&array("<f4", "1, 1, 3", &[0; 12])).contains("reshape(len(x), -1)"));
        assert!(message(&array("<f4", "0, 3", &[])).contains("no rows"));
        assert!(message(&array("<f4", "3, 0", &[])).contains("no columns"));
    }

    #[test]
    fn arrays_by_columns_are_read_by_rows() {
        let (rows, columns) = (7, 3);
        let value = |n: usize, d: usize| (10 * n + d) as f32;
        let mut bytes = header_bytes("<f4", "7, 3");
        let at = bytes.windows(5).position(|word| word == b"False").unwrap();
        bytes[at..at + 5].copy_from_slice(b"True ");
        bytes.extend((0..columns).flat_map(|d| (0..rows).flat_map(move |n| value(n, d).to_le_bytes())));
        let source = open_bytes(&bytes).unwrap();
        assert!(source.note().unwrap().contains("np.ascontiguousarray(x)"));
        for start in 0..rows {
            for count in 0..=rows - start {
                let (mut dense, mut sparse) = (Rows::<f64>::dense(3), Rows::<f64>::sparse(3));
                source.read_f64(start, count, &mut dense).unwrap();
                source.read_f64(start, count, &mut sparse).unwrap();
                let expected = (start..start + count).flat_map(|n| (0..columns).map(move |d| f64::from(value(n, d))));
                assert_eq!(dense.as_dense().unwrap(), expected.collect::<Vec<_>>());
                assert_eq!(sparse.into_dense(), dense);
            }
        }
    }

    #[test]
    fn lying_headers_are_caught_before_anything_is_read() {
        let text = message(&array("<f4", "3, 2", &[0; 23]));
        assert!(text.contains("promises 24 bytes of data, it holds 23"), "{text}");
        assert!(message(&array("<f4", "3, 2", &[0; 25])).contains("1 bytes follow"));
        let huge = format!("{}, 1000", u64::MAX / 2);
        assert!(message(&array("<f4", &huge, &[0; 8])).contains("cut short"));
        assert!(message(b"\x93NUMPY\x02\x00\xff\xff\xff\xff").contains("4294967295"));
        assert!(message(b"PK").contains("does not start as a .npy file does"));
        assert!(message(&header_bytes("<f4", "1, 1")[..50]).contains("ends within its header"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn random_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = open_bytes(&bytes);
            let _ = open_bytes(&[b"\x93NUMPY\x01\x00\x40\x00", &bytes[..]].concat());
        }

        #[test]
        fn damaged_files_do_not_panic(at in 0usize..152, byte: u8, cut in 0usize..153) {
            let mut bytes = array("<f4", "3, 2", &[1; 24]);
            bytes[at] = byte;
            for bytes in [&bytes[..], &bytes[..cut.min(bytes.len())]] {
                if let Ok(source) = open_bytes(bytes) {
                    let mut out = Rows::dense(source.dim());
                    let _ = source.read_f64(0, source.num_rows(), &mut out);
                }
            }
        }
    }
}
