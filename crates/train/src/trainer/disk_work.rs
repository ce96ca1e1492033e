//! Work of a disk, which may take longer than ranks wait for each other.

use crate::{Error, Result};
use bootstrap::World;
use hal::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use hal::sync::thread::{self, Builder};
use hal::sync::time::Instant;
use std::time::Duration;

/// The longest time between two signs of life.
const INTERVAL: Duration = Duration::from_millis(250);

/// Runs each rank's `work` on a thread beside it, and returns this rank's result once all have succeeded. Collective.
///
/// # Errors
/// This rank's own failure, or [`Error::Peer`] with the first among the others; [`Error::Parallel`] if a rank does not
/// answer.
pub(crate) fn all<T: Send>(world: &World, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let mut patience = Patience::new(world);
    let own = patience.wait_for(work);
    patience.finish(own)
}

/// The bytes that `work` returns on the rank `root`, on every rank; the others do not run it. Collective.
///
/// # Errors
/// As [`all`].
pub(crate) fn told(
    world: &World,
    root: usize,
    work: impl FnOnce() -> Result<Vec<u8>> + Send,
) -> Result<Vec<u8>> {
    let own = all(world, || match world.rank() == root {
        true => work(),
        false => Ok(Vec::new()),
    })?;
    Ok(world.everyone().broadcast(root, &own)?)
}

/// Passes bytes on to a thread, once it asks for them.
pub(crate) type Pass<'a> = dyn FnMut(Vec<u8>) -> Result<()> + 'a;

/// Asks for bytes.
pub(crate) type Next<'a> = dyn FnMut() -> Option<Vec<u8>> + 'a;

/// A message of a thread to the one that waits for it.
enum Message<T> {
    Asks,
    Done(Result<T>),
}

/// Lets the disks of all ranks be as slow as they are.
///
/// While one works, the ranks show each other that they are there. So a wait ends with the slowest disk, and only a
/// rank that has died or hangs ends it by the timeout. From the creation to [`finish`](Patience::finish), a rank may
/// not run other collectives.
pub(crate) struct Patience<'a> {
    world: &'a World,
    interval: Duration,
    last: Instant,
}

