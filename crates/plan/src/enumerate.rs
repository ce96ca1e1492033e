//! Enumerates every way to run the model that is worth an estimate.

use crate::{Candidate, Preset, Request, SegmentChoices, StatePlaceKinds, estimate::Distances};
use grid::{AxisOrder, Degrees, factorisations};
use parallel::{
    ContextAttention, data::Sharding, memory::SegmentMemory, pipeline::ScheduleKind,
    work::AttentionWork,
};
use train::config::PlaceKind;

/// Chunks per stage of the interleaved schedules that are tried.
pub(crate) const INTERLEAVED: [usize; 2] = [2, 4];

/// The fewest tokens of a sequence that a rank keeps where the planner cuts sequences. A choice that keeps the search small: a
/// grid with fewer may be faster, and a request may name it.
const LEAST_TOKENS: usize = 2048;

/// The largest number of micro-batch counts tried per grid.
const MICRO_BATCH_COUNTS: usize = 8;

/// All candidates that the model and the batch allow, in no particular order. Orders that give every axis the
/// same distance between neighbours count as one.
pub fn candidates(request: &Request) -> Vec<Candidate> {
    let orders = orders(request);
    let of_grid = |degrees: Degrees| {
        let distances = Distances::new(&degrees, &orders);
        let shapes = shapes(request, degrees);
        let all = shapes.into_iter().flat_map(|shape| {
            distances
                .orders()
                .map(move |(order, _)| Candidate {
                    order,
                    ..shape.clone()
                })
                .collect::<Vec<_>>()
        });
        all.collect::<Vec<_>>()
    };
    grids(request).into_iter().flat_map(of_grid).collect()
}

/// The grids that the model and the batch allow.
pub(crate) fn grids(request: &Request) -> Vec<Degrees> {
    let degrees = match request.grid {
        Some(degrees) => vec![degrees],
        None => factorisations(request.devices),
    };
    degrees
        .into_iter()
        .filter(|degrees| allowed(request, degrees))
        .collect()
}

fn allowed(request: &Request, degrees: &Degrees) -> bool {
    let staged = degrees.pipeline > 1 && !request.allow_pipeline && request.grid.is_none();
    let demands = request.demands(1);
    let cuts = degrees.context > 1 && request.grid.is_none();
    !staged
        && (!cuts || cuts_sequences(request, degrees.context))
        && degrees
            .world_size()
            .is_ok_and(|size| size == request.devices)
        && demands.are_met_by(degrees)
}

// Whether some attention has sequences that are long enough.
fn cuts_sequences(request: &Request, ranks: usize) -> bool {
    let segments = request.work.segments.iter();
    let mut attention = segments.flat_map(|segment| &segment.attention);
    let is_long = |work: &AttentionWork| work.tokens && work.sequence / ranks >= LEAST_TOKENS;
    request.preset == Preset::Ours && attention.any(is_long)
}

/// The orders of axes that are tried.
pub(crate) fn orders(request: &Request) -> Vec<AxisOrder> {
    request
        .order
        .map_or_else(AxisOrder::all, |order| vec![order])
}

/// Micro-batches, recomputation, schedule and sharding for one grid; the order is filled in later.
pub(crate) fn shapes(request: &Request, degrees: Degrees) -> Vec<Candidate> {
    let order = AxisOrder::default();
    let mut found = Vec::new();
    // Where each segment has its own choice, layers are recomputed as these say.
    let asked = match &request.segments {
        Some(segments) => Some(segments.iter().any(|segment| segment.recompute)),
        None => request.recompute,
    };
    for micro_batches in micro_batches(request, &degrees) {
        for recompute in choices(asked, request.preset == Preset::PublishedAxonn) {
            for schedule in schedules(request, &degrees, micro_batches) {
                for sharding in shardings(request, &degrees) {
                    for keep_gathered in kept(request, &degrees) {
                        for sequence_parallel in spread(request, &degrees, recompute) {
                            for context_attention in ways(request, &degrees) {
                                found.push(Candidate {
                                    degrees,
                                    order,
                                    micro_batches,
                                    memory: SegmentMemory {
                                        recompute,
                                        ..SegmentMemory::STAYS
                                    }
                                    .into(),
                                    schedule,
                                    sharding,
                                    keep_gathered,
                                    sequence_parallel,
                                    context_attention,
                                    places: StatePlaceKinds::DEVICE,
                                });
                            }
                        }
                    }
                }
            }
        }
    }
    placed(request, found)
}

// Each shape with its state and its activations in each of the places.
fn placed(request: &Request, shapes: Vec<Candidate>) -> Vec<Candidate> {
    let of_segments = |shape: Candidate| match &request.segments {
        Some(each) => Candidate {
            memory: SegmentChoices::Each(each.clone()),
            ..shape
        },
        None => shape,
    };
    let state = match request.state_places.is_empty() {
        true => vec![StatePlaceKinds::DEVICE],
        false => request.state_places.clone(),
    };
    let activations = match request.activation_places.is_empty() {
        true => vec![PlaceKind::Device],
        false => request.activation_places.clone(),
    };
    let pairs = |places| {
        let place = move |activation_place| (places, activation_place);
        activations.iter().copied().map(place)
    };
    let pairs: Vec<_> = state.into_iter().flat_map(pairs).collect();
    let in_places = |shape: Candidate| {
        let place = move |&(places, place): &(StatePlaceKinds, PlaceKind)| {
            let all = shape.memory.all().unwrap_or_default();
            Candidate {
                places,
                memory: SegmentMemory { place, ..all }.into(),
                ..shape.clone()
            }
        };
        pairs.iter().map(place).map(of_segments)
    };
    shapes.into_iter().flat_map(in_places).collect()
}

