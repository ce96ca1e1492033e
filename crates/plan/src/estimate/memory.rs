//! Memory that every run holds.

use crate::{Candidate, Request};
use grid::Degrees;
use parallel::{
    ContextAttention,
    data::UpdatePlace,
    memory::recomputed_runs,
    work::{AttentionWork, SegmentWork, Work},
};
use std::ops::Range;
use train::config::{PlaceKind, Precision};

/// Whether the lower bounds of what a rank holds are within the device's memory, and within the host's.
pub fn fits(request: &Request, candidate: &Candidate) -> bool {
    memory(request, candidate) <= request.memory_bytes() as f64
        && request
            .host_memory_bytes()
            .is_none_or(|room| host_memory(request, candidate) <= room as f64)
}

/// A lower bound on the bytes of the fullest rank. The order of axes does not matter.
pub fn memory(request: &Request, candidate: &Candidate) -> f64 {
    let lines = line_bytes(request) / candidate.degrees.pipeline as f64;
    state(request, candidate, PlaceKind::Device) + lines + activations(request, candidate)
}

/// A lower bound on the bytes of the host's memory that a rank takes: for what is there instead of on the device, and for copies for
/// checkpoints.
pub fn host_memory(request: &Request, candidate: &Candidate) -> f64 {
    on_host(request, candidate) + copies(request)
}

/// Bytes of a rank that are on the host instead of on the device, if all stages have as much: weights, gradients, the optimiser's
/// state and activations.
pub fn on_host(request: &Request, candidate: &Candidate) -> f64 {
    let moved = moved_bytes(request, candidate, PlaceKind::Host);
    state(request, candidate, PlaceKind::Host) + waiting(candidate) * moved
}

// Weights, gradients and the optimiser's state that are in a place. Of what is beyond the device, two pieces or a few buckets are
// on it, which the bound leaves out.
fn state(request: &Request, candidate: &Candidate, place: PlaceKind) -> f64 {
    let (number, copy) = match request.precision {
        Precision::F64 => (8.0, 0.0),
        Precision::F32 => (4.0, 0.0),
        Precision::Bf16 | Precision::F16 => (4.0, 2.0),
    };
    let replicas = candidate.degrees.data as f64;
    let [state, gradients] = [
        candidate.sharding.shards_state(),
        candidate.sharding.shards_gradients(),
    ]
    .map(|is_sharded| if is_sharded { replicas } else { 1.0 });
    // The weights that a forward reads, gradients, and the optimiser's: its state, and weights to update if those have
    // another type, or are elsewhere.
    let (read, updated) = match (copy > 0.0, candidate.places.update) {
        (true, _) => (copy, number),
        (false, UpdatePlace::Host) => (number, number),
        (false, UpdatePlace::Device) => (number, 0.0),
    };
    let there = |its_place: PlaceKind, bytes: f64| if its_place == place { bytes } else { 0.0 };
    let places = candidate.places;
    // Some stage has one version of the gradients under every schedule.
    let trained = there(places.gradients, number / gradients)
        + there(places.optimiser, (updated + state_bytes(request)) / state);
    let stages = candidate.degrees.pipeline;
    // What a stage holds for each of its parameters. Of all cuts, the one that gives every stage the same bytes has the smallest
    // fullest stage.
    let of_stage = |stage: usize| {
        let versions = candidate.schedule.versions(stage, stages) as f64;
        there(places.weights, versions * weight_bytes(request, read))
            + trained * trained_share(request)
    };
    let shares: f64 = (0..stages).map(|stage| 1.0 / of_stage(stage)).sum();
    let per_parameter = match shares.is_finite() {
        true => stages as f64 / shares,
        false => 0.0,
    };
    per_parameter * parameters(request, &candidate.degrees)
}

// Bytes of the host's memory that a rank's copies of weights and state for checkpoints take, if all ranks write as much. Of frozen
// weights there are none.
fn copies(request: &Request) -> f64 {
    let (dtype, trained) = (request.precision.dtype(), trained_share(request));
    let of_trained = dtype.accumulator().bytes() as f64 + state_bytes(request);
    let num_copies = request.training().checkpoint_copies() as f64;
    num_copies * trained * of_trained * request.work.num_parameters() as f64
        / request.devices as f64
}

