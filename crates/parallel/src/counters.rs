//! Bytes that collectives move, by axis and operation.

use grid::Axis;
use std::{collections::BTreeMap, fmt};

/// A kind of collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names of the collectives")]
pub enum Operation {
    AllReduce,
    AllGather,
    ReduceScatter,
    Broadcast,
    AllToAll,
    Send,
    Recv,
}

impl Operation {
    /// Lower-case name.
    pub const fn name(self) -> &'static str {
        match self {
            Operation::AllReduce => "all_reduce",
            Operation::AllGather => "all_gather",
            Operation::ReduceScatter => "reduce_scatter",
            Operation::Broadcast => "broadcast",
            Operation::AllToAll => "all_to_all",
            Operation::Send => "send",
            Operation::Recv => "recv",
        }
    }

    /// Bytes that each rank sends in a ring of `ranks` for a whole buffer of `bytes`.
    pub fn ring_bytes(self, bytes: u64, ranks: usize) -> f64 {
        let share = (ranks as f64 - 1.0) / ranks as f64;
        bytes as f64
            * match self {
                Operation::AllReduce => 2.0 * share,
                Operation::AllGather | Operation::ReduceScatter | Operation::AllToAll => share,
                Operation::Broadcast | Operation::Send => 1.0,
                Operation::Recv => 0.0,
            }
    }
}

/// The subject of a collective: a layer's own traffic, which the published formulas count, or other traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Subject {
    /// Weights, activations and gradients of linear layers.
    Linear,
    /// Look-up tables: their gathers, their outputs' reduction.
    Embedding,
    /// Keys, values and their gradients, where Context cuts sequences.
    Attention,
    /// Statistics of norms.
    Norm,
    /// Statistics of the loss, and its reporting.
    Loss,
    /// Gradients summed over replicas, and parameters gathered after a sharded update.
    Gradients,
    /// The gradients' norm.
    Clipping,
    /// Gradients of matrices that are brought together for their update, and what they become.
    Matrices,
    /// Scales of the optimiser's state, where that is kept as codes.
    Scales,
    /// Sums of squares of rows and columns, where the optimiser's state is kept as their means.
    Means,
    /// Activations and gradients between pipeline stages.
    Pipeline,
    /// Changes of layout.
    Layout,
    /// Traffic of a model's or trainer's own collectives.
    Other,
}

/// Number of calls and bytes of whole buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Number of collectives.
    pub calls: u64,
    /// Bytes of the whole buffers: what all ranks of the group together hold after a gather or before a
    /// scatter.
    pub bytes: u64,
}

/// Counts since the last reset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters(BTreeMap<(Axis, Operation, Subject), Count>);

impl Counters {
    /// Records one collective on a whole buffer of `bytes`.
    pub fn add(&mut self, axis: Axis, operation: Operation, subject: Subject, bytes: usize) {
        let count = self.0.entry((axis, operation, subject)).or_default();
        count.calls += 1;
        count.bytes += bytes as u64;
    }

    /// Starts from zero.
    pub fn reset(&mut self) {
        self.0.clear();
    }

    /// Calls and bytes of one operation on one axis, of one subject.
    pub fn get(&self, axis: Axis, operation: Operation, subject: Subject) -> Count {
        self.0
            .get(&(axis, operation, subject))
            .copied()
            .unwrap_or_default()
    }

    /// What was counted after `before`, an earlier state of these counters.
    pub fn since(&self, before: &Counters) -> Counters {
        let new = self.0.iter().map(|(key, count)| {
            let old = before.0.get(key).copied().unwrap_or_default();
            let calls = count.calls.saturating_sub(old.calls);
            let bytes = count.bytes.saturating_sub(old.bytes);
            (*key, Count { calls, bytes })
        });
        Counters(new.filter(|(_, count)| count.calls > 0).collect())
    }

    /// These counters after `times` more of what was counted since `before`.
    pub fn going_on(&self, before: &Counters, times: u64) -> Counters {
        let mut later = self.clone();
        for (key, count) in self.since(before).0 {
            let all = later.0.entry(key).or_default();
            all.calls += times * count.calls;
            all.bytes += times * count.bytes;
        }
        later
    }

    /// All counts that are not zero.
    pub fn iter(&self) -> impl Iterator<Item = (Axis, Operation, Subject, Count)> + '_ {
        self.0
            .iter()
            .map(|(&(axis, operation, subject), &count)| (axis, operation, subject, count))
    }

    /// Calls and bytes of one operation on one axis, of all subjects.
    pub fn total(&self, axis: Axis, operation: Operation) -> Count {
        let of = self
            .iter()
            .filter(|(a, o, ..)| (*a, *o) == (axis, operation));
        of.fold(Count::default(), |sum, (.., c)| Count {
            calls: sum.calls + c.calls,
            bytes: sum.bytes + c.bytes,
        })
    }
}

impl fmt::Display for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (axis, operation, subject, count) in self.iter() {
            let bytes = hal::error::Bytes(count.bytes as usize);
            let subject = format!("{subject:?}").to_lowercase();
            writeln!(
                f,
                "{:<9}{:<15}{subject:<11}{:>6} calls {bytes:>12}",
                axis.name(),
                operation.name(),
                count.calls
            )?;
        }
        Ok(())
    }
}
