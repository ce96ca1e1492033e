//! Where data is stored, and how it is read: `directory` for folders of text, `lines` for samples, `token_file` for files of
//! numbers.

pub(super) mod directory;
mod lines;
mod token_file;

use std::fs;
use std::path::{Path, PathBuf};

use super::{Error, Result, TokenFolder, Tokens};
use hal::files;
pub(crate) use lines::kind as json_kind;
pub use lines::{Chat, Pair, Sample};
pub(super) use token_file::TokenFile;
pub use token_file::TokenType;

/// The most bytes of one text. It is read into memory, where its tokens take up to four times as much.
const MOST_TEXT_BYTES: u64 = 16 << 30;

/// A source of text or tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// One file of UTF-8 text.
    TextFile(PathBuf),
    /// The text files of a folder and its subfolders, in sorted order; each file is one document.
    Directory {
        /// The folder.
        path: PathBuf,
        /// Extensions to read, without the dot.
        extensions: Vec<String>,
    },
    /// A file of samples, a JSON object per line.
    Lines(PathBuf),
    /// A file of little-endian numbers without a header, of which only the tokens in use are read.
    TokenFile {
        /// The file.
        path: PathBuf,
        /// The size of a token.
        dtype: TokenType,
    },
    /// A folder of token shards with an index, of which only the tokens in use are read.
    TokenFolder(PathBuf),
    /// Text built into the program.
    Embedded(Vec<u8>),
}

/// The content of a source.
#[derive(Debug)]
pub enum Content {
    /// Text, not yet tokenised.
    Text(Text),
    /// Samples, whose texts are not yet tokenised.
    Samples {
        /// Their origin, for messages.
        name: String,
        /// The samples, at least one.
        samples: Vec<Sample>,
    },
    /// Numbers already.
    Tokens {
        /// Their origin, for messages.
        name: String,
        /// The numbers.
        tokens: Tokens,
    },
    /// Numbers already, with the tokenizer that made them.
    Folder(Box<TokenFolder>),
}

impl Content {
    /// Its origin, for messages.
    pub fn name(&self) -> String {
        match self {
            Content::Text(text) => text.name.clone(),
            Content::Samples { name, .. } | Content::Tokens { name, .. } => name.clone(),
            Content::Folder(folder) => folder.name(),
        }
    }
}

/// The text of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    /// Its origin, for messages.
    pub name: String,
    /// One entry per file.
    pub documents: Vec<String>,
    /// Files that were left out because they were not UTF-8.
    pub num_skipped: usize,
}

impl Source {
    /// Detects the kind of source from `path`.
    ///
    /// A folder is a [`Source::TokenFolder`] if it holds the index of one, otherwise a [`Source::Directory`] over `extensions`. A file is a [`Source::TokenFile`] when `dtype` is given
    /// or its extension is `u16` or `u32`, [`Source::Lines`] when that is `jsonl`, and text otherwise.
    ///
    /// # Errors
    /// [`Error::Missing`] if the path does not exist; [`Error::Io`] if the system refuses;
    /// [`Error::TokenTypeUnknown`] for a `.bin` file without `dtype`.
    pub fn detect(path: &Path, extensions: &[String], dtype: Option<TokenType>) -> Result<Source> {
        let metadata = fs::metadata(path).map_err(|error| Error::io("reading", path, error))?;
        let path = path.to_path_buf();
        if metadata.is_dir() && TokenFolder::is_at(&path) {
            return Ok(Source::TokenFolder(path));
        }
        if metadata.is_dir() {
            return Ok(Source::Directory {
                path,
                extensions: extensions.to_vec(),
            });
        }
        files::check(&metadata).map_err(|error| Error::io("reading", &path, error))?;
        match dtype.or_else(|| TokenType::of_extension(&path)) {
            Some(dtype) => Ok(Source::TokenFile { path, dtype }),
            None => match path.extension().and_then(|extension| extension.to_str()) {
                Some("bin") => Err(Error::TokenTypeUnknown { path }),
                Some("jsonl") => Ok(Source::Lines(path)),
                _ => Ok(Source::TextFile(path)),
            },
        }
    }

    /// The name of this source in messages.
    pub fn name(&self) -> String {
        match self {
            Source::TextFile(path)
            | Source::Lines(path)
            | Source::TokenFolder(path)
            | Source::Directory { path, .. }
            | Source::TokenFile { path, .. } => path.display().to_string(),
            Source::Embedded(_) => "the embedded text".to_owned(),
        }
    }

