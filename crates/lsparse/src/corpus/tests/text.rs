//! Text of any kind makes the same corpus, at any number of threads.

use crate::corpus::tests::*;

/// Keep every word.
fn keep_all() -> BuildOptions {
    let filter = VocabFilter { min_docs: Some(1), max_share: Some(1.0), max_words: Some(usize::MAX) };
    BuildOptions { filter, ..BuildOptions::default() }
}

const TEXTS: [&str; 4] = ["The cat, the CAT sat", "", "A dog \"barks\"; cat's dog", "Na\u{ef}ve \u{6771}\u{4eac} dog"];

#[test]
fn every_kind_of_text_makes_the_same_corpus() {
    let place = Place::new();
    let quoted = |text: &str| text.replace('"', "\"\"");
    place.write("a.txt", TEXTS.join("\n"));
    let objects = TEXTS.map(|text| format!("{{\"text\": {}, \"n\": [1]}}\n", serde_json::to_string(text).unwrap()));
    place.write("a.jsonl", gzip(objects.concat().as_bytes()));
    place.write("a.csv", TEXTS.map(|text| format!("7,\"{}\"", quoted(text))).join("\n") + "\n");
    place.write("b.csv", format!("n;text\n{}", TEXTS.map(|text| format!("7;\"{}\"", quoted(text))).join("\r\n")));
    for (number, text) in TEXTS.iter().enumerate() {
        place.write(&format!("files/{}", number + 1), text);
    }
    place.write("files/.hidden", "nothing");
    let mut options = keep_all();
    place.build("a.txt", &options, "lines").unwrap();
    place.build("a.jsonl", &options, "jsonl").unwrap();
    place.build("files", &options, "folder").unwrap();
    options.text.delimiter = Some(b';');
    place.build("b.csv", &options, "csv1").unwrap();
    options.text = TextOptions { header: false, field: Some("2".into()), delimiter: None, ..TextOptions::default() };
    place.build("a.csv", &options, "csv2").unwrap();
    let expected = files(&place.at("lines"));
    for out in ["jsonl", "folder", "csv1", "csv2"] {
        assert_eq!(files(&place.at(out)), expected, "{out}");
    }
    let corpus = Corpus::open(&place.at("lines")).unwrap();
    assert_eq!(corpus.vocab().words(), ["barks", "cat", "dog", "na\u{ef}ve", "sat", "\u{6771}\u{4eac}"]);
    assert_eq!(docs(&corpus)[2], [("barks".to_owned(), 1), ("cat".to_owned(), 1), ("dog".to_owned(), 2)]);
    assert_eq!(corpus.tokenizer(), Some(&TokenizerConfig::default()));
}

#[test]
fn documents_have_names() {
    let place = Place::new();
    place.write("f/b/2.txt", "dog");
    place.write("f/a.txt.gz", gzip(b"cat"));
    place.write("f/c.md", "fox");
    let mut options = keep_all();
    let ids = |out: &str| Corpus::open(&place.at(out)).unwrap().ids().unwrap().iter().collect::<Vec<_>>().join("|");
    place.build("f", &options, "1").unwrap();
    assert_eq!(ids("1"), "a.txt.gz|b/2.txt|c.md");
    options.text.extension = Some(".TXT".into());
    place.build("f", &options, "2").unwrap();
    assert_eq!(ids("2"), "a.txt.gz|b/2.txt");
    // Other formats may come as folders of files too.
    options.format = Some(Format::Lines);
    place.build("f", &options, "3").unwrap();
    assert_eq!(ids("3"), "a.txt.gz:1|b/2.txt:1");
    place.write("x.jsonl", "{\"body\": \"cat\", \"key\": \"k\\n1\"}\n\n{\"body\": null, \"key\": 2}\n");
    let text = TextOptions { field: Some("body".into()), id_field: Some("key".into()), ..Default::default() };
    place.build("x.jsonl", &BuildOptions { text: text.clone(), ..keep_all() }, "4").unwrap();
    assert_eq!(ids("4"), "k 1|2");
    place.write("x.csv", "key,body\nu,\"two\nlines\"\n,cat\n");
    place.build("x.csv", &BuildOptions { text, ..keep_all() }, "5").unwrap();
    assert_eq!(ids("5"), "u|2");
}

/// Many documents of words that a fixed rule draws.
fn many() -> String {
    let mut text = String::new();
    let mut state = 1u64;
    for doc in 0..3000 {
        for _ in 0..doc % 40 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let word = (state >> 40) % 997;
            text.push_str(if (state >> 20).is_multiple_of(50) { "grand piano " } else { "" });
            text.push_str(&format!("w{} ", word * word % 997));
        }
        text.push('\n');
    }
    text
}

#[test]
fn the_number_of_threads_does_not_matter() {
    let place = Place::new();
    place.write("x.txt", many());
    let mut options = BuildOptions { phrases: Some(PhraseConfig::default()), ..BuildOptions::default() };
    options.filter.max_words = Some(300);
    let mut first = None;
    for threads in [1, 2, 4, 8] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let out = threads.to_string();
        let report = pool.install(|| place.build("x.txt", &options, &out)).unwrap();
        assert_eq!((report.num_docs, report.vocab_size), (3000, 300));
        let found = files(&place.at(&out));
        assert_eq!(first.get_or_insert_with(|| found.clone()), &found, "{threads} threads");
    }
}

