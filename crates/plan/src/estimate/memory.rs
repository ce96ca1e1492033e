//! Memory that every run holds.

use crate::{Candidate, Request};
use grid::{Axis, Degrees};
use parallel::{
    ContextAttention,
    work::{LinearWork, Place, SegmentWork, Work},
};
use train::config::{PlaceKind, Precision};

/// A lower bound on the bytes of the fullest rank. The order of axes does not matter.
pub fn memory(request: &Request, candidate: &Candidate) -> f64 {
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
    // another type.
    let (read, updated) = if copy > 0.0 {
        (copy, number)
    } else {
        (number, 0.0)
    };
    // Beyond the device, the optimiser's is two pieces on it, which the bound leaves out.
    let of_optimiser = match request.placement.optimiser {
        PlaceKind::Device => (updated + state_bytes(request)) / state,
        PlaceKind::Host | PlaceKind::Files => 0.0,
    };
    let lines = line_bytes(request) / candidate.degrees.pipeline as f64;
    let per_parameter = read + number / gradients + of_optimiser;
    per_parameter * parameters(request, &candidate.degrees)
        + lines
        + activations(request, candidate)
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

/// Number of parameter elements that a rank holds.
pub(super) fn parameters(request: &Request, degrees: &Degrees) -> f64 {
    let Degrees {
        x, y, z, pipeline, ..
    } = degrees;
    request.work.num_parameters() as f64 / (x * y * z * pipeline) as f64
}

// Memory kept until backward: for a recomputed segment its input, for any other segment everything that a
// matmul, a norm or attention reads. Added to these are gathered weights, where they are kept, and the run of segments
// being recomputed. The last segment keeps nothing, because its backward directly follows its forward.
fn activations(request: &Request, candidate: &Candidate) -> f64 {
    let (work, degrees) = (&*request.work, &candidate.degrees);
    let size = request.precision.dtype().bytes() as f64;
    let rows = candidate.local_sequences(request.batch) as f64;
    let waits = candidate.micro_batches.min(degrees.pipeline) as f64 / degrees.pipeline as f64;
    let last = work.segments.len().saturating_sub(1);
    let mut held = 0.0;
    for segment in &work.segments[..last] {
        if !(candidate.recompute && segment.recomputed) {
            held += rows * saved(segment, candidate, false);
        }
        if candidate.keep_gathered && !candidate.recompute {
            held += segment.parameters as f64 / (degrees.x * degrees.y) as f64;
        }
    }
    let mut largest = 0.0f64;
    if !candidate.recompute {
        // Segments after one whose attention runs backward have freed what they kept.
        let mut freed = 0.0;
        for segment in work.segments[..last].iter().rev() {
            largest = largest.max(rows * keys(segment, candidate) - freed);
            freed += rows * saved(segment, candidate, false);
        }
    }
    if candidate.recompute {
        for (run, entering) in work.recomputed.iter().zip(entering(work, candidate)) {
            held += rows * entering;
            let segments = &work.segments[run.clone()];
            let of_run = segments
                .iter()
                .map(|segment| saved(segment, candidate, true));
            // A recomputed run keeps the weights that it gathers, too.
            let weights = match candidate.keep_gathered {
                true => segments.iter().map(|segment| segment.parameters).sum(),
                false => 0,
            };
            let weights = weights as f64 / (degrees.x * degrees.y) as f64;
            largest = largest.max(rows * of_run.sum::<f64>() + weights);
            for segment in segments {
                let of_attention = saved(segment, candidate, true) + keys(segment, candidate);
                largest = largest.max(rows * of_attention);
            }
        }
    }
    size * (waits * held + largest)
}

// Elements per row that attention holds in its backward where Context cuts sequences: the keys and values of all tokens, and
// their gradients from each of a rank's two chunks.
fn keys(segment: &SegmentWork, candidate: &Candidate) -> f64 {
    let gathers = candidate.context_attention == ContextAttention::Gather;
    if candidate.degrees.context == 1 || !gathers {
        return 0.0;
    }
    let attention = segment.attention.iter().filter(|work| work.tokens);
    let elements = attention.map(|work| 6 * work.sequence * work.key_features);
    elements.max().unwrap_or(0) as f64 / candidate.degrees.x as f64
}

// Elements per row that a segment keeps for its backward: the inputs of its linear layers, the part of their
// outputs that attention and activation functions read, and the results of other elementwise operations.
//
// A recomputation keeps the spread vectors that linear layers have gathered.
fn saved(segment: &SegmentWork, candidate: &Candidate, recomputed: bool) -> f64 {
    let degrees = &candidate.degrees;
    let ranks = |place: Place| place.ranks(degrees, candidate.sequence_parallel) as f64;
    let of_input = |work: &LinearWork, spread: bool| {
        let place = Place {
            cut: Some(work.reads),
            runs: spread,
            tokens: work.tokens,
        };
        (work.vectors * work.inputs) as f64 / ranks(place)
    };
    let kept = |work: &LinearWork| of_input(work, work.spread && !recomputed);
    let inputs: f64 = segment.linear.iter().map(kept).sum();
    let wide = segment.linear.iter().filter(|work| work.emits == Axis::X);
    let outputs = wide.map(|work| {
        let place = Place {
            cut: Some(Axis::X),
            runs: false,
            tokens: work.tokens,
        };
        (work.vectors * work.outputs.iter().sum::<usize>()) as f64 / ranks(place)
    });
    // The results of norms that linear layers read are elements too, and count once.
    let normed = segment
        .linear
        .iter()
        .filter(|work| work.reads == Axis::Y)
        .map(|work| of_input(work, work.spread));
    let narrow = Place::all().filter(|place| place.cut == Some(Axis::Y));
    let narrow = narrow.map(|place| segment.elements[place.index()] as f64 / ranks(place));
    let others = (narrow.sum::<f64>() - normed.sum::<f64>()).max(0.0);
    inputs + outputs.sum::<f64>() + others
}

// Elements per row of the wires that enter each run of recomputed segments. A deep model has as many runs as wires, so each
// is looked at once.
fn entering(work: &Work, candidate: &Candidate) -> Vec<f64> {
    let mut run_of = vec![None; work.segments.len()];
    for (number, run) in work.recomputed.iter().enumerate() {
        run_of[run.clone()].fill(Some(number));
    }
    let mut elements = vec![0.0; work.recomputed.len()];
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
