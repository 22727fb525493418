//! Deal rows out into batches in a seeded order that still reads a disk from front to back.
//!
//! Blocks of consecutive rows are shuffled, and the rows within each block; a batch is a stretch
//! of that order. Within a batch blocks are visited as they lie in the file. Only the order of the
//! blocks is kept in memory; rows are shuffled when they are read.

use std::ops::Range;
use std::sync::Arc;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rayon::prelude::*;

use crate::backend::with_buffers;
use crate::error::{Error, Result};

use super::{Layout, RowSource, Rows, Scalar, Window, read};

/// A batch draws on at least so many blocks, lest it be too much of one piece of the file.
const BLOCKS_PER_BATCH: usize = 64;

/// Longer blocks would make the disk no faster.
const MAX_BLOCK_ROWS: usize = 1024;

/// Blocks that are in memory twice at most where many threads read a batch.
const BLOCKS_AT_ONCE: usize = 64;

/// A split of rows into batches whose sizes differ by at most one, or into the pieces that they lie in.
#[derive(Clone, Debug)]
pub struct Batches {
    num_rows: usize,
    num_batches: usize,
    /// Whether what is left over is spread over the batches, rather than given to the first.
    spread: bool,
    /// Where batches end that are the pieces rows lie in; then their sizes differ by any number.
    ends: Option<Arc<[usize]>>,
    shuffle: Option<Shuffle>,
    /// The groups that rows are dealt by, where whole groups are.
    groups: Option<Arc<DealtGroups>>,
}

/// Groups of rows, or windows of them, in the order that they are dealt in.
#[derive(Debug)]
struct DealtGroups {
    /// Their rows in the source.
    windows: Vec<Window>,
    /// The place after the last row of each in the order of all rows; a row of several windows has several places.
    place_end: Vec<usize>,
    /// The window after the last of each batch.
    batch_end: Vec<usize>,
}

impl DealtGroups {
    /// The places of a window.
    fn places(&self, window: usize) -> Range<usize> {
        window.checked_sub(1).map_or(0, |before| self.place_end[before])..self.place_end[window]
    }

    /// The windows of a batch.
    fn of_batch(&self, batch: usize) -> &[Window] {
        &self.windows[batch.checked_sub(1).map_or(0, |before| self.batch_end[before])..self.batch_end[batch]]
    }

    /// The stretches of rows in the source that these places are.
    fn stretches(&self, places: Range<usize>) -> impl Iterator<Item = Range<usize>> + '_ {
        let first = self.place_end.partition_point(|&end| end <= places.start);
        (first..self.windows.len()).map_while(move |window| {
            let own = self.places(window);
            let part = own.start.max(places.start)..own.end.min(places.end);
            let from = self.windows[window].rows.start + (part.start - own.start);
            (part.start < part.end).then(|| from..from + part.len())
        })
    }
}

/// Rows `first..first + count` of one batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Panel {
    /// The batch.
    pub batch: usize,
    /// The first row, counted within the batch.
    pub first: usize,
    /// Rows.
    pub count: usize,
}

impl Batches {
    /// Split rows at random. The same numbers give the same batches, on any machine.
    ///
    /// One batch holds all rows whatever the seed, so it keeps the order of the file.
    pub fn new(num_rows: usize, num_batches: usize, seed: u64) -> Result<Self> {
        let mut batches = Batches::in_order(num_rows, num_batches)?;
        if num_batches > 1 {
            batches.shuffle = Some(Shuffle::new(&batches, seed)?);
        }
        Ok(batches)
    }

    /// Split rows in the order of the file.
    pub fn in_order(num_rows: usize, num_batches: usize) -> Result<Self> {
        if num_batches == 0 || num_batches > num_rows {
            return Err(Error::Config {
                setting: "batches",
                problem: format!("{num_rows} rows cannot be split into {num_batches} batches"),
                remedy: format!("choose from 1 to {} batches", num_rows.max(1)),
            });
        }
        Ok(Batches { num_rows, num_batches, spread: false, ends: None, shuffle: None, groups: None })
    }

    /// Split rows in the order of the file, batch b ending at the row `num_rows * (b + 1) / num_batches`.
    pub fn spread(num_rows: usize, num_batches: usize) -> Result<Self> {
        Ok(Batches { spread: true, ..Batches::in_order(num_rows, num_batches)? })
    }

