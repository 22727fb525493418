//! The compiled kernels, held by the program, and which of them a GPU takes.

/// A source in all forms that it was compiled into.
pub struct Compiled {
    /// The name of the source.
    pub name: &'static str,
    sm_80: &'static [u8],
    sm_90a: &'static [u8],
    sm_100: &'static [u8],
    /// Compiled by the driver when it is loaded (a second, once): for GPUs that there is no other form for.
    pub ptx: &'static str,
}

/// A file of artefacts. A program that can load no driver, having all of the C library in it, has none of its eight megabytes.
#[cfg(not(target_feature = "crt-static"))]
macro_rules! artefact {
    ($include:ident, $file:literal, $ending:literal) => {
        $include!(concat!("../artefacts/", $file, $ending))
    };
}

#[cfg(target_feature = "crt-static")]
macro_rules! artefact {
    (include_bytes, $file:literal, $ending:literal) => {
        b""
    };
    (include_str, $file:literal, $ending:literal) => {
        ""
    };
}

macro_rules! compiled {
    ($name:ident, $file:literal) => {
        /// The kernels of this source.
        pub static $name: Compiled = Compiled {
            name: $file,
            sm_80: artefact!(include_bytes, $file, ".sm_80.cubin"),
            sm_90a: artefact!(include_bytes, $file, ".sm_90a.cubin"),
            sm_100: artefact!(include_bytes, $file, ".sm_100.cubin"),
            ptx: artefact!(include_str, $file, ".ptx"),
        };
    };
}

compiled!(MIXTURE, "mixture");
compiled!(TOPICS, "topics");

/// The least compute capability that there are kernels for.
pub const LEAST_CAPABILITY: (i32, i32) = (8, 0);

impl Compiled {
    /// The form that a GPU runs as it is, where there is one: code of a capability runs on later ones of the same first
    /// number, that of 9.0a on 9.0 alone.
    pub fn binary(&self, capability: (i32, i32)) -> Option<&'static [u8]> {
        match capability {
            (8, _) => Some(self.sm_80),
            (9, 0) => Some(self.sm_90a),
            (10, _) => Some(self.sm_100),
            _ => None,
        }
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
        assert!(MIXTURE.ptx.contains(&format!(".version {}", crate::manifest::PTX_VERSION)));
        assert!(MIXTURE.binary((8, 0)) != MIXTURE.binary((9, 0)));
    }
}
