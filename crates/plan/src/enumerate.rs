//! Every way to run the model that is worth an estimate.

use crate::{Candidate, Preset, Request};
use grid::{Axis, AxisOrder, Degrees, factorisations};
use parallel::pipeline::ScheduleKind;
use std::collections::HashSet;

/// Most micro-batch counts that are tried for one grid.
const MICRO_BATCH_COUNTS: usize = 8;

/// All candidates that the model and the batch allow, in no particular order. Orders that give every axis the same
/// distance between neighbours are one.
pub fn candidates(request: &Request) -> Vec<Candidate> {
    let degrees = match request.grid {
        Some(degrees) => vec![degrees],
        None => factorisations(request.devices),
    };
    let mut found = Vec::new();
    for degrees in degrees.into_iter().filter(|degrees| allowed(request, degrees)) {
        let orders = orders(request, degrees);
        for shape in shapes(request, degrees) {
            found.extend(orders.iter().map(|&order| Candidate { order, ..shape }));
        }
    }
    found
}

fn allowed(request: &Request, degrees: &Degrees) -> bool {
    let staged = degrees.pipeline > 1 && !request.allow_pipeline && request.grid.is_none();
    let demands = request.model.demands(request.batch, 1, 1);
    !staged && degrees.world_size().is_ok_and(|size| size == request.devices) && demands.are_met_by(degrees)
}

// One order for each set of distances between neighbours. The pipeline and data axes talk least, so they lie outside
// unless an order is asked for; for a single grid all orders are tried.
fn orders(request: &Request, degrees: Degrees) -> Vec<AxisOrder> {
    if let Some(order) = request.order {
        return vec![order];
    }
    let mut seen = HashSet::new();
    let distinct = |order: &AxisOrder| {
        let distance = |axis: Axis| {
            let inside = order.inside(axis).iter().map(|inner| degrees.get(*inner)).product::<usize>();
            if degrees.get(axis) > 1 { inside } else { 0 }
        };
        seen.insert(Axis::ALL.map(distance))
    };
    AxisOrder::all().into_iter().filter(distinct).collect()
}

// Micro-batches, recomputation, schedule and sharding for one grid; the order is filled in later.
fn shapes(request: &Request, degrees: Degrees) -> Vec<Candidate> {
    let order = AxisOrder::default();
    let mut found = Vec::new();
    for micro_batches in micro_batches(request, &degrees) {
        for recompute in choices(request.recompute, request.preset == Preset::PublishedAxonn) {
            for schedule in schedules(request, &degrees, micro_batches) {
                for sharded_optimiser in shardings(request, &degrees) {
                    for keep_gathered in kept(request, &degrees) {
                        found.push(Candidate {
                            degrees,
                            order,
                            micro_batches,
                            recompute,
                            schedule,
                            sharded_optimiser,
                            keep_gathered,
                        });
                    }
                }
            }
        }
    }
    found
}

// What was asked for; else what the preset fixes, else both.
fn choices(asked: Option<bool>, fixed: bool) -> Vec<bool> {
    match (asked, fixed) {
        (Some(asked), _) => vec![asked],
        (None, true) => vec![true],
        (None, false) => vec![true, false],
    }
}

fn shardings(request: &Request, degrees: &Degrees) -> Vec<bool> {
    match (request.sharded_optimiser, request.preset) {
        (Some(asked), _) => vec![asked],
        (None, Preset::Ours) if degrees.data > 1 => vec![true, false],
        _ => vec![false],
    }
}

fn kept(request: &Request, degrees: &Degrees) -> Vec<bool> {
    match (request.keep_gathered, request.preset) {
        (Some(asked), _) => vec![asked && degrees.z > 1],
        (None, Preset::Ours) if degrees.z > 1 => vec![false, true],
        _ => vec![false],
    }
}

// Counts that divide the replica's sequences, the fewest first: more only save memory or fill a pipeline.
fn micro_batches(request: &Request, degrees: &Degrees) -> Vec<usize> {
    let local = request.batch / (degrees.data * degrees.z).max(1);
    let fits = |count: &usize| *count > 0 && local.is_multiple_of(*count);
    if let Some(asked) = request.micro_batches {
        return [asked].into_iter().filter(fits).collect();
    }
    let counts: Vec<_> = (1..=local).filter(fits).collect();
    let enough = |count: &usize| *count >= degrees.pipeline.min(local);
    let mut useful: Vec<_> = counts.iter().copied().filter(enough).collect();
    let last = useful.last().copied();
    useful.truncate(MICRO_BATCH_COUNTS - 1);
    useful.extend(last.filter(|last| !useful.contains(last)));
    useful
}

fn schedules(request: &Request, degrees: &Degrees, micro_batches: usize) -> Vec<ScheduleKind> {
    if let Some(asked) = request.schedule {
        return vec![asked];
    }
    let mut found = vec![ScheduleKind::OneForwardOneBackward];
    if degrees.pipeline > 1 && micro_batches.is_multiple_of(degrees.pipeline) {
        let fits = |chunks: &usize| degrees.pipeline * chunks <= request.model.num_segments();
        let interleaved = [2, 4].into_iter().filter(fits);
        found.extend(interleaved.map(|chunks| ScheduleKind::Interleaved { chunks }));
    }
    found
}