// The share of all activations of a micro-batch that a rank holds at a time.
fn waiting(candidate: &Candidate) -> f64 {
    let stages = candidate.degrees.pipeline;
    candidate.micro_batches.min(stages) as f64 / stages as f64
}

/// Bytes of the optimiser's state per element of the model, on average. Where state is kept as codes, a lower bound: without
/// scales, and as if all parameters were large.
pub(super) fn state_bytes(request: &Request) -> f64 {
    let optimiser = request.training().optimiser();
    if optimiser.codes().is_some() {
        return optimiser.num_states() as f64;
    }
    let number = request.precision.dtype().accumulator().bytes() as f64;
    let all = request.work.num_parameters().max(1) as f64;
    let matrices = elements_of_matrices(request) / all;
    let of_matrices = match optimiser.matrices() {
        Some(rule) => rule.num_states(),
        None => optimiser.num_states(),
    };
    let states = matrices * of_matrices as f64 + (1.0 - matrices) * optimiser.num_states() as f64;
    number * states
}

/// Bytes per element that move each way in an update, if the optimiser's state is beyond the device. That of matrices which
/// are updated as a whole moves twice: before they are brought together, and after.
pub(super) fn beyond_bytes(request: &Request) -> f64 {
    let number = request.precision.dtype().accumulator().bytes() as f64;
    let wide = match request.precision {
        Precision::F64 | Precision::F32 => 0.0,
        Precision::Bf16 | Precision::F16 => number,
    };
    let optimiser = request.training().optimiser();
    let of_matrices = optimiser.matrices().map_or(0.0, |rule| {
        let share = elements_of_matrices(request) / request.work.num_parameters().max(1) as f64;
        share * (number * rule.num_states() as f64 + wide)
    });
    state_bytes(request) + wide + of_matrices
}

/// Bytes per element of the gradients that leave and of the weights that return, if the host updates.
pub(super) fn crossing_bytes(request: &Request) -> [f64; 2] {
    let dtype = request.precision.dtype();
    [dtype.accumulator(), dtype].map(|dtype| dtype.bytes() as f64)
}

/// Bytes of the means of rows and columns, if the optimiser's state is kept as these: a lower bound, of hidden matrices alone.
fn line_bytes(request: &Request) -> f64 {
    let number = request.precision.dtype().accumulator().bytes() as f64;
    match request.training().optimiser().factors() {
        Some(_) => number * lines_of_matrices(request).iter().sum::<f64>(),
        None => 0.0,
    }
}

/// Rows and columns of all hidden matrices.
pub(super) fn lines_of_matrices(request: &Request) -> [f64; 2] {
    let segments = request.work.segments.iter();
    let matrices = segments.flat_map(|segment| &segment.matrices);
    matrices.fold([0.0; 2], |[rows, columns], matrix| {
        [rows + matrix[0] as f64, columns + matrix[1] as f64]
    })
}

/// Elements of all hidden matrices.
pub(super) fn elements_of_matrices(request: &Request) -> f64 {
    let segments = request.work.segments.iter();
    let matrices = segments.flat_map(|segment| &segment.matrices);
    matrices
        .map(|[rows, columns]| rows * columns)
        .sum::<usize>() as f64
}

/// The share of parameter elements that are trained.
pub(super) fn trained_share(request: &Request) -> f64 {
    request.work.num_trained() as f64 / request.work.num_parameters().max(1) as f64
}

/// Bytes of a weight that a forward reads, on average, if those that are not stored as codes have this many.
pub(super) fn weight_bytes(request: &Request, bytes: f64) -> f64 {
    let segments = request.work.segments.iter();
    let of_segment = |segment: &SegmentWork| {
        let others = segment.parameters - segment.quantised;
        others as f64 * bytes + segment.code_bytes
    };
    let all: f64 = segments.map(of_segment).sum();
    all / request.work.num_parameters().max(1) as f64
}

/// Number of parameter elements that a rank holds.
pub(super) fn parameters(request: &Request, degrees: &Degrees) -> f64 {
    let Degrees {
        x, y, z, pipeline, ..
    } = degrees;
    request.work.num_parameters() as f64 / (x * y * z * pipeline) as f64
}

