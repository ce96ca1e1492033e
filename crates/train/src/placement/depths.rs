//! Where a model is cut into the parts of a pipeline: as stated, or so that the slowest part takes the least time.

use super::{Pricing, order::stand_in};
use crate::{
    Config, Error, Result,
    config::{PlaceKind, as_config},
};
use grid::{
    Degrees, Grid,
    machine::{GemmShape, Machine, Route, Variant},
};
use parallel::{
    Operation,
    memory::SegmentMemory,
    model::Cut,
    pipeline::{
        ScheduleKind,
        schedule::{Profile, ProfiledMemory, ProfiledWire, partition},
    },
    work::{AttentionWork, LinearWork, SegmentWork, WeightUse, WireWork, Work},
};

/// The number of segments in each part of `config`'s pipeline, from the first part to the last.
///
/// Those that the configuration states, or the cut whose slowest part takes the least time: its work, which is the total of
/// the counted work by the segments' costs, and the messages that it receives. The machine gives rates and links; without one,
/// a laptop stands for it. Within `device.memory_limit`, or the memory of the machine if one is given, each stage has room
/// for what it holds and for its micro-batches in flight: the fastest cut is taken if it fits, otherwise the fastest that does. Where
/// none does, time alone decides, and the run reports what it lacks.
///
/// # Errors
/// [`Error::Setting`] for stated numbers that do not fit the model or the schedule, for more parts
/// than segments, and a schedule that cannot be built; [`Error::Grid`].
pub fn depths(config: &Config, work: &Work, machine: Option<&Machine>) -> Result<Vec<usize>> {
    let (kind, num_stages) = (config.parallel.schedule, config.parallel.grid.pipeline);
    let stages = kind.stages(num_stages);
    let num_segments = work.segments.len();
    if let Some(stated) = &config.parallel.stages {
        return match Cut::stated(stated, num_segments, stages) {
            Ok(_) => Ok(stated.clone()),
            Err(parallel::Error::Invalid { found, needed, .. }) => {
                Err(Error::setting("parallel.stages", found, needed))
            }
            Err(other) => Err(other.into()),
        };
    }
    if stages.num_parts() == 1 {
        return Ok(vec![num_segments]);
    }
    let stand_in = stand_in();
    let costs: Vec<f64> = work.segments.iter().map(|segment| segment.cost).collect();
    let by_cost = || Cut::parts(&costs, stages).map_err(as_config);
    let parts = match machine.or(stand_in.as_ref()) {
        None => by_cost()?,
        Some(priced) => {
            let step = Step {
                config,
                machine: priced,
                degrees: config.parallel.grid,
                memory: work
                    .memory(&config.activation_memory())
                    .map_err(as_config)?,
            };
            let limited = machine.map(|machine| machine.device.memory_bytes());
            let limit = [config.device.memory_limit, limited]
                .into_iter()
                .flatten()
                .min();
            let profile = step.profile(work, limit)?;
            let in_flight = kind.in_flight(num_stages, config.training.micro_batches);
            let in_flight = in_flight.unwrap_or_else(|_| vec![1; stages.num_parts()]);
            let by_time = Profile {
                memory: None,
                ..profile.clone()
            };
            match partition(&by_time, stages, &in_flight) {
                Ok(parts) if profile.fits(&parts, stages, &in_flight) => parts,
                Ok(parts) => partition(&profile, stages, &in_flight).unwrap_or(parts),
                Err(_) => by_cost()?,
            }
        }
    };
    Ok(parts.into_iter().map(|part| part.len()).collect())
}

// A step of one rank on a machine.
struct Step<'a> {
    config: &'a Config,
    machine: &'a Machine,
    degrees: Degrees,
    memory: Vec<SegmentMemory>,
}

