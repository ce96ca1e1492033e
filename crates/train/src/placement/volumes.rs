//! Bytes that a training step moves on each axis, by formula.
//!
//! For a layer of k inputs and n outputs over m rows of a data replica: W is gathered over Z in each forward, and in backward
//! for dX, k n / (Gx Gy) elements; dW is reduce-scattered over Z, as many elements, if W is trained; Y is all-reduced over the
//! axis that the layer reads, m n / (Gz Gemits) elements; dX over the axis that it emits, m k / (Gz Greads), if a parameter
//! before the layer is trained. Gradients of a shard are all-reduced over Data once per step. Each micro-batch passes m h / (Gz Gy)
//! elements between stages, forward and back. Where sums are reproducible on any grid, an all-to-all of nodes in the
//! accumulator type and an all-gather stand for each all-reduce, and the all-to-all alone for a reduce-scatter.
//! If columns of weights have trained lengths, A and B of an adapter are gathered once more in a step, for the norms of these columns.
//! Under sequence parallelism a reduce-scatter and an all-gather stand for each all-reduce over X, and X is gathered once
//! more for dW unless a recomputation has just done so; messages between stages are 1/Gx as large. With ranks along Context
//! m counts the vectors of a rank's tokens; keys and values are gathered over Context twice, and their gradients summed.
//!
//! # Source
//! Singh et al., arXiv:2305.13525, section on the communication model; extended to pipelines.

use super::depths;
use crate::{Config, Result, config::as_config};
use grid::{Axis, Degrees};
use parallel::{
    GradientWire, Operation, Reproducible,
    counters::Subject,
    model::Cut,
    work::{AttentionWork, ColumnNormsWork, LinearWork, WeightUse, Work},
};

/// One kind of traffic on one axis: the total of all stages, on one rank of each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Volume {
    /// The axis.
    pub axis: Axis,
    /// How the bytes move.
    pub operation: Operation,
    /// What the bytes are.
    pub subject: Subject,
    /// Number of collectives or messages.
    pub calls: u64,
    /// Bytes of the whole buffers, over all calls.
    pub bytes: u64,
    /// Whether they may run beside compute.
    pub hidden: bool,
}

/// The traffic of a step's layers, gradients and stages. Norms, the loss and clipping move a negligible amount.
///
/// # Errors
/// As [`Config::work`]; [`Error::Parallel`](crate::Error::Parallel) for more parts of a pipeline than segments.
pub fn volumes(config: &Config) -> Result<Vec<Volume>> {
    let work = config.work()?;
    let step = Step {
        config,
        work: &work,
        degrees: config.parallel.grid,
    };
    let mut all = Vec::new();
    let memory = work
        .memory(&config.activation_memory())
        .map_err(as_config)?;
    for (segment, memory) in work.segments.iter().zip(memory) {
        let forwards = 1 + usize::from(memory.recompute && segment.recomputed);
        segment
            .linear
            .iter()
            .for_each(|layers| step.add_layers(layers, forwards, &mut all));
        let norms = segment.column_norms.iter();
        norms.for_each(|norms| step.add_column_norms(norms, &mut all));
        let attention = segment.attention.iter();
        attention.for_each(|work| step.add_keys(work, forwards, &mut all));
    }
    step.add_gradients(&mut all);
    step.add_messages(&mut all)?;
    Ok(all)
}

struct Step<'a> {
    config: &'a Config,
    work: &'a Work,
    degrees: Degrees,
}

