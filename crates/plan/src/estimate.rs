//! What a candidate costs at least, in closed form: to leave out the hopeless before anything is simulated.
//!
//! Time is the cost model of ALGORITHM section 8 in this library's words: the products of every layer, the collectives
//! that nothing can hide, and what is longer than the compute that could hide it. Memory is what every run holds: the
//! parameters' bytes, and the activations that wait for their backward.

use crate::{Candidate, Preset, Request};
use grid::{
    Axis, Degrees,
    machine::{Machine, Operation, Placement, ProductShape, Route, Variant},
};
use parallel::pipeline::ScheduleKind;
use tensor::DType;
use train::config::Precision;

/// A lower bound for a candidate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Seconds of a step.
    pub step_s: f64,
    /// Bytes on the fullest rank.
    pub memory: f64,
}

/// The bound for one candidate.
pub fn estimate(request: &Request, candidate: &Candidate) -> Estimate {
    let view = View::new(request, candidate);
    Estimate { step_s: view.step(), memory: view.memory() }
}

struct View<'a> {
    request: &'a Request,
    candidate: &'a Candidate,
    machine: &'a Machine,
    placement: Placement,
    degrees: Degrees,
    dtype: DType,
    rows: usize,
    tuned: bool,
}

impl<'a> View<'a> {
    fn new(request: &'a Request, candidate: &'a Candidate) -> View<'a> {
        let (machine, degrees) = (&*request.machine, candidate.degrees);
        let rows = candidate.local_sequences(request.batch) * request.model.context;
        View {
            request,
            candidate,
            machine,
            placement: machine.placement(request.devices),
            degrees,
            dtype: request.precision.dtype(),
            rows,
            tuned: true,
        }
    }

    fn layers(&self) -> f64 {
        self.request.model.layers as f64 / self.degrees.pipeline as f64
    }

    // Input and output width of the four linear layers of a block, and whether they are normal or transposed.
    fn matrices(&self) -> [(usize, usize, bool); 4] {
        let model = &self.request.model;
        let (h, mlp) = (model.hidden, model.mlp_hidden());
        let kv = model.kv_heads() * model.head_size();
        [(h, h + 2 * kv, true), (h, h, false), (h, mlp, true), (mlp, h, false)]
    }

    fn step(&self) -> f64 {
        let micro = self.matrices().iter().map(|matrix| self.linear(*matrix)).sum::<f64>() * self.layers();
        let micro = micro + (self.attention() + self.elementwise()) * self.layers() + self.head();
        let passes = self.candidate.micro_batches as f64;
        let bubble = match self.candidate.schedule {
            ScheduleKind::Interleaved { chunks } => (self.degrees.pipeline - 1) as f64 / chunks as f64,
            _ => (self.degrees.pipeline - 1) as f64,
        };
        let pace = self.machine.crowding(self.placement.per_node) / self.machine.device.slowest.value;
        (micro * (passes + bubble)) * pace + self.reduction() + self.update()
    }

    // A layer's forward (twice when it is computed again) and backward.
    fn linear(&self, (k, n, normal): (usize, usize, bool)) -> f64 {
        let (contracted, emitted) = if normal { (Axis::Y, Axis::X) } else { (Axis::X, Axis::Y) };
        let (k, n) = (k / self.degrees.get(contracted), n / self.degrees.get(emitted));
        let size = self.dtype.bytes();
        let gather = self.collective(Operation::AllGather, k * n * size, Axis::Z);
        let scatter = self.collective(Operation::ReduceScatter, k * n * self.accumulated(), Axis::Z);
        let forward = self.collective(Operation::AllReduce, self.rows * n * size, contracted);
        let backward = self.collective(Operation::AllReduce, self.rows * k * size, emitted);
        let product = |m, n, k, variant| self.product(m, n, k, variant);
        let (y, dx, dw) = (
            product(self.rows, n, k, Variant::Nn),
            product(self.rows, k, n, Variant::Nt),
            product(k, n, self.rows, Variant::Tn),
        );
        let forwards = if self.candidate.recompute { 2.0 } else { 1.0 };
        let gathers = if self.candidate.keep_gathered { 1.0 } else { forwards + 1.0 };
        let compute = forwards * y + dx + dw;
        // Of the traffic, what may run beside compute is hidden as far as the compute goes.
        let (exposed, hidden) = match self.request.preset {
            Preset::Ours => (forwards * forward, gathers * gather + scatter + backward),
            Preset::PublishedAxonn => {
                (forwards * forward + gather, (gathers - 1.0) * gather + scatter + backward)
            }
        };
        exposed + compute.max(hidden)
    }

    fn product(&self, m: usize, n: usize, k: usize, variant: Variant) -> f64 {
        let bytes = (m * k + k * n + m * n) * self.dtype.bytes();
        let shape = ProductShape { m, n, k, dtype: self.dtype.name(), variant, bytes };
        self.machine.product.seconds(&shape, &self.machine.device, self.tuned)
    }

    fn attention(&self) -> f64 {
        let model = &self.request.model;
        let heads = model.heads / self.degrees.x;
        let flop = 2.0 * (self.rows * model.context * heads * model.head_size()) as f64;
        let device = &self.machine.device;
        let peak = device.peak(self.dtype.name());
        let forwards = if self.candidate.recompute { 2.0 } else { 1.0 };
        flop / peak * (forwards / device.attention.forward.value + 2.5 / device.attention.backward.value)
    }

    // About 20 passes over the residual's width and 8 over the wide half of the MLP, forward and backward together.
    fn elementwise(&self) -> f64 {
        let model = &self.request.model;
        let size = self.dtype.bytes() as f64;
        let narrow = (self.rows * model.hidden) as f64 / self.degrees.y as f64;
        let wide = (self.rows * model.mlp_hidden()) as f64 / self.degrees.x as f64;
        (20.0 * narrow + 8.0 * wide) * size / self.machine.device.kernel_bandwidth("unary", "elementwise")
    }

    fn head(&self) -> f64 {
        let model = &self.request.model;
        self.linear((model.hidden, model.padded_vocabulary(), true)) / self.degrees.pipeline as f64
    }

    // Gradients over Data, after the last backward; behind it as far as one micro-batch goes with our defaults.
    fn reduction(&self) -> f64 {
        let bytes = self.parameters() * self.accumulated() as f64;
        let tensors = match self.request.preset {
            Preset::Ours => (bytes / 200e6).ceil().max(1.0),
            Preset::PublishedAxonn => 12.0 * self.layers(),
        };
        let one = self.collective(Operation::AllReduce, (bytes / tensors) as usize, Axis::Data);
        let share = if self.request.preset == Preset::Ours { 0.3 } else { 1.0 };
        one * tensors * share
    }

    fn update(&self) -> f64 {
        let shared = if self.candidate.sharded_optimiser { self.degrees.data as f64 } else { 1.0 };
        let bytes = 30.0 * self.parameters() / shared;
        bytes / self.machine.device.kernel_bandwidth("adamw", "optimiser")
    }

    // Elements of the parameters that a rank holds.
    fn parameters(&self) -> f64 {
        let Degrees { x, y, z, pipeline, .. } = self.degrees;
        self.request.model.num_parameters() as f64 / (x * y * z * pipeline) as f64
    }

    fn accumulated(&self) -> usize {
        self.dtype.accumulator().bytes()
    }

    fn collective(&self, operation: Operation, bytes: usize, axis: Axis) -> f64 {
        let size = self.degrees.get(axis);
        if size == 1 {
            return 0.0;
        }
        let inside = self.candidate.order.inside(axis).iter().map(|inner| self.degrees.get(*inner)).product();
        self.machine.collective(operation, bytes, Route::strided(inside, size, self.placement)).seconds()
    }

    fn memory(&self) -> f64 {
        let (state, copy) = match self.request.precision {
            Precision::F64 => (32.0, 0.0),
            Precision::F32 => (16.0, 0.0),
            Precision::Bf16 | Precision::F16 => (16.0, 2.0),
        };
        let shared = if self.candidate.sharded_optimiser { self.degrees.data as f64 } else { 1.0 };
        // Weights, gradients and the two moments are a quarter of the state each; sharing spares three of them.
        let per_parameter = state / 4.0 + copy + 0.75 * state / shared;
        let in_flight = self.candidate.micro_batches.min(self.degrees.pipeline) as f64;
        let width = self.request.model.hidden as f64 / self.degrees.y as f64;
        // A recomputed layer keeps its input; the others keep at least eight tensors of that size.
        let kept = if self.candidate.recompute { 1.0 } else { 8.0 };
        let activations =
            kept * self.layers() * in_flight * self.rows as f64 * width * self.dtype.bytes() as f64;
        per_parameter * self.parameters() + activations
    }
}
