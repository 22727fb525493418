//! The lock of a checkpoint, which one process has at a time.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use super::with_ending;
use crate::data::part::has_name;
use crate::error::{Error, Result};

/// Keeps other processes away from a checkpoint and what belongs to it. The system lets go of it when a process is
/// killed.
pub(super) struct Lock {
    path: PathBuf,
    _file: File,
}

impl Lock {
    pub(super) fn take(checkpoint: &Path) -> Result<Self> {
        loop {
            // One that its holder has let go of and removed since it was opened locks nothing.
            if let Some(lock) = Lock::hold(Lock::open(checkpoint)?, checkpoint)? {
                return Ok(lock);
            }
        }
    }

    fn open(checkpoint: &Path) -> Result<File> {
        let failed = |source| Error::Checkpoint { path: checkpoint.to_owned(), source };
        File::options().write(true).create(true).truncate(false).open(lock_file(checkpoint)).map_err(failed)
    }

    /// Lock a file that was opened; none if it is not the one that has the name any more.
    fn hold(file: File, checkpoint: &Path) -> Result<Option<Self>> {
        let path = lock_file(checkpoint);
        let failed = |source| Error::Checkpoint { path: checkpoint.to_owned(), source };
        if file.metadata().map_err(failed)?.len() > 0 {
            return Err(Error::Exists {
                path,
                detail: "is not the lock of a checkpoint",
                remedy: "move it, or give another checkpoint file",
            });
        }
        match file.try_lock() {
            Ok(()) if !has_name(&file, &path) => Ok(None),
            Ok(()) => Ok(Some(Lock { path, _file: file })),
            Err(TryLockError::WouldBlock) => Err(Error::Exists {
                path: checkpoint.to_owned(),
                detail: "belongs to a run that is going on",
                remedy: "wait for it, or give another checkpoint file",
            }),
            // Some file systems have no locks: then it is up to the user.
            Err(TryLockError::Error(source)) if source.kind() == io::ErrorKind::Unsupported => {
                Ok(Some(Lock { path, _file: file }))
            }
            Err(TryLockError::Error(source)) => Err(failed(source)),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if cfg!(unix) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

pub(super) fn lock_file(checkpoint: &Path) -> PathBuf {
    with_ending(checkpoint, ".lock")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever opened the lock before its holder let go of it must not believe to hold it while others can take it anew.
    #[cfg(unix)]
    #[test]
    fn a_lock_that_was_removed_locks_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c");
        let first = Lock::take(&path).unwrap();
        assert!(Lock::take(&path).is_err());
        let opened = Lock::open(&path).unwrap();
        drop(first);
        let third = Lock::take(&path).unwrap();
        assert!(Lock::hold(opened, &path).unwrap().is_none());
        assert!(Lock::take(&path).is_err());
        drop(third);
        assert!(Lock::take(&path).is_ok());
    }
}
