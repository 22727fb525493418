//! Documents about themes that are known: readable words, for demonstrations and tests of topic models.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::{categorical, generator};
use crate::data::CsrRows;
use crate::error::Result;

/// Words that documents of every theme use.
const COMMON: &str = "people year time day work place world way thing part number week hand group point";

/// Themes: a name, and words from the most used to the least. A few words belong to two themes.
const THEMES: [(&str, &str); 24] = [
    (
        "astronomy",
        "star planet galaxy telescope orbit moon comet nebula light mass asteroid eclipse meteor dust cosmic",
    ),
    ("cooking", "sauce oven salt butter garlic recipe onion pepper flour pan boil roast simmer dough taste"),
    (
        "football",
        "goal match striker league keeper penalty coach defender stadium referee pass club season fans tackle",
    ),
    (
        "medicine",
        "patient disease doctor treatment symptom hospital infection dose surgery vaccine nurse drug therapy fever clinic",
    ),
    ("sailing", "boat wind sail harbour anchor mast deck rudder hull tide crew knot voyage wave captain"),
    ("music", "song guitar melody chord rhythm drum band album concert singer piano note tune stage record"),
    ("finance", "bank stock market investor bond loan interest profit share price debt fund credit capital risk"),
    (
        "law",
        "court judge trial lawyer verdict jury contract appeal evidence defendant clause witness statute sentence crime",
    ),
    ("gardening", "soil seed plant flower compost prune water weed rose root bulb bloom spade lawn hedge"),
    (
        "computing",
        "software code server memory network data program processor compiler bug user file password cloud chip",
    ),
    (
        "geology",
        "rock mineral lava fault volcano crust quartz granite sediment plate basalt erosion fossil magma earthquake",
    ),
    ("birds", "bird nest wing feather beak egg migration owl eagle sparrow song flock perch hawk chick"),
    (
        "theatre",
        "actor stage play scene audience script director rehearsal costume curtain drama role comedy applause act",
    ),
    (
        "weather",
        "rain wind storm cloud temperature forecast snow pressure humidity thunder frost front drought fog heat",
    ),
    ("chess", "pawn king queen rook bishop knight board opening mate gambit castle endgame move opponent check"),
    (
        "railways",
        "train track station locomotive signal carriage platform freight rail timetable driver tunnel bridge ticket gauge",
    ),
    (
        "painting",
        "canvas brush colour portrait painter oil gallery landscape pigment sketch palette easel exhibition museum fresco",
    ),
    (
        "chemistry",
        "acid molecule reaction solution compound atom oxygen bond catalyst salt polymer ion electron hydrogen flask",
    ),
    (
        "history",
        "empire king war army treaty battle dynasty century revolt throne siege emperor soldier castle alliance",
    ),
    ("cycling", "bicycle wheel pedal gear chain rider saddle brake race helmet tyre climb sprint stage frame"),
    (
        "schools",
        "teacher pupil lesson class exam school homework grade classroom textbook student study college essay reading",
    ),
    ("farming", "farm crop cattle harvest wheat tractor field milk sheep barn grain pasture farmer fertiliser cow"),
    (
        "elections",
        "vote party candidate campaign election ballot parliament poll minister voter debate coalition policy seat mandate",
    ),
    ("textiles", "wool cotton thread fabric loom dye weave silk needle yarn linen stitch knit pattern cloth"),
];

/// Share of the words of a document that are common ones.
const COMMON_SHARE: f64 = 0.12;

/// Documents and the themes they were drawn from.
#[derive(Clone, Debug)]
pub struct ThemedCorpus {
    /// The words by number.
    pub vocab: Vec<String>,
    /// The names of the themes.
    pub names: Vec<&'static str>,
    /// Words of each theme and their probabilities, most probable first.
    pub themes: Vec<Vec<(u32, f64)>>,
    /// Themes of each document and the share of its words that each was to have.
    pub mixes: Vec<Vec<(usize, f64)>>,
    /// Words of each document in the order they were drawn.
    pub documents: Vec<Vec<u32>>,
}

