//! What ranks meet for, and what each of them posts.

use crate::event::Point;
use hal::Collective;
use std::sync::Arc;

/// Identifies a meeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    /// Of all ranks, when they join.
    Join,
    /// Of all ranks, before they read.
    Collective { sequence: u64 },
    /// Of sender and receiver, before the latter reads.
    Message {
        from: usize,
        to: usize,
        sequence: u64,
    },
    /// After reading, of those who met for a collective.
    CollectiveRead { sequence: u64 },
    /// After reading, of those who met for a message.
    MessageRead {
        from: usize,
        to: usize,
        sequence: u64,
    },
}

impl Key {
    /// The meeting after reading.
    pub(super) fn read(self) -> Key {
        match self {
            Key::Collective { sequence } => Key::CollectiveRead { sequence },
            Key::Message { from, to, sequence } => Key::MessageRead { from, to, sequence },
            other => other,
        }
    }

    /// Whether it is one after reading.
    pub(super) fn is_read(self) -> bool {
        matches!(self, Key::CollectiveRead { .. } | Key::MessageRead { .. })
    }

    /// Its number among those of its kind.
    pub(super) fn sequence(self) -> u64 {
        match self {
            Key::Join => 0,
            Key::Collective { sequence } | Key::CollectiveRead { sequence } => sequence,
            Key::Message { sequence, .. } | Key::MessageRead { sequence, .. } => sequence,
        }
    }

    /// The ranks that meet, in order.
    pub(super) fn ranks(self, size: usize) -> Vec<usize> {
        match self {
            Key::Message { from, to, .. } | Key::MessageRead { from, to, .. } => vec![from, to],
            _ => (0..size).collect(),
        }
    }
}

/// What a rank posts for the others.
#[derive(Clone, Debug)]
pub(super) struct Post {
    /// Its call, unless the meeting has none.
    pub(super) call: Option<Collective>,
    /// The point behind which its buffers may be read, or behind which it has finished reading.
    pub(super) ready: Option<Arc<Point>>,
    /// The vendor's number of its device.
    pub(super) ordinal: usize,
    /// Its elements, where the host does the reduction.
    pub(super) bytes: Option<Arc<Vec<u8>>>,
}

impl Post {
    /// A post that only says that the rank is present.
    pub(super) fn presence() -> Post {
        Post {
            call: None,
            ready: None,
            ordinal: 0,
            bytes: None,
        }
    }
}
