//! The time of attention, and of what it moves where Context cuts the sequences.

use super::{
    distances::Places,
    prices::{Pricer, Prices},
};
use crate::{Candidate, Request, enumerate};
use grid::Axis;
use parallel::{
    ContextAttention,
    work::{AttentionWork, SegmentWork, Work},
};
use std::sync::Arc;

/// The attention of a micro-batch on a stage, forward and backward, for each way of the grid, without and with recomputation.
#[derive(Clone, Debug)]
pub(super) struct Attention {
    ways: Vec<(ContextAttention, [Seconds; 2])>,
    work: Arc<Work>,
}

#[derive(Clone, Debug)]
struct Seconds {
    compute_s: f64,
    // The share of compute beside which traffic may run.
    covering: f64,
    // By route: what runs beside compute, and what does not.
    hidden: Vec<Prices>,
    shown: Vec<Prices>,
}

impl Attention {
    pub(super) fn new(request: &Request, candidate: &Candidate, pricer: &Pricer<'_>) -> Attention {
        let ways = enumerate::ways(request, &candidate.degrees);
        let of = |way| {
            let one = |recompute| Local::new(request, candidate, way, recompute).seconds(pricer);
            (way, [false, true].map(one))
        };
        Attention {
            ways: ways.into_iter().map(of).collect(),
            work: request.work.clone(),
        }
    }

    /// Seconds of a variant with the axes at these distances; `collective_share` is the part of the device that traffic takes
    /// from compute beside it. Infinite for a way that the grid does not have.
    pub(super) fn seconds(
        &self,
        variant: &Candidate,
        places: &Places,
        collective_share: f64,
    ) -> f64 {
        let known = self.ways.iter();
        let way = known
            .clone()
            .find(|(way, _)| *way == variant.context_attention);
        let Some((_, seconds)) = way else {
            return f64::INFINITY;
        };
        let at = |prices: &[Prices]| prices.iter().map(|one| one.at(places)).sum::<f64>();
        let of = |seconds: &Seconds| {
            let (hidden, beside) = (at(&seconds.hidden), seconds.compute_s * seconds.covering);
            let slowed = beside + collective_share * hidden.min(beside);
            seconds.compute_s - beside + slowed.max(hidden) + at(&seconds.shown)
        };
        match variant.memory.all() {
            Some(all) => of(&seconds[usize::from(all.recompute)]),
            // Layers are alike, so each that is recomputed costs the same share.
            None => {
                let share = self.recomputed_share(variant);
                let [without, with] = seconds.each_ref().map(of);
                without + share * (with - without)
            }
        }
    }

    // Of the segments with attention that may be recomputed, the share that is.
    fn recomputed_share(&self, variant: &Candidate) -> f64 {
        let attends = |(_, segment): &(usize, &SegmentWork)| {
            segment.recomputed && !segment.attention.is_empty()
        };
        let segments = self.work.segments.iter().enumerate().filter(attends);
        let chosen = segments.map(|(number, segment)| variant.memory.of(number, segment).recompute);
        let chosen: Vec<bool> = chosen.collect();
        let again = chosen.iter().filter(|again| **again).count();
        again as f64 / chosen.len().max(1) as f64
    }
}

struct Local<'a> {
    request: &'a Request,
    candidate: &'a Candidate,
    way: ContextAttention,
    recompute: bool,
    rows: usize,
}

