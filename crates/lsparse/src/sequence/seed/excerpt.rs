//! A part of the sequences, held in memory: what starts are tried on.

use std::ops::Range;
use std::sync::Arc;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::data::{CsrRows, Groups, MemoryRows, RowSource, Rows, Scalar};
use crate::error::Result;
use crate::sequence::Sequence;
use crate::sequence::steps::{Lacking, Steps};

/// Steps of a piece at most: long enough that its ends say little about its states.
const PIECE: usize = 200;

/// Of so many pieces one is a judge.
const JUDGES: usize = 5;

/// Steps of judges at least.
const FEWEST_JUDGES: usize = 50;

/// Steps to learn from for every state at least, where some are to be judges.
const STEPS_A_STATE: usize = 10;

/// Some pieces of sequences.
pub struct Part<T> {
    /// Its steps, those that are missing as zeros.
    pub rows: Rows<T>,
    /// The same to be read from.
    source: Box<dyn RowSource>,
    /// Where pieces begin.
    pub groups: Groups,
    /// Which of its steps are missing.
    pub lacking: Option<Arc<Lacking>>,
}

/// Pieces to learn from, and others to judge by.
pub struct Excerpt<T> {
    /// Those to learn from.
    pub own: Part<T>,
    /// Those to judge by; none where steps are too few to be spared.
    pub judges: Option<Part<T>>,
}

impl<T: Scalar> Excerpt<T> {
    /// About `size` steps, spread over all sequences; none where no step is there.
    pub fn draw(
        model: &Sequence<T>,
        steps: &Steps<'_>,
        groups: &Groups,
        size: usize,
        rng: &mut ChaCha8Rng,
    ) -> Result<Option<Self>> {
        let mut pieces: Vec<Range<usize>> = (0..groups.len()).flat_map(|group| cut(groups.range(group))).collect();
        let mut left = 0;
        // The first pieces of a random order that are enough, in the order that they lie in.
        for n in 0..pieces.len() {
            let other = rng.random_range(n..pieces.len());
            pieces.swap(n, other);
            left += pieces[n].len();
            if left >= size {
                pieces.truncate(n + 1);
                break;
            }
        }
        let judges: Vec<Range<usize>> = pieces.iter().skip(JUDGES - 1).step_by(JUDGES).cloned().collect();
        let others: Vec<Range<usize>> =
            (0..pieces.len()).filter(|n| n % JUDGES != JUDGES - 1).map(|n| pieces[n].clone()).collect();
        let sum = |pieces: &[Range<usize>]| pieces.iter().map(Range::len).sum::<usize>();
        let spared = sum(&judges) >= FEWEST_JUDGES && sum(&others) >= STEPS_A_STATE * model.num_states;
        if spared
            && let (Some(own), Some(judges)) = (Part::read(model, steps, others)?, Part::read(model, steps, judges)?)
        {
            return Ok(Some(Excerpt { own, judges: Some(judges) }));
        }
        Ok(Part::read(model, steps, pieces)?.map(|own| Excerpt { own, judges: None }))
    }
}

/// A sequence in pieces of about the same length.
fn cut(range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let (start, steps) = (range.start, range.len());
    let pieces = steps.div_ceil(PIECE);
    let at = move |n: usize| start + steps * n / pieces;
    (0..pieces).map(move |n| at(n)..at(n + 1))
}

impl<T: Scalar> Part<T> {
    fn read(model: &Sequence<T>, steps: &Steps<'_>, mut pieces: Vec<Range<usize>>) -> Result<Option<Self>> {
        pieces.sort_unstable_by_key(|piece| piece.start);
        let mut rows = Rows::new(model.likelihood.layout(), model.likelihood.dim());
        if let Some(elsewhere) = steps.pieces() {
            elsewhere.bring(&pieces)?;
        }
        for piece in &pieces {
            T::read(steps, piece.start, piece.len(), &mut rows)?;
        }
        let all = steps.lacking();
        let lacks = |row: usize| all.as_ref().is_some_and(|all| all.has(row));
        let lacking: Vec<bool> = pieces.iter().flat_map(|piece| piece.clone().map(lacks)).collect();
        if !lacking.contains(&false) {
            return Ok(None);
        }
        let lengths: Vec<usize> = pieces.iter().map(Range::len).collect();
        let name = steps.name();
        let groups = Groups::of_lengths(name, &lengths, rows.len())?;
        let source: Box<dyn RowSource> = match &rows {
            Rows::Dense { dim, values } => Box::new(MemoryRows::new(name, *dim, values.clone())?),
            Rows::Sparse { dim, indptr, index, value } => {
                Box::new(CsrRows::new(name, *dim, indptr.clone(), index.clone(), value.clone())?)
            }
        };
        Ok(Some(Part { rows, source, groups, lacking: Lacking::new(0, lacking) }))
    }

    /// Its rows to be read from, steps that are missing as zeros.
    pub fn source(&self) -> &dyn RowSource {
        self.source.as_ref()
    }

    /// Its steps to be read from.
    pub fn steps(&self) -> Steps<'_> {
        Steps::knowing(self.source.as_ref(), self.lacking.clone())
    }

    /// Whether a step is missing.
    pub fn lacks(&self, row: usize) -> bool {
        self.lacking.as_ref().is_some_and(|lacking| lacking.has(row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_all_of_a_sequence_and_none_too_long() {
        for steps in [0, 1, 199, 200, 201, 1000, 1001] {
            let pieces: Vec<Range<usize>> = cut(7..7 + steps).collect();
            assert!(pieces.iter().all(|piece| !piece.is_empty() && piece.len() <= PIECE));
            assert!(pieces.iter().flat_map(Clone::clone).eq(7..7 + steps));
        }
    }
}
