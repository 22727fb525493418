//! Tests of the corpus as a whole: formats, text, bad input and damaged files.

mod bad;
mod damage;
mod folder;
mod formats;
mod text;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::corpus::*;
use crate::data::{RowSource, Rows, write_csr_npz};
use crate::error::Result;

/// Documents as pairs of word and count.
type Docs = Vec<Vec<(u32, u32)>>;

/// The formats of counts.
const COUNT_FORMATS: [Format; 6] =
    [Format::Uci, Format::LdaC, Format::Mtx, Format::Svmlight, Format::Npz, Format::Mallet];

/// Empty documents at the start, in the middle and at the end, and a word that is never seen.
fn sample() -> (Docs, Vec<String>) {
    let docs = vec![vec![], vec![(0, 2), (3, 1)], vec![(1, 7)], vec![], vec![(0, 1), (1, 1), (4, 300)], vec![]];
    (docs, ["pear", "apple", "never", "fig", "\u{fc}zum"].map(String::from).to_vec())
}

/// The bytes of a file in a format.
fn encode(format: Format, docs: &Docs, words: &[String]) -> Vec<u8> {
    let entries: usize = docs.iter().map(Vec::len).sum();
    let mut out = Vec::new();
    match format {
        Format::Uci => write!(out, "{}\n{}\n{entries}\n", docs.len(), words.len()).unwrap(),
        Format::Mtx => {
            let head = "%%MatrixMarket matrix coordinate integer general\n% a note\n";
            writeln!(out, "{head}{} {} {entries}", docs.len(), words.len()).unwrap();
        }
        Format::Npz => return npz_bytes(docs, words.len()),
        _ => {}
    }
    for (doc, pairs) in docs.iter().enumerate() {
        match format {
            Format::Uci | Format::Mtx => {
                pairs.iter().for_each(|(word, count)| writeln!(out, "{} {} {count}", doc + 1, word + 1).unwrap());
                continue;
            }
            Format::LdaC => {
                write!(out, "{}", pairs.len()).unwrap();
                pairs.iter().for_each(|(word, count)| write!(out, " {word}:{count}").unwrap());
            }
            Format::Svmlight => {
                write!(out, "-1").unwrap();
                pairs.iter().for_each(|(word, count)| write!(out, " {}:{count}", word + 1).unwrap());
            }
            Format::Mallet => {
                write!(out, "{} label", doc + 1).unwrap();
                for (word, count) in pairs {
                    (0..*count).for_each(|_| write!(out, " {}", words[*word as usize]).unwrap());
                }
            }
            other => panic!("{other:?} holds no counts"),
        }
        out.push(b'\n');
    }
    out
}

fn npz_bytes(docs: &Docs, num_words: usize) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.npz");
    let mut indptr = vec![0];
    let (mut indices, mut data) = (Vec::new(), Vec::new());
    for doc in docs {
        indices.extend(doc.iter().map(|pair| pair.0 as i32));
        data.extend(doc.iter().map(|pair| f64::from(pair.1)));
        indptr.push(indices.len() as i64);
    }
    write_csr_npz(&path, docs.len(), num_words, &indptr, &indices, &data).unwrap();
    fs::read(&path).unwrap()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A folder to work in.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Place(tempfile::tempdir().unwrap())
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.at(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    /// Build `out` from a file in this folder.
    fn build(&self, input: &str, options: &BuildOptions, out: &str) -> Result<BuildReport> {
        build(&self.at(input), options, &self.at(out), &mut |_| Ok(()))
    }

    /// What is in this folder.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// All files of a folder.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let read = |entry: fs::DirEntry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap());
    fs::read_dir(folder).unwrap().map(|entry| read(entry.unwrap())).collect()
}

/// The documents of a corpus, as words and counts.
fn docs(corpus: &Corpus) -> Vec<Vec<(String, u32)>> {
    let mut rows = Rows::<f32>::sparse(corpus.dim());
    corpus.read_f32(0, corpus.num_docs(), &mut rows).unwrap();
    let row = |doc| {
        let (words, counts) = rows.sparse_row(doc);
        let word = |word: &u32| corpus.vocab().word(*word).unwrap().to_owned();
        words.iter().map(word).zip(counts.iter().map(|&count| count as u32)).collect()
    };
    (0..corpus.num_docs()).map(row).collect()
}
