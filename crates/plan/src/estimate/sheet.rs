//! Component times for one grid and number of rows, from which the times of its orders and variants are
//! assembled.

use super::{
    attention::Attention,
    column_norms::ColumnNorms,
    distances::{Distances, Places},
    lines::LineSums,
    matrices::Matrices,
    memory::{beyond_bytes, crossing_bytes, moved_bytes, parameters, state_bytes, trained_share},
    paging::Paging,
    prices::{Pricer, Prices},
    stages::CostCuts,
};
use crate::enumerate::INTERLEAVED;
use crate::{
    Candidate, Request,
    memory::{Links, of_stages, waits},
};
use grid::{
    Axis,
    machine::{GemmShape, Variant},
};
use parallel::{
    Operation, Overlap, Reproducible,
    data::UpdatePlace,
    memory::SegmentMemory,
    pipeline::{
        ScheduleKind,
        schedule::{Stages, Times},
    },
    work::{LinearTraffic, LinearWork, Phase, Place, WeightUse, WireWork},
};
use train::config::PlaceKind;

/// Seconds of a group of layers, and its traffic.
#[derive(Clone, Debug)]
struct Group {
    // Average number of these layers per stage.
    count: f64,
    // The segments that have them, once for each.
    segments: Vec<usize>,
    recomputed: bool,
    // Whether the inputs have a gradient.
    wants_input: bool,
    forward_s: f64,
    d_inputs_s: f64,
    d_weights_s: f64,
    gather: Prices,
    scatter: Prices,
    // Collectives on activations, without and with sequence parallelism.
    traffic: [Vec<(Phase, Prices)>; 2],
}

/// The costs of a grid and number of rows, before the order of axes and the variant are known.
#[derive(Clone, Debug)]
pub(crate) struct Sheet<'a> {
    request: &'a Request,
    overlap: Overlap,
    groups: Vec<Group>,
    attention: Attention,
    // Without and with sequence parallelism.
    elementwise_s: [f64; 2],
    // For each way in which parts can lie on stages: how uneven these are, and what one micro-batch hands from part to
    // part and back, without and with sequence parallelism.
    stages: Vec<(Stages, f64, [Prices; 2])>,
    // Gradients over Context; and over Data: replicated, or sharded with the optimiser.
    num_buckets: f64,
    reduce_context: Prices,
    reduce_data: Prices,
    scatter_data: Prices,
    gather_data: Prices,
    // If the optimiser updates matrices as a whole.
    moved_bytes: [[f64; 2]; 2],
    matrices: Option<Matrices>,
    // If it keeps means of rows and columns.
    lines: Option<LineSums>,
    // If columns of weights have trained lengths.
    column_norms: Option<ColumnNorms>,
}

