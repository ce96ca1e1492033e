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

impl From<Error> for train::Error {
    fn from(error: Error) -> train::Error {
        match error {
            Error::Train(error) => error,
            Error::Machine(error) => error.into(),
            other => train::Error::Client(Box::new(other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_training_comes_back_as_it_was() {
        let lost = hal::Error::Aborted {
            rank: 1,
            reason: "lost".into(),
        };
        let within = Error::from(train::Error::from(lost.clone()));
        assert!(
            matches!(train::Error::from(within), train::Error::Parallel(found) if found == lost)
        );
        let own = train::Error::from(Error::OutOfReach("too large".into()));
        let train::Error::Client(own) = own else {
            panic!("{own}");
        };
        assert!(matches!(
            own.downcast_ref(),
            Some(Error::OutOfReach(reason)) if reason == "too large"
        ));
    }
}
