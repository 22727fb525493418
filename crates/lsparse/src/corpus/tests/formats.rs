//! The same counts in every format make the same folder.

use proptest::prelude::*;

use crate::corpus::tests::*;

fn with_vocab(place: &Place, words: &[String], format: Option<Format>) -> BuildOptions {
    let vocab = Some(place.write("vocab.txt", words.join("\n")));
    BuildOptions { format, vocab, ..BuildOptions::default() }
}

#[test]
fn every_format_makes_the_same_folder() {
    let (docs_in, words) = sample();
    let place = Place::new();
    let mut first = None;
    for format in COUNT_FORMATS {
        // Guessed, but for MALLET's lists, which look like text.
        let given = Some(format).filter(|format| *format == Format::Mallet);
        let options = with_vocab(&place, &words, given);
        let bytes = encode(format, &docs_in, &words);
        for (name, bytes) in [("plain", bytes.clone()), ("packed", gzip(&bytes))] {
            if format == Format::Npz && name == "packed" {
                continue;
            }
            place.write(name, bytes);
            let out = format!("{format:?}-{name}");
            let report = place.build(name, &options, &out).unwrap_or_else(|error| panic!("{out}: {error}"));
            assert_eq!((report.format, report.num_docs, report.num_empty), (format, 6, 3), "{out}");
            assert_eq!((report.num_tokens, report.vocab_size), (312, 5), "{out}");
            let found = files(&place.at(&out));
            assert_eq!(first.get_or_insert_with(|| found.clone()), &found, "{out}");
        }
    }
    let corpus = Corpus::open(&place.at("Uci-plain")).unwrap();
    assert_eq!(docs(&corpus)[1], [("pear".to_owned(), 2), ("fig".to_owned(), 1)]);
    assert_eq!((corpus.id(5).unwrap(), corpus.num_types(4), corpus.num_entries()), ("6", 3, 6));
    // A corpus is a format too.
    place.build("Uci-plain", &BuildOptions::default(), "again").unwrap();
    assert_eq!(files(&place.at("again")), files(&place.at("Uci-plain")));
}

#[test]
fn without_a_vocabulary_words_are_called_by_number() {
    let (docs_in, words) = sample();
    let place = Place::new();
    for format in COUNT_FORMATS {
        place.write("x", encode(format, &docs_in, &words));
        let out = format!("{format:?}");
        place.build("x", &BuildOptions { format: Some(format), ..Default::default() }, &out).unwrap();
        let corpus = Corpus::open(&place.at(&out)).unwrap();
        if format == Format::Mallet {
            // Lists have words of their own; they are numbered by the alphabet.
            assert_eq!(corpus.vocab().words(), ["apple", "fig", "pear", "\u{fc}zum"]);
        } else {
            assert_eq!(corpus.vocab().words(), ["1", "2", "3", "4", "5"]);
            assert_eq!(docs(&corpus)[1], [("1".to_owned(), 2), ("4".to_owned(), 1)]);
        }
    }
}

#[test]
fn order_and_repetition_do_not_matter() {
    let (docs_in, words) = sample();
    let place = Place::new();
    let options = with_vocab(&place, &words, None);
    place.write("x", encode(Format::Uci, &docs_in, &words));
    place.build("x", &options, "a").unwrap();
    for (at, text) in [
        "6\n5\n7\n5 5 100\n3 2 7\n2 1 2\n5 5 200\n5 2 1\n5 1 1\n2 4 1\n",
        "6\n5\n9\n2 4 1\n2 1 2\n3 2 3\n3 2 4\n3 1 0\n5 5 200\n5 5 100\n5 2 1\n5 1 1\n\n",
        "%%MatrixMarket matrix coordinate real general\r\n%\r\n6 5 6\r\n2 1 2.0\r\n5 1 1\r\n3 2 7e0\r\n5 2 1\r\n2 4 1\r\n5 5 300\r\n",
        "0\n2 3:1 0:2\n1 1:7\n0\n4 4:100 0:1 4:200 1:1\n0\n\n\n",
        "# a note\n1\n-1 4:1 1:2 # more\n0.5 qid:3 2:7\n\n7\n7 5:300 1:1 2:1 3:0\n7\n",
    ]
    .iter()
    .enumerate()
    {
        place.write("x", text);
        let out = format!("b{at}");
        place.build("x", &options, &out).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(files(&place.at(&out)), files(&place.at("a")), "{text}");
    }
}

