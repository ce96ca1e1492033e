//! A plan as JSON.

use super::{notes, shares};
use crate::{Outcome, Plan, Request, estimate};
use serde_json::{Value, json};

/// The plan with `candidates`, best first, each with its grid, time, speed and memory.
pub fn json(plan: &Plan) -> Value {
    let request = &plan.request;
    json!({
        "machine": request.machine.name,
        "devices": request.devices,
        "model": request.model_name,
        "parameters": request.work.num_parameters(),
        "batch_sequences": request.batch,
        "sequence": request.model.text().map_or(1, |text| text.context),
        "precision": request.precision,
        "optimiser": request.optimiser,
        "settings": request.preset.name(),
        "enumerated": plan.num_candidates,
        "within_memory_bound": plan.num_fitting,
        "simulated": plan.num_simulated,
        "took_s": plan.took.as_secs_f64(),
        "notes": notes(plan),
        "candidates": plan.best.iter().map(|outcome| candidate(request, outcome)).collect::<Vec<_>>(),
    })
}

fn candidate(request: &Request, outcome: &Outcome) -> Value {
    let chosen = &outcome.candidate;
    // As a configuration states them.
    let config = chosen.config(request);
    let degrees = &chosen.degrees;
    json!({
        "grid": {
            "x": degrees.x, "y": degrees.y, "z": degrees.z, "context": degrees.context,
            "data": degrees.data, "pipeline": degrees.pipeline,
        },
        "order": chosen.order.to_string(),
        "micro_batches": chosen.micro_batches,
        "recompute": config.training.recompute,
        "schedule": chosen.schedule.to_string(),
        "segments_of_parts": outcome.depths,
        "sharding": chosen.sharding.to_string(),
        "keep_gathered": chosen.keep_gathered,
        "sequence_parallel": chosen.sequence_parallel,
        "context_attention": chosen.context_attention.to_string(),
        "optimiser_place": chosen.places.optimiser.name(),
        "update_place": chosen.places.update.name(),
        "weight_place": chosen.places.weights.name(),
        "gradient_place": chosen.places.gradients.name(),
        "activation_place": config.placement.activations,
        "step_s": outcome.step_s,
        "tokens_per_s": outcome.tokens_per_s,
        "pflops": outcome.flops / 1e15,
        "percent_of_peak": outcome.percent_of_peak,
        "percent_of_peak_counts_recomputation": true,
        "mfu": outcome.mfu,
        "memory_gib": outcome.memory() as f64 / f64::from(1 << 30),
        "on_host_gib": match request.is_on_hosts() {
            true => 0.0,
            false => estimate::on_host(request, chosen) / f64::from(1 << 30),
        },
        "checkpoint_copy_gib": outcome.snapshot_bytes() as f64 / f64::from(1 << 30),
        "time": shares(outcome),
    })
}
