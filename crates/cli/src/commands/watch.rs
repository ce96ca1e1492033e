//! `fascicle watch`: the progress of a run that another process trains.

use crate::{
    failure::{Failure, Outcome},
    numbers::grouped,
    output,
    past_run::{PastRun, nats},
    progress::Progress,
};
use clap::Args;
use std::{
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};
use train::{
    metrics::{Follower, Record},
    run::RunLock,
};

/// Arguments of `fascicle watch`.
#[derive(Args, Debug)]
pub(crate) struct Watch {
    /// Directory of the run, which may not have begun
    run: PathBuf,
    /// Seconds to wait for the run's first step
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    wait: u64,
}

/// Time between two looks at the run's records.
const LOOK: Duration = Duration::from_millis(250);

impl Watch {
    /// Shows the run's steps until it ends.
    pub(crate) fn run(&self) -> Outcome {
        let mut follower = Follower::new(&self.run.join("metrics.jsonl"));
        let past = self.begun(&mut follower)?;
        let num_steps = PastRun::read(&self.run)?.num_steps();
        let progress = Progress::of_another(num_steps, &past);
        let mut last = past.last().map_or(0, |record| record.step);
        loop {
            // The run may write its last records between a look at them and one at its lock.
            let is_over = last >= num_steps || !RunLock::is_held(&self.run);
            for record in follower.new_lines::<Record>().map_err(Failure::run)? {
                progress.show(&record);
                last = record.step;
            }
            if is_over {
                break;
            }
            thread::sleep(LOOK);
        }
        progress.leave();
        let how = match last >= num_steps {
            true => "complete",
            false => "ended",
        };
        let loss = nats(PastRun::read(&self.run)?.loss());
        output::result(&format!(
            "{how} after step {} of {}: loss {loss}, the mean of the last 20 steps",
            grouped(last),
            grouped(num_steps)
        ))
    }

    // The records so far, once there is one.
    fn begun(&self, follower: &mut Follower) -> Outcome<Vec<Record>> {
        let begun = Instant::now();
        let mut has_said = false;
        loop {
            let records: Vec<Record> = follower.new_lines().map_err(Failure::run)?;
            if !records.is_empty() {
                return Ok(records);
            }
            if !std::mem::replace(&mut has_said, true) {
                output::note(&format!(
                    "waiting for the first step of {}, {} s at most",
                    self.run.display(),
                    grouped(self.wait)
                ));
            }
            if begun.elapsed().as_secs() >= self.wait {
                return Err(Failure::Run(format!(
                    "{}: found no step within {} s, needs the folder of a run that trains",
                    self.run.display(),
                    self.wait
                )));
            }
            thread::sleep(LOOK);
        }
    }
}
