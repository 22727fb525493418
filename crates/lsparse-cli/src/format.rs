//! Numbers, times and tables for people to read.

use std::fmt::{Display, LowerExp};

/// A whole number with its thousands parted: 36,816.
pub fn grouped(value: usize) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A number with so many significant digits, without an exponent where that is readable.
pub fn significant(value: f64, digits: i32) -> String {
    let magnitude = if value == 0.0 || !value.is_finite() { 0 } else { value.abs().log10().floor() as i32 };
    if !(-5..15).contains(&magnitude) {
        return format!("{value:.*e}", (digits - 1).max(0) as usize);
    }
    format!("{value:.*}", (digits - 1 - magnitude).max(0) as usize)
}

/// A length of time: 12.3 s, 4 min 05 s, 2 h 03 min.
pub fn duration(seconds: f64) -> String {
    let whole = seconds.round().max(0.0) as u64;
    match whole {
        0..60 => format!("{seconds:.1} s"),
        60..3600 => format!("{} min {:02} s", whole / 60, whole % 60),
        _ => format!("{} h {:02} min", whole / 3600, whole / 60 % 60),
    }
}

/// How many a second: 950, 12.5 k, 1.25 M.
pub fn rate(per_second: f64) -> String {
    match per_second {
        r if r >= 1e6 => format!("{} M", significant(r / 1e6, 3)),
        r if r >= 1e3 => format!("{} k", significant(r / 1e3, 3)),
        r => significant(r, 3),
    }
}

/// A size of memory: 312 MB.
pub fn bytes(count: u64) -> String {
    match count as f64 {
        b if b >= 1e9 => format!("{} GB", significant(b / 1e9, 3)),
        b => format!("{} MB", significant(b / 1e6, 3)),
    }
}

/// A table with its columns aligned to the right, indented by two.
pub fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([header[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let header: Vec<String> = header.iter().map(|&name| name.to_owned()).collect();
    let line = |row: &Vec<String>| {
        let cells: String = row.iter().zip(&widths).map(|(cell, width)| format!("  {cell:>width$}")).collect();
        cells.trim_end().to_owned() + "\n"
    };
    std::iter::once(&header).chain(rows).map(line).collect()
}

/// A number of things, as in "1 batch" and "2 batches".
pub fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{} {}", grouped(count), if count == 1 { one } else { many })
}

/// A share as tables have it: with an exponent where it would be a long row of zeros.
pub fn share<T: Copy + Display + LowerExp + Into<f64>>(value: T) -> String {
    let size: f64 = value.into();
    if size == 0.0 || size >= 1e-5 { value.to_string() } else { format!("{value:e}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        assert_eq!([grouped(7), grouped(1000), grouped(1234567)], ["7", "1,000", "1,234,567"]);
        assert_eq!(
            [significant(-1234.5678, 6), significant(0.0, 3), significant(1e-9, 3)],
            ["-1234.57", "0.00", "1.00e-9"]
        );
        assert_eq!([duration(4.25), duration(65.0), duration(7385.0)], ["4.2 s", "1 min 05 s", "2 h 03 min"]);
        assert_eq!([rate(950.0), rate(12_500.0), rate(1.25e6)], ["950", "12.5 k", "1.25 M"]);
        assert_eq!([share(1.0), share(0.25), share(0.0), share(1.25e-106)], ["1", "0.25", "0", "1.25e-106"]);
        assert_eq!([share(0.1f32), share(1e-9f32)], ["0.1", "1e-9"]);
        assert_eq!([bytes(312_000_000), bytes(2_500_000_000)], ["312 MB", "2.50 GB"]);
    }

    #[test]
    fn tables_align() {
        let text = table(&["k", "weight"], &[vec!["10".into(), "0.5".into()]]);
        assert_eq!(text, "   k  weight\n  10     0.5\n");
    }
}