    /// Reads the text or the samples, or opens the token file.
    ///
    /// # Errors
    /// [`Error::Line`] for a line that is no sample;
    /// [`Error::Missing`] if the path does not exist; [`Error::Empty`] for a file without content; [`Error::NoFiles`] for a
    /// folder without text; [`Error::InvalidUtf8`] (in a folder such files are counted and left out);
    /// [`Error::OddLength`] for a token file that ends within a token; those of [`TokenFolder::open`] and, for a folder of
    /// fewer than 2^27 tokens, of [`TokenFolder::verify`]; [`Error::Io`] if the system refuses.
    pub fn read(&self) -> Result<Content> {
        match self {
            Source::TextFile(path) => {
                let bytes = files::read(path, MOST_TEXT_BYTES)
                    .map_err(|error| Error::io("reading", path, error))?;
                self.single_text(bytes)
            }
            Source::Directory { path, extensions } => {
                directory::read(path, extensions).map(Content::Text)
            }
            Source::Lines(path) => Ok(Content::Samples {
                name: self.name(),
                samples: lines::read(path)?,
            }),
            Source::TokenFile { path, dtype } => Ok(Content::Tokens {
                name: self.name(),
                tokens: Tokens::from_file(TokenFile::open(path, *dtype)?),
            }),
            Source::TokenFolder(path) => {
                let folder = TokenFolder::open(path)?;
                folder.verify_small()?;
                Ok(Content::Folder(Box::new(folder)))
            }
            Source::Embedded(bytes) => self.single_text(bytes.clone()),
        }
    }

    /// A source of one document.
    fn single_text(&self, bytes: Vec<u8>) -> Result<Content> {
        let name = self.name();
        if bytes.is_empty() {
            return Err(Error::Empty { name });
        }
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Content::Text(Text {
                name,
                documents: vec![text],
                num_skipped: 0,
            })),
            Err(error) => Err(Error::InvalidUtf8 {
                name,
                position: error.utf8_error().valid_up_to(),
            }),
        }
    }
}

/// The text of a file of at most `most` bytes.
///
/// # Errors
/// [`Error::Missing`]; [`Error::Io`] if the system refuses, and for more bytes; [`Error::InvalidUtf8`].
pub(crate) fn text(path: &Path, most: u64) -> Result<String> {
    let bytes = files::read(path, most).map_err(|error| Error::io("reading", path, error))?;
    String::from_utf8(bytes).map_err(|error| Error::InvalidUtf8 {
        name: path.display().to_string(),
        position: error.utf8_error().valid_up_to(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentence(source: Source) -> String {
        source.read().unwrap_err().to_string()
    }

    #[test]
    fn kinds_are_told_by_the_path() {
        let folder = tempfile::tempdir().unwrap();
        let detect = |name: &str, dtype| {
            let path = folder.path().join(name);
            fs::write(&path, "text").unwrap();
            Source::detect(&path, &[], dtype)
        };
        assert!(matches!(detect("a.txt", None), Ok(Source::TextFile(_))));
        assert!(matches!(detect("a.jsonl", None), Ok(Source::Lines(_))));
        assert!(matches!(
            detect("a.u16", None),
            Ok(Source::TokenFile {
                dtype: TokenType::U16,
                ..
            })
        ));
        assert!(matches!(
            detect("a.u32", None),
            Ok(Source::TokenFile {
                dtype: TokenType::U32,
                ..
            })
        ));
        let wide = Some(TokenType::U32);
        assert!(matches!(
            detect("a.bin", wide),
            Ok(Source::TokenFile {
                dtype: TokenType::U32,
                ..
            })
        ));
        let error = detect("a.bin", None).unwrap_err().to_string();
        assert!(
            error.ends_with("for ids of GPT-2's tokenizer add --set data.tokenizer.ids=50257 too"),
            "{error}"
        );
        let found = Source::detect(folder.path(), &["rs".into()], None).unwrap();
        assert_eq!(
            found,
            Source::Directory {
                path: folder.path().to_path_buf(),
                extensions: vec!["rs".into()]
            }
        );
        let error = Source::detect(&folder.path().join("gone"), &[], None)
            .unwrap_err()
            .to_string();
        assert!(error.ends_with("gone does not exist"), "{error}");
    }

    #[test]
    fn a_device_is_no_data() {
        let device = Path::new("/dev/zero");
        let detected = Source::detect(device, &[], Some(TokenType::U16)).map(drop);
        let read = Source::TextFile(device.into()).read().map(drop);
        let open = TokenFile::open(device, TokenType::U16).map(drop);
        for refused in [detected, read, open] {
            let sentence = refused.unwrap_err().to_string();
            let needed = "/dev/zero: found a device, needs a regular file";
            assert!(sentence.ends_with(needed), "{sentence}");
        }
    }

    #[test]
    fn faults_are_named() {
        assert_eq!(
            sentence(Source::Embedded(Vec::new())),
            "data: the embedded text is empty"
        );
        assert_eq!(
            sentence(Source::Embedded(vec![b'a', b'b', 0xff])),
            "data: the embedded text is not UTF-8 at byte 2"
        );
        assert_eq!(
            sentence(Source::TextFile("gone.txt".into())),
            "data: gone.txt does not exist"
        );
    }

    #[test]
    fn one_file_is_one_document() {
        let Content::Text(text) = Source::Embedded(b"two\nlines".to_vec()).read().unwrap() else {
            panic!("bug: text expected")
        };
        assert_eq!(
            (text.documents, text.num_skipped),
            (vec!["two\nlines".to_owned()], 0)
        );
    }
}
