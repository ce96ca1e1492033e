//! Memory for addends in flight, kept from call to call because touching fresh memory costs as much as adding.

use hal::{DType, RawSlice, lock};
use std::sync::Mutex;

/// Rooms that no call is using.
#[derive(Debug, Default)]
pub(super) struct Staging(Mutex<Vec<Vec<u64>>>);

impl Staging {
    /// A room of at least `bytes` bytes.
    pub(super) fn take(&self, bytes: usize) -> Room {
        let mut words = lock(&self.0).pop().unwrap_or_default();
        if words.len() < bytes.div_ceil(8) {
            words = vec![0; bytes.div_ceil(8)];
        }
        Room(words)
    }

    /// Keeps a room for the next call.
    pub(super) fn give_back(&self, room: Room) {
        lock(&self.0).push(room.0);
    }
}

/// Exclusively owned memory, aligned for every element type.
#[derive(Debug, Default)]
pub(super) struct Room(Vec<u64>);

impl Room {
    /// `len` elements from byte `start` on.
    pub(super) fn slice(&mut self, start: usize, len: usize, dtype: DType) -> RawSlice {
        assert!(
            start + len * dtype.bytes() <= 8 * self.0.len(),
            "a bug: a room is too small for its addends"
        );
        RawSlice {
            addr: self.0.as_mut_ptr() as u64 + start as u64,
            len,
            dtype,
        }
    }
}
