//! One rank's part in its group: it arrives at the rounds of a call, and waits until all have ended.

use super::{
    group::{Group, Ticket, ended},
    round::Round,
};
use crate::stream::cancelled;
use crate::wait::POLL;
use hal::{AbortSignal, Error, Result, Stopwatch};
use std::sync::Arc;
use std::time::Duration;

/// A rank of a group.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) group: Arc<Group>,
    pub(super) rank: usize,
    pub(super) timeout: Duration,
    pub(super) abort: Arc<AbortSignal>,
}

impl Member {
    pub(super) fn world_rank(&self) -> usize {
        self.group.members[self.rank]
    }

    // Attributes the end of the job to the rank that the group lost, not to the rank that noticed first. The
    // lost rank's own report, a panic or an error, may still be on its way.
    fn blame(&self, error: &Error) {
        if let Error::Aborted { rank, reason } = error {
            self.abort.raise(*rank, reason.clone());
        }
    }

    fn fail_if_aborted(&self) {
        if let Err(error) = self.abort.check() {
            self.group.fail(error);
        }
        if cancelled() {
            let reason = format!(
                "its thread panicked while its stream worked for {}",
                self.group.label
            );
            self.group.fail(Error::Aborted {
                rank: self.world_rank(),
                reason,
            });
        }
    }
}

/// The collectives of one call, which has its place in the group's order but may run later.
#[derive(Debug)]
pub(super) struct Run {
    member: Arc<Member>,
    tickets: Vec<Ticket>,
}

impl Run {
    /// A call by `member`.
    pub(super) fn new(member: Arc<Member>, tickets: Vec<Ticket>) -> Run {
        Run { member, tickets }
    }

    /// Arrives at all rounds, works on whichever can progress, and returns once all have ended, when no peer
    /// touches the buffers any more.
    ///
    /// # Safety
    /// The buffers have the lengths that the operations require. Until this function returns they are live, and
    /// nobody else uses them.
    ///
    /// # Errors
    /// The first failure among the rounds.
    pub(super) unsafe fn execute(mut self) -> Result<()> {
        self.member.fail_if_aborted();
        let start = Stopwatch::start();
        let tickets = std::mem::take(&mut self.tickets);
        // SAFETY: the caller guarantees the buffers until this function returns, which is after all rounds have ended.
        let come = |ticket: &Ticket| unsafe { self.member.group.come(ticket) };
        let rounds: Vec<Arc<Round>> = tickets.iter().map(come).collect();
        loop {
            let signal = self.member.group.signal(self.member.rank);
            let seen = signal.seen();
            if let Some(outcome) = self.advance(&tickets, &rounds) {
                return outcome.inspect_err(|error| self.member.blame(error));
            }
            let limit = self
                .member
                .timeout
                .saturating_sub(start.elapsed())
                .clamp(Duration::from_millis(1), POLL);
            signal.wait(seen, limit);
            self.member.fail_if_aborted();
            self.withdraw_after(&start, &tickets, &rounds);
        }
    }

    // The outcome, once all rounds have ended. While some rounds wait for members, complete ones progress.
    fn advance(&self, tickets: &[Ticket], rounds: &[Arc<Round>]) -> Option<Result<()>> {
        let Member { group, rank, .. } = &*self.member;
        let mut outcomes = Some(Ok(()));
        for (ticket, round) in tickets.iter().zip(rounds) {
            let outcome = ended(group.advance(*rank, ticket.key, round));
            outcomes = outcomes
                .zip(outcome)
                .map(|(earlier, outcome)| earlier.and(outcome));
        }
        outcomes
    }

    fn withdraw_after(&self, start: &Stopwatch, tickets: &[Ticket], rounds: &[Arc<Round>]) {
        let waited = start.elapsed();
        if waited < self.member.timeout {
            return;
        }
        for (ticket, _) in tickets
            .iter()
            .zip(rounds)
            .filter(|(_, round)| round.is_gathering())
        {
            self.member.group.withdraw(ticket.key, |missing| {
                self.timed_out(ticket, missing, waited)
            });
        }
    }

    fn timed_out(&self, ticket: &Ticket, missing: Vec<usize>, waited: Duration) -> Error {
        Error::Timeout {
            group: self.member.group.label.clone(),
            rank: self.member.world_rank(),
            operation: ticket.describe(),
            sequence: ticket.key.sequence(),
            missing,
            waited,
        }
    }
}

impl Drop for Run {
    // A failed stream drops its jobs, and the others would wait for this rank in vain.
    fn drop(&mut self) {
        if let Some(ticket) = self.tickets.first() {
            let (call, number) = (ticket.describe(), ticket.key.sequence());
            let reason = format!(
                "its stream had failed before {call} (collective {number} of {})",
                self.member.group.label
            );
            self.member.group.fail(Error::Aborted {
                rank: self.member.world_rank(),
                reason,
            });
        }
    }
}
