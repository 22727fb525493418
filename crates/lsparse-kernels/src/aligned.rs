//! Memory that starts at a cache line, so that no vector straddles two.

use std::ops::{Deref, DerefMut};

use crate::real::Real;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Numbers that start at a cache line.
#[derive(Debug, Default)]
pub struct AlignedVec<T> {
    data: Vec<T>,
    offset: usize,
    len: usize,
}

impl<T: Real> AlignedVec<T> {
    /// Without entries, and without memory.
    pub fn new() -> Self {
        Self { data: Vec::new(), offset: 0, len: 0 }
    }

    /// Changes the number of entries; what they hold then is unspecified. Memory is only ever added.
    pub fn reshape(&mut self, len: usize) {
        (self.offset, self.len) = (line_offset(&mut self.data, len), len);
    }
}

impl<T> Deref for AlignedVec<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.data[self.offset..self.offset + self.len]
    }
}

impl<T> DerefMut for AlignedVec<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.data[self.offset..self.offset + self.len]
    }
}

impl<T: Real> Clone for AlignedVec<T> {
    fn clone(&self) -> Self {
        let mut other = Self::new();
        other.reshape(self.len);
        other.copy_from_slice(self);
        other
    }
}

/// `len` entries of `scratch` that start at a cache line.
pub fn aligned<T: Real>(scratch: &mut Vec<T>, len: usize) -> &mut [T] {
    let offset = line_offset(scratch, len);
    &mut scratch[offset..offset + len]
}

/// Makes room for `len` entries from the first cache line on, and returns where that starts.
fn line_offset<T: Real>(data: &mut Vec<T>, len: usize) -> usize {
    let line = LINE / size_of::<T>();
    if data.len() < len + line {
        data.resize(len + line, T::ZERO);
    }
    data.as_ptr().align_offset(LINE).min(line)
}
