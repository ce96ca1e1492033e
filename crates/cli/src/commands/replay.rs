//! `fascicle replay`: a recorded rank, run again without the others.

use crate::{
    Registry,
    failure::{Failure, Outcome},
    output,
    ranks::Team,
};
use clap::Args;
use hal::driver;
use replay::Tape;
use serde_json::json;
use std::{path::PathBuf, sync::Arc};
use train::{
    Observer, Stop,
    run::recording::{self, Header},
};

/// Arguments of `fascicle replay`.
#[derive(Args, Debug)]
pub(crate) struct Replay {
    /// The file that `fascicle train --record` wrote
    file: PathBuf,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// A rank that is run again reports only its end.
struct Silent;

impl Observer for Silent {}

impl Replay {
    /// Runs the rank, and fails where it leaves the recording.
    pub(crate) fn run(&self, registry: &Registry) -> Outcome {
        let tape = Arc::new(Tape::open(&self.file).map_err(Failure::usage)?);
        let header = Header::of(&tape).map_err(Failure::usage)?;
        let config = header.config(&registry.families).map_err(Failure::usage)?;
        let carried = driver::carried(Some(&header.vendor), &registry.drivers);
        let driver = carried.and_then(|drivers| driver::usable(&drivers));
        let folder = tempfile::Builder::new()
            .prefix("fascicle-replay-")
            .tempdir();
        let folder = folder.map_err(|error| Failure::run(format!("temporary folder: {error}")))?;
        let (place, grid) = (header.place(), config.parallel.grid);
        let team = Team::new(1, config.parallel.threads).with_device(config.device.settings());
        let dir = folder.path().to_owned();
        let ranks = team.run(driver.map_err(Failure::run)?, move |_, device| {
            let begin = (config.clone(), &*dir);
            let (world, device, run) = recording::replay(device, &header, &tape, begin)?;
            train::run::run(&world, &device, &run, &Silent, &Stop::default())
        });
        let summary = ranks?.swap_remove(0);
        let (rank, size, steps, loss) = (place.rank, place.size, summary.steps, summary.loss);
        match self.json {
            true => {
                output::json(&json!({"rank": rank, "ranks": size, "steps": steps, "loss": loss}))
            }
            false => output::result(&format!(
                "rank {rank} of {size} on grid {grid}: {steps} steps, loss {loss}; all that it sent has the recorded bits"
            )),
        }
    }
}
