//! Build a folder beside the place it is meant for, and put it there only when it is whole. Of what was there before only
//! the files of a corpus are replaced; whatever else somebody keeps in the folder stays in it.

use std::ffi::OsString;
use std::fs::{self, DirEntry, File};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::corpus::folder::counts::Corpus;
use crate::corpus::folder::split::Part;
use crate::corpus::{COUNTS, IDS, INDPTR, META, METADATA, VOCAB, WORDS};
use crate::data::atomic::{behind_links, folder_of, without_path};
use crate::data::part::temporary_folder;
use crate::error::{Error, Result};

/// Whether folders survive a crash of the machine; the many small ones of unit tests need not.
const DURABLE: bool = !cfg!(test);

/// The files of a corpus: those that may be replaced.
const OWN_FILES: [&str; 7] = [INDPTR, WORDS, COUNTS, VOCAB, IDS, META, METADATA];

/// What a folder is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::corpus) enum Kind {
    /// A corpus.
    Corpus,
    /// A folder of the parts of one.
    Split,
}

/// A folder that takes its name only when it is finished; dropped unfinished, it goes away.
#[derive(Debug)]
pub(in crate::corpus) struct Staging {
    target: PathBuf,
    kind: Kind,
    folder: TempDir,
    /// Keeps others from clearing it away.
    _held: Option<File>,
}

/// What the note in a temporary folder says, for those who find it left behind.
#[derive(Serialize, Deserialize)]
struct Purpose {
    kind: Kind,
    /// The name that it is meant for, in the folder around it.
    name: OsString,
}

/// Places in the temporary folder: the new folder, and after it took its name the old one; the old one where two folders
/// cannot change places; what is needed on the way; the note.
const OUT: &str = "out";
const OLD: &str = "old";
const SCRATCH: &str = "scratch";
const NOTE: &str = "purpose.json";

impl Staging {
    /// Start what will be the folder `target`. What has that name is replaced only with `force`, and only if it is
    /// of the same kind. A link stays a link, and the folder is where it leads to.
    pub(in crate::corpus) fn create(target: &Path, kind: Kind, force: bool) -> Result<Self> {
        let target = &behind_links(target).map_err(|source| unwritable(target, source))?;
        check_target(target, kind, force)?;
        let failed = |source| unwritable(target, source);
        let (folder, held) = temporary_folder(folder_of(target), clear_staging).map_err(failed)?;
        let staging = Staging { target: target.to_owned(), kind, folder, _held: held };
        let name = target.file_name().unwrap_or_default().to_owned();
        let note = serde_json::to_vec(&Purpose { kind, name }).unwrap_or_default();
        fs::write(staging.folder.path().join(NOTE), note).map_err(failed)?;
        fs::create_dir(staging.out()).map_err(failed)?;
        Ok(staging)
    }

    /// The folder that will be renamed.
    pub(in crate::corpus) fn out(&self) -> PathBuf {
        self.folder.path().join(OUT)
    }

    /// An error that names what is being written, not the temporary files on the way there.
    pub(in crate::corpus) fn rename_error(&self, error: Error) -> Error {
        let (folder, target) = (self.folder.path(), &self.target);
        match error {
            Error::Unwritable { path, source } if path.starts_with(folder) => unwritable(target, source),
            Error::Format { path, detail, remedy } if path.starts_with(folder) => {
                Error::Format { path: target.clone(), detail, remedy }
            }
            other => other,
        }
    }

    /// A folder for what is needed on the way.
    pub(in crate::corpus) fn scratch(&self) -> Result<PathBuf> {
        let path = self.folder.path().join(SCRATCH);
        fs::create_dir(&path).map_err(|source| unwritable(&self.target, source))?;
        Ok(path)
    }

    /// Give the folder its name, replacing the files of a corpus that had it.
    pub(in crate::corpus) fn finish(mut self, force: bool) -> Result<()> {
        // Somebody may have been there in the meantime.
        check_target(&self.target, self.kind, force)?;
        let failed = |source| unwritable(&self.target, source);
        if DURABLE {
            sync_files(&self.out()).map_err(failed)?;
        }
        if fs::symlink_metadata(&self.target).is_err() {
            fs::rename(self.out(), &self.target).map_err(failed)?;
        } else {
            // From here on it may hold what is not ours: it goes away only once that is back in its place.
            self.folder.disable_cleanup(true);
            let old = replace(&self.out(), &self.target, &self.folder.path().join(OLD)).map_err(failed)?;
            carry_over(&old, &self.target, self.kind).map_err(failed)?;
            self.folder.disable_cleanup(false);
        }
        sync_folder(folder_of(&self.target));
        // What is left is rubbish; that it cannot be removed does no harm to what was written.
        let _ = self.folder.close();
        Ok(())
    }
}

