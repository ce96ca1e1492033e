//! Before a run is resumed: what its nodes have kept becomes a checkpoint of the run.

use crate::{
    failure::{Failure, Outcome},
    launcher,
    numbers::grouped,
    output,
};
use bootstrap::{World, local::Options};
use std::path::Path;
use train::run::recover_local;

/// Copies the newest local checkpoint of the run in `dir` into its folder, if it has any and one is newer. Every process of a job
/// arrives here.
pub(crate) fn recover(dir: &Path) -> Outcome {
    let world = match launcher::processes() {
        Some(processes) => processes
            .world(Options::DEFAULT_TIMEOUT)
            .map_err(Failure::run)?,
        None => World::alone(),
    };
    let Some(recovery) = recover_local(&world, dir)? else {
        return Ok(());
    };
    for reason in &recovery.passed_over {
        output::note(&format!("warning: {reason}"));
    }
    output::note(&match recovery.recovered {
        Some((step, path)) => format!(
            "the nodes have kept a checkpoint of step {}: it is now {}",
            grouped(step),
            path.display()
        ),
        None => {
            "the nodes have kept no whole checkpoint that is newer than those of the run".into()
        }
    });
    Ok(())
}
