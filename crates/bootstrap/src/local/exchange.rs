//! One rank's end of a local exchange.

use super::board::Board;
use super::channel::Channel;
use hal::{Error, Exchange, Result};
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// How long a waiting rank sleeps at most before it looks at the abort signal: nothing wakes it when that is raised.
const POLL: Duration = Duration::from_millis(25);

/// The call's name in errors.
const OPERATION: &str = "exchange";

/// An end of a [`Channel`], which counts its own calls: the n-th call of one member meets the n-th of the others.
pub(super) struct LocalExchange {
    board: Arc<Board>,
    channel: Arc<Channel>,
    index: usize,
    calls: AtomicU64,
}

impl LocalExchange {
    pub(super) fn new(board: Arc<Board>, channel: Arc<Channel>, index: usize) -> Self {
        Self { board, channel, index, calls: AtomicU64::new(0) }
    }

    /// Whether to wait on for the `missing`, which are not none.
    fn verdict(&self, sequence: u64, start: Instant, missing: Vec<usize>) -> Result<()> {
        // Looked at before the signal: a rank that failed raises it first, and its own reason says more.
        let ended = missing.iter().copied().find(|&rank| self.board.has_ended(rank));
        self.board.abort.check()?;
        match ended {
            Some(ended) => Err(self.deserted(sequence, ended)),
            None if start.elapsed() >= self.board.timeout => Err(self.late(sequence, start, missing)),
            None => Ok(()),
        }
    }

    fn deserted(&self, sequence: u64, ended: usize) -> Error {
        let one = (self.world_rank(), OPERATION.into());
        let other = (ended, "nothing more: it has returned".into());
        Error::Mismatch { group: self.channel.label.clone(), sequence, one, other }
    }

    fn late(&self, sequence: u64, start: Instant, missing: Vec<usize>) -> Error {
        Error::Timeout {
            group: self.channel.label.clone(),
            rank: self.world_rank(),
            operation: OPERATION.into(),
            sequence,
            missing,
            waited: start.elapsed(),
        }
    }

    fn world_rank(&self) -> usize {
        self.channel.members[self.index]
    }
}

impl Exchange for LocalExchange {
    fn rank(&self) -> usize {
        self.index
    }

    fn size(&self) -> usize {
        self.channel.members.len()
    }

    fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.board.abort.check()?;
        let sequence = self.calls.fetch_add(1, Ordering::Relaxed);
        self.channel.put(sequence, self.index, bytes.to_vec());
        let start = Instant::now();
        let poll = POLL.min(self.board.timeout);
        let all = self.channel.take(sequence, poll, |missing| self.verdict(sequence, start, missing))?;
        Ok(Arc::unwrap_or_clone(all))
    }
}

impl fmt::Debug for LocalExchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Channel { label, members, .. } = &*self.channel;
        write!(f, "LocalExchange(`{label}`, rank {} of {})", self.index, members.len())
    }
}
