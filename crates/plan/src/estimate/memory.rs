//! Bytes that every run holds.

use crate::{Candidate, Request};
use grid::Degrees;
use train::config::Precision;

/// Bytes on the fullest rank, at least. The order of axes does not enter.
pub fn memory(request: &Request, candidate: &Candidate) -> f64 {
    let (state, copy) = match request.precision {
        Precision::F64 => (32.0, 0.0),
        Precision::F32 => (16.0, 0.0),
        Precision::Bf16 | Precision::F16 => (16.0, 2.0),
    };
    let shared = if candidate.sharded_optimiser {
        candidate.degrees.data as f64
    } else {
        1.0
    };
    // Weights, gradients and the two moments are a quarter of the state each; sharing spares three of them.
    let per_parameter = state / 4.0 + copy + 0.75 * state / shared;
    per_parameter * parameters(request, &candidate.degrees) + activations(request, candidate)
}

/// Elements of the parameters that a rank holds.
pub(super) fn parameters(request: &Request, degrees: &Degrees) -> f64 {
    let Degrees {
        x, y, z, pipeline, ..
    } = degrees;
    request.model.num_parameters() as f64 / (x * y * z * pipeline) as f64
}

// What waits for its backward: of a recomputed block its input, of others all that a product, a norm or attention reads;
// the weights that were gathered, where they are kept; and one block's worth while it is computed.
fn activations(request: &Request, candidate: &Candidate) -> f64 {
    let Degrees {
        x, y, z, pipeline, ..
    } = candidate.degrees;
    let (model, size) = (&request.model, request.precision.dtype().bytes() as f64);
    let rows = (candidate.local_sequences(request.batch) * model.context) as f64;
    let (narrow, wide) = (rows * model.hidden as f64 / y as f64, 1.0 / x as f64);
    let heads = (2 * model.hidden + 2 * model.kv_heads() * model.head_size()) as f64;
    let block = 4.0 * narrow + rows * wide * (heads + 2.0 * model.mlp_hidden() as f64);
    let layers = (model.layers / pipeline) as f64;
    let in_flight = candidate.micro_batches.min(pipeline) as f64;
    let gathered = if candidate.keep_gathered {
        block_parameters(request, candidate) * z as f64
    } else {
        0.0
    };
    let waits = layers * in_flight;
    size * if candidate.recompute {
        waits * narrow + block
    } else {
        waits * (block + gathered)
    }
}

// Elements of a block's parameters that a rank holds.
fn block_parameters(request: &Request, candidate: &Candidate) -> f64 {
    let Degrees { x, y, z, .. } = candidate.degrees;
    let model = &request.model;
    let (h, kv) = (model.hidden, model.kv_heads() * model.head_size());
    (2 * h * h + 2 * h * kv + 2 * h * model.mlp_hidden()) as f64 / (x * y * z) as f64
}
