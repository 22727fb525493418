//! Cut a corpus into documents to train on, to choose settings by, and to test on.

use std::fs;
use std::path::Path;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::error::{Error, Result};

use crate::corpus::folder::counts::Corpus;
use crate::corpus::folder::filter::for_each_doc;
use crate::corpus::folder::staging::{Kind, Staging};
use crate::corpus::folder::write::CorpusWriter;
use crate::corpus::text::pipeline::Watch;
use crate::corpus::text::text_file::{TextFile, shorten};

/// What a document is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// To train on.
    Train,
    /// To choose settings by.
    Val,
    /// To test on.
    Test,
}

impl Part {
    /// All parts.
    pub const ALL: [Part; 3] = [Part::Train, Part::Val, Part::Test];

    /// The name of the part's folder.
    pub fn name(self) -> &'static str {
        match self {
            Part::Train => "train",
            Part::Val => "val",
            Part::Test => "test",
        }
    }
}

/// Draw documents to test on and to choose settings by; the rest are to train on.
///
/// Shares are rounded to whole documents. The same numbers give the same parts on any machine.
pub fn draw_parts(num_docs: usize, val_share: f64, test_share: f64, seed: u64) -> Result<Vec<Part>> {
    let refuse = |setting: &'static str, problem: String| Error::Config {
        setting,
        problem,
        remedy: "choose shares from 0 to 1 that leave documents to train on".to_owned(),
    };
    for (setting, share) in [("val", val_share), ("test", test_share)] {
        if !(0.0..1.0).contains(&share) {
            return Err(refuse(setting, format!("{share} is no share of the documents")));
        }
    }
    let rounded = |share: f64| (share * num_docs as f64).round() as usize;
    let (num_val, num_test) = (rounded(val_share), rounded(test_share));
    if num_val + num_test >= num_docs {
        let problem = format!("{num_val} and {num_test} of {num_docs} documents leave none to train on");
        return Err(refuse("test", problem));
    }
    for (setting, share, count) in [("val", val_share, num_val), ("test", test_share, num_test)] {
        if share > 0.0 && count == 0 {
            let problem = format!("a share of {share} of {num_docs} documents is less than one document");
            let remedy = format!("give a larger share, or `{setting} 0` for no such part");
            return Err(Error::Config { setting, problem, remedy });
        }
    }
    let mut parts = vec![Part::Train; num_docs];
    parts[..num_test].fill(Part::Test);
    parts[num_test..num_test + num_val].fill(Part::Val);
    // Fisher-Yates; written out so that a split does not change with a library's version.
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    for i in (1..num_docs).rev() {
        // The upper half of a product is uniform on 0..=i, but for 2^-64 of the draws times i.
        let j = (u128::from(rng.next_u64()) * (i as u128 + 1)) >> 64;
        parts.swap(i, j as usize);
    }
    Ok(parts)
}

/// Read a file with `train`, `val` or `test` on a line for each document.
pub fn read_parts(path: &Path, num_docs: usize) -> Result<Vec<Part>> {
    let mut file = TextFile::open(path)?;
    let mut parts = Vec::new();
    while file.next_line()?.is_some() {
        let name = file.current().trim_ascii();
        let part = Part::ALL.into_iter().find(|part| part.name().as_bytes() == name).ok_or_else(|| {
            file.bad(format!("{:?} is no part", shorten(name)), "write train, val or test on each line")
        })?;
        if parts.len() == num_docs {
            let detail = format!("the corpus has {num_docs} documents, here is one more");
            return Err(file.bad(detail, "give the split of this corpus"));
        }
        parts.push(part);
    }
    if parts.len() < num_docs {
        let detail = format!("the file ends here, but the corpus has {num_docs} documents");
        return Err(file.bad(detail, "give the split of this corpus"));
    }
    if !parts.contains(&Part::Train) {
        let detail = "the file ends here without a document to train on".to_owned();
        return Err(file.bad(detail, "write train on some of the lines"));
    }
    Ok(parts)
}

/// Write the parts of a corpus to folders below `out`, named after them, all with the same vocabulary and in the
/// order that the documents had. A part without documents has no folder. Gives the documents of each part.
pub fn split(corpus: &Corpus, parts: &[Part], out: &Path, force: bool, watch: &mut Watch<'_>) -> Result<[usize; 3]> {
    if parts.len() != corpus.num_docs() {
        return Err(Error::Config {
            setting: "parts",
            problem: format!("{} parts for {} documents", parts.len(), corpus.num_docs()),
            remedy: "give one for each document".to_owned(),
        });
    }
    let staging = Staging::create(out, Kind::Split, force)?;
    let num_docs = write_parts(corpus, parts, &staging, watch).map_err(|error| staging.rename_error(error))?;
    staging.finish(force)?;
    Ok(num_docs)
}

fn write_parts(corpus: &Corpus, parts: &[Part], staging: &Staging, watch: &mut Watch<'_>) -> Result<[usize; 3]> {
    let num_docs = Part::ALL.map(|part| parts.iter().filter(|found| **found == part).count());
    let mut writers: [Option<CorpusWriter>; 3] = [None, None, None];
    for part in Part::ALL.into_iter().filter(|part| num_docs[*part as usize] > 0) {
        let folder = staging.out().join(part.name());
        fs::create_dir(&folder).map_err(|source| Error::Unwritable { path: folder.clone(), source })?;
        writers[part as usize] = Some(CorpusWriter::create(&folder)?);
    }
    let ids = corpus.ids()?;
    let mut entries = Vec::new();
    for_each_doc(corpus, "writing documents", watch, |doc, words, counts| {
        entries.clear();
        entries.extend(words.iter().zip(counts).map(|(&word, &count)| (word, count as u32)));
        match &mut writers[parts[doc] as usize] {
            Some(writer) => writer.push(ids.get(doc), &mut entries),
            None => Ok(()),
        }
    })?;
    for writer in writers.into_iter().flatten() {
        writer.finish(corpus.vocab(), corpus.tokenizer())?;
    }
    if let Some(metadata) = corpus.metadata()? {
        for part in Part::ALL.into_iter().filter(|part| num_docs[*part as usize] > 0) {
            let own = (0..parts.len()).filter(|&doc| parts[doc] == part);
            metadata.of_documents(own).write(&staging.out().join(part.name()))?;
        }
    }
    Ok(num_docs)
}

/// Write a corpus, such as one in memory, to a folder.
pub fn save(corpus: &Corpus, out: &Path, force: bool) -> Result<()> {
    let staging = Staging::create(out, Kind::Corpus, force)?;
    write_all(corpus, &staging.out()).map_err(|error| staging.rename_error(error))?;
    staging.finish(force)
}

fn write_all(corpus: &Corpus, folder: &Path) -> Result<()> {
    let mut writer = CorpusWriter::create(folder)?;
    let ids = corpus.ids()?;
    let mut entries = Vec::new();
    for_each_doc(corpus, "writing documents", &mut |_| Ok(()), |doc, words, counts| {
        entries.clear();
        entries.extend(words.iter().zip(counts).map(|(&word, &count)| (word, count as u32)));
        writer.push(ids.get(doc), &mut entries)
    })?;
    writer.finish(corpus.vocab(), corpus.tokenizer())?;
    corpus.metadata()?.map_or(Ok(()), |metadata| metadata.write(folder))
}
