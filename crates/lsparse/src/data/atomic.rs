//! Write a file so that others see all of it or nothing.

use std::fs;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::error::{Error, Result};

use crate::data::part::temporary_file;

/// A file that takes its name only when it is finished.
///
/// It is written under a temporary name in the same folder; dropped unfinished, it goes away. A link stays a link, and
/// what it leads to is replaced; what may not be written is not.
#[derive(Debug)]
pub struct AtomicFile {
    path: PathBuf,
    /// Where the path leads to.
    place: PathBuf,
    file: BufWriter<NamedTempFile>,
}

impl AtomicFile {
    /// Start to write what will be `path`.
    pub fn create(path: &Path) -> Result<Self> {
        let failed = |source| Error::Unwritable { path: path.to_owned(), source: without_path(source) };
        let refuse = |kind, problem| Err(failed(io::Error::new(kind, problem)));
        match fs::metadata(path) {
            // Renaming onto a device or a folder would replace or break it.
            Ok(found) if !found.is_file() => return refuse(io::ErrorKind::InvalidInput, "it is not a plain file"),
            // Renaming asks the folder alone.
            Ok(found) if found.permissions().readonly() => {
                return refuse(io::ErrorKind::PermissionDenied, "it is read-only");
            }
            _ => {}
        }
        let place = behind_links(path).map_err(failed)?;
        let file = temporary_file(folder_of(&place)).map_err(failed)?;
        Ok(AtomicFile { path: path.to_owned(), place, file: BufWriter::with_capacity(1 << 18, file) })
    }

    /// The path it will have.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Flush it to the disk and give it its name, replacing what had it.
    pub fn finish(self) -> Result<()> {
        let AtomicFile { path, place, file } = self;
        let persist = || -> io::Result<()> {
            let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
            // Who may read and write the file does not change with what is in it.
            if let Ok(old) = fs::metadata(&place) {
                file.as_file().set_permissions(old.permissions())?;
            }
            file.as_file().sync_all()?;
            file.persist(&place)?;
            Ok(())
        };
        persist().map_err(|source| Error::Unwritable { path: path.clone(), source: without_path(source) })
    }
}

/// The folder that a file lies in.
pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// The file or folder that a path leads to, whether it is there or not.
pub(crate) fn behind_links(path: &Path) -> io::Result<PathBuf> {
    const MOST_LINKS: usize = 40;
    let mut place = path.to_owned();
    for _ in 0..MOST_LINKS {
        match fs::read_link(&place) {
            Ok(next) => place = folder_of(&place).join(next),
            Err(_) => return Ok(place),
        }
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "its links lead in circles"))
}

/// What the system said of a temporary file, without the name that nobody asked for.
pub(crate) fn without_path(error: io::Error) -> io::Error {
    let text = error.to_string();
    match text.split_once(" at path ") {
        Some((said, _)) => io::Error::new(error.kind(), said.to_owned()),
        None => error,
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes).map_err(without_path)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush().map_err(without_path)
    }
}

impl Seek for AtomicFile {
    fn seek(&mut self, place: SeekFrom) -> io::Result<u64> {
        self.file.seek(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_half_written_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        fs::write(&path, "old").unwrap();
        let mut file = AtomicFile::create(&path).unwrap();
        file.write_all(b"new").unwrap();
        file.flush().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        drop(file);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        let mut file = AtomicFile::create(&path).unwrap();
        file.write_all(b"new").unwrap();
        file.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn links_stay_and_lead_to_what_is_written() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("store")).unwrap();
        fs::write(at("store/model"), "old").unwrap();
        fs::set_permissions(at("store/model"), fs::Permissions::from_mode(0o600)).unwrap();
        symlink("store/latest", at("link")).unwrap();
        symlink("model", at("store/latest")).unwrap();
        symlink("store/new", at("dangling")).unwrap();
        for (link, leads_to) in [("link", "store/model"), ("dangling", "store/new")] {
            let mut file = AtomicFile::create(&at(link)).unwrap();
            file.write_all(b"new").unwrap();
            file.finish().unwrap();
            assert!(fs::symlink_metadata(at(link)).unwrap().is_symlink(), "{link}");
            assert_eq!(fs::read(at(leads_to)).unwrap(), b"new", "{link}");
        }
        assert_eq!(fs::metadata(at("store/model")).unwrap().permissions().mode() & 0o777, 0o600);
        symlink("circle", at("circle")).unwrap();
        assert!(AtomicFile::create(&at("circle")).unwrap_err().to_string().contains("circles"));
    }

    #[test]
    fn what_is_read_only_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        fs::write(&path, "old").unwrap();
        let mut permissions = fs::metadata(&path).unwrap().permissions();
        permissions.set_readonly(true);
        fs::set_permissions(&path, permissions).unwrap();
        let error = AtomicFile::create(&path).unwrap_err();
        assert!(error.is_bad_input() && error.to_string().contains("read-only"), "{error}");
    }

    #[test]
    fn places_that_cannot_be_written_are_bad_input() {
        let folder = tempfile::tempdir().unwrap();
        for path in [folder.path().to_owned(), folder.path().join("no/such")] {
            let error = AtomicFile::create(&path).unwrap_err();
            assert!(error.is_bad_input() && error.to_string().contains("cannot write"), "{error}");
            assert!(!error.to_string().contains(".part"), "{error}");
        }
    }
}