// The requested value; otherwise the one that the preset fixes, otherwise both.
fn choices(asked: Option<bool>, fixed: bool) -> Vec<bool> {
    match (asked, fixed) {
        (Some(asked), _) => vec![asked],
        (None, true) => vec![true],
        (None, false) => vec![true, false],
    }
}

fn shardings(request: &Request, degrees: &Degrees) -> Vec<Sharding> {
    match (request.sharding, request.preset) {
        (Some(asked), _) => vec![asked],
        (None, Preset::Ours) if degrees.data > 1 => {
            vec![Sharding::Optimiser, Sharding::None, Sharding::Gradients]
        }
        _ => vec![Sharding::None],
    }
}

fn kept(request: &Request, degrees: &Degrees) -> Vec<bool> {
    match (request.keep_gathered, request.preset) {
        (Some(asked), _) => vec![asked && degrees.z > 1],
        (None, _) if degrees.z == 1 => vec![false],
        (None, Preset::Ours) => vec![false, true],
        (None, Preset::PublishedAxonn) => vec![true],
    }
}

// With recomputation, spread vectors move no more bytes, and take less memory and less work: nothing speaks against
// them. Without it they are gathered once more, for the gradients of weights.
fn spread(request: &Request, degrees: &Degrees, recompute: bool) -> Vec<bool> {
    let allowed = degrees.x > 1;
    match (request.sequence_parallel, request.preset) {
        (Some(asked), _) => vec![asked && allowed],
        (None, Preset::Ours) if allowed && recompute => vec![true],
        (None, Preset::Ours) if allowed => vec![true, false],
        _ => vec![false],
    }
}

/// The ways of attention over Context that the grid and the request allow. Of rings whose ranks exchange heads, only the one
/// with the most is tried if none is asked for: it passes the same bytes in the fewest messages.
pub(crate) fn ways(request: &Request, degrees: &Degrees) -> Vec<ContextAttention> {
    let Degrees { x, context, .. } = *degrees;
    let exchanges = |exchange: usize| {
        let mut segments = request.work.segments.iter();
        let all = |work: &AttentionWork| work.exchanges_heads(exchange, context, x);
        segments.all(|segment| segment.attention.iter().all(all))
    };
    let allowed = |way: &ContextAttention| match *way {
        ContextAttention::Gather | ContextAttention::RING => true,
        exchanging => exchanges(exchanging.exchange(context)),
    };
    match request.context_attention {
        // Without ranks of Context, every way is the same.
        Some(asked) if context == 1 => return vec![asked],
        Some(asked) => return vec![asked].into_iter().filter(allowed).collect(),
        None if context == 1 => return vec![ContextAttention::Gather],
        None => {}
    }
    let most = (2..context)
        .rev()
        .find(|some| context.is_multiple_of(*some) && exchanges(*some));
    let ring = most.map(|exchange| ContextAttention::Ring { exchange });
    let plain = [
        ContextAttention::Gather,
        ContextAttention::Heads,
        ContextAttention::RING,
    ];
    plain.into_iter().chain(ring).filter(allowed).collect()
}

// Counts that divide the replica's sequences, smallest first: larger counts only save memory or fill a
// pipeline. Of many, those at equal distances in the list, so that none is far from what fits best.
fn micro_batches(request: &Request, degrees: &Degrees) -> Vec<usize> {
    let local = request.batch / (degrees.data * degrees.z).max(1);
    let fits = |count: &usize| *count > 0 && local.is_multiple_of(*count);
    if let Some(asked) = request.micro_batches {
        return [asked].into_iter().filter(fits).collect();
    }
    let counts: Vec<_> = (1..=local).filter(fits).collect();
    let enough = |count: &usize| *count >= degrees.pipeline.min(local);
    let useful: Vec<_> = counts.into_iter().filter(enough).collect();
    let tried = useful.len().min(MICRO_BATCH_COUNTS);
    let place = |index: usize| index * (useful.len() - 1) / tried.saturating_sub(1).max(1);
    (0..tried).map(|index| useful[place(index)]).collect()
}

fn schedules(request: &Request, degrees: &Degrees, micro_batches: usize) -> Vec<ScheduleKind> {
    if let Some(asked) = request.schedule {
        // Stages would be ahead by more than a step.
        let too_few = asked.delays_gradients() && micro_batches < degrees.pipeline;
        return if too_few { vec![] } else { vec![asked] };
    }
    // One that changes the numbers of a run is never chosen.
    let mut found = vec![ScheduleKind::OneForwardOneBackward];
    if degrees.pipeline == 1 {
        return found;
    }
    if micro_batches.is_multiple_of(degrees.pipeline) {
        found.extend(INTERLEAVED.map(|chunks| ScheduleKind::Interleaved { chunks }));
    }
    if request.preset == Preset::Ours {
        found.extend([ScheduleKind::ZbH1, ScheduleKind::ZbV]);
    }
    let fits = |kind: &ScheduleKind| {
        kind.stages(degrees.pipeline).num_parts() <= request.work.segments.len()
    };
    found.retain(fits);
    found
}
