//! Damage bytes at random, in the ways that files are damaged and that those who mean harm damage them.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Numbers at the edges of what readers can hold, and things that only look like numbers.
const NUMBERS: &[&str] = &[
    "0",
    "-1",
    "1.5",
    "-0",
    "00",
    "+7",
    "127",
    "256",
    "65536",
    "1000000",
    "100000000",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999999999999",
    "1e18",
    "1e300",
    "-1e300",
    "1e999",
    "1e-320",
    "NaN",
    "inf",
    "-Infinity",
    "0x10",
    "1,5",
    "",
];

/// What means something in one format or another.
const TOKENS: &[&[u8]] = &[
    b"\n",
    b"\r\n",
    b"\r",
    b"\n\n\n",
    b"\"",
    b"\"\"",
    b"'",
    b",",
    b";",
    b"\t",
    b" ",
    b":",
    b"#",
    b"%",
    b"{",
    b"}",
    b"[",
    b"]",
    b"null",
    b"true",
    b"\\",
    b"\\u0000",
    b"\\ud800",
    b"\0",
    b"\0\0\0\0\0\0\0\0",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"\xc3\x28",
    b"\xf0\x9f\x98\x80",
    b"\x1f\x8b\x08\x00",
    b"PK\x03\x04",
    b"\x93NUMPY\x01\x00",
    b"%%MatrixMarket matrix coordinate integer general\n",
    b"(1,)",
    b"(18446744073709551615, 2)",
    b"'descr': '<f8'",
];

/// A source of damage; the same seed gives the same damage.
pub struct Mutator {
    rng: ChaCha8Rng,
}

impl Mutator {
    pub fn new(seed: u64) -> Self {
        Mutator { rng: ChaCha8Rng::seed_from_u64(seed) }
    }

    /// A number below `limit`, or zero if there is none.
    pub fn below(&mut self, limit: usize) -> usize {
        if limit == 0 { 0 } else { self.rng.random_range(0..limit) }
    }

    /// Bytes that mean nothing, or just enough to be looked at.
    pub fn noise(&mut self) -> Vec<u8> {
        let length = self.below(300);
        let alphabet: &[u8] = match self.below(3) {
            0 => b"0123456789 \n:.,-",
            1 => b"ab \n\"{}[]:,\\01#%",
            _ => &[],
        };
        let byte = |s: &mut Self| if alphabet.is_empty() { s.rng.random() } else { alphabet[s.below(alphabet.len())] };
        (0..length).map(|_| byte(self)).collect()
    }

    /// Damage `bytes` in a few places; `other` is another file of the same kind to take pieces from.
    pub fn damage(&mut self, bytes: &mut Vec<u8>, other: &[u8]) {
        for _ in 0..=self.below(3) {
            self.damage_once(bytes, other);
        }
    }

    fn damage_once(&mut self, bytes: &mut Vec<u8>, other: &[u8]) {
        let at = self.below(bytes.len() + 1);
        let (from, to) = self.stretch(bytes.len());
        match self.below(10) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(from..to)),
            2 => {
                let again = bytes[from..to].to_vec();
                insert(bytes, at, &again);
            }
            3 if !bytes.is_empty() => {
                let at = at % bytes.len();
                bytes[at] ^= 1 << self.below(8);
            }
            4 if !bytes.is_empty() => {
                let at = at % bytes.len();
                bytes[at] = self.rng.random();
            }
            5 => {
                let token = TOKENS[self.below(TOKENS.len())];
                insert(bytes, at, token);
            }
            6 => self.replace_number(bytes, at),
            7 => self.overwrite_integer(bytes, at),
            8 => {
                let (from, to) = self.stretch(other.len());
                insert(bytes, at, &other[from..to]);
            }
            // One token many times: deep nesting, long fields, long lines.
            _ => {
                let token = TOKENS[self.below(TOKENS.len())];
                let many = token.repeat(1 << self.below(11));
                insert(bytes, at, &many);
            }
        }
    }

    /// A stretch of something so long, mostly short.
    fn stretch(&mut self, length: usize) -> (usize, usize) {
        let from = self.below(length + 1);
        let longest = if self.below(4) == 0 { length - from } else { (length - from).min(16) };
        (from, from + self.below(longest + 1))
    }

    /// Put another number in place of the first one from `at` on.
    fn replace_number(&mut self, bytes: &mut Vec<u8>, at: usize) {
        let number = NUMBERS[self.below(NUMBERS.len())].as_bytes();
        let Some(start) = bytes[at..].iter().position(u8::is_ascii_digit).map(|found| at + found) else {
            return insert(bytes, at, number);
        };
        let end = bytes[start..].iter().position(|byte| !byte.is_ascii_digit()).map_or(bytes.len(), |n| start + n);
        bytes.splice(start..end, number.iter().copied());
    }

    /// Put an extreme integer over the bytes at `at`, in either order.
    fn overwrite_integer(&mut self, bytes: &mut [u8], at: usize) {
        let extremes = [0, 1, 0x7f, 0xff, 0x7fff, 0xffff, 0x7fff_ffff, 0xffff_ffff, i64::MAX as u64, u64::MAX, 1 << 40];
        let value = extremes[self.below(extremes.len())];
        let width = 1 << self.below(4);
        let little = value.to_le_bytes();
        let big: Vec<u8> = little[..width].iter().rev().copied().collect();
        let integer = if self.below(2) == 0 { &little[..width] } else { &big[..] };
        let end = bytes.len().min(at + width);
        bytes[at..end].copy_from_slice(&integer[..end - at]);
    }
}

fn insert(bytes: &mut Vec<u8>, at: usize, piece: &[u8]) {
    bytes.splice(at..at, piece.iter().copied());
}
