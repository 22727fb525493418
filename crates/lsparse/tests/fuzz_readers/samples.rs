//! Valid files of every format, taken apart where lengths and checksums would hide what is within.

use std::fs;
use std::io::{Cursor, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use image::{GrayImage, ImageFormat, Rgb, RgbImage};
use lsparse::corpus::{BuildOptions, Corpus, Format, Vocab, VocabFilter, build};
use lsparse::data::{CsrRows, Groups, MemoryRows, write_csr_npz, write_npy_f32, write_npy_f64};
use lsparse::settings::TopicsConfig;
use lsparse::store::checkpoint::{Checkpointing, Storage};
use lsparse::synthetic::{ChainShape, planted, planted_chain};
use lsparse::topics::{TopicInputs, fit_topics_with};
use lsparse::training::observe::Observer;
use lsparse::training::trace::StepInfo;
use lsparse::{
    Beside, Estimate, LikelihoodKind, MixtureConfig, MixtureInputs, Result, SequenceConfig, Sparsity, fit_mixture,
    fit_mixture_with, fit_sequence,
};

use super::harness::{Sample, SampleFile};

/// Documents as pairs of word and count, some of them empty, and a word that is never seen.
const DOCS: &[&[(u32, u32)]] = &[&[(0, 2), (3, 1)], &[], &[(1, 7)], &[(0, 1), (1, 1), (4, 30)], &[(3, 2)], &[]];
const WORDS: &[&str] = &["pear", "apple", "never", "fig", "\u{fc}zum"];

pub const TEXTS: &[&str] = &["The pear and the apple.", "", "Figs, a fig; \u{fc}zum!", "apple apple pear", "Fig pear"];

/// One file as a sample.
fn one(name: &str, bytes: impl Into<Vec<u8>>) -> Sample {
    vec![SampleFile::plain(name, bytes)]
}

/// What `write` makes of a path.
fn written(name: &str, write: impl FnOnce(&Path)) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    write(&path);
    fs::read(path).unwrap()
}

fn gzip(parts: &[Vec<u8>]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&parts.concat()).unwrap();
    encoder.finish().unwrap()
}

fn gzipped(name: &str, bytes: impl Into<Vec<u8>>) -> Sample {
    vec![SampleFile { name: name.to_owned(), parts: vec![bytes.into()], pack: gzip }]
}

fn npy(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}");
    let padded = format!("{header:<117}\n");
    [b"\x93NUMPY\x01\x00", &(padded.len() as u16).to_le_bytes()[..], padded.as_bytes(), data].concat()
}

pub fn npy_files() -> Vec<Sample> {
    vec![
        one("x.npy", written("x.npy", |path| write_npy_f64(path, 3, &[0.5; 12]).unwrap())),
        one("x.npy", written("x.npy", |path| write_npy_f32(path, 1, &[1.0, 2.0, 3.0]).unwrap())),
        one("x.npy", npy("<i4", "2, 2", &[1; 16])),
        one("x.npy", npy("|b1", "4, 1", &[1; 4])),
    ]
}

pub fn columns() -> Vec<Sample> {
    let mut samples = vec![one("x.npy", npy("<f8", "3,", &[0; 24])), one("x.npy", npy("<f4", "3, 1", &[0; 12]))];
    samples.push(one("x.npy", npy("<u8", "3,", &[0; 24])));
    samples
}

const MEMBERS: [&str; 5] = ["indices.npy", "indptr.npy", "format.npy", "shape.npy", "data.npy"];

