//! The model to plan for: by name, or from a configuration.

use crate::{Error, Result};
use std::path::Path;
use train::{Config, Families, ModelConfig};

/// Tokens of a vocabulary that a configuration leaves to the tokenizer: those of bytes.
const BYTES: usize = 256;

/// The model of that name (`gpt-40b`, `40B`), or of that configuration file; with its name.
///
/// # Errors
/// [`Error::Request`] with the known names; those of a file that is no configuration.
pub fn find(name_or_path: &str, families: &Families) -> Result<(String, ModelConfig)> {
    if let Some(model) = families.model(name_or_path) {
        return Ok((name_or_path.to_ascii_lowercase(), model));
    }
    let path = Path::new(name_or_path);
    if !path.exists() {
        let known = families.models().join(", ");
        return Err(Error::Request(format!(
            "model `{name_or_path}`: no such file, and none of {known}"
        )));
    }
    let model = Config::read(path, families)?.model;
    // Which vocabulary it is depends on the data; bytes unless the file says otherwise.
    let open = model.text().is_some_and(|text| text.vocabulary == 0);
    let sized = model.with_vocabulary(BYTES).filter(|_| open);
    Ok((path.display().to_string(), sized.unwrap_or(model)))
}
