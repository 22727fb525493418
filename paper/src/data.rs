//! The data sets of the experiments: real ones under `--data`, embedded ones without, as files that `lsparse` reads.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use lsparse::synthetic::dead_leaves;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::Result;

/// Rows to train on and rows to score.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DataSet {
    /// 8 x 8 patches of the first `images` of BSDS500's train and test folders; scored on the first `heldout` of its
    /// val folder, settings chosen by as many after them.
    Images {
        /// Images to train on.
        images: usize,
        /// Images to score.
        heldout: usize,
    },
    /// Patches of images of overlapping discs, which have the statistics of natural ones.
    Leaves {
        /// Images to train on.
        images: usize,
        /// Images to score.
        heldout: usize,
    },
    /// A corpus with its split: a folder NAME with docword.NAME.txt.gz, vocab.NAME.txt and split.NAME.txt.
    Corpus {
        /// Its name.
        name: String,
    },
    /// Documents drawn from the model: topics of few words, documents of few topics.
    Planted {
        /// Documents in all; a tenth each for validation and test.
        documents: usize,
        /// Topics.
        topics: usize,
        /// Words in a document, on average.
        length: usize,
    },
}

/// The part of a data set that is scored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// To choose settings by.
    Val,
    /// To report.
    Test,
}

impl Part {
    /// The file of so many images that are scored, without its extension.
    fn file(self, images: usize) -> String {
        let name = match self {
            Part::Val => "val",
            Part::Test => "test",
        };
        format!("{name}{images}")
    }

    /// Where they start among the images that may be scored.
    fn start(self, images: usize) -> usize {
        match self {
            Part::Val => images,
            Part::Test => 0,
        }
    }
}

/// Where the files of a data set are.
#[derive(Clone, Debug)]
pub struct Files {
    /// To train on: a .npy of rows or a corpus folder.
    pub train: PathBuf,
    /// To score.
    pub heldout: PathBuf,
}

/// Makes the files of data sets.
pub struct Store<'a> {
    /// The folder with `images/` and `text/`.
    pub data: Option<&'a Path>,
    /// The command `lsparse`.
    pub program: &'a Path,
    /// Where files are kept.
    pub folder: &'a Path,
}

/// Width and height of images that are drawn: as most of BSDS500 have.
const DRAWN_SIZE: [u32; 2] = [481, 321];

/// Drawn images from this one on are scored, those before trained on.
const FIRST_SCORED: usize = 1_000_000;

/// Words of a planted corpus: ten a topic, each topic over thirty of them.
const WORDS_A_TOPIC: usize = 10;
const TOPIC_SUPPORT: usize = 30;

impl DataSet {
    /// A name for files and legends.
    pub fn name(&self) -> String {
        match self {
            DataSet::Images { images, .. } => format!("bsds{images}"),
            DataSet::Leaves { images, .. } => format!("leaves{images}"),
            DataSet::Corpus { name } => name.clone(),
            DataSet::Planted { documents, topics, length } => format!("planted{documents}x{topics}x{length}"),
        }
    }
}

