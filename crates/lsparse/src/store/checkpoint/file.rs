//! The file of a checkpoint, written whole or not at all and read with every byte checked.
//!
//! Layout: 20 bytes of magic, the format, the fingerprint, the content, then the length and a checksum of all before.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use serde::Serialize;

use super::fingerprint::{CAME_LATER, STOP_RULES};
use super::{Content, Fingerprint, Found, part_file};
use crate::error::{Error, Result};
use crate::training::model::Model;

const MAGIC: &[u8; 20] = b"lsparse checkpoint\n\0";
/// Version of the layout. That of a version that was released is read for ever (`tests/versions.rs` of the command).
const FORMAT: u32 = 8;
/// Length and checksum.
const TAIL: usize = 12;

/// Passes bytes on, and keeps their number and checksum.
struct Summed<W> {
    inner: W,
    length: u64,
    hash: crc32fast::Hasher,
}

impl<W: Write> Write for Summed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.length += count as u64;
        self.hash.update(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

pub(super) fn write<M: Model>(path: &Path, fingerprint: &Fingerprint, content: &Content<M>) -> io::Result<()> {
    // Always the same name, so that being killed many times leaves one file behind and not many.
    let part = part_file(path);
    let result = write_part(&part, fingerprint, content).and_then(|()| fs::rename(&part, path));
    if result.is_err() {
        let _ = fs::remove_file(&part);
        return result;
    }
    // The new name must be on disk too; systems that cannot flush a folder do not need it.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match File::open(folder) {
        Ok(folder) if cfg!(unix) => folder.sync_all(),
        _ => Ok(()),
    }
}

fn write_part<M: Model>(part: &Path, fingerprint: &Fingerprint, content: &Content<M>) -> io::Result<()> {
    let out = BufWriter::with_capacity(1 << 18, File::create(part)?);
    let mut out = Summed { inner: out, length: 0, hash: crc32fast::Hasher::new() };
    out.write_all(MAGIC)?;
    out.write_all(&FORMAT.to_le_bytes())?;
    encode(fingerprint, &mut out)?;
    encode(content, &mut out)?;
    let (length, checksum) = (out.length, out.hash.clone().finalize());
    let mut out = out.inner;
    out.write_all(&length.to_le_bytes())?;
    out.write_all(&checksum.to_le_bytes())?;
    out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
}

fn encode<V: Serialize>(value: &V, out: &mut impl Write) -> io::Result<()> {
    match postcard::to_io(value, &mut *out) {
        Ok(_) => Ok(()),
        // The encoder keeps the system's own error to itself; writing once more gives it.
        Err(error) => Err(out.flush().err().unwrap_or_else(|| io::Error::other(error))),
    }
}

/// Read a checkpoint of a run with this fingerprint.
pub(super) fn read<M: Model>(path: &Path, fingerprint: &Fingerprint) -> Result<Found<M>> {
    let bytes = read_bytes(path)?;
    let (print, body) = split(path, &bytes)?;
    let is_rule = |name: &str| STOP_RULES.contains(&name);
    if let Some(detail) = difference(&print, fingerprint, |name| !is_rule(name)) {
        let remedy = "give the data and settings of that run, or another checkpoint file".into();
        return Err(Error::Format { path: path.to_owned(), detail, remedy });
    }
    let by_other_rules = difference(&print, fingerprint, is_rule).is_some();
    postcard::from_bytes(body).map(|content| Found { content, by_other_rules }).map_err(|_| damaged(path))
}

pub(super) fn read_bytes(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|source| Error::Io { path: path.to_owned(), action: "read", source })
}

fn damaged(path: &Path) -> Error {
    let remedy = "start again with another checkpoint file".into();
    Error::Format { path: path.to_owned(), detail: "it is damaged".into(), remedy }
}

/// The fingerprint of a checkpoint, and the bytes of its content.
pub(super) fn split<'a>(path: &Path, bytes: &'a [u8]) -> Result<(Fingerprint, &'a [u8])> {
    let refuse =
        |(detail, remedy): (String, &str)| Error::Format { path: path.to_owned(), detail, remedy: remedy.to_owned() };
    postcard::take_from_bytes(body_of(bytes).map_err(refuse)?).map_err(|_| damaged(path))
}

