//! Replaces `plot` in a build without the feature `plots`.

use std::path::Path;

use super::{Record, Result};

/// Holds nothing: this build lacks the feature `plots`.
#[derive(Clone, Debug, Default)]
pub struct Losses;

impl Losses {
    /// Adds nothing.
    pub fn add(&mut self, _record: &Record) {}

    /// Writes nothing.
    ///
    /// # Errors
    /// None.
    pub fn plot(&self, _path: &Path, _title: &str) -> Result<()> {
        Ok(())
    }
}
