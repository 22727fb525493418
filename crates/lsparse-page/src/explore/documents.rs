//! Documents for the page: those that show topics best, and some others, with the topic of every word.

use lsparse::Result;
use lsparse::corpus::{Encoder, Metadata, TokenScratch, document_lengths, normalized};
use lsparse::data::{Picked, RowSource, Rows};
use lsparse::topics::TopicModel;

use crate::explore::facets::{Facet, Weighed, facets};

/// Documents that are worked out at most to find those that show topics best; of more a sample is taken.
const LOOKED_AT: usize = 20_000;

/// Characters of a text that the page has at most.
const LONGEST_TEXT: usize = 8_000;

/// Documents that a topic puts forward.
const PUT_FORWARD: usize = 8;

/// Documents as whoever asks for a page has them.
pub struct Reading<'a> {
    /// Their counts, in the words of the model.
    pub rows: &'a dyn RowSource,
    /// What a document is called.
    pub name: &'a dyn Fn(usize) -> Result<String>,
    /// The texts of some documents, given by ascending numbers; none where only counts are known.
    pub texts: Option<&'a dyn Fn(&[usize]) -> Result<Vec<String>>>,
    /// What else is known of all documents.
    pub metadata: Option<&'a Metadata>,
}

/// A word of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// Where it starts in the text, in UTF-16 units, or its number where there is no text.
    pub at: u32,
    /// How long it is there, or how often it is in the document.
    pub length: u32,
    /// The topic with its largest responsibility.
    pub topic: u32,
}

/// A document of the page.
#[derive(Clone, Debug)]
pub struct ShownDocument {
    /// Its number among all, from 0.
    pub number: usize,
    /// What it is called.
    pub name: String,
    /// Its words, each as often as it is there.
    pub length: f32,
    /// Its topics, the largest share first.
    pub shares: Vec<(u32, f32)>,
    /// Its text, in normal form.
    pub text: Option<String>,
    /// Whether only the start of the text is there.
    pub cut: bool,
    /// Its words that the model knows, as they stand in the text, or by number.
    pub tokens: Vec<Token>,
}

/// The documents of the page, by number.
pub struct Shelf {
    /// All that there are.
    pub all: usize,
    /// How many were looked at to choose these.
    pub looked_at: usize,
    /// Those that are shown.
    pub shown: Vec<ShownDocument>,
    /// Shares of topics by columns of metadata.
    pub facets: Vec<Facet>,
}

impl Shelf {
    /// Choose `most` documents and work out their words.
    pub fn new(model: &TopicModel, reading: &Reading<'_>, most: usize) -> Result<Self> {
        let all = reading.rows.num_rows();
        let looked_at = all.min(LOOKED_AT.max(most));
        let sample = Picked::new(reading.rows, evenly(all, looked_at));
        let mut shares: Vec<Vec<(u32, f32)>> = Vec::with_capacity(looked_at);
        model.assign(&sample, &mut |_, found| {
            shares.push(found.to_vec());
            Ok(())
        })?;
        let lengths: Vec<f32> = document_lengths(&sample)?.into_iter().map(|length| length as f32).collect();
        let by_metadata = |metadata: &Metadata| {
            let wide = |shares: &Vec<(u32, f32)>| shares.iter().map(|&(k, share)| (k, f64::from(share))).collect();
            let wide: Vec<Vec<(u32, f64)>> = shares.iter().map(wide).collect();
            let weighed: Vec<Weighed<'_>> = (sample.numbers().iter().zip(&lengths).zip(&wide))
                .map(|((&n, &length), shares)| (n, f64::from(length), shares.as_slice()))
                .collect();
            facets(metadata, model.num_topics(), &weighed)
        };
        let facets = reading.metadata.map(by_metadata).unwrap_or_default();
        let chosen = choose_documents(model.num_topics(), &shares, &lengths, most);
        let numbers: Vec<usize> = chosen.iter().map(|&at| sample.numbers()[at]).collect();
        let texts = reading.texts.map(|texts| texts(&numbers)).transpose()?;
        let encoder = texts.is_some().then(|| model.encoder()).transpose()?;
        let source = Picked::new(reading.rows, numbers);
        let mut counts = Rows::<f32>::sparse(source.dim());
        source.read_f32(0, source.num_rows(), &mut counts)?;
        let mut scratch = TokenScratch::default();
        let mut shown = Vec::with_capacity(chosen.len());
        model.assign_words(&source, &mut |at, shares, words, topics| {
            let number = source.numbers()[at];
            let mut shares = shares.to_vec();
            shares.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            let mut document = ShownDocument {
                number,
                name: (reading.name)(number)?,
                length: lengths[chosen[at]],
                shares,
                text: None,
                cut: false,
                tokens: Vec::new(),
            };
            match (&texts, &encoder) {
                (Some(texts), Some(encoder)) => {
                    place_words(&mut document, &texts[at], encoder, words, topics, &mut scratch)
                }
                _ => {
                    let counts = counts.sparse_row(at).1.iter();
                    let token = |((&word, &topic), &count): ((&u32, &u32), &f32)| Token {
                        at: word,
                        length: count as u32,
                        topic,
                    };
                    document.tokens = words.iter().zip(topics).zip(counts).map(token).collect();
                    document.tokens.sort_by_key(|token| (std::cmp::Reverse(token.length), token.at));
                }
            }
            shown.push(document);
            Ok(())
        })?;
        Ok(Shelf { all, looked_at, shown, facets })
    }
}

