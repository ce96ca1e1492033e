//! One rank's end of a local exchange.

use super::board::{Board, position};
use super::channel::{Channel, Contributions};
use super::stand_ins::Seating;
use hal::sync::atomic::{AtomicU64, Ordering};
use hal::{Error, Exchange, Result, Stopwatch};
use std::{fmt, sync::Arc, time::Duration};

/// The longest sleep of a waiting rank before it checks the abort signal, because raising the signal wakes
/// nobody.
const POLL: Duration = Duration::from_millis(25);

/// The call's name in errors.
const OPERATION: &str = "exchange";

/// One end of a [`Channel`], which counts its own calls: the n-th call of one member meets the n-th call of the
/// others.
///
/// The channel holds only the live members; `sources` maps each member of the group to one of them.
pub(super) struct LocalExchange {
    board: Arc<Board>,
    channel: Arc<Channel>,
    /// This rank's index in the channel.
    index: usize,
    /// This rank's index in the group.
    rank: usize,
    sources: Arc<[u32]>,
    calls: AtomicU64,
}

impl LocalExchange {
    /// The end of the world rank `rank`, which has that index in the group.
    pub(super) fn new(
        board: Arc<Board>,
        channel: Arc<Channel>,
        seating: Seating,
        (world_rank, rank): (usize, usize),
    ) -> Self {
        let index = position(&seating.live, world_rank);
        Self {
            board,
            channel,
            index,
            rank,
            sources: seating.sources,
            calls: AtomicU64::new(0),
        }
    }

    /// Contributes this rank's part of the next round, and takes those of all live members.
    fn round(&self, part: &[u8]) -> Result<Contributions> {
        self.board.abort.check()?;
        let sequence = self.calls.fetch_add(1, Ordering::Relaxed);
        self.channel.put(sequence, self.index, part.to_vec());
        let start = Stopwatch::start();
        let poll = POLL.min(self.board.timeout);
        self.channel.take(sequence, poll, |missing| {
            self.verdict(sequence, &start, missing)
        })
    }

    /// The channel index of a member's stand-in.
    fn source(&self, member: usize) -> usize {
        self.sources[member] as usize
    }

    /// Decides whether to keep waiting for the `missing` ranks, of which there is at least one.
    fn verdict(&self, sequence: u64, start: &Stopwatch, missing: Vec<usize>) -> Result<()> {
        // Checked before the signal: a rank that failed raises the signal first, and its own reason is more
        // informative.
        let ended = missing
            .iter()
            .copied()
            .find(|&rank| self.board.has_ended(rank));
        self.board.abort.check()?;
        match ended {
            Some(ended) => Err(self.deserted(sequence, ended)),
            None if start.elapsed() >= self.board.timeout => {
                Err(self.late(sequence, start, missing))
            }
            None => Ok(()),
        }
    }

    fn deserted(&self, sequence: u64, ended: usize) -> Error {
        let one = (self.world_rank(), OPERATION.into());
        let other = (ended, "nothing more: it has returned".into());
        Error::Mismatch {
            group: self.channel.label.clone(),
            sequence,
            one,
            other,
        }
    }

    fn late(&self, sequence: u64, start: &Stopwatch, missing: Vec<usize>) -> Error {
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
        self.rank
    }

    fn size(&self) -> usize {
        self.sources.len()
    }

    fn stands_for(&self, rank: usize) -> bool {
        self.source(rank) == self.index
    }

    fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        let parts = self.round(bytes)?;
        Ok(self
            .sources
            .iter()
            .map(|&source| parts[source as usize].clone())
            .collect())
    }

    fn broadcast(&self, root: usize, bytes: &[u8]) -> Result<Vec<u8>> {
        self.board.abort.check()?;
        let sequence = self.calls.fetch_add(1, Ordering::Relaxed);
        if self.stands_for(root) {
            self.channel.give(sequence, self.index, bytes.to_vec());
            return Ok(bytes.to_vec());
        }
        self.channel.put(sequence, self.index, Vec::new());
        let (start, poll) = (Stopwatch::start(), POLL.min(self.board.timeout));
        self.channel
            .take_of(sequence, self.source(root), poll, |missing| {
                self.verdict(sequence, &start, missing)
            })
    }

    fn barrier(&self) -> Result<()> {
        self.round(&[]).map(drop)
    }

    fn any(&self, mine: bool) -> Result<bool> {
        Ok(self
            .round(&[u8::from(mine)])?
            .iter()
            .any(|part| part == &[1]))
    }
}

impl fmt::Debug for LocalExchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "LocalExchange(`{}`, rank {} of {})",
            self.channel.label,
            self.rank,
            self.sources.len()
        )
    }
}
