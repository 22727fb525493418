//! Write a file so that others see all of it or nothing.

use std::fs;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::error::{Error, Result};

/// A file that takes its name only when it is finished.
///
/// It is written under a temporary name in the same folder; dropped unfinished, it goes away.
#[derive(Debug)]
pub struct AtomicFile {
    path: PathBuf,
    file: BufWriter<NamedTempFile>,
}

impl AtomicFile {
    /// Start to write what will be `path`.
    pub fn create(path: &Path) -> Result<Self> {
        // Renaming onto a device or a folder would replace or break it.
        if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            let source = io::Error::new(io::ErrorKind::InvalidInput, "it is not a plain file");
            return Err(Error::Unwritable { path: path.to_owned(), source });
        }
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let mut builder = tempfile::Builder::new();
        builder.prefix(".lsparse-").suffix(".part");
        // Temporary files are private by default; the finished one is an ordinary file.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let file = builder.tempfile_in(folder);
        let file = file.map_err(|source| Error::Unwritable { path: path.to_owned(), source: without_path(source) })?;
        Ok(AtomicFile { path: path.to_owned(), file: BufWriter::with_capacity(1 << 18, file) })
    }

    /// The path it will have.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Flush it to the disk and give it its name, replacing what had it.
    pub fn finish(self) -> Result<()> {
        let AtomicFile { path, file } = self;
        let persist = || -> io::Result<()> {
            let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
            file.as_file().sync_all()?;
            file.persist(&path)?;
            Ok(())
        };
        persist().map_err(|source| Error::Unwritable { path: path.clone(), source })
    }
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
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
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
