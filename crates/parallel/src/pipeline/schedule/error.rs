//! What can be wrong with a schedule or with the wish for one.

use super::{Action, Channel, Deadlock};

/// Result with [`ScheduleError`].
pub type Result<T> = std::result::Result<T, ScheduleError>;

/// A fault, with the stage, action and micro-batch concerned. Positions count from 0 in the stage's list.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// Arguments that no schedule, partition or policy can be made for.
    #[error("{operation}: {found}, needed {needed}")]
    Invalid {
        /// The function that refused.
        operation: &'static str,
        /// What it was given.
        found: String,
        /// What it takes.
        needed: String,
    },
    /// A name that is no schedule.
    #[error(
        "schedule: found `{found}`, needed gpipe, 1f1b, interleaved[:CHUNKS] or message-driven[:IN_FLIGHT], numbers from 1"
    )]
    Name {
        /// The name.
        found: String,
    },
    /// An action that this stage has no cause for: no such micro-batch or chunk, no message there, or another peer.
    #[error("check: stage {stage}, position {index}: found {action}, needed {needed}")]
    Misplaced {
        /// The stage.
        stage: usize,
        /// Position in its list.
        index: usize,
        /// The action found.
        action: Action,
        /// What would be right.
        needed: String,
    },
    /// The same action twice.
    #[error("check: stage {stage}: {action} at positions {first} and {second}, needed once")]
    Duplicate {
        /// The stage.
        stage: usize,
        /// The action.
        action: Action,
        /// Where it is first.
        first: usize,
        /// Where it is again.
        second: usize,
    },
    /// An action that is not there. For a message, `waiting` is the other stage and what it does in vain.
    #[error("check: stage {stage}: no {action}, needed once{}", for_whom(waiting))]
    Missing {
        /// The stage.
        stage: usize,
        /// What it lacks.
        action: Action,
        /// The other end of the message.
        waiting: Option<(usize, Action)>,
    },
    /// An action before one that it depends on, on the same stage.
    #[error(
        "check: stage {stage}: {action} at position {index}, needed after {needs}, which is at {needs_index}"
    )]
    Order {
        /// The stage.
        stage: usize,
        /// The action that comes too early.
        action: Action,
        /// Its position.
        index: usize,
        /// What it depends on.
        needs: Action,
        /// The position of that.
        needs_index: usize,
    },
    /// A channel whose two ends disagree about the order of messages.
    #[error(
        "check: {channel}, message {position}: sender does {sent}, receiver does {received}, needed the same message"
    )]
    ChannelOrder {
        /// The channel.
        channel: Channel,
        /// Index of the first message that differs.
        position: usize,
        /// The sender's action.
        sent: Action,
        /// The receiver's action.
        received: Action,
    },
    /// Stages that wait for one another for ever.
    #[error("check: deadlock, needed an order that finishes: {0}")]
    Deadlock(Deadlock),
}

fn for_whom(waiting: &Option<(usize, Action)>) -> String {
    waiting
        .map(|(stage, action)| format!(" for stage {stage} to {action}"))
        .unwrap_or_default()
}
