//! What one rank sees of the step that is explained.

use crate::commands::bench::links::{GroupShape, PROBE, measure_links};
use bootstrap::World;
use grid::{Axis, Grid, Mapping, machine::links::Timed};
use parallel::{Context, Counters, Operation, counters::Subject, report::Report};
use std::time::Instant;
use tensor::Device;
use train::{Config, batches::Batches};

/// What one rank counted, noted and measured.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// The rank.
    pub(crate) rank: usize,
    /// The grid, in the chosen order.
    pub(crate) grid: Grid,
    /// The placement of the ranks.
    pub(crate) mapping: Mapping,
    /// What its collectives moved during the step.
    pub(crate) counters: Counters,
    /// The library's own decisions.
    pub(crate) report: Report,
    /// Bytes of the linear layers of all stages, or over Context of their attention, in line with this rank.
    pub(crate) linear: Vec<(Axis, Operation, u64)>,
    /// Seconds of the step.
    pub(crate) step_s: f64,
    /// The links, measured if there are several nodes and no machine is named.
    pub(crate) links: Vec<Timed>,
}

impl Seen {
    /// Runs two steps and reports the second, because the first allocates buffers and learns the order of
    /// gathers.
    pub(crate) fn of(
        world: &World,
        device: &Device,
        config: &Config,
        data: &dyn Batches,
    ) -> train::Result<Seen> {
        let grid = config.grid_on(world)?;
        let context = Context::new(world.clone(), grid, device.clone(), config.settings())?;
        let machine = config.machine()?;
        let probes = machine.is_none() && world.num_nodes() > 1;
        machine
            .into_iter()
            .for_each(|machine| context.describe_machine(machine));
        let mut trainer = config.trainer(&context)?;
        trainer.step(&trainer.batch(data)?)?;
        context.reset_counters();
        let before = context.report();
        let begun = Instant::now();
        trainer.step(&trainer.batch(data)?)?;
        let step_s = begun.elapsed().as_secs_f64();
        let kinds = if probes {
            kinds(&grid, context.mapping())
        } else {
            Vec::new()
        };
        let links = measure_links(world, device, &kinds, PROBE)?;
        let (counters, report) = (context.counters(), context.report().since(&before));
        let linear = linear(&context, &counters)?;
        let (rank, mapping) = (world.rank(), context.mapping().clone());
        Ok(Seen {
            rank,
            grid,
            mapping,
            counters,
            report,
            linear,
            step_s,
            links,
        })
    }
}

// The groups of all axes, and both levels of those that span nodes.
fn kinds(grid: &Grid, mapping: &Mapping) -> Vec<GroupShape> {
    let mut kinds = Vec::new();
    for axis in Axis::ALL.into_iter().filter(|axis| grid.degree(*axis) > 1) {
        let route = mapping.span(grid, axis).widest;
        let (inside, across) = (route.inside(), route.across());
        for (inner, size) in [
            (route.inner, route.size),
            (inside.inner, inside.size),
            (across.inner, across.size),
        ] {
            let kind = GroupShape { inner, size };
            if size > 1 && grid.world_size().is_multiple_of(inner * size) && !kinds.contains(&kind)
            {
                kinds.push(kind);
            }
        }
    }
    kinds
}

/// What has formulas over this axis.
pub(super) fn subject(axis: Axis) -> Subject {
    match axis {
        Axis::Context => Subject::Attention,
        _ => Subject::Linear,
    }
}

const COUNTED: [(Axis, Operation); 13] = [
    (Axis::X, Operation::AllReduce),
    (Axis::X, Operation::AllToAll),
    (Axis::X, Operation::AllGather),
    (Axis::Y, Operation::AllReduce),
    (Axis::Y, Operation::AllToAll),
    (Axis::Y, Operation::AllGather),
    (Axis::Z, Operation::AllGather),
    (Axis::Z, Operation::ReduceScatter),
    (Axis::Z, Operation::AllToAll),
    (Axis::Context, Operation::AllGather),
    (Axis::Context, Operation::ReduceScatter),
    (Axis::Context, Operation::AllToAll),
    (Axis::Context, Operation::Send),
];

// Each stage counts its own layers, but the formulas cover the whole model.
fn linear(context: &Context, counters: &Counters) -> train::Result<Vec<(Axis, Operation, u64)>> {
    let own = COUNTED.map(|(axis, operation)| counters.get(axis, operation, subject(axis)).bytes);
    let stages = context.exchange("explain", &[Axis::Pipeline])?;
    let told = stages.all_gather_numbers(&own)?;
    let sum = |at: usize| told.iter().filter_map(|numbers| numbers.get(at)).sum();
    Ok(COUNTED
        .iter()
        .enumerate()
        .map(|(at, &(axis, operation))| (axis, operation, sum(at)))
        .collect())
}
