//! `fascicle train --survive`: when processes die, the survivors continue the run.
//!
//! They form a job of their own, on a grid that fits it, and resume from the newest checkpoint as another start of the command
//! would: nothing of the job that has failed is used again but the processes and their devices.

use super::Train;
use crate::{
    Registry,
    failure::{Failure, Outcome},
    launcher,
    numbers::counted,
    output,
    recovery::{self, newest_step},
};
use grid::Demands;

/// Deaths in a row without a new checkpoint that a run outlives: a mistake that kills a process would kill all of them, one by
/// one.
const FRUITLESS: u32 = 5;

/// Trains until the run is complete, has failed for another reason than a death, or gains nothing between deaths.
pub(super) fn run(train: &Train, registry: &Registry) -> Outcome {
    let dir = train.begins_again().ok_or_else(|| {
        Failure::usage("--survive: found a run that cannot be resumed, needs --out DIR --auto-resume, or --resume DIR")
    })?;
    launcher::outlive()?;
    let demands = train.demands(&registry.families)?;
    let all = launcher::num_ranks().unwrap_or(1);
    // A run that states more ranks than there are processes is refused as any such run is.
    let stated = train.ranks_of_run(&registry.families)?;
    let mut size = Size {
        ranks: stated.map_or(all, |stated| stated.min(all)),
        demands,
    };
    let (mut command, mut fruitless, mut step) = (train.clone(), 0, newest_step(dir));
    // A process that stands by returns once others have died.
    let ranks = launcher::reform(&|left| match left == all {
        true => Some(size.ranks),
        false => size.of(left),
    })?;
    size.change(ranks, &mut command);
    loop {
        let outcome = command.attempt(registry);
        let report = match outcome {
            Err(Failure::Run(report) | Failure::Usage(report)) if launcher::goes_on() => report,
            outcome => return outcome,
        };
        let ranks = launcher::reform(&|left| size.of(left))?;
        let before = std::mem::replace(&mut step, newest_step(dir));
        fruitless = match step > before {
            true => 1,
            false => fruitless + 1,
        };
        if fruitless > FRUITLESS {
            let deaths = counted(fruitless as usize, "death");
            return Err(Failure::Run(format!(
                "--survive: {deaths} in a row without a new checkpoint; the last: {report}"
            )));
        }
        output::note(&report);
        output::note(&format!(
            "the run continues in {} that are left, {}",
            counted(ranks, "process"),
            recovery::beginning(step)
        ));
        size.change(ranks, &mut command);
    }
}

/// How many processes work.
struct Size {
    ranks: usize,
    demands: Demands,
}

impl Size {
    // Of those that are left: as many as before, or the most for which the model has a grid.
    fn of(&self, left: usize) -> Option<usize> {
        let fits = |ranks: &usize| !self.demands.fits(*ranks).is_empty();
        match self.ranks <= left {
            true => Some(self.ranks),
            false => (1..=left).rev().find(fits),
        }
    }

    // The grid that the command states is that of as many ranks as before.
    fn change(&mut self, ranks: usize, command: &mut Train) {
        if self.ranks != ranks {
            self.ranks = ranks;
            command.overrides.take_ranks(ranks);
        }
    }
}
