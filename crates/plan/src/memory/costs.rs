//! What each segment of a stage costs and keeps in a micro-batch, in closed form.
//!
//! These numbers rank choices. Which of them fits, and how long it takes, the simulation decides.

use crate::Request;
use grid::machine::{GemmShape, Variant};
use parallel::{
    memory::{PlaceKind, SegmentMemory},
    work::{AttentionWork, LinearWork, Place, SegmentWork, WeightUse},
};
use std::ops::Range;
use train::Config;

/// What one segment of a micro-batch costs on a rank.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SegmentCost {
    /// Its number in the model.
    pub(super) number: usize,
    /// Seconds of its forward, and of its backward without a second forward.
    pub(super) forward_s: f64,
    pub(super) backward_s: f64,
    /// Bytes that it keeps for its backward, and those of its input, which a recomputation keeps instead.
    pub(super) kept: f64,
    pub(super) input: f64,
    /// The run of segments with which the model recomputes it.
    pub(super) run: Option<usize>,
    /// Micro-batches between its forward and its backward at a time.
    pub(super) in_flight: f64,
    /// Whether another segment runs behind it in its part of the model.
    pub(super) is_followed: bool,
}

/// Bytes per second to and from the places beyond the device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Links {
    pub(super) host: f64,
    pub(super) files: f64,
}

impl Links {
    pub(crate) fn of(request: &Request) -> Links {
        let device = &request.machine.device;
        Links {
            host: device.host_bandwidth(),
            files: device.files_bandwidth(),
        }
    }

    // Seconds of a copy in one direction.
    fn seconds(&self, bytes: f64, place: PlaceKind) -> f64 {
        match place {
            PlaceKind::Device => 0.0,
            PlaceKind::Host => bytes / self.host,
            PlaceKind::Files => bytes / self.files,
        }
    }
}

impl SegmentCost {
    /// Bytes that it keeps with this choice, on the device or elsewhere, behind a segment of its part with the choice `before`.
    pub(super) fn keeps(
        &self,
        own: SegmentMemory,
        before: Option<(&SegmentCost, SegmentMemory)>,
    ) -> f64 {
        let is_one = |(other, choice): (&SegmentCost, SegmentMemory)| {
            choice == own && other.run == self.run && other.run.is_some()
        };
        match own.recompute {
            false => self.kept,
            // A run that is recomputed as one keeps the input of its first segment.
            true if before.is_some_and(is_one) => 0.0,
            true => self.input,
        }
    }

    // Of its backward, with a second forward if that is the choice.
    fn backward(&self, own: SegmentMemory) -> f64 {
        match own.recompute {
            true => self.backward_s + self.forward_s,
            false => self.backward_s,
        }
    }

    /// Seconds that its choice adds to a micro-batch by itself.
    pub(super) fn own_seconds(&self, own: SegmentMemory) -> f64 {
        if own.recompute { self.forward_s } else { 0.0 }
    }

    /// Seconds for which a micro-batch waits for bytes of the segment before: they leave while this one runs forward, and come
    /// back while it runs backward.
    pub(super) fn waits(&self, own: SegmentMemory, seconds_of_copy: f64) -> f64 {
        (seconds_of_copy - self.forward_s).max(0.0)
            + (seconds_of_copy - self.backward(own)).max(0.0)
    }
}

/// Seconds that the bytes of a segment take to or from the place of its choice.
pub(super) fn copy_seconds(links: &Links, bytes: f64, choice: SegmentMemory) -> f64 {
    links.seconds(bytes, choice.place)
}

/// The segments of each stage of a configuration that is cut into parts of these depths, in the order of its parts; the last
/// segment of the model is in none, because its backward directly follows its forward. Empty for a schedule that cannot be built.
pub(crate) fn of_stages(
    request: &Request,
    config: &Config,
    depths: &[usize],
) -> Vec<Vec<SegmentCost>> {
    let local = Local { request, config };
    let (kind, number) = (config.parallel.schedule, config.parallel.grid.pipeline);
    let layout = kind.stages(number);
    let in_flight = kind.in_flight(number, config.training.micro_batches);
    let in_flight = in_flight.unwrap_or_else(|_| vec![1; layout.num_parts()]);
    let all = request.work.segments.len();
    let mut stages = vec![Vec::new(); number];
    for (part, segments) in parts(depths, all).into_iter().enumerate() {
        let end = segments.end.min(all.saturating_sub(1));
        let stage = &mut stages[layout.location(part).stage];
        for segment in segments.start..end {
            stage.push(SegmentCost {
                in_flight: in_flight.get(part).copied().unwrap_or(1) as f64,
                is_followed: segment + 1 < segments.end,
                ..local.segment(segment)
            });
        }
    }
    stages
}

