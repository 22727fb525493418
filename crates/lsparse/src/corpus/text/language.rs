//! Stop words and stemming by the name of a language.

use std::path::Path;

use rust_stemmers::Algorithm;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

use crate::corpus::text::text_file::{TextFile, decode};

/// Words that are left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StopWords {
    /// None.
    None,
    /// Those of a language, given by name or by code: "english" or "en".
    Language(String),
    /// These.
    Words(Vec<String>),
}

impl StopWords {
    /// Read a file of words parted by blanks or lines; lines that start with `#` are passed over.
    pub fn read(path: &Path) -> Result<Self> {
        let mut file = TextFile::open(path)?;
        let mut words = Vec::new();
        while let Some(line) = file.next_line()? {
            if !line.starts_with(b"#") {
                words.extend(decode(line.to_vec()).0.split_whitespace().map(str::to_owned));
            }
        }
        Ok(StopWords::Words(words))
    }

    /// The words themselves, in lower case.
    pub fn words(&self) -> Result<Vec<String>> {
        match self {
            StopWords::None => Ok(Vec::new()),
            StopWords::Words(words) => Ok(words.iter().map(|word| word.to_lowercase()).collect()),
            StopWords::Language(name) => {
                let code = language_code(name);
                let words = stop_words::lookup(&code).ok_or_else(|| Error::Config {
                    setting: "stop-words",
                    problem: format!("no list of stop words is known for {name:?}"),
                    remedy: format!("give a file of words, none, or one of {}", stop_languages().join(", ")),
                })?;
                let more = if code == "en" { MORE_ENGLISH } else { "" };
                Ok(words.iter().copied().chain(more.split_whitespace()).map(str::to_lowercase).collect())
            }
        }
    }
}

/// The languages that stop words are known for.
pub fn stop_languages() -> Vec<&'static str> {
    let known = stop_words::available_languages();
    LANGUAGES.iter().filter(|(_, code)| known.contains(code)).map(|(name, _)| *name).collect()
}

/// The languages that words can be stemmed in.
pub fn stem_languages() -> Vec<&'static str> {
    STEMMERS.iter().map(|(name, _)| *name).collect()
}

/// The stemmer of a language, given by name or by code.
pub(in crate::corpus) fn stemmer(name: &str) -> Result<Algorithm> {
    let code = language_code(name);
    let found = STEMMERS.iter().find(|(language, _)| language_code(language) == code);
    found.map(|(_, algorithm)| *algorithm).ok_or_else(|| Error::Config {
        setting: "stem",
        problem: format!("no stemmer is known for {name:?}"),
        remedy: format!("choose one of {}", stem_languages().join(", ")),
    })
}

/// The code of a language that is given by name; what is not known stays as it is.
fn language_code(name: &str) -> String {
    let name = name.trim().to_lowercase();
    LANGUAGES.iter().find(|(language, _)| *language == name).map_or(name, |(_, code)| (*code).to_owned())
}

