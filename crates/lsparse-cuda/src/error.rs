//! Say why a GPU cannot be used, or what went wrong on it.

use std::fmt;

use cudarc::driver::{DriverError, sys::CUresult};

/// What a call of this crate gives back.
pub type Result<T> = std::result::Result<T, Error>;

/// Everything that can go wrong with a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// There is no NVIDIA driver on this machine.
    NoDriver,
    /// This program has its C library in it, and cannot load a driver that comes with another.
    Static,
    /// There is no GPU of this number.
    NoDevice {
        /// The number that was asked for, from 0.
        ordinal: usize,
        /// GPUs that there are.
        count: usize,
    },
    /// The GPU is of a kind that the kernels are not made for.
    TooOld {
        /// Its name.
        name: String,
        /// Its compute capability.
        capability: (i32, i32),
    },
    /// The driver does not take the kernels.
    OldDriver {
        /// What it said.
        detail: String,
    },
    /// Memory of the GPU does not suffice.
    OutOfMemory {
        /// Bytes that were asked for, where that is known.
        bytes: u64,
    },
    /// A call failed. The GPU may not be used again by this process.
    Failed {
        /// What was being done, as a verb: "copy to the GPU".
        action: &'static str,
        /// What the driver said.
        detail: String,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoDriver => write!(f, "there is no NVIDIA driver on this machine"),
            Error::Static => write!(f, "a static program cannot load the NVIDIA driver"),
            Error::NoDevice { count: 0, .. } => write!(f, "the NVIDIA driver finds no GPU"),
            Error::NoDevice { ordinal, count } => write!(f, "there is no GPU {ordinal}, but {count} from 0 on"),
            Error::TooOld { name, capability: (major, minor) } => {
                write!(f, "the GPU ({name}) has compute capability {major}.{minor}, and 8.0 is needed")
            }
            Error::OldDriver { detail } => write!(f, "the NVIDIA driver does not take the kernels ({detail})"),
            Error::OutOfMemory { bytes: 0 } => write!(f, "the memory of the GPU does not suffice"),
            Error::OutOfMemory { bytes } => {
                write!(f, "the memory of the GPU does not suffice for {:.1} GB more", *bytes as f64 / 1e9)
            }
            Error::Failed { action, detail } => write!(f, "the GPU could not {action} ({detail})"),
        }
    }
}

impl std::error::Error for Error {}

impl Error {
    /// An error of the driver in the middle of `action`.
    pub(crate) fn of(action: &'static str, error: DriverError) -> Self {
        match error.0 {
            CUresult::CUDA_ERROR_OUT_OF_MEMORY => Error::OutOfMemory { bytes: 0 },
            code => Error::Failed { action, detail: format!("{code:?}") },
        }
    }
}