    /// The rows of a source at random; where they lie in pieces, these pieces as they are, however many are asked for.
    pub fn of(source: &dyn RowSource, num_batches: usize, seed: u64) -> Result<Self> {
        let Some(pieces) = source.pieces() else { return Batches::new(source.num_rows(), num_batches, seed) };
        let ends = pieces.ends();
        Ok(Batches { ends: Some(ends.into()), ..Batches::in_order(source.num_rows(), ends.len())? })
    }

    /// Windows of groups at random, in batches of about as many own rows; as many batches as there are windows at most.
    pub fn of_windows(mut windows: Vec<Window>, num_batches: usize, seed: u64) -> Result<Self> {
        let num_batches = num_batches.min(windows.len());
        let own_rows: usize = windows.iter().map(|window| window.own.len()).sum();
        if num_batches > 1 {
            let mut order: Vec<u32> = (0..windows.len() as u32).collect();
            permute(&mut order, &mut ChaCha8Rng::seed_from_u64(seed));
            windows = order.iter().map(|&window| windows[window as usize].clone()).collect();
        }
        // A batch ends with the window that brings it to its share, and leaves one to each that follows.
        let (mut batch_end, mut rows) = (Vec::with_capacity(num_batches), 0);
        for (n, window) in windows.iter().enumerate() {
            rows += window.own.len();
            let (done, left) = (batch_end.len() + 1, windows.len() - n - 1);
            let is_full = rows * num_batches >= own_rows * done;
            if done < num_batches && (is_full || left < num_batches - done + 1) {
                batch_end.push(n + 1);
            }
        }
        batch_end.push(windows.len());
        Batches::of_dealt(windows, batch_end)
    }

    /// Windows of groups that lie in pieces, which the batches are: none reaches over the end of its piece.
    pub fn of_windows_in(windows: Vec<Window>, ends: &[usize]) -> Result<Self> {
        let after = |end: &usize| windows.partition_point(|window| window.rows.end <= *end);
        let batch_end: Vec<usize> = ends.iter().map(after).collect();
        let mut first = 0;
        for (batch, (&last, &end)) in batch_end.iter().zip(ends).enumerate() {
            if last == first || windows.get(last).is_some_and(|window| window.rows.start < end) {
                return Err(Error::Config {
                    setting: "batches",
                    problem: format!("piece {batch} of the rows does not hold whole sequences, or holds none"),
                    remedy: "cut the rows where sequences end".into(),
                });
            }
            first = last;
        }
        Batches::of_dealt(windows, batch_end)
    }

    /// Windows in the order of batches that end before these.
    fn of_dealt(mut windows: Vec<Window>, batch_end: Vec<usize>) -> Result<Self> {
        let mut first = 0;
        for &end in &batch_end {
            windows[first..end].sort_unstable_by_key(|window| window.own.start);
            first = end;
        }
        let mut place = 0;
        let place_end: Vec<usize> = windows
            .iter()
            .map(|window| {
                place += window.rows.len();
                place
            })
            .collect();
        let batches = Batches::in_order(place, batch_end.len())?;
        let ends: Vec<usize> = batch_end.iter().map(|&end| place_end[end - 1]).collect();
        let groups = Some(Arc::new(DealtGroups { windows, place_end, batch_end }));
        Ok(Batches { ends: Some(ends.into()), groups, ..batches })
    }

    /// The windows of a batch, in the order of its rows; all of it is one where rows are not dealt by groups.
    pub fn windows(&self, batch: usize) -> Vec<Window> {
        let whole = || Window { rows: self.stretch(batch), own: self.stretch(batch), begins: true };
        self.groups.as_ref().map_or_else(|| vec![whole()], |groups| groups.of_batch(batch).to_vec())
    }

    /// Rows that count for a batch: those that others have seen with it do not.
    ///
    /// # Panics
    /// If there is no such batch.
    pub fn own_len(&self, batch: usize) -> usize {
        let own = |groups: &Arc<DealtGroups>| groups.of_batch(batch).iter().map(|window| window.own.len()).sum();
        self.groups.as_ref().map_or_else(|| self.len(batch), own)
    }

    /// Rows of all batches.
    pub fn num_rows(&self) -> usize {
        self.num_rows
    }

    /// Batches there are.
    pub fn num_batches(&self) -> usize {
        self.num_batches
    }

