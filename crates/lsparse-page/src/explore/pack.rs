//! What the page shows as one text: JSON and arrays of numbers, gzipped, in base64.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Map, Value, json};

/// JSON and arrays on their way into a page. The page reads arrays in place, so each starts at a multiple of eight bytes.
#[derive(Default)]
pub struct Pack {
    values: Map<String, Value>,
    arrays: Map<String, Value>,
    bytes: Vec<u8>,
}

impl Pack {
    /// A value by name.
    pub fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.values.insert(name.to_owned(), value.into());
    }

    /// Numbers of 32 bits.
    pub fn f32(&mut self, name: &str, values: &[f32]) {
        self.array(name, "f32", values.len(), values.iter().flat_map(|value| value.to_le_bytes()));
    }

    /// Numbers of 64 bits.
    pub fn f64(&mut self, name: &str, values: &[f64]) {
        self.array(name, "f64", values.len(), values.iter().flat_map(|value| value.to_le_bytes()));
    }

    /// Numbers of 8 bits.
    pub fn bytes(&mut self, name: &str, values: &[u8]) {
        self.array(name, "u8", values.len(), values.iter().copied());
    }

    /// Whole numbers, in 16 bits where all fit.
    pub fn whole(&mut self, name: &str, values: &[u32]) {
        if values.iter().all(|&value| value <= u32::from(u16::MAX)) {
            self.array(name, "u16", values.len(), values.iter().flat_map(|&value| (value as u16).to_le_bytes()));
        } else {
            self.array(name, "u32", values.len(), values.iter().flat_map(|value| value.to_le_bytes()));
        }
    }

    fn array(&mut self, name: &str, kind: &str, length: usize, bytes: impl Iterator<Item = u8>) {
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        self.arrays.insert(name.to_owned(), json!([kind, self.bytes.len(), length]));
        self.bytes.extend(bytes);
    }

    /// The length of the JSON in four bytes, the JSON, zeros up to a multiple of eight, the arrays; gzipped, in base64.
    pub fn finish(mut self) -> io::Result<String> {
        self.values.insert("arrays".to_owned(), Value::Object(self.arrays));
        let text = serde_json::to_vec(&self.values)?;
        let mut packed = GzEncoder::new(Vec::new(), Compression::new(6));
        packed.write_all(&(text.len() as u32).to_le_bytes())?;
        packed.write_all(&text)?;
        packed.write_all(&[0; 8][..(text.len() + 4).next_multiple_of(8) - text.len() - 4])?;
        packed.write_all(&self.bytes)?;
        Ok(base64(&packed.finish()?))
    }
}

/// Bytes as letters that mean nothing to HTML.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let at = |i: usize| u32::from(three.get(i).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for letter in 0..4 {
            let of_bytes = letter <= three.len();
            text.push(if of_bytes { LETTERS[(bits >> (18 - 6 * letter)) as usize & 63] as char } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn base64_is_that_of_the_standard() {
        let examples = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("\u{fb}\u{ff}", "w7vDvw=="),
        ];
        for (bytes, text) in examples {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }
}
