//! Corpora for benchmarks: a folder NAME with `docword.NAME.txt` (or `.gz`), `vocab.NAME.txt` and `split.NAME.txt`.

use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use lsparse::data::CsrRows;

/// The documents of a corpus that benchmarks use.
pub struct Documents {
    /// Name of the folder.
    pub name: String,
    /// Documents to train on.
    pub train: CsrRows<f32>,
    /// Documents to score.
    pub test: CsrRows<f32>,
    /// Number of words.
    pub vocab_size: usize,
}

/// Documents as lists of (word, count).
type Lists = Vec<Vec<(u32, f32)>>;

/// Read a corpus in the UCI format with its split; `scored` names the part to score (test, or val to choose by).
pub fn load(folder: &Path, scored: &str) -> Result<Documents, Box<dyn Error>> {
    let folder = folder.canonicalize().map_err(|e| format!("{}: {e}", folder.display()))?;
    let name = folder.file_name().ok_or("a corpus folder needs a name")?.to_string_lossy().into_owned();
    let plain = folder.join(format!("docword.{name}.txt"));
    let reader: Box<dyn Read> = if plain.exists() {
        Box::new(File::open(&plain)?)
    } else {
        let packed = folder.join(format!("docword.{name}.txt.gz"));
        let file = File::open(&packed).map_err(|e| format!("{}: {e}", packed.display()))?;
        Box::new(flate2::read::MultiGzDecoder::new(file))
    };
    let (documents, vocab_size) = read_docword(BufReader::with_capacity(1 << 20, reader))?;
    let words = std::fs::read_to_string(folder.join(format!("vocab.{name}.txt")))?.lines().count();
    if words != vocab_size {
        return Err(format!("{words} words in the vocabulary of {name}, {vocab_size} in its documents").into());
    }
    let split = std::fs::read_to_string(folder.join(format!("split.{name}.txt")))?;
    let parts: Vec<&str> = split.lines().map(str::trim).collect();
    if parts.len() != documents.len() {
        return Err(format!("{} lines in the split of {} documents", parts.len(), documents.len()).into());
    }
    let (train, test) = (part(&documents, &parts, "train", vocab_size)?, part(&documents, &parts, scored, vocab_size)?);
    Ok(Documents { name, train, test, vocab_size })
}

/// Documents and number of words: three lines of sizes, then "document word count" from 1 on.
fn read_docword(mut reader: impl BufRead) -> Result<(Lists, usize), Box<dyn Error>> {
    let mut line = String::new();
    let mut sizes = [0usize; 3];
    for size in &mut sizes {
        line.clear();
        reader.read_line(&mut line)?;
        *size = line.trim().parse()?;
    }
    let [num_documents, vocab_size, _] = sizes;
    let mut documents = vec![Vec::new(); num_documents];
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Ok((documents, vocab_size));
        }
        let mut fields = line.split_ascii_whitespace();
        let Some(document) = fields.next() else { continue };
        let document: usize = document.parse()?;
        let word: u32 = fields.next().ok_or("a line without a word")?.parse()?;
        let count: f32 = fields.next().ok_or("a line without a count")?.parse()?;
        let list = document.checked_sub(1).and_then(|d| documents.get_mut(d)).ok_or("a document out of range")?;
        list.push((word.checked_sub(1).ok_or("a word out of range")?, count));
    }
}

fn part(documents: &Lists, parts: &[&str], name: &str, vocab_size: usize) -> lsparse::Result<CsrRows<f32>> {
    let (mut indptr, mut words, mut counts) = (vec![0], Vec::new(), Vec::new());
    for (document, _) in documents.iter().zip(parts).filter(|(_, part)| **part == name) {
        words.extend(document.iter().map(|e| e.0));
        counts.extend(document.iter().map(|e| e.1));
        indptr.push(words.len());
    }
    CsrRows::new(name, vocab_size, indptr, words, counts)
}
