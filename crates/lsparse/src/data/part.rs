//! Temporary files and folders beside what they will become: locked as long as their process lives, so that those which a
//! killed one left behind can be told from the others and cleared away.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::Path;

use tempfile::{Builder, NamedTempFile, TempDir};

const PREFIX: &str = ".lsparse-";
const SUFFIX: &str = ".part";

/// A temporary file in a folder, as private as other files are there; those that dead processes left there go away.
pub(super) fn temporary_file(folder: &Path) -> io::Result<NamedTempFile> {
    clear_dead(folder, false, |path| drop(fs::remove_file(path)));
    #[cfg_attr(not(unix), allow(unused_mut))]
    let mut builder = builder();
    // Temporary files are private by default; the finished one is an ordinary file.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    loop {
        let file = builder.tempfile_in(folder)?;
        if hold(file.as_file(), file.path()) {
            return Ok(file);
        }
    }
}

/// A temporary folder in a folder, with what keeps it from being taken for that of a dead process; `clear` is called for
/// those that dead processes left there.
pub(crate) fn temporary_folder(folder: &Path, clear: fn(&Path)) -> io::Result<(TempDir, Option<File>)> {
    clear_dead(folder, true, clear);
    loop {
        let made = builder().tempdir_in(folder)?;
        // Not all systems open folders; where they do not, nothing is cleared.
        let Ok(file) = File::open(made.path()) else { return Ok((made, None)) };
        if hold(&file, made.path()) {
            return Ok((made, Some(file)));
        }
    }
}

fn builder() -> Builder<'static, 'static> {
    let mut builder = Builder::new();
    builder.prefix(PREFIX).suffix(SUFFIX);
    builder
}

/// Lock what was just made. False if somebody took it for left behind in the meantime.
fn hold(file: &File, path: &Path) -> bool {
    match file.try_lock() {
        Ok(()) => has_name(file, path),
        Err(TryLockError::WouldBlock) => false,
        // Some file systems have no locks: then nobody clears anything.
        Err(TryLockError::Error(_)) => true,
    }
}

/// Clear away temporary files, or folders, whose process is gone. What is not known to be left behind stays.
fn clear_dead(folder: &Path, folders: bool, clear: fn(&Path)) {
    if !cfg!(unix) {
        return;
    }
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.as_encoded_bytes();
        let Ok(kind) = entry.file_type() else { continue };
        let is_part = name.starts_with(PREFIX.as_bytes()) && name.ends_with(SUFFIX.as_bytes());
        if !is_part || !(if folders { kind.is_dir() } else { kind.is_file() }) {
            continue;
        }
        let path = entry.path();
        let Ok(file) = File::open(&path) else { continue };
        if file.try_lock().is_ok() && has_name(&file, &path) {
            clear(&path);
        }
    }
}

/// Whether a file is the one of this name. Where that cannot be told, nobody removes what others hold, so that it is.
#[cfg(unix)]
pub(crate) fn has_name(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let id = |found: io::Result<fs::Metadata>| found.ok().map(|found| (found.dev(), found.ino()));
    id(file.metadata()) == id(fs::metadata(path))
}

/// Whether a file is the one of this name. Where that cannot be told, nobody removes what others hold, so that it is.
#[cfg(not(unix))]
pub(crate) fn has_name(_file: &File, _path: &Path) -> bool {
    true
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn only_what_nobody_holds_is_cleared() {
        let folder = tempfile::tempdir().unwrap();
        let held = temporary_file(folder.path()).unwrap();
        let remove = |path: &Path| fs::remove_dir(path).unwrap();
        let (held_folder, _lock) = temporary_folder(folder.path(), remove).unwrap();
        for name in [".lsparse-dead.part", ".lsparse-mine", "x.part"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        fs::create_dir(folder.path().join(".lsparse-gone.part")).unwrap();
        std::os::unix::fs::symlink("x.part", folder.path().join(".lsparse-link.part")).unwrap();
        let next = temporary_file(folder.path()).unwrap();
        drop(temporary_folder(folder.path(), remove).unwrap());
        assert!(held.path().exists() && held_folder.path().exists() && next.path().exists());
        let there = |name: &str| folder.path().join(name).symlink_metadata().is_ok();
        assert!(!there(".lsparse-dead.part") && !there(".lsparse-gone.part"));
        assert!(there(".lsparse-mine") && there("x.part") && there(".lsparse-link.part"));
    }
}
