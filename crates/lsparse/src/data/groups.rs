//! Where groups of rows begin: sequences, whose rows follow each other in the order of the source; and the windows that long
//! ones are worked on in.

use std::ops::Range;

use crate::error::{Error, Result};

/// Groups of rows that lie one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Groups {
    /// The row after the last of each.
    ends: Vec<usize>,
}

/// Rows of a group that are worked on together: its own, and those around them that they are seen with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// All of its rows.
    pub rows: Range<usize>,
    /// Those that are its own: every row of a group is some window's own, and no other's.
    pub own: Range<usize>,
    /// Whether its first row is the first of a group.
    pub begins: bool,
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

    /// Each group that has rows as one window.
    pub fn whole(&self) -> Vec<Window> {
        self.windows(|rows| rows, 0)
    }

    /// Groups as windows, in the order of their rows: as many of each as have no more own rows than `longest` says for a group
    /// of its length, all of about the same number, with up to `overlap` rows of their neighbours on either side.
    pub fn windows(&self, longest: impl Fn(usize) -> usize, overlap: usize) -> Vec<Window> {
        let of_group = |group: usize| {
            let Range { start, end } = self.range(group);
            let count = (end - start).div_ceil(longest(end - start).max(1));
            let at = move |n: usize| start + (end - start) * n / count;
            (0..count).map(move |n| {
                let own = at(n)..at(n + 1);
                let first = own.start.saturating_sub(overlap).max(start);
                Window { rows: first..end.min(own.end.saturating_add(overlap)), own, begins: n == 0 }
            })
        };
        (0..self.len()).flat_map(of_group).collect()
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
            let batches = Batches::of_windows(groups.whole(), num, 9).unwrap();
            let num = num.min(groups.num_filled());
            assert_eq!(batches.num_batches(), num);
            let mut seen = vec![0; num_rows];
            for batch in 0..num {
                let (ids, windows) = (batches.row_ids(batch), batches.windows(batch));
                assert_eq!((ids.len(), batches.own_len(batch)), (batches.len(batch), batches.len(batch)));
                assert!(windows.iter().flat_map(|window| window.rows.clone()).eq(ids.iter().copied()));
                for window in windows {
                    assert!(window.rows == window.own && (0..groups.len()).any(|g| groups.range(g) == window.rows));
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
        let one = Batches::of_windows(groups.whole(), 1, 9).unwrap();
        let (mut spare, mut rows, mut ids) = (Rows::<f64>::dense(1), Rows::dense(1), Vec::new());
        one.read_panel(&source, whole, &mut spare, &mut rows, &mut ids).unwrap();
        assert_eq!(ids, (0..num_rows).collect::<Vec<_>>());
    }

    /// Every row is some window's own, once; windows see their neighbours and no other group, and are dealt like groups.
    #[test]
    fn windows_share_rows_and_own_none_twice() {
        let groups = Groups::of_lengths("lengths", &[7, 0, 100, 1, 31], 139).unwrap();
        for (longest, overlap) in [(usize::MAX, 3), (10, 3), (10, 0), (1, 1), (30, 200)] {
            let windows = groups.windows(|_| longest, overlap);
            assert!(windows.iter().flat_map(|window| window.own.clone()).eq(0..139), "{longest} {overlap}");
            for window in &windows {
                let group = (0..5).map(|g| groups.range(g)).find(|range| range.contains(&window.own.start)).unwrap();
                let (first, last) = (window.own.start.saturating_sub(overlap), window.own.end + overlap);
                assert_eq!(window.rows, first.max(group.start)..last.min(group.end));
                assert!(!window.own.is_empty() && window.own.len() <= longest);
                assert_eq!(window.begins, window.own.start == group.start);
            }
            let batches = Batches::of_windows(windows.clone(), 3, 5).unwrap();
            assert_eq!((0..3).map(|batch| batches.own_len(batch)).sum::<usize>(), 139);
            let mut dealt: Vec<Window> = (0..3).flat_map(|batch| batches.windows(batch)).collect();
            dealt.sort_by_key(|window| window.own.start);
            assert_eq!(dealt, windows);
            for batch in 0..3 {
                let rows = batches.windows(batch).into_iter().flat_map(|window| window.rows);
                assert!(rows.eq(batches.row_ids(batch)));
            }
            let pieces = Batches::of_windows_in(windows.clone(), &[7, 107, 139]).unwrap();
            assert_eq!((0..3).map(|batch| pieces.own_len(batch)).collect::<Vec<_>>(), [7, 100, 32]);
            for bad in [&[6, 139][..], &[7, 7, 139], &[50, 139]] {
                assert!(Batches::of_windows_in(windows.clone(), bad).is_err(), "{bad:?}");
            }
        }
    }
}