impl<'a> Sheet<'a> {
    /// The sheet for the candidate's grid and micro-batches. `cuts` are those of the request's model.
    pub(crate) fn new(
        request: &'a Request,
        candidate: &Candidate,
        distances: &'a Distances,
        cuts: &CostCuts<'_>,
    ) -> Sheet<'a> {
        let rows = candidate.local_sequences(request.batch);
        let local = Local {
            request,
            candidate,
            rows,
        };
        let pricer = Pricer::new(request, candidate, distances);
        let parameters = parameters(request, &candidate.degrees);
        let dtype = request.precision.dtype();
        let (gradients, weights) = (
            parameters * dtype.accumulator().bytes() as f64,
            parameters * dtype.bytes() as f64,
        );
        let num_buckets = local.num_buckets(gradients);
        let sent = parameters
            * trained_share(request)
            * request.gradient_wire.over_data(dtype).bytes() as f64;
        let bucket_over = |axis: Axis, operations: &[Operation], bytes: f64| {
            let each = operations.iter();
            let each = each.map(|operation| (*operation, (bytes / num_buckets) as usize));
            pricer.each(axis, &each.collect::<Vec<_>>())
        };
        let bucket =
            |operations: &[Operation], bytes: f64| bucket_over(Axis::Data, operations, bytes);
        let by_nodes = request.priced_bits() == Reproducible::Grid;
        Sheet {
            request,
            overlap: request.overlap.unwrap_or(request.preset.overlap()),
            groups: local.groups(&pricer),
            attention: Attention::new(request, candidate, &pricer),
            elementwise_s: [false, true].map(|spread| local.elementwise(spread)),
            stages: local.stages(&pricer, cuts),
            num_buckets,
            // Where sums are those of one rank, ranks of Context compute the same gradients.
            reduce_context: match by_nodes {
                true => bucket_over(Axis::Context, &[], 0.0),
                false => bucket_over(Axis::Context, &[Operation::AllReduce], sent),
            },
            reduce_data: match by_nodes {
                true => bucket(&[Operation::AllToAll, Operation::AllGather], gradients),
                false => bucket(&[Operation::AllReduce], sent),
            },
            scatter_data: match by_nodes {
                true => bucket(&[Operation::AllToAll], gradients),
                false => bucket(&[Operation::ReduceScatter], sent),
            },
            gather_data: bucket(&[Operation::AllGather], weights),
            moved_bytes: moved(request, candidate),
            matrices: Matrices::new(request, candidate, &pricer),
            lines: LineSums::new(request, candidate, &pricer),
            column_norms: ColumnNorms::new(request, candidate, &pricer),
        }
    }

    /// Seconds per step of a variant of the sheet's candidate, with the axes at these distances.
    pub(crate) fn step(&self, variant: &Candidate, places: &Places) -> f64 {
        let linear = |group: &Group| {
            let again = self.recomputed_share(group, variant);
            let [once, twice] = [1, 2].map(|forwards| {
                let is_there = (forwards == 2 && again > 0.0) || (forwards == 1 && again < 1.0);
                let seconds = || self.linear(group, forwards, variant, places);
                is_there.then(seconds).unwrap_or_default()
            });
            group.count * (once * (1.0 - again) + twice * again)
        };
        let micro = self.groups.iter().map(linear).sum::<f64>()
            + self
                .attention
                .seconds(variant, places, self.collective_share())
            + self.elementwise_s[usize::from(variant.sequence_parallel)];
        let stages = variant.schedule.stages(variant.degrees.pipeline);
        let of_stages = self.stages.iter().find(|(known, ..)| *known == stages);
        let weights = |group: &Group| group.count * group.d_weights_s;
        let share_of_weights = self.groups.iter().map(weights).sum::<f64>() / micro;
        // Shares of a micro-batch, and so the bubble counts in micro-batches.
        let times = Times {
            forward_us: 1.0 - 2.0 * share_of_weights.min(0.5),
            inputs_us: share_of_weights,
            weights_us: share_of_weights,
        };
        let bubble = variant.schedule.idle_us(stages.number, &times);
        let Some((_, imbalance, message)) = of_stages else {
            return f64::INFINITY;
        };
        let micro = micro * imbalance;
        let paging = Paging::new(self.request, variant, |place| self.bandwidth(place));
        let recompute = variant.memory.all().is_some_and(|all| all.recompute);
        let times = halves(micro, recompute);
        let waits = paging.waits(times, recompute, variant.micro_batches);
        let micro = micro + self.moving(variant, micro) + waits;
        // A stage waits for each message, because its next work is on what its neighbour sends.
        let messages = message[usize::from(variant.sequence_parallel)].at(places);
        let passes = variant.micro_batches as f64 + bubble;
        let pace = self.pace(variant.micro_batches as f64 / passes);
        (micro * pace + messages) * passes
            + self.reduction(variant, places, micro * pace)
            + self.update(variant)
            + paging.norm(self.request.priced_bits())
            + paging.update()
            + self.matrices.as_ref().map_or(0.0, |matrices| {
                matrices.seconds(variant.sharding.shards_state(), places)
            })
            + self.lines.as_ref().map_or(0.0, |lines| {
                lines.seconds(variant.sharding.shards_state(), places)
            })
            + self
                .column_norms
                .as_ref()
                .map_or(0.0, |norms| norms.seconds(places))
    }

    // Seconds on the job's slowest device per second on the mean device. Stages that wait leave shared cores to
    // the others.
    fn pace(&self, computing: f64) -> f64 {
        let machine = &self.request.machine;
        let per_node = machine.placement(self.request.devices).per_node;
        machine.crowding(per_node as f64 * computing) / machine.device.slowest.value
    }

    // The share of a group's layers that is recomputed.
    fn recomputed_share(&self, group: &Group, variant: &Candidate) -> f64 {
        if let Some(all) = variant.memory.all() {
            return f64::from(u8::from(all.recompute && group.recomputed));
        }
        let work = &self.request.work.segments;
        let again = group.segments.iter();
        let again =
            again.filter(|segment| variant.memory.of(**segment, &work[**segment]).recompute);
        again.count() as f64 / group.segments.len().max(1) as f64
    }

    // Forward, as often as stated, and backward. Traffic that may run beside compute is hidden as far as the compute lasts, and
    // slows it.
    fn linear(&self, group: &Group, forwards: usize, variant: &Candidate, places: &Places) -> f64 {
        let gather = group.gather.at(places);
        let backward = group.wants_input && !variant.keep_gathered;
        let again = (forwards - 1 + usize::from(backward)) as f64 * gather;
        let beside = |seconds: f64, overlaps: bool| {
            if overlaps {
                (0.0, seconds)
            } else {
                (seconds, 0.0)
            }
        };
        let in_phase = |phase: Phase| {
            let all = group.traffic[usize::from(variant.sequence_parallel)].iter();
            let own = all.filter(|(other, _)| *other == phase);
            let once = own.map(|(_, prices)| prices.at(places)).sum::<f64>();
            phase.times(forwards) as f64 * once
        };
        let reduced = in_phase(Phase::BesideWeights);
        // The input's gradient is needed right after the matmul that computes the weights' gradient, if that is not put off.
        let late = if self.overlap.all_reduce && !variant.schedule.splits_backward() {
            (reduced - group.d_weights_s).max(0.0)
        } else {
            reduced
        };
        let traffic = [
            (in_phase(Phase::Forward) + in_phase(Phase::Backward), 0.0),
            (late, reduced - late),
            beside(in_phase(Phase::BesideInputs), self.overlap.all_reduce),
            beside(gather, self.overlap.all_gather_forward),
            beside(again, self.overlap.all_gather),
            beside(group.scatter.at(places), self.overlap.reduce_scatter),
        ];
        let (shown, hidden) = traffic
            .iter()
            .fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let compute = forwards as f64 * group.forward_s + group.d_inputs_s + group.d_weights_s;
        let slowed = compute + self.collective_share() * hidden.min(compute);
        shown + slowed.max(hidden)
    }

    // The part of the device that traffic takes from compute beside it.
    fn collective_share(&self) -> f64 {
        self.request.machine.device.collective_share.value
    }

    // Bytes per second to and from a place beyond the device.
    fn bandwidth(&self, place: PlaceKind) -> Option<f64> {
        let device = &self.request.machine.device;
        match place {
            PlaceKind::Device => None,
            PlaceKind::Host => Some(device.host_bandwidth()),
            PlaceKind::Files => Some(device.files_bandwidth()),
        }
    }

    // Seconds per micro-batch for which a stage waits for activations that leave beside its forward and come back beside its
    // backward. Where segments differ, each has its neighbours' time.
    fn moving(&self, variant: &Candidate, micro: f64) -> f64 {
        let Some(all) = variant.memory.all() else {
            let config = variant.config(self.request);
            let depths = config.parallel.stages.clone().unwrap_or_default();
            let stages = of_stages(self.request, &config, &depths);
            let segments = variant.memory.each(&self.request.work);
            return waits(&Links::of(self.request), &stages, &segments);
        };
        let Some(bandwidth) = self.bandwidth(all.place) else {
            return 0.0;
        };
        let bytes = self.moved_bytes[usize::from(all.recompute)]
            [usize::from(variant.sequence_parallel)]
            / variant.degrees.pipeline as f64;
        let seconds = bytes / bandwidth;
        let shown = halves(micro, all.recompute).map(|time| (seconds - time).max(0.0));
        shown.iter().sum()
    }

    // Gradient reduction. All but the last bucket overlap the backward of a micro-batch, about two thirds of its time. Then
    // the updated values of sharded parameters follow.
    fn reduction(&self, variant: &Candidate, places: &Places, micro: f64) -> f64 {
        let (prices, gathered) = match variant.sharding.shards_state() {
            true => (
                &self.scatter_data,
                self.gather_data.at(places) * self.num_buckets,
            ),
            false => (&self.reduce_data, 0.0),
        };
        let one = prices.at(places) + self.reduce_context.at(places);
        let all = one * self.num_buckets;
        // Gradients that are sharded are reduced in every micro-batch, and overlap its backward.
        let times = match variant.sharding.shards_gradients() {
            true => variant.micro_batches as f64,
            false => 1.0,
        };
        let reduced = match self.overlap.data {
            true => {
                let shown = all - micro * 2.0 / 3.0;
                shown.max(0.0) * (times - 1.0) + shown.max(one)
            }
            false => all * times,
        };
        gathered + reduced
    }

    // The optimiser reads gradients, reads and writes values and states, and writes the copy in the compute
    // type. Where state is kept as codes, it reads gradients and codes once more, for their scales; where it is means of
    // lines, it sums and directs gradients first.
    fn update(&self, variant: &Candidate) -> f64 {
        let shared = if variant.sharding.shards_state() {
            variant.degrees.data as f64
        } else {
            1.0
        };
        let state = state_bytes(self.request);
        let optimiser = self.request.training().optimiser();
        let of_scales = match optimiser.codes() {
            Some(_) => 4.0 + state,
            None => 0.0,
        };
        let of_lines = match optimiser.factors() {
            Some(_) => LineSums::BYTES_OF_ELEMENT,
            None => 0.0,
        };
        let of_element = 14.0 + 2.0 * state + of_scales + of_lines;
        let device = &self.request.machine.device;
        let trained = parameters(self.request, &variant.degrees) * trained_share(self.request);
        let elements = trained / shared;
        let kernels = of_element * elements / device.kernel_bandwidth("adamw", "optimiser");
        let Some(bandwidth) = self.bandwidth(variant.places.optimiser) else {
            return kernels;
        };
        if variant.places.update == UpdatePlace::Host {
            return self.host_update(variant, elements, state);
        }
        // A piece arrives, is updated and returns in one of two buffers, while another piece does so in the other.
        let moved = elements * beyond_bytes(self.request);
        moved / bandwidth + kernels / 2.0
    }

    // Gradients of one piece arrive, and weights of another return, while the host's processors update a third. From files, the
    // state of a piece comes and goes beside that.
    fn host_update(&self, variant: &Candidate, elements: f64, state: f64) -> f64 {
        let machine = &self.request.machine;
        let device = &machine.device;
        let [gradient, value] = crossing_bytes(self.request);
        let per_node = machine.placement(self.request.devices).per_node;
        let crowding = machine.crowding(per_node as f64);
        let moved = 3.0 * gradient + value + 2.0 * state;
        let updated = crowding * elements * moved / device.host_update_bandwidth();
        let gradients = elements * gradient / device.host_bandwidth();
        match variant.places.optimiser {
            PlaceKind::Files => {
                let of_files = elements * (gradient + state) / device.files_bandwidth();
                of_files + (updated + gradients) / 2.0
            }
            _ => updated.max(gradients),
        }
    }
}

