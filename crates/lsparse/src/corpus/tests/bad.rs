//! Bad input gets an error that names the file and the line, and leaves nothing behind.

use crate::corpus::tests::*;
use crate::error::Error;

fn message(place: &Place, input: &str, options: &BuildOptions) -> String {
    let before = place.names();
    let error = place.build(input, options, "out").unwrap_err();
    assert!(error.is_bad_input(), "{error}");
    assert_eq!(place.names(), before, "{error}");
    error.to_string()
}

#[test]
fn counts_that_cannot_be_read_are_named() {
    let place = Place::new();
    for (format, text, expected) in [
        (Format::Uci, "", "line 1: the file ends before the number of documents"),
        (Format::Uci, "2\n3\n", "line 2: the file ends before the number of entries"),
        (Format::Uci, "2\nx\n1\n", "line 2: \"x\" is not the number of words"),
        (Format::Uci, "2\n3 4\n1\n", "line 2: \"3 4\" is not the number of words"),
        (Format::Uci, "0\n3\n0\n", "line 3: the header says there are 0 documents"),
        (Format::Uci, "2\n3\n1\n1 4 1\n", "line 4: there is no word 4, the header says there are 3"),
        (Format::Uci, "2\n3\n1\n1 0 1\n", "line 4: there is no word 0"),
        (Format::Uci, "2\n3\n1\n3 1 1\n", "line 4: there is no document 3, the header says there are 2"),
        (Format::Uci, "2\n3\n1\n1 1 -1\n", "line 4: the count -1 is negative"),
        (Format::Uci, "2\n3\n1\n1 1 1.5\n", "line 4: the count 1.5 is not whole"),
        (Format::Uci, "2\n3\n1\n1 1 3000000000\n", "line 4: the count 3000000000 is more than"),
        (Format::Uci, "2\n3\n1\n1 1\n", "line 4: \"1 1\" is not document, word and count"),
        (Format::Uci, "2\n3\n1\n1 1 1\n2 1 1\n", "line 5: the header says there are 1 entries, here is one more"),
        (Format::Uci, "2\n3\n3\n1 1 1\n2 1 1\n", "line 5: the file ends after 2 entries, its header says there are 3"),
        (Format::Uci, "2\n3\n0\n", "the 2 documents have no words"),
        (Format::Uci, "9000000000000\n3\n1\n1 1 1\n", "9000000000000 documents are claimed"),
        (Format::Uci, "9000000000000\n3\n1\n8000000000000 1 1\n", "9000000000000 documents are claimed"),
        (Format::Uci, "2\n100000000\n1\n1 1 1\n", "100000000 words are claimed"),
        (Format::Uci, "2\n9000000000000\n1\n1 1 1\n", "line 3: the header says there are 9000000000000 words"),
        (Format::Mtx, "%%MatrixMarket matrix array real general\n", "line 1: \"%%MatrixMarket matrix array"),
        (
            Format::Mtx,
            "%%MatrixMarket matrix coordinate integer general\n%\n1 2\n",
            "line 3: \"1 2\" is not the numbers",
        ),
        (
            Format::Mtx,
            "%%MatrixMarket matrix coordinate pattern general\n1 2 1\n1 1 1\n",
            "line 3: \"1 1 1\" is not document and word",
        ),
        (Format::Mtx, "%%MatrixMarket matrix coordinate integer general\n", "line 1: the file ends before its sizes"),
        (Format::LdaC, "1 0:1\n2 0:1\n", "line 2: the line starts with 2, but 1 words follow"),
        (Format::LdaC, "1 0:1\n1 0=1\n", "line 2: \"0=1\" is not word:count"),
        (Format::LdaC, "x\n", "line 1: \"x\" is not the number of different words"),
        (Format::LdaC, "1 0:1\n\n1 0:1\n", "line 2: the line is empty"),
        (Format::LdaC, "1 0:-2\n", "line 1: the count -2 is negative"),
        (Format::LdaC, "1 4294967295:1\n", "line 1: there is no word 4294967295"),
        (Format::LdaC, "1 100000000:1\n", "100000001 words are claimed"),
        (Format::LdaC, "", "no rows"),
        (Format::LdaC, "0\n0\n", "the 2 documents have no words"),
        (Format::Svmlight, "1 1:1\n1:1\n", "line 2: \"1:1\" is not a label"),
        (Format::Svmlight, "1 1:1\n1 2:0.5\n", "line 2: the count 0.5 is not whole"),
        (Format::Svmlight, "1 x:1\n", "line 1: \"x\" is not the number of a word"),
        (Format::Mallet, "", "0 documents"),
        (Format::Mallet, "a b\nc\n", "2 documents with 0 different words"),
        (Format::Npz, "x", "damaged"),
        (Format::Files, "\0\0", "not text"),
        (Format::Lines, "words\0", "not text: it has zero bytes; give text"),
        (Format::Lines, "PAR1\u{15}\u{4}\0", "not text but a Parquet file; export it to CSV or JSON lines"),
        (Format::Csv, "%PDF-1.7\n", "not text but a PDF document"),
        (Format::Jsonl, "\u{7f}ELF", "not text but a program"),
        (Format::Lines, "", "0 documents"),
        (Format::Lines, "the\nand\n", "2 documents with 0 different words"),
        (Format::Lines, "dog\ncat\n", "no word is left of 2: 2 are in too few documents"),
        (
            Format::Jsonl,
            "{\"text\": \"a\"}\n{\"txt\": \"a\"}\n",
            "line 2: the object has no field \"text\"; choose one of \"txt\"",
        ),
        (Format::Jsonl, "{\"text\": \"a\"}\n\nx\n", "line 3: it is no JSON object"),
        (
            Format::Csv,
            "a,b\n1,2\n",
            "line 1: there is no column \"text\"; choose a column (`column`) by name, \"a\", \"b\",",
        ),
        (Format::Csv, "text,b\n1,2\n3\n", "line 3: 1 fields where the lines before have 2"),
        (Format::Csv, "text,b\na,\"b\nc\"\n\"e,f\ng,h\n", "line 4: a quote is opened and not closed"),
        (Format::Csv, "text\nfig\n\"pear", "line 3: a quote is opened and not closed"),
        (Format::Csv, "", "0 documents"),
        (Format::Corpus, "x", "it is a file, not a corpus folder"),
    ] {
        place.write("input", text);
        let found = message(&place, "input", &BuildOptions { format: Some(format), ..Default::default() });
        assert!(found.contains(expected) && found.contains("input"), "{format:?} {text:?}: {found}");
    }
}

