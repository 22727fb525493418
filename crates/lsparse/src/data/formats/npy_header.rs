//! Read and write the header of NumPy's `.npy` format, and the bytes of its elements.
//!
//! The format: `\x93NUMPY`, two version bytes, the length of the header (2 bytes in version 1, 4
//! later), and a Python literal such as `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }`.

use std::io::{self, Read};

use lsparse_kernels::Real;

use crate::data::Element;

/// The first bytes of every `.npy` file.
pub(crate) const MAGIC: &[u8; 6] = b"\x93NUMPY";

/// Longer headers belong to record arrays, which are not read, or to no array at all.
const MAX_HEADER: usize = 1 << 16;

/// The bytes a header written here takes, whatever the number of rows.
pub(crate) const WRITTEN_HEADER: usize = 128;

/// What a header says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Header {
    /// The type of the elements as NumPy writes it, such as `<f4`.
    pub(crate) descr: String,
    /// Whether columns, not rows, are contiguous.
    pub(crate) fortran_order: bool,
    /// The size of each dimension.
    pub(crate) shape: Vec<u64>,
    /// Bytes before the first element.
    pub(crate) data_start: u64,
}

/// A type of elements that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dtype {
    Bool,
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    U64,
    I64,
    F32,
    F64,
}

/// What messages call the types that are read.
pub(crate) const DTYPES: &str = "float32, float64, bool and whole numbers, little-endian";

impl Dtype {
    pub(crate) fn parse(descr: &str) -> Option<Dtype> {
        let (order, kind) = descr.split_at_checked(1)?;
        let dtype = match kind {
            "b1" => Dtype::Bool,
            "u1" => Dtype::U8,
            "i1" => Dtype::I8,
            "u2" => Dtype::U16,
            "i2" => Dtype::I16,
            "u4" => Dtype::U32,
            "i4" => Dtype::I32,
            "u8" => Dtype::U64,
            "i8" => Dtype::I64,
            "f4" => Dtype::F32,
            "f8" => Dtype::F64,
            _ => return None,
        };
        // The order of the bytes is no matter where there is one only.
        (matches!(order, "<" | "|") || dtype.size() == 1).then_some(dtype)
    }

    /// Bytes an element.
    pub(crate) fn size(self) -> usize {
        match self {
            Dtype::Bool | Dtype::U8 | Dtype::I8 => 1,
            Dtype::U16 | Dtype::I16 => 2,
            Dtype::U32 | Dtype::I32 | Dtype::F32 => 4,
            Dtype::U64 | Dtype::I64 | Dtype::F64 => 8,
        }
    }

    pub(crate) fn is_integer(self) -> bool {
        !matches!(self, Dtype::Bool | Dtype::F32 | Dtype::F64)
    }

    /// The smaller precision that holds every value (but for integers above 2^53).
    pub(crate) fn element(self) -> Element {
        match self {
            Dtype::U32 | Dtype::I32 | Dtype::U64 | Dtype::I64 | Dtype::F64 => Element::F64,
            _ => Element::F32,
        }
    }

    /// Append the elements in `bytes`, a whole number of them, to `out`.
    pub(crate) fn decode<T: Real>(self, bytes: &[u8], out: &mut Vec<T>) {
        fn each<T: Real, const N: usize>(bytes: &[u8], out: &mut Vec<T>, convert: impl Fn([u8; N]) -> f64) {
            let (elements, rest) = bytes.as_chunks::<N>();
            debug_assert!(rest.is_empty(), "whole elements only");
            out.extend(elements.iter().map(|&element| T::from_f64(convert(element))));
        }
        match self {
            Dtype::Bool => each(bytes, out, |[b]| f64::from(u8::from(b != 0))),
            Dtype::U8 => each(bytes, out, |[b]| f64::from(b)),
            Dtype::I8 => each(bytes, out, |b| f64::from(i8::from_le_bytes(b))),
            Dtype::U16 => each(bytes, out, |b| f64::from(u16::from_le_bytes(b))),
            Dtype::I16 => each(bytes, out, |b| f64::from(i16::from_le_bytes(b))),
            Dtype::U32 => each(bytes, out, |b| f64::from(u32::from_le_bytes(b))),
            Dtype::I32 => each(bytes, out, |b| f64::from(i32::from_le_bytes(b))),
            Dtype::U64 => each(bytes, out, |b| u64::from_le_bytes(b) as f64),
            Dtype::I64 => each(bytes, out, |b| i64::from_le_bytes(b) as f64),
            Dtype::F32 => each(bytes, out, |b| f64::from(f32::from_le_bytes(b))),
            Dtype::F64 => each(bytes, out, f64::from_le_bytes),
        }
    }