impl Step<'_> {
    fn profile(&self, work: &Work, limit: Option<usize>) -> Result<Profile> {
        let choices = || work.segments.iter().zip(&self.memory);
        let seconds: f64 = choices()
            .map(|(segment, memory)| self.seconds(segment, memory.recompute && segment.recomputed))
            .sum();
        let costs: f64 = work.segments.iter().map(|segment| segment.cost).sum();
        let share = |segment: &SegmentWork| match costs > 0.0 {
            true => seconds * segment.cost / costs,
            false => 0.0,
        };
        let column = |of: &dyn Fn(&SegmentWork) -> f64| work.segments.iter().map(of).collect();
        let route = self.route()?;
        let wire = |wire: &WireWork| ProfiledWire {
            from: wire.from,
            to: wire.to.clone(),
            time: self.message(wire, route),
        };
        Ok(Profile {
            times: column(&share),
            wires: work.wires.iter().map(wire).collect(),
            memory: limit.map(|limit| ProfiledMemory {
                limit: limit as f64,
                held: column(&|segment| self.held(segment)),
                kept: choices()
                    .map(|(segment, memory)| self.kept(segment, *memory) + self.stashed(segment))
                    .collect(),
            }),
        })
    }

    // Rows of a micro-batch that a rank computes with.
    fn rows(&self) -> usize {
        let training = &self.config.training;
        let cut = self.degrees.data * self.degrees.z * training.micro_batches;
        (training.batch / cut.max(1)).max(1)
    }

    fn element(&self) -> usize {
        self.config.training.precision.dtype().bytes()
    }

    // Forward and backward of a micro-batch.
    fn seconds(&self, segment: &SegmentWork, recompute: bool) -> f64 {
        let forwards = match recompute {
            true => 2.0,
            false => 1.0,
        };
        let linear = |work: &LinearWork| {
            let m = self.rows() * work.vectors / self.context(work.tokens);
            let k = work.inputs / self.degrees.get(work.reads);
            let each = work.outputs.iter().zip(&work.weights);
            let each = each.map(|(outputs, weight)| {
                let n = outputs / self.degrees.get(work.emits);
                let of_weights = match weight {
                    WeightUse::Trained => self.matmul([k, n, m], Variant::Tn),
                    WeightUse::Frozen | WeightUse::Quantised(_) => 0.0,
                };
                let of_inputs = match work.wants_input {
                    true => self.matmul([m, k, n], Variant::Nt),
                    false => 0.0,
                };
                forwards * self.matmul([m, n, k], Variant::Nn) + of_inputs + of_weights
            });
            each.sum::<f64>()
        };
        let attention = |work: &AttentionWork| {
            let heads = self.rows() * work.heads / self.degrees.x;
            let shape = work.shape(heads);
            let dtype = self.config.training.precision.dtype();
            let of = |backward| {
                self.machine
                    .attention(&shape, dtype, Default::default(), backward)
            };
            let backward = match work.has_backward {
                true => of(true),
                false => 0.0,
            };
            (forwards * of(false) + backward) / self.context(work.tokens) as f64
        };
        segment.linear.iter().map(linear).sum::<f64>()
            + segment.attention.iter().map(attention).sum::<f64>()
    }

    fn matmul(&self, [m, n, k]: [usize; 3], variant: Variant) -> f64 {
        let shape = GemmShape {
            m,
            n,
            k,
            dtype: self.config.training.precision.dtype().name(),
            variant,
            bytes: (m * k + k * n + m * n) * self.element(),
        };
        let device = &self.machine.device;
        self.machine.product.seconds(&shape, device, true)
    }

    fn context(&self, tokens: bool) -> usize {
        match tokens {
            true => self.degrees.context,
            false => 1,
        }
    }

    fn route(&self) -> Result<Route> {
        let order = self.config.parallel.order.or_default();
        let grid = Grid::new(self.degrees, order)?;
        let inner = grid.inner_product(grid::Axis::Pipeline);
        let placement = self.machine.placement(grid.world_size());
        Ok(Route::strided(inner, self.degrees.pipeline, placement))
    }

    // A wire to another stage, or its gradient back.
    fn message(&self, wire: &WireWork, route: Route) -> f64 {
        let pricing = Pricing {
            machine: self.machine,
            hierarchical: self.config.parallel.hierarchical,
        };
        let spread = self.config.parallel.sequence_parallel;
        let ranks = wire.place.ranks(&self.degrees, spread);
        let bytes = self.rows() * wire.elements / ranks * self.element();
        pricing.one(Operation::Send, bytes, route)
    }

    // A version of the weights for each micro-batch in flight, if the schedule stashes them.
    fn stashed(&self, segment: &SegmentWork) -> f64 {
        let Degrees { x, y, z, .. } = self.degrees;
        match self.config.parallel.schedule.updates_each_micro_batch() {
            true => (self.element() * segment.parameters) as f64 / (x * y * z) as f64,
            false => 0.0,
        }
    }

    // Weights, gradients and the optimiser's state, without stashed weights.
    fn held(&self, segment: &SegmentWork) -> f64 {
        let Degrees { x, y, z, data, .. } = self.degrees;
        let (training, sharding) = (&self.config.training, self.config.parallel.sharding);
        let wide = training.precision.dtype().accumulator().bytes();
        let over = |is_sharded: bool| if is_sharded { data as f64 } else { 1.0 };
        let master = usize::from(wide != self.element());
        let optimiser = training.optimiser();
        let state = match (self.config.placement.optimiser, optimiser.codes()) {
            (PlaceKind::Device, None) => wide * (optimiser.num_states() + master),
            (PlaceKind::Device, Some(_)) => optimiser.num_states() + wide * master,
            _ => 0,
        };
        let gradients = wide as f64 / over(sharding.shards_gradients());
        let element = self.element() as f64;
        let read = match self.config.parallel.schedule {
            ScheduleKind::PipeDream => gradients,
            ScheduleKind::PipeDream2Bw => 2.0 * (element + gradients),
            _ => element + gradients,
        };
        let of_element = read + state as f64 / over(sharding.shards_state());
        of_element * segment.parameters as f64 / (x * y * z) as f64
    }

    // Activations of a micro-batch in flight, if they stay on the device: of a recomputed segment its inputs alone.
    fn kept(&self, segment: &SegmentWork, memory: SegmentMemory) -> f64 {
        if memory.place != PlaceKind::Device {
            return 0.0;
        }
        let spread = self.config.parallel.sequence_parallel;
        let elements = match memory.recompute {
            true if !segment.has_backward => 0.0,
            true => {
                let inputs = segment.linear.first();
                inputs.map_or(0.0, |work| {
                    let cut = self.degrees.get(work.reads) * self.context(work.tokens);
                    (work.vectors * work.inputs) as f64 / cut as f64
                })
            }
            false => segment.kept_elements(&self.degrees, spread, false),
        };
        (self.rows() * self.element()) as f64 * elements
    }
}
