//! Packs the compiled kernels, so that programs hold a quarter of their ten megabytes.

use std::error::Error;
use std::fs::{self, File};
use std::path::Path;
use std::{env, io};

use flate2::{Compression, write::ZlibEncoder};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=artefacts");
    // A program that can load no driver, having all of the C library in it, holds none of them.
    if env::var("CARGO_CFG_TARGET_FEATURE").is_ok_and(|features| features.split(',').any(|name| name == "crt-static")) {
        return Ok(());
    }
    let out = env::var("OUT_DIR")?;
    for entry in fs::read_dir("artefacts")? {
        let path = entry?.path();
        let Some(name) = path.file_name().filter(|_| path.extension().is_some_and(|ending| ending != "txt")) else {
            continue;
        };
        let mut packed = ZlibEncoder::new(File::create(Path::new(&out).join(name))?, Compression::best());
        io::copy(&mut File::open(&path)?, &mut packed)?;
        packed.finish()?;
    }
    Ok(())
}