/// Names and ISO 639-1 codes.
const LANGUAGES: &[(&str, &str)] = &[
    ("afrikaans", "af"),
    ("albanian", "sq"),
    ("arabic", "ar"),
    ("armenian", "hy"),
    ("azerbaijani", "az"),
    ("basque", "eu"),
    ("belarusian", "be"),
    ("bengali", "bn"),
    ("breton", "br"),
    ("bulgarian", "bg"),
    ("catalan", "ca"),
    ("chinese", "zh"),
    ("croatian", "hr"),
    ("czech", "cs"),
    ("danish", "da"),
    ("dutch", "nl"),
    ("english", "en"),
    ("esperanto", "eo"),
    ("estonian", "et"),
    ("finnish", "fi"),
    ("french", "fr"),
    ("galician", "gl"),
    ("german", "de"),
    ("greek", "el"),
    ("gujarati", "gu"),
    ("hausa", "ha"),
    ("hebrew", "he"),
    ("hindi", "hi"),
    ("hungarian", "hu"),
    ("indonesian", "id"),
    ("irish", "ga"),
    ("italian", "it"),
    ("japanese", "ja"),
    ("kazakh", "kk"),
    ("korean", "ko"),
    ("kurdish", "ku"),
    ("latin", "la"),
    ("latvian", "lv"),
    ("lithuanian", "lt"),
    ("malay", "ms"),
    ("marathi", "mr"),
    ("nepali", "ne"),
    ("norwegian", "no"),
    ("persian", "fa"),
    ("polish", "pl"),
    ("portuguese", "pt"),
    ("romanian", "ro"),
    ("russian", "ru"),
    ("slovak", "sk"),
    ("slovenian", "sl"),
    ("somali", "so"),
    ("sotho", "st"),
    ("spanish", "es"),
    ("swahili", "sw"),
    ("swedish", "sv"),
    ("tagalog", "tl"),
    ("tajik", "tg"),
    ("tamil", "ta"),
    ("thai", "th"),
    ("turkish", "tr"),
    ("ukrainian", "uk"),
    ("urdu", "ur"),
    ("uzbek", "uz"),
    ("vietnamese", "vi"),
    ("yoruba", "yo"),
    ("zulu", "zu"),
];

const STEMMERS: &[(&str, Algorithm)] = &[
    ("arabic", Algorithm::Arabic),
    ("danish", Algorithm::Danish),
    ("dutch", Algorithm::Dutch),
    ("english", Algorithm::English),
    ("finnish", Algorithm::Finnish),
    ("french", Algorithm::French),
    ("german", Algorithm::German),
    ("greek", Algorithm::Greek),
    ("hungarian", Algorithm::Hungarian),
    ("italian", Algorithm::Italian),
    ("norwegian", Algorithm::Norwegian),
    ("portuguese", Algorithm::Portuguese),
    ("romanian", Algorithm::Romanian),
    ("russian", Algorithm::Russian),
    ("spanish", Algorithm::Spanish),
    ("swedish", Algorithm::Swedish),
    ("tamil", Algorithm::Tamil),
    ("turkish", Algorithm::Turkish),
];

/// The English list is one of pronouns, articles and the like; these say as little about a theme.
const MORE_ENGLISH: &str = "\
also although always among another anyone anything around away became become becomes besides beyond came cannot could \
either else enough etc even ever every everyone everything far get gets getting give given go goes going gone got \
however indeed instead let like made make makes making many may maybe might much must near neither never none nothing \
often one ones onto others otherwise perhaps put quite rather really said say says see seem seemed seems seen several \
shall since someone something sometimes still take taken tell thing things though thus together took toward towards \
two unless upon us use used uses using usually various via want wants well went whatever whether whose within without \
would yes yet";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn languages_have_names_and_codes() {
        for name in ["english", "en", " English "] {
            let words = StopWords::Language(name.into()).words().unwrap();
            assert!(words.iter().any(|word| word == "the") && words.iter().any(|word| word == "would"));
        }
        let german = StopWords::Language("german".into()).words().unwrap();
        assert!(german.contains(&"und".to_owned()) && !german.contains(&"would".to_owned()));
        assert_eq!(StopWords::Words(vec!["Foo".into()]).words().unwrap(), ["foo"]);
        assert!(StopWords::None.words().unwrap().is_empty());
        assert!(stop_languages().len() > 60 && stop_languages().contains(&"english"));
        for language in stem_languages() {
            assert!(stemmer(language).is_ok() && stemmer(&language_code(language)).is_ok());
        }
    }

    #[test]
    fn files_of_words_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stop.txt");
        std::fs::write(&path, "# mine\nFoo bar\n\n  baz\n").unwrap();
        assert_eq!(StopWords::read(&path).unwrap().words().unwrap(), ["foo", "bar", "baz"]);
    }

    #[test]
    fn unknown_languages_are_refused() {
        let error = StopWords::Language("klingon".into()).words().unwrap_err().to_string();
        assert!(error.contains("klingon") && error.contains("english"), "{error}");
        assert!(stemmer("japanese").unwrap_err().to_string().contains("choose one of arabic"));
    }
}