impl<'a> Local<'a> {
    fn new(
        request: &'a Request,
        candidate: &'a Candidate,
        way: ContextAttention,
        recompute: bool,
    ) -> Local<'a> {
        Local {
            request,
            candidate,
            way,
            recompute,
            rows: candidate.local_sequences(request.batch),
        }
    }

    fn seconds(&self, pricer: &Pricer<'_>) -> Seconds {
        let segments = self.request.work.segments.iter();
        let all = segments.flat_map(|segment| {
            let forwards = 1 + usize::from(self.recompute && segment.recomputed);
            let attention = segment.attention.iter().filter(|work| work.tokens);
            attention.map(move |work| (work, forwards))
        });
        let (mut hidden, mut shown, mut passed) = (Vec::new(), Vec::new(), false);
        // Layers are alike, so few are priced.
        let mut counted: Vec<((&AttentionWork, usize), usize)> = Vec::new();
        for one in all {
            match counted.iter_mut().find(|(known, _)| *known == one) {
                Some((_, count)) => *count += 1,
                None => counted.push((one, 1)),
            }
        }
        let size = |wide: bool| match (wide, self.request.precision.dtype()) {
            (true, dtype) => dtype.accumulator().bytes(),
            (false, dtype) => dtype.bytes(),
        };
        let (context, x) = (self.candidate.degrees.context, self.candidate.degrees.x);
        let joins: f64 = counted
            .iter()
            .map(|((work, forwards), count)| *count as f64 * self.joins(work, *forwards))
            .sum();
        for ((work, forwards), count) in counted {
            for one in work.traffic(self.way, context, forwards) {
                let bytes = |n: &usize| self.rows * one.vectors * n / x * size(one.wide);
                let calls = one.features.iter().map(|n| (one.operation, bytes(n)));
                let calls: Vec<_> = calls.collect();
                let prices = pricer.among(Axis::Context, (one.stride, one.ranks), &calls);
                let of_stage = prices.times(self.of_a_stage(count as f64));
                passed |= one.hidden && !calls.is_empty();
                match one.hidden {
                    true => hidden.push(of_stage),
                    false => shown.push(of_stage),
                }
            }
        }
        // While the last block is computed, no other one is on its way.
        let ring = context / self.way.exchange(context);
        Seconds {
            compute_s: self.compute() + self.of_a_stage(joins),
            covering: if passed { 1.0 - 1.0 / ring as f64 } else { 0.0 },
            hidden,
            shown,
        }
    }

    // Forward (twice if it is recomputed) and backward.
    fn compute(&self) -> f64 {
        let (machine, dtype) = (&self.request.machine, self.request.precision.dtype());
        let form = self.request.attention(self.recompute);
        let forwards = if self.recompute { 2.0 } else { 1.0 };
        let degrees = &self.candidate.degrees;
        let seconds = |work: &AttentionWork| {
            let heads = self.rows * work.heads / degrees.x;
            let shape = work.shape(heads);
            let of = |backward| machine.attention(&shape, dtype, form, backward);
            // Every rank of Context meets as many pairs of tokens.
            let parts = if work.tokens { degrees.context } else { 1 };
            let both = match work.has_backward {
                true => forwards * of(false) + of(true),
                false => of(false),
            };
            both / parts as f64
        };
        let segments = &self.request.work.segments;
        let attention = segments.iter().flat_map(|segment| &segment.attention);
        // Matmuls between activations are as small as those of attention, and have two in backward.
        let flop: f64 = segments.iter().map(|segment| segment.activation_flop).sum();
        let flop = (forwards + 2.0) * self.rows as f64 * flop / degrees.x as f64;
        let rate = machine.device.peak(dtype.name()) * machine.device.attention.forward.value;
        self.of_a_stage(attention.map(seconds).sum::<f64>() + flop / rate)
    }

    // The results of blocks and the gradients of queries are added to those of other blocks: each of `ring` blocks meets half
    // of a rank's queries, so all of them together meet as many as half of a sequence has.
    fn joins(&self, work: &AttentionWork, forwards: usize) -> f64 {
        let context = self.candidate.degrees.context;
        let (ContextAttention::Ring { .. }, true) = (self.way, context > 1) else {
            return 0.0;
        };
        let (machine, dtype) = (&self.request.machine, self.request.precision.dtype());
        let exchange = self.way.exchange(context);
        let features = work.query_features / (self.candidate.degrees.x * exchange);
        let elements = (self.rows * work.sequence * features) as f64 / 2.0;
        let moved = (dtype.bytes() + 2 * dtype.accumulator().bytes()) as f64;
        let bandwidth = machine
            .device
            .kernel_bandwidth("attention_join", "elementwise");
        let passes = forwards + usize::from(work.has_backward);
        passes as f64 * elements * moved / bandwidth
    }

    fn of_a_stage(&self, all: f64) -> f64 {
        all / self.candidate.degrees.pipeline as f64
    }
}
