//! What the compiled kernels were made from: a checksum of sources and options stands beside each, so that an ordinary
//! test notices a source that was changed and not compiled. `cargo xtask cuda` reads this file too.

use std::fs;
use std::io;
use std::path::Path;

/// The sources under `kernels/`, without their ending. Headers (`.cuh`) belong to all of them.
pub const KERNELS: &[&str] = &["mixture", "topics", "words", "seeds", "centers", "complete"];

/// What a source is compiled into: the ending of the artefact, and the target as the compiler has it.
pub const TARGETS: [(&str, &str); 4] = [
    ("sm_80.cubin", "arch=compute_80,code=sm_80"),
    ("sm_90a.cubin", "arch=compute_90a,code=sm_90a"),
    ("sm_100.cubin", "arch=compute_100,code=sm_100"),
    ("ptx", "arch=compute_80,code=compute_80"),
];

/// Options of the compiler. Sums are fused and rounded as the kernels say, never as the compiler likes.
pub const OPTIONS: [&str; 4] = ["-std=c++17", "-O3", "--fmad=true", "-Xptxas=-v"];

/// The version that PTX is labelled with: what the kernels use is in it, and drivers from 525 on take it.
pub const PTX_VERSION: &str = "8.0";

/// Where sources are.
pub const SOURCES: &str = "kernels";

/// Where artefacts are, and their list.
pub const ARTEFACTS: &str = "artefacts";

/// FNV-1a: enough to notice a change.
pub fn checksum<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    pieces.into_iter().flatten().fold(0xcbf2_9ce4_8422_2325, step)
}

/// The list of artefacts as it should be, for the sources and artefacts in the folder of this crate: a line each.
pub fn list(folder: &Path) -> io::Result<String> {
    let lines = KERNELS.iter().flat_map(|kernel| TARGETS.map(|target| line(folder, kernel, target)));
    lines.collect()
}

/// The line of one artefact: name, checksum of what it is made from, checksum of itself.
pub fn line(folder: &Path, kernel: &str, (ending, target): (&str, &str)) -> io::Result<String> {
    let mut headers: Vec<_> = fs::read_dir(folder.join(SOURCES))?
        .map(|entry| entry.map(|entry| entry.path()))
        .filter(|path| path.as_ref().map_or(true, |path| path.extension().is_some_and(|ending| ending == "cuh")))
        .collect::<io::Result<_>>()?;
    headers.sort();
    let headers = headers.iter().map(fs::read).collect::<io::Result<Vec<_>>>()?.concat();
    let options = format!("{OPTIONS:?} {PTX_VERSION}");
    let source = fs::read(folder.join(SOURCES).join(format!("{kernel}.cu")))?;
    let made_from = checksum([&source[..], &headers, options.as_bytes(), target.as_bytes()]);
    let name = format!("{kernel}.{ending}");
    let artefact = checksum([&fs::read(folder.join(ARTEFACTS).join(&name))?[..]]);
    Ok(format!("{name} {made_from:016x} {artefact:016x}\n"))
}
