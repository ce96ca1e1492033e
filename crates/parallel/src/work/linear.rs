//! Linear layers and what they move.

use crate::{Operation, Parameter, Quantised, Reproducible};
use grid::Axis;

/// Linear layers that read the same features, such as queries, keys and values; the gradient of these features
/// is reduced once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinearWork {
    /// Features that they read.
    pub inputs: usize,
    /// Features that each of them emits.
    pub outputs: Vec<usize>,
    /// What becomes of the weight of each.
    pub weights: Vec<WeightUse>,
    /// The axis over which they contract.
    pub reads: Axis,
    /// The axis over which they emit.
    pub emits: Axis,
    /// Vectors of features per row of the batch, such as the tokens of a sequence.
    pub vectors: usize,
    /// Whether sequence parallelism spreads the vectors that they read over X. Those that they emit are spread if they
    /// sum over X.
    pub spread: bool,
    /// Whether Context cuts their sequences.
    pub tokens: bool,
    /// Whether what they read has a gradient: not before the first trained parameter.
    pub wants_input: bool,
    /// Whether their results are added to those of other layers, as an adapter's are.
    pub onto: bool,
}

/// What becomes of a layer's weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightUse {
    /// It is trained.
    Trained,
    /// It stays as it is, without a gradient.
    Frozen,
    /// The same, stored as codes, from which each use computes it.
    Quantised(Quantised),
}

impl WeightUse {
    /// That of a parameter.
    pub(crate) fn of(parameter: &Parameter) -> WeightUse {
        match (parameter.quantised(), parameter.is_frozen()) {
            (Some(format), _) => WeightUse::Quantised(format),
            (None, true) => WeightUse::Frozen,
            (None, false) => WeightUse::Trained,
        }
    }

    /// Bytes of a weight on the way to its use, if they are `bytes` without codes.
    pub fn bytes(self, bytes: usize) -> f64 {
        match self {
            WeightUse::Quantised(format) => format.bytes_per_weight(),
            _ => bytes as f64,
        }
    }
}

/// Collectives on activations that linear layers run once in a phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinearTraffic {
    /// When they run.
    pub phase: Phase,
    /// The axis over which they run.
    pub axis: Axis,
    /// What they do.
    pub operation: Operation,
    /// Features of each call's vectors.
    pub features: Vec<usize>,
    /// The axis that cuts these features.
    pub cut: Axis,
    /// Whether elements travel in the accumulator type instead of the compute type.
    pub wide: bool,
}

/// When linear layers run a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// In each forward, the recomputed one included.
    Forward,
    /// In backward, before any of its matmuls, if there is one.
    Backward,
    /// In backward, where it may run beside the matmul of the weights' gradients (OAR).
    BesideWeights,
    /// In backward, where it may run beside the matmul of the inputs' gradient, unless a recomputation has just done the same.
    BesideInputs,
}

impl Phase {
    /// How often it occurs in a micro-batch whose forward runs `forwards` times.
    pub fn times(self, forwards: usize) -> usize {
        match self {
            Phase::Forward => forwards,
            Phase::Backward | Phase::BesideWeights => 1,
            Phase::BesideInputs => usize::from(forwards == 1),
        }
    }

    /// Whether compute may run beside it.
    pub fn may_overlap(self) -> bool {
        matches!(self, Phase::BesideWeights | Phase::BesideInputs)
    }
}

impl LinearWork {
    /// Whether the weight of one of them is trained.
    pub fn trains(&self) -> bool {
        self.weights.contains(&WeightUse::Trained)
    }

    /// Whether backward reaches them.
    pub fn has_backward(&self) -> bool {
        self.wants_input || self.trains()
    }

    /// How often their weights are gathered in a micro-batch whose forward runs `forwards` times, where gathered weights are kept
    /// until backward or not: also for the gradient of the inputs, if there is one.
    pub fn gathers(&self, forwards: usize, keeps_gathered: bool) -> usize {
        forwards + usize::from(self.wants_input && !keeps_gathered)
    }

    /// The sums of outputs and of the inputs' gradient over the axes that contract them, and under sequence parallelism the
    /// gathers of vectors that X spreads.
    pub fn traffic(&self, bits: Reproducible, sequence_parallel: bool) -> Vec<LinearTraffic> {
        use Operation::{AllGather, AllReduce, AllToAll, ReduceScatter};
        let (outputs, inputs) = (&self.outputs, vec![self.inputs]);
        let of_outputs = |phase, operation| LinearTraffic {
            phase,
            axis: self.reads,
            operation,
            features: outputs.clone(),
            cut: self.emits,
            wide: false,
        };
        let of_inputs = |phase, operation| LinearTraffic {
            phase,
            axis: self.emits,
            operation,
            features: inputs.clone(),
            cut: self.reads,
            wide: false,
        };
        // Layers that emit X read vectors that are spread, and layers that read X spread those that they emit.
        let enters = sequence_parallel && self.spread && self.emits == Axis::X;
        let leaves = sequence_parallel && self.reads == Axis::X;
        let mut all = match bits {
            Reproducible::Run => {
                let sum = |spread| if spread { ReduceScatter } else { AllReduce };
                vec![
                    of_outputs(Phase::Forward, sum(leaves)),
                    of_inputs(Phase::BesideWeights, sum(enters)),
                ]
            }
            // One exchange of nodes for each layer, in the accumulator type; sums return once.
            Reproducible::Grid => {
                let mut sums = vec![
                    LinearTraffic {
                        wide: true,
                        ..of_outputs(Phase::Forward, AllToAll)
                    },
                    LinearTraffic {
                        wide: true,
                        features: vec![self.inputs; outputs.len()],
                        ..of_inputs(Phase::BesideWeights, AllToAll)
                    },
                ];
                if !leaves {
                    sums.push(of_outputs(Phase::Forward, AllGather));
                }
                if !enters {
                    sums.push(of_inputs(Phase::BesideWeights, AllGather));
                }
                sums
            }
        };
        if leaves {
            all.push(of_outputs(Phase::Backward, AllGather));
        }
        if enters {
            all.push(of_inputs(Phase::Forward, AllGather));
            all.push(of_inputs(Phase::BesideInputs, AllGather));
        }
        all.retain(|one| match one.phase {
            Phase::Forward => true,
            Phase::Backward => self.has_backward(),
            Phase::BesideWeights => self.wants_input,
            Phase::BesideInputs => self.trains(),
        });
        all
    }
}
