//! The model to plan for, by name or from a configuration.

use crate::{Error, Result};
use std::path::Path;
use train::{Config, Families, ModelConfig};

/// Vocabulary size if a configuration leaves it to the tokenizer: that of the byte tokenizer.
const BYTES: usize = 256;

/// Finds the model with this name (`gpt-40b`, `40B`) or of this configuration file; returns it with its name.
///
/// # Errors
/// [`Error::UnknownModel`] with the known names; [`Error::Train`] for a file that cannot be read or is not a
/// configuration.
pub fn find(name_or_path: &str, families: &Families) -> Result<(String, ModelConfig)> {
    if let Some(model) = families.model(name_or_path) {
        return Ok((name_or_path.to_ascii_lowercase(), model));
    }
    let path = Path::new(name_or_path);
    if !path.exists() {
        return Err(Error::UnknownModel {
            found: name_or_path.into(),
            known: families.models(),
        });
    }
    let model = Config::read(path, families)?.model;
    // The vocabulary depends on the data; bytes are assumed unless the file states a size.
    let open = model.text().is_some_and(|text| text.vocabulary == 0);
    let sized = model.with_vocabulary(BYTES).filter(|_| open);
    Ok((path.display().to_string(), sized.unwrap_or(model)))
}
