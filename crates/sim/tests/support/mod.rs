//! Jobs on simulated machines, for the tests in this folder.

#![allow(dead_code, reason = "each test program uses a part")]

use bootstrap::local;
use fascicle_sim as sim;
use grid::machine::Machine;
use hal::Result;
use parallel::Context;
use sim::{Breakdown, Options, Recorder, Work, cost::Costs};
use std::{sync::Arc, time::Duration};
use train::Config;

/// A device of a job of `ranks` ranks.
pub fn device(
    machine: &Machine,
    ranks: usize,
    rank: usize,
    live: Option<Arc<[usize]>>,
) -> Result<(Arc<dyn hal::Device>, Recorder)> {
    let costs = Arc::new(Costs::new(Arc::new(machine.clone()), ranks));
    sim::open_recorded(Options {
        costs,
        ordinal: rank,
        live,
        description: machine.title.clone(),
    })
}

/// Perlmutter as shipped.
pub fn perlmutter() -> Machine {
    Machine::find("perlmutter").unwrap_or_else(|error| panic!("{error}"))
}

/// The result of a live rank.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    pub step_s: f64,
    pub breakdown: Breakdown,
    pub log: Vec<Work>,
    pub peak_bytes: usize,
}

/// Trains for three steps on the machine, and returns the last step of every live rank.
pub fn train(
    machine: &Machine,
    config: &Config,
    stand_ins: Option<local::StandIns>,
) -> Vec<Outcome> {
    let (machine, config) = (machine.clone(), config.clone());
    let grid = config.grid().unwrap_or_else(|error| panic!("{error}"));
    let ranks = grid.world_size();
    let live: Option<Arc<[usize]>> = stand_ins.as_ref().map(|stand_ins| stand_ins.live().into());
    let mut options = local::Options::new(ranks).with_timeout(Duration::from_secs(20));
    if let Some(stand_ins) = stand_ins {
        options = options.with_stand_ins(stand_ins);
    }
    let run = local::run(options, move |world| -> train::Result<Outcome> {
        let (device, recorder) = device(&machine, ranks, world.rank(), live.clone())?;
        let context = Context::new(
            world,
            config.grid()?,
            tensor::Device::new(device)?,
            config.settings(),
        )?;
        let mut trainer = config.trainer(&context)?;
        for step in 0..3 {
            let batch = testkit::fixed_batch(&trainer, &config, step)?;
            recorder.keep_log(true);
            recorder.begin()?;
            trainer.step(&batch)?;
            recorder.synchronize()?;
        }
        let breakdown = recorder.finish()?;
        let (step_s, log, peak_bytes) = (
            breakdown.total_s,
            recorder.take_log(),
            recorder.peak_bytes(),
        );
        Ok(Outcome {
            step_s,
            breakdown,
            log,
            peak_bytes,
        })
    });
    run.unwrap_or_else(|failure| panic!("{}", failure.report()))
}