    /// Rows of one batch, at least one.
    ///
    /// # Panics
    /// If there is no such batch.
    pub fn len(&self, batch: usize) -> usize {
        self.stretch(batch).len()
    }

    /// Rows of the largest batch.
    pub fn max_len(&self) -> usize {
        match &self.ends {
            None => self.num_rows.div_ceil(self.num_batches),
            Some(_) => (0..self.num_batches).map(|batch| self.len(batch)).max().unwrap_or(0),
        }
    }

    /// One batch as stretches of `panel_rows` rows, the last of them shorter.
    ///
    /// # Panics
    /// If there is no such batch or `panel_rows` is zero.
    pub fn panels(&self, batch: usize, panel_rows: usize) -> impl ExactSizeIterator<Item = Panel> + use<> {
        let len = self.len(batch);
        (0..len.div_ceil(panel_rows)).map(move |number| {
            let first = number * panel_rows;
            Panel { batch, first, count: panel_rows.min(len - first) }
        })
    }

    /// One batch as panels of whole stretches of `stretch` rows each, from `first` of them to `most`, so that the first is
    /// soon read; and the last are smaller again, so that little is left to do when all is read. In one if it has no more
    /// rows than that.
    ///
    /// # Panics
    /// If there is no such batch or one of the numbers is zero.
    pub fn growing_panels(&self, batch: usize, stretch: usize, first: usize, most: usize) -> Vec<Panel> {
        let (len, most_rows) = (self.len(batch), stretch.saturating_mul(most));
        let (mut panels, mut begin) = (Vec::new(), 0);
        let mut rows = if len <= most_rows { len } else { stretch * first };
        while begin < len {
            panels.push(Panel { batch, first: begin, count: rows.min(len - begin) });
            begin += panels[panels.len() - 1].count;
            let half = (len - begin).div_ceil(2).next_multiple_of(stretch);
            rows = (rows + rows / 2).next_multiple_of(stretch).min(most_rows).min(half);
        }
        panels
    }

    /// Read a stretch of a batch.
    ///
    /// `out` is filled anew with the rows, `row_ids` with their numbers in the source. `scratch`
    /// holds a block at a time; it is to have the dimension of `out` and is best of its layout.
    ///
    /// # Panics
    /// If there is no such batch.
    pub fn read_panel<T: Scalar>(
        &self,
        source: &dyn RowSource,
        panel: Panel,
        scratch: &mut Rows<T>,
        out: &mut Rows<T>,
        row_ids: &mut Vec<usize>,
    ) -> Result<()> {
        let Panel { batch, first, count } = panel;
        out.clear();
        row_ids.clear();
        let stretch = self.stretch(batch);
        if first.checked_add(count).is_none_or(|end| end > stretch.len()) {
            return Err(Error::PastEnd {
                name: format!("batch {} of {}", batch + 1, source.name()),
                end: first.saturating_add(count),
                num_rows: stretch.len(),
            });
        }
        out.reserve(count);
        row_ids.reserve_exact(count);
        if let Some(groups) = &self.groups {
            let start = stretch.start + first;
            for rows in groups.stretches(start..start + count) {
                read(source, rows.start, rows.len(), out)?;
                row_ids.extend(rows);
            }
            return Ok(());
        }
        let Some(shuffle) = &self.shuffle else {
            let start = stretch.start + first;
            row_ids.extend(start..start + count);
            return read(source, start, count, out);
        };
        let (mut order, blocks) = (Vec::new(), shuffle.pieces(stretch, first, count));
        if let Some(pieces) = source.pieces() {
            let stretches = blocks.iter().filter_map(|piece| {
                shuffle.rows_of(piece.block, &mut order);
                let picked = &order[piece.picks.clone()];
                let (low, high) = (*picked.iter().min()? as usize, *picked.iter().max()? as usize);
                let start = shuffle.block_start(piece.block);
                Some(start + low..start + high + 1)
            });
            pieces.bring(&stretches.collect::<Vec<_>>())?;
        }
        blocks
            .iter()
            .try_for_each(|piece| shuffle.read_piece(source, piece, &mut order, (&mut *scratch, &mut *out), row_ids))
    }