// The segments of each part; without depths, there is one part.
fn parts(depths: &[usize], num_segments: usize) -> Vec<Range<usize>> {
    let one = [num_segments];
    let depths = if depths.is_empty() { &one[..] } else { depths };
    let mut end = 0;
    let part = |depth: &usize| {
        end += depth;
        end - depth..end
    };
    depths.iter().map(part).collect()
}

// A rank of a configuration.
struct Local<'a> {
    request: &'a Request,
    config: &'a Config,
}

impl Local<'_> {
    fn segment(&self, number: usize) -> SegmentCost {
        let work = &self.request.work;
        let segment = &work.segments[number];
        let grid = &self.config.parallel.grid;
        let spread = self.config.settings().sequence_parallel;
        let bytes = (self.rows() * self.config.training.precision.dtype().bytes()) as f64;
        let [forward_s, backward_s] = self.seconds(segment);
        let entering = work.wires.iter().filter(|wire| wire.to.contains(&number));
        let entering =
            entering.map(|wire| wire.elements as f64 / wire.place.ranks(grid, spread) as f64);
        SegmentCost {
            number,
            forward_s,
            backward_s,
            kept: bytes * segment.kept_elements(grid, spread, false),
            input: bytes * entering.sum::<f64>(),
            run: work.recomputed.iter().position(|run| run.contains(&number)),
            in_flight: 1.0,
            is_followed: true,
        }
    }

    // Rows of a micro-batch that a rank computes with.
    fn rows(&self) -> usize {
        let (training, grid) = (&self.config.training, &self.config.parallel.grid);
        (training.batch / (grid.data * grid.z * training.micro_batches).max(1)).max(1)
    }

    // Forward and backward: GEMMs, attention and elementwise kernels. What collectives show counts where the simulation judges.
    fn seconds(&self, segment: &SegmentWork) -> [f64; 2] {
        let of_linear = segment.linear.iter().map(|work| self.linear(work));
        let of_attention = segment.attention.iter().map(|work| self.attention(work));
        let elements = self.elementwise(segment);
        let all = of_linear.chain(of_attention).chain([elements]);
        all.fold([0.0; 2], |[forward, backward], [f, b]| {
            [forward + f, backward + b]
        })
    }

    fn linear(&self, work: &LinearWork) -> [f64; 2] {
        let grid = &self.config.parallel.grid;
        let m = self.rows() * work.vectors / self.tokens(work.tokens);
        let k = work.inputs / grid.get(work.reads);
        let mut seconds = [0.0; 2];
        for (outputs, weight) in work.outputs.iter().zip(&work.weights) {
            let n = outputs / grid.get(work.emits);
            seconds[0] += self.matmul([m, n, k], Variant::Nn);
            if work.wants_input {
                seconds[1] += self.matmul([m, k, n], Variant::Nt);
            }
            if *weight == WeightUse::Trained {
                seconds[1] += self.matmul([k, n, m], Variant::Tn);
            }
        }
        seconds
    }

    fn matmul(&self, [m, n, k]: [usize; 3], variant: Variant) -> f64 {
        let dtype = self.config.training.precision.dtype();
        let machine = &self.request.machine;
        let shape = GemmShape {
            m,
            n,
            k,
            dtype: dtype.name(),
            variant,
            bytes: (m * k + k * n + m * n) * dtype.bytes(),
        };
        machine
            .product
            .seconds(&shape, &machine.device, self.request.tuned)
    }

    fn attention(&self, work: &AttentionWork) -> [f64; 2] {
        let grid = &self.config.parallel.grid;
        let heads = self.rows() * work.heads / grid.x;
        let shape = work.shape(heads);
        let dtype = self.config.training.precision.dtype();
        let form = self.request.attention(false);
        [false, true].map(|backward| {
            if backward && !work.has_backward {
                return 0.0;
            }
            let seconds = self
                .request
                .machine
                .attention(&shape, dtype, form, backward);
            seconds / self.tokens(work.tokens) as f64
        })
    }

    // A third of the passes over elements that the planner counts for forward and backward together.
    fn elementwise(&self, segment: &SegmentWork) -> [f64; 2] {
        let grid = &self.config.parallel.grid;
        let spread = self.config.settings().sequence_parallel;
        let passes = |place: Place| {
            let passes = if place.cut == Some(grid::Axis::X) {
                8.0
            } else {
                5.0
            };
            passes * segment.elements[place.index()] as f64 / place.ranks(grid, spread) as f64
        };
        let elements = self.rows() as f64 * Place::all().map(passes).sum::<f64>();
        let bytes = elements * self.config.training.precision.dtype().bytes() as f64;
        let bandwidth = self
            .request
            .machine
            .device
            .kernel_bandwidth("unary", "elementwise");
        let seconds = bytes / bandwidth;
        match segment.has_backward {
            true => [seconds / 3.0, seconds * 2.0 / 3.0],
            false => [seconds / 3.0, 0.0],
        }
    }

    fn tokens(&self, cut: bool) -> usize {
        match cut {
            true => self.config.parallel.grid.context,
            false => 1,
        }
    }
}
