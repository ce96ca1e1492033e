//! Work that runs on the calling thread, before the call returns.

use hal::{Error, Result, lock, sync::Mutex};

/// Runs one piece of work at a time and remembers the first failure.
#[derive(Debug, Default)]
pub(super) struct Inline {
    // Held while work runs, so that two threads sharing the stream take turns.
    failed: Mutex<Option<Error>>,
}

impl Inline {
    /// Runs `work`, unless something failed before.
    ///
    /// # Errors
    /// The earlier failure, or that of `work`. A refusal of the call itself (invalid, unsupported) is not
    /// stored.
    pub(super) fn run(&self, work: impl FnOnce() -> Result<()>) -> Result<()> {
        let mut failed = lock(&self.failed);
        if let Some(error) = &*failed {
            return Err(error.clone());
        }
        let outcome = work();
        if let Err(error) = &outcome
            && !is_refusal(error)
        {
            *failed = Some(error.clone());
        }
        outcome
    }

    /// # Errors
    /// The first failure.
    pub(super) fn check(&self) -> Result<()> {
        lock(&self.failed).clone().map_or(Ok(()), Err)
    }
}

fn is_refusal(error: &Error) -> bool {
    matches!(error, Error::Invalid { .. } | Error::Unsupported { .. })
}