fn zip(parts: &[Vec<u8>]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
    for (name, part) in MEMBERS.iter().zip(parts) {
        zip.start_file(*name, options).unwrap();
        zip.write_all(part).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

pub fn npz_files() -> Vec<Sample> {
    let (indptr, indices, counts) = compressed();
    let wide: Vec<f64> = counts.iter().map(|&count| f64::from(count)).collect();
    let narrow: Vec<f32> = counts.iter().map(|&count| count as f32).collect();
    let (rows, dim) = (DOCS.len(), WORDS.len());
    let files = [
        written("x.npz", |path| write_csr_npz(path, rows, dim, &indptr, &indices, &wide).unwrap()),
        written("x.npz", |path| write_csr_npz(path, rows, dim, &indptr, &indices, &narrow).unwrap()),
    ];
    let sample = |bytes: Vec<u8>| {
        let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).unwrap();
        let mut member = |name: &&str| {
            let mut bytes = Vec::new();
            archive.by_name(name).unwrap().read_to_end(&mut bytes).unwrap();
            bytes
        };
        vec![SampleFile { name: "x.npz".into(), parts: MEMBERS.iter().map(&mut member).collect(), pack: zip }]
    };
    files.map(sample).to_vec()
}

fn compressed() -> (Vec<i64>, Vec<i32>, Vec<u32>) {
    let (mut indptr, mut words, mut counts) = (vec![0], Vec::new(), Vec::new());
    for doc in DOCS {
        words.extend(doc.iter().map(|pair| pair.0 as i32));
        counts.extend(doc.iter().map(|pair| pair.1));
        indptr.push(words.len() as i64);
    }
    (indptr, words, counts)
}

pub fn tables() -> Vec<Sample> {
    vec![
        one("x.csv", "1,2,3\n4,5,6\n7,8,9\n"),
        one("x.csv", "a,\"b, or so\",c\n1,2.5e3,-3\n\n# note\n4,\"5\",6\n"),
        one("x.csv", "1;2\r\n3;4\r\n"),
        one("x.csv", "  1 2\n 3 4\n"),
        gzipped("x.csv", "a\tb\n1\t2\n3\t4\n"),
    ]
}

/// The chunks of a PNG, each its name and data, with lengths and checksums put back.
fn png(parts: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = b"\x89PNG\r\n\x1a\n".to_vec();
    for chunk in parts {
        bytes.extend((chunk.len().saturating_sub(4) as u32).to_be_bytes());
        bytes.extend(chunk);
        let mut checksum = flate2::Crc::new();
        checksum.update(chunk);
        bytes.extend(checksum.sum().to_be_bytes());
    }
    bytes
}

fn png_chunks(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut rest = &bytes[8..];
    let mut chunks = Vec::new();
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let length = u32::from_be_bytes(*length) as usize;
        chunks.push(after[..length + 4].to_vec());
        rest = &after[length + 8..];
    }
    chunks
}

pub fn images() -> Vec<Sample> {
    let encoded = |format: ImageFormat| {
        let shade = |x: u32, y: u32| (x * 9 + y * 5) as u8;
        let (mut grey, mut colour) = (Cursor::new(Vec::new()), Cursor::new(Vec::new()));
        GrayImage::from_fn(20, 16, |x, y| [shade(x, y)].into()).write_to(&mut grey, format).unwrap();
        RgbImage::from_fn(14, 17, |x, y| Rgb([shade(x, y), 9, 200])).write_to(&mut colour, format).unwrap();
        [grey.into_inner(), colour.into_inner()]
    };
    let chunked =
        |bytes: Vec<u8>| vec![SampleFile { name: "images/x.png".into(), parts: png_chunks(&bytes), pack: png }];
    let mut samples: Vec<Sample> = encoded(ImageFormat::Png).map(chunked).to_vec();
    samples.extend(encoded(ImageFormat::Jpeg).map(|bytes| one("images/x.jpg", bytes)));
    samples
}

/// A file of counts in a format.
fn counts(format: Format) -> String {
    let entries: usize = DOCS.iter().map(|doc| doc.len()).sum();
    let mut text = match format {
        Format::Uci => format!("{}\n{}\n{entries}\n", DOCS.len(), WORDS.len()),
        Format::Mtx => {
            let head = "%%MatrixMarket matrix coordinate integer general\n% a note\n";
            format!("{head}{} {} {entries}\n", DOCS.len(), WORDS.len())
        }
        _ => String::new(),
    };
    for (number, doc) in DOCS.iter().enumerate() {
        let number = number + 1;
        let pairs = |base: u32| doc.iter().map(|(w, c)| format!(" {}:{c}", w + base)).collect::<String>();
        text += &match format {
            Format::LdaC => format!("{}{}\n", doc.len(), pairs(0)),
            Format::Svmlight => format!("-1{} # note\n", pairs(1)),
            Format::Mallet => {
                let words = doc.iter().flat_map(|&(w, c)| vec![WORDS[w as usize]; c as usize]);
                format!("doc{number} label {}\n", words.collect::<Vec<_>>().join(" "))
            }
            _ => doc.iter().map(|(w, c)| format!("{number} {} {c}\n", w + 1)).collect(),
        };
    }
    text
}

