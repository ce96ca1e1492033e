//! How the host waits for the device: it asks, and meanwhile lets whoever watches the ranks end the wait.

use crate::{
    context::Context,
    table::{Outcome, Runtime},
};
use hal::Result;
use std::{
    fmt,
    time::{Duration, Instant},
};

/// Something that can tell that a wait is in vain: a communicator whose peers failed.
pub(crate) trait Watch: Send + Sync + fmt::Debug {
    /// Whether a host that has waited so long may go on.
    fn check(&self, waited: Duration) -> Result<()>;

    /// Waits until the work that is queued on it has run.
    fn land(&self) -> Result<()>;

    /// Ends the work that is queued on it, because the device is not used any more.
    fn end(&self);
}

// Most waits are for work that is nearly done; asking again at once answers those fastest.
const AWAKE: Duration = Duration::from_micros(50);
const NAP: Duration = Duration::from_micros(50);
// Watching takes calls into the collectives' library, so it is done now and then.
const WATCH: Duration = Duration::from_millis(10);

/// Asks until `ready` says yes.
///
/// # Errors
/// The vendor's; those of the context's watches.
pub(crate) fn until(
    context: &Context,
    ready: impl Fn(&dyn Runtime) -> Outcome<bool>,
) -> Result<()> {
    let start = Instant::now();
    let mut watched = Duration::ZERO;
    while !context.call(&ready)? {
        let waited = start.elapsed();
        if waited - watched >= WATCH {
            context.watch(waited)?;
            watched = waited;
        }
        pause(waited);
    }
    Ok(())
}

/// Lets others run, the longer the longer the wait has lasted.
pub(crate) fn pause(waited: Duration) {
    if waited < AWAKE {
        std::thread::yield_now()
    } else {
        std::thread::sleep(NAP)
    }
}
