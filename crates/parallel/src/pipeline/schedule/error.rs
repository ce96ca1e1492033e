//! Errors of a schedule, or of a request for one.

use super::{Action, Channel, Deadlock};

/// Result with [`ScheduleError`].
pub type Result<T> = std::result::Result<T, ScheduleError>;

/// A fault, with the stage, action and micro-batch concerned. Positions count from 0 in the stage's list.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// Arguments for which no schedule, partition or policy exists.
    #[error("{operation}: {found}, needs {needed}")]
    Invalid {
        /// The function that refused.
        operation: &'static str,
        /// The value it was given.
        found: String,
        /// The values it accepts.
        needed: String,
    },
    /// A name that is not a schedule.
    #[error(
        "schedule: found `{found}`, needs gpipe, 1f1b, interleaved[:CHUNKS], zb-h1, zb-v, pipedream, pipedream-2bw or message-driven[:IN_FLIGHT], numbers from 1"
    )]
    Name {
        /// The name.
        found: String,
    },
    /// An action that this stage has no reason for: no such micro-batch or chunk, no message there, or another
    /// peer.
    #[error("check: stage {stage}, position {index}: found {action}, needs {needed}")]
    Misplaced {
        /// The stage.
        stage: usize,
        /// Position in its list.
        index: usize,
        /// The action found.
        action: Action,
        /// What would be correct.
        needed: String,
    },
    /// The same action twice.
    #[error("check: stage {stage}: {action} at positions {first} and {second}, needs once")]
    Duplicate {
        /// The stage.
        stage: usize,
        /// The action.
        action: Action,
        /// Its first position.
        first: usize,
        /// Its second position.
        second: usize,
    },
    /// An action that is missing. For a message, `waiting` is the other stage and what it does in vain.
    #[error("check: stage {stage}: no {action}, needs once{}", for_whom(waiting))]
    Missing {
        /// The stage.
        stage: usize,
        /// The missing action.
        action: Action,
        /// The other end of the message.
        waiting: Option<(usize, Action)>,
    },
    /// An action before one on which it depends, on the same stage.
    #[error(
        "check: stage {stage}: {action} at position {index}, needs after {needs}, which is at {needs_index}"
    )]
    Order {
        /// The stage.
        stage: usize,
        /// The action that comes too early.
        action: Action,
        /// Its position.
        index: usize,
        /// The action on which it depends.
        needs: Action,
        /// The position of that action.
        needs_index: usize,
    },
    /// A channel whose two ends disagree on the order of messages.
    #[error(
        "check: {channel}, message {position}: sender does {sent}, receiver does {received}, needs the same message"
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
    /// Stages that wait for one another forever.
    #[error("check: deadlock, needs an order that finishes: {0}")]
    Deadlock(Deadlock),
}

fn for_whom(waiting: &Option<(usize, Action)>) -> String {
    waiting
        .map(|(stage, action)| format!(" for stage {stage} to {action}"))
        .unwrap_or_default()
}
