//! Build a folder beside the place it is meant for, and put it there only when it is whole.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::data::atomic::without_path;
use crate::error::{Error, Result};

/// Whether folders survive a crash of the machine; the many small ones of unit tests need not.
const DURABLE: bool = !cfg!(test);

/// A folder that takes its name only when it is finished; dropped unfinished, it goes away.
#[derive(Debug)]
pub(in crate::corpus) struct Staging {
    target: PathBuf,
    folder: TempDir,
}

impl Staging {
    /// Start what will be the folder `target`. What has that name is replaced only with `force`, and only if it is
    /// a corpus or a split of one.
    pub(in crate::corpus) fn create(target: &Path, force: bool) -> Result<Self> {
        check_target(target, force)?;
        let mut builder = tempfile::Builder::new();
        builder.prefix(".lsparse-").suffix(".part");
        let folder = builder.tempdir_in(parent(target)).map_err(|source| unwritable(target, source))?;
        let staging = Staging { target: target.to_owned(), folder };
        fs::create_dir(staging.out()).map_err(|source| unwritable(target, source))?;
        Ok(staging)
    }

    /// The folder that will be renamed.
    pub(in crate::corpus) fn out(&self) -> PathBuf {
        self.folder.path().join("out")
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
        let path = self.folder.path().join("scratch");
        fs::create_dir(&path).map_err(|source| unwritable(&self.target, source))?;
        Ok(path)
    }

    /// Give the folder its name, replacing what had it.
    pub(in crate::corpus) fn finish(self, force: bool) -> Result<()> {
        // Somebody may have been there in the meantime.
        check_target(&self.target, force)?;
        let rename = || -> io::Result<()> {
            if DURABLE {
                sync_files(&self.out())?;
            }
            let old = self.folder.path().join("old");
            let replaced = fs::symlink_metadata(&self.target).is_ok();
            if replaced {
                fs::rename(&self.target, &old)?;
            }
            if let Err(error) = fs::rename(self.out(), &self.target) {
                if replaced {
                    fs::rename(&old, &self.target)?;
                }
                return Err(error);
            }
            sync_folder(parent(&self.target));
            Ok(())
        };
        rename().map_err(|source| unwritable(&self.target, source))?;
        // What is left is rubbish; that it cannot be removed does no harm to what was written.
        let _ = self.folder.close();
        Ok(())
    }
}

fn unwritable(target: &Path, source: io::Error) -> Error {
    Error::Unwritable { path: target.to_owned(), source: without_path(source) }
}

fn parent(target: &Path) -> &Path {
    match target.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
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
fn check_target(target: &Path, force: bool) -> Result<()> {
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
    let entries = fs::read_dir(target).map_err(|source| unwritable(target, source))?;
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(entry.map_err(|source| unwritable(target, source))?.path());
    }
    if paths.is_empty() {
        return Ok(());
    }
    if !force {
        return refuse("exists already", "choose another name, or replace it with `force`");
    }
    let is_corpus =
        |path: &Path| path.join(crate::corpus::INDPTR).is_file() && path.join(crate::corpus::VOCAB).is_file();
    if is_corpus(target) || paths.iter().all(|path| is_corpus(path)) {
        return Ok(());
    }
    refuse("is a folder of something else than a corpus, which is never replaced", "choose another name")
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

    #[test]
    fn nothing_half_written_stays() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("c");
        let staging = Staging::create(&target, false).unwrap();
        fs::write(staging.out().join("x"), "1").unwrap();
        fs::write(staging.scratch().unwrap().join("y"), "1").unwrap();
        drop(staging);
        assert!(names(folder.path()).is_empty());
        let staging = Staging::create(&target, false).unwrap();
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
        Staging::create(&target, false).unwrap().finish(false).unwrap();
        fs::write(target.join("holiday.jpg"), "").unwrap();
        let message = |force| Staging::create(&target, force).unwrap_err().to_string();
        assert!(message(false).contains("exists already; choose another name, or replace it with `force`"));
        assert!(message(true).contains("something else than a corpus"));
        fs::write(target.join(crate::corpus::INDPTR), "").unwrap();
        fs::write(target.join(crate::corpus::VOCAB), "").unwrap();
        Staging::create(&target, true).unwrap().finish(true).unwrap();
        assert!(names(&target).is_empty());
        fs::write(folder.path().join("f"), "").unwrap();
        for path in [folder.path().join("f"), folder.path().join("no/such"), "..".into(), "/".into()] {
            let error = Staging::create(&path, true).unwrap_err();
            assert!(error.is_bad_input(), "{error}");
        }
        assert_eq!(names(folder.path()), ["c", "f"]);
    }
}
