//! Why there is no plan.

/// Result of this crate's fallible functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The machine's description.
    #[error(transparent)]
    Machine(#[from] grid::machine::MachineError),
    /// The model, the batch or the settings.
    #[error("{0}")]
    Request(String),
    /// No candidate fits the devices' memory.
    #[error("{0}")]
    OutOfReach(String),
    /// The simulated run failed.
    #[error(transparent)]
    Train(#[from] train::Error),
}