/// Put the folder `new` into the place of `target`; gives where the latter is then. Both at once where the system can,
/// else by way of `aside`.
fn replace(new: &Path, target: &Path, aside: &Path) -> io::Result<PathBuf> {
    if exchange(new, target) {
        return Ok(new.to_owned());
    }
    fs::rename(target, aside)?;
    if let Err(error) = fs::rename(new, target) {
        fs::rename(aside, target)?;
        return Err(error);
    }
    Ok(aside.to_owned())
}

/// Let two folders change places. Whether they did.
#[cfg(target_os = "linux")]
fn exchange(a: &Path, b: &Path) -> bool {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn exchange(_a: &Path, _b: &Path) -> bool {
    false
}

/// Move what is no file of a corpus from a folder that was replaced to the one that took its place.
fn carry_over(old: &Path, new: &Path, kind: Kind) -> io::Result<()> {
    for entry in fs::read_dir(old)? {
        let entry = entry?;
        let (from, to) = (entry.path(), new.join(entry.file_name()));
        match kind {
            Kind::Corpus if is_own_file(&entry) => {}
            Kind::Split if is_part(&entry) => {
                let notes = fs::read_dir(&from)?.flatten().any(|entry| !is_own_file(&entry));
                if notes {
                    fs::create_dir_all(&to)?;
                    carry_over(&from, &to, Kind::Corpus)?;
                }
            }
            _ if fs::symlink_metadata(&to).is_ok() => return Err(io::ErrorKind::AlreadyExists.into()),
            _ => fs::rename(from, to)?,
        }
    }
    Ok(())
}

/// Whether an entry of a folder of a corpus is one of its files.
fn is_own_file(entry: &DirEntry) -> bool {
    OWN_FILES.iter().any(|name| entry.file_name() == *name) && entry.file_type().is_ok_and(|kind| kind.is_file())
}

/// Whether an entry of a folder of parts is one of them.
fn is_part(entry: &DirEntry) -> bool {
    let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
    has_name_of_part(entry) && is_folder && Corpus::is_corpus(&entry.path())
}

fn has_name_of_part(entry: &DirEntry) -> bool {
    Part::ALL.iter().any(|part| entry.file_name() == part.name())
}

/// Clear away the temporary folder of a process that was killed. If it came as far as to replace a folder, what that held
/// besides goes back to where it was; where that does not work everything stays.
fn clear_staging(folder: &Path) {
    let Ok(note) = fs::read(folder.join(NOTE)) else {
        // It was killed before there was anything in it.
        let _ = fs::remove_dir(folder);
        return;
    };
    // A note that is not whole was written before anything else.
    if let Ok(Purpose { kind, name }) = serde_json::from_slice(&note) {
        let (target, aside) = (folder_of(folder).join(name), folder.join(OLD));
        if fs::symlink_metadata(&target).is_err() && aside.exists() && fs::rename(&aside, &target).is_err() {
            return;
        }
        for old in [aside, folder.join(OUT)] {
            if old.exists() && carry_over(&old, &target, kind).is_err() {
                return;
            }
        }
    }
    let _ = fs::remove_dir_all(folder);
}

fn unwritable(target: &Path, source: io::Error) -> Error {
    Error::Unwritable { path: target.to_owned(), source: without_path(source) }
}

/// Wait until the disk has all files below a folder.
fn sync_files(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() { sync_files(&path)? } else { File::options().write(true).open(&path)?.sync_all()? }
    }
    Ok(())
}

/// Wait until the disk knows the names in a folder. Not all systems can; the files themselves were waited for.
fn sync_folder(path: &Path) {
    let _ = File::open(path).and_then(|folder| folder.sync_all());
}

