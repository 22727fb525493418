//! Where groups of rows begin: sequences, whose rows follow each other in the order of the source.

use std::ops::Range;

use crate::error::{Error, Result};

/// Groups of rows that lie one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Groups {
    /// The row after the last of each.
    ends: Vec<usize>,
}

impl Groups {
    /// All rows are one group.
    pub fn one(num_rows: usize) -> Self {
        Groups { ends: vec![num_rows] }
    }

    /// Groups of these numbers of rows, which are to be those of the rows there are; `name` is for messages.
    pub fn of_lengths(name: &str, lengths: &[usize], num_rows: usize) -> Result<Self> {
        let sum = lengths.iter().fold(0usize, |sum, &length| sum.saturating_add(length));
        if sum != num_rows {
            let show =
                |count: usize| if count == usize::MAX { "more than can be counted".into() } else { count.to_string() };
            return Err(Error::Config {
                setting: "groups",
                problem: format!(
                    "the {} lengths in {name} add up to {}, and there are {num_rows} rows",
                    lengths.len(),
                    show(sum)
                ),
                remedy: "give the number of rows of each sequence, in the order of the rows".into(),
            });
        }
        let mut end = 0;
        let next = |length: &usize| {
            end += length;
            end
        };
        Ok(Groups { ends: lengths.iter().map(next).collect() })
    }

    /// The same from numbers as files have them.
    pub fn of_numbers(name: &str, lengths: &[f64], num_rows: usize) -> Result<Self> {
        let legal = |length: &f64| *length >= 0.0 && length.fract() == 0.0 && *length <= 1e15;
        if let Some(row) = lengths.iter().position(|length| !legal(length)) {
            let need = "a length (a whole number, zero or more)";
            return Err(Error::BadValue { name: name.into(), row, column: 0, value: lengths[row], need });
        }
        let lengths: Vec<usize> = lengths.iter().map(|&length| length as usize).collect();
        Groups::of_lengths(name, &lengths, num_rows)
    }

    /// Rows with the same key next to each other are a group; a key that comes back after another is an error.
    pub fn of_keys(name: &str, keys: &[String]) -> Result<Self> {
        let mut seen = std::collections::HashMap::new();
        let mut ends: Vec<usize> = Vec::new();
        for (row, key) in keys.iter().enumerate() {
            match (row > 0 && keys[row - 1] == *key, ends.last_mut()) {
                (true, Some(end)) => *end += 1,
                _ => {
                    if let Some(first) = seen.insert(key, row) {
                        return Err(Error::Config {
                            setting: "group-column",
                            problem: format!(
                                "{name} has {key:?} in row {} again, after other sequences; it began in row {}",
                                row + 1,
                                first + 1
                            ),
                            remedy: "sort the rows by sequence, and by time within each".into(),
                        });
                    }
                    ends.push(row + 1);
                }
            }
        }
        Ok(Groups { ends })
    }

    /// Groups there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Groups that have rows.
    pub fn num_filled(&self) -> usize {
        (0..self.len()).filter(|&group| !self.range(group).is_empty()).count()
    }

    /// Rows of all groups.
    pub fn num_rows(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    /// The rows of a group.
    pub fn range(&self, group: usize) -> Range<usize> {
        group.checked_sub(1).map_or(0, |before| self.ends[before])..self.ends[group]
    }

    /// The number of rows of each.
    pub fn lengths(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.len()).map(|group| self.range(group).len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Batches, MemoryRows, Panel, Rows};

    #[test]
    fn lengths_that_do_not_add_up_are_refused_with_the_numbers() {
        let groups = Groups::of_lengths("lengths", &[3, 0, 1], 4).unwrap();
        assert_eq!((0..3).map(|g| groups.range(g)).collect::<Vec<_>>(), [0..3, 3..3, 3..4]);
        assert_eq!((groups.len(), groups.num_filled(), groups.num_rows()), (3, 2, 4));
        let text = Groups::of_lengths("lengths", &[3, 2], 4).unwrap_err().to_string();
        assert!(text.contains("add up to 5, and there are 4 rows"), "{text}");
        assert!(Groups::of_lengths("lengths", &[usize::MAX, 2], 4).is_err());
        for bad in [1.5, -1.0, f64::NAN, f64::INFINITY] {
            let text = Groups::of_numbers("lengths", &[1.0, bad], 4).unwrap_err().to_string();
            assert!(text.contains("row 2") && text.contains("is not a length"), "{text}");
        }
        assert_eq!(Groups::of_numbers("lengths", &[1.0, 3.0], 4).unwrap().range(1), 1..4);
    }

    #[test]
    fn keys_that_follow_each_other_are_a_group() {
        let keys = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let groups = Groups::of_keys("data", &keys("a a b c c c")).unwrap();
        assert_eq!(groups.lengths().collect::<Vec<_>>(), [2, 1, 3]);
        let text = Groups::of_keys("data", &keys("a b a")).unwrap_err().to_string();
        assert!(text.contains("\"a\" in row 3 again") && text.contains("began in row 1"), "{text}");
    }

    /// Every row of every group is dealt once, groups whole and in order, in batches of about the same size.
    #[test]
    fn batches_are_dealt_whole_groups() {
        let lengths: Vec<usize> = (0..40).map(|n| n * 7 % 13).collect();
        let num_rows = lengths.iter().sum();
        let groups = Groups::of_lengths("lengths", &lengths, num_rows).unwrap();
        let source = MemoryRows::new("rows", 1, (0..num_rows).map(|n| n as f64).collect()).unwrap();
        for num in [1, 2, 5, 36, 100] {
            let batches = Batches::of_groups(&groups, num, 9).unwrap();
            let num = num.min(groups.num_filled());
            assert_eq!(batches.num_batches(), num);
            let mut seen = vec![0; num_rows];
            for batch in 0..num {
                let (ids, sizes) = (batches.row_ids(batch), batches.group_sizes(batch));
                assert_eq!(ids.len(), batches.len(batch));
                assert_eq!(sizes.iter().sum::<usize>(), ids.len());
                let mut first = 0;
                for size in sizes {
                    let rows = &ids[first..first + size];
                    let is_it = |&g: &usize| groups.range(g).start == rows[0] && !groups.range(g).is_empty();
                    let group = (0..groups.len()).find(is_it);
                    assert_eq!(rows, groups.range(group.unwrap()).collect::<Vec<_>>());
                    first += size;
                }
                let (mut spare, mut rows, mut read_ids) = (Rows::<f64>::dense(1), Rows::dense(1), Vec::new());
                for panel in batches.panels(batch, 3) {
                    batches.read_panel(&source, panel, &mut spare, &mut rows, &mut read_ids).unwrap();
                    assert_eq!(read_ids, ids[panel.first..panel.first + panel.count]);
                    let values: Vec<f64> = read_ids.iter().map(|&id| id as f64).collect();
                    assert_eq!(rows.as_dense().unwrap(), values);
                }
                ids.iter().for_each(|&id| seen[id] += 1);
                if num == 5 {
                    assert!(ids.len().abs_diff(num_rows / 5) <= 13, "{} of {num_rows}", ids.len());
                }
            }
            assert!(seen.iter().all(|&times| times == 1));
        }
        let whole = Panel { batch: 0, first: 0, count: num_rows };
        let one = Batches::of_groups(&groups, 1, 9).unwrap();
        let (mut spare, mut rows, mut ids) = (Rows::<f64>::dense(1), Rows::dense(1), Vec::new());
        one.read_panel(&source, whole, &mut spare, &mut rows, &mut ids).unwrap();
        assert_eq!(ids, (0..num_rows).collect::<Vec<_>>());
    }
}