/// Put the text into a document, as far as it is shown, and where its words stand there.
fn place_words(
    document: &mut ShownDocument,
    text: &str,
    encoder: &Encoder,
    words: &[u32],
    topics: &[u32],
    scratch: &mut TokenScratch,
) {
    let text = normalized(text);
    let end = text.char_indices().nth(LONGEST_TEXT).map_or(text.len(), |(at, _)| at);
    document.cut = end < text.len();
    // Places in bytes and in UTF-16 units, which is how the page counts, go side by side.
    let (mut bytes, mut units) = (0, 0);
    let tokens = &mut document.tokens;
    encoder.place(&text, scratch, |word, place| {
        let Ok(at) = words.binary_search(&word) else { return };
        if place.end > end {
            return;
        }
        units += text[bytes..place.start].encode_utf16().count();
        let length = text[place.clone()].encode_utf16().count();
        tokens.push(Token { at: units as u32, length: length as u32, topic: topics[at] });
        units += length;
        bytes = place.end;
    });
    document.text = Some(text[..end].to_owned());
}

/// Positions of at most `most` documents, ascending: the best of each topic, the second best and so on, then others evenly.
///
/// The best have the largest share of a topic; of equal ones the longest is better, then the first.
pub fn choose_documents(num_topics: usize, shares: &[Vec<(u32, f32)>], lengths: &[f32], most: usize) -> Vec<usize> {
    let mut best: Vec<Vec<(f32, f32, usize)>> = vec![Vec::new(); num_topics];
    for (n, shares) in shares.iter().enumerate() {
        for &(k, share) in shares {
            let list = &mut best[k as usize];
            let place = list.iter().position(|other| (share, lengths[n]) > (other.0, other.1)).unwrap_or(list.len());
            if place < PUT_FORWARD {
                list.insert(place, (share, lengths[n], n));
                list.truncate(PUT_FORWARD);
            }
        }
    }
    let mut taken = vec![false; shares.len()];
    let mut chosen = Vec::new();
    let put_forward = (0..PUT_FORWARD).flat_map(|rank| best.iter().filter_map(move |list| list.get(rank)));
    for &(_, _, n) in put_forward {
        if chosen.len() < most && !std::mem::replace(&mut taken[n], true) {
            chosen.push(n);
        }
    }
    let others: Vec<usize> = (0..shares.len()).filter(|&n| !taken[n] && !shares[n].is_empty()).collect();
    chosen.extend(evenly(others.len(), most.saturating_sub(chosen.len())).into_iter().map(|at| others[at]));
    chosen.sort_unstable();
    chosen
}

/// At most `count` numbers below `all`, evenly, in order.
pub fn evenly(all: usize, count: usize) -> Vec<usize> {
    let count = count.min(all);
    (0..count).map(|at| (at as u128 * all as u128 / count as u128) as usize).collect()
}
