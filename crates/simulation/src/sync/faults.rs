//! What happens to the processes of a simulation.

use std::time::Duration;

/// A fault of one process, or of the whole machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fault {
    /// The process that it meets.
    pub process: usize,
    /// It comes after this many points of that process.
    pub after: u64,
    /// What it is.
    pub kind: FaultKind,
}

/// Kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FaultKind {
    /// The process dies, once all of its threads wait. A thread that works for others in their common memory does not die there:
    /// no real one can without taking the others along.
    Kill,
    /// The process is stopped for this long; its clock runs on.
    Stop(Duration),
    /// The clock of the process jumps ahead, as after the whole machine was suspended.
    Jump(Duration),
    /// All processes end, as at a power cut.
    PowerCut,
}
