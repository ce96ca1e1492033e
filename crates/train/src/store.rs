//! Opens stores of checkpoints by their URLs.

use crate::{Result, checkpoint::CheckpointStore};
use std::sync::Arc;

/// Opens the store of a URL, with the credentials in the environment; asks it nothing yet.
///
/// # Errors
/// [`Error::Checkpoint`](crate::Error::Checkpoint) for a URL of no store; in a build without the feature `object-store`, always.
pub fn open(url: &str) -> Result<Arc<dyn CheckpointStore>> {
    opened(url)
}

#[cfg(feature = "object-store")]
fn opened(url: &str) -> Result<Arc<dyn CheckpointStore>> {
    Ok(Arc::new(store::StoreFolder::open(url)?))
}

#[cfg(not(feature = "object-store"))]
fn opened(url: &str) -> Result<Arc<dyn CheckpointStore>> {
    // No more of the URL is repeated: nothing here knows whether it holds a secret.
    let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
    Err(crate::Error::Checkpoint(crate::checkpoint::Error::Store {
        url: format!("{scheme}://..."),
        operation: "opening".into(),
        reason: "found a program that was built without stores, needs one built with `--features object-store`".into(),
    }))
}