impl Store<'_> {
    /// The files of a data set, made if they are not there yet.
    pub fn files(&self, set: &DataSet, part: Part) -> Result<Files> {
        let folder = self.folder.join(set.name());
        match set {
            DataSet::Images { images, heldout } => {
                let root = self.given()?.join("images/BSDS500");
                let train = self
                    .patches(&folder.join("train"), || images_of(&[root.join("train"), root.join("test")], *images))?;
                let scored = folder.join(part.file(*heldout));
                let heldout = self.patches(&scored, || {
                    let found = images_of(&[root.join("val")], 2 * heldout)?;
                    Ok(found.into_iter().skip(part.start(*heldout)).take(*heldout).collect())
                })?;
                Ok(Files { train, heldout })
            }
            DataSet::Leaves { images, heldout } => {
                let draw = |from: usize, count: usize| (from..from + count).map(|n| Picture::Drawn(n as u64)).collect();
                let train = self.patches(&folder.join("train"), || Ok(draw(0, *images)))?;
                let scored = folder.join(part.file(*heldout));
                let heldout = self.patches(&scored, || Ok(draw(FIRST_SCORED + part.start(*heldout), *heldout)))?;
                Ok(Files { train, heldout })
            }
            DataSet::Corpus { name } => {
                let given = self.given()?.join("text").join(name);
                let plain = given.join(format!("docword.{name}.txt"));
                let docword = if plain.exists() { plain } else { given.join(format!("docword.{name}.txt.gz")) };
                let file = |what: &str| given.join(format!("{what}.{name}.txt"));
                self.corpus(&folder, &docword, &file("vocab"), Some(&file("split")), part)
            }
            DataSet::Planted { documents, topics, length } => {
                fs::create_dir_all(&folder)?;
                let (docword, vocab) = (folder.join("docword.txt"), folder.join("vocab.txt"));
                if !vocab.exists() {
                    let text = planted_docword(*documents, *topics, *length);
                    fs::write(&docword, text)?;
                    let words: String = (0..topics * WORDS_A_TOPIC).map(|v| format!("w{v}\n")).collect();
                    fs::write(&vocab, words)?;
                }
                self.corpus(&folder, &docword, &vocab, None, part)
            }
        }
    }

    fn given(&self) -> Result<&Path> {
        self.data.ok_or_else(|| "this set is not embedded: give --data DIR".into())
    }

    /// Run `lsparse` with these words.
    fn lsparse(&self, words: &[&str]) -> Result<()> {
        let status = Command::new(self.program).args(words).status()?;
        if status.success() { Ok(()) } else { Err(format!("failed: lsparse {}", words.join(" ")).into()) }
    }

    /// A .npy of the patches of pictures.
    fn patches(&self, name: &Path, pictures: impl FnOnce() -> Result<Vec<Picture>>) -> Result<PathBuf> {
        let out = name.with_extension("npy");
        if out.exists() {
            return Ok(out);
        }
        fs::create_dir_all(name)?;
        for (n, picture) in pictures()?.iter().enumerate() {
            picture.put(&name.join(format!("{n:04}")))?;
        }
        let part = name.with_extension("part.npy");
        self.lsparse(&["patches", &text(name), "--dtype", "f32", "--out", &text(&part), "--quiet"])?;
        fs::remove_dir_all(name)?;
        fs::rename(&part, &out)?;
        Ok(out)
    }

    /// Corpus folders of a split corpus.
    fn corpus(&self, folder: &Path, docword: &Path, vocab: &Path, split: Option<&Path>, part: Part) -> Result<Files> {
        let (whole, parts) = (folder.join("whole"), folder.join("parts"));
        let heldout = parts.join(match part {
            Part::Val => "val",
            Part::Test => "test",
        });
        if !parts.exists() {
            fs::create_dir_all(folder)?;
            let (docword, vocab, out) = (text(docword), text(vocab), text(&whole));
            let build = [
                "corpus", "build", &docword, "--format", "uci", "--vocab", &vocab, "--out", &out, "--force", "--quiet",
            ];
            self.lsparse(&build)?;
            let making = folder.join("making");
            if making.exists() {
                fs::remove_dir_all(&making)?;
            }
            let making_text = text(&making);
            let mut words = vec!["corpus", "split", &out, "--out", &making_text, "--quiet"];
            let split = split.map(text);
            if let Some(split) = &split {
                words.extend(["--file", split]);
            }
            self.lsparse(&words)?;
            fs::rename(&making, &parts)?;
        }
        Ok(Files { train: parts.join("train"), heldout })
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// An image to cut into patches.
enum Picture {
    File(PathBuf),
    Drawn(u64),
}

impl Picture {
    /// Put it under this name, with the extension that it has.
    fn put(&self, name: &Path) -> Result<()> {
        match self {
            Picture::File(path) => {
                let extension = path.extension().unwrap_or_default();
                fs::copy(path, name.with_extension(extension))?;
            }
            Picture::Drawn(seed) => {
                let [width, height] = DRAWN_SIZE;
                let grey = dead_leaves(width as usize, height as usize, *seed);
                image::save_buffer(name.with_extension("png"), &grey, width, height, image::ExtendedColorType::L8)?;
            }
        }
        Ok(())
    }
}

/// The first images of some folders, by name.
fn images_of(folders: &[PathBuf], count: usize) -> Result<Vec<Picture>> {
    let mut found = Vec::new();
    for folder in folders {
        let listing = fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let mut names: Vec<PathBuf> = listing.filter_map(|entry| entry.ok().map(|e| e.path())).collect();
        names.retain(|p| p.extension().is_some_and(|e| e == "jpg" || e == "png"));
        names.sort();
        found.extend(names);
    }
    if found.len() < count {
        return Err(format!("{} images asked for, {} found", count, found.len()).into());
    }
    Ok(found.into_iter().take(count).map(Picture::File).collect())
}

/// A corpus drawn from the model, in the UCI format.
fn planted_docword(documents: usize, topics: usize, length: usize) -> String {
    let mut rng = ChaCha8Rng::seed_from_u64(0);
    let vocab = topics * WORDS_A_TOPIC;
    // A topic's words, the first the most used.
    let words: Vec<Vec<usize>> =
        (0..topics).map(|_| (0..TOPIC_SUPPORT).map(|_| rng.random_range(0..vocab)).collect()).collect();
    let (mut lines, mut entries) = (String::new(), 0);
    for document in 1..=documents {
        let mut counts = std::collections::BTreeMap::new();
        let own: Vec<usize> = (0..rng.random_range(1..=4)).map(|_| rng.random_range(0..topics)).collect();
        for _ in 0..rng.random_range(length / 2..=length * 3 / 2) {
            let topic = own[rng.random_range(0..own.len())];
            // The larger of two draws makes early words more frequent than late ones.
            let rank = rng.random_range(0..TOPIC_SUPPORT).min(rng.random_range(0..TOPIC_SUPPORT));
            *counts.entry(words[topic][rank] + 1).or_insert(0) += 1;
        }
        for (word, count) in counts {
            let _ = writeln!(lines, "{document} {word} {count}");
            entries += 1;
        }
    }
    format!("{documents}\n{vocab}\n{entries}\n{lines}")
}
