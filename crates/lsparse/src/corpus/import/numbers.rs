//! Parse the numbers of text formats, and say what is wrong with those that are none.

use crate::corpus::folder::write::MAX_COUNT;
use crate::corpus::text::text_file::shorten;
use crate::error::show_number;

/// The fields of a line, parted by blanks.
pub(in crate::corpus) fn fields(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty())
}

/// A whole number without a sign.
pub(in crate::corpus) fn whole(field: &[u8]) -> Option<u64> {
    if field.is_empty() || field.len() > 19 {
        return None;
    }
    let mut value = 0u64;
    for &byte in field {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + u64::from(digit);
    }
    Some(value)
}

/// A number of a document or a word, or what is wrong with it.
pub(in crate::corpus) fn number(what: &str, field: &[u8]) -> Result<u64, String> {
    whole(field).ok_or_else(|| format!("{:?} is not the number of a {what}", shorten(field)))
}

/// A count, or what is wrong with it.
pub(in crate::corpus) fn count(field: &[u8]) -> Result<u32, String> {
    if let Some(value) = whole(field) {
        return match u32::try_from(value) {
            Ok(value) if value <= MAX_COUNT => Ok(value),
            _ => Err(format!("the count {value} is more than {MAX_COUNT}")),
        };
    }
    let text = std::str::from_utf8(field).ok();
    match text.and_then(|text| text.parse::<f64>().ok()) {
        None => Err(format!("{:?} is not a count", shorten(field))),
        Some(value) => count_of(value),
    }
}

/// A count given as a floating point number, or what is wrong with it.
pub(in crate::corpus) fn count_of(value: f64) -> Result<u32, String> {
    let shown = show_number(value);
    if value < 0.0 {
        Err(format!("the count {shown} is negative"))
    } else if !value.is_finite() || value.fract() != 0.0 {
        Err(format!("the count {shown} is not whole"))
    } else if value > f64::from(MAX_COUNT) {
        Err(format!("the count {shown} is more than {MAX_COUNT}"))
    } else {
        Ok(value as u32)
    }
}

/// The two sides of `word:count`.
pub(in crate::corpus) fn pair(field: &[u8]) -> Result<(u64, u32), String> {
    let Some(colon) = field.iter().position(|&byte| byte == b':') else {
        return Err(format!("{:?} is not word:count", shorten(field)));
    };
    Ok((number("word", &field[..colon])?, count(&field[colon + 1..])?))
}

/// What to do about most of it.
pub(in crate::corpus) const MEND_COUNTS: &str = "give whole counts, zero or more";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_whole() {
        assert_eq!((count(b"12"), count(b"3.0"), count(b"1e2"), count(b"-0")), (Ok(12), Ok(3), Ok(100), Ok(0)));
        for (field, expected) in [
            ("-1", "-1 is negative"),
            ("2.5", "2.5 is not whole"),
            ("nan", "NaN is not whole"),
            ("inf", "inf is not whole"),
            ("x", "\"x\" is not a count"),
            ("", "\"\" is not a count"),
            ("4294967296", "is more than"),
            ("99999999999999999999", "is more than"),
            ("\u{663}", "is not a count"),
        ] {
            let error = count(field.as_bytes()).unwrap_err();
            assert!(error.contains(expected), "{field}: {error}");
        }
        assert_eq!(whole(b"9999999999999999999"), Some(9_999_999_999_999_999_999));
        assert_eq!((whole(b"99999999999999999999"), whole(b"+1"), whole(b"")), (None, None, None));
        assert_eq!(pair(b"7:2"), Ok((7, 2)));
        assert!(pair(b"7").is_err() && pair(b":").is_err() && pair(b"7:").is_err() && pair(b"-1:2").is_err());
        assert_eq!(fields(b" 1\t2  3\r").count(), 3);
    }
}
