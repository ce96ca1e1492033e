//! The token with which a document ends.

use serde::{Deserialize, Serialize};
use train::config::KeyType;

/// The token with which a document ends, if a sequence holds several documents. Written as the token's id, or as `none`.
///
/// An absent key and `none` are one choice, but only a value that is written can be compared when a run resumes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct DocumentEnd(pub Option<u32>);

#[derive(Serialize, Deserialize)]
#[serde(untagged, expecting = "expected the id of a token, or \"none\"")]
enum Written {
    Token(u32),
    Word(String),
}

impl TryFrom<Written> for DocumentEnd {
    type Error = String;

    fn try_from(written: Written) -> Result<DocumentEnd, String> {
        match written {
            Written::Token(id) => Ok(DocumentEnd(Some(id))),
            Written::Word(word) if word == "none" => Ok(DocumentEnd(None)),
            Written::Word(word) => Err(format!(
                "found \"{word}\", expected the id of a token, or \"none\""
            )),
        }
    }
}

impl From<DocumentEnd> for Written {
    fn from(end: DocumentEnd) -> Written {
        match end.0 {
            Some(id) => Written::Token(id),
            None => Written::Word("none".to_owned()),
        }
    }
}

impl KeyType for DocumentEnd {
    fn values() -> String {
        "`none`, or the id of a token".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GptConfig;
    use train::Architecture;

    fn read(text: &str) -> Result<GptConfig, String> {
        toml::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn an_id_or_none_is_read_and_written() {
        for (text, end) in [
            ("", None),
            ("document_end = \"none\"", None),
            ("document_end = 0", Some(0)),
        ] {
            let config = read(text).unwrap();
            assert_eq!(config.document_end, DocumentEnd(end));
            // Also the default is a value, so that a resumed run is compared with it.
            let written = config.table().unwrap().to_string();
            assert!(written.contains("document_end"), "{written}");
            assert_eq!(read(&written).unwrap(), config);
        }
        for text in ["-1", "\"<|endoftext|>\"", "0.5", "true"] {
            let error = read(&format!("document_end = {text}")).unwrap_err();
            let needed = "expected the id of a token, or \"none\"";
            assert!(error.contains(needed), "{error}");
        }
    }

    #[test]
    fn a_document_ends_with_a_token_of_the_vocabulary() {
        let mut config = GptConfig {
            vocabulary: 37,
            ..GptConfig::default()
        };
        assert!(!config.describe().contains("documents"));
        config.document_end = DocumentEnd(Some(36));
        config.check().unwrap();
        let found = config.describe();
        assert!(
            found.ends_with("documents that end with token 36"),
            "{found}"
        );
        config.document_end = DocumentEnd(Some(37));
        let error = config.check().unwrap_err().to_string();
        let needed = "`none`, or a token below vocabulary = 37";
        assert!(
            error.contains("model.document_end") && error.contains(needed),
            "{error}"
        );
    }
}
