//! Model files: one `.safetensors` file with named arrays and one JSON text, the same bytes for the same run.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::path::Path;

use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, View};
use serde::{Deserialize, Serialize};

use crate::data::AtomicFile;
use crate::data::formats::binary::known_kind;
use crate::error::{Error, Result, brief};

/// Version of the layout of model files; raised when an older reader would misread a newer file.
pub const FORMAT: u32 = 1;

/// The one metadata key. A single key, since the safetensors writer orders keys by a hash map.
const KEY: &str = "lsparse";

/// An array of a model file.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredArray {
    /// Name, unique in the file.
    pub name: String,
    /// Extent of each axis.
    pub shape: Vec<usize>,
    /// The numbers, row-major.
    pub values: Vec<f64>,
}

/// An array of a file that was read: its numbers are taken from where they lie, since a model may be large.
pub struct ReadArray<'a> {
    /// Name, unique in the file.
    pub name: String,
    /// Extent of each axis.
    pub shape: Vec<usize>,
    numbers: &'a [[u8; 8]],
}

impl<'a> ReadArray<'a> {
    /// The numbers, row-major.
    pub fn values(&self) -> impl ExactSizeIterator<Item = f64> + Clone + use<'a> {
        self.numbers.iter().map(|bytes| f64::from_le_bytes(*bytes))
    }

    /// Some of them.
    pub fn part(&self, range: std::ops::Range<usize>) -> impl ExactSizeIterator<Item = f64> + use<'a> {
        self.numbers[range].iter().map(|bytes| f64::from_le_bytes(*bytes))
    }

    /// A copy that can be kept.
    pub fn stored(&self) -> StoredArray {
        StoredArray { name: self.name.clone(), shape: self.shape.clone(), values: self.values().collect() }
    }
}

#[derive(Serialize, Deserialize)]
struct Envelope<M> {
    format: u32,
    kind: String,
    #[serde(flatten)]
    content: M,
}

#[derive(Deserialize)]
struct Header {
    format: u32,
    kind: String,
}

/// An array turns into bytes only when it is written: a model may be large.
impl View for &StoredArray {
    fn dtype(&self) -> Dtype {
        Dtype::F64
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        self.values.iter().flat_map(|v| v.to_le_bytes()).collect()
    }

    fn data_len(&self) -> usize {
        size_of_val(self.values.as_slice())
    }
}

/// The bytes of a model file: arrays and `content` (anything serde can write) as a model of this `kind`.
pub fn encode_model<M: Serialize>(kind: &str, content: &M, arrays: &[StoredArray]) -> std::io::Result<Vec<u8>> {
    // What could not be read again is not written in the place of something that can.
    let finite = |values: &[f64]| values.iter().all(|value| value.is_finite());
    if let Some(array) = arrays.iter().find(|array| !finite(&array.values)) {
        return Err(std::io::Error::new(ErrorKind::InvalidInput, not_finite(&array.name)));
    }
    let envelope = Envelope { format: FORMAT, kind: kind.into(), content };
    let text = serde_json::to_string(&envelope)?;
    let views = arrays.iter().map(|array| (array.name.as_str(), array));
    safetensors::serialize(views, Some(HashMap::from([(KEY.to_owned(), text)])))
        .map_err(|e| std::io::Error::new(ErrorKind::InvalidData, e.to_string()))
}

/// Write what [`encode_model`] gave, and give the file its name.
pub fn write_model(mut file: AtomicFile, encoded: std::io::Result<Vec<u8>>) -> Result<()> {
    let path = file.path().to_owned();
    let written = encoded.and_then(|bytes| file.write_all(&bytes));
    written.map_err(|source| Error::Unwritable { path, source })?;
    file.finish()
}

/// Say which array of a file holds something that is no finite number.
pub(crate) fn check_finite(arrays: &[ReadArray<'_>]) -> std::result::Result<(), String> {
    // Many at a time, since leaving at the first costs more than it saves.
    let finite = |some: &[[u8; 8]]| some.iter().fold(true, |all, &bytes| all & f64::from_le_bytes(bytes).is_finite());
    match arrays.iter().find(|array| !array.numbers.chunks(4096).all(finite)) {
        Some(array) => Err(not_finite(&array.name)),
        None => Ok(()),
    }
}

fn not_finite(name: &str) -> String {
    format!("array {:?} has numbers that are not finite", brief(name))
}

/// The bytes of a model file.
pub fn read_bytes(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|source| match source.kind() {
        ErrorKind::NotFound => Error::NotFound { path: path.to_owned() },
        ErrorKind::IsADirectory => Error::ModelFormat {
            path: path.to_owned(),
            detail: "it is a folder".into(),
            remedy: "give a model written by lsparse".into(),
        },
        _ => Error::Io { path: path.to_owned(), action: "read", source },
    })
}

/// The kind of model that a file holds, if it is one: by its beginning, whatever its size.
pub fn kind_of(path: &Path) -> Option<String> {
    let mut file = fs::File::open(path).ok()?;
    let (mut length, mut text) = ([0; 8], Vec::new());
    file.read_exact(&mut length).ok()?;
    file.take(u64::from_le_bytes(length)).read_to_end(&mut text).ok()?;
    let header: serde_json::Value = serde_json::from_slice(&text).ok()?;
    let metadata = header.get("__metadata__")?.get(KEY)?.as_str()?;
    serde_json::from_str::<Header>(metadata).ok().map(|header| header.kind)
}

/// Read a model of this `kind` from the bytes of a file; `path` is for messages.
pub fn decode_model<'a, M: for<'de> Deserialize<'de>>(
    path: &Path,
    bytes: &'a [u8],
    kind: &str,
) -> Result<(M, Vec<ReadArray<'a>>)> {
    let bad = |detail: String| Error::ModelFormat {
        path: path.to_owned(),
        detail,
        remedy: "give a model written by lsparse".into(),
    };
    let begins = |_| match (bytes.is_empty(), known_kind(bytes)) {
        (true, _) => bad("it is empty".into()),
        (false, Some((kind, _))) => bad(format!("it is {kind}")),
        (false, None) => bad("it does not begin as a .safetensors file does".into()),
    };
    let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(begins)?;
    let text = metadata
        .metadata()
        .as_ref()
        .and_then(|m| m.get(KEY))
        .ok_or_else(|| bad("it has no lsparse metadata".into()))?;
    let header: Header =
        serde_json::from_str(text).map_err(|e| bad(format!("its metadata is damaged ({})", brief(e))))?;
    if header.format > FORMAT {
        return Err(Error::NewerModel { path: path.to_owned(), found: header.format, supported: FORMAT });
    }
    if header.kind != kind {
        return Err(Error::WrongKind { path: path.to_owned(), found: header.kind, wanted: kind.into() });
    }
    let envelope: Envelope<M> =
        serde_json::from_str(text).map_err(|e| bad(format!("its metadata is damaged ({})", brief(e))))?;
    let tensors =
        SafeTensors::deserialize(bytes).map_err(|e| bad(format!("it is damaged or cut short ({})", brief(e))))?;
    let mut arrays = Vec::new();
    for (name, view) in tensors.iter() {
        if view.dtype() != Dtype::F64 {
            return Err(bad(format!("array {:?} has elements of type {:?}, expected F64", brief(name), view.dtype())));
        }
        let (numbers, _) = view.data().as_chunks::<8>();
        arrays.push(ReadArray { name: name.to_owned(), shape: view.shape().to_vec(), numbers });
    }
    Ok((envelope.content, arrays))
}
