//! Random bytes and damaged files are refused or read, never a panic.

use proptest::prelude::*;

use crate::corpus::tests::*;

const ALL: [Format; 11] = [
    Format::Files,
    Format::Jsonl,
    Format::Csv,
    Format::Lines,
    Format::Uci,
    Format::LdaC,
    Format::Mtx,
    Format::Svmlight,
    Format::Npz,
    Format::Mallet,
    Format::Corpus,
];

/// Try to read bytes in a format; what was built must be a corpus.
fn attempt(bytes: &[u8], format: Option<Format>) {
    let place = Place::new();
    place.write("x", bytes);
    let filter = VocabFilter { min_docs: Some(1), max_share: Some(1.0), max_words: None };
    let filter = if bytes.len().is_multiple_of(2) { filter } else { VocabFilter::default() };
    let options = BuildOptions { format, filter, index_base: IndexBase::Auto, ..BuildOptions::default() };
    match place.build("x", &options, "out") {
        Ok(report) => {
            let corpus = Corpus::open(&place.at("out")).unwrap();
            assert_eq!((corpus.num_docs(), corpus.num_tokens()), (report.num_docs, report.num_tokens));
            let mut rows = Rows::<f64>::sparse(corpus.dim());
            // A file of a few bytes may claim many empty documents, but not more than that.
            assert!(corpus.num_docs() < 200_000);
            corpus.read_f64(0, corpus.num_docs(), &mut rows).unwrap();
            corpus.ids().unwrap();
        }
        Err(error) => {
            assert!(error.is_bad_input(), "{error}");
            assert_eq!(place.names(), ["x"]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn random_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200), format in 0usize..ALL.len()) {
        attempt(&bytes, Some(ALL[format]));
        attempt(&bytes, None);
        attempt(&[&[0x1f, 0x8b, 8, 0][..], &bytes].concat(), Some(ALL[format]));
    }

    #[test]
    fn random_text(text in "[0-3a{}\":,%. \t\n#-]{0,60}", format in 0usize..ALL.len()) {
        attempt(text.as_bytes(), Some(ALL[format]));
        attempt(text.as_bytes(), None);
        attempt(format!("3\n3\n{}\n{text}", text.lines().count()).as_bytes(), Some(Format::Uci));
        let head = "%%MatrixMarket matrix coordinate integer general\n3 3";
        attempt(format!("{head} {}\n{text}", text.lines().count()).as_bytes(), Some(Format::Mtx));
    }

    #[test]
    fn damaged_files(format in 0usize..COUNT_FORMATS.len(), at: prop::sample::Index, byte: u8, cut: bool, packed: bool) {
        let (docs, words) = sample();
        let format = COUNT_FORMATS[format];
        let mut bytes = encode(format, &docs, &words);
        if packed {
            bytes = gzip(&bytes);
        }
        let at = at.index(bytes.len());
        if cut {
            bytes.truncate(at);
        } else {
            bytes[at] = byte;
        }
        attempt(&bytes, Some(format));
        attempt(&bytes, None);
    }

    #[test]
    fn damaged_text(at: prop::sample::Index, bytes in prop::collection::vec(any::<u8>(), 0..4), csv: bool) {
        let text = if csv { "id,text\n1,\"a \"\"dog\"\"\ncat\"\n2,dog\n" } else { "{\"text\": \"dog cat\"}\n{\"text\": \"dog\"}\n" };
        let at = at.index(text.len());
        let damaged = [&text.as_bytes()[..at], &bytes, &text.as_bytes()[at..]].concat();
        attempt(&damaged, Some(if csv { Format::Csv } else { Format::Jsonl }));
    }

    #[test]
    fn damaged_folders(file in 0usize..6, at: prop::sample::Index, byte: u8, cut: bool) {
        let (docs, words) = sample();
        let place = Place::new();
        place.write("x", encode(Format::Uci, &docs, &words));
        place.build("x", &BuildOptions::default(), "c").unwrap();
        let path = place.at("c").join([INDPTR, WORDS, COUNTS, VOCAB, IDS, META][file]);
        let mut bytes = fs::read(&path).unwrap();
        let at = at.index(bytes.len());
        if cut {
            bytes.truncate(at);
        } else {
            bytes[at] = byte;
        }
        fs::write(&path, bytes).unwrap();
        if let Ok(corpus) = Corpus::open(&place.at("c")) {
            let _ = corpus.ids();
            let _ = corpus.read_f32(0, corpus.num_docs(), &mut Rows::sparse(corpus.dim()));
            let _ = corpus_stats(&corpus, 3, &mut |_| Ok(()));
            let _ = save(&corpus, &place.at("d"), false);
        }
    }
}
