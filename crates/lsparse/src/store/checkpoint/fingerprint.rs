//! What a run was made of: settings and checksums of its rows, so that it goes on with nothing else.

use rayon::prelude::*;
use serde::Serialize;

use crate::data::{Pieces, RowSource, Rows, natural_layout};
use crate::error::Result;

/// What a run was made of, by name: data, settings and the like. A run goes on only where nothing differs but
/// the rules for stopping.
pub type Fingerprint = Vec<(String, String)>;

/// The settings that say when a run ends, and nothing of how it goes.
pub(super) const STOP_RULES: [&str; 5] = ["laps", "tolerance", "count-tolerance", "max-seconds", "early-stopping"];

/// Settings that came after the first checkpoints: a run that knows nothing of them goes on as if it had them.
pub(super) const CAME_LATER: [&str; 1] = ["trades"];

/// The settings among a fingerprint.
pub fn print_settings<C: Serialize>(config: &C) -> Fingerprint {
    match serde_json::to_value(config) {
        Ok(serde_json::Value::Object(map)) => {
            // Where a run goes on is said, and no reason to refuse it.
            let map = map.into_iter().filter(|(key, _)| key != "device");
            map.map(|(key, value)| (key, value.to_string())).collect()
        }
        _ => Vec::new(),
    }
}

/// Dense values that are read for a fingerprint, at most: 64 MB of them.
const PRINTED_VALUES: usize = 1 << 23;

/// Sizes of a source of rows and a checksum of it. Its name does not matter.
///
/// The checksum is of every row where rows are sparse, or dense with at most 8 million values. Of larger dense rows
/// it is of as many values, in up to 1024 places that are spread evenly: what changes between these goes unnoticed.
pub fn print_rows(source: &dyn RowSource) -> Result<String> {
    if let Some(print) = source.pieces().map_or(Ok(None), Pieces::print)? {
        return Ok(print);
    }
    let prints: Vec<(u64, u32)> = printed_blocks(source)
        .into_par_iter()
        .map(|(start, count)| print_block(source, start, count))
        .collect::<Result<_>>()?;
    let mut hash = crc32fast::Hasher::new();
    prints.iter().for_each(|print| hash.update(&print.1.to_le_bytes()));
    let (num, dim, checksum) = (source.num_rows(), source.dim(), hash.finalize());
    let entries: u64 = prints.iter().map(|print| print.0).sum();
    let entries = if source.is_sparse() { format!(", {entries} entries,") } else { String::new() };
    Ok(format!("{num} rows of {dim} columns{entries} with checksum {checksum:08x}"))
}

/// The stretches of rows (start, count) that a fingerprint is of.
fn printed_blocks(source: &dyn RowSource) -> Vec<(usize, usize)> {
    const BLOCK_VALUES: usize = 1 << 16;
    let (num, dim) = (source.num_rows(), source.dim());
    if source.is_sparse() || num.saturating_mul(dim) <= PRINTED_VALUES {
        let count = if source.is_sparse() { 1024 } else { BLOCK_VALUES.div_ceil(dim) };
        return (0..num).step_by(count).map(|start| (start, count.min(num - start))).collect();
    }
    let places = (PRINTED_VALUES / dim).clamp(16, 1024).min(num);
    let count = (PRINTED_VALUES / dim / places).max(1);
    let gaps = (places - 1).max(1);
    (0..places).map(|place| ((num - count) * place / gaps, count)).collect()
}

/// The number of values stored in a stretch of rows, and a checksum of it.
pub(in crate::store) fn print_block(source: &dyn RowSource, start: usize, count: usize) -> Result<(u64, u32)> {
    let mut rows = Rows::<f64>::new(natural_layout(source), source.dim());
    source.read_f64(start, count, &mut rows)?;
    let mut bytes = Vec::new();
    let values = match &rows {
        Rows::Dense { values, .. } => values,
        Rows::Sparse { indptr, index, value, .. } => {
            bytes.extend(indptr.iter().flat_map(|&i| (i as u64).to_le_bytes()));
            bytes.extend(index.iter().flat_map(|i| i.to_le_bytes()));
            value
        }
    };
    bytes.extend(values.iter().flat_map(|v| v.to_le_bytes()));
    Ok((values.len() as u64, crc32fast::hash(&bytes)))
}

