//! Several sources one after the other, as one.

use crate::error::{Error, Result};

use super::{Element, RowSource, Rows, Scalar, check_read};

/// Rows of several sources that have the same columns.
pub struct Chained {
    name: String,
    sources: Vec<Box<dyn RowSource>>,
    /// The row after the last of each.
    ends: Vec<usize>,
}

impl Chained {
    /// At least one source; `name` is for messages.
    pub fn new(name: String, sources: Vec<Box<dyn RowSource>>) -> Result<Self> {
        let Some(first) = sources.first() else { return Err(Error::NoRows { name }) };
        if let Some(other) = sources.iter().find(|source| source.dim() != first.dim()) {
            return Err(Error::WrongShape {
                name: other.name().to_owned(),
                found: format!("({}, {})", other.num_rows(), other.dim()),
                expected: format!("{} columns, as {} has", first.dim(), first.name()),
                remedy: "give files with the same columns".to_owned(),
            });
        }
        let mut end = 0;
        let next = |rows: usize| {
            end += rows;
            end
        };
        let ends = sources.iter().map(|source| source.num_rows()).map(next).collect();
        Ok(Chained { name, sources, ends })
    }

    fn read<T: Scalar>(&self, start: usize, count: usize, out: &mut Rows<T>) -> Result<()> {
        check_read(self, start, count, out)?;
        let (mut at, end) = (start, start + count);
        let first = self.ends.partition_point(|&end| end <= start);
        for (source, &own_end) in self.sources.iter().zip(&self.ends).skip(first) {
            if at == end {
                break;
            }
            let begin = own_end - source.num_rows();
            let until = own_end.min(end);
            T::read(source.as_ref(), at - begin, until - at, out)?;
            at = until;
        }
        Ok(())
    }
}

impl RowSource for Chained {
    fn name(&self) -> &str {
        &self.name
    }

    fn num_rows(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    fn dim(&self) -> usize {
        self.sources.first().map_or(0, |source| source.dim())
    }

    fn element(&self) -> Element {
        match self.sources.iter().all(|source| source.element() == Element::F32) {
            true => Element::F32,
            false => Element::F64,
        }
    }

    fn is_sparse(&self) -> bool {
        self.sources.iter().all(|source| source.is_sparse())
    }

    fn note(&self) -> Option<&str> {
        self.sources.iter().find_map(|source| source.note())
    }

    /// Those of the first: all have the same columns.
    fn column_name(&self, column: usize) -> Option<&str> {
        self.sources.first()?.column_name(column)
    }

    fn row_name(&self, row: usize) -> Option<String> {
        let number = self.ends.partition_point(|&end| end <= row);
        let source = self.sources.get(number)?;
        source.row_name(row + source.num_rows() - self.ends[number])
    }

    fn read_f32(&self, start: usize, count: usize, out: &mut Rows<f32>) -> Result<()> {
        self.read(start, count, out)
    }

    fn read_f64(&self, start: usize, count: usize, out: &mut Rows<f64>) -> Result<()> {
        self.read(start, count, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::MemoryRows;

    #[test]
    fn rows_are_those_of_one_source_after_the_other() {
        let part = |name: &str, dim: usize, values: std::ops::Range<i32>| -> Box<dyn RowSource> {
            Box::new(MemoryRows::new(name, dim, values.map(f64::from).collect()).unwrap())
        };
        let chained =
            Chained::new("all".into(), vec![part("a", 2, 0..6), part("b", 2, 6..8), part("c", 2, 8..16)]).unwrap();
        assert_eq!((chained.num_rows(), chained.dim()), (8, 2));
        for start in 0..8 {
            for count in 0..=8 - start {
                let mut rows = Rows::<f64>::dense(2);
                chained.read_f64(start, count, &mut rows).unwrap();
                let expected: Vec<f64> = (2 * start..2 * (start + count)).map(|v| v as f64).collect();
                assert_eq!(rows.as_dense().unwrap(), expected);
            }
        }
        assert!(chained.read_f64(7, 2, &mut Rows::dense(2)).is_err());
        let text = Chained::new("all".into(), vec![part("a", 2, 0..6), part("b", 3, 0..6)]).err().unwrap().to_string();
        assert!(text.contains("b: the shape is (2, 3), expected 2 columns, as a has"), "{text}");
    }
}
