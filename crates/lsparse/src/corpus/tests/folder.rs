//! A corpus folder opens, is read, split and looked at, and says what is wrong with it.

use std::sync::Arc;

use crate::corpus::tests::*;
use crate::data::{Batches, Element, ValueCheck, scan};

fn made(place: &Place) -> Corpus {
    let (docs_in, words) = sample();
    let vocab = Some(place.write("vocab.txt", words.join("\n")));
    place.write("x", encode(Format::Uci, &docs_in, &words));
    place.build("x", &BuildOptions { vocab, ..Default::default() }, "c").unwrap();
    Corpus::open(&place.at("c")).unwrap()
}

#[test]
fn rows_are_read_in_any_stretch_and_layout() {
    let place = Place::new();
    let corpus = made(&place);
    assert_eq!((corpus.num_rows(), corpus.dim(), corpus.is_sparse(), corpus.num_tokens()), (6, 5, true, 312));
    assert_eq!(corpus.element(), Element::F32);
    let mut all = Rows::<f64>::sparse(5);
    corpus.read_f64(0, 6, &mut all).unwrap();
    for start in 0..6 {
        for count in 0..=6 - start {
            let (mut sparse, mut dense) = (Rows::<f64>::sparse(5), Rows::<f64>::dense(5));
            corpus.read_f64(start, count, &mut sparse).unwrap();
            corpus.read_f64(start, count, &mut dense).unwrap();
            assert_eq!(sparse.clone().into_dense(), dense);
            (0..count).for_each(|row| assert_eq!(sparse.row(row), all.row(start + row)));
        }
    }
    assert!(corpus.read_f64(5, 2, &mut all).is_err());
    let moments = scan(&corpus, Element::F32, None::<&ValueCheck<'_>>).unwrap();
    assert_eq!((moments.count, moments.nonzeros), (6, 6));
    let batches = Batches::new(6, 3, 1).unwrap();
    let (mut scratch, mut out, mut ids) = (Rows::<f32>::sparse(5), Rows::<f32>::sparse(5), Vec::new());
    let panel = batches.panels(0, 10).next().unwrap();
    batches.read_panel(&corpus, panel, &mut scratch, &mut out, &mut ids).unwrap();
    assert_eq!((out.len(), ids.len()), (2, 2));
}

#[test]
fn memory_and_disk_are_alike() {
    let place = Place::new();
    let corpus = made(&place);
    let (indptr, words) = (vec![0, 0, 2, 3, 3, 6, 6], vec![0, 3, 1, 0, 1, 4]);
    let (counts, vocab) = (vec![2, 1, 7, 1, 1, 300], Arc::clone(corpus.vocab()));
    let memory = Corpus::from_parts("m", indptr, words, counts, Arc::clone(&vocab), None).unwrap();
    assert_eq!((docs(&memory), memory.num_tokens()), (docs(&corpus), 312));
    save(&memory, &place.at("m"), false).unwrap();
    assert_eq!(files(&place.at("m")), files(&place.at("c")));
    let make = |indptr: &[usize], words: &[u32], counts: &[u32], ids: Option<&[&str]>| {
        let ids = ids.map(|ids| ids.iter().collect());
        Corpus::from_parts("m", indptr.to_vec(), words.to_vec(), counts.to_vec(), Arc::clone(&vocab), ids)
    };
    assert!(make(&[0, 1], &[4], &[1], Some(&["a"])).is_ok());
    for bad in [
        make(&[], &[], &[], None),
        make(&[0], &[], &[], None),
        make(&[1, 1], &[0], &[1], None),
        make(&[0, 2], &[0], &[1], None),
        make(&[0, 2, 1], &[0], &[1], None),
        make(&[0, 1], &[0], &[], None),
        make(&[0, 1], &[5], &[1], None),
        make(&[0, 2], &[1, 1], &[1, 1], None),
        make(&[0, 1], &[0], &[1], Some(&[])),
    ] {
        assert!(bad.unwrap_err().is_bad_input());
    }
    let big = Corpus::from_parts("m", vec![0, 1], vec![0], vec![1 << 25], vocab, None).unwrap();
    assert_eq!(big.element(), Element::F64);
}

#[test]
fn long_documents_are_read_like_short_ones() {
    let place = Place::new();
    let sizes = [3u32, 100_000, 0, 40_000, 40_000, 1];
    let mut indptr = vec![0];
    let mut words = Vec::new();
    for size in sizes {
        words.extend(0..size);
        indptr.push(words.len());
    }
    let counts: Vec<u32> = (0..words.len() as u32).map(|at| at % 7 + 1).collect();
    let vocab = Arc::new(Vocab::numbered(100_000));
    let memory = Corpus::from_parts("m", indptr, words, counts, vocab, None).unwrap();
    save(&memory, &place.at("m"), false).unwrap();
    let disk = Corpus::open(&place.at("m")).unwrap();
    let (mut a, mut b) = (Rows::<f32>::sparse(100_000), Rows::<f32>::sparse(100_000));
    memory.read_f32(0, 6, &mut a).unwrap();
    disk.read_f32(0, 6, &mut b).unwrap();
    assert_eq!(a, b);
}

#[test]
fn a_folder_written_by_others_needs_no_more_than_arrays_and_words() {
    let place = Place::new();
    let expected = docs(&made(&place));
    fs::remove_file(place.at("c/ids.txt")).unwrap();
    fs::remove_file(place.at("c/corpus.json")).unwrap();
    let bare = Corpus::open(&place.at("c")).unwrap();
    assert_eq!((&docs(&bare), bare.num_tokens(), bare.id(5).unwrap()), (&expected, 312, "6"));
    // Counts as float32, words as uint16.
    let array =
        |descr: &str, bytes: Vec<u8>| [crate::data::formats::npy_header::header_bytes(descr, "6,"), bytes].concat();
    let counts = [2.0f32, 1.0, 7.0, 1.0, 1.0, 300.0].iter().flat_map(|count| count.to_le_bytes()).collect();
    place.write("c/counts.npy", array("<f4", counts));
    let words = [0u16, 3, 1, 0, 1, 4].iter().flat_map(|word| word.to_le_bytes()).collect();
    place.write("c/words.npy", array("<u2", words));
    assert_eq!(docs(&Corpus::open(&place.at("c")).unwrap()), expected);
}

#[test]
fn what_is_wrong_with_a_folder_is_said() {
    let array = |descr: &str, shape: &str, bytes: &[u8]| {
        [&crate::data::formats::npy_header::header_bytes(descr, shape), bytes].concat()
    };
    let ints = |values: &[i32]| -> Vec<u8> { values.iter().flat_map(|value| value.to_le_bytes()).collect() };
    let longs = |values: &[i64]| -> Vec<u8> { values.iter().flat_map(|value| value.to_le_bytes()).collect() };
    for (file, bytes, expected) in [
        ("indptr.npy", array("<i8", "7,", &longs(&[1, 0, 2, 3, 3, 6, 6])), "the first document starts at entry 1"),
        ("indptr.npy", array("<i8", "7,", &longs(&[0, 3, 2, 3, 3, 6, 6])), "document 2 ends before it starts"),
        ("indptr.npy", array("<i8", "7,", &longs(&[0, -3, 2, 3, 3, 6, 6])), "negative place"),
        ("indptr.npy", array("<i8", "7,", &longs(&[0, 0, 2, 3, 3, 6, 7])), "the documents have 7 entries"),
        ("indptr.npy", array("<i8", "1,", &longs(&[0])), "no rows"),
        ("indptr.npy", array("<i8", "6,", &longs(&[0, 2, 3, 3, 6, 6])), "says 6 documents, there are 5"),
        ("indptr.npy", array("<f8", "7,", &[0; 56]), "does not hold whole numbers"),
        ("indptr.npy", b"".to_vec(), "does not start as a .npy file"),
        (
            "words.npy",
            array("<i4", "6,", &ints(&[0, 3, 1, 0, 1, 5])),
            "document 5 has word number 5, the vocabulary ends at 4",
        ),
        ("words.npy", array("<i4", "6,", &ints(&[0, 3, -1, 0, 1, 4])), "document 3 has word number 4294967295"),
        ("words.npy", array("<i4", "6,", &ints(&[3, 0, 1, 0, 1, 4])), "document 2 has words out of order"),
        ("words.npy", array("<i4", "5,", &ints(&[0, 3, 1, 0, 1])), "6 counts for 5 words"),
        ("words.npy", array("<i4", "2, 3", &ints(&[0; 6])), "not one size"),
        ("words.npy", array("<i4", "7,", &ints(&[0; 6])), "cut short"),
        ("counts.npy", array("<i4", "6,", &ints(&[1, 1, 1, 1, -1, 1])), "row 5, column 2: -1 is not a count"),
        ("vocab.txt", b"a\nb\n".to_vec(), "says 5 words, there are 2"),
        ("vocab.txt", b"a\n\nb\n".to_vec(), "vocab.txt line 2: the line is empty"),
        ("vocab.txt", b"".to_vec(), "no columns"),
        ("ids.txt", b"a\nb\n".to_vec(), "ids.txt: 2 names for 6 documents"),
        ("corpus.json", b"{}".to_vec(), "it cannot be read"),
        ("corpus.json", b"{\"version\": 99}".to_vec(), "update lsparse"),
    ] {
        let place = Place::new();
        made(&place);
        place.write(&format!("c/{file}"), bytes);
        let read = || -> Result<()> {
            let corpus = Corpus::open(&place.at("c"))?;
            corpus.ids()?;
            corpus.read_f32(0, corpus.num_docs(), &mut Rows::sparse(corpus.dim()))
        };
        let error = read().unwrap_err();
        assert!(error.is_bad_input() && error.to_string().contains(expected), "{file}: {error}");
    }
    let place = Place::new();
    assert!(Corpus::open(&place.at("none")).unwrap_err().to_string().contains("does not exist"));
    assert!(Corpus::open(place.0.path()).unwrap_err().to_string().contains("no indptr.npy"));
}

#[test]
fn splits_keep_words_and_order() {
    let place = Place::new();
    let corpus = made(&place);
    let file = place.write("split.txt", "train\ntest\nval\ntrain\r\ntrain\ntest\n");
    let parts = read_parts(&file, 6).unwrap();
    assert_eq!(split(&corpus, &parts, &place.at("s"), false, &mut |_| Ok(())).unwrap(), [3, 1, 2]);
    let all = docs(&corpus);
    for (name, numbers) in [("train", &[0usize, 3, 4][..]), ("val", &[2]), ("test", &[1, 5])] {
        let part = Corpus::open(&place.at("s").join(name)).unwrap();
        assert_eq!(part.vocab(), corpus.vocab());
        let expected: Vec<_> = numbers.iter().map(|&doc| all[doc].clone()).collect();
        assert_eq!(docs(&part), expected);
        let ids: Vec<String> = numbers.iter().map(|doc| (doc + 1).to_string()).collect();
        assert_eq!(part.ids().unwrap().iter().collect::<Vec<_>>(), ids);
    }
    assert!(split(&corpus, &parts, &place.at("s"), false, &mut |_| Ok(())).is_err());
    split(&corpus, &[Part::Train; 6], &place.at("s"), true, &mut |_| Ok(())).unwrap();
    assert!(!place.at("s/val").exists());
    assert_eq!(files(&place.at("s/train")), files(&place.at("c")));
    for (text, expected) in [
        ("train\nfoo\n", "line 2: \"foo\" is no part"),
        ("train\n", "line 1: the file ends here, but the corpus has 6"),
        ("test\ntest\ntest\ntest\ntest\ntest\nval\n", "line 7: the corpus has 6 documents"),
    ] {
        place.write("split.txt", text);
        let error = read_parts(&file, 6).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn parts_are_drawn_by_seed() {
    let parts = draw_parts(1000, 0.1, 0.2, 7).unwrap();
    let count = |part| parts.iter().filter(|found| **found == part).count();
    assert_eq!((count(Part::Train), count(Part::Val), count(Part::Test)), (700, 100, 200));
    assert_eq!(parts, draw_parts(1000, 0.1, 0.2, 7).unwrap());
    assert_ne!(parts, draw_parts(1000, 0.1, 0.2, 8).unwrap());
    // Every stretch of documents gives some of its own.
    assert!(parts.chunks(100).all(|chunk| (5..40).contains(&chunk.iter().filter(|p| **p == Part::Test).count())));
    for (val, test) in [(0.5, 0.5), (-0.1, 0.0), (f64::NAN, 0.0), (0.0, 1.0)] {
        assert!(draw_parts(10, val, test, 0).is_err());
    }
}

#[test]
fn statistics_are_those_of_the_documents() {
    let place = Place::new();
    let stats = corpus_stats(&made(&place), 2, &mut |_| Ok(())).unwrap();
    assert_eq!((stats.documents, stats.empty_documents, stats.vocabulary, stats.unused_words), (6, 3, 5, 1));
    assert_eq!((stats.tokens, stats.entries), (312, 6));
    assert_eq!(stats.tokens_per_document, Spread { mean: 52.0, min: 0, median: 0, max: 302 });
    let words: Vec<_> = stats.common_words.iter().map(|w| (w.word.as_str(), w.tokens, w.documents)).collect();
    assert_eq!(words, [("\u{fc}zum", 300, 1), ("apple", 8, 2)]);
    let longest: Vec<_> = stats.longest_documents.iter().map(|d| (d.id.as_str(), d.tokens, d.types)).collect();
    assert_eq!(longest, [("5", 302, 3), ("3", 7, 1)]);
}
