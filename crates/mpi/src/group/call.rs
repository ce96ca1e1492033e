//! The collectives of one call, which progress together.

use super::member::{Member, Ticket};
use super::messages::Messages;
use super::progress::Progress;
use super::reduction::Reduction;
use super::tree::Tree;
use super::wire::Wire;
use crate::wait::Wait;
use hal::{Collective, Error, Result};
use std::time::Duration;

/// A rank that waits for a rank which itself waits has this much more patience, so that the latter reports.
const LONGER: Duration = Duration::from_secs(2);

/// Time in which the messages of an ended job must be given back.
const DRAINING: Duration = Duration::from_secs(2);

/// One collective in progress.
pub(super) trait Operation {
    /// Bytes of the memory that it takes for addends while it is in progress.
    fn room_bytes(&self) -> usize {
        0
    }

    /// Starts all sends and receives that can start at once.
    fn start(&mut self, wire: &mut Wire<'_>) -> Result<()>;

    /// One of its messages has completed, the one with this token.
    fn ended(&mut self, token: usize, wire: &mut Wire<'_>) -> Result<()>;

    /// Whether all of its work is done.
    fn is_done(&self) -> bool;
}

/// The collectives of one call, with their places in the group's order.
pub(super) struct CollectiveCall<'a> {
    member: &'a Member,
    tickets: Vec<Ticket>,
}

impl<'a> CollectiveCall<'a> {
    /// A call of `member`.
    pub(super) fn new(member: &'a Member, tickets: Vec<Ticket>) -> CollectiveCall<'a> {
        CollectiveCall { member, tickets }
    }

    /// Runs the call; `cancelled` returns true when the rank can wait no longer.
    ///
    /// # Safety
    /// The buffers have the lengths that the operations require. Until this returns they are live, and nobody
    /// else uses them.
    ///
    /// # Errors
    /// The first failure, which ends the job. From then on MPI touches no buffer.
    pub(super) unsafe fn run(self, cancelled: &dyn Fn() -> bool) -> Result<()> {
        let job = &self.member.job;
        job.abort().check()?;
        let mut wire = Wire::new(self.member, &self.tickets);
        let tickets = self.tickets.iter().enumerate();
        let operations = tickets.map(|(index, ticket)| operation(self.member, index, ticket));
        let mut progress = Progress::new(operations.collect());
        let outcome = self.drive(&mut wire, &mut progress, cancelled);
        if let Err(error) = &outcome {
            job.ending.raise(job, error);
            wire.take_back();
            if !wire.is_empty() {
                // Until the gate is closed, MPI may write to the buffers, which the caller is about to free.
                job.ending.settle(job);
                // Survivors use MPI again, which must have let go of the buffers.
                if job.ending.goes_on() && !wire.drain(DRAINING) {
                    job.ending.get_stuck();
                }
            }
        }
        outcome
    }

    fn drive(
        &self,
        wire: &mut Wire<'_>,
        progress: &mut Progress<'_>,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<()> {
        progress.start(wire)?;
        let mut wait = self.member.job.wait(self.member.timeout);
        while !progress.is_done() {
            let keys = wire.poll()?;
            wait.step(!keys.is_empty());
            for key in keys {
                progress.ended(key, wire)?;
            }
            self.look(wire, &mut wait, cancelled)?;
        }
        Ok(())
    }

    fn look(&self, wire: &Wire<'_>, wait: &mut Wait, cancelled: &dyn Fn() -> bool) -> Result<()> {
        if wait.is_due() && cancelled() {
            let rank = self.member.members[self.member.rank];
            let reason = format!(
                "its thread panicked while its stream worked for {}",
                self.member.label
            );
            return Err(Error::Aborted { rank, reason });
        }
        let longer = if wire.is_indirect() {
            LONGER
        } else {
            Duration::ZERO
        };
        wait.check(&self.member.job, longer, |waited| wire.late(waited))
    }
}

fn operation<'a>(member: &'a Member, index: usize, ticket: &'a Ticket) -> Box<dyn Operation + 'a> {
    match &ticket.call {
        Collective::AllReduce { .. } | Collective::ReduceScatter { .. } | Collective::Barrier => {
            Box::new(Reduction::new(member, index, ticket))
        }
        Collective::Broadcast { buffer, root } => {
            Box::new(Tree::new(member, index, ticket.tag, *buffer, *root))
        }
        Collective::AllGather { .. }
        | Collective::AllToAll { .. }
        | Collective::Send { .. }
        | Collective::Recv { .. } => Box::new(Messages::new(index, ticket)),
    }
}
