//! `fascicle replay`: a recorded rank, run again without the others.

use crate::{
    Registry, device,
    failure::{Failure, Outcome},
    output,
};
use clap::Args;
use replay::Tape;
use serde_json::json;
use std::{path::PathBuf, sync::Arc};
use tensor::Device;
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
        let carried = device::chosen(Some(&header.vendor), &registry.drivers)?;
        let driver = device::preferred(&carried)?;
        let folder = tempfile::Builder::new()
            .prefix("fascicle-replay-")
            .tempdir();
        let folder = folder.map_err(|error| Failure::run(format!("temporary folder: {error}")))?;
        let (place, grid) = (header.place(), config.parallel.grid);
        let (threads, settings) = (config.parallel.threads, config.device_settings());
        let device = device::open(driver, threads, settings)?;
        let device = Device::new(device).map_err(Failure::run)?;
        let begin = (config, folder.path());
        let (world, device, run) = recording::replay(&device, &header, &tape, begin)?;
        let summary = train::run::run(&world, &device, &run, &Silent, &Stop::default())?;
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
