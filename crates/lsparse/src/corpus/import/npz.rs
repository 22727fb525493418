//! SciPy CSR matrices: documents are rows, words are columns.

use crate::corpus::folder::write::{CorpusWriter, MAX_COUNT};
use crate::corpus::text::pipeline::{Progress, Watch};
use crate::data::{Rows, read_csr_npz};
use crate::error::{Error, Result};

use crate::corpus::import::numbers::count_of;
use crate::corpus::import::{Import, Imported};

/// Rows read at once.
const STRETCH: usize = 1 << 12;

pub(in crate::corpus) fn read(
    import: &Import<'_>,
    mut writer: CorpusWriter,
    watch: &mut Watch<'_>,
) -> Result<Imported> {
    let source = read_csr_npz(import.path)?;
    let (num_docs, num_words) = (source.num_rows(), source.dim());
    let at = |detail: String, remedy: &str| Error::Format {
        path: import.path.to_owned(),
        detail: format!("the matrix has {detail}"),
        remedy: remedy.to_owned(),
    };
    import.check_vocab(num_words, at)?;
    let (mut rows, mut document) = (Rows::<f64>::sparse(num_words), Vec::new());
    let mut start = 0;
    while start < num_docs {
        let stretch = STRETCH.min(num_docs - start);
        rows.clear();
        source.read_f64(start, stretch, &mut rows)?;
        for row in 0..stretch {
            document.clear();
            let (words, values) = rows.sparse_row(row);
            for (&word, &value) in words.iter().zip(values) {
                let count = count_of(value).map_err(|_| Error::BadValue {
                    name: import.path.display().to_string(),
                    row: start + row,
                    column: word as usize,
                    value,
                    need: match value.fract() == 0.0 && value > f64::from(MAX_COUNT) {
                        true => "a count that is held (2147483647 is the largest)",
                        false => "a count (a whole number, zero or more)",
                    },
                })?;
                document.push((word, count));
            }
            writer.push(None, &mut document)?;
        }
        start += stretch;
        watch(&Progress { task: "reading counts", done: start as u64, total: num_docs as u64, docs: start })?;
    }
    Ok(Imported::counts(writer, num_words))
}
