//! Serve a column of symbols as rows with a single one each.

use std::collections::BTreeSet;

use crate::error::{Error, Result};

use super::{Element, RowSource, Rows, Scalar, check_read};

/// The column of a row whose symbol is missing.
const NONE: u32 = u32::MAX;

/// What columns are called, before the number.
const CALLED: &str = "symbol ";

/// Rows that are read at once.
const BLOCK_ROWS: usize = 1 << 14;

/// Symbols are whole numbers up to this.
const LARGEST: f64 = 9e15;

/// Rows of one symbol each: a one in its column, and nothing where it is missing.
///
/// Symbols are whole numbers, zero or more, and columns are called by them, "symbol 5". There is a column for every number up to the
/// largest, or, where that would be many more than there are symbols, for those that are there.
///
/// ```
/// use lsparse::data::{MemoryRows, RowSource, Symbols};
///
/// let rolls = MemoryRows::new("rolls", 1, vec![5.0, 1.0, 3.0])?;
/// let rows = Symbols::of(&rolls, false)?;
/// assert_eq!((rows.num_rows(), rows.dim(), rows.column_name(5)), (3, 6, Some("symbol 5")));
/// # Ok::<(), lsparse::Error>(())
/// ```
#[derive(Debug)]
pub struct Symbols {
    name: String,
    note: Option<String>,
    columns: Vec<u32>,
    names: Vec<String>,
}

impl Symbols {
    /// The symbols of a source with one column. NaN is a symbol that is `missing`, or an error.
    pub fn of(source: &dyn RowSource, missing: bool) -> Result<Self> {
        let found = read_symbols(source, missing)?;
        let there: BTreeSet<u64> = found.iter().flatten().copied().collect();
        let Some(&largest) = there.last() else {
            return Err(Error::NoRows { name: format!("{} without its missing symbols", source.name()) });
        };
        let alphabet = if is_all_of_them(largest, there.len()) { (0..=largest).collect() } else { there };
        let alphabet: Vec<u64> = alphabet.into_iter().collect();
        Symbols::among(source, &found, &alphabet)
    }

    /// The symbols that columns of these names are, if they are.
    pub fn of_names(names: &[String]) -> Option<Vec<u64>> {
        let number = |name: &String| name.strip_prefix(CALLED)?.parse().ok();
        let named: Option<Vec<u64>> = names.iter().map(number).collect();
        named.filter(|named| !named.is_empty() && named.windows(2).all(|pair| pair[0] < pair[1]))
    }

    /// The symbols of a source as a model knows them that was trained on such rows: by the names of its columns, or from 0 on
    /// where they have none.
    pub fn in_columns(source: &dyn RowSource, names: &[String], dim: usize, missing: bool) -> Result<Self> {
        let named = Symbols::of_names(names).filter(|named| named.len() == dim);
        let alphabet = named.unwrap_or_else(|| (0..dim as u64).collect());
        let found = read_symbols(source, missing)?;
        Symbols::among(source, &found, &alphabet)
    }

    fn among(source: &dyn RowSource, found: &[Option<u64>], alphabet: &[u64]) -> Result<Self> {
        let mut columns = Vec::with_capacity(found.len());
        for (row, symbol) in found.iter().enumerate() {
            columns.push(match symbol.map(|symbol| alphabet.binary_search(&symbol)) {
                None => NONE,
                Some(Ok(column)) => column as u32,
                Some(Err(_)) => {
                    let (name, value) = (source.name().into(), symbol.unwrap_or(0) as f64);
                    let need = "a symbol that the model was trained on";
                    return Err(Error::BadValue { name, row, column: 0, value, need });
                }
            });
        }
        let names = alphabet.iter().map(|symbol| format!("{CALLED}{symbol}")).collect();
        Ok(Symbols { name: source.name().into(), note: source.note().map(str::to_owned), columns, names })
    }

    fn append<T: Scalar>(&self, start: usize, count: usize, out: &mut Rows<T>) -> Result<()> {
        check_read(self, start, count, out)?;
        for &column in &self.columns[start..start + count] {
            match column {
                NONE => out.push_sparse::<T>(&[], &[]),
                column => out.push_sparse(&[column], &[T::ONE]),
            }
        }
        Ok(())
    }
}

/// Whether every number up to the largest has a column, of so many different symbols: numbers that are far apart would be paid
/// for by all that lie between.
fn is_all_of_them(largest: u64, there: usize) -> bool {
    largest < 1000 + 10 * there as u64
}

