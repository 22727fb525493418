//! A corpus: documents as counts of words, served as sparse rows.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crate::data::{Element, RowSource, Rows, Scalar, check_read, check_size};
use crate::error::{Error, Result};

use crate::corpus::folder::array::ArrayFile;
use crate::corpus::folder::meta::Meta;
use crate::corpus::folder::metadata::Metadata;
use crate::corpus::folder::store::{Store, check_words};
use crate::corpus::text::lines::Lines;
use crate::corpus::text::tokenizer::TokenizerConfig;
use crate::corpus::text::vocab::Vocab;
use crate::corpus::{COUNTS, IDS, INDPTR, META, VOCAB, WORDS};

/// Counts up to here are exact in 32 bits.
const EXACT_F32: f64 = (1 << 24) as f64;

/// Documents as counts of words.
///
/// On disk it is a folder; only where documents start and the vocabulary are held in memory. As a [`RowSource`] it
/// has a row a document and a column a word.
#[derive(Debug)]
pub struct Corpus {
    name: String,
    folder: Option<PathBuf>,
    /// Where each document starts among the entries, and where the last one ends.
    indptr: Vec<usize>,
    store: Store,
    vocab: Arc<Vocab>,
    ids: OnceLock<Lines>,
    num_tokens: u64,
    max_count: f64,
    tokenizer: Option<TokenizerConfig>,
}

impl Corpus {
    /// Open a corpus folder.
    ///
    /// `ids.txt` and `corpus.json` may be missing, so that a folder can be written from NumPy; documents are then
    /// called by number, and nothing is known of how text becomes words.
    pub fn open(folder: &Path) -> Result<Self> {
        let at = |name: &str| folder.join(name);
        let name = folder.display().to_string();
        if !folder.is_dir() {
            return Err(match fs::metadata(folder) {
                Ok(_) => malformed(folder, "it is a file, not a corpus folder".to_owned()),
                Err(_) => Error::NotFound { path: folder.to_owned() },
            });
        }
        if !Corpus::is_corpus(folder) {
            return Err(malformed(folder, format!("the folder has no {INDPTR}, so it is no corpus")));
        }
        let indptr = read_indptr(&at(INDPTR))?;
        let store = Store::open(&at(WORDS), &at(COUNTS))?;
        let (vocab, _) = Vocab::read(&at(VOCAB), false)?;
        let num_docs = indptr.len() - 1;
        check_size(&name, num_docs, vocab.len())?;
        if indptr[num_docs] != store.len() {
            let detail = format!("the documents have {} entries, {WORDS} has {}", indptr[num_docs], store.len());
            return Err(malformed(folder, detail));
        }
        let meta = Meta::read(&at(META))?;
        if let Some(meta) = &meta {
            for (what, said, found) in [
                ("documents", meta.documents, num_docs),
                ("words", meta.vocabulary, vocab.len()),
                ("entries", meta.entries, store.len()),
            ] {
                if said != found {
                    return Err(malformed(folder, format!("{META} says {said} {what}, there are {found}")));
                }
            }
        }
        let (num_tokens, max_count) = match &meta {
            Some(meta) => (meta.tokens, f64::from(meta.max_count)),
            None => store.totals()?,
        };
        Ok(Corpus {
            name,
            folder: Some(folder.to_owned()),
            indptr,
            store,
            vocab: Arc::new(vocab),
            ids: OnceLock::new(),
            num_tokens,
            max_count,
            tokenizer: meta.and_then(|meta| meta.tokenizer),
        })
    }

    /// Whether a folder looks like a corpus.
    pub fn is_corpus(folder: &Path) -> bool {
        folder.join(INDPTR).is_file()
    }

    /// A corpus in memory: document `d` has word `words[j]` `counts[j]` times, for `j` in
    /// `indptr[d]..indptr[d + 1]`, words ascending. `name` is for messages; without `ids` documents are called by
    /// number, from 1.
    pub fn from_parts(
        name: impl Into<String>,
        indptr: Vec<usize>,
        words: Vec<u32>,
        counts: Vec<u32>,
        vocab: Arc<Vocab>,
        ids: Option<Lines>,
    ) -> Result<Self> {
        let name = name.into();
        let num_docs = indptr.len().saturating_sub(1);
        check_size(&name, num_docs, vocab.len())?;
        check_indptr(Path::new(&name), &indptr)?;
        if words.len() != counts.len() || indptr[num_docs] != words.len() {
            let detail = format!("{} words, {} counts, {} entries", words.len(), counts.len(), indptr[num_docs]);
            return Err(malformed(Path::new(&name), detail));
        }
        for (doc, pair) in indptr.windows(2).enumerate() {
            check_words(&name, doc, &words[pair[0]..pair[1]], vocab.len())?;
        }
        let ids = ids.unwrap_or_else(|| Lines::numbered(num_docs));
        check_ids(Path::new(&name), ids.len(), num_docs)?;
        let store = Store::Memory { words, counts };
        let (num_tokens, max_count) = store.totals()?;
        let ids = OnceLock::from(ids);
        Ok(Corpus { name, folder: None, indptr, store, vocab, ids, num_tokens, max_count, tokenizer: None })
    }

    /// The same corpus with a note of how text becomes its words.
    pub fn with_tokenizer(mut self, tokenizer: TokenizerConfig) -> Self {
        self.tokenizer = Some(tokenizer);
        self
    }

