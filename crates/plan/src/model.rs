//! The model to plan for: by name, of a configuration, or of another program.

use crate::{Error, Result};
use std::path::Path;
use train::{
    Config, Families,
    foreign::{CONFIG_FILE, model_at},
};

/// Vocabulary size if a configuration leaves it to the tokenizer: that of the byte tokenizer.
const BYTES: usize = 256;

/// Finds the model with this name (`gpt-40b`, `40B`), of this configuration file, or of a `config.json` that the library
/// transformers has written, with or without weights beside it; returns it with its name, in a configuration that says which of its
/// parameters are trained.
///
/// # Errors
/// [`Error::UnknownModel`] with the known names; [`Error::Train`] for a file that cannot be read or is not a
/// configuration.
pub fn find(name_or_path: &str, families: &Families) -> Result<(String, Config)> {
    if let Some(model) = families.model(name_or_path) {
        return Ok((name_or_path.to_ascii_lowercase(), Config::new(model)));
    }
    let path = Path::new(name_or_path);
    if !path.exists() {
        return Err(Error::UnknownModel {
            found: name_or_path.into(),
            known: families.models(),
        });
    }
    let mut config = match is_foreign(path) {
        true => Config::new(model_at(path, families)?),
        false => Config::read(path, families)?,
    };
    // The vocabulary depends on the data; bytes are assumed unless the file states a size.
    let model = &config.model;
    let open = model.text().is_some_and(|text| text.vocabulary == 0);
    if let Some(sized) = model.with_vocabulary(BYTES).filter(|_| open) {
        config.model = sized;
    }
    Ok((path.display().to_string(), config))
}

/// Whether [`find`] reads a configuration there, which also states how its model is trained: not a named model, nor one of another library.
pub fn is_configuration(name_or_path: &str, families: &Families) -> bool {
    families.model(name_or_path).is_none() && !is_foreign(Path::new(name_or_path))
}

fn is_foreign(path: &Path) -> bool {
    path.is_dir() || path.file_name().is_some_and(|name| name == CONFIG_FILE)
}
