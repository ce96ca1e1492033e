//! Values that one rank has and all need: a chosen token, a message of a person, requests of clients.

use crate::Result;
use bootstrap::World;
use serde::{Serialize, de::DeserializeOwned};
use std::time::Duration;

/// How long the first rank waits at most for something from outside before it relays that there is nothing yet: far below any
/// timeout of the other ranks.
pub const TICK: Duration = Duration::from_millis(500);

/// What `own` returns on the rank `root`, on every rank; only that rank calls it. Collective.
///
/// # Errors
/// Those of `own`, on that rank; those of the exchange.
pub fn relay<T: Serialize + DeserializeOwned>(
    world: &World,
    root: usize,
    own: impl FnOnce() -> Result<T>,
) -> Result<T> {
    if world.size() == 1 {
        return own();
    }
    let refuse = |error: postcard::Error| {
        let needed = format!("what rank {root} sends");
        crate::Error::from(hal::Error::invalid("relay", error.to_string(), needed))
    };
    let bytes = match world.rank() == root {
        true => postcard::to_stdvec(&own()?).map_err(refuse)?,
        false => Vec::new(),
    };
    let relayed = world.everyone().broadcast(root, &bytes)?;
    postcard::from_bytes(&relayed).map_err(refuse)
}
