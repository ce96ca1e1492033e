//! What ranks meet for, and what each brings.

use crate::event::Point;
use hal::Collective;
use std::sync::Arc;

/// Which meeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    /// The first one.
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

/// What a rank tells the others.
#[derive(Clone, Debug)]
pub(super) struct Post {
    /// Its call, once it has come with one.
    pub(super) call: Option<Collective>,
    /// Behind this its buffers may be read, or have been read by it.
    pub(super) ready: Option<Arc<Point>>,
    /// The vendor's number of its device.
    pub(super) ordinal: usize,
    /// Its elements, where the host reduces.
    pub(super) bytes: Option<Arc<Vec<u8>>>,
}

impl Post {
    /// That the rank is there.
    pub(super) fn presence() -> Post {
        Post {
            call: None,
            ready: None,
            ordinal: 0,
            bytes: None,
        }
    }
}
