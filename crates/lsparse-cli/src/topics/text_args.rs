//! The options that say how raw text is read for a topic model.

use std::path::Path;

use clap::Args;
use lsparse::Result;
use lsparse::corpus::{Corpus, Documents, Format, TextOptions};
use lsparse::topics::TopicModel;

use super::{mention_unknown, refuse_given};
use crate::data_args::{DataArgs, Header};
use crate::stdin::Input;
use crate::{interrupt, parse};

/// How raw text is read.
#[derive(Args, Debug)]
#[command(next_help_heading = "Text (for topic models)")]
pub struct TextArgs {
    /// What raw text is [default: guessed from its first bytes and its name].
    #[arg(long, value_name = "FORMAT", value_parser = parse::names::<Format>(&[
        ("files", "a folder of text files, one document each"),
        ("jsonl", "one JSON object a line"),
        ("csv", "CSV or TSV with a column of text"),
        ("lines", "text, one document a line")]))]
    pub format: Option<Format>,
    /// The field of JSON objects with the text, or the column of CSV, by name or number from 1 [default: text].
    #[arg(long, value_name = "NAME", visible_alias = "column")]
    pub field: Option<String>,
    /// The field or column with the name of a document [default: none, documents are called by number or path].
    #[arg(long, value_name = "NAME", visible_alias = "id-column")]
    pub id_field: Option<String>,
    /// Read only files with this ending from a folder.
    #[arg(long, value_name = "ENDING")]
    pub extension: Option<String>,
    /// Refuse text that is not valid UTF-8 instead of replacing it.
    #[arg(long)]
    pub strict: bool,
}

impl TextArgs {
    /// Which of the options are given, by name.
    pub fn given(&self) -> [(&'static str, bool); 5] {
        [
            ("format", self.format.is_some()),
            ("field", self.field.is_some()),
            ("id-field", self.id_field.is_some()),
            ("extension", self.extension.is_some()),
            ("strict", self.strict),
        ]
    }

    /// The documents of a corpus folder or of raw text in the words of a model, and a message if some are unknown.
    ///
    /// Options that have no meaning for what the path leads to are refused.
    pub fn open(&self, path: &Path, model: &TopicModel, reading: Option<&DataArgs>) -> Result<Documents> {
        self.open_input(&Input::open(path, "")?, model, reading)
    }

    /// As [`open`](TextArgs::open), of an input that is read again later.
    pub fn open_input(&self, input: &Input, model: &TopicModel, reading: Option<&DataArgs>) -> Result<Documents> {
        let path = input.path();
        if let Some(reading) = reading {
            refuse_given(&reading.patches.given(), "a topic model, whose documents are no images")?;
            refuse_given(&reading.given()[2..], "a topic model, whose documents are text")?;
        }
        if Corpus::is_corpus(path) {
            refuse_given(&self.given(), "a corpus folder")?;
            reading.map_or(Ok(()), |reading| refuse_given(&reading.given(), "a corpus folder"))?;
        }
        let options = self.options(reading);
        interrupt::listen(true);
        let documents = model.documents(path, self.format, &options, &mut |_| interrupt::check("reading text"))?;
        mention_unknown(&documents);
        Ok(documents)
    }

    /// How text is read, as the library has it.
    pub fn options(&self, reading: Option<&DataArgs>) -> TextOptions {
        TextOptions {
            field: self.field.clone(),
            id_field: self.id_field.clone(),
            header: reading.is_none_or(|reading| reading.header != Header::No),
            delimiter: reading.and_then(|reading| reading.delimiter),
            extension: self.extension.clone(),
            strict: self.strict,
        }
    }
}
