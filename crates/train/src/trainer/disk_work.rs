//! Work of a disk, which may take longer than ranks wait for each other.

use crate::{Error, Result};
use bootstrap::World;
use std::{
    sync::mpsc::{RecvTimeoutError, channel},
    thread::{self, Builder},
    time::Duration,
};

/// What a rank's work returns to all ranks: a text, or why it failed.
pub(crate) type Outcome = std::result::Result<String, String>;

/// The longest time between two signs of life.
const INTERVAL: Duration = Duration::from_millis(250);

/// Runs each rank's `work` on a thread beside it, and returns what all ranks return, in their order.
///
/// Meanwhile the ranks show each other that they are there. So the wait ends with the slowest disk, however slow it is, and
/// only a rank that has died or hangs ends it by the timeout. Collective.
///
/// # Errors
/// [`Error::Peer`] with the first failure among the ranks, on every rank; [`Error::Parallel`] if a rank does not answer.
pub(crate) fn all(world: &World, work: impl FnOnce() -> Outcome + Send) -> Result<Vec<String>> {
    let own = beside(world, work)?;
    agreed(world, own)
}

fn beside(world: &World, work: impl FnOnce() -> Outcome + Send) -> Result<Outcome> {
    let (everyone, interval) = (world.everyone(), INTERVAL.min(world.timeout() / 4));
    thread::scope(|scope| {
        let (sender, receiver) = channel();
        let thread = Builder::new().name("disk".into());
        thread.spawn_scoped(scope, move || sender.send(work()))?;
        let mut own = None;
        loop {
            if own.is_none() {
                own = match receiver.recv_timeout(interval) {
                    Ok(outcome) => Some(outcome),
                    Err(RecvTimeoutError::Timeout) => None,
                    Err(RecvTimeoutError::Disconnected) => {
                        Some(Err("a bug: the thread of the disk has panicked".into()))
                    }
                };
            }
            let is_busy = everyone.any(own.is_none())?;
            match own {
                Some(own) if !is_busy => return Ok(own),
                _ => {}
            }
        }
    })
}

/// The texts of all ranks, or the first failure among them. Collective.
///
/// # Errors
/// As [`all`].
pub(crate) fn agreed(world: &World, own: Outcome) -> Result<Vec<String>> {
    let message = match &own {
        Ok(text) => format!("+{text}"),
        Err(error) => format!("-{error}"),
    };
    let all = world.everyone().all_gather(message.as_bytes())?;
    all.into_iter()
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .enumerate()
        .map(|(rank, text)| match text.strip_prefix('+') {
            Some(text) => Ok(text.to_owned()),
            None => Err(Error::Peer {
                rank,
                reason: text[1..].to_owned(),
            }),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bootstrap::local::{self, Options};
    use std::time::Instant;

    fn on_two_ranks(
        timeout: Duration,
        work: impl Fn(usize) -> Outcome + Send + Sync + 'static,
    ) -> Vec<Result<Vec<String>>> {
        let ranks = Options::new(2).with_timeout(timeout);
        local::run(ranks, move |world| -> Result<_> {
            let rank = world.rank();
            Ok(all(&world, || work(rank)))
        })
        .unwrap()
    }

    #[test]
    fn a_disk_may_be_slower_than_the_timeout() {
        let begun = Instant::now();
        let results = on_two_ranks(Duration::from_millis(400), |rank| {
            thread::sleep(Duration::from_millis(1_500 * rank as u64));
            Ok(format!("rank {rank}"))
        });
        for result in results {
            assert_eq!(result.unwrap(), ["rank 0", "rank 1"]);
        }
        assert!(begun.elapsed() >= Duration::from_millis(1_500));
    }

    #[test]
    fn a_failure_is_everybodys_and_names_its_rank() {
        let results = on_two_ranks(Duration::from_secs(20), |rank| match rank {
            0 => Ok(String::new()),
            _ => Err("no space".into()),
        });
        for result in results {
            let Err(Error::Peer { rank: 1, reason }) = result else {
                panic!("{result:?}");
            };
            assert_eq!(reason, "no space");
        }
    }
}
