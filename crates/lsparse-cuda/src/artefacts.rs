//! The compiled kernels, held by the program as the build has packed them, and which of them a GPU takes.

use std::io::{self, Read};

use flate2::read::ZlibDecoder;

/// A source in all forms that it was compiled into, each packed.
pub struct Compiled {
    /// The name of the source.
    pub name: &'static str,
    sm_80: &'static [u8],
    sm_90a: &'static [u8],
    sm_100: &'static [u8],
    ptx: &'static [u8],
}

/// A file of artefacts, packed. A program that can load no driver, having all of the C library in it, has none of them.
#[cfg(not(target_feature = "crt-static"))]
macro_rules! artefact {
    ($file:literal, $ending:literal) => {
        include_bytes!(concat!(env!("OUT_DIR"), "/", $file, $ending))
    };
}

#[cfg(target_feature = "crt-static")]
macro_rules! artefact {
    ($file:literal, $ending:literal) => {
        b""
    };
}

macro_rules! compiled {
    ($name:ident, $file:literal) => {
        /// The kernels of this source.
        pub static $name: Compiled = Compiled {
            name: $file,
            sm_80: artefact!($file, ".sm_80.cubin"),
            sm_90a: artefact!($file, ".sm_90a.cubin"),
            sm_100: artefact!($file, ".sm_100.cubin"),
            ptx: artefact!($file, ".ptx"),
        };
    };
}

compiled!(MIXTURE, "mixture");
compiled!(TOPICS, "topics");
compiled!(WORDS, "words");
compiled!(SEEDS, "seeds");
compiled!(CENTERS, "centers");
compiled!(COMPLETE, "complete");

/// The least compute capability that there are kernels for.
pub const LEAST_CAPABILITY: (i32, i32) = (8, 0);

impl Compiled {
    /// The form that a GPU runs as it is, where there is one: code of a capability runs on later ones of the same first
    /// number, that of 9.0a on 9.0 alone.
    pub fn binary(&self, capability: (i32, i32)) -> Option<Vec<u8>> {
        let packed = match capability {
            (8, _) => self.sm_80,
            (9, 0) => self.sm_90a,
            (10, _) => self.sm_100,
            _ => return None,
        };
        let mut bytes = Vec::new();
        ZlibDecoder::new(packed).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    /// Compiled by the driver when it is loaded (a second, once): for GPUs that there is no other form for.
    pub fn ptx(&self) -> io::Result<String> {
        let mut text = String::new();
        ZlibDecoder::new(self.ptx).read_to_string(&mut text)?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(not(target_feature = "crt-static"))]
    fn every_gpu_has_its_form() {
        let starts = |capability| MIXTURE.binary(capability).map(|bytes| bytes[..4].to_vec());
        for capability in [(8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (10, 3)] {
            assert_eq!(starts(capability).unwrap(), b"\x7fELF", "{capability:?}");
        }
        assert_eq!(starts((12, 0)), None);
        assert!(MIXTURE.ptx().unwrap().contains(&format!(".version {}", crate::manifest::PTX_VERSION)));
        assert!(MIXTURE.binary((8, 0)) != MIXTURE.binary((9, 0)));
    }

    #[test]
    #[cfg(not(target_feature = "crt-static"))]
    fn what_is_held_is_what_was_compiled() {
        let read = |name: &str, ending: &str| std::fs::read(format!("artefacts/{name}.{ending}")).unwrap();
        for compiled in [&MIXTURE, &TOPICS] {
            let binary = |capability| compiled.binary(capability).unwrap();
            assert_eq!(binary((8, 0)), read(compiled.name, "sm_80.cubin"));
            assert_eq!(binary((9, 0)), read(compiled.name, "sm_90a.cubin"));
            assert_eq!(binary((10, 0)), read(compiled.name, "sm_100.cubin"));
            assert_eq!(compiled.ptx().unwrap().as_bytes(), read(compiled.name, "ptx"));
        }
    }
}
