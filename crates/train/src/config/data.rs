//! The section `[data]`.

use super::check_path;
use crate::{
    Error, Result,
    data::{self, LossOn, Mixture, OrderMode, TokenType, TokenizerChoice},
};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

crate::section! {
    /// Where the data comes from.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct DataConfig {
        /// A text file, a folder of text files, a folder or a file of tokens, or a file of samples, `.jsonl`; absent: the Rust
        /// sources around this program. A relative path begins at the folder in which the run is started.
        pub path: Option<PathBuf>,
        /// Several sources instead of one path, of text or of tokens. Each gives a share of the sequences that is its weight over
        /// the sum of all; its windows are always drawn by epochs.
        pub mixture: Vec<MixtureEntry>,
        /// The data to validate on, of the same kind; absent: the end of the other.
        pub validation_path: Option<PathBuf>,
        /// More data of the same kind, each with a name, on which each validation states a loss of its own. It counts neither in
        /// the validation loss nor in what follows from that.
        pub evaluations: Vec<EvaluationEntry>,
        /// Extensions of the files that are read in a folder.
        pub extensions: Vec<String>,
        /// How text becomes tokens. A folder of tokens brings its own, for which the default stands.
        pub tokenizer: TokenizerChoice,
        /// Element type of a file of token ids; absent: by its extension, `.u16` or `.u32`.
        pub token_type: Option<TokenType>,
        /// Fraction of the data, at its end, that is kept for validation.
        pub validation_fraction: f64,
        /// How training sequences are drawn: anywhere, or window by window in each epoch. Samples and mixtures are always
        /// drawn by epochs.
        pub order: OrderMode,
        /// How the messages of a chat become text: a template in Jinja's language, `.jinja`, or a `tokenizer_config.json`; absent:
        /// the template that lies beside the tokenizer's file.
        pub chat_template: Option<PathBuf>,
        /// The tokens of samples that count in the loss: completions and what an assistant has written, or all.
        pub loss_on: LossOn,
    }
}

impl Default for DataConfig {
    fn default() -> Self {
        DataConfig {
            path: None,
            mixture: Vec::new(),
            validation_path: None,
            evaluations: Vec::new(),
            extensions: vec!["rs".into(), "txt".into(), "md".into()],
            tokenizer: TokenizerChoice::Bytes,
            token_type: None,
            validation_fraction: 0.1,
            order: OrderMode::Random,
            chat_template: None,
            loss_on: LossOn::Answers,
        }
    }
}

/// One source of a mixture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MixtureEntry {
    /// As [`DataConfig::path`].
    pub path: PathBuf,
    /// Its share of the sequences, beside the weights of the others.
    pub weight: f64,
}

/// Data that is only watched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvaluationEntry {
    /// Its name in the records.
    pub name: String,
    /// As [`DataConfig::validation_path`].
    pub path: PathBuf,
}

impl DataConfig {
    /// What is wrong with the paths and weights.
    ///
    /// # Errors
    /// [`Error::Setting`] for an empty path or name, for a fraction that leaves a part without data, for a path beside a mixture, and
    /// for weights that a mixture cannot have.
    pub fn check(&self) -> Result<()> {
        check_path("data.path", self.path.as_deref())?;
        check_path("data.validation_path", self.validation_path.as_deref())?;
        for entry in &self.evaluations {
            check_path("data.evaluations", Some(&entry.path))?;
            if entry.name.trim().is_empty() {
                let found = format!("an empty name for {}", entry.path.display());
                return Err(Error::setting("data.evaluations", found, "a name"));
            }
        }
        let fraction = self.validation_fraction;
        if self.validation_path.is_none() && !(fraction > 0.0 && fraction < 1.0) {
            let needed = "a number above 0 and below 1";
            return Err(Error::setting("data.validation_fraction", fraction, needed));
        }
        if self.mixture.is_empty() {
            return Ok(());
        }
        if let Some(path) = &self.path {
            let found = format!("{}, beside data.mixture", path.display());
            return Err(Error::setting("data.path", found, "one of the two"));
        }
        for entry in &self.mixture {
            check_path("data.mixture", Some(&entry.path))?;
        }
        let weights: Vec<f64> = self.mixture.iter().map(|entry| entry.weight).collect();
        match Mixture::check_weights(&weights) {
            Ok(()) => Ok(()),
            Err(data::Error::Bound { found, needed, .. }) => {
                Err(Error::setting("data.mixture", found, needed))
            }
            Err(other) => Err(other.into()),
        }
    }
}
