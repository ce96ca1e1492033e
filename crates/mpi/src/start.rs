//! A limit on the time in which all processes must have joined.
//!
//! MPI itself waits for ever: a process that was stopped, or lost, before it called `MPI_Init` would hold all others.

use bootstrap::surroundings;
use hal::{Error, Result, environment::table::START_TIMEOUT};
use std::{
    io,
    sync::mpsc::{RecvTimeoutError, Sender, channel},
    thread::Builder,
    time::Duration,
};

/// Ten thousand processes take a minute or two to start.
const DEFAULT: Duration = Duration::from_secs(300);
/// In which the first process to give up ends the job, so that only one reports.
const TURN: Duration = Duration::from_secs(1);

/// The limit.
///
/// # Errors
/// [`Error::Invalid`] if the variable is not a positive number of seconds.
pub(crate) fn limit(asked: Option<String>) -> Result<Duration> {
    let Some(text) = asked else {
        return Ok(DEFAULT);
    };
    let seconds = text.trim().parse().ok();
    let limit = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    limit
        .filter(|limit| !limit.is_zero())
        .ok_or_else(|| Error::invalid(START_TIMEOUT.name, text, "a number of seconds above 0"))
}

/// Ends this process, and with it the job, if it is not dropped within the limit.
pub(crate) struct StartWatch {
    // The thread sees that it is dropped.
    _joined: Sender<()>,
}

impl StartWatch {
    /// Watches from now on.
    ///
    /// # Errors
    /// The system's, if there is no thread for it.
    pub(crate) fn begin(limit: Duration) -> io::Result<StartWatch> {
        let (joined, watched) = channel();
        let rank = surroundings::detect().rank.unwrap_or(0);
        let patience = limit.saturating_add(TURN * rank.min(3) as u32);
        let thread = Builder::new().name("mpi start".into());
        let spawned = thread.spawn(move || {
            if watched.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
                give_up(rank, limit);
            }
        });
        spawned.map(|_| StartWatch { _joined: joined })
    }
}

fn give_up(rank: usize, limit: Duration) -> ! {
    eprintln!(
        "fascicle: rank {rank}: after {:.0} s not all processes have joined MPI: one has not started, or does not answer; {} \
         sets the time",
        limit.as_secs_f64(),
        START_TIMEOUT.name
    );
    // SAFETY: ends the process at once; handlers, which would wait for MPI, do not run.
    unsafe { libc::_exit(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_a_time() {
        let of = |text: &str| limit(Some(text.into())).ok();
        assert_eq!(
            [limit(None).ok(), of("2.5")],
            [Some(DEFAULT), Some(Duration::from_millis(2_500))]
        );
        assert_eq!(
            [of("0"), of("-1"), of("nan"), of("1e300"), of("soon")],
            [None; 5]
        );
    }
}
