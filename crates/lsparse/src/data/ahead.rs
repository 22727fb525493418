//! Read the next stretch of rows on a thread of its own while the present one is worked on.
//!
//! The rows come in the same order and are the same as without: only waiting for the disk goes away.

use std::collections::HashMap;
use std::sync::mpsc::sync_channel;

use crate::error::Result;

use super::dealt::DealId;
use super::{Batches, Dealt, Layout, Panel, RowSource, Rows, Scalar};

/// Bytes of rows that are held at most.
const HELD_BYTES: usize = 32 << 20;

/// A stretch of a batch that was read.
pub struct Stretch<T> {
    /// The rows.
    pub rows: Rows<T>,
    /// Their numbers in the source.
    pub row_ids: Vec<usize>,
    /// Holds a block at a time while the rows are gathered.
    spare: Rows<T>,
}

impl<T: Scalar> Stretch<T> {
    fn new(layout: Layout, dim: usize) -> Self {
        Stretch { rows: Rows::new(layout, dim), row_ids: Vec::new(), spare: Rows::new(layout, dim) }
    }

    fn read(&mut self, batches: &Batches, source: &dyn RowSource, panel: Panel) -> Result<()> {
        batches.read_panel(source, panel, &mut self.spare, &mut self.rows, &mut self.row_ids)
    }

    /// The same by all threads of the pool that this one is of.
    fn read_by_many(&mut self, batches: &Batches, source: &dyn RowSource, panel: Panel) -> Result<()> {
        batches.read_panel_by_many(source, panel, &mut self.spare, &mut self.rows, &mut self.row_ids)
    }

    fn bytes(&self) -> usize {
        let ids = self.row_ids.capacity() * size_of::<usize>();
        self.rows.resident_bytes() + self.spare.resident_bytes() + ids
    }
}

/// Batches of small data that were read and are held for the next lap: picking their rows out of the source again costs
/// as much as a third of the work on them where clusters are few.
struct Held<T> {
    /// Whose batches these are.
    deal: Option<DealId>,
    batches: HashMap<usize, Stretch<T>>,
    bytes: usize,
}

impl<T: Scalar> Held<T> {
    /// Hold a batch that was read, if there is room. Gives back what is not needed for it.
    fn hold(&mut self, batch: usize, mut stretch: Stretch<T>) -> Stretch<T> {
        let (layout, dim) = (stretch.rows.layout(), stretch.rows.dim());
        let mut spare = Stretch::new(layout, dim);
        std::mem::swap(&mut spare.spare, &mut stretch.spare);
        let bytes = self.bytes + stretch.bytes();
        if bytes > HELD_BYTES {
            std::mem::swap(&mut spare.spare, &mut stretch.spare);
            return stretch;
        }
        self.bytes = bytes;
        self.batches.insert(batch, stretch);
        spare
    }
}

/// Buffers that are kept from batch to batch: one stretch to work on, one to read into, and batches that are held.
pub struct Ahead<T> {
    layout: Layout,
    dim: usize,
    idle: Vec<Stretch<T>>,
    holds: bool,
    held: Held<T>,
}

impl<T: Scalar> Ahead<T> {
    /// For rows of this layout and width.
    pub fn new(layout: Layout, dim: usize) -> Self {
        let held = Held { deal: None, batches: HashMap::new(), bytes: 0 };
        Ahead { layout, dim, idle: Vec::new(), holds: true, held }
    }

    /// Whether batches of small data are held from lap to lap: not where rows are worked on far longer than they are read.
    pub fn holding(self, holds: bool) -> Self {
        Ahead { holds, ..self }
    }

    fn buffer(&mut self) -> Stretch<T> {
        self.idle.pop().unwrap_or_else(|| Stretch::new(self.layout, self.dim))
    }

