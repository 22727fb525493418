//! The formats that rows are read from and written to, one file each.

pub(crate) mod binary;
pub(crate) mod csv;
pub(crate) mod images;
pub(crate) mod npy;
pub(crate) mod npy_header;
pub(crate) mod npy_write;
pub(crate) mod npz;
pub(crate) mod npz_write;