    /// The same rows and numbers, read by the threads of the pool, blocks of the source side by side.
    pub(crate) fn read_panel_by_many<T: Scalar>(
        &self,
        source: &dyn RowSource,
        panel: Panel,
        scratch: &mut Rows<T>,
        out: &mut Rows<T>,
        row_ids: &mut Vec<usize>,
    ) -> Result<()> {
        let (layout, stretch) = (out.layout(), self.stretch(panel.batch));
        let within = panel.first.checked_add(panel.count).is_some_and(|end| end <= stretch.len());
        let shuffle = self.shuffle.as_ref().filter(|_| within && self.groups.is_none() && source.pieces().is_none());
        let (Some(shuffle), Rows::Dense { dim, values }) = (shuffle, &mut *out) else {
            return self.read_panel(source, panel, scratch, out, row_ids);
        };
        let dim = *dim;
        // What was there is written over, and what is fresh are zeros that nobody has written yet.
        match values.capacity() < panel.count * dim {
            true => *values = vec![T::ZERO; panel.count * dim],
            false => values.resize(panel.count * dim, T::ZERO),
        }
        row_ids.resize(panel.count, 0);
        let (mut tasks, mut values, mut ids) = (Vec::new(), &mut values[..], &mut row_ids[..]);
        for piece in shuffle.pieces(stretch, panel.first, panel.count) {
            let (values_here, ids_here);
            (values_here, values) = values.split_at_mut(piece.picks.len() * dim);
            (ids_here, ids) = ids.split_at_mut(piece.picks.len());
            tasks.push((piece, values_here, ids_here));
        }
        let read = tasks.into_par_iter().with_max_len(1).map(|(piece, values, ids)| {
            with_buffers(|buffers: &mut Option<PieceBuffers<T>>| {
                let fits = |buffers: &PieceBuffers<T>| (buffers.rows.layout(), buffers.rows.dim()) == (layout, dim);
                let there = buffers.take().filter(fits).unwrap_or_else(|| PieceBuffers::new(layout, dim));
                let PieceBuffers { scratch, rows, ids: numbers, order } = buffers.insert(there);
                rows.clear();
                numbers.clear();
                shuffle.read_piece(source, &piece, order, (scratch, rows), numbers)?;
                values.copy_from_slice(rows.dense_rows(0..rows.len()));
                ids.copy_from_slice(numbers);
                Ok(())
            })
        });
        // The first error by place, whoever met it first.
        read.collect::<Vec<Result<()>>>().into_iter().collect()
    }

    /// All rows of a batch, in the order and with the numbers of [`read_panel`](Batches::read_panel), by many threads.
    pub(crate) fn read_batch<T: Scalar>(
        &self,
        source: &dyn RowSource,
        batch: usize,
        layout: Layout,
        dim: usize,
    ) -> Result<(Rows<T>, Vec<usize>)> {
        let (mut rows, mut row_ids) = (Rows::new(layout, dim), Vec::new());
        let count = self.len(batch);
        let shuffle = self.shuffle.as_ref().filter(|_| self.groups.is_none() && source.pieces().is_none());
        let Some(shuffle) = shuffle.filter(|_| layout == Layout::Sparse) else {
            let (panel, mut spare) = (Panel { batch, first: 0, count }, Rows::new(layout, dim));
            self.read_panel_by_many(source, panel, &mut spare, &mut rows, &mut row_ids)?;
            return Ok((rows, row_ids));
        };
        row_ids.reserve_exact(count);
        for blocks in shuffle.pieces(self.stretch(batch), 0, count).chunks(BLOCKS_AT_ONCE) {
            let read = blocks.par_iter().with_max_len(1).map(|piece| -> Result<_> {
                let (mut rows, mut row_ids) = (Rows::new(layout, dim), Vec::new());
                with_buffers(|(spare, order): &mut (Option<Rows<T>>, Vec<u32>)| {
                    let fits = |spare: &Rows<T>| (spare.layout(), spare.dim()) == (layout, dim);
                    let mut room = spare.take().filter(fits).unwrap_or_else(|| Rows::new(layout, dim));
                    let read = shuffle.read_piece(source, piece, order, (&mut room, &mut rows), &mut row_ids);
                    *spare = Some(room);
                    read
                })?;
                Ok((rows, row_ids))
            });
            // The first error by place, whoever met it first.
            let (blocks, ids): (Vec<Rows<T>>, Vec<Vec<usize>>) =
                read.collect::<Vec<_>>().into_iter().collect::<Result<Vec<_>>>()?.into_iter().unzip();
            match rows.is_empty() {
                true => {
                    rows = Rows::together(layout, dim, &blocks);
                    rows.reserve(count - rows.len());
                }
                // Of a large batch, the memory of which is not to be there twice.
                false => blocks.iter().for_each(|block| rows.append(block)),
            }
            row_ids.extend(ids.into_iter().flatten());
        }
        Ok((rows, row_ids))
    }

