//! Work that depends on other live ranks: receives, and collectives with them.

use super::hub::{Hub, MessageKey, Sent};
use hal::{AbortSignal, Collective, Error, RawSlice, Result, Stopwatch, lock};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

/// The receives and collectives that one call queued.
#[derive(Debug)]
pub(crate) struct Meeting {
    pub(super) hub: Arc<Hub>,
    pub(super) rank: usize,
    pub(super) patience: Patience,
    pub(super) receives: Vec<QueuedReceive>,
    /// The collectives, if the call has any.
    pub(super) round: Option<Round>,
}

/// A message to be received.
#[derive(Debug)]
pub(super) struct QueuedReceive {
    pub(super) key: MessageKey,
    pub(super) buffer: RawSlice,
    pub(super) seconds: f64,
}

/// A collective.
#[derive(Debug)]
pub(super) struct Round {
    /// Its number within the group.
    pub(super) number: u64,
    /// The call as text, until the others know when this rank arrives with it.
    pub(super) call: Mutex<Option<String>>,
    pub(super) seconds: f64,
}

/// How long a rank waits for others, and what ends the wait early.
#[derive(Clone, Debug)]
pub(super) struct Patience {
    pub(super) timeout: Duration,
    pub(super) abort: Arc<AbortSignal>,
}

// How long a thread sleeps between two checks of another rank's clock.
const PAUSE: Duration = Duration::from_micros(20);

impl Meeting {
    /// Announces to the others that this rank arrives at the collective at `ready`, unless it has done so.
    pub(super) fn come(&self, ready: f64) {
        if let Some(round) = &self.round
            && let Some(call) = lock(&round.call).take()
        {
            self.hub.come(self.rank, round.number, ready, call);
        }
    }

    /// Start and end of the meeting, at which this rank arrives at `ready`, if all others have arrived.
    ///
    /// # Errors
    /// [`Error::Mismatch`].
    pub(crate) fn hold(&self, ready: f64) -> Result<Option<(f64, f64)>> {
        self.come(ready);
        let (mut start, mut end) = (ready, ready);
        for receive in &self.receives {
            let Ok(sent) = self.hub.look(receive.key) else {
                return Ok(None);
            };
            self.compare(receive, &sent)?;
            start = start.max(sent.start);
            end = end.max(arrival(ready, receive, &sent));
        }
        if let Some(round) = &self.round {
            let Some(last) = self.hub.gather(round.number)? else {
                return Ok(None);
            };
            start = start.max(last);
            end = end.max(start + round.seconds);
        }
        self.receives
            .iter()
            .for_each(|receive| self.hub.forget(receive.key));
        Ok(Some((start, end)))
    }

    /// Whether the meeting may end before `host`. It may not if a message cannot have arrived by then.
    ///
    /// # Errors
    /// [`Error::Aborted`].
    pub(crate) fn may_end_by(&self, ready: f64, host: f64) -> Result<bool> {
        for receive in &self.receives {
            if !self.comes_by(receive, ready, host)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    // Checks until the time of the message is known, or is known not to be before `host`.
    fn comes_by(&self, receive: &QueuedReceive, ready: f64, host: f64) -> Result<bool> {
        let start = Stopwatch::start();
        loop {
            match self.hub.look(receive.key) {
                Ok(sent) => return Ok(arrival(ready, receive, &sent) < host),
                Err(clock) if clock + receive.seconds >= host => return Ok(false),
                Err(_) => {}
            }
            self.check_patience(start.elapsed())?;
            std::thread::sleep(PAUSE);
        }
    }

    /// Fails if the job has ended, or if a rank has not arrived within the timeout.
    ///
    /// # Errors
    /// [`Error::Aborted`]; [`Error::Timeout`] naming the ranks.
    pub(crate) fn check_patience(&self, waited: Duration) -> Result<()> {
        self.patience.abort.check()?;
        if waited <= self.patience.timeout {
            return Ok(());
        }
        let late = |receive: &&QueuedReceive| self.hub.look(receive.key).is_err();
        let (operation, sequence, missing) = match (self.receives.iter().find(late), &self.round) {
            (Some(receive), _) => (
                "recv",
                receive.key.number,
                vec![self.hub.members[receive.key.from]],
            ),
            (None, Some(round)) => ("collective", round.number, self.hub.absent(round.number)),
            (None, None) => return Ok(()),
        };
        let (group, rank) = (self.hub.label.clone(), self.hub.members[self.rank]);
        Err(Error::Timeout {
            group,
            rank,
            operation: operation.into(),
            sequence,
            missing,
            waited,
        })
    }

    fn compare(&self, receive: &QueuedReceive, sent: &Sent) -> Result<()> {
        let (buffer, Sent { len, dtype, .. }) = (receive.buffer, *sent);
        if (buffer.len, buffer.dtype) == (len, dtype) {
            return Ok(());
        }
        let MessageKey { from, to, number } = receive.key;
        let sent = Collective::Send {
            buffer: RawSlice {
                len,
                dtype,
                ..buffer
            },
            to,
        };
        let received = Collective::Recv { buffer, from };
        Err(self
            .hub
            .mismatch(number, (from, sent.describe()), (to, received.describe())))
    }
}

// A message starts once both sides are ready, and arrives once all of it has left. Incoming links are separate
// from outgoing ones, and the sender has already reserved its own.
fn arrival(ready: f64, receive: &QueuedReceive, sent: &Sent) -> f64 {
    (ready.max(sent.start) + receive.seconds).max(sent.end)
}
