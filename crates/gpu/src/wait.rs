//! How the host waits for the device: it polls, and lets those who watch other ranks end the wait.

use crate::{
    context::Context,
    table::{Outcome, Runtime},
};
use hal::{Result, Stopwatch};
use std::{fmt, time::Duration};

/// Something that can detect that a wait is in vain: a communicator whose peers failed.
pub(crate) trait Watch: Send + Sync + fmt::Debug {
    /// Fails if a host that has waited this long must stop waiting.
    fn check(&self, waited: Duration) -> Result<()>;

    /// Waits until the work that is queued here has run.
    fn land(&self) -> Result<()>;

    /// Ends the work that is queued here, because the device is not used any more.
    fn end(&self);
}

// Most waits are for work that is nearly done. Polling again at once ends those soonest; other threads may run between two
// polls.
const AWAKE: Duration = Duration::from_millis(2);
const NAP: Duration = Duration::from_micros(50);
// Watching makes calls into the collectives' library, so we do it only now and then.
const WATCH: Duration = Duration::from_millis(10);

/// Polls until `ready` returns true.
///
/// # Errors
/// The vendor's; those of the context's watches. Either ends the use of the device, as nobody knows what it still runs.
pub(crate) fn until(
    context: &Context,
    ready: impl Fn(&dyn Runtime) -> Outcome<bool>,
) -> Result<()> {
    let mut watched = Duration::ZERO;
    poll(context, ready, |waited| {
        if waited - watched >= WATCH {
            context.watch(waited)?;
            watched = waited;
        }
        Ok(())
    })
}

/// As [`until`], for work that waits for nobody: only the vendor ends the wait.
///
/// # Errors
/// The vendor's.
pub(crate) fn surely(
    context: &Context,
    ready: impl Fn(&dyn Runtime) -> Outcome<bool>,
) -> Result<()> {
    poll(context, ready, |_| Ok(()))
}

// `go_on` is asked after each poll, with the time so far.
fn poll(
    context: &Context,
    ready: impl Fn(&dyn Runtime) -> Outcome<bool>,
    mut go_on: impl FnMut(Duration) -> Result<()>,
) -> Result<()> {
    let start = Stopwatch::start();
    let is_ready = || {
        context
            .call(&ready)
            .inspect_err(|error| context.fail(error.clone()))
    };
    while !is_ready()? {
        let waited = start.elapsed();
        go_on(waited)?;
        pause(waited);
    }
    Ok(())
}

/// Lets other threads run, for longer once the wait has lasted.
pub(crate) fn pause(waited: Duration) {
    if waited < AWAKE {
        std::thread::yield_now()
    } else {
        std::thread::sleep(NAP)
    }
}
