//! The training step in which kernels and collectives are timed.

use super::super::workload;
use crate::{
    failure::{Failure, Outcome},
    numbers::Spread,
    ranks::Team,
};
use bootstrap::World;
use grid::{Degrees, machine::Machine};
use hal::Driver;
use parallel::{Context, data::Sharding};
use plan::{Candidate, Request, enumerate, picture};
use std::time::Instant;
use tensor::{Device, trace};
use train::{Config, Families, config::Precision};

/// Warm-up steps, steps that are traced, and steps that are timed one by one.
const WARM_UP: u64 = 3;
const TRACED: u64 = 5;
const TIMED: u64 = 25;

/// A step of a medium-sized model on a grid, as the planner describes it.
pub(super) fn of(
    families: &Families,
    machine: &Machine,
    degrees: Degrees,
) -> Outcome<(Request, Candidate)> {
    let sizes = [
        ("layers", 2),
        ("hidden", 256),
        ("heads", 8),
        ("context", 128),
        ("vocabulary", 512),
    ];
    let keys = sizes.map(|(key, size)| (key, toml::Value::Integer(size)));
    let model = families.edited(None, keys)?;
    let ranks = degrees.x * degrees.y * degrees.z * degrees.data * degrees.pipeline;
    let request = Request {
        batch: 16,
        precision: Precision::F32,
        grid: Some(degrees),
        micro_batches: Some(1),
        recompute: Some(false),
        sharding: Some(Sharding::None),
        ..Request::new(machine.clone(), ranks, "measured", model).map_err(Failure::run)?
    };
    let candidate = enumerate::candidates(&request).into_iter().next();
    let candidate = candidate.ok_or_else(|| Failure::run(format!("no step for {ranks} ranks")))?;
    Ok((request, candidate))
}

/// Microseconds per step by stream and name, on rank 0.
pub(super) fn traced(driver: Driver, config: Config) -> Outcome<picture::Totals> {
    on_every_rank(driver, config, |_, device, step| {
        trace::start(device);
        (0..TRACED).try_for_each(|_| step())?;
        Ok(picture::totals(&trace::finish(device)?, TRACED as f64))
    })
}

/// Seconds per step, from one barrier to the next.
pub(super) fn seconds(driver: Driver, config: Config) -> Outcome<f64> {
    on_every_rank(driver, config, |world, device, step| {
        let everyone = world.everyone();
        let mut seconds = Vec::new();
        for _ in 0..TIMED {
            everyone.barrier()?;
            let begun = Instant::now();
            step()?;
            device.compute().synchronize()?;
            everyone.barrier()?;
            seconds.push(begun.elapsed().as_secs_f64());
        }
        Ok(Spread::of(&seconds).median)
    })
}

// The value that `body` computes from steps on rank 0.
fn on_every_rank<T: Default + Send + 'static>(
    driver: Driver,
    config: Config,
    body: impl Fn(&World, &Device, &mut dyn FnMut() -> train::Result<()>) -> train::Result<T>
    + Send
    + Sync
    + 'static,
) -> Outcome<T> {
    let grid = config.grid()?;
    let text = workload::text(&config.model)?;
    let ids = workload::random_ids(text, config.training.batch);
    let ranks = Team::new(grid.world_size(), 1).run(driver, move |world, device| {
        let context = Context::new(world.clone(), grid, device.clone(), config.settings())?;
        let mut trainer = config.trainer(&context)?;
        let batch = workload::batch(&trainer, text, &ids, 0)?;
        let mut step = || trainer.step(&batch).map(drop);
        (0..WARM_UP).try_for_each(|_| step())?;
        body(world, device, &mut step)
    })?;
    Ok(ranks.into_iter().next().unwrap_or_default())
}