    /// Run `visit` over the panels of a batch, in order, reading one ahead. A batch that is one panel is held in memory while
    /// there is room, so that `visit` is to leave its rows as they are; of several it may keep what it wants.
    pub fn for_each_panel(
        &mut self,
        data: &Dealt<'_>,
        panels: impl ExactSizeIterator<Item = Panel> + Send,
        mut visit: impl FnMut(&mut Stretch<T>) -> Result<()>,
    ) -> Result<()> {
        let Dealt { source, batches, id, .. } = data;
        let source = *source;
        let mut panels = panels.peekable();
        if let (1, Some(&Panel { batch, .. })) = (panels.len(), panels.peek()) {
            if self.held.deal != Some(*id) {
                self.held = Held { deal: Some(*id), batches: HashMap::new(), bytes: 0 };
            }
            if let Some(stretch) = self.held.batches.get_mut(&batch) {
                return visit(stretch);
            }
            let mut stretch = self.buffer();
            let result = panels.try_for_each(|panel| {
                stretch.read(batches, source, panel)?;
                visit(&mut stretch)
            });
            self.idle.push(match result {
                Ok(()) if self.holds => self.held.hold(batch, stretch),
                _ => stretch,
            });
            return result;
        }
        // Two buffers go round: full ones to the work, used ones back to the reader. All threads wait for the first panel,
        // and read it together where there are several.
        let (full, filled) = sync_channel::<Result<Stretch<T>>>(1);
        let (back, used) = sync_channel::<Stretch<T>>(2);
        let (mut first, second) = (self.buffer(), self.buffer());
        let together = panels.next_if(|_| rayon::current_num_threads() > 1 && rayon::current_thread_index().is_some());
        let mut spare = vec![second];
        if together.is_none() {
            spare.push(std::mem::replace(&mut first, Stretch::new(self.layout, self.dim)));
        }
        // There is room for both, and the other end is here.
        spare.into_iter().for_each(|buffer| drop(back.send(buffer)));
        std::thread::scope(|scope| {
            let reader = scope.spawn(move || {
                for panel in panels {
                    // Once the work has ended, by an error say, nobody sends or receives any more.
                    let Ok(mut stretch) = used.recv() else { break };
                    let read = stretch.read(batches, source, panel).map(|()| stretch);
                    let failed = read.is_err();
                    if full.send(read).is_err() || failed {
                        break;
                    }
                }
                drop(full);
                used.iter().collect::<Vec<_>>()
            });
            let together = together.map(|panel| first.read_by_many(batches, source, panel).map(|()| first));
            let mut result = Ok(());
            for read in together.into_iter().chain(filled.iter()) {
                match read {
                    Ok(mut stretch) => {
                        result = visit(&mut stretch);
                        // There is always room: two buffers go round.
                        let _ = back.send(stretch);
                    }
                    Err(error) => result = Err(error),
                }
                if result.is_err() {
                    break;
                }
            }
            // Both ends must go, or the reader would wait for a buffer for ever.
            drop((back, filled));
            self.idle.extend(reader.join().into_iter().flatten());
            result
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::MemoryRows;
    use crate::error::Error;

    #[test]
    fn the_rows_are_those_of_plain_reading() {
        let values: Vec<f64> = (0..3000).map(f64::from).collect();
        let source = MemoryRows::new("rows", 3, values).unwrap();
        let data = Dealt::new(&source, Batches::new(1000, 3, 7).unwrap());
        let batches = &data.batches;
        let mut ahead = Ahead::<f64>::new(Layout::Dense, 3);
        let (mut spare, mut rows, mut ids) = (Rows::dense(3), Rows::dense(3), Vec::new());
        for (batch, panel_rows) in [(0, 1000), (1, 10), (2, 333), (0, 7), (1, 100), (0, 1000), (2, 333)] {
            let mut panels = batches.panels(batch, panel_rows);
            ahead
                .for_each_panel(&data, batches.panels(batch, panel_rows), |stretch| {
                    batches.read_panel(&source, panels.next().unwrap(), &mut spare, &mut rows, &mut ids)?;
                    assert_eq!((&stretch.rows, &stretch.row_ids), (&rows, &ids));
                    Ok(())
                })
                .unwrap();
            assert_eq!(panels.next(), None);
        }
    }

    #[test]
    fn rows_that_are_held_are_those_of_the_deal_in_hand() {
        let source = |first: f64| MemoryRows::new("rows", 1, (0..20).map(|n| first + f64::from(n)).collect()).unwrap();
        let (one, other) = (source(0.0), source(100.0));
        let batches = || Batches::new(20, 2, 7).unwrap();
        let (one, other) = (Dealt::new(&one, batches()), Dealt::new(&other, batches()));
        let mut ahead = Ahead::<f64>::new(Layout::Dense, 1);
        for (data, first) in [(&one, 0.0), (&one, 0.0), (&other, 100.0), (&one.clone(), 0.0)] {
            let visit = |stretch: &mut Stretch<f64>| {
                let rows: Vec<f64> = stretch.row_ids.iter().map(|&id| first + id as f64).collect();
                assert_eq!(stretch.rows, Rows::Dense { dim: 1, values: rows });
                Ok(())
            };
            ahead.for_each_panel(data, data.batches.panels(1, 10), visit).unwrap();
            assert_eq!(ahead.held.batches.len(), 1);
        }
    }

    #[test]
    fn an_error_of_work_or_reader_ends_both() {
        let source = MemoryRows::new("rows", 1, vec![0.0; 100]).unwrap();
        let mut ahead = Ahead::<f64>::new(Layout::Dense, 1);
        let data = Dealt::in_order(&source).unwrap();
        let mut visits = 0;
        let result = ahead.for_each_panel(&data, data.batches.panels(0, 10), |_| {
            visits += 1;
            if visits == 3 { Err(Error::NoRows { name: "enough".into() }) } else { Ok(()) }
        });
        assert!(matches!(result, Err(Error::NoRows { .. })) && visits == 3);
        let too_long = Dealt::new(&source, Batches::in_order(120, 1).unwrap());
        let mut visits = 0;
        let result = ahead.for_each_panel(&too_long, too_long.batches.panels(0, 10), |_| {
            visits += 1;
            Ok(())
        });
        assert!(matches!(result, Err(Error::PastEnd { .. })) && visits == 10);
    }
}
