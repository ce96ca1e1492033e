//! What one rank computes and sends in a step, before the order of axes and the variant are known.

use super::{
    prices::{Pricer, Prices},
    stages::CostCuts,
};
use crate::{Candidate, Request, enumerate::INTERLEAVED};
use grid::{
    Axis,
    machine::{GemmShape, Variant},
};
use parallel::{
    Operation, Reproducible,
    pipeline::{ScheduleKind, schedule::Stages},
    work::{LinearTraffic, LinearWork, Phase, Place, WeightUse, WireWork},
};

/// Seconds of a group of layers, and its traffic.
#[derive(Clone, Debug)]
pub(super) struct Group {
    /// Average number of these layers per stage.
    pub(super) count: f64,
    /// The segments that have them, once for each.
    pub(super) segments: Vec<usize>,
    pub(super) recomputed: bool,
    /// Whether the inputs have a gradient.
    pub(super) wants_input: bool,
    pub(super) forward_s: f64,
    pub(super) d_inputs_s: f64,
    pub(super) d_weights_s: f64,
    pub(super) gather: Prices,
    pub(super) scatter: Prices,
    /// Collectives on activations, without and with sequence parallelism.
    pub(super) traffic: [Vec<(Phase, Prices)>; 2],
}

/// The local computation of a rank.
pub(super) struct Local<'a> {
    pub(super) request: &'a Request,
    pub(super) candidate: &'a Candidate,
    pub(super) rows: usize,
}

