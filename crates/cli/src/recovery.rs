//! Before a run is resumed: what its nodes have kept, or its store, becomes a checkpoint of the run.

use crate::{
    failure::{Failure, Outcome},
    launcher,
    numbers::grouped,
    output,
};
use bootstrap::{World, local::Options};
use std::path::Path;
use train::{
    checkpoint::Reader,
    config::CheckpointConfig,
    run::{recover_local, recover_stored},
};

/// Copies the newest local checkpoint of the run in `dir` into its folder, if it has any and one is newer. Every process of a job
/// arrives here.
pub(crate) fn recover(dir: &Path) -> Outcome {
    let world = world()?;
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

/// Copies the newest checkpoint of the run's store into `dir`, if that has no intact one. Every process of a job arrives here.
pub(crate) fn from_store(dir: &Path, config: &CheckpointConfig) -> Outcome {
    if let Some(fallback) = recover_stored(&world()?, dir, config)? {
        output::note(&format!("warning: {}", fallback.reason));
        if let Some(path) = fallback.set_aside {
            output::note(&format!("the damaged checkpoint is now {}", path.display()));
        }
        output::note(&format!(
            "taken from {}: it is now {}",
            fallback.url,
            fallback.path.display()
        ));
    }
    Ok(())
}

/// The step of the newest checkpoint in `dir`, if it has one.
pub(crate) fn newest_step(dir: &Path) -> Option<u64> {
    Reader::open(dir).ok().map(|reader| reader.step())
}

/// Where a run that resumes begins, in words.
pub(crate) fn beginning(step: Option<u64>) -> String {
    step.map_or_else(
        || "from the beginning".to_owned(),
        |step| format!("from the checkpoint of step {}", grouped(step)),
    )
}

fn world() -> Outcome<World> {
    match launcher::processes() {
        Some(processes) => processes
            .world(Options::DEFAULT_TIMEOUT)
            .map_err(Failure::run),
        None => Ok(World::alone()),
    }
}
