//! The `corpus.json` of a corpus folder: what is in it, and how text becomes its words.

use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result, brief};

use crate::corpus::text::tokenizer::TokenizerConfig;

/// The version written, and the latest that is read.
const VERSION: u32 = 1;

/// What `corpus.json` says. It holds no clock and no path: the same corpus gives the same bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(in crate::corpus) struct Meta {
    pub(in crate::corpus) format: String,
    pub(in crate::corpus) version: u32,
    pub(in crate::corpus) documents: usize,
    pub(in crate::corpus) vocabulary: usize,
    pub(in crate::corpus) entries: usize,
    pub(in crate::corpus) tokens: u64,
    pub(in crate::corpus) max_count: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::corpus) tokenizer: Option<TokenizerConfig>,
}

impl Meta {
    pub(in crate::corpus) fn new(
        documents: usize,
        vocabulary: usize,
        entries: usize,
        tokens: u64,
        max_count: u32,
        tokenizer: Option<TokenizerConfig>,
    ) -> Self {
        let format = FORMAT.to_owned();
        Meta { format, version: VERSION, documents, vocabulary, entries, tokens, max_count, tokenizer }
    }

    /// Read the file; none if there is no such file.
    pub(in crate::corpus) fn read(path: &Path) -> Result<Option<Self>> {
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(Error::Io { path: path.to_owned(), action: "read", source }),
        };
        let refuse =
            |detail: String, remedy: &str| Error::Format { path: path.to_owned(), detail, remedy: remedy.to_owned() };
        // A later version may have other keys, so the version is looked at first.
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        let damaged = |error: serde_json::Error| {
            refuse(format!("it cannot be read ({})", brief(error)), "build the corpus again")
        };
        let Version { version } = serde_json::from_slice(&bytes).map_err(damaged)?;
        if version > VERSION {
            let detail = format!("the corpus has version {version}, this one reads up to {VERSION}");
            return Err(refuse(detail, "update lsparse to read it"));
        }
        let meta: Meta = serde_json::from_slice(&bytes).map_err(damaged)?;
        if meta.format != FORMAT {
            return Err(refuse(
                format!("the format is {:?}, not {FORMAT:?}", brief(meta.format)),
                "build the corpus again",
            ));
        }
        Ok(Some(meta))
    }

    pub(in crate::corpus) fn write(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_vec_pretty(self).map_err(io::Error::from);
        let written = text.and_then(|text| fs::write(path, [&text[..], b"\n"].concat()));
        written.map_err(|source| Error::Unwritable { path: path.to_owned(), source })
    }
}

const FORMAT: &str = "lsparse-corpus";