// The times of forward and backward in that of a micro-batch: forward is a third or, with recomputation, a quarter.
fn halves(micro: f64, recompute: bool) -> [f64; 2] {
    let forward = micro / if recompute { 4.0 } else { 3.0 };
    [forward, micro - forward]
}

// By recomputation and sequence parallelism, the bytes of activations that leave in a micro-batch.
fn moved(request: &Request, candidate: &Candidate) -> [[f64; 2]; 2] {
    if request.activation_places.is_empty() {
        return [[0.0; 2]; 2];
    }
    [false, true].map(|recompute| {
        [false, true].map(|sequence_parallel| {
            let place = PlaceKind::Host;
            let variant = Candidate {
                memory: SegmentMemory { recompute, place }.into(),
                sequence_parallel,
                ..candidate.clone()
            };
            moved_bytes(request, &variant, place)
        })
    })
}

// The local computation of a rank.
struct Local<'a> {
    request: &'a Request,
    candidate: &'a Candidate,
    rows: usize,
}

impl Local<'_> {
    // Equal layers form one group, wherever they stand in the model.
    fn groups(&self, pricer: &Pricer) -> Vec<Group> {
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

    // About 5 passes over activations as wide as the residual, and 8 over the wide half of an MLP, forward and
    // backward together.
    fn elementwise(&self, sequence_parallel: bool) -> f64 {
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

    // For each way in which the work can be cut and placed.
    fn stages(&self, pricer: &Pricer, cuts: &CostCuts<'_>) -> Vec<(Stages, f64, [Prices; 2])> {
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

    // If buckets are off, each tensor counts, about three per group of linear layers.
    fn num_buckets(&self, bytes: f64) -> f64 {
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
