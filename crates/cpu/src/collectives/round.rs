//! One collective of a group: from the first arrival of a member to the last piece of work.

use super::call;
use hal::sync::{OnceLock, atomic::AtomicUsize, atomic::Ordering};
use hal::{Collective, Error, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// State shared by the members of a round. The round has an outcome once all have arrived, or once it is clear
/// that they will not.
#[derive(Debug, Default)]
pub(super) struct Round {
    outcome: OnceLock<Result<Work>>,
}

/// The progress of a round.
#[derive(Debug, PartialEq)]
pub(super) enum Progress {
    /// Some members have not arrived; a member may still withdraw.
    Gathering,
    /// Other members are working on pieces, and nobody may leave.
    Working,
    /// Nobody touches the members' buffers any more.
    Ended(Result<()>),
}

impl Round {
    /// Ends the gathering with the calls of all members, which agree.
    ///
    /// # Safety
    /// The calls are those of all members, and their buffers have the lengths that the operation requires.
    /// Until the round has ended they are live, and nobody else uses them.
    pub(super) unsafe fn begin(&self, calls: Vec<Collective>) -> &Work {
        self.outcome
            .get_or_init(|| Ok(Work::new(calls)))
            .as_ref()
            .expect("a bug: a round at which all members have arrived was refused")
    }

    /// Ends the gathering without work.
    pub(super) fn refuse(&self, error: Error) {
        let set = self.outcome.set(Err(error));
        debug_assert!(
            set.is_ok(),
            "a bug: a round at which all members have arrived was refused"
        );
    }

    /// Whether members may still withdraw.
    pub(super) fn is_gathering(&self) -> bool {
        self.outcome.get().is_none()
    }

    /// Does pieces of work as long as there are any; calls `last` if this call ends the last one.
    pub(super) fn help(&self, world_rank: usize, last: impl FnOnce()) {
        if let Some(Ok(work)) = self.outcome.get()
            && work.help(world_rank)
        {
            last();
        }
    }

    /// The progress of the round.
    pub(super) fn progress(&self) -> Progress {
        match self.outcome.get() {
            None => Progress::Gathering,
            Some(Err(error)) => Progress::Ended(Err(error.clone())),
            Some(Ok(work)) if !work.is_done() => Progress::Working,
            Some(Ok(work)) => Progress::Ended(work.verdict()),
        }
    }
}

/// The calls of all members, and the pieces of their work. A thread that takes a piece does it on all buffers.
#[derive(Debug)]
pub(super) struct Work {
    calls: Vec<Collective>,
    elements: usize,
    piece: usize,
    pieces: usize,
    // The first piece that nobody has taken.
    next: AtomicUsize,
    // Pieces that have not ended.
    left: AtomicUsize,
    // World rank of a member that panicked while working on a piece.
    broken: OnceLock<usize>,
}

impl Work {
    fn new(calls: Vec<Collective>) -> Work {
        let (elements, piece) = call::work(&calls);
        let pieces = elements.div_ceil(piece);
        let (next, left) = (AtomicUsize::new(0), AtomicUsize::new(pieces));
        Work {
            calls,
            elements,
            piece,
            pieces,
            next,
            left,
            broken: OnceLock::new(),
        }
    }

    /// Number of pieces.
    pub(super) fn pieces(&self) -> usize {
        self.pieces
    }

    /// Takes and does pieces until none is left to take; returns whether it ended the very last one.
    fn help(&self, world_rank: usize) -> bool {
        let mut ended_last = false;
        while let Some(piece) = self.take() {
            ended_last |= self.perform(piece, world_rank);
        }
        ended_last
    }

    fn take(&self) -> Option<usize> {
        // Reading first keeps threads that only wait from writing to a cache line that workers share.
        let free = self.next.load(Ordering::Relaxed) < self.pieces;
        let piece = if free {
            self.next.fetch_add(1, Ordering::Relaxed)
        } else {
            self.pieces
        };
        (piece < self.pieces).then_some(piece)
    }

    fn perform(&self, piece: usize, world_rank: usize) -> bool {
        let start = piece * self.piece;
        let range = start..self.elements.min(start + self.piece);
        // SAFETY: the caller of `Round::begin` guaranteed live buffers of these lengths until the round has
        // ended, which does not happen before this piece ends. `take` hands out every piece once, and pieces of
        // one round share no output. The calls agree, because `Group` compares them before it begins a round.
        let work = || unsafe { call::perform(&self.calls, range) };
        // A panic must not unwind from here: peers may still work on buffers that unwinding would free.
        if catch_unwind(AssertUnwindSafe(work)).is_err() {
            let _ = self.broken.set(world_rank);
        }
        self.left.fetch_sub(1, Ordering::AcqRel) == 1
    }

    // Acquires what all pieces have written, for members that read it next or free what was read.
    fn is_done(&self) -> bool {
        self.left.load(Ordering::Acquire) == 0
    }

    fn verdict(&self) -> Result<()> {
        let reason = || format!("panicked in {}", self.calls[0].describe_with_parts());
        self.broken.get().map_or(Ok(()), |&rank| {
            Err(Error::Aborted {
                rank,
                reason: reason(),
            })
        })
    }
}

// By its path, because `crates/interleavings` names this file by a path.
#[cfg(test)]
#[path = "round/tests.rs"]
mod tests;
