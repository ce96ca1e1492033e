//! What the bits of a run depend on, settled before its first step.
//!
//! Whether every sum of a model can be added in the order of its global tree is known to the layers alone. So a step
//! runs once on devices that compute nothing ([`dry`]). The layers then refuse what they would refuse in the
//! run itself.

use super::dry;
use crate::{
    Config, Error, Result,
    checkpoint::Reader,
    config::{BitsChoice, ObjectiveKind},
    trainer::stored,
};
use grid::{Coordinates, Degrees};
use hal::Capabilities;
use parallel::{Reproducible, pipeline::ScheduleKind};

/// Settles [`training.reproducible`](crate::config::TrainingConfig::reproducible) for devices with these capabilities,
/// and for the checkpoint from which the run resumes, if any. Every rank and process finds the same, without messages.
///
/// `auto` becomes what the checkpoint's run used; without a checkpoint `grid`, where the device keeps canonical sums and the
/// model can hold them on this grid, and otherwise `run`. Returns why it became `run`, in a sentence without its period.
///
/// # Cost
/// The host's part of one forward and backward of a pipeline.
/// # Errors
/// [`Error::Setting`] for `grid`, from the configuration or the checkpoint, where it cannot be held;
/// [`Error::Mismatch`] for a checkpoint of another program.
pub fn settle_bits(
    config: &mut Config,
    capabilities: &Capabilities,
    from: Option<&Reader>,
) -> Result<Option<String>> {
    if config.training.reproducible == BitsChoice::Auto
        && let Some(from) = from
        && let Some(used) = stored(from)?.config["training"]["reproducible"].as_str()
    {
        config.training.reproducible = used.parse()?;
    }
    let (chosen, obstacle) = match config.training.reproducible {
        BitsChoice::Fixed(Reproducible::Run) => return Ok(None),
        chosen => (chosen, obstacle(config, capabilities)),
    };
    let fixed = match (&obstacle, chosen) {
        (None, _) => Reproducible::Grid,
        (Some(_), BitsChoice::Auto) => Reproducible::Run,
        (Some(obstacle), BitsChoice::Fixed(_)) => {
            let found = format!("\"grid\" on grid {}", config.parallel.grid);
            let needed = format!(
                "another grid or device, or \"run\", with which the bits depend on the grid ({obstacle})"
            );
            return Err(Error::setting("training.reproducible", found, needed));
        }
    };
    config.training.reproducible = fixed.into();
    Ok(obstacle)
}

/// Lets a model of a run whose bits are the same on every grid generate on a grid on which it cannot hold them: `grid` becomes `run`.
///
/// # Cost
/// As [`settle_bits`], on a grid of several ranks.
pub fn settle_generation(config: &mut Config) {
    let degrees = config.parallel.grid;
    let is_cut = degrees != Degrees::default();
    if !is_cut || config.training.reproducible.or_run() != Reproducible::Grid {
        return;
    }
    // One row for each rank and stage, whatever the batch of the run was.
    let mut tried = config.clone();
    tried.training.micro_batches = degrees.pipeline;
    tried.training.batch = degrees.data * degrees.z * degrees.pipeline;
    tried.training.objective = ObjectiveKind::default();
    tried.parallel.schedule = ScheduleKind::default();
    tried.parallel.stages = None;
    let fails = |reproducible| dry_step(&tried, reproducible).is_some();
    // What fails either way fails for another reason, which the generator will report.
    if fails(Reproducible::Grid) && !fails(Reproducible::Run) {
        config.training.reproducible = Reproducible::Run.into();
    }
}

// Why the bits cannot be the same on every grid.
fn obstacle(config: &Config, capabilities: &Capabilities) -> Option<String> {
    if !capabilities.canonical_sums {
        let device = &capabilities.description;
        return Some(format!("{device} adds in an order of its own"));
    }
    let refusal = dry_step(config, Reproducible::Grid)?;
    // A step that fails either way fails for another reason, which the run will report.
    match (
        dry_step(config, Reproducible::Run),
        config.training.reproducible,
    ) {
        (Some(_), BitsChoice::Fixed(_)) => None,
        _ => Some(refusal),
    }
}

// The error of a step on devices that compute nothing, if it fails.
fn dry_step(config: &Config, reproducible: Reproducible) -> Option<String> {
    let mut config = config.clone();
    config.training.reproducible = reproducible.into();
    // The first replica and shard have the most rows of every micro-batch.
    dry::steps(config, (Coordinates::default(), 1), |_| ()).err()
}