impl Local<'_> {
    /// Equal layers form one group, wherever they stand in the model.
    pub(super) fn groups(&self, pricer: &Pricer) -> Vec<Group> {
        let mut counted: Vec<(&LinearWork, bool, Vec<usize>)> = Vec::new();
        for (number, segment) in self.request.work.segments.iter().enumerate() {
            for layers in &segment.linear {
                let alike = |(known, recomputed, _): &&mut (&LinearWork, bool, Vec<usize>)| {
                    *known == layers && *recomputed == segment.recomputed
                };
                match counted.iter_mut().find(alike) {
                    Some((.., segments)) => segments.push(number),
                    None => counted.push((layers, segment.recomputed, vec![number])),
                }
            }
        }
        let group = |(layers, recomputed, segments): (&LinearWork, bool, Vec<usize>)| {
            self.group(layers, recomputed, segments, pricer)
        };
        counted.into_iter().map(group).collect()
    }

    fn group(
        &self,
        layers: &LinearWork,
        recomputed: bool,
        segments: Vec<usize>,
        pricer: &Pricer,
    ) -> Group {
        let degrees = &self.candidate.degrees;
        let (m, k) = (
            self.rows * layers.vectors / self.parts(layers.tokens),
            layers.inputs / degrees.get(layers.reads),
        );
        let emits = degrees.get(layers.emits);
        let outputs: Vec<usize> = layers.outputs.iter().map(|n| n / emits).collect();
        let size = self.request.precision.dtype().bytes();
        let accumulated = self.request.precision.dtype().accumulator().bytes();
        let gathered = if self.request.gather_wide {
            size.max(4)
        } else {
            size
        };
        let with_weights = || outputs.iter().zip(&layers.weights);
        let is_trained = |weight: &WeightUse| *weight == WeightUse::Trained;
        let gathers = with_weights().map(|(n, weight)| {
            let bytes = (n * k) as f64 * weight.bytes(gathered);
            (Operation::AllGather, bytes as usize)
        });
        let trained: Vec<usize> = with_weights()
            .filter(|(_, weight)| is_trained(weight))
            .map(|(n, _)| *n)
            .collect();
        let bandwidth = self.bandwidth();
        let codes = with_weights().filter(|(_, weight)| matches!(weight, WeightUse::Quantised(_)));
        // Read once, and written in the type of activations.
        let decode_s: f64 = codes
            .map(|(n, weight)| (n * k) as f64 * (weight.bytes(0) + size as f64) / bandwidth)
            .sum();
        let wire = self.request.gradient_wire;
        let (scatter, scattered) = match self.request.priced_bits() {
            Reproducible::Run => (
                Operation::ReduceScatter,
                wire.over_z(self.request.precision.dtype()).bytes(),
            ),
            Reproducible::Grid => (Operation::AllToAll, accumulated),
        };
        let traffic = |sequence_parallel: bool| {
            let all = layers.traffic(self.request.priced_bits(), sequence_parallel);
            let price = |one: LinearTraffic| {
                let element = if one.wide { accumulated } else { size };
                let features = one.features.iter().map(|n| n / degrees.get(one.cut));
                let calls = features.map(|n| (one.operation, n * m * element));
                let prices = pricer.each(one.axis, &calls.collect::<Vec<_>>());
                (one.phase, prices)
            };
            all.into_iter().map(price).collect()
        };
        let scatters = trained.iter().map(|n| (scatter, n * k * scattered));
        let all = |outputs: &[usize], time: &dyn Fn(usize) -> f64| {
            outputs.iter().map(|n| time(*n)).sum::<f64>()
        };
        Group {
            count: self.of_a_stage(segments.len() as f64),
            segments,
            recomputed,
            wants_input: layers.wants_input,
            forward_s: decode_s + all(&outputs, &|n| self.matmul(m, n, k, Variant::Nn)),
            d_inputs_s: match layers.wants_input {
                true => decode_s + all(&outputs, &|n| self.matmul(m, k, n, Variant::Nt)),
                false => 0.0,
            },
            d_weights_s: all(&trained, &|n| self.matmul(k, n, m, Variant::Tn)),
            gather: pricer.each(Axis::Z, &gathers.collect::<Vec<_>>()),
            scatter: pricer.each(Axis::Z, &scatters.collect::<Vec<_>>()),
            traffic: [false, true].map(traffic),
        }
    }

    fn matmul(&self, m: usize, n: usize, k: usize, variant: Variant) -> f64 {
        let (machine, dtype) = (&self.request.machine, self.request.precision.dtype());
        let bytes = (m * k + k * n + m * n) * dtype.bytes();
        let shape = GemmShape {
            m,
            n,
            k,
            dtype: dtype.name(),
            variant,
            bytes,
        };
        machine
            .product
            .seconds(&shape, &machine.device, self.request.tuned)
    }

    // Into how many parts Context cuts what follows sequences.
    fn parts(&self, tokens: bool) -> usize {
        match tokens {
            true => self.candidate.degrees.context,
            false => 1,
        }
    }

    /// About 5 passes over activations as wide as the residual, and 8 over the wide half of an MLP, forward and
    /// backward together.
    pub(super) fn elementwise(&self, sequence_parallel: bool) -> f64 {
        let (work, degrees) = (&self.request.work, &self.candidate.degrees);
        let passes = |place: Place| {
            let of_place = work.segments.iter();
            let elements: usize = of_place
                .map(|segment| segment.elements[place.index()])
                .sum();
            let passes = if place.cut == Some(Axis::X) { 8.0 } else { 5.0 };
            passes * elements as f64 / place.ranks(degrees, sequence_parallel) as f64
        };
        let passes = Place::all().map(passes).sum::<f64>();
        let bytes = self.rows as f64 * passes * self.request.precision.dtype().bytes() as f64;
        self.of_a_stage(bytes) / self.bandwidth()
    }

    // Bytes per second of kernels that memory limits.
    fn bandwidth(&self) -> f64 {
        let device = &self.request.machine.device;
        device.kernel_bandwidth("unary", "elementwise")
    }

    /// For each way in which the work can be cut and placed.
    pub(super) fn stages(
        &self,
        pricer: &Pricer,
        cuts: &CostCuts<'_>,
    ) -> Vec<(Stages, f64, [Prices; 2])> {
        let degrees = &self.candidate.degrees;
        let mut ways: Vec<Stages> = Vec::new();
        for kind in INTERLEAVED
            .map(|chunks| ScheduleKind::Interleaved { chunks })
            .into_iter()
            .chain([
                ScheduleKind::default(),
                ScheduleKind::ZbV,
                self.candidate.schedule,
            ])
        {
            let stages = kind.stages(degrees.pipeline);
            if !ways.contains(&stages) {
                ways.push(stages);
            }
        }
        let of = |stages: Stages| {
            let cut = cuts.of(stages)?;
            let chunks = stages.chunks;
            // The messages of one micro-batch, there and back, averaged over stages.
            let message = |sequence_parallel: bool| {
                let bytes = |wire: &&WireWork| {
                    let ranks = wire.place.ranks(degrees, sequence_parallel);
                    self.rows * wire.elements / ranks * self.request.precision.dtype().bytes()
                };
                let parts = (stages.num_parts() - 1).max(1);
                let there = cut.crossing.iter();
                let back = there.clone().filter(|wire| wire.wants_gradient);
                let sums = [there.map(bytes).sum::<usize>(), back.map(bytes).sum()];
                let sends = sums.map(|bytes| (Operation::Send, bytes / parts));
                pricer.each(Axis::Pipeline, &sends.repeat(chunks))
            };
            Some((stages, cut.imbalance, [false, true].map(message)))
        };
        ways.into_iter().filter_map(of).collect()
    }

    fn of_a_stage(&self, all: f64) -> f64 {
        all / self.candidate.degrees.pipeline as f64
    }

    /// If buckets are off, each tensor counts, about three per group of linear layers.
    pub(super) fn num_buckets(&self, bytes: f64) -> f64 {
        let groups: usize = self
            .request
            .work
            .segments
            .iter()
            .map(|segment| segment.linear.len())
            .sum();
        match self.request.preset.bucket_mib() {
            0 => self.of_a_stage(3.0 * groups as f64).max(1.0),
            mib => (bytes / (mib << 20) as f64).ceil().max(1.0),
        }
    }
}
