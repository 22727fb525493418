//! `lsparse assign` of a topic model: the topics of every document, as a sparse matrix or a table.

use std::io::{self, Write};
use std::path::Path;

use lsparse::backend::Place;
use lsparse::data::{RowSource, write_csr_npz, write_npy_i64};
use lsparse::system::check_growth;
use lsparse::topics::{TopicModel, read_topic_names};
use lsparse::{Error, Result, Sparsity};
use serde::Serialize;

use crate::assign::{AssignArgs, Lines, report, say_of, write_text};
use crate::format::share;
use crate::interrupt;
use lsparse::corpus::Documents;

/// A document as JSON.
#[derive(Serialize)]
struct Row<'a> {
    document: &'a str,
    topics: &'a [u32],
    #[serde(skip_serializing_if = "Option::is_none")]
    names: Option<Vec<Option<&'a str>>>,
    shares: &'a [f32],
}

/// `format` is what the name of the output says, which has been checked.
pub fn run(args: &AssignArgs, mut model: TopicModel, format: &str) -> Result<()> {
    super::refuse_given(&[("missing", args.missing)], "a topic model")?;
    if args.sparsity.is_some() {
        model.config.sparsity = Sparsity::Of(args.kept(model.num_topics(), model.sparsity())?);
    }
    let names = args.names.as_deref().map(|path| read_topic_names(path, model.num_topics())).transpose()?;
    if names.is_some() && matches!(format, "npy" | "npz") {
        let problem = format!("a .{format} file has numbers alone");
        return Err(Error::Config {
            setting: "names",
            problem,
            remedy: "leave it out, or write .csv or .jsonl".into(),
        });
    }
    let documents = args.text.open(&args.data, &model, Some(&args.reading))?;
    let place = model.place(args.device.unwrap_or_default(), &documents)?;
    say_of(&place);
    match (&args.out, format) {
        (Some(path), "npy") => write_npy_i64(path, &main_topics(&model, &documents, &place)?)?,
        (Some(path), "npz") => write_npz(&model, &documents, &place, path)?,
        (out, format) => {
            write_text(out.as_deref(), format, |lines, out, failed| {
                write_documents((&model, &place), &documents, names.as_deref(), lines, out, failed)
            })?;
        }
    }
    report(args, documents.num_rows(), model.num_topics(), model.sparsity())
}

fn write_documents(
    (model, place): (&TopicModel, &Place),
    documents: &Documents,
    names: Option<&[Option<String>]>,
    lines: Lines,
    out: &mut dyn Write,
    failed: &dyn Fn(io::Error) -> Error,
) -> Result<()> {
    let mut sorted: Vec<(u32, f32)> = Vec::new();
    model.assign_at(documents, place, &mut |n, shares| {
        interrupt::check("assigning")?;
        if n == 0 && lines == Lines::Csv {
            writeln!(out, "document,topic,{}share", if names.is_some() { "name," } else { "" }).map_err(failed)?;
        }
        let id = documents.corpus().id(n)?;
        sorted.clear();
        sorted.extend(shares);
        sorted.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        match lines {
            Lines::Csv => {
                let id = csv_field(id);
                sorted.iter().try_for_each(|&(k, value)| match names {
                    Some(names) => {
                        let name = names[k as usize].as_deref().unwrap_or_default();
                        writeln!(out, "{id},{k},{},{}", csv_field(name), share(value))
                    }
                    None => writeln!(out, "{id},{k},{}", share(value)),
                })
            }
            Lines::Json => {
                let (topics, shares): (Vec<u32>, Vec<f32>) = sorted.iter().copied().unzip();
                let names = names.map(|names| topics.iter().map(|&k| names[k as usize].as_deref()).collect());
                serde_json::to_writer(&mut *out, &Row { document: id, topics: &topics, names, shares: &shares })
                    .map_err(io::Error::from)
                    .and_then(|()| writeln!(out))
            }
        }
        .map_err(failed)
    })
}

fn write_npz(model: &TopicModel, documents: &Documents, place: &Place, path: &Path) -> Result<()> {
    let (mut indptr, mut indices, mut values) = (vec![0i64], Vec::new(), Vec::new());
    let mut sorted: Vec<(u32, f32)> = Vec::new();
    model.assign_at(documents, place, &mut |_, shares| {
        interrupt::check("assigning")?;
        sorted.clear();
        sorted.extend(shares);
        sorted.sort_unstable_by_key(|pair| pair.0);
        let (what, remedy) = (|| "assigning topics".to_owned(), "give fewer documents at a time");
        check_growth(what, &indices, sorted.len(), remedy)?;
        check_growth(what, &values, sorted.len(), remedy)?;
        indices.extend(sorted.iter().map(|pair| pair.0 as i32));
        values.extend(sorted.iter().map(|pair| pair.1));
        indptr.push(indices.len() as i64);
        Ok(())
    })?;
    write_csr_npz(path, documents.num_rows(), model.num_topics(), &indptr, &indices, &values)
}

/// The topic of which each document has most, the first of equals; -1 for documents without words.
pub fn main_topics(model: &TopicModel, documents: &Documents, place: &Place) -> Result<Vec<i64>> {
    let mut main = Vec::with_capacity(documents.num_rows());
    model.assign_at(documents, place, &mut |_, shares| {
        interrupt::check("assigning")?;
        let most = shares.iter().copied().reduce(|best, other| if other.1 > best.1 { other } else { best });
        main.push(most.map_or(-1, |(topic, _)| i64::from(topic)));
        Ok(())
    })?;
    Ok(main)
}

/// A name as a field of CSV.
pub fn csv_field(name: &str) -> String {
    if name.contains([',', '"', '\n', '\r']) { format!("\"{}\"", name.replace('"', "\"\"")) } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_are_one_field() {
        assert_eq!(super::csv_field("a b"), "a b");
        assert_eq!(super::csv_field("a,\"b\""), "\"a,\"\"b\"\"\"");
    }
}
