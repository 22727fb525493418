//! Names that people give to topics, in a file of their own: the page writes it, and whatever shows topics reads it.

use std::path::Path;

use crate::error::{Error, Result};

/// Letters of a name at most.
const LONGEST: usize = 200;

/// Read names of topics: CSV with the columns `topic` (from 0) and `name`, in any order and among others. A topic that is not
/// in the file, or whose name is blank, has none.
pub fn read_topic_names(path: &Path, num_topics: usize) -> Result<Vec<Option<String>>> {
    read_names(path, num_topics, "topic")
}

/// The same for what is called otherwise, a "cluster" or a "state", whose column has that name, or one of the other two.
pub fn read_names(path: &Path, num: usize, what: &str) -> Result<Vec<Option<String>>> {
    let bytes = std::fs::read(path).map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => Error::NotFound { path: path.to_owned() },
        _ => Error::Io { path: path.to_owned(), action: "read", source },
    })?;
    let refuse = |line: u64, detail: String, remedy: &str| Error::BadLine {
        path: path.to_owned(),
        line,
        detail,
        remedy: remedy.to_owned(),
    };
    let text = std::str::from_utf8(&bytes).map_err(|error| {
        let line = bytes[..error.valid_up_to()].iter().filter(|&&byte| byte == b'\n').count() as u64 + 1;
        refuse(line, "it is not valid UTF-8".into(), "save the file as UTF-8")
    })?;
    let mut reader =
        csv::ReaderBuilder::new().flexible(true).from_reader(text.trim_start_matches('\u{feff}').as_bytes());
    let headers = reader.headers().cloned().unwrap_or_default();
    let column = |name: &str| {
        headers.iter().position(|header| header.trim() == name).ok_or_else(|| {
            let remedy = format!("name the columns in the first line: {what},name");
            refuse(1, format!("there is no column {name:?}"), &remedy)
        })
    };
    let number = ["topic", "cluster", "state"].iter().find_map(|other| column(other).ok());
    let (number, name) = (column(what).or_else(|error| number.ok_or(error))?, column("name")?);
    let mut names = vec![None; num];
    for record in reader.records() {
        let record = record.map_err(|error| {
            let line = error.position().map_or(1, csv::Position::line);
            refuse(line, format!("it cannot be read ({error})"), "give a number and a name a line")
        })?;
        let line = record.position().map_or(1, csv::Position::line);
        let field = |at: usize| record.get(at).unwrap_or_default().trim();
        let Some(at) = field(number).parse::<usize>().ok().filter(|&at| at < num) else {
            let detail = format!("there is no {what} {:?}", crate::error::brief(field(number)));
            let remedy = format!("give numbers from 0 to {}, or the names of this very model", num.saturating_sub(1));
            return Err(refuse(line, detail, &remedy));
        };
        // What goes into lines of a table is one line itself.
        let plain: String = field(name).chars().map(|c| if c.is_control() { ' ' } else { c }).take(LONGEST).collect();
        names[at] = Some(plain.trim().to_owned()).filter(|name| !name.is_empty());
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_by_column_and_what_is_wrong_is_said_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("names.csv");
        let read = |text: &[u8]| {
            std::fs::write(&path, text).unwrap();
            read_topic_names(&path, 3)
        };
        let some = |name: &str| Some(name.to_owned());
        let found = read("\u{feff}share,name,topic\n0.5,\"Wind, \"\"sea\"\"\",2\n0.1, ,1\n".as_bytes()).unwrap();
        assert_eq!(found, [None, None, some("Wind, \"sea\"")]);
        assert_eq!(read(b"topic,name\n0,\"a\nb\"\n").unwrap()[0], some("a b"));
        assert_eq!(read(b"topic,name\n").unwrap(), [None, None, None]);
        for (text, expected) in [
            (&b"topic,name\n0,a\n3,b\n"[..], "line 3"),
            (b"topic,name\n-1,b\n", "there is no topic \"-1\"; give numbers from 0 to 2"),
            (b"0,a\n", "there is no column \"topic\""),
            (b"topic\n0\n", "there is no column \"name\""),
            (b"", "there is no column"),
            (b"topic,name\n0,\xff\n", "line 2"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.to_string().contains(expected) && error.is_bad_input(), "{error}");
        }
        // What is asked for is called by its own name.
        for (text, expected) in [
            (&b"0,a\n"[..], "there is no column \"state\"; name the columns in the first line: state,name"),
            (b"state,name\n3,a\n", "there is no state \"3\""),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = read_names(&path, 3, "state").unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        }
        std::fs::write(&path, "cluster,name\n2,far\n").unwrap();
        assert_eq!(read_names(&path, 3, "cluster").unwrap(), [None, None, some("far")]);
        assert!(read_topic_names(&folder.path().join("none.csv"), 3).unwrap_err().is_bad_input());
    }
}