/// `num_docs` documents of one to three themes each, with some common words.
pub fn themed_corpus(num_docs: usize, seed: u64) -> ThemedCorpus {
    let mut rng = generator(seed);
    let mut vocab: Vec<String> = Vec::new();
    let mut numbered = |list: &str| -> Vec<(u32, f64)> {
        let weight = |rank: usize| 1.0 / (rank as f64 + 3.0);
        let count = list.split(' ').count();
        let sum: f64 = (0..count).map(weight).sum();
        let words = list.split(' ').enumerate().map(|(rank, word)| {
            let known = vocab.iter().position(|known| known == word);
            let number = known.unwrap_or_else(|| {
                vocab.push(word.to_owned());
                vocab.len() - 1
            });
            (number as u32, weight(rank) / sum)
        });
        words.collect()
    };
    let themes: Vec<Vec<(u32, f64)>> = THEMES.iter().map(|(_, list)| numbered(list)).collect();
    let common = numbered(COMMON);
    let (mut mixes, mut documents) = (Vec::with_capacity(num_docs), Vec::with_capacity(num_docs));
    for _ in 0..num_docs {
        let mix = draw_mix(&mut rng);
        let shares: Vec<f64> = mix.iter().map(|part| part.1).collect();
        let length = rng.random_range(40..120);
        let word = |rng: &mut ChaCha8Rng| {
            let theme = match rng.random::<f64>() < COMMON_SHARE {
                true => &common,
                false => &themes[mix[categorical(&shares, rng)].0],
            };
            let chances: Vec<f64> = theme.iter().map(|word| word.1).collect();
            theme[categorical(&chances, rng)].0
        };
        documents.push((0..length).map(|_| word(&mut rng)).collect());
        mixes.push(mix);
    }
    ThemedCorpus { vocab, names: THEMES.iter().map(|theme| theme.0).collect(), themes, mixes, documents }
}

/// One to three different themes, and their shares.
fn draw_mix(rng: &mut ChaCha8Rng) -> Vec<(usize, f64)> {
    let count = rng.random_range(1..=3);
    let mut mix: Vec<(usize, f64)> = Vec::with_capacity(count);
    while mix.len() < count {
        let theme = rng.random_range(0..THEMES.len());
        if mix.iter().all(|part| part.0 != theme) {
            mix.push((theme, 0.2 + rng.random::<f64>()));
        }
    }
    let sum: f64 = mix.iter().map(|part| part.1).sum();
    mix.iter_mut().for_each(|part| part.1 /= sum);
    mix
}

impl ThemedCorpus {
    /// Documents as text, one a line.
    pub fn text(&self, documents: std::ops::Range<usize>) -> String {
        let line = |words: &Vec<u32>| {
            let words: Vec<&str> = words.iter().map(|&word| self.vocab[word as usize].as_str()).collect();
            words.join(" ") + "\n"
        };
        self.documents[documents].iter().map(line).collect()
    }

    /// Documents as rows of counts.
    pub fn rows(&self, name: &str, documents: std::ops::Range<usize>) -> Result<CsrRows<f32>> {
        let documents = &self.documents[documents];
        let mut indptr = vec![0];
        indptr.extend(documents.iter().scan(0, |end, words| {
            *end += words.len();
            Some(*end)
        }));
        let words: Vec<u32> = documents.iter().flatten().copied().collect();
        let ones = vec![1.0; words.len()];
        // Repeated words are summed.
        CsrRows::new(name, self.vocab.len(), indptr, words, ones)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::data::RowSource;

    #[test]
    fn documents_hold_the_words_of_their_themes() {
        let corpus = themed_corpus(50, 3);
        let distinct: HashSet<&String> = corpus.vocab.iter().collect();
        assert_eq!(distinct.len(), corpus.vocab.len());
        for theme in &corpus.themes {
            assert!(theme.len() == 15 && (theme.iter().map(|word| word.1).sum::<f64>() - 1.0).abs() < 1e-12);
        }
        for (mix, words) in corpus.mixes.iter().zip(&corpus.documents) {
            assert!((mix.iter().map(|part| part.1).sum::<f64>() - 1.0).abs() < 1e-12);
            let own: HashSet<u32> = mix.iter().flat_map(|part| &corpus.themes[part.0]).map(|word| word.0).collect();
            let count = words.iter().filter(|word| own.contains(word)).count();
            assert!(count * 3 > words.len() * 2, "{count} of {}", words.len());
        }
        let rows = corpus.rows("some", 10..30).unwrap();
        assert_eq!((rows.num_rows(), rows.dim()), (20, corpus.vocab.len()));
        assert_eq!(corpus.text(0..5).lines().count(), 5);
        assert_eq!(themed_corpus(50, 3).documents, corpus.documents);
    }
}
