//! Replaces `parquet` in a build without the feature, and refuses every table.

use super::documents::{Sink, Skipped};
use super::inputs::TokenizeInput;
use crate::data::{Error, Result};

pub(super) fn read(
    input: &TokenizeInput,
    _: &str,
    _: &mut Skipped,
    _: &dyn Fn(u64),
    _: Sink<'_>,
) -> Result<()> {
    Err(Error::input(
        &input.path,
        "found a build without the feature `parquet`, needs one with it: cargo build --release --features parquet",
    ))
}

/// Nothing here has panics that become errors.
pub(in crate::data) fn is_guarded() -> bool {
    false
}
