//! Checksums of rows, stretch by stretch: by them a process knows whether it has a copy of the rows that others train on.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::checkpoint::print_block;
use crate::data::RowSource;
use crate::error::{Error, Result};

/// Rows of a stretch at least: few, so that a batch of rows from all over a file takes little more than itself to be checked.
const LEAST_ROWS: usize = 64;

/// Stretches at most: 4 MB of checksums.
const MOST_STRETCHES: usize = 1 << 20;

/// Checksums of all rows of a source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowPrints {
    rows_each: usize,
    checksums: Vec<u32>,
}

impl RowPrints {
    /// Those of these rows, every one of which is read.
    pub fn of(source: &dyn RowSource) -> Result<Self> {
        let num_rows = source.num_rows();
        let rows_each = num_rows.div_ceil(MOST_STRETCHES).max(LEAST_ROWS);
        let checksums = (0..num_rows.div_ceil(rows_each)).into_par_iter();
        let checksums = checksums.map(|stretch| print(source, rows_each, stretch)).collect::<Result<_>>()?;
        Ok(RowPrints { rows_each, checksums })
    }

    /// Refuse rows that are not those of the checksums; only the stretches that `rows` are in are read.
    pub fn check(&self, source: &dyn RowSource, rows: &[usize]) -> Result<()> {
        let mut stretches: Vec<usize> = rows.iter().map(|row| row / self.rows_each.max(1)).collect();
        stretches.sort_unstable();
        stretches.dedup();
        let wrong = stretches.into_par_iter().map(|stretch| {
            let expected = *self.checksums.get(stretch).ok_or(Error::Exchange { what: "checksums of these rows" })?;
            Ok((stretch, print(source, self.rows_each, stretch)? != expected))
        });
        let wrong = wrong.collect::<Result<Vec<_>>>()?.into_iter().find(|(_, differs)| *differs);
        let Some((stretch, _)) = wrong else { return Ok(()) };
        let (first, last) = (stretch * self.rows_each + 1, source.num_rows().min((stretch + 1) * self.rows_each));
        let name = source.name();
        Err(Error::Elsewhere {
            what: format!(
                "{name}: among rows {first} to {last} are others than the training was begun with; copy the data again"
            ),
        })
    }
}

fn print(source: &dyn RowSource, rows_each: usize, stretch: usize) -> Result<u32> {
    let start = stretch * rows_each;
    let count = rows_each.min(source.num_rows().saturating_sub(start));
    Ok(print_block(source, start, count)?.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::MemoryRows;

    #[test]
    fn what_differs_is_found_where_it_is_looked_for() {
        let values: Vec<f64> = (0..400).map(f64::from).collect();
        let rows = MemoryRows::new("x", 2, values.clone()).unwrap();
        let prints = RowPrints::of(&rows).unwrap();
        assert_eq!(prints.checksums.len(), 4);
        let all: Vec<usize> = (0..200).collect();
        prints.check(&rows, &all).unwrap();
        for place in [0, 127, 128, 399] {
            let mut changed = values.clone();
            changed[place] += 0.5;
            let changed = MemoryRows::new("x", 2, changed).unwrap();
            let first = place / 2 / 64 * 64 + 1;
            let message = prints.check(&changed, &all).unwrap_err().to_string();
            let expected = format!("x: among rows {first} to {} are others", (first + 63).min(200));
            assert!(message.starts_with(&expected), "{message}");
            // Who does not read them is not told.
            let others: Vec<usize> = all.iter().copied().filter(|row| row / 64 != place / 2 / 64).collect();
            prints.check(&changed, &others).unwrap();
        }
        // Rows that are gone.
        let fewer = MemoryRows::new("x", 2, values[..380].to_vec()).unwrap();
        assert!(prints.check(&fewer, &all).is_err());
        let more = MemoryRows::new("x", 2, vec![0.0; 1000]).unwrap();
        assert!(prints.check(&more, &[450]).is_err());
    }
}
