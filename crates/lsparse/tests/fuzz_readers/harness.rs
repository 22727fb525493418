//! Run a reader on damaged files, one case at a time, and watch for panics, hangs, memory and useless messages.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use lsparse::Result;
use peak_alloc::PeakAlloc;

use super::mutate::Mutator;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// Memory is counted for the whole process, so that readers go one after the other.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A case that takes longer is taken for an endless loop, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Memory that a case may take whatever its size, some numbers for each of a million columns, and for every byte of it.
const MEMORY_BASE: usize = 192 << 20;
const MEMORY_A_BYTE: usize = 100;

/// Longer messages show what is in the file instead of saying what is wrong with it.
const LONGEST_MESSAGE: usize = 1000;

/// A file in pieces that are damaged before they are put together, so that lengths and checksums hold all the same.
#[derive(Clone)]
pub struct SampleFile {
    pub name: String,
    pub parts: Vec<Vec<u8>>,
    pub pack: fn(&[Vec<u8>]) -> Vec<u8>,
}

impl SampleFile {
    /// A file without lengths and checksums.
    pub fn plain(name: &str, bytes: impl Into<Vec<u8>>) -> Self {
        SampleFile { name: name.to_owned(), parts: vec![bytes.into()], pack: <[Vec<u8>]>::concat }
    }
}

/// The files of a valid input.
pub type Sample = Vec<SampleFile>;

/// Cases for each reader: `cargo xtask test --long` asks for more.
fn num_cases() -> usize {
    std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(250)
}

/// Throw random bytes and mutations of the samples at `read`, which is given the folder that they lie in.
pub fn attack(reader: &str, samples: Vec<Sample>, read: fn(&Path) -> Result<()>) {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    for sample in &samples {
        let place = Place::new();
        sample.iter().for_each(|file| place.write(&file.name, &(file.pack)(&file.parts)));
        read(place.path()).unwrap_or_else(|error| panic!("{reader}: a sound sample is refused: {error}"));
    }
    let cases = num_cases();
    let (sender, receiver) = channel();
    let name = reader.to_owned();
    thread::spawn(move || run_cases(&name, cases, &samples, read, &sender));
    let mut accepted = 0;
    for case in 0..cases {
        match receiver.recv_timeout(PATIENCE) {
            Ok(Ok(sound)) => accepted += usize::from(sound),
            Ok(Err(problem)) => panic!("{reader}, case {case}: {problem}"),
            Err(RecvTimeoutError::Timeout) => panic!("{reader}, case {case}: no end after {PATIENCE:?}"),
            Err(RecvTimeoutError::Disconnected) => panic!("{reader}, case {case}: the test itself failed"),
        }
    }
    println!("{reader}: {cases} cases, {accepted} of them still sound");
}

/// What is found wrong with a reader that is given no files at all.
pub fn verdict(read: fn(&Path) -> Result<()>) -> std::result::Result<bool, String> {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    run_case(Place::new().path(), 0, read)
}

fn run_cases(
    reader: &str,
    cases: usize,
    samples: &[Sample],
    read: fn(&Path) -> Result<()>,
    sender: &Sender<std::result::Result<bool, String>>,
) {
    // Every reader has its own damage, whatever the order of the tests.
    let seed = reader.bytes().fold(0u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
    for case in 0..cases {
        let place = Place::new();
        let size = write_case(&place, samples, &mut Mutator::new(seed << 32 | case as u64));
        let outcome = run_case(place.path(), size, read);
        let failed = outcome.is_err();
        let kept = if failed { format!(" (see {})", place.keep().display()) } else { String::new() };
        if sender.send(outcome.map_err(|problem| problem + &kept)).is_err() || failed {
            return;
        }
    }
}

/// Write the files of one case; gives the bytes of all of them.
fn write_case(place: &Place, samples: &[Sample], mutator: &mut Mutator) -> usize {
    let sample = &samples[mutator.below(samples.len())];
    let other = &samples[mutator.below(samples.len())];
    let damaged = mutator.below(sample.len());
    let mut size = 0;
    for (number, file) in sample.iter().enumerate() {
        let bytes = if number != damaged {
            (file.pack)(&file.parts)
        } else {
            let donor = &other[damaged.min(other.len() - 1)];
            damaged_file(file, donor, mutator)
        };
        size += bytes.len();
        place.write(&file.name, &bytes);
    }
    size
}

fn damaged_file(file: &SampleFile, donor: &SampleFile, mutator: &mut Mutator) -> Vec<u8> {
    match mutator.below(16) {
        0 => mutator.noise(),
        // Damage within, with lengths and checksums that hold.
        1..=9 => {
            let mut parts = file.parts.clone();
            let part = mutator.below(parts.len());
            let other = donor.parts[part.min(donor.parts.len() - 1)].clone();
            mutator.damage(&mut parts[part], &other);
            (file.pack)(&parts)
        }
        _ => {
            let mut bytes = (file.pack)(&file.parts);
            mutator.damage(&mut bytes, &(donor.pack)(&donor.parts));
            bytes
        }
    }
}

/// Whether the reader found the case sound, or what is wrong with the reader.
fn run_case(folder: &Path, size: usize, read: fn(&Path) -> Result<()>) -> std::result::Result<bool, String> {
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let outcome = catch_unwind(AssertUnwindSafe(|| read(folder)));
    let taken = MEMORY.peak_usage().saturating_sub(before);
    let allowed = MEMORY_BASE + MEMORY_A_BYTE * size;
    let outcome = outcome.map_err(|_| "a panic".to_owned())?;
    if taken > allowed {
        return Err(format!("{taken} bytes of memory for a file of {size}"));
    }
    let Err(error) = outcome else { return Ok(true) };
    let message = error.to_string().replace(&folder.display().to_string(), "");
    if !error.is_bad_input() {
        return Err(format!("the machine is blamed for bad input: {message}"));
    }
    if message.len() > LONGEST_MESSAGE || message.contains('\n') || message.contains("line 0") {
        return Err(format!("a message of no use: {message}"));
    }
    Ok(false)
}

/// A folder of one's own, in memory where the system has such a place: what is written there is waited for.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        Place(made.expect("a temporary folder"))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, bytes).expect("room for a small file");
    }

    fn keep(self) -> PathBuf {
        self.0.keep()
    }
}
