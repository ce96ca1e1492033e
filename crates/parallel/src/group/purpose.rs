//! The purposes of communicators.

/// The purpose of a group's communicator. Each purpose has its own, so that work of one never queues behind
/// another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Purpose {
    /// Collectives whose result the caller needs at once, and OAR.
    Main,
    /// Gathers of weights (OAG).
    Gather,
    /// Reduce-scatters of weight gradients (ORS).
    Scatter,
    /// Reductions of gradient buckets.
    Bucket,
    /// Keys and values, and their gradients, from rank to rank of Context.
    Keys,
    /// Activations between pipeline stages.
    Activation,
    /// Gradients between pipeline stages.
    Gradient,
}

impl Purpose {
    pub(crate) const COUNT: usize = Purpose::Gradient as usize + 1;
}
