//! `fascicle train --plan`: the planner's best grid for the machine at hand.

use crate::{
    Registry,
    commands::bench,
    failure::{Failure, Outcome},
    output,
};
use grid::machine::Machine;
use hal::environment::table;
use plan::{Request, search};
use std::{env, fs, path::PathBuf, time::Duration};
use train::Config;

/// Time limit of the simulations; these models are small.
const BUDGET: Duration = Duration::from_secs(5);

/// The configuration with the best grid, order, schedule and micro-batches for its number of ranks.
///
/// # Errors
/// [`Failure::Run`] if no grid fits the model, or none fits the memory; those of [`Config::grid`]; a machine that
/// cannot be found or measured.
pub(crate) fn planned(
    registry: &Registry,
    mut config: Config,
    machine: Option<&str>,
) -> Outcome<Config> {
    let machine = at_hand(registry, machine)?;
    let ranks = config.grid()?.world_size();
    let request = Request {
        batch: config.training.batch,
        precision: config.training.precision,
        optimiser: config.training.optimiser,
        allow_pipeline: true,
        overlap: Some(config.parallel.overlap.0),
        reproducible: config.training.reproducible,
        recompute: Some(config.training.recompute),
        memory_limit: config.device.memory_limit,
        placement: config.placement.clone(),
        budget: BUDGET,
        ..Request::new(machine, ranks, "the configured model", config.model.clone())
            .map_err(Failure::run)?
    };
    let plan = search(&request).map_err(Failure::run)?;
    let best = plan
        .best
        .first()
        .ok_or_else(|| Failure::run("--plan: found no way to run the model"))?;
    let chosen = best.candidate;
    output::note(&format!(
        "planned for {}: grid {}, order {}, {} micro-batches, {}; about {:.1} ms per step, the best of {} simulated",
        request.machine.name,
        chosen.degrees,
        chosen.order,
        chosen.micro_batches,
        chosen.schedule,
        best.step_s * 1e3,
        plan.num_simulated
    ));
    config.training.micro_batches = chosen.micro_batches;
    let parallel = &mut config.parallel;
    (parallel.grid, parallel.order, parallel.schedule) =
        (chosen.degrees, chosen.order.into(), chosen.schedule);
    (parallel.sharding, parallel.keep_gathered) = (chosen.sharding, chosen.keep_gathered);
    parallel.sequence_parallel = chosen.sequence_parallel;
    parallel.context_attention = chosen.context_attention;
    config.check()?;
    Ok(config)
}

// The named machine, or this one, which is measured once and whose description is kept.
fn at_hand(registry: &Registry, named: Option<&str>) -> Outcome<Machine> {
    if let Some(named) = named {
        return Machine::find(named).map_err(Failure::usage);
    }
    let path = kept();
    if !path.exists() {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)
                .map_err(|error| Failure::run(format!("{}: {error}", folder.display())))?;
        }
        output::note(&format!(
            "this machine is measured once, into {}",
            path.display()
        ));
        bench::save(registry, &path)?;
    }
    Machine::find(&path.to_string_lossy()).map_err(Failure::run)
}

fn kept() -> PathBuf {
    let cache = table::CACHE_HOME.read_os().map(PathBuf::from);
    let cache = cache.or_else(|| {
        table::HOME
            .read_os()
            .map(|home| PathBuf::from(home).join(".cache"))
    });
    cache
        .unwrap_or_else(env::temp_dir)
        .join("fascicle")
        .join("machine.toml")
}