    /// Numbers in the source of all rows of a batch, in the order that they are read in.
    ///
    /// # Panics
    /// If there is no such batch.
    pub fn row_ids(&self, batch: usize) -> Vec<usize> {
        let stretch = self.stretch(batch);
        if let Some(groups) = &self.groups {
            return groups.stretches(stretch).flatten().collect();
        }
        let Some(shuffle) = &self.shuffle else {
            return stretch.collect();
        };
        let (mut ids, mut order) = (Vec::with_capacity(stretch.len()), Vec::new());
        for piece in shuffle.pieces(stretch.clone(), 0, stretch.len()) {
            shuffle.rows_of(piece.block, &mut order);
            let start = shuffle.block_start(piece.block);
            ids.extend(order[piece.picks].iter().map(|&row| start + row as usize));
        }
        ids
    }

    /// The places of a batch in the order of all rows; the first batches take what is left over.
    pub(crate) fn stretch(&self, batch: usize) -> Range<usize> {
        assert!(batch < self.num_batches, "batch {batch} of {}", self.num_batches);
        if let Some(ends) = &self.ends {
            return batch.checked_sub(1).map_or(0, |before| ends[before])..ends[batch];
        }
        if self.spread {
            let end = |batch: usize| self.num_rows * batch / self.num_batches;
            return end(batch)..end(batch + 1);
        }
        let (each, more) = (self.num_rows / self.num_batches, self.num_rows % self.num_batches);
        let start = batch * each + batch.min(more);
        start..start + each + usize::from(batch < more)
    }
}

/// The order of the blocks, and what shuffles the rows within them.
///
/// A slot is a place in the order of the blocks, a place one in the order of all rows.
#[derive(Clone, Debug)]
struct Shuffle {
    num_rows: usize,
    block_rows: usize,
    /// The block in each slot, ascending among those that lie wholly within one batch.
    blocks: Vec<u32>,
    /// The slot of the last block of the file, which may be shorter than the others.
    short_slot: usize,
    rng: ChaCha8Rng,
}

/// What a thread reads pieces of blocks with.
struct PieceBuffers<T> {
    scratch: Rows<T>,
    rows: Rows<T>,
    ids: Vec<usize>,
    order: Vec<u32>,
}

impl<T: Scalar> PieceBuffers<T> {
    fn new(layout: Layout, dim: usize) -> Self {
        let (scratch, rows) = (Rows::new(layout, dim), Rows::new(layout, dim));
        PieceBuffers { scratch, rows, ids: Vec::new(), order: Vec::new() }
    }
}

/// Part of a block that belongs to a batch.
#[derive(Clone, Debug)]
struct Piece {
    block: u32,
    /// Which of the block's rows in their shuffled order.
    picks: Range<usize>,
}

impl Shuffle {
    /// Append what a batch has of a block, in its order, with the numbers of the rows. `order` and the first of the rows are
    /// room to work in.
    fn read_piece<T: Scalar>(
        &self,
        source: &dyn RowSource,
        piece: &Piece,
        order: &mut Vec<u32>,
        (scratch, out): (&mut Rows<T>, &mut Rows<T>),
        row_ids: &mut Vec<usize>,
    ) -> Result<()> {
        self.rows_of(piece.block, order);
        let picked = &mut order[piece.picks.clone()];
        // One read from the first to the last of the rows needed.
        let (Some(&low), Some(&high)) = (picked.iter().min(), picked.iter().max()) else { return Ok(()) };
        let start = self.block_start(piece.block) + low as usize;
        scratch.clear();
        read(source, start, (high - low + 1) as usize, scratch)?;
        picked.iter_mut().for_each(|row| *row -= low);
        scratch.gather_into(picked, out);
        row_ids.extend(picked.iter().map(|&row| start + row as usize));
        Ok(())
    }

