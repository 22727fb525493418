//! Model files: one `.safetensors` file with named arrays and one JSON text, the same bytes for the same run.

use std::collections::HashMap;
use std::fs;
use std::io::{ErrorKind, Write};
use std::path::Path;

use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use serde::{Deserialize, Serialize};

use crate::data::AtomicFile;
use crate::error::{Error, Result};

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

/// The bytes of a model file: arrays and `content` (anything serde can write) as a model of this `kind`.
pub fn encode_model<M: Serialize>(kind: &str, content: &M, arrays: &[StoredArray]) -> Result<Vec<u8>> {
    // Only memory is written to here; what could fail is a shape that does not fit its values.
    let unwritable = |detail: String| Error::Unwritable {
        path: "the model".into(),
        source: std::io::Error::new(ErrorKind::InvalidData, detail),
    };
    let envelope = Envelope { format: FORMAT, kind: kind.into(), content };
    let text = serde_json::to_string(&envelope).map_err(|e| unwritable(e.to_string()))?;
    let bytes: Vec<Vec<u8>> = arrays.iter().map(|a| a.values.iter().flat_map(|v| v.to_le_bytes()).collect()).collect();
    let mut views = Vec::with_capacity(arrays.len());
    for (array, bytes) in arrays.iter().zip(&bytes) {
        let view = TensorView::new(Dtype::F64, array.shape.clone(), bytes).map_err(|e| unwritable(e.to_string()))?;
        views.push((array.name.as_str(), view));
    }
    safetensors::serialize(views, Some(HashMap::from([(KEY.to_owned(), text)]))).map_err(|e| unwritable(e.to_string()))
}

/// Write the bytes of a model, and give the file its name.
pub fn write_bytes(mut file: AtomicFile, bytes: &[u8]) -> Result<()> {
    let path = file.path().to_owned();
    file.write_all(bytes).map_err(|source| Error::Unwritable { path, source })?;
    file.finish()
}

/// The bytes of a model file.
pub fn read_bytes(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|source| match source.kind() {
        ErrorKind::NotFound => Error::NotFound { path: path.to_owned() },
        _ => Error::Io { path: path.to_owned(), action: "read", source },
    })
}

/// Read a model of this `kind` from the bytes of a file; `path` is for messages.
pub fn decode_model<M: for<'de> Deserialize<'de>>(
    path: &Path,
    bytes: &[u8],
    kind: &str,
) -> Result<(M, Vec<StoredArray>)> {
    let bad = |detail: String| Error::ModelFormat {
        path: path.to_owned(),
        detail,
        remedy: "give a model written by lsparse".into(),
    };
    let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(|e| bad(format!("not a safetensors file ({e})")))?;
    let text = metadata
        .metadata()
        .as_ref()
        .and_then(|m| m.get(KEY))
        .ok_or_else(|| bad("it has no lsparse metadata".into()))?;
    let header: Header = serde_json::from_str(text).map_err(|e| bad(format!("its metadata is damaged ({e})")))?;
    if header.format > FORMAT {
        return Err(Error::NewerModel { path: path.to_owned(), found: header.format, supported: FORMAT });
    }
    if header.kind != kind {
        return Err(bad(format!("it holds a {} model, not a {kind} model", header.kind)));
    }
    let envelope: Envelope<M> =
        serde_json::from_str(text).map_err(|e| bad(format!("its metadata is damaged ({e})")))?;
    let tensors = SafeTensors::deserialize(bytes).map_err(|e| bad(format!("it is damaged or cut short ({e})")))?;
    let mut arrays = Vec::new();
    for (name, view) in tensors.iter() {
        if view.dtype() != Dtype::F64 {
            return Err(bad(format!("array {name:?} has elements of type {:?}, expected F64", view.dtype())));
        }
        let (values, _) = view.data().as_chunks::<8>();
        let values = values.iter().map(|v| f64::from_le_bytes(*v)).collect();
        arrays.push(StoredArray { name: name.to_owned(), shape: view.shape().to_vec(), values });
    }
    Ok((envelope.content, arrays))
}