// Memory kept until backward by what stays: for a recomputed segment its input, for any other segment everything that a
// matmul, a norm or attention reads, and gathered weights where they are kept, which never leave. Added to these is the largest of
// what one backward needs besides. The last segment keeps nothing, because its backward directly follows its forward.
fn activations(request: &Request, candidate: &Candidate) -> f64 {
    let (work, degrees) = (&*request.work, &candidate.degrees);
    let (size, accumulated) = sizes(request);
    let rows = candidate.local_sequences(request.batch) as f64;
    let whole = |parameters: usize| parameters as f64 / (degrees.x * degrees.y) as f64;
    let units = units(work, candidate);
    let mut held = 0.0;
    for unit in &units {
        if unit.stays() {
            held += rows * unit.kept;
        }
        if candidate.keep_gathered && !unit.recompute && unit.has_backward(work) {
            held += whole(unit.parameters(work));
        }
    }
    // Units behind one that runs backward have freed what they kept.
    let (mut largest, mut freed) = (0.0f64, 0.0);
    for (number, unit) in units.iter().enumerate().rev() {
        let segments = &work.segments[unit.segments.clone()];
        let of_keys = segments
            .iter()
            .map(|segment| keys(segment, candidate, accumulated));
        let of_keys = of_keys.fold(0.0, f64::max);
        if !unit.stays() {
            // On one stage, the one before is back too, if it left.
            let before = number.checked_sub(1).map(|number| &units[number]);
            let before = before.filter(|before| !before.stays() && degrees.pipeline == 1);
            let here = unit.kept + unit.needed + before.map_or(0.0, |before| before.kept);
            largest = largest.max(rows * here + whole(unit.gathered) - freed);
        }
        match unit.recompute {
            true => {
                let each = segments.iter().map(|segment| {
                    saved(segment, candidate, true) + keys(segment, candidate, accumulated)
                });
                let all = rows * unit.again + whole(unit.gathered);
                largest = largest.max(all).max(rows * each.fold(0.0, f64::max));
            }
            false => largest = largest.max(rows * of_keys - freed),
        }
        freed += if unit.stays() && !unit.recompute {
            rows * unit.kept
        } else {
            0.0
        };
    }
    size * (waiting(candidate) * held + largest)
}

// Bytes of an element, and elements that one of the accumulator type takes.
fn sizes(request: &Request) -> (f64, f64) {
    let dtype = request.precision.dtype();
    let size = dtype.bytes() as f64;
    (size, dtype.accumulator().bytes() as f64 / size)
}

/// Bytes of activations that leave the device for a place in a micro-batch's forward and come back in its backward, of all
/// stages.
pub(super) fn moved_bytes(request: &Request, candidate: &Candidate, place: PlaceKind) -> f64 {
    let rows = candidate.local_sequences(request.batch) as f64;
    let units = units(&request.work, candidate);
    let those = units.iter().filter(|unit| unit.place == place);
    let kept = those.map(|unit| unit.kept).sum::<f64>();
    request.precision.dtype().bytes() as f64 * rows * kept
}

/// A segment, or a run of segments that are recomputed together, in elements per row.
struct Unit {
    segments: Range<usize>,
    recompute: bool,
    place: PlaceKind,
    /// Kept from its forward to its backward.
    kept: f64,
    /// Of a run that is recomputed, what its second forward keeps.
    again: f64,
    /// What its backward holds besides what is kept.
    needed: f64,
    /// Elements of the weights that a run keeps while it is recomputed.
    gathered: usize,
}

impl Unit {
    fn stays(&self) -> bool {
        self.place == PlaceKind::Device
    }

    fn has_backward(&self, work: &Work) -> bool {
        let mut segments = work.segments[self.segments.clone()].iter();
        segments.any(|segment| segment.has_backward)
    }

    fn parameters(&self, work: &Work) -> usize {
        let segments = work.segments[self.segments.clone()].iter();
        segments.map(|segment| segment.parameters).sum()
    }
}

