//! The position of a mistake in a configuration.

use std::{fmt, path::PathBuf};

/// The position of a mistake in a configuration, as far as it is known. Displayed as `run.toml: line 3: `.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigLocation {
    /// The file, unless the text came from elsewhere.
    pub file: Option<PathBuf>,
    /// The line, counted from 1.
    pub line: Option<usize>,
}

impl fmt::Display for ConfigLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}: ", file.display())?;
        }
        match self.line {
            Some(line) => write!(f, "line {line}: "),
            None => Ok(()),
        }
    }
}
