//! Component times for one grid and number of rows, from which the times of its orders and variants are
//! assembled.

use super::{
    attention::Attention,
    column_norms::ColumnNorms,
    distances::{Distances, Places},
    lines::LineSums,
    local::{Group, Local},
    matrices::Matrices,
    memory::{beyond_bytes, crossing_bytes, moved_bytes, parameters, state_bytes, trained_share},
    paging::Paging,
    prices::{Pricer, Prices},
    stages::CostCuts,
};
use crate::{
    Candidate, Request,
    memory::{Links, of_stages, waits},
};
use grid::Axis;
use parallel::{
    Operation, Overlap, Reproducible,
    data::UpdatePlace,
    memory::SegmentMemory,
    pipeline::schedule::{Stages, Times},
    work::Phase,
};
use train::config::PlaceKind;

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