#[test]
fn numbering_of_svmlight_is_told_or_found() {
    let place = Place::new();
    place.write("x.svm", "1 0:1 2:1\n1 1:2\n");
    let options = |index_base| BuildOptions { index_base, ..Default::default() };
    let error = place.build("x.svm", &options(IndexBase::One), "a").unwrap_err().to_string();
    assert!(error.contains("x.svm line 1: there is a word 0") && error.contains("`index-base zero`"), "{error}");
    place.build("x.svm", &options(IndexBase::Zero), "a").unwrap();
    place.build("x.svm", &options(IndexBase::Auto), "b").unwrap();
    assert_eq!(files(&place.at("a")), files(&place.at("b")));
    place.write("x.svm", "1 1:1 3:1\n1 2:2\n");
    for (base, out) in [(IndexBase::One, "c"), (IndexBase::Auto, "d")] {
        place.build("x.svm", &options(base), out).unwrap();
        assert_eq!(files(&place.at("a")), files(&place.at(out)));
    }
}

#[test]
fn counts_are_filtered_when_asked() {
    let (docs_in, words) = sample();
    let place = Place::new();
    place.write("x", encode(Format::LdaC, &docs_in, &words));
    let mut options = with_vocab(&place, &words, None);
    options.filter.min_docs = Some(2);
    options.ids = Some(place.write("names.txt", "a\nb\nc\nd\n e f\ng\n"));
    let report = place.build("x", &options, "c").unwrap();
    assert_eq!((report.vocab_size, report.dropped.rare, report.num_docs, report.num_empty), (2, 3, 6, 3));
    let corpus = Corpus::open(&place.at("c")).unwrap();
    // The order of the vocabulary that was given stays.
    assert_eq!(corpus.vocab().words(), ["pear", "apple"]);
    assert_eq!(docs(&corpus)[4], [("pear".to_owned(), 1), ("apple".to_owned(), 1)]);
    assert_eq!((corpus.id(4).unwrap(), corpus.find("g").unwrap(), corpus.find("x").unwrap()), (" e f", Some(5), None));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn any_counts_make_the_same_folder(
        counts in prop::collection::vec(prop::collection::vec(0u32..3, 7), 1..20),
        seed in 0usize..1000,
    ) {
        let docs: Docs = counts
            .iter()
            .map(|row| (0u32..).zip(row.iter().copied()).filter(|pair| pair.1 > 0).collect())
            .collect();
        prop_assume!(docs.iter().any(|doc| !doc.is_empty()));
        let words: Vec<String> = (0..7).map(|word| format!("w{word}")).collect();
        let place = Place::new();
        let mut first = None;
        for format in COUNT_FORMATS {
            let mut bytes = encode(format, &docs, &words);
            if format == Format::Mtx {
                // The lines after the sizes may come in any order.
                let text = String::from_utf8(bytes).unwrap();
                let mut lines: Vec<&str> = text.lines().collect();
                let body = lines.len() - 3;
                lines[3..].sort_by_key(|line| (line.bytes().map(usize::from).sum::<usize>() * seed) % (body + 1));
                bytes = (lines.join("\n") + "\n").into_bytes();
            }
            place.write("x", bytes);
            let out = format!("{format:?}");
            place.build("x", &with_vocab(&place, &words, Some(format)), &out).unwrap();
            let found = files(&place.at(&out));
            prop_assert_eq!(first.get_or_insert_with(|| found.clone()), &found);
        }
    }
}