/// Refuse to write over what should stay.
fn check_target(target: &Path, kind: Kind, force: bool) -> Result<()> {
    let refuse = |detail, remedy| Err(Error::Exists { path: target.to_owned(), detail, remedy });
    if target.file_name().is_none() {
        return refuse("is no name for a folder to be written", "give the name of a new folder");
    }
    let found = match fs::symlink_metadata(target) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(unwritable(target, source)),
        Ok(found) => found,
    };
    if !found.is_dir() {
        return refuse("is not a folder", "choose another name");
    }
    let listed = fs::read_dir(target).and_then(Iterator::collect);
    let entries: Vec<DirEntry> = listed.map_err(|source| unwritable(target, source))?;
    if entries.is_empty() {
        return Ok(());
    }
    if !force {
        return refuse("exists already", "choose another name, or replace it with `force`");
    }
    let has = |test: &dyn Fn(&DirEntry) -> bool| entries.iter().any(test);
    let takes_our_name = |entry: &DirEntry| match kind {
        Kind::Corpus => OWN_FILES.iter().any(|name| entry.file_name() == *name) && !is_own_file(entry),
        Kind::Split => has_name_of_part(entry) && !is_part(entry),
    };
    match kind {
        _ if has(&takes_our_name) => {
            refuse("holds something else under a name that is to be written", "choose another name")
        }
        // Words alone may be anybody's.
        Kind::Corpus if [INDPTR, VOCAB].iter().all(|name| has(&|entry| entry.file_name() == *name)) => Ok(()),
        Kind::Split if has(&is_part) => Ok(()),
        Kind::Corpus => {
            refuse("is a folder of something else than a corpus, which is never replaced", "choose another name")
        }
        Kind::Split => refuse(
            "is a folder of something else than the parts of a corpus, which is never replaced",
            "choose another name",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// The files that make a folder a corpus, with this in them.
    fn write_corpus(folder: &Path, content: &str) {
        fs::create_dir_all(folder).unwrap();
        [INDPTR, VOCAB, META].iter().for_each(|name| fs::write(folder.join(name), content).unwrap());
    }

    #[cfg(unix)]
    #[test]
    fn links_lead_to_what_is_written() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("store")).unwrap();
        write_corpus(&at("store/c"), "old");
        symlink("store/c", at("link")).unwrap();
        symlink("store/new", at("dangling")).unwrap();
        symlink("circle", at("circle")).unwrap();
        assert!(Staging::create(&at("link"), Kind::Corpus, false).is_err());
        assert!(Staging::create(&at("circle"), Kind::Corpus, true).unwrap_err().to_string().contains("circles"));
        for (link, leads_to) in [("link", "store/c"), ("dangling", "store/new")] {
            let staging = Staging::create(&at(link), Kind::Corpus, true).unwrap();
            write_corpus(&staging.out(), "new");
            staging.finish(true).unwrap();
            assert!(fs::symlink_metadata(at(link)).unwrap().is_symlink(), "{link}");
            assert_eq!(fs::read_to_string(at(leads_to).join(VOCAB)).unwrap(), "new", "{link}");
        }
        assert_eq!(names(&at("store")), ["c", "new"]);
    }

    #[test]
    fn nothing_half_written_stays() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("c");
        let staging = Staging::create(&target, Kind::Corpus, false).unwrap();
        fs::write(staging.out().join("x"), "1").unwrap();
        fs::write(staging.scratch().unwrap().join("y"), "1").unwrap();
        drop(staging);
        assert!(names(folder.path()).is_empty());
        let staging = Staging::create(&target, Kind::Corpus, false).unwrap();
        fs::write(staging.out().join("x"), "1").unwrap();
        staging.scratch().unwrap();
        staging.finish(false).unwrap();
        assert_eq!((names(folder.path()), names(&target)), (vec!["c".to_owned()], vec!["x".to_owned()]));
    }

    #[test]
    fn only_a_corpus_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("c");
        fs::create_dir(&target).unwrap();
        Staging::create(&target, Kind::Corpus, false).unwrap().finish(false).unwrap();
        fs::write(target.join("holiday.jpg"), "").unwrap();
        let message = |kind, force| Staging::create(&target, kind, force).unwrap_err().to_string();
        let exists = "exists already; choose another name, or replace it with `force`";
        assert!(message(Kind::Corpus, false).contains(exists));
        for kind in [Kind::Corpus, Kind::Split] {
            assert!(message(kind, true).contains("something else than"));
            // A folder of many corpora is neither.
            write_corpus(&target.join("wiki"), "");
            assert!(message(kind, true).contains("something else than"));
        }
        write_corpus(&target, "");
        assert!(message(Kind::Split, true).contains("something else than the parts of a corpus"));
        fs::create_dir(target.join(IDS)).unwrap();
        assert!(message(Kind::Corpus, true).contains("under a name that is to be written"));
        fs::write(folder.path().join("f"), "").unwrap();
        for path in [folder.path().join("f"), folder.path().join("no/such"), "..".into(), "/".into()] {
            let error = Staging::create(&path, Kind::Corpus, true).unwrap_err();
            assert!(error.is_bad_input(), "{error}");
        }
        assert_eq!(names(folder.path()), ["c", "f"]);
    }

    #[test]
    fn what_is_not_ours_stays() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("c");
        write_corpus(&target, "old");
        fs::write(target.join("notes.md"), "mine").unwrap();
        fs::create_dir_all(target.join("plots/deep")).unwrap();
        write_corpus(&target.join("train"), "mine");
        let staging = Staging::create(&target, Kind::Corpus, true).unwrap();
        fs::write(staging.out().join(INDPTR), "new").unwrap();
        staging.finish(true).unwrap();
        assert_eq!(names(&target), [INDPTR, "notes.md", "plots", "train"]);
        assert_eq!(fs::read(target.join(INDPTR)).unwrap(), b"new");
        assert!(target.join("plots/deep").is_dir());
        assert_eq!(fs::read(target.join("train").join(VOCAB)).unwrap(), b"mine");
        assert_eq!(names(folder.path()), ["c"]);
    }

    #[test]
    fn of_parts_only_the_corpora_are_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("parts");
        ["train", "val", "test"].iter().for_each(|part| write_corpus(&target.join(part), "old"));
        // The name of a file of a corpus means nothing here.
        for name in ["vocab.txt", "val/notes.md"] {
            fs::write(target.join(name), "mine").unwrap();
        }
        let staging = Staging::create(&target, Kind::Split, true).unwrap();
        write_corpus(&staging.out().join("train"), "new");
        staging.finish(true).unwrap();
        assert_eq!(names(&target), ["train", "val", "vocab.txt"]);
        assert_eq!(names(&target.join("val")), ["notes.md"]);
        assert_eq!(fs::read(target.join("train").join(META)).unwrap(), b"new");
        fs::write(target.join("test"), "a file").unwrap();
        let error = Staging::create(&target, Kind::Split, true).unwrap_err().to_string();
        assert!(error.contains("under a name that is to be written"), "{error}");
    }

    /// However far a process came before it was killed, the next one finds the old corpus or the new one, and what was
    /// beside it.
    #[cfg(unix)]
    #[test]
    fn what_a_killed_process_left_is_put_right() {
        for killed_after in ["nothing", "writing", "moving aside", "replacing by moves", "exchanging"] {
            let folder = tempfile::tempdir().unwrap();
            let target = folder.path().join("c");
            write_corpus(&target, "old");
            fs::write(target.join("notes.md"), "mine").unwrap();
            let mut staging = Staging::create(&target, Kind::Corpus, true).unwrap();
            let (out, aside) = (staging.out(), staging.folder.path().join(OLD));
            write_corpus(&out, "new");
            staging.scratch().unwrap();
            match killed_after {
                "nothing" => fs::remove_dir_all(&out).unwrap(),
                "writing" => {}
                "exchanging" => {
                    fs::rename(&target, &aside).unwrap();
                    fs::rename(&out, &target).unwrap();
                    fs::rename(&aside, &out).unwrap();
                }
                _ => {
                    fs::rename(&target, &aside).unwrap();
                    if killed_after == "replacing by moves" {
                        fs::rename(&out, &target).unwrap();
                    }
                }
            }
            staging.folder.disable_cleanup(true);
            drop(staging);
            drop(Staging::create(&folder.path().join("other"), Kind::Corpus, true).unwrap());
            assert_eq!(names(folder.path()), ["c"], "{killed_after}");
            let expected = if killed_after.starts_with(['r', 'e']) { "new" } else { "old" };
            assert_eq!(fs::read_to_string(target.join(META)).unwrap(), expected, "{killed_after}");
            assert_eq!(fs::read_to_string(target.join("notes.md")).unwrap(), "mine", "{killed_after}");
        }
    }
}