/// The symbol of every row, none where it is missing.
fn read_symbols(source: &dyn RowSource, missing: bool) -> Result<Vec<Option<u64>>> {
    let mut symbols = Vec::with_capacity(source.num_rows());
    let mut rows = Rows::<f64>::dense(source.dim());
    while symbols.len() < source.num_rows() {
        rows.clear();
        source.read_f64(symbols.len(), BLOCK_ROWS.min(source.num_rows() - symbols.len()), &mut rows)?;
        for &value in rows.as_dense().unwrap_or_default() {
            let row = symbols.len();
            let is_symbol = (0.0..=LARGEST).contains(&value) && value.fract() == 0.0;
            symbols.push(match (value.is_nan() && missing, is_symbol) {
                (true, _) => None,
                (_, true) => Some(value as u64),
                _ => {
                    let need = match value.is_nan() {
                        true => "a symbol (a step without one is for `missing`)",
                        false => "a symbol (a whole number, zero or more)",
                    };
                    return Err(Error::BadValue { name: source.name().into(), row, column: 0, value, need });
                }
            });
        }
    }
    Ok(symbols)
}

impl RowSource for Symbols {
    fn name(&self) -> &str {
        &self.name
    }

    fn num_rows(&self) -> usize {
        self.columns.len()
    }

    fn dim(&self) -> usize {
        self.names.len()
    }

    fn element(&self) -> Element {
        Element::F32
    }

    fn is_sparse(&self) -> bool {
        true
    }

    fn num_entries(&self) -> Option<usize> {
        Some(self.columns.iter().filter(|column| **column != NONE).count())
    }

    fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    fn column_name(&self, column: usize) -> Option<&str> {
        self.names.get(column).map(String::as_str)
    }

    fn read_f32(&self, start: usize, count: usize, out: &mut Rows<f32>) -> Result<()> {
        self.append(start, count, out)
    }

    fn read_f64(&self, start: usize, count: usize, out: &mut Rows<f64>) -> Result<()> {
        self.append(start, count, out)
    }
}

#[cfg(test)]
mod tests {
    use super::super::MemoryRows;
    use super::*;

    fn source(values: &[f64]) -> MemoryRows<f64> {
        MemoryRows::new("s", 1, values.to_vec()).unwrap()
    }

    #[test]
    fn a_symbol_is_a_one_in_its_column_and_a_missing_one_is_nothing() {
        let symbols = Symbols::of(&source(&[2.0, f64::NAN, 0.0]), true).unwrap();
        let mut rows = Rows::<f32>::dense(3);
        symbols.read_f32(0, 3, &mut rows).unwrap();
        assert_eq!(rows.as_dense().unwrap(), [0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0]);
        assert_eq!(symbols.num_entries(), Some(2));
        assert!(symbols.read_f32(2, 2, &mut rows).is_err());
    }

    #[test]
    fn numbers_that_are_far_apart_cost_what_is_there() {
        let far = source(&[7.0, 500_000_000.0, 7.0]);
        let symbols = Symbols::of(&far, false).unwrap();
        assert_eq!((symbols.dim(), symbols.column_name(1)), (2, Some("symbol 500000000")));
        let names: Vec<String> = (0..2).map(|d| symbols.column_name(d).unwrap().to_owned()).collect();
        let again = Symbols::in_columns(&source(&[500_000_000.0]), &names, 2, false).unwrap();
        let mut rows = Rows::<f64>::dense(2);
        again.read_f64(0, 1, &mut rows).unwrap();
        assert_eq!(rows.as_dense().unwrap(), [0.0, 1.0]);
        let text = Symbols::in_columns(&source(&[8.0]), &names, 2, false).unwrap_err().to_string();
        assert!(text.contains("row 1") && text.contains("8 is not a symbol that the model was trained on"), "{text}");
        // Columns without numbers for names are those from 0 on.
        assert!(Symbols::in_columns(&source(&[1.0]), &[], 2, false).is_ok());
        assert!(Symbols::in_columns(&source(&[2.0]), &[], 2, false).is_err());
    }

    #[test]
    fn what_is_no_symbol_is_refused_with_its_place() {
        for (value, word) in
            [(-1.0, "a whole number"), (0.5, "a whole number"), (1e300, "a whole number"), (f64::NAN, "`missing`")]
        {
            let text = Symbols::of(&source(&[0.0, value]), false).unwrap_err().to_string();
            assert!(text.contains("row 2") && text.contains(word), "{text}");
        }
        assert!(Symbols::of(&source(&[f64::NAN]), true).is_err());
    }
}