    fn new(batches: &Batches, seed: u64) -> Result<Self> {
        let num_rows = batches.num_rows;
        let rows_per_batch = num_rows / batches.num_batches;
        // The rule looks at the numbers of rows and batches only. A batch always reaches over
        // several blocks, or blocks are single rows.
        let block_rows = (rows_per_batch / BLOCKS_PER_BATCH).clamp(1, MAX_BLOCK_ROWS);
        let num_blocks = u32::try_from(num_rows.div_ceil(block_rows)).map_err(|_| Error::Config {
            setting: "batches",
            problem: format!("{} are too many for {num_rows} rows", batches.num_batches),
            remedy: "choose fewer batches".to_owned(),
        })?;
        let rng = ChaCha8Rng::seed_from_u64(seed);
        let mut blocks: Vec<u32> = (0..num_blocks).collect();
        permute(&mut blocks, &mut rng.clone());
        let slot_of_last = |blocks: &[u32]| blocks.iter().position(|&b| b + 1 == num_blocks).unwrap_or(0);
        let short_slot = slot_of_last(&blocks);
        let mut shuffle = Shuffle { num_rows, block_rows, blocks, short_slot, rng };
        for batch in 0..batches.num_batches {
            let inner = shuffle.inner(&batches.stretch(batch));
            shuffle.blocks[inner].sort_unstable();
        }
        // Sorting within batches leaves their borders where they were.
        shuffle.short_slot = slot_of_last(&shuffle.blocks);
        Ok(shuffle)
    }

    /// The first row of a block.
    fn block_start(&self, block: u32) -> usize {
        block as usize * self.block_rows
    }

    /// Rows of a block.
    fn block_len(&self, block: u32) -> usize {
        self.block_rows.min(self.num_rows - self.block_start(block))
    }

    /// The place where a slot starts.
    fn place(&self, slot: usize) -> usize {
        let missing = self.blocks.len() * self.block_rows - self.num_rows;
        slot * self.block_rows - if slot > self.short_slot { missing } else { 0 }
    }

    /// The slot that a place lies in; the end lies in one slot more than there are.
    fn slot_at(&self, place: usize) -> usize {
        let slot = place / self.block_rows;
        // All slots but one are full, so the division is short by one at most.
        if slot < self.blocks.len() && self.place(slot + 1) <= place { slot + 1 } else { slot }
    }

    /// The slots that lie wholly within a stretch.
    fn inner(&self, stretch: &Range<usize>) -> Range<usize> {
        let first = self.slot_at(stretch.start);
        let cut = usize::from(self.place(first) < stretch.start);
        first + cut..self.slot_at(stretch.end)
    }

    /// The pieces of a stretch that hold its rows `first..first + count`, as they lie in the file.
    fn pieces(&self, stretch: Range<usize>, first: usize, count: usize) -> Vec<Piece> {
        let inner = self.inner(&stretch);
        let mut edges = Vec::new();
        let (head_end, tail_start) = (self.place(inner.start), self.place(inner.end));
        if stretch.start < head_end {
            let block = self.blocks[inner.start - 1];
            let len = self.block_len(block);
            edges.push(Piece { block, picks: len - (head_end - stretch.start)..len });
        }
        if tail_start < stretch.end {
            let block = self.blocks[inner.end];
            edges.push(Piece { block, picks: 0..stretch.end - tail_start });
        }
        edges.sort_by_key(|edge| edge.block);
        let inner = &self.blocks[inner];
        // Where each of the two cut blocks comes among the whole ones.
        let ranks: Vec<usize> = (edges.iter().enumerate())
            .map(|(before, edge)| inner.partition_point(|&block| block < edge.block) + before)
            .collect();
        let number = |n: usize| match ranks.iter().position(|&rank| rank == n) {
            Some(edge) => edges[edge].clone(),
            None => {
                let block = inner[n - ranks.iter().filter(|&&rank| rank < n).count()];
                Piece { block, picks: 0..self.block_len(block) }
            }
        };

        // No piece is longer than a block, so none before this one reaches `first`. All before it
        // are full but the edges: the short block of the file is the last of its batch.
        let mut next = first / self.block_rows;
        let missing = |edge: &Piece| self.block_rows - edge.picks.len();
        let before = edges.iter().zip(&ranks).filter(|(_, rank)| **rank < next);
        let mut at = next * self.block_rows - before.map(|(edge, _)| missing(edge)).sum::<usize>();
        let mut pieces = Vec::new();
        while at < first + count {
            let mut piece = number(next);
            let len = piece.picks.len();
            let skip = first.saturating_sub(at).min(len);
            let take = len.min(first + count - at);
            if skip < take {
                piece.picks = piece.picks.start + skip..piece.picks.start + take;
                pieces.push(piece);
            }
            at += len;
            next += 1;
        }
        pieces
    }

