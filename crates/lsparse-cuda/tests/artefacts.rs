//! The compiled kernels are those of the sources and options that are in the repository.

use std::path::Path;

use lsparse_cuda::manifest::{ARTEFACTS, list};

#[test]
fn artefacts_are_those_of_the_sources() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let kept = std::fs::read_to_string(folder.join(ARTEFACTS).join("list.txt")).unwrap();
    assert_eq!(list(folder).unwrap(), kept, "run `cargo xtask cuda` to compile the kernels anew");
}