impl Patience<'_> {
    pub(crate) fn new(world: &World) -> Patience<'_> {
        Patience {
            world,
            interval: INTERVAL.min(world.timeout() / 4),
            last: Instant::now(),
        }
    }

    /// Runs `work` on a thread beside this one.
    ///
    /// # Errors
    /// Those of `work`; [`Error::Parallel`] if a rank does not answer.
    pub(crate) fn wait_for<T: Send>(
        &mut self,
        work: impl FnOnce() -> Result<T> + Send,
    ) -> Result<T> {
        self.supply(|_| Ok(()), |_| work())
    }

    /// Runs `work` on a thread beside this one, which asks for bytes that only this thread has: each time, it receives the next of
    /// those that `supply` passes on, and `None` once there are no more. At most one vector of bytes waits.
    ///
    /// # Errors
    /// As [`wait_for`](Patience::wait_for); that of `supply`, which comes first.
    pub(crate) fn supply<T: Send>(
        &mut self,
        supply: impl FnOnce(&mut Pass<'_>) -> Result<()>,
        work: impl FnOnce(&mut Next<'_>) -> Result<T> + Send,
    ) -> Result<T> {
        thread::scope(|scope| {
            let ((sender, receiver), (bytes, next)) = (channel(), channel());
            let thread = Builder::new().name("disk".into());
            thread.spawn_scoped(scope, move || {
                let done = work(&mut || {
                    sender.send(Message::Asks).ok()?;
                    next.recv().ok()
                });
                sender.send(Message::Done(done))
            })?;
            let mut early = None;
            let supplied = supply(&mut |given| match self.message(&receiver)? {
                Message::Asks => {
                    // If the thread does not take them, its next message says why.
                    let _ = bytes.send(given);
                    Ok(())
                }
                Message::Done(done) => {
                    early = Some(done);
                    Err(std::io::Error::other("the work ended before its bytes").into())
                }
            });
            drop(bytes);
            if let Some(done) = early {
                return done;
            }
            let done = loop {
                if let Message::Done(done) = self.message(&receiver)? {
                    break done;
                }
            };
            supplied.and(done)
        })
    }

    // The next one of the thread.
    fn message<T>(&mut self, receiver: &Receiver<Message<T>>) -> Result<Message<T>> {
        loop {
            match receiver.recv_timeout(self.interval.saturating_sub(self.last.elapsed())) {
                Ok(message) => return Ok(message),
                Err(RecvTimeoutError::Timeout) => self.show(true)?,
                Err(RecvTimeoutError::Disconnected) => {
                    let reason = "a bug: the thread of the disk has panicked";
                    return Err(std::io::Error::other(reason).into());
                }
            };
        }
    }

    // Whether any rank still works.
    fn show(&mut self, is_busy: bool) -> Result<bool> {
        let busy = self.world.everyone().any(is_busy)?;
        self.last = Instant::now();
        Ok(busy)
    }

    /// Waits until no rank works any more, and returns this rank's result if all have succeeded.
    ///
    /// # Errors
    /// As [`all`].
    pub(crate) fn finish<T>(mut self, own: Result<T>) -> Result<T> {
        // A rank that does not answer will not do so now.
        if let Err(error @ Error::Parallel(_)) = own {
            return Err(error);
        }
        while self.show(false)? {}
        agreed(self.world, own)
    }
}

/// This rank's result if all ranks have succeeded. Collective.
///
/// # Errors
/// As [`all`].
pub(crate) fn agreed<T>(world: &World, own: Result<T>) -> Result<T> {
    let failure = own.as_ref().err().map(|error| format!("!{error}"));
    let failures = world
        .everyone()
        .all_gather(failure.unwrap_or_default().as_bytes())?;
    let own = own?;
    match failures.iter().position(|failure| !failure.is_empty()) {
        None => Ok(own),
        Some(rank) => Err(Error::Peer {
            rank,
            reason: String::from_utf8_lossy(&failures[rank][1..]).into_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bootstrap::local::{self, Options};

    fn on_two_ranks(
        timeout: Duration,
        work: impl Fn(usize) -> Result<usize> + Send + Sync + 'static,
    ) -> Vec<Result<usize>> {
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
            Ok(rank)
        });
        for (rank, result) in results.into_iter().enumerate() {
            assert_eq!(result.unwrap(), rank);
        }
        assert!(begun.elapsed() >= Duration::from_millis(1_500));
    }

    #[test]
    fn many_small_files_wait_for_one_slow_one_once() {
        let ranks = Options::new(2).with_timeout(Duration::from_millis(400));
        let begun = Instant::now();
        local::run(ranks, |world| {
            let slow = world.rank() == 1;
            let mut patience = Patience::new(&world);
            for _ in 0..if slow { 1 } else { 1_000 } {
                let pause = Duration::from_millis(if slow { 1_500 } else { 0 });
                patience.wait_for(|| {
                    thread::sleep(pause);
                    Ok(())
                })?;
            }
            patience.finish(Ok(()))
        })
        .unwrap();
        assert!(begun.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn a_thread_receives_what_it_asks_for_and_either_side_may_fail() {
        let refused = |what: &str| -> Error { std::io::Error::other(what.to_owned()).into() };
        let options = || Options::new(1).with_timeout(Duration::from_millis(400));
        // The bytes that arrive, of `given` vectors, and how supplying fails.
        let with = move |given: u8, taken: usize, fails: &'static str| {
            let ended = local::run(options(), move |world| -> Result<_> {
                let mut patience = Patience::new(&world);
                let outcome = patience.supply(
                    |pass| {
                        (0..given).try_for_each(|number| pass(vec![number; 2]))?;
                        match fails {
                            "supply" => Err(refused("supply")),
                            _ => Ok(()),
                        }
                    },
                    |next| {
                        let bytes: Vec<u8> = (0..taken).map_while(|_| next()).flatten().collect();
                        match fails {
                            "work" => Err(refused("work")),
                            _ => Ok(bytes),
                        }
                    },
                );
                Ok(outcome.map_err(|error| error.to_string()))
            });
            ended.unwrap().remove(0)
        };
        assert_eq!(with(3, 9, ""), Ok(vec![0, 0, 1, 1, 2, 2]));
        assert_eq!(with(3, 2, ""), Ok(vec![0, 0, 1, 1]));
        assert_eq!(with(0, 1, ""), Ok(vec![]));
        for failing in ["supply", "work"] {
            assert_eq!(with(3, 9, failing), Err(failing.to_owned()));
        }
        assert_eq!(with(3, 1, "work"), Err("work".to_owned()));
    }

    #[test]
    fn a_failure_is_everybodys_and_names_its_rank() {
        let results = on_two_ranks(Duration::from_secs(20), |rank| match rank {
            0 => Ok(0),
            _ => Err(Error::setting("a", "b", "c")),
        });
        let [Err(of_peer), Err(own)] = &results[..] else {
            panic!("{results:?}");
        };
        let reason = own.to_string();
        assert!(matches!(own, Error::Setting { .. }), "{own:?}");
        assert!(
            matches!(of_peer, Error::Peer { rank: 1, reason: of } if *of == reason),
            "{of_peer:?}"
        );
    }
}
