//! The streams of a rank in addition to its compute stream.

use tensor::StreamKind;

/// The traffic of a stream. Where the device has queues for it, each kind has its own stream, so that work of one never waits behind
/// another's. Messages that skip parts have streams of their channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// All-reduces of dX (OAR).
    AllReduce,
    /// Gathers of weights (OAG).
    Gather,
    /// Reduce-scatters of weight gradients (ORS).
    Scatter,
    /// Reductions of gradient buckets.
    Reduce,
    /// Keys and values, and their gradients, from rank to rank of Context.
    Keys,
    /// All of the kinds above.
    Collectives,
    /// Activations to the next stage.
    SendActivations,
    /// Activations from the previous stage.
    RecvActivations,
    /// Gradients to the previous stage.
    SendGradients,
    /// Gradients from the next stage.
    RecvGradients,
    /// Activations to the previous stage, on the way back of a V.
    SendActivationsBack,
    /// Activations from the next stage, on the way back.
    RecvActivationsBack,
    /// Gradients to the next stage, of the way back.
    SendGradientsBack,
    /// Gradients from the previous stage, of the way back.
    RecvGradientsBack,
    /// Everything to other stages.
    Sends,
    /// Everything from other stages.
    Receives,
    /// State of every kind to memory of the host: it has one link for each direction.
    ToHost,
    /// State from memory of the host.
    FromHost,
    /// State to files.
    ToFiles,
    /// State from files.
    FromFiles,
}

impl Lane {
    pub(crate) const COUNT: usize = Lane::FromFiles as usize + 1;

    /// The kinds of collectives.
    pub(crate) const COLLECTIVES: usize = Lane::Collectives as usize;

    /// Whether what passes are collectives of this stage. All of its ranks queue these in one order.
    pub(crate) const fn is_of_collectives(self) -> bool {
        (self as usize) < Lane::COLLECTIVES
    }

    /// What passes.
    pub(crate) const fn kind(self) -> StreamKind {
        match self {
            Lane::ToHost | Lane::FromHost => StreamKind::Host,
            Lane::ToFiles | Lane::FromFiles => StreamKind::Files,
            _ => StreamKind::Communication,
        }
    }

    /// Name in traces.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Lane::AllReduce => "tensor all-reduce",
            Lane::Gather => "gather weights",
            Lane::Scatter => "scatter gradients",
            Lane::Reduce => "reduce gradients",
            Lane::Keys => "pass keys",
            Lane::Collectives => "collectives",
            Lane::SendActivations => "send activations",
            Lane::RecvActivations => "receive activations",
            Lane::SendGradients => "send gradients",
            Lane::RecvGradients => "receive gradients",
            Lane::SendActivationsBack => "send activations back",
            Lane::RecvActivationsBack => "receive activations back",
            Lane::SendGradientsBack => "send gradients back",
            Lane::RecvGradientsBack => "receive gradients back",
            Lane::Sends => "send",
            Lane::Receives => "receive",
            Lane::ToHost => "to the host",
            Lane::FromHost => "from the host",
            Lane::ToFiles => "to files",
            Lane::FromFiles => "from files",
        }
    }
}