/// What lies between head and tail of a file that is a checkpoint, whole; or what is wrong and what to do.
fn body_of(bytes: &[u8]) -> std::result::Result<&[u8], (String, &'static str)> {
    let other = "give a checkpoint file of lsparse, or another name to start with";
    let Some(rest) = bytes.strip_prefix(MAGIC) else { return Err(("it is not a checkpoint".into(), other)) };
    let cut = || ("the checkpoint is cut short or damaged".to_owned(), "start again with another checkpoint file");
    let (format, rest) = rest.split_first_chunk::<4>().ok_or_else(cut)?;
    let format = u32::from_le_bytes(*format);
    if format != FORMAT {
        let remedy = if format > FORMAT { "update lsparse" } else { "start again with another checkpoint file" };
        return Err((format!("it has checkpoint format {format}, this version reads {FORMAT}"), remedy));
    }
    let (body, tail) = rest.split_last_chunk::<TAIL>().ok_or_else(cut)?;
    let (length, checksum) = tail.split_at(8);
    let whole = &bytes[..bytes.len() - TAIL];
    let sound = length == (whole.len() as u64).to_le_bytes() && checksum == crc32fast::hash(whole).to_le_bytes();
    if sound { Ok(body) } else { Err(cut()) }
}

/// The first thing in which two runs differ, among those that matter.
fn difference(then: &Fingerprint, now: &Fingerprint, matters: impl Fn(&str) -> bool) -> Option<String> {
    let of = |print: &Fingerprint, name: &str| print.iter().find(|entry| entry.0 == name).map(|entry| entry.1.clone());
    let names = now.iter().chain(then).map(|entry| entry.0.as_str()).filter(|name| matters(name));
    let mut pairs = names.map(|name| (name, of(then, name), of(now, name)));
    let came_later = |name: &str, then: &Option<String>| then.is_none() && CAME_LATER.contains(&name);
    let (name, then, now) = pairs.find(|(name, then, now)| then != now && !came_later(name, then))?;
    let show = |value: Option<String>| value.unwrap_or_else(|| "none".into());
    Some(format!("it is of another run: {name} was {}, and is {} now", show(then), show(now)))
}

#[cfg(test)]
mod tests {
    use super::super::{Checkpointing, Keeper};
    use super::*;
    use crate::likelihood::ClusterSummary;
    use crate::mixture::{CarriedClusters, Mixture, SearchState};
    use crate::training::rules::Progress;
    use crate::training::schedule::{self, Schedule, Stochastic};
    use crate::training::session::Snapshot;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    type Tested = Mixture<f64>;

    fn content(total: f64) -> Content<Tested> {
        let mut schedule = Stochastic::new(vec![0.5; 2], 1.0, 0.6, ChaCha8Rng::seed_from_u64(1));
        let snapshot: schedule::Snapshot<ClusterSummary> = schedule.snapshot();
        let session = Snapshot {
            progress: Progress::default(),
            total: ClusterSummary {
                counts: vec![total; 3],
                stats: vec![0.5; 3],
                width: 1,
                entropy: f64::NAN,
                trial: None,
            },
            schedule: snapshot.state,
            carried: CarriedClusters { search: SearchState::of(2).into(), arrays: None, growth: None },
            memories: vec![None, None],
            tally: Default::default(),
            files: Vec::new(),
        };
        let (backend, runs) = ("plain".into(), vec![(1.0, None)]);
        Content { run: 0, finished: false, written: 7, backend, runs, best: None, best_lap: None, session }
    }

    fn print(rows: &str) -> Fingerprint {
        vec![("data".into(), rows.into()), ("laps".into(), "3".into())]
    }

    #[test]
    fn what_is_damaged_foreign_or_of_another_run_is_refused_and_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c");
        write(&path, &print("a"), &content(1.5)).unwrap();
        let back = read::<Tested>(&path, &print("a")).unwrap();
        assert_eq!((back.content.session.total.counts[0], back.content.written, back.by_other_rules), (1.5, 7, false));
        // Only when the run ends may differ.
        let longer = vec![("data".into(), "a".into()), ("laps".into(), "4".into())];
        assert!(read::<Tested>(&path, &longer).unwrap().by_other_rules);
        let text = |print: &Fingerprint| read::<Tested>(&path, print).err().unwrap().to_string();
        assert!(text(&print("b")).contains("data was a, and is b now"));
        let good = fs::read(&path).unwrap();
        for cut in 0..good.len() {
            fs::write(&path, &good[..cut]).unwrap();
            assert!(text(&print("a")).contains("checkpoint"), "cut at {cut}");
        }
        for at in 0..good.len() {
            let mut bytes = good.clone();
            bytes[at] ^= 4;
            fs::write(&path, &bytes).unwrap();
            let options = Checkpointing { resume: true, ..Checkpointing::new(&path) };
            assert!(Keeper::open::<Tested>(options, print("a")).is_err(), "byte {at}");
            assert_eq!(fs::read(&path).unwrap(), bytes);
        }
        let fresh = Keeper::open::<Tested>(Checkpointing::new(&path), print("a"));
        assert!(fresh.err().unwrap().to_string().contains("`resume`"));
    }
}