impl Step<'_> {
    // Rows per data replica.
    fn rows(&self) -> usize {
        self.config.training.batch / self.degrees.data.max(1)
    }

    fn element(&self) -> u64 {
        self.config.training.precision.dtype().bytes() as u64
    }

    fn sum_element(&self) -> u64 {
        self.config.training.precision.dtype().accumulator().bytes() as u64
    }

    fn add_layers(&self, layers: &LinearWork, forwards: usize, all: &mut Vec<Volume>) {
        let Degrees {
            x, y, z, context, ..
        } = self.degrees;
        let tokens = if layers.tokens { context } else { 1 };
        let (parallel, training) = (&self.config.parallel, &self.config.training);
        let (overlap, bits) = (parallel.overlap.0, training.reproducible.or_run());
        let rows = self.rows() * layers.vectors;
        let size = |wide: bool| {
            if wide {
                self.sum_element()
            } else {
                self.element()
            }
        };
        for one in layers.traffic(bits, self.config.settings().sequence_parallel) {
            let times = one.phase.times(forwards);
            let features = one.features.iter().sum::<usize>();
            let elements = rows * features / (z * self.degrees.get(one.cut) * tokens);
            let hidden = overlap.all_reduce && one.phase.may_overlap();
            let calls = times * one.features.len();
            let kind = (one.axis, one.operation, hidden);
            let bytes = (times * elements) as f64 * size(one.wide) as f64;
            self.add(all, (kind, Subject::Linear), calls, bytes);
        }
        let gathers = layers.gathers(forwards, parallel.keep_gathered);
        let gather = (Axis::Z, Operation::AllGather, overlap.all_gather);
        let (scatter, wide) = match bits {
            Reproducible::Run => (
                Operation::ReduceScatter,
                parallel.gradient_wire == GradientWire::Wide,
            ),
            Reproducible::Grid => (Operation::AllToAll, true),
        };
        let scatter = (Axis::Z, scatter, overlap.reduce_scatter);
        for (n, weight) in layers.outputs.iter().zip(&layers.weights) {
            let elements = (layers.inputs * n / (x * y) * training.micro_batches) as f64;
            let gathered = elements * weight.bytes(size(parallel.gather_wide) as usize);
            let gathered = (gathers, gathers as f64 * gathered);
            self.add(all, (gather, Subject::Linear), gathered.0, gathered.1);
            if *weight == WeightUse::Trained {
                let scattered = elements * size(wide) as f64;
                self.add(all, (scatter, Subject::Linear), 1, scattered);
            }
        }
    }

    // Once in a step, whatever the number of micro-batches.
    fn add_column_norms(&self, norms: &ColumnNormsWork, all: &mut Vec<Volume>) {
        let wide = self.config.parallel.gather_wide;
        for (axis, elements) in norms.gathers(&self.degrees) {
            let size = match axis == Axis::Z && wide {
                true => self.sum_element(),
                false => self.element(),
            };
            let hidden = axis == Axis::Z && self.config.parallel.overlap.0.all_gather;
            let bytes = elements.iter().sum::<usize>() as u64 * size;
            let kind = (axis, Operation::AllGather, hidden);
            self.add_once(all, (kind, Subject::Linear), elements.len() as u64, bytes);
        }
    }

    // Collectives of one axis and operation, hidden or not, in each micro-batch; and their bytes in a step.
    fn add(
        &self,
        all: &mut Vec<Volume>,
        kind: ((Axis, Operation, bool), Subject),
        calls: usize,
        bytes: f64,
    ) {
        let calls = (calls * self.config.training.micro_batches) as u64;
        self.add_once(all, kind, calls, bytes as u64);
    }

    fn add_once(
        &self,
        all: &mut Vec<Volume>,
        ((axis, operation, hidden), subject): ((Axis, Operation, bool), Subject),
        calls: u64,
        bytes: u64,
    ) {
        if self.degrees.get(axis) == 1 {
            return;
        }
        let alike = |volume: &&mut Volume| {
            let kind = (volume.axis, volume.operation, volume.hidden);
            (kind, volume.subject) == ((axis, operation, hidden), subject)
        };
        match all.iter_mut().find(alike) {
            Some(volume) => {
                (volume.calls, volume.bytes) = (volume.calls + calls, volume.bytes + bytes)
            }
            None => all.push(Volume {
                axis,
                operation,
                subject,
                calls,
                bytes,
                hidden,
            }),
        }
    }

    // Keys and values over Context, gathered or passed on in forward and again in backward or its recomputation, and the sums
    // of their gradients. Or queries, keys, values and results, exchanged in each pass. Where sums are those of one rank,
    // whole activations are gathered instead, which are changes of layout.
    fn add_keys(&self, work: &AttentionWork, forwards: usize, all: &mut Vec<Volume>) {
        let by_nodes = self.config.training.reproducible.or_run() == Reproducible::Grid;
        if !work.tokens || by_nodes {
            return;
        }
        let Degrees { x, z, context, .. } = self.degrees;
        let way = self.config.parallel.context_attention;
        for one in work.traffic(way, context, forwards) {
            let features = one.features.iter().sum::<usize>();
            let elements = self.rows() / z * one.vectors * features / x;
            let size = match one.wide {
                true => self.sum_element(),
                false => self.element(),
            };
            let kind = (Axis::Context, one.operation, one.hidden);
            let calls = one.features.len();
            let bytes = elements as f64 * size as f64;
            self.add(all, (kind, Subject::Attention), calls, bytes);
        }
    }

    fn add_gradients(&self, all: &mut Vec<Volume>) {
        let Degrees { x, y, z, .. } = self.degrees;
        let (elements, wire) = (
            (self.work.num_trained() / (x * y * z)) as u64,
            self.config.parallel.gradient_wire,
        );
        let dtype = self.config.training.precision.dtype();
        let bytes = elements * wire.over_data(dtype).bytes() as u64;
        let bucket = (self.config.parallel.bucket_mib.max(1) << 20) as u64;
        let held = elements * self.sum_element();
        let calls = held.div_ceil(bucket).max(self.degrees.pipeline as u64);
        let hidden = self.config.parallel.overlap.0.data;
        let by_nodes = self.config.training.reproducible.or_run() == Reproducible::Grid;
        // Where sums are those of one rank, ranks of Context compute the same gradients.
        if self.degrees.context > 1 && !by_nodes {
            all.push(Volume {
                axis: Axis::Context,
                operation: Operation::AllReduce,
                subject: Subject::Gradients,
                calls,
                bytes,
                hidden,
            });
        }
        if self.degrees.data == 1 {
            return;
        }
        let volume = |operation, bytes, hidden| Volume {
            axis: Axis::Data,
            operation,
            subject: Subject::Gradients,
            calls,
            bytes,
            hidden,
        };
        let sharding = self.config.parallel.sharding;
        if !sharding.shards_state() {
            return match by_nodes {
                true => all.extend(
                    [Operation::AllToAll, Operation::AllGather]
                        .map(|operation| volume(operation, bytes, hidden)),
                ),
                false => all.push(volume(Operation::AllReduce, bytes, hidden)),
            };
        }
        let values = elements * self.element();
        let scatter = match by_nodes {
            true => Operation::AllToAll,
            false => Operation::ReduceScatter,
        };
        // Gradients that are sharded travel with every micro-batch.
        let times = match sharding.shards_gradients() {
            true => self.config.training.micro_batches as u64,
            false => 1,
        };
        let scattered = volume(scatter, bytes, hidden);
        all.push(Volume {
            calls: times * scattered.calls,
            bytes: times * scattered.bytes,
            ..scattered
        });
        all.push(volume(Operation::AllGather, values, false));
    }

    // Each wire that crosses from part to part, and its gradient back.
    fn add_messages(&self, all: &mut Vec<Volume>) -> Result<()> {
        let Degrees { z, pipeline, .. } = self.degrees;
        if pipeline == 1 {
            return Ok(());
        }
        let stages = self.config.parallel.schedule.stages(pipeline);
        let depths = depths(self.config, self.work, self.config.machine()?.as_deref())?;
        let parts = Cut::stated(&depths, self.work.segments.len(), stages)?;
        let crossing = self.work.crossing(&parts, stages);
        let elements = |wire: &&parallel::work::WireWork| {
            let spread = self.config.settings().sequence_parallel;
            let ranks = wire.place.ranks(&self.degrees, spread);
            (wire.times() * (self.rows() * wire.elements / (z * ranks))) as u64
        };
        let times: usize = crossing.iter().map(|wire| wire.times()).sum();
        all.push(Volume {
            axis: Axis::Pipeline,
            operation: Operation::Send,
            subject: Subject::Pipeline,
            calls: (times * self.config.training.micro_batches) as u64,
            bytes: crossing.iter().map(elements).sum::<u64>() * self.element(),
            hidden: true,
        });
        Ok(())
    }
}
