//! Read documents on one thread, work on chunks of them on all, and hand the results on in order.

use rayon::prelude::*;

use crate::error::Result;

use crate::corpus::text::documents::{Documents, RawDoc};

/// A chunk is full with so many bytes or documents, whatever the number of threads.
const CHUNK_BYTES: usize = 1 << 18;
const CHUNK_DOCS: usize = 1 << 10;

/// Chunks in memory at once, twice.
const CHUNKS_AT_ONCE: usize = 16;

/// How far a long task has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What is being done, as in "reading text".
    pub task: &'static str,
    /// How much of it is done, in units of `total`.
    pub done: u64,
    /// How much there is.
    pub total: u64,
    /// Documents so far.
    pub docs: usize,
}

/// Is told how far a task has come; an error ends it.
pub type Watch<'a> = dyn FnMut(&Progress) -> Result<()> + 'a;

/// Work on all documents, chunk by chunk, and `take` the results in order.
pub(in crate::corpus) fn for_each_chunk<R: Send>(
    task: &'static str,
    mut documents: Documents,
    watch: &mut Watch<'_>,
    work: impl Fn(Vec<RawDoc>) -> Result<R> + Sync,
    mut take: impl FnMut(R) -> Result<()>,
) -> Result<()> {
    let mut batch = read_batch(&mut documents)?;
    let mut docs = 0;
    while !batch.is_empty() {
        docs += batch.iter().map(Vec::len).sum::<usize>();
        let (results, next) =
            rayon::join(|| batch.into_par_iter().map(&work).collect::<Vec<Result<R>>>(), || read_batch(&mut documents));
        // The error that comes first in the documents is the one returned.
        for result in results {
            take(result?)?;
        }
        let (done, total) = documents.progress();
        watch(&Progress { task, done, total, docs })?;
        batch = next?;
    }
    Ok(())
}

fn read_batch(documents: &mut Documents) -> Result<Vec<Vec<RawDoc>>> {
    let mut batch: Vec<Vec<RawDoc>> = Vec::new();
    let (mut chunk, mut bytes) = (Vec::new(), 0);
    while batch.len() < CHUNKS_AT_ONCE {
        let Some(doc) = documents.next_doc()? else { break };
        bytes += doc.size();
        chunk.push(doc);
        if bytes >= CHUNK_BYTES || chunk.len() == CHUNK_DOCS {
            batch.push(std::mem::take(&mut chunk));
            bytes = 0;
        }
    }
    if !chunk.is_empty() {
        batch.push(chunk);
    }
    Ok(batch)
}
