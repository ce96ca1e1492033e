//! What is tried again, how often, and how long.

use crate::secrets;
use checkpoint::{Error, Limit};
use object_store::Error as StoreError;
use std::{future::Future, time::Duration};
use tokio::time::{sleep, timeout};

/// How often a file, a listing or a removal is tried. Each has retries of its own requests.
const ATTEMPTS: u32 = 3;

/// Before the second attempt; twice as long before the third.
const PAUSE: Duration = Duration::from_millis(500);

/// How often a cancelled limit is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// Why something failed: the store refused it, or it was found to be wrong on this side.
#[derive(Debug)]
pub(crate) enum Failure {
    Store(StoreError),
    Here(Error),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        Failure::Store(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Here(error)
    }
}

impl Failure {
    // Whether another attempt might succeed.
    fn may_pass(&self) -> bool {
        !matches!(
            self,
            Failure::Here(_)
                | Failure::Store(
                    StoreError::NotFound { .. }
                        | StoreError::InvalidPath { .. }
                        | StoreError::NotSupported { .. }
                        | StoreError::NotImplemented { .. }
                        | StoreError::PermissionDenied { .. }
                        | StoreError::Unauthenticated { .. }
                        | StoreError::UnknownConfigurationKey { .. }
                )
        )
    }
}

/// The error of a store, with its URL.
pub(crate) fn refused(url: &str, operation: &str, reason: String) -> Error {
    Error::Store {
        url: url.to_owned(),
        operation: operation.to_owned(),
        reason,
    }
}

/// Runs the attempts of an operation until one succeeds or the limit is reached.
///
/// # Errors
/// [`Error::Store`] with the last reason; what was found wrong here.
pub(crate) async fn attempted<T, F: Future<Output = Result<T, Failure>>>(
    url: &str,
    operation: &str,
    limit: &Limit,
    mut attempt: impl FnMut() -> F,
) -> Result<T, Error> {
    let failed = |reason| refused(url, operation, reason);
    let mut pause = PAUSE;
    for number in 1.. {
        let failure = match within(limit, attempt()).await.map_err(failed)? {
            Ok(done) => return Ok(done),
            Err(failure) => failure,
        };
        if number < ATTEMPTS && failure.may_pass() {
            within(limit, sleep(pause)).await.map_err(failed)?;
            pause *= 2;
            continue;
        }
        return Err(match failure {
            Failure::Store(error) => failed(secrets::reason(&error)),
            Failure::Here(error) => error,
        });
    }
    unreachable!("a bug: attempts are numbered without end")
}

// A future that is dropped once the limit is reached.
async fn within<T>(limit: &Limit, future: impl Future<Output = T>) -> Result<T, String> {
    let mut future = std::pin::pin!(future);
    loop {
        let left = limit.left()?;
        if let Ok(done) = timeout(left.min(LOOK), &mut future).await {
            return Ok(done);
        }
    }
}
