//! Steps on devices that compute nothing, with the grid, batch and schedule of a run: one thread for each pipeline stage, whose
//! rank stands for all ranks of the stage.

use crate::{Config, Result, config::MemoryMode, trainer::Trainer};
use bootstrap::{
    FailureKind, World,
    local::{self, Options, StandIns},
};
use grid::{Axis, Coordinates, Grid};
use parallel::{Context, pipeline::ScheduleKind};
use std::{fmt::Display, ops::Range};
use tensor::Device;

/// Runs this number of steps; returns what `seen` finds in each stage's trainer after them. The ranks have the coordinates `of` on all
/// axes but Pipeline.
///
/// # Cost
/// The host's part of the steps.
/// # Errors
/// Why a step fails, in words.
pub(crate) fn steps<T: Send + 'static>(
    mut config: Config,
    (of, number): (Coordinates, u64),
    seen: fn(&Trainer) -> T,
) -> std::result::Result<Vec<T>, String> {
    // These need a device that computes, and decide no sum.
    config.training.graph = false;
    config.parallel.checked = false;
    config.training.digest_every = 0;
    config.training.memory = MemoryMode::Stated;
    if let ScheduleKind::MessageDriven { .. } = config.parallel.schedule {
        config.parallel.schedule = ScheduleKind::OneForwardOneBackward;
    }
    let text = |error: &dyn Display| error.to_string();
    let grid = config.grid().map_err(|error| text(&error))?;
    let stands_for = move |rank: usize| {
        let stage = grid.coordinates(rank).get(Axis::Pipeline);
        grid.rank(&of.with(Axis::Pipeline, stage))
    };
    let stand_ins = StandIns::new(grid.world_size(), stands_for).map_err(|error| text(&error))?;
    let options = Options::new(grid.world_size()).with_stand_ins(stand_ins);
    let ended = local::run(options, move |world| {
        stage(&config, (grid, number), world, seen)
    });
    let mut stages = ended.map_err(|failure| match &failure.kind {
        FailureKind::Error(error) => text(error),
        _ => text(&failure),
    })?;
    stages.sort_by_key(|(stage, _)| *stage);
    Ok(stages.into_iter().map(|(_, seen)| seen).collect())
}

fn stage<T>(
    config: &Config,
    (grid, number): (Grid, u64),
    world: World,
    seen: fn(&Trainer) -> T,
) -> Result<(usize, T)> {
    let device = Device::new(hal::dry::open())?;
    let context = Context::new(world, grid, device, config.settings())?;
    let mut trainer = config.trainer(&context)?;
    let blank = |rows: Range<usize>| Ok(config.blank_rows(rows.len()));
    let mut batch = trainer.batch_of(0, blank)?;
    for next in 1..=number {
        // As in a run, rows come while the device works on the step before.
        let (_, rows) =
            trainer.step_beside(&batch, None, |trainer| trainer.batch_of(next, blank))?;
        batch = rows?;
    }
    Ok((context.index(Axis::Pipeline), seen(&trainer)))
}