/// A checksum of numbers, for a fingerprint.
pub fn print_numbers(values: &[f64]) -> String {
    let mut hash = crc32fast::Hasher::new();
    values.iter().for_each(|v| hash.update(&v.to_le_bytes()));
    format!("{} numbers with checksum {:08x}", values.len(), hash.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{CsrRows, MemoryRows};

    #[test]
    fn a_run_may_go_on_on_another_device() {
        let there = serde_json::json!({"device": "cuda:0", "clusters": 3});
        let here = serde_json::json!({"clusters": 3});
        assert_eq!(print_settings(&there), print_settings(&here));
    }

    #[test]
    fn rows_are_told_apart_by_every_value_and_not_by_their_name() {
        let dense = |name: &str, changed: Option<usize>| {
            let mut values = vec![1.0; 200_000];
            changed.into_iter().for_each(|at| values[at] = 2.0);
            print_rows(&MemoryRows::new(name, 2, values).unwrap()).unwrap()
        };
        let plain = dense("a", None);
        assert_eq!(plain, dense("b", None));
        for at in [0, 77_777, 123_456, 199_999] {
            assert_ne!(plain, dense("a", Some(at)), "value {at}");
        }
        let sparse = |column: u32, value: f64, num: usize| {
            let indptr = (0..=5000).map(|row| if row > 3210 { num } else { 0 }).collect();
            let (index, value) = ((0..num as u32).map(|i| column + i).collect(), vec![value; num]);
            print_rows(&CsrRows::new("s", 9, indptr, index, value).unwrap()).unwrap()
        };
        let prints = [sparse(1, 1.0, 1), sparse(2, 1.0, 1), sparse(1, 2.0, 1), sparse(1, 1.0, 2), sparse(1, 1.0, 0)];
        let apart: std::collections::HashSet<&String> = prints.iter().collect();
        assert_eq!(apart.len(), prints.len(), "{prints:?}");
        assert!(prints[3].starts_with("5000 rows of 9 columns, 2 entries, with checksum "), "{}", prints[3]);
    }

    /// A source of ones that is too large to read in full.
    struct Large {
        rows: usize,
        dim: usize,
        read: std::sync::atomic::AtomicUsize,
    }

    impl RowSource for Large {
        fn name(&self) -> &str {
            "large"
        }

        fn num_rows(&self) -> usize {
            self.rows
        }

        fn dim(&self) -> usize {
            self.dim
        }

        fn element(&self) -> crate::data::Element {
            crate::data::Element::F64
        }

        fn is_sparse(&self) -> bool {
            false
        }

        fn read_f32(&self, _start: usize, _count: usize, _out: &mut Rows<f32>) -> Result<()> {
            unreachable!("a fingerprint reads 64 bits")
        }

        fn read_f64(&self, start: usize, count: usize, out: &mut Rows<f64>) -> Result<()> {
            assert!(count > 0 && start + count <= self.rows);
            self.read.fetch_add(count * self.dim, std::sync::atomic::Ordering::Relaxed);
            (0..count).for_each(|_| out.push_dense(&vec![1.0; self.dim]));
            Ok(())
        }
    }

    #[test]
    fn of_large_dense_rows_a_part_is_read() {
        for (rows, dim) in [(1 << 40, 4), (10_000, 1000), (1, PRINTED_VALUES + 1), (8_388_609, 1)] {
            let source = Large { rows, dim, read: Default::default() };
            print_rows(&source).unwrap();
            let read = source.read.into_inner();
            assert!(read <= PRINTED_VALUES.max(dim) && read >= PRINTED_VALUES / 2, "{rows} x {dim}: {read}");
        }
    }
}