#[test]
fn a_vocabulary_of_another_length_is_refused() {
    let (docs_in, words) = sample();
    let place = Place::new();
    for (format, expected) in [
        (Format::Uci, "line 3: the header says there are 5 words, but the vocabulary"),
        (Format::Mtx, "line 3: the header says there are 5 words, but the vocabulary"),
        (Format::Npz, "the matrix has 5 words, but the vocabulary"),
        (Format::LdaC, "line 5: there is no word 4, the vocabulary"),
        (Format::Svmlight, "line 5: there is no word 5, the vocabulary"),
        (Format::Mallet, "line 5: \"\u{fc}zum\" is not in the vocabulary"),
    ] {
        place.write("x", encode(format, &docs_in, &words));
        let vocab = Some(place.write("v.txt", words[..4].join("\n")));
        let found = message(&place, "x", &BuildOptions { format: Some(format), vocab, ..Default::default() });
        assert!(found.contains(expected), "{format:?}: {found}");
    }
    let ids = Some(place.write("ids.txt", "a\nb\n"));
    place.write("x", encode(Format::Uci, &docs_in, &words));
    let found = message(&place, "x", &BuildOptions { ids, ..Default::default() });
    assert!(found.contains("ids.txt: 2 names for 6 documents"), "{found}");
}

