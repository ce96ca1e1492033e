//! What the board of a local job implements for its ranks.

use hal::{Exchange, Result};
use std::sync::Arc;

/// How a launcher makes exchanges for one rank.
pub(crate) trait Rendezvous: Send + Sync {
    /// This rank's end of the next exchange of `members` under `label`.
    fn exchange(&self, label: &str, members: &[usize]) -> Result<Arc<dyn Exchange>>;
}