    /// Documents there are.
    pub fn num_docs(&self) -> usize {
        self.indptr.len() - 1
    }

    /// Pairs of a document and a word that is in it.
    pub fn num_entries(&self) -> usize {
        self.store.len()
    }

    /// Different words of a document.
    ///
    /// # Panics
    /// If there is no such document.
    pub fn num_types(&self, doc: usize) -> usize {
        self.indptr[doc + 1] - self.indptr[doc]
    }

    /// Words of all documents, each as often as it is there.
    pub fn num_tokens(&self) -> u64 {
        self.num_tokens
    }

    /// The words.
    pub fn vocab(&self) -> &Arc<Vocab> {
        &self.vocab
    }

    /// How text becomes words, if that is known.
    pub fn tokenizer(&self) -> Option<&TokenizerConfig> {
        self.tokenizer.as_ref()
    }

    /// The names of all documents; read from disk when they are first asked for.
    pub fn ids(&self) -> Result<&Lines> {
        if let Some(ids) = self.ids.get() {
            return Ok(ids);
        }
        let path = self.folder.as_ref().map(|folder| folder.join(IDS)).filter(|path| path.exists());
        let ids = match path {
            Some(path) => {
                let ids = Lines::read(&path)?;
                check_ids(&path, ids.len(), self.num_docs())?;
                ids
            }
            None => Lines::numbered(self.num_docs()),
        };
        Ok(self.ids.get_or_init(|| ids))
    }

    /// The name of a document.
    pub fn id(&self, doc: usize) -> Result<&str> {
        self.ids()?.get(doc).ok_or_else(|| Error::PastEnd {
            name: self.name.clone(),
            end: doc.saturating_add(1),
            num_rows: self.num_docs(),
        })
    }

    /// The number of the first document with a name.
    pub fn find(&self, id: &str) -> Result<Option<usize>> {
        Ok(self.ids()?.iter().position(|found| found == id))
    }

    fn append<T: Scalar>(&self, start: usize, count: usize, out: &mut Rows<T>) -> Result<()> {
        check_read(self, start, count, out)?;
        self.store.read(&self.name, start, &self.indptr[start..=start + count], out)
    }
}

impl Corpus {
    /// What is known of the documents besides their words; none where nothing was kept.
    pub fn metadata(&self) -> Result<Option<Metadata>> {
        self.folder.as_ref().map_or(Ok(None), |folder| Metadata::read(folder, self.num_docs()))
    }
}

impl RowSource for Corpus {
    fn name(&self) -> &str {
        &self.name
    }

    fn num_rows(&self) -> usize {
        self.num_docs()
    }

    fn dim(&self) -> usize {
        self.vocab.len()
    }

    fn element(&self) -> Element {
        if self.max_count <= EXACT_F32 { Element::F32 } else { Element::F64 }
    }

    fn is_sparse(&self) -> bool {
        true
    }

    fn num_entries(&self) -> Option<usize> {
        Some(self.store.len())
    }

    fn column_name(&self, column: usize) -> Option<&str> {
        self.vocab.words().get(column).map(String::as_str)
    }

    fn row_name(&self, row: usize) -> Option<String> {
        self.id(row).ok().map(str::to_owned)
    }

    fn read_f32(&self, start: usize, count: usize, out: &mut Rows<f32>) -> Result<()> {
        self.append(start, count, out)
    }

    fn read_f64(&self, start: usize, count: usize, out: &mut Rows<f64>) -> Result<()> {
        self.append(start, count, out)
    }
}

fn malformed(path: &Path, detail: String) -> Error {
    let remedy = "build the corpus with `build-corpus`".to_owned();
    Error::Format { path: path.to_owned(), detail, remedy }
}

fn check_ids(path: &Path, found: usize, num_docs: usize) -> Result<()> {
    if found == num_docs {
        return Ok(());
    }
    Err(malformed(path, format!("{found} names for {num_docs} documents")))
}

/// Starts of documents begin at zero and do not descend; there is at least one document.
fn check_indptr(path: &Path, indptr: &[usize]) -> Result<()> {
    if indptr.len() < 2 {
        return Err(Error::NoRows { name: path.display().to_string() });
    }
    if indptr[0] != 0 {
        return Err(malformed(path, format!("the first document starts at entry {}, not 0", indptr[0])));
    }
    match indptr.windows(2).position(|pair| pair[0] > pair[1]) {
        Some(doc) => Err(malformed(path, format!("document {} ends before it starts", doc + 1))),
        None => Ok(()),
    }
}

fn read_indptr(path: &Path) -> Result<Vec<usize>> {
    let file = ArrayFile::open(path)?;
    file.check_integers()?;
    // The file is at least as long as what is kept of it.
    let mut indptr = Vec::with_capacity(file.len());
    let (mut bytes, mut values) = (Vec::new(), Vec::new());
    while indptr.len() < file.len() {
        let count = (file.len() - indptr.len()).min(1 << 16);
        file.read(indptr.len(), count, &mut bytes)?;
        values.clear();
        file.dtype().decode_integers(&bytes, &mut values);
        for &value in &values {
            let value = usize::try_from(value);
            indptr.push(value.map_err(|_| malformed(path, "a document starts at a negative place".to_owned()))?);
        }
    }
    check_indptr(path, &indptr)?;
    Ok(indptr)
}