pub fn counts_of(format: Format) -> Vec<Sample> {
    vec![one("x", counts(format)), gzipped("x", counts(format))]
}

pub fn json_lines() -> Vec<Sample> {
    let line = |text: &&str| format!("{{\"id\": 7, \"text\": {text:?}, \"more\": [1, {{\"text\": null}}]}}\n");
    let text: String = TEXTS.iter().map(line).collect();
    vec![one("x", text.clone()), gzipped("x", text)]
}

pub fn text_tables() -> Vec<Sample> {
    let rows: String = TEXTS.iter().map(|text| format!("\"{text}\nmore \"\"pear\"\"\",x\n")).collect();
    vec![one("x", format!("text,who\n{rows}")), gzipped("x", "text;who\r\nfig;x\r\npear fig;y\r\n")]
}

pub fn plain_text() -> Vec<Sample> {
    let text = TEXTS.join("\n");
    vec![one("x", text.clone()), gzipped("x", text)]
}

pub fn text_folders() -> Vec<Sample> {
    let file = |(number, text): (usize, &&str)| SampleFile::plain(&format!("texts/{number}.txt"), *text);
    vec![TEXTS.iter().enumerate().map(file).collect()]
}

pub fn word_lists() -> Vec<Sample> {
    vec![one("words", WORDS.join("\n")), gzipped("words", WORDS.join("\r\n"))]
}

pub fn split_files() -> Vec<Sample> {
    vec![one("split", "train\ntest\ntrain\nval\n")]
}

pub fn topic_names() -> Vec<Sample> {
    vec![
        one("names.csv", "topic,name\n3,\"Wind, \"\"sea\"\"\"\n0,fig\n"),
        one("names.csv", "name,share,topic\r\na,0.5,1\r\n"),
    ]
}

/// Corpus folders, one made from counts and one from text.
pub fn corpora() -> Vec<Sample> {
    let filter = VocabFilter { min_docs: Some(1), max_share: Some(1.0), max_words: None };
    let made = |format: Format, bytes: &str| {
        let place = tempfile::tempdir().unwrap();
        let (input, out) = (place.path().join("x"), place.path().join("out"));
        fs::write(&input, bytes).unwrap();
        let options = BuildOptions { format: Some(format), filter, ..BuildOptions::default() };
        build(&input, &options, &out, &mut |_| Ok(())).unwrap();
        let mut paths: Vec<_> = fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        let file = |path: &std::path::PathBuf| {
            let name = path.file_name().unwrap().to_string_lossy();
            SampleFile::plain(&format!("corpus/{name}"), fs::read(path).unwrap())
        };
        paths.iter().map(file).collect()
    };
    vec![made(Format::Uci, &counts(Format::Uci)), made(Format::Lines, &TEXTS.join("\n"))]
}

/// A model file in its two pieces: the JSON text and the arrays.
fn model(bytes: Vec<u8>) -> Sample {
    let (length, rest) = bytes.split_first_chunk::<8>().unwrap();
    let (text, arrays) = rest.split_at(u64::from_le_bytes(*length) as usize);
    let pack = |parts: &[Vec<u8>]| [&(parts[0].len() as u64).to_le_bytes()[..], &parts[0], &parts[1]].concat();
    vec![SampleFile { name: "m.safetensors".into(), parts: vec![text.to_vec(), arrays.to_vec()], pack }]
}

pub fn mixtures() -> Vec<Sample> {
    let fitted = |(number, &likelihood): (usize, &LikelihoodKind)| {
        let truth = planted(likelihood, 40, 3, 2, 5);
        let estimate = [Estimate::Posterior, Estimate::Map, Estimate::MaxLikelihood][number % 3];
        let config = MixtureConfig { likelihood, clusters: 2, estimate, laps: Some(2), ..Default::default() };
        let rows = MemoryRows::new("planted", 3, truth.values).unwrap();
        let fitted = fit_mixture(&rows, &config).unwrap();
        model(written("m", |path| fitted.model.save_to(path).unwrap()))
    };
    LikelihoodKind::ALL.iter().enumerate().map(fitted).collect()
}

