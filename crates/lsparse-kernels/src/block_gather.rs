//! Gather the weights of a document: some columns of some rows of a table, turned.

use crate::aligned::AlignedVec;
use crate::block_step::BLOCK_LANES;
use crate::real::Real;
use crate::simd::{Kernel, Vector};

/// `out[a * stride + u] = table[words[u] * width + topics[a]]`, and zero for `u` from the number of
/// words on; `out` is reshaped to `topics.len() * stride` entries.
///
/// # Panics
/// If `stride` is less than the number of words or no multiple of [`BLOCK_LANES`], or an index is
/// beyond the table.
pub fn gather_block<T: Real>(
    table: &[T],
    width: usize,
    words: &[u32],
    topics: &[u32],
    stride: usize,
    out: &mut AlignedVec<T>,
) {
    assert_eq!(stride % BLOCK_LANES, 0, "stride must be a multiple of BLOCK_LANES");
    assert!(words.len() <= stride, "{} words in a stride of {stride}", words.len());
    let largest = |index: &[u32]| index.iter().fold(0, |largest, &i| largest.max(i)) as usize;
    if !words.is_empty() && !topics.is_empty() {
        let (word, topic) = (largest(words), largest(topics));
        assert!(topic < width, "column {topic} of {width}");
        assert!(word < table.len() / width, "row {word} of {}", table.len() / width);
    }
    out.reshape(topics.len().checked_mul(stride).expect("a block that fits the memory"));
    T::gather_block(GatherBlock { table, width, words, topics, stride, out });
}

/// Arguments of [`gather_block`], lengths and indices checked.
pub struct GatherBlock<'a, T> {
    table: &'a [T],
    width: usize,
    words: &'a [u32],
    topics: &'a [u32],
    stride: usize,
    out: &'a mut [T],
}

/// Words at a time: their addresses fit the general registers.
const WORDS: usize = 8;

impl<T: Real> Kernel<T> for GatherBlock<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector<Elem = T>>(self) {
        let Self { table, width, words, topics, stride, out } = self;
        let row = |word: u32| table.as_ptr().wrapping_add(word as usize * width);
        let mut groups = words.chunks_exact(WORDS);
        let mut u = 0;
        for group in &mut groups {
            let group: &[u32; WORDS] = group.try_into().expect("a full group");
            let from = group.map(row);
            for (a, &topic) in topics.iter().enumerate() {
                // SAFETY: all words and topics are within the table, and `u + WORDS <= stride`.
                unsafe {
                    let to = out.as_mut_ptr().add(a * stride + u);
                    for w in (0..WORDS).step_by(4) {
                        V::copy_four([from[w], from[w + 1], from[w + 2], from[w + 3]], topic as usize, to.add(w));
                    }
                }
            }
            u += WORDS;
        }
        let rest = groups.remainder();
        if u == stride {
            return;
        }
        for (out, &topic) in out.chunks_exact_mut(stride).zip(topics) {
            let out = &mut out[u..];
            out.fill(T::ZERO);
            for (out, &word) in out.iter_mut().zip(rest) {
                // SAFETY: all words and topics are within the table.
                *out = unsafe { row(word).add(topic as usize).read() };
            }
        }
    }
}
