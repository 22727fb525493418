//! Rows that show what a cluster holds: the most typical of those that it is the most probable cluster of.

use std::path::Path;

use lsparse::data::{RowSource, Rows, natural_layout};
use lsparse::{Error, MixtureModel, Result};
use serde::Serialize;

use crate::format::grouped;

/// A row of a cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Example {
    pub row: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub responsibility: f64,
}

impl Example {
    /// The row by its number, and by its name where it has one.
    pub fn text(&self) -> String {
        self.name.as_ref().map_or_else(|| self.row.to_string(), |name| format!("{} ({name})", self.row))
    }
}

/// Rows read at a time.
const STRETCH: usize = 4096;

/// For each cluster `count` of the rows that it is the most probable cluster of. Clusters with means show the rows of the
/// largest density, those at their middle; the others, whose densest rows are those with next to nothing in them, show
/// rows of the largest responsibility, of equal ones the largest. `names` are of the rows, one each.
pub fn examples(
    model: &MixtureModel,
    source: &dyn RowSource,
    names: Option<&[String]>,
    count: usize,
) -> Result<Vec<Vec<Example>>> {
    let has_means = model.config.likelihood.family().has_means;
    let second = if has_means { model.score(source)?.log_density } else { sizes(source)? };
    let mut best: Vec<Vec<([f64; 2], Example)>> = vec![Vec::new(); model.num_clusters()];
    let mut row = 0;
    model.assign(source, 1, &mut |clusters, values| {
        for (&k, &responsibility) in clusters.iter().zip(values) {
            // log p(x, cluster) or the responsibility and then the size.
            let key = if has_means { [responsibility.ln() + second[row], 0.0] } else { [responsibility, second[row]] };
            let list = &mut best[k as usize];
            let place = list.iter().position(|(other, _)| key > *other).unwrap_or(list.len());
            if place < count {
                let name = names.map(|names| names[row].clone()).or_else(|| source.row_name(row));
                list.insert(place, (key, Example { row, name, responsibility }));
                list.truncate(count);
            }
            row += 1;
        }
        Ok(())
    })?;
    Ok(best.into_iter().map(|list| list.into_iter().map(|(_, example)| example).collect()).collect())
}

/// The sum of the sizes of every row's values.
fn sizes(source: &dyn RowSource) -> Result<Vec<f64>> {
    let mut sizes = Vec::with_capacity(source.num_rows());
    let mut rows = Rows::<f64>::new(natural_layout(source), source.dim());
    while sizes.len() < source.num_rows() {
        rows.clear();
        source.read_f64(sizes.len(), STRETCH.min(source.num_rows() - sizes.len()), &mut rows)?;
        sizes.extend((0..rows.len()).map(|n| match rows.row(n) {
            lsparse::data::RowRef::Dense(values) | lsparse::data::RowRef::Sparse(_, values) => {
                values.iter().map(|value| value.abs()).sum::<f64>()
            }
        }));
    }
    Ok(sizes)
}

/// The names of `rows` rows, one a line of a file.
pub fn read_names(path: &Path, rows: usize) -> Result<Vec<String>> {
    let names = crate::labels::read_lines(path)?;
    if names.len() == rows {
        return Ok(names);
    }
    Err(Error::Format {
        path: path.to_owned(),
        detail: format!("it has {} names for {} rows", grouped(names.len()), grouped(rows)),
        remedy: "give one name a line, without a header".to_owned(),
    })
}