pub fn sequences() -> Vec<Sample> {
    let fitted = |(number, &likelihood): (usize, &LikelihoodKind)| {
        let truth = planted_chain(likelihood, &[15, 25], 3, 2, ChainShape::default(), 5);
        let estimate = [Estimate::Posterior, Estimate::Map, Estimate::MaxLikelihood][number % 3];
        let config = SequenceConfig { likelihood, states: 2, estimate, laps: Some(2), ..Default::default() };
        let rows = MemoryRows::new("planted", 3, truth.values).unwrap();
        let groups = Groups::of_lengths("lengths", &truth.lengths, 40).unwrap();
        let fitted = fit_sequence(&rows, &groups, &config).unwrap();
        model(written("m", |path| fitted.model.save_to(path).unwrap()))
    };
    LikelihoodKind::ALL.iter().enumerate().map(fitted).collect()
}

pub fn topic_models() -> Vec<Sample> {
    let (indptr, words, counts) = compressed();
    let vocab: Vec<String> = WORDS.iter().map(|&word| word.to_owned()).collect();
    let fitted = |estimate: Estimate| {
        let corpus = Corpus::from_parts(
            "six documents",
            indptr.iter().map(|&start| start as usize).collect(),
            words.iter().map(|&word| word as u32).collect(),
            counts.clone(),
            Arc::new(Vocab::new(vocab.clone()).unwrap()),
            None,
        );
        let config =
            TopicsConfig { topics: 3, sparsity: Sparsity::Of(2), estimate, laps: Some(2), ..Default::default() };
        let inputs = TopicInputs { vocab: Some(&vocab), ..Default::default() };
        let fitted = fit_topics_with(&corpus.unwrap(), &config, inputs, Beside::default()).unwrap();
        model(written("m", |path| fitted.model.save_to(path).unwrap()))
    };
    vec![fitted(Estimate::Map), fitted(Estimate::Posterior)]
}

/// A small run of either model that a checkpoint at `path` can hold, taken up there or stopped after its first batch.
pub fn run_mixture(path: &Path, stop: bool) -> Result<()> {
    let rows = MemoryRows::new("planted", 3, planted(LikelihoodKind::Gauss, 40, 3, 2, 5).values)?;
    let config = MixtureConfig { clusters: 2, laps: Some(2), batches: Some(4), ..Default::default() };
    let flag = AtomicBool::new(false);
    let mut observer = Stopper { flag: &flag, stop };
    let (observer, interrupt) = (Some(&mut observer as &mut dyn Observer), Some(&flag));
    let beside = Beside { storage: checkpoint_at(path), observer, interrupt, ..Default::default() };
    fit_mixture_with(&rows, &config, MixtureInputs::default(), beside).map(drop)
}

/// See [`run_mixture`].
pub fn run_topics(path: &Path, stop: bool) -> Result<()> {
    let (indptr, words, counts) = compressed();
    let rows = CsrRows::new(
        "six documents",
        WORDS.len(),
        indptr.iter().map(|&start| start as usize).collect(),
        words.iter().map(|&word| word as u32).collect(),
        counts.iter().map(|&count| count as f32).collect(),
    )?;
    let config =
        TopicsConfig { topics: 3, sparsity: Sparsity::Of(2), laps: Some(2), batches: Some(3), ..Default::default() };
    let flag = AtomicBool::new(false);
    let mut observer = Stopper { flag: &flag, stop };
    let (observer, interrupt) = (Some(&mut observer as &mut dyn Observer), Some(&flag));
    let beside = Beside { storage: checkpoint_at(path), observer, interrupt, ..Default::default() };
    fit_topics_with(&rows, &config, TopicInputs::default(), beside).map(drop)
}

/// Stops a run after its first batch, or does not.
struct Stopper<'a> {
    flag: &'a AtomicBool,
    stop: bool,
}

impl Observer for Stopper<'_> {
    fn step(&mut self, _info: &StepInfo) -> Result<()> {
        self.flag.store(self.stop, Ordering::Relaxed);
        Ok(())
    }
}

fn checkpoint_at(path: &Path) -> Storage {
    Storage { checkpoint: Some(Checkpointing { resume: true, ..Checkpointing::new(path) }), memo_memory: None }
}

/// The checkpoint of a run that was stopped. Its checksum is not mended: it is what a reader goes by.
pub fn checkpoints(run: fn(&Path, bool) -> Result<()>) -> Vec<Sample> {
    vec![one("run.ckpt", written("run.ckpt", |path| run(path, true).unwrap()))]
}
