//! Replaces `plot` in a build without the feature `plots`.

use std::path::Path;

use super::{Record, Result};

/// Writes nothing: this build lacks the feature `plots`.
///
/// # Errors
/// None.
pub fn loss_plot(_path: &Path, _records: &[Record], _title: &str) -> Result<()> {
    Ok(())
}