#[test]
fn phrases_are_found_and_applied_to_new_text() {
    let place = Place::new();
    place.write("x.txt", many());
    let options = BuildOptions { phrases: Some(PhraseConfig::default()), ..BuildOptions::default() };
    let report = place.build("x.txt", &options, "c").unwrap();
    let corpus = Corpus::open(&place.at("c")).unwrap();
    let config = corpus.tokenizer().unwrap();
    assert_eq!((report.num_phrases, config.phrases.join("|").as_str()), (1, "grand piano"));
    assert!(corpus.vocab().number("grand_piano").is_some() && corpus.vocab().number("grand").is_none());
    let encoder = Encoder::new(config, std::sync::Arc::clone(corpus.vocab())).unwrap();
    let mut entries = Vec::new();
    let unknown = encoder.encode("A Grand piano! Grand opera", &mut TokenScratch::default(), &mut entries);
    assert_eq!((unknown, entries), (2, vec![(corpus.vocab().number("grand_piano").unwrap(), 1)]));
    // The whole text once more gives the same counts, in memory and in a folder.
    let path = place.at("x.txt");
    let (again, report) = encode_text(&path, None, &TextOptions::default(), &encoder, &mut |_| Ok(())).unwrap();
    assert_eq!(docs(&again), docs(&corpus));
    assert!(report.replaced == 0);
    let like = BuildOptions { like: Some(place.at("c")), ..BuildOptions::default() };
    place.build("x.txt", &like, "d").unwrap();
    assert_eq!(files(&place.at("c")), files(&place.at("d")));
    save(&again, &place.at("e"), false).unwrap();
    assert_eq!(files(&place.at("c")), files(&place.at("e")));
}

#[test]
fn a_given_vocabulary_is_kept_as_it_is() {
    let place = Place::new();
    place.write("x.txt", "dog cat cat\nfox\n");
    let vocab = Some(place.write("v.txt", "cat\nunicorn\ndog\n"));
    let report = place.build("x.txt", &BuildOptions { vocab, ..BuildOptions::default() }, "c").unwrap();
    assert_eq!((report.vocab_size, report.text.unknown, report.num_empty), (3, 1, 1));
    let corpus = Corpus::open(&place.at("c")).unwrap();
    assert_eq!(corpus.vocab().words(), ["cat", "unicorn", "dog"]);
    assert_eq!(docs(&corpus)[0], [("cat".to_owned(), 2), ("dog".to_owned(), 1)]);
}

#[test]
fn bytes_that_are_no_utf8_are_replaced_or_refused() {
    let place = Place::new();
    let mut options = keep_all();
    place.write("x.txt", b"dog\ncat f\xffx\xfe\xfd cat\n");
    place.write("x.csv", b"text\ndog\n\"a\nf\xffx\"\n");
    place.write("f/a.txt", b"dog\ndog\n\ncat \xff\n");
    place.write("x.jsonl", b"{\"text\": \"d\xffg cat\"}\n");
    for (input, replaced) in [("x.txt", 3), ("x.csv", 1), ("f", 1), ("x.jsonl", 1)] {
        let report = place.build(input, &options, &format!("{input}.out")).unwrap();
        assert_eq!(report.text.replaced, replaced, "{input}");
    }
    options.text.strict = true;
    for (input, place_of) in
        [("x.txt", "x.txt line 2"), ("x.csv", "x.csv line 4"), ("f", "a.txt line 4"), ("x.jsonl", "line 1")]
    {
        let error = place.build(input, &options, "y").unwrap_err().to_string();
        assert!(error.contains(place_of) && error.contains("0xff is not valid UTF-8"), "{error}");
    }
    assert!(!place.at("y").exists());
}

#[test]
fn words_are_placed_where_the_text_has_them() {
    let config = TokenizerConfig { phrases: vec!["new york".to_owned()], ..TokenizerConfig::default() };
    let tokenizer = Tokenizer::new(&config).unwrap();
    // A ligature, a mark that only says where a line may end, a phrase, a possessive and the start of a phrase at the end.
    let text = "In \u{fb01}ne New\nYork, the str\u{ad}eet's end \u{1f600} is new";
    let plain = crate::corpus::normalized(text);
    let mut found = Vec::new();
    tokenizer.for_each_placed(text, &mut TokenScratch::default(), |word, place| {
        found.push((word.to_owned(), plain[place].to_owned()));
    });
    let expected =
        [("fine", "fine"), ("new_york", "New\nYork"), ("street", "street's"), ("end", "end"), ("new", "new")];
    assert_eq!(found, expected.map(|(word, piece)| (word.to_owned(), piece.to_owned())));
    assert_eq!(tokenizer.words(text), expected.map(|pair| pair.0));
}
