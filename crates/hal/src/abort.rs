//! The signal that ends a job: once one rank fails, no rank waits forever.

use crate::{Error, Result, sync::OnceLock};

/// A flag that every waiting rank of a job watches, raised once with a reason.
///
/// Ranks that are threads of one process share one signal. A rank that is a process has its own, which its
/// bootstrap raises when it learns of a failure elsewhere.
#[derive(Debug, Default)]
pub struct AbortSignal {
    raised: OnceLock<(usize, String)>,
}

impl AbortSignal {
    /// A signal that has not been raised.
    pub fn new() -> Self {
        Self::default()
    }

    /// Raises the signal for `rank`, unless another rank did before; the first reason stays.
    pub fn raise(&self, rank: usize, reason: impl Into<String>) {
        let _ = self.raised.set((rank, reason.into()));
    }

    /// The rank that raised the signal, and its reason.
    pub fn raised(&self) -> Option<(usize, &str)> {
        self.raised
            .get()
            .map(|(rank, reason)| (*rank, reason.as_str()))
    }

    /// Fails once the signal is raised.
    ///
    /// # Errors
    /// [`Error::Aborted`] with the first reason.
    pub fn check(&self) -> Result<()> {
        match self.raised.get() {
            None => Ok(()),
            Some((rank, reason)) => Err(Error::Aborted {
                rank: *rank,
                reason: reason.clone(),
            }),
        }
    }
}
