//! Arrows between sends and receives.

use std::hash::{DefaultHasher, Hash, Hasher};

/// Connects the two ends of a message.
///
/// Both ranks compute it independently from what both know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FlowId(u64);

/// Viewers written in JavaScript represent integers exactly only below 2^53.
const ID_MASK: u64 = (1 << 53) - 1;

impl FlowId {
    /// The message with number `sequence` from rank `sender` to rank `receiver`.
    ///
    /// The same in every process of one program; two messages get the same id with a chance of 1 in 2^53.
    pub fn new(sender: usize, receiver: usize, sequence: u64) -> FlowId {
        let mut hasher = DefaultHasher::new();
        (sender, receiver, sequence).hash(&mut hasher);
        FlowId(hasher.finish() & ID_MASK)
    }

    /// The number written to the file.
    pub(super) fn number(self) -> u64 {
        self.0
    }
}

/// One end of an arrow: a time within a span of that stream.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowEnd {
    /// The message.
    pub id: FlowId,
    /// The rank.
    pub rank: usize,
    /// The stream that holds the span.
    pub stream: String,
    /// A time within the span, in microseconds on the trace's clock.
    pub at_us: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_agree_and_messages_differ() {
        assert_eq!(FlowId::new(1, 2, 3), FlowId::new(1, 2, 3));
        let ids = [
            FlowId::new(1, 2, 3),
            FlowId::new(2, 1, 3),
            FlowId::new(1, 2, 4),
        ];
        assert!(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2]);
        assert!(ids.iter().all(|id| id.number() < 1 << 53));
    }
}
