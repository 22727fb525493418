//! How well the top words of topics go together: NPMI and UMass coherence, and how different topics are.

use std::collections::HashSet;

use crate::data::{RowSource, Rows};
use crate::error::Result;

/// Coherence of one topic's top words over reference documents.
///
/// A word that no reference document has says nothing about a topic: its pairs are left out of both means, which
/// otherwise would call them the worst (NPMI) and the best (UMass) there can be. Words that occur but never together
/// count as -1 in NPMI.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Coherence {
    /// Mean normalised pointwise mutual information of pairs of top words, from -1 to 1 (`roder2015coherence`).
    pub npmi: f64,
    /// Mean log conditional document frequency of pairs (`mimno2011coherence`); closer to zero is better.
    pub umass: f64,
    /// Pairs that the means are over; with none of them both are 0 and mean nothing.
    pub pairs: usize,
    /// Top words that no reference document has.
    pub missing: usize,
}

impl Coherence {
    /// The mean over the topics that have pairs, and pairs and missing words of all; nothing if no topic has a pair.
    pub fn mean(topics: &[Coherence]) -> Option<Coherence> {
        let known: Vec<&Coherence> = topics.iter().filter(|topic| topic.pairs > 0).collect();
        let mean =
            |value: fn(&Coherence) -> f64| known.iter().map(|&topic| value(topic)).sum::<f64>() / known.len() as f64;
        (!known.is_empty()).then(|| Coherence {
            npmi: mean(|topic| topic.npmi),
            umass: mean(|topic| topic.umass),
            pairs: topics.iter().map(|topic| topic.pairs).sum(),
            missing: topics.iter().map(|topic| topic.missing).sum(),
        })
    }
}

/// Coherence of each topic's list of top words, best first, by documents that hold words together.
pub fn coherence(top_words: &[Vec<u32>], source: &dyn RowSource) -> Result<Vec<Coherence>> {
    // Only the words of some list matter: number them, and count pairs within lists.
    let mut number = vec![u32::MAX; source.dim()];
    let mut used: Vec<u32> = Vec::new();
    for &v in top_words.iter().flatten() {
        if number[v as usize] == u32::MAX {
            number[v as usize] = used.len() as u32;
            used.push(v);
        }
    }
    // For each used word the documents that hold it, ascending.
    let mut postings: Vec<Vec<u32>> = vec![Vec::new(); used.len()];
    let mut rows = Rows::<f32>::sparse(source.dim());
    let mut first = 0;
    while first < source.num_rows() {
        let count = (source.num_rows() - first).min(4096);
        rows.clear();
        source.read_f32(first, count, &mut rows)?;
        for n in 0..count {
            for &v in rows.sparse_row(n).0 {
                if number[v as usize] != u32::MAX {
                    postings[number[v as usize] as usize].push((first + n) as u32);
                }
            }
        }
        first += count;
    }
    let documents = source.num_rows() as f64;
    let of_word = |v: u32| &postings[number[v as usize] as usize];
    let of_list = |list: &Vec<u32>| {
        let (mut npmi, mut umass, mut pairs) = (0.0, 0.0, 0);
        for i in 1..list.len() {
            for j in 0..i {
                let (a, b) = (of_word(list[i]), of_word(list[j]));
                if a.is_empty() || b.is_empty() {
                    continue;
                }
                let both = common(a, b) as f64;
                // UMass: the less probable word given the more probable one.
                umass += ((both + 1.0) / b.len() as f64).ln();
                npmi += pair_npmi(a.len() as f64 / documents, b.len() as f64 / documents, both / documents);
                pairs += 1;
            }
        }
        let count = pairs.max(1) as f64;
        let missing = list.iter().filter(|&&v| of_word(v).is_empty()).count();
        Coherence { npmi: npmi / count, umass: umass / count, pairs, missing }
    };
    Ok(top_words.iter().map(of_list).collect())
}

/// log(p_ab / (p_a p_b)) / -log p_ab: -1 for words that never meet, 1 for words that are never apart.
fn pair_npmi(a: f64, b: f64, both: f64) -> f64 {
    if both <= 0.0 {
        return -1.0;
    }
    if both >= 1.0 {
        return 1.0;
    }
    (both / (a * b)).ln() / -both.ln()
}

/// Entries that two ascending lists share.
fn common(a: &[u32], b: &[u32]) -> usize {
    let (mut i, mut j, mut found) = (0, 0, 0);
    while i < a.len() && j < b.len() {
        match a[i].cmp(&b[j]) {
            std::cmp::Ordering::Less => i += 1,
            std::cmp::Ordering::Greater => j += 1,
            std::cmp::Ordering::Equal => {
                found += 1;
                i += 1;
                j += 1;
            }
        }
    }
    found
}

/// Share of different words among all top words: 1 when no two topics share one.
pub fn diversity(top_words: &[Vec<u32>]) -> f64 {
    let total: usize = top_words.iter().map(Vec::len).sum();
    let different: HashSet<u32> = top_words.iter().flatten().copied().collect();
    different.len() as f64 / total.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::CsrRows;

    #[test]
    fn coherence_of_a_hand_counted_corpus() {
        // Documents {0 1} {0 1} {2} {0 2}.
        let (indptr, words) = (vec![0, 2, 4, 5, 7], vec![0, 1, 0, 1, 2, 0, 2]);
        let corpus = CsrRows::new("four", 3, indptr, words, vec![1.0f32; 7]).unwrap();
        let found = coherence(&[vec![0, 1], vec![1, 2]], &corpus).unwrap();
        // p0 = 3/4, p1 = 1/2, p01 = 1/2.
        let expected = (0.5f64 / (0.75 * 0.5)).ln() / -0.5f64.ln();
        assert!((found[0].npmi - expected).abs() < 1e-12);
        assert!((found[0].umass - (3.0f64 / 3.0).ln()).abs() < 1e-12);
        assert_eq!(found[1].npmi, -1.0);
        assert_eq!(diversity(&[vec![0, 1], vec![1, 2]]), 0.75);
    }

    #[test]
    fn words_that_the_reference_does_not_have_are_left_out() {
        // Documents {0 1} {0}; no document has words 2 and 3.
        let corpus = CsrRows::new("two", 4, vec![0, 2, 3], vec![0, 1, 0], vec![1.0f32; 3]).unwrap();
        let found = coherence(&[vec![0, 1], vec![0, 1, 2, 3], vec![2, 3], vec![]], &corpus).unwrap();
        assert_eq!((found[0].pairs, found[0].missing), (1, 0));
        assert_eq!(found[1], Coherence { missing: 2, ..found[0] });
        assert_eq!(found[2], Coherence { missing: 2, ..Coherence::default() });
        // The topics of which nothing is known do not pull the mean to zero.
        let mean = Coherence::mean(&found).unwrap();
        assert_eq!((mean.npmi, mean.umass, mean.pairs, mean.missing), (found[0].npmi, found[0].umass, 2, 4));
        assert!(mean.umass < 1e-12 && mean.umass.is_finite());
        assert_eq!(Coherence::mean(&found[2..]), None);
    }
}