    /// Put the shuffled order of a block's rows, counted within the block, into `order`.
    fn rows_of(&self, block: u32, order: &mut Vec<u32>) {
        order.clear();
        order.extend(0..self.block_len(block) as u32);
        // A stream of its own for each block (the order of the blocks has stream 0), so that any
        // block can be shuffled without those before it.
        let mut rng = self.rng.clone();
        rng.set_stream(u64::from(block) + 1);
        permute(order, &mut rng);
    }
}

/// Fisher-Yates; written out so that an order does not change with a library's version.
fn permute(values: &mut [u32], rng: &mut ChaCha8Rng) {
    for i in (1..values.len()).rev() {
        // The upper half of a product is uniform on 0..=i, but for 2^-32 of the draws times i.
        let j = (u64::from(rng.next_u32()) * (i as u64 + 1)) >> 32;
        values.swap(i, j as usize);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::MemoryRows;
    use super::*;

    fn source(num_rows: usize) -> MemoryRows<f64> {
        let values = (0..num_rows).flat_map(|row| [row as f64, -(row as f64)]).collect();
        MemoryRows::new("x", 2, values).unwrap()
    }

    /// The rows of a batch, read in panels and checked against the source.
    fn rows_of(batches: &Batches, batch: usize, panel_rows: usize) -> Vec<usize> {
        let source = source(batches.num_rows());
        let (mut scratch, mut out) = (Rows::<f32>::dense(2), Rows::dense(2));
        let (mut row_ids, mut all) = (Vec::new(), Vec::new());
        for panel in batches.panels(batch, panel_rows) {
            batches.read_panel(&source, panel, &mut scratch, &mut out, &mut row_ids).unwrap();
            assert_eq!((row_ids.len(), out.len()), (panel.count, panel.count));
            let values = out.as_dense().unwrap();
            for (row, pair) in row_ids.iter().zip(values.chunks(2)) {
                assert_eq!(pair, [*row as f32, -(*row as f32)]);
            }
            all.extend(&row_ids);
        }
        assert_eq!(all.len(), batches.len(batch));
        // Many threads read the same rows in the same order, in either layout.
        for layout in [Layout::Dense, Layout::Sparse] {
            let (rows, row_ids) = batches.read_batch::<f32>(&source, batch, layout, 2).unwrap();
            let values: Vec<f32> = all.iter().flat_map(|&row| [row as f32, -(row as f32)]).collect();
            assert_eq!((rows.layout(), row_ids), (layout, all.clone()));
            assert_eq!(rows.into_dense().as_dense().unwrap(), values);
        }
        all
    }

    fn all_rows(batches: &Batches, panel_rows: usize) -> Vec<usize> {
        (0..batches.num_batches()).flat_map(|b| rows_of(batches, b, panel_rows)).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn every_row_comes_once(
            num_rows in 1usize..3000, share in 0.0f64..1.0, seed: u64, panel_rows in 1usize..700
        ) {
            let num_batches = 1 + (share.powi(4) * (num_rows - 1) as f64) as usize;
            let batches = Batches::new(num_rows, num_batches, seed).unwrap();
            let mut rows = all_rows(&batches, panel_rows);
            // The panels do not matter.
            prop_assert_eq!(&rows, &all_rows(&batches, num_rows));
            rows.sort_unstable();
            prop_assert!(rows.into_iter().eq(0..num_rows));
            let lens = || (0..num_batches).map(|b| batches.len(b));
            prop_assert!(lens().max().unwrap() - lens().min().unwrap() <= 1);
            prop_assert_eq!(lens().max().unwrap(), batches.max_len());
        }
    }

    #[test]
    fn the_seed_sets_the_order() {
        let order = |seed| all_rows(&Batches::new(10_000, 3, seed).unwrap(), 512);
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
        assert_eq!(all_rows(&Batches::new(100, 10, 0).unwrap(), 10)[..5], FIRST_OF_SEED_0);
    }

    /// Pinned: saved runs go on with the batches they were started with.
    const FIRST_OF_SEED_0: [usize; 5] = [8, 26, 30, 33, 34];

    #[test]
    fn blocks_are_read_as_they_lie_in_the_file() {
        let batches = Batches::new(100_003, 4, 7).unwrap();
        let block_rows = batches.shuffle.as_ref().unwrap().block_rows;
        assert_eq!(block_rows, 390);
        for batch in 0..4 {
            let mut blocks: Vec<usize> = rows_of(&batches, batch, 1000).iter().map(|row| row / block_rows).collect();
            assert!(blocks.is_sorted());
            blocks.dedup();
            assert!(blocks.len() >= 64);
            // Spread over the whole file.
            assert!(blocks[0] < 30 && blocks[blocks.len() - 1] > 226);
        }
    }

    #[test]
    fn in_order_is_the_order_of_the_file() {
        for batches in [Batches::in_order(10, 3).unwrap(), Batches::new(10, 1, 5).unwrap()] {
            assert_eq!(all_rows(&batches, 2), (0..10).collect::<Vec<_>>());
        }
    }

    #[test]
    fn impossible_splits_are_errors() {
        for (num_rows, num_batches) in [(0, 1), (3, 0), (3, 4)] {
            let error = Batches::new(num_rows, num_batches, 0).unwrap_err();
            assert!(matches!(error, Error::Config { setting: "batches", .. }), "{error}");
        }
        let batches = Batches::new(3, 2, 0).unwrap();
        let (mut scratch, mut out) = (Rows::<f64>::dense(2), Rows::dense(2));
        let panel = Panel { batch: 1, first: 1, count: 1 };
        let error = batches.read_panel(&source(3), panel, &mut scratch, &mut out, &mut Vec::new());
        assert!(matches!(error, Err(Error::PastEnd { .. })));
    }

    #[test]
    fn panels_grow_and_shrink_by_whole_stretches() {
        let sizes = |rows: usize, first: usize, most: usize| {
            let batches = Batches::new(rows, 1, 3).unwrap();
            let panels = batches.growing_panels(0, 10, first, most);
            let mut end = 0;
            for panel in &panels {
                assert_eq!((panel.batch, panel.first), (0, end));
                end += panel.count;
            }
            assert_eq!(end, rows);
            panels.iter().map(|panel| panel.count).collect::<Vec<_>>()
        };
        assert_eq!(sizes(88, 2, 4), [20, 30, 20, 10, 8]);
        assert_eq!(sizes(200, 1, 4), [10, 20, 30, 40, 40, 30, 20, 10]);
        assert_eq!(sizes(35, 1, 1), [10, 10, 10, 5]);
        assert_eq!(sizes(40, 1, 4), [40]);
    }

    /// Rows that many threads read are those that one reads, also where there are none.
    #[test]
    fn a_panel_that_many_read_has_the_rows_that_one_reads() {
        let source = MemoryRows::new("rows", 3, (0..30_000).map(f64::from).collect()).unwrap();
        let shuffled = Batches::new(10_000, 3, 7).unwrap();
        let in_order = Batches::in_order(10_000, 3).unwrap();
        let (mut spare, mut one, mut many) = (Rows::<f64>::dense(3), Rows::dense(3), Rows::dense(3));
        let (mut ids, mut many_ids) = (Vec::new(), vec![7; 9]);
        for batches in [&shuffled, &in_order] {
            for (batch, first, count) in [(0, 0, 3000), (1, 1234, 1000), (2, 3000, 1), (0, 100, 3000), (2, 3333, 2)] {
                let panel = Panel { batch, first, count };
                let by_one = batches.read_panel(&source, panel, &mut spare, &mut one, &mut ids);
                let mut read = || batches.read_panel_by_many(&source, panel, &mut spare, &mut many, &mut many_ids);
                let by_many = crate::backend::with_threads(3, &mut read).unwrap();
                assert_eq!(by_one.is_ok(), by_many.is_ok(), "{panel:?}");
                if by_one.is_ok() {
                    assert_eq!((&one, &ids), (&many, &many_ids), "{panel:?}");
                }
            }
        }
    }
}
