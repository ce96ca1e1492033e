//! What the planner decides for a run on the machine at hand: its grid (`fascicle train --plan`), and what segments keep and where
//! (`training.memory = "auto"`).

use crate::{
    Registry,
    failure::{Failure, Outcome},
    launcher,
    numbers::counted,
    output,
    this_machine::ThisMachine,
};
use grid::{Degrees, machine::Machine};
use parallel::{ContextAttention, data::Sharding, memory::Segments, pipeline::ScheduleKind};
use plan::{Request, memory, search};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use train::{
    Config,
    config::{ActivationPlaces, MemoryMode, OrderChoice},
};

/// Time limit of the simulations; these models are small.
const BUDGET: Duration = Duration::from_secs(5);

/// What the planner chose for a run, as one process hands it to the others: searches that end by time may differ.
#[derive(Serialize, Deserialize)]
struct Chosen {
    grid: Degrees,
    order: OrderChoice,
    micro_batches: usize,
    schedule: ScheduleKind,
    sharding: Sharding,
    keep_gathered: bool,
    sequence_parallel: bool,
    context_attention: ContextAttention,
    peak_flop_per_s: Option<f64>,
}

/// The configuration with the best grid, order, schedule and micro-batches for its number of ranks, found by the first process of
/// a job for all; and the flop/s that the machine's devices could reach, where its description states them.
///
/// # Errors
/// [`Failure::Run`] if no grid fits the model, or none fits the memory; those of [`Config::grid`]; a machine that
/// cannot be found or measured.
pub(crate) fn planned(
    registry: &Registry,
    this: &ThisMachine,
    mut config: Config,
) -> Outcome<(Config, Option<f64>)> {
    let found = launcher::once_in_words(|| {
        let machine = at_hand(registry, this, config.parallel.machine.as_deref())?;
        let chosen = best(&config, machine)?;
        serde_json::to_string(&chosen).map_err(Failure::run)
    })?;
    let chosen: Chosen = serde_json::from_str(&found).map_err(Failure::run)?;
    config.training.micro_batches = chosen.micro_batches;
    let parallel = &mut config.parallel;
    (parallel.grid, parallel.order, parallel.schedule) =
        (chosen.grid, chosen.order, chosen.schedule);
    // The cut of an earlier grid does not fit this one.
    parallel.stages = None;
    (parallel.sharding, parallel.keep_gathered) = (chosen.sharding, chosen.keep_gathered);
    parallel.sequence_parallel = chosen.sequence_parallel;
    parallel.context_attention = chosen.context_attention;
    config.check()?;
    Ok((config, chosen.peak_flop_per_s))
}

fn best(config: &Config, machine: Machine) -> Outcome<Chosen> {
    let (ranks, dtype) = (
        config.grid()?.world_size(),
        config.training.precision.dtype(),
    );
    let peak_flop_per_s = machine.peak_of(ranks, dtype.name());
    // What the planner chooses is left open.
    let request = Request {
        grid: None,
        order: None,
        micro_batches: None,
        schedule: None,
        sharding: None,
        keep_gathered: None,
        sequence_parallel: None,
        context_attention: None,
        budget: BUDGET,
        ..Request::of(config, machine).map_err(Failure::run)?
    };
    let plan = search(&request).map_err(Failure::run)?;
    let best = plan
        .best
        .first()
        .ok_or_else(|| Failure::run("--plan: found no way to run the model"))?;
    let chosen = &best.candidate;
    output::note(&format!(
        "planned for {}: grid {}, order {}, {}, {}; about {:.1} ms per step, the best of {} simulated",
        request.machine.name,
        chosen.degrees,
        chosen.order,
        counted(chosen.micro_batches, "micro-batch"),
        chosen.schedule,
        best.step_s * 1e3,
        plan.num_simulated
    ));
    Ok(Chosen {
        grid: chosen.degrees,
        order: chosen.order.into(),
        micro_batches: chosen.micro_batches,
        schedule: chosen.schedule,
        sharding: chosen.sharding,
        keep_gathered: chosen.keep_gathered,
        sequence_parallel: chosen.sequence_parallel,
        context_attention: chosen.context_attention,
        peak_flop_per_s,
    })
}

/// What was chosen for a run's segments, as one process hands it to the others.
#[derive(Serialize, Deserialize)]
struct SettledMemory {
    recompute: Segments,
    activations: ActivationPlaces,
    sentences: Vec<String>,
}

/// Settles `training.memory = "auto"`, on the first process of a job for all; returns what was chosen and why, in sentences, and
/// none where the configuration states it.
///
/// # Errors
/// [`Failure::Run`] with the numbers if no choice fits the memory; a machine that cannot be found or measured.
pub(crate) fn settle_memory(
    registry: &Registry,
    this: &ThisMachine,
    config: &mut Config,
) -> Outcome<Vec<String>> {
    if config.training.memory == MemoryMode::Stated {
        return Ok(Vec::new());
    }
    let found = launcher::once_in_words(|| {
        let machine = at_hand(registry, this, config.parallel.machine.as_deref())?;
        let mut settled = config.clone();
        let choice = memory::settle(&mut settled, &machine).map_err(Failure::run)?;
        let settled = SettledMemory {
            recompute: settled.training.recompute,
            activations: settled.placement.activations,
            sentences: choice.map_or(Vec::new(), |choice| choice.sentences()),
        };
        serde_json::to_string(&settled).map_err(Failure::run)
    })?;
    let settled: SettledMemory = serde_json::from_str(&found).map_err(Failure::run)?;
    config.training.memory = MemoryMode::Stated;
    config.training.recompute = settled.recompute;
    config.placement.activations = settled.activations;
    config.check()?;
    Ok(settled.sentences)
}

// The named machine, or this one.
fn at_hand(registry: &Registry, this: &ThisMachine, named: Option<&str>) -> Outcome<Machine> {
    match named {
        Some(named) => Machine::find(named).map_err(Failure::usage),
        None => this.description(registry),
    }
}