    /// Append the integers in `bytes` to `out`; those that `i64` cannot hold become its maximum.
    pub(crate) fn decode_integers(self, bytes: &[u8], out: &mut Vec<i64>) {
        match self {
            Dtype::I64 => {
                out.extend(bytes.as_chunks().0.iter().map(|&b| i64::from_le_bytes(b)));
            }
            Dtype::U64 => {
                let elements = bytes.as_chunks().0.iter().map(|&b| u64::from_le_bytes(b));
                out.extend(elements.map(|v| i64::try_from(v).unwrap_or(i64::MAX)));
            }
            // Smaller integers are exact in 64 bit floats.
            _ => {
                let mut values: Vec<f64> = Vec::new();
                self.decode(bytes, &mut values);
                out.extend(values.iter().map(|&v| v as i64));
            }
        }
    }
}

impl Header {
    /// Read the header at the start of an array; the second error is what is wrong with it.
    pub(crate) fn read(reader: &mut dyn Read) -> io::Result<Result<Header, String>> {
        let mut start = [0; 8];
        if !fill(reader, &mut start)? || &start[..6] != MAGIC {
            return Ok(Err("it does not start as a .npy file does".to_owned()));
        }
        let length_bytes = match start[6] {
            1 => 2,
            2 | 3 => 4,
            version => return Ok(Err(format!("version {version} of the format is not known"))),
        };
        let mut length = [0; 4];
        let cut = || "it ends within its header".to_owned();
        if !fill(reader, &mut length[..length_bytes])? {
            return Ok(Err(cut()));
        }
        let length = u32::from_le_bytes(length) as usize;
        if length > MAX_HEADER {
            return Ok(Err(format!("a header of {length} bytes is not that of a plain array")));
        }
        let mut text = vec![0; length];
        if !fill(reader, &mut text)? {
            return Ok(Err(cut()));
        }
        Ok(Header::parse(&text, (8 + length_bytes + length) as u64)
            .ok_or_else(|| "its header cannot be understood".to_owned()))
    }

    fn parse(text: &[u8], data_start: u64) -> Option<Header> {
        let mut literal = Literal { rest: std::str::from_utf8(text).ok()? };
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        literal.expect("{")?;
        while !literal.accept("}") {
            let key = literal.text()?;
            literal.expect(":")?;
            match key {
                "descr" => descr = Some(literal.descr()?),
                "fortran_order" => fortran_order = Some(literal.boolean()?),
                "shape" => shape = Some(literal.tuple()?),
                _ => return None,
            }
            if !literal.accept(",") {
                literal.expect("}")?;
                break;
            }
        }
        Some(Header { descr: descr?, fortran_order: fortran_order?, shape: shape?, data_start })
    }

    /// How many elements there are, if that can be counted.
    pub(crate) fn num_elements(&self) -> Option<u64> {
        self.shape.iter().try_fold(1u64, |product, &size| product.checked_mul(size))
    }

    /// The shape as Python writes it.
    pub(crate) fn shape_text(&self) -> String {
        let sizes: Vec<String> = self.shape.iter().map(u64::to_string).collect();
        if sizes.len() == 1 { format!("({},)", sizes[0]) } else { format!("({})", sizes.join(", ")) }
    }
}

/// The header of an array, [`WRITTEN_HEADER`] bytes; `shape` is written as given, as in `3, 4`.
pub(crate) fn header_bytes(descr: &str, shape: &str) -> Vec<u8> {
    let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}");
    let mut bytes = MAGIC.to_vec();
    bytes.extend([1, 0]);
    bytes.extend((WRITTEN_HEADER as u16 - 10).to_le_bytes());
    bytes.extend(text.as_bytes());
    debug_assert!(bytes.len() < WRITTEN_HEADER, "two sizes of 20 digits leave room");
    bytes.resize(WRITTEN_HEADER - 1, b' ');
    bytes.push(b'\n');
    bytes
}

/// Fill `buffer`, or say that the end came first.
fn fill(reader: &mut dyn Read, buffer: &mut [u8]) -> io::Result<bool> {
    match reader.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// What is left to read of a Python literal.
struct Literal<'a> {
    rest: &'a str,
}

