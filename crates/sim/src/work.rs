//! The work of a device, piece by piece.

use hal::{Kernel, StreamKind};
use std::sync::Arc;

/// The purpose of a piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Category {
    /// GEMMs.
    Matmuls,
    /// Attention, forward and backward.
    Attention,
    /// Every other kernel, and copies; limited by memory bandwidth.
    Elementwise,
    /// Norms of gradients and updates of weights.
    Optimiser,
    /// Collectives.
    Collective,
    /// Messages between pipeline stages.
    Message,
}

impl Category {
    /// The category of a kernel.
    pub const fn of(kernel: &Kernel) -> Category {
        match kernel {
            Kernel::AttentionForward(_)
            | Kernel::AttentionBackward(_)
            | Kernel::PagedAttention(_) => Category::Attention,
            Kernel::SumSquares(_)
            | Kernel::Largest(_)
            | Kernel::ExactSquares(_)
            | Kernel::ExactTotal(_)
            | Kernel::ClipScale(_)
            | Kernel::AdamW(_)
            | Kernel::Sgd(_)
            | Kernel::Lion(_)
            | Kernel::CodedScales(_)
            | Kernel::CodedAdamW(_)
            | Kernel::LineLargest(_)
            | Kernel::LineSquares(_)
            | Kernel::FactorMeans(_)
            | Kernel::FactorDirections(_)
            | Kernel::ClipDirections(_)
            | Kernel::Momentum(_)
            | Kernel::UnitNorm(_) => Category::Optimiser,
            _ => Category::Elementwise,
        }
    }
}

/// Why a stream was busy or idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The host had not launched anything, or a launch was in progress.
    Host,
    /// Compute on another stream.
    Compute,
    /// A collective, of the group with that index in [`Breakdown::groups`](crate::Breakdown::groups).
    Group(u16),
    /// A message, or another pipeline stage that was late.
    Message,
}

/// Idle time of a stream right before a piece of work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gap {
    /// Its duration.
    pub seconds: f64,
    /// What caused the largest part of it.
    pub reason: Reason,
}

/// A piece of work on a stream, in virtual time.
#[derive(Clone, Debug, PartialEq)]
pub struct Work {
    /// The index of the stream on its device, in the order of creation.
    pub stream: usize,
    /// The purpose of that stream.
    pub kind: StreamKind,
    /// The kernel, `gemm`, `copy` or `upload`, or the collective.
    pub name: &'static str,
    /// The purpose of the work.
    pub category: Category,
    /// The group's label, for a collective or message.
    pub group: Option<Arc<str>>,
    /// Bytes of a collective or message, of a copy, or read and written by a kernel.
    pub bytes: usize,
    /// Floating-point operations of work limited by compute: GEMMs and attention.
    pub flop: f64,
    /// Start in seconds since the device was opened.
    pub start_s: f64,
    /// End.
    pub end_s: f64,
    /// Idle time of the stream before it.
    pub gap: Option<Gap>,
}

/// The known facts of a piece of work before its time is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Label {
    pub(crate) name: &'static str,
    pub(crate) category: Category,
    /// Index of the group, for a collective or message.
    pub(crate) group: Option<u16>,
    pub(crate) bytes: usize,
    pub(crate) flop: f64,
}

impl Label {
    /// What occupies a stream while the work runs.
    pub(crate) fn reason(&self) -> Reason {
        match (self.category, self.group) {
            (Category::Message, _) => Reason::Message,
            (_, Some(group)) => Reason::Group(group),
            (_, None) => Reason::Compute,
        }
    }
}