#[test]
fn negative_and_broken_counts_of_a_matrix_are_named() {
    let place = Place::new();
    for value in [-1.0, 0.5, f64::INFINITY, 1e10] {
        write_csr_npz(&place.at("x.npz"), 2, 3, &[0, 1, 2], &[0, 2], &[1.0, value]).unwrap();
        let found = message(&place, "x.npz", &BuildOptions::default());
        assert!(found.contains("x.npz row 2, column 3: ") && found.contains("is not a count"), "{found}");
    }
    write_csr_npz::<f64>(&place.at("x.npz"), 1, 100_000_000, &[0, 0], &[], &[]).unwrap();
    assert!(message(&place, "x.npz", &BuildOptions::default()).contains("100000000 columns are claimed"));
}

#[test]
fn options_that_do_not_fit_are_refused() {
    let place = Place::new();
    place.write("x.txt", "dog\ndog\ncat\n");
    place.write("x.ldac", "1 0:1\n");
    place.write("x.csv", "text\ndog\n");
    let some = Some(place.write("v.txt", "dog\n"));
    let default = BuildOptions::default;
    let filter = VocabFilter { min_docs: Some(1), ..VocabFilter::default() };
    let phrases = Some(PhraseConfig::default());
    for (input, options, expected) in [
        ("x.ldac", BuildOptions { like: some.clone(), ..default() }, "like: counts have their words"),
        ("x.ldac", BuildOptions { phrases, ..default() }, "phrases: counts do not say"),
        ("x.txt", BuildOptions { like: some.clone(), vocab: some.clone(), ..default() }, "like: "),
        ("x.txt", BuildOptions { vocab: some.clone(), filter, ..default() }, "vocab: a vocabulary that is given"),
        ("x.txt", BuildOptions { like: some.clone(), phrases, ..default() }, "phrases: the other corpus"),
        ("x.txt", BuildOptions { like: some, ..default() }, "not a corpus folder"),
        ("x.txt", BuildOptions { vocab: Some(place.at("none")), ..default() }, "does not exist"),
        ("none.txt", default(), "does not exist"),
        (
            "x.csv",
            BuildOptions { text: TextOptions { delimiter: Some(b'"'), ..TextOptions::default() }, ..default() },
            "delimiter: '\"' cannot",
        ),
    ] {
        let found = message(&place, input, &options);
        assert!(found.contains(expected), "{found}");
    }
    place.write("v.txt", "unicorn\n");
    let vocab = Some(place.at("v.txt"));
    assert!(message(&place, "x.txt", &BuildOptions { vocab, ..default() }).contains("the 3 documents have no words"));
}

#[test]
fn what_is_there_stays_unless_forced() {
    let place = Place::new();
    place.write("x.ldac", "1 0:1\n");
    place.write("y.ldac", "1 0:2\n");
    let mut options = BuildOptions::default();
    place.build("x.ldac", &options, "c").unwrap();
    let before = files(&place.at("c"));
    assert!(matches!(place.build("y.ldac", &options, "c"), Err(Error::Exists { .. })));
    options.force = true;
    place.write("z.ldac", "1 0:x\n");
    assert!(place.build("z.ldac", &options, "c").is_err());
    assert_eq!(files(&place.at("c")), before);
    place.build("y.ldac", &options, "c").unwrap();
    assert_ne!(files(&place.at("c")), before);
    // Stopped half way, nothing is left either.
    let names = place.names();
    let stop = |_: &Progress| Err(Error::NoRows { name: "enough".into() });
    let stopped = build(&place.at("c"), &BuildOptions::default(), &place.at("d"), &mut { stop });
    assert!(stopped.unwrap_err().to_string().contains("enough"));
    assert_eq!(place.names(), names);
}
