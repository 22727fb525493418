//! Known classes of rows, and how well the clusters or topics found agree with them.

use std::path::Path;

use lsparse::math::agreement::Agreement;
use lsparse::open::{OpenOptions, read_column};
use lsparse::{Error, Result};

use crate::format::{grouped, significant};

/// The classes of `rows` rows: a .npy array of numbers, or text with one class a line.
pub fn read_labels(path: &Path, rows: usize) -> Result<Vec<String>> {
    let is_npy = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("npy"));
    let labels: Vec<String> = if is_npy {
        read_column(path, &OpenOptions::default())?.iter().map(f64::to_string).collect()
    } else {
        read_lines(path)?
    };
    if labels.len() == rows {
        return Ok(labels);
    }
    Err(Error::Format {
        path: path.to_owned(),
        detail: format!("it has {} labels for {} rows", grouped(labels.len()), grouped(rows)),
        remedy: "give one label a line, without a header, or a .npy array of one number a row".to_owned(),
    })
}

/// The lines of a text file, without blanks around them.
pub fn read_lines(path: &Path) -> Result<Vec<String>> {
    let bytes = std::fs::read(path).map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => Error::NotFound { path: path.to_owned() },
        _ => Error::Io { path: path.to_owned(), action: "read", source },
    })?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(text.strip_prefix('\u{feff}').unwrap_or(&text).lines().map(|line| line.trim().to_owned()).collect())
}

/// The agreement in lines that align with those of a score.
pub fn lines(agreement: &Agreement) -> String {
    let Agreement { nmi, ari, purity, classes, clusters } = agreement;
    let mut text = format!("NMI with the labels   {} (from 0 to 1)\n", significant(*nmi, 4));
    text += &format!("adjusted Rand index   {} (1 if they agree, 0 by chance)\n", significant(*ari, 4));
    text + &format!(
        "purity                {}, {} classes in {} clusters\n",
        significant(*purity, 4),
        grouped(*classes),
        grouped(*clusters)
    )
}