// All but the last segment, whose backward directly follows its forward.
fn units(work: &Work, candidate: &Candidate) -> Vec<Unit> {
    let last = work.segments.len().saturating_sub(1);
    let choices = candidate.memory.each(work);
    let recomputed = recomputed_runs(&choices, &work.recomputed);
    let entering = entering(work, candidate, &recomputed);
    // When a backward begins, everything that was saved is there, and the first gradient is that of the last layer's input.
    let first_gradient = |segment: &SegmentWork| {
        let last = segment.linear.last();
        let last = last.filter(|work| work.wants_input);
        last.map_or(0.0, |work| {
            work.input_elements(&candidate.degrees, candidate.sequence_parallel, false)
        })
    };
    let mut runs = recomputed.iter().zip(&entering).peekable();
    let (mut units, mut next) = (Vec::new(), 0);
    while next < last {
        let unit = match runs.next_if(|(run, _)| run.start == next) {
            Some((run, entering)) => {
                let segments = &work.segments[run.clone()];
                let of_run = segments
                    .iter()
                    .map(|segment| saved(segment, candidate, true));
                let again = of_run.sum::<f64>();
                let gathered = segments.iter().map(|segment| segment.parameters).sum();
                Unit {
                    segments: run.clone(),
                    recompute: true,
                    place: choices[next].place,
                    kept: *entering,
                    again,
                    needed: again + segments.last().map_or(0.0, first_gradient),
                    gathered: if candidate.keep_gathered { gathered } else { 0 },
                }
            }
            None => {
                let segment = &work.segments[next];
                Unit {
                    segments: next..next + 1,
                    recompute: false,
                    place: choices[next].place,
                    kept: saved(segment, candidate, false),
                    again: 0.0,
                    needed: first_gradient(segment),
                    gathered: 0,
                }
            }
        };
        next = unit.segments.end.max(next + 1);
        units.push(unit);
    }
    units
}

// Elements per row that attention holds in its backward where Context cuts sequences: the keys and values of all tokens, and
// their gradients from each of a rank's two chunks; or, in a ring, those of a block and of the next one, the gradients of both
// in the accumulator type with those of the queries, and what the block adds.
fn keys(segment: &SegmentWork, candidate: &Candidate, accumulated: f64) -> f64 {
    let Degrees { x, context, .. } = candidate.degrees;
    let of = |work: &AttentionWork| match candidate.context_attention {
        ContextAttention::Gather => (6 * work.sequence * work.key_features) as f64,
        ContextAttention::Heads => 0.0,
        ContextAttention::Ring { .. } => {
            let own = (work.sequence / context) as f64;
            let keys = (6.0 + 4.0 * accumulated) * work.key_features as f64;
            own * (keys + accumulated * work.query_features as f64)
        }
    };
    if context == 1 {
        return 0.0;
    }
    let attention = segment.attention.iter();
    let attention = attention.filter(|work| work.tokens && work.has_backward);
    attention.map(of).fold(0.0, f64::max) / x as f64
}

// Elements per row that a segment keeps for its backward.
fn saved(segment: &SegmentWork, candidate: &Candidate, recomputed: bool) -> f64 {
    segment.kept_elements(&candidate.degrees, candidate.sequence_parallel, recomputed)
}

// Elements per row of the wires that enter each of these runs of recomputed segments. A deep model has as many runs as wires, so
// each is looked at once.
fn entering(work: &Work, candidate: &Candidate, recomputed: &[Range<usize>]) -> Vec<f64> {
    let mut run_of = vec![None; work.segments.len()];
    for (number, run) in recomputed.iter().enumerate() {
        run_of[run.clone()].fill(Some(number));
    }
    let mut elements = vec![0.0; recomputed.len()];
    for wire in &work.wires {
        let own = run_of.get(wire.from).copied().flatten();
        let readers = wire.to.iter().filter_map(|to| *run_of.get(*to)?);
        let mut runs: Vec<usize> = readers.filter(|run| Some(*run) != own).collect();
        runs.sort_unstable();
        runs.dedup();
        let ranks = wire
            .place
            .ranks(&candidate.degrees, candidate.sequence_parallel);
        for run in runs {
            elements[run] += wire.elements as f64 / ranks as f64;
        }
    }
    elements
}
