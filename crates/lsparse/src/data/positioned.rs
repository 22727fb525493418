//! Read a file at any place, from several threads at once.

use std::fs::File;
use std::io;

/// A file whose reads name their place, so that threads need not share a cursor.
#[derive(Debug)]
pub(crate) struct PositionedFile {
    #[cfg(unix)]
    file: File,
    #[cfg(not(unix))]
    file: std::sync::Mutex<File>,
}

#[cfg(unix)]
impl PositionedFile {
    pub(crate) fn new(file: File) -> Self {
        PositionedFile { file }
    }

    /// Fill `buffer` with the bytes from `offset` on.
    pub(crate) fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(&self.file, buffer, offset)
    }
}

#[cfg(not(unix))]
impl PositionedFile {
    pub(crate) fn new(file: File) -> Self {
        PositionedFile { file: std::sync::Mutex::new(file) }
    }

    /// Fill `buffer` with the bytes from `offset` on.
    pub(crate) fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        use std::io::{Read, Seek, SeekFrom};
        // A thread that panicked leaves only a cursor behind, and every read sets it anew.
        let mut file = self.file.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        file.seek(SeekFrom::Start(offset))?;
        file.read_exact(buffer)
    }
}