impl<'a> Literal<'a> {
    fn accept(&mut self, token: &str) -> bool {
        let found = self.rest.trim_start().strip_prefix(token);
        self.rest = found.unwrap_or(self.rest);
        found.is_some()
    }

    fn expect(&mut self, token: &str) -> Option<()> {
        self.accept(token).then_some(())
    }

    fn text(&mut self) -> Option<&'a str> {
        let quote = if self.accept("'") {
            '\''
        } else {
            self.expect("\"")?;
            '"'
        };
        let (text, rest) = self.rest.split_once(quote)?;
        self.rest = rest;
        Some(text)
    }

    fn boolean(&mut self) -> Option<bool> {
        if self.accept("True") {
            return Some(true);
        }
        self.expect("False").map(|()| false)
    }

    fn tuple(&mut self) -> Option<Vec<u64>> {
        self.expect("(")?;
        let mut sizes = Vec::new();
        while !self.accept(")") {
            let digits = self.rest.trim_start();
            let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
            sizes.push(digits[..end].parse().ok()?);
            self.rest = &digits[end..];
            // Python 2 marked long integers.
            self.accept("L");
            if !self.accept(",") {
                self.expect(")")?;
                break;
            }
        }
        Some(sizes)
    }

    /// The text of a plain type, or the word "record" for a list of fields, which is skipped.
    fn descr(&mut self) -> Option<String> {
        if !self.accept("[") {
            return self.text().map(str::to_owned);
        }
        let mut depth = 1;
        while depth > 0 {
            let at = self.rest.find(['[', ']'])?;
            if self.rest[at..].starts_with('[') {
                depth += 1;
            } else {
                depth -= 1;
            }
            self.rest = &self.rest[at + 1..];
        }
        Some("record".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<Header> {
        Header::parse(text.as_bytes(), 0)
    }

    #[test]
    fn headers_come_in_any_spelling() {
        let expected = Header { descr: "<f4".into(), fortran_order: false, shape: vec![3, 4], data_start: 0 };
        for text in [
            "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }   \n",
            "{\"shape\":(3L,4L,),\"fortran_order\":False,\"descr\":\"<f4\"}",
        ] {
            assert_eq!(parse(text).as_ref(), Some(&expected));
        }
        let scalar = parse("{'descr': '|S3', 'fortran_order': True, 'shape': ()}").unwrap();
        assert!(scalar.fortran_order && scalar.shape.is_empty());
        assert_eq!(scalar.num_elements(), Some(1));
        let record =
            parse("{'descr': [('a', '<f4', (2,)), ('b', [('c', '<i4')])], 'fortran_order': False, 'shape': (3,)}");
        assert_eq!(record.unwrap().descr, "record");
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "",
            "{",
            "{}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (3, -4)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (3 4)}",
            "{'descr': '<f4', 'fortran_order': 0, 'shape': (3, 4)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999999,)}",
            "{'descr': [, 'fortran_order': False, 'shape': (3,)}",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
        let huge = parse("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}");
        assert_eq!(huge.unwrap().num_elements(), None);
    }

    #[test]
    fn what_is_written_is_read() {
        let bytes = header_bytes("<f8", &format!("{}, {}", u64::MAX, u64::MAX));
        let header = Header::read(&mut &bytes[..]).unwrap().unwrap();
        assert_eq!(header.shape, [u64::MAX, u64::MAX]);
        assert_eq!(header.data_start, WRITTEN_HEADER as u64);
        assert_eq!(Dtype::parse(&header.descr), Some(Dtype::F64));
    }

    #[test]
    fn integers_decode_exactly() {
        let mut out = Vec::new();
        Dtype::I64.decode_integers(&(i64::MAX - 1).to_le_bytes(), &mut out);
        Dtype::U64.decode_integers(&u64::MAX.to_le_bytes(), &mut out);
        Dtype::I16.decode_integers(&(-7i16).to_le_bytes(), &mut out);
        assert_eq!(out, [i64::MAX - 1, i64::MAX, -7]);
        let mut values: Vec<f32> = Vec::new();
        Dtype::Bool.decode(&[0, 2], &mut values);
        Dtype::U16.decode(&[1, 1], &mut values);
        assert_eq!(values, [0.0, 1.0, 257.0]);
    }
}
