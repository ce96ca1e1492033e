//! Returns the results of all ranks on every process.

use bootstrap::World;
use hal::{Error, Result};
use serde::{Serialize, de::DeserializeOwned};

/// The results of the ranks, in their order. Collective.
///
/// # Errors
/// [`Error::Invalid`] for a result that cannot be serialised; those of the exchange.
pub(crate) fn gathered<T: Serialize + DeserializeOwned>(
    world: &World,
    returned: &T,
) -> Result<Vec<T>> {
    let refuse = |error: postcard::Error| {
        Error::invalid("job", error.to_string(), "a result that can be serialised")
    };
    let own = postcard::to_stdvec(returned).map_err(refuse)?;
    let all = world.everyone().all_gather(&own)?;
    all.iter()
        .map(|bytes| postcard::from_bytes(bytes).map_err(refuse))
        .collect()
}
